import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from lmgp.datasets import Dataset
from lmgp.errors import InputError
from lmgp.experiments import runner
from lmgp.experiments.protocol import PROTOCOLS, Cell, Settings
from lmgp.experiments.results import ResultsFile, Row
from lmgp.methods import EXACT, METHODS

Make = Callable[..., Dataset]


def timeless(rows: list[Row]) -> list[Row]:
    return [replace(row, fit_seconds=0.0, predict_seconds=0.0) for row in rows]


def count_maps(monkeypatch: pytest.MonkeyPatch, interrupt_at: int | None = None) -> list[tuple[int, str, int]]:
    """Note each map that is made, and interrupt the process when it comes to the given one."""
    made: list[tuple[int, str, int]] = []
    calls = count()
    for name, method in list(METHODS.items()):

        def noted(n: int, allocation: str, seed: int, name: str = name, make: Callable = method.make) -> object:
            if next(calls) == interrupt_at:
                raise KeyboardInterrupt
            made.append((seed, name, n))
            return make(n, allocation, seed)

        monkeypatch.setitem(METHODS, name, replace(method, make=noted))
    return made


def test_the_numbers_of_a_cell_follow_from_the_definitions(dataset: Dataset, fixed: Settings, tmp_path: Path) -> None:
    """Dense algebra with the truncated series, written out for one input column, against the row of the runner."""
    comparison = runner.compare(dataset, replace(fixed, seeds=1), tmp_path, quiet=True)
    row = next(row for row in comparison.rows if row.cell == Cell(0, "global_taylor", 8))
    exact = next(row for row in comparison.rows if row.method == EXACT)

    data = runner.prepare(dataset, fixed, 0)
    lengthscale, variance, noise = 0.8, 1.5, 0.02
    X, Z = ((part[:, 0] - data.X_train.mean()) / lengthscale for part in (data.X_train, data.X_test))
    y = data.y_train - data.y_train.mean()

    def gp(k: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        weights = np.linalg.solve(k(X, X) + noise * np.eye(len(X)), np.column_stack((y, k(X, Z))))
        reduction = np.einsum("ij,ij->j", k(X, Z), weights[:, 1:])
        return k(Z, X) @ weights[:, 0] + data.y_train.mean(), np.diag(k(Z, Z)) - reduction + noise

    def gaussian(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return variance * np.exp(-0.5 * (a[:, None] - b) ** 2)

    def truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        product = a[:, None] * b
        series = sum(product**n / math.factorial(n) for n in range(8))
        return variance * np.exp(-0.5 * (a[:, None] ** 2 + b**2)) * series

    (m, v), (m_ref, v_ref) = gp(truncated), gp(gaussian)
    kl = np.log(v_ref / v) / 2 + (v + (m - m_ref) ** 2) / (2 * v_ref) - 0.5
    reverse = np.log(v / v_ref) / 2 + (v_ref + (m - m_ref) ** 2) / (2 * v) - 0.5
    z = (data.y_test - m) / np.sqrt(v)
    crps = np.sqrt(v) * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert (row.n_train, row.n_test, row.n_inputs, row.n_features_out, row.n_centroids) == (40, 20, 1, 8, None)
    assert row.kl == pytest.approx(kl.mean(), rel=1e-7)
    assert row.kl_sum == pytest.approx(kl.sum(), rel=1e-7)
    assert row.reverse_kl == pytest.approx(reverse.mean(), rel=1e-7)
    assert row.rmse == pytest.approx(np.sqrt(np.mean((data.y_test - m) ** 2)), rel=1e-9)
    assert row.nlpd == pytest.approx(-norm.logpdf(data.y_test, m, np.sqrt(v)).mean(), rel=1e-9)
    assert row.coverage == np.mean(np.abs(z) <= norm.ppf(0.975))
    assert row.crps == pytest.approx(crps.mean(), rel=1e-9)
    assert exact.rmse == pytest.approx(np.sqrt(np.mean((data.y_test - m_ref) ** 2)), rel=1e-9)
    assert exact.nlpd == pytest.approx(-norm.logpdf(data.y_test, m_ref, np.sqrt(v_ref)).mean(), rel=1e-9)
    assert (exact.lengthscale, exact.variance, exact.noise_variance) == ((lengthscale,), variance, noise)


def test_same_seeds_same_table(dataset: Dataset, fixed: Settings, tmp_path: Path) -> None:
    first, second = (runner.compare(dataset, fixed, tmp_path / out, quiet=True).rows for out in "ab")
    assert timeless(first) == timeless(second)
    cells = [cell for seed in (0, 1) for cell in fixed.cells(seed)]
    assert [row.cell for row in first] == cells
    assert len({row.kl for row in first if row.kl is not None}) == len(cells) - 2
    assert ResultsFile(runner.results_path(dataset, tmp_path / "a")).rows == tuple(first)


@pytest.mark.parametrize("at", [0, 4, 6])
def test_an_interrupted_run_resumes(
    at: int, dataset: Dataset, fixed: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = runner.compare(dataset, fixed, tmp_path / "whole", quiet=True).rows
    with monkeypatch.context() as patch:
        before = count_maps(patch, interrupt_at=at)
        with pytest.raises(KeyboardInterrupt):
            runner.compare(dataset, fixed, tmp_path, quiet=True)
    after = count_maps(monkeypatch)
    fits = []
    monkeypatch.setattr(runner.ExactGPRegressor, "fit", counting(runner.ExactGPRegressor.fit, fits))
    resumed = runner.compare(dataset, fixed, tmp_path, quiet=True).rows
    assert timeless(resumed) == timeless(whole)
    assert len(before) == at
    assert sorted(before + after) == sorted(row.cell[:3] for row in whole if row.method != EXACT)
    assert len(fits) == (1 if at == 6 else 2)  # the reference of a finished seed is not fitted again
    assert len(ResultsFile(runner.results_path(dataset, tmp_path)).rows) == len(whole)
    fits.clear()
    assert runner.compare(dataset, fixed, tmp_path, quiet=True).rows == resumed
    assert fits == []


def counting(function: Callable, calls: list) -> Callable:
    def wrapper(*args: object, **kwargs: object) -> object:
        calls.append(args)
        return function(*args, **kwargs)

    return wrapper


def test_a_larger_grid_keeps_the_cells_it_has(
    dataset: Dataset, fixed: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = runner.compare(dataset, replace(fixed, n_features=(8,)), tmp_path, quiet=True)
    made = count_maps(monkeypatch)
    large = runner.compare(dataset, fixed, tmp_path, quiet=True)
    assert {n_features for _, _, n_features in made} == {16}
    assert set(small.rows) < set(large.rows)


@pytest.mark.parametrize("changed", ["target", "input", "name of a column", "cap", "hyper-parameters", "protocol"])
def test_changed_settings_are_never_mixed(changed: str, dataset: Dataset, fixed: Settings, tmp_path: Path) -> None:
    fixed = replace(fixed, methods=("rff",), n_features=(8,), seeds=1)
    old = runner.compare(dataset, fixed, tmp_path, quiet=True)
    other_data, other = dataset, fixed
    if changed == "target":
        other_data = replace(dataset, y=np.where(np.arange(60) == 7, np.nextafter(dataset.y, 9.0), dataset.y))
    elif changed == "input":
        other_data = replace(dataset, X=dataset.X + 1e-12)
    elif changed == "name of a column":
        other_data = replace(dataset, target_name="price")
    elif changed == "cap":
        other = replace(fixed, max_train_rows=39)
    elif changed == "hyper-parameters":
        published = {"made": fixed.protocol.published["made"]._replace(noise_variance=0.03)}
        other = replace(fixed, protocol=replace(fixed.protocol, published=published))
    else:
        other = replace(fixed, protocol=replace(fixed.protocol, approximation="dtc"))
    new = runner.compare(other_data, other, tmp_path, quiet=True)
    assert {row.settings for row in new.rows}.isdisjoint(row.settings for row in old.rows)
    assert len(new.rows) == len(old.rows)
    kept = ResultsFile(runner.results_path(dataset, tmp_path)).rows
    assert kept == (*old.rows, *new.rows)
    assert runner.compare(dataset, fixed, tmp_path, quiet=True).rows == old.rows


def test_a_cell_that_cannot_be_made_does_not_stop_the_others(
    dataset: Dataset, fixed: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(n_features: int, *rest: Any) -> object:
        if n_features == 8:
            raise InputError("too few")
        return METHODS["global_taylor"].make(n_features, *rest)

    monkeypatch.setitem(METHODS, "rff", replace(METHODS["rff"], make=refused))
    comparison = runner.compare(dataset, replace(fixed, seeds=1), tmp_path, quiet=True)
    assert comparison.failures == {Cell(0, "rff", 8): "too few"}
    assert [row.cell for row in comparison.rows] == [cell for cell in fixed.cells(0) if cell[1:3] != ("rff", 8)]


def test_converged_protocol_learns_and_paper_protocol_does_not(
    dataset: Dataset, fixed: Settings, tmp_path: Path
) -> None:
    learned = runner.compare(dataset, Settings(methods=("rff",), n_features=(8,), seeds=1), tmp_path, quiet=True).rows[
        0
    ]
    given = runner.compare(dataset, replace(fixed, seeds=1), tmp_path, quiet=True).rows[0]
    assert learned.method == given.method == EXACT
    assert learned.converged is True
    assert given.converged is None
    assert learned.noise_variance == pytest.approx(0.01, rel=0.6)


def test_inputs_are_standardised_on_the_training_part_unless_they_are_coordinates(make: Make) -> None:
    data = make(d=2)
    part = runner.prepare(data, Settings(), 0)
    np.testing.assert_allclose(part.X_train.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(part.X_train.std(axis=0), 1.0)
    assert np.all(np.abs(part.X_test.mean(axis=0)) > 1e-3)
    np.testing.assert_allclose(np.sort(np.r_[part.y_train, part.y_test]), np.sort(data.y))
    spatial = make(d=2, spatial=True)
    assert set(map(tuple, runner.prepare(spatial, Settings(), 0).X_test)) < set(map(tuple, spatial.X))
    # Other columns of the same set are no coordinates.
    one = replace(spatial, X=spatial.X[:, :1], feature_names=("x0",))
    np.testing.assert_allclose(runner.prepare(one, Settings(), 0).X_train.std(axis=0), 1.0)


def test_published_splits_are_used_in_the_converged_protocol_only(make: Make, fixed: Settings) -> None:
    is_test = np.arange(60) % 3 == 0
    data = replace(make(), splits=(is_test, ~is_test))
    for seed, mask in enumerate(data.splits):
        np.testing.assert_array_equal(np.sort(runner.prepare(data, Settings(), seed).y_test), np.sort(data.y[mask]))
    random = [runner.prepare(data, fixed, seed).y_test for seed in (0, 1)]
    assert len(random[0]) == len(random[1]) == 20
    assert set(random[0]) != set(random[1])


def test_the_reference_of_equal_splits_is_fitted_once(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list = []
    monkeypatch.setattr(runner.ExactGPRegressor, "fit", counting(runner.ExactGPRegressor.fit, fits))
    data = replace(dataset, splits=(np.arange(60) % 3 == 0,))
    comparison = runner.compare(data, Settings(methods=("rff",), n_features=(8,), seeds=2), tmp_path, quiet=True)
    assert len(fits) == 1
    exact = [row for row in comparison.rows if row.method == EXACT]
    rff = [row for row in comparison.rows if row.method == "rff"]
    assert len({row.rmse for row in exact}) == 1
    assert len({row.rmse for row in rff}) == 2  # another seed, another map


def test_caps_take_a_random_part_of_each_side(make: Make) -> None:
    data = make(n=100)
    whole, capped = (
        runner.prepare(data, Settings(max_train_rows=train, max_test_rows=test), 0)
        for train, test in ((None, None), (20, 5))
    )
    assert (len(whole.y_train), len(whole.y_test)) == (90, 10)
    assert (len(capped.y_train), len(capped.y_test)) == (20, 5)
    assert set(capped.y_train) < set(whole.y_train)
    assert set(capped.y_test) < set(whole.y_test)


def test_check_finds_what_would_stop_a_comparison_and_writes_nothing(
    make: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    runner.check(make(), replace(Settings(), max_train_rows=30), tmp_path / "out")
    assert "made: a random 30 of the 54 train rows are used (--max-train-rows)" in caplog.text
    assert "test rows" not in caplog.text
    # The only row with another target is a test row for one of the seeds.
    nearly_constant = replace(make(n=10), y=np.eye(10)[3])
    with pytest.raises(InputError, match="'y' of made is constant on the training rows of seed"):
        runner.check(nearly_constant, Settings(seeds=50), tmp_path / "out")
    with pytest.raises(InputError, match="hyper-parameters"):
        runner.check(make(), Settings(PROTOCOLS["paper"]), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
