"""`sample_weight`: precisions, against dense algebra, and counts where all are whole numbers."""

import math
import warnings
from functools import partialmethod
from typing import Any

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize_scalar
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal

from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, MaternKernel, NearestNeighborsGPRegressor
from lmgp.data import Rows
from lmgp.learning.scoring import Climb
from lmgp.learning.space import MEDIAN_NOISE, PRIOR_DEVIATION
from lmgp.posteriors.vecchia import VecchiaLikelihood

KERNEL = GaussianKernel(0.8, 1.5)


def function(X: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(3 * X[:, 0]) + X[:, 1] ** 2)


def draw(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, function(X) + 0.1 * rng.normal(size=n), rng.uniform(0.5, 2.0, n)


NEW = np.random.default_rng(9).uniform(-1.0, 1.0, (300, 2))


def log_density(X: np.ndarray, y: np.ndarray, weights: np.ndarray, noise: float) -> float:
    """log N(y | mean, K + σ²/w), written out: each row is there once."""
    covariance = 1.5 * np.exp(-0.5 * cdist(X, X, "sqeuclidean") / 0.8**2) + np.diag(noise / weights)
    return float(multivariate_normal(np.full(len(y), np.average(y, weights=weights)), covariance).logpdf(y))


def test_the_learned_noise_is_the_likeliest_of_rows_that_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Climb, "go_on", partialmethod(Climb.go_on, tolerance=1e-9))  # to more digits
    X, y, weights = draw(60)

    def loss(log: float) -> float:  # less the prior of the noise
        off = (log - math.log(MEDIAN_NOISE * y.var() * weights.mean())) / PRIOR_DEVIATION
        return 0.5 * off**2 - log_density(X, y, weights, math.exp(log))

    best = minimize_scalar(loss, bounds=(-9.0, 0.0), method="bounded")
    model = ExactGPRegressor(KERNEL, random_state=0).fit(X, y, sample_weight=weights)
    assert model.noise_variance_ == pytest.approx(math.exp(best.x), rel=1e-3)
    likelihood = log_density(X, y, weights, model.noise_variance_)
    assert model.log_marginal_likelihood_ == pytest.approx(likelihood, rel=1e-6)


def test_the_density_of_nearest_rows_is_dense_too() -> None:
    X, y, weights = draw(60)
    model = NearestNeighborsGPRegressor(kernel=KERNEL, noise_variance=0.02).fit(X, y, sample_weight=weights)
    assert model.log_marginal_likelihood_ == pytest.approx(log_density(X, y, weights, 0.02), rel=1e-8)


def test_the_slope_of_a_vecchia_likelihood_is_that_of_its_value() -> None:
    X, y, weights = draw(60)
    rows = Rows(X, y - np.average(y, weights=weights), weights)
    likelihood = VecchiaLikelihood(rows, 60, 59, np.random.default_rng(0))
    kernel = GaussianKernel(0.8, 1.5, lengthscale_bounds=(0.1, 10.0), variance_bounds=(0.1, 10.0))
    likelihood.look_for_neighbours(kernel)
    free = np.append(kernel.theta, math.log(0.02))
    terms, slope, _ = likelihood(kernel, free)
    assert terms.sum() == pytest.approx(log_density(X, y, weights, 0.02), rel=1e-8)
    expected = approx_fprime(free[-1:], lambda log: log_density(X, y, weights, math.exp(log[0])), 1e-6)
    assert slope[-1] == pytest.approx(expected[0], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("model", [ExactGPRegressor(random_state=0), GPRegressor(random_state=0)], ids=repr)
def test_weights_that_are_no_counts_collapse_no_noise(model: Any) -> None:
    X, y, weights = draw()
    rmse = []
    for given in (None, weights, np.full(200, 2.5)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, y, sample_weight=given)
        rmse.append(np.sqrt(np.mean((model.predict(NEW) - function(NEW)) ** 2)))
        # All rows have a noise of .01: σ² is w times that of a row.
        mean = 1.0 if given is None else given.mean()
        assert 0.75 * mean < model.noise_variance_ / 0.01 < 1.25 * mean
        assert model.learning_.n_copies == 0
    np.testing.assert_allclose(rmse, rmse[0], rtol=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("model", [ExactGPRegressor(random_state=0), GPRegressor(random_state=0)], ids=repr)
def test_weights_of_one_change_nothing_and_the_unit_of_others_only_that_of_the_noise(model: Any) -> None:
    X, y, weights = draw(120)
    once = model.fit(X, y).predict(NEW, return_std=True)
    np.testing.assert_array_equal(model.fit(X, y, sample_weight=np.ones(120)).predict(NEW, return_std=True), once)
    mean, std = model.fit(X, y, sample_weight=weights).predict(NEW, return_std=True)
    noise = model.noise_variance_
    other, spread = model.fit(X, y, sample_weight=7.7 * weights).predict(NEW, return_std=True)
    np.testing.assert_allclose(other, mean, atol=0.02 * np.ptp(mean))
    np.testing.assert_allclose(spread, std, rtol=0.1)
    assert model.noise_variance_ == pytest.approx(7.7 * noise, rel=0.05)


def test_the_noise_of_rows_with_precisions_is_learned() -> None:
    rng = np.random.default_rng(1)
    X, weights = rng.uniform(-1.0, 1.0, (400, 2)), np.exp(rng.uniform(-4.0, 4.0, 400))
    y = function(X) + 0.3 * rng.normal(size=400) / np.sqrt(weights)
    model = ExactGPRegressor(random_state=0)
    alike = np.mean((model.fit(X, y).predict(NEW) - function(NEW)) ** 2)
    known = np.mean((model.fit(X, y, sample_weight=weights).predict(NEW) - function(NEW)) ** 2)
    assert model.noise_variance_ == pytest.approx(0.09, rel=0.2)
    assert known < alike


def precise() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows with normal errors of the variance 0.04/w."""
    rng = np.random.default_rng(0)
    X, w = rng.uniform(0.0, 4.0, (400, 1)), np.minimum(10.0 ** rng.uniform(-1.5, 0.5, 400), 1.0)
    return X, np.sin(2.0 * X[:, 0]) + 0.2 / np.sqrt(w) * rng.normal(size=400), w


def test_rows_left_out_have_the_noise_of_their_weights() -> None:
    X, y, w = precise()
    given = {"kernel": GaussianKernel(1.0), "noise_variance": 0.04}
    weighted = ExactGPRegressor(**given).fit(X, y, sample_weight=w)
    noisy = ExactGPRegressor(**given).fit(X, y, noise_variances=0.04 / w, center=weighted.center_)
    np.testing.assert_allclose(weighted.loo_.std, noisy.loo_.std, rtol=1e-10)
    counted = ExactGPRegressor(**given).fit(X, y, sample_weight=np.full(400, 2.0))  # which are rows twice
    assert counted.loo_.std.min() >= 0.2


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["gaussian", ["gaussian", "matern52"]])
def test_errors_that_are_normal_for_their_weights_are_no_outliers(kernel: Any) -> None:
    X, y, w = precise()
    model = GPRegressor(kernel=kernel, average=False, random_state=0).fit(X, y, sample_weight=w)
    assert model.noise_.name == "normal"
    assert model.loo_.coverage(0.95) == pytest.approx(0.95, abs=0.03)
    densities = model.learning_.chosen.alone if isinstance(kernel, list) else model.loo_.distribution.logpdf(y).mean()
    assert densities > -0.7  # about −0.5; −3 if all rows had the noise of weight 1


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_weights_changes_the_noise_alone(unit: float) -> None:
    X, y, w = draw(120)
    weights, noisy = w / w.mean(), y + 0.4 * np.random.default_rng(1).normal(size=120)
    for make in (ExactGPRegressor, GPRegressor, NearestNeighborsGPRegressor):
        once, model = (make(kernel="matern52").fit(X, noisy, sample_weight=each) for each in (weights, unit * weights))
        np.testing.assert_allclose(model.predict(NEW), once.predict(NEW), atol=1e-6)
        assert model.noise_variance_ == pytest.approx(unit * once.noise_variance_, rel=1e-5)


def test_the_unit_of_weights_changes_no_divergence_of_a_candidate() -> None:
    rng = np.random.default_rng(0)
    X, weights = rng.uniform(0.0, 3.0, (700, 4)), rng.uniform(0.5, 2.0, 700)
    y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + 0.05 * rng.normal(size=700) / np.sqrt(weights)
    given = {"kernel": MaternKernel(2.5, smoothness=2.5), "noise": "normal", "average": False, "random_state": 0}
    once, other = (
        GPRegressor(noise_variance=0.0025 * unit, methods=["orf"], **given).fit(X, y, sample_weight=unit * weights)
        for unit in (1.0, 1e4)
    )
    np.testing.assert_allclose([t.kl for t in other.selection_], [t.kl for t in once.selection_], rtol=1e-6)
