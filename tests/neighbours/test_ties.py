"""Points that are equally far from another, told apart by their places."""

import numpy as np

from lmgp.kernels.stationary import MaternKernel
from lmgp.neighbours.ties import told_apart


def test_the_same_rows_of_a_grid_are_nearer_in_all_units() -> None:
    side, units = np.arange(12.0), np.array([1e-3, 7.0, 0.3])
    grid = np.stack(np.meshgrid(side, side, side), axis=-1).reshape(-1, 3)
    kernel = MaternKernel([3.0, 3.0, 40.0])
    points, others = told_apart(kernel.points(grid)), told_apart(kernel.rescaled(units).points(units * grid))
    assert 1e-10 < np.abs(points - kernel.points(grid)).max() <= 1.001e-9
    centre = 6 + 12 * 6 + 144 * 6
    squares, in_units = (np.square(some - some[centre]).sum(axis=1) for some in (points, others))
    assert len(np.unique(squares)) == len(grid)
    np.testing.assert_array_equal(np.argsort(squares), np.argsort(in_units))


def test_points_are_moved_alike_in_any_order_of_rows_and_columns() -> None:
    rng = np.random.default_rng(0)
    points = rng.integers(0, 4, (50, 7)) * np.geomspace(0.1, 10.0, 7)
    rows, columns = rng.permutation(50), rng.permutation(7)
    again = told_apart(points[np.ix_(rows, columns)])
    np.testing.assert_allclose(again - told_apart(points)[np.ix_(rows, columns)], 0.0, atol=4e-15)
    assert np.abs(again - points[np.ix_(rows, columns)]).max() > 1e-10
