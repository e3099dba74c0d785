"""Longitude and latitude as points on a sphere."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_transformer_general

from lmgp import ExactGPRegressor, GaussianKernel, SphericalCoordinates
from lmgp.columns.table import Columns
from lmgp.errors import InputError
from lmgp.kernels.sphere import to_points

RADIUS = 6371.0088


def haversine(place: tuple[float, float], other: tuple[float, float]) -> float:
    """The distance along the ground, in km."""
    (east, north), (east2, north2) = np.radians(place), np.radians(other)
    h = np.sin((north2 - north) / 2) ** 2 + np.cos(north) * np.cos(north2) * np.sin((east2 - east) / 2) ** 2
    return float(2 * RADIUS * np.arcsin(np.sqrt(h)))


def chord(place: tuple[float, float], other: tuple[float, float]) -> float:
    points = SphericalCoordinates().fit_transform(np.array([place, other]))
    return float(np.linalg.norm(points[0] - points[1]))


def test_chords_are_those_of_the_angle_between_two_places() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        place, other = (tuple(rng.uniform([-180, -90], [360, 90])) for _ in range(2))
        assert chord(place, other) == pytest.approx(2 * RADIUS * np.sin(haversine(place, other) / (2 * RADIUS)))


def test_up_to_a_thousand_km_a_chord_is_the_distance_along_the_ground() -> None:
    london, berlin = (-0.1276, 51.5072), (13.405, 52.52)
    assert haversine(london, berlin) == pytest.approx(930, abs=3)
    assert chord(london, berlin) == pytest.approx(haversine(london, berlin), rel=1.1e-3)


def test_a_degree_of_longitude_at_60_north_is_half_of_one_at_the_equator() -> None:
    assert chord((10, 60), (11, 60)) == pytest.approx(0.5 * chord((10, 0), (11, 0)), rel=1e-4)
    assert chord((10, 0), (11, 0)) == pytest.approx(chord((10, 30), (10, 31)), rel=1e-12)


def test_one_place_has_many_names() -> None:
    assert chord((180, 10), (-180, 10)) == pytest.approx(0, abs=1e-8)
    assert chord((350, 10), (-10, 10)) == pytest.approx(0, abs=1e-8)
    assert chord((77, 90), (-12, 90)) == pytest.approx(0, abs=1e-8)


def test_columns_of_a_frame_are_found_by_name_and_the_others_follow() -> None:
    df = pd.DataFrame({"age": [1.0, 2.0], "Latitude": [10.0, 20.0], "rooms": [3, 4], "LNG": [30.0, 40.0]})
    coordinates = SphericalCoordinates().fit(df)
    assert list(coordinates.get_feature_names_out()) == ["x_km", "y_km", "z_km", "age", "rooms"]
    expected = SphericalCoordinates().fit_transform(df[["LNG", "Latitude", "age", "rooms"]].to_numpy())
    np.testing.assert_array_equal(coordinates.transform(df), expected)
    np.testing.assert_array_equal(expected[:, 3:], [[1, 3], [2, 4]])
    with pytest.raises(ValueError, match="feature names"):
        coordinates.transform(df.rename(columns={"age": "years"}))


def test_the_names_of_a_pipeline() -> None:
    df = pd.DataFrame({"lon": [1.0, 2.0], "lat": [10.0, 20.0], "height": [3.0, 4.0]})
    assert list(SphericalCoordinates().set_output(transform="pandas").fit_transform(df)) == [
        "x_km",
        "y_km",
        "z_km",
        "height",
    ]
    assert list(SphericalCoordinates().fit(df.to_numpy()).get_feature_names_out()) == ["x_km", "y_km", "z_km", "x2"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "lat"], r"'lon' or 'longitude' or 'lng'.*longitude; got none of the columns 'a', 'lat'"),
        (["lon", "b"], r"'lat' or 'latitude'.*latitude; got none of the columns 'lon', 'b'"),
        (["lon", "LON", "lat"], r"got 'lon', 'LON' of the columns 'lon', 'LON', 'lat'"),
    ],
)
def test_columns_that_are_not_found(names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SphericalCoordinates().fit(pd.DataFrame(np.zeros((2, len(names))), columns=names))


def test_one_column_is_refused() -> None:
    with pytest.raises(InputError, match="two columns, in degrees; X has 1"):
        SphericalCoordinates().fit([[1.0], [2.0]])


def test_coordinates_out_of_range() -> None:
    with pytest.raises(InputError, match=r"longitude must be within \[-180, 360\].*got 520000 in row 1, and 1 of 2"):
        SphericalCoordinates().fit([[0.0, 0.0], [520000.0, 60.0]])
    with pytest.raises(InputError, match=r"latitude must be within \[-90, 90\] degrees; got 95 in row 0.*projection"):
        SphericalCoordinates().fit([[120.0, 95.0], [20.0, 60.0]])
    with pytest.raises(InputError, match=r"got 120 in row 0, and 2 of 3 are outside.*seem to be swapped"):
        SphericalCoordinates().fit([[50.0, 120.0], [20.0, 60.0], [1.0, -100.0]])
    fitted = SphericalCoordinates().fit([[0.0, 0.0]])
    with pytest.raises(InputError, match="latitude must be within"):
        fitted.transform([[0.0, 91.0]])


def test_missing_coordinates_are_named() -> None:
    with pytest.raises(InputError, match=r"NaN .* column 'lat' \(1\)"):
        SphericalCoordinates().fit(pd.DataFrame({"lon": [0.0, 1.0], "lat": [0.0, np.nan]}))


def test_in_a_pipeline_every_model_has_it() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack((rng.uniform(0, 20, 60), rng.uniform(40, 60, 60), rng.normal(size=60)))
    y = rng.normal(size=60)
    kernel = GaussianKernel([500.0, 500.0, 500.0, 1.0])
    model = make_pipeline(SphericalCoordinates(), ExactGPRegressor(kernel, 0.1)).fit(X, y)
    points = np.column_stack((to_points(X[:, :2]), X[:, 2]))
    inner = ExactGPRegressor(kernel, 0.1).fit(points, y)
    np.testing.assert_array_equal(model.predict(X), inner.predict(points))
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))


def test_it_is_a_transformer_as_scikit_learn_has_them() -> None:
    check_transformer_general("SphericalCoordinates", SphericalCoordinates())


def test_groups_tie_the_three_coordinates_which_come_first() -> None:
    columns = Columns.of_numbers(5, ["a", "lat", "b", "lon", "c"], "sphere")
    np.testing.assert_array_equal(columns.groups, [0, 0, 0, 1, 2, 3])
    assert columns.coordinate_names == ("x_km", "y_km", "z_km", "a", "b", "c")
    np.testing.assert_array_equal(columns.slopes([3]), [0, 1])
    np.testing.assert_array_equal(columns.slopes([1, 4]), [2, 5])
