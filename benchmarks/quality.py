"""How good the predictions are: RMSE, NLPD, CRPS, coverage, seconds and memory on ten data sets, beside other packages.

`GPRegressor()` as it comes, on the columns as they come; a Gaussian kernel learned from 2,000 rows; GPBoost's Vecchia
approximation with Matérn-3/2 and exponential kernels; scikit-learn's gradient boosting, which predicts means only; and
scikit-learn's Gaussian process on 2,000 rows. Only GPRegressor() gets the raw columns, the others standardised ones
(geographical coordinates as they are). Each method learns all that it needs in `fit`, in a process of its own, whose
peak of memory is thereby its own; all have the same number of threads. Imports and the reading of the data are not
timed.

    pip install gpboost==1.8.0
    python benchmarks/quality.py [--data-dir DIR] [--sets NAME ...] [--methods NAME ...] [--cap 300] [--threads 2]
    python benchmarks/quality.py --methods lmgp --add  # measure this one again, keep the others' results
    python benchmarks/quality.py --add --missing       # go on where a run has ended
    python benchmarks/quality.py --quick --out DIR     # two sets, few rows
    python benchmarks/quality.py --sets concrete --splits 1 2 3 --add  # other splits, for a mean over splits
    python benchmarks/quality.py --redraw              # the figure and the tables alone, from the results

A method that has not predicted --cap seconds after it began to fit is stopped: that is its result.

Writes benchmarks/results/quality.json after every run, docs/quality.png, and the tables in docs/quality.md.
"""

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import FIGURES, RESULTS, timed, write
from quality_page import LABELS, draw, write_page
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from lmgp.experiments.datasets import load_dataset, split
from lmgp.metrics import coverage, crps, nlpd, rmse

HERE = Path(__file__).resolve().parent
# Training and test rows at most; the published split where there is one, and otherwise a tenth of the rows for testing.
SETS = {
    "concrete": {}, "kin8nm": {}, "uk_flats_2020-12": {"n_train": 10_000}, "elevators": {}, "kin40k": {}, "protein": {},
    "uk_houses_2020-12": {"n_train": 20_000, "n_test": 20_000}, "keggdirected": {}, "modis_lst": {}, "hflights": {},
}  # fmt: skip
QUICK = {"concrete": {"n_train": 300, "n_test": 100}, "uk_flats_2020-12": {"n_train": 500, "n_test": 100}}
# After the name of a set: the runs on all splits but the first.
OTHERS = ", other splits"
READY = "ready to fit"
RESULT = "result: "


class Task(NamedTuple):
    """Training rows, inputs of test rows, and whether the columns are geographical coordinates."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    spatial: bool
    threads: int


Prediction = tuple[np.ndarray, np.ndarray | None]


class Method(NamedTuple):
    """How to fit: `fit(task, **options)` returns a function that predicts means and variances, and what was learned."""

    package: str
    module: str  # imported before the clock starts
    fit: Callable[..., tuple[Callable[[np.ndarray], Prediction], dict[str, Any]]]
    options: dict[str, Any]
    raw: bool = False  # gets rows as they are


def words(of):
    """Return how an object prints, on one line."""
    return " ".join(repr(of).split())


def fit_lmgp(task, **options):
    from lmgp import GPRegressor

    model = GPRegressor(random_state=0, **options).fit(task.X, task.y)

    def predict(X):
        mean, std = model.predict(X, return_std=True, include_noise=True)
        return mean, std**2

    # The model without what stands beside it.
    chosen = clone(model.model_).set_params(kernel=None, noise_variance=None, random_state=None)
    learned = {"kernel": words(model.kernel_), "noise_variance": float(model.noise_variance_), "chosen": words(chosen)}
    return predict, learned | {"learning": str(getattr(model, "learning_", "")).splitlines()}


def fit_gpboost(task, shape, one_lengthscale_in_space=False):
    """GPBoost's Vecchia approximation, with its default neighbours (20, and 40 to predict) and optimiser."""
    import gpboost

    one = one_lengthscale_in_space and task.spatial
    model = gpboost.GPModel(
        gp_coords=task.X,
        cov_function="matern" if one else "matern_ard",
        cov_fct_shape=shape,
        gp_approx="vecchia",
        num_parallel_threads=task.threads,
    )
    model.fit(task.y)
    parameters = np.asarray(model.get_cov_pars(format_pandas=False)).ravel()

    def predict(X):
        predicted = model.predict(gp_coords_pred=X, predict_var=True, predict_response=False)
        return predicted["mu"], predicted["var"] + parameters[0]

    return predict, {"covariance parameters": parameters.tolist(), "iterations": model._get_num_optim_iter()}


def fit_boosting(task):
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(random_state=0).fit(task.X, task.y)
    return lambda X: (model.predict(X), None), {"iterations": int(model.n_iter_)}


def fit_sklearn_gp(task, n_rows=2000):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    kernel = ConstantKernel() * Matern(np.ones(task.X.shape[1]), nu=1.5) + WhiteKernel()
    rows = np.random.default_rng(0).permutation(len(task.y))[:n_rows]
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(task.X[rows], task.y[rows])

    def predict(X):
        mean, std = model.predict(X, return_std=True)  # with the noise of the white kernel
        return mean, std**2

    return predict, {"kernel": words(model.kernel_)}


METHODS = {
    "lmgp": Method("lmgp", "lmgp.estimators.chosen", fit_lmgp, {}, raw=True),
    "lmgp-gaussian": Method("lmgp", "lmgp.estimators.chosen", fit_lmgp, {"kernel": None, "ard": False}),
    "gpboost-matern32": Method("gpboost", "gpboost", fit_gpboost, {"shape": 1.5}),
    "gpboost-exponential": Method("gpboost", "gpboost", fit_gpboost, {"shape": 0.5, "one_lengthscale_in_space": True}),
    "boosting": Method("sklearn", "sklearn.ensemble", fit_boosting, {}),
    "sklearn-gp": Method("sklearn", "sklearn.gaussian_process", fit_sklearn_gp, {}),
}
assert set(METHODS) == set(LABELS)


def load(name, data_dir=None, number=0, *, n_train=None, n_test=None):
    """Return training inputs and targets, test inputs and targets, and whether the inputs are coordinates."""
    data = load_dataset(name, data_dir)
    train, test = split(data, number, n_train=n_train, published=n_train is None)
    test = test[:n_test]
    return data.X[train], data.y[train], data.X[test], data.y[test], data.entry.spatial


def standardised(X, *others):
    """Return arrays in units of the first one's mean and standard deviation; columns that are constant are centred."""
    center, scale = X.mean(axis=0), X.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    return [(array - center) / scale for array in (X, *others)]


def scores(y, mean, variance):
    """Return what is asked of predictions; of means alone, their error."""
    found = {"rmse": rmse(y, mean)}
    if variance is not None:
        found |= {score.__name__: score(y, mean, variance) for score in (nlpd, crps, coverage)}
    return found


def peak_gib():
    """Return the largest memory this process has held.

    On Linux from /proc: getrusage also counts what the parent process held when it started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)


def run_here(args, name, method_name):
    """Fit, predict and score, with what the other process reads on standard output."""
    method = METHODS[method_name]
    importlib.import_module(method.module)
    warnings.simplefilter("ignore")
    X, y, X_test, y_test, spatial = load(name, args.data_dir, args.splits[0], **(QUICK if args.quick else SETS)[name])
    center, scale = y.mean(), y.std()
    if not method.raw:
        X, X_test = (X, X_test) if spatial else standardised(X, X_test)
        y = (y - center) / scale
    before = peak_gib()
    print(READY, flush=True)
    task = Task(X, y, X_test, spatial, args.threads)
    with threadpool_limits(args.threads):
        fit_s, (predict, learned) = timed(lambda: method.fit(task, **method.options))
        predict_s, (mean, variance) = timed(lambda: predict(X_test))
    if method.raw:
        mean, variance = (mean - center) / scale, None if variance is None else variance / scale**2
    result = {
        **scores((y_test - center) / scale, mean, variance),
        "fit_s": round(fit_s, 3),
        "predict_s": round(predict_s, 3),
        "peak_gib": round(peak_gib(), 3),
        "gib_before": round(before, 3),
        "target_sd": float(scale),
        "rows": [len(X), len(X_test), X.shape[1]],
        "version": importlib.import_module(method.package).__version__,
        "learned": learned,
    }
    print(RESULT + json.dumps(result), flush=True)


def run_apart(args, name, method_name, number):
    """Measure one method on one split in a process of its own, for --cap seconds from the start of its fit."""
    command = [sys.executable, str(HERE / "quality.py"), "--here", "--sets", name, "--methods", method_name]
    command += ["--splits", str(number), "--threads", str(args.threads)] + ["--quick"] * args.quick
    command += ["--data-dir", str(args.data_dir)] if args.data_dir else []
    threads = {f"{pool}_NUM_THREADS": str(args.threads) for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    about = {"method": method_name, "threads": args.threads, "load": round(os.getloadavg()[0], 1)}
    # Without a buffer, so that a line that has arrived is not held back from `communicate`.
    process = subprocess.Popen(
        command, bufsize=0, env=os.environ | threads, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        while (line := process.stdout.readline()) and not line.startswith(READY.encode()):
            pass
        out, err = (text.decode(errors="replace") for text in process.communicate(timeout=args.cap))
    except subprocess.TimeoutExpired:
        return about | {"no answer": f"none in {args.cap:g} s", "cap_s": args.cap}
    finally:
        process.kill()
        process.wait()
    for line in out.splitlines():
        if line.startswith(RESULT):
            return about | json.loads(line.removeprefix(RESULT))
    last = (err.strip().splitlines() or [f"ended by signal {-process.returncode}"])[-1]
    return about | {"no answer": last[:200]}


def told(run):
    if "no answer" in run:
        return f"no answer: {run['no answer']}"
    found = ", ".join(f"{key.upper()} {run[key]:.4f}" for key in ("rmse", "nlpd", "crps", "coverage") if key in run)
    return f"{found}; {run['fit_s']:.1f} + {run['predict_s']:.1f} s, {run['peak_gib']:.2f} GiB"


def measure(args, folder):
    if not args.add:
        (folder / "quality.json").unlink(missing_ok=True)
    for name, number, method_name in product(args.sets, args.splits, args.methods):
        table, of_split = (name, {}) if number == 0 else (name + OTHERS, {"split": number})
        kept, this = read(folder).get(table, []), (number, method_name)
        if args.missing and this in map(which, kept):
            continue
        run = of_split | run_apart(args, name, method_name, number)
        runs = sorted([one for one in kept if which(one) != this] + [run], key=which)
        write("quality", {table: sorted(runs, key=lambda one: list(METHODS).index(one["method"]))}, folder)
        print(f"{name}, split {number}, {LABELS[method_name]}: {told(run)}", flush=True)


def which(run):
    return run.get("split", 0), run["method"]


def read(folder):
    path = folder / "quality.json"
    return json.loads(path.read_text()) if path.exists() else {}


def by_set(results):
    """Return the runs of each set on the first split, and on others."""
    return tuple({name: results[name + end] for name in SETS if name + end in results} for end in ("", OTHERS))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="NAME", help=f"of {', '.join(SETS)}")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--splits", nargs="+", type=int, default=[0], metavar="NUMBER", help="default: the first, 0")
    parser.add_argument("--add", action="store_true", help="keep what is in the results of other sets and methods")
    parser.add_argument("--missing", action="store_true", help="with --add: leave out what is in the results")
    parser.add_argument("--cap", type=float, default=300.0, help="seconds to fit and predict in")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data-dir", help="default: the environment variable LMGP_DATA_DIR")
    parser.add_argument("--out", type=Path, help="a folder for results, figure and page, in place of the repository's")
    parser.add_argument("--quick", action="store_true", help="two sets, few rows")
    parser.add_argument("--redraw", action="store_true", help="only draw the figure and write the tables")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.sets = args.sets or list(QUICK if args.quick else SETS)
    if args.here:
        run_here(args, args.sets[0], args.methods[0])
        return
    if args.quick and args.out is None:
        parser.error("--quick needs --out: its results are not those of the repository")
    folder = args.out or RESULTS
    if not args.redraw:
        measure(args, folder)
    results, others = by_set(read(folder))
    draw(results, (args.out or FIGURES) / "quality.png")
    write_page(results, others, (args.out or FIGURES) / "quality.md")


if __name__ == "__main__":
    main()
