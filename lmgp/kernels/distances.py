"""Squared distances between rows: by differences, in batches, with a gradient."""

from typing import Any

import torch
from scipy.spatial.distance import cdist

# The gradient of a squared distance below this multiple of the mean square of a row is made of differences.
CLOSE = 1e-10


def _by_differences(X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
    if X.ndim == 2 and Z.ndim == 2 and X.device.type == "cpu":
        return torch.from_numpy(cdist(X.numpy(), Z.numpy(), "sqeuclidean"))
    # Column by column: no tensor of all differences is held.
    squares = torch.zeros((), dtype=X.dtype, device=X.device)
    for x, z in zip(X.unbind(-1), Z.unbind(-1), strict=True):
        difference = x[..., :, None] - z[..., None, :]
        squares = difference.square_() if squares.ndim == 0 else squares.addcmul_(difference, difference)
    return squares


class _SquaredDistances(torch.autograd.Function):
    """Forward by differences; backward by matrix products, and by differences for pairs of close rows."""

    @staticmethod
    def forward(ctx: Any, X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
        squares = _by_differences(X, Z)
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

    Not through inner products: far from the origin these lose the distances between close rows.

    Parameters
    ----------
    X : Tensor of shape (..., n, d)
    Z : Tensor of shape (..., m, d)

    Returns
    -------
    Tensor of shape (..., n, m)
    """
    if not (torch.is_grad_enabled() and (X.requires_grad or Z.requires_grad)):
        return _by_differences(X, Z)  # `apply` costs more than the distances of a hundred rows
    squares: torch.Tensor = _SquaredDistances.apply(X, Z)
    return squares
