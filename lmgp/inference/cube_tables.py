"""The statistics around a centroid from the rows in cubes around it."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from lmgp.features.base import KernelMap
from lmgp.features.series import TaylorFit
from lmgp.features.taylor import TaylorFeatures
from lmgp.inference.cube_sums import Cubes, Indices, Keys, Nodes
from lmgp.memory import chunks
from lmgp.noise import Noise
from lmgp.statistics import Source, Statistics, TargetSums
from lmgp.validation import as_tensor

if TYPE_CHECKING:
    from lmgp.inference.local_sums import Lattice

Floats = NDArray[np.float64]


class PlacedCubes:
    """Finds the cubes around a centroid, and sums their rows.

    Parameters
    ----------
    cubes : Cubes
    lattice : Lattice
        Of which the cubes are parts.
    features : KernelMap
        Fitted, with moments.
    noise : Noise
    reach : float
        In lengthscales.
    """

    def __init__(
        self, cubes: Cubes, lattice: "Lattice", features: KernelMap, noise: Noise, reach: float
    ) -> None:  # fmt: skip
        self._features, self._noise, self._cubes = features, noise, cubes
        fine = lattice.parted(cubes.nodes.parts)
        self._centres, self._metric, self._side = fine.centres(cubes.keys), fine.metric, fine.side
        self._reach = reach + 0.5 * fine.side * fine.metric.size**0.5
        self._tree = cKDTree(self._centres / self._metric)
        self._table: NodeTable | None = None
        # Where the rows of a cube begin, and where its moments are: −1 of none.
        self._starts = np.searchsorted(cubes.numbers, np.arange(len(cubes.keys) + 1))
        self._places = np.full(len(cubes.keys), -1)
        self._places[cubes.summed] = np.arange(len(cubes.summed))
        self._weights = cubes.nodes.weights(cubes.moments)

    def around(self, centroid: Floats) -> Statistics | None:
        """Return the statistics of the rows around a centroid of shape (d,); None of none."""
        near = np.array(sorted(self._tree.query_ball_point(centroid / self._metric, self._reach)), dtype=np.intp)
        source, total = self._features.source(self._noise, centroid), None
        summed = near[self._places[near] >= 0]
        if len(summed):
            total = self._of_moments(summed, centroid, source)
        kept = near[self._starts[near] < self._starts[near + 1]]
        if len(kept):
            rows = np.concatenate([np.arange(self._starts[i], self._starts[i + 1]) for i in kept])
            half, cubes = 0.5 * self._side * self._metric, self._cubes
            X = self._centres[cubes.numbers[rows]] - centroid + cubes.places[:, rows].T * half
            weights = cubes.weights[:, rows]
            for part in chunks(len(X), self._features.row_size):
                one = _summed(self._features, as_tensor(X[part]), as_tensor(weights[:, part].copy()), source)
                total = one if total is None else total.merge(one)
        return total

    def _of_moments(self, near: Indices, centroid: Floats, source: Source) -> Statistics:
        # Centroids of the lattice are at one place among the cubes: the table of one serves all.
        place = centroid / (self._metric * self._side) - 0.5
        origin = np.floor(place + 1e-6).astype(np.int64)
        table = self._table
        if table is None or not np.allclose(table.place, place - origin, rtol=0.0, atol=1e-9):
            reach = self._reach / self._side
            nodes = self._cubes.nodes
            table = NodeTable(self._features, self._noise, nodes, self._side, place - origin, reach)
            self._table = table
        return table.summed(self._cubes.keys[near] - origin, self._weights[self._places[near]], source)


class NodeTable:
    """The features at the nodes of all cubes around a centroid, column by column.

    Parameters
    ----------
    features : KernelMap
        Fitted, with moments.
    noise : Noise
    nodes : Nodes
    side : float
        Of a cube, in lengthscales.
    place : ndarray of shape (d,)
        Of the centroid, in sides from the centre of cube 0.
    reach : float
        In sides.
    """

    def __init__(
        self, features: KernelMap, noise: Noise, nodes: Nodes, side: float, place: Floats, reach: float
    ) -> None:
        self.place, self._side = place, nodes.side
        fit: TaylorFit = features._fitted
        assert fit.moments is not None  # or there were no cubes
        self._plan, self._variance = fit.moments, float(fit.component.variance)
        most = int(np.ceil(reach)) + 1
        self._most, self._n_along = most, 2 * most + 1
        along = np.arange(-most, most + 1)[:, None] + 0.5 * nodes.along
        # In lengthscales, shape (cubes along a column, nodes of a cube along it, d).
        places = side * (along[..., None] - place)
        (left, right), own = self._plan.of_rows(as_tensor(places.reshape(-1, len(place))))
        columns = as_tensor(places.reshape(-1, len(place)))
        halves = [torch.exp(0.5 * columns[:, j].square()) for j in range(len(place))]
        halves += [torch.ones_like(halves[0])] * (2 - len(place))
        self._left, self._own_left = left, own[0] * halves[0]
        self._right, self._own_right = right, own[1] * halves[1]
        self._relative: Floats | None = None
        if noise.counts_missing:
            self._relative = self._precisions(features, noise, places)

    def _precisions(self, features: KernelMap, noise: Noise, places: Floats) -> Floats:
        """Return σ²/σᵢ² of all nodes, shape (cubes, side, side) or (cubes, side, 1)."""
        d = places.shape[2]
        if d == 1:
            grid = places.reshape(-1, 1)
        else:
            first, second = np.broadcast_arrays(places[:, None, :, None, 0], places[None, :, None, :, 1])
            grid = np.stack((first, second), axis=-1).reshape(-1, 2)
        fit: TaylorFit = features._fitted
        found = np.empty(len(grid))
        for part in chunks(len(grid), features.n_features_out_):
            found[part] = _relative(features, fit, as_tensor(grid[part]), noise)
        return found.reshape(-1, self._side, self._side if d == 2 else 1)

    def summed(self, keys: Keys, weights: Floats, source: Source) -> Statistics:
        """Return the statistics of nodes with the weights w, w y and w y², of either sign.

        Parameters
        ----------
        keys : ndarray of int of shape (n, d)
            Of the cubes.
        weights : ndarray of shape (n, 3, size)
        source : Source
        """
        steps = keys + self._most
        d, side = keys.shape[1], self._side
        of = weights.reshape(len(keys), 3, side, -1)
        n, weighted, _ = of.sum(axis=(0, 2, 3)).tolist()
        own, logarithms = of, 0.0
        if self._relative is not None:
            relative = self._relative[steps[:, 0] if d == 1 else steps[:, 0] * self._n_along + steps[:, 1]]
            own, logarithms = of * relative[:, None], float((of[:, 0] * np.log(relative)).sum())
        first = (steps[:, :1] * side + np.arange(side)).ravel()
        # Of one column, the second one is 0 everywhere: any of its nodes.
        second = steps[:, 1:] * side + np.arange(side) if d == 2 else np.zeros((len(keys), 1), dtype=np.int64)
        across = as_tensor(np.ascontiguousarray(own[:, :2]))
        moments = self._plan.sums(self._variance)

        def product(left: torch.Tensor, right: torch.Tensor, weight: int) -> torch.Tensor:
            inner = torch.bmm(across[:, weight], right.T[second])
            return left[:, first] @ inner.flatten(end_dim=1)

        moments.gram.add_(product(self._left, self._right, 0))
        moments.cross[1] += product(self._own_left, self._own_right, 0)
        moments.cross[0] += product(self._own_left, self._own_right, 1)
        precision, linear, squares = own.sum(axis=(0, 2, 3)).tolist()
        return Statistics(source, moments, TargetSums(0.0, squares, linear, precision, n, weighted, logarithms))


def _relative(features: KernelMap, fit: TaylorFit, scaled: torch.Tensor, noise: Noise) -> torch.Tensor:
    """Return σ²/σᵢ² of rows in lengthscales, with what the map leaves out as noise."""
    if isinstance(features, TaylorFeatures) and features.index_set == "total_degree":
        missing = fit.missing(scaled.square().sum(dim=1))  # with all terms up to the degree, it depends on r² alone
    else:
        rows = scaled * as_tensor(np.asarray(fit.component.lengthscale, dtype=np.float64))
        found = features.missing_variance(rows, features.evaluate(rows))
        assert found is not None  # of a truncated series
        missing = found
    return noise.variance / (noise.variance + missing)


def _summed(features: KernelMap, X: torch.Tensor, weights: torch.Tensor, source: Source) -> Statistics:
    """Return the statistics of rows with the weights w, w y and w y², of either sign."""
    fit: TaylorFit = features._fitted
    assert fit.moments is not None  # or there were no cubes
    moments, noise, scaled = fit.moments.sums(float(fit.component.variance)), source.noise, fit.scale(X)
    own, logarithms = weights, 0.0
    if noise.counts_missing:
        relative = _relative(features, fit, scaled, noise)
        own, logarithms = weights * relative, float(weights[0] @ torch.log(relative))
    moments.add_rows(scaled, scaled.square().sum(dim=1), own[1], own[0], weighted=True)
    precision, linear, of_squares = own.sum(dim=1).tolist()
    n, weighted, _ = weights.sum(dim=1).tolist()
    return Statistics(source, moments, TargetSums(0.0, of_squares, linear, precision, n, weighted, logarithms))
