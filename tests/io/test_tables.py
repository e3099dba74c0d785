"""A user's own CSV files."""

import gzip
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest

from lmgp.errors import DatasetError
from lmgp.experiments.datasets import load_csv
from lmgp.io.kinds import Kinds
from lmgp.io.tables import Dialect, read_table, read_targets, write_table


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_csv_takes_all_other_columns_as_inputs(tmp_path: Path) -> None:
    path = write(tmp_path / "my.data.csv", 'a,"b, quoted",c\n1, 2.5,3e2\n\n-4,"5",.6\n')
    data = load_csv(path, "b, quoted")
    np.testing.assert_array_equal(data.X, [[1, 300], [-4, 0.6]])
    np.testing.assert_array_equal(data.y, [2.5, 5])
    assert (data.name, data.feature_names, data.target_name) == ("my.data", ("a", "c"), "b, quoted")
    assert data.entry is None
    assert data.splits == ()
    assert data.X.dtype == np.float64


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_csv_with_byte_order_mark_and_dos_lines(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"bom{ending}", b"\xef\xbb\xbfa,y\r\n1,2\r\n3,4\r\n")
    data = load_csv(str(path), "y")
    np.testing.assert_array_equal(data.X, [[1], [3]])
    assert (data.name, data.feature_names) == ("bom", ("a",))


def test_a_byte_order_mark_is_none_of_a_name_in_whatever_encoding(tmp_path: Path) -> None:
    path = write(tmp_path / "bom.csv", b"\xef\xbb\xbfa,y\n1,2\n3,4\n")
    assert load_csv(path, "y", encoding="utf-8").feature_names == ("a",)


def test_endings_may_be_in_capitals(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 3.0], "y": [2.0, 4.0]})
    for ending in (".csv", ".csv.gz", ".parquet"):
        for path in (tmp_path / f"t{ending}", tmp_path / f"T{ending.upper()}"):
            assert write_table(str(path), [dict(frame)], Dialect()) == 2
            np.testing.assert_array_equal(load_csv(path, "y").X, [[1.0], [3.0]])
            packed = {".csv.gz": b"\x1f\x8b", ".parquet": b"PAR1"}.get(ending, b"a,y")
            assert path.read_bytes().startswith(packed)


def test_dates_of_all_years_and_text_with_spaces(tmp_path: Path) -> None:
    fields, towns = ["0001-01-01", "1500-03-01T12:00", "2020-01-31", "9999-12-31"], ["York", "York ", " Leeds", "Leeds"]
    lines = [f"{field},{town},{i}" for i, (field, town) in enumerate(zip(fields, towns, strict=True))]
    kinds = Kinds({"y": "numbers"})
    values, _, names = read_targets(
        write(tmp_path / "d.csv", "\n".join(["when,town,y", *lines])), ["y"], None, kinds=kinds
    )
    days = np.array(fields, dtype="datetime64[us]").astype(float) / 86400e6
    np.testing.assert_array_equal(values[:, 0], days)
    assert kinds.frame(values[:, :2], names)["town"].tolist() == ["York", "York", "Leeds", "Leeds"]
    week = write(tmp_path / "w.csv", "when,y\n2020-W01,1\n2020-W02,2\n")
    kinds = Kinds({"y": "numbers"})
    read_targets(week, ["y"], None, kinds=kinds)
    assert not kinds.dates


def test_csv_columns_leave_the_others_unread(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", "city,a,b,y\nParis,1,,3\nRome,4,5,6\n")
    data = load_csv(path, "y", columns=["a"])
    np.testing.assert_array_equal(data.X, [[1], [4]])


def test_true_and_false_are_one_and_zero(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", "new,y\nTrue,1\nFALSE,2\n0.5,3\n")
    np.testing.assert_array_equal(load_csv(path, "y").X, [[1], [0], [0.5]])


def test_integers_of_any_size_are_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", "a,y\n5,1\n99999999999999999999,2\n,3\n")
    values, _ = read_table(path, lambda where, names: names, incomplete=True)
    np.testing.assert_array_equal(values, [[5, 1], [1e20, 2], [np.nan, 3]])


def test_a_column_that_is_not_used_may_have_long_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", f"a,shape\n5,{'x' * 200_000}\n,z\n")
    values, complete = read_table(path, lambda where, names: ["a"], incomplete=True, least=1)
    np.testing.assert_array_equal(values, [[5], [np.nan]])
    assert complete.tolist() == [True, False]


def test_other_marks_and_encodings(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", "höhe;y\n-1,5;2\n3;1e-3\n,5;+4,0\n".encode("latin-1"))
    data = load_csv(path, "y", sep=";", decimal=",", encoding="latin-1")
    np.testing.assert_array_equal(data.X, [[-1.5], [3], [0.5]])
    np.testing.assert_array_equal(data.y, [2, 1e-3, 4])
    assert data.feature_names == ("höhe",)


@pytest.mark.parametrize(
    ("decimal", "fields"), [(".", ["3,4", "2,5"]), (",", ["1.5", "2.5"]), (".", ["1,200", "1,300"])]
)
def test_numbers_with_other_marks_are_categories_where_this_is_said(
    decimal: str, fields: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path / "d.csv", "size;y\n" + "".join(f"{field};1\n" for field in fields))
    with pytest.raises(DatasetError, match=r"not numeric: 'size' \(line 2: "):
        read_targets(path, ["y"], None, Dialect(";", decimal), kinds=Kinds({"y": "numbers"}))
    kinds = Kinds({"size": "text", "y": "numbers"})
    read_targets(path, ["y"], None, Dialect(";", decimal), kinds=kinds)
    assert list(kinds.levels["size"]) == fields


def test_types_of_arrow_are_kept(tmp_path: Path) -> None:
    codes, times = ["01", "02", "01", "1"], [2**60 + 1, 0, 1, 2]
    frame = pd.DataFrame({"code": pd.Categorical(codes), "time": times, "y": range(4)})
    frame.to_parquet(tmp_path / "d.parquet")
    frame.to_feather(tmp_path / "d.feather")
    for name in ("d.parquet", "d.feather"):
        kinds = Kinds({"y": "numbers"})
        values, _, names = read_targets(tmp_path / name, ["y"], None, kinds=kinds)
        assert kinds.frame(values[:, :2], names)["code"].tolist() == codes
        np.testing.assert_array_equal(values[:, 1], np.array(times, dtype=np.float64))
        kinds = Kinds({"time": "text", "y": "numbers"})
        values, _, names = read_targets(tmp_path / name, ["y"], ["time"], kinds=kinds)
        assert kinds.frame(values[:, :1], names)["time"].tolist() == list(map(str, times))


def test_a_column_that_is_not_used_may_have_any_name(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", ",a,b,b,y\n0,1,x,,3\n1,4,x,,6\n")
    np.testing.assert_array_equal(load_csv(path, "y", columns=["a"]).X, [[1], [4]])
    with pytest.raises(DatasetError, match="the header has b more than once"):
        load_csv(path, "y", columns=["a", "b"])


BAD_FILES = {
    "dates": (
        "a,sold,y\n1,2020-01-31,2\n1,2020-02-01,2\n",
        "y",
        None,
        r"not numeric: 'sold' \(line 2: '2020-01-31'\); encode .*, dates as the days since the first one",
    ),
    "empty": ("", "y", None, "is empty"),
    "blank": ("\n\n", "y", None, "is empty"),
    "no header": ("1,2\n3,4\n5,6\n", "y", None, "no header: line 1 is all numbers"),
    "repeated name": ("a,b,a,y\n1,2,3,4\n", "y", None, r"header has a more than once"),
    "unnamed column": (",a,y\n0,1,2\n1,3,4\n", "y", None, r"column 1 has no name"),
    "semicolons": ("a;b;y\n1;2;3\n", "y", None, "not separated by commas"),
    "no target": ("a,b,y\n1,2,3\n", None, None, r"target is needed \(--target\); columns are a, b, y"),
    "unknown target": ("alpha,price\n1,2\n", "prise", None, "no column is named 'prise', did you mean 'price'"),
    "unknown columns": (
        "alpha,beta,y\n1,2,3\n",
        "y",
        ["alhpa", "bta"],
        "'alhpa', did you mean 'alpha'.*'bta', did you mean 'beta'",
    ),
    "target as input": ("a,y\n1,2\n3,4\n", "y", ["a", "y"], "not the target 'y' among them"),
    "no input": ("y\n1\n2\n", "y", None, "no input column is left"),
    "no input chosen": ("a,y\n1,2\n3,4\n", "y", [], "no input column is left"),
    "text": (
        "city,a,kind,y\nParis,1,2,3\nRome,1,x y,3\n",
        "y",
        None,
        r"not numeric: 'city' \(line 2: 'Paris'\), 'kind' \(line 3: 'x y'\); encode.*--columns",
    ),
    "code with underscore": ("a,y\n12_3,1\n4,2\n", "y", None, r"not numeric: 'a' \(line 2: '12_3'\)"),
    "text target": ("a,y\n1,low\n2,high\n", "y", None, r"not numeric: 'y' \(line 2: 'low'\)"),
    "missing": (
        "a,b,y\n1,2,3\n,2,nan\n\nNA,2,3\n",
        "y",
        None,
        r"missing or infinite values in 'a' \(2 rows, first line 3\), 'y' \(1 row, first line 3\)",
    ),
    "infinite": ("a,y\n1,2\n3,4\n5,-inf\n", "y", None, r"infinite values in 'y' \(1 row, first line 4\)"),
    "overflow": ("a,y\n1,2\n1e999,4\n", "y", None, r"infinite values in 'a' \(1 row, first line 3\)"),
    "short row": ("a,b,y\n1,2,3\n4,5\n", "y", None, "line 3 has 2 fields, the header has 3"),
    "long row": ("a,b,y\n1,2,3\n4,5,6,7\n", "y", ["a"], "line 3 has 4 fields, the header has 3"),
    "header only": ("a,y\n", "y", None, "needs at least 2 rows of data below its header; it has 0"),
    "one row": ("a,y\n1,2\n", "y", None, "needs at least 2 rows of data below its header; it has 1"),
    "open quotation mark": ("a,y\n1,2\n3," + '"' + "4\n" * 100_000, "y", None, "line 2: .*quotation marks closed"),
    "open quotation mark in a short file": ('a,y\n1,2\n\n3,"4\n5,6\n', "y", None, "after line 2: .*EOF inside string"),
    "a blank line of spaces, and a long line": ("a,y\n1,2\n  \n4,5,6\n", "y", None, "line 4 has 3 fields"),
    "a text with lines": ('a,b,y\n1,"x\ny",2\n3,z,w\n', "y", ["a"], r"not numeric: 'y' \(line 4: 'w'\)"),
    "text after many rows": ("a,y\n" + "1,2\n" * 70_000 + "x,3\n", "y", None, r"'a' \(line 70002: 'x'\)"),
    "a short row after many": ("a,y\n" + "1,2\n" * 70_000 + "3\n", "y", None, "line 70002 has 1 fields"),
    "not UTF-8": (b"a,y\n1,2\n3,\xe94\n", "y", None, "could not be read.*0xe9.*expected text in UTF-8"),
    "UTF-16": ("a,y\n1,2\n3,4\n".encode("utf-16"), "y", None, "could not be read.*expected text in UTF-8"),
    "a picture": (
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
        "y",
        None,
        "could not be read: it is not text, and starts with the bytes 89 50 4e 47 0d 0a 1a 0a; expected text in UTF-8",
    ),
    "gzip by another name": (gzip.compress(b"a,y\n1,2\n"), "y", None, "could not be read.*ends in .gz"),
}


@pytest.mark.parametrize(("content", "target", "columns", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_csv(
    tmp_path: Path, content: str | bytes, target: str | None, columns: list[str] | None, message: str
) -> None:
    path = write(tmp_path / "bad.csv", content)
    with pytest.raises(DatasetError, match=message) as caught:
        load_csv(path, target, columns=columns)
    assert str(path) in str(caught.value)


def test_csv_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"missing\.csv does not exist; give the path"):
        load_csv(tmp_path / "missing.csv", "y")
    with pytest.raises(DatasetError, match="is a folder; give the path"):
        load_csv(tmp_path, "y")


def test_an_empty_text_in_one_column_is_a_row(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", 'a\n1\n""\n \n\n2\n')
    with pytest.raises(DatasetError, match=r"missing or infinite values in 'a' \(1 row, first line 3\)"):
        read_table(path, lambda where, names: names)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="Pipes have no paths here.")
def test_csv_from_a_pipe() -> None:
    read, write = os.pipe()
    os.write(write, b"a,y\n1,2\n3,4\n")
    os.close(write)
    values, _, _ = read_targets(Path(f"/dev/fd/{read}"), ["y"], None)
    os.close(read)
    np.testing.assert_array_equal(values, [[1, 2], [3, 4]])


def test_rows_of_parquet_are_counted_from_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmgp.io.tables.BATCH_ROWS", 2)
    pd.DataFrame({"a": ["1", "2", "3", "x"], "y": range(4)}).to_parquet(tmp_path / "d.parquet")
    with pytest.raises(DatasetError, match=r"not numeric: 'a' \(row 3: 'x'\)"):
        read_targets(tmp_path / "d.parquet", ["y"], None)


def test_a_year_of_parquet_beyond_the_calendar_is_refused(tmp_path: Path) -> None:
    days = pyarrow.array([2932897, 0], pyarrow.date32())
    pyarrow.parquet.write_table(pyarrow.table({"a": days, "y": [1.0, 2.0]}), tmp_path / "d.parquet")
    with pytest.raises(DatasetError, match=r"d\.parquet could not be read as Parquet: year 10000 is out of range"):
        read_targets(tmp_path / "d.parquet", ["y"], None, kinds=Kinds({"y": "numbers"}))


def test_a_wide_file_is_read_few_rows_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, sizes, read_csv = write(tmp_path / "d.csv", "a,b,c,y\n" + "1,2,3,4\n" * 9), [], pd.read_csv

    def spied(*args: Any, chunksize: int, **options: Any) -> Any:
        sizes.append(chunksize)
        return read_csv(*args, chunksize=chunksize, **options)

    monkeypatch.setattr(pd, "read_csv", spied)
    monkeypatch.setattr("lmgp.io.tables.BATCH_FIELDS", 11)
    values, _, _ = read_targets(path, ["y"], None)
    assert sizes == [2]
    np.testing.assert_array_equal(values, [[1.0, 2.0, 3.0, 4.0]] * 9)


def test_csv_that_is_not_an_intact_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv.gz"
    path.write_text("a,y\n1,2\n3,4\n")
    with pytest.raises(DatasetError, match=r"plain\.csv\.gz could not be read.*[Nn]ot a gzipped file"):
        load_csv(path, "y")
    rows = "".join(f"{i},{i * i % 7919}\n" for i in range(5000))
    whole = gzip.compress(f"a,y\n{rows}".encode())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetError, match=r"plain\.csv\.gz could not be read after line \d+.*ended"):
        load_csv(path, "y")
    path.write_bytes(whole[:500] + b"\xff" * 50 + whole[550:])
    with pytest.raises(DatasetError, match=r"plain\.csv\.gz could not be read"):
        load_csv(path, "y")


MIXED = {
    "text, then numbers": (["x", "y", "7", "8"], "Column 'a' has text in some rows and numbers in others"),
    "numbers, then text": (["7", "8", "x", "y"], "Column 'a' has numbers in some rows and text in others"),
    "dates, then numbers": (["2020-01-01", "2020-01-02", "7", "8"], "has dates in some rows and numbers in others"),
    "numbers, then dates": (["7", "8", "2020-01-01", "2020-01-02"], "has numbers in some rows and dates in others"),
}


@pytest.mark.parametrize("name", MIXED)
def test_a_column_has_one_kind_in_all_parts_of_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number among texts would be taken for the number by which a text is read."""
    monkeypatch.setattr("lmgp.io.tables.BATCH_ROWS", 2)
    fields, told = MIXED[name]
    path = write(tmp_path / "rows.csv", "a,y\n" + "".join(f"{field},{i}\n" for i, field in enumerate(fields)))
    with pytest.raises(DatasetError, match=told):
        read_targets(path, ["y"], None, kinds=Kinds({"y": "numbers"}))


def test_times_of_a_column_have_a_zone_in_all_parts_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmgp.io.tables.BATCH_ROWS", 2)
    times = pd.Series(["2020-01-01", "2020-01-02", "", "", "2020-01-03", "2020-01-04T00:00Z"])
    for ending in ("", "+01:00", "Z"):
        texts = times.str.removesuffix("T00:00Z").replace("(.+)", rf"\1T00:00{ending}", regex=True)
        path = write(tmp_path / "rows.csv", "a,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(texts)))
        kinds = Kinds({"y": "numbers"})
        values, _, names = read_targets(path, ["y"], None, kinds=kinds, incomplete=True)
        zone = str(kinds.frame(values[:, :1], names)["a"].dt.tz)
        assert zone == {"": "None", "Z": "UTC"}.get(ending, "elsewhere")
    path = write(tmp_path / "rows.csv", "a,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(times)))
    values, _, names = read_targets(path, ["y"], None, kinds=(kinds := Kinds({"y": "numbers"})), incomplete=True)
    with pytest.raises(DatasetError, match="Some times of column 'a' have a zone, and others none"):
        kinds.frame(values[:, :1], names)


def test_texts_have_one_number_in_all_parts_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmgp.io.tables.BATCH_ROWS", 2)
    texts = ["red", "blue", "", "", "blue", "green"]  # nothing is known of the second part
    path = write(tmp_path / "rows.csv", "a,y\n" + "".join(f"{text},{i}\n" for i, text in enumerate(texts)))
    kinds = Kinds({"y": "numbers"})
    values, complete, names = read_targets(path, ["y"], None, kinds=kinds)
    assert complete.all()
    found = kinds.frame(values[:, :1], names)["a"]
    assert [None if missing else text for text, missing in zip(found, found.isna(), strict=True)] == [
        text or None for text in texts
    ]


def test_commas_at_the_end_of_all_lines_are_none_of_a_category() -> None:
    kinds = Kinds()
    kinds.coded("b", ["none", "x"])
    values, _ = read_table(io.BytesIO(b"a,b\n1,none,\n3,x,\n"), lambda _, names: names, kinds=kinds)
    np.testing.assert_array_equal(values, [[1.0, 0.0], [3.0, 1.0]])
