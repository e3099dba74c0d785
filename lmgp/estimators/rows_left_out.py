"""Rows that had no part in their prediction, by which the distribution of new observations is told."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lmgp.data import Floats, Noise, Rows
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import FEWEST_ROWS, NoiseName, ObservationNoise, mean_gain, too_few
from lmgp.errors import InputError
from lmgp.estimators.robust import robust_fit
from lmgp.learning.heldout import HeldOut
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.utils.progress import STAGES, handled

# So many rows tell the distribution; a robust fit, which takes six more, is tried of so many.
MOST_ROWS, MOST_ROBUST = 4000, 2000
# Neighbourhoods are left out this number of times, of this number of rows or more, and predicted from so many nearest
# rows.
N_REGIONS, FEWEST_IN_REGIONS, NEIGHBORS = 6, 2000, 128

# Rows, and their y, means and standard deviations with noise, of shape (m, t), and whether each was left out by itself.
Predicted = tuple[Rows, Floats, Floats, Floats, bool]


def with_noise(model: Any, wanted: NoiseName, arguments: Mapping[str, Any], rng: np.random.Generator) -> Any:
    """Return the fitted state with the distribution of new observations of each target, and a robust fit if wanted.

    "auto" tries a robust fit where rows are few, hyper-parameters are learned, and a t predicts rows left out better
    than a normal distribution.

    Parameters
    ----------
    model : GaussianProcess
        Fitted to rows in memory.
    wanted : {"student", "varying", "robust", "auto"}
    arguments : mapping
        Those of `fit`.
    rng : numpy.random.Generator
        Draws the rows that are left out.

    Raises
    ------
    InputError
        If a robust fit to several targets is wanted.
    """
    fit = model._fitted
    n_rows, n_targets, robust = fit.posterior.n_rows, len(fit.scales), wanted == "robust"
    if robust and n_targets > 1:
        raise InputError(
            f"noise='robust' weights the rows of one target; got {n_targets}. Use MultiTargetGPRegressor, which fits "
            "each by its own, or noise='auto'."
        )
    if n_rows < FEWEST_ROWS:
        return replace(fit, noises=(too_few(n_rows),) * n_targets)
    STAGES.info("fitting the noise by rows left out")
    # The same for all: each target has the noise of a model of its own, and both fits leave the same rows out.
    seeds = rng.integers(2**31, size=2).tolist()
    tried = _observation_noises(fit, "auto" if robust else wanted, seeds)
    noises, densities = zip(*tried, strict=True)
    tails = noises[0].trials[1] if noises[0].trials else None
    few = wanted == "auto" and n_targets == 1 and n_rows <= MOST_ROBUST and not model._all_given
    if tails is None or not (robust or (few and tails.gain > tails.standard_error)):
        return replace(fit, noises=noises)
    again = robust_fit(model, arguments, tails.degrees)._fitted
    ((noise, of_robust),) = _observation_noises(again, "auto", seeds, weighted=False)
    gain, error = mean_gain(densities[0], of_robust)
    better = robust or gain > error
    return replace(
        again if better else fit, learning=fit.learning, noises=(noises[0].beside(noise, gain, error, better),)
    )


def _observation_noises(
    fit: Any, wanted: NoiseName, seeds: Sequence[int], weighted: bool = True
) -> list[tuple[ObservationNoise, Floats]]:
    """Return the noise of each target, and the log density of each row left out.

    The weights of rows count where they are repetitions; of a robust fit, they say how much a row pulls.
    """
    parts = left_out(fit, np.random.default_rng(seeds[0]))
    of_targets = (joined(parts, j, weighted) for j in range(len(fit.scales)))
    with handled(logging.NullHandler(), logging.CRITICAL):  # the process of the scale has nothing to say
        return [ObservationNoise.fitted(wanted, rows, np.random.default_rng(seeds[1])) for rows in of_targets]


def left_out(fit: Any, rng: np.random.Generator) -> list[Predicted]:
    """Predict training rows, each from all others, and whole neighbourhoods, from the rows around them."""
    rows, noise = fit.posterior.rows, Noise(fit.noise_variance)
    index = np.sort(rng.permutation(len(rows))[:MOST_ROWS])
    parts = [(*fit.without_each(index), True)]
    if len(rows) > FEWEST_IN_REGIONS and fit.kernel.can("metric"):
        scales = np.where(fit.column_scales > 0.0, fit.column_scales, 1.0)
        for _ in range(N_REGIONS):
            held = HeldOut.of(rows, scales, rng, n_alone=0)
            around = NearestPosterior(fit.kernel, held.rest, noise, NEIGHBORS, share=False)
            parts.append((*fit.in_units(held.regions, *around.predict(held.regions.X)), False))
    return parts


def joined(parts: Sequence[Predicted], target: int, weighted: bool = True) -> LeftOut:
    """Return the predictions of one target."""
    rows, y, mean, std, alone = zip(*parts, strict=True)
    weights = [one.weights for one in rows if one.weights is not None]
    return LeftOut(
        X=np.concatenate([one.X for one in rows]),
        y=np.concatenate(y)[:, target],
        mean=np.concatenate(mean)[:, target],
        std=np.concatenate(std)[:, target],
        alone=np.repeat(alone, [len(one) for one in rows]),
        weights=np.concatenate(weights) if weights and weighted else None,
    )
