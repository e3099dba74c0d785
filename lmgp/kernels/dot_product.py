"""Kernels of inner products, their exponentials, and kernels modulated by a function of the row."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from lmgp.columns import checked_table
from lmgp.errors import InputError
from lmgp.inputs import checked_scales
from lmgp.kernels.base import Kernel, require, same_columns
from lmgp.kernels.composite import ComposedKernel
from lmgp.validation import as_tensor

if TYPE_CHECKING:
    import gpytorch

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]


class LinearKernel(Kernel):
    """The linear kernel k(x, z) = xᵀAz.

    Parameters
    ----------
    matrix : array-like of shape (d, d), optional
        A, symmetric and positive semi-definite; the identity if not given.

    References
    ----------
    C. De Sa, *Kernels and Feature Extraction*, CS4787 lecture 18, Cornell University: the table of constructions.

    Examples
    --------
    >>> from lmgp import LinearKernel
    >>> LinearKernel([[2.0, 0.0], [0.0, 1.0]])([[1.0, 1.0]], [[3.0, 4.0]])
    array([[10.]])
    """

    def __init__(self, matrix: ArrayLike | None = None) -> None:
        self.matrix = matrix

    def evaluate_at(self, X: torch.Tensor, Z: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:  # noqa: D102
        weighted = Z if self.matrix is None else Z @ as_tensor(np.asarray(self.matrix, dtype=np.float64)).to(Z.device)
        return X @ weighted.mT

    def checked(self, n_inputs: int) -> Self:  # noqa: D102
        if self.matrix is not None:
            checked_matrix(self.matrix, n_inputs)
        return self

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        rows: Floats = checked_table(Z, "Z")
        weighted = self._weighted(rows)
        return lambda X: same_columns(checked_table(X), rows) @ weighted.T

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        rows: Floats = checked_table(X)
        return np.einsum("ij,ij->i", rows, self._weighted(rows))

    def rescaled(self, scales: ArrayLike) -> "LinearKernel":  # noqa: D102
        factors = checked_scales(scales)
        matrix = np.eye(len(factors)) if self.matrix is None else checked_matrix(self.matrix, len(factors))
        return LinearKernel(matrix / factors / factors[:, None])

    def can(self, capability: str) -> bool:  # noqa: D102
        return capability == "gpytorch" and self.matrix is None

    def to_gpytorch(self) -> "gpytorch.kernels.Kernel":  # noqa: D102
        require(self, "gpytorch", "This")
        from lmgp.kernels.gpytorch import linear

        return linear()

    def _weighted(self, rows: Floats) -> Floats:
        return rows if self.matrix is None else rows @ checked_matrix(self.matrix, rows.shape[1])


class ModulatedKernel(ComposedKernel):
    """The modulation f(x) k(x, z) f(z).

    Parameters
    ----------
    kernel : Kernel
    function : callable
        f: takes rows as an array of shape (n, d), gives one finite number a row, shape (n,). To pickle the kernel it
        must be a function of a module.

    Examples
    --------
    >>> from lmgp import LinearKernel, ModulatedKernel
    >>> ModulatedKernel(LinearKernel(), lambda X: X[:, 0] ** 2)([[3.0]], [[2.0]])
    array([[216.]])
    """

    _part_names = ("kernel",)

    def __init__(self, kernel: Kernel, function: Function) -> None:
        self.kernel = kernel
        self.function = function

    def evaluate_at(self, X: torch.Tensor, Z: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:  # noqa: D102
        (part,) = self._part_values(X, Z, values)
        return self._at(X)[..., :, None] * part * self._at(Z)[..., None, :]

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        (part,) = self.parts
        section, at_Z = part.sections(Z), row_values(self.function, Z)
        return lambda X: row_values(self.function, X)[:, None] * section(X) * at_Z

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        (part,) = self.parts
        return row_values(self.function, X) ** 2 * part.diagonal(X)

    def rescaled(self, scales: ArrayLike) -> Kernel:
        """Refuse: what the function makes of other units is not known."""
        return Kernel.rescaled(self, scales)

    def _at(self, X: torch.Tensor) -> torch.Tensor:
        values = as_tensor(row_values(self.function, X.reshape(-1, X.shape[-1]).cpu().numpy()))
        return values.reshape(X.shape[:-1]).to(X.device)


class ExponentialKernel(ComposedKernel):
    """The exponential exp(k(x, z)), which has no finite feature map.

    Parameters
    ----------
    kernel : Kernel

    Examples
    --------
    The Gaussian kernel is f(x) exp(xᵀz) f(z) with f(x) = exp(−‖x‖²/2):

    >>> import numpy as np
    >>> from lmgp import GaussianKernel
    >>> from lmgp import ExponentialKernel, LinearKernel, ModulatedKernel
    >>> kernel = ModulatedKernel(ExponentialKernel(LinearKernel()), lambda X: np.exp(-0.5 * (X**2).sum(axis=1)))
    >>> X = [[0.3, 1.0], [-0.5, 0.2]]
    >>> bool(np.allclose(kernel(X), GaussianKernel()(X)))
    True
    """

    _part_names = ("kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def evaluate_at(self, X: torch.Tensor, Z: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:  # noqa: D102
        (part,) = self._part_values(X, Z, values)
        return torch.exp(part)

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        (part,) = self.parts
        section = part.sections(Z)
        return lambda X: np.exp(section(X))

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        (part,) = self.parts
        return np.exp(part.diagonal(X))


def checked_matrix(matrix: ArrayLike, n_inputs: int) -> Floats:
    """Return the matrix of a linear kernel as an array.

    Raises
    ------
    InputError
        If it is not symmetric and positive semi-definite, up to rounding, with one row and column an input column.
    """
    checked: Floats = check_array(matrix, dtype=np.float64, input_name="matrix")
    if checked.shape != (n_inputs, n_inputs):
        raise InputError(f"matrix must have shape ({n_inputs}, {n_inputs}) for these rows; got {checked.shape}.")
    tolerance = 1e-12 * n_inputs * np.abs(checked).max()
    if np.abs(checked - checked.T).max() > tolerance:
        raise InputError("matrix must be symmetric; got one that is not. Use (A + A.T)/2.")
    smallest = np.linalg.eigvalsh(checked)[0]
    if smallest < -tolerance:
        raise InputError(f"matrix must be positive semi-definite; got one with the eigenvalue {smallest:.3g}.")
    return checked


def row_values(function: Any, X: ArrayLike) -> Floats:
    """Evaluate a function of rows.

    Raises
    ------
    InputError
        If it does not give one finite number for each row.
    """
    if not callable(function):
        raise InputError(f"function must be callable, (n, d) rows to (n,) values; got {function!r}.")
    rows = checked_table(X)
    values = np.asarray(function(rows))
    if values.shape != (len(rows),) or values.dtype.kind not in "biuf":
        raise InputError(
            f"function must give one number a row, shape ({len(rows)},) for these rows; got shape {values.shape} of "
            f"{values.dtype}."
        )
    if not np.isfinite(values).all():
        raise InputError(f"function must give finite numbers; row {int(np.argmin(np.isfinite(values)))} has another.")
    return values.astype(np.float64)
