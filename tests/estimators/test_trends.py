"""Models with a trend: universal kriging, against dense algebra, the exact model and draws from the prior."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

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
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.errors import ImplausibleMeanWarning, InputError
from lmgp.metrics import kl_divergence
from tests.conftest import KERNELS, NOISE, counts_and_noises, draw, universal_kriging, with_ones

SLOPES = np.array([2.0, -5.0])


def tilted(**parameters: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y, T = draw(**parameters)
    return X, y + X @ SLOPES, T


def dense(formula, X, y, T, noise, columns=slice(None)) -> tuple[np.ndarray, ...]:
    H, h = with_ones(X)[:, columns], with_ones(T)[:, columns]
    return universal_kriging(formula(X, X), formula(X, T), np.diag(formula(T, T)), y, noise, H, h)


# ------------------------------------------------------------------------------------------------ against dense algebra


@pytest.mark.parametrize("arguments", ["plain", "weights", "noises", "both"])
@pytest.mark.parametrize(("trend", "columns"), [("linear", [0, 1, 2]), ([1], [0, 2]), ([], [0])])
def test_the_exact_model(trend, columns: list[int], arguments: str) -> None:
    X, y, T = tilted()
    counts, noises = counts_and_noises(80)
    given = {"weights": {"sample_weight": counts}, "noises": {"noise_variances": noises}, "plain": {}}
    given["both"] = given["weights"] | given["noises"]
    used = counts > 0 if arguments in ("weights", "both") else np.full(80, True)
    noise = noises if arguments in ("noises", "both") else np.full(80, NOISE)
    noise = noise / np.where(used, counts, 1) if arguments in ("weights", "both") else noise
    kernel, formula = KERNELS["matern52"]
    model = ExactGPRegressor(kernel, NOISE, trend=trend).fit(X, y, **given[arguments])
    mean, std = model.predict(T, return_std=True)
    expected = dense(formula, X[used], y[used], T, noise[used], columns)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-8)
    np.testing.assert_allclose(std**2, expected[1], rtol=1e-8)
    np.testing.assert_allclose(model.predict(T), expected[0], rtol=1e-8)
    np.testing.assert_allclose([model.trend_.intercept, *model.trend_.coef], expected[2], rtol=1e-8)
    np.testing.assert_allclose(model.trend_.covariance, expected[3], rtol=1e-6)
    Z, alpha = model.dual_coefficients()
    np.testing.assert_allclose(with_ones(T)[:, columns] @ expected[2] + formula(T, Z) @ alpha, mean, rtol=1e-8)


def test_a_flat_prior_is_the_limit_of_wide_ones() -> None:
    """Without a formula of kriging: β ~ N(0, 10⁶ I) makes the covariance K + 10⁶ HHᵀ."""
    X, y, T = tilted()
    kernel, formula = KERNELS["matern52"]
    H, h = with_ones(X), with_ones(T)
    solved = np.linalg.solve(formula(X, X) + NOISE * np.eye(80) + 1e6 * H @ H.T, formula(X, T) + 1e6 * H @ h.T)
    variance = np.diag(formula(T, T) + 1e6 * h @ h.T) - np.sum((formula(X, T) + 1e6 * H @ h.T) * solved, axis=0)
    mean, std = ExactGPRegressor(kernel, NOISE, trend="linear").fit(X, y).predict(T, return_std=True)
    np.testing.assert_allclose(mean, solved.T @ y, rtol=1e-3)
    np.testing.assert_allclose(std**2, variance, rtol=1e-3)


@pytest.mark.parametrize("features", [NystroemFeatures(25), OrthogonalFourierFeatures(30), TaylorFeatures(30)])
@pytest.mark.parametrize("arguments", ["plain", "noises"])
def test_the_featurized_model(features, arguments: str) -> None:
    X, y, T = tilted()
    T = T[:15]
    _, noises = counts_and_noises(80)
    own = noises if arguments == "noises" else None
    kernel = GaussianKernel(1.5, 0.8)
    model = FeaturizedGPRegressor(
        features, kernel=kernel, noise_variance=NOISE, trend="linear", approximation="dtc", random_state=0
    ).fit(X, y, noise_variances=own)
    centre = np.zeros(2) if isinstance(features, NystroemFeatures) else X.mean(axis=0)
    phi, new = (model.features_.transform(Z - centre) for Z in (X, T))
    noise = np.full(80, NOISE) if own is None else own
    expected = universal_kriging(phi @ phi.T, phi @ new.T, np.sum(new**2, axis=1), y, noise, with_ones(X), with_ones(T))
    mean, std = model.predict(T, return_std=True)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-7)
    left_out = np.maximum(0.8 - np.sum(new**2, axis=1), 0.0)
    if not isinstance(features, OrthogonalFourierFeatures):
        np.testing.assert_allclose(std**2, expected[1] + left_out, rtol=1e-5)
    else:
        np.testing.assert_allclose(std**2, expected[1], rtol=1e-7)
    np.testing.assert_allclose(model.trend_.coef, expected[2][1:], rtol=1e-7)
    residuals = y - with_ones(X) @ expected[2]
    covariance = phi @ phi.T + np.diag(noise)
    likelihood = -0.5 * (
        residuals @ np.linalg.solve(covariance, residuals) + np.linalg.slogdet(covariance)[1] + 80 * np.log(2 * np.pi)
    )
    assert model.log_marginal_likelihood_ == pytest.approx(likelihood, rel=1e-6)


# ---------------------------------------------------------------------------------------------- near to the exact model

MATERN = {"kernel": MaternKernel(2.0, 1.0, smoothness=1.5), "noise_variance": 0.05, "trend": "linear"}
SMOOTH = {"kernel": GaussianKernel(1.5, 1.0), "noise_variance": 0.05, "trend": "linear"}
NEAR: dict[str, Any] = {
    "localized_primal": LocalizedGPRegressor(TaylorFeatures(200), **SMOOTH),
    "localized_dual": LocalizedGPRegressor(TaylorFeatures(200), solver="dual", **SMOOTH),
    "localized_test_rows": LocalizedGPRegressor(TaylorFeatures(200), centroids="test_rows", **SMOOTH),
    "localized_matern": LocalizedGPRegressor(**MATERN),
    "nearest_rows": NearestNeighborsGPRegressor(60, **MATERN),
    "spectral": SpectralGPRegressor(**SMOOTH),
    "spectral_matern": SpectralGPRegressor(0.01, **MATERN),
    "chosen_smooth": GPRegressor(**SMOOTH, random_state=0),
    "chosen_matern": GPRegressor(methods=["nearest_rows"], max_features=32, **MATERN, random_state=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NEAR)
def test_near_to_the_exact_model(name: str) -> None:
    """Within the data, between them, and as far outside as a fifth of their extent."""
    rng = np.random.default_rng(0)
    X, T = rng.uniform(0, 10, (500, 2)), rng.uniform(-2, 12, (100, 2))
    model = NEAR[name]
    y = X @ SLOPES + np.linalg.cholesky(model.kernel(X) + 0.05 * np.eye(500)) @ rng.normal(size=500)
    exact = ExactGPRegressor(model.kernel, 0.05, trend="linear", max_learning_rows=50).fit(X, y)
    (mean, std), (exact_mean, exact_std) = (one.predict(T, True, True) for one in (model.fit(X, y), exact))
    assert np.mean(kl_divergence(mean, std**2, exact_mean, exact_std**2)) < 2e-3
    np.testing.assert_allclose(model.trend_.coef, exact.trend_.coef, rtol=0, atol=0.1 * exact.trend_.coef_error.max())
    np.testing.assert_allclose(model.trend_.coef_error, exact.trend_.coef_error, rtol=0.05)
    np.testing.assert_allclose(model.predict(T), mean, rtol=0, atol=1e-8)


# -------------------------------------------------------------------------------------------------------- far from data

EXTRAPOLATING: dict[str, Any] = {
    "exact": lambda kernel, trend: ExactGPRegressor(kernel, 0.04, trend=trend, max_learning_rows=2),
    "featurized": lambda kernel, trend: FeaturizedGPRegressor(
        NystroemFeatures(60), kernel=kernel, noise_variance=0.04, trend=trend, random_state=0
    ),
    "localized": lambda kernel, trend: LocalizedGPRegressor(
        TaylorFeatures(12), kernel=kernel, noise_variance=0.04, trend=trend
    ),
    "nearest_rows": lambda kernel, trend: NearestNeighborsGPRegressor(
        20, kernel=kernel, noise_variance=0.04, trend=trend
    ),
    "spectral": lambda kernel, trend: SpectralGPRegressor(kernel=kernel, noise_variance=0.04, trend=trend),
}


@pytest.mark.parametrize("name", EXTRAPOLATING)
def test_intervals_of_an_extrapolated_line_grow_and_cover(name: str) -> None:
    """Over 100 draws from the prior, each on a line of its own."""
    rng = np.random.default_rng(0)
    X, T = np.sort(rng.uniform(0, 10, (60, 1)), axis=0), np.array([[12.0], [20.0], [40.0]])
    kernel = GaussianKernel(1.0, 1.0)
    joint = np.concatenate((X, T))
    root = np.linalg.cholesky(kernel(joint) + 0.04 * np.eye(63))
    both = rng.normal(scale=3.0, size=100) * joint + root @ rng.normal(size=(63, 100))
    inside = {}
    for trend in ("linear", "constant"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImplausibleMeanWarning)
            model = EXTRAPOLATING[name](kernel, trend).fit(X, both[:60])
            mean, std = model.predict(T, return_std=True, include_noise=True)
        inside[trend] = np.mean(np.abs(both[60:] - mean) < 1.96 * std, axis=1)
        assert trend == "constant" or np.all(np.diff(std, axis=0) > 0.0)
    # Three standard errors around 95%.
    assert np.all(np.abs(inside["linear"] - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 100))
    assert np.all(inside["constant"][1:] < 0.5)


@pytest.mark.parametrize("name", EXTRAPOLATING)
def test_a_trend_that_leaves_the_targets_is_no_implausible_mean(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (60, 1))
    y = 3.0 * X[:, 0] + 0.2 * rng.normal(size=60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mean = EXTRAPOLATING[name](GaussianKernel(1.0, 0.1), "linear").fit(X, y).predict([[100.0], [-50.0]])
    np.testing.assert_allclose(mean, [300.0, -150.0], rtol=0.1)


def test_what_the_process_adds_to_a_trend_is_checked() -> None:
    X = np.array([[0.0], [1e-3], [5.0], [7.0], [9.0]])
    y = 10.0 * X[:, 0] + np.array([-1.0, 1.0, 0.0, 0.0, 0.0])
    model = ExactGPRegressor(GaussianKernel(1.0, 1.0), 1e-10, trend="linear").fit(X, y)
    with pytest.warns(ImplausibleMeanWarning, match="impossible under the model"):
        model.predict([[-1.0], [1.0]])


# ------------------------------------------------------------------------------------------------------------- learning


def test_hyper_parameters_are_those_of_the_residuals() -> None:
    X, y, T = tilted(n=60, outside=False)
    model = ExactGPRegressor(trend="linear", random_state=0).fit(X, y)
    start, *_ = np.linalg.lstsq(with_ones(X), y, rcond=None)
    plain = ExactGPRegressor(random_state=0).fit(X, y - with_ones(X) @ start)
    assert model.kernel_.lengthscale == pytest.approx(plain.kernel_.lengthscale, rel=1e-4)
    assert model.noise_variance_ == pytest.approx(plain.noise_variance_, rel=1e-4)
    # The trend of generalised least squares is the likeliest.
    assert model.log_marginal_likelihood_ > plain.log_marginal_likelihood_
    given = ExactGPRegressor(model.kernel_, model.noise_variance_, trend="linear").fit(X, y)
    np.testing.assert_allclose(given.predict(T, True), model.predict(T, True), rtol=1e-10)


def test_targets_on_a_line() -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    y = 3.0 + X @ SLOPES
    with pytest.raises(InputError, match=r"y is a linear function of x0, x1, to the last digits.*trend='constant'"):
        ExactGPRegressor(trend="linear").fit(X, y)
    given = ExactGPRegressor(GaussianKernel(1.0, 0.1), 0.01, trend="linear").fit(X, y)
    np.testing.assert_allclose(given.predict(5 * X), 3.0 + 5 * X @ SLOPES, rtol=1e-10)


def test_the_chosen_model_has_the_trend() -> None:
    X, y, T = tilted(outside=False)
    model = GPRegressor(kernel=GaussianKernel(1.0), noise_variance=0.05, trend=[1], random_state=0).fit(X, y)
    assert model.trend_.names == ("x1",)
    np.testing.assert_array_equal(model.predict(T), model.model_.predict(T))
    np.testing.assert_array_equal(model.trend_.covariance, model.model_.trend_.covariance)


def test_a_trend_on_the_sphere_is_one_of_places() -> None:
    """Longitudes 350 and −10 are one place, and so is what is east of them."""
    rng = np.random.default_rng(0)
    values = rng.uniform([-20, 0, 30], [20, 2, 60], (80, 3))
    frame = pd.DataFrame(values, columns=["lon", "height", "lat"])
    y = 0.1 * frame["lat"] - 5.0 * frame["height"] + 0.1 * rng.normal(size=80)
    given = {"kernel": MaternKernel([500.0] * 3 + [1.0], 0.1), "noise_variance": 0.01, "random_state": 0}
    model = GPRegressor(metric="sphere", trend="linear", **given).fit(frame, y)
    assert model.trend_.names == ("x_km", "y_km", "z_km", "height")
    assert abs(model.trend_.coef[3] + 5.0) < 4 * model.trend_.coef_error[3]
    assert model.trend_.coef[2] > 2 * model.trend_.coef_error[2]  # z is towards the north pole
    other = frame.assign(lon=frame["lon"] % 360)
    np.testing.assert_allclose(model.predict(other), model.predict(frame), rtol=0, atol=1e-8)
    named = GPRegressor(metric="sphere", trend=["height"], **given).fit(frame, y)
    by_index = GPRegressor(metric="sphere", trend=[2], **given).fit(frame[["lon", "lat", "height"]].to_numpy(), y)
    np.testing.assert_allclose(named.trend_.coef, by_index.trend_.coef, rtol=1e-8)
    with pytest.raises(InputError, match="X has no column 'depth', known: lon, height, lat"):
        GPRegressor(metric="sphere", trend=["depth"], **given).fit(frame, y)
