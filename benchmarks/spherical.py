"""Spherical random Fourier features beside random Maclaurin features and TensorSketch, for polynomial kernels.

The figures and the table of Pennington, Yu and Kumar (NIPS 2015) on scikit-learn's digits, rows of unit norm, with
a = 4 and 10 Gaussians, in parts:

    fit       L of the fitted density, the least of all densities, the single Gaussian and eq. 6; Figure 1
    mse       the error of the kernel over the number of columns; Figure 2, also for rows uniform on the sphere
    craft     eigenvalues, error and accuracy with and without a random projection; Figure 3
    time      seconds to make the features of 1,000 rows; Figure 4
    accuracy  LinearSVC on the features beside SVC with the exact kernel; Table 1

    python benchmarks/spherical.py [--only mse time] [--quick] [--redraw]

Writes benchmarks/results/spherical.json (every run, and the environment) and docs/spherical_PART.png; parts that are
not run keep their entries. --quick does every part at tiny sizes, and keeps nothing.
"""

import argparse
import json
from functools import partial
from itertools import product
from statistics import mean, median, stdev

import numpy as np
from common import FIGURES, NARROW, RESULTS, WIDTH, timed, write
from matplotlib import rc_context
from matplotlib.figure import Figure
from scipy.optimize import nnls
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import PolynomialCountSketch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from sklearn.svm import SVC, LinearSVC

from lmgp.features.composition import CraftFeatures
from lmgp.features.maclaurin import PolynomialMaclaurinFeatures
from lmgp.features.spherical import RadialFit, SphericalFourierFeatures, fit_radial, sphere_cosine

A = 4.0
KERNEL = {"gamma": 2 / A**2, "coef0": 1 - 2 / A**2}
MARKERS = {"RM": "o", "TS": "s", "SRF": "D", "SRF orthogonal": "^", "exact": "o"}
COLOURS = {"RM": "#d55e00", "TS": "#8c8c8c", "SRF": "#0072b2", "SRF orthogonal": "#009e73", "exact": "#000000"}
# A TensorSketch of many rows at once waits for memory; in small blocks it is several times faster.
BLOCK = 25
PENALTIES = (1.0, 10.0, 100.0)


def make_map(method, n_features, degree, seed):
    if method == "RM":
        return PolynomialMaclaurinFeatures(n_features, degree, **KERNEL, random_state=seed)
    if method == "TS":
        return PolynomialCountSketch(degree=degree, n_components=n_features, **KERNEL, random_state=seed)
    return SphericalFourierFeatures(n_features, degree, A, orthogonal=method == "SRF orthogonal", random_state=seed)


def exact_kernel(X, degree):
    return (KERNEL["coef0"] + KERNEL["gamma"] * X @ X.T) ** degree


def columns(fitted, X, blocks):
    if not blocks:
        return fitted.transform(X)
    return np.concatenate([fitted.transform(X[start : start + BLOCK]) for start in range(0, len(X), BLOCK)])


def sphere(n_rows, n_columns):
    # A seed that no map has: the same numbers in rows and frequencies would spoil both.
    return normalize(np.random.default_rng(2015).standard_normal((n_rows, n_columns)))


def digits():
    X, y = load_digits(return_X_y=True)
    return normalize(X), y


def least_loss(fitted):
    """The least L of any non-negative radial distribution on the grid of a fit, by non-negative least squares."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    root = np.sqrt(weights)
    matrix = sphere_cosine(np.outer(nodes + 1.0, fitted.radii), fitted.n_inputs)
    _, residual = nnls(root[:, None] * matrix, root * fitted.target(nodes + 1.0), maxiter=20_000)
    return residual**2 / 2


# ---------------------------------------------------------------------------------------------------------------- parts


def run_fit(quick):
    runs, z = [], np.linspace(0, 2, 81)
    for d in (16,) if quick else (64, 256):
        for a in (2.0, 3.0, 4.0):
            for degree in (3, 10) if quick else (3, 7, 10, 20):
                fitted = fit_radial(degree, a, d)
                single = RadialFit(degree, a, d, np.ones(1), np.array([degree**0.5 / a]))
                run = {
                    "d": d, "a": a, "degree": degree, "loss": fitted.loss, "least": least_loss(fitted),
                    "single": single.loss, "eq6": 105 / 4096 * np.sqrt(np.pi / 2) * a / degree**2.5,
                    "value": fitted.value,
                }  # fmt: skip
                if a == 2.0 and degree >= 10:
                    support = fitted.radii[fitted.density(fitted.radii) > 0]
                    w = np.linspace(0.95 * support[0], 1.05 * support[-1], 201)
                    run |= {"z": z.tolist(), "exact": fitted.target(z).tolist(), "fitted": fitted.kernel(z).tolist()}
                    run |= {"w": w.tolist(), "density": fitted.density(w).tolist()}
                runs.append(run)
                print(f"d {d}, a {a:g}, p {degree}: L {run['loss']:.2e}, least {run['least']:.2e}, "
                      f"single {run['single']:.2e}, eq. 6 {run['eq6']:.2e}, K̂(0) {run['value']:.4f}")  # fmt: skip
    return runs


def run_mse(quick):
    sets = {"digits": (digits()[0], 10), "sphere, d = 256": (sphere(600, 256), 5)}
    runs = []
    for name, (X, n_seeds) in sets.items():
        rows = X[np.random.default_rng(1).permutation(len(X))[: 60 if quick else 600]]
        upper = np.triu_indices(len(rows))
        for degree in (3, 20) if quick else (3, 7, 10, 20):
            target = exact_kernel(rows, degree)
            for method in ("RM", "TS", "SRF", "SRF orthogonal"):
                for size in (64, 256) if quick else [2**k for k in range(6, 13)]:
                    errors = []
                    for seed in range(2 if quick else n_seeds):
                        features = columns(make_map(method, size, degree, seed).fit(rows), rows, method == "TS")
                        errors.append(float(np.mean((features @ features.T - target)[upper] ** 2)))
                    runs.append({"data": name, "degree": degree, "method": method, "D": size, "mse": errors,
                                 "mean": mean(errors), "sd": stdev(errors)})  # fmt: skip
                print(f"{name}, p {degree}, {method}: D {size}, MSE {mean(errors):.2e} ± {stdev(errors):.1e}")
    return runs


def accuracy(train, test, y_train, y_test, penalty):
    """Fit a linear support vector machine to features, one class against the rest."""
    return float(LinearSVC(C=penalty, tol=1e-3, random_state=0).fit(train, y_train).score(test, y_test))


def choose(score):
    """The penalty of the best score on validation rows; the smallest of equals."""
    return max(PENALTIES, key=lambda penalty: (score(penalty), -penalty))


def split(X, y, seed):
    """Rows to learn from, to choose the penalty on, and to test on."""
    learn, rest, y_learn, y_rest = train_test_split(X, y, train_size=1000, stratify=y, random_state=seed)
    check, test, y_check, y_test = train_test_split(rest, y_rest, train_size=300, stratify=y_rest, random_state=seed)
    return (learn, y_learn), (check, y_check), (test, y_test)


def run_craft(quick):
    X, y = digits()
    degree, sizes, factor = 10, [2**8] if quick else [2**k for k in range(9, 13)], 4
    runs = []
    for seed in range(1 if quick else 3):
        (learn, y_learn), (check, y_check), (test, y_test) = split(X, y, seed)
        rows = learn[:200] if quick else learn
        target = exact_kernel(rows, degree)
        exact = np.linalg.eigvalsh(target)[::-1]
        for method in ("RM", "TS", "SRF"):
            for craft in (False, True):
                penalty = None
                for size in sizes:
                    larger = make_map(method, factor * size if craft else size, degree, seed)
                    made = CraftFeatures(larger, size, projection="srht", random_state=seed) if craft else larger
                    made.fit(rows)
                    features, validation, rest = (columns(made, part, method == "TS") for part in (rows, check, test))
                    kernel = features @ features.T
                    labels = y_learn[: len(rows)]
                    if penalty is None:
                        penalty = choose(partial(accuracy, features, validation, labels, y_check))
                    run = {"seed": seed, "method": method, "craft": craft, "D": size, "degree": degree,
                           "mse": float(np.mean((kernel - target) ** 2)),
                           "accuracy": accuracy(features, rest, labels, y_test, penalty)}  # fmt: skip
                    if seed == 0 and size == sizes[-1]:
                        kept = exact > 1e-10 * exact[0]
                        found = np.maximum(np.linalg.eigvalsh(kernel)[::-1][kept], 1e-16 * exact[0])
                        run["log_ratio"] = np.log(found / exact[kept])[:: max(1, kept.sum() // 100)].tolist()
                        run["every"] = max(1, int(kept.sum() // 100))
                    runs.append(run)
                    print(f"seed {seed}, {method}{' CRAFT' if craft else ''}, D {size}: MSE {run['mse']:.2e}, "
                          f"accuracy {100 * run['accuracy']:.2f}%")  # fmt: skip
    return runs


def run_time(quick):
    sizes = [2**8, 2**9] if quick else [2**k for k in range(8, 14)]
    cases = [("d = 1,000", 1000, size) for size in sizes] + [("d = D", size, size) for size in sizes if size < 2**13]
    runs = []
    for case, d, size in cases:
        X = sphere(100 if quick else 1000, d)
        for method in ("RM", "TS", "SRF"):
            fitted = make_map(method, size, 3, 0).fit(X)
            seconds = [timed(lambda f=fitted, m=method, X=X: columns(f, X, m == "TS"))[0] for _ in range(3)]
            runs.append({"case": case, "d": d, "D": size, "method": method, "s": seconds, "median_s": median(seconds)})
            print(f"{case}, D {size}, {method}: {median(seconds):.3f} s")
    return runs


def run_accuracy(quick):
    X, y = digits()
    runs = []
    for seed in range(1 if quick else 3):
        (learn, y_learn), (check, y_check), (test, y_test) = split(X, y, seed)
        for degree in (3, 20) if quick else (3, 7, 10, 20):

            def exact(penalty, rows=test, labels=y_test, degree=degree, learn=learn, y_learn=y_learn):
                return SVC(C=penalty, kernel="poly", degree=degree, **KERNEL).fit(learn, y_learn).score(rows, labels)

            score = exact(choose(partial(exact, rows=check, labels=y_check)))
            runs.append({"seed": seed, "degree": degree, "method": "exact", "D": None, "accuracy": float(score)})
            for method in ("RM", "TS", "SRF", "SRF orthogonal"):
                penalty = None
                for size in (2**8,) if quick else [2**k for k in range(9, 13)]:
                    made = make_map(method, size, degree, seed).fit(learn)
                    parts = [columns(made, rows, method == "TS") for rows in (learn, check, test)]
                    if penalty is None:  # chosen at the smallest size, for all
                        penalty = choose(partial(accuracy, parts[0], parts[1], y_learn, y_check))
                    score = accuracy(parts[0], parts[2], y_learn, y_test, penalty)
                    runs.append({"seed": seed, "degree": degree, "method": method, "D": size, "C": penalty,
                                 "accuracy": score})  # fmt: skip
                print(f"seed {seed}, p {degree}, {method}: D {size}, accuracy {100 * score:.2f}%")
    return runs


# -------------------------------------------------------------------------------------------------------------- figures


def panels(number, legend_rows=1):
    """Return a figure of two panels a row, and its panels."""
    n_rows = -(-number // 2)
    figure = Figure(figsize=(WIDTH, 3.1 * n_rows + 0.35 * legend_rows), layout="constrained")
    axes = figure.subplots(n_rows, 2, squeeze=False).ravel()
    for unused in axes[number:]:
        unused.axis("off")
    return figure, axes[:number]


def legend(figure, axes, ncols=2):
    """Put the lines of all panels in one legend below them."""
    found = {}
    for panel in axes:
        handles, labels = panel.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    figure.legend(found.values(), found, loc="outside lower center", ncols=ncols)


def lines(axes, runs, x, value, label="method"):
    """One line for each label: the mean over the runs of the same x, with a bar of one standard deviation."""
    for name in dict.fromkeys(run[label] for run in runs):
        own = [run for run in runs if run[label] == name]
        at = sorted({run[x] for run in own})
        values = [np.ravel([run[value] for run in own if run[x] == size]) for size in at]
        plain = name.removesuffix(" CRAFT")
        style = {"color": COLOURS[plain], "linestyle": "--" if "CRAFT" in name else "-"}
        style |= {"marker": MARKERS[plain], "markersize": 5, "capsize": 2}
        axes.errorbar(at, [v.mean() for v in values], [v.std() for v in values], label=name, **style)
    axes.set_xscale("log", base=2)
    axes.set_xlabel(x)


def draw_fit(runs):
    curves = [run for run in runs if "z" in run and run["d"] == max(run["d"] for run in runs)]
    figure, axes = panels(2 * len(curves))
    for left, right, run in zip(axes[::2], axes[1::2], curves, strict=True):
        left.plot(run["z"], run["exact"], "k", label="K")
        left.plot(run["z"], run["fitted"], "--", color=COLOURS["SRF"], label="K̂")
        left.set(xlabel="z", title=f"p = {run['degree']}, d = {run['d']}, a = {run['a']:g}")
        right.plot(run["w"], run["density"], color=COLOURS["SRF"])
        right.set(xlabel="w", title="p(w)")
    legend(figure, axes)
    return figure


def draw_mse(runs):
    sets, degrees = (list(dict.fromkeys(run[key] for run in runs)) for key in ("data", "degree"))
    figure, axes = panels(len(sets) * len(degrees), legend_rows=2)
    for place, (degree, name) in enumerate(product(degrees, sets)):
        own = [run for run in runs if (run["data"], run["degree"]) == (name, degree)]
        lines(axes[place], own, "D", "mse")
        axes[place].set(yscale="log", title=f"{name}, p = {degree}", ylabel="MSE")
    legend(figure, axes)
    return figure


def draw_craft(runs):
    named = [run | {"method": run["method"] + " CRAFT" * run["craft"]} for run in runs]
    figure, axes = panels(3, legend_rows=3)
    for run in named:
        if "log_ratio" in run:
            style = {"color": COLOURS[run["method"].split()[0]], "linestyle": "--" if run["craft"] else "-"}
            at = 1 + run["every"] * np.arange(len(run["log_ratio"]))
            axes[0].plot(at, run["log_ratio"], **style)
    axes[0].set(xlabel="eigenvalue", title="log (approximate/exact)")
    for panel, value in zip(axes[1:], ("mse", "accuracy"), strict=True):
        lines(panel, named, "D", value)
        panel.set_title(value)
    axes[1].set_yscale("log")
    legend(figure, axes)
    return figure


def draw_time(runs):
    cases = list(dict.fromkeys(run["case"] for run in runs))
    figure, axes = panels(len(cases), legend_rows=2)
    for panel, case in zip(axes, cases, strict=True):
        lines(panel, [run for run in runs if run["case"] == case], "D", "s")
        panel.set(yscale="log", title=f"p = 3, {case}")
    axes[0].set_ylabel("seconds")
    legend(figure, axes)
    return figure


def draw_accuracy(runs):
    degrees = list(dict.fromkeys(run["degree"] for run in runs))
    figure, axes = panels(len(degrees), legend_rows=3)
    for panel, degree in zip(axes, degrees, strict=True):
        own = [run for run in runs if run["degree"] == degree]
        lines(panel, [run for run in own if run["D"]], "D", "accuracy")
        panel.axhline(mean(run["accuracy"] for run in own if not run["D"]), color="k", linestyle=":", label="exact")
        panel.set_title(f"p = {degree}")
    legend(figure, axes)
    return figure


PARTS = {
    "fit": (run_fit, draw_fit), "mse": (run_mse, draw_mse), "craft": (run_craft, draw_craft),
    "time": (run_time, draw_time), "accuracy": (run_accuracy, draw_accuracy),
}  # fmt: skip


def save(name, draw, runs):
    with rc_context(NARROW):
        draw(runs).savefig(FIGURES / f"spherical_{name}.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="tiny sizes; keeps nothing")
    parser.add_argument("--redraw", action="store_true", help="only draw the figures, from the results")
    args = parser.parse_args()
    for name in args.only:
        run, draw = PARTS[name]
        if args.redraw:
            save(name, draw, json.loads((RESULTS / "spherical.json").read_text())[name])
            continue
        seconds, runs = timed(partial(run, args.quick))
        print(f"{name}: {seconds:.0f} s", flush=True)
        if not args.quick:
            write("spherical", {name: runs})
            save(name, draw, runs)


if __name__ == "__main__":
    main()
