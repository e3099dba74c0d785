"""The exact mean by iteration beside the Cholesky factor: seconds, iterations, and the error that is stated and found.

Rows of kin40k and protein, columns and targets standardised, 1,000 test rows of the first published split. The Gaussian
kernel has one lengthscale a column, learned by a subsampled Vecchia likelihood (`lmgp.learn`); the noise variance is
the learned one, and of kin40k also 0.4% of the kernel's. Divergences are KL from the model of the factor, with noise.

    python benchmarks/iterative.py [--sets NAME ...] [--sizes 4000 8000 16000] [--full] [--data-dir DIR]

--full adds all rows of each set, where there is no factor. Seconds are of the fit with the means of the test rows,
and of their standard deviations. Writes benchmarks/results/iterative.json.
"""

import argparse
import os

import numpy as np
from common import timed, write

from lmgp import ExactGPRegressor, learn
from lmgp.experiments.datasets import load_dataset, split
from lmgp.metrics import kl_divergence, nlpd, rmse
from lmgp.posteriors import iterative

SETS, N_NEW, TOLERANCES = ("kin40k", "protein"), 1_000, (1e-1, 1e-2, 1e-3)
GIB = 20.0


def rows_of(name, data_dir):
    data = load_dataset(name, data_dir)
    train, test = split(data, 0)
    center, scale = data.X[train].mean(axis=0), data.X[train].std(axis=0)
    mean, sd = data.y[train].mean(), data.y[train].std()
    X, y = (data.X - center) / scale, (data.y - mean) / sd
    train = np.random.default_rng(0).permutation(train)
    return X[train], y[train], X[test[:N_NEW]], y[test[:N_NEW]]


def weights_by_iteration(model, X, y):
    """Fit a model, and return the weights of all rows after each of its iterations."""
    solve, weights = iterative.conjugate_gradients, []

    def watched(multiply, precondition, right, settled, max_iterations):
        def noted(number, solution, residual):
            weights.append(solution[:, 0].cpu().numpy().copy())
            return settled(number, solution, residual)

        return solve(multiply, precondition, right, noted, max_iterations)

    iterative.conjugate_gradients = watched
    try:
        model.fit(X, y)
    finally:
        iterative.conjugate_gradients = solve
    return weights


def of_size(X, y, new, kernel, noise_variance):
    given = {"kernel": kernel, "noise_variance": noise_variance, "max_memory_gib": GIB, "random_state": 0}
    exact = ExactGPRegressor(solver="cholesky", **given)
    fit_s, _ = timed(lambda: exact.fit(X, y).predict(new[:1]))
    predict_s, (mean, sd) = timed(lambda: exact.predict(new, return_std=True, include_noise=True))
    yield {"model": "Cholesky", "fit_s": fit_s, "predict_s": predict_s}
    section = kernel.sections(X)(new)
    for tolerance in TOLERANCES:
        model = ExactGPRegressor(solver="iterative", tolerance=tolerance, **given)
        fit_s, _ = timed(lambda model=model: model.fit(X, y).predict(new))
        predict_s, own = timed(lambda model=model: model.predict(new, return_std=True, include_noise=True))
        weights = weights_by_iteration(ExactGPRegressor(solver="iterative", tolerance=tolerance, **given), X, y)
        by_mean = [0.5 * np.mean(((section @ one + y.mean() - mean) / sd) ** 2) for one in weights]
        yield {
            "model": "iterative", "tolerance": tolerance, "iterations": model.iterations_.number,
            "fit_s": fit_s, "predict_s": predict_s, "stated": model.iterations_.error,
            "found": float(np.sqrt(np.mean(((own[0] - mean) / sd) ** 2))),
            "kl_variance": float(kl_divergence(mean, own[1] ** 2, mean, sd**2).mean()),
            "kl_mean_by_iteration": [float(one) for one in by_mean],
        }  # fmt: skip


def in_full(X, y, new, y_new, kernel, noise_variance):
    model = ExactGPRegressor(kernel, noise_variance, solver="iterative", random_state=0)
    fit_s, _ = timed(lambda: model.fit(X, y).predict(new))
    predict_s, (mean, sd) = timed(lambda: model.predict(new, return_std=True, include_noise=True))
    yield {
        "model": "iterative", "tolerance": model.tolerance, "iterations": model.iterations_.number,
        "fit_s": fit_s, "predict_s": predict_s, "stated": model.iterations_.error,
        "rmse": rmse(y_new, mean), "nlpd": nlpd(y_new, mean, sd**2),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--sizes", nargs="+", type=int, default=[4_000, 8_000, 16_000])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--data-dir", default=os.environ.get("LMGP_DATA_DIR"))
    args = parser.parse_args()
    for name in args.sets:
        X, y, new, y_new = rows_of(name, args.data_dir)
        learned = learn(X, y, kernel="gaussian", ard=True, random_state=0)
        kernel, noises = learned.kernel, {"learned": learned.noise_variance}
        if name == "kin40k":
            noises["0.4% of the variance"] = 0.004 * kernel.prior_variance()
        results = []
        for noise, value in noises.items():
            about = {"noise": noise, "noise_variance": value, "kernel": " ".join(repr(kernel).split())}
            for size in args.sizes:
                for one in of_size(X[:size], y[:size], new, kernel, value):
                    results.append({**about, "rows": size, **one})
                    print(name, {key: results[-1][key] for key in one if key != "kl_mean_by_iteration"}, flush=True)
            if args.full:
                for one in in_full(X, y, new, y_new, kernel, value):
                    results.append({**about, "rows": len(y), **one})
                    print(name, one, flush=True)
        write("iterative", {name: results})


if __name__ == "__main__":
    main()
