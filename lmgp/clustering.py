"""Centroids that cover the rows: farthest-point clustering."""

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree
from sklearn.utils.validation import check_array

from lmgp.errors import InputError


def farthest_point_clustering(
    X: ArrayLike, threshold: float, *, start: ArrayLike | None = None, max_centroids: int | None = None
) -> NDArray[np.float64]:
    """Choose centroids such that every row is closer than a threshold to one of them.

    The first centroid is the mean of the rows; each further one is the row that is farthest from all centroids so far,
    until the largest distance is strictly below the threshold. The result is deterministic: of several farthest rows,
    the one with the lowest index is taken.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Rows. To cluster in lengthscales, divide them by the lengthscale first.
    threshold : float
        Positive and finite, in the units of X.
    start : array-like of shape (d,), optional
        The first centroid; the mean of the rows if not given.
    max_centroids : int, optional
        At least 1. If so many centroids are reached first, they are returned although rows at `threshold` or farther
        remain. No limit if not given; there are at most n + 1 centroids.

    Returns
    -------
    ndarray of shape (n_centroids, d)
        In the order in which they were chosen: the start, then rows of X. The centroids of a larger threshold are the
        first ones of a smaller threshold. All rows among them are at `threshold` or farther from each other and from
        the start.

    Raises
    ------
    InputError
        If X is not a dense array of finite numbers with at least one row and one column, if its values are so large
        that squared distances overflow, if `threshold` is not positive and finite, if `start` is not a finite row of
        d numbers, or if `max_centroids` is not a positive integer.

    Notes
    -----
    Time is O(n d n_centroids), memory O(n d): no matrix of the distances between rows and centroids is formed.

    Squared distances are sums of squared differences in the order of the columns. Through inner products they would be
    cheaper at large d, but would round differently far from the origin, and a single exchanged row changes all
    centroids after it. The mean of identical rows can differ from them by rounding (a relative 1e-10 at worst for a
    million rows); a threshold below that adds the row itself.

    References
    ----------
    J. Wacker and M. Filippone, "Local Random Feature Approximations of the Gaussian Kernel", 2022, Algorithm 1.

    T. F. Gonzalez, "Clustering to minimize the maximum intercluster distance", *Theoretical Computer Science* 38, 1985.

    Examples
    --------
    >>> from lmgp.clustering import farthest_point_clustering
    >>> X = [[0.0, 0.0], [1.0, 0.0], [8.0, 0.0], [9.0, 0.0], [7.0, 0.0]]
    >>> farthest_point_clustering(X, threshold=2.5)
    array([[5., 0.],
           [0., 0.],
           [9., 0.]])
    >>> farthest_point_clustering(X, threshold=2.5, max_centroids=2)
    array([[5., 0.],
           [0., 0.]])
    """
    if isinstance(threshold, bool) or not isinstance(threshold, Real) or not 0.0 < threshold < math.inf:
        raise InputError(f"threshold must be a positive, finite number in the units of X; got {threshold!r}.")
    if max_centroids is not None and (
        isinstance(max_centroids, bool) or not isinstance(max_centroids, Integral) or max_centroids < 1
    ):
        raise InputError(
            f"max_centroids must be a positive integer, or None for no limit; got {max_centroids!r}. "
            "The start counts as one."
        )
    try:
        # One memory order, so that the rounding of the mean does not depend on the caller's.
        rows: NDArray[np.float64] = check_array(X, dtype=np.float64, order="C", input_name="X")
        first = rows.mean(axis=0) if start is None else check_array([start], dtype=np.float64, input_name="start")[0]
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    if len(first) != rows.shape[1]:
        raise InputError(f"start must have one value a column of X, {rows.shape[1]}; got {len(first)}.")
    # A distance that overflows to inf is harmless unless it is the smallest one, which is checked below.
    with np.errstate(over="ignore", under="ignore"):
        return _farthest_points(
            rows, first, float(threshold), len(rows) + 1 if max_centroids is None else max_centroids
        )


def nearest_centroids(X: NDArray[np.float64], centroids: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the index of the centroid nearest to each row, shape (n,).

    Parameters
    ----------
    X : ndarray of shape (n, d)
    centroids : ndarray of shape (n_centroids, d)
    """
    _, nearest = cKDTree(centroids).query(X)
    # Where all distances overflow the tree answers with no centroid: they are all equally far.
    return np.where(nearest < len(centroids), nearest, 0)


def _farthest_points(
    rows: NDArray[np.float64], first: NDArray[np.float64], threshold: float, max_centroids: int
) -> NDArray[np.float64]:
    # Whole columns are streamed through two buffers: for few columns much faster than summing along short rows, and the
    # sums keep the order of the columns, whatever the number of columns.
    columns = np.ascontiguousarray(rows.T)
    squared = np.empty(len(rows))
    term = np.empty(len(rows))
    smallest = np.full(len(rows), np.inf)
    centroids = [first]
    while True:
        _squared_distances(columns, centroids[-1], out=squared, buffer=term)
        np.minimum(smallest, squared, out=smallest)
        farthest = int(np.argmax(smallest))  # the first of equals
        if not np.isfinite(smallest[farthest]):
            raise InputError(
                "The values of X are so large that squared distances overflow float64; got a largest absolute value of "
                f"{np.max(np.abs(rows)):g}. Divide X and threshold by a common scale."
            )
        # The root, not the squared threshold: the root of a rounded square is the number itself, so that a row at
        # exactly the threshold is seen as such, and a tiny threshold does not underflow.
        if math.sqrt(smallest[farthest]) < threshold or len(centroids) >= max_centroids:
            return np.stack(centroids)
        centroids.append(rows[farthest])


def _squared_distances(
    columns: NDArray[np.float64],
    centroid: NDArray[np.float64],
    *,
    out: NDArray[np.float64],
    buffer: NDArray[np.float64],
) -> None:
    """Write Σⱼ (xⱼ − cⱼ)² for all rows into `out`; `columns` has shape (d, n)."""
    np.subtract(columns[0], centroid[0], out=out)
    np.multiply(out, out, out=out)
    for column, center in zip(columns[1:], centroid[1:], strict=True):
        np.subtract(column, center, out=buffer)
        np.multiply(buffer, buffer, out=buffer)
        np.add(out, buffer, out=out)
