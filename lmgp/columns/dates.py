"""Columns of dates: days, and places in the periods of the calendar."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from lmgp.columns.base import Column
from lmgp.data import Floats
from lmgp.errors import ColumnWarning, InputError, warn
from lmgp.kernels.table import Label
from lmgp.utils.columns import reads_as_date
from lmgp.utils.dates import EPOCH, LAST, days_since, times_after, times_of, zone_of

if TYPE_CHECKING:
    import pandas

# The calendar's periods, in days.
PERIODS = {"day": 1.0, "week": 7.0, "year": 365.2425}
# Numbers that may count days; true and false do not.
COUNTS = "iuf"
YEARS, MONTHS = np.arange(1800, 2201), np.arange(1, 13)


@dataclass(frozen=True)
class Dates(Column):
    """A column of dates: days since the first one, and its place in those periods of the calendar that dates show.

    A period has two coordinates, those of a point that moves around a circle, which share a lengthscale.

    Attributes
    ----------
    first : str
        In ISO 8601: from where days are counted.
    periods : tuple of str
        Of `PERIODS`.
    others : tuple of float
        Further periods, in days, that the target has.
    are_numbers : bool
        Whether training rows had days since 1970-01-01, so that other rows may have, too.
    zoned : bool or None
        Whether training rows had times in a zone. None where they were in UTC, in which times without a zone are read;
        where they were numbers; and in files of earlier versions.
    """

    kind: ClassVar = "dates"
    first: str
    periods: tuple[str, ...] = ()
    others: tuple[float, ...] = ()
    are_numbers: bool = False
    zoned: bool | None = None

    @classmethod
    def of(cls, column: "pandas.Series", which: str) -> Self:
        """Look at the training rows.

        Raises
        ------
        InputError
            If a date is missing, numbers are years or months, or some times have a zone and others none.
        """
        times = _times(column, which, True)
        _refuse_years(column, which)
        days = np.unique(days_since(times.min(), times))
        shown = tuple(name for name, period in PERIODS.items() if _shows(days, period))
        zones = _zones(column, which)
        zoned = None if zones <= {"UTC"} else "None" not in zones
        return cls(str(times.min()), shown, are_numbers=column.dtype.kind in COUNTS, zoned=zoned)

    @property
    def n_coordinates(self) -> int:
        return 1 + 2 * len(self.days_of_periods)

    @property
    def days_of_periods(self) -> list[float]:
        """The lengths of all periods, in days."""
        return [*(PERIODS[period] for period in self.periods), *self.others]

    def read(self, column: "pandas.Series", which: str) -> Floats:
        times, zones, got = _times(column, which, self.are_numbers), _zones(column, which), ""
        if self.zoned and "None" in zones:
            got = "no zone, and are read as those of UTC; the training rows had one"
        elif self.zoned is False and not zones <= {"None", "UTC"}:
            got = "a zone, and are converted to UTC; the training rows had none"
        if got:
            warn(
                f"The times of {which} have {got}. Make them alike: pd.to_datetime(...).dt.tz_localize(...), or "
                ".dt.tz_localize(None).",
                ColumnWarning,
            )
        return days_since(np.datetime64(self.first), times)

    def coordinates(self, values: Floats, deviations: Floats) -> Floats:
        days = values[:, 0]
        turns = [2.0 * np.pi * days / period for period in self.days_of_periods]
        return np.column_stack([days, *(of(turn) for turn in turns for of in (np.cos, np.sin))])

    def values(self, coordinates: Floats) -> Floats:
        return coordinates[:, :1]

    def coordinate_names(self, names: Sequence[str]) -> list[str]:
        (name,) = names
        return [name, *(f"{name} in the {period}, {of}" for period in self._named for of in ("cos", "sin"))]

    @property
    def _named(self) -> list[str]:
        return [*self.periods, *(f"period of {period:.4g} days" for period in self.others)]

    @property
    def groups(self) -> list[int]:
        return [0, *(1 + number // 2 for number in range(self.n_coordinates - 1))]

    def labels(self, names: Sequence[str]) -> list[Label]:
        (name,), of_periods = names, zip(self._named, self.days_of_periods, strict=True)
        # Along the circle, a period is 2π.
        within = [Label(f"{name} in the {of}", "days", period / (2.0 * np.pi)) for of, period in of_periods]
        return [Label(name, "days"), *within]

    @property
    def told(self) -> str:
        within = f", and the time of the {' and of the '.join(self._named)}" if self._named else ""
        return f"{self.kind}, as days since {self.first.removesuffix('T00:00:00.000000')}{within}"


def _shows(days: Floats, period: float) -> bool:
    """Say whether days in ascending order cover a period twice, and mostly come twice in one or more often."""
    return bool(days[-1] >= 2.0 * period and 2.0 * np.median(np.diff(days)) <= period)


def _times(column: "pandas.Series", which: str, numbers_allowed: bool) -> NDArray[Any]:
    """Return times without a zone, in microseconds; numbers are days since 1970-01-01."""
    import pandas

    missing = column.isna()
    if missing.any():
        raise InputError(
            f"{which} has no date in {missing.sum():,} of {len(column):,} rows: leave these rows out (lmgp fit "
            "--drop), or the column."
        )
    whose = f"{which[0].upper()}{which[1:]} has dates; got"
    if column.dtype.kind in COUNTS:
        days = column.to_numpy(dtype=np.float64)
        if (wrong := (np.abs(days) > days_since(EPOCH, LAST)) | (not numbers_allowed)).any():
            raise InputError(f"{whose} the number {days[wrong][0]:.15g}. Write dates as 2020-01-31.")
        return times_after(EPOCH, days)
    if isinstance(column.dtype, pandas.PeriodDtype):
        column = column.dt.to_timestamp()
    fields = [] if column.dtype.kind == "M" else column.to_numpy()
    texts = dict.fromkeys(field for field in fields if isinstance(field, str))
    if wrong := next((text for text in texts if not reads_as_date(text)), None):
        raise InputError(
            f"{whose} {wrong!r}. Write them as 2020-01-31, or as 2020-01-31T12:00. If the column has categories, say "
            "so: columns={...: 'category'} (lmgp fit --category)."
        )
    try:
        return times_of(column)
    except (ValueError, TypeError) as error:
        raise InputError(f"{whose} something else: {error}") from None


def _refuse_years(column: "pandas.Series", which: str) -> None:
    """Refuse numbers that are all years, such as 2020, or months, such as 202001."""
    if column.dtype.kind not in COUNTS:
        return
    numbers = column.to_numpy(dtype=np.float64)
    for what, form, years, months in (("years", "%Y", numbers, 1), ("months", "%Y%m", numbers // 100, numbers % 100)):
        if np.all(np.isin(years, YEARS) & np.isin(months, MONTHS)):
            raise InputError(
                f"The numbers of {which} read as {what}, and would be days since 1970-01-01: give columns={{...: "
                f"'number'}}, or make dates of them, pd.to_datetime(..., format='{form}')."
            )


def _zones(column: "pandas.Series", which: str) -> set[str]:
    """Return the zones of times, "None" where they have none; numbers are without. Refuse a column of both."""
    if column.dtype.kind in COUNTS:
        return set()
    zones = {str(column.dt.tz)} if column.dtype.kind == "M" else set(map(zone_of, column.to_numpy()))
    if "None" in zones and len(zones) > 1:
        raise InputError(f"Some times of {which} have a zone, and others none: write all with one, or all without.")
    return zones
