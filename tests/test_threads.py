"""Eight threads that fit and use two models at once: each gets what one thread gets."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

from lmgp import ExactGPRegressor, GPRegressor
from tests.properties.conftest import CASES, UPDATED, Case, Floats, Problem

N_THREADS = 8
# Two models at a time, each class beside another one.
NAMES = ["exact", "orthogonal", "localized", "nearest", "residual", "spectral", "chosen", "exact_iterative", "exact"]


def at_once(task: Callable[[int], Floats]) -> list[Floats]:
    """Run a task in threads that start together, each with its number."""
    barrier = threading.Barrier(N_THREADS)

    def run(number: int) -> Floats:
        barrier.wait(timeout=60)
        return task(number)

    with ThreadPoolExecutor(N_THREADS) as pool:
        return list(pool.map(run, range(N_THREADS)))


def fitted(case: Case, problem: Problem) -> Any:
    return case.make(problem).fit(problem.X, problem.y)


def predicted(model: Any, problem: Problem) -> Floats:
    return np.array(model.predict(problem.T[:10], return_std=True))


@pytest.mark.slow
@pytest.mark.parametrize("names", list(pairwise(NAMES)), ids="-".join)
def test_two_models_fitted_and_used_from_eight_threads(names: tuple[str, str]) -> None:
    problem = Problem.draw(120, 2, 0)
    cases = [CASES[name] for name in names]
    expected = [predicted(fitted(case, problem), problem) for case in cases]
    n_threads = torch.get_num_threads()

    def alone(i: int) -> Floats:
        return predicted(fitted(cases[i % 2], problem), problem)

    for i, found in enumerate(at_once(alone)):
        assert_near(found, expected[i % 2])
    # Then all threads share two models that none has used.
    common = [fitted(case, problem) for case in cases]
    for i, found in enumerate(at_once(lambda i: predicted(common[i % 2], problem))):
        assert_near(found, expected[i % 2])
    assert torch.get_num_threads() == n_threads


def test_two_models_that_learn_in_eight_threads() -> None:
    problem = Problem.draw(50, 1, 0)
    models = [ExactGPRegressor(random_state=0), GPRegressor(kernel="matern32", random_state=0)]

    def learned(i: int) -> Floats:
        model = clone(models[i % 2]).fit(problem.X, problem.y)
        return np.append(predicted(model, problem), model.kernel_.lengthscale)

    expected = [learned(i) for i in range(2)]
    for i, found in enumerate(at_once(learned)):
        np.testing.assert_allclose(found, expected[i % 2], rtol=1e-4, atol=1e-6)  # where the optimiser stops


@pytest.mark.parametrize("names", list(pairwise(UPDATED)), ids="-".join)
def test_two_models_whose_rows_come_and_go_in_eight_threads(names: tuple[str, str]) -> None:
    problem = Problem.draw(120, 1, 0)
    cases = [UPDATED[name] for name in names]
    common = [
        case.make(problem).set_params(**case.of_all).partial_fit(problem.X[:40], problem.y[:40]) for case in cases
    ]

    def updated(i: int) -> Floats:
        # What threads share they only read: each makes models of its own rows from it.
        part = slice(40 + 10 * i, 50 + 10 * i)
        model = common[i % 2].with_rows(problem.X[:40], problem.y[:40]).merge(common[i % 2])
        model.partial_fit(problem.X[part], problem.y[part]).forget(problem.X[:40], problem.y[:40])
        return np.concatenate([predicted(one, problem) for one in (model, common[i % 2])])

    expected = [updated(i) for i in range(N_THREADS)]
    for found, one in zip(at_once(updated), expected, strict=True):
        assert_near(found, one)


def assert_near(found: Floats, expected: Floats) -> None:
    """To rounding: products of matrices add up in another order where a thread finds another number of threads."""
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
