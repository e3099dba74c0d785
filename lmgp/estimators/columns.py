"""Columns of a table as coordinates: numbers, categories, dates, and values that are missing."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.sparse import issparse

from lmgp.data import Floats, Indices
from lmgp.errors import ColumnWarning, InputError
from lmgp.estimators.gaps import Gaps
from lmgp.utils.columns import (
    NUMBERS,
    column_index,
    dask_kind,
    label,
    reads_as_date,
    reads_as_number,
    refuse_other_than_numbers,
    with_columns,
)  # fmt: skip

if TYPE_CHECKING:
    import pandas

Missing = Literal["auto", "impute", "error"]

# Of more categories, one coordinate has the effect of each.
MOST_LEVELS = 32
# The calendar's periods, in days.
PERIODS = {"day": 1.0, "week": 7.0, "year": 365.2425}
DAY = np.timedelta64(1, "D")


@dataclass(frozen=True)
class _Column(ABC):
    """What one column of a table becomes.

    Its values are one number a row, NaN where a value is missing; its coordinates are what a kernel sees.
    """

    kind: ClassVar[str]
    # Whether all values are equally far from each other, so that none has a slope.
    exchangeable: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_coordinates(self) -> int:
        """The number of coordinates."""

    @abstractmethod
    def read(self, column: "pandas.Series") -> Floats:
        """Return the values of a column, shape (n,)."""

    @abstractmethod
    def coordinates(self, values: Floats) -> Floats:
        """Return the coordinates of values, shape (n, k)."""

    @abstractmethod
    def values(self, coordinates: Floats) -> Floats:
        """Return the values that have some coordinates."""

    @property
    @abstractmethod
    def suffixes(self) -> list[str]:
        """What the names of the coordinates have behind the name of the column."""

    @property
    def groups(self) -> list[int]:
        """Which coordinates share a lengthscale: those of equal numbers."""
        return list(range(self.n_coordinates))

    @property
    def told(self) -> str:
        """The kind, and what else there is to say."""
        return self.kind


@dataclass(frozen=True)
class _Numbers(_Column):
    """A column of numbers. Where some of the training rows lack it, a second coordinate marks these rows.

    A missing number is what the other numbers of the row let expect, see `lmgp.estimators.gaps`, and the mark is its
    standard deviation, which shares the lengthscale of the column: squared distances to this row are what they are on
    the average over all values that it may have.

    Attributes
    ----------
    n_missing : int
        Of the training rows.
    """

    kind: ClassVar = "numbers"
    n_missing: int = 0

    @classmethod
    def of(cls, column: "pandas.Series") -> Self:
        """Look at the training rows."""
        return cls(int(np.isnan(_numbers(column)).sum()))

    @property
    def n_coordinates(self) -> int:
        return 2 if self.n_missing else 1

    def read(self, column: "pandas.Series") -> Floats:
        return _numbers(column)

    def coordinates(self, values: Floats) -> Floats:
        return self.marked(values, np.zeros(len(values)))

    def marked(self, values: Floats, deviations: Floats) -> Floats:
        """Return the coordinates of values without gaps, with the standard deviations of those that were missing."""
        return np.column_stack((values, deviations) if self.n_missing else (values,))

    def values(self, coordinates: Floats) -> Floats:
        missing = coordinates[:, 1:].any(axis=1)
        return np.where(missing, np.nan, coordinates[:, 0])

    @property
    def groups(self) -> list[int]:
        return [0] * self.n_coordinates

    @property
    def suffixes(self) -> list[str]:
        return ["", " is missing"][: self.n_coordinates]

    @property
    def told(self) -> str:
        lacked = (
            f", missing in {self.n_missing:,} rows: filled by the other numbers, and marked" if self.n_missing else ""
        )
        return f"{self.kind}{lacked}"


@dataclass(frozen=True)
class _Categories(_Column):
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

    def read(self, column: "pandas.Series") -> Floats:
        places = {level: float(place) for place, level in enumerate(self.levels)}
        texts = _texts(column)
        return texts.map(places).fillna(texts.isna().map({True: np.nan, False: -1.0})).to_numpy(dtype=np.float64)

    def places(self, values: Floats) -> Indices:
        """Return the level of each value; −1 of a new one."""
        return np.where(np.isnan(values), len(self.levels) if self.n_missing else -1, values).astype(np.intp)

    def coordinates(self, values: Floats) -> Floats:
        corners, k = self._corners, self.n_levels
        known = np.column_stack((corners, np.zeros(k)))
        # The last coordinate is that of new levels alone, which are √k from each corner, too.
        new = np.append(np.zeros(k - 1), np.sqrt(0.5 * (k + 1)))
        return np.vstack((known, new))[self.places(values)]

    @property
    def _corners(self) -> Floats:
        """The levels: corners of a simplex around zero, at distances √k.

        So the root of the mean square of the standard deviations, in which lengthscales are learned, is what it is of
        numbers at these distances.
        """
        corners: Floats = np.sqrt(0.5 * self.n_levels) * helmert(self.n_levels).T
        return corners

    def values(self, coordinates: Floats) -> Floats:
        place = np.argmax(coordinates[:, :-1] @ self._corners.T, axis=1)
        place = np.where(coordinates[:, -1] > 0.0, -1, place)
        return np.where(place == len(self.levels), np.nan, place)

    @property
    def suffixes(self) -> list[str]:
        named = [*self.levels, *(["missing"] * bool(self.n_missing))][1:]
        return [*(f": {level} against those before" for level in named), " is new"]

    @property
    def groups(self) -> list[int]:
        return [0] * self.n_coordinates

    @property
    def told(self) -> str:
        lacked = f", and one for {self.n_missing:,} rows where it is missing" if self.n_missing else ""
        return f"{len(self.levels):,} {self.kind}{lacked}"


@dataclass(frozen=True)
class _ManyCategories(_Categories):
    """A column of more than 32 categories: the effect of each on the target, and its standard deviation.

    Attributes
    ----------
    means, deviations : tuple of float
        Of each level, and of one without rows, see `lmgp.estimators.effects`. Empty before they are known; coordinates
        then are the number of the level, and 0.
    """

    exchangeable: ClassVar = False
    means: tuple[float, ...] = ()
    deviations: tuple[float, ...] = ()

    @property
    def n_coordinates(self) -> int:
        return 2

    def coordinates(self, values: Floats) -> Floats:
        places = self.places(values)
        if not self.means:
            return np.column_stack((places, np.zeros(len(places))))
        return np.column_stack([np.array(of)[places] for of in (self.means, self.deviations)])

    def values(self, coordinates: Floats) -> Floats:
        order = np.argsort(self.means[:-1])
        place = np.searchsorted(np.array(self.means)[order], coordinates[:, 0]).clip(0, len(order) - 1)
        return order[place].astype(np.float64)

    @property
    def suffixes(self) -> list[str]:
        return [", effect", ", its standard deviation"]

    @property
    def groups(self) -> list[int]:
        return [0, 1]

    @property
    def told(self) -> str:
        return f"{super().told}: the effect of each, and its standard deviation"


@dataclass(frozen=True)
class _Dates(_Column):
    """A column of dates: days since the first one, and its place in those periods of the calendar that dates show.

    A period has two coordinates, those of a point that moves around a circle, which share a lengthscale.

    Attributes
    ----------
    first : str
        In ISO 8601: from where days are counted.
    periods : tuple of str
        Of `PERIODS`.
    """

    kind: ClassVar = "dates"
    first: str
    periods: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: "pandas.Series", name: str) -> Self:
        """Look at the training rows.

        Raises
        ------
        InputError
            If a date is missing.
        """
        times = _times(column)
        if np.isnat(times).any():
            raise InputError(
                f"{name} has no date in {np.isnat(times).sum():,} of {len(times):,} rows: leave these rows out, or the "
                "column."
            )
        days = np.unique((times - times.min()) / DAY)
        shown = tuple(name for name, period in PERIODS.items() if _shows(days, period))
        return cls(str(times.min()), shown)

    @property
    def n_coordinates(self) -> int:
        return 1 + 2 * len(self.periods)

    def read(self, column: "pandas.Series") -> Floats:
        days: Floats = (_times(column) - np.datetime64(self.first)) / DAY
        return days

    def coordinates(self, values: Floats) -> Floats:
        turns = [2.0 * np.pi * values / PERIODS[period] for period in self.periods]
        return np.column_stack([values, *(of(turn) for turn in turns for of in (np.cos, np.sin))])

    def values(self, coordinates: Floats) -> Floats:
        return coordinates[:, 0]

    @property
    def suffixes(self) -> list[str]:
        return ["", *(f" in the {period}, {of}" for period in self.periods for of in ("cos", "sin"))]

    @property
    def groups(self) -> list[int]:
        return [0, *(1 + number // 2 for number in range(2 * len(self.periods)))]

    @property
    def told(self) -> str:
        within = f", and the time of the {' and of the '.join(self.periods)}" if self.periods else ""
        return f"{self.kind}, as days since {self.first.removesuffix('T00:00:00.000000')}{within}"


KINDS = "number", "category", "date"


@dataclass(frozen=True, eq=False)
class Columns:
    """What all columns of a table become. Printed, it is a table.

    Attributes
    ----------
    kinds : tuple
        What each column becomes.
    names : tuple of str
    gaps : Gaps or None
        What numbers say of each other; None where all columns are numbers, and none is missing.
    """

    kinds: tuple[_Column, ...]
    names: tuple[str, ...]
    gaps: Gaps | None = None

    @classmethod
    def of(
        cls, X: Any, given: "Mapping[Any, str] | Columns | None", missing: Missing, stacklevel: int
    ) -> "Columns | None":
        """Look at the columns of training rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        given : mapping of str or int to {"number", "category", "date"}, or Columns, optional
            What columns are that are not as their values say; or what all are, whatever their values.
        missing : {"auto", "impute", "error"}
        stacklevel : int
            The line that a warning is about, as seen from the caller.

        Returns
        -------
        Columns or None
            None where all are numbers, and none is missing, and of what is no table.

        Raises
        ------
        InputError
            If a column is not of one kind, has a missing value that is not allowed, or nothing can be learned from it.

        Warns
        -----
        ColumnWarning
            If a column of categories has one level, and where values are missing unless this was allowed.
        """
        if isinstance(given, Columns):
            return given
        frame = None if given is None and _has_numbers_alone(X) else _frame(X)
        if frame is None:
            return None
        names = [str(name) for name in frame.columns]
        kinds = _given_kinds({} if given is None else given, names if hasattr(X, "columns") else None, frame.shape[1])
        columns = [
            _column(frame.iloc[:, j], label(frame, "X", j), kinds.get(j), missing) for j in range(frame.shape[1])
        ]
        found = cls(tuple(columns), tuple(names))
        if found.is_plain:
            return None
        lacked = [label(frame, "X", j) for j, one in enumerate(columns) if getattr(one, "n_missing", 0)]
        if lacked and missing == "auto":
            warnings.warn(
                f"Values are missing in {', '.join(lacked)}: a number is filled by what the others let expect, and "
                "marked, a category is a level of its own (columns_ tells). missing='impute' allows this without a "
                "word, and missing='error' refuses it.",
                ColumnWarning,
                stacklevel=stacklevel + 1,
            )
        for j, one in enumerate(columns):
            if isinstance(one, _Categories) and one.n_levels == 1:
                warnings.warn(
                    f"{label(frame, 'X', j)} has one category, {one.levels[0]!r}: it tells no rows apart, and has no "
                    "part in the model.",
                    ColumnWarning,
                    stacklevel=stacklevel + 1,
                )
        numbers = [_numbers(frame.iloc[:, j]) for j in found._of_numbers]
        if not numbers:
            return found
        values = np.column_stack(numbers)
        return replace(found, gaps=Gaps.of(np.where(np.isfinite(values), values, np.nan)))

    @property
    def _of_numbers(self) -> list[int]:
        return [j for j, one in enumerate(self.kinds) if isinstance(one, _Numbers)]

    @classmethod
    def of_numbers(cls, n_inputs: int, names: Iterable[Any] | None) -> Self:
        """Return columns of numbers that stay as they are."""
        listed = (f"x{j}" for j in range(n_inputs)) if names is None else map(str, names)
        return cls((_Numbers(),) * n_inputs, tuple(listed))

    @property
    def is_plain(self) -> bool:
        """Whether all columns are numbers, and stay as they are."""
        return all(isinstance(one, _Numbers) and not one.n_missing for one in self.kinds)

    def checked(self, X: Any, check: Callable[[Any], Floats], stacklevel: int) -> Floats:
        """Return the values of all columns of a table, shape (n, d).

        Parameters
        ----------
        X : array-like of shape (n, d)
        check : callable
            Checks a table of numbers for the columns of an estimator, and returns them as an array.
        stacklevel : int
            The line that a warning is about, as seen from the caller.

        Raises
        ------
        InputError
            If a column cannot be read as what it is.

        Warns
        -----
        ColumnWarning
            If a number is missing in a column in which none was when the model was fitted.
        """
        frame = None if self.is_plain else _frame(X)
        if frame is None or frame.shape[1] != len(self.kinds):
            return check(X)
        values = np.column_stack([one.read(frame.iloc[:, j]) for j, one in enumerate(self.kinds)])
        missing = np.isnan(values)
        new = [j for j, one in enumerate(self.kinds) if isinstance(one, _Numbers) and not one.n_missing]
        new = [j for j in new if missing[:, j].any()]
        if new:
            names = ", ".join(label(frame, "X", j) for j in new)
            warnings.warn(
                f"Values are missing in {names}, where none was missing when the model was fitted: they are filled by "
                "what the other numbers let expect, and predictions do not know.",
                ColumnWarning,
                stacklevel=stacklevel + 1,
            )
        numbers = np.where(missing, 0.0, values)
        checked = check(type(frame)(numbers, frame.index, frame.columns) if frame is X else numbers)
        return np.where(missing, np.nan, checked)

    def coordinates(self, values: Floats) -> Floats:
        """Return what a kernel sees of values of shape (n, d), shape (n, k)."""
        if self.is_plain:
            return values
        filled, deviations = self._filled(values)
        return np.column_stack(
            [
                one.marked(filled[:, j], deviations[:, j])
                if isinstance(one, _Numbers)
                else one.coordinates(values[:, j])
                for j, one in enumerate(self.kinds)
            ]
        )

    def _filled(self, values: Floats) -> tuple[Floats, Floats]:
        """Return values with the expectations of missing numbers, and the standard deviations of these."""
        filled, deviations, index = values.copy(), np.zeros_like(values), self._of_numbers
        if self.gaps is not None:
            filled[:, index], deviations[:, index] = self.gaps.filled(values[:, index])
        return filled, deviations

    def values(self, coordinates: Floats) -> Floats:
        """Return the values that have some coordinates."""
        if self.is_plain:
            return coordinates
        parts = zip(self.kinds, np.split(coordinates, self._ends[:-1], axis=1), strict=True)
        return np.column_stack([one.values(part) for one, part in parts])

    @property
    def dates(self) -> list[str]:
        """The names of the columns of dates."""
        return [name for name, one in zip(self.names, self.kinds, strict=True) if isinstance(one, _Dates)]

    @property
    def unknown_effects(self) -> list[tuple[int, int, int]]:
        """The columns whose effects are to be estimated, with the first coordinate of each and its number of levels."""
        starts = [0, *self._ends]
        return [
            (j, starts[j], one.n_levels)
            for j, one in enumerate(self.kinds)
            if isinstance(one, _ManyCategories) and not one.means
        ]

    @property
    def has_effects(self) -> bool:
        """Whether coordinates of training rows are other ones than those of new rows."""
        return any(isinstance(one, _ManyCategories) for one in self.kinds)

    def with_effects(self, j: int, means: Floats, deviations: Floats) -> Self:
        """Return the columns with the effects of one of many categories, and those of a category without rows."""
        column = self.kinds[j]
        assert isinstance(column, _ManyCategories)
        known = replace(column, means=tuple(means.tolist()), deviations=tuple(deviations.tolist()))
        return replace(self, kinds=(*self.kinds[:j], known, *self.kinds[j + 1 :]))

    @property
    def _ends(self) -> list[int]:
        return list(accumulate(one.n_coordinates for one in self.kinds))

    def numbers(self, values: Floats) -> tuple[Floats, list[str]]:
        """Return the columns of numbers, without gaps, and their names."""
        index = self._of_numbers
        return self._filled(values)[0][:, index], [self.names[j] for j in index]

    def places(self, index: Iterable[int]) -> Indices:
        """Say which coordinates have the slopes of some columns in a trend; categories have none."""
        starts = [0, *self._ends]
        return np.array([starts[j] for j in index if not self.kinds[j].exchangeable], dtype=np.intp)

    @property
    def categories(self) -> Indices:
        """The coordinates of all categories."""
        starts, all_of = [0, *self._ends], np.arange(self._ends[-1])
        parts = [all_of[starts[j] : starts[j + 1]] for j, one in enumerate(self.kinds) if one.exchangeable]
        return np.concatenate([np.empty(0, dtype=np.intp), *parts])

    def check_slopes(self, trend: Iterable[int | str]) -> None:
        """Refuse a trend in columns of categories."""
        for j in column_index(trend, self.names, len(self.kinds), "trend"):
            if self.kinds[j].exchangeable:
                raise InputError(
                    f"trend has the column {self.names[j]!r}, which is one of categories: slopes are of numbers and "
                    "dates. Leave it out of trend; the kernel knows it."
                )

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """The names of all coordinates."""
        pairs = zip(self.names, self.kinds, strict=True)
        return tuple(f"{name}{suffix}" for name, one in pairs for suffix in one.suffixes)

    @property
    def groups(self) -> NDArray[np.intp]:
        """Which coordinates share a lengthscale: those of equal numbers."""
        pairs = [(j, group) for j, one in enumerate(self.kinds) for group in one.groups]
        return np.unique(pairs, axis=0, return_inverse=True)[1].ravel()

    def __str__(self) -> str:
        width = max(map(len, self.names))
        return "\n".join(f"{name:{width}}  {one.told}" for name, one in zip(self.names, self.kinds, strict=True))


def _frame(X: Any) -> "pandas.DataFrame | None":
    """Return a table as a data frame; None of what is none."""
    if issparse(X) or dask_kind(X) is not None or not (hasattr(X, "iloc") or isinstance(X, np.ndarray | list | tuple)):
        return None
    table = with_columns(X)
    if getattr(table, "ndim", 0) != 2 or 0 in table.shape:
        return None
    import pandas

    return table if hasattr(table, "iloc") else pandas.DataFrame(table)


def _has_numbers_alone(X: Any) -> bool:
    """Say of an array whether it has nothing but numbers, without gaps."""
    return isinstance(X, np.ndarray) and X.dtype.kind in NUMBERS and not (X.dtype.kind == "f" and np.isnan(X).any())


def _shows(days: Floats, period: float) -> bool:
    """Say whether days in ascending order cover a period twice, and mostly come twice in one or more often."""
    return bool(days[-1] >= 2.0 * period and 2.0 * np.median(np.diff(days)) <= period)


def _given_kinds(given: Mapping[Any, str], names: Sequence[str] | None, n_inputs: int) -> dict[int, str]:
    for name, kind in given.items():
        if kind not in KINDS:
            raise InputError(f"columns must say 'number', 'category' or 'date' of each; got {kind!r} of {name!r}.")
    index = column_index(given, names, n_inputs, "columns")
    return dict(zip(index.tolist(), given.values(), strict=True))


def _column(column: "pandas.Series", which: str, kind: str | None, missing: Missing) -> _Column:
    """Make the column of a kind, or of the kind that its values have."""
    lacked = int(column.isna().sum())
    if lacked == len(column):
        raise InputError(f"All {lacked:,} values of {which} are missing: leave the column out.")
    if lacked and missing == "error":
        raise InputError(
            f"Input X contains NaN (missing values) in {lacked:,} of {len(column):,} rows of {which}. Fill them in, "
            "leave these rows out, or give missing='impute'."
        )
    kind = kind or _kind(column)
    if kind == "date":
        return _Dates.of(column, which)
    if kind == "number":
        return _Numbers.of(column)
    categories = _Categories.of(column)
    if len(categories.levels) == len(column) - lacked > 2:
        raise InputError(
            f"{which} has another category in each of {len(column) - lacked:,} rows: nothing can be learned from it. "
            "Leave the column out."
        )
    if categories.n_levels > MOST_LEVELS:
        return _ManyCategories(categories.levels, categories.n_missing)
    return categories


def _kind(column: "pandas.Series") -> str:
    """Say what the values of a column are."""
    import pandas

    if isinstance(column.dtype, pandas.CategoricalDtype):
        return "category"
    if pandas.api.types.is_datetime64_any_dtype(column.dtype) or isinstance(column.dtype, pandas.PeriodDtype):
        return "date"
    if column.dtype.kind in NUMBERS:
        return "number"
    known = column.dropna()
    if not all(isinstance(value, str) for value in known):
        inferred = pandas.api.types.infer_dtype(known, skipna=True)
        return "date" if inferred in ("datetime", "date", "datetime64", "period") else "number"
    words = known.unique()
    if any(reads_as_number(word.replace(",", "")) for word in words):
        return "number"
    return "date" if all(map(reads_as_date, words)) else "category"


def _texts(column: "pandas.Series") -> "pandas.Series":
    """Return the names of categories; a number has one name, of whatever type its column is."""
    if column.dtype.kind in NUMBERS:
        return column.astype("Float64").map("{:.15g}".format, na_action="ignore").astype(object)
    return column.astype(object).map(str, na_action="ignore")


def _numbers(column: "pandas.Series") -> Floats:
    """Return numbers, with NaN where a value is missing; InputError where one is none, or infinite."""
    if column.dtype.kind not in NUMBERS:
        known = column.dropna()
        refuse_other_than_numbers(known.to_frame(), "X")
        column = column.where(column.notna(), np.nan)
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _times(column: "pandas.Series") -> NDArray[Any]:
    """Return times without a zone, in microseconds; numbers are days since 1970-01-01."""
    import pandas

    if column.dtype.kind in NUMBERS:
        return (column.to_numpy(dtype=np.float64) * (DAY / np.timedelta64(1, "us"))).round().astype("datetime64[us]")
    if isinstance(column.dtype, pandas.PeriodDtype):
        column = column.dt.to_timestamp()
    try:
        times = pandas.to_datetime(column, utc=True)
    except (ValueError, TypeError) as error:
        raise InputError(f"Column {str(column.name)!r} of X has dates; got something else: {error}") from None
    return times.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
