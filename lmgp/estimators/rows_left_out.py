"""Rows that had no part in their prediction, by which the distribution of new observations is told."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from lmgp.data import Floats, Noise, Rows
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import FEWEST_ROWS, NoiseName, ObservationNoise, too_few
from lmgp.kernels.base import Kernel
from lmgp.learning.heldout import HeldOut
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.utils.progress import STAGES

# Up to this number of rows, hyper-parameters fit the rows that they were learned from better than others, and so are
# learned again without those of each fold.
FOLDED, N_FOLDS = 2000, 5
# Of more rows, so many tell the distribution.
MOST_ROWS = 4000
# Neighbourhoods are left out this number of times, and predicted from so many nearest rows.
N_REGIONS, NEIGHBORS = 3, 128

# Rows, and their y, means and standard deviations with noise, of shape (m, t), and whether each was left out by itself.
Predicted = tuple[Rows, Floats, Floats, Floats, bool]


def observation_noises(
    model: Any, wanted: NoiseName, arguments: Mapping[str, Any], rng: np.random.Generator
) -> tuple[ObservationNoise, ...]:
    """Fit the distribution of new observations of each target.

    Parameters
    ----------
    model : GaussianProcess
        Fitted.
    wanted : {"student", "varying", "auto"}
    arguments : mapping
        Those of `fit`.
    rng : numpy.random.Generator
        Draws the rows that are left out.
    """
    fit = model._fitted
    n_rows = fit.posterior.n_rows
    if n_rows < FEWEST_ROWS:
        return (too_few(n_rows),) * len(fit.scales)
    STAGES.info("fitting the noise by rows left out")
    folded = n_rows <= FOLDED and not model._all_given
    parts = left_out_in_folds(model, arguments, rng) if folded else left_out(fit, rng)
    seed = int(rng.integers(2**31))  # the same for all: each target has the noise of a model of its own
    of_targets = (joined(parts, j) for j in range(len(fit.scales)))
    return tuple(ObservationNoise.fitted(wanted, rows, np.random.default_rng(seed)) for rows in of_targets)


def left_out(fit: Any, rng: np.random.Generator) -> list[Predicted]:
    """Predict training rows, each from all others, and whole neighbourhoods, from the rows around them.

    Copies of a row would tell what it is: rows that have one are not predicted.
    """
    rows, noise = fit.posterior.rows, Noise(fit.noise_variance)
    single = ~pd.DataFrame(np.column_stack((rows.X, rows.Y))).duplicated(keep=False).to_numpy()
    index = np.sort(rng.permutation(np.flatnonzero(single))[:MOST_ROWS])
    parts = [(*fit.without_each(index), True)]
    if len(rows) > FOLDED and fit.kernel.can("metric"):
        scales = np.where(fit.column_scales > 0.0, fit.column_scales, 1.0)
        for _ in range(N_REGIONS):
            held = HeldOut.of(rows, scales, rng, n_alone=0)
            around = NearestPosterior(fit.kernel, held.rest, noise, NEIGHBORS, share=False)
            parts.append((*fit.in_units(held.regions, *around.predict(held.regions.X)), False))
    return parts


def left_out_in_folds(model: Any, arguments: Mapping[str, Any], rng: np.random.Generator) -> list[Predicted]:
    """Predict each fold of the rows by a model that was fitted to the others, with the form of the kernel fixed.

    Copies of a row are in one fold.
    """
    again = clone(model).set_params(noise="normal")
    if not isinstance(model.kernel, Kernel):
        chosen = model.learning_.chosen
        again.set_params(kernel=chosen.kernel, ard=chosen.ard)
    # Rows of weight zero are none.
    of_rows = {name: arguments[name] for name in ("X", "y", "sample_weight", "noise_variances")}
    of_rows = {name: values for name, values in of_rows.items() if values is not None}
    weights = np.asarray(of_rows.get("sample_weight", 1.0))
    kept = np.flatnonzero(np.broadcast_to(weights, len(of_rows["y"])) > 0.0)
    columns = np.column_stack([np.asarray(of_rows[name], dtype=np.float64) for name in ("X", "y")])
    _, copies = np.unique(columns[kept], axis=0, return_inverse=True)
    folds = rng.permutation(copies.max() + 1)[copies.ravel()] % N_FOLDS
    parts = []
    for fold in range(N_FOLDS):
        train, test = (
            {name: _safe_indexing(values, kept[index]) for name, values in of_rows.items()}
            for index in (folds != fold, folds == fold)
        )
        again.set_params(random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # which the fit to all rows has given
            again.fit(**train, duplicates=arguments["duplicates"], center=arguments["center"])
        parts.append((*again._predicted(**test), True))
    return parts


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
