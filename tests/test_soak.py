"""Two hundred fits and predictions in one process: memory does not grow.

Memory is measured in a process of its own: pages that other tests freed would hide what stays behind.
"""

import gc
import multiprocessing
import weakref
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import psutil

import lmgp
from tests.properties.conftest import CASES, Case, Problem

ROUNDS = 200
# What the allocator and lazy imports need is there by then.
WARM = 50
# In MiB: pages that the allocator keeps. One model of 300 rows that stays behind in each round is 0.7 MiB.
GROWTH = 16.0
N = 300


def cases() -> list[Case]:
    """One case of each class of models."""
    made: dict[type, Case] = {}
    for case in CASES.values():
        made.setdefault(type(case.model), case)
    return list(made.values())


def resident() -> float:
    """The resident memory of this process, in MiB."""
    gc.collect()
    return float(psutil.Process().memory_info().rss) / 2**20


def growth_over_fits(path: Path) -> float:
    """MiB more after ``ROUNDS`` fits, saved and loaded, than after the first ``WARM``."""
    kinds, started = cases(), 0.0
    for number in range(ROUNDS):
        if number == WARM:
            started = resident()
        problem, case = Problem.draw(N, 2, number), kinds[number % len(kinds)]
        model = case.make(problem).fit(problem.X, problem.y)
        model.save(path)
        mean, std = lmgp.load(path).predict(problem.T, return_std=True)
        np.testing.assert_array_equal((mean, std), model.predict(problem.T, return_std=True))
    return resident() - started


def growth_by_what_is_kept(path: Path) -> float:
    """MiB more once every round after the first ``WARM`` has left one matrix of ``N`` rows behind."""
    started = resident()
    kept = [np.full((N, N), float(number)) for number in range(ROUNDS - WARM)]
    np.savez(path, *kept[:1])
    return resident() - started


def in_a_new_process(growth: Callable[[Path], float], path: Path) -> float:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(growth, path).result()


def test_memory_does_not_grow(tmp_path: Path) -> None:
    grown = in_a_new_process(growth_over_fits, tmp_path / "model.lmgp")
    assert grown < GROWTH, f"{grown:.1f} MiB more after {ROUNDS - WARM} fits"


def test_what_stays_behind_would_be_seen(tmp_path: Path) -> None:
    assert in_a_new_process(growth_by_what_is_kept, tmp_path / "kept.npz") > GROWTH


def test_a_refit_lets_go_of_the_first() -> None:
    problem = Problem.draw(N, 2, 0)
    for case in cases():
        model = case.make(problem).fit(problem.X, problem.y)
        model.predict(problem.T, return_std=True)
        first = weakref.ref(model._fitted)
        model.fit(problem.X, problem.y)
        gc.collect()
        assert first() is None, type(model).__name__
