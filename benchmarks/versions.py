"""Every model's fit and predictions, beside those of another checkout of the package.

Two processes of one thread each, one with the package here and one with that of OTHER, fit and predict the same rows in
turns: kernel and noise are given, so that both compute the same. A line has the median over the pairs of the ratio of
processor seconds, here to there, with the smallest and the largest; for the fit, for means and standard deviations, and
for both together.

    git worktree add ../other COMMIT
    python benchmarks/versions.py ../other [--only CASE ...] [--pairs 5]

Writes benchmarks/results/versions.json: the ratios, the seconds of each pair, and the environment.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

# What both processes run: the models, by names that both checkouts have.
WORKER = """
import json, sys, time
import numpy as np
import lmgp
import torch
torch.set_num_threads(1)

GIVEN = {"kernel": lmgp.MaternKernel(1.0), "noise_variance": 0.1}
GAUSSIAN = {"kernel": lmgp.GaussianKernel(1.0), "noise_variance": 0.1}
TAYLOR = lmgp.TaylorFeatures(165)
CASES = {
    "exact": (lmgp.ExactGPRegressor(**GIVEN), 3_000, 1_000, 3),
    "exact, linear trend": (lmgp.ExactGPRegressor(**GIVEN, trend="linear"), 3_000, 1_000, 3),
    "iterative": (lmgp.ExactGPRegressor(**GIVEN, solver="iterative", random_state=0), 6_000, 500, 3),
    "nearest": (lmgp.NearestNeighborsGPRegressor(64, **GIVEN), 20_000, 5_000, 3),
    "residual": (lmgp.ResidualGPRegressor(lmgp.NystroemFeatures(256), **GIVEN, random_state=0), 6_000, 1_000, 3),
    "featurized": (
        lmgp.FeaturizedGPRegressor(lmgp.OrthogonalFourierFeatures(1024), **GIVEN, random_state=0), 50_000, 10_000, 8
    ),
    "featurized Taylor": (lmgp.FeaturizedGPRegressor(TAYLOR, **GAUSSIAN, random_state=0), 50_000, 10_000, 3),
    "localized Taylor": (lmgp.LocalizedGPRegressor(TAYLOR, **GAUSSIAN, random_state=0), 20_000, 5_000, 3),
    "localized Fourier": (
        lmgp.LocalizedGPRegressor(lmgp.OrthogonalFourierFeatures(128), **GAUSSIAN, random_state=0), 10_000, 2_000, 3
    ),
    "spectral": (lmgp.SpectralGPRegressor(**GAUSSIAN, random_state=0), 50_000, 5_000, 2),
    "chosen": (lmgp.GPRegressor(**GIVEN, random_state=0), 5_000, 1_000, 3),
}

def seconds(action):
    start = time.process_time()
    action()
    return time.process_time() - start

def measure(name):
    model, n, m, d = CASES[name]
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 5.0, (n + m, d))
    y = np.sin(X @ rng.normal(size=(d, 20))).sum(axis=1) + 0.3 * rng.normal(size=n + m)
    fit = seconds(lambda: model.fit(X[:n], y[:n]))
    return {"fit": fit, "prediction": seconds(lambda: model.predict(X[n:], return_std=True))}

print(json.dumps(list(CASES)), flush=True)
for line in sys.stdin:
    print(json.dumps(measure(line.strip())), flush=True)
"""
HERE = Path(__file__).resolve().parents[1]


class Worker:
    """A process with the package of one checkout."""

    def __init__(self, checkout):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", WORKER],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **threads, "PYTHONPATH": str(checkout)}, cwd=checkout,
        )  # fmt: skip
        self.cases = json.loads(self.process.stdout.readline())

    def measure(self, case):
        """Return the seconds of a fit and of predictions of one model."""
        self.process.stdin.write(f"{case}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def compared(case, here, there, n_pairs):
    """Return the ratios of one model, and the seconds of each pair; a first pair, which loads libraries, counts not."""
    pairs = []
    for i in range(n_pairs + 1):
        workers = (here, there) if i % 2 else (there, here)
        of_worker = {worker: worker.measure(case) for worker in workers}
        pairs.append((of_worker[here], of_worker[there]))
    row = {"case": case, "pairs": n_pairs}
    for name, parts in {"fit": ["fit"], "prediction": ["prediction"], "both": ["fit", "prediction"]}.items():
        ratios = [sum(new[part] for part in parts) / sum(old[part] for part in parts) for new, old in pairs[1:]]
        row |= {name: round(median(ratios), 3), f"{name}, range": [round(min(ratios), 3), round(max(ratios), 3)]}
    seconds = [{"case": case, "here": new, "there": old} for new, old in pairs[1:]]
    return row, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path, help="the other checkout's folder")
    parser.add_argument("--only", nargs="+", metavar="CASE")
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    here, there = Worker(HERE), Worker(arguments.other.resolve())
    rows, seconds = [], []
    for case in arguments.only or here.cases:
        row, of_pairs = compared(case, here, there, arguments.pairs)
        rows.append(row)
        seconds += of_pairs
        print(row, flush=True)
    other = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=arguments.other, capture_output=True, text=True, check=True
    )
    from common import write

    write("versions", {"ratios": rows, "seconds": seconds}, other=other.stdout.strip())


if __name__ == "__main__":
    main()
