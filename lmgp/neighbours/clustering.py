"""Rows in blocks of neighbours: the rows around a point, and centroids that cover all rows."""

import math
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree, cKDTree
from sklearn.utils.validation import check_array

from lmgp.data import Floats, Indices
from lmgp.errors import InputError
from lmgp.utils.columns import checked_table
from lmgp.utils.parameters import checked_count

# With fewer rows, a pass over all of them costs no more than finding those that matter.
MIN_ROWS = 2**14

# How the centroids are searched for. These numbers change the time that it takes, never the centroids: how many
# centroids, for each column, are found by passes over all rows before the rows are sorted into blocks of neighbours,
# which costs as much as up to a hundred passes; how many centroids visit all blocks without a test after one that was
# close to most of them; and how many rows are visited at a time, which bounds the temporary memory.
FIRST_PASSES, UNTESTED, ROWS_AT_ONCE = 32, 16, 2**18


def squared_distances(columns: Floats, point: Floats) -> Floats:
    """Return Σⱼ (xⱼ − pⱼ)², summed in the order of j, for points whose coordinates are the first axis of `columns`."""
    # Whole columns at once: for few columns much faster than summing along short rows.
    total = columns[0] - point[0]
    total *= total
    term = np.empty_like(total)
    for column, coordinate in zip(columns[1:], point[1:], strict=True):
        np.subtract(column, coordinate, out=term)
        term *= term
        total += term
    return total


def blocks_of_neighbours(rows: Floats) -> Indices:
    """Sort rows into about √n blocks of √n neighbours: of one length, the last filled up with copies of other rows.

    Parameters
    ----------
    rows : ndarray of shape (n, d)

    Returns
    -------
    ndarray of int of shape (n_blocks, length)
        The rows of each block, ascending.
    """
    # √n blocks of √n rows would balance the work between blocks with that within them; the fixed cost of a NumPy call
    # favours fewer, longer blocks. Their number is a power of two because the tree halves its nodes, at the median of
    # their longest side, down to its leaves. The leaves are contiguous in `indices`: they are the blocks. Ties at a
    # median shift them, which only makes boxes larger.
    n_blocks = 2 ** max(0, round(math.log2(len(rows)) / 2) - 1)
    length = -(-len(rows) // n_blocks)
    filled = np.resize(np.arange(len(rows)), n_blocks * length)
    order = filled[cKDTree(rows[filled], leafsize=length).indices].reshape(n_blocks, length)
    order.sort(axis=1)
    return order


def rows_within(tree: KDTree, radius: float, point: Floats) -> Indices | slice:
    """Find the rows of a tree at a distance of at most `radius` from a point of shape (d,).

    Returns
    -------
    ndarray of int, ascending, or a slice of all rows where the radius is infinite
    """
    if not np.isfinite(radius):
        return slice(None)
    try:
        within = tree.query_ball_point(point, radius)
    except ValueError:  # squared distances overflow: rows at such a distance are too far
        with np.errstate(over="ignore"):
            within = np.flatnonzero(squared_distances(tree.data.T, point) <= radius**2)
    return np.sort(np.array(within, dtype=np.intp))


def farthest_point_clustering(
    X: ArrayLike, threshold: float, *, start: ArrayLike | None = None, max_centroids: int | None = None
) -> Floats:
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
    >>> from lmgp.neighbours.clustering import farthest_point_clustering
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
    if max_centroids is not None:
        asked = "max_centroids must be a positive integer, or None for no limit"
        checked_count(max_centroids, asked, " The start counts as one.")
    try:
        # One memory order, so that the rounding of the mean does not depend on the caller's.
        rows: Floats = checked_table(X, order="C")
        first = rows.mean(axis=0) if start is None else check_array([start], dtype=np.float64, input_name="start")[0]
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    if len(first) != rows.shape[1]:
        raise InputError(f"start must have one value a column of X, {rows.shape[1]}; got {len(first)}.")
    return farthest_points(rows, first, float(threshold), max_centroids)


def nearest_centroids(X: Floats, centroids: Floats) -> NDArray[np.int64]:
    """Return the index of the centroid nearest to each row, shape (n,).

    Parameters
    ----------
    X : ndarray of shape (n, d)
    centroids : ndarray of shape (n_centroids, d)
    """
    _, nearest = cKDTree(centroids).query(X)
    # Where all distances overflow the tree answers with no centroid: they are all equally far.
    return np.where(nearest < len(centroids), nearest, 0)


@np.errstate(over="ignore", under="ignore")
def farthest_points(rows: Floats, first: Floats, threshold: float, max_centroids: int | None = None) -> Floats:
    """Choose centroids as `farthest_point_clustering` does, of rows that are not checked again."""
    # A distance that overflows to inf is harmless unless it is the smallest one.
    cover = _Cover(rows)
    centroids, most = [first], len(rows) + 1 if max_centroids is None else max_centroids
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
        if math.sqrt(squared) < threshold or len(centroids) >= most:
            return np.stack(centroids)
        if len(centroids) == FIRST_PASSES * rows.shape[1] and len(rows) >= MIN_ROWS:
            cover.sort_into_blocks(rows)
        centroids.append(rows[farthest])


class _Cover:
    """Each row's squared distance to its nearest centroid, `smallest`, with the rows in blocks.

    At first the blocks are rows in their order, and each centroid visits all of them. After `sort_into_blocks` a new
    centroid visits only blocks whose bounding box is closer to it than the farthest row of the block is to its nearest
    centroid: in no other block can a distance become smaller.
    """

    def __init__(self, rows: Floats) -> None:
        length = min(len(rows), ROWS_AT_ONCE)
        n_blocks = -(-len(rows) // length)
        order = np.minimum(np.arange(n_blocks * length), len(rows) - 1).reshape(n_blocks, length)
        self._take_blocks(rows, order, np.full(order.shape, np.inf))
        self._untested = math.inf

    def sort_into_blocks(self, rows: Floats) -> None:
        """Go on with blocks of neighbours."""
        smallest = self.smallest.reshape(-1)[: len(rows)]
        del self._columns  # so that the rows are not held three times
        order = blocks_of_neighbours(rows)
        self._take_blocks(rows, order, smallest[order])
        self._untested = 0

    def _take_blocks(self, rows: Floats, order: Indices, smallest: Floats) -> None:
        self._order, self.smallest = order, smallest
        self._columns = np.empty((rows.shape[1], *order.shape))
        for target, column in zip(self._columns, rows.T, strict=True):
            np.take(column, order, out=target, mode="clip")  # "raise" would write through a buffer
        self._low, self._high = self._columns.min(axis=2), self._columns.max(axis=2)
        self._first_of_block = smallest.shape[1] * np.arange(len(smallest))
        # Where the largest of each block is in the ravelled `smallest`. The rows of a block ascend: the first of equals
        # is the lowest row.
        self._peaks = self._first_of_block + smallest.argmax(axis=1)
        self._largest = smallest.reshape(-1)[self._peaks]

    def add(self, centroid: Floats) -> None:
        blocks = self._blocks_to_visit(centroid)
        at_once = max(1, ROWS_AT_ONCE // self.smallest.shape[1])
        for start in range(0, len(blocks), at_once):
            part = blocks[start : start + at_once]
            # Blocks in a row need no copy: worth it even if up to half of them need no visit.
            in_a_row = part[-1] - part[0] < 2 * len(part)
            self._visit(slice(part[0], part[-1] + 1) if in_a_row else part, centroid)

    def _blocks_to_visit(self, centroid: Floats) -> Indices:
        if self._untested:
            self._untested -= 1
            return np.arange(len(self._largest))
        # To the bounding box of each block: no row of it is closer. That holds in floating point too: differences,
        # squares and sums round monotonically, and the operations are those for rows, in the same order.
        nearest = np.minimum(np.maximum(centroid[:, np.newaxis], self._low), self._high)
        blocks = np.flatnonzero(squared_distances(nearest, centroid) < self._largest)
        if 2 * len(blocks) > len(self._largest):
            self._untested = UNTESTED
        return blocks

    def _visit(self, blocks: Indices | slice, centroid: Floats) -> None:
        smallest = self.smallest[blocks]
        np.minimum(smallest, squared_distances(self._columns[:, blocks], centroid), out=smallest)
        if not isinstance(blocks, slice):  # then it was a copy
            self.smallest[blocks] = smallest
        self._peaks[blocks] = peaks = self._first_of_block[blocks] + smallest.argmax(axis=1)
        self._largest[blocks] = self.smallest.reshape(-1)[peaks]

    def farthest(self) -> tuple[int, float]:
        """Return the row that is farthest from all centroids, the lowest of several, and its squared distance."""
        largest = self._largest.max()
        return self._order.reshape(-1)[self._peaks[self._largest == largest]].min(), largest
