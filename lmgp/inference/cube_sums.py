"""Rows by the cube that they are in: themselves where they are few, and moments of Chebyshev polynomials otherwise.

What a posterior around a centroid takes of a row, ρφφᵀ, is a smooth function of where the row is. So a polynomial
through nodes of a cube gives it for each row of the cube, and the sum over these rows is one over the nodes, with
weights that are sums over rows. A row is summed once, for its own cube; posteriors are made of the nodes of all cubes
within reach.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmgp.features.base import KernelMap
from lmgp.memory import check_memory
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.validation import Rows, as_tensor

if TYPE_CHECKING:
    from lmgp.inference.local_sums import Lattice

Floats = NDArray[np.float64]
Keys = NDArray[np.int64]
Key = tuple[int, ...]

# Parts of a side and nodes of a part that are tried. FITC's noise changes within a fraction of a lengthscale.
TRIED = ((1, 16), (1, 20), (1, 24), (1, 28), (1, 32), (2, 20), (2, 24), (3, 20), (3, 24), (4, 24), (5, 24))

# Up to this number of columns: of more, the nodes are more than the moments of the features.
MOST_COLUMNS = 2

# The error of a product of two features, by the nodes, that is as good as none.
EXACT = 1e-12

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
        """Return Σ w T(x) over rows, shape (t, size), for rows in the cube and weights of shape (t, n)."""
        first, *rest = (_chebyshev(column, self.side) for column in places.T)
        if not rest:
            return weights @ first.T
        return np.stack([(first * one) @ rest[0].T for one in weights]).reshape(len(weights), -1)

    def weights(self, moments: Floats) -> Floats:
        """Return the weights of the nodes, shape (..., size), from moments of shape (..., size)."""
        spread = moments.reshape(*moments.shape[:-1], *[self.side] * self.n_inputs)
        if self.n_inputs == 1:
            return spread @ self._inverse
        found: Floats = self._inverse.T @ spread @ self._inverse
        return found.reshape(moments.shape)

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
            both = (mapped[:, pairs[0]] * mapped[:, pairs[1]]).numpy() / scale
            if missing is None:
                return both
            precision = (noise.variance / (noise.variance + missing)).numpy()[:, None]
            return np.concatenate((both * precision, precision), axis=1)

        for parts, side in TRIED if d <= MOST_COLUMNS else ():
            nodes, worst, own = cls(side, d, parts), 0.0, half / parts
            for centre, rows in zip(centres, inside, strict=True):
                by_nodes = [nodes.weights(nodes.moments(row[None], np.ones((1, 1))))[0] for row in rows]
                found = np.array(by_nodes) @ products(centre + own * nodes.points)
                worst = max(worst, float(np.abs(found - products(centre + own * rows)).max()))
                if worst > EXACT:
                    break
            if worst <= EXACT:
                return nodes
        return None


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
class Cube:
    """The rows of a cube, with three weights each: w, w y and w y².

    Attributes
    ----------
    places : ndarray of shape (n, d)
        Of rows that are kept, in half sides from the centre of the cube.
    weights : ndarray of shape (3, n)
        Of these rows.
    moments : ndarray of shape (3, size) or None
        Of all others.
    """

    places: Floats
    weights: Floats
    moments: Floats | None = None

    def merge(self, other: "Cube", sign: float, nodes: Nodes) -> "Cube":
        """Return the rows of both; with ``sign=-1.0``, without those of the other."""
        moments = self.moments
        if other.moments is not None:
            moments = sign * other.moments if moments is None else moments + sign * other.moments
        places = np.concatenate((self.places, other.places))
        weights = np.concatenate((self.weights, sign * other.weights), axis=1)
        return Cube(places, weights, moments).compressed(nodes)

    def compressed(self, nodes: Nodes, row_nodes: int = 1) -> "Cube":
        """Return the cube with moments in place of rows, where each row counts as some nodes, and they are more."""
        if len(self.places) * row_nodes <= nodes.size:
            return self
        moments = nodes.moments(self.places, self.weights)
        if self.moments is not None:
            moments += self.moments
        return Cube(self.places[:0], self.weights[:, :0], moments)

    @property
    def totals(self) -> tuple[float, float]:
        """Σ w and Σ w y²: the first moments are those of T₀ = 1."""
        own = self.weights.sum(axis=1) if self.moments is None else self.weights.sum(axis=1) + self.moments[:, 0]
        return float(own[0]), float(own[2])


def grouped(cells: Keys) -> tuple[Keys, NDArray[np.intp]]:
    """Return the distinct rows of an array of integers, ascending, and the number of each row among them."""
    low = cells.min(axis=0, initial=2**62)
    shape = cells.max(axis=0, initial=-(2**62)) - low + 1
    if not len(cells) or np.prod(shape.astype(np.float64)) > 4.0 * len(cells) + 2**16:
        keys, place = np.unique(cells, axis=0, return_inverse=True)
        return keys, place.ravel()
    # Few cells: without sorting.
    flat = np.ravel_multi_index(tuple((cells - low).T), tuple(shape.tolist()))
    held = np.bincount(flat, minlength=int(np.prod(shape))) > 0
    (found,) = np.nonzero(held)
    numbers = np.cumsum(held) - 1
    return np.stack(np.unravel_index(found, tuple(shape.tolist())), axis=1) + low, numbers[flat]


def cubes_of(rows: Rows, weights: Floats, lattice: "Lattice", nodes: Nodes, max_memory_gib: float) -> dict[Key, Cube]:
    """Return the cubes of rows, by their keys.

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
    keys, place = grouped(cells)
    check_memory(
        24.0 * nodes.size * len(keys),
        f"The sums of {len(keys):,} cubes with rows",
        "Use a larger threshold, or a higher max_memory_gib.",
        max_memory_gib,
    )
    # numpy sorts short integers in linear time.
    order = np.argsort(place.astype(np.uint16) if len(keys) < 2**16 else place, kind="stable")
    places = (2.0 * (rows.X / (fine.metric * fine.side) - cells) - 1.0)[order]
    y, w = rows.y[order], weights[order]
    every = np.stack((w, w * y, w * np.square(y)))
    ends = np.cumsum(np.bincount(place, minlength=len(keys)))

    def cube(i: int) -> Cube:
        of = slice(ends[i - 1] if i else 0, ends[i])
        return Cube(places[of].copy(), every[:, of].copy()).compressed(nodes)

    return dict(zip(map(tuple, keys.tolist()), parallel_map(cube, range(len(keys))), strict=True))
