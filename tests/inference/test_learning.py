"""Learned hyper-parameters, against dense algebra and against scikit-learn."""

import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import lmgp.inference.learning
from lmgp import ExactGPRegressor, GaussianKernel, MaternKernel, RationalQuadraticKernel
from lmgp.errors import InputError, LmgpError, MemoryLimitError, NumericalWarning
from lmgp.inference.learning import SEARCH, Round, maximize_likelihood
from lmgp.inference.likelihood import ExactLikelihood, log_likelihood_and_gradient
from lmgp.kernels.base import Kernel
from lmgp.validation import Rows
from tests.conftest import gaussian as gram
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

    @pytest.mark.parametrize("seed", [0, 1, 2])  # of the rows of each round
    def test_the_best_start_is_refined_on_all_rows(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        X, y = friedman()
        reference = ExactGPRegressor(random_state=0).fit(X, y)
        search = replace(SEARCH, rounds=(Round(20, 15, 3), Round(30, 40, 1)))
        monkeypatch.setattr(lmgp.inference.learning, "SEARCH", search)
        model = ExactGPRegressor(random_state=seed).fit(X, y)
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
        assert model.kernel_.get_params() == kernel.get_params()
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
        cut_off = replace(SEARCH, rounds=(Round(30, 1, 3), Round(60, 1, 1)), n_iterations=1)
        monkeypatch.setattr(lmgp.inference.learning, "SEARCH", cut_off)
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


FORMS = {
    "matern": MaternKernel(np.ones(2), smoothness=0.5),
    "rational quadratic": RationalQuadraticKernel(),
    "sum": GaussianKernel(np.ones(2)) + MaternKernel(np.ones(2), smoothness=1.5),
    "product": GaussianKernel() * RationalQuadraticKernel(alpha_bounds="fixed"),
    "partly fixed": GaussianKernel([0.5, 1.0], lengthscale_bounds="fixed") + MaternKernel(2.0, variance_bounds="fixed"),
}


def plane() -> Rows:
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (90, 2))
    y = np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + 0.1 * rng.normal(size=90)
    return Rows(X, y - y.mean())


class TestForms:
    @pytest.mark.parametrize("name", FORMS)
    def test_free_parameters_reach_a_maximum_and_the_others_stay(self, name: str) -> None:
        rows, form = plane(), FORMS[name]
        found = maximize_likelihood(rows, form=form, rng=np.random.default_rng(0))
        assert type(found.kernel) is type(form)
        assert found.converged is True
        for before, after in zip(form.parameters, found.kernel.parameters, strict=True):
            assert before.name == after.name
            assert np.array_equal(before.value, after.value) == before.fixed
        value, gradient = log_likelihood_and_gradient(rows, found.kernel, found.noise_variance)
        assert found.log_marginal_likelihood == pytest.approx(value, rel=1e-9)
        # No small step raises it, except out of the bounds.
        theta = np.append(found.kernel.theta, np.log(found.noise_variance))
        inner = np.abs(gradient) < 1e-3 * len(rows.y)
        assert inner.sum() >= len(theta) - 2
        assert inner[-1]

    def test_bounds_of_the_kernel_hold(self) -> None:
        form = GaussianKernel(lengthscale_bounds=(0.01, 0.05), variance_bounds=(30.0, 40.0))
        kernel = maximize_likelihood(plane(), form=form, rng=np.random.default_rng(0)).kernel
        assert kernel.lengthscale == pytest.approx(0.05)
        assert kernel.variance == pytest.approx(30.0)

    def test_a_form_without_free_parameters_is_a_given_kernel(self) -> None:
        rows = plane()
        fixed = GaussianKernel(0.7, 1.2, lengthscale_bounds="fixed", variance_bounds="fixed")
        first, second = (
            maximize_likelihood(rows, **given, rng=np.random.default_rng(0))
            for given in ({"form": fixed}, {"kernel": GaussianKernel(0.7, 1.2)})
        )
        assert first.noise_variance == second.noise_variance
        assert first.log_marginal_likelihood == second.log_marginal_likelihood

    def test_a_column_may_have_its_own_units(self) -> None:
        rows = plane()
        learn = {"ard": True, "rng": np.random.default_rng(0)}
        reference = maximize_likelihood(rows, **learn)
        found = maximize_likelihood(Rows(rows.X * [1e6, 1e-3], rows.y), **learn)
        np.testing.assert_allclose(found.kernel.lengthscale, reference.kernel.lengthscale * [1e6, 1e-3], rtol=1e-3)

    def test_noise_beside_a_given_kernel_with_weights_is_that_of_repetitions(self) -> None:
        rows = plane()
        weights = np.random.default_rng(1).integers(1, 3, len(rows.y))
        kernel, rng = GaussianKernel(1.5, 2.0), np.random.default_rng(0)
        weighted = maximize_likelihood(Rows(rows.X, rows.y, weights.astype(float)), kernel=kernel, rng=rng)
        repeated = Rows(np.repeat(rows.X, weights, axis=0), np.repeat(rows.y, weights))
        other = maximize_likelihood(repeated, kernel=kernel, rng=rng)
        assert weighted.noise_variance == pytest.approx(other.noise_variance, rel=1e-5)
        assert weighted.log_marginal_likelihood == pytest.approx(other.log_marginal_likelihood, rel=1e-9)


class TestProcess:
    def test_threads_learn_what_one_thread_learns(self) -> None:
        rows = plane()

        def learn() -> tuple[float, ...]:
            found = maximize_likelihood(rows, rng=np.random.default_rng(0))
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

    def test_warning_filters_stay_as_they_are_while_it_learns(self) -> None:
        seen = []

        class Watching(ExactLikelihood):
            def __call__(self, kernel: Kernel, free: np.ndarray) -> tuple[float, np.ndarray]:
                seen.append(list(warnings.filters))
                return super().__call__(kernel, free)

        before = list(warnings.filters)
        maximize_likelihood(plane(), rng=np.random.default_rng(0), likelihood=Watching)
        assert len(seen) > 20
        assert all(filters == before for filters in seen)

    def test_gpytorch_is_not_loaded(self) -> None:
        code = (
            "import sys\nfrom lmgp.inference.learning import maximize_likelihood\nfrom lmgp.validation import Rows\n"
            "import numpy as np\nX = np.linspace(0, 1, 20)[:, None]\n"
            "maximize_likelihood(Rows(X, np.sin(9 * X[:, 0])), rng=np.random.default_rng(0))\n"
            "print('gpytorch' in sys.modules)"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert run.stdout.strip() == "False"

    def test_memory_is_checked_before_anything_is_allocated(self) -> None:
        rng = np.random.default_rng(0)
        rows = Rows(rng.normal(size=(40_000, 2)), rng.normal(size=40_000))
        with pytest.raises(MemoryLimitError, match=r"40,000 rows take.*Lower max_learning_rows") as caught:
            maximize_likelihood(rows, max_learning_rows=50_000, max_memory_gib=1.0, rng=rng)
        assert "max_memory_gib=1" in str(caught.value)
