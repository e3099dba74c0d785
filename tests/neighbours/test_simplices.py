"""Corners that stand for the rows of cells: what they keep, and how large cells may be."""

import numpy as np
import pytest

from lmgp import GaussianKernel, MaternKernel
from lmgp.neighbours import simplices
from lmgp.neighbours.simplices import Simplices, side_for

KERNEL = MaternKernel([0.5, 2.0], 1.5, smoothness=1.5)


def drawn(n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.uniform(size=(n, 2)) * [1.0, 4.0] + [1e4, 0.0], rng.uniform(1.0, 9.0, n)


def test_functions_that_are_linear_pass_through_them() -> None:
    X, precisions = drawn()
    found = Simplices.of(KERNEL, X, precisions, 0.2)
    assert len(found.X) < 0.5 * len(X)
    linear = np.array([3.0, -2.0])
    np.testing.assert_allclose(found.shares @ (found.X @ linear + 1.0), X @ linear + 1.0, rtol=1e-12)


def test_the_precision_of_linear_functions_stays() -> None:
    X, precisions = drawn()
    found, centre = Simplices.of(KERNEL, X, precisions, 0.2), X.mean(axis=0)
    rows, corners = (np.column_stack((np.ones(len(points)), points - centre)) for points in (X, found.X))
    expected = (rows.T * precisions) @ rows
    np.testing.assert_allclose(
        (corners.T * found.precisions) @ corners, expected, rtol=1e-9, atol=1e-9 * expected[0, 0]
    )


@pytest.mark.parametrize("rows", ["few", "along a line", "at one place"])
def test_cells_without_an_area_keep_what_they_have(rows: str) -> None:
    X = {"few": [[0.01, 0.01], [0.02, 0.05]], "along a line": [[0.01 * i, 0.02 * i] for i in range(8)]}
    places = np.array(X.get(rows, [[0.01, 0.02]] * 5))
    found = Simplices.of(KERNEL, places, np.ones(len(places)), 1.0)
    assert found.precisions.sum() == pytest.approx(len(places))
    np.testing.assert_allclose(found.shares @ found.X, places, atol=1e-9)
    if rows == "few":
        np.testing.assert_array_equal(found.X, places)


def test_a_column_that_the_kernel_does_not_see_shares_cells() -> None:
    kernel, (X, precisions) = MaternKernel(0.5).on([0]), drawn()
    found = Simplices.of(kernel, X, precisions, 0.2)
    assert len(found.X) < 50
    np.testing.assert_allclose((found.shares @ found.X)[:, 0], X[:, 0], rtol=1e-12)


def test_cells_that_are_too_many_to_count_are_none() -> None:
    X, precisions = drawn(50)
    found = Simplices.of(KERNEL, X, precisions, 1e-30)
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.shares.toarray(), np.eye(50))


def test_more_rows_less_noise_and_smaller_shares_take_smaller_cells() -> None:
    few, more = drawn(1000)[0], drawn(8000)[0]

    def side(X: np.ndarray, precision: float, share: float) -> float:
        return side_for(KERNEL, X, np.full(len(X), precision), share)

    base = side(few, 1.0, 0.1)
    assert side(more, 1.0, 0.1) < base
    assert side(few, 10.0, 0.1) < base
    assert side(few, 1.0, 0.01) < base


def test_what_cells_leave_out_is_the_share_of_their_noise() -> None:
    """By the residual of linear regression of draws in one cell, a square of the side with its rows."""
    X, rng = drawn(20_000)[0], np.random.default_rng(1)
    side = side_for(KERNEL, X, np.ones(len(X)), 0.1)
    n_in_cell = round(len(X) * side**2 * 0.5 * 2.0 / 4.0)
    cell = rng.uniform(size=(n_in_cell, 2)) * side * [0.5, 2.0]
    linear = np.column_stack((np.ones(n_in_cell), cell))
    projected = np.eye(n_in_cell) - linear @ np.linalg.pinv(linear)
    left_out = np.trace(projected @ KERNEL(cell) @ projected)
    assert 0.5 < left_out / 0.1 < 2.0


def test_a_sample_of_rows_tells_the_side(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(1).normal(size=(40_000, 2))
    side = side_for(KERNEL, X, np.full(len(X), 100.0), 0.1)
    monkeypatch.setattr(simplices, "COUNTED", 4000)
    assert side_for(KERNEL, X, np.full(len(X), 100.0), 0.1) == pytest.approx(side, rel=0.05)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_copies_are_one_corner(d: int) -> None:
    """Of many rows with equal X, AᵀPA is the precision of the corner, as of rows that are alone."""
    rng = np.random.default_rng(0)
    places = rng.uniform(0.0, 5.0, (20, d))
    X, precisions = np.repeat(places, 7, axis=0), rng.uniform(1.0, 2.0, 140)
    found = Simplices.of(GaussianKernel(), X, precisions, 1e-3)
    assert found.X.shape == (20, d)
    A = found.shares.toarray()
    np.testing.assert_allclose(A @ found.X, X, rtol=1e-12)
    np.testing.assert_allclose(A.T @ (precisions[:, None] * A), np.diag(found.precisions), atol=1e-12)
