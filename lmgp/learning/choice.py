"""The choice between the optima of several forms: how well they predict rows that had no part in their prediction."""

from collections.abc import Sequence

import numpy as np

from lmgp.data import Floats, Rows
from lmgp.learning.heldout import Validation, mean_and_error
from lmgp.learning.search import Optimum
from lmgp.posteriors.average import stacking_weights


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
    near = all(optimum.space.form.kernel.can("metric") for optimum in optima)
    validation = Validation.of(rows, scales, rng, near)
    densities = [validation.densities(*optimum.hyperparameters, optimum.objective.degrees) for optimum in optima]
    counts = np.ones(len(validation.alone)) if rows.counts is None else rows.counts[validation.alone]
    n_regions = len(densities[0][1])
    counts = np.concatenate((counts / counts.sum(), np.full(n_regions, 1.0 / max(n_regions, 1))))
    joined = np.array([np.concatenate(both) for both in densities])
    weights = stacking_weights(joined, counts) if average else np.eye(len(optima))[np.argmax(joined @ counts)]
    return [_noted(*pair) for pair in zip(optima, densities, strict=True)], weights


def _noted(optimum: Optimum, densities: Sequence[Floats]) -> Optimum:
    """Note densities in the line of an optimum."""
    alone, regions = (float(part.mean()) if len(part) else np.nan for part in densities)
    trial = optimum.trial._replace(alone=alone, regions=regions, density_error=mean_and_error(densities)[1])
    return optimum._replace(trial=trial)
