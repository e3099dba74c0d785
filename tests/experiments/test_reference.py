"""The exact GP as the reference: what it learned is kept before it predicts, and read back."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgp import ExactGPRegressor
from lmgp.datasets import Dataset
from lmgp.experiments import runner
from lmgp.experiments.protocol import Settings
from lmgp.experiments.reference import Learned, LearnedFile, fit_exact
from lmgp.methods import EXACT

SETTINGS = Settings(methods=("rff",), n_features=(8,), seeds=2)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each exact GP that is fitted, whether it learns."""
    learns: list[bool] = []
    fit = ExactGPRegressor.fit

    def noted(self: ExactGPRegressor, *arguments: Any) -> ExactGPRegressor:
        learns.append(self.kernel is None)
        return fit(self, *arguments)

    monkeypatch.setattr(ExactGPRegressor, "fit", noted)
    return learns


def interrupt_prediction(patch: pytest.MonkeyPatch, at: int) -> None:
    """Interrupt the exact prediction of one seed."""
    predict, calls = ExactGPRegressor.predict, []

    def interrupted(self: ExactGPRegressor, *arguments: Any, **options: Any) -> Any:
        calls.append(self)
        if len(calls) == at:
            raise KeyboardInterrupt
        return predict(self, *arguments, **options)

    patch.setattr(ExactGPRegressor, "predict", interrupted)


def timeless(rows: list[Any]) -> list[Any]:
    return [replace(row, fit_seconds=None, predict_seconds=None) for row in rows]


def test_interrupted_again_and_again_a_comparison_advances(
    dataset: Dataset, tmp_path: Path, fits: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = runner.compare(dataset, SETTINGS, tmp_path / "whole", quiet=True).rows
    assert fits == [True, True]
    fits.clear()
    for at, kept in ((1, "made: kept are the hyper-parameters of 1 seed"), (2, "made: kept are 2 of 4 cells in ")):
        with monkeypatch.context() as patch:
            interrupt_prediction(patch, at)
            with pytest.raises(KeyboardInterrupt, match=kept):
                runner.compare(dataset, SETTINGS, tmp_path / "part", quiet=True)
    assert fits == [True, False, True]  # each seed is learned once, though its prediction was interrupted
    rows = runner.compare(dataset, SETTINGS, tmp_path / "part", quiet=True).rows
    assert fits == [True, False, True, False]
    assert timeless(rows) == timeless(whole)
    # The time is that of learning, not of reading back.
    learned = LearnedFile(runner.learned_path(dataset, tmp_path / "part")).seeds(rows[0].settings)
    assert [row.fit_seconds for row in rows if row.method == EXACT] == [learned[0].seconds, learned[1].seconds]


def test_an_interruption_before_anything_was_learned_says_so(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ExactGPRegressor, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt, match="made: nothing was finished, and the same command begins anew"):
        runner.compare(dataset, SETTINGS, tmp_path, quiet=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ard", [False, True])
def test_hyper_parameters_read_back_to_the_last_digit(ard: bool, make: Any, tmp_path: Path) -> None:
    data, settings = make(d=2), replace(SETTINGS, ard=ard)
    rows = runner.prepare(data, settings, 0)
    file = LearnedFile(tmp_path / "folder" / "learned.json")
    first, learned = fit_exact(data, settings, rows, 0, mark="mark", file=file)
    assert LearnedFile(file.path).seeds("mark") == {0: learned}
    again, _ = fit_exact(data, settings, rows, 0, mark="mark", file=file)
    np.testing.assert_array_equal(again.kernel_.lengthscale, first.kernel_.lengthscale)
    assert np.shape(again.kernel_.lengthscale) == ((2,) if ard else ())
    assert again.noise_variance_ == first.noise_variance_
    np.testing.assert_array_equal(again.predict(rows.X_test), first.predict(rows.X_test))


def test_other_settings_and_seeds_are_kept_apart(tmp_path: Path) -> None:
    file = LearnedFile(tmp_path / "learned.json")
    one, other = Learned(0.5, 1.0, 0.1, True, 3.0), Learned([0.5, 2.0], 1.0, 0.1, False, 4.0)
    file.keep("a", 0, one)
    file.keep("a", 3, other)
    file.keep("b", 0, other)
    assert file.seeds("a") == {0: one, 3: other}
    assert file.seeds("b") == {0: other}
    assert file.seeds("c") == {}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"a": 3}', '{"a": {"x": {}}}', '{"a": {"0": {"lengthscale": 1.0}}}']
)
def test_a_damaged_file_counts_as_empty(content: str, tmp_path: Path) -> None:
    file = LearnedFile(tmp_path / "learned.json")
    file.path.write_text(content)
    assert file.seeds("a") == {}
    learned = Learned(0.5, 1.0, 0.1, True, 3.0)
    file.keep("a", 0, learned)
    assert file.seeds("a")[0] == learned
    assert isinstance(json.loads(file.path.read_text()), dict)


def test_what_is_being_done_is_said(dataset: Dataset) -> None:
    said: list[str] = []

    @contextmanager
    def doing(text: str) -> Iterator[None]:
        said.append(text)
        yield

    rows = runner.prepare(dataset, SETTINGS, 1)
    fit_exact(dataset, SETTINGS, rows, 1, doing=doing)
    assert said == [f"seed 1: learning hyper-parameters on {len(rows.y_train)} rows"]
