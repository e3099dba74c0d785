"""Summits: how far below the highest known maximum of the posterior density learning ends.

Made functions whose likelihood has several maxima: --draws draws of 150 to 250 rows each. The parameters that are
learned, by the exact likelihood with the prior, from the best starting point alone and from the winner of the race of
starting points (the default), beside the best of --climbs climbs by another optimiser, scipy's L-BFGS-B, from random
points; NLPD of 1,000 test rows in standard deviations of y.

    OMP_NUM_THREADS=1 python benchmarks/summits.py [--draws 3] [--climbs 20]
    python benchmarks/summits.py --redraw  # the table alone, from the results

Writes benchmarks/results/summits.json, and the table in docs/learning_measured.md.
"""

import argparse
import json
import warnings
from itertools import product
from unittest.mock import patch

import numpy as np
from common import RESULTS, write, write_table
from scipy.optimize import minimize

N_TEST = 1000


def friedman(X):
    Z = 0.5 * (X + 1.0)
    curve = 10.0 * np.sin(np.pi * Z[:, 0] * Z[:, 1]) + 20.0 * np.square(Z[:, 2] - 0.5)
    return curve + 10.0 * Z[:, 3] + 5.0 * Z[:, 4]


# Of columns that are uniform from -1 to 1: the number of columns, of rows, and the noise in standard deviations.
FUNCTIONS = {
    "sin 12x₀ + x₁ + x₂²": (5, 200, 0.1, lambda X: np.sin(12 * X[:, 0]) + X[:, 1] + X[:, 2] ** 2),
    "sin 10x₀ + sin 10x₁ + x₂ + x₃": (4, 250, 0.1, lambda X: np.sin(10 * X[:, :2]).sum(axis=1) + X[:, 2] + X[:, 3]),
    "sin 12x₀ + sin 8x₁ + sin 5x₂": (3, 250, 0.1, lambda X: np.sin(X * (12, 8, 5)).sum(axis=1)),
    "sin 40x₀ + x₁": (2, 150, 0.1, lambda X: np.sin(40 * X[:, 0]) + X[:, 1]),
    "sin 8x₀x₁ + x₂": (4, 250, 0.1, lambda X: np.sin(8 * X[:, 0] * X[:, 1]) + X[:, 2]),
    "steps along two of three columns": (3, 250, 0.1, lambda X: (X[:, 0] > 0.1) + (X[:, 1] > -0.3) + 0.3 * X[:, 2]),
    "sin 15(x₀ − x₁)": (2, 200, 0.1, lambda X: np.sin(15 * (X[:, 0] - X[:, 1]))),
    "Friedman, without noise": (7, 150, 0.0, friedman),
}
KERNELS, WAYS = ("gaussian", "matern12+matern52+gaussian"), ("best start", "race", "random")


def random_points(space, rng, number):
    """Go through starting points: of lengthscales, what all have in common, and what columns and parts have."""
    scales, parts, columns = space.lengthscales
    noises = space.kinds == "noise"
    for _ in range(number):
        free = space.median + rng.normal(size=len(space.median)) * (space.kinds == "variance")
        of_columns, of_parts = rng.normal(0.0, 1.5, columns.max() + 1), rng.normal(0.0, 0.7, len(space.kinds))
        free[scales] += rng.normal(-0.7) + of_columns[columns] + of_parts[parts]
        free[noises] = np.log(rng.choice([1e-6, 1e-3, 0.02, 0.3]))
        yield np.clip(free, *space.bounds.T)


def highest(objective, starts):
    """Return the highest end of climbs by L-BFGS-B."""

    def falling(free):
        point = objective(free)
        return (-point.value, -point.gradient) if np.isfinite(point.value) else (1e10, np.zeros_like(free))

    bounds = objective.bounds
    ends = [minimize(falling, start, jac=True, method="L-BFGS-B", bounds=bounds).x for start in starts]
    return max(ends, key=objective.value)


def run(name, number, kernel, n_climbs):
    from lmgp import ExactGPRegressor
    from lmgp.data import Rows
    from lmgp.learning.forms import make_form
    from lmgp.learning.scoring import ExactObjective
    from lmgp.learning.search import Search
    from lmgp.learning.space import Space, Units

    d, n, noise, function = FUNCTIONS[name]
    rng = np.random.default_rng(number)
    X = rng.uniform(-1.0, 1.0, (n + N_TEST, d))
    y = function(X) + noise * function(X).std() * rng.normal(size=len(X))
    rows = Rows(X[:n], y[:n] - y[:n].mean())
    units = Units.of(rows, True)
    search, form = Search(rows, units, None, True, 0), make_form(kernel, True, rows)
    space = Space(form, units)
    objective = ExactObjective(rows, space)
    line = {"function": name, "draw": number, "kernel": kernel}
    learned = {"race": search.optimum(form).free}
    with patch.object(Search, "_race_winner", lambda *given: given[3][0]):
        learned["best start"] = search.optimum(form).free
    learned["random"] = highest(objective, random_points(space, rng, n_climbs))
    for way, free in learned.items():
        given, noise_variance, _ = space.weighted(free)
        model = ExactGPRegressor(given, noise_variance, noise="normal").fit(X[:n], y[:n])
        density = model.predict_distribution(X[n:]).logpdf(y[n:]).mean()
        line[way] = {"value": objective.value(free), "nlpd": -density - np.log(y[:n].std())}
    return line


def write_page():
    """Put the table into the page, between its marks."""
    runs = json.loads((RESULTS / "summits.json").read_text())["runs"]
    lines = [
        "| function | gaussian: best start | race | sum: best start | race | NLPD: best start | race | random climbs |",
        "|---|" + "---:|" * 7,
    ]
    for name in FUNCTIONS:
        cells = []
        for kernel in KERNELS:
            of = [line for line in runs if (line["function"], line["kernel"]) == (name, kernel)]
            best = [max(line[way]["value"] for way in WAYS) for line in of]
            for way in WAYS[:2]:
                cells.append(f"{np.mean([high - line[way]['value'] for high, line in zip(best, of, strict=True)]):.0f}")
        cells += [f"{np.mean([line[way]['nlpd'] for line in of]):.2f}" for way in WAYS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    write_table("learning_measured.md", "summits", lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--climbs", type=int, default=20)
    parser.add_argument("--redraw", action="store_true", help="only write the table")
    args = parser.parse_args()
    if not args.redraw:
        warnings.simplefilter("ignore")
        runs = []
        for name, number, kernel in product(FUNCTIONS, range(args.draws), KERNELS):
            runs.append(run(name, number, kernel, args.climbs))
            write("summits", {"runs": runs})
            print(name, number, kernel, flush=True)
    write_page()
