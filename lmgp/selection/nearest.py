"""How many nearest rows predict best, where no model is near the exact process."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import gaussian_kde

from lmgp.data import Floats, Noise, column_scales, sampling
from lmgp.learning.heldout import Validation, mean_and_error, observed_std
from lmgp.neighbours.duplicates import steady_order
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.selection.candidates import Problem
from lmgp.selection.search import STANDARD_ERRORS
from lmgp.utils.student import standardised

# The numbers that are tried.
NUMBERS = 8, 16, 32, 64, 128, 256


def number_of_rows(problem: Problem, most: int = NUMBERS[-1]) -> int:
    """Return from how many nearest rows each row is to be predicted.

    The exact process is that of its kernel and normal noise. Where neither is that of the rows, more of them may
    predict worse: an outlier spoils the predictions of all rows of which it is a neighbour. Rows are left out by
    themselves and in whole neighbourhoods, which count alike, and predicted from each number of rows. The number is the
    largest whose mean log density is within two standard errors of the highest: of six numbers, the best one has been
    lucky. Errors have the distribution that they show, see `densities`.

    Parameters
    ----------
    problem : Problem
    most : int, default=256
        The largest number that memory allows.
    """
    rows = problem.rows.take(steady_order(problem.rows))
    validation = Validation.of(rows, column_scales(rows), sampling(0, 2))
    numbers, noise = [number for number in NUMBERS if number <= most] or [most], Noise(problem.noise_variance)
    nearest = NearestPosterior(problem.kernel, rows, noise, numbers[-1], share=False, precision="float32")
    around = [nearest.without(held.taken) for held in validation.neighbourhoods]
    tried = [
        densities(validation, nearest.with_neighbors(number), [one.with_neighbors(number) for one in around])
        for number in numbers
    ]
    best = max(tried, key=lambda parts: mean_and_error(parts)[0])
    losses = [mean_and_error([most - one for most, one in zip(best, parts, strict=True)]) for parts in tried]
    return max(number for number, (loss, error) in zip(numbers, losses, strict=True) if loss <= STANDARD_ERRORS * error)


def densities(validation: Validation, nearest: NearestPosterior, around: Sequence[NearestPosterior]) -> list[Floats]:
    """Return log densities of rows left out by themselves, and the mean of each neighbourhood, but for a constant.

    The density of an error over its standard deviation is that of its size, and that of the logarithms of all sizes is
    estimated by a normal kernel, for each without itself: no family of distributions decides.

    Parameters
    ----------
    validation : Validation
        Of rows with one target.
    nearest : NearestPosterior
        Of the same rows.
    around : sequence of NearestPosterior
        Of the rows that remain beside each set of neighbourhoods.
    """
    held = validation.neighbourhoods
    predicted = [(validation.rows.take(validation.alone), *nearest.leave_one_out(validation.alone))]
    predicted += [(one.regions, *rest.distribution(one.regions.X)) for one, rest in zip(held, around, strict=True)]
    std = [observed_std(rows, variances, nearest.noise.variance) for rows, _, variances in predicted]
    errors = [standardised(rows.Y[:, 0], means[:, 0], of) for (rows, means, _), of in zip(predicted, std, strict=True)]
    sizes = np.log(np.abs(np.concatenate(errors)))
    others = np.ones(len(sizes))
    if np.ptp(sizes) > 0.0:  # what is all of one size has no density
        estimate = gaussian_kde(sizes)
        others = estimate(sizes) - 1.0 / (len(sizes) * math.sqrt(2.0 * math.pi * estimate.covariance[0, 0]))
    of_all = np.log(np.maximum(others, np.finfo(np.float64).tiny)) - sizes - np.log(np.concatenate(std))
    alone, *regions = np.split(of_all, np.cumsum([len(of) for of in errors])[:-1])
    of_regions = [one.means(density) for one, density in zip(held, regions, strict=True)]
    return [alone, np.concatenate([np.empty(0), *of_regions])]
