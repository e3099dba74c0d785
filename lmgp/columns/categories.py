"""Columns of categories: few of them as corners of a simplex, many of them by their effects."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from scipy.linalg import helmert

from lmgp.columns.base import Column
from lmgp.data import Floats, Indices
from lmgp.kernels.table import Label
from lmgp.utils.columns import reads_as_number

if TYPE_CHECKING:
    import pandas

# Of more categories, one coordinate has the effect of each.
MOST_LEVELS = 32


@dataclass(frozen=True)
class Categories(Column):
    """A column of categories, all equally far from each other: a kernel has one correlation for any two of them.

    A level that no training row has is as far from all others as these are from each other. A missing value is a level
    like others where training rows lack the value, and elsewhere a new level.

    Attributes
    ----------
    levels : tuple of str
    n_missing : int
        Of the training rows.
    """

    kind: ClassVar = "categories"
    exchangeable: ClassVar = True
    slopes: ClassVar[tuple[tuple[int, ...], ...]] = ((),)
    shares_lengthscale: ClassVar = True
    levels: tuple[str, ...]
    n_missing: int = 0

    @classmethod
    def of(cls, column: "pandas.Series") -> Self:
        """Look at the training rows."""
        texts = _texts(column)
        return cls(tuple(sorted(texts.dropna().unique())), int(texts.isna().sum()))

    @property
    def n_levels(self) -> int:
        """The number of levels, with that of a missing value."""
        return len(self.levels) + bool(self.n_missing)

    @property
    def n_coordinates(self) -> int:
        return self.n_levels

    def read(self, column: "pandas.Series", which: str) -> Floats:
        texts = _texts(column)
        places = dict.fromkeys(texts.dropna().unique(), -1.0)
        # Another table may write a number in another way, 1.0 for 1, and have spaces around a text.
        for spelled in (_number, str.strip, str):
            known = {spelled(level): float(place) for place, level in enumerate(self.levels)} | {None: -1.0}
            places |= {text: known[level] for text in places if (level := spelled(text)) in known}
        return texts.map(places).to_numpy(dtype=np.float64)

    def places(self, values: Floats) -> Indices:
        """Return the level of each value; −1 of a new one."""
        return np.where(np.isnan(values), len(self.levels) if self.n_missing else -1, values).astype(np.intp)

    def coordinates(self, values: Floats, deviations: Floats) -> Floats:
        corners, k = self._corners, self.n_levels
        known = np.column_stack((corners, np.zeros(k)))
        # The last coordinate is that of new levels alone, which are √k from each corner, too.
        new = np.append(np.zeros(k - 1), np.sqrt(0.5 * (k + 1)))
        return np.vstack((known, new))[self.places(values[:, 0])]

    @property
    def _corners(self) -> Floats:
        """The levels: corners of a simplex around zero, at distances √k.

        So the root of the mean square of the standard deviations, in which lengthscales are learned, is what it is of
        numbers at these distances.
        """
        return np.sqrt(0.5 * self.n_levels) * helmert(self.n_levels).T

    def values(self, coordinates: Floats) -> Floats:
        place = np.argmax(coordinates[:, :-1] @ self._corners.T, axis=1)
        place = np.where(coordinates[:, -1] > 0.0, -1, place)
        return np.where(place == len(self.levels), np.nan, place)[:, None]

    def coordinate_names(self, names: Sequence[str]) -> list[str]:
        named = [*self.levels, *(["missing"] * bool(self.n_missing))][1:]
        return [*(f"{names[0]}: {level} against those before" for level in named), f"{names[0]} is new"]

    def labels(self, names: Sequence[str]) -> list[Label]:
        known, new = self.coordinates(np.array([[0.0], [-1.0]]), np.zeros((2, 1)))
        return [Label(names[0], "correlation of categories", apart=new - known)]

    @property
    def told(self) -> str:
        lacked = f", and one for {self.n_missing:,} rows where it is missing" if self.n_missing else ""
        return f"{len(self.levels):,} {self.kind}{lacked}"


@dataclass(frozen=True)
class ManyCategories(Categories):
    """A column of more than 32 categories: the effect of each on the target, and its standard deviation.

    Attributes
    ----------
    means, deviations : tuple of float
        Of each level, and of one without rows, see `lmgp.columns.effects`. Empty before they are known; coordinates
        then are the number of the level, and 0.
    """

    exchangeable: ClassVar = False
    slopes: ClassVar = ((0,),)
    shares_lengthscale: ClassVar = False
    n_coordinates: ClassVar = 2
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()

    def coordinates(self, values: Floats, deviations: Floats) -> Floats:
        places = self.places(values[:, 0])
        if not self.means:
            return np.column_stack((places, np.zeros(len(places))))
        typical = (*self.deviations[:-1], float(np.median(self.deviations[:-1])))
        return np.column_stack([np.array(of)[places] for of in (self.means, typical)])

    @property
    def unseen_deviation(self) -> float:
        """The standard deviation of an unseen category's effect, beyond that of a typical one."""
        return float(np.sqrt(max(self.deviations[-1] ** 2 - np.median(self.deviations[:-1]) ** 2, 0.0)))

    def values(self, coordinates: Floats) -> Floats:
        if not self.means:
            return np.where(coordinates[:, :1] == len(self.levels), np.nan, coordinates[:, :1])
        order = np.argsort(self.means[:-1])
        place = np.searchsorted(np.array(self.means)[order], coordinates[:, 0]).clip(0, len(order) - 1)
        return order[place].astype(np.float64)[:, None]

    def coordinate_names(self, names: Sequence[str]) -> list[str]:
        return [f"{names[0]}, effect", f"{names[0]}, its standard deviation"]

    def labels(self, names: Sequence[str]) -> list[Label]:
        return Column.labels(self, names)

    @property
    def told(self) -> str:
        return f"{super().told}: the effect of each, and its standard deviation"


def _number(text: str) -> float | None:
    """Return the number that a text is: none of a code such as 01234, or of more digits than floats have."""
    if (word := text.lower()) in ("true", "false"):
        return float(word == "true")
    is_number = reads_as_number(text) and abs(float(text)) < 2**53 and not re.match(r"0\d", text)
    return float(_name(float(text))) if is_number else None  # of as many digits as names have


def _texts(column: "pandas.Series") -> "pandas.Series":
    """Return the names of categories; a number has one name, of whatever type its column is."""
    if column.dtype.kind in "bf":
        return column.astype("Float64").map(_name, na_action="ignore").astype(object)
    return column.astype(object).map(str, na_action="ignore")


def _name(number: float) -> str:
    return f"{number:.0f}" if number % 1.0 == 0.0 and abs(number) < 2**53 else f"{number:.15g}"
