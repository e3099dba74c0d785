"""Sums over rows for the modes as cosines and sines: real numbers, and matrices of them."""

import math

import numpy as np
from numpy.typing import NDArray

from lmgp.spectral.modes import Complexes, Floats, Indices
from lmgp.spectral.sums import SpectralSums

# Pairs of modes are gathered for this number of rows of the matrix at a time.
BLOCK = 256


class RealSums:
    """Sums over rows for the modes as cosines and sines F: real, and no function of the kernel.

    Parameters
    ----------
    sums : SpectralSums
    kept : ndarray of bool, over modes, optional
        The modes that count, the constant among them; all if not given.

    Attributes
    ----------
    index : ndarray of shape (n, d)
        One of each two modes j and −j, as places in arrays over modes; the constant first.
    cross : ndarray of shape (n_modes,)
        FᵀPy, of the constant, the cosines and the sines.
    square, n, log_precision : float
        yᵀPy, the number of rows, each by its weight, and Σ w log(ρ/w).
    """

    def __init__(self, sums: SpectralSums, kept: NDArray[np.bool_] | None = None) -> None:
        self.index = _upper(np.ones(sums.modes.shape, dtype=np.bool_) if kept is None else kept)
        self._generator = sums.generator
        self.cross = self.of_vectors(sums.cross[:1])[0]
        self.square, self.n, self.log_precision = float(sums.products[0, 0]), sums.n, sums.log_precision

    def of_modes(self, values: Floats) -> Floats:
        """Return what arrays over modes hold for the constant, the cosines and the sines, shape (n_modes,)."""
        own = values[tuple(self.index.T)]
        return np.concatenate((own, own[1:]))

    def of_vectors(self, vectors: Complexes) -> Floats:
        """Return Σ ρ t F from Σ ρ t e^{−ij·θ} of each target: an isometry; shape (b, n_modes)."""
        values = vectors[(slice(None), *self.index.T)]
        root = math.sqrt(2.0)
        return np.concatenate((values[:, :1].real, root * values[:, 1:].real, -root * values[:, 1:].imag), axis=1)

    def to_vectors(self, values: Floats, vectors: Complexes) -> None:
        """Write what `of_vectors` would return as `values` into arrays over modes."""
        n, flat = len(self.index), self.index[:, -1] == 0
        cosines, sines = values[:, 1:n], values[:, n:]
        found = np.concatenate((values[:, :1], (cosines - 1j * sines) / math.sqrt(2.0)), axis=1)
        vectors[(slice(None), *self.index.T)] = found
        # Of the last column's zero, both of two modes are kept.
        vectors[(slice(None), *-self.index[flat].T)] = np.conj(found[:, flat])

    def log_likelihood(self, fit: float, log_determinant: float, noise_variance: float) -> float:
        """Return log p(y), of yᵀPy less what the modes explain, and log det(W^{1/2}FᵀPFW^{1/2} + σ²I)."""
        beyond = (self.n - len(self.cross)) * math.log(noise_variance) - self.log_precision
        return -0.5 * (fit / noise_variance + log_determinant + beyond + self.n * math.log(2.0 * math.pi))

    def products(self) -> Floats:
        """Return FᵀPF, shape (n_modes, n_modes)."""
        index, n = self.index[1:], len(self.index) - 1
        differences = _Differences(self._generator, 2 * np.abs(self.index).max(axis=0))
        products = np.empty((2 * n + 1, 2 * n + 1))
        constant, root = differences(self.index), math.sqrt(2.0)
        products[0] = np.concatenate((constant[0][:1], root * constant[0][1:], -root * constant[1][1:]))
        products[:, 0] = products[0]
        for start in range(0, n, BLOCK):
            some = slice(start, min(start + BLOCK, n))
            (minus, odd_minus), (plus, odd_plus) = differences(index[some], -index), differences(index[some], index)
            cosines, sines = slice(1 + some.start, 1 + some.stop), slice(1 + n + some.start, 1 + n + some.stop)
            products[cosines, 1 : n + 1] = minus + plus
            products[sines, n + 1 :] = minus - plus
            products[cosines, n + 1 :] = odd_minus - odd_plus
            products[n + 1 :, cosines] = products[cosines, n + 1 :].T
        return products


def _upper(kept: NDArray[np.bool_]) -> Indices:
    """Return one of each two modes j and −j, the constant first, as places in arrays over modes; shape (n, d)."""
    every = np.stack(np.nonzero(kept), axis=1)
    # Places beyond the middle are those of negative numbers; the last column has none.
    sizes = np.array([*kept.shape[:-1], 2 * kept.shape[-1]])
    every = np.where(2 * every > sizes, every - sizes, every)
    leading = np.zeros(len(every), dtype=np.intp)
    for column in every.T[::-1]:  # the last column that is not 0 is positive
        leading = np.where(leading == 0, np.sign(column), leading)
    return np.concatenate((np.zeros((1, kept.ndim), dtype=np.intp), every[leading > 0]))


class _Differences:
    """Values of sums and differences of modes, from arrays that keep half of them."""

    def __init__(self, generator: Complexes, most: Indices) -> None:
        for axis, m in enumerate(most[:-1].tolist()):
            generator = generator.take(range(-m, m + 1), axis)
        half = generator[..., : int(most[-1]) + 1]
        whole = np.concatenate((np.conj(np.flip(half[..., 1:])), half), axis=-1)
        self._real, self._imag = whole.real.ravel(), whole.imag.ravel()
        self._strides = np.array([math.prod(whole.shape[axis + 1 :]) for axis in range(whole.ndim)])
        self._middle = int(most @ self._strides)

    def __call__(self, left: Indices, right: Indices | None = None) -> tuple[Floats, Floats]:
        """Return the real and the imaginary parts at the left modes, or at the sum of each and each of the right."""
        place = self._middle + left @ self._strides
        if right is not None:
            place = place[:, None] + right @ self._strides
        return self._real[place], self._imag[place]
