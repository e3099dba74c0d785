"""Rows in search trees: the sums of models that take nearest rows, to which rows are added in little time."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from lmgp.data import Floats, Indices, Noise, Rows, Summary, TargetSums
from lmgp.errors import InputError
from lmgp.neighbours.forest import Forest
from lmgp.neighbours.trees import tree_points
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.nearest import NearestPlan
from lmgp.posteriors.residual import ResidualPlan
from lmgp.sums.base import Sums, combined
from lmgp.sums.kept import ONE_START, rows_that_stay

# Points that differ by this share of their size differ by rounding.
ROUNDING_OF_POINTS = 1e-12


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
        near = [self.forest.within(one, ROUNDING_OF_POINTS * (1.0 + np.abs(one).max())) for one in points]
        places = np.unique(np.concatenate(near))
        return places[~rows_that_stay(self.forest.take(places), rows, self.noise_variance)]

    def posterior(self, combination: Floats, start: Posterior | None = None) -> Posterior:  # noqa: D102
        return self.plan(self.settled.forest, combination)
