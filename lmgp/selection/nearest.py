"""What rows left out choose: how many nearest rows predict best, and whether another model predicts better."""

from collections.abc import Sequence

import numpy as np

from lmgp.data import Floats, Noise, Predicted, column_scales, sampling
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import ObservationNoise
from lmgp.learning.heldout import N_NEIGHBORS, Validation, mean_and_error
from lmgp.neighbours.duplicates import steady_order, steady_sample
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.recipes import Recipe
from lmgp.selection.candidates import NEIGHBOURS, Problem

# Each row is predicted from the 256 nearest rows, but from this number where these predict rows left out better than
# 128 do, which tell as much in a quarter of the time, by more than the second number of standard errors.
FEW, ERRORS = 8, 2.0
# Models are compared on at most this number of rows.
MOST_ROWS = 20_000


def number_of_rows(problem: Problem, most: int = NEIGHBOURS) -> int:
    """Return from how many nearest rows each row is to be predicted: 256, or 8 where these predict better.

    The exact process is that of its kernel and normal noise. Where neither is that of the rows, more of them may
    predict worse: an outlier spoils the predictions of all rows of which it is a neighbour. Rows are left out by
    themselves and in whole neighbourhoods, which count alike, and predicted from 8 and from 128 rows.

    Parameters
    ----------
    problem : Problem
    most : int, default=256
        The largest number that memory allows.
    """
    rows, noise = problem.rows.take(steady_order(problem.rows)), Noise(problem.noise_variance)
    validation = Validation.of(rows, column_scales(rows), sampling(0, 2))
    few, many = (min(number, most) for number in (FEW, N_NEIGHBORS))
    nearest = NearestPosterior(problem.kernel, rows, noise, many, share=False, precision="float32")
    by_few, by_many = (validation.densities_by(nearest.with_neighbors(k), densities) for k in (few, many))
    gain, error = mean_and_error([one - other for one, other in zip(by_few, by_many, strict=True)])
    return few if gain > ERRORS * error else min(NEIGHBOURS, most)


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
    validation = Validation.of(rows, column_scales(rows), sampling(0, 2), near=False)

    posterior = recipe.posterior(problem.kernel, problem.noise_variance, rows, rng)
    nearest = NearestPosterior(problem.kernel, rows, noise, number, share=False, precision="float32")
    (here, _), (there, _) = (validation.densities_by(one, densities) for one in (posterior, nearest))
    return float(np.mean(here - there))


def densities(predicted: Sequence[Predicted]) -> list[Floats]:
    """Return log densities of rows of one target that were left out, under the t that they tell."""
    of_all = ObservationNoise.fitted("student", LeftOut.of(predicted))[1]
    return np.split(of_all, np.cumsum([len(rows) for rows, *_ in predicted])[:-1])
