"""Random Maclaurin features of the polynomial kernel."""

import pickle
from collections.abc import Callable
from math import comb
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from lmgp.errors import InputError
from lmgp.features.polynomial import PolynomialMaclaurinFeatures

Floats = NDArray[np.float64]


def rows(n: int = 6, d: int = 3, seed: int = 0, scale: float = 0.5) -> Floats:
    return scale * np.random.default_rng(seed).standard_normal((n, d))


def make(n_features: Any = 40, **parameters: Any) -> PolynomialMaclaurinFeatures:
    return PolynomialMaclaurinFeatures(n_features, **{"random_state": 0, **parameters})


@pytest.mark.parametrize(
    ("degree", "gamma", "coef0", "d"),
    [(1, 1.0, 1.0, 3), (3, 0.5, 2.0, 3), (3, 0.5, 2.0, 1), (2, 1.5, 0.0, 4), (4, 0.125, 0.875, 8)],
)
def test_the_expected_product_is_the_polynomial_kernel(degree: int, gamma: float, coef0: float, d: int) -> None:
    X = rows(d=d)
    target = polynomial_kernel(X, degree=degree, gamma=gamma, coef0=coef0)
    draws = []
    for seed in range(800):
        features = make(30, degree=degree, gamma=gamma, coef0=coef0, random_state=seed).fit_transform(X)
        draws.append(features @ features.T)
    standard_error = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    assert (standard_error <= 0.05 * np.sqrt(np.outer(np.diag(target), np.diag(target)))).all(), "too few draws"
    np.testing.assert_array_less(np.abs(np.mean(draws, axis=0) - target), 5 * standard_error + 1e-12)


def test_degrees_are_drawn_with_halving_probabilities() -> None:
    counts = make(20_000, degree=4, gamma=0.3, coef0=0.9).fit(rows()).degree_counts_
    assert counts.sum() == 20_000
    probabilities = 2.0 ** -np.arange(1, 6)
    assert chisquare(counts, 20_000 * probabilities / probabilities.sum()).pvalue > 1e-4


def test_without_a_constant_all_columns_have_the_full_degree() -> None:
    assert make(10, degree=5, coef0=0.0).fit(rows()).degree_counts_.tolist() == [0, 0, 0, 0, 0, 10]


def test_a_column_is_a_product_of_projections() -> None:
    X = rows()
    fitted = make(200, degree=3, gamma=0.5, coef0=2.0).fit(X)
    probabilities = 2.0 ** -np.arange(1, 5) / (1 - 2.0**-4)
    expected = []
    for n, signs in enumerate(fitted.weights_):
        coefficient = comb(3, n) * 0.5**n * 2.0 ** (3 - n)
        products = np.prod(np.einsum("kmd,id->kim", signs, X), axis=0)
        expected.append(products * np.sqrt(coefficient / probabilities[n] / 200))
    np.testing.assert_allclose(fitted.transform(X), np.concatenate(expected, axis=1), rtol=1e-12)
    assert all(set(np.unique(signs)) <= {-1.0, 1.0} for signs in fitted.weights_)


@pytest.mark.parametrize(("degree", "coef0"), [(20, 0.875), (20, 0.0), (400, 1.0)])
def test_high_degrees_do_not_overflow(degree: int, coef0: float) -> None:
    X = rows(d=50, scale=1.0 / np.sqrt(50))
    features = make(64, degree=degree, gamma=0.125, coef0=coef0).fit_transform(X)
    assert np.isfinite(features).all()
    assert features.any()
    # The power alone would overflow; times the coefficient it is a number of ordinary size.
    large = make(1, degree=20, gamma=1e-40, coef0=0.0).fit_transform(np.full((1, 1), 1e20))
    np.testing.assert_allclose(np.abs(large), 1.0)


# ------------------------------------------------------------------------------------------------------ the transformer


@pytest.mark.parametrize("n_features", [1, 7, 40])
def test_makes_the_columns_asked_for_and_names_them(n_features: int) -> None:
    X = rows()
    fitted = make(n_features).fit(X)
    assert fitted.transform(X).shape == (6, n_features)
    assert fitted.transform(X[:1]).shape == (1, n_features)
    assert fitted.get_feature_names_out().tolist() == [f"polynomialmaclaurinfeatures{i}" for i in range(n_features)]


def test_fit_draws_as_the_random_state_says() -> None:
    X = rows()
    features = make(random_state=3).fit_transform(X)
    np.testing.assert_array_equal(make(random_state=3).fit(X).transform(X), features)
    np.testing.assert_array_equal(make(random_state=np.random.default_rng(3)).fit(X).transform(X), features)
    for seed in (4, None):
        assert not np.array_equal(make(random_state=seed).fit_transform(X), features)


def test_the_global_random_state_is_not_touched() -> None:
    before = joblib.hash(np.random.get_state())  # noqa: NPY002
    make(random_state=None).fit(rows())
    assert joblib.hash(np.random.get_state()) == before  # noqa: NPY002


def test_a_clone_and_a_copy_give_the_same_columns() -> None:
    X = rows()
    fitted = make(degree=5, gamma=0.3).fit(X)
    copied = clone(fitted)
    with pytest.raises(NotFittedError):
        copied.transform(X)
    np.testing.assert_array_equal(copied.fit_transform(X), fitted.transform(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))


@parametrize_with_checks([make(16)])
def test_scikit_learns_own_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.array([[np.nan, 1.0, 0.0]]), "NaN"),
        (np.array([[np.inf, 1.0, 0.0]]), "infinity"),
        (np.array([1.0, 0.0, 0.0]), "Expected 2D array"),
        (np.eye(4), "X has 4 features, but PolynomialMaclaurinFeatures is expecting 3 features"),
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
        ("degree", 0),
        ("degree", -2),
        ("degree", 2.5),
        ("gamma", "scale"),
        ("coef0", None),
        ("random_state", "zero"),
    ],
)
def test_parameters_of_the_wrong_kind_are_refused(parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=parameter):
        make(**{parameter: value}).fit(rows())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": 0.0}, "gamma must be positive and finite; got 0.0"),
        ({"gamma": -1}, "gamma must be positive and finite; got -1"),
        ({"gamma": np.nan}, "gamma must be positive and finite; got nan"),
        ({"gamma": np.inf}, "gamma must be positive and finite; got inf"),
        ({"coef0": -0.1}, "coef0 must be finite and not negative.*; got -0.1"),
        ({"coef0": np.nan}, "coef0 must be finite and not negative.*; got nan"),
    ],
    ids=str,
)
def test_kernels_that_are_not_positive_definite_are_refused(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**parameters).fit(rows())
