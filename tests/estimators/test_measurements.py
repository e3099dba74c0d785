"""Rows whose y is the mean of several measurements: weights that count no equal rows, averages, robust fits."""

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, NearestNeighborsGPRegressor, SpectralGPRegressor
from lmgp.data import Floats, Rows, check_rows

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


def test_rows_leave_a_robust_fit() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(0.0, 9.0, (300, 2))
    y = waves(X) + 0.1 * rng.standard_t(2, size=300)
    model = NearestNeighborsGPRegressor(32, kernel=KERNEL, noise_variance=0.01, noise="robust").fit(X, y)
    assert len(model.forget(X[:3], y[:3]).loo_.y) == 297


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
