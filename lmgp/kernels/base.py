"""Kernels made from kernels: sums, products, multiples, modulations, exponentials."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array

from lmgp.errors import InputError

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]


class Kernel(BaseEstimator, ABC):
    """A positive semi-definite function k(x, z) of rows.

    Kernels of this package add up, multiply, and take factors: ``k1 + k2``, ``k1 * k2``, ``3.0 * k1``. They are
    scikit-learn parameter objects: they clone, and a grid search reaches ``kernel__left__lengthscale``. The
    constructors store what they are given; values are checked where the kernel is used.

    Subclasses implement `sections` and `diagonal`.
    """

    # So that a NumPy number in front leaves the product to the kernel.
    __array_ufunc__ = None

    @abstractmethod
    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:
        """Return the function x ↦ k(x, Z), with all work done that depends on Z alone.

        Parameters
        ----------
        Z : array-like of shape (m, d)

        Returns
        -------
        callable
            Takes rows of shape (n, d), gives an array of shape (n, m).

        Raises
        ------
        InputError
            If a parameter of the kernel cannot be used, or does not fit the rows.
        """

    @abstractmethod
    def diagonal(self, X: ArrayLike) -> Floats:
        """Evaluate k(x, x) for each row.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Floats:
        """Evaluate the kernel between all rows of X and all rows of Z.

        Parameters
        ----------
        X : array-like of shape (n, d)
        Z : array-like of shape (m, d), optional
            X itself if not given.

        Returns
        -------
        ndarray of shape (n, m)

        Raises
        ------
        InputError
            As `sections`.
        """
        return self.sections(X if Z is None else Z)(X)

    def __add__(self, other: "Kernel") -> "SumKernel":
        return SumKernel(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: "Kernel | float") -> "Kernel":
        if isinstance(other, Kernel):
            return ProductKernel(self, other)
        return ScaledKernel(self, other) if isinstance(other, Real) else NotImplemented

    def __rmul__(self, factor: float) -> "ScaledKernel":
        return ScaledKernel(self, factor) if isinstance(factor, Real) else NotImplemented


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
    >>> from lmgp.kernels.base import LinearKernel
    >>> LinearKernel([[2.0, 0.0], [0.0, 1.0]])([[1.0, 1.0]], [[3.0, 4.0]])
    array([[10.]])
    """

    def __init__(self, matrix: ArrayLike | None = None) -> None:
        self.matrix = matrix

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        rows = check_array(Z, dtype=np.float64)
        weighted = rows if self.matrix is None else rows @ checked_matrix(self.matrix, rows.shape[1])

        return lambda X: same_columns(check_array(X, dtype=np.float64), rows) @ weighted.T

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        rows: Floats = check_array(X, dtype=np.float64)
        weighted = rows if self.matrix is None else rows @ checked_matrix(self.matrix, rows.shape[1])
        return np.einsum("ij,ij->i", rows, weighted)


class SumKernel(Kernel):
    """The sum k(x, z) = k₁(x, z) + k₂(x, z).

    Parameters
    ----------
    left, right : Kernel

    Examples
    --------
    >>> from lmgp import GaussianKernel
    >>> from lmgp.kernels.base import LinearKernel
    >>> (GaussianKernel() + LinearKernel())([[1.0]], [[1.0], [0.0]]).round(3)
    array([[2.   , 0.607]])
    """

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        left, right = checked_kernel(self.left).sections(Z), checked_kernel(self.right).sections(Z)
        return lambda X: left(X) + right(X)

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        return checked_kernel(self.left).diagonal(X) + checked_kernel(self.right).diagonal(X)


class ProductKernel(Kernel):
    """The product k(x, z) = k₁(x, z) k₂(x, z).

    Parameters
    ----------
    left, right : Kernel

    Examples
    --------
    >>> from lmgp.kernels.base import LinearKernel
    >>> (LinearKernel() * LinearKernel())([[3.0]], [[2.0]])
    array([[36.]])
    """

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        left, right = checked_kernel(self.left).sections(Z), checked_kernel(self.right).sections(Z)
        return lambda X: left(X) * right(X)

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        return checked_kernel(self.left).diagonal(X) * checked_kernel(self.right).diagonal(X)


class ScaledKernel(Kernel):
    """The multiple c k(x, z).

    Parameters
    ----------
    kernel : Kernel
    factor : float
        c ≥ 0.

    Examples
    --------
    >>> from lmgp.kernels.base import LinearKernel
    >>> (0.5 * LinearKernel())([[3.0]], [[2.0]])
    array([[3.]])
    """

    def __init__(self, kernel: Kernel, factor: float) -> None:
        self.kernel = kernel
        self.factor = factor

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        factor, section = checked_factor(self.factor), checked_kernel(self.kernel).sections(Z)
        return lambda X: factor * section(X)

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        return checked_factor(self.factor) * checked_kernel(self.kernel).diagonal(X)


class ModulatedKernel(Kernel):
    """The modulation f(x) k(x, z) f(z).

    Parameters
    ----------
    kernel : Kernel
    function : callable
        f: takes rows as an array of shape (n, d), gives one finite number a row, shape (n,). To pickle the kernel it
        must be a function of a module.

    Examples
    --------
    >>> from lmgp.kernels.base import LinearKernel, ModulatedKernel
    >>> ModulatedKernel(LinearKernel(), lambda X: X[:, 0] ** 2)([[3.0]], [[2.0]])
    array([[216.]])
    """

    def __init__(self, kernel: Kernel, function: Function) -> None:
        self.kernel = kernel
        self.function = function

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        section, at_Z = checked_kernel(self.kernel).sections(Z), row_values(self.function, Z)
        return lambda X: row_values(self.function, X)[:, None] * section(X) * at_Z

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        return row_values(self.function, X) ** 2 * checked_kernel(self.kernel).diagonal(X)


class ExponentialKernel(Kernel):
    """The exponential exp(k(x, z)), which has no finite feature map.

    Parameters
    ----------
    kernel : Kernel

    Examples
    --------
    The Gaussian kernel is f(x) exp(xᵀz) f(z) with f(x) = exp(−‖x‖²/2):

    >>> import numpy as np
    >>> from lmgp import GaussianKernel
    >>> from lmgp.kernels.base import ExponentialKernel, LinearKernel, ModulatedKernel
    >>> kernel = ModulatedKernel(ExponentialKernel(LinearKernel()), lambda X: np.exp(-0.5 * (X**2).sum(axis=1)))
    >>> X = [[0.3, 1.0], [-0.5, 0.2]]
    >>> bool(np.allclose(kernel(X), GaussianKernel()(X)))
    True
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        section = checked_kernel(self.kernel).sections(Z)
        return lambda X: np.exp(section(X))

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        return np.exp(checked_kernel(self.kernel).diagonal(X))


def checked_kernel(kernel: Any) -> Kernel:
    """Return the kernel itself, or raise an InputError if it is none of this package's."""
    if not isinstance(kernel, Kernel):
        raise InputError(
            f"A part of a composed kernel must be a kernel of this package, such as GaussianKernel(); got {kernel!r}."
        )
    return kernel


def same_columns(X: Floats, Z: Floats) -> Floats:
    """Return X, or raise an InputError if it has not as many columns as Z."""
    if X.shape[1] != Z.shape[1]:
        raise InputError(f"X and Z must have the same number of columns; got {X.shape[1]} and {Z.shape[1]}.")
    return X


def checked_factor(factor: Any) -> float:
    """Return the factor as a float, or raise an InputError if it is not a non-negative finite number."""
    if not isinstance(factor, Real) or not 0.0 <= float(factor) < float("inf"):
        raise InputError(f"factor must be a non-negative finite number; got {factor!r}.")
    return float(factor)


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
    rows = check_array(X, dtype=np.float64)
    values = np.asarray(function(rows))
    if values.shape != (len(rows),) or values.dtype.kind not in "biuf":
        raise InputError(
            f"function must give one number a row, shape ({len(rows)},) for these rows; got shape {values.shape} of "
            f"{values.dtype}."
        )
    if not np.isfinite(values).all():
        raise InputError(f"function must give finite numbers; row {int(np.argmin(np.isfinite(values)))} has another.")
    return values.astype(np.float64)
