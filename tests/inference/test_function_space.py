"""Exact predictions from rows, against dense algebra, for any kernel."""

import numpy as np
import pytest

import lmgp.inference.function_space as function_space
from lmgp import GaussianKernel
from lmgp.errors import MemoryLimitError
from lmgp.inference.function_space import RowPosterior
from lmgp.noise import Noise
from lmgp.validation import Rows
from tests.conftest import ARGUMENTS, KERNELS, NOISE, centred, dense_gp, draw, rows_and_noises


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
