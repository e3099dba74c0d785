"""Every command: malformed tables, model files and options; one line, status 2, no traceback, nothing half-written."""

import argparse
import gzip
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from lmgp import ExactGPRegressor
from lmgp.cli import _parser, main
from tests.malformed.conftest import GIVEN, X, Y

GOOD = "a,b,y\n" + "".join(f"{a!r},{b!r},{y!r}\n" for (a, b), y in zip(X.tolist(), Y.tolist(), strict=True))
LINES = GOOD.splitlines()


def with_line(line: str, at: int = 3) -> str:
    """The good table with another line."""
    return "\n".join([*LINES[:at], line, *LINES[at + 1 :]]) + "\n"


# A table's content, and what the message says of it. None stands for what is not written at all.
TABLES: dict[str, tuple[bytes | str | None, str]] = {
    "missing": (None, "does not exist"),
    "empty": ("", "is empty"),
    "blank lines": ("\n\n\n", "is empty"),
    "a header alone": ("a,b,y\n", "rows of data below its header; it has 0"),
    "no header": ("\n".join(LINES[1:]), "no header: line 1 is all numbers"),
    "text": (with_line("1,red,2"), "not numeric: 'b' (line 4: 'red')"),
    "a date": (with_line("1,2020-01-31,2"), "dates as the days since the first one"),
    "an underscore": (with_line("1,1_000,2"), "'b' (line 4: '1_000')"),
    "thousands": (with_line('1,"1,000.5",2'), "'b' (line 4: '1,000.5')"),
    "semicolons": (GOOD.replace(",", ";"), "(--sep ';')"),
    "tabs": (GOOD.replace(",", "\t"), r"(--sep '\t')"),
    "decimal commas": ('a,b,y\n"1,5",2,3\n2,"3,5",4\n5,6,7\n', "(--decimal ,)"),
    "semicolons and decimal commas": (GOOD.replace(",", ";").replace(".", ","), "(--sep ';')"),
    "a missing value": (with_line("1,,2"), "'b' (1 row, first line 4)"),
    "NA": (with_line("1,NA,2"), "'b' (1 row, first line 4)"),
    "an infinite value": (with_line("1,inf,2"), "'b' (1 row, first line 4)"),
    "a number too large": (with_line("1,1e400,2"), "'b' (1 row, first line 4)"),
    "a short line": (with_line("1,2"), "line 4 has 2 fields, the header has 3"),
    "a long line": (with_line("1,2,3,4"), "line 4 has 4 fields, the header has 3"),
    "names that repeat": (GOOD.replace("a,b,y", "b,b,y"), "b"),
    "no target": (GOOD.replace("a,b,y", "a,b,z"), "no column is named 'y'"),
    "latin-1": (GOOD.replace("a,b,y", "ä,b,y").encode("latin-1"), "(--encoding latin-1)"),
    "utf-16": (GOOD.encode("utf-16"), "--encoding"),
    "zero bytes": (b"\0" * 100, "rows.csv"),
    "not compressed": (GOOD, "could not be read"),  # as rows.csv.gz
    "half of a compressed table": (gzip.compress(GOOD.encode())[:80], "could not be read"),
}
COMPRESSED = ("not compressed", "half of a compressed table")
# Commands that read a table, each with the place of it. A table of predictions needs no target.
OF_TABLES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "fit": (["fit", "TABLE", "--target", "y", "--out", "new.lmgp"], ("a missing value", "NA")),
    "predict": (["predict", "model.lmgp", "TABLE", "--out", "out.csv"], ("no target",)),
    "score": (["score", "model.lmgp", "TABLE", "--target", "y"], ()),
    "plot": (["plot", "model.lmgp", "TABLE", "--target", "y", "--out", "page.html"], ()),
    "compare": (["compare", "./TABLE", "--target", "y", "--methods", "rff", "--seeds", "1"], ()),
}
# In place of a model file.
MODELS: dict[str, tuple[bytes | str | None, str]] = {
    "missing": (None, "does not exist"),
    "empty": ("", "is empty"),
    "a table": (GOOD, "is not a model file of lmgp"),
    "a pickle": (pickle.dumps({}), "load it with joblib.load"),
    "truncated": (b"PK", "is not a model file of lmgp|damaged"),
}
OF_MODELS = {
    "predict": ["predict", "bad.lmgp", "rows.csv"],
    "score": ["score", "bad.lmgp", "rows.csv"],
    "plot": ["plot", "bad.lmgp", "rows.csv", "--target", "y"],
    "info": ["info", "bad.lmgp"],
}
# Options, and what is wrong with them. The tables of all options are in tests/cli and tests/test_cli.py.
OPTIONS: dict[str, list[tuple[str, str]]] = {
    "fit": [
        ("rows.csv --target y", "--out"),
        ("rows.csv --out m", "--target"),
        ("rows.csv --target y --out m --kernel matern33", "matern32"),
        ("rows.csv --target y --out m --max-memory none", "expected a finite number above 0; got 'none'"),
        ("rows.csv --target y --out m --max-memory 0", "got '0'"),
        ("rows.csv --target y --out m --target-transform sqrt", "'sqrt'"),
        ("rows.csv --target y --out m --noise-variance -1", "got '-1'"),
        ("rows.csv --target y --out nowhere/m", "there is no folder"),
        ("rows.csv --target y --out m --sep", "--sep"),
        ("rows.csv --target y --out m --encoding klingon", "klingon"),
        ("rows.csv --target y --out m --columns y", "not the target 'y'"),
        ("rows.csv --target y --out m --nonsense", "--nonsense"),
    ],
    "predict": [
        ("model.lmgp", "Give a table or a --grid"),
        ("model.lmgp rows.csv --level 95", "between 0 and 1; got '95'"),
        ("model.lmgp rows.csv --out nowhere/out.csv", "there is no folder"),
        ("model.lmgp --grid a=0:1:3", "missing are b"),
        ("model.lmgp --grid a=1 b=1 --out g.nc --average-over 3 --method conformal", "leave out --method conformal"),
        ("rows.csv rows.csv", "is not a model file"),
    ],
    "score": [("model.lmgp", "Give a table to score"), ("model.lmgp rows.csv --target z", "no column is named 'z'")],
    "plot": [
        ("", "MODEL"),
        ("model.lmgp rows.csv", "does not say which column it predicts"),
        ("model.lmgp --target y", "about a table, and none is given"),
        ("model.lmgp --out model.lmgp", "would be replaced"),
        ("model.lmgp --out -", "A report is an HTML file"),
        ("model.lmgp --out nowhere/page.html", "there is no folder"),
        ("model.lmgp --level 95", "between 0 and 1; got '95'"),
    ],
    "info": [("", "MODEL"), (".", "is a folder")],
    "compare": [
        ("", "DATASET"),
        ("ok.txt --target y", "ok.txt does not exist; give the path of a CSV file"),
        ("rows.csv", "the target is needed (--target)"),
        ("sinc --methods rff2", "did you mean 'rff'"),
        ("sinc --method nowhere:Map", "there is no module 'nowhere'"),
        ("sinc --seeds none", "'none'"),
        ("sinc --out rows.csv", "rows.csv is in the way or not writable"),
    ],
    "reproduce": [
        ("--only everything", "Unknown part 'everything'; known: kernel"),
        ("--datasets yatch", "'yacht'"),
        ("--seeds 0", "seed"),
        ("--quick --full", "not allowed with"),
        ("--data-dir nowhere", "'nowhere'"),
    ],
    "datasets": [("--data-dir nowhere", "'nowhere', which is not a folder"), ("all", "all")],
}


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A model of the columns a and b."""
    path = tmp_path_factory.mktemp("model") / "model.lmgp"
    ExactGPRegressor(**GIVEN).fit(pd.DataFrame(X, columns=["a", "b"]), Y).save(path)
    return path.read_bytes()


@pytest.fixture
def folder(tmp_path: Path, model_file: bytes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a good table and a good model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LMGP_DATA_DIR", raising=False)
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(b"drawn"))
    (tmp_path / "model.lmgp").write_bytes(model_file)
    (tmp_path / "rows.csv").write_text(GOOD)
    return tmp_path


def refused(arguments: list[str], told: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Run a command, and check that it refuses its input in one line and leaves the folder as it was."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    status = main(arguments)
    printed = capsys.readouterr()
    what = f"{' '.join(arguments)}: {printed.err}"
    assert status == 2, what
    assert printed.out == "", what
    assert re.fullmatch(r"lmgp: error: .+\n", printed.err), what
    assert any(one in printed.err for one in told.split("|")), what
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def commands() -> set[str]:
    """All commands."""
    (of_commands,) = [one for one in _parser()._actions if isinstance(one, argparse._SubParsersAction)]
    return set(of_commands.choices)


def test_every_command_has_its_tables() -> None:
    assert commands() == set(OPTIONS)
    for command in commands():
        arguments = [one.dest for one in _subparser(command)._actions]
        assert ("table" in arguments) <= (command in OF_TABLES)
        assert ("model" in arguments) == (command in OF_MODELS)


def _subparser(command: str) -> argparse.ArgumentParser:
    (of_commands,) = [one for one in _parser()._actions if isinstance(one, argparse._SubParsersAction)]
    found: argparse.ArgumentParser = of_commands.choices[command]
    return found


@pytest.mark.parametrize("command", OF_TABLES)
def test_tables(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern, right = OF_TABLES[command]
    for case, (content, told) in TABLES.items():
        if case in right or (case == "names that repeat" and command in ("predict", "score", "plot")):
            continue
        name = "bad.csv.gz" if case in COMPRESSED else "bad.csv"
        if content is not None:
            Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
        if case == "zero bytes":
            told = name
        refused([one.replace("TABLE", name) for one in pattern], told, folder, capsys)
        Path(name).unlink(missing_ok=True)
    refused([one.replace("TABLE", ".") for one in pattern], "is a folder|No data set", folder, capsys)


@pytest.mark.parametrize("command", OF_MODELS)
def test_models(command: str, folder: Path, model_file: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    cases = {**MODELS, "half": (model_file[: len(model_file) // 2], "damaged or incomplete")}
    for content, told in cases.values():
        if content is not None:
            Path("bad.lmgp").write_bytes(content.encode() if isinstance(content, str) else content)
        refused(OF_MODELS[command], told, folder, capsys)
        Path("bad.lmgp").unlink(missing_ok=True)


@pytest.mark.parametrize("command", OPTIONS)
def test_options(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, told in OPTIONS[command]:
        refused([command, *options.split()], told, folder, capsys)


def test_a_process_ends_with_status_2_and_no_traceback(folder: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "lmgp", "fit", "nowhere.csv", "--target", "y", "--out", "new.lmgp"],
        capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stdout == ""
    told = run.stderr.removeprefix("lmgp: reading nowhere.csv\n")  # where imports take more than a second
    assert told == "lmgp: error: nowhere.csv does not exist; give the path of a CSV file.\n"
    assert not Path("new.lmgp").exists()


def test_a_good_table_passes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("ok.txt").write_text(GOOD)
    assert main(["predict", "model.lmgp", "ok.txt", "--out", "out.csv"]) == 0
    assert np.isfinite(np.loadtxt("out.csv", delimiter=",", skiprows=1)).all()
    assert main(["compare", "ok.txt", "--target", "y", "--methods", "rff", "--seeds", "1", "--n-features", "8"]) == 0
    assert capsys.readouterr().out.startswith("ok: 30 rows")
