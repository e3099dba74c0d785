"""Choosing by measurement: the cheapest candidate that is near enough to the exact GP on probes."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Literal, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin

from lmgp.metrics import kl_divergence
from lmgp.noise import Approximation
from lmgp.selection.probes import Probes

Floats = NDArray[np.float64]
Solver = Literal["primal", "dual", "auto"]

# A candidate whose divergence on the first probes is so many times above what is aimed at is not looked at again.
FIRST_LOOK = 32
FAR_OFF = 5.0

# Divergences have heavy tails, and the first one of many below the tolerance is one that was lucky with its probes: so
# many standard errors have to be below it as well.
STANDARD_ERRORS = 2.0


# A reference whose change falls by about a half with every doubling of its rows is still to change by so many times its
# last change in all: (ρ/(1 − ρ))², ρ² = 1/2.
STILL_TO_COME = 6.0


@dataclass(frozen=True)
class Choice:
    """What a localized model consists of.

    Attributes
    ----------
    method : str
        The name of its family.
    size : int
        The number of columns asked for; or of rows, where rows are used in place of features.
    features : TransformerMixin or None
        The unfitted map; None for rows in place of features.
    threshold : float or None
        In lengthscales; None but for farthest-point centroids.
    centroids : {"farthest_point", "test_rows", "mean"} or array-like
        The mean of the rows for a global model.
    solver : {"primal", "dual", "auto"}
    approximation : {"dtc", "sor", "fitc"}
    n_neighbors : int or None
    """

    method: str
    size: int
    features: TransformerMixin | None
    threshold: float | None
    centroids: Literal["farthest_point", "test_rows", "mean"] | ArrayLike
    solver: Solver
    approximation: Approximation
    n_neighbors: int | None = None


class Candidate(NamedTuple):
    """A choice, and the seconds that the cost model expects of it."""

    choice: Choice
    seconds: float


class Model(NamedTuple):
    """What a `Choice` becomes; it is solved when it predicts.

    Attributes
    ----------
    missing : callable
        Returns the prior variance that is added to a prediction at rows X because the map leaves it out, shape (n,).
    predict : callable
        Returns the mean, without the centre, and the variance of the latent function at rows X.
    """

    missing: Callable[[Floats], Floats]
    predict: Callable[[Floats], tuple[Floats, Floats]]


@dataclass
class Family:
    """Candidates that differ in their size, and what is known of them.

    Attributes
    ----------
    candidates : list of Candidate
        From the smallest on.
    power : float
        The divergence falls no faster than size^(−power).
    rival : Family or None
        One of the same sizes and costs: of the two, the one that was behind at the last size of both is given up.
    seen : dict of int to (float, bool)
        The divergence of each size that was tried, and whether it was measured; else it is a lower bound.
    """

    candidates: list[Candidate]
    power: float
    rival: "Family | None" = None
    seen: dict[int, tuple[float, bool]] = field(default_factory=dict)

    @property
    def least(self) -> float:
        """The least divergence that the largest candidate can have."""
        if not self.seen:
            return 0.0
        size = max(self.seen)
        return self.seen[size][0] * (size / self.candidates[-1].choice.size) ** self.power

    @property
    def behind(self) -> bool:
        """Whether the rival is nearer."""
        rivals = {} if self.rival is None else self.rival.seen
        common = [size for size in self.seen if size in rivals and rivals[size][1]]
        return bool(common) and rivals[max(common)][0] < self.seen[max(common)][0]


class Trial(NamedTuple):
    """One line of a `Selection`.

    Attributes
    ----------
    method : str
    n_features : int
        Columns asked for; or rows, of the methods "nearest_rows" and "exact".
    threshold : float or None
        In lengthscales; None for a global model.
    approximation : str
    kl : float
        The mean divergence from the exact prediction over the probes, in nats.
    spread : float
        Its standard error: by how much other probes would have changed it.
    n_probes : int
        How many these were: fewer, where the first ones showed that the candidate is far off; none, where `kl` is a
        lower bound from the variance that the map leaves out.
    seconds : float
        What the cost model expects for fitting all rows and predicting as many as the user does.
    trial_seconds : float
        What finding out took.
    chosen : bool
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

    def within(self, tolerance: float) -> bool:
        """Say whether the divergence is within a tolerance for other rows than the probes, too, as far as they tell."""
        return self.kl + STANDARD_ERRORS * self.spread <= tolerance


@dataclass(frozen=True)
class Selection(Sequence[Trial]):
    """What was tried, in this order, what it cost, and what was chosen: a sequence of `Trial`.

    ``print(selection)`` shows a table, and ``pandas.DataFrame(selection)`` makes one.

    Attributes
    ----------
    trials : tuple of Trial
    tolerance : float
        KL per row, in nats.
    n_predict : int
        For the prediction of how many rows the seconds are.
    reference_rows : int
        From how many rows the exact prediction of each probe is.
    reference_change : float
        By how much it changed, KL per row, when that number was last doubled; 0 where it is from all rows.
    reference_seconds : float
    """

    trials: tuple[Trial, ...]
    tolerance: float
    n_predict: int
    reference_rows: int
    reference_change: float
    reference_seconds: float

    @overload
    def __getitem__(self, index: int) -> Trial: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Trial, ...]: ...
    def __getitem__(self, index: int | slice) -> Trial | tuple[Trial, ...]:
        return self.trials[index]

    def __len__(self) -> int:
        return len(self.trials)

    @property
    def chosen(self) -> Trial:
        """The line of what was chosen."""
        return next(trial for trial in self.trials if trial.chosen)

    def shortfall(self, max_features: int) -> str | None:
        """Say how far off the tolerance is, and what to do, as an open sentence; None where it is reached."""
        chosen = self.chosen
        model = f"{chosen.method} of size {chosen.n_features}"
        uncertainty = STILL_TO_COME * self.reference_change
        if uncertainty > self.tolerance:
            return (
                f"tolerance={self.tolerance:g} cannot be checked: exact predictions of the rows held out, from the "
                f"{self.reference_rows:,} rows nearest to them, still changed by {self.reference_change:.2g} nats per "
                f"row when that number was doubled. Chosen was {model}, {chosen.kl:.2g} nats per row from them. Give a "
                f"tolerance above {uncertainty:.2g} to accept that"
            )
        if chosen.kl > self.tolerance:
            return (
                f"No model within max_features={max_features} reaches tolerance={self.tolerance:g}: the nearest one, "
                f"{model}, has a KL divergence of {chosen.kl:.2g} nats per row from the exact GP on {chosen.n_probes} "
                f"rows held out, {chosen.kl / self.tolerance:.2g} times the tolerance. Raise max_features or tolerance"
            )
        return None

    def to_json(self) -> str:
        """Write the selection as one line of text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        values = json.loads(text)
        return cls(**{**values, "trials": tuple(Trial(*trial) for trial in values["trials"])})

    def __str__(self) -> str:
        lines = [("", "method", "size", "threshold", "missing", "KL/row", "s.e.", "probes", "s", "trial s")]
        for trial in self.trials:
            lines.append(
                (
                    "*" if trial.chosen else "",
                    trial.method,
                    str(trial.n_features),
                    "-" if trial.threshold is None else f"{trial.threshold:g}",
                    trial.approximation,
                    f"{'' if trial.n_probes else '> '}{trial.kl:.2g}",
                    f"{trial.spread:.1g}" if trial.n_probes else "-",
                    str(trial.n_probes),
                    f"{trial.seconds:.2g}",
                    f"{trial.trial_seconds:.2g}",
                )
            )
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        change = f", which changed them by {self.reference_change:.1g}" if self.reference_change else ""
        return "\n".join(
            (
                *(
                    "  ".join((*map(str.ljust, line[:2], widths), *map(str.rjust, line[2:], widths[2:])))
                    for line in lines
                ),
                f"*: chosen, for a tolerance of {self.tolerance:g} nats per row, {self.n_predict:,} rows to predict.",
                f"Exact predictions of the probes are from {self.reference_rows:,} rows{change}; took "
                f"{self.reference_seconds:.2g} s.",
            )
        )


def select(
    probes: Probes,
    families: Sequence[Family],
    build: Callable[[Choice], Model],
    noise_variance: float,
    tolerance: float,
    n_predict: int,
) -> tuple[Choice, Selection]:
    """Take the cheapest candidate whose divergence from the exact predictions is within the tolerance.

    It is so with two standard errors added, for the chance of which rows are probes. Candidates are tried from the
    cheapest on, except for those that cannot be near enough. Where none is near enough, the nearest one is taken.

    Parameters
    ----------
    probes : Probes
    families : sequence of Family
    build : callable
        Makes the model of a choice, for the rows that are not held out.
    noise_variance : float
    tolerance : float
        KL per row, in nats.
    n_predict : int

    Returns
    -------
    Choice
    Selection
    """
    target_variance = probes.variance + noise_variance
    # No candidate can be told to be nearer than the reference is sure.
    aim = max(tolerance, STILL_TO_COME * probes.change)
    trials: dict[int, tuple[Choice, Trial]] = {}

    def attempt(family: Family, candidate: Candidate, target: float) -> Trial:
        choice = candidate.choice
        start = perf_counter()
        model = build(choice)
        # The variance is too large by what the map leaves out at least: that bounds the divergence from below.
        ratio = np.maximum((model.missing(probes.X) + noise_variance) / target_variance, 1.0)
        n_probes, spread, kl = 0, 0.0, float(np.mean(ratio - 1.0 - np.log(ratio)) / 2.0)
        for look in (FIRST_LOOK, len(probes.X)):
            if kl <= FAR_OFF * target and n_probes < len(probes.X):
                mean, variance = model.predict(probes.X[:look])
                found = kl_divergence(mean, variance + noise_variance, probes.mean[:look], target_variance[:look])
                n_probes, (kl, spread) = len(found), probes.mean_and_error(found)
        family.seen[choice.size] = kl, n_probes > 0
        seconds = perf_counter() - start
        if id(choice) in trials:
            seconds += trials[id(choice)][1].trial_seconds
        trial = Trial(
            choice.method, choice.size, choice.threshold, choice.approximation, kl, spread, n_probes,
            candidate.seconds, seconds,
        )  # fmt: skip
        trials[id(choice)] = choice, trial
        return trial

    def looked_at() -> list[tuple[Choice, Trial]]:
        return [pair for pair in trials.values() if pair[1].n_probes == len(probes.X)]

    pairs = [(family, candidate) for family in families for candidate in family.candidates]
    for family, candidate in sorted(pairs, key=lambda pair: pair[1].seconds):
        if family.least <= aim and not family.behind and attempt(family, candidate, aim).within(aim):
            break
    else:
        for family in sorted(families, key=lambda family: family.least):
            largest = family.candidates[-1]
            nearest = min((trial.kl for _, trial in looked_at()), default=math.inf)
            known = any(choice is largest.choice for choice, _ in looked_at())
            if not known and not family.behind and (family.least < nearest or nearest == math.inf):
                attempt(family, largest, nearest)
    # Where one is within the tolerance it is the last one tried, and the only one.
    choice, best = min(looked_at(), key=lambda pair: (not pair[1].within(aim), pair[1].kl))
    table = tuple(trial._replace(chosen=trial is best) for _, trial in trials.values())
    return choice, Selection(table, tolerance, n_predict, probes.n_used, probes.change, probes.seconds)
