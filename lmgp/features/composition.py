"""Feature maps made from feature maps, one for each construction of a kernel."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import clone

from lmgp.errors import InputError
from lmgp.features.adapter import work_of
from lmgp.features.base import FeatureMap, MapFit, TensorMap, Work
from lmgp.features.names import names_of
from lmgp.fitted import OfFit
from lmgp.kernels.base import Kernel
from lmgp.kernels.composite import ProductKernel, ScaledKernel, SumKernel, checked_factor
from lmgp.kernels.dot_product import Function, LinearKernel, ModulatedKernel, checked_matrix, row_values
from lmgp.validation import as_tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearFit(MapFit):
    """What `LinearFeatures` learns: the root of its matrix, and whether that is the identity."""

    root: Floats
    is_identity: bool = field(compare=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class PairFit(MapFit):
    """What a map of two parts learns: the fitted clones."""

    left: Any
    right: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class ScaledFit(MapFit):
    """What `ScaledFeatures` learns: the fitted clone, and the root of the factor."""

    features: Any
    root: float


@dataclass(frozen=True, eq=False, kw_only=True)
class ModulatedFit(MapFit):
    """What `ModulatedFeatures` learns: the fitted clone, and the function."""

    features: Any
    function: Function


class LinearFeatures(FeatureMap):
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

    root_ = OfFit[Floats]()

    def __init__(self, matrix: ArrayLike | None = None) -> None:
        self.matrix = matrix

    def work(self, n_inputs: int) -> Work:  # noqa: D102
        return Work(n_inputs)

    def draw(self, X: Floats, rng: np.random.Generator) -> LinearFit:  # noqa: D102
        n_inputs = X.shape[1]
        if self.matrix is None:
            return LinearFit(n_features_out=n_inputs, root=np.eye(n_inputs), is_identity=True)
        values, vectors = np.linalg.eigh(checked_matrix(self.matrix, n_inputs))
        root = (vectors * np.sqrt(values.clip(min=0.0))) @ vectors.T
        return LinearFit(n_features_out=n_inputs, root=root, is_identity=False)

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return [f"linear[{name}]" for name in names]

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        fit: LinearFit = self._fitted
        return X.clone() if fit.is_identity else X @ as_tensor(fit.root)


class PairedFeatures(FeatureMap):
    """A map of two parts, whose clones it fits to the same rows.

    Subclasses implement `_combine` and `_count`.
    """

    left_ = OfFit[Any]()
    right_ = OfFit[Any]()

    def __init__(self, left: Any, right: Any) -> None:
        self.left = left
        self.right = right

    def work(self, n_inputs: int) -> Work:  # noqa: D102
        return Work(self._count(work_of(self.left, n_inputs).columns, work_of(self.right, n_inputs).columns))

    def draw(self, X: Floats, rng: np.random.Generator) -> PairFit:  # noqa: D102
        left, right = fitted(self.left, X), fitted(self.right, X)
        row = as_tensor(X[:1])
        made = self._combine(columns(left, row), columns(right, row))
        return PairFit(n_features_out=made.shape[1], left=left, right=right)

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        fit: PairFit = self._fitted
        return self._combine(columns(fit.left, X), columns(fit.right, X))

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        fit: PairFit = self._fitted
        return self._join(*(part_names(part, names) for part in (fit.left, fit.right)))

    @abstractmethod
    def _combine(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Return the columns of both parts in one."""

    @abstractmethod
    def _count(self, left: int, right: int) -> int:
        """Return the number of columns for given numbers of those of the parts."""

    @abstractmethod
    def _join(self, left: list[str], right: list[str]) -> list[str]:
        """Return the names of the columns for those of the parts."""


class SumFeatures(PairedFeatures):
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

    def _combine(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return torch.cat((left, right), dim=1)

    def _count(self, left: int, right: int) -> int:
        return left + right

    def _join(self, left: list[str], right: list[str]) -> list[str]:
        return [*(f"left__{name}" for name in left), *(f"right__{name}" for name in right)]


class ProductFeatures(PairedFeatures):
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

    def _combine(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return (left[:, :, None] * right[:, None, :]).flatten(start_dim=1)

    def _count(self, left: int, right: int) -> int:
        return left * right

    def _join(self, left: list[str], right: list[str]) -> list[str]:
        return [f"{one}*{other}" for one in left for other in right]


class ScaledFeatures(FeatureMap):
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

    features_ = OfFit[Any]()

    def __init__(self, features: Any, factor: float) -> None:
        self.features = features
        self.factor = factor

    def work(self, n_inputs: int) -> Work:  # noqa: D102
        return Work(work_of(self.features, n_inputs).columns)

    def draw(self, X: Floats, rng: np.random.Generator) -> ScaledFit:  # noqa: D102
        root, part = checked_factor(self.factor) ** 0.5, fitted(self.features, X)
        return ScaledFit(n_features_out=columns(part, as_tensor(X[:1])).shape[1], features=part, root=root)

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return part_names(self.features_, names)

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        fit: ScaledFit = self._fitted
        return columns(fit.features, X) * fit.root


class ModulatedFeatures(FeatureMap):
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

    features_ = OfFit[Any]()

    def __init__(self, features: Any, function: Function) -> None:
        self.features = features
        self.function = function

    def work(self, n_inputs: int) -> Work:  # noqa: D102
        return Work(work_of(self.features, n_inputs).columns)

    def draw(self, X: Floats, rng: np.random.Generator) -> ModulatedFit:  # noqa: D102
        row_values(self.function, X[:1])
        part = fitted(self.features, X)
        made = columns(part, as_tensor(X[:1]))
        return ModulatedFit(n_features_out=made.shape[1], features=part, function=self.function)

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return [f"f*{name}" for name in part_names(self.features_, names)]

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        fit: ModulatedFit = self._fitted
        return columns(fit.features, X) * as_tensor(row_values(fit.function, X.numpy()))[:, None]


@singledispatch
def exact_features(kernel: Any) -> FeatureMap:
    """Return the finite feature map of a kernel that has one.

    Parameters
    ----------
    kernel : Kernel
        Linear, or a sum, product, multiple or modulation of kernels that have a finite map.

    Returns
    -------
    FeatureMap
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
def _(kernel: LinearKernel) -> FeatureMap:
    return LinearFeatures(kernel.matrix)


@exact_features.register
def _(kernel: SumKernel) -> FeatureMap:
    return SumFeatures(exact_features(kernel.left), exact_features(kernel.right))


@exact_features.register
def _(kernel: ProductKernel) -> FeatureMap:
    return ProductFeatures(exact_features(kernel.left), exact_features(kernel.right))


@exact_features.register
def _(kernel: ScaledKernel) -> FeatureMap:
    return ScaledFeatures(exact_features(kernel.kernel), kernel.factor)


@exact_features.register
def _(kernel: ModulatedKernel) -> FeatureMap:
    return ModulatedFeatures(exact_features(kernel.kernel), kernel.function)


def fitted(features: Any, X: Floats) -> Any:
    """Fit a clone of a transformer, or raise an InputError if it is none."""
    if isinstance(features, type) or not (hasattr(features, "fit") and hasattr(features, "transform")):
        raise InputError(f"A part of a composed map must be a scikit-learn transformer; got {features!r}.")
    return clone(features).fit(X)


def part_names(part: Any, names: Sequence[str]) -> list[str]:
    """Return the names of the columns of a fitted part, for those of the columns of X."""
    one_row = torch.zeros((1, len(names)), dtype=torch.float64)
    count = 0 if hasattr(part, "get_feature_names_out") else columns(part, one_row).shape[1]
    return names_of(part, names, count)


def columns(features: Any, X: torch.Tensor) -> torch.Tensor:
    """Map checked rows by any fitted transformer; one of this package's does not check them again."""
    if isinstance(features, TensorMap):
        return features.evaluate(X)
    made = features.transform(X.numpy())
    made = np.ascontiguousarray(made.toarray() if issparse(made) else made, dtype=np.float64)
    if made.ndim != 2 or len(made) != len(X):
        raise InputError(f"{features!r} made an array of shape {made.shape}; expected one row for each of {len(X)}.")
    return as_tensor(made)
