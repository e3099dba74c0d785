"""The contract of all regressors: covariances, draws, intervals, batches, and what takes no variance."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    PeriodicKernel,
    TaylorFeatures,
)
from lmgp.errors import InputError
from lmgp.estimators import base
from lmgp.posteriors import joint
from lmgp.posteriors.nearest import NearestPosterior
from tests.conftest import GIVEN, draw, every_regressor, gaussian, make

N_DRAWS, FEW_DRAWS = 3000, 600
# Those that draw by the covariance of few rows, and otherwise of many.
IN_PARTS = [
    "exact",
    "featurized_taylor",
    "featurized_nystroem",
    "localized_taylor",
    "nearest_rows",
    "residual_nystroem",
]


def fitted(name: str, trend: str = "constant") -> tuple[Any, np.ndarray]:
    X, y, T = draw(60, n_new=8)
    return make(name, trend=trend).fit(X, y), T[:-2]  # none out of reach: models on modes do not draw there


def standardized(model: Any, T: np.ndarray, n: int = N_DRAWS, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """The errors of the mean and of the covariance of draws, in their standard errors."""
    drawn = model.sample_y(T, n, random_state=3, **options)
    assert drawn.shape == (len(T), n)
    mean, std, cov = model.predict(T, return_std=True, return_cov=True, **options)
    spread = np.sqrt((np.outer(std**2, std**2) + cov**2) / n)
    return (drawn.mean(axis=1) - mean) / std * n**0.5, (np.cov(drawn) - cov) / spread


@pytest.mark.parametrize("trend", ["constant", "linear"])
@every_regressor
def test_the_covariance_agrees_with_the_standard_deviation(name: str, trend: str) -> None:
    model, T = fitted(name, trend)
    T = np.concatenate((T, T[:1] + 50.0))
    alone = model.predict(T)
    mean, std, cov = model.predict(T, return_std=True, return_cov=True)
    np.testing.assert_allclose(mean, alone, rtol=1e-10)
    np.testing.assert_allclose(np.diag(cov), std**2, rtol=1e-9, atol=1e-13)
    np.testing.assert_array_equal(cov, cov.T)
    assert np.linalg.eigvalsh(cov)[0] > -1e-9 * np.diag(cov).max()
    noisy = model.predict(T, return_cov=True, include_noise=True)[1]
    np.testing.assert_allclose(noisy - cov, model.noise_variance_ * np.eye(len(T)), rtol=0, atol=1e-12 * cov.max())


@every_regressor
def test_draws_have_the_mean_and_the_covariance(name: str) -> None:
    model, T = fitted(name)
    of_mean, of_covariance = standardized(model, T, FEW_DRAWS if name == "spectral" else N_DRAWS)
    assert np.abs(of_mean).max() < 4.5
    assert np.abs(of_covariance).max() < 4.5
    np.testing.assert_array_equal(model.sample_y(T, 2, random_state=1), model.sample_y(T, 2, random_state=1))


@pytest.mark.parametrize("few", [1, 30])
def test_of_a_season_the_covariance_from_all_rows_is_the_exact_one(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "DENSE", few)
    X = np.sort(np.random.default_rng(0).uniform(0.0, 6.0, 30))[:, None]
    kernel = MaternKernel(5.0) + MaternKernel(20.0) * PeriodicKernel(1.0)
    given = {"kernel": kernel, "noise_variance": 0.01}
    T, y = np.linspace(0.5, 7.0, 9)[:, None], np.sin(2.0 * np.pi * X[:, 0])
    near, exact = (
        model.fit(X, y).predict(T, return_cov=True)[1]
        for model in (NearestNeighborsGPRegressor(30, **given), ExactGPRegressor(**given))
    )
    np.testing.assert_allclose(near, exact, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("trend", ["constant", "linear"])
@pytest.mark.parametrize("name", IN_PARTS)
def test_draws_of_many_rows(name: str, trend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the covariance of the rows: by weights, or by priors of Fourier features."""
    monkeypatch.setattr(joint, "DENSE", 1)
    monkeypatch.setattr(joint, "COLUMNS", 128)
    model, T = fitted(name, trend)
    of_mean, of_covariance = standardized(model, T, FEW_DRAWS, include_noise=True)
    assert np.abs(of_mean).max() < 4.5
    assert np.abs(of_covariance).max() < 5.0


def test_the_exact_covariance_is_that_of_dense_algebra() -> None:
    X, y, T = draw(50)
    K, k, prior = (gaussian(*pair, 1.2, 1.5) for pair in ((X, X), (X, T), (T, T)))
    expected = prior - k.T @ np.linalg.solve(K + 0.1 * np.eye(len(X)), k)
    cov = ExactGPRegressor(**GIVEN).fit(X, y).predict(T, return_cov=True)[1]
    np.testing.assert_allclose(cov, expected, atol=1e-12)


def test_a_large_map_has_the_exact_covariance_and_a_small_one_keeps_what_it_leaves_out() -> None:
    X, y, T = draw(50)
    T = np.concatenate((T, T[-1:] + 0.1))  # two rows far away, near to each other
    expected = ExactGPRegressor(**GIVEN).fit(X, y).predict(T, return_cov=True)[1]
    large = FeaturizedGPRegressor(TaylorFeatures(1000), **GIVEN).fit(X, y).predict(T, return_cov=True)[1]
    np.testing.assert_allclose(large, expected, atol=1e-6)
    small = FeaturizedGPRegressor(TaylorFeatures(40), **GIVEN).fit(X, y).predict(T, return_cov=True)[1]
    np.testing.assert_allclose(small[-2:, -2:], expected[-2:, -2:], atol=1e-6)


def test_correlations_from_few_rows_are_those_of_the_exact_process() -> None:
    rng = np.random.default_rng(0)
    X, T = rng.uniform(0.0, 4.0, (700, 3)), rng.uniform(0.0, 4.0, (40, 3))
    given = {"kernel": GaussianKernel(1.5).on([1]) + GaussianKernel(1.0).on([0]), "noise_variance": 0.01}
    y = np.sin(X[:, 0])
    of_mean = ExactGPRegressor(**given).fit(X, y).predict(T, return_cov=True)[1].mean()
    for model in (ExactGPRegressor(**given, solver="iterative"), NearestNeighborsGPRegressor(700, **given)):
        assert model.fit(X, y).predict(T, return_cov=True)[1].mean() == pytest.approx(of_mean, rel=0.01)


def test_many_rows_from_few_are_drawn_with_the_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "DENSE", 60)
    monkeypatch.setattr(joint, "COLUMNS", 128)
    X, y, T = draw(60, n_new=70)
    model = make("nearest_rows", kernel=GaussianKernel(4.0)).fit(X, y)
    of_mean, of_covariance = standardized(model, T)
    assert np.abs(of_mean).max() < 4.5
    assert np.abs(of_covariance).max() < 5.0


def test_correlations_are_those_of_the_exact_process_where_all_rows_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "DENSE", 1)
    X, y, T = draw(100)
    exact = ExactGPRegressor(**GIVEN).fit(X, y).predict(T, return_cov=True)[1]
    for name in ("localized_dual", "nearest_rows"):
        cov = make(name).fit(X, y).predict(T, return_cov=True)[1]
        sizes = [np.sqrt(np.outer(np.diag(one), np.diag(one))) for one in (cov, exact)]
        np.testing.assert_allclose(cov / sizes[0], exact / sizes[1], atol=1e-7)


def test_a_rough_kernel_is_nearly_exact_from_few_near_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joint, "DENSE", 1)
    X, y, T = draw(400, n_new=40, outside=False)
    given = {"kernel": MaternKernel(1.0, smoothness=0.5), "noise_variance": 0.01}
    exact = ExactGPRegressor(**given).fit(X, y).predict(T, return_cov=True)[1]
    cov = make("nearest_rows", n_neighbors=100, **given).fit(X, y).predict(T, return_cov=True)[1]
    assert np.abs(cov - exact).max() < 1e-3 * np.abs(exact - np.diag(np.diag(exact))).max()


@every_regressor
def test_batches_change_nothing_but_rounding(name: str) -> None:
    model, T = fitted(name, "linear")
    expected = model.predict(T, return_std=True)
    for size in (1, 4, 1000):
        np.testing.assert_allclose(model.predict(T, return_std=True, batch_size=size), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "all"])
def test_a_batch_size_is_a_positive_number_of_rows(size: Any) -> None:
    model, T = fitted("exact")
    with pytest.raises(InputError, match="batch_size must be a positive number of rows"):
        model.predict(T, batch_size=size)


def test_rows_are_predicted_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    model, T = fitted("nearest_rows")
    monkeypatch.setattr(base, "BATCH_BYTES", 3 * 8 * (4 * 2 + base.NUMBERS))
    sizes, predict = [], NearestPosterior.predict
    monkeypatch.setattr(
        NearestPosterior, "predict", lambda self, X, variance: (sizes.append(len(X)), predict(self, X, variance))[1]
    )
    model.predict(T)
    assert max(sizes) == 3
    assert sum(sizes) == len(T)


@pytest.mark.parametrize("name", ["exact", "featurized", "featurized_taylor", "localized_taylor", "localized_dual"])
def test_the_mean_alone_solves_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, T = fitted(name)
    mean, std = model.predict(T, return_std=True)
    model.predict(T)  # keeps the weights
    monkeypatch.setattr(torch.linalg, "solve_triangular", None)
    np.testing.assert_allclose(model.predict(T), mean, rtol=1e-9)
    with pytest.raises(TypeError):
        model.predict(T, return_std=True)
    assert np.all(std > 0.0)


def test_a_bar_where_it_is_asked_for_and_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model, T = fitted("exact")
    model.predict(T, verbose=True)
    assert capsys.readouterr().err == ""  # it is done before the bar appears
    monkeypatch.setattr(base, "DELAY", 0.0)
    model.predict(T, verbose=True)
    assert "Prediction" in capsys.readouterr().err
    model.predict(T)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("include_noise", [True, False])
def test_intervals_quantiles_and_exceedances_are_those_of_the_normal_distribution(include_noise: bool) -> None:
    model, T = fitted("localized_taylor", "linear")
    mean, std = model.predict(T, return_std=True, include_noise=include_noise)
    options = {"include_noise": include_noise, "batch_size": 3}
    np.testing.assert_allclose(model.predict_interval(T, 0.8, **options), norm.interval(0.8, mean, std), rtol=1e-9)
    np.testing.assert_allclose(model.predict_quantile(T, 0.3, **options), norm.ppf(0.3, mean, std), rtol=1e-9)
    several = model.predict_quantile(T, [0.1, 0.5, 0.999], **options)
    np.testing.assert_allclose(several, norm.ppf([[0.1, 0.5, 0.999]], mean[:, None], std[:, None]), rtol=1e-9)
    for threshold in (2.9, mean + 20.0 * std):
        found = model.predict_exceedance(T, threshold, **options)
        np.testing.assert_allclose(found, norm.sf(threshold, mean, std), rtol=1e-6)


def test_what_is_no_level_quantile_or_threshold() -> None:
    model, T = fitted("exact")
    for level in (0.0, 1.0, 95, True, "95%"):
        with pytest.raises(InputError, match="level must be a number strictly between 0 and 1"):
            model.predict_interval(T, level)
    for quantile in (0.0, [0.5, 1.0], [[0.5]], [], "median", np.nan):
        with pytest.raises(InputError, match="quantile must be"):
            model.predict_quantile(T, quantile)
    for threshold in (np.nan, "high", [1.0, 2.0], np.ones((len(T), 2))):
        with pytest.raises(InputError, match="threshold must be"):
            model.predict_exceedance(T, threshold)
    for n_samples in (0, 1.5, True):
        with pytest.raises(InputError, match="n_samples must be a positive integer"):
            model.sample_y(T, n_samples)


def test_the_model_that_chooses_has_all_of_it() -> None:
    X, y, T = draw(60)
    model = GPRegressor(**GIVEN, random_state=0).fit(X, y)
    for values, expected in zip(
        model.predict(T, return_std=True, return_cov=True),
        model.model_.predict(T, return_std=True, return_cov=True),
        strict=True,
    ):
        np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(model.sample_y(T, 3), model.model_.sample_y(T, 3))
    np.testing.assert_array_equal(model.loo_.mean, model.model_.loo_.mean)
    assert model.log_marginal_likelihood() == model.model_.log_marginal_likelihood()
