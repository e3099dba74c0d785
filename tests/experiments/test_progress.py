import re
import time

import pytest

from lmgp.experiments.progress import Progress


def test_it_says_what_takes_long_and_for_how_long(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress("made", 5, quiet=False) as progress:
        with progress.doing("learning on 2,000 rows"):
            time.sleep(0.05)
        progress.say("seed 0, rff")
        progress.advance(5)
    lines = capfd.readouterr().err.replace("\r", "\n").splitlines()
    assert any(re.search(r"made: +0%.*0/5 cells .*learning on 2,000 rows, 0 s", line) for line in lines)
    assert not any("0/?" in line for line in lines)
    assert "5/5 cells" in lines[-1]


def test_a_total_that_is_estimated_later(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress("made", None, quiet=False) as progress:
        with progress.doing("learning"):
            pass
        progress.estimate(200.0)
        progress.advance(50.0)
        progress.estimate(50.0)
        progress.advance(50.0)
    text = capfd.readouterr().err
    assert "cells" not in text
    assert "made: 100%" in text.replace("\r", "\n").splitlines()[-1]


def test_quiet_shows_nothing_and_an_error_passes_through(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress("made", 5, quiet=True) as progress, progress.doing("learning"):
        progress.advance(1)
    assert capfd.readouterr().err == ""
    with pytest.raises(KeyboardInterrupt), Progress("made", 5, quiet=False) as progress, progress.doing("learning"):
        raise KeyboardInterrupt
