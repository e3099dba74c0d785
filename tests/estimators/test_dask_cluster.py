"""Fits on two worker processes, of which some are killed: the results are those of this process, to the last bit."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lmgp import FeaturizedGPRegressor, GaussianKernel, TaylorFeatures
from lmgp.errors import ClusterError, InputError, StreamError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

MODEL = FeaturizedGPRegressor(TaylorFeatures(40), kernel=GaussianKernel(2.0), noise_variance=0.05)
N_BLOCKS = 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_workers(tmp_path: Path) -> None:
    """One test, of one cluster: processes take seconds to start."""
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "60s"}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        # Not the current client of other tests.
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        predictions_and_updates_on_the_current_client(client)
        a_chunk_that_cannot_be_used_leaves_the_model(client)
        a_worker_that_is_killed_changes_nothing(client, tmp_path)
        a_cluster_that_cannot_finish_leaves_the_model(client)


def rows(spoil: Any = None) -> tuple[Any, Any]:
    """Rows that are made where they are summed; `spoil` of a block and its number comes between."""

    def block(block_id: tuple[int, ...] = (0, 0)) -> np.ndarray:
        rng = np.random.default_rng(block_id[0])
        X = rng.uniform(0.0, 6.0, (60, 2))
        made = np.column_stack((X, np.sin(X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=60)))
        return made if spoil is None else spoil(made, block_id[0])

    made = da.map_blocks(block, dtype=float, chunks=((60,) * N_BLOCKS, (3,)), meta=np.empty((0, 3)))
    return made[:, :2], made[:, 2]


def here(model: Any) -> Any:
    with dask.config.set(scheduler="synchronous"):
        return clone(model).fit(*rows())


def predictions_and_updates_on_the_current_client(client: Any) -> None:
    expected, more = here(MODEL), clone(MODEL)
    with client.as_current():
        mean, std = expected.predict(rows()[0], return_std=True)
        found = np.array(dask.compute(mean, std))
        model = more.fit(*(one[:300] for one in rows())).partial_fit(*(one[300:] for one in rows()))
    np.testing.assert_array_equal(found, expected.predict(rows()[0].compute(scheduler="synchronous"), return_std=True))
    frozen = model.with_rows(*(one.compute(scheduler="synchronous") for one in rows()))
    T = np.random.default_rng(9).uniform(0.0, 6.0, (20, 2))
    np.testing.assert_allclose(model.predict(T), frozen.predict(T), rtol=0, atol=1e-8)


def a_chunk_that_cannot_be_used_leaves_the_model(client: Any) -> None:
    def bad(made: np.ndarray, number: int) -> np.ndarray:
        if number == 3:
            made[17, 1] = np.nan
        return made

    model = here(MODEL)
    before = model.predict(np.ones((2, 2)), return_std=True)
    with pytest.raises(
        StreamError, match=r"Partition 3, row 17 of it, row 197 of all .*The model is as it was"
    ) as told:
        model.fit(*rows(bad), client=client)
    assert (told.value.chunk, told.value.row) == (3, 17)
    with pytest.raises(StreamError, match=r"Partition 3, row 17 of it .*contains NaN"), client.as_current():
        model.predict(rows(bad)[0]).compute()
    with pytest.raises(InputError, match=r"client must be a distributed.Client, .*got 'tcp://host'"):
        model.fit(*rows(), client="tcp://host")
    with pytest.raises(InputError, match=r"client computes with dask collections, and X is a ndarray"):
        model.fit(np.ones((3, 2)), np.ones(3), client=client)
    np.testing.assert_array_equal(model.predict(np.ones((2, 2)), return_std=True), before)


def a_worker_that_is_killed_changes_nothing(client: Any, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    def kill(made: np.ndarray, number: int) -> np.ndarray:
        # Of the second pass, when others have been summed.
        if number == N_BLOCKS - 3:
            if first.exists() and not second.exists():
                second.touch()
                os.kill(os.getpid(), 9)
            first.touch()
        return made

    workers = set(client.ncores())
    assert len(workers) == 2
    model = clone(MODEL).fit(*rows(kill), client=client)
    assert second.exists()
    assert set(client.ncores()) != workers
    expected, T = here(MODEL), np.random.default_rng(9).uniform(0.0, 6.0, (20, 2))
    assert model.center_ == expected.center_
    np.testing.assert_array_equal(model.predict(T, return_std=True), expected.predict(T, return_std=True))


def a_cluster_that_cannot_finish_leaves_the_model(client: Any) -> None:
    def fatal(made: np.ndarray, number: int) -> np.ndarray:
        if number == 3:
            os.kill(os.getpid(), 9)
        return made

    model = here(MODEL)
    before = model.predict(np.ones((2, 2)), return_std=True)
    client.run_on_scheduler(_allow_no_failure)
    with pytest.raises(ClusterError, match=r"KilledWorker: .*The model is as it was.*smaller partitions"):
        model.fit(*rows(fatal), client=client)
    np.testing.assert_array_equal(model.predict(np.ones((2, 2)), return_std=True), before)


def _allow_no_failure(dask_scheduler: Any) -> None:
    dask_scheduler.allowed_failures = 0
