"""What the command refuses before it measures: in one clear line, leaving nothing behind."""

import gzip
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgp.cli import main
from lmgp.experiments import bench
from lmgp.experiments.results import HEADER

pytestmark = pytest.mark.usefixtures("folder")
QUICK = ["reproduce", "--quick", "--out", "out"]


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def flats_file(path: Path) -> str:
    """A data folder with a file of flats of the user's own making, that has too few rows."""
    rng = np.random.default_rng(0)
    rows = "".join(f"{lon:.4f},{lat:.4f},12.5\n" for lon, lat in rng.uniform((-5, 50), (1, 55), (40, 2)))
    write(path / "data" / "uk_flats.csv", "lon,lat,log_price\n" + rows)
    (path / "data" / "uk_flats.csv.gz").write_bytes(gzip.compress((path / "data" / "uk_flats.csv").read_bytes()))
    return str(path / "data")


RESULTS = "out/cells/yacht/results.csv"
YACHT = ["--only", "clusters", "--datasets", "yacht"]
BAD: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "unknown part": (lambda path: ["--only", "kernel", "cluster"], "'clusters'"),
    "no part": (lambda path: ["--only"], "--only"),
    "unknown data set": (lambda path: ["--datasets", "yatch"], "'yacht'"),
    "another data set": (lambda path: ["--datasets", "diabetes"], "yacht, kin8nm"),
    "no seeds": (lambda path: ["--seeds", "0"], "got 0"),
    "negative seeds": (lambda path: ["--seeds", "-1"], "got -1"),
    "seeds text": (lambda path: ["--seeds", "ten"], "'ten'"),
    "quick and full": (lambda path: ["--quick", "--full"], "--full"),
    "unknown protocol": (lambda path: ["--protocol", "papr"], "'papr'"),
    "an argument": (lambda path: ["yacht"], "yacht"),
    "out is a file": (lambda path: ["--only", "kernel", "--out", write(path / "taken", "")], "taken"),
    "out below a file": (lambda path: ["--only", "kernel", "--out", write(path / "taken", "") + "/deep"], "taken"),
    "out below a file, with cells": (lambda path: [*YACHT, "--out", write(path / "taken", "") + "/deep"], "taken"),
    "report is a folder": (
        lambda path: ["--only", "kernel", "--out", write(path / "out/report.html/x", "").partition("/report")[0]],
        "report.html",
    ),
    "a damaged line": (
        lambda path: [*YACHT, *(["--out", "out"] if write(path / RESULTS, ",".join(HEADER) + "\na,b\n") else [])],
        "Line 2",
    ),
    "results of something else": (
        lambda path: [*YACHT, *(["--out", "out"] if write(path / RESULTS, "mine\n1\n") else [])],
        "not a results file",
    ),
    "a named set is missing": (lambda path: ["--only", "uk-map", "--datasets", "uk_flats_2020-12"], "--data-dir"),
    "a named set of several is missing": (lambda path: ["--datasets", "uk_flats", "yacht"], "uk_flats.csv.gz"),
    "a named set cannot be downloaded": (lambda path: ["--datasets", "kin8nm"], "could not be downloaded"),
    "no data folder, with a name": (lambda path: [*YACHT, "--data-dir", "nowhere"], "'nowhere'"),
    "no data folder": (lambda path: ["--only", "kernel", "clusters", "--data-dir", "nowhere"], "'nowhere'"),
    "no data at all": (lambda path: ["--only", "clusters", "features"], "'yacht' could not be downloaded"),
    "a map without its set": (lambda path: ["--only", "uk-map", "--datasets", "yacht"], "uk_flats_2020-12"),
    "too few rows": (lambda path: ["--only", "clusters", "--data-dir", flats_file(path)], "40 rows"),
    "too few rows of a map": (lambda path: ["--only", "uk-map", "--data-dir", flats_file(path)], "40 rows"),
    "cells is a file": (
        lambda path: ["--quick", "--only", "uk-map", "--out", write(path / "out/cells", "").removesuffix("/cells")],
        "cells",
    ),
}
NEEDS_DATA = {"out below a file, with cells", "a damaged line", "results of something else", "cells is a file"}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line_and_leaves_nothing(
    case: str, folder: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    if case in NEEDS_DATA:
        request.getfixturevalue("here")
    make_options, named = BAD[case]
    options = make_options(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert main(["reproduce", "--quiet", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"lmgp: error: .+\n", printed.err)
    assert named in printed.err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "out").mkdir(mode=0o500)
    assert main([*QUICK, "--only", "kernel"]) == 2
    assert "not writable" in capsys.readouterr().err
    assert os.listdir(folder / "out") == []


def test_all_sets_are_checked_before_the_first_is_measured(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(*arguments: Any) -> None:
        raise AssertionError("measured")

    here[:] = ["yacht", "kin8nm"]
    write(folder / "out/cells/kin8nm/results.csv", ",".join(HEADER) + "\na,b\n")
    monkeypatch.setattr(bench.Bench, "measure", measured)
    before = contents(folder)
    assert main(QUICK) == 2
    assert "kin8nm" in capsys.readouterr().err
    assert contents(folder) == before
