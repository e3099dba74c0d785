"""The posterior of the weights against Bayesian linear regression written out in n × n form."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.kernel_approximation import Nystroem

import lmgp.inference.weight_space as weight_space
from lmgp import (
    GaussianKernel,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    RandomFourierFeatures,
    TaylorFeatures,
)
from lmgp.errors import InputError, MemoryLimitError, NumericalWarning
from lmgp.features.adapter import make_feature_map
from lmgp.inference.trend import without_trend
from lmgp.inference.weight_space import (
    WeightPosterior,
    accumulate,
    accumulate_columns,
    check_model,
    evaluate,
    fitted_global_map,
    prior_variance,
)
from lmgp.noise import APPROXIMATIONS, Approximation, Noise
from lmgp.statistics import Source, Statistics
from lmgp.validation import Rows
from tests.conftest import ARGUMENTS, rows_and_noises, universal_kriging, with_ones


def draw(n: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, y and features of new rows."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, n_features)) / np.sqrt(n_features)
    return features, rng.normal(size=n), rng.normal(size=(6, n_features)) / np.sqrt(n_features)


def posterior_of(features, y, noise_variance, weights=None, precision=None) -> WeightPosterior:
    return WeightPosterior(statistics_of(features, y, noise_variance, weights, precision), center=0.0)


def statistics_of(features, y, noise_variance, weights=None, precision=None, origin: float = 0.5) -> Statistics:
    statistics = Statistics.zeros(features.shape[1], Source(Noise(noise_variance)), origin)
    optional = [None if values is None else torch.from_numpy(values) for values in (weights, precision)]
    statistics.add_rows(torch.from_numpy(features), torch.from_numpy(y), *optional)
    return statistics


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
    posterior = WeightPosterior(Statistics.zeros(4, Source(Noise(0.5))))
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
    statistics = statistics_of(features, y, 0.2)
    expected = WeightPosterior(statistics)
    statistics.sums.expand().gram[np.triu_indices(5, k=1)] = torch.nan
    actual = WeightPosterior(statistics)
    for ours, theirs in zip(
        actual.predict(torch.from_numpy(new)), expected.predict(torch.from_numpy(new)), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert actual.log_marginal_likelihood == expected.log_marginal_likelihood


def test_statistics_are_left_alone_so_that_more_rows_can_be_added() -> None:
    features, y, _ = draw(30, 5)
    statistics = statistics_of(features, y, 0.2)
    sums, targets = statistics.sums.expand(), replace(statistics.targets)
    gram, cross = sums.gram.clone(), sums.cross.clone()
    WeightPosterior(statistics, 3.0)
    assert torch.equal(sums.gram, gram)
    assert torch.equal(sums.cross, cross)
    assert statistics.targets == targets


def test_what_rounding_makes_indefinite_is_corrected_beside_the_identity() -> None:
    # I and 5e13 times a matrix of rank one: rounding outweighs I. The correction is measured by I, not by the noise.
    rng = np.random.default_rng(0)
    y = 3.0 * rng.choice([-1.0, 1.0], 50)
    features = y[:, None] * 400.0 * rng.uniform(0.5, 1.2, 400)
    with pytest.warns(NumericalWarning, match="added to its diagonal"):
        posterior = posterior_of(features, y, 1e-6)
    np.testing.assert_allclose(posterior.predict_mean(torch.from_numpy(features)), y, rtol=1e-6)


def test_says_how_much_memory_it_holds() -> None:
    assert posterior_of(*draw(30, 5)[:2], 0.2).n_bytes == 8 * (5 * 5 + 2 * 5)  # L, β and the weights


@pytest.mark.parametrize("level", [0.0, 1e8])
def test_y_is_centred_by_its_weighted_mean_when_solved(level: float) -> None:
    features, y, new = draw(30, 5)
    y = y + level
    weights = np.random.default_rng(4).uniform(0.5, 2.0, 30)
    mean = float(np.average(y, weights=weights))
    posterior = WeightPosterior(statistics_of(features, y, 0.3, weights, origin=level))
    assert posterior.center == pytest.approx(mean, rel=1e-15)
    expected = dense(features, y - mean, new, 0.3 / weights)[0]
    found, _ = posterior.predict(torch.from_numpy(new))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11 + 1e-15 * level)


def test_the_mean_alone_is_the_mean() -> None:
    features, y, new = draw(30, 5)
    posterior = posterior_of(features, y, 0.2)
    mean, _ = posterior.predict(torch.from_numpy(new))
    np.testing.assert_allclose(posterior.predict_mean(torch.from_numpy(new)), mean, rtol=1e-12, atol=1e-14)


class TestModel:
    """`accumulate` and `evaluate`, around a centre."""

    X = np.random.default_rng(0).normal(size=(60, 2))
    y = 1e8 + np.sin(X[:, 0])
    T = np.random.default_rng(1).normal(size=(7, 2))
    centre = np.array([0.3, -0.2])

    def made(self, noise: Noise) -> tuple[TaylorFeatures, WeightPosterior]:
        features = TaylorFeatures(45).fit_around(self.X, self.centre[None, :])
        return features, WeightPosterior(accumulate(features, Rows(self.X, self.y), self.centre, noise))

    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    def test_equals_dense_algebra(self, approximation: Approximation) -> None:
        noise = Noise(0.05, approximation)
        features, posterior = self.made(noise)
        phi, new = (features.transform(rows - self.centre) for rows in (self.X, self.T))
        missing, new_missing = (1.0 - np.square(one).sum(axis=1) for one in (phi, new))
        mean, variance, _ = dense(
            phi, self.y - self.y.mean(), new, 0.05 + (missing if approximation == "fitc" else np.zeros(60))
        )
        found = evaluate(posterior, features, self.T, self.centre, noise)
        np.testing.assert_allclose(found[0], mean, rtol=0, atol=1e-6)  # y is rounded to 1.5e-8
        expected = variance if approximation == "sor" else variance + new_missing
        np.testing.assert_allclose(found[1], expected, rtol=1e-8)
        alone, nothing = evaluate(posterior, features, self.T, self.centre, noise, variance=False)
        assert nothing is None
        np.testing.assert_allclose(alone, found[0], rtol=0, atol=1e-12)

    def test_the_mean_alone_asks_for_no_missing_variance(self, monkeypatch: pytest.MonkeyPatch) -> None:
        features, posterior = self.made(Noise(0.05))
        monkeypatch.setattr(TaylorFeatures, "missing_variance", None)
        evaluate(posterior, features, self.T, self.centre, Noise(0.05), variance=False)

    def test_statistics_of_another_map_are_refused(self) -> None:
        rows, noise = Rows(self.X, self.y), Noise(0.05)
        features, _ = self.made(noise)
        total = accumulate(features, rows, self.centre, noise)
        again = TaylorFeatures(45).fit_around(self.X, self.centre[None, :])
        total.update(accumulate(again, rows, self.centre, noise))  # an equal map
        assert total.targets.n == 120
        for other, centre, what in (
            (TaylorFeatures(28), self.centre, "map"),
            (TaylorFeatures(45, kernel=GaussianKernel(2.0)), self.centre, "kernel"),
            (TaylorFeatures(45), np.zeros(2), "centre"),
        ):
            other.fit_around(self.X, centre[None, :])
            with pytest.raises(InputError, match=f"another {what}"):
                total.update(accumulate(other, rows, centre, noise))

    def test_a_model_that_does_not_fit_is_refused_before_its_map_is_made(self) -> None:
        for features in (TaylorFeatures(1_000_000), RandomFourierFeatures(10**9), OptimizedMaclaurinFeatures(10**6)):
            with pytest.raises(MemoryLimitError, match=r"At most|at most"):
                check_model(features, 100, 2, 4.0)
        check_model(NystroemFeatures(10**9), 100, 2, 4.0)  # 100 rows are 100 landmarks

    def test_the_advice_is_the_largest_size_that_fits(self) -> None:
        # 3 matrices of 8 D² bytes, and the parameters of the map.
        with pytest.raises(MemoryLimitError, match=r"(\d+\.?\d*) GiB.*Use at most ([\d,]+) features") as refused:
            check_model(RandomFourierFeatures(10**6), 100, 2, 0.25)
        most = int(str(refused.value).split("Use at most ")[1].split(" features")[0].replace(",", ""))
        check_model(RandomFourierFeatures(most), 100, 2, 0.25)
        with pytest.raises(MemoryLimitError):
            check_model(RandomFourierFeatures(most + 2), 100, 2, 0.25)
        assert 24 * most**2 == pytest.approx(0.25 * 2**30, rel=0.01)

    def test_the_map_of_a_global_model_is_around_the_weighted_mean(self) -> None:
        weights = np.random.default_rng(2).uniform(0.5, 2.0, 60)
        features, centre = fitted_global_map(OptimizedMaclaurinFeatures(40), Rows(self.X, self.y, weights))
        np.testing.assert_allclose(centre, np.average(self.X, axis=0, weights=weights), rtol=1e-12)
        assert features.n_features_out_ == 40
        with pytest.raises(MemoryLimitError, match="with 45 columns"):
            fitted_global_map(TaylorFeatures(45), Rows(self.X, self.y), 1e-6)
        fitted_global_map(TaylorFeatures(45), Rows(self.X, self.y), 1e-3)

    def test_chunks_and_threads_change_the_rounding_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        noise = Noise(0.05, "fitc")
        features, whole = self.made(noise)
        rows, alone = Rows(self.X, self.y), evaluate(whole, features, self.T, self.centre, noise)
        monkeypatch.setattr(weight_space, "chunks", lambda n, *_: [slice(i, i + 7) for i in range(0, n, 7)])
        monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
        posterior = WeightPosterior(accumulate(features, rows, self.centre, noise))
        assert posterior.surprise == pytest.approx(whole.surprise, rel=1e-9)
        for ours, expected in zip(evaluate(posterior, features, self.T, self.centre, noise), alone, strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-9)

    def test_the_prior_of_a_transformer_is_that_of_its_features(self) -> None:
        kernel, transformer = GaussianKernel(1.0, 2.0), Nystroem(gamma=0.5, n_components=9, random_state=0)
        features = make_feature_map(transformer, kernel, np.random.default_rng(0))
        features.fit_around(self.X, self.centre[None, :])
        phi = features.transform(self.T - self.centre)
        found = prior_variance(features, kernel, self.T, self.centre)
        np.testing.assert_allclose(found, np.square(phi).sum(axis=1), rtol=1e-12)
        assert found.min() < 1.9  # where the kernel has 2
        of_kernel = prior_variance(TaylorFeatures(9), kernel, self.T, self.centre)
        np.testing.assert_array_equal(of_kernel, 2.0)


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_a_trend_is_that_of_universal_kriging(
    approximation: Approximation, arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    X, T, centre = rng.normal(size=(60, 2)), rng.normal(size=(9, 2)), np.array([0.3, -0.2])
    y = 2.0 + 3.0 * X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.2 * rng.normal(size=60)
    given, own = rows_and_noises(X, y, arguments)
    y, noise = given.y, Noise(0.05, approximation)
    features = TaylorFeatures(45).fit_around(X, centre[None, :])
    trend, rows = without_trend(given, "linear", None)
    monkeypatch.setattr(weight_space, "chunks", lambda n, *_: [slice(i, i + 7) for i in range(0, n, 7)])
    columns = accumulate_columns(features, rows, centre, noise, trend)
    posterior = WeightPosterior(accumulate(features, rows, centre, noise), 0.0, columns)

    phi, new = features.transform(X - centre), features.transform(T - centre)
    weights = np.ones(60) if given.weights is None else given.weights
    missing = (1.0 - np.square(phi).sum(axis=1)) / weights if approximation == "fitc" else 0.0
    total = own + missing
    prior = np.square(new).sum(axis=1)
    mean, variance, beta, _ = universal_kriging(phi @ phi.T, phi @ new.T, prior, y, total, with_ones(X), with_ones(T))

    mapped = torch.from_numpy(new)
    found, spread = posterior.predict(mapped)
    np.testing.assert_allclose(found.numpy() + posterior.trend.values(T), mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(posterior.predict_mean(mapped), found, rtol=0, atol=1e-10)
    np.testing.assert_allclose(spread.numpy() + posterior.trend_variance(T, mapped), variance, rtol=1e-8)
    left_out = 0.0 if approximation == "sor" else 1.0 - prior
    at_rows = evaluate(posterior, features, T, centre, noise)
    np.testing.assert_allclose(at_rows[0], found, rtol=0, atol=1e-10)
    np.testing.assert_allclose(at_rows[1], variance + left_out, rtol=1e-8)
    covariance = phi @ phi.T + np.diag(total)
    left = trend.columns(T) - new @ phi.T @ np.linalg.solve(covariance, trend.columns(X))
    np.testing.assert_allclose(posterior.columns_left(T, mapped), left, rtol=0, atol=1e-9)
    residuals = y - with_ones(X) @ beta
    assert posterior.n_bytes == 8 * (45 * 45 + 2 * 45 + 45 * 3)
    if arguments == "plain":
        assert posterior.surprise == pytest.approx(residuals @ np.linalg.solve(covariance, residuals) / 60, rel=1e-9)
        density = multivariate_normal(np.zeros(60), covariance).logpdf(residuals)
        assert posterior.log_marginal_likelihood == pytest.approx(density, rel=1e-9)


def test_another_target_of_the_same_rows_is_a_posterior_of_its_own() -> None:
    features, y, new = draw(30, 5)
    other = np.random.default_rng(6).normal(size=30)
    weights = np.random.default_rng(4).integers(1, 4, 30).astype(float)
    posterior = posterior_of(features, y, 0.3, weights)
    before = posterior.log_marginal_likelihood, posterior.surprise, posterior.coefficients.clone()
    cross = torch.from_numpy(features.T @ (weights * other))[:, None]
    found = posterior.with_sums(cross, float(weights @ other**2), 0.3, float(weights.sum()))
    expected = posterior_of(features, other, 0.3, weights)
    assert found.log_marginal_likelihood == pytest.approx(expected.log_marginal_likelihood, rel=1e-11)
    assert found.surprise == pytest.approx(expected.surprise, rel=1e-11)
    for of_new, of_expected in zip(
        found.predict(torch.from_numpy(new)), expected.predict(torch.from_numpy(new)), strict=True
    ):
        np.testing.assert_allclose(of_new, of_expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-10)
    assert (posterior.log_marginal_likelihood, posterior.surprise) == before[:2]
    assert torch.equal(posterior.coefficients, before[2])
