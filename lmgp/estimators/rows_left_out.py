"""Rows that had no part in their prediction, by which the distribution of new observations is told."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats, Noise, Rows
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import FEWEST_ROWS, NoiseName, ObservationNoise, too_few
from lmgp.learning.heldout import HeldOut
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.utils.progress import STAGES, handled

# So many rows tell the distribution.
MOST_ROWS = 4000
# Neighbourhoods are left out this number of times, of this number of rows or more, and predicted from so many nearest
# rows.
N_REGIONS, FEWEST_IN_REGIONS, NEIGHBORS = 3, 2000, 128

# Rows, and their y, means and standard deviations with noise, of shape (m, t), and whether each was left out by itself.
Predicted = tuple[Rows, Floats, Floats, Floats, bool]


def observation_noises(fit: Any, wanted: NoiseName, rng: np.random.Generator) -> tuple[ObservationNoise, ...]:
    """Fit the distribution of new observations of each target.

    Parameters
    ----------
    fit : Fit
        Solved, of rows in memory.
    wanted : {"student", "varying", "auto"}
    rng : numpy.random.Generator
        Draws the rows that are left out.
    """
    n_rows, n_targets = fit.posterior.n_rows, len(fit.scales)
    if n_rows < FEWEST_ROWS:
        return (too_few(n_rows),) * n_targets
    STAGES.info("fitting the noise by rows left out")
    parts = left_out(fit, rng)
    seed = int(rng.integers(2**31))  # the same for all: each target has the noise of a model of its own
    of_targets = (joined(parts, j) for j in range(n_targets))
    with handled(logging.NullHandler(), logging.CRITICAL):  # the process of the scale has nothing to say
        return tuple(ObservationNoise.fitted(wanted, rows, np.random.default_rng(seed)) for rows in of_targets)


def left_out(fit: Any, rng: np.random.Generator) -> list[Predicted]:
    """Predict training rows, each from all others, and whole neighbourhoods, from the rows around them."""
    rows, noise = fit.posterior.rows, Noise(fit.noise_variance)
    index = np.sort(rng.permutation(np.flatnonzero(singles(rows)))[:MOST_ROWS])
    parts = [(*fit.without_each(index), True)]
    if len(rows) > FEWEST_IN_REGIONS and fit.kernel.can("metric"):
        scales = np.where(fit.column_scales > 0.0, fit.column_scales, 1.0)
        for _ in range(N_REGIONS):
            held = HeldOut.of(rows, scales, rng, n_alone=0)
            around = NearestPosterior(fit.kernel, held.rest, noise, NEIGHBORS, share=False)
            parts.append((*fit.in_units(held.regions, *around.predict(held.regions.X)), False))
    return parts


def singles(rows: Rows) -> NDArray[np.bool_]:
    """Say which rows have no exact copy: one would tell what the row is."""
    import pandas as pd  # here, so that it is not loaded before something is fitted

    return ~pd.DataFrame(np.column_stack((rows.X, rows.Y))).duplicated(keep=False).to_numpy()


def joined(parts: Sequence[Predicted], target: int) -> LeftOut:
    """Return the predictions of one target."""
    rows, y, mean, std, alone = zip(*parts, strict=True)
    weights = [one.weights for one in rows if one.weights is not None]
    return LeftOut(
        X=np.concatenate([one.X for one in rows]),
        y=np.concatenate(y)[:, target],
        mean=np.concatenate(mean)[:, target],
        std=np.concatenate(std)[:, target],
        alone=np.repeat(alone, [len(one) for one in rows]),
        weights=np.concatenate(weights) if weights else None,
    )
