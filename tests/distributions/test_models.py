"""Noise that is not normal in what is done with models: files, copies, pipelines, searches, chunks, grids and dask."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    TaylorFeatures,
    TransformedTargetGPRegressor,
    plots,
    predict_grid,
)
from lmgp.distributions.noise import NOISES
from lmgp.distributions.targets import TargetDistributions
from lmgp.errors import InputError
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.metrics import coverage, crps, nlpd, nlpd_scorer

RNG = np.random.default_rng(0)
X, T = RNG.uniform(-3.0, 3.0, (160, 2)), RNG.uniform(-3.0, 3.0, (15, 2))
ERRORS = np.exp(0.6 * X[:, 0]) * RNG.standard_t(3.0, 160)
Y = np.sin(X[:, 0]) + 0.3 * ERRORS
GIVEN: dict[str, Any] = {"kernel": GaussianKernel(2.0), "noise_variance": 0.5, "random_state": 0}
STUDENT = ExactGPRegressor(**GIVEN, noise="student")
MINUS = FunctionTransformer(np.negative, inverse_func=np.negative)
FITTED: dict[str, Any] = {}

every_noise = pytest.mark.parametrize("noise", [noise for noise in NOISES if noise != "normal"])


def fitted(noise: str) -> Any:
    if noise not in FITTED:
        FITTED[noise] = clone(STUDENT).set_params(noise=noise).fit(X, Y)
    return FITTED[noise]


def numbers(model: Any) -> Any:
    """What tells one distribution from another."""
    distribution = model.predict_distribution(T)
    mean, std = model.predict(T, return_std=True, include_noise=True)
    conformal = model.predict_interval(T, 0.8, method="conformal")
    return np.stack((mean, std, distribution.logpdf(0.5), distribution.ppf(0.1), *conformal))


@pytest.mark.parametrize("n", [100, 400])
@pytest.mark.parametrize("lengthscale", [1.0, 100.0])
def test_a_mean_of_other_rows_does_not_tell_the_error_of_a_row(n: int, lengthscale: float) -> None:
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(n + 1000, 2)) if lengthscale > 1.0 else rng.uniform(size=(n + 1000, 1)).round()
    y = rng.normal(size=n + 1000)
    model = ExactGPRegressor(GaussianKernel(lengthscale), 1.0, noise="auto").fit(columns[:n], y[:n])
    assert coverage(y[n:], model.predict_distribution(columns[n:]), level=0.95) == pytest.approx(0.95, abs=0.03)


@every_noise
def test_a_file_and_a_pickle_have_it_to_the_last_bit(noise: str, tmp_path: Path) -> None:
    model = fitted(noise)
    assert model.noise_.chosen.noise == {"auto": "varying", "robust": "robust varying"}.get(noise, noise)
    model.save(tmp_path / "model.lmgp")
    for copy in (lmgp.load(tmp_path / "model.lmgp"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(numbers(copy), numbers(model))
        assert str(copy.noise_) == str(model.noise_)
        assert copy.noise == noise


@every_noise
def test_a_clone_fits_the_same(noise: str) -> None:
    again = clone(fitted(noise)).fit(X, Y)
    np.testing.assert_array_equal(numbers(again), numbers(fitted(noise)))


def test_a_search_finds_the_noise_by_the_density_of_rows_left_out() -> None:
    pipeline = make_pipeline(StandardScaler(), ExactGPRegressor(**GIVEN))
    grid = {"exactgpregressor__noise": ["normal", "student", "varying"]}
    search = GridSearchCV(pipeline, grid, scoring=nlpd_scorer, cv=3, error_score="raise").fit(X, Y)
    assert search.best_params_ == {"exactgpregressor__noise": "varying"}
    scaled = StandardScaler().fit_transform(X)
    distribution = ExactGPRegressor(**GIVEN, noise="varying").fit(scaled, Y).predict_distribution(scaled)
    assert nlpd_scorer(search, X, Y) == pytest.approx(-nlpd(Y, distribution), rel=1e-10)


def test_rows_that_come_and_go_leave_it_as_it_is() -> None:
    given = {"kernel": GaussianKernel(2.0), "noise_variance": 0.5}
    model = FeaturizedGPRegressor(TaylorFeatures(40), **given, noise="student").fit(X[:100], Y[:100])
    noise, degrees = model.noise_, model.noise_.degrees
    assert degrees < 10.0
    other = model.with_rows(X[130:], Y[130:])
    model.partial_fit(X[100:130], Y[100:130]).merge(other).forget(X[:10], Y[:10])
    assert model.noise_ is other.noise_ is noise
    normal = FeaturizedGPRegressor(TaylorFeatures(40), **given).fit(X[:100], Y[:100]).with_rows(X[10:], Y[10:])
    mean, std = normal.predict(T, return_std=True, include_noise=True)
    expected = stats.t(degrees, mean, noise.student.scale * std)
    np.testing.assert_allclose(model.predict_distribution(T).ppf(0.1), expected.ppf(0.1), rtol=1e-7)


def test_a_grid_has_its_intervals() -> None:
    model = GPRegressor(**GIVEN, noise="student").fit(X, Y)
    axes = {"x0": [-1.0, 0.0, 2.0], "x1": [0.5, 1.0]}
    grid = predict_grid(model, axes, include_noise=True, level=0.8)
    rows = np.array([[x0, x1] for x1 in (1.0, 0.5) for x0 in axes["x0"]])
    distribution = model.predict_distribution(rows)
    found = [grid[name].values.ravel() for name in ("mean", "std", "lower", "upper")]
    np.testing.assert_allclose(
        found, [distribution.mean(), distribution.std(), *distribution.interval(0.8)], rtol=1e-10
    )
    conformal = predict_grid(model, axes, include_noise=True, level=0.8, method="conformal")
    expected = model.predict_interval(rows, 0.8, method="conformal")
    np.testing.assert_allclose([conformal[name].values.ravel() for name in ("lower", "upper")], expected, rtol=1e-10)
    latent = predict_grid(model, axes, level=0.8)
    expected = stats.norm(*model.predict(rows, return_std=True)).interval(0.8)
    np.testing.assert_allclose([latent[name].values.ravel() for name in ("lower", "upper")], expected, rtol=1e-10)


def test_predictions_of_dask_collections_have_it() -> None:
    array = pytest.importorskip("dask.array")
    model = GPRegressor(**GIVEN, noise="varying").fit(X, Y)
    _, lazy = model.predict(array.from_array(T, chunks=(6, 2)), return_std=True, include_noise=True)
    np.testing.assert_allclose(lazy.compute(), model.predict_distribution(T).std(), rtol=1e-10)
    for method in ("distribution", "conformal"):
        ends = model.predict_interval(array.from_array(T, chunks=(6, 2)), 0.8, method=method)
        expected = model.predict_interval(T, 0.8, method=method)
        np.testing.assert_allclose([end.compute() for end in ends], expected, rtol=1e-10)


def test_a_band_of_observations_and_their_calibration_are_those_of_the_distribution() -> None:
    model = clone(STUDENT).fit(X[:, :1], Y)
    ax = plots.band(model, X[:, :1], level=0.8, include_noise=True, n_points=9)
    outline = ax.collections[0].get_paths()[0].vertices
    places = np.linspace(outline[:, 0].min(), outline[:, 0].max(), 9)
    lower, upper = model.predict_interval(places[:, None], 0.8)
    np.testing.assert_allclose((outline[:, 1].min(), outline[:, 1].max()), (lower.min(), upper.max()), rtol=1e-10)
    distribution = model.predict_distribution(X[:, :1])
    shares, _ = plots.calibration(Y, distribution, levels=[0.3, 0.9])
    expected = [coverage(Y, distribution, level=level) for level in (0.3, 0.9)]
    np.testing.assert_array_equal(shares.lines[1].get_ydata(), expected)


@pytest.mark.slow
def test_several_targets_have_distributions_of_their_own() -> None:
    logarithm = TransformedTargetGPRegressor(STUDENT)
    targets = np.exp(np.column_stack((Y, -0.5 * Y)))
    model = MultiTargetGPRegressor(make_pipeline(StandardScaler(), logarithm)).fit(X, targets)
    distribution = model.predict_distribution(T)
    y = np.exp(RNG.normal(size=(15, 2)))
    scaled, rows = (StandardScaler().fit(X).transform(one) for one in (X, T))
    for j in range(2):
        one = clone(logarithm).fit(scaled, targets[:, j])
        expected = one.predict_distribution(rows)
        for method, values in ((one, y) for one in ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "crps")):
            found = getattr(distribution, method)(values)
            assert found.shape == (15, 2)
            np.testing.assert_allclose(found[:, j], getattr(expected, method)(values[:, j]), rtol=1e-10)
        for method in ("mean", "std", "median"):
            np.testing.assert_allclose(getattr(distribution, method)()[:, j], getattr(expected, method)(), rtol=1e-10)
        for method in ("ppf", "isf"):
            np.testing.assert_allclose(getattr(distribution, method)(0.2)[:, j], getattr(expected, method)(0.2))
        np.testing.assert_allclose(np.stack(distribution.interval(0.9))[..., j], expected.interval(0.9), rtol=1e-10)
        assert model.noise_[j].degrees == one.regressor_.noise_.degrees
        intervals = model.predict_interval(T, 0.9, method="conformal")
        expected_ends = np.exp(one.regressor_.predict_interval(rows, 0.9, method="conformal"))
        np.testing.assert_allclose(np.stack(intervals)[..., j], expected_ends, rtol=1e-10)
    each = [nlpd(y[:, j], distribution.of_targets[j]) for j in range(2)]
    assert nlpd_scorer(model, T, y) == pytest.approx(-np.mean(each), rel=1e-12)
    np.testing.assert_allclose(distribution.var(), np.square(distribution.std()))
    draws = distribution.rvs((2000, 15, 2), random_state=0)
    np.testing.assert_allclose((draws < distribution.ppf(0.3)).mean(axis=0), 0.3, atol=0.05)


def test_several_targets_take_and_return_what_frozen_distributions_of_scipy_do() -> None:
    means, scales = RNG.normal(size=(4, 2)), np.ones((4, 2))
    several = TargetDistributions((stats.norm(means[:, 0], 1.0), stats.t(3.0, means[:, 1])))
    normal = TargetDistributions(tuple(stats.norm(mean, 1.0) for mean in means.T))
    q = np.array([0.1, 0.5, 0.9])[:, None, None]
    np.testing.assert_allclose(normal.ppf(q), stats.norm(means, scales).ppf(q), rtol=1e-12)
    assert several.rvs().shape == several.rvs(random_state=np.random.RandomState(0)).shape == (4, 2)
    assert several.rvs((3, 4, 2), 0).shape == (3, 4, 2)
    with pytest.raises(ValueError, match="shape mismatch"):
        several.rvs(5)
    y = RNG.normal(size=(4, 2))
    np.testing.assert_array_equal(several.crps(y.tolist()), several.crps(y))
    np.testing.assert_array_equal(several.crps(0.5), several.crps(np.full((4, 2), 0.5)))


def test_moments_of_a_logarithm_are_those_of_its_normal_distribution() -> None:
    model = TransformedTargetGPRegressor(STUDENT).fit(X, np.exp(Y))
    mean, latent = model.regressor_.predict(X, return_std=True)
    _, observed = model.regressor_.predict(X, return_std=True, include_noise=True)
    std = np.hypot(latent, np.sqrt(0.5) * observed / np.hypot(latent, np.sqrt(0.5)))
    expected = stats.lognorm(std, scale=np.exp(mean))
    distribution = model.predict_distribution(X)
    np.testing.assert_allclose((distribution.mean(), distribution.std()), (expected.mean(), expected.std()), rtol=1e-10)
    assert crps(np.exp(Y), distribution) == pytest.approx(model.scale_.crps(np.exp(Y), mean, std).mean(), rel=1e-10)
    left_out = model.loo_
    z = model.regressor_.loo_
    np.testing.assert_allclose(left_out.pit, z.pit, rtol=1e-10)
    assert left_out.nlpd == pytest.approx(z.nlpd + Y.mean(), rel=1e-10)
    latent = np.sqrt(z.normal.var() - 0.5)
    std = np.hypot(latent, np.sqrt(0.5) * z.std / z.normal.std())
    assert left_out.crps == pytest.approx(model.scale_.crps(np.exp(Y), z.mean, std).mean(), rel=1e-10)
    np.testing.assert_allclose(left_out.normal.mean(), np.exp(z.mean + z.normal.var() / 2.0), rtol=1e-10)
    decreasing = TransformedTargetGPRegressor(STUDENT, MINUS).fit(X, Y)
    for method in ("distribution", "conformal"):
        ends = decreasing.regressor_.predict_interval(T, 0.8, method=method)
        np.testing.assert_allclose(decreasing.predict_interval(T, 0.8, method=method), (-ends[1], -ends[0]), rtol=1e-10)


def test_a_name_that_is_misspelled_is_named() -> None:
    for model in (ExactGPRegressor(noise="studnet"), GPRegressor(noise="studnet")):
        with pytest.raises(InputError, match=r"noise must be one of .*; got 'studnet': did you mean 'student'"):
            model.fit(X, Y)
