"""What the library logs and warns about, as lines on standard error."""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Handler(logging.Handler):
    """Writes messages to standard error without breaking a progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm

        tqdm.write(f"lmgp: {self.format(record)}", file=sys.stderr)


@contextmanager
def messages(quiet: bool, passed_over: tuple[type[Warning], ...] = (), silent: tuple[str, ...] = ()) -> Iterator[None]:
    """Show what the library logs and warns about, or nothing of it.

    Parameters
    ----------
    quiet : bool
        Whether to show nothing.
    passed_over : tuple of type
        Kinds of warnings that are not shown.
    silent : tuple of str
        Names of loggers whose messages are not shown.
    """
    package, handler = logging.getLogger("lmgp"), _Handler()
    handler.addFilter(lambda record: record.name not in silent)
    before = package.level, package.propagate

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if not issubclass(category, passed_over):
            package.warning("%s", message)

    package.addHandler(handler)
    package.setLevel(logging.CRITICAL if quiet else logging.INFO)
    package.propagate = False
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        package.removeHandler(handler)
        package.level, package.propagate = before
