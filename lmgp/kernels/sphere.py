"""Longitude and latitude: places on the earth as points in three dimensions, in kilometres.

Differences of degrees are no distances: a degree of longitude is 111 km at the equator and none at a pole, and
longitudes 180 and −180 are one place. The straight line between two points on the sphere, the chord, has neither fault,
and every kernel of distances in three dimensions is positive semi-definite there. Up to 1,000 km a chord is within 0.1%
of the distance along the ground.
"""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from lmgp.data import Floats, validated
from lmgp.errors import InputError
from lmgp.saving.files import Savable

Metric = Literal["sphere"] | None


# The mean radius R₁ of the earth, in km.
# H. Moritz, *Geodetic Reference System 1980*, Journal of Geodesy 74, 2000, p. 131.
EARTH_RADIUS = 6371.0088

# The names of the coordinates of a point, in km from the centre of the earth.
POINT_NAMES = "x_km", "y_km", "z_km"

# The names of the columns, in lower case, and their least and largest values, in degrees.
LONGITUDES, LONGITUDE_RANGE = ("lon", "longitude", "lng"), (-180.0, 360.0)
LATITUDES, LATITUDE_RANGE = ("lat", "latitude"), (-90.0, 90.0)


def find_places(n_inputs: int, names: Sequence[str] | None) -> tuple[int, int]:
    """Find longitude and latitude: by the names of columns, or without names in the first two.

    Raises
    ------
    InputError
        If there are fewer than two columns, or not exactly one column has each name.
    """
    if n_inputs < 2:
        raise InputError(f"Longitude and latitude are two columns, in degrees; X has {n_inputs} feature(s).")
    if names is None:
        return 0, 1
    places = []
    for what, accepted in (("longitude", LONGITUDES), ("latitude", LATITUDES)):
        at = [j for j, name in enumerate(names) if name.strip().lower() in accepted]
        if len(at) != 1:
            got = "none of" if not at else f"{', '.join(repr(names[j]) for j in at)} of"
            raise InputError(
                f"One column must be named {' or '.join(map(repr, accepted))}, in any case, to be the {what}; got "
                f"{got} the columns {', '.join(map(repr, names))}. Rename columns, or pass an array with longitude "
                "and latitude first."
            )
        places += at
    return places[0], places[1]


def to_points(degrees: Floats) -> Floats:
    """Return the points on the sphere of longitudes and latitudes.

    Parameters
    ----------
    degrees : ndarray of shape (n, 2)
        Longitude within [−180, 360], latitude within [−90, 90].

    Returns
    -------
    ndarray of shape (n, 3)
        x, y and z in km from the centre of the earth.

    Raises
    ------
    InputError
        If a longitude or a latitude is out of its range.
    """
    _check_degrees(*degrees.T)
    east, north = np.radians(degrees).T
    unit = np.column_stack((np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)))
    return EARTH_RADIUS * unit


def to_degrees(points: Floats) -> Floats:
    """Return the longitudes within [−180, 180] and the latitudes of points, shape (n, 2)."""
    x, y, z = points.T
    return np.degrees(np.column_stack((np.arctan2(y, x), np.arctan2(z, np.hypot(x, y)))))


def _check_degrees(longitude: Floats, latitude: Floats) -> None:
    sides = ("longitude", longitude, LONGITUDE_RANGE), ("latitude", latitude, LATITUDE_RANGE)
    for what, values, (low, high) in sides:
        outside = np.flatnonzero((values < low) | (values > high))
        if len(outside):
            (south, north), (west, east) = LATITUDE_RANGE, LONGITUDE_RANGE
            swapped = np.all((longitude >= south) & (longitude <= north)) and np.all(
                (latitude >= west) & (latitude <= east)
            )
            cure = (
                "Longitude and latitude seem to be swapped: longitude comes first in an array."
                if what == "latitude" and swapped
                else "Coordinates of a projection, such as metres, are distances already: leave them as they are."
            )
            raise InputError(
                f"A {what} must be within [{low:g}, {high:g}] degrees; got {values[outside[0]]:g} in row {outside[0]}, "
                f"and {len(outside):,} of {len(values):,} are outside. {cure}"
            )


class SphericalCoordinates(Savable, TransformerMixin, BaseEstimator):
    """Longitude and latitude in degrees to points on the sphere, in km: for a pipeline before any model.

    The columns named lon, longitude or lng, and lat or latitude, in any case, of a data frame; of an array the first
    two, longitude first. They become three columns, x, y and z in km from the centre of the earth, a sphere of radius
    6371.0088 km; all other columns follow in their order. Distances are chords, and a lengthscale of these columns is
    in km.

    Attributes
    ----------
    n_features_in_ : int
        The number of input columns, d. The output has d + 1.
    feature_names_in_ : ndarray of str
        Where X was a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import SphericalCoordinates
    >>> km = SphericalCoordinates().fit_transform([[179.5, 0.0], [-179.5, 0.0]])
    >>> float(np.linalg.norm(km[0] - km[1]).round(2))
    111.19
    """

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Find the columns.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        InputError
            If longitude or latitude cannot be found, or is out of its range.
        """
        self._points(validated(self, X))
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Map rows.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, d + 1)
        """
        check_is_fitted(self)
        return self._points(validated(self, X, reset=False))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the output columns: x_km, y_km, z_km, and those of the others.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        return np.array([*POINT_NAMES, *np.delete(names, self._places)], dtype=object)

    @property
    def _places(self) -> tuple[int, int]:
        return find_places(self.n_features_in_, getattr(self, "feature_names_in_", None))

    def _points(self, rows: Floats) -> Floats:
        return np.hstack((to_points(rows[:, self._places]), np.delete(rows, self._places, axis=1)))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")
