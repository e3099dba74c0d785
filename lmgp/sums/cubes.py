"""Sums around centroids, for streams, and for rows that come later: rows are not kept.

The centroids are the centres of cubes that hold rows, of a lattice that is the same for all rows: in any order of the
rows they are the same. Where that is exact, rows are summed by the cube that they are in. What a posterior around a
centroid takes of a row, ρφφᵀ, is a smooth function of where the row is. So a polynomial through nodes of a cube gives
it for each row of the cube, and the sum over these rows is one over the nodes, with weights that are sums over rows.
Otherwise each row is summed for all cubes within reach of it, those without rows included. Either way a cube that gets
its first row later has the sums of all earlier rows.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.data import Floats, Indices, Noise, Rows, Summary, TargetSums, as_tensor, not_there, remaining
from lmgp.errors import InputError
from lmgp.features.base import KernelMap
from lmgp.features.moments import LARGEST_SQUARE, MomentPlan, MomentSums
from lmgp.features.statistics import Statistics
from lmgp.features.taylor import TaylorFeatures
from lmgp.kernels.base import Kernel
from lmgp.neighbours.clustering import rows_within
from lmgp.neighbours.lattice import Keys, Lattice, grouped, ordered, union
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.local import PRUNE, LocalPosterior, fitted_map
from lmgp.posteriors.weights import WeightPosterior
from lmgp.sums.base import Sums, combined
from lmgp.sums.kept import ONE_START, NearestSums, RowSums
from lmgp.utils.lazy import torch
from lmgp.utils.memory import check_memory, chunks
from lmgp.utils.parallel import parallel_map

# The reach is that of as many rows: it stays as it is, however many come.
ROWS_TO_COME = 1e7

# Up to this number of columns, rows are summed for cubes without rows, too; and by nodes: of more columns, the nodes
# are more than the moments of the features.
MOST_COLUMNS, MOST_NODE_COLUMNS = 3, 2

# Parts of a side and nodes of a part that are tried. FITC's noise changes within a fraction of a lengthscale.
TRIED = ((1, 16), (1, 20), (1, 24), (1, 28), (1, 32), (2, 20), (2, 24), (3, 20), (3, 24), (4, 24), (5, 24))

# The error of a product of two features, by the nodes, that is as good as none.
EXACT = 1e-12

# Around a centroid, a row takes as long as this number of nodes, whose features are products of tables.
ROW_NODES = 8

# Rows in cubes with moments wait until they are as many, so that a few rows more do not copy the moments of all cubes.
LATER = 2**14

# Rows whose polynomials are in memory at a time, with three weights each.
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

    @property
    def points(self) -> Floats:
        """The nodes, shape (size, d)."""
        return np.stack(np.meshgrid(*[self.along] * self.n_inputs, indexing="ij"), axis=-1).reshape(self.size, -1)

    @property
    def _inverse(self) -> Floats:
        """From moments to the weights of nodes, of one column: shape (side, side)."""
        inverse = 2.0 / self.side * _chebyshev(self.along, self.side)
        inverse[0] *= 0.5
        return inverse

    def add(self, moments: Floats, places: Floats, weights: Floats, numbers: Indices) -> None:
        """Add Σ w T(x) of rows to the moments of their cubes, in place.

        Parameters
        ----------
        moments : ndarray of shape (n_cubes, k, size)
        places : ndarray of shape (d, n)
            In the cube of each row.
        weights : ndarray of shape (k, n)
        numbers : ndarray of int of shape (n,)
            The cube of each row, ascending.
        """
        block = max(1, 3 * BLOCK // len(weights))
        (starts,) = np.nonzero(np.diff(numbers, prepend=-1))
        cubes, edges = numbers[starts].tolist(), [*starts.tolist(), len(numbers)]
        sums = moments.reshape(len(moments), -1, self.side)

        def add_run(run: tuple[int, int]) -> None:
            product = np.empty(sums.shape[1:])
            for a in range(edges[run[0]], edges[run[1]], block):
                b = min(a + block, edges[run[1]])
                *first, last = (_chebyshev(column[a:b], self.side) for column in places)
                weighted, last = weights[:, a:b], last.T
                if first:
                    weighted = (weighted[:, None] * first[0]).reshape(-1, b - a)
                for k in range(*run):
                    of = slice(max(edges[k] - a, 0), max(edges[k + 1] - a, 0))
                    sums[cubes[k]] += np.matmul(weighted[:, of], last[of], out=product)

        parallel_map(add_run, _runs(edges, block))

    def weights(self, moments: Floats) -> Floats:
        """Return the weights of the nodes, shape (..., size), from moments of shape (..., size)."""
        spread = moments.reshape(*moments.shape[:-1], *[self.side] * self.n_inputs)
        if self.n_inputs == 1:
            return spread @ self._inverse
        weights: Floats = self._inverse.T @ spread @ self._inverse
        return weights.reshape(moments.shape)

    def values(self, places: Floats) -> Floats:
        """Return the polynomials that are 1 at one node each and 0 at the others, of rows in the cube: (n, size)."""
        first, *second = (_chebyshev(column, self.side).T @ self._inverse for column in places.T)
        return first if not second else (first[:, :, None] * second[0][:, None]).reshape(len(places), -1)

    @classmethod
    def serving(cls, features: KernelMap, noise: Noise, lattice: Lattice, reach: float) -> Self | None:
        """Return nodes by which products of features are exact, as far as float64 goes; None where there are none.

        Parameters
        ----------
        features : KernelMap
            Fitted.
        noise : Noise
        lattice : Lattice
        reach : float
            In lengthscales.
        """
        d, half = len(lattice.metric), 0.5 * lattice.side
        has_moments = getattr(features, "moments_", None) is not None
        if not has_moments or d > MOST_NODE_COLUMNS or (reach + 2.0 * lattice.side) ** 2 >= LARGEST_SQUARE:
            return None
        rng = np.random.default_rng(0)
        pairs = rng.integers(features.n_features_out_, size=(2, N_PAIRS))
        # Near cubes count most, and one that has the centre in its corner is among them.
        directions = rng.normal(size=(N_CUBES, d))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        centres = directions * np.linspace(0.0, reach, N_CUBES)[:, None]
        inside = rng.uniform(-1.0, 1.0, (N_CUBES, N_ROWS, d))
        scale = float(features.kernel_.prior_variance())

        def products(places: Floats) -> Floats:
            X = as_tensor(np.ascontiguousarray(places * lattice.metric))
            mapped = features.evaluate(X)
            missing = features.missing_variance(X, mapped) if noise.counts_missing else None
            columns, values = mapped.T.contiguous().numpy(), np.empty((N_PAIRS + 1, len(X)))
            values[-1] = 1.0 if missing is None else (noise.variance / (noise.variance + missing)).numpy()
            np.multiply(columns[pairs[0]], columns[pairs[1]], out=values[:-1])
            values[:-1] *= values[-1] / scale
            return values.T

        for parts, side in TRIED:
            nodes, worst = cls(side, d, parts), 0.0
            for centre, rows in zip(centres, inside, strict=True):
                by_nodes = nodes.values(rows) @ products(centre + half / parts * nodes.points)
                worst = max(worst, float(np.abs(by_nodes - products(centre + half / parts * rows)).max()))
                if worst > EXACT:
                    break
            if worst <= EXACT:
                return nodes
        return None


def _runs(edges: list[int], block: int) -> list[tuple[int, int]]:
    """Return runs of cubes with about as many rows as a block, or one cube that has more."""
    runs, first = [], 0
    while first < len(edges) - 1:
        last = max(first + 1, bisect_right(edges, edges[first] + block) - 1)
        runs.append((first, last))
        first = last
    return runs


def _chebyshev(x: Floats, size: int) -> Floats:
    """Return T₀(x), …, T of `size` − 1, shape (size, n)."""
    values, twice = np.empty((size, len(x))), 2.0 * x
    values[0], values[1] = 1.0, x
    for k in range(2, size):
        np.subtract(values[k - 1] * twice, values[k - 2], out=values[k])
    return values


@dataclass(frozen=True, eq=False)
class Cubes:
    """Rows by the cube that they are in, with k weights each: w TᵢTⱼ of their targets T, for i ≤ j.

    The last target is 1, and so is the last weight w. Rows are kept where they are few, and summed as moments of
    Chebyshev polynomials otherwise. All cubes are in the same few arrays: to merge two takes a few operations, however
    many cubes there are.

    Attributes
    ----------
    nodes : Nodes
    keys : ndarray of int of shape (n_cubes, d)
        Ascending.
    places : ndarray of shape (d, n)
        Of rows that are kept, in half sides from the centre of their cube.
    weights : ndarray of shape (k, n)
        Of these rows.
    numbers : ndarray of int of shape (n,)
        The cube of each of these rows, ascending.
    summed : ndarray of int of shape (n_summed,)
        The cubes with moments, ascending.
    moments : ndarray of shape (n_summed, k, size)
        Of all other rows.
    """

    nodes: Nodes
    keys: Keys
    places: Floats
    weights: Floats
    numbers: Indices
    summed: Indices
    moments: Floats

    @classmethod
    def of(cls, rows: Rows, lattice: Lattice, nodes: Nodes, max_memory_gib: float | None) -> Self:
        """Return the cubes of rows.

        Raises
        ------
        MemoryLimitError
        """
        fine, pairs = lattice.parted(nodes.parts), np.triu_indices(rows.n_targets)
        cells = fine.cells(rows.X)
        keys, numbers = grouped(cells)
        check_memory(
            8.0 * len(pairs[0]) * nodes.size * len(keys),
            f"The sums of {len(keys):,} cubes with rows",
            "Use a larger threshold, or a higher max_memory_gib.",
            max_memory_gib,
        )
        order = ordered(numbers, len(keys))
        places = np.empty((len(fine.metric), len(order)))
        for j, scale in enumerate(fine.metric * fine.side):
            places[j] = (2.0 * (rows.X[:, j] / scale - cells[:, j]) - 1.0)[order]
        Y = rows.Y[order].T
        weighted = Y if rows.weights is None else rows.weights[order] * Y
        return cls.summing(nodes, keys, places, weighted[pairs[0]] * Y[pairs[1]], numbers[order])

    @classmethod
    def summing(
        cls, nodes: Nodes, keys: Keys, places: Floats, weights: Floats, numbers: Indices,
        sums: Sequence[tuple[Indices, Floats, float]] = (),
    ) -> Self:  # fmt: skip
        """Return cubes of rows, and of the moments of others with their cubes and a sign; moments of rows if that pays.

        It does where a cube has many rows, see `ROW_NODES`; and of cubes with moments, once all of them have many.
        """
        sums = [part for part in sums if len(part[0])]
        has = np.zeros(len(keys), dtype=np.bool_)
        for cubes, _, _ in sums:
            has[cubes] = True
        counts = np.bincount(numbers, minlength=len(keys))
        due = counts * ROW_NODES > nodes.size
        if counts[has].sum() > LATER:
            due |= has
        (every,) = np.nonzero(has | due)
        if len(sums) == 1 and sums[0][2] > 0.0 and not due.any():
            moments = sums[0][1]  # as they are: a few rows more copy nothing
        else:
            total = torch.zeros((len(every), len(weights), nodes.size), dtype=torch.float64)
            for cubes, values, sign in sums:
                total.index_add_(0, torch.from_numpy(np.searchsorted(every, cubes)), as_tensor(values), alpha=sign)
            moments = total.numpy()
        now = due[numbers]
        if now.any():
            (some,) = np.nonzero(now)
            of_rows = np.searchsorted(every, numbers.take(some))
            nodes.add(moments, places.take(some, axis=1), weights.take(some, axis=1), of_rows)
            (some,) = np.nonzero(~now)
            places, weights, numbers = places.take(some, axis=1), weights.take(some, axis=1), numbers.take(some)
        return cls(nodes, keys, places, weights, numbers, every, moments)

    def combine(self, other: Self, sign: float) -> Self:
        """Return the rows of both; with ``sign=-1.0``, without those of the other, and no cube that has lost all.

        Raises
        ------
        InputError
            If more is taken out than there is.
        """
        keys, mine, theirs = _union(self.keys, other.keys, sign)
        numbers = np.concatenate((mine[self.numbers], theirs[other.numbers]))
        order = ordered(numbers, len(keys))
        places = np.concatenate((self.places, other.places), axis=1).take(order, axis=1)
        weights = np.concatenate((self.weights, sign * other.weights), axis=1).take(order, axis=1)
        sums = [(mine[self.summed], self.moments, 1.0), (theirs[other.summed], other.moments, sign)]
        total = self.summing(self.nodes, keys, places, weights, numbers.take(order), sums)
        if sign > 0.0:
            return total
        before, after = self.totals[:, theirs], total.totals[:, theirs]
        squares, stay = _squares(len(before)), np.ones(len(keys), dtype=np.bool_)
        stay[theirs] = remaining(before[-1], after[-1], before[squares], after[squares])
        return total if stay.all() else total.take(stay)

    def take(self, stay: NDArray[np.bool_]) -> Self:
        """Return some of the cubes, of a boolean for each."""
        new, summed = np.cumsum(stay) - 1, stay[self.summed]
        (rows,) = np.nonzero(stay[self.numbers])
        return replace(
            self, keys=self.keys[stay], places=self.places.take(rows, axis=1), weights=self.weights.take(rows, axis=1),
            numbers=new[self.numbers[rows]], summed=new[self.summed[summed]], moments=self.moments[summed],
        )  # fmt: skip

    @property
    def totals(self) -> Floats:
        """The sums of the weights of each cube, shape (k, n_cubes): the first moments are those of T₀ = 1."""
        totals = np.zeros((len(self.weights), len(self.keys)))
        totals += [np.bincount(self.numbers, weights, len(self.keys)) for weights in self.weights]
        totals[:, self.summed] += self.moments[:, :, 0].T
        return totals


def _union(first: Keys, second: Keys, sign: float) -> tuple[Keys, Indices, Indices]:
    """Return the `union` of keys; where rows are taken out, those of the second must be among those of the first."""
    keys, mine, theirs = union(first, second)
    if sign < 0.0 and len(keys) > len(first):
        raise not_there("no row is near one of them")
    return keys, mine, theirs


def _squares(n_pairs: int) -> Indices:
    """Return which of the pairs i ≤ j of targets are of one target."""
    n_targets = round((2.0 * n_pairs + 0.25) ** 0.5 - 0.5)
    return np.flatnonzero(np.equal(*np.triu_indices(n_targets)))


@dataclass(frozen=True, eq=False)
class CentreSums:
    """Sums over the rows within reach of each of many centres, all in the same few arrays.

    Attributes
    ----------
    keys : ndarray of int of shape (n, d)
        Of the centres, ascending.
    gram, cross : ndarray of shape (n, ...)
        What the map sums, products or moments.
    targets : ndarray of shape (n, k + 1)
        Σ ρ TᵢTⱼ of the targets for i ≤ j, and Σ w log(ρ/w).
    totals : ndarray of shape (n, t)
        Σ w T; the last target is 1.
    held : ndarray of shape (n,)
        Σ w of the rows in the cube of each centre.
    """

    keys: Keys
    gram: Floats
    cross: Floats
    targets: Floats
    totals: Floats
    held: Floats

    def combine(self, other: Self, sign: float) -> Self:
        """Return the sums over the rows of both; with ``sign=-1.0``, without the rows of the other.

        Raises
        ------
        InputError
            If more is taken out than there is.
        """
        keys, mine, theirs = _union(self.keys, other.keys, sign)

        def total(sums_here: Floats, others: Floats) -> Floats:
            values = torch.zeros((len(keys), *sums_here.shape[1:]), dtype=torch.float64)
            values[mine] = as_tensor(sums_here)
            return values.index_add_(0, torch.from_numpy(theirs), as_tensor(others), alpha=sign).numpy()

        names = ("gram", "cross", "targets", "totals", "held")
        sums = replace(self, keys=keys, **{name: total(getattr(self, name), getattr(other, name)) for name in names})
        if sign < 0.0:
            squares = _squares(self.targets.shape[1] - 1)
            pairs = ((part.totals[theirs, -1], part.targets[np.ix_(theirs, squares)]) for part in (self, sums))
            (n, of_squares), (n_left, squares_left) = pairs
            remaining(n, n_left, of_squares, squares_left)
            held, none = self.held[theirs], np.zeros(len(theirs))
            sums.held[theirs] *= remaining(held, sums.held[theirs], none, none)
        return sums

    def statistics(self, number: int, none: Statistics) -> Statistics:
        """Return the statistics around a centre, of this number, from those of no rows."""
        gram, cross = as_tensor(self.gram[number]), as_tensor(self.cross[number])
        sums: Any = none.sums
        targets = _target_sums(self.targets[number, :-1], self.totals[number], float(self.targets[number, -1]))
        return replace(none, sums=replace(sums, gram=gram, cross=cross), targets=targets)


def _target_sums(of_pairs: Floats, totals: Floats, log_precision: float) -> TargetSums:
    """Return the sums of targets, of which the last is 1, from Σ ρ TᵢTⱼ for i ≤ j, and Σ w T."""
    products, (first, second) = np.empty((len(totals), len(totals))), np.triu_indices(len(totals))
    products[first, second] = products[second, first] = of_pairs
    return TargetSums(products, totals, float(totals[-1]), log_precision, products.diagonal().copy())


def _plan_moments(features: KernelMap, reach: float) -> None:
    """Let a Taylor map sum moments where that pays for as many rows as may come, and all of them are in range."""
    exponents = getattr(features, "exponents_", None)
    if not isinstance(features, TaylorFeatures) or exponents is None:
        return
    pays = reach**2 < LARGEST_SQUARE and MomentPlan.pays(exponents, int(ROWS_TO_COME))
    features.moments_ = (features.moments_ or MomentPlan(exponents)) if pays else None


@dataclass(frozen=True, eq=False)
class CubeSums(Sums):
    """Sums over rows around centroids; the last target is 1.

    Attributes
    ----------
    cubes : Cubes or None
        The sums over rows that are summed in their own cubes; None if there are no such rows.
    around : CentreSums or None
        The sums over all other rows, for all centres within reach; None if there are no such rows.
    """

    kernel: Kernel
    features: KernelMap
    noise: Noise
    lattice: Lattice
    reach: float
    given: Floats | None
    seen: Keys | None
    max_memory_gib: float | None
    nodes: Nodes | None
    cubes: Cubes | None = None
    around: CentreSums | None = None

    least_rows: ClassVar[int] = 2**12

    @classmethod
    def over(
        cls, kernel: Kernel, noise: Noise, features: Any, rows: Rows, threshold: float,
        centroids: Floats | None, rng: np.random.Generator, max_memory_gib: float | None = None,
    ) -> Self:  # fmt: skip
        """Make the sums over no rows, with a map and its reach, before it is known how many rows come.

        Parameters
        ----------
        kernel : Kernel
        noise : Noise
        features : FeatureMap or scikit-learn transformer
            See `lmgp.posteriors.local.fitted_map`.
        rows : Rows
            Some rows, with all targets: all of the first ones, or a sample.
        threshold : float
            In lengthscales.
        centroids : ndarray of shape (n_centroids, d), optional
            In place of the centres of cubes.
        rng : numpy.random.Generator
        max_memory_gib : float, optional

        Raises
        ------
        InputError
            If the map reaches every row.
        """
        d = rows.X.shape[1]
        lattice = Lattice(kernel.metric(d), threshold)
        cells = grouped(lattice.cells(rows.X))[0]
        places = lattice.centres(cells) if centroids is None else centroids
        fitted = fitted_map(features, kernel, rows, places, rng, max_memory_gib)
        variance = float(kernel.evaluate_diagonal(np.zeros((1, d)))[0])
        share = PRUNE * noise.variance / (2.0 * ROWS_TO_COME * variance)
        reach = fitted.reach(min(share**2 * variance / (variance + noise.variance), share))
        if not np.isfinite(reach):
            raise InputError(
                f"{type(fitted).__name__} reaches every row, however far: a localized model of a stream needs a map "
                "with a reach, such as TaylorFeatures. Or use FeaturizedGPRegressor, or fit to rows in memory."
            )
        _plan_moments(fitted, reach)
        seen = cells if d > MOST_COLUMNS else None
        nodes = Nodes.serving(fitted, noise, lattice, reach)
        none = TargetSums.zeros(rows.n_targets), None, None
        return cls(*none, kernel, fitted, noise, lattice, reach, centroids, seen, max_memory_gib, nodes)

    @property
    def covers(self) -> bool:  # noqa: D102
        return self.given is None and len(self.lattice.metric) > MOST_COLUMNS

    def places(self, rows: Rows) -> Keys:
        """Return the cubes of rows, each once."""
        return grouped(self.lattice.cells(rows.X))[0]

    def covering(self, places: Keys) -> Self:
        """Return the sums that know of rows in these cubes."""
        seen = places if self.seen is None else union(self.seen, places)[0]
        return replace(self, seen=seen)

    def check(self, rows: Rows) -> None:
        """Refuse rows out of the cubes that are known, where there are no sums for others.

        Raises
        ------
        InputError
        """
        seen = self.seen
        if self.given is not None or seen is None:
            return
        _, known, cubes = union(seen, self.lattice.cells(rows.X))
        outside = ~np.isin(cubes, known)
        if outside.any():
            row = int(np.argmax(outside))
            raise InputError(
                f"{int(outside.sum()):,} rows are farther from all centroids than the threshold, the first of them row "
                f"{row}, {rows.X[row].tolist()}. With more than {MOST_COLUMNS} columns, a model of sums gets no "
                "centroids later. Fit it to a source that can be read again, or give centroids."
            )

    def empty(self) -> Self:  # noqa: D102
        return replace(super().empty(), cubes=None, around=None)

    def of(self, rows: Rows) -> Self:  # noqa: D102
        sums = replace(self.empty(), targets=TargetSums.of(rows, self.noise)[0], summary=Summary.of(rows))
        if self.nodes is None or rows.noise_variances is not None:
            return replace(sums, around=self._around_centres(rows))
        return replace(sums, cubes=Cubes.of(rows, self.lattice, self.nodes, self.max_memory_gib))

    def added(self, rows: Rows) -> Self:  # noqa: D102
        # Rows with noise variances are summed in another way, and are taken out in that way.
        if self.waiting is not None and (self.waiting.noise_variances is None) != (rows.noise_variances is None):
            return self.settled.added(rows)
        return super().added(rows)

    def none(self, centre: Floats | None) -> Statistics:
        """Return the statistics of no rows around a centre."""
        return self.features.summed((), self.features.source(self.noise, centre), len(self.targets.totals))

    def _around_centres(self, rows: Rows) -> CentreSums:
        """Sum rows for each centre within reach of them."""
        if self.given is not None:
            keys, centres = np.arange(len(self.given), dtype=np.int64)[:, None], self.given
        else:
            cells, numbers = grouped(self.lattice.cells(rows.X))
            keys = self.lattice.around(cells, self.reach) if self.seen is None else self.seen
            centres = self.lattice.centres(keys)
        none = self.none(None)
        sums: Any = none.sums
        check_memory(
            float(len(keys) * (sums.gram.nbytes + sums.cross.nbytes)),
            f"The sums around {len(keys):,} centres within reach of the rows",
            "Use fewer features, a larger threshold, or a higher max_memory_gib.",
            self.max_memory_gib,
        )
        first, second = np.triu_indices(rows.n_targets)
        gram, cross = (np.zeros((len(keys), *of_sum.shape)) for of_sum in (sums.gram, sums.cross))
        targets, totals = np.zeros((len(keys), len(first) + 1)), np.zeros((len(keys), rows.n_targets))
        tree = KDTree(self.kernel.in_lengthscales(rows.X))

        def sum_around(i: int) -> None:
            members = rows.take(rows_within(tree, self.reach, centres[i] / self.lattice.metric))
            if not len(members):
                return
            parts = (members.take(part) for part in chunks(len(members), self.features.row_size))
            differences = (replace(part, X=part.X - centres[i]) for part in parts)
            blurred = self.features.summed(differences, none.source, rows.n_targets)
            of_map: Any = blurred.sums
            gram[i], cross[i], totals[i] = of_map.gram, of_map.cross, blurred.targets.totals
            targets[i] = *blurred.targets.products[first, second], blurred.targets.log_precision

        parallel_map(sum_around, range(len(keys)))
        held = np.zeros(len(keys))
        if self.given is None:
            weights = np.ones(len(rows)) if rows.weights is None else rows.weights
            _, _, places = union(keys, cells)
            held[places] = np.bincount(numbers, weights)
        stay = totals[:, -1] > 0.0
        return CentreSums(keys[stay], gram[stay], cross[stay], targets[stay], totals[stay], held[stay])

    def combine(self, other: Self | RowSums | NearestSums, sign: float) -> Self:  # noqa: D102
        if isinstance(other, RowSums | NearestSums):
            self.check(other.rows)
            return self.combine(self.of(other.rows), sign)
        self.features.source(self.noise, None).check(other.features.source(other.noise, None))
        names = ("reach", "lattice.threshold", "given", "seen")
        if not all(np.array_equal(of(self), of(other)) for of in map(attrgetter, names)):
            raise InputError(ONE_START)
        targets = self.targets.combine(other.targets, sign)
        if sign < 0.0:
            targets.check_remaining(self.targets)
        return replace(
            self,
            targets=targets,
            summary=combined(self.summary, other.summary, sign),
            cubes=combined(self.cubes, other.cubes, sign),
            around=combined(self.around, other.around, sign),
        )

    def posterior(self, combination: Floats, start: Posterior | None = None) -> "SumsAround":  # noqa: D102
        return SumsAround(self.settled, combination)


class SumsAround(LocalPosterior):
    """The posteriors around centroids of sums over rows.

    Parameters
    ----------
    sums : CubeSums
    combination : ndarray of shape (s, t)
        The targets are those of the sums times this matrix.
    """

    is_primal = True

    def __init__(self, sums: CubeSums, combination: Floats) -> None:
        self._sums, self._combination = sums, combination
        self.kernel, self.noise, self.features, self.reach = sums.kernel, sums.noise, sums.features, sums.reach
        self.n_rows, keys = sums.n_rows, self._keys()
        centroids = sums.lattice.centres(keys) if sums.given is None else sums.given
        super().__init__(centroids, centroids, sums.lattice.threshold, combination.shape[1], sums.max_memory_gib)
        # Where the sums around each centroid are; −1 where no row was summed around it.
        self._numbers = np.full(len(keys), -1)
        if sums.around is not None:
            _, mine, theirs = union(keys, sums.around.keys)
            known = np.isin(mine, theirs)
            self._numbers[known] = np.searchsorted(theirs, mine[known])
        if sums.cubes is not None:
            self._place(sums.cubes)

    def _place(self, cubes: Cubes) -> None:
        """Make what finds the cubes around a centroid."""
        fine = self._fine = self._sums.lattice.parted(cubes.nodes.parts)
        self._cubes, self._centres = cubes, fine.centres(cubes.keys)
        self._far = self.reach + 0.5 * fine.side * len(fine.metric) ** 0.5
        self._tree = KDTree(self._centres / fine.metric)
        # Where the rows of a cube begin, and where its moments are; −1 of a cube without moments.
        self._starts = np.searchsorted(cubes.numbers, np.arange(len(cubes.keys) + 1))
        self._summed = np.full(len(cubes.keys), -1)
        self._summed[cubes.summed] = np.arange(len(cubes.summed))
        self._weights = cubes.nodes.weights(cubes.moments)
        self._table: NodeTable | None = None

    def _keys(self) -> Keys:
        """Return the keys of the centroids: of cubes with rows, or of those that were given."""
        given, cubes, around = self._sums.given, self._sums.cubes, self._sums.around
        if given is not None:
            return np.arange(len(given), dtype=np.int64)[:, None]
        held = [np.empty((0, len(self._sums.lattice.metric)), dtype=np.int64)]
        if cubes is not None:
            held.append(cubes.keys // cubes.nodes.parts)
        if around is not None:
            held.append(around.keys[around.held > 0.0])
        return grouped(np.concatenate(held))[0]

    def _made_of(self) -> dict[str, Any]:
        return {"sums": self._sums, "combination": self._combination}

    def _around(self, index: int | None, centroid: Floats) -> WeightPosterior:
        statistics = none = self._sums.none(centroid)
        number = -1 if index is None else self._numbers[index]
        if self._sums.around is not None and number >= 0:
            statistics = statistics + self._sums.around.statistics(number, none)
        if self._sums.cubes is not None:
            statistics = statistics + self._of_cubes(centroid, none)
        return WeightPosterior(self._sums.features, centroid, self.kernel, statistics, self._combination)

    def _of_cubes(self, centroid: Floats, none: Statistics) -> Statistics:
        """Return the statistics of the rows in cubes around a centroid of shape (d,), from those of no rows."""
        metric, total, cubes = self._fine.metric, none, self._cubes
        near = np.array(sorted(self._tree.query_ball_point(centroid / metric, self._far)), dtype=np.intp)
        summed = near[self._summed[near] >= 0]
        if len(summed):
            total = total + self._of_moments(summed, centroid, none)
        kept = near[self._starts[near] < self._starts[near + 1]]
        if len(kept):
            rows = np.concatenate([np.arange(self._starts[i], self._starts[i + 1]) for i in kept])
            half = 0.5 * self._fine.side * metric
            X = self._centres[cubes.numbers[rows]] - centroid + cubes.places[:, rows].T * half
            linear = cubes.weights[:, rows][_with_last(len(cubes.weights))]  # w T, and w itself behind them
            kept_rows = Rows(X, (linear / linear[-1]).T, linear[-1])
            parts = map(kept_rows.take, chunks(len(X), self._sums.features.row_size))
            total = total + self._sums.features.summed(parts, none.source, len(linear))
        return total

    def _of_moments(self, near: Indices, centroid: Floats, none: Statistics) -> Statistics:
        # Centroids of the lattice are at one place among the cubes: the table of one serves all.
        place = centroid / (self._fine.metric * self._fine.side) - 0.5
        origin = np.floor(place + 1e-6).astype(np.int64)
        table = self._table
        if table is None or not np.allclose(table.place, place - origin, rtol=0.0, atol=1e-9):
            reach = self._far / self._fine.side
            table = NodeTable(self._sums, self._cubes.nodes, self._fine.side, place - origin, reach)
            self._table = table
        return table.summed(self._cubes.keys[near] - origin, self._weights[self._summed[near]], none)


class NodeTable:
    """The features at the nodes of all cubes around a centroid, column by column.

    Parameters
    ----------
    of : CubeSums
        With a map that has moments.
    nodes : Nodes
    side : float
        Of a cube, in lengthscales.
    place : ndarray of shape (d,)
        Of the centroid, in sides from the centre of cube 0.
    reach : float
        In sides.
    """

    def __init__(self, of: CubeSums, nodes: Nodes, side: float, place: Floats, reach: float) -> None:
        self.place, self._side, d = place, nodes.side, len(place)
        most = int(np.ceil(reach)) + 1
        self._most, self._n_along = most, 2 * most + 1
        along = np.arange(-most, most + 1)[:, None] + 0.5 * nodes.along
        # In lengthscales, shape (cubes along a column, nodes of a cube along it, d).
        places = side * (along[..., None] - place)
        columns = as_tensor(places.reshape(-1, d))
        (self._left, self._right), of_rows = of.features.moments_.of_rows(columns)
        halves = [torch.exp(0.5 * columns[:, j].square()) for j in range(d)]
        halves += [torch.ones_like(halves[0])] * (2 - d)
        self._own_left, self._own_right = of_rows[0] * halves[0], of_rows[1] * halves[1]
        self._relative = self._precisions(of, places) if of.noise.counts_missing else None

    def _precisions(self, of: CubeSums, places: Floats) -> Floats:
        """Return σ²/σᵢ² of all nodes, shape (cubes, side, side) or (cubes, side, 1)."""
        assert isinstance(of.features, TaylorFeatures)  # the only one with moments
        d = places.shape[2]
        if d == 1:
            grid = places.reshape(-1, 1)
        else:
            first, second = np.broadcast_arrays(places[:, None, :, None, 0], places[None, :, None, :, 1])
            grid = np.stack((first, second), axis=-1).reshape(-1, 2)
        relative = np.empty(len(grid))
        for part in chunks(len(grid), of.features.n_features_out_):
            missing = of.features.missing_variance(as_tensor(grid[part] * of.lattice.metric))
            assert missing is not None  # of a truncated series
            relative[part] = of.noise.variance / (of.noise.variance + missing.numpy())
        return relative.reshape(-1, self._side, self._side if d == 2 else 1)

    def summed(self, keys: Keys, weights: Floats, none: Statistics) -> Statistics:
        """Return the statistics of nodes with weights w TᵢTⱼ, of either sign.

        Parameters
        ----------
        keys : ndarray of int of shape (n, d)
            Of the cubes.
        weights : ndarray of shape (n, k, size)
        none : Statistics
            Of no rows.
        """
        steps, (d, side) = keys + self._most, (keys.shape[1], self._side)
        of_cubes = weights.reshape(*weights.shape[:2], side, -1)
        linear = _with_last(weights.shape[1])
        totals, precise, logarithms = of_cubes[:, linear].sum(axis=(0, 2, 3)), of_cubes, 0.0
        if self._relative is not None:
            relative = self._relative[steps[:, 0] if d == 1 else steps[:, 0] * self._n_along + steps[:, 1]]
            precise, logarithms = of_cubes * relative[:, None], float((of_cubes[:, -1] * np.log(relative)).sum())
        first = (steps[:, :1] * side + np.arange(side)).ravel()
        # Of one column, the second one is 0 everywhere: any of its nodes.
        second = steps[:, 1:] * side + np.arange(side) if d == 2 else np.zeros((len(keys), 1), dtype=np.int64)
        across, sums = as_tensor(np.ascontiguousarray(precise[:, linear])), _no_moments(none)
        left, own_left = self._left[:, first], self._own_left[:, first]
        right, own_right = self._right.T[second], self._own_right.T[second]
        sums.gram.add_(left @ torch.bmm(across[:, -1], right).flatten(end_dim=1))
        for j in range(len(linear)):
            sums.cross[j] += own_left @ torch.bmm(across[:, j], own_right).flatten(end_dim=1)
        return replace(none, sums=sums, targets=_target_sums(precise.sum(axis=(0, 2, 3)), totals, logarithms))


def _with_last(n_pairs: int) -> Indices:
    """Return which of the pairs i ≤ j of targets are of each target and the last one."""
    n_targets = len(_squares(n_pairs))
    return np.flatnonzero(np.triu_indices(n_targets)[1] == n_targets - 1)


def _no_moments(none: Statistics) -> MomentSums:
    """Return moments of no rows that may be changed."""
    sums = none.sums
    assert isinstance(sums, MomentSums)  # or there were no cubes
    return replace(sums, gram=torch.zeros_like(sums.gram), cross=torch.zeros_like(sums.cross))
