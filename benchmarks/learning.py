"""Hyper-parameters of a Gaussian: seconds and likelihood, beside another checkout.

Each problem is learned in a process of its own, by this checkout and by another one in turn, with one lengthscale and
with one a column. The gradient of one likelihood on all rows is timed as well: of `kernel.evaluate` and of GPyTorch's
kernel in front of our density, and of GPyTorch's kernel and density.

    python benchmarks/learning.py --other /path/to/another/checkout [--rows 2000] [--repeats 1]

Writes benchmarks/results/learning.json.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

HERE = Path(__file__).resolve().parent
SETS = {"flats": ("uk_flats_2020-12", 2), "protein": ("protein_raw", 9)}
PROBLEMS = ("sinc", "friedman", *SETS)


def standardised(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


def make_rows(problem, n_rows, folder):
    rng = np.random.default_rng(0)
    if problem == "sinc":
        X = rng.uniform(-1.5, 1.5, (n_rows, 1))
        y = np.sinc(5 * X[:, 0]) + 0.1 * rng.normal(size=n_rows)
    elif problem == "friedman":
        from sklearn.datasets import make_friedman1

        X, y = make_friedman1(n_rows, n_features=8, noise=1.0, random_state=1)
    else:
        name, n_columns = SETS[problem]
        table = np.loadtxt(folder / f"{name}.csv.gz", delimiter=",", skiprows=1)
        table = table[rng.permutation(len(table))[:n_rows]]
        X, y = standardised(table[:, :n_columns]), standardised(table[:, -1])
    return X, y - y.mean()


def learn(args):
    """Learn one problem, with the lmgp of the folder that PYTHONPATH names."""
    import lmgp

    X, y = make_rows(args.problem, args.rows, args.folder)
    lmgp.ExactGPRegressor().fit(X[:50], y[:50])  # what the libraries load when first used
    start, cpu = perf_counter(), process_time()
    model = lmgp.ExactGPRegressor(ard=args.ard, random_state=0).fit(X, y)
    seconds, cpu = perf_counter() - start, process_time() - cpu
    found = {"log_likelihood": model.log_marginal_likelihood_, "converged": model.converged_}
    print(json.dumps({"s": seconds, "cpu_s": cpu, **found}))


def time_gradients(n_rows, repeats=3):
    """Time one value and gradient, of three ways."""
    import gpytorch
    import torch

    from lmgp import GaussianKernel
    from lmgp.posteriors.likelihood import log_density

    def gpytorch_kernel(X, theta):
        kernel = gpytorch.kernels.RBFKernel().double().initialize(lengthscale=1.0)
        return kernel(X / torch.exp(theta[:-2])) * torch.exp(theta[-2])

    def ours(X, y, theta):
        return log_density(kernel.evaluate(X, X, theta[:-1]), torch.exp(theta[-1]).expand_as(y), y)

    def theirs_in_ours(X, y, theta):
        return log_density(gpytorch_kernel(X, theta).to_dense(), torch.exp(theta[-1]).expand_as(y), y)

    def theirs(X, y, theta):
        with gpytorch.settings.fast_computations(False, False, False):
            covariance = gpytorch_kernel(X, theta).add_diagonal(torch.exp(theta[-1]).expand_as(y))
            return gpytorch.distributions.MultivariateNormal(torch.zeros_like(y), covariance).log_prob(y)

    results = []
    for problem in ("sinc", "friedman"):
        X, y = (torch.from_numpy(array) for array in make_rows(problem, n_rows, None))
        kernel = GaussianKernel(np.ones(X.shape[1]))
        start = torch.tensor([0.0] * (X.shape[1] + 1) + [-2.0], dtype=torch.float64)
        row = {"problem": problem, "rows": n_rows, "lengthscales": X.shape[1]}
        for _ in range(repeats):
            for name, density in (("ours", ours), ("gpytorch kernel", theirs_in_ours), ("gpytorch", theirs)):
                theta = start.clone().requires_grad_()
                begin = perf_counter()
                torch.autograd.grad(density(X, y, theta), theta)
                row[name] = min(row.get(name, np.inf), perf_counter() - begin)
        results.append(row)
        print(row)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=HERE.parent / "datasets")
    parser.add_argument("--problem", choices=PROBLEMS, help="learn this one only")
    parser.add_argument("--ard", action="store_true", help="with --problem: a lengthscale a column only")
    parser.add_argument("--learn", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.learn:
        learn(args)
        return
    from common import write

    checkouts = {"this": HERE.parent} | ({"other": args.other.resolve()} if args.other else {})
    runs = []
    for problem in [args.problem] if args.problem else PROBLEMS:
        for ard in (args.ard,) if args.problem or problem == "sinc" else (False, True):
            for repeat in range(args.repeats):
                for name, root in checkouts.items():
                    command = [sys.executable, __file__, "--learn", "--problem", problem, "--rows", str(args.rows)]
                    command += ["--folder", str(args.folder.resolve())] + ["--ard"] * ard
                    done = subprocess.run(
                        command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True
                    )
                    if done.returncode:
                        sys.exit(done.stderr)
                    found = json.loads(done.stdout.splitlines()[-1])
                    runs.append({"problem": problem, "ard": ard, "checkout": name, "repeat": repeat, **found})
                    print(runs[-1], flush=True)
        write("learning", {"learning": runs})
    write("learning", {"gradients": time_gradients(args.rows)})


if __name__ == "__main__":
    main()
