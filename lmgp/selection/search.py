"""Choosing by measurement: the cheapest candidate that is near enough to the exact GP on probes."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Self

from lmgp.errors import NumericalError
from lmgp.metrics import kl_divergence
from lmgp.posteriors.base import Posterior
from lmgp.selection.methods import EXACT, SPECTRAL
from lmgp.selection.probes import Probes
from lmgp.utils.progress import silent, tried_model
from lmgp.utils.trials import Trials, aligned

if TYPE_CHECKING:
    from lmgp.selection.candidates import Candidate, Problem

# A divergence is within the tolerance if it is so with this number of standard errors added. Divergences have heavy
# tails, and of many candidates the first one below the tolerance has been lucky with its probes.
STANDARD_ERRORS = 2.0
# All trials together take at most this number of nominal seconds.
TRIALS = 3.0


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
        The number of probes that it was tried on; 0 of the exact GP, whose divergence is 0, and of the global solve.
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
        The number of rows that the exact predictions of the probes are from.
    reference_seconds : float
        The time that the exact predictions took.
    variance_by : str or None
        What the variance is from, where it is not from the model of the mean.
    seed : int or None
        The ``random_state`` with which a regressor of the chosen recipe draws the same map.
    sample_rows : int or None
        The number of rows that stood for all rows of a stream; None of rows in memory.
    by_rows_left_out : bool
        Whether rows left out have chosen how many nearest rows predict.
    """

    trials: tuple[RecipeTrial, ...]
    tolerance: float
    n_predict: int
    reference_rows: int
    reference_seconds: float
    variance_by: str | None = None
    seed: int | None = None
    sample_rows: int | None = None
    by_rows_left_out: bool = False

    @property
    def shortfall(self) -> str | None:
        """How far off the tolerance is, and what to do; None where it is reached."""
        chosen = self.chosen
        if chosen.kl <= self.tolerance:
            return None
        return (
            f"The chosen model, {chosen.method} of size {chosen.n_features:,}, is {chosen.kl:.2g} nats a row from the "
            f"exact GP, above tolerance={self.tolerance:g}: no nearer one was found affordable for {self.n_predict:,} "
            "predictions. Give n_predict, if these are fewer, or raise tolerance or max_features."
            f"{'' if self.sample_rows is None else ' Fit to rows in memory, and near rows can be chosen, too.'}"
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
                f"{trial.kl:.2g}",
                f"{trial.spread:.1g}",
                str(trial.n_probes),
                f"{trial.seconds:.2g}",
                f"{trial.trial_seconds:.2g}",
            )
            for trial in self.trials
        ]
        notes = [f"*: chosen, for a tolerance of {self.tolerance:g} nats per row, {self.n_predict:,} rows to predict."]
        if self.by_rows_left_out:
            notes.append("Rows left out have chosen how many nearest rows predict.")
        if self.variance_by is not None:
            notes.append(f"The mean is from all rows, the variance {self.variance_by}.")
        if self.reference_rows:
            notes.append(
                f"Exact predictions of the probes are from {self.reference_rows:,} rows. They took "
                f"{self.reference_seconds:.2g} s."
            )
            if self.sample_rows is not None:
                notes.append(
                    f"Of the stream, {self.sample_rows:,} rows were looked at: beside the exact process of all of its "
                    "rows, which lie closer, divergences may be larger."
                )
        elif self.chosen.method == SPECTRAL:
            notes.append("Its own estimate of its error needs no search.")
        else:
            notes.append("The exact process needs no search.")
        return "\n".join((*aligned((("", *names), *lines), 2), *notes))


def at_once(problem: "Problem", candidate: "Candidate") -> Selection:
    """Return the selection of a candidate that needs no search."""
    return Selection((candidate.trial._replace(chosen=True),), problem.tolerance, problem.n_predict, 0, 0.0)


def select(
    problem: "Problem", probes: Probes, candidates: Sequence["Candidate"], build: Callable[["Candidate"], Posterior]
) -> tuple["Candidate", Selection]:
    """Take the cheapest candidate whose divergence from the exact predictions is within the tolerance.

    Two standard errors are added to each divergence. Candidates are tried in the order of their nominal seconds, as far
    as the trials together are affordable; the exact GP needs none. If no candidate is near enough, the cheapest is
    taken whose divergence is within one standard error of the least.

    Parameters
    ----------
    problem : Problem
    probes : Probes
    candidates : sequence of Candidate
    build : callable
        Makes the posterior of a candidate, of `probes.rest`.

    Returns
    -------
    Candidate
    Selection

    References
    ----------
    L. Breiman, J. H. Friedman, R. A. Olshen and C. J. Stone, *Classification and Regression Trees*, 1984, section
    3.4.3: the rule of one standard error.
    """
    trials: dict[Candidate, RecipeTrial] = {}
    spent, tolerance = 0.0, problem.tolerance
    for candidate in sorted(candidates, key=lambda one: one.trial.seconds):
        if candidate.trial.method == EXACT:
            trials[candidate] = candidate.trial
        elif not trials or spent + candidate.trial_cost <= TRIALS:
            spent += candidate.trial_cost
            trials[candidate] = tried(problem, probes, candidate, build)
        if candidate in trials and trials[candidate].within(tolerance):
            chosen = candidate
            break
    else:
        nearest = min(trials.values(), key=lambda trial: trial.kl)
        chosen = next(one for one, trial in trials.items() if trial.kl <= nearest.kl + nearest.spread)
    table = tuple(trial._replace(chosen=one is chosen) for one, trial in trials.items())
    return chosen, Selection(table, tolerance, problem.n_predict, len(probes.rest), probes.seconds)


def tried(
    problem: "Problem", probes: Probes, candidate: "Candidate", build: Callable[["Candidate"], Posterior]
) -> RecipeTrial:
    """Compare a candidate with the exact predictions."""
    start, noise = perf_counter(), problem.noise_variance
    try:
        with silent():  # what is to be warned about, the model that is chosen says
            means, variance = build(candidate).distribution(probes.X)
        found = kl_divergence(means[:, 0], variance + noise, probes.mean, probes.variance + noise)
        kl, spread = probes.mean_and_error(found)
    except NumericalError:  # its noise is too small for float64: others may do
        kl, spread = math.inf, 0.0
    seconds = perf_counter() - start
    return tried_model(candidate.trial._replace(kl=kl, spread=spread, n_probes=len(probes.X), trial_seconds=seconds))
