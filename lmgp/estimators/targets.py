"""Targets that no continuous distribution describes: classes, counts and grades, and amounts that are often zero."""

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats
from lmgp.errors import TargetWarning, warn

# Whole numbers from 0 to below this are counts or grades; larger ones are prices, years and the like.
LEAST_AMOUNT = 20
# Values of a measured target repeat less often than this, on average.
REPEATS = 5
# The smallest or largest value is a limit, or says that there is no amount, where this share of the rows has it.
SHARE_AT_END = 0.2


def warn_of_targets(Y: Floats, names: NDArray[np.object_] | None) -> None:
    """Warn of targets that take two values, or small whole numbers, or often their smallest or largest value.

    Parameters
    ----------
    Y : ndarray of shape (n, t)
    names : ndarray of shape (t,) or None
        Of several targets.

    Warns
    -----
    TargetWarning
        For each such target.
    """
    for j, y in enumerate(Y.T):
        told = _kind(y)
        if told is not None:
            which = "y" if names is None else f"Target {str(names[j])!r}"
            warn(f"{which} {told}", TargetWarning)


def _kind(y: Floats) -> str | None:
    """Say what a target is, what its predictions are, and what to use; None of one that may be measured."""
    values, counts = np.unique(y, return_counts=True)
    if len(values) < 2:
        return None
    if len(y) < REPEATS * len(values):
        return _point_mass(values, counts)
    if len(values) == 2:
        return (
            f"takes two values, {values[0]:g} and {values[1]:g}, as classes do. What is predicted is the mean, mostly "
            "between the two but also beyond them, with intervals of a continuous distribution. For the probability "
            "of a class use a classifier, such as sklearn.gaussian_process.GaussianProcessClassifier."
        )
    if values[0] >= 0.0 and values[-1] < LEAST_AMOUNT and np.array_equal(values, np.rint(values)):
        return (
            f"takes {len(values)} whole numbers from {values[0]:g} to {values[-1]:g}, as counts and grades do. What is "
            "predicted is the mean, with intervals of a continuous distribution that may reach below zero. For counts "
            "use lmgp.TransformedTargetGPRegressor(transformer='log1p'), lmgp fit --target-transform log1p, or a "
            "Poisson regression, such as sklearn.ensemble.HistGradientBoostingRegressor(loss='poisson'); for grades, a "
            "classifier."
        )
    return None


def _point_mass(values: Floats, counts: NDArray[np.intp]) -> str | None:
    """Say that many rows have the smallest or the largest value, where others repeat less; None where few have."""
    end = 0 if counts[0] >= counts[-1] else -1
    if counts[end] < max(2 * REPEATS, SHARE_AT_END * counts.sum()):
        return None
    return (
        f"is {values[end]:g}, its {'smallest' if end == 0 else 'largest'} value, in {counts[end]:,} of "
        f"{counts.sum():,} rows: an amount that is often zero, or a measurement with a limit. A continuous "
        "distribution gives no single value a probability: means are drawn towards this one, and intervals hold fewer "
        "of the other rows. Predict whether a row has this value with a classifier, and the amount with a model of the "
        "other rows."
    )
