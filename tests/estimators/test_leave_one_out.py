"""Leave-one-out predictions, and the likelihood of the training rows, against models that are made without them."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

from lmgp import ExactGPRegressor, FeaturizedGPRegressor, MaternKernel, NearestNeighborsGPRegressor, TaylorFeatures
from lmgp.errors import InputError
from lmgp.metrics import coverage, crps, nlpd, rmse
from tests.conftest import (
    GIVEN,
    counts_and_noises,
    dense_gp,
    draw,
    draw_normal,
    gaussian,
    make,
    universal_kriging,
    with_ones,
)

N = 60
# With maps and centroids that do not depend on one row's noise; residuals and blocks of all rows.
REFITTED = {
    "exact": {},
    "featurized": {},
    "featurized_taylor": {},
    "featurized_maclaurin": {},
    "featurized_nystroem": {},
    "localized_taylor": {},
    "localized_dual": {},
    "localized_test_rows": {},
    "spectral": {},
    "residual_taylor": {"n_neighbors": N},
    "residual_nystroem": {"n_neighbors": N, "block_size": 16},
}


def rows(n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y, _ = draw(n)
    return X, y, np.random.default_rng(7).uniform(0.02, 0.4, n)


APPROXIMATED = [name for name in REFITTED if "approximation" in make(name).get_params()]


@pytest.mark.parametrize(
    ("name", "approximation"),
    [(name, "fitc") for name in REFITTED] + [(name, other) for name in APPROXIMATED for other in ("dtc", "sor")],
)
def test_a_row_that_is_left_out_might_as_well_be_nothing_but_noise(name: str, approximation: str) -> None:
    X, y, noises = rows()
    model = make(name, **REFITTED[name])
    if name in APPROXIMATED:
        model.set_params(approximation=approximation)
    left_out = model.fit(X, y, noise_variances=noises).loo_
    tolerance = 2e-3 if name == "spectral" else 1e-6
    for row in (0, 17, 41):
        without = noises.copy()
        without[row] = 1e12
        mean, std = model.fit(X, y, noise_variances=without).predict(X[row : row + 1], return_std=True)
        np.testing.assert_allclose(left_out.mean[row], mean[0], atol=tolerance)
        np.testing.assert_allclose(left_out.std[row] ** 2, std[0] ** 2 + noises[row], rtol=tolerance)


@pytest.mark.parametrize("name", ["exact", "featurized_taylor", "spectral"])
def test_the_trend_is_estimated_without_the_row(name: str) -> None:
    X, y, noises = rows()
    model = make(name, trend="linear")
    left_out = model.fit(X, y, noise_variances=noises).loo_
    tolerance = 2e-3 if name == "spectral" else 1e-6
    for row in (3, 30):
        without = noises.copy()
        without[row] = 1e12
        mean, std = model.fit(X, y, noise_variances=without).predict(X[row : row + 1], return_std=True)
        np.testing.assert_allclose(left_out.mean[row], mean[0], atol=tolerance)
        np.testing.assert_allclose(left_out.std[row] ** 2, std[0] ** 2 + noises[row], rtol=tolerance)


def test_the_exact_one_with_a_trend_is_that_of_the_textbook() -> None:
    X, y, noises = rows(30)
    found = ExactGPRegressor(trend="linear", **GIVEN).fit(X, y, noise_variances=noises).loo_
    for row in range(0, 30, 7):
        k, one = np.arange(30) != row, slice(row, row + 1)
        K, c = gaussian(X[k], X[k], 1.2, 1.5), gaussian(X[k], X[one], 1.2, 1.5)
        mean, variance, _, _ = universal_kriging(
            K, c, np.full(1, 1.5), y[k], noises[k], with_ones(X[k]), with_ones(X[one])
        )
        np.testing.assert_allclose(found.mean[row], mean[0], rtol=1e-8)
        np.testing.assert_allclose(found.std[row], np.sqrt(variance[0] + noises[row]), rtol=1e-8)


def test_a_weighted_row_is_left_out_with_all_its_repetitions() -> None:
    X, y, _ = rows(40)
    counts, _ = counts_and_noises(40)
    model = ExactGPRegressor(**GIVEN).fit(X, y, sample_weight=counts)
    X, y, counts = X[counts > 0], y[counts > 0], counts[counts > 0]
    assert len(model.loo_.y) == len(y)
    k = np.arange(len(y)) != 5
    K, c = gaussian(X[k], X[k], 1.2, 1.5), gaussian(X[k], X[5:6], 1.2, 1.5)
    mean, variance, _ = dense_gp(K, c, np.full(1, 1.5), y[k], 0.1 / counts[k], model.center_)
    np.testing.assert_allclose(model.loo_.mean[5], mean[0], rtol=1e-9)
    np.testing.assert_allclose(model.loo_.std[5], np.sqrt(variance[0] + 0.1), rtol=1e-9)


def test_nearest_rows_are_those_without_the_row_itself() -> None:
    X, y = draw_normal(50)
    X[7] = X[8]  # a copy is another row
    model = NearestNeighborsGPRegressor(12, **GIVEN).fit(X, y)
    found = model.loo_
    for row in (0, 7, 8, 33):
        near = np.argsort(np.square(X - X[row]).sum(axis=1) + np.where(np.arange(50) == row, np.inf, 0.0))[:12]
        K, c = gaussian(X[near], X[near], 1.2, 1.5), gaussian(X[near], X[row : row + 1], 1.2, 1.5)
        mean, variance, _ = dense_gp(K, c, np.full(1, 1.5), y[near], np.full(12, 0.1), model.center_)
        np.testing.assert_allclose(found.mean[row], mean[0], rtol=1e-9)
        np.testing.assert_allclose(found.std[row], np.sqrt(variance[0] + 0.1), rtol=1e-9)


@pytest.mark.slow
def test_of_iterations_it_is_nearly_the_exact_one() -> None:
    X, y, _ = rows(300)
    given = {"kernel": MaternKernel(2.0, 1.5), "noise_variance": 0.1}
    expected = ExactGPRegressor(**given).fit(X, y).loo_
    found = ExactGPRegressor(**given, solver="iterative", tolerance=1e-4, random_state=0).fit(X, y).loo_
    np.testing.assert_allclose(found.mean, expected.mean, atol=0.02)
    np.testing.assert_allclose(found.std, expected.std, rtol=0.02)


def test_scores_and_the_table() -> None:
    X, y, _ = rows()
    found = make("exact").fit(X, y).loo_
    np.testing.assert_allclose(found.y, y, rtol=1e-12)
    arguments = y, found.mean, found.std**2
    np.testing.assert_allclose(
        [found.rmse, found.nlpd, found.crps], [rmse(*arguments[:2]), nlpd(*arguments), crps(*arguments)]
    )
    assert found.coverage(0.5) == coverage(*arguments, 0.5)
    np.testing.assert_allclose(found.nlpd, -norm.logpdf(*arguments[:2], found.std).mean())
    assert str(found).startswith("60 rows, each left out\n")
    assert f"{found.rmse:.4g}" in str(found)


def test_scores_count_a_row_as_often_as_its_weight() -> None:
    rng = np.random.default_rng(0)
    X, weights = rng.uniform(0.0, 6.0, (60, 1)), np.tile([1.0, 4.0], 30)
    y = np.sin(X[:, 0]) + 0.1 * weights * rng.normal(size=60)
    loo = ExactGPRegressor(MaternKernel(1.0), 0.1).fit(X, y, sample_weight=weights).loo_
    repeated = np.repeat(np.arange(60), weights.astype(int))
    errors, distances = (loo.y - loo.mean)[repeated], np.abs(2.0 * loo.pit - 1.0)[repeated]
    assert loo.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert loo.nlpd == pytest.approx(-np.mean(loo.distribution.logpdf(loo.y)[repeated]))
    assert loo.coverage(0.8) == pytest.approx(np.mean(distances <= 0.8))


def test_it_is_computed_once_and_again_after_another_fit() -> None:
    X, y, _ = rows()
    model = make("localized_taylor").fit(X, y)
    assert model.loo_ is model.loo_
    before = model.loo_
    assert model.fit(X, y + 1.0).loo_ is not before
    np.testing.assert_allclose(model.loo_.mean, before.mean + 1.0, rtol=1e-9)
    with pytest.raises(AttributeError, match="not fitted"):
        _ = make("exact").loo_


def test_sums_over_rows_are_no_rows() -> None:
    X, y, _ = rows()
    model = FeaturizedGPRegressor(TaylorFeatures(20), **GIVEN).fit(X, y)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        with pytest.raises(InputError, match="Fit it to all rows at once"):
            _ = twin.loo_
        assert twin.log_marginal_likelihood() == model.log_marginal_likelihood()
    np.testing.assert_array_equal(model.loo_.mean, model.fit(*rows()[:2]).loo_.mean)


@pytest.mark.parametrize("weights", [None, 1.0 + np.arange(N) % 3])
@pytest.mark.parametrize("name", ["exact", "localized_taylor", "localized_dual", "nearest_rows", "spectral"])
def test_the_likelihood_is_the_exact_one(name: str, weights: Any) -> None:
    """By Vecchia's approximation too, where all earlier rows are among the nearest."""
    X, y, noises = rows()
    model = make(name).fit(X, y, sample_weight=weights, noise_variances=noises)
    repeated = np.repeat(np.arange(N), np.ones(N, int) if weights is None else weights.astype(int))
    X, y, noises = X[repeated], y[repeated], noises[repeated]
    expected = multivariate_normal(np.full(len(y), y.mean()), gaussian(X, X, 1.2, 1.5) + np.diag(noises)).logpdf(y)
    np.testing.assert_allclose(model.log_marginal_likelihood(), expected, rtol=1e-3 if name == "spectral" else 1e-7)


def test_the_likelihood_of_features_and_of_blocks() -> None:
    X, y, _ = rows()
    features = TaylorFeatures(15)
    model = FeaturizedGPRegressor(features, approximation="dtc", **GIVEN).fit(X, y)
    mapped = model.features_.transform(X - X.mean(axis=0))
    expected = multivariate_normal(np.full(N, y.mean()), mapped @ mapped.T + 0.1 * np.eye(N)).logpdf(y)
    np.testing.assert_allclose(model.log_marginal_likelihood(), expected, rtol=1e-9)
    # One block is the exact process; blocks of one row are those of "fitc".
    exact = make("exact").fit(X, y).log_marginal_likelihood()
    one = make("residual_taylor", features=features, block_size=N).fit(X, y).log_marginal_likelihood()
    np.testing.assert_allclose(one, exact, rtol=1e-9)
    many = make("residual_taylor", features=features, block_size=1).fit(X, y).log_marginal_likelihood()
    fitc = FeaturizedGPRegressor(features, **GIVEN).fit(X, y).log_marginal_likelihood()
    np.testing.assert_allclose(many, fitc, rtol=1e-9)


def test_the_likelihood_with_a_trend_is_that_of_its_residuals() -> None:
    X, y, _ = rows()
    for name in ("exact", "spectral", "nearest_rows"):
        model = make(name, trend="linear").fit(X, y)
        trend = model.trend_
        left = y - trend.intercept - X @ trend.coef
        expected = multivariate_normal(np.zeros(N), gaussian(X, X, 1.2, 1.5) + 0.1 * np.eye(N)).logpdf(left)
        np.testing.assert_allclose(model.log_marginal_likelihood(), expected, rtol=1e-4)


def test_of_a_covariance_the_standard_deviation_is_the_diagonal() -> None:
    X, y, _ = rows()
    model = ExactGPRegressor(**GIVEN).fit(X, y)
    _, std, cov = model.predict(X[:9], return_std=True, return_cov=True, include_noise=True)
    np.testing.assert_array_equal(std**2, (np.sqrt(np.diagonal(cov))) ** 2)
    np.testing.assert_allclose(std, model.predict(X[:9], return_std=True, include_noise=True)[1], rtol=1e-12)


@pytest.mark.parametrize("trend", ["constant", "linear"])
@pytest.mark.parametrize("name", ["exact", "nearest_rows", "localized_taylor", "spectral"])
def test_the_likelihood_at_other_parameters_is_that_of_dense_algebra(name: str, trend: str) -> None:
    X, y, _ = rows()
    model = make(name).set_params(trend=trend).fit(X, y)
    fitted, theta = model.log_marginal_likelihood(), model.kernel_.theta
    elsewhere = theta + np.array([0.3, -0.2])
    assert model.log_marginal_likelihood(theta) == pytest.approx(fitted, rel=1e-6)
    assert model.log_marginal_likelihood([*theta, np.log(model.noise_variance_)]) == pytest.approx(fitted, rel=1e-6)
    other = ExactGPRegressor(model.kernel_.with_theta(elsewhere), 2.0 * model.noise_variance_, trend=trend)
    expected = other.fit(X, y).log_marginal_likelihood()
    # A trend stays as it was estimated.
    slack = 0.5 if trend == "linear" else 1e-3 * abs(expected)
    found = model.log_marginal_likelihood([*elsewhere, np.log(2.0 * model.noise_variance_)])
    assert found == pytest.approx(expected, abs=slack)
    assert abs(found - fitted) > 1.0
    assert model.log_marginal_likelihood() == fitted  # nothing of the model has changed


def test_the_maximum_is_where_the_model_is() -> None:
    X, y, _ = rows()
    model = ExactGPRegressor(random_state=0).fit(X, y)
    at = np.append(model.kernel_.theta, np.log(model.noise_variance_))
    best = model.log_marginal_likelihood(at)
    for i in range(len(at)):
        for step in (-0.1, 0.1):
            assert model.log_marginal_likelihood(at + step * (np.arange(len(at)) == i)) < best


def test_of_weights_and_noises_the_likelihood_at_other_parameters_is_that_of_a_model_of_them() -> None:
    X, y, noises = rows()
    weights = 1.0 + np.arange(N) % 3
    model = make("exact").fit(X, y, sample_weight=weights, noise_variances=noises)
    theta = model.kernel_.theta + 0.2
    same = ExactGPRegressor(model.kernel_.with_theta(theta)).fit(X, y, weights, noises)
    assert model.log_marginal_likelihood(theta) == pytest.approx(same.log_marginal_likelihood(), rel=1e-10)


@pytest.mark.parametrize("theta", [[0.0], [0.0] * 4, [0.0, np.nan], "here", [[0.0, 0.0]]])
def test_another_number_of_parameters_is_refused(theta: Any) -> None:
    X, y, _ = rows()
    model = make("exact").fit(X, y)
    with pytest.raises(InputError, match="logarithms of the 2 free parameters of the kernel, lengthscale, variance"):
        model.log_marginal_likelihood(theta)


@pytest.mark.parametrize("name", ["featurized", "residual_nystroem"])
def test_features_are_made_for_one_kernel(name: str) -> None:
    X, y, _ = rows()
    model = make(name).fit(X, y)
    with pytest.raises(InputError, match=r"made for kernel_.*kernel=model\.kernel_\.with_theta\(theta\)"):
        model.log_marginal_likelihood(model.kernel_.theta)
