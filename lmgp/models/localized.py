"""Localized Gaussian processes: one D × D model around each of many centroids."""

import warnings
from collections.abc import Callable
from copy import copy, deepcopy
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree
from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array

from lmgp.errors import InputError, ToleranceWarning
from lmgp.features.adapter import make_feature_map
from lmgp.features.base import KernelMap
from lmgp.features.maclaurin import OptimizedMaclaurinFeatures
from lmgp.features.taylor import TaylorFeatures
from lmgp.inference.function_space import ExactPosterior, predict_from_neighbours
from lmgp.inference.truncation import expected_divergence
from lmgp.inference.weight_space import WeightPosterior, accumulate, check_model, evaluate
from lmgp.kernels.stationary import GaussianKernel
from lmgp.locality.blocks import Neighbourhoods
from lmgp.locality.clustering import nearest_centroids
from lmgp.locality.placement import cover, negligible_share
from lmgp.models.base import GPRegressor
from lmgp.models.featurized import FeaturizedGPRegressor
from lmgp.noise import Approximation, Noise
from lmgp.parallel import parallel_map
from lmgp.selection.candidates import MAX_EXACT_ROWS, Allowed, families, max_centroids
from lmgp.selection.probes import Probes
from lmgp.selection.search import Choice, Model, select
from lmgp.validation import RandomState, Rows, as_tensor

Floats = NDArray[np.float64]

# Up to this many input columns the default map is the explicit one.
LOW_DIMENSION = 4

# Training rows that stand for test rows which are not known yet, when columns are allocated to degrees.
STAND_INS = 500

# The key of the model from all rows, beside those of the centroids.
ALL_ROWS = -1


class _Cache(dict[int, WeightPosterior | ExactPosterior]):
    """Solved models by the index of their centroid, and the memory that they hold."""

    n_bytes = 0


class LocalizedGPRegressor(GPRegressor):
    """A Gaussian process whose feature map is centred anew around each of many centroids.

    A Maclaurin map is accurate near its centre only. Here a row is predicted by the model of its nearest centroid,
    from all training rows that this model's map can reach. That cures the map's failure on data that extend over many
    lengthscales: in low dimension, with `TaylorFeatures`, this is far nearer to the exact GP than random features of
    the same size. Where the function is smooth over the whole extent of the data, `FeaturizedGPRegressor` is better.

    Parameters
    ----------
    features : FeatureMap or scikit-learn transformer, "auto", optional
        Cloned, given the kernel, and fitted to differences between rows and centroids. If not given,
        ``TaylorFeatures(512)`` up to 4 input columns, and ``OptimizedMaclaurinFeatures(512)`` above. With "auto" the
        map and its size are chosen by measurement, see the notes.
    threshold : float or "auto", default=1.0
        In lengthscales: every training row is closer than this to a centroid. For farthest-point clustering only. With
        "auto" it is chosen by measurement, one model for all rows included.
    centroids : {"farthest_point", "test_rows"} or array-like of shape (n_centroids, d), default="farthest_point"
        Farthest-point clustering of the training rows, starting from their mean; or every test row its own centroid,
        which makes the kernel between it and all training rows exact, at the cost of one solve for each; or these
        points, in the units of X.
    solver : {"primal", "dual", "auto"}, optional
        How the model around a centroid is solved: with the features, D × D; or with the kernel itself on the rows
        within reach, n × n, which is nearer to the exact GP, and cheaper where these rows are few; or each centroid in
        the one of the two that is smaller. If not given, with the features; or, where these are chosen, whatever is
        best.
    n_neighbors : int, optional
        The dual form uses no more than so many rows, the nearest ones to the centroid. With
        ``centroids="test_rows"`` and ``solver="dual"`` this is the nearest-neighbour GP, solved in batches.
    prune : float, default=1e-3
        Leave rows out of a centroid's model that are out of its reach, as far as that changes no predicted mean by
        more than this many predictive standard deviations of the latent function, and no standard deviation by more
        than this share. 0 keeps all rows. Maps without a degree (Fourier, Kar-Karnick, other transformers) reach
        every row.
    approximation : {"dtc", "sor", "fitc"}, default="fitc"
        See `FeaturizedGPRegressor`. With "dtc" and "fitc", rows far from all centroids are predicted by the prior. With
        many training rows within a lengthscale and little noise, "fitc" is much nearer to the exact GP: rows at the
        edge of a map's reach, which it represents only in part, otherwise distort the fit. Where features or threshold
        are chosen, "dtc" allows "fitc" for models around several centroids.
    tolerance : float, default=1e-3
        For "auto": the divergence from the exact GP that is aimed at, KL per row with noise, in nats.
    max_features : int, default=2048
        For "auto": the largest number of columns; or of rows, where rows are used in place of features.
    n_predict : int, optional
        For "auto": how many rows will be predicted, on which it depends what is cheapest. As many as there are training
        rows if not given.
    kernel : GaussianKernel, optional
        Learned by maximum marginal likelihood of the exact GP if not given.
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    ard : bool, default=False
        Whether a learned kernel has one lengthscale a column.
    max_rows : int, default=2000
        The largest number of rows from which hyper-parameters are learned.
    max_cache_gib : float, default=1.0
        The memory, in GiB, for solved models, which are kept from one prediction to the next.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seeds the map, where that has no seed of its own.

    Attributes
    ----------
    features_ : FeatureMap or None
        The fitted map, one for all centroids; None where rows were chosen in place of features.
    centroids_ : ndarray of shape (n_centroids, d)
        In the units of X; of no rows where every test row is its own.
    selection_ : lmgp.selection.search.Selection
        What was tried, what it cost and what was chosen; only with "auto". Printed, it is a table.
    reach_ : float
        The distance from a centroid, in lengthscales, beyond which rows are left out.
    kernel_, noise_variance_, center_, n_features_in_
        See `ExactGPRegressor`.

    Notes
    -----
    `fit` finds the centroids; a centroid's model is solved when the first row is predicted from it.

    A row at distance r from the centroid adds at most σ²Q(p + 1, r²) to ‖Φ‖²_F (in expectation for random maps). Let
    rows of less than εσ² each be left out. The Cauchy-Schwarz inequality in the norm of A⁻¹ bounds the change of the
    mean by √v (n √ε σ rms(y)/σ²_noise + n ε σ² ‖w‖/σ²_noise), with the norm of the weights ‖w‖ ≤ √n rms(y)/(2 σ_noise),
    and the relative change of the variance v by n ε σ²/σ²_noise. So ε = min{(τ σ²_noise/(2 n σ rms(y)))²,
    τ σ²_noise/(2 n σ²)} keeps both below τ = `prune`.

    With "auto", a few training rows, the probes, are held out and predicted by the exact GP: from all other rows up to
    10,000; or else from the nearest ones, as many as it takes for that to change no more, up to 4,096 each. Candidates
    are localized Taylor and TensorSRHT maps, global Taylor, orthogonal Fourier and Nyström maps, nearest rows, and all
    rows, in sizes that double. They are tried in the order of the seconds that a cost model, with rates measured on the
    machine, expects for all training rows and `n_predict` predictions. The first one whose mean divergence on the
    probes is within the tolerance, with two standard errors added, is fitted to all rows. If no candidate is near
    enough, the nearest of the largest ones is taken, with a `lmgp.errors.ToleranceWarning`; which also says where the
    exact predictions still change by too much for the tolerance to be checked.

    Targets of test rows are not used. Far from all data, all candidates but the Fourier maps return to the prior. Two
    runs can differ where candidates cost about the same; within one process, the rates stay the same.

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

    Chosen by measurement:

    >>> model = LocalizedGPRegressor("auto", "auto", kernel=GaussianKernel(1.0), noise_variance=0.01, random_state=0)
    >>> model.fit(X, np.sin(X[:, 0])).selection_.chosen.kl < 1e-3
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FeaturizedGPRegressor._parameter_constraints,
        "threshold": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "centroids": [StrOptions({"farthest_point", "test_rows"}), "array-like"],
        "solver": [StrOptions({"primal", "dual", "auto"}), None],
        "tolerance": [Interval(Real, 0, None, closed="neither")],
        "max_features": [Interval(Integral, 2, None, closed="left")],
        "n_predict": [Interval(Integral, 1, None, closed="left"), None],
        "n_neighbors": [Interval(Integral, 1, None, closed="left"), None],
        "prune": [Interval(Real, 0, 1, closed="both")],
        "max_cache_gib": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        features: TransformerMixin | Literal["auto"] | None = None,
        threshold: float | Literal["auto"] = 1.0,
        *,
        centroids: Literal["farthest_point", "test_rows"] | ArrayLike = "farthest_point",
        solver: Literal["primal", "dual", "auto"] | None = None,
        n_neighbors: int | None = None,
        prune: float = 1e-3,
        approximation: Approximation = "fitc",
        tolerance: float = 1e-3,
        max_features: int = 2048,
        n_predict: int | None = None,
        kernel: GaussianKernel | None = None,
        noise_variance: float | None = None,
        ard: bool = False,
        max_rows: int = 2000,
        max_cache_gib: float = 1.0,
        random_state: RandomState = None,
    ) -> None:
        self.features = features
        self.threshold = threshold
        self.centroids = centroids
        self.solver = solver
        self.n_neighbors = n_neighbors
        self.prune = prune
        self.approximation = approximation
        self.tolerance = tolerance
        self.max_features = max_features
        self.n_predict = n_predict
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.ard = ard
        self.max_rows = max_rows
        self.max_cache_gib = max_cache_gib
        self.random_state = random_state

    def _fit(self, rows: Rows, rng: np.random.Generator) -> None:
        choice = self._choose(rows, rng)
        neighbourhoods = Neighbourhoods(self.kernel_.scale(rows.X))
        self._build(choice, rows.copy(), neighbourhoods, self._place_centroids(choice, rows), rng)

    def _choose(self, rows: Rows, rng: np.random.Generator) -> Choice:
        """Return what the parameters say, after finding out what they leave open."""
        features = self.features
        if features is None:
            features = TaylorFeatures() if rows.X.shape[1] <= LOW_DIMENSION else OptimizedMaclaurinFeatures()
        if isinstance(features, str) and features != "auto":
            raise InputError(
                f"features must be a feature map, another scikit-learn transformer, or 'auto'; got {features!r}."
            )
        self.__dict__.pop("selection_", None)  # of an earlier fit
        if not isinstance(features, str) and not isinstance(self.threshold, str):
            solver, threshold = self.solver or "primal", float(self.threshold)
            return Choice("given", 0, features, threshold, self.centroids, solver, self.approximation, self.n_neighbors)
        if not isinstance(self.centroids, str) or self.centroids != "farthest_point":
            raise InputError(
                "features='auto' and threshold='auto' choose among models around farthest-point centroids; got "
                f"centroids={self.centroids if isinstance(self.centroids, str) else 'an array'!r}. Give both features "
                "and threshold, or centroids='farthest_point'."
            )
        if self.n_neighbors is not None:
            raise InputError(
                f"features='auto' and threshold='auto' choose the number of neighbours as well; got "
                f"n_neighbors={self.n_neighbors}. Give both features and threshold, or leave out n_neighbors."
            )
        allowed = Allowed(
            None if isinstance(features, str) else features,
            None if isinstance(self.threshold, str) else float(self.threshold),
            self.solver,
            self.approximation,
            int(self.max_features),
        )
        if allowed.solver == "dual" and not (allowed.features is None and allowed.threshold is None):
            raise InputError(
                "solver='dual' uses no features: to choose among nearest rows and all rows give features='auto' and "
                f"threshold='auto'; got features={features!r} and threshold={self.threshold!r}."
            )
        n_predict = len(rows.y) if self.n_predict is None else int(self.n_predict)
        probes = Probes.of(rows, self.kernel_, self.noise_variance_, self.tolerance, rng)
        rest = probes.rest
        share = negligible_share(rest, self.kernel_, self.noise_variance_, self.prune)
        limit = max_centroids(*rest.X.shape) if allowed.threshold is None else None
        neighbourhoods = Neighbourhoods(self.kernel_.scale(rest.X))
        covers = cache(lambda threshold: cover(rest, self.kernel_, threshold, limit))

        def build(choice: Choice) -> Model:
            model = copy(self)
            centroids = covers(choice.threshold) if choice.threshold else self._place_centroids(choice, rest)
            # As the final one will be: what is drawn does not depend on what was tried before.
            model._build(choice, rest, neighbourhoods, centroids, deepcopy(rng))
            return Model(model._missing, model._predict)

        candidates = families(rest, len(rows.y), self.kernel_, allowed, covers, share, n_predict)
        choice, self.selection_ = select(probes, candidates, build, self.noise_variance_, self.tolerance, n_predict)
        if shortfall := self.selection_.shortfall(allowed.max_features):
            instead = ", or use ExactGPRegressor." if len(rows.y) <= MAX_EXACT_ROWS else "."
            warnings.warn(shortfall + instead, ToleranceWarning, stacklevel=4)
        return choice

    def _build(
        self,
        choice: Choice,
        rows: Rows,
        neighbourhoods: Neighbourhoods,
        centroids: Floats,
        rng: np.random.Generator,
    ) -> None:
        """Become the model of a choice, for these rows and around these centroids."""
        self._choice = choice
        self._noise = Noise(self.noise_variance_, choice.approximation)
        self._rows = rows
        self._neighbourhoods = neighbourhoods
        self._tree: Any = None if choice.n_neighbors is None else KDTree(self.kernel_.scale(rows.X))
        self._solved = _Cache()
        self.centroids_, self.reach_ = centroids, float("inf")
        self.features_: Any = None
        if choice.features is not None:
            self.features_ = make_feature_map(choice.features, self.kernel_, rng)
            check_model(self.features_, *rows.X.shape)
            self.features_.fit_around(rows.X, centroids if len(centroids) else rng.permutation(rows.X)[:STAND_INS])
            self.reach_ = self.features_.reach(negligible_share(rows, self.kernel_, self.noise_variance_, self.prune))

    def _place_centroids(self, choice: Choice, rows: Rows) -> Floats:
        """Return the centroids in the units of X, shape (n_centroids, d); none if every test row is its own."""
        if not isinstance(choice.centroids, str):
            centroids = check_array(choice.centroids, dtype=np.float64, input_name="centroids", copy=True)
            if centroids.shape[1] != rows.X.shape[1]:
                raise InputError(
                    f"centroids must have as many columns as X, {rows.X.shape[1]}; got shape {centroids.shape}."
                )
            return centroids
        if choice.centroids == "test_rows":
            return np.empty((0, rows.X.shape[1]))
        if choice.threshold is None:
            return np.average(rows.X, axis=0, weights=rows.weights)[None, :]
        return cover(rows, self.kernel_, choice.threshold)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__().copy()
        if "_solved" in state:
            state["_solved"] = _Cache()
        return state

    def _predict(self, X: Floats) -> tuple[Floats, Floats]:
        choice = self._choice
        if not len(self.centroids_) and choice.solver == "dual" and choice.n_neighbors is not None:
            k = min(choice.n_neighbors, len(self._rows.y))
            return predict_from_neighbours(self.kernel_, self._rows, self.noise_variance_, self._tree, X, k)
        mean, variance = np.empty(len(X)), np.empty(len(X))

        def predict(posterior: WeightPosterior | ExactPosterior, centroid: Floats, part: NDArray[np.intp]) -> None:
            if isinstance(posterior, ExactPosterior):
                mean[part], variance[part] = posterior.predict(X[part])
            else:
                mean[part], variance[part] = evaluate(posterior, self.features_, X[part], centroid, self._noise)

        self._with_models(X, predict)
        return mean, variance

    def _expected_divergence(self, X: Floats) -> Floats:
        choice = self._choice
        if choice.n_neighbors is not None:
            raise InputError(
                f"return_error cannot say what the rows beyond the nearest {choice.n_neighbors} would change. Compare "
                "with ExactGPRegressor on some rows instead."
            )
        if isinstance(choice.centroids, str) and choice.centroids == "farthest_point" and choice.threshold is not None:
            distance, _ = KDTree(self.kernel_.scale(self.centroids_)).query(self.kernel_.scale(X))
            beyond = distance - choice.threshold
        else:
            distance, _ = KDTree(self.kernel_.scale(self._rows.X)).query(self.kernel_.scale(X))
            beyond = distance - 1.0
        error = np.zeros(len(X))

        def estimate(posterior: WeightPosterior | ExactPosterior, centroid: Floats, part: NDArray[np.intp]) -> None:
            if isinstance(posterior, WeightPosterior):
                error[part] = expected_divergence(
                    posterior,
                    self.features_,
                    X[part] - centroid,
                    beyond[part],
                    self._noise,
                )

        self._with_models(X, estimate)
        return error

    def _with_models(
        self, X: Floats, use: Callable[[WeightPosterior | ExactPosterior, Floats, NDArray[np.intp]], None]
    ) -> None:
        """Hand each model, with its centroid, to a function, together with the rows of X that it is for."""
        keep = len(self.centroids_) > 0
        centroids = self.centroids_ if keep else np.unique(X, axis=0)

        def use_one(task: tuple[int, NDArray[np.intp]]) -> None:
            index, members = task
            use(self._solve(centroids[index], index if keep else None), centroids[index], members)

        parallel_map(use_one, self._by_centroid(X, centroids))

    def _by_centroid(self, X: Floats, centroids: Floats) -> list[tuple[int, NDArray[np.intp]]]:
        """Group rows by their nearest centroid: each model is solved once, whatever the order of the rows."""
        if not len(centroids):
            return []
        labels = nearest_centroids(self.kernel_.scale(X), self.kernel_.scale(centroids))
        order = np.argsort(labels, kind="stable")
        used, starts = np.unique(labels[order], return_index=True)
        return list(zip(used.tolist(), np.split(order, starts[1:]), strict=True))

    def _solve(self, centroid: Floats, key: int | None) -> WeightPosterior | ExactPosterior:
        """Return the model around one centroid, from the cache where it is there; None keeps it out of the cache."""
        if key is not None and key in self._solved:
            return self._solved[key]
        choice = self._choice
        rows = self._rows.take(self._within_reach(centroid))
        features = self._map_for(len(rows.y))
        posterior: WeightPosterior | ExactPosterior
        if features is not None:
            posterior = WeightPosterior(accumulate(features, rows, centroid, self._noise), center=0.0)
        else:
            if choice.n_neighbors is not None and choice.n_neighbors < len(rows.y):
                (scaled,) = self.kernel_.scale(centroid[None, :])
                _, nearest = self._tree.query(scaled, k=np.arange(1, choice.n_neighbors + 1))
                rows = self._rows.take(nearest)
            elif len(rows.y) == len(self._rows.y):
                # The exact GP of all rows is the same around every centroid.
                key = ALL_ROWS
                if key in self._solved:
                    return self._solved[key]
            posterior = ExactPosterior(self.kernel_, rows, self.noise_variance_)
        held = self._solved.n_bytes + posterior.n_bytes
        if key is not None and held <= self.max_cache_gib * 2**30:
            self._solved[key] = posterior
            self._solved.n_bytes = held
        return posterior

    def _within_reach(self, centroid: Floats) -> NDArray[np.intp] | slice:
        (scaled,) = self.kernel_.scale(centroid[None, :])
        return self._neighbourhoods.within(self.reach_, scaled)

    def _map_for(self, n: int) -> KernelMap | None:
        """Return the map by which a model with n rows within reach is solved; None where it is solved by its rows."""
        solver, features = self._choice.solver, self.features_
        if features is None or solver == "dual" or (solver == "auto" and n < features.n_features_out_):
            return None
        return features

    def _missing(self, X: Floats) -> Floats:
        """Return the prior variance that is added to each row's prediction, without solving anything; shape (n,)."""
        missing = np.zeros(len(X))
        if not self._noise.predicts_missing:
            return missing
        for index, members in self._by_centroid(X, self.centroids_):
            centroid = self.centroids_[index]
            features = self._map_for(len(self._rows.y[self._within_reach(centroid)]))
            if features is not None:
                rows = as_tensor(X[members] - centroid)
                left_out = features.missing_variance(rows, features.evaluate(rows))
                missing[members] = 0.0 if left_out is None else left_out.numpy()
        return missing
