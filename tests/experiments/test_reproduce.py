"""The whole reproduction through the command, on small made data in the place of the paper's sets."""

import csv
import gzip
import io
import os
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, NearestNeighborsGPRegressor
from lmgp.cli import main
from lmgp.errors import InputError
from lmgp.experiments import compare as compare_module
from lmgp.experiments import figure_3, page, reproduce
from lmgp.experiments.compare import COLUMNS, PROTOCOLS, Comparison, as_frame, fingerprint, prepare, read_results
from lmgp.experiments.datasets import Dataset
from lmgp.experiments.figure_4 import PAPER_METHODS, published, settings_for, settings_of_models
from lmgp.metrics import kl_divergence
from lmgp.selection.methods import EXACT, METHODS
from tests.experiments.conftest import ROWS, made_of_paper, with_made_data, without_data

pytestmark = [pytest.mark.usefixtures("folder"), pytest.mark.slow]
QUICK = ["reproduce", "--quick", "--out", "out"]
N_CELLS = 1 + 2 * (6 + 3 * 3)  # of --quick: the reference, and two sizes of six global and of three local models
N_BESIDE = {"yacht": 2, "uk_flats_2020-12": 3}  # other models; one is for up to three columns
FLATS, YACHT = "uk_flats_2020-12", "yacht"
LABELS = {METHODS[name].label: name for name in METHODS} | {"exact GP": EXACT}


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def text_of(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files without the figures; that the same figure gives the same bytes is tested with the page."""
    return {
        name: re.sub(rb"base64,[^\"]+|min-width:\d+px", b"", content)
        for name, content in files.items()
        if not name.endswith((".png", ".pdf"))
    }


def kept(out: Path, name: str) -> pd.DataFrame:
    return read_results(out / "cells" / name / "results.csv")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def headings(out: Path) -> list[str]:
    return re.findall(r"<h2 id=\"(.+?)\">", (out / "report.html").read_text())


@dataclass(frozen=True)
class Whole:
    """A working folder with all that the quick command made in "out", and what it printed."""

    folder: Path
    out: str
    err: str


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The whole quick reproduction, of yacht and a set of flats; tests only read it."""
    printed, told = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(told):
        folder = without_data(tmp_path_factory.mktemp("whole"), patch)
        with_made_data(patch)
        assert main(QUICK) == 0
    return Whole(folder, printed.getvalue(), told.getvalue())


def failing(monkeypatch: pytest.MonkeyPatch, name: str, sizes: tuple[int, ...]) -> None:
    """Let the models of some sizes of a method not be made."""
    make = METHODS[name].make

    def unlucky(n_features: int, *rest: Any) -> Any:
        if n_features in sizes:
            raise InputError("no <map> & no luck")
        return make(n_features, *rest)

    monkeypatch.setitem(METHODS, name, replace(METHODS[name], make=unlucky))


# --------------------------------------------------------------------------------------------------------- what is made


def test_everything_is_made_once(
    whole: Whole, folder: Path, here: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert whole.out == "out/report.html\n"
    assert whole.err.count("left out:") == 1
    assert "lmgp: left out: kin8nm is missing\n" in whole.err.replace("\r", "\n")
    copytree(whole.folder / "out", folder / "out")
    figures = ["figure-1-kernel", "figure-2-sinc", "figure-3-uk-map", "figure-4-clusters", "figure-4-features"]
    assert headings(folder / "out") == ["verdict", "how", *figures, "figure-4-cells", "models"]
    files = contents(folder / "out")
    tables = [*figures, "figure-2-sinc-prior", "figure-3-uk-map-grid", "figure-4-lengthscales"]
    tables += ["figure-4-summary", "figure-4-cells", "models"]
    made_files = {f"{name}.{form}" for name in figures for form in ("png", "pdf")} | {f"{name}.csv" for name in tables}
    assert {name for name in files if not name.startswith("cells")} == {"report.html", *made_files}
    report = files["report.html"].decode()
    for name in tables:
        assert f"<code>{name}.csv</code>" in report
        assert b"np." not in files[f"{name}.csv"]
    assert "Left out: kin8nm is missing" in report
    assert "uk_flats_2020-12: 1 seed(s), thresholds 1, 2, 16, features 32, 128." in report
    assert "OS data" in report or "Crown copyright" in report
    for name in here:
        assert len(kept(folder / "out", name)) == N_CELLS + N_BESIDE[name]

    def measured(*arguments: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(compare_module, "Bench", measured)
    monkeypatch.setattr(figure_3, "_predict", measured)
    assert main(QUICK) == 0
    told = capsys.readouterr().err
    assert f"yacht: {N_CELLS} of {N_CELLS} cells are read back" in told
    assert "yacht: 3 of 3 cells are read back" in told
    assert text_of(contents(folder / "out")) == text_of(files)


def cell_of(cells: pd.DataFrame, method: str, n_features: int, threshold: str) -> Any:
    """The one cell of a table of results or published cells; None where there is none."""
    same = cells.threshold == float(threshold) if threshold else cells.threshold.isna()
    found = cells[(cells.method == method) & (cells.n_features == n_features) & same]
    return next(found.itertuples(), None)


def test_the_tables_hold_what_was_measured_beside_what_was_published(whole: Whole) -> None:
    out = whole.folder / "out"
    table = read(out / "figure-4-cells.csv")
    assert len(table) == 2 * (N_CELLS - 1)
    labels = {METHODS[name].label: name for name in METHODS}
    n_compared = 0
    for line in table:
        cell = labels[line["model"]], int(line["D"]), line["threshold"]
        ours = cell_of(kept(out, line["data set"]), *cell)
        assert (float(line["KL/row"]), float(line["KL sum"])) == (ours.kl, ours.kl_sum)
        known = cell_of(published(line["data set"]), *cell)
        if known is None:
            assert line["KL ratio"] == line["KL/row published"] == ""
            continue
        n_compared += 1
        assert float(line["KL/row published"]) == pytest.approx(known.kl_sum / known.n_test, rel=1e-12)
        assert float(line["KL ratio"]) == pytest.approx(ours.kl / (known.kl_sum / known.n_test), rel=1e-12)
        assert float(line["RMSE ratio"]) == pytest.approx(ours.rmse / known.rmse, rel=1e-12)
    assert n_compared == 2 * (4 + 2 * 3) + 2 * (2 + 2 * 3)
    # In the order of the list of sets, not that of their sizes.
    assert list(dict.fromkeys(line["data set"] for line in table)) == ["uk_flats_2020-12", "yacht"]
    report = (out / "report.html").read_text()
    assert report.count("figure-4-cells.csv") == 1
    remarks = {line["remark"] for line in table} - {""}
    assert len(remarks) > 1
    assert {remark for remark in remarks if f"<p>{remark}: " in report} == remarks


def test_a_part_that_needs_no_data_needs_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: Any, **options: Any) -> None:
        raise AssertionError("data were asked for")

    monkeypatch.setattr(reproduce, "load_dataset", refused)
    assert main([*QUICK, "--only", "kernel"]) == 0
    assert headings(folder / "out") == ["figure-1-kernel"]
    assert main([*QUICK, "--only", "sinc", "kernel", "sinc", "--seeds", "2"]) == 0
    assert headings(folder / "out") == ["figure-1-kernel", "figure-2-sinc"]
    assert [line["seed"] for line in read(folder / "out" / "figure-2-sinc.csv")] == ["0", "1", "mean"]


@pytest.mark.parametrize("part", ["clusters", "features"])
def test_a_larger_request_measures_only_what_is_missing(part: str, folder: Path, here: list[str]) -> None:
    here[:] = ["yacht"]
    assert main([*QUICK, "--only", part, "--quiet"]) == 0
    first = kept(folder / "out", "yacht")
    assert len(first) == {"clusters": 1 + 6 + 3 * 3, "features": 1 + 2 * 9}[part]
    assert headings(folder / "out") == ["verdict", "how", f"figure-4-{part}", "figure-4-cells"]
    assert main([*QUICK, "--only", "clusters", "features", "--quiet"]) == 0
    pd.testing.assert_frame_equal(kept(folder / "out", "yacht")[: len(first)], first)
    assert len(kept(folder / "out", "yacht")) == N_CELLS


def test_converged_hyper_parameters_have_the_same_tables_without_ratios(folder: Path, here: list[str]) -> None:
    here[:] = ["yacht"]
    command = ["reproduce", "--quick", "--protocol", "converged", "--only", "clusters", "features", "--quiet"]
    assert main(command) == 0
    out = folder / "results" / "reproduction-converged"
    table = read(out / "figure-4-cells.csv")
    assert len(table) == N_CELLS - 1
    assert {line["KL ratio"] + line["KL sum published"] + line["RMSE ratio"] + line["remark"] for line in table} == {""}
    assert not (out / "figure-4-summary.csv").exists()
    report = (out / "report.html").read_text()
    assert "Protocol converged" in report
    assert 'class="marked"' not in report
    learned = float(read(out / "figure-4-lengthscales.csv")[0]["lengthscale"])
    assert learned == float(kept(out, "yacht").lengthscale[0]) != 0.8


def test_what_cannot_be_made_is_said_and_the_rest_is_made(
    folder: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here[:] = ["yacht"]

    failing(monkeypatch, "rff", (32,))
    failing(monkeypatch, "local_taylor", (32, 128))
    assert main([*QUICK, "--only", "clusters", "features", "--quiet"]) == 0
    report = (folder / "out" / "report.html").read_text()
    assert "Not made: seed 0, rff, D = 32: no &lt;map&gt; &amp; no luck" in report
    assert report.count("Not made:") == 1 + 2 * 3
    table = read(folder / "out" / "figure-4-cells.csv")
    assert len(table) == N_CELLS - 1 - 1 - 6
    assert METHODS["local_taylor"].label not in {line["model"] for line in table}


@pytest.mark.parametrize(
    ("options", "seeds", "n_thresholds", "sizes"),
    [
        (["--full"], {"yacht": 10, "kin8nm": 10, "uk_flats": 10}, (8, 8, 8), (6, 6, 8)),
        ([], {"yacht": 10, "kin8nm": 2, "uk_flats": 2}, (8, 5, 5), (6, 6, 8)),
        (["--seeds", "3"], {"yacht": 3, "kin8nm": 3, "uk_flats": 3}, (8, 5, 5), (6, 6, 8)),
        (["--quick", "--seeds", "2"], {"yacht": 2, "kin8nm": 2, "uk_flats": 2}, (3, 3, 3), (2, 2, 2)),
    ],
)
def test_the_options_say_how_much_is_run(
    options: list[str],
    seeds: dict[str, int],
    n_thresholds: tuple[int, ...],
    sizes: tuple[int, ...],
    here: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here[:] = ["yacht", "kin8nm", "uk_flats", "uk_flats_2020-12"]
    asked = []

    def compare(dataset: Dataset, settings: Any, out: Path, *, quiet: bool) -> Any:
        assert not quiet
        asked.append((dataset.name, settings))
        if len(asked) == 3:
            raise InputError("enough")
        return Comparison(dataset, settings, as_frame([]), {})

    for section in ("verdict_section", "cells_section", "clusters_section", "features_section"):
        monkeypatch.setattr(reproduce, section, lambda comparisons: None)
    monkeypatch.setattr(page, "save", lambda *_, **__: None)
    monkeypatch.setattr(reproduce, "compare", compare)
    assert main(["reproduce", "--only", "clusters", "features", *options]) == 2
    assert capsys.readouterr().err == "lmgp: error: enough\n"
    # The smallest set first; of the sets of flats the paper's own.
    assert [name for name, _ in asked] == ["yacht", "uk_flats", "kin8nm"]
    found = dict(asked)
    for (name, count), thresholds, n_sizes in zip(seeds.items(), n_thresholds, sizes, strict=True):
        assert found[name].seeds == count
        assert (len(found[name].thresholds), len(found[name].n_features)) == (thresholds, n_sizes)


# -------------------------------------------------------------------------------------------------------- interruptions


def test_an_interrupted_command_resumes(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here[:] = ["yacht", "kin8nm"]
    command, n_cells = [*QUICK, "--only", "clusters"], 1 + 6 + 3 * 3
    assert main([*QUICK, "--only", "clusters", "--out", "whole", "--quiet"]) == 0
    append, appended, stops = compare_module.append_result, list[Any](), [7, n_cells]

    def interrupted(path: Path, row: dict[str, Any]) -> None:
        if stops and len(appended) == stops[0]:
            del stops[0]
            raise KeyboardInterrupt
        append(path, row)
        appended.append((row["dataset"], row["method"], row["n_features"], row["threshold"]))

    capsys.readouterr()
    monkeypatch.setattr(compare_module, "append_result", interrupted)
    for said in (
        f"yacht: kept are 7 of {n_cells} cells in out/cells/yacht/results.csv; the same command resumes",
        "kin8nm: nothing was finished, and the same command begins anew",
    ):
        assert main(command) == 130
        told = capsys.readouterr().err.replace("\r", "\n").splitlines()[-1]
        assert told == f"lmgp: interrupted: {said}"
        assert "Not finished: " in (folder / "out" / "report.html").read_text()
    assert main(command) == 0
    assert len(set(appended)) == len(appended) == 2 * n_cells
    assert "Not finished" not in (folder / "out" / "report.html").read_text()
    for table in ("figure-4-cells", "figure-4-summary"):
        got, wanted = (pd.read_csv(folder / out / f"{table}.csv") for out in ("out", "whole"))
        pd.testing.assert_frame_equal(got, wanted)


def test_a_map_that_is_interrupted_resumes(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    predict, calls = figure_3._predict, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return predict(*arguments)

    monkeypatch.setattr(figure_3, "_predict", interrupted)
    assert main([*QUICK, "--only", "uk-map"]) == 130
    assert main([*QUICK, "--only", "uk-map"]) == 0
    assert len(calls) == 3 + 3
    assert headings(folder / "out") == ["figure-3-uk-map"]


# --------------------------------------------------------------------------------------------------------- missing data


def test_missing_sets_are_left_out_with_a_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--only", "kernel", "uk-map", "clusters"]) == 0
    err = capsys.readouterr().err
    reasons = re.findall(r"^lmgp: left out: (.+)$", err, flags=re.MULTILINE)
    *sets, part = reasons
    assert {re.findall(r"'([a-z0-9_-]+)'", reason)[0] for reason in sets} == set(ROWS)
    assert "uk_flats.csv.gz" in sets[0]
    assert "--data-dir" in sets[0]
    assert part.startswith("Figure 3")
    report = (folder / "out" / "report.html").read_text()
    assert report.count("Left out:") == len(reasons)
    assert "Left out: &#39;yacht&#39; could not be downloaded" in report
    assert headings(folder / "out") == ["figure-1-kernel"]


@pytest.mark.parametrize("flats", ["uk_flats", "uk_flats_2020-12"])
def test_one_set_of_flats_is_enough(
    flats: str, folder: Path, here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    here[:] = [flats]
    assert main([*QUICK, "--only", "uk-map"]) == 0
    assert "left out" not in capsys.readouterr().err
    report = (folder / "out" / "report.html").read_text()
    assert f"rows of {flats}, on 36 grid points" in report
    assert "Left out" not in report


def test_sets_asked_for_by_name_are_the_ones_that_are_run(folder: Path, here: list[str]) -> None:
    here[:] = list(ROWS)
    names = ["--datasets", "kin8nm", "yacht", "kin8nm"]
    assert main([*QUICK, "--only", "clusters", *names, "--quiet"]) == 0
    assert sorted(os.listdir(folder / "out" / "cells")) == ["kin8nm", "yacht"]


# ----------------------------------------------------------------------------------------------------- the other models


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("effort", "size"), [("quick", 128), ("default", 512), ("full", 512)])
def test_the_rows_and_the_size_of_other_models_are_those_of_figure_4(effort: Any, size: int) -> None:
    paper = PROTOCOLS["paper"]
    for name, wanted in ((FLATS, ("nearest_rows", "residual", "spectral")), (YACHT, ("nearest_rows", "residual"))):
        settings = settings_of_models(made_of_paper(name), paper, effort)
        figure_4 = settings_for(name, paper, effort, seeds=None, clusters=True, features=True)
        assert settings.methods == wanted
        assert (settings.n_features, settings.seeds) == ((size,), 1)
        # Of one fingerprint, so that the exact GP is kept once.
        assert fingerprint(made_of_paper(name), settings) == fingerprint(made_of_paper(name), figure_4)


@pytest.mark.usefixtures("here")
def test_the_table_has_divergence_error_and_seconds(whole: Whole) -> None:
    out = whole.folder / "out"
    table = read(out / "models.csv")
    assert [(line["data set"], LABELS.get(line["model"])) for line in table if "paper" not in line["model"]] == [
        *((FLATS, name) for name in (EXACT, "spectral", "nearest_rows", "residual")),
        *((YACHT, name) for name in (EXACT, "nearest_rows", "residual")),
    ]
    for line in table:
        if "paper" not in line["model"]:
            assert float(line["fit s"]) > 0.0
            assert float(line["predict s"]) > 0.0
    # The model of the paper is the nearest at this size, of the cells of Figure 4.
    for name in (FLATS, YACHT):
        (of_paper,) = (line for line in table if line["data set"] == name and "paper" in line["model"])
        every = [
            row
            for row in read(out / "figure-4-cells.csv")
            if row["data set"] == name and LABELS[row["model"]] in PAPER_METHODS
        ]
        nearest = min((row for row in every if row["D"] == "128"), key=lambda row: float(row["KL/row"]))
        assert of_paper["model"] == f"{nearest['model']} (of the paper)"
        for column in ("D", "threshold", "KL/row", "RMSE"):
            assert of_paper[column] == nearest[column]
    # The numbers are those of the model on the same rows.
    dataset = made_of_paper(FLATS)
    settings = settings_of_models(dataset, PROTOCOLS["paper"], "quick")
    data, kernel, predictions = prepare(dataset, settings, 0), GaussianKernel(0.8, 1.5), []
    for model in (NearestNeighborsGPRegressor(128, kernel=kernel, noise_variance=0.02), ExactGPRegressor(kernel, 0.02)):
        mean, std = model.fit(data.X_train, data.y_train).predict(data.X_test, return_std=True, include_noise=True)
        predictions += [mean, std**2]
    (line,) = (one for one in table if one["data set"] == FLATS and one["model"] == "nearest rows")
    assert float(line["KL/row"]) == pytest.approx(kl_divergence(*predictions).mean(), abs=1e-12)
    assert float(line["RMSE"]) == pytest.approx(np.sqrt(np.mean((data.y_test - predictions[0]) ** 2)))
    report = (out / "report.html").read_text()
    assert "yacht: method spectral serves up to 3 input columns, and there are 6." in report
    assert f"{FLATS}: method spectral" not in report


@pytest.mark.usefixtures("here")
def test_other_models_alone_and_with_a_cell_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        failing(patch, "residual", (128,))
        assert main([*QUICK, "--only", "models", "--datasets", YACHT]) == 0
    assert [LABELS[line["model"]] for line in read(Path("out/models.csv"))] == [EXACT, "nearest_rows"]
    report = Path("out", "report.html").read_text()
    assert "Not made: yacht, seed 0, residual, D = 128: no &lt;map&gt;" in report
    assert "Not finished" not in report
    assert main([*QUICK, "--only", "models", "--datasets", YACHT]) == 0
    assert [LABELS[line["model"]] for line in read(Path("out/models.csv"))] == [EXACT, "nearest_rows", "residual"]


@pytest.mark.usefixtures("here")
def test_interrupted_before_the_other_models_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [*QUICK, "--only", "clusters", "models", "--datasets", YACHT]
    compare = reproduce.compare

    def interrupted(dataset: Dataset, settings: Any, *arguments: Any, **options: Any) -> Any:
        if "residual" in settings.methods:
            raise KeyboardInterrupt
        return compare(dataset, settings, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(reproduce, "compare", interrupted)
        assert main(command) == 130
    assert "Not finished: yacht to come" in Path("out", "report.html").read_text()
    assert main(command) == 0
    assert "Not finished" not in Path("out", "report.html").read_text()


# ------------------------------------------------------------------------------------------------------------ refusals


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
OF_YACHT = ["--only", "clusters", "--datasets", "yacht"]
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
    "out below a file, with cells": (lambda path: [*OF_YACHT, "--out", write(path / "taken", "") + "/deep"], "taken"),
    "report is a folder": (
        lambda path: ["--only", "kernel", "--out", write(path / "out/report.html/x", "").partition("/report")[0]],
        "report.html",
    ),
    "a damaged line": (
        lambda path: [*OF_YACHT, *(["--out", "out"] if write(path / RESULTS, ",".join(COLUMNS) + "\na,b\n") else [])],
        "Line 2",
    ),
    "results of something else": (
        lambda path: [*OF_YACHT, *(["--out", "out"] if write(path / RESULTS, "mine\n1\n") else [])],
        "not a results file",
    ),
    "a named set is missing": (lambda path: ["--only", "uk-map", "--datasets", "uk_flats_2020-12"], "--data-dir"),
    "a named set of several is missing": (lambda path: ["--datasets", "uk_flats", "yacht"], "uk_flats.csv.gz"),
    "a named set cannot be downloaded": (lambda path: ["--datasets", "kin8nm"], "could not be downloaded"),
    "no data folder, with a name": (lambda path: [*OF_YACHT, "--data-dir", "nowhere"], "'nowhere'"),
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
    write(folder / "out/cells/kin8nm/results.csv", ",".join(COLUMNS) + "\na,b\n")
    monkeypatch.setattr(compare_module.Bench, "measure", measured)
    before = contents(folder)
    assert main(QUICK) == 2
    assert "kin8nm" in capsys.readouterr().err
    assert contents(folder) == before
