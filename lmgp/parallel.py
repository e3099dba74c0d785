"""Independent tasks on all cores, each in one thread."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

Task = TypeVar("Task")
Result = TypeVar("Result")


def parallel_map(function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Apply a function to each task, in as many threads as torch is set to use.

    torch and numpy each have threads of their own for one operation, which wait for work by spinning: where the two
    take turns, they slow each other down to less than half. Here every operation of a task stays in the task's own
    thread, for which both let others run. Results do not depend on which thread takes which task.

    Parameters
    ----------
    function : callable
        Spends its time in torch and numpy.
    tasks : sequence

    Returns
    -------
    list
        The results, in the order of the tasks.
    """
    n_threads = torch.get_num_threads()
    if min(n_threads, len(tasks)) <= 1:
        return [function(task) for task in tasks]
    try:
        with (
            threadpool_limits(1, user_api="blas"),
            ThreadPoolExecutor(min(n_threads, len(tasks)), initializer=torch.set_num_threads, initargs=(1,)) as pool,
        ):
            return list(pool.map(function, tasks))
    finally:
        # The number is each thread's own, but threads to come start with the last one that was set.
        torch.set_num_threads(n_threads)
