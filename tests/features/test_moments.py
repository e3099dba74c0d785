"""The Gram matrix by way of moments, against the product of the features."""

import numpy as np
import pytest
import torch

from lmgp import GaussianKernel, TaylorFeatures
from lmgp.features.moments import MomentPlan
from lmgp.validation import Rows

SHAPES = [(1, 5), (1, 30), (2, 6), (2, 120), (3, 84), (4, 126), (5, 126), (6, 210)]  # inputs, columns


def made(d: int, n: int = 300, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    return Rows(rng.normal(size=(n, d)) * 2.0 + 0.3, rng.normal(size=n))


def fitted(d: int, n_features: int, n: int = 300, index_set: str = "total_degree") -> TaylorFeatures:
    kernel = GaussianKernel(np.linspace(0.8, 1.4, d), 2.5)
    rows = np.random.default_rng(2).normal(size=(n, d)) * np.geomspace(1.0, 0.1, d)
    return TaylorFeatures(n_features, index_set=index_set, kernel=kernel).fit(rows)


def products(
    features: TaylorFeatures, rows: Rows, precision: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ΦᵀPΦ, ΦᵀPy, and what rounding of their sums is measured against."""
    columns = features.transform(rows.X)
    weighted = columns * np.broadcast_to(precision, len(rows.y))[:, None]
    return weighted.T @ columns, weighted.T @ rows.y, np.sqrt(np.square(weighted).sum(0) * np.square(columns).sum(0))


@pytest.mark.parametrize(("d", "n_features"), SHAPES)
@pytest.mark.parametrize("kind", ["plain", "weights", "noise", "fitc", "all"])
@pytest.mark.parametrize("index_set", ["total_degree", "energy"])
def test_moments_give_the_products_of_the_features(d: int, n_features: int, kind: str, index_set: str) -> None:
    features, rows, noise = fitted(d, n_features, index_set=index_set), made(d), 0.3
    rng = np.random.default_rng(1)
    precision = np.ones(len(rows.y))
    weights = rng.integers(1, 4, len(rows.y)).astype(float) if kind in ("weights", "all") else None
    variances = rng.uniform(0.1, 2.0, len(rows.y)) if kind in ("noise", "all") else None
    total = np.full(len(rows.y), noise) if variances is None else variances.copy()
    if kind in ("fitc", "all"):
        total += features.kernel_.variance - np.square(features.transform(rows.X)).sum(axis=1)
    precision = noise / total * (1.0 if weights is None else weights)

    rows = Rows(rows.X, rows.y, weights, variances)
    features._moments = MomentPlan(features.exponents_)  # whether or not that is the cheaper way
    chunks = (rows.take(part) for part in (slice(0, 100), slice(100, 101), slice(101, 300)))
    found = features.summed(chunks, noise, missing_is_noise=kind in ("fitc", "all"))
    gram, cross, _ = products(features, rows, precision)
    scale = np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    lower = np.tril_indices(len(gram))
    # Where φ² summed over the rows is next to nothing, so is the entry's bound.
    assert np.all(np.abs(found.gram.numpy() - gram)[lower] <= 1e-11 * scale[lower] + 1e-13 * gram.max())
    np.testing.assert_allclose(found.cross.numpy(), cross, rtol=1e-10, atol=1e-12 * np.abs(cross).max())
    assert found.n == pytest.approx(len(rows.y) if weights is None else weights.sum())
    assert found.squares == pytest.approx(np.sum(precision * rows.y**2))
    expected = np.sum((1.0 if weights is None else weights) * np.log(noise / total))
    assert found.log_precision == pytest.approx(expected, abs=1e-10)


def test_statistics_by_moments_add_and_subtract() -> None:
    features, rows = fitted(2, 45), made(2)
    assert features._moments is not None
    whole = features.summed([rows], 0.3)
    first, second = (features.summed([rows.take(part)], 0.3) for part in (slice(0, 120), slice(120, 300)))
    np.testing.assert_allclose((first + second).gram.tril(), whole.gram.tril(), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose((whole - first).gram.tril(), second.gram.tril(), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose((whole - first).cross, second.cross, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("distance", [30.0, 1e3, 1e150])
def test_rows_far_away_are_summed_without_moments(distance: float) -> None:
    """e^{−‖x‖²} underflows there, the features of a high degree need not."""
    features = TaylorFeatures(300).fit(np.zeros((5, 1)))
    near = Rows(np.array([[0.5], [-3.0], [15.0]]), np.array([1.0, -2.0, 0.5]))
    far = Rows(np.array([[distance], [0.1]]), np.array([3.0, 1.0]))
    found = features.summed([near, far], 0.1)
    everything = Rows(np.concatenate((near.X, far.X)), np.concatenate((near.y, far.y)))
    columns = features.transform(everything.X)
    np.testing.assert_allclose(found.gram.tril(), np.tril(columns.T @ columns), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found.cross, columns.T @ everything.y, rtol=1e-9, atol=1e-15)
    assert found.n == 5


def test_the_cheaper_way_is_found_by_counting() -> None:
    """Of the two ways, the one with fewer multiplications."""
    assert fitted(2, 496, n=4_000)._moments is not None
    assert fitted(6, 924, n=4_000)._moments is not None  # 455² against 924²/2
    assert fitted(8, 495, n=4_000)._moments is None  # 245,025 multiplications for the moments against 122,760
    assert fitted(2, 1, n=4_000)._moments is None  # one column has one product
    assert fitted(2, 496, n=2)._moments is None  # planning costs more than two rows do
    sums = MomentPlan(fitted(2, 496).exponents_).sums()
    assert tuple(sums.gram.shape) == (61, 61)
    assert tuple(sums.cross.shape) == (31, 31)


def test_a_degree_whose_moments_leave_the_range_of_floats_has_none() -> None:
    features = TaylorFeatures(1024).fit(np.zeros((5_000, 1)))
    assert features._moments is None
    rows = Rows(np.array([[31.0], [2.0]]), np.array([1.0, 2.0]))
    assert torch.isfinite(features.summed([rows], 0.1).gram).all()
