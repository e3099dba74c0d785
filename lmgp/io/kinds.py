"""Columns of files that are no complete columns of numbers: dates, text, and gaps."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats
from lmgp.errors import DatasetError
from lmgp.utils.dates import in_utc

if TYPE_CHECKING:
    import pandas

# Stands for every zone but UTC: times are converted to UTC, and this says that they had one.
ELSEWHERE = timezone(timedelta(0), "elsewhere")


@dataclass
class Kinds:
    """What columns of a file may be, and what they were found to be.

    Attributes
    ----------
    expected : mapping of str to {"numbers", "dates", "text"} or None
        The kind that a column must have. A column that is not in it, or has None, is of the kind of most of its fields.
    filled : collection of str or None
        Columns that may lack values; None means all but those that must be numbers.
    levels : dict of str to dict of str to int
        Gets the columns of text, with the number by which each text is read. A text that it has from the
        start is never a missing value: "none" may be a category.
    zones : dict of str to set of str
        Gets the zones of the times of columns of dates, see `lmgp.utils.dates.zone_of`.
    crs : pyproj.CRS or None
        Gets the reference system of points.
    found : dict of str to str
        Gets the kinds of the columns that were read.
    """

    expected: Mapping[str, str | None] = field(default_factory=dict)
    filled: Collection[str] | None = None
    levels: dict[str, dict[str, int]] = field(default_factory=dict)
    zones: dict[str, set[str]] = field(default_factory=dict)
    crs: Any = None
    found: dict[str, str] = field(default_factory=dict)

    @property
    def dates(self) -> set[str]:
        """The columns of dates, which are read as days since 1970-01-01."""
        return self._of_kind("dates")

    def _of_kind(self, wanted: str) -> set[str]:
        return {name for name, kind in self.found.items() if kind == wanted}

    def note(self, name: str, kind: str) -> None:
        """Note what a part of a column has.

        Raises
        ------
        DatasetError
            If a part before had something else: its numbers would be taken for those of texts.
        """
        before = self.found.setdefault(name, kind)
        if before != kind:
            raise DatasetError(
                f"Column {name!r} has {before} in some rows and {kind} in others: make it one of these, or choose the "
                "inputs with --columns."
            )

    def coded(self, name: str, texts: Sequence[str | None]) -> Floats:
        """Return the numbers of the texts of a column, NaN where one is missing."""
        levels = self.levels.setdefault(name, {})
        return np.array([np.nan if text is None else levels.setdefault(text, len(levels)) for text in texts])

    def complete(self, values: Floats, used: Sequence[str]) -> NDArray[np.bool_]:
        """Say which values of the columns `used`, shape (n, k), are finite, or may be missing."""
        filled = [self.expected.get(name) != "numbers" if self.filled is None else name in self.filled for name in used]
        return np.isfinite(values) | (np.isnan(values) & np.array(filled, dtype=np.bool_))

    def frame(self, values: Floats, names: Sequence[str]) -> "pandas.DataFrame":
        """Return values as they were in the file, with text as text and dates as dates, in UTC or without a zone.

        Raises
        ------
        DatasetError
            If some times of a column have a zone, and others none.
        """
        import pandas

        frame = pandas.DataFrame(values, columns=list(names))
        for name in self.dates & set(names):
            times, zones = in_utc(frame[name].to_numpy()), self.zones.get(name, {"UTC"})
            if "None" in zones and len(zones) > 1:
                raise DatasetError(
                    f"Some times of column {name!r} have a zone, and others none: write all with one, or all without."
                )
            frame[name] = times if zones == {"UTC"} else times.tz_convert(None if zones == {"None"} else ELSEWHERE)
        for name in self._of_kind("text") & set(names):
            texts = np.array([*self.levels[name], None], dtype=object)
            frame[name] = texts[np.where(np.isnan(frame[name]), len(texts) - 1, frame[name]).astype(np.intp)]
        return frame
