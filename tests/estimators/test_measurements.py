"""Rows whose y is the mean of several measurements: weights that count no equal rows, averages, robust fits."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    ResidualGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.data import Floats, Rows, check_rows
from lmgp.errors import InputError

KERNEL = GaussianKernel(1.5)


def waves(X: Floats) -> Floats:
    return np.sin(X[:, 0]) + np.cos(X[:, -1])


def repeated(n_places: int, times: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    X = np.repeat(rng.uniform(0.0, 10.0, (n_places, 2)), times, axis=0)
    return X, waves(X) + rng.normal(size=len(X))


@pytest.mark.parametrize("noise", ["auto", "student", "robust"])
def test_averages_tell_the_noise_of_one_measurement(noise: str) -> None:
    rng = np.random.default_rng(0)
    X, y = repeated(120, 10, rng)
    new = rng.uniform(0.0, 10.0, (500, 2))
    given = {"kernel": KERNEL, "noise_variance": 1.0, "noise": noise}
    kept, averaged = (
        GPRegressor(**given).fit(X, y, duplicates=way).predict_distribution(new).std() for way in ("keep", "average")
    )
    assert averaged.mean() == pytest.approx(kept.mean(), rel=0.15)


def test_scales_of_several_targets_are_those_of_single_measurements() -> None:
    rng = np.random.default_rng(1)
    X = np.repeat(rng.uniform(0.0, 10.0, (60, 1)), 10, axis=0)
    Y = np.column_stack((np.sin(X[:, 0]), 5.0 * np.cos(X[:, 0]))) + rng.normal(size=(600, 2)) * [0.3, 1.5]
    kept, averaged = (
        ExactGPRegressor(random_state=0).fit(X, Y, duplicates=way).noise_variances_ for way in ("keep", "average")
    )
    np.testing.assert_allclose(averaged, kept, rtol=0.5)  # 60 places tell a variance within a fifth


def test_calibration_takes_weights_as_a_fit_does() -> None:
    rng = np.random.default_rng(2)
    X, weights = rng.uniform(0.0, 9.0, (600, 1)), rng.uniform(20.0, 30.0, 400)
    y = np.sin(X[:, 0]) + rng.normal(size=600) / np.append(np.ones(200), np.sqrt(weights))
    model = ExactGPRegressor(KERNEL, 1.0, noise="student").fit(X[:200], y[:200])
    model.calibrate(X[200:], y[200:], sample_weight=weights)
    assert model.noise_.student.scale == pytest.approx(1.0, abs=0.15)


def test_a_robust_fit_knows_the_precision_of_its_rows() -> None:
    rng = np.random.default_rng(3)
    X, weights = rng.uniform(0.0, 9.0, (400, 1)), rng.uniform(20.0, 30.0, 400)
    y = np.sin(X[:, 0]) + rng.standard_t(3, size=400) / np.sqrt(weights)
    plain, robust = (
        ExactGPRegressor(KERNEL, 1.0, noise=noise).fit(X, y, sample_weight=weights) for noise in ("student", "robust")
    )
    widths = [np.diff(model.predict_interval(X[:50], level=0.5), axis=0).mean() for model in (plain, robust)]
    assert widths[1] == pytest.approx(widths[0], rel=0.25)


def test_a_robust_fit_that_is_calibrated_is_a_robust_fit() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 9.0, (600, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_t(3.0, size=600)
    model = ExactGPRegressor(KERNEL, 0.01, noise="robust").fit(X[:300], y[:300]).calibrate(X[300:], y[300:])
    assert {trial.noise for trial in model.noise_} == {"robust normal", "robust student", "robust varying"}
    # Its noise variance is the squared scale of a t, and smaller than the variance of the noise.
    lines = [line for line in str(model).splitlines() if line.startswith("noise")]
    told = float(lines[0].rpartition(" ")[2])
    assert lines == [f"noise         scale 0.1 of a t, standard deviation {told:g}"]
    assert told == pytest.approx(np.std(y - np.sin(X[:, 0])), rel=0.25)


def test_rows_leave_a_robust_fit() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(0.0, 9.0, (300, 2))
    y = waves(X) + 0.1 * rng.standard_t(2, size=300)
    model = NearestNeighborsGPRegressor(32, kernel=KERNEL, noise_variance=0.01, noise="robust").fit(X, y)
    assert len(model.forget(X[:3], y[:3]).loo_.y) == 297


def with_outliers() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(5)
    X = rng.uniform(0.0, 9.0, (150, 1))
    y = np.sin(X[:, 0]) + 0.05 * rng.standard_t(3, size=150)
    y[:10] += 3.0
    return X, y


GIVEN: dict[str, Any] = {"kernel": KERNEL, "noise_variance": 0.0025, "noise": "robust"}
KEPT: dict[str, Any] = {
    "nearest": NearestNeighborsGPRegressor(150, **GIVEN),
    "nearest, trend": NearestNeighborsGPRegressor(150, **GIVEN, trend="linear"),
    "residual": ResidualGPRegressor(NystroemFeatures(8, random_state=0), 150, block_size=150, **GIVEN),
    "localized": LocalizedGPRegressor(TaylorFeatures(30), **GIVEN),
    "spectral": SpectralGPRegressor(1e-7, **GIVEN),
}


@pytest.mark.parametrize("name", KEPT)
def test_rows_leave_a_robust_fit_with_the_weights_that_it_gave_them(name: str) -> None:
    (X, y), new = with_outliers(), np.linspace(0.5, 8.5, 20)[:, None]
    model = clone(KEPT[name]).fit(X, y)
    weights = model._posterior().rows.weights
    assert weights[:10].max() < 0.1
    before, center = np.array(model.predict(new, return_std=True)), model.center_
    assert center == pytest.approx(np.average(y, weights=weights), rel=1e-12)
    model.forget(keep=10**9)
    np.testing.assert_allclose(model.predict(new, return_std=True), before, rtol=0, atol=1e-9)
    assert model.center_ == pytest.approx(center, rel=1e-12)
    model.forget(X[5:20], y[5:20]).forget(keep=130)
    left = np.append(np.arange(5), np.arange(20, 150))[-130:]
    assert model._fitted.sums.targets.n == pytest.approx(weights[left].sum(), rel=1e-12)
    exact = ExactGPRegressor(KERNEL, 0.0025, trend=model.trend).fit(X[left], y[left], sample_weight=weights[left])
    assert model.center_ == pytest.approx(exact.center_, rel=1e-9)
    expected = exact.predict(new, return_std=True)
    np.testing.assert_allclose(model.predict(new, return_std=True), expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", KEPT)
def test_one_row_of_a_robust_fit_may_be_left_and_none_may_not(name: str) -> None:
    X, y = with_outliers()
    model = clone(KEPT[name]).fit(X, y)
    with pytest.raises(InputError, match="No row would be left"):
        model.forget(X, y)
    if name == "nearest, trend":  # of two coefficients
        with pytest.raises(InputError, match="needs more rows than that; got 2"):
            model.forget(X[2:], y[2:])
        return
    assert model.forget(X[1:], y[1:])._fitted.sums.n_rows == 1
    assert model.center_ == pytest.approx(y[0])


def test_a_robust_fit_keeps_a_mean_that_is_known() -> None:
    model = clone(KEPT["nearest"]).fit(*with_outliers(), center=0.5)
    assert model.center_ == model.forget(keep=100).center_ == 0.5


def test_rows_leave_no_robust_fit_that_does_not_keep_them() -> None:
    X, y = with_outliers()
    model = FeaturizedGPRegressor(TaylorFeatures(30), **GIVEN).fit(X, y)
    before = model.predict(X)
    with pytest.raises(InputError, match=r"because its robust fit gave them weights .* or a model that keeps its rows"):
        model.forget(X[:10], y[:10])
    np.testing.assert_array_equal(model.predict(X), before)
    with pytest.raises(InputError, match="because its robust fit gave them weights"):
        model.partial_fit(X[:3], y[:3]).forget(X[:3], y[:3])
    other = model.with_rows(X, y)
    assert other.forget(X[:3], y[:3])._fitted.sums.n_rows == 147
    twice = np.vstack((X, X[:9])), np.append(y, y[:9])
    averaged = FeaturizedGPRegressor(TaylorFeatures(30), kernel=KERNEL).fit(*twice, duplicates="average")
    assert averaged.forget(X[20:30], y[20:30])._fitted.sums.n_rows == 140


def test_weights_beside_fractional_ones_count_no_rows() -> None:
    X, y = np.arange(4.0)[:, None], np.arange(4.0)
    whole, parts = (check_rows(X, y, weights, None) for weights in ([1.0, 2.0, 1.0, 3.0], [0.5, 2.0, 1.0, 3.0]))
    assert whole.counts is not None
    assert parts.take(slice(1, 4)).counts is None
    joined = whole.joined(parts, 1.0)
    assert joined.counts is None
    np.testing.assert_array_equal(joined.measurements, joined.weights)
    assert Rows(X, y).joined(whole, 1.0).measurements is None


def test_learning_from_sums_counts_rows_as_learning_from_rows_does() -> None:
    rng = np.random.default_rng(6)
    X = rng.uniform(0.0, 20.0, (800, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=800)
    for chunk_rows in (None, 300):
        model = SpectralGPRegressor(kernel=KERNEL, noise_variance=0.05)
        model.fit(X, y, sample_weight=np.full(800, 2.5), chunk_rows=chunk_rows)
        assert model.relearn().noise_variance_ == pytest.approx(0.025, rel=0.15)
