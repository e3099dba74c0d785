"""Seasons: how well named kernels predict 40 months after 120, beside the kernel that the series are drawn from.

    python benchmarks/seasons.py [--series 20]
    python benchmarks/seasons.py --redraw  # the table alone, from the results

Writes benchmarks/results/seasons.json, and the table in docs/learning.md.
"""

import argparse
import json

import numpy as np
from common import RESULTS, timed, write, write_table

N, N_TRAIN, NOISE = 160, 120, 0.3
NAMES = ("matern52+matern32*periodic", "linear+matern32*periodic", "matern52", "auto")
TRUE = "the kernel they are drawn from"


def run(number):
    """Draw one series, and score all kernels."""
    from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, MaternKernel, PeriodicKernel

    true = GaussianKernel(60.0, 4.0) + MaternKernel(200.0, 1.5) * PeriodicKernel(12.0, 0.8)
    X, rng = np.arange(float(N))[:, None], np.random.default_rng(number)
    drawn = np.linalg.cholesky(true(X) + 1e-9 * np.eye(N)) @ rng.standard_normal(N)
    y = drawn + NOISE * rng.standard_normal(N)
    models = {TRUE: ExactGPRegressor(true, NOISE**2)}
    models |= {name: GPRegressor(kernel=name, noise="normal", random_state=0) for name in NAMES}
    for name, model in models.items():
        center = 0.0 if name == TRUE else None
        seconds, fitted = timed(lambda model=model, center=center: model.fit(X[:N_TRAIN], y[:N_TRAIN], center=center))
        predicted = fitted.predict_distribution(X[N_TRAIN:])
        periods = [float(one.value) for one in fitted.kernel_.parameters if one.kind == "period"]
        yield {
            "series": number,
            "kernel": name,
            "rmse": float(np.sqrt(np.mean(np.square(predicted.mean() - y[N_TRAIN:])))),
            "nlpd": float(-predicted.logpdf(y[N_TRAIN:]).mean()),
            "inside": float(np.mean(np.abs(predicted.cdf(y[N_TRAIN:]) - 0.5) <= 0.475)),
            "periods": periods,
            "seconds": round(seconds, 3),
        }


def write_page():
    """Put the table into the page, between its marks."""
    runs = json.loads((RESULTS / "seasons.json").read_text())["runs"]
    lines = ["| kernel | RMSE | NLPD | within 95% |", "|---|---:|---:|---:|"]
    for name in (TRUE, *NAMES):
        of_name = [one for one in runs if one["kernel"] == name]
        rmse, nlpd, inside = (np.mean([one[score] for one in of_name]) for score in ("rmse", "nlpd", "inside"))
        lines.append(f"| {name if name == TRUE else f'`{name}`'} | {rmse:.2f} | {nlpd:.2f} | {100 * inside:.1f} |")
    write_table("learning.md", "seasons", lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=20)
    parser.add_argument("--redraw", action="store_true")
    args = parser.parse_args()
    if not args.redraw:
        write("seasons", {"runs": [one for number in range(args.series) for one in run(number)]})
    write_page()
