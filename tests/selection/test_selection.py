"""What a selection says of itself: its table, how far off it is, and its form as text."""

import pickle
import re

import pytest

from lmgp.cli import main
from lmgp.recipes import Exact, Spectral
from lmgp.selection.candidates import Problem
from lmgp.selection.choose import at_once
from lmgp.selection.methods import EXACT, SPECTRAL
from lmgp.selection.record import RecipeTrial, Selection
from tests.selection.machine import KERNEL, draw


class TestTable:
    TRIALS = (
        RecipeTrial("global_taylor", 32, None, "dtc", 4.5, 0.0, 0, 0.001, 0.0026),
        RecipeTrial("local_taylor", 64, 0.25, "fitc", 0.00042, 3e-5, 256, 0.5, 0.25, chosen=True),
    )
    SELECTION = Selection(TRIALS, 1e-3, 12345, 2048, 1.5)

    def test_is_a_sequence_of_trials(self) -> None:
        assert len(self.SELECTION) == 2
        assert list(self.SELECTION) == list(self.TRIALS)
        assert self.SELECTION[-1] is self.SELECTION.chosen is self.TRIALS[1]
        assert self.SELECTION[:1] == self.TRIALS[:1]
        assert pickle.loads(pickle.dumps(self.SELECTION)) == self.SELECTION

    def test_prints_a_table(self) -> None:
        lines = str(self.SELECTION).splitlines()
        assert [line.split() for line in lines[1:3]] == [
            ["global_taylor", "32", "-", "dtc", "-", "4.5", "0", "0", "0.001", "0.0026"],
            ["*", "local_taylor", "64", "0.25", "fitc", "-", "0.00042", "3e-05", "256", "0.5", "0.25"],
        ]
        assert len({len(line) for line in lines[:3]}) == 1
        assert lines[0].index("method") == lines[1].index("global_taylor") == lines[2].index("local_taylor")
        assert lines[0].index("size") + len("size") == lines[1].index("32") + len("32")
        assert "12,345" in lines[3]
        assert "0.001 nats" in lines[3]
        assert "2,048 rows" in lines[4]

    def test_can_be_written_and_read(self) -> None:
        assert Selection.from_json(self.SELECTION.to_json()) == self.SELECTION

    def test_becomes_a_data_frame(self) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(self.SELECTION)
        assert list(frame.columns) == list(RecipeTrial._fields)
        assert frame["kl"].tolist() == [4.5, 0.00042]
        assert frame.loc[frame["chosen"], "method"].tolist() == ["local_taylor"]


def test_a_divergence_is_within_a_tolerance_with_two_standard_errors_added() -> None:
    trial = RecipeTrial("orf", 64, None, "dtc", 0.5, 0.125, 64, 1.0, 1.0)
    assert [trial.within(tolerance) for tolerance in (0.5, 0.7499, 0.75, 1.0)] == [False, False, True, True]


def test_how_far_off_the_tolerance_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    def told(kl: float, method: str = "orf") -> str | None:
        trials = (RecipeTrial(method, 64, None, "dtc", kl, 0.1 * kl, 64, 1.0, 1.0, chosen=True),)
        return Selection(trials, 1e-3, 12_000, 1024, 1.0).shortfall

    assert told(1e-3) is None
    assert told(0.0, EXACT) is None
    text = str(told(0.04))
    for part in ("12,000 predictions", "tolerance=0.001", "orf of size 64", "0.04 nats", "n_predict", "max_features"):
        assert part in text
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    told_there = capsys.readouterr().out
    assert len(options := re.findall(r"--[a-z-]+", text)) == 2
    assert all(option in told_there for option in options)


def test_without_a_search_there_is_one_line() -> None:
    problem = Problem(draw(90), KERNEL, 0.1, 1e-3, 5)
    selection = at_once(problem, problem.candidate(EXACT, 90, Exact()))
    assert [(trial.method, trial.n_features, trial.kl) for trial in selection] == [(EXACT, 90, 0.0)]
    assert selection.chosen is selection[0]
    assert selection.shortfall is None
    assert "The exact process needs no search." in str(selection)
    assert selection.reference_seconds == 0.0
    by_modes = at_once(problem, problem.candidate(SPECTRAL, 90, Spectral()))
    assert "Its own estimate of its error needs no search." in str(by_modes)
    for searched in (selection, by_modes):
        read = Selection.from_json(searched.to_json())
        assert read == searched
        assert str(read) == str(searched)


def test_what_was_written_before_rows_left_out_could_choose_is_read() -> None:
    selection = TestTable.SELECTION
    earlier = selection.to_json().replace(', "by_rows_left_out": false', "")
    assert "left_out" not in earlier
    assert Selection.from_json(earlier) == selection
