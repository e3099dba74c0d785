"""Rows that had no part in their prediction, by which the distribution of new observations is told."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from lmgp.data import Noise, Predicted, sampling
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import FEWEST_ROWS, NoiseName, ObservationNoise, too_few
from lmgp.learning.heldout import HeldOut
from lmgp.neighbours.duplicates import steady_order
from lmgp.posteriors.average import averaged
from lmgp.posteriors.nearest import nearest_of
from lmgp.sums.base import Sample
from lmgp.utils.progress import stage

# The distribution is fitted to at most this number of rows that are left out by themselves.
MOST_ROWS = 8000
# Of more training rows than these, neighbourhoods are left out six times, and predicted from the nearest other rows: as
# many as the model predicts from, or 128.
FEWEST_IN_REGIONS, N_REGIONS, NEIGHBORS = 2000, 6, 128


def with_noise(fit: Any, wanted: NoiseName) -> Any:
    """Return a fitted state of rows in memory with the distribution of new observations of each target.

    Of a robust fit it is told beside that of rows that are not weighted.
    """
    if fit.posterior.n_rows < FEWEST_ROWS:
        return replace(fit, noises=(too_few(fit.posterior.n_rows),) * len(fit.scales))
    stage("noise", "fitting the noise by rows left out")
    parts = left_out(fit)
    if fit.robust is None:
        return replace(fit, noises=observation_noises(parts, wanted))
    noise, _ = ObservationNoise.fitted("auto", LeftOut.of(parts))
    alike, gain, error = fit.robust
    return replace(fit, noises=(alike.beside(noise, gain, error),), robust=None)


def with_noise_of_sample(fit: Any, wanted: NoiseName, sample: Sample) -> Any:
    """Return a solved state of sums with the noise that a sample of their rows tells, each predicted without itself."""
    stage("noise", "fitting the noise by rows left out")
    rows = fit.in_scale(sample.rows)
    part = (*fit.in_units(rows, *fit.posterior.without_each(rows)), True)
    return replace(fit, noises=observation_noises([part], wanted))


def observation_noises(parts: Sequence[Predicted], wanted: NoiseName) -> tuple[ObservationNoise, ...]:
    """Return the noise of each target."""
    # Of rows that could not be weighted, and of a normal model that is calibrated.
    wanted = "auto" if wanted in ("robust", "normal") else wanted
    targets = (LeftOut.of(parts, j) for j in range(parts[0][1].shape[1]))
    return tuple(ObservationNoise.fitted(wanted, target)[0] for target in targets)


def left_out(fit: Any) -> list[Predicted]:
    """Predict training rows, each from all others, and whole neighbourhoods, from the rows around them.

    They are the same rows for all targets and for all fits.
    """
    order, rng = steady_order(fit.posterior.rows), sampling()
    rows = fit.posterior.rows.take(order)
    parts = [(*fit.without_each(order[np.sort(rng.permutation(len(rows))[:MOST_ROWS])]), True)]
    if len(rows) > FEWEST_IN_REGIONS and all(weighted.kernel.can("metric") for weighted in fit.kernels):
        scales = np.where(fit.column_scales > 0.0, fit.column_scales, 1.0)
        number = getattr(fit.posterior.process, "n_neighbors", NEIGHBORS)
        nearest = cache(lambda kernel, noise: nearest_of(fit.posterior, kernel, Noise(noise), number))
        for held in (HeldOut.of(rows, scales, rng) for _ in range(N_REGIONS)):
            taken = np.zeros(len(rows), dtype=bool)
            taken[order] = held.taken
            around = averaged(fit.kernels, lambda *of, taken=taken: nearest(*of).without(taken))
            regions = rows.take(held.index)
            parts.append((*fit.in_units(regions, *around.predict(regions.X)), False))
    return parts
