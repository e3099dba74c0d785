"""What it is worth that rows left out choose how many nearest rows predict, where that is not the exact process.

Of each set of more than 2,000 rows, --draws random samples of 5,000 training rows. `GPRegressor()`, and the same with a
tolerance that is given, so that nearness to the exact process decides alone: what was chosen, and NLPD and RMSE of the
test rows in standard deviations of y.

    python benchmarks/rows_left_out.py [--data-dir DIR] [--sets NAME ...] [--draws 2]
    python benchmarks/rows_left_out.py --redraw  # the table alone, from the results

Writes benchmarks/results/rows_left_out.json after every set, and the table in docs/choosing.md.
"""

import json
import warnings
from itertools import product

import numpy as np
from common import RESULTS, measure_or_redraw, timed, write, write_table
from quality import SETS, load

N_TRAIN, LARGE = 5000, [name for name in SETS if name != "concrete"]
# A tolerance that is given says that nearness is asked for, however little it differs from the default.
ASKED = {"nearness": {"tolerance": 1.001e-3}, "rows left out": {}}


def run(rows, draw, by):
    """Fit one sample, and score it."""
    from lmgp import GPRegressor
    from lmgp.learning.engine import remembered

    remembered.cache_clear()  # of another line, which has learned from the same rows
    X, y, X_test, y_test, _ = rows
    train = np.random.default_rng(draw).permutation(len(y))[:N_TRAIN]
    seconds, model = timed(lambda: GPRegressor(random_state=0, **ASKED[by]).fit(X[train], y[train]))
    predicted, chosen = model.predict_distribution(X_test), model.selection_.chosen
    return {
        "draw": draw,
        "by": by,
        "method": chosen.method,
        "size": chosen.n_features,
        "kl": chosen.kl,
        "nlpd": float(-predicted.logpdf(y_test).mean() - np.log(y.std())),
        "rmse": float(np.sqrt(np.mean(np.square(predicted.mean() - y_test))) / y.std()),
        "fit_s": round(seconds, 2),
    }


def measure(args):
    warnings.simplefilter("ignore")
    path = RESULTS / "rows_left_out.json"
    for name in args.sets:
        rows = load(name, args.data_dir, 0, **SETS[name])
        runs = [{"set": name, **run(rows, *of)} for of in product(range(args.draws), ASKED)]
        kept = json.loads(path.read_text())["runs"] if path.exists() else []
        write("rows_left_out", {"runs": [one for one in kept if one["set"] != name] + runs})
        print(
            name, *(f"{one['by']}: {one['method']} {one['size']}, NLPD {one['nlpd']:.3f}" for one in runs), flush=True
        )


def write_page():
    """Put the table into the page, between its marks."""
    runs = json.loads((RESULTS / "rows_left_out.json").read_text())["runs"]
    lines = [
        "| set | nearest to the exact process | NLPD | RMSE | by rows left out | NLPD | RMSE |",
        "|---|---|---:|---:|---|---:|---:|",
    ]
    for name in dict.fromkeys(one["set"] for one in runs):
        cells = []
        for by in ASKED:
            mine = [one for one in runs if (one["set"], one["by"]) == (name, by)]
            # The size of the exact process is the number of rows.
            chosen = [one["method"] if one["method"] == "exact" else f"{one['method']} {one['size']}" for one in mine]
            cells.append(", ".join(dict.fromkeys(each.replace("_", " ") for each in chosen)))
            cells += [f"{np.mean([one[key] for one in mine]):.3f}" for key in ("nlpd", "rmse")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    write_table("choosing.md", "rows left out", lines)


if __name__ == "__main__":
    measure_or_redraw(__doc__, LARGE, 2, measure, write_page)
