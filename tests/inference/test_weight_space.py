"""The posterior of the weights against Bayesian linear regression written out in n × n form."""

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from lmgp.inference.weight_space import WeightPosterior
from lmgp.statistics import Statistics


def draw(n: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, y and features of new rows."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, n_features)) / np.sqrt(n_features)
    return features, rng.normal(size=n), rng.normal(size=(6, n_features)) / np.sqrt(n_features)


def posterior_of(features, y, noise_variance, weights=None, precision=None) -> WeightPosterior:
    statistics = Statistics.zeros(features.shape[1])
    optional = [None if values is None else torch.from_numpy(values) for values in (weights, precision)]
    statistics.add_rows(torch.from_numpy(features), torch.from_numpy(y), *optional)
    return WeightPosterior(statistics, noise_variance)


def dense(features, y, new, noise) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, variance and log marginal likelihood of the Gaussian process with covariance ΦΦᵀ."""
    covariance = features @ features.T + np.diag(noise)
    cross = features @ new.T
    mean = cross.T @ np.linalg.solve(covariance, y)
    variance = np.sum(new**2, axis=1) - np.sum(cross * np.linalg.solve(covariance, cross), axis=0)
    return mean, variance, float(multivariate_normal(np.zeros(len(y)), covariance).logpdf(y))


@pytest.mark.parametrize(("n", "n_features"), [(30, 5), (5, 30), (1, 1), (20, 20)])
@pytest.mark.parametrize("noise_variance", [0.01, 1.0, 7.0])
def test_equals_the_gaussian_process_with_the_kernel_of_the_features(
    n: int, n_features: int, noise_variance: float
) -> None:
    features, y, new = draw(n, n_features)
    posterior = posterior_of(features, y, noise_variance)
    mean, variance = posterior.predict(torch.from_numpy(new))
    expected_mean, expected_variance, expected_likelihood = dense(features, y, new, np.full(n, noise_variance))
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-10, atol=1e-10)
    assert posterior.log_marginal_likelihood == pytest.approx(expected_likelihood, rel=1e-11)


def test_equals_the_gaussian_process_with_a_noise_variance_of_each_row() -> None:
    features, y, new = draw(30, 5)
    noise = np.random.default_rng(1).uniform(0.05, 3.0, 30)
    expected_mean, expected_variance, expected_likelihood = dense(features, y, new, noise)
    # Which noise variance the precisions are relative to is of no consequence.
    for noise_variance in (0.1, 1.0, 20.0):
        posterior = posterior_of(features, y, noise_variance, precision=noise_variance / noise)
        mean, variance = posterior.predict(torch.from_numpy(new))
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(variance, expected_variance, rtol=1e-10)
        assert posterior.log_marginal_likelihood == pytest.approx(expected_likelihood, rel=1e-11)


def test_a_weight_stands_for_repetitions_of_the_row() -> None:
    features, y, new = draw(12, 4)
    counts = np.random.default_rng(2).integers(0, 4, 12)
    weighted = posterior_of(features, y, 0.3, weights=counts.astype(float))
    repeated = posterior_of(np.repeat(features, counts, axis=0), np.repeat(y, counts), 0.3)
    for ours, expected in zip(
        weighted.predict(torch.from_numpy(new)), repeated.predict(torch.from_numpy(new)), strict=True
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-11)
    assert weighted.log_marginal_likelihood == pytest.approx(repeated.log_marginal_likelihood, rel=1e-12)


def test_without_rows_the_prior_is_left() -> None:
    posterior = WeightPosterior(Statistics.zeros(4), 0.5)
    new = torch.from_numpy(draw(1, 4)[2])
    mean, variance = posterior.predict(new)
    np.testing.assert_array_equal(mean, np.zeros(6))
    np.testing.assert_allclose(variance, np.sum(new.numpy() ** 2, axis=1), rtol=1e-15)
    assert posterior.log_marginal_likelihood == 0.0


@pytest.mark.parametrize("noise_variance", [1e-2, 1e-6, 1e-8])
def test_variance_is_never_negative_and_never_above_the_prior(noise_variance: float) -> None:
    features, y, _ = draw(400, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = posterior_of(features, y, noise_variance)
    new = np.concatenate((features, np.zeros((1, 20)), 1e-160 * features[:5]))
    _, variance = posterior.predict(torch.from_numpy(new))
    assert np.all(variance.numpy() >= 0.0)
    assert np.all(variance.numpy() <= np.sum(new**2, axis=1) * (1 + 1e-12))


def test_only_the_lower_triangle_of_the_gram_matrix_is_read() -> None:
    features, y, new = draw(30, 5)
    statistics = Statistics.zeros(5)
    statistics.add_rows(torch.from_numpy(features), torch.from_numpy(y))
    expected = WeightPosterior(statistics, 0.2)
    statistics.gram[np.triu_indices(5, k=1)] = torch.nan
    actual = WeightPosterior(statistics, 0.2)
    for ours, theirs in zip(
        actual.predict(torch.from_numpy(new)), expected.predict(torch.from_numpy(new)), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert actual.log_marginal_likelihood == expected.log_marginal_likelihood


def test_statistics_are_left_alone_so_that_more_rows_can_be_added() -> None:
    features, y, _ = draw(30, 5)
    statistics = Statistics.zeros(5)
    statistics.add_rows(torch.from_numpy(features), torch.from_numpy(y))
    gram, cross = statistics.gram.clone(), statistics.cross.clone()
    WeightPosterior(statistics, 0.2)
    assert torch.equal(statistics.gram, gram)
    assert torch.equal(statistics.cross, cross)


def test_says_how_much_memory_it_holds() -> None:
    assert posterior_of(*draw(30, 5)[:2], 0.2).n_bytes == 8 * (5 * 5 + 5)
