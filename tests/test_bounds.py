"""Bounds of the papers: against simulation, the solved problem, and quadrature."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf, gammaln, hyp1f1
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from lmgp import GaussianKernel, NystroemFeatures, RandomFourierFeatures, TaylorFeatures
from lmgp.errors import InputError
from lmgp.metrics import hoeffding_bound, spherical_fit_bound, svm_objective_gap


@pytest.mark.parametrize("variance", [1.0, 2.5])
@pytest.mark.parametrize("pairs", [True, False])
def test_large_errors_are_as_rare_as_hoeffding_says(variance: float, pairs: bool) -> None:
    rng = np.random.default_rng(0)
    n_features, n_draws = 64, 20_000
    difference = np.array([1.2, -0.7])
    frequencies = rng.standard_normal((n_draws, n_features // 2 if pairs else n_features, 2))
    x, z = np.array([0.4, 0.1]), np.array([0.4, 0.1]) - difference
    if pairs:
        estimates = np.cos(frequencies @ difference).mean(axis=1)
    else:
        phases = rng.uniform(0.0, 2 * np.pi, size=frequencies.shape[:2])
        estimates = 2 * (np.cos(frequencies @ x + phases) * np.cos(frequencies @ z + phases)).mean(axis=1)
    errors = variance * np.abs(estimates - np.exp(-difference @ difference / 2))
    levels = variance * np.linspace(0.02, 0.6, 30)
    shares = (errors[:, None] >= levels).mean(axis=0)
    bounds = hoeffding_bound(n_features, levels, variance=variance, pairs=pairs)
    assert np.all(shares <= bounds + 5 * np.sqrt(bounds * (1 - bounds) / n_draws + 1e-12))
    assert shares[3] > 0.05  # there are errors to bound
    assert np.any((bounds < 1.0) & (shares > 0.0))


def test_the_maps_themselves_keep_hoeffdings_bound() -> None:
    kernel = GaussianKernel(1.3, 2.0)
    X = np.array([[0.0, 0.0], [0.9, -0.4]])
    exact = kernel(X)[0, 1]
    errors = []
    for seed in range(800):
        features = RandomFourierFeatures(40, kernel=kernel, random_state=seed).fit_transform(X)
        errors.append(abs(features[0] @ features[1] - exact))
    for level in (0.4, 0.8, 1.0):
        bound = float(hoeffding_bound(40, level, variance=2.0))
        assert np.mean(np.array(errors) >= level) <= bound
    assert hoeffding_bound(40, 1.0, variance=2.0) == pytest.approx(2 * np.exp(-40 / (4 * 4)))
    assert hoeffding_bound(40, 1.0, variance=2.0, pairs=False) == min(1.0, 2 * np.exp(-40 / (8 * 4)))


def test_hoeffdings_bound_is_a_probability_of_every_shape() -> None:
    bounds = hoeffding_bound([[2], [100], [10_000]], [1e-3, 0.1, 1.0])
    assert bounds.shape == (3, 3)
    assert bounds.max() == 1.0
    assert np.all(np.diff(bounds, axis=0) <= 0)
    assert np.all(np.diff(bounds, axis=1) <= 0)


def objective(gram: Any, y: Any, regularization: float) -> float:
    """The least value of λ/2 ‖w‖² + mean hinge, without an intercept, from its dual by projected coordinate ascent."""
    n = len(y)
    Q = gram * np.outer(y, y)
    alpha = np.zeros(n)
    upper = 1.0 / (regularization * n)
    primal, dual = np.inf, 0.0
    for _ in range(3000):
        for i in range(n):
            alpha[i] = np.clip(alpha[i] + (1.0 - Q[i] @ alpha) / max(Q[i, i], 1e-12), 0.0, upper)
        primal = regularization / 2 * alpha @ Q @ alpha + np.maximum(0.0, 1.0 - Q @ alpha).mean()
        dual = regularization * (alpha.sum() - alpha @ Q @ alpha / 2)
        if primal - dual < 1e-5:
            return float(primal)
    raise AssertionError(f"not solved: {primal} and {dual}")


@pytest.mark.parametrize("regularization", [0.01, 0.3])
@pytest.mark.parametrize("features", [TaylorFeatures(degree=1), TaylorFeatures(degree=2), NystroemFeatures(10)])
def test_the_objective_on_a_projection_is_within_its_bound(features: Any, regularization: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.sign(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=40))
    kernel = GaussianKernel(1.0)
    columns = features.set_params(kernel=kernel, random_state=0).fit_transform(X)
    exact = objective(kernel(X), y, regularization)
    projected = objective(columns @ columns.T, y, regularization)
    gap = svm_objective_gap(kernel.diagonal(X), np.square(columns).sum(axis=1), regularization)
    assert exact - 1e-5 <= projected <= exact + gap + 1e-5
    assert gap > 0


def test_the_regularization_is_that_of_support_vector_machines() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = np.sign(X[:, 0] * X[:, 1])
    C = 2.0
    gram = rbf_kernel(X, gamma=0.5)
    model = SVC(C=C, kernel="precomputed").fit(gram, y)
    weights = model.dual_coef_[0]
    support = model.support_
    value = 0.5 * weights @ gram[np.ix_(support, support)] @ weights
    total = value + C * np.maximum(0, 1 - y * model.decision_function(gram)).sum()
    # Scikit-learn's objective over C m, with an intercept, which can only lower it.
    assert total / (C * 40) <= objective(gram, y, 1 / (C * 40)) + 1e-4


def test_no_gap_where_nothing_is_missing() -> None:
    assert svm_objective_gap([1.0, 1.0], [1.0, 1.0 + 1e-12], 0.1) == 0.0
    assert svm_objective_gap([1.0, 2.0], [0.0, 1.0], 0.25) == pytest.approx((1 + 1) / 2 / 0.5)


def one_gaussian(degree: int, a: float, upper: float) -> float:
    def squared(z: float) -> float:
        return float(((1 - z**2 / a**2) ** degree - np.exp(-degree * z**2 / a**2)) ** 2)

    return float(quad(squared, 0, upper, epsabs=1e-14, epsrel=1e-10, limit=200)[0]) / 2


@pytest.mark.parametrize("a", [2.0, 4.0])
def test_the_bound_of_the_spherical_fit_is_its_leading_term(a: float) -> None:
    for degree, tolerance in ((20, 0.1), (100, 0.02), (1000, 0.002)):
        integral = one_gaussian(degree, a, a)
        assert spherical_fit_bound(degree, a) == pytest.approx(integral, rel=tolerance)
        # What the integral is in closed form.
        beta = np.exp(gammaln(degree + 1) - gammaln(degree + 1.5))
        closed = a / 4 * np.sqrt(np.pi / (2 * degree)) * erf(np.sqrt(2 * degree))
        closed += a / 4 * np.sqrt(np.pi) * np.exp(gammaln(2 * degree + 1) - gammaln(2 * degree + 1.5))
        closed -= a / 2 * np.sqrt(np.pi) * beta * hyp1f1(0.5, degree + 1.5, -degree)
        assert closed == pytest.approx(integral, rel=1e-4)
    assert one_gaussian(10, a, 2.0) <= one_gaussian(10, a, a)


BAD: dict[str, tuple[Any, str]] = {
    "no features": (lambda: hoeffding_bound(0, 0.1), "n_features must be positive"),
    "negative error": (lambda: hoeffding_bound(10, -0.1), "error must be positive"),
    "an error that is no number": (lambda: hoeffding_bound(10, np.nan), "error must be positive"),
    "variance": (lambda: hoeffding_bound(10, 0.1, variance=0.0), "variance must be positive"),
    "random features": (lambda: svm_objective_gap([1.0, 1.0], [0.9, 1.1], 0.1), "row 1 has 1.1 above 1"),
    "nan": (lambda: svm_objective_gap([1.0, np.nan], [0.9, 0.9], 0.1), "kernel_diagonal must not be .* got nan"),
    "negative": (lambda: svm_objective_gap([1.0], [-5.0], 0.1), "feature_squares must not be negative .* got -5"),
    "half a pair": (lambda: hoeffding_bound([2, 3], 0.1), "n_features must be even, for pairs, and finite; got 3"),
    "shapes": (lambda: svm_objective_gap([1.0], [0.9, 0.9], 0.1), r"shapes \(1,\) and \(2,\)"),
    "no rows": (lambda: svm_objective_gap([], [], 0.1), r"shape \(m,\)"),
    "regularization": (lambda: svm_objective_gap([1.0], [0.9], 0.0), "regularization must be positive"),
    "degree": (lambda: spherical_fit_bound(0), "degree must be at least 1"),
    "a": (lambda: spherical_fit_bound(3, 1.5), "a at least 2"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_arguments_are_refused(bad: str) -> None:
    action, message = BAD[bad]
    with pytest.raises(InputError, match=message):
        action()
