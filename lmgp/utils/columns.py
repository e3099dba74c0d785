"""Columns as they come: what in them is not a finite number is refused by name, with what to do."""

import datetime
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

from lmgp.errors import InputError, nearest_names

# The regressors that are fitted to chunks of rows and to dask collections.
STREAMED = (
    "GPRegressor, FeaturizedGPRegressor, LocalizedGPRegressor, NearestNeighborsGPRegressor, ResidualGPRegressor or "
    "SpectralGPRegressor"
)

NUMBERS = "biuf"

# What columns are that are not numbers, by how pandas names the kind of their values.
KINDS = {
    **dict.fromkeys(("datetime64", "datetime", "date", "period"), "dates"),
    **dict.fromkeys(("timedelta64", "timedelta"), "durations"),
    "complex": "complex numbers",
}

# Words for true and false, in lower case.
TRUE = {"true", "yes", "y", "t"}
TRUTHS = TRUE | {"false", "no", "n", "f"}

# The form of dates and times in ISO 8601 that pandas reads, too.
DATE = re.compile(r"[\d-]+([T ]\d\d(:?\d\d(:?\d\d(\.\d+)?)?)?(Z|[-+]\d\d(:?\d\d)?)?)?")

# What numbers are written with that floats are not; and dates in the order of a country, alone or before a time. A year
# has two digits after slashes only: 1.2.34 and 10-12-20 may be codes.
SIGNS = re.compile("[,%$€£¥]")
LOCAL_DATE = re.compile(
    r"\s*(\d{1,2}([-/.])\d{1,2}\2\d{4}|\d{1,2}/\d{1,2}/\d\d|\d{4}([/.])\d{1,2}\3\d{1,2})([ ,T]+\d{1,2}:.*)?\s*"
)

# The line of code that makes numbers of dates.
AS_DAYS = "(pd.to_datetime({}, utc=True) - pd.Timestamp('2020-01-01', tz='UTC')) / pd.Timedelta(days=1)"

# How many columns or rows a message lists.
SHOWN = 5


def dask_kind(table: Any) -> str | None:
    """Say what kind of dask collection this is: "array", "frame", "series", "other", or None; dask is not imported."""
    cls = type(table)
    if not hasattr(cls, "__dask_graph__") or all(of.__module__.partition(".")[0] != "dask" for of in cls.__mro__):
        return None
    if hasattr(cls, "map_blocks"):
        return "array"
    if hasattr(cls, "map_partitions") and hasattr(cls, "divisions"):
        return "frame" if table.ndim == 2 else "series"
    return "other"


def refuse_other_than_numbers(table: Any, name: str) -> None:
    """Check that a table or a column of a table has nothing but finite numbers, or text that reads as such.

    Sparse matrices and what is no table are left to scikit-learn's checks, which follow.

    Parameters
    ----------
    table : array-like of shape (n, d) or (n,)
        An array, a data frame, or lists.
    name : str
        ``"X"`` or ``"y"``, for messages.

    Raises
    ------
    InputError
        If there are dates, durations, complex numbers, text, missing or infinite values. The message names the columns
        and the first rows.
    TypeError
        If there is an object of another type.
    """
    refuse_what_is_no_table(table, name)
    table = with_columns(table)
    numbers = table.to_numpy() if hasattr(table, "iloc") else table
    if getattr(numbers, "dtype", np.dtype(object)).kind in NUMBERS:
        _refuse_not_finite(numbers, table, name)
        return
    if getattr(table, "ndim", 0) not in (1, 2) or 0 in table.shape:
        return
    import pandas

    frame = pandas.DataFrame(table)
    columns = [frame.iloc[:, j] for j in range(frame.shape[1])]
    if places := [j for j, column in enumerate(columns) if str(column.dtype) == "geometry"]:
        raise InputError(
            f"{_listed([label(table, name, j) for j in places])} has geometries: GPRegressor takes points as they are; "
            "elsewhere give two columns, their .x and .y."
        )
    kinds = [KINDS.get(pandas.api.types.infer_dtype(column, skipna=True)) for column in columns]
    for kind in ("dates", "durations", "complex numbers"):
        if places := [j for j, of in enumerate(kinds) if of == kind]:
            which = _listed([label(table, name, j) for j in places])
            has, code = "have" if len(places) > 1 else "has", _code(table, name, places[0])
            if pandas.api.types.infer_dtype(columns[places[0]]) == "period":
                code = f"pd.PeriodIndex({code}).to_timestamp()"
            raise InputError(f"{which} {has} {kind}{_instead(kind, code)}")
    numbers = [_converted(column, table, name, j) for j, column in enumerate(columns)]
    _refuse_not_finite(np.column_stack(numbers) if table.ndim == 2 else numbers[0], table, name)


def checked_table(table: Any, name: str = "X", **options: Any) -> NDArray[np.float64]:
    """Return a table as an array of floats of shape (n, d), after the checks of `refuse_other_than_numbers`.

    Parameters
    ----------
    table : array-like of shape (n, d)
    name : str, default="X"
        For messages.
    **options
        Those of `sklearn.utils.check_array`.
    """
    refuse_other_than_numbers(table, name)
    return check_array(table, dtype=np.float64, input_name=name, **options)


def column_index(columns: Iterable[Any], names: Sequence[str] | None, n_inputs: int, what: str) -> NDArray[np.intp]:
    """Return where columns are that are listed by index or name.

    Parameters
    ----------
    columns : iterable of int or str
    names : sequence of str, optional
        Of the columns of X, where it has names.
    n_inputs : int
        d.
    what : str
        The parameter that lists them, for messages.

    Raises
    ------
    InputError
        If there is no such column, or one is listed twice.
    """
    listed = list(columns)
    index = [_column_place(column, names, n_inputs, what) for column in listed]
    if len(set(index)) < len(index):
        raise InputError(f"{what} must list each column once; got {listed!r}.")
    return np.array(index, dtype=np.intp)


def _column_place(column: Any, names: Sequence[str] | None, n_inputs: int, what: str) -> int:
    if isinstance(column, str):
        if names is None:
            raise InputError(
                f"{what} names the column {column!r}, but X has no names of columns: give a data frame, or indices "
                f"from 0 to {n_inputs - 1}."
            )
        if column not in names:
            raise InputError(f"{what}: X has no column {column!r}, {nearest_names(column, names)}")
        return list(names).index(column)
    if isinstance(column, bool | np.bool_) or not isinstance(column, Integral):
        raise InputError(f"{what} must list columns by index or name; got {column!r}.")
    if not 0 <= (index := int(column)) < n_inputs:
        raise InputError(f"{what}: X has columns 0 to {n_inputs - 1}; got {column}.")
    return index


def refuse_what_is_no_table(table: Any, name: str) -> None:
    """Check that this can be a table or a column: not None, text, a dictionary, an iterator, or lists of many lengths.

    Raises
    ------
    InputError
    """
    what = "numbers, one a row" if name == "y" else "a table of numbers, one row for each observation"
    expected = f"{name} must be {what}: an array, {'a series' if name == 'y' else 'a data frame'} or a list"
    if dask_kind(table) is not None:
        raise InputError(
            f"{expected}; got a dask {type(table).__name__}. Dask collections are taken by fit, partial_fit, forget "
            f"and with_rows of {STREAMED}, X and y together, and by predict and predict_interval of models of one "
            f"target. Elsewhere give rows in memory, {name}.compute()."
        )
    if hasattr(table, "collect") and hasattr(table, "collect_schema"):  # of polars
        raise InputError(f"{expected}; got a {type(table).__name__}. Give {name}.collect().")
    if np.ma.is_masked(table):
        cure = "Leave these rows out, or give missing inputs as X.filled(np.nan)."
        raise InputError(f"{expected}; got a masked array with masked values. {cure}")
    if table is None:
        if name == "y":  # scikit-learn says who requires it
            return
        raise InputError(f"{expected}; got None.")
    if isinstance(table, str | bytes | PathLike):
        cure = f"Give the column itself, df[{table!r}]." if name == "y" else _read_first(str(table))
        raise InputError(f"{expected}; got {table!r}. {cure}")
    if isinstance(table, Mapping | Set | Iterator) and not issparse(table):  # of which one is a dictionary
        makes = f"pandas.DataFrame({name}) makes one of it" if isinstance(table, Mapping) else f"Give list({name})"
        raise InputError(f"{expected}; got a {type(table).__name__}. {makes}.")
    if name in ("X", "Z"):
        _refuse_one_axis(table, name)
    if isinstance(table, list | tuple):
        lengths = [len(row) if isinstance(row, list | tuple | np.ndarray) else None for row in table]
        other = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
        if other is not None:
            raise InputError(
                f"All rows of {name} must have the same length; row 0 has {_values(lengths[0])}, row {other} has "
                f"{_values(lengths[other])}."
            )
    if hasattr(table, "columns") and hasattr(table, "iloc") and not table.columns.is_unique:
        repeated = list(dict.fromkeys(table.columns[table.columns.duplicated()]))
        raise InputError(
            f"{name} has more than one column named {', '.join(map(repr, repeated[:SHOWN]))}; make the names differ."
        )


def _refuse_one_axis(table: Any, name: str) -> None:
    """Refuse a series, an array of one axis, and a list of single values."""
    is_list = isinstance(table, list | tuple) and all(np.ndim(row) == 0 for row in table[:SHOWN])
    if is_list or getattr(table, "ndim", 2) == 1:
        raise InputError(
            f"Expected 2D array, got 1D array of shape ({len(table)},) as {name}: a row for each observation and a "
            f"column for each input are needed. Reshape your data: {name}.reshape(-1, 1) is one column, "
            f"{name}.reshape(1, -1) is one row, and {name}.to_frame() makes a column of a series."
        )


def _read_first(path: str) -> str:
    """Say how a file becomes rows."""
    if path.lower().endswith((".parquet", ".arrow", ".feather")):
        kind = "parquet" if path.lower().endswith(".parquet") else "feather"
        return (
            f"Read a file first, pandas.read_{kind}(path), or fit a featurized, localized or spectral model to its "
            "rows chunk by chunk: lmgp.io.open_dataset(path, target=...)."
        )
    return "Read a file first, pandas.read_csv(path)."


def _values(length: int | None) -> str:
    if length is None:
        return "one number"
    return f"{length} value{'s' * (length != 1)}"


def with_columns(table: Any) -> Any:
    """Return a data frame, a series or an array; None for what is none of these."""
    if table is None or issparse(table) or hasattr(table, "iloc"):
        return None if issparse(table) else table
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            array = np.asarray(table)
            # In an array of text, the numbers and booleans of a list would be text, too.
            return np.asarray(table, dtype=object) if array.dtype.kind in "US" and array is not table else array
    except (ValueError, TypeError, Warning):  # lists of different lengths, say
        return None


def pandas_frame(X: Any) -> Any:
    """Return a data frame of another library, such as polars, as one of pandas; all else as it is."""
    is_frame = hasattr(X, "__dataframe__") or hasattr(X, "__arrow_c_stream__")  # of which a library may have one
    return X.to_pandas() if is_frame and hasattr(X, "to_pandas") else X


def label(table: Any, name: str, j: int) -> str:
    """Name a column of a table as messages do: column 'age' of X."""
    if table.ndim == 1:
        return name
    named = table.columns.tolist()[j] if hasattr(table, "iloc") else j
    return f"column {named!r} of {name}"


def _code(table: Any, name: str, j: int) -> str:
    """Return what selects a column, in a line of code: df['age']."""
    if not hasattr(table, "iloc"):
        return name if table.ndim == 1 else f"{name}[:, {j}]"
    label = table.name if table.ndim == 1 else table.columns[j]
    return name if label is None else f"df[{label!r}]"


def _instead(kind: str, code: str) -> str:
    """Say what to give in place of a column that is not of numbers."""
    if kind == "complex numbers":
        return (
            ". Complex data not supported: give the real and the imaginary part as two columns, or the absolute value."
        )
    if kind == "durations":
        cure = f"{code}.dt.total_seconds()" if code.startswith("df") else f'{code} / np.timedelta64(1, "s")'
        return f", which are not numbers: give their length in a unit that you choose, such as seconds, {cure}."
    return f", which are not numbers: give the days since one date for all tables, {AS_DAYS.format(code)}."


def _converted(column: Any, table: Any, name: str, j: int) -> NDArray[np.float64]:
    """Return a column as floats, with NaN where a value is missing."""
    values = np.asarray(column)
    try:  # at once, but for what alone reads as no number, and for text such as 12_3
        converted = values.astype(np.float64)
        if values.dtype.kind in NUMBERS or not any(isinstance(value, str) and "_" in value for value in values):
            return converted
    except (TypeError, ValueError, OverflowError):
        pass
    numbers, blank = np.full(len(values), np.nan), column.isna().to_numpy()
    for i, value in enumerate(values):
        if blank[i] or (isinstance(value, str) and not value.strip()):
            continue
        try:
            if isinstance(value, str) and not reads_as_number(value):
                raise ValueError(f"could not convert string to float: {str(value)!r}")
            numbers[i] = float(value)
        except (TypeError, ValueError, OverflowError) as error:
            which = _listed([label(table, name, j)])
            cure = _numbers_instead(values, name if table.ndim == 1 and name == "y" else "", _code(table, name, j))
            told = f"{which} is not numeric: {error} (row {_row(table, i)}). {cure}"
            # A type that is no number is a TypeError to scikit-learn, and to its checks of estimators.
            raise (TypeError(told) if isinstance(error, TypeError) else InputError(told)) from None
    return numbers


def _numbers_instead(values: NDArray[Any], name: str, code: str) -> str:
    """Say what makes numbers of a column of text."""
    words = {value for value in values if isinstance(value, str) and value.strip()}
    if any(map(reads_as_date, words)):
        return f"Text that reads as dates becomes days since one date for all tables by {AS_DAYS.format(code)}."
    if any(map(LOCAL_DATE.fullmatch, words)):
        return f"Text that reads as dates in the order of a country becomes days by pd.to_datetime({code}, format=...)."
    if words and all(reads_as_number(SIGNS.sub("", word)) for word in words):
        if all(reads_as_number(word.replace(",", "")) for word in words):
            return 'Commas are no part of a number: read the file with pd.read_csv(..., decimal=",") or thousands=",".'
        texts = code if code.startswith("df") else f"pd.Series({code})"
        return f"Signs are no part of a number: {texts}.str.replace('{SIGNS.pattern}', '', regex=True).astype(float)."
    if name == "y":
        return "This is regression: targets are numbers. For classes use a classifier."
    if words and {word.strip().lower() for word in words} <= TRUTHS:
        truths = [str(word) for word in sorted(words) if word.strip().lower() in TRUE]
        booleans = f"{code}.isin({truths})" if code.startswith("df") else f"np.isin({code}, {truths})"
        return f"Make a column of true and false of it: {booleans}."
    others = [word for word in words if not reads_as_number(word)]
    if len(others) == 1 and 2 * sum(map(reads_as_number, map(str, values))) > len(values):
        missing = f', or make it one by pd.to_numeric({code}, errors="coerce")' if code.startswith("df") else ""
        return f"If {others[0]!r} stands for a missing value, read the file with na_values={others!r}{missing}."
    return (
        "Encode it as numbers (sklearn.preprocessing.OneHotEncoder, or OrdinalEncoder), or leave the column out. To "
        "GPRegressor with rows in memory, say that it has categories: columns={...: 'category'}."
    )


def reads_as_number(text: str) -> bool:
    """Say whether a text is a number as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # 12_3 is a code


def reads_as_date(text: str) -> bool:
    """Say whether a text is a month, a date or a time in ISO 8601, such as 2020-01, 2020-01-31 or 2020-01-31T12:00."""
    text = text.strip()
    try:
        datetime.datetime.fromisoformat(f"{text}-01" if len(text) == len("2020-01") else text)
    except ValueError:
        return False
    return DATE.fullmatch(text) is not None


def _refuse_not_finite(numbers: NDArray[Any], table: Any, name: str) -> None:
    """Raise an InputError that says where numbers are missing or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if numbers.dtype.kind != "f" or np.isfinite(numbers.sum()):
            return
    bad = ~np.isfinite(numbers)
    if not bad.any() or bad.ndim > 2:
        return
    missing = bool(np.isnan(numbers).any())
    rows = np.flatnonzero(bad.any(axis=1) if bad.ndim == 2 else bad)
    what = "NaN (missing values)" if missing else "infinity"
    told = f"Input {name} contains {what} in {len(rows):,} of {len(numbers):,} rows"
    shown = ", ".join(_row(table, i) for i in rows[:SHOWN])
    told += f" ({'the first: ' if len(rows) > SHOWN else ''}{shown})"
    if bad.ndim == 2:
        counts = [(j, count) for j, count in enumerate(bad.sum(axis=0)) if count]
        names = table.columns if hasattr(table, "iloc") else range(numbers.shape[1])
        labels = [f"{names[j]!r} ({count:,})" for j, count in counts[:SHOWN]]
        more = f" and {len(counts) - SHOWN:,} more" if len(counts) > SHOWN else ""
        told += f", in column{'s' * (len(counts) > 1)} {', '.join(labels)}{more}"
    cure = "Leave these rows out of X and y."
    if name in ("X", "Z"):
        filling = "Fill them in, for instance with sklearn.impute.SimpleImputer, or leave these rows out."
        cure = filling if missing else "Mend these values, or leave these rows out."
    raise InputError(f"{told}. {cure}")


def _row(table: Any, i: int) -> str:
    """Name a row: by its index in a data frame, by its place elsewhere."""
    return str(table.index[i]) if hasattr(table, "iloc") else str(i)


def _listed(labels: list[str]) -> str:
    more = f" and {len(labels) - SHOWN:,} more" if len(labels) > SHOWN else ""
    text = ", ".join(labels[:SHOWN]) + more
    return text if text == "y" else text[0].upper() + text[1:]
