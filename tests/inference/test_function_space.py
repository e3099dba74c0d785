"""Exact predictions from a part of the rows, around centroids and for each test row by itself."""

import numpy as np
import pytest
from scipy.spatial import KDTree

from lmgp import ExactGPRegressor, GaussianKernel, LocalizedGPRegressor, OrthogonalFourierFeatures, TaylorFeatures
from lmgp.errors import NumericalWarning
from lmgp.inference import function_space as dual

KERNEL = GaussianKernel([0.3, 0.6], 2.0)
NOISE = 0.1
D = 36


def draw(n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform([3.0, -4.0], [9.0, 4.0], (n, 2))
    y = 5.0 + np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.normal(size=n)
    return X, y, np.concatenate((rng.uniform([3.0, -4.0], [9.0, 4.0], (25, 2)), X[:3], X[:2] + 40.0))


def localized(**parameters: object) -> LocalizedGPRegressor:
    return LocalizedGPRegressor(TaylorFeatures(D), kernel=KERNEL, noise_variance=NOISE, **parameters)


def exact_from(rows: np.ndarray, X: np.ndarray, y: np.ndarray, z: np.ndarray, noise: np.ndarray) -> tuple[float, float]:
    """Eq. 1 for one row and centred y, by numpy's general solver."""
    X, y, noise = X[rows], y[rows], noise[rows]
    if not len(y):
        return 0.0, 2.0
    cross = KERNEL(X, z[None, :])[:, 0]
    solved = np.linalg.solve(KERNEL(X) + np.diag(noise), np.column_stack((y, cross)))
    return cross @ solved[:, 0], 2.0 - cross @ solved[:, 1]


def within(model: LocalizedGPRegressor, X: np.ndarray, centroid: np.ndarray) -> np.ndarray:
    distances = np.linalg.norm((X - centroid) / KERNEL.lengthscale, axis=1)
    return np.flatnonzero(distances <= model.reach_)


@pytest.mark.parametrize("centroids", ["farthest_point", "test_rows"])
@pytest.mark.parametrize("own_noise", [False, True])
def test_a_dual_model_is_the_exact_one_of_the_rows_within_reach(centroids: str, own_noise: bool) -> None:
    X, y, Z = draw()
    noises = np.random.default_rng(1).uniform(0.05, 0.5, len(y)) if own_noise else np.full(len(y), NOISE)
    model = localized(solver="dual", centroids=centroids, prune=0.5)
    model.fit(X, y, noise_variances=noises if own_noise else None)
    mean, std = model.predict(Z, return_std=True)
    sizes = set()
    for z, m, s in zip(Z, mean, std, strict=True):
        scaled = np.linalg.norm((model.centroids_ - z) / KERNEL.lengthscale, axis=1)
        rows = within(model, X, z if centroids == "test_rows" else model.centroids_[scaled.argmin()])
        sizes.add(len(rows))
        expected = exact_from(rows, X, y - y.mean(), z, noises)
        assert m - y.mean() == pytest.approx(expected[0], rel=1e-8, abs=1e-10)
        assert s**2 == pytest.approx(expected[1], rel=1e-7)
    assert len(sizes) > 3
    assert max(sizes) < len(y)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 7, 150, 1000])
def test_neighbours_of_each_row(k: int, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In batches, of one size and of several, with repeated test rows: each row from its own k nearest."""
    X, y, Z = draw()
    weights = np.random.default_rng(1).integers(1, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    monkeypatch.setattr(dual, "BATCH_BYTES", 8 * 7**2 * 4)
    model = localized(solver="dual", centroids="test_rows", n_neighbors=k)
    model.fit(X, y, sample_weight=weights if weighted else None)
    Z = np.concatenate((Z, Z[:2]))
    mean, std = model.predict(Z, return_std=True)
    for z, m, s in zip(Z, mean, std, strict=True):
        rows = np.argsort(np.linalg.norm((X - z) / KERNEL.lengthscale, axis=1), kind="stable")[:k]
        centre = np.average(y, weights=weights)
        expected = exact_from(rows, X, y - centre, z, NOISE / weights)
        assert m - centre == pytest.approx(expected[0], rel=1e-8, abs=1e-10)
        assert s**2 == pytest.approx(expected[1], rel=1e-7)


def test_around_centroids_the_neighbours_are_those_of_the_centroid() -> None:
    X, y, Z = draw()
    model = localized(solver="dual", n_neighbors=20, threshold=2.0).fit(X, y)
    mean = model.predict(Z[:25])
    for z, m in zip(Z[:25], mean, strict=True):
        scaled = np.linalg.norm((model.centroids_ - z) / KERNEL.lengthscale, axis=1)
        nearest = np.linalg.norm((X - model.centroids_[scaled.argmin()]) / KERNEL.lengthscale, axis=1).argsort()[:20]
        expected = exact_from(nearest, X, y - y.mean(), z, np.full(len(y), NOISE))
        assert m - y.mean() == pytest.approx(expected[0], rel=1e-8, abs=1e-10)


def test_all_rows_within_reach_give_the_exact_process() -> None:
    """Of a map that reaches everywhere."""
    X, y, Z = draw()
    exact = ExactGPRegressor(KERNEL, NOISE).fit(X, y).predict(Z, return_std=True)
    shared = {"kernel": KERNEL, "noise_variance": NOISE, "random_state": 0}
    model = LocalizedGPRegressor(OrthogonalFourierFeatures(8), solver="dual", **shared).fit(X, y)
    np.testing.assert_allclose(model.predict(Z, return_std=True), exact, rtol=1e-9)


def test_auto_takes_the_smaller_form_at_each_centroid() -> None:
    X, y, Z = draw()
    models = {solver: localized(solver=solver, prune=0.5).fit(X, y) for solver in ("primal", "dual", "auto")}
    found = {solver: model.predict(Z[:25]) for solver, model in models.items()}
    auto = models["auto"]
    nearest = KDTree(auto.centroids_ / KERNEL.lengthscale).query(Z[:25] / KERNEL.lengthscale)[1]
    few = np.array([len(within(auto, X, auto.centroids_[index])) < D for index in nearest])
    assert 0 < few.sum() < 25
    np.testing.assert_array_equal(found["auto"][few], found["dual"][few])
    np.testing.assert_array_equal(found["auto"][~few], found["primal"][~few])
    assert abs(found["dual"] - found["primal"])[few].max() > 1e-6


def test_without_rows_within_reach_it_is_the_prior() -> None:
    X, y, _ = draw()
    model = localized(solver="dual", centroids="test_rows").fit(X, y)
    mean, std = model.predict([[500.0, 0.0]], return_std=True)
    assert (mean[0], std[0]) == (pytest.approx(y.mean()), pytest.approx(2.0**0.5))


def test_repeated_rows_without_noise_to_speak_of_are_corrected_and_told() -> None:
    X, y, Z = draw(30)
    X = np.repeat(X, 3, axis=0)
    model = LocalizedGPRegressor(
        TaylorFeatures(D), solver="dual", centroids="test_rows", n_neighbors=9, kernel=KERNEL, noise_variance=1e-17
    )
    with pytest.warns(NumericalWarning, match="was added to its diagonal"):
        mean = model.fit(X, np.repeat(y, 3)).predict(Z)
    assert np.isfinite(mean).all()


def test_dual_models_are_kept_within_the_memory_allowed() -> None:
    X, y, Z = draw()
    model = localized(solver="dual").fit(X, y)
    model.predict(Z)
    assert 0 < model._solved.n_bytes == sum(solved.n_bytes for solved in model._solved.values())
    none = localized(solver="dual", max_memory_gib=0.0).fit(X, y)
    np.testing.assert_array_equal(none.predict(Z), model.predict(Z))
    assert len(none._solved) == 0
