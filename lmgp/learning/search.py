"""The search for a kernel: by successive halving over positions, then by held-out density."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmgp.inference.vecchia import VecchiaLikelihood
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import Form, make_form
from lmgp.learning.heldout import HeldOut
from lmgp.learning.record import Trial
from lmgp.learning.scoring import Exact, Optimum, Sample, climb
from lmgp.learning.space import Space, Units
from lmgp.parallel import single_threaded
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Likelihood = Literal["auto", "exact", "vecchia"]


@dataclass(frozen=True)
class Round:
    """One round: on this number of positions, with this number of neighbours, for at most this number of steps.

    Attributes
    ----------
    n_positions, n_neighbors, n_steps : int
    n_kept : int
        The number of forms that go on.
    tolerance : float
        In nats, see `lmgp.learning.scoring.climb`.
    """

    n_positions: int
    n_neighbors: int
    n_steps: int
    n_kept: int
    tolerance: float


@dataclass(frozen=True)
class Plan:
    """How the search goes.

    Attributes
    ----------
    first, second, last : Round
        All forms, those that are left, and those between which held-out rows decide.
    max_rows : int
        The first two rounds look at a sample of at most this number of rows.
    start_lengthscales, start_noises : tuple of float
        Where a single kernel starts: at the best of these, in √d standard deviations and in variances of y.
    apart : tuple of float
        Where a sum starts: at the best of these factors on the lengthscales of its smoother part.
    closer : tuple of (int, int)
        Numbers of neighbours and of positions that the last round goes on to, as long as that pays.
    gain : float
        In nats per row: what more neighbours have to add.
    exact : Round
        Of the exact likelihood: the positions are those of its information.
    beside : int
        Beside the Vecchia likelihood of all rows, the exact one is of at most this number of rows.
    close : float
        In nats: of few rows, the exact likelihood decides between forms whose Vecchia likelihoods are this close.
    behind : float
        In nats: sums have one lengthscale, or one a column, only if the best single kernel of that kind is not this far
        behind the best of the other kind.
    fewest_to_leave_out : int
        Of at most this number of rows, none is left out.
    rows_per_parameter : int
        With fewer rows for each parameter of a sum with one lengthscale a column, ``ard="auto"`` tries no such kernel.
    standard_errors : float
        A kernel with more parameters has to predict better by this number of standard errors.
    doublings : int
        The noise is doubled at most this number of times, see `Search.steady`.
    worth_doubling : float
        In nats a held-out row.
    """

    first: Round = Round(500, 16, 8, 3, 0.5)
    second: Round = Round(1200, 30, 8, 2, 0.5)
    last: Round = Round(4000, 30, 12, 2, 0.5)
    exact: Round = Round(1000, 30, 8, 1, 0.05)
    beside: int = 1000
    close: float = 20.0
    behind: float = 5.0
    max_rows: int = 50_000
    start_lengthscales: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)
    start_noises: tuple[float, ...] = (0.02, 0.3)
    apart: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    closer: tuple[tuple[int, int], ...] = ((60, 3000), (120, 2000))
    gain: float = 0.02
    fewest_to_leave_out: int = 100
    rows_per_parameter: int = 3
    standard_errors: float = 1.0
    doublings: int = 6
    worth_doubling: float = 0.002


PLAN = Plan()


class Found(NamedTuple):
    """A form with its parameters, and the line that says how they were found."""

    space: Space
    optimum: Optimum
    trial: Trial

    @property
    def hyperparameters(self) -> tuple[Kernel, float]:
        """The kernel and the noise variance."""
        return self.space.kernel(self.optimum.free), self.space.noise_variance(self.optimum.free)

    @property
    def plain(self) -> bool:
        """Whether it is one kernel, no sum."""
        return len(self.space.form.parts) == 1

    @property
    def worth(self) -> float:
        """The log likelihood less what free parameters gain by chance, per row: Akaike's criterion, for few rows."""
        left = self.trial.n_rows - self.trial.n_free - 1
        return self.trial.log_likelihood - self.trial.n_free / left if left > 0 else -float("inf")


@dataclass
class Search:
    """Learns the parameters of forms, and chooses between them.

    Parameters
    ----------
    rows : Rows
        With y centred.
    units : Units
    log_noise : float, optional
        Of a noise variance that is given.
    groups : sequence of int, optional
        See `make_form`.
    seeds : sequence of int
        Three: of the sample, of the positions, and of what is held out.
    """

    rows: Rows
    units: Units
    log_noise: float | None
    groups: Sequence[int] | None
    seeds: Sequence[int]
    trials: list[Found] = field(default_factory=list)
    _singles: dict[tuple[str, bool], Found] = field(default_factory=dict)

    def __post_init__(self) -> None:
        order = np.random.default_rng(self.seeds[0]).permutation(len(self.rows.y))
        self._sample = self.rows.take(order[: PLAN.max_rows])
        self._likelihoods = {one: self._likelihood(self._sample, one) for one in (PLAN.first, PLAN.second)}

    def _likelihood(self, rows: Rows, one: Round) -> VecchiaLikelihood:
        rng = np.random.default_rng(self.seeds[1])
        return VecchiaLikelihood(rows, one.n_positions, one.n_neighbors, rng)

    def space(self, form: Form) -> Space:
        """Return the space of a form's free numbers."""
        return Space(form, self.units, self.log_noise)

    def best_forms(self, forms: Iterable[Form]) -> list[Found]:
        """Run the first two rounds: return the best forms, the best first."""
        forms = list(forms)
        singles = [self._first(form) for form in forms if len(form.parts) == 1]
        found = singles + [self._first(form) for form in self._sums(forms, singles)]
        one = PLAN.second
        if len(found) > one.n_kept:
            best = sorted(found, key=lambda each: -each.worth)
            best = best[: PLAN.first.n_kept] + [each for each in best[PLAN.first.n_kept :] if each.plain][:1]
            found = [self._climb(self._likelihoods[one], each.space, each.optimum.free, one) for each in best]
            self.trials += found
        found = sorted(found, key=lambda each: -each.worth)
        # Sums follow the rows more closely, and single kernels extrapolate better: the last word is not spoken here.
        plain = [each for each in found if each.plain]
        kept = [found[0], *(plain if plain and not found[0].plain else found[1:])]
        return kept[: one.n_kept]

    def _sums(self, forms: Sequence[Form], singles: Sequence[Found]) -> list[Form]:
        """Return the sums that are worth a trial."""
        sums = [form for form in forms if len(form.parts) > 1]
        one, each = ([single.worth for single in singles if single.trial.ard == ard] for ard in (False, True))
        if not one or not each:
            return sums
        lead = (max(each) - max(one)) * PLAN.first.n_positions
        return [form for form in sums if (lead if form.ard else -lead) > -PLAN.behind]

    def by_all_rows(self, found: Found) -> Found:
        """Run the last round on all rows, with as many neighbours as pay."""
        one, rows = PLAN.last, self.rows
        likelihood = self._likelihood(rows, one)
        best = self._climb(likelihood, found.space, found.optimum.free, one)
        for n_neighbors, n_positions in PLAN.closer:
            if best.trial.n_neighbors >= len(rows.y) - 1:
                break
            closer = Round(n_positions, n_neighbors, one.n_steps, 1, one.tolerance)
            likelihood = self._likelihood(rows, closer)
            arguments = best.space.form.kernel, best.space.logarithms(best.optimum.free)
            likelihood.look_for_neighbours(best.space.kernel(best.optimum.free).metric(rows.X.shape[1]))
            fewer = self._terms_of_fewer(best, likelihood)
            if np.mean(likelihood.terms(*arguments) - fewer) < PLAN.gain:
                break
            best = self._climb(likelihood, best.space, best.optimum.free, closer)
        return best

    def _terms_of_fewer(self, best: Found, closer: VecchiaLikelihood) -> Floats:
        """Return the terms of the positions of a closer likelihood, with as many neighbours as before."""
        fewer = self._likelihood(self.rows, Round(closer.n_positions, best.trial.n_neighbors, 0, 1, 0.0))
        fewer.look_for_neighbours(best.space.kernel(best.optimum.free).metric(self.rows.X.shape[1]))
        return fewer.terms(best.space.form.kernel, best.space.logarithms(best.optimum.free))

    def by_exact_likelihood(self, found: Found, rows: Rows) -> Found:
        """Maximise the exact likelihood of some rows."""
        start = perf_counter()
        one = PLAN.exact
        objective = Exact(rows, found.space, self._likelihood(rows, one))
        # Matrices of few rows gain less from a second thread than its waiting costs on a busy machine.
        with single_threaded() if len(rows.y) <= PLAN.beside else nullcontext():
            optimum = climb(objective, found.space, found.optimum.free, steps=one.n_steps, tolerance=one.tolerance)
        return self._record(found.space, optimum, "exact", len(rows.y), 0, 0.0, perf_counter() - start)

    def decide(self, candidates: Sequence[Found], held_out: HeldOut) -> Found:
        """Return the candidate that predicts held-out rows best; of those that nearly do, the simplest."""
        scored = [self._scored(one, held_out) for one in candidates]
        _, best = max(scored, key=lambda pair: _mean(pair[1]))
        near = []
        for one, densities in scored:
            lead = [a - b for a, b in zip(best, densities, strict=True)]
            if _mean(lead) <= PLAN.standard_errors * _error(lead):
                near.append((one, densities))
        return min(near, key=lambda pair: (pair[0].trial.n_free, -_mean(pair[1])))[0]

    def steady(self, found: Found, held_out: HeldOut) -> Found:
        """Double a learned noise as long as held-out rows are predicted better: near-copies drive it towards zero."""
        best, score = found, _mean(self._scored(found, held_out)[1])
        for _ in range(PLAN.doublings if self.log_noise is None else 0):
            free = best.optimum.free.copy()
            free[-1] += np.log(2.0)
            raised = best._replace(optimum=best.optimum._replace(free=free))
            densities = [each for each in held_out.densities(*raised.hyperparameters) if len(each)]
            if _mean(densities) - score < PLAN.worth_doubling:
                break
            best, score = raised, _mean(densities)
        if best is not found:
            best = best._replace(trial=best.trial._replace(likelihood=f"{best.trial.likelihood}, more noise"))
            self.trials.append(best)
            best, _ = self._scored(best, held_out)
        return next(one for one in self.trials if one.optimum is best.optimum)

    def _scored(self, found: Found, held_out: HeldOut) -> tuple[Found, list[Floats]]:
        """Note the densities of held-out rows in the line of a candidate; return them, in each of the two ways."""
        alone, regions = held_out.densities(*found.hyperparameters)
        densities = [each for each in (alone, regions) if len(each)]
        trial = found.trial._replace(
            alone=float(alone.mean()),
            regions=float(regions.mean()) if len(regions) else float("nan"),
            density_error=_error(densities),
        )
        scored = found._replace(trial=trial)
        self.trials = [scored if one is found else one for one in self.trials]
        return scored, densities

    def _first(self, form: Form) -> Found:
        """Run the first round for a form, from the optima of its parts."""
        key = (form.name, form.ard)
        if key not in self._singles:
            likelihood, space = self._likelihoods[PLAN.first], self.space(form)
            starts = self._starts(form, space)
            self._singles[key] = self._climb(likelihood, space, self._best_start(likelihood, space, starts), PLAN.first)
            self.trials.append(self._singles[key])
        return self._singles[key]

    def _starts(self, form: Form, space: Space) -> list[Floats]:
        """Return the points from which a form may start."""
        if not form.named:
            return [space.median]
        n_inputs = len(self.units.columns)
        if len(form.parts) == 1 and not form.ard:
            return [
                space.median + np.where(space.kinds == "lengthscale", np.log(lengthscale), 0.0)
                + np.where(space.kinds == "noise", np.log(noise) - space.median, 0.0)
                for lengthscale in PLAN.start_lengthscales
                for noise in (PLAN.start_noises if self.log_noise is None else (1.0,))
            ]  # fmt: skip
        parts = [self._first(make_form(name, form.ard and len(form.parts) > 1, n_inputs, self.groups))
                 for name in form.parts]  # fmt: skip
        # In logarithms of the caller's units, by kernel parameter; then back into the units of this space.
        if len(parts) == 1:
            return [_spread(space, [parts[0]], 1.0)]
        return [_spread(space, parts, factor) for factor in PLAN.apart]

    def _best_start(self, likelihood: VecchiaLikelihood, space: Space, starts: list[Floats]) -> Floats:
        if len(starts) == 1:
            return starts[0]
        low, high = space.bounds.T
        values = []
        for start in starts:
            free = np.clip(start, low, high)
            likelihood.look_for_neighbours(space.kernel(free).metric(len(self.units.columns)))
            total = likelihood.terms(space.form.kernel, space.logarithms(free)).sum() + space.log_prior(free)[0]
            values.append(total if np.isfinite(total) else -np.inf)
        return starts[int(np.argmax(values))]

    def _climb(self, likelihood: VecchiaLikelihood, space: Space, start: Floats, one: Round) -> Found:
        began = perf_counter()
        optimum = climb(Sample(likelihood, space), space, start, steps=one.n_steps, tolerance=one.tolerance)
        error = likelihood.standard_error(optimum.terms)
        return self._record(
            space, optimum, "vecchia", likelihood.n_positions, likelihood.n_neighbors, error, perf_counter() - began
        )

    def _record(
        self, space: Space, optimum: Optimum, name: str, n_rows: int, n_neighbors: int, error: float, seconds: float
    ) -> Found:
        missing = float("nan")
        return Found(
            space,
            optimum,
            Trial(
                space.form.name, space.form.ard, len(space.bounds), name, n_rows, n_neighbors, optimum.value / n_rows,
                error, missing, missing, missing, seconds,
            ),
        )  # fmt: skip


def _spread(space: Space, parts: list[Found], factor: float) -> Floats:
    """Start from the optima of parts: the lengthscales of all but the first times a factor, the variance shared."""
    values: list[Floats] = []
    for i, part in enumerate(parts):
        theta = part.space.logarithms(part.optimum.free)[:-1].copy()
        kinds = part.space.kinds[part.space.form.ties]
        theta[kinds == "lengthscale"] += np.log(factor) * (i > 0)
        theta[kinds == "variance"] -= np.log(len(parts))
        values.append(theta)
    noises = [part.space.logarithms(part.optimum.free)[-1] for part in parts]
    target = np.append(np.concatenate(values), min(noises))
    own = space.logarithms(np.zeros(len(space.bounds)))
    difference = (target - own)[: len(space.index)]
    # Of what shares a number, the mean.
    return space.gradient(difference) / np.bincount(space.index, minlength=len(space.bounds))


def _mean(densities: Sequence[Floats]) -> float:
    """Return the mean over the ways of holding out of the mean density."""
    return float(np.mean([np.mean(each) for each in densities]))


def _error(densities: Sequence[Floats]) -> float:
    """Return the standard error of `_mean`."""
    return float(np.sqrt(sum(np.var(each) / len(each) for each in densities)) / len(densities))
