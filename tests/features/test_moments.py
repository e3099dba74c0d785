"""The Gram matrix by way of moments, against the product of the features."""

import numpy as np
import pytest
import torch

from lmgp import GaussianKernel, TaylorFeatures
from lmgp.data import Noise, Rows, Source
from lmgp.features.moments import MomentPlan, MomentSums
from lmgp.features.statistics import GramSums, Statistics

SHAPES = [(1, 5), (1, 30), (2, 6), (2, 120), (3, 84), (4, 126), (5, 126), (6, 210)]  # inputs, columns


def made(d: int, n: int = 300, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    return Rows(rng.normal(size=(n, d)) * 2.0 + 0.3, np.column_stack((rng.normal(size=n), np.ones(n))))


def fitted(d: int, n_features: int, n: int = 300, index_set: str = "total_degree") -> TaylorFeatures:
    kernel = GaussianKernel(np.linspace(0.8, 1.4, d), 2.5)
    rows = np.random.default_rng(2).normal(size=(n, d)) * np.geomspace(1.0, 0.1, d)
    return TaylorFeatures(n_features, index_set=index_set, kernel=kernel).fit(rows, centroids=np.zeros((1, d)))


def products(features: TaylorFeatures, rows: Rows, precision: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """ΦᵀPΦ and ΦᵀPY."""
    columns = features.transform(rows.X)
    weighted = columns * np.broadcast_to(precision, len(rows))[:, None]
    return weighted.T @ columns, weighted.T @ rows.Y


@pytest.mark.parametrize(("d", "n_features"), SHAPES)
@pytest.mark.parametrize("kind", ["plain", "weights", "noise", "fitc", "all"])
@pytest.mark.parametrize("index_set", ["total_degree", "energy"])
def test_moments_give_the_products_of_the_features(
    d: int, n_features: int, kind: str, index_set: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MomentPlan, "pays", lambda *_: True)  # whether or not that is the cheaper way
    features, rows, noise = fitted(d, n_features, index_set=index_set), made(d), 0.3
    rng = np.random.default_rng(1)
    precision = np.ones(len(rows))
    weights = rng.integers(1, 4, len(rows)).astype(float) if kind in ("weights", "all") else None
    variances = rng.uniform(0.1, 2.0, len(rows)) if kind in ("noise", "all") else None
    total = np.full(len(rows), noise) if variances is None else variances.copy()
    if kind in ("fitc", "all"):
        total += features.kernel_.variance - np.square(features.transform(rows.X)).sum(axis=1)
    precision = noise / total * (1.0 if weights is None else weights)

    rows = Rows(rows.X, rows.Y, weights, variances)
    chunks = (rows.take(part) for part in (slice(0, 100), slice(100, 101), slice(101, 300)))
    found = features.summed(chunks, Source(Noise(noise, "fitc" if kind in ("fitc", "all") else "dtc")), 2)
    assert isinstance(found.sums, MomentSums)
    sums, targets = found.sums.expand(), found.targets
    gram, cross = products(features, rows, precision)
    scale = np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    lower = np.tril_indices(len(gram))
    # Where φ² summed over the rows is next to nothing, so is the entry's bound.
    assert np.all(np.abs(sums.gram.numpy() - gram)[lower] <= 1e-11 * scale[lower] + 1e-13 * gram.max())
    np.testing.assert_allclose(sums.cross.numpy(), cross, rtol=1e-10, atol=1e-12 * np.abs(cross).max())
    assert targets.n == pytest.approx(len(rows) if weights is None else weights.sum())
    np.testing.assert_allclose(targets.products, (precision[:, None] * rows.Y).T @ rows.Y, rtol=1e-10)
    expected = np.sum((1.0 if weights is None else weights) * np.log(noise / total))
    assert targets.log_precision == pytest.approx(expected, abs=1e-10)


def test_statistics_by_moments_add_and_subtract() -> None:
    features, rows = fitted(2, 45), made(2)
    source = features.source(Noise(0.3), np.zeros(2))
    whole = features.summed([rows], source, 2)
    assert isinstance(whole.sums, MomentSums)
    first, second = (features.summed([rows.take(part)], source, 2) for part in (slice(0, 120), slice(120, 300)))
    for found, expected in (((first + second).sums, whole), (whole.sums.combine(first.sums, -1.0), second)):
        found, expected = found.expand(), expected.sums.expand()
        np.testing.assert_allclose(found.gram.tril(), expected.gram.tril(), rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(found.cross, expected.cross, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("moments_first", [False, True])
def test_sums_of_moments_and_of_products_add(sign: float, moments_first: bool) -> None:
    features, rows = fitted(2, 45), made(2)
    source = features.source(Noise(0.3, "dtc"), np.zeros(2))
    halves = [rows.take(part) for part in (slice(0, 120), slice(120, 300))]
    moments = features.summed([halves[0]], source, 2)
    products = Statistics.zeros(features.n_features_out_, 2, source)
    products.add([(halves[1], torch.from_numpy(features.transform(halves[1].X)), None)])
    assert isinstance(moments.sums, MomentSums)
    assert isinstance(products.sums, GramSums)
    pair = (moments, products) if moments_first else (products, moments)
    found = pair[0].sums.combine(pair[1].sums, sign).expand()
    phi = [features.transform(half.X) for half in halves]
    grams = [one.T @ one for one in phi][:: 1 if moments_first else -1]
    crosses = [one.T @ half.Y for one, half in zip(phi, halves, strict=True)][:: 1 if moments_first else -1]
    np.testing.assert_allclose(found.gram.tril(), np.tril(grams[0] + sign * grams[1]), atol=1e-11 * grams[1].max())
    np.testing.assert_allclose(found.cross, crosses[0] + sign * crosses[1], atol=1e-10)


@pytest.mark.parametrize("distance", [30.0, 1e3, 1e150])
def test_rows_far_away_are_summed_without_moments(distance: float) -> None:
    """e^{−‖x‖²} underflows there, the features of a high degree need not."""
    features = TaylorFeatures(300).fit(np.zeros((50, 1)), centroids=np.zeros((1, 1)))
    near = Rows(np.array([[0.5], [-3.0], [15.0]]), np.array([1.0, -2.0, 0.5]))
    far = Rows(np.array([[distance], [0.1]]), np.array([3.0, 1.0]))
    total = features.summed([near, far], Source(Noise(0.1, "dtc")), 1)
    assert isinstance(total.sums, MomentSums)
    found = total.sums.expand()
    everything = Rows(np.concatenate((near.X, far.X)), np.concatenate((near.Y, far.Y)))
    columns = features.transform(everything.X)
    np.testing.assert_allclose(found.gram.tril(), np.tril(columns.T @ columns), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(found.cross, columns.T @ everything.Y, rtol=1e-9, atol=1e-15)
    assert total.targets.n == 5


def uses_moments(features: TaylorFeatures) -> bool:
    return isinstance(features.summed([made(features.n_features_in_, 4)], Source(Noise(1.0)), 2).sums, MomentSums)


def test_the_cheaper_way_is_found_by_counting() -> None:
    """Of the two ways, the one with fewer multiplications."""
    assert uses_moments(fitted(2, 496, n=4_000))
    assert uses_moments(fitted(6, 924, n=4_000))  # 455² against 924²/2
    assert not uses_moments(fitted(8, 495, n=4_000))  # 245,025 multiplications for the moments against 122,760
    assert not uses_moments(fitted(2, 1, n=4_000))  # one column has one product
    assert not uses_moments(fitted(2, 496, n=2))  # planning costs more than two rows do
    sums = MomentPlan(fitted(2, 496).exponents_).sums(1.0, 2)
    assert tuple(sums.gram.shape) == (61, 61)
    assert tuple(sums.cross.shape) == (2, 31, 31)


def test_a_map_outside_of_a_model_plans_no_moments() -> None:
    X = made(2, 4_000).X
    assert not uses_moments(TaylorFeatures(496).fit(X))
    assert uses_moments(TaylorFeatures(496).fit_around(X, X[:3]))


def test_a_degree_whose_moments_leave_the_range_of_floats_has_none() -> None:
    features = TaylorFeatures(1024).fit(np.zeros((5_000, 1)), centroids=np.zeros((1, 1)))
    assert not uses_moments(features)
    rows = Rows(np.array([[31.0], [2.0]]), np.array([1.0, 2.0]))
    assert torch.isfinite(features.summed([rows], Source(Noise(0.1)), 1).sums.expand().gram).all()
