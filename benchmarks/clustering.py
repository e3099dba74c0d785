"""Farthest-point clustering against the plain algorithm, which passes over all rows for each centroid.

Measures both side by side in one process, checks that the centroids are the same, and, where the plain algorithm would
take minutes, measures it on the first centroids only and scales its time by their number (each costs it the same).

    python benchmarks/clustering.py [--repeats 5]

Writes benchmarks/results/clustering.json: every run, and the environment.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy

from lmgp.neighbours.clustering import farthest_point_clustering

RESULTS = Path(__file__).parent / "results" / "clustering.json"


def cities(n_rows):
    """200 Gaussian cities of different sizes, in an extent of 100 × 100."""
    rng = np.random.default_rng(0)
    centers, widths = rng.uniform(0, 100, (200, 2)), rng.uniform(0.3, 3.0, (200, 1))
    city = rng.choice(200, n_rows, p=rng.dirichlet(np.full(200, 0.7)))
    return centers[city] + widths[city] * rng.standard_normal((n_rows, 2))


def lattice(n_rows):
    """A raster with gaps, as of a satellite image with clouds: all distances tie many times over."""
    raster = 0.01 * np.stack(np.meshgrid(np.arange(500), np.arange(300), indexing="ij"), axis=-1).reshape(-1, 2)
    return raster[np.sort(np.random.default_rng(0).permutation(len(raster))[:n_rows])]


def normal(n_rows, n_columns):
    return np.random.default_rng(0).standard_normal((n_rows, n_columns))


# rows, number of centroids, and with how many of them the plain algorithm is measured
CASES = {
    "cities": (cities(1_000_000), 20_000, 200),
    "lattice": (lattice(105_569), 6_700, 6_700),
    "normal, 7,373 rows": (normal(7_373, 8), 1_000, 1_000),
    **{f"normal, d = {d}": (normal(50_000, d), 1_000, 1_000) for d in (2, 3, 6, 8, 18)},
}


def plain_algorithm(X, n_centroids):
    """The implementation by full passes over whole columns, through two buffers."""
    columns = np.ascontiguousarray(X.T)
    squared, term, smallest = np.empty(len(X)), np.empty(len(X)), np.full(len(X), np.inf)
    centroids = [X.mean(axis=0)]
    while True:
        np.subtract(columns[0], centroids[-1][0], out=squared)
        np.multiply(squared, squared, out=squared)
        for column, center in zip(columns[1:], centroids[-1][1:], strict=True):
            np.subtract(column, center, out=term)
            np.multiply(term, term, out=term)
            np.add(squared, term, out=squared)
        np.minimum(smallest, squared, out=smallest)
        if len(centroids) == n_centroids:
            return np.stack(centroids)
        centroids.append(X[np.argmax(smallest)])


def timed(action):
    start = perf_counter()
    result = action()
    return perf_counter() - start, result


def environment():
    return {
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "load average at the end": os.getloadavg(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    runs = []
    for name, (X, n_centroids, n_plain) in CASES.items():
        case = {"case": name, "rows": X.shape[0], "columns": X.shape[1], "centroids": n_centroids}
        for _ in range(args.repeats):
            plain, first = timed(lambda X=X, n=n_plain: plain_algorithm(X, n))
            fast, centroids = timed(lambda X=X, n=n_centroids: farthest_point_clustering(X, 1e-9, max_centroids=n))
            assert len(centroids) == n_centroids
            assert np.array_equal(centroids[:n_plain], first)
            scaled = plain * n_centroids / n_plain
            runs.append({**case, "s": fast, "plain_s": plain, "plain_centroids": n_plain, "ratio": scaled / fast})
            print(
                f"{name}: {fast:.3f} s, plain {scaled:.3f} s ({n_plain} centroids measured), ratio {scaled / fast:.2f}"
            )
        ratio = statistics.median(run["ratio"] for run in runs if run["case"] == name)
        runs.append({**case, "median_ratio": ratio})
        print(f"{name}: median ratio {ratio:.2f} of {args.repeats} runs")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"command": sys.argv, "environment": environment(), "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
