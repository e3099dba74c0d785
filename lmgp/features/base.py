"""The contracts of feature maps: of any map, and of a map of a kernel."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Integral
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from lmgp.arithmetic import USUAL, Arithmetic, Columns
from lmgp.errors import InputError
from lmgp.features.names import NamedOutput
from lmgp.features.operators import Composable
from lmgp.fitted import Fitted, OfFit, digest, unchanged_on_failure
from lmgp.kernels.base import Kernel, unsupported
from lmgp.kernels.stationary import GaussianKernel
from lmgp.locality.clustering import nearest_centroids
from lmgp.locality.places import distinct_places
from lmgp.memory import check_memory
from lmgp.noise import Noise
from lmgp.statistics import Source, Statistics
from lmgp.validation import RandomState, Rows, as_tensor, generator, validated

Floats = NDArray[np.float64]

# Which maps serve a kernel that has a capability.
SERVING = (
    ("frequencies", "RandomFourierFeatures, OrthogonalFourierFeatures"),
    ("gaussian_components", "TaylorFeatures, OptimizedMaclaurinFeatures, RandomMaclaurinFeatures"),
)


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
    """What a map costs in a model, known before it is fitted.

    Attributes
    ----------
    columns : int
        The number of columns, D.
    moments : float or None
        The number of moments that can be summed for each row in place of D²/2 products; None where there are none.
    degree : int or None
        The degree p of a truncated series, which sets the reach; None where the map reaches every row.
    solved : int
        The order of the triangular system that a Nyström map solves for each row; 0 for other maps.
    stretch : float
        What the reach that follows from the degree is multiplied with in the metric of the kernel: more than 1 where a
        part of a sum has longer lengthscales than the metric.
    """

    columns: int
    moments: float | None = None
    degree: int | None = None
    solved: int = 0
    stretch: float = 1.0


class FeatureMap(Fitted, TensorMap, NamedOutput, TransformerMixin, BaseEstimator):
    """A map φ from rows to columns: a scikit-learn transformer.

    `fit` draws what is random and decides how many columns there are; `transform` maps. Subclasses implement `draw` and
    `evaluate`, and may name their columns in `column_names`. What is learned is one record, a `MapFit`.

    Attributes
    ----------
    n_features_out_ : int
        The number of columns made.
    n_features_in_ : int
        The number of input columns, d.
    record_ : MapFit
        What `draw` returned.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _accepts_sparse: ClassVar[bool] = False

    n_features: int
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
            self._fitted = self.draw(*self._start(X))
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
        return self.evaluate(as_tensor(validated(self, X, reset=False))).numpy()

    def work(self, n_inputs: int) -> Work:
        """Return what this map will cost for rows of `n_inputs` columns. It need not be fitted."""
        return Work(self.n_features)

    def _start(self, X: ArrayLike) -> tuple[Floats, np.random.Generator]:
        """Check parameters and rows; return the rows and the generator that `random_state` names."""
        self._validate_params()
        rows: Floats = validated(self, X, accept_sparse="csr" if self._accepts_sparse else False)
        return rows, generator(self.random_state)

    @abstractmethod
    def draw(self, X: Floats, rng: np.random.Generator) -> MapFit:
        """Decide all that is random or depends on the rows; `fit` calls it.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Checked rows.
        rng : numpy.random.Generator

        Returns
        -------
        MapFit
        """

    @property
    def record_(self) -> Any:
        """What `draw` returned, for `evaluate`."""
        if "_fitted" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no record_: it is not fitted.")
        return self._fitted


class KernelMap(FeatureMap):
    """A map φ from rows to columns with φ(x)ᵀφ(z) ≈ k(x, z), for a kernel k.

    The map applies the kernel's lengthscale and variance. It never centres: where the map has a centre (all but the
    Fourier and Nyström maps), that is the origin, and whoever uses it hands over X − c.

    Subclasses implement `draw_for` and `evaluate`, and say what they need of a kernel in ``needs``.

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
    # Whether k − φᵀφ is positive semi-definite.
    leaves_covariance: ClassVar[bool] = False

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

    @classmethod
    def require(cls, kernel: Kernel) -> None:
        """Refuse a kernel that the map cannot serve.

        Raises
        ------
        InputError
            It names what the kernel lacks, the kernels that have it, and the maps that serve this kernel.
        """
        if cls.needs is not None and not cls.serves(kernel):
            serving = [maps for need, maps in SERVING if kernel.can(need)]
            others = ", ".join([*serving, "NystroemFeatures"])
            raise InputError(f"{unsupported(kernel, cls.needs, cls.__name__)} Maps that serve this kernel: {others}.")
        if kernel.can("prior_variance") and kernel.prior_variance() == 0.0:
            raise InputError(f"{kernel!r} is zero everywhere: a prior of no functions. Give it a positive factor.")

    def centre_of(self, X: Floats, weights: Floats | None) -> Floats:
        """Return where one map for all rows is best centred, shape (d,): the weighted mean of the rows."""
        places, totals = distinct_places(X, weights)
        return np.asarray(np.average(places, axis=0, weights=totals))

    def fit_around(self, X: Floats, centroids: Floats) -> Self:
        """Draw the map for use on differences between rows and their nearest centroid.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        centroids : ndarray of shape (n_centroids, d)
        """
        if len(centroids) == 1:  # the nearest one in any metric
            return self.fit(X - centroids)
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

    def n_bytes(self, n_rows: int, n_inputs: int) -> float:
        """Return about how many bytes the map fitted to `n_rows` takes in a model: its parameters and tables."""
        # What is drawn is held twice while blocks of it are put together; and a row of columns.
        return 8.0 * self.work(n_inputs).columns * (2.0 * n_inputs + 1.0)

    @property
    def row_size(self) -> int:
        """The number of float64 values that `summed` holds for each row of a chunk."""
        return self.n_features_out_

    def source(self, noise: Noise, centre: Floats | None) -> Source:
        """Name this fitted map for the statistics that it makes."""
        fit: KernelFit = self._fitted
        return Source(noise, fit.kernel_name, f"{type(self).__name__} {fit.digest}", centre)

    def summed(self, chunks: Iterable[Rows], source: Source, origin: float = 0.0, by: Arithmetic = USUAL) -> Statistics:
        """Sum the statistics of rows.

        Parameters
        ----------
        chunks : iterable of Rows
            With X as differences to the centre of the map.
        source : Source
            With the noise, which says whether what the map leaves out of a row's variance is noise of that row.
        origin : float, default=0.0
            Of y in the sums.
        by : Arithmetic
            Where columns are multiplied, and in which precision.

        Returns
        -------
        Statistics
        """
        total = Statistics.zeros(self.n_features_out_, source, origin)
        with total.adding(by) as add:
            for chunk in chunks:
                features, missing = self._columns(as_tensor(chunk.X), source.noise.counts_missing, by)
                weights = None if chunk.weights is None else as_tensor(chunk.weights)
                add(features, as_tensor(chunk.y), weights, source.noise.relative_precision(chunk, missing))
        return total

    def _columns(self, X: torch.Tensor, missing: bool, arithmetic: Arithmetic) -> tuple[Columns, torch.Tensor | None]:
        """Return the features of rows for products, and the variance that the map leaves out, where it is asked for."""
        features = self.evaluate(X)
        return features.to(arithmetic.place, arithmetic.dtype), self.missing_variance(X, features) if missing else None

    def columns_in(self, larger: FeatureMap) -> tuple[NDArray[np.intp], float] | None:
        """Find the columns of this map among those of a larger one, up to a factor.

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

    def draw(self, X: Floats, rng: np.random.Generator) -> KernelFit:
        """Check the kernel and the memory, and draw the map: `draw_for`."""
        return self.draw_for(X, rng, self._prepare(X))

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
        kernel.checked(n_inputs)
        self.require(kernel)
        return kernel

    @abstractmethod
    def draw_for(self, X: Floats, rng: np.random.Generator, kernel: Any) -> KernelFit:
        """Decide all that is random or depends on the rows, as `draw`, for a kernel.

        It is a copy, which fits the rows and can do what the map needs. The result is a `KernelFit`.
        """
