"""The statistics around a centroid from the rows in cubes around it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from lmgp.features.base import KernelMap
from lmgp.features.series import TaylorFit
from lmgp.features.taylor import TaylorFeatures
from lmgp.inference.cube_sums import Cube, Key, Keys, Nodes
from lmgp.memory import chunks
from lmgp.noise import Noise
from lmgp.statistics import Source, Statistics, TargetSums
from lmgp.validation import as_tensor

if TYPE_CHECKING:
    from lmgp.inference.local_sums import Lattice

Floats = NDArray[np.float64]

# Around a centroid, a row takes as long as this number of nodes, whose features are products of tables.
ROW_NODES = 8


class PlacedCubes:
    """Finds the cubes around a centroid, and sums their rows.

    Parameters
    ----------
    cubes : dict
        By their keys.
    lattice : Lattice
        Of which the cubes are parts.
    nodes : Nodes
    features : KernelMap
        Fitted, with moments.
    noise : Noise
    reach : float
        In lengthscales.
    """

    def __init__(
        self, cubes: Mapping[Key, Cube], lattice: "Lattice", nodes: Nodes, features: KernelMap, noise: Noise,
        reach: float,
    ) -> None:  # fmt: skip
        self._features, self._noise, self._nodes = features, noise, nodes
        fine = lattice.parted(nodes.parts)
        self._cubes = [one.compressed(nodes, ROW_NODES) for one in cubes.values()]
        self._keys = np.array(list(cubes), dtype=np.int64)
        self._centres, self._metric, self._side = fine.centres(self._keys), fine.metric, fine.side
        self._reach = reach + 0.5 * fine.side * fine.metric.size**0.5
        self._tree = cKDTree(self._centres / self._metric)
        self._table: NodeTable | None = None

    def around(self, centroid: Floats) -> Statistics | None:
        """Return the statistics of the rows around a centroid of shape (d,); None of none."""
        near = sorted(self._tree.query_ball_point(centroid / self._metric, self._reach))
        source, total = self._features.source(self._noise, centroid), None
        summed = [i for i in near if self._cubes[i].moments is not None]
        if summed:
            total = self._of_moments(summed, centroid, source)
        kept = [i for i in near if len(self._cubes[i].places)]
        if kept:
            half = 0.5 * self._side * self._metric
            X = np.concatenate([self._centres[i] - centroid + self._cubes[i].places * half for i in kept])
            weights = np.concatenate([self._cubes[i].weights for i in kept], axis=1)
            for part in chunks(len(X), self._features.row_size):
                one = _summed(self._features, as_tensor(X[part]), as_tensor(weights[:, part].copy()), source)
                total = one if total is None else total.merge(one)
        return total

    def _of_moments(self, near: list[int], centroid: Floats, source: Source) -> Statistics:
        # Centroids of the lattice are at one place among the cubes: the table of one serves all.
        place = centroid / (self._metric * self._side) - 0.5
        origin = np.floor(place + 1e-6).astype(np.int64)
        table = self._table
        if table is None or not np.allclose(table.place, place - origin, rtol=0.0, atol=1e-9):
            reach = self._reach / self._side
            table = NodeTable(self._features, self._noise, self._nodes, self._side, place - origin, reach)
            self._table = table
        moments = np.array([self._cubes[i].moments for i in near])
        return table.summed(self._keys[near] - origin, self._nodes.weights(moments), source)


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
