"""The featurized Gaussian process against its n × n formulation with the approximate kernel ΦΦᵀ."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

import tests.conftest
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    TaylorFeatures,
)
from lmgp.data import Noise, Rows
from lmgp.errors import InputError
from lmgp.posteriors.weights import WeightPosterior, accumulate
from tests.conftest import APPROXIMATIONS, FOURIER, MAPS, TRUNCATED, dense_gp, left_out

LENGTHSCALE = np.array([1.0, 0.7, 2.0])
VARIANCE = 2.0
NOISE = 0.05
KERNEL = GaussianKernel(LENGTHSCALE, VARIANCE)

draw = partial(tests.conftest.draw, n=60, low=(3.5, -3.5, -1.0), high=(6.5, -0.5, 2.0), n_new=12)


def model_of(name: str, approximation: str = "fitc", random_state: int = 0, **parameters) -> FeaturizedGPRegressor:
    parameters = {"kernel": KERNEL, "noise_variance": NOISE, **parameters}
    return FeaturizedGPRegressor(MAPS[name], approximation=approximation, random_state=random_state, **parameters)


def expected_of(name, model, X, y, T, noise) -> tuple[np.ndarray, np.ndarray, float]:
    """The n × n formulation with the features of a fitted model, centred at the mean of X."""
    centre, kernel = X.mean(axis=0), model.kernel_

    def missing(rows: np.ndarray) -> np.ndarray:
        if name not in TRUNCATED:
            return np.zeros(len(rows))
        squares = np.sum((rows / kernel.lengthscale) ** 2, axis=1)
        return left_out(model.features_.degree_, squares, kernel.variance)

    phi, psi = (model.features_.transform(rows - centre) for rows in (X, T))
    prior = np.sum(psi**2, axis=1) + (0.0 if model.approximation == "sor" else missing(T - centre))
    noisy = noise + (missing(X - centre) if model.approximation == "fitc" else 0.0)
    return dense_gp(phi @ phi.T, phi @ psi.T, prior, y, noisy)


def assert_predicts(model, T, expected: tuple[np.ndarray, np.ndarray, float]) -> None:
    mean, std = model.predict(T, return_std=True)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(std**2, expected[1], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(model.predict(T), mean, rtol=0, atol=1e-10)
    assert model.log_marginal_likelihood_ == pytest.approx(expected[2], rel=1e-10)


class TestAgainstTheDenseFormulation:
    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
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
        ignore, add, fitc = (model_of(name, how).fit(X, y).predict(T, return_std=True) for how in APPROXIMATIONS)
        np.testing.assert_array_equal(ignore[0], add[0])
        assert np.max(np.abs(fitc[0] - add[0])) > 1e-2
        assert np.max(add[1] - ignore[1]) > 0.5
        assert np.all(add[1] >= ignore[1])

    @pytest.mark.parametrize("name", [*FOURIER, "kar_karnick"])
    def test_nothing_is_added_for_maps_that_leave_nothing_out(self, name: str) -> None:
        X, y, T = draw()
        ignore, add, fitc = (model_of(name, how).fit(X, y).predict(T, return_std=True) for how in APPROXIMATIONS)
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
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
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
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
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
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    def test_chunks_change_nothing(self, name: str, approximation: str, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T = draw()
        rng = np.random.default_rng(4)
        arguments = {"sample_weight": rng.uniform(0, 2, len(y)), "noise_variances": rng.uniform(0.01, 0.5, len(y))}
        whole = model_of(name, approximation).fit(X, y, **arguments)
        expected = whole.predict(T, return_std=True)
        monkeypatch.setattr("lmgp.utils.memory.CHUNK_BYTES", 7 * 8 * 40)
        chunked = model_of(name, approximation).fit(X, y, **arguments)
        np.testing.assert_allclose(chunked.predict(T, return_std=True), expected, rtol=1e-9, atol=1e-11)
        assert chunked.log_marginal_likelihood_ == pytest.approx(whole.log_marginal_likelihood_, rel=1e-11)

    def test_statistics_of_parts_add_up_to_the_model(self) -> None:
        X, y, T = draw()
        model = model_of("taylor", "sor").fit(X, y)
        both = np.column_stack((y, np.ones(len(y))))  # for the centring of y is a combination of these
        parts = [
            accumulate(model.features_, Rows(X[rows], both[rows]), X.mean(axis=0), Noise(NOISE, "sor"))
            for rows in (slice(0, 20), slice(20, 60))
        ]
        total = parts[0] + parts[1]
        centring = np.array([[1.0], [-y.mean()]])
        posterior = WeightPosterior(model.features_, X.mean(axis=0), model.kernel_, total, centring)
        mean, variance = posterior.predict(T)
        expected_mean, expected_std = model.predict(T, return_std=True)
        np.testing.assert_allclose(mean[:, 0] + y.mean(), expected_mean, rtol=1e-9)
        np.testing.assert_allclose(variance**0.5, expected_std, rtol=1e-9)
        assert posterior.log_density()[0] == pytest.approx(model.log_marginal_likelihood_, rel=1e-11)


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
