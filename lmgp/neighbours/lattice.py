"""A lattice of cubes that is the same for all rows, whichever come first."""

from dataclasses import dataclass, replace
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats, Indices
from lmgp.errors import InputError

Keys = NDArray[np.int64]

# Cubes around cubes that are listed at a time.
AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class Lattice:
    """Cubes whose points are all closer than a threshold to their centre.

    Attributes
    ----------
    metric : ndarray of shape (d,)
        One lengthscale of each column.
    threshold : float
        In lengthscales.
    """

    metric: Floats
    threshold: float

    @property
    def side(self) -> float:
        """The side of a cube, in lengthscales."""
        return 2.0 * self.threshold / len(self.metric) ** 0.5 * (1.0 - 1e-9)

    def parted(self, parts: int) -> Self:
        """Return the lattice of cubes with sides that are shorter by a factor."""
        return replace(self, threshold=self.threshold / parts)

    def cells(self, X: Floats) -> Keys:
        """Return the cube of each row, shape (n, d).

        Raises
        ------
        InputError
            If rows are so far away that neighbours have the same coordinates.
        """
        cells = np.floor(X / (self.metric * self.side))
        if np.abs(cells).max(initial=0.0) > 2.0**52:
            raise InputError(
                "Rows are so far from the origin, in lengthscales, that float64 does not tell neighbours apart: "
                f"{np.abs(X).max():g} beside a lengthscale of {self.metric.min():g}. Subtract a constant from X."
            )
        return cells.astype(np.int64)

    def centres(self, cells: Keys) -> Floats:
        """Return the centre of each cube in the units of X, shape (n, d)."""
        # In columns that the kernel does not see, any place will do.
        return (cells + 0.5) * (self.side * np.where(np.isfinite(self.metric), self.metric, 0.0))

    def around(self, cells: Keys, reach: float) -> Keys:
        """Return all cubes whose centre is within reach of a point of these cubes, ascending."""
        n_sides = int(np.ceil(reach / self.side + 0.5))
        offsets = np.array(list(product(range(-n_sides, n_sides + 1), repeat=cells.shape[1])), dtype=np.int64)
        apart = np.maximum(np.abs(offsets) - 0.5, 0.0) * self.side
        offsets = offsets[np.square(apart).sum(axis=1) <= reach**2]
        cubes, step = cells[:0], max(1, AT_ONCE // len(offsets))
        for start in range(0, len(cells), step):
            some = (cells[start : start + step, None] + offsets).reshape(-1, cells.shape[1])
            cubes = grouped(np.concatenate((cubes, grouped(some)[0])))[0]
        return cubes


def grouped(keys: Keys) -> tuple[Keys, Indices]:
    """Return the distinct rows of an array of integers, ascending, and the number of each row among them."""
    # Column by column: numpy is slow along a short axis.
    low = np.array([column.min(initial=2**62) for column in keys.T])
    shape = np.array([column.max(initial=-(2**62)) for column in keys.T]) - low + 1
    if not len(keys) or np.prod(shape.astype(np.float64)) > 4.0 * len(keys) + 2**16:
        distinct, numbers = np.unique(keys, axis=0, return_inverse=True)
        return distinct, numbers.ravel()
    # Few cells: without sorting.
    flat = np.ravel_multi_index(tuple((keys - low).T), tuple(shape.tolist()))
    held = np.bincount(flat, minlength=int(np.prod(shape))) > 0
    (cells,) = np.nonzero(held)
    return np.stack(np.unravel_index(cells, tuple(shape.tolist())), axis=1) + low, (np.cumsum(held) - 1)[flat]


def ordered(numbers: Indices, n: int) -> Indices:
    """Return the stable order of numbers below n."""
    # numpy sorts short integers in linear time.
    return np.argsort(numbers.astype(np.uint16) if n <= 2**16 else numbers, kind="stable")


def union(first: Keys, second: Keys) -> tuple[Keys, Indices, Indices]:
    """Return the keys of both, ascending, and where each of the first and of the second is among them."""
    if np.array_equal(first, second):
        return first, np.arange(len(first)), np.arange(len(first))
    keys, numbers = grouped(np.concatenate((first, second)))
    return keys, numbers[: len(first)], numbers[len(first) :]
