"""Squared distances between rows: by differences, in batches, with a gradient."""

from typing import Any

import torch
from scipy.spatial.distance import cdist


class _SquaredDistances(torch.autograd.Function):
    """Differences forward; matrix products backward, which is all that a gradient takes."""

    @staticmethod
    def forward(ctx: Any, X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(X, Z)
        if X.ndim == 2 and Z.ndim == 2 and X.device.type == "cpu":
            return torch.from_numpy(cdist(X.numpy(), Z.numpy(), "sqeuclidean"))
        # Column by column: no tensor of all differences is held.
        squares = torch.zeros((), dtype=X.dtype, device=X.device)
        for x, z in zip(X.unbind(-1), Z.unbind(-1), strict=True):
            difference = x[..., :, None] - z[..., None, :]
            squares = difference.square_() if squares.ndim == 0 else squares.addcmul_(difference, difference)
        return squares

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        (gradient,) = gradients
        X, Z = ctx.saved_tensors
        # About the mean, so that the difference of two products keeps its digits far from the origin.
        centre = Z.mean(dim=-2, keepdim=True)
        X, Z = X - centre, Z - centre
        by_X = by_Z = None
        if ctx.needs_input_grad[0]:
            by_X = 2.0 * (X * gradient.sum(dim=-1, keepdim=True) - gradient @ Z)
        if ctx.needs_input_grad[1]:
            by_Z = 2.0 * (Z * gradient.sum(dim=-2).unsqueeze(-1) - gradient.mT @ X)
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
    squares: torch.Tensor = _SquaredDistances.apply(X, Z)
    return squares
