"""What is out of a centroid's reach changes a prediction by less than the tolerance, whatever the data."""

import numpy as np
import pytest
from scipy.special import gammaincc, gammainccinv

from lmgp import GaussianKernel, TaylorFeatures
from lmgp.inference.local import PRUNE, LocalPosterior, fitted_map
from lmgp.locality.placement import cover
from lmgp.noise import Noise
from lmgp.validation import Rows
from tests.conftest import APPROXIMATIONS, TRUNCATED, distances

KERNEL = GaussianKernel(1.0, 1.0)


def wide(d: int, seed: int, n: int = 250) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows over 60 lengthscales of their first column, and new rows within and off them."""
    rng = np.random.default_rng(seed)
    extent = np.concatenate(([60.0], np.full(d - 1, 3.0)))
    X = rng.uniform(0, extent, (n, d))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)  # as the hyper-parameters would have it
    return X, y, np.concatenate((rng.uniform(0, extent, (30, d)), rng.uniform(-3, extent + 3, (10, d))))


def pruned_and_not(features, rows: Rows, noise: Noise, centroids, prune: float = PRUNE, seed: int = 0):
    """Make the posteriors around the same centroids with and without what is out of reach."""
    made = fitted_map(features, KERNEL, rows, centroids, np.random.default_rng(seed))
    return tuple(LocalPosterior(KERNEL, rows, noise, centroids, features=made, prune=p) for p in (prune, 0.0))


def centred(X, y, *arguments) -> Rows:
    return Rows(X, y - np.average(y, weights=arguments[0] if arguments else None), *arguments)


def share_left_out(posterior: LocalPosterior, X: np.ndarray) -> float:
    """The share of pairs of a row and a centroid that are out of reach."""
    return float(np.mean(distances(X, posterior.centroids, 1.0) > posterior.reach))


def assert_within(pruned: LocalPosterior, unpruned: LocalPosterior, T: np.ndarray, tolerance: float) -> None:
    assert unpruned.reach == np.inf
    mean, variance = pruned.predict(T)
    expected_mean, expected_variance = unpruned.predict(T)
    assert np.max(np.abs(mean - expected_mean) / expected_variance**0.5) <= tolerance
    assert np.max(np.abs((variance / expected_variance) ** 0.5 - 1.0)) <= tolerance


@pytest.mark.parametrize("name", TRUNCATED)
@pytest.mark.parametrize("ratio", [1.0, 1e3, 1e6])
@pytest.mark.parametrize(("d", "seed"), [(1, 0), (2, 1), (3, 2)])
def test_the_default_tolerance_is_kept(name: str, ratio: float, d: int, seed: int) -> None:
    X, y, T = wide(d, seed)
    rows = centred(X, y)
    pruned, unpruned = pruned_and_not(
        TRUNCATED[name], rows, Noise(1 / ratio, "dtc"), cover(rows, KERNEL, 2.0), seed=seed
    )
    # Many pairs are left out, or the test would be none.
    assert share_left_out(pruned, X) > 0.3
    assert_within(pruned, unpruned, T, PRUNE)


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("prune", [1e-6, 1e-3, 0.5])
def test_any_tolerance_is_kept(prune: float, approximation: str) -> None:
    X, y, T = wide(2, 0)
    rng = np.random.default_rng(1)
    rows = centred(X, y, rng.uniform(0, 20, len(y)), rng.uniform(1e-4, 1.0, len(y)))
    pruned, unpruned = pruned_and_not(
        TaylorFeatures(28), rows, Noise(0.5, approximation), cover(rows, KERNEL, 1.0), prune
    )
    assert share_left_out(pruned, X) > 0
    assert_within(pruned, unpruned, T, prune)


@pytest.mark.parametrize("name", TRUNCATED)
@pytest.mark.parametrize("ratio", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("own_noise", [False, True])
def test_rows_crowded_just_out_of_reach(name: str, ratio: float, own_noise: bool) -> None:
    # What is left out is as much as the bound allows: many rows with one and the same large y, right beyond it.
    rng = np.random.default_rng(0)
    near = 0.3 * rng.normal(size=(15, 2))
    y = np.concatenate((0.1 * rng.normal(size=15), np.full(14 * 60, 1.0), np.full(14 * 60, -1.0)))
    # The least noise of any row counts, whatever that of new rows.
    noise = Noise(100.0 if own_noise else 1 / ratio, "sor")
    noises = np.where(np.abs(y) == 1.0, 1 / ratio, 50.0) if own_noise else None
    crowd = np.full(14 * 60, 7.0)
    for _ in range(2):
        X = np.concatenate((near, np.column_stack((np.concatenate((crowd, np.full(14 * 60, 30.0))), 0 * y[15:]))))
        pruned, unpruned = pruned_and_not(TRUNCATED[name], centred(X, y, None, noises), noise, np.zeros((1, 2)))
        # The degree of an optimised map depends on the rows, but not what is negligible: a crowd for each degree.
        epsilon = gammaincc(pruned.features.degree_ + 1, pruned.reach**2)
        crowd = np.repeat(np.sqrt(gammainccinv(np.arange(2, 16) + 1, epsilon)), 60) * (1 + 1e-4)
    norms = np.linalg.norm(X, axis=1)
    assert np.sum((norms > pruned.reach) & (norms < 1.001 * pruned.reach)) == 60
    assert_within(pruned, unpruned, np.concatenate((near, 2 * rng.normal(size=(20, 2)))), PRUNE)


def test_a_looser_tolerance_leaves_out_more() -> None:
    X, y, _ = wide(2, 0)
    rows = centred(X, y)
    centroids = cover(rows, KERNEL, 1.0)
    shares = [
        share_left_out(pruned_and_not(TaylorFeatures(28), rows, Noise(0.1), centroids, prune)[0], X)
        for prune in (0.0, 1e-9, 1e-3, 1.0)
    ]
    assert shares == sorted(set(shares))
    assert shares[0] == 0.0


def test_weights_are_repetitions() -> None:
    X, y, _ = wide(2, 0)
    counts = np.random.default_rng(4).integers(1, 4, len(y))
    weighted = centred(X, y, counts.astype(float))
    repeated = centred(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    reaches = [
        pruned_and_not(TaylorFeatures(28), rows, Noise(0.1), cover(rows, KERNEL, 1.0))[0].reach
        for rows in (weighted, repeated)
    ]
    assert reaches[0] == pytest.approx(reaches[1], rel=1e-12)


def test_of_a_constant_target_there_is_a_reach() -> None:
    X, _, T = wide(2, 0)
    rows = Rows(X, np.zeros(len(X)))
    pruned, _ = pruned_and_not(TaylorFeatures(28), rows, Noise(0.1), cover(rows, KERNEL, 1.0))
    assert np.isfinite(pruned.reach)
    np.testing.assert_array_equal(pruned.predict(T)[0], 0.0)
