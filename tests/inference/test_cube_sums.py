"""Rows by their cubes: sums around centroids against those of the rows themselves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgp import GaussianKernel, LocalizedGPRegressor, TaylorFeatures, load
from lmgp.errors import InputError
from lmgp.inference.cube_sums import LATER, Cubes, Nodes, grouped
from lmgp.inference.cube_tables import PlacedCubes
from lmgp.inference.frozen import with_moments
from lmgp.inference.local_sums import Lattice, LocalPlan
from lmgp.inference.weight_space import accumulate
from lmgp.noise import Noise
from lmgp.validation import Rows

KERNEL = GaussianKernel([1.3, 0.7], 1.5)
GIVEN: dict[str, Any] = {"kernel": KERNEL, "noise_variance": 0.1}


def drawn(n: int = 15000, d: int = 2, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    X = 50.0 + rng.uniform(-3.0, 3.0, (n, d))
    return Rows(X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=n), rng.uniform(0.5, 2.0, n))


def planned(d: int, noise: Noise, index_set: Any, nodes: Nodes | None = None, reach: float = 13.0) -> LocalPlan:
    kernel = KERNEL if d == 2 else GaussianKernel(0.9, 1.5)
    features = with_moments(
        TaylorFeatures(28 if d == 2 else 20, index_set=index_set, kernel=kernel).fit(np.zeros((1, d)))
    )
    lattice = Lattice.of(kernel, d, 1.2)
    found = Nodes.serving(features, noise, lattice.metric, 0.5 * lattice.side, reach) if nodes is None else nodes
    return LocalPlan(kernel, features, noise, 0.4, lattice, reach, None, None, 4.0, found)


def summed_alone(cubes: Cubes) -> np.ndarray:
    """Return the moments of all rows of each cube, shape (n_cubes, 3, size)."""
    found = np.zeros((len(cubes.keys), 3, cubes.nodes.size))
    found[cubes.summed] = cubes.moments
    for i in range(len(cubes.keys)):
        own = cubes.numbers == i
        found[i] += cubes.nodes.moments(cubes.places[:, own].T, cubes.weights[:, own])
    return found


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("approximation", ["fitc", "sor"])
@pytest.mark.parametrize("index_set", ["total_degree", "energy"])
@pytest.mark.parametrize("aligned", [True, False])
def test_they_are_the_sums_of_the_rows(d: int, approximation: Any, index_set: str, aligned: bool) -> None:
    rows, noise = drawn(d=d), Noise(0.1, approximation)
    plan = planned(d, noise, index_set)
    sums = plan.sums_of(rows)
    assert sums.cubes is not None
    assert len(sums.cubes.summed) > 3
    placed = PlacedCubes(sums.cubes, plan.lattice, plan.features, noise, plan.reach)
    centroid = plan.lattice.centres(plan.lattice.cells(rows.X[:1]))[0] + (0.0 if aligned else 0.123)
    found = placed.around(centroid)
    assert found is not None
    centred = Rows(rows.X, rows.y - 0.4, rows.weights)
    expected = accumulate(plan.features, centred, centroid, noise, origin=0.0)  # of all rows: none is beyond the reach
    ours, theirs = found.sums.expand(), expected.sums.expand()
    scale = float(theirs.gram.diagonal().max())
    np.testing.assert_allclose(np.tril(ours.gram), np.tril(theirs.gram), rtol=0, atol=1e-11 * scale)
    np.testing.assert_allclose(ours.cross, theirs.cross, rtol=0, atol=1e-11 * scale)
    for name in ("squares", "linear", "precision", "n", "weighted", "log_precision"):
        mine, its = getattr(found.targets, name), getattr(expected.targets, name)
        assert mine == pytest.approx(its, abs=1e-9 * expected.targets.n), name


def test_moments_are_those_of_all_rows_in_any_order() -> None:
    rows, nodes = drawn(), Nodes(8, 2, 1)
    plan = planned(2, Noise(0.1), "total_degree", nodes)
    whole = plan.sums_of(rows)
    parts = [plan.sums_of(rows.take(part)) for part in np.array_split(np.random.default_rng(1).permutation(15000), 50)]
    total = parts[0]
    for part in parts[1:]:
        total = total.merge(part)
    assert whole.cubes is not None
    assert total.cubes is not None
    np.testing.assert_array_equal(total.cubes.keys, whole.cubes.keys)
    assert len(whole.cubes.summed)
    one, other = (summed_alone(each) for each in (whole.cubes, total.cubes))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)
    for key, n in whole.held.items():
        assert total.held[key] == pytest.approx(n, rel=1e-12)


def test_rows_that_are_taken_out_were_there() -> None:
    rows, nodes = drawn(), Nodes(8, 2, 1)
    plan = planned(2, Noise(0.1), "total_degree", nodes)
    whole = plan.sums_of(rows)
    left = whole.merge(plan.sums_of(rows.take(slice(0, 14990))), -1.0)
    expected = plan.sums_of(rows.take(slice(14990, 15000)))
    assert left.cubes is not None
    assert expected.cubes is not None
    np.testing.assert_array_equal(left.cubes.keys, expected.cubes.keys)
    np.testing.assert_allclose(left.cubes.totals, expected.cubes.totals, rtol=0, atol=1e-9)
    np.testing.assert_allclose(summed_alone(left.cubes), summed_alone(expected.cubes), rtol=0, atol=1e-9)
    elsewhere = Rows(rows.X[:5] + 100.0, rows.y[:5], None)
    with pytest.raises(InputError, match="not all of them are in the model"):
        whole.merge(plan.sums_of(elsewhere), -1.0)
    heavy = Rows(rows.X[:1], rows.y[:1], np.array([1e4]))
    with pytest.raises(InputError, match="are to be taken out"):
        whole.merge(plan.sums_of(heavy), -1.0)


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_nodes_carry_polynomials(n_inputs: int) -> None:
    rng, nodes = np.random.default_rng(0), Nodes(7, n_inputs)
    places, weights = rng.uniform(-1.0, 1.0, (50, n_inputs)), rng.normal(size=(3, 50))
    at_nodes = nodes.weights(nodes.moments(places, weights))
    assert at_nodes.shape == (3, nodes.size) == (3, len(nodes.points))

    def polynomial(X: np.ndarray) -> np.ndarray:
        return np.prod(X**6 - 2.0 * X**3 + 0.5, axis=1)

    np.testing.assert_allclose(at_nodes @ polynomial(nodes.points), weights @ polynomial(places), rtol=0, atol=1e-12)


def test_what_is_too_sharp_has_no_nodes() -> None:
    assert planned(1, Noise(1e-12), "total_degree").nodes is None
    three = TaylorFeatures(20, kernel=GaussianKernel()).fit(np.zeros((1, 3)))
    assert Nodes.serving(three, Noise(0.1), np.ones(3), 0.5, 5.0) is None


@pytest.mark.parametrize("spread", [3, 10**9])
def test_groups_are_those_of_numpy(spread: int) -> None:
    cells = np.random.default_rng(0).integers(-spread, spread, (500, 2))
    keys, place = grouped(cells)
    expected, where = np.unique(cells, axis=0, return_inverse=True)
    np.testing.assert_array_equal(keys, expected)
    np.testing.assert_array_equal(place, where.ravel())


def made_of(places: np.ndarray, weights: np.ndarray, numbers: np.ndarray, nodes: Nodes) -> Cubes:
    return Cubes.made(nodes, np.unique(numbers)[:, None], places, weights, np.unique(numbers, return_inverse=True)[1])


def test_a_cube_with_few_rows_keeps_them() -> None:
    nodes = Nodes(16, 1)
    few = made_of(np.full((1, 2), 0.5), np.ones((3, 2)), np.array([4, 4]), nodes)
    many = made_of(np.full((1, 20), 0.5), np.ones((3, 20)), np.full(20, 7), nodes)
    assert (few.places.shape[1], len(few.summed)) == (2, 0)
    assert (many.places.shape[1], len(many.summed)) == (0, 1)
    both = few.merge(many)
    assert (both.places.shape[1], both.summed.tolist(), both.keys.tolist()) == (2, [1], [[4], [7]])
    np.testing.assert_allclose(both.totals, [[2.0, 20.0]] * 3)


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_merged_cubes_are_those_of_all_rows(n_inputs: int) -> None:
    rng, nodes = np.random.default_rng(0), Nodes(6, n_inputs)
    n, numbers = 6000, np.sort(rng.integers(0, 40, 6000) ** 2 // 40)  # from two cubes with few rows to some with many
    places, weights = rng.uniform(-1.0, 1.0, (n_inputs, n)), rng.uniform(0.5, 2.0, (3, n))
    parts = [np.arange(k, n, 5) for k in range(4)]
    parts = [part[numbers[part] % 7 != k] for k, part in enumerate(parts)]  # each without some of the cubes
    total = made_of(places[:, parts[0]], weights[:, parts[0]], numbers[parts[0]], nodes)
    for part in parts[1:]:
        total = total.merge(made_of(places[:, part], weights[:, part], numbers[part], nodes))
    every = np.sort(np.concatenate(parts))
    for i, key in enumerate(total.keys.ravel()):
        own = every[numbers[every] == key]
        expected = nodes.moments(places[:, own].T, weights[:, own])
        np.testing.assert_allclose(summed_alone(total)[i], expected, rtol=0, atol=1e-11)
    less = total.without(made_of(places[:, parts[1]], weights[:, parts[1]], numbers[parts[1]], nodes))
    own = np.setdiff1d(every, parts[1])
    expected = nodes.moments(places[:, own].T, weights[:, own])
    np.testing.assert_allclose(summed_alone(less).sum(axis=0), expected, rtol=0, atol=1e-10)


def test_a_few_more_rows_copy_no_moments() -> None:
    rng, nodes = np.random.default_rng(0), Nodes(8, 1)
    before = made_of(rng.uniform(-1.0, 1.0, (1, 500)), rng.normal(size=(3, 500)), np.sort(np.arange(500) % 4), nodes)
    one = made_of(np.zeros((1, 1)), np.ones((3, 1)), np.array([2]), nodes)
    after = before.merge(one)
    assert after.moments is before.moments
    assert after.places.shape[1] == 1
    many = made_of(np.zeros((1, LATER)), np.ones((3, LATER)), np.full(LATER, 2), nodes)
    assert after.merge(many).merge(one).places.shape[1] <= 2


def test_a_cube_of_many_blocks() -> None:
    rng, nodes = np.random.default_rng(0), Nodes(5, 2)
    places, weights = rng.uniform(-1.0, 1.0, (2, 20_000)), rng.normal(size=(3, 20_000))
    numbers = np.repeat([0, 1, 2], [10, 19_000, 990])
    found = np.zeros((3, 3, 25))
    nodes.add(found, places, weights, numbers)
    powers = np.arange(5)[:, None]
    first, second = (np.cos(powers * np.arccos(column)) for column in places)
    for i in range(3):
        of = numbers == i
        expected = np.einsum("tn,in,jn->tij", weights[:, of], first[:, of], second[:, of]).reshape(3, 25)
        np.testing.assert_allclose(found[i], expected, rtol=0, atol=1e-9)


def test_chunks_with_noise_variances_are_summed_around() -> None:
    rows = drawn(3000)
    plan = planned(2, Noise(0.1, "sor"), "total_degree", Nodes(24, 2), reach=9.0)
    noises = np.random.default_rng(1).uniform(0.05, 0.2, 3000)
    own = Rows(rows.X, rows.y, rows.weights, np.where(np.arange(3000) < 1500, 0.1, noises))
    mixed = plan.sums_of(rows.take(slice(0, 1500))).merge(plan.sums_of(own.take(slice(1500, 3000))))
    every = plan.sums_of(own)
    assert mixed.cubes is not None
    assert every.cubes is None
    found, expected = (plan.posterior(sums, 0.4).predict(rows.X[:20]) for sums in (mixed, every))
    # Rows beyond the reach are left out of one of them.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("centroids", ["farthest_point", "given"])
def test_a_stream_of_cubes_is_saved(centroids: str, tmp_path: Path) -> None:
    rows = drawn()
    given: Any = rows.X[:20] if centroids == "given" else centroids
    model = LocalizedGPRegressor(TaylorFeatures(28), threshold=1.2, centroids=given, approximation="sor", **GIVEN)
    model.fit([(rows.X[i : i + 5000], rows.y[i : i + 5000]) for i in range(0, 15000, 5000)])
    assert len(model._fitted.sums.cubes.summed)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    for one in (model, loaded):
        one.partial_fit(rows.X[:50], rows.y[:50])
    np.testing.assert_array_equal(loaded.predict(rows.X[:200]), model.predict(rows.X[:200]))
