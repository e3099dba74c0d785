"""Few rows: what it is worth to average over the hyperparameters that they leave plausible.

Of each of ten data sets, --draws random samples of 5 to 200 training rows, and 500 test rows. `GPRegressor()` with
`average="auto"`, over draws from the posterior distribution of the hyperparameters, and with `average=False`, at the
likeliest ones: the share of the test rows in intervals of 95%, and NLPD in standard deviations of y.

    python benchmarks/few_rows.py [--data-dir DIR] [--sets NAME ...] [--draws 2]
    python benchmarks/few_rows.py --redraw  # the table alone, from the results

Writes benchmarks/results/few_rows.json, and the table in docs/learning_measured.md.
"""

import json
import warnings
from itertools import product

import numpy as np
from common import RESULTS, measure_or_redraw, timed, write, write_table
from quality import SETS, load

SIZES, N_TEST = (5, 10, 20, 50, 100, 200), 500


def run(rows, n, number, average):
    """Fit one sample, and score it."""
    from lmgp import GPRegressor
    from lmgp.learning.engine import remembered

    remembered.cache_clear()  # of another line, which has learned from the same rows
    X, y, X_test, y_test, _ = rows
    rng = np.random.default_rng((n, number))
    train, test = rng.permutation(len(y))[:n], rng.permutation(len(y_test))[:N_TEST]
    seconds, model = timed(lambda: GPRegressor(average=average, random_state=0).fit(X[train], y[train]))
    predicted = model.predict_distribution(X_test[test])
    return {
        "n": n,
        "draw": number,
        "average": average,
        "nlpd": float(-predicted.logpdf(y_test[test]).mean() - np.log(y.std())),
        "inside": float(np.mean(np.abs(predicted.cdf(y_test[test]) - 0.5) <= 0.475)),
        "seconds": round(seconds, 3),
    }


def measure(args):
    warnings.simplefilter("ignore")
    runs = []
    for name in args.sets:
        rows = load(name, args.data_dir, 0, **SETS[name])
        for n, number, average in product(SIZES, range(args.draws), (False, "auto")):
            runs.append({"set": name, **run(rows, n, number, average)})
        write("few_rows", {"runs": runs})
        print(name, flush=True)


def write_page():
    """Put the table into the page, between its marks."""
    runs = json.loads((RESULTS / "few_rows.json").read_text())["runs"]
    lines = [
        "| rows | within 95%: likeliest | averaged | median NLPD: likeliest | averaged | worst: likeliest | averaged |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for n in SIZES:
        inside, nlpd = (
            [np.array([run[key] for run in runs if (run["n"], run["average"]) == (n, one)]) for one in (False, "auto")]
            for key in ("inside", "nlpd")
        )
        cells = [f"{100 * each.mean():.1f}" for each in inside]
        cells += [f"{np.median(each):.3f}" for each in nlpd] + [f"{each.max():.1f}" for each in nlpd]
        lines.append(f"| {n} | {' | '.join(cells)} |")
    write_table("learning_measured.md", "few", lines)


if __name__ == "__main__":
    measure_or_redraw(__doc__, SETS, 2, measure, write_page)
