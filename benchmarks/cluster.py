"""Fits to dask collections: seconds on one and on two workers of one thread each, and the bytes that are moved.

Run: ``python benchmarks/cluster.py speed``, and ``python benchmarks/cluster.py bytes``. (The name of this file is not
that of the package that it imports.) Rows are made on the workers, in the tasks that sum them: their time counts.
"""

import argparse
import os
import pickle
from contextlib import ExitStack
from dataclasses import replace
from time import perf_counter
from typing import Any

import dask.array as da
import numpy as np
from common import write
from dask.distributed import Client, LocalCluster
from sklearn.base import clone

from lmgp import (
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    RandomFourierFeatures,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.data import Rows

EXTENT = 40.0
GIVEN: dict[str, Any] = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1}
# The model, its columns, rows that take some seconds on one thread, and partitions.
MODELS: dict[str, tuple[Any, int, int, int]] = {
    "featurized": (
        FeaturizedGPRegressor(
            RandomFourierFeatures(1024, random_state=0), kernel=GaussianKernel(3.0), noise_variance=0.1
        ),
        8,
        640_000,
        32,
    ),
    "localized": (LocalizedGPRegressor(TaylorFeatures(66), threshold=1.5, **GIVEN), 2, 16_000_000, 32),
    "spectral": (SpectralGPRegressor(**GIVEN), 2, 32_000_000, 32),
}


def block(n: int, d: int, block_id: tuple[int, ...] = (0, 0)) -> np.ndarray:
    """Make the rows of a partition, with their targets in the last column."""
    rng = np.random.default_rng(block_id[0])
    X = rng.uniform(0.0, EXTENT, (n, d))
    return np.column_stack((X, np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.3 * rng.normal(size=n)))


def rows(n: int, d: int, n_partitions: int) -> tuple[Any, Any]:
    sizes = (n // n_partitions,) * n_partitions
    made = da.map_blocks(block, sizes[0], d, dtype=float, chunks=(sizes, (d + 1,)), meta=np.empty((0, d + 1)))
    return made[:, :d], made[:, d]


def load(model: Any, d: int) -> None:
    """Fit to a few rows, on a worker: what is imported and made at the first call takes seconds."""
    made = block(1_000, d)
    clone(model).fit([(made[:, :d], made[:, d])])


def speed(kinds: list[str], share: float, repeats: int) -> None:
    """Fit on a cluster of one worker and on one of two, in turns, each once its workers have loaded the libraries."""
    found: list[dict[str, Any]] = []
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with ExitStack() as stack:
        clusters = {k: stack.enter_context(LocalCluster(n_workers=k, **options)) for k in (1, 2)}
        clients = {k: stack.enter_context(Client(cluster)) for k, cluster in clusters.items()}
        for kind in kinds:
            model, d, n, n_partitions = MODELS[kind]
            n, seconds = int(n * share), {1: [], 2: []}
            for client in clients.values():
                client.run(load, model, d)
            for _ in range(repeats):
                for k, client in clients.items():
                    start = perf_counter()
                    model.fit(*rows(n, d, n_partitions), client=client)
                    seconds[k].append(perf_counter() - start)
            best = {k: min(times) for k, times in seconds.items()}
            row = {"model": kind, "rows": n, "one": best[1], "two": best[2], "ratio": best[1] / best[2]}
            found.append(row)
            told = f"{kind:10}  {n:,} rows: 1 worker {best[1]:.2f} s, 2 workers {best[2]:.2f} s"
            print(f"{told}, ratio {row['ratio']:.2f}; load of the machine {os.getloadavg()[0]:.1f}", flush=True)
    write("cluster", {"speed": found})


def moved() -> None:
    """Measure what is pickled of a model of 100,000 rows."""
    found = []
    for kind, (model, d, *_) in MODELS.items():
        made = block(100_000, d)
        fit = model.fit([(made[:, :d], made[:, d])])._fitted
        rows = fit.checked(Rows(made[:, :d], made[:, d]))
        part, whole = (fit.summing().sums.of(some) for some in (rows.take(slice(10_000)), rows))
        sent = replace(fit.solved, sums=None)  # as a prediction of a collection sends it
        sizes = [len(pickle.dumps(state)) / 2**20 for state in (fit.summing(), part, whole, sent)]
        names = ("to_workers", "sums_of_10000", "sums", "to_predict")
        found.append({"model": kind, **dict(zip(names, sizes, strict=True))})
        print(f"{kind:10}  MiB: " + ", ".join(f"{name} {size:.2f}" for name, size in zip(names, sizes, strict=True)))
    write("cluster", {"bytes": found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["speed", "bytes"])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.what == "bytes":
        moved()
    else:
        speed(arguments.models, arguments.share, arguments.repeats)
