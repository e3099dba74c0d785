"""The whole reproduction through the command, on small made data in the place of the paper's sets."""

import csv
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from lmgp.cli import main
from lmgp.datasets import Dataset
from lmgp.errors import InputError
from lmgp.experiments import runner
from lmgp.experiments.paper import reproduce, uk_map
from lmgp.experiments.paper.published import published
from lmgp.experiments.results import ResultsFile, Row
from lmgp.experiments.runner import Comparison
from lmgp.methods import METHODS

pytestmark = pytest.mark.usefixtures("folder")
QUICK = ["reproduce", "--quick", "--out", "out"]
N_CELLS = 1 + 2 * (6 + 3 * 3)  # of --quick: the reference, and two sizes of six global and of three local models
N_BESIDE = {
    "yacht": 2,
    "kin8nm": 2,
    "uk_flats": 3,
    "uk_flats_2020-12": 3,
}  # other models; one is for up to three columns
SAVEFIG = Figure.savefig


ROWS = {"yacht": 60, "kin8nm": 90, "uk_flats": 80, "uk_flats_2020-12": 80}


def contents(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def text_of(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files without the figures; that the same figure gives the same bytes is tested with the page."""
    return {
        name: re.sub(rb"base64,[^\"]+|min-width:\d+px", b"", content)
        for name, content in files.items()
        if not name.endswith((".png", ".pdf"))
    }


def kept(out: Path, name: str) -> tuple[Row, ...]:
    return ResultsFile(out / "cells" / name / "results.csv").rows


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def headings(out: Path) -> list[str]:
    return re.findall(r"<h2 id=\"(.+?)\">", (out / "report.html").read_text())


# --------------------------------------------------------------------------------------------------------- what is made


def test_everything_is_made_once(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Figure, "savefig", SAVEFIG)
    assert main(QUICK) == 0
    printed = capsys.readouterr()
    assert printed.out == "out/report.html\n"
    assert printed.err.count("left out:") == 1
    assert "lmgp: left out: kin8nm is missing\n" in printed.err.replace("\r", "\n")
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

    monkeypatch.setattr(runner, "Bench", measured)
    monkeypatch.setattr(uk_map, "_predict", measured)
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(b"drawn"))
    assert main(QUICK) == 0
    told = capsys.readouterr().err
    assert f"yacht: {N_CELLS} of {N_CELLS} cells are read back" in told
    assert "yacht: 3 of 3 cells are read back" in told
    assert text_of(contents(folder / "out")) == text_of(files)


def test_the_tables_hold_what_was_measured_beside_what_was_published(folder: Path, here: list[str]) -> None:
    assert main([*QUICK, "--only", "clusters", "features", "--quiet"]) == 0
    table = read(folder / "out" / "figure-4-cells.csv")
    assert len(table) == 2 * (N_CELLS - 1)
    labels = {METHODS[name].label: name for name in METHODS}
    n_compared = 0
    for line in table:
        cell = labels[line["model"]], int(line["D"]), float(line["threshold"]) if line["threshold"] else None
        (ours,) = (row for row in kept(folder / "out", line["data set"]) if row.cell[1:] == cell)
        assert (float(line["KL/row"]), float(line["KL sum"])) == (ours.kl, ours.kl_sum)
        known = published(line["data set"]).get(cell)
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
    report = (folder / "out" / "report.html").read_text()
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
    assert kept(folder / "out", "yacht")[: len(first)] == first
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
    assert learned == kept(out, "yacht")[0].lengthscale[0] != 0.8


def test_what_cannot_be_made_is_said_and_the_rest_is_made(
    folder: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here[:] = ["yacht"]

    def failing(name: str, sizes: tuple[int, ...]) -> None:
        make = METHODS[name].make

        def unlucky(n_features: int, *rest: Any) -> Any:
            if n_features in sizes:
                raise InputError("no <map> & no luck")
            return make(n_features, *rest)

        monkeypatch.setitem(METHODS, name, replace(METHODS[name], make=unlucky))

    failing("rff", (32,))
    failing("local_taylor", (32, 128))
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

    def compare(dataset: Dataset, settings: Any, out: Path, *, together: bool, quiet: bool) -> Any:
        assert together
        assert not quiet
        asked.append((dataset.name, settings))
        if len(asked) == 3:
            raise InputError("enough")
        return Comparison(dataset, settings, [], {})

    monkeypatch.setattr(reproduce, "_figure_4", lambda *_, **__: [])
    monkeypatch.setattr(runner, "compare", compare)
    assert main(["reproduce", "--only", "clusters", "features", *options]) == 2
    assert capsys.readouterr().err == "lmgp: error: enough\n"
    # The smallest set first; of the sets of flats the paper's own.
    assert [name for name, _ in asked] == ["yacht", "uk_flats", "kin8nm"]
    found = dict(asked)
    for (name, count), thresholds, n_sizes in zip(seeds.items(), n_thresholds, sizes, strict=True):
        assert found[name].seeds == count
        assert (len(found[name].thresholds), len(found[name].n_features)) == (thresholds, n_sizes)


# -------------------------------------------------------------------------------------------------------- interruptions


@pytest.mark.parametrize("at", [7, N_CELLS])
def test_an_interrupted_command_resumes(
    at: int, folder: Path, here: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here[:] = ["yacht", "kin8nm"]
    command = [*QUICK, "--only", "clusters", "features"]
    assert main([*command[:-3], "--out", "whole", *command[-3:], "--quiet"]) == 0
    append, appended = ResultsFile.append, []

    def interrupted(self: ResultsFile, row: Row) -> None:
        if len(appended) == at:
            raise KeyboardInterrupt
        append(self, row)
        appended.append((row.dataset, row.cell))

    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr(ResultsFile, "append", interrupted)
        assert main(command) == 130
    told = capsys.readouterr().err.replace("\r", "\n").splitlines()[-1]
    n_kept = at % N_CELLS
    name = "yacht" if at < N_CELLS else "kin8nm"
    if n_kept:
        where = f"out/cells/{name}/results.csv; the same command resumes"
        assert told == f"lmgp: interrupted: {name}: kept are {n_kept} of {N_CELLS} cells in {where}"
    else:
        assert told == f"lmgp: interrupted: {name}: nothing was finished, and the same command begins anew"
    assert "Not finished: " in (folder / "out" / "report.html").read_text()
    first = list(appended)

    def noted(self: ResultsFile, row: Row) -> None:
        append(self, row)
        appended.append((row.dataset, row.cell))

    monkeypatch.setattr(ResultsFile, "append", noted)
    assert main(command) == 0
    assert appended[:at] == first
    assert len(set(appended)) == len(appended) == 2 * N_CELLS
    assert "Not finished" not in (folder / "out" / "report.html").read_text()
    for name in ("figure-4-cells", "figure-4-summary"):
        for got, wanted in zip(*(read(folder / out / f"{name}.csv") for out in ("out", "whole")), strict=True):
            for column, value in wanted.items():
                try:
                    assert float(got[column]) == pytest.approx(float(value), rel=1e-6, abs=1e-9)
                except ValueError:
                    assert got[column] == value


def test_a_map_that_is_interrupted_resumes(
    folder: Path, here: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    predict, calls = uk_map._predict, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return predict(*arguments)

    monkeypatch.setattr(uk_map, "_predict", interrupted)
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
    assert "Left out: &#x27;yacht&#x27; could not be downloaded" in report
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
