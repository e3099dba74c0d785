"""The rows nearest to a point among rows of many columns, by compiled loops over small boxes of rows.

numba is imported with this module: what uses it imports it where it is used.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats, Indices
from lmgp.utils.compiled import exact, index, indices, kept, matrix, real
from lmgp.utils.parallel import parallel_map

# Rows of a leaf, and leaves of a branch: the distances to those of one are computed together, and after as many columns
# as the third number a leaf may be known to be too far.
LEAF, BRANCH, COLUMNS = 64, 64, 16
# How many times all rows are halved before several threads part the pieces.
HALVINGS = 3


@exact
def _select(rows, order, column, start, stop, place):
    """Move rows, and their order, so that none before a place has a larger value in a column than one from there on."""
    while stop - start > 1:
        pivot = rows[(start + stop) // 2, column]
        low, high = start, stop - 1
        while low <= high:
            while rows[low, column] < pivot:
                low += 1
            while rows[high, column] > pivot:
                high -= 1
            if low <= high:
                for other in range(rows.shape[1]):
                    rows[low, other], rows[high, other] = rows[high, other], rows[low, other]
                order[low], order[high] = order[high], order[low]
                low += 1
                high -= 1
        if place <= high:
            stop = high + 1
        elif place >= low:
            start = low
        else:
            return


@exact
def _half(n):
    """Return how many of n rows go to the first one of two pieces: whole branches, or whole leaves."""
    size = LEAF * BRANCH if n > LEAF * BRANCH else LEAF
    return size * ((n + 2 * size - 1) // (2 * size))


@kept(real[:, ::1], index[::1], index)
def _part(rows, order, largest):
    """Order rows so that those of a leaf are near to each other, and so are the leaves of a branch.

    Pieces of rows that are not above the largest size are left as they are.
    """
    stack = [(0, len(rows))]
    while len(stack):
        start, stop = stack.pop()
        if stop - start <= largest:
            continue
        place = start + _half(stop - start)
        widest, widest_column = -1.0, 0
        for column in range(rows.shape[1]):
            low = high = rows[start, column]
            for i in range(start + 1, stop):
                low, high = min(low, rows[i, column]), max(high, rows[i, column])
            if high - low > widest:
                widest, widest_column = high - low, column
        _select(rows, order, widest_column, start, stop, place)
        stack.append((start, place))
        stack.append((place, stop))


def _halves(piece: slice) -> tuple[slice, slice]:
    place = piece.start + _half(piece.stop - piece.start)
    return slice(piece.start, place), slice(place, piece.stop)


@exact
def _to_boxes(point, low, high, squares):
    """Write the squared distances to boxes, whose corners have the shape (d, number of boxes)."""
    squares[:] = 0.0
    for column in range(len(point)):
        coordinate, least, most = point[column], low[column], high[column]
        for box in range(len(squares)):
            beyond = max(least[box] - coordinate, coordinate - most[box], 0.0)
            squares[box] += beyond * beyond


@exact
def _scan(point, before, leaves, order, of_leaves, first, of_rows, near, numbers, count, radius, k):
    """Add the rows of some leaves that are nearer than the k-th; return their number, and its squared distance."""
    for box in range(min(len(of_leaves), len(leaves) - first)):
        if not of_leaves[box] < radius:
            continue
        leaf, start = leaves[first + box], LEAF * (first + box)
        of_rows[:] = 0.0
        for column in range(len(point)):
            if column > 0 and column % COLUMNS == 0 and not of_rows.min() < radius:
                break
            x, at = leaf[column], point[column]
            for j in range(LEAF):
                of_rows[j] += (x[j] - at) * (x[j] - at)
        for j in range(LEAF):
            if of_rows[j] < radius and order[start + j] < before:
                near[count, 0], numbers[count] = of_rows[j], order[start + j]
                count += 1
        if count > 2 * k:
            _select(near, numbers, 0, 0, count, k)
            count, radius = k, near[:k, 0].max()
    return count, radius


@kept(matrix, indices, real[:, :, ::1], indices, real[:, :, :, ::1], real[:, :, ::1], real[:, ::1], index[:, ::1])
def _query(points, before, leaves, order, boxes, branches, squares, neighbors):
    """Write the rows nearest to each point, and their squared distances, in no order."""
    k = neighbors.shape[1]
    of_branches, of_leaves, of_rows = np.empty(len(boxes)), np.empty(BRANCH), np.empty(LEAF)
    near, rows = np.empty((2 * k + LEAF + 1, 1)), np.empty(2 * k + LEAF + 1, dtype=np.intp)
    for number in range(len(points)):
        point, count, radius = points[number], 0, np.inf
        _to_boxes(point, branches[0], branches[1], of_branches)
        branch = of_branches.argmin()
        while of_branches[branch] < radius:
            _to_boxes(point, boxes[branch, 0], boxes[branch, 1], of_leaves)
            count, radius = _scan(
                point, before[number], leaves, order, of_leaves, BRANCH * branch, of_rows, near, rows, count, radius, k
            )
            of_branches[branch] = np.inf
            branch = of_branches.argmin()
        _select(near, rows, 0, 0, count, k)
        for place in range(k):
            squares[number, place], neighbors[number, place] = near[place, 0], rows[place]


@dataclass(frozen=True)
class Leaves:
    """Rows in small boxes, of which those near to a point are looked through.

    Attributes
    ----------
    columns : ndarray of int of shape (d,)
        The order of the columns: the widest one is the first.
    leaves : ndarray of shape (number of leaves, d, LEAF)
        The rows of each; infinite where there are none.
    order : ndarray of int of shape (n,)
        The number of each.
    boxes : ndarray of shape (number of branches, 2, d, BRANCH)
        The lowest and the highest corner of each leaf.
    branches : ndarray of shape (2, d, number of branches)
    n : int
        The number of rows that can be found.
    """

    columns: Indices
    leaves: Floats
    order: Indices
    boxes: Floats
    branches: Floats
    n: int

    @classmethod
    def of(cls, rows: Floats, order: Indices | None = None, parted: bool = False) -> Self:
        """Part rows, of shape (n, d), into leaves, unless they are parted in the order that is given.

        Which of equal rows are found depends on the order in which they are read: that of their numbers, if not given.
        """
        columns = np.argsort(rows.min(axis=0) - rows.max(axis=0))
        order = np.arange(len(rows)) if order is None else order.copy()
        rows = np.ascontiguousarray(rows[np.ix_(order, columns)])
        n, d = rows.shape
        pieces = [] if parted else [slice(0, n)]
        for _ in range(HALVINGS if n > LEAF * BRANCH << HALVINGS else 0):
            parallel_map(lambda piece: _part(rows[piece], order[piece], _half(piece.stop - piece.start)), pieces)
            pieces = [half for piece in pieces for half in _halves(piece)]
        parallel_map(lambda piece: _part(rows[piece], order[piece], LEAF), pieces)
        n_leaves = math.ceil(n / LEAF)
        n_branches = math.ceil(n_leaves / BRANCH)
        leaves = np.full((n_leaves * LEAF, d), np.inf)
        leaves[:n] = rows
        leaves = np.ascontiguousarray(leaves.reshape(n_leaves, LEAF, d).transpose(0, 2, 1))
        boxes = np.empty((2, n_branches * BRANCH, d))
        for corner, end, least in zip(boxes, (np.inf, -np.inf), (np.minimum, np.maximum), strict=True):
            corner[n_leaves:] = end
            corner[:n_leaves] = least.reduceat(rows, np.arange(0, n, LEAF))
        boxes = boxes.reshape(2, n_branches, BRANCH, d)
        branches = np.stack((boxes[0].min(axis=1).T, boxes[1].max(axis=1).T))
        return cls(
            columns, leaves, order, np.ascontiguousarray(boxes.transpose(1, 0, 3, 2)), np.ascontiguousarray(branches), n
        )

    @property
    def m(self) -> int:
        """The number of their columns."""
        return self.leaves.shape[1]

    def __getstate__(self) -> dict[str, Any]:
        rows = np.empty((len(self.order), self.m))
        rows[np.ix_(self.order, self.columns)] = self.leaves.transpose(0, 2, 1).reshape(-1, self.m)[: len(rows)]
        return {"rows": rows, "order": self.order}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(vars(Leaves.of(state["rows"], state["order"], parted=True)))

    def without(self, taken: NDArray[np.bool_]) -> Self:
        """Return the leaves without some of the rows, which keep their numbers."""
        leaves, places = self.leaves.copy(), np.flatnonzero(taken[self.order])
        leaves[places // LEAF, :, places % LEAF] = np.inf
        return replace(self, leaves=leaves, n=int(np.count_nonzero(~taken)))

    def query(self, points: Floats, k: Indices, before: Indices | None = None) -> tuple[Floats, Indices]:
        """Find the rows nearest to each point, as `scipy.spatial.KDTree.query`.

        Parameters
        ----------
        points : ndarray of shape (m, d)
        k : ndarray of int of shape (number of neighbours,)
            1, 2, …, at most as many as there are rows.

        before : ndarray of int of shape (m,), optional
            For each point, the rows of smaller numbers are looked at alone.

        Returns
        -------
        distances : ndarray of shape (m, number of neighbours)
            Ascending.
        rows : ndarray of int of shape (m, number of neighbours)
        """
        squares, rows = np.empty((len(points), len(k))), np.empty((len(points), len(k)), dtype=np.intp)
        before = np.full(len(points), len(self.order)) if before is None else before
        ordered = np.ascontiguousarray(points[:, self.columns])
        _query(ordered, before, self.leaves, self.order, self.boxes, self.branches, squares, rows)
        nearest = np.argsort(squares, axis=1)
        return np.sqrt(np.take_along_axis(squares, nearest, axis=1)), np.take_along_axis(rows, nearest, axis=1)
