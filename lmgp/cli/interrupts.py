"""Ctrl-C while one call of compiled code runs."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lmgp.saving.output import UNFINISHED

# Seconds within which the interpreter has to have ended the command.
PATIENCE = 0.8
INTERRUPTED = 130


@contextmanager
def prompt_interrupts(patience: float = PATIENCE) -> Iterator[None]:
    """End the process where the work inside goes on after Ctrl-C, with one line and status 130.

    The interpreter raises KeyboardInterrupt between two of its own instructions, and a pool of threads waits for their
    tasks: a factorisation of 10,000 rows can make it wait for seconds. A thread learns of the signal at once. Files
    that are being written are removed. In other threads than the main one, which alone has signals, nothing changes.

    Parameters
    ----------
    patience : float, default=0.8
        Seconds from Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ended = threading.Event()
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)

    def watch() -> None:
        while (signals := os.read(read, 64)) and signal.SIGINT not in signals:
            pass
        if signals and not ended.wait(patience):
            for path in tuple(UNFINISHED):
                path.unlink(missing_ok=True)
            os.write(2, b"\nlmgp: interrupted\n" if os.isatty(2) else b"lmgp: interrupted\n")
            os._exit(INTERRUPTED)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        os.close(write)
        watcher.join()
        os.close(read)
