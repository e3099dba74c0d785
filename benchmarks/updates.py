"""How long a prediction of one row takes while rows come and go 20 times a second, in one process.

Run: ``OMP_NUM_THREADS=1 python benchmarks/updates.py [--models nearest residual]``. The models are of nearest rows
and, with a tenth as many rows of eight columns, of a map and residuals. One thread predicts the mean and the standard
deviation of one row after another. A second thread updates the model in one of four ways:

- It does nothing.
- It adds 10 rows, 20 times a second.
- It adds 10 rows and forgets the 10 oldest ones, 20 times a second.
- It adds an eighth as many rows at once, 125,001 of 1,000,000, so that a new search tree of all rows is made.

For each way the script prints and keeps, in milliseconds, the percentiles of the time that a prediction takes, of its
processor time without waiting, and of the time that an update takes; and the peak memory of the process in GiB.
"""

import argparse
import os
import resource
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import torch
from common import write, write_table
from sklearn.base import clone

from lmgp import MaternKernel, NearestNeighborsGPRegressor, NystroemFeatures, ResidualGPRegressor
from lmgp.neighbours.forest import RATIO

# The side of the box of the rows by the number of columns, in lengthscales.
EXTENT = {2: 300.0, 8: 4.0}
PER_SECOND, ROWS = 20, 10
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def drawn(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(0.0, EXTENT[d], (n, d))
    return X, np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.1 * rng.normal(size=n)


def resident() -> float:
    """The memory that the process holds, in GiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**30


def milliseconds(seconds: list[float], name: str) -> dict[str, float]:
    return {f"{name}_{key}": round(1e3 * float(np.quantile(seconds, q)), 3) for key, q in QUANTILES.items()}


def reading(model: Any, T: np.ndarray, write_rows: Callable[[Event], list[float]]) -> dict[str, Any]:
    """Predict one row after another until what writes is done; return what predictions and updates took."""
    ended, taken, processor, held = Event(), list[float](), list[float](), resident()

    def read() -> None:
        number = 0
        while not ended.is_set():
            row = T[number % len(T)][None]
            start, worked = perf_counter(), thread_time()
            model.predict(row, return_std=True)
            taken.append(perf_counter() - start)
            processor.append(thread_time() - worked)
            number += 1

    reader, start = Thread(target=read), perf_counter()
    reader.start()
    updates = write_rows(ended)
    seconds = perf_counter() - start
    ended.set()
    reader.join()
    found = {
        "load": os.getloadavg()[0],
        "predictions": len(taken),
        "updates": len(updates),
        **milliseconds(taken, "prediction"),
    }
    found |= milliseconds(taken, "prediction") | milliseconds(processor, "processor")
    found |= milliseconds(updates, "update") if updates else {}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {**found, "seconds": round(seconds, 2), "gib_before": held, "gib_after": resident(), "gib_peak": peak}


def measured(model: Any, n: int, d: int, seconds: float) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    T = drawn(1000, d, rng)[0]
    start = perf_counter()
    model.fit(*drawn(n, d, rng))
    fitted = perf_counter() - start
    for _ in range(2):  # what is compiled, is
        model.predict(T[:1], return_std=True)

    def paced(update: Callable[[], None]) -> Callable[[Event], list[float]]:
        def write_rows(ended: Event) -> list[float]:
            taken, first = [], perf_counter()
            for number in range(int(seconds * PER_SECOND)):
                ended.wait(max(0.0, first + number / PER_SECOND - perf_counter()))
                start = perf_counter()
                update()
                taken.append(perf_counter() - start)
            return taken

        return write_rows

    def nothing(ended: Event) -> list[float]:
        ended.wait(seconds)
        return []

    def add() -> None:
        model.partial_fit(*drawn(ROWS, d, rng))

    def add_and_forget() -> None:
        model.partial_fit(*drawn(ROWS, d, rng)).forget(keep=n)

    def plant(ended: Event) -> list[float]:
        more = drawn(n // RATIO + 1, d, rng)
        start = perf_counter()
        model.partial_fit(*more)
        return [perf_counter() - start]

    cases = {
        "no updates": nothing,
        "rows come": paced(add),
        "rows come and go": paced(add_and_forget),
        "a new tree of all": plant,
    }
    results = []
    for case, write_rows in cases.items():
        found = {"rows": n, "columns": d, "case": case, "fit_seconds": fitted, **reading(model, T, write_rows)}
        results.append(found)
        told = ", ".join(
            f"{name} " + " / ".join(f"{found[f'{name}_{key}']:.2f}" for key in QUANTILES)
            for name in ("prediction", "processor", "update")
            if f"{name}_p50" in found
        )
        print(
            f"{n:,} × {d}, {case}: {told} ms (p50 / p95 / p99 / max), {found['predictions']:,} predictions, "
            f"{found['updates'] / found['seconds']:.1f} updates a second, {found['gib_after']:.2f} GiB",
            flush=True,
        )
    return results


def lines(results: list[dict[str, Any]]) -> list[str]:
    """The table of the page."""
    of_each = ("prediction_p50", "prediction_p95", "prediction_p99", "prediction_max", "processor_p50", "processor_p99")
    heads = ("columns", "meanwhile", "p50", "p95", "p99", "max", "processor p50", "p99", "update p50", "p99", "GiB")
    table = ["| " + " | ".join(heads) + " |", "|---:|---" + "|---:" * (len(heads) - 2) + "|"]
    for one in results:
        updates = [f"{one[f'update_{key}']:.1f}" if one["updates"] else "" for key in ("p50", "p99")]
        numbers = [*(f"{one[key]:.1f}" for key in of_each), *updates, f"{one['gib_after']:.2f}"]
        table.append(f"| {one['columns']} | {one['case']} | " + " | ".join(numbers) + " |")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--models", nargs="+", choices=("nearest", "residual"), default=("nearest", "residual"))
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it works; keeps nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    n, seconds = (20_000, 2.0) if args.quick else (args.rows, args.seconds)
    given = {"kernel": MaternKernel(1.0, smoothness=1.5), "noise_variance": 0.01}
    residual = ResidualGPRegressor(NystroemFeatures(256), 32, **given, random_state=0)
    models = {
        "nearest": (NearestNeighborsGPRegressor(**given), n, tuple(EXTENT), "latencies", "nearest_rows.md"),
        "residual": (residual, n // 10, (8,), "latencies_of_residuals", "residual.md"),
    }
    for name in args.models:
        model, n_rows, columns, table, page = models[name]
        results = [one for d in columns for one in measured(clone(model), n_rows, d, seconds)]
        if not args.quick:
            write("updates", {table: results})
            write_table(page, "latencies", lines(results))


if __name__ == "__main__":
    main()
