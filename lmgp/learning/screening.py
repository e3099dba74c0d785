"""Screening of many columns: which of them have lengthscales of their own."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lmgp.data import Floats, Indices, Rows, sampling
from lmgp.learning.scoring import Climb, ExactObjective
from lmgp.learning.space import Space
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.parallel import parallel_map

# Of more columns than the last of these numbers, as many have lengthscales of their own as is likeliest.
NUMBERS = 0, 1, 2, 5, 10, 20
# Each climb takes at most this number of steps: lengthscales need not be exact to be compared.
STEPS = 20
# The neighbours of each row in the Vecchia likelihood whose information steers these climbs.
NEIGHBORS = 10


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
    scales, parts, columns = _lengthscales(space)
    n = len(np.unique(columns))
    if n <= NUMBERS[-1] or not (space.form.named and space.form.kernel.can("metric")):
        return space, start, None
    ends = np.mean(parallel_map(lambda rows: end_with_shared_lengthscales(rows, space, start), samples), axis=0)
    lengthscales = np.empty(n)
    lengthscales[columns] = ends[scales]
    rank = np.argsort(np.argsort(lengthscales, kind="stable"))

    def score(number: int) -> tuple[float, int, Floats]:
        climb, free = _climbed(samples[0], space, np.minimum(rank, number)[columns], ends)
        evidence = climb.log_evidence(climb.space, n_rows / len(samples[0]))
        return evidence - math.log(math.comb(n, number)), number, free

    _, n_own, free = max(parallel_map(score, NUMBERS), key=lambda scored: scored[0])
    labels = np.minimum(rank, n_own)[columns] + (n_own + 1) * parts
    return *_tied(space, scales, labels, free)[:2], n_own


def end_with_shared_lengthscales(rows: Rows, space: Space, start: Floats) -> Floats:
    """Climb the likelihood of some rows where each column has one lengthscale for all parts; return the end."""
    return _climbed(rows, space, _lengthscales(space)[2], start)[1]


def _climbed(rows: Rows, space: Space, labels: Indices, start: Floats) -> tuple[Climb, Floats]:
    """Climb where lengthscales of one label are one number; return the end in the space of all, too."""
    tied, start, places = _tied(space, _lengthscales(space)[0], labels, start)
    likelihood = VecchiaLikelihood(rows, len(rows), NEIGHBORS, sampling())
    climb = Climb(ExactObjective(rows, tied, likelihood), start).go_on(STEPS)
    return climb, climb.free[places]


def _lengthscales(space: Space) -> tuple[Indices, Indices, Indices]:
    """Return which numbers of a space are lengthscales, and the part and the column of each, counted from 0."""
    (scales,) = np.nonzero(space.kinds == "lengthscale")
    parts, columns = space.labels[scales].T
    return scales, parts, np.unique(columns, return_inverse=True)[1]


def _tied(space: Space, scales: Indices, labels: Indices, start: Floats) -> tuple[Space, Floats, Indices]:
    """Let lengthscales of one label be one number, at first the mean of their logarithms.

    Returns the space, the point there, and which of its numbers each number of the space of all lengthscales is.
    """
    _, first, of_label = np.unique(labels, return_index=True, return_inverse=True)
    start, behind = start.copy(), np.arange(len(start))
    start[scales] = (np.bincount(of_label, start[scales]) / np.bincount(of_label))[of_label]
    behind[scales] = scales[first[of_label]]
    kept, places = np.unique(behind, return_inverse=True)
    form = replace(space.form, ties=places[space.form.ties])
    return replace(space, form=form), start[kept], places
