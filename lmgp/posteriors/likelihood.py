"""The exact log marginal likelihood of a Gaussian process, and its gradient."""

import math

import numpy as np

from lmgp.data import Floats, Noise, Rows, as_tensor
from lmgp.kernels.base import Kernel
from lmgp.kernels.derivatives import Pullback
from lmgp.posteriors.base import repetitions
from lmgp.posteriors.exact import ExactPosterior
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.linalg import ROUNDING


def log_likelihood(rows: Rows, kernel: Kernel, noise_variance: float) -> float:
    """Compute the log marginal likelihood of rows with centred targets, in nats, summed over the targets.

    Parameters
    ----------
    rows : Rows
    kernel : Kernel
    noise_variance : float
        Of the rows without a noise variance of their own, in squared units of the targets.

    Raises
    ------
    NumericalError
        If the noise is too small for a Cholesky factor in float64.
    """
    return float(ExactPosterior(kernel, rows, Noise(noise_variance)).log_density().sum())


class ExactLikelihood:
    """The log marginal likelihood of some rows, as a function of a kernel's free parameters and of the noise.

    Parameters
    ----------
    rows : Rows
        With centred targets, whose likelihoods are added: independent processes of one kernel and one noise.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 5.9.
    """

    def __init__(self, rows: Rows) -> None:
        self.X, self._rows = as_tensor(rows.X), rows

    def __call__(self, kernel: Kernel, free: Floats) -> tuple[float, Floats]:
        """Return the value in nats and its gradient.

        Parameters
        ----------
        kernel : Kernel
        free : ndarray of shape (n_free + 1,)
            Logarithms of the kernel's free parameters and of the noise variance, where the gradient is taken.

        Returns
        -------
        value : float
            Not a number where float64 does not allow a Cholesky factorisation.
        gradient : ndarray of shape (n_free + 1,)
            Zero there.
        """
        rows, n_targets, by_noise = self._rows, self._rows.n_targets, 0.0
        noise = Noise(math.exp(free[-1]))
        added = as_tensor(noise.of_weighted_rows(rows))
        with torch.no_grad():
            covariance, gradient = self._with_pullback(kernel, free[:-1])
            factor, coefficients, value = _factorised(covariance, added, as_tensor(rows.Y))
            if value.isnan():
                return math.nan, np.zeros_like(free)
            by_covariance = torch.cholesky_inverse(factor)
            del factor  # an n × n matrix less beside the derivatives
            # ½(ααᵀ − C⁻¹) with α = C⁻¹y.
            by_covariance.addmm_(coefficients, coefficients.T, beta=-float(n_targets)).mul_(0.5)
            if rows.noise_variances is None:
                by_noise = float(by_covariance.diagonal() @ added)
                by_noise -= 0.5 * n_targets * (rows.n_observations - len(rows))
            slopes = np.append(gradient.of_matrix(by_covariance).numpy(), by_noise)
        return float(value) - 0.5 * n_targets * repetitions(rows, noise), slopes

    def value(self, kernel: Kernel, free: Floats) -> float:
        """Return the value alone, see `__call__`."""
        rows, noise = self._rows, Noise(math.exp(free[-1]))
        with torch.no_grad():
            covariance, _ = self._with_pullback(kernel, free[:-1])
            *_, value = _factorised(covariance, as_tensor(noise.of_weighted_rows(rows)), as_tensor(rows.Y))
        return float(value) - 0.5 * rows.n_targets * repetitions(rows, noise)

    def _with_pullback(self, kernel: Kernel, free: Floats) -> tuple[Tensor, Pullback]:
        """Return the lower triangle of the covariance and its derivatives, by compiled loops where there are any."""
        from lmgp.posteriors.rowsystems import PairPullback, RowSystems  # here, for it loads a compiler

        rows = self._rows
        systems = RowSystems.of(kernel, free, rows.X, rows.Y, np.zeros(len(rows)))
        if systems is None:
            return kernel.with_pullback(self.X, torch.from_numpy(np.array(free, dtype=np.float64)))
        gradient = PairPullback(systems)
        return gradient.covariance, gradient

    @staticmethod
    def n_bytes(n: int, kernel: Kernel) -> int:
        """Return the memory that a call takes, in bytes: 4 matrices for the density, 5 for each part of the kernel."""
        n_parts = sum(one.name.endswith("variance") for one in kernel.parameters)
        return 8 * n * n * (4 + 5 * max(1, n_parts))


def _factorised(covariance: Tensor, noise: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the Cholesky factor of C = K + diag(noise), C⁻¹Y, and log N(Y | 0, C), summed over targets, (n, t).

    The last one is not a number where there is no factor in float64: a search turns back.
    """
    noisy = covariance.clone()
    noisy.diagonal().add_(noise)
    factor, info = torch.linalg.cholesky_ex(noisy)
    least = ROUNDING * len(targets) * noisy.diagonal().max()  # of the squares of pivots, in any order of the rows
    known = (info == 0) & (factor.diagonal().square() > least).all()
    coefficients = torch.cholesky_solve(targets, factor)
    of_each = 2.0 * factor.diagonal().log().sum() + len(targets) * math.log(2.0 * math.pi)
    value = -0.5 * ((targets * coefficients).sum() + targets.shape[1] * of_each)
    return factor, coefficients, torch.where(known, value, torch.nan)
