"""Several targets: the seconds of ten targets with shared hyperparameters, beside one fit, and beside ten of them.

Three columns, of modes two; ten targets, each a random combination of the same sines, with noise. Shared, apart and one
target follow each other; a line has the median ratio over the repeats. Predictions are means and standard deviations.

given      Kernel and noise are given: `fit` and `predict` alone. ExactGPRegressor of 2,000 rows and 1,000 predictions;
           NearestNeighborsGPRegressor of 10,000 rows, 64 neighbours, 3,000 predictions; ResidualGPRegressor of 4,000
           rows, 256 landmarks, 1,000 predictions; FeaturizedGPRegressor of 10,000 rows, 512 columns, 3,000 predictions;
           LocalizedGPRegressor of 20,000 rows, 165 Taylor features, 3,000 predictions; SpectralGPRegressor of 20,000
           rows in two columns, 3,000 predictions; ExactGPRegressor by iteration of 6,000 rows, 1,000 predictions; and
           ExactGPRegressor of 2,000 rows with a linear trend.
learned    They are learned: ExactGPRegressor, a Gaussian by the exact likelihood of 1,000 rows, and
           NearestNeighborsGPRegressor, a Matérn-3/2 by the likelihoods of 4,000 rows.

    python benchmarks/targets.py [--only given learned] [--repeats 3] [--quick]

Writes benchmarks/results/targets.json: the ratios, the seconds of each run, and the environment.
"""

import argparse
from statistics import median

import numpy as np
import torch
from common import timed, write
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OrthogonalFourierFeatures,
    ResidualGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.learning.engine import remembered

N_TARGETS = 10
GIVEN = {"kernel": MaternKernel(1.0), "noise_variance": 0.1}
GAUSSIAN = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1}
CASES = {
    "given": {
        "exact": (ExactGPRegressor(**GIVEN), 2_000, 1_000),
        "nearest": (NearestNeighborsGPRegressor(64, **GIVEN), 10_000, 3_000),
        "residual": (ResidualGPRegressor(NystroemFeatures(256), **GIVEN, random_state=0), 4_000, 1_000),
        "localized": (LocalizedGPRegressor(TaylorFeatures(165), **GAUSSIAN, random_state=0), 20_000, 3_000),
        "spectral": (SpectralGPRegressor(**GAUSSIAN, random_state=0), 20_000, 3_000),
        "iterative": (ExactGPRegressor(**GIVEN, solver="iterative", random_state=0), 6_000, 1_000),
        "exact, with a trend": (ExactGPRegressor(**GIVEN, trend="linear"), 2_000, 1_000),
        "featurized": (FeaturizedGPRegressor(OrthogonalFourierFeatures(512), **GIVEN, random_state=0), 10_000, 3_000),
    },
    "learned": {
        "exact": (ExactGPRegressor(random_state=0), 1_000, 1_000),
        "nearest": (NearestNeighborsGPRegressor(64, kernel="matern32", random_state=0), 4_000, 1_000),
    },
}


def problem(n, n_new, d):
    """Return training rows, ten targets of variance 1, and rows to predict."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 5.0, (n + n_new, d))
    waves = np.sin(X @ rng.normal(0.0, 1.0, (d, 40)) + rng.uniform(0.0, 6.0, 40))
    y = waves @ rng.normal(size=(40, N_TARGETS))
    y = y / y.std(axis=0) + 0.3 * rng.normal(size=y.shape)
    return X[:n], y[:n], X[n:]


def seconds(model, X, y, new):
    """Return the seconds of a fit and of predictions, without what was learned before."""
    remembered.cache_clear()
    return timed(lambda: clone(model).fit(X, y).predict(new, return_std=True))[0]


def measured(part, name, repeats, shrink):
    regressor, n, n_new = CASES[part][name]
    X, y, new = problem(n // shrink, n_new // shrink, 2 if isinstance(regressor, SpectralGPRegressor) else 3)
    runs = []
    for _ in range(repeats):
        one = seconds(regressor, X, y[:, 0], new)
        runs.append((one, seconds(regressor, X, y, new), seconds(MultiTargetGPRegressor(regressor), X, y, new)))
    row = {
        "model": name,
        "rows": len(X),
        "predictions": len(new),
        "shared / one": round(median(b / a for a, b, _ in runs), 2),
        "each / shared": round(median(c / b for _, b, c in runs), 2),
        "seconds of one, shared, each": [[round(value, 3) for value in run] for run in runs],
    }
    print(part, row, flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--models", nargs="+", help="of these alone; keeps nothing")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it works; keeps nothing")
    args = parser.parse_args()
    torch.set_num_threads(2)
    repeats, shrink = (1, 20) if args.quick else (args.repeats, 1)
    results = {
        part: [measured(part, name, repeats, shrink) for name in CASES[part] if name in (args.models or CASES[part])]
        for part in args.only
    }
    if not args.quick and not args.models:
        write("targets", results)


if __name__ == "__main__":
    main()
