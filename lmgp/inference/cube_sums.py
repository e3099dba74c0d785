"""Rows by the cube that they are in: themselves where they are few, and moments of Chebyshev polynomials otherwise.

What a posterior around a centroid takes of a row, ρφφᵀ, is a smooth function of where the row is. So a polynomial
through nodes of a cube gives it for each row of the cube, and the sum over these rows is one over the nodes, with
weights that are sums over rows. A row is summed once, for its own cube; posteriors are made of the nodes of all cubes
within reach.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmgp.features.base import KernelMap
from lmgp.inference.additive import check_sums, not_there
from lmgp.memory import check_memory
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.validation import Rows, as_tensor

if TYPE_CHECKING:
    from lmgp.inference.local_sums import Lattice

Floats = NDArray[np.float64]
Keys = NDArray[np.int64]
Indices = NDArray[np.intp]

# Parts of a side and nodes of a part that are tried. FITC's noise changes within a fraction of a lengthscale.
TRIED = ((1, 16), (1, 20), (1, 24), (1, 28), (1, 32), (2, 20), (2, 24), (3, 20), (3, 24), (4, 24), (5, 24))

# Up to this number of columns: of more, the nodes are more than the moments of the features.
MOST_COLUMNS = 2

# The error of a product of two features, by the nodes, that is as good as none.
EXACT = 1e-12

# Around a centroid, a row takes as long as this number of nodes, whose features are products of tables.
ROW_NODES = 8

# Rows in cubes with moments wait until they are as many, so that a few rows more do not copy the moments of all cubes.
LATER = 2**14

# Rows whose polynomials are in memory at a time.
BLOCK = 2**13

# Random cubes, rows of each and pairs of features by which the error is found.
N_CUBES, N_ROWS, N_PAIRS = 48, 8, 400


@dataclass(frozen=True, eq=False)
class Nodes:
    """Polynomials on the cube [−1, 1]ᵈ, of fewer than `side` powers of each column.

    Attributes
    ----------
    side, n_inputs : int
    parts : int
        Of a side of the lattice: how many of these cubes it has.
    """

    side: int
    n_inputs: int
    parts: int = 1

    @property
    def size(self) -> int:
        """The number of nodes."""
        return self.side**self.n_inputs

    @property
    def along(self) -> Floats:
        """The nodes of one column, shape (side,)."""
        return np.cos(np.pi * (np.arange(self.side) + 0.5) / self.side)

    @cached_property
    def points(self) -> Floats:
        """The nodes, shape (size, d)."""
        return np.stack(np.meshgrid(*[self.along] * self.n_inputs, indexing="ij"), axis=-1).reshape(self.size, -1)

    @cached_property
    def _inverse(self) -> Floats:
        """From moments to the weights of nodes, of one column: shape (side, side)."""
        made = 2.0 / self.side * _chebyshev(self.along, self.side)
        made[0] *= 0.5
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {"side": self.side, "n_inputs": self.n_inputs, "parts": self.parts}

    def moments(self, places: Floats, weights: Floats) -> Floats:
        """Return Σ w T(x) over rows of shape (n, d) in one cube, shape (t, size), for weights of shape (t, n)."""
        found = np.zeros((1, len(weights), self.size))
        self.add(found, places.T, weights, np.zeros(len(places), dtype=np.intp))
        return found[0]

    def add(self, moments: Floats, places: Floats, weights: Floats, numbers: Indices) -> None:
        """Add Σ w T(x) of rows to the moments of their cubes, in place.

        Parameters
        ----------
        moments : ndarray of shape (n_cubes, t, size)
        places : ndarray of shape (d, n)
            In the cube of each row.
        weights : ndarray of shape (t, n)
        numbers : ndarray of int of shape (n,)
            The cube of each row, ascending.
        """
        (starts,) = np.nonzero(np.diff(numbers, prepend=-1))
        cubes, edges = numbers[starts].tolist(), [*starts.tolist(), len(numbers)]
        sums = moments.reshape(len(moments), -1, self.side)

        def add_run(run: tuple[int, int]) -> None:
            product = np.empty(sums.shape[1:])
            for a in range(edges[run[0]], edges[run[1]], BLOCK):
                b = min(a + BLOCK, edges[run[1]])
                *first, last = (_chebyshev(column[a:b], self.side) for column in places)
                own, last = weights[:, a:b], last.T
                if first:
                    own = (own[:, None] * first[0]).reshape(-1, b - a)
                for k in range(*run):
                    of = slice(max(edges[k] - a, 0), max(edges[k + 1] - a, 0))
                    sums[cubes[k]] += np.matmul(own[:, of], last[of], out=product)

        parallel_map(add_run, _runs(edges))

    def weights(self, moments: Floats) -> Floats:
        """Return the weights of the nodes, shape (..., size), from moments of shape (..., size)."""
        spread = moments.reshape(*moments.shape[:-1], *[self.side] * self.n_inputs)
        if self.n_inputs == 1:
            return spread @ self._inverse
        found: Floats = self._inverse.T @ spread @ self._inverse
        return found.reshape(moments.shape)

    def values(self, places: Floats) -> Floats:
        """Return the polynomials that are 1 at one node each and 0 at the others, of rows in the cube: (n, size)."""
        one, *two = (_chebyshev(column, self.side).T @ self._inverse for column in places.T)
        return one if not two else (one[:, :, None] * two[0][:, None]).reshape(len(places), -1)

    @classmethod
    def serving(cls, features: KernelMap, noise: Noise, metric: Floats, half: float, reach: float) -> "Nodes | None":
        """Return nodes by which products of features are exact, as far as float64 goes; None of none.

        Parameters
        ----------
        features : KernelMap
            Fitted.
        noise : Noise
        metric : ndarray of shape (d,)
            One lengthscale of each column.
        half : float
            Half of a side of the lattice, in lengthscales.
        reach : float
            In lengthscales.
        """
        rng, d = np.random.default_rng(0), len(metric)
        pairs = rng.integers(features.n_features_out_, size=(2, N_PAIRS))
        # Near cubes count most, and one that has the centre in its corner is among them.
        directions = rng.normal(size=(N_CUBES, d))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        centres = directions * np.linspace(0.0, reach, N_CUBES)[:, None]
        inside = rng.uniform(-1.0, 1.0, (N_CUBES, N_ROWS, d))
        scale = float(features.kernel_.prior_variance())

        def products(places: Floats) -> Floats:
            X = as_tensor(np.ascontiguousarray(places * metric))
            mapped = features.evaluate(X)
            missing = features.missing_variance(X, mapped) if noise.counts_missing else None
            columns, found = mapped.T.contiguous().numpy(), np.empty((N_PAIRS + 1, len(X)))
            found[-1] = 1.0 if missing is None else (noise.variance / (noise.variance + missing)).numpy()
            np.multiply(columns[pairs[0]], columns[pairs[1]], out=found[:-1])
            found[:-1] *= found[-1] / scale
            return found.T

        for parts, side in TRIED if d <= MOST_COLUMNS else ():
            nodes, worst, own = cls(side, d, parts), 0.0, half / parts
            for centre, rows in zip(centres, inside, strict=True):
                found = nodes.values(rows) @ products(centre + own * nodes.points)
                worst = max(worst, float(np.abs(found - products(centre + own * rows)).max()))
                if worst > EXACT:
                    break
            if worst <= EXACT:
                return nodes
        return None


def _runs(edges: list[int]) -> list[tuple[int, int]]:
    """Return runs of cubes with about as many rows as a block, or one cube that has more."""
    runs, first = [], 0
    while first < len(edges) - 1:
        last = max(first + 1, bisect_right(edges, edges[first] + BLOCK) - 1)
        runs.append((first, last))
        first = last
    return runs


def _chebyshev(x: Floats, size: int) -> Floats:
    """Return T₀(x), …, T of `size` − 1, shape (size, n)."""
    values = np.empty((size, len(x)))
    values[0] = 1.0
    values[1] = x
    for k in range(2, size):
        np.multiply(values[k - 1], 2.0 * x, out=values[k])
        values[k] -= values[k - 2]
    return values


@dataclass(frozen=True, eq=False)
class Cubes:
    """Rows by the cube that they are in, with three weights each: w, w y and w y².

    All cubes are in the same few arrays: to merge two takes a few operations, however many cubes there are.

    Attributes
    ----------
    nodes : Nodes
    keys : ndarray of int of shape (n_cubes, d)
        Ascending.
    places : ndarray of shape (d, n)
        Of rows that are kept, in half sides from the centre of their cube.
    weights : ndarray of shape (3, n)
        Of these rows.
    numbers : ndarray of int of shape (n,)
        The cube of each of these rows, ascending.
    summed : ndarray of int of shape (n_summed,)
        The cubes with moments, ascending.
    moments : ndarray of shape (n_summed, 3, size)
        Of all other rows.
    """

    nodes: Nodes
    keys: Keys
    places: Floats
    weights: Floats
    numbers: Indices
    summed: Indices
    moments: Floats

    def merge(self, other: "Cubes", sign: float = 1.0) -> "Cubes":
        """Return the rows of both; with ``sign=-1.0``, without those of the other."""
        keys, mine, theirs = _union(self.keys, other.keys)
        numbers = np.concatenate((mine[self.numbers], theirs[other.numbers]))
        order = _order(numbers, len(keys))
        places = np.concatenate((self.places, other.places), axis=1).take(order, axis=1)
        weights = np.concatenate((self.weights, sign * other.weights), axis=1).take(order, axis=1)
        sums = [(mine[self.summed], self.moments, 1.0), (theirs[other.summed], other.moments, sign)]
        return Cubes.made(self.nodes, keys, places, weights, numbers.take(order), sums)

    @classmethod
    def made(
        cls, nodes: Nodes, keys: Keys, places: Floats, weights: Floats, numbers: Indices,
        sums: Sequence[tuple[Indices, Floats, float]] = (),
    ) -> "Cubes":  # fmt: skip
        """Return cubes of rows, and of the moments of others with their cubes and a sign; moments of rows if that pays.

        It does where a cube has many rows, see `ROW_NODES`; and of cubes with moments, once all of them have many.
        """
        counts = np.bincount(numbers, minlength=len(keys))
        due, has = counts * ROW_NODES > nodes.size, np.zeros(len(keys), dtype=np.bool_)
        for summed, _, _ in sums:
            has[summed] = True
        if counts[has].sum() > LATER:
            due |= has
        (every,) = np.nonzero(has | due)
        moments = _total([one for one in sums if len(one[0])], every, nodes.size, shared=not due.any())
        now = due[numbers]
        if now.any():
            (some,) = np.nonzero(now)
            of_rows = np.searchsorted(every, numbers.take(some))
            nodes.add(moments, places.take(some, axis=1), weights.take(some, axis=1), of_rows)
            (some,) = np.nonzero(~now)
            places, weights, numbers = places.take(some, axis=1), weights.take(some, axis=1), numbers.take(some)
        return cls(nodes, keys, places, weights, numbers, every, moments)

    def without(self, other: "Cubes") -> "Cubes":
        """Return the rows without those of the other, and no cube that has lost all.

        Raises
        ------
        InputError
            If more is taken out than there is.
        """
        keys, _, theirs = _union(self.keys, other.keys)
        if len(keys) > len(self.keys):
            raise not_there("no row is near one of them")
        left = self.merge(other, -1.0)
        before, after = self.totals[:, theirs], left.totals[:, theirs]
        for n, own, squares, rest in zip(before[0], after[0], before[2], after[2], strict=True):
            check_sums(n, own, squares, rest)
        stay = np.ones(len(keys), dtype=np.bool_)
        stay[theirs] = after[0] > 1e-9 * before[0]
        return left if stay.all() else left.take(stay)

    def take(self, stay: NDArray[np.bool_]) -> "Cubes":
        """Return some of the cubes, of a boolean for each."""
        new, summed = np.cumsum(stay) - 1, stay[self.summed]
        (rows,) = np.nonzero(stay[self.numbers])
        places, weights, numbers = self.places.take(rows, axis=1), self.weights.take(rows, axis=1), self.numbers[rows]
        moments = self.moments[summed]
        return Cubes(self.nodes, self.keys[stay], places, weights, new[numbers], new[self.summed[summed]], moments)

    @property
    def totals(self) -> Floats:
        """Σ w, Σ w y and Σ w y² of each cube, shape (3, n_cubes): the first moments are those of T₀ = 1."""
        found = np.zeros((3, len(self.keys)))
        found += [np.bincount(self.numbers, one, len(self.keys)) for one in self.weights]
        found[:, self.summed] += self.moments[:, :, 0].T
        return found


def _union(mine: Keys, theirs: Keys) -> tuple[Keys, Indices, Indices]:
    """Return the keys of both, ascending, and where each of them is among these."""
    if np.array_equal(mine, theirs):
        same = np.arange(len(mine))
        return mine, same, same
    keys, place = grouped(np.concatenate((mine, theirs)))
    return keys, place[: len(mine)], place[len(mine) :]


def _total(sums: Sequence[tuple[Indices, Floats, float]], every: Indices, size: int, *, shared: bool) -> Floats:
    """Return the total of moments with their cubes and a sign: for every cube, or the only ones themselves."""
    if sums and len(sums[0][0]) == len(every) and sums[0][2] > 0.0:
        if shared and len(sums) == 1:
            return sums[0][1]
        total, sums = sums[0][1].copy(), sums[1:]
    else:
        total = np.zeros((len(every), 3, size))
    for summed, moments, sign in sums:
        add, at = np.add if sign > 0.0 else np.subtract, np.searchsorted(every, summed)
        # Run by run of neighbours: few, where most cubes are the same.
        for start, end in pairwise((0, *(np.flatnonzero(np.diff(at) > 1) + 1).tolist(), len(at))):
            of = total[at[start] : at[start] + end - start]
            add(of, moments[start:end], out=of)
    return total


def _order(numbers: Indices, n: int) -> Indices:
    """Return the stable order of numbers below n."""
    # numpy sorts short integers in linear time.
    return np.argsort(numbers.astype(np.uint16) if n <= 2**16 else numbers, kind="stable")


def grouped(cells: Keys) -> tuple[Keys, NDArray[np.intp]]:
    """Return the distinct rows of an array of integers, ascending, and the number of each row among them."""
    # Column by column: numpy is slow along a short axis.
    low = np.array([column.min(initial=2**62) for column in cells.T])
    shape = np.array([column.max(initial=-(2**62)) for column in cells.T]) - low + 1
    if not len(cells) or np.prod(shape.astype(np.float64)) > 4.0 * len(cells) + 2**16:
        keys, place = np.unique(cells, axis=0, return_inverse=True)
        return keys, place.ravel()
    # Few cells: without sorting.
    flat = np.ravel_multi_index(tuple((cells - low).T), tuple(shape.tolist()))
    held = np.bincount(flat, minlength=int(np.prod(shape))) > 0
    (found,) = np.nonzero(held)
    numbers = np.cumsum(held) - 1
    return np.stack(np.unravel_index(found, tuple(shape.tolist())), axis=1) + low, numbers[flat]


def cubes_of(rows: Rows, weights: Floats, lattice: "Lattice", nodes: Nodes, max_memory_gib: float) -> Cubes:
    """Return the cubes of rows.

    Parameters
    ----------
    rows : Rows
        With y less the origin.
    weights : ndarray of shape (n,)
    lattice : Lattice
    nodes : Nodes
    max_memory_gib : float

    Raises
    ------
    MemoryLimitError
    """
    fine = lattice.parted(nodes.parts)
    cells = fine.cells(rows.X)
    keys, numbers = grouped(cells)
    check_memory(
        24.0 * nodes.size * len(keys),
        f"The sums of {len(keys):,} cubes with rows",
        "Use a larger threshold, or a higher max_memory_gib.",
        max_memory_gib,
    )
    order = _order(numbers, len(keys))
    places = np.empty((len(fine.metric), len(order)))
    for j, scale in enumerate(fine.metric * fine.side):
        places[j] = (2.0 * (rows.X[:, j] / scale - cells[:, j]) - 1.0)[order]
    y, w = rows.y[order], weights[order]
    every = np.stack((w, w * y, w * np.square(y)))
    return Cubes.made(nodes, keys, places, every, numbers[order])
