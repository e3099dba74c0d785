"""One suite that every public feature map passes: columns, random state, scikit-learn's rules."""

import pickle
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from lmgp import (
    GaussianKernel,
)
from tests.contract.conftest import ALL, EVERY_RANDOM, Case, rows

Floats = NDArray[np.float64]


# --------------------------------------------------------------------------------------------------------------- shapes


@ALL
@pytest.mark.parametrize("d", [1, 2, 3, 8, 20])
def test_transform_gives_finite_float64_columns(case: Case, d: int) -> None:
    X = rows(d=d)
    fitted = case.make(40, random_state=0).fit(X)
    features = fitted.transform(X)
    assert isinstance(features, np.ndarray)
    assert features.dtype == np.float64
    assert features.shape == (12, fitted.n_features_out_)
    assert np.isfinite(features).all()
    assert fitted.n_features_in_ == d
    assert fitted.transform(rows(n=1, d=d, seed=9)).shape == (1, fitted.n_features_out_)


@ALL
def test_makes_the_largest_number_of_columns_it_can(case: Case) -> None:
    for n_features, d in product((2, 3, 9, 10, 11, 44, 45, 46, 65), (2, 3, 8)):
        made = case.make(n_features, random_state=0).fit(rows(d=d)).n_features_out_
        assert made == case.columns(n_features, d, 12), (n_features, d)


@ALL
def test_columns_have_names(case: Case) -> None:
    fitted = case.make(20, random_state=0).fit(rows())
    names = fitted.get_feature_names_out()
    assert len(set(names)) == len(names) == fitted.n_features_out_
    of_two = case.make(20, random_state=0, kernel=GaussianKernel() + GaussianKernel(0.5)).fit(rows())
    names = of_two.get_feature_names_out()
    assert len(set(names)) == len(names) == of_two.n_features_out_


@ALL
def test_fit_returns_itself_and_fit_transform_is_both(case: Case) -> None:
    X = rows()
    feature_map = case.make(random_state=3)
    assert feature_map.fit(X) is feature_map
    np.testing.assert_array_equal(case.make(random_state=3).fit_transform(X), feature_map.transform(X))


@ALL
def test_a_row_is_mapped_alone(case: Case) -> None:
    fitted = case.make(random_state=0).fit(rows(50))
    X = rows(2500, seed=1)
    together = fitted.transform(X)
    np.testing.assert_allclose(fitted.transform(X[7:8]), together[7:8], rtol=1e-12, atol=case.rounding)
    np.testing.assert_allclose(fitted.transform(X[::-1]), together[::-1], rtol=1e-12, atol=case.rounding)


# --------------------------------------------------------------------------------------------------------- random state


@ALL
@pytest.mark.parametrize(
    "seed", [lambda: 5, lambda: np.random.default_rng(5), lambda: np.random.RandomState(5)], ids=["int", "rng", "old"]
)
def test_the_same_random_state_gives_the_same_map(case: Case, seed: Callable[[], Any]) -> None:
    X = rows()
    first = case.make(random_state=seed()).fit(X).transform(X)
    np.testing.assert_array_equal(case.make(random_state=seed()).fit(X).transform(X), first)


@ALL
def test_refitting_with_an_int_gives_the_same_map(case: Case) -> None:
    X = rows()
    fitted = case.make(random_state=1).fit(X)
    first = fitted.transform(X)
    np.testing.assert_array_equal(fitted.fit(X).transform(X), first)


@EVERY_RANDOM
@pytest.mark.parametrize("seed", [np.random.default_rng, np.random.RandomState], ids=["rng", "old"])
def test_a_generator_moves_on_between_fits(case: Case, seed: Callable[[int], Any]) -> None:
    X = rows()
    fitted = case.make(random_state=seed(1)).fit(X)
    first = fitted.transform(X)
    assert not np.array_equal(fitted.fit(X).transform(X), first)


@EVERY_RANDOM
def test_other_seeds_give_other_maps(case: Case) -> None:
    X = rows()
    maps = [case.make(random_state=seed).fit_transform(X) for seed in (0, 1)]
    # Two fits without a seed differ as well, whatever the global state is.
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        maps.append(case.make(random_state=None).fit_transform(X))
    for i, left in enumerate(maps):
        for right in maps[:i]:
            assert not np.array_equal(left, right)


@ALL
def test_the_global_random_state_is_neither_read_nor_moved(case: Case) -> None:
    X = rows()
    results = []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002
        before = joblib.hash(np.random.get_state())  # noqa: NPY002
        results.append(case.make(random_state=4).fit_transform(X))
        case.make(random_state=None).fit_transform(X)
        assert joblib.hash(np.random.get_state()) == before  # noqa: NPY002
    np.testing.assert_array_equal(*results)


# ------------------------------------------------------------------------------------------------- scikit-learn's rules


@ALL
def test_the_constructor_only_stores(case: Case) -> None:
    names = list(case.cls().get_params(deep=False))
    given = {name: object() for name in names}
    assert case.cls(given["n_features"], **{n: v for n, v in given.items() if n != "n_features"}).__dict__ == given


@ALL
@pytest.mark.parametrize("fit_with", ["int", "generator"])
def test_fit_edits_no_parameter(case: Case, fit_with: str) -> None:
    kernel = GaussianKernel(np.array([1.0, 2.0, 0.5]), 3.0)
    feature_map = case.make(41, kernel=kernel, random_state=np.random.default_rng(0) if fit_with == "generator" else 2)
    before = dict(feature_map.get_params(deep=True))
    hashed = joblib.hash(before["kernel__lengthscale"])
    feature_map.fit(rows())
    after = feature_map.get_params(deep=True)
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert after[name] is value
    assert joblib.hash(after["kernel__lengthscale"]) == hashed
    assert vars(kernel).keys() == {"lengthscale", "variance", "lengthscale_bounds", "variance_bounds"}


@ALL
def test_the_fitted_map_keeps_its_own_kernel(case: Case) -> None:
    X = rows()
    kernel = GaussianKernel(np.array([1.0, 2.0, 0.5]), 3.0)
    fitted = case.make(kernel=kernel, random_state=0).fit(X)
    before = fitted.transform(X)
    kernel.lengthscale[:] = 17.0
    kernel.set_params(variance=9.0)
    np.testing.assert_array_equal(fitted.transform(X), before)


@ALL
def test_a_clone_is_unfitted_and_fits_to_the_same_map(case: Case) -> None:
    X = rows()
    fitted = case.make(30, kernel=GaussianKernel([1.0, 2.0, 0.5], 3.0), random_state=2).fit(X)
    copied = clone(fitted)
    assert copied.kernel is not fitted.kernel
    with pytest.raises(NotFittedError):
        copied.transform(X)
    np.testing.assert_array_equal(copied.fit(X).transform(X), fitted.transform(X))


@ALL
def test_a_saved_map_gives_the_same_columns(case: Case, tmp_path: Path) -> None:
    X = rows()
    fitted = case.make(random_state=None).fit(X)
    expected = fitted.transform(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), expected)
    joblib.dump(fitted, tmp_path / "map.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "map.joblib").transform(X), expected)
    # Mapped from the disk the map's own arrays are read-only.
    np.testing.assert_array_equal(joblib.load(tmp_path / "map.joblib", mmap_mode="r").transform(X), expected)


@ALL
def test_transform_changes_neither_the_map_nor_its_input(case: Case) -> None:
    X = rows()
    fitted = case.make(random_state=0, kernel=GaussianKernel(0.7, 2.0)).fit(X)
    state, given = joblib.hash(vars(fitted)), X.copy()
    first = fitted.transform(X)
    assert joblib.hash(vars(fitted)) == state
    np.testing.assert_array_equal(X, given)
    # The columns are the caller's: writing to them reaches nothing else.
    first[:] = 0.0
    assert joblib.hash(vars(fitted)) == state
    np.testing.assert_array_equal(X, given)


@ALL
def test_serves_in_a_pipeline_and_a_grid_search(case: Case) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (90, 2))
    y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1])
    feature_map = case.make(60, kernel=GaussianKernel(), random_state=0)
    pipeline = make_pipeline(feature_map, Ridge(alpha=1e-4))
    # Held-out rows: the target is smooth, and the map has columns enough.
    assert pipeline.fit(X[:60], y[:60]).score(X[60:], y[60:]) > 0.9
    name = f"{case.cls.__name__.lower()}__kernel__lengthscale"
    search = GridSearchCV(pipeline, {name: [0.01, 1.0]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {name: 1.0}
    assert search.best_estimator_[0].kernel_.lengthscale == 1.0
    assert feature_map.kernel.lengthscale == 1.0
