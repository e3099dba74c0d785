"""What is made of the optima of several forms: the choice of one, their mixture, or draws around them."""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from lmgp.data import Floats, Rows
from lmgp.learning.heldout import Validation, mean_and_error
from lmgp.learning.scoring import Climb
from lmgp.posteriors.average import WeightedKernel, stacking_weights
from lmgp.utils.parallel import parallel_map

# Draws of all forms together: at most the first number, and no more than have the second number of rows between them,
# which is what their likelihoods cost. Predictions take as long as those of all draws that are kept: the heaviest ones,
# of at least a share of the weight.
MOST_DRAWS, ROWS_OF_DRAWS, KEPT, LEAST = 128, 32_000, 32, 1e-3
# The power of the weights: of a few dozen draws, one would have most of the weight.
POWER = 0.5


def compared(rows: Rows, scales: Floats, optima: Sequence[Climb], average: bool, rng: np.random.Generator) -> Floats:
    """Predict rows, each from all others, and whole neighbourhoods, from the rows around them.

    The mean densities are noted in the lines of the optima.

    Parameters
    ----------
    rows : Rows
    scales : ndarray of shape (d,)
        The unit of each column, in which neighbourhoods are measured.
    optima : sequence of Climb
        At their ends.
    average : bool
        Whether a mixture of them may predict best, or one alone.
    rng : numpy.random.Generator
        Draws what is left out.

    Returns
    -------
    ndarray
        Of each, some of them zero: of the mixture, or 1 of the one whose densities have the largest mean. Rows and
        neighbourhoods count alike.
    """
    near = all(optimum.space.form.kernel.can("metric") for optimum in optima)
    validation = Validation.of(rows, scales, rng, near)
    densities = []
    for optimum in optima:
        kernel, noise, _ = optimum.space.weighted(optimum.free)
        scores = validation.densities(kernel, noise, optimum.objective.degrees)
        alone, regions = (float(part.mean()) if len(part) else np.nan for part in scores)
        optimum.trial = optimum.trial._replace(alone=alone, regions=regions, density_error=mean_and_error(scores)[1])
        densities.append(scores)
    counts = np.ones(len(validation.alone)) if rows.counts is None else rows.counts[validation.alone]
    n_regions = len(densities[0][1])
    counts = np.concatenate((counts / counts.sum(), np.full(n_regions, 1.0 / max(n_regions, 1))))
    joined = np.array([np.concatenate(both) for both in densities])
    return stacking_weights(joined, counts) if average else np.eye(len(optima))[np.argmax(joined @ counts)]


def plausible_kernels(optima: Sequence[Climb], rng: np.random.Generator) -> tuple[Climb, tuple[WeightedKernel, ...]]:
    """Draw hyperparameters from their posterior distribution, over forms and their parameters.

    Proposals are each optimum, and pairs around it, from Laplace's approximation of the posterior there. The importance
    weight of a proposal is its posterior density over that with which it was drawn. Averages have the square roots of
    these weights: less variance, for a bias towards Laplace's approximation.

    Parameters
    ----------
    optima : sequence of Climb
        At their ends; of few rows, the same ones.
    rng : numpy.random.Generator

    Returns
    -------
    Climb
        That of the form with the largest weight.
    tuple of WeightedKernel
        Its kernel first, and then the others, the one with the largest weight first.

    References
    ----------
    H. Rue, S. Martino and N. Chopin, *Approximate Bayesian Inference for Latent Gaussian Models by Using Integrated
    Nested Laplace Approximations*, Journal of the Royal Statistical Society B 71, 2009, section 3.

    E. Koblents and J. Míguez, *A Population Monte Carlo Scheme with Transformed Weights and Its Application to
    Stochastic Kinetic Models*, Statistics and Computing 25, 2015, section 3: powers of the weights.
    """
    n_pairs = max(1, min(MOST_DRAWS, ROWS_OF_DRAWS // optima[0].objective.n_rows) // (2 * len(optima)))
    drawn: list[tuple[Climb, Floats, float]] = []
    for optimum in optima:
        half = rng.standard_normal((len(optimum.free), n_pairs)).T
        offsets = np.concatenate((np.zeros_like(optimum.free)[None], half, -half))
        drawn += [(optimum, *draw) for draw in zip(*moved(optimum, offsets), strict=True)]
    logarithms = np.array(parallel_map(lambda draw: draw[0].objective.value(draw[1]) - draw[2], drawn))
    best = int(np.argmax(logsumexp(logarithms.reshape(len(optima), -1), axis=1)))
    first = best * (2 * n_pairs + 1)
    weights = np.exp(POWER * logarithms - logsumexp(POWER * logarithms))
    heavy = [i for i in np.argsort(-weights, kind="stable") if i != first and weights[i] >= LEAST]
    kept = [first, *heavy[: KEPT - 1]]
    total = weights[kept].sum()
    return optima[best], tuple(drawn[i][0].space.weighted(drawn[i][1], float(weights[i] / total)) for i in kept)


def moved(optimum: Climb, offsets: Floats) -> tuple[Floats, Floats]:
    """Move off an optimum by standard normal vectors, one a row, as Laplace's approximation of the posterior is spread.

    Return the logarithms of the density of the proposals, too.
    """
    information, free = optimum.at.information, np.tile(optimum.free, (len(offsets), 1))
    # In the order of what the rows say of them, parameters of columns in any order have the same numbers.
    order = np.lexsort((optimum.free, -np.diag(information)))
    root = np.linalg.cholesky(information[np.ix_(order, order)])
    free[:, order] += np.linalg.solve(root.T, offsets.T).T
    proposals = np.log(np.diag(root)).sum() - 0.5 * (np.square(offsets) + np.log(2.0 * np.pi)).sum(axis=1)
    return np.clip(free, *optimum.objective.bounds.T), proposals
