"""Cells measured together: the groups, the same numbers as one by one, failures, resuming and progress.

The test on real data reads the folder in LMGP_DATA_DIR, and is reported as skipped without it.
"""

import os
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmgp
from lmgp.datasets import Dataset, load_dataset
from lmgp.errors import InputError
from lmgp.experiments import bench, runner
from lmgp.experiments.bench import share
from lmgp.experiments.protocol import DEFAULT_METHODS, PROTOCOLS, Cell, Settings
from lmgp.experiments.results import ResultsFile, Row
from lmgp.inference.local import PRUNE
from lmgp.methods import EXACT, METHODS

Make = Callable[..., Dataset]
PAPER, CONVERGED = PROTOCOLS["paper"], PROTOCOLS["converged"]
TIMES = ("fit_seconds", "predict_seconds")
needs_data = pytest.mark.skipif(
    not os.environ.get("LMGP_DATA_DIR"), reason="LMGP_DATA_DIR names no folder with the prepared data files"
)


def assert_same_rows(rows: list[Row], others: list[Row], rel: float = 1e-6) -> None:
    assert [row.cell for row in rows] == [row.cell for row in others]
    for row, other in zip(rows, others, strict=True):
        for column in fields(Row):
            value, wanted = getattr(row, column.name), getattr(other, column.name)
            if column.name in TIMES:
                assert value is not None or row.method != EXACT
            elif isinstance(wanted, float):
                # Divergences of 1e-9 and less are rounding.
                assert value == pytest.approx(wanted, rel=rel, abs=1e-9), (row.cell, column.name)
            else:
                assert value == wanted, (row.cell, column.name)


def results(dataset: Dataset, out: Path) -> list[Row]:
    return list(ResultsFile(runner.results_path(dataset, out)).rows)


def failing(monkeypatch: pytest.MonkeyPatch, method: str, n_features: int, error: BaseException) -> None:
    """Let the map of one size of a method not be made."""
    make = METHODS[method].make

    def refused(size: int, *rest: Any) -> Any:
        if size == n_features:
            raise error
        return make(size, *rest)

    monkeypatch.setitem(METHODS, method, replace(METHODS[method], make=refused))


# --------------------------------------------------------------------------------------------------------------- groups


GRID = Settings(
    CONVERGED,
    methods=("rff", "nystroem", "local_taylor", "local_maclaurin_rademacher", "random_maclaurin", "global_taylor"),
    n_features=(8, 16),
    thresholds=(1.0, 2.0),
    seeds=2,
)


def groups(settings: Settings, seed: int) -> list[list[tuple[str, int | None, float | None]]]:
    units = share([cell for s in range(settings.seeds) for cell in settings.cells(s)], settings.protocol)
    return [[cell[1:] for cell in unit] for unit in units if unit[0].seed == seed]


@pytest.mark.parametrize("seed", [0, 1])
def test_cells_that_share_a_map_or_nested_maps_are_one_group(seed: int) -> None:
    local = [(8, 1.0), (8, 2.0), (16, 1.0), (16, 2.0)]
    nested = [
        [(EXACT, None, None)],
        [("rff", 8, None), ("rff", 16, None)],
        [("global_taylor", 8, None), ("global_taylor", 16, None)],
        [("local_taylor", *sizes) for sizes in local],
    ]
    alone = [[(name, size, None)] for name in ("nystroem", "random_maclaurin") for size in (8, 16)]
    maclaurin = [("local_maclaurin_rademacher", *sizes) for sizes in local]
    converged = groups(GRID, seed)
    # Where columns are allocated for the centroids there is a map for each threshold; else one a size.
    assert sorted(map(str, converged)) == sorted(map(str, [*nested, *alone, *([cell] for cell in maclaurin)]))
    paper = groups(replace(GRID, protocol=PAPER), seed)
    assert sorted(map(str, paper)) == sorted(map(str, [*nested, *alone, maclaurin[:2], maclaurin[2:]]))
    assert converged[0] == paper[0] == [(EXACT, None, None)]


@pytest.mark.parametrize("protocol", [PAPER, CONVERGED])
def test_groups_have_each_cell_once_seed_by_seed(protocol: Any) -> None:
    settings = replace(GRID, protocol=protocol, methods=DEFAULT_METHODS)
    cells = [cell for seed in (0, 1) for cell in settings.cells(seed)]
    units = share(cells, protocol)
    flat = [cell for unit in units for cell in unit]
    assert sorted(map(str, flat)) == sorted(map(str, cells))
    assert [cell.seed for cell in flat] == sorted(cell.seed for cell in flat)
    assert all(len({(cell.seed, cell.method) for cell in unit}) == 1 for unit in units)
    assert share([], protocol) == []


def test_every_nested_method_has_maps_that_are_parts(make: Make) -> None:
    X = make(d=2).X
    for name in DEFAULT_METHODS:
        if METHODS[name].nested:
            small, large = (METHODS[name].make(size, "local", 3).fit(X) for size in (8, 32))
            assert small.columns_in(large) is not None, name


# ----------------------------------------------------------------------------------------------------- the same numbers


@pytest.mark.parametrize(("protocol", "d"), [("paper", 1), ("converged", 2), ("paper", 6)])
def test_cells_together_have_the_numbers_of_cells_alone(
    protocol: str, d: int, make: Make, fixed: Settings, tmp_path: Path
) -> None:
    settings = replace(
        fixed,
        protocol=fixed.protocol if protocol == "paper" else CONVERGED,
        methods=tuple(
            name for name in DEFAULT_METHODS if not METHODS[name].chooses and METHODS[name].refusal(d) is None
        ),
        n_features=(8, 30, 16),
        thresholds=(0.7, 2.5),
        seeds=2 if d == 1 else 1,
    )
    alone, together = (
        runner.compare(make(d=d), settings, tmp_path / str(shared), together=shared, quiet=True)
        for shared in (False, True)
    )
    assert alone.failures == together.failures == {}
    assert len(alone.rows) == settings.seeds * len(list(settings.cells(0)))
    assert_same_rows(together.rows, alone.rows)
    assert sorted(map(str, results(make(d=d), tmp_path / "True"))) == sorted(map(str, together.rows))
    assert {row.fit_seconds for row in together.rows if row.method == "rff"} == {None}


@pytest.mark.skipif("GPRegressor" not in lmgp.__all__, reason="there is no class yet that chooses")
def test_what_auto_tried_is_kept_and_read_back(make: Make, fixed: Settings, tmp_path: Path) -> None:
    from lmgp.selection.search import Selection

    settings = replace(fixed, methods=("auto",), n_features=(16, 64), seeds=2)
    rows = runner.compare(make(d=2), settings, tmp_path, quiet=True).rows
    auto = [row for row in rows if row.method == "auto"]
    assert len(auto) == 4
    for row in auto:
        selection = Selection.from_json(row.selection)
        assert len(selection) > 0
        assert all(trial.n_features <= row.n_features for trial in selection if trial.method != "exact")
        assert Selection.from_json(selection.to_json()) == selection
        # The other targets of the split are new to it; a few rows make the two differ.
        assert 0.0 <= row.kl < 100 * max(selection.chosen.kl, selection.tolerance)
    assert {row.selection for row in rows if row.method != "auto"} == {""}
    again = runner.compare(make(d=2), settings, tmp_path, quiet=True).rows
    assert again == rows


@needs_data
@pytest.mark.parametrize("protocol", [PAPER, CONVERGED])
def test_cells_of_yacht_together_have_the_numbers_of_cells_alone(protocol: Any, tmp_path: Path) -> None:
    settings = Settings(
        protocol,
        methods=("rff", "sorf", "local_maclaurin_tensor_srht", "local_taylor"),
        n_features=(28, 128),
        thresholds=(1.0, 4.0),
        seeds=1,
    )
    dataset = load_dataset("yacht")
    alone, together = (
        runner.compare(dataset, settings, tmp_path / str(shared), together=shared, quiet=True).rows
        for shared in (False, True)
    )
    assert len(alone) == 1 + 2 * 2 + 4 * 2
    # Reaches differ within the tolerance of pruning.
    assert_same_rows(together, alone, rel=2e-3)


# ------------------------------------------------------------------------------------------------ failures and resuming


@pytest.mark.parametrize("n_features", [8, 16])
@pytest.mark.parametrize("method", ["rff", "local_taylor", "local_maclaurin_rademacher"])
def test_a_cell_that_cannot_be_made_fails_alone(
    method: str, n_features: int, make: Make, fixed: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(fixed, methods=(method, "global_taylor"), thresholds=(1.0, 2.0), seeds=1)
    whole = runner.compare(make(), settings, tmp_path / "whole", together=True, quiet=True)
    failing(monkeypatch, method, n_features, InputError("too few"))
    comparison = runner.compare(make(), settings, tmp_path / "part", together=True, quiet=True)
    failed = [cell for cell in settings.cells(0) if cell[1:3] == (method, n_features)]
    assert comparison.failures == dict.fromkeys(failed, "too few")
    assert_same_rows(comparison.rows, [row for row in whole.rows if row.cell not in failed])
    assert len(results(make(), tmp_path / "part")) == len(comparison.rows)


def test_a_cell_that_cannot_be_scored_fails_alone(
    make: Make, fixed: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of its group is written twice."""
    settings = replace(fixed, methods=("rff",), n_features=(8, 16, 30), seeds=1)
    whole = runner.compare(make(), settings, tmp_path / "whole", together=True, quiet=True).rows
    bad = next(row.kl for row in whole if row.n_features == 30)
    divergence = bench.kl_divergence

    def refuse(*arguments: Any) -> Any:
        kl = divergence(*arguments)
        if float(np.mean(kl)) == pytest.approx(bad, rel=1e-6):
            raise InputError("mean_p must be finite")
        return kl

    monkeypatch.setattr(bench, "kl_divergence", refuse)
    comparison = runner.compare(make(), settings, tmp_path / "part", together=True, quiet=True)
    assert comparison.failures == {Cell(0, "rff", 30): "mean_p must be finite"}
    assert_same_rows(comparison.rows, whole[:-1])
    assert len(results(make(), tmp_path / "part")) == len(comparison.rows)


@pytest.mark.parametrize("at", [0, 1, 3, 6, 8, 11])
def test_a_run_that_is_killed_within_a_group_resumes_with_what_is_missing(
    at: int, make: Make, fixed: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(fixed, methods=("rff", "local_taylor"), n_features=(8, 16), thresholds=(1.0, 2.0), seeds=2)
    whole = runner.compare(make(), settings, tmp_path / "whole", together=True, quiet=True).rows
    append = ResultsFile.append
    appended: list[Cell] = []

    def killed(self: ResultsFile, row: Row) -> None:
        if len(appended) == at:
            raise KeyboardInterrupt
        append(self, row)
        appended.append(row.cell)

    with monkeypatch.context() as patch:
        patch.setattr(ResultsFile, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            runner.compare(make(), settings, tmp_path / "part", together=True, quiet=True)
    kept = results(make(), tmp_path / "part") if at else []
    assert len(kept) == at
    resumed = runner.compare(make(), settings, tmp_path / "part", together=True, quiet=True).rows
    assert_same_rows(resumed, whole)
    found = results(make(), tmp_path / "part")
    assert found[:at] == kept
    assert sorted(str(row.cell) for row in found) == sorted(str(row.cell) for row in whole)


def test_cells_alone_and_together_resume_each_other(make: Make, fixed: Settings, tmp_path: Path) -> None:
    small = runner.compare(make(), replace(fixed, n_features=(8,)), tmp_path, quiet=True).rows
    large = runner.compare(make(), fixed, tmp_path, together=True, quiet=True).rows
    assert [row for row in large if row in small] == small
    assert runner.compare(make(), fixed, tmp_path, quiet=True).rows == large
    assert len(results(make(), tmp_path)) == len(large)


def test_the_reference_and_the_clusterings_are_made_once_a_split(
    make: Make, fixed: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    covered, fitted = [], []
    cover, fit = bench.cover, runner.ExactGPRegressor.fit

    def counted(rows: Any, kernel: Any, threshold: float) -> Any:
        covered.append(threshold)
        return cover(rows, kernel, threshold)

    def counted_fit(self: Any, *arguments: Any) -> Any:
        fitted.append(self)
        return fit(self, *arguments)

    monkeypatch.setattr(bench, "cover", counted)
    monkeypatch.setattr(runner.ExactGPRegressor, "fit", counted_fit)
    methods = ("rff", "local_taylor", "local_maclaurin_rademacher", "local_maclaurin_tensor_srht")
    settings = replace(fixed, methods=methods, thresholds=(0.5, 1.0, 2.0), seeds=2)
    runner.compare(make(d=2), settings, tmp_path, together=True, quiet=True)
    assert sorted(covered) == [0.5, 0.5, 1.0, 1.0, 2.0, 2.0]
    assert len(fitted) == 2


def test_only_localized_models_leave_rows_out(
    make: Make, fixed: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pruned = []
    predict = bench.sweep.predict

    def noted(models: Any, *arguments: Any) -> Any:
        pruned.extend(model.prune for model in models)
        return predict(models, *arguments)

    monkeypatch.setattr(bench.sweep, "predict", noted)
    runner.compare(make(), replace(fixed, seeds=1), tmp_path, together=True, quiet=True)
    assert pruned == [0.0] * 4 + [PRUNE] * 2


# ------------------------------------------------------------------------------------------------------------- progress


def test_the_progress_shows_the_time_left_to_the_end(
    make: Make, fixed: Settings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where splits have different numbers of clusters."""
    settings = replace(fixed, methods=("local_taylor",), thresholds=(1.5,), seeds=6)
    rows = runner.compare(make(d=2), settings, tmp_path, together=True).rows
    counts = [row.n_centroids for row in rows if row.n_features == 8]
    assert counts[0] < max(counts) <= 20  # more is done than the first split lets expect
    last = capfd.readouterr().err.replace("\r", "\n").strip().splitlines()[-1]
    assert last.startswith("made: 100%|")
    assert re.search(r"<00:00, seed 5, local_taylor, D = 16, threshold = 1\.5\]", last)


@pytest.mark.parametrize("together", [True, False])
def test_the_progress_of_no_work_does_not_break(
    together: bool, make: Make, fixed: Settings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    nothing = replace(fixed, methods=(), seeds=1)
    assert len(runner.compare(make(), nothing, tmp_path, together=together).rows) == 1  # the reference
    assert len(runner.compare(make(), nothing, tmp_path, together=together).rows) == 1  # is there already
    assert "Traceback" not in capfd.readouterr().err


def test_work_grows_with_sizes_and_clusters(make: Make, fixed: Settings) -> None:
    dataset = make(d=2)
    rows = runner.prepare(dataset, fixed, 0)
    one = bench.Bench(dataset, fixed, "mark", rows)
    assert one.work([Cell(0, EXACT)]) == 0.0
    works = [one.work([Cell(0, "local_taylor", *sizes)]) for sizes in ((8, 2.0), (16, 2.0), (16, 0.5), (16, 1e-3))]
    assert works[0] < works[1] < works[2]
    assert 20 < len(one.centroids(0.5)) < len(one.centroids(1e-3))
    assert works[2] == works[3]  # a model for each test row at most
    assert one.work([Cell(0, "rff", 16), Cell(0, "rff", 8)]) == one.work([Cell(0, "rff", 16)]) > 0
