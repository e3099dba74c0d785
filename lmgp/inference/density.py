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
    y : Tensor of shape (n,) or (n, t)
        Several targets share the factorisation.

    Returns
    -------
    value : Tensor of shape ()
        In nats, summed over the targets.
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
    targets = y.reshape(len(y), -1)
    coefficients, n_targets = torch.cholesky_solve(targets, factor), targets.shape[1]
    log_determinant = 2.0 * factor.diagonal().log().sum()
    value = -0.5 * ((targets * coefficients).sum() + n_targets * (log_determinant + len(y) * math.log(2.0 * math.pi)))
    by_covariance = torch.cholesky_inverse(factor)
    by_covariance.addmm_(coefficients, coefficients.T, beta=-float(n_targets)).mul_(0.5)
    return value, by_covariance
