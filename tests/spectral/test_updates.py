"""Posteriors on Fourier modes of other sums, other kernels and draws, against dense algebra with the kernel itself."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

from lmgp import GaussianKernel
from lmgp.errors import InputError, ToleranceWarning
from lmgp.inference.trend import without_trend
from lmgp.kernels.base import Kernel
from lmgp.noise import Noise
from lmgp.spectral import preconditioning
from lmgp.spectral.accuracy import ACCURACY
from lmgp.spectral.joint import joint_samples
from lmgp.spectral.posterior import SpectralPosterior
from lmgp.spectral.solve import products
from lmgp.validation import Rows
from tests.conftest import ARGUMENTS, NOISE, Floats, dense_gp, rows_and_noises, universal_kriging, with_ones

KERNEL = GaussianKernel(0.9, 1.4)
FINE = 1e-4
# Of means, in units of y: what the tolerance allows, and some.
CLOSE = 5e-3 * np.sqrt(NOISE)


def drawn(arguments: str = "plain", n: int = 90) -> tuple[Rows, Floats, Floats]:
    """Rows of one column with their y as it is, their noise variances, and new rows."""
    rng = np.random.default_rng(1)
    X = rng.uniform(1.0, 5.0, (n, 1))
    y = 7.0 + 2.0 * X[:, 0] + np.sin(3.0 * X[:, 0]) + 0.2 * rng.normal(size=n)
    rows, noises = rows_and_noises(X, y, arguments)
    return replace(rows, y=y), noises, rng.uniform(1.0, 5.0, (20, 1))


def centred(rows: Rows) -> tuple[Rows, float]:
    """The rows with y less its mean, and that."""
    center = float(rows.y.mean())
    return replace(rows, y=rows.y - center), center


def dense(kernel: Kernel, rows: Rows, T: Floats, noises: Floats, center: float) -> Floats:
    """The mean of new rows, less the center."""
    found = dense_gp(kernel(rows.X), kernel(rows.X, T), np.diag(kernel(T)), rows.y, noises, center)
    return found[0] - center


class TestSums:
    @pytest.mark.parametrize("arguments", ARGUMENTS)
    def test_parts_of_the_rows_make_the_posterior_of_all(self, arguments: str) -> None:
        rows, noises, T = drawn(arguments)
        box = rows.X.min(axis=0), rows.X.max(axis=0)
        empty = SpectralPosterior(KERNEL, rows.take(slice(0, 20)), Noise(NOISE), FINE, box=box, n_rows=90)
        assert empty.sums.n == 0.0
        sums = empty.sums_of(rows.take(slice(0, 40))) + empty.sums_of(rows.take(slice(40, None)))
        whole = empty.with_sums(sums)
        weights = np.ones(90) if rows.weights is None else rows.weights
        center = float(np.average(rows.y, weights=weights))
        assert whole.sums.mean == pytest.approx(center, rel=1e-9)
        np.testing.assert_allclose(whole.mean(T), dense(KERNEL, rows, T, noises, center), rtol=0, atol=CLOSE)
        known = empty.with_sums(sums, center=8.0)
        np.testing.assert_allclose(known.mean(T), dense(KERNEL, rows, T, noises, 8.0), rtol=0, atol=CLOSE)

        less = whole.with_sums(sums - whole.sums_of(rows.take(slice(60, None))), warm=True)
        kept = rows.take(slice(0, 60))
        center = float(np.average(kept.y, weights=None if kept.weights is None else kept.weights))
        np.testing.assert_allclose(less.mean(T), dense(KERNEL, kept, T, noises[:60], center), rtol=0, atol=CLOSE)
        assert whole.sums.n == pytest.approx(weights.sum(), rel=1e-6)

    def test_a_start_saves_iterations(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preconditioning, "PLAN", preconditioning.Plan(most=0))
        rows, _, _ = drawn()
        shifted, center = centred(rows)
        posterior = SpectralPosterior(KERNEL, shifted, Noise(NOISE), FINE, center=center)
        cold, warm = posterior.with_sums(posterior.sums), posterior.with_sums(posterior.sums, warm=True)
        assert cold.error.n_iterations > 5
        assert posterior.error.iterations <= 0.5 * FINE**2
        assert 0.0 < cold.error.iterations <= 0.5 * ACCURACY.settled**2 * (1.0 + 1e-9)
        assert cold.error.n_iterations > posterior.error.n_iterations
        assert warm.error.n_iterations <= 1

    @pytest.mark.parametrize("arguments", ["plain", "both"])
    def test_a_trend_is_estimated_again(self, arguments: str) -> None:
        rows, noises, T = drawn(arguments)
        few = rows.take(slice(0, 50))
        shifted, first = centred(few)
        trend, residuals = without_trend(shifted, "linear", None)
        started = SpectralPosterior(
            KERNEL,
            residuals,
            Noise(NOISE),
            FINE,
            trend=trend,
            center=first,
            box=(rows.X.min(axis=0), rows.X.max(axis=0)),
        )
        whole = started.with_sums(started.sums + started.sums_of(rows.take(slice(50, None))))
        for posterior, of, n in ((started, few, 50), (whole, rows, 90)):
            X, y, H, h = of.X, of.y, with_ones(of.X), with_ones(T)
            prior = np.diag(KERNEL(T))
            mean, _, beta, spread = universal_kriging(KERNEL(X), KERNEL(X, T), prior, y, noises[:n], H, h)
            center = first if posterior is started else posterior.sums.mean
            found = posterior.mean(T) + posterior.trend.values(T) + center
            np.testing.assert_allclose(found, mean, rtol=0, atol=CLOSE)
            estimate = posterior.trend.estimate(center)
            np.testing.assert_allclose([estimate.intercept, *estimate.coef], beta, rtol=1e-3)
            r = h - KERNEL(T, X) @ np.linalg.solve(KERNEL(X) + np.diag(noises[:n]), H)
            expected = np.einsum("ij,jk,ik->i", r, spread, r)
            np.testing.assert_allclose(posterior.trend_variance(T), expected, rtol=1e-3, atol=1e-4 * NOISE)
            left = trend.columns(T) - KERNEL(T, X) @ np.linalg.solve(KERNEL(X) + np.diag(noises[:n]), trend.columns(X))
            np.testing.assert_allclose(posterior.columns_left(T), left, rtol=0, atol=2e-3)
            least = y - center - trend.columns(X) @ posterior.trend.start
            inverse = np.linalg.inv(KERNEL(X) + np.diag(noises[:n]))
            of_trend = least @ inverse @ least - (y - H @ beta) @ inverse @ (y - H @ beta)
            assert posterior.explained_by_trend == pytest.approx(of_trend, rel=1e-2)
            np.testing.assert_allclose(
                posterior.shifted(of, np.array([1.0, 2.0])).y, y - trend.columns(X) @ [1.0, 2.0], rtol=1e-14
            )
        assert started.modes.name == whole.modes.name
        assert started.error.n_iterations < 100  # the columns of the trend are solved as closely as they need


class TestKernels:
    @pytest.mark.parametrize("noise", [NOISE, 3.0 * NOISE])
    def test_the_same_sums_serve_another_kernel(self, noise: float) -> None:
        rows, _, T = drawn()
        other = GaussianKernel(1.1, 1.2)
        shifted, center = centred(rows)
        posterior = SpectralPosterior(KERNEL, shifted, Noise(NOISE), FINE, center=center, room=2.0)
        found = posterior.with_kernel(other, Noise(noise))
        expected = dense(other, rows, T, np.full(90, noise), center)
        np.testing.assert_allclose(found.mean(T), expected, rtol=0, atol=CLOSE)
        surprise = shifted.y @ np.linalg.solve(other(rows.X) + noise * np.eye(90), shifted.y) / 90
        assert found.surprise == pytest.approx(surprise, rel=1e-4)
        back = dense(KERNEL, rows, T, np.full(90, NOISE), center)
        np.testing.assert_allclose(posterior.mean(T), back, rtol=0, atol=CLOSE)

    def test_what_the_modes_leave_out_is_noise_where_it_is_said_to_be(self) -> None:
        rows, _, T = drawn()
        coarse = SpectralPosterior(KERNEL, centred(rows)[0], Noise(NOISE, "fitc"), 0.3)
        assert coarse.left_out > 0.0
        found = coarse.with_kernel(KERNEL, Noise(2.0 * NOISE, "fitc"))
        noise = coarse.with_kernel(KERNEL, Noise(2.0 * NOISE + found.left_out))
        np.testing.assert_allclose(found.mean(T), noise.mean(T), rtol=0, atol=0.3 * np.sqrt(NOISE))
        assert found.sums.shared_noise == pytest.approx(2.0 * NOISE + found.left_out, rel=1e-9)

    def test_a_kernel_that_the_modes_serve_badly_is_told(self) -> None:
        rows, _, _ = drawn()
        posterior = SpectralPosterior(KERNEL, centred(rows)[0], Noise(NOISE), FINE)
        rough = GaussianKernel(0.1, 1.4)
        with pytest.warns(ToleranceWarning):
            found = posterior.with_kernel(rough, Noise(NOISE))
        roots = np.sqrt(posterior.modes.weights(rough))[None]
        assert found.left_out == pytest.approx(1.4 - products(roots, roots)[0], rel=1e-9)
        assert found.error.modes == pytest.approx(0.5 * posterior.modes.n_near * (found.left_out / NOISE) ** 2)


class TestDraws:
    @pytest.mark.parametrize("trend", [False, True])
    def test_their_mean_and_covariance_are_those_of_the_process(self, trend: bool) -> None:
        rows, noises, T = drawn("both", 40)
        T, (shifted, center) = T[:6], centred(rows)
        made, residuals = without_trend(shifted, "linear", None) if trend else (None, shifted)
        posterior = SpectralPosterior(KERNEL, residuals, Noise(NOISE), FINE, center=center, trend=made)
        n = 4000
        found = joint_samples(posterior, T, residuals, n, np.random.default_rng(3))
        assert found.shape == (n, 6)
        noisy, cross = KERNEL(rows.X) + np.diag(noises), KERNEL(rows.X, T)
        covariance = KERNEL(T) - cross.T @ np.linalg.solve(noisy, cross)
        mean = cross.T @ np.linalg.solve(noisy, residuals.y)
        if trend:
            H, h = made.columns(rows.X), made.columns(T)
            of_columns = np.linalg.solve(noisy, H)
            spread, r = np.linalg.inv(H.T @ of_columns), h - cross.T @ of_columns
            change = spread @ of_columns.T @ residuals.y
            mean, covariance = mean + r @ change, covariance + r @ spread @ r.T
        errors = np.sqrt(covariance.diagonal() / n)
        np.testing.assert_array_less(np.abs(found.mean(axis=0) - mean), 5.0 * errors + CLOSE)
        scale = np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
        assert np.abs(np.cov(found.T) - covariance).max() <= (6.0 * np.sqrt(2.0 / n) * scale).max()

    def test_rows_that_the_modes_do_not_draw_are_refused(self) -> None:
        rows, _, _ = drawn()
        posterior = SpectralPosterior(KERNEL, rows, Noise(NOISE), FINE)
        far = np.array([[3.0], [90.0], [-90.0]])
        with pytest.raises(InputError, match=r"2 rows are not, the first of them row 1") as refused:
            joint_samples(posterior, far, rows, 2, np.random.default_rng(0))
        low, high = map(float, re.findall(r"within \[(.+), (.+)\], where", str(refused.value))[0])
        assert low < rows.X.min() < rows.X.max() < high
        joint_samples(posterior, np.array([[low + 1e-4], [high - 1e-4]]), rows, 2, np.random.default_rng(0))
        for outside in (low - 1e-4, high + 1e-4):
            with pytest.raises(InputError, match="1 rows are not"):
                joint_samples(posterior, np.array([[outside]]), rows, 2, np.random.default_rng(0))
        np.testing.assert_array_equal(posterior.mean(far)[1:], 0.0)  # where no training row is in reach


def test_what_follows_from_the_rest_is_made_again() -> None:
    rows, _, T = drawn("both")
    shifted, center = centred(rows)
    trend, residuals = without_trend(shifted, "linear", None)
    posterior = SpectralPosterior(KERNEL, residuals, Noise(NOISE), FINE, trend=trend, center=center)
    again = pickle.loads(pickle.dumps(posterior))
    np.testing.assert_array_equal(again.mean(T), posterior.mean(T))
    np.testing.assert_array_equal(again.trend_variance(T), posterior.trend_variance(T))
    more = again.with_sums(again.sums + again.sums_of(rows), warm=True)
    np.testing.assert_allclose(
        more.mean(T), posterior.with_sums(posterior.sums + posterior.sums_of(rows)).mean(T), rtol=0, atol=CLOSE
    )
