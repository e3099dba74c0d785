"""Two columns that are a place: on the sphere, or on a plane whose axes are turned."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lmgp.columns.base import Column
from lmgp.columns.numbers import numbers_of
from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.kernels.sphere import POINT_NAMES, to_degrees, to_points
from lmgp.kernels.table import Label

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class TwoColumns(Column):
    """Two columns of numbers, of which none may be missing."""

    is_numeric = True

    def read(self, column: "pandas.Series", which: str) -> Floats:
        values = numbers_of(column)
        if missing := np.isnan(values).sum():
            raise InputError(
                f"Input X contains NaN (missing values) in {missing:,} of {len(values):,} rows of {which}, which is a "
                "part of a place: leave these rows out."
            )
        return values


@dataclass(frozen=True)
class OnSphere(TwoColumns):
    """Longitude and latitude in degrees: points in three dimensions, in km, that share a lengthscale."""

    kind: ClassVar = "places on the sphere, as x, y and z in km"
    slopes: ClassVar = ((0, 1), (2,))
    shares_lengthscale: ClassVar = True
    n_coordinates: ClassVar = 3

    def coordinates(self, values: Floats, deviations: Floats) -> Floats:
        return to_points(values)

    def values(self, coordinates: Floats) -> Floats:
        return to_degrees(coordinates)

    def coordinate_names(self, names: Sequence[str]) -> list[str]:
        return list(POINT_NAMES)

    def labels(self, names: Sequence[str]) -> list[Label]:
        return [Label(", ".join(names), "km")]


@dataclass(frozen=True)
class OnTurnedAxes(TwoColumns):
    """Two columns of one unit, seen along and across a direction, which each have a lengthscale.

    Attributes
    ----------
    angle : float
        From the first column towards the second, in degrees: the direction along which the first lengthscale is. It is
        learned where it is 0.
    """

    kind: ClassVar = "places on turned axes"
    slopes: ClassVar = ((0, 1), (0, 1))
    n_coordinates: ClassVar = 2
    angle: float = 0.0

    @property
    def _axes(self) -> Floats:
        """The directions along and across, one a row."""
        turn = np.radians(self.angle)
        return np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])

    def coordinates(self, values: Floats, deviations: Floats) -> Floats:
        return np.einsum("ij,kj->ik", values, self._axes)  # which rounds one row as it rounds many

    def values(self, coordinates: Floats) -> Floats:
        return coordinates @ self._axes

    def coordinate_names(self, names: Sequence[str]) -> list[str]:
        return [f"along {self.angle:.3g}°", f"across {self.angle:.3g}°"]

    def labels(self, names: Sequence[str]) -> list[Label]:
        return [Label(f"{', '.join(names)} {name}") for name in self.coordinate_names(names)]

    @property
    def told(self) -> str:
        return f"{self.kind}: along {self.angle:.3g}° from the first column towards the second, and across"
