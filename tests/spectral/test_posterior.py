"""The posterior on Fourier modes against dense algebra with the kernel that the modes make."""

import numpy as np
import pytest

from lmgp import GaussianKernel, MaternKernel
from lmgp.errors import MemoryLimitError, ToleranceWarning
from lmgp.inference.trend import without_trend
from lmgp.kernels.base import Kernel
from lmgp.noise import Noise
from lmgp.spectral import preconditioning
from lmgp.spectral.posterior import ACCURACY, SpectralPosterior
from lmgp.spectral.preconditioning import Plan
from lmgp.validation import Rows
from tests.conftest import ARGUMENTS, NOISE, Floats, rows_and_noises, with_ones
from tests.spectral.conftest import approximated, between

CASES: dict[str, tuple[int, Kernel]] = {
    "1 column": (1, GaussianKernel(0.9, 1.4)),
    "2 columns": (2, MaternKernel([5.0, 4.0], 0.8, smoothness=2.5)),
    "3 columns": (3, GaussianKernel([3.0, 2.0, 2.5], 1.4)),
}
every_case = pytest.mark.parametrize(("d", "kernel"), CASES.values(), ids=CASES)
# In noise standard deviations.
COARSE = 0.1


@pytest.fixture(autouse=True, params=[Plan(), Plan(most=0)], ids=["block", "iterations"])
def _solved(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the block of all modes, and without one."""
    monkeypatch.setattr(preconditioning, "PLAN", request.param)


def drawn(d: int, n: int = 90) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(d)
    X = rng.uniform(1.0, 5.0, (n, d))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, -1] + 0.2 * rng.normal(size=n), rng.uniform(0.0, 6.0, (20, d))


def covariance(posterior: SpectralPosterior, X: Floats, Z: Floats) -> Floats:
    return approximated(posterior.modes, posterior.kernel, between(X, Z)).reshape(len(X), len(Z))


@every_case
@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("approximation", ["dtc", "fitc"])
def test_it_is_that_of_the_kernel_of_the_modes(d: int, kernel: Kernel, arguments: str, approximation: str) -> None:
    """However coarse the modes: the iterations alone are left, and they are within their bound."""
    X, y, T = drawn(d)
    rows, noises = rows_and_noises(X, y, arguments)
    posterior = SpectralPosterior(kernel, rows, Noise(NOISE, approximation), COARSE)
    prior = covariance(posterior, X, X)
    left_out = kernel.prior_variance() - prior[0, 0]
    assert posterior.left_out == pytest.approx(max(left_out, 0.0), abs=1e-9)
    weights = np.ones(len(y)) if rows.weights is None else rows.weights
    # What the modes leave out is noise of each repetition.
    noises = noises + (posterior.left_out / weights if approximation == "fitc" else 0.0)
    solved = np.linalg.solve(prior + np.diag(noises), rows.y)
    off = posterior.mean(X) - prior @ solved
    # To the tolerance of the transforms.
    assert 0.5 * np.sum(off**2 / noises) / weights.sum() <= 1.05 * posterior.error.iterations + 1e-6
    new = posterior.mean(T) - covariance(posterior, T, X) @ solved
    assert np.sqrt(np.mean(new**2) / NOISE) < 10.0 * COARSE
    assert posterior.surprise == pytest.approx(rows.y @ solved / weights.sum(), rel=0.02)
    # With a small tolerance, the kernel itself.
    close = SpectralPosterior(kernel, rows, Noise(NOISE, approximation), 1e-4)
    exact = np.linalg.solve(kernel(X) + np.diag(rows_and_noises(X, y, arguments)[1]), rows.y)
    np.testing.assert_allclose(close.mean(T), kernel(T, X) @ exact, rtol=0, atol=5e-3 * np.sqrt(NOISE))
    assert close.surprise == pytest.approx(rows.y @ exact / weights.sum(), rel=1e-4)


@every_case
def test_the_variance_of_a_trend(d: int, kernel: Kernel) -> None:
    X, y, T = drawn(d)
    rows, noises = rows_and_noises(X, y, "both")
    trend, residuals = without_trend(rows, "linear", None)
    posterior = SpectralPosterior(kernel, residuals, Noise(NOISE), 1e-4, trend=trend)
    solved = np.linalg.solve(kernel(X) + np.diag(noises), np.column_stack((rows.y, with_ones(X))))
    of_y, of_columns = solved[:, :1], solved[:, 1:]
    spread = np.linalg.inv(with_ones(X).T @ of_columns)
    r = with_ones(T) - kernel(T, X) @ of_columns
    expected = np.einsum("ij,jk,ik->i", r, spread, r)
    np.testing.assert_allclose(posterior.trend_variance(T), expected, rtol=1e-3, atol=1e-4 * NOISE)
    beta = spread @ (with_ones(X).T @ of_y[:, 0])
    expected = with_ones(T) @ beta + kernel(T, X) @ (of_y[:, 0] - of_columns @ beta)
    np.testing.assert_allclose(
        posterior.mean(T) + posterior.trend.values(T), expected, rtol=0, atol=5e-3 * np.sqrt(NOISE)
    )
    assert np.all(SpectralPosterior(kernel, rows, Noise(NOISE), COARSE).trend_variance(T) == 0.0)


@pytest.mark.parametrize("kernel", [GaussianKernel(0.8, 1.4), MaternKernel(1.0, 1.4, smoothness=2.5)])
def test_heavy_rows_are_as_close_to_the_exact_mean_as_others(kernel: Kernel) -> None:
    X, y, _ = drawn(2, 300)
    T = np.random.default_rng(5).uniform(1.0, 5.0, (100, 2))
    for weight in (1.0, 100.0):
        rows = Rows(X, y, np.full(len(y), weight))
        off = SpectralPosterior(kernel, rows, Noise(NOISE), 0.01).mean(T)
        off -= kernel(T, X) @ np.linalg.solve(kernel(X) + NOISE / weight * np.eye(len(X)), y)
        assert np.sqrt(np.mean(off**2) / NOISE) < 3.0 * 0.01


def test_more_memory_than_allowed() -> None:
    X, y, _ = drawn(2)
    rows, _ = rows_and_noises(X, y, "plain")
    with pytest.raises(MemoryLimitError, match=r"Fourier modes of Matern.*tolerance of 0.001.*NearestNeighbors"):
        SpectralPosterior(MaternKernel(0.5), rows, Noise(NOISE), 1e-3, max_memory_gib=0.01)


@every_case
@pytest.mark.parametrize("tolerance", [0.3, 0.01])
def test_no_iteration_is_more_than_the_tolerance_asks_for(
    d: int, kernel: Kernel, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preconditioning, "PLAN", Plan(most=0))
    rows, _ = rows_and_noises(*drawn(d)[:2], "both")
    enough = 0.5 * tolerance**2
    error = SpectralPosterior(kernel, rows, Noise(NOISE), tolerance).error
    assert error.converged
    assert error.iterations <= enough
    with pytest.warns(ToleranceWarning, match=f"{error.n_iterations - 1} iterations leave") as told:
        less = SpectralPosterior(kernel, rows, Noise(NOISE), tolerance, max_iterations=error.n_iterations - 1).error
    assert less.iterations > enough
    assert not less.converged
    # What it says is what is left, in noise standard deviations.
    left = float(str(told[0].message).partition(" up to ")[2].split()[0])
    assert left == pytest.approx(np.sqrt(2.0 * less.iterations), rel=0.1)


def test_transforms_are_as_exact_as_the_tolerance_asks_for() -> None:
    kernel = GaussianKernel(0.9, 1.4)
    rows, _ = rows_and_noises(*drawn(1)[:2], "plain")

    def asked(tolerance: float, **options: float) -> float:
        return SpectralPosterior(kernel, rows, Noise(NOISE), tolerance, **options)._transform_tolerance

    assert asked(0.01) == pytest.approx(ACCURACY.transform * 0.01 * NOISE / 1.4)
    assert asked(0.01, room=2.0) == pytest.approx(asked(0.01) / 4.0)
    assert asked(1e-13) == ACCURACY.least_transform


@every_case
def test_what_rows_say_of_a_trend_is_known_where_the_mean_is_coarse(d: int, kernel: Kernel) -> None:
    X, y, _ = drawn(d)
    rows, noises = rows_and_noises(X, y, "both")
    trend, residuals = without_trend(rows, "linear", None)
    found = SpectralPosterior(kernel, residuals, Noise(NOISE), COARSE, trend=trend)
    # The kernel of the modes, whose iterations alone are left.
    C, columns = covariance(found, X, X) + np.diag(noises), trend.columns(X)
    expected = columns.T @ np.linalg.solve(C, columns)
    np.testing.assert_allclose(found._precise[1:, 1:], expected, rtol=0, atol=0.004 * np.abs(expected).max())
