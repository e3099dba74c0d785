"""Rows that had no part in their prediction, by which the distribution of new observations is told."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from lmgp.data import Noise, Rows, sampling
from lmgp.distributions.left_out import LeftOut, Predicted
from lmgp.distributions.noise import FEWEST_ROWS, NoiseName, ObservationNoise, mean_gain, pays, too_few
from lmgp.errors import InputError
from lmgp.estimators.robust import robust_fit
from lmgp.learning.heldout import HeldOut
from lmgp.neighbours.duplicates import steady_order
from lmgp.posteriors.average import averaged
from lmgp.posteriors.nearest import nearest_of
from lmgp.sums.sample import Sample
from lmgp.utils.progress import silent, stage

# The distribution is fitted to at most this number of rows that are left out by themselves.
MOST_ROWS = 8000
# Up to this number of training rows "auto" tries a robust fit, and the rows of a robust fit are predicted in folds.
MOST_ROBUST, N_FOLDS = 2000, 5
# Of more training rows than these, neighbourhoods are left out six times, and predicted from the nearest other rows: as
# many as the model predicts from, or 128.
FEWEST_IN_REGIONS, N_REGIONS, NEIGHBORS = 2000, 6, 128


def with_noise(model: Any, wanted: NoiseName, arguments: Mapping[str, Any]) -> Any:
    """Return the fitted state with the distribution of new observations of each target, and a robust fit if wanted.

    "auto" tries a robust fit where rows are few, hyper-parameters are learned, and a t predicts rows left out better
    than a normal distribution. Many rows have been weighted before the fit.

    Parameters
    ----------
    model : GaussianProcess
        Fitted to rows in memory.
    wanted : {"student", "varying", "robust", "auto"}
    arguments : mapping
        Those of `fit`.

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
    stage("noise", "fitting the noise by rows left out")
    parts = left_out(fit)
    if fit.robust is not None:
        noise, _ = ObservationNoise.fitted("auto", _of_robust(parts))
        normal, gain, error = fit.robust
        return replace(fit, noises=(normal.beside(noise, gain, error, True),), robust=None)
    few = wanted == "auto" and n_targets == 1 and n_rows <= MOST_ROBUST and not model._all_given
    few = few and not model._table.has_effects
    few = few and arguments["duplicates"] == "keep"  # the folds have all rows, and the fit one of each place
    if robust or few:
        plain, _ = ObservationNoise.fitted("student", LeftOut.of(parts))
        if plain.trials and (robust or pays(plain.chosen.gain, plain.chosen.standard_error, plain.n_rows)):
            return _robust_if_better(model, arguments, parts, plain, robust)
    return replace(fit, noises=observation_noises(parts, wanted))


def _robust_if_better(
    model: Any, arguments: Mapping[str, Any], parts: Sequence[Predicted], plain: ObservationNoise, wanted: bool
) -> Any:
    """Return the state of a robust fit where it is wanted, or predicts folds better under a t; if not, that of a model.

    Noise that varies is fitted to the rows that the taken one leaves out, and to no others.
    """
    stage("noise", "fitting robustly, and comparing by rows left out")
    fit, gain, error = model._fitted, math.nan, math.nan
    with silent():  # of six fits, and six of each fold: the first one has warned
        again = robust_fit(model, arguments, plain.degrees)
        in_folds = fit.posterior.n_rows <= MOST_ROBUST
        robustly = left_out_by_folds(again, arguments, plain.degrees) if in_folds else left_out(again._fitted)
        robust = _of_robust(robustly)
        noise, after = ObservationNoise.fitted("student", robust)
        if not wanted:
            _, before = ObservationNoise.fitted("student", LeftOut.of(left_out_by_folds(model, arguments)))
            gain, error = mean_gain(before, after)
    better = wanted or pays(gain, error, plain.n_rows)
    if better:
        noise, _ = ObservationNoise.fitted("auto", robust)
    else:
        plain, _ = ObservationNoise.fitted("auto", LeftOut.of(parts))
    state = again._fitted if better else fit
    return replace(state, learning=fit.learning, noises=(plain.beside(noise, gain, error, better),))


def _of_robust(parts: Sequence[Predicted]) -> LeftOut:
    """Join rows that a robust fit leaves out: its weights are no repetitions, but say how much a row pulls."""
    return replace(LeftOut.of(parts), weights=None)


def with_noise_of_sample(fit: Any, wanted: NoiseName, sample: Sample) -> Any:
    """Return a solved state of sums with the noise that a sample of their rows tells, each predicted without itself."""
    stage("noise", "fitting the noise by rows left out")
    rows = fit.in_scale(sample.rows)
    part = (*fit.in_units(rows, *fit.posterior.without_each(rows)), True)
    return replace(fit, noises=observation_noises([part], wanted))


def observation_noises(parts: Sequence[Predicted], wanted: NoiseName) -> tuple[ObservationNoise, ...]:
    """Return the noise of each target."""
    return tuple(ObservationNoise.fitted(wanted, LeftOut.of(parts, j))[0] for j in range(parts[0][1].shape[1]))


def left_out(fit: Any) -> list[Predicted]:
    """Predict training rows, each from all others, and whole neighbourhoods, from the rows around them.

    They are the same rows for all targets and for all fits.
    """
    order, rng = steady_order(fit.posterior.rows), sampling()
    rows = fit.posterior.rows.take(order)
    parts = [(*fit.without_each(order[np.sort(rng.permutation(len(rows))[:MOST_ROWS])]), True)]
    if len(rows) > FEWEST_IN_REGIONS and fit.kernel.can("metric"):
        scales = np.where(fit.column_scales > 0.0, fit.column_scales, 1.0)
        number = getattr(fit.posterior.process, "n_neighbors", NEIGHBORS)
        nearest = cache(lambda kernel, noise: nearest_of(fit.posterior, kernel, Noise(noise), number))
        for held in (HeldOut.of(rows, scales, rng) for _ in range(N_REGIONS)):
            taken = np.zeros(len(rows), dtype=bool)
            taken[order] = held.taken
            around = averaged(fit.kernels, lambda *of, taken=taken: nearest(*of).without(taken))
            parts.append((*fit.in_units(held.regions, *around.predict(held.regions.X)), False))
    return parts


def left_out_by_folds(model: Any, arguments: Mapping[str, Any], degrees: float | None = None) -> list[Predicted]:
    """Predict each fold of the rows by a fit to the others, with the hyper-parameters of all.

    Of a robust fit, with the ν `degrees`, nothing else is honest: how much a row pulls follows from the rows around it,
    and those that agree with it would know it. What it is compared with has as many rows as it has.
    """
    kernel, noise_variance, _ = model._fitted.kernels[0]
    given = clone(model).set_params(
        kernel=kernel, noise_variance=noise_variance, noise="normal", trend=model._fitted_trend, **model._same_columns
    )
    of_rows = {name: arguments[name] for name in ("X", "y", "sample_weight", "noise_variances")}
    of_rows = {name: values for name, values in of_rows.items() if values is not None}
    inputs, y = model._read_pair(of_rows["X"], of_rows["y"], reset=False)
    weights = np.broadcast_to(of_rows.get("sample_weight", 1.0), len(y))
    kept = np.flatnonzero(weights > 0.0)  # rows of weight zero are none
    kept = kept[steady_order(Rows(model._coordinates(inputs)[kept], y[kept]))]  # in whatever order the rows come
    folds = sampling().permutation(len(kept)) % N_FOLDS
    of_folds = []
    for fold in range(N_FOLDS):
        train, test = (
            {name: _safe_indexing(values, kept[index]) for name, values in of_rows.items()}
            for index in (folds != fold, folds == fold)
        )
        of_fold = {**arguments, **train}
        fitted = given._fit_normal(**of_fold)
        fitted = fitted if degrees is None else robust_fit(fitted, of_fold, degrees)
        of_folds.append(fitted._predicted(**test))
    rows, *predicted = zip(*of_folds, strict=True)
    order = np.argsort(np.argsort(folds, kind="stable"))  # that of `kept`
    X = np.concatenate([one.X for one in rows])[order]
    y, means, std = (np.concatenate(one)[order] for one in predicted)
    return [(Rows(X, y), y, means, std, True)]
