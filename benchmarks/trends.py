"""Linear trends that `GPRegressor()` finds: made rows with one linear column, beside the line and a constant mean.

The test rows are in discs without training rows, beyond the range of the linear column, or random ones.

    python benchmarks/trends.py [--draws 20]
    python benchmarks/trends.py --redraw  # the table alone, from the results

Writes benchmarks/results/trends.json, and the table in docs/trend.md.
"""

import argparse
import json
from itertools import product

import numpy as np
from common import RESULTS, timed, write, write_table

PLACES, SIZES = ("discs", "beyond", "random"), (300, 3000)
METHODS = {"line": "the line alone", "constant": '`trend="constant"`', "auto": '`trend="auto"`'}


def made(draw, n, place):
    """Return training and test rows: two coordinates, and z, with a slope of 3."""
    rng = np.random.default_rng(draw)
    places = rng.uniform(0.0, 10.0, (n + 1500, 2))
    z = 0.5 * rng.normal(size=len(places)) + 2.0 * np.sin(0.4 * places[:, 0] + rng.uniform(0.0, 6.0))
    waves = (
        np.cos(places @ rng.normal(size=(2, 200)) + rng.uniform(0.0, 2.0 * np.pi, 200)) @ rng.normal(size=200) / 10.0
    )
    y = 3.0 * z + 1.5 * waves + 0.5 * rng.normal(size=len(places))
    X = np.column_stack((places, z))
    if place == "discs":
        centres = rng.uniform(1.0, 9.0, (4, 2))
        test = (np.linalg.norm(places[:, None] - centres, axis=2) < 1.6).any(axis=1)
    else:
        test = z > np.quantile(z, 0.75) if place == "beyond" else rng.uniform(size=len(z)) < 0.3
    return X[~test][:n], y[~test][:n], X[test], y[test]


def run(place, n, draw):
    from lmgp import GPRegressor
    from lmgp.learning import engine

    X, y, X_test, y_test = made(draw, n, place)
    line = np.polynomial.Polynomial.fit(X[:, 2], y, 1)
    yield {"method": "line", "rmse": float(np.sqrt(np.mean(np.square(line(X_test[:, 2]) - y_test))))}
    for trend in ("constant", "auto"):
        engine.remembered.cache_clear()
        seconds, model = timed(lambda trend=trend: GPRegressor(trend=trend, random_state=0).fit(X, y))
        predicted = model.predict_distribution(X_test)
        yield {
            "method": trend,
            "rmse": float(np.sqrt(np.mean(np.square(predicted.mean() - y_test)))),
            "nlpd": float(-predicted.logpdf(y_test).mean()),
            "found": [] if model.trend_ is None else list(model.trend_.names),
            "fit_s": round(seconds, 2),
        }


def write_page():
    """Put the table into the page, between its marks."""
    runs = json.loads((RESULTS / "trends.json").read_text())["runs"]
    lines = ["| test rows | rows | | RMSE | NLPD | z alone has a slope |", "|---|---:|---|---:|---:|---:|"]
    for place, n, method in product(PLACES, SIZES, METHODS):
        some = [one for one in runs if (one["place"], one["n"], one["method"]) == (place, n, method)]
        if not some:
            continue
        cells = [f"{np.mean([one['rmse'] for one in some]):.3f}"]
        if method == "line":
            cells += ["-"] * 2
        else:
            cells += [f"{np.mean([one['nlpd'] for one in some]):.3f}"]
            cells += [f"{sum(one['found'] == ['x2'] for one in some)} of {len(some)}" if method == "auto" else "-"]
        lines.append(f"| {place} | {n:,} | {METHODS[method]} | {' | '.join(cells)} |")
    write_table("trend.md", "trends", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--redraw", action="store_true", help="only write the table of what is in the results")
    args = parser.parse_args()
    if not args.redraw:
        runs = []
        for place, n, draw in product(PLACES, SIZES, range(args.draws)):
            runs += [{"place": place, "n": n, "draw": draw, **one} for one in run(place, n, draw)]
            print(json.dumps(runs[-1]), flush=True)
            write("trends", {"runs": runs})
    write_page()


if __name__ == "__main__":
    main()
