"""KL divergence from the exact GP against seconds: localized models, random features, Nyström, neighbours, GPBoost.

All methods have the same hyperparameters and are measured in turns, side by side in one process: the seconds to fit
and to predict with variances, and the KL divergence per row from the exact GP on the first 1,000 test rows.

    pip install gpboost==1.8.0                # for its rows, which are left out without it
    python benchmarks/localized.py [--data-dir DIR] [--sets NAME ...] [--test-rows N ...] [--repeats 3]
    python benchmarks/localized.py --sets NAME --settings short --add    # measure this one, keep the others' results
    python benchmarks/localized.py --quick    # two sets, few rows, once
    python benchmarks/localized.py --redraw   # the figure alone, from the results

A run that is expected to take longer than --cap seconds is left out, and listed as such. The last run of the method
with as many or fewer test rows says what is expected: the same, or in proportion where the work is that of test rows.

Writes benchmarks/results/localized.json after every set, with every run and the environment, and docs/localized.png.
"""

import argparse
import json
import math
import os
import sys
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from common import FIGURES, RESULTS, timed
from common import environment as machine
from matplotlib.figure import Figure
from sklearn.base import clone

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    TaylorFeatures,
)
from lmgp.errors import ToleranceWarning
from lmgp.experiments.datasets import load_dataset, split
from lmgp.metrics import kl_divergence

try:
    import gpboost
except ImportError:
    gpboost = None

SETS = ("uk_flats_2020-12", "uk_houses_2020-12", "modis_lst", "kin40k", "kin8nm")
# Hyperparameters beside those that are learned: as published, and with a lengthscale of a third of it.
GIVEN = {
    "uk_flats_2020-12": {
        "paper": (GaussianKernel(0.248, 0.506), 0.2019),
        "short": (GaussianKernel(0.082, 0.35), 0.2),
    }
}
KL_ROWS = 1000
MAX_EXACT_TEST_ROWS = 10_000
JITTER = 0.1  # lengthscales between a test row and the one that it repeats, where there are too few
LEAST_KL = 1e-8  # what is less is drawn there
EXACT_LABEL = "exact GP, fewest test rows"

COLOURS = {
    "local Taylor, threshold 2": "#d55e00", "local Taylor, threshold 1": "#e69f00",
    "local Taylor, threshold 4": "#fdae61", "global Taylor": "#8c510a",
    "auto": "#d7191c", "random Fourier": "#0072b2", "orthogonal Fourier": "#56b4e9", "Nyström": "#009e73",
    "nearest rows": "#cc79a7", "GPBoost Vecchia": "#000000", "GPBoost FITC": "#8c8c8c",
    "GPBoost full-scale Vecchia": "#5e4fa2",
}  # fmt: skip


class Problem(NamedTuple):
    """Training rows and hyperparameters."""

    X: np.ndarray
    y: np.ndarray
    kernel: GaussianKernel
    noise_variance: float


class Method(NamedTuple):
    """`run(problem, X)` returns means, variances with noise, and what else is to be in the results."""

    family: str
    size: str
    run: Callable[[Problem, np.ndarray], tuple[np.ndarray, np.ndarray, dict[str, Any]]]
    grows: bool = False  # its work is that of the test rows


def ours(model):
    def run(problem, X):
        fitted = clone(model).set_params(kernel=problem.kernel, noise_variance=problem.noise_variance)
        mean, std = fitted.fit(problem.X, problem.y).predict(X, return_std=True, include_noise=True)
        selection = [trial._asdict() for trial in getattr(fitted, "selection_", ())]
        return mean, std**2, {"selection": selection} if selection else {}

    return run


def theirs(**options):
    """GPBoost: its Gaussian kernel is σ² exp(−(r/ρ)²). What is conditioned on in prediction is left at its defaults."""

    def run(problem, X):
        center, kernel, noise_variance = problem.y.mean(), problem.kernel, problem.noise_variance
        parameters = np.array([noise_variance, kernel.variance, math.sqrt(2.0) * kernel.lengthscale])
        options_now = {"cov_function": "gaussian", "num_parallel_threads": torch.get_num_threads(), **options}
        predicted = gpboost.GPModel(gp_coords=problem.X, **options_now).predict(
            y=problem.y - center, gp_coords_pred=X, cov_pars=parameters, predict_var=True, predict_response=False
        )
        return predicted["mu"] + center, predicted["var"] + noise_variance, {}

    return run


def methods(n_columns, n_test):
    def local(size, threshold):
        features = TaylorFeatures(size, index_set="total_degree" if n_columns <= 3 else "energy")
        model = LocalizedGPRegressor(features, threshold, solver="auto")
        return Method(f"local Taylor, threshold {threshold}", str(size), ours(model))

    def auto(tolerance):
        model = GPRegressor(float(tolerance), n_predict=n_test, noise="normal", random_state=0)
        return Method("auto", tolerance, ours(model))

    def featurized(family, features):
        return Method(family, str(features.n_features), ours(FeaturizedGPRegressor(features, random_state=0)))

    def boost(family, size, **options):
        return Method(f"GPBoost {family}", size, theirs(**options), grows=True)

    yield Method("exact", "", ours(ExactGPRegressor()))
    if n_columns <= 3:
        yield from (local(*choice) for choice in ((55, 2), (120, 2), (253, 2), (496, 2), (120, 1), (120, 4), (253, 4)))
        yield from (auto("1e-3"), auto("1e-4"))
    else:
        yield from (local(*choice) for choice in ((128, 2), (512, 2), (512, 1)))
        yield from (featurized("global Taylor", TaylorFeatures(size, index_set="energy")) for size in (128, 512))
        yield auto("1e-3")
    for size in (256, 1024):
        yield featurized("random Fourier", lmgp.RandomFourierFeatures(size))
        yield featurized("orthogonal Fourier", lmgp.OrthogonalFourierFeatures(size))
        yield featurized("Nyström", lmgp.NystroemFeatures(size))
    for k in (32, 128):
        model = NearestNeighborsGPRegressor(k)
        yield Method("nearest rows", str(k), ours(model), grows=True)
    yield from (boost("Vecchia", str(k), gp_approx="vecchia", num_neighbors=k) for k in (30, 60))
    yield boost("FITC", "200", gp_approx="fitc", num_ind_points=200)
    yield boost("full-scale Vecchia", "200/30", gp_approx="full_scale_vecchia", num_ind_points=200, num_neighbors=30)


def made_problem(n_rows, n_columns):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns))
    y = 3.0 + np.sin(X.sum(axis=1)) + 0.3 * rng.standard_normal(n_rows)
    return Problem(X, y, GaussianKernel(math.sqrt(n_columns), 1.3), 0.1)


def check_gpboost():
    """Return how far its exact mode is from ours, which says whether its parameters are what we take them for."""
    problem = made_problem(200, 2)
    exact, other = (run(problem, problem.X[:50] + 0.1) for run in (ours(ExactGPRegressor()), theirs(gp_approx="none")))
    difference = max(float(np.abs(exact[i] - other[i]).max()) for i in (0, 1))
    assert difference < 1e-8, f"GPBoost's exact mode differs from the exact GP by {difference:.1e}"
    print(f"GPBoost {gpboost.__version__}: its exact mode differs from the exact GP by {difference:.1e}")
    return difference


def load(name, n_train, data_dir):
    """Return training inputs and targets, and the inputs of all other rows."""
    data = load_dataset(name, data_dir)
    train, rest = split(data, 0, n_train=min(n_train, len(data.y) - KL_ROWS), published=False)
    X = data.X
    if not data.entry.spatial:
        X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    return X[train], data.y[train], X[rest]


def test_inputs(rest, n_test, lengthscale):
    rng = np.random.default_rng(0)
    more = rest[rng.integers(len(rest), size=max(0, n_test - len(rest)))]
    return np.vstack([rest[:n_test], more + JITTER * lengthscale * rng.standard_normal(more.shape)])


def why_not(method, n_test, runs, cap):
    """Return why a run is left out; None where it is not."""
    if method.family.startswith("GPBoost") and gpboost is None:
        return "gpboost is not installed"
    if method.family == "exact" and n_test > MAX_EXACT_TEST_ROWS:
        return f"measured up to {MAX_EXACT_TEST_ROWS:,} test rows"
    before = [run for run in runs if run["method"] == method[:2] and run["test_rows"] <= n_test]
    if before:
        last = max(before, key=lambda run: (run["test_rows"], run["repeat"]))
        expected = last["s"] * (n_test / last["test_rows"] if method.grows else 1.0)
        return f"expected to take {expected:.0f} s" if expected > cap else None
    return None


def measure(name, problem, rest, args):
    """Measure all methods in turns, and return the part of the results on one set with its hyperparameters."""
    load_before, (n_train, n_columns) = os.getloadavg(), problem.X.shape
    lengthscale = problem.kernel.lengthscale
    reference = ours(ExactGPRegressor())(problem, rest[:KL_ROWS])[:2]
    warm_up = made_problem(1000, n_columns)
    for method in methods(n_columns, 20):
        if why_not(method, 20, [], args.cap) is None:
            method.run(warm_up, warm_up.X[:20] + 0.1)
    jittered = {n_test: max(0, n_test - len(rest)) for n_test in args.test_rows}
    print(f"{name}: {n_train:,} training rows; test rows that repeat others with a jitter: {jittered}")
    runs, left_out = [], []
    for repeat, n_test in product(range(args.repeats), sorted(args.test_rows)):
        X = test_inputs(rest, n_test, lengthscale)
        for method in methods(n_columns, n_test):
            run = {"method": method[:2], "test_rows": n_test, "repeat": repeat}
            reason = why_not(method, n_test, runs, args.cap)
            if reason is None:
                try:
                    seconds, (mean, variance, more) = timed(lambda method=method, X=X: method.run(problem, X))
                    kl = float(kl_divergence(mean[:KL_ROWS], variance[:KL_ROWS], *reference).mean())
                    runs.append({**run, "s": seconds, "kl": kl, **more})
                except Exception as error:  # one failure does not end a run of hours
                    reason = f"{type(error).__name__}: {error}"
            if reason is not None:
                left_out.append({**run, "reason": reason})
            told = f"left out: {reason}" if reason is not None else f"{seconds:.2f} s, KL per row {kl:.1e}"
            print(f"{name}, {n_test:,} test rows, {' '.join(method[:2]).strip()}: {told}", flush=True)
    return {
        "set": name,
        "command": sys.argv,
        "train_rows": n_train,
        "columns": n_columns,
        "hyperparameters": [lengthscale, problem.kernel.variance, problem.noise_variance],
        "jittered test rows": jittered,
        "load average": [load_before, os.getloadavg()],
        "medians": medians(runs, ("method", "test_rows"), ("s", "kl")),
        "left out": left_out,
        "runs": runs,
    }


def medians(runs, keys, values):
    groups = {}
    for run in runs:
        groups.setdefault(tuple(run[key] for key in keys), []).append(run)
    return [
        dict(zip(keys, of, strict=True)) | {value: median(run[value] for run in group) for value in values}
        for of, group in groups.items()
    ]


def environment():
    libraries = {library.__name__: library.__version__ for library in (lmgp, gpboost) if library}
    return {**machine(), "libraries": libraries, "cpus": os.cpu_count()}


def compare(args, results, figure):
    report = {"environment": environment(), "sets": []}
    if args.add:
        report["sets"] = json.loads(results.read_text())["sets"]
    if gpboost is None:
        print("GPBoost is left out. To measure it: pip install gpboost==1.8.0")
    else:
        report["GPBoost's exact mode differs by"] = check_gpboost()
    for name in args.sets:
        X, y, rest = load(name, args.train_rows, args.data_dir)
        learned = ExactGPRegressor(random_state=0).fit(X, y)
        settings = GIVEN.get(name, {}) | {"converged": (learned.kernel_, learned.noise_variance_)}
        for setting, given in settings.items():
            if setting in args.settings:
                measured = measure(f"{name}, {setting}", Problem(X, y, *given), rest, args)
                report["sets"] = [one for one in report["sets"] if one["set"] != measured["set"]] + [measured]
                results.write_text(json.dumps(report) + "\n")  # long: selections have many lines
    draw(report["sets"], figure)


def draw(sets, path):
    """Draw the divergence over the seconds: one panel a set, for 10,000 test rows if these were measured.

    Two panels a row, and letters that can be read where the figure is 390 pixels wide.
    """
    n_rows = len(sets) // 2 + 1  # one place for the legend
    figure = Figure(figsize=(6.6, 2.9 * n_rows), layout="constrained")
    legend = {}
    for number, measured in enumerate(sets):
        axes = figure.add_subplot(n_rows, 2, number + 1)
        n_test = max({run["test_rows"] for run in measured["medians"]}, key=lambda n: (n == 10_000, n))
        points = {}
        for run in measured["medians"]:
            if run["test_rows"] == n_test:
                points.setdefault(run["method"][0], []).append((run["s"], max(run["kl"], LEAST_KL)))
        exact = [run["s"] for run in measured["medians"] if run["method"][0] == "exact"][:1]
        for seconds in exact:
            axes.axvline(seconds, color="black", linestyle="--", linewidth=1.5, label=EXACT_LABEL)
        for family, colour in COLOURS.items():
            style = {"marker": "o", "markersize": 6, "linewidth": 2}
            if family == "auto":
                style = {"marker": "*", "linestyle": "none", "markersize": 15}
            if family in points:
                axes.plot(*zip(*points[family], strict=True), color=colour, label=family, **style)
        axes.set(xscale="log", yscale="log")
        axes.tick_params(labelsize=11)
        axes.set_title(f"{measured['set'].replace(', ', chr(10))}, n = {measured['train_rows']:,}", fontsize=12)
        axes.grid(alpha=0.25)
        handles, labels = axes.get_legend_handles_labels()
        legend |= dict(zip(labels, handles, strict=True))
    figure.supxlabel("seconds to fit, and to predict 10,000 rows", fontsize=12)
    figure.supylabel(f"KL per row, nats ({LEAST_KL:g}: or less)", fontsize=12)
    order = [label for label in (*COLOURS, EXACT_LABEL) if label in legend]
    axes = figure.add_subplot(n_rows, 2, 2 * n_rows - 1 + len(sets) % 2)
    axes.axis("off")
    axes.legend([legend[label] for label in order], order, loc="center", fontsize=10.5, frameon=False)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--settings", nargs="+", default=["paper", "short", "converged"], help="hyperparameters")
    parser.add_argument("--add", action="store_true", help="keep what is in the results of other sets and settings")
    parser.add_argument("--test-rows", nargs="+", type=int, default=[1000, 10_000, 100_000], help="1,000 or more")
    parser.add_argument("--train-rows", type=int, default=10_000, help="at most")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cap", type=float, default=120.0, help="expected seconds from which on a run is left out")
    parser.add_argument("--data-dir", help="default: the environment variable LMGP_DATA_DIR")
    parser.add_argument("--out", type=Path, help="a folder for results and figure, in place of the repository's")
    parser.add_argument("--quick", action="store_true", help="two sets, few rows, once")
    parser.add_argument("--redraw", action="store_true", help="only draw the figure, from the results")
    args = parser.parse_args()
    if args.quick:
        args.sets, args.test_rows, args.train_rows, args.repeats = (SETS[0], SETS[-1]), [1000], 2000, 1
    results, figure = args.out or RESULTS, (args.out or FIGURES) / "localized.png"
    results.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", ToleranceWarning)  # the selections say it
    if args.redraw:
        draw(json.loads((results / "localized.json").read_text())["sets"], figure)
    else:
        compare(args, results / "localized.json", figure)


if __name__ == "__main__":
    main()
