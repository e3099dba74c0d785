"""What a fit at given hyperparameters takes: one factorisation, and one look at each row."""

from typing import Any

import numpy as np
import pytest
import sklearn.utils.validation
import torch
from sklearn.base import clone

from lmgp import ExactGPRegressor, GaussianKernel
from tests.conftest import make

N, M, D = 61, 7, 2
RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(0.0, 4.0, (N, D)), RNG.uniform(0.0, 4.0, (M, D))
Y = np.column_stack((np.sin(X[:, 0]), np.cos(X[:, 1]), X[:, 0]))


@pytest.fixture
def factorised(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the matrices of which Cholesky factors are made."""
    sizes: list[int] = []
    for name in ("cholesky", "cholesky_ex"):
        original = getattr(torch.linalg, name)

        def counting(matrix: torch.Tensor, *args: Any, original: Any = original, **options: Any) -> Any:
            sizes.append(matrix.shape[-1])
            return original(matrix, *args, **options)

        monkeypatch.setattr(torch.linalg, name, counting)
    return sizes


@pytest.mark.parametrize("trend", ["constant", "linear"])
@pytest.mark.parametrize("y", [Y[:, 0], Y], ids=["one target", "three"])
def test_an_exact_fit_factorises_once_and_its_predictions_never(y: Any, trend: str, factorised: list[int]) -> None:
    model = ExactGPRegressor(GaussianKernel(1.0), 0.1, trend=trend).fit(X, y)
    assert factorised == [N]
    factorised.clear()
    model.predict(NEW)
    model.predict(NEW, return_std=True)
    model.predict_interval(NEW)
    model.loo_  # noqa: B018
    model.log_marginal_likelihood()
    assert factorised == []


@pytest.mark.parametrize("name", ["exact", "nearest_rows", "spectral"])
@pytest.mark.parametrize("y", [Y[:, 0], Y], ids=["one target", "three"])
def test_each_row_is_checked_once(name: str, y: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[tuple[int, ...]] = []
    original = sklearn.utils.validation.check_array

    def counting(array: Any, *args: Any, **options: Any) -> Any:
        checked.append(np.shape(array))
        return original(array, *args, **options)

    model = clone(make(name))
    for module in ("sklearn.utils.validation", "lmgp.data"):
        monkeypatch.setattr(f"{module}.check_array", counting)
    model.fit(X, y)
    assert checked.count(X.shape) == 1
    checked.clear()
    model.predict(NEW, return_std=True)
    assert checked.count(NEW.shape) == 1
