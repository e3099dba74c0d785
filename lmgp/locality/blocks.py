"""Rows in blocks of neighbours: a search for near rows looks at few blocks."""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

Floats = NDArray[np.float64]

# With fewer rows, a pass over all of them costs no more than finding those that matter.
MIN_ROWS = 2**14


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


class Blocks:
    """Rows in about √n blocks of √n neighbours.

    The last block is filled up with copies of other rows.

    Parameters
    ----------
    rows : ndarray of shape (n, d)

    Attributes
    ----------
    order : ndarray of shape (n_blocks, length)
        The rows of each block, ascending.
    columns : ndarray of shape (d, n_blocks, length)
        Their coordinates.
    """

    def __init__(self, rows: Floats) -> None:
        # √n blocks of √n rows would balance the work between blocks with that within them; the fixed cost of a NumPy
        # call favours fewer, longer blocks. Their number is a power of two because the tree halves its nodes, at the
        # median of their longest side, down to its leaves. The leaves are contiguous in `indices`: they are the blocks.
        # Ties at a median shift them, which only makes boxes larger.
        n_blocks = 2 ** max(0, round(math.log2(len(rows)) / 2) - 1)
        length = -(-len(rows) // n_blocks)
        filled = np.resize(np.arange(len(rows)), n_blocks * length)
        self.order = filled[cKDTree(rows[filled], leafsize=length).indices].reshape(n_blocks, length)
        self.order.sort(axis=1)
        self.columns = np.empty((rows.shape[1], *self.order.shape))
        for target, column in zip(self.columns, rows.T, strict=True):
            np.take(column, self.order, out=target, mode="clip")  # "raise" would write through a buffer
        self._low, self._high = self.columns.min(axis=2), self.columns.max(axis=2)

    def squared_distances_from(self, point: Floats) -> Floats:
        """Return the squared distance from a point to the bounding box of each block, shape (n_blocks,).

        No row of a block is closer. That holds in floating point too: differences, squares and sums round
        monotonically, and the operations are those for rows, in the same order.
        """
        nearest = np.minimum(np.maximum(point[:, np.newaxis], self._low), self._high)
        return squared_distances(nearest, point)


class Neighbourhoods:
    """Finds the rows around any point.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    """

    def __init__(self, rows: Floats) -> None:
        self._blocks = Blocks(rows) if len(rows) >= MIN_ROWS else None
        self._columns = np.ascontiguousarray(rows.T) if self._blocks is None else self._blocks.columns

    def within(self, radius: float, point: Floats) -> NDArray[np.intp] | slice:
        """Find the rows at a distance of at most `radius` from a point of shape (d,).

        Returns
        -------
        ndarray of int, ascending, or a slice of all rows where the radius is infinite
        """
        if not np.isfinite(radius):
            return slice(None)
        with np.errstate(over="ignore"):  # an infinite distance is too far
            if self._blocks is None:
                return np.flatnonzero(squared_distances(self._columns, point) <= radius**2)
            near = np.flatnonzero(self._blocks.squared_distances_from(point) <= radius**2)
            found = squared_distances(self._columns[:, near], point) <= radius**2
            index = self._blocks.order[near][found]
            index.sort()
            # The copies that fill up the last block occur twice.
            return index[np.diff(index, prepend=-1) > 0]
