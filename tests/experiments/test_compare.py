"""A comparison: the numbers of its cells, what is kept and resumed, and what is refused."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm

from lmgp import ExactGPRegressor, GaussianKernel, SpectralGPRegressor, load_dataset
from lmgp.errors import InputError, MemoryLimitError
from lmgp.experiments import compare as module
from lmgp.experiments.compare import (
    COLUMNS,
    CONVERGED,
    DEFAULT_METHODS,
    LEARNED,
    MEAN_ERROR,
    PAPER,
    PROTOCOLS,
    Comparison,
    ComparisonCell,
    ComparisonSettings,
    append_result,
    as_frame,
    check,
    check_writable,
    compare,
    fit_exact,
    iterates,
    learned_path,
    prepare,
    read_learned,
    read_results,
    results_path,
)
from lmgp.experiments.datasets import Dataset
from lmgp.experiments.report import table
from lmgp.selection.methods import EXACT, METHODS
from lmgp.selection.record import Selection
from lmgp.utils.memory import is_out_of_memory
from tests.experiments.conftest import made_row

Make = Callable[..., Dataset]
LENGTHSCALE, VARIANCE, NOISE = 0.8, 1.5, 0.02  # of `fixed`
TIMES = ["fit_seconds", "predict_seconds"]


def assert_same(rows: pd.DataFrame, others: pd.DataFrame) -> None:
    """But for the seconds."""
    pd.testing.assert_frame_equal(
        rows.drop(columns=TIMES).reset_index(drop=True), others.drop(columns=TIMES).reset_index(drop=True)
    )


def row_of(rows: pd.DataFrame, method: str, n_features: float | None = None) -> Any:
    (row,) = rows[(rows.method == method) & ((n_features is None) | (rows.n_features == n_features))].itertuples()
    return row


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, interrupt_at: int | None = None) -> list[Any]:
    """Note each call of a function, and interrupt the process at one of them."""
    calls: list[Any] = []
    function, numbers = getattr(owner, name), count()

    def noted(*arguments: Any, **options: Any) -> Any:
        if next(numbers) == interrupt_at:
            raise KeyboardInterrupt
        calls.append(arguments)
        return function(*arguments, **options)

    monkeypatch.setattr(owner, name, noted)
    return calls


# ------------------------------------------------------------------------------------------------- the settings


def test_cells_cover_the_grid_and_only_local_methods_have_thresholds() -> None:
    methods = ("rff", "local_taylor", "spectral", "rff")
    settings = ComparisonSettings(methods=methods, n_features=(16, 8, 8), thresholds=(2.0, 0.5), seeds=1)
    of_sizes = [
        (
            ComparisonCell(0, "rff", size),
            ComparisonCell(0, "local_taylor", size, 0.5),
            ComparisonCell(0, "local_taylor", size, 2.0),
        )
        for size in (8, 16)
    ]
    assert list(settings.cells(0)) == [
        ComparisonCell(0, "exact"),
        ComparisonCell(0, "spectral"),
        *of_sizes[0],
        *of_sizes[1],
    ]
    assert str(ComparisonCell(2, "spectral")) == "seed 2, spectral"
    left_out = {"global_maclaurin_gaussian", "local_maclaurin_gaussian", "global_taylor_energy"}
    assert set(METHODS) - set(DEFAULT_METHODS) == left_out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ("rf",)}, "'rff'"),
        ({"n_features": (32, 1)}, "n_features must be at least 2; got 1"),
        ({"thresholds": (0.0,)}, "got 0"),
        ({"thresholds": (float("nan"),)}, "got nan"),
        ({"thresholds": (float("inf"),)}, "got inf"),
        ({"seeds": 0}, "seed"),
        ({"max_train_rows": 1}, "max_train_rows must be at least 2; got 1"),
        ({"max_test_rows": 0}, "max_test_rows must be at least 1; got 0"),
        ({"protocol": PAPER, "ard": True}, "lengthscale"),
    ],
)
def test_settings_that_cannot_be_used(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ComparisonSettings(**options)


def test_published_hyper_parameters_are_only_for_the_catalogue_s_own_inputs(make: Make) -> None:
    with pytest.raises(InputError, match="yacht, kin8nm, uk_flats, uk_flats_2020-12"):
        PAPER.published_for(load_dataset("sinc"))
    as_published = make(d=2, name="yacht")
    assert PAPER.published_for(as_published) == (0.318, 1650.0, 7.389, 200, False)
    for other in (replace(as_published, entry=None), replace(as_published, feature_names=("x1", "x0"))):
        with pytest.raises(InputError, match="'yacht' with inputs x"):
            PAPER.published_for(other)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_fits_and_follows_the_protocol(name: str, make: Make) -> None:
    data = make(n=30, d=2)
    for protocol in PROTOCOLS.values():
        model = METHODS[name].regressor(
            16,
            1.0 if METHODS[name].localized else None,
            allocation=protocol.allocation,
            random_state=3,
            kernel=GaussianKernel(1.0, 2.0),
            noise_variance=0.1,
            approximation=protocol.approximation,
        )
        assert np.isfinite(model.fit(data.X, data.y).predict(data.X, return_std=True)).all()
        parameters = model.get_params()
        assert parameters.get("approximation", "fitc") == (protocol.approximation if METHODS[name].mapped else "fitc")
        assert parameters.get("features__allocation", protocol.allocation) == protocol.allocation


# ------------------------------------------------------------------------------------------------------------ the rows


def test_inputs_are_standardised_on_the_training_part_unless_they_are_coordinates(make: Make) -> None:
    data = make(d=2)
    part = prepare(data, ComparisonSettings(), 0)
    np.testing.assert_allclose(part.X_train.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(part.X_train.std(axis=0), 1.0)
    assert np.all(np.abs(part.X_test.mean(axis=0)) > 1e-3)
    np.testing.assert_allclose(np.sort(np.r_[part.y_train, part.y_test]), np.sort(data.y))
    spatial = make(d=2, spatial=True)
    assert set(map(tuple, prepare(spatial, ComparisonSettings(), 0).X_test)) < set(map(tuple, spatial.X))
    # Other columns of the same set are no coordinates.
    other = replace(spatial, X=spatial.X[:, :1], feature_names=("x0",))
    np.testing.assert_allclose(prepare(other, ComparisonSettings(), 0).X_train.std(axis=0), 1.0)


def test_published_splits_are_used_in_the_converged_protocol_only(make: Make, fixed: ComparisonSettings) -> None:
    is_test = np.arange(60) % 3 == 0
    data = replace(make(), splits=(is_test, ~is_test))
    for seed, mask in enumerate(data.splits):
        np.testing.assert_array_equal(np.sort(prepare(data, ComparisonSettings(), seed).y_test), np.sort(data.y[mask]))
    random = [prepare(data, fixed, seed).y_test for seed in (0, 1)]
    assert len(random[0]) == len(random[1]) == 20
    assert set(random[0]) != set(random[1])


def test_caps_take_a_random_part_of_each_side(make: Make) -> None:
    data = make(n=100)
    whole = prepare(data, ComparisonSettings(max_train_rows=None, max_test_rows=None), 0)
    capped = prepare(data, ComparisonSettings(max_train_rows=20, max_test_rows=5), 0)
    assert (len(whole.y_train), len(whole.y_test), len(capped.y_train), len(capped.y_test)) == (90, 10, 20, 5)
    assert set(capped.y_train) < set(whole.y_train)
    assert set(capped.y_test) < set(whole.y_test)


# ----------------------------------------------------------------------------------------------------- the numbers


def test_the_numbers_of_a_cell_follow_from_the_definitions(
    dataset: Dataset, fixed: ComparisonSettings, tmp_path: Path
) -> None:
    """Dense algebra with the truncated series, written out for one input column."""
    rows = compare(dataset, replace(fixed, seeds=1), tmp_path, quiet=True).rows
    row, exact = row_of(rows, "global_taylor", 8), row_of(rows, EXACT)
    data = prepare(dataset, fixed, 0)
    X, Z = ((part[:, 0] - data.X_train.mean()) / LENGTHSCALE for part in (data.X_train, data.X_test))
    y = data.y_train - data.y_train.mean()

    def gp(k: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        weights = np.linalg.solve(k(X, X) + NOISE * np.eye(len(X)), np.column_stack((y, k(X, Z))))
        reduction = np.einsum("ij,ij->j", k(X, Z), weights[:, 1:])
        return k(Z, X) @ weights[:, 0] + data.y_train.mean(), np.diag(k(Z, Z)) - reduction + NOISE

    def truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        product = a[:, None] * b
        series = sum(product**n / math.factorial(n) for n in range(8))
        return VARIANCE * np.exp(-0.5 * (a[:, None] ** 2 + b**2)) * series

    (m, v), (m_ref, v_ref) = gp(truncated), gp(lambda a, b: VARIANCE * np.exp(-0.5 * (a[:, None] - b) ** 2))
    kl = np.log(v_ref / v) / 2 + (v + (m - m_ref) ** 2) / (2 * v_ref) - 0.5
    reverse = np.log(v / v_ref) / 2 + (v_ref + (m - m_ref) ** 2) / (2 * v) - 0.5
    z = (data.y_test - m) / np.sqrt(v)
    crps = np.sqrt(v) * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert (row.n_train, row.n_test, row.n_inputs, row.n_features_out) == (40, 20, 1, 8)
    assert np.isnan(row.n_centroids)
    assert (row.kl, row.kl_sum) == pytest.approx((kl.mean(), kl.sum()), rel=1e-7)
    assert row.reverse_kl == pytest.approx(reverse.mean(), rel=1e-7)
    assert row.rmse == pytest.approx(np.sqrt(np.mean((data.y_test - m) ** 2)), rel=1e-9)
    assert row.nlpd == pytest.approx(-norm.logpdf(data.y_test, m, np.sqrt(v)).mean(), rel=1e-9)
    assert row.coverage == np.mean(np.abs(z) <= norm.ppf(0.975))
    assert row.crps == pytest.approx(crps.mean(), rel=1e-9)
    assert exact.rmse == pytest.approx(np.sqrt(np.mean((data.y_test - m_ref) ** 2)), rel=1e-9)
    assert exact.nlpd == pytest.approx(-norm.logpdf(data.y_test, m_ref, np.sqrt(v_ref)).mean(), rel=1e-9)
    assert (exact.lengthscale, exact.variance, exact.noise_variance) == (str(LENGTHSCALE), VARIANCE, NOISE)


def test_nearest_rows_have_as_many_rows_as_maps_have_columns(
    make: Make, fixed: ComparisonSettings, tmp_path: Path
) -> None:
    """Dense algebra on the 8 nearest rows of each test row."""
    settings = replace(fixed, methods=("nearest_rows",), seeds=1)
    dataset = make(d=5)
    row = row_of(compare(dataset, settings, tmp_path, quiet=True).rows, "nearest_rows", 8)
    data = prepare(dataset, settings, 0)
    kernel, centre = GaussianKernel(LENGTHSCALE, VARIANCE), data.y_train.mean()

    def gp(of: np.ndarray, x: np.ndarray) -> tuple[float, float]:
        X, y = data.X_train[of], data.y_train[of] - centre
        to_row = kernel(X, x[None])[:, 0]
        weights = np.linalg.solve(kernel(X) + NOISE * np.eye(len(X)), to_row)
        return centre + weights @ y, VARIANCE - weights @ to_row + NOISE

    divergences, errors = [], []
    for x, y in zip(data.X_test, data.y_test, strict=True):
        near = np.argsort(np.linalg.norm(data.X_train - x, axis=1))[:8]
        (m, v), (m_ref, v_ref) = gp(near, x), gp(np.arange(len(data.y_train)), x)
        divergences.append(np.log(v_ref / v) / 2 + (v + (m - m_ref) ** 2) / (2 * v_ref) - 0.5)
        errors.append((y - m) ** 2)
    assert row.kl == pytest.approx(np.mean(divergences), rel=1e-7)
    assert row.rmse == pytest.approx(np.sqrt(np.mean(errors)), rel=1e-9)
    assert row.n_features_out == 8


def test_sizes_in_comparable_terms(make: Make, fixed: ComparisonSettings, tmp_path: Path) -> None:
    methods = ("nystroem", "nearest_rows", "residual", "spectral")
    settings = replace(fixed, methods=methods, n_features=(8, 64), seeds=1)
    rows = compare(make(d=2), settings, tmp_path, quiet=True).rows
    for method in methods[:3]:  # there are 40 training rows
        assert [row_of(rows, method, size).n_features_out for size in (8, 64)] == [8, 40]
    assert all(row_of(rows, method, 64).kl < 1e-8 for method in ("nearest_rows", "residual"))
    assert row_of(rows, "residual", 8).kl < row_of(rows, "nystroem", 8).kl
    spectral, data = row_of(rows, "spectral"), prepare(make(d=2), settings, 0)
    model = SpectralGPRegressor(kernel=GaussianKernel(LENGTHSCALE, VARIANCE), noise_variance=NOISE)
    assert spectral.n_features_out == model.fit(data.X_train, data.y_train).error_.n_modes
    assert 0.0 < spectral.kl < 1e-5


def test_what_auto_tried_is_kept_and_read_back(make: Make, fixed: ComparisonSettings, tmp_path: Path) -> None:
    settings = replace(fixed, methods=("auto",), n_features=(16, 64), seeds=2)
    rows = compare(make(d=2), settings, tmp_path, quiet=True).rows
    assert (rows.method == "auto").sum() == 4
    for row in rows[rows.method == "auto"].itertuples():
        selection = Selection.from_json(row.selection)
        assert all(trial.n_features <= row.n_features for trial in selection if trial.method != "exact")
        # The other targets of the split are new to it; a few rows make the two differ.
        assert 0.0 <= row.kl < 100 * max(selection.chosen.kl, selection.tolerance)
    assert set(rows.selection[rows.method != "auto"]) == {""}
    pd.testing.assert_frame_equal(compare(make(d=2), settings, tmp_path, quiet=True).rows, rows)


def test_converged_protocol_learns_and_paper_protocol_does_not(
    dataset: Dataset, fixed: ComparisonSettings, tmp_path: Path
) -> None:
    settings = ComparisonSettings(methods=("rff",), n_features=(8,), seeds=1)
    learned = row_of(compare(dataset, settings, tmp_path, quiet=True).rows, EXACT)
    given = row_of(compare(dataset, replace(fixed, seeds=1), tmp_path, quiet=True).rows, EXACT)
    assert learned.converged == 1.0
    assert np.isnan(given.converged)
    assert learned.noise_variance == pytest.approx(0.01, rel=0.6)


# ------------------------------------------------------------------------------------------------- keeping and resuming


def test_same_seeds_same_table(dataset: Dataset, fixed: ComparisonSettings, tmp_path: Path) -> None:
    first, second = (compare(dataset, fixed, tmp_path / out, quiet=True).rows for out in "ab")
    assert_same(first, second)
    cells = [cell for seed in (0, 1) for cell in fixed.cells(seed)]
    keys = first[["seed", "method", "n_features", "threshold"]].astype(object)
    assert [tuple(key) for key in keys.where(keys.notna(), None).to_numpy()] == cells
    assert first.kl.nunique() == len(cells) - 2
    pd.testing.assert_frame_equal(read_results(results_path(dataset, tmp_path / "a")), first)


@pytest.mark.parametrize("at", [0, 4, 7])
def test_an_interrupted_run_resumes(
    at: int, dataset: Dataset, fixed: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compare(dataset, fixed, tmp_path / "whole", quiet=True).rows
    path = results_path(dataset, tmp_path)
    kept = f"kept are {at} of 14 cells in " if at else "nothing was finished, and the same command begins anew"
    with monkeypatch.context() as patch:
        counted(patch, module.Bench, "measure", interrupt_at=at)
        with pytest.raises(KeyboardInterrupt, match=f"made: {kept}"):
            compare(dataset, fixed, tmp_path, quiet=True)
    measured = counted(monkeypatch, module.Bench, "measure")
    fits = counted(monkeypatch, ExactGPRegressor, "fit")
    resumed = compare(dataset, fixed, tmp_path, quiet=True).rows
    assert_same(resumed, whole)
    assert len(measured) == len(whole) - at
    assert len(fits) == (1 if at == 7 else 2)  # the reference of a finished seed is not fitted again
    pd.testing.assert_frame_equal(compare(dataset, fixed, tmp_path, quiet=True).rows, resumed)
    assert len(fits) == (1 if at == 7 else 2)
    assert len(read_results(path)) == len(whole)


def test_a_larger_grid_keeps_the_cells_it_has(
    dataset: Dataset, fixed: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = compare(dataset, replace(fixed, n_features=(8,)), tmp_path, quiet=True).rows
    measured = counted(monkeypatch, module.Bench, "measure")
    large = compare(dataset, fixed, tmp_path, quiet=True).rows
    assert {cell.n_features for _, cell in measured} == {16}
    pd.testing.assert_frame_equal(large[large.n_features != 16].reset_index(drop=True), small)


@pytest.mark.parametrize("changed", ["target", "input", "name of a column", "cap", "hyperparameters", "protocol"])
def test_changed_settings_are_never_mixed(
    changed: str, dataset: Dataset, fixed: ComparisonSettings, tmp_path: Path
) -> None:
    fixed = replace(fixed, methods=("rff",), n_features=(8,), seeds=1)
    old = compare(dataset, fixed, tmp_path, quiet=True).rows
    other_data, other = dataset, fixed
    if changed == "target":
        other_data = replace(dataset, y=np.where(np.arange(60) == 7, np.nextafter(dataset.y, 9.0), dataset.y))
    elif changed == "input":
        other_data = replace(dataset, X=dataset.X + 1e-12)
    elif changed == "name of a column":
        other_data = replace(dataset, target_name="price")
    elif changed == "cap":
        other = replace(fixed, max_train_rows=39)
    elif changed == "hyperparameters":
        published = {"made": fixed.protocol.published["made"]._replace(noise_variance=0.03)}
        other = replace(fixed, protocol=replace(fixed.protocol, published=published))
    else:
        other = replace(fixed, protocol=replace(fixed.protocol, approximation="dtc"))
    new = compare(other_data, other, tmp_path, quiet=True).rows
    assert set(new.settings).isdisjoint(old.settings)
    kept = read_results(results_path(dataset, tmp_path))
    pd.testing.assert_frame_equal(kept, pd.concat([old, new], ignore_index=True))
    pd.testing.assert_frame_equal(compare(dataset, fixed, tmp_path, quiet=True).rows, old)


def test_the_reference_of_equal_splits_is_fitted_once(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = counted(monkeypatch, ExactGPRegressor, "fit")
    data = replace(dataset, splits=(np.arange(60) % 3 == 0,))
    rows = compare(data, ComparisonSettings(methods=("rff",), n_features=(8,), seeds=2), tmp_path, quiet=True).rows
    assert len(fits) == 1
    assert rows.rmse[rows.method == EXACT].nunique() == 1
    assert rows.rmse[rows.method == "rff"].nunique() == 2  # another seed, another map


def test_a_cell_that_cannot_be_made_does_not_stop_the_others(
    dataset: Dataset, fixed: ComparisonSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(n_features: int, *rest: Any) -> object:
        if n_features == 8:
            raise InputError("too few")
        return METHODS["global_taylor"].make(n_features, *rest)

    monkeypatch.setitem(METHODS, "rff", replace(METHODS["rff"], make=refused))
    comparison = compare(dataset, replace(fixed, seeds=1), tmp_path, quiet=True)
    assert comparison.failures == {ComparisonCell(0, "rff", 8): "too few"}
    assert comparison.rows.method.tolist() == [
        cell.method for cell in fixed.cells(0) if cell[1:3] != ("rff", 8)
    ]  # fmt: skip


# ----------------------------------------------------------------------------------------------- the file of results


ROW = made_row(
    "rff", 8.0, dataset='a, "quoted" name', rmse=0.1 + 0.2, nlpd=-1e-300, coverage=1 / 3, crps=math.inf,
    fit_seconds=1e22, predict_seconds=5e-324, seed=0.0,
)  # fmt: skip


def test_rows_read_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "results.csv"
    assert read_results(path).empty
    assert list(tmp_path.iterdir()) == []
    rows = [ROW, made_row("exact", lengthscale="0.1 0.3333333333333333", converged=False)]
    for row in rows:
        append_result(path, row)
    pd.testing.assert_frame_equal(read_results(path), as_frame(rows))
    assert path.read_text().startswith(",".join(COLUMNS) + "\n")


@pytest.mark.parametrize("cut", [1, 30])
def test_a_torn_last_line_is_dropped_and_cut_off_before_the_next(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "results.csv"
    for seed in (0, 1):
        append_result(path, ROW | {"seed": seed})
    torn = path.read_bytes()[:-cut]
    path.write_bytes(torn)
    assert read_results(path).seed.tolist() == [0]
    assert path.read_bytes() == torn
    append_result(path, ROW | {"seed": 2})
    append_result(path, ROW | {"seed": 3})
    assert read_results(path).seed.tolist() == [0, 2, 3]


@pytest.mark.parametrize("start", ["", "sett"])
def test_a_file_killed_in_its_header_is_begun_anew(tmp_path: Path, start: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(start)
    append_result(path, ROW)
    assert len(read_results(path)) == 1


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe\x00binary", (",".join(COLUMNS) + ",more\n").encode()])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "results.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"results\.csv is not a results file"):
        read_results(path)
    assert path.read_bytes() == content


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    append_result(path, ROW)
    whole = path.read_text()
    path.write_text(whole + "abc,made,converged\n")
    with pytest.raises(InputError, match=rf"^Line 3 of .* has 3 fields, and {len(COLUMNS)} are expected\. Remove this"):
        read_results(path)
    path.write_text(whole.replace(",8.0,", ",eight,"))
    with pytest.raises(InputError, match=r"Line 2 of .* has 'eight' in the column n_features\. Remove this line"):
        read_results(path)


def test_checking_leaves_nothing_behind_and_changes_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    for path in (tmp_path / "file", tmp_path / "a" / "b", tmp_path / "other"):
        check_writable(path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "content"
    for path in (tmp_path / "file" / "results.csv", tmp_path):
        with pytest.raises(InputError, match="Cannot write"):
            check_writable(path)


# --------------------------------------------------------------------------------------------------------- the exact GP


def test_interrupted_again_and_again_a_comparison_advances(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ComparisonSettings(methods=("rff",), n_features=(8,), seeds=2)
    whole = compare(dataset, settings, tmp_path / "whole", quiet=True).rows
    fits = counted(monkeypatch, ExactGPRegressor, "fit")
    for at, kept in ((0, "made: kept are the hyperparameters of 1 seed"), (1, "made: kept are 2 of 4 cells in ")):
        with monkeypatch.context() as patch:
            counted(patch, ExactGPRegressor, "predict", interrupt_at=at)
            with pytest.raises(KeyboardInterrupt, match=kept):
                compare(dataset, settings, tmp_path / "part", quiet=True)
    rows = compare(dataset, settings, tmp_path / "part", quiet=True).rows
    # Each seed is learned once, though its prediction was interrupted.
    assert [model.kernel is None for model, *_ in fits] == [True, False, True, False]
    assert_same(rows, whole)
    # The time is that of learning, not of reading back.
    learned = read_learned(learned_path(dataset, tmp_path / "part"))
    assert rows.fit_seconds[rows.method == EXACT].tolist() == [entry["seconds"] for entry in learned.values()]


@pytest.mark.parametrize("ard", [False, True])
def test_hyper_parameters_read_back_to_the_last_digit(ard: bool, make: Make, tmp_path: Path) -> None:
    data, settings, said = make(d=2), ComparisonSettings(ard=ard), list[str]()
    rows = prepare(data, settings, 0)
    first, learned = fit_exact(data, settings, rows, 0, tmp_path, said.append)
    again, kept = fit_exact(data, settings, rows, 0, tmp_path, said.append)
    assert kept == learned
    np.testing.assert_array_equal(again.kernel_.lengthscale, first.kernel_.lengthscale)
    assert np.shape(again.kernel_.lengthscale) == ((2,) if ard else ())
    np.testing.assert_array_equal(again.predict(rows.X_test), first.predict(rows.X_test))
    assert said == [f"seed 0: {what} on 54 rows" for what in ("learning hyperparameters", "fitting")]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 3}', '{"a": {"x": {}}}', '{"a-0": {"lengthscale": 1.0}}'])
def test_a_damaged_file_of_hyper_parameters_counts_as_empty(
    content: str, dataset: Dataset, fixed: ComparisonSettings, tmp_path: Path
) -> None:
    path = learned_path(dataset, tmp_path)
    path.parent.mkdir()
    path.write_text(content)
    assert read_learned(path) == {}
    fit_exact(dataset, ComparisonSettings(), prepare(dataset, ComparisonSettings(), 3), 3, tmp_path)
    ((key, learned),) = read_learned(path).items()
    assert key.endswith("-3")
    assert tuple(learned) == LEARNED


def test_a_reference_that_does_not_fit_is_solved_by_iteration(
    make: Make,
    fixed: ComparisonSettings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    settings, dataset = replace(fixed, methods=("nearest_rows",), seeds=1), make(d=2)
    factorised = compare(dataset, settings, tmp_path / "factor", quiet=True)
    assert "by iteration" not in caplog.text + table(factorised)
    assert [iterates(16_385), iterates(16_384)] == [True, False]

    # Two matrices of 36 rows fit, and there are 40.
    monkeypatch.setitem(ExactGPRegressor.__init__.__kwdefaults__, "max_memory_gib", 2e-5)
    check(dataset, settings, tmp_path / "iterations")
    assert "40 training rows are too many for a Cholesky factor" in caplog.text
    assert f"to {MEAN_ERROR:g} predictive standard deviations" in caplog.text
    iterated = compare(dataset, settings, tmp_path / "iterations", quiet=True)
    assert "seed 0: the mean of the exact GP: " in caplog.text
    told = "mean by iteration, to 0.001 predictive s.d.; variance, approximate, from 256 nearest rows"
    assert told in table(iterated)
    exact, again = (row_of(comparison.rows, EXACT) for comparison in (factorised, iterated))
    assert again.rmse == pytest.approx(exact.rmse, rel=1e-3)
    assert again.rmse != exact.rmse


# ------------------------------------------------------------------------------------------------------------- refusals


def test_check_finds_what_would_stop_a_comparison_and_writes_nothing(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    check(make(), replace(ComparisonSettings(), max_train_rows=30), tmp_path / "out")
    assert "made: a random 30 of the 54 train rows are used (--max-train-rows)" in caplog.text
    assert "test rows" not in caplog.text
    # The only row with another target is a test row for one of the seeds.
    nearly_constant = replace(make(n=10), y=np.eye(10)[3])
    with pytest.raises(InputError, match="'y' of made is constant on the training rows of seed"):
        check(nearly_constant, ComparisonSettings(seeds=50), tmp_path / "out")
    with pytest.raises(InputError, match="hyperparameters"):
        check(make(), ComparisonSettings(PAPER), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("method", "fits"), [("rff", False), ("nystroem", True), ("auto", True), ("spectral", True)])
def test_two_matrices_of_all_columns_must_fit(method: str, fits: bool, dataset: Dataset, tmp_path: Path) -> None:
    """100,000 columns take 149 GiB; landmarks are at most the training rows; "auto" chooses, and modes have no size."""
    settings = ComparisonSettings(CONVERGED, methods=("nystroem", method), n_features=(32, 100_000), seeds=1)
    if fits:
        check(dataset, settings, tmp_path)
        return
    with pytest.raises(MemoryLimitError, match=r"^made: method rff with 100,000 .* takes 149\.0 GiB .* 16,384 fit\.$"):
        check(dataset, settings, tmp_path)


def test_the_error_of_an_allocator_is_told_from_others() -> None:
    with pytest.raises((RuntimeError, MemoryError)) as of_torch:
        torch.empty(2**59, dtype=torch.float64)
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(2**59)
    assert all(map(is_out_of_memory, (of_torch.value, of_numpy.value, MemoryLimitError("too large"))))
    assert not any(map(is_out_of_memory, (RuntimeError("shapes differ"), InputError("x"), OSError("out of memory"))))


@pytest.mark.parametrize("d", [3, 4])
def test_what_cannot_serve_the_columns_is_left_out_or_refused(
    d: int, make: Make, fixed: ComparisonSettings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    dataset, default = make(d=d), replace(fixed, methods=None, n_features=(8,), seeds=1)
    named = replace(default, methods=("nystroem", "spectral"))
    served, left_out = default.served(dataset)
    check(dataset, default, tmp_path)
    if d == 3:
        assert (served.methods, left_out) == (DEFAULT_METHODS, ())
        assert "left out" not in caplog.text
        assert named.served(dataset) == (named, ())
        return
    reason = "method spectral serves up to 3 input columns, and there are 4"
    assert served.methods == tuple(name for name in DEFAULT_METHODS if name != "spectral")
    assert left_out == (reason,)
    assert f"made: left out: {reason}" in caplog.text
    for refuse in (check, compare):
        with pytest.raises(InputError, match=f"^made: {reason}. Leave it out"):
            refuse(dataset, named, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    comparison: Comparison = compare(dataset, default, tmp_path, quiet=True)
    assert set(comparison.rows.method) == {EXACT, *DEFAULT_METHODS} - {"spectral"}
    assert table(comparison).endswith(f"\nleft out: {reason}\n")


def test_a_comparison_of_the_reference_alone(
    dataset: Dataset, fixed: ComparisonSettings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # measured, and read back
        assert len(compare(dataset, replace(fixed, methods=(), seeds=1), tmp_path).rows) == 1
    assert "Traceback" not in capfd.readouterr().err
