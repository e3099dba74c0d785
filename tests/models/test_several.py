"""Several targets: against a model of each at the same hyper-parameters, and against dense algebra."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    MaternKernel,
    MultiTargetGPRegressor,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OrthogonalFourierFeatures,
    ResidualGPRegressor,
    TransformedTargetGPRegressor,
)
from lmgp.errors import ImplausibleMeanWarning, InputError
from lmgp.inference.learning import maximize_likelihood
from lmgp.linalg import cholesky
from lmgp.models.shared import Shared, SharedNeighbours, SharedRows, SharedWeights
from lmgp.models.sharing import SharedCentroids, SharedIterations
from lmgp.validation import Rows

N, T = 60, 3
RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(0.0, 4.0, (N, 2)), RNG.uniform(0.0, 4.5, (12, 2))
SCALES, LEVELS = np.array([1.0, 1e3, 1e-3]), np.array([0.0, 5e4, 1.0])
Y = np.column_stack((np.sin(X[:, 0]), np.cos(X[:, 1]), np.sin(X[:, 0] * X[:, 1] / 3.0)))
Y = LEVELS + SCALES * (Y + 0.2 * RNG.standard_normal(Y.shape))
WEIGHTS = RNG.choice([0.0, 0.5, 1.0], N)  # of which none counts as copies
NOISES = SCALES**2 * RNG.uniform(0.01, 0.1, (N, T))

MODELS: dict[str, tuple[Any, type[Shared]]] = {
    "exact": (ExactGPRegressor(), SharedRows),
    "nearest": (NearestNeighborsGPRegressor(25, kernel="matern32"), SharedNeighbours),
    "residual": (ResidualGPRegressor(NystroemFeatures(20), 20, block_size=24, random_state=0), SharedNeighbours),
    "nystroem": (FeaturizedGPRegressor(NystroemFeatures(20), random_state=0), SharedWeights),
    "fourier": (FeaturizedGPRegressor(OrthogonalFourierFeatures(64), random_state=0), SharedWeights),
    "localized": (LocalizedGPRegressor(random_state=0), SharedCentroids),
    "trend": (ExactGPRegressor(trend="linear"), SharedRows),
    "iterative": (ExactGPRegressor(solver="iterative", tolerance=1e-10, random_state=0), SharedIterations),
    "chosen": (GPRegressor(kernel=["matern32"], random_state=0), SharedRows),
}


def of_target(model: MultiTargetGPRegressor, j: int) -> dict[str, Any]:
    """The kernel and the noise variance of a target, in its units."""
    kernel = model.kernel_ * model.scales_[j] ** 2
    return {"kernel": kernel, "noise_variance": float(model.noise_variances_[j])}


@pytest.mark.parametrize(
    ("name", "weights"),
    [(name, None) for name in MODELS] + [(name, WEIGHTS) for name in ("exact", "nearest", "residual", "nystroem")],
)
def test_it_is_a_model_of_each_target_at_the_same_hyperparameters(name: str, weights: Any) -> None:
    regressor, kind = MODELS[name]
    model = MultiTargetGPRegressor(regressor).fit(X, Y, weights)
    assert isinstance(model._fitted.together.posteriors, kind)  # type: ignore[union-attr]
    mean, std, cov = model.predict(NEW, return_std=True, return_cov=True, include_noise=True)
    likelihoods = np.asarray(model.log_marginal_likelihood())
    for j, scale in enumerate(model.scales_):
        one = clone(regressor).set_params(**of_target(model, j)).fit(X, Y[:, j], weights)
        expected = one.predict(NEW, return_std=True, return_cov=True, include_noise=True)
        np.testing.assert_allclose(mean[:, j] / scale, expected[0] / scale, rtol=0, atol=1e-10)
        np.testing.assert_allclose(std[:, j], expected[1], rtol=1e-10)
        np.testing.assert_allclose(cov[:, :, j] / scale**2, expected[2] / scale**2, rtol=0, atol=1e-10)
        left_out = model.loo_[j]  # type: ignore[index]
        np.testing.assert_allclose(left_out.y, one.loo_.y, rtol=1e-12)
        tolerance = 1e-6 if name == "iterative" else 1e-10
        np.testing.assert_allclose(left_out.mean / scale, one.loo_.mean / scale, rtol=0, atol=tolerance)
        np.testing.assert_allclose(left_out.std, one.loo_.std, rtol=tolerance)
        np.testing.assert_allclose(likelihoods[j], one.log_marginal_likelihood(), rtol=1e-10)


def test_quantiles_intervals_and_batches_are_those_of_each_target() -> None:
    model = MultiTargetGPRegressor(ExactGPRegressor()).fit(X, Y)
    one = ExactGPRegressor(**of_target(model, 1)).fit(X, Y[:, 1])
    np.testing.assert_allclose(model.predict_quantile(NEW, 0.3)[:, 1], one.predict_quantile(NEW, 0.3), rtol=1e-10)
    several = model.predict_quantile(NEW, [0.1, 0.9], include_noise=False)
    assert several.shape == (len(NEW), T, 2)
    np.testing.assert_allclose(several[:, 1], one.predict_quantile(NEW, [0.1, 0.9], include_noise=False), rtol=1e-10)
    lower, upper = model.predict_interval(NEW, 0.8)
    np.testing.assert_allclose((lower[:, 1], upper[:, 1]), one.predict_interval(NEW, 0.8), rtol=1e-10)
    for found, whole in zip(
        model.predict(NEW, return_std=True, batch_size=5), model.predict(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, whole, rtol=1e-12)


@pytest.mark.parametrize("name", ["exact", "nearest", "fourier", "trend"])
def test_draws_have_the_mean_and_the_covariance_of_each_target(name: str) -> None:
    model = MultiTargetGPRegressor(MODELS[name][0]).fit(X, Y)
    drawn = model.sample_y(NEW[:3], 10_000, random_state=1, include_noise=True)
    mean, cov = model.predict(NEW[:3], return_cov=True, include_noise=True)
    assert drawn.shape == (3, T, 10_000)
    for j, scale in enumerate(model.scales_):
        np.testing.assert_allclose(drawn[:, j].mean(axis=1) / scale, mean[:, j] / scale, atol=0.04)
        np.testing.assert_allclose(np.cov(drawn[:, j]) / scale**2, cov[:, :, j] / scale**2, atol=0.03)
    between = np.corrcoef(drawn[0])
    assert np.max(np.abs(between - np.eye(T))) < 0.04  # targets are independent


def test_the_shared_kernel_and_the_scales_are_the_likeliest() -> None:
    model = MultiTargetGPRegressor(ExactGPRegressor(random_state=0)).fit(X, Y)
    z = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    found = maximize_likelihood(Rows(X, z), rng=np.random.default_rng(0))
    np.testing.assert_allclose(model.kernel_.theta, found.kernel.theta, rtol=1e-4)
    noise = model.noise_variances_ / model.scales_**2
    np.testing.assert_allclose(noise, found.noise_variance, rtol=1e-4)

    def log_likelihood(j: int, scale: float) -> float:
        C = scale**2 * (model.kernel_(X) + noise[j] * np.eye(N))
        y = Y[:, j] - Y[:, j].mean()
        return float(-0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(2.0 * np.pi * C)[1]))

    for j, scale in enumerate(model.scales_):
        best = log_likelihood(j, scale)
        assert best > max(log_likelihood(j, 0.99 * scale), log_likelihood(j, 1.01 * scale))
        assert best == pytest.approx(np.asarray(model.log_marginal_likelihood())[j], rel=1e-10)


def test_scales_of_many_rows_are_near_those_of_dense_algebra() -> None:
    regressor = NearestNeighborsGPRegressor(30, kernel="matern32", max_learning_rows=40, random_state=0)
    model = MultiTargetGPRegressor(regressor).fit(X, Y)
    C = model.kernel_(X) + model.noise_variances_[0] / model.scales_[0] ** 2 * np.eye(N)
    y = Y - Y.mean(axis=0)
    likeliest = np.sqrt(np.einsum("ij,ij->j", y, np.linalg.solve(C, y)) / N)
    np.testing.assert_allclose(model.scales_, likeliest, rtol=0.02)


@pytest.mark.parametrize("noises", [NOISES, NOISES[:, 0]], ids=["a_row_and_target", "a_row"])
def test_noise_variances_of_rows_are_those_of_a_model_of_each_target(noises: Any) -> None:
    model = MultiTargetGPRegressor(ExactGPRegressor(random_state=0)).fit(X, SCALES[0] * Y / SCALES, None, noises)
    mean, std = model.predict(NEW, return_std=True, include_noise=True)
    for j in range(T):
        own = noises if noises.ndim == 1 else noises[:, j]
        kernel = model.kernel_ * model.scales_[j] ** 2
        one = ExactGPRegressor(kernel).fit(X, Y[:, j] / SCALES[j], None, own)
        expected = one.predict(NEW, return_std=True, include_noise=True)
        np.testing.assert_allclose(mean[:, j], expected[0], rtol=1e-8)
        np.testing.assert_allclose(std[:, j], expected[1], rtol=1e-8)


def test_what_is_given_is_in_the_units_of_y() -> None:
    kernel, noises = MaternKernel(1.0, variance=2.0), RNG.uniform(0.1, 0.2, N)
    y = Y / SCALES
    model = MultiTargetGPRegressor(ExactGPRegressor(kernel)).fit(X, y, None, noises)
    assert isinstance(model._fitted.together.posteriors, SharedRows)  # type: ignore[union-attr]
    assert model.scales_.tolist() == [1.0] * T
    for j in range(T):
        one = ExactGPRegressor(kernel).fit(X, y[:, j], None, noises)
        np.testing.assert_allclose(model.predict(NEW)[:, j], one.predict(NEW), rtol=1e-10)  # type: ignore[call-overload]
    free = MaternKernel(1.0, variance=2.0, lengthscale_bounds=(0.5, 3.0), variance_bounds="fixed")
    learned = MultiTargetGPRegressor(ExactGPRegressor(free, 0.05)).fit(X, y)
    assert learned.kernel_.variance == 2.0
    assert learned.kernel_.lengthscale != 1.0


def test_ten_targets_are_factorised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []

    def count(covariance: Any, noise: float, *args: Any, **options: Any) -> Any:
        counted.append(len(covariance))
        return cholesky(covariance, noise, *args, **options)

    monkeypatch.setattr("lmgp.inference.function_space.cholesky", count)
    model = MultiTargetGPRegressor(ExactGPRegressor(GaussianKernel(1.0), 0.1)).fit(X, np.tile(Y, 4)[:, :10])
    model.predict(NEW, return_std=True)
    assert counted == [N]


def test_one_target_gives_what_the_regressor_gives() -> None:
    one = ExactGPRegressor(random_state=0).fit(X, Y[:, 0])
    for hyperparameters in ("shared", "each"):
        model = MultiTargetGPRegressor(ExactGPRegressor(random_state=0), hyperparameters).fit(X, Y[:, 0])
        for found, expected in zip(model.predict(NEW, return_std=True), one.predict(NEW, return_std=True), strict=True):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(model.predict_interval(NEW), one.predict_interval(NEW))
        np.testing.assert_array_equal(model.sample_y(NEW, 2, 3), one.sample_y(NEW, 2, 3))
        np.testing.assert_array_equal(model.loo_.mean, one.loo_.mean)  # type: ignore[union-attr]
        column = clone(model).fit(X, Y[:, :1])
        assert np.shape(column.predict(NEW)) == (len(NEW), 1)


def test_each_target_has_a_model_of_its_own() -> None:
    noises = NOISES[:, :2]
    model = MultiTargetGPRegressor(ExactGPRegressor(random_state=0), "each").fit(X, Y[:, :2], WEIGHTS, noises)
    mean, std = model.predict(NEW, return_std=True)
    for j in range(2):
        one = ExactGPRegressor(random_state=0).fit(X, Y[:, j], WEIGHTS, noises[:, j])
        np.testing.assert_array_equal((mean[:, j], std[:, j]), one.predict(NEW, return_std=True))
        np.testing.assert_array_equal(
            model.predict_quantile(NEW, [0.1, 0.5])[:, j], one.predict_quantile(NEW, [0.1, 0.5])
        )
        assert np.asarray(model.log_marginal_likelihood())[j] == one.log_marginal_likelihood()
        np.testing.assert_array_equal(model.loo_[j].mean, one.loo_.mean)  # type: ignore[index]
    drawn = model.sample_y(NEW[:1], 4000)[0] - mean[:1].T
    assert abs(np.corrcoef(drawn)[0, 1]) < 0.06  # not the same draws for both
    logs = MultiTargetGPRegressor(TransformedTargetGPRegressor(ExactGPRegressor()), "each").fit(X, np.exp(Y[:, [0, 2]]))
    assert np.all(logs.predict_interval(NEW)[0] > 0.0)


def test_columns_of_data_frames_keep_their_names() -> None:
    frame, y = pd.DataFrame(X, columns=["east", "north"]), pd.DataFrame(Y, columns=["temperature", "pressure", "flow"])
    model = MultiTargetGPRegressor(ExactGPRegressor(trend=["north"])).fit(frame, y)
    assert model.target_names_.tolist() == ["temperature", "pressure", "flow"]
    assert model.feature_names_in_.tolist() == ["east", "north"]
    array = MultiTargetGPRegressor(ExactGPRegressor(trend=[1])).fit(X, Y)
    assert array.target_names_.tolist() == ["0", "1", "2"]
    found = model.predict(pd.DataFrame(NEW, columns=["east", "north"]))
    np.testing.assert_array_equal(found, array.predict(NEW))


@pytest.mark.parametrize(
    "name", ["exact", "nearest", "residual", "nystroem", "localized", "trend", "chosen", "each", "one"]
)
def test_what_is_saved_predicts_the_same(name: str, tmp_path: Path) -> None:
    model = MultiTargetGPRegressor(MODELS[name][0] if name in MODELS else ExactGPRegressor())
    if name == "each":
        model.set_params(hyperparameters="each")
    model.fit(X, Y[:, 0] if name == "one" else Y)
    model.save(tmp_path / "model")
    loaded = lmgp.load(tmp_path / "model")
    for found, expected in zip(loaded.predict(NEW, return_std=True), model.predict(NEW, return_std=True), strict=True):
        np.testing.assert_array_equal(found, expected)
    if name not in ("nystroem", "localized"):  # whose files have no rows
        np.testing.assert_allclose(np.asarray(loaded.log_marginal_likelihood()), model.log_marginal_likelihood())


def test_it_works_in_searches_and_pipelines() -> None:
    model = MultiTargetGPRegressor(
        FeaturizedGPRegressor(kernel=GaussianKernel(1.0), noise_variance=0.05, random_state=0)
    )
    y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    grid = GridSearchCV(model, {"regressor__kernel__lengthscale": [0.001, 1.0]}, cv=3).fit(X, y)
    assert grid.best_params_ == {"regressor__kernel__lengthscale": 1.0}
    piped = make_pipeline(StandardScaler(), MultiTargetGPRegressor(ExactGPRegressor())).fit(X, Y)
    assert piped.predict(NEW, return_std=True)[1].shape == (len(NEW), T)
    assert piped.score(X, Y) > 0.8


def test_what_is_wrong_is_named() -> None:
    model = MultiTargetGPRegressor(ExactGPRegressor())
    holes = pd.DataFrame(Y, columns=["a", "b", "c"])
    holes.loc[4, "b"] = np.nan
    with pytest.raises(InputError, match=r"(?s)'b'.*Leave these rows out.*fit one regressor for each target"):
        model.fit(X, holes)
    with pytest.raises(InputError, match=r"one column a target; got none, shape \(60, 0\)"):
        model.fit(X, holes[[]])
    with pytest.raises(InputError, match=r"Target 'b' is constant \(all 7\).*Leave it out"):
        model.fit(X, holes.assign(b=7.0))
    with pytest.raises(
        InputError, match=r"shape \(60,\), or one a row and target, shape \(60, 3\); got shape \(60, 2\)"
    ):
        model.fit(X, Y, None, NOISES[:, :2])
    with pytest.raises(InputError, match=r"shape \(60, 3\); got shape \(3, 60\)"):
        clone(model).set_params(hyperparameters="each").fit(X, Y, None, NOISES.T)
    with pytest.raises(InputError, match=r"noise_variances must be positive; got -1"):
        model.fit(X, Y, None, -np.ones((N, T)))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[60, 59\]"):
        model.fit(X, Y[1:])
    with pytest.raises(InputError, match=r"takes a Gaussian process of this package.*got Pipeline.*'each'"):
        MultiTargetGPRegressor(make_pipeline(StandardScaler(), ExactGPRegressor())).fit(X, Y)
    with pytest.raises(InputError, match=r"use MultiTargetGPRegressor\(ExactGPRegressor\(\.\.\.\)\)"):
        ExactGPRegressor().fit(X, Y)
    with pytest.raises(AttributeError, match="has no loo_: it is not fitted"):
        model.loo_  # noqa: B018
    fitted = model.fit(X, Y)
    with pytest.raises(InputError, match="n_samples must be a positive integer; got 0"):
        fitted.sample_y(NEW, 0)
    with pytest.raises(InputError, match="level must be a number strictly between 0 and 1; got 95"):
        fitted.predict_interval(NEW, 95)


def test_impossible_means_are_warned_of_by_the_name_of_their_target() -> None:
    # A Gaussian without noise, of rows that contradict each other: y = ±1 at places that are almost the same.
    at = np.repeat(np.linspace(0.0, 1.0, 10), 2)[:, None] + 1e-3 * np.tile([0.0, 1.0], 10)[:, None]
    y = pd.DataFrame({"smooth": np.sin(at[:, 0]), "torn": np.tile([-1.0, 1.0], 10)})
    model = MultiTargetGPRegressor(ExactGPRegressor(GaussianKernel(1.0), 1e-8)).fit(at, y)
    with pytest.warns(
        ImplausibleMeanWarning, match=r"Target 'torn', in its scale: .*give a larger noise_variance"
    ) as told:
        model.predict(np.linspace(-1.5, 2.5, 41)[:, None])
    assert len(told) == 1
