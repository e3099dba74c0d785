"""Dates as times without a zone, and as days since one of them."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import ColumnWarning, warn

if TYPE_CHECKING:
    import pandas

# From where days are counted that have no other beginning, and the first day beyond the years of the calendar.
EPOCH, LAST = np.datetime64("1970-01-01", "us"), np.datetime64("10000-01-01", "us")
DAY = np.timedelta64(1, "D")


def times_of(dates: "pandas.Series") -> NDArray[Any]:
    """Return dates, or text in ISO 8601, as times in UTC, in microseconds: nanoseconds end in 2262.

    Warns
    -----
    ColumnWarning
        If different times become one.
    """
    import pandas

    if dates.dtype.kind == "O":
        dates = dates.map(lambda text: text.strip() if isinstance(text, str) else text)
    times = pandas.to_datetime(dates, format="ISO8601", utc=True).dt.tz_localize(None)
    read = times.to_numpy().astype("datetime64[us]")
    if times.dt.unit == "ns" and pandas.Series(read).nunique() < times.nunique():
        warn("Dates are read to the microsecond, and some become equal: for finer times give numbers.", ColumnWarning)
    return read


def zone_of(time: Any) -> str:
    """Return the zone of a time, or of a text that reads as one; "None" where it has none."""
    if not isinstance(time, str):
        return str(getattr(time, "tzinfo", None))
    zone = time.strip()[len("2020-01-31") :].lstrip("T 0123456789:.")  # after the time of the day
    return (zone if zone.strip("Z+-0:") else "UTC") if zone else "None"


def in_utc(days: NDArray[np.float64]) -> "pandas.DatetimeIndex":
    """Return the times of some days since `EPOCH`, in UTC."""
    import pandas

    return pandas.DatetimeIndex(times_after(EPOCH, days), tz="UTC")


def days_since(first: Any, times: Any) -> Any:
    """Return the days from a time to others; not a number where one is missing."""
    return (times - first) / DAY


def times_after(first: np.datetime64, days: NDArray[np.float64]) -> NDArray[Any]:
    """Return the times of some days after another one, to the microsecond; missing where a number is."""
    return first + (days * (DAY / np.timedelta64(1, "us"))).round().astype("timedelta64[us]")
