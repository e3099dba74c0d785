"""Compact random features: projections of larger maps."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import hadamard
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures

from lmgp.errors import InputError
from lmgp.features.composition import CraftFeatures, walsh_hadamard
from lmgp.features.maclaurin import PolynomialMaclaurinFeatures

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


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("n_features", [1, 7, 20])
def test_the_expected_product_is_that_of_the_larger_map(projection: str, n_features: int) -> None:
    # The monomials up to degree 3 in 3 variables: 20 columns, none of them random.
    X = rows()
    larger = PolynomialFeatures(3).fit_transform(X)
    assert larger.shape[1] == 20
    draws = []
    for seed in range(400 if n_features == 1 else 150):
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
        for seed in range(100):
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


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("projection", "hadamard"),
        ("projection", None),
        ("features", None),
        ("features", "maclaurin"),
    ],
)
def test_parameters_of_the_wrong_kind_are_refused(parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=parameter):
        make().set_params(**{parameter: value}).fit(rows())


def test_parameters_that_are_set_later_wait_for_the_next_fit() -> None:
    fitted = make(9, projection="gaussian").fit(rows())
    before = fitted.transform(rows())
    fitted.set_params(projection="srht", n_features=4)
    np.testing.assert_array_equal(fitted.transform(rows()), before)
    assert len(fitted.get_feature_names_out()) == before.shape[1] == 9
    assert fitted.fit_transform(rows()).shape == (6, 4)
