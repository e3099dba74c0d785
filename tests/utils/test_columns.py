"""Columns as they come: what is a number, and what is refused by name with what to do."""

import datetime
import re
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from lmgp.errors import ColumnWarning, InputError
from lmgp.utils.columns import LOCAL_DATE, reads_as_date, reads_as_number, refuse_other_than_numbers
from lmgp.utils.dates import times_of

DAYS = pd.date_range("2020-01-01", periods=6)
SOME = [1.5, 2.0, -3.0, 0.0, 7.0, 1e9]


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"size": SOME, **columns})


class LazyFrame:
    """A query of polars, as far as it matters here."""

    columns = ("a", "b")

    def collect(self) -> None: ...
    def collect_schema(self) -> None: ...


ACCEPTED = {
    "floats": frame(),
    "integers": frame(rooms=[1, 2, 3, 4, 5, 6]),
    "booleans": frame(new=[True, False] * 3),
    "nullable": frame(
        a=pd.array([1, 2, 3, 4, 5, 6], dtype="Int64"),
        b=pd.array([True, False] * 3, dtype="boolean"),
        c=pd.array(SOME, dtype="Float64"),
    ),
    "text of numbers": frame(code=["1.5", " 2", "-3e5", "4", "5", "6"]),
    "categories of numbers": frame(grade=pd.Categorical([1, 2, 3, 1, 2, 3])),
    "objects": frame(mixed=pd.Series([1, 2.5, True, Decimal("1.5"), np.int8(3), "7"], dtype=object)),
    "series": pd.Series(SOME),
    "array of text": np.array([["1", "2.5"], ["3", "-4e2"]]),
    "lists": [[1, 2.5], [True, "3"]],
    "float16": np.ones((3, 2), dtype=np.float16),
    "other shapes": np.zeros((2, 3, 4)),
    "sparse": sparse.csr_array(np.eye(3) * np.nan),
    "empty": frame()[:0],
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_numbers_of_every_kind_pass_and_shapes_are_left_to_scikit_learn(name: str) -> None:
    refuse_other_than_numbers(ACCEPTED[name], "y" if name == "series" else "X")


def refused(table: Any, name: str = "X") -> str:
    with pytest.raises(InputError) as caught:
        refuse_other_than_numbers(table, name)
    return str(caught.value)


@pytest.mark.parametrize("table", [pd.Series(SOME), np.zeros(6), [1.0] * 6, (1, 2, 3, 4, 5, 6)])
def test_rows_of_one_axis_are_refused_with_what_makes_two(table: Any) -> None:
    told = refused(table)
    assert told.startswith("Expected 2D array, got 1D array of shape (6,) as X")
    assert "X.reshape(-1, 1) is one column" in told


DATES = {
    "dates": DAYS,
    "dates with a time zone": DAYS.tz_localize("Europe/London"),
    "objects of dates": pd.Series(list(DAYS.date), dtype=object),
    "objects of timestamps": pd.Series(list(DAYS), dtype=object),
    "dates and missing ones": pd.Series([pd.NaT, None, *DAYS[2:].date], dtype=object),
}


@pytest.mark.parametrize("name", DATES)
def test_dates_are_refused_with_code_that_runs(name: str) -> None:
    df = frame(when=DATES[name])
    message = refused(df)
    assert message.startswith("Column 'when' of X has dates, which are not numbers")
    code = message.partition("all tables, ")[2].rstrip(".")
    np.testing.assert_allclose(eval(code, {"df": df, "pd": pd})[2:], [2.0, 3.0, 4.0, 5.0])
    later = df[3:].assign(when=pd.to_datetime(df["when"][3:]) + pd.Timedelta(hours=6))
    np.testing.assert_allclose(eval(code, {"df": later, "pd": pd}), [3.25, 4.25, 5.25])


@pytest.mark.parametrize("dtype", ["period[M]", object])
def test_periods_are_dates(dtype: Any) -> None:
    df = frame(month=pd.Series(pd.period_range("2020-01", periods=6, freq="M"), dtype=dtype))
    message = refused(df)
    assert "'month' of X has dates" in message
    days = eval(message.partition("all tables, ")[2].rstrip("."), {"df": df, "pd": pd})
    np.testing.assert_array_equal(days, [0.0, 31.0, 60.0, 91.0, 121.0, 152.0])


@pytest.mark.parametrize("dtype", ["datetime64[D]", "datetime64[ns]", object])
def test_arrays_of_nothing_but_dates_are_refused(dtype: Any) -> None:
    X = np.array(DAYS.date, dtype="datetime64[D]").astype(dtype)[:, None]
    message = refused(X)
    assert message.startswith("Column 0 of X has dates")
    days = eval(message.partition("all tables, ")[2].rstrip("."), {"X": X, "pd": pd})
    np.testing.assert_array_equal(days, np.arange(6.0))


def test_durations_are_refused_with_code_that_runs() -> None:
    df = frame(length=DAYS - DAYS[0])
    message = refused(df)
    assert "'length' of X has durations" in message
    seconds = eval(message.partition("seconds, ")[2].rstrip("."), {"df": df})
    np.testing.assert_array_equal(seconds, 86400.0 * np.arange(6))
    X = (DAYS - DAYS[0]).to_numpy()[:, None]
    seconds = eval(refused(X).partition("seconds, ")[2].rstrip("."), {"X": X, "np": np})
    np.testing.assert_array_equal(seconds, 86400.0 * np.arange(6))
    assert "durations" in refused(np.array([[datetime.timedelta(1)], [None]], dtype=object))


def test_all_columns_of_dates_are_named() -> None:
    df = pd.DataFrame({f"day {j}": DAYS for j in range(7)})
    assert refused(df).startswith(
        "Column 'day 0' of X, column 'day 1' of X, column 'day 2' of X, column 'day 3' of X, column 'day 4' of X "
        "and 2 more have dates"
    )


def test_dates_as_targets() -> None:
    assert refused(pd.Series(DAYS, name="sold"), "y").startswith("y has dates")
    assert "(pd.to_datetime(df['sold'], utc=True) - " in refused(pd.Series(DAYS, name="sold"), "y")


def test_complex_numbers_are_refused_by_column() -> None:
    assert refused(frame(wave=[1j] * 6)).startswith(
        "Column 'wave' of X has complex numbers. Complex data not supported"
    )
    assert "Column 1 of X has complex" in refused(np.array([[1.0, 2j]], dtype=object))
    assert refused(np.ones(3) + 1j, "y").startswith("y has complex")


def test_text_is_refused_with_the_column_the_row_and_what_to_do() -> None:
    df = frame(colour=["1", "2", "red", "4", "blue", "6"])
    df.index = list("abcdef")
    assert refused(df) == (
        "Column 'colour' of X is not numeric: could not convert string to float: 'red' (row c). Encode it as numbers "
        "(sklearn.preprocessing.OneHotEncoder, or OrdinalEncoder), or leave the column out. To GPRegressor with "
        "rows in memory, say that it has categories: columns={...: 'category'}."
    )
    assert "column 1 of X is not numeric" in refused(np.array([["1", "b"]])).lower().replace("x", "X")
    assert "For classes use a classifier" in refused(np.array(["yes", "no"]), "y")
    assert "'yes' (row 0)" in refused(pd.Series(["yes", "no"], dtype="category"), "y")


def test_one_text_among_numbers_may_stand_for_what_is_missing() -> None:
    assert refused(frame(size=["1", "2", "n/a.", 4.0, "n/a.", "6"])).endswith(
        "If 'n/a.' stands for a missing value, read the file with na_values=['n/a.'], or make it one by "
        "pd.to_numeric(df['size'], errors=\"coerce\")."
    )
    assert refused(np.array([["1"], ["?"], ["3"]])).endswith("read the file with na_values=['?'].")


def test_text_that_reads_as_dates_says_so() -> None:
    df = frame(when=DAYS.astype(str))
    message = refused(df)
    assert "reads as dates" in message
    days = eval(message.partition("all tables by ")[2].rstrip("."), {"df": df, "pd": pd})
    np.testing.assert_array_equal(days, np.arange(6))


def test_a_code_is_no_number() -> None:
    assert [text for text in ("12_3", "1e3", " -4 ", "12-3") if reads_as_number(text)] == ["1e3", " -4 "]
    assert "could not convert string to float: '12_3' (row 0)" in refused(frame(size=["12_3", "5", 6, "7", "8", "9"]))


def test_dates_are_those_that_can_be_read() -> None:
    dates = ["2020-01", " 2020-01-31 ", "20200131T1200", "2020-01-31 12:00:00.5+02:00"]
    others = ["2020-13", "2020-01-31_12:00", "2020-01-31 12:00:00,5", "2020-01-31T12:00.5", "2020-01-31:12", "2020-W01"]
    assert [text for text in (*dates, *others) if reads_as_date(text)] == dates
    times = ["2020-01-01", "2020-01-31", "2020-01-31T12:00", "2020-01-31T10:00:00.5"]
    for dtype in (object, "str"):
        np.testing.assert_array_equal(times_of(pd.Series(dates, dtype=dtype)), np.array(times, "datetime64[us]"))


def test_dates_in_the_order_of_a_country_are_told_from_codes() -> None:
    dates = ["31/01/2020", "1-2-2020", "31.1.2020", "31/01/20", " 31/01/2020 ", "2020/01/31", "2020.01.31"]
    times = ["31/01/2020 10:00", "1/31/2020 9:30 PM", "31.01.2020, 10:00", "2020/01/31T10:00:00"]
    codes = ["1.2.34", "10-12-20", "1/2", "31/01-2020", "31/01/202", "2020-1-31", "31/01/2020 late", "192.168.1.10"]
    assert [text for text in (*dates, *times, *codes) if LOCAL_DATE.fullmatch(text)] == [*dates, *times]


def test_dates_that_become_equal_are_warned_of() -> None:
    with pytest.warns(ColumnWarning, match="Dates are read to the microsecond, and some become equal"):
        times_of(pd.Series(pd.date_range("2020-01-01", periods=3, freq="100ns")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        times_of(pd.Series([*pd.date_range("2020-01-01", periods=3, freq="1001ns"), pd.NaT]))


@pytest.mark.parametrize("texts", [["1,5", "2", "3", "4", "5", "6"], ["1,500.25", "2", " ", "4", "5", "6"]])
def test_commas_in_numbers_say_how_to_read_the_file(texts: list[str]) -> None:
    assert 'pd.read_csv(..., decimal=",") or thousands=","' in refused(frame(price=texts))
    assert "Commas are no part of a number" in refused(pd.Series(texts), "y")
    assert "OneHotEncoder" in refused(frame(price=["1,5", "a", "3", "4", "5", "6"]))


@pytest.mark.parametrize("texts", [["$1,500", "$2", "$3", "$4", "$5", "$6"], ["15%", "2%", "3 %", "4%", "5%", "6%"]])
def test_signs_in_numbers_come_with_code_that_runs(texts: list[str]) -> None:
    df, X = frame(price=texts), np.array(texts, dtype=object)[:, None]
    for table in (df, X):
        code = refused(table).partition("part of a number: ")[2].rstrip(".")
        values = eval(code, {"df": df, "X": X, "pd": pd})
        assert values.tolist() == [1500.0 if "$" in texts[0] else 15.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_words_for_true_and_false_come_with_code_that_runs() -> None:
    df = frame(new=["True", "False", "yes", "no", "True", "False"])
    truths = eval(refused(df).partition("false of it: ")[2].rstrip("."), {"df": df})
    assert truths.tolist() == [True, False, True, False, True, False]
    X = df[["new"]].to_numpy(dtype=str)
    truths = eval(refused(X).partition("false of it: ")[2].rstrip("."), {"X": X, "np": np})
    assert truths.tolist() == [True, False, True, False, True, False]


def test_an_object_that_is_no_number_is_named() -> None:
    with pytest.raises(TypeError, match=r"Column 'size' of X is not numeric: float\(\) argument .*'dict' \(row 1\)"):
        refuse_other_than_numbers(pd.DataFrame({"size": pd.Series([1.0, {}], dtype=object)}), "X")


def test_an_integer_that_is_too_large_for_a_float_is_refused() -> None:
    assert re.match(
        r"Column 'age' of X is not numeric: int too large to convert to float \(row 1\)",
        refused(frame(age=[1, 10**400, 3, 4, 5, 6])),
    )


MISSING = {
    "NaN": frame(age=[1.0, np.nan, 3.0, np.nan, 5.0, 6.0]),
    "nullable": frame(age=pd.array([1, None, 3, None, 5, 6], dtype="Int64")),
    "objects": frame(age=pd.Series([1, None, "3", pd.NA, 5, 6], dtype=object)),
    "blanks": frame(age=["1", "", "3", " ", "5", "6"]),
    "text": frame(age=["1", "nan", "3", "NaN", "5", "6"]),
}


@pytest.mark.parametrize("name", MISSING)
def test_missing_values_are_refused_with_rows_and_columns(name: str) -> None:
    assert refused(MISSING[name]) == (
        "Input X contains NaN (missing values) in 2 of 6 rows (1, 3), in column 'age' (2). Fill them in, for instance "
        "with sklearn.impute.SimpleImputer, or leave these rows out."
    )


def test_of_many_missing_values_the_first_are_shown() -> None:
    X = np.zeros((5000, 8))
    X[10:2000] = np.nan
    X[4999, 0] = np.inf
    assert refused(X).startswith(
        "Input X contains NaN (missing values) in 1,991 of 5,000 rows (the first: 10, 11, 12, 13, 14), in columns "
        "0 (1,991), 1 (1,990), 2 (1,990), 3 (1,990), 4 (1,990) and 3 more."
    )


def test_rows_of_a_frame_are_named_by_its_index() -> None:
    df = MISSING["NaN"].set_axis(list("abcdef"))
    assert "rows (b, d)" in refused(df)


def test_infinite_values() -> None:
    assert refused(frame(age=[1.0, np.inf, 3.0, 4.0, 5.0, 6.0])) == (
        "Input X contains infinity in 1 of 6 rows (1), in column 'age' (1). Mend these values, or leave these rows out."
    )


def test_missing_targets() -> None:
    expected = "Input y contains NaN (missing values) in 1 of 3 rows (1). Leave these rows out of X and y."
    assert refused(np.array([1.0, np.nan, 2.0]), "y") == expected
    assert refused(pd.Series([1, None, 2], dtype="Int64"), "y") == expected
    assert refused([1.0, None, 2.0], "y") == expected


def test_large_values_whose_sum_overflows_are_finite() -> None:
    refuse_other_than_numbers(np.full((10, 1), 1.7e308), "X")


def test_columns_of_one_name_are_refused() -> None:
    df = pd.DataFrame(np.ones((2, 4)), columns=["a", "b", "a", "b"])
    assert refused(df) == "X has more than one column named 'a', 'b'; make the names differ."


@pytest.mark.parametrize(
    ("table", "name", "told"),
    [
        (None, "X", "a table of numbers, one row for each observation: an array, a data frame or a list; got None."),
        (Path("rows.csv"), "X", "Read a file first, pandas.read_csv(path)."),
        (
            "price",
            "y",
            "y must be numbers, one a row: an array, a series or a list; got 'price'. Give the column itself",
        ),
        ({"a": [1.0]}, "X", "got a dict. pandas.DataFrame(X) makes one of it."),
        ({1.0, 2.0}, "y", "got a set. Give list(y)."),
        ((one for one in [1.0]), "y", "got a generator. Give list(y)."),
        (LazyFrame(), "X", "or a list; got a LazyFrame. Give X.collect()."),
        (np.ma.masked_equal([[1.0], [2.0]], 1.0), "X", "got a masked array with masked values. Leave these rows out"),
        ([[1.0], [1.0, 2.0]], "X", "row 0 has 1 value, row 1 has 2 values."),
        ([1.0, [1.0, 2.0]], "X", "row 0 has one number, row 1 has 2 values."),
    ],
)
def test_what_is_no_table_is_refused(table: Any, name: str, told: str) -> None:
    assert told in refused(table, name)


def test_none_as_targets_and_sparse_dictionaries_are_left_to_scikit_learn() -> None:
    refuse_other_than_numbers(None, "y")
    refuse_other_than_numbers(sparse.dok_array(np.eye(3)), "X")
