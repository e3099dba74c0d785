"""Tests of lmgp.utils.parallel: results must not depend on threads, and no thread may find another's settings."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    RandomFourierFeatures,
    TaylorFeatures,
)
from lmgp.utils.parallel import ahead, parallel_map, single_threaded_blas, unless_abandoned


@pytest.fixture(params=[1, 2, 3])
def n_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_results_come_in_the_order_of_the_tasks(n_threads: int) -> None:
    assert parallel_map(lambda task: task**2, range(20)) == [task**2 for task in range(20)]
    assert parallel_map(lambda task: task, []) == []


def test_each_task_has_one_thread_and_the_setting_is_restored(n_threads: int) -> None:
    inside = parallel_map(lambda _: torch.get_num_threads(), range(6))
    assert set(inside) == {1}
    assert torch.get_num_threads() == n_threads


def test_errors_reach_the_caller(n_threads: int) -> None:
    def fail(task: int) -> int:
        if task == 3:
            raise ValueError("task 3")
        return task

    with pytest.raises(ValueError, match="task 3"):
        parallel_map(fail, range(6))
    assert torch.get_num_threads() == n_threads


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def set_blas_threads(n: int) -> None:
    # In a thread that ends, so that none is left that holds the limit.
    thread = threading.Thread(target=threadpool_limits, args=(n, "blas"))
    thread.start()
    thread.join()


@pytest.fixture
def three_blas_threads() -> Iterator[None]:
    (before,) = blas_threads()
    set_blas_threads(3)
    yield
    set_blas_threads(before)


@pytest.mark.usefixtures("three_blas_threads")
@pytest.mark.parametrize("last_to_leave", [0, 1])
def test_the_last_of_several_threads_restores_the_blas(last_to_leave: int) -> None:
    leave = [threading.Event(), threading.Event()]
    entered = threading.Barrier(3)

    def hold(number: int) -> None:
        with single_threaded_blas(), single_threaded_blas():
            entered.wait(timeout=30)
            leave[number].wait(timeout=30)

    with ThreadPoolExecutor(2) as pool:
        holding = [pool.submit(hold, number) for number in (0, 1)]
        entered.wait(timeout=30)
        assert blas_threads() == {1}
        for number in (1 - last_to_leave, last_to_leave):
            assert blas_threads() == {1}
            leave[number].set()
            holding[number].result(timeout=30)
    assert blas_threads() == {3}


@pytest.mark.usefixtures("three_blas_threads")
def test_calls_at_the_same_time_leave_all_settings_as_they_were(n_threads: int) -> None:
    numbers = (1, 2, 4)

    def call(own: int) -> tuple[list[int], int]:
        torch.set_num_threads(own)
        found = [parallel_map(lambda task: task + own, range(5)) for _ in range(20)]
        assert all(values == list(range(own, own + 5)) for values in found)
        return [torch.get_num_threads() for _ in range(3)], own

    with ThreadPoolExecutor(len(numbers)) as pool:
        for found, own in pool.map(call, numbers):
            assert found == [own] * 3
    assert torch.get_num_threads() == n_threads
    assert blas_threads() == {3}


def test_a_thread_that_starts_while_tasks_run_has_all_its_torch_threads(n_threads: int) -> None:
    if n_threads == 1:
        pytest.skip("all tasks run in the calling thread")

    def of_a_fresh_thread(_: int) -> int:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(torch.get_num_threads).result()

    assert set(parallel_map(of_a_fresh_thread, range(6))) == {n_threads}


def test_a_call_within_a_task_stays_in_its_thread(n_threads: int) -> None:
    def threads(_: int) -> tuple[int, list[int]]:
        return threading.get_ident(), parallel_map(lambda _: threading.get_ident(), range(4))

    if n_threads == 1:
        pytest.skip("all tasks run in the calling thread")
    for outer, inner in parallel_map(threads, range(4)):
        assert inner == [outer] * 4


def test_tasks_that_nobody_waits_for_end_at_their_next_item(n_threads: int) -> None:
    """As after Ctrl-C, which is raised in the thread that waits."""
    if n_threads == 1:
        pytest.skip("all tasks run in the calling thread")
    begun, items = threading.Event(), list[int]()

    def task(number: int) -> None:
        if number == 0:
            begun.wait(10.0)
            raise ValueError("stop")
        for item in unless_abandoned(range(1000)):
            items.append(item)
            begun.set()
            sleep(0.01)

    with pytest.raises(ValueError, match="stop"):
        parallel_map(task, [0, 1])
    assert 0 < len(items) < 500
    assert list(unless_abandoned("abc")) == ["a", "b", "c"]


@pytest.mark.slow
def test_models_do_not_depend_on_threads(n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmgp.utils.memory.CHUNK_BYTES", 64 * 8 * 50)  # many chunks of 50 rows
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 8.0, size=(400, 2))
    y = np.sin(X).sum(axis=1) + 0.1 * rng.standard_normal(400)
    given = {"kernel": GaussianKernel(1.0), "noise_variance": 0.01, "random_state": 0}
    for model in (
        LocalizedGPRegressor(TaylorFeatures(105), threshold=0.5, **given),
        FeaturizedGPRegressor(RandomFourierFeatures(64), **given),
    ):
        torch.set_num_threads(n_threads)
        first, second = (model.fit(X, y).predict(X[:50], return_std=True) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        torch.set_num_threads(1)
        np.testing.assert_allclose(first, model.fit(X, y).predict(X[:50], return_std=True), rtol=1e-7, atol=1e-9)


def test_learning_is_the_same_with_any_number_of_threads(n_threads: int) -> None:
    X = np.linspace(0.0, 6.0, 60)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    model = ExactGPRegressor(random_state=0).fit(X, y)
    torch.set_num_threads(1)
    alone = ExactGPRegressor(random_state=0).fit(X, y)
    assert model.kernel_.lengthscale == pytest.approx(alone.kernel_.lengthscale, rel=1e-6)
    assert model.log_marginal_likelihood_ == pytest.approx(alone.log_marginal_likelihood_, rel=1e-9)


def test_items_are_made_ahead_and_errors_come_in_their_place() -> None:
    made: list[int] = []
    asked = threading.Event()

    def items() -> Iterator[int]:
        for i in range(3):
            made.append(i)
            if i == 1:
                asked.set()
            yield i
        raise OSError("the fourth")

    found = ahead(items())
    assert next(found) == 0
    assert asked.wait(10.0)  # before the second item is asked for
    assert [next(found), next(found)] == [1, 2]
    with pytest.raises(OSError, match="the fourth"):
        next(found)
    assert made == [0, 1, 2]
    assert list(ahead(iter([]))) == []


def test_blas_has_one_thread_where_the_caller_holds_a_limit() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threadpool_limits(2, user_api="blas"):
            assert parallel_map(lambda _: blas_threads(), range(4)) == [{1}] * 4
            assert blas_threads() == {2}
    finally:
        torch.set_num_threads(before)
