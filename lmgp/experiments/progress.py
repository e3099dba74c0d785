"""A progress bar of cells, that also says what takes long before the first cell is done."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import Any

from tqdm import tqdm


class Progress:
    """A bar of cells, or of estimated work, with the time left.

    On a terminal it moves at once; in a log, where few lines are better, every ten seconds.

    Parameters
    ----------
    name : str
        Of the data set.
    total : int or None
        The number of cells; None where the bar is of work that is not known yet, see `estimate`.
    quiet : bool
        Whether to show nothing.
    """

    def __init__(self, name: str, total: int | None, *, quiet: bool) -> None:
        self._watched = sys.stderr.isatty()
        self._interval = 1.0 if self._watched else 10.0
        count = "" if total is None else "{n_fmt}/{total_fmt} cells "
        self._bar: tqdm[Any] = tqdm(
            desc=name,
            total=1.0 if total is None else total,
            mininterval=0.1 if self._watched else 10.0,
            bar_format="{desc}: {percentage:3.0f}%|{bar}| " + count + "[{elapsed}<{remaining}{postfix}]",
            smoothing=0.05,
            disable=quiet,
        )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def estimate(self, left: float) -> None:
        """Set the work that is left, in the unit of `advance`."""
        self._bar.total = self._bar.n + left

    def advance(self, work: float) -> None:
        """Count work as done."""
        self._bar.update(work)

    def say(self, text: str) -> None:
        """Show what is being done."""
        self._bar.set_postfix_str(text, refresh=self._watched)

    @contextmanager
    def doing(self, text: str) -> Iterator[None]:
        """Show what is being done, and for how many seconds, until it is done."""
        if self._bar.disable:
            yield
            return
        start, done = perf_counter(), Event()

        def show() -> None:
            while True:
                self._bar.set_postfix_str(f"{text}, {perf_counter() - start:.0f} s")
                if done.wait(self._interval):
                    return

        clock = Thread(target=show, daemon=True)
        clock.start()
        try:
            yield
        finally:
            done.set()
            clock.join()
