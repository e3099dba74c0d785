"""What the tests of streams share: models, rows and chunks of them."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lmgp import (
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    SpectralGPRegressor,
    TaylorFeatures,
)

GIVEN = {"kernel": GaussianKernel([1.2, 1.0], 1.5), "noise_variance": 0.05}
MODELS: dict[str, Any] = {
    "featurized": FeaturizedGPRegressor(TaylorFeatures(40), **GIVEN),
    "featurized_nystroem": FeaturizedGPRegressor(NystroemFeatures(30), **GIVEN, random_state=0),
    "featurized_trend": FeaturizedGPRegressor(TaylorFeatures(40), **GIVEN, trend="linear"),
    "localized": LocalizedGPRegressor(TaylorFeatures(28), threshold=2.0, **GIVEN),
    "nearest": NearestNeighborsGPRegressor(20, **GIVEN),
    # So small that two solutions agree to 1e-8.
    "spectral": SpectralGPRegressor(1e-9, **GIVEN, box=[[0.0, 0.0], [6.0, 5.0]]),
    "spectral_trend": SpectralGPRegressor(1e-9, **GIVEN, trend="linear", box=[[0.0, 0.0], [6.0, 5.0]]),
}
every_model = pytest.mark.parametrize("name", MODELS)
# Without any: all other tests.
ARGUMENTS = [("sample_weight",), ("sample_weight", "noise_variances")]


def drawn(n: int = 240) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows from left to right, targets around 7, and new rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, [6.0, 5.0], (n, 2))
    X = X[np.argsort(X[:, 0] + rng.uniform(0.0, 3.0, n))]
    return (
        X,
        7.0 + np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n),
        rng.uniform(0, [6.0, 5.0], (30, 2)),
    )


def chunks(X: np.ndarray, y: np.ndarray, size: int = 40, **more: np.ndarray) -> list[tuple[Any, ...]]:
    return [
        (X[i : i + size], y[i : i + size], *(one[i : i + size] for one in more.values()))
        for i in range(0, len(X), size)
    ]


def both(model: Any, T: np.ndarray) -> np.ndarray:
    return np.array(model.predict(T, return_std=True))


@cache
def of_chunks(name: str) -> np.ndarray:
    """The predictions of a model of all chunks."""
    X, y, T = drawn()
    return both(clone(MODELS[name]).fit(chunks(X, y)), T)
