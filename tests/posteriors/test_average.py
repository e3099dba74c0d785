"""Averages of processes: moments against draws and dense algebra, and weights against a search of the simplex."""

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from lmgp import GaussianKernel, MaternKernel
from lmgp.data import Noise, Rows
from lmgp.posteriors.average import LEAST, MOST, AveragePosterior, WeightedKernel, averaged, stacking_weights
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import ExactPosterior
from tests.conftest import dense_gp, draw

X, Y0, NEW = draw(40, n_new=7, outside=False)
Y = Y0 - Y0.mean()
KERNELS = (
    WeightedKernel(MaternKernel([2.1, 1.8], 0.9, smoothness=0.5), 0.02, 0.7),
    WeightedKernel(GaussianKernel([0.6, 0.8], 1.4), 0.3, 0.3),
)
ROWS = Rows(X, Y[:, None])


def build(kernel: Any, noise_variance: float) -> Posterior:
    return ExactPosterior(kernel, ROWS, Noise(noise_variance))


def mixture(means: Any, variances: Any) -> tuple[Any, Any]:
    """The mean and the variance of a mixture, from its first two moments."""
    weights = np.array([one.weight for one in KERNELS])
    first, second = weights @ means, weights @ (np.array(variances) + np.square(means))
    return first, second - np.square(first)


def dense(i: int | None = None) -> tuple[Any, Any]:
    """Means and variances with noise at new rows; with i, at row i from all others."""
    some = np.arange(len(X)) != (len(X) if i is None else i)
    at = NEW if i is None else X[i : i + 1]
    found = []
    for kernel, noise, _ in KERNELS:
        known = X[some]
        noises = np.full(len(known), noise)
        mean, variance, _ = dense_gp(kernel(known), kernel(known, at), kernel.diagonal(at), Y[some], noises, 0.0)
        found.append((mean, variance + noise))
    return mixture(*map(np.array, zip(*found, strict=True)))


def test_weights_are_those_of_what_is_left_where_a_row_had_nothing_else() -> None:
    densities = np.zeros((2, 100))
    densities[1], densities[:, 0] = -0.5, (-800.0, 0.0)
    np.testing.assert_allclose(stacking_weights(densities, np.ones(100)), (1.0, 0.0))


def test_of_many_that_predict_alike_some_are_left() -> None:
    weights = stacking_weights(np.zeros((2 * int(1 / LEAST), 10)), np.ones(10))
    assert 1 <= np.count_nonzero(weights) <= MOST
    assert weights.sum() == pytest.approx(1.0)


def test_moments_are_those_of_the_mixture() -> None:
    average = averaged(KERNELS, build)
    means, variances = average.distribution(NEW)
    expected, with_noise = dense()
    np.testing.assert_allclose(means[:, 0], expected, atol=1e-9)
    np.testing.assert_allclose(average.predict(NEW, variance=False)[0][:, 0], expected, atol=1e-9)
    np.testing.assert_allclose(variances + average.noise.variance, with_noise, atol=1e-9)
    np.testing.assert_allclose(np.diag(average.covariance(NEW)), variances, atol=1e-9)
    assert average.noise.variance == pytest.approx(0.7 * 0.02 + 0.3 * 0.3)


def test_leave_one_out_is_the_mixture_without_the_row() -> None:
    average = averaged(KERNELS, build)
    means, variances = average.leave_one_out()
    expected = [dense(i) for i in range(len(X))]
    np.testing.assert_allclose(means[:, 0], [mean[0] for mean, _ in expected], atol=1e-8)
    np.testing.assert_allclose(variances + average.noise.variance, [each[0] for _, each in expected], atol=1e-8)
    some = np.array([3, 30])
    for whole, part in zip((means, variances), average.leave_one_out(some), strict=True):
        np.testing.assert_allclose(part, whole[some], atol=1e-10)


def test_draws_have_the_mean_and_the_covariance() -> None:
    average = averaged(KERNELS, build)
    drawn = average.sample(NEW, 200_000, np.random.default_rng(0))
    covariance = average.covariance(NEW)
    np.testing.assert_allclose(drawn.mean(axis=1), 0.0, atol=0.01)
    np.testing.assert_allclose(np.cov(drawn), covariance, atol=0.02 * covariance.max())


def test_all_else_is_a_mean_or_that_of_the_heaviest_part() -> None:
    average = averaged(KERNELS, build)
    assert isinstance(average, AveragePosterior)
    parts = average.parts
    of_rows = average.without_each(ROWS)
    for one, other in zip(of_rows, average.leave_one_out(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    for name in ("prior_variance", "error", "surprise"):
        values = [getattr(part, name)(NEW) for part in parts]
        np.testing.assert_allclose(getattr(average, name)(NEW), 0.7 * values[0] + 0.3 * values[1])
    np.testing.assert_allclose(average.log_density(), parts[0].log_density())
    doubled = average.combined(np.array([[2.0]]))
    np.testing.assert_allclose(doubled.predict(NEW, False)[0], 2.0 * average.predict(NEW, False)[0])
    again = pickle.loads(pickle.dumps(average))
    np.testing.assert_allclose(again.distribution(NEW)[0], average.distribution(NEW)[0])
    assert isinstance(averaged(KERNELS[:1], build), ExactPosterior)


class TestWeights:
    def test_they_maximise_the_density_of_the_mixture(self) -> None:
        rng = np.random.default_rng(1)
        y, counts = rng.standard_t(3, 400), rng.uniform(0.5, 2.0, 400)
        densities = np.array([norm.logpdf(y, 0.0, scale) for scale in (0.5, 1.0, 4.0)])

        def loss(point: Any) -> float:
            weights = np.exp(np.append(point, 0.0))
            return -float(np.average(np.log(weights / weights.sum() @ np.exp(densities)), weights=counts))

        best = minimize(loss, np.zeros(2))
        expected = np.exp(np.append(best.x, 0.0))
        np.testing.assert_allclose(stacking_weights(densities, counts), expected / expected.sum(), atol=2e-3)

    def test_few_and_none_that_counts_little(self) -> None:
        rng = np.random.default_rng(2)
        y = np.concatenate([rng.normal(center, 0.3, 500) for center in range(6)])
        densities = np.array([norm.logpdf(y, center, 0.3) for center in range(6)])
        weights = stacking_weights(densities, np.ones(len(y)))
        assert np.count_nonzero(weights) == MOST
        assert weights.sum() == pytest.approx(1.0)
        y = np.append(rng.normal(0.0, 1.0, 970), rng.normal(9.0, 1.0, 30))
        weights = stacking_weights(np.array([norm.logpdf(y, 0.0, 2.0), norm.logpdf(y, 9.0, 1.0)]), np.ones(1000))
        assert LEAST > 0.03
        np.testing.assert_array_equal(weights, [1.0, 0.0])
