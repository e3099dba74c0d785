"""Rows that repeat each other: exact copies, which look like measurements without noise, and several at one place."""

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from lmgp.data import Floats, Indices, Rows, sampling
from lmgp.errors import InputError
from lmgp.neighbours.placement import column_order, place_keys

# What becomes of rows with equal X: they are kept, averaged, or copies of X and y are dropped.
Duplicates = Literal["keep", "average", "drop"]


def merged_copies(rows: Rows) -> Rows:
    """Replace rows that are equal in all but their count by one row with the sum of their counts.

    Whether rows are repeated or counted, and in which order they come, makes no difference to the result. Rows with
    weights that count none stay.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    Rows
        In an order that shifts and other units of X and y leave as it is; without weights where all are 1.
    """
    order = steady_order(rows)
    if rows.weights is not None and rows.counts is None:
        return rows.take(order)
    noises = () if rows.noise_variances is None else (rows.noise_variances,)
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = np.any([np.diff(values[order]) != 0 for values in (*rows.X.T, *rows.Y.T, *noises)], axis=0)
    first = np.flatnonzero(starts)
    kept = rows.take(order[first])
    counts = np.ones(len(order)) if rows.counts is None else rows.counts
    totals = np.add.reduceat(counts[order], first)
    return Rows(kept.X, kept.Y, None if np.all(totals == 1.0) else totals, kept.noise_variances)


def steady_order(rows: Rows) -> Indices:
    """Return an order of rows in which those of another order, or with other units of X and y, come alike.

    They come by y, which rotations of X do not change either, and those of equal y by
    `lmgp.neighbours.placement.place_keys`, of the columns in an order that theirs leaves alike.
    """
    by_last = np.argsort(rows.Y[:, -1])
    if np.all(np.diff(rows.Y[by_last, -1]) > 0.0):  # which alone tells them apart
        return by_last
    weights, noises = (() if of_rows is None else (of_rows,) for of_rows in (rows.weights, rows.noise_variances))
    places = rows.X[:, column_order(map(np.unique, rows.X.T))]
    return np.lexsort((*weights, place_keys(places), *noises, *rows.Y.T))


def steady_sample(rows: Rows, number: int) -> Indices:
    """Return a random sample of rows, in `steady_order`: the same ones in whatever order they come."""
    return steady_order(rows)[np.sort(sampling().permutation(len(rows))[:number])]


def count_copies(merged: Rows) -> int:
    """Count the rows that repeat X and y of an earlier one; weights that are whole numbers count equal rows.

    Parameters
    ----------
    merged : Rows
        Those of `merged_copies`.

    Returns
    -------
    int

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp.data import Indices, Rows
    >>> X = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    >>> count_copies(merged_copies(Rows(X, np.array([5.0, 5.0, 6.0]))))
    1
    """
    return round(merged.n_observations) - len(merged_copies(Rows(merged.X, merged.Y)))


def averaged(rows: Rows) -> Rows:
    """Replace rows of equal X by their mean: at given hyperparameters, the posterior stays the same.

    For w₁, …, w_c measurements at one place with one noise variance σ², the likelihood of the value f there depends on
    f through their weighted mean alone, which has the noise variance σ²/Σw.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    Rows
        One for each X, or for each pair of X and noise variance where rows have their own, in the order of the first
        ones. The weight is the sum of the weights, so that the weighted mean of all y stays the same, and each y is the
        mean of all measurements there. Rows of a single place are returned as they are, for a fit takes two rows, and
        so are rows of which no two share a place.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp.data import Indices, Rows
    >>> averaged(Rows(np.array([[2.0], [1.0], [2.0]]), np.array([5.0, 7.0, 6.0])))
    Rows(X=array([[2.], [1.]]), Y=array([[5.5],
           [7. ]]), weights=array([2., 1.]), noise_variances=None, measurements=array([2., 1.]))
    """
    noise = () if rows.noise_variances is None else (rows.noise_variances,)
    # + 0.0 makes 0 of −0, which is the same place.
    _, first, group = np.unique(np.column_stack((rows.X, *noise)) + 0.0, axis=0, return_index=True, return_inverse=True)
    if len(first) in (1, len(rows)):
        return rows
    order = np.argsort(first)

    def summed(values: Floats) -> Floats:
        return np.bincount(group.ravel(), weights=values)[order].astype(np.float64)

    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    measurements = summed(weights if rows.measurements is None else rows.measurements)
    kept, totals = rows.take(first[order]), summed(weights)
    means = np.stack([summed(weights * y) / totals for y in rows.Y.T], axis=1)
    return Rows(kept.X, means, totals, kept.noise_variances, measurements)


def check_duplicates(duplicates: Any) -> None:
    """Refuse what is no way to treat rows that repeat each other.

    Raises
    ------
    InputError
    """
    if duplicates not in get_args(Duplicates):
        raise InputError(f"duplicates must be {', '.join(map(repr, get_args(Duplicates)))}; got {duplicates!r}.")


def dropped(rows: Rows) -> Rows:
    """Leave out the rows that repeat X and y of an earlier one.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    Rows
        In their order; those that count equal rows count once.

    Raises
    ------
    InputError
        If one row remains.
    """
    _, first = np.unique(np.column_stack((rows.X, rows.Y)) + 0.0, axis=0, return_index=True)
    if len(first) < 2:
        raise InputError(
            f"All {len(rows)} rows have the same X and y: duplicates='drop' leaves one, and at least 2 are needed."
        )
    kept = rows.take(np.sort(first))
    return kept if rows.counts is None else replace(kept, weights=None)
