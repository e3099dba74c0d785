"""Random Maclaurin maps: their variance as predicted, what they miss far out, and Kar and Karnick's distribution.

Simulations use fixed seeds and allow five standard errors.
"""

import warnings
from math import factorial

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gammaincc, gammaln, xlogy

from lmgp import GaussianKernel, OptimizedMaclaurinFeatures, RandomMaclaurinFeatures
from lmgp.features.sketches import SKETCHES, Sketch

Floats = NDArray[np.float64]


def rows(n: int, d: int, largest: float, seed: int = 0) -> Floats:
    """Rows in all directions with norms up to `largest`."""
    directions = np.random.default_rng(seed).standard_normal((n, d))
    norms = np.linspace(largest / n, largest, n)
    return directions / np.linalg.norm(directions, axis=1)[:, None] * norms[:, None]


def column_variance(sketch: Sketch, n: int, m: int, x: Floats, z: Floats) -> float:
    """Var[φ_n(x)ᵀφ_n(z)] of m columns: Table 1 of the paper, with d padded to a power of two."""
    a, q, s = float(x @ z), float((x @ x) * (z @ z)), float(np.sum(x**2 * z**2))
    if sketch == "gaussian":
        return ((q + 2 * a**2) ** n - a ** (2 * n)) / m
    rademacher = ((q + 2 * (a**2 - s)) ** n - a ** (2 * n)) / m
    if sketch == "rademacher":
        return rademacher
    d = 1 << (len(x) - 1).bit_length()
    c = (m // d) * d * (d - 1) + (m % d) * (m % d - 1)
    return rademacher - c / m**2 * (a ** (2 * n) - (a**2 - (q + a**2 - 2 * s) / (d - 1)) ** n)


def optimized(sketch: Sketch = "tensor_srht", **parameters: object) -> OptimizedMaclaurinFeatures:
    return OptimizedMaclaurinFeatures(parameters.pop("n_features", 40), sketch=sketch, **parameters)


# --------------------------------------------------------------------------------------------------------- the variance


@pytest.mark.slow
@pytest.mark.parametrize("sketch", SKETCHES)
def test_the_variance_of_a_kernel_value_is_the_sum_over_degrees(sketch: Sketch) -> None:
    lengthscale, variance, n_draws = np.array([0.8, 1.2, 2.0]), 2.5, 500
    X = rows(5, 3, 1.6)
    # Degrees up to 3 only: the more factors, the heavier the tails, and the worse a variance is estimated.
    parameters = {"kernel": GaussianKernel(lengthscale, variance), "max_degree": 3, "n_features": 47}
    upper = np.triu_indices(5)
    draws = np.empty((n_draws, len(upper[0])))
    for seed in range(n_draws):
        fitted = optimized(sketch, random_state=seed, **parameters).fit(X)
        features = fitted.transform(X)
        draws[seed] = (features @ features.T)[upper]
    counts = fitted.degree_counts_
    degrees = range(len(counts))
    assert len(counts) >= 3
    assert optimized(sketch, random_state=0, **parameters).fit(X).degree_counts_.tolist() == counts.tolist()

    scaled = X / lengthscale
    mean, predicted = np.empty(draws.shape[1]), np.empty(draws.shape[1])
    for pair, (i, j) in enumerate(zip(*upper, strict=True)):
        x, z = scaled[i], scaled[j]
        damping = variance * np.exp(-(x @ x + z @ z) / 2)
        mean[pair] = damping * sum((x @ z) ** n / factorial(n) for n in degrees)
        predicted[pair] = damping**2 * sum(
            column_variance(sketch, n, int(counts[n]), x, z) / factorial(n) ** 2 for n in degrees[1:]
        )
    centred = draws - mean
    np.testing.assert_array_less(np.abs(centred.mean(axis=0)), 5 * np.sqrt(predicted / n_draws) + 1e-12)
    found = np.mean(centred**2, axis=0)
    standard_error = np.sqrt((np.mean(centred**4, axis=0) - found**2) / n_draws)
    assert np.median(standard_error / predicted) < 0.1, "too few draws to see anything"
    np.testing.assert_array_less(np.abs(found - predicted), 5 * standard_error + 1e-12)


@pytest.mark.parametrize("sketch", SKETCHES)
def test_features_are_the_sketches_with_their_coefficients(sketch: Sketch) -> None:
    X = rows(6, 3, 2.0)
    lengthscale, variance = np.array([0.8, 1.2, 2.0]), 2.5
    fitted = optimized(sketch, kernel=GaussianKernel(lengthscale, variance), random_state=0).fit(X)
    scaled = X / lengthscale
    damping = np.sqrt(variance) * np.exp(-np.square(scaled).sum(axis=1, keepdims=True) / 2)
    columns = [damping]
    for n, (count, weights) in enumerate(zip(fitted.degree_counts_, fitted.weights_, strict=True)):
        assert weights.shape == (n, count, 3)
        if n > 0:
            products = np.prod([scaled @ factor.T for factor in weights], axis=0)
            columns.append(damping * products / np.sqrt(factorial(n) * count))
    np.testing.assert_allclose(fitted.transform(X), np.hstack(columns), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("sketch", SKETCHES)
def test_kernel_values_with_the_centre_are_exact(sketch: Sketch) -> None:
    X = rows(20, 4, 5.0)
    for seed in range(3):
        fitted = optimized(sketch, kernel=GaussianKernel([1.0, 2.0, 0.7, 1.0], 3.0), random_state=seed).fit(X)
        with_centre = fitted.transform(X) @ fitted.transform(np.zeros((1, 4)))[0]
        expected = 3.0 * np.exp(-np.square(X / [1.0, 2.0, 0.7, 1.0]).sum(axis=1) / 2)
        np.testing.assert_allclose(with_centre, expected, rtol=1e-12)


# --------------------------------------------------------------------------------------------------------- what is lost


@pytest.fixture(params=[(sketch, p) for sketch in SKETCHES for p in (1, 2, 15)], ids=str)
def fitted(request: pytest.FixtureRequest) -> OptimizedMaclaurinFeatures:
    sketch, p = request.param
    kernel = GaussianKernel([1.0, 2.0, 0.5], 2.5)
    return optimized(sketch, max_degree=p, kernel=kernel, random_state=0).fit(rows(30, 3, 2.0))


def test_missing_variance_is_what_the_expected_square_leaves(fitted: OptimizedMaclaurinFeatures) -> None:
    X = np.vstack((np.zeros((1, 3)), rows(50, 3, 8.0), [[1e3, 0.0, 0.0], [1e8, 1e8, 0.0]]))
    tensor = torch.from_numpy(X)
    squares = np.square(X / [1.0, 2.0, 0.5]).sum(axis=1)
    expected = 2.5 * (1 - gammaincc(fitted.degree_ + 1, squares))
    found = fitted.missing_variance(tensor, fitted.evaluate(tensor)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=2e-15)
    assert found[0] == 0.0
    assert found[-1] == 2.5


@pytest.mark.parametrize("epsilon", [0.5, 1e-3, 1e-8, 1e-30, 1e-200])
def test_reach_is_where_the_share_that_is_kept_falls_below(fitted: OptimizedMaclaurinFeatures, epsilon: float) -> None:
    np.testing.assert_allclose(gammaincc(fitted.degree_ + 1, fitted.reach(epsilon) ** 2), epsilon, rtol=1e-9)


def test_a_map_without_a_degree_reaches_everywhere_and_misses_nothing() -> None:
    X = rows(5, 2, 1.0)
    fitted = RandomMaclaurinFeatures(20, random_state=0).fit(X)
    tensor = torch.from_numpy(X)
    assert fitted.reach(1e-8) == np.inf
    assert fitted.missing_variance(tensor, fitted.evaluate(tensor)) is None


# -------------------------------------------------------------------------------------------------------------- far out


@pytest.mark.parametrize("norm", [50.0, 1e3, 1e8, 1e150])
@pytest.mark.parametrize("make", [RandomMaclaurinFeatures, *SKETCHES], ids=str)
def test_rows_far_out_map_to_exact_zeros(make: object, norm: float) -> None:
    X = rows(30, 3, 1.0)
    fitted = optimized(make, random_state=0) if isinstance(make, str) else make(40, random_state=0)
    fitted.fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        features = fitted.transform(norm * (X + 0.2) / np.linalg.norm(X + 0.2, axis=1)[:, None])
    np.testing.assert_array_equal(features, 0.0)


@pytest.mark.parametrize("make", [RandomMaclaurinFeatures, *SKETCHES], ids=str)
def test_features_are_finite_on_the_way_out(make: object) -> None:
    X = rows(400, 3, 60.0)
    fitted = optimized(make, random_state=0) if isinstance(make, str) else make(40, random_state=0)
    fitted.fit(rows(30, 3, 2.0))
    features = fitted.transform(X)
    assert np.isfinite(features).all()
    # No row is cut off while anything is left of it, and none is subnormal for a matrix product to stumble over.
    squares = np.square(X).sum(axis=1)
    kept = gammaincc(len(fitted.degree_counts_), squares)
    assert np.all(np.abs(features[kept > 1e-279]).max(axis=1) > 0)
    assert np.all(features[kept < 1e-281] == 0)
    assert np.any(kept < 1e-281)


@pytest.mark.slow
def test_high_degrees_of_long_rows_do_not_overflow() -> None:
    # x⁴⁰⁰ is 1e520 at 20, 400! is 1e868 and e^(−x²/2) is 1e−87; the feature itself is 0.14.
    x = np.linspace(-20.0, 20.0, 41)[:, None]
    fitted = OptimizedMaclaurinFeatures(451, max_degree=450, random_state=0).fit(x)
    features = fitted.transform(x)
    degrees = np.arange(451)
    logarithm = xlogy(degrees, np.abs(x)) - x**2 / 2 - gammaln(degrees + 1) / 2
    expected = np.exp(logarithm) * np.where(x < 0, -1.0, 1.0) ** degrees
    assert np.abs(expected[0]).max() > 0.1
    np.testing.assert_allclose(features, expected, rtol=1e-10, atol=1e-250)
    np.testing.assert_allclose(features[0] @ features[0], gammaincc(451, 400.0), rtol=1e-10)


# ------------------------------------------------------------------------------------------------------ Kar and Karnick


def test_degrees_are_drawn_with_halving_probability() -> None:
    n_features = 200_000
    counts = RandomMaclaurinFeatures(n_features, random_state=0).fit(np.zeros((1, 1))).degree_counts_
    assert counts.sum() == n_features
    # The degrees from 10 on together: 195 columns are expected there.
    observed = np.append(counts[:10], counts[10:].sum())
    expected = n_features * np.append(0.5 ** np.arange(1, 11), 0.5**10)
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_degrees_differ_between_seeds() -> None:
    counts = {tuple(RandomMaclaurinFeatures(64, random_state=s).fit(np.zeros((1, 2))).degree_counts_) for s in range(9)}
    assert len(counts) > 1


def test_columns_have_the_coefficients_of_their_probability() -> None:
    # φ(x) = σ e^{−x²/2} √(2^{n+1}/(n! D)) xⁿ where there is one input, and with products of projections where more.
    x = np.linspace(-3.0, 3.0, 13)[:, None]
    fitted = RandomMaclaurinFeatures(50, kernel=GaussianKernel(0.8, 2.5), random_state=0).fit(x)
    scaled = x / 0.8
    columns = [
        np.repeat(np.sqrt(2.5 * 2 ** (n + 1) / factorial(n) / 50) * np.exp(-(scaled**2) / 2) * scaled**n, count, axis=1)
        for n, count in enumerate(fitted.degree_counts_)
    ]
    np.testing.assert_allclose(fitted.transform(x), np.hstack(columns), rtol=1e-12, atol=1e-15)

    X = rows(6, 3, 2.0)
    fitted = RandomMaclaurinFeatures(50, random_state=1).fit(X)
    damping = np.exp(-np.square(X).sum(axis=1, keepdims=True) / 2)
    columns = []
    for n, weights in enumerate(fitted.weights_):
        assert weights.shape == (n, fitted.degree_counts_[n], 3)
        np.testing.assert_array_equal(np.abs(weights), 1.0)
        products = np.ones((6, weights.shape[1]))
        for factor in weights:
            products *= X @ factor.T
        columns.append(np.sqrt(2 ** (n + 1) / factorial(n) / 50) * damping * products)
    np.testing.assert_allclose(fitted.transform(X), np.hstack(columns), rtol=1e-12, atol=1e-15)


def test_the_variance_is_that_of_random_degrees() -> None:
    # One column's second moment is Σₙ 2^(n+1)/n!² (q + 2(a² − s))ⁿ, times the damping.
    X = rows(4, 3, 0.8, seed=2)
    n_features, n_draws = 40, 2000
    upper = np.triu_indices(4)
    # Columns are independent of each other: one large map, its columns in random order, is 2,000 of 40 columns.
    features = RandomMaclaurinFeatures(n_draws * n_features, random_state=0).fit_transform(X)
    features = features[:, np.random.default_rng(0).permutation(n_draws * n_features)] * np.sqrt(n_draws)
    products = features[upper[0]] * features[upper[1]]
    draws = products.reshape(len(upper[0]), n_draws, n_features).sum(axis=2).T
    predicted, mean = np.empty((2, draws.shape[1]))
    for pair, (i, j) in enumerate(zip(*upper, strict=True)):
        x, z = X[i], X[j]
        a, q, s = x @ z, (x @ x) * (z @ z), np.sum(x**2 * z**2)
        damping = np.exp(-(x @ x + z @ z) / 2)
        mean[pair] = np.exp(-np.sum((x - z) ** 2) / 2)
        second = sum(2 ** (n + 1) / factorial(n) ** 2 * (q + 2 * (a**2 - s)) ** n for n in range(40))
        predicted[pair] = (damping**2 * second - mean[pair] ** 2) / n_features
    centred = draws - mean
    np.testing.assert_array_less(np.abs(centred.mean(axis=0)), 5 * np.sqrt(predicted / n_draws))
    found = np.mean(centred**2, axis=0)
    standard_error = np.sqrt((np.mean(centred**4, axis=0) - found**2) / n_draws)
    assert np.median(standard_error / predicted) < 0.1, "too few draws to see anything"
    np.testing.assert_array_less(np.abs(found - predicted), 5 * standard_error)
