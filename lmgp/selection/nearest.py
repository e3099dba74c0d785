"""What rows left out choose: how many nearest rows predict best, and whether another model predicts better."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lmgp.data import Floats, Noise, Rows, column_scales, sampling
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import ObservationNoise
from lmgp.learning.heldout import N_ALONE, Validation, mean_and_error, observed_std
from lmgp.neighbours.duplicates import steady_order, steady_sample
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.recipes import Recipe
from lmgp.selection.candidates import Problem

# The numbers that are tried.
NUMBERS = 8, 32, 128, 256
# The largest number is taken whose mean log density is within this number of standard errors of the highest: of four
# numbers, the best one has been lucky.
ERRORS = 2.0
# Models are compared on at most this number of rows.
MOST_ROWS = 20_000


def number_of_rows(problem: Problem, most: int = NUMBERS[-1]) -> int:
    """Return from how many nearest rows each row is to be predicted.

    The exact process is that of its kernel and normal noise. Where neither is that of the rows, more of them may
    predict worse: an outlier spoils the predictions of all rows of which it is a neighbour. Rows are left out by
    themselves and in whole neighbourhoods, which count alike, and predicted from each number of rows. The number is the
    largest whose mean log density is within two standard errors of the highest.

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
    losses = [mean_and_error([highest - one for highest, one in zip(best, parts, strict=True)]) for parts in tried]
    return max(number for number, (loss, error) in zip(numbers, losses, strict=True) if loss <= ERRORS * error)


def gain_over_nearest(problem: Problem, recipe: Recipe, number: int, rng: np.random.Generator) -> float:
    """Return by how much a recipe predicts rows left out better than a number of nearest rows does, in nats a row.

    Parameters
    ----------
    problem : Problem
        Of whose rows a sample stands for more than 20,000.
    recipe : Recipe
    number : int
    rng : numpy.random.Generator
        Draws the map of the recipe.
    """
    rows, noise = problem.rows.take(steady_sample(problem.rows, MOST_ROWS)), Noise(problem.noise_variance)
    index = np.sort(sampling(0, 2).permutation(len(rows))[:N_ALONE])
    posterior = recipe.posterior(problem.kernel, problem.noise_variance, rows, rng)
    nearest = NearestPosterior(problem.kernel, rows, noise, number, share=False, precision="float32")
    some = rows.take(index)
    here, there = (_density([(some, *one.leave_one_out(index))], noise, [True]) for one in (posterior, nearest))
    return float(np.mean(here - there))


def densities(validation: Validation, nearest: NearestPosterior, around: Sequence[NearestPosterior]) -> list[Floats]:
    """Return log densities of rows left out by themselves, and the mean of each neighbourhood, in nats a row.

    They are those of the distributions that would be predicted: with the noise that these rows tell.

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
    of_all = _density(predicted, nearest.noise, [True] + [False] * len(held))
    counts = [len(rows) for rows, _, _ in predicted]
    of_rows, *regions = np.split(of_all, np.cumsum(counts)[:-1])
    of_regions = [one.means(density) for one, density in zip(held, regions, strict=True)]
    return [of_rows, np.concatenate([np.empty(0), *of_regions])]


def _density(predicted: Sequence[tuple[Rows, Floats, Floats]], noise: Noise, by_themselves: Sequence[bool]) -> Floats:
    """Return the log density of rows of which means and variances were predicted, with the noise that they tell."""
    parts = [
        (rows, rows.Y, means, observed_std(rows, variances, noise.variance)[:, None], alone)
        for (rows, means, variances), alone in zip(predicted, by_themselves, strict=True)
    ]
    # Weights may say how much a row pulls: here, all rows count alike.
    return ObservationNoise.fitted("auto", replace(LeftOut.of(parts), weights=None))[1]
