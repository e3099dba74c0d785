"""What a solution over Fourier modes may be off by."""

from dataclasses import dataclass


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
    """

    transform: float = 0.1
    least_transform: float = 1e-13
    outgrown: float = 4.0
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
