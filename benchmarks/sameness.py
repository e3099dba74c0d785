"""The same every time: what `GPRegressor()` predicts where nothing but chance or the units have changed.

Fits to the first split of each set: the rows as they are; in another order; columns and y in other units, with y
moved; another `random_state`; one thread in place of two; the columns in another order; and four fits that draw other
rows to learn from, and others that are left out, which no parameter of a model does. Each is fitted in a process of its
own.

    python benchmarks/sameness.py [--data-dir DIR] [--sets NAME ...] [--draws 0 1 2 3 4 5 6 7 8 9]
    python benchmarks/sameness.py --redraw  # the table alone, from the results

Writes benchmarks/results/sameness.json after every fit, and the table in docs/learning_measured.md.
"""

import argparse
import json
import subprocess
import sys
import warnings

import numpy as np
from common import RESULTS, timed, write, write_table
from quality import SETS, load
from threadpoolctl import threadpool_limits

CHANGES = "as they are", "another order", "other units", "another random_state", "one thread", "other columns first"
DRAWS = *CHANGES, *(f"other samples, {seed}" for seed in range(1, 5))
RESULT = "result: "


def changed(X, y, X_test, y_test, number):
    """Return rows of a draw, the unit of y, and what is added to it."""
    if number == 1:
        order = np.random.default_rng(1).permutation(len(y))
        return X[order], y[order], X_test, y_test
    if number == 2:
        scales = np.geomspace(1e-3, 1e3, X.shape[1])
        return scales * X, 7.0 * y + 40.0 * y.std(), scales * X_test, 7.0 * y_test + 40.0 * y.std()
    if number == 5:
        columns = np.random.default_rng(1).permutation(X.shape[1])
        return X[:, columns], y, X_test[:, columns], y_test
    return X, y, X_test, y_test


def run_here(name, number, data_dir):
    import lmgp.data
    from lmgp import GPRegressor

    lmgp.data.SEED = max(0, number - len(CHANGES) + 1)
    warnings.simplefilter("ignore")
    X, y, X_test, y_test, _ = load(name, data_dir, 0, **SETS[name])
    X, y, X_test, y_test = changed(X, y, X_test, y_test, number)
    with threadpool_limits(1 if number == 4 else 2):
        seconds, model = timed(lambda: GPRegressor(random_state=int(number == 3)).fit(X, y))
        predicted = model.predict_distribution(X_test)
    errors = (predicted.mean() - y_test) / y.std()
    inside = {
        str(level): float(np.mean(np.abs(predicted.cdf(y_test) - 0.5) <= 0.5 * level))
        for level in (0.5, 0.8, 0.95, 0.99)
    }
    result = {
        "nlpd": float(-predicted.logpdf(y_test).mean() - np.log(y.std())),
        "rmse": float(np.sqrt(np.mean(np.square(errors)))),
        "inside": inside,
        "fit_s": round(seconds, 2),
        "recipe": type(model.recipe_).__name__,
        "noise": model.noise_.name,
    }
    print(RESULT + json.dumps(result), flush=True)


def measure(args):
    path = RESULTS / "sameness.json"
    for name in args.sets:
        for number in args.draws:
            command = [sys.executable, __file__, "--here", name, str(number)]
            command += ["--data-dir", args.data_dir] if args.data_dir else []
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            (line,) = (line for line in out.splitlines() if line.startswith(RESULT))
            run = {"draw": DRAWS[number], **json.loads(line.removeprefix(RESULT))}
            kept = json.loads(path.read_text()) if path.exists() else {}
            runs = [one for one in kept.get(name, []) if one["draw"] != run["draw"]] + [run]
            write("sameness", {name: sorted(runs, key=lambda one: DRAWS.index(one["draw"]))})
            print(
                f"{name}, {run['draw']}: NLPD {run['nlpd']:.4f}, RMSE {run['rmse']:.4f}, {run['fit_s']:.1f} s",
                flush=True,
            )


def write_page():
    """Put what is changed, and the means and ranges over five samples, into the page, between its marks."""
    kept = json.loads((RESULTS / "sameness.json").read_text())
    heading = "", "NLPD changes by", "RMSE by", "NLPD of five samples", "range", "RMSE", "range"
    lines = [f"| {' | '.join(heading)} |", f"|---{6 * '|---:'}|"]
    for name in (name for name in SETS if name in kept):
        runs = {run["draw"]: run for run in kept[name]}
        alike, drawn = [runs[draw] for draw in CHANGES], [runs[draw] for draw in (CHANGES[0], *DRAWS[len(CHANGES) :])]
        cells = [name, *(f"{np.ptp([run[key] for run in alike]):.4f}" for key in ("nlpd", "rmse"))]
        for key, digits in (("nlpd", 3), ("rmse", 4)):
            values = [run[key] for run in drawn]
            cells += [f"{np.mean(values):.{digits}f}", f"{min(values):.{digits}f} to {max(values):.{digits}f}"]
        lines.append(f"| {' | '.join(cells)} |")
    write_table("learning_measured.md", "sameness", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--draws", nargs="+", type=int, choices=range(len(DRAWS)), default=list(range(len(DRAWS))))
    parser.add_argument("--data-dir", help="default: the environment variable LMGP_DATA_DIR")
    parser.add_argument("--redraw", action="store_true", help="only write the table of what is in the results")
    parser.add_argument("--here", nargs=2, metavar=("NAME", "DRAW"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        run_here(args.here[0], int(args.here[1]), args.data_dir)
        return
    if not args.redraw:
        measure(args)
    write_page()


if __name__ == "__main__":
    main()
