"""The rows from whose pairs the columns of a Maclaurin map are allocated: within reach of a common centroid."""

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp import GaussianKernel, OptimizedMaclaurinFeatures
from lmgp.features import maclaurin
from lmgp.features.allocation import ErrorTerms, sample_groups
from lmgp.features.sketches import SKETCHES, Sketch

Floats = NDArray[np.float64]


def spy_on_groups(monkeypatch: pytest.MonkeyPatch) -> list[list[Floats]]:
    seen: list[list[Floats]] = []
    original = ErrorTerms.of_groups

    def of_groups(groups: list[Floats], sketch: Sketch, max_degree: int) -> ErrorTerms:
        seen.append(groups)
        return original(groups, sketch, max_degree)

    monkeypatch.setattr(maclaurin.ErrorTerms, "of_groups", of_groups)
    return seen


@pytest.mark.parametrize("allocation", ["local", "mean"])
@pytest.mark.parametrize("n_rows", [2, 3, 24, 50, 120])
def test_no_more_rows_are_used_than_allowed(allocation: str, n_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spy_on_groups(monkeypatch)
    X = np.random.default_rng(0).standard_normal((300, 3))
    centroids = np.random.default_rng(1).standard_normal((30, 3))
    for around in (None, centroids):
        OptimizedMaclaurinFeatures(30, allocation=allocation, n_allocation_rows=n_rows, random_state=0).fit(
            X, centroids=around
        )
        used = sum(map(len, seen[-1]))
        assert 2 <= used <= n_rows
        # All of them, unless there are groups of unequal need.
        assert used >= 0.5 * n_rows


def test_the_sample_is_random_and_without_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spy_on_groups(monkeypatch)
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (300, 3))
    for allocation in ("mean", "local"):
        for seed in (0, 1):
            OptimizedMaclaurinFeatures(30, allocation=allocation, n_allocation_rows=100, random_state=seed).fit(X)
        first, second = (groups[0] for groups in seen[-2:])
        for group in (first, second):
            assert len(np.unique(group, axis=0)) == len(group) == 100
            assert all(np.any(np.all(row == X, axis=1)) for row in group)
        assert not np.array_equal(np.sort(first, axis=0), np.sort(second, axis=0))


# --------------------------------------------------------------------------------------------------------------- local


CENTRES = np.array([[-16.0, 8.0, 4.0], [32.0, -8.0, 0.0]])


def two_clusters(n: int) -> tuple[Floats, Floats]:
    """The same small cluster twice, far apart; binary fractions, so that differences to the centres are exact."""
    cluster = np.round(0.5 * np.random.default_rng(5).standard_normal((n, 3)) * 2**20) / 2**20
    return cluster, np.vstack([cluster + centre for centre in CENTRES])


@pytest.mark.parametrize("sketch", SKETCHES)
def test_local_pairs_are_differences_to_the_centroids(sketch: Sketch, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, X = two_clusters(100)
    seen = spy_on_groups(monkeypatch)
    one = OptimizedMaclaurinFeatures(200, sketch=sketch, random_state=0).fit(cluster)
    # Rows enough for both clusters whole.
    two = OptimizedMaclaurinFeatures(200, sketch=sketch, random_state=0).fit(X, centroids=CENTRES)
    assert len(seen[-1]) == 2
    for group in seen[-1]:
        np.testing.assert_array_equal(np.unique(group, axis=0), np.unique(cluster, axis=0))
    assert two.degree_counts_.tolist() == one.degree_counts_.tolist()
    assert two.degree_ == one.degree_
    # Around the origin, between the clusters, everything is far away.
    mean = OptimizedMaclaurinFeatures(200, sketch=sketch, allocation="mean", random_state=0).fit(X, centroids=CENTRES)
    assert mean.degree_counts_.tolist() != one.degree_counts_.tolist()


def test_a_regressors_call_centres_the_rows_and_the_centroids() -> None:
    _, X = two_clusters(100)
    centroids = CENTRES + 0.25
    direct = OptimizedMaclaurinFeatures(200, random_state=0).fit(X, centroids=centroids)
    shift = 1000.0
    around = OptimizedMaclaurinFeatures(200, random_state=0).fit_around(X + shift, centroids + shift)
    assert around.degree_counts_.tolist() == direct.degree_counts_.tolist()
    # "mean": pairs around the mean of the rows, wherever that is.
    mean = OptimizedMaclaurinFeatures(200, allocation="mean", random_state=0).fit_around(X + shift, centroids + shift)
    centred = OptimizedMaclaurinFeatures(200, allocation="mean", random_state=0).fit(X - X.mean(axis=0))
    assert mean.degree_counts_.tolist() == centred.degree_counts_.tolist()


def test_centroids_are_scaled_like_the_rows() -> None:
    cluster, X = two_clusters(100)
    lengthscale = np.array([2.0, 0.5, 4.0])
    unit = OptimizedMaclaurinFeatures(200, random_state=0).fit(cluster)
    fitted = OptimizedMaclaurinFeatures(200, kernel=GaussianKernel(lengthscale), random_state=0)
    fitted.fit(X * lengthscale, centroids=CENTRES * lengthscale)
    assert fitted.degree_counts_.tolist() == unit.degree_counts_.tolist()


def test_rows_out_of_reach_of_a_centroid_are_left_out() -> None:
    cluster, X = two_clusters(100)
    rng = np.random.default_rng(0)
    groups = sample_groups(X, CENTRES, 500, 15, rng)
    assert sorted(map(len, groups)) == [100, 100]
    groups = sample_groups(X, CENTRES[:1], 500, 15, rng)
    assert len(groups) == 1
    np.testing.assert_array_equal(np.unique(groups[0], axis=0), np.unique(cluster, axis=0))
    # The reach grows with the degree: Q(p + 1, r²) > 1e-6 at r = 6 holds for p = 15 but not for p = 2.
    ring = np.vstack((cluster, [[6.0, 0.0, 0.0], [0.0, 6.0, 0.0]]))
    centre = np.zeros((1, 3))
    assert len(sample_groups(ring, centre, 500, 15, rng)[0]) == 102
    assert len(sample_groups(ring, centre, 500, 2, rng)[0]) == 100


def test_no_row_within_reach_of_any_centroid_is_no_error() -> None:
    cluster, _ = two_clusters(50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = OptimizedMaclaurinFeatures(60, random_state=0).fit(cluster + 100.0)
        lonely = OptimizedMaclaurinFeatures(60, random_state=0).fit(100.0 * np.eye(3))
    assert fitted.degree_counts_.sum() == lonely.degree_counts_.sum() == 60


def test_many_centroids_share_the_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-20.0, 20.0, (2000, 2))
    groups = sample_groups(X, X[:400], 500, 15, rng)
    assert 15 <= len(groups) <= 20
    assert sum(map(len, groups)) <= 500
    assert all(np.square(group).sum(axis=1).max() < 6.5**2 for group in groups)
