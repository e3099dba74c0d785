"""Ctrl-C while one call of compiled code runs."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lmgp.cli.interrupts import prompt_interrupts

PROGRAM = """
import hashlib, signal, threading
from lmgp.cli.interrupts import prompt_interrupts
from lmgp.saving.output import whole_file

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background has not
with prompt_interrupts(), whole_file("model.lmgp") as stream:
    stream.write(b"half")
    threading.Timer(0.5, print, ["working"], {"flush": True}).start()  # while the work lasts
    WORK
"""
COMPILED, INTERPRETED = "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**8)", "threading.Event().wait(60)"


@pytest.mark.slow
@pytest.mark.parametrize("work", [COMPILED, INTERPRETED])
def test_ctrl_c_ends_what_runs_and_what_is_half_written(work: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM.replace("WORK", work)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=30)
    assert list(tmp_path.iterdir()) == []
    if work == COMPILED:
        assert (process.returncode, told) == (130, "lmgp: interrupted\n")
    else:
        assert told.endswith("KeyboardInterrupt\n")


def test_threads_beside_the_main_one_keep_their_signals_as_they_are() -> None:
    with prompt_interrupts():
        inside = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(inside)

        def other() -> None:
            with prompt_interrupts():
                reached.append(True)

        reached: list[bool] = []
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert reached == [True]
        assert inside != -1
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    assert before == -1
