"""Centroids that cover the rows: farthest-point clustering."""

import math
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree
from sklearn.utils.validation import check_array

from lmgp.columns import checked_table
from lmgp.errors import InputError
from lmgp.locality.blocks import MIN_ROWS, Blocks, squared_distances


@dataclass(frozen=True)
class Effort:
    """How the search is organised. These numbers change its time, never the centroids.

    Attributes
    ----------
    first_passes : int
        The number of centroids, for each column, that are found by passes over all rows before the rows are sorted into
        blocks: that costs as much as up to a hundred passes.
    untested : int
        After a centroid that is close to most blocks, this number of further ones visit all blocks without a test.
    rows_at_once : int
        Bounds the temporary memory.
    """

    first_passes: int = 32
    untested: int = 16
    rows_at_once: int = 2**18


EFFORT = Effort()


def farthest_point_clustering(
    X: ArrayLike, threshold: float, *, start: ArrayLike | None = None, max_centroids: int | None = None
) -> NDArray[np.float64]:
    """Choose centroids such that every row is closer than a threshold to one of them.

    The first centroid is the mean of the rows. Each further one is the row farthest from all centroids found before,
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
        At least 1. The search stops at this number of centroids, even if rows at `threshold` or farther remain. No
        limit if not given; there are at most n + 1 centroids.

    Returns
    -------
    ndarray of shape (n_centroids, d)
        In the order of choice: the start, then rows of X. The centroids of a larger threshold are the first ones of a
        smaller threshold. Any two centroids are at `threshold` or farther from each other.

    Raises
    ------
    InputError
        If X is not a dense array of finite numbers with at least one row and one column, if its values are so large
        that squared distances overflow, if `threshold` is not positive and finite, if `start` is not a finite row of
        d numbers, or if `max_centroids` is not a positive integer.

    Notes
    -----
    Memory is O(n d): no matrix of the distances between rows and centroids is formed. In few columns, a new centroid
    costs about O(√n d): the rows are kept in about √n blocks of neighbours, and it visits only blocks close enough for
    a distance to change. In many columns all blocks are close to each other, and the time is O(n d n_centroids) in the
    worst case. The centroids do not depend on this.

    Squared distances are sums of squared differences in the order of the columns. Inner products would be faster for
    large d, but round differently far from the origin, and one exchanged row changes all later centroids. The mean of
    identical rows can differ from them by rounding (a relative 1e-10 at worst for a million rows); a threshold below
    that adds the row itself.

    References
    ----------
    J. Wacker and M. Filippone, "Local Random Feature Approximations of the Gaussian Kernel", 2022, Algorithm 1.

    T. F. Gonzalez, "Clustering to minimize the maximum intercluster distance", *Theoretical Computer Science* 38, 1985.

    Examples
    --------
    >>> from lmgp.locality.clustering import farthest_point_clustering
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
        rows: NDArray[np.float64] = checked_table(X, order="C")
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
    cover: _Passes | _BlockPasses = _Passes(rows)
    centroids = [first]
    while True:
        cover.add(centroids[-1])
        farthest, squared = cover.farthest()
        if not np.isfinite(squared):
            raise InputError(
                "The values of X are so large that squared distances overflow float64; got a largest absolute value of "
                f"{np.max(np.abs(rows)):g}. Divide X and threshold by a common scale."
            )
        # The root, not the squared threshold: the root of a rounded square is the number itself, so that a row at
        # exactly the threshold is seen as such, and a tiny threshold does not underflow.
        if math.sqrt(squared) < threshold or len(centroids) >= max_centroids:
            return np.stack(centroids)
        if len(centroids) == EFFORT.first_passes * rows.shape[1] and len(rows) >= MIN_ROWS:
            cover = _BlockPasses(rows, cover.smallest)
        centroids.append(rows[farthest])


class _Passes:
    """Each row's squared distance to its nearest centroid, `smallest`. Each centroid takes a pass over all rows."""

    def __init__(self, rows: NDArray[np.float64]) -> None:
        self._columns = np.ascontiguousarray(rows.T)
        self.smallest = np.full(len(rows), np.inf)

    def add(self, centroid: NDArray[np.float64]) -> None:
        for start in range(0, len(self.smallest), EFFORT.rows_at_once):
            part = slice(start, start + EFFORT.rows_at_once)
            smallest = self.smallest[part]
            np.minimum(smallest, squared_distances(self._columns[:, part], centroid), out=smallest)

    def farthest(self) -> tuple[int, float]:
        """Return the row that is farthest from all centroids, the lowest of several, and its squared distance."""
        row = int(self.smallest.argmax())
        return row, self.smallest[row]


class _BlockPasses:
    """Continues `_Passes` with the rows in blocks of neighbours.

    A block knows its bounding box and its farthest row. A new centroid visits only blocks whose box is closer to it
    than the farthest row of the block is to its nearest centroid: in no other block can a distance become smaller.
    """

    smallest: NDArray[np.float64]  # one row of the array for each block

    def __init__(self, rows: NDArray[np.float64], smallest: NDArray[np.float64]) -> None:
        self._blocks = Blocks(rows)
        # Ascending within a block: the first of equals is then the lowest row.
        self._order, self._columns = self._blocks.order, self._blocks.columns
        self.smallest = smallest[self._order]
        self._first_of_block = self._order.shape[1] * np.arange(len(self._order))
        self._peaks = self._first_of_block + self.smallest.argmax(axis=1)  # where in the raveled `smallest`
        self._largest = self.smallest.reshape(-1)[self._peaks]
        self._untested = 0

    def add(self, centroid: NDArray[np.float64]) -> None:
        blocks = self._blocks_to_visit(centroid)
        at_once = max(1, EFFORT.rows_at_once // self._order.shape[1])
        for start in range(0, len(blocks), at_once):
            part = blocks[start : start + at_once]
            # Blocks in a row need no copy: worth it even if up to half of them need no visit.
            in_a_row = part[-1] - part[0] < 2 * len(part)
            self._visit(slice(part[0], part[-1] + 1) if in_a_row else part, centroid)

    def _blocks_to_visit(self, centroid: NDArray[np.float64]) -> NDArray[np.intp]:
        if self._untested:
            self._untested -= 1
            return np.arange(len(self._largest))
        blocks = np.flatnonzero(self._blocks.squared_distances_from(centroid) < self._largest)
        if 2 * len(blocks) > len(self._largest):
            self._untested = EFFORT.untested
        return blocks

    def _visit(self, blocks: NDArray[np.intp] | slice, centroid: NDArray[np.float64]) -> None:
        smallest = self.smallest[blocks]
        np.minimum(smallest, squared_distances(self._columns[:, blocks], centroid), out=smallest)
        if not isinstance(blocks, slice):  # then it was a copy
            self.smallest[blocks] = smallest
        self._peaks[blocks] = peaks = self._first_of_block[blocks] + smallest.argmax(axis=1)
        self._largest[blocks] = self.smallest.reshape(-1)[peaks]

    def farthest(self) -> tuple[int, float]:
        largest = self._largest.max()
        return self._order.reshape(-1)[self._peaks[self._largest == largest]].min(), largest
