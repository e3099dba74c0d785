"""The models beside Figure 4: on its rows, with its hyper-parameters, and without a change of its numbers."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, NearestNeighborsGPRegressor
from lmgp.cli import main
from lmgp.datasets import Dataset
from lmgp.errors import InputError
from lmgp.experiments import runner
from lmgp.experiments.paper import cells, models, reproduce
from lmgp.experiments.paper.cells import PAPER_METHODS, Effort
from lmgp.experiments.protocol import PROTOCOLS
from lmgp.experiments.results import ResultsFile
from lmgp.methods import EXACT, METHODS
from lmgp.metrics import kl_divergence

pytestmark = pytest.mark.usefixtures("folder", "here")
QUICK = ["reproduce", "--quick", "--quiet", "--out", "out"]
FLATS, YACHT = "uk_flats_2020-12", "yacht"
LABELS = {METHODS[name].label: name for name in METHODS} | {"exact GP": EXACT}


def load(name: str) -> Dataset:
    return reproduce.load_dataset(name)


def read(name: str) -> list[dict[str, str]]:
    with Path("out", f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("effort", "size"), [("quick", 128), ("default", 512), ("full", 512)])
def test_the_rows_and_the_size_are_those_of_figure_4(effort: Effort, size: int) -> None:
    paper = PROTOCOLS["paper"]
    for name, wanted in ((FLATS, ("nearest_rows", "residual", "spectral")), (YACHT, ("nearest_rows", "residual"))):
        settings = models.settings_for(load(name), paper, effort)
        figure_4 = cells.settings_for(name, paper, effort, seeds=None, clusters=True, features=True)
        assert settings.methods == wanted
        assert (settings.n_features, settings.seeds) == ((size,), 1)
        # Of one fingerprint, so that the exact GP is kept once.
        assert runner.fingerprint(load(name), settings) == runner.fingerprint(load(name), figure_4)


def test_the_table_has_divergence_error_and_seconds() -> None:
    assert main([*QUICK, "--only", "clusters", "models"]) == 0
    table = read("models")
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
            row for row in read("figure-4-cells") if row["data set"] == name and LABELS[row["model"]] in PAPER_METHODS
        ]
        nearest = min((row for row in every if row["D"] == "128"), key=lambda row: float(row["KL/row"]))
        assert of_paper["model"] == f"{nearest['model']} (of the paper)"
        for column in ("D", "threshold", "KL/row", "RMSE"):
            assert of_paper[column] == nearest[column]
    # The numbers are those of the model on the same rows.
    dataset, settings = load(FLATS), models.settings_for(load(FLATS), PROTOCOLS["paper"], "quick")
    data, kernel, predictions = runner.prepare(dataset, settings, 0), GaussianKernel(0.8, 1.5), []
    for model in (NearestNeighborsGPRegressor(128, kernel=kernel, noise_variance=0.02), ExactGPRegressor(kernel, 0.02)):
        mean, std = model.fit(data.X_train, data.y_train).predict(data.X_test, return_std=True, include_noise=True)
        predictions += [mean, std**2]
    (line,) = (one for one in table if one["data set"] == FLATS and one["model"] == "nearest rows")
    assert float(line["KL/row"]) == pytest.approx(kl_divergence(*predictions).mean(), abs=1e-12)
    assert float(line["RMSE"]) == pytest.approx(np.sqrt(np.mean((data.y_test - predictions[0]) ** 2)))
    report = Path("out", "report.html").read_text()
    assert "yacht: method spectral serves up to 3 input columns, and there are 6." in report
    assert f"{FLATS}: method spectral" not in report


def test_figure_4_stays_as_it_is() -> None:
    assert main([*QUICK, "--only", "clusters", "features"]) == 0
    names = ("figure-4-cells", "figure-4-clusters", "figure-4-features", "figure-4-summary")
    before = [read(name) for name in names]
    kept = {name: ResultsFile(Path("out", "cells", name, "results.csv")).rows for name in (FLATS, YACHT)}
    assert main([*QUICK, "--only", "clusters", "features", "models"]) == 0
    assert [read(name) for name in names] == before
    for name, rows in kept.items():
        now = ResultsFile(Path("out", "cells", name, "results.csv")).rows
        assert now[: len(rows)] == rows
        assert {row.method for row in now[len(rows) :]} <= set(models.MODELS)


def test_alone_and_with_a_cell_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    make: Callable[..., Any] = METHODS["residual"].make

    def unlucky(n_features: int, *rest: Any) -> Any:
        raise InputError("no luck")

    monkeypatch.setitem(METHODS, "residual", replace(METHODS["residual"], make=unlucky))
    assert main([*QUICK, "--only", "models", "--datasets", YACHT]) == 0
    assert [LABELS[line["model"]] for line in read("models")] == [EXACT, "nearest_rows"]
    report = Path("out", "report.html").read_text()
    assert "Not made: yacht, seed 0, residual, D = 128: no luck" in report
    assert "Not finished" not in report
    monkeypatch.setitem(METHODS, "residual", replace(METHODS["residual"], make=make))
    assert main([*QUICK, "--only", "models", "--datasets", YACHT]) == 0
    assert [LABELS[line["model"]] for line in read("models")] == [EXACT, "nearest_rows", "residual"]


def test_interrupted_before_the_other_models_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    compare = runner.compare

    def interrupted(*arguments: Any, together: bool = False, **options: Any) -> Any:
        if not together:
            raise KeyboardInterrupt
        return compare(*arguments, together=together, **options)

    command = [*QUICK, "--only", "clusters", "models", "--datasets", YACHT]
    with monkeypatch.context() as patch:
        patch.setattr(runner, "compare", interrupted)
        assert main(command) == 130
    assert "Not finished: yacht to come" in Path("out", "report.html").read_text()
    assert main(command) == 0
    assert "Not finished" not in Path("out", "report.html").read_text()
