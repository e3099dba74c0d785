"""What was tried to choose a model, what it cost, and what was chosen."""

import json
from dataclasses import asdict, dataclass
from typing import NamedTuple, Self

from lmgp.selection.methods import SPECTRAL
from lmgp.utils.trials import Trials

# A divergence is within the tolerance if it is so with this number of standard errors added. Divergences have heavy
# tails, and of many candidates the first one below the tolerance has been lucky with its probes.
STANDARD_ERRORS = 2.0


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
            "predictions. Raise tolerance (lmgp fit: --tolerance) or max_memory_gib (--max-memory), or in Python "
            "max_features, or give n_predict, if these are fewer."
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

    columns = (
        ("method", lambda trial: trial.method, ""),
        ("size", lambda trial: trial.n_features, ""),
        ("threshold", lambda trial: trial.threshold, "g"),
        ("approximation", lambda trial: trial.approximation, ""),
        ("nearest", lambda trial: trial.n_neighbors, ""),
        ("KL/row", lambda trial: trial.kl, ".2g"),
        ("s.e.", lambda trial: trial.spread, ".1g"),
        ("probes", lambda trial: trial.n_probes, ""),
        ("s", lambda trial: trial.seconds, ".2g"),
        ("trial s", lambda trial: trial.trial_seconds, ".2g"),
    )

    def __str__(self) -> str:
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
        return "\n".join((*self.table(2), *notes))
