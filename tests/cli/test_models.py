"""Models of tables on the command line: fit, predict, score and info, and what they refuse."""

import gzip
import io
import math
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import lmgp
from lmgp import ExactGPRegressor, FeaturizedGPRegressor, GPRegressor, MaternKernel, TaylorFeatures
from lmgp.cli import main
from tests.conftest import GIVEN, draw

FIT = ["--kernel", "matern32", "--target", "price", "--quiet"]


def frame(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Places, and a price at each."""
    X, y, _ = draw(n, (-6.0, 50.0), (2.0, 55.0), seed=seed)
    return pd.DataFrame({"lon": X[:, 0], "lat": X[:, 1], "price": y})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with tables of training and of test rows."""
    monkeypatch.chdir(tmp_path)
    frame().to_csv("train.csv", index=False)
    frame(20, seed=1).to_csv("test.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What `lmgp fit train.csv` writes."""
    place = tmp_path_factory.mktemp("model")
    frame().to_csv(place / "train.csv", index=False)
    assert main(["fit", str(place / "train.csv"), "--out", str(place / "model.lmgp"), *FIT]) == 0
    return (place / "model.lmgp").read_bytes()


@pytest.fixture
def model(folder: Path, model_file: bytes) -> Any:
    """The model, in the folder as model.lmgp."""
    (folder / "model.lmgp").write_bytes(model_file)
    return lmgp.load("model.lmgp")


def read(source: Any, sep: str = ",", decimal: str = ".") -> pd.DataFrame:
    """Read a table, each number with all its digits."""
    return pd.read_csv(source, sep=sep, dtype=str).map(lambda one: float(str(one).replace(decimal, ".")))


def predicted(*arguments: str, **written: str) -> pd.DataFrame:
    """Run ``lmgp predict model.lmgp`` with a file as its output, and read that."""
    assert main(["predict", "model.lmgp", *arguments, "--out", "out.csv", "--quiet"]) == 0
    return read("out.csv", **written)


def mean(model: Any, rows: Any) -> Any:
    """The mean as it is beside standard deviations: alone it is rounded otherwise."""
    return model.predict(rows, return_std=True)[0]


# -------------------------------------------------------------------------------------------------------- what is right


def test_fit_and_predict_are_those_of_python(folder: Path, model: Any) -> None:
    train, test = frame(), frame(20, seed=1)
    inputs = ["lon", "lat"]
    same = GPRegressor(kernel="matern32", random_state=0).fit(train[inputs], train["price"])
    expected, std = same.predict(test[inputs], return_std=True, include_noise=True)
    found = predicted("test.csv")
    assert list(found) == ["mean", "std", "lower", "upper"]
    np.testing.assert_array_equal(found["mean"], expected)
    np.testing.assert_array_equal(found["std"], std)
    low, high = norm.interval(0.95, expected, std)
    np.testing.assert_allclose(found[["lower", "upper"]], np.column_stack((low, high)), rtol=1e-12)
    assert repr(model.kernel_) == repr(same.kernel_)


def test_options_of_predict(model: Any) -> None:
    test = frame(20, seed=1)[["lon", "lat"]]
    expected, std = model.predict(test, return_std=True)
    found = predicted("test.csv", "--latent", "--level", "0.5")
    np.testing.assert_array_equal(found["std"], std)
    np.testing.assert_allclose(found["upper"], norm.ppf(0.75, expected, std), rtol=1e-12)


def test_options_of_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trend", "lat", "--metric", "sphere", "--ard", "no", "--noise-variance", "0.05", "--seed", "3"]
    assert main(["fit", "train.csv", *FIT, *options, "--tolerance", "0.01", "--out", "model.lmgp"]) == 0
    train = frame()
    given = {"kernel": "matern32", "trend": ["lat"], "metric": "sphere", "ard": False, "noise_variance": 0.05}
    same = GPRegressor(0.01, **given, random_state=3).fit(train[["lon", "lat"]], train["price"])
    found = predicted("test.csv")
    np.testing.assert_array_equal(found["mean"], mean(same, frame(20, seed=1)[["lon", "lat"]]))
    printed = capsys.readouterr()
    assert "fitted to   price of train.csv, 60 rows, by lon, lat\n" in printed.out
    assert "variance 0.05" in printed.out
    assert printed.err == ""


def test_columns_are_taken_by_name_in_any_order_and_others_ignored(folder: Path, model: Any) -> None:
    expected = predicted("test.csv")
    other = frame(20, seed=1).assign(city="Ely", note=None)[["note", "lat", "city", "price", "lon"]]
    other.to_csv("other.csv")  # with an index, which has no name
    pd.testing.assert_frame_equal(predicted("other.csv"), expected)


def test_other_ways_to_write_a_table(folder: Path, model: Any) -> None:
    expected, test = predicted("test.csv"), frame(20, seed=1)
    test.to_csv("test.csv.gz", index=False)
    pd.testing.assert_frame_equal(predicted("test.csv.gz"), expected)
    test.assign(städte="Köln").to_csv("test.tsv", index=False, sep="\t", encoding="latin-1")
    pd.testing.assert_frame_equal(predicted("test.tsv", "--sep", "tab", "--encoding", "latin-1", sep="\t"), expected)
    test.to_csv("german.csv", index=False, sep=";", decimal=",")
    found = predicted("german.csv", "--sep", ";", "--decimal", ",", sep=";", decimal=",")
    pd.testing.assert_frame_equal(found, expected, check_exact=False, rtol=1e-15)
    assert main(["predict", "model.lmgp", "test.csv", "--out", "out.csv.gz"]) == 0
    assert gzip.decompress(Path("out.csv.gz").read_bytes()).decode().splitlines()[0] == "mean,std,lower,upper"
    pd.testing.assert_frame_equal(read("out.csv.gz"), expected)


def test_standard_input_and_output(
    folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = predicted("test.csv")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("test.csv").read_bytes())))
    assert main(["predict", "model.lmgp", "-"]) == 0
    printed = capsys.readouterr()
    found = read(io.StringIO(printed.out))
    pd.testing.assert_frame_equal(found, expected)
    assert printed.err == ""
    assert not sys.stdin.buffer.closed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("train.csv").read_bytes())))
    assert main(["fit", "-", *FIT, "--out", "again.lmgp"]) == 0
    assert "price of standard input" in capsys.readouterr().out


def test_a_grid_in_place_of_a_table(folder: Path, model: Any) -> None:
    found = predicted("--grid", "lat=50:52:3", "lon=-6:2:5")
    lat, lon = np.meshgrid([50.0, 51.0, 52.0], [-6.0, -4.0, -2.0, 0.0, 2.0], indexing="ij")
    points = pd.DataFrame({"lon": lon.ravel(), "lat": lat.ravel()})
    pd.testing.assert_frame_equal(found[["lon", "lat"]], points)
    np.testing.assert_array_equal(found["mean"], mean(model, points))
    assert list(predicted("--grid", "lat=50.5", "lon=-6:2:2")["lat"]) == [50.5, 50.5]


def test_rows_with_missing_values_can_be_dropped(folder: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    expected, test = predicted("test.csv"), frame(20, seed=1)
    test.loc[[3, 7], "lat"], test.loc[9, "price"] = math.nan, math.inf
    test.to_csv("holes.csv", index=False)
    found = predicted("holes.csv", "--drop")
    assert list(np.flatnonzero(found.isna().all(axis=1))) == [3, 7]
    pd.testing.assert_frame_equal(found.dropna(), expected.drop([3, 7]))
    test.to_csv("holes.csv", index=False)
    assert main(["score", "model.lmgp", "holes.csv", "--drop"]) == 0
    printed = capsys.readouterr()
    assert re.match(r"rows +17\n", printed.out)
    assert "3 of 20 rows have missing values and are left out" in printed.err
    train = frame()
    train.loc[5, "price"] = math.nan
    train.to_csv("train.csv", index=False)
    assert main(["fit", "train.csv", *FIT, "--drop", "--out", "model.lmgp"]) == 0
    assert "59 rows" in capsys.readouterr().out


def test_scores_are_those_of_the_textbook(folder: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "model.lmgp", "test.csv", "--level", "0.8"]) == 0
    found = dict(re.findall(r"^(\S.*\S)  +(\S+)$", capsys.readouterr().out, flags=re.MULTILINE))
    test = frame(20, seed=1)
    mean, std = model.predict(test[["lon", "lat"]], return_std=True, include_noise=True)
    y, z = test["price"], (test["price"] - mean) / std
    crps = np.mean(std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)))
    expected = {
        "rows": 20,
        "RMSE": np.sqrt(np.mean((y - mean) ** 2)),
        "NLPD": -norm.logpdf(y, mean, std).mean(),
        "CRPS": crps,
        "coverage of 80% intervals": np.mean(np.abs(z) < norm.ppf(0.9)),
    }
    assert list(found) == list(expected)
    np.testing.assert_allclose([float(one) for one in found.values()], list(expected.values()), rtol=1e-5)


def test_info_shows_what_a_file_has(folder: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "model.lmgp"]) == 0
    out = capsys.readouterr().out
    assert "model       GPRegressor, which chose ExactGPRegressor\n" in out
    assert f"kernel      {' '.join(repr(model.kernel_).split())}\n" in out
    assert f"variance {model.noise_variance_:.6g}, standard deviation" in out
    assert re.search(r"relevance   (lon|lat) \S+, (lon|lat) ", out)
    assert "rows kept   60\n" in out
    assert f"{(folder / 'model.lmgp').stat().st_size:,} bytes, written by lmgp {lmgp.__version__}" in out
    assert str(model.learning_) in out
    assert str(model.selection_) in out


def test_info_of_models_and_maps_that_keep_no_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y, _ = draw(30)
    FeaturizedGPRegressor(TaylorFeatures(10), **GIVEN).fit(X, y).save("model.lmgp")
    TaylorFeatures(10).fit(X).save("map.lmgp")
    for path in ("model.lmgp", "map.lmgp"):
        assert main(["info", path]) == 0
        assert "rows kept   none: the model needs no training rows" in capsys.readouterr().out
    assert main(["predict", "map.lmgp", "train.csv"]) == 2
    assert "has a TaylorFeatures, which predicts no mean" in capsys.readouterr().err


def test_a_model_without_names_takes_columns_by_their_places(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = frame(), frame(20, seed=1)
    model = ExactGPRegressor(MaternKernel(2.0), 0.1).fit(train[["lat", "lon"]].to_numpy(), train["price"])
    model.save("model.lmgp")
    expected = mean(model, test[["lat", "lon"]].to_numpy())
    np.testing.assert_array_equal(predicted("test.csv", "--columns", "lat", "lon")["mean"], expected)
    test[["lat", "lon"]].to_csv("inputs.csv", index=False)
    np.testing.assert_array_equal(predicted("inputs.csv")["mean"], expected)
    assert list(predicted("--grid", "x0=50:55:2", "x1=1")["x0"]) == [50.0, 55.0]
    assert main(["score", "model.lmgp", "test.csv", "--target", "price", "--columns", "lat", "lon"]) == 0
    assert f"{np.sqrt(np.mean((test['price'] - expected) ** 2)):.6g}" in capsys.readouterr().out
    for arguments, told in (
        (["predict", "model.lmgp", "test.csv"], "has 3 inputs, lon, lat, price; the model was fitted to 2 columns"),
        (["score", "model.lmgp", "test.csv"], "does not say which column it predicts; name it (--target)"),
    ):
        assert main(arguments) == 2
        assert told in capsys.readouterr().err


def test_parquet(folder: Path, model: Any) -> None:
    pytest.importorskip("pyarrow")
    expected, test = predicted("test.csv"), frame(20, seed=1)
    test.assign(city="Ely").to_parquet("test.parquet")
    pd.testing.assert_frame_equal(predicted("test.parquet"), expected)
    assert main(["predict", "model.lmgp", "test.parquet", "--out", "out.parquet"]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet("out.parquet"), expected)
    test.loc[3, "lat"] = math.nan
    test.to_parquet("test.parquet")
    assert predicted("test.parquet", "--drop")["mean"].isna().sum() == 1


# ----------------------------------------------------------------------------------------------------- what is refused

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


def foreign_model(folder: Path) -> list[str]:
    (folder / "bad.lmgp").write_text("model")
    return ["info", "bad.lmgp"]


def truncated_model(folder: Path) -> list[str]:
    (folder / "bad.lmgp").write_bytes((folder / "model.lmgp").read_bytes()[:1000])
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
    "tolerance of text": (says("fit", "train.csv", *FIT, "--tolerance", "low", "--out", "m"), "got 'low'"),
    "negative seed": (says("fit", "train.csv", *FIT, "--seed", "-1", "--out", "m"), "--seed must not be negative"),
    "no table": (says("fit", "nowhere.csv", *FIT, "--out", "m"), "nowhere.csv does not exist"),
    "a folder as table": (says("fit", ".", *FIT, "--out", "m"), "is a folder"),
    "no folder for the model": (says("fit", "train.csv", *FIT, "--out", "nowhere/m"), "there is no folder"),
    "a folder as model": (says("fit", "train.csv", *FIT, "--out", "."), "is a folder"),
    "standard output as model": (says("fit", "train.csv", *FIT, "--out", "-"), "--out model.lmgp"),
    "semicolons": (to_fit("a;y\n1;2\n3;4\n"), "(--sep ';')"),
    "tabs": (to_fit("a\ty\n1\t2\n3\t4\n"), r"(--sep '\t')"),
    "commas, where it says semicolons": (to_fit("a,y\n1,2\n3,4\n", "--sep", ";"), "(--sep ',')"),
    "two marks": (to_fit("a;y\n1;2\n3;4\n", "--sep", ";;"), "one character (--sep); got ';;'"),
    "decimal commas": (to_fit("a;y\n1,5;2,5\n3;4\n", "--sep", ";"), "say so (--decimal ,)"),
    "points among thousands": (to_fit("a;y\n1.000,5;2\n3;4\n", "--sep", ";", "--decimal", ","), "'1.000,5'"),
    "two uses of the comma": (to_fit("a,y\n1,2\n3,4\n", "--decimal", ","), "not what separates columns"),
    "text": (to_fit("a,y\nx,2\n3,4\n"), "'a' (line 2: 'x'); encode them as numbers"),
    "dates": (to_fit("a,y\n2020-01-31,2\n2020-02-01,4\n"), "dates as the days since the first one"),
    "missing values": (to_fit("a,y\n1,2\n,4\n5,6\n"), "'a' (1 rows, first line 3); fill them in or drop"),
    "nothing but missing values": (to_fit("a,y\n1,\n,4\n5,\n", "--drop"), "has 0 complete rows; at least 2"),
    "names that repeat": (to_fit("a,a,y\n1,2,3\n4,5,6\n"), "the header has a more than once"),
    "an index": (to_fit(",a,y\n0,1,2\n1,3,5\n"), "column 1 has no name in the header; give it one or remove it, or"),
    "no header": (to_fit("1,2\n3,4\n5,6\n"), "no header: line 1 is all numbers"),
    "an empty file": (to_fit(""), "is empty"),
    "one row": (to_fit("a,y\n1,2\n"), "has 1 rows of data"),
    "latin-1": (to_fit("a,städte,y\n1,2,3\n4,5,6\n".encode("latin-1")), "name that (--encoding latin-1)"),
    "unknown encoding": (to_fit("a,y\n1,2\n3,4\n", "--encoding", "klingon"), "no encoding 'klingon'"),
    "a constant target": (to_fit("a,y\n1,2\n3,2\n4,2\n"), "y is constant"),
    "no model": (says("predict", "nowhere.lmgp", "test.csv"), "nowhere.lmgp does not exist"),
    "a foreign model": (foreign_model, "is not a model file of lmgp"),
    "a truncated model": (truncated_model, "damaged or incomplete"),
    "nothing to predict": (says(*PREDICT), "Give a table or a --grid"),
    "two things to predict": (says(*PREDICT, "test.csv", "--grid", "lon=1"), "Give a table or a --grid"),
    "a column is missing": (without("lat"), "lacks 1 of the columns that are needed: no column is named 'lat'"),
    "two columns are missing": (without("lat", "lon"), "no column is named 'lat', known: price"),
    "columns of a model with names": (says(*PREDICT, "test.csv", "--columns", "lat", "lon"), "leave out --columns"),
    "no target to score": (
        lambda folder: ["score", *without("price")(folder)[1:]],
        "no column is named 'price'",
    ),
    "level": (says(*PREDICT, "test.csv", "--level", "95"), "between 0 and 1; got '95'"),
    "a grid without numbers": (says(*PREDICT, "--grid", "lon", "lat=1"), "such as lon=-6:2:200; got 'lon'"),
    "a grid with text": (says(*PREDICT, "--grid", "lon=a:b:3", "lat=1"), "COLUMN=VALUE; got 'lon=a:b:3'"),
    "a grid with part of an axis": (says(*PREDICT, "--grid", "lon=1:2", "lat=1"), "COLUMN=VALUE; got 'lon=1:2'"),
    "a grid without points": (says(*PREDICT, "--grid", "lon=1:2:0", "lat=1"), "a positive integer"),
    "a grid that is endless": (says(*PREDICT, "--grid", "lon=1:inf:9", "lat=1"), "got 'lon=1:inf:9'"),
    "a grid of another column": (says(*PREDICT, "--grid", "long=1", "lat=1"), "did you mean 'lon'"),
    "a grid with a column twice": (says(*PREDICT, "--grid", "lon=1", "lon=2"), "'lon' more than once"),
    "a grid without a column": (says(*PREDICT, "--grid", "lon=1"), "missing are lat"),
    "a grid too large": (says(*PREDICT, "--grid", "lon=0:1:99999", "lat=0:1:99999"), "9,999,800,001 points"),
    "an axis too large": (says(*PREDICT, "--grid", "lon=0:1:999999999", "lat=1"), "999,999,999 values"),
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


def test_parquet_without_pyarrow_is_refused(
    folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (folder / "test.parquet").write_bytes(b"PAR1")
    for arguments in (["test.parquet"], ["test.csv", "--out", "out.parquet"]):
        assert main([*PREDICT, *arguments]) == 2
        assert "Parquet files need pyarrow: pip install pyarrow" in capsys.readouterr().err
    assert not (folder / "out.parquet").exists()


def test_predictions_that_cannot_be_written_leave_the_earlier_file(
    folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: Any) -> str:
        raise OSError(28, "No space left on device")

    (folder / "out.csv").write_text("earlier")
    before = set(folder.iterdir())
    monkeypatch.setattr("lmgp.cli.grids._field", full)
    assert main([*PREDICT, "test.csv", "--out", "out.csv"]) == 2
    assert capsys.readouterr().err == (
        "lmgp: error: out.csv cannot be written: No space left on device. Free the place, or name another.\n"
    )
    assert (folder / "out.csv").read_text() == "earlier"
    assert set(folder.iterdir()) == before


def test_parquet_of_something_else_is_refused(folder: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    frame(20, seed=1).assign(lat="north").to_parquet("text.parquet")
    (folder / "broken.parquet").write_bytes((folder / "text.parquet").read_bytes()[:100])
    for name, told in (("text", "not numeric: 'lat' (row 0: 'north')"), ("broken", "could not be read as Parquet")):
        assert main([*PREDICT, f"{name}.parquet"]) == 2
        assert told in capsys.readouterr().err


# --------------------------------------------------------------------------------------------------- what the page says

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["docs/command_line.md", "README.md"])
def test_the_commands_of_the_pages_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    made, commands = re.search(r"```python\n(.*?)```\n\n```sh\n(.*?)```", text, flags=re.DOTALL).groups()
    exec(made, {})
    for command in commands.splitlines():
        program, *arguments = shlex.split(command, comments=True)
        assert program == "lmgp"
        assert main([one.replace(":200", ":3") for one in arguments]) == 0, capsys.readouterr().err
    assert len(read("predictions.csv")) == 100
    assert "model       GPRegressor" in capsys.readouterr().out


def test_the_page_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    for command in ("fit", "predict", "score", "plot"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help", "--quiet", "--out"}
        assert len(options) > 5
        assert {option for option in options if option not in text} == set()
