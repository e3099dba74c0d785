"""Localized Gaussian processes: one model around each of many centroids."""

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree
from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array

from lmgp.errors import InputError
from lmgp.features.base import KernelMap
from lmgp.features.maclaurin import OptimizedMaclaurinFeatures
from lmgp.features.taylor import TaylorFeatures
from lmgp.fitted import OfFit
from lmgp.inference.frozen import frozen_reach, nodes_of, with_moments
from lmgp.inference.learning import Hyperparameters
from lmgp.inference.leave_one_out import around_centroids
from lmgp.inference.local import PRUNE, LocalPosterior, Solver, fitted_map
from lmgp.inference.local_sums import MOST_COLUMNS, Lattice, LocalPlan
from lmgp.inference.nearest import NearestPosterior
from lmgp.io.summary import Summary
from lmgp.kernels.base import Kernel, require
from lmgp.learning.forms import Ard
from lmgp.learning.learn import Wanted
from lmgp.locality.blocks import Neighbourhoods
from lmgp.locality.placement import cover
from lmgp.models.base import GPFit, TrendColumns
from lmgp.models.featurized import FeaturizedGPRegressor, cure
from lmgp.models.localized_state import LocalizedState
from lmgp.models.nearest import no_estimate
from lmgp.models.streams import Sample, StreamedGP
from lmgp.noise import Approximation, Noise
from lmgp.validation import RandomState, Rows

Floats = NDArray[np.float64]

# Up to this number of input columns the default map is the explicit one.
LOW_DIMENSION = 4

# The nearest rows that predict a row by default, for kernels that no localized map serves.
NEIGHBORS = 100


@dataclass(frozen=True, eq=False)
class LocalizedFit(LocalizedState):
    """The fitted state of a localized model."""


class LocalizedGPRegressor(StreamedGP):
    """A Gaussian process whose feature map is centred anew around each of many centroids.

    A Maclaurin map is accurate near its centre only. Here a row is predicted by the model of its nearest centroid,
    from all training rows that this model's map can reach. That cures the map's failure on data that extend over many
    lengthscales: in low dimension, with `TaylorFeatures`, this is far nearer to the exact GP than random features of
    the same size. Where the function is smooth over the whole extent of the data, `FeaturizedGPRegressor` is better.

    Parameters
    ----------
    features : FeatureMap or scikit-learn transformer, optional
        Cloned, given the kernel, and fitted to differences between rows and centroids. If not given,
        ``TaylorFeatures(512)`` up to 4 input columns and ``OptimizedMaclaurinFeatures(512)`` above. These maps serve
        sums of Gaussians only. With any other kernel, each test row is predicted from its 100 nearest rows, as by
        `NearestNeighborsGPRegressor`; with ``solver="dual"`` or given centroids, from all rows.
    threshold : float, default=1.0
        In lengthscales of the kernel's metric: every training row is closer than this to a centroid. For
        farthest-point clustering only.
    centroids : {"farthest_point", "test_rows"} or array-like of shape (n_centroids, d), default="farthest_point"
        Farthest-point clustering of the training rows, starting from their mean; or every test row its own centroid,
        which makes the kernel between it and all training rows exact, at the cost of one solve for each; or these
        points, in the units of X.
    solver : {"primal", "dual", "auto"}, default="primal"
        How the model around a centroid is solved: with the features, D × D; or with the kernel itself on the rows
        within reach, n × n, which is nearer to the exact GP, and cheaper where these rows are few; or each centroid in
        the smaller of the two.
    approximation : {"dtc", "sor", "fitc"}, default="fitc"
        What becomes of the prior variance that a map leaves out at a row, see `FeaturizedGPRegressor`. With "dtc" and
        "fitc", rows far from all centroids are predicted by the prior. With "dtc" and "sor", training rows at the edge
        of a map's reach, which it represents only in part, distort the fit where the noise is small.
    kernel : Kernel, str, list of str or None, default=None
        With a lengthscale, used as it is, but for parameters with bounds, which are learned. A name,
        such as "matern32" or "matern12+gaussian", several, or "auto": what predicts best of these, learned from all
        rows, see `lmgp.learn`. None: a `GaussianKernel` by maximum marginal likelihood of at most `max_learning_rows`
        rows.
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" tries both.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised; of more rows, a random sample of this size.
    max_memory_gib : float, default=4.0
        The memory of one model while it is solved, and of all solved models that are kept from one prediction to the
        next, in GiB.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seeds the map, where that has no seed of its own.

    Attributes
    ----------
    features_ : FeatureMap or None
        The fitted map, one for all centroids; None where rows take the place of features.
    centroids_ : ndarray of shape (n_centroids, d)
        In the units of X; of no rows where every test row is its own.
    reach_ : float
        The distance from a centroid, in lengthscales, beyond which rows are left out. Leaving them out changes no mean
        by more than 1e-3 predictive standard deviations: see `lmgp.inference.local.LocalPosterior`.
    kernel_, noise_variance_, center_, trend_, n_features_in_
        See `ExactGPRegressor`.

    Notes
    -----
    `fit` finds the centroids; a centroid's model is solved when the first row is predicted from it. Predictions may run
    in several threads.

    A trend is estimated once, for all centroids, by the exact process of all rows, or of 4,000 random ones
    (`lmgp.inference.function_space.estimate_trend`).

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 6 and
    Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import GaussianKernel, LocalizedGPRegressor, TaylorFeatures
    >>> X = np.linspace(0, 100, 2000)[:, None]
    >>> model = LocalizedGPRegressor(TaylorFeatures(20), kernel=GaussianKernel(1.0), noise_variance=0.01)
    >>> model.fit(X, np.sin(X[:, 0])).predict([[50.0], [1000.0]], return_std=True)[1].round(3)
    array([0.0..., 1.   ])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FeaturizedGPRegressor._parameter_constraints,
        "threshold": [Interval(Real, 0, None, closed="neither")],
        "centroids": [StrOptions({"farthest_point", "test_rows"}), "array-like"],
        "solver": [StrOptions({"primal", "dual", "auto"})],
    }

    features_ = OfFit[KernelMap | None]()
    centroids_ = OfFit[Floats]()
    reach_ = OfFit[float]()

    _fitted: LocalizedFit

    def __init__(
        self,
        features: TransformerMixin | None = None,
        threshold: float = 1.0,
        *,
        centroids: Literal["farthest_point", "test_rows"] | ArrayLike = "farthest_point",
        solver: Solver = "primal",
        approximation: Approximation = "fitc",
        kernel: Wanted = None,
        noise_variance: float | None = None,
        trend: TrendColumns = "constant",
        ard: Ard = False,
        max_learning_rows: int = 2000,
        max_memory_gib: float = 4.0,
        random_state: RandomState = None,
    ) -> None:
        self.features = features
        self.threshold = threshold
        self.centroids = centroids
        self.solver = solver
        self.approximation = approximation
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.trend = trend
        self.ard = ard
        self.max_learning_rows = max_learning_rows
        self.max_memory_gib = max_memory_gib
        self.random_state = random_state

    def _fit(self, rows: Rows, learned: Hyperparameters, common: GPFit, rng: np.random.Generator) -> LocalizedFit:
        kernel, rows = common.kernel, rows.copy()
        require(kernel, "metric", type(self).__name__)
        noise = Noise(common.noise_variance, self.approximation)
        features, placed = self.features, self.centroids
        if features is None and kernel.can("gaussian_components"):
            features = TaylorFeatures() if rows.X.shape[1] <= LOW_DIMENSION else OptimizedMaclaurinFeatures()
        elif features is None and self.solver != "dual" and isinstance(placed, str):
            return self._of_nearest_rows(rows, noise, common, rng)
        centroids = self._place_centroids(placed, kernel, rows)
        made = None
        if features is not None:
            made = fitted_map(features, kernel, rows, centroids, rng, self.max_memory_gib)
        common, trend = self._with_trend(rows, noise, common)
        posterior = LocalPosterior(
            kernel,
            rows,
            noise,
            centroids,
            features=made,
            solver=self.solver,
            max_memory_gib=self.max_memory_gib,
            trend=trend,
        )
        covered = isinstance(placed, str) and placed == "farthest_point"
        return LocalizedFit(
            **vars(common),
            posterior=posterior,
            features=made,
            centroids=centroids,
            reach=posterior.reach,
            places=centroids if covered else rows.X,
            radius=float(self.threshold) if covered else 1.0,
            threshold=float(self.threshold) if covered else None,
            summary=Summary.of(rows) if common.trend is None else None,
        )

    def _freeze(self, rows: Rows, common: GPFit, rng: np.random.Generator, sample: Sample | None) -> LocalizedFit:
        self._check_stream(common)
        kernel, d, noise = common.kernel, rows.X.shape[1], Noise(common.noise_variance, self.approximation)
        features = self.features
        if features is None:
            features = TaylorFeatures() if d <= LOW_DIMENSION else OptimizedMaclaurinFeatures()
        lattice, given = Lattice.of(kernel, d, float(self.threshold)), None
        if not isinstance(self.centroids, str):
            given = self._place_centroids(self.centroids, kernel, rows)
        places = lattice.centres(np.unique(lattice.cells(rows.X), axis=0)) if given is None else given
        made = with_moments(fitted_map(features, kernel, rows, places, rng, self.max_memory_gib))
        reach = frozen_reach(made, kernel, noise, d, PRUNE)
        # Of more columns than three, rows are summed in the cubes of rows alone.
        seen = np.unique(lattice.cells(rows.X), axis=0) if d > MOST_COLUMNS else None
        nodes = nodes_of(made, noise, lattice, reach)
        plan = LocalPlan(kernel, made, noise, common.center, lattice, reach, given, seen, self.max_memory_gib, nodes)
        nothing = rows.take(slice(0))
        none = LocalPosterior(
            kernel, nothing, noise, places[:0], features=made, reach=reach, neighbourhoods=Neighbourhoods(nothing.X)
        )
        return LocalizedFit(
            **vars(common), posterior=none, features=made, centroids=places[:0], reach=reach, places=places[:0],
            radius=float(self.threshold), plan=plan,
        )  # fmt: skip

    def _check_stream(self, common: GPFit) -> None:
        """Refuse what needs rows that are kept."""
        require(common.kernel, "metric", type(self).__name__)
        reason = (
            "solver='primal': rows are not kept" if self.solver != "primal"
            else "centroids before test rows are known" if isinstance(self.centroids, str) and
            self.centroids == "test_rows"
            else "trend='constant'; FeaturizedGPRegressor and SpectralGPRegressor have others" if common.trend
            else "a map, and without one a kernel of Gaussians: use SpectralGPRegressor" if self.features is None and
            not common.kernel.can("gaussian_components")
            else None
        )  # fmt: skip
        if reason is not None:
            raise InputError(f"A localized model of a stream needs {reason}. Or fit to rows in memory.")

    def _check_more(self, rows: Rows, fit: LocalizedFit) -> None:
        super()._check_more(rows, fit)
        if fit.plan is not None:
            fit.plan.check_rows(rows)

    def _needs_sample(self) -> bool:
        # All monomials up to a degree are the same map whatever the rows.
        features = TaylorFeatures() if self.features is None else self.features
        fixed = isinstance(features, TaylorFeatures) and features.index_set == "total_degree"
        return not (self._all_given and fixed)

    def _of_nearest_rows(self, rows: Rows, noise: Noise, common: GPFit, rng: np.random.Generator) -> LocalizedFit:
        common, trend = self._with_trend(rows, noise, common)
        posterior = NearestPosterior(common.kernel, rows, noise, NEIGHBORS, self.max_memory_gib, trend)
        none, reach = np.empty((0, rows.X.shape[1])), float("inf")
        return LocalizedFit(
            **vars(common), posterior=posterior, features=None, centroids=none, reach=reach, places=rows.X, radius=1.0
        )

    def _place_centroids(self, placed: str | ArrayLike, kernel: Kernel, rows: Rows) -> Floats:
        """Return the centroids in the units of X, shape (n_centroids, d); none if every test row is its own."""
        if isinstance(placed, str):
            if placed == "test_rows":
                return np.empty((0, rows.X.shape[1]))
            return cover(rows, kernel, float(self.threshold))
        centroids: Floats = check_array(placed, dtype=np.float64, input_name="centroids", copy=True)
        if centroids.shape[1] != rows.X.shape[1]:
            raise InputError(
                f"centroids must have as many columns as X, {rows.X.shape[1]}; got shape {centroids.shape}."
            )
        return centroids

    def _predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        return self._fitted.posterior.predict(X, variance)

    def _training_rows(self) -> Rows:
        return self._fitted.posterior.rows

    def _left_out(self, rows: Rows) -> tuple[Floats, Floats]:
        posterior = self._fitted.posterior
        if isinstance(posterior, NearestPosterior):
            return posterior.leave_one_out()
        return around_centroids(posterior, rows)

    def _expectations(self, X: Floats) -> tuple[Floats, Floats]:
        return self._fitted.posterior.expectations(X)

    def _cure(self, X: Floats) -> str:
        fit = self._fitted
        return super()._cure(X) if fit.features is None else cure(fit.posterior.noise, fit.features, X[:1])

    def _expected_divergence(self, X: Floats) -> Floats:
        fit = self._fitted
        if isinstance(fit.posterior, NearestPosterior):
            raise no_estimate(fit.posterior)
        distance, _ = KDTree(fit.kernel.scale(fit.places)).query(fit.kernel.scale(X))
        return fit.posterior.expected_divergence(X, distance - fit.radius)
