"""Search trees of training rows, to which rows are added, and from which they are taken, without a new tree of all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats, Indices, Rows, sampling
from lmgp.kernels.base import Kernel
from lmgp.neighbours.duplicates import steady_order
from lmgp.neighbours.trees import OrderedTree, tree_of_rows
from lmgp.utils.memory import chunks
from lmgp.utils.parallel import parallel_map

if TYPE_CHECKING:
    from lmgp.neighbours.leaves import Leaves

# Each tree has more than this many times the rows of the next one, and less than one in this many of its rows is gone.
RATIO = 8

# Bytes of the distances that are found at a time.
BATCH_BYTES = 32 * 2**20


@dataclass(frozen=True, eq=False)
class Part:
    """Rows with one search tree.

    Attributes
    ----------
    rows : Rows
    tree : OrderedTree or Leaves
        Of their points.
    there : ndarray of bool of shape (n,) or None
        Which of them were not taken out; None of all.
    n_gone : int
        How many were.
    low, high : ndarray of shape (c,)
        The box of the points that are there.
    """

    rows: Rows
    tree: "OrderedTree | Leaves"
    there: NDArray[np.bool_] | None
    n_gone: int
    low: Floats
    high: Floats

    @classmethod
    def of(cls, kernel: Kernel, rows: Rows) -> Self:
        """Plant the tree of at least one row, which of equally far ones finds the same in whatever order they come."""
        # At random, for of equally far rows those that are read first are found first, whatever their y.
        points, order = kernel.points(rows.X), steady_order(rows)[sampling().permutation(len(rows))]
        tree = tree_of_rows(kernel, rows.X, order)
        return cls(rows, tree, None, 0, points.min(axis=0), points.max(axis=0))

    def __len__(self) -> int:
        return len(self.rows) - self.n_gone

    @property
    def remaining(self) -> Rows:
        """The rows that are there."""
        return self.rows if self.there is None else self.rows.take(self.there)

    def points(self, kernel: Kernel, index: Any) -> Floats:
        """Return some of the rows as they are searched for."""
        return kernel.points(self.rows.X[index])

    def without(self, kernel: Kernel, index: Indices) -> Self:
        """Return the part without some of its rows."""
        if not len(index):
            return self
        there = np.ones(len(self.rows), dtype=np.bool_) if self.there is None else self.there.copy()
        there[index] = False
        gone, n_gone, low, high = self.points(kernel, index), self.n_gone + len(index), self.low, self.high
        if n_gone < len(there) and np.any((gone == low) | (gone == high)):
            points = self.points(kernel, there)
            low, high = points.min(axis=0), points.max(axis=0)
        return replace(self, there=there, n_gone=n_gone, low=low, high=high)

    def oldest(self, n: int) -> Indices:
        """Return the numbers of the n rows that came first, or of all if there are fewer."""
        return np.flatnonzero(self._there(slice(0, n + self.n_gone)))[:n]

    def _there(self, index: Any) -> NDArray[np.bool_]:
        """Say whether rows are there."""
        everywhere = np.broadcast_to(np.True_, len(self.rows)) if self.there is None else self.there
        return everywhere[index]

    def query(self, points: Floats, k: int) -> tuple[Floats, Indices]:
        """Find rows of which the k nearest ones, or all, are there: distances and numbers, of shape (m, any).

        Rows that are gone are infinitely far.
        """
        if self.there is None:
            return self.tree.query(points, k=np.arange(1, min(k, self.tree.n) + 1))
        asked = k + k // RATIO + 1  # of the rows near to a point as many are gone as of all, where they went at random
        while True:
            distances, index = self.tree.query(points, k=np.arange(1, min(asked, self.tree.n) + 1))
            there = self.there[index]
            if asked >= self.tree.n or np.count_nonzero(there, axis=1).min(initial=k) >= k:
                return np.where(there, distances, np.inf), index
            asked *= 2

    def within(self, kernel: Kernel, centre: Floats, half_width: float) -> Indices:
        """Return the numbers of the rows in a cube, ascending."""
        if isinstance(self.tree, OrderedTree):
            rows = self.tree.within(centre, half_width)
        else:
            n_asked, farthest = RATIO, half_width * math.sqrt(len(centre))
            while True:
                n_asked = min(n_asked, self.tree.n)
                distances, near = self.tree.query(centre[None], np.arange(1, n_asked + 1))
                if n_asked == self.tree.n or distances[0, -1] > farthest:
                    break
                n_asked *= RATIO
            rows = np.sort(near[0])
            rows = rows[np.all(np.abs(self.points(kernel, rows) - centre) <= half_width, axis=1)]
        return rows[self._there(rows)]


@dataclass(frozen=True, eq=False)
class Forest:
    """Training rows in the order in which they came, in search trees of falling size in the metric of a kernel.

    New rows get a tree of their own, which takes up the smaller trees before it: so a row is planted a few times for
    each eightfold of the rows that come after it. Rows that go are marked, and a tree of which an eighth is gone is
    planted anew. A forest never changes: what has one can search it while another one is made.

    A row's place is its number among all rows in the trees, those that are gone included.

    Attributes
    ----------
    kernel : Kernel
        With a metric.
    noise_variance : float
        Of rows without one of their own, where others have one.
    none : Rows
        No rows, with as many columns and targets.
    parts : tuple of Part
        Each has more than `RATIO` times the rows of the next one.

    References
    ----------
    J. L. Bentley and J. B. Saxe, *Decomposable Searching Problems I: Static-to-Dynamic Transformation*, Journal of
    Algorithms 1, 1980.
    """

    kernel: Kernel
    noise_variance: float
    none: Rows
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, kernel: Kernel, rows: Rows, noise_variance: float) -> Self:
        """Plant one tree of all rows."""
        return cls(kernel, noise_variance, rows.take(slice(0)), ()).of_rows(rows)

    def of_rows(self, rows: Rows) -> Self:
        """Return a forest like this one, with one tree of other rows."""
        return replace(self, parts=(self._plant(rows),) if len(rows) else ())

    def _plant(self, rows: Rows) -> Part:
        """Plant the tree of at least one row."""
        return Part.of(self.kernel, rows)

    def _without_gone(self, part: Part) -> Part:
        """Plant the rows of a part that are there by themselves."""
        return self._plant(part.remaining)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def rows_kept(self) -> int:
        """The number of rows, which the header of a model file states."""
        return len(self)

    @property
    def is_one_tree(self) -> bool:
        """Whether all rows were planted together, and none is gone."""
        return len(self.parts) == 1 and self.parts[0].there is None

    def __getstate__(self) -> dict[str, Any]:
        # What was taken out is in no file.
        parts = tuple(part if part.there is None else self._without_gone(part) for part in self.parts)
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"parts": parts}

    def __add__(self, other: Self) -> Self:
        return self._planted([*self.parts, *other.parts])

    def without(self, places: Indices) -> Self:
        """Return the forest without the rows at some places."""
        pairs = self._by_part(places)
        return self._planted([part.without(self.kernel, places[mine] - start) for part, start, mine in pairs])

    def left_out(self, taken: NDArray[np.bool_]) -> Self:
        """Return rows that were planted together without some of them, as quick to search in the gaps that these leave.

        Parameters
        ----------
        taken : ndarray of bool of shape (n,)
        """
        (part,) = self.parts
        if isinstance(part.tree, OrderedTree):
            return replace(self, parts=(self._plant(part.rows.take(~taken)),))
        some = replace(part, tree=part.tree.without(taken), there=~taken, n_gone=int(np.count_nonzero(taken)))
        return replace(self, parts=(some,))

    def with_weights(self, weights: Floats) -> Self:
        """Return rows that were planted together with other weights."""
        (part,) = self.parts
        return replace(self, parts=(replace(part, rows=replace(part.rows, weights=weights)),))

    def _planted(self, parts: Sequence[Part]) -> Self:
        """Return a forest of parts, in their order: one that is too small beside the next one is planted with it."""
        groups: list[list[Part]] = []
        for part in parts:
            group = [part] if len(part) else []
            while group and groups and sum(map(len, groups[-1])) <= RATIO * sum(map(len, group)):
                group = [*groups.pop(), *group]
            groups += [group] if group else []
        return replace(self, parts=tuple(map(self._one, groups)))

    def _one(self, group: Sequence[Part]) -> Part:
        whole = RATIO * len(group[0]) > (RATIO - 1) * len(group[0].rows)
        return group[0] if len(group) == 1 and whole else self._plant(self._joined(group))

    def _joined(self, parts: Sequence[Part]) -> Rows:
        return reduce(lambda rows, more: rows.joined(more, self.noise_variance), (part.remaining for part in parts))

    @property
    def rows(self) -> Rows:
        """The rows, in the order in which they came."""
        return self._joined(self.parts) if self.parts else self.none

    @property
    def places(self) -> Indices:
        """The place of each of the rows, ascending."""
        return self.oldest(len(self))

    def oldest(self, n: int) -> Indices:
        """Return the places of the n rows that came first, ascending."""
        oldest = [np.empty(0, dtype=np.intp)]
        for part, start in zip(self.parts, self._starts, strict=True):
            oldest.append(part.oldest(n - sum(map(len, oldest))) + start)
        return np.concatenate(oldest)

    @property
    def box(self) -> tuple[Floats, Floats]:
        """The least and the largest coordinates of the points, of at least one row."""
        low, high = (np.stack([getattr(part, name) for part in self.parts]) for name in ("low", "high"))
        return low.min(axis=0), high.max(axis=0)

    @cached_property
    def _starts(self) -> list[int]:
        """The place of the first row of each part."""
        return np.cumsum([0, *(len(part.rows) for part in self.parts)])[:-1].tolist()

    def _by_part(self, places: Indices) -> list[tuple[Part, int, NDArray[np.bool_]]]:
        """Return each part with its first place, and which of some places are in it."""
        which = np.searchsorted(self._starts, places, side="right") - 1
        pairs = enumerate(zip(self.parts, self._starts, strict=True))
        return [(part, start, which == number) for number, (part, start) in pairs]

    def take(self, places: Indices) -> Rows:
        """Return the rows at some places."""
        if len(self.parts) == 1:
            return self.parts[0].rows.take(places)
        pairs = self._by_part(places)
        parts = [replace(part, rows=part.rows.take(places[mine] - start), there=None) for part, start, mine in pairs]
        order = np.concatenate([np.flatnonzero(mine) for _, _, mine in pairs])
        return self._joined(parts).take(np.argsort(order))

    def points(self, places: Indices) -> Floats:
        """Return the rows at some places as they are searched for, shape (m, c)."""
        coordinates = np.empty((len(places), len(self.parts[0].low)))
        for part, start, mine in self._by_part(places):
            coordinates[mine] = part.points(self.kernel, places[mine] - start)
        return coordinates

    def query(self, points: Floats, k: int) -> tuple[Floats, Indices]:
        """Find the nearest rows of points, nearest first.

        Parameters
        ----------
        points : ndarray of shape (m, c)
            See `lmgp.neighbours.trees.tree_points`.
        k : int
            At most the number of rows.

        Returns
        -------
        distances : ndarray of shape (m, k)
        places : ndarray of int of shape (m, k)
        """
        of_parts = [part.query(points, k) for part in self.parts]
        distances = np.concatenate([distance for distance, _ in of_parts], axis=1)
        places = np.concatenate([near + start for (_, near), start in zip(of_parts, self._starts, strict=True)], axis=1)
        if len(of_parts) == 1 and self.parts[0].there is None:
            return distances, places
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        each = np.arange(len(points))[:, None]
        return distances[each, order], places[each, order]

    def distance(self, points: Floats, k: int) -> Floats:
        """Return the distance of points to their k-th nearest row, shape (m,)."""

        def of_batch(batch: slice) -> Floats:
            distances = np.concatenate([part.query(points[batch], k)[0] for part in self.parts], axis=1)
            return np.partition(distances, k - 1, axis=1)[:, k - 1]

        return np.concatenate(parallel_map(of_batch, list(chunks(len(points), k, BATCH_BYTES))) or [np.empty(0)])

    def within(self, centre: Floats, half_width: float) -> Indices:
        """Return the places of the rows in a cube, ascending."""
        pairs = zip(self.parts, self._starts, strict=True)
        return np.concatenate([part.within(self.kernel, centre, half_width) + start for part, start in pairs])

    def others(self, places: Indices, n_neighbors: int) -> Indices:
        """Return the places of the rows nearest to some of the rows, without themselves, shape (m, k).

        k is `n_neighbors`, or one less than the number of rows, if that is less.
        """
        k = min(n_neighbors, len(self) - 1)
        neighbors = self.query(self.points(places), k + 1)[1]
        itself = neighbors == places[:, None]
        itself[~itself.any(axis=1), -1] = True  # among more copies of itself than these
        return neighbors[~itself].reshape(len(neighbors), k)
