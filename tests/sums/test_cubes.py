"""Sums around centroids against those of the rows themselves, and their posteriors against those of rows in memory."""

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from lmgp import GaussianKernel, OrthogonalFourierFeatures, TaylorFeatures
from lmgp.data import Noise, Rows, TargetSums
from lmgp.errors import InputError, MemoryLimitError
from lmgp.features.moments import MomentPlan
from lmgp.neighbours.lattice import Lattice, grouped, union
from lmgp.posteriors.local import LocalPlan
from lmgp.posteriors.weights import accumulate
from lmgp.sums.cubes import LATER, Cubes, CubeSums, Nodes, SumsAround
from lmgp.sums.kept import RowSums

LENGTHSCALES = [1.3, 0.7, 1.5, 1.8]


def drawn(n: int = 15_000, d: int = 2, seed: int = 0) -> Rows:
    """Rows with two targets and a one behind them."""
    rng = np.random.default_rng(seed)
    X = 50.0 + rng.uniform(-3.0, 3.0, (n, d))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    return Rows(X, np.column_stack((y, np.cos(X[:, -1]), np.ones(n))), rng.uniform(0.5, 2.0, n))


SMALL = Noise(0.1)


def planned(
    d: int = 2, noise: Noise = SMALL, index_set: Any = "total_degree", nodes: Any = "serving", reach: float = 13.0
) -> CubeSums:
    kernel = GaussianKernel(LENGTHSCALES[:d] if d > 1 else 0.9, 1.5)
    features = TaylorFeatures([20, 28, 20, 15][d - 1], index_set=index_set, kernel=kernel).fit(np.zeros((1, d)))
    lattice = Lattice(kernel.metric(d), 1.2 if d < 3 else 2.5)
    features.moments_ = MomentPlan(features.exponents_)
    found = Nodes.serving(features, noise, lattice, reach) if nodes == "serving" else nodes
    none = TargetSums.zeros(3), None, None
    return CubeSums(*none, kernel, features, noise, lattice, reach, None, None, 4.0, found)


def all_moments(cubes: Cubes) -> np.ndarray:
    """Return the moments of all rows of each cube, shape (n_cubes, k, size)."""
    moments = np.zeros((len(cubes.keys), len(cubes.weights), cubes.nodes.size))
    moments[cubes.summed] = cubes.moments
    cubes.nodes.add(moments, cubes.places, cubes.weights, cubes.numbers)
    return moments


def centring(sums: CubeSums) -> np.ndarray:
    means = sums.settled.targets.means
    return np.vstack((np.eye(len(means) - 1), -means[:-1]))


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("approximation", ["fitc", "sor"])
@pytest.mark.parametrize("index_set", ["total_degree", "energy"])
@pytest.mark.parametrize("aligned", [True, False])
def test_statistics_are_those_of_the_rows(d: int, approximation: Any, index_set: str, aligned: bool) -> None:
    rows, noise = drawn(d=d), Noise(0.1, approximation)
    plan = planned(d, noise, index_set)
    sums = plan.of(rows)
    assert sums.cubes is not None
    assert len(sums.cubes.summed) > 3
    centroid = plan.lattice.centres(plan.lattice.cells(rows.X[:1]))[0] + (0.0 if aligned else 0.123)
    none = plan.none(centroid)
    found = SumsAround(sums, np.eye(3))._of_cubes(centroid, none)
    expected = accumulate(plan.features, rows, centroid, noise)  # of all rows: none is beyond the reach
    ours, theirs = found.sums.expand(), expected.sums.expand()
    scale = float(theirs.gram.diagonal().max())
    np.testing.assert_allclose(np.tril(ours.gram), np.tril(theirs.gram), rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(ours.cross, theirs.cross, rtol=0, atol=1e-11 * scale)
    for name in ("products", "totals", "n", "log_precision"):
        mine, its = getattr(found.targets, name), getattr(expected.targets, name)
        np.testing.assert_allclose(mine, its, rtol=0, atol=1e-9 * expected.targets.n, err_msg=name)
    assert not torch.any(none.sums.gram)


CASES = {
    "nodes": (2, {}),
    "one column": (1, {}),
    "around": (2, {"nodes": None}),
    "three": (3, {}),
    "four columns": (4, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("own", [False, True])
def test_posteriors_are_those_of_rows_in_memory(case: str, own: bool) -> None:
    d, options = CASES[case]
    rows = drawn(900, d)
    if own:
        rows = replace(rows, noise_variances=np.random.default_rng(1).uniform(0.05, 0.2, 900))
    plan = planned(d, **options, reach=13.0 if d < 3 else 9.0)
    sums = plan
    assert sums.covers == (d > 3)
    if d >= 3:  # of three columns, too: cubes without rows would be many
        sums = sums.covering(sums.places(rows.take(slice(0, 500)))).covering(sums.places(rows))
    for part in (slice(0, 300), slice(300, 302), slice(302, 900)):
        sums = sums.added(rows.take(part))
    assert sums.waiting is not None
    posterior = sums.posterior(centring(sums))
    assert (posterior.n_rows, sums.settled.n_rows) == (900, 900)
    np.testing.assert_allclose(posterior.centroids, plan.lattice.centres(grouped(plan.lattice.cells(rows.X))[0]))
    local = LocalPlan(
        plan.kernel, plan.noise, plan.features, posterior.centroids, plan.lattice.threshold, reach=plan.reach
    )
    expected = local.posterior(rows.with_targets(rows.Y @ centring(sums)))
    T = drawn(20, d, 5).X
    for twin in (posterior, pickle.loads(pickle.dumps(posterior))):
        for values, of_rows in zip(twin.predict(T), expected.predict(T), strict=True):
            # By cubes, rows beyond the reach may be part of it.
            np.testing.assert_allclose(values, of_rows, rtol=0, atol=1e-8)
    np.testing.assert_allclose(posterior.surprise(T), expected.surprise(T), rtol=1e-7)
    np.testing.assert_allclose(posterior.error(T), expected.error(T), rtol=1e-4, atol=1e-9)
    with pytest.raises(InputError, match="has sums over its training rows, and not the rows themselves"):
        posterior.leave_one_out()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_is_taken_out_or_merged_is_as_if_summed_alone(case: str) -> None:
    d, options = CASES[case]
    rows, plan = drawn(1200, d), planned(d, **options, reach=9.0)
    if d >= 3:
        plan = plan.covering(plan.lattice.cells(rows.X))
        plan = replace(plan, seen=grouped(plan.seen)[0])
    parts = [rows.take(np.flatnonzero(rows.X[:, 0] < 50.0)), rows.take(np.flatnonzero(rows.X[:, 0] >= 50.0))]
    whole, (first, second) = plan.of(rows), (plan.of(part) for part in parts)
    own = replace(parts[1], noise_variances=np.full(len(parts[1]), 0.3))
    of_own = plan.of(own)
    T = drawn(20, d, 5).X
    for result, expected in (
        (second + first, whole),
        (whole - first, second),
        (whole + of_own - of_own - first, second),
        (first + of_own, of_own + first),
        (first + second.empty(), first),
    ):
        assert result.n_rows == expected.n_rows
        ours, theirs = (sums.posterior(centring(expected)) for sums in (result, expected))
        np.testing.assert_allclose(ours.centroids, theirs.centroids, rtol=1e-14)
        for values, of_expected in zip(ours.predict(T), theirs.predict(T), strict=True):
            np.testing.assert_allclose(values, of_expected, rtol=0, atol=1e-7)
    elsewhere = rows.take(slice(0, 5))
    if d < 3:
        with pytest.raises(InputError, match="not all of them are in the model"):
            _ = whole - plan.of(replace(elsewhere, X=elsewhere.X + 100.0))
    with pytest.raises(InputError, match="not all of them are in the model"):
        _ = first - of_own.of(own.take(slice(0, 5)))
    with pytest.raises(InputError, match=r"are to be taken out|falls below zero"):
        _ = whole - plan.of(replace(elsewhere, weights=np.full(5, 1e4)))
    near = replace(elsewhere, X=np.repeat(rows.X[:1], 5, axis=0), weights=np.full(5, 200.0))
    with pytest.raises(InputError, match=r"are to be taken out|falls below zero"):
        _ = whole - plan.of(near)
    with pytest.raises(InputError, match="No row would be left"):
        _ = whole - whole


def test_rows_with_noise_variances_join_those_in_cubes() -> None:
    rows = drawn(3000)
    plan = planned(noise=Noise(0.1, "sor"), nodes=Nodes(24, 2), reach=9.0)
    noises = np.random.default_rng(1).uniform(0.05, 0.2, 3000)
    own = replace(rows, noise_variances=np.where(np.arange(3000) < 1500, 0.1, noises))
    mixed = plan.of(rows.take(slice(0, 1500))) + plan.of(own.take(slice(1500, 3000)))
    every = plan.of(own)
    assert mixed.cubes is not None
    assert mixed.around is not None
    assert every.cubes is None
    found, expected = (sums.posterior(centring(every)).predict(rows.X[:20]) for sums in (mixed, every))
    for values, of_every in zip(found, expected, strict=True):  # Rows beyond the reach are left out of one of them.
        np.testing.assert_allclose(values, of_every, rtol=0, atol=1e-6)


def test_rows_with_noise_variances_and_others_are_taken_out_as_they_were_added() -> None:
    rows, plan = drawn(600), planned(noise=Noise(0.1, "sor"), nodes=Nodes(24, 2), reach=9.0)
    own = replace(rows, noise_variances=np.random.default_rng(1).uniform(0.05, 0.2, 600))
    parts = rows.take(slice(0, 300)), own.take(slice(300, 600))
    for first, second in (parts, parts[::-1]):
        less = plan.added(first).added(second)
        for part in parts:
            less = less - plan.of(part.take(slice(0, 100)))
        every = replace(own, noise_variances=np.where(np.arange(600) < 300, 0.1, own.noise_variances))
        expected = plan.of(every.take(np.arange(600) % 300 >= 100))
        for found, of_every in zip(
            *(sums.posterior(centring(expected)).predict(rows.X[100:120]) for sums in (less, expected)), strict=True
        ):  # rows beyond the reach are left out of one of them
            np.testing.assert_allclose(found, of_every, rtol=0, atol=1e-6)


def test_given_centroids_have_all_rows_within_reach() -> None:
    rows = drawn(2000)
    given = np.array([[49.0, 50.0], [51.0, 49.0], [90.0, 90.0]])
    for nodes in ("serving", None):
        plan = replace(planned(nodes=nodes, reach=9.0), given=given)
        sums = plan.of(rows.take(slice(0, 900))) + plan.of(rows.take(slice(900, 2000)))
        assert not sums.covers
        sums.check(rows)
        posterior = sums.posterior(centring(sums))
        np.testing.assert_array_equal(posterior.centroids, given)
        local = LocalPlan(plan.kernel, plan.noise, plan.features, given, reach=9.0)
        expected = local.posterior(rows.with_targets(rows.Y @ centring(sums))).predict(rows.X[:30])
        for values, of_rows in zip(posterior.predict(rows.X[:30]), expected, strict=True):
            np.testing.assert_allclose(values, of_rows, rtol=0, atol=1e-8)
        other = replace(plan, given=given + 1.0)
        with pytest.raises(InputError, match="same first rows"):
            _ = sums + other


def test_kept_rows_join_a_stream_but_no_stream_joins_kept_rows() -> None:
    rows, plan = drawn(500), planned(reach=9.0)
    kept = RowSums.over(plan.noise, lambda *_: None, rows.take(slice(0, 200)))  # type: ignore[arg-type, return-value]
    stream = plan.of(rows.take(slice(200, 500)))
    assert (stream + kept).n_rows == 500
    with pytest.raises(InputError, match="keeps its rows gets no sums"):
        _ = kept + stream


class TestPlan:
    rows = drawn(300)

    def of(self, features: Any, rows: Rows | None = None, noise: float = 0.1, **options: Any) -> CubeSums:
        rows = self.rows if rows is None else rows
        kernel = GaussianKernel(LENGTHSCALES[: rows.X.shape[1]], 1.5)
        given = {"threshold": 1.2, "centroids": None, "rng": np.random.default_rng(0), **options}
        return CubeSums.over(kernel, Noise(noise), features, rows, **given)

    def test_moments_and_nodes_are_taken_where_they_are_exact(self) -> None:
        plan = self.of(TaylorFeatures(28))
        assert plan.nodes is not None
        assert plan.features.moments_ is not None
        assert plan.seen is None
        assert self.of(TaylorFeatures(28), noise=1e-12).nodes is None
        four = self.of(TaylorFeatures(15), drawn(300, 4), threshold=4.0)
        assert four.nodes is None
        assert four.seen is not None
        wide = self.of(TaylorFeatures(700), Rows(np.zeros((2, 1)), np.ones((2, 1))))  # rows out of the range of moments
        assert wide.reach > 25.0
        assert wide.features.moments_ is None

    def test_what_cannot_be_summed_is_refused(self) -> None:
        with pytest.raises(InputError, match="reaches every row"):
            self.of(OrthogonalFourierFeatures(16))
        with pytest.raises(InputError, match="so far from the origin"):
            self.of(TaylorFeatures(28)).lattice.cells(np.full((1, 2), 1e20))
        plan = replace(planned(nodes=None), max_memory_gib=1e-6)
        with pytest.raises(MemoryLimitError, match=r"sums around .* centres"):
            plan.of(self.rows)
        with pytest.raises(MemoryLimitError, match="cubes with rows"):
            replace(plan, nodes=Nodes(16, 2)).of(self.rows)
        four = self.of(TaylorFeatures(15), drawn(300, 4), threshold=4.0)
        four.check(drawn(300, 4))
        with pytest.raises(InputError, match=r"1 rows are farther from all centroids.*row 2,"):
            four.check(replace(drawn(3, 4), X=np.vstack((drawn(300, 4).X[:2], np.full((1, 4), 99.0)))))
        kept = RowSums.over(four.noise, None, replace(drawn(300, 4), X=drawn(300, 4).X + 50.0))  # type: ignore[arg-type]
        with pytest.raises(InputError, match="300 rows are farther from all centroids"):
            _ = four.of(drawn(300, 4)) + kept
        grown = four.covering(four.places(replace(drawn(1, 4), X=np.full((1, 4), 99.0))))
        with pytest.raises(InputError, match="same first rows"):
            _ = four + grown


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_nodes_carry_polynomials(n_inputs: int) -> None:
    rng, nodes = np.random.default_rng(0), Nodes(7, n_inputs)
    places, weights, moments = (
        rng.uniform(-1.0, 1.0, (n_inputs, 50)),
        rng.normal(size=(3, 50)),
        np.zeros((1, 3, nodes.size)),
    )
    nodes.add(moments, places, weights, np.zeros(50, dtype=np.intp))
    at_nodes = nodes.weights(moments[0])
    assert at_nodes.shape == (3, nodes.size) == (3, len(nodes.points))

    def polynomial(X: np.ndarray) -> np.ndarray:
        return np.prod(X**6 - 2.0 * X**3 + 0.5, axis=1)

    np.testing.assert_allclose(at_nodes @ polynomial(nodes.points), weights @ polynomial(places.T), rtol=0, atol=1e-12)


def test_a_cube_of_many_blocks() -> None:
    rng, nodes = np.random.default_rng(0), Nodes(5, 2)
    places, weights = rng.uniform(-1.0, 1.0, (2, 20_000)), rng.normal(size=(3, 20_000))
    numbers, moments = np.repeat([0, 1, 2], [10, 19_000, 990]), np.zeros((3, 3, 25))
    nodes.add(moments, places, weights, numbers)
    first, second = (np.cos(np.arange(5)[:, None] * np.arccos(column)) for column in places)
    for i in range(3):
        of = numbers == i
        expected = np.einsum("tn,in,jn->tij", weights[:, of], first[:, of], second[:, of]).reshape(3, 25)
        np.testing.assert_allclose(moments[i], expected, rtol=0, atol=1e-9)


def cubes_of(places: np.ndarray, weights: np.ndarray, numbers: np.ndarray, nodes: Nodes) -> Cubes:
    keys, numbers = np.unique(numbers, return_inverse=True)
    return Cubes.summing(nodes, keys[:, None], places, weights, numbers)


def test_a_cube_with_few_rows_keeps_them() -> None:
    nodes = Nodes(16, 1)
    few = cubes_of(np.full((1, 2), 0.5), np.ones((3, 2)), np.array([4, 4]), nodes)
    many = cubes_of(np.full((1, 20), 0.5), np.ones((3, 20)), np.full(20, 7), nodes)
    assert (few.places.shape[1], len(few.summed)) == (2, 0)
    assert (many.places.shape[1], len(many.summed)) == (0, 1)
    both = few.combine(many, 1.0)
    assert (both.places.shape[1], both.summed.tolist(), both.keys.tolist()) == (2, [1], [[4], [7]])
    np.testing.assert_allclose(both.totals, [[2.0, 20.0]] * 3)


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_merged_cubes_are_those_of_all_rows(n_inputs: int) -> None:
    rng, nodes = np.random.default_rng(0), Nodes(6, n_inputs)
    n, numbers = 6000, np.sort(rng.integers(0, 40, 6000) ** 2 // 40)  # from two cubes with few rows to some with many
    places, weights = rng.uniform(-1.0, 1.0, (n_inputs, n)), rng.uniform(0.5, 2.0, (3, n))
    parts = [np.arange(k, n, 5) for k in range(4)]
    parts = [part[numbers[part] % 7 != k] for k, part in enumerate(parts)]  # each without some of the cubes
    cubes = [cubes_of(places[:, part], weights[:, part], numbers[part], nodes) for part in parts]
    total = cubes[0]
    for part in cubes[1:]:
        total = total.combine(part, 1.0)
    every = np.sort(np.concatenate(parts))

    def expected(rows: np.ndarray) -> np.ndarray:
        numbers_of, moments = np.searchsorted(total.keys.ravel(), numbers[rows]), np.zeros(all_moments(total).shape)
        nodes.add(moments, places[:, rows], weights[:, rows], numbers_of)
        return moments

    np.testing.assert_allclose(all_moments(total), expected(every), rtol=0, atol=1e-11)
    less, rest = total.combine(cubes[1], -1.0), np.setdiff1d(every, parts[1])
    at = np.searchsorted(total.keys.ravel(), less.keys.ravel())
    np.testing.assert_array_equal(less.keys.ravel(), np.unique(numbers[rest]))
    np.testing.assert_allclose(all_moments(less), expected(rest)[at], rtol=0, atol=1e-10)


def test_a_few_more_rows_copy_no_moments() -> None:
    rng, nodes = np.random.default_rng(0), Nodes(8, 1)
    before = cubes_of(rng.uniform(-1.0, 1.0, (1, 500)), rng.normal(size=(3, 500)), np.sort(np.arange(500) % 4), nodes)
    single = cubes_of(np.zeros((1, 1)), np.ones((3, 1)), np.array([2]), nodes)
    after = before.combine(single, 1.0)
    assert after.moments is before.moments
    assert after.places.shape[1] == 1
    many = cubes_of(np.zeros((1, LATER)), np.ones((3, LATER)), np.full(LATER, 2), nodes)
    assert after.combine(many, 1.0).combine(single, 1.0).places.shape[1] <= 2


@pytest.mark.parametrize("spread", [3, 10**9])
def test_groups_are_those_of_numpy(spread: int) -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(-spread, spread, (500, 2))
    keys, numbers = grouped(cells)
    expected, where = np.unique(cells, axis=0, return_inverse=True)
    np.testing.assert_array_equal(keys, expected)
    np.testing.assert_array_equal(numbers, where.ravel())
    more, mine, theirs = union(keys[::2], cells)
    np.testing.assert_array_equal(more, keys)
    np.testing.assert_array_equal(more[mine], keys[::2])
    np.testing.assert_array_equal(more[theirs], cells)


def test_cubes_around_cubes_have_their_centres_within_reach() -> None:
    lattice, cells = Lattice(np.array([1.0, 2.0]), 1.0), np.array([[0, 0], [5, -1]])
    found = lattice.around(cells, 3.0)
    grid = np.stack(np.meshgrid(np.arange(-9, 15), np.arange(-9, 9), indexing="ij"), axis=-1).reshape(-1, 2)
    apart = np.maximum(np.abs(grid[:, None] - cells) - 0.5, 0.0) * lattice.side
    near = np.sqrt(np.square(apart).sum(axis=2)).min(axis=1) <= 3.0
    np.testing.assert_array_equal(found, grid[near])
