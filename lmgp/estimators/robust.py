"""Rows that are weighted under a noise with heavy tails: outliers bend a fit less."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from lmgp.data import Floats, Indices, Noise, Predicted, Rows, sampling
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import ObservationNoise
from lmgp.kernels.base import Kernel
from lmgp.learning.heldout import N_NEIGHBORS
from lmgp.learning.space import LEAST_SCALE
from lmgp.neighbours.duplicates import steady_order
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.utils.student import mean_gain, pays

# Each row is weighted by what this number of nearest rows predict. The weights settle within some rounds, and in each
# round the own weight of a row within some steps.
NEIGHBORS, ROUNDS, STEPS = 16, 3, 10
# Whether weights pay, at least this number of rows say, or all of fewer: a fifth of the rows is left out at a time, at
# most the second number.
LEFT_OUT, MOST_AT_A_TIME, N_FOLDS = 2000, 4000, 5
# Weights gain at least this many nats a row: where errors are skewed, they move means towards the most likely value.
LEAST_GAIN = 0.03
# σ² is multiplied or divided by this as often as that pays.
FACTOR = 4.0


class RobustGain(NamedTuple):
    """What rows left out gain by weights.

    Attributes
    ----------
    alike : ObservationNoise
        The t of errors of predictions from rows that are not weighted.
    gain, standard_error : float
        In nats a row, each time under a t.
    """

    alike: ObservationNoise
    gain: float
    standard_error: float


class RobustRows(NamedTuple):
    """Rows that are weighted under the noise of a Student t, with its σ², and what that gains."""

    rows: Rows
    noise_variance: float
    gain: RobustGain


def robust_rows(
    rows: Rows, kernel: Kernel, noise_variance: float, learns_noise: bool, wanted: bool
) -> RobustRows | None:
    """Weight rows of one target under the noise of a Student t, by variational EM.

    A t of ν degrees of freedom and scale σ is a normal distribution of variance σ²/λ, with a λ of each row that has a
    gamma distribution of mean 1. Where the function has the mean m and the variance v at a row, its λ has the mean
    (ν + 1)/(ν + ((y − m)² + v)/σ²): the weight of the row, small for an outlier. m and v are what the nearest rows
    predict, and what the row itself adds. σ² is the multiple, by a power of four, of where it begins that predicts rows
    left out best: rounds of EM would keep it near there.

    Weights settle among rows that then predict the others: how much a row pulls follows from the rows around it, so
    that nothing else is honest.

    Parameters
    ----------
    rows : Rows
        With a centred target. Weights of their own multiply those of λ.
    kernel : Kernel
    noise_variance : float
        Where the σ² of all rows begins.
    learns_noise : bool
        Whether it is learned; otherwise it stays, as those that rows bring.
    wanted : bool
        Whether weights are wanted in any case, or only where rows left out are predicted better.

    Returns
    -------
    RobustRows or None
        None where weights do not pay, or rows are too few to tell.

    References
    ----------
    M. E. Tipping and N. D. Lawrence, *Variational Inference for Student-t Models: Robust Bayesian Interpolation and
    Generalised Component Analysis*, Neurocomputing 69, 2005.
    """
    n, order = len(rows), steady_order(rows)[sampling(0, 3).permutation(len(rows))]
    size = min(MOST_AT_A_TIME, -(-n // N_FOLDS))
    held = [order[first : first + size] for first in range(0, min(n, LEFT_OUT), size)]
    folds = [_Fold.of(rows, some, kernel, noise_variance) for some in held]
    alike = _joined(folds)
    student, before = ObservationNoise.fitted("student", alike)
    if not student.trials:
        return None
    tails, degrees = student.chosen, student.degrees
    if not (wanted or pays(tails.gain, tails.standard_error, student.n_rows)):
        return None
    least = LEAST_SCALE * rows.mean_weight * float(rows.Y.var()) if learns_noise else 0.0
    variance = max(noise_variance, least)
    folds = [fold.settled(degrees, variance, ROUNDS) for fold in folds]
    after = _densities(folds)
    factors: tuple[float, ...] = (FACTOR, 1.0 / FACTOR) if learns_noise else ()
    while factors and factors[0] * variance >= least:
        moved = [fold.settled(degrees, factors[0] * variance, 1) for fold in folds]
        densities = _densities(moved)
        if pays(*mean_gain(after, densities, alike.weights), student.n_rows):
            folds, after, variance, factors = moved, densities, factors[0] * variance, factors[:1]
        else:
            factors = factors[1:]
    gain, error = mean_gain(before, after, alike.weights)
    if not (wanted or (pays(gain, error, student.n_rows) and gain > LEAST_GAIN)):
        return None
    gains = RobustGain(student, gain, error)
    return RobustRows(_weighted(rows, folds[0].precisions), variance, gains)


@dataclass(frozen=True, eq=False)
class _Fold:
    """Rows with the mean λ of each, where those that are held have no part in those of the others.

    Attributes
    ----------
    rows : Rows
    held, others : ndarray of int

    process : ExactPosterior or NearestPosterior
        Of the other rows, weighted, with σ² as the noise variance.
    precisions : ndarray of shape (n,)
        λ.
    """

    rows: Rows
    held: Indices
    others: Indices

    process: ExactPosterior | NearestPosterior
    precisions: Floats

    @classmethod
    def of(cls, rows: Rows, held: Indices, kernel: Kernel, noise_variance: float) -> Self:
        """Begin with rows that are not weighted."""
        others, noise = np.setdiff1d(np.arange(len(rows)), held), Noise(noise_variance)
        rest = rows.take(others)
        process: ExactPosterior | NearestPosterior = (
            NearestPosterior(kernel, rest, noise, NEIGHBORS, share=False, precision="float32")
            if kernel.can("metric")
            else ExactPosterior(kernel, rest, noise)
        )
        return cls(rows, held, others, process, np.ones(len(rows)))

    @cached_property
    def predicted(self) -> Predicted:
        """The rows that are held, from the nearest of the others, or from all of them where none are near."""
        some, process = self.rows.take(self.held), self.process
        if isinstance(process, NearestPosterior):
            process = process.with_neighbors(N_NEIGHBORS)
        return process.noise.observed(some, *process.distribution(some.X), True)

    def settled(self, degrees: float, variance: float, rounds: int) -> Self:
        """Go on with a σ² for some rounds over the others, which then tell the λ of those that are held."""
        others, precisions = self.others, self.precisions.copy()
        rest, noise = self.rows.take(others), Noise(variance)
        process = self.process.with_weights(_weights(rest, precisions[others]), noise)
        for _ in range(rounds):
            scales = noise.of_observations(rest)
            precisions[others] = _precisions(rest, *process.leave_one_out(), precisions[others], noise, scales, degrees)
            process = process.with_weights(_weights(rest, precisions[others]), noise)
        fold = replace(self, process=process, precisions=precisions)
        some, _, means, std, _ = fold.predicted
        scales = noise.of_observations(some)
        variances = np.square(std[:, 0]) - scales
        precisions[self.held] = _precisions(some, means, variances, precisions[self.held], noise, scales, degrees)
        return fold


def _joined(folds: Sequence[_Fold]) -> LeftOut:
    return LeftOut.of([fold.predicted for fold in folds])


def _densities(folds: Sequence[_Fold]) -> Floats:
    """Return the log densities of the rows that are held, under a t."""
    return ObservationNoise.fitted("student", _joined(folds))[1]


def _weights(rows: Rows, precisions: Floats) -> Floats:
    return precisions if rows.weights is None else rows.weights * precisions


def _weighted(rows: Rows, precisions: Floats) -> Rows:
    measurements = np.ones(len(rows)) if rows.measurements is None else rows.measurements
    return replace(rows, weights=_weights(rows, precisions), measurements=measurements)


def _precisions(
    rows: Rows, means: Floats, variances: Floats, precisions: Floats, noise: Noise, scales: Floats, degrees: float
) -> Floats:
    """Return the mean λ of rows that are predicted without themselves, with the noise variances `scales`."""
    errors = rows.Y[:, 0] - means[:, 0]
    for _ in range(STEPS):
        noises = noise.of_weighted_rows(_weighted(rows, precisions))
        share = noises / (variances + noises)  # of the error that remains where the row itself has a part
        squares = np.square(share * errors) + variances * share
        precisions = (degrees + 1.0) / (degrees + squares / scales)
    return precisions
