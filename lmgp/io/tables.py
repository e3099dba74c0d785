"""Tables of numbers in CSV and Parquet files: names of columns, then numbers."""

import csv
import gzip
import io
import math
import re
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats
from lmgp.errors import DatasetError, InputError, missing_columns, nearest_names
from lmgp.io.geometry import DRIVERS, read_features, without_geometry
from lmgp.io.kinds import Kinds
from lmgp.saving.output import whole_file
from lmgp.utils.columns import LOCAL_DATE, SIGNS, reads_as_date, reads_as_number
from lmgp.utils.dates import EPOCH, days_since, times_of, zone_of

if TYPE_CHECKING:
    import pandas

Chooser = Callable[[str, tuple[str, ...]], Sequence[str]]
Opener = Callable[[], BinaryIO]

# The formats of pyarrow by the ending of a file's name.
FORMATS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc"}

# Rows and fields of CSV that are read at a time, bytes of a Parquet file, and bytes that say whether a file is text.
BATCH_ROWS, BATCH_FIELDS, BUFFER_BYTES, START_BYTES = 2**16, 2**22, 2**20, 2**10

# Words in place of a number, in lower case.
MISSING = ("", "na", "n/a", "nan", "nat", "<na>", "null", "none", "?")
TRUTH = {"true": 1.0, "false": 0.0}

# What columns are, with the kinds of fields that they may have, and the types of fields, as pandas names them, that are
# read.
KINDS = {"numbers": ("numbers",), "dates": ("dates",), "text": ("text", "dates")}
READABLE = ("string", "integer", "boolean", "date", "datetime", "datetime64", "decimal", "categorical", "empty")

# How the name starts that pandas gives to an index without a name in a Parquet file.
INDEX = "__index_level_"

# What separates columns, the most frequent mark first.
SEPARATORS = ",;\t|"

# A number with a decimal comma, and one with commas between thousands, or what may be either.
WITH_COMMA, WITH_THOUSANDS = re.compile(r"[-+]?\d*,\d+"), re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")

# What no text has: a file with one of these is a picture, an archive, or in another encoding.
CONTROL = frozenset(map(chr, range(8)))

# What is raised where a file is damaged, or not written as it should be.
UNREADABLE = (OSError, EOFError, zlib.error, UnicodeError, csv.Error)


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


def read_table(
    source: Path | BinaryIO,
    choose: Chooser,
    dialect: Dialect = COMMAS,
    *,
    incomplete: bool = False,
    least: int = 2,
    kinds: Kinds | None = None,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Read some columns of a table.

    Parameters
    ----------
    source : pathlib.Path or binary file
        A CSV file; one whose name ends in ``.gz`` is compressed by gzip. One whose name ends in ``.parquet`` is a
        Parquet file, and one in ``.arrow`` or ``.feather`` an Arrow file. A binary file is one of CSV.
    choose : callable
        Takes what the table is called in messages, and the names of its columns; returns those to read, in the order of
        the result.
    dialect : Dialect
        Of a CSV file.
    incomplete : bool, default=False
        Whether rows may have missing or infinite values in these columns.
    least : int, default=2
        The least number of rows, complete ones if rows may be incomplete.
    kinds : Kinds, optional
        What columns may be beside numbers, and gets what they are. None: all must be numbers.

    Returns
    -------
    values : ndarray of shape (n, k)
        A file is read part by part: it takes the memory of these values.
    complete : ndarray of bool of shape (n,)
        Rows of finite numbers alone.

    Raises
    ------
    DatasetError
        If the table cannot be read as such. The message names the file, the columns, and the first line of each, or of
        a Parquet file the first row, counted from 0.
    """
    where = str(source) if isinstance(source, Path) else "standard input"
    if isinstance(source, Path) and (source.is_dir() or not source.exists()):
        what = "is a folder" if source.is_dir() else "does not exist"
        raise DatasetError(f"{source} {what}; give the path of a CSV file.")
    lines: Sequence[int]
    ending = source.suffix.lower() if isinstance(source, Path) else ""
    if isinstance(source, Path) and ending in DRIVERS:
        used, values = _read_features(source, choose, kinds, incomplete)
        place, lines = "row", range(len(values))
    elif isinstance(source, Path) and ending in FORMATS:
        used, values = _read_parquet(source, choose, kinds)
        place, lines = "row", range(len(values))
    else:
        place = "line"
        used, values, lines = _read_csv(source, where, choose, dialect, kinds)
    finite = np.isfinite(values) if kinds is None or incomplete else kinds.complete(values, used)
    complete: NDArray[np.bool_] = np.all(finite, axis=1)
    if not incomplete and not complete.all():
        counts = zip(used, (~finite).sum(axis=0), (~finite).argmax(axis=0), strict=True)
        told = [
            f"{name!r} ({count} {'row' if count == 1 else 'rows'}, first {place} {lines[int(first)]})"
            for name, count, first in counts
            if count
        ]
        raise DatasetError(
            f"{where}: missing or infinite values in {', '.join(told)}; fill them in or drop these rows "
            "(--drop of lmgp fit, predict, score and plot)."
        )
    if complete.sum() < least:
        rows = "complete rows" if incomplete else "rows of data below its header"
        raise DatasetError(f"{where} needs at least {least} {rows}; it has {complete.sum()}.")
    return values, complete


def read_targets(
    source: Path | BinaryIO,
    targets: Sequence[str] | None,
    columns: Sequence[str] | None,
    dialect: Dialect = COMMAS,
    *,
    incomplete: bool = False,
    kinds: Kinds | None = None,
) -> tuple[Floats, NDArray[np.bool_], tuple[str, ...]]:
    """Read the inputs and the targets of a table.

    Parameters
    ----------
    source, dialect, incomplete, kinds
        See `read_table`.
    targets : sequence of str or None
        The columns to predict; None is refused with the names that the file has.
    columns : sequence of str or None
        The inputs; None means all but the targets, see `inputs_among`.

    Returns
    -------
    values : ndarray of shape (n, d + t)
        The targets come last, in their order.
    complete : ndarray of bool of shape (n,)
    inputs : tuple of str

    Raises
    ------
    DatasetError
        If the file cannot be read as such a table.
    """
    inputs: list[str] = []

    def choose(where: str, names: tuple[str, ...]) -> Sequence[str]:
        if targets is None:
            raise DatasetError(f"{where}: the target is needed (--target); columns are {', '.join(names)}.")
        if columns is None:
            _check_names(where, names, names)
        inputs[:] = choose_inputs(where, names, targets, columns)
        for name, kind in ({} if kinds is None else kinds.expected).items():
            if kind == "text" and name not in inputs:
                known = nearest_names(name, inputs)
                raise DatasetError(f"{where}: --category names inputs, and {name!r} is none of them; {known}")
        return (*inputs, *targets)

    values, complete = read_table(source, choose, dialect, incomplete=incomplete, kinds=kinds)
    return values, complete, tuple(inputs)


def choose_inputs(
    where: str, names: Sequence[str], targets: Sequence[str], columns: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the input columns asked for, by default all but the targets.

    Parameters
    ----------
    where : str
        The file or the set, for messages.
    names : sequence of str
        All columns.
    targets : sequence of str
    columns : sequence of str or None

    Raises
    ------
    DatasetError
        If a name is unknown, repeated or that of a target, or no input is left.
    """
    if columns is None:
        columns = inputs_among(names, targets)
    if not isinstance(columns, Sequence):
        raise DatasetError(f"{where}: columns must be a list of names; got {columns!r}.")
    inputs = (columns,) if isinstance(columns, str) else tuple(columns)
    unknown = [name for name in (*targets, *inputs) if name not in names]
    if unknown:
        raise DatasetError(f"{where}: {missing_columns(unknown, names)}")
    told = ", ".join(map(repr, targets))
    if not inputs:
        raise DatasetError(f"{where}: no input column is left beside the target {told}; at least one is needed.")
    if len({*inputs, *targets}) < len(inputs) + len(targets):
        taken = next((repr(target) for target in targets if target in inputs), told)
        raise DatasetError(f"{where}: name each input once, and not the target {taken} among them; got {inputs}.")
    return inputs


def inputs_among(names: Sequence[str], targets: Sequence[str]) -> list[str]:
    """Return all columns but the targets, and but an index without a name."""
    return [name for name in names if name not in targets and not name.startswith(INDEX)]


def write_table(out: str, parts: Iterable[dict[str, Floats]], dialect: Dialect) -> int:
    """Write columns of numbers: as CSV to standard output for "-", or to a file that appears whole.

    Numbers have all their digits; NaN is an empty field.

    Parameters
    ----------
    out : str
        The name says how the file is written: ``.parquet``, ``.gz`` for compressed CSV, or else CSV.
    parts : iterable of dict of str to ndarray of shape (n,)
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
    import pandas

    frames = map(pandas.DataFrame, parts)
    if out == "-":
        return _write_csv(sys.stdout, frames, dialect)
    with whole_file(out) as stream:
        ending = Path(out).suffix.lower()
        if ending == ".parquet":
            return _write_parquet(stream, frames)
        # Without the time of day, so that the same rows make the same file.
        compressed = {"method": "gzip", "mtime": 0} if ending == ".gz" else None
        return _write_csv(stream, frames, dialect, mode="wb", compression=compressed)


def _write_csv(stream: Any, frames: "Iterable[pandas.DataFrame]", dialect: Dialect, **options: Any) -> int:
    n_rows = 0
    for frame in frames:
        frame.to_csv(
            stream, sep=dialect.sep, decimal=dialect.decimal, header=not n_rows, index=False, lineterminator="\n",
            **options,
        )  # fmt: skip
        n_rows += len(frame)
    return n_rows


def _write_parquet(stream: BinaryIO, frames: "Iterable[pandas.DataFrame]") -> int:
    import pyarrow
    from pyarrow import parquet

    tables = (pyarrow.Table.from_pandas(frame, preserve_index=False) for frame in frames)
    first = next(tables)
    n_rows = 0
    with parquet.ParquetWriter(stream, first.schema) as writer:
        for table in chain([first], tables):
            writer.write_table(table)
            n_rows += table.num_rows
    return n_rows


def _read_csv(
    source: Path | BinaryIO, where: str, choose: Chooser, dialect: Dialect, kinds: Kinds | None
) -> tuple[Sequence[str], Floats, Sequence[int]]:
    """Return the chosen columns, their values, and the line of each row if a value is not finite."""
    import pandas

    open_file: Any = partial(gzip.open if where.lower().endswith(".gz") else open, source, "rb")
    if not isinstance(source, Path) or source.is_fifo():
        content = source.read_bytes() if isinstance(source, Path) else source.read()
        open_file = partial(io.BytesIO, content)  # which can be read again, to say where something is wrong
    parts: list[Floats] = []
    offending: dict[str, tuple[int, str, str]] = {}  # the first row and field that a column cannot have
    last_is_missing = False
    with _csv_rows(open_file, where, dialect) as (text, rows), warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # of a first row that is too long
        header = _read_header(where, rows, dialect)
        used = choose(where, header)
        _check_names(where, header, used)
        expected, levels = ({}, []) if kinds is None else (kinds.expected, [*kinds.levels.values()])
        missing = [*MISSING, *map(str.upper, MISSING), "NaN", "NaT", "None"]
        try:
            frames = pandas.read_csv(
                text,
                sep=dialect.sep,
                decimal=dialect.decimal,
                header=None,
                names=range(len(header)),
                index_col=False,
                keep_default_na=False,
                na_values=[word for word in missing if not any(word in of for of in levels)],
                dtype={
                    header.index(name): str for name in used if expected.get(name) == "text"
                },  # codes, such as 01234
                chunksize=max(1, min(BATCH_ROWS, BATCH_FIELDS // len(header))),
                low_memory=False,
            )
            for frame in frames:
                columns = []
                for name in used:
                    values = frame[header.index(name)]
                    numbers, wrong = _as_numbers(values, name, dialect.decimal, kinds)
                    if wrong is not None:
                        row, kind = wrong
                        offending.setdefault(name, (frame.index[row], str(values.iloc[row]), kind))
                    columns.append(numbers)
                parts.append(np.column_stack(columns))
                last_is_missing |= bool(frame.iloc[:, -1].isna().any())
        except (pandas.errors.ParserError, pandas.errors.ParserWarning, *UNREADABLE) as error:
            # Which says in what line it is, but for a quotation mark that stays open: this is in the last row.
            ends = [rows.line_num, *_lines(open_file, where, header, dialect)]
            raise _unreadable(where, ends[-2:][0], error, dialect) from error
    table = np.concatenate(parts)
    # To pandas, a row that is too short has missing values at its end.
    suspicious = offending or last_is_missing or not np.isfinite(table).all()
    lines = _lines(open_file, where, header, dialect) if suspicious else ()
    if offending:
        wrong_fields = {name: (f"line {lines[row]}", field, kind) for name, (row, field, kind) in offending.items()}
        raise _not_numeric(where, wrong_fields, dialect.decimal)
    return used, table, lines


@contextmanager
def _csv_rows(open_file: Opener, where: str, dialect: Dialect) -> Iterator[tuple[io.TextIOWrapper, Any]]:
    """Open a CSV file, and yield its text and a reader of it; what makes it unreadable becomes a `DatasetError`."""
    rows: Any = csv.reader(())
    try:
        with open_file() as stream:
            start = stream.read(START_BYTES)
            if not CONTROL.isdisjoint(start.decode(dialect.encoding, "ignore")):
                what = f"it is not text, and starts with the bytes {start[:8].hex(' ')}"
                if start.startswith(b"PK\x03\x04"):
                    what = "it is a zip archive, such as a workbook of Excel: save its sheet as CSV"
                raise _unreadable(where, 0, what, dialect)
            stream.seek(0)
            with io.TextIOWrapper(stream, encoding=dialect.encoding, newline="") as text:
                csv.field_size_limit(2**31 - 1)  # pandas has none
                rows = csv.reader(text, delimiter=dialect.sep)
                yield text, rows
    except UNREADABLE as error:
        raise _unreadable(where, rows.line_num, error, dialect) from error


def _unreadable(where: str, line: int, reason: Exception | str, dialect: Dialect) -> DatasetError:
    encoding = "UTF-8" if dialect.encoding == COMMAS.encoding else dialect.encoding
    is_other = isinstance(reason, UnicodeError | str)
    return DatasetError(
        f"{where} could not be read{f' after line {line}' * bool(line)}: {reason}; expected text in {encoding} with "
        "its quotation marks closed, compressed only if its name ends in .gz"
        f"{'; if it is in another encoding, name that (--encoding latin-1)' * is_other}."
    )


def _lines(open_file: Opener, where: str, header: Sequence[str], dialect: Dialect) -> list[int]:
    """Return the line of each row, and refuse a row that is longer or shorter than the header."""
    lines, before = [], 0
    with _csv_rows(open_file, where, dialect) as (_, rows):
        for row in rows:
            first, before = before + 1, rows.line_num
            if len(row) == 0 or (len(row) == 1 and row[0].isspace()):
                continue
            if len(row) != len(header):
                which, cure = f"line {before} has", "mend the line, and put fields that contain {mark} into quotes"
                if first < before:
                    which, cure = f"the row of lines {first} to {before} has", "close its quotation mark"
                mark = "commas" if dialect.sep == "," else repr(dialect.sep)
                raise DatasetError(
                    f"{where}: {which} {len(row)} fields, the header has {len(header)}; {cure.format(mark=mark)}."
                )
            lines.append(before)
    return lines[1:]


def _read_header(where: str, rows: Any, dialect: Dialect) -> tuple[str, ...]:
    first = next((row for row in rows if any(map(str.strip, row))), ())
    names = tuple(name.lstrip("\ufeff").strip() for name in first)  # a byte order mark that the encoding does not know
    if not names:
        raise DatasetError(f"{where} is empty; expected a header line with the names of the columns, then numbers.")
    separator = next((mark for mark in SEPARATORS if mark in names[0] and mark != dialect.sep), None)
    if len(names) == 1 and separator is not None:
        expected = "by commas" if dialect.sep == "," else f"by {dialect.sep!r}"
        raise DatasetError(
            f"{where} is not separated {expected}: its first line is {names[0]!r}; say what separates its columns "
            f"(--sep {separator!r})."
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
    repeated = [name for name, count in Counter(header).items() if count > 1 and name in used]
    if repeated:
        raise DatasetError(f"{where}: the header has {', '.join(repeated)} more than once; make the names differ.")


def _number(field: str, decimal: str) -> float | None:
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


def _as_numbers(
    fields: "pandas.Series", name: str, decimal: str, kinds: Kinds | None, has_nulls: bool = False
) -> tuple[Floats, tuple[int, str] | None]:
    """Return the fields of a column as numbers; or where the first one is that cannot be one, and what others are.

    Where missing values are nulls, each text is a category, also one that stands for a missing value elsewhere.
    """
    import pandas

    nothing, expected = np.full(len(fields), np.nan), "numbers" if kinds is None else kinds.expected.get(name)
    if kinds is not None and isinstance(fields.dtype, pandas.CategoricalDtype):
        expected = expected or "text"
    if pandas.api.types.is_numeric_dtype(fields):
        values, kind = fields.to_numpy(dtype=np.float64, na_value=np.nan), "numbers"
        if expected == "dates" and fields.notna().any():
            return nothing, (int(fields.notna().argmax()), "dates")
    elif pandas.api.types.infer_dtype(fields, skipna=True) not in READABLE:  # lists and durations, say
        return nothing, (int(fields.notna().argmax()), "numbers")
    else:
        place, words = pandas.factorize(fields)
        kinds_of_words = [_kind(word, decimal) for word in words]
        counts = Counter(kinds_of_words[j] for j in place if j >= 0)
        before = None if kinds is None else kinds.found.get(name)  # in the rows that were read before
        kind = expected or (before if before and counts[before] else max(KINDS, key=counts.__getitem__))
        wrong = [j for j, as_kind in enumerate(kinds_of_words) if as_kind is not None and as_kind not in KINDS[kind]]
        if wrong and expected != "text":  # categories may be anything
            return nothing, (int(np.isin(place, wrong).argmax()), kind)
        levels = {} if kinds is None else kinds.levels.get(name, {})
        texts = [str(word).strip() for word in words]
        known = [
            word if as_kind is not None or text in levels or (has_nulls and kind == "text" and text) else None
            for word, as_kind, text in zip(words, kinds_of_words, texts, strict=True)
        ]
        if kind == "numbers":
            of_words = np.array([np.nan if word is None else _number(str(word), decimal) for word in known])
        elif kind == "dates":
            assert kinds is not None  # or all were numbers
            kinds.zones.setdefault(name, set()).update(zone_of(word) for word in known if word is not None)
            of_words = days_since(EPOCH, times_of(pandas.Series(known, dtype=object)))
        else:
            assert kinds is not None  # or all were numbers
            if decimal == ",":  # a category that is a number has one name
                texts = [
                    text.replace(",", ".") if text not in levels and WITH_COMMA.fullmatch(text) else text
                    for text in texts
                ]
            pairs = zip(texts, known, strict=True)
            of_words = kinds.coded(name, [None if word is None else text for text, word in pairs])
        values = np.append(of_words, np.nan)[place]
    if kinds is not None and not np.isnan(values).all():
        kinds.note(name, kind)
    return values, None


def _kind(field: Any, decimal: str) -> str | None:
    """Say what a field is, one of `KINDS`; None where the value is missing."""
    if isinstance(field, date):
        return "dates"
    number = _number(str(field), decimal)
    if number is not None:
        return None if math.isnan(number) else "numbers"
    if reads_as_number(SIGNS.sub("", str(field))) or LOCAL_DATE.fullmatch(str(field)):
        return "marked"  # with the other decimal mark, marks between thousands, or a unit; or a date of a country
    return "dates" if reads_as_date(str(field)) else "text"


def _not_numeric(where: str, offending: dict[str, tuple[str, str, str]], decimal: str) -> DatasetError:
    """Return the error of fields, each with its place, its text, and what its column has in place of such fields."""
    name, (place, field, kind) = next(iter(offending.items()))
    if kind != "numbers":
        return DatasetError(
            f"{where}: column {name!r} has {kind}, but for {field[:40]!r} ({place}); mend this field, or leave its "
            "row out; if the column has categories, say so (--category of lmgp fit)."
        )
    wrong = {name: (place, field) for name, (place, field, kind) in offending.items() if kind == "numbers"}
    got = ", ".join(f"{name!r} ({place}: {field[:40]!r})" for name, (place, field) in wrong.items())
    fields = [field for _, field in wrong.values()]
    if decimal == "." and all(WITH_THOUSANDS.fullmatch(field.strip()) for field in fields):
        return DatasetError(
            f"{where}: not numeric: {got}; if these commas are between thousands, take them out; if they are decimal "
            "commas, say so (--decimal ,)."
        )
    if decimal == "." and all(WITH_COMMA.fullmatch(field.strip()) for field in fields):
        return DatasetError(f"{where}: not numeric: {got}; if these are decimal commas, say so (--decimal ,).")
    dates = "dates as the days since the first one, " if any(map(reads_as_date, fields)) else ""
    if any(map(LOCAL_DATE.fullmatch, fields)):
        dates = "dates as 2020-01-31, "
    return DatasetError(
        f"{where}: not numeric: {got}; encode them as numbers, {dates}say that they are categories (--category of lmgp "
        "fit), or use other columns (--columns, --target)."
    )


def _read_parquet(path: Path, choose: Chooser, kinds: Kinds | None) -> tuple[Sequence[str], Floats]:
    """Return the chosen columns of a Parquet file, and their values."""
    from pyarrow.types import is_integer

    with readable(path):
        dataset = opened(path)
        header = tuple(dataset.schema.names)
        used = choose(str(path), header)
        _check_names(str(path), header, used)
        expected = {} if kinds is None else kinds.expected
        parts: list[Floats] = []
        schema, n_rows = dataset.schema, 0
        others = [name for name in used if expected.get(name) == "dates" or not is_numeric(schema.field(name).type)]
        # Identifiers may have more digits than floats.
        codes = [name for name in used if expected.get(name) == "text" and is_integer(schema.field(name).type)]
        for batch in batches(dataset, used):
            fields = {name: batch.column(name).to_pandas() for name in others}
            fields |= {name: batch.column(name).cast("string").to_pandas() for name in codes}
            read = _read_frame(path, fields, kinds, n_rows)
            numeric = iter(as_floats(batch, [name for name in used if name not in fields]).T)
            parts.append(np.column_stack([read[name] if name in read else next(numeric) for name in used]))
            n_rows += len(batch)
    return used, np.concatenate([np.empty((0, len(used))), *parts])


def _read_features(path: Path, choose: Chooser, kinds: Kinds | None, incomplete: bool) -> tuple[Sequence[str], Floats]:
    """Return the chosen columns of a file of points, and their values."""
    try:
        frame, crs = without_geometry(read_features(path), incomplete)
    except InputError as error:
        raise DatasetError(f"{path}: {error}") from None
    header = tuple(map(str, frame.columns))
    used = choose(str(path), header)
    if kinds is not None:
        kinds.crs = crs
    read = _read_frame(path, {name: frame[name] for name in used}, kinds)
    return used, np.column_stack([read[name] for name in used])


def _read_frame(
    path: Path, fields: "dict[str, pandas.Series]", kinds: Kinds | None, before: int = 0
) -> dict[str, Floats]:
    """Return columns as numbers; refuse those that cannot be numbers, with the first row, after those `before`."""
    read, offending = {}, {}
    for name, column in fields.items():
        read[name], wrong = _as_numbers(column, name, ".", kinds, has_nulls=True)
        if wrong is not None:
            row, kind = wrong
            offending[name] = f"row {before + row}", str(column.iloc[row]), kind
    if offending:
        raise _not_numeric(str(path), offending, ".")
    return read


def opened(path: Path) -> Any:
    """Open a file as a data set of pyarrow, which reads its columns when it is asked for them."""
    from pyarrow import dataset

    file = dataset.dataset(path, format=FORMATS[path.suffix.lower()])
    if len(set(file.schema.names)) < len(file.schema.names):
        raise DatasetError(f"{path} has two columns of one name among {', '.join(file.schema.names)}; rename one.")
    return file


def batches(file: Any, used: Sequence[str]) -> Iterator[Any]:
    """Yield some columns of a file, few rows at a time."""
    from pyarrow import dataset

    buffered = dataset.ParquetFragmentScanOptions(use_buffered_stream=True, buffer_size=BUFFER_BYTES, pre_buffer=False)
    options = {"fragment_scan_options": buffered} if file.format.default_extname == "parquet" else {}
    yield from file.to_batches(
        columns=list(used), batch_size=BATCH_ROWS, use_threads=False, batch_readahead=1, fragment_readahead=1, **options
    )


def is_numeric(kind: Any) -> bool:
    """Say whether a type of Arrow is one of numbers, or of true and false."""
    from pyarrow import types

    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(is_one(kind) for is_one in numeric)


def as_floats(batch: Any, used: Sequence[str]) -> Floats:
    """Return columns of a batch as an array of shape (n, len(used)); nulls are NaN."""
    columns = [batch.column(name).cast("float64", safe=False).to_numpy(zero_copy_only=False) for name in used]
    return np.column_stack(columns) if columns else np.empty((len(batch), 0))


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn whatever makes a file unreadable into a `DatasetError`."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        told = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DatasetError(f"{path} could not be read as {path.suffix[1:].capitalize()}: {told}") from error
