"""Many columns: how many of them should have lengthscales of their own.

Made rows have standard normal columns. y is a function of one, of two, of ten or of all columns, or of one direction,
with a noise of .1; or it depends on no column. `GPRegressor(noise="normal")` is fitted with lengthscales of their own
for none, 5, 20 and all of the columns, and for as many as the evidence chooses, and predicts 1,000 further rows.

    python benchmarks/columns.py [--draws 3] [--sizes 300x500 ...]
    python benchmarks/columns.py --redraw  # the table alone, from the results

Writes benchmarks/results/columns.json after every size, and the table in docs/learning_measured.md.
"""

import argparse
import json
from itertools import product

import numpy as np
from common import RESULTS, timed, write, write_table

from lmgp import GPRegressor
from lmgp.learning import engine, search

SIZES = "300x500", "1000x60", "20000x100"
# The numbers that are tried; of fewer columns than the last one, all have lengthscales of their own.
NUMBERS = {"none": (0,), "5": (5,), "20": (20,), "all": (10**9,), "chosen": search.NUMBERS}
FUNCTIONS = {
    "one column": lambda X: np.sin(2.0 * X[:, 3]),
    "two columns": lambda X: np.sin(X[:, 0]) + 0.5 * X[:, 1],
    "ten columns": lambda X: np.sin(X[:, :5]).sum(axis=1) + X[:, 5] * X[:, 6] + 0.5 * X[:, 7:10].sum(axis=1),
    "all columns": lambda X: 1.5 * np.sin(X).sum(axis=1) / np.sqrt(X.shape[1]),
    "no column": lambda X: np.zeros(len(X)),
    "a direction": lambda X: np.sin(2.0 * X @ np.random.default_rng(5).normal(size=X.shape[1]) / np.sqrt(X.shape[1])),
}


def run(size, function, draw, own):
    engine.remembered.cache_clear()  # which knows nothing of this number
    search.NUMBERS = NUMBERS[own]
    n, d = map(int, size.split("x"))
    rng = np.random.default_rng(draw)
    X = rng.normal(size=(n + 1000, d))
    y = FUNCTIONS[function](X) + 0.1 * rng.normal(size=n + 1000)
    seconds, model = timed(lambda: GPRegressor(noise="normal", random_state=0).fit(X[:n], y[:n]))
    predicted = model.predict_distribution(X[n:])
    return {
        "size": size, "function": function, "draw": draw, "own": own,
        "nlpd": float(-predicted.logpdf(y[n:]).mean() - np.log(y[n:].std())),
        "rmse": float(np.sqrt(np.mean(np.square(predicted.mean() - y[n:]))) / y[n:].std()),
        "n_own": model.learning_.chosen.n_own, "learning_s": round(model.learning_.seconds, 2),
        "fit_s": round(seconds, 2),
    }  # fmt: skip


def write_page():
    """Put the table into the page, between its marks: means over draws, NLPD and seconds to learn."""
    runs = json.loads((RESULTS / "columns.json").read_text())
    heading = "".join(f" {own} | s |" for own in NUMBERS)
    lines = [f"| rows, columns | function of |{heading}", f"|---|---|{'---:|---:|' * len(NUMBERS)}"]
    for size, function in product((size for size in SIZES if size in runs), FUNCTIONS):
        cells = []
        for own in NUMBERS:
            some = [one for one in runs[size] if (one["function"], one["own"]) == (function, own)]
            means = [np.mean([one[score] for one in some]) for score in ("nlpd", "learning_s")]
            cells.append(f"{means[0]:.2f} | {means[1]:.2g}" if some else "- | -")
        n, d = map(int, size.split("x"))
        lines.append(f"| {n:,}, {d} | {function} | {' | '.join(cells)} |")
    write_table("learning_measured.md", "columns", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--own", nargs="+", choices=NUMBERS, default=list(NUMBERS))
    parser.add_argument("--redraw", action="store_true", help="only write the table of what is in the results")
    args = parser.parse_args()
    for size in () if args.redraw else args.sizes:
        runs = []
        for function, draw, own in product(FUNCTIONS, range(args.draws), args.own):
            runs.append(run(size, function, draw, own))
            print(json.dumps(runs[-1]), flush=True)
        write("columns", {size: runs})
    write_page()


if __name__ == "__main__":
    main()
