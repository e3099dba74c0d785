"""One memory limit: what does not fit is refused before it is made, with what would fit."""

import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    MaternKernel,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    StructuredOrthogonalFourierFeatures,
    TaylorFeatures,
)
from lmgp.errors import LmgpError, MemoryLimitError
from lmgp.features.base import KernelMap

GIVEN = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1}
MAPS = [
    TaylorFeatures(1_000_000),
    OptimizedMaclaurinFeatures(1_000_000),
    RandomMaclaurinFeatures(100_000),
    RandomFourierFeatures(100_000),
    OrthogonalFourierFeatures(100_000),
    StructuredOrthogonalFourierFeatures(100_000),
]
REGRESSORS = [
    FeaturizedGPRegressor,
    LocalizedGPRegressor,
    lambda *features, **parameters: LocalizedGPRegressor(*features, centroids="test_rows", **parameters),
]


def rows(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=n)


def refused(act: Any) -> tuple[str, int]:
    """Run what is refused; return the message, and the bytes of numpy's arrays that were held at most."""
    tracemalloc.start()
    try:
        with pytest.raises(MemoryLimitError) as caught:
            act()
        return str(caught.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def said_to_fit(message: str) -> int:
    return int(message.split("Use at most ")[1].split(" features")[0].replace(",", ""))


@pytest.mark.parametrize("regressor", REGRESSORS, ids=["featurized", "localized", "test_rows"])
@pytest.mark.parametrize("features", MAPS, ids=lambda features: type(features).__name__)
def test_a_map_that_does_not_fit_is_not_made(regressor, features, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(100)
    model = regressor(features, **GIVEN)
    monkeypatch.setattr(type(features), "draw", None)
    for name in ("empty", "zeros", "randn"):
        monkeypatch.setattr(torch, name, None)
    message, n_bytes = refused(lambda: model.fit(X, y))
    assert n_bytes < 10 * 2**20
    assert f"{features.n_features:,} columns" in message or "columns take" in message
    assert "above the 4.0 GiB of max_memory_gib=4. " in message
    # Three matrices of float64 in 4 GiB, less the parameters of the map.
    assert 10_000 <= said_to_fit(message) <= (2**32 / 24) ** 0.5
    assert not hasattr(model, "kernel_")


@pytest.mark.parametrize("regressor", REGRESSORS, ids=["featurized", "localized", "test_rows"])
def test_what_is_said_to_fit_does(regressor) -> None:
    X, y = rows(100)
    message, _ = refused(lambda: regressor(RandomFourierFeatures(2000), max_memory_gib=0.01, **GIVEN).fit(X, y))
    largest = said_to_fit(message)
    assert 500 < largest < 2000
    model = regressor(RandomFourierFeatures(largest), max_memory_gib=0.01, random_state=0, **GIVEN)
    assert np.isfinite(model.fit(X, y).predict(X[:2])).all()


def test_landmarks_are_no_more_than_rows() -> None:
    X, y = rows(100)
    model = FeaturizedGPRegressor(NystroemFeatures(10**9), max_memory_gib=0.01, random_state=0, **GIVEN)
    assert model.fit(X, y).features_.n_features_out_ <= 100


def test_a_map_alone_is_held_against_the_machines_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmgp.utils.memory._machine_bytes", lambda: 2.0**20)
    for features in MAPS[1:]:
        message, n_bytes = refused(lambda features=features: features.fit(rows(100)[0]))
        assert "of this machine. At most about" in message
        assert n_bytes < 2**20
        assert isinstance(features, KernelMap)


class TestRows:
    """Of the exact process: when the first row is predicted, so that hyperparameters can be learned."""

    def test_refused_before_anything_is_allocated(self) -> None:
        X, y = rows()
        model = ExactGPRegressor(**GIVEN, solver="cholesky", max_learning_rows=50, max_memory_gib=0.1)
        message, n_bytes = refused(lambda: model.fit(X, y))
        assert n_bytes < 8 * 3000**2 / 20
        for part in ("3,000 rows", "137 MiB", "max_memory_gib=0.1", "At most 2,590 rows fit", "FeaturizedGPRegressor"):
            assert part in message

    @pytest.mark.parametrize("kernel", [GaussianKernel(1.0), MaternKernel(1.0)])
    def test_around_centroids_as_well(self, kernel) -> None:
        X, y = rows()
        model = LocalizedGPRegressor(solver="dual", kernel=kernel, noise_variance=0.1, max_memory_gib=0.01)
        message, _ = refused(lambda: model.fit(X, y).predict(X[:2]))
        assert "At most 819 rows fit" in message

    def test_limit_is_where_it_is_said_to_be(self) -> None:
        X, y = rows(100)
        needed = 16 * 100**2 / 2**30
        ExactGPRegressor(**GIVEN, solver="cholesky", max_memory_gib=needed * 1.0001).fit(X, y).predict(X[:1])
        with pytest.raises(MemoryLimitError):
            ExactGPRegressor(**GIVEN, solver="cholesky", max_memory_gib=needed * 0.9999).fit(X, y).predict(X[:1])


def test_the_error_is_pythons_and_the_packages() -> None:
    assert issubclass(MemoryLimitError, MemoryError)
    assert issubclass(MemoryLimitError, LmgpError)


def test_a_refused_refit_leaves_the_model_as_it_was() -> None:
    X, y = rows(100)
    model = FeaturizedGPRegressor(TaylorFeatures(15), **GIVEN).fit(X, y)
    expected = model.predict(X[:5], return_std=True)
    with pytest.raises(MemoryLimitError):
        model.set_params(features=TaylorFeatures(1_000_000)).fit(2 * X, y)
    np.testing.assert_array_equal(model.predict(X[:5], return_std=True), expected)
