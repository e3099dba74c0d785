"""What a selection says of itself: its table, how far off it is, and its form as text."""

import pickle

import pytest

from lmgp.recipes import Exact
from lmgp.selection.candidates import Candidate
from lmgp.selection.methods import EXACT
from lmgp.selection.search import RecipeTrial, Selection, at_once


class TestTable:
    TRIALS = (
        RecipeTrial("global_taylor", 32, None, "dtc", 4.5, 0.0, 0, 0.001, 0.0026),
        RecipeTrial("local_taylor", 64, 0.25, "fitc", 0.00042, 3e-5, 256, 0.5, 0.25, chosen=True),
    )
    SELECTION = Selection(TRIALS, 1e-3, 12345, 2048, 4e-5, 1.5)

    def test_is_a_sequence_of_trials(self) -> None:
        assert len(self.SELECTION) == 2
        assert list(self.SELECTION) == list(self.TRIALS)
        assert self.SELECTION[-1] is self.SELECTION.chosen is self.TRIALS[1]
        assert self.SELECTION[:1] == self.TRIALS[:1]
        assert pickle.loads(pickle.dumps(self.SELECTION)) == self.SELECTION

    def test_prints_a_table(self) -> None:
        lines = str(self.SELECTION).splitlines()
        assert [line.split() for line in lines[1:3]] == [
            ["global_taylor", "32", "-", "dtc", "-", ">", "4.5", "-", "0", "0.001", "0.0026"],
            ["*", "local_taylor", "64", "0.25", "fitc", "-", "0.00042", "3e-05", "256", "0.5", "0.25"],
        ]
        assert len({len(line) for line in lines[:3]}) == 1
        assert "12,345" in lines[3]
        assert "0.001 nats" in lines[3]
        assert "2,048 rows" in lines[4]
        assert "4e-05" in lines[4]

    def test_of_exact_probes_names_no_change(self) -> None:
        text = str(Selection(self.TRIALS, 1e-3, 12345, 2048, 0.0, 1.5))
        assert "changed" not in text

    def test_can_be_written_and_read(self) -> None:
        assert Selection.from_json(self.SELECTION.to_json()) == self.SELECTION

    def test_becomes_a_data_frame(self) -> None:
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(self.SELECTION)
        assert list(frame.columns) == list(RecipeTrial._fields)
        assert frame["kl"].tolist() == [4.5, 0.00042]
        assert frame.loc[frame["chosen"], "method"].tolist() == ["local_taylor"]


class TestShortfall:
    def of(self, kl: float, change: float, method: str = "orf") -> str | None:
        trials = (RecipeTrial(method, 64, None, "dtc", kl, 0.1 * kl, 200, 1.0, 1.0, chosen=True),)
        return Selection(trials, 1e-3, 12_000, 1024, change, 1.0).shortfall(128)

    def test_none_within_the_tolerance(self) -> None:
        assert self.of(1e-3, 0.0) is None
        assert self.of(0.0, 1e-4) is None
        assert self.of(0.0, 1.0, EXACT) is None
        assert self.of(1.6e-3, 1e-4) is not None

    def test_how_far_off(self) -> None:
        text = str(self.of(0.04, 0.0))
        for part in ("12,000 predictions", "tolerance=0.001", "orf of size 64", "0.04 nats", "200 rows", "n_predict"):
            assert part in text

    def test_more_columns_where_these_were_the_limit(self) -> None:
        trials = (RecipeTrial("orf", 128, None, "dtc", 0.04, 0.0, 200, 1.0, 1.0, chosen=True),)
        text = str(Selection(trials, 1e-3, 10, 1024, 0.0, 1.0).shortfall(128))
        assert "a larger max_features" in text
        assert "n_predict" not in text

    def test_a_reference_that_is_not_sure_enough(self) -> None:
        text = str(self.of(1e-4, 0.02))
        assert "tolerance=0.001 is below 0.12 nats" in text
        assert "1,024 rows" in text
        assert "above 0.12" in text


def test_without_a_search_there_is_one_line() -> None:
    selection = at_once(Candidate(EXACT, 90, Exact(), 0.0), 0.0, 1e-3, 5)
    assert [(trial.method, trial.n_features, trial.kl) for trial in selection] == [(EXACT, 90, 0.0)]
    assert selection.chosen is selection[0]
    assert selection.shortfall(128) is None
    assert "no search" in str(selection)
    assert Selection.from_json(selection.to_json()) == selection
