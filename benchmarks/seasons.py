"""Seasons: how well named kernels predict 40 months after 120, beside the kernel that the series are drawn from.

And the CO₂ at Mauna Loa, monthly means of the record in statsmodels: 40 months after each of eight ends, by
`GPRegressor()` of the dates, and by scikit-learn's Gaussian process with the kernel that its documentation composes for
this record.

    pip install statsmodels
    python benchmarks/seasons.py [--series 20] [--tables runs co2]
    python benchmarks/seasons.py --redraw  # the table alone, from the results

Writes benchmarks/results/seasons.json, and the tables in docs/learning_measured.md.
"""

import argparse
import json
from functools import partial

import numpy as np
import pandas as pd
from common import RESULTS, timed, write, write_table
from scipy.stats import norm

N, N_TRAIN, NOISE = 160, 120, 0.3
NAMES = ("matern52+matern32*periodic", "linear+matern32*periodic", "matern52", "auto")
TRUE = "the kernel they are drawn from"
# The months at whose ends the record is cut, and how many of them are predicted.
ENDS, AHEAD = range(241, 522, 40), 40
OF_DATES, COMPOSED = "auto, of dates", "scikit-learn, the composed kernel"
METHODS = {"lmgp": "`GPRegressor()` of the dates", "sklearn": COMPOSED}


def run(number):
    """Draw one series, and score all kernels."""
    from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, MaternKernel, PeriodicKernel

    true = GaussianKernel(60.0, 4.0) + MaternKernel(200.0, 1.5) * PeriodicKernel(12.0, 0.8)
    X, rng = np.arange(float(N))[:, None], np.random.default_rng(number)
    drawn = np.linalg.cholesky(true(X) + 1e-9 * np.eye(N)) @ rng.standard_normal(N)
    y = drawn + NOISE * rng.standard_normal(N)
    dates = pd.DataFrame({"month": pd.date_range("2000-01-01", periods=N, freq="MS")})
    fits = {TRUE: partial(predicted, ExactGPRegressor(true, NOISE**2), X, center=0.0)}
    models = {name: GPRegressor(kernel=name, noise="normal", random_state=0) for name in NAMES}
    fits |= {name: partial(predicted, model, X) for name, model in models.items()}
    fits[OF_DATES] = partial(predicted, GPRegressor(noise="normal", random_state=0), dates)
    fits[COMPOSED] = partial(composed, X / 12.0)
    for name, fit in fits.items():
        yield {"series": number, "kernel": name, **scored(fit, y, N_TRAIN, N)}


def predicted(model, X, y, train, test, **options):
    """Return the distributions that a model predicts."""
    return model.fit(X[train], y[train], **options).predict_distribution(X[test])


def composed(years, y, train, test):
    """Return the distributions of scikit-learn's Gaussian process with the kernel of its documentation."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, RationalQuadratic, WhiteKernel

    trend, season = 50.0**2 * RBF(50.0), RBF(100.0) * ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
    short = 0.5**2 * RationalQuadratic(1.0, 1.0) + 0.1**2 * RBF(0.1) + WhiteKernel(0.1**2, (1e-5, 1e5))
    model = GaussianProcessRegressor(trend + 2.0**2 * season + short).fit(years[train], y[train] - y[train].mean())
    mean, std = model.predict(years[test], return_std=True)
    return norm(mean + y[train].mean(), std)


def scored(fit, y, start, end):
    """Score the predictions of rows from `start` to `end`, by those before."""
    seconds, found = timed(lambda: fit(y, slice(0, start), slice(start, end)))
    test = y[start:end]
    return {
        "rmse": float(np.sqrt(np.mean(np.square(found.mean() - test)))),
        "nlpd": float(-found.logpdf(test).mean()),
        "inside": float(np.mean(np.abs(found.cdf(test) - 0.5) <= 0.475)),
        "seconds": round(seconds, 3),
    }


def of_co2(end):
    """Score both for one end of the record, in months."""
    from statsmodels.datasets import co2

    from lmgp import GPRegressor

    record = co2.load_pandas().data["co2"].resample("MS").mean().dropna()
    dates, y = pd.DataFrame({"date": record.index}), record.to_numpy()
    years = (record.index.year + record.index.month / 12.0).to_numpy()[:, None]
    for method, fit in (
        ("lmgp", partial(predicted, GPRegressor(random_state=0), dates)),
        ("sklearn", partial(composed, years)),
    ):
        yield {"end": end, "method": method, **scored(fit, y, end - AHEAD, end)}


def write_pages():
    """Put the tables into the page, between their marks."""
    results = json.loads((RESULTS / "seasons.json").read_text())
    if "co2" in results:
        lines = ["| | RMSE in ppm | NLPD | RMSE, last end | NLPD, last end |", "|---|---:|---:|---:|---:|"]
        for method, name in METHODS.items():
            some = [run for run in results["co2"] if run["method"] == method]
            last = next(run for run in some if run["end"] == max(ENDS))
            told = [np.mean([run[score] for run in some]) for score in ("rmse", "nlpd")] + [last["rmse"], last["nlpd"]]
            lines.append(f"| {name} | {' | '.join(f'{value:.2f}' for value in told)} |")
        write_table("learning_measured.md", "co2", lines)
    runs = results["runs"]
    lines = ["| kernel | RMSE | NLPD | within 95% |", "|---|---:|---:|---:|"]
    for name in (TRUE, *NAMES, OF_DATES, COMPOSED):
        of_name = [one for one in runs if one["kernel"] == name]
        rmse, nlpd, inside = (np.mean([one[score] for one in of_name]) for score in ("rmse", "nlpd", "inside"))
        lines.append(f"| {f'`{name}`' if name in NAMES else name} | {rmse:.2f} | {nlpd:.2f} | {100 * inside:.1f} |")
    write_table("learning_measured.md", "seasons", lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=20)
    parser.add_argument("--redraw", action="store_true")
    parser.add_argument("--tables", nargs="+", choices=("runs", "co2"), default=["runs", "co2"])
    args = parser.parse_args()
    measured = {"runs": (run, range(args.series)), "co2": (of_co2, ENDS)}
    for table in [] if args.redraw else args.tables:
        measure, cases = measured[table]
        write("seasons", {table: [one for case in cases for one in measure(case)]})
    write_pages()
