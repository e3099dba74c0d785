"""Squared distances between rows: accurate for close rows, in batches, with a gradient."""

from typing import Any

import torch
from scipy.spatial.distance import cdist

# The gradient of a squared distance below this multiple of the mean square of a row is made of differences.
CLOSE = 1e-10

# Batches of at least this number of columns take products of matrices, which are quicker from there on.
COLUMNS = 10

# Products lose the digits of a square below this multiple of ‖z‖²: such squares are made of differences.
CANCELLED = 1e-6


def _squares(X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
    batched = max(X.ndim, Z.ndim) > 2
    return _by_products(X, Z) if batched and X.shape[-1] >= COLUMNS else _by_differences(X, Z)


def _by_differences(X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
    if X.ndim == 2 and Z.ndim == 2 and X.device.type == "cpu":
        return torch.from_numpy(cdist(X.numpy(), Z.numpy(), "sqeuclidean"))
    # Column by column: no tensor of all differences is held.
    squares = torch.zeros((), dtype=X.dtype, device=X.device)
    left = X.mT.contiguous()
    right = left if Z is X else Z.mT.contiguous()
    for x, z in zip(left.unbind(-2), right.unbind(-2), strict=True):
        difference = x[..., :, None] - z[..., None, :]
        squares = difference.square_() if squares.ndim == 0 else squares.addcmul_(difference, difference)
    return squares


def _by_products(X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
    """Return ‖x‖² + ‖z‖² − 2 xᵀz of rows about their mean; for pairs of close rows, differences."""
    centre = Z.mean(dim=-2, keepdim=True)
    left = X - centre
    right = left if Z is X else Z - centre
    own, other = left.square().sum(dim=-1, keepdim=True), right.square().sum(dim=-1).unsqueeze(-2)
    squares = ((-2.0 * left) @ right.mT).add_(own).add_(other)
    close = ~(squares >= CANCELLED * other)  # also what is no number: products of infinite rows
    if Z is X:
        squares.diagonal(dim1=-2, dim2=-1).zero_()
        close.diagonal(dim1=-2, dim2=-1).fill_(False)
    if close.any():
        *batch, i, j = close.nonzero(as_tuple=True)
        own_X, own_Z = (rows.expand(*squares.shape[:-2], *rows.shape[-2:]) for rows in (X, Z))
        squares[(*batch, i, j)] = (own_X[(*batch, i)] - own_Z[(*batch, j)]).square_().sum(dim=-1)
    return squares


class _SquaredDistances(torch.autograd.Function):
    """Forward by differences; backward by matrix products, and by differences for pairs of close rows."""

    @staticmethod
    def forward(ctx: Any, X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
        squares = _squares(X, Z)
        ctx.save_for_backward(X, Z, squares)
        return squares

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        (gradient,) = gradients
        X, Z, squares = ctx.saved_tensors
        # About the mean, so that the difference of two products keeps its digits far from the origin.
        centre = Z.mean(dim=-2, keepdim=True)
        X, Z = X - centre, Z - centre
        # A rough kernel's derivative by the square grows without bound as two rows approach: products would lose it.
        close = ((squares < CLOSE * Z.square().sum(dim=-1).mean()) & (gradient != 0.0)).nonzero(as_tuple=True)
        near = gradient[close]
        if len(near):
            gradient = gradient.index_put(close, torch.zeros_like(near))
            *batch, i, j = close
            own_X, own_Z = (rows.expand(*gradient.shape[:-2], *rows.shape[-2:]) for rows in (X, Z))
            near = 2.0 * near[:, None] * (own_X[(*batch, i)] - own_Z[(*batch, j)])
        by_X = by_Z = None
        if ctx.needs_input_grad[0]:
            by_X = 2.0 * (X * gradient.sum(dim=-1, keepdim=True) - gradient @ Z)
            if len(near):
                by_X.index_put_((*batch, i), near, accumulate=True)
        if ctx.needs_input_grad[1]:
            by_Z = 2.0 * (Z * gradient.sum(dim=-2).unsqueeze(-1) - gradient.mT @ X)
            if len(near):
                by_Z.index_put_((*batch, j), -near, accumulate=True)
        return by_X, by_Z


def squared_distances(X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
    """Return ‖x − z‖² for all pairs of rows, once differentiable.

    Inner products of rows far from the origin lose the distances between close ones: these are made of differences.

    Parameters
    ----------
    X : Tensor of shape (..., n, d)
    Z : Tensor of shape (..., m, d)

    Returns
    -------
    Tensor of shape (..., n, m)
    """
    if not (torch.is_grad_enabled() and (X.requires_grad or Z.requires_grad)):
        return _squares(X, Z)  # `apply` costs more than the distances of a hundred rows
    squares: torch.Tensor = _SquaredDistances.apply(X, Z)
    return squares
