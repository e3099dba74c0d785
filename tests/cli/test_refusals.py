"""What `lmgp fit`, `predict`, `score` and `info` refuse: one line, status 2, and nothing written."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyogrio
import pytest

import lmgp
from lmgp.cli import main
from tests.cli.conftest import FIT, frame
from tests.saving.rewriting import rewritten

PREDICT = ["predict", "model.lmgp"]


def to_fit(text: str | bytes, *options: str) -> Callable[[Path], list[str]]:
    """The command that fits a model to a table that it writes."""

    def command(folder: Path) -> list[str]:
        (folder / "bad.csv").write_bytes(text.encode() if isinstance(text, str) else text)
        return ["fit", "bad.csv", "--target", "y", "--out", "new.lmgp", *options]

    return command


def without(*names: str) -> Callable[[Path], list[str]]:
    """The command that predicts a table without some columns."""

    def command(folder: Path) -> list[str]:
        frame(20, seed=1).drop(columns=list(names)).to_csv("bad.csv", index=False)
        return [*PREDICT, "bad.csv"]

    return command


def says(*arguments: str) -> Callable[[Path], list[str]]:
    """A command."""
    return lambda folder: list(arguments)


def points_along_dates(folder: Path) -> list[str]:
    """The command that writes points from a model whose first column has dates."""
    dates = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=20), "depth": range(20)})
    model = lmgp.GPRegressor(kernel="gaussian", noise="normal").fit(dates, [0.0, 1.0] * 10)
    model.save(folder / "dates.lmgp")
    return ["predict", "dates.lmgp", "--grid", "when=2020-01-01", "depth=1", "--out", "points.gpkg"]


def without_geometries(folder: Path) -> list[str]:
    pyogrio.write_dataframe(frame(), folder / "bad.gpkg")
    return ["fit", "bad.gpkg", *FIT, "--out", "m"]


def foreign_model(folder: Path) -> list[str]:
    (folder / "bad.lmgp").write_text("model")
    return ["info", "bad.lmgp"]


def truncated_model(folder: Path) -> list[str]:
    (folder / "bad.lmgp").write_bytes((folder / "model.lmgp").read_bytes()[:1000])
    return ["predict", "bad.lmgp", "test.csv"]


def torn_model(folder: Path) -> list[str]:
    """A model file of another version that is whole, with fewer targets than rows."""

    def tear(header: dict[str, Any], arrays: list[Any]) -> None:
        header["lmgp"] = "0.0.1"
        arrays[:] = [array[:-1] if array.shape == (60, 1) else array for array in arrays]

    (folder / "bad.lmgp").write_bytes(rewritten((folder / "model.lmgp").read_bytes(), tear))
    return ["predict", "bad.lmgp", "test.csv"]


BAD: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "no target": (says("fit", "train.csv", "--out", "new.lmgp"), "--target"),
    "no place for the model": (says("fit", "train.csv", "--target", "price"), "--out"),
    "unknown target": (says("fit", "train.csv", "--target", "prise", "--out", "m"), "did you mean 'price'"),
    "unknown column": (
        says("fit", "train.csv", "--target", "price", "--columns", "lt", "--out", "m"),
        "no column is named 'lt', did you mean 'lat'",
    ),
    "unknown kernel": (says("fit", "train.csv", *FIT[2:], "--kernel", "matern33", "--out", "m"), "matern32"),
    "unknown trend column": (says("fit", "train.csv", *FIT, "--trend", "height", "--out", "m"), "height"),
    "sphere without places": (
        to_fit("a,b,y\n1,2,3\n2,3,4\n4,5,7\n", "--metric", "sphere"),
        "must be named 'lon' or 'longitude'",
    ),
    "noise that is none": (says("fit", "train.csv", *FIT, "--noise-variance", "0", "--out", "m"), "above 0; got '0'"),
    "two transforms of the target": (
        says("fit", "train.csv", *FIT, "--log", "--target-transform", "log1p", "--out", "m"),
        "argument --target-transform: not allowed with argument --log",
    ),
    "tolerance of text": (says("fit", "train.csv", *FIT, "--tolerance", "low", "--out", "m"), "got 'low'"),
    "negative seed": (says("fit", "train.csv", *FIT, "--seed", "-1", "--out", "m"), "--seed must be at least 0 and"),
    "a seed of too many digits": (says("fit", "train.csv", *FIT, "--seed", "9" * 11, "--out", "m"), "below 2**32"),
    "no table": (says("fit", "nowhere.csv", *FIT, "--out", "m"), "nowhere.csv does not exist"),
    "a folder as table": (says("fit", ".", *FIT, "--out", "m"), "is a folder"),
    "the table as the model": (
        says("fit", "train.csv", *FIT, "--out", "./train.csv"),
        "is read, and would be replaced",
    ),
    "the table as predictions": (says(*PREDICT, "test.csv", "--out", "test.csv"), "test.csv is read, and would be"),
    "the model as predictions": (says(*PREDICT, "test.csv", "--out", "model.lmgp"), "model.lmgp is read, and would be"),
    "another case of letters": (says("fit", "train.csv", "--target", "PRICE", "--out", "m"), "did you mean 'price'?"),
    "a workbook": (to_fit(b"PK\x03\x04\x14\x00\x06\x00\x08\x00"), "a workbook of Excel: save its sheet as CSV"),
    "a kernel of another package": (
        says("fit", "train.csv", *FIT[2:], "--kernel", "RBF", "--out", "m"),
        "mean 'gaussian'?",
    ),
    "a noise of another package": (
        says("fit", "train.csv", *FIT, "--noise", "gaussian", "--out", "m"),
        "mean 'normal'?",
    ),
    "no folder for the model": (says("fit", "train.csv", *FIT, "--out", "nowhere/m"), "there is no folder"),
    "a folder as model": (says("fit", "train.csv", *FIT, "--out", "."), "is a folder"),
    "standard output as model": (says("fit", "train.csv", *FIT, "--out", "-"), "--out model.lmgp"),
    "semicolons": (to_fit("a;y\n1;2\n3;4\n"), "(--sep ';')"),
    "tabs": (to_fit("a\ty\n1\t2\n3\t4\n"), r"(--sep '\t')"),
    "commas, where it says semicolons": (to_fit("a,y\n1,2\n3,4\n", "--sep", ";"), "(--sep ',')"),
    "two marks": (to_fit("a;y\n1;2\n3;4\n", "--sep", ";;"), "one character (--sep); got ';;'"),
    "decimal commas": (to_fit("a;y\n1,5;2,5\n3;4\n", "--sep", ";"), "say so (--decimal ,)"),
    "commas between thousands": (
        to_fit("a;y\n6,480;1\n983;2\n", "--sep", ";"),
        "if these commas are between thousands, take them out",
    ),
    "percentages": (to_fit("a,y\n10%,2\n3 %,4\n"), "not numeric: 'a' (line 2: '10%'); encode them as numbers"),
    "dates of a country": (to_fit("a,y\n31/01/2020,2\n1/2/2020,4\n"), "encode them as numbers, dates as 2020-01-31, "),
    "times of a country": (to_fit("a,y\n31-1-2020 9:00,2\n1-2-2020 9:00,4\n"), "numbers, dates as 2020-01-31, "),
    "points among thousands": (to_fit("a;y\n1.000,5;2\n3;4\n", "--sep", ";", "--decimal", ","), "'1.000,5'"),
    "two uses of the comma": (to_fit("a,y\n1,2\n3,4\n", "--decimal", ","), "not what separates columns"),
    "a missing target": (
        to_fit("a,y\n1,2\n2,\n5,6\n"),
        "'y' (1 row, first line 3); fill them in or drop these rows (--drop of lmgp fit, predict",
    ),
    "text": (to_fit("a,y\nx,2\n3,4\n"), "'a' (line 2: 'x'); encode them as numbers"),
    "dates as a target": (to_fit("y,a\n2020-01-31,2\n2020-02-01,4\n", "--columns", "a"), "'y' (line 2: '2020-01-31')"),
    "an open quotation mark": (
        to_fit('a,b,y\n1,x,2\n3,"x,4\n5,z,6\n'),
        "the row of lines 3 to 4 has 2 fields, the header has 3; close its quotation mark.",
    ),
    "a date that is none": (
        to_fit("a,y\n2020-01-31,1\n2020-02-01,2\nsoon,3\n"),
        "column 'a' has dates, but for 'soon' (line 4); mend this field, or leave its row out",
    ),
    "a number among texts": (to_fit("a,y\nA1,1\nB2,2\n7,3\n"), "column 'a' has text, but for '7' (line 4)"),
    "a date among numbers": (to_fit("a,y\n2020-01-31,2\n7,4\n"), "dates as the days since the first one"),
    "infinite values": (
        to_fit("a,y\n1,2\ninf,4\n5,6\n"),
        "'a' (1 row, first line 3); fill them in or drop these rows (--drop of lmgp fit, predict",
    ),
    "nothing but missing values": (to_fit("a,y\n1,\n,4\n5,\n", "--drop"), "needs at least 2 complete rows; it has 0"),
    "names that repeat": (to_fit("a,a,y\n1,2,3\n4,5,6\n"), "the header has a more than once"),
    "an index": (to_fit(",a,y\n0,1,2\n1,3,5\n"), "column 1 has no name in the header; give it one or remove it, or"),
    "no header": (to_fit("1,2\n3,4\n5,6\n"), "no header: line 1 is all numbers"),
    "an empty file": (to_fit(""), "is empty"),
    "one row": (to_fit("a,y\n1,2\n"), "needs at least 2 rows of data below its header; it has 1"),
    "latin-1": (to_fit("a,städte,y\n1,2,3\n4,5,6\n".encode("latin-1")), "name that (--encoding latin-1)"),
    "unknown encoding": (to_fit("a,y\n1,2\n3,4\n", "--encoding", "klingon"), "no encoding 'klingon'"),
    "a constant target": (to_fit("a,y\n1,2\n3,2\n4,2\n"), "y is constant"),
    "a null in a path": (says("fit", "train.csv", *FIT, "--out", "\0"), "without a null"),
    "an encoding of nothing": (says(*PREDICT, "test.csv", "--encoding", "undefined"), "no encoding 'undefined'"),
    "a null as encoding": (says(*PREDICT, "test.csv", "--encoding", "\0"), "(--encoding); try latin-1"),
    "a model of torn rows": (torn_model, "can be read, but not be used so (RuntimeError: "),
    "no model": (says("predict", "nowhere.lmgp", "test.csv"), "nowhere.lmgp does not exist"),
    "a foreign model": (foreign_model, "is not a model file of lmgp"),
    "a truncated model": (truncated_model, "damaged or incomplete"),
    "nothing to predict": (says(*PREDICT), "Give a table or a --grid"),
    "two things to predict": (says(*PREDICT, "test.csv", "--grid", "lon=1"), "Give a table or a --grid"),
    "a column is missing": (without("lat"), "lacks 1 of the columns that are needed: no column is named 'lat'"),
    "two columns are missing": (without("lat", "lon"), "no column is named 'lon' or 'lat', known: price"),
    "columns of a model with names": (says(*PREDICT, "test.csv", "--columns", "lat", "lon"), "leave out --columns"),
    "an unknown noise": (
        lambda folder: ["fit", "train.csv", "--target", "price", "--noise", "studnet", "--out", "model.lmgp"],
        "noise must be one of 'auto', 'normal', 'student', 'varying', 'robust'; got 'studnet': did you mean 'student'?",
    ),
    "conformal intervals of the function": (
        lambda folder: ["predict", "model.lmgp", "test.csv", "--latent", "--method", "conformal"],
        "--method conformal is of observations, and --latent of the function",
    ),
    "no target to score": (
        lambda folder: ["score", *without("price")(folder)[1:]],
        "no column is named 'price'",
    ),
    "level": (says(*PREDICT, "test.csv", "--level", "95"), "between 0 and 1; got '95'"),
    "GeoTIFF of a point": (says(*PREDICT, "--grid", "lon=1", "lat=1", "--out", "a.tif"), "two values of 'lat'"),
    "netCDF of a table": (says(*PREDICT, "test.csv", "--out", "map.nc"), "netCDF files and GeoTIFF files are for a"),
    "a grid without numbers": (says(*PREDICT, "--grid", "lon", "lat=1"), "or COLUMN=VALUE; got 'lon'"),
    "a grid with text": (says(*PREDICT, "--grid", "lon=a:b:3", "lat=1"), "COLUMN=VALUE; got 'lon=a:b:3'"),
    "a grid with part of an axis": (says(*PREDICT, "--grid", "lon=1:2", "lat=1"), "COLUMN=VALUE; got 'lon=1:2'"),
    "a grid with an end of three": (says(*PREDICT, "--grid", "lon=1:2:3:4", "lat=1"), "got 'lon=1:2:3:4'"),
    "a grid without points": (says(*PREDICT, "--grid", "lon=1:2:0", "lat=1"), "a positive integer"),
    "a grid with fewer points than none": (says(*PREDICT, "--grid", "lon=0:1:-3", "lat=1"), "got 'lon=0:1:-3'"),
    "a grid with half a point": (says(*PREDICT, "--grid", "lon=0:1:2.5", "lat=1"), "got 'lon=0:1:2.5'"),
    "a grid with a word": (says(*PREDICT, "--grid", "lon=west", "lat=1"), "COLUMN=VALUE; got 'lon=west'"),
    "a grid with a date": (says(*PREDICT, "--grid", "lon=2020-01-01", "lat=1"), "VALUE; got 'lon=2020-01-01'"),
    "a grid of another column of text": (says(*PREDICT, "--grid", "town=Ulm", "lat=1"), "has no column 'town'"),
    "a grid that is endless": (
        says(*PREDICT, "--grid", "lon=1:inf:9", "lat=1"),
        "two finite numbers",
    ),
    "a grid of another column": (says(*PREDICT, "--grid", "long=1", "lat=1"), "did you mean 'lon'"),
    "a grid with a column twice": (says(*PREDICT, "--grid", "lon=1", "lon=2"), "'lon' more than once"),
    "a grid without a column": (says(*PREDICT, "--grid", "lon=1"), "missing are lat"),
    "a grid too large": (says(*PREDICT, "--grid", "lon=0:1:99999", "lat=0:1:99999"), "9,999,800,001 points"),
    "an axis too large": (says(*PREDICT, "--grid", "lon=0:1:999999999", "lat=1"), "999,999,999 values"),
    "a workbook of predictions": (says(*PREDICT, "test.csv", "--out", "out.xlsx"), "files .xlsx are not written"),
    **{
        f"predictions in {ending}": (says(*PREDICT, "test.csv", "--out", f"out{ending}"), f"files {ending} are not")
        for ending in (".orc", ".pkl", ".html", ".lmgp", ".pq", ".7z", ".tar", ".tar.gz", ".parquet.gz", ".nc.gz")
    },
    "no points": (without_geometries, "bad.gpkg has no geometries: save the table as CSV or Parquet."),
    "points along dates": (points_along_dates, "columns of numbers, and 'when' has dates or text"),
    "no folder for predictions": (says(*PREDICT, "test.csv", "--out", "nowhere/out.csv"), "there is no folder"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line_and_leaves_nothing(
    case: str, folder: Path, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    make, told = BAD[case]
    arguments = make(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"lmgp: error: .+\n", printed.err)
    assert told in printed.err
    assert {path: path.read_bytes() for path in folder.rglob("*")} == before


def test_predictions_that_cannot_be_written_leave_the_earlier_file(
    folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    (folder / "out.csv").write_text("earlier")
    before = set(folder.iterdir())
    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    assert main([*PREDICT, "test.csv", "--out", "out.csv"]) == 2
    assert capsys.readouterr().err == (
        "lmgp: error: out.csv cannot be written: No space left on device. Free the place, or name another.\n"
    )
    assert (folder / "out.csv").read_text() == "earlier"
    assert set(folder.iterdir()) == before


def test_parquet_of_something_else_is_refused(folder: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    frame(20, seed=1).assign(lat="north").to_parquet("text.parquet")
    (folder / "broken.parquet").write_bytes((folder / "text.parquet").read_bytes()[:100])
    for name, told in (("text", "not numeric: 'lat' (row 0: 'north')"), ("broken", "could not be read as Parquet")):
        assert main([*PREDICT, f"{name}.parquet"]) == 2
        assert told in capsys.readouterr().err
