"""The contracts of feature maps: of any map, and of a map of a kernel."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from lmgp.data import Floats, Noise, RandomState, Rows, Source, as_tensor, generator, validated
from lmgp.errors import InputError
from lmgp.features.statistics import Statistics
from lmgp.kernels.base import Kernel, unsupported
from lmgp.kernels.stationary import GaussianKernel
from lmgp.neighbours.clustering import nearest_centroids
from lmgp.neighbours.placement import distinct_places
from lmgp.utils.arithmetic import USUAL, Arithmetic, Columns
from lmgp.utils.fitted import Fitted, digest, forget, unchanged_on_failure
from lmgp.utils.lazy import Tensor
from lmgp.utils.memory import check_memory

if TYPE_CHECKING:
    from lmgp.features.composition import ProductFeatures, ScaledFeatures, SumFeatures


# Which maps serve a kernel that has a capability.
SERVING = (
    ("frequencies", "RandomFourierFeatures, OrthogonalFourierFeatures"),
    ("gaussian_components", "TaylorFeatures, OptimizedMaclaurinFeatures, RandomMaclaurinFeatures"),
)


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


class FeatureMap(Fitted, TransformerMixin, BaseEstimator):
    """A map φ from rows to columns: a scikit-learn transformer.

    `fit` draws what is random and decides how many columns there are; `transform` maps. Subclasses implement `draw` and
    `evaluate`, and may name their columns in `column_names`.

    Maps have the operators of their kernels: ``map1 + map2``, ``map1 * map2``, ``3.0 * map1``. The other map may be any
    scikit-learn transformer.

    Attributes
    ----------
    n_features_out_ : int
        The number of columns made.
    n_features_in_ : int
        The number of input columns, d.
    """

    __array_ufunc__ = None

    # Of those of these parameters that a map has.
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "kernel": [Kernel, None],
        "random_state": ["random_state", np.random.Generator],
    }
    _accepts_sparse: ClassVar[bool] = False

    n_features: int
    random_state: RandomState = None
    n_features_in_: int
    n_features_out_: int

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
        return self._fit_by(X, self.draw)

    def fit_checked(self, X: Floats) -> Self:
        """Draw the map for rows that are not checked again, see `fit`."""
        return self._fit_by(X, self.draw, checked=True)

    def _fit_by(self, X: ArrayLike, draw: Callable[[Any, np.random.Generator], None], checked: bool = False) -> Self:
        """Check parameters and rows, and draw the map by a method; where that fails, the map stays as it was."""
        with unchanged_on_failure(self):
            self._validate_params()
            forget(self)
            rows: Any = X
            if checked:
                self.n_features_in_ = rows.shape[1]
            else:
                rows = validated(self, X, accept_sparse="csr" if self._accepts_sparse else False)
            self._prepare(rows)
            draw(rows, generator(self.random_state))
            if "n_features_out_" not in vars(self):
                self.n_features_out_ = self.evaluate(as_tensor(rows[:1])).shape[1]
        return self

    def _prepare(self, X: Floats) -> None:
        """Check what `draw` takes for granted."""

    @abstractmethod
    def draw(self, X: Floats, rng: np.random.Generator) -> None:
        """Decide all that is random or depends on the rows; `fit` calls it.

        What is learned is kept as attributes whose names end in an underscore. The number of columns,
        ``n_features_out_``, may be left to `fit`, which counts what `evaluate` makes of a row.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Checked rows.
        rng : numpy.random.Generator
        """

    @abstractmethod
    def evaluate(self, X: Tensor) -> Tensor:
        """Map rows that are not checked again.

        Parameters
        ----------
        X : Tensor of shape (n, d)
            Finite, of float64.

        Returns
        -------
        Tensor of shape (n, n_features_out_)
            A new one.
        """

    def missing_variance(self, X: Tensor, features: Tensor) -> Tensor | None:
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

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the columns that are made.

        Parameters
        ----------
        input_features : array-like of str of shape (d,), optional
            The names of the columns of X; those of `fit` if not given, or x0, x1, …

        Returns
        -------
        ndarray of str of shape (n_features_out_,)

        Raises
        ------
        InputError
            If the number of names is not d, or they are not those of `fit`.
        """
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        given = known if input_features is None else np.asarray(input_features, dtype=object)
        if given is None:
            given = [f"x{j}" for j in range(self.n_features_in_)]
        if known is not None and list(given) != list(known):
            raise InputError(
                f"input_features is not equal to feature_names_in_, {list(known)}; got {list(given)}. Leave it out."
            )
        if len(given) != self.n_features_in_:
            raise InputError(
                f"input_features should have length equal to the number of columns of X, {self.n_features_in_}; got "
                f"{list(given)}."
            )
        return np.array(list(self.column_names([str(name) for name in given])), dtype=object)

    def column_names(self, names: Sequence[str]) -> Iterable[str]:
        """Name the columns of the fitted map; subclasses say more than their own name and a number.

        Parameters
        ----------
        names : sequence of str
            Of the columns of X.

        Returns
        -------
        iterable of str
            ``n_features_out_`` different ones.
        """
        return numbered(type(self).__name__.lower(), self.n_features_out_)

    def __sklearn_is_fitted__(self) -> bool:
        return "n_features_out_" in vars(self)

    def __add__(self, other: Any) -> "SumFeatures":
        return _composed("SumFeatures", self, other)

    def __radd__(self, other: Any) -> "SumFeatures":
        return _composed("SumFeatures", other, self)

    def __mul__(self, other: Any) -> "ProductFeatures | ScaledFeatures":
        if isinstance(other, Real):
            return self.__rmul__(other)
        return _composed("ProductFeatures", self, other)

    def __rmul__(self, other: Any) -> "ProductFeatures | ScaledFeatures":
        if isinstance(other, Real):
            return _composed("ScaledFeatures", self, factor=float(other))
        return _composed("ProductFeatures", other, self)


def _composed(name: str, *parts: Any, **parameters: float) -> Any:
    """Make a composed map of transformers."""
    from lmgp.features import composition  # which is made of feature maps

    if not all(hasattr(part, "transform") for part in parts):
        return NotImplemented
    return getattr(composition, name)(*parts, **parameters)


@dataclass(eq=False, repr=False)
class KernelMap(FeatureMap):
    """A map φ from rows to columns with φ(x)ᵀφ(z) ≈ k(x, z), for a kernel k.

    The map applies the kernel's lengthscale and variance. It never centres: where the map has a centre (all but the
    Fourier and Nyström maps), that is the origin, and whoever uses it hands over X − c.

    Subclasses implement `draw`, which finds the kernel in ``kernel_``, and `evaluate`, and say what they need of a
    kernel in ``needs``.

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
        The kernel that is approximated: a copy, which fits the rows and can do what the map needs.
    """

    # The capability of a kernel without which this map cannot serve it; None for a map that serves every kernel.
    needs: ClassVar[str | None] = "metric"
    # Whether k − φᵀφ is positive semi-definite.
    leaves_covariance: ClassVar[bool] = False

    # What follows from the other attributes, or does not change what a map makes: it is no part of `identity`.
    _follows: ClassVar[frozenset[str]] = frozenset({"feature_names_in_", "factor_", "steps_", "moments_"})

    n_features: int = 512
    _: KW_ONLY
    kernel: Kernel | None = None
    random_state: RandomState = None
    kernel_: Any = field(init=False)

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
            return self.fit_checked(X - centroids)
        kernel = self._checked_kernel(X.shape[1])
        nearest = nearest_centroids(kernel.in_lengthscales(X), kernel.in_lengthscales(centroids))
        return self.fit_checked(X - centroids[nearest])

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
        return Source(noise, *self.identity, centre)

    @property
    def identity(self) -> tuple[str, str]:
        """Two names that maps of equal kernels, arrays and numbers share: of the kernel, and of the map."""
        names = vars(self).get("_identity")
        if names is None:
            learned = {name: value for name, value in vars(self).items() if name.endswith("_")}
            learned = {name: value for name, value in learned.items() if name not in self._follows}
            names = self._identity = repr(self.kernel_), f"{type(self).__name__} {digest(learned)}"
        return names

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_identity"}

    def summed(self, chunks: Iterable[Rows], source: Source, n_targets: int, by: Arithmetic = USUAL) -> Statistics:
        """Sum the statistics of rows.

        Parameters
        ----------
        chunks : iterable of Rows
            With X as differences to the centre of the map.
        source : Source
            With the noise, which says whether what the map leaves out of a row's variance is noise of that row.
        n_targets : int
            Of the rows.
        by : Arithmetic
            Where columns are multiplied, and in which precision.

        Returns
        -------
        Statistics
        """
        total = Statistics.zeros(self.n_features_out_, n_targets, source)
        total.add(
            ((chunk, *self._columns(as_tensor(chunk.X), source.noise.counts_missing, by)) for chunk in chunks), by
        )
        return total

    def _columns(self, X: Tensor, missing: bool, arithmetic: Arithmetic) -> tuple[Columns, Tensor | None]:
        """Return the features of rows for products, and the variance that the map leaves out, where it is asked for."""
        features = self.evaluate(X)
        return features.to(arithmetic.place, arithmetic.dtype), self.missing_variance(X, features) if missing else None

    def _prepare(self, X: Floats) -> None:
        """Take a copy of the kernel, after checking that it can serve these rows within the machine's memory."""
        self.__dict__.pop("_identity", None)
        self.kernel_ = self._checked_kernel(X.shape[1])
        self._check_size(X)

    def _check_size(self, X: Floats) -> None:
        """Refuse a map that would not fit into the machine's memory."""
        needed, n_columns = self.n_bytes(*X.shape), self.work(X.shape[1]).columns
        check_memory(
            needed,
            f"The parameters of {type(self).__name__} with {n_columns:,} columns",
            lambda limit: f"At most about {int(limit * n_columns / needed):,} features of {X.shape[1]} inputs fit.",
        )

    def _checked_kernel(self, n_inputs: int) -> Any:
        kernel: Kernel = GaussianKernel() if self.kernel is None else clone(self.kernel)
        kernel = kernel.with_indices(getattr(self, "feature_names_in_", None), n_inputs).checked(n_inputs)
        self.require(kernel)
        return kernel


def numbered(name: str, count: int) -> list[str]:
    """Return names with a number at the end, as scikit-learn's own maps have: name0, name1, …"""
    return [f"{name}{i}" for i in range(count)]


def indexed(name: str, count: int) -> list[str]:
    """Return names with an index: name[0], name[1], …"""
    return [f"{name}[{i}]" for i in range(count)]


def by_degree(name: str, counts: Iterable[int]) -> list[str]:
    """Return names of columns in order of their degree, name[degree,number], for the number of columns of each."""
    return [f"{name}[{degree},{i}]" for degree, count in enumerate(counts) for i in range(count)]


def names_of(transformer: Any, names: Sequence[str], count: int) -> list[str]:
    """Return the names of the columns of any fitted transformer, numbered where it has none."""
    if hasattr(transformer, "get_feature_names_out"):
        return [str(name) for name in transformer.get_feature_names_out(np.array(names, dtype=object))]
    return numbered(type(transformer).__name__.lower(), count)
