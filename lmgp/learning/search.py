"""The search for a kernel: by successive halving over positions."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np

from lmgp.data import Floats, Rows
from lmgp.errors import NumericalError
from lmgp.kernels.base import Kernel
from lmgp.learning import plan
from lmgp.learning.forms import Form, make_form
from lmgp.learning.plan import Round
from lmgp.learning.record import Trial
from lmgp.learning.scoring import Climb, ExactObjective, VecchiaObjective
from lmgp.learning.space import Space, Units
from lmgp.posteriors.likelihood import log_likelihood
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.parallel import parallel_map, single_threaded
from lmgp.utils.progress import tried_kernel

Likelihood = Literal["auto", "exact", "vecchia"]


class Found(NamedTuple):
    """A form with its parameters, and the line that says how they were found.

    Attributes
    ----------
    space : Space
    free : ndarray of shape (n_free,)
        In the coordinates of the space.
    trial : Trial
    converged : bool
    n_drawn : int
        The number of rows of which those of the line, and those that the parameters were learned from, are two random
        parts; 0 if they are the same.
    """

    space: Space
    free: Floats
    trial: Trial
    converged: bool
    n_drawn: int = 0

    @property
    def hyperparameters(self) -> tuple[Kernel, float]:
        """The kernel and the noise variance."""
        return self.space.kernel(self.free), self.space.noise_variance(self.free)

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

    def __post_init__(self) -> None:
        order = np.random.default_rng(self.seeds[0]).permutation(len(self.rows))
        sample, rounds = self.rows.take(order[: plan.MAX_ROWS]), (plan.FIRST, plan.SECOND)
        self._done: dict[Round, dict[tuple[str, bool], Found]] = {one: {} for one in rounds}
        self._likelihoods = {one: self._likelihood(sample, one.n_positions, one.n_neighbors) for one in rounds}
        # Of all kernels with one lengthscale.
        self._likelihoods[plan.FIRST].look_for_neighbours(self.units.columns)

    def _likelihood(self, rows: Rows, n_positions: int, n_neighbors: int) -> VecchiaLikelihood:
        return VecchiaLikelihood(rows, n_positions, n_neighbors, np.random.default_rng(self.seeds[1]))

    def space(self, form: Form) -> Space:
        """Return the space of a form's free numbers."""
        return Space(form, self.units, self.log_noise)

    def first_round(self, forms: Iterable[Form]) -> list[Found]:
        """Run the first round: return the forms, the best first."""
        forms = list(forms)
        singles = self._run([form for form in forms if len(form.parts) == 1], plan.FIRST)
        found = singles + self._run(self._sums(forms, singles), plan.FIRST)
        return sorted(found, key=lambda each: -each.worth)

    def best_forms(self, forms: Iterable[Form]) -> list[Found]:
        """Run the first two rounds: return the best forms, the best first."""
        found, one = self.first_round(forms), plan.SECOND
        if len(found) > one.n_kept:
            kinds = [[each for each in found if each.plain is plain] for plain in (True, False)]
            best = [each for kind in kinds for each in kind[: plan.FIRST.n_kept]]
            self._run([each.space.form for each in best], one)
            found = list(self._done[one].values())
        found = sorted(found, key=lambda each: -each.worth)
        # Sums follow the rows more closely, and single kernels extrapolate better: the last word is not spoken here.
        leader, *others = found
        others.sort(key=lambda each: each.plain is leader.plain)  # the other kind first, and each kind by its worth
        worths = {each.plain: each.worth for each in [*reversed(others), leader]}
        close = plan.BEHIND / one.n_positions
        kept = [leader, *others[:1], *(each for each in others[1:] if each.worth >= worths[each.plain] - close)]
        return sorted(kept[: one.n_kept], key=lambda each: -each.worth)

    def _sums(self, forms: Sequence[Form], singles: Sequence[Found]) -> list[Form]:
        """Return the sums that are worth a trial."""
        sums = [form for form in forms if len(form.parts) > 1]
        one, each = ([single.worth for single in singles if single.trial.ard == ard] for ard in (False, True))
        if not one or not each:
            return sums
        lead = (max(each) - max(one)) * plan.FIRST.n_positions
        return [form for form in sums if (lead if form.ard else -lead) > -plan.BEHIND]

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
        one, enough = plan.LAST, plan.POSITIONS_PER_PARAMETER * len(found.space.bounds)
        best = self._climb_back(self._likelihood(self.rows, max(one.n_positions, enough), one.n_neighbors), found, one)
        optima = [best]
        for n_neighbors, n_positions in plan.CLOSER if closer else ():
            if best.trial.n_neighbors >= len(self.rows) - 1:
                break
            nearer, fewer = (self._likelihood(self.rows, n_positions, k) for k in (n_neighbors, best.trial.n_neighbors))
            if np.mean(_terms(nearer, best.space, best.free) - _terms(fewer, best.space, best.free)) < plan.GAIN:
                break
            best = self._climb(nearer, best.space, best.free, one)
            optima = [optima[0], best]
        return optima

    def _climb_back(self, likelihood: VecchiaLikelihood, found: Found, one: Round) -> Found:
        """Climb from an optimum of fewer positions; a sum that ends below one of its parts starts again from these."""
        best, space = self._climb(likelihood, found.space, found.free, one), found.space
        known = self._done[plan.FIRST] | self._done[plan.SECOND]
        parts = [known[_key(part)] for part in self._parts(space.form, plan.SECOND)]

        def value(of: Found) -> float:
            return _value(likelihood, of.space, of.free)

        if parts and value(best) < max(map(value, parts)):
            start = _best_start(likelihood, space, [_spread(space, parts, factor) for factor in plan.APART])
            best = max(best, self._climb(likelihood, space, start, one), key=value)
        return best

    def by_exact_likelihood(
        self, starts: Iterable[tuple[Space, Floats]], rows: Rows, rounds: Sequence[Round]
    ) -> list[Found]:
        """Maximise the exact likelihood of rows: of several starts only the best of a round go on."""
        climbs = []
        for space, start in starts:
            sample = None
            if space.form.kernel.can("metric"):
                sample = self._likelihood(rows, rounds[0].n_positions, rounds[0].n_neighbors)
            climbs.append(Climb(ExactObjective(rows, space, sample), start))
        few = len(rows) <= plan.BESIDE and len(climbs) > 1

        def go_on(one: Round, climb: Climb) -> None:
            # Matrices of few rows gain less from a second thread than its waiting costs on a busy machine.
            with single_threaded() if few else nullcontext():
                climb.go_on(one.n_steps, one.tolerance)

        def worth(climb: Climb) -> float:
            return _worth(climb.value / len(rows), len(rows), len(climb.space.bounds))

        best = climbs
        for one in rounds:
            parallel_map(partial(go_on, one), best)
            best = sorted(best, key=worth, reverse=True)[: one.n_kept]
        return [
            Found(
                each.space, each.free, _tried(each.space, each.value, "exact", len(rows), each.seconds), each.converged
            )
            for each in climbs
        ]

    def exact_value(self, found: Found, rows: Rows) -> Found:
        """Return an optimum with the exact likelihood of some rows, or of all.

        By chance, k parameters gain k/m nats of each of the m rows that they were learned from. Of rows of which a
        random share of m/n is among these, that is k/n a row; where all m are among s rows, k/s.
        """
        start = perf_counter()
        try:
            value = log_likelihood(rows, *found.hyperparameters)
        except NumericalError:
            value = -np.inf
        trial = _tried(found.space, value, "exact", len(rows), perf_counter() - start)
        by_sample = found.trial.likelihood.startswith("exact")  # whose rows are among any larger one's
        return found._replace(trial=trial, n_drawn=0 if by_sample else len(self.rows))

    def not_far_behind(self, candidates: Sequence[Found], rows: Rows) -> list[bool]:
        """Say which candidates the exact likelihood of half the rows leaves: in an eighth of the time of all."""
        if len(candidates) < 2:
            return [True] * len(candidates)
        n = len(rows)
        half = rows.take(np.sort(np.random.default_rng(self.seeds[2]).permutation(n)[: (n + 1) // 2]))
        values = [self.exact_value(one, half) for one in candidates]
        self.trials += values
        least = max(value.worth for value in values) - plan.CLOSE / len(half)
        return [value.worth >= least for value in values]

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
        earlier = self._done[plan.FIRST].get(_key(form))
        if earlier is not None:
            return self._climb_back(likelihood, earlier, one)
        start = _best_start(likelihood, space, self._starts(form, space))
        return self._climb(likelihood, space, start, one)

    def _parts(self, form: Form, one: Round) -> list[Form]:
        """Return the forms from whose optima a form starts: a sum, and in the first round one with all lengthscales."""
        is_sum = len(form.parts) > 1
        if not form.named or not (is_sum or (form.ard and one is plan.FIRST)):
            return []
        return [make_form(name, form.ard and is_sum, len(self.units.columns), self.groups) for name in form.parts]

    def _starts(self, form: Form, space: Space) -> list[Floats]:
        """Return the points from which a form may start in the first round."""
        if not form.named:
            return [space.median]
        parts = [self._done[plan.FIRST][_key(part)] for part in self._parts(form, plan.FIRST)]
        # The lengthscales of a single part are where this form's own start.
        starts = [_spread(space, parts, factor) for factor in (plan.APART if len(parts) > 1 else (1.0,)) if parts]
        # What columns share as they are says nothing of columns in units of their own.
        if parts and not (form.ard and np.any(self.units.columns != self.units.shared)):
            return starts
        return starts + [
            space.median + np.where(space.kinds == "lengthscale", np.log(lengthscale), 0.0)
            + np.where(space.kinds == "noise", np.log(noise) - space.median, 0.0)
            for lengthscale in plan.START_LENGTHSCALES
            for noise in (plan.START_NOISES if self.log_noise is None else (1.0,))
        ]  # fmt: skip

    def _climb(self, likelihood: VecchiaLikelihood, space: Space, start: Floats, one: Round) -> Found:
        likelihood = copy(likelihood)  # which holds the neighbours of this climb
        climb = Climb(VecchiaObjective(likelihood, space), start)
        climb.go_on(one.n_steps, one.tolerance)
        error = likelihood.standard_error(climb.at.terms)
        trial = _tried(
            space, climb.value, "vecchia", likelihood.n_positions, climb.seconds, likelihood.n_neighbors, error
        )
        return Found(space, climb.free, trial, climb.converged)


def _tried(
    space: Space, value: float, likelihood: str, n_rows: int, seconds: float, n_neighbors: int = 0, error: float = 0.0
) -> Trial:
    """Log the line of a likelihood that was maximised or computed, and return it."""
    form, n_free = space.form, len(space.bounds)
    return tried_kernel(
        Trial(form.name, form.ard, n_free, likelihood, n_rows, n_neighbors, value / n_rows, error, seconds=seconds)
    )


def _terms(likelihood: VecchiaLikelihood, space: Space, free: Floats) -> Floats:
    """Return the terms of a likelihood at one point, with the neighbours that are near there."""
    likelihood.look_for_neighbours(space.metric(free))
    return likelihood.terms(space.form.kernel, space.logarithms(free))


def _value(likelihood: VecchiaLikelihood, space: Space, free: Floats) -> float:
    """Return the log likelihood with the prior at one point, −∞ where it has none."""
    free = np.clip(free, *space.bounds.T)
    total = _terms(likelihood, space, free).sum() + space.log_prior(free)[0]
    return float(total) if np.isfinite(total) else -np.inf


def _best_start(likelihood: VecchiaLikelihood, space: Space, starts: list[Floats]) -> Floats:
    return starts[0] if len(starts) == 1 else max(starts, key=lambda start: _value(likelihood, space, start))


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
        theta = part.space.logarithms(part.free)[:-1].copy()
        kinds = part.space.kinds[part.space.form.ties]
        theta[kinds == "lengthscale"] += np.log(factor) * (i > 0)
        theta[kinds == "variance"] -= np.log(len(parts))
        values.append(theta)
    noises = [part.space.logarithms(part.free)[-1] for part in parts]
    target = np.append(np.concatenate(values), min(noises))
    own = space.logarithms(np.zeros(len(space.bounds)))
    difference = (target - own)[: len(space.index)]
    # Of what shares a number, the mean.
    return space.gradient(difference) / np.bincount(space.index, minlength=len(space.bounds))
