"""Index sets of Taylor maps: their definition, and what they are for."""

from itertools import product
from math import factorial

import numpy as np
import pytest

from lmgp import ExactGPRegressor, FeaturizedGPRegressor, GaussianKernel, LocalizedGPRegressor, TaylorFeatures
from lmgp.features.index_sets import most_energetic, total_degree
from lmgp.metrics import kl_divergence


def sample(d: int, extents: list[float], m: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(m, d)) * extents


def energy(rows: np.ndarray, index: tuple[int, ...]) -> float:
    scale = np.prod([factorial(power) for power in index])
    return float(np.mean(np.exp(-np.square(rows).sum(axis=1)) * np.prod(rows ** (2 * np.array(index)), axis=1) / scale))


def greedily(rows: np.ndarray, n_features: int, highest: int) -> list[tuple[int, ...]]:
    """The same by looking at every multi-index in a box in every step."""
    box = list(product(range(highest + 1), repeat=rows.shape[1]))
    energies = {index: energy(rows, index) for index in box}
    taken: list[tuple[int, ...]] = []
    while len(taken) < n_features:
        open_ = [
            index
            for index in box
            if index not in taken
            and all(power == 0 or (*index[:j], power - 1, *index[j + 1 :]) in taken for j, power in enumerate(index))
        ]
        taken.append(max(open_, key=lambda index: (energies[index], -sum(index))))
    return taken


@pytest.mark.parametrize(("d", "extents"), [(1, [1.5]), (2, [2.0, 0.4]), (3, [1.0, 0.3, 2.0])])
def test_the_set_is_grown_greedily(d: int, extents: list[float]) -> None:
    rows = sample(d, extents)
    found = [tuple(index) for index in most_energetic(rows, 12).tolist()]
    assert found == greedily(rows, 12, highest=12 if d < 3 else 9)


@pytest.mark.parametrize(("d", "extents"), [(2, [3.0, 0.2]), (6, [2.0, 1.0, 0.5, 0.2, 0.1, 1.5])])
def test_sets_are_closed_downwards_nested_and_deterministic(d: int, extents: list[float]) -> None:
    rows = sample(d, extents)
    large = most_energetic(rows, 200)
    taken: set[tuple[int, ...]] = set()
    for index in map(tuple, large.tolist()):
        for j, power in enumerate(index):
            assert power == 0 or (*index[:j], power - 1, *index[j + 1 :]) in taken
        taken.add(index)
    assert len(taken) == 200
    np.testing.assert_array_equal(most_energetic(rows, 50), large[:50])
    np.testing.assert_array_equal(most_energetic(rows.copy(), 200), large)


def test_rows_at_the_centre_give_all_monomials_of_low_degree() -> None:
    """Where no monomial has any energy, the order is that of the degree."""
    grown = most_energetic(np.zeros((5, 3)), 20)
    assert sorted(map(tuple, grown.tolist())) == sorted(map(tuple, total_degree(3, 3).tolist()))


def test_the_map_has_exactly_as_many_columns_as_asked_for() -> None:
    X = sample(4, [2.0, 1.0, 0.5, 0.1])
    features = TaylorFeatures(101, index_set="energy").fit(X)
    assert features.n_features_out_ == 101
    assert TaylorFeatures(101).fit(X).n_features_out_ == 70
    Z = sample(4, [1.0, 1.0, 0.5, 0.1], seed=1)
    columns = features.transform(Z)
    for number in (0, 7, 50, 100):
        a = features.exponents_[number]
        expected = np.exp(-np.square(Z).sum(1) / 2) * np.prod(Z**a, axis=1)
        expected /= np.sqrt(np.prod([factorial(int(power)) for power in a]))
        np.testing.assert_allclose(columns[:, number], expected, rtol=1e-12, atol=1e-300)


def test_unequal_extents_are_where_energy_pays() -> None:
    """Two of five columns carry all the variation: the rest should take no columns of the map."""
    rng = np.random.default_rng(0)
    X, Z = (rng.uniform(-1.0, 1.0, (n, 5)) * [4.0, 3.0, 0.1, 0.05, 0.02] for n in (400, 200))
    y = np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.1 * rng.normal(size=400)
    shared = {"kernel": GaussianKernel(1.0), "noise_variance": 0.01, "approximation": "dtc"}
    mean, std = (
        ExactGPRegressor(shared["kernel"], shared["noise_variance"])
        .fit(X, y)
        .predict(Z, return_std=True, include_noise=True)
    )
    kl = {}
    for index_set in ("total_degree", "energy"):
        model = LocalizedGPRegressor(TaylorFeatures(126, index_set=index_set), 1.0, **shared).fit(X, y)
        m, s = model.predict(Z, return_std=True, include_noise=True)
        kl[index_set] = float(kl_divergence(m, s**2, mean, std**2).mean())
    assert kl["energy"] < 0.1 * kl["total_degree"]


@pytest.mark.parametrize("approximation", ["dtc", "sor", "fitc"])
def test_a_model_equals_dense_algebra(approximation: str) -> None:
    rng = np.random.default_rng(0)
    X, Z = (rng.normal(size=(n, 2)) * [2.0, 0.5] for n in (60, 20))
    y, noise, kernel = rng.normal(size=60), 0.2, GaussianKernel(1.0, 1.7)
    features = TaylorFeatures(30, index_set="energy")
    model = FeaturizedGPRegressor(features, kernel=kernel, noise_variance=noise, approximation=approximation)
    mean, std = model.fit(X, y).predict(Z, return_std=True)

    left, right = (model.features_.transform(part - X.mean(axis=0)) for part in (X, Z))
    missing = [1.7 - np.square(columns).sum(axis=1) for columns in (left, right)]
    assert min(map(np.min, missing)) > -1e-12
    covariance = left @ left.T + np.diag(noise + (missing[0] if approximation == "fitc" else np.zeros(60)))
    cross = left @ right.T
    solved = np.linalg.solve(covariance, np.column_stack((y - y.mean(), cross)))
    variance = np.square(right).sum(axis=1) - np.einsum("ij,ij->j", cross, solved[:, 1:])
    np.testing.assert_allclose(mean, cross.T @ solved[:, 0] + y.mean(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(std**2, variance + (0.0 if approximation == "sor" else missing[1]), rtol=1e-6)
