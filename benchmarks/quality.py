"""How good the predictions are: NLPD, CRPS, RMSE, coverage, seconds and memory on ten data sets, beside other packages.

`GPRegressor()` as it comes, on the columns as they come, and beside it a fit with normal noise and its conformal
intervals; a Gaussian kernel learned from 2,000 rows; GPBoost's Vecchia approximation with Matérn-3/2 and exponential
kernels and normal noise, with t noise, and with noise that varies; NGBoost with normal and t distributions;
scikit-learn's gradient boosting for means and for quantiles; and its Gaussian process on 2,000 rows. Only
GPRegressor() gets the raw columns, the others standardised ones (geographical coordinates as they are). Each method
learns all that it needs in `fit`, in a process of its own, whose peak of memory is thereby its own; all have the same
number of threads. Imports and the reading of the data are not timed.

    pip install gpboost==1.8.0
    pip install --no-deps ngboost==0.6.0 lifelines autograd autograd-gamma formulaic interface_meta wrapt
    python benchmarks/quality.py [--data-dir DIR] [--sets NAME ...] [--methods NAME ...] [--cap 300] [--threads 2]
    python benchmarks/quality.py --methods lmgp --add  # measure this one again, keep the others' results
    python benchmarks/quality.py --add --missing       # go on where a run has ended
    python benchmarks/quality.py --quick --out DIR     # two sets, few rows
    python benchmarks/quality.py --sets concrete --splits 1 2 3 --add  # other splits, for a mean over splits
    python benchmarks/quality.py --redraw              # the figure and the tables alone, from the results

NGBoost 0.6.0 allows scikit-learn from 1.8 on only with Python 3.14, and runs with it elsewhere: hence its second line.

A method that has not predicted --cap seconds after it began to fit is stopped: that is its result.

Writes benchmarks/results/quality.json after every run, docs/quality.png, and the tables in
docs/quality.md and docs/quality_tables.md.
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
from quality_distributions import NormalMixture, Quantiles
from quality_page import COVERAGES, LABELS, draw, write_pages
from scipy import stats
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


class Fitted(NamedTuple):
    """A fitted method: how it predicts distributions, or means alone, and what was learned.

    `beside(X, y, predicted, unit)` returns scores of other distributions of the same fit, which are not timed.
    """

    predict: Callable[[np.ndarray], Any]
    learned: dict[str, Any]
    beside: Callable[..., dict[str, Any]] = lambda *arguments: {}


class Method(NamedTuple):
    """How to fit: `fit(task, **options)` returns what was fitted."""

    package: str
    modules: str  # imported before the clock starts
    fit: Callable[..., Fitted]
    options: dict[str, Any]
    raw: bool = False  # gets rows as they are


def words(of):
    """Return how an object prints, on one line."""
    return " ".join(repr(of).split())


def fit_lmgp(task, **options):
    from lmgp import GPRegressor

    model = GPRegressor(random_state=0, **options).fit(task.X, task.y)

    def beside(X, y, predicted, unit):
        plain = clone(model).set_params(noise="normal").fit(task.X, task.y)  # which is learned apart
        *_, location, scale = predicted.args
        tails = 0.5 - 0.5 * np.array(list(COVERAGES))
        widths = np.array([model.noise_.conformal_width(level) for level in COVERAGES])
        quantiles = location[:, None] + scale[:, None] * np.concatenate([-widths, widths])
        normal = plain.predict_distribution(X)
        conformal = Quantiles(np.sort(np.concatenate([tails, 1.0 - tails])), quantiles)
        return {"normal": scores(y, normal, unit), "conformal": covered(y, conformal)}

    # The model without what stands beside it.
    chosen = clone(model.model_).set_params(kernel=None, noise_variance=None, random_state=None)
    learned = {
        "kernel": words(model.kernel_),
        "noise_variance": float(model.noise_variance_),
        "chosen": words(chosen),
        "learning": str(getattr(model, "learning_", "")).splitlines(),
        "selection": str(model.selection_).splitlines(),
        "noise": str(model.noise_).splitlines(),
    }
    return Fitted(model.predict_distribution, learned, beside)


def fit_gpboost(task, shape, shape_in_space=None, likelihood="gaussian"):
    """GPBoost's Vecchia approximation, with its default neighbours (20, and 40 to predict) and optimiser.

    Where a kernel in space has a shape of its own, it has one lengthscale there.
    """
    import gpboost

    one = task.spatial and shape_in_space is not None

    def fitted(likelihood, **start):
        model = gpboost.GPModel(
            gp_coords=task.X,
            cov_function="matern" if one else "matern_ard",
            cov_fct_shape=shape_in_space if one else shape,
            gp_approx="vecchia",
            likelihood=likelihood,
            num_parallel_threads=task.threads,
        )
        return model.fit(task.y, params=start or None)

    def parameters(model):
        return np.ravel(model.get_cov_pars(format_pandas=False))

    if likelihood == "t":
        # From the model with normal noise: from its own start, the optimiser ends far below the best.
        variance, *of_kernel = parameters(fitted("gaussian"))
        start = {"init_cov_pars": np.array(of_kernel), "init_aux_pars": np.array([np.sqrt(variance), 5.0])}
        model = fitted("t", **start)
        scale, degrees = of_noise = np.ravel(model.get_aux_pars(format_pandas=False)).tolist()
    else:
        model, of_noise = fitted(likelihood), []

    def predict(X):
        predicted = model.predict(gp_coords_pred=X, predict_var=True, predict_response=likelihood != "t")
        if likelihood == "t":
            return NormalMixture.of_normal_and_student(predicted["mu"], predicted["var"], degrees, scale)
        return stats.norm(predicted["mu"], np.sqrt(predicted["var"]))

    learned = {
        "covariance parameters": parameters(model).tolist(),
        "of the noise": of_noise,
        "iterations": model._get_num_optim_iter(),
    }
    return Fitted(predict, learned)


def fit_ngboost(task, distribution):
    """NGBoost with its default settings: 500 trees for each parameter of the distribution."""
    import ngboost

    model = ngboost.NGBRegressor(Dist=getattr(ngboost.distns, distribution), random_state=0, verbose=False)
    model.fit(task.X, task.y)
    return Fitted(lambda X: model.pred_dist(X).dist, {"iterations": len(model.base_models)})


def fit_boosting(task):
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(random_state=0).fit(task.X, task.y)
    return Fitted(model.predict, {"iterations": int(model.n_iter_)})


def fit_quantile_boosting(task):
    """A model for each of 23 quantiles: 5% to 95%, and those of the 95 and the 99% intervals."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    levels = np.array([0.005, 0.025, *np.linspace(0.05, 0.95, 19), 0.975, 0.995])
    models = [
        HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=0).fit(task.X, task.y)
        for level in levels
    ]

    def predict(X):
        return Quantiles(levels, np.column_stack([model.predict(X) for model in models]))

    return Fitted(predict, {"iterations": [int(model.n_iter_) for model in models]})


def fit_sklearn_gp(task, n_rows=2000):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    kernel = ConstantKernel() * Matern(np.ones(task.X.shape[1]), nu=1.5) + WhiteKernel()
    rows = np.random.default_rng(0).permutation(len(task.y))[:n_rows]
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(task.X[rows], task.y[rows])

    def predict(X):
        return stats.norm(*model.predict(X, return_std=True))  # with the noise of the white kernel

    return Fitted(predict, {"kernel": words(model.kernel_)})


METHODS = {
    "lmgp": Method("lmgp", "lmgp.estimators.chosen torch numba", fit_lmgp, {}, raw=True),
    "lmgp-gaussian": Method("lmgp", "lmgp.estimators.chosen torch numba", fit_lmgp, {"kernel": None, "ard": False}),
    "gpboost-matern32": Method("gpboost", "gpboost", fit_gpboost, {"shape": 1.5}),
    "gpboost-exponential": Method("gpboost", "gpboost", fit_gpboost, {"shape": 0.5, "shape_in_space": 0.5}),
    "gpboost-t": Method("gpboost", "gpboost", fit_gpboost, {"shape": 1.5, "shape_in_space": 0.5, "likelihood": "t"}),
    "gpboost-varying": Method(
        "gpboost", "gpboost", fit_gpboost,
        {"shape": 1.5, "shape_in_space": 0.5, "likelihood": "gaussian_heteroscedastic_fixed_and_random"},
    ),
    "ngboost-normal": Method("ngboost", "ngboost", fit_ngboost, {"distribution": "Normal"}),
    "ngboost-t": Method("ngboost", "ngboost", fit_ngboost, {"distribution": "TFixedDf"}),
    "boosting": Method("sklearn", "sklearn.ensemble", fit_boosting, {}),
    "quantile-boosting": Method("sklearn", "sklearn.ensemble", fit_quantile_boosting, {}),
    "sklearn-gp": Method("sklearn", "sklearn.gaussian_process", fit_sklearn_gp, {}),
}  # fmt: skip
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


def scores(y, predicted, unit):
    """Return what is asked of predictions, with y in other units than theirs; of means alone, their error."""
    if isinstance(predicted, np.ndarray):
        return {"rmse": rmse(y, predicted) / unit}
    found = {"rmse": rmse(y, predicted.mean()) / unit} if hasattr(predicted, "mean") else {}
    found |= {"nlpd": nlpd(y, predicted) - float(np.log(unit))} if hasattr(predicted, "logpdf") else {}
    return found | {"crps": crps(y, predicted) / unit} | covered(y, predicted)


def covered(y, predicted):
    """Return the share of targets within intervals of each level."""
    return {key: coverage(y, predicted, level=level) for level, key in COVERAGES.items()}


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
    for module in method.modules.split():
        importlib.import_module(module)
    warnings.simplefilter("ignore")
    X, y, X_test, y_test, spatial = load(name, args.data_dir, args.splits[0], **(QUICK if args.quick else SETS)[name])
    center, scale = y.mean(), y.std()
    unit = scale if method.raw else 1.0
    if not method.raw:
        X, X_test = (X, X_test) if spatial else standardised(X, X_test)
        y, y_test = (y - center) / scale, (y_test - center) / scale
    before = peak_gib()
    print(READY, flush=True)
    task = Task(X, y, X_test, spatial, args.threads)
    with threadpool_limits(args.threads):
        fit_s, fitted = timed(lambda: method.fit(task, **method.options))
        predict_s, predicted = timed(lambda: fitted.predict(X_test))
        peak = peak_gib()
        beside = fitted.beside(X_test, y_test, predicted, unit)
    result = {
        **scores(y_test, predicted, unit),
        "beside": beside,
        "fit_s": round(fit_s, 3),
        "predict_s": round(predict_s, 3),
        "peak_gib": round(peak, 3),
        "gib_before": round(before, 3),
        "target_sd": float(scale),
        "rows": [len(X), len(X_test), X.shape[1]],
        "version": importlib.import_module(method.package).__version__,
        "learned": fitted.learned,
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
    keys = ("rmse", "nlpd", "crps", *COVERAGES.values())
    found = ", ".join(f"{key.upper()} {run[key]:.4f}" for key in keys if key in run)
    return f"{found}; {run['fit_s']:.1f} + {run['predict_s']:.1f} s, {run['peak_gib']:.2f} GiB"


def measure(args, folder):
    if not args.add:
        (folder / "quality.json").unlink(missing_ok=True)
    for name, number, method_name in product(args.sets, args.splits, args.methods):
        table, of_split = (name, {}) if number == 0 else (name + OTHERS, {"split": number})
        this = number, method_name
        if args.missing and this in map(which, read(folder).get(table, [])):
            continue
        run = of_split | run_apart(args, name, method_name, number)
        kept = read(folder).get(table, [])
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
    write_pages(results, others, args.out or FIGURES)


if __name__ == "__main__":
    main()
