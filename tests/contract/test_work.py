"""How often the models do what needs doing once: rows are checked, and matrices factorised."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.validation import check_array

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    ResidualGPRegressor,
    TaylorFeatures,
)
from lmgp.utils.columns import refuse_other_than_numbers

# Rows of many columns: nothing else that a model checks has this shape.
COLUMNS, ROWS, NEW_ROWS = 5, 300, 40

GIVEN = {"kernel": GaussianKernel(2.0), "noise_variance": 0.05}

MODELS = {
    "exact": ExactGPRegressor(**GIVEN),
    "exact_learned": ExactGPRegressor(random_state=0),
    "exact_sum": ExactGPRegressor(GaussianKernel(2.0) + MaternKernel(1.0), 0.05),
    "chosen": GPRegressor(random_state=0),
    "chosen_given": GPRegressor(**GIVEN, random_state=0),
    "fourier": FeaturizedGPRegressor(**GIVEN, random_state=0),
    "nystroem": FeaturizedGPRegressor(NystroemFeatures(50, landmarks="farthest_point"), **GIVEN, random_state=0),
    "several_parts": FeaturizedGPRegressor(
        TaylorFeatures(60), kernel=GaussianKernel(2.0) + GaussianKernel(1.0), noise_variance=0.05
    ),
    "sum_of_maps": FeaturizedGPRegressor(TaylorFeatures(60) + NystroemFeatures(20), **GIVEN, random_state=0),
    "localized": LocalizedGPRegressor(TaylorFeatures(60), **GIVEN, random_state=0),
    "nearest": NearestNeighborsGPRegressor(20, **GIVEN),
    "nearest_learned": NearestNeighborsGPRegressor(20, random_state=0),
    "residual": ResidualGPRegressor(**GIVEN, random_state=0),
}


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw training rows with their targets, and new rows."""
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(ROWS, COLUMNS)), rng.normal(size=(NEW_ROWS, COLUMNS))
    return X, np.sin(X).sum(axis=1) + 0.2 * rng.normal(size=ROWS), T


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List the numbers of rows that are checked, one after the other, wherever in the package."""
    sizes: list[int] = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(table: Any, *arguments: Any, **options: Any) -> Any:
            if np.shape(table)[1:] == (COLUMNS,):
                sizes.append(len(table))
            return function(table, *arguments, **options)

        return call

    for function in (refuse_other_than_numbers, check_array):
        for name, module in list(sys.modules.items()):
            # Kernels check the frequencies that they are given, which are no rows.
            of_rows = name.startswith("lmgp.") and (function is not check_array or "kernels" not in name)
            if of_rows and vars(module).get(function.__name__) is function:
                monkeypatch.setattr(module, function.__name__, counted(function))
    return sizes


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_rows_are_checked_once(model: Any, checked: list[int]) -> None:
    X, y, T = problem()
    model.fit(X, y)
    assert checked == [ROWS]
    checked.clear()
    model.predict(T, return_std=True)
    assert checked == [NEW_ROWS]
    checked.clear()
    model.predict(T)
    assert checked == [NEW_ROWS]


@pytest.mark.parametrize("name", ["exact", "fourier", "nearest"])
def test_rows_of_covariances_and_draws_are_checked_once(name: str, checked: list[int]) -> None:
    X, y, T = problem()
    model = MODELS[name].fit(X, y)
    for method in (lambda: model.predict(T, return_cov=True), lambda: model.sample_y(T, random_state=0)):
        checked.clear()
        method()
        assert checked == [NEW_ROWS]


@pytest.fixture
def factorised(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List the orders of the matrices that are factorised, one after the other."""
    orders: list[int] = []

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(matrix: torch.Tensor, *arguments: Any, **options: Any) -> Any:
            orders.extend([matrix.shape[-1]] * int(np.prod(matrix.shape[:-2])))
            return function(matrix, *arguments, **options)

        return call

    for name in ("cholesky", "cholesky_ex", "eigh"):
        monkeypatch.setattr(torch.linalg, name, counted(getattr(torch.linalg, name)))
    return orders


@pytest.mark.parametrize("trend", ["constant", "linear"])
def test_an_exact_model_factorises_once(trend: str, factorised: list[int]) -> None:
    X, y, T = problem()
    model = ExactGPRegressor(**GIVEN, trend=trend).fit(X, y)
    assert factorised.count(ROWS) == 1
    factorised.clear()
    model.predict(T)
    model.predict(T, return_std=True)
    model.predict(T, return_cov=True)
    model.predict_interval(T)
    assert np.isfinite(model.loo_.mean).all()
    assert np.isfinite(model.log_marginal_likelihood())
    assert ROWS not in factorised
