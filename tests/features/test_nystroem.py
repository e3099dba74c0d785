"""Nyström features: the projected kernel, the landmarks, what is left out, and the sparse processes they make."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    NystroemFeatures,
    farthest_point_clustering,
)
from lmgp.errors import InputError
from lmgp.features import nystroem
from lmgp.metrics import kl_divergence
from lmgp.neighbours.clustering import nearest_centroids
from tests.features.conftest import KERNEL, NOISE, box_rows, projected, wave

Floats = NDArray[np.float64]
STRATEGIES = ["kmeans++", "farthest_point"]
MISSING = ["dtc", "sor", "fitc"]


def left_over(fitted: NystroemFeatures, X: Floats) -> Floats:
    """The eigenvalues of k − φφᵀ over the variance, in ascending order."""
    features = fitted.transform(X)
    return np.linalg.eigvalsh(fitted.kernel_(X) - features @ features.T) / fitted.kernel_.variance


# ----------------------------------------------------------------------------------------------------------- the kernel


@pytest.mark.parametrize("landmarks", [*STRATEGIES, box_rows(15, seed=5)], ids=[*STRATEGIES, "given"])
def test_products_are_the_projected_kernel(landmarks: str | Floats) -> None:
    X, T = box_rows(), box_rows(30, seed=1, extent=6.0)
    fitted = NystroemFeatures(15, landmarks, kernel=KERNEL, random_state=0).fit(X)
    Z = fitted.landmarks_
    assert Z.shape == (15, 2)
    features = fitted.transform(T)
    np.testing.assert_allclose(features @ features.T, projected(KERNEL, Z, T, T), atol=1e-9)
    # Exact where one of the two is a landmark.
    np.testing.assert_allclose(features @ fitted.transform(Z).T, KERNEL(T, Z), atol=1e-13)


def test_equals_scikit_learns_map_of_the_same_landmarks() -> None:
    T = box_rows(30, seed=1)
    fitted = NystroemFeatures(15, kernel=GaussianKernel(0.8), random_state=0).fit(box_rows())
    theirs = Nystroem(kernel="rbf", gamma=0.5 / 0.8**2, n_components=15).fit(fitted.landmarks_).transform(T)
    ours = fitted.transform(T)
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-10)


def test_a_kernel_value_depends_on_the_difference_alone() -> None:
    X, T = box_rows(), box_rows(seed=1)
    shift = np.array([2.0**30, -(2.0**20)])
    X, T = (np.round(part * 2**16) / 2**16 for part in (X, T))  # so that the shift rounds nothing
    kernel = GaussianKernel([0.5, 2.0], 1.7)  # nor the lengthscale
    for landmarks in STRATEGIES:
        here, there = (NystroemFeatures(15, landmarks, kernel=kernel, random_state=0) for _ in range(2))
        features, shifted = here.fit(X).transform(T), there.fit(X + shift).transform(T + shift)
        np.testing.assert_array_equal(there.landmarks_ - shift, here.landmarks_)
        np.testing.assert_allclose(shifted, features, atol=1e-12)


def test_far_from_all_landmarks_everything_is_missing() -> None:
    fitted = NystroemFeatures(15, kernel=KERNEL, random_state=0).fit(box_rows())
    far = torch.tensor([[1e3, 1e3], [1e200, -1e200]], dtype=torch.float64)
    features = fitted.evaluate(far)
    assert torch.all(features == 0.0)
    np.testing.assert_array_equal(fitted.missing_variance(far, features), 1.7)


def test_what_is_missing_is_what_the_square_leaves_and_never_negative() -> None:
    X = box_rows(300)
    fitted = NystroemFeatures(25, kernel=KERNEL, random_state=0).fit(X)
    for T in (X, fitted.landmarks_, box_rows(seed=1, extent=9.0)):
        tensor = torch.from_numpy(T)
        missing = fitted.missing_variance(tensor, fitted.evaluate(tensor)).numpy()
        assert np.all(missing >= 0.0)
        expected = 1.7 - np.diag(projected(KERNEL, fitted.landmarks_, T, T))
        np.testing.assert_allclose(missing, expected, atol=1e-9)
        if T is fitted.landmarks_:
            assert missing.max() < 1e-13


# -------------------------------------------------------------------------------------------------------- the landmarks


def is_row_of(Z: Floats, X: Floats) -> bool:
    return {tuple(z) for z in Z} <= {tuple(x) for x in X}


@pytest.mark.parametrize("landmarks", STRATEGIES)
@pytest.mark.parametrize("n_features", [1, 2, 7, 59])
def test_landmarks_are_rows_spread_out(landmarks: str, n_features: int) -> None:
    X = box_rows(extent=20.0)
    Z = NystroemFeatures(n_features, landmarks, kernel=KERNEL, random_state=0).fit(X).landmarks_
    assert Z.shape == (n_features, 2)
    assert is_row_of(Z, X)
    if n_features == 7:
        chance = [X[np.random.default_rng(seed).permutation(60)[:7]] for seed in range(200)]
        closest = np.array([pdist(KERNEL.scale(part)).min() for part in chance])
        assert np.mean(closest < pdist(KERNEL.scale(Z)).min()) > 0.9


def test_farthest_points_are_those_of_the_clustering() -> None:
    X = box_rows(200)
    Z = NystroemFeatures(12, "farthest_point", kernel=KERNEL).fit(X).landmarks_
    scaled = KERNEL.scale(X)
    (middle,) = nearest_centroids(scaled.mean(axis=0, keepdims=True), scaled)
    expected = farthest_point_clustering(scaled, 1e-9, start=scaled[middle], max_centroids=12)
    order = np.lexsort(Z.T), np.lexsort(expected.T)
    np.testing.assert_allclose(KERNEL.scale(Z)[order[0]], expected[order[1]], rtol=1e-14)


def test_lengthscales_decide_what_is_far() -> None:
    # In lengthscales the second column has no extent.
    X = box_rows(200)
    Z = NystroemFeatures(2, "farthest_point", kernel=GaussianKernel([0.1, 1e3])).fit(X).landmarks_
    assert np.max(np.abs(Z[:, 0] - X[:, 0].mean())) > 1.9


@pytest.mark.parametrize("landmarks", STRATEGIES)
def test_no_more_rows_than_columns_are_all_landmarks(landmarks: str) -> None:
    X = box_rows()
    for n_features in (60, 61, 10_000):
        fitted = NystroemFeatures(n_features, landmarks, kernel=GaussianKernel(0.3), random_state=0).fit(X)
        assert fitted.n_features_out_ == 60
        assert is_row_of(X, fitted.landmarks_)


def test_each_landmark_has_the_largest_variance_given_those_before() -> None:
    Z = NystroemFeatures(15, kernel=KERNEL, random_state=0).fit(box_rows()).landmarks_
    for k in range(1, 15):
        given = 1.7 - np.diag(projected(KERNEL, Z[:k], Z[k:], Z[k:]))
        assert given[0] >= given.max() - 1e-10


def test_random_state_draws_the_landmarks() -> None:
    X = box_rows(300)

    def drawn(seed: int | np.random.Generator | None) -> list[list[float]]:
        return NystroemFeatures(15, random_state=seed).fit(X).landmarks_.tolist()

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)
    assert drawn(None) != drawn(None)
    stream = np.random.default_rng(0)
    assert drawn(stream) != drawn(stream)
    farthest = [NystroemFeatures(15, "farthest_point", random_state=seed).fit(X).landmarks_ for seed in (0, 1)]
    np.testing.assert_array_equal(*farthest)


def test_of_many_rows_a_random_part_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    X = box_rows(500)
    seen: list[int] = []

    def spy(X: Floats, n_clusters: int, *, random_state: int) -> tuple[Floats, NDArray[np.intp]]:
        seen.append(len(X))
        return X[:n_clusters], np.arange(n_clusters)

    monkeypatch.setattr("sklearn.cluster.kmeans_plusplus", spy)
    monkeypatch.setattr(nystroem, "LEAST_ROWS", 100)
    drawn = [NystroemFeatures(size, random_state=seed).fit(X).landmarks_ for size, seed in ((5, 0), (5, 1), (20, 0))]
    NystroemFeatures(80, random_state=0).fit(X)
    assert seen == [100, 100, 200, 500]
    assert is_row_of(np.vstack(drawn), X)
    assert not np.array_equal(drawn[0], drawn[1])


def test_given_landmarks_are_in_the_units_and_the_coordinates_of_the_rows() -> None:
    X, T = box_rows(), box_rows(30, seed=1)
    y = wave(X)
    given = box_rows(9, seed=2)
    before = given.copy()
    features = NystroemFeatures(3, given, kernel=KERNEL)
    assert features.get_params()["landmarks"] is given
    fitted = clone(features).fit(X)
    assert fitted.n_features_out_ == 9  # whatever n_features
    assert is_row_of(given, fitted.landmarks_)
    model = FeaturizedGPRegressor(features, kernel=KERNEL, noise_variance=NOISE).fit(X + 100.0, y)
    assert is_row_of(given, model.features_.landmarks_)
    # The same as a list; what was given is neither changed nor kept.
    listed = NystroemFeatures(landmarks=given.tolist(), kernel=KERNEL).fit(X)
    expected = fitted.transform(T)
    np.testing.assert_array_equal(listed.transform(T), expected)
    np.testing.assert_array_equal(given, before)
    given[:] = 0.0
    np.testing.assert_array_equal(listed.transform(T), expected)


@pytest.mark.parametrize(
    ("landmarks", "error", "message"),
    [
        ("random", ValueError, "The 'landmarks' parameter of NystroemFeatures must be a str among"),
        (None, ValueError, "The 'landmarks' parameter of NystroemFeatures"),
        (5, ValueError, "The 'landmarks' parameter of NystroemFeatures"),
        (np.ones((4, 3)), InputError, r"landmarks must have as many columns as X, 2; got shape \(4, 3\)"),
        (np.ones(2), ValueError, "Expected 2D array"),
        (np.ones((2, 2, 2)), ValueError, "dim 3"),
        (np.ones((0, 2)), ValueError, "0 sample"),
        (np.array([[0.0, np.nan]]), ValueError, "landmarks contains NaN"),
        (np.array([[0.0, np.inf]]), ValueError, "landmarks contains infinity"),
        ([["a", "b"]], ValueError, "could not convert string to float"),
    ],
    ids=str,
)
def test_landmarks_that_cannot_be_used_are_refused(landmarks: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        NystroemFeatures(landmarks=landmarks).fit(box_rows())


# --------------------------------------------------------------------------------------- landmarks that add nothing new


@pytest.mark.parametrize("landmarks", STRATEGIES)
@pytest.mark.parametrize("n_features", [8, 20, 100, 512])
def test_repeated_rows_are_one_landmark(landmarks: str, n_features: int) -> None:
    X = box_rows(20, extent=8.0)
    repeated = np.repeat(X, 10, axis=0)
    fitted = NystroemFeatures(n_features, landmarks, kernel=KERNEL, random_state=0).fit(repeated)
    assert fitted.n_features_out_ == min(n_features, 20)
    assert len(np.unique(fitted.landmarks_, axis=0)) == fitted.n_features_out_
    assert is_row_of(fitted.landmarks_, X)


def test_repeated_landmarks_make_the_map_of_different_ones() -> None:
    X, Z = box_rows(extent=8.0), box_rows(20, seed=1, extent=8.0)
    once = NystroemFeatures(landmarks=Z, kernel=KERNEL).fit(X).transform(X)
    for close in (0.0, 1e-12, 1e-8, 2e-6):
        nearly = Z + np.array([close, 0.0])
        fitted = NystroemFeatures(landmarks=np.vstack((Z, Z, nearly)), kernel=GaussianKernel(1.0, 1.7)).fit(X)
        assert fitted.n_features_out_ == 20
    several = NystroemFeatures(landmarks=np.vstack((Z, Z, Z)), kernel=KERNEL).fit(X).transform(X)
    np.testing.assert_allclose(several @ several.T, once @ once.T, atol=1e-11)


@pytest.mark.parametrize("close", [1e-9, 1e-7, 2e-6, 4e-6, 1e-5, 1e-4, 1e-2])
def test_landmarks_next_to_each_other_keep_the_kernel_above_the_map(close: float) -> None:
    # The worst case: pairs, and nothing else near them. What the second adds is a difference of nearly equal numbers.
    Z = 10.0 * np.array([[i, j] for i in range(4) for j in range(3)]) + box_rows(12, extent=1.0)
    pairs = np.vstack((Z, Z + np.array([close, 0.0])))
    fitted = NystroemFeatures(landmarks=pairs, kernel=GaussianKernel(1.0, 2.5)).fit(Z)
    kept = close**2 > nystroem.NEGLIGIBLE
    assert fitted.n_features_out_ == (24 if kept else 12)
    around = np.vstack([fitted.landmarks_ + step for step in ([0.0, 0.0], [1.0, 0.0], [-0.5, 0.7], [2.0, 2.0])])
    assert left_over(fitted, around)[0] > -max(1e-14, 1e-15 / close**2 if kept else 0.0)


@pytest.mark.parametrize(
    ("d", "extent", "n"), [(1, 0.1, 100), (1, 1.0, 100), (1, 5.0, 200), (2, 0.3, 300), (2, 2.0, 300), (3, 2.0, 500)]
)
def test_many_landmarks_in_a_small_place_lose_no_accuracy(d: int, extent: float, n: int) -> None:
    # K_ZZ is singular in float64 long before all are used: a Cholesky factorisation without pivots fails.
    Z = box_rows(n, d, extent=extent)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(GaussianKernel()(Z))
    fitted = NystroemFeatures(landmarks=Z, kernel=GaussianKernel(1.0, 2.5)).fit(Z)
    assert fitted.n_features_out_ < n
    # Where they lie, the kernel; and nowhere, even far outside, more than the kernel.
    within = fitted.transform(Z)
    np.testing.assert_allclose(within @ within.T, fitted.kernel_(Z), rtol=0, atol=2.5 * 1.01e-11)
    around = np.vstack((Z, box_rows(200, d, seed=1, extent=3 * extent + 2.0) - extent - 1.0))
    assert left_over(fitted, around)[0] > -5e-8
    tensor = torch.from_numpy(around)
    missing = fitted.missing_variance(tensor, fitted.evaluate(tensor))
    assert missing.min() >= 0.0
    np.testing.assert_array_less(missing[:n], 2.5 * 1.01e-11)


def test_a_map_of_dependent_landmarks_is_stable_in_a_model() -> None:
    # Little noise brings out what a jitter on the diagonal would have lost.
    X = np.linspace(0.0, 3.0, 300)[:, None]
    T = np.linspace(-0.2, 3.2, 57)[:, None]
    kernel, noise = GaussianKernel(1.0, 1.0), 1e-6
    y = np.sin(3.0 * X[:, 0]) + 1e-3 * np.random.default_rng(0).standard_normal(300)
    exact = ExactGPRegressor(kernel, noise).fit(X, y).predict(T, return_std=True)
    for approximation in ("dtc", "fitc"):
        model = FeaturizedGPRegressor(
            NystroemFeatures(), kernel=kernel, noise_variance=noise, approximation=approximation
        ).fit(X, y)
        assert model.features_.n_features_out_ < 30
        mean, std = model.predict(T, return_std=True)
        assert kl_divergence(mean, std**2 + noise, exact[0], exact[1] ** 2 + noise).max() < 1e-7
