"""Exact predictions from rows, against dense algebra, for any kernel."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import lmgp.inference.function_space as function_space
from lmgp import GaussianKernel
from lmgp.errors import MemoryLimitError, NumericalWarning
from lmgp.inference.function_space import Conditional, RowPosterior, estimate_trend, factorise, max_rows_within
from lmgp.inference.trend import without_trend
from lmgp.noise import Noise
from lmgp.validation import Rows
from tests.conftest import (
    ARGUMENTS,
    KERNELS,
    NOISE,
    centred,
    dense_gp,
    draw,
    rows_and_noises,
    universal_kriging,
    with_ones,
)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("arguments", ARGUMENTS)
class TestAgainstDenseAlgebra:
    def test_of_all_rows(self, name: str, arguments: str) -> None:
        kernel, formula = KERNELS[name]
        X, y, T = draw()
        rows, noise = rows_and_noises(X, y, arguments)
        posterior = RowPosterior(kernel, rows, Noise(NOISE))
        mean, variance = posterior.predict(T)
        prior = np.diag(formula(T, T))
        expected = dense_gp(formula(X, X), formula(X, T), prior, rows.y, noise, 0.0)
        np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-8)
        np.testing.assert_allclose(variance, expected[1], rtol=0, atol=1e-8)
        np.testing.assert_allclose(posterior.predict(T, variance=False)[0], mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(formula(T, X) @ posterior.coefficients, expected[0], rtol=0, atol=1e-8)


class TestTheMeanAlone:
    def test_solves_nothing_for_the_new_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        solved: list[int] = []
        original = function_space.solve_lower

        def counting(factor, right):
            solved.append(right.shape[-1])
            return original(factor, right)

        X, y, T = draw()
        posterior = RowPosterior(KERNELS["matern32"][0], centred(X, y), Noise(NOISE))
        monkeypatch.setattr(function_space, "solve_lower", counting)
        monkeypatch.setattr(function_space, "solve_upper", _one_column_only(function_space.solve_upper))
        posterior.predict(T, variance=False)
        assert solved == []
        posterior.predict(T)
        assert solved == [len(T)]

    def test_asks_for_no_prior_variance(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T = draw()
        kernel = GaussianKernel(1.0)
        posterior = RowPosterior(kernel, centred(X, y), Noise(NOISE))
        monkeypatch.setattr(GaussianKernel, "diagonal", None)
        assert posterior.predict(T, variance=False)[1] is None


def _one_column_only(solve):
    def solving(factor, right):
        assert right.shape[-1] == 1
        return solve(factor, right)

    return solving


@pytest.mark.parametrize("variance", [False, True])
def test_chunks_of_new_rows_change_nothing(variance: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, T = draw()
    posterior = RowPosterior(KERNELS["matern52"][0], centred(X, y), Noise(NOISE))
    whole = posterior.predict(T, variance)
    monkeypatch.setattr(function_space, "SOLVE_BYTES", 3 * 8 * len(X))
    parts = posterior.predict(T, variance)
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-12, atol=1e-13)
    assert (parts[1] is None) == (not variance)
    if parts[1] is not None:
        np.testing.assert_allclose(parts[1], whole[1], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", KERNELS)
def test_of_no_rows_is_the_prior(name: str) -> None:
    kernel, formula = KERNELS[name]
    *_, T = draw()
    posterior = RowPosterior(kernel, Rows(np.empty((0, 2)), np.empty(0)), Noise(NOISE))
    mean, variance = posterior.predict(T)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(variance, np.diag(formula(T, T)), rtol=1e-14)
    assert posterior.coefficients.shape == (0,)
    assert posterior.predict(T, variance=False)[1] is None


def test_says_how_much_memory_it_holds() -> None:
    X, y, _ = draw()
    posterior = RowPosterior(GaussianKernel(1.0), centred(X, y), Noise(NOISE))
    assert posterior.n_bytes == 8 * (80 * 80 + 80 * 2 + 80 + 80)  # L, X, L⁻¹y and α


def test_more_rows_than_fit_are_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = draw()
    monkeypatch.setattr(function_space, "Conditional", None)
    with pytest.raises(MemoryLimitError, match=r"80 rows take .*max_memory_gib=1e-05. At most 25 rows fit"):
        RowPosterior(GaussianKernel(1.0), centred(X, y), Noise(NOISE), max_memory_gib=1e-5)


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_a_trend_is_that_of_universal_kriging(arguments: str) -> None:
    kernel, formula = KERNELS["matern32"]
    X, y, T = draw()
    given, noise = rows_and_noises(X, y + 4.0 * X[:, 0], arguments)
    trend, rows = without_trend(given, "linear", None)
    posterior = RowPosterior(kernel, rows, Noise(NOISE), trend=trend)
    covariance, cross = formula(X, X), formula(X, T)
    prior = np.diag(formula(T, T))
    mean, variance, beta, _ = universal_kriging(covariance, cross, prior, given.y, noise, with_ones(X), with_ones(T))
    found, spread = posterior.predict(T)
    np.testing.assert_allclose(found + posterior.trend.values(T), mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(spread, variance, rtol=1e-7)
    np.testing.assert_allclose(posterior.predict(T, variance=False)[0], found, rtol=0, atol=1e-9)
    residuals, noisy = given.y - with_ones(X) @ beta, covariance + np.diag(noise)
    np.testing.assert_allclose(posterior.coefficients, np.linalg.solve(noisy, residuals), rtol=0, atol=1e-7)
    assert posterior.log_density == pytest.approx(multivariate_normal(np.zeros(80), noisy).logpdf(residuals), rel=1e-9)
    assert posterior.surprise == pytest.approx(residuals @ np.linalg.solve(noisy, residuals) / 80, rel=1e-9)
    left = trend.columns(T) - cross.T @ np.linalg.solve(noisy, trend.columns(X))
    np.testing.assert_allclose(posterior.columns_left(T, posterior.whiten(T)), left, rtol=0, atol=1e-8)
    assert posterior.n_bytes == 8 * (80 * 80 + 80 * 2 + 80 + 80 + 80 * 3)


def test_a_trend_of_no_rows_is_not_known() -> None:
    X, y, T = draw()
    trend, _ = without_trend(centred(X, y), "linear", None)
    fit = trend.estimated(np.eye(3), np.zeros(3))
    posterior = RowPosterior(GaussianKernel(1.0, 1.5), Rows(np.empty((0, 2)), np.empty(0)), Noise(NOISE), trend=fit)
    mean, variance = posterior.predict(T)
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(variance, 1.5 + np.square(trend.columns(T)).sum(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(posterior.columns_left(T, posterior.whiten(T)), trend.columns(T))
    assert posterior.whiten(T).shape == (0, len(T))
    assert posterior.surprise == 0.0
    assert posterior.log_density == 0.0
    np.testing.assert_array_equal(posterior.solve(np.ones((0, 2))), np.ones((0, 2)))
    assert posterior.predict(T, variance=False)[1] is None


def test_another_target_of_the_same_rows_is_a_posterior_of_its_own() -> None:
    kernel, formula = KERNELS["matern32"]
    X, y, T = draw()
    rows = centred(X, y)
    posterior = RowPosterior(kernel, rows, Noise(NOISE))
    before = posterior.predict(T, variance=False)[0]  # the coefficients are kept
    other = np.random.default_rng(3).normal(size=80)
    found = posterior.with_target(other)
    noisy = formula(X, X) + NOISE * np.eye(80)
    expected = formula(T, X) @ np.linalg.solve(noisy, other)
    np.testing.assert_allclose(found.predict(T)[0], expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.predict(T, variance=False)[0], expected, rtol=0, atol=1e-9)
    assert found.log_density == pytest.approx(multivariate_normal(np.zeros(80), noisy).logpdf(other), rel=1e-10)
    np.testing.assert_array_equal(posterior.predict(T, variance=False)[0], before)
    targets = np.column_stack((other, rows.y))
    np.testing.assert_allclose(posterior.solve(targets), np.linalg.solve(noisy, targets), rtol=0, atol=1e-8)


class TestBatches:
    """Sets of rows that are factorised together, one of which is singular."""

    def test_each_set_is_a_posterior_of_its_own(self) -> None:
        kernel, formula = KERNELS["matern52"]
        X, y, T = draw(60)
        sets, targets = X.reshape(3, 20, 2), y.reshape(3, 20)
        columns = torch.from_numpy(np.stack([with_ones(one) for one in sets]))
        noise = torch.full((3, 20), NOISE, dtype=torch.float64)
        batch = Conditional(kernel, torch.from_numpy(sets), torch.from_numpy(targets), noise, columns)
        new = torch.from_numpy(np.broadcast_to(T, (3, *T.shape)).copy())
        prior = torch.from_numpy(np.broadcast_to(np.diag(formula(T, T)), (3, len(T))).copy())
        mean, variance, of_columns = batch.predict(new, prior)
        for i in range(3):
            noisy, cross = formula(sets[i], sets[i]) + NOISE * np.eye(20), formula(sets[i], T)
            solved = np.linalg.solve(noisy, np.column_stack((targets[i], with_ones(sets[i]), cross)))
            np.testing.assert_allclose(batch.coefficients()[i], solved[:, 0], rtol=0, atol=1e-9)
            np.testing.assert_allclose(mean[i], cross.T @ solved[:, 0], rtol=0, atol=1e-10)
            np.testing.assert_allclose(of_columns[i], cross.T @ solved[:, 1:4], rtol=0, atol=1e-9)
            left = np.diag(formula(T, T)) - np.sum(cross * solved[:, 4:], axis=0)
            np.testing.assert_allclose(variance[i], left, rtol=0, atol=1e-10)

    def test_a_set_that_is_singular_is_corrected_and_the_others_are_not(self) -> None:
        torch.manual_seed(0)
        roots = torch.randn(3, 6, 6, dtype=torch.float64)
        identity = torch.eye(6, dtype=torch.float64)
        covariance = roots @ roots.mT + identity
        covariance[1] = 1.0 - 1e-10 * identity
        noise = torch.full((3, 6), 1e-15, dtype=torch.float64)
        noise[1] = 1e-11  # a correction is at most 100 times the noise of its own set
        with pytest.warns(NumericalWarning):
            factors = factorise(covariance.clone(), noise)
        for i in (0, 2):
            np.testing.assert_allclose(factors[i], np.linalg.cholesky(covariance[i].numpy()), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(factors[1] @ factors[1].T, np.ones((6, 6)), rtol=0, atol=1e-9)

    def test_of_no_rows(self) -> None:
        empty = torch.empty((4, 0), dtype=torch.float64)
        assert factorise(torch.empty((4, 0, 0), dtype=torch.float64), empty).shape == (4, 0, 0)
        assert factorise(torch.empty((0, 0), dtype=torch.float64), empty[0]).shape == (0, 0)


def test_variances_that_rounding_takes_below_zero_are_zero() -> None:
    X = np.linspace(0.0, 1.0, 40)[:, None]
    posterior = RowPosterior(GaussianKernel(2.0, 1e6), Rows(X, np.zeros(40)), Noise(1e-9))
    variance = posterior.predict(np.repeat(X, 5, axis=0) + 1e-9)[1]
    assert variance.min() >= 0.0


def test_the_rows_of_two_matrices_fit_and_one_more_does_not() -> None:
    assert max_rows_within(1.0) == 8192  # 2 · 8 · 8192² bytes are 1 GiB
    function_space.check_exact(8192, 1.0)
    with pytest.raises(MemoryLimitError, match="At most 8,192 rows fit"):
        function_space.check_exact(8193, 1.0)
    assert max_rows_within(np.inf) == max_rows_within(1e12)


class TestATrendOfSomeRows:
    X = np.random.default_rng(0).uniform(-3.0, 3.0, (90, 2))
    y = 2.0 + 3.0 * X[:, 0] + np.sin(2.0 * X[:, 1])

    def test_that_of_few_rows_is_that_of_all(self) -> None:
        trend, rows = without_trend(centred(self.X, self.y), "linear", None)
        kernel, formula = KERNELS["matern32"]
        found = estimate_trend(trend, kernel, rows, Noise(NOISE), np.random.default_rng(0))
        covariance, zeros = formula(self.X, self.X), np.zeros((90, 1))
        _, _, beta, spread = universal_kriging(
            covariance, zeros, np.ones(1), self.y, np.full(90, NOISE), with_ones(self.X), np.ones((1, 3))
        )
        estimate = found.estimate(float(self.y.mean()))
        np.testing.assert_allclose([estimate.intercept, *estimate.coef], beta, rtol=1e-9)
        np.testing.assert_allclose(estimate.covariance, spread, rtol=1e-8, atol=1e-12)

    @pytest.mark.parametrize(("gib", "used"), [(None, 30), (16.0 * 10.5**2 / 2**30, 10), (1e-12, None)])
    def test_that_of_many_is_that_of_as_many_as_may_be(
        self, gib: float | None, used: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(function_space, "TREND_ROWS", 30)
        trend, rows = without_trend(centred(self.X, self.y), "linear", None)
        kernel, _ = KERNELS["matern32"]
        if used is None:  # fewer rows than coefficients determine none
            with pytest.raises(MemoryLimitError, match="from 4 rows"):
                estimate_trend(trend, kernel, rows, Noise(NOISE), np.random.default_rng(5), gib)
            return
        found = estimate_trend(trend, kernel, rows, Noise(NOISE), np.random.default_rng(5), gib)
        sample = rows.take(np.random.default_rng(5).choice(90, used, replace=False))
        expected = RowPosterior(kernel, sample, Noise(NOISE), trend=trend).trend
        np.testing.assert_allclose(found.change, expected.change, rtol=1e-12)
        np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-12)
