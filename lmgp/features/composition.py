"""Feature maps made from feature maps, one for each construction of a kernel."""

from abc import abstractmethod
from functools import singledispatch
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from lmgp.errors import InputError
from lmgp.features.base import TensorMap
from lmgp.kernels.base import Kernel
from lmgp.kernels.composite import ProductKernel, ScaledKernel, SumKernel, checked_factor
from lmgp.kernels.dot_product import Function, LinearKernel, ModulatedKernel, checked_matrix, row_values
from lmgp.validation import as_tensor


class ComposedFeatures(TensorMap, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A scikit-learn transformer that is made from others, or from none.

    Subclasses implement `_fit` and `evaluate`.

    Attributes
    ----------
    n_features_out_ : int
        The number of columns made.
    n_features_in_ : int
        The number of input columns, d.
    """

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Fit clones of the parts.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Dense.
        y : ignored

        Raises
        ------
        InputError
            If a parameter cannot be used, or does not fit the rows.
        """
        rows: NDArray[np.float64] = validate_data(self, X, dtype=np.float64)
        self._fit(rows)
        self.n_features_out_ = self.evaluate(as_tensor(rows[:1])).shape[1]
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Map rows to features.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_features_out_)
        """
        check_is_fitted(self)
        return self.evaluate(as_tensor(validate_data(self, X, dtype=np.float64, reset=False))).numpy()

    @abstractmethod
    def _fit(self, X: NDArray[np.float64]) -> None:
        """Fit to checked rows."""

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_


class LinearFeatures(ComposedFeatures):
    """φ(x) = √A x, with φ(x)ᵀφ(z) = xᵀAz.

    Parameters
    ----------
    matrix : array-like of shape (d, d), optional
        A, symmetric and positive semi-definite; the identity if not given.

    Attributes
    ----------
    root_ : ndarray of shape (d, d)
        The symmetric square root of A.

    References
    ----------
    C. De Sa, *Kernels and Feature Extraction*, CS4787 lecture 18, Cornell University: the table of constructions.

    Examples
    --------
    >>> from lmgp.features.composition import LinearFeatures
    >>> LinearFeatures([[4.0, 0.0], [0.0, 1.0]]).fit_transform([[1.0, 3.0]])
    array([[2., 3.]])
    """

    def __init__(self, matrix: ArrayLike | None = None) -> None:
        self.matrix = matrix

    def _fit(self, X: NDArray[np.float64]) -> None:
        n_inputs = X.shape[1]
        if self.matrix is None:
            self.root_ = np.eye(n_inputs)
            return
        values, vectors = np.linalg.eigh(checked_matrix(self.matrix, n_inputs))
        self.root_ = (vectors * np.sqrt(values.clip(min=0.0))) @ vectors.T

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return X.clone() if self.matrix is None else X @ as_tensor(self.root_)


class SumFeatures(ComposedFeatures):
    """The columns of two maps side by side: φ(x)ᵀφ(z) = φ₁(x)ᵀφ₁(z) + φ₂(x)ᵀφ₂(z).

    Parameters
    ----------
    left, right : scikit-learn transformers

    Attributes
    ----------
    left_, right_ : scikit-learn transformers
        The fitted clones.

    Examples
    --------
    >>> from lmgp.features.composition import LinearFeatures
    >>> (LinearFeatures() + LinearFeatures([[4.0]])).fit_transform([[3.0]])
    array([[3., 6.]])
    """

    def __init__(self, left: Any, right: Any) -> None:
        self.left = left
        self.right = right

    def _fit(self, X: NDArray[np.float64]) -> None:
        self.left_, self.right_ = fitted(self.left, X), fitted(self.right, X)

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return torch.cat((columns(self.left_, X), columns(self.right_, X)), dim=1)


class ProductFeatures(ComposedFeatures):
    """All products of a column of one map and a column of another: φ(x)ᵀφ(z) = φ₁(x)ᵀφ₁(z) · φ₂(x)ᵀφ₂(z).

    Parameters
    ----------
    left, right : scikit-learn transformers
        Random maps must be drawn independently for the product to be unbiased: give them different seeds.

    Attributes
    ----------
    left_, right_ : scikit-learn transformers
        The fitted clones.

    Examples
    --------
    >>> from lmgp.features.composition import LinearFeatures
    >>> (LinearFeatures() * LinearFeatures()).fit_transform([[3.0, 2.0]])
    array([[9., 6., 6., 4.]])
    """

    def __init__(self, left: Any, right: Any) -> None:
        self.left = left
        self.right = right

    def _fit(self, X: NDArray[np.float64]) -> None:
        self.left_, self.right_ = fitted(self.left, X), fitted(self.right, X)

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        left, right = columns(self.left_, X), columns(self.right_, X)
        return (left[:, :, None] * right[:, None, :]).flatten(start_dim=1)


class ScaledFeatures(ComposedFeatures):
    """The columns of a map times √c: c φ(x)ᵀφ(z).

    Parameters
    ----------
    features : scikit-learn transformer
    factor : float
        c ≥ 0.

    Attributes
    ----------
    features_ : scikit-learn transformer
        The fitted clone.

    Examples
    --------
    >>> from lmgp.features.composition import LinearFeatures
    >>> (4.0 * LinearFeatures()).fit_transform([[3.0, 2.0]])
    array([[6., 4.]])
    """

    def __init__(self, features: Any, factor: float) -> None:
        self.features = features
        self.factor = factor

    def _fit(self, X: NDArray[np.float64]) -> None:
        self._root = checked_factor(self.factor) ** 0.5
        self.features_ = fitted(self.features, X)

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return columns(self.features_, X) * self._root


class ModulatedFeatures(ComposedFeatures):
    """The columns of a map times a function of the row: f(x) φ(x)ᵀφ(z) f(z).

    Parameters
    ----------
    features : scikit-learn transformer
    function : callable
        f: takes rows as an array of shape (n, d), gives one finite number a row, shape (n,). To pickle the map it must
        be a function of a module.

    Attributes
    ----------
    features_ : scikit-learn transformer
        The fitted clone.

    Examples
    --------
    >>> from lmgp.features.composition import LinearFeatures, ModulatedFeatures
    >>> ModulatedFeatures(LinearFeatures(), lambda X: X[:, 0] ** 2).fit_transform([[3.0, 2.0]])
    array([[27., 18.]])
    """

    def __init__(self, features: Any, function: Function) -> None:
        self.features = features
        self.function = function

    def _fit(self, X: NDArray[np.float64]) -> None:
        self.features_ = fitted(self.features, X)

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return columns(self.features_, X) * as_tensor(row_values(self.function, X.numpy()))[:, None]


@singledispatch
def exact_features(kernel: Any) -> ComposedFeatures:
    """Make the finite feature map of a kernel that has one.

    Parameters
    ----------
    kernel : Kernel
        Linear, or a sum, product, multiple or modulation of kernels that have a finite map.

    Returns
    -------
    ComposedFeatures
        Not fitted.

    Raises
    ------
    InputError
        If there is none, or none is known.

    References
    ----------
    C. De Sa, *Kernels and Feature Extraction*, CS4787 lecture 18, Cornell University: the table of constructions.

    Examples
    --------
    >>> from lmgp import LinearKernel
    >>> from lmgp.features.composition import exact_features
    >>> exact_features(LinearKernel() + 4.0 * LinearKernel()).fit_transform([[3.0]])
    array([[3., 6.]])
    """
    if not isinstance(kernel, Kernel):
        raise InputError(f"{kernel!r} is no kernel of this package, such as LinearKernel(), whose map is known.")
    raise InputError(
        f"{kernel!r} has no finite feature map; approximate it: strategy 'approximate' with features=… a map "
        "that approximates it."
    )


@exact_features.register
def _(kernel: LinearKernel) -> ComposedFeatures:
    return LinearFeatures(kernel.matrix)


@exact_features.register
def _(kernel: SumKernel) -> ComposedFeatures:
    return SumFeatures(exact_features(kernel.left), exact_features(kernel.right))


@exact_features.register
def _(kernel: ProductKernel) -> ComposedFeatures:
    return ProductFeatures(exact_features(kernel.left), exact_features(kernel.right))


@exact_features.register
def _(kernel: ScaledKernel) -> ComposedFeatures:
    return ScaledFeatures(exact_features(kernel.kernel), kernel.factor)


@exact_features.register
def _(kernel: ModulatedKernel) -> ComposedFeatures:
    return ModulatedFeatures(exact_features(kernel.kernel), kernel.function)


def fitted(features: Any, X: NDArray[np.float64]) -> Any:
    """Fit a clone of a transformer, or raise an InputError if it is none."""
    if isinstance(features, type) or not (hasattr(features, "fit") and hasattr(features, "transform")):
        raise InputError(f"A part of a composed map must be a scikit-learn transformer; got {features!r}.")
    return clone(features).fit(X)


def columns(features: Any, X: torch.Tensor) -> torch.Tensor:
    """Map checked rows by any fitted transformer; one of this package's does not check them again."""
    if isinstance(features, TensorMap):
        return features.evaluate(X)
    made = features.transform(X.numpy())
    made = np.ascontiguousarray(made.toarray() if issparse(made) else made, dtype=np.float64)
    if made.ndim != 2 or len(made) != len(X):
        raise InputError(f"{features!r} made an array of shape {made.shape}; expected one row for each of {len(X)}.")
    return as_tensor(made)
