"""What every posterior answers, against dense algebra where it is exact, and against itself where it is not."""

import pickle
from typing import Any

import numpy as np
import pytest

from lmgp import GaussianKernel, MaternKernel, NystroemFeatures, TaylorFeatures
from lmgp.data import Rows
from lmgp.errors import MemoryLimitError, NoEstimateError
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import ExactPosterior, check_exact, max_rows_within
from lmgp.posteriors.trend import Trend, Trended, trended
from lmgp.recipes import Exact, Iterative, Local, Nearest, Recipe, Residual, Spectral, Weights
from tests.conftest import counts_and_noises, dense_gp, draw, universal_kriging, with_ones

N, NOISE = 60, 0.05
GAUSSIAN, MATERN = GaussianKernel([1.3, 1.1], 1.4), MaternKernel([2.1, 1.8], 0.9, smoothness=2.5)
X, Y0, NEW = draw(N, n_new=9, outside=False)
Y = np.column_stack((Y0 - Y0.mean(), np.cos(X[:, 0]), X[:, 1] - X[:, 1].mean()))
COUNTS, NOISES = counts_and_noises(N)

# Those that are the exact process of N rows, up to a tolerance, and those that approximate it.
EXACT: dict[str, tuple[Recipe, Any, float]] = {
    "exact": (Exact(), MATERN, 1e-9),
    "iterative": (Iterative(1e-9), MATERN, 1e-6),
    "nearest": (Nearest(N), MATERN, 1e-8),
    "nystroem": (Weights(NystroemFeatures(N)), MATERN, 1e-6),
    "taylor": (Weights(TaylorFeatures(500)), GAUSSIAN, 1e-6),
    "residual": (Residual(NystroemFeatures(15), N, N), MATERN, 1e-7),
    "dual": (Local(TaylorFeatures(500), 9.0, solver="dual"), GAUSSIAN, 1e-6),
    "primal": (Local(TaylorFeatures(500), 9.0), GAUSSIAN, 1e-6),
    "spectral": (Spectral(1e-7), GAUSSIAN, 1e-5),
}
OTHERS: dict[str, tuple[Recipe, Any, float]] = {
    "few nearest": (Nearest(12), MATERN, 1e-9),
    "few features": (Weights(NystroemFeatures(12), "dtc"), MATERN, 1e-9),
    "few landmarks": (Residual(NystroemFeatures(8), 10, 16), MATERN, 1e-9),
    "local": (Local(TaylorFeatures(15), 1.0), GAUSSIAN, 1e-9),
    "local dual": (Local(TaylorFeatures(15), 1.0, solver="dual"), GAUSSIAN, 1e-9),
    "around each row": (Local(TaylorFeatures(15), centroids="test_rows"), GAUSSIAN, 1e-9),
    "modes": (Spectral(1e-2), MATERN, 1e-2),
}
ALL = {**EXACT, **OTHERS}


def rows_of(arguments: str, Y: Any = Y) -> tuple[Rows, np.ndarray]:
    """Rows, and the noise variance of each over its weight."""
    if arguments == "plain":
        return Rows(X, Y), np.full(N, NOISE)
    return Rows(X, Y, COUNTS + 1.0, NOISES), NOISES / (COUNTS + 1.0)


def made(name: str, rows: Rows) -> Posterior:
    recipe, kernel, _ = ALL[name]
    return recipe.posterior(kernel, NOISE, rows, np.random.default_rng(0))


def dense_one(name: str, j: int, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    kernel = ALL[name][1]
    return dense_gp(kernel(X), kernel(X, NEW), kernel.diagonal(NEW), Y[:, j], noise, 0.0)


@pytest.mark.parametrize("arguments", ["plain", "weights and noises"])
@pytest.mark.parametrize("name", EXACT)
def test_means_and_variances_are_those_of_dense_algebra(name: str, arguments: str) -> None:
    (rows, noise), slack = rows_of(arguments), EXACT[name][2]
    posterior = made(name, rows)
    means, variances = posterior.predict(NEW)
    alone, none = posterior.predict(NEW, variance=False)
    assert none is None
    if arguments == "plain":
        assert posterior.n_rows == N
    assert means.shape == alone.shape == (len(NEW), 3)
    for j in range(3):
        expected = dense_one(name, j, noise)
        np.testing.assert_allclose(means[:, j], expected[0], rtol=0, atol=20 * slack)
        np.testing.assert_allclose(alone[:, j], expected[0], rtol=0, atol=20 * slack)
        np.testing.assert_allclose(variances, expected[1], rtol=0, atol=20 * slack)


@pytest.mark.parametrize("arguments", ["plain", "weights and noises"])
@pytest.mark.parametrize("name", EXACT)
def test_products_surprise_and_densities_are_those_of_dense_algebra(name: str, arguments: str) -> None:
    (rows, noise), (_, _, slack) = rows_of(arguments), EXACT[name]
    posterior, covariance = made(name, rows), EXACT[name][1](X) + np.diag(noise)
    expected = Y.T @ np.linalg.solve(covariance, Y)
    products = posterior.products()
    if products is not None:
        np.testing.assert_allclose(products, expected, rtol=1e3 * slack, atol=1e3 * slack)
    share = np.diag(expected) / N
    if arguments == "plain":
        np.testing.assert_allclose(posterior.surprise(NEW), np.tile(share, (len(NEW), 1)), rtol=1e3 * slack)
        densities = [dense_one(name, j, noise)[2] for j in range(3)]
        rtol = 1e-3 if name in ("iterative", "nearest", "dual", "primal") else 1e3 * slack
        np.testing.assert_allclose(posterior.log_density(), densities, rtol=rtol)


@pytest.mark.parametrize("name", [*EXACT, "few nearest", "modes"])
def test_the_unit_of_weights_changes_nothing(name: str) -> None:
    (recipe, kernel, slack), weights = ALL[name], np.random.default_rng(3).uniform(0.5, 1.5, N)
    found = []
    for unit in (1.0, 1e3, 1e-3):
        rows = Rows(X, Y, unit * weights, measurements=unit * weights)
        posterior = recipe.posterior(kernel, unit * NOISE, rows, np.random.default_rng(0))
        found.append((*posterior.distribution(NEW), posterior.surprise(NEW)))
    for other in found[1:]:
        for one, expected in zip(other, found[0], strict=True):
            np.testing.assert_allclose(one, expected, rtol=100 * slack, atol=10 * slack)


def left_out(kernel: Any, rows: Rows, noise: np.ndarray, i: int) -> tuple[np.ndarray, float]:
    """The mean of each target at row i, and its variance, from all other rows."""
    others = np.arange(N) != i
    Z, own = X[others], X[i : i + 1]
    parts = [dense_gp(kernel(Z), kernel(Z, own), kernel.diagonal(own), y[others], noise[others], 0.0) for y in rows.Y.T]
    return np.array([mean[0] for mean, *_ in parts]), parts[0][1][0]


@pytest.mark.parametrize("arguments", ["plain", "weights and noises"])
@pytest.mark.parametrize("name", EXACT)
def test_leave_one_out_is_the_process_without_the_row(name: str, arguments: str) -> None:
    (rows, noise), (_, kernel, slack) = rows_of(arguments), EXACT[name]
    posterior = made(name, rows)
    means, variances = posterior.leave_one_out()
    some = np.array([40, 3, 17])
    for of_some, of_all in zip(posterior.leave_one_out(some), (means, variances), strict=True):
        np.testing.assert_allclose(of_some, of_all[some], rtol=1e-9, atol=1e-12)
    # Landmarks stay as they are without the row of one, whose residual then is that of the kernel.
    slack = max(slack, 1e-6)
    for i in range(0, N, 19):
        expected = left_out(kernel, rows, noise, i)
        np.testing.assert_allclose(means[i], expected[0], rtol=0, atol=100 * slack)
        assert variances[i] == pytest.approx(expected[1], rel=0, abs=100 * slack)


@pytest.mark.parametrize("name", ALL)
def test_combined_targets_are_those_of_another_fit(name: str) -> None:
    B = np.array([[1.0, 0.5], [0.0, -2.0], [3.0, 0.1]])
    slack = 100 * ALL[name][2]
    found, expected = made(name, rows_of("plain")[0]).combined(B), made(name, rows_of("plain", Y @ B)[0])
    np.testing.assert_allclose(found.predict(NEW)[0], expected.predict(NEW)[0], rtol=0, atol=slack)
    np.testing.assert_allclose(found.variances(NEW), expected.variances(NEW), rtol=1e-9)
    np.testing.assert_allclose(found.surprise(NEW), expected.surprise(NEW), rtol=slack, atol=slack)
    np.testing.assert_array_equal(found.rows.Y, Y @ B)
    for of_found, of_expected in zip(found.leave_one_out(), expected.leave_one_out(), strict=True):
        np.testing.assert_allclose(of_found, of_expected, rtol=0, atol=10 * slack)
    np.testing.assert_allclose(found.log_density(), expected.log_density(), rtol=slack)
    if expected.products() is not None:
        np.testing.assert_allclose(found.products(), expected.products(), rtol=slack, atol=10 * slack)


@pytest.mark.parametrize("name", ALL)
def test_one_target_is_a_column_of_three(name: str) -> None:
    slack = 10 * ALL[name][2]
    three, one = made(name, rows_of("plain")[0]), made(name, rows_of("plain", Y[:, 1])[0])
    means, variances = one.predict(NEW)
    assert means.shape == (len(NEW), 1)
    np.testing.assert_allclose(means[:, 0], three.predict(NEW)[0][:, 1], rtol=0, atol=slack)
    np.testing.assert_allclose(variances, three.variances(NEW), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_covariances_have_the_variances_and_draws_have_the_covariances(name: str) -> None:
    posterior, T = made(name, rows_of("plain")[0]), NEW[:4]
    covariance, spread = posterior.covariance(T), np.sqrt(posterior.variances(T))
    np.testing.assert_allclose(covariance, covariance.T, rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.diag(covariance), posterior.variances(T), rtol=1e-2 if name == "modes" else 1e-6)
    n = 1000
    drawn = posterior.sample(T, n, np.random.default_rng(1)) / spread[:, None]
    correlations = covariance / spread / spread[:, None]
    np.testing.assert_allclose(drawn.mean(axis=1), 0.0, atol=4 / n**0.5)
    np.testing.assert_allclose(np.cov(drawn), correlations, atol=4 * (2 / n) ** 0.5)


@pytest.mark.parametrize("name", ALL)
def test_a_pickle_predicts_the_same(name: str) -> None:
    posterior = made(name, rows_of("plain")[0])
    before = posterior.predict(NEW)
    after = pickle.loads(pickle.dumps(posterior)).predict(NEW)
    for found, expected in zip(after, before, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ALL)
def test_the_error_is_stated_or_refused(name: str) -> None:
    posterior = made(name, rows_of("plain")[0])
    if name in ("nearest", "residual", "nystroem", "few nearest", "few features", "few landmarks"):
        with pytest.raises((NoEstimateError, ValueError)):
            posterior.error(NEW)
    else:
        error = posterior.error(NEW)
        assert error.shape == (len(NEW), 3)
        assert np.all(error >= 0.0)
    if name == "exact":
        np.testing.assert_array_equal(posterior.error(NEW), 0.0)


# ------------------------------------------------------------------------------------------------------------- trends

SLOPES = np.array([[2.0, -1.0, 0.0], [-5.0, 0.5, 3.0]])


def with_trend(name: str, arguments: str) -> tuple[Trended, Trend, np.ndarray, np.ndarray]:
    """The posterior with a linear trend, the trend, targets on slopes, and the noise of each row."""
    rows, noise = rows_of(arguments, Y + X @ SLOPES)
    trend = Trend.of(rows, "linear", None)
    whole = rows.with_targets(np.column_stack((rows.Y, trend.columns(X))))
    posterior = trended(made(name, whole), trend, whole)
    assert isinstance(posterior, Trended)
    return posterior, trend, rows.Y, noise


@pytest.mark.parametrize("arguments", ["plain", "weights and noises"])
@pytest.mark.parametrize("name", EXACT)
def test_a_trend_is_that_of_universal_kriging(name: str, arguments: str) -> None:
    (_, kernel, slack), (posterior, trend, Z, noise) = EXACT[name], with_trend(name, arguments)
    means, variances = posterior.predict(NEW)
    alone = posterior.predict(NEW, variance=False)[0]
    added = trend.columns(NEW) @ posterior.coefficients
    for j in range(3):
        mean, variance, beta, spread = universal_kriging(
            kernel(X), kernel(X, NEW), kernel.diagonal(NEW), Z[:, j], noise, with_ones(X), with_ones(NEW)
        )
        np.testing.assert_allclose(means[:, j] + added[:, j], mean, rtol=0, atol=300 * slack)
        np.testing.assert_allclose(alone[:, j] + added[:, j], mean, rtol=0, atol=300 * slack)
        np.testing.assert_allclose(variances, variance, rtol=0, atol=100 * slack)
        estimate = trend.estimate(posterior.coefficients[:, j], posterior.coefficients_covariance)
        np.testing.assert_allclose([estimate.intercept, *estimate.coef], beta, rtol=0, atol=3e3 * slack)
        np.testing.assert_allclose(estimate.covariance, spread, rtol=3e3 * slack, atol=1e3 * slack)


@pytest.mark.parametrize("arguments", ["plain", "weights and noises"])
@pytest.mark.parametrize("name", EXACT)
def test_leave_one_out_estimates_the_trend_without_the_row(name: str, arguments: str) -> None:
    """Its variance is that of the trend as well."""
    (_, kernel, slack), (posterior, trend, Z, noise) = EXACT[name], with_trend(name, arguments)
    means, variances = posterior.leave_one_out()
    means = means + trend.columns(X) @ posterior.coefficients
    known = posterior.untrended.leave_one_out()[1]
    slack = max(slack, 1e-6)
    for i in range(0, N, 19):
        others, own = np.arange(N) != i, X[i : i + 1]
        W, H = X[others], with_ones(X[others])
        for j in range(3):
            mean, variance, *_ = universal_kriging(
                kernel(W), kernel(W, own), kernel.diagonal(own), Z[others, j], noise[others], H, with_ones(own)
            )
            assert means[i, j] == pytest.approx(mean[0], rel=0, abs=300 * slack)
            assert variances[i] == pytest.approx(variance[0], rel=0, abs=100 * slack)
    assert np.max(variances / known) > 1.01  # what the trend adds is more than the tolerances


@pytest.mark.parametrize("name", ALL)
def test_combined_targets_with_a_trend_are_combined_with_their_trends(name: str) -> None:
    posterior, B = with_trend(name, "plain")[0], np.array([[1.0], [-2.0], [0.5]])
    found = posterior.combined(B)
    np.testing.assert_allclose(found.predict(NEW)[0], posterior.predict(NEW)[0] @ B, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.variances(NEW), posterior.variances(NEW), rtol=1e-9)
    np.testing.assert_allclose(found.coefficients, posterior.coefficients @ B, rtol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).predict(NEW)[0], found.predict(NEW)[0])


# ---------------------------------------------------------------------------------------------- of no rows, and limits


def test_without_rows_the_exact_process_is_the_prior() -> None:
    posterior = ExactPosterior(MATERN, rows_of("plain")[0].take(slice(0)), made("exact", rows_of("plain")[0]).noise)
    means, variances = posterior.predict(NEW)
    np.testing.assert_array_equal(means, 0.0)
    np.testing.assert_array_equal(variances, MATERN.diagonal(NEW))


@pytest.mark.parametrize("name", ["exact", "nearest", "nystroem", "local"])
def test_of_no_new_rows(name: str) -> None:
    means, variances = made(name, rows_of("plain")[0]).predict(NEW[:0])
    assert means.shape == (0, 3)
    assert variances.shape == (0,)


def test_the_rows_of_two_matrices_fit_and_one_more_does_not() -> None:
    assert max_rows_within(16.0 * 300**2 / 2**30) == 300
    check_exact(300, 16.0 * 300**2 / 2**30)
    with pytest.raises(MemoryLimitError, match="exact prediction from 301 rows"):
        check_exact(301, 16.0 * 300**2 / 2**30)
