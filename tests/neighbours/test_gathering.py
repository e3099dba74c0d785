"""Rows gathered in cells: sums and means, and how little the variance changes."""

import numpy as np
import pytest

from lmgp import GaussianKernel
from lmgp.data import Noise, Rows
from lmgp.metrics import kl_divergence
from lmgp.neighbours.placement import gathered, numbered
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.variance import cell_side

KERNEL, NOISE = GaussianKernel([0.5, 2.0], 1.5), Noise(0.1)


def draw(n: int, own: bool = False, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 1.0, (n, 2)) * [1.0, 4.0] + [1e4, 0.0]
    return Rows(X, rng.normal(size=n), *((rng.uniform(1, 3, n), rng.uniform(0.05, 0.3, n)) if own else ()))


@pytest.mark.parametrize("own", [False, True])
def test_each_cell_is_the_weighted_mean_and_the_sum_of_its_rows(own: bool) -> None:
    rows = draw(2000, own)
    found = gathered(KERNEL, rows, NOISE, 0.25)
    weight = np.ones(2000) if rows.weights is None else rows.weights * 0.1 / rows.noise_variances
    members: dict[tuple[float, ...], list[int]] = {}
    scaled = np.floor(rows.X / [0.5, 2.0] / 0.25)
    for i, cell in enumerate(map(tuple, scaled)):
        members.setdefault(cell, []).append(i)
    expected = {
        tuple(np.round(np.average(rows.X[index], axis=0, weights=weight[index]), 8)): weight[index].sum()
        for index in members.values()
    }
    got = {tuple(np.round(X, 8)): w for X, w in zip(found.X, found.weights, strict=True)}
    assert got.keys() == expected.keys()
    for key, w in expected.items():
        assert got[key] == pytest.approx(w, rel=1e-12)
    assert found.noise_variances is None
    assert not found.Y.any()


@pytest.mark.slow
@pytest.mark.parametrize(("n_inputs", "extent"), [(1, 20.0), (2, 4.0), (3, 1.5)])
@pytest.mark.parametrize("noise_variance", [0.3, 0.01])
@pytest.mark.parametrize("own", [False, True])
def test_the_variance_changes_by_less_than_the_tolerance(
    n_inputs: int, extent: float, noise_variance: float, own: bool
) -> None:
    """Among the rows, at their edge and beyond."""
    rng, n, tolerance = np.random.default_rng(0), 3000, 1e-6 if n_inputs < 3 else 1e-4
    kernel, noise = GaussianKernel(1.0, 1.5), Noise(noise_variance)
    X = rng.uniform(0.0, extent, (n, n_inputs))
    rows = Rows(X, np.zeros(n), *((rng.uniform(1, 3, n), rng.uniform(0.05, 0.3, n)) if own else ()))
    fewer = gathered(kernel, rows, noise, cell_side(kernel, noise, n_inputs, tolerance))
    assert len(fewer.Y) < 0.7 * n
    T = rng.uniform(-0.2, extent + 0.2, (400, n_inputs))
    exact, found = (ExactPosterior(kernel, one, noise).predict(T)[1] + noise_variance for one in (rows, fewer))
    assert kl_divergence(np.zeros(400), found, np.zeros(400), exact).mean() < tolerance


@pytest.mark.parametrize("side", [1e-3, 1e-30])
def test_rows_that_share_no_cells_stay(side: float) -> None:
    rows = draw(100, own=True)
    found = gathered(KERNEL, rows, NOISE, side)
    for name in ("X", "weights", "noise_variances"):
        np.testing.assert_array_equal(getattr(found, name), getattr(rows, name))


@pytest.mark.parametrize("keys", [[7, 3, 7, 0], [2**61, 5, 2**61, 2**40], []])
def test_keys_are_numbered_in_their_order_and_counted(keys: list[int]) -> None:
    numbers, counts = numbered(np.array(keys, dtype=np.int64))
    _, expected, expected_counts = np.unique(np.array(keys, dtype=np.int64), return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(counts, expected_counts)
