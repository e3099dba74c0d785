"""Rows that are kept, one after another or in search trees: the sums of what has no sums."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from lmgp.data import ROUNDING, Floats, Indices, Noise, Rows, Summary, TargetSums, not_there
from lmgp.errors import InputError
from lmgp.neighbours.forest import Forest
from lmgp.neighbours.trees import tree_points
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.local import LocalPlan
from lmgp.posteriors.nearest import NearestPlan
from lmgp.posteriors.residual import ResidualPlan
from lmgp.sums.base import Sums, combined

ONE_START = "Models with the same first rows merge: those of one are the other's with_rows. Make the other one so."

# Points that differ by this share of their size differ by rounding.
ROUNDING_OF_POINTS = 1e-12


@dataclass(frozen=True, eq=False)
class RowSums(Sums):
    """Rows themselves, and how a posterior is made of them.

    Attributes
    ----------
    noise : Noise
    plan : LocalPlan
        How a posterior is made of rows.
    rows : Rows
        Those kept so far.
    """

    noise: Noise
    plan: LocalPlan
    rows: Rows

    uses_start: ClassVar[bool] = True
    keeps_rows: ClassVar = True

    @classmethod
    def over(cls, noise: Noise, plan: LocalPlan, rows: Rows) -> Self:
        """Keep rows, and how posteriors are made of them."""
        return cls(TargetSums.zeros(rows.n_targets), None, None, noise, plan, rows.take(slice(0))).of(rows)

    def empty(self) -> Self:  # noqa: D102
        return replace(super().empty(), rows=self.rows.take(slice(0)))

    def of(self, rows: Rows) -> Self:  # noqa: D102
        summary = Summary.of(rows) if len(rows) else None
        return replace(self, targets=TargetSums.of(rows, self.noise)[0], summary=summary, waiting=None, rows=rows)

    def latest(self, n: int) -> Self:  # noqa: D102
        return self.of(self.rows.take(slice(max(0, len(self.rows) - n), None)))

    def combine(self, other: Self, sign: float) -> Self:
        """Return the rows of both, or those without the others.

        Raises
        ------
        InputError
            If the others are not kept, or of another map or noise; or if one of them that is to be taken out is not
            among the rows. It names the first one.
        """
        kept = other.rows if isinstance(other, RowSums) else None
        if kept is not None and (self.noise != other.noise or self.plan.name != other.plan.name):
            what = "map" if self.noise == other.noise else "noise variance"
            raise InputError(f"Models of one {what} merge; these differ in it. {ONE_START}")
        rows = combined_rows(self.rows, kept, sign, self.noise_variance)
        if sign < 0.0:
            return self.of(rows)
        if self.summary is None or other.summary is None:
            return other if self.summary is None else self
        targets, summary = self.targets.combine(other.targets), self.summary.combine(other.summary)
        return replace(self, targets=targets, summary=summary, rows=rows)

    def posterior(self, combination: Floats, start: Posterior | None = None) -> Posterior:  # noqa: D102
        rows = self.settled.rows
        return self.plan(rows.with_targets(rows.Y @ combination), start)


def combined_rows(rows: Rows, others: Rows | None, sign: float, noise_variance: float) -> Rows:
    """Return rows and others, or with sign −1 rows without the others, each once.

    Raises
    ------
    InputError
        If the others are not kept, or one of them that is to be taken out is not among the rows.
    """
    if others is None:
        raise InputError(
            "A model that keeps its rows gets no sums of rows that are not kept. Merge the other way round: the model "
            "of the stream takes the rows of this one."
        )
    if sign > 0.0:
        return rows.joined(others, noise_variance)
    return rows.take(rows_that_stay(rows, others, noise_variance))


def rows_that_stay(rows: Rows, others: Rows, noise_variance: float) -> NDArray[np.bool_]:
    """Say which rows stay when others are taken out, each once, shape (n,)."""
    keys, wanted = (_keys(part, noise_variance) for part in (rows, others))
    (candidates,) = np.nonzero(np.isin(keys, wanted))
    places: dict[bytes, list[int]] = {}
    for i in candidates.tolist():
        places.setdefault(keys[i].tobytes(), []).append(i)
    stay = np.ones(len(rows), dtype=np.bool_)
    # They were less of the same origin, which may have been rounded in other ways.
    tolerance = ROUNDING * np.maximum(*(np.abs(part.Y).max(axis=0, initial=0.0) for part in (rows, others)))
    for number, (key, y) in enumerate(zip(wanted, others.Y, strict=True)):
        equal = places.get(key.tobytes(), [])
        apart = np.abs(rows.Y[equal] - y)
        nearest = int(apart.max(axis=1).argmin()) if equal else -1
        if not equal or np.any(apart[nearest] > tolerance):
            raise not_there(f"row {number}, {others.X[number].tolist()}, is not, or not as often, with this y")
        stay[equal.pop(nearest)] = False
    return stay


def _keys(rows: Rows, noise_variance: float) -> NDArray[Any]:
    """Return the bytes of each row but for its targets."""
    n = len(rows)
    weights = rows.weights if rows.measurements is None else rows.measurements  # those of a robust fit are its own
    weights = np.ones(n) if weights is None else weights
    noises = np.full(n, noise_variance) if rows.noise_variances is None else rows.noise_variances
    whole = np.ascontiguousarray(np.column_stack((rows.X, weights, noises)) + 0.0)  # no negative zeros
    return whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()


@dataclass(frozen=True, eq=False)
class NearestSums(Sums):
    """Rows in search trees, and how a posterior is made of them.

    Attributes
    ----------
    plan : NearestPlan or ResidualPlan
    forest : Forest
    """

    plan: NearestPlan | ResidualPlan
    forest: Forest

    are_quick: ClassVar[bool] = True

    @classmethod
    def over(cls, plan: NearestPlan | ResidualPlan, rows: Rows) -> Self:
        """Keep rows, which may be none, in one tree."""
        none = TargetSums.zeros(rows.n_targets)
        return cls(none, None, None, plan, plan.forest(rows.take(slice(0)))).of(rows)

    @property
    def noise_variance(self) -> float:  # noqa: D102
        return self.forest.noise_variance

    @property
    def rows(self) -> Rows:
        """The rows, in the order in which they came."""
        return self.forest.rows

    def empty(self) -> Self:  # noqa: D102
        return self.of(self.forest.none)

    def of(self, rows: Rows) -> Self:  # noqa: D102
        targets, summary = TargetSums.of(rows, Noise(self.noise_variance))[0], Summary.of(rows) if len(rows) else None
        return replace(self, targets=targets, summary=summary, waiting=None, forest=self.forest.of_rows(rows))

    def combine(self, other: Self, sign: float) -> Self:
        """Return the rows of both, or those without the others, each once.

        Raises
        ------
        InputError
            If the others are of another plan, or if one of them that is to be taken out is not among the rows. It names
            the first one.
        """
        if not isinstance(other, NearestSums) or self.plan.name != other.plan.name:
            raise InputError(f"Models of {self.plan.merged} merge. {ONE_START}")
        if sign < 0.0:
            return self._without(self._places_of(other.rows))
        targets, summary = self.targets.combine(other.targets), combined(self.summary, other.summary)
        return replace(self, targets=targets, summary=summary, forest=self.forest + other.forest)

    def latest(self, n: int) -> Self:  # noqa: D102
        places = self.forest.oldest(max(0, len(self.forest) - n))
        return self._without(places) if len(places) else self

    def _without(self, places: Indices) -> Self:
        """Return these sums without the rows at some places, with the weights that these have here."""
        gone = self.forest.take(places)
        targets = self.targets.combine(TargetSums.of(gone, Noise(self.noise_variance))[0], -1.0)
        summary = combined(self.summary, Summary.of(gone), -1.0)
        return replace(self, targets=targets, summary=summary, forest=self.forest.without(places))

    def _places_of(self, rows: Rows) -> Indices:
        """Return the places at which rows are, each once.

        Raises
        ------
        InputError
            If one of them is nowhere.
        """
        points = tree_points(self.forest.kernel, rows.X)
        near = [self.forest.within(point, ROUNDING_OF_POINTS * (1.0 + np.abs(point).max())) for point in points]
        places = np.unique(np.concatenate(near))
        return places[~rows_that_stay(self.forest.take(places), rows, self.noise_variance)]

    def posterior(self, combination: Floats, start: Posterior | None = None) -> Posterior:  # noqa: D102
        return self.plan(self.settled.forest, combination)
