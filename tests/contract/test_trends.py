"""The contract of all regressors with a trend."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    MaternKernel,
    NystroemFeatures,
    RandomFourierFeatures,
    SpectralGPRegressor,
)
from lmgp.errors import InputError
from tests.conftest import GIVEN, every_class, every_regressor, make, near, predictions
from tests.conftest import draw_normal as draw

SLOPES = np.array([3.0, -1.0, 0.5])


def tilted() -> tuple[np.ndarray, np.ndarray]:
    X, y = draw(60)
    return X, y + X @ SLOPES


def test_scikit_learn_checks() -> None:
    # Not "linear": some of these tables have more columns than rows.
    check_estimator(ExactGPRegressor(GaussianKernel(4.0, 1.5), 0.1, trend=[0]), on_skip=None)


@every_class
def test_the_default_is_a_constant(regressor: type) -> None:
    X, y = tilted()
    assert regressor().get_params()["trend"] == "constant"
    model = regressor(**GIVEN)
    assert not hasattr(model, "trend_")
    assert model.fit(X, y).trend_ is None


@every_regressor
@pytest.mark.parametrize("trend", ["linear", [2, 0], np.array([1]), []])
def test_clones_and_edits_nothing(name: str, trend) -> None:
    X, y = tilted()
    before = copy.deepcopy(trend)
    model = make(name, trend=trend)
    assert model.trend is trend
    np.testing.assert_array_equal(clone(model).trend, trend)
    mean, std = predictions(model.fit(X, y), X)
    assert model.trend is trend
    np.testing.assert_array_equal(trend, before)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0)
    np.testing.assert_allclose(model.predict(X), mean, rtol=0, atol=1e-8)
    expected = [0, 1, 2] if isinstance(trend, str) else trend
    assert model.trend_.names == tuple(f"x{i}" for i in expected)
    assert model.trend_.coef.shape == model.trend_.coef_error.shape == (len(expected),)
    assert np.all(model.trend_.coef_error > 0)


@every_regressor
def test_a_tilt_of_the_targets_tilts_the_predictions(name: str) -> None:
    """Whatever plane is added to y comes back, near the rows and far from them, and no interval changes."""
    X, y = draw(60)
    T = np.concatenate((X[:5], X[:5] + 40.0))
    level = make(name, trend="linear").fit(X, y)
    tilted = make(name, trend="linear").fit(X, 7.0 + y + X @ SLOPES)
    (mean, std), (flat_mean, flat_std) = predictions(tilted, T), predictions(level, T)
    np.testing.assert_allclose(mean, 7.0 + flat_mean + T @ SLOPES, **near(name, 0.0, 1e-6))
    np.testing.assert_allclose(std, flat_std, **near(name, 1e-6))
    np.testing.assert_allclose(tilted.trend_.coef, level.trend_.coef + SLOPES, **near(name, 0.0, 1e-7))
    np.testing.assert_allclose(tilted.trend_.intercept, level.trend_.intercept + 7.0, **near(name, 0.0, 1e-6))
    # Far from the rows, the trend is all that is known.
    np.testing.assert_allclose(std[5:] > 1.5 * np.sqrt(GIVEN["kernel"].variance), True)


@every_regressor
def test_units_change_nothing(name: str) -> None:
    X, y = tilted()
    if "sklearn" in name:
        pytest.skip("scikit-learn's Nyström map has a lengthscale of its own")
    units, shift = np.array([1e3, 1.0, 1e-3]), np.array([1e4, -3.0, 0.0])
    plain = make(name, trend="linear").fit(X, y)
    kernel = GaussianKernel(1.2 * units, 1.5 * 100.0)
    scaled = make(name, trend="linear", kernel=kernel, noise_variance=0.1 * 100.0).fit(shift + X * units, 10.0 * y)
    np.testing.assert_allclose(
        predictions(scaled, shift + X * units), 10.0 * predictions(plain, X), **near(name, 1e-5, 1e-5)
    )
    np.testing.assert_allclose(scaled.trend_.coef * units, 10.0 * plain.trend_.coef, **near(name, 1e-4))
    np.testing.assert_allclose(scaled.trend_.coef_error * units, 10.0 * plain.trend_.coef_error, **near(name, 1e-4))


@every_regressor
def test_columns_by_name(name: str) -> None:
    X, y = tilted()
    frame = pd.DataFrame(X, columns=["north", "east", "height"])
    named = make(name, trend=["height", "north"]).fit(frame, y)
    assert named.trend_.names == ("height", "north")
    expected = predictions(make(name, trend=[2, 0]).fit(X, y), X)
    np.testing.assert_allclose(predictions(named, frame), expected, rtol=1e-10)
    with pytest.raises(InputError, match="no column 'hight', did you mean 'height'"):
        make(name, trend=["hight"]).fit(frame, y)


@every_class
@pytest.mark.parametrize("trend", ["quadratic", None, 3, {"a": 1}])
def test_what_is_no_trend(regressor: type, trend) -> None:
    X, y = tilted()
    with pytest.raises(ValueError, match=r"The 'trend' parameter of \w+ must be .*'constant'|trend must"):
        regressor(**GIVEN, trend=trend).fit(X, y)


@every_class
def test_what_is_no_column(regressor: type) -> None:
    X, y = tilted()
    refused = ([3], "X has columns 0 to 2; got 3"), (["a"], "X has no names"), ([0, 0], "each column once")
    for trend, message in refused:
        with pytest.raises(InputError, match=message):
            regressor(**GIVEN, trend=trend).fit(X, y)
    with pytest.raises(InputError, match=r"A trend of 3 columns has 4 coefficients, and needs more rows.*got 4"):
        regressor(**GIVEN, trend="linear").fit(X[:4], y[:4])


@every_regressor
def test_copies_and_constants_among_the_columns(name: str) -> None:
    X, y = tilted()
    X[:, 1] = 4.0
    X[:, 2] = 2.0 * X[:, 0]
    model = make(name, trend="linear").fit(X, y)
    assert np.all(np.isfinite(predictions(model, X)))
    assert model.trend_.coef[1] == 0.0
    assert model.trend_.coef[0] == pytest.approx(2.0 * model.trend_.coef[2], rel=1e-8)


@every_regressor
def test_weights_are_repetitions(name: str) -> None:
    if any(part in name for part in ("maclaurin", "nystroem", "nearest", "residual")):
        pytest.skip("repeated rows make another map, or other neighbours")
    X, y = tilted()
    counts = np.random.default_rng(1).integers(0, 4, 60)
    weighted = make(name, trend="linear").fit(X, y, sample_weight=counts)
    repeated = make(name, trend="linear").fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(predictions(weighted, X), predictions(repeated, X), **near(name, 1e-6, 1e-7))
    np.testing.assert_allclose(weighted.trend_.covariance, repeated.trend_.covariance, **near(name, 1e-6))


@every_regressor
def test_copies_of_a_model_and_the_seed(name: str) -> None:
    X, y = tilted()
    model = make(name, trend="linear", random_state=3).fit(X, y)
    twin = pickle.loads(pickle.dumps(model))
    expected = predictions(model, X)
    np.testing.assert_array_equal(predictions(twin, X), expected)
    np.testing.assert_array_equal(predictions(make(name, trend="linear", random_state=3).fit(X, y), X), expected)


@every_regressor
def test_noise_is_added_to_the_variance(name: str) -> None:
    X, y = tilted()
    model = make(name, trend="linear").fit(X, y)
    std, noisy = (model.predict(X, return_std=True, include_noise=noise)[1] for noise in (False, True))
    np.testing.assert_allclose(noisy**2 - std**2, model.noise_variance_, rtol=1e-10)


def test_beside_a_trend_a_weighted_row_is_left_out_as_it_is_forgotten() -> None:
    """What a map leaves out of a row is noise of that row, divided by its weight as the noise is."""
    rng = np.random.default_rng(0)
    X, weights = rng.uniform(0.0, 6.0, (60, 2)), rng.uniform(0.3, 5.0, 60)
    y = np.sin(X).sum(axis=1) + 0.05 * rng.normal(size=60)
    model = FeaturizedGPRegressor(
        NystroemFeatures(12), kernel=MaternKernel(1.5), noise_variance=0.003, random_state=0, trend="linear"
    ).fit(X, y, sample_weight=weights)
    for i in range(0, 60, 7):
        without = copy.copy(model).forget(X[[i]], y[[i]], sample_weight=weights[[i]])
        mean, std = without.predict(X[[i]], return_std=True)
        np.testing.assert_allclose(model.loo_.mean[i], mean[0], rtol=1e-8)
        np.testing.assert_allclose(model.loo_.std[i], np.hypot(std[0], (0.003 / weights[i]) ** 0.5), rtol=1e-8)


@pytest.mark.parametrize("kind", ["featurized", "spectral"])
def test_rows_that_are_left_may_not_determine_a_slope(kind: str) -> None:
    """Of sums, rounding would decide about it: the trend does not change along what they do not tell."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 4.0, (120, 2))
    C = np.column_stack((np.full(40, 1.3), X[:40, 1]))
    y, of_C = (3.0 + 2.0 * rows[:, 0] + np.sin(rows).sum(axis=1) + 0.1 * rng.normal(size=len(rows)) for rows in (X, C))
    given = {"kernel": GaussianKernel(1.0), "noise_variance": 0.05, "trend": "linear"}
    model = (
        FeaturizedGPRegressor(RandomFourierFeatures(40), random_state=0, **given)
        if kind == "featurized"
        else SpectralGPRegressor(**given)
    )
    alone = clone(model).fit(X, y).with_rows(C, of_C)
    left = clone(model).fit(np.vstack((X, C)), np.concatenate((y, of_C))).forget(X, y)
    T = X[:5] + 0.01
    for one, other in zip(alone.predict(T, return_std=True), left.predict(T, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4)
    cov = alone.predict(T, return_cov=True)[1]
    assert 0.0 < np.diag(cov).min() <= np.diag(cov).max() < 10.0
    assert np.isfinite(alone.trend_.coef_error).all()
