"""Where rows are, whatever their order and however often each is repeated."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Rows whose numbers differ by less are at one place: shifts by a thousand extents round the thirteenth digit.
ROUNDING = 1e-12


def place_keys(X: Floats) -> Floats:
    """Return a number for each row that depends on its place among the rows alone.

    It is the row's coordinate along an oblique line through the box of all rows. Copies of a row have the same number,
    and shifts and other units of the columns leave the order of the numbers as it is.

    Parameters
    ----------
    X : ndarray of shape (n, d)

    Returns
    -------
    ndarray of shape (n,)
    """
    keys = np.zeros(len(X))
    shares = np.random.default_rng(0).uniform(0.5, 1.5, (X.shape[1], 1))
    for column, share in zip(X.T, shares, strict=True):
        half = 0.5 * column  # so that no difference overflows
        extent = half.max() - half.min()
        if extent > 0.0:
            keys += share * ((half - half.min()) / extent)
    return keys


def distinct_places(X: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Return each place of rows once, in an order that depends on the places alone.

    What is chosen from these, at random or not, is the same for rows in another order and for repeated rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    weights : ndarray of shape (n,), optional
        Of the rows; 1 if not given.

    Returns
    -------
    places : ndarray of shape (n_places, d)
    totals : ndarray of shape (n_places,)
        The sum of the weights of the rows at each place.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 1.0], [0.0, 0.0], [2.0, 1.0]])
    >>> places, totals = distinct_places(X)
    >>> places.tolist(), totals.tolist()
    ([[0.0, 0.0], [2.0, 1.0]], [1.0, 2.0])
    """
    keys = place_keys(X)
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1.0) > ROUNDING)
    return X[order[starts]], np.add.reduceat(np.ones(len(X)) if weights is None else weights[order], starts)
