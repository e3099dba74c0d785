"""A global map with local residuals beside its two parts: KL from the exact GP, and seconds, in eight and nine columns.

kin8nm in full, 10,000 rows of kin40k and of protein, columns and targets standardised. The Gaussian kernel with one
lengthscale, and the noise, are those of `ExactGPRegressor`. 1,000 test rows of the first published split, or what there
are.

    python benchmarks/residual.py [--sets NAME ...] [--repeats 3] [--data-dir DIR] [--shared]

Seconds are those of the fit, and of means and standard deviations of the test rows. Writes
benchmarks/results/residual.json: medians, and the environment.
"""

import argparse
import os

import numpy as np
from common import write
from localized import Problem
from spectral import SHARED, compared, nearest

from lmgp import ExactGPRegressor, FeaturizedGPRegressor, NystroemFeatures, ResidualGPRegressor
from lmgp.experiments.datasets import load_dataset, split

SETS, N_ROWS, N_NEW = ("kin8nm", "kin40k", "protein"), 10_000, 1_000


def problem_of(name, data_dir):
    data = load_dataset(name, data_dir)
    train, test = split(data, 0)
    train, test = np.random.default_rng(0).permutation(train)[:N_ROWS], test[:N_NEW]
    X, y = data.X[train], data.y[train]
    center, scale = X.mean(axis=0), X.std(axis=0)
    X, y, new = (X - center) / scale, (y - y.mean()) / y.std(), (data.X[test] - center) / scale
    learned = ExactGPRegressor(random_state=0).fit(X, y)
    return Problem(X, y, learned.kernel_, learned.noise_variance_), new


def models():
    yield from nearest((64, 256))
    yield "Nyström 1024", FeaturizedGPRegressor(NystroemFeatures(1024, random_state=0))
    for size in (512, 1024, 2048):
        for k in (64, 128):
            yield f"residual {size}, {k}", ResidualGPRegressor(NystroemFeatures(size, random_state=0), k)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data-dir", default=os.environ.get("LMGP_DATA_DIR"))
    parser.add_argument("--shared", action="store_true", help=SHARED)
    args = parser.parse_args()
    for name in args.sets:
        problem, new = problem_of(name, args.data_dir)
        results = list(compared(name, problem, new, list(models()), args.repeats))
        write("residual", {name: results}, **({"shared": SHARED} if args.shared else {}))


if __name__ == "__main__":
    main()
