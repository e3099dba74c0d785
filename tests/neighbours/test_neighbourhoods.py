import numpy as np
import pytest

from lmgp.neighbours import clustering
from lmgp.neighbours.clustering import Blocks, Neighbourhoods


def brute_force(rows, radius, point):
    return np.flatnonzero(((rows - point) ** 2).sum(axis=1) <= radius**2)


@pytest.mark.parametrize("d", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [30, 1000, 1023])
@pytest.mark.parametrize("lattice", [False, True])
def test_the_rows_within_a_radius_are_those_of_a_full_search(monkeypatch, d: int, n: int, lattice: bool) -> None:
    monkeypatch.setattr(clustering, "MIN_ROWS", 10)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, (n, d)).astype(float) if lattice else rng.standard_normal((n, d))
    search = Neighbourhoods(rows)
    for radius in (0.0, 0.5, 1.0, 2.0, 100.0):
        for point in (rows[3], rows.mean(axis=0), rows[0] + 50.0):
            np.testing.assert_array_equal(search.within(radius, point), brute_force(rows, radius, point))


@pytest.mark.parametrize("n", [100, 40_000])
def test_few_and_many_rows_are_searched_alike(n: int) -> None:
    rows = np.random.default_rng(1).uniform(0, 100, (n, 2))
    search = Neighbourhoods(rows)
    np.testing.assert_array_equal(search.within(7.0, rows[5]), brute_force(rows, 7.0, rows[5]))


@pytest.mark.parametrize("n", [100, 20_000])
def test_an_infinite_radius_takes_all_rows_and_a_point_at_overflow_none(n: int) -> None:
    rows = np.random.default_rng(2).standard_normal((n, 3))
    search = Neighbourhoods(rows)
    assert len(rows[search.within(np.inf, np.zeros(3))]) == n
    assert len(search.within(1e3, np.full(3, 1e200))) == 0


def test_blocks_hold_every_row_and_are_no_closer_than_any_of_their_rows() -> None:
    rows = np.random.default_rng(3).standard_normal((5000, 2))
    made = Blocks.of_neighbours(rows)
    assert set(made.order.ravel()) == set(range(5000))
    np.testing.assert_array_equal(made.columns, np.moveaxis(rows[made.order], 2, 0))
    point = np.array([0.3, -1.0])
    nearest = ((made.columns - point[:, None, None]) ** 2).sum(axis=0).min(axis=1)
    assert np.all(made.squared_distances_from(point) <= nearest)
    assert made.squared_distances_from(point).max() > 1.0
