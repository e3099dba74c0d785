"""`importance_`: against dense algebra, known functions and scikit-learn's permutations of new rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.inspection import permutation_importance

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LinearKernel,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    ResidualGPRegressor,
    SpectralGPRegressor,
)
from lmgp.estimators import importance
from lmgp.posteriors.exact import ExactPosterior
from tests.estimators.test_summary import table_of

KERNEL = GaussianKernel(1.0, 2.0)


def draw(n: int = 120, d: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a function of the first column: much of it straight, and of the second: little, and quick to turn."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    return X, 5.0 * X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.1 * rng.normal(size=n)


def test_the_column_that_says_most_has_the_largest() -> None:
    X, y = draw(d=3)
    model = ExactGPRegressor(ard=True, random_state=0).fit(X, y)
    assert model.inverse_lengthscales_[1] > model.inverse_lengthscales_[0]
    importance, error = model.importance_, model.importance_error_
    assert importance[0] > importance[1] > 6.0 * error[1]
    assert abs(importance[2]) < 0.001
    # Of independent columns a shuffled one costs twice the variance of its part.
    parts = np.array([25.0 / 3.0, 0.5 - np.sin(6.0) / 12.0, 0.0])
    assert np.all(np.abs(importance - 2.0 * parts / (parts.sum() + 0.01)) < 3.0 * error + 0.01)


@pytest.mark.parametrize("n", [40, 400, 2600])
@pytest.mark.parametrize("trend", ["constant", "linear"])
def test_it_is_that_of_dense_algebra(n: int, trend: Any) -> None:
    X, y = draw(n)
    model = ExactGPRegressor(KERNEL, 0.05, trend=trend).fit(X, y)
    H = np.column_stack((np.ones(n), X)) if trend == "linear" else np.ones((n, 1))
    weights = np.append(model.trend_.intercept, model.trend_.coef) if trend == "linear" else np.array([model.center_])
    drawn = np.argsort(y - H @ weights)[np.random.default_rng(0).choice(n, min(n, 512), replace=False)]
    growth = []
    for held in np.array_split(drawn, {40: 5, 400: 5, 2600: 1}[n]):
        rest = np.delete(np.arange(n), held)
        covariance = 2.0 * np.exp(-0.5 * cdist(X[rest], X[rest], "sqeuclidean")) + 0.05 * np.eye(len(rest))
        solved = np.linalg.solve(covariance, y[rest] - H[rest] @ weights)
        errors = []
        for j in (None, 0, 1):
            A, h = X[held].copy(), H[held].copy()
            if j is not None:
                A[:, j] = np.roll(A[:, j], 1)
                h[:, 1:] = A if trend == "linear" else h[:, 1:]
            errors.append((y[held] - h @ weights - 2.0 * np.exp(-0.5 * cdist(A, X[rest], "sqeuclidean")) @ solved) ** 2)
        growth.append(np.array(errors[1:]) - errors[0])
    shares = np.concatenate(growth, axis=1) / y.var()
    near = 1e-6 if n < 2000 else 0.05  # of many rows, the nearest predict
    np.testing.assert_allclose(model.importance_, shares.mean(axis=1), rtol=near)
    np.testing.assert_allclose(model.importance_error_, shares.std(axis=1) / np.sqrt(len(drawn)), rtol=near)


def test_it_is_what_shuffling_new_rows_costs() -> None:
    X, y = draw(1600, d=4)
    y += 2.0 * X[:, 2] * X[:, 0]
    model = NearestNeighborsGPRegressor(40, kernel=KERNEL, noise_variance=0.01).fit(X[:800], y[:800])
    expected = permutation_importance(model, X[800:], y[800:], scoring="r2", n_repeats=5, random_state=0)
    difference = model.importance_ - expected.importances_mean
    assert np.all(np.abs(difference) < 3.0 * model.importance_error_ + 0.01)


MODELS = {
    "exact": ExactGPRegressor(), "featurized": FeaturizedGPRegressor(), "nearest": NearestNeighborsGPRegressor(20),
    "residual": ResidualGPRegressor(), "localized": LocalizedGPRegressor(), "spectral": SpectralGPRegressor(),
    "chosen": GPRegressor(kernel="gaussian", noise="normal"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_that_learn_note_it_and_files_have_it(name: str, tmp_path: Path) -> None:
    X, y = draw()
    model = MODELS[name].set_params(random_state=0).fit(X, y)
    values, errors = model.importance_, model.importance_error_
    assert values.shape == errors.shape == (2,)
    assert values[0] > 1.0 > values[1] > 3.0 * errors[1] > 0.0
    model.save(tmp_path / "model.lmgp")
    np.testing.assert_array_equal(lmgp.load(tmp_path / "model.lmgp").importance_, values)
    np.testing.assert_array_equal(model.fit(X, y).importance_, values)


def test_a_fit_to_chunks_notes_it_of_its_sample() -> None:
    X, y = draw()
    model = FeaturizedGPRegressor(random_state=0)
    expected = model.fit(X, y).importance_
    model.fit([(X[:50], y[:50]), (X[50:], y[50:])])
    np.testing.assert_allclose(np.sort(model.importance_), np.sort(expected), atol=4 * model.importance_error_.max())
    given = FeaturizedGPRegressor(kernel=KERNEL, noise_variance=0.05).fit([(X, y)])
    with pytest.raises(AttributeError, match=r"no importance_: it takes the training rows, and this model has not"):
        _ = given.importance_


@pytest.mark.parametrize("is_read", [False, True])
@pytest.mark.parametrize("change", ["partial_fit", "forget", "with_rows", "merge", "update"])
def test_rows_that_come_and_go_change_it(change: str, is_read: bool) -> None:
    X, y = draw(240)
    shuffled = y[::-1]  # of which the columns tell nothing
    kind: Any = SpectralGPRegressor if change == "update" else NearestNeighborsGPRegressor
    model = kind(kernel=KERNEL, noise_variance=0.05).fit(X, y)
    if is_read:
        assert model.importance_.min() > 0.01
        assert "share of the variance" in str(model)
    given, rows = (X, shuffled), (np.vstack((X, X)), np.concatenate((y, shuffled)))
    if change == "forget":
        given, rows = (X[:200], y[:200]), (X[200:], y[200:])
    elif change == "with_rows":
        rows = given
    elif change == "merge":
        given = (model.with_rows(*given),)
    found = getattr(model, change)(*given)
    expected = kind(kernel=KERNEL, noise_variance=0.05).fit(*rows)
    assert table_of(found) == table_of(expected)
    np.testing.assert_allclose(found.importance_, expected.importance_, rtol=1e-6)


def test_what_a_stream_notes_is_not_that_of_rows_to_come() -> None:
    X, y = draw()
    model = FeaturizedGPRegressor(random_state=0).fit(X, y, chunk_rows=50)
    assert model.importance_[0] > 1.0
    with pytest.raises(AttributeError, match=r"no importance_: it takes .* let fit learn .* until rows come or go"):
        _ = model.partial_fit(X, -y).importance_


def test_several_targets_have_one_each() -> None:
    X, y = draw()
    both = ExactGPRegressor(KERNEL, 0.05).fit(X, np.column_stack((y, 3.0 * y)))
    alone = ExactGPRegressor(KERNEL, 0.05).fit(X, y).importance_
    assert both.importance_.shape == both.importance_error_.shape == (2, 2)
    np.testing.assert_allclose(both.importance_[0], alone, rtol=1e-9)


def test_columns_are_those_of_longitude_and_latitude() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.uniform(-170.0, -150.0, 200), rng.uniform(30.0, 60.0, 200), rng.normal(size=200)))
    y = np.sin(X[:, 1] / 4.0) + 0.01 * rng.normal(size=200)
    model = GPRegressor(kernel="gaussian", metric="sphere", noise="normal", random_state=0).fit(X, y)
    assert model.importance_.shape == (3,)
    assert model.importance_[1] > 1.0
    assert np.all(np.abs(model.importance_[[0, 2]]) < 0.1)


def test_kernels_without_near_rows() -> None:
    X, y = draw(2300, d=3)
    model = ExactGPRegressor(LinearKernel(), noise_variance=1.0).fit(X, y)
    assert model.importance_[0] > 1.0
    assert abs(model.importance_[2]) < 0.01


def test_few_rows_and_rows_without_a_spread() -> None:
    X, y = draw(9)
    model = ExactGPRegressor(KERNEL, 0.05).fit(X, y)
    assert not hasattr(model, "importance_")
    with pytest.raises(AttributeError, match=r"no importance_: it takes 10 training rows at least"):
        _ = model.importance_
    X, y = draw(20)
    np.testing.assert_array_equal(ExactGPRegressor(KERNEL, 0.05).fit(X, np.ones(20)).importance_, [0.0, 0.0])


def test_of_many_columns_fewer_rows_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 80))
    counts: list[int] = []
    predict = ExactPosterior.predict

    def counted(self: ExactPosterior, rows: Any, variance: bool = True) -> Any:
        counts.append(len(rows))
        return predict(self, rows, variance)

    monkeypatch.setattr(ExactPosterior, "predict", counted)
    monkeypatch.setattr(importance, "PREDICTIONS", 80 * 40)
    model = ExactGPRegressor(GaussianKernel(9.0), noise_variance=0.01).fit(X, X[:, 3])
    assert model.importance_.argmax() == 3
    assert sum(counts) == 40 * 81  # each once as it is, and once with each column shuffled


@pytest.mark.slow
def test_a_constant_column_beside_many_categories_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    which = rng.integers(40, size=300)
    X = pd.DataFrame({"place": [f"place {k}" for k in which], "x": rng.uniform(0.0, 6.0, 300), "one": 1.0})
    y = np.sin(X["x"]) + 2.0 * rng.normal(size=40)[which] + 0.1 * rng.normal(size=300)
    model = GPRegressor(kernel="gaussian", noise="normal", random_state=0).fit(X, y)
    assert model.importance_[2] == 0.0
    assert model.importance_[0] > 0.5


def test_it_is_the_same_of_rows_in_any_order_and_of_copies() -> None:
    X, y = draw(60)
    first = ExactGPRegressor(KERNEL, 0.05)
    order = np.random.default_rng(1).permutation(60)
    mixed = clone(first).fit(X[order], y[order]).importance_
    np.testing.assert_allclose(mixed, first.fit(X, y).importance_, rtol=1e-9)
    twice = clone(first).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2)).importance_
    np.testing.assert_allclose(twice, clone(first).fit(X, y, sample_weight=np.full(60, 2)).importance_, rtol=1e-9)
