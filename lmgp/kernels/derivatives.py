"""Derivatives of several weighted sums of one kernel matrix: what they share is computed once."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lmgp.kernels.distances import CLOSE, squared_distances

if TYPE_CHECKING:
    from lmgp.kernels.base import Kernel
    from lmgp.kernels.stationary import StationaryKernel

Values = Mapping[str, torch.Tensor]


class Pullback(ABC):
    """Derivatives of weighted sums of the entries of a matrix k(X, X), by the logarithm of each parameter."""

    @abstractmethod
    def of_matrix(self, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        """Differentiate Σ G ∘ k(X, X).

        Parameters
        ----------
        weights : Tensor of shape (..., n, n)
            G, symmetric.

        Returns
        -------
        dict of str to Tensor
            Of the shape of each parameter's values.
        """

    def of_products(self, u: torch.Tensor, V: torch.Tensor) -> dict[str, torch.Tensor]:
        """Differentiate uᵀ k(X, X) v for several v.

        Parameters
        ----------
        u : Tensor of shape (..., n)
        V : Tensor of shape (c, ..., n)

        Returns
        -------
        dict of str to Tensor
            Of shape (c, ...): for each v what `of_matrix` returns, but for axes of length 1.
        """
        products = (u[..., :, None] * v[..., None, :] for v in V)
        found = [self.of_matrix(0.5 * (product + product.mT)) for product in products]
        return {name: torch.stack([one[name] for one in found]) for name in found[0]}


@dataclass(frozen=True)
class Gradient:
    """Derivatives of weighted sums of the entries of a matrix k(X, X), by `Kernel.theta`.

    Attributes
    ----------
    pullback : Pullback
    names : list of str
        The free parameters, in the order of theta.
    theta : Tensor of shape (n_free,) or (b, n_free)
    """

    pullback: Pullback
    names: list[str]
    theta: torch.Tensor

    def of_matrix(self, weights: torch.Tensor) -> torch.Tensor:
        """Differentiate Σ G ∘ k(X, X) for symmetric weights G of its shape: the result has the shape of theta."""
        return self._joined(self.pullback.of_matrix(weights))

    def of_products(self, u: torch.Tensor, V: torch.Tensor) -> torch.Tensor:
        """Differentiate uᵀ k(X, X) v for c vectors v, see `Pullback`: shape (c, n_free) or (c, b, n_free)."""
        return self._joined(self.pullback.of_products(u, V), len(V))

    def _joined(self, found: Values, *first: int) -> torch.Tensor:
        shape = (*first, *self.theta.shape[:-1])
        return torch.cat(
            [self.theta.new_empty(*shape, 0), *(found[name].reshape(*shape, -1) for name in self.names)], -1
        )


def with_gradient(kernel: "Kernel", X: torch.Tensor, theta: torch.Tensor) -> tuple[torch.Tensor, Gradient]:
    """Evaluate k(X, X), and prepare derivatives of it by `theta`.

    Parameters
    ----------
    kernel : Kernel
    X : Tensor of shape (n, d) or (b, n, d)
    theta : Tensor of shape (n_free,) or (b, n_free)
        See `Kernel.evaluate`.

    Returns
    -------
    covariance : Tensor of shape (n, n) or (b, n, n)
    gradient : Gradient
    """
    covariance, pullback = kernel.with_pullback(X, kernel.values(theta, X.device))
    return covariance, Gradient(pullback, [one.name for one in kernel.parameters if not one.fixed], theta)


class ByAutograd(Pullback):
    """Derivatives of any kernel, by automatic differentiation."""

    def __init__(self, kernel: "Kernel", X: torch.Tensor, values: Values) -> None:
        self._values = values
        self._own = {name: value.detach().clone().requires_grad_() for name, value in values.items()}
        with torch.enable_grad():
            self._covariance = kernel.evaluate_at(X, X, self._own)

    @property
    def covariance(self) -> torch.Tensor:
        """k(X, X)."""
        return self._covariance.detach()

    def of_matrix(self, weights: torch.Tensor) -> dict[str, torch.Tensor]:  # noqa: D102
        if not self._own:
            return {}
        own = list(self._own.values())
        slopes = torch.autograd.grad(self._covariance, own, weights, retain_graph=True, materialize_grads=True)
        return {name: slope * self._values[name] for name, slope in zip(self._own, slopes, strict=True)}


class OfStationary(Pullback):
    """Derivatives of a function of the distance in lengthscales: by products of matrices."""

    def __init__(self, kernel: "StationaryKernel", X: torch.Tensor, values: Values) -> None:
        self._batched, lengthscale = X.ndim > 2, values["lengthscale"]
        self._shared = lengthscale.ndim == 0 or lengthscale.shape[-1] < X.shape[-1]
        scaled = X / lengthscale
        squares = squared_distances(scaled, scaled)
        correlation, slope, others = kernel.correlation_and_slopes(squares, values)
        self.covariance = values["variance"] * correlation
        self._centred = scaled - scaled.mean(dim=-2, keepdim=True)
        self._slope = slope.mul_(-2.0 * values["variance"])
        # A rough kernel's slope grows without bound as two rows approach, where its product with r² vanishes: products
        # of matrices would lose it.
        self._slope.diagonal(dim1=-2, dim2=-1).zero_()
        squares.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
        nearest = CLOSE * self._centred.square().sum(dim=-1).mean()
        if squares.amin() < nearest:
            self._slope.masked_fill_(squares < nearest, 0.0)
        self._linear = {"variance": self.covariance}
        for name, other in others.items():
            self._linear[name] = values["variance"] * values[name] * other

    def of_matrix(self, weights: torch.Tensor) -> dict[str, torch.Tensor]:  # noqa: D102
        batched, centred = self._batched, self._centred
        pulled = weights * self._slope
        by_column = centred.square() * pulled.sum(dim=-1, keepdim=True) - centred * (pulled @ centred)
        by_lengthscale = 2.0 * by_column.sum(dim=-2, keepdim=batched)
        found = {"lengthscale": by_lengthscale.sum(dim=-1, keepdim=batched) if self._shared else by_lengthscale}
        for name, slope in self._linear.items():
            found[name] = (weights * slope).sum(dim=(-2, -1), keepdim=batched)
        return found

    def of_products(self, u: torch.Tensor, V: torch.Tensor) -> dict[str, torch.Tensor]:
        """Differentiate uᵀ k(X, X) v for several v, without matrices of weights; see `Pullback.of_products`."""
        centred, left, right = self._centred, u.unsqueeze(-1), V.movedim(0, -1)
        # Σᵢⱼ uᵢ Sᵢⱼ vⱼ (xᵢ − xⱼ)² of each column, with the square multiplied out.
        moved = (right.unsqueeze(-1) * centred.unsqueeze(-2)).flatten(-2)
        products = self._slope @ torch.cat((left, right, moved), dim=-1)
        of_u, of_each, of_moved = products.tensor_split((1, 1 + len(V)), dim=-1)
        crossed = (left * of_moved).unflatten(-1, (len(V), -1)) * centred.unsqueeze(-2)
        by_column = (left * of_each + right * of_u).mT @ centred.square() - 2.0 * crossed.sum(dim=-3)
        found = {"lengthscale": by_column.sum(dim=-1, keepdim=True) if self._shared else by_column}
        for name, slope in self._linear.items():
            found[name] = (left * (slope @ right)).sum(dim=-2).unsqueeze(-1)
        return {name: slopes.movedim(-2, 0) for name, slopes in found.items()}
