"""What a solution over Fourier modes may be off by."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import ToleranceWarning
from lmgp.kernels.base import Kernel


@dataclass(frozen=True)
class Accuracy:
    """How the parts of an error are balanced.

    Attributes
    ----------
    transform : float
        Of the non-uniform transforms, in what the modes may be off by at one row.
    least_transform : float
        No transform of float64 is more accurate.
    outgrown : float
        More rows, or another kernel, may make the error of the modes up to this multiple of the tolerance.
    trend : float
        Of what the rows say about the coefficients of a trend, HᵀC⁻¹H: the share that iterations may add.
    settled : float
        After updates, iterations leave this root mean square error of the mean, in noise standard deviations, or the
        tolerance if that is smaller: results do not depend on the order of rows.
    """

    transform: float = 0.1
    least_transform: float = 1e-13
    outgrown: float = 4.0
    trend: float = 1e-3
    settled: float = 1e-9


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


def warn_of_iterations(n_iterations: int, left: float, noise_variance: float, n_rows: float, tolerance: float) -> None:
    """Warn of iterations that ended too early.

    Parameters
    ----------
    n_iterations : int
    left : float
        The squared energy error that they leave.
    noise_variance, n_rows, tolerance : float
    """
    off = math.sqrt(left / (n_rows * noise_variance))
    warnings.warn(
        f"{n_iterations:,} iterations leave an error of the mean of up to {off:.2g} noise standard deviations, root "
        f"mean square over the training rows; tolerance={tolerance:g} asks for less. The noise variance, "
        f"{noise_variance:.3g}, is small for {n_rows:,.0f} rows: raise max_iterations or tolerance.",
        ToleranceWarning,
        stacklevel=3,
    )


def warn_of_modes(
    error: SpectralError,
    kernel: Kernel,
    reach: NDArray[np.float64],
    noise_variance: float,
    n_rows: float,
    tolerance: float,
) -> None:
    """Warn where the modes, chosen for other rows or another kernel, are too few, or their copies too near.

    Parameters
    ----------
    error : SpectralError
    kernel : Kernel
    reach : ndarray of shape (d,)
        How far a copy of the rows is from the rows, in each column.
    noise_variance, n_rows, tolerance : float
    """
    copies = float(np.abs(kernel(np.zeros((1, len(reach))), np.diag(reach))).sum())
    off = math.sqrt(2.0 * error.modes + n_rows * (copies / noise_variance) ** 2)
    if off > ACCURACY.outgrown * tolerance:
        warnings.warn(
            f"The modes were chosen for fewer rows or another kernel: for {n_rows:,.0f} rows, {kernel!r} and the noise "
            f"variance {noise_variance:.3g} the mean may be off by up to about {off:.2g} noise standard deviations, "
            f"where tolerance={tolerance:g} asks for less. Fit again to all rows, or start from a smaller tolerance.",
            ToleranceWarning,
            stacklevel=3,
        )
