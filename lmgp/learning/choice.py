"""The choice between the optima of a search: how well they predict rows that were left out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Rows
from lmgp.learning.heldout import HeldOut
from lmgp.learning.search import Found, Search

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
# Of the rows that were left out at random, and of the neighbourhoods.
Densities = list[Floats]


@dataclass(frozen=True)
class Rule:
    """How the choice is made.

    Attributes
    ----------
    standard_errors, behind : float
        The exact likelihood decides between kernels that predict held-out rows within this number of standard errors of
        the best, and within this number of nats a row.
    doublings : int
        The noise is doubled at most this number of times, see `Choice.best`.
    worth_doubling : float
        In nats a held-out row.
    n_worst, every : int
        The rows on which a doubled noise is tried first: those with the least densities, which gain most, and of the
        others one in this number. Mostly they tell that it does not pay.
    """

    standard_errors: float = 2.0
    behind: float = 0.05
    doublings: int = 6
    worth_doubling: float = 0.002
    n_worst: int = 100
    every: int = 6


RULE = Rule()


@dataclass
class Choice:
    """Chooses between kernels by rows that were left out.

    Parameters
    ----------
    search : Search
        Of the rows that the first of `held_out` did not leave out. Its lines get the densities.
    held_out : sequence of HeldOut
        See `HeldOut.several`.
    sample : Rows or None
        Whose exact likelihood decides between kernels that predict equally well; None: the best is taken.
    """

    search: Search
    held_out: Sequence[HeldOut]
    sample: Rows | None

    def best(self, candidates: Sequence[Found]) -> Found:
        """Return the candidate that predicts held-out rows best; of those that nearly do, the likeliest.

        A learned noise is doubled first as long as held-out rows are predicted better: near-copies drive it to zero.
        """
        scored = [self._steadied(*self._scored(one)) for one in candidates]
        best, of_best = max(scored, key=lambda pair: _mean(pair[1]))
        near = [(one, of) for one, of in scored if _level(of_best, of)]
        if len(near) == 1 or self.sample is None:
            return best
        left = self.search.not_far_behind([one for one, _ in near], self.sample)
        if len(left) == 1:
            return left[0]
        near = [(one, of) for one, of in near if any(one is other for other in left)]
        likely = [self._noted(self.search.exact_value(one, self.sample), of) for one, of in near]
        self.search.trials += likely
        return max(zip(near, likely, strict=True), key=lambda pair: pair[1].worth)[0][0]

    def _steadied(self, found: Found, densities: Densities) -> tuple[Found, Densities]:
        """Double a learned noise as long as that pays; note a candidate with more noise in a line of its own."""
        best, score = found, densities
        for _ in range(RULE.doublings if self.search.log_noise is None else 0):
            free = best.optimum.free.copy()
            free[-1] += np.log(2.0)
            raised = best._replace(optimum=best.optimum._replace(free=free))
            # First some rows left out at random, then all of them, and then the neighbourhoods: each takes more time.
            if not self._may_pay(raised, score[0]):
                break
            alone = self._alone(raised)
            if _mean([alone]) - _mean(score[:1]) < RULE.worth_doubling:
                break
            of_raised = self._densities(raised, alone)
            if _mean(of_raised) - _mean(score) < RULE.worth_doubling:
                break
            best, score = raised, of_raised
        if best is found:
            return found, densities
        best = best._replace(trial=best.trial._replace(likelihood=f"{best.trial.likelihood}, more noise"))
        self.search.trials.append(best)
        return self._noted(best, score), score

    def _may_pay(self, raised: Found, densities: Floats) -> bool:
        """Say whether the mean density of rows left out at random may gain, from some of them."""
        order = np.argsort(densities)
        worst, others = order[: RULE.n_worst], order[RULE.n_worst :: RULE.every]
        if len(others) < RULE.n_worst:
            return True
        some = np.concatenate((worst, others))
        of_worst, of_others = np.split(self._alone(raised, some) - densities[some], [len(worst)])
        share = len(worst) / len(densities)
        gain = share * of_worst.mean() + (1.0 - share) * of_others.mean()
        error = (1.0 - share) * _error([of_others])
        return bool(gain + RULE.standard_errors * error >= RULE.worth_doubling)

    def _alone(self, found: Found, index: Indices | None = None) -> Floats:
        return self.held_out[0].alone_densities(*found.hyperparameters, index)

    def _densities(self, found: Found, alone: Floats) -> Densities:
        """Return the densities of rows, and of neighbourhoods if there are any, that were left out."""
        each = [held_out.region_densities(*found.hyperparameters) for held_out in self.held_out]
        return [of for of in (alone, np.concatenate(each)) if len(of)]

    def _scored(self, found: Found) -> tuple[Found, Densities]:
        densities = self._densities(found, self._alone(found))
        return self._noted(found, densities), densities

    def _noted(self, found: Found, densities: Densities) -> Found:
        """Note the densities of held-out rows in the line of a candidate."""
        alone, *regions = densities
        trial = found.trial._replace(
            alone=float(alone.mean()),
            regions=float(regions[0].mean()) if regions else float("nan"),
            density_error=_error(densities),
        )
        noted = found._replace(trial=trial)
        self.search.trials = [noted if one is found else one for one in self.search.trials]
        return noted


def _level(best: Densities, densities: Densities) -> bool:
    """Say whether rows left out do not tell two candidates apart."""
    lead = [a - b for a, b in zip(best, densities, strict=True)]
    return _mean(lead) <= min(RULE.standard_errors * _error(lead), RULE.behind)


def _mean(densities: Sequence[Floats]) -> float:
    """Return the mean over the ways of holding out of the mean density."""
    return float(np.mean([np.mean(each) for each in densities]))


def _error(densities: Sequence[Floats]) -> float:
    """Return the standard error of `_mean`."""
    return float(np.sqrt(sum(np.var(each) / len(each) for each in densities)) / len(densities))
