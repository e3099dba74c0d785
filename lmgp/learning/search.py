"""The optimum of a form: the maximum of its likelihood of all rows, with the prior."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from time import perf_counter

import numpy as np

from lmgp.data import Floats, Indices, Rows, sampling
from lmgp.errors import InputError
from lmgp.learning.forms import Form
from lmgp.learning.periods import likely_periods
from lmgp.learning.record import Trial
from lmgp.learning.scoring import Climb, ExactObjective, VecchiaObjective
from lmgp.learning.space import CLOSE_DEVIATION, LEAST_SCALE, OWN_DEVIATION, PRIOR_DEVIATION, Space, Units
from lmgp.neighbours.placement import column_order
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.linalg import ROUNDING
from lmgp.utils.parallel import parallel_map
from lmgp.utils.progress import tried_kernel

# A climb starts at the best of these points, by the exact likelihood of samples of this number of rows: a lengthscale
# for all columns and parts, in √d standard deviations, and a noise variance, in variances of y.
FIRST_ROWS = 500
LENGTHSCALES, NOISES = (0.03, 0.1, 0.3, 1.0, 3.0), (0.02, 0.3)
# The best points of each noise, and the second number of the likeliest of the first number of random ones, are compared
# after the third number of steps, with the fourth number of rows. Another one than the best is taken where it ends
# higher by the fifth number of nats.
RANDOM, RACING, RACE_STEPS, RACE_ROWS, FAR_HIGHER = 60, 6, 10, 250, 10.0
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
# Few rows are learned from with the prior of close lengthscales, or from the end of a second climb, where the evidence
# for that is the first number of nats, which is strong by Kass and Raftery (1995). Where the evidence against that
# prior, by a quadratic likelihood, is more than the second number, it is not tried.
STRONG_EVIDENCE, HOPELESS = 3.0, 10.0
# Below this noise variance, in variances of y, summits of the exact likelihood may be far apart, and a climb ends where
# a rough part has what a smooth one explains better. Then it is climbed where parts share their lengthscales, too.
LITTLE_NOISE = 1e-3
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
    close : bool, default=False
        Whether the prior may be that of lengthscales that are close to each other, where rows of the exact likelihood
        ask for it. Likelihoods that are to be compared need the same prior.
    race : bool, default=True
        Whether other starting points race against the best one.
    """

    rows: Rows
    units: Units
    noise_variance: float | None
    exact: bool
    draw: int
    tails: bool = False
    close: bool = False
    race: bool = True

    def optimum(self, form: Form) -> Climb:
        """Maximise the likelihood, from the best of some starting points."""
        begin, space = perf_counter(), Space(form, self.units, self.noise_variance)
        order = sampling(self.draw).permutation(len(self.rows))
        size, n_samples = min(FIRST_ROWS, len(order)), N_SAMPLES if len(order) > FIRST_ROWS else 1
        samples = [self.rows.take(np.roll(order, -first)[:size]) for first in range(0, n_samples * size, size)]
        starts = self._best_starts(space, samples[:1] if self.exact else samples)
        space, start, n_own = screened(samples, space, starts[0], len(self.rows))
        # The climb from the best start may end on a lower summit than that from the best start of other lengthscales.
        few = form.named and self.close and self.exact and n_samples == 1 and n_own is None
        climb, *others = parallel_map(lambda free: self._climbed(space, samples, free), starts if few else [start])
        for other in others:
            if other.log_evidence(other.space) > climb.log_evidence(climb.space) + STRONG_EVIDENCE:
                climb = other
        several_parts = form.named and len(form.parts) > 1 and form.kernel.can("metric")
        if self.exact and several_parts and space.noise_variance(climb.free) < LITTLE_NOISE * self.units.noise:
            # What is higher with fewer free numbers lies on the slope of a higher summit.
            end = end_with_shared_lengthscales(samples[0], space, start)
            if climb.objective.value(end) > climb.at.value:
                climb = self._climbed(space, samples, end)
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
        first = self._first(space, half, start)
        space = first.space
        climb = Climb(VecchiaObjective(whole, space, self.tails), first.free)
        if not self.exact:
            return climb.go_on()
        # The information of Vecchia's likelihood steers the climb of the exact one, too.
        exact = ExactObjective(self.rows, space, half)
        if math.isfinite(climb.objective.degrees) and climb.go_on().at.value > exact.value(first.free):
            return climb
        if isinstance(first.objective, ExactObjective):
            return first
        last = Climb(exact, first.free)
        # All rows together may have no Cholesky factor where those near to each have one.
        return (last if math.isfinite(last.at.value) else Climb(exact, start)).go_on()

    def _first(self, space: Space, half: VecchiaLikelihood, start: Floats) -> Climb:
        """Climb Vecchia's likelihood, or the exact one of few rows, with the prior that the rows ask for."""
        few = self.exact and len(self.rows) <= FIRST_ROWS

        def climbed(space: Space, start: Floats) -> Climb:
            objective = self._objective(self.rows, space) if few else VecchiaObjective(half, space)
            return Climb(objective, start).go_on()

        apart = climbed(space, start)
        if not (self.exact and self.close and len(space.lengthscales[0]) > 1):
            return apart
        close = replace(space, own_deviation=CLOSE_DEVIATION)
        evidence = apart.log_evidence(space)
        if apart.log_evidence(close) < evidence - HOPELESS:
            return apart
        together = climbed(close, apart.free)
        return together if together.log_evidence(close) > evidence + STRONG_EVIDENCE else apart

    def _best_starts(self, space: Space, samples: Sequence[Rows]) -> list[Floats]:
        """Return the best of the starting points by the exact likelihoods of samples, and the best of another place."""
        starts = list(starting_points(space, self.rows))
        of_samples = [ExactObjective(some, space) for some in samples]
        values = np.array(parallel_map(lambda free: sum(each.value(free) for each in of_samples), starts))
        ranked = [starts[i] for i in np.argsort(-values, kind="stable")]
        others = [start for start in ranked if np.any((start != ranked[0])[space.kinds != "noise"])]
        return [self._race_winner(space, samples[0], ranked), *others[:1]]

    def _race_winner(self, space: Space, rows: Rows, ranked: Sequence[Floats]) -> Floats:
        """Return the best start; or one of another noise or a random one, if a few steps from there lead far higher.

        How high a point is says little of the summit behind it, and where a function is rough along some columns and
        smooth along others, no start of one lengthscale is near the highest.
        """
        n_columns = len(np.unique(space.lengthscales[2]))
        if not (self.race and space.form.named and space.form.kernel.can("metric")) or n_columns > NUMBERS[-1]:
            return ranked[0]
        # That a kernel meets few rows exactly says nothing of how small the noise of all rows is.
        space = space if self.exact else replace(space, least_noise=LEAST_SCALE)
        some = rows.take(slice(RACE_ROWS))
        noises = [start[space.kinds == "noise"].sum() for start in ranked]
        of_noises = [ranked[i] for i in np.unique(noises, return_index=True)[1]]
        drawn, objective = random_points(space, self.rows, ranked[0]), quick_objective(some, space)
        likeliest = np.argsort(parallel_map(lambda free: -objective.value(free), list(drawn)), kind="stable")[:RACING]
        points = list({tuple(point): point for point in (ranked[0], *of_noises, *drawn[likeliest])}.values())
        ends = parallel_map(lambda free: Climb(quick_objective(some, space), free).go_on(RACE_STEPS).at.value, points)
        last = int(np.argmax(ends))
        return points[last] if ends[last] > ends[0] + FAR_HIGHER else points[0]

    def _objective(self, rows: Rows, space: Space) -> ExactObjective:
        return ExactObjective(rows, space, VecchiaLikelihood(rows, *INFORMATION, sampling(self.draw)))


def quick_objective(rows: Rows, space: Space) -> ExactObjective:
    """Return the exact likelihood of few rows, for climbs that need not come to their ends."""
    return ExactObjective(rows, space, VecchiaLikelihood(rows, len(rows), SCREENING_NEIGHBORS, sampling()))


def random_points(space: Space, rows: Rows, start: Floats) -> Floats:
    """Draw points around the median of the prior, shape (RANDOM, n_free), with the periods of a start.

    The logarithm of a lengthscale is a sum of what all have in common, those of its part, those of its column, and it
    alone. Columns in any order have the same points.
    """
    rng, d, (scales, parts, _) = sampling(), rows.X.shape[1], space.lengthscales
    places, n_parts = np.argsort(column_order(rows.X.T))[space.labels[scales, 1]], int(parts.max()) + 1
    shapes = (1, 1), (n_parts, 1), (1, d), (n_parts, d)
    common, of_parts, of_columns, of_pairs = (rng.standard_normal((RANDOM, *shape)) for shape in shapes)
    offsets = rng.standard_normal((RANDOM, len(start)))
    offsets[:, scales] = (common + of_parts + of_columns + of_pairs)[:, parts, places]
    offsets *= np.where(space.kinds == "noise", PRIOR_DEVIATION, OWN_DEVIATION)
    return np.where(np.isin(space.kinds, ("lengthscale", "variance", "noise")), space.median + offsets, start)


def starting_points(space: Space, rows: Rows) -> Iterator[Floats]:
    """Go through the starting points, each with each of the likely periods; of several periodic parts, with others.

    A kernel that is given starts from its own lengthscales and periods.

    Parameters
    ----------
    space : Space
    rows : Rows
        With y centred.
    """
    named, (at,) = space.form.named, np.nonzero((space.kinds == "period") & space.form.named)
    periods = [space.median[at]]
    if len(at):
        parts, columns = space.labels[at].T
        _, part = np.unique(parts, return_inverse=True)
        candidates, n_parts = np.log(likely_periods(rows)), int(part.max()) + 1
        if n_parts > len(candidates):
            raise InputError(
                f"Periods are looked for in up to {len(candidates)} periodic terms; got {n_parts}. Give a kernel "
                "object, whose period_bounds=(low, high) say where each period is."
            )
        chosen = permutations(candidates, n_parts)
        periods = [np.array(of_parts)[part, columns] - space.log_units[at] for of_parts in chosen]
    for by, noise, period in product(np.log(LENGTHSCALES) if named else [0.0], NOISES, periods):
        start = space.median + np.where(space.kinds == "lengthscale", by, 0.0)
        start[space.kinds == "noise"], start[at] = math.log(noise), period
        yield start


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
    if len(first) <= NUMBERS[-1] or not (space.form.named and space.form.kernel.can("metric")):
        return space, start, None
    ends = np.mean(parallel_map(lambda rows: end_with_shared_lengthscales(rows, space, start), samples), axis=0)
    rank = np.argsort(np.argsort(ends[scales[first]], kind="stable"))

    def score(number: int) -> tuple[float, int, Floats]:
        climb, free = _climbed_tied(samples[0], space, np.minimum(rank, number)[columns], ends)
        evidence = climb.log_evidence(climb.space, n_rows / len(samples[0]))
        return evidence - math.log(math.comb(len(first), number)), number, free

    _, n_own, free = max(parallel_map(score, NUMBERS), key=lambda scored: scored[0])
    labels = np.minimum(rank, n_own)[columns] + (n_own + 1) * parts
    return *_tied(space, labels, free)[:2], n_own


def end_with_shared_lengthscales(rows: Rows, space: Space, start: Floats) -> Floats:
    """Climb the likelihood of some rows where each column has one lengthscale for all parts; return the end."""
    return _climbed_tied(rows, space, space.lengthscales[2], start)[1]


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
