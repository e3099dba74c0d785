"""The exact Gaussian process against dense algebra, and its hyper-parameters against scikit-learn's."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_diabetes, make_friedman1

from lmgp import ExactGPRegressor, GaussianKernel
from lmgp.errors import LmgpError, MemoryLimitError


def gram(X: np.ndarray, Z: np.ndarray, lengthscale, variance: float) -> np.ndarray:
    """The Gaussian kernel, written out."""
    differences = (X[:, None, :] - Z[None, :, :]) / np.asarray(lengthscale)
    return variance * np.exp(-0.5 * np.sum(differences**2, axis=2))


def dense_prediction(X, y, T, lengthscale, variance, noise) -> tuple[np.ndarray, np.ndarray]:
    """Mean and latent variance through an LU solve; `noise` one value a row."""
    centre = np.mean(y)
    covariance = gram(X, X, lengthscale, variance) + np.diag(noise)
    cross = gram(X, T, lengthscale, variance)
    mean = centre + cross.T @ np.linalg.solve(covariance, y - centre)
    return mean, variance - np.sum(cross * np.linalg.solve(covariance, cross), axis=0)


def dense_likelihood(X, y, lengthscale, variance, noise) -> float:
    covariance = gram(X, X, lengthscale, variance) + np.diag(noise)
    return float(multivariate_normal(np.zeros(len(y)), covariance).logpdf(y - np.mean(y)))


def standardise(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) / values.std(axis=0)


def sinc() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.5, 1.5, (50, 1))
    return X, np.sinc(5 * X[:, 0]) + 0.1 * rng.normal(size=50)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:120]
    return standardise(X[rows]), standardise(y[rows])


def friedman() -> tuple[np.ndarray, np.ndarray]:
    return make_friedman1(150, n_features=5, noise=1.0, random_state=1)


SETS = {"sinc": sinc, "diabetes": diabetes, "friedman": friedman}

# Hyper-parameters of each set, of the order that is learned there.
GIVEN = {"sinc": (0.15, 0.1, 0.01), "diabetes": (5.0, 1.1, 0.5), "friedman": (0.8, 100.0, 1.0)}


def given(name: str, ard: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | float, float, float]:
    X, y = SETS[name]()
    lengthscale, variance, noise_variance = GIVEN[name]
    rng = np.random.default_rng(5)
    T = X[rng.permutation(len(X))[:20]] + 0.3 * rng.normal(size=(20, X.shape[1]))
    return X, y, T, lengthscale * rng.uniform(0.5, 2.0, X.shape[1]) if ard else lengthscale, variance, noise_variance


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
        np.testing.assert_array_equal(model.predict(T), mean)
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
        monkeypatch.setattr("lmgp.memory.CHUNK_BYTES", 3 * 8 * len(X))
        np.testing.assert_allclose(model.predict(T, return_std=True), whole, rtol=1e-12, atol=1e-13)

    def test_data_may_change_after_the_fit(self) -> None:
        X, y, T, lengthscale, variance, _ = given("sinc", ard=False)
        noise = np.full(len(y), 0.01)
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance)).fit(X, y, noise_variances=noise)
        expected_mean, _ = dense_prediction(X, y, T, lengthscale, variance, noise)
        for array in (X, y, noise):
            array *= 3.0
        np.testing.assert_allclose(model.predict(T), expected_mean, rtol=0, atol=1e-8)


class TestMemory:
    def rows(self, n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, 2))
        return X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=n)

    def test_limit_is_checked_before_anything_is_allocated(self) -> None:
        X, y = self.rows()
        model = ExactGPRegressor(GaussianKernel(1.0), 0.1, max_learning_rows=50, max_memory_gib=0.1).fit(X, y)
        model.predict  # noqa: B018 - found before tracing starts
        tracemalloc.start()
        try:
            with pytest.raises(MemoryLimitError) as caught:
                model.predict(X[:2], return_std=True)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 8 * 3000**2 / 20
        message = str(caught.value)
        for part in ("3,000 rows", "0.1 GiB", "max_memory_gib=0.1", "FeaturizedGPRegressor", "LocalizedGPRegressor"):
            assert part in message
        assert isinstance(caught.value, MemoryError)
        assert isinstance(caught.value, LmgpError)

    def test_hyperparameters_are_learned_from_more_rows_than_fit_into_memory(self) -> None:
        X, y = self.rows()
        model = ExactGPRegressor(max_learning_rows=100, max_memory_gib=1e-3, random_state=0).fit(X, y)
        assert model.converged_ is True
        assert 0.1 < model.kernel_.lengthscale < 10.0
        with pytest.raises(MemoryLimitError):
            model.predict(X[:2])

    def test_limit_is_where_it_is_said_to_be(self) -> None:
        X, y = self.rows(100)
        needed = 16 * 100**2 / 2**30
        kernel = GaussianKernel(1.0)
        ExactGPRegressor(kernel, 0.1, max_memory_gib=needed * 1.0001).fit(X, y).predict(X[:1])
        with pytest.raises(MemoryLimitError):
            ExactGPRegressor(kernel, 0.1, max_memory_gib=needed * 0.9999).fit(X, y).predict(X[:1])


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
        before = pickle.dumps(model)
        names = set(vars(model))
        model.predict(T, return_std=True)
        assert pickle.dumps(model) == before
        assert set(vars(model)) == names
