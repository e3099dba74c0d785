"""How much faster fitted RBF models predict by their Taylor expansions, and what that changes.

Everything in one thread, exact and approximate side by side, on rows that no model was fitted to.

tables   The sizes of the paper's data sets (d, support vectors, gamma over gamma_max): times, labels and sizes.
         The rows are made: all columns between 0 and 1, so that inner products are large as in most of those sets,
         from five latent variables and noise; the labels are a smooth function of these, and noise. Every exact model
         is a fitted SVC(C=1), which keeps about two thirds of such rows. Fitting takes O(n² d): the number of rows is
         cut to what `--cap` allows, and the results say where it was.
digits   scikit-learn's digits, all ten classes and one against the rest, around the origin and the mean.
figure   d = 100, at least 10,000 support vectors: is it 50 times faster, with < 1% of labels changed within the bound?
         At gamma_max and half of it, with columns in [0, 1], where the origin is a corner, and in [-1, 1].
degrees  Support vector regression of two inputs: error and time of all degrees, around one centre and around many.

    python benchmarks/fast_prediction.py [--only tables digits figure degrees] [--repeats 5] [--cap 350]
        [--quick] [--redraw]

Writes benchmarks/results/fast_prediction.json: every run, and the environment; and draws docs/fast_prediction.png.
"""

import argparse
import json
import statistics
import warnings

import numpy as np
import torch
from common import FIGURES, RESULTS, timed, write
from matplotlib.figure import Figure
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC, SVR
from threadpoolctl import threadpool_limits

from lmgp.errors import ValidityWarning
from lmgp.rbf import QuadraticRBF, TaylorRBF, gamma_max

# Input columns, support vectors and gamma/gamma_max as in the paper's Table 1. The ratios of a9a and ijcnn1 are ours,
# after its text: the last of a9a is "over five times" gamma_max, ijcnn1 is within the bound.
TABLE = {
    "a9a": (122, 11_834, (0.5, 1.0, 5.5)),
    "mnist": (780, 2_174, (0.1,)),
    "ijcnn1": (22, 4_044, (0.8,)),
    "sensit": (100, 25_722, (1.2,)),
    "epsilon": (2_000, 36_988, (1.4,)),
}
N_TEST = 2_000
# Rows for each support vector that is wanted.
ROWS_PER_VECTOR = 1.7


def made_rows(n, d, seed=0):
    """Rows in the unit cube from five latent variables; labels of a function of these, and noise."""
    rng = np.random.default_rng(seed)
    latent = rng.standard_normal((n, 5))
    X = expit(latent @ rng.standard_normal((5, d)) + rng.standard_normal((n, d)))
    smooth = latent[:, 0] + 0.5 * (latent[:, 1] ** 2 - latent[:, 2] ** 2)
    return X, smooth + rng.standard_normal(n) > 0


def text_bytes(columns, values_first=None):
    """The size of numbers as text, as LIBSVM writes them: %.17g for coefficients, index:%.8g for what is not zero."""
    if values_first is None:
        return sum(len(f"{value:.8g}") + 1 for value in np.ravel(columns).tolist())
    index = sum(len(str(j)) + 1 for j in range(1, columns.shape[1] + 1)) * len(columns)
    return text_bytes(columns) + index + sum(len(f"{value:.17g}") + 1 for value in np.ravel(values_first).tolist())


def compared(exact, rows, labels, repeats):
    """Time an SVC against its quadratic approximation, each run one after the other; count what changes."""
    runs, fast = [], {}
    for _ in range(repeats):
        build, fast["origin"] = timed(lambda: QuadraticRBF.from_estimator(exact))
        predict, _ = timed(lambda: fast["origin"].decision_function(rows))
        slow, expected = timed(lambda: exact.decision_function(rows) > 0)
        runs.append({"exact_s": slow, "approximate_s": build, "predict_s": predict})
    fast["mean"] = QuadraticRBF.from_estimator(exact, center="mean")
    around = {}
    for center, model in fast.items():
        values, valid = model.decision_function(rows, return_valid=True)
        changed = (values > 0) != expected
        around[center] = {
            "accuracy": float(np.mean((values > 0) == labels)),
            "changed": float(np.mean(changed)),
            "within_bound": float(np.mean(valid)),
            "changed_within_bound": float(np.mean(changed[valid])) if valid.any() else None,
        }
    model = fast["origin"]
    kept = (model.c_, model.v_, model.M_, model.expansion_point_, model.intercept_, model.gamma_)
    return {
        "n_sv": len(exact.support_vectors_),
        "accuracy": float(np.mean(expected == labels)),
        "around": around,
        "speedup": statistics.median(run["exact_s"] / run["predict_s"] for run in runs),
        "speedup_with_building": statistics.median(
            run["exact_s"] / (run["predict_s"] + run["approximate_s"]) for run in runs
        ),
        "numbers_exact": model.sizes.exact,
        "numbers_fast": model.sizes.approximate,
        "text_bytes_exact": text_bytes(exact.support_vectors_, exact.dual_coef_),
        "text_bytes_fast": sum(text_bytes(array) for array in kept),
        "runs": runs,
    }


def said(result):
    changes = (
        f"{of['changed']:.2%} changed around the {center} ({of['within_bound']:.0%} within the bound)"
        for center, of in result["around"].items()
    )
    speed = f"{result['speedup']:.0f} times faster ({result['speedup_with_building']:.0f} with building)"
    return f"n_sv = {result['n_sv']}, gamma/gamma_max = {result['gamma_over_max']}: {speed}, {', '.join(changes)}"


def fitted(d, n_sv, ratio, lowest=0.0):
    """Fit an SVC to made rows; gamma_max is that of all rows, those to predict included."""
    n = int(ROWS_PER_VECTOR * n_sv)
    X, labels = made_rows(n + N_TEST, d)
    X = lowest + (1.0 - lowest) * X
    gamma = ratio * gamma_max(X)
    fit, model = timed(lambda: SVC(gamma=gamma, cache_size=1000).fit(X[:n], labels[:n]))
    return model, X[n:], labels[n:], {"d": d, "gamma": gamma, "gamma_over_max": ratio, "n_rows": n, "fit_s": fit}


def tables(args):
    results = []
    for name, (d, wanted, ratios) in TABLE.items():
        n_sv = min(wanted, int((args.cap * 1e9 / (2 * d)) ** 0.5 / ROWS_PER_VECTOR))
        for ratio in ratios:
            model, rows, labels, about = fitted(d, n_sv, ratio)
            result = {"data": name, **about, "n_sv_of_paper": wanted, "capped": n_sv < wanted}
            result |= compared(model, rows, labels, args.repeats)
            results.append(result)
            print(f"{name}: d = {d}{' (capped)' * (n_sv < wanted)}, {said(result)}", flush=True)
    return results


def figure(args):
    results = []
    for lowest, ratio in ((0.0, 1.0), (0.0, 0.5), (-1.0, 1.0)):
        model, rows, labels, about = fitted(100, args.cap_figure, ratio, lowest)
        result = {"columns_in": [lowest, 1.0], **about, **compared(model, rows, labels, args.repeats)}
        slowest = min(run["exact_s"] / run["predict_s"] for run in result["runs"])
        for of in result["around"].values():
            of["reached"] = slowest >= 50 and of["within_bound"] > 0 and of["changed_within_bound"] < 0.01
        results.append(result)
        reached = {center: of["reached"] for center, of in result["around"].items()}
        print(
            f"figure: in [{lowest:g}, 1], {said(result)}; at least {slowest:.0f} times; reached: {reached}", flush=True
        )
    return results


def digits(args):
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y, test_size=0.4, random_state=0)
    largest, results = gamma_max(X / 16.0), []
    for task, of in (("ten classes", lambda y: y), ("1 against the rest", lambda y: y == 1)):
        for ratio in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0):
            model = SVC(gamma=ratio * largest, C=100.0).fit(X_train, of(y_train))
            slow, labels = timed(lambda model=model: model.predict(X_test))
            for center in ("origin", "mean"):
                fast = QuadraticRBF.from_estimator(model, center=center)
                time, (found, valid) = timed(lambda fast=fast: fast.predict(X_test, return_valid=True))
                result = {
                    "task": task,
                    "gamma_over_max": ratio,
                    "center": center,
                    "n_sv": len(model.support_vectors_),
                    "accuracy": float(np.mean(labels == of(y_test))),
                    "accuracy_fast": float(np.mean(found == of(y_test))),
                    "changed": float(np.mean(found != labels)),
                    "within_bound": float(np.mean(valid)),
                    "exact_s": slow,
                    "predict_s": time,
                    "size_ratio": fast.sizes.ratio,
                }
                results.append(result)
                print(
                    f"digits, {task}: gamma/gamma_max = {ratio}, {center}: {result['changed']:.2%} changed, "
                    f"{result['within_bound']:.0%} within the bound"
                )
    return results


def degrees(args):
    rng = np.random.default_rng(0)
    X, Z = rng.uniform(-4, 4, size=(args.rows, 2)), rng.uniform(-4, 4, size=(20_000, 2))
    y = np.sin(2 * X[:, 0]) + np.cos(X[:, 1]) + 0.1 * rng.standard_normal(len(X))
    model = SVR(gamma=1.0, C=10.0, epsilon=0.01).fit(X, y)
    expected, results = model.predict(Z), []
    for threshold in (None, 1.0, 0.5):
        for degree in (2, 3, 4, 5, 6, 10, 20):
            center = "mean" if threshold is None else "origin"
            build, fast = timed(
                lambda degree=degree, center=center, threshold=threshold: TaylorRBF.from_estimator(
                    model, degree, center=center, threshold=threshold
                )
            )
            runs = []
            for _ in range(args.repeats):
                slow, _ = timed(lambda: model.predict(Z))
                time, (found, valid) = timed(lambda fast=fast: fast.predict(Z, return_valid=True))
                runs.append({"exact_s": slow, "predict_s": time})
            error = np.abs(found - expected)
            result = {
                "degree": degree,
                "threshold": threshold,
                "n_sv": len(model.support_vectors_),
                "n_centers": len(fast.centers_),
                "largest_error": float(error.max()),
                "rmse": float(np.sqrt(np.mean(error**2))),
                "within_bound": float(np.mean(valid)),
                "speedup": statistics.median(run["exact_s"] / run["predict_s"] for run in runs),
                "size_ratio": fast.sizes.ratio,
                "approximate_s": build,
                "runs": runs,
            }
            results.append(result)
            print(
                f"degrees: threshold {threshold}, degree {degree}, {result['n_centers']} centres: largest error "
                f"{result['largest_error']:.1e}, {result['within_bound']:.0%} within the bound, "
                f"{result['speedup']:.1f} times faster"
            )
    return results


PARTS = {"tables": tables, "digits": digits, "figure": figure, "degrees": degrees}


def draw(results):
    fig = Figure(figsize=(14, 4), layout="constrained")
    axes = fig.subplots(1, 3)
    bars = results.get("tables", [])
    names = [f"{bar['data']}, γ/γmax = {bar['gamma_over_max']:g}\n{bar['n_sv']:,} × {bar['d']:,}" for bar in bars]
    for key, label, shift in (("speedup", "prediction", -0.2), ("speedup_with_building", "with building", 0.2)):
        axes[0].barh(np.arange(len(bars)) + shift, [bar[key] for bar in bars], 0.4, label=label)
    axes[0].set(xlabel="times faster than SVC", xscale="log", title="The paper's sizes: support vectors × columns")
    axes[0].set_yticks(range(len(bars)), names, fontsize=8)
    axes[0].invert_yaxis()
    axes[0].legend(loc="lower right")
    for task, marker in (("ten classes", "o"), ("1 against the rest", "s")):
        for center, line in (("origin", "-"), ("mean", "--")):
            points = [p for p in results.get("digits", []) if (p["task"], p["center"]) == (task, center)]
            changed = [100 * p["changed"] for p in points]
            axes[1].plot(
                [p["gamma_over_max"] for p in points], changed, line + marker, label=f"{task}, around the {center}"
            )
    axes[1].axvline(1.0, color="grey", lw=0.8)
    axes[1].set(xscale="log", xlabel="γ/γmax", ylabel="labels changed, %", title="Digits, degree 2")
    axes[1].legend(fontsize=7)
    for threshold in (None, 1.0, 0.5):
        points = [p for p in results.get("degrees", []) if p["threshold"] == threshold]
        label = "one centre" if threshold is None else f"threshold {threshold:g}"
        axes[2].plot([p["degree"] for p in points], [p["largest_error"] for p in points], "o-", label=label)
    axes[2].set(yscale="log", xlabel="degree", ylabel="largest error of the prediction", title="SVR of two inputs")
    axes[2].legend()
    fig.savefig(FIGURES / "fast_prediction.png", dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cap", type=float, default=350.0, help="10⁹ products for the kernel of one fit, 2 n² d")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works; keeps nothing")
    parser.add_argument("--redraw", action="store_true", help="only draw the figure, from the results")
    args = parser.parse_args()
    if args.redraw:
        draw(json.loads((RESULTS / "fast_prediction.json").read_text()))
        return
    if args.quick:
        args.cap, args.repeats = 0.3, 2
    args.cap_figure, args.rows = (300, 300) if args.quick else (10_000, 4_000)
    warnings.simplefilter("ignore", ValidityWarning)  # counted instead
    torch.set_num_threads(1)
    with threadpool_limits(1):
        results = {part: PARTS[part](args) for part in args.only}
        if not args.quick:
            write("fast_prediction", results)
            draw(results)


if __name__ == "__main__":
    main()
