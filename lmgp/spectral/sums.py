"""The additive statistics of rows on Fourier modes: they know no hyper-parameters."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmgp.spectral.modes import Modes
from lmgp.spectral.transforms import sums_over_rows
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class SpectralSums:
    """Sums over rows, with the precision ρ of each: those of disjoint rows add.

    Attributes
    ----------
    generator : ndarray of shape half_shape(2 m)
        Σ ρ e^{−2πi h∘k·(x − center)} of all differences k of two modes: the Gram matrix is Toeplitz.
    cross : ndarray of shape (p, *half_shape(m))
        Σ ρ t e^{−2πi h∘j·(x − center)}, of the p targets t: y, and the columns of a trend.
    products : ndarray of shape (p, p)
        Σ ρ t tᵀ.
    n : float
        The number of rows, each by its weight.
    """

    generator: Complexes
    cross: Complexes
    products: Floats
    n: float

    @classmethod
    def of(cls, modes: Modes, rows: Rows, targets: Floats, precision: Floats, tolerance: float) -> "SpectralSums":
        """Sum over rows.

        Parameters
        ----------
        modes : Modes
        rows : Rows
        targets : ndarray of shape (p, n)
        precision : ndarray of shape (n,)
            ρ.
        tolerance : float
            Of the transforms, relative.
        """
        angles, weighted = modes.angles(rows.X), precision * targets
        # One transform for the generator and all targets, at the modes of the generator.
        doubled = modes.doubled
        every = sums_over_rows(angles, np.vstack((precision, weighted)), doubled.counts, tolerance)
        cross = every[1:]
        for axis, m in enumerate(modes.counts[:-1].tolist(), start=1):
            cross = np.concatenate((cross.take(range(m + 1), axis), cross.take(range(-m, 0), axis)), axis)
        n = float(len(rows.y)) if rows.weights is None else float(rows.weights.sum())
        return cls(every[0], np.ascontiguousarray(cross[..., : modes.shape[-1]]), weighted @ targets.T, n)

    def __add__(self, other: "SpectralSums") -> "SpectralSums":
        """Return the sums over the rows of both."""
        return SpectralSums(
            self.generator + other.generator,
            self.cross + other.cross,
            self.products + other.products,
            self.n + other.n,
        )
