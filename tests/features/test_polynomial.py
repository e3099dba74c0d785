"""Random Maclaurin features of the polynomial kernel."""

from math import comb
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare
from sklearn.metrics.pairwise import polynomial_kernel

from lmgp.errors import InputError
from lmgp.features.maclaurin import PolynomialMaclaurinFeatures

Floats = NDArray[np.float64]


def rows(n: int = 6, d: int = 3, seed: int = 0, scale: float = 0.5) -> Floats:
    return scale * np.random.default_rng(seed).standard_normal((n, d))


def make(n_features: Any = 40, **parameters: Any) -> PolynomialMaclaurinFeatures:
    return PolynomialMaclaurinFeatures(n_features, **{"random_state": 0, **parameters})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("degree", "gamma", "coef0", "d"),
    [(1, 1.0, 1.0, 3), (3, 0.5, 2.0, 3), (3, 0.5, 2.0, 1), (2, 1.5, 0.0, 4), (4, 0.125, 0.875, 8)],
)
def test_the_expected_product_is_the_polynomial_kernel(degree: int, gamma: float, coef0: float, d: int) -> None:
    X = rows(d=d)
    target = polynomial_kernel(X, degree=degree, gamma=gamma, coef0=coef0)
    draws = []
    for seed in range(500):
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


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("degree", 0),
        ("degree", -2),
        ("degree", 2.5),
        ("gamma", "scale"),
        ("coef0", None),
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


def test_rows_whose_features_overflow_are_refused() -> None:
    X = rows()
    X[2, 1] = 1e200
    features = make(60).fit(rows())
    with pytest.raises(InputError, match=r"features of row 2 overflow: .*largest is 1e\+200. Divide the columns"):
        features.transform(X)
    X[2, 1] = 1e90
    assert np.isfinite(features.transform(X)).all()
