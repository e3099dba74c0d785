"""Grids of inputs, and the tables that predictions are written to."""

import csv
import gzip
import io
import math
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError, OutputError
from lmgp.saving.output import whole_file
from lmgp.tables import Dialect

if TYPE_CHECKING:
    from lmgp.grids import GridPrediction

Floats = NDArray[np.float64]
NETCDF = ".nc"

# Rows that are written at a time.
LINES = 2**14


def axes_of(axes: Sequence[str], names: Sequence[str]) -> dict[str, Floats]:
    """Read the axes of a grid of some columns.

    Parameters
    ----------
    axes : sequence of str
        ``NAME=FROM:TO:N`` for N values from one to the other, both included, or ``NAME=VALUE`` for one.
    names : sequence of str
        All columns, each of which must have an axis.

    Returns
    -------
    dict of str to ndarray
        The values of each axis, in the order of `axes`.

    Raises
    ------
    InputError
        If an axis is malformed, unknown or repeated, or a column has none.
    """
    from lmgp.grids import check_axes

    values: dict[str, Floats] = {}
    for axis in axes:
        name, _, numbers = axis.rpartition("=")
        if not name:
            raise InputError(f"An axis of a grid is COLUMN=FROM:TO:N, such as lon=-6:2:200; got {axis!r}.")
        if name in values:
            raise InputError(f"--grid has the column {name!r} more than once.")
        values[name] = _axis(axis, numbers)
    check_axes(values, names)
    return values


def _axis(axis: str, numbers: str) -> Floats:
    from lmgp.grids import MOST_POINTS

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


def check_format(out: str, is_grid: bool) -> None:
    """Refuse names of files that predictions are not written to.

    Raises
    ------
    InputError
        If predictions cannot be written in this format.
    OutputError
        If xarray is missing, which writes netCDF.
    """
    suffix = Path(out).suffix.lower()
    if suffix in (".tif", ".tiff"):
        raise InputError(
            f"{out}: GeoTIFF files are not written here; give a name in .nc, or use lmgp.predict_grid(...).to_raster() "
            "and rasterio in Python (see docs/spatial.md)."
        )
    if suffix == NETCDF:
        if not is_grid:
            raise InputError(f"{out}: netCDF files are for a --grid; of a table name a .csv, .csv.gz or .parquet file.")
        from lmgp.grids import check_xarray

        try:
            check_xarray()
        except ImportError as error:
            raise OutputError(f"{out}: {error}") from None


def write_table(out: str, tables: Iterable[dict[str, Floats]], dialect: Dialect) -> int:
    """Write columns of numbers: as CSV to standard output for "-", or to a file that appears whole.

    Numbers have all their digits; NaN is an empty field.

    Parameters
    ----------
    out : str
        The name says how the file is written: ``.parquet``, ``.gz`` for compressed CSV, or else CSV.
    tables : iterable of dict of str to ndarray of shape (n,)
        The rows, one part of them after the other, at least one; all with the same columns.
    dialect : Dialect
        Of CSV; its encoding is that of standard output, or UTF-8 of a file.

    Returns
    -------
    int
        The number of rows.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    if out == "-":
        return _write_csv(sys.stdout, tables, dialect)
    if Path(out).suffix == ".parquet":
        return _write_parquet(out, tables)
    with whole_file(out) as stream:
        if Path(out).suffix == ".gz":
            with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, filename="") as compressed:
                return _write_text(compressed, tables, dialect)  # type: ignore[arg-type]
        return _write_text(stream, tables, dialect)


def _write_text(stream: BinaryIO, tables: Iterable[dict[str, Floats]], dialect: Dialect) -> int:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    try:
        n_rows = _write_csv(text, tables, dialect)
        text.flush()
        return n_rows
    finally:
        text.detach()


def _write_csv(stream: TextIO, tables: Iterable[dict[str, Floats]], dialect: Dialect) -> int:
    writer, total = csv.writer(stream, delimiter=dialect.sep, lineterminator="\n"), 0
    for columns in tables:
        if not total:
            writer.writerow(columns)
        n_rows = len(next(iter(columns.values())))
        for start in range(0, n_rows, LINES):
            parts = (values[start : start + LINES].tolist() for values in columns.values())
            writer.writerows([_field(value, dialect.decimal) for value in row] for row in zip(*parts, strict=True))
        total += n_rows
    return total


def _field(value: float, decimal: str) -> str:
    return "" if math.isnan(value) else repr(value).replace(".", decimal)


def _write_parquet(out: str, tables: Iterable[dict[str, Floats]]) -> int:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise OutputError(f"{out}: Parquet files need pyarrow: pip install pyarrow, or name a CSV file.") from None
    made = (
        pyarrow.table({name: pyarrow.array(values, from_pandas=True) for name, values in columns.items()})
        for columns in tables
    )
    first, total = next(made), 0
    with whole_file(out) as stream, parquet.ParquetWriter(stream, first.schema) as writer:
        for table in chain([first], made):
            writer.write_table(table)
            total += table.num_rows
    return total


def write_netcdf(out: str, grid: "GridPrediction", target: str | None) -> None:
    """Write what was predicted on a grid as a netCDF file, which appears whole.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    with whole_file(out) as stream:
        # By way of memory: some versions close a stream that they are given.
        stream.write(grid.to_xarray(target=target).to_netcdf(engine="scipy"))
