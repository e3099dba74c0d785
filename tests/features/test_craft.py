"""Compact random features: projections of larger maps."""

import pickle
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from lmgp.errors import InputError
from lmgp.features.craft import CraftFeatures, walsh_hadamard
from lmgp.features.polynomial import PolynomialMaclaurinFeatures

Floats = NDArray[np.float64]
EVERY = pytest.mark.parametrize("projection", ["gaussian", "srht"])


def rows(n: int = 6, d: int = 3, seed: int = 0, scale: float = 0.5) -> Floats:
    return scale * np.random.default_rng(seed).standard_normal((n, d))


def make(n_features: Any = 8, n_larger: int = 40, **parameters: Any) -> CraftFeatures:
    return CraftFeatures(PolynomialMaclaurinFeatures(n_larger), n_features, **{"random_state": 0, **parameters})


@pytest.mark.parametrize("order", [1, 2, 8, 128])
def test_the_fast_transform_is_the_product_with_the_hadamard_matrix(order: int) -> None:
    X = rows(5, order)
    given = X.copy()
    np.testing.assert_allclose(walsh_hadamard(X), X @ hadamard(order), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(X, given)


@EVERY
@pytest.mark.parametrize("n_features", [1, 7, 20])
def test_the_expected_product_is_that_of_the_larger_map(projection: str, n_features: int) -> None:
    # The monomials up to degree 3 in 3 variables: 20 columns, none of them random.
    X = rows()
    larger = PolynomialFeatures(3).fit_transform(X)
    assert larger.shape[1] == 20
    draws = []
    for seed in range(400):
        craft = CraftFeatures(PolynomialFeatures(3), n_features, projection=projection, random_state=seed)
        features = craft.fit_transform(X)
        draws.append(features @ features.T)
    standard_error = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    norms = np.linalg.norm(larger, axis=1)
    assert 0 < (standard_error / np.outer(norms, norms)).max() < 0.1, "too few draws to see anything"
    np.testing.assert_array_less(np.abs(np.mean(draws, axis=0) - larger @ larger.T), 5 * standard_error + 1e-12)


def test_hadamard_rows_that_are_all_kept_lose_nothing() -> None:
    X = rows()
    fitted = make(32, 32, projection="srht").fit(X)
    features, larger = fitted.transform(X), fitted.features_.transform(X)
    np.testing.assert_allclose(features @ features.T, larger @ larger.T, rtol=1e-10)


def test_the_hadamard_projection_has_the_lower_variance() -> None:
    X = rows()
    larger = PolynomialFeatures(3).fit_transform(X)
    errors = {}
    for projection in ("gaussian", "srht"):
        squared = []
        for seed in range(200):
            craft = CraftFeatures(PolynomialFeatures(3), 16, projection=projection, random_state=seed)
            features = craft.fit_transform(X)
            squared.append(np.mean((features @ features.T - larger @ larger.T) ** 2))
        errors[projection] = np.mean(squared)
    assert errors["srht"] < 0.8 * errors["gaussian"]


@EVERY
def test_a_projected_map_is_nearer_to_the_kernel_than_a_small_one(projection: str) -> None:
    X = rows(20, d=8, scale=0.3)
    target = polynomial_kernel(X, degree=3, gamma=1.0, coef0=1.0)
    errors: dict[str, list[float]] = {"small": [], "craft": []}
    for seed in range(40):
        maps = {
            "small": PolynomialMaclaurinFeatures(64, random_state=seed),
            "craft": make(64, 1024, projection=projection, random_state=seed),
        }
        for name, features in maps.items():
            columns = features.fit_transform(X)
            errors[name].append(float(np.mean((columns @ columns.T - target) ** 2)))
    assert np.mean(errors["craft"]) < np.mean(errors["small"])


# ------------------------------------------------------------------------------------------------------- the larger map


def test_the_larger_map_has_seeds_of_its_own_only_where_it_has_none() -> None:
    X = rows()
    given = PolynomialMaclaurinFeatures(40, random_state=7)
    fitted = CraftFeatures(given, 8, random_state=1).fit(X)
    np.testing.assert_array_equal(fitted.features_.transform(X), given.fit_transform(X))
    pipeline = make_pipeline(FunctionTransformer(), PolynomialMaclaurinFeatures(40))
    fitted = CraftFeatures(pipeline, 8, random_state=1).fit(X)
    again = CraftFeatures(pipeline, 8, random_state=1).fit(X)
    np.testing.assert_array_equal(again.features_.transform(X), fitted.features_.transform(X))
    assert pipeline[-1].random_state is None
    assert not hasattr(pipeline[-1], "weights_")


def test_scikit_learns_tensor_sketch_can_be_projected() -> None:
    X = rows(d=4)
    fitted = CraftFeatures(PolynomialCountSketch(degree=3, n_components=64), 16, random_state=0).fit(X)
    assert fitted.transform(X).shape == (6, 16)


class Broken(TransformerMixin, BaseEstimator):
    def fit(self, X: Floats, y: object = None) -> "Broken":
        return self

    def transform(self, X: Floats) -> Floats:
        return np.full((len(X), 10), np.nan)


def test_a_map_to_too_few_columns_is_refused() -> None:
    craft = make(41, 40)
    with pytest.raises(InputError, match=r"n_features is 41, but PolynomialMaclaurinFeatures.* makes only 40"):
        craft.fit(rows())
    with pytest.raises(NotFittedError):
        craft.transform(rows())
    assert make(40, 40).fit_transform(rows()).shape == (6, 40)


def test_a_map_to_numbers_that_are_not_finite_is_refused() -> None:
    with pytest.raises(InputError, match="not all numbers that it made are finite"):
        CraftFeatures(Broken(), 4).fit(rows())


# ------------------------------------------------------------------------------------------------------ the transformer


@EVERY
def test_makes_the_columns_asked_for_and_names_them(projection: str) -> None:
    X = rows()
    fitted = make(9, projection=projection).fit(X)
    assert fitted.transform(X).shape == (6, 9)
    assert fitted.transform(X[:1]).shape == (1, 9)
    assert fitted.get_feature_names_out().tolist() == [f"craftfeatures{i}" for i in range(9)]


@EVERY
def test_fit_draws_as_the_random_state_says(projection: str) -> None:
    X = rows()
    features = make(projection=projection, random_state=3).fit_transform(X)
    for same in (3, np.random.default_rng(3)):
        np.testing.assert_array_equal(make(projection=projection, random_state=same).fit_transform(X), features)
    for other in (4, None):
        assert not np.array_equal(make(projection=projection, random_state=other).fit_transform(X), features)


@EVERY
def test_the_global_random_state_is_not_touched(projection: str) -> None:
    before = joblib.hash(np.random.get_state())  # noqa: NPY002
    make(projection=projection, random_state=None).fit(rows())
    assert joblib.hash(np.random.get_state()) == before  # noqa: NPY002


@EVERY
def test_a_clone_and_a_copy_give_the_same_columns(projection: str) -> None:
    X = rows()
    fitted = make(projection=projection).fit(X)
    copied = clone(fitted)
    with pytest.raises(NotFittedError):
        copied.transform(X)
    np.testing.assert_array_equal(copied.fit_transform(X), fitted.transform(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))


@parametrize_with_checks([make(projection=projection) for projection in ("gaussian", "srht")])
def test_scikit_learns_own_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.array([[np.nan, 1.0, 0.0]]), "NaN"),
        (np.array([[np.inf, 1.0, 0.0]]), "infinity"),
        (np.array([1.0, 0.0, 0.0]), "Expected 2D array"),
        (np.eye(4), "X has 4 features, but CraftFeatures is expecting 3 features"),
        (csr_array(np.eye(3)), "[Ss]parse data was passed"),
    ],
    ids=["nan", "infinity", "one dimension", "columns", "sparse"],
)
def test_rows_that_cannot_be_used_are_refused(bad: Any, message: str) -> None:
    fitted = make().fit(rows())
    with pytest.raises((ValueError, TypeError), match=message):
        fitted.transform(bad)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("n_features", 0),
        ("n_features", 2.5),
        ("projection", "hadamard"),
        ("projection", None),
        ("features", None),
        ("features", "maclaurin"),
        ("random_state", "zero"),
    ],
)
def test_parameters_of_the_wrong_kind_are_refused(parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=parameter):
        make().set_params(**{parameter: value}).fit(rows())
