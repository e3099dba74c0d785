"""All columns of a table, and the coordinates that a kernel sees of them."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from lmgp.columns.base import Column
from lmgp.columns.categories import MOST_LEVELS, Categories, ManyCategories
from lmgp.columns.dates import Dates
from lmgp.columns.gaps import Gaps
from lmgp.columns.numbers import AsinhScale, Numbers
from lmgp.columns.places import OnSphere, OnTurnedAxes
from lmgp.data import Floats, Indices
from lmgp.errors import ColumnWarning, InputError, warn
from lmgp.io.geometry import DEGREES, has_geometry, refuse_other_system, without_geometry
from lmgp.kernels.sphere import Metric, find_places
from lmgp.kernels.table import Label
from lmgp.metrics.scorers import end_of
from lmgp.utils.columns import (
    LOCAL_DATE,
    NUMBERS,
    SIGNS,
    column_index,
    dask_kind,
    label,
    reads_as_date,
    reads_as_number,
    with_columns,
)

if TYPE_CHECKING:
    import pandas

Missing = Literal["auto", "impute", "error"]
Rotate = bool | Sequence[int | str]

# What a column can be said to be.
KINDS = "number", "log", "asinh", "category", "date"


@dataclass(frozen=True, eq=False)
class Columns:
    """What all columns of a table become. Printed, it is a table.

    Attributes
    ----------
    kinds : tuple of Column
        In the order of the coordinates.
    index : tuple of tuple of int
        Of which columns of the table each of these is made.
    names : tuple of str
        Of the columns of the table.
    gaps : Gaps or None
        What numbers say of each other; None where all columns are numbers, and none is missing.
    crs : str or None
        The reference system of the points of a GeoDataFrame.
    """

    kinds: tuple[Column, ...]
    index: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    gaps: Gaps | None = None
    crs: str | None = None

    @classmethod
    def of(
        cls,
        X: Any,
        given: Mapping[Any, str] | None = None,
        missing: Missing = "auto",
        metric: Metric = None,
        rotate: Rotate = False,
    ) -> Self | None:
        """Look at the columns of training rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        given, missing, metric, rotate : optional
            How they are to be read: `columns`, `missing`, `metric` and `rotate` of `lmgp.GPRegressor`.

        Returns
        -------
        Columns or None
            None where all are numbers that stay as they are, and none is missing, and of what is no table.

        Raises
        ------
        InputError
            If a column is not of one kind, has a missing value that is not allowed, or nothing can be learned from it.

        Warns
        -----
        ColumnWarning
            If a column of categories has one level, points have heights, and where values are missing unless this was
            allowed.
        """
        plain = not given and metric is None and rotate is False
        table, crs = without_geometry(X) if has_geometry(X) else (X, None)
        frame = None if plain and _has_numbers_alone(table) else _frame(table)
        if frame is None:
            return None
        n_inputs = frame.shape[1]
        names = tuple(map(str, frame.columns)) if hasattr(table, "columns") else None
        kinds = _given_kinds(given or {}, names, n_inputs)
        columns = [_column(frame.iloc[:, j], label(frame, "X", j), kinds.get(j), missing) for j in range(n_inputs)]
        metric = "sphere" if crs is not None and crs.is_geographic else metric
        result = cls(*_with_place(columns, names, metric, rotate), names or _unnamed(n_inputs))
        if crs is not None:
            result = replace(result, crs=crs.to_string())
        elif table is not X and metric != "sphere" and np.all(np.abs(X.total_bounds) <= (180.0, 90.0, 180.0, 90.0)):
            warn(
                "The points have no reference system and are read as places on a plane, but all are within ±180 and "
                "±90, as degrees are. If they are degrees, give X.set_crs('EPSG:4326').",
                ColumnWarning,
            )
        if table is not X and X.geometry.has_z.any():
            points = "X" if X.ndim == 2 else "X.to_frame('geometry')"
            warn(
                "The points have heights, which are left out: give them as a column, "
                f"{points}.set_geometry(X.geometry.force_2d()).assign(height=X.geometry.z).",
                ColumnWarning,
            )
        if result.is_plain and not given and table is X:
            return None
        result._tell(frame, columns, missing)
        if result.is_numeric or not result._of_numbers:
            return result
        return result.with_gaps(result._read(frame))

    @staticmethod
    def _tell(frame: Any, columns: Sequence[Column], missing: Missing) -> None:
        """Warn of what is missing, and of columns that tell no rows apart."""
        lacked = [label(frame, "X", j) for j, kind in enumerate(columns) if getattr(kind, "n_missing", 0)]
        if lacked and missing == "auto":
            warn(
                f"Values are missing in {', '.join(lacked)}: a number is filled by what the others let expect, a "
                "category is a level of its own (columns_ tells). missing='impute' allows this without a word, and "
                "missing='error' refuses it (lmgp fit --drop leaves such rows out).",
                ColumnWarning,
            )
        for j, kind in enumerate(columns):
            if isinstance(kind, Categories) and kind.n_levels == 1:
                warn(
                    f"{label(frame, 'X', j)} has one category, {kind.levels[0]!r}: it tells no rows apart, and what is "
                    "predicted for another category is uncertain.",
                    ColumnWarning,
                )

    @classmethod
    def of_numbers(cls, n_inputs: int, names: Iterable[Any] | None, metric: Metric = None) -> Self:
        """Return columns of numbers that stay as they are, or of which two are longitude and latitude."""
        named = None if names is None else tuple(map(str, names))
        return cls(*_with_place([Numbers()] * n_inputs, named, metric, False), named or _unnamed(n_inputs))

    @property
    def parts(self) -> list[tuple[tuple[int, ...], Column, slice]]:
        """What columns become: the columns of the table, their kind, and its coordinates."""
        ends = list(accumulate((kind.n_coordinates for kind in self.kinds), initial=0))
        return list(zip(self.index, self.kinds, map(slice, ends, ends[1:]), strict=True))

    @property
    def is_numeric(self) -> bool:
        """Whether all values are the finite numbers of the table."""
        return all(kind.is_numeric for kind in self.kinds)

    @property
    def is_plain(self) -> bool:
        """Whether the coordinates are the columns of the table."""
        return self.is_numeric and all(isinstance(kind, Numbers) and kind.scale is None for kind in self.kinds)

    @property
    def _of_numbers(self) -> dict[int, Numbers]:
        """The columns of numbers."""
        return {index[0]: kind for index, kind, _ in self.parts if isinstance(kind, Numbers)}

    @property
    def as_they_are(self) -> list[int]:
        """The columns of numbers that have no scale, and of which nobody said that they need none."""
        return [j for j, kind in self._of_numbers.items() if kind.scale is None and not kind.is_given]

    def with_gaps(self, values: Floats) -> Self:
        """Return the columns with what the numbers of values of shape (n, d) say of each other."""
        numbers = np.column_stack([kind.scaled(values[:, j]) for j, kind in self._of_numbers.items()])
        return replace(self, gaps=Gaps.of(np.where(np.isfinite(numbers), numbers, np.nan)))

    def table(self, X: Any) -> Any:
        """Return a table whose points, if it has some, are columns.

        Raises
        ------
        InputError
            If its reference system is not that of the training rows, or it has none and these were in degrees.
        """
        if not has_geometry(X):
            return X
        frame, crs = without_geometry(X)
        refuse_other_system(crs, self.crs)
        if crs is None and {*DEGREES} <= {*self.names}:
            raise InputError(
                "The geometries have no reference system, and the model is of longitudes and latitudes: give "
                f"them by .set_crs({self.crs or 'EPSG:4326'!r})."
            )
        return frame

    def checked(self, X: Any, check: Callable[[Any], Floats], missing: Missing = "auto") -> Floats:
        """Return the values of all columns of a table, shape (n, d).

        Parameters
        ----------
        X : array-like of shape (n, d)
        check : callable
            Checks a table of numbers for the columns of an estimator, and returns them as an array.
        missing : {"auto", "impute", "error"}, default="auto"
            Whether values may be missing, and a warning says so.

        Raises
        ------
        InputError
            If columns have other names than when the model was fitted, or a column cannot be read as what it is, or
            lacks a value that it must have.

        Warns
        -----
        ColumnWarning
            If a number is missing in a column in which none was when the model was fitted.
        """
        X = self.table(X)
        frame = None if self.is_numeric else _frame(X)
        named = frame is X and self.names != _unnamed(len(self.names))
        if frame is None or frame.shape[1] != len(self.names):
            return check(X)
        if named and (got := tuple(map(str, X.columns))) != self.names:
            j = next(j for j, name in enumerate(got) if name != self.names[j])
            raise InputError(
                f"X must have the columns of fit in their order: column {j} was {self.names[j]!r}, and is {got[j]!r}."
            )
        values = self._read(frame)
        gaps = np.isnan(values)
        if missing == "error" and gaps.any():
            raise _lacking(int(gaps[:, j := int(gaps.any(axis=0).argmax())].sum()), len(gaps), label(frame, "X", j))
        new = [j for j, kind in self._of_numbers.items() if not kind.n_missing and gaps[:, j].any()]
        if new and missing == "auto":
            names = ", ".join(label(frame, "X", j) for j in new)
            warn(
                f"Values are missing in {names}, where none was missing when the model was fitted: they are filled by "
                "what the other numbers let expect, and predictions do not know.",
                ColumnWarning,
            )
        numbers = np.where(gaps, 0.0, values)
        checked = check(type(frame)(numbers, frame.index, frame.columns) if frame is X else numbers)
        return np.where(gaps, np.nan, checked)

    def _read(self, frame: Any) -> Floats:
        """Return the values of all columns of a table."""
        kinds = {j: kind for index, kind, _ in self.parts for j in index}
        return np.column_stack([kinds[j].read(frame.iloc[:, j], label(frame, "X", j)) for j in range(len(kinds))])

    def coordinates(self, values: Floats) -> Floats:
        """Return what a kernel sees of values of shape (n, d), shape (n, k)."""
        if self.is_plain:
            return values
        scaled, deviations = self._filled(values)
        return np.hstack([kind.coordinates(scaled[:, index], deviations[:, index]) for index, kind, _ in self.parts])

    def unseen_effects(self, values: Floats) -> Iterator[tuple[Indices, Floats, Floats]]:
        """Return, of each column of many categories, rows of unseen ones, and their coordinates at ± a deviation."""
        for index, kind, span in self.parts:
            if isinstance(kind, ManyCategories) and (new := np.flatnonzero(kind.places(values[:, index[0]]) < 0)).size:
                ends = np.repeat(self.coordinates(values[new])[None], 2, axis=0)
                ends[:, :, span.start] = [[kind.unseen_deviation], [-kind.unseen_deviation]]
                yield new, *ends

    def _filled(self, values: Floats) -> tuple[Floats, Floats]:
        """Return values with numbers on their scales, missing ones by expectation, and the deviations of these."""
        numbers = self._of_numbers
        filled, deviations, index = values.copy(), np.zeros_like(values), list(numbers)
        for j, kind in numbers.items():
            filled[:, j] = kind.scaled(values[:, j])
        if self.gaps is not None:
            filled[:, index], deviations[:, index] = self.gaps.filled(filled[:, index])
        return filled, deviations

    def values(self, coordinates: Floats) -> Floats:
        """Return the values that have some coordinates."""
        if self.is_plain:
            return coordinates
        values = np.empty((len(coordinates), len(self.names)))
        for index, kind, span in self.parts:
            values[:, index] = kind.values(coordinates[:, span])
        return values

    def names_of(self, *kinds: type[Column]) -> set[str]:
        """Return the names of the columns of some kinds."""
        return {self.names[j] for index, kind, _ in self.parts if isinstance(kind, kinds) for j in index}

    @property
    def unknown_effects(self) -> list[tuple[int, int, int]]:
        """The kinds whose effects are to be estimated, with the first coordinate of each and its number of levels."""
        return [
            (place, span.start, kind.n_levels)
            for place, (_, kind, span) in enumerate(self.parts)
            if isinstance(kind, ManyCategories) and not kind.means
        ]

    def with_kind(self, place: int, kind: Column) -> Self:
        """Return the columns with another one at a place."""
        return replace(self, kinds=(*self.kinds[:place], kind, *self.kinds[place + 1 :]))

    def on_scale(self, values: Floats, scales: Mapping[int, AsinhScale]) -> Self:
        """Return the columns with scales for some columns of numbers, of values of shape (n, d)."""
        if not scales:
            return self
        kinds = tuple(
            replace(kind, scale=scales[index[0]]) if isinstance(kind, Numbers) and index[0] in scales else kind
            for index, kind, _ in self.parts
        )
        changed = replace(self, kinds=kinds)
        return changed if self.gaps is None else changed.with_gaps(values)

    def unmarked(self) -> Self:
        """Return the columns with gaps that are filled, and not marked."""
        kinds = tuple(replace(kind, is_marked=False) if isinstance(kind, Numbers) else kind for kind in self.kinds)
        changed = replace(self, kinds=kinds)
        return self if len(changed.groups) == len(self.groups) else changed

    def with_effects(self, place: int, means: Floats, deviations: Floats) -> Self:
        """Return the columns with the effects of one of many categories, and those of a category without rows."""
        column = self.kinds[place]
        assert isinstance(column, ManyCategories)
        known = replace(column, means=tuple(means.tolist()), deviations=tuple(deviations.tolist()))
        return self.with_kind(place, known)

    def slopes(self, columns: Iterable[int]) -> Indices:
        """Say which coordinates have the slopes of some columns in a trend, in their order; categories have none."""
        of = {
            j: [span.start + coordinate for coordinate in coordinates]
            for index, kind, span in self.parts
            for j, coordinates in zip(index, kind.slopes, strict=True)
        }
        return np.array(list(dict.fromkeys(place for j in columns for place in of[int(j)])), dtype=np.intp)

    @property
    def categories(self) -> Indices:
        """The coordinates of all categories."""
        exchangeable = [kind.exchangeable for kind in self.kinds]
        return np.flatnonzero(np.repeat(exchangeable, [kind.n_coordinates for kind in self.kinds]))

    def check_slopes(self, trend: Iterable[int | str]) -> None:
        """Refuse a trend in columns of categories."""
        for j in column_index(trend, self.names, len(self.names), "trend"):
            if not len(self.slopes([j])):
                raise InputError(
                    f"trend has the column {self.names[j]!r}, which is one of categories: slopes are of numbers and "
                    "dates. Leave it out of trend; the kernel knows it."
                )

    @property
    def coordinate_names(self) -> tuple[str, ...]:
        """The names of all coordinates."""
        return tuple(
            name for index, kind, _ in self.parts for name in kind.coordinate_names([self.names[j] for j in index])
        )

    @property
    def groups(self) -> NDArray[np.intp]:
        """Which coordinates share a lengthscale: those of equal numbers."""
        pairs = [(place, group) for place, kind in enumerate(self.kinds) for group in kind.groups]
        return np.unique(pairs, axis=0, return_inverse=True)[1].ravel()

    @property
    def labels(self) -> list[Label]:
        """What tables call the coordinates that share a lengthscale."""
        labels = []
        for index, kind, span in self.parts:
            for group, of_group in enumerate(kind.labels([self.names[j] for j in index])):
                columns = tuple((span.start + np.flatnonzero(np.array(kind.groups) == group)).tolist())
                labels.append(of_group._replace(columns=columns, inputs=index))
        return labels

    def __str__(self) -> str:
        names = [", ".join(self.names[j] for j in index) for index in self.index]
        width = max(map(len, names))
        return "\n".join(f"{name:{width}}  {kind.told}" for name, kind in zip(names, self.kinds, strict=True))


def column_names(model: Any) -> list[str]:
    """Return the names of the columns of X of a fitted model: x0, x1, ... where it knows none."""
    known = getattr(model, "feature_names_in_", None)
    return list(_unnamed(model.n_features_in_)) if known is None else list(map(str, known))


def columns_of(model: Any) -> Columns | None:
    """Return what columns became in a fitted search, pipeline, model of several targets or of a transformed one."""
    end = end_of(model)
    end = end_of(getattr(end, "estimators_", [end])[0])
    return getattr(end_of(getattr(end, "regressor_", end)), "columns_", None)


def _with_place(
    columns: Sequence[Column], names: Sequence[str] | None, metric: Metric, rotate: Rotate
) -> tuple[tuple[Column, ...], tuple[tuple[int, ...], ...]]:
    """Put two columns that are a place together, before the others."""
    n_inputs = len(columns)
    if metric is None and rotate is False:
        return tuple(columns), tuple((j,) for j in range(n_inputs))
    places = find_places(n_inputs, names) if rotate is False else _turned(rotate, names, n_inputs, metric)
    for j in places:
        column, which = columns[j], repr(names[j]) if names else j
        if isinstance(column, Numbers) and column.scale is not None:
            raise InputError(
                f"Column {which} of X is a part of a place, which has no scale: leave it out of columns, or give "
                f"no {'metric' if rotate is False else 'rotate'}."
            )
        if not (isinstance(column, Numbers) and column.is_numeric):
            got = column.told.partition(":")[0]
            raise InputError(
                f"Column {which} of X is a part of a place, and must be numbers, none missing; got {got}. Leave rows "
                "without a place out (lmgp fit --drop)."
            )
    others = [j for j in range(n_inputs) if j not in places]
    place = OnSphere() if rotate is False else OnTurnedAxes()
    return (place, *(columns[j] for j in others)), (places, *((j,) for j in others))


def _turned(rotate: Rotate, names: Sequence[str] | None, n_inputs: int, metric: Metric) -> tuple[int, int]:
    """Return the two columns whose axes are turned."""
    listed = range(n_inputs) if isinstance(rotate, bool) else rotate
    if metric is not None or len(listed) != 2:
        got = "longitude and latitude" if metric is not None else f"{len(listed)} columns"
        raise InputError(
            f"rotate turns the axes of two columns of one unit, such as metres east and north; got {got}. Of more "
            "columns name two, rotate=['east', 'north']."
        )
    first, second = column_index(listed, names, n_inputs, "rotate").tolist()
    return first, second


def _unnamed(n_inputs: int) -> tuple[str, ...]:
    return tuple(f"x{j}" for j in range(n_inputs))


def _frame(X: Any) -> "pandas.DataFrame | None":
    """Return a table as a data frame; None of what is none."""
    table: Any = None if dask_kind(X) is not None else with_columns(X)
    if getattr(table, "ndim", 0) != 2 or 0 in table.shape:
        return None
    import pandas

    return table if hasattr(table, "iloc") else pandas.DataFrame(table)


def _has_numbers_alone(X: Any) -> bool:
    """Say of an array whether it has nothing but numbers, without gaps."""
    return isinstance(X, np.ndarray) and X.dtype.kind in NUMBERS and not (X.dtype.kind == "f" and np.isnan(X).any())


def _given_kinds(given: Mapping[Any, str], names: Sequence[str] | None, n_inputs: int) -> dict[int, str]:
    for name, kind in given.items():
        if kind not in KINDS:
            *others, last = map(repr, KINDS)
            raise InputError(f"columns must say {', '.join(others)} or {last} of each; got {kind!r} of {name!r}.")
    index = column_index(given, names, n_inputs, "columns")
    return dict(zip(index.tolist(), given.values(), strict=True))


def _column(column: "pandas.Series", which: str, kind: str | None, missing: Missing) -> Column:
    """Make the column of a kind, or of the kind that its values have."""
    lacked = int(column.isna().sum())
    if lacked == len(column):
        raise InputError(f"All {lacked:,} values of {which} are missing: leave the column out.")
    if lacked and missing == "error":
        raise _lacking(lacked, len(column), which)
    kind, is_given = kind or _kind(column), kind is not None
    if kind == "date":
        return Dates.of(column, which)
    if kind in ("number", "log", "asinh"):
        return Numbers.of(column, which, None if kind == "number" else kind, is_given)
    categories = Categories.of(column)
    if len(categories.levels) == len(column) - lacked > 2:
        raise InputError(
            f"{which} has another category in each of {len(column) - lacked:,} rows: nothing can be learned from it. "
            "Leave the column out, or, if these are dates, write them as 2020-01-31."
        )
    if categories.n_levels > MOST_LEVELS:
        return ManyCategories(categories.levels, categories.n_missing)
    return categories


def _lacking(number: int, n_rows: int, which: str) -> InputError:
    return InputError(
        f"Input X contains NaN (missing values) in {number:,} of {n_rows:,} rows of {which}. Fill them in, leave these "
        "rows out, or give missing='impute'."
    )


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
    counts = known.value_counts()
    words = (SIGNS.sub("", word) for word in counts.index)
    if any(reads_as_number(word) and math.isfinite(float(word)) for word in words):
        return "number"
    # Where some of the texts are no dates, the reading of dates names them.
    of_dates = sum(count for word, count in counts.items() if reads_as_date(word) or LOCAL_DATE.fullmatch(word))
    return "date" if 2 * of_dates > len(known) else "category"
