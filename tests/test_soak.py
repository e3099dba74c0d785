"""A hundred fits and predictions, and as many updates, in one process: memory does not grow.

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
import pytest

import lmgp
from tests.properties.conftest import CASES, UPDATED, Case, Problem

ROUNDS = 100
# What the allocator and lazy imports need is there by then.
WARM = 40
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


def growth_over_updates(path: Path) -> float:
    """MiB more after ``ROUNDS`` updates, taken back again, than after the first ``WARM``.

    Each model then predicts what it did before them, to 1e-8: taking rows out loses no digits in the long run.
    """
    problem = Problem.draw(N, 1, 0)
    later = [(part.X, part.y) for part in map(problem.rows, np.array_split(np.arange(100, N), 4))]
    models = []
    for case in UPDATED.values():
        first = problem.rows(slice(0, 100))
        models.append(case.make(first).set_params(**case.of_all).partial_fit(first.X, first.y))
    before, started = [model.predict(problem.T[:10]) for model in models], 0.0
    for number in range(ROUNDS):
        if number == WARM:
            started = resident()
        model, some, others = models[number % len(models)], later[number % 4], later[(number + 1) % 4]
        model.partial_fit(*some).merge(model.with_rows(*others)).forget(*some)
        assert np.all(np.isfinite(model.predict(problem.T[:10])))
        model.forget(*others)
    for model, means in zip(models, before, strict=True):
        np.testing.assert_allclose(model.predict(problem.T[:10]), means, rtol=0.0, atol=1e-8)
    models[0].save(path)
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


@pytest.mark.slow
@pytest.mark.parametrize("growth", [growth_over_fits, growth_over_updates])
def test_memory_does_not_grow(growth: Callable[[Path], float], tmp_path: Path) -> None:
    grown = in_a_new_process(growth, tmp_path / "model.lmgp")
    assert grown < GROWTH, f"{grown:.1f} MiB more after {ROUNDS - WARM} rounds"


@pytest.mark.slow
def test_what_stays_behind_would_be_seen(tmp_path: Path) -> None:
    assert in_a_new_process(growth_by_what_is_kept, tmp_path / "kept.npz") > GROWTH


@pytest.mark.slow
def test_a_refit_lets_go_of_the_first() -> None:
    problem = Problem.draw(N, 2, 0)
    for case in cases():
        model = case.make(problem).fit(problem.X, problem.y)
        model.predict(problem.T, return_std=True)
        first = weakref.ref(model._fitted)
        model.fit(problem.X, problem.y)
        gc.collect()
        assert first() is None, type(model).__name__
