"""The localized Gaussian process: its centroids, what it hands to the posteriors around them, its defaults."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    OptimizedMaclaurinFeatures,
    RandomFourierFeatures,
    TaylorFeatures,
    farthest_point_clustering,
)
from lmgp.errors import InputError
from lmgp.metrics import kl_divergence
from tests.conftest import APPROXIMATIONS, MAPS, TRUNCATED, counts_and_noises, draw

# No powers of two: rows must survive the way into lengthscales and back.
LENGTHSCALE = np.array([1.1, 0.6])
VARIANCE = 2.0
NOISE = 0.05
KERNEL = GaussianKernel(LENGTHSCALE, VARIANCE)


def model_of(name: str, approximation: str = "fitc", **parameters) -> LocalizedGPRegressor:
    defaults = {"kernel": KERNEL, "noise_variance": NOISE, "random_state": 0}
    return LocalizedGPRegressor(MAPS[name], approximation=approximation, **{**defaults, **parameters})


class TestPosteriors:
    """The model is the posteriors of `lmgp.posteriors.local`, whose own tests hold them against dense algebra."""

    @pytest.mark.parametrize("name", ["taylor", "rff"])
    def test_weighted_equals_the_fit_to_repetitions(self, name: str) -> None:
        X, y, T = draw()
        counts, _ = counts_and_noises(len(y))
        weighted = model_of(name).fit(X, y, sample_weight=counts)
        repeated = model_of(name).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
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

    def test_given_centroids(self) -> None:
        X, y, _ = draw()
        centroids = [[9.0, -2.0], [13.0, -2.0], [11.0, -2.5], [500.0, 500.0]]
        model = model_of("taylor", centroids=centroids).fit(X, y)
        np.testing.assert_array_equal(model.centroids_, centroids)
        assert model.centroids is centroids

    def test_of_every_test_row_its_own_there_are_no_centroids(self) -> None:
        X, y, _ = draw()
        assert model_of("taylor", centroids="test_rows").fit(X, y).centroids_.shape == (0, 2)


class TestOneCentroid:
    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
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
    @pytest.mark.parametrize("centroids", ["farthest_point", "test_rows"])
    @pytest.mark.parametrize("distance", [20.0, 1e8, 1e200])
    def test_far_from_the_data_is_the_prior(self, name: str, centroids: str, distance: float) -> None:
        X, y, _ = draw()
        model = model_of(name, centroids=centroids).fit(X, y)
        mean, std = model.predict(X[:4] + distance, return_std=True)
        np.testing.assert_allclose(mean, y.mean(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(std**2, VARIANCE, rtol=1e-12)
        noisy = model.predict(X[:4] + distance, return_std=True, include_noise=True)[1]
        np.testing.assert_allclose(noisy**2, VARIANCE + NOISE, rtol=1e-12)

    def test_centroids_of_another_width_are_an_error(self) -> None:
        X, y, _ = draw()
        with pytest.raises(InputError, match=r"as many columns as X, 2; got shape \(4, 3\)"):
            model_of("taylor", centroids=np.zeros((4, 3))).fit(X, y)


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
            expected(512), 1.0, kernel=GaussianKernel(1.0), noise_variance=0.1, random_state=0
        ).fit(X, X[:, 0])
        np.testing.assert_array_equal(model.predict(X), named.predict(X))

    def test_parameters(self) -> None:
        parameters = LocalizedGPRegressor().get_params()
        assert parameters["threshold"] == 1.0
        assert parameters["centroids"] == "farthest_point"
        assert parameters["approximation"] == "fitc"

    def test_hyperparameters_are_those_of_the_exact_process(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (40, 1))
        y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=40)
        exact = ExactGPRegressor(max_learning_rows=30, random_state=0).fit(X, y)
        model = LocalizedGPRegressor(TaylorFeatures(10), max_learning_rows=30, random_state=0).fit(X, y)
        assert model.noise_variance_ == exact.noise_variance_
        assert model.kernel_.get_params() == exact.kernel_.get_params()

    def test_kernels_that_no_localized_map_serves_predict_from_the_nearest_rows(self) -> None:
        X, y, T = draw(n=200)
        kernel = MaternKernel(LENGTHSCALE, VARIANCE)
        given = {"kernel": kernel, "noise_variance": NOISE}
        model = LocalizedGPRegressor(**given).fit(X, y)
        assert model.features_ is None
        named = NearestNeighborsGPRegressor(100, **given)
        np.testing.assert_array_equal(model.predict(T, True), named.fit(X, y).predict(T, True))
        assert model.centroids_.shape == (0, 2)
        with pytest.raises(InputError, match="beyond the nearest 100 would change"):
            model.predict(T, return_error=True)

    def test_with_few_rows_the_nearest_are_all(self) -> None:
        X, y, T = draw(n=20)
        kernel = MaternKernel(LENGTHSCALE, VARIANCE)
        found = LocalizedGPRegressor(kernel=kernel, noise_variance=NOISE).fit(X, y).predict(T, return_std=True)
        exact = ExactGPRegressor(kernel, NOISE).fit(X, y).predict(T, return_std=True)
        np.testing.assert_allclose(found, exact, rtol=1e-10)

    def test_other_parameters_after_the_fit_wait_for_the_next(self) -> None:
        X, y, T = draw()
        model = model_of("taylor").fit(X, y)
        expected = model.predict(T, return_std=True, return_error=True)
        model.set_params(approximation="sor", threshold=9.0, centroids="test_rows", solver="dual", kernel=None)
        np.testing.assert_array_equal(model.predict(T, return_std=True, return_error=True), expected)
