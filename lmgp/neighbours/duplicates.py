"""Rows that repeat each other: exact copies, which look like measurements without noise, and several at one place."""

from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Rows
from lmgp.errors import InputError
from lmgp.neighbours.placement import place_keys

# What becomes of rows with equal X: they are kept, averaged, or copies of X and y are dropped.
Duplicates = Literal["keep", "average", "drop"]

# The constants of the generator SplitMix64, whose last step makes 64 random bits of any 64 bits.
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))


def count_copies(rows: Rows) -> int:
    """Count the rows that repeat X and y of an earlier one, without moving any.

    Parameters
    ----------
    rows : Rows
        A row of weight w > 1 stands for ⌈w⌉ rows.

    Returns
    -------
    int

    Notes
    -----
    Rows are compared by 64 random bits of each. Of a million different rows, two have the same bits with a probability
    of 3e-8. It takes 32 bytes a row.

    References
    ----------
    G. L. Steele, D. Lea and C. H. Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA 2014 (SplitMix64).

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp.data import Rows
    >>> X = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    >>> count_copies(Rows(X, np.array([5.0, 5.0, 6.0])))
    1
    """
    n_rows = len(rows) if rows.weights is None else int(np.ceil(np.maximum(rows.weights, 1.0)).sum())
    return n_rows - len(np.unique(_bits(rows)))


def singles(rows: Rows) -> NDArray[np.intp]:
    """Return the rows that no other one equals in X and y, compared as in `count_copies`."""
    _, first, counts = np.unique(_bits(rows), return_index=True, return_counts=True)
    return np.sort(first[counts == 1])


def _bits(rows: Rows) -> NDArray[np.uint64]:
    """Return 64 random bits of each row, from X and y."""
    bits = np.zeros(len(rows), dtype=np.uint64)
    for column in (*rows.X.T, *rows.Y.T):
        bits = _mixed(bits, column)
    return bits


def _mixed(bits: NDArray[np.uint64], values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Mix a column into the bits of each row."""
    # −0.0 + 0.0 is 0.0; the odd constant makes the order of columns count.
    mixed = (values + 0.0).view(np.uint64) + bits * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in _STEPS:
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    return mixed


def without_copies(rows: Rows) -> tuple[Rows, int]:
    """Keep one of each set of rows with equal X and equal y.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    distinct : Rows
        The first row of each set, with the weight of all its rows, but at most 1.
    n_copies : int
        The number of rows that were left out. A row of weight w > 1 stands for ⌈w⌉ rows.
    """
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    _, first, group = np.unique(np.column_stack((rows.X, rows.Y)), axis=0, return_index=True, return_inverse=True)
    totals = np.bincount(group.ravel(), weights=weights)
    n_copies = int(np.ceil(np.maximum(weights, 1.0)).sum()) - len(first)
    kept = rows.take(first)
    return Rows(kept.X, kept.Y, np.minimum(totals, 1.0), kept.noise_variances), n_copies


def merged_copies(rows: Rows) -> Rows:
    """Replace rows that are equal in all but their weight by one row with the sum of their weights.

    Whether rows are repeated or weighted, and in which order they come, makes no difference to the result.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    Rows
        In an order that shifts and other units of X and y leave as it is; without weights where all are 1.

    Notes
    -----
    Rows are ordered by y, which rotations of X do not change either, and those of equal y by
    `lmgp.neighbours.placement.place_keys`.
    """
    own = () if rows.noise_variances is None else (rows.noise_variances,)
    targets = tuple(rows.Y.T)
    order = np.lexsort((place_keys(rows.X), *own, *targets))
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = np.any([np.diff(values[order]) != 0 for values in (*rows.X.T, *targets, *own)], axis=0)
    first = np.flatnonzero(starts)
    kept = rows.take(order[first])
    weights = np.ones(len(order)) if rows.weights is None else rows.weights
    totals = np.add.reduceat(weights[order], first)
    return Rows(kept.X, kept.Y, None if np.all(totals == 1.0) else totals, kept.noise_variances)


def averaged(rows: Rows) -> Rows:
    """Replace rows of equal X by their mean: at given hyper-parameters, the posterior stays the same.

    For w₁, …, w_c measurements at one place with one noise variance σ², the likelihood of the value f there depends on
    f through their weighted mean alone, which has the noise variance σ²/Σw.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    Rows
        One for each X, or for each pair of X and noise variance where rows have their own, in the order of the first
        ones. The weight is the sum of the weights, so that the weighted mean of all y stays the same. Rows of a single
        place are returned as they are: a fit takes two rows.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp.data import Rows
    >>> averaged(Rows(np.array([[2.0], [1.0], [2.0]]), np.array([5.0, 7.0, 6.0])))
    Rows(X=array([[2.], [1.]]), Y=array([[5.5],
           [7. ]]), weights=array([2., 1.]), noise_variances=None)
    """
    own = () if rows.noise_variances is None else (rows.noise_variances,)
    # + 0.0 makes 0 of −0, which is the same place.
    _, first, group = np.unique(np.column_stack((rows.X, *own)) + 0.0, axis=0, return_index=True, return_inverse=True)
    if len(first) == 1:
        return rows
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    totals = np.asarray(np.bincount(group.ravel(), weights=weights), dtype=np.float64)
    means = np.stack([np.bincount(group.ravel(), weights=weights * y) / totals for y in rows.Y.T], axis=1)
    order = np.argsort(first)
    kept = rows.take(first[order])
    return Rows(kept.X, means[order], totals[order], kept.noise_variances)


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
        In their order; of weight 1 at most, where they have weights.

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
    return kept if kept.weights is None else replace(kept, weights=np.minimum(kept.weights, 1.0))
