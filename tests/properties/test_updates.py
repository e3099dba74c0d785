"""Properties of models that take rows in chunks, later, from other models, and out again: only the rows count."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.conftest import UPDATED, Floats, Problem

FEW = settings(max_examples=4, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(0, 2**32 - 1)

every_case = pytest.mark.parametrize("name", UPDATED)


def drawn(name: str, n: int, d: int, seed: int) -> tuple[Any, Problem, np.random.Generator]:
    """A model that is not fitted, a problem with weights half of the time, and what draws the rest."""
    case, rng = UPDATED[name], np.random.default_rng(seed)
    problem = Problem.draw(n, min(d, case.most_columns), seed)
    if seed % 2:
        problem = Problem(**{**vars(problem), "weights": rng.uniform(0.5, 2.0, n)})
    model = case.make(problem).set_params(**case.of_all)
    if name == "spectral":
        model.set_params(box=np.stack((problem.X.min(axis=0), problem.X.max(axis=0))))
    return model, problem, rng


def given_rows(problem: Problem, index: Any) -> tuple[Any, ...]:
    """Some rows, as arguments of `fit`."""
    some = problem.rows(index)
    return (some.X, some.y) if some.weights is None else (some.X, some.y, some.weights)


def parts(index: Any, rng: np.random.Generator) -> list[Any]:
    """Rows in another order, in chunks of any sizes."""
    cuts = np.sort(rng.integers(1, len(index), rng.integers(0, 5)))
    return [part for part in np.split(rng.permutation(index), cuts) if len(part)]


def predicted(model: Any, problem: Problem) -> Floats:
    """Means in prior standard deviations and variances in prior variances, in the box of the rows."""
    mean, std = model.predict(problem.T[:10], return_std=True)
    return np.stack((mean / problem.variance**0.5, std**2 / problem.variance))


def assert_same(one: Any, other: Any, problem: Problem) -> None:
    np.testing.assert_allclose(predicted(one, problem), predicted(other, problem), rtol=0.0, atol=1e-8)


@every_case
@FEW
@given(n=st.integers(20, 90), d=st.integers(1, 4), seed=SEEDS)
def test_chunks_that_come_later_in_any_order_are_one_fit(name: str, n: int, d: int, seed: int) -> None:
    model, problem, rng = drawn(name, n, d, seed)
    model.partial_fit(*given_rows(problem, np.arange(10)))
    whole = model.with_rows(*given_rows(problem, np.arange(n)))
    for part in parts(np.arange(10, n), rng):
        model.partial_fit(*given_rows(problem, part))
    assert_same(model, whole, problem)


@pytest.mark.slow
@every_case
@FEW
@given(n=st.integers(20, 90), d=st.integers(1, 3), seed=SEEDS)
def test_a_fit_to_chunks_is_the_fit_to_all_rows(name: str, n: int, d: int, seed: int) -> None:
    model, problem, rng = drawn(name, n, d, seed)
    stream = deepcopy(model).fit([given_rows(problem, part) for part in parts(np.arange(n), rng)])
    if name == "localized":  # the cubes of a stream
        model.set_params(centroids=stream.centroids_)
    assert_same(stream, model.fit(*given_rows(problem, np.arange(n))), problem)


@every_case
@FEW
@given(n=st.integers(20, 90), d=st.integers(1, 4), seed=SEEDS)
def test_rows_that_are_forgotten_never_came(name: str, n: int, d: int, seed: int) -> None:
    model, problem, rng = drawn(name, n, d, seed)
    before = int(rng.integers(10, n - 1))
    model.partial_fit(*given_rows(problem, np.arange(before)))
    alone, later = deepcopy(model), np.arange(before, n)
    for part in parts(later, rng):
        model.partial_fit(*given_rows(problem, part))
    first = given_rows(problem, np.arange(5))  # they are in it twice for a while
    model.partial_fit(*first).forget(*first)
    for part in parts(later, rng):
        model.forget(*given_rows(problem, part))
    assert_same(model, alone, problem)


@every_case
@FEW
@given(n=st.integers(30, 90), d=st.integers(1, 4), seed=SEEDS)
def test_models_merge_in_any_order(name: str, n: int, d: int, seed: int) -> None:
    model, problem, rng = drawn(name, n, d, seed)
    model.partial_fit(*given_rows(problem, np.arange(10)))
    index = np.array_split(rng.permutation(n), 3)
    a, b, c = (model.with_rows(*given_rows(problem, part)) for part in index)
    whole = model.with_rows(*given_rows(problem, np.arange(n)))
    left = deepcopy(a).merge(b).merge(c)
    right = deepcopy(c).merge(deepcopy(b).merge(a))
    assert_same(left, right, problem)
    assert_same(left, whole, problem)
