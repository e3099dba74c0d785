"""A table in full, kernel by kernel: what learning, the chosen model and the exact mean by iteration come to.

All rows of the first published split of kin40k, columns as they are. Each kernel, with one lengthscale a column, is
learned by a subsampled Vecchia likelihood (`lmgp.learn`). From it predict the model that `GPRegressor` chooses for this
number of test rows, and `ExactGPRegressor(solver="iterative", tolerance=0.02)`. Scores are of y in standard deviations
of the training rows; "calibration" is the mean square of the standardised residuals, 1 where the variances are right.

    python benchmarks/full_tables.py [--sets NAME ...] [--kernels NAME ...] [--data-dir DIR]

Writes benchmarks/results/full_tables.json.
"""

import argparse
import os

import numpy as np
from common import timed, write
from sklearn.base import clone

from lmgp import ExactGPRegressor, GPRegressor, learn
from lmgp.experiments.datasets import load_dataset, split
from lmgp.metrics import coverage, nlpd, rmse

KERNELS = ("gaussian", "rational_quadratic", "matern52", "matern32")


def scored(model, X, y):
    seconds, (mean, sd) = timed(lambda: model.predict(X, return_std=True, include_noise=True))
    variance = sd**2
    return {
        "predict_s": seconds, "rmse": rmse(y, mean), "nlpd": nlpd(y, mean, variance),
        "coverage": coverage(y, mean, variance), "calibration": float(np.mean((y - mean) ** 2 / variance)),
    }  # fmt: skip


def of_kernel(kernel, X, y, X_test, y_test):
    learn_s, learned = timed(lambda: learn(X, y, kernel=kernel, ard=True, likelihood="vecchia", random_state=0))
    given = {"kernel": learned.kernel, "noise_variance": learned.noise_variance, "random_state": 0}
    about = {"kernel": kernel, "learn_s": learn_s, "learned": " ".join(repr(given).split())}
    chosen = GPRegressor(n_predict=len(y_test), noise="normal", **given)
    fit_s, _ = timed(lambda: chosen.fit(X, y))
    bare = clone(chosen.model_).set_params(kernel=None, noise_variance=None, random_state=None)
    detail = " ".join(repr(bare).split())
    yield {**about, "model": "chosen", "fit_s": fit_s, **scored(chosen, X_test, y_test), "detail": detail}
    exact = ExactGPRegressor(solver="iterative", tolerance=0.02, max_memory_gib=12.0, **given)
    fit_s, iterations = timed(lambda: exact.fit(X, y).iterations_)
    yield {**about, "model": "exact mean", "fit_s": fit_s, **scored(exact, X_test, y_test), "detail": str(iterations)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["kin40k"])
    parser.add_argument("--kernels", nargs="+", default=KERNELS)
    parser.add_argument("--data-dir", default=os.environ.get("LMGP_DATA_DIR"))
    args = parser.parse_args()
    for name in args.sets:
        data, results = load_dataset(name, args.data_dir), []
        train, test = split(data, 0)
        y = (data.y - data.y[train].mean()) / data.y[train].std()
        for kernel in args.kernels:
            for result in of_kernel(kernel, data.X[train], y[train], data.X[test], y[test]):
                results.append(result)
                print(name, result, flush=True)
            write("full_tables", {name: results})


if __name__ == "__main__":
    main()
