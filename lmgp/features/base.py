"""The contracts of feature maps: of any map, and of a map of a kernel."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from lmgp.errors import InputError
from lmgp.fitted import Fitted, OfFit, digest, unchanged_on_failure
from lmgp.kernels.base import Kernel, unsupported
from lmgp.kernels.stationary import GaussianKernel
from lmgp.locality.clustering import nearest_centroids
from lmgp.memory import check_memory
from lmgp.noise import Noise
from lmgp.statistics import Source, Statistics
from lmgp.validation import RandomState, Rows, as_tensor, generator

if TYPE_CHECKING:
    from lmgp.features.composition import ProductFeatures, ScaledFeatures, SumFeatures

Floats = NDArray[np.float64]

# Which maps serve a kernel that has a capability.
SERVING = (
    ("frequencies", "RandomFourierFeatures, OrthogonalFourierFeatures"),
    ("gaussian_components", "TaylorFeatures, OptimizedMaclaurinFeatures, RandomMaclaurinFeatures"),
)


class Composable:
    """Gives a feature map the operators of its kernel: ``map1 + map2``, ``map1 * map2``, ``3.0 * map1``.

    The other map may be any scikit-learn transformer.
    """

    __array_ufunc__ = None

    # Composed maps are feature maps themselves: their module can only be imported after this one.
    def __add__(self, other: Any) -> "SumFeatures":
        from lmgp.features.composition import SumFeatures

        return SumFeatures(self, other) if hasattr(other, "transform") else NotImplemented

    def __radd__(self, other: Any) -> "SumFeatures":
        from lmgp.features.composition import SumFeatures

        return SumFeatures(other, self) if hasattr(other, "transform") else NotImplemented

    def __mul__(self, other: Any) -> "ProductFeatures | ScaledFeatures":
        from lmgp.features.composition import ProductFeatures, ScaledFeatures

        if isinstance(other, Real):
            return ScaledFeatures(self, float(other))
        return ProductFeatures(self, other) if hasattr(other, "transform") else NotImplemented

    def __rmul__(self, other: Any) -> "ProductFeatures | ScaledFeatures":
        from lmgp.features.composition import ProductFeatures, ScaledFeatures

        if isinstance(other, Real):
            return ScaledFeatures(self, float(other))
        return ProductFeatures(other, self) if hasattr(other, "transform") else NotImplemented


class TensorMap(Composable, ABC):
    """A feature map that can be evaluated without a further check of its rows."""

    @abstractmethod
    def evaluate(self, X: torch.Tensor) -> torch.Tensor:
        """Map a checked float64 tensor of shape (n, d) to features of shape (n, n_features_out_)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MapFit:
    """What a map learns in `fit`.

    Fields with ``compare=False`` follow from the others: they do not make two maps different.

    Attributes
    ----------
    n_features_out : int
        The number of columns, D.
    """

    n_features_out: int

    def __getstate__(self) -> dict[str, Any]:
        # Without the names below: what is computed when first asked for is no part of the state.
        return {one.name: vars(self)[one.name] for one in fields(self)}

    @cached_property
    def digest(self) -> str:
        """A name that maps of equal arrays and numbers share."""
        return digest(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelFit(MapFit):
    """What a map of a kernel learns in `fit`.

    Attributes
    ----------
    kernel : Kernel
    """

    kernel: Kernel

    @cached_property
    def kernel_name(self) -> str:
        """The kernel as it prints."""
        return str(self.kernel)


class Work(NamedTuple):
    """What a map costs in a model, as far as that is known before it is fitted.

    Attributes
    ----------
    columns : int
        The number of columns, D.
    moments : float or None
        How many moments are summed for each row in place of D²/2 products; None where products are.
    degree : int or None
        The degree of a truncated series, which sets the reach; None where the map reaches every row.
    solved : int
        For how many columns of the kernel a triangular system is solved at each row, as Nyström maps do; else 0.
    """

    columns: int
    moments: float | None = None
    degree: int | None = None
    solved: int = 0


class FeatureMap(Fitted, TensorMap, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A map φ from rows to columns: a scikit-learn transformer.

    `fit` draws what is random and decides how many columns there are; `transform` maps. Subclasses implement `_fit` and
    `evaluate`. What is learned is one record, a `MapFit`.

    Attributes
    ----------
    n_features_out_ : int
        The number of columns made.
    n_features_in_ : int
        The number of input columns, d.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _accepts_sparse: ClassVar[bool] = False

    random_state: RandomState = None
    n_features_out_ = OfFit[int]()

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the map for rows like these.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : ignored

        Raises
        ------
        InputError
            If a parameter cannot be used, or does not fit the rows.
        MemoryLimitError
            If the map would not fit into the machine's memory.
        """
        with unchanged_on_failure(self):
            self._fitted = self._fit(*self._start(X))
        return self

    def transform(self, X: ArrayLike) -> Floats:
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

    def _start(self, X: ArrayLike) -> tuple[Floats, np.random.Generator]:
        """Check parameters and rows; return the rows and the generator that `random_state` names."""
        self._validate_params()
        rows: Floats = validate_data(self, X, dtype=np.float64, accept_sparse="csr" if self._accepts_sparse else False)
        return rows, generator(self.random_state)

    @abstractmethod
    def _fit(self, X: Floats, rng: np.random.Generator) -> MapFit:
        """Draw the map for checked rows."""

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_


class KernelMap(FeatureMap):
    """A map φ from rows to columns with φ(x)ᵀφ(z) ≈ k(x, z), for a kernel k.

    The map applies the kernel's lengthscale and variance. It never centres: where the map has a centre (all but the
    Fourier and Nyström maps), that is the origin, and whoever uses it hands over X − c.

    Subclasses implement `_draw` and `evaluate`, and say what they need of a kernel in ``needs``.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns to make. Where a map cannot make this number, it makes the largest one below.
    kernel : Kernel, optional
        The kernel to approximate; GaussianKernel(1, 1) if not given. A regressor gives its maps its own.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of what is drawn.

    Attributes
    ----------
    n_features_out_ : int
        The number of columns made.
    n_features_in_ : int
        The number of input columns, d.
    kernel_ : Kernel
        The kernel that is approximated.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "kernel": [Kernel, None],
        "random_state": ["random_state", np.random.Generator],
    }
    # The capability of a kernel without which this map cannot serve it; None for a map that serves every kernel.
    needs: ClassVar[str | None] = "metric"

    kernel_ = OfFit[Any]()

    def __init__(
        self, n_features: int = 512, *, kernel: Kernel | None = None, random_state: RandomState = None
    ) -> None:
        self.n_features = n_features
        self.kernel = kernel
        self.random_state = random_state

    @classmethod
    def serves(cls, kernel: Kernel) -> bool:
        """Say whether the kernel can do what the map needs."""
        return cls.needs is None or kernel.can(cls.needs)

    def centre_of(self, X: Floats, weights: Floats | None) -> Floats:
        """Return where one map for all rows is best centred, shape (d,): the weighted mean of the rows."""
        return np.average(X, axis=0, weights=weights)

    def fit_around(self, X: Floats, centroids: Floats) -> Self:
        """Draw the map for use on differences between rows and their nearest centroid.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        centroids : ndarray of shape (n_centroids, d)
        """
        if len(centroids) == 1:
            return self.fit(X - centroids[0])  # for which the kernel needs no metric
        kernel = self._checked_kernel(X.shape[1])
        return self.fit(X - centroids[nearest_centroids(kernel.scale(X), kernel.scale(centroids))])

    def missing_variance(self, X: torch.Tensor, features: torch.Tensor) -> torch.Tensor | None:
        """Return the prior variance that the map leaves out at each row.

        Parameters
        ----------
        X : Tensor of shape (n, d)
        features : Tensor of shape (n, n_features_out_)
            What `evaluate` made of X.

        Returns
        -------
        Tensor of shape (n,) or None
            k(x, x) − E‖φ(x)‖² ≥ 0; None where that is zero for every row.
        """
        return None

    def reach(self, epsilon: float) -> float:
        """Return the distance from the origin, in the kernel's metric, beyond which E‖φ(x)‖² ≤ epsilon · k(x, x)."""
        return float("inf")

    def work(self, n_inputs: int) -> Work:
        """Return what this map will cost for rows of `n_inputs` columns. It need not be fitted."""
        return Work(self.n_features)

    def n_bytes(self, n_rows: int, n_inputs: int) -> float:
        """Return about how many bytes the map's parameters and its columns for one row take, fitted to `n_rows`."""
        # What is drawn is held twice while blocks of it are put together.
        return 8.0 * self.work(n_inputs).columns * (2.0 * n_inputs + 1.0)

    @property
    def row_size(self) -> int:
        """How many numbers `summed` holds for each row of a chunk, about."""
        return self.n_features_out_

    def source(self, noise: Noise, centre: Floats | None) -> Source:
        """Name this fitted map for the statistics that it makes."""
        fit: KernelFit = self._fitted
        return Source(noise, fit.kernel_name, f"{type(self).__name__} {fit.digest}", centre)

    def summed(self, chunks: Iterable[Rows], source: Source, origin: float = 0.0) -> Statistics:
        """Sum the statistics of rows.

        Parameters
        ----------
        chunks : iterable of Rows
            With X as differences to the centre of the map.
        source : Source
            With the noise, which says whether what the map leaves out of a row's variance is noise of that row.
        origin : float, default=0.0
            Of y in the sums.

        Returns
        -------
        Statistics
        """
        total = Statistics.zeros(self.n_features_out_, source, origin)
        noise = source.noise
        for chunk in chunks:
            X = as_tensor(chunk.X)
            features = self.evaluate(X)
            missing = self.missing_variance(X, features) if noise.counts_missing else None
            weights = None if chunk.weights is None else as_tensor(chunk.weights)
            total.add_rows(features, as_tensor(chunk.y), weights, noise.relative_precision(chunk, missing))
        return total

    def columns_in(self, larger: FeatureMap) -> tuple[NDArray[np.intp], float] | None:
        """Say which columns of a larger map, times what factor, are the columns of this one.

        Parameters
        ----------
        larger : FeatureMap
            Fitted, as this map.

        Returns
        -------
        columns : ndarray of shape (n_features_out_,)
            Ascending; None in place of the pair where this map is no part of the other.
        factor : float
        """
        return (np.arange(self.n_features_out_), 1.0) if larger is self else None

    def _fit(self, X: Floats, rng: np.random.Generator) -> KernelFit:
        kernel = self._prepare(X)
        return self._draw(X, rng, kernel)

    def _prepare(self, X: Floats) -> Kernel:
        """Return the kernel of the map, after checking that it can serve these rows within the machine's memory."""
        kernel = self._checked_kernel(X.shape[1])
        self._check_size(X)
        return kernel

    def _check_size(self, X: Floats) -> None:
        """Refuse a map that would not fit into the machine's memory."""
        needed, n_columns = self.n_bytes(*X.shape), self.work(X.shape[1]).columns
        check_memory(
            needed,
            f"The parameters of {type(self).__name__} with {n_columns:,} columns",
            lambda limit: f"At most about {int(limit * n_columns / needed):,} features of {X.shape[1]} inputs fit.",
        )

    def _checked_kernel(self, n_inputs: int) -> Any:
        kernel = GaussianKernel() if self.kernel is None else clone(self.kernel)
        if self.needs is not None and not self.serves(kernel):
            serving = [maps for need, maps in SERVING if kernel.can(need)]
            others = ", ".join([*serving, "NystroemFeatures"])
            raise InputError(
                f"{unsupported(kernel, self.needs, type(self).__name__)} Maps that serve this kernel: {others}."
            )
        return kernel.checked(n_inputs)

    @abstractmethod
    def _draw(self, X: Floats, rng: np.random.Generator, kernel: Any) -> KernelFit:
        """Draw the map of a checked kernel for rows X."""


def same_kernel(one: KernelMap, other: KernelMap) -> bool:
    """Say whether two fitted maps approximate the same kernel."""
    return digest(one.kernel_) == digest(other.kernel_)
