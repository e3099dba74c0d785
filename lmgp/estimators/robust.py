"""Rows that are weighted under a noise with heavy tails: outliers bend a fit less."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lmgp.data import Floats, Indices, Noise, Rows, sampling
from lmgp.distributions.left_out import LeftOut, Predicted
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
# Whether weights pay, this number of rows say, or all of fewer: a fifth of the rows, or this number, is left out at a
# time. Where errors are skewed, weights move means towards the most likely value: of more rows, whose standard errors
# are small, a gain is to be this number of them.
LEFT_OUT, N_FOLDS, SIGNIFICANT = 2000, 5, 3.0


class RobustGain(NamedTuple):
    """What rows left out gain by weights.

    Attributes
    ----------
    normal : ObservationNoise
        The noise around predictions from rows that are not weighted.
    gain, standard_error : float
        In nats a row, each time under a t.
    """

    normal: ObservationNoise
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
    (ν + 1)/(ν + ((y − m)² + v)/σ²): the weight of the row, small for an outlier. The next σ² is the mean of
    λ ((y − m)² + v). m and v are what the nearest rows predict, and what the row itself adds.

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
    size = min(LEFT_OUT, -(-n // N_FOLDS))
    folds = [order[first : first + size] for first in range(0, min(n, LEFT_OUT), size)]
    alike = LeftOut.of([_left_out(rows, held, np.ones(n), kernel, noise_variance) for held in folds])
    student, before = ObservationNoise.fitted("student", alike)
    if not student.trials:
        return None
    tails = student.chosen
    if not (wanted or pays(tails.gain, tails.standard_error, student.n_rows)):
        return None
    settled = [_settled(rows, held, kernel, noise_variance, student.degrees, learns_noise) for held in folds]
    _, after = ObservationNoise.fitted("student", LeftOut.of([predicted for *_, predicted in settled]))
    gain, error = mean_gain(before, after, alike.weights)
    if not (wanted or pays(gain, error if n <= LEFT_OUT else SIGNIFICANT * error, student.n_rows)):
        return None
    precisions, variance, _ = settled[0]
    normal, _ = ObservationNoise.fitted("auto", alike)
    return RobustRows(_weighted(rows, precisions), variance, RobustGain(normal, gain, error))


def _settled(
    rows: Rows, held: Indices, kernel: Kernel, variance: float, degrees: float, learns_noise: bool
) -> tuple[Floats, float, Predicted]:
    """Return the mean λ of each row, σ², and predictions of the rows that are held.

    Rounds go over the others. They predict those that are held, whose λ follow from these predictions.
    """
    kept, precisions = np.setdiff1d(np.arange(len(rows)), held), np.ones(len(rows))
    rest, least = rows.take(kept), LEAST_SCALE * float(rows.Y.var())
    process = _process(rest, kernel, variance, NEIGHBORS)
    for _ in range(ROUNDS):
        process = process.with_weights(_weights(rest, precisions[kept]), Noise(variance))
        precisions[kept], squares = _precisions(rest, *process.leave_one_out(), precisions[kept], variance, degrees)
        if learns_noise:
            variance = max(float(np.average(precisions[kept] * squares, weights=rest.weights)), least)
    some, _, means, std, _ = predicted = _left_out(rows, held, precisions, kernel, variance)
    variances = np.square(std[:, 0]) - Noise(variance).of_rows(some).numpy()
    precisions[held], _ = _precisions(some, means, variances, precisions[held], variance, degrees)
    return precisions, variance, predicted


def _left_out(rows: Rows, held: Indices, precisions: Floats, kernel: Kernel, noise_variance: float) -> Predicted:
    """Predict some rows from the nearest of all others, which are weighted."""
    rest, some = np.setdiff1d(np.arange(len(rows)), held), rows.take(held)
    process = _process(_weighted(rows.take(rest), precisions[rest]), kernel, noise_variance, N_NEIGHBORS)
    means, variances = process.distribution(some.X)
    return some, some.Y, means, np.sqrt(variances + Noise(noise_variance).of_rows(some).numpy())[:, None], True


def _weights(rows: Rows, precisions: Floats) -> Floats:
    return precisions if rows.weights is None else rows.weights * precisions


def _weighted(rows: Rows, precisions: Floats) -> Rows:
    return replace(rows, weights=_weights(rows, precisions))


def _process(rows: Rows, kernel: Kernel, noise_variance: float, number: int) -> ExactPosterior | NearestPosterior:
    """Return the process of the nearest rows, or of all rows where none are near."""
    noise = Noise(noise_variance)
    if not kernel.can("metric"):
        return ExactPosterior(kernel, rows, noise)
    return NearestPosterior(kernel, rows, noise, number, share=False)


def _precisions(
    rows: Rows, means: Floats, variances: Floats, precisions: Floats, noise_variance: float, degrees: float
) -> tuple[Floats, Floats]:
    """Return the mean λ of rows that are predicted without themselves, and the expected squares of their errors."""
    noise = Noise(noise_variance)
    errors, scales = rows.Y[:, 0] - means[:, 0], noise.of_rows(rows).numpy()
    for _ in range(STEPS):
        own = noise.of_weighted_rows(_weighted(rows, precisions)).numpy()
        share = own / (variances + own)  # of the error that remains where the row itself has a part
        squares = np.square(share * errors) + variances * share
        precisions = (degrees + 1.0) / (degrees + squares / scales)
    return precisions, squares
