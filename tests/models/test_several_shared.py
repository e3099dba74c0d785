"""What several targets share, of every model and with a trend, against a model of each target."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
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
    ResidualGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.errors import InputError
from lmgp.linalg import cholesky
from lmgp.models.shared import Shared, SharedNeighbours, SharedParameters, SharedRows, SharedWeights
from lmgp.models.sharing import SharedCentroids, SharedIterations, SharedModes

N, T = 80, 3
RNG = np.random.default_rng(0)
X, NEW = RNG.uniform(0.0, 4.0, (N, 2)), RNG.uniform(-0.5, 4.5, (12, 2))
Y = np.column_stack((np.sin(X[:, 0]), np.cos(X[:, 1]) + 0.5 * X[:, 0], np.sin(X[:, 0] * X[:, 1] / 3.0) - X[:, 1]))
Y = Y + 0.2 * RNG.standard_normal(Y.shape)
INSIDE = np.array([[1.0, 1.0], [2.0, 3.0], [3.5, 0.5]])
WEIGHTS = RNG.choice([0.5, 1.0, 2.0], N)
NOISES = RNG.uniform(0.02, 0.1, N)
GAUSSIAN: dict[str, Any] = {"kernel": GaussianKernel(1.2, 0.8), "noise_variance": 0.05, "random_state": 0}
MATERN: dict[str, Any] = {"kernel": MaternKernel(1.5, smoothness=2.5), "noise_variance": 0.05, "random_state": 0}

MODELS: dict[str, tuple[Any, type[Shared], float]] = {
    "exact": (ExactGPRegressor(**GAUSSIAN), SharedRows, 1e-9),
    "iterative": (ExactGPRegressor(**MATERN, solver="iterative", tolerance=1e-9), SharedIterations, 1e-7),
    "nearest": (NearestNeighborsGPRegressor(25, **MATERN), SharedNeighbours, 1e-9),
    "residual": (ResidualGPRegressor(NystroemFeatures(20), 20, block_size=24, **MATERN), SharedNeighbours, 1e-9),
    "featurized": (FeaturizedGPRegressor(TaylorFeatures(60), **GAUSSIAN), SharedWeights, 1e-9),
    "localized": (LocalizedGPRegressor(TaylorFeatures(60), **GAUSSIAN), SharedCentroids, 1e-9),
    "dual": (LocalizedGPRegressor(TaylorFeatures(60), solver="dual", **GAUSSIAN), SharedCentroids, 1e-9),
    "either": (LocalizedGPRegressor(TaylorFeatures(28), 0.3, solver="auto", **GAUSSIAN), SharedCentroids, 1e-9),
    "own centroids": (
        LocalizedGPRegressor(TaylorFeatures(60), centroids="test_rows", **GAUSSIAN),
        SharedCentroids,
        1e-9,
    ),
    "around rows": (LocalizedGPRegressor(**MATERN), SharedNeighbours, 1e-9),
    "few modes": (SpectralGPRegressor(1e-6, **GAUSSIAN), SharedModes, 1e-6),
    "modes": (SpectralGPRegressor(1e-3, **MATERN), SharedModes, 1e-3),
    "chosen": (GPRegressor(**GAUSSIAN), SharedRows, 1e-9),
}
ROWS: dict[str, dict[str, Any]] = {
    "": {}, "weights": {"sample_weight": WEIGHTS}, "noises": {"noise_variances": NOISES}
}  # fmt: skip


@pytest.mark.parametrize(("rows", "trend"), [("", "constant"), ("weights", "linear"), ("noises", "linear")])
@pytest.mark.parametrize("name", MODELS)
def test_they_share_what_gives_the_predictions_of_a_model_of_each(name: str, trend: str, rows: str) -> None:
    regressor, kind, tolerance = MODELS[name]
    regressor, given = clone(regressor).set_params(trend=trend), ROWS[rows]
    model = MultiTargetGPRegressor(regressor).fit(X, Y, **given)
    assert isinstance(model._fitted.together.posteriors, kind)  # type: ignore[union-attr]
    found = model.predict(NEW, return_std=True, return_cov=True, include_noise=True)
    alone = model.predict(NEW)
    for j in range(T):
        one = clone(regressor).fit(X, Y[:, j], **given)
        expected = one.predict(NEW, return_std=True, return_cov=True, include_noise=True)
        for part, of_one in zip(found, expected, strict=True):
            np.testing.assert_allclose(part[..., j], of_one, rtol=0, atol=tolerance)
        np.testing.assert_allclose(alone[:, j], expected[0], rtol=0, atol=tolerance)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("chosen", "own centroids", "around rows")])
def test_what_the_rows_say_is_that_of_a_model_of_each(name: str) -> None:
    regressor, _, tolerance = MODELS[name]
    regressor = clone(regressor).set_params(trend="linear")
    model = MultiTargetGPRegressor(regressor).fit(X, Y, WEIGHTS)
    likelihoods = np.asarray(model.log_marginal_likelihood())
    for j in range(T):
        one = clone(regressor).fit(X, Y[:, j], WEIGHTS)
        left_out = model.loo_[j]  # type: ignore[index]
        np.testing.assert_allclose(left_out.y, one.loo_.y, rtol=0, atol=1e-12)
        np.testing.assert_allclose(left_out.mean, one.loo_.mean, rtol=0, atol=20 * tolerance)
        np.testing.assert_allclose(left_out.std, one.loo_.std, rtol=0, atol=20 * tolerance)
        assert likelihoods[j] == pytest.approx(one.log_marginal_likelihood(), abs=100 * tolerance)


@pytest.mark.parametrize("name", ["featurized", "localized", "few modes", "iterative"])
def test_the_divergence_is_that_of_each_target(name: str) -> None:
    regressor, _, tolerance = MODELS[name]
    model = MultiTargetGPRegressor(regressor).fit(X, Y)
    error = np.asarray(model.predict(NEW, return_error=True)[1])
    for j in range(T):
        expected = clone(regressor).fit(X, Y[:, j]).predict(NEW, return_error=True)[1]
        # Of iterations and modes, that of each depends on what is solved beside it.
        slack = 1e-2 * tolerance if name in ("few modes", "iterative") else 1e-12
        np.testing.assert_allclose(error[:, j], expected, rtol=1e-6, atol=slack)


@pytest.mark.parametrize("name", ["exact", "localized"])
def test_draws_have_the_mean_and_the_covariance_of_each_target(name: str) -> None:
    model = MultiTargetGPRegressor(clone(MODELS[name][0]).set_params(trend="linear")).fit(X, Y)
    drawn = model.sample_y(INSIDE, 4_000, random_state=1)
    mean, cov = model.predict(INSIDE, return_cov=True)
    for j in range(T):
        spread = np.sqrt(np.diagonal(cov[:, :, j]))
        np.testing.assert_allclose((drawn[:, j].mean(axis=1) - mean[:, j]) / spread, 0.0, atol=0.08)
        scaled = spread[:, None] * spread
        np.testing.assert_allclose(np.cov(drawn[:, j]) / scaled, cov[:, :, j] / scaled, atol=0.1)
    between = np.corrcoef(drawn[0])
    assert np.max(np.abs(between - np.eye(T))) < 0.08


def test_around_a_centroid_ten_targets_are_factorised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def count(matrix: torch.Tensor, noise: float, **options: Any) -> torch.Tensor:
        counted.append(len(matrix))
        return cholesky(matrix, noise, **options)

    monkeypatch.setattr("lmgp.inference.weight_space.cholesky", count)
    targets = np.tile(Y, 4)[:, :10]
    model = MultiTargetGPRegressor(MODELS["localized"][0]).fit(X, targets)
    model.predict(NEW, return_std=True)
    model.loo_  # noqa: B018
    n_centroids = len(model.regressor_.centroids_)
    assert 1 < len(counted) <= n_centroids


def test_ten_targets_take_the_products_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from lmgp.inference.products import KernelProducts

    widths: list[int] = []

    def count(self: KernelProducts, V: torch.Tensor) -> torch.Tensor:
        widths.append(V.shape[1])
        return called(self, V)

    called = KernelProducts.__call__
    monkeypatch.setattr(KernelProducts, "__call__", count)
    regressor = clone(MODELS["iterative"][0]).set_params(tolerance=1e-3)
    MultiTargetGPRegressor(regressor).fit(X, np.tile(Y, 4)[:, :10]).predict(NEW)
    assert set(widths) == {10}


@pytest.mark.parametrize("name", ["localized", "modes", "iterative", "featurized"])
def test_what_is_saved_predicts_the_same(name: str, tmp_path: Path) -> None:
    model = MultiTargetGPRegressor(clone(MODELS[name][0]).set_params(trend="linear")).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = lmgp.load(tmp_path / "model")
    for found, expected in zip(loaded.predict(NEW, return_std=True), model.predict(NEW, return_std=True), strict=True):
        np.testing.assert_array_equal(found, expected)
    if name != "featurized":  # whose file has no rows
        np.testing.assert_array_equal(loaded.loo_[1].mean, model.loo_[1].mean)  # type: ignore[index]


def test_a_far_trend_is_no_impossible_mean(recwarn: pytest.WarningsRecorder) -> None:
    model = MultiTargetGPRegressor(ExactGPRegressor(**GAUSSIAN, trend="linear")).fit(X, Y)
    far = model.predict([[400.0, 400.0]])
    assert np.abs(far).max() > 10 * np.abs(Y).max()
    assert not recwarn.list


def test_noises_that_differ_between_targets_share_the_parameters_alone() -> None:
    noises = np.column_stack((NOISES, 2.0 * NOISES, NOISES[::-1]))
    regressor = ExactGPRegressor(GaussianKernel(1.2, 0.8), trend="linear")
    model = MultiTargetGPRegressor(regressor).fit(X, Y, noise_variances=noises)
    assert isinstance(model._fitted.together.posteriors, SharedParameters)  # type: ignore[union-attr]
    for j in range(T):
        expected = clone(regressor).fit(X, Y[:, j], noise_variances=noises[:, j]).predict(NEW, return_std=True)
        for part, of_one in zip(model.predict(NEW, return_std=True), expected, strict=True):
            np.testing.assert_allclose(part[:, j], of_one, rtol=0, atol=1e-9)


@pytest.mark.parametrize("how", ["shared", "each"])
def test_exceedance_is_that_of_each_target(how: Any) -> None:
    model = MultiTargetGPRegressor(ExactGPRegressor(**GAUSSIAN), how).fit(X, Y)
    of_rows = np.linspace(-1.0, 1.0, 12 * T).reshape(12, T)
    for limits in (0.3, [0.1, 0.5, -0.2], of_rows):
        found = model.predict_exceedance(NEW, limits, include_noise=False)
        assert found.shape == (len(NEW), T)
        for j in range(T):
            one = clone(model.regressor).fit(X, Y[:, j])
            own = np.broadcast_to(limits, (12, T))[:, j]
            np.testing.assert_allclose(found[:, j], one.predict_exceedance(NEW, own, include_noise=False), atol=1e-9)
    for bad in ([0.1, 0.2], of_rows.T):
        with pytest.raises(
            InputError, match=r"one a target, shape \(3,\), or one a row and target, shape \(n, 3\); got"
        ):
            model.predict_exceedance(NEW, bad)
    with pytest.raises(InputError, match="threshold must be a finite number"):
        model.predict_exceedance(NEW, [0.1, np.nan, 0.2])
    with pytest.raises(InputError, match=r"shape \(12,\); got shape \(5,\)"):
        model.predict_exceedance(NEW, of_rows[:5])


def test_pipelines_and_logarithms_of_each_target_have_quantiles_and_probabilities() -> None:
    piped = make_pipeline(StandardScaler(), TransformedTargetGPRegressor(ExactGPRegressor(**GAUSSIAN)))
    each = MultiTargetGPRegressor(piped, "each").fit(X, np.exp(Y))
    one = clone(piped).fit(X, np.exp(Y[:, 1]))
    rows = one[:-1].transform(NEW)
    np.testing.assert_array_equal(each.predict_quantile(NEW, 0.9)[:, 1], one[-1].predict_quantile(rows, 0.9))
    np.testing.assert_array_equal(
        each.predict_exceedance(NEW, [1.0, 2.0, 3.0])[:, 1], one[-1].predict_exceedance(rows, 2.0)
    )
