"""The featurized Gaussian process against its n × n formulation with the approximate kernel ΦΦᵀ."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from scipy.special import gammaincc
from scipy.stats import multivariate_normal
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, PolynomialFeatures, StandardScaler

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    StructuredOrthogonalFourierFeatures,
    TaylorFeatures,
)
from lmgp.errors import InputError
from lmgp.inference.weight_space import WeightPosterior, accumulate
from lmgp.noise import Noise
from lmgp.validation import Rows

LENGTHSCALE = np.array([1.0, 0.7, 2.0])
VARIANCE = 2.0
NOISE = 0.05
KERNEL = GaussianKernel(LENGTHSCALE, VARIANCE)

FOURIER = {
    "rff": RandomFourierFeatures(40),
    "orf": OrthogonalFourierFeatures(40),
    "sorf": StructuredOrthogonalFourierFeatures(40),
}
TRUNCATED = {
    "gaussian": OptimizedMaclaurinFeatures(40, sketch="gaussian"),
    "rademacher": OptimizedMaclaurinFeatures(40, sketch="rademacher"),
    "tensor_srht": OptimizedMaclaurinFeatures(40, sketch="tensor_srht"),
    "mean": OptimizedMaclaurinFeatures(40, allocation="mean"),
    "taylor": TaylorFeatures(40),
}
MAPS = {**FOURIER, "kar_karnick": RandomMaclaurinFeatures(40), **TRUNCATED}
MISSING = ("sor", "dtc", "fitc")


def draw(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows away from the origin, their y away from zero, and test rows, some of them far away."""
    rng = np.random.default_rng(seed)
    X = rng.normal([5.0, -2.0, 0.5], size=(n, 3))
    y = 3.0 + np.sin(2 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)
    return X, y, np.concatenate((rng.normal([5.0, -2.0, 0.5], size=(12, 3)), X[:3] + 4.0))


def model_of(name: str, approximation: str = "dtc", random_state: int = 0, **parameters) -> FeaturizedGPRegressor:
    parameters = {"kernel": KERNEL, "noise_variance": NOISE, **parameters}
    return FeaturizedGPRegressor(MAPS[name], approximation=approximation, random_state=random_state, **parameters)


def left_out(name: str, model: FeaturizedGPRegressor, centred: np.ndarray) -> np.ndarray:
    """The prior variance that a map leaves out, from its closed form."""
    if name not in TRUNCATED:
        return np.zeros(len(centred))
    kernel = model.kernel_
    squares = np.sum((centred / kernel.lengthscale) ** 2, axis=1)
    return kernel.variance * (1.0 - gammaincc(model.features_.degree_ + 1, squares))


def dense(phi, y, new, noise, missing_train, missing_new) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, variance and log marginal likelihood with the kernel ΦΦᵀ; all vectors one value a row."""
    covariance = phi @ phi.T + np.diag(noise + missing_train)
    cross = phi @ new.T
    centre = np.mean(y)
    mean = centre + cross.T @ np.linalg.solve(covariance, y - centre)
    variance = np.sum(new**2, axis=1) - np.sum(cross * np.linalg.solve(covariance, cross), axis=0) + missing_new
    return mean, variance, float(multivariate_normal(np.zeros(len(y)), covariance).logpdf(y - centre))


def expected_of(name, model, X, y, T, noise) -> tuple[np.ndarray, np.ndarray, float]:
    """The n × n formulation with the features of a fitted model, centred at the mean of X."""
    centre = X.mean(axis=0)
    missing_train, missing_new = (left_out(name, model, rows - centre) for rows in (X, T))
    if model.approximation != "fitc":
        missing_train = 0.0
    if model.approximation == "sor":
        missing_new = 0.0
    phi, new = (model.features_.transform(rows - centre) for rows in (X, T))
    return dense(phi, y, new, noise, missing_train, missing_new)


def assert_predicts(model, T, expected: tuple[np.ndarray, np.ndarray, float]) -> None:
    mean, std = model.predict(T, return_std=True)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(std**2, expected[1], rtol=1e-9, atol=1e-11)
    assert model.log_marginal_likelihood_ == pytest.approx(expected[2], rel=1e-10)


class TestAgainstTheDenseFormulation:
    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", MISSING)
    @pytest.mark.parametrize("seed", [0, 1])
    def test_mean_variance_and_likelihood(self, name: str, approximation: str, seed: int) -> None:
        X, y, T = draw(seed=seed)
        model = model_of(name, approximation, random_state=seed).fit(X, y)
        assert_predicts(model, T, expected_of(name, model, X, y, T, np.full(len(y), NOISE)))
        noisy = model.predict(T, return_std=True, include_noise=True)[1]
        np.testing.assert_allclose(noisy**2, model.predict(T, return_std=True)[1] ** 2 + NOISE, rtol=1e-12)

    @pytest.mark.parametrize("name", TRUNCATED)
    def test_what_is_left_out_makes_a_difference(self, name: str) -> None:
        # Else the tests above would not tell the three ways apart.
        X, y, T = draw()
        ignore, add, fitc = (model_of(name, how).fit(X, y).predict(T, return_std=True) for how in MISSING)
        np.testing.assert_array_equal(ignore[0], add[0])
        assert np.max(np.abs(fitc[0] - add[0])) > 1e-2
        assert np.max(add[1] - ignore[1]) > 0.5
        assert np.all(add[1] >= ignore[1])

    @pytest.mark.parametrize("name", [*FOURIER, "kar_karnick"])
    def test_nothing_is_added_for_maps_that_leave_nothing_out(self, name: str) -> None:
        X, y, T = draw()
        ignore, add, fitc = (model_of(name, how).fit(X, y).predict(T, return_std=True) for how in MISSING)
        np.testing.assert_array_equal(ignore, add)
        np.testing.assert_allclose(ignore, fitc, rtol=1e-12)

    @pytest.mark.parametrize("name", MAPS)
    def test_is_the_map_alone_with_the_kernel_of_the_regressor_around_the_mean_row(self, name: str) -> None:
        X, y, T = draw()
        model = clone(model_of(name)).set_params(features__random_state=3).fit(X, y)
        features = clone(MAPS[name]).set_params(kernel=KERNEL, random_state=3).fit(X - X.mean(axis=0))
        np.testing.assert_allclose(
            model.features_.transform(T - X.mean(axis=0)), features.transform(T - X.mean(axis=0)), rtol=1e-12
        )

    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", MISSING)
    def test_noise_variances(self, name: str, approximation: str) -> None:
        X, y, T = draw()
        noise = np.random.default_rng(4).uniform(0.01, 0.5, len(y))
        model = model_of(name, approximation, noise_variance=0.3).fit(X, y, noise_variances=noise)
        assert_predicts(model, T, expected_of(name, model, X, y, T, noise))
        assert model.noise_variance_ == 0.3
        unspecified = model_of(name, approximation, noise_variance=None).fit(X, y, noise_variances=noise)
        assert unspecified.noise_variance_ == pytest.approx(noise.mean())
        assert_predicts(unspecified, T, expected_of(name, unspecified, X, y, T, noise))

    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", MISSING)
    def test_weights_are_repetitions(self, name: str, approximation: str) -> None:
        X, y, T = draw()
        rng = np.random.default_rng(4)
        counts, noise = rng.integers(0, 4, len(y)), rng.uniform(0.01, 0.5, len(y))
        repeated, target = np.repeat(X, counts, axis=0), np.repeat(y, counts)
        model = model_of(name, approximation).fit(X, y, sample_weight=counts)
        assert model.center_ == pytest.approx(target.mean(), rel=1e-13)
        assert_predicts(model, T, expected_of(name, model, repeated, target, T, np.full(len(target), NOISE)))
        model = model_of(name, approximation).fit(X, y, sample_weight=counts, noise_variances=noise)
        assert_predicts(model, T, expected_of(name, model, repeated, target, T, np.repeat(noise, counts)))

    @pytest.mark.parametrize("name", ["rff", "orf", "sorf", "kar_karnick", "taylor"])
    def test_weighted_equals_the_fit_to_repetitions(self, name: str) -> None:
        # The draw of these maps does not depend on the rows, so that both models have the same.
        X, y, T = draw()
        counts = np.random.default_rng(4).integers(0, 4, len(y))
        weighted = model_of(name).fit(X, y, sample_weight=counts)
        repeated = model_of(name).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        np.testing.assert_allclose(
            weighted.predict(T, return_std=True), repeated.predict(T, return_std=True), rtol=1e-9, atol=1e-10
        )
        assert weighted.log_marginal_likelihood_ == pytest.approx(repeated.log_marginal_likelihood_, rel=1e-11)

    @pytest.mark.parametrize("name", MAPS)
    def test_a_weight_of_zero_is_an_absent_row(self, name: str) -> None:
        X, y, T = draw()
        weights = np.random.default_rng(4).uniform(0.5, 2.0, len(y))
        weights[::3] = 0.0
        present = weights > 0
        far = np.where(present[:, None], X, 1e6)
        absurd = np.where(present, y, 1e9)
        model = model_of(name).fit(far, absurd, sample_weight=weights)
        without = model_of(name).fit(X[present], y[present], sample_weight=weights[present])
        np.testing.assert_array_equal(model.predict(T, return_std=True), without.predict(T, return_std=True))
        assert model.log_marginal_likelihood_ == without.log_marginal_likelihood_

    @pytest.mark.parametrize("name", MAPS)
    def test_more_columns_than_rows(self, name: str) -> None:
        X, y, T = draw(n=8)
        model = clone(model_of(name)).set_params(features__n_features=300).fit(X, y)
        assert model.features_.n_features_out_ > 200
        assert_predicts(model, T, expected_of(name, model, X, y, T, np.full(8, NOISE)))

    @pytest.mark.parametrize("name", MAPS)
    def test_one_input_column(self, name: str) -> None:
        X, y, T = (values[..., :1] if values.ndim == 2 else values for values in draw())
        model = model_of(name, kernel=GaussianKernel(0.8, VARIANCE)).fit(X, y)
        assert_predicts(model, T, expected_of(name, model, X, y, T, np.full(len(y), NOISE)))

    @pytest.mark.parametrize("name", MAPS)
    def test_weighted_learning_and_default_noise_do_not_touch_given_values(self, name: str) -> None:
        X, y, _ = draw()
        features = clone(MAPS[name])
        before = features.get_params()
        model = FeaturizedGPRegressor(features, kernel=KERNEL, noise_variance=NOISE, random_state=0).fit(X, y)
        assert features.get_params() == before
        assert not hasattr(features, "n_features_out_")
        assert model.features is features
        assert model.features_ is not features
        np.testing.assert_array_equal(model.features_.kernel_.lengthscale, LENGTHSCALE)


class TestAgainstTheExactProcess:
    def test_enough_monomials_make_the_exact_process(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (60, 1))
        y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=60)
        T = np.linspace(-2.2, 2.2, 30)[:, None]
        kernel = GaussianKernel(1.0, 1.5)
        exact = ExactGPRegressor(kernel, 0.01).fit(X, y)
        model = FeaturizedGPRegressor(TaylorFeatures(60), kernel=kernel, noise_variance=0.01).fit(X, y)
        np.testing.assert_allclose(
            model.predict(T, return_std=True), exact.predict(T, return_std=True), rtol=0, atol=1e-8
        )
        assert model.log_marginal_likelihood_ == pytest.approx(exact.log_marginal_likelihood_, rel=1e-9)

    @pytest.mark.parametrize("features", [RandomFourierFeatures, OrthogonalFourierFeatures])
    def test_more_frequencies_come_nearer(self, features: type) -> None:
        X, y, T = draw()
        mean, std = ExactGPRegressor(KERNEL, NOISE).fit(X, y).predict(T, return_std=True)

        def error(n_features: int) -> float:
            models = (
                FeaturizedGPRegressor(features(n_features), kernel=KERNEL, noise_variance=NOISE, random_state=seed)
                for seed in range(8)
            )
            predictions = [model.fit(X, y).predict(T, return_std=True) for model in models]
            return float(np.mean([np.mean((m - mean) ** 2 + (s - std) ** 2) for m, s in predictions]))

        # The mean squared error falls as 1/D: by a factor 16, of which half is asked for.
        assert error(1024) < error(64) / 8

    def test_hyperparameters_are_those_of_the_exact_process(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (40, 1))
        y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=40)
        exact = ExactGPRegressor(max_learning_rows=30, random_state=0).fit(X, y)
        model = FeaturizedGPRegressor(TaylorFeatures(10), max_learning_rows=30, random_state=0).fit(X, y)
        assert model.noise_variance_ == exact.noise_variance_
        assert model.kernel_.get_params() == exact.kernel_.get_params()


class TestChunks:
    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", MISSING)
    def test_chunks_change_nothing(self, name: str, approximation: str, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T = draw()
        rng = np.random.default_rng(4)
        arguments = {"sample_weight": rng.uniform(0, 2, len(y)), "noise_variances": rng.uniform(0.01, 0.5, len(y))}
        whole = model_of(name, approximation).fit(X, y, **arguments)
        expected = whole.predict(T, return_std=True)
        monkeypatch.setattr("lmgp.memory.CHUNK_BYTES", 7 * 8 * 40)
        chunked = model_of(name, approximation).fit(X, y, **arguments)
        np.testing.assert_allclose(chunked.predict(T, return_std=True), expected, rtol=1e-9, atol=1e-11)
        assert chunked.log_marginal_likelihood_ == pytest.approx(whole.log_marginal_likelihood_, rel=1e-11)

    def test_statistics_of_parts_add_up_to_the_model(self) -> None:
        X, y, T = draw()
        model = model_of("taylor", "sor").fit(X, y)
        parts = [
            accumulate(model.features_, Rows(X[rows], y[rows]), X.mean(axis=0), Noise(NOISE, "sor"))
            for rows in (slice(0, 20), slice(20, 60), slice(0, 20))
        ]
        # Rows that come twice and are taken out once.
        posterior = WeightPosterior(parts[0] + parts[1] + parts[2] - parts[0])
        mean, variance = posterior.predict(torch.from_numpy(model.features_.transform(T - X.mean(axis=0))))
        expected_mean, expected_std = model.predict(T, return_std=True)
        np.testing.assert_allclose(mean.numpy() + y.mean(), expected_mean, rtol=1e-9)
        np.testing.assert_allclose(variance.numpy() ** 0.5, expected_std, rtol=1e-9)
        assert posterior.log_marginal_likelihood == pytest.approx(model.log_marginal_likelihood_, rel=1e-11)


class TestBehaviour:
    @pytest.mark.parametrize("name", ["orf", "tensor_srht", "taylor"])
    def test_a_shift_of_y_shifts_the_mean(self, name: str) -> None:
        X, y, T = draw()
        mean, std = model_of(name).fit(X, y).predict(T, return_std=True)
        shifted = model_of(name).fit(X, y + 1000.0)
        shifted_mean, shifted_std = shifted.predict(T, return_std=True)
        np.testing.assert_allclose(shifted_mean - 1000.0, mean, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(shifted_std, std)
        assert shifted.log_marginal_likelihood_ == pytest.approx(
            model_of(name).fit(X, y).log_marginal_likelihood_, rel=1e-9
        )

    @pytest.mark.parametrize("name", MAPS)
    def test_a_shift_of_x_changes_nothing(self, name: str) -> None:
        X, y, T = draw()
        expected = model_of(name).fit(X, y).predict(T, return_std=True)
        shifted = model_of(name).fit(X + 1024.0, y).predict(T + 1024.0, return_std=True)
        np.testing.assert_allclose(shifted, expected, rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", MISSING)
    @pytest.mark.parametrize("noise_variance", [1e-8, 1e-4])
    def test_variance_is_never_negative(self, name: str, approximation: str, noise_variance: float) -> None:
        X, y, T = draw(n=300)
        T = np.concatenate((X, T, X[:20] + 100.0, [X.mean(axis=0)]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = model_of(name, approximation, noise_variance=noise_variance).fit(X, y)
            mean, std = model.predict(T, return_std=True)
        assert np.all(np.isfinite(mean))
        assert np.all(std >= 0.0)
        assert np.all(std**2 <= np.sum(model.features_.transform(T - X.mean(axis=0)) ** 2, axis=1) + VARIANCE + 1e-9)

    @pytest.mark.parametrize("name", TRUNCATED)
    @pytest.mark.parametrize("approximation", ["dtc", "fitc"])
    def test_rows_far_away_return_to_the_prior(self, name: str, approximation: str) -> None:
        X, y, _ = draw()
        far = X[:5] + np.array([20.0, 100.0, -1e3, 1e6, -1e100])[:, None]
        mean, std = model_of(name, approximation).fit(X, y).predict(far, return_std=True)
        np.testing.assert_allclose(mean, y.mean(), rtol=0, atol=1e-10)
        np.testing.assert_allclose(std, np.sqrt(VARIANCE), rtol=1e-10)

    @pytest.mark.parametrize("name", TRUNCATED)
    def test_far_away_the_published_formula_is_sure_of_nothing(self, name: str) -> None:
        X, y, _ = draw()
        mean, std = model_of(name, "sor").fit(X, y).predict(X[:5] + 20.0, return_std=True)
        np.testing.assert_allclose(mean, y.mean(), rtol=0, atol=1e-10)
        np.testing.assert_allclose(std, 0.0, atol=1e-10)

    def test_default_map(self) -> None:
        X, y, T = draw()
        model = FeaturizedGPRegressor(kernel=KERNEL, noise_variance=NOISE, random_state=0).fit(X, y)
        assert isinstance(model.features_, OrthogonalFourierFeatures)
        assert model.features_.n_features_out_ == 512
        named = FeaturizedGPRegressor(
            OrthogonalFourierFeatures(512), kernel=KERNEL, noise_variance=NOISE, random_state=0
        )
        np.testing.assert_array_equal(model.predict(T), named.fit(X, y).predict(T))

    def test_the_kernel_of_the_regressor_rules(self) -> None:
        X, y, T = draw()
        other = TaylorFeatures(40, kernel=GaussianKernel(9.0, 9.0))
        model = FeaturizedGPRegressor(other, kernel=KERNEL, noise_variance=NOISE).fit(X, y)
        np.testing.assert_array_equal(model.predict(T), model_of("taylor").fit(X, y).predict(T))
        assert other.kernel.lengthscale == 9.0

    @pytest.mark.parametrize("name", sorted(set(MAPS) - {"taylor"}))
    def test_seeds(self, name: str) -> None:
        X, y, T = draw()

        def predicted(of_map: int | None, of_regressor: int | None) -> list[float]:
            model = clone(model_of(name)).set_params(features__random_state=of_map, random_state=of_regressor)
            return model.fit(X, y).predict(T).tolist()

        assert predicted(None, 0) == predicted(None, 0)
        assert predicted(None, 0) != predicted(None, 1)
        # A map with a seed of its own keeps it.
        assert predicted(7, 0) == predicted(7, 1)
        assert predicted(7, 0) != predicted(8, 0)

    @pytest.mark.parametrize("name", MAPS)
    def test_data_may_change_after_the_fit(self, name: str) -> None:
        X, y, T = draw()
        model = model_of(name).fit(X, y)
        expected = model_of(name).fit(X.copy(), y.copy()).predict(T)
        X *= 3.0
        y *= 3.0
        np.testing.assert_array_equal(model.predict(T), expected)

    @pytest.mark.parametrize("name", MAPS)
    def test_pickle(self, name: str) -> None:
        X, y, T = draw()
        model = model_of(name).fit(X, y)
        loaded = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(loaded.predict(T, return_std=True), model.predict(T, return_std=True))
        assert loaded.log_marginal_likelihood_ == model.log_marginal_likelihood_


class Reciprocal(TransformerMixin, BaseEstimator):
    """A transformer that makes something else than one row of columns for each row."""

    def __init__(self, shape: str) -> None:
        self.shape = shape

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return {"flat": X[:, 0], "short": X[:0], "deep": X[:, :, None]}[self.shape]


class TestTransformers:
    """Any scikit-learn transformer as the map: its columns times σ."""

    @pytest.mark.parametrize(
        "transformer",
        [
            RBFSampler(gamma=0.5, n_components=30, random_state=0),
            PolynomialFeatures(3),
            make_pipeline(StandardScaler(), PolynomialFeatures(2)),
            KBinsDiscretizer(3, encode="onehot", quantile_method="averaged_inverted_cdf"),  # sparse
        ],
        ids=["rbf_sampler", "polynomial", "pipeline", "sparse"],
    )
    @pytest.mark.parametrize("approximation", MISSING)
    def test_columns_times_sigma_are_the_features(self, transformer, approximation: str) -> None:
        X, y, T = draw()
        model = FeaturizedGPRegressor(
            transformer, kernel=KERNEL, noise_variance=NOISE, approximation=approximation
        ).fit(X, y)
        fitted = clone(transformer).fit(X)
        phi, new = (fitted.transform(rows) for rows in (X, T))
        phi, new = (np.sqrt(VARIANCE) * np.asarray(p if isinstance(p, np.ndarray) else p.todense()) for p in (phi, new))
        expected = dense(phi, y, new, np.full(len(y), NOISE), 0.0, 0.0)
        mean, std = model.predict(T, return_std=True)
        np.testing.assert_allclose(mean, expected[0], rtol=1e-7, atol=1e-8)
        # Polynomials reach thousands: the difference that is the expectation has lost as many digits.
        np.testing.assert_allclose(std**2, expected[1], rtol=1e-6, atol=1e-8)
        assert not hasattr(transformer, "n_features_in_")

    @pytest.mark.parametrize("piped", [False, True])
    @pytest.mark.parametrize("approximation", MISSING)
    def test_nystroem_makes_the_textbook_inducing_point_methods(self, approximation: str, piped: bool) -> None:
        # Quiñonero-Candela and Rasmussen (2005), eqs. 16 (SoR), 20 (DTC) and 24 (FITC).
        X, y, T = draw()
        lengthscale = 1.3
        kernel = GaussianKernel(lengthscale, VARIANCE)
        nystroem = Nystroem(gamma=0.5 / lengthscale**2, n_components=20)
        features = make_pipeline(FunctionTransformer(), nystroem) if piped else nystroem
        model = FeaturizedGPRegressor(
            features, kernel=kernel, noise_variance=NOISE, approximation=approximation, random_state=0
        ).fit(X, y)
        fitted = model.features_.transformer_
        Z = (fitted[-1] if piped else fitted).components_
        assert Z.shape == (20, 3)
        K_uu, K_uf, K_us = kernel(Z), kernel(Z, X), kernel(Z, T)
        Q_ff, Q_ss = (np.sum(K * np.linalg.solve(K_uu, K), axis=0) for K in (K_uf, K_us))
        noise = NOISE + (VARIANCE - Q_ff if approximation == "fitc" else np.zeros(len(y)))
        precision = K_uu + (K_uf / noise) @ K_uf.T
        mean = y.mean() + K_us.T @ np.linalg.solve(precision, K_uf @ ((y - y.mean()) / noise))
        variance = np.sum(K_us * np.linalg.solve(precision, K_us), axis=0)
        if approximation != "sor":
            variance = variance + VARIANCE - Q_ss
        predicted_mean, predicted_std = model.predict(T, return_std=True)
        np.testing.assert_allclose(predicted_mean, mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(predicted_std**2, variance, rtol=0, atol=1e-8)

    def test_nystroem_with_all_rows_is_the_exact_process(self) -> None:
        X, y, T = draw()
        kernel = GaussianKernel(1.0, VARIANCE)
        model = FeaturizedGPRegressor(
            Nystroem(gamma=0.5, n_components=60), kernel=kernel, noise_variance=NOISE, random_state=0
        )
        exact = ExactGPRegressor(kernel, NOISE)
        np.testing.assert_allclose(
            model.fit(X, y).predict(T, return_std=True), exact.fit(X, y).predict(T, return_std=True), rtol=0, atol=1e-6
        )

    def test_seed_of_the_regressor_reaches_the_steps_of_a_pipeline(self) -> None:
        X, y, T = draw()
        features = make_pipeline(StandardScaler(), Nystroem(n_components=5))

        def predicted(random_state: int) -> list[float]:
            model = FeaturizedGPRegressor(features, kernel=KERNEL, noise_variance=NOISE, random_state=random_state)
            return model.fit(X, y).predict(T).tolist()

        assert predicted(0) == predicted(0)
        assert predicted(0) != predicted(1)
        assert features[-1].random_state is None

    @pytest.mark.parametrize("shape", ["flat", "short", "deep"])
    def test_a_transformer_that_makes_no_features_is_an_error(self, shape: str) -> None:
        X, y, _ = draw()
        with pytest.raises(InputError, match=r"cannot serve as a feature map.*expected shape \(\d+, n_features\)"):
            FeaturizedGPRegressor(Reciprocal(shape), kernel=KERNEL, noise_variance=NOISE).fit(X, y)

    @pytest.mark.parametrize("features", ["taylor", 120, StandardScaler, TaylorFeatures, KERNEL])
    def test_what_is_no_transformer_is_an_error(self, features: object) -> None:
        X, y, _ = draw()
        with pytest.raises(InputError, match=r"features must be a feature map such as TaylorFeatures.*; got"):
            FeaturizedGPRegressor(features, kernel=KERNEL, noise_variance=NOISE).fit(X, y)

    @pytest.mark.filterwarnings("ignore:divide by zero")
    def test_columns_that_are_not_finite_are_an_error(self) -> None:
        X, y, _ = draw()
        X[3] = 0.0
        with pytest.raises((ValueError, ArithmeticError), match="finite"):
            FeaturizedGPRegressor(FunctionTransformer(np.reciprocal), kernel=KERNEL, noise_variance=NOISE).fit(X, y)


class TestTooFewColumns:
    @pytest.mark.parametrize("features", [RandomFourierFeatures(1), OrthogonalFourierFeatures(1)])
    def test_pairs_need_two(self, features) -> None:
        X, y, _ = draw()
        with pytest.raises(InputError, match="n_features must be at least 2; got 1"):
            FeaturizedGPRegressor(features, kernel=KERNEL, noise_variance=NOISE).fit(X, y)

    def test_optimized_maclaurin_needs_two(self) -> None:
        X, y, _ = draw()
        with pytest.raises(InputError, match="n_features must be at least 2; got 1"):
            FeaturizedGPRegressor(OptimizedMaclaurinFeatures(1), kernel=KERNEL, noise_variance=NOISE).fit(X, y)

    @pytest.mark.parametrize("n_features", [1, 3])
    def test_taylor_is_left_with_the_constant(self, n_features: int) -> None:
        X, y, T = draw()
        model = clone(model_of("taylor")).set_params(features__n_features=n_features).fit(X, y)
        assert model.features_.n_features_out_ == 1
        assert_predicts(model, T, expected_of("taylor", model, X, y, T, np.full(len(y), NOISE)))
