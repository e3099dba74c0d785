"""Feature maps made from feature maps: one for each construction of a kernel, and projections to fewer columns."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, StrOptions

from lmgp.data import Floats, RandomState, as_tensor
from lmgp.errors import InputError
from lmgp.features.adapter import TransformerFeatures, fitted, left_out, mapped, seeded_clone, work_of
from lmgp.features.base import FeatureMap, Work, indexed, names_of
from lmgp.features.sketches import padded_size
from lmgp.kernels import composite
from lmgp.kernels.base import Kernel
from lmgp.kernels.composite import Function, LinearKernel, checked_factor, checked_matrix, row_values
from lmgp.utils.lazy import Tensor, torch


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

    root_: Floats

    def __init__(self, matrix: ArrayLike | None = None) -> None:
        self.matrix = matrix

    def work(self, n_inputs: int) -> Work:  # noqa: D102
        return Work(n_inputs)

    def draw(self, X: Floats, rng: np.random.Generator) -> None:  # noqa: D102
        self.root_ = np.eye(X.shape[1])
        if self.matrix is not None:
            values, vectors = np.linalg.eigh(checked_matrix(self.matrix, X.shape[1]))
            self.root_ = (vectors * np.sqrt(values.clip(min=0.0))) @ vectors.T

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return [f"linear[{name}]" for name in names]

    def evaluate(self, X: Tensor) -> Tensor:  # noqa: D102
        return X @ as_tensor(self.root_)


class ComposedFeatures(FeatureMap):
    """A map made from one or two others, its parts, whose clones it fits to the same rows.

    Subclasses name the constructor parameters that hold the parts in `_part_names`.
    """

    _part_names: ClassVar[tuple[str, ...]] = ("left", "right")

    left_: Any
    right_: Any

    def __init__(self, left: Any, right: Any) -> None:
        self.left = left
        self.right = right

    def draw(self, X: Floats, rng: np.random.Generator) -> None:  # noqa: D102
        for name in self._part_names:
            part = getattr(self, name)
            if isinstance(part, type) or not (hasattr(part, "fit") and hasattr(part, "transform")):
                raise InputError(f"A part of a composed map must be a scikit-learn transformer; got {part!r}.")
            setattr(self, f"{name}_", fitted(clone(part), X))

    def work(self, n_inputs: int) -> Work:  # noqa: D102
        sizes = [work_of(getattr(self, name), n_inputs).columns for name in self._part_names]
        return Work(self._count(sizes))

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        row = torch.zeros((1, len(names)), dtype=torch.float64)
        named = []
        for name in self._part_names:
            part = getattr(self, f"{name}_")
            count = 0 if hasattr(part, "get_feature_names_out") else mapped(part, row).shape[1]
            named.append(names_of(part, names, count))
        return self._join(*named)

    def _count(self, sizes: list[int]) -> int:
        """Return the number of columns for the numbers of those of the parts."""
        return math.prod(sizes)

    def _join(self, *names: list[str]) -> list[str]:
        """Return the names of the columns for those of the parts."""
        return names[0]


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

    def evaluate(self, X: Tensor) -> Tensor:  # noqa: D102
        return torch.cat((mapped(self.left_, X), mapped(self.right_, X)), dim=1)

    def missing_variance(self, X: Tensor, features: Tensor) -> Tensor:  # noqa: D102
        size = mapped(self.left_, X[:1]).shape[1]
        return left_out(self.left_, X, features[:, :size]) + left_out(self.right_, X, features[:, size:])

    def _count(self, sizes: list[int]) -> int:
        return sum(sizes)

    def _join(self, *names: list[str]) -> list[str]:
        left, right = names
        return [*(f"left__{name}" for name in left), *(f"right__{name}" for name in right)]


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

    def evaluate(self, X: Tensor) -> Tensor:  # noqa: D102
        return (mapped(self.left_, X)[:, :, None] * mapped(self.right_, X)[:, None, :]).flatten(start_dim=1)

    def missing_variance(self, X: Tensor, features: Tensor) -> Tensor:  # noqa: D102
        left, right = mapped(self.left_, X), mapped(self.right_, X)
        missing_left, missing_right = left_out(self.left_, X, left), left_out(self.right_, X, right)
        whole_left = left.square().sum(dim=1) + missing_left
        return whole_left * missing_right + missing_left * right.square().sum(dim=1)

    def _join(self, *names: list[str]) -> list[str]:
        left, right = names
        return [f"{name}*{other}" for name in left for other in right]


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

    _part_names = ("features",)

    features_: Any
    root_: float  # √c

    def __init__(self, features: Any, factor: float) -> None:
        self.features = features
        self.factor = factor

    def draw(self, X: Floats, rng: np.random.Generator) -> None:  # noqa: D102
        self.root_ = checked_factor(self.factor) ** 0.5
        super().draw(X, rng)

    def evaluate(self, X: Tensor) -> Tensor:  # noqa: D102
        return mapped(self.features_, X) * self.root_

    def missing_variance(self, X: Tensor, features: Tensor) -> Tensor:  # noqa: D102
        return left_out(self.features_, X, features / (self.root_ or 1.0)) * self.root_**2


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

    _part_names = ("features",)

    features_: Any
    function_: Function

    def __init__(self, features: Any, function: Function) -> None:
        self.features = features
        self.function = function

    def draw(self, X: Floats, rng: np.random.Generator) -> None:  # noqa: D102
        row_values(self.function, X[:1])
        self.function_ = self.function
        super().draw(X, rng)

    def evaluate(self, X: Tensor) -> Tensor:  # noqa: D102
        return mapped(self.features_, X) * as_tensor(row_values(self.function_, X.numpy()))[:, None]

    def missing_variance(self, X: Tensor, features: Tensor) -> Tensor:  # noqa: D102
        missing = left_out(self.features_, X, mapped(self.features_, X))
        return missing * as_tensor(row_values(self.function_, X.numpy())).square()

    def _join(self, *names: list[str]) -> list[str]:
        return [f"f*{name}" for name in names[0]]


def walsh_hadamard(X: ArrayLike) -> Floats:
    """Multiply rows with the unnormalised Walsh-Hadamard matrix in O(m log m) operations each.

    Parameters
    ----------
    X : array-like of shape (n, m)
        With m a power of two.

    Returns
    -------
    ndarray of shape (n, m)

    Examples
    --------
    >>> walsh_hadamard([[1.0, 2.0, 0.0, 0.0]])
    array([[ 3., -1.,  3., -1.]])
    """
    transformed = np.array(X, dtype=np.float64, order="C")  # a copy, whose reshapes are views
    n_rows, order = transformed.shape
    half = 1
    while half < order:
        pairs = transformed.reshape(n_rows, -1, 2, half)
        difference = pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0] += pairs[:, :, 1]
        pairs[:, :, 1] = difference
        half *= 2
    return transformed


@dataclass(eq=False, repr=False)
class CraftFeatures(FeatureMap):
    """A feature map with many columns, projected at random to few: unbiased for the map's own kernel.

    The columns of Maclaurin maps and of TensorSketch are redundant. A projection of such a map with many columns
    approximates the kernel better than the same map with the final number of columns.

    Parameters
    ----------
    features : scikit-learn transformer
        The larger map, which makes at least `n_features` columns.
    n_features : int, default=512
        The number of columns, D.
    projection : {"gaussian", "srht"}, default="gaussian"
        Independent normal entries; or a subsampled randomised Hadamard transform, which has a lower variance and takes
        O(D' log D') operations a row, for D' columns of the larger map.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seeds the projection, and each ``random_state`` of `features` that is None.

    Attributes
    ----------
    features_ : scikit-learn transformer
        The fitted larger map.
    n_features_out_ : int
        The number of columns made.
    n_features_in_ : int
        The number of input columns, d.

    References
    ----------
    R. Hamid, Y. Xiao, A. Gittens and D. DeCoste, *Compact Random Feature Maps*, ICML 2014, section 4.

    Examples
    --------
    >>> from lmgp.features.composition import CraftFeatures
    >>> from lmgp.features.maclaurin import PolynomialMaclaurinFeatures
    >>> features = CraftFeatures(PolynomialMaclaurinFeatures(256), n_features=64, projection="srht", random_state=0)
    >>> features.fit_transform([[0.0, 0.5], [1.0, 0.5]]).shape
    (2, 64)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FeatureMap._parameter_constraints,
        "features": [HasMethods(["fit", "transform"])],
        "projection": [StrOptions({"gaussian", "srht"})],
    }

    features: Any
    n_features: int = 512
    _: KW_ONLY
    projection: Literal["gaussian", "srht"] = "gaussian"
    random_state: RandomState = None
    larger_: TransformerFeatures = field(init=False)  # with checks of what it makes
    projection_: dict[str, NDArray[Any]] = field(init=False)

    @property
    def features_(self) -> Any:
        """The fitted larger map."""
        return self.larger_.transformer_

    def draw(self, X: Floats, rng: np.random.Generator) -> None:  # noqa: D102
        # At unit variance the columns of the adapter are the transformer's own.
        self.larger_ = TransformerFeatures(seeded_clone(self.features, rng)).fit_checked(X)
        n_larger, self.n_features_out_ = self.larger_.n_features_out_, self.n_features
        if n_larger < self.n_features:
            raise InputError(
                f"CraftFeatures projects to fewer columns: n_features is {self.n_features}, but {self.features!r} "
                f"makes only {n_larger}. Give it more columns."
            )
        if self.projection == "gaussian":
            matrix = rng.standard_normal((n_larger, self.n_features)) / self.n_features**0.5
            self.projection_ = {"matrix": matrix}
        else:
            signs = rng.choice([-1.0, 1.0], size=n_larger) / self.n_features**0.5
            self.projection_ = {"signs": signs, "kept": rng.permutation(padded_size(n_larger))[: self.n_features]}

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return indexed("craft", self.n_features_out_)

    def evaluate(self, X: Tensor) -> Tensor:  # noqa: D102
        columns = self.larger_.evaluate(X).numpy()
        if "matrix" in self.projection_:
            return as_tensor(columns @ self.projection_["matrix"])
        padded = np.zeros((len(columns), padded_size(columns.shape[1])))
        padded[:, : columns.shape[1]] = columns * self.projection_["signs"]
        return as_tensor(walsh_hadamard(padded)[:, self.projection_["kept"]])

    def missing_variance(self, X: Tensor, features: Tensor) -> Tensor | None:  # noqa: D102
        return self.larger_.missing_variance(X, self.larger_.evaluate(X))


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
    match type(kernel):
        case composite.LinearKernel:
            return _linear_features(kernel)
        case composite.SumKernel:
            return SumFeatures(exact_features(kernel.left), exact_features(kernel.right))
        case composite.ProductKernel:
            return ProductFeatures(exact_features(kernel.left), exact_features(kernel.right))
        case composite.ScaledKernel:
            return ScaledFeatures(exact_features(kernel.kernel), kernel.factor)
        case composite.ModulatedKernel:
            return ModulatedFeatures(exact_features(kernel.kernel), kernel.function)
    if isinstance(kernel, Kernel):
        raise InputError(
            f"As far as is known here, {kernel!r} has no finite feature map; approximate it: strategy 'approximate' "
            "with features=… a map that approximates it."
        )
    raise InputError(f"{kernel!r} is no kernel of this package, such as LinearKernel(), whose map is known.")


def _linear_features(kernel: LinearKernel) -> FeatureMap:
    if np.any(kernel.center):
        raise InputError(f"{kernel!r} has a center, which its map has not: subtract it from the rows.")
    variance, matrix = np.asarray(kernel.variance, dtype=np.float64), kernel.matrix
    if variance.ndim == 0:
        features = LinearFeatures(matrix)
        return features if variance == 1.0 else ScaledFeatures(features, float(variance))
    outer = np.sqrt(np.outer(variance, variance))
    return LinearFeatures(np.diag(variance) if matrix is None else outer * np.asarray(matrix))
