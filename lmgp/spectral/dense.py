"""The dense factor of few modes: variances of any number of rows as one Fourier series, and the log likelihood."""

import math

import numpy as np

from lmgp.spectral.modes import Complexes, Floats, Indices, Modes
from lmgp.spectral.preconditioning import Block
from lmgp.spectral.real import BLOCK
from lmgp.spectral.transforms import sums_over_modes


class DenseFactor:
    """What the inverse of A = W^{1/2}FᵀPFW^{1/2} + σ²I says, F the modes as cosines and sines.

    Parameters
    ----------
    block : Block
        Of all modes.
    modes : Modes
    left_out : float
        The prior variance that the modes leave out: that of new rows has it.
    tolerance : float
        Of the transforms, relative.

    Attributes
    ----------
    log_marginal_likelihood : float
        log p(y) of the modes, in nats.
    """

    def __init__(self, block: Block, modes: Modes, left_out: float, tolerance: float) -> None:
        self._modes, self._left_out, self._tolerance = modes, left_out, tolerance
        real, roots = block.real, block.roots
        self._index = real.index
        right = roots * real.cross
        fit = real.square - float(right @ block.inverse @ right)
        self.log_marginal_likelihood = real.log_likelihood(fit, block.log_determinant, block.noise_variance)
        self._series = self._of_variance(block.noise_variance * roots[:, None] * block.inverse * roots)

    def __str__(self) -> str:
        return "exact, from all modes"

    def variance(self, X: Floats) -> Floats:
        """Return the posterior variance of rows within reach, shape (m,)."""
        doubled = self._modes.doubled
        found = sums_over_modes(self._modes.angles(X), self._series[None], doubled.counts, self._tolerance)[0]
        return np.maximum(found, 0.0) + self._left_out

    def _of_variance(self, covariance: Floats) -> Complexes:
        """Return the Fourier series of fᵀ S f over the modes of twice the numbers, S the covariance of the weights."""
        index, n = self._index[1:], len(self._index) - 1
        series = _Series(2 * self._modes.counts)
        root = math.sqrt(2.0)
        series.add(self._index[:1], np.array([covariance[0, 0]]), np.zeros(1))
        series.add(index, 2.0 * root * covariance[0, 1 : n + 1], 2.0 * root * covariance[0, n + 1 :])
        for start in range(0, n, BLOCK):
            some = slice(start, min(start + BLOCK, n))
            cosines, sines = slice(1 + some.start, 1 + some.stop), slice(1 + n + some.start, 1 + n + some.stop)
            even, odd = covariance[cosines, 1 : n + 1], covariance[sines, n + 1 :]
            mixed = 2.0 * covariance[cosines, n + 1 :]
            series.add(index[some, None] - index[None], even + odd, -mixed)
            series.add(index[some, None] + index[None], even - odd, mixed)
        return series.coefficients()


class _Series:
    """Sums of cosines and sines by their mode."""

    def __init__(self, counts: Indices) -> None:
        self._counts = counts
        self._shape = tuple(2 * int(m) + 1 for m in counts)
        self._cosines, self._sines = np.zeros(math.prod(self._shape)), np.zeros(math.prod(self._shape))

    def add(self, index: Indices, cosines: Floats, sines: Floats) -> None:
        """Add cosines · cos(j·θ) + sines · sin(j·θ)."""
        flat = np.ravel_multi_index(tuple(np.moveaxis(index % self._shape, -1, 0)), self._shape).ravel()
        self._cosines += np.bincount(flat, cosines.ravel(), len(self._cosines))
        self._sines += np.bincount(flat, sines.ravel(), len(self._sines))

    def coefficients(self) -> Complexes:
        """Return the coefficients of e^{ij·θ}, over the modes that arrays keep."""
        whole = 0.5 * (self._cosines - 1j * self._sines).reshape(self._shape)
        axes = tuple(range(whole.ndim))
        whole = whole + np.conj(np.roll(np.flip(whole, axes), 1, axes))
        return np.ascontiguousarray(whole[..., : int(self._counts[-1]) + 1])
