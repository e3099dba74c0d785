"""Cells of the space of the rows: all points of a cell have nearly the same nearest rows."""

import math
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from lmgp.data import Floats, Indices
from lmgp.neighbours.forest import Forest
from lmgp.neighbours.trees import CELL_COLUMNS

# The side of a cell is at most this multiple of the distance from its centre to the k-th nearest row, and it is halved
# at most this number of times: not for ever, where k rows are copies of each other.
SIDE, HALVINGS = 1.0, 24

# Points of a cell share the rows around it where these are at most `MOST` times k, and where that takes at most `WORTH`
# times the operations of each point by itself: operations on one larger matrix are faster.
MOST, WORTH = 4.0, 1.5
# Of up to this number of points, the distance to the k-th nearest row says how large their cells are at most: of more,
# that takes longer than halving the space for all of them.
FEW = 64


def _pays(n_rows: float, n_points: float, k: int) -> bool:
    """Compare the operations of a cell, s³/3 and s² for each of its points, with k³/3 + k² for each by itself."""
    shared = n_rows**3 / (3.0 * n_points) + n_rows**2
    return n_rows <= MOST * k and shared <= WORTH * (k**3 / 3.0 + k**2)


def _ball(n_inputs: int) -> float:
    """Return the volume V_d of the unit ball."""
    return float(math.pi ** (n_inputs / 2) / math.gamma(n_inputs / 2 + 1))


def sharing_pays(n_inputs: int, k: int) -> bool:
    """Say whether a cell's factorisation costs less than one for each of its points.

    Where rows are evenly spread and points as dense as they, a ball with k rows has the volume V_d r^d, and the points
    within r of a cube of side βr have the volume Σⱼ C(d, j) β^{d−j} V_j r^d (Steiner): that gives the number of rows
    around a cell.

    Parameters
    ----------
    n_inputs : int
        d.
    k : int
    """
    d, side = n_inputs, SIDE
    if d > CELL_COLUMNS:
        return False
    around = sum(math.comb(d, j) * side ** (d - j) * _ball(j) for j in range(d + 1))
    return _pays(k * around / _ball(d), k * side**d / _ball(d), k)


def points_per_cell(n_inputs: int, k: int) -> float:
    """Return the mean number of points in a cell, where rows are evenly spread and points as dense as they.

    Parameters
    ----------
    n_inputs : int
        d.
    k : int
    """
    # Sides are halved: the logarithms of those that are small enough are evenly spread over the last halving.
    mean = (1.0 - 2.0**-n_inputs) / (n_inputs * math.log(2.0))
    return k * SIDE**n_inputs * mean / _ball(n_inputs)


def rows_per_cell(n_inputs: int, k: int) -> float:
    """Return the mean number of rows around a cell, where rows are evenly spread; see `sharing_pays`.

    Parameters
    ----------
    n_inputs : int
        d.
    k : int
    """
    d = n_inputs
    # The mean of βⁱ over the last halving, as in `points_per_cell`.
    sides = [1.0, *(SIDE**i * (1.0 - 2.0**-i) / (i * math.log(2.0)) for i in range(1, d + 1))]
    return k * sum(math.comb(d, j) * sides[d - j] * _ball(j) for j in range(d + 1)) / _ball(d)


class Cell(NamedTuple):
    """A cube, and the points in it.

    Attributes
    ----------
    low, high : ndarray of shape (d,)
        Its least and its largest coordinates.
    reach : float
        Rows within this distance of the cube are around it.
    n_expected : float
        The number of points in it, if they are as dense as the nearest rows.
    members : ndarray of int
        The points in it.
    """

    low: Floats
    high: Floats
    reach: float
    n_expected: float
    members: Indices


class Cells:
    """A partition of the space into cubes that depends on the training rows alone.

    The cube around all rows is halved along all columns until each part is small beside the distance to its k-th
    nearest row. So cells are small where rows are dense, and large in gaps.

    Parameters
    ----------
    forest : Forest
        Of the rows.
    k : int
        At most the number of rows.
    """

    def __init__(self, forest: Forest, k: int) -> None:
        self._forest, self._k = forest, k
        self._low, high = forest.box
        self._side = float(np.max(high - self._low)) or 1.0
        # Column by column, a position within thrice the cube fits into 62 bits.
        self._halvings = min(HALVINGS, 62 // len(high) - 2)

    def group(self, points: Floats) -> tuple[list[Cell], Indices]:
        """Find the cells of points.

        Parameters
        ----------
        points : ndarray of shape (m, d)

        Returns
        -------
        cells : list of Cell
        others : ndarray of int
            Points without one: far from all rows, or among copies of one row.
        """
        low, side, cells = self._low, self._side, []
        near = np.all((points >= low - side) & (points < low + 2.0 * side), axis=1)
        others, left = np.flatnonzero(~near), np.flatnonzero(near)
        for halving in range(self._first_halving(points[left]), self._halvings + 1):
            if not len(left):
                break
            size = side / 2**halving
            position = np.floor((points[left] - low) / size)
            keys = ((position + 2**halving).astype(np.int64) << (halving + 2) * np.arange(len(low))).sum(axis=1)
            order = np.argsort(keys, kind="stable")
            starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
            position = position[order[starts]]
            corner = low + size * position
            distance = self._forest.distance(corner + 0.5 * size, self._k)
            small = size <= SIDE * distance
            parts = np.split(left[order], starts[1:])
            for at, reach in zip(np.flatnonzero(small), self._reach(position[small], size), strict=True):
                n_expected = self._k * (size / distance[at]) ** len(low) / _ball(len(low))
                cells.append(Cell(corner[at], corner[at] + size, reach, n_expected, parts[at]))
            left = np.concatenate([left[:0], *(parts[at] for at in np.flatnonzero(~small))])
        return cells, np.concatenate((others, left))

    def rows_around(self, cell: Cell) -> Indices:
        """Return the rows within reach of a cell, ascending."""
        half = 0.5 * (cell.high - cell.low)
        rows = self._forest.within(cell.low + half, half[0] + cell.reach)
        near = self._forest.points(rows)
        outside = np.maximum(np.maximum(cell.low - near, near - cell.high), 0.0)
        return rows[np.square(outside).sum(axis=1) <= cell.reach**2]

    def serves(self, cell: Cell, points: Floats, rows: Indices) -> NDArray[np.bool_]:
        """Say which points in a cell are to share the rows around it.

        They are those whose k nearest rows are certainly among them; none where the rows are too many to pay.

        Parameters
        ----------
        cell : Cell
        points : ndarray of shape (m, d)
            In the cell.
        rows : ndarray of int
            `rows_around` the cell.

        Returns
        -------
        ndarray of bool, shape (m,)
        """
        if not _pays(len(rows), cell.n_expected, self._k):
            return np.zeros(len(points), dtype=np.bool_)
        # All rows are known up to this distance from a point: if it has k of them, none that is nearer is missing.
        known = cell.reach + np.minimum(points - cell.low, cell.high - points).min(axis=1)
        squares = cdist(points, self._forest.points(rows), "sqeuclidean")
        return np.count_nonzero(squares <= np.square(known)[:, None], axis=1) >= self._k

    def _first_halving(self, points: Floats) -> int:
        """Return a number of halvings before which no cell of these points is small.

        Points are within size · √d/2 of the centre of their cell, whose distance differs from theirs by that at most.
        """
        if not 0 < len(points) <= FEW:
            return 0
        largest = float(self._forest.distance(points, self._k).max()) / (1.0 / SIDE - math.sqrt(points.shape[1]) / 2.0)
        halvings = math.floor(math.log2(self._side / largest)) if largest > 0.0 else self._halvings
        return min(max(0, halvings), self._halvings)

    def _reach(self, position: Floats, size: float) -> Floats:
        """Return the distance that covers the nearest rows of all points of cells, but for few."""
        sides = np.array(list(product((0.0, 1.0), repeat=position.shape[1])))
        corners, place = np.unique((position[:, None] + sides).reshape(-1, len(sides[0])), axis=0, return_inverse=True)
        # Widened, so that rounding leaves out no row at this distance.
        distance = (1.0 + 1e-9) * self._forest.distance(self._low + size * corners, self._k)
        return distance[place.reshape(-1, len(sides))].max(axis=1, initial=0.0)
