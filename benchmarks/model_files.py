"""Model files: how large they are, and how long they take to load, and to predict one row by the command line.

100,000 made rows of two columns, in an extent of 40 × 40: 2.4 MB of numbers. Kernel and noise are given. Each model is
saved, and loaded five times in the process that fitted it: the import of the package takes no part in the seconds. Five
processes of ``lmgp predict`` follow, after one that is not counted.

    python benchmarks/model_files.py

Writes benchmarks/results/model_files.json, and the table in docs/model_files.md. One thread, two minutes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
from common import timed, write, write_table
from threadpoolctl import threadpool_limits

import lmgp

N_ROWS, EXTENT, REPEATS = 100_000, 40.0, 5
GIVEN = {"kernel": lmgp.GaussianKernel(2.0), "noise_variance": 0.1}
MODELS = {
    "`LocalizedGPRegressor` with 496 Taylor features": lmgp.LocalizedGPRegressor(lmgp.TaylorFeatures(496), **GIVEN),
    "`NearestNeighborsGPRegressor`": lmgp.NearestNeighborsGPRegressor(**GIVEN),
    "`SpectralGPRegressor` of a Gaussian kernel": lmgp.SpectralGPRegressor(**GIVEN),
    "`SpectralGPRegressor` of a Matérn-3/2 kernel": lmgp.SpectralGPRegressor(
        kernel=lmgp.MaternKernel(2.0, smoothness=1.5), noise_variance=0.1
    ),
    "`ResidualGPRegressor` with 1,024 landmarks": lmgp.ResidualGPRegressor(
        lmgp.NystroemFeatures(1024), **GIVEN, random_state=0
    ),
}


def predict(path, row):
    """Predict a row by the command line, in a process of its own."""
    out = path.with_name("predicted.csv")
    command = [sys.executable, "-m", "lmgp", "predict", *map(str, (path, row)), "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True)
    out.unlink()


def main():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(0.0, EXTENT, (N_ROWS, 2)), columns=["east", "north"])
    y = np.sin(X.to_numpy()).sum(axis=1) + 0.3 * rng.standard_normal(N_ROWS)
    results = []
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        path, row = (Path(folder) / name for name in ("model.lmgp", "row.csv"))
        X[:1].to_csv(row, index=False)
        for name, model in MODELS.items():
            model.fit(X, y).save(path)
            seconds = median(timed(lambda: lmgp.load(path))[0] for _ in range(REPEATS))
            runs = [timed(lambda: predict(path, row))[0] for _ in range(REPEATS + 1)]
            mb = path.stat().st_size / 1e6
            results.append({"model": name, "mb": mb, "load_s": seconds, "predict_s": runs[1:]})
            print(results[-1], flush=True)
    write("model_files", {"files": results})
    lines = [
        f"| {row['model']} | {row['mb']:.1f} MB | {1e3 * row['load_s']:.0f} ms | {median(row['predict_s']):.1f} s |"
        for row in results
    ]
    heading = "| model | file | loaded in | `lmgp predict` of one row |", "|---|---:|---:|---:|"
    write_table("model_files.md", "files", [*heading, *lines])


if __name__ == "__main__":
    main()
