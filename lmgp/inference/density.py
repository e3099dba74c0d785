"""The logarithm of a Gaussian density, with its gradient in closed form."""

import math
from typing import Any

import torch

from lmgp.errors import NumericalError


class NotPositiveDefiniteError(NumericalError):
    """A covariance has no Cholesky factor in float64. Nothing is added to its diagonal here: a search turns back."""


class _LogDensity(torch.autograd.Function):
    """log N(y | 0, C) with C = K + diag(noise) and α = C⁻¹y; its derivative in K is ½(ααᵀ − C⁻¹)."""

    @staticmethod
    def forward(ctx: Any, covariance: torch.Tensor, noise: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        noisy = covariance.clone()
        noisy.diagonal().add_(noise)
        factor, info = torch.linalg.cholesky_ex(noisy)
        if info != 0 or not torch.isfinite(factor.diagonal()).all():
            raise NotPositiveDefiniteError("The covariance has no Cholesky factor in float64.")
        coefficients = torch.cholesky_solve(y[:, None], factor)[:, 0]
        ctx.save_for_backward(factor, coefficients)
        log_determinant = 2.0 * factor.diagonal().log().sum()
        return -0.5 * (y @ coefficients + log_determinant + len(y) * math.log(2.0 * math.pi))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        factor, coefficients = ctx.saved_tensors
        by_covariance = torch.cholesky_inverse(factor)
        by_covariance.addr_(coefficients, coefficients, beta=-1.0)
        by_covariance.mul_(0.5 * gradients[0])
        by_y = -gradients[0] * coefficients if ctx.needs_input_grad[2] else None
        return by_covariance, by_covariance.diagonal().clone(), by_y


def log_density(covariance: torch.Tensor, noise: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return log N(y | 0, K + diag(noise)), once differentiable in all three.

    Its value takes one Cholesky factorisation, its gradient one inverse from that factor.

    Parameters
    ----------
    covariance : Tensor of shape (n, n)
        K, symmetric.
    noise : Tensor of shape (n,)
    y : Tensor of shape (n,)

    Returns
    -------
    Tensor of shape ()
        In nats.

    Raises
    ------
    NotPositiveDefiniteError
        If float64 does not allow a Cholesky factorisation.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 5.9.
    """
    density: torch.Tensor = _LogDensity.apply(covariance, noise, y)
    return density
