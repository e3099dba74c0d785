"""Linear models, beside whose predictions those of a process are read."""

from collections.abc import Sequence

import numpy as np

from lmgp.data import Floats
from lmgp.metrics.gaussian import nlpd, rmse

# A row whose leverage is nearer to 1 is met exactly, and nothing tells what it would be without itself.
LEAST_FREE = 1e-9


def linear_baseline(X: Floats, y: Floats) -> list[float]:
    """Fit a linear model by least squares; of no columns, that is the mean of y.

    The error of a row that is left out is e/(1 − h), with the row's residual e and its leverage h.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)

    Returns
    -------
    list of float
        The intercept, the d slopes, and the root mean square error of rows that are left out; none if every row is met
        exactly.
    """
    ones = np.ones((len(X), 1))
    centre, unit = X.mean(axis=0), np.concatenate((ones[0], X.std(axis=0)))
    design = np.hstack((ones, X - centre)) / np.where(unit > 0.0, unit, 1.0)
    left, sizes, right = np.linalg.svd(design, full_matrices=False)
    kept = sizes > sizes[0] * max(design.shape) * np.finfo(np.float64).eps
    left, sizes, right = left[:, kept], sizes[kept], right[kept]
    level = y.mean()
    products = left.T @ (y - level)
    free = 1.0 - np.square(left).sum(axis=1)
    some = free > LEAST_FREE
    if not some.any():
        return []
    errors = (y - level - left @ products)[some] / free[some]
    shift, *slopes = right.T @ (products / sizes) / np.where(unit > 0.0, unit, 1.0)
    least = np.finfo(np.float64).eps * float(np.abs(y).max())
    deviation = max(float(np.sqrt(np.mean(np.square(errors)))), least)
    return [float(level + shift - centre @ slopes), *map(float, slopes), deviation]


def baseline_scores(numbers: Sequence[float], X: Floats | None = None, y: Floats | None = None) -> dict[str, float]:
    """Return the RMSE and the NLPD of a linear baseline, under normal distributions of one standard deviation.

    Parameters
    ----------
    numbers : sequence of float
        See `linear_baseline`.
    X : ndarray of shape (n, d), optional
    y : ndarray of shape (n,), optional
        Test rows; if not given, the scores are those of the training rows, each left out.
    """
    intercept, *slopes, deviation = numbers
    if X is None or y is None:
        return {"RMSE": deviation, "NLPD": float(np.log(deviation) + 0.5 * np.log(2.0 * np.pi) + 0.5)}
    mean = np.full(len(y), intercept)
    if slopes:  # the mean of y needs no columns, which may be dates
        mean += np.asarray(X) @ np.asarray(slopes)
    return {"RMSE": rmse(y, mean), "NLPD": nlpd(y, mean, np.full(len(y), deviation**2))}
