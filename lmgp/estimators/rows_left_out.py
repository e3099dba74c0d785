"""Rows that had no part in their prediction, by which the distribution of new observations is told."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from lmgp.data import Floats, Noise, Rows
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import FEWEST_ROWS, NoiseName, ObservationNoise, too_few
from lmgp.kernels.base import Kernel
from lmgp.learning.heldout import HeldOut
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.utils.parallel import parallel_map
from lmgp.utils.progress import STAGES

# Up to this number of rows, hyper-parameters fit the rows that they were learned from better than others: those of each
# fold are predicted with hyper-parameters that do not know the fold.
FOLDED, N_FOLDS = 1000, 5
# Of more rows, so many tell the distribution.
MOST_ROWS = 4000
# Neighbourhoods are left out this number of times, of this number of rows or more, and predicted from so many nearest
# rows.
N_REGIONS, FEWEST_IN_REGIONS, NEIGHBORS = 3, 2000, 128

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
    n_rows, n_targets = fit.posterior.n_rows, len(fit.scales)
    if n_rows < FEWEST_ROWS:
        return (too_few(n_rows),) * n_targets
    STAGES.info("fitting the noise by rows left out")
    folded = n_rows <= FOLDED and not model._all_given
    parts = left_out_by_folds(model, arguments, rng) if folded else left_out(fit, rng)
    seed = int(rng.integers(2**31))  # the same for all: each target has the noise of a model of its own
    of_targets = (joined(parts, j) for j in range(n_targets))
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


def left_out_by_folds(model: Any, arguments: Mapping[str, Any], rng: np.random.Generator) -> list[Predicted]:
    """Predict training rows, each from all others, at hyper-parameters that were learned without its fold.

    The form of the kernel stays as it is.
    """
    learner = clone(model).set_params(noise="normal")
    if not isinstance(model.kernel, Kernel):
        chosen = model.learning_.chosen
        learner.set_params(kernel=chosen.kernel, ard=chosen.ard)
    of_rows = {name: arguments[name] for name in ("X", "y", "sample_weight", "noise_variances")}
    of_rows = {name: values for name, values in of_rows.items() if values is not None}
    if "sample_weight" in of_rows:  # rows of weight zero are none
        kept = np.flatnonzero(np.broadcast_to(of_rows["sample_weight"], len(of_rows["y"])) > 0.0)
        of_rows = {name: _safe_indexing(values, kept) for name, values in of_rows.items()}
    y, center = np.asarray(of_rows["y"], dtype=np.float64), arguments["center"]
    folds, seeds = rng.permutation(len(y)) % N_FOLDS, rng.integers(2**31, size=N_FOLDS).tolist()

    def without(fold: int) -> Predicted:
        others = {name: _safe_indexing(values, np.flatnonzero(folds != fold)) for name, values in of_rows.items()}
        learned = clone(learner).set_params(random_state=seeds[fold])
        learned.fit(**others, duplicates=arguments["duplicates"], center=center)
        scales, given = learned.scales_, clone(learned)
        given.set_params(kernel=learned.kernel_, noise_variance=learned.noise_variance_)
        # The hyper-parameters of several targets are of targets in these scales.
        scaled = of_rows | {"y": y / (scales if y.ndim > 1 else scales[0])}
        state = given.fit(**scaled, center=None if center is None else center / scales)._fitted
        rows, *predicted = state.without_each(np.flatnonzero((folds == fold) & singles(state.posterior.rows)))
        y_of_rows, means, std = (scales * values for values in predicted)
        return rows, y_of_rows, means, std, True

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which the fit to all rows has given
        return parallel_map(without, range(N_FOLDS))


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
