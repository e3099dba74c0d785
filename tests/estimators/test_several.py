"""Several targets: every regressor takes y of shape (n, t), and `MultiTargetGPRegressor` learns a kernel for each."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import r2_score
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
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OrthogonalFourierFeatures,
    ResidualGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.data import Rows
from lmgp.errors import ImplausibleMeanWarning, InputError
from lmgp.estimators.several import MultiTargetGPRegressor
from lmgp.learning.engine import Settings, learn_rows
from lmgp.posteriors.products import KernelProducts
from lmgp.utils.linalg import cholesky

N, T = 80, 3
RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(0.0, 4.0, (N, 2)), RNG.uniform(-0.5, 4.5, (12, 2))
SCALES, LEVELS = np.array([1.0, 1e3, 1e-3]), np.array([0.0, 5e4, 1.0])
Y = np.column_stack((np.sin(X[:, 0]), np.cos(X[:, 1]) + 0.5 * X[:, 0], np.sin(X[:, 0] * X[:, 1] / 3.0) - X[:, 1]))
Y = Y + 0.2 * RNG.standard_normal(Y.shape)
SCALED = LEVELS + SCALES * Y
INSIDE = np.array([[1.0, 1.0], [2.0, 3.0], [3.5, 0.5]])
WEIGHTS = RNG.choice([0.5, 1.0, 2.0], N)
NOISES = RNG.uniform(0.02, 0.1, N)
GAUSSIAN: dict[str, Any] = {"kernel": GaussianKernel(1.2, 0.8), "noise_variance": 0.05, "random_state": 0}
MATERN: dict[str, Any] = {"kernel": MaternKernel(1.5, smoothness=2.5), "noise_variance": 0.05, "random_state": 0}

GIVEN: dict[str, tuple[Any, float]] = {
    "exact": (ExactGPRegressor(**GAUSSIAN), 1e-9),
    "iterative": (ExactGPRegressor(**MATERN, solver="iterative", tolerance=1e-9), 1e-7),
    "nearest": (NearestNeighborsGPRegressor(25, **MATERN), 1e-9),
    "residual": (ResidualGPRegressor(NystroemFeatures(20), 20, block_size=24, **MATERN), 1e-9),
    "featurized": (FeaturizedGPRegressor(TaylorFeatures(60), **GAUSSIAN), 1e-9),
    "localized": (LocalizedGPRegressor(TaylorFeatures(60), **GAUSSIAN), 1e-9),
    "dual": (LocalizedGPRegressor(TaylorFeatures(60), solver="dual", **GAUSSIAN), 1e-9),
    "either": (LocalizedGPRegressor(TaylorFeatures(28), 0.3, solver="auto", **GAUSSIAN), 1e-9),
    "own centroids": (LocalizedGPRegressor(TaylorFeatures(60), centroids="test_rows", **GAUSSIAN), 1e-9),
    "around rows": (LocalizedGPRegressor(**MATERN), 1e-9),
    "few modes": (SpectralGPRegressor(1e-6, **GAUSSIAN), 1e-6),
    "modes": (SpectralGPRegressor(1e-3, **MATERN), 1e-3),
    "chosen": (GPRegressor(**GAUSSIAN, noise="normal"), 1e-9),
}
LEARNED: dict[str, Any] = {
    "exact": ExactGPRegressor(random_state=0),
    "nearest": NearestNeighborsGPRegressor(25, kernel="matern32", random_state=0),
    "residual": ResidualGPRegressor(NystroemFeatures(20), 20, block_size=24, random_state=0),
    "nystroem": FeaturizedGPRegressor(NystroemFeatures(20), random_state=0),
    "fourier": FeaturizedGPRegressor(OrthogonalFourierFeatures(64), random_state=0),
    "localized": LocalizedGPRegressor(random_state=0),
    "trend": ExactGPRegressor(trend="linear", random_state=0),
    "chosen": GPRegressor(kernel=["matern32"], noise="normal", random_state=0),
}
ROWS: dict[str, dict[str, Any]] = {
    "": {}, "weights": {"sample_weight": WEIGHTS}, "noises": {"noise_variances": NOISES}
}  # fmt: skip
ALL = {"return_std": True, "return_cov": True, "include_noise": True}


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "trend"), [("noises", "constant"), ("weights", "linear")])
@pytest.mark.parametrize("name", GIVEN)
def test_columns_have_the_predictions_of_a_model_of_each(name: str, trend: str, rows: str) -> None:
    regressor, tolerance = GIVEN[name]
    regressor, given = clone(regressor).set_params(trend=trend), ROWS[rows]
    model = clone(regressor).fit(X, Y, **given)
    found, alone = model.predict(NEW, **ALL), model.predict(NEW)
    assert found[2].shape == (len(NEW), len(NEW), T)
    for j in range(T):
        one = clone(regressor).fit(X, Y[:, j], **given)
        expected = one.predict(NEW, **ALL)
        for part, of_one in zip(found, expected, strict=True):
            np.testing.assert_allclose(part[..., j], of_one, rtol=0, atol=tolerance)
        np.testing.assert_allclose(alone[:, j], expected[0], rtol=0, atol=tolerance)
        assert model.center_[j] == pytest.approx(one.center_, rel=1e-12)
        if trend == "linear":
            np.testing.assert_allclose(model.trend_[j].coef, one.trend_.coef, rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("name", [name for name in GIVEN if name not in ("chosen", "own centroids", "around rows")])
def test_what_the_rows_say_is_that_of_a_model_of_each(name: str) -> None:
    regressor, tolerance = GIVEN[name]
    regressor = clone(regressor).set_params(trend="linear")
    model = clone(regressor).fit(X, Y, WEIGHTS)
    likelihoods = model.log_marginal_likelihood()
    for j in range(T):
        one = clone(regressor).fit(X, Y[:, j], WEIGHTS)
        np.testing.assert_allclose(model.loo_[j].y, one.loo_.y, rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.loo_[j].mean, one.loo_.mean, rtol=0, atol=20 * tolerance)
        np.testing.assert_allclose(model.loo_[j].std, one.loo_.std, rtol=0, atol=20 * tolerance)
        assert likelihoods[j] == pytest.approx(one.log_marginal_likelihood(), abs=100 * tolerance)


@pytest.mark.parametrize("name", ["featurized", "localized", "few modes", "iterative"])
def test_the_divergence_is_that_of_each_target(name: str) -> None:
    regressor, tolerance = GIVEN[name]
    error = clone(regressor).fit(X, Y).predict(NEW, return_error=True)[1]
    for j in range(T):
        expected = clone(regressor).fit(X, Y[:, j]).predict(NEW, return_error=True)[1]
        # Of iterations and modes, that of each depends on what is solved beside it.
        slack = 1e-2 * tolerance if name in ("few modes", "iterative") else 1e-12
        np.testing.assert_allclose(error[:, j], expected, rtol=1e-6, atol=slack)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
def test_a_shared_kernel_is_that_of_each_target_times_its_scale(name: str, weights: Any) -> None:
    regressor = LEARNED[name]
    model = clone(regressor).fit(X, SCALED, weights)
    mean, std, cov = model.predict(NEW, **ALL)
    for j, scale in enumerate(model.scales_):
        given = {"kernel": model.kernel_ * scale**2, "noise_variance": float(model.noise_variances_[j])}
        one = clone(regressor).set_params(**given).fit(X, SCALED[:, j], weights)
        expected = one.predict(NEW, **ALL)
        np.testing.assert_allclose(mean[:, j] / scale, expected[0] / scale, rtol=0, atol=1e-9)
        np.testing.assert_allclose(std[:, j], expected[1], rtol=1e-9)
        np.testing.assert_allclose(cov[:, :, j] / scale**2, expected[2] / scale**2, rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.loo_[j].mean / scale, one.loo_.mean / scale, rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.loo_[j].std, one.loo_.std, rtol=1e-9)
        assert model.log_marginal_likelihood()[j] == pytest.approx(one.log_marginal_likelihood(), rel=1e-9)


def test_quantiles_intervals_probabilities_and_batches_are_those_of_each_target() -> None:
    model, one = (clone(GIVEN["exact"][0]).fit(X, y) for y in (Y, Y[:, 1]))
    np.testing.assert_allclose(model.predict_quantile(NEW, 0.3)[:, 1], one.predict_quantile(NEW, 0.3), rtol=1e-10)
    several = model.predict_quantile(NEW, [0.1, 0.9], include_noise=False)
    assert several.shape == (len(NEW), T, 2)
    np.testing.assert_allclose(several[:, 1], one.predict_quantile(NEW, [0.1, 0.9], include_noise=False), rtol=1e-10)
    lower, upper = model.predict_interval(NEW, 0.8)
    np.testing.assert_allclose((lower[:, 1], upper[:, 1]), one.predict_interval(NEW, 0.8), rtol=1e-10)
    for limits in (0.3, [0.1, 0.5, -0.2], np.linspace(-1.0, 1.0, 12 * T).reshape(12, T)):
        of_one = one.predict_exceedance(NEW, np.broadcast_to(limits, (12, T))[:, 1])
        np.testing.assert_allclose(model.predict_exceedance(NEW, limits)[:, 1], of_one, rtol=1e-9)
    batches, whole = (model.predict(NEW, return_std=True, batch_size=size) for size in (5, None))
    np.testing.assert_allclose(batches, whole, rtol=1e-12)


@pytest.mark.parametrize("name", ["exact", "localized", "nearest", "featurized"])
def test_draws_have_the_mean_and_the_covariance_of_each_target(name: str) -> None:
    model = clone(GIVEN[name][0]).set_params(trend="linear").fit(X, Y)
    drawn = model.sample_y(INSIDE, 4_000, random_state=1)
    mean, cov = model.predict(INSIDE, return_cov=True)
    assert drawn.shape == (3, T, 4_000)
    for j in range(T):
        spread = np.sqrt(np.diagonal(cov[:, :, j]))
        np.testing.assert_allclose((drawn[:, j].mean(axis=1) - mean[:, j]) / spread, 0.0, atol=0.08)
        scaled = spread[:, None] * spread
        np.testing.assert_allclose(np.cov(drawn[:, j]) / scaled, cov[:, :, j] / scaled, atol=0.1)
    assert np.max(np.abs(np.corrcoef(drawn[0]) - np.eye(T))) < 0.08


def test_the_shared_kernel_and_the_scales_are_the_likeliest() -> None:
    model = ExactGPRegressor(random_state=0).fit(X, SCALED)
    z = (SCALED - SCALED.mean(axis=0)) / SCALED.std(axis=0)
    found = learn_rows(Rows(X, z), Settings(kernel=None, ard=False, standardize=False))
    np.testing.assert_allclose(model.kernel_.theta, found.kernel.theta, rtol=1e-4)
    noise = model.noise_variances_ / model.scales_**2
    np.testing.assert_allclose(noise, found.noise_variance, rtol=1e-4)

    def log_likelihood(j: int, scale: float) -> float:
        C = scale**2 * (model.kernel_(X) + noise[j] * np.eye(N))
        y = SCALED[:, j] - SCALED[:, j].mean()
        return float(-0.5 * (y @ np.linalg.solve(C, y) + np.linalg.slogdet(2.0 * np.pi * C)[1]))

    for j, scale in enumerate(model.scales_):
        best = log_likelihood(j, scale)
        assert best > max(log_likelihood(j, 0.99 * scale), log_likelihood(j, 1.01 * scale))
        assert best == pytest.approx(model.log_marginal_likelihood()[j], rel=1e-10)


def test_scales_of_many_rows_are_near_those_of_dense_algebra() -> None:
    regressor = NearestNeighborsGPRegressor(30, kernel="matern32", max_learning_rows=40, random_state=0)
    model = regressor.fit(X, SCALED)
    C = model.kernel_(X) + model.noise_variances_[0] / model.scales_[0] ** 2 * np.eye(N)
    y = SCALED - SCALED.mean(axis=0)
    likeliest = np.sqrt(np.einsum("ij,ij->j", y, np.linalg.solve(C, y)) / N)
    np.testing.assert_allclose(model.scales_, likeliest, rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("regressor", "rtol"),
    [
        (SpectralGPRegressor(kernel="matern32"), 1e-9),
        (SpectralGPRegressor(kernel="matern32", trend="linear"), 0.01),  # whose residuals are those of least squares
        (FeaturizedGPRegressor(kernel="matern32", max_learning_rows=40, random_state=0), 0.1),
        (FeaturizedGPRegressor(kernel="linear"), 1e-9),
    ],
)
def test_scales_of_chunks_are_the_likeliest(regressor: Any, rtol: float) -> None:
    model = clone(regressor).fit(X, SCALED, chunk_rows=30)
    C = model.kernel_(X) + model.noise_variances_[0] / model.scales_[0] ** 2 * np.eye(N)
    H = np.ones((N, 1)) if model.trend == "constant" else np.column_stack((np.ones(N), X))
    y = SCALED - H @ np.linalg.lstsq(H, SCALED)[0]
    likeliest = np.sqrt(np.einsum("ij,ij->j", y, np.linalg.solve(C, y)) / N)
    np.testing.assert_allclose(model.scales_, likeliest, rtol=rtol)
    assert not np.allclose(likeliest, y.std(axis=0), rtol=0.1)


def test_what_is_given_is_in_the_units_of_y() -> None:
    model = ExactGPRegressor(MaternKernel(1.0, variance=2.0)).fit(X, Y, None, NOISES)
    assert model.scales_.tolist() == [1.0] * T
    free = MaternKernel(1.0, variance=2.0, lengthscale_bounds=(0.5, 3.0), variance_bounds="fixed")
    learned = ExactGPRegressor(free, 0.05).fit(X, Y)
    assert learned.kernel_.variance == 2.0
    assert learned.kernel_.lengthscale != 1.0
    assert learned.noise_variances_.tolist() == [0.05] * T


def test_a_known_centre_is_one_number_or_one_a_target() -> None:
    far = [[100.0, 100.0]]
    model = ExactGPRegressor(**GAUSSIAN)
    np.testing.assert_allclose(clone(model).fit(X, Y, center=7.0).predict(far), np.full((1, T), 7.0))
    np.testing.assert_allclose(clone(model).fit(X, Y, center=[1.0, 2.0, 3.0]).predict(far), [[1.0, 2.0, 3.0]])
    with pytest.raises(InputError, match="center must be a finite number, the known mean of y of each target"):
        clone(model).fit(X, Y, center=[1.0, 2.0])


def test_ten_targets_are_factorised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def count(matrix: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        counted.append(len(matrix))
        return cholesky(matrix, *arguments, **options)

    targets = np.tile(Y, 4)[:, :10]
    monkeypatch.setattr("lmgp.utils.linalg.cholesky", count)
    clone(GIVEN["exact"][0]).fit(X, targets).predict(NEW, return_std=True)
    assert counted == [N]
    monkeypatch.setattr("lmgp.posteriors.weights.cholesky", count)
    counted.clear()
    model = clone(GIVEN["localized"][0]).fit(X, targets)
    model.predict(NEW, return_std=True)
    model.loo_  # noqa: B018
    assert 1 < len(counted) <= len(model.centroids_)


def test_ten_targets_take_the_products_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []
    called = KernelProducts.__call__

    def count(self: KernelProducts, V: torch.Tensor) -> torch.Tensor:
        widths.append(V.shape[1])
        return called(self, V)

    monkeypatch.setattr(KernelProducts, "__call__", count)
    clone(GIVEN["iterative"][0]).set_params(tolerance=1e-3).fit(X, np.tile(Y, 4)[:, :10]).predict(NEW)
    assert set(widths) == {10}


@pytest.mark.parametrize("name", LEARNED)
def test_one_column_gives_what_a_vector_gives(name: str) -> None:
    model, column = (clone(LEARNED[name]).fit(X, y) for y in (Y[:, 0], Y[:, :1]))
    assert column.target_names_.tolist() == ["0"]
    assert model.predict(NEW).shape == (len(NEW),)
    np.testing.assert_allclose(column.predict(NEW)[:, 0], model.predict(NEW), rtol=1e-12)
    with pytest.raises(AttributeError, match="has no target_names_: y has one target"):
        model.target_names_  # noqa: B018


def test_each_target_has_a_model_of_its_own() -> None:
    noises = np.column_stack((NOISES, 2.0 * NOISES, NOISES[::-1]))
    model = MultiTargetGPRegressor(ExactGPRegressor(random_state=0)).fit(X, Y, WEIGHTS, noises)
    mean, std = model.predict(NEW, return_std=True)
    for j in range(T):
        one = ExactGPRegressor(random_state=0).fit(X, Y[:, j], WEIGHTS, noises[:, j])
        np.testing.assert_array_equal((mean[:, j], std[:, j]), one.predict(NEW, return_std=True))
        quantiles = one.predict_quantile(NEW, [0.1, 0.5])
        np.testing.assert_array_equal(model.predict_quantile(NEW, [0.1, 0.5])[:, j], quantiles)
        of_one = one.predict_exceedance(NEW, float(j))
        np.testing.assert_array_equal(model.predict_exceedance(NEW, [0.0, 1.0, 2.0])[:, j], of_one)
        assert model.log_marginal_likelihood()[j] == one.log_marginal_likelihood()
        np.testing.assert_array_equal(model.loo_[j].mean, one.loo_.mean)
    drawn = model.sample_y(NEW[:1], 4000)[0] - mean[:1].T
    assert abs(np.corrcoef(drawn)[0, 1]) < 0.06  # not the same draws for all
    logs = MultiTargetGPRegressor(TransformedTargetGPRegressor(ExactGPRegressor())).fit(X, np.exp(Y))
    assert np.all(logs.predict_interval(NEW)[0] > 0.0)


def test_calibrating_it_is_calibrating_the_model_of_each_target() -> None:
    rng = np.random.default_rng(3)
    rows = rng.uniform(0.0, 4.0, (300, 2))
    one = TransformedTargetGPRegressor(ExactGPRegressor(**GAUSSIAN))
    each = MultiTargetGPRegressor(one).fit(X, np.exp(Y))
    errors = rng.standard_t(3, (300, T)) * [0.2, 1.0, 3.0]
    y = np.exp(np.log(each.predict(rows)) + errors)
    frame, noises = pd.DataFrame(y, columns=["a", "b", "c"]), rng.uniform(0.02, 0.1, y.shape)
    assert each.calibrate(rows, frame, noise_variances=noises) is each
    scales = [noise.student.scale for noise in each.noise_]
    assert scales[0] < scales[1] < scales[2]
    for j in range(T):
        alone = clone(one).fit(X, np.exp(Y[:, j])).calibrate(rows, y[:, j], noise_variances=noises[:, j])
        found = [bound[:, j] for bound in each.predict_interval(NEW, 0.7)]
        np.testing.assert_array_equal(found, alone.predict_interval(NEW, 0.7))


def test_all_targets_are_calibrated_or_none() -> None:
    rng = np.random.default_rng(4)
    rows, y = rng.uniform(0.0, 4.0, (50, 2)), np.exp(3.0 * rng.standard_normal((50, T)))
    each = MultiTargetGPRegressor(TransformedTargetGPRegressor(ExactGPRegressor(**GAUSSIAN))).fit(X, np.exp(Y))
    before = each.predict_interval(NEW)
    signed, infinite = y.copy(), y.copy()
    signed[7, 2], infinite[7, 1] = -1.0, np.inf
    for bad, told in (
        (signed, r"Target '2': .*needs targets that are positive; got -1 in row 7"),
        (infinite, "infin"),
        (y[:, :2], "The model has 3 targets; got y with 2"),
        (y[:, 0], "one column a target"),
    ):
        with pytest.raises(ValueError, match=told):
            each.calibrate(rows, bad)
        np.testing.assert_array_equal(each.predict_interval(NEW), before)
    each.calibrate(rows, y)
    assert np.all(each.predict_interval(NEW)[1] > before[1])


def test_columns_of_data_frames_keep_their_names() -> None:
    frame, y = pd.DataFrame(X, columns=["east", "north"]), pd.DataFrame(Y, columns=["temperature", "pressure", "flow"])
    model = ExactGPRegressor(trend=["north"], random_state=0).fit(frame, y)
    each = MultiTargetGPRegressor(ExactGPRegressor(random_state=0)).fit(frame, y)
    for named in (model, each):
        assert named.target_names_.tolist() == ["temperature", "pressure", "flow"]
        assert named.feature_names_in_.tolist() == ["east", "north"]
    array = ExactGPRegressor(trend=[1], random_state=0).fit(X, Y)
    assert array.target_names_.tolist() == ["0", "1", "2"]
    np.testing.assert_array_equal(model.predict(pd.DataFrame(NEW, columns=["east", "north"])), array.predict(NEW))


@pytest.mark.parametrize("name", ["featurized", "localized", "nearest"])
def test_chunks_keep_the_names_and_the_axis_of_targets(name: str) -> None:
    y, model = pd.DataFrame(Y[:, :2], columns=["temperature", "pressure"]), clone(GIVEN[name][0])
    assert model.fit(X, y, chunk_rows=30).target_names_.tolist() == ["temperature", "pressure"]
    assert model.fit([(X[:30], y[:30]), (X[30:], y[30:])]).target_names_.tolist() == ["temperature", "pressure"]
    assert model.fit(X, Y, chunk_rows=30).target_names_.tolist() == ["0", "1", "2"]
    assert model.fit(X, Y[:, :1], chunk_rows=30).predict(NEW).shape == (len(NEW), 1)
    one = model.fit(X, y["pressure"].rename(index=dict.fromkeys(range(N), 0)), chunk_rows=30)
    np.testing.assert_array_equal(one.predict(NEW), clone(model).fit(X, Y[:, 1], chunk_rows=30).predict(NEW))


@pytest.mark.parametrize("name", [*GIVEN, "each"])
def test_what_is_saved_predicts_the_same(name: str, tmp_path: Path) -> None:
    if name == "each":
        model = MultiTargetGPRegressor(ExactGPRegressor(**GAUSSIAN)).fit(X, Y)
    else:
        model = clone(GIVEN[name][0]).set_params(trend="linear").fit(X, Y)
    model.save(tmp_path / "model")
    loaded = lmgp.load(tmp_path / "model")
    for found, expected in zip(loaded.predict(NEW, return_std=True), model.predict(NEW, return_std=True), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, list, lambda y: y.astype(object)])
def test_rows_have_no_part_in_the_fit_to_a_target_that_they_lack(kind: Any) -> None:
    y, rng = Y.copy(), np.random.default_rng(0)
    y[rng.random(Y.shape) < 0.2] = np.nan
    weights, noises = rng.uniform(0.5, 2.0, N), rng.uniform(0.01, 0.1, Y.shape)
    each = MultiTargetGPRegressor(ExactGPRegressor(**GAUSSIAN)).fit(X, kind(y), weights, noises)
    each.calibrate(X, kind(y), weights, noises)
    for j in range(T):
        has = ~np.isnan(y[:, j])
        given = X[has], y[has, j], weights[has], noises[has, j]
        alone = ExactGPRegressor(**GAUSSIAN).fit(*given).calibrate(*given)
        np.testing.assert_array_equal(each.predict(NEW)[:, j], alone.predict(NEW))
        assert each.noise_[j].student == alone.noise_.student
    for n_rows in (0, 1):
        y[n_rows:, 1] = np.nan
        with pytest.raises(InputError, match=r"Target '1'.*minimum of 2"):
            MultiTargetGPRegressor(ExactGPRegressor(**GAUSSIAN)).fit(X, kind(y))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[80, 79\]"):
        each.fit(X, kind(y[1:]))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[80, 80, 81\]"):
        each.fit(X, kind(y), np.ones(81))


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("scaler", [(), (StandardScaler(),)], ids=["alone", "in a pipeline"])
def test_the_score_of_a_target_is_of_the_rows_that_have_it(scaler: tuple[Any, ...], weights: Any) -> None:
    model = MultiTargetGPRegressor(make_pipeline(*scaler, ExactGPRegressor(**GAUSSIAN))).fit(X, Y)
    whole = r2_score(Y, model.predict(X), sample_weight=weights)
    assert model.score(X, Y, weights) == pytest.approx(whole, rel=1e-12)
    y = np.where(np.arange(N)[:, None] % (2 * T) == np.arange(T), np.nan, Y)
    expected = []
    for j, mean in enumerate(model.predict(X).T):
        has = ~np.isnan(y[:, j])
        of_rows = None if weights is None else weights[has]
        expected.append(r2_score(y[has, j], mean[has], sample_weight=of_rows))
    assert model.score(X, y, weights) == pytest.approx(np.mean(expected), rel=1e-12)
    with pytest.raises(InputError, match="The model has 3 targets; got y with 2"):
        model.score(X, y[:, :2])
    y[:, 1] = np.nan
    with pytest.raises(InputError, match="Target '1': Found array with 0 sample"):
        model.score(X, y)


def test_it_works_in_searches_and_pipelines() -> None:
    y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    model = FeaturizedGPRegressor(kernel=GaussianKernel(1.0), noise_variance=0.05, random_state=0)
    grid = GridSearchCV(model, {"kernel__lengthscale": [0.001, 1.0]}, cv=3).fit(X, y)
    assert grid.best_params_ == {"kernel__lengthscale": 1.0}
    piped = make_pipeline(StandardScaler(), ExactGPRegressor(random_state=0)).fit(X, Y)
    assert piped.predict(NEW, return_std=True)[1].shape == (len(NEW), T)
    assert piped.score(X, Y) > 0.8
    each = MultiTargetGPRegressor(clone(piped)).fit(X, Y)
    np.testing.assert_array_equal(each.predict(NEW)[:, 1], clone(piped).fit(X, Y[:, 1]).predict(NEW))


def test_options_go_to_the_last_step_of_a_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    MultiTargetGPRegressor(make_pipeline(StandardScaler(), ExactGPRegressor(random_state=0))).fit(X, Y, verbose=True)
    assert f"a fit to {N} rows" in capsys.readouterr().err
    piped = make_pipeline(StandardScaler(), ExactGPRegressor(**GAUSSIAN))
    y = np.where(np.arange(N)[:, None] % T == np.arange(T), np.nan, Y)
    found = MultiTargetGPRegressor(piped).fit(X, y, WEIGHTS, NOISES).predict(NEW)
    for j, mean in enumerate(found.T):
        rows = np.flatnonzero(np.isfinite(y[:, j]))
        given = {"exactgpregressor__sample_weight": WEIGHTS[rows], "exactgpregressor__noise_variances": NOISES[rows]}
        np.testing.assert_array_equal(mean, clone(piped).fit(X[rows], Y[rows, j], **given).predict(NEW))


def test_the_likelihood_of_transformed_targets_is_that_of_theirs() -> None:
    y, regressor = np.exp(Y), ExactGPRegressor(**GAUSSIAN)
    each = MultiTargetGPRegressor(make_pipeline(StandardScaler(), TransformedTargetGPRegressor(regressor))).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(
        each.log_marginal_likelihood(), regressor.fit(scaled, Y).log_marginal_likelihood(), rtol=1e-9
    )


def test_what_is_wrong_is_named() -> None:
    model, each = ExactGPRegressor(), MultiTargetGPRegressor(ExactGPRegressor())
    holes = pd.DataFrame(Y, columns=["a", "b", "c"])
    holes.loc[4, "b"] = np.nan
    with pytest.raises(ValueError, match=r"NaN"):
        model.fit(X, holes)
    with pytest.raises(InputError, match=r"one column a target; got none, shape \(80, 0\)"):
        model.fit(X, holes[[]])
    for regressor in (model, each):
        with pytest.raises(InputError, match=r"Target 'b'.* is constant \(all 7\)"):
            regressor.fit(X, holes.assign(b=7.0))
        with pytest.raises(InputError, match=r"noise_variances must be positive; got -1"):
            regressor.fit(X, Y, None, -np.ones(N))
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[80, 79\]"):
            regressor.fit(X, Y[1:])
        with pytest.raises(AttributeError, match="it is not fitted"):
            regressor.loo_  # noqa: B018
    with pytest.raises(InputError, match=r"shape \(80, 3\); got shape \(80, 2\)"):
        each.fit(X, Y, None, np.ones((N, 2)))
    with pytest.raises(InputError, match=r"one column a target, .* shape \(80,\)\. For one target use GPRegressor"):
        each.fit(X, Y[:, 0])
    fitted = clone(GIVEN["exact"][0]).fit(X, Y)
    with pytest.raises(InputError, match="n_samples must be a positive integer; got 0"):
        fitted.sample_y(NEW, 0)
    with pytest.raises(InputError, match="level must be a number strictly between 0 and 1; got 95"):
        fitted.predict_interval(NEW, 95)
    with pytest.raises(InputError, match=r"one a target, shape \(3,\), or one a row and target, shape \(n, 3\); got"):
        fitted.predict_exceedance(NEW, [0.1, 0.2])
    with pytest.raises(InputError, match="threshold must be a finite number"):
        fitted.predict_exceedance(NEW, [0.1, np.nan, 0.2])
    with pytest.raises(InputError, match=r"shape \(12,\); got shape \(5, 3\)"):
        fitted.predict_exceedance(NEW, np.zeros((5, T)))


def test_noise_variances_that_come_later_are_no_squares_of_learned_scales() -> None:
    Z = Y * [1.0, 10.0, 100.0]
    model = NearestNeighborsGPRegressor(20).fit(X, Z)
    for method in (model.partial_fit, model.forget, model.with_rows, model.calibrate):
        with pytest.raises(InputError, match=r"learned a scale of each target.*MultiTargetGPRegressor"):
            method(X, Z, noise_variances=NOISES)
    model = NearestNeighborsGPRegressor(20).fit(X, Z, noise_variances=NOISES)
    assert model.partial_fit(X + 0.01, Z, noise_variances=NOISES).forget(X, Z, noise_variances=NOISES).scales_[1] == 1.0


def test_impossible_means_are_warned_of_by_the_name_of_their_target() -> None:
    # A Gaussian without noise, of rows that contradict each other: y = ±1 at places that are almost the same.
    at = np.repeat(np.linspace(0.0, 1.0, 10), 2)[:, None] + 1e-3 * np.tile([0.0, 1.0], 10)[:, None]
    y = pd.DataFrame({"smooth": np.sin(at[:, 0]), "torn": np.tile([-1.0, 1.0], 10)})
    model = ExactGPRegressor(GaussianKernel(1.0), 1e-8).fit(at, y)
    told = r"Target 'torn', in its scale: .*give a larger noise_variance"
    with pytest.warns(ImplausibleMeanWarning, match=told) as caught:
        model.predict(np.linspace(-1.5, 2.5, 41)[:, None])
    assert len(caught) == 1


def test_a_far_trend_is_no_impossible_mean(recwarn: pytest.WarningsRecorder) -> None:
    far = ExactGPRegressor(**GAUSSIAN, trend="linear").fit(X, Y).predict([[400.0, 400.0]])
    assert np.abs(far).max() > 10 * np.abs(Y).max()
    assert not recwarn.list


@pytest.mark.parametrize("method", ["partial_fit", "with_rows", "update", "forget", "calibrate"])
def test_targets_in_another_order_are_refused(method: str) -> None:
    y = pd.DataFrame(Y[:, :2], columns=["a", "b"])
    model = SpectralGPRegressor(**GAUSSIAN).fit(X, y)
    with pytest.raises(InputError, match="y must have its columns in the order of fit, a, b; got b, a"):
        getattr(model, method)(X, y[["b", "a"]])
    if method == "partial_fit":
        other = SpectralGPRegressor(**GAUSSIAN).fit(X, y[["b", "a"]], center=0.0)
        with pytest.raises(InputError, match="in the order of fit, a, b; got b, a"):
            SpectralGPRegressor(**GAUSSIAN).fit(X, y, center=0.0).merge(other)
    if method == "calibrate":
        with pytest.raises(InputError, match="in the order of fit, a, b; got b, a"):
            MultiTargetGPRegressor(ExactGPRegressor(**GAUSSIAN)).fit(X, y).calibrate(X, y[["b", "a"]])


def test_chunks_with_targets_in_another_order_are_refused() -> None:
    y = pd.DataFrame(Y[:, :2], columns=["a", "b"])
    for more in ({}, {"kernel": None, "noise_variance": None}):
        with pytest.raises(InputError, match="in the order of fit, a, b; got b, a"):
            SpectralGPRegressor(**GAUSSIAN | more).fit([(X, y), (X, y[["b", "a"]])])


def test_one_noise_variance_serves_all_rows_of_targets_with_gaps() -> None:
    y = np.where(np.arange(N)[:, None] % 4 == np.arange(T), np.nan, Y)
    found, expected = (
        MultiTargetGPRegressor(ExactGPRegressor(**GAUSSIAN)).fit(X, y, noise_variances=noise).predict(NEW)
        for noise in (0.1, np.full(N, 0.1))
    )
    np.testing.assert_array_equal(found, expected)


def test_the_likelihood_is_an_array_of_several_targets() -> None:
    model = ExactGPRegressor(**GAUSSIAN).fit(X, Y)
    assert (2.0 * model.log_marginal_likelihood()).shape == (T,)
    assert isinstance(model.fit(X, Y[:, 0]).log_marginal_likelihood(), float)
