"""The optimum of a form: the maximum of its likelihood of all rows, with the prior."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from time import perf_counter

import numpy as np

from lmgp.data import Floats, Indices, Rows, sampling
from lmgp.errors import InputError
from lmgp.learning.forms import Form
from lmgp.learning.periods import likely_periods
from lmgp.learning.record import Trial
from lmgp.learning.scoring import Climb, ExactObjective, VecchiaObjective
from lmgp.learning.space import LEAST_SCALE, OWN_DEVIATION, PRIOR_DEVIATION, Space, Units
from lmgp.neighbours.placement import column_order
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.linalg import ROUNDING
from lmgp.utils.parallel import parallel_map
from lmgp.utils.progress import tried_kernel

# Of samples of this number of rows, the exact likelihood is taken to begin with.
FIRST_ROWS = 500
# A climb starts at one of this number of random points of the prior. The second number of them, the likeliest of the
# third number of rows, race: each takes these numbers of steps, and after each number the half of larger evidence goes
# on. Of the last ones, the likeliest start is taken that has no less than the largest evidence but for the last number
# of nats: more would be strong by Kass and Raftery (1995).
POINTS, RACING, RACE_ROWS, RACE_STEPS, STRONG_EVIDENCE = 200, 32, 250, (1, 2, 4, 8), 3.0
# The Vecchia likelihood of all rows is climbed from the mean of the ends of climbs by this number of samples of as many
# rows, each of which is overfitted by itself.
N_SAMPLES = 4

# Positions and neighbours of the Vecchia likelihood whose information steers a climb of the exact one of so few rows.
INFORMATION = 500, 30
# The Vecchia likelihood of all rows has at most this number of positions, of as many neighbours each. Its cost grows
# about as the number of positions times the square of that of the neighbours, and is the third number at most. It is
# climbed twice, with half of the neighbours first, for most steps need no more. Errors have a t in the second climb
# alone: at the start of the first one they tell how far off that start is. The exact likelihood, which takes normal
# errors, is climbed in place of the second; up to `FIRST_ROWS` rows of the first.
MOST_POSITIONS, MOST_NEIGHBORS, MOST_SQUARES = 20_000, 64, 40_000_000
# Of more columns than the last of these numbers, as many have lengthscales of their own as is likeliest. Climbs that
# tell take at most this number of steps, for lengthscales need not be exact to be compared, and are steered by the
# information of the Vecchia likelihood with this number of neighbours of each row.
NUMBERS, SCREENING_STEPS, SCREENING_NEIGHBORS = (0, 1, 2, 5, 10, 20), 20, 10
# At most this number of rows is factorised together where predictions are from nearest rows.
MOST_TOGETHER = 4096


@dataclass(frozen=True)
class Search:
    """Learns the parameters of forms.

    Parameters
    ----------
    rows : Rows
        With y centred.
    units : Units
    noise_variance : float or None
        One that is given.
    exact : bool
        Whether the likelihood of rows with normal errors is the exact one, or Vecchia's.
    draw : int
        Of the order of the rows, see `lmgp.data.sampling`.
    tails : bool, default=False
        Whether errors may have a t, in Vecchia's likelihood, where that pays.
    """

    rows: Rows
    units: Units
    noise_variance: float | None
    exact: bool
    draw: int
    tails: bool = False

    def optimum(self, form: Form) -> Climb:
        """Maximise the likelihood, from the best of random starting points."""
        begin, space = perf_counter(), Space(form, self.units, self.noise_variance)
        order = sampling(self.draw).permutation(len(self.rows))
        size, n_samples = min(FIRST_ROWS, len(order)), N_SAMPLES if len(order) > FIRST_ROWS else 1
        samples = [self.rows.take(np.roll(order, -first)[:size]) for first in range(0, n_samples * size, size)]
        space, start, n_own = screened(samples, space, self._start(space, samples[0]), len(self.rows))
        climb = self._climbed(space, samples, start)
        n, objective = climb.objective.n_rows, climb.objective
        trial = Trial(
            form.name, form.ard and n_own != 0, len(climb.free), objective.name, n, objective.n_neighbors,
            climb.value / n, objective.standard_error(climb.at.terms), seconds=perf_counter() - begin, n_own=n_own or 0,
        )  # fmt: skip
        # Vecchia's likelihood factorises few rows at a time, and predictions more.
        diagonal = climb.space.kernel(climb.free).evaluate_diagonal(self.rows.X)
        least = ROUNDING * min(len(self.rows), MOST_TOGETHER) * diagonal.max() / self.units.variance
        is_low = (climb.space.kinds == "noise") & (np.exp(climb.free) < least)
        if is_low.any():
            climb.free = np.where(is_low, math.log(least), climb.free)
            del climb.at
        climb.trial = tried_kernel(trial)
        return climb

    def _climbed(self, space: Space, samples: Sequence[Rows], start: Floats) -> Climb:
        if not space.form.kernel.can("metric"):
            return Climb(ExactObjective(self.rows, space), start).go_on()
        n = min(len(self.rows), MOST_POSITIONS)
        most = min(MOST_NEIGHBORS, math.isqrt(MOST_SQUARES // n))
        half, whole = (VecchiaLikelihood(self.rows, n, each, sampling(self.draw)) for each in (most // 2, most))
        if not self.exact:
            small = replace(space, least_noise=LEAST_SCALE)
            ends = parallel_map(lambda sample: Climb(self._objective(sample, small), start).go_on().free, samples)
            start = np.mean(ends, axis=0)
        few = self.exact and len(self.rows) <= FIRST_ROWS
        first = Climb(self._objective(self.rows, space) if few else VecchiaObjective(half, space), start).go_on()
        climb = Climb(VecchiaObjective(whole, space, self.tails), first.free)
        if not self.exact:
            return climb.go_on()
        # The information of Vecchia's likelihood steers the climb of the exact one, too.
        exact = ExactObjective(self.rows, space, half)
        if math.isfinite(climb.objective.degrees) and climb.go_on().at.value > exact.value(first.free):
            return climb
        if few:
            return first
        last = Climb(exact, first.free)
        # All rows together may have no Cholesky factor where those near to each have one.
        return (last if math.isfinite(last.at.value) else Climb(exact, start)).go_on()

    def _start(self, space: Space, rows: Rows) -> Floats:
        """Return the likeliest starting point whose climb has nearly the largest evidence, by successive halving.

        How high a point is says little of the summit behind it, and a high summit of few rows may be a narrow one.

        References
        ----------
        K. Jamieson and A. Talwalkar, *Non-Stochastic Best Arm Identification and Hyperparameter Optimization*, AISTATS
        2016.
        """
        # That a kernel meets few rows exactly says nothing of how small the noise of all rows is.
        space = space if self.exact else replace(space, least_noise=LEAST_SCALE)
        some, points = rows.take(slice(RACE_ROWS)), starting_points(space, self.rows)
        if np.all(points == points[0]):  # of what is given
            return points[0]
        likelihood = ExactObjective(some, space)
        values = np.array(parallel_map(likelihood.value, list(points)))
        likeliest = list(points[np.argsort(-values, kind="stable")[:RACING]])
        if not (space.form.named and space.form.kernel.can("metric") and is_narrow(space)):
            return likeliest[0]
        climbs = parallel_map(lambda start: Climb(quick_objective(some, space), start), likeliest)

        def evidence(steps: int, climb: Climb) -> float:
            climb.go_on(steps)
            return climb.log_evidence() if math.isfinite(climb.at.value) else -math.inf

        racing = np.arange(len(climbs))
        for steps in RACE_STEPS:
            last, evidences = racing, np.array(parallel_map(partial(evidence, steps), [climbs[i] for i in racing]))
            racing = np.sort(last[np.argsort(-evidences, kind="stable")[: len(last) // 2]])
        return likeliest[last[np.argmax(evidences > np.nanmax(evidences) - STRONG_EVIDENCE)]]

    def _objective(self, rows: Rows, space: Space) -> ExactObjective:
        return ExactObjective(rows, space, VecchiaLikelihood(rows, *INFORMATION, sampling(self.draw)))


def quick_objective(rows: Rows, space: Space) -> ExactObjective:
    """Return the exact likelihood of few rows, for climbs that need not come to their ends."""
    return ExactObjective(rows, space, VecchiaLikelihood(rows, len(rows), SCREENING_NEIGHBORS, sampling()))


def starting_points(space: Space, rows: Rows) -> Floats:
    """Draw points around the median of the prior, each with some of the likely periods.

    The logarithm of a lengthscale is the sum of what all have in common, which is nearer to the median than the prior
    has it, of what its part has, and of a random share, which a point has for all of them, of what its column and it
    alone have: columns that say little have lengthscales that are close to each other. Columns in any order have the
    same points. A kernel that is given keeps its own lengthscales, variances and periods: then the noise alone is
    drawn.

    Parameters
    ----------
    space : Space
    rows : Rows
        With y centred.

    Returns
    -------
    ndarray of shape (POINTS, n_free)
    """
    rng, named, (scales, parts, columns) = sampling(), space.form.named, space.lengthscales
    points = np.tile(space.median, (POINTS, 1))
    for kind, deviation in ("noise", PRIOR_DEVIATION), ("variance", OWN_DEVIATION * named):
        drawn = space.kinds == kind
        points[:, drawn] += deviation * rng.standard_normal((np.count_nonzero(drawn), POINTS)).T
    if named and len(scales):
        # Columns that are constant come last, and leave the points of all others as they are.
        of_columns = rows.X.T[np.unique(space.labels[scales, 1])]
        places, n_parts = np.argsort(column_order(of_columns)[::-1])[columns], int(parts.max()) + 1
        share, common = rng.uniform(size=POINTS), rng.standard_normal(POINTS)
        of_parts, own = (
            rng.standard_normal((*shape, POINTS)) for shape in ((n_parts,), (len(of_columns), n_parts + 1))
        )
        offsets = common + of_parts[parts] + share * (own[places, parts] + own[places, n_parts])
        points[:, scales] += OWN_DEVIATION * offsets.T
    at = np.flatnonzero((space.kinds == "period") & named)
    if len(at):
        of_terms, columns = space.labels[at].T
        _, term = np.unique(of_terms, return_inverse=True)
        candidates, n_terms = np.log(likely_periods(rows)), int(term.max()) + 1
        if n_terms > len(candidates):
            raise InputError(
                f"Periods are looked for in up to {len(candidates)} periodic terms; got {n_terms}. Give a kernel "
                "object, whose period_bounds=(low, high) say where each period is."
            )
        periods = [np.array(of_terms)[term, columns] for of_terms in permutations(candidates, n_terms)]
        points[:, at] = np.resize(periods, (POINTS, len(at))) - space.log_units[at]
    return points


def is_narrow(space: Space) -> bool:
    """Say whether columns are so few that each has lengthscales of its own."""
    return len(np.unique(space.lengthscales[2])) <= NUMBERS[-1]


def screened(samples: Sequence[Rows], space: Space, start: Floats, n_rows: int) -> tuple[Space, Floats, int | None]:
    """Let most of many columns share a lengthscale in each part of a named form.

    Climbs by samples of the rows, in which each column has one lengthscale for all parts, rank the columns by the mean
    of its logarithm. Then the first of this ranking have lengthscales of their own, and all others share one, in their
    standard deviations: as many as have the largest evidence, by Laplace's approximation, less the logarithm of the
    number of choices of as many columns, for the best of many columns are better by chance.

    Parameters
    ----------
    samples : sequence of Rows
        Of the rows that are to be learned from; the first one tells the evidence.
    space : Space
        Of all lengthscales.
    start : ndarray of shape (n_free,)
        Where the climbs that rank the columns begin.
    n_rows : int
        The number of all rows, for which the evidence is to stand.

    Returns
    -------
    space : Space
        In which most of many columns share a lengthscale in each part; the same, where columns are few, or the kernel
        has no metric.
    start : ndarray of shape (n_free,)
        A point there.
    n_own : int or None
        The number of columns with lengthscales of their own; None where nothing was screened.

    References
    ----------
    J. Chen and Z. Chen, *Extended Bayesian Information Criteria for Model Selection with Large Model Spaces*,
    Biometrika 95, 2008.
    """
    scales, parts, columns = space.lengthscales
    _, first = np.unique(columns, return_index=True)
    if is_narrow(space) or not (space.form.named and space.form.kernel.can("metric")):
        return space, start, None
    ends = np.mean(parallel_map(lambda rows: _climbed_tied(rows, space, columns, start)[1], samples), axis=0)
    rank = np.argsort(np.argsort(ends[scales[first]], kind="stable"))

    def score(number: int) -> tuple[float, int, Floats]:
        climb, free = _climbed_tied(samples[0], space, np.minimum(rank, number)[columns], ends)
        evidence = climb.log_evidence(n_rows / len(samples[0]))
        return evidence - math.log(math.comb(len(first), number)), number, free

    _, n_own, free = max(parallel_map(score, NUMBERS), key=lambda scored: scored[0])
    labels = np.minimum(rank, n_own)[columns] + (n_own + 1) * parts
    return *_tied(space, labels, free)[:2], n_own


def _climbed_tied(rows: Rows, space: Space, labels: Indices, start: Floats) -> tuple[Climb, Floats]:
    """Climb where lengthscales of one label are one number; return the end in the space of all, too."""
    tied, start, places = _tied(space, labels, start)
    climb = Climb(quick_objective(rows, tied), start).go_on(SCREENING_STEPS)
    return climb, climb.free[places]


def _tied(space: Space, labels: Indices, start: Floats) -> tuple[Space, Floats, Indices]:
    """Let lengthscales of one label be one number, at first the mean of their logarithms.

    Returns the space, the point there, and which of its numbers each number of the space of all lengthscales is.
    """
    _, first, of_label = np.unique(labels, return_index=True, return_inverse=True)
    (scales, *_), start, behind = space.lengthscales, start.copy(), np.arange(len(start))
    start[scales] = (np.bincount(of_label, start[scales]) / np.bincount(of_label))[of_label]
    behind[scales] = scales[first[of_label]]
    kept, places = np.unique(behind, return_inverse=True)
    form = replace(space.form, ties=places[space.form.ties])
    return replace(space, form=form), start[kept], places
