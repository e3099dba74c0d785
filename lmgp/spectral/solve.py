"""Conjugate gradients for the modes' coefficients, with a bound of what is left."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import fft

from lmgp.spectral.modes import Indices, half_shape

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


class Toeplitz:
    """The matrix Tⱼₗ = g(j − l) over modes, applied by fast Fourier transforms.

    Parameters
    ----------
    generator : ndarray of shape half_shape(2 * counts)
        g of all differences of two modes.
    counts : ndarray of int of shape (d,)
    """

    def __init__(self, generator: Complexes, counts: Indices) -> None:
        self.counts = counts
        self._axes = tuple(range(-len(counts), 0))
        self._grid = tuple(fft.next_fast_len(4 * int(m) + 1, real=True) for m in counts)
        self._places = _places(counts, self._grid)
        spectrum = self._spread(generator[None], _places(2 * counts, self._grid))
        self._multiplier = self._to_space(spectrum)[0] * np.prod(self._grid)

    @property
    def largest_eigenvalue(self) -> float:
        """A number that no eigenvalue is above: the largest of the circulant matrix of which this is a part."""
        return float(self._multiplier.max())

    @staticmethod
    def n_bytes(counts: Indices, n_vectors: int) -> float:
        """Return the memory of one product and of conjugate gradients, in bytes."""
        grid = float(np.prod([4.0 * int(m) + 1.0 for m in counts]))
        n_modes = float(np.prod(np.array(half_shape(counts), dtype=np.float64)))
        return 8.0 * grid * (1 + 4 * n_vectors) + 16.0 * n_modes * (6 * n_vectors + 2)

    def __call__(self, vectors: Complexes) -> Complexes:
        """Return T times each vector; shape (b, *half_shape(counts))."""
        space = self._to_space(self._spread(vectors, self._places))
        space *= self._multiplier
        spectrum = fft.rfftn(space, axes=self._axes, workers=torch.get_num_threads(), overwrite_x=True)
        result = np.empty_like(vectors)
        for here, there in self._places:
            result[here] = spectrum[there]
        return result

    def _spread(self, vectors: Complexes, places: list[tuple[tuple[slice, ...], tuple[slice, ...]]]) -> Complexes:
        spectrum = np.zeros((len(vectors), *self._grid[:-1], self._grid[-1] // 2 + 1), dtype=np.complex128)
        for here, there in places:
            spectrum[there] = vectors[here]
        return spectrum

    def _to_space(self, spectrum: Complexes) -> Floats:
        space: Floats = fft.irfftn(
            spectrum, self._grid, axes=self._axes, workers=torch.get_num_threads(), overwrite_x=True
        )
        return space


def _places(counts: Indices, grid: tuple[int, ...]) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Return the blocks of arrays over modes, and where they stand in the spectrum of a grid."""
    sides = [
        [(slice(0, m + 1), slice(0, m + 1)), (slice(m + 1, None), slice(size - m, None))]
        for m, size in zip(counts[:-1].tolist(), grid[:-1], strict=True)
    ]
    last = int(counts[-1]) + 1
    return [
        ((slice(None), *(here for here, _ in blocks), slice(0, last)),
         (slice(None), *(there for _, there in blocks), slice(0, last)))
        for blocks in product(*sides)
    ]  # fmt: skip


def products(left: Complexes, right: Complexes) -> Floats:
    """Return Σ conj(left) right over all modes, those that are not kept included; shape (b,)."""
    pairs = zip(left, right, strict=True)
    return np.array([2.0 * np.vdot(a, b).real - np.vdot(a[..., 0], b[..., 0]).real for a, b in pairs])


@dataclass(frozen=True, eq=False)
class Solution:
    """What conjugate gradients found.

    Attributes
    ----------
    vectors : ndarray of shape (b, *half_shape(counts))
    left : ndarray of shape (b,)
        An upper bound of the squared energy norm of the error, eᴴAe.
    n_iterations : int
    converged : bool
        Whether `left` is within what was asked for.
    """

    vectors: Complexes
    left: Floats
    n_iterations: int
    converged: bool


def solve(
    multiply: Callable[[Complexes], Complexes],
    right: Complexes,
    least_eigenvalue: float,
    enough: Floats,
    max_iterations: int,
    start: Complexes | None = None,
    inverse: Callable[[Complexes], Complexes] | None = None,
) -> Solution:
    """Solve A x = right for each right side by conjugate gradients.

    Parameters
    ----------
    multiply : callable
        A, Hermitian.
    right : ndarray of shape (b, *half_shape(counts))
    least_eigenvalue : float
        A positive number that no eigenvalue of A, or of the preconditioned matrix, is below.
    enough : ndarray of shape (b,)
        The squared energy norm of the error, eᴴAe, that is small enough.
    max_iterations : int
    start : ndarray of shape (b, *half_shape(counts)), optional
        Where to start; 0 if not given.
    inverse : callable, optional
        The preconditioner: positive definite, and about the inverse of A.

    Returns
    -------
    Solution

    References
    ----------
    G. Meurant and P. Tichý, *On Computing Quadrature-Based Bounds for the A-Norm of the Error in Conjugate Gradients*,
    Numerical Algorithms 62, 2013: the Gauss–Radau upper bound, which costs nothing beside the iterations.
    """
    expand = (slice(None), *(None,) * (right.ndim - 1))
    x, residual = np.zeros_like(right), right.copy()
    if start is not None:
        x += start
        residual -= multiply(start)
    # Of the preconditioned matrix, in its inner product, the bound is the same.
    direction = residual.copy() if inverse is None else inverse(residual)
    squares = products(residual, direction)
    radau = np.full(len(right), 1.0 / least_eigenvalue)
    done = 0
    while np.any(radau * squares > enough) and done < max_iterations:
        image = multiply(direction)
        curvature = products(direction, image)
        # A right side that is solved to the last digit stays as it is.
        step = np.divide(squares, curvature, out=np.zeros_like(squares), where=curvature > 0.0)
        x += step[expand] * direction
        residual -= step[expand] * image
        towards = residual if inverse is None else inverse(residual)
        after = products(residual, towards)
        ratio = np.divide(after, squares, out=np.zeros_like(squares), where=squares > 0.0)
        # Where rounding has closed the gap, the residual alone bounds the error.
        gap, worst = radau - step, 1.0 / least_eigenvalue
        bound = least_eigenvalue * gap + ratio
        radau = np.divide(gap, bound, out=np.full_like(gap, worst), where=(gap > 0.0) & (bound > 0.0))
        direction *= ratio[expand]
        direction += towards
        squares = after
        done += 1
    left = radau * squares
    return Solution(x, left, done, bool(np.all(left <= enough)))
