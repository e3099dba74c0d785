"""The prior of lengthscales, where rows are few: what lengthscales have in common, and how far each may be from it.

Ten splits of concrete and yacht, and of each of nine other data sets --draws random samples of 200, 500 and 1,000
training rows, with 2,000 test rows; and ten draws of 600 rows of 50 columns, of which y is a linear function with
noise, or noise alone. `GPRegressor(noise="normal")` with each prior: NLPD in standard deviations of y.

    python benchmarks/priors.py [--data-dir DIR] [--sets NAME ...] [--draws 3]
    python benchmarks/priors.py --redraw  # the table alone, from the results

Writes benchmarks/results/priors.json, and the table in docs/learning_measured.md.
"""

import json
import warnings
from contextlib import ExitStack
from functools import partial
from itertools import product
from unittest.mock import patch

import numpy as np
from common import RESULTS, measure_or_redraw, timed, write, write_table
from quality import SETS, load

SIZES, N_TEST, N_SPLITS, SPLIT = (200, 500, 1000), 2000, 10, ("concrete", "yacht")
# What the linear function in y is multiplied by.
MADE = {"linear, 50 columns": 1.0, "noise, 50 columns": 0.0}
# The standard deviation of what each part, each column and each lengthscale have of their own.
PRIORS = {"one a part": 1.0, "¼": 0.25, "½": 0.5, "1": 1.0, "2": 2.0, "independent": None, "1 or ¼": None}


def independent(space):
    """Return the inverse of a prior covariance in which lengthscales have nothing in common."""
    from lmgp.learning.space import PRIOR_DEVIATION

    return np.eye(len(space.bounds)) / PRIOR_DEVIATION**2


def learning_with(prior):
    """Learn with another prior inside; the last one is the default."""
    from lmgp.learning import search, space

    stack = ExitStack()
    if prior == "1 or ¼":
        return stack
    # The prior of close lengthscales is this one, too.
    stack.enter_context(patch.object(search, "CLOSE_DEVIATION", PRIORS[prior] or 1.0))
    if prior == "independent":
        stack.enter_context(patch.object(space.Space, "prior_information", property(independent)))
    else:
        stack.enter_context(patch.object(search, "Space", partial(space.Space, own_deviation=PRIORS[prior])))
    return stack


def samples(name, data_dir, draws):
    """Go through the training and test rows of a data set: its splits, or random samples of its first one."""
    if name in MADE:
        for number in range(N_SPLITS):
            rng = np.random.default_rng(number)
            X = rng.normal(size=(600 + N_TEST, 50))
            y = MADE[name] * X @ rng.normal(size=50) + rng.normal(size=len(X))
            yield 600, number, X[:600], y[:600], X[600:], y[600:]
        return
    if name in SPLIT:
        for number in range(N_SPLITS):
            X, y, X_test, y_test, _ = load(name, data_dir, number, **SETS.get(name, {}))
            yield len(y), number, X, y, X_test, y_test
        return
    X, y, X_test, y_test, _ = load(name, data_dir, 0, **SETS[name])
    for n, number in product(SIZES, range(draws)):
        rng = np.random.default_rng((n, number))
        train, test = rng.permutation(len(y))[:n], rng.permutation(len(y_test))[:N_TEST]
        yield n, number, X[train], y[train], X_test[test], y_test[test]


def run(name, prior, X, y, X_test, y_test):
    from lmgp import GPRegressor
    from lmgp.learning import engine

    engine.remembered.cache_clear()
    model = GPRegressor(ard=prior != "one a part", noise="normal", random_state=0)
    with learning_with(prior):
        seconds, _ = timed(lambda: model.fit(X, y))
    density = model.predict_distribution(X_test).logpdf(y_test).mean()
    return {"set": name, "prior": prior, "nlpd": float(-density - np.log(y.std())), "seconds": round(seconds, 3)}


def measure(args):
    warnings.simplefilter("ignore")
    runs = []
    for name in args.sets:
        for n, number, *rows in samples(name, args.data_dir, args.draws):
            runs += [{"n": n, "draw": number, **run(name, prior, *rows)} for prior in PRIORS]
        write("priors", {"runs": runs})
        print(name, flush=True)


def write_page():
    """Put the table into the page, between its marks."""
    runs = json.loads((RESULTS / "priors.json").read_text())["runs"]
    alone = *SPLIT, *MADE
    groups = {
        **{name: [run for run in runs if run["set"] == name] for name in alone},
        **{f"{n:,} rows": [run for run in runs if run["n"] == n and run["set"] not in alone] for n in SIZES},
    }
    lines = [f"| | {' | '.join(PRIORS)} |", "|---|" + "---:|" * len(PRIORS)]
    for name, group in groups.items():
        of = [[run["nlpd"] for run in group if run["prior"] == prior] for prior in PRIORS]
        lines.append(f"| {name} | {' | '.join(f'{np.mean(values):.3f}' for values in of)} |")
    write_table("learning_measured.md", "priors", lines)


if __name__ == "__main__":
    measure_or_redraw(__doc__, ["yacht", *MADE, *SETS], 3, measure, write_page)
