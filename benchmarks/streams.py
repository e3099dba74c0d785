"""Fits to rows that are read from a Parquet file in chunks: seconds, and the peak of memory.

Run: ``python benchmarks/streams.py spectral --rows 10000000``; ``localized``, ``featurized`` (1,000,000 × 8 rows,
beside numpy's FᵀF), ``update`` (1,000 rows into a model of 1,000,000) and ``chosen`` (GPRegressor, which learns from
20,000 rows, chooses, and sums all) are the others.
"""

import argparse
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import finufft
import numpy as np
import pandas as pd

import lmgp
from lmgp import (
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    RandomFourierFeatures,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.io.sources import Chunk

EXTENT = 40.0
GIVEN: dict[str, Any] = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1}


def drawn(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(0.0, EXTENT, (n, 2))
    return X, np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.3 * rng.normal(size=n)


def written(path: Path, n: int, target: Callable[[np.ndarray], np.ndarray] | None = None) -> Path:
    """Write a file of n rows, part by part."""
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in ("a", "b", "y")])
    with parquet.ParquetWriter(path, schema, compression="none") as writer:
        for start in range(0, n, 2**18):
            X, y = drawn(min(2**18, n - start), rng)
            y = y if target is None else target(X)
            writer.write_table(pyarrow.table({"a": X[:, 0], "b": X[:, 1], "y": y}, schema=schema))
    return path


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def stream(kind: str, n: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = written(Path(folder) / "rows.parquet", n)
        source = lmgp.io.open_dataset(file, target="y")
        start = perf_counter()
        chunks = 0
        for chunk in source.chunks():
            chunks += len(chunk.y)
        reading = perf_counter() - start
        print(f"{kind}, {n:,} rows; before: {peak():.2f} GiB; reading {reading:.1f} s", flush=True)
        model: Any = SpectralGPRegressor(**GIVEN)
        if kind == "localized":
            model = LocalizedGPRegressor(TaylorFeatures(66), threshold=1.5, **GIVEN)
        start = perf_counter()
        model.fit(source)
        fit = perf_counter() - start
        print(f"fit {fit:.1f} s, peak {peak():.2f} GiB", flush=True)
        start = perf_counter()
        model.predict(drawn(10_000, np.random.default_rng(1))[0], return_std=True)
        print(f"predictions {perf_counter() - start:.1f} s, peak {peak():.2f} GiB", flush=True)
    if kind == "spectral":
        plan, iterations = model.sums_.plan, model.error_.n_iterations
        modes, eps = plan.modes, plan.transform_tolerance
        X, y = drawn(n, np.random.default_rng(0))
        strengths = (np.ones(n) + 1j * y).astype(np.complex128)
        size = tuple(4 * int(m) + 1 for m in modes.counts)
        angles = modes.angles(X)
        start = perf_counter()
        finufft.nufft2d1(*angles, strengths, size, eps=eps, nthreads=1, isign=-1, modeord=1)
        one = perf_counter() - start
        print(
            f"{modes.n_modes:,} modes, {iterations} iterations; one transform {one:.1f} s, {fit / (reading + one):.2f}"
        )


def featurized(n: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 8))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    model = FeaturizedGPRegressor(
        RandomFourierFeatures(1024, random_state=0), kernel=GaussianKernel(3.0), noise_variance=0.1
    )
    chunk = 2**14
    F = rng.normal(size=(chunk, 1024))
    start = perf_counter()
    total = np.zeros((1024, 1024))
    for _ in range(0, n, chunk):
        total += F.T @ F
    numpy = perf_counter() - start
    start = perf_counter()
    model.fit((X[i : i + chunk], y[i : i + chunk]) for i in range(0, n, chunk))
    fit = perf_counter() - start
    print(f"featurized, {n:,} × 8 rows, D = 1024: {fit:.1f} s, numpy's F.T @ F {numpy:.1f} s, ratio {fit / numpy:.2f}")


def update(n: int) -> None:
    X, y = drawn(n + 1000, np.random.default_rng(0))
    for model in (SpectralGPRegressor(**GIVEN), LocalizedGPRegressor(TaylorFeatures(66), threshold=1.5, **GIVEN)):
        start = perf_counter()
        model.fit(X[:n], y[:n])
        fit = perf_counter() - start
        inside = X[n:] * 0.9 + 1.0
        start = perf_counter()
        model.partial_fit(inside, y[n:])
        first = perf_counter() - start
        start = perf_counter()
        model.partial_fit(inside, y[n:])
        second = perf_counter() - start
        print(f"{type(model).__name__}: fit {fit:.2f} s, partial_fit {first:.4f} and {second:.4f} s, {first / fit:.4f}")


def chosen(n: int) -> None:
    """Fit GPRegressor to waves of a lengthscale of 1 in a noise of 0.5: seconds of each pass, and errors."""
    rng = np.random.default_rng(0)
    waves, phases = rng.normal(size=(2, 64)), rng.uniform(0.0, 2.0 * np.pi, 64)

    def function(X: np.ndarray) -> np.ndarray:
        return np.cos(X @ waves + phases).sum(axis=1) / np.sqrt(32.0)

    with tempfile.TemporaryDirectory() as folder:
        file = written(Path(folder) / "rows.parquet", n, lambda X: function(X) + 0.5 * rng.normal(size=len(X)))
        source = lmgp.io.open_dataset(file, target="y")
        start = perf_counter()
        for _ in source.chunks():
            pass
        print(f"{n:,} rows; before: {peak():.2f} GiB; reading alone {perf_counter() - start:.2f} s", flush=True)
        passes: list[float] = []  # when each began and ended
        read = source.chunks

        def timed() -> Iterator[Chunk]:
            passes.append(perf_counter())
            yield from read()
            passes.append(perf_counter())

        start, source.chunks = perf_counter(), timed
        model = GPRegressor(random_state=0).fit(source)
        ended = perf_counter()
        X = rng.uniform(0.0, EXTENT, (10_000, 2))
        mean, std = model.predict(pd.DataFrame(X, columns=["a", "b"]), return_std=True)
        predicted = perf_counter() - ended
    looked, began, summed = passes[1:]
    print(
        f"fit {ended - start:.1f} s: first pass {looked - start:.2f}, learning and choice {began - looked:.1f}, "
        f"pass that sums {summed - began:.2f}, solution and noise {ended - summed:.1f}; peak {peak():.2f} GiB\n"
        f"10,000 predictions {predicted:.1f} s, peak {peak():.2f} GiB\n{model.selection_}\n{model.kernel_}\n"
        f"RMSE of the function {np.sqrt(np.mean((mean - function(X)) ** 2)):.4f}, stated {np.sqrt(np.mean(std**2)):.4f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["spectral", "localized", "featurized", "update", "chosen"])
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    if given.kind in ("spectral", "localized"):
        stream(given.kind, given.rows)
    else:
        {"featurized": featurized, "update": update, "chosen": chosen}[given.kind](given.rows)
