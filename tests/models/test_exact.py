"""The exact Gaussian process against dense algebra, and its hyper-parameters against scikit-learn's."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import lmgp.inference.likelihood
from lmgp import ExactGPRegressor, GaussianKernel
from lmgp.errors import InputError, LmgpError, MemoryLimitError, NumericalWarning


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


class TestLikelihood:
    @pytest.mark.parametrize("name", SETS)
    @pytest.mark.parametrize("ard", [False, True])
    def test_of_given_hyperparameters_equals_the_formula(self, name: str, ard: bool) -> None:
        X, y, _, lengthscale, variance, noise_variance = given(name, ard)
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance).fit(X, y)
        noise = np.full(len(y), noise_variance)
        assert model.log_marginal_likelihood_ == pytest.approx(
            dense_likelihood(X, y, lengthscale, variance, noise), rel=1e-9
        )
        assert model.converged_ is True

    @pytest.mark.parametrize(("name", "ard"), [("sinc", False), ("diabetes", False), ("friedman", True)])
    def test_of_learned_hyperparameters_equals_the_formula(self, name: str, ard: bool) -> None:
        X, y = SETS[name]()
        model = ExactGPRegressor(ard=ard, random_state=0).fit(X, y)
        kernel = model.kernel_
        assert np.shape(kernel.lengthscale) == ((X.shape[1],) if ard else ())
        noise = np.full(len(y), model.noise_variance_)
        assert model.log_marginal_likelihood_ == pytest.approx(
            dense_likelihood(X, y, kernel.lengthscale, kernel.variance, noise), rel=1e-8
        )

    def test_is_of_the_sampled_rows_where_there_are_more_than_max_rows(self) -> None:
        X, y, _, lengthscale, variance, noise_variance = given("friedman", ard=False)
        model = ExactGPRegressor(
            GaussianKernel(lengthscale, variance), noise_variance, max_learning_rows=149, random_state=0
        )
        likelihood = model.fit(X, y).log_marginal_likelihood_
        centred = y - y.mean()
        candidates = [
            multivariate_normal(
                np.zeros(149), gram(rows, rows, lengthscale, variance) + noise_variance * np.eye(149)
            ).logpdf(np.delete(centred, i))
            for i, rows in ((i, np.delete(X, i, axis=0)) for i in range(150))
        ]
        assert np.min(np.abs(np.array(candidates) - likelihood)) < 1e-7

    def test_learned_with_weights_is_learned_from_repetitions(self) -> None:
        X, y = sinc()
        counts = np.random.default_rng(6).integers(0, 4, len(y))
        # The noise is given: exact repetitions look free of noise, and its likelihood has no maximum.
        model = ExactGPRegressor(noise_variance=0.01, random_state=0)
        weighted = model.fit(X, y, sample_weight=counts)
        repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        assert weighted.log_marginal_likelihood_ == pytest.approx(repeated.log_marginal_likelihood_, rel=1e-9)
        # Around an optimum the likelihood is flat: its arguments are known to the root of its own accuracy.
        assert weighted.kernel_.lengthscale == pytest.approx(repeated.kernel_.lengthscale, rel=1e-4)
        assert weighted.kernel_.variance == pytest.approx(repeated.kernel_.variance, rel=1e-4)
        # And not from the rows without their weights.
        assert weighted.kernel_.lengthscale != pytest.approx(clone(model).fit(X, y).kernel_.lengthscale, rel=1e-2)

    def test_only_the_kernel_is_learned_with_a_noise_variance_of_each_row(self) -> None:
        X, y = sinc()
        noise = np.random.default_rng(7).uniform(0.001, 0.05, len(y))
        model = ExactGPRegressor(random_state=0).fit(X, y, noise_variances=noise)
        assert model.noise_variance_ == pytest.approx(noise.mean(), rel=1e-12)
        best = model.log_marginal_likelihood_
        lengthscale, variance = model.kernel_.lengthscale, model.kernel_.variance
        assert best == pytest.approx(dense_likelihood(X, y, lengthscale, variance, noise), rel=1e-8)
        for factor in (0.98, 1.02):
            assert dense_likelihood(X, y, factor * lengthscale, variance, noise) < best
            assert dense_likelihood(X, y, lengthscale, factor * variance, noise) < best


class TestLearning:
    @pytest.mark.parametrize(
        ("name", "ard"), [("sinc", False), ("diabetes", False), ("friedman", False), ("friedman", True)]
    )
    def test_optimum_is_as_good_as_the_best_of_many_restarts(self, name: str, ard: bool) -> None:
        X, y = SETS[name]()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = ExactGPRegressor(ard=ard, random_state=0).fit(X, y)
        assert model.converged_ is True
        lengthscale = np.ones(X.shape[1]) if ard else 1.0
        kernel = ConstantKernel(y.var(), (1e-4, 1e5)) * RBF(lengthscale, (1e-3, 1e4)) + WhiteKernel(
            0.1 * y.var(), (1e-6, 1e3)
        )
        peer = GaussianProcessRegressor(kernel, alpha=0.0, n_restarts_optimizer=12, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = peer.fit(X, y - y.mean()).log_marginal_likelihood_value_
        assert model.log_marginal_likelihood_ >= theirs - 1e-6 * abs(theirs)

    @pytest.mark.parametrize(("name", "ard"), [("sinc", False), ("diabetes", False), ("friedman", True)])
    def test_optimum_is_a_stationary_point(self, name: str, ard: bool) -> None:
        X, y = SETS[name]()
        model = ExactGPRegressor(ard=ard, random_state=0).fit(X, y)

        def likelihood(logarithms: np.ndarray) -> float:
            *lengthscale, variance, noise_variance = np.exp(logarithms)
            return dense_likelihood(X, y, lengthscale, variance, np.full(len(y), noise_variance))

        found = np.log([*np.atleast_1d(model.kernel_.lengthscale), model.kernel_.variance, model.noise_variance_])
        step = 1e-3
        slopes = [
            (likelihood(found + step * unit) - likelihood(found - step * unit)) / (2 * step)
            for unit in np.eye(len(found))
        ]
        assert np.max(np.abs(slopes)) / len(y) < 1e-5

    def test_the_best_start_is_refined_on_all_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y = friedman()
        reference = ExactGPRegressor(random_state=0).fit(X, y)
        monkeypatch.setattr(lmgp.inference.likelihood, "START_ROWS", 30)
        model = ExactGPRegressor(random_state=0).fit(X, y)
        assert model.log_marginal_likelihood_ == pytest.approx(reference.log_marginal_likelihood_, rel=1e-9)
        assert model.kernel_.lengthscale == pytest.approx(reference.kernel_.lengthscale, rel=1e-4)
        assert model.noise_variance_ == pytest.approx(reference.noise_variance_, rel=1e-4)

    @pytest.mark.parametrize(
        ("y_scale", "y_shift", "x_scale"), [(250.0, -4000.0, 1.0), (1.0, 7.0, 3e-4), (1e-3, 0, 2e3)]
    )
    def test_units_do_not_matter(self, y_scale: float, y_shift: float, x_scale: float) -> None:
        X, y = sinc()
        T = np.linspace(-2, 2, 15)[:, None]
        reference = ExactGPRegressor(random_state=0).fit(X, y)
        mean, std = reference.predict(T, return_std=True)
        model = ExactGPRegressor(random_state=0).fit(x_scale * X, y_scale * y + y_shift)
        other_mean, other_std = model.predict(x_scale * T, return_std=True)
        # Rounding alone tells the two apart, but the optimiser stops where the likelihood is flat to rounding.
        assert model.kernel_.lengthscale == pytest.approx(x_scale * reference.kernel_.lengthscale, rel=1e-4)
        assert model.kernel_.variance == pytest.approx(y_scale**2 * reference.kernel_.variance, rel=1e-4)
        assert model.noise_variance_ == pytest.approx(y_scale**2 * reference.noise_variance_, rel=1e-4)
        np.testing.assert_allclose((other_mean - y_shift) / y_scale, mean, rtol=0, atol=1e-5)
        np.testing.assert_allclose(other_std / y_scale, std, rtol=0, atol=1e-5)
        # A density of y in other units.
        assert model.log_marginal_likelihood_ == pytest.approx(
            reference.log_marginal_likelihood_ - len(y) * np.log(y_scale), rel=1e-7
        )

    def test_inputs_far_from_the_origin(self) -> None:
        # As seconds since 1970: only differences matter, and they keep 7 digits.
        X, y = sinc()
        reference = ExactGPRegressor(random_state=0).fit(X, y)
        shift = 2.0**23
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = ExactGPRegressor(random_state=0).fit(X + shift, y)
        assert model.converged_ is True
        assert model.log_marginal_likelihood_ == pytest.approx(reference.log_marginal_likelihood_, rel=1e-5)
        assert model.kernel_.lengthscale == pytest.approx(reference.kernel_.lengthscale, rel=1e-3)

    def test_only_the_noise_is_learned_beside_a_given_kernel(self) -> None:
        X, y = sinc()
        kernel = GaussianKernel(0.15, 0.1)
        model = ExactGPRegressor(kernel, random_state=0).fit(X, y)
        assert model.kernel_.get_params() == {"lengthscale": 0.15, "variance": 0.1}
        assert model.kernel is kernel
        assert model.kernel_ is not kernel
        best = model.log_marginal_likelihood_
        values = [dense_likelihood(X, y, 0.15, 0.1, np.full(50, f * model.noise_variance_)) for f in (0.98, 1.0, 1.02)]
        assert values[1] == pytest.approx(best, rel=1e-9)
        assert max(values[0], values[2]) < best
        # And the optimum is the global one of this one number.
        grid = np.geomspace(1e-6, 10.0, 200)
        assert max(dense_likelihood(X, y, 0.15, 0.1, np.full(50, value)) for value in grid) <= best + 1e-9

    @pytest.mark.parametrize("ard", [False, True])
    def test_only_the_kernel_is_learned_beside_a_given_noise(self, ard: bool) -> None:
        X, y = friedman()
        model = ExactGPRegressor(noise_variance=2.5, ard=ard, random_state=0).fit(X, y)
        assert model.noise_variance_ == 2.5
        best = model.log_marginal_likelihood_
        lengthscale, variance = model.kernel_.lengthscale, model.kernel_.variance
        noise = np.full(len(y), 2.5)
        assert best == pytest.approx(dense_likelihood(X, y, lengthscale, variance, noise), rel=1e-9)
        for factor in (0.95, 1.05):
            assert dense_likelihood(X, y, np.multiply(factor, lengthscale), variance, noise) < best
            assert dense_likelihood(X, y, lengthscale, factor * variance, noise) < best

    def test_rows_are_sampled_by_random_state(self) -> None:
        X, y = friedman()

        def learned(random_state: int) -> tuple[float, ...]:
            model = ExactGPRegressor(max_learning_rows=40, random_state=random_state).fit(X, y)
            kernel = model.kernel_
            return kernel.lengthscale, kernel.variance, model.noise_variance_, model.log_marginal_likelihood_

        first = learned(0)
        np.random.seed(3)  # noqa: NPY002 - the global state, which must not matter
        assert learned(0) == first
        assert learned(1) != first

    def test_says_so_when_the_optimiser_is_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        minimize = lmgp.inference.likelihood.minimize

        def cut_off(*args, options, **kwargs):
            return minimize(*args, options={**options, "maxiter": 1}, **kwargs)

        monkeypatch.setattr(lmgp.inference.likelihood, "minimize", cut_off)
        X, y = friedman()
        with pytest.warns(
            ConvergenceWarning, match=r"not maximised to convergence.*1 iterations on 150 rows"
        ) as record:
            model = ExactGPRegressor(random_state=0).fit(X, y)
        assert len(record) == 1
        assert "give noise_variance" in str(record[0].message)
        assert model.converged_ is False
        # What was reached is still usable, and is reported as what it is.
        kernel = model.kernel_
        assert model.log_marginal_likelihood_ == pytest.approx(
            dense_likelihood(X, y, kernel.lengthscale, kernel.variance, np.full(150, model.noise_variance_)), rel=1e-8
        )

    def test_a_column_without_spread_changes_nothing(self) -> None:
        X, y = sinc()
        reference = ExactGPRegressor(random_state=0).fit(X, y)
        model = ExactGPRegressor(random_state=0).fit(np.column_stack((X, np.full(50, 4.0))), y)
        assert model.log_marginal_likelihood_ == pytest.approx(reference.log_marginal_likelihood_, rel=1e-8)
        with_ard = ExactGPRegressor(ard=True, random_state=0).fit(np.column_stack((X, np.full(50, 4.0))), y)
        assert with_ard.log_marginal_likelihood_ == pytest.approx(reference.log_marginal_likelihood_, rel=1e-8)
        assert with_ard.kernel_.lengthscale[0] == pytest.approx(reference.kernel_.lengthscale, rel=1e-3)

    def test_a_kernel_beyond_float64_is_told_in_the_words_of_the_package(self) -> None:
        X, y = sinc()
        # The covariance is singular in float64 by ten orders of magnitude: a correction that is told, or an error.
        with pytest.raises((LmgpError, NumericalWarning), match="noise variance"):
            ExactGPRegressor(GaussianKernel(10.0, 1e10), 1e-8).fit(X, y).predict(X)

    @pytest.mark.parametrize("y", [np.zeros(30), np.full(30, 0.1)])
    @pytest.mark.parametrize("noise_variance", [None, 0.1])
    def test_a_constant_target_is_an_error(self, y: np.ndarray, noise_variance: float | None) -> None:
        with pytest.raises(InputError, match=r"y is constant \(all 0.*give both kernel and noise_variance"):
            ExactGPRegressor(noise_variance=noise_variance).fit(np.random.default_rng(0).normal(size=(30, 2)), y)


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
