"""The global solve, the nearest rows and the residual model in a comparison, and a reference solved by iteration."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, SpectralGPRegressor
from lmgp.datasets import Dataset
from lmgp.errors import InputError
from lmgp.experiments import figures, runner
from lmgp.experiments.bench import Bench
from lmgp.experiments.protocol import DEFAULT_METHODS, Cell, Settings
from lmgp.experiments.reference import MEAN_ERROR, iterates
from lmgp.experiments.report import LEGEND, table
from lmgp.experiments.results import ResultsFile, Row
from lmgp.experiments.runner import Comparison, results_path
from lmgp.methods import EXACT, METHODS

Make = Callable[..., Dataset]
LENGTHSCALE, VARIANCE, NOISE = 0.8, 1.5, 0.02  # of `fixed`
ROWS = ("nystroem", "nearest_rows", "residual", "spectral")


@pytest.fixture
def settings(fixed: Settings) -> Settings:
    return replace(fixed, methods=ROWS, seeds=1)


def row_of(comparison: Comparison, method: str, n_features: int | None) -> Row:
    (row,) = (row for row in comparison.rows if row.cell == Cell(0, method, n_features))
    return row


# ----------------------------------------------------------------------------------------------------- what is measured


def test_nearest_rows_have_as_many_rows_as_maps_have_columns(make: Make, settings: Settings, tmp_path: Path) -> None:
    """Dense algebra on the 8 nearest rows of each test row against the row of the runner."""
    settings = replace(settings, methods=("nearest_rows",))
    dataset = make(d=5)
    row = row_of(runner.compare(dataset, settings, tmp_path, quiet=True), "nearest_rows", 8)
    data = runner.prepare(dataset, settings, 0)
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
    assert (row.n_features_out, row.n_centroids) == (8, None)


@pytest.mark.parametrize("together", [False, True])
def test_sizes_in_comparable_terms(together: bool, make: Make, settings: Settings, tmp_path: Path) -> None:
    settings = replace(settings, n_features=(8, 64))
    comparison = runner.compare(make(d=2), settings, tmp_path, together=together, quiet=True)
    # There are 40 training rows.
    for method in ("nystroem", "nearest_rows", "residual"):
        assert [row_of(comparison, method, size).n_features_out for size in (8, 64)] == [8, 40]
    assert all(row_of(comparison, method, 64).kl < 1e-8 for method in ("nearest_rows", "residual"))
    assert row_of(comparison, "residual", 8).kl < row_of(comparison, "nystroem", 8).kl
    (spectral,) = (row for row in comparison.rows if row.method == "spectral")
    assert spectral.cell == Cell(0, "spectral")
    data = runner.prepare(make(d=2), settings, 0)
    model = SpectralGPRegressor(kernel=GaussianKernel(LENGTHSCALE, VARIANCE), noise_variance=NOISE)
    assert spectral.n_features_out == model.fit(data.X_train, data.y_train).error_.n_modes
    assert 0.0 < spectral.kl < 1e-5
    assert all(row.fit_seconds is not None for row in comparison.rows if row.method in ("spectral", "nearest_rows"))


def test_work_is_estimated_without_a_size(make: Make, settings: Settings) -> None:
    data = make(d=2)
    bench = Bench(data, settings, "mark", runner.prepare(data, settings, 0))
    assert bench.work([Cell(0, "spectral")]) >= 0.0
    # Of each of 20 test rows, the matrix of its nearest rows; there are 40.
    assert bench.work([Cell(0, "nearest_rows", 8)]) == pytest.approx(20 * 8**3 / 3)
    assert bench.work([Cell(0, "nearest_rows", 64)]) == pytest.approx(20 * 40**3 / 3)


# ------------------------------------------------------------------------------------------- what cannot serve the data


@pytest.mark.parametrize("d", [3, 4])
def test_what_cannot_serve_the_columns_is_left_out_or_refused(
    d: int, make: Make, settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    dataset, default = make(d=d), replace(settings, methods=None)
    served, left_out = default.served(dataset)
    reason = f"method spectral serves up to 3 input columns, and there are {d}"
    runner.check(dataset, default, tmp_path)
    model = SpectralGPRegressor(kernel=GaussianKernel(1.0), noise_variance=0.1)
    if d == 3:
        assert (served.methods, left_out) == (DEFAULT_METHODS, ())
        assert "left out" not in caplog.text
        assert settings.served(dataset) == (settings, ())
        model.fit(dataset.X, dataset.y)  # the registry and the model agree
        return
    assert served.methods == tuple(name for name in DEFAULT_METHODS if name != "spectral")
    assert left_out == (reason,)
    assert f"made: left out: {reason}" in caplog.text
    for refuse in (runner.check, runner.compare):
        with pytest.raises(InputError, match=f"^made: {reason}. Leave it out"):
            refuse(dataset, settings, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="at most 3 columns"):
        model.fit(dataset.X, dataset.y)


def test_a_comparison_says_what_it_left_out(make: Make, settings: Settings, tmp_path: Path) -> None:
    default = replace(settings, methods=None, n_features=(8,))
    comparison = runner.compare(make(d=4), default, tmp_path, quiet=True)
    assert {row.method for row in comparison.rows} == {EXACT, *DEFAULT_METHODS} - {"spectral"}
    assert comparison.failures == {}
    assert table(comparison).endswith("\nleft out: method spectral serves up to 3 input columns, and there are 4\n")


# ------------------------------------------------------------------------------------------------------ earlier results


def test_results_from_before_are_read_back_and_the_rest_is_measured(
    make: Make, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, old_methods = make(d=2), tuple(name for name in DEFAULT_METHODS if name not in ROWS[1:])
    old = runner.compare(dataset, replace(settings, methods=old_methods), tmp_path, quiet=True)
    file = ResultsFile(results_path(dataset, tmp_path))
    # A row from when the global solve was measured at each size.
    sized = replace(row_of(old, "nystroem", 8), method="spectral")
    file.append(sized)
    made: list[tuple[str, int]] = []
    for name, method in list(METHODS.items()):

        def noted(n: int, *rest: Any, name: str = name, make: Callable[..., Any] = method.make) -> Any:
            made.append((name, n))
            return make(n, *rest)

        monkeypatch.setitem(METHODS, name, replace(method, make=noted))
    new = runner.compare(dataset, replace(settings, methods=None), tmp_path, quiet=True)
    assert sorted(name for name, _ in made) == ["nearest_rows", "nearest_rows", "residual", "residual", "spectral"]
    assert set(old.rows) < set(new.rows)
    assert sized not in new.rows
    assert ResultsFile(results_path(dataset, tmp_path)).rows[: len(old.rows) + 1] == (*old.rows, sized)
    made.clear()
    assert runner.compare(dataset, replace(settings, methods=None), tmp_path, quiet=True).rows == new.rows
    assert made == []


# ----------------------------------------------------------------------------------------------------- table and figure


@pytest.fixture
def comparison(make: Make, settings: Settings, tmp_path: Path) -> Comparison:
    return runner.compare(make(d=2), settings, tmp_path, quiet=True)


def test_the_table_has_a_group_without_a_size(comparison: Comparison) -> None:
    lines = table(comparison).splitlines()
    starts = [line.split()[0] for line in lines[lines.index("n_features = 8") :] if line[0] in "*nw "]
    assert starts.count("*") == 2
    assert starts[-2:] == ["without", "spectral"]
    (spectral,) = (line.split() for line in lines if line.startswith("  spectral"))
    row = row_of(comparison, "spectral", None)
    assert spectral[1:5] == ["-", str(row.n_features_out), "-", f"{row.kl:.3g}"]
    assert "of nearest_rows the rows that predict, of spectral the modes" in LEGEND
    alone = replace(comparison, rows=[row for row in comparison.rows if row.method in (EXACT, "spectral")])
    assert "  spectral" in table(alone)
    assert "note:" not in table(alone)
    far = replace(alone, rows=[replace(row, kl=7.5) if row.kl is not None else row for row in alone.rows])
    assert "note: even the nearest, spectral, is far from the exact GP, KL/row 7.5" in table(far)


def test_a_method_without_a_size_is_drawn_hollow_at_every_size(comparison: Comparison) -> None:
    fig = figures.figure(comparison)
    fourier, rows, errors = fig.axes
    assert [axes.get_title() for axes in (fourier, rows)] == ["Fourier", "training rows"]
    ((line, _, _),) = fourier.containers
    np.testing.assert_array_equal(line.get_xdata(), [8, 16])
    np.testing.assert_array_equal(line.get_ydata(), row_of(comparison, "spectral", None).kl)
    assert line.get_markerfacecolor() == "white"
    assert all(one.get_markerfacecolor() != "white" for one, _, _ in rows.containers)
    assert "Hollow: without n_features" in fig.get_suptitle()
    # Beside the errors at the largest size there is its own.
    labels = [label.get_text() for label in errors.get_yticklabels()]
    ((dot, _, _),) = (one for one, label in zip(errors.containers, labels, strict=True) if label == "Fourier modes")
    assert dot.get_xdata()[0] == row_of(comparison, "spectral", None).rmse
    assert dot.get_markerfacecolor() == "white"
    assert len(labels) == 4
    sized = replace(comparison, rows=[row for row in comparison.rows if row.method != "spectral"])
    assert "Hollow" not in figures.figure(sized).get_suptitle()


# --------------------------------------------------------------------------------------------- a reference by iteration


def test_a_reference_that_does_not_fit_is_solved_by_iteration(
    make: Make, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    settings = replace(settings, methods=("nearest_rows",))
    dataset = make(d=2)
    factorised = runner.compare(dataset, settings, tmp_path / "factor", quiet=True)
    assert "by iteration" not in caplog.text + table(factorised)
    assert iterates(16_385)
    assert not iterates(16_384)

    # Two matrices of 36 rows fit, and there are 40.
    monkeypatch.setitem(ExactGPRegressor.__init__.__kwdefaults__, "max_memory_gib", 2e-5)
    runner.check(dataset, settings, tmp_path / "iterations")
    assert "40 training rows are too many for a Cholesky factor" in caplog.text
    assert f"to {MEAN_ERROR:g} predictive standard deviations" in caplog.text
    iterated = runner.compare(dataset, settings, tmp_path / "iterations", quiet=True)
    assert "seed 0: the mean of the exact GP: " in caplog.text
    assert "mean by iteration, to 0.001 predictive s.d.; variance, approximate, from 256 nearest rows" in table(
        iterated
    )
    exact, again = (row_of(one, EXACT, None) for one in (factorised, iterated))
    assert again.rmse == pytest.approx(exact.rmse, rel=1e-3)
    assert again.rmse != exact.rmse
