"""Tables of geopandas: points that are fitted and predicted, and averages over areas."""

import warnings
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pytest
import rasterio
import shapely
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, MaternKernel, load, predict_areas, predict_grid
from lmgp.areas import lattice
from lmgp.cli import main
from lmgp.errors import ColumnWarning, InputError
from lmgp.grids import write_geotiff

GIVEN: dict[str, Any] = {"noise_variance": 0.1, "noise": "normal"}
METRES, DEGREES = "EPSG:27700", "EPSG:4326"


def wells(crs: str | None, n: int = 60) -> tuple[geopandas.GeoDataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-3.0, 1.0, n), rng.uniform(51.0, 54.0, n)
    depth = rng.uniform(0.0, 10.0, n)
    frame = geopandas.GeoDataFrame({"depth": depth}, geometry=geopandas.points_from_xy(x, y), crs=DEGREES)
    target = np.sin(2.0 * x) + 0.3 * y + 0.1 * depth + 0.1 * rng.normal(size=n)
    return (frame.set_crs(None, allow_override=True) if crs is None else frame.to_crs(crs)), target


# -------------------------------------------------------------------------------------------------------------- points


def test_points_in_degrees_are_places_on_the_sphere() -> None:
    frame, y = wells(DEGREES)
    model = GPRegressor(kernel=GaussianKernel([80.0, 80.0, 80.0, 5.0]), **GIVEN).fit(frame, y)
    assert list(model.feature_names_in_) == ["longitude", "latitude", "depth"]
    table = pd.DataFrame({"longitude": frame.geometry.x, "latitude": frame.geometry.y, "depth": frame["depth"]})
    by_hand = GPRegressor(kernel=model.kernel_, metric="sphere", **GIVEN).fit(table, y)
    np.testing.assert_array_equal(model.predict(frame), by_hand.predict(table))
    np.testing.assert_array_equal(model.predict(table), by_hand.predict(table))
    assert str(model.columns_).startswith("longitude, latitude  places on the sphere")


def test_points_that_may_be_degrees_and_do_not_say_so_are_warned_of() -> None:
    frame, y = wells(None)
    model = GPRegressor(kernel=GaussianKernel([1.0, 1.0, 5.0]), **GIVEN)
    with pytest.warns(ColumnWarning, match=r"no reference system .* give X.set_crs\('EPSG:4326'\)"):
        model.fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)
        model.fit(frame.set_geometry(frame.geometry.scale(100.0, 100.0, origin=(0.0, 0.0))), y)


def test_points_of_a_projection_are_two_columns(tmp_path: Path) -> None:
    frame, y = wells(METRES)
    model = GPRegressor(kernel=GaussianKernel([8e4, 8e4]), **GIVEN).fit(frame.geometry, y)
    table = pd.DataFrame({"x": frame.geometry.x, "y": frame.geometry.y})
    by_hand = GPRegressor(kernel=model.kernel_, **GIVEN).fit(table, y)
    np.testing.assert_array_equal(model.predict(frame.geometry), by_hand.predict(table))
    model.save(tmp_path / "model.lmgp")
    again = load(tmp_path / "model.lmgp")
    np.testing.assert_array_equal(again.predict(frame.geometry), model.predict(frame.geometry))
    with pytest.raises(
        InputError, match=r"reference system EPSG:4326, and .* were in EPSG:27700: give them by .to_crs"
    ):
        again.predict(frame.geometry.to_crs(DEGREES))


def test_heights_of_points_are_left_out_with_a_warning() -> None:
    flat, y = wells(METRES)
    frame = flat.set_geometry(geopandas.points_from_xy(flat.geometry.x, flat.geometry.y, flat["depth"], crs=METRES))
    model = GPRegressor(kernel=GaussianKernel([8e4, 8e4, 5.0]), **GIVEN)
    for points in (frame[["geometry"]], frame.geometry, frame.geometry.rename("where")):
        with pytest.warns(
            ColumnWarning, match=r"The points have heights, which are left out: .*\.assign\(height="
        ) as told:
            GPRegressor(kernel=GaussianKernel([8e4, 8e4]), **GIVEN).fit(points, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cured = eval(str(told[0].message).partition("as a column, ")[2].rstrip("."), {"X": points})
            np.testing.assert_array_equal(model.fit(cured, y).predict(cured), model.fit(flat, y).predict(flat))


def test_degrees_are_those_of_a_reference_system() -> None:
    frame, y = wells(DEGREES)
    model = GPRegressor(kernel=GaussianKernel([80.0, 80.0, 80.0]), **GIVEN)
    with pytest.raises(InputError, match=r"in the unit grad, and must be in degrees: give them by \.to_crs"):
        model.fit(frame.geometry.to_crs("EPSG:4807"), y)
    model.fit(frame.geometry, y)
    with pytest.raises(InputError, match=r"have no reference system, .* give them by \.set_crs\('EPSG:4326'\)"):
        model.predict(frame.geometry.set_crs(None, allow_override=True))


def test_a_map_keeps_the_reference_system(tmp_path: Path) -> None:
    frame, y = wells(METRES)
    model = GPRegressor(kernel=GaussianKernel([8e4, 8e4]), **GIVEN).fit(frame.geometry, y)
    west, south, east, north = frame.total_bounds
    grid = predict_grid(model, {"x": (west, east, 12), "y": (south, north, 10)})
    write_geotiff(grid, tmp_path / "map.tif")
    with rasterio.open(tmp_path / "map.tif") as file:
        assert file.crs.to_epsg() == 27700


def test_what_is_no_table_of_points_is_refused() -> None:
    frame, y = wells(METRES)
    model = GPRegressor(kernel=GaussianKernel([8e4, 8e4]), **GIVEN)
    with pytest.raises(InputError, match=r"Geometries must be points; got Polygon\. .*representative_point"):
        model.fit(frame.set_geometry(frame.buffer(10.0)), y)
    lacking = frame.copy()
    lacking.loc[3, "geometry"] = None
    with pytest.raises(InputError, match=r"1 of 60 rows have no point"):
        model.fit(lacking, y)
    with pytest.raises(InputError, match=r"X has a column 'x' beside its geometry"):
        model.fit(frame.rename(columns={"depth": "x"}), y)
    with pytest.raises(InputError, match=r"geometry.* has geometries: GPRegressor takes points as they are; elsewhere"):
        ExactGPRegressor(GaussianKernel(8e4), 0.1).fit(frame, y)


# --------------------------------------------------------------------------------------------------------------- areas


def plane() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.uniform(0.0, 4.0, (50, 2)), columns=["x", "y"])
    return X, (np.sin(2.0 * X["x"]) + np.cos(X["y"])).to_numpy() + 0.1 * rng.normal(size=50)


AREAS = geopandas.GeoSeries([shapely.box(0, 0, 2, 1), shapely.Point(2, 2).buffer(1.0), shapely.box(9, 9, 10, 10)])


def test_averages_are_those_of_dense_algebra() -> None:
    X, y = plane()
    kernel = MaternKernel(0.8, 1.3, smoothness=1.5)
    model = ExactGPRegressor(kernel, 0.02).fit(X, y)
    found = predict_areas(model, AREAS)
    assert isinstance(found, geopandas.GeoDataFrame)
    train = X.to_numpy()
    inverse = np.linalg.inv(np.asarray(kernel(train, train)) + 0.02 * np.eye(50))
    for area, row in zip(AREAS, found.itertuples(), strict=True):
        points, shares = lattice(area, 64)
        to_train, among = (shares @ np.asarray(kernel(points, other)) for other in (train, points))
        assert row.mean == pytest.approx(y.mean() + to_train @ inverse @ (y - y.mean()), rel=1e-8)
        assert row.std == pytest.approx(np.sqrt(shares @ among - to_train @ inverse @ to_train), rel=1e-6)


def test_averages_are_those_of_drawn_functions() -> None:
    X, y = plane()
    model = ExactGPRegressor(MaternKernel(0.8, 1.3, smoothness=1.5), 0.02).fit(X, y)
    points, shares = lattice(AREAS[1], 400)
    draws = shares @ model.sample_y(pd.DataFrame(points, columns=["x", "y"]), 2000)
    found = predict_areas(model, AREAS[1:2], n_points=np.int64(100))
    assert found["mean"].iloc[0] == pytest.approx(draws.mean(), abs=4.0 * draws.std() / np.sqrt(2000))
    assert found["std"].iloc[0] == pytest.approx(draws.std(), rel=0.08)


@pytest.mark.parametrize("recipe", ["nearest_rows", "exact", "spectral"])
def test_models_agree_about_averages(recipe: str) -> None:
    X, y = plane()
    options: dict[str, Any] = {"kernel": MaternKernel(0.8, 1.3, smoothness=1.5), "noise_variance": 0.02}
    exact = predict_areas(ExactGPRegressor(**options).fit(X, y), AREAS)
    found = predict_areas(GPRegressor(methods=[recipe], noise="normal", random_state=0, **options).fit(X, y), AREAS)
    np.testing.assert_allclose(found["mean"], exact["mean"], atol=0.01)
    np.testing.assert_allclose(found["std"], exact["std"], rtol=0.1)


def test_areas_bring_the_values_of_other_columns_and_weigh_degrees() -> None:
    frame, y = wells(DEGREES)
    model = GPRegressor(kernel=GaussianKernel([80.0, 80.0, 80.0, 5.0]), **GIVEN).fit(frame, y)
    area = geopandas.GeoDataFrame({"depth": [3.0]}, geometry=[shapely.box(-2, 51, -1, 54)], crs=DEGREES)
    found = predict_areas(model, area)
    points, shares = lattice(area.geometry.iloc[0], 64)
    table = pd.DataFrame(points, columns=["longitude", "latitude"]).assign(depth=3.0)
    weights = shares * np.cos(np.radians(points[:, 1]))
    assert found["mean"].iloc[0] == pytest.approx(np.average(model.predict(table), weights=weights))
    assert found.crs.to_epsg() == 4326
    with pytest.raises(InputError, match=r"The model has the column 'depth' beside longitude and latitude"):
        predict_areas(model, area.geometry)
    with pytest.raises(InputError, match=r"reference system EPSG:27700, and .* EPSG:4326"):
        predict_areas(model, area.to_crs(METRES))


@pytest.mark.parametrize("crs", [METRES, "EPSG:4807"])
def test_areas_of_a_model_of_degrees_are_in_degrees(crs: str) -> None:
    frame, y = wells(DEGREES)
    table = pd.DataFrame({"lon": frame.geometry.x, "lat": frame.geometry.y})
    model = ExactGPRegressor(GaussianKernel(1.0), 0.1).fit(table, y)
    area = geopandas.GeoSeries([shapely.box(-2, 51, -1, 54)], crs=DEGREES)
    predict_areas(model, area)
    with pytest.raises(InputError, match=rf"of lon and lat, in degrees, .* {crs}: give them by \.to_crs\('EPSG:4326'"):
        predict_areas(model, area.to_crs(crs))


def test_areas_keep_their_columns_and_none_is_replaced() -> None:
    frame, y = wells(METRES)
    model = ExactGPRegressor(GaussianKernel(8e4), 0.1).fit(np.stack((frame.geometry.x, frame.geometry.y), axis=1), y)
    parishes = frame.head(2).geometry.buffer(1e4).to_frame("geometry").assign(parish=["Wells", "Bath"])
    found = predict_areas(model, parishes)
    assert list(found.columns) == ["geometry", "parish", "mean", "std"]
    pd.testing.assert_frame_equal(found[["geometry", "parish"]], parishes)
    with pytest.raises(InputError, match="areas have a column 'mean', which the prediction would replace"):
        predict_areas(model, found.drop(columns="std"))


def test_a_pipeline_predicts_areas() -> None:
    X, y = plane()
    model = make_pipeline(StandardScaler(), ExactGPRegressor(GaussianKernel(0.6), 0.02)).fit(X, y)
    scale = StandardScaler().fit(X).scale_
    by_hand = ExactGPRegressor(GaussianKernel(0.6 * scale), 0.02).fit(X, y)
    pd.testing.assert_frame_equal(
        pd.DataFrame(predict_areas(model, AREAS)[["mean", "std"]]),
        pd.DataFrame(predict_areas(by_hand, AREAS)[["mean", "std"]]),
    )


def test_cells_of_a_raster_are_areas(tmp_path: Path) -> None:
    X, y = plane()
    model = ExactGPRegressor(MaternKernel(0.8, 1.3, smoothness=1.5), 0.02).fit(X, y)
    axes = {"x": (0.5, 3.5, 4), "y": (0.5, 3.5, 4)}
    grid = predict_grid(model, axes, average_over=8)
    cells = geopandas.GeoSeries([shapely.box(x, 3 - y, x + 1, 4 - y) for y in range(4) for x in range(4)])
    found = predict_areas(model, cells)
    np.testing.assert_allclose(grid["mean"].values.ravel(), found["mean"], rtol=1e-8)
    np.testing.assert_allclose(grid["std"].values.ravel(), found["std"], rtol=1e-6)
    assert np.all(grid["std"].values < predict_grid(model, axes)["std"].values)
    with pytest.raises(InputError, match="average_over is a positive number of points; got 0"):
        predict_grid(model, axes, average_over=0)
    with pytest.raises(InputError, match="average_over is of the function: leave out include_noise and level"):
        predict_grid(model, axes, average_over=2, level=0.9)
    with pytest.raises(InputError, match="The size of a pixel follows from two values of 'y'"):
        predict_grid(model, {"x": (0, 1, 3), "y": 2.0}, average_over=2)
    model.save(tmp_path / "model.lmgp")
    command = ["predict", str(tmp_path / "model.lmgp"), "--grid", "x=0.5:3.5:4", "y=0.5:3.5:4", "--average-over", "8"]
    assert main([*command, "--out", str(tmp_path / "map.tif")]) == 0
    with rasterio.open(tmp_path / "map.tif") as file:
        np.testing.assert_allclose(file.read(1), grid["mean"].values)
    assert main([*command, "--out", str(tmp_path / "map.csv")]) == 2


def test_a_lattice_lies_within_its_area_and_is_never_empty() -> None:
    points, _ = lattice(AREAS[1], 100)
    assert 60 <= len(points) <= 140
    assert np.all(np.hypot(*(points - 2.0).T) < 1.0)
    sliver = shapely.Polygon([(0, 0), (10, 10), (10, 10.001)])
    assert len(lattice(sliver, 4)[0]) >= 1
    assert len(lattice(shapely.box(0, 0, 1e6, 1), 64)[0]) == 64
    ring = shapely.Point(0, 0).buffer(1.0).difference(shapely.Point(0, 0).buffer(0.99))
    inside, _ = lattice(ring, 1)
    assert shapely.contains_xy(ring, inside).all()


TRIANGLE = shapely.Polygon([(0, 0), (3, 0), (0, 3)])
BOW_TIE = shapely.Polygon([(0, 0), (3, 3), (3, 0), (0, 2)])
LOBES, AROUND = shapely.Polygon([(0, 0), (3, 3), (3, 0), (0, 3)]), [(0, 0), (4, 0), (4, 4), (0, 4)]
HOLE = shapely.Polygon(AROUND, [[(1, 1), (5, 1), (5, 2), (1, 2)]])  # which sticks out
OVERLAP = shapely.MultiPolygon([shapely.box(0, 0, 3, 1), shapely.box(2, 0, 4, 1)])


@pytest.mark.parametrize(
    ("area", "mean"), [(TRIANGLE, 2.0), (BOW_TIE, 3.082), (LOBES, 3.0), (HOLE, 4.0), (OVERLAP, 2.5)]
)
def test_an_average_is_over_all_of_an_area_and_nothing_beside(area: shapely.Geometry, mean: float) -> None:
    X = pd.DataFrame(np.random.default_rng(0).uniform(0.0, 4.0, (300, 2)), columns=["x", "y"])
    model = ExactGPRegressor(GaussianKernel(5.0, 100.0), 1e-4).fit(X, X.sum(axis=1))
    assert abs(predict_areas(model, geopandas.GeoSeries([area]))["mean"].iloc[0] - mean) < 5e-3


def test_what_is_no_area_is_refused() -> None:
    X, y = plane()
    model = ExactGPRegressor(GaussianKernel(1.0), 0.02).fit(X, y)
    with pytest.raises(InputError, match=r"areas must be a GeoDataFrame or a GeoSeries of polygons; got a list"):
        predict_areas(model, [shapely.box(0, 0, 1, 1)])
    with pytest.raises(InputError, match=r"Areas must be polygons; got Point"):
        predict_areas(model, geopandas.GeoSeries([shapely.Point(0, 0)]))
    with pytest.raises(InputError, match=r"1 of 1 areas have no extent"):
        predict_areas(model, geopandas.GeoSeries([shapely.box(0, 0, 0, 1)]))
    with pytest.raises(InputError, match=r"n_points must be a positive integer; got 0"):
        predict_areas(model, AREAS, 0)
    several = ExactGPRegressor(GaussianKernel(1.0), 0.02).fit(X, np.column_stack((y, y)))
    with pytest.raises(InputError, match=r"Averages are of models of one target; got one of 2"):
        predict_areas(several, AREAS)


def test_areas_take_columns_of_all_kinds() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": rng.uniform(0.0, 4.0, 60), "y": rng.uniform(0.0, 4.0, 60), "new": rng.uniform(size=60) < 0.5}
    )
    table["town"] = rng.choice(["a", "b"], 60)
    model = GPRegressor(kernel=GaussianKernel(1.0), noise_variance=0.1, noise="normal").fit(table, rng.normal(size=60))
    areas = geopandas.GeoDataFrame({"new": [True], "town": ["a"]}, geometry=[shapely.box(0.0, 0.0, 1.0, 1.0)])
    places, _ = lattice(areas.geometry[0], 64)
    rows = pd.DataFrame({"x": places[:, 0], "y": places[:, 1], "new": True, "town": "a"})
    np.testing.assert_allclose(predict_areas(model, areas)["mean"], model.predict(rows).mean())


def test_an_area_of_parts_that_lie_far_apart_is_refused() -> None:
    parts = shapely.MultiPolygon([shapely.box(0.0, 0.0, 1.0, 1.0), shapely.box(1e5, 1e5, 1e5 + 1.0, 1e5 + 1.0)])
    with pytest.raises(InputError, match="too many places"):
        lattice(parts, 64)
