"""Choosing by measurement: the cheapest candidate that is near enough to the exact GP on probes."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import NamedTuple, Self

import numpy as np

from lmgp.data import Approximation
from lmgp.metrics import kl_divergence
from lmgp.posteriors.base import Posterior
from lmgp.selection.candidates import Candidate, Family
from lmgp.selection.methods import EXACT, NEAREST_ROWS, RESIDUAL, SPECTRAL
from lmgp.selection.probes import Probes
from lmgp.utils.progress import tried_model
from lmgp.utils.trials import Trials, aligned

# What becomes of the prior variance that a map leaves out: right at every row, which the divergences rest on.
APPROXIMATION: Approximation = "fitc"


# The number of probes that a candidate is tried on first. It is given up if its divergence on these is more than this
# multiple of the tolerance.
FIRST_LOOK, FAR_OFF = 32, 5.0
# A divergence is within the tolerance if it is so with this number of standard errors added. Divergences have heavy
# tails, and of many candidates the first one below the tolerance has been lucky with its probes.
STANDARD_ERRORS = 2.0
# The reference is uncertain by this multiple of its last change. If each doubling of its rows halves the change of the
# divergence, ρ² = 1/2, all further changes add up to (ρ/(1 − ρ))² = 5.8 times the last.
STILL_TO_COME = 6.0
# Where no candidate is near enough, the cheapest one is taken whose divergence is at most this multiple of the least.
# By how much the reference is uncertain counts as a part of both.
AS_NEAR = 1.25
# It counts up to this multiple of the tolerance: where the reference is poor, what is far from it is no better.
UNKNOWN = 20.0
# Trials of maps take as long as the model without a map that would be taken instead, within these bounds in seconds.
LEAST_SECONDS, MOST_SECONDS = 2.0, 3.0
# The share of its time that a trial takes which ends before the model predicts.
UNPREDICTED = 0.1


class RecipeTrial(NamedTuple):
    """One line of a `Selection`.

    Attributes
    ----------
    method : str
    n_features : int
        The number of columns asked for; of the methods "nearest_rows" and "exact", the number of rows.
    threshold : float or None
        In lengthscales; None for a global model.
    approximation : str
    kl : float
        The mean divergence from the exact prediction over the probes, in nats.
    spread : float
        Its standard error over the choice of probes; 0 of the exact GP, and of the global solve, which states its own.
    n_probes : int
        The number of probes that it was tried on. It is smaller where the first ones showed that the candidate is far
        off; it is 0 where `kl` is a lower bound from the variance that the map leaves out, and of the exact GP, whose
        divergence is 0.
    seconds : float
        The nominal time for fitting all rows and predicting as many as the user will, see `lmgp.posteriors.costs`.
    trial_seconds : float
        The time that the trial took.
    chosen : bool
    n_neighbors : int or None
        The number of nearest rows, of the methods "nearest_rows" and "residual".
    """

    method: str
    n_features: int
    threshold: float | None
    approximation: str
    kl: float
    spread: float
    n_probes: int
    seconds: float
    trial_seconds: float
    chosen: bool = False
    n_neighbors: int | None = None

    @property
    def measured(self) -> bool:
        """Whether `kl` is a divergence, and not only a lower bound of it."""
        return self.n_probes > 0 or self.method in (EXACT, SPECTRAL)

    def within(self, tolerance: float) -> bool:
        """Say whether the divergence is within a tolerance, with two standard errors added."""
        return self.kl + STANDARD_ERRORS * self.spread <= tolerance


@dataclass(frozen=True)
class Selection(Trials[RecipeTrial]):
    """What was tried, in this order, what it cost, and what was chosen: a sequence of `RecipeTrial`.

    ``print(selection)`` shows a table, and ``pandas.DataFrame(selection)`` makes one.

    Attributes
    ----------
    trials : tuple of RecipeTrial
    tolerance : float
        KL per row, in nats.
    n_predict : int
        The number of predictions that the expected seconds are for.
    reference_rows : int
        The number of rows that the exact prediction of each probe is from.
    reference_change : float
        By how much it changed when that number was last doubled, KL per row; 0 where it is from all rows.
    reference_seconds : float
        The time that the exact predictions took.
    variance_by : str or None
        What the variance is from, where it is not from the model of the mean.
    seed : int or None
        The ``random_state`` with which a regressor of the chosen recipe draws the same map.
    """

    trials: tuple[RecipeTrial, ...]
    tolerance: float
    n_predict: int
    reference_rows: int
    reference_change: float
    reference_seconds: float
    variance_by: str | None = None
    seed: int | None = None

    def stating(self, divergence: float, variance_by: str) -> Self:
        """Return the selection with what the chosen model states of itself: its divergence, and its variance."""
        trials = tuple(trial._replace(kl=divergence) if trial.chosen else trial for trial in self.trials)
        return replace(self, trials=trials, variance_by=variance_by)

    def shortfall(self, max_features: int) -> str | None:
        """Say how far off the tolerance is, as an open sentence; None where it is reached, or the model is exact."""
        chosen = self.chosen
        model = f"{chosen.method} of size {chosen.n_features}"
        uncertainty = STILL_TO_COME * self.reference_change
        if chosen.method == EXACT or max(chosen.kl, uncertainty) <= self.tolerance:
            return None
        if chosen.kl <= uncertainty:
            return (
                f"tolerance={self.tolerance:g} is below {uncertainty:.2g} nats per row, to which the exact GP is known "
                f"here (from {self.reference_rows:,} rows around each row held out). Chosen was {model}, "
                f"{chosen.kl:.2g} from that. Give a tolerance above {uncertainty:.2g} to accept this"
            )
        cure = "a larger max_features" if chosen.n_features == max_features else "a smaller n_predict"
        return (
            f"Chosen was {model}, {chosen.kl:.2g} nats per row from the exact GP on {chosen.n_probes} rows held out, "
            f"above tolerance={self.tolerance:g}: the nearest model that was found affordable for {self.n_predict:,} "
            f"predictions. Raise tolerance to accept this, or give {cure}"
        )

    def to_json(self) -> str:
        """Write the selection as one line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        values = json.loads(text)
        return cls(**{**values, "trials": tuple(RecipeTrial(*trial) for trial in values["trials"])})

    def __str__(self) -> str:
        names = "method", "size", "threshold", "approximation", "nearest", "KL/row", "s.e.", "probes", "s", "trial s"
        lines = [
            (
                "*" if trial.chosen else "",
                trial.method,
                str(trial.n_features),
                "-" if trial.threshold is None else f"{trial.threshold:g}",
                trial.approximation,
                "-" if trial.n_neighbors is None else str(trial.n_neighbors),
                f"{'' if trial.measured else '> '}{trial.kl:.2g}",
                f"{trial.spread:.1g}" if trial.measured else "-",
                str(trial.n_probes),
                f"{trial.seconds:.2g}",
                f"{trial.trial_seconds:.2g}",
            )
            for trial in self.trials
        ]
        change = f"; doubling their number changed them by {self.reference_change:.1g}" if self.reference_change else ""
        notes = [f"*: chosen, for a tolerance of {self.tolerance:g} nats per row, {self.n_predict:,} rows to predict."]
        if self.variance_by is not None:
            notes.append(f"The mean is from all rows, the variance {self.variance_by}.")
        if self.reference_rows:
            notes.append(
                f"Exact predictions of the probes are from {self.reference_rows:,} rows{change}. They took "
                f"{self.reference_seconds:.2g} s."
            )
        elif self.chosen.method == SPECTRAL:
            notes.append("Its own estimate of its error needs no search.")
        else:
            notes.append("So few rows need no search.")
        return "\n".join((*aligned((("", *names), *lines), 2), *notes))


def at_once(candidate: Candidate, kl: float, tolerance: float, n_predict: int) -> Selection:
    """Return the selection of a candidate that needs no search."""
    return Selection((_trial(candidate, kl)._replace(chosen=True),), tolerance, n_predict, 0, 0.0, 0.0)


def select(
    probes: Probes,
    families: Sequence[Family],
    build: Callable[[Candidate], Posterior],
    noise_variance: float,
    tolerance: float,
    n_predict: int,
) -> tuple[Candidate, Selection]:
    """Take the cheapest candidate whose divergence from the exact predictions is within the tolerance.

    Two standard errors are added to each divergence. Models of the nearest rows come first: their trials are cheap. The
    exact GP needs none. Maps are tried only as far as they can save more than their trials take.
    Candidates come in the order of their expected seconds, but for those that cannot be near enough. If none is near
    enough, the nearest one is taken, or a cheaper one that is about as near.

    Parameters
    ----------
    probes : Probes
    families : sequence of Family
    build : callable
        Makes the posterior of a candidate, of the rows that are not held out.
    noise_variance : float
    tolerance : float
        KL per row, in nats.
    n_predict : int

    Returns
    -------
    Candidate
    Selection
    """
    trials = _Trials(probes, build, noise_variance)
    exact = next((one for _, one in _by_seconds(families) if one.method == EXACT), None)
    nearest = [one for one in families if one.candidates[0].method in (NEAREST_ROWS, RESIDUAL)]
    maps = [one for one in families if one.candidates[0].method not in (EXACT, NEAREST_ROWS, RESIDUAL)]
    # Each model that is near enough sets the seconds that the next ones are to save.
    found = trials.first_within(_by_seconds(nearest), tolerance, math.inf, exact.seconds if exact else math.inf)
    if not found and exact:
        found = trials.by_candidate[exact] = _trial(exact, 0.0)
    elif not found:
        trials.try_largest(nearest, math.inf)
    saving = found.seconds if found else math.inf
    without = found.seconds if found else max((one.seconds for _, one in _by_seconds(nearest)), default=math.inf)
    budget = min(max(without, LEAST_SECONDS), MOST_SECONDS)
    trials.spent = 0.0
    if not trials.first_within(_by_seconds(maps), tolerance, budget, saving) and not found:
        trials.try_largest(maps, budget)
    if not trials.complete():
        trials.attempt(*_by_seconds(families)[0], math.inf)
    chosen, best = trials.best(tolerance)
    table = tuple(trial._replace(chosen=trial is best) for trial in trials.by_candidate.values())
    return chosen, Selection(table, tolerance, n_predict, probes.n_used, probes.change, probes.seconds)


def _by_seconds(families: Sequence[Family]) -> list[tuple[Family, Candidate]]:
    pairs = [(family, candidate) for family in families for candidate in family.candidates]
    return sorted(pairs, key=lambda pair: pair[1].seconds)


def _trial(
    candidate: Candidate, kl: float, spread: float = 0.0, n_probes: int = 0, trial_seconds: float = 0.0
) -> RecipeTrial:
    """Return the line of a candidate."""
    recipe = candidate.recipe
    return RecipeTrial(
        candidate.method, candidate.size, getattr(recipe, "threshold", None),
        getattr(recipe, "approximation", APPROXIMATION), kl, spread, n_probes, candidate.seconds, trial_seconds,
        n_neighbors=getattr(recipe, "n_neighbors", None),
    )  # fmt: skip


class _Trials:
    """Tries candidates on probes, and keeps one `RecipeTrial` of each.

    Attributes
    ----------
    by_candidate : dict of Candidate to RecipeTrial
    spent : float
        The nominal time of the trials.
    """

    def __init__(self, probes: Probes, build: Callable[[Candidate], Posterior], noise_variance: float) -> None:
        self.probes, self.build, self.noise_variance = probes, build, noise_variance
        self.by_candidate: dict[Candidate, RecipeTrial] = {}
        self.spent = 0.0

    def complete(self) -> dict[Candidate, RecipeTrial]:
        """Return the trials on all probes, and the exact GP, whose divergence needs none."""
        n_probes = len(self.probes.X)
        trials = self.by_candidate.items()
        return {one: trial for one, trial in trials if trial.method == EXACT or trial.n_probes == n_probes}

    def first_within(
        self, pairs: Sequence[tuple[Family, Candidate]], tolerance: float, budget: float, saving: float = math.inf
    ) -> RecipeTrial | None:
        """Try candidates until one is within the tolerance; pass over those that spend more than they can save."""
        for family, candidate in pairs:
            spent = self.spent + candidate.trial_seconds
            if spent > budget or spent + candidate.seconds > saving:
                continue
            if family.least <= tolerance and not family.behind:
                trial = self.attempt(family, candidate, tolerance)
                if trial.within(tolerance):
                    return trial
        return None

    def try_largest(self, families: Sequence[Family], budget: float) -> None:
        """Try the largest affordable candidate of each family that can be nearer than all others."""
        for family in sorted(families, key=lambda family: family.least):
            possible = [one for one in family.candidates if self.spent + one.trial_seconds <= budget]
            complete = self.complete()
            nearest = min((trial.kl for trial in complete.values()), default=math.inf)
            if not possible or possible[-1] in complete or family.behind:
                continue
            if family.least < nearest or nearest == math.inf:
                self.attempt(family, possible[-1], nearest)

    def best(self, tolerance: float) -> tuple[Candidate, RecipeTrial]:
        """Return the cheapest candidate within the tolerance; if there is none, of those about as near as can be."""
        complete = self.complete()
        unknown = min(STILL_TO_COME * self.probes.change, UNKNOWN * tolerance)
        limit = AS_NEAR * (min(trial.kl for trial in complete.values()) + unknown) - unknown
        near = {one: trial for one, trial in complete.items() if trial.within(tolerance)}
        near = near or {one: trial for one, trial in complete.items() if trial.kl <= limit}
        return min(near.items(), key=lambda pair: pair[1].seconds)

    def attempt(self, family: Family, candidate: Candidate, target: float) -> RecipeTrial:
        """Try a candidate on the first probes, and on all of them if it is not far off the target."""
        probes, noise_variance = self.probes, self.noise_variance
        start = perf_counter()
        model = self.build(candidate)
        expected = probes.variance + noise_variance
        # The predicted variance is at least what the map leaves out: that bounds the divergence from below.
        ratio = np.maximum((model.missing(probes.X) + noise_variance) / expected, 1.0)
        n_probes, spread, kl = 0, 0.0, float(np.mean(ratio - 1.0 - np.log(ratio)) / 2.0)
        for look in (FIRST_LOOK, len(probes.X)):
            if kl <= FAR_OFF * target and n_probes < len(probes.X):
                means, variance = model.distribution(probes.X[:look])
                found = kl_divergence(means[:, 0], variance + noise_variance, probes.mean[:look], expected[:look])
                n_probes, (kl, spread) = len(found), probes.mean_and_error(found)
        family.seen[candidate.size] = kl, n_probes > 0
        seconds = perf_counter() - start
        self.spent += candidate.trial_seconds * (1.0 if n_probes else UNPREDICTED)
        if candidate in self.by_candidate:
            seconds += self.by_candidate[candidate].trial_seconds
        trial = tried_model(_trial(candidate, kl, spread, n_probes, seconds))
        self.by_candidate[candidate] = trial
        return trial
