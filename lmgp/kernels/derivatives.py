"""Derivatives of several weighted sums of one kernel matrix: what they share is computed once."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch

from lmgp.kernels.distances import CLOSE, squared_distances

if TYPE_CHECKING:
    from lmgp.kernels.base import Kernel
    from lmgp.kernels.stationary import StationaryKernel

# From symmetric weights G of the shape of k(X, X) to the derivatives of Σ G ∘ k(X, X): by the logarithm of each
# parameter, or by theta.
Pullback = Callable[[torch.Tensor], dict[str, torch.Tensor]]
Gradient = Callable[[torch.Tensor], torch.Tensor]


def with_gradient(kernel: "Kernel", X: torch.Tensor, theta: torch.Tensor) -> tuple[torch.Tensor, Gradient]:
    """Evaluate k(X, X), and make the function that takes derivatives of it by `theta`.

    Parameters
    ----------
    kernel : Kernel
    X : Tensor of shape (n, d) or (b, n, d)
    theta : Tensor of shape (n_free,) or (b, n_free)
        See `Kernel.evaluate`.

    Returns
    -------
    covariance : Tensor of shape (n, n) or (b, n, n)
    gradient : callable
        Takes symmetric weights G of that shape; returns the derivatives of Σ G ∘ k(X, X), of the shape of theta.
    """
    covariance, pullback = kernel.with_pullback(X, kernel.values(theta, X.device))
    free = [one.name for one in kernel.parameters if not one.fixed]

    def gradient(weights: torch.Tensor) -> torch.Tensor:
        pulled = pullback(weights)
        return torch.cat([theta[..., :0], *(pulled[name].reshape(*theta.shape[:-1], -1) for name in free)], dim=-1)

    return covariance, gradient


def pullback_by_autograd(
    kernel: "Kernel", X: torch.Tensor, values: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, Pullback]:
    """Do what `Kernel.with_pullback` does for any kernel."""
    own = {name: value.detach().clone().requires_grad_() for name, value in values.items()}
    with torch.enable_grad():
        covariance = kernel.evaluate_at(X, X, own)

    def pullback(weights: torch.Tensor) -> dict[str, torch.Tensor]:
        if not own:
            return {}
        slopes = torch.autograd.grad(covariance, list(own.values()), weights, retain_graph=True, materialize_grads=True)
        return {name: slope * values[name] for name, slope in zip(own, slopes, strict=True)}

    return covariance.detach(), pullback


def pullback_of_stationary(
    kernel: "StationaryKernel", X: torch.Tensor, values: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, Pullback]:
    """Do what `Kernel.with_pullback` does for a function of the distance in lengthscales: by products of matrices."""
    batched = X.ndim == 3
    scaled = X / values["lengthscale"]
    squares = squared_distances(scaled, scaled)
    correlation, slope, other_slopes = kernel.correlation_and_slopes(squares, values)
    covariance = values["variance"] * correlation
    centred = scaled - scaled.mean(dim=-2, keepdim=True)
    # A rough kernel's slope grows without bound as two rows approach, where its product with r² vanishes: products of
    # matrices would lose it.
    far = squares >= CLOSE * centred.square().sum(dim=-1).mean()
    slope = torch.where(far, -2.0 * values["variance"] * slope, 0.0)

    def pullback(weights: torch.Tensor) -> dict[str, torch.Tensor]:
        pulled = weights * slope
        by_column = centred.square() * pulled.sum(dim=-1, keepdim=True) - centred * (pulled @ centred)
        by_lengthscale = 2.0 * by_column.sum(dim=-2, keepdim=batched)
        if by_lengthscale.shape != values["lengthscale"].shape:  # one for all columns
            by_lengthscale = by_lengthscale.sum(dim=-1, keepdim=batched)
        found = {"lengthscale": by_lengthscale}
        found["variance"] = (weights * covariance).sum(dim=(-2, -1), keepdim=batched)
        for name, other in other_slopes.items():
            derivative = weights * values["variance"] * other * values[name]
            found[name] = derivative.sum(dim=(-2, -1), keepdim=batched)
        return found

    return covariance, pullback
