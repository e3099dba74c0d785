"""Tests of lmgp.parallel: results must not depend on threads."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    RandomFourierFeatures,
    TaylorFeatures,
)
from lmgp.parallel import parallel_map


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


def test_models_do_not_depend_on_threads(n_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmgp.memory.CHUNK_BYTES", 64 * 8 * 50)  # many chunks of 50 rows
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
