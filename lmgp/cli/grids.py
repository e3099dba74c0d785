"""Grids of inputs, and the tables that predictions are written to."""

import csv
import gzip
import io
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError, OutputError, nearest_names
from lmgp.saving.output import whole_file
from lmgp.tables import Dialect

Floats = NDArray[np.float64]

# Points of a grid. More are more than a prediction is wanted of, and a mistake.
MOST_POINTS = 10**8

# Rows that are written at a time.
LINES = 2**14


def grid(axes: Sequence[str], names: Sequence[str]) -> dict[str, Floats]:
    """Make a grid of some columns.

    Parameters
    ----------
    axes : sequence of str
        ``NAME=FROM:TO:N`` for N values from one to the other, both included, or ``NAME=VALUE`` for one.
    names : sequence of str
        All columns, each of which must have an axis.

    Returns
    -------
    dict of str to ndarray of shape (n_points,)
        The columns in the order of `names`. The values of the last axis change fastest.

    Raises
    ------
    InputError
        If an axis is malformed, unknown or repeated, or a column has none.
    """
    values: dict[str, Floats] = {}
    for axis in axes:
        name, _, numbers = axis.rpartition("=")
        if not name:
            raise InputError(f"An axis of a grid is COLUMN=FROM:TO:N, such as lon=-6:2:200; got {axis!r}.")
        if name not in names:
            raise InputError(f"The model has no column {name!r} for --grid; {nearest_names(name, names)}.")
        if name in values:
            raise InputError(f"--grid has the column {name!r} more than once.")
        values[name] = _axis(axis, numbers)
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(f"--grid needs an axis of each column; missing are {', '.join(missing)}.")
    n_points = math.prod(len(one) for one in values.values())
    if n_points > MOST_POINTS:
        raise InputError(f"--grid has {n_points:,} points; the most are {MOST_POINTS:,}. Give smaller numbers.")
    points = dict(zip(values, np.meshgrid(*values.values(), indexing="ij"), strict=True))
    return {name: points[name].ravel() for name in names}


def _axis(axis: str, numbers: str) -> Floats:
    parts = numbers.split(":")
    try:
        ends = [float(part) for part in parts[:2]]
        n = int(parts[2]) if len(parts) == 3 else 1
    except ValueError:
        ends, n = [], 0
    if len(ends) + 1 != max(len(parts), 2) or n < 1 or not all(map(math.isfinite, ends)):
        raise InputError(
            f"An axis of a grid is COLUMN=FROM:TO:N, with two numbers and a positive integer, or COLUMN=VALUE; got "
            f"{axis!r}."
        )
    if n > MOST_POINTS:
        raise InputError(f"--grid has {n:,} values in {axis!r}; the most are {MOST_POINTS:,}. Give smaller numbers.")
    return np.linspace(ends[0], ends[-1], n)


def write_table(out: str, columns: dict[str, Floats], dialect: Dialect) -> None:
    """Write columns of numbers: as CSV to standard output for "-", or to a file that appears whole.

    Numbers have all their digits; NaN is an empty field.

    Parameters
    ----------
    out : str
        The name says how the file is written: ``.parquet``, ``.gz`` for compressed CSV, or else CSV.
    columns : dict of str to ndarray of shape (n,)
    dialect : Dialect
        Of CSV; its encoding is that of standard output, or UTF-8 of a file.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    if out == "-":
        _write_csv(sys.stdout, columns, dialect)
        return
    if Path(out).suffix == ".parquet":
        _write_parquet(out, columns)
        return
    with whole_file(out) as stream:
        if Path(out).suffix == ".gz":
            with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="") as compressed:
                _write_text(compressed, columns, dialect)  # type: ignore[arg-type]
        else:
            _write_text(stream, columns, dialect)


def _write_text(stream: BinaryIO, columns: dict[str, Floats], dialect: Dialect) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    try:
        _write_csv(text, columns, dialect)
        text.flush()
    finally:
        text.detach()


def _write_csv(stream: TextIO, columns: dict[str, Floats], dialect: Dialect) -> None:
    writer = csv.writer(stream, delimiter=dialect.sep, lineterminator="\n")
    writer.writerow(columns)
    n_rows = len(next(iter(columns.values())))
    for start in range(0, n_rows, LINES):
        parts = (values[start : start + LINES].tolist() for values in columns.values())
        writer.writerows([_field(value, dialect.decimal) for value in row] for row in zip(*parts, strict=True))


def _field(value: float, decimal: str) -> str:
    return "" if math.isnan(value) else repr(value).replace(".", decimal)


def _write_parquet(out: str, columns: dict[str, Floats]) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise OutputError(f"{out}: Parquet files need pyarrow: pip install pyarrow, or name a CSV file.") from None
    table = pyarrow.table({name: pyarrow.array(values, from_pandas=True) for name, values in columns.items()})
    with whole_file(out) as stream:
        parquet.write_table(table, stream)
