"""What is being done, and what was tried: messages of level INFO of the standard `logging`.

The logger ``lmgp.stages`` has a line for each long piece of work as it begins; ``lmgp.tried`` has one for each kernel
and each model that was tried, with what came of it and how long it took. ``logging.basicConfig(level="INFO")`` shows
both, for all models; `shown` does for one call.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import perf_counter
from typing import Any, TypeVar

STAGES, TRIED = (logging.getLogger(name) for name in ("lmgp.stages", "lmgp.tried"))

Line = TypeVar("Line")


def tried_kernel(trial: Line) -> Line:
    """Log a `lmgp.learning.record.Trial`, and return it."""
    line: Any = trial
    lengthscales = "one lengthscale a column" if line.ard else "one lengthscale"
    lengthscales = f"lengthscales of {line.n_own} columns" if line.n_own else lengthscales
    TRIED.info(
        f"{line.kernel} with {lengthscales}: {line.likelihood} likelihood of {line.n_rows:,} rows, "
        f"{line.log_likelihood:.4f} nats a row, {line.seconds:.2g} s"
    )
    return trial


def tried_model(trial: Line) -> Line:
    """Log a `lmgp.selection.search.RecipeTrial`, and return it."""
    line: Any = trial
    threshold = "" if line.threshold is None else f", threshold {line.threshold:g}"
    TRIED.info(
        f"{line.method} of size {line.n_features:,}{threshold}: {line.kl:.2g} nats a row from the exact GP, "
        f"{line.trial_seconds:.2g} s; {line.seconds:.2g} s expected for all rows"
    )
    return trial


class Lines(logging.Handler):
    """Writes messages to standard error without breaking a progress bar.

    Parameters
    ----------
    line : callable
        Makes the line of a message.
    """

    def __init__(self, line: Callable[[str], str]) -> None:
        super().__init__(logging.INFO)
        self._line = line

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message."""
        from tqdm import tqdm

        tqdm.write(self._line(self.format(record)), file=sys.stderr)


@contextmanager
def handled(handler: logging.Handler, level: int = logging.INFO) -> Iterator[logging.Logger]:
    """Let one handler alone have what the package logs inside, from a level on; the logger of the package is given."""
    package = logging.getLogger("lmgp")
    before = package.level, package.propagate
    package.addHandler(handler)
    package.propagate = False
    package.setLevel(level)
    try:
        yield package
    finally:
        package.removeHandler(handler)
        package.propagate = before[1]
        package.setLevel(before[0])


@contextmanager
def shown(verbose: object) -> Iterator[None]:
    """Show on standard error what is done inside, with the seconds; where `verbose` is false, change nothing."""
    start = perf_counter()
    lines = Lines(lambda text: f"[lmgp {perf_counter() - start:6.1f} s] {text}")
    with handled(lines) if verbose else nullcontext():
        yield
