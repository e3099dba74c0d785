"""Blocks of rows with a map for the rest, against the same covariances as dense matrices."""

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, MaternKernel
from lmgp.noise import Noise
from lmgp.selection.blocks import BlockPosterior
from lmgp.validation import Rows

NOISE = 0.1
TESTS = np.random.default_rng(9).uniform(0.0, 2.0, (12, 2))


def draw(n: int = 150, own: bool = False) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (n, 2))
    y = np.sin(X).sum(axis=1) + NOISE**0.5 * rng.normal(size=n)
    return Rows(X, y, rng.uniform(0.5, 3.0, n), rng.uniform(0.05, 0.5, n)) if own else Rows(X, y)


def dense(model: BlockPosterior, rows: Rows, block: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Condition on all rows: exact covariances among the block and T, those of the map between all others."""
    X = np.vstack((rows.X, T))
    columns = model.features.transform(X)
    of_map, exact = columns @ columns.T, model.kernel(X)
    inside = np.zeros(len(X), dtype=bool)
    inside[block] = inside[len(rows.y) :] = True
    kept = np.outer(inside, inside) | np.eye(len(X), dtype=bool)
    covariance = np.where(kept, exact, of_map)
    own = np.full(len(rows.y), NOISE) if rows.noise_variances is None else rows.noise_variances / rows.weights
    n = len(rows.y)
    solved = np.linalg.solve(covariance[:n, :n] + np.diag(own), covariance[:n, n:])
    return solved.T @ rows.y, np.diagonal(covariance[n:, n:]) - np.sum(covariance[:n, n:] * solved, axis=0)


@pytest.mark.parametrize("kernel", [GaussianKernel([0.8, 1.5], 2.0), MaternKernel(1.5, 2.0, smoothness=0.5)])
@pytest.mark.parametrize("n_landmarks", [5, 40])
def test_is_the_gaussian_conditional_of_its_covariances(kernel, n_landmarks: int) -> None:
    rows = draw()
    model = BlockPosterior(kernel, rows, Noise(NOISE), n_landmarks, np.random.default_rng(0))
    block = np.flatnonzero((rows.X < 3.0).all(axis=1))
    found = model.predict(rows.take(block), TESTS)
    np.testing.assert_allclose(found, dense(model, rows, block, TESTS), rtol=0, atol=1e-8)


def test_is_so_of_a_weighted_row_with_its_own_noise() -> None:
    """In the block; of rows out of it a weight repeats the row, and what the map leaves out with it."""
    rows = draw(own=True)
    rows.weights[(rows.X >= 3.0).any(axis=1)] = 1.0
    model = BlockPosterior(GaussianKernel(1.0, 2.0), rows, Noise(NOISE), 20, np.random.default_rng(0))
    block = np.flatnonzero((rows.X < 3.0).all(axis=1))
    found = model.predict(rows.take(block), TESTS)
    np.testing.assert_allclose(found, dense(model, rows, block, TESTS), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("n_landmarks", "n_block"), [(150, 30), (10, 150)])
def test_is_exact_with_a_whole_map_or_a_whole_block(n_landmarks: int, n_block: int) -> None:
    rows, kernel = draw(), GaussianKernel(1.0, 2.0)
    model = BlockPosterior(kernel, rows, Noise(NOISE), n_landmarks, np.random.default_rng(0))
    mean, variance = model.predict(rows.take(np.arange(n_block)), TESTS)
    exact = ExactGPRegressor(kernel, NOISE).fit(rows.X, rows.y - rows.y.mean())
    expected, std = exact.predict(TESTS, return_std=True)
    shift = BlockPosterior(kernel, Rows(rows.X, np.ones(150)), Noise(NOISE), n_landmarks, np.random.default_rng(0))
    of_ones, _ = shift.predict(Rows(rows.X[:n_block], np.ones(n_block)), TESTS)
    np.testing.assert_allclose(mean - rows.y.mean() * of_ones, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(variance, std**2, rtol=0, atol=1e-6)
