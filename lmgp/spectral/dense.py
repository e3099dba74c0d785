"""The dense factor of few modes: variances of any number of rows as one Fourier series, and the log likelihood."""

import math
from itertools import product as grid_of

import numpy as np
import torch

from lmgp.linalg import cholesky, solve_lower
from lmgp.spectral.modes import Complexes, Floats, Indices
from lmgp.spectral.sums import SpectralSums
from lmgp.spectral.transforms import sums_over_modes

# Pairs of modes are gathered for this number of rows of the matrix at a time.
BLOCK = 256


class RealSums:
    """Sums over rows for the modes as cosines and sines F: real, and no function of the kernel.

    Parameters
    ----------
    sums : SpectralSums

    Attributes
    ----------
    index : ndarray of shape (n, d)
        One of each two modes j and −j, as places in arrays over modes; the constant first.
    products : ndarray of shape (n_modes, n_modes)
        FᵀPF, of the constant, the cosines and the sines.
    cross : ndarray of shape (n_modes,)
        FᵀPy.
    square, n, log_precision : float
        yᵀPy, the number of rows, each by its weight, and Σ w log(ρ/w).
    """

    def __init__(self, sums: SpectralSums) -> None:
        counts = sums.modes.counts
        self.index = _upper(counts)
        self.products = self._products(_Lookup(sums.generator, 2 * counts))
        self.cross = self._real(sums.cross[0])
        self.square, self.n, self.log_precision = float(sums.products[0, 0]), sums.n, sums.log_precision

    def of_modes(self, values: Floats) -> Floats:
        """Return what arrays over modes hold for the constant, the cosines and the sines, shape (n_modes,)."""
        own = values[tuple(self.index.T)]
        return np.concatenate((own, own[1:]))

    def log_likelihood(self, fit: float, log_determinant: float, noise_variance: float) -> float:
        """Return log p(y), of yᵀPy less what the modes explain, and log det(W^{1/2}FᵀPFW^{1/2} + σ²I)."""
        beyond = (self.n - len(self.cross)) * math.log(noise_variance) - self.log_precision
        return -0.5 * (fit / noise_variance + log_determinant + beyond + self.n * math.log(2.0 * math.pi))

    def _real(self, cross: Complexes) -> Floats:
        """Return Σ ρ t F from Σ ρ t e^{−ij·θ}: of the constant, the cosines and the sines."""
        values = cross[tuple(self.index.T)]
        root = math.sqrt(2.0)
        return np.concatenate((values[:1].real, root * values[1:].real, -root * values[1:].imag))

    def _products(self, generator: "_Lookup") -> Floats:
        """Return FᵀPF."""
        index, n = self.index[1:], len(self.index) - 1
        products = np.empty((2 * n + 1, 2 * n + 1))
        constant = generator(self.index)
        root = math.sqrt(2.0)
        products[0] = np.concatenate((constant[:1].real, root * constant[1:].real, -root * constant[1:].imag))
        products[:, 0] = products[0]
        for start in range(0, n, BLOCK):
            some = slice(start, min(start + BLOCK, n))
            minus = generator(index[some, None] - index[None])
            plus = generator(index[some, None] + index[None])
            cosines, sines = slice(1 + some.start, 1 + some.stop), slice(1 + n + some.start, 1 + n + some.stop)
            products[cosines, 1 : n + 1] = minus.real + plus.real
            products[sines, n + 1 :] = minus.real - plus.real
            products[cosines, n + 1 :] = minus.imag - plus.imag
            products[n + 1 :, cosines] = products[cosines, n + 1 :].T
        return products


class DenseFactor:
    """The Cholesky factor of A = W^{1/2}FᵀPFW^{1/2} + σ²I, F the modes as cosines and sines.

    Parameters
    ----------
    weights : ndarray
        The prior variance of each mode, see `Modes.weights`.
    sums : SpectralSums
    noise_variance : float
        σ².
    left_out : float
        The prior variance that the modes leave out: that of new rows has it.
    tolerance : float
        Of the transforms, relative.

    Attributes
    ----------
    log_marginal_likelihood : float
        log p(y) of the modes, in nats.
    """

    def __init__(
        self, weights: Floats, sums: SpectralSums, noise_variance: float, left_out: float, tolerance: float
    ) -> None:
        self._modes, self._left_out, self._tolerance = sums.modes, left_out, tolerance
        real = RealSums(sums)
        self._index = real.index
        roots = np.sqrt(real.of_modes(weights))
        matrix = roots[:, None] * real.products * roots
        matrix[np.diag_indices_from(matrix)] += noise_variance
        factor = cholesky(torch.from_numpy(matrix), noise_variance)
        solved = solve_lower(factor, torch.from_numpy(roots * real.cross)[:, None])
        log_determinant = 2.0 * float(factor.diagonal().log().sum())
        fit = real.square - float(solved.square().sum())
        self.log_marginal_likelihood = real.log_likelihood(fit, log_determinant, noise_variance)
        covariance = noise_variance * torch.cholesky_inverse(factor).numpy()
        self._series = self._of_variance(roots[:, None] * covariance * roots)

    @staticmethod
    def n_bytes(n_modes: int) -> float:
        """Return the memory of the matrix and its inverse, in bytes."""
        return 4.0 * 8.0 * float(n_modes) ** 2

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


def _upper(counts: Indices) -> Indices:
    """Return one of each two modes j and −j, the constant first, as places in arrays over modes; shape (n, d)."""
    sides = [range(-int(m), int(m) + 1) for m in counts[:-1]]
    every = np.array(list(grid_of(*sides, range(int(counts[-1]) + 1))), dtype=np.intp)
    leading = np.zeros(len(every), dtype=np.intp)
    for column in every.T[::-1]:  # the last column that is not 0 is positive
        leading = np.where(leading == 0, np.sign(column), leading)
    kept = every[leading > 0]
    return np.concatenate((np.zeros((1, len(counts)), dtype=np.intp), kept))


class _Lookup:
    """Values of all modes from −m to m, of arrays that keep half of them."""

    def __init__(self, half: Complexes, counts: Indices) -> None:
        self._half, self._last = half, len(counts) - 1

    def __call__(self, index: Indices) -> Complexes:
        below = index[..., self._last] < 0
        places = np.where(below[..., None], -index, index)
        values = self._half[tuple(np.moveaxis(places, -1, 0))]  # negative places count from the end, as they should
        return np.where(below, np.conj(values), values)


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
