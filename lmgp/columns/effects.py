"""Columns of many categories: the effect of each category on the target, as one coordinate, and how sure it is."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lmgp.columns.categories import MOST_LEVELS
from lmgp.columns.table import Columns
from lmgp.data import Floats, Indices, Noise, Rows, sampling
from lmgp.errors import InputError
from lmgp.learning.engine import Settings, learn_rows
from lmgp.neighbours.duplicates import steady_order, steady_sample
from lmgp.posteriors.nearest import NearestPosterior

# The function of the other columns is learned from this number of rows, and each row predicted from that of others.
SAMPLE, NEIGHBORS = 1000, 64
# The effect of a training row's category is that of the rows of the other folds.
N_FOLDS = 5


class Effects(NamedTuple):
    """The effects of categories, of a random-effects model: their means given the rows, and standard deviations.

    Attributes
    ----------
    means, deviations : ndarray of shape (n_levels + 1,)
        In units of y, the last one of a category without rows.
    of_rows : ndarray of shape (n, 2)
        Of the category of each training row, by the rows of other folds.
    """

    means: Floats
    deviations: Floats
    of_rows: Floats


def with_effects(columns: Columns, rows: Rows, settings: Settings) -> tuple[Columns, Rows]:
    """Estimate the effects of all columns of many categories; training rows get those of rows of other folds.

    Raises
    ------
    InputError
        If there are several targets.
    """
    wanted = columns.unknown_effects
    if not wanted:
        return columns, rows
    if rows.n_targets > 1:
        raise InputError(
            f"Columns of more than {MOST_LEVELS} categories are taken for one target; got {rows.n_targets}. Use "
            "lmgp.estimators.MultiTargetGPRegressor, which fits each by its own."
        )
    firsts = np.array([first for _, first, _ in wanted])
    others = np.setdiff1d(np.arange(rows.X.shape[1]), (firsts, firsts + 1))
    order, X = steady_order(rows), rows.X.copy()
    left = residuals(rows.with_targets(rows.Y - rows.means), others, settings)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights / rows.mean_weight
    for place, first, n_levels in wanted:
        estimates = effects(left, rows.X[:, first].astype(np.intp), n_levels, order, weights)
        X[:, [first, first + 1]] = estimates.of_rows
        columns = columns.with_effects(place, estimates.means, estimates.deviations)
    return columns, replace(rows, X=X)


def residuals(rows: Rows, others: Indices, settings: Settings) -> Floats:
    """Return what the function of the other columns leaves of y, each row predicted from its nearest others.

    Parameters
    ----------
    rows : Rows
        With one centred target.
    others : ndarray of int
        The columns of the kernel.
    settings : Settings
        For all columns.
    """
    y: Floats = rows.Y[:, 0]
    varying = others[np.ptp(rows.X[:, others], axis=0) > 0.0]
    if not len(varying):
        return y
    rest = replace(rows, X=rows.X[:, others])
    some = rest.take(np.sort(steady_sample(rows, SAMPLE)))
    groups = None if settings.groups is None else np.asarray(settings.groups)[others].tolist()
    learned = learn_rows(some, replace(settings.of_trials(), groups=groups))
    posterior = NearestPosterior(learned.kernel, rest, Noise(learned.noise_variance), NEIGHBORS, share=False)
    return y - posterior.leave_one_out()[0][:, 0]


def effects(left: Floats, codes: Indices, n_levels: int, order: Indices, weights: Floats) -> Effects:
    """Estimate the effect of each category on what other columns leave of y.

    y = b + e with a random effect b of each category, of variance τ², and errors e of variance σ², which are estimated
    by the analysis of variance. The effect of a category of k rows with the mean m is m·k/(k + σ²/τ²), and what is left
    of its variance σ²/(k + σ²/τ²).

    Parameters
    ----------
    left : ndarray of shape (n,)
    codes : ndarray of int of shape (n,)
        The category of each row.
    n_levels : int
    order : ndarray of int of shape (n,)
        In which rows are put into folds.
    weights : ndarray of shape (n,)
        How often each row counts: its error has the variance σ² over its weight.

    References
    ----------
    S. R. Searle, G. Casella and C. E. McCulloch, *Variance Components*, Wiley, 1992, section 3.6.
    """
    n, tiny = float(weights.sum()), np.finfo(np.float64).tiny
    folds = np.empty(len(left), dtype=np.intp)
    folds[order] = sampling().permutation(len(left)) % N_FOLDS
    left = left - np.average(left, weights=weights)
    sums = np.zeros((N_FOLDS, n_levels))
    counts = np.zeros_like(sums)
    np.add.at(sums, (folds, codes), weights * left)
    np.add.at(counts, (folds, codes), weights)
    total, count = sums.sum(axis=0), counts.sum(axis=0)
    between, n_seen = float(np.sum(np.square(total) / np.maximum(count, tiny))), int(np.count_nonzero(count))
    # Rounding may take the difference below zero.
    error = max(float(weights * left @ left) - between, 0.0) / max(n - n_seen, 1.0)
    typical = (n - float(np.square(count).sum()) / n) / max(n_seen - 1, 1)
    variance = max((between / max(n_seen - 1, 1) - error) / (typical or 1.0), 0.0)

    def estimated(sums: Floats, counts: Floats) -> tuple[Floats, Floats]:
        shares = variance * counts / np.maximum(variance * counts + error, tiny)
        return shares * sums / np.maximum(counts, tiny), np.sqrt(variance * (1.0 - shares))

    without = estimated(total - sums, count - counts)
    means, deviations = estimated(np.append(total, 0.0), np.append(count, 0.0))
    return Effects(means, deviations, np.column_stack([of[folds, codes] for of in without]))
