"""The search for a kernel: by successive halving over positions."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Rows
from lmgp.errors import NumericalError
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import Form, make_form
from lmgp.learning.plan import PLAN, Round
from lmgp.learning.record import Trial
from lmgp.learning.scoring import Climb, ExactObjective, Optimum, VecchiaObjective, climb
from lmgp.learning.space import Space, Units
from lmgp.posteriors.likelihood import log_likelihood
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.parallel import parallel_map, single_threaded
from lmgp.utils.progress import tried_kernel

Floats = NDArray[np.float64]
Likelihood = Literal["auto", "exact", "vecchia"]


class Found(NamedTuple):
    """A form with its parameters, and the line that says how they were found.

    Attributes
    ----------
    space : Space
    optimum : Optimum
    trial : Trial
    n_drawn : int
        The number of rows of which those of the line, and those that the parameters were learned from, are two random
        parts; 0 if they are the same.
    """

    space: Space
    optimum: Optimum
    trial: Trial
    n_drawn: int = 0

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
        """What forms are compared by, see `_worth`."""
        return _worth(self.trial.log_likelihood, max(self.trial.n_rows, self.n_drawn), self.trial.n_free)


@dataclass
class Search:
    """Learns the parameters of forms.

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
    _done: dict[Round, dict[tuple[str, bool], Found]] = field(default_factory=lambda: {PLAN.first: {}, PLAN.second: {}})

    def __post_init__(self) -> None:
        order = np.random.default_rng(self.seeds[0]).permutation(len(self.rows))
        self._sample = self.rows.take(order[: PLAN.max_rows])
        self._likelihoods = {one: self._likelihood(self._sample, one) for one in (PLAN.first, PLAN.second)}
        self._likelihoods[PLAN.first].look_for_neighbours(self.units.columns)  # of all kernels with one lengthscale

    def _likelihood(self, rows: Rows, one: Round) -> VecchiaLikelihood:
        rng = np.random.default_rng(self.seeds[1])
        return VecchiaLikelihood(rows, one.n_positions, one.n_neighbors, rng)

    def space(self, form: Form) -> Space:
        """Return the space of a form's free numbers."""
        return Space(form, self.units, self.log_noise)

    def first_round(self, forms: Iterable[Form]) -> list[Found]:
        """Run the first round: return the forms, the best first."""
        forms = list(forms)
        singles = self._run([form for form in forms if len(form.parts) == 1], PLAN.first)
        found = singles + self._run(self._sums(forms, singles), PLAN.first)
        return sorted(found, key=lambda each: -each.worth)

    def best_forms(self, forms: Iterable[Form]) -> list[Found]:
        """Run the first two rounds: return the best forms, the best first."""
        found, one = self.first_round(forms), PLAN.second
        if len(found) > one.n_kept:
            kinds = [[each for each in found if each.plain is plain] for plain in (True, False)]
            best = [each for kind in kinds for each in kind[: PLAN.first.n_kept]]
            self._run([each.space.form for each in best], one)
            found = list(self._done[one].values())
        found = sorted(found, key=lambda each: -each.worth)
        # Sums follow the rows more closely, and single kernels extrapolate better: the last word is not spoken here.
        leader, *others = found
        others.sort(key=lambda each: each.plain is leader.plain)  # the other kind first, and each kind by its worth
        worths = {each.plain: each.worth for each in [*reversed(others), leader]}
        close = PLAN.behind / one.n_positions
        kept = [leader, *others[:1], *(each for each in others[1:] if each.worth >= worths[each.plain] - close)]
        return sorted(kept[: one.n_kept], key=lambda each: -each.worth)

    def _sums(self, forms: Sequence[Form], singles: Sequence[Found]) -> list[Form]:
        """Return the sums that are worth a trial."""
        sums = [form for form in forms if len(form.parts) > 1]
        one, each = ([single.worth for single in singles if single.trial.ard == ard] for ard in (False, True))
        if not one or not each:
            return sums
        lead = (max(each) - max(one)) * PLAN.first.n_positions
        return [form for form in sums if (lead if form.ard else -lead) > -PLAN.behind]

    def by_all_rows(self, found: Found, closer: bool = True) -> list[Found]:
        """Run the last round on all rows, and again with more neighbours as long as that pays.

        Parameters
        ----------
        found : Found
        closer : bool
            Whether there may be more neighbours.

        Returns
        -------
        list of Found
            The first and the last optimum.
        """
        rows, enough = self.rows, PLAN.positions_per_parameter * len(found.space.bounds)
        one = replace(PLAN.last, n_positions=max(PLAN.last.n_positions, enough))
        best = self._climb_back(self._likelihood(rows, one), found, one)
        optima = [best]
        for n_neighbors, n_positions in PLAN.closer if closer else ():
            if best.trial.n_neighbors >= len(rows) - 1:
                break
            nearer = Round(n_positions, n_neighbors, one.n_steps, 1, one.tolerance)
            likelihood = self._likelihood(rows, nearer)
            arguments = best.space.form.kernel, best.space.logarithms(best.optimum.free)
            likelihood.look_for_neighbours(best.space.kernel(best.optimum.free).metric(rows.X.shape[1]))
            fewer = self._terms_of_fewer(best, likelihood)
            if np.mean(likelihood.terms(*arguments) - fewer) < PLAN.gain:
                break
            best = self._climb(likelihood, best.space, best.optimum.free, nearer)
            optima = [optima[0], best]
        return optima

    def _climb_back(self, likelihood: VecchiaLikelihood, found: Found, one: Round) -> Found:
        """Climb from an optimum of fewer positions; a sum that ends below one of its parts starts again from these."""
        best, space = self._climb(likelihood, found.space, found.optimum.free, one), found.space
        known = self._done[PLAN.first] | self._done[PLAN.second]
        parts = [known[_key(part)] for part in self._parts(space.form, PLAN.second)]

        def value(of: Found) -> float:
            return self._value(likelihood, of.space, of.optimum.free)

        if parts and value(best) < max(map(value, parts)):
            start = self._best_start(likelihood, space, [_spread(space, parts, factor) for factor in PLAN.apart])
            best = max(best, self._climb(likelihood, space, start, one), key=value)
        return best

    def _terms_of_fewer(self, best: Found, closer: VecchiaLikelihood) -> Floats:
        """Return the terms of the positions of a closer likelihood, with as many neighbours as before."""
        fewer = self._likelihood(self.rows, Round(closer.n_positions, best.trial.n_neighbors, 0, 1, 0.0))
        fewer.look_for_neighbours(best.space.kernel(best.optimum.free).metric(self.rows.X.shape[1]))
        return fewer.terms(best.space.form.kernel, best.space.logarithms(best.optimum.free))

    def by_exact_likelihood(self, found: Sequence[Found], rows: Rows, sample: bool = False) -> list[Found]:
        """Maximise the exact likelihood of all rows, or of a sample: only the best forms of a round go on."""
        few, rounds = len(rows) <= PLAN.beside and len(found) > 1, (PLAN.sample,) if sample else PLAN.exact
        climbs = [
            Climb(ExactObjective(rows, one.space, self._likelihood(rows, rounds[0])), one.space, one.optimum.free)
            for one in found
        ]

        def go_on(one: Round, climb: Climb) -> None:
            # Matrices of few rows gain less from a second thread than its waiting costs on a busy machine.
            with single_threaded() if few else nullcontext():
                climb.go_on(one.n_steps, one.tolerance)

        def worth(climb: Climb) -> float:
            return _worth(climb.optimum.value / len(rows), len(rows), len(climb.space.bounds))

        best = climbs
        for one in rounds:
            parallel_map(partial(go_on, one), best)
            best = sorted(best, key=worth, reverse=True)[: one.n_kept]
        return [self._record(each.space, each.optimum, "exact", len(rows), 0, 0.0, each.seconds) for each in climbs]

    def by_exact_likelihood_alone(self, form: Form) -> Found:
        """Maximise the exact likelihood of all rows, of a kernel whose lengthscales cannot tell which rows are near."""
        space = self.space(form)
        climb = Climb(ExactObjective(self.rows, space), space, space.median)
        climb.go_on(PLAN.last.n_steps, PLAN.exact[-1].tolerance)
        found = self._record(space, climb.optimum, "exact", len(self.rows), 0, 0.0, climb.seconds)
        self.trials.append(found)
        return found

    def exact_value(self, found: Found, rows: Rows) -> Found:
        """Return an optimum with the exact likelihood of some rows, or of all.

        By chance, k parameters gain k/m nats of each of the m rows that they were learned from. Of rows of which a
        random share of m/n is among these, that is k/n a row; where all m are among s rows, k/s.
        """
        start, n_rows = perf_counter(), len(rows)
        try:
            value = log_likelihood(rows, *found.hyperparameters) / n_rows
        except NumericalError:
            value = -np.inf
        seconds = perf_counter() - start
        optimum = found.optimum._replace(value=value * n_rows)
        value_of = self._record(found.space, optimum, "exact", n_rows, 0, 0.0, seconds)
        by_sample = found.trial.likelihood.startswith("exact")  # whose rows are among any larger one's
        return value_of if by_sample else value_of._replace(n_drawn=len(self.rows))

    def not_far_behind(self, candidates: Sequence[Found], rows: Rows) -> list[Found]:
        """Return the candidates that the exact likelihood of half the rows leaves: in an eighth of the time of all."""
        if len(candidates) < 2:
            return list(candidates)
        n = len(rows)
        half = rows.take(np.sort(np.random.default_rng(self.seeds[2]).permutation(n)[: (n + 1) // 2]))
        values = [self.exact_value(one, half) for one in candidates]
        self.trials += values
        least = max(value.worth for value in values) - PLAN.close / len(half)
        return [one for one, value in zip(candidates, values, strict=True) if value.worth >= least]

    def _run(self, forms: Sequence[Form], one: Round) -> list[Found]:
        """Run one of the first two rounds for forms, after the parts that they start from; each form once."""
        done = self._done[one]
        parts = [part for form in forms if _key(form) not in done for part in self._parts(form, one)]
        if parts:
            self._run(parts, one)
        new = {_key(form): form for form in forms if _key(form) not in done}
        found = parallel_map(lambda form: self._climb_from_best(form, one), list(new.values()))
        done |= dict(zip(new, found, strict=True))
        self.trials += found
        return [done[_key(form)] for form in forms]

    def _climb_from_best(self, form: Form, one: Round) -> Found:
        likelihood, space = copy(self._likelihoods[one]), self.space(form)  # which holds the neighbours of this form
        earlier = self._done[PLAN.first].get(_key(form))
        if earlier is not None:
            return self._climb_back(likelihood, earlier, one)
        start = self._best_start(likelihood, space, self._starts(form, space))
        return self._climb(likelihood, space, start, one)

    def _parts(self, form: Form, one: Round) -> list[Form]:
        """Return the forms from whose optima a form starts: a sum, and in the first round one with all lengthscales."""
        is_sum = len(form.parts) > 1
        if not form.named or not (is_sum or (form.ard and one is PLAN.first)):
            return []
        return [make_form(name, form.ard and is_sum, len(self.units.columns), self.groups) for name in form.parts]

    def _starts(self, form: Form, space: Space) -> list[Floats]:
        """Return the points from which a form may start in the first round."""
        if not form.named:
            return [space.median]
        parts = [self._done[PLAN.first][_key(part)] for part in self._parts(form, PLAN.first)]
        # The lengthscales of a single part are where this form's own start.
        starts = [_spread(space, parts, factor) for factor in (PLAN.apart if len(parts) > 1 else (1.0,)) if parts]
        # What columns share as they are says nothing of columns in units of their own.
        if parts and not (form.ard and np.any(self.units.columns != self.units.shared)):
            return starts
        return starts + [
            space.median + np.where(space.kinds == "lengthscale", np.log(lengthscale), 0.0)
            + np.where(space.kinds == "noise", np.log(noise) - space.median, 0.0)
            for lengthscale in PLAN.start_lengthscales
            for noise in (PLAN.start_noises if self.log_noise is None else (1.0,))
        ]  # fmt: skip

    def _best_start(self, likelihood: VecchiaLikelihood, space: Space, starts: list[Floats]) -> Floats:
        if len(starts) == 1:
            return starts[0]
        return max(starts, key=lambda start: self._value(likelihood, space, start))

    def _value(self, likelihood: VecchiaLikelihood, space: Space, free: Floats) -> float:
        """Return the log likelihood with the prior at one point, −∞ where it has none."""
        free = np.clip(free, *space.bounds.T)
        likelihood.look_for_neighbours(space.kernel(free).metric(len(self.units.columns)))
        total = likelihood.terms(space.form.kernel, space.logarithms(free)).sum() + space.log_prior(free)[0]
        return float(total) if np.isfinite(total) else -np.inf

    def _climb(self, likelihood: VecchiaLikelihood, space: Space, start: Floats, one: Round) -> Found:
        began, likelihood = perf_counter(), copy(likelihood)  # which holds the neighbours of this climb
        optimum = climb(VecchiaObjective(likelihood, space), space, start, steps=one.n_steps, tolerance=one.tolerance)
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
            tried_kernel(Trial(
                space.form.name, space.form.ard, len(space.bounds), name, n_rows, n_neighbors, optimum.value / n_rows,
                error, missing, missing, missing, seconds,
            )),
        )  # fmt: skip


def _worth(log_likelihood: float, n_rows: int, n_free: int) -> float:
    """Return a log likelihood a row less what free parameters gain by chance: Akaike's criterion, for few rows."""
    left = n_rows - n_free - 1
    return log_likelihood - n_free / left if left > 0 and np.isfinite(log_likelihood) else -float("inf")


def _key(form: Form) -> tuple[str, bool]:
    return form.name, form.ard


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
