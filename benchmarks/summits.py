"""Summits: how far below the highest known maximum of the posterior density learning ends.

Made functions whose likelihood has several maxima: --draws draws of 150 to 250 rows each. The parameters that are
learned, by the exact likelihood with the prior, from the likeliest of the starting points and from the winner of the
race of the 32 likeliest (the default), beside the best of --climbs climbs by another optimiser, scipy's L-BFGS-B,
from random points; NLPD of 1,000 test rows in standard deviations of y.

    OMP_NUM_THREADS=1 python benchmarks/summits.py [--draws 3] [--climbs 20]
    python benchmarks/summits.py --redraw  # the table alone, from the results, and the figure

Writes benchmarks/results/summits.json, the table in docs/learning_measured.md, and docs/summits.png, for which it
learns from 40 rows.
"""

import argparse
import json
import warnings
from itertools import product
from unittest.mock import patch

import numpy as np
from common import FIGURES, NARROW, RESULTS, WIDTH, write, write_table
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
KERNELS, WAYS = ("gaussian", "matern12+matern52+gaussian"), ("likeliest", "race", "random")


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
    from lmgp.learning import search as searching
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
    with patch.multiple(searching, RACING=1, RACE_STEPS=(0,)):
        learned["likeliest"] = search.optimum(form).free
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
        "| function | gaussian: likeliest | race | sum: likeliest | race | NLPD: likeliest | race | random climbs |",
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


def draw():
    """Draw the starting points of 40 rows of one column, the race of the 32 likeliest, and where the winner ends."""
    import matplotlib.pyplot as plt

    from lmgp.data import Rows
    from lmgp.learning import search as searching
    from lmgp.learning.forms import make_form
    from lmgp.learning.scoring import Climb, ExactObjective
    from lmgp.learning.space import Space, Units

    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 10.0, 40)
    y = np.sin(3.0 * x) + 0.4 * x + 0.6 * rng.normal(size=40)
    rows = Rows(x[:, None], y - y.mean())
    units = Units.of(rows, True)
    space = Space(make_form("matern52", False, rows), units)
    objective = ExactObjective(rows, space)
    at = [int(np.flatnonzero(space.kinds == kind)[0]) for kind in ("lengthscale", "noise")]
    (variance,) = np.flatnonzero(space.kinds == "variance")

    def shown(points):
        return np.exp(np.asarray(points)[:, at] + space.log_units[at[0]] * np.array([1.0, 0.0]))

    def path(start, steps):
        climb, places = Climb(searching.quick_objective(rows, space), start), [start]
        for _ in range(steps):
            places.append(climb.go_on(1).free)
        return shown(places)

    points = searching.starting_points(space, rows)
    order = np.argsort([-objective.value(free) for free in points], kind="stable")
    winner = searching.Search(rows, units, None, True, 0)._start(space, rows)
    grid = np.array([np.linspace(low, high, 60) for low, high in ((-4.0, 3.5), (-6.0, 2.0))])
    heights = np.full((60, 60), -np.inf)
    for (i, scale), (j, noise) in product(enumerate(grid[0]), enumerate(grid[1])):
        free = space.median.copy()
        free[at] = scale, noise
        for free[variance] in np.linspace(-2.0, 4.0, 9):
            heights[j, i] = max(heights[j, i], objective.value(free))
    with plt.rc_context(NARROW):
        figure, ax = plt.subplots(figsize=(WIDTH, 4.2), layout="constrained")
        top = heights.max()
        scales = np.exp(grid[0] + space.log_units[at[0]])
        levels = top - np.array([40.0, 30.0, 20.0, 15.0, 10.0, 7.0, 5.0, 3.0, 2.0, 1.0, 0.3])
        filled = ax.contourf(scales, np.exp(grid[1]), heights - top, levels - top, cmap="Blues", extend="both")
        figure.colorbar(filled, ax=ax, label="log posterior less its maximum, nats")
        ax.plot(*shown(points).T, ".", color="0.45", markersize=4, label="200 random points")
        for free in points[order[: searching.RACING]]:
            ax.plot(*path(free, sum(searching.RACE_STEPS[:2])).T, "-", color="C1", linewidth=1.0)
        ax.plot(*shown(points[order[: searching.RACING]]).T, "o", color="C1", label="the 32 likeliest, and three steps")
        ends = path(winner, 30)
        ax.plot(*ends.T, "-", color="C3", linewidth=2.0)
        ax.plot(*ends[:1].T, "o", color="C3", label="the winner of the race")
        ax.plot(*ends[-1:].T, "*", color="C3", markersize=15, label="the maximum that is learned")
        ax.set(xscale="log", yscale="log", xlabel="lengthscale", ylabel="noise variance, in variances of y")
        ax.set(xlim=scales[[0, -1]], ylim=np.exp(grid[1][[0, -1]]))
        ax.legend(loc="lower right", fontsize=9)
        figure.savefig(FIGURES / "summits.png")


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
    draw()
