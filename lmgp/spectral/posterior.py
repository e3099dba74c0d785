"""The posterior mean of all rows, from one solution over Fourier modes."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.errors import InputError, ToleranceWarning
from lmgp.inference.trend import Trend, TrendFit
from lmgp.kernels.base import Kernel
from lmgp.memory import check_memory
from lmgp.noise import Noise
from lmgp.spectral.dense import DenseFactor
from lmgp.spectral.modes import Modes, choose_modes, half_shape
from lmgp.spectral.solve import Solution, Toeplitz, products, solve
from lmgp.spectral.sums import SpectralSums
from lmgp.spectral.transforms import sums_over_modes
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


@dataclass(frozen=True)
class Accuracy:
    """How the parts of an error are balanced.

    Attributes
    ----------
    transform : float
        Of the non-uniform transforms, in what the modes may be off by at one row.
    least_transform : float
        No transform of float64 is more accurate.
    trend : float
        Of what the rows say about the coefficients of a trend, HᵀC⁻¹H: the share that iterations may add.
    """

    transform: float = 0.1
    least_transform: float = 1e-13
    trend: float = 1e-3


ACCURACY = Accuracy()


@dataclass(frozen=True)
class SpectralError:
    """What a solution over Fourier modes may be off by.

    Attributes
    ----------
    iterations : float
        A bound of KL(mean ‖ exact mean of these modes), averaged over the training rows, in nats.
    modes : float
        An estimate of the KL of the mean by the frequencies that are left out, in nats a row.
    n_modes, n_iterations : int
    converged : bool
        Whether the iterations reached what the tolerance asks for.
    """

    iterations: float
    modes: float
    n_modes: int
    n_iterations: int
    converged: bool

    @property
    def divergence(self) -> float:
        """The expected KL of the mean from the exact one, in nats a row."""
        return self.iterations + self.modes

    def __str__(self) -> str:
        return (
            f"{self.n_modes:,} modes, {self.n_iterations} iterations{'' if self.converged else ', not converged'}\n"
            f"KL of the mean by frequencies left out: about {self.modes:.1g} nats a row\n"
            f"KL of the mean by iterations: at most {self.iterations:.1g} nats a row, over the training rows"
        )


def check_modes(
    modes: Modes, kernel: Kernel, tolerance: float, n_targets: int, max_memory_gib: float | None = None
) -> None:
    """Refuse modes whose solution takes more memory than there is, or than the user allows.

    Raises
    ------
    MemoryLimitError
    """
    sizes = " × ".join(f"{2 * int(m) + 1:,}" for m in modes.counts)
    sums = 48.0 * float(np.prod(np.array(half_shape(2 * modes.counts), dtype=np.float64))) * (1 + n_targets)
    check_memory(
        Toeplitz.n_bytes(modes.counts, n_targets) + sums,
        f"The {sizes} Fourier modes of {kernel!r} for a tolerance of {tolerance:g}",
        "Lengthscales are short beside the extent of the rows, or the kernel is rough: give a larger tolerance, or use "
        "NearestNeighborsGPRegressor.",
        max_memory_gib,
    )


class SpectralPosterior:
    """The posterior mean of f, k ≈ Σⱼ wⱼ e^{2πi h∘j·(x − z)}, given all rows.

    With Φ the modes at the n rows, W the diagonal matrix of their prior variances and P that of the rows' precisions ρ,
    the mean is φᴴW^{1/2}α with (W^{1/2}ΦᴴPΦW^{1/2} + σ²I) α = W^{1/2}ΦᴴPy. ΦᴴPΦ is Toeplitz: conjugate gradients take
    two fast Fourier transforms an iteration, whatever n.

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

    Attributes
    ----------
    modes : Modes
    sums : SpectralSums
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
    ) -> None:
        self.kernel, self.noise = kernel.checked(rows.X.shape[1]), noise
        self.modes = choose_modes(self.kernel, rows.X, noise.variance, tolerance)
        n_targets = 1 if trend is None else 1 + trend.n_columns
        check_modes(self.modes, self.kernel, tolerance, n_targets, max_memory_gib)
        self._weights, prior = self.modes.weights(self.kernel), self.kernel.prior_variance()
        small = tolerance * noise.variance / prior
        self._transform_tolerance = min(max(ACCURACY.transform * small, ACCURACY.least_transform), 1e-3)
        self.left_out = max(0.0, prior - float(products(np.sqrt(self._weights)[None], np.sqrt(self._weights)[None])[0]))
        precision = noise.variance / self._noise_of(rows)
        targets = rows.y[None] if trend is None else np.vstack((rows.y[None], trend.columns(rows.X).T))
        self.sums = SpectralSums.of(self.modes, rows, targets, precision, self._transform_tolerance)
        self._solve(tolerance, max_iterations)
        self._estimate(trend)

    @cached_property
    def _toeplitz(self) -> Toeplitz:
        """Of the Gram matrix of the modes."""
        return Toeplitz(self.sums.generator, self.modes.counts)

    def __getstate__(self) -> dict[str, Any]:
        # Without what follows from the rest in little time: half of the numbers.
        derived = ("_weights", "_toeplitz", "_coefficients", "_mean")
        return {name: value for name, value in vars(self).items() if name not in derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._weights = self.modes.weights(self.kernel)
        self._coefficients = np.sqrt(self._weights) * self._solved.vectors
        self._mean = self._coefficients[0]
        if self.trend is not None:
            self._mean = self._mean - np.tensordot(self.trend.change, self._coefficients[1:], axes=1)

    def _noise_of(self, rows: Rows) -> Floats:
        """Return the noise variance of each row, with the prior variance that the modes leave out."""
        missing = torch.full((len(rows.y),), self.left_out, dtype=torch.float64)
        noise: Floats = self.noise.of_weighted_rows(rows, missing).numpy()
        return noise

    def _solve(self, tolerance: float, max_iterations: int) -> None:
        sums, variance = self.sums, self.noise.variance
        self._tolerance, self._max_iterations, n_trend = tolerance, max_iterations, len(sums.products) - 1
        self._coefficients, found = self._of_cross(sums.cross, self._enough(sums.products.diagonal(), n_trend))
        self._solved = found
        if not found.converged:
            left = float(np.sqrt(found.left[0] / (sums.n * variance)))
            warnings.warn(
                f"{found.n_iterations:,} iterations leave an error of the mean of up to {left:.2g} noise standard "
                f"deviations, root mean square over the training rows; tolerance={tolerance:g} asks for less. The "
                f"noise variance, {variance:.3g}, is small for {sums.n:,.0f} rows: raise max_iterations or tolerance.",
                ToleranceWarning,
                stacklevel=2,
            )

    def _enough(self, squares: Floats, n_trend: int) -> Floats:
        """Return the squared energy errors that are small enough for y, or draws of it, and the columns of a trend."""
        sums, variance, tolerance = self.sums, self.noise.variance, self._tolerance
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

    def _of_cross(self, cross: Complexes, enough: Floats) -> tuple[Complexes, Solution]:
        """Solve for the coefficients of targets from their sums over rows."""
        variance, root = self.noise.variance, np.sqrt(self._weights)

        def multiply(vectors: Complexes) -> Complexes:
            image = self._toeplitz(root * vectors)
            image *= root
            image += variance * vectors
            return image

        found = solve(multiply, root * cross, variance, enough, self._max_iterations)
        return root * found.vectors, found

    def _estimate(self, trend: Trend | None) -> None:
        sums, variance = self.sums, self.noise.variance
        # TᵀC⁻¹T of all targets, by C⁻¹ = (P − PΦW^{1/2}A⁻¹W^{1/2}ΦᴴP)/σ².
        explained = self._explained(sums.cross, self._coefficients, self._solved.vectors)
        self._precise = (sums.products - 0.5 * (explained + explained.T)) / variance
        self.trend: TrendFit | None = None
        coefficients = self._coefficients[0]
        if trend is not None:
            self.trend = trend.estimated(self._precise[1:, 1:], self._precise[1:, 0])
            coefficients = coefficients - np.tensordot(self.trend.change, self._coefficients[1:], axes=1)
        self._mean = coefficients
        self.error = SpectralError(
            iterations=0.5 * float(self._solved.left[0]) / (sums.n * variance),
            modes=self._of_left_out(),
            n_modes=self.modes.n_modes,
            n_iterations=self._solved.n_iterations,
            converged=self._solved.converged,
        )

    def _explained(self, cross: Complexes, coefficients: Complexes, vectors: Complexes) -> Floats:
        """Return bᴴA⁻¹b' of all targets b and those given, with an error that is the product of two errors."""
        # bᴴx' + xᴴb' − xᴴAx' = bᴴA⁻¹b' − eᴴAe'.
        image = self._toeplitz(coefficients)
        solved = zip(self.sums.cross, self._coefficients, self._solved.vectors, strict=True)
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
        return 0.5 * self.modes.n_near * (self.left_out / self.noise.variance) ** 2

    @property
    def surprise(self) -> float:
        """yᵀC⁻¹y/n."""
        return float(self._precise[0, 0]) / self.sums.n

    def mean(self, X: Floats) -> Floats:
        """Return the posterior mean of each row, without the trend; 0 where no training row is in reach; shape (m,)."""
        return self._evaluate(self._mean[None], X)[0]

    def trend_variance(self, X: Floats) -> Floats:
        """Return what not knowing the trend adds to the variance of each row, shape (m,)."""
        if self.trend is None:
            return np.zeros(len(X))
        return self.trend.variance(X, self._evaluate(self._coefficients[1:], X).T)

    def dense(self) -> DenseFactor:
        """Return the dense factor of the modes: few of them."""
        return DenseFactor(
            self.modes, self._weights, self.sums, self.noise.variance, self.left_out, self._transform_tolerance
        )

    def samples(self, X: Floats, rows: Rows, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw functions from the posterior: from the prior's modes, updated by the rows (Matheron's rule).

        Parameters
        ----------
        X : ndarray of shape (m, d)
        rows : Rows
            The training rows.
        n_samples : int
        rng : numpy.random.Generator

        Returns
        -------
        ndarray of shape (n_samples, m)
            Of f, and of what is not known of the trend, less the trend of least squares.

        Raises
        ------
        InputError
            If a row is so far from the box of the training rows that the modes do not draw it.

        References
        ----------
        J. T. Wilson, V. Borovitskiy, A. Terenin, P. Mostowsky and M. P. Deisenroth, *Efficiently Sampling Functions
        from Gaussian Process Posteriors*, ICML 2020, eq. 10.
        """
        self._check_drawn(X)
        prior = np.sqrt(self._weights) * _white((n_samples, *self.modes.shape), rng)
        noise = self._noise_of(rows)
        errors = np.sqrt(noise) * rng.standard_normal((n_samples, len(noise)))
        targets = rows.y - self._evaluate(prior, rows.X) - errors
        precision = self.noise.variance / noise
        sums = SpectralSums.of(self.modes, rows, targets, precision, self._transform_tolerance)
        coefficients, found = self._of_cross(sums.cross, self._enough(sums.products.diagonal(), 0))
        drawn = self._evaluate(prior + coefficients, X)
        if self.trend is not None:
            columns = self.trend.columns(rows.X)
            explained = self._explained(sums.cross, coefficients, found.vectors)[1:].T
            cross = ((precision * targets) @ columns - explained) / self.noise.variance
            changes = cross @ self.trend.covariance
            drawn += changes @ (self.trend.columns(X) - self._evaluate(self._coefficients[1:], X).T).T
        return drawn

    def _check_drawn(self, X: Floats) -> None:
        (outside,) = np.nonzero(~self.modes.served(X, 0.5))
        if len(outside):
            low, high = (self.modes.low - 0.5 * self.modes.reach, self.modes.high + 0.5 * self.modes.reach)
            box = " × ".join(f"[{a:.6g}, {b:.6g}]" for a, b in zip(low, high, strict=True))
            raise InputError(
                f"Draws are of rows within {box}, where the modes are those of the process; {len(outside):,} rows are "
                f"not, the first of them row {outside[0]}. Leave them out, or add training rows near them."
            )

    def _evaluate(self, coefficients: Complexes, X: Floats) -> Floats:
        served, values = self.modes.served(X), np.zeros((len(coefficients), len(X)))
        if served.any():
            angles = self.modes.angles(X[served])
            values[:, served] = sums_over_modes(angles, coefficients, self.modes.counts, self._transform_tolerance)
        return values


def _white(shape: tuple[int, ...], rng: np.random.Generator) -> Complexes:
    """Draw the modes of real white noise, each of variance 1; shape (b, *half_shape(counts))."""
    drawn = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) * np.sqrt(0.5)
    # Where the last column is 0, −j is kept beside j.
    plane = drawn[..., 0]
    axes = tuple(range(1, plane.ndim))
    mirrored = np.roll(np.flip(plane, axes), 1, axes) if axes else plane
    drawn[..., 0] = np.sqrt(0.5) * (plane + np.conj(mirrored))
    return drawn
