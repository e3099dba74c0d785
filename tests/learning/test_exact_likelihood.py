"""What is learned by the exact likelihood, against dense algebra and against scikit-learn."""

import math
import threading
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    GPRegressor,
    LinearKernel,
    MaternKernel,
    ModulatedKernel,
    RationalQuadraticKernel,
    learn,
)
from lmgp.data import Rows
from lmgp.errors import InputError, LmgpError, NumericalWarning
from lmgp.learning.engine import Settings, learn_rows, remembered
from lmgp.learning.forms import declared_free
from lmgp.learning.record import Learned
from lmgp.learning.scoring import Climb, ExactObjective
from lmgp.learning.space import MEDIAN_NOISE, PRIOR_DEVIATION, Space, Units
from tests.conftest import gaussian as gram
from tests.dense import log_likelihood_and_gradient
from tests.problems import SETS, friedman, given, sinc


def dense_likelihood(X, y, lengthscale, variance, noise) -> float:
    covariance = gram(X, X, lengthscale, variance) + np.diag(noise)
    return float(multivariate_normal(np.zeros(len(y)), covariance).logpdf(y - np.mean(y)))


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

    def test_of_given_hyperparameters_is_of_all_rows_whatever_learning_would_take(self) -> None:
        X, y, _, lengthscale, variance, noise_variance = given("friedman", ard=False)
        model = ExactGPRegressor(GaussianKernel(lengthscale, variance), noise_variance, max_learning_rows=149)
        expected = dense_likelihood(X, y, lengthscale, variance, np.full(len(y), noise_variance))
        assert model.fit(X, y).log_marginal_likelihood_ == pytest.approx(expected, rel=1e-9)

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
        for factor in (0.5, 2.0):  # near the maximum the weak priors count, and what a step has to gain
            assert dense_likelihood(X, y, factor * lengthscale, variance, noise) < best
            assert dense_likelihood(X, y, lengthscale, factor * variance, noise) < best


class TestLearning:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "ard"), [("sinc", False), ("diabetes", False), ("friedman", False), ("friedman", True)]
    )
    def test_optimum_is_that_of_many_restarts_but_for_the_weak_priors(self, name: str, ard: bool) -> None:
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
        assert theirs - 1.0 < model.log_marginal_likelihood_ <= theirs + 1e-6 * abs(theirs)

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
        assert model.kernel_.get_params() == kernel.get_params()
        assert model.kernel is kernel
        assert model.kernel_ is not kernel
        best = model.log_marginal_likelihood_
        assert model.learning_.chosen.log_likelihood == pytest.approx(best / 50, rel=1e-9)
        assert dense_likelihood(X, y, 0.15, 0.1, np.full(50, model.noise_variance_)) == pytest.approx(best, rel=1e-9)

        def posterior(noise: float) -> float:  # the likelihood with the prior of the noise
            off = (math.log(noise / y.var()) - math.log(MEDIAN_NOISE)) / PRIOR_DEVIATION
            return dense_likelihood(X, y, 0.15, 0.1, np.full(50, noise)) - 0.5 * off**2

        highest = posterior(model.noise_variance_)
        assert max(posterior(factor * model.noise_variance_) for factor in (0.98, 1.02)) < highest
        # And the optimum is the global one of this one number.
        assert max(map(posterior, np.geomspace(1e-6, 10.0, 200))) <= highest + 1e-4

    def test_of_many_rows_all_tell_the_noise_beside_a_given_kernel(self) -> None:
        rng = np.random.default_rng(0)
        X, kernel = rng.uniform(0.0, 10.0, (300, 2)), GaussianKernel(1.5, 2.0)
        y = np.linalg.cholesky(kernel(X) + 0.04 * np.eye(300)) @ rng.normal(size=300)
        found = learn(X, y, kernel=kernel, max_learning_rows=100)
        (trial,) = found.learning
        assert (trial.likelihood, trial.n_rows, trial.n_free, trial.chosen) == ("vecchia", 300, 1, True)
        exact = learn(X, y, kernel=kernel)
        assert exact.learning.chosen.likelihood == "exact"
        assert found.noise_variance == pytest.approx(exact.noise_variance, rel=0.02)
        assert found.noise_variance == pytest.approx(0.04, rel=0.3)

    def test_the_noise_alone_is_not_averaged(self) -> None:
        X, y = sinc()
        model = GPRegressor(kernel=GaussianKernel(0.15, 0.1), trend="constant", average=True).fit(X, y)
        assert len(model.kernels_) == 1

    def test_equal_rows_tell_a_noise(self) -> None:
        y = np.random.default_rng(0).normal(size=50)
        model = ExactGPRegressor(GaussianKernel(1.0, 1.0)).fit(np.ones((50, 2)), y)
        assert model.noise_variance_ == pytest.approx(y.var(), rel=0.05)

    @pytest.mark.parametrize("ard", [False, True])
    def test_only_the_kernel_is_learned_beside_a_given_noise(self, ard: bool) -> None:
        X, y = friedman()
        model = ExactGPRegressor(noise_variance=2.5, ard=ard, random_state=0).fit(X, y)
        assert model.noise_variance_ == 2.5
        best = model.log_marginal_likelihood_
        lengthscale, variance = model.kernel_.lengthscale, model.kernel_.variance
        noise = np.full(len(y), 2.5)
        assert best == pytest.approx(dense_likelihood(X, y, lengthscale, variance, noise), rel=1e-9)
        for factor in (0.5, 2.0):
            assert dense_likelihood(X, y, np.multiply(factor, lengthscale), variance, noise) < best
            assert dense_likelihood(X, y, lengthscale, factor * variance, noise) < best

    def test_rows_are_sampled_by_the_random_state_of_learn_alone(self) -> None:
        X, y = friedman()

        def learned(random_state: int) -> tuple[float, ...]:
            remembered.cache_clear()
            options: Any = {"ard": False, "standardize": False, "max_learning_rows": 40}
            found = learn(X, y, kernel="gaussian", random_state=random_state, **options)
            return (*found.kernel.theta, found.noise_variance)

        first = learned(0)
        np.random.seed(3)  # noqa: NPY002 - the global state, which must not matter
        assert learned(0) == first
        assert learned(1) != first
        for random_state in (0, 1, None):
            remembered.cache_clear()
            model = ExactGPRegressor(max_learning_rows=40, random_state=random_state).fit(X, y)
            assert (*model.kernel_.theta, model.noise_variance_) == first

    def test_says_so_when_the_search_is_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        go_on = Climb.go_on
        monkeypatch.setattr(Climb, "go_on", lambda climb, *_: go_on(climb, 1, 1e-9))
        X, y = friedman()
        model = ExactGPRegressor(random_state=17).fit(X, y)
        assert model.converged_ is False
        # What was reached is still usable, and is reported as what it is.
        kernel = model.kernel_
        assert model.log_marginal_likelihood_ == pytest.approx(
            dense_likelihood(X, y, kernel.lengthscale, kernel.variance, np.full(150, model.noise_variance_)), rel=1e-8
        )

    def test_a_column_without_spread_changes_nothing(self) -> None:
        X, y = sinc()
        reference = ExactGPRegressor(random_state=0).fit(X, y)
        # But for the median of the prior, √d standard deviations.
        model = ExactGPRegressor(random_state=0).fit(np.column_stack((X, np.full(50, 4.0))), y)
        assert model.log_marginal_likelihood_ == pytest.approx(reference.log_marginal_likelihood_, abs=0.05)
        with_ard = ExactGPRegressor(ard=True, random_state=0).fit(np.column_stack((X, np.full(50, 4.0))), y)
        assert with_ard.log_marginal_likelihood_ == pytest.approx(reference.log_marginal_likelihood_, abs=0.05)
        assert with_ard.kernel_.lengthscale[0] == pytest.approx(reference.kernel_.lengthscale, rel=0.1)

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


def plane() -> Rows:
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (90, 2))
    y = np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + 0.1 * rng.normal(size=90)
    return Rows(X, y - y.mean())


def learned(rows: Rows, **settings: Any) -> Learned:
    return learn_rows(rows, Settings(**{"ard": False, "standardize": False, **settings}))


WIDE = {"lengthscale_bounds": (1e-3, 1e3), "variance_bounds": (1e-3, 1e3)}
FORMS = {
    "matern": MaternKernel(np.ones(2), smoothness=0.5, **WIDE),
    "rational quadratic": RationalQuadraticKernel(**WIDE, alpha_bounds=(0.1, 10.0)),
    "sum": GaussianKernel(np.ones(2), **WIDE) + MaternKernel(np.ones(2), smoothness=1.5, variance_bounds=(1e-3, 1e3)),
    "product": GaussianKernel(**WIDE) * RationalQuadraticKernel(lengthscale_bounds=(1e-3, 1e3)),
    "linear": 1.0 * LinearKernel() + GaussianKernel(variance_bounds=(1e-3, 1e3)),
    "without a metric": ModulatedKernel(GaussianKernel(np.ones(2), **WIDE), lambda X: 1.0 + X[:, 0] ** 2),
}


class TestForms:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", FORMS)
    def test_free_parameters_reach_a_maximum_and_the_others_stay(self, name: str) -> None:
        """A maximum but for the priors: those of any one parameter lose half a nat for a factor of 20."""
        rows, kernel = plane(), FORMS[name]
        found = learned(rows, kernel=kernel)
        assert type(found.kernel) is type(kernel)
        assert found.converged is True
        form = declared_free(kernel)
        free = {one.name for one in form.kernel.parameters if not one.fixed}
        for before, after in zip(kernel.parameters, found.kernel.parameters, strict=True):
            assert before.name == after.name
            assert np.array_equal(before.value, after.value) == (before.name not in free)
        value, _ = log_likelihood_and_gradient(rows, found.kernel, found.noise_variance)
        assert found.log_marginal_likelihood == pytest.approx(value, rel=1e-9)
        theta = found.kernel.theta
        for step in 0.7 * np.vstack((np.eye(len(theta)), -np.eye(len(theta)))):
            other = found.kernel.with_theta(theta + step)
            assert log_likelihood_and_gradient(rows, other, found.noise_variance)[0] < value + 0.5

    def test_bounds_of_the_kernel_hold(self) -> None:
        form = GaussianKernel(lengthscale_bounds=(0.01, 0.05), variance_bounds=(30.0, 40.0))
        kernel = learned(plane(), kernel=form).kernel
        assert kernel.lengthscale == pytest.approx(0.05)
        assert kernel.variance == pytest.approx(30.0)

    def test_a_column_may_have_its_own_units(self) -> None:
        rows = plane()
        reference = learned(rows, kernel=None, ard=True)
        found = learned(Rows(rows.X * [1e6, 1e-3], rows.Y[:, 0]), kernel=None, ard=True)
        np.testing.assert_allclose(found.kernel.lengthscale, reference.kernel.lengthscale * [1e6, 1e-3], rtol=0.05)

    def test_noise_beside_a_given_kernel_with_weights_is_that_of_repetitions(self) -> None:
        rows = plane()
        weights = np.random.default_rng(1).integers(1, 3, len(rows))
        kernel = GaussianKernel(1.5, 2.0)
        weighted = learned(Rows(rows.X, rows.Y[:, 0], weights.astype(float)), kernel=kernel)
        other = learned(Rows(np.repeat(rows.X, weights, axis=0), np.repeat(rows.Y[:, 0], weights)), kernel=kernel)
        assert weighted.noise_variance == pytest.approx(other.noise_variance, rel=1e-5)
        assert weighted.log_marginal_likelihood == pytest.approx(other.log_marginal_likelihood, rel=1e-9)


@pytest.mark.slow
def test_none_is_a_gaussian() -> None:
    rows = plane()
    for ard in (False, True, "auto"):
        found, named = (learned(rows, kernel=kernel, ard=ard) for kernel in (None, "gaussian"))
        assert (repr(found.kernel), found.noise_variance) == (repr(named.kernel), named.noise_variance)
        assert found.log_marginal_likelihood == named.log_marginal_likelihood


@pytest.mark.slow
@pytest.mark.parametrize("weights", [False, True])
def test_the_information_of_all_rows_is_that_of_the_likelihood(weights: bool) -> None:
    """The mean of the outer product of the gradient, over targets drawn from the kernel."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (40, 2))
    own = rng.uniform(0.5, 2.0, 40) if weights else None
    form = declared_free(GaussianKernel(0.8, 1.3, **WIDE))
    covariance = GaussianKernel(0.8, 1.3)(X) + 0.1 * np.diag(np.ones(40) if own is None else 1.0 / own)
    Y = np.linalg.cholesky(covariance) @ rng.standard_normal((40, 1200))
    space = Space(form, Units.of(Rows(X, Y[:, 0], own), False))
    free = np.append(space.median[:2], math.log(0.1 / space.units.noise))
    scores = np.array([ExactObjective(Rows(X, y, own), space)(free).gradient for y in Y.T])
    scores -= space.log_prior(free)[1]
    found = ExactObjective(Rows(X, Y[:, 0], own), space)(free).information - space.prior_information
    if own is not None:
        scores -= scores.mean(axis=0)  # of weights below 1, a constant
    np.testing.assert_allclose(found, scores.T @ scores / len(scores), atol=0.12 * np.abs(found).max())


class TestProcess:
    def test_threads_learn_what_one_thread_learns(self) -> None:
        rows = plane()

        def learn() -> tuple[float, ...]:
            remembered.cache_clear()
            found = learned(rows, kernel=None)
            return found.kernel.lengthscale, found.kernel.variance, found.noise_variance

        expected, results = learn(), []
        threads = [threading.Thread(target=lambda: results.append(learn())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 4
        for result in results:
            np.testing.assert_allclose(result, expected, rtol=1e-5)


def rows_with_noise() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 1))
    return X, np.sin(4 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=50)


class TestScales:
    @pytest.mark.parametrize(
        ("factor", "match"),
        [
            (1e-200, r"y has .* a standard deviation of .*e-2\d\d.*underflow.*Divide y by .*e-2\d\d"),
            (1e300, r"y has values up to .*e\+300.*Divide y by"),
        ],
    )
    def test_a_target_whose_variance_leaves_float64_is_named(self, factor: float, match: str) -> None:
        X, y = rows_with_noise()
        with pytest.raises(InputError, match=match):
            ExactGPRegressor(random_state=0).fit(X, factor * y)

    @pytest.mark.parametrize(
        ("factor", "match"),
        [
            (1e300, r"X has values up to .*e\+(300|299).*Divide X by"),
            (1e-200, r"X has .* a standard deviation of .*e-20\d.*Divide X by .*e-20\d"),
        ],
    )
    def test_inputs_whose_squares_leave_float64_are_named(self, factor: float, match: str) -> None:
        X, y = rows_with_noise()
        with pytest.raises(InputError, match=match):
            ExactGPRegressor(random_state=0).fit(factor * X, y)

    @pytest.mark.parametrize(("x_scale", "y_scale"), [(1e80, 1.0), (1e-80, 1.0), (1.0, 1e80), (1.0, 1e-80)])
    def test_scales_within_float64_do_not_matter(self, x_scale: float, y_scale: float) -> None:
        X, y = rows_with_noise()
        reference = ExactGPRegressor(random_state=0).fit(X, y)
        model = ExactGPRegressor(random_state=0).fit(x_scale * X, y_scale * y)
        assert model.kernel_.lengthscale == pytest.approx(x_scale * reference.kernel_.lengthscale, rel=1e-4)
        assert model.noise_variance_ == pytest.approx(y_scale**2 * reference.noise_variance_, rel=1e-4)
        np.testing.assert_allclose(model.predict(x_scale * X) / y_scale, reference.predict(X), atol=1e-5)

    def test_equal_rows_are_named(self) -> None:
        with pytest.raises(InputError, match=r"All rows of X are the same"):
            ExactGPRegressor().fit(np.ones((9, 2)), np.arange(9.0))
