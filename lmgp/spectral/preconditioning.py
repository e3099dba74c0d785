"""Preconditioners of the matrix A = W^{1/2}TW^{1/2} + σ²I of modes, with a bound of the least eigenvalue they leave."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.linalg import cholesky
from lmgp.spectral.modes import Complexes, Floats
from lmgp.spectral.real import RealSums
from lmgp.spectral.solve import Toeplitz, products
from lmgp.spectral.sums import SpectralSums


@dataclass(frozen=True)
class Plan:
    """Which preconditioner is taken.

    Attributes
    ----------
    most : int
        Modes that are solved for at once.
    share : float
        Of more modes than that, those are whose prior variance, times the number of rows, is above this share of σ².
    patience : int
        Such a block is made after this number of iterations without it, and no earlier than it pays.
    pays : float
        It takes as long as the cube of its size, over this number and over that of all modes, iterations.
    even : float
        The share of the period with rows, (∫ρ)²/∫ρ² of their density, above which the diagonal preconditions.
    """

    most: int = 2048
    share: float = 1.0
    patience: int = 200
    pays: float = 2000.0
    even: float = 0.5


PLAN = Plan()


def block_modes(
    weights: Floats, n: float, noise_variance: float, max_bytes: float = math.inf
) -> NDArray[np.bool_] | None:
    """Return which modes to solve for at once: all of few, otherwise those that matter most; None if these are many.

    Parameters
    ----------
    weights : ndarray over modes
        Their prior variances.
    n : float
        The number of rows, in units of their precision.
    noise_variance : float
        σ².
    max_bytes : float, optional
        That the block of more than a few modes may take.
    """
    every = np.ones(weights.shape, dtype=np.bool_)
    if n_kept(every) <= PLAN.most:
        return every
    heavy = n * weights > PLAN.share * noise_variance
    heavy[(0,) * heavy.ndim] = True
    return heavy if n_kept(heavy) <= PLAN.most and Block.n_bytes(n_kept(heavy)) <= max_bytes else None


def iterations_before(kept: NDArray[np.bool_]) -> int:
    """Return after how many iterations without it the block of these modes is made: 0 of all modes."""
    as_long = n_kept(kept) ** 3 / (PLAN.pays * n_kept(np.ones_like(kept)))
    return 0 if kept.all() else max(PLAN.patience, math.ceil(as_long))


def n_kept(kept: NDArray[np.bool_]) -> int:
    """Return how many modes arrays of half of them stand for."""
    return 2 * int(kept.sum()) - int(kept[..., 0].sum())


class Diagonal:
    """The inverse of the diagonal n W + σ²I.

    Parameters
    ----------
    weights : ndarray over modes
    n, noise_variance : float

    Attributes
    ----------
    least_eigenvalue : float
        No eigenvalue of the preconditioned matrix is below it.
    """

    def __init__(self, weights: Floats, n: float, noise_variance: float) -> None:
        diagonal = n * weights + noise_variance
        self._inverse, self.least_eigenvalue = 1.0 / diagonal, noise_variance / float(diagonal.max())

    def __call__(self, vectors: Complexes) -> Complexes:
        """Return the inverse times each vector."""
        return self._inverse * vectors


class Block:
    """The inverse of the matrix of some modes, by Cholesky factorisation, and of σ²I for the others.

    With B = W^{1/2}Φᴴ of the rows, xᴴAx = ‖Bₛᴴs + Bᵣᴴr‖² + σ²(‖s‖² + ‖r‖²) of parts s in the block and r beside it. As
    ‖a + b‖² ≥ u/(1 + u) ‖a‖² − u‖b‖² for every u > 0, and ‖Bᵣᴴr‖² ≤ vσ²‖r‖², the least eigenvalue λ is at least the
    smaller of u/(1 + u) and 1 − uv: of the best u, the smaller root of λ² − (2 + v)λ + 1 = 0.

    Parameters
    ----------
    sums : SpectralSums
    toeplitz : Toeplitz
        Of these sums.
    weights : ndarray over modes
    noise_variance : float
    kept : ndarray of bool, over modes
        Which are in the block.

    Attributes
    ----------
    real : RealSums
        Of the modes in the block.
    roots : ndarray of shape (m,)
        W^{1/2} of the constant, the cosines and the sines.
    inverse : ndarray of shape (m, m)
    log_determinant : float
        Of the matrix of the block.
    noise_variance, least_eigenvalue : float

    Raises
    ------
    NumericalError
        If the matrix is not positive definite in float64.
    """

    def __init__(
        self, sums: SpectralSums, toeplitz: Toeplitz, weights: Floats, noise_variance: float, kept: NDArray[np.bool_]
    ) -> None:
        self.real, self.noise_variance = RealSums(sums, kept), noise_variance
        self.roots = np.sqrt(self.real.of_modes(weights))
        matrix = self.real.products()
        matrix *= self.roots
        matrix *= self.roots[:, None]
        matrix[np.diag_indices_from(matrix)] += noise_variance
        factor = cholesky(torch.from_numpy(matrix), noise_variance)
        self.log_determinant = 2.0 * float(factor.diagonal().log().sum())
        self.inverse: Floats = torch.cholesky_inverse(factor).numpy()
        beside = float(np.max(weights, where=~kept, initial=0.0)) * toeplitz.largest_eigenvalue / noise_variance
        self.least_eigenvalue = 2.0 / (2.0 + beside + math.sqrt(beside * (beside + 4.0)))

    @staticmethod
    def n_bytes(n_modes: int) -> float:
        """Return the memory of the matrix, its factor, its inverse and what is made of it, in bytes."""
        return 4.0 * 8.0 * float(n_modes) ** 2

    def __call__(self, vectors: Complexes) -> Complexes:
        """Return the inverse times each vector."""
        result = vectors / self.noise_variance
        self.real.to_vectors(self.real.of_vectors(vectors) @ self.inverse, result)
        return result


def diagonal(sums: SpectralSums, weights: Floats, noise_variance: float) -> Diagonal | None:
    """Return the diagonal where it shortens conjugate gradients: where rows are about as dense everywhere.

    Where most of the period has none, the many directions without rows share the eigenvalue σ², which it would spread.

    Parameters
    ----------
    sums : SpectralSums
    weights : ndarray over modes
    noise_variance : float
    """
    n = float(sums.generator.flat[0].real)
    share = n**2 / float(products(sums.generator[None], sums.generator[None])[0]) if n > 0.0 else 0.0
    return Diagonal(weights, n, noise_variance) if share > PLAN.even else None
