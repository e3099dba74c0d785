"""Columns as the target needs them: scales of heavy-tailed columns, and the direction of a field."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from lmgp import GaussianKernel, GPRegressor, MaternKernel, load
from lmgp.columns import adapted
from lmgp.columns.adapted import ColumnTrials, has_heavy_tails, with_likely_scales
from lmgp.columns.numbers import AsinhScale
from lmgp.columns.table import Columns
from lmgp.data import Rows
from lmgp.errors import InputError, OutlierWarning
from lmgp.learning.engine import Settings, learn_rows
from lmgp.learning.record import Learned

RNG = np.random.default_rng(0)
GIVEN: dict[str, Any] = {"kernel": GaussianKernel(1.5), "noise_variance": 0.1, "noise": "normal"}
LEARNED: dict[str, Any] = {"kernel": "matern32", "noise": "normal", "random_state": 0}


@pytest.mark.parametrize("name", ["log", "asinh"])
def test_scales_grow_and_have_an_inverse(name: str) -> None:
    values = np.exp(2.0 * RNG.normal(size=500))
    scale = AsinhScale.of(name, values)
    order = np.sort(values)
    assert np.all(np.diff(scale(order)) > 0.0)
    np.testing.assert_allclose(scale.inverse(scale(values)), values, rtol=1e-10)


def test_a_logarithmic_scale_is_one_above_its_width_and_goes_on_below_zero() -> None:
    values = np.exp(2.0 * RNG.normal(size=5000))
    scale = AsinhScale.of("log", values)
    assert scale.width == pytest.approx(np.quantile(values, 0.01))
    large = values[values > 10.0 * scale.width]
    np.testing.assert_allclose(np.diff(scale(large)), np.diff(np.log(large)), atol=0.01)
    assert scale(np.array([-1.0]))[0] < scale(np.array([0.0]))[0] == 0.0


def test_a_scale_with_two_ends_is_linear_within_the_middle_half() -> None:
    values = RNG.standard_t(2, 5000) * 3.0 + 7.0
    scale = AsinhScale.of("asinh", values)
    low, high = np.quantile(values, (0.25, 0.75))
    assert scale.center == pytest.approx(np.median(values))
    assert scale.width == pytest.approx((high - low) / 1.349)
    inside = np.linspace(low, high, 9)
    np.testing.assert_allclose(scale(inside), (inside - scale.center) / scale.width, atol=0.06)


def test_starting_points_race_for_the_columns_that_are_to_be_beaten(monkeypatch: pytest.MonkeyPatch) -> None:
    X, races = RNG.normal(size=(40, 2)), []

    def spy(rows: Rows, settings: Settings) -> Learned:
        races.append((bool(np.isin(rows.X, X).all()), settings.race))
        assert (settings.kernel, settings.likelihood, settings.max_learning_rows) == ("matern32", "exact", 30)
        return Learned(GaussianKernel(), 0.1, float(len(rows)), True)

    monkeypatch.setattr(adapted, "learn_rows", spy)
    columns, trials = Columns.of_numbers(2, None), ColumnTrials(X, Rows(X, X[:, 0]), Settings("gaussian"))
    others = [columns.on_scale(X, {j: AsinhScale.of("asinh", X[:, j])}) for j in (0, 1)]
    assert trials.log_likelihoods([columns, *others], 30) == [30.0, 30.0, 30.0]
    assert sorted(races) == [(False, False), (False, False), (True, True)]


HEAVY = {
    "lognormal": (np.exp(2.0 * RNG.normal(size=500)), True),
    "one row": (np.append(RNG.normal(size=500), 1e6), True),
    "one enormous row": (np.append(RNG.normal(size=500), 1e250), True),
    "normal": (RNG.normal(size=500), False),
    "uniform": (RNG.uniform(size=500), False),
    "a rare flag": (np.arange(500) % 50 == 0, False),
    "constant": (np.ones(500), False),
    "with gaps": (np.append(np.exp(2.0 * RNG.normal(size=500)), np.nan), True),
}


@pytest.mark.parametrize("name", HEAVY)
def test_heavy_tails_are_those_of_few_rows(name: str) -> None:
    values, expected = HEAVY[name]
    assert has_heavy_tails(values.astype(np.float64)) is expected


def test_which_rows_tell_a_scale_does_not_depend_on_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where several rows have the largest value, one of them is always among those of the likelihood."""
    rng, told = np.random.default_rng(0), []
    X, y = np.minimum(np.exp(2.0 * rng.normal(size=600)), 40.0)[:, None], rng.normal(size=600)
    assert np.count_nonzero(X == 40.0) > 10

    def log_likelihoods(trials: ColumnTrials, candidates: list[Columns], n_rows: int, index: list[int]) -> list[float]:
        told.append(trials.rows.Y[index].ravel())
        return [0.0] * len(candidates)

    monkeypatch.setattr(ColumnTrials, "log_likelihoods", log_likelihoods)
    for order in (np.arange(600), rng.permutation(600), rng.permutation(600)):
        trials = ColumnTrials(X[order], Rows(X[order], y[order] - y.mean()), Settings())
        with_likely_scales(Columns.of_numbers(1, None), trials, set())
    assert len(told[0]) == 1
    np.testing.assert_array_equal(told[0], told[1])
    np.testing.assert_array_equal(told[0], told[2])


def skewed(n: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"income": np.exp(2.0 * rng.normal(size=n)), "age": rng.uniform(0.0, 3.0, n)})
    return X, np.sin(2.0 * np.log(X["income"])) + np.cos(X["age"]).to_numpy()


@pytest.mark.slow
def test_a_logarithm_is_found_and_told_and_kept_in_files(tmp_path: Any) -> None:
    X, f = skewed()
    y = f + 0.1 * np.random.default_rng(2).normal(size=len(X))
    model = GPRegressor(**LEARNED).fit(X[:300], y[:300])
    assert str(model.columns_).splitlines()[0].startswith("income  numbers on a logarithmic scale")
    assert str(model.columns_).splitlines()[1] == "age     numbers"
    plain = GPRegressor(columns={"income": "number"}, **LEARNED).fit(X[:300], y[:300])
    assert str(plain.columns_).splitlines()[0] == "income  numbers"
    errors = [np.sqrt(np.mean(np.square(one.predict(X[300:]) - f[300:]))) for one in (model, plain)]
    assert errors[0] < 0.7 * errors[1]
    model.save(tmp_path / "model.lmgp")
    np.testing.assert_array_equal(load(tmp_path / "model.lmgp").predict(X), model.predict(X))


def test_a_scale_that_is_asked_for_is_that_of_the_column() -> None:
    X, y = skewed()
    scale = AsinhScale.of("log", X["income"].to_numpy())
    asked = GPRegressor(columns={"income": "log"}, **GIVEN).fit(X, y)
    by_hand = GPRegressor(**GIVEN).fit(X.assign(income=scale(X["income"].to_numpy())), y)
    np.testing.assert_allclose(
        asked.predict(X), by_hand.predict(X.assign(income=scale(X["income"].to_numpy()))), rtol=1e-8
    )
    with pytest.raises(
        InputError, match=r"column 'age' of X: A logarithmic scale takes positive numbers and zeros; got"
    ):
        GPRegressor(columns={"age": "log"}, **GIVEN).fit(X.assign(age=X["age"] - 1.0), y)


@pytest.mark.slow
def test_a_spoilt_row_ruins_no_column() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    f = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
    y = f + 0.1 * rng.normal(size=500)
    clean = GPRegressor(**LEARNED).fit(X[:400], y[:400])
    X[17, 0] = 1e6
    with pytest.warns(OutlierWarning, match="Row 17 has 1e"):
        model = GPRegressor(**LEARNED).fit(X[:400], y[:400])
    errors = [np.sqrt(np.mean(np.square(one.predict(X[400:]) - f[400:]))) for one in (model, clean)]
    assert errors[0] < 1.2 * errors[1]


def test_gaps_are_filled_on_the_scale() -> None:
    rng = np.random.default_rng(0)
    logs = rng.normal(size=(1000, 1)) * 2.0
    X = np.column_stack((np.exp(logs), logs + 0.3 * rng.normal(size=(1000, 1))))
    X[::9, 0] = np.nan
    model = GPRegressor(columns={0: "log"}, missing="impute", **GIVEN).fit(X, logs[:, 0])
    columns = model.columns_
    assert columns is not None
    filled = columns.coordinates(np.array([[np.nan, 3.0]]))[0]
    assert filled[0] - columns.kinds[0].scale(np.exp([3.0]))[0] == pytest.approx(0.0, abs=0.2)
    assert filled[1] == pytest.approx(0.3, rel=0.2)


@pytest.mark.slow
def test_columns_with_a_slope_that_was_asked_for_stay_straight() -> None:
    X, _ = skewed()
    y = X["income"] + np.sin(2.0 * np.log(X["income"])) + 0.1 * RNG.normal(size=len(X))
    assert "income  numbers on" in str(GPRegressor(**LEARNED).fit(X, y).columns_)
    for trend in ("linear", ["income"]):
        model = GPRegressor(trend=trend, **LEARNED).fit(X, y)
        assert model.columns_ is None


# ---------------------------------------------------------------------------------------------------------------- gaps


def gappy(share: float, n_columns: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, n_columns))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1:].sum(axis=1) / n_columns + 0.1 * rng.normal(size=300)
    return np.where(rng.random(X.shape) < share, np.nan, X), y


@pytest.mark.slow
@pytest.mark.parametrize(("share", "n_columns", "marked"), [(0.1, 2, True), (0.6, 6, False)])
def test_gaps_are_marked_where_that_is_likelier(share: float, n_columns: int, marked: bool) -> None:
    X, y = gappy(share, n_columns)
    model = GPRegressor(missing="impute", **LEARNED).fit(X, y)
    assert ("and marked" in str(model.columns_)) is marked
    columns = Columns.of(X, missing="impute")
    assert columns is not None
    values = columns.checked(X, np.asarray)
    likelihoods = [
        learn_rows(
            Rows(one.coordinates(values), (y - y.mean()) / y.std()),
            Settings("matern32", likelihood="exact", groups=one.groups.tolist()),
        ).log_marginal_likelihood
        for one in (columns, columns.unmarked())
    ]
    assert (likelihoods[0] > likelihoods[1]) is marked
    assert np.isfinite(model.predict(X)).all()


# ------------------------------------------------------------------------------------------------------------- periods


def tides(period: float | None, n: int = 500) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(4)
    days = np.sort(rng.choice(900, n, replace=False))
    season = np.cos(2.0 * np.pi * days / 365.2425) + 0.3 * np.sin(4.0 * np.pi * days / 365.2425)
    y = season + (0.0 if period is None else np.sin(2.0 * np.pi * days / period))
    return pd.DataFrame({"when": pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D")}), y


@pytest.mark.slow
def test_a_period_that_is_none_of_the_calendar_is_found_in_dates() -> None:
    X, mean = tides(29.53)
    y = mean + 0.2 * np.random.default_rng(0).normal(size=len(X))
    model = GPRegressor(**LEARNED).fit(X[:400], y[:400])
    assert model.columns_ is not None
    (period,) = model.columns_.kinds[0].others
    assert period == pytest.approx(29.53, rel=0.01)
    assert "the time of the week and of the year and of the period of 29." in str(model.columns_)
    assert np.sqrt(np.mean(np.square(model.predict(X[400:]) - mean[400:]))) < 0.35  # of amplitude 1


@pytest.mark.slow
def test_no_period_is_found_where_there_is_none() -> None:
    X, mean = tides(None)
    y = mean + 0.2 * np.random.default_rng(0).normal(size=len(X))
    model = GPRegressor(**LEARNED).fit(X, y)
    assert model.columns_ is not None
    assert model.columns_.kinds[0].others == ()


# ----------------------------------------------------------------------------------------------------------- direction


def field(angle: float, n: int = 700) -> tuple[np.ndarray, np.ndarray]:
    """A field that changes ten times as quickly across a direction as along it."""
    rng = np.random.default_rng(3)
    places = rng.uniform(0.0, 10.0, (n, 2))
    turn = np.radians(angle)
    turned = places @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    covariance = np.asarray(MaternKernel([5.0, 0.5], smoothness=1.5)(turned, turned))
    return places, np.linalg.cholesky(covariance + 1e-8 * np.eye(n)) @ rng.normal(size=n)


@pytest.mark.slow
@pytest.mark.parametrize("angle", [20.0, 150.0])
def test_the_direction_of_the_longer_lengthscale_is_found(angle: float) -> None:
    X, f = field(angle)
    y = f + 0.1 * RNG.normal(size=len(X))
    turned, straight = (GPRegressor(rotate=rotate, **LEARNED).fit(X[:500], y[:500]) for rotate in (True, False))
    assert turned.columns_ is not None
    assert turned.columns_.kinds[0].angle == pytest.approx(angle, abs=3.0)
    along, across = turned.kernel_.metric(2)
    assert along > 4.0 * across
    errors = [np.sqrt(np.mean(np.square(one.predict(X[500:]) - f[500:]))) for one in (turned, straight)]
    assert errors[0] < 0.8 * errors[1]


@pytest.mark.slow
def test_turned_axes_stand_beside_other_columns() -> None:
    X, f = field(20.0)
    table = pd.DataFrame({"day": RNG.uniform(0.0, 3.0, len(X)), "east": X[:, 0], "north": X[:, 1]})
    y = f + np.cos(table["day"]) + 0.1 * RNG.normal(size=len(X))
    model = GPRegressor(rotate=["east", "north"], **LEARNED).fit(table[:500], y[:500])
    assert model.columns_ is not None
    assert model.columns_.kinds[0].angle == pytest.approx(20.0, abs=3.0)
    assert model.columns_.coordinate_names[2] == "day"
    assert model.score(table[500:], y[500:]) > 0.8


def test_turned_axes_are_those_of_two_columns() -> None:
    X, y = field(20.0, 60)
    message = r"rotate turns the axes of two columns of one unit, such as metres east and north; got "
    with pytest.raises(InputError, match=rf"{message}3 columns\. Of more columns name two"):
        GPRegressor(rotate=True).fit(np.column_stack((X, X[:, 0])), y)
    with pytest.raises(InputError, match=f"{message}longitude and latitude"):
        GPRegressor(rotate=True, metric="sphere").fit(X, y)
    with pytest.raises(InputError, match=r"rotate: X has no column 'east'"):
        GPRegressor(rotate=["east", "north"]).fit(pd.DataFrame(X, columns=["x", "y"]), y)
    with pytest.raises(InputError, match=r"Column 0 of X is a part of a place, and must be numbers, none missing"):
        GPRegressor(rotate=True).fit(np.where(np.arange(60)[:, None] == 3, [np.nan, 1.0], X), y)


@pytest.mark.parametrize("kind", ["log", "asinh"])
@pytest.mark.parametrize("place", [{"metric": "sphere"}, {"rotate": True}], ids=["sphere", "turned"])
def test_columns_of_a_place_have_no_scale(place: dict[str, Any], kind: str) -> None:
    X = RNG.uniform(1.0, 50.0, (40, 2))
    given: dict[str, Any] = {"kernel": MaternKernel(10.0), "noise_variance": 0.01, "random_state": 0, **place}
    told = rf"Column 0 of X is a part of a place, which has no scale: .* or give no {next(iter(place))}\."
    with pytest.raises(InputError, match=told):
        GPRegressor(columns={0: kind}, **given).fit(X, np.log(X[:, 0]))
    with pytest.raises(InputError, match="Column 'lat' of X is a part of a place, which has no scale"):
        GPRegressor(columns={"lat": kind}, **given).fit(pd.DataFrame(X, columns=["lon", "lat"]), np.log(X[:, 0]))
    GPRegressor(columns={0: "number"}, **given).fit(X, np.log(X[:, 0]))


@pytest.mark.parametrize("columns", [{"rotate": (0, 1)}, {}], ids=["turned", "gaps"])
def test_rows_of_computed_columns_are_found_again_one_by_one(columns: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (500, 3))
    y = np.sin(X[:, 0]) + 0.1 * X[:, 1] + 0.1 * rng.normal(size=len(X))
    if not columns:
        X[rng.random(X.shape) < 0.1] = np.nan
    model = GPRegressor(**GIVEN, **columns, methods=["nearest_rows"], random_state=0).fit(X, y)
    for i in range(100):
        model.forget(X[i : i + 1], y[i : i + 1])
    with pytest.raises(InputError, match="is not, or not as often"):
        model.forget(X[:1], y[:1])


@pytest.mark.slow
def test_noise_variances_are_in_the_unit_of_the_target() -> None:
    days, rng = np.arange(300.0), np.random.default_rng(0)
    y = np.sin(2.0 * np.pi * days / 30.4) + 0.2 * rng.normal(size=300)
    X = pd.DataFrame({"day": pd.Timestamp("2020-01-01") + pd.to_timedelta(days, "D")})
    models = [GPRegressor(**LEARNED).fit(X, c * y, noise_variances=np.full(300, c**2 * 0.04)) for c in (1.0, 1e3)]
    first, second = (model.columns_.kinds[0] for model in models)  # type: ignore[union-attr]
    assert first.others == second.others != ()
