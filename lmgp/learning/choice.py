"""The choice between the optima of several forms: how well they predict rows that had no part in their prediction."""

from collections.abc import Sequence

import numpy as np

from lmgp.data import Floats, Rows
from lmgp.learning.heldout import Validation, mean_and_error
from lmgp.learning.scoring import Climb
from lmgp.posteriors.average import stacking_weights


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
        found = validation.densities(kernel, noise, optimum.objective.degrees)
        alone, regions = (float(part.mean()) if len(part) else np.nan for part in found)
        optimum.trial = optimum.trial._replace(alone=alone, regions=regions, density_error=mean_and_error(found)[1])
        densities.append(found)
    counts = np.ones(len(validation.alone)) if rows.counts is None else rows.counts[validation.alone]
    n_regions = len(densities[0][1])
    counts = np.concatenate((counts / counts.sum(), np.full(n_regions, 1.0 / max(n_regions, 1))))
    joined = np.array([np.concatenate(both) for both in densities])
    return stacking_weights(joined, counts) if average else np.eye(len(optima))[np.argmax(joined @ counts)]
