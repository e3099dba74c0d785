"""Predictions on grids: the same as those of rows, and where each pixel is."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import rasterio
import xarray
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    GPRegressor,
    NearestNeighborsGPRegressor,
    SphericalCoordinates,
    predict_grid,
)
from lmgp.errors import InputError, OutputError
from lmgp.grids import grid_rows, write_geotiff
from tests.conftest import draw

GIVEN = {"kernel": GaussianKernel(1.5), "noise_variance": 0.04}


def frame(n: int = 80) -> tuple[pd.DataFrame, np.ndarray]:
    X, y, _ = draw(n, (-6.0, 50.0, 0.0), (2.0, 55.0, 9.0))
    return pd.DataFrame(X, columns=["lon", "lat", "day"]), y


@pytest.fixture(scope="module")
def model() -> ExactGPRegressor:
    X, y = frame()
    return ExactGPRegressor(**GIVEN).fit(X[["lat", "lon"]], y)


AXES = {"lon": (-6, 2, 9), "lat": (50, 55, 6)}


def test_each_point_is_predicted_as_a_row(model: ExactGPRegressor) -> None:
    grid = predict_grid(model, AXES, include_noise=True, level=0.5)
    assert grid["mean"].dims == ("lat", "lon")
    assert grid["mean"].shape == (6, 9)
    np.testing.assert_array_equal(grid["lat"], [55, 54, 53, 52, 51, 50])
    np.testing.assert_array_equal(grid["lon"], np.arange(-6, 3))
    for i, j in ((0, 0), (5, 0), (2, 7)):
        point = pd.DataFrame({"lat": [55.0 - i], "lon": [-6.0 + j]})
        mean, std = model.predict(point, return_std=True, include_noise=True)
        np.testing.assert_allclose((grid["mean"][i, j], grid["std"][i, j]), (mean[0], std[0]), rtol=1e-10)
        low, high = norm.interval(0.5, mean[0], std[0])
        np.testing.assert_allclose((grid["lower"][i, j], grid["upper"][i, j]), (low, high), rtol=1e-10)
    latent = predict_grid(model, AXES)
    np.testing.assert_allclose(latent["std"] ** 2 + 0.04, grid["std"] ** 2, rtol=1e-10)
    assert list(latent) == ["mean", "std"]
    for average_over in (1, 2):
        assert list(predict_grid(model, AXES, return_std=False, average_over=average_over)) == ["mean"]


def test_values_can_be_given_in_any_order(model: ExactGPRegressor) -> None:
    given = {"lat": [52.0, 50.5, 54.0], "lon": np.array([1.0, -3.0])}
    grid = predict_grid(model, given)
    np.testing.assert_array_equal(grid["lat"], [54.0, 52.0, 50.5])
    np.testing.assert_array_equal(grid["lon"], [-3.0, 1.0])
    np.testing.assert_array_equal(predict_grid(model, {"lat": (55, 50, 6), "lon": (2, -6, 9)})["mean"], grid_of(model))
    assert predict_grid(model, {"lat": 52, "lon": (0, 1, 2)})["mean"].shape == (1, 2)


def grid_of(model: Any) -> np.ndarray:
    return predict_grid(model, AXES)["mean"].values


def test_parts_make_the_whole(model: ExactGPRegressor, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = predict_grid(model, AXES)
    seen: list[int] = []

    def noted(axes: Any, names: Any) -> Any:
        for rows in grid_rows(axes, names, chunk=7):
            seen.append(len(rows))
            yield rows

    monkeypatch.setattr("lmgp.grids.grid_rows", noted)
    parts = predict_grid(model, AXES)
    assert seen == [7] * 7 + [5]
    np.testing.assert_allclose(parts["mean"], whole["mean"], rtol=1e-12)
    np.testing.assert_allclose(parts["std"], whole["std"], rtol=1e-9)


@pytest.mark.parametrize("kind", ["sphere", "spherical pipeline", "standardised pipeline", "nearest", "array"])
def test_any_regressor_with_any_columns(kind: str) -> None:
    X, y = frame()
    models = {
        "sphere": GPRegressor(kernel=GaussianKernel(300.0), noise_variance=0.04, metric="sphere"),
        "spherical pipeline": make_pipeline(SphericalCoordinates(), ExactGPRegressor(GaussianKernel(300.0), 0.04)),
        "standardised pipeline": make_pipeline(StandardScaler(), ExactGPRegressor(**GIVEN)),
        "nearest": NearestNeighborsGPRegressor(20, **GIVEN),
        "array": ExactGPRegressor(**GIVEN),
    }
    model = models[kind].fit(X.to_numpy() if kind == "array" else X, y)
    names = ["x0", "x1", "x2"] if kind == "array" else ["lon", "lat", "day"]
    grid = predict_grid(model, dict(zip(names, [(-6, 2, 5), (50, 55, 4), [2.0, 3.0]], strict=True)), include_noise=True)
    assert grid["mean"].dims == (names[2], names[1], names[0])
    point = pd.DataFrame([[0.0, 55.0, 3.0]], columns=["lon", "lat", "day"])
    mean, std = model.predict(point.to_numpy() if kind == "array" else point, return_std=True, include_noise=True)
    np.testing.assert_allclose((grid["mean"][1, 0, 3], grid["std"][1, 0, 3]), (mean[0], std[0]), rtol=1e-9)


# ------------------------------------------------------------------------------------------------------- where they go


def test_a_raster_has_its_points_at_the_centres_of_pixels(model: ExactGPRegressor, tmp_path: Path) -> None:
    grid = predict_grid(model, {"lon": (-6, 2, 5), "lat": (50, 55, 11)}, level=0.9)
    write_geotiff(grid, tmp_path / "map.tif")
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.descriptions == ("mean", "std", "lower", "upper")
        assert file.crs.to_epsg() == 4326
        # Pixels of 2° × 0.5°: the north-western corner is half a pixel beyond the first point.
        assert file.transform[:6] == (2.0, 0.0, -7.0, 0.0, -0.5, 55.25)
        bands = file.read()
        for row, column in ((0, 0), (10, 4), (3, 1)):
            lon, lat = file.xy(row, column)
            expected = model.predict(pd.DataFrame({"lat": [lat], "lon": [lon]}), return_std=True)
            np.testing.assert_allclose(bands[:2, row, column], np.ravel(expected), rtol=1e-10)


def test_a_raster_has_a_band_for_each_value_of_other_columns(tmp_path: Path) -> None:
    X, y = frame()
    model = ExactGPRegressor(**GIVEN).fit(X.rename(columns={"lon": "East", "lat": "North"}), y)
    grid = predict_grid(model, {"East": (-6, 2, 5), "North": (50, 55, 4), "day": [1.0, 2.5]})
    write_geotiff(grid, tmp_path / "map.tif")
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.descriptions == ("mean, day=1.0", "mean, day=2.5", "std, day=1.0", "std, day=2.5")
        assert file.crs is None
        np.testing.assert_array_equal(file.read(2), grid["mean"][1])
        np.testing.assert_array_equal(file.read(3), grid["std"][0])
    turned = predict_grid(model, {"East": (0, 1, 2), "North": (50, 52, 3), "day": (0, 9, 4)}, x="day", y="East")
    assert turned["mean"].dims == ("North", "East", "day")
    assert turned["day"].attrs["axis"] == "X"


def test_a_data_set_has_its_coordinates_and_units(model: ExactGPRegressor, tmp_path: Path) -> None:
    data = predict_grid(model, AXES, include_noise=True, level=0.9, target="price", units="GBP")
    assert data["lon"].attrs["units"] == "degrees_east"
    assert data["lat"].attrs["standard_name"] == "latitude"
    assert data["mean"].attrs == {"long_name": "predicted mean of price", "units": "GBP"}
    assert data["upper"].attrs["comment"] == "of a new observation, with probability 0.9"
    assert data.attrs["Conventions"].startswith("CF-")
    data.to_netcdf(tmp_path / "map.nc", engine="scipy")
    xarray.testing.assert_identical(xarray.load_dataset(tmp_path / "map.nc", engine="scipy"), data)


def test_what_is_not_installed_names_the_extra(model: ExactGPRegressor, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = predict_grid(model, AXES)
    monkeypatch.setattr("lmgp.io.geometry.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r'xarray is not installed.*pip install "lmgp\[spatial\]"'):
        predict_grid(model, AXES)
    with pytest.raises(ImportError, match=r"rioxarray is not installed"):
        write_geotiff(grid, "map.tif")


# ----------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("axes", "told"),
    [
        ({"lon": 1}, "missing are lat"),
        ({"long": 1, "lat": 1}, "no column 'long' for the grid; did you mean 'lon'"),
        ({"lon": (0, 1), "lat": 1}, "two finite numbers or dates and a positive integer"),
        ({"lon": (0, 1, 2.5), "lat": 1}, r"a positive integer; got \(0, 1, 2.5\)"),
        ({"lon": (0, 1, 0), "lat": 1}, "a positive integer"),
        ({"lon": (0, np.nan, 3), "lat": 1}, "two finite numbers"),
        ({"lon": (1, 1, 3), "lat": 1}, "3 times the value 1"),
        ({"lon": [1.0, np.nan], "lat": 1}, "without repetition"),
        ({"lon": [1.0, 1.0], "lat": 1}, "without repetition"),
        ({"lon": [], "lat": 1}, "without repetition"),
        ({"lon": "1:2:3", "lat": 1}, "could not convert string to float: '1:2:3'"),
        ({"lon": {}, "lat": 1}, "one value, or a list of finite numbers, dates or text"),
        ({"lon": ("a", "b", 3), "lat": 1}, "two finite numbers or dates"),
        ({"lon": (0, 1, 10**5), "lat": (0, 1, 10**5)}, "10,000,000,000 points; the most are 100,000,000"),
        ({"lon": (0, 1, 10**9), "lat": 1}, "1,000,000,000 values"),
    ],
)
def test_axes_that_are_refused(model: ExactGPRegressor, axes: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        predict_grid(model, axes)


def test_dates_are_an_axis_of_days(tmp_path: Path) -> None:
    dates = pd.date_range("2020-01-05", periods=30)
    X = pd.DataFrame({"a": np.tile([0.0, 1.0, 2.0], 10), "b": np.linspace(0.0, 2.0, 30), "day": dates})
    model = GPRegressor(**GIVEN, noise="normal").fit(X, np.sin(np.arange(30.0)))
    grid = predict_grid(model, {"a": 1.0, "b": [0.0, 1.0], "day": dates[3:5]})
    rows = pd.DataFrame({"a": 1.0, "b": [0.0, 1.0], "day": dates[3]})
    np.testing.assert_allclose(grid["mean"].sel(day=dates[3]).values.ravel()[::-1], model.predict(rows))
    days = predict_grid(model, {"a": 1.0, "b": [0.0, 1.0], "day": ("2020-01-08", "2020-01-10", 3)})
    assert days["day"].values.tolist() == dates[3:6].values.tolist()
    np.testing.assert_allclose(days["mean"][:2], grid["mean"])
    one = predict_grid(model, {"a": 1.0, "b": [0.0, 1.0], "day": "2020-01-08"})
    xarray.testing.assert_allclose(one, days[{"day": [0]}])
    parts = predict_grid(model, {"a": 1.0, "b": 0.0, "day": ("2020-01-08", "2020-01-10", 12)})  # of no whole seconds
    parts.to_netcdf(tmp_path / "map.nc", engine="scipy")
    read = xarray.load_dataset(tmp_path / "map.nc")["day"].values
    assert np.abs(read - parts["day"].values).max() <= np.timedelta64(1, "us")


@pytest.mark.parametrize("average_over", [1, 2])
@pytest.mark.filterwarnings("error")
def test_dates_of_a_grid_are_in_utc(average_over: int) -> None:
    times = pd.date_range("2020-01-05", periods=30, tz="Europe/Berlin")
    X = pd.DataFrame({"a": np.tile([0.0, 1.0, 2.0], 10), "b": np.linspace(0.0, 2.0, 30), "when": times})
    model = GPRegressor(**GIVEN, noise="normal").fit(X, np.sin(np.arange(30.0)))
    axes: dict[str, Any] = {"a": [0.0, 1.0], "b": [0.0, 1.0]}
    grids = [
        predict_grid(model, axes | {"when": when}, average_over=average_over)
        for when in (times[3:5], ("2020-01-08T00+01:00", "2020-01-09T00+01:00", 2), ["2020-01-07T23", "2020-01-08T23"])
    ]
    assert grids[0]["when"].values.tolist() == times[3:5].tz_convert(None).values.tolist()
    for grid in grids[1:]:
        xarray.testing.assert_allclose(grid, grids[0])
    if average_over == 1:
        rows = pd.DataFrame({"a": [0.0, 1.0], "b": 1.0, "when": times[3]})
        np.testing.assert_allclose(grids[0]["mean"][0].sel(b=1.0), model.predict(rows))


def test_categories_are_an_axis(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(size=60), "y": rng.uniform(size=60), "town": rng.choice(["Ulm", "Bonn"], 60)})
    model = GPRegressor(**GIVEN, noise="normal").fit(X, X["x"] + (X["town"] == "Ulm"))
    axes = {"x": (0.0, 1.0, 3), "y": (0.0, 1.0, 2), "town": ["Ulm", "Bonn"]}
    grid = predict_grid(model, axes)
    rows = pd.DataFrame({"x": [0.0, 0.5, 1.0], "y": 1.0, "town": "Ulm"})
    np.testing.assert_allclose(grid["mean"].sel(town="Ulm", y=1.0), model.predict(rows))
    cells = predict_grid(model, axes | {"x": [0.5, 0.75]}, average_over=3)
    inside = np.array([-1.0, 0.0, 1.0]) / 3.0
    around = pd.DataFrame({"x": 0.5 + 0.25 * np.repeat(inside, 3), "y": np.tile(inside, 3), "town": "Bonn"})
    np.testing.assert_allclose(cells["mean"].sel(town="Bonn", x=0.5, y=0.0), model.predict(around).mean())
    grid.to_netcdf(tmp_path / "map.nc", engine="scipy")
    assert xarray.load_dataset(tmp_path / "map.nc")["town"].values.tolist() == ["Bonn", "Ulm"]
    with pytest.raises(InputError, match="not numeric: could not convert string to float: 'Ulm'"):
        predict_grid(model, axes | {"x": ["Ulm"]})
    with pytest.raises(InputError, match="'town' has dates or text"):
        predict_grid(model, axes, x="town", average_over=2)


def test_cells_end_at_a_pole_and_go_on_beyond_the_date_line() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"lon": rng.uniform(-180.0, 180.0, 60), "lat": rng.uniform(-90.0, 90.0, 60)})
    model = GPRegressor(kernel=GaussianKernel(3000.0), noise_variance=0.1, metric="sphere", noise="normal")
    model.fit(X, np.sin(np.radians(X["lat"])))
    cells = predict_grid(model, {"lon": [-180.0, 0.0, 180.0], "lat": [-90.0, 0.0, 90.0]}, average_over=2)
    lons = {-180.0: [-135.0, 135.0], 180.0: [135.0, -135.0], 0.0: [-45.0, 45.0]}
    lats = {-90.0: [-67.5] * 2, 0.0: [-22.5, 22.5], 90.0: [67.5] * 2}
    for lon, lat in [(-180.0, 90.0), (180.0, -90.0), (0.0, 90.0), (180.0, 0.0)]:
        inside = pd.DataFrame({"lon": np.repeat(lons[lon], 2), "lat": np.tile(lats[lat], 2)})
        np.testing.assert_allclose(cells["mean"].sel(lon=lon, lat=lat), model.predict(inside).mean())


def test_cells_of_a_plane_have_no_date_line() -> None:
    X = pd.DataFrame({"lon": np.linspace(-200.0, -160.0, 60), "lat": np.tile([0.0, 1.0, 2.0], 20)})
    model = ExactGPRegressor(GaussianKernel(20.0), 1e-4).fit(X, X["lon"] / 10.0)
    axes = {"lon": (-195.0, -165.0, 4), "lat": (0.0, 2.0, 2)}
    cells, points = (predict_grid(model, axes, average_over=n)["mean"] for n in (2, 1))
    np.testing.assert_allclose(cells, points, atol=0.05)


@pytest.mark.parametrize("name", ["mean", "upper", "target"])
def test_columns_with_the_names_of_predictions_are_refused(name: str) -> None:
    X, y = frame()
    model = ExactGPRegressor(**GIVEN).fit(X.rename(columns={"lon": name}), y)
    with pytest.raises(InputError, match=f"The model has a column '{name}', and so have predictions"):
        predict_grid(model, {name: 1.0, "lat": 2.0}, x=name, y="lat")


def test_models_and_maps_that_are_refused(model: ExactGPRegressor) -> None:
    with pytest.raises(NotFittedError):
        predict_grid(ExactGPRegressor(), AXES)
    with pytest.raises(InputError, match=r"such as {'lat': \(0.0, 1.0, 50\), 'lon': \(0.0, 1.0, 50\)}; got \[1\]"):
        predict_grid(model, [1])
    with pytest.raises(InputError, match="method must be 'distribution' or 'conformal'; got 'foo'"):
        predict_grid(model, AXES, method="foo")
    with pytest.raises(InputError, match="between 0 and 1; got 95"):
        predict_grid(model, AXES, level=95)
    with pytest.raises(InputError, match="the model has no column 'longitude'; known: lat, lon"):
        predict_grid(model, AXES, x="longitude")
    with pytest.raises(InputError, match="x and y must be two columns; got 'lat' as both"):
        predict_grid(model, AXES, x="lat")
    X, y = frame()
    with pytest.raises(InputError, match="A map has two columns, x and y; the model has 1, lon"):
        predict_grid(ExactGPRegressor(**GIVEN).fit(X[["lon"]], y), {"lon": 1})


def test_rasters_that_are_refused(model: ExactGPRegressor, tmp_path: Path) -> None:
    def write(lat: list[float]) -> None:
        write_geotiff(predict_grid(model, {"lat": lat, "lon": [0.0, 1.0]}), tmp_path / "map.tif")

    with pytest.raises(InputError, match=r"'lat' are not evenly spaced, .* steps are from 1 to 2"):
        write([53.0, 51.0, 50.0])
    with pytest.raises(InputError, match="two values of 'lat' or more; got 1"):
        write([53.0])
    write([50.666667, 50.333333, 50.0])
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.transform[4] == pytest.approx(-1 / 3, abs=1e-6)


def test_a_raster_that_finds_no_place_names_its_file(
    model: ExactGPRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Any, path: str, **options: Any) -> None:
        raise OSError("Write failed")  # as rasterio says it, without the error of the system

    monkeypatch.setattr("rioxarray.raster_array.RasterArray.to_raster", full)
    grid = predict_grid(model, {"lat": [50.0, 51.0], "lon": [0.0, 1.0]})
    with pytest.raises(OutputError, match=r"map\.tif cannot be written: Write failed\. Free the place"):
        write_geotiff(grid, tmp_path / "map.tif")
    assert not list(tmp_path.iterdir())


def test_cells_of_degrees_weigh_by_the_cosine_of_the_latitude() -> None:
    X = pd.DataFrame({"lon": [0.0, 90.0, 180.0, 270.0] * 2, "lat": [-60.0] * 4 + [60.0] * 4})
    model = GPRegressor(kernel=GaussianKernel(4000.0), noise_variance=0.1, metric="sphere", noise="normal")
    model.fit(X, np.sin(np.radians(X["lat"])))
    cells = predict_grid(model, {"lon": [0.0, 10.0], "lat": [50.0, 70.0]}, average_over=2)
    inside = pd.DataFrame({"lon": [-2.5, -2.5, 2.5, 2.5], "lat": [65.0, 75.0] * 2})
    expected = np.average(model.predict(inside), weights=np.cos(np.radians(inside["lat"])))
    np.testing.assert_allclose(cells["mean"].sel(lon=0.0, lat=70.0), expected)


def test_booleans_are_values_of_an_axis_and_std_is_given_where_asked_for() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(size=40), "y": rng.uniform(size=40), "new": rng.uniform(size=40) < 0.5})
    model = GPRegressor(**GIVEN, noise="normal").fit(X, X["x"] + X["new"])
    axes = {"x": (0.0, 1.0, 3), "y": (0.0, 1.0, 2), "new": [True, False]}
    grid = predict_grid(model, axes, return_std=False, level=0.9)
    assert set(grid.data_vars) == {"mean", "lower", "upper"}
    rows = pd.DataFrame({"x": [0.0, 0.5, 1.0], "y": 1.0, "new": True})
    np.testing.assert_allclose(grid["mean"].sel(new=1.0, y=1.0).values.ravel(), model.predict(rows))
