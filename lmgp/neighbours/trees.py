"""Search trees of training rows, in the metric of a kernel, and the rows that are near by them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import KDTree

from lmgp.data import Floats, Indices
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel

if TYPE_CHECKING:
    from lmgp.neighbours.leaves import Leaves

# Coordinates beyond this, in lengthscales, have squares that overflow: all rows are equally far from there.
FARTHEST = 1e100
# Of more columns than these, there are more rows around a cell for any k, and volumes of balls leave float64.
CELL_COLUMNS = 3


@dataclass(frozen=True, eq=False)
class OrderedTree:
    """A k-d tree that finds the same ones of equally far rows, wherever these stand among all.

    Attributes
    ----------
    tree : KDTree
        Of the points of the rows in their `order`.
    order : ndarray of int of shape (n,)
    """

    tree: KDTree
    order: Indices

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.order)

    def query(self, points: Floats, k: Indices) -> tuple[Floats, Indices]:
        """Find the nearest rows: distances and numbers."""
        distances, index = self.tree.query(points, k=k)
        return distances, self.order[index]

    def within(self, centre: Floats, half_width: float) -> Indices:
        """Return the numbers of the rows in a cube, ascending."""
        return np.sort(self.order[self.tree.query_ball_point(centre, half_width, p=np.inf)])


def tree_of_rows(kernel: Kernel, X: Floats, order: Indices) -> "OrderedTree | Leaves":
    """Make the search tree of training rows, in the metric of the kernel.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
    order : ndarray of int of shape (n,)
        In which rows are read: it says which of equally far ones are found.

    Raises
    ------
    InputError
        If squared distances overflow.
    """
    scaled = kernel.points(X)
    with np.errstate(over="ignore"):
        overflows = not np.isfinite(np.square(2.0 * np.maximum(scaled.max(axis=0), -scaled.min(axis=0))).sum())
    if overflows:
        raise InputError(
            "The values of X are so large that squared distances overflow float64; got a largest absolute value of "
            f"{np.abs(X).max():g}. Divide X and the lengthscales by a common scale."
        )
    if scaled.shape[1] <= CELL_COLUMNS:  # where cells ask for more than the nearest rows
        order = order[KDTree(scaled[order]).indices]  # the rows of a leaf side by side, which are found sooner
        return OrderedTree(KDTree(scaled[order]), order)
    from lmgp.neighbours.leaves import Leaves  # here, for it loads a compiler

    return Leaves.of(scaled, order)


def tree_points(kernel: Kernel, X: Floats) -> Floats:
    """Return rows as such a tree is searched for them."""
    return np.clip(kernel.points(X), -FARTHEST, FARTHEST)


def blocks_of(scaled: Floats, size: int) -> list[Indices]:
    """Part rows into blocks of near rows: by halves, along the widest column."""
    blocks, open_ = [], [np.arange(len(scaled))]
    while open_:
        block = open_.pop()
        if len(block) <= size:
            blocks.append(block)
            continue
        values = scaled[block, np.ptp(scaled[block], axis=0).argmax()]
        order, half = np.argpartition(values, len(block) // 2), len(block) // 2
        open_ += [block[order[:half]], block[order[half:]]]
    return blocks
