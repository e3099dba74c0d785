"""The localized Gaussian process against its n × n formulation around each centroid, and its shortcuts."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import gammaincc, gammainccinv
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    StructuredOrthogonalFourierFeatures,
    TaylorFeatures,
    farthest_point_clustering,
)
from lmgp.errors import InputError
from lmgp.metrics import kl_divergence

# No powers of two: rows must survive the way into lengthscales and back.
LENGTHSCALE = np.array([1.1, 0.6])
VARIANCE = 2.0
NOISE = 0.05
KERNEL = GaussianKernel(LENGTHSCALE, VARIANCE)

TRUNCATED = {
    "gaussian": OptimizedMaclaurinFeatures(30, sketch="gaussian"),
    "rademacher": OptimizedMaclaurinFeatures(30, sketch="rademacher"),
    "tensor_srht": OptimizedMaclaurinFeatures(30, sketch="tensor_srht"),
    "taylor": TaylorFeatures(30),
}
UNTRUNCATED = {
    "rff": RandomFourierFeatures(30),
    "orf": OrthogonalFourierFeatures(30),
    "sorf": StructuredOrthogonalFourierFeatures(30),
    "kar_karnick": RandomMaclaurinFeatures(30),
}
MAPS = {**TRUNCATED, **UNTRUNCATED}
MISSING = ("sor", "dtc", "fitc")


def draw(n: int = 80, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows over several lengthscales, away from the origin; y away from zero; test rows, some far away."""
    rng = np.random.default_rng(seed)
    X = rng.uniform([8.0, -3.0], [14.0, -1.0], (n, 2))
    y = 3.0 + np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)
    return X, y, np.concatenate((rng.uniform([8.0, -3.0], [14.0, -1.0], (15, 2)), X[:2] + 2.0, X[:2] + 30.0))


def model_of(name: str, approximation: str = "dtc", **parameters) -> LocalizedGPRegressor:
    defaults = {"kernel": KERNEL, "noise_variance": NOISE, "prune": 0.0, "random_state": 0}
    return LocalizedGPRegressor(MAPS[name], approximation=approximation, **{**defaults, **parameters})


def left_out(model: LocalizedGPRegressor, rows: np.ndarray) -> np.ndarray:
    """The prior variance that the map leaves out of rows that are differences to the centroid, in closed form."""
    degree = getattr(model.features_, "degree_", None)
    if degree is None:
        return np.zeros(len(rows))
    kernel = model.kernel_
    return kernel.variance * (1.0 - gammaincc(degree + 1, np.sum((rows / kernel.lengthscale) ** 2, axis=1)))


def expected_of(model, X, y, T, noise, centroids) -> tuple[np.ndarray, np.ndarray]:
    """Each test row from the n × n model of its nearest centroid, with the features of a fitted model."""
    scale = model.kernel_.scale
    nearest = np.argmin(cdist(scale(T), scale(centroids)), axis=1)
    mean, variance = np.empty(len(T)), np.empty(len(T))
    for index in np.unique(nearest):
        rows, new = X - centroids[index], T[nearest == index] - centroids[index]
        phi, psi = model.features_.transform(rows), model.features_.transform(new)
        covariance = phi @ phi.T + np.diag(noise)
        if model.approximation == "fitc":
            covariance += np.diag(left_out(model, rows))
        cross = phi @ psi.T
        mean[nearest == index] = y.mean() + cross.T @ np.linalg.solve(covariance, y - y.mean())
        left = np.sum(psi**2, axis=1) - np.sum(cross * np.linalg.solve(covariance, cross), axis=0)
        variance[nearest == index] = left + (0.0 if model.approximation == "sor" else left_out(model, new))
    return mean, variance


def assert_predicts(model: LocalizedGPRegressor, T, expected: tuple[np.ndarray, np.ndarray]) -> None:
    mean, std = model.predict(T, return_std=True)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(std**2, expected[1], rtol=1e-9, atol=1e-11)


class TestAgainstTheDenseFormulation:
    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", MISSING)
    def test_mean_and_variance(self, name: str, approximation: str) -> None:
        X, y, T = draw()
        model = model_of(name, approximation).fit(X, y)
        assert len(model.centroids_) > 5
        assert_predicts(model, T, expected_of(model, X, y, T, np.full(len(y), NOISE), model.centroids_))
        noisy = model.predict(T, return_std=True, include_noise=True)[1]
        np.testing.assert_allclose(noisy**2, model.predict(T, return_std=True)[1] ** 2 + NOISE, rtol=1e-12)

    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", MISSING)
    def test_weights_and_noise_variances(self, name: str, approximation: str) -> None:
        X, y, T = draw()
        rng = np.random.default_rng(4)
        counts, noise = rng.integers(0, 4, len(y)), rng.uniform(0.01, 0.5, len(y))
        model = model_of(name, approximation).fit(X, y, sample_weight=counts, noise_variances=noise)
        repeated = np.repeat(X, counts, axis=0), np.repeat(y, counts), T, np.repeat(noise, counts)
        assert_predicts(model, T, expected_of(model, *repeated, model.centroids_))
        assert model.center_ == pytest.approx(repeated[1].mean(), rel=1e-13)

    def test_weighted_equals_the_fit_to_repetitions(self) -> None:
        X, y, T = draw()
        counts = np.random.default_rng(4).integers(0, 4, len(y))
        for prune in (0.0, 1e-3):
            model = model_of("taylor", prune=prune)
            weighted = clone(model).fit(X, y, sample_weight=counts)
            repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
            assert weighted.reach_ == pytest.approx(repeated.reach_, rel=1e-12)
            np.testing.assert_allclose(weighted.centroids_, repeated.centroids_, rtol=1e-13)
            np.testing.assert_allclose(
                weighted.predict(T, return_std=True), repeated.predict(T, return_std=True), rtol=1e-9, atol=1e-10
            )

    @pytest.mark.parametrize("name", MAPS)
    def test_a_weight_of_zero_is_an_absent_row(self, name: str) -> None:
        X, y, T = draw()
        weights = np.random.default_rng(4).uniform(0.5, 2.0, len(y))
        weights[::3] = 0.0
        present = weights > 0
        model = model_of(name).fit(np.where(present[:, None], X, 1e6), y, sample_weight=weights)
        without = model_of(name).fit(X[present], y[present], sample_weight=weights[present])
        np.testing.assert_array_equal(model.centroids_, without.centroids_)
        np.testing.assert_array_equal(model.predict(T, return_std=True), without.predict(T, return_std=True))

    @pytest.mark.parametrize("name", MAPS)
    def test_given_centroids(self, name: str) -> None:
        X, y, T = draw()
        centroids = [[9.0, -2.0], [13.0, -2.0], [11.0, -2.5], [500.0, 500.0]]
        model = model_of(name, centroids=centroids).fit(X, y)
        np.testing.assert_array_equal(model.centroids_, centroids)
        assert_predicts(model, T, expected_of(model, X, y, T, np.full(len(y), NOISE), np.array(centroids)))
        assert model.centroids is centroids

    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", MISSING)
    def test_every_test_row_its_own_centroid(self, name: str, approximation: str) -> None:
        X, y, T = draw()
        T = np.concatenate((T, T[:4]))
        model = model_of(name, approximation, centroids="test_rows").fit(X, y)
        assert model.centroids_.shape == (0, 2)
        assert_predicts(model, T, expected_of(model, X, y, T, np.full(len(y), NOISE), T))

    def test_a_scikit_learn_transformer_sees_differences_to_the_centroid(self) -> None:
        X, y, T = draw()
        model = LocalizedGPRegressor(
            Nystroem(gamma=0.5, n_components=15),
            kernel=GaussianKernel(1.0, VARIANCE),
            noise_variance=NOISE,
            approximation="sor",
            random_state=0,
        ).fit(X, y)
        assert model.reach_ == np.inf
        mean, variance = expected_of(model, X, y, T, np.full(len(y), NOISE), model.centroids_)
        predicted_mean, predicted_std = model.predict(T, return_std=True)
        np.testing.assert_allclose(predicted_mean, mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(predicted_std**2, variance, rtol=0, atol=1e-8)


class TestPruning:
    """At most `prune` predictive standard deviations of the mean, and that share of the standard deviation."""

    @staticmethod
    def wide(d: int, seed: int, n: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        extent = np.concatenate(([60.0], np.full(d - 1, 3.0)))
        X = rng.uniform(0, extent, (n, d))
        # y as the hyper-parameters would have it, and rows both within and off the data.
        y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
        return X, y, np.concatenate((rng.uniform(0, extent, (30, d)), rng.uniform(-3, extent + 3, (10, d))))

    @staticmethod
    def n_left_out(model: LocalizedGPRegressor, X: np.ndarray) -> int:
        """The number of pairs of a row and a centroid that are out of reach."""
        return int(np.sum(cdist(model.kernel_.scale(X), model.kernel_.scale(model.centroids_)) > model.reach_))

    def assert_within(self, pruned, unpruned, T: np.ndarray, tolerance: float) -> None:
        mean, std = pruned.predict(T, return_std=True)
        expected_mean, expected_std = unpruned.predict(T, return_std=True)
        assert np.max(np.abs(mean - expected_mean) / expected_std) <= tolerance
        assert np.max(np.abs(std / expected_std - 1.0)) <= tolerance

    @pytest.mark.parametrize("name", TRUNCATED)
    @pytest.mark.parametrize("ratio", [1.0, 1e2, 1e4, 1e6])
    @pytest.mark.parametrize(("d", "seed"), [(1, 0), (2, 1), (3, 2)])
    def test_default_tolerance_is_kept(self, name: str, ratio: float, d: int, seed: int) -> None:
        X, y, T = self.wide(d, seed)
        parameters = {"kernel": GaussianKernel(1.0, 1.0), "noise_variance": 1 / ratio, "threshold": 2.0}
        pruned = LocalizedGPRegressor(MAPS[name], random_state=seed, **parameters).fit(X, y)
        assert pruned.prune == 1e-3
        unpruned = clone(pruned).set_params(prune=0).fit(X, y)
        assert unpruned.reach_ == np.inf
        # Most pairs are left out, or the test would be none.
        assert self.n_left_out(pruned, X) > 0.3 * len(X) * len(pruned.centroids_)
        self.assert_within(pruned, unpruned, T, 1e-3)

    @pytest.mark.parametrize("approximation", MISSING)
    @pytest.mark.parametrize("prune", [1e-6, 1e-3, 0.5])
    def test_any_tolerance_is_kept(self, prune: float, approximation: str) -> None:
        X, y, T = self.wide(2, 0)
        rng = np.random.default_rng(1)
        arguments = {"sample_weight": rng.uniform(0, 20, len(y)), "noise_variances": rng.uniform(1e-4, 1.0, len(y))}
        pruned = LocalizedGPRegressor(
            TaylorFeatures(28), kernel=GaussianKernel(1.0, 1.0), approximation=approximation, prune=prune
        ).fit(X, y, **arguments)
        unpruned = clone(pruned).set_params(prune=0).fit(X, y, **arguments)
        assert self.n_left_out(pruned, X) > 0
        self.assert_within(pruned, unpruned, T, prune)

    @pytest.mark.parametrize("name", TRUNCATED)
    @pytest.mark.parametrize("ratio", [1.0, 1e2, 1e4, 1e6])
    @pytest.mark.parametrize("own_noise", [False, True])
    def test_rows_crowded_just_out_of_reach(self, name: str, ratio: float, own_noise: bool) -> None:
        # What is left out is as much as the bound allows: many rows with one and the same large y, right beyond it.
        rng = np.random.default_rng(0)
        near = 0.3 * rng.normal(size=(15, 2))
        y = np.concatenate((0.1 * rng.normal(size=15), np.full(14 * 60, 1.0), np.full(14 * 60, -1.0)))
        model = LocalizedGPRegressor(
            MAPS[name],
            kernel=GaussianKernel(1.0, 1.0),
            noise_variance=100.0 if own_noise else 1 / ratio,
            centroids=np.zeros((1, 2)),
            approximation="sor",
            random_state=0,
        )
        # The least noise of any row counts, whatever that of new rows.
        noise = np.where(np.abs(y) == 1.0, 1 / ratio, 50.0) if own_noise else None
        crowd = np.full(14 * 60, 7.0)
        for _ in range(2):
            X = np.concatenate((near, np.column_stack((np.concatenate((crowd, np.full(14 * 60, 30.0))), 0 * y[15:]))))
            model.fit(X, y, noise_variances=noise)
            # The degree of an optimised map depends on the rows, but not what is negligible: a crowd for each degree.
            epsilon = gammaincc(model.features_.degree_ + 1, model.reach_**2)
            crowd = np.repeat(np.sqrt(gammainccinv(np.arange(2, 16) + 1, epsilon)), 60) * (1 + 1e-4)
        distances = np.linalg.norm(X, axis=1)
        assert np.sum((distances > model.reach_) & (distances < 1.001 * model.reach_)) == 60
        T = np.concatenate((near, 2 * rng.normal(size=(20, 2))))
        unpruned = clone(model).set_params(prune=0).fit(X, y, noise_variances=noise)
        self.assert_within(model, unpruned, T, 1e-3)

    def test_a_looser_tolerance_leaves_out_more(self) -> None:
        X, y, _ = self.wide(2, 0)
        model = LocalizedGPRegressor(TaylorFeatures(28), kernel=GaussianKernel(1.0), noise_variance=0.1)
        counts = [
            self.n_left_out(clone(model).set_params(prune=prune).fit(X, y), X) for prune in (0.0, 1e-9, 1e-3, 1.0)
        ]
        assert counts == sorted(set(counts))
        assert counts[0] == 0

    @pytest.mark.parametrize("name", UNTRUNCATED)
    def test_maps_without_a_degree_reach_everything(self, name: str) -> None:
        X, y, _ = draw()
        assert model_of(name, prune=1.0).fit(X, y).reach_ == np.inf

    def test_a_constant_target(self) -> None:
        X, _, T = self.wide(2, 0)
        model = LocalizedGPRegressor(TaylorFeatures(28), kernel=GaussianKernel(1.0), noise_variance=0.1)
        model.fit(X, np.full(len(X), 7.0))
        assert np.isfinite(model.reach_)
        np.testing.assert_array_equal(model.predict(T), 7.0)


class TestOneCentroid:
    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", MISSING)
    @pytest.mark.parametrize("weighted", [False, True])
    def test_is_the_global_model(self, name: str, approximation: str, weighted: bool) -> None:
        X, y, T = draw()
        rng = np.random.default_rng(2)
        arguments = {}
        if weighted:
            arguments = {"sample_weight": rng.integers(0, 4, len(y)), "noise_variances": rng.uniform(0.1, 1, len(y))}
        model = model_of(name, approximation, threshold=1e9).fit(X, y, **arguments)
        assert len(model.centroids_) == 1
        parameters = {"kernel": KERNEL, "noise_variance": NOISE, "approximation": approximation}
        world = FeaturizedGPRegressor(MAPS[name], random_state=0, **parameters).fit(X, y, **arguments)
        # To the last digit.
        np.testing.assert_array_equal(model.predict(T, return_std=True), world.predict(T, return_std=True))

    def test_the_first_centroid_is_the_weighted_mean(self) -> None:
        X, y, _ = draw()
        weights = np.random.default_rng(2).integers(0, 4, len(y))
        model = model_of("taylor", threshold=1e9).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(model.centroids_[0], np.repeat(X, weights, axis=0).mean(axis=0), rtol=1e-14)


class TestCentroids:
    @pytest.mark.parametrize("threshold", [0.3, 1.0, 2.5])
    def test_every_training_row_is_within_the_threshold_in_lengthscales(self, threshold: float) -> None:
        X, y, _ = draw(n=300)
        model = model_of("taylor", threshold=threshold).fit(X, y)
        distances = cdist(X / LENGTHSCALE, model.centroids_ / LENGTHSCALE).min(axis=1)
        assert np.all(distances < threshold)
        assert 1 < len(model.centroids_) < len(X)
        # And no more centroids than the published algorithm takes.
        expected = farthest_point_clustering(X / LENGTHSCALE, threshold) * LENGTHSCALE
        np.testing.assert_allclose(model.centroids_, expected, rtol=1e-12)
        np.testing.assert_allclose(model.centroids_[0], X.mean(axis=0), rtol=1e-14)

    @pytest.mark.parametrize("name", ["taylor", "rademacher", "gaussian", "tensor_srht"])
    def test_the_kernel_is_exact_at_the_centre(self, name: str) -> None:
        X, y, T = draw()
        model = model_of(name, centroids="test_rows").fit(X, y)
        at_centre = model.features_.transform(np.zeros((1, 2)))
        for row in T:
            approximate = at_centre @ model.features_.transform(X - row).T
            np.testing.assert_allclose(approximate, KERNEL(row[None, :], X), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(np.sum(at_centre**2), VARIANCE, rtol=1e-14)

    @pytest.mark.parametrize("name", TRUNCATED)
    @pytest.mark.parametrize("approximation", MISSING)
    @pytest.mark.parametrize("prune", [0.0, 1e-3])
    @pytest.mark.parametrize("distance", [20.0, 1e3, 1e8])
    def test_far_from_the_data_every_test_row_is_the_prior(
        self, name: str, approximation: str, prune: float, distance: float
    ) -> None:
        X, y, _ = draw()
        model = model_of(name, approximation, centroids="test_rows", prune=prune).fit(X, y)
        mean, std = model.predict(X[:4] + distance, return_std=True)
        np.testing.assert_allclose(mean, y.mean(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(std**2, VARIANCE, rtol=1e-12)
        noisy = model.predict(X[:4] + distance, return_std=True, include_noise=True)[1]
        np.testing.assert_allclose(noisy**2, VARIANCE + NOISE, rtol=1e-12)

    @pytest.mark.parametrize("name", TRUNCATED)
    @pytest.mark.parametrize("approximation", ["dtc", "fitc"])
    @pytest.mark.parametrize("prune", [0.0, 1e-3])
    @pytest.mark.parametrize("distance", [20.0, 1e3, 1e8, 1e100])
    def test_far_from_farthest_point_centroids_is_the_prior(
        self, name: str, approximation: str, prune: float, distance: float
    ) -> None:
        X, y, _ = draw()
        model = model_of(name, approximation, prune=prune).fit(X, y)
        mean, std = model.predict(X[:4] + distance, return_std=True)
        np.testing.assert_allclose(mean, y.mean(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(std**2, VARIANCE, rtol=1e-12)

    @pytest.mark.parametrize("centroids", ["farthest_point", "test_rows", np.array([[9.0, -2.0], [13.0, -2.0]])])
    def test_rows_beyond_all_measure(self, centroids) -> None:
        # Squared distances overflow; the exact process still answers with the prior.
        X, y, _ = draw()
        model = model_of("taylor", centroids=centroids).fit(X, y)
        mean, std = model.predict([[1e200, 0.0], [0.0, -1e200]], return_std=True)
        np.testing.assert_allclose(mean, y.mean(), rtol=1e-12)
        np.testing.assert_allclose(std**2, VARIANCE, rtol=1e-12)

    def test_centroids_of_another_width_are_an_error(self) -> None:
        X, y, _ = draw()
        with pytest.raises(InputError, match=r"as many columns as X, 2; got shape \(4, 3\)"):
            model_of("taylor", centroids=np.zeros((4, 3))).fit(X, y)

    def test_duplicate_centroids_and_rows(self) -> None:
        X, y, T = draw()
        once = model_of("taylor", centroids=[[9.0, -2.0], [13.0, -2.0]]).fit(X, y)
        twice = model_of("taylor", centroids=[[9.0, -2.0], [13.0, -2.0], [9.0, -2.0]]).fit(X, y)
        np.testing.assert_allclose(
            twice.predict(T, return_std=True), once.predict(T, return_std=True), rtol=0, atol=1e-12
        )
        double = np.concatenate((X, X)), np.concatenate((y, y))
        model = model_of("taylor").fit(*double)
        assert_predicts(model, T, expected_of(model, *double, T, np.full(2 * len(y), NOISE), model.centroids_))


class TestNearness:
    def test_taylor_is_nearer_to_the_exact_process_than_fourier_features_of_the_same_size(self) -> None:
        rng = np.random.default_rng(0)
        X, T = rng.uniform(0, 8, (500, 2)), rng.uniform(0, 8, (100, 2))
        y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=500)
        parameters = {"kernel": GaussianKernel(1.0, 0.5), "noise_variance": 0.01}
        exact = ExactGPRegressor(**parameters).fit(X, y).predict(T, return_std=True, include_noise=True)

        def divergence(model) -> float:
            mean, std = model.fit(X, y).predict(T, return_std=True, include_noise=True)
            return float(np.mean(kl_divergence(mean, std**2, exact[0], exact[1] ** 2)))

        taylor = divergence(LocalizedGPRegressor(TaylorFeatures(120), threshold=1.0, **parameters))
        fourier = [
            divergence(FeaturizedGPRegressor(RandomFourierFeatures(120), random_state=seed, **parameters))
            for seed in range(3)
        ]
        assert 5 * taylor < min(fourier)

    def test_enough_monomials_make_the_exact_process_at_every_centroid(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0, 12, (150, 1))
        y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=150)
        T = rng.uniform(0, 12, (40, 1))
        parameters = {"kernel": GaussianKernel(1.0, VARIANCE), "noise_variance": 0.01}
        exact = ExactGPRegressor(**parameters).fit(X, y).predict(T, return_std=True)
        model = LocalizedGPRegressor(TaylorFeatures(200), threshold=1.0, prune=0.0, **parameters).fit(X, y)
        np.testing.assert_allclose(model.predict(T, return_std=True), exact, rtol=0, atol=1e-7)
        # The rows between the reach and infinity are known to the tolerance, in standard deviations.
        mean, std = clone(model).set_params(prune=1e-3).fit(X, y).predict(T, return_std=True)
        assert np.max(np.abs(mean - exact[0]) / exact[1]) < 1e-3
        assert np.max(np.abs(std / exact[1] - 1)) < 1e-3


class TestPredict:
    @pytest.mark.parametrize("centroids", ["farthest_point", "test_rows"])
    @pytest.mark.parametrize("name", MAPS)
    def test_a_row_alone_is_predicted_as_in_company(self, name: str, centroids: str) -> None:
        X, y, T = draw()
        T = np.concatenate((T, T[:3], X[:3], X[:1]))
        model = model_of(name, centroids=centroids).fit(X, y)
        together = np.transpose(model.predict(T, return_std=True))
        alone = [np.ravel(clone(model).fit(X, y).predict(row[None, :], return_std=True)) for row in T]
        np.testing.assert_allclose(alone, together, rtol=1e-11, atol=1e-12)
        order = np.random.default_rng(1).permutation(len(T))
        np.testing.assert_allclose(
            np.transpose(model.predict(T[order], return_std=True)), together[order], rtol=1e-11, atol=1e-12
        )

    @pytest.mark.parametrize("prune", [0.0, 1e-3])
    def test_order_of_the_training_rows_does_not_matter(self, prune: float) -> None:
        X, y, T = draw()
        order = np.random.default_rng(1).permutation(len(y))
        model = model_of("taylor", prune=prune)
        expected = clone(model).fit(X, y).predict(T, return_std=True)
        np.testing.assert_allclose(
            clone(model).fit(X[order], y[order]).predict(T, return_std=True), expected, rtol=1e-10, atol=1e-11
        )

    @pytest.mark.parametrize("centroids", ["farthest_point", "test_rows", [[9.0, -2.0]]])
    def test_changes_nothing(self, centroids) -> None:
        X, y, T = draw()
        model = model_of("rademacher", centroids=centroids).fit(X, y)
        before, names = copy.deepcopy(model), dict(vars(model))
        state = pickle.dumps(model)
        first = model.predict(T, return_std=True)
        np.testing.assert_array_equal(model.predict(T, return_std=True), first)
        np.testing.assert_array_equal(before.predict(T, return_std=True), first)
        assert pickle.dumps(model) == state
        assert list(vars(model)) == list(names)
        for name, value in names.items():
            assert vars(model)[name] is value
        assert list(model.get_params()) == list(before.get_params())

    @pytest.mark.parametrize("name", MAPS)
    def test_pickle(self, name: str) -> None:
        X, y, T = draw()
        model = model_of(name).fit(X, y)
        untouched = pickle.loads(pickle.dumps(model))
        expected = model.predict(T, return_std=True)
        np.testing.assert_array_equal(untouched.predict(T, return_std=True), expected)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(T, return_std=True), expected)

    @pytest.mark.parametrize("max_memory_gib", [0.0, 3 * 8 * (28**2 + 28) / 2**30])
    def test_the_size_of_the_cache_does_not_matter(self, max_memory_gib: float) -> None:
        X, y, T = draw()
        expected = model_of("taylor").fit(X, y).predict(T, return_std=True)
        model = model_of("taylor", max_memory_gib=max_memory_gib).fit(X, y)
        for _ in range(2):
            np.testing.assert_array_equal(model.predict(T, return_std=True), expected)

    def test_data_may_change_after_the_fit(self) -> None:
        X, y, T = draw()
        noise = np.full(len(y), NOISE)
        centroids = np.array([[9.0, -2.0], [13.0, -2.0]])
        for where in ("farthest_point", "test_rows", centroids):
            model = model_of("taylor", centroids=where)
            arrays = X.copy(), y.copy(), noise.copy()
            expected = clone(model).fit(X, y, noise_variances=noise).predict(T)
            model.fit(*arrays[:2], noise_variances=arrays[2])
            for array in arrays:
                array *= 3.0
            np.testing.assert_array_equal(model.predict(T), expected)

    @pytest.mark.parametrize("approximation", MISSING)
    @pytest.mark.parametrize("name", MAPS)
    def test_variance_is_never_negative(self, name: str, approximation: str) -> None:
        X, y, T = draw(n=200)
        T = np.concatenate((T, X))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = model_of(name, approximation, noise_variance=1e-8, prune=1e-3).fit(X, y)
            mean, std = model.predict(T, return_std=True)
        assert np.all(np.isfinite(mean))
        assert np.all(std >= 0.0)

    def test_y_may_have_any_mean(self) -> None:
        X, y, T = draw()
        mean, std = model_of("taylor", prune=1e-3).fit(X, y).predict(T, return_std=True)
        shifted_mean, shifted_std = model_of("taylor", prune=1e-3).fit(X, y + 1000.0).predict(T, return_std=True)
        np.testing.assert_allclose(shifted_mean - 1000.0, mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(shifted_std, std, rtol=1e-12)


class TestDefaults:
    @pytest.mark.parametrize(
        ("d", "expected"), [(1, TaylorFeatures), (4, TaylorFeatures), (5, OptimizedMaclaurinFeatures)]
    )
    def test_map(self, d: int, expected: type) -> None:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, d))
        model = LocalizedGPRegressor(kernel=GaussianKernel(1.0), noise_variance=0.1, random_state=0).fit(X, X[:, 0])
        assert type(model.features_) is expected
        assert model.features_.n_features == 512
        assert 400 < model.features_.n_features_out_ <= 512
        named = LocalizedGPRegressor(
            expected(512), 1.0, kernel=GaussianKernel(1.0), noise_variance=0.1, random_state=0, prune=1e-3
        ).fit(X, X[:, 0])
        np.testing.assert_array_equal(model.predict(X), named.predict(X))

    def test_parameters(self) -> None:
        parameters = LocalizedGPRegressor().get_params()
        assert parameters["threshold"] == 1.0
        assert parameters["centroids"] == "farthest_point"
        assert parameters["prune"] == 1e-3
        assert parameters["approximation"] == "dtc"

    def test_hyperparameters_are_those_of_the_exact_process(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (40, 1))
        y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=40)
        exact = ExactGPRegressor(max_learning_rows=30, random_state=0).fit(X, y)
        model = LocalizedGPRegressor(TaylorFeatures(10), max_learning_rows=30, random_state=0).fit(X, y)
        assert model.noise_variance_ == exact.noise_variance_
        assert model.kernel_.get_params() == exact.kernel_.get_params()
