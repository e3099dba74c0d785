"""What fits and predictions warn of: columns, single rows and targets that no model explains, and impossible means."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats
from lmgp.errors import ColumnWarning, OutlierWarning, TargetWarning, warn
from lmgp.kernels.base import Kernel

# Of fewer rows, one has half of the sum of squares by chance.
FEWEST_FOR_OUTLIERS = 20

# See `implausible`.
TARGET_RANGES, PRIOR_DEVIATIONS, SURPRISE = 2.0, 6.0, 4.0

# Whole numbers from 0 to below this are counts or grades; larger ones are prices, years and the like.
LEAST_AMOUNT = 20
# Values of a measured target repeat less often than this, on average.
REPEATS = 5
# The smallest or largest value is a limit, or says that there is no amount, where this share of the rows has it.
SHARE_AT_END = 0.2


def warn_of_long_periods(kernel: Kernel, X: Floats, names: Sequence[str] | None) -> None:
    """Warn of a period of a kernel that is given, if no row comes a period after another one.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
        With the columns that the kernel sees.
    names : sequence of str or None
        Of these columns; None means by their numbers.

    Warns
    -----
    ColumnWarning
        For each such column.
    """
    extents = np.ptp(X, axis=0)
    for parameter in kernel.parameters:
        if parameter.kind != "period":
            continue
        columns = range(X.shape[1]) if parameter.columns is None else parameter.columns
        for j, period in zip(columns, np.broadcast_to(parameter.value, len(columns)), strict=True):
            if 0.0 < extents[j] < period:
                which = f"column {j}" if names is None else f"column {str(names[j])!r}"
                warn(
                    f"The kernel has the period {period:g} in {which} of X, and rows are within {extents[j]:g}: none "
                    "comes a period after another, so that predictions beyond are those of the prior. Give a period "
                    "that the rows show, in the unit of the column, or a kernel without one.",
                    ColumnWarning,
                )


def warn_of_outlying_rows(X: Floats, names: Sequence[str] | None, columns: Iterable[int]) -> None:
    """Warn of columns in which one row has more than half of the sum of the squared deviations from the mean.

    Columns in which the middle half of the values is one value are left alone: a rare flag is no outlier.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        NaN where a value is missing.
    names : sequence of str or None
        Of the columns; None means by their numbers.
    columns : iterable of int
        Those to look at.

    Warns
    -----
    OutlierWarning
        For each such column.
    """
    if len(X) < FEWEST_FOR_OUTLIERS:
        return
    for j in columns:
        known = np.flatnonzero(np.isfinite(X[:, j]))
        column = X[known, j]
        relative = column / (np.abs(column).max() or 1.0)  # of which no square overflows
        squares = np.square(relative - relative.mean())
        row, (low, high) = int(np.argmax(squares)), np.quantile(relative, (0.25, 0.75))
        which = f"column {j}" if names is None else f"column {str(names[j])!r}"
        if squares[row] <= 0.5 * squares.sum() or low == high:
            continue
        warn(
            f"Row {known[row]} has {column[row]:.6g} in {which} of X, and {np.delete(column, row).std():.3g} is the "
            "standard deviation of the others: it makes "
            f"{100.0 * squares[row] / squares.sum():.3g}% of the variance of the column, in whose standard deviation "
            "lengthscales are learned. If it is an error, mend or leave out the row; if not, give a scale with heavy "
            "tails, GPRegressor(columns={...: 'asinh'}).",
            OutlierWarning,
        )


def implausible(mean: Floats, far: NDArray[np.intp], farthest: float, prior: Floats, surprise: Floats) -> str | None:
    """Say which means are impossible under the model itself; None if none is.

    A mean farther from the mean of y than `TARGET_RANGES` times the farthest target is asked for by no target. An
    extrapolated trend may lead there. It cannot where the mean is more than `PRIOR_DEVIATIONS` prior standard
    deviations off, which has a probability of 2e-9; nor where the model does not explain the training rows: where
    yᵀC⁻¹y/n, 1 ± √(2/n) if their covariance is C, is above `SURPRISE`. Where the model has a trend of its own, all of
    this is about what the process adds to it, and y are the residuals.

    Parameters
    ----------
    mean : ndarray of shape (n,)
        Less the mean of y, and less the trend.
    far : ndarray of shape (m,)
        Where it is more than `TARGET_RANGES` times the farthest target off.
    farthest : float
        The largest distance of a target from there.
    prior, surprise : ndarray of shape (m,)
        The prior variance there, and yᵀC⁻¹y/n of the training rows of the posterior that predicts it.

    Returns
    -------
    str or None
    """
    deviation = np.abs(mean[far])
    wrong = (deviation > PRIOR_DEVIATIONS * np.sqrt(prior)) | (surprise > SURPRISE)
    if not wrong.any():
        return None
    at = int(np.argmax(np.where(wrong, deviation, 0.0)))
    return (
        f"{np.count_nonzero(wrong):,} of {len(mean):,} predicted means are impossible under the model itself. The mean "
        f"of row {far[at]} is {deviation[at]:.3g} from the mean of y, where the farthest target is {farthest:.3g} "
        f"and the prior's standard deviation {prior[at] ** 0.5:.3g}. (yᵀC⁻¹y/n is {surprise[at]:.3g}, where 1 is "
        "expected.)"
    )


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
