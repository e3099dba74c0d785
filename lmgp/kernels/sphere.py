"""Longitude and latitude: places on the earth as points in three dimensions, in kilometres.

Differences of degrees are no distances: a degree of longitude is 111 km at the equator and none at a pole, and
longitudes 180 and −180 are one place. The straight line between two points on the sphere, the chord, has neither fault,
and every kernel of distances in three dimensions is positive semi-definite there. Up to 1,000 km a chord is within 0.1%
of the distance along the ground.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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

# The names of the columns, in lower case, and their least and largest values, in degrees.
LONGITUDES, LONGITUDE_RANGE = ("lon", "longitude", "lng"), (-180.0, 360.0)
LATITUDES, LATITUDE_RANGE = ("lat", "latitude"), (-90.0, 90.0)


@dataclass(frozen=True)
class OnSphere:
    """Which columns are longitude and latitude, and what becomes of all columns.

    Attributes
    ----------
    n_inputs : int
        The number of columns, d.
    longitude, latitude : int
        Their columns.
    given : tuple of str
        The names of the columns; x0, x1, ... where they have none.
    """

    n_inputs: int
    longitude: int
    latitude: int
    given: tuple[str, ...]

    @classmethod
    def of(cls, n_inputs: int, names: Sequence[str] | None) -> Self:
        """Find longitude and latitude: by their names, or without names in the first two columns.

        Raises
        ------
        InputError
            If there are fewer than two columns, or not exactly one column has each name.
        """
        if n_inputs < 2:
            raise InputError(f"Longitude and latitude are two columns, in degrees; X has {n_inputs} feature(s).")
        if names is None:
            return cls(n_inputs, 0, 1, tuple(f"x{j}" for j in range(n_inputs)))
        found = []
        for what, accepted in (("longitude", LONGITUDES), ("latitude", LATITUDES)):
            at = [j for j, name in enumerate(names) if name.strip().lower() in accepted]
            if len(at) != 1:
                got = "none of" if not at else f"{', '.join(repr(names[j]) for j in at)} of"
                raise InputError(
                    f"One column must be named {' or '.join(map(repr, accepted))}, in any case, to be the {what}; got "
                    f"{got} the columns {', '.join(map(repr, names))}. Rename columns, or pass an array with longitude "
                    "and latitude first."
                )
            found += at
        return cls(n_inputs, found[0], found[1], tuple(names))

    @property
    def others(self) -> list[int]:
        """The columns that stay as they are, in their order."""
        return [j for j in range(self.n_inputs) if j not in (self.longitude, self.latitude)]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the d + 1 columns of `points`."""
        return ("x_km", "y_km", "z_km", *(self.given[j] for j in self.others))

    def points(self, X: Floats) -> Floats:
        """Replace longitude and latitude by points on the sphere.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            In degrees: longitude within [−180, 360], latitude within [−90, 90].

        Returns
        -------
        ndarray of shape (n, d + 1)
            x, y and z in km from the centre of the earth, then the other columns in their order.

        Raises
        ------
        InputError
            If a longitude or a latitude is out of its range.
        """
        _check_degrees(X[:, self.longitude], X[:, self.latitude])
        east, north = np.radians(X[:, self.longitude]), np.radians(X[:, self.latitude])
        unit = np.column_stack((np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)))
        return np.column_stack((EARTH_RADIUS * unit, X[:, self.others]))

    def degrees(self, points: Floats) -> Floats:
        """Return the columns of which `points` were made, shape (n, d), with longitudes within [−180, 180]."""
        x, y, z = points[:, :3].T
        X = np.empty((len(points), self.n_inputs))
        X[:, self.longitude] = np.degrees(np.arctan2(y, x))
        X[:, self.latitude] = np.degrees(np.arctan2(z, np.hypot(x, y)))
        X[:, self.others] = points[:, 3:]
        return X

    def groups(self, of_columns: NDArray[np.intp]) -> NDArray[np.intp]:
        """Say which columns of `points` share a lengthscale, those of equal numbers: x, y and z, and others as before.

        Examples
        --------
        >>> OnSphere.of(4, None).groups(np.arange(4))
        array([-1, -1, -1,  2,  3])
        """
        return np.append([-1, -1, -1], of_columns[self.others])

    def places(self, index: Iterable[int]) -> NDArray[np.intp]:
        """Say which columns of `points` some columns become: longitude x and y, latitude z."""
        of = {self.longitude: [0, 1], self.latitude: [2], **{j: [3 + k] for k, j in enumerate(self.others)}}
        return np.array(sorted(place for j in index for place in of[int(j)]), dtype=np.intp)


def _check_degrees(longitude: Floats, latitude: Floats) -> None:
    for what, values, (low, high) in (
        ("longitude", longitude, LONGITUDE_RANGE),
        ("latitude", latitude, LATITUDE_RANGE),
    ):
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
        rows = validated(self, X)
        self._sphere.points(rows)
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
        rows = validated(self, X, reset=False)
        return self._sphere.points(rows)

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
        return np.array(self._sphere.names, dtype=object)

    @property
    def _sphere(self) -> OnSphere:
        return OnSphere.of(self.n_features_in_, getattr(self, "feature_names_in_", None))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "n_features_in_")
