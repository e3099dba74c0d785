"""Posteriors around centroids from sums over rows, which are not kept: for streams, and for rows that come later.

The centroids are the centres of cubes that hold rows, of a lattice that is the same for all rows: in any order of the
rows they are the same. Rows are summed by the cube that they are in, see `lmgp.inference.cube_sums`, where that is
exact; or each for all cubes within reach of it, those without rows included. Either way a cube that gets its first row
later has the sums of all earlier rows.
"""

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.features.base import KernelMap
from lmgp.features.moments import MomentSums
from lmgp.inference.additive import check_sums, not_there, rows_are_gone
from lmgp.inference.cache import Cache
from lmgp.inference.cube_sums import Cubes, Nodes, cubes_of, grouped
from lmgp.inference.cube_tables import PlacedCubes
from lmgp.inference.local import LocalPosterior
from lmgp.inference.weight_space import WeightPosterior
from lmgp.io.summary import Summary
from lmgp.kernels.base import Kernel
from lmgp.locality.blocks import Neighbourhoods
from lmgp.locality.placement import by_centroid
from lmgp.memory import check_memory, chunks
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.statistics import Statistics
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]
Keys = NDArray[np.int64]
Key = tuple[int, ...]

# Up to this number of columns, rows are summed for cubes without rows, too.
MOST_COLUMNS = 3

# Cubes around cubes that are listed at a time.
AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class Lattice:
    """Cubes whose points are all closer than a threshold to their centre.

    Attributes
    ----------
    metric : ndarray of shape (d,)
        One lengthscale of each column.
    side : float
        Of a cube, in lengthscales.
    """

    metric: Floats
    side: float

    @classmethod
    def of(cls, kernel: Kernel, n_inputs: int, threshold: float) -> "Lattice":
        """Make the lattice of a kernel and a threshold in lengthscales."""
        metric = np.broadcast_to(np.asarray(kernel.metric(n_inputs), dtype=np.float64), (n_inputs,)).copy()
        return cls(metric, 2.0 * threshold / n_inputs**0.5 * (1.0 - 1e-9))

    def parted(self, parts: int) -> "Lattice":
        """Return the lattice of cubes with sides that are shorter by a factor."""
        return self if parts == 1 else Lattice(self.metric, self.side / parts)

    def cells(self, X: Floats) -> Keys:
        """Return the cube of each row, shape (n, d)."""
        cells = np.floor(X / (self.metric * self.side))
        if np.abs(cells).max(initial=0.0) > 2.0**52:
            raise InputError(
                "Rows are so far from the origin, in lengthscales, that float64 does not tell neighbours apart: "
                f"{np.abs(X).max():g} beside a lengthscale of {self.metric.min():g}. Subtract a constant from X."
            )
        return cells.astype(np.int64)

    def centres(self, cells: Keys) -> Floats:
        """Return the centre of each cube in the units of X, shape (n, d)."""
        centres: Floats = (cells + 0.5) * (self.side * self.metric)
        return centres

    def around(self, cells: Keys, reach: float) -> Keys:
        """Return all cubes whose centre is within reach of a point of these cubes."""
        n_sides = int(np.ceil(reach / self.side + 0.5))
        offsets = np.array(list(product(range(-n_sides, n_sides + 1), repeat=cells.shape[1])), dtype=np.int64)
        apart = np.maximum(np.abs(offsets) - 0.5, 0.0) * self.side
        offsets = offsets[np.square(apart).sum(axis=1) <= reach**2]
        found = np.empty((0, cells.shape[1]), dtype=np.int64)
        step = max(1, AT_ONCE // len(offsets))
        for start in range(0, len(cells), step):
            some = (cells[start : start + step, None] + offsets).reshape(-1, cells.shape[1])
            found = np.unique(np.concatenate((found, np.unique(some, axis=0))), axis=0)
        return found


class LocalSums:
    """Sums over rows around each of many centres, with y less a frozen origin.

    Parameters
    ----------
    around : dict
        The statistics by the key of a centre.
    held : dict
        Σ w of the rows in each cube that has some.
    summary : Summary
    cubes : Cubes or None
        Rows that are not in `around`; None of none.
    """

    def __init__(
        self, around: dict[Key, Statistics], held: dict[Key, float], summary: Summary, cubes: Cubes | None = None
    ) -> None:
        self.around, self.held, self.summary, self.cubes = around, held, summary, cubes

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.summary.n_rows

    def merge(self, other: "LocalSums", sign: float = 1.0) -> "LocalSums":
        """Return the sums over the rows of both; with ``sign=-1.0``, without the rows of the other.

        Raises
        ------
        InputError
            If the other's kernel, map or noise is not the same, or more is taken out than there is.
        """
        around, held = dict(self.around), dict(self.held)
        for key, theirs in other.around.items():
            mine = around.get(key)
            if mine is None and sign < 0.0:
                raise not_there("no row is near one of them")
            around[key] = theirs if mine is None else mine.merge(theirs, sign)
            if mine is not None and sign < 0.0:
                left = around[key].targets
                check_sums(mine.targets.n, left.n, mine.targets.squares, left.squares)
        for key, n in other.held.items():
            before = held.get(key, 0.0)
            held[key] = before + sign * n
            if sign < 0.0:
                check_sums(before, held[key], 0.0, 0.0)
                if held[key] <= 1e-9 * before:
                    del held[key]
        return LocalSums(around, held, self.summary.combine(other.summary, sign), self._with_cubes(other, sign))

    def _with_cubes(self, other: "LocalSums", sign: float) -> Cubes | None:
        if other.cubes is None:
            return self.cubes
        if sign > 0.0:
            return other.cubes if self.cubes is None else self.cubes.merge(other.cubes)
        if self.cubes is None:
            raise not_there("no row is near one of them")
        return self.cubes.without(other.cubes)


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """What is frozen of a model around centroids: how rows are summed.

    Attributes
    ----------
    kernel : Kernel
    features : KernelMap
        Fitted, with a reach.
    noise : Noise
    origin : float
        What y is less of in the sums.
    lattice : Lattice
    reach : float
        In lengthscales: rows farther from a centre are not summed for it.
    given : ndarray of shape (n_centroids, d) or None
        Centroids in place of those of the lattice.
    seen : ndarray of shape (n_cells, d) or None
        The cubes that may have rows, of more columns than three; None of any.
    max_memory_gib : float
    nodes : Nodes or None
        By which rows are summed in their own cubes.
    """

    kernel: Kernel
    features: KernelMap
    noise: Noise
    origin: float
    lattice: Lattice
    reach: float
    given: Floats | None
    seen: Keys | None
    max_memory_gib: float
    nodes: Nodes | None = None

    def seeing(self, cells: Keys) -> "LocalPlan":
        """Return the plan with more cubes that may have rows."""
        seen = cells if self.seen is None else np.unique(np.concatenate((self.seen, cells)), axis=0)
        return replace(self, seen=seen)

    def check_rows(self, rows: Rows) -> None:
        """Refuse rows out of the cubes that are known, where there are no sums for others.

        Raises
        ------
        InputError
        """
        if self.given is not None or self.seen is None:
            return
        cells = self.lattice.cells(rows.X)
        known = _key_view(self.seen)
        outside = ~np.isin(_key_view(cells), known)
        if outside.any():
            row = int(np.argmax(outside))
            raise InputError(
                f"{int(outside.sum()):,} rows are farther from all centroids than the threshold, the first of them row "
                f"{row}, {rows.X[row].tolist()}. With more than {MOST_COLUMNS} columns, a model of sums gets no "
                "centroids later. Fit it to a source that can be read again, or give centroids."
            )

    def sums_of(self, rows: Rows) -> LocalSums:
        """Return the sums over rows, with y as it is."""
        centred = replace(rows, y=rows.y - self.origin)
        weights = np.ones(len(rows.y)) if rows.weights is None else rows.weights
        if self.nodes is not None and rows.noise_variances is None:
            cubes = cubes_of(centred, weights, self.lattice, self.nodes, self.max_memory_gib)
            held = self._held(cubes.keys // self.nodes.parts, cubes.totals[0])
            return LocalSums({}, held, Summary.of(centred), cubes)
        cells = self.lattice.cells(rows.X)
        held = self._held(cells, weights)
        keys, centres = self._summed_around(grouped(cells)[0])
        near = Neighbourhoods(self.kernel.scale(rows.X))

        def sum_around(i: int) -> Statistics | None:
            index = near.within(self.reach, centres[i] / self.lattice.metric)
            part = centred.take(index)
            return self._sum(part, centres[i]) if len(part.y) else None

        found = parallel_map(sum_around, range(len(keys)))
        around = {tuple(key): one for key, one in zip(keys.tolist(), found, strict=True) if one is not None}
        return LocalSums(around, held, Summary.of(centred))

    def _held(self, cells: Keys, weights: Floats) -> dict[Key, float]:
        """Return Σ w of each cube of the lattice that has rows; none of centroids that are given."""
        if self.given is not None:
            return {}
        keys, place = grouped(cells)
        return dict(zip(map(tuple, keys.tolist()), np.bincount(place, weights).tolist(), strict=True))

    def _summed_around(self, cells: Keys) -> tuple[Keys, Floats]:
        """Return the keys and the places of the centres for which rows in these cubes are summed."""
        if self.given is not None:
            return np.arange(len(self.given), dtype=np.int64)[:, None], self.given
        keys = self.lattice.around(cells, self.reach) if self.seen is None else self.seen
        check_memory(
            len(keys) * self.n_bytes_each,
            f"The sums around {len(keys):,} centres within reach of the rows",
            "Use fewer features, a larger threshold, or a higher max_memory_gib.",
            self.max_memory_gib,
        )
        return keys, self.lattice.centres(keys)

    def _sum(self, rows: Rows, centre: Floats) -> Statistics:
        parts = (rows.take(part) for part in chunks(len(rows.y), self.features.row_size))
        differences = (replace(one, X=one.X - centre) for one in parts)
        return self.features.summed(differences, self.features.source(self.noise, centre))

    @cached_property
    def n_bytes_each(self) -> float:
        """The memory of the sums around one centre."""
        none = self.features.summed((), self.features.source(self.noise, None))
        if isinstance(none.sums, MomentSums):
            return float(none.sums.gram.nbytes + none.sums.cross.nbytes)
        return 8.0 * self.features.n_features_out_ * (self.features.n_features_out_ + 2.0)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "n_bytes_each"}

    def posterior(self, sums: LocalSums, center: float) -> "SummedPosterior":
        """Return the posteriors of these sums, around the mean of y."""
        return SummedPosterior(self, sums, center - self.origin)


class SummedPosterior(LocalPosterior):
    """One posterior around each centroid, from sums over rows.

    Parameters
    ----------
    plan : LocalPlan
    sums : LocalSums
    center : float
        The mean of y, less the origin of the sums.
    """

    def __init__(self, plan: LocalPlan, sums: LocalSums, center: float) -> None:
        self.kernel, self.noise, self.features, self.trend = plan.kernel, plan.noise, plan.features, None
        self._metric, self.reach, self._solver = plan.lattice.metric, plan.reach, "primal"
        keys = sorted(sums.held) if plan.given is None else [(i,) for i in range(len(plan.given))]
        centres = plan.given
        if centres is None:
            centres = plan.lattice.centres(np.array(keys, dtype=np.int64).reshape(len(keys), -1))
        self.centroids, self._center = centres, center
        self._keys, self._lattice, self._sums = keys, plan.lattice, sums
        self._solved: Cache[Any] = Cache(plan.max_memory_gib * 2**30)

    @property
    def rows(self) -> Rows:
        """There are none.

        Raises
        ------
        InputError
        """
        raise rows_are_gone()

    def _posterior(self, index: int) -> WeightPosterior:
        def solve() -> WeightPosterior:
            centroid = self.centroids[index]
            found = [self._sums.around.get(self._keys[index])]
            if self._sums.cubes is not None:
                found.append(self._cubes.around(centroid))
            some = [one for one in found if one is not None]
            assert self.features is not None  # for the type checker
            none = self.features.summed((), self.features.source(self.noise, centroid))
            return WeightPosterior(reduce(Statistics.merge, some, none), self._center)

        made: WeightPosterior = self._solved.get(index, solve)
        return made

    @cached_property
    def _cubes(self) -> PlacedCubes:
        assert self._sums.cubes is not None  # where there are some
        assert self.features is not None  # for the type checker
        return PlacedCubes(self._sums.cubes, self._lattice, self.features, self.noise, self.reach)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_cubes"}

    def missing(self, X: Floats) -> Floats:  # noqa: D102
        missing = np.zeros(len(X))
        for index, members in by_centroid(self.kernel, X, self.centroids) if self.noise.predicts_missing else ():
            rows = as_tensor(X[members] - self.centroids[index])
            left_out = self.features.missing_variance(rows, self.features.evaluate(rows))  # type: ignore[union-attr]
            missing[members] = 0.0 if left_out is None else left_out.numpy()
        return missing


def _key_view(keys: Keys) -> NDArray[Any]:
    whole = np.ascontiguousarray(keys)
    return whole.view([("", np.int64)] * whole.shape[1]).ravel()
