"""Tables as they come: categories, dates, and missing values of `GPRegressor`."""

import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, load, plots
from lmgp.columns.categories import MOST_LEVELS
from lmgp.columns.dates import Dates
from lmgp.columns.effects import N_FOLDS, effects
from lmgp.columns.gaps import Gaps
from lmgp.columns.table import Columns
from lmgp.errors import ColumnWarning, InputError
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.learning.forms import WITH_CATEGORIES

GIVEN: dict[str, Any] = {"kernel": GaussianKernel(1.5), "noise_variance": 0.1, "noise": "normal"}


def table(n: int = 60, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    color = rng.choice(["blue", "green", "red"], n)
    days = rng.integers(0, 1000, n)
    df = pd.DataFrame({"size": rng.normal(size=n), "color": color, "sold": pd.Timestamp("2020-01-01")})
    df["sold"] += pd.to_timedelta(days, unit="D")
    y = df["size"] + np.where(color == "red", 2.0, -1.0) + np.sin(2.0 * np.pi * days / 365.2425)
    return df, (y + 0.1 * rng.normal(size=n)).to_numpy()


def read(X: Any, **given: Any) -> Columns:
    found = Columns.of(X, given or None, "impute")
    assert found is not None
    return found


def values(columns: Columns, X: Any) -> np.ndarray:
    return columns.checked(X, np.asarray)


def squared_distances(coordinates: np.ndarray) -> np.ndarray:
    return np.square(coordinates[:, None] - coordinates).sum(axis=2)


# ---------------------------------------------------------------------------------------------------------- categories


@pytest.mark.parametrize("n_levels", [2, 3, 7])
def test_categories_are_equally_far_from_each_other_and_from_a_new_one(n_levels: int) -> None:
    known = pd.DataFrame({"c": [f"level {j}" for j in range(n_levels)] * 2})
    columns = read(known)
    some = pd.concat([known[:n_levels], pd.DataFrame({"c": ["another"]})])
    distances = squared_distances(columns.coordinates(values(columns, some)))
    np.testing.assert_allclose(distances, n_levels * (1.0 - np.eye(n_levels + 1)), atol=1e-12)


def test_a_missing_category_is_a_level_where_training_rows_lack_it_and_new_elsewhere() -> None:
    complete = pd.DataFrame({"c": ["a", "b", "a", "b"]})
    lacking = pd.DataFrame({"c": ["a", "b", None, "b", None]})
    columns = read(lacking)
    coordinates = columns.coordinates(values(columns, lacking))
    assert coordinates.shape == (5, 3)
    np.testing.assert_array_equal(coordinates[2], coordinates[4])
    assert columns.coordinate_names == ("c: b against those before", "c: missing against those before", "c is new")
    of_complete = read(complete)
    unknown = of_complete.coordinates(values(of_complete, pd.DataFrame({"c": [None, "z"]})))
    np.testing.assert_array_equal(unknown[0], unknown[1])


def test_predictions_are_those_of_dense_algebra() -> None:
    """One correlation for any two categories, times that of the numbers; a new category has it with all others."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"size": rng.normal(size=40), "color": rng.choice(["a", "b", "c"], 40)})
    y = rng.normal(size=40)
    model = GPRegressor(**GIVEN).fit(X, y)
    new = pd.DataFrame({"size": [0.3, -0.2], "color": ["b", "never seen"]})

    def kernel(left: pd.DataFrame, right: pd.DataFrame) -> np.ndarray:
        square = np.square(left["size"].to_numpy()[:, None] - right["size"].to_numpy())
        unlike = left["color"].to_numpy()[:, None] != right["color"].to_numpy()
        return np.asarray(np.exp(-0.5 * (square + 3.0 * unlike) / 1.5**2))

    solved = np.linalg.solve(kernel(X, X) + 0.1 * np.eye(40), np.column_stack((y - y.mean(), kernel(X, new))))
    mean, std = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, y.mean() + kernel(new, X) @ solved[:, 0], rtol=1e-10)
    variance = 1.0 - np.einsum("ij,ji->i", kernel(new, X), solved[:, 1:])
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-8)


def test_numbers_may_be_categories_and_text_numbers() -> None:
    df = pd.DataFrame({"zip": [101.0, 202.0, 303.0] * 10, "size": np.linspace(0.0, 1.0, 30).astype(str)})
    y = np.arange(30.0)
    assert GPRegressor(**GIVEN).fit(df, y).columns_ is None
    model = GPRegressor(columns={"zip": "category"}, **GIVEN).fit(df, y)
    assert str(model.columns_).splitlines() == ["zip   3 categories", "size  numbers"]
    by_place = GPRegressor(columns={0: "category"}, **GIVEN).fit(df.to_numpy(), y)
    np.testing.assert_allclose(by_place.predict(df.to_numpy()), model.predict(df))


@pytest.mark.parametrize("kind", ["int64", "float64", "Int64", "float32", "category", "int8"])
def test_a_number_is_one_category_of_whatever_type_its_column_is(kind: str) -> None:
    df = pd.DataFrame({"zip": [1, 20, 3] * 10})
    y = np.arange(30.0) % 7.3
    model = GPRegressor(columns={"zip": "category"}, **GIVEN).fit(df, y)
    np.testing.assert_array_equal(model.predict(df.astype({"zip": kind})), model.predict(df))
    again = GPRegressor(columns={"zip": "category"}, **GIVEN).fit(df.astype({"zip": kind}), y)
    np.testing.assert_array_equal(again.predict(df), model.predict(df))


@pytest.mark.slow
def test_learned_categories_share_one_lengthscale_and_predict_rows_to_come() -> None:
    X, y = table(260)
    model = GPRegressor(random_state=0, noise="normal").fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) > 0.9
    lengthscales = model.kernel_.metric(len(model._names()))
    of_colors = [str(name).startswith("color") for name in model._names()]
    assert sum(of_colors) == 3
    np.testing.assert_allclose(lengthscales[of_colors], lengthscales[of_colors][0])
    assert model.learning_.chosen.kernel == WITH_CATEGORIES
    assert model.importance_.shape == (3,)
    assert model.importance_[1] > 0.5
    elsewhere = X[200:].assign(color="black")
    known, unknown = (model.predict(rows, return_std=True)[1].mean() for rows in (X[200:], elsewhere))
    assert unknown > 2.0 * known


def test_categories_alone_are_learned_without_a_trend() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"color": rng.choice(["blue", "red"], 60)})
    y = (X["color"] == "red") + 0.3 * rng.normal(size=60)
    model = GPRegressor(random_state=0, average=False, noise="normal").fit(X, y)
    assert model.trend_ is None
    means = [y[X["color"] == color].mean() for color in ("blue", "red")]
    np.testing.assert_allclose(model.predict(pd.DataFrame({"color": ["blue", "red"]})), means, atol=0.05)


def test_files_and_clones_read_columns_as_the_model_does(tmp_path: Path) -> None:
    X, y = table()
    X.loc[::7, "size"] = np.nan
    model = GPRegressor(missing="impute", random_state=0, **GIVEN).fit(X, y)
    model.save(tmp_path / "model.lmgp")
    again = load(tmp_path / "model.lmgp")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert str(again.columns_) == str(model.columns_)
    np.testing.assert_allclose(clone(model).fit(X, y).predict(X), model.predict(X))


@pytest.mark.slow
def test_robust_fits_and_folds_keep_the_columns_of_all_rows() -> None:
    X, y = table(150)
    X.loc[0, "color"] = "black"  # which is in one fold alone
    y = np.where(np.arange(150) % 15 == 0, y + 8.0, y)
    model = GPRegressor(noise="robust", random_state=0).fit(X, y)
    assert model.n_features_in_ == 3
    assert np.isfinite(model.predict(X)).all()


def test_places_on_the_sphere_stand_beside_categories() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"kind": rng.choice(["a", "b"], 50), "lat": rng.uniform(-60, 60, 50)})
    X["lon"] = rng.uniform(-180, 180, 50)
    y = rng.normal(size=50)
    kernel = GaussianKernel(1000.0)
    model = GPRegressor(kernel=kernel, noise_variance=0.1, noise="normal", metric="sphere").fit(X, y)
    assert tuple(model._names()) == ("x_km", "y_km", "z_km", "kind: b against those before", "kind is new")
    turned = X.assign(lon=X["lon"] + np.where(X["lon"] < 0.0, 360.0, 0.0))
    np.testing.assert_allclose(model.predict(turned), model.predict(X), rtol=1e-8)


# ----------------------------------------------------------------------------------------------------- many categories


def grouped(n: int, n_levels: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = np.append(np.arange(n_levels), rng.integers(n_levels, size=n - n_levels))
    effect = 1.5 * rng.normal(size=n_levels)
    return codes, effect[codes] + 0.5 * rng.normal(size=n), effect


def test_effects_are_the_posterior_means_of_a_random_effects_model() -> None:
    codes, y, truth = grouped(400, 50, 0)
    found = effects(y, codes, 50, np.arange(400), np.ones(400))
    groups = pd.Series(y).groupby(codes)
    error = float(((y - groups.mean()[codes]) ** 2).sum() / 350)
    variance = found.deviations[-1] ** 2  # of a category without rows
    assert variance == pytest.approx(np.var(truth), rel=0.2)
    assert error == pytest.approx(0.25, rel=0.2)
    Z = np.eye(50)[codes]
    dense = np.linalg.solve(variance * Z @ Z.T + error * np.eye(400), np.column_stack((y - y.mean(), variance * Z)))
    np.testing.assert_allclose(found.means[:-1], variance * Z.T @ dense[:, 0], rtol=1e-8)
    left = variance - variance * np.einsum("ij,ij->j", Z, dense[:, 1:])
    np.testing.assert_allclose(found.deviations[:-1] ** 2, left, rtol=1e-8)
    assert found.means[-1] == 0.0


def test_effects_count_rows_by_their_weights() -> None:
    codes, y, _ = grouped(400, 50, 0)
    counts = np.random.default_rng(1).integers(1, 4, 400)
    weighted = effects(y, codes, 50, np.arange(400), counts.astype(float))
    copies = effects(np.repeat(y, counts), np.repeat(codes, counts), 50, np.arange(counts.sum()), np.ones(counts.sum()))
    np.testing.assert_allclose(weighted.means, copies.means, rtol=1e-9)
    np.testing.assert_allclose(weighted.deviations, copies.deviations, rtol=1e-9)


def test_targets_that_their_categories_say_have_effects() -> None:
    """Sums of squares differ by rounding alone."""
    codes = np.arange(180) % 60
    for seed in range(20):
        y = np.round(np.random.default_rng(seed).normal(100.0, 20.0, 60), 2)[codes]
        found = effects(y, codes, 60, np.arange(180), np.ones(180))
        np.testing.assert_allclose(found.means[:60], (y - y.mean())[:60], atol=1e-9)
        assert np.isfinite(found.deviations).all()


def test_the_effect_of_a_training_row_does_not_know_its_target() -> None:
    rng = np.random.default_rng(0)
    codes, noise = np.repeat(np.arange(1000), 3), rng.normal(size=3000)
    y = noise + rng.normal(size=1000)[codes]
    changed = y.copy()
    changed[5] += 1e-3
    before, after = (effects(of, codes, 1000, np.arange(3000), np.ones(3000)) for of in (y, changed))
    # Rows of the same category in other folds know it; it moves the row itself by the estimated variances alone.
    assert abs(after.of_rows[5, 0] - before.of_rows[5, 0]) < 1e-5
    assert after.means[codes[5]] - before.means[codes[5]] > 1e-4
    assert np.corrcoef(before.of_rows[:, 0], noise)[0, 1] < 0.05 < np.corrcoef(before.means[codes], noise)[0, 1]
    assert N_FOLDS > 1


@pytest.mark.slow
def test_thousands_of_categories_are_predicted_nearly_as_well_as_their_rows_allow() -> None:
    rng = np.random.default_rng(0)
    codes, _, effect = grouped(2400, 400, 1)
    x = rng.uniform(0.0, 6.0, 2400)
    mean = np.sin(x) + effect[codes]
    y = mean + 0.3 * rng.normal(size=2400)
    X = pd.DataFrame({"x": x, "id": np.char.add("id ", codes.astype(str))})
    model = GPRegressor(kernel="gaussian", random_state=0, noise="normal", ard=True).fit(X[:2000], y[:2000])
    assert str(model.columns_).splitlines()[1].startswith("id  400 categories: the effect of each")
    error = np.sqrt(np.mean(np.square(model.predict(X[2000:]) - mean[2000:])))
    assert error < 1.3 * np.sqrt(np.mean(0.09 / (np.bincount(codes[:2000], minlength=400)[codes[2000:]] + 0.04)))
    known, unknown = (
        model.predict(rows, return_std=True, include_noise=True)[1].mean() for rows in (X[:5], X[:5].assign(id="new"))
    )
    assert unknown > known


@pytest.mark.slow
def test_intervals_of_unseen_categories_contain_the_variation_between_categories() -> None:
    codes, y, effect = grouped(600, 40, 0)
    other = np.arange(600) % 37
    X = pd.DataFrame({"id": np.char.add("id ", codes.astype(str)), "other": np.char.add("o ", other.astype(str))})
    model = GPRegressor(kernel="matern32", average=False, random_state=0).fit(X, y)
    new = X[:40].assign(id="new")
    _, std, covariance = model.predict(new, return_std=True, return_cov=True)
    np.testing.assert_allclose(std, effect.std(), rtol=0.25)
    np.testing.assert_allclose(model.predict(new, return_std=True)[1], std, rtol=1e-8)
    # Rows of one unseen category share its effect, and draws have the covariance that is stated.
    assert covariance[0, 1] > 0.8 * covariance[0, 0]
    drawn = model.sample_y(new, 4000)
    np.testing.assert_allclose(drawn.std(axis=1), std, rtol=0.1)
    np.testing.assert_allclose(np.cov(drawn), covariance, atol=0.1 * covariance[0, 0])
    both = model.predict(new.assign(other="o new"), return_std=True)[1]
    assert np.all(model.predict(X[:40], return_std=True)[1] < 0.5 * std)
    assert np.all(both > 0.99 * std)


@pytest.mark.slow
def test_calibration_on_unseen_categories_knows_the_variation_between_categories() -> None:
    codes, y, effect = grouped(600, 40, 0)
    X = pd.DataFrame({"id": np.char.add("id ", codes.astype(str))})
    model = GPRegressor(kernel="matern32", average=False, random_state=0).fit(X, y)
    rng = np.random.default_rng(1)
    later = effect.std() * rng.normal(size=400) + 0.3 * rng.normal(size=400)
    ids, weights = np.char.add("new ", np.arange(400).astype(str)), np.arange(400) % 3 > 0
    model.calibrate(pd.DataFrame({"id": ids}), y.mean() + later, sample_weight=weights.astype(float))
    std = model.predict(X[:1].assign(id="other"), return_std=True, include_noise=True)[1]
    assert std[0] == pytest.approx(later[weights].std(), rel=0.2)


def test_many_categories_are_of_one_target() -> None:
    codes, y, _ = grouped(100, MOST_LEVELS + 1, 0)
    X = pd.DataFrame({"x": np.linspace(0.0, 1.0, 100), "id": np.char.add("id ", codes.astype(str))})
    with pytest.raises(InputError, match=r"for one target; got 2\. Use lmgp\.estimators\.MultiTargetGPRegressor"):
        GPRegressor(**GIVEN).fit(X, np.column_stack((y, y)))
    model = MultiTargetGPRegressor(GPRegressor(**GIVEN)).fit(X, np.column_stack((y, y**2)))
    np.testing.assert_allclose(model.predict(X)[:, 1], GPRegressor(**GIVEN).fit(X, y**2).predict(X))


# --------------------------------------------------------------------------------------------------------------- dates


def test_dates_are_days_and_places_in_the_periods_that_they_show() -> None:
    daily = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=1000)})
    assert read(daily).coordinate_names == (
        "when", "when in the week, cos", "when in the week, sin", "when in the year, cos", "when in the year, sin",
    )  # fmt: skip
    hourly = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=100, freq="h")})
    assert read(hourly).coordinate_names == ("when", "when in the day, cos", "when in the day, sin")
    monthly = pd.DataFrame({"when": pd.date_range("2000-01-01", periods=100, freq="MS")})
    assert read(monthly).coordinate_names == ("when", "when in the year, cos", "when in the year, sin")
    columns = read(daily)
    coordinates = columns.coordinates(values(columns, daily))
    np.testing.assert_array_equal(coordinates[:, 0], np.arange(1000.0))
    np.testing.assert_allclose(coordinates[7, 1:3], coordinates[0, 1:3], atol=1e-12)
    np.testing.assert_allclose(coordinates[:, 3], np.cos(2.0 * np.pi * np.arange(1000) / 365.2425))
    assert str(columns) == "when  dates, as days since 2020-01-01, and the time of the week and of the year"


@pytest.mark.parametrize("kind", ["text", "objects", "periods", "zone"])
def test_dates_of_every_type_are_those_of_times(kind: str) -> None:
    times = pd.Series(pd.date_range("2020-01-01", periods=60))
    others = {
        "text": times.astype(str),
        "objects": times.dt.date,
        "periods": times.dt.to_period("D"),
        "zone": times.dt.tz_localize("UTC"),
    }
    y = np.arange(60.0) % 7
    expected = GPRegressor(**GIVEN).fit(pd.DataFrame({"when": times}), y).predict(pd.DataFrame({"when": times}))
    other = pd.DataFrame({"when": others[kind]})
    np.testing.assert_allclose(GPRegressor(**GIVEN).fit(other, y).predict(other), expected)


@pytest.mark.parametrize(
    ("end", "zoned"),
    [("", False), (" ", False), ("Z", None), ("+00", None), ("-00:00", None), ("+02", True), ("-0530", True)],
)
def test_the_zone_of_a_text_is_its_end(end: str, zoned: bool | None) -> None:
    texts = pd.DataFrame({"when": [f" 2024-06-{day:02}T12:00:00.5{end}" for day in range(1, 31)]})
    columns = Columns.of(texts)
    assert columns is not None
    assert isinstance(columns.kinds[0], Dates)
    assert columns.kinds[0].zoned is zoned


def test_times_with_and_without_a_zone_are_told_apart() -> None:
    local = pd.date_range("2024-06-01", periods=60, freq="h")
    rows = {
        "none": pd.DataFrame({"when": local}),
        "zone": pd.DataFrame({"when": local.tz_localize("Europe/Berlin")}),
        "text": pd.DataFrame({"when": [f"{one.isoformat()}+02:00" for one in local]}),
        "objects": pd.DataFrame({"when": pd.Series(local.tz_localize("Europe/Berlin"), dtype=object)}),
    }
    y = np.sin(2.0 * np.pi * local.hour / 24.0)
    for of_fit, fitted in rows.items():
        model = GPRegressor(**GIVEN).fit(fitted, y)
        for of_rows, new in rows.items():
            if (of_fit == "none") == (of_rows == "none"):
                np.testing.assert_allclose(model.predict(new), model.predict(fitted))
                continue
            told = "no zone, .*; the training rows had one" if of_rows == "none" else "a zone, .* rows had none"
            with pytest.warns(ColumnWarning, match=f"The times of column 'when' of X have {told}") as warned:
                model.predict(new)
            assert "pd.to_datetime(...).dt.tz_localize(...)" in str(warned[0].message)  # which suits text, too
    # Times that are made of numbers, as those of figures, are in UTC.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plots.band(GPRegressor(**GIVEN).fit(rows["zone"], y), rows["zone"], y)
    with pytest.raises(InputError, match="Some times of column 'when' of X have a zone, and others none"):
        GPRegressor(**GIVEN).fit(pd.concat([rows["text"], rows["none"].astype(str)]), [*y, *y])


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (range(1950, 2010), r"read as years, .*pd.to_datetime\(..., format='%Y'\)"),
        ([year * 100 + month for year in range(2015, 2020) for month in range(1, 13)], "read as months, .*'%Y%m'"),
        ([True, False] * 30, "has dates; got something else"),
    ],
)
def test_numbers_that_count_no_days_are_no_dates(numbers: Iterable[int], message: str) -> None:
    days = GPRegressor(columns={"when": "date"}, **GIVEN).fit(pd.DataFrame({"when": range(1950, 2250)}), np.ones(300))
    assert np.isfinite(days.predict(pd.DataFrame({"when": [2000]}))).all()
    with pytest.raises(InputError, match=message):
        GPRegressor(columns={"when": "date"}, **GIVEN).fit(pd.DataFrame({"when": numbers}), np.ones(60))


@pytest.mark.slow
def test_a_season_of_dates_goes_on_after_the_last_one() -> None:
    when = pd.DataFrame({"when": pd.date_range("2010-01-01", periods=140, freq="MS")})
    rng = np.random.default_rng(0)
    mean = 3.0 * np.sin(2.0 * np.pi * (when["when"].dt.day_of_year / 365.25)).to_numpy()
    y = mean + 0.3 * rng.normal(size=140)
    model = GPRegressor(random_state=0).fit(when[:100], y[:100])
    assert np.sqrt(np.mean(np.square(model.predict(when[100:]) - mean[100:]))) < 0.6


# ------------------------------------------------------------------------------------------------------ missing values


def correlated(n: int, seed: int = 0) -> np.ndarray:
    root = np.array([[2.0, 0.0, 0.0], [1.5, 1.0, 0.0], [-3.0, 4.0, 2.0]])
    return np.random.default_rng(seed).normal(size=(n, 3)) @ root.T + [10.0, -5.0, 0.0]


def test_gaps_are_filled_by_the_normal_distribution_of_complete_rows() -> None:
    X = correlated(1500)
    gaps = Gaps.of(X)
    mean, covariance = X.mean(axis=0), np.cov(X.T, bias=True)
    covariance *= np.where(np.eye(3) > 0.0, 1.0, 1500.0 / 1503.0)  # of three more rows without correlations
    np.testing.assert_allclose(gaps.mean, mean)
    np.testing.assert_allclose(gaps.correlation * np.outer(gaps.scale, gaps.scale), covariance, rtol=1e-4)
    row = np.array([[11.0, np.nan, np.nan], [np.nan, -4.0, 3.0], [11.0, -4.0, 3.0], [np.nan] * 3])
    filled, deviations = gaps.filled(row)
    weights = covariance[1:, 0] / covariance[0, 0]
    np.testing.assert_allclose(filled[0], [11.0, *(mean[1:] + weights * (11.0 - mean[0]))], rtol=1e-4)
    left = covariance[1:, 1:] - np.outer(weights, covariance[0, 1:])
    np.testing.assert_allclose(deviations[0], [0.0, *np.sqrt(left.diagonal())], rtol=1e-4)
    known = covariance[1:, 1:]
    expected = mean[0] + covariance[0, 1:] @ np.linalg.solve(known, row[1, 1:] - mean[1:])
    assert filled[1, 0] == pytest.approx(expected, rel=1e-4)
    np.testing.assert_array_equal(filled[2], row[2])
    np.testing.assert_array_equal(deviations[2], 0.0)
    np.testing.assert_allclose(filled[3], mean)
    np.testing.assert_allclose(deviations[3], np.sqrt(covariance.diagonal()), rtol=1e-4)


def test_gaps_are_estimated_from_rows_with_gaps() -> None:
    X = correlated(2000)
    covariance = np.cov(X.T)
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    gaps = Gaps.of(X)
    found = gaps.correlation * np.outer(gaps.scale, gaps.scale)
    np.testing.assert_allclose(found, covariance, atol=0.1 * np.sqrt(np.outer(*[covariance.diagonal()] * 2)).max())
    np.testing.assert_allclose(
        np.corrcoef(correlated(2000).T), found / np.sqrt(np.outer(*[found.diagonal()] * 2)), atol=0.04
    )


def test_few_rows_of_many_columns_do_not_know_each_other() -> None:
    """Columns that say nothing of each other: expectations are near the mean, and as sure as these."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 80))
    gone = rng.random(X.shape) < 0.1
    filled, deviations = Gaps.of(np.where(gone, np.nan, X)).filled(np.where(gone, np.nan, X))
    errors = (filled - X)[gone]
    assert np.sqrt(np.mean(errors**2)) < 1.3
    assert 0.7 < np.sqrt(np.mean(np.square(errors / deviations[gone]))) < 1.6


def test_a_missing_number_is_as_far_as_it_is_on_the_average() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 3.0, 1501)
    X = np.append(x, np.nan)[:, None]
    columns = read(X)
    coordinates = columns.coordinates(values(columns, X))
    distances = np.square(coordinates[:-1] - coordinates[-1]).sum(axis=1)
    expected = np.square(x[:, None] - x).mean(axis=1)
    np.testing.assert_allclose(distances, expected, rtol=1e-3)


@pytest.mark.slow
def test_rows_with_gaps_are_learned_and_less_certain() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.05 * rng.normal(size=300)
    X[rng.random(X.shape) < 0.15] = np.nan
    with pytest.warns(ColumnWarning, match=r"missing in column 0 of X, column 1 of X.*missing='impute'"):
        model = GPRegressor(random_state=0).fit(X[:250], y[:250])
    complete, gap = np.array([[0.5, 0.5]]), np.array([[np.nan, 0.5]])
    of_gap, of_complete = (model.predict(row, return_std=True, include_noise=True)[1][0] for row in (gap, complete))
    assert of_gap > 2.0 * of_complete
    assert "missing in" in str(model.columns_)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ColumnWarning)
        GPRegressor(missing="impute", **GIVEN).fit(X, y)
    with pytest.raises(InputError, match=r"contains NaN \(missing values\) in \d+ of 300 rows of column 0 of X"):
        GPRegressor(missing="error", **GIVEN).fit(X, y)


def test_lists_are_tables_too() -> None:
    columns = read([[1.0, "a"], [None, "b"], [2.0, "a"]])
    assert str(columns).splitlines()[0] == "x0  numbers, missing in 1 row: filled by the other numbers, and marked"
    with pytest.raises(InputError, match="All 2 values of column 1 of X are missing"):
        read([[1.0, None], [2.0, None]])


def test_gaps_where_none_was_in_training_rows_are_told() -> None:
    X, y = table()
    model = GPRegressor(**GIVEN).fit(X, y)
    new = X[:3].assign(size=[0.0, np.nan, 1.0])
    with pytest.warns(ColumnWarning, match="missing in column 'size' of X, where none was missing when"):
        filled = model.predict(new)
    np.testing.assert_allclose(filled, model.predict(new.fillna({"size": X["size"].mean()})))  # of the only number


# ----------------------------------------------------------------------------------------------------------- bad input


BAD = {
    "All 60 values of column 'size' of X are missing: leave": lambda df: df.assign(size=np.nan),
    "column 'color' of X has another category in each of 60 rows: nothing can be learned from it. Leave the "
    "column out, or, if these are dates, write them as 2020-01-31": lambda df: df.assign(
        color=[f"name {i}" for i in range(60)]
    ),
    "column 'sold' of X has no date in 1 of 60 rows": lambda df: df.assign(sold=df["sold"].mask(df.index == 2)),
    "Column 'size' of X is not numeric: could not convert string to float: 'x'": lambda df: df.assign(
        size=["x", *map(str, range(59))]
    ),
    "contains infinity in 1 of 60 rows": lambda df: df.assign(size=df["size"].mask(df.index == 2, np.inf)),
    "Column 'size' of X has durations": lambda df: df.assign(size=df["sold"] - df["sold"].min()),
}


@pytest.mark.parametrize("message", BAD)
def test_what_is_no_column_is_refused(message: str) -> None:
    X, y = table()
    with pytest.raises(InputError, match=re.escape(message)):
        GPRegressor(**GIVEN).fit(BAD[message](X), y)


def test_one_category_and_one_day_are_told_or_taken() -> None:
    X, y = table()
    with pytest.warns(ColumnWarning, match=r"column 'color' of X has one category, 'red': it tells no rows apart"):
        one = GPRegressor(**GIVEN).fit(X.assign(color="red"), y)
    assert np.isfinite(one.predict(X.assign(color="red"))).all()
    day = GPRegressor(**GIVEN).fit(X.assign(sold=pd.Timestamp("2020-01-01")), y)
    assert "as days since 2020-01-01" in str(day.columns_)


def test_other_names_and_another_order_are_refused_before_a_column_is_read() -> None:
    X, y = table()
    model = GPRegressor(kernel=GaussianKernel(), noise_variance=0.1, noise="normal").fit(X, y)
    for other in (X[["sold", "color", "size"]], X.rename(columns={"size": "other"})[["color", "sold", "other"]]):
        for use in (model.predict, lambda rows: model.calibrate(rows, y)):
            with pytest.raises(InputError, match="The feature names should match"):
                use(other)


def test_parameters_of_columns_are_checked() -> None:
    X, y = table()
    with pytest.raises(
        InputError, match="columns must say 'number', 'log', 'asinh', 'category' or 'date' of each; got 'text'"
    ):
        GPRegressor(columns={"color": "text"}, **GIVEN).fit(X, y)
    with pytest.raises(InputError, match=r"columns: X has no column 'colour', .*color"):
        GPRegressor(columns={"colour": "category"}, **GIVEN).fit(X, y)
    with pytest.raises(InputError, match="Column 'color' of X is not numeric"):
        GPRegressor(columns={"color": "number"}, **GIVEN).fit(X, y)
    with pytest.raises(InputError, match="trend has the column 'color', which is one of categories"):
        GPRegressor(trend=["color"], **GIVEN).fit(X, y)
    with pytest.raises(InputError, match="has a part for categories, but no column of X is one"):
        GPRegressor(kernel="matern32+categories").fit(X[["size"]], y)
    for texts in (["31/01/2020", "1/2/2020"], ["31.1.2020", "1/2/20 9:00"], ["10%", "5 %"], ["$1,000", "$5"]):
        written = X.assign(color=np.resize(texts, len(X)))
        with pytest.raises(InputError, match=r"Column 'color' of X (has dates; got|is not numeric)"):
            GPRegressor(**GIVEN).fit(written, y)
        GPRegressor(columns={"color": "category"}, **GIVEN).fit(written, y)
    with pytest.raises(InputError, match=r"Column 'sold' of X has dates; got '.*'\. Write them as 2020-01-31"):
        GPRegressor(**GIVEN).fit(X, y).predict(X.assign(sold="yesterday"))
    with pytest.raises(InputError, match="Column 'sold' of X has dates; got something else"):
        GPRegressor(**GIVEN).fit(X, y).predict(X.assign(sold=[["2020-01-31"]] * len(X)))


def test_a_slope_may_be_that_of_a_number_or_of_a_date() -> None:
    X, y = table()
    model = GPRegressor(trend=["size", "sold"], **GIVEN).fit(X, y)
    assert model.trend_ is not None
    assert list(model.trend_.names) == ["size", "sold"]


def test_exact_models_by_hand_refuse_text() -> None:
    X, y = table()
    with pytest.raises(InputError, match="Column 'sold' of X has dates"):
        ExactGPRegressor(GaussianKernel(), 0.1).fit(X, y)


def test_columns_in_another_order_or_of_other_names_are_refused_before_they_are_read() -> None:
    """What is in them says less: text in the place of a number."""
    table, y = (
        pd.DataFrame({"size": [1.0, 2.0, 3.0] * 4, "town": ["York", "Hull", "Leeds", "York"] * 3}),
        np.arange(12.0),
    )
    model = GPRegressor(random_state=0).fit(table, y)
    with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
        model.predict(table[["town", "size"]])
    with pytest.raises(ValueError, match="unseen at fit time:\n- city"):
        model.predict(table[["town", "size"]].set_axis(["city", "size"], axis=1))


@pytest.mark.parametrize(
    ("fitted", "given"), [(["a", "c"], [0, 1]), ([0, 3], [0, 1]), ([0, 1], ["a", "c"])], ids=["text", "numbers", "both"]
)
def test_codes_of_a_frame_of_other_names_are_not_read_as_levels(fitted: list[Any], given: list[Any]) -> None:
    """Names that are numbers are none to scikit-learn, which does not compare them."""
    table, y = pd.DataFrame({"a": np.linspace(0.0, 1.0, 12), "c": [3.0, 1.0, 2.0] * 4}), np.arange(12.0)
    model = GPRegressor(columns={1: "category"}, **GIVEN).fit(table.set_axis(fitted, axis=1), y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, of names on one side alone
        with pytest.raises(InputError, match=r"the columns of fit in their order: column [01] was"):
            model.predict(table.set_axis(given, axis=1))


def test_a_tensor_is_read_as_an_array() -> None:
    torch = pytest.importorskip("torch")
    X, y = np.column_stack((np.linspace(0.0, 1.0, 12), [3.0, 1.0, 2.0] * 4)), np.arange(12.0)
    X[5, 0] = np.nan
    model, other = (GPRegressor(columns={1: "category"}, missing="impute", **GIVEN) for _ in range(2))
    expected = model.fit(X, y).predict(X)
    np.testing.assert_array_equal(model.predict(torch.tensor(X)), expected)
    np.testing.assert_array_equal(other.fit(torch.tensor(X), y).predict(X), expected)


def test_a_frame_that_is_given_by_streams_of_arrow_alone_is_read_as_one_of_pandas() -> None:
    class Frame:
        def __init__(self, frame: pd.DataFrame) -> None:
            self.to_pandas, self.columns = frame.copy, list(frame)

        def __arrow_c_stream__(self, requested_schema: object = None) -> None: ...

    X, y = table()
    model, other = (GPRegressor(**GIVEN).fit(one, y) for one in (X, Frame(X)))
    np.testing.assert_array_equal(other.predict(Frame(X)), model.predict(X))


def test_a_frame_of_another_library_is_read_as_one_of_pandas() -> None:
    arrow = pytest.importorskip("pyarrow")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"zip": rng.choice(["01234", "03456"], 60), "size": rng.normal(size=60)})
    y = table["size"] + 3.0 * (table["zip"] == "01234")
    given: Any = {"kernel": GaussianKernel(), "noise_variance": 0.1, "columns": {"zip": "category"}, "noise": "normal"}
    expected, model = (GPRegressor(**given).fit(X, y) for X in (table, arrow.Table.from_pandas(table)))
    assert model.columns_ is not None
    for X in (table[:5], arrow.Table.from_pandas(table[:5])):
        np.testing.assert_allclose(model.predict(X), expected.predict(table[:5]))


def test_a_number_that_is_a_category_has_one_name() -> None:
    columns = read(pd.DataFrame({"c": [1.5, 2.0, 2.0]}), c="category")
    places = values(columns, pd.DataFrame({"c": ["1.50", "2", "02", "3"]}))
    np.testing.assert_array_equal(places[:, 0], [0.0, 1.0, -1.0, -1.0])


def test_spaces_around_a_category_do_not_count() -> None:
    columns = read(pd.DataFrame({"c": ["York ", "Ulm", " Bonn", "York "]}))
    texts = ["York", "York ", " Ulm ", "Bonn", "Yo rk", None]
    found = values(columns, pd.DataFrame({"c": texts}))[:, 0]
    np.testing.assert_array_equal(found, [2.0, 2.0, 1.0, 0.0, -1.0, np.nan])
    apart = read(pd.DataFrame({"c": ["York ", "York", " York"] * 2}))
    np.testing.assert_array_equal(values(apart, pd.DataFrame({"c": [" York", "York", "York "]}))[:, 0], [0.0, 1.0, 2.0])


def test_long_identifiers_are_categories_each() -> None:
    numbers = [10**17 + 1, 10**17 + 2, 10**17 + 1]
    columns = read(pd.DataFrame({"c": numbers}), c="category")
    new = pd.DataFrame({"c": map(str, [*numbers, 10**17 + 3])})
    np.testing.assert_array_equal(values(columns, new)[:, 0], [0.0, 1.0, 0.0, -1.0])


def test_categories_of_numbers_are_the_same_in_a_column_of_another_type() -> None:
    columns = read(
        pd.DataFrame({"g": pd.Series([1, 2, None] * 4).astype("category"), "b": [True, False, None] * 4}), b="category"
    )
    new = pd.DataFrame({"g": pd.Series([1, 2]).astype("category"), "b": [True, False]})
    np.testing.assert_array_equal(
        values(columns, new), values(columns, pd.DataFrame({"g": [1.0, 2.0], "b": ["True", "False"]}))
    )
    np.testing.assert_array_equal(
        values(columns, new), values(columns, pd.DataFrame({"g": ["1", "2"], "b": ["TRUE", "false"]}))
    )
    assert np.all(values(columns, new) >= 0.0)


def test_missing_values_are_refused_at_predict_where_they_are_at_fit() -> None:
    table = pd.DataFrame({"s": np.linspace(0.0, 1.0, 40), "c": ["a", "b"] * 20})
    given: Any = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1, "noise": "normal"}
    model = GPRegressor(**given, missing="error").fit(table, np.arange(40.0))
    for gaps in (
        pd.DataFrame({"s": [np.nan, 0.2], "c": ["a", "b"]}),
        pd.DataFrame({"s": [0.1, 0.2], "c": ["a", None]}),
    ):
        with pytest.raises(InputError, match="missing values"):
            model.predict(gaps)
    quiet = GPRegressor(**given, missing="impute").fit(table, np.arange(40.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet.predict(pd.DataFrame({"s": [np.nan], "c": ["a"]}))


def test_texts_with_a_word_that_is_no_finite_number_are_categories() -> None:
    columns = Columns.of(pd.DataFrame({"c": ["red", "blue", "nan"] * 4}))
    assert columns is not None
    assert columns.kinds[0].levels == ("blue", "nan", "red")
