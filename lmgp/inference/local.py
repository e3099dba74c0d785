"""Posteriors around centroids: a row is predicted by the model of its nearest centroid."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.features.adapter import make_feature_map
from lmgp.features.base import KernelMap
from lmgp.features.projection import Projection
from lmgp.inference.cache import Cache
from lmgp.inference.function_space import RowPosterior
from lmgp.inference.trend import TrendFit
from lmgp.inference.truncation import expected_divergence
from lmgp.inference.weight_space import (
    ColumnSums,
    WeightPosterior,
    accumulate,
    accumulate_columns,
    check_model,
    evaluate,
    prior_variance,
)
from lmgp.kernels.base import Kernel, require
from lmgp.locality.blocks import Neighbourhoods
from lmgp.locality.placement import by_centroid, negligible_share
from lmgp.locality.places import distinct_places
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.statistics import Statistics
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Solver = Literal["primal", "dual", "auto"]
Posterior = WeightPosterior | RowPosterior

# By how many predictive standard deviations leaving rows out may change a mean.
PRUNE = 1e-3

# Training rows that stand for test rows which are not known yet, when a map is fitted around its centroids.
STAND_INS = 500

# Rows whose means are computed at a time, of one centroid or of several.
RUN = 2**12

# The key of the posterior of all rows, beside the indices of the centroids.
ALL = "all rows"


def fitted_map(
    features: Any,
    kernel: Kernel,
    rows: Rows,
    centroids: Floats,
    rng: np.random.Generator,
    max_memory_gib: float | None = None,
) -> KernelMap:
    """Fit a map for use around centroids.

    Parameters
    ----------
    features : FeatureMap or scikit-learn transformer
        Cloned, and given the kernel and a seed where it has none.
    kernel : Kernel
    rows : Rows
    centroids : ndarray of shape (n_centroids, d)
        In the units of X. Of none, random rows stand for the test rows that will be their own centroids.
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
    made = make_feature_map(features, kernel, rng)
    check_model(made, len(rows.y), rows.X.shape[1], max_memory_gib)
    if not len(centroids):
        centroids = rng.permutation(distinct_places(rows.X)[0])[:STAND_INS]
    return made.fit_around(rows.X, centroids)


class LocalPosterior:
    """One posterior around each centroid, from the rows within its reach.

    A posterior is solved when the first row is predicted from it, by one thread, and kept within a memory limit. A
    copy or a pickle starts with none solved.

    Parameters
    ----------
    kernel : Kernel
        With a metric, in which the nearest centroid and the reach are measured.
    rows : Rows
        With y centred.
    noise : Noise
    centroids : ndarray of shape (n_centroids, d)
        In the units of X. Of no rows, every test row is its own centroid.
    features : KernelMap, optional
        Fitted (`fitted_map`). Without one, the rows themselves make the posteriors.
    solver : {"primal", "dual", "auto"}, default="primal"
        By features, D × D; by rows, n × n; or, around each centroid, by the smaller of the two.
    prune : float, default=1e-3
        Rows out of a centroid's reach are left out as far as that changes no mean by more than this number of
        predictive standard deviations, and no standard deviation by more than this share. 0 keeps all rows. Maps
        without a degree reach every row.
    max_memory_gib : float, optional
        For one posterior while it is solved, and for all that are kept, in GiB. The machine's memory if not given.
    neighbourhoods : Neighbourhoods or JoinedNeighbourhoods, optional
        Of the rows in the kernel's metric, where they are made already.
    trend : TrendFit, optional
        Of which y are the residuals. Means are less the trend. Variances have its uncertainty, by what each posterior
        makes of the columns of the trend.
    reach : float, optional
        In place of that which follows from `prune`.

    Attributes
    ----------
    reach : float
        The distance from a centroid, in lengthscales, beyond which rows are left out.
    kernel, noise, centroids, features, trend
        As given.

    Notes
    -----
    A row at distance r from the centroid adds at most σ²Q(p + 1, r²) to ‖Φ‖²_F (in expectation for random maps). Let
    rows of less than εσ² each be left out. The Cauchy-Schwarz inequality in the norm of A⁻¹ bounds the change of the
    mean by √v (n √ε σ rms(y)/σ²_noise + n ε σ² ‖w‖/σ²_noise), with the norm of the weights ‖w‖ ≤ √n rms(y)/(2 σ_noise),
    and the relative change of the variance v by n ε σ²/σ²_noise. So ε = min{(τ σ²_noise/(2 n σ rms(y)))²,
    τ σ²_noise/(2 n σ²)} keeps both below τ = `prune`.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, Algorithm 1.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        noise: Noise,
        centroids: Floats,
        *,
        features: KernelMap | None = None,
        solver: Solver = "primal",
        prune: float = PRUNE,
        max_memory_gib: float | None = None,
        neighbourhoods: Any = None,
        trend: TrendFit | None = None,
        reach: float | None = None,
    ) -> None:
        require(kernel, "metric", "A model around centroids")
        self._metric = kernel.checked(rows.X.shape[1]).metric(rows.X.shape[1])
        self.kernel, self.noise, self.centroids, self.features, self.trend = kernel, noise, centroids, features, trend
        self.reach = float("inf")
        if reach is not None:
            self.reach = reach
        elif features is not None and prune:
            self.reach = features.reach(negligible_share(rows, kernel, noise, prune))
        self._rows, self._solver, self._max_memory_gib = rows, solver, max_memory_gib
        if neighbourhoods is None and np.isfinite(self.reach):
            neighbourhoods = Neighbourhoods(kernel.scale(rows.X))
        self._neighbourhoods = neighbourhoods
        self._solved: Cache[Posterior] = Cache(np.inf if max_memory_gib is None else max_memory_gib * 2**30)

    @property
    def rows(self) -> Rows:
        """The training rows, with y less the trend."""
        rows, trend = self._rows, self.trend
        if trend is None:
            return rows
        return Rows(rows.X, rows.y - trend.changes(rows.X), rows.weights, rows.noise_variances)

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict the latent function.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        variance : bool, default=True
            Whether to compute variances; the mean alone takes a small part of the time.

        Returns
        -------
        mean : ndarray of shape (n,)
        variance : ndarray of shape (n,) or None
        """
        mean, found = np.empty(len(X)), np.empty(len(X))
        projection = None if variance or self.features is None else Projection(self.features)
        if projection is not None and projection.by_halves and self._solver == "primal" and len(self.centroids):
            return self._means(X, projection), None

        def predict(posterior: Posterior, centroid: Floats, part: Indices) -> None:
            rows = X.take(part, axis=0)
            if isinstance(posterior, RowPosterior):
                of_part = posterior.predict(rows, variance)
            else:
                assert self.features is not None  # for the type checker: there are no weights without a map
                of_part = evaluate(posterior, self.features, rows, centroid, self.noise, variance, projection)
            mean[part] = of_part[0]
            if of_part[1] is not None:
                found[part] = of_part[1]

        self.use_posteriors(X, predict)
        return mean, found if variance else None

    def _means(self, X: Floats, projection: Projection) -> Floats:
        """Return the means of rows, of several centroids at a time: most have few rows."""
        mean, runs, n_rows = np.empty(len(X)), [], RUN
        for cell in by_centroid(self.kernel, X, self.centroids):
            n_rows += len(cell[1])
            if n_rows > RUN:
                runs.append([cell])
                n_rows = len(cell[1])
            else:
                runs[-1].append(cell)

        def predict(run: list[tuple[int, Indices]]) -> None:
            weights = [
                posterior.weights
                for index, _ in run
                if isinstance(posterior := self._posterior(index), WeightPosterior)
            ]
            sizes, members = [len(part) for _, part in run], np.concatenate([part for _, part in run])
            centres = self.centroids[[index for index, _ in run]].repeat(sizes, axis=0)
            rows = as_tensor(X.take(members, axis=0) - centres)
            found = projection(rows, weights[0]) if len(run) == 1 else projection.of_groups(rows, weights, sizes)
            mean[members] = found.numpy()

        parallel_map(predict, runs)
        return mean

    def expected_divergence(self, X: Floats, beyond: Floats) -> Floats:
        """Estimate the divergence of the predictions from the exact ones, see `lmgp.inference.truncation`.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        beyond : ndarray of shape (n,)
            How far each row is from where training rows are, in lengthscales; negative among them.

        Returns
        -------
        ndarray of shape (n,)
            KL(this prediction ‖ exact prediction), with noise, in nats.
        """
        error = np.zeros(len(X))

        def estimate(posterior: Posterior, centroid: Floats, part: Indices) -> None:
            if isinstance(posterior, WeightPosterior) and self.features is not None:
                error[part] = expected_divergence(
                    posterior, self.features, X[part] - centroid, beyond[part], self.noise
                )

        self.use_posteriors(X, estimate)
        return error

    def expectations(self, X: Floats) -> tuple[Floats, Floats]:
        """Return what the posterior that predicts a row expected of it, and of its training rows.

        Parameters
        ----------
        X : ndarray of shape (n, d)

        Returns
        -------
        prior : ndarray of shape (n,)
            The prior variance.
        surprise : ndarray of shape (n,)
            yᵀC⁻¹y/m of the m training rows with covariance C: 1 ± √(2/m) where they are as expected.
        """
        prior, surprise = np.empty(len(X)), np.empty(len(X))

        def look(posterior: Posterior, centroid: Floats, part: Indices) -> None:
            features = self.features if isinstance(posterior, WeightPosterior) else None
            prior[part] = prior_variance(features, self.kernel, X[part], centroid)
            surprise[part] = posterior.surprise

        self.use_posteriors(X, look)
        return prior, surprise

    def missing(self, X: Floats) -> Floats:
        """Return the prior variance that is added to each row's prediction, without solving anything; shape (n,)."""
        missing = np.zeros(len(X))
        if not self.noise.predicts_missing:
            return missing
        for index, members in by_centroid(self.kernel, X, self.centroids):
            centroid = self.centroids[index]
            features = self._map_for(len(self._rows.y[self._within_reach(centroid)]))
            if features is not None:
                rows = as_tensor(X[members] - centroid)
                left_out = features.missing_variance(rows, features.evaluate(rows))
                missing[members] = 0.0 if left_out is None else left_out.numpy()
        return missing

    def use_posteriors(self, X: Floats, use: Callable[[Posterior, Floats, Indices], None]) -> None:
        """Hand each posterior, with its centroid, to a function, together with the rows of X that it is for."""
        self.use_centroids(X, lambda posterior, _, centroid, members: use(posterior, centroid, members))

    def use_centroids(self, X: Floats, use: Callable[[Posterior, int | None, Floats, Indices], None]) -> None:
        """Do the same, and hand the number of the centroid too; None where every row of X is its own."""
        keep = len(self.centroids) > 0
        centroids = self.centroids if keep else np.unique(X, axis=0)

        def use_one(task: tuple[int, Indices]) -> None:
            index, members = task
            if keep:
                use(self._posterior(index), index, centroids[index], members)
            else:
                use(self._solve(centroids[index]), None, centroids[index], members)

        parallel_map(use_one, by_centroid(self.kernel, X, centroids))

    def _posterior(self, index: int) -> Posterior:
        """Return the posterior around a centroid, solved once."""
        return self._solved.get(index, lambda: self._solve(self.centroids[index]))

    def statistics(self, centroid: Floats) -> Statistics:
        """Sum the statistics of the map around a centroid, over the rows within reach.

        Parameters
        ----------
        centroid : ndarray of shape (d,)

        Returns
        -------
        Statistics
        """
        return self._sum(centroid, self._rows.take(self._within_reach(centroid)))

    def _sum(self, centroid: Floats, rows: Rows) -> Statistics:
        if self.features is None:
            raise InputError("A model of rows in place of features has no statistics of features.")
        return accumulate(self.features, rows, centroid, self.noise, origin=0.0)

    def _sum_columns(self, centroid: Floats, rows: Rows) -> ColumnSums | None:
        if self.features is None or self.trend is None:
            return None
        return accumulate_columns(self.features, rows, centroid, self.noise, self.trend)

    @property
    def given(self) -> Rows:
        """The training rows as they were given: of a trend, with the residuals of its least-squares fit."""
        return self._rows

    def of(self, rows: Rows, centroids: Floats, neighbourhoods: Any = None, trend: TrendFit | None = None) -> Self:
        """Return the posteriors of other rows around other centroids, with kernel, noise, map and reach as they are."""
        return type(self)(
            self.kernel, rows, self.noise, centroids, features=self.features, solver=self._solver,
            max_memory_gib=self._max_memory_gib, neighbourhoods=neighbourhoods, trend=trend, reach=self.reach,
        )  # fmt: skip

    def rows_around(self, centroid: Floats, targets: Floats) -> Rows:
        """Return the rows within reach of a centroid, with other targets, shape (n, t)."""
        given = self._rows
        return replace(given, y=targets).take(self._within_reach(centroid))

    @property
    def limit(self) -> float:
        """The memory of all solved posteriors that are kept, in bytes."""
        return self._solved.limit

    @property
    def neighbourhoods(self) -> Any:
        """Where the rows are; None where all are in reach."""
        return self._neighbourhoods

    def _solve(self, centroid: Floats) -> Posterior:
        rows = self._rows.take(self._within_reach(centroid))
        if self._map_for(len(rows.y)) is not None:
            return WeightPosterior(self._sum(centroid, rows), 0.0, self._sum_columns(centroid, rows))
        if len(rows.y) == len(self._rows.y):
            # The exact GP of all rows is the same around every centroid.
            return self._solved.get(ALL, lambda: self._of_rows(self._rows))
        return self._of_rows(rows)

    def _of_rows(self, rows: Rows) -> RowPosterior:
        return RowPosterior(self.kernel, rows, self.noise, self._max_memory_gib, self.trend)

    def _within_reach(self, centroid: Floats) -> Indices | slice:
        if self._neighbourhoods is None:
            return slice(None)
        found: Indices | slice = self._neighbourhoods.within(self.reach, centroid / self._metric)
        return found

    def _map_for(self, n: int) -> KernelMap | None:
        """Return the map by which n rows within reach are solved; None where they are solved as rows."""
        features = self.features
        if features is None or self._solver == "dual" or (self._solver == "auto" and n < features.n_features_out_):
            return None
        return features
