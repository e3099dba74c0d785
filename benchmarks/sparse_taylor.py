"""Taylor against Fourier features at equal cost: linear support vector machines on sparse and on dense rows.

For each set of rows and each width σ of the kernel exp(-|x - z|²/(2σ²)): the exact kernel's machine, Taylor features of
degree 2 to 4, random Fourier features with 2⁵ to 2¹² columns, and a linear machine; each with the floating point
operations a row, the mean error of the kernel over pairs of rows, the primal objective and the test error of LinearSVC
and of Pegasos. Then, at the same degrees, Taylor's weights against those of the polynomial kernel, each at its best C
and σ. After A. Cotter, J. Keshet and N. Srebro, "Explicit Approximations of the Gaussian Kernel", 2011, Figures 1 and 2
and Table 2.

    python benchmarks/sparse_taylor.py [--only machines weights speed] [--seeds 3] [--libsvm FILE ...]
        [--quick] [--redraw]

The last part times the features of 20,000 sparse rows beside scikit-learn's PolynomialFeatures. Generated rows are
unions of one-hot groups (as Adult) or groups with some real inputs (as Covertype); digits come with scikit-learn. A
file in LIBSVM format is one more set; a9a and others are taken from the folder in LMGP_DATA_DIR, or from this one.
Writes results/sparse_taylor.json and docs/sparse_taylor.png.
"""

import argparse
import json
import os
import warnings
from functools import partial
from math import factorial
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from common import FIGURES, NARROW, RESULTS, WIDTH, timed, write
from matplotlib import rc_context
from matplotlib.figure import Figure
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import LinearSVC

from lmgp import GaussianKernel, RandomFourierFeatures, TaylorFeatures
from lmgp.features.sparse import non_zeros
from lmgp.metrics import svm_objective_gap
from lmgp.sgd import KernelSGDClassifier

WIDTHS = (0.5, 1.0, 2.0)  # times the median distance between rows
TRAIN, TEST, PAIRS = 1200, 597, 20_000
LIBSVM_SETS = ("a9a", "w8a", "covtype.libsvm.binary", "rcv1_train.binary")
MOST_FEATURES = 3e7  # monomials, that one fit may hold


def labels(X, rng):
    """Signs of a smooth function of the rows, with one in twenty flipped."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X)
    centres = X[rng.choice(len(X), 40, replace=False)]
    distances = euclidean_distances(X, centres, squared=True)
    f = np.exp(-distances / np.median(distances)) @ rng.standard_normal(40)
    return np.where(f > np.median(f), 1, -1) * rng.choice([1, -1], p=[0.95, 0.05], size=len(X))


def one_hot(n, rng):
    """14 of 123 binary inputs: one of each group."""
    sizes = np.array([5, 8, 16, 7, 14, 6, 5, 2, 5, 5, 10, 10, 20, 10])
    starts = np.cumsum(sizes) - sizes
    columns = np.stack([start + rng.choice(size, n, p=rng.dirichlet(np.ones(size))) for start, size in
                        zip(starts, sizes, strict=True)], axis=1)  # fmt: skip
    return sp.csr_array((np.ones(columns.size), columns.ravel(), 14 * np.arange(n + 1)), shape=(n, int(sizes.sum())))


def mixed(n, rng):
    """10 real inputs and two groups of binary ones, 12 non-zeros of 54."""
    real = rng.normal(size=(n, 10)) * 0.4
    groups = np.stack([10 + rng.choice(4, n), 14 + rng.choice(40, n)], axis=1)
    values = np.concatenate([real, np.ones((n, 2))], axis=1)
    columns = np.concatenate([np.tile(np.arange(10), (n, 1)), groups], axis=1)
    return sp.csr_array((values.ravel(), columns.ravel(), 12 * np.arange(n + 1)), shape=(n, 54))


def load(name, rng):
    """Return rows, CSR, and labels ±1."""
    n = TRAIN + TEST
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        keep = rng.permutation(len(X))[:n]
        return sp.csr_array(X[keep] / 16.0), np.where(y[keep] == 8, 1, -1)
    if name in ("one_hot", "mixed"):
        X = {"one_hot": one_hot, "mixed": mixed}[name](n, rng)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # all that liblinear takes
        return X, labels(X, rng)
    X, y = load_svmlight_file(name)
    keep = rng.permutation(X.shape[0])[:n]
    return sp.csr_array(X[keep]), np.where(y[keep] == np.unique(y)[-1], 1, -1)


def objective(scores, squared_norm, y, C):
    """λ/2 ‖w‖² + mean hinge loss with λ = 1/(C m)."""
    return float(squared_norm / (2 * C * len(y)) + np.maximum(0.0, 1.0 - y * scores).mean())


def linear_svc(train, test, y, y_test, C):
    model = LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-3, max_iter=1000, random_state=0)
    start = perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(train, y)
    return {
        "objective": objective(model.decision_function(train), float(np.square(model.coef_).sum()), y, C),
        "test_error": float(np.mean(model.predict(test) != y_test)),
        "converged": not caught,
        "seconds": perf_counter() - start,
    }


def pegasos(features, X, X_test, y, y_test, C, n_passes):
    """The same objective by stochastic steps 1/(λt), on features that are made once."""
    n = X.shape[0]
    model = KernelSGDClassifier(
        features=features,
        strategy="approximate_cached",
        regularization=1.0 / (C * n),
        schedule="pegasos",
        n_steps=n_passes * n,
        max_memory_gib=16.0,
        random_state=0,
    )
    start = perf_counter()
    model.fit(X, y)
    return {
        "objective": objective(model.decision_function(X), float(np.square(model.coef_).sum()), y, C),
        "test_error": float(np.mean(model.predict(X_test) != y_test)),
        "seconds": perf_counter() - start,
    }


def exact(kernel, X, X_test, y, y_test, C):
    """The machine with the kernel itself: linear on coordinates in which the kernel is an inner product."""
    values, vectors = np.linalg.eigh(kernel(X.toarray()))
    kept = values > 1e-10 * values.max()
    roots = np.sqrt(values[kept])
    train = vectors[:, kept] * roots
    test = kernel(X_test.toarray(), X.toarray()) @ (vectors[:, kept] / roots)
    return linear_svc(train, test, y, y_test, C)


def truncated_kernel(lengthscale, degree, X, Z=None):
    """The kernel of Taylor features, by its series."""
    X, Z = X / lengthscale, (X if Z is None else Z) / lengthscale
    series = sum((X @ Z.T) ** k / factorial(k) for k in range(degree + 1))
    return np.exp(-0.5 * (np.square(X).sum(axis=1)[:, None] + np.square(Z).sum(axis=1))) * series


def kernel_error(kernel, features, X, rng):
    """The mean error |k - φᵀφ| over random pairs of rows, of features or of a function that has their kernel."""
    i, j = rng.integers(X.shape[0], size=(2, PAIRS))
    if callable(features):
        products = features(X.toarray())[i, j]
    else:
        products = (features[i].multiply(features[j]) if sp.issparse(features) else features[i] * features[j]).sum(
            axis=1
        )
    difference = X[i] - X[j]
    exact = kernel.variance * np.exp(-0.5 * difference.multiply(difference).sum(axis=1) / kernel.lengthscale**2)
    return float(np.abs(exact - products).mean())


def maps(args):
    """The maps to compare: name, size, map, seeds."""
    degrees = (2,) if args.quick else (2, 3, 4)
    counts = (32, 128) if args.quick else [2**k for k in range(5, 13)]
    yield from (("taylor", degree, TaylorFeatures(degree=degree), 1) for degree in degrees)
    yield from (("fourier", count, RandomFourierFeatures(count), args.seeds) for count in counts)


def compare(name, args):
    rng = np.random.default_rng(0)
    X, y = load(name, rng)
    X, X_test, y, y_test = X[:TRAIN], X[TRAIN:], y[:TRAIN], y[TRAIN:]
    median = float(np.median(euclidean_distances(X[:500])))
    about = {"set": Path(name).name, "columns": X.shape[1], "non_zeros": float(non_zeros(X).mean()), "C": args.C}
    linear = linear_svc(X, X_test, y, y_test, args.C)
    yield {**about, "map": "linear", "operations": about["non_zeros"], "linear_svc": linear}
    for width in WIDTHS[1:2] if args.quick else WIDTHS:
        kernel = GaussianKernel(width * median)
        at = {**about, "width": width, "sigma": width * median}
        yield {**at, "map": "exact", "linear_svc": exact(kernel, X, X_test, y, y_test, args.C)}
        for family, size, features, seeds in maps(args):
            rows, rows_test = (X, X_test) if family == "taylor" else (X.toarray(), X_test.toarray())
            for seed in range(seeds):
                features.set_params(kernel=kernel, random_state=seed)
                fitted = features.fit(rows)
                operations = float(fitted.operation_count(X).mean())
                row = {**at, "map": family, "size": size, "seed": seed, "operations": operations}
                if (
                    family == "taylor" and operations * X.shape[0] > MOST_FEATURES
                ):  # the same machine, by the kernel of the features
                    truncated = partial(truncated_kernel, kernel.lengthscale, size)
                    row["kernel_error"] = kernel_error(kernel, truncated, X, np.random.default_rng(1))
                    row["linear_svc"] = exact(truncated, X, X_test, y, y_test, args.C)
                    yield {**row, "by_kernel": True}
                    continue
                start = perf_counter()
                train = fitted.transform(rows)
                row["transform_seconds"] = perf_counter() - start
                row["columns_made"] = fitted.n_features_out_
                row["kernel_error"] = kernel_error(kernel, train, X, np.random.default_rng(1))
                row["linear_svc"] = linear_svc(train, fitted.transform(rows_test), y, y_test, args.C)
                row["pegasos"] = pegasos(features, rows, rows_test, y, y_test, args.C, args.passes)
                if family == "taylor":
                    squares = np.asarray(train.multiply(train).sum(axis=1)).ravel()
                    row["gap_bound"] = svm_objective_gap(np.ones(len(squares)), squares, 1 / (args.C * len(y)))
                yield row


def best_weights(name, args):
    """Table 2: each kernel at its best C and σ, by the error on the test rows, as published."""
    X, y = load(name, np.random.default_rng(0))
    X, X_test, y, y_test = X[:TRAIN], X[TRAIN:], y[:TRAIN], y[TRAIN:]
    scale = float(np.sqrt(X.multiply(X).sum(axis=1).mean()))
    X, X_test = X / scale, X_test / scale
    squared_widths = (1.0, 4.0) if args.quick else [4.0**k for k in range(-1, 4)]
    Cs = (1.0,) if args.quick else [4.0**k for k in range(-1, 4)]

    def row(kind, degree, C, squared_width, result):
        return {"set": Path(name).name, "kernel": kind, "degree": degree, "C": C, "squared_width": squared_width,
                "test_error": result["test_error"], "converged": result["converged"]}  # fmt: skip

    for squared_width in squared_widths:
        kernel = GaussianKernel(squared_width**0.5)
        for C in Cs:
            yield row("gaussian", None, C, squared_width, exact(kernel, X, X_test, y, y_test, C))
    for degree in (2,) if args.quick else (2, 3):
        candidates = [("polynomial", None, TaylorFeatures(degree=degree, weights="polynomial"))]
        candidates += [("taylor", w, TaylorFeatures(degree=degree, kernel=GaussianKernel(w**0.5)))
                       for w in squared_widths]  # fmt: skip
        for kind, squared_width, features in candidates:
            train, test = features.fit_transform(X), features.transform(X_test)
            if train.nnz > MOST_FEATURES / 4:
                continue
            for C in Cs:
                yield row(kind, degree, C, squared_width, linear_svc(train, test, y, y_test, C))


def draw(runs):
    """For each set, at the middle width: the test error and the kernel error over the operations, two panels a row."""
    sets = list(dict.fromkeys(run["set"] for run in runs))
    with rc_context(NARROW):
        figure = Figure(figsize=(WIDTH, 3.1 * 3 * len(sets) / 2), layout="constrained")
        _draw(runs, sets, figure)
        figure.savefig(FIGURES / "sparse_taylor.png")


MEASURES = {
    "primal objective": lambda run: run["linear_svc"]["objective"],
    "test error, %": lambda run: 100 * run["linear_svc"]["test_error"],
    "mean |error of k|": lambda run: run["kernel_error"],
}


def _draw(runs, sets, figure):
    legend = {"taylor": "Taylor, degree 2 to 4", "fourier": "random Fourier"}
    panels = figure.subplots(len(MEASURES), len(sets), squeeze=False).T
    handles = {}
    for axes, name in zip(panels, sets, strict=True):
        of_set = [run for run in runs if run["set"] == name and run.get("width", 1.0) == 1.0]
        exact_run, linear = (next(run for run in of_set if run["map"] == kind) for kind in ("exact", "linear"))
        for family, colour, marker in (("taylor", "C1", "o"), ("fourier", "C0", "s")):
            done = [run for run in of_set if run["map"] == family and "linear_svc" in run]
            sizes = list(dict.fromkeys(run["size"] for run in done))
            groups = [[run for run in done if run["size"] == size] for size in sizes]
            operations = [group[0]["operations"] for group in groups]
            for axis, measure in zip(axes, MEASURES.values(), strict=True):
                means = [np.mean([measure(run) for run in group]) for group in groups]
                (handles[legend[family]],) = axis.plot(operations, means, marker=marker, color=colour)
        axes[0].axhline(exact_run["linear_svc"]["objective"], color="black")
        handles["Gaussian kernel"] = axes[1].axhline(100 * exact_run["linear_svc"]["test_error"], color="black")
        error = 100 * linear["linear_svc"]["test_error"]
        handles["linear"] = axes[1].axhline(error, color="black", linestyle="--")
        axes[2].set_yscale("log")
        for axis in axes:
            axis.set_xscale("log")
        axes[0].set_title(f"{name}:\n{linear['non_zeros']:.0f} of {linear['columns']}\nnot zero")
        axes[2].set_xlabel("operations a row" if len(sets) < 3 else "operations\na row")
    for axis, label in zip(panels[0], MEASURES, strict=True):
        axis.set_ylabel(label)
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=2)


def machines(sets, args):
    runs = []
    for name in sets:
        for run in compare(name, args):
            runs.append(run)
            svc = run.get("linear_svc", {})
            print(
                run["set"], run.get("width", ""), run["map"], run.get("size", ""), f"{run.get('operations', 0):.0f}",
                *(f"{value:.4g}" for value in (svc.get("objective", np.nan), svc.get("test_error", np.nan),
                                               run.get("kernel_error", np.nan))),
                flush=True,
            )  # fmt: skip
    return runs


def weights(sets, args):
    table = []
    for name in sets:
        rows = list(best_weights(name, args))
        for kind, degree in dict.fromkeys((row["kernel"], row["degree"]) for row in rows):
            of_kind = [row for row in rows if (row["kernel"], row["degree"]) == (kind, degree)]
            print("best:", min(of_kind, key=lambda row: row["test_error"]), flush=True)
        table += rows
    return table


def speed(sets, args):
    """Make all monomials of sparse rows, here and in scikit-learn, which has no weights for them."""
    X = one_hot(500 if args.quick else 20_000, np.random.default_rng(0))
    runs = []
    for degree in (2, 3):
        for _ in range(5):
            ours, features = timed(lambda degree=degree: TaylorFeatures(degree=degree).fit_transform(X))
            theirs, monomials = timed(lambda degree=degree: PolynomialFeatures(degree).fit_transform(X))
            same = bool(features.nnz == monomials.nnz)
            runs.append({"degree": degree, "non_zeros": features.nnz, "same_pattern_size": same, "taylor_s": ours,
                         "polynomial_features_s": theirs, "ratio": theirs / ours})  # fmt: skip
        ratio = np.median([run["ratio"] for run in runs if run["degree"] == degree])
        print(f"degree {degree}: PolynomialFeatures takes {ratio:.2f} times as long", flush=True)
    return runs


PARTS = {"machines": machines, "weights": weights, "speed": speed}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=3, help="of the Fourier features")
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--passes", type=int, default=20, help="of Pegasos over the rows")
    folder = Path(os.environ.get("LMGP_DATA_DIR", "."))
    found = [str(folder / name) for name in LIBSVM_SETS if (folder / name).is_file()]
    parser.add_argument("--libsvm", nargs="*", default=found, metavar="FILE", help="more sets, in LIBSVM format")
    parser.add_argument("--quick", action="store_true", help="a tiny run, which keeps nothing")
    parser.add_argument("--redraw", action="store_true", help="only draw the figure, from the results")
    args = parser.parse_args()
    if args.redraw:
        draw(json.loads((RESULTS / "sparse_taylor.json").read_text())["machines"])
        return
    sets = ["one_hot", "mixed", "digits", *args.libsvm]
    for part in args.only:
        table = PARTS[part](sets, args)
        if not args.quick:
            write("sparse_taylor", {part: table})
            if part == "machines":
                draw(table)


if __name__ == "__main__":
    main()
