"""The fitted state of a localized model, with rows that are kept or summed, and what becomes of it with other rows."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.features.base import KernelMap
from lmgp.inference.additive import keeps_rows
from lmgp.inference.local import LocalPosterior
from lmgp.inference.local_rows import joined_neighbourhoods, opened, shifted, without
from lmgp.inference.local_sums import MOST_COLUMNS, LocalPlan, LocalSums
from lmgp.inference.nearest import NearestPosterior
from lmgp.inference.trend import TrendFit
from lmgp.io.summary import Summary
from lmgp.locality.blocks import Neighbourhoods
from lmgp.models.base import GPFit
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Keys = NDArray[np.int64]

NO_ROW = "No row would be left. A model needs at least one: fit another one instead."
ONE_START = "Models with the same first rows merge: those of one are the other's with_rows. Make the other one so."


@dataclass(frozen=True, eq=False)
class LocalizedState(GPFit):
    """The fitted state of a localized model, and what becomes of it with other rows.

    Attributes
    ----------
    posterior : LocalPosterior or NearestPosterior
    features : KernelMap or None
        Fitted; None where rows take its place.
    centroids : ndarray of shape (n_centroids, d)
        In the units of X; of no rows where every test row is its own.
    reach : float
        In lengthscales.
    places : ndarray of shape (n_places, d)
        Where training rows are: each of them is within `radius` of one of these points, in the units of X.
    radius : float
        In lengthscales.
    threshold : float or None
        In lengthscales: rows that come farther from all centroids get new ones. None where centroids were given.
    first : ndarray of shape (n_centroids, d) or None
        The centroids of the first rows; None before more come.
    summary : Summary or None
        Of the rows that are kept, with y less the center; None before more come.
    plan : LocalPlan or None
        How rows are summed that are not kept.
    sums : LocalSums or None
        Of these rows.
    """

    posterior: LocalPosterior | NearestPosterior
    features: KernelMap | None
    centroids: Floats
    reach: float
    places: Floats
    radius: float
    threshold: float | None = None
    first: Floats | None = None
    summary: Summary | None = None
    plan: LocalPlan | None = None
    sums: LocalSums | None = None

    # Rows of chunks are summed when there are as many.
    least_rows: ClassVar[int] = 2**12

    @property
    def covers(self) -> bool:
        """Whether a pass is needed that says where all rows are."""
        plan = self._planned()
        return plan.given is None and len(plan.lattice.metric) > MOST_COLUMNS

    def _planned(self) -> LocalPlan:
        assert self.plan is not None  # of a stream
        return self.plan

    def places_of(self, rows: Rows) -> Keys:
        """Return the cubes of rows, each once."""
        return np.unique(self._planned().lattice.cells(rows.X), axis=0)

    def covering(self, places: Keys) -> Self:
        """Return the state that knows of rows in these cubes."""
        return replace(self, plan=self._planned().seeing(places))

    def summing(self) -> Self:
        """Return what it takes to sum rows.

        Raises
        ------
        InputError
            If the model keeps its rows.
        """
        if self.plan is None:
            raise keeps_rows()
        none: Any = None
        return replace(self, posterior=none, sums=None, centroids=self.centroids[:0], places=self.places[:0])

    def added(self, sums: LocalSums, sign: float) -> Self:
        """Return the state with more sums, or without some."""
        assert self.sums is not None  # once there are rows
        return self.with_sums(self.sums.merge(sums, sign))

    def sums_of(self, rows: Rows) -> LocalSums:
        """Return the sums over rows, with y as it is."""
        return self._planned().sums_of(rows)

    def with_sums(self, sums: LocalSums) -> Self:
        """Return the state of the rows of these sums."""
        plan, summary = self._planned(), sums.summary
        if summary.n <= 0.0:
            raise InputError(NO_ROW)
        center = plan.origin if self.center_given else plan.origin + summary.weighted / summary.n
        posterior = plan.posterior(sums, center)
        return replace(
            self, center=center, farthest_target=summary.farthest(center - plan.origin), column_scales=summary.scales,
            posterior=posterior, centroids=posterior.centroids, places=posterior.centroids, sums=sums,
        )  # fmt: skip

    def joined(self, rows: Rows, sign: float) -> Self:
        """Return the state with more rows, or without some."""
        if self.plan is not None:
            return self.added(self.sums_of(rows), sign)
        return self._with_more(self._less(rows), sign)

    def of_rows(self, rows: Rows) -> Self:
        """Return the state of these rows alone."""
        if self.plan is not None:
            return self.with_sums(self.sums_of(rows))
        none = self._kept().given.take(slice(0))
        empty = replace(self, posterior=self._kept().of(none, self.centroids[:0], Neighbourhoods(none.X)), summary=None)
        return empty._with_more(self._less(rows), 1.0)

    def merged(self, other: Self) -> Self:
        """Return the state of the rows of both."""
        if _name(self.features) != _name(other.features) or self.noise_variance != other.noise_variance:
            what = "map" if self.noise_variance == other.noise_variance else "noise variance"
            raise InputError(f"Models of one {what} merge; these differ in it. {ONE_START}")
        if other.plan is None:
            theirs = other._kept().given
            return self.joined(replace(theirs, y=theirs.y + other._taken_off(theirs.X)), 1.0)
        if self.plan is None:
            raise InputError(
                "A model that keeps its rows gets no sums of rows that are not kept. Merge the other way round: the "
                "model of the stream takes the rows of this one."
            )
        assert self.sums is not None  # once there are rows
        assert other.sums is not None
        if (self.plan.origin, self.plan.reach) != (other.plan.origin, other.plan.reach):
            raise InputError(ONE_START)
        return self.with_sums(self.sums.merge(other.sums))

    def _kept(self) -> LocalPosterior:
        if not isinstance(self.posterior, LocalPosterior):
            raise InputError(
                "A model of the nearest rows, without a map, takes no rows later. Use SpectralGPRegressor, give "
                "features, or fit again to all rows."
            )
        return self.posterior

    def _taken_off(self, X: Floats) -> Floats | float:
        """Return what the targets of kept rows are less of."""
        return self.center if self.trend is None else self.center + self.trend.least_squares(X)

    def _less(self, rows: Rows) -> Rows:
        return replace(rows, y=rows.y - self._taken_off(rows.X))

    def _with_more(self, more: Rows, sign: float) -> Self:
        """Return the state with more of the rows that are kept, or without some; y as that of those."""
        kept = self._kept()
        before, noise = kept.given, self.noise_variance
        if sign < 0.0:
            rows = before.take(without(before, more, noise))
            if not len(rows.y):
                raise InputError(NO_ROW)
            summary, neighbourhoods = self._summary_of(rows), None
        else:
            rows, summary = before.joined(more, noise), self._summary_of(more)
            known = self.summary
            if known is None and len(before.y):
                known = self._summary_of(before)
            summary = summary if known is None else known.combine(summary)
            neighbourhoods = self._joined_neighbourhoods(len(before.y), rows)
        change = 0.0 if self.center_given else summary.weighted / summary.n
        summary = replace(summary, weighted=0.0)
        trend = self.trend
        if trend is None:
            rows = shifted(rows, change)
            summary = replace(summary, least=summary.least - change, most=summary.most - change)
        else:
            start = trend.start.copy()
            start[0] -= change
            trend = replace(trend, start=start)
        first, centroids = self._centroids_of(rows, more if sign > 0.0 and len(before.y) else None)
        estimated = trend if isinstance(trend, TrendFit) else None
        return replace(
            self, center=self.center + change, farthest_target=summary.farthest(0.0), column_scales=summary.scales,
            trend=trend, posterior=kept.of(rows, centroids, neighbourhoods, estimated), centroids=centroids,
            places=rows.X if self.threshold is None else centroids, first=first, summary=summary,
        )  # fmt: skip

    def _summary_of(self, rows: Rows) -> Summary:
        """Summarise rows with y as that of kept rows."""
        if self.trend is None:
            return Summary.of(rows)
        return Summary.of(replace(rows, y=rows.y + self.trend.least_squares(rows.X)), rows.y)

    def _joined_neighbourhoods(self, n_before: int, rows: Rows) -> Any:
        before = self._kept().neighbourhoods
        if before is None:
            return None
        return joined_neighbourhoods(before if n_before else None, n_before, rows.X, self.kernel.scale)

    def _centroids_of(self, rows: Rows, more: Rows | None) -> tuple[Floats, Floats]:
        """Return the first centroids, and those of all rows, of which only the last ones may be `more`."""
        first = self.centroids if self.first is None else self.first
        if self.threshold is None:
            return first, self.centroids
        if more is None:
            return first, np.concatenate((first, opened(self.kernel, rows.X, first, self.threshold)))
        found = opened(self.kernel, more.X, first, self.threshold)
        if not len(found):
            return first, self.centroids
        found = np.unique(np.concatenate((self.centroids[len(first) :], found)), axis=0)
        return first, np.concatenate((first, found))


def _name(features: KernelMap | None) -> str:
    """Return a name that equal fitted maps share."""
    return "" if features is None else f"{type(features).__name__} {features.record_.digest}"
