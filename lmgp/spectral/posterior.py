"""The posterior mean of all rows, from one solution over Fourier modes."""

import math
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.inference.trend import Trend, TrendFit
from lmgp.kernels.base import Kernel
from lmgp.memory import memory_limit
from lmgp.noise import Noise
from lmgp.spectral.accuracy import ACCURACY, SpectralError, warn_of_iterations, warn_of_modes
from lmgp.spectral.dense import DenseFactor
from lmgp.spectral.effort import Work, check_modes, check_seconds
from lmgp.spectral.modes import choose_modes
from lmgp.spectral.solve import Solution, products
from lmgp.spectral.sums import SpectralSums
from lmgp.spectral.system import ModeSystem
from lmgp.spectral.transforms import sums_over_modes
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


class SpectralPosterior:
    """The posterior mean of f, k ≈ Σⱼ wⱼ e^{2πi h∘j·(x − z)}, given all rows.

    With Φ the modes at the n rows, W the diagonal matrix of their prior variances and P that of the rows' precisions ρ,
    the mean is φᴴW^{1/2}α with (W^{1/2}ΦᴴPΦW^{1/2} + σ²I) α = W^{1/2}ΦᴴPy. ΦᴴPΦ is Toeplitz: conjugate gradients take
    two fast Fourier transforms an iteration, whatever n. The modes that matter most are solved for at once where they
    are few.

    Parameters
    ----------
    kernel : Kernel
        With a spectral density.
    rows : Rows
        With y centred, in up to three columns.
    noise : Noise
        What the modes leave out of the prior variance is noise of the rows where its approximation says so.
    tolerance : float
        The root mean square error of the mean, in noise standard deviations, of the modes and of the iterations.
    max_iterations : int
    max_memory_gib : float, optional
        The machine's memory if not given.
    trend : Trend, optional
        Of which y are the residuals; it is estimated from all rows.
    center : float, default=0.0
        What y are less of, beside the least-squares fit of the trend.
    room : float, default=1.0
        The modes serve lengthscales up to this factor shorter or longer than the kernel's.
    box : pair of ndarray of shape (d,), optional
        The lowest and the highest values of rows to come.
    n_rows : int, optional
        The number of rows to come, of which `rows` are a sample: they do not count, and nothing is solved.
    max_seconds : float, optional

    Attributes
    ----------
    modes : Modes
    sums : SpectralSums
        About the center and the least-squares fit of the trend.
    trend : TrendFit or None
    error : SpectralError
    left_out : float
        The prior variance that the modes leave out.

    Raises
    ------
    InputError
        See `choose_modes`.
    MemoryLimitError
        If the modes take more memory; before it is taken.
    TimeLimitError
        If the sums and iterations may take longer; before they begin.

    Warns
    -----
    ToleranceWarning
        If the iterations end before the tolerance is reached.

    References
    ----------
    P. Greengard, M. Rachh and A. Barnett, *Equispaced Fourier Representations for Efficient Gaussian Process Regression
    from a Billion Data Points*, 2022.
    """

    _solved: Solution
    trend: TrendFit | None

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        noise: Noise,
        tolerance: float,
        *,
        max_iterations: int = 2000,
        max_memory_gib: float | None = None,
        trend: Trend | None = None,
        center: float = 0.0,
        room: float = 1.0,
        box: tuple[Floats, Floats] | None = None,
        n_rows: int | None = None,
        max_seconds: float | None = None,
    ) -> None:
        self.kernel, self.noise = kernel.checked(rows.X.shape[1]), noise
        self._tolerance, self._max_iterations, self._max_memory_gib = tolerance, max_iterations, max_memory_gib
        self._trend, self._n_trend = trend, 0 if trend is None else trend.n_columns
        # A row of precision ρ counts as ρ rows at its place: in √N/σ, N rows in reach are ρN.
        precision = noise.mean_precision(rows)
        variance = noise.variance / np.sqrt(max(1.0, precision))
        self.modes = choose_modes(self.kernel, rows.X, variance, tolerance, room, box, n_rows)
        check_modes(self.modes, self.kernel, tolerance, 1 + self._n_trend, max_memory_gib)
        small = tolerance * variance / (self.kernel.prior_variance() * room**2)
        self._transform_tolerance = min(max(ACCURACY.transform * small, ACCURACY.least_transform), 1e-3)
        if max_seconds is not None:
            work = Work(n_rows or len(rows.y), 1 + self._n_trend, max_iterations, self._transform_tolerance)
            check_seconds(self.modes, self.kernel, noise.variance / precision, work, max_seconds)
        self._weigh()
        self._n_chosen, origin = n_rows or len(rows.y), self._origin(center)
        sums = self.sums_of(rows, np.zeros_like(origin))
        if n_rows is None:
            self._take(replace(sums, origin=origin))
            return
        self.sums, self.trend = replace(sums.merge(sums, -1.0), origin=origin), None
        self._solved = Solution(np.zeros_like(self._cross), np.zeros(1 + self._n_trend), 0, True)

    def _weigh(self) -> None:
        self._weights, prior = self.modes.weights(self.kernel), self.kernel.prior_variance()
        roots = np.sqrt(self._weights)[None]
        self.left_out = max(0.0, prior - float(products(roots, roots)[0]))

    def _origin(self, center: float) -> Floats:
        """Return the coefficients of the trend's columns in what targets are less of."""
        origin = np.zeros(1) if self._trend is None else self._trend.start.copy()
        origin[0] += center
        return origin

    def sums_of(self, rows: Rows, origin: Floats | None = None) -> SpectralSums:
        """Return the sums over other rows, to be added to these.

        Parameters
        ----------
        rows : Rows
            With y as it is.
        origin : ndarray of shape (p,), optional
            That of these sums if not given.
        """
        name = "" if self._trend is None else f" and {self._trend.name}"
        origin = self.sums.origin if origin is None else origin
        return SpectralSums.of(
            self.modes, rows, self.columns(rows.X), self.noise, self.noise_of(rows), self._transform_tolerance,
            trend=name, origin=origin,
        )  # fmt: skip

    def columns(self, X: Floats) -> Floats:
        """Return the columns h of the trend, of which the first is 1, shape (n, p)."""
        return np.ones((len(X), 1)) if self._trend is None else self._trend.columns(X)

    def shifted(self, rows: Rows, coefficients: Floats) -> Rows:
        """Return rows with y less a trend of these coefficients."""
        return replace(rows, y=rows.y - self.columns(rows.X) @ coefficients)

    def with_sums(self, sums: SpectralSums, warm: bool = False, center: float | None = None) -> Self:
        """Return the posterior of other sums, of the same modes.

        Where these have rows, and the iterations start anew, they go on to `ACCURACY.settled`: the result then depends
        on the sums alone, in whatever order they were added.

        Parameters
        ----------
        sums : SpectralSums
        warm : bool, default=False
            Whether iterations start from this solution.
        center : float, optional
            A mean of y that is known; that of the sums if not given.
        """
        other, center = copy(self), sums.mean if center is None else center
        if other._trend is not None:
            H, cross = sums.products[1:, 1:], sums.products[1:, 0]
            start = sums.origin + np.linalg.lstsq(H, cross, rcond=None)[0]
            start[0] -= center
            other._trend = replace(other._trend, start=start)
        solution = self._solved.vectors if warm else None
        other._take(sums.about(other._origin(center)), solution, settled=self.sums.n > 0.0 and not warm)
        return other._checked()

    def with_kernel(self, kernel: Kernel, noise: Noise) -> Self:
        """Return the posterior of the same sums for another kernel.

        Another noise variance is that of all rows: they must share one.
        """
        other = copy(self)
        other.kernel, other.noise = kernel, noise
        other._weigh()
        missing = other.left_out if noise.counts_missing else 0.0
        other._take(self.sums if noise == self.noise else self.sums.with_noise(noise, noise.variance + missing))
        return other._checked()

    def _checked(self) -> Self:
        """Return this posterior, with a warning where the modes serve other rows or another kernel too badly."""
        warn_of_modes(self.error, self.kernel, self.modes.reach, self.noise.variance, self.sums.n, self._tolerance)
        return self

    @cached_property
    def _system(self) -> ModeSystem:
        return ModeSystem(self.sums, self._weights, self.noise.variance, memory_limit(self._max_memory_gib))

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __getstate__(self) -> dict[str, Any]:
        # Without what follows from the rest in little time: half of the numbers.
        derived = ("_weights", "_system", "_coefficients", "_mean")
        return {name: value for name, value in vars(self).items() if name not in derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._weights = self.modes.weights(self.kernel)
        self._coefficients = np.sqrt(self._weights) * self._solved.vectors
        self._mean = self._less_trend()

    def noise_of(self, rows: Rows) -> Floats:
        """Return the noise variance of each row, with the prior variance that the modes leave out."""
        missing = torch.full((len(rows.y),), self.left_out, dtype=torch.float64)
        noise: Floats = self.noise.of_weighted_rows(rows, missing).numpy()
        return noise

    def _take(self, sums: SpectralSums, start: Complexes | None = None, settled: bool = False) -> None:
        """Solve for sums, from the solution of others if it is given."""
        self.sums, variance = sums, self.noise.variance
        vars(self).pop("_system", None)
        squares = sums.products.diagonal()[: 1 + self._n_trend]
        enough = self._enough(squares, self._n_trend)
        closely = self._enough(squares, self._n_trend, ACCURACY.settled) if settled else enough
        self._coefficients, found = self._of_cross(self._cross, closely, start)
        self._solved = found = replace(found, converged=bool(np.all(found.left <= enough)))
        if not found.converged:
            warn_of_iterations(found.n_iterations, float(found.left[0]), variance, sums.n, self._tolerance)
        self._estimate()

    @property
    def _cross(self) -> Complexes:
        """The sums of the targets that are solved for: of a trend, its columns too."""
        return self.sums.cross[: 1 + self._n_trend]

    def _enough(self, squares: Floats, n_trend: int, tolerance: float = math.inf) -> Floats:
        """Return the squared energy errors that are small enough for y, or draws of it, and the columns of a trend."""
        sums, variance, tolerance = self.sums, self.noise.variance, min(tolerance, self._tolerance)
        enough = np.full(len(squares), tolerance**2 * sums.n * variance)
        # HᵀC⁻¹H, of which all but a small part cancels, is at least HᵀPH over this.
        most = self.kernel.prior_variance() * float(sums.generator.flat[0].real) + variance
        # Of HᵀC⁻¹y, the error is that of both: their geometric mean.
        share = ACCURACY.trend / max(1.0, tolerance**2 * sums.n)
        first = len(squares) - n_trend
        # As closely as y, in proportion to their size, and as their coefficients ask for.
        of_mean = enough[0] / max(float(squares[0]), 1e-300)
        enough[first:] = np.minimum(of_mean, share * variance / most) * squares[first:]
        return np.maximum(enough, 1e-300)

    def _of_cross(self, cross: Complexes, enough: Floats, start: Complexes | None = None) -> tuple[Complexes, Solution]:
        """Solve for the coefficients of targets from their sums over rows."""
        found = self._system.solve(cross, enough, self._max_iterations, start)
        return np.sqrt(self._weights) * found.vectors, found

    def _estimate(self) -> None:
        sums, variance, trend = self.sums, self.noise.variance, self._trend
        # TᵀC⁻¹T of all targets, by C⁻¹ = (P − PΦW^{1/2}A⁻¹W^{1/2}ΦᴴP)/σ².
        explained = self._explained(self._cross, self._coefficients, self._solved.vectors)
        solved = slice(1 + self._n_trend)
        self._precise = (sums.products[solved, solved] - 0.5 * (explained + explained.T)) / variance
        self.trend = None
        if trend is not None:
            self.trend = trend.estimated(self._precise[1:, 1:], self._precise[1:, 0])
        self._mean = self._less_trend()
        self.error = SpectralError(
            iterations=0.5 * float(self._solved.left[0]) / (sums.n * variance),
            modes=self._of_left_out(),
            n_modes=self.modes.n_modes,
            n_iterations=self._solved.n_iterations,
            converged=self._solved.converged,
        )

    def _less_trend(self) -> Complexes:
        mean = self._coefficients[0]
        return mean if self.trend is None else mean - np.tensordot(self.trend.change, self._coefficients[1:], axes=1)

    def _explained(self, cross: Complexes, coefficients: Complexes, vectors: Complexes) -> Floats:
        """Return bᴴA⁻¹b' of all targets b and those given, with an error that is the product of two errors."""
        # bᴴx' + xᴴb' − xᴴAx' = bᴴA⁻¹b' − eᴴAe'.
        image = self._system.toeplitz(coefficients)
        solved = zip(self._cross, self._coefficients, self._solved.vectors, strict=True)
        return np.array([
            [
                products(h[None], one[None])[0]
                + products(c[None], (b - there)[None])[0]
                - self.noise.variance * products(x[None], z[None])[0]
                for b, one, there, z in zip(cross, coefficients, image, vectors, strict=True)
            ]
            for h, c, x in solved
        ])  # fmt: skip

    def _of_left_out(self) -> float:
        """Estimate the KL by the frequencies that are left out, see `choose_modes`."""
        n_near = max(1.0, self.modes.n_near * float(self.sums.products[1, 1]) / self._n_chosen)
        return 0.5 * n_near * (self.left_out / self.noise.variance) ** 2

    @property
    def surprise(self) -> float:
        """yᵀC⁻¹y/n."""
        return float(self._precise[0, 0]) / self.sums.n

    def mean(self, X: Floats) -> Floats:
        """Return the posterior mean of each row, without the trend; 0 where no training row is in reach; shape (m,)."""
        return self._evaluate(self._mean[None], X)[0]

    def columns_left(self, X: Floats) -> Floats:
        """Return what the process leaves of the columns of the trend, shape (m, p)."""
        return self.columns(X) - self._evaluate(self._coefficients[1:], X).T

    @property
    def explained_by_trend(self) -> float:
        """By how much estimating the trend makes yᵀC⁻¹y smaller."""
        change = np.zeros(self._n_trend) if self.trend is None else self.trend.change
        return float(change @ (2.0 * self._precise[1:, 0] - self._precise[1:, 1:] @ change))

    def trend_variance(self, X: Floats) -> Floats:
        """Return what not knowing the trend adds to the variance of each row, shape (m,)."""
        trend = self.trend
        return np.zeros(len(X)) if trend is None else trend.variance(X, self._evaluate(self._coefficients[1:], X).T)

    def dense(self) -> DenseFactor:
        """Return the dense factor of the modes: few of them."""
        return DenseFactor(self._system.whole, self.modes, self.left_out, self._transform_tolerance)

    def _evaluate(self, coefficients: Complexes, X: Floats) -> Floats:
        served, values = self.modes.served(X), np.zeros((len(coefficients), len(X)))
        if served.any():
            angles, tolerance = self.modes.angles(X[served]), self._transform_tolerance
            values[:, served] = sums_over_modes(angles, coefficients, self.modes.counts, tolerance)
        return values
