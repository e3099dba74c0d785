"""The exact Gaussian process against dense algebra, and what it keeps."""

import math
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor
from lmgp.errors import InputError
from lmgp.posteriors.exact import ExactPosterior
from tests.conftest import dense_gp, draw, gaussian
from tests.problems import SETS, given


def dense_prediction(X, y, T, lengthscale, variance, noise) -> tuple[np.ndarray, np.ndarray]:
    """Mean and latent variance; `noise` one value a row."""
    K, cross = (gaussian(X, Z, lengthscale, variance) for Z in (X, T))
    return dense_gp(K, cross, np.full(len(T), variance), y, noise)[:2]


def dense_likelihood(X, y, lengthscale, variance, noise) -> float:
    nothing = np.empty((len(y), 0)), np.empty(0)
    return dense_gp(gaussian(X, X, lengthscale, variance), *nothing, y, noise)[2]


class TestPrediction:
    @pytest.mark.parametrize("name", SETS)
    @pytest.mark.parametrize("ard", [False, True])
    def test_equals_dense_algebra(self, name: str, ard: bool) -> None:
        X, y, T, lengthscale, variance, noise_variance = given(name, ard)
        expected_mean, expected_variance = dense_prediction(
            X, y, T, lengthscale, variance, np.full(len(y), noise_variance)
        )
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance).fit(X, y)
        mean, std = model.predict(T, return_std=True)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(std, np.sqrt(expected_variance), rtol=0, atol=1e-8)
        np.testing.assert_allclose(model.predict(T), mean, rtol=0, atol=1e-10)
        mean, std = model.predict(T, return_std=True, include_noise=True)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(std, np.sqrt(expected_variance + noise_variance), rtol=0, atol=1e-8)

    @pytest.mark.parametrize("name", SETS)
    def test_equals_dense_algebra_with_learned_hyperparameters(self, name: str) -> None:
        X, y, T, *_ = given(name, ard=False)
        model = ExactGPRegressor(random_state=0).fit(X, y)
        expected_mean, expected_variance = dense_prediction(
            X, y, T, model.kernel_.lengthscale, model.kernel_.variance, np.full(len(y), model.noise_variance_)
        )
        mean, std = model.predict(T, return_std=True)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(std, np.sqrt(expected_variance), rtol=0, atol=1e-8)

    @pytest.mark.parametrize("name", SETS)
    @pytest.mark.parametrize("ard", [False, True])
    def test_weights_are_repetitions(self, name: str, ard: bool) -> None:
        X, y, T, lengthscale, variance, noise_variance = given(name, ard)
        counts = np.random.default_rng(6).integers(0, 4, len(y))
        assert {0, 1, 3} <= set(counts.tolist())
        repeated, target = np.repeat(X, counts, axis=0), np.repeat(y, counts)
        expected_mean, expected_variance = dense_prediction(
            repeated, target, T, lengthscale, variance, np.full(len(target), noise_variance)
        )
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance)
        mean, std = model.fit(X, y, sample_weight=counts).predict(T, return_std=True)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(std, np.sqrt(expected_variance), rtol=0, atol=1e-8)
        assert model.center_ == pytest.approx(target.mean(), rel=1e-12)
        assert model.log_marginal_likelihood_ == pytest.approx(
            dense_likelihood(repeated, target, lengthscale, variance, np.full(len(target), noise_variance)), rel=1e-9
        )
        assert model.log_marginal_likelihood_value_ == model.log_marginal_likelihood_

    def test_equals_dense_algebra_with_a_noise_variance_of_each_row(self) -> None:
        X, y, T, lengthscale, variance, _ = given("sinc", ard=False)
        noise = np.random.default_rng(7).uniform(0.001, 0.3, len(y))
        expected_mean, expected_variance = dense_prediction(X, y, T, lengthscale, variance, noise)
        expected_likelihood = dense_likelihood(X, y, lengthscale, variance, noise)
        for noise_variance, reported in ((0.02, 0.02), (None, noise.mean())):
            model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance)
            mean, std = model.fit(X, y, noise_variances=noise).predict(T, return_std=True)
            np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-8)
            np.testing.assert_allclose(std, np.sqrt(expected_variance), rtol=0, atol=1e-8)
            assert model.log_marginal_likelihood_ == pytest.approx(expected_likelihood, rel=1e-9)
            # The noise of a new row is the common one, or the mean.
            assert model.noise_variance_ == pytest.approx(reported, rel=1e-12)
            noisy = model.predict(T, return_std=True, include_noise=True)[1]
            np.testing.assert_allclose(noisy, np.sqrt(expected_variance + reported), rtol=0, atol=1e-8)

    def test_weights_and_noise_variances_together(self) -> None:
        X, y, T, lengthscale, variance, _ = given("sinc", ard=False)
        rng = np.random.default_rng(8)
        noise, counts = rng.uniform(0.01, 0.3, len(y)), rng.integers(0, 4, len(y))
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance))
        weighted = model.fit(X, y, sample_weight=counts, noise_variances=noise)
        likelihood, noise_variance = weighted.log_marginal_likelihood_, weighted.noise_variance_
        mean, std = weighted.predict(T, return_std=True)
        repeated = np.repeat(X, counts, axis=0), np.repeat(y, counts), np.repeat(noise, counts)
        expected_mean, expected_variance = dense_prediction(*repeated[:2], T, lengthscale, variance, repeated[2])
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(std, np.sqrt(expected_variance), rtol=0, atol=1e-8)
        assert likelihood == pytest.approx(
            dense_likelihood(*repeated[:2], lengthscale, variance, repeated[2]), rel=1e-9
        )
        assert noise_variance == pytest.approx(repeated[2].mean(), rel=1e-12)

    def test_far_from_the_data_is_the_prior(self) -> None:
        X, y, _, lengthscale, variance, noise_variance = given("friedman", ard=False)
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance).fit(X, y)
        mean, std = model.predict(X[:3] + 1e3, return_std=True)
        np.testing.assert_allclose(mean, y.mean(), rtol=1e-14)
        np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-14)

    def test_chunks_of_test_rows_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T, lengthscale, variance, noise_variance = given("diabetes", ard=False)
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance).fit(X, y)
        whole = model.predict(T, return_std=True)
        monkeypatch.setattr("lmgp.utils.memory.CHUNK_BYTES", 3 * 8 * len(X))
        np.testing.assert_allclose(model.predict(T, return_std=True), whole, rtol=1e-12, atol=1e-13)

    def test_data_may_change_after_the_fit(self) -> None:
        X, y, T, lengthscale, variance, _ = given("sinc", ard=False)
        noise = np.full(len(y), 0.01)
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance)).fit(X, y, noise_variances=noise)
        expected_mean, _ = dense_prediction(X, y, T, lengthscale, variance, noise)
        for array in (X, y, noise):
            array *= 3.0
        np.testing.assert_allclose(model.predict(T), expected_mean, rtol=0, atol=1e-8)


class TestPickle:
    @pytest.mark.parametrize("predicted", [False, True])
    def test_predictions_survive(self, predicted: bool) -> None:
        X, y, T, lengthscale, variance, noise_variance = given("friedman", ard=True)
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance).fit(X, y)
        expected = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance).fit(X, y).predict(T, True)
        if predicted:
            model.predict(T)
        loaded = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(loaded.predict(T, return_std=True), expected)
        assert loaded.log_marginal_likelihood_ == model.log_marginal_likelihood_

    def test_state_does_not_hold_what_a_prediction_computed(self) -> None:
        X, y, T, lengthscale, variance, noise_variance = given("friedman", ard=False)
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance).fit(X, y)
        names = set(vars(model))
        model.predict(T, return_std=True)
        assert set(vars(model)) == names

    def test_the_posterior_is_solved_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T, lengthscale, variance, noise_variance = given("friedman", ard=False)
        expected = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance).fit(X, y).predict(T, True)
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance).fit(X, y)
        made = []
        original = ExactPosterior.__init__

        def counting(self, *arguments) -> None:
            made.append(self)
            original(self, *arguments)

        monkeypatch.setattr(ExactPosterior, "__init__", counting)
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(lambda _: model.predict(T, True), range(8)):
                np.testing.assert_array_equal(found, expected)
        assert not made  # it was made by the fit

    def test_dual_coefficients_make_the_mean(self) -> None:
        X, y, T, lengthscale, variance, noise_variance = given("friedman", ard=True)
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance).fit(X, y)
        Z, alpha = model.dual_coefficients()
        mean = model.center_ + gaussian(T, Z, lengthscale, variance) @ alpha
        np.testing.assert_allclose(model.predict(T), mean, rtol=1e-10)


def test_a_known_mean_takes_the_place_of_that_of_the_rows() -> None:
    X, y, T = draw()
    kernel, noise = GaussianKernel([1.1, 0.6], 1.7), 0.05
    expected = dense_gp(kernel(X), kernel(X, T), kernel.diagonal(T), y, np.full(len(y), noise), center=7.5)
    for model in (ExactGPRegressor(kernel, noise), GPRegressor(kernel=kernel, noise_variance=noise)):
        mean, std = model.fit(X, y, center=7.5).predict(T, return_std=True)
        assert model.center_ == 7.5
        np.testing.assert_allclose(mean, expected[0], rtol=1e-9)
        np.testing.assert_allclose(std**2, expected[1], rtol=1e-6)
    with pytest.raises(InputError, match=r"center must be a finite number, the known mean of y; got nan"):
        ExactGPRegressor(kernel, noise).fit(X, y, center=math.nan)
