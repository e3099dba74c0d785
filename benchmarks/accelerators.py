"""What an accelerator gains: seconds of fits and predictions there and on the CPU of the same machine.

The rows are those of ``many_columns.py``, eight columns uniform in a box; kernel and noise are given. Each model runs
on the CPU and on the accelerator, after a small model of the same kind that is not timed. The script keeps how far
means and standard deviations lie from those of the same model on the CPU, in double precision.

    python benchmarks/accelerators.py [--device cuda] [--scale 1.0]

Writes benchmarks/results/accelerators.json, and the table of docs/scale.md. ``--scale`` multiplies all rows; what runs
at another scale than 1 is printed and not kept.
"""

import argparse
import os
from functools import partial

import numpy as np
import torch
from common import timed, write, write_table
from many_columns import table

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    MaternKernel,
    NearestNeighborsGPRegressor,
    RandomFourierFeatures,
)

MATERN = {"kernel": MaternKernel(0.7, 1.0, smoothness=2.5), "noise_variance": 0.1}
SMOOTH = {"kernel": GaussianKernel(0.7), "noise_variance": 0.1}


def fourier(dtype, device):
    features = RandomFourierFeatures(2_048, random_state=0)
    return FeaturizedGPRegressor(features, feature_dtype=dtype, device=device, **SMOOTH)


def iterative(device):
    return ExactGPRegressor(solver="iterative", device=device, random_state=0, max_memory_gib=30.0, **MATERN)


def nearest(n_neighbors, device):
    return NearestNeighborsGPRegressor(n_neighbors=n_neighbors, device=device, **MATERN)


# Each model: how it is made, its default device, its rows, and how many rows it predicts.
CASES = {
    "2,048 Fourier features": (partial(fourier, "float64"), None, 1_000_000, 100_000),
    'the same, `feature_dtype="float32"`': (partial(fourier, "float32"), None, 1_000_000, 100_000),
    "iterative": (iterative, "cpu", 40_000, 2_000),
    "nearest 64 rows": (partial(nearest, 64), "cpu", 100_000, 100_000),
    "nearest 256 rows": (partial(nearest, 256), "cpu", 100_000, 20_000),
    "nearest 1,024 rows": (partial(nearest, 1_024), "cpu", 100_000, 1_000),
}


def measure(name, of, device, n, n_new):
    """Return the seconds of a fit and of its predictions, with these."""
    (X, y), (new, _) = table(n, 8)
    of(device).fit(X[:3_000], y[:3_000]).predict(new[:300], return_std=True)
    model = of(device)
    fit_s, _ = timed(lambda: model.fit(X, y))
    predict_s, predicted = timed(lambda: model.predict(new[:n_new], return_std=True))
    run = {"model": name, "rows": n, "new": n_new, "device": device or "cpu", "fit_s": fit_s, "predict_s": predict_s}
    if getattr(model, "feature_dtype", None) == "float32":
        run["rounding"] = model.rounding_divergence_
    return run, np.stack(predicted)


def lines(runs):
    """Return the table of the page: a line for each run."""
    yield "| model | rows | on | fit, s | new rows | predictions, s | means differ | std differ |"
    yield "|---|---:|---|" + "---:|" * 5
    for one in runs:
        name, rows = ("", "") if one["device"] == "cuda" else (one["model"], f"{one['rows']:,}")
        differ = (f"{one[key]:.0e}" if one[key] else "–" for key in ("means_differ", "std_differs"))
        cells = (name, rows, "GPU" if one["device"] == "cuda" else "CPU", f"{one['fit_s']:.2f}", f"{one['new']:,}")
        yield "| " + " | ".join((*cells, f"{one['predict_s']:.2f}", *differ)) + " |"


def main():
    """Measure each model on the CPU and on the accelerator."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    runs, reference = [], np.empty(0)
    for name, (of, cpu, n, n_new) in CASES.items():
        for device in (cpu, arguments.device):
            run, predicted = measure(name, of, device, int(arguments.scale * n), int(arguments.scale * n_new))
            if device == cpu and "rounding" not in run:
                reference = predicted
            means, deviations = np.max(np.abs(predicted - reference), axis=1)
            runs.append({**run, "means_differ": float(means), "std_differs": float(deviations)})
            print(runs[-1], flush=True)
    if arguments.scale == 1:
        machine = {"accelerator": torch.cuda.get_device_name(), "cores": os.cpu_count()}
        write("accelerators", {"models": runs}, **machine)
        write_table("scale.md", "accelerators", lines(runs))


if __name__ == "__main__":
    main()
