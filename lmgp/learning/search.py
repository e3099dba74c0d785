"""The search for a kernel: by successive halving over positions."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import NumericalError
from lmgp.inference.likelihood import log_likelihood
from lmgp.inference.vecchia import VecchiaLikelihood
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import Form, make_form
from lmgp.learning.record import Trial
from lmgp.learning.scoring import Exact, Optimum, Sample, climb
from lmgp.learning.space import Space, Units
from lmgp.parallel import parallel_map, single_threaded
from lmgp.progress import tried_kernel
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
        The number of forms that go on; of the first round, of single kernels and of sums each.
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
        All forms, those that are left, and the best sum and the best single kernel, between which held-out rows decide.
    positions_per_parameter : int
        The last round takes this number of positions for each free parameter, if that is more: on few positions, many
        parameters vary with the sample.
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
        Beside the Vecchia likelihood of all rows, the exact one is of at most this number of rows, unless the exact
        likelihood of all rows decides.
    n_exact : int
        Of at most `beside` rows, the exact likelihood decides between this number of forms, after the first round:
        where their Vecchia likelihoods are level, it may differ by 100 nats.
    decided : int
        Of at most this multiple of `max_learning_rows` rows, the exact likelihood of all rows decides between optima.
    sampled : int
        Of more rows, that of this multiple of `max_learning_rows` rows decides between those that predict equally well.
    close : float
        In nats: of more rows, the exact likelihood decides between forms whose Vecchia likelihoods are this close.
    behind : float
        In nats: sums have one lengthscale, or one a column, only if the best single kernel of that kind is not this far
        behind the best of the other kind. A third form goes on if it is not this far
        behind the best one of its kind.
    fewest_to_leave_out : int
        Of at most this number of rows, none is left out.
    rows_per_parameter : int
        With fewer rows for each parameter of a sum with one lengthscale a column, ``ard="auto"`` tries no such kernel.
    """

    first: Round = Round(500, 16, 8, 3, 0.5)
    second: Round = Round(1200, 30, 8, 3, 0.5)
    last: Round = Round(4000, 30, 16, 1, 0.5)
    exact: Round = Round(1000, 30, 8, 1, 0.05)
    beside: int = 1000
    n_exact: int = 6
    decided: int = 4
    sampled: int = 2
    close: float = 20.0
    behind: float = 5.0
    positions_per_parameter: int = 250
    max_rows: int = 50_000
    start_lengthscales: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)
    start_noises: tuple[float, ...] = (0.02, 0.3)
    apart: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    closer: tuple[tuple[int, int], ...] = ((60, 3000), (120, 2000))
    gain: float = 0.02
    fewest_to_leave_out: int = 100
    rows_per_parameter: int = 3


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
        order = np.random.default_rng(self.seeds[0]).permutation(len(self.rows.y))
        self._sample = self.rows.take(order[: PLAN.max_rows])
        self._likelihoods = {one: self._likelihood(self._sample, one) for one in (PLAN.first, PLAN.second)}

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
            if best.trial.n_neighbors >= len(rows.y) - 1:
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

    def by_exact_likelihood(self, found: Found, rows: Rows) -> Found:
        """Maximise the exact likelihood of some rows."""
        start = perf_counter()
        one = PLAN.exact
        objective = Exact(rows, found.space, self._likelihood(rows, one))
        # Matrices of few rows gain less from a second thread than its waiting costs on a busy machine.
        with single_threaded() if len(rows.y) <= PLAN.beside else nullcontext():
            optimum = climb(objective, found.space, found.optimum.free, steps=one.n_steps, tolerance=one.tolerance)
        return self._record(found.space, optimum, "exact", len(rows.y), 0, 0.0, perf_counter() - start)

    def exact_value(self, found: Found, rows: Rows) -> Found:
        """Return an optimum with the exact likelihood of some rows, or of all."""
        start, n_rows = perf_counter(), len(rows.y)
        try:
            value = log_likelihood(rows, *found.hyperparameters) / n_rows
        except NumericalError:
            value = -np.inf
        seconds = perf_counter() - start
        optimum = found.optimum._replace(value=value * n_rows)
        return self._record(found.space, optimum, "exact", n_rows, 0, 0.0, seconds)

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
        likelihood, space, earlier = self._likelihoods[one], self.space(form), self._done[PLAN.first].get(_key(form))
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
        if parts:
            return [_spread(space, parts, factor) for factor in (PLAN.apart if len(parts) > 1 else (1.0,))]
        return [
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
        likelihood, free = copy(likelihood), np.clip(free, *space.bounds.T)
        likelihood.look_for_neighbours(space.kernel(free).metric(len(self.units.columns)))
        total = likelihood.terms(space.form.kernel, space.logarithms(free)).sum() + space.log_prior(free)[0]
        return float(total) if np.isfinite(total) else -np.inf

    def _climb(self, likelihood: VecchiaLikelihood, space: Space, start: Floats, one: Round) -> Found:
        began, likelihood = perf_counter(), copy(likelihood)  # which holds the neighbours of this climb
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
            tried_kernel(Trial(
                space.form.name, space.form.ard, len(space.bounds), name, n_rows, n_neighbors, optimum.value / n_rows,
                error, missing, missing, missing, seconds,
            )),
        )  # fmt: skip


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
