"""What is shown while a model is fitted."""

import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable
from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest

import lmgp
from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor
from lmgp.errors import ScaleWarning, warn
from lmgp.utils import progress
from lmgp.utils.parallel import parallel_map
from lmgp.utils.progress import Timetable, counted, duration, foreseen, shown, silent, stage
from tests.conftest import draw

X, Y, _ = draw(150)


def lines(text: str) -> list[str]:
    found = [re.fullmatch(r"\[lmgp +\d+\.\d s\] (.+)", line) for line in text.splitlines()]
    assert all(found)
    return [one.group(1) for one in found if one]


def test_each_kernel_that_is_tried_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = {"kernel": ["matern32", "gaussian"], "ard": False, "random_state": 11}
    learned = lmgp.learn(X, Y, **arguments, verbose=2)
    printed = capsys.readouterr()
    first, *tried = lines(printed.err)
    assert printed.out == ""
    assert first == "learning the kernel from 150 rows of 2 columns"
    expected = [
        f"{one.kernel} with one lengthscale: {one.likelihood} likelihood of {one.n_rows} rows, "
        f"{one.log_likelihood:.4f} nats a row, {one.seconds:.2g} s"
        for one in learned.learning
    ]
    assert sorted(tried) == sorted(expected)
    lmgp.learn(X, Y, **arguments, verbose=2)
    assert lines(capsys.readouterr().err) == ["the kernel was learned from these rows before"]


def test_each_model_that_is_tried_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    given = {"kernel": GaussianKernel(1.0), "noise_variance": 0.05, "noise": "normal", "random_state": 0}
    X, Y, _ = draw(600)
    model = GPRegressor(methods=["nearest_rows", "local_taylor"], **given).fit(X, Y, verbose=2)
    found = lines(capsys.readouterr().err)
    assert found[0] == "choosing a model for 600 rows and 600 predictions"
    assert found[-1] == f"fitting {type(model.model_).__name__} to 600 rows"
    told = [re.sub(r"(, threshold \S+)?: .*", "", line) for line in found[1:-1]]
    assert set(told) == {f"{one.method} of size {one.n_features:,}" for one in model.selection_}


@pytest.mark.slow
def test_without_a_terminal_each_stage_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    X, Y, _ = draw(300)
    model = GPRegressor(kernel="matern32", random_state=21).fit(X, Y, verbose=True)
    told = lines(capsys.readouterr().err)
    assert re.fullmatch(r"a fit to 300 rows of 2 columns: about \d+ s", told[0])
    learning = "learning the kernel from 300 rows of 2 columns"
    assert told[1:] == [
        "looking for a linear trend in 300 rows",
        learning,
        "learning the kernel beside a linear trend",
        "looking for outliers among 300 rows",
        f"fitting {type(model.model_).__name__} to 300 rows",
        "fitting the noise by rows left out",
    ]


def test_nothing_is_shown_unasked_and_nothing_stays(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    package = logging.getLogger("lmgp")
    before = package.level, package.propagate, list(package.handlers)
    ExactGPRegressor(random_state=3).fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        ExactGPRegressor().fit(X * float("nan"), Y, verbose=1)
    assert capsys.readouterr().err == ""
    assert (package.level, package.propagate, list(package.handlers)) == before
    with caplog.at_level("INFO", logger="lmgp"):  # as logging.basicConfig(level="INFO") does for all models
        ExactGPRegressor(random_state=4).fit(X + 1.0, Y)
    assert {one.name for one in caplog.records} == {"lmgp.stages", "lmgp.tried"}
    assert "gaussian with one lengthscale: exact likelihood of 150 rows" in caplog.text


def test_who_is_silent_warns_of_nothing_itself() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with silent():
            warn("said by nobody", ScaleWarning)
            parallel_map(lambda i: warn(f"said by nobody of {i}", ScaleWarning), range(4))
            warnings.warn("said by another package", UserWarning, stacklevel=1)
        warn("said after it", ScaleWarning)
    assert [str(one.message) for one in caught] == ["said by another package", "said after it"]


def test_silence_is_of_one_thread_and_of_its_workers(caplog: pytest.LogCaptureFixture) -> None:
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with silent():
            entered.set()
            left.wait(60)

    thread = threading.Thread(target=other)
    with caplog.at_level("INFO", logger="lmgp"):
        with silent():
            thread.start()
            entered.wait(60)
            stage("fitting", "said by none")
            parallel_map(lambda i: stage("fitting", "said by none of %d", i), range(4))
        stage("fitting", "said beside a silent thread")
        left.set()
        thread.join()
        stage("fitting", "said after it")
        parallel_map(lambda i: stage("fitting", "said by worker %d", i), range(2))
    assert caplog.messages[:2] == ["said beside a silent thread", "said after it"]
    assert sorted(caplog.messages[2:]) == ["said by worker 0", "said by worker 1"]


def test_a_fit_of_more_than_a_minute_says_so_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[logging.LogRecord] = []
    monkeypatch.setattr(progress.STAGES, "handle", records.append)
    foreseen({"learning": 20.0, "noise": 10.0}, "a fit to few rows")
    assert records == []
    foreseen({"learning": 170.0, "noise": 10.0}, "a fit to many rows")
    (record,) = records
    assert (record.levelname, record.getMessage()) == ("WARNING", "a fit to many rows: about 3 min")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.01, "1 s"), (8.4, "8 s"), (99.0, "99 s"), (100.0, "2 min"), (3600.0, "60 min")]
)
def test_durations_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


class TestTimetable:
    """By a clock that the test sets."""

    def made(self, **plan: float) -> tuple[Timetable, list[float]]:
        now = [100.0]
        timetable = Timetable(lambda: now[0])
        timetable.foresee(plan)
        return timetable, now

    def test_a_plan_that_is_kept(self) -> None:
        timetable, now = self.made(learning=10.0, noise=30.0)
        timetable.begin("learning")
        now[0] += 5.0
        assert timetable.state() == pytest.approx((0.125, 35.0))
        now[0] += 5.0
        timetable.begin("noise")
        assert timetable.state() == pytest.approx((0.25, 30.0))

    def test_a_slow_machine_stretches_what_is_left(self) -> None:
        timetable, now = self.made(learning=10.0, noise=30.0)
        timetable.begin("learning")
        now[0] += 20.0
        timetable.begin("noise")
        now[0] += 15.0
        assert timetable.state() == pytest.approx((0.4375, 45.0))

    def test_a_start_tells_little_of_the_pace(self) -> None:
        timetable, now = self.made(columns=0.35, learning=30.0)
        timetable.begin("columns")
        now[0] += 5.0
        timetable.begin("learning")
        state = timetable.state()
        assert state is not None
        assert 30.0 < state[1] < 4.0 * 30.0

    def test_a_stage_that_takes_longer_goes_on_moving(self) -> None:
        timetable, now = self.made(learning=10.0, noise=30.0)
        timetable.begin("learning")
        states = []
        for _ in range(100):
            now[0] += 1.0
            states.append(timetable.state())
        shares, left = map(np.array, zip(*states, strict=True))  # type: ignore[arg-type]
        assert np.all(np.diff(shares) > 0.0)
        assert np.all(np.diff(left) < 0.0)
        assert shares[-1] < 0.25
        assert left[-1] > 30.0

    def test_stages_that_are_not_in_the_plan_or_return_are_parts(self) -> None:
        timetable, now = self.made(learning=10.0, trend=5.0, noise=30.0)
        timetable.begin("learning")
        now[0] += 10.0
        timetable.begin("trend")
        now[0] += 2.0
        for name in ("columns", "learning", "trend"):
            timetable.begin(name)
            assert timetable.state() == pytest.approx((12.0 / 45.0, 33.0))

    def test_without_a_plan_there_is_no_estimate(self) -> None:
        assert Timetable().state() is None


class Terminal:
    """What was written to standard error, where bars move."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self._text = capsys, ""

    def getvalue(self) -> str:
        self._text += self._capsys.readouterr().err
        return self._text


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    monkeypatch.setattr(progress, "shows_bars", lambda: True)
    return Terminal(capsys)


def wait_until(happened: Callable[[], bool]) -> None:
    for _ in range(1000):
        if happened():
            return
        sleep(0.01)
    pytest.fail("nothing moved for 10 s")


class TestBar:
    def test_stages_are_one_bar_and_warnings_lines(self, terminal: Terminal) -> None:
        with shown(True):
            foreseen({"learning": 10.0, "noise": 10.0}, "a fit")
            stage("learning", "learning from %d rows", 7)
            logging.getLogger("lmgp.elsewhere").warning("a warning")
            progress.TRIED.info("what was tried")
            stage("noise", "fitting the noise")
        told = terminal.getvalue()
        assert re.search(r"\rlearning from 7 rows:   0%\|.*\| 00:00, about 20 s left", told)
        assert re.search(r"\rfitting the noise: +\d+%\|", told)
        assert re.search(r"\[lmgp +\d\.\d s\] a warning\n", told)
        assert "tried" not in told
        assert told.rsplit("\r", 1)[-1].strip() == ""  # the bar is taken away

    def test_it_moves_while_a_stage_lasts(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = []
        with progress.ticking(lambda: calls.append(None), 0.01, 0.01):
            wait_until(lambda: len(calls) >= 3)
        n = len(calls)
        assert n >= 3
        with shown(True):
            foreseen({"learning": 1.0}, "a fit")
            stage("learning", "learning")
            seen = terminal.getvalue().count("learning: ")
            wait_until(lambda: terminal.getvalue().count("learning: ") >= seen + 2)
        assert len(calls) == n  # nothing goes on after its end

    def test_a_counted_bar_takes_its_place(self, terminal: Terminal) -> None:
        with shown(True):
            stage("learning", "learning")
            with counted(4, "Prediction", "rows", True) as bar:
                bar.update(4)
            assert "Prediction: 100%" in terminal.getvalue()
            stage("noise", "fitting the noise")
        assert "fitting the noise" in terminal.getvalue()

    def test_an_error_leaves_no_bar(self, terminal: Terminal) -> None:
        before = list(logging.getLogger("lmgp").handlers)

        def interrupted() -> None:
            with shown(True):
                stage("learning", "learning")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert terminal.getvalue().rsplit("\r", 1)[-1].strip() == ""
        assert logging.getLogger("lmgp").handlers == before


def test_a_notebook_is_known_by_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not progress.shows_bars()
    for config, expected in (({"IPKernelApp": {}}, True), ({}, False)):
        shell = SimpleNamespace(get_ipython=lambda config=config: SimpleNamespace(config=config))
        monkeypatch.setitem(sys.modules, "IPython", shell)
        assert progress.shows_bars() is expected
