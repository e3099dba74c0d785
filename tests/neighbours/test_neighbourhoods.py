import numpy as np
import pytest
from scipy.spatial import KDTree

from lmgp.neighbours.clustering import blocks_of_neighbours, rows_within


def brute_force(rows, radius, point):
    return np.flatnonzero(((rows - point) ** 2).sum(axis=1) <= radius**2)


@pytest.mark.parametrize("d", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [30, 1000, 1023])
@pytest.mark.parametrize("lattice", [False, True])
def test_the_rows_within_a_radius_are_those_of_a_full_search(d: int, n: int, lattice: bool) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, (n, d)).astype(float) if lattice else rng.standard_normal((n, d))
    tree = KDTree(rows)
    for radius in (0.0, 0.5, 1.0, 2.0, 100.0):
        for point in (rows[3], rows.mean(axis=0), rows[0] + 50.0):
            np.testing.assert_array_equal(rows_within(tree, radius, point), brute_force(rows, radius, point))


def test_many_rows_are_searched_alike() -> None:
    rows = np.random.default_rng(1).uniform(0, 100, (40_000, 2))
    np.testing.assert_array_equal(rows_within(KDTree(rows), 7.0, rows[5]), brute_force(rows, 7.0, rows[5]))


def test_an_infinite_radius_takes_all_rows_and_a_point_at_overflow_none() -> None:
    rows = np.random.default_rng(2).standard_normal((100, 3))
    assert len(rows[rows_within(KDTree(rows), np.inf, np.zeros(3))]) == 100
    assert len(rows_within(KDTree(rows), 1e3, np.full(3, 1e200))) == 0
    assert len(rows_within(KDTree(rows[:0]), 1e3, np.zeros(3))) == 0
    apart = np.concatenate((rows, rows[:2] + 1e200))
    np.testing.assert_array_equal(rows_within(KDTree(apart), 2.0, rows[7]), brute_force(rows, 2.0, rows[7]))
    assert len(rows_within(KDTree(apart), 0.0, apart[100])) == 2


def test_blocks_hold_every_row_near_others() -> None:
    rows = np.random.default_rng(3).standard_normal((5000, 2))
    order = blocks_of_neighbours(rows)
    assert set(order.ravel()) == set(range(5000))
    assert np.all(np.diff(order, axis=1) >= 0)
    assert np.median(np.ptp(rows[order], axis=1)) < 0.3 * np.ptp(rows, axis=0).min()
