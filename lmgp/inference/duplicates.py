"""Exact copies of rows, which look like measurements without noise."""

import numpy as np

from lmgp.validation import Rows


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
    weights = np.ones(len(rows.y)) if rows.weights is None else rows.weights
    _, first, group = np.unique(np.column_stack((rows.X, rows.y)), axis=0, return_index=True, return_inverse=True)
    totals = np.bincount(group.ravel(), weights=weights)
    n_copies = int(np.ceil(np.maximum(weights, 1.0)).sum()) - len(first)
    kept = rows.take(first)
    return Rows(kept.X, kept.y, np.minimum(totals, 1.0), kept.noise_variances), n_copies
