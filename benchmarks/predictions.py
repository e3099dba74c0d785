"""What a million predictions take: seconds beside a k-d tree query and one product, and memory beyond the output.

time     The mean, and the mean with standard deviations, of a localized Taylor model of 120 columns, fitted to 50,000
         rows: over the seconds of one nearest-centroid query of the same rows plus one product of a 1,000,000 × 120
         array with a vector, one after the other in each run. At two densities of centroids.
memory   Peak memory of a prediction, less what the process held before and the output, each model in a process of its
         own (Linux).
joint    The covariance of models of several posteriors beside the exact one: correlations of errors from the nearest
         rows, those of independent cells, and none.

    python benchmarks/predictions.py [--only time memory joint] [--rows 1000000] [--repeats 5]

Writes benchmarks/results/predictions.json.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from common import timed, write
from scipy.spatial import KDTree

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    OrthogonalFourierFeatures,
    ResidualGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.data import Noise, Rows
from lmgp.neighbours.clustering import nearest_centroids
from lmgp.posteriors import joint as joints

TRAIN, COLUMNS, EXTENTS = 50_000, 120, (20.0, 60.0)
GIVEN = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1}
# Of each model, the share of the rows that it predicts: the slow ones fewer.
MODELS = {
    "localized": (1.0, lambda: LocalizedGPRegressor(TaylorFeatures(COLUMNS), **GIVEN)),
    "featurized": (0.5, lambda: FeaturizedGPRegressor(OrthogonalFourierFeatures(1024), **GIVEN, random_state=0)),
    "spectral": (1.0, lambda: SpectralGPRegressor(**GIVEN)),
    "nearest": (0.5, lambda: NearestNeighborsGPRegressor(30, **GIVEN)),
    "residual": (0.05, lambda: ResidualGPRegressor(n_neighbors=30, **GIVEN, random_state=0)),
    "exact": (0.1, lambda: ExactGPRegressor(**GIVEN)),
}


def made(extent, n=TRAIN, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, extent, (n, 2))
    return X, np.sin(X).sum(axis=1) + 0.3 * rng.standard_normal(n)


def time(args):
    results = []
    rng = np.random.default_rng(1)
    columns, vector = rng.standard_normal((args.rows, COLUMNS)), rng.standard_normal(COLUMNS)
    for extent in EXTENTS:
        model = LocalizedGPRegressor(TaylorFeatures(COLUMNS), **GIVEN).fit(*made(extent))
        rows = rng.uniform(0.0, extent, (args.rows, 2))
        model.predict(rows)  # solves all posteriors
        tree, runs = KDTree(model.centroids_), []
        for _ in range(args.repeats):
            query, _ = timed(lambda tree=tree, rows=rows: tree.query(rows))
            product, _ = timed(lambda: columns @ vector)
            mean, _ = timed(lambda model=model, rows=rows: model.predict(rows))
            std, _ = timed(lambda model=model, rows=rows: model.predict(rows, return_std=True))
            run = {"query_s": query, "product_s": product, "mean_s": mean, "std_s": std}
            runs.append({**run, "mean": mean / (query + product), "std": std / (query + product)})
        ratios = {name: float(np.median([run[name] for run in runs])) for name in ("mean", "std")}
        about = {"extent": extent, "rows": args.rows, "centroids": len(tree.data), "columns": COLUMNS}
        results.append({**about, "threads": torch.get_num_threads(), **ratios, "runs": runs})
        print(f"time, {len(tree.data)} centroids: mean {ratios['mean']:.2f}, with std {ratios['std']:.2f} times")
    return results


def status(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def measure(name, n_rows):
    share, model = MODELS[name]
    few = 2000 if name in ("exact", "residual") else TRAIN
    model, n_rows = model().fit(*made(20.0, few)), int(share * n_rows)
    rows = np.random.default_rng(1).uniform(0.0, 20.0, (n_rows, 2))
    model.predict(rows[:1000], return_std=True)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    seconds, found = timed(lambda: model.predict(rows, return_std=True))
    output = sum(one.nbytes for one in found) / 2**20
    return {"model": name, "rows": n_rows, "seconds": seconds, "beyond_mib": status("VmHWM") - before - output}


def memory(args):
    results = []
    for name in MODELS:
        command = [sys.executable, __file__, "--measure", name, "--rows", str(args.rows)]
        results.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
        print("memory, " + ", ".join(f"{key} {value}" for key, value in results[-1].items()), flush=True)
    return results


def joint(args):
    results = []
    for kernel in (GaussianKernel(1.0), MaternKernel(1.0, smoothness=0.5)):
        X, y = made(20.0, 3000)
        rng = np.random.default_rng(2)
        # Rows near to each other, and some far away.
        T = np.concatenate((rng.uniform(9.0, 11.0, (200, 2)), rng.uniform(0.0, 20.0, (200, 2))))
        expected = ExactGPRegressor(kernel, 0.1).fit(X, y).predict(T, return_cov=True)[1]
        variance, size = expected.diagonal(), np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))

        def error(found, expected=expected, size=size):
            return float(np.sqrt(np.mean(np.square((found - expected) / size))))

        result = {"kernel": repr(kernel), "none": error(np.diag(variance))}
        cells = nearest_centroids(T, LocalizedGPRegressor(TaylorFeatures(COLUMNS), **GIVEN).fit(X, y).centroids_)
        result["cells"] = error(np.where(cells[:, None] == cells, expected, 0.0))
        for k in (16, 32, 64, 128, 256):
            joints.NEIGHBORS = k
            result[f"nearest {k}"] = error(joints.near_covariance(kernel, Rows(X, y), Noise(0.1), T, variance))
        results.append(result)
        print("joint, " + ", ".join(f"{key} {value}" for key, value in result.items()), flush=True)
    return results


PARTS = {"time": time, "memory": memory, "joint": joint}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--measure", choices=MODELS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, args.rows)))
    else:
        write("predictions", {name: PARTS[name](args) for name in args.only})


if __name__ == "__main__":
    main()
