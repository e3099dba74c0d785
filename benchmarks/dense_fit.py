"""How far a dense fit is from its limit: the Gram product of its features.

Measures, in one process and side by side, the time of a whole `FeaturizedGPRegressor.fit` and of numpy's ``F.T @ F``
for an array of the features' size, and the peak memory of a fit above that of its input.

    python benchmarks/dense_fit.py [--rows 200000] [--columns 8] [--features 1024] [--repeats 5]

Writes benchmarks/results/dense_fit.json: every run, and the environment.
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from time import perf_counter

import numpy as np
import sklearn
import torch
from threadpoolctl import threadpool_info

from lmgp import FeaturizedGPRegressor, GaussianKernel, OrthogonalFourierFeatures, RandomFourierFeatures, TaylorFeatures

MAPS = {"rff": RandomFourierFeatures, "orf": OrthogonalFourierFeatures, "taylor": TaylorFeatures}
RESULTS = Path(__file__).parent / "results" / "dense_fit.json"


def make_rows(n_rows, n_columns):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns))
    return X, np.sin(X.sum(axis=1)) + 0.1 * rng.standard_normal(n_rows)


def model(name, n_features):
    return FeaturizedGPRegressor(
        MAPS[name](n_features), kernel=GaussianKernel(3.0), noise_variance=0.01, random_state=0
    )


def resident():
    """The memory that this process holds now, in MiB (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def peak_above_input(name, args):
    """The largest resident memory during a fit, less that just before it, in MiB; run in a process of its own."""
    X, y = make_rows(args.rows, args.columns)
    model(name, args.features).fit(X[:1000], y[:1000])  # what the libraries take for themselves, once
    before, samples, done = resident(), [], threading.Event()

    def watch():
        while not done.wait(0.002):
            samples.append(resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    model(name, args.features).fit(X, y)
    done.set()
    watcher.join()
    return max(samples) - before


def seconds(action):
    start = perf_counter()
    action()
    return perf_counter() - start


def environment():
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "torch threads": torch.get_num_threads(),
        "blas": [{key: pool[key] for key in ("internal_api", "version", "num_threads")} for pool in threadpool_info()],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--features", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-of", choices=MAPS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory_of:
        print(peak_above_input(args.memory_of, args))
        return

    X, y = make_rows(args.rows, args.columns)
    runs = []
    for name in MAPS:
        fitted = model(name, args.features).fit(X[:1000], y[:1000])
        columns = fitted.features_.n_features_out_
        F = np.random.default_rng(0).standard_normal((args.rows, columns))
        _ = F.T @ F
        memory = subprocess.run(
            [sys.executable, *sys.argv, "--memory-of", name], check=True, capture_output=True, text=True
        ).stdout
        for _ in range(args.repeats):
            gram = seconds(lambda F=F: F.T @ F)
            fit = seconds(lambda name=name: model(name, args.features).fit(X, y))
            runs.append({"map": name, "columns": columns, "fit_s": fit, "gram_s": gram, "ratio": fit / gram})
            print(f"{name}: D = {columns}, fit {fit:.2f} s, F.T @ F {gram:.2f} s, ratio {fit / gram:.2f}")
        ratio = statistics.median(run["ratio"] for run in runs if run["map"] == name)
        runs.append({"map": name, "columns": columns, "median_ratio": ratio, "peak_mib_above_input": float(memory)})
        print(f"{name}: median ratio {ratio:.2f}, peak memory above the input {float(memory):.0f} MiB")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"command": sys.argv, "environment": environment(), "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
