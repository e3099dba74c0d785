"""Independent tasks on all cores, each in one thread.

Whose thread numbers are these? torch's is each thread's own (`torch.set_num_threads` in one thread leaves the others as
they are), but a thread that uses torch for the first time begins with the number that any thread set last. OpenMP's is
each thread's own. The number of numpy's and scipy's BLAS belongs to the process: `single_threaded_blas` counts who
holds it. Where nothing has loaded torch, as where near rows predict, it is BLAS that says how many threads there are.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from lmgp.utils.lazy import torch

Task = TypeVar("Task")
Result = TypeVar("Result")

# Set when nobody waits any more for the task that the calling thread works on.
_ABANDONED: ContextVar[threading.Event | None] = ContextVar("abandoned", default=None)


class _BlasHolders:
    """Counts who needs a BLAS of one thread: the first of several at a time sets it, the last one restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._n_modules = -1
        self._limit = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._count == 0:
                # threadpoolctl lets only the thread that set a limit restore it, and the first holder may leave first.
                self._keeper = ThreadPoolExecutor(1)
                self._keeper.submit(lambda: self._limit.enter_context(self.limit("blas"))).result()
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._keeper.submit(self._limit.close).result()
                self._keeper.shutdown()

    def limit(self, user_api: str) -> Any:
        """Return a context in which libraries have one thread, if threadpoolctl lets the calling thread decide that."""
        # To look for BLAS libraries takes 3 ms, to set them 20 µs. They come with modules: no new module, none of them.
        if self._n_modules != len(sys.modules):
            self._controller, self._n_modules = ThreadpoolController(), len(sys.modules)
        return self._controller.limit(limits=1, user_api=user_api)


_BLAS_HOLDERS = _BlasHolders()
# Two calls that start workers at once would take each other's 1 for the number to restore.
_STARTING = threading.Lock()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold the BLAS of numpy and scipy to one thread.

    The number of threads of a BLAS belongs to the process, so this holds for all threads meanwhile; their results do
    not depend on it beyond rounding. Uses may be nested and at the same time in several threads: the first sets the
    limit, the last restores what was there before. Where another thread holds limits of its own through threadpoolctl,
    those stay.
    """
    with _BLAS_HOLDERS, _BLAS_HOLDERS.limit("blas"):
        yield


@contextmanager
def single_threaded() -> Iterator[None]:
    """Keep the operations of the calling thread in that thread: `single_threaded_blas`, and its own OpenMP number.

    For many operations that are each shorter than a wait for other threads.
    """
    torch.get_num_threads()  # the first use of a thread, which would undo what is set before it
    with single_threaded_blas(), _BLAS_HOLDERS.limit("openmp"):
        yield


def n_threads() -> int:
    """Return how many threads torch has in the calling thread; where nothing has loaded torch, those of BLAS."""
    if "torch" in sys.modules:
        return torch.get_num_threads()
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return max((library.num_threads for library in libraries), default=1)


def parallel_map(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Apply a function to each task, in as many threads as `n_threads` says.

    torch and numpy each have threads of their own for one operation, which wait for work by spinning: where the two
    take turns, each takes more than twice its time. Here every operation of a task stays in the task's own thread.
    Results do not depend on which thread takes which task. A call from within a task runs its tasks one by one.

    Parameters
    ----------
    function : callable
        Spends its time in torch and numpy.
    tasks : sequence

    Returns
    -------
    list
        The results, in the order of the tasks.

    Notes
    -----
    Threads of the caller keep their numbers of torch threads. Only a thread whose first use of torch falls into the
    start of the workers, a fraction of a millisecond, begins with one thread.
    """
    n_workers = min(n_threads(), len(tasks)) if len(tasks) > 1 else 1
    if n_workers == 1:
        return [function(task) for task in tasks]
    with single_threaded_blas(), ThreadPoolExecutor(n_workers) as pool:
        if "torch" in sys.modules:
            _start_workers(pool, n_workers)
        abandoned = threading.Event()
        token = _ABANDONED.set(abandoned)
        try:
            contexts = [copy_context() for _ in tasks]
            return list(pool.map(lambda context, task: context.run(function, task), contexts, tasks))
        except BaseException:  # Ctrl-C, too: leaving the pool waits for the tasks that have begun
            abandoned.set()
            raise
        finally:
            _ABANDONED.reset(token)


def unless_abandoned(items: Iterable[Task]) -> Iterator[Task]:
    """Yield items of a task, as long as somebody waits for it: after Ctrl-C, a task of many items ends at the next one.

    Raises
    ------
    KeyboardInterrupt
        In the thread of the task, where nobody sees it.
    """
    abandoned = _ABANDONED.get()
    for item in items:
        if abandoned is not None and abandoned.is_set():
            raise KeyboardInterrupt
        yield item


def ahead(items: Iterator[Result]) -> Iterator[Result]:
    """Yield items, of which the next one is made meanwhile, in a thread of its own.

    An error that making an item raises is raised where that item would be yielded.

    Parameters
    ----------
    items : iterator
        It spends its time in files, and where other threads go on.
    """
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, items, None)
        while (item := waiting.result()) is not None:
            waiting = pool.submit(next, items, None)
            yield item


def _start_workers(pool: ThreadPoolExecutor, n_workers: int) -> None:
    """Give each worker one torch thread, and leave as it was what threads to come begin with."""
    all_set = threading.Barrier(n_workers + 1)

    def begin() -> None:
        torch.get_num_threads()  # the first use, which would undo what is set before it
        torch.set_num_threads(1)
        all_set.wait()  # no worker is free for the start of another

    # A fresh thread knows what threads begin with, and can set that alone: the caller's own number may be another one.
    with _STARTING, ThreadPoolExecutor(1) as fresh:
        n_threads = fresh.submit(torch.get_num_threads).result()
        try:
            for _ in range(n_workers):
                pool.submit(begin)
            all_set.wait()
        except BaseException:
            all_set.abort()  # or the workers that did start would wait for ever
            raise
        finally:
            fresh.submit(torch.set_num_threads, n_threads).result()
