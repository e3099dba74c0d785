"""Predictions from the nearest rows: seconds, and the divergence from the exact GP, beside GPBoost's.

Both with two threads and with the same kernel, noise and training rows. All seconds are of making the model from the
training rows and predicting means and variances; nothing is learned. Each run of one package follows one of the other.
Beside the seconds that pass, the processor's seconds of both threads: they count where others use the machine, too.

plane    100,000 rows evenly spread in two columns, 100,000 predictions; Matérn kernels of smoothness ½ and 3/2. KL from
         the 1,000 nearest rows, on 300 of the new rows. Ours with 100 nearest rows, and 50; GPBoost's Vecchia with 50.
modis    The same on modis_lst: its 105,569 training rows, its 42,740 test rows, mostly in gaps.
columns  kin40k and protein, 256 nearest rows of all but 4,000 rows, which are predicted; Matérn-3/2, a lengthscale a
         column; GPBoost's Vecchia with 50 on the same.

    pip install gpboost==1.8.0                     # for its rows, which are left out without it
    python benchmarks/nearest_rows.py [--only plane modis columns] [--repeats 3] [--data-dir DIR] [--quick]

Writes benchmarks/results/nearest_rows.json: every run, and the environment.
"""

import argparse
from statistics import median
from time import process_time

import numpy as np
import torch
from common import timed, write

from lmgp import MaternKernel, NearestNeighborsGPRegressor, RandomFourierFeatures, load_dataset
from lmgp.data import Noise, Rows
from lmgp.metrics import kl_divergence
from lmgp.posteriors.nearest import NearestPosterior

try:
    import gpboost
except ImportError:
    gpboost = None

# Rows whose reference is computed, and the nearest rows that make it.
SAMPLE, REFERENCE = 300, 1000


class Problem:
    """Training rows, rows to predict, and a kernel."""

    def __init__(self, name, X, y, new, kernel, noise_variance):
        self.name, self.X, self.y, self.new, self.kernel, self.noise_variance = name, X, y, new, kernel, noise_variance
        self.sample = np.random.default_rng(0).choice(len(new), min(SAMPLE, len(new)), replace=False)
        rows = Rows(X, y - y.mean())
        # Few rows among many: each by itself.
        posterior = NearestPosterior(kernel, rows, Noise(noise_variance), REFERENCE, share=False)
        means, variance = posterior.predict(new[self.sample])
        self.reference = means[:, 0] + y.mean(), variance + noise_variance

    def ours(self, k, new):
        """Return means and standard deviations with noise, as `theirs`."""
        model = NearestNeighborsGPRegressor(k, kernel=self.kernel, noise_variance=self.noise_variance)
        return model.fit(self.X, self.y).predict(new, return_std=True, include_noise=True)

    def theirs(self, k, new):
        """Predict each row from its k nearest training rows by GPBoost."""
        lengthscale = np.asarray(self.kernel.lengthscale)
        model = gpboost.GPModel(
            gp_coords=self.X / lengthscale,
            cov_function="matern",
            cov_fct_shape=self.kernel.smoothness,
            gp_approx="vecchia",
            num_neighbors=k,
            num_parallel_threads=torch.get_num_threads(),
        )
        model.set_prediction_data(vecchia_pred_type="order_obs_first_cond_obs_only", num_neighbors_pred=k)
        found = model.predict(
            y=self.y - self.y.mean(),
            gp_coords_pred=new / lengthscale,
            cov_pars=np.array([self.noise_variance, self.kernel.variance, 1.0]),
            predict_var=True,
            predict_response=False,
        )
        return found["mu"] + self.y.mean(), np.sqrt(found["var"] + self.noise_variance)

    def measured(self, methods, repeats):
        """Run methods in turn, and return a result of each."""
        runs, results = {method: [] for method in methods}, []
        for _ in range(repeats):
            for method, (predict, k) in methods.items():
                start = process_time()
                seconds, found = timed(lambda predict=predict, k=k: predict(k, self.new))
                runs[method].append((seconds, process_time() - start, found))
        for method, (_, k) in methods.items():
            mean, deviation = runs[method][-1][2]
            divergence = kl_divergence(mean[self.sample], deviation[self.sample] ** 2, *self.reference)
            seconds, of_processor = ([run[part] for run in runs[method]] for part in (0, 1))
            results.append(
                {
                    "problem": self.name,
                    "n_rows": len(self.X),
                    "n_columns": self.X.shape[1],
                    "n_new": len(self.new),
                    "method": method,
                    "n_neighbors": k,
                    "seconds": seconds,
                    "processor_seconds": of_processor,
                    "median_s": median(seconds),
                    "median_processor_s": median(of_processor),
                    "kl": float(divergence.mean()),
                }
            )
            wall, busy, kl = median(seconds), median(of_processor), divergence.mean()
            print(f"{self.name}, {method}: {wall:.1f} s, processor {busy:.1f} s, KL {kl:.1e}", flush=True)
        return results


def methods(problem, ks):
    chosen = {f"nearest {k}": (problem.ours, k) for k in ks}
    if gpboost is not None:
        chosen["GPBoost Vecchia 50"] = (problem.theirs, 50)
    return chosen


def drawn(X, kernel, noise_variance, seed=0):
    """Draw targets whose function comes from the prior, by 2,000 Fourier features."""
    rng = np.random.default_rng(seed)
    features = RandomFourierFeatures(2000, kernel=kernel, random_state=seed).fit(X[:10])
    weights = rng.standard_normal(features.n_features_out_)
    values = np.concatenate([features.transform(part) @ weights for part in np.array_split(X, 1 + len(X) // 5000)])
    return np.sqrt(kernel.variance) * values + np.sqrt(noise_variance) * rng.standard_normal(len(X))


def plane(args):
    n = 2_000 if args.quick else 100_000
    rows = np.random.default_rng(1).uniform(size=(2 * n, 2))
    for smoothness in (0.5, 1.5):
        kernel = MaternKernel(0.1, 1.0, smoothness)
        name = f"plane, Matérn-{'1/2' if smoothness == 0.5 else '3/2'}"
        yield Problem(name, rows[:n], drawn(rows[:n], kernel, 0.05), rows[n:], kernel, 0.05), (100, 50)


def modis(args):
    data = load_dataset("modis_lst", args.data_dir)
    X, y, test = data.X, data.y, data.splits[0]
    train = np.flatnonzero(~test)[:: 50 if args.quick else 1]
    new = X[test][:: 50 if args.quick else 1]
    yield Problem("modis_lst", X[train], y[train], new, MaternKernel([0.5, 0.5], 15.0, 0.5), 0.3), (100, 50)


def columns(args):
    for name in ("kin40k", "protein"):
        data = load_dataset(name, args.data_dir)
        X, y = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0), (data.y - data.y.mean()) / data.y.std()
        order = np.random.default_rng(0).permutation(len(y))[: 2_400 if args.quick else None]
        new, train = np.split(order, [400 if args.quick else 4_000])
        model = NearestNeighborsGPRegressor(kernel="matern32", ard=True, random_state=0)
        model.fit(X[train], y[train])
        yield Problem(name, X[train], y[train], X[new], model.kernel_, model.noise_variance_), (100, 256)


PARTS = {"plane": plane, "modis": modis, "columns": columns}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data-dir")
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it works; keeps nothing")
    args = parser.parse_args()
    torch.set_num_threads(2)
    results = {}
    for part in args.only:
        results[part] = []
        for problem, ks in PARTS[part](args):
            results[part] += problem.measured(methods(problem, ks), 1 if args.quick else args.repeats)
    if not args.quick:
        write("nearest_rows", results)


if __name__ == "__main__":
    main()
