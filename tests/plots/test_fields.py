"""Bands, maps and centroids: what is drawn is what the model predicts and holds."""

from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    TaylorFeatures,
    plots,
)
from lmgp.errors import InputError

KERNEL = GaussianKernel([0.5, 1.5])


def rows(n: int, d: int, seed: int = 0) -> tuple[Any, Any]:
    X = np.random.default_rng(seed).uniform(0.0, 4.0, (n, d))
    return X, np.sin(X).sum(axis=1)


def exact(d: int, n: int = 40) -> tuple[ExactGPRegressor, Any, Any]:
    X, y = rows(n, d)
    return ExactGPRegressor(GaussianKernel(0.8), noise_variance=0.05).fit(X, y), X, y


def edges(ax: Axes) -> tuple[Any, Any, Any]:
    """The places of a band, and its lower and upper edge there."""
    (filled,) = ax.collections
    outline = filled.get_paths()[0].vertices
    places = np.unique(outline[:, 0])
    values = [outline[outline[:, 0] == place, 1] for place in places]
    return places, np.array([one.min() for one in values]), np.array([one.max() for one in values])


# ---------------------------------------------------------------------------------------------------------------- bands


@pytest.mark.parametrize("noisy", [False, True])
def test_the_band_is_the_interval_of_a_normal_distribution(noisy: bool) -> None:
    model, X, y = exact(1)
    ax = plots.band(model, X, y, level=0.8, include_noise=noisy, n_points=30)
    places, low, high = edges(ax)
    width = np.ptp(X)
    np.testing.assert_allclose(places, np.linspace(X.min() - 0.05 * width, X.max() + 0.05 * width, 30))
    # The exact GP by dense algebra.
    covariance = model.kernel_(X) + 0.05 * np.eye(len(X))
    cross = model.kernel_(places[:, None], X)
    mean = y.mean() + cross @ np.linalg.solve(covariance, y - y.mean())
    variance = 1.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(covariance, cross.T)) + (0.05 if noisy else 0.0)
    expected = norm.interval(0.8, mean, np.sqrt(variance))
    np.testing.assert_allclose((low, high), expected, atol=1e-8)
    curve, points = ax.lines
    np.testing.assert_allclose(curve.get_ydata(), mean, atol=1e-8)
    np.testing.assert_array_equal(points.get_xydata(), np.column_stack((X, y)))
    assert ax.get_legend().get_texts()[0].get_text() == f"80% of {'new observations' if noisy else 'the function'}"


@pytest.mark.parametrize("kind", ["times", "text", "arrow", "array"])
def test_dates_are_read_along_the_axis(kind: str) -> None:
    X = pd.DataFrame({"when": pd.date_range("2019-01-01", periods=60, freq="10D")})
    y = np.sin(np.arange(60.0) / 8.0)
    X["when"] = X["when"].dt.strftime("%Y-%m-%d") if kind == "text" else X["when"]
    table: Any = X.to_numpy() if kind == "array" else pa.Table.from_pandas(X) if kind == "arrow" else X
    model = GPRegressor(kernel="matern52", noise="normal").fit(table, y)
    ax = plots.band(model, table, y, n_points=30)
    ax.figure.canvas.draw()
    assert {"2019", "2020"} <= {label.get_text() for label in ax.get_xticklabels()}
    curve, points = ax.lines
    days = curve.get_xdata()
    assert points.get_xdata()[0] == 17897.0  # since 1970
    dates = pd.DataFrame({"when": pd.Timestamp(0) + pd.to_timedelta(days, unit="D")})
    expected = model.predict(dates.to_numpy() if kind == "array" else dates)
    np.testing.assert_allclose(curve.get_ydata(), expected, atol=1e-6)


@pytest.mark.parametrize("d", [1, 2])
def test_rows_with_gaps_are_not_drawn(d: int) -> None:
    X, y = rows(60, d)
    X[3, 0] = np.nan
    model = GPRegressor(kernel="matern52", noise="normal", missing="impute").fit(X, y)
    draw = plots.band if d == 1 else plots.map
    left, right = np.ravel(draw(model, X, n_points=5))[0].get_xlim()
    assert left < np.nanmin(X[:, 0]) < np.nanmax(X[:, 0]) < right
    with pytest.raises(InputError, match="No row of X has all coordinates"):
        draw(model, X[3:4])
    with pytest.raises(InputError, match="contains infinity"):
        draw(model, np.full((1, d), np.inf))


def test_points_have_a_map() -> None:
    rng = np.random.default_rng(0)
    points = geopandas.GeoSeries.from_xy(rng.uniform(-3.0, 1.0, 40), rng.uniform(50.0, 54.0, 40), crs=4326)
    model = GPRegressor(kernel="matern52", noise="normal").fit(points, np.asarray(points.y))
    mean, _ = plots.map(model, points, n_points=5)
    assert (mean.get_xlabel(), mean.get_ylabel()) == ("longitude", "latitude")
    (drawn, *_) = mean.collections
    corner = geopandas.GeoSeries.from_xy([points.x.min()], [points.y.min()], crs=4326)
    np.testing.assert_allclose(np.ravel(drawn.get_array())[0], model.predict(corner)[0])
    with pytest.raises(InputError, match="are in the reference system EPSG:27700"):
        plots.map(model, points.to_crs(27700))


def test_axes_are_those_given_or_of_a_new_figure() -> None:
    model, X, _ = exact(1)
    _, ax = pyplot.subplots()
    assert plots.band(model, X, n_points=5, ax=ax) is ax
    assert pyplot.get_fignums() == [1]
    assert plots.band(model, X, n_points=5) is not ax
    assert pyplot.get_fignums() == [1, 2]


def test_columns_and_targets_keep_their_names() -> None:
    X, y = rows(30, 2)
    frame = pd.DataFrame(X, columns=["cost, $", "lat"])
    model = make_pipeline(StandardScaler(), ExactGPRegressor(GaussianKernel(0.8), noise_variance=0.05))
    one = plots.band(model.fit(frame[["cost, $"]], y), frame[["cost, $"]], pd.Series(y, name="price"), n_points=5)
    assert (one.get_xlabel(), one.get_ylabel()) == (r"cost, \$", "price")
    # Of an array, the names are those that the model knows.
    named = ExactGPRegressor(GaussianKernel(0.8), noise_variance=0.05).fit(frame, y)
    assert [ax.get_ylabel() for ax in plots.map(named, X, n_points=5)] == ["lat", "lat"]


def test_of_many_rows_a_sample_is_drawn_and_said() -> None:
    X, y = rows(1500, 1)
    model = NearestNeighborsGPRegressor(8, kernel=GaussianKernel(0.8), noise_variance=0.05).fit(X, y)
    points = plots.band(model, X, y, n_points=5).lines[1]
    assert len(points.get_xdata()) == 1000
    assert points.get_label() == "rows, 1,000 of 1,500"
    assert set(points.get_xdata()) <= set(X[:, 0])


# ----------------------------------------------------------------------------------------------------------------- maps


def test_the_map_has_the_predictions_at_each_place() -> None:
    model, X, _ = exact(2)
    mean_axes, std_axes = plots.map(model, X, n_points=7)
    right, up = (np.linspace(column.min(), column.max(), 7) for column in X.T)
    for i, j in ((0, 0), (6, 0), (2, 5), (3, 3)):
        mean, std = model.predict([[right[j], up[i]]], return_std=True)
        for axes, expected in ((mean_axes, mean), (std_axes, std)):
            values = np.asarray(axes.collections[0].get_array()).reshape(7, 7)
            np.testing.assert_allclose(values[i, j], expected[0], rtol=1e-9)
    np.testing.assert_array_equal(std_axes.lines[0].get_xydata(), X)
    assert std_axes.get_title() == "s.d. of the function"


def test_two_corners_are_enough_for_a_map() -> None:
    model, *_ = exact(2)
    _, panels = pyplot.subplots(1, 2)
    axes = plots.map(model, [[0.0, 1.0], [2.0, 3.0]], n_points=5, show_rows=False, include_noise=True, ax=panels)
    assert list(axes) == list(panels)
    assert not len(axes[1].lines)
    assert axes[1].get_title() == "s.d. of new observations"
    (mesh,) = axes[0].collections
    corners = mesh.get_coordinates()
    assert corners[..., 0].min() == pytest.approx(-0.25)  # half a cell below the first place
    assert corners[..., 1].max() == pytest.approx(3.25)


@pytest.mark.filterwarnings("error")
def test_a_model_that_knows_names_takes_corners_without_them() -> None:
    model, X, y = exact(2)
    named = model.fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert plots.map(named, [[0.0, 1.0], [2.0, 3.0]], n_points=5)[0].get_xlabel() == "a"


# ------------------------------------------------------------------------------------------------------------ centroids


def localized(d: int) -> tuple[LocalizedGPRegressor, Any]:
    X, y = rows(80, d)
    kernel = KERNEL if d == 2 else GaussianKernel(0.5)
    return LocalizedGPRegressor(TaylorFeatures(15), 1.0, kernel=kernel, noise_variance=0.05).fit(X, y), X


def test_centroids_and_the_rows_within_their_reach() -> None:
    model, X = localized(2)
    ax = plots.centroids(model, X, n_reaches=4)
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), model.centroids_)
    assert len(ax.patches) == 4
    for center, ellipse in zip(model.centroids_, ax.patches, strict=False):
        within = np.sqrt((((X - center) / [0.5, 1.5]) ** 2).sum(axis=1)) <= model.reach_
        drawn = [(((row - ellipse.center) / [ellipse.width / 2, ellipse.height / 2]) ** 2).sum() <= 1.0 for row in X]
        np.testing.assert_array_equal(drawn, within)


def test_a_reach_beyond_the_figure_is_said() -> None:
    X, y = rows(40, 2)
    model = LocalizedGPRegressor(TaylorFeatures(15), 0.1, kernel=GaussianKernel(9.0), noise_variance=0.05).fit(X, y)
    ax = plots.centroids(model, X, n_reaches=1)
    assert ax.get_legend().get_texts()[-1].get_text() == "reach of one, beyond"
    width = np.ptp(X[:, 0])
    assert np.diff(ax.get_xlim())[0] == pytest.approx(3.0 * width, rel=0.05)
    near, X = localized(2)
    assert plots.centroids(near, X).get_legend().get_texts()[-1].get_text() == "reach of 3"


def test_reaches_in_one_column_are_lines() -> None:
    model, X = localized(1)
    ax = plots.centroids(model, X, n_reaches=2)
    for number in (0, 1):
        low, high = ax.lines[2 + number].get_xdata()
        assert high - low == pytest.approx(2.0 * 0.5 * model.reach_)
        assert 0.5 * (low + high) == pytest.approx(model.centroids_[number, 0])


# ------------------------------------------------------------------------------------------------------------ bad input


def test_several_targets_are_refused() -> None:
    X = np.linspace(0.0, 6.0, 20)[:, None]
    model = ExactGPRegressor(GaussianKernel(1.0), 0.1).fit(X, np.column_stack((np.sin(X), np.cos(X))))
    with pytest.raises(InputError, match="A band is of one target; the model has several"):
        plots.band(model, X)


def test_other_numbers_of_columns_are_refused() -> None:
    one, X1, _ = exact(1)
    two, X2, _ = exact(2)
    three, X3, _ = exact(3)
    with pytest.raises(InputError, match=r"A band is of one input column; the model has 2. Use plots.map."):
        plots.band(two, X2)
    with pytest.raises(InputError, match=r"A map is of 2 input columns; the model has 1. Use plots.band."):
        plots.map(one, X1)
    with pytest.raises(InputError, match=r"the model has 3. Use plots.importance or plots.prediction."):
        plots.map(three, X3)
    with pytest.raises(InputError, match=r"A band is of one input column; X has shape \(40, 2\)"):
        plots.band(one, X2)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("X", [None, np.empty((0, 2)), [[0.0, np.nan]], [["a", "b"]], [1.0, 2.0]])
def test_a_map_without_coordinates_is_refused(X: Any) -> None:
    with pytest.raises(InputError, match=r"A map needs rows X of shape \(n, 2\), whose extent it shows"):
        plots.map(exact(2)[0], X)
    assert pyplot.get_fignums() == []


def test_a_single_row_has_an_extent_too() -> None:
    model, *_ = exact(1)
    ax = plots.band(model, [[3.0]], n_points=5)
    assert ax.get_xlim() == (2.5, 3.5)


def test_what_cannot_be_drawn_is_refused() -> None:
    model, X, y = exact(1)
    with pytest.raises(NotFittedError):
        plots.band(ExactGPRegressor(), X)
    with pytest.raises(InputError, match="LinearRegression has not"):
        plots.band(LinearRegression().fit(X, y), X)
    with pytest.raises(InputError, match="level must be a number strictly between 0 and 1; got 95"):
        plots.band(model, X, level=95)
    with pytest.raises(InputError, match=r"y must have one value for each of the 40 rows of X; got shape \(3,\)"):
        plots.band(model, X, y[:3])
    for bad, told in (([np.nan] * 40, "y must be finite"), (["a"] * 40, "y must be an array of real numbers")):
        with pytest.raises(InputError, match=told):
            plots.band(model, X, bad)
    with pytest.raises(InputError, match="n_points must be at least 2"):
        plots.band(model, X, n_points=1)
    with pytest.raises(InputError, match="ax must be Matplotlib axes"):
        plots.band(model, X, ax=pyplot.figure())
    with pytest.raises(InputError, match=r"ax must be two Matplotlib axes.* got one"):
        plots.map(exact(2)[0], rows(5, 2)[0], ax=pyplot.figure().subplots())


def test_models_without_centroids_to_draw_are_refused() -> None:
    exact_model, X, y = exact(2)
    with pytest.raises(InputError, match=r"no centroids \(ExactGPRegressor\)"):
        plots.centroids(exact_model)
    given = {"kernel": GaussianKernel(0.5), "noise_variance": 0.05}
    each = LocalizedGPRegressor(TaylorFeatures(6), centroids="test_rows", **given).fit(X, y)
    with pytest.raises(InputError, match="every test row is its own"):
        plots.centroids(each)
    with pytest.raises(InputError, match="Draw its last step"):
        plots.centroids(make_pipeline(StandardScaler(), LocalizedGPRegressor(TaylorFeatures(6), **given)).fit(X, y))
    three = LocalizedGPRegressor(TaylorFeatures(6), **given).fit(*rows(30, 3))
    with pytest.raises(InputError, match="one or two input columns; the model has 3"):
        plots.centroids(three)
    with pytest.raises(InputError, match="no centroids"):
        plots.centroids(GPRegressor(kernel=GaussianKernel(0.5), noise_variance=0.05).fit(X, y))


def test_centroids_of_turned_axes_are_refused() -> None:
    X = np.random.default_rng(0).uniform(size=(100, 2))
    given: Any = {"kernel": GaussianKernel(0.5), "noise_variance": 0.1, "methods": ["local_taylor"], "noise": "normal"}
    model = GPRegressor(**given, rotate=True).fit(X, np.sin(5.0 * X[:, 0]))
    with pytest.raises(InputError, match="columns of other kinds"):
        plots.centroids(model, X)
