"""How much columns matter: what shuffling one costs predictions of rows left out."""

import math
from typing import Any

import numpy as np

from lmgp.columns.table import Columns
from lmgp.data import Floats, Noise, Rows
from lmgp.neighbours.duplicates import merged_copies
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.nearest import NearestPosterior

# The number of rows that are left out. Each is predicted once for every column: of many columns, fewer rows make this
# number of predictions.
MOST_LEFT_OUT, LEAST_LEFT_OUT, PREDICTIONS = 512, 32, 16_384
# Of fewer training rows, none is left out.
FEWEST = 10
# No more than one training row of these is left out at a time.
SHARE = 5
# Rows left out are predicted from all others up to this number, and from the nearest ones of more.
MOST_EXACT, NEIGHBORS = 2000, 64


def importances(fit: Any, rows: Rows, columns: Columns) -> Floats | None:
    """Measure how much the squared error of rows left out grows where the values of one column are shuffled.

    Copies are one row. Up to 512 rows are left out, fewer of more than 32 columns, at most one of five at a time. They
    are predicted from the others, with each column in turn taken from another one of them.

    Parameters
    ----------
    fit : lmgp.estimators.base.Fit
        Its kernel, noise variance and trend predict.
    rows : Rows
        The training rows, with the columns that the kernel sees and targets z.
    columns : Columns
        What the columns of X have become.

    Returns
    -------
    ndarray of shape (2, t, d) or None
        The growth of the mean squared error over the variance of y, of each target and column, and its standard error
        over the rows left out. None of fewer than 10 rows.

    References
    ----------
    L. Breiman, *Random Forests*, Machine Learning 45, 2001, section 10.
    """
    rows = merged_copies(rows)
    if len(rows) < FEWEST:
        return None
    noise = Noise(fit.noise_variance)
    rng, growth = np.random.default_rng(0), []  # the same rows of every model: they are comparable
    most = min(MOST_LEFT_OUT, max(LEAST_LEFT_OUT, PREDICTIONS // len(columns.names)))
    drawn = rng.choice(len(rows), min(len(rows), most), replace=False)
    for held in np.array_split(drawn, math.ceil(SHARE * len(drawn) / len(rows))):
        left_out = np.zeros(len(rows), dtype=bool)
        left_out[held] = True
        if np.count_nonzero(~left_out) <= MOST_EXACT or not fit.kernel.can("metric"):
            others = rng.permutation(np.flatnonzero(~left_out))[:MOST_EXACT]
            without: Posterior = ExactPosterior(fit.kernel, rows.take(others), noise)
        else:
            without = NearestPosterior(fit.kernel, rows.take(~left_out), noise, NEIGHBORS, share=False)
        out = rows.take(held)
        y, given = fit.means(out.X, out.Y), columns.values(out.X)

        def squares(X: Floats, without: Posterior = without, y: Floats = y) -> Floats:
            means, _ = without.predict(X, variance=False)
            return np.square(fit.means(X, means) - y)

        error, shuffled = squares(columns.coordinates(given)), np.roll(given, 1, axis=0)
        of_columns = (np.where(np.arange(given.shape[1]) == j, shuffled, given) for j in range(given.shape[1]))
        growth.append(np.stack([squares(columns.coordinates(X)) - error for X in of_columns]))
    variance = fit.means(rows.X, rows.Y).var(axis=0)
    shares = np.concatenate(growth, axis=1) / np.where(variance > 0.0, variance, 1.0)
    errors = shares.std(axis=1) / math.sqrt(len(drawn))
    return np.stack((shares.mean(axis=1), errors)).swapaxes(1, 2)
