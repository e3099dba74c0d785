"""Tables of numbers in CSV files: one header line, then numbers."""

import csv
import gzip
import zlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.columns import reads_as_date
from lmgp.errors import DatasetError, nearest_names

Floats = NDArray[np.float64]

# Words in place of a number.
MISSING = ("", "na", "n/a", "nan", "nat", "<na>", "null", "none", "?")
TRUTH = {"true": 1.0, "false": 0.0}


def read_columns(path: Path, target: str | None, columns: Sequence[str] | None) -> tuple[Floats, tuple[str, ...], str]:
    """Read the inputs and the target of a table.

    Parameters
    ----------
    path : pathlib.Path
        A file in UTF-8; a name that ends in ``.gz`` means compressed by gzip.
    target : str or None
        The column to predict; None is refused with the names that the file has.
    columns : sequence of str or None
        The inputs; None means all but the target.

    Returns
    -------
    table : ndarray of shape (n, n_inputs + 1)
        The target comes last.
    inputs, target : tuple of str, and str

    Raises
    ------
    DatasetError
        If the file cannot be read as such a table.
    """
    if path.is_dir() or not path.exists():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise DatasetError(f"{path} {what}; give the path of a CSV file.")
    with _csv_reader(path) as reader:
        header = _read_header(path, reader)
        if target is None:
            raise DatasetError(f"{path}: the target is needed (--target); columns are {', '.join(header)}.")
        inputs = choose_inputs(str(path), header, target, columns)
        return _read_rows(path, reader, header, (*inputs, target)), inputs, target


def choose_inputs(where: str, names: Sequence[str], target: str, columns: Sequence[str] | None) -> tuple[str, ...]:
    """Return the input columns asked for, by default all but the target.

    Parameters
    ----------
    where : str
        The file or the set, for messages.
    names : sequence of str
        All columns.
    target : str
    columns : sequence of str or None

    Raises
    ------
    DatasetError
        If a name is unknown, repeated or that of the target, or no input is left.
    """
    if columns is None:
        columns = [name for name in names if name != target]
    inputs = (columns,) if isinstance(columns, str) else tuple(columns)
    unknown = [name for name in (target, *inputs) if name not in names]
    if unknown:
        told = "; ".join(f"no column is named {name!r}, {nearest_names(name, names)}" for name in unknown)
        raise DatasetError(f"{where}: {told}")
    if not inputs:
        raise DatasetError(f"{where}: no input column is left beside the target {target!r}; at least one is needed.")
    if len({*inputs, target}) <= len(inputs):
        raise DatasetError(f"{where}: name each input once, and not the target {target!r} among them; got {inputs}.")
    return inputs


@contextmanager
def _csv_reader(path: Path) -> Iterator[Any]:
    """Open a comma-separated file; whatever makes it unreadable becomes a `DatasetError`."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    reader: Any = csv.reader(())
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream)
            yield reader
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        expected = "expected text in UTF-8 with its quotation marks closed, compressed only if its name ends in .gz"
        raise DatasetError(f"{path} could not be read after line {reader.line_num}: {error}; {expected}.") from error


def _read_header(path: Path, reader: Any) -> tuple[str, ...]:
    names = tuple(name.strip() for name in next(filter(None, reader), ()))
    if not names:
        raise DatasetError(f"{path} is empty; expected a header line with the names of the columns, then numbers.")
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        raise DatasetError(f"{path} is not separated by commas: its first line is {names[0]!r}; save it with commas.")
    if all(_number(name) is not None for name in names):
        raise DatasetError(f"{path} has no header: line 1 is all numbers; put the names of the columns above it.")
    if "" in names:
        raise DatasetError(f"{path}: column {names.index('') + 1} has no name in the header; give it one or remove it.")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise DatasetError(f"{path}: the header has {', '.join(repeated)} more than once; make the names differ.")
    return names


def _number(field: str) -> float | None:
    """Convert one field: NaN where the value is missing, 1 and 0 for true and false, None where it is no number."""
    word = field.strip().lower()
    if word in MISSING:
        return float("nan")
    if word in TRUTH:
        return TRUTH[word]
    try:
        return None if "_" in field else float(field)  # to Python 12_3 is a number, in a file it is a code
    except ValueError:
        return None


def _read_rows(path: Path, reader: Any, header: Sequence[str], used: Sequence[str]) -> Floats:
    """Read the columns in `used`, at least two, as an array of shape (n, len(used))."""
    pick = itemgetter(*(header.index(name) for name in used))
    values, lines = array("d"), array("q")
    offending: dict[str, str] = {}
    any_dates = False
    for row in filter(None, reader):
        if len(row) != len(header):
            got = f"line {reader.line_num} has {len(row)} fields, the header has {len(header)}"
            raise DatasetError(f"{path}: {got}; mend the line, and put fields that contain commas into quotes.")
        fields = pick(row)
        numbers = [number for number in map(_number, fields) if number is not None]
        if len(numbers) < len(fields):
            for name, field in zip(used, fields, strict=True):
                if _number(field) is None:
                    offending.setdefault(name, f"{name!r} (line {reader.line_num}: {field[:40]!r})")
                    any_dates = any_dates or reads_as_date(field)
        values.extend(numbers)
        lines.append(reader.line_num)
    if offending:
        got = ", ".join(offending.values())
        dates = "dates as the days since the first one, " if any_dates else ""
        raise DatasetError(
            f"{path}: not numeric: {got}; encode them as numbers, {dates}or choose the inputs with --columns."
        )
    if len(lines) < 2:
        raise DatasetError(f"{path} has {len(lines)} rows of data below its header; at least 2 are needed.")
    table = np.frombuffer(values).reshape(len(lines), len(used))
    bad = ~np.isfinite(table)
    if bad.any():
        counts = zip(used, bad.sum(axis=0), bad.argmax(axis=0), strict=True)
        told = [f"{name!r} ({count} rows, first line {lines[int(first)]})" for name, count, first in counts if count]
        raise DatasetError(f"{path}: missing or infinite values in {', '.join(told)}; fill them in or drop these rows.")
    return table
