"""The kernel that every public feature map approximates.

The statistical tests draw with fixed seeds and allow five standard errors, estimated from the same draws.
"""

from math import factorial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lmgp import (
    GaussianKernel,
)
from lmgp.features.base import FeatureMap
from tests.contract.conftest import ALL, EVERY_RANDOM, Case, rows

Floats = NDArray[np.float64]


def truncated_kernel(X: Floats, lengthscale: float | Floats, variance: float, degree: int) -> Floats:
    """σ² e^{−(‖x̃‖² + ‖z̃‖²)/2} Σ_{n ≤ p} (x̃ᵀz̃)ⁿ/n!, term by term."""
    scaled = X / lengthscale
    inner = scaled @ scaled.T
    squares = np.diag(inner)
    series = sum(inner**n / factorial(n) for n in range(degree + 1))
    return variance * np.exp(-(squares[:, None] + squares) / 2) * series


def exact_kernel(X: Floats, lengthscale: float | Floats, variance: float) -> Floats:
    scaled = X / lengthscale
    differences = scaled[:, None, :] - scaled[None, :, :]
    return variance * np.exp(-np.sum(differences**2, axis=2) / 2)


def target(fitted: FeatureMap, X: Floats, lengthscale: float | Floats, variance: float) -> Floats:
    """The kernel whose unbiased estimate the map is."""
    degree = getattr(fitted, "degree_", None)
    if degree is None:
        return exact_kernel(X, lengthscale, variance)
    return truncated_kernel(X, lengthscale, variance, degree)


@ALL
@pytest.mark.parametrize("lengthscale", [0.4, [0.5, 3.0, 1.2]], ids=["isotropic", "ard"])
def test_the_kernel_scales_the_rows_and_the_columns(case: Case, lengthscale: Any) -> None:
    X, Z = rows(), rows(seed=1)
    kernel = GaussianKernel(lengthscale, 7.0)
    scaled = case.make(kernel=kernel, random_state=6).fit(X)
    unit = case.make(random_state=6).fit(X / np.array(lengthscale))
    expected = np.sqrt(7.0) * unit.transform(Z / np.array(lengthscale))
    np.testing.assert_allclose(scaled.transform(Z), expected, rtol=1e-12, atol=1e-14)


@ALL
def test_no_kernel_means_the_unit_kernel(case: Case) -> None:
    X = rows()
    fitted = case.make(random_state=0).fit(X)
    assert fitted.kernel is None
    assert (fitted.kernel_.lengthscale, fitted.kernel_.variance) == (1.0, 1.0)
    given = case.make(kernel=GaussianKernel(1.0, 1.0), random_state=0).fit(X)
    np.testing.assert_array_equal(given.transform(X), fitted.transform(X))


@pytest.mark.slow
@ALL
def test_the_expected_product_is_the_kernel(case: Case) -> None:
    X = rows(6, seed=2, scale=0.3)  # the variance of Kar and Karnick's map explodes with the norms
    lengthscale, variance = np.array([0.8, 1.0, 1.5]), 2.5
    kernel = GaussianKernel(lengthscale, variance)
    n_draws = 150 if case.is_random else 1
    errors = np.empty((n_draws, 6, 6))
    for seed in range(n_draws):
        fitted = case.make(34, kernel=kernel, random_state=seed).fit(X)
        features = fitted.transform(X)
        errors[seed] = features @ features.T - target(fitted, X, lengthscale, variance)
    if not case.is_random:
        np.testing.assert_allclose(errors[0], 0.0, atol=1e-13)
        return
    standard_error = errors.std(axis=0, ddof=1) / np.sqrt(n_draws)
    assert standard_error.max() < 0.05 * variance, "too few draws to see anything"
    # 1e-12: what does not vary (Fourier maps on the diagonal) is exact up to rounding.
    np.testing.assert_array_less(np.abs(errors.mean(axis=0)), 5 * standard_error + case.bias * variance + 1e-12)


@ALL
def test_the_square_of_a_row_is_the_prior_variance_less_what_is_missing(case: Case) -> None:
    X = rows(5, seed=3, scale=0.45)
    kernel = GaussianKernel(0.9, 2.5)
    n_draws = 60 if case.is_random else 1
    sums = np.empty((n_draws, 5))
    for seed in range(n_draws):
        fitted = case.make(34, kernel=kernel, random_state=seed).fit(X)
        tensor = torch.from_numpy(X)
        features = fitted.evaluate(tensor)
        missing = fitted.missing_variance(tensor, features)
        squares = features.square().sum(dim=1).numpy()
        sums[seed] = squares if missing is None else squares + missing.numpy()
        if missing is not None:
            assert (missing >= 0).all()
    standard_error = sums.std(axis=0, ddof=1) / np.sqrt(n_draws) if case.is_random else 0.0
    np.testing.assert_array_less(np.abs(sums.mean(axis=0) - 2.5), 5 * standard_error + 1e-12)


@pytest.mark.slow
@EVERY_RANDOM
def test_the_error_falls_with_the_root_of_the_number_of_columns(case: Case) -> None:
    # 4 inputs: 64 and 1024 frequencies are whole blocks for both orthogonal maps.
    X = rows(6, d=4, seed=4, scale=0.5)
    upper = np.triu_indices(6, k=1)
    means, relative_errors = [], []
    for n_features, n_draws in ((case.halving_columns, 120), (16 * case.halving_columns, 35)):
        draws = np.empty((n_draws, len(upper[0])))
        for seed in range(n_draws):
            fitted = case.make(n_features, random_state=seed, **dict(case.halving)).fit(X)
            features = fitted.transform(X)
            draws[seed] = (features @ features.T - target(fitted, X, 1.0, 1.0))[upper]
        if case.bias:
            # Around its own mean: the bias stays. The factor is for the lost degree of freedom.
            draws = (draws - draws.mean(axis=0)) * np.sqrt(n_draws / (n_draws - 1))
        squared = np.square(draws).mean(axis=1)
        means.append(squared.mean())
        relative_errors.append(squared.std(ddof=1) / np.sqrt(n_draws) / squared.mean())
    ratio = np.log(means[0] / means[1])
    allowed = 5 * np.hypot(*relative_errors)
    # 16 times the columns, 1/16 of the squared error: exactly so where columns, or whole blocks, are independent.
    assert allowed < np.log(4.0), "too few draws to see anything"
    assert abs(ratio - np.log(16.0)) < case.halving_slack + allowed
