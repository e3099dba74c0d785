"""The logarithm of a Gaussian density, and its derivative in closed form."""

import math

import torch

from lmgp.errors import NumericalError


class NotPositiveDefiniteError(NumericalError):
    """A covariance has no Cholesky factor in float64. Nothing is added to its diagonal here: a search turns back."""


def log_density(covariance: torch.Tensor, noise: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log N(y | 0, C) for C = K + diag(noise), and its derivative by C.

    The value takes one Cholesky factorisation, the derivative ½(ααᵀ − C⁻¹) with α = C⁻¹y one inverse from that factor.

    Parameters
    ----------
    covariance : Tensor of shape (n, n)
        K, symmetric; left as it is.
    noise : Tensor of shape (n,)
    y : Tensor of shape (n,)

    Returns
    -------
    value : Tensor of shape ()
        In nats.
    by_covariance : Tensor of shape (n, n)

    Raises
    ------
    NotPositiveDefiniteError
        If float64 does not allow a Cholesky factorisation.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 5.9.
    """
    noisy = covariance.clone()
    noisy.diagonal().add_(noise)
    factor, info = torch.linalg.cholesky_ex(noisy)
    if info != 0 or not torch.isfinite(factor.diagonal()).all():
        raise NotPositiveDefiniteError("The covariance has no Cholesky factor in float64.")
    coefficients = torch.cholesky_solve(y[:, None], factor)[:, 0]
    log_determinant = 2.0 * factor.diagonal().log().sum()
    value = -0.5 * (y @ coefficients + log_determinant + len(y) * math.log(2.0 * math.pi))
    by_covariance = torch.cholesky_inverse(factor)
    by_covariance.addr_(coefficients, coefficients, beta=-1.0).mul_(0.5)
    return value, by_covariance
