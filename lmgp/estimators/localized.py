"""Localized Gaussian processes: one model around each of many centroids."""

from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import TransformerMixin
from sklearn.utils import check_array
from sklearn.utils._param_validation import Interval, StrOptions

from lmgp.data import APPROXIMATIONS, Approximation, Floats
from lmgp.estimators.streamed import AdditiveGaussianProcess
from lmgp.features.base import KernelMap
from lmgp.kernels.base import Kernel
from lmgp.posteriors.local import LocalPosterior, Solver
from lmgp.recipes import Local


@dataclass(eq=False, repr=False)
class LocalizedGPRegressor(AdditiveGaussianProcess):
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
        rows, see `lmgp.learn`. None: "gaussian".
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    noise : {"normal", "student", "varying", "robust", "auto"}, default="normal"
        The distribution of new observations, see `lmgp.estimators.GaussianProcess`.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" is True.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised. Of more rows, Vecchia's is maximised, or the
        exact one of a random sample of this size where the kernel has no lengthscale.
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
        The distance from a centroid, in lengthscales, beyond which rows are left out. With the features, that changes
        no mean by more than 1e-3 predictive standard deviations. With ``solver="dual"`` there is no such bound: with
        little noise, or where y contradicts the kernel, it may be several times that, see
        `lmgp.posteriors.local.reach_of`.
    kernel_, noise_variance_, center_, trend_, n_features_in_
        See `ExactGPRegressor`.

    Notes
    -----
    `fit` finds the centroids; a centroid's model is solved when the first row is predicted from it. Predictions may run
    in several threads.

    A trend is estimated once, for all centroids, by the exact process of all rows, or of 4,000 random ones
    (`lmgp.posteriors.trend.trended`).

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
        **AdditiveGaussianProcess._parameter_constraints,
        "approximation": [StrOptions(set(APPROXIMATIONS))],
        "threshold": [Interval(Real, 0, None, closed="neither")],
        "centroids": [StrOptions({"farthest_point", "test_rows"}), "array-like"],
        "solver": [StrOptions({"primal", "dual", "auto"})],
    }

    features: TransformerMixin | None = None
    threshold: float = 1.0
    _: KW_ONLY
    centroids: Literal["farthest_point", "test_rows"] | ArrayLike = "farthest_point"
    solver: Solver = "primal"
    approximation: Approximation = "fitc"

    def _recipe(self, n_rows: int, kernel: Kernel) -> Local:
        placed = self.centroids
        if not isinstance(placed, str):
            placed = check_array(placed, dtype=np.float64, input_name="centroids", copy=True)
        return Local(self.features, float(self.threshold), placed, self.solver, self.approximation, self.max_memory_gib)

    def _around(self, name: str) -> LocalPosterior | None:
        """Return the posterior around centroids; None where the nearest rows predict."""
        posterior = self._process(name)
        return posterior if isinstance(posterior, LocalPosterior) else None

    @property
    def features_(self) -> KernelMap | None:
        """The fitted map, one for all centroids; None where rows take the place of features."""
        around = self._around("features_")
        return None if around is None else around.features

    @property
    def centroids_(self) -> Floats:
        """The centroids in the units of X, shape (n_centroids, d); of no rows where every test row is its own."""
        around = self._around("centroids_")
        return np.empty((0, self.n_features_in_)) if around is None else around.centroids

    @property
    def reach_(self) -> float:
        """The distance from a centroid, in lengthscales, beyond which rows are left out."""
        around = self._around("reach_")
        return float("inf") if around is None else around.reach
