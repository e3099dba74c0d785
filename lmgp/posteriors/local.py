"""Posteriors around centroids: a row is predicted by the posterior of its nearest centroid."""

from abc import abstractmethod
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, Literal, Self, TypeVar, cast

import numpy as np
from scipy.spatial import KDTree

from lmgp.data import Floats, Indices, Noise, Rows, as_tensor
from lmgp.features.adapter import make_feature_map
from lmgp.features.base import KernelMap
from lmgp.features.projection import Projection
from lmgp.kernels.base import Kernel, require
from lmgp.neighbours.clustering import rows_within
from lmgp.neighbours.lattice import Lattice
from lmgp.neighbours.placement import by_centroid, distinct_places, negligible_share
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.weights import WeightPosterior, accumulate, check_model
from lmgp.utils.parallel import parallel_map

Solver = Literal["primal", "dual", "auto"]

# By how many predictive standard deviations leaving rows out may change a mean.
PRUNE = 1e-3

# Training rows that stand for test rows which are not known yet, when a map is fitted around its centroids.
STAND_INS = 500

# Rows whose means are computed at a time, of one centroid or of several.
RUN = 2**12

# What is solved around a centroid.
Solved = WeightPosterior | ExactPosterior

# Rows that were added are searched beside those in blocks, up to this share of them.
SHARE = 0.1

Kept = TypeVar("Kept", bound=Solved)


class Cache(Generic[Kept]):
    """Posteriors by a key, each solved once by the first thread that asks; the others wait for it.

    A posterior that would take the cache above its limit is handed out, but not kept.

    Parameters
    ----------
    limit : float
        In bytes.
    """

    def __init__(self, limit: float) -> None:
        self._limit, self._lock = limit, Lock()
        self._values: dict[Hashable, Future[Kept]] = {}
        self._bytes: dict[int, int] = {}  # by the identity of a posterior: some keys share one

    def get(self, key: Hashable, solve: Callable[[], Kept]) -> Kept:
        """Return the posterior of a key, solved where there is none yet."""
        with self._lock:
            value = self._values.get(key)
            is_first = value is None
            if value is None:
                value = self._values[key] = Future()
        if is_first:
            try:
                posterior = solve()
            except BaseException as error:
                with self._lock:
                    del self._values[key]
                value.set_exception(error)
                raise
            value.set_result(posterior)
            with self._lock:
                if id(posterior) not in self._bytes:
                    if self.n_bytes + posterior.n_bytes > self._limit:
                        del self._values[key]
                    else:
                        self._bytes[id(posterior)] = posterior.n_bytes
        return value.result()

    @property
    def n_bytes(self) -> int:
        """The memory of the posteriors that are kept."""
        return sum(self._bytes.values())


class LocalPosterior(Posterior):
    """One posterior around each centroid, from the rows within its reach.

    A posterior is solved when the first row is predicted from it, by one thread, and kept within a memory limit. A copy
    or a pickle starts with none solved. Subclasses solve from rows, or from sums over rows; they set all attributes
    but the parameters.

    Parameters
    ----------
    centroids : ndarray of shape (n_centroids, d)
        In the units of X. Of no rows, every test row is its own centroid.
    places : ndarray of shape (n_places, d)
        Where training rows are: each of them is within `radius` of one of these points, in the units of X.
    radius : float
        In lengthscales.
    n_targets : int
    max_memory_gib : float or None
        For the solved posteriors that are kept, in GiB.

    Attributes
    ----------
    features : KernelMap or None
    is_primal : bool
        Whether every posterior is a `WeightPosterior`.
    reach : float
        The distance from a centroid, in lengthscales, beyond which rows are left out.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, Algorithm 1.
    """

    features: KernelMap | None
    is_primal: bool
    reach: float

    # Targets that are combinations of those of another posterior, which has the factors.
    _combined: "tuple[LocalPosterior, Floats] | None" = None

    def __init__(
        self, centroids: Floats, places: Floats, radius: float, n_targets: int, max_memory_gib: float | None
    ) -> None:
        self.centroids, self.places, self.radius, self._n_targets = centroids, places, radius, n_targets
        self._limit = np.inf if max_memory_gib is None else max_memory_gib * 2**30
        self._solved: Cache[Solved] = Cache(self._limit)

    @abstractmethod
    def _around(self, index: int | None, centroid: Floats) -> Solved:
        """Solve around a centroid of shape (d,), with its number; None where a test row is its own."""

    @abstractmethod
    def _made_of(self) -> dict[str, Any]:
        """Return the arguments that make this posterior again."""

    def __getstate__(self) -> dict[str, Any]:
        if self._combined is None:
            return self._made_of()
        return dict(zip(("of", "combination"), self._combined, strict=True))

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "of" in state:
            vars(self).update(vars(state["of"].combined(state["combination"])))
        else:
            self.__init__(**state)  # type: ignore[misc]

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        other, (of, before) = super().combined(combination), self._combined or (self, None)
        other._combined = of, combination if before is None else before @ combination
        other._n_targets, other._solved = combination.shape[1], Cache(self._limit)
        return other

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:  # noqa: D102
        if not variance and self._n_targets == 1 and self.is_primal and len(self.centroids):
            projection = Projection(cast(KernelMap, self.features))
            if projection.by_halves:
                return self._means(X, projection)[:, None], None
        means, variances = np.empty((len(X), self._n_targets)), np.empty(len(X)) if variance else None

        def predict(posterior: Solved, centroid: Floats, part: Indices) -> None:
            means[part], of_part = posterior.predict(X.take(part, axis=0), variance)
            if variances is not None:
                variances[part] = of_part

        self._each(X, predict)
        return means, variances

    def _means(self, X: Floats, projection: Projection) -> Floats:
        """Return the means of rows for one target, of several centroids at a time: most have few rows."""
        means, runs, n_rows = np.empty(len(X)), [], RUN
        for cell in by_centroid(self.kernel, X, self.centroids):
            n_rows += len(cell[1])
            if n_rows > RUN:
                runs.append([cell])
                n_rows = len(cell[1])
            else:
                runs[-1].append(cell)

        def predict(run: list[tuple[int, Indices]]) -> None:
            weights = [cast(WeightPosterior, self._posterior(index)).weights[:, 0] for index, _ in run]
            sizes, members = [len(part) for _, part in run], np.concatenate([part for _, part in run])
            centres = self.centroids[[index for index, _ in run]].repeat(sizes, axis=0)
            rows = as_tensor(X.take(members, axis=0) - centres)
            of_rows = projection(rows, weights[0]) if len(run) == 1 else projection.of_groups(rows, weights, sizes)
            means[members] = of_rows.numpy()

        parallel_map(predict, runs)
        return means

    def surprise(self, X: Floats) -> Floats:  # noqa: D102
        return self._of_each(X, lambda posterior, _, part: posterior.surprise(X[part]), self._n_targets)

    def prior_variance(self, X: Floats) -> Floats:  # noqa: D102
        return self._of_each(X, lambda posterior, _, part: posterior.prior_variance(X[part]))

    def error(self, X: Floats) -> Floats:
        """Return what cutting the series of a Taylor map has cost, see `lmgp.posteriors.weights.expected_divergence`.

        How far a row is from where training rows are follows from `places` and `radius`.
        """
        beyond = KDTree(self.kernel.in_lengthscales(self.places)).query(self.kernel.in_lengthscales(X))[0] - self.radius
        return self._of_each(X, lambda posterior, _, part: posterior.error(X[part], beyond[part]), self._n_targets)

    def missing(self, X: Floats) -> Floats:
        """Return the prior variance that the map leaves out of each row and that its prediction has, shape (m,).

        Nothing is solved for that.
        """
        missing, features = np.zeros(len(X)), self.features
        if features is None or not self.is_primal or not self.noise.predicts_missing:
            return missing
        for index, members in by_centroid(self.kernel, X, self.centroids):
            rows = as_tensor(X[members] - self.centroids[index])
            left_out = features.missing_variance(rows, features.evaluate(rows))
            missing[members] = 0.0 if left_out is None else left_out.numpy()
        return missing

    def cure(self, X: Floats) -> str:  # noqa: D102
        sentences: list[str] = []
        self._each(X[:1], lambda posterior, *_: sentences.append(posterior.cure(X[:1])))
        return sentences[0]

    def without_each(self, rows: Rows) -> tuple[Floats, Floats]:
        """Predict some of the training rows, each without itself; the centroids and the map stay as they are."""
        means, variances = np.empty(rows.Y.shape), np.empty(len(rows))

        def predict(posterior: Solved, centroid: Floats, part: Indices) -> None:
            within = np.square(self.kernel.in_lengthscales(rows.X[part] - centroid)).sum(axis=1) <= self.reach**2
            members, others = part[within], part[~within]  # which make no part of the prediction
            if len(members):
                means[members], variances[members] = posterior.without_each(rows.take(members))
            if len(others):
                means[others], variances[others] = posterior.distribution(rows.X[others])

        self._each(rows.X, predict)
        return means, variances

    def _of_each(self, X: Floats, what: Callable[[Solved, Floats, Indices], Floats], *shape: int) -> Floats:
        """Return what the posterior that predicts each row says of it, shape (m, *shape)."""
        values = np.empty((len(X), *shape))

        def take(posterior: Solved, centroid: Floats, part: Indices) -> None:
            values[part] = what(posterior, centroid, part)

        self._each(X, take)
        return values

    def _each(self, X: Floats, use: Callable[[Solved, Floats, Indices], object]) -> None:
        """Hand each posterior, with its centroid, to a function, together with the rows of X that it is for."""
        are_own = not len(self.centroids)
        centroids = np.unique(X, axis=0) if are_own else self.centroids

        def use_one(cell: tuple[int, Indices]) -> None:
            index, members = cell
            posterior = self._solve(None, centroids[index]) if are_own else self._posterior(index)
            use(posterior, centroids[index], members)

        parallel_map(use_one, by_centroid(self.kernel, X, centroids))

    def _posterior(self, index: int) -> Solved:
        """Return the posterior around a centroid, solved once."""
        return self._solved.get(index, lambda: self._solve(index, self.centroids[index]))

    def _solve(self, index: int | None, centroid: Floats) -> Solved:
        if self._combined is None:
            return self._around(index, centroid)
        of, combination = self._combined
        return (of._solve(None, centroid) if index is None else of._posterior(index)).combined(combination)


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """What is frozen of posteriors around centroids that keep their rows: all but the rows.

    Attributes
    ----------
    kernel : Kernel
        With a metric, in which the nearest centroid and the reach are measured.
    noise : Noise
    features : KernelMap or None
        Fitted (`fitted_map`). Without one, the rows themselves make the posteriors.
    centroids : ndarray of shape (n_centroids, d)
        In the units of X. Of no rows, every test row is its own centroid.
    threshold : float or None
        In lengthscales: rows that come farther from all centroids get new ones. None where they get none.
    solver : {"primal", "dual", "auto"}
        By features, D × D; by rows, n × n; or, around each centroid, by the smaller of the two.
    reach : float
        In lengthscales; see `reach_of`.
    max_memory_gib : float or None
        For one posterior while it is solved, and for all that are kept, in GiB; the machine's memory if None.

    Raises
    ------
    InputError
        If the kernel has no metric, or has a map and not one prior variance for all rows.
    """

    kernel: Kernel
    noise: Noise
    features: KernelMap | None
    centroids: Floats
    threshold: float | None = None
    solver: Solver = "primal"
    reach: float = float("inf")
    max_memory_gib: float | None = None

    def __post_init__(self) -> None:
        require(self.kernel, "metric", "A model around centroids")
        if self.features is not None and self.solver != "dual":  # it maps differences to centroids
            require(self.kernel, "prior_variance", "A map around centroids")

    @property
    def name(self) -> str:
        """A name that plans of one map share."""
        return "" if self.features is None else self.features.identity[1]

    def posterior(self, rows: Rows) -> "RowsAround":
        """Return the posterior of rows around these centroids, which cover them."""
        return RowsAround(self, rows, self.centroids)

    def __call__(self, rows: Rows, start: Posterior | None = None) -> "RowsAround":
        """Return the posterior of rows that may need more centroids: centres of cubes of a lattice.

        Whatever the order of the rows, the centroids are the same. From a posterior of the first ones of the rows, it
        takes little time.
        """
        before, centroids, more = None, self.centroids, rows.X
        if isinstance(start, RowsAround) and np.array_equal(start.rows.X, rows.X[: start.n_rows]):
            before, centroids, more = start, start.centroids, rows.X[start.n_rows :]
        if self.threshold is not None and len(more):
            distance, _ = KDTree(self.kernel.in_lengthscales(self.centroids)).query(self.kernel.in_lengthscales(more))
            far, n = more[distance >= self.threshold], len(self.centroids)
            if len(far):
                lattice = Lattice(self.kernel.metric(more.shape[1]), self.threshold)
                opened = lattice.centres(np.unique(lattice.cells(far), axis=0))
                centroids = np.concatenate((self.centroids, np.unique(np.concatenate((centroids[n:], opened)), axis=0)))
        return RowsAround(self, rows, centroids, before)


class RowsAround(LocalPosterior):
    """The posteriors around centroids of the training rows within reach.

    Parameters
    ----------
    plan : LocalPlan
    rows : Rows
        With centred targets.
    centroids : ndarray of shape (n_centroids, d)
        Those of the plan, and further ones.
    before : RowsAround, optional
        Of the first ones of these rows: that makes those within reach known in less time.
    """

    _first: KDTree
    _n_first: int

    def __init__(self, plan: LocalPlan, rows: Rows, centroids: Floats, before: "RowsAround | None" = None) -> None:
        places, radius = (rows.X, 1.0) if plan.threshold is None else (centroids, plan.threshold)
        super().__init__(centroids, places, radius, rows.n_targets, plan.max_memory_gib)
        self.plan, self._rows, self.n_rows = plan, rows, len(rows)
        self.kernel, self.noise, self.features, self.reach = plan.kernel, plan.noise, plan.features, plan.reach
        self.is_primal = plan.features is not None and plan.solver == "primal"
        self._metric = self.kernel.checked(rows.X.shape[1]).metric(rows.X.shape[1])
        self._of_all_rows: Cache[ExactPosterior] = Cache(self._limit)
        if not np.isfinite(self.reach):
            return
        if before is not None and self.n_rows - before._n_first <= SHARE * before._n_first:
            self._first, self._n_first = before._first, before._n_first
        else:
            self._first, self._n_first = KDTree(self.kernel.in_lengthscales(rows.X)), self.n_rows
        self._rest = KDTree(rows.X[self._n_first :] / self._metric)

    def _made_of(self) -> dict[str, Any]:
        return {"plan": self.plan, "rows": self._rows, "centroids": self.centroids}

    def _around(self, index: int | None, centroid: Floats) -> Solved:
        rows, features, solver = self._rows_within_reach(centroid), self.features, self.plan.solver
        is_small = solver == "auto" and features is not None and len(rows) < features.n_features_out_
        if features is not None and solver != "dual" and not is_small:
            statistics = accumulate(features, rows, centroid, self.noise)
            posterior = WeightPosterior(features, centroid, self.kernel, statistics)
            if rows.measurements is not None:  # whose sum does not tell how many rows there are
                posterior.n_rows = len(rows)
            return posterior
        if len(rows) == self.n_rows:  # the same around every centroid
            return self._of_all_rows.get(self.n_rows, lambda: self._exact(self._rows))
        return self._exact(rows)

    def _exact(self, rows: Rows) -> ExactPosterior:
        return ExactPosterior(self.kernel, rows, self.noise, self.plan.max_memory_gib)

    def _rows_within_reach(self, centroid: Floats) -> Rows:
        if not np.isfinite(self.reach):
            return self._rows
        point = centroid / self._metric
        near, rest = (cast(Indices, rows_within(part, self.reach, point)) for part in (self._first, self._rest))
        return self._rows.take(np.concatenate((near, self._n_first + rest)))


def reach_of(features: KernelMap | None, kernel: Kernel, noise: Noise, rows: Rows, prune: float = PRUNE) -> float:
    """Return the distance from a centroid, in lengthscales, beyond which rows may be left out.

    Parameters
    ----------
    features : KernelMap or None
        Fitted. Maps without a degree reach every row; so do rows in place of a map.
    kernel : Kernel
    noise : Noise
    rows : Rows
        The training rows, with centred targets, and none but these.
    prune : float, default=1e-3
        Rows are left out as far as that changes no mean by more than this number of predictive standard deviations,
        and no standard deviation by more than this share. 0 keeps all rows.

    Notes
    -----
    A row at distance r from the centroid adds at most σ²Q(p + 1, r²) to ‖Φ‖²_F (in expectation for random maps). Let
    rows of less than εσ² each be left out. The Cauchy-Schwarz inequality in the norm of A⁻¹ bounds the change of the
    mean by √v (n √ε σ rms(y)/σ²_noise + n ε σ² ‖w‖/σ²_noise), with the norm of the weights ‖w‖ ≤ √n rms(y)/(2 σ_noise),
    and the relative change of the variance v by n ε σ²/σ²_noise. So ε = min{(τ σ²_noise/(2 n σ rms(y)))²,
    τ σ²_noise/(2 n σ²)} keeps both below τ = `prune`. That is of the model of the features: where the kernel itself of
    the rows within reach takes their place, nothing bounds the changes, and with little noise they are larger.
    """
    if features is None or not prune:
        return float("inf")
    return features.reach(negligible_share(rows, kernel, noise, prune))


def fitted_map(
    features: Any, kernel: Kernel, rows: Rows, centroids: Floats, rng: np.random.Generator,
    max_memory_gib: float | None = None,
) -> KernelMap:  # fmt: skip
    """Fit a map for use around centroids.

    Parameters
    ----------
    features : FeatureMap or scikit-learn transformer
        Cloned, and given the kernel and a seed where it has none.
    kernel : Kernel
    rows : Rows
    centroids : ndarray of shape (n_centroids, d)
        In the units of X. Where n_centroids is 0, each test row will be its own centroid, and random training rows
        stand for them while the map is fitted.
    rng : numpy.random.Generator
    max_memory_gib : float, optional
        For the matrices of a model with this map, in GiB; the machine's memory if not given.

    Returns
    -------
    KernelMap

    Raises
    ------
    MemoryLimitError
        If they take more; the map has not been made then.
    """
    fitted = make_feature_map(features, kernel, rng)
    check_model(fitted, len(rows), rows.X.shape[1], max_memory_gib)
    if not len(centroids):
        centroids = rng.permutation(distinct_places(rows.X)[0])[:STAND_INS]
    return fitted.fit_around(rows.X, centroids)
