"""What is being done, and what was tried: messages of level INFO of the standard `logging`, and one bar of them.

The logger ``lmgp.stages`` has a line for each long piece of work as it begins; ``lmgp.tried`` has one for each kernel
and each model that was tried, with what came of it and how long it took. ``logging.basicConfig(level="INFO")`` shows
both, for all models; `shown` does for one call. A terminal and a notebook show stages as a bar that moves.
"""

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from lmgp.errors import SILENT, InputError

if TYPE_CHECKING:
    from tqdm import tqdm

_LOG = logging.getLogger(__name__)
STAGES, TRIED = (logging.getLogger(name) for name in ("lmgp.stages", "lmgp.tried"))
for _logger in (STAGES, TRIED):
    _logger.addFilter(lambda _: not SILENT.get())
# A fit that is expected to take more than this number of seconds says so before, also where nothing is shown.
LONG = 60.0
# A bar moves as often as this, in seconds.
TICK = 0.25
# Of a plan, this number of seconds has to have passed before its pace is believed: the first of them have start-up.
START = 3.0

Line = TypeVar("Line")


def stage(name: str, text: str, *arguments: object) -> None:
    """Log that a stage begins.

    Parameters
    ----------
    name : str
        As `foreseen` has it.
    text : str
        What is done, with places for the arguments.
    """
    STAGES.info(text, *arguments, extra={"stage": name})


@contextmanager
def silent() -> Iterator[None]:
    """Warn of nothing, and log neither stages nor trials of the work inside; other threads go on with theirs."""
    token = SILENT.set(True)
    try:
        yield
    finally:
        SILENT.reset(token)


def foreseen(seconds: Mapping[str, float], what: str) -> None:
    """Log about how long work takes: that of each of its stages, in their order; a warning where it is `LONG`."""
    total = sum(seconds.values())
    level = logging.WARNING if total > LONG else logging.INFO
    STAGES.log(level, "%s: about %s", what, duration(total), extra={"plan": dict(seconds)})


def duration(seconds: float) -> str:
    """Return a time as people say it, such as '40 s' or '3 min'."""
    return f"{max(seconds, 1.0):.0f} s" if seconds < 100.0 else f"{seconds / 60.0:.0f} min"


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
    """Log a `lmgp.selection.record.RecipeTrial`, and return it."""
    line: Any = trial
    threshold = "" if line.threshold is None else f", threshold {line.threshold:g}"
    TRIED.info(
        f"{line.method} of size {line.n_features:,}{threshold}: {line.kl:.2g} nats a row from the exact GP, "
        f"{line.trial_seconds:.2g} s; {line.seconds:.2g} s expected for all rows"
    )
    return trial


def shows_bars() -> bool:
    """Say whether standard error is where a bar can move: a terminal or a notebook."""
    shell = sys.modules.get("IPython")
    in_notebook = shell is not None and "IPKernelApp" in getattr(shell.get_ipython(), "config", {})
    return in_notebook or (sys.stderr is not None and sys.stderr.isatty())


@contextmanager
def ticking(call: Callable[[], object], first: float = TICK, every: float | None = TICK) -> Iterator[None]:
    """Call a function in a thread while the work inside lasts.

    Parameters
    ----------
    call : callable
    first : float, default=TICK
        Seconds after which it is called first.
    every : float or None, default=TICK
        Seconds between further calls; None means that there is one call alone.
    """
    done = Event()

    def tick() -> None:
        if first > 0.0 and not done.wait(first):
            call()
        while every is not None and not done.wait(every):
            call()

    if not first > 0.0:
        call()
    thread = Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


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

    def stop(self) -> None:
        """Show no stage any more."""


class Timetable:
    """How far work is, by what its stages were expected to take and what those before have taken.

    Parameters
    ----------
    clock : callable
        Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock, self._start = clock, clock()
        self.foresee({})

    def foresee(self, plan: Mapping[str, float]) -> None:
        """Expect the stages of a plan, in seconds each, from now on."""
        self._plan, self._before, self._stage, self._pace = plan, 0.0, "", 1.0
        self._left = list(plan)
        self._start = self._begin = self._clock()

    def begin(self, name: str) -> None:
        """Note that a stage begins; one that the plan has not, or has before, is a part of the stage it is in."""
        if name not in self._left:
            return
        self._left = self._left[self._left.index(name) + 1 :]
        self._before = sum(self._plan.values()) - sum(map(self._plan.__getitem__, [name, *self._left]))
        self._stage, self._begin = name, self._clock()
        if self._before > 0.0:
            unknown = max(START - self._before, 0.0)
            self._pace = (self._begin - self._start + unknown) / (self._before + unknown)

    def state(self) -> tuple[float, float] | None:
        """Return the share that is done, which always grows within a stage, and the seconds left; None without plan."""
        total, expected = sum(self._plan.values()), self._plan.get(self._stage, 0.0)
        if not total > 0.0:
            return None
        passed = (self._clock() - self._begin) / max(self._pace * expected, 1e-9)
        done = self._before + expected * (passed if passed < 0.9 else 1.0 - 0.09 / passed)
        return done / total, self._pace * (total - done)


class Bar(Lines):
    """Shows the stage as one bar, with about how long all of it takes; other messages are lines above it.

    Parameters
    ----------
    line : callable
        Makes the line of another message.
    """

    def __init__(self, line: Callable[[str], str]) -> None:
        super().__init__(line)
        self._timetable, self._open = Timetable(), ExitStack()
        self._bar: tqdm[Any] | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Show a message."""
        name, plan = getattr(record, "stage", None), getattr(record, "plan", None)
        if plan is not None:
            self._timetable.foresee(plan)
        if name is None and (plan is None or record.levelno > logging.INFO):
            super().emit(record)
        if name is not None:
            self._timetable.begin(name)
            self._show(self.format(record))

    def _show(self, text: str) -> None:
        from tqdm.auto import tqdm

        if self._bar is None:
            bar = tqdm(
                total=1.0, leave=False, file=sys.stderr, dynamic_ncols=True, desc=text, bar_format="{desc}, {elapsed}"
            )
            self._bar = self._open.enter_context(bar)
            self._open.enter_context(ticking(self._refresh))
        self._bar.set_description_str(text, refresh=False)
        self._refresh()

    def _refresh(self) -> None:
        state, bar = self._timetable.state(), self._bar
        if bar is None:
            return
        if state is not None:
            bar.n, left = state
            bar.bar_format = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}, about " + duration(left) + " left"
        bar.refresh()

    def stop(self) -> None:
        """Take the bar away, until another stage begins."""
        self._open.close()
        self._bar = None


def display(line: Callable[[str], str]) -> Lines:
    """Return the handler that shows messages where standard error goes."""
    return Bar(line) if shows_bars() else Lines(line)


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
        if isinstance(handler, Lines):
            handler.stop()
        package.removeHandler(handler)
        package.propagate = before[1]
        package.setLevel(before[0])


@contextmanager
def shown(verbose: bool | int) -> Iterator[None]:
    """Show on standard error the stages of what is done inside, and for 2 what was tried; for False, change nothing.

    What is shown already stays as it is.
    """
    if isinstance(verbose, str):
        raise InputError(f"verbose must be True, False, 1 or 2; got {verbose!r}.")
    if not verbose or _displayed() is not None:
        yield
        return
    start = perf_counter()
    lines = display(lambda text: f"[lmgp {perf_counter() - start:6.1f} s] {text}")
    lines.addFilter(lambda record: verbose >= 2 or record.name != TRIED.name)
    with handled(lines):
        yield


def _displayed() -> Lines | None:
    """Return the handler that shows what the package logs."""
    return next((handler for handler in logging.getLogger("lmgp").handlers if isinstance(handler, Lines)), None)


@contextmanager
def counted(
    total: int | None, title: str, unit: str, verbose: bool | int, initial: int = 0, delay: float = 0.0
) -> "Iterator[tqdm[Any]]":
    """Give a bar of work whose steps are counted; without a terminal or a notebook, one line says what is counted.

    Parameters
    ----------
    total : int or None
        The number of steps, where it is known.
    title, unit : str
        What is done, and what a step is.
    verbose : bool or int
        Whether anything is shown.
    initial : int, default=0
        Steps that are done.
    delay : float, default=0
        Seconds after which the bar appears.
    """
    from tqdm.auto import tqdm

    told = f"{title}, {'an unknown number of' if total is None else f'{total:,}'} {unit}"
    scaled = total is None or total >= 1000
    with ExitStack() as inside:
        if verbose and not shows_bars():
            inside.enter_context(shown(verbose))
            inside.enter_context(ticking(lambda: _LOG.info(told), delay, None))
        elif verbose and (other := _displayed()) is not None:
            other.stop()  # one bar at a time
        bar = tqdm(
            total=total, desc=title, unit=f" {unit}", unit_scale=scaled, initial=initial, delay=delay,
            disable=not (verbose and shows_bars()), file=sys.stderr,
        )  # fmt: skip
        inside.enter_context(bar)
        if not bar.disable:
            inside.enter_context(ticking(bar.refresh, delay + 1.0, 1.0))
        yield bar
