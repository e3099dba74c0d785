"""Cells that share the rows around them, against distances to all rows."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from lmgp import GaussianKernel
from lmgp.data import Rows
from lmgp.neighbours.cells import Cells, points_per_cell, sharing_pays
from lmgp.neighbours.forest import Forest

K, KERNEL = 120, GaussianKernel(1.0)


def cells_of(rows: np.ndarray) -> Cells:
    return Cells(Forest.of(KERNEL, Rows(rows, np.zeros(len(rows))), 1.0), K)


def rows_of(shape: str, rng: np.random.Generator) -> np.ndarray:
    if shape == "even":
        return rng.uniform(size=(6000, 2))
    if shape == "clusters":
        return rng.normal(size=(6000, 2)) * rng.choice([0.01, 0.1, 1.0], (6000, 1)) + rng.integers(0, 3, (6000, 1))
    if shape == "gap":
        rows = rng.uniform(-1.0, 1.0, size=(6000, 2))
        return rows[np.linalg.norm(rows, axis=1) > 0.7]
    if shape == "line":
        return rng.uniform(size=(6000, 1))
    return np.concatenate((np.full((500, 2), 0.25), rng.uniform(size=(5500, 2))))


# By shape, the least share of points that share: in a gap, and at the edge of a cluster, each has other nearest rows.
LEAST_SERVED = {"even": 0.95, "clusters": 0.03, "gap": 0.5, "line": 0.99, "copies": 0.6}
SHAPES = tuple(LEAST_SERVED)


def grouped(shape: str):
    rng = np.random.default_rng(0)
    rows = rows_of(shape, rng)
    points = rng.uniform(rows.min(axis=0), rows.max(axis=0), (800, rows.shape[1]))
    points = np.concatenate((points, rows[:200]))
    cells = cells_of(rows)
    return rows, points, cells, *cells.group(points)


@pytest.mark.parametrize("shape", SHAPES)
class TestACell:
    def test_has_each_point_once_and_holds_it(self, shape: str) -> None:
        _, points, _, found, others = grouped(shape)
        members = np.concatenate([others, *(cell.members for cell in found)])
        np.testing.assert_array_equal(np.sort(members), np.arange(len(points)))
        assert len(others) < (250 if shape == "copies" else 1)
        for cell in found:
            inside = points[cell.members]
            assert np.all(inside >= cell.low - 1e-12)
            assert np.all(inside <= cell.high + 1e-12)

    def test_has_the_rows_within_reach_around_it(self, shape: str) -> None:
        rows, _, _, found, _ = grouped(shape)
        cells, rows = cells_of(rows), KERNEL.points(rows)
        for cell in found[::10]:
            distance = np.linalg.norm(rows - np.clip(rows, cell.low, cell.high), axis=1)
            np.testing.assert_array_equal(cells.rows_around(cell), np.flatnonzero(distance <= cell.reach))

    def test_serves_the_points_whose_nearest_rows_are_around_it(self, shape: str) -> None:
        rows, points, cells, found, _ = grouped(shape)
        n_served = 0
        for cell in found:
            around, inside = cells.rows_around(cell), points[cell.members]
            served = cells.serves(cell, inside, around)
            n_served += np.count_nonzero(served)
            to_all = np.sort(cdist(inside, rows), axis=1)[:, :K]
            to_own = np.sort(cdist(inside, rows[around]), axis=1)[:, :K]
            np.testing.assert_array_equal(to_own[served], to_all[served])
        assert n_served > LEAST_SERVED[shape] * len(points)

    def test_is_the_same_whatever_points_are_beside_it(self, shape: str) -> None:
        _, points, cells, found, _ = grouped(shape)
        for cell in found[:5]:
            (alone,), _ = cells.group(points[cell.members[:1]])
            np.testing.assert_array_equal(alone.low, cell.low)
            assert alone.reach == cell.reach


def test_points_far_from_all_rows_have_none() -> None:
    rng = np.random.default_rng(0)
    points = np.array([[0.5, 0.5], [50.0, 0.5], [0.5, -1e100]])
    cells, others = cells_of(rng.uniform(size=(200, 2))).group(points)
    assert [list(cell.members) for cell in cells] == [[0]]
    np.testing.assert_array_equal(others, [1, 2])


def test_rows_that_are_all_the_same() -> None:
    cells, others = cells_of(np.full((150, 2), 3.0)).group(np.full((2, 2), 3.0))
    assert cells == []
    np.testing.assert_array_equal(others, [0, 1])


@pytest.mark.parametrize(
    ("n_inputs", "k", "expected"),
    [
        (1, 16, True),
        (2, 20, False),
        (2, 50, True),
        (2, 100, True),
        (3, 100, False),
        (8, 10**5, False),
        (2000, 64, False),
    ],
)
def test_sharing_pays_in_few_columns(n_inputs: int, k: int, expected: bool) -> None:
    assert sharing_pays(n_inputs, k) is expected


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_points_per_cell_of_evenly_spread_rows(n_inputs: int) -> None:
    """In the mean over numbers of rows: cells are halved until they are small enough."""
    rng, found = np.random.default_rng(0), []
    for n in np.geomspace(4000, 4000 * 2**n_inputs, 6).astype(int):
        rows = rng.uniform(size=(n, n_inputs))
        cells, others = cells_of(rows).group(rows)
        assert len(others) == 0
        found.append(n / len(cells))
    assert np.mean(found) == pytest.approx(points_per_cell(n_inputs, K), rel=0.15)
