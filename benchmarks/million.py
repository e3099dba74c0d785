"""A localized model of 100,000 and 1,000,000 rows beside a k-d tree of the same rows: seconds, memory and divergence.

    python benchmarks/million.py [--rows N ...] [--probes 200] [--repeats 3]

Each run is a process of its own. Writes benchmarks/results/localized_million.json.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import torch
from clustering import cities
from common import RESULTS, timed
from localized import Problem, environment, made_problem, medians, ours
from scipy.spatial import cKDTree

from lmgp import GaussianKernel, LocalizedGPRegressor, TaylorFeatures
from lmgp.data import Noise, Rows
from lmgp.metrics import kl_divergence
from lmgp.posteriors.exact import ExactPosterior

# The reference: the exact GP of the nearest rows, in numbers that double until it changes by less than this.
NEIGHBOURHOODS, SMALL_CHANGE = (1000, 2000, 4000), 1e-5


def waves(X, rng):
    """Return a draw from a Gaussian process of lengthscale and variance 1 at rows, by 2,000 random waves."""
    frequencies, phases = rng.standard_normal((X.shape[1], 2000)), rng.uniform(0.0, 2.0 * np.pi, 2000)
    sums = [np.cos(part @ frequencies + phases).sum(axis=1) for part in np.array_split(X, max(1, len(X) // 500))]
    return np.concatenate(sums) * math.sqrt(2.0 / 2000)


def million_rows(n_rows):
    """Return rows in 200 cities of an extent of 100 × 100 lengthscales, noisy targets, and n_rows/10 test rows."""
    rng = np.random.default_rng(1)
    X = cities(n_rows + n_rows // 10)
    y = waves(X, rng) + math.sqrt(0.1) * rng.standard_normal(len(X))
    return {"X": X[:n_rows], "y": y[:n_rows], "X_test": X[n_rows:]}


def measure_million(path, n_probes):
    """Measure one file of `million_rows`, in a process of its own."""
    model = ours(LocalizedGPRegressor(TaylorFeatures(231), 2.0))
    model(made_problem(1000, 2), np.zeros((20, 2)))
    with np.load(path) as data:
        problem, X = Problem(data["X"], data["y"], GaussianKernel(1.0), 0.1), data["X_test"]

    def tree():
        cKDTree(problem.X).query(problem.X, k=1, workers=torch.get_num_threads())

    tree_seconds, _ = timed(tree)
    seconds, (mean, variance, _) = timed(lambda: model(problem, X))
    run = {"rows": len(problem.y), "s": seconds, "tree_s": tree_seconds, "ratio": seconds / tree_seconds}
    run["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    run["data_mib"] = (problem.X.nbytes + problem.y.nbytes + X.nbytes) / 2**20
    return run | (probe(problem, X[:n_probes], mean[:n_probes], variance[:n_probes]) if n_probes else {})


def probe(problem, X, mean, variance):
    """Compare predictions with the exact GP of 1,000 nearest rows, and of twice as many until that changes nothing."""
    center, tree = problem.y.mean(), cKDTree(problem.X)
    change, previous = math.inf, None
    for k in NEIGHBOURHOODS:
        exact = np.empty((2, len(X)))
        for row, nearest in enumerate(tree.query(X, k)[1]):
            local = Rows(problem.X[nearest], problem.y[nearest] - center)
            means, variances = ExactPosterior(problem.kernel, local, Noise(problem.noise_variance)).predict(X[[row]])
            exact[:, row] = means[0, 0], variances[0]
        exact += [[center], [problem.noise_variance]]
        if previous is not None:
            change = float(kl_divergence(*previous, *exact).mean())
        if change < SMALL_CHANGE:
            break
        previous = exact
    kl = float(kl_divergence(mean, variance, *exact).mean())
    return {"probes": len(X), "neighbours": k, "change": change, "kl": kl}


def measure_all(args, results):
    report = {"command": sys.argv, "environment": environment(), "load average": [os.getloadavg()], "runs": []}
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in args.rows:
            np.savez(Path(folder, str(n_rows)), **million_rows(n_rows))
        for repeat, n_rows in product(range(args.repeats), sorted(args.rows)):
            # The divergence is the same every time: once is enough.
            options = ["--measure", str(Path(folder, f"{n_rows}.npz")), "--probes", str(0 if repeat else args.probes)]
            output = subprocess.run([sys.executable, __file__, *options], check=True, stdout=subprocess.PIPE).stdout
            report["runs"].append(json.loads(output))
            print(", ".join(f"{key} {value:.4g}" for key, value in report["runs"][-1].items()), flush=True)
    report["medians"] = medians(report["runs"], ("rows",), ("s", "tree_s", "ratio", "peak_mib"))
    few, many = report["medians"][0], report["medians"][-1]
    if few is not many:
        report["exponent"] = math.log(many["s"] / few["s"]) / math.log(many["rows"] / few["rows"])
        print(f"the seconds grow as the rows to the power {report['exponent']:.2f}")
    report["load average"].append(os.getloadavg())
    results.write_text(json.dumps(report, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--probes", type=int, default=200, help="rows compared with the exact GP")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder for the results")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure_million(args.measure, args.probes)))
    else:
        args.out.mkdir(parents=True, exist_ok=True)
        measure_all(args, args.out / "localized_million.json")


if __name__ == "__main__":
    main()
