"""Taylor features: the truncated series exactly, its columns, its error and its extremes."""

import warnings
from itertools import product
from math import comb, factorial, prod, sqrt

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import gammaincc, gammaln, xlogy

from lmgp import GaussianKernel, TaylorFeatures

Floats = NDArray[np.float64]
# Input columns, and a number of columns that some degree fills exactly.
SIZES = [(1, 1), (1, 6), (1, 40), (2, 1), (2, 15), (2, 120), (3, 4), (3, 56), (3, 286), (8, 9), (8, 45), (8, 495)]


def rows(n: int, d: int, largest: float, seed: int = 0) -> Floats:
    """Rows in all directions with norms up to `largest`."""
    directions = np.random.default_rng(seed).standard_normal((n, d))
    norms = np.linspace(largest / n, largest, n)
    return directions / np.linalg.norm(directions, axis=1)[:, None] * norms[:, None]


def degree_of(n_features: int, d: int) -> int:
    return max(p for p in range(n_features + 1) if comb(d + p, p) <= n_features)


@pytest.mark.parametrize(("d", "n_features"), SIZES)
@pytest.mark.parametrize("variance", [1.0, 2.7])
def test_products_are_the_truncated_kernel(d: int, n_features: int, variance: float) -> None:
    X = rows(12, d, 2.0)
    lengthscale = np.linspace(0.7, 1.6, d)
    fitted = TaylorFeatures(n_features, kernel=GaussianKernel(lengthscale, variance)).fit(X)
    assert fitted.n_features_out_ == n_features
    assert fitted.degree_ == degree_of(n_features, d)
    scaled = X / lengthscale
    inner = scaled @ scaled.T
    squares = np.diag(inner)
    series = sum(inner**n / factorial(n) for n in range(fitted.degree_ + 1))
    expected = variance * np.exp(-(squares[:, None] + squares) / 2) * series
    features = fitted.transform(X)
    np.testing.assert_allclose(features @ features.T, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("d", "n_features"), SIZES)
def test_the_square_of_a_row_is_the_incomplete_gamma_function(d: int, n_features: int) -> None:
    X = np.vstack((np.zeros((1, d)), rows(30, d, 6.0)))
    fitted = TaylorFeatures(n_features, kernel=GaussianKernel(0.9, 2.5)).fit(X)
    tensor = torch.from_numpy(X)
    features = fitted.evaluate(tensor)
    squares = features.square().sum(dim=1).numpy()
    scaled_squares = np.square(X / 0.9).sum(axis=1)
    expected = 2.5 * gammaincc(fitted.degree_ + 1, scaled_squares)
    np.testing.assert_allclose(squares, expected, rtol=1e-11)
    # torch's incomplete gamma function errs by up to 4e-10 between degrees 20 and 200.
    missing = fitted.missing_variance(tensor, features).numpy()
    np.testing.assert_allclose(missing, 2.5 - expected, atol=2e-15 if fitted.degree_ < 20 else 1e-9)
    for epsilon in (0.5, 1e-6, 1e-100):
        radius = fitted.reach(epsilon)
        np.testing.assert_allclose(gammaincc(fitted.degree_ + 1, radius**2), epsilon, rtol=1e-9)


@pytest.mark.parametrize(("d", "n_features"), SIZES)
def test_the_error_is_within_the_bound(d: int, n_features: int) -> None:
    X = rows(25, d, 3.0, seed=1)
    fitted = TaylorFeatures(n_features, kernel=GaussianKernel(1.0, 2.5)).fit(X)
    features = fitted.transform(X)
    differences = X[:, None, :] - X[None, :, :]
    error = np.abs(features @ features.T - 2.5 * np.exp(-np.square(differences).sum(axis=2) / 2))
    norms = np.linalg.norm(X, axis=1)
    p = fitted.degree_
    bound = 2.5 * (norms[:, None] * norms) ** (p + 1) / factorial(p + 1)
    assert np.all(error <= bound * (1 + 1e-12) + 1e-14)
    # And not by far: the leading term of close rows near the centre is the bound's.
    near = TaylorFeatures(n_features).fit_transform(np.full((1, d), 0.3 / np.sqrt(d)))[0]
    leading = 0.3 ** (2 * p + 2) / factorial(p + 1)
    if leading > 1e-12:
        assert 1 - near @ near > 0.8 * leading


@pytest.mark.parametrize(("d", "n_features"), [*SIZES, (2, 16), (3, 19), (8, 44), (5, 5)])
def test_exponents_are_complete_unique_and_ordered_by_degree(d: int, n_features: int) -> None:
    fitted = TaylorFeatures(n_features).fit(np.zeros((1, d)))
    p = degree_of(n_features, d)
    assert fitted.degree_ == p
    exponents = fitted.exponents_
    assert exponents.shape == (fitted.n_features_out_, d) == (comb(d + p, p), d)
    found = list(map(tuple, exponents.tolist()))
    assert len(set(found)) == len(found)
    assert min(map(min, found)) == 0
    totals = exponents.sum(axis=1)
    assert np.all(np.diff(totals) >= 0)
    assert totals.max() == p
    if (p + 1) ** d < 1e5:
        assert set(found) == {a for a in product(range(p + 1), repeat=d) if sum(a) <= p}


@pytest.mark.parametrize(("d", "n_features"), SIZES)
def test_each_column_is_its_monomial(d: int, n_features: int) -> None:
    X = rows(9, d, 2.5, seed=2)
    X[3] = 0.0
    X[4, 0] = 0.0  # 0⁰ is 1
    fitted = TaylorFeatures(n_features, kernel=GaussianKernel(0.8, 1.7)).fit(X)
    scaled = X / 0.8
    damping = np.sqrt(1.7) * np.exp(-np.square(scaled).sum(axis=1) / 2)
    features = fitted.transform(X)
    for column, exponents in zip(features.T, fitted.exponents_, strict=True):
        expected = damping * np.prod(scaled**exponents, axis=1) / sqrt(prod(map(factorial, exponents.tolist())))
        np.testing.assert_allclose(column, expected, rtol=1e-11, atol=1e-18)


def test_lower_degrees_are_the_first_columns() -> None:
    X = rows(9, 3, 2.5)
    large = TaylorFeatures(286).fit_transform(X)
    for n_features in (1, 4, 10, 20, 84):
        np.testing.assert_array_equal(TaylorFeatures(n_features).fit_transform(X), large[:, :n_features])


def test_nothing_is_drawn() -> None:
    X = rows(9, 3, 2.0)
    columns = [TaylorFeatures(56, random_state=seed).fit_transform(X) for seed in (None, 0, 1)]
    np.testing.assert_array_equal(columns[0], columns[1])
    np.testing.assert_array_equal(columns[0], columns[2])


# ------------------------------------------------------------------------------------------------------------- extremes


@pytest.mark.parametrize("n_features", [1024, 1800])
@pytest.mark.parametrize("x", [20.0, 39.0, -39.0])
def test_high_degrees_far_out_neither_overflow_nor_underflow(n_features: int, x: float) -> None:
    # e^(−39²/2) is 1e−331, below all floating-point numbers, and 39¹⁵²¹ is far above them.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features = TaylorFeatures(n_features).fit_transform([[x]])[0]
    assert np.isfinite(features).all()
    k = np.arange(n_features)
    logarithm = xlogy(k, abs(x)) - x**2 / 2 - gammaln(k + 1) / 2
    expected = np.exp(logarithm) * np.sign(x) ** k
    # The logarithms are of order 10⁴: 1e-12 of them is lost.
    np.testing.assert_allclose(features, expected, rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(features @ features, gammaincc(n_features, x**2), rtol=1e-10)
    assert features @ features > (0.99 if (n_features, abs(x)) != (1024, 39.0) else 0.0)


@pytest.mark.parametrize("x", [50.0, 1e3, 1e8, 1e150])
@pytest.mark.parametrize("d", [1, 3])
def test_rows_far_out_map_to_exact_zeros(x: float, d: int) -> None:
    fitted = TaylorFeatures(84).fit(np.zeros((1, d)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features = fitted.transform(np.vstack((np.full((1, d), x), np.eye(d) * -x)))
    np.testing.assert_array_equal(features, 0.0)


@pytest.mark.parametrize(("d", "n_features"), [(1, 40), (2, 120), (3, 286), (8, 495)])
def test_rows_are_kept_as_long_as_anything_is_left(d: int, n_features: int) -> None:
    X = rows(600, d, 60.0, seed=3)
    fitted = TaylorFeatures(n_features).fit(X)
    features = fitted.transform(X)
    squares = np.square(X).sum(axis=1)
    kept = gammaincc(fitted.degree_ + 1, squares)
    assert np.isfinite(features).all()
    np.testing.assert_allclose(np.square(features).sum(axis=1)[kept > 1e-279], kept[kept > 1e-279], rtol=1e-9)
    assert np.all(features[kept < 1e-281] == 0.0)
    assert np.any(kept < 1e-281)


@pytest.mark.parametrize("d", [1, 2, 5, 50])
def test_one_column_is_the_constant(d: int) -> None:
    X = rows(7, d, 2.0)
    fitted = TaylorFeatures(1, kernel=GaussianKernel(1.3, 2.0)).fit(X)
    assert (fitted.degree_, fitted.n_features_out_) == (0, 1)
    expected = np.sqrt(2.0) * np.exp(-np.square(X / 1.3).sum(axis=1) / 2)
    np.testing.assert_allclose(fitted.transform(X)[:, 0], expected, rtol=1e-13)


@pytest.mark.parametrize(("d", "n_features", "made"), [(100, 100, 1), (100, 101, 101), (400, 512, 401), (784, 500, 1)])
def test_many_input_columns_leave_few_degrees(d: int, n_features: int, made: int) -> None:
    X = rows(7, d, 1.5)
    fitted = TaylorFeatures(n_features).fit(X)
    assert fitted.n_features_out_ == made
    features = fitted.transform(X)
    damping = np.exp(-np.square(X).sum(axis=1) / 2)
    np.testing.assert_allclose(features[:, 0], damping, rtol=1e-12)
    if made > 1:
        order = fitted.exponents_[1:].argmax(axis=1)
        assert sorted(order.tolist()) == list(range(d))
        np.testing.assert_allclose(features[:, 1:], damping[:, None] * X[:, order], rtol=1e-12, atol=1e-15)
