"""What can be chosen: one choice, and families of choices that differ in their size."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from sklearn.base import TransformerMixin

from lmgp.inference.local import Solver
from lmgp.noise import Approximation


@dataclass(frozen=True, eq=False)
class Choice:
    """What a model consists of.

    Without `features`, the model is the exact GP: of the nearest rows if `n_neighbors` is given, else of all rows.

    Attributes
    ----------
    method : str
        The name of its method.
    size : int
        The number of columns asked for; of a model without features, the number of rows.
    features : TransformerMixin or None
        The unfitted map.
    threshold : float or None
        In lengthscales, of a localized model; None where one model serves all rows.
    approximation : {"dtc", "sor", "fitc"}
        What becomes of the variance that the map leaves out.
    n_neighbors : int or None
        The number of nearest rows from which each row is predicted.
    """

    method: str
    size: int
    features: TransformerMixin | None
    threshold: float | None
    approximation: Approximation
    n_neighbors: int | None = None

    @property
    def solver(self) -> Solver:
        """How a model is solved: by features, by rows, or around each centroid by the smaller number of the two."""
        if self.features is None:
            return "dual"
        return "primal" if self.threshold is None else "auto"


class Candidate(NamedTuple):
    """A choice, and the seconds that the cost model expects of it.

    Attributes
    ----------
    choice : Choice
    seconds : float
        Of fitting it to all rows, and predicting as many as the user will.
    trial_seconds : float
        Of fitting it to all rows but the probes, and predicting these.
    """

    choice: Choice
    seconds: float
    trial_seconds: float = 0.0


@dataclass
class Family:
    """Candidates that differ in their size, and what is known of them.

    Attributes
    ----------
    candidates : list of Candidate
        In ascending order of size.
    power : float
        The divergence is assumed to fall no faster than size^(−power).
    rival : Family or None
        Another family of the same sizes and costs. Of the two, the one with the larger divergence at the largest size
        that both have tried is given up.
    seen : dict of int to (float, bool)
        By size: the divergence, and whether it was measured. Where it was not, it is a lower bound.
    """

    candidates: list[Candidate]
    power: float
    rival: "Family | None" = None
    seen: dict[int, tuple[float, bool]] = field(default_factory=dict)

    @property
    def least(self) -> float:
        """The least divergence that the largest candidate can have.

        It falls no faster than `power` allows, and its power of the size no more than doubles with the size. The
        divergence of a map that converges geometrically in the size is exp(−c · size): its power does double.
        """
        if not self.seen:
            return 0.0
        sizes = sorted(self.seen)
        divergence = self.seen[sizes[-1]][0]
        doublings = math.log2(self.candidates[-1].choice.size / sizes[-1])
        powers = [
            math.log2(self.seen[before][0] / self.seen[after][0]) / math.log2(after / before)
            for before, after in pairwise(sizes)
            # A lower bound and a divergence cannot be compared.
            if self.seen[before][1] == self.seen[after][1] and min(self.seen[before][0], self.seen[after][0]) > 0.0
        ]
        least_power = max(1.0, *powers) if powers else math.inf
        growth = 2.0 ** (doublings + 1.0) - 2.0  # 2 + 4 + 8 + …, one for each doubling
        fall = min(self.power * doublings, least_power * growth if growth > 0.0 else 0.0)
        return divergence * 2.0**-fall

    @property
    def behind(self) -> bool:
        """Whether the rival has the smaller divergence."""
        rivals = {} if self.rival is None else self.rival.seen
        common = [size for size in self.seen if size in rivals and rivals[size][1]]
        return bool(common) and rivals[max(common)][0] < self.seen[max(common)][0]
