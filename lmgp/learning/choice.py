"""The choice between the optima of a search: how well they predict rows that were left out."""

import math
from collections.abc import Sequence
from itertools import compress

import numpy as np
from scipy.stats import norm

from lmgp.data import Floats, Noise, Rows
from lmgp.learning.heldout import HeldOut
from lmgp.learning.search import Found, Search
from lmgp.posteriors.average import stacking_weights
from lmgp.posteriors.exact import ExactPosterior

# Of the rows that were left out at random, and of the neighbourhoods.
Densities = list[Floats]

# The exact likelihood decides between kernels that predict held-out rows within this number of standard errors of the
# best, and within this number of nats a row.
STANDARD_ERRORS, BEHIND = 2.0, 0.05
# A learned noise is doubled at most this number of times, where that gains so many nats a held-out row.
DOUBLINGS, WORTH_DOUBLING = 6, 0.002
# The rows on which a doubled noise is tried first: those with the least densities, which gain most, and of the others
# one in this number. Mostly they tell that it does not pay.
N_WORST, EVERY = 100, 6


def scored_by_held_out_rows(
    search: Search, held_out: Sequence[HeldOut], candidates: Sequence[Found]
) -> list[tuple[Found, Densities]]:
    """Return how well candidates predict held-out rows.

    A learned noise is doubled first as long as held-out rows are predicted better: near-copies drive it to zero.

    Parameters
    ----------
    search : Search
        Of the rows that the first of `held_out` did not leave out. Its lines get the densities.
    held_out : sequence of HeldOut
        See `HeldOut.several`.
    candidates : sequence of Found
        Among the lines of the search.
    """
    return [_steadied(search, held_out, one) for one in candidates]


def best_of(search: Search, scored: Sequence[tuple[Found, Densities]], sample: Rows | None) -> Found:
    """Return the candidate that predicts held-out rows best; of those that nearly do, the likeliest.

    Parameters
    ----------
    search : Search
    scored : sequence of tuple
        See `scored_by_held_out_rows`.
    sample : Rows or None
        Whose exact likelihood decides between kernels that predict equally well; None: the best is taken.
    """
    best, of_best = max(scored, key=lambda pair: _mean(pair[1]))
    near = [(one, of) for one, of in scored if _level(of_best, of)]
    if len(near) == 1 or sample is None:
        return best
    near = list(compress(near, search.not_far_behind([one for one, _ in near], sample)))
    if len(near) == 1:
        return near[0][0]
    likely = [_noted(search, search.exact_value(one, sample), of) for one, of in near]
    search.trials += likely
    return max(zip(near, likely, strict=True), key=lambda pair: pair[1].worth)[0][0]


def leave_one_out_densities(rows: Rows, found: Found) -> Densities:
    """Predict each row from all others at parameters that were learned from all."""
    kernel, noise_variance = found.hyperparameters
    noise = Noise(noise_variance)
    means, variances = ExactPosterior(kernel, rows, noise).leave_one_out()
    std = np.sqrt(variances + noise.of_rows(rows).numpy())
    return [norm.logpdf(rows.Y[:, 0], means[:, 0], std)]


def average_of(scored: Sequence[tuple[Found, Densities]], weights: Floats | None = None) -> list[tuple[Found, float]]:
    """Return the candidates whose mixture predicts rows left out best, and their weights, the largest first.

    Parameters
    ----------
    scored : sequence of tuple
        Candidates of several forms, of which the best one of each takes part.
    weights : ndarray of shape (n,), optional
        Of rows that were left out one by one.
    """
    best = {(one.trial.kernel, one.trial.ard): (one, of) for one, of in sorted(scored, key=lambda pair: _mean(pair[1]))}
    candidates, densities = zip(*best.values(), strict=True)
    counts = np.concatenate([(np.ones(len(each)) if weights is None else weights) / len(each) for each in densities[0]])
    shares = stacking_weights(np.array([np.concatenate(of) for of in densities]), counts)
    pairs = zip(candidates, shares.tolist(), strict=True)
    return sorted((pair for pair in pairs if pair[1] > 0.0), key=lambda pair: -pair[1])


def _steadied(search: Search, held_out: Sequence[HeldOut], found: Found) -> tuple[Found, Densities]:
    """Double a learned noise as long as that pays; note the densities, of more noise in a line of its own."""
    score = _densities(held_out, found, held_out[0].alone_densities(*found.hyperparameters))
    best = found = _noted(search, found, score)
    for _ in range(DOUBLINGS if search.log_noise is None else 0):
        free = best.free.copy()
        free[-1] += np.log(2.0)
        raised = best._replace(free=free)
        # First some rows left out at random, then all of them, and then the neighbourhoods: each takes more time.
        if not _may_pay(held_out[0], raised, score[0]):
            break
        alone = held_out[0].alone_densities(*raised.hyperparameters)
        if _mean([alone]) - _mean(score[:1]) < WORTH_DOUBLING:
            break
        of_raised = _densities(held_out, raised, alone)
        if _mean(of_raised) - _mean(score) < WORTH_DOUBLING:
            break
        best, score = raised, of_raised
    if best is found:
        return found, score
    best = best._replace(trial=best.trial._replace(likelihood=f"{best.trial.likelihood}, more noise"))
    search.trials.append(best)
    return _noted(search, best, score), score


def _may_pay(held_out: HeldOut, raised: Found, densities: Floats) -> bool:
    """Say whether the mean density of rows left out at random may gain, from some of them."""
    order = np.argsort(densities)
    worst, others = order[:N_WORST], order[N_WORST::EVERY]
    if len(others) < N_WORST:
        return True
    some = np.concatenate((worst, others))
    gains = held_out.alone_densities(*raised.hyperparameters, some) - densities[some]
    of_worst, of_others = np.split(gains, [len(worst)])
    share = len(worst) / len(densities)
    gain = share * of_worst.mean() + (1.0 - share) * of_others.mean()
    error = (1.0 - share) * _error([of_others])
    return bool(gain + STANDARD_ERRORS * error >= WORTH_DOUBLING)


def _densities(held_out: Sequence[HeldOut], found: Found, alone: Floats) -> Densities:
    """Return the densities of rows, and of neighbourhoods if there are any, that were left out."""
    regions = np.concatenate([each.region_densities(*found.hyperparameters) for each in held_out])
    return [of for of in (alone, regions) if len(of)]


def _noted(search: Search, found: Found, densities: Densities) -> Found:
    """Note the densities of held-out rows in the line of a candidate."""
    alone, *regions = (float(each.mean()) for each in densities)
    of_regions = regions[0] if regions else math.nan
    trial = found.trial._replace(alone=alone, regions=of_regions, density_error=_error(densities))
    noted = found._replace(trial=trial)
    search.trials = [noted if one is found else one for one in search.trials]
    return noted


def _level(best: Densities, densities: Densities) -> bool:
    """Say whether rows left out do not tell two candidates apart."""
    lead = [a - b for a, b in zip(best, densities, strict=True)]
    return _mean(lead) <= min(STANDARD_ERRORS * _error(lead), BEHIND)


def _mean(densities: Sequence[Floats]) -> float:
    """Return the mean over the ways of holding out of the mean density."""
    return float(np.mean([np.mean(each) for each in densities]))


def _error(densities: Sequence[Floats]) -> float:
    """Return the standard error of `_mean`."""
    return float(np.sqrt(sum(np.var(each) / len(each) for each in densities)) / len(densities))
