"""The linear system of the modes' coefficients."""

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from lmgp.spectral.modes import Complexes, Floats
from lmgp.spectral.preconditioning import Block, Diagonal, block_modes, diagonal, iterations_before
from lmgp.spectral.solve import Solution, Toeplitz, solve
from lmgp.spectral.sums import SpectralSums


class ModeSystem:
    """A = W^{1/2}TW^{1/2} + σ²I, T the Gram matrix of the modes.

    Parameters
    ----------
    sums : SpectralSums
    weights : ndarray over modes
        W, their prior variances.
    noise_variance : float
        σ².
    max_bytes : float, optional
        See `block_modes`.

    Attributes
    ----------
    toeplitz : Toeplitz
        T.
    """

    def __init__(self, sums: SpectralSums, weights: Floats, noise_variance: float, max_bytes: float = math.inf) -> None:
        self._sums, self._weights, self._noise_variance = sums, weights, noise_variance
        self.toeplitz = Toeplitz(sums.generator, sums.modes.counts)
        self._kept = block_modes(weights, float(sums.generator.flat[0].real), noise_variance, max_bytes)

    @cached_property
    def block(self) -> Block | None:
        """The modes that are solved for at once; None where they would be too many."""
        if self._kept is None:
            return None
        return Block(self._sums, self.toeplitz, self._weights, self._noise_variance, self._kept)

    @property
    def whole(self) -> Block:
        """The block of all modes.

        Raises
        ------
        NumericalError
            If the matrix is not positive definite in float64.
        """
        block = self.block
        if block is not None and len(block.roots) == self._sums.modes.n_modes:
            return block
        every = np.ones(self._weights.shape, dtype=np.bool_)
        return Block(self._sums, self.toeplitz, self._weights, self._noise_variance, every)

    @cached_property
    def _diagonal(self) -> Diagonal | None:
        return diagonal(self._sums, self._weights, self._noise_variance)

    def solve(self, cross: Complexes, enough: Floats, max_iterations: int, start: Complexes | None = None) -> Solution:
        """Return A⁻¹W^{1/2} times each vector, by conjugate gradients.

        With the block, at once where it is of all modes; of more modes, where iterations without it were not enough.

        Parameters
        ----------
        cross : ndarray of shape (b, *half_shape(counts))
        enough : ndarray of shape (b,)
            See `lmgp.spectral.solve.solve`.
        max_iterations : int
        start : ndarray of shape (b, *half_shape(counts)), optional
        """
        right = np.sqrt(self._weights) * cross
        before = 0
        if "block" not in vars(self):
            before = int(min(math.inf if self._kept is None else iterations_before(self._kept), max_iterations))
        if before == 0:
            return self._iterated(right, enough, max_iterations, start, self.block)
        found = self._iterated(right, enough, before, start, self._diagonal)
        if found.converged or before == max_iterations:
            return found
        rest = self._iterated(right, enough, max_iterations - before, found.vectors, self.block)
        return replace(rest, n_iterations=before + rest.n_iterations)

    def _iterated(
        self,
        right: Complexes,
        enough: Floats,
        max_iterations: int,
        start: Complexes | None,
        inverse: Block | Diagonal | None,
    ) -> Solution:
        roots, variance = np.sqrt(self._weights), self._noise_variance

        def multiply(vectors: Complexes) -> Complexes:
            image = roots * self.toeplitz(roots * vectors)
            image += variance * vectors
            return image

        least = variance if inverse is None else inverse.least_eigenvalue
        return solve(multiply, right, least, enough, max_iterations, start, inverse)
