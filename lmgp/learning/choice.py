"""The choice between the optima of several forms: how well they predict rows that had no part in their prediction."""

from collections.abc import Sequence

import numpy as np

from lmgp.data import Floats, Noise, Rows
from lmgp.learning.heldout import N_NEIGHBORS, HeldOut, log_density
from lmgp.learning.search import Optimum
from lmgp.posteriors.average import stacking_weights
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.nearest import NearestPosterior

# The number of rows that are left out by themselves.
N_ALONE = 1000


def compared(
    rows: Rows, scales: Floats, optima: Sequence[Optimum], average: bool, rng: np.random.Generator
) -> tuple[list[Optimum], Floats]:
    """Predict rows, each from all others, and whole neighbourhoods, from the rows around them.

    Parameters
    ----------
    rows : Rows
    scales : ndarray of shape (d,)
        The unit of each column, in which neighbourhoods are measured.
    optima : sequence of Optimum
    average : bool
        Whether a mixture of them may predict best, or one alone.
    rng : numpy.random.Generator
        Draws what is left out.

    Returns
    -------
    list of Optimum
        The same, with their densities in their lines.
    weights : ndarray
        Of each, some of them zero: of the mixture, or 1 of the one whose densities have the largest mean. Rows and
        neighbourhoods count alike.
    """
    index = np.sort(rng.permutation(len(rows))[:N_ALONE])
    alone = rows.take(index)
    near = all(one.space.form.kernel.can("metric") for one in optima)
    held = HeldOut.several(rows, scales, rng) if near else []

    def densities(one: Optimum) -> list[Floats]:
        kernel, noise = one.hyperparameters
        posterior: Posterior = ExactPosterior(kernel, rows, Noise(noise))
        if near:
            posterior = NearestPosterior(kernel, rows, Noise(noise), N_NEIGHBORS, share=False)
        of_alone = log_density(alone, *posterior.leave_one_out(index), noise)
        of_regions = np.concatenate([np.empty(0), *(each.densities(kernel, noise) for each in held)])
        return [of for of in (of_alone, of_regions) if len(of)]

    found = [densities(one) for one in optima]
    counts = np.ones(len(alone)) if alone.weights is None else alone.weights
    counts = np.concatenate([counts / counts.sum(), *(np.full(len(of), 1.0 / len(of)) for of in found[0][1:])])
    joined = np.array([np.concatenate(of) for of in found])
    best = np.argmax(joined @ counts)
    weights = stacking_weights(joined, counts) if average else np.eye(len(optima))[best]
    return [_noted(one, of) for one, of in zip(optima, found, strict=True)], weights


def _noted(one: Optimum, densities: Sequence[Floats]) -> Optimum:
    """Note densities in the line of an optimum."""
    alone, regions = [float(of.mean()) for of in densities] + [np.nan] * (2 - len(densities))
    error = np.sqrt(sum(np.var(of) / len(of) for of in densities)) / len(densities)
    trial = one.trial._replace(alone=alone, regions=regions, density_error=float(error))
    return one._replace(trial=trial)
