"""Rows in leaves, against a search through all rows."""

import pickle
from pathlib import Path

import joblib
import numpy as np
import pytest

from lmgp import GaussianKernel
from lmgp.data import Rows
from lmgp.errors import InputError
from lmgp.neighbours.duplicates import steady_order
from lmgp.neighbours.forest import Forest
from lmgp.neighbours.leaves import BRANCH, HALVINGS, LEAF, Leaves
from lmgp.neighbours.trees import tree_of_rows


def by_all(rows, point, k):
    squares = np.square(rows - point).sum(axis=1)
    order = np.argsort(squares, kind="stable")[:k]
    return np.sqrt(squares[order]), order


@pytest.mark.parametrize("d", [1, 4, 40])
@pytest.mark.parametrize(
    "n", [1, LEAF - 1, LEAF + 1, LEAF * BRANCH, 3 * LEAF * BRANCH + LEAF + 5, (LEAF * BRANCH << HALVINGS) + 77]
)
def test_the_nearest_rows_are_those_of_a_full_search(n: int, d: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d)) * rng.permutation(np.geomspace(1.0, 0.01, d))
    kept = rows.copy()
    points = np.concatenate((rows[:4], rng.normal(size=(6, d)), rng.normal(size=(2, d)) + 50.0))
    leaves = Leaves.of(rows)
    np.testing.assert_array_equal(rows, kept)
    for k in {1, min(n, 7), min(n, 300)}:
        distances, found = leaves.query(points, np.arange(1, k + 1))
        for point, own, near in zip(points, distances, found, strict=True):
            expected, order = by_all(rows, point, k)
            np.testing.assert_allclose(own, expected, rtol=1e-12, atol=1e-14)
            np.testing.assert_array_equal(near, order)


def test_the_nearest_rows_before_others() -> None:
    rng = np.random.default_rng(4)
    rows, before = rng.normal(size=(6000, 5)), np.array([20, 21, 700, 5999, 6000])
    for point, number, near in zip(
        rows, before, Leaves.of(rows).query(rows[:5], np.arange(1, 21), before)[1], strict=False
    ):
        np.testing.assert_array_equal(near, by_all(rows[:number], point, 20)[1])


def test_rows_that_are_equally_near_are_found_once() -> None:
    """Copies of a few rows, of which more than those of a branch are as near as the last one."""
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2, (3 * LEAF * BRANCH, 4)).astype(float)
    for k in (1, 40, 400, len(rows)):
        distances, found = Leaves.of(rows).query(rows[:3], np.arange(1, k + 1))
        for point, own, near in zip(rows, distances, found, strict=False):
            assert len(set(near)) == k
            np.testing.assert_allclose(own, by_all(rows, point, k)[0])
            np.testing.assert_allclose(own, np.sqrt(np.square(rows[near] - point).sum(axis=1)))


@pytest.mark.parametrize("d", [2, 5])
def test_rows_are_not_among_the_others(d: int) -> None:
    rng = np.random.default_rng(2)
    X, kernel = rng.normal(size=(300, d)), GaussianKernel(np.arange(1.0, d + 1.0))
    X[40:90] = X[40]  # more copies than are asked for
    index = np.array([3, 41, 200, 89])
    near = Forest.of(kernel, Rows(X, np.zeros(300)), 0.1).others(index, 20)
    assert near.shape == (4, 20)
    for row, of_row in zip(index, near, strict=True):
        assert row not in of_row
        squares = np.square((X - X[row]) / np.arange(1.0, d + 1.0)).sum(axis=1)
        np.testing.assert_allclose(np.sort(squares[of_row]), np.sort(np.delete(squares, row))[:20])


@pytest.mark.parametrize("d", [2, 5])
def test_squared_distances_that_overflow_are_refused(d: int) -> None:
    X = np.zeros((50, d))
    X[0, 1] = 1e160
    with pytest.raises(InputError, match="squared distances overflow float64"):
        tree_of_rows(GaussianKernel(1.0), X, np.arange(len(X)))


def test_which_of_equal_rows_are_found_does_not_depend_on_their_order() -> None:
    """Copies of 50 places with y of their own, of which the ten found for a place are the same ones."""
    rng = np.random.default_rng(2)
    rows = Rows(rng.normal(size=(50, 5))[rng.integers(0, 50, 5000)], rng.normal(size=5000))
    order = rng.permutation(5000)
    trees = [tree_of_rows(GaussianKernel(1.0), one.X, steady_order(one)) for one in (rows, rows.take(order))]
    found, other = (tree.query(rows.X[:40], np.arange(1, 11))[1] for tree in trees)
    np.testing.assert_array_equal(found, order[other])
    again = pickle.loads(pickle.dumps(trees[1]))
    np.testing.assert_array_equal(again.query(rows.X[:40], np.arange(1, 11))[1], other)
    by_number = tree_of_rows(GaussianKernel(1.0), rows.X, np.arange(5000)).query(rows.X[:40], np.arange(1, 11))[1]
    assert not np.array_equal(by_number, found)  # so that the test could fail


@pytest.mark.parametrize("mode", [None, "r"])
def test_leaves_of_a_file_are_the_same(mode: str | None, tmp_path: Path) -> None:
    rows = np.random.default_rng(5).integers(0, 4, (3 * LEAF * BRANCH + 5, 4)) * np.array([1.0, 3.0, 2.0, 1.0])
    leaves = Leaves.of(rows)
    joblib.dump(leaves, tmp_path / "leaves")
    again = joblib.load(tmp_path / "leaves", mmap_mode=mode)
    for name, value in vars(leaves).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    for one, other in zip(leaves.query(rows[:9], np.arange(1, 9)), again.query(rows[:9], np.arange(1, 9)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("d", [1, 4])
def test_rows_that_are_taken_out_are_not_found(d: int) -> None:
    rng = np.random.default_rng(3)
    rows, taken = rng.normal(size=(5000, d)), rng.uniform(size=5000) < 0.4
    taken[:40] = True
    leaves = Leaves.of(rows)
    less = leaves.without(taken)
    assert (less.n, less.m) == (np.count_nonzero(~taken), d)
    found = less.query(rows[:5], np.arange(1, 21))[1]
    for point, near in zip(rows, found, strict=False):
        np.testing.assert_array_equal(near, np.flatnonzero(~taken)[by_all(rows[~taken], point, 20)[1]])
    assert set(leaves.query(rows[:1], np.arange(1, 2))[1][0]) == {0}
