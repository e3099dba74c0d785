"""The choice between the optima of a search: how well they predict rows that were left out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmgp.learning.heldout import HeldOut
from lmgp.learning.search import Found, Search

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rule:
    """How the choice is made.

    Attributes
    ----------
    standard_errors : float
        A kernel with more parameters has to predict better by this number of standard errors.
    doublings : int
        The noise is doubled at most this number of times, see `Choice.steady`.
    worth_doubling : float
        In nats a held-out row.
    """

    standard_errors: float = 0.25
    doublings: int = 6
    worth_doubling: float = 0.002


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
    """

    search: Search
    held_out: Sequence[HeldOut]

    def best(self, candidates: Sequence[Found]) -> Found:
        """Return the candidate that predicts held-out rows best; of those that nearly do, the simplest."""
        scored = [self._scored(one) for one in candidates]
        _, best = max(scored, key=lambda pair: _mean(pair[1]))
        near = []
        for one, densities in scored:
            lead = [a - b for a, b in zip(best, densities, strict=True)]
            if _mean(lead) <= RULE.standard_errors * _error(lead):
                near.append((one, densities))
        return min(near, key=lambda pair: (pair[0].trial.n_free, -_mean(pair[1])))[0]

    def steady(self, found: Found) -> Found:
        """Double a learned noise as long as held-out rows are predicted better: near-copies drive it towards zero."""
        best, score = found, _mean(self._scored(found)[1])
        for _ in range(RULE.doublings if self.search.log_noise is None else 0):
            free = best.optimum.free.copy()
            free[-1] += np.log(2.0)
            raised = best._replace(optimum=best.optimum._replace(free=free))
            densities = [each for each in self._densities(raised) if len(each)]
            if _mean(densities) - score < RULE.worth_doubling:
                break
            best, score = raised, _mean(densities)
        if best is not found:
            best = best._replace(trial=best.trial._replace(likelihood=f"{best.trial.likelihood}, more noise"))
            self.search.trials.append(best)
            best, _ = self._scored(best)
        return next(one for one in self.search.trials if one.optimum is best.optimum)

    def _densities(self, found: Found) -> tuple[Floats, Floats]:
        """Return the densities of rows, and of neighbourhoods, that were left out."""
        each = [held_out.densities(*found.hyperparameters) for held_out in self.held_out]
        return each[0][0], np.concatenate([regions for _, regions in each])

    def _scored(self, found: Found) -> tuple[Found, list[Floats]]:
        """Note the densities of held-out rows in the line of a candidate; return them, in each of the two ways."""
        alone, regions = self._densities(found)
        densities = [each for each in (alone, regions) if len(each)]
        trial = found.trial._replace(
            alone=float(alone.mean()),
            regions=float(regions.mean()) if len(regions) else float("nan"),
            density_error=_error(densities),
        )
        scored = found._replace(trial=trial)
        self.search.trials = [scored if one is found else one for one in self.search.trials]
        return scored, densities


def _mean(densities: Sequence[Floats]) -> float:
    """Return the mean over the ways of holding out of the mean density."""
    return float(np.mean([np.mean(each) for each in densities]))


def _error(densities: Sequence[Floats]) -> float:
    """Return the standard error of `_mean`."""
    return float(np.sqrt(sum(np.var(each) / len(each) for each in densities)) / len(densities))
