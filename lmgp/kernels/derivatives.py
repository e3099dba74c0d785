"""Squared distances between rows, and derivatives of weighted sums of a kernel matrix: what they share is done once."""

from functools import cache
from typing import TYPE_CHECKING, Any

from scipy.spatial.distance import cdist

from lmgp.utils.lazy import Tensor, torch

if TYPE_CHECKING:
    from lmgp.kernels.base import Kernel

# The gradient of a squared distance below this multiple of the mean square of a row is made of differences.
CLOSE = 1e-10

# Rows of at least this number of columns take products of matrices, which are quicker from there on.
COLUMNS = 10

# Products lose the digits of a square below this multiple of ‖z‖²: such squares are made of differences.
CANCELLED = 1e-6


def _squares(X: Tensor, Z: Tensor) -> Tensor:
    return _by_products(X, Z) if X.shape[-1] >= COLUMNS else _by_differences(X, Z)


def _by_differences(X: Tensor, Z: Tensor) -> Tensor:
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


def _by_products(X: Tensor, Z: Tensor) -> Tensor:
    """Return ‖x‖² + ‖z‖² − 2 xᵀz of rows about their mean; for pairs of close rows, differences."""
    centre = Z.mean(dim=-2, keepdim=True)
    left = X - centre
    right = left if Z is X else Z - centre
    of_left, other = left.square().sum(dim=-1, keepdim=True), right.square().sum(dim=-1).unsqueeze(-2)
    squares = ((-2.0 * left) @ right.mT).add_(of_left).add_(other)
    close = ~(squares >= CANCELLED * other)  # also what is no number: products of infinite rows
    if Z is X:
        squares.diagonal(dim1=-2, dim2=-1).zero_()
        close.diagonal(dim1=-2, dim2=-1).fill_(False)
    if close.any():
        *batch, i, j = close.nonzero(as_tuple=True)
        own_X, own_Z = (rows.expand(*squares.shape[:-2], *rows.shape[-2:]) for rows in (X, Z))
        squares[(*batch, i, j)] = (own_X[(*batch, i)] - own_Z[(*batch, j)]).square_().sum(dim=-1)
    return squares


@cache
def _squared_distances() -> Any:
    """Return the function of torch, whose base class loads it."""

    class _SquaredDistances(torch.autograd.Function):
        """Forward by differences; backward by matrix products, and by differences for pairs of close rows."""

        @staticmethod
        def forward(ctx: Any, X: Tensor, Z: Tensor) -> Tensor:
            squares = _squares(X, Z)
            ctx.save_for_backward(X, Z, squares)
            return squares

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
            (gradient,) = gradients
            X, Z, squares = ctx.saved_tensors
            # About the mean, so that the difference of two products keeps its digits far from the origin.
            centre = Z.mean(dim=-2, keepdim=True)
            X, Z = X - centre, Z - centre
            # A rough kernel's derivative by the square has no bound as two rows approach: products would lose it.
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

    return _SquaredDistances


def squared_distances(X: Tensor, Z: Tensor) -> Tensor:
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
    return _squared_distances().apply(X, Z)


class Pullback:
    """Derivatives of weighted sums of the entries of a matrix k(X, X), by the logarithms of the free parameters.

    By automatic differentiation; `lmgp.posteriors.rowsystems` has compiled code for the kernels of this package.

    Parameters
    ----------
    kernel : Kernel
    X : Tensor of shape (n, d) or (b, n, d)
    theta : Tensor of shape (n_free,) or (b, n_free)
        See `Kernel.with_pullback`.

    Attributes
    ----------
    covariance : Tensor of shape (n, n) or (b, n, n)
        k(X, X).
    """

    def __init__(self, kernel: "Kernel", X: Tensor, theta: Tensor) -> None:
        self._theta = theta.detach().clone().requires_grad_()
        with torch.enable_grad():
            self.covariance = kernel.covariance(X, X, kernel.values(self._theta, X.device))

    def of_matrix(self, weights: Tensor) -> Tensor:
        """Differentiate Σ G ∘ k(X, X).

        Parameters
        ----------
        weights : Tensor of shape (..., n, n)
            G, symmetric.

        Returns
        -------
        Tensor of shape (..., n_free)
        """
        if not self.covariance.requires_grad:
            return torch.zeros_like(self._theta)
        return torch.autograd.grad(self.covariance, self._theta, weights, retain_graph=True)[0]

    def of_products(self, u: Tensor, V: Tensor) -> Tensor:
        """Differentiate uᵀ k(X, X) v for several v.

        Parameters
        ----------
        u : Tensor of shape (..., n)
        V : Tensor of shape (c, ..., n)

        Returns
        -------
        Tensor of shape (c, ..., n_free)
            For each v what `of_matrix` returns.
        """
        products = (u[..., :, None] * v[..., None, :] for v in V)
        return torch.stack([self.of_matrix(0.5 * (product + product.mT)) for product in products])
