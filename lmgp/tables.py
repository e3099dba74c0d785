"""Tables of numbers in CSV and Parquet files: names of columns, then numbers."""

import csv
import gzip
import io
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmgp.columns import reads_as_date
from lmgp.errors import DatasetError, nearest_names

Floats = NDArray[np.float64]

# Words in place of a number.
MISSING = ("", "na", "n/a", "nan", "nat", "<na>", "null", "none", "?")
TRUTH = {"true": 1.0, "false": 0.0}

# What separates columns where it is no comma.
SEPARATORS = ";\t|"

# A number with a decimal comma.
WITH_COMMA = re.compile(r"[-+]?\d*,\d+")


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written.

    Attributes
    ----------
    sep : str, default=","
        One character between the columns.
    decimal : {".", ","}, default="."
        Between the digits of a number.
    encoding : str, default="utf-8-sig"
        As Python names it; of UTF-8, with a byte order mark or without.
    """

    sep: str = ","
    decimal: str = "."
    encoding: str = "utf-8-sig"

    def __post_init__(self) -> None:
        for name in ("sep", "decimal", "encoding"):
            if not isinstance(getattr(self, name), str):
                raise DatasetError(f"{name} (--{name}) must be text; got {getattr(self, name)!r}.")
        if len(self.sep) != 1:
            raise DatasetError(f"Columns are separated by one character (--sep); got {self.sep!r}.")
        if self.decimal not in (".", ",") or self.decimal == self.sep:
            raise DatasetError(
                f"The decimal mark (--decimal) is '.' or ',', and not what separates columns, {self.sep!r}; got "
                f"{self.decimal!r}."
            )
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError):
            raise DatasetError(f"There is no encoding {self.encoding!r} (--encoding); try latin-1 or utf-16.") from None


COMMAS = Dialect()


class Table(NamedTuple):
    """Columns of a table.

    Attributes
    ----------
    values : ndarray of shape (n, k)
    complete : ndarray of bool of shape (n,)
        Rows of finite numbers alone.
    """

    values: Floats
    complete: NDArray[np.bool_]


def read_table(
    source: Path | BinaryIO,
    choose: Callable[[str, tuple[str, ...]], Sequence[str]],
    dialect: Dialect = COMMAS,
    *,
    incomplete: bool = False,
    least: int = 2,
) -> Table:
    """Read some columns of a table.

    Parameters
    ----------
    source : pathlib.Path or binary file
        A CSV file; one whose name ends in ``.gz`` is compressed by gzip. One whose name ends in ``.parquet`` is read by
        pyarrow. A binary file is one of CSV.
    choose : callable
        Takes what the table is called in messages, and the names of its columns; returns those to read, in the order of
        the result.
    dialect : Dialect
        Of a CSV file.
    incomplete : bool, default=False
        Whether rows may have missing or infinite values in these columns.
    least : int, default=2
        The least number of rows, complete ones if rows may be incomplete.

    Raises
    ------
    DatasetError
        If the table cannot be read as such.
    """
    where = str(source) if isinstance(source, Path) else "standard input"
    if isinstance(source, Path) and (source.is_dir() or not source.exists()):
        what = "is a folder" if source.is_dir() else "does not exist"
        raise DatasetError(f"{source} {what}; give the path of a CSV file.")
    if isinstance(source, Path) and source.suffix == ".parquet":
        used, (values, lines) = _read_parquet(source, choose)
        place = "row"
    else:
        with _csv_reader(source, where, dialect) as reader:
            header = _read_header(where, reader, dialect)
            used = tuple(choose(where, header))
            _check_names(where, header, used)
            values, lines = _read_rows(where, reader, header, used, dialect)
        place = "line"
    finite = np.isfinite(values)
    complete: NDArray[np.bool_] = np.all(finite, axis=1)
    if not incomplete and not complete.all():
        counts = zip(used, (~finite).sum(axis=0), (~finite).argmax(axis=0), strict=True)
        told = [f"{name!r} ({count} rows, first {place} {lines[int(first)]})" for name, count, first in counts if count]
        raise DatasetError(
            f"{where}: missing or infinite values in {', '.join(told)}; fill them in or drop these rows (lmgp fit "
            "--drop)."
        )
    if complete.sum() < least:
        rows = "complete rows" if incomplete else "rows of data below its header"
        raise DatasetError(f"{where} has {complete.sum()} {rows}; at least {least} are needed.")
    return Table(values, complete)


def read_columns(
    source: Path | BinaryIO,
    target: str | None,
    columns: Sequence[str] | None,
    dialect: Dialect = COMMAS,
    *,
    incomplete: bool = False,
) -> tuple[Table, tuple[str, ...], str]:
    """Read the inputs and the target of a table.

    Parameters
    ----------
    source, dialect, incomplete
        See `read_table`.
    target : str or None
        The column to predict; None is refused with the names that the file has.
    columns : sequence of str or None
        The inputs; None means all but the target.

    Returns
    -------
    table : Table
        The target comes last.
    inputs, target : tuple of str, and str

    Raises
    ------
    DatasetError
        If the file cannot be read as such a table.
    """
    table, inputs = read_targets(source, None if target is None else [target], columns, dialect, incomplete=incomplete)
    return table, inputs, str(target)


def read_targets(
    source: Path | BinaryIO,
    targets: Sequence[str] | None,
    columns: Sequence[str] | None,
    dialect: Dialect = COMMAS,
    *,
    incomplete: bool = False,
) -> tuple[Table, tuple[str, ...]]:
    """Read the inputs and several targets of a table, see `read_columns`.

    Returns
    -------
    table : Table
        The targets come last, in their order.
    inputs : tuple of str
    """
    inputs: list[str] = []

    def choose(where: str, names: tuple[str, ...]) -> Sequence[str]:
        if targets is None:
            raise DatasetError(f"{where}: the target is needed (--target); columns are {', '.join(names)}.")
        if columns is None:
            _check_names(where, names, names)
        wanted = columns
        if columns is None:
            wanted = [name for name in names if name not in targets]
        for target in targets:
            inputs[:] = choose_inputs(where, names, target, wanted)
        return (*inputs, *targets)

    return read_table(source, choose, dialect, incomplete=incomplete), tuple(inputs)


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
    if not isinstance(columns, Sequence):
        raise DatasetError(f"{where}: columns must be a list of names; got {columns!r}.")
    inputs = (columns,) if isinstance(columns, str) else tuple(columns)
    unknown = [name for name in (target, *inputs) if name not in names]
    if unknown:
        told = "; ".join(f"no column is named {name!r}, {nearest_names(str(name), names)}" for name in unknown)
        raise DatasetError(f"{where}: {told}")
    if not inputs:
        raise DatasetError(f"{where}: no input column is left beside the target {target!r}; at least one is needed.")
    if len({*inputs, target}) <= len(inputs):
        raise DatasetError(f"{where}: name each input once, and not the target {target!r} among them; got {inputs}.")
    return inputs


@contextmanager
def _csv_reader(source: Path | BinaryIO, where: str, dialect: Dialect) -> Iterator[Any]:
    """Open a CSV file; whatever makes it unreadable becomes a `DatasetError`."""
    reader: Any = csv.reader(())
    try:
        with _opened(source) as stream:
            text = io.TextIOWrapper(stream, encoding=dialect.encoding, newline="")
            try:
                reader = csv.reader(text, delimiter=dialect.sep)
                yield reader
            finally:
                text.detach()  # standard input stays open
    except (OSError, EOFError, zlib.error, UnicodeError, csv.Error) as error:
        if isinstance(error, DatasetError):
            raise
        encoding = "UTF-8" if dialect.encoding == COMMAS.encoding else dialect.encoding
        expected = (
            f"expected text in {encoding} with its quotation marks closed, compressed only if its name ends in .gz"
        )
        cure = "; if it is in another encoding, name that (--encoding latin-1)" * isinstance(error, UnicodeError)
        raise DatasetError(
            f"{where} could not be read after line {reader.line_num}: {error}; {expected}{cure}."
        ) from error


@contextmanager
def _opened(source: Path | BinaryIO) -> Iterator[BinaryIO]:
    if not isinstance(source, Path):
        yield source
        return
    opener: Any = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rb") as stream:
        yield stream


def _read_header(where: str, reader: Any, dialect: Dialect) -> tuple[str, ...]:
    names = tuple(name.strip() for name in next(filter(None, reader), ()))
    if not names:
        raise DatasetError(f"{where} is empty; expected a header line with the names of the columns, then numbers.")
    others = "," + SEPARATORS
    found = next((mark for mark in others.replace(dialect.sep, "") if mark in names[0]), None)
    if len(names) == 1 and found is not None:
        separated = "by commas" if dialect.sep == "," else f"by {dialect.sep!r}"
        raise DatasetError(
            f"{where} is not separated {separated}: its first line is {names[0]!r}; say what separates its columns "
            f"(--sep {found!r})."
        )
    if all(_number(name, dialect.decimal) is not None for name in names):
        raise DatasetError(f"{where} has no header: line 1 is all numbers; put the names of the columns above it.")
    return names


def _check_names(where: str, header: Sequence[str], used: Sequence[str]) -> None:
    if "" in used:
        raise DatasetError(
            f"{where}: column {header.index('') + 1} has no name in the header; give it one or remove it, or name the "
            "inputs (--columns)."
        )
    counts = Counter(header)
    repeated = [name for name in dict.fromkeys(header) if counts[name] > 1 and name in used]
    if repeated:
        raise DatasetError(f"{where}: the header has {', '.join(repeated)} more than once; make the names differ.")


def _number(field: str, decimal: str = ".") -> float | None:
    """Convert one field: NaN where the value is missing, 1 and 0 for true and false, None where it is no number."""
    word = field.strip().lower()
    if word in MISSING:
        return float("nan")
    if word in TRUTH:
        return TRUTH[word]
    if decimal == ",":
        word = "" if "." in word else word.replace(",", ".")  # a point would be between thousands
    try:
        return None if "_" in word else float(word)  # to Python 12_3 is a number, in a file it is a code
    except ValueError:
        return None


def _read_rows(
    where: str, reader: Any, header: Sequence[str], used: Sequence[str], dialect: Dialect
) -> tuple[Floats, Sequence[int]]:
    """Read the columns in `used` as an array of shape (n, len(used)), with the line of each row."""
    places = [header.index(name) for name in used]
    pick = itemgetter(*places) if len(places) > 1 else lambda row: (row[places[0]],)
    values, lines = array("d"), array("q")
    offending: dict[str, tuple[int, str]] = {}
    for row in filter(None, reader):
        if len(row) != len(header):
            got = f"line {reader.line_num} has {len(row)} fields, the header has {len(header)}"
            mark = "commas" if dialect.sep == "," else repr(dialect.sep)
            raise DatasetError(f"{where}: {got}; mend the line, and put fields that contain {mark} into quotes.")
        fields = pick(row)
        numbers = [number for one in fields if (number := _number(one, dialect.decimal)) is not None]
        if len(numbers) < len(fields):
            for name, field in zip(used, fields, strict=True):
                if _number(field, dialect.decimal) is None:
                    offending.setdefault(name, (reader.line_num, field))
        values.extend(numbers)
        lines.append(reader.line_num)
    if offending:
        raise _not_numeric(where, "line", offending, dialect.decimal)
    return np.frombuffer(values).reshape(len(lines), len(used)), lines


def _not_numeric(where: str, place: str, offending: dict[str, tuple[int, str]], decimal: str) -> DatasetError:
    got = ", ".join(f"{name!r} ({place} {line}: {field[:40]!r})" for name, (line, field) in offending.items())
    fields = [field for _, field in offending.values()]
    if decimal == "." and all(WITH_COMMA.fullmatch(field.strip()) for field in fields):
        return DatasetError(f"{where}: not numeric: {got}; if these are decimal commas, say so (--decimal ,).")
    dates = "dates as the days since the first one, " if any(map(reads_as_date, fields)) else ""
    return DatasetError(
        f"{where}: not numeric: {got}; encode them as numbers, {dates}or choose the inputs with --columns."
    )


def _read_parquet(
    path: Path, choose: Callable[[str, tuple[str, ...]], Sequence[str]]
) -> tuple[tuple[str, ...], tuple[Floats, Sequence[int]]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise DatasetError(f"{path}: Parquet files need pyarrow: pip install pyarrow, or give a CSV file.") from None
    try:
        file = parquet.ParquetFile(path)
        header = tuple(file.schema_arrow.names)
        used = tuple(choose(str(path), header))
        _check_names(str(path), header, used)
        read = file.read(columns=list(used))
    except (pyarrow.ArrowException, OSError, UnicodeError) as error:
        if isinstance(error, DatasetError):
            raise
        raise DatasetError(f"{path} could not be read as Parquet: {str(error).splitlines()[0]}") from error
    columns, offending = [], {}
    for name in used:
        column, kinds = read.column(name), pyarrow.types
        kind = column.type
        if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind)):
            offending[name] = (0, str(column[0]) if len(column) else str(kind))
            continue
        columns.append(np.asarray(column.cast(pyarrow.float64()).to_numpy(), dtype=np.float64))
    if offending:
        raise _not_numeric(str(path), "row", offending, ".")
    return used, (np.column_stack(columns), range(read.num_rows))
