"""Search trees to which rows are added, and from which they go, against distances to all rows."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from lmgp import GaussianKernel
from lmgp.data import Rows
from lmgp.neighbours import forest as module
from lmgp.neighbours.forest import RATIO, Forest

KERNEL = GaussianKernel([0.5, 2.0])
NONE = np.empty(0, dtype=np.intp)


class Grown:
    """A forest that grows and shrinks at random, and its rows in an array beside it."""

    def __init__(self, seed: int, n: int = 400) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows = self.drawn(n)
        self.forest = Forest.of(KERNEL, self.rows, 1.0)

    def drawn(self, n: int) -> Rows:
        return Rows(self.rng.uniform(size=(n, 2)), self.rng.normal(size=(n, 2)))

    def step(self) -> None:
        more = self.drawn(int(self.rng.integers(1, 12)))
        self.forest, self.rows = self.forest + Forest.of(KERNEL, more, 1.0), self.rows.joined(more, 1.0)
        gone = self.rng.choice(len(self.rows), int(self.rng.integers(0, 12)), replace=False)
        self.forest = self.forest.without(self.forest.places[gone])
        self.rows = self.rows.take(np.setdiff1d(np.arange(len(self.rows)), gone))


@pytest.fixture(params=range(3))
def grown(request: pytest.FixtureRequest) -> Grown:
    made = Grown(request.param)
    for _ in range(60):
        made.step()
    assert len(made.forest.parts) > 1
    assert any(part.there is not None for part in made.forest.parts)
    return made


def test_it_has_the_rows_in_the_order_in_which_they_came(grown: Grown) -> None:
    assert len(grown.forest) == grown.forest.rows_kept == len(grown.rows)
    for found in (grown.forest.rows, grown.forest.take(grown.forest.places)):
        np.testing.assert_array_equal(found.X, grown.rows.X)
        np.testing.assert_array_equal(found.Y, grown.rows.Y)
    order = grown.rng.permutation(len(grown.rows))
    np.testing.assert_array_equal(grown.forest.take(grown.forest.places[order]).Y, grown.rows.Y[order])
    np.testing.assert_array_equal(grown.forest.points(grown.forest.places), KERNEL.points(grown.rows.X))


@pytest.mark.parametrize("k", [1, 7, 300])
def test_the_nearest_rows_are_those_of_all_distances(grown: Grown, k: int) -> None:
    points, places = grown.rng.uniform(size=(40, 2)), grown.forest.places
    to_all = cdist(points, KERNEL.points(grown.rows.X))
    expected = np.argsort(to_all, axis=1)[:, :k]
    distances, found = grown.forest.query(points, k)
    np.testing.assert_array_equal(found, places[expected])
    np.testing.assert_allclose(distances, np.take_along_axis(to_all, expected, axis=1), rtol=1e-12)
    np.testing.assert_allclose(grown.forest.distance(points, k), distances[:, -1], rtol=1e-15)
    others = grown.forest.others(places[:40], k)
    to_all = cdist(KERNEL.points(grown.rows.X[:40]), KERNEL.points(grown.rows.X))
    np.testing.assert_array_equal(others, places[np.argsort(to_all, axis=1)[:, 1 : k + 1]])


def test_rows_in_a_cube_and_in_the_box_are_those_that_are_there(grown: Grown) -> None:
    scaled, places = KERNEL.points(grown.rows.X), grown.forest.places
    for centre in grown.rng.uniform(size=(20, 2)):
        inside = np.all(np.abs(scaled - centre) <= 0.3, axis=1)
        np.testing.assert_array_equal(grown.forest.within(centre, 0.3), places[inside])
    np.testing.assert_array_equal(grown.forest.box, (scaled.min(axis=0), scaled.max(axis=0)))


def test_trees_fall_in_size_and_few_of_their_rows_are_gone(grown: Grown) -> None:
    for _ in range(30):
        grown.step()
        sizes = [len(part) for part in grown.forest.parts]
        assert all(RATIO * after < before for before, after in pairwise(sizes))
        assert all(RATIO * len(part) > (RATIO - 1) * len(part.rows) for part in grown.forest.parts)


def test_a_large_tree_is_not_planted_again_for_a_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    planted, plant = [], module.tree_of_rows
    monkeypatch.setattr(
        module, "tree_of_rows", lambda kernel, X, order: (planted.append(len(X)), plant(kernel, X, order))[1]
    )
    grown = Grown(0, 4000)
    for _ in range(50):
        more = grown.drawn(5)
        grown.forest = grown.forest + Forest.of(KERNEL, more, 1.0)
        grown.forest = grown.forest.without(grown.forest.places[:5])
    assert sum(planted) < 4000 + 50 * 5 * 20
    assert max(planted[1:]) < 500


def test_the_rows_of_a_whole_region_are_gone() -> None:
    grown = Grown(0, 4000)
    (gone,) = np.nonzero(grown.rows.X[:, 0] < 0.1)
    forest = grown.forest.without(gone)
    assert forest.parts[0].there is not None
    left = grown.rows.X[grown.rows.X[:, 0] >= 0.1]
    corner = np.zeros((1, 2))
    expected = np.sort(cdist(corner, KERNEL.points(left)), axis=1)[:, :9]
    np.testing.assert_allclose(forest.query(corner, 9)[0], expected, rtol=1e-12)
    np.testing.assert_array_equal(forest.box[0], KERNEL.points(left).min(axis=0))


def test_what_it_was_stays() -> None:
    grown = Grown(0)
    before, rows = grown.forest, grown.rows
    for _ in range(20):
        grown.step()
    np.testing.assert_array_equal(before.rows.X, rows.X)
    assert len(before.parts) == 1


def test_rows_that_are_gone_are_in_no_pickle() -> None:
    rows = Rows(np.arange(80.0).reshape(40, 2), np.arange(40.0) + 1000.5)
    forest = Forest.of(KERNEL, rows, 1.0).without(np.array([3]))
    assert forest.parts[0].there is not None
    written = pickle.dumps(forest)
    assert np.float64(1003.5).tobytes() not in written
    assert np.float64(1004.5).tobytes() in written
    loaded = pickle.loads(written)
    np.testing.assert_array_equal(loaded.rows.Y, forest.rows.Y)


def test_weights_and_noise_variances_that_some_rows_have() -> None:
    plain, own = (
        Rows(np.zeros((2, 2)), np.zeros(2)),
        Rows(np.ones((1, 2)), np.ones(1), np.array([3.0]), np.array([0.5])),
    )
    forest = Forest.of(KERNEL, Rows(np.full((30, 2), 9.0), np.zeros(30)), 0.25)
    forest = forest + Forest.of(KERNEL, plain, 0.25) + Forest.of(KERNEL, own, 0.25)
    found = forest.take(np.array([32, 31, 0]))
    np.testing.assert_array_equal(found.weights, [3.0, 1.0, 1.0])
    np.testing.assert_array_equal(found.noise_variances, [0.5, 0.25, 0.25])


def test_no_rows() -> None:
    rows = Rows(np.ones((2, 2)), np.ones(2))
    none = Forest.of(KERNEL, rows.take(slice(0)), 1.0)
    assert (len(none), len(none.rows), none.rows.n_targets) == (0, 0, 1)
    assert len(none + Forest.of(KERNEL, rows, 1.0)) == 2
    gone = Forest.of(KERNEL, rows, 1.0).without(np.arange(2))
    assert gone.parts == ()
    assert len(gone.places) == 0
    assert len(Forest.of(KERNEL, rows, 1.0).without(NONE)) == 2


@pytest.mark.parametrize("k", [8, 20])
def test_on_a_grid_the_nearest_rows_are_the_same_in_whatever_order_rows_come(k: int) -> None:
    rng = np.random.default_rng(0)
    rows = Rows(np.stack(np.meshgrid(np.arange(24.0), np.arange(24.0)), axis=-1).reshape(-1, 2), rng.normal(size=576))
    order, points = rng.permutation(576), KERNEL.points(rng.integers(0, 47, (60, 2)) / 2.0)
    (one,), (other,) = (Forest.of(KERNEL, some, 1.0).parts for some in (rows, rows.take(order)))
    found = one.query(points, k)[1]
    np.testing.assert_array_equal(found, order[other.query(points, k)[1]])
    np.testing.assert_array_equal(found, pickle.loads(pickle.dumps(one)).query(points, k)[1])
