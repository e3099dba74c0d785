"""Seconds and memory over the number of rows, on a map: the global solve beside the exact GP and near rows.

Rows of 200 cities in an extent of 100 × 100 lengthscales of a Gaussian kernel, with a noise of 0.1 of its variance, and
100,000 rows to predict: means and standard deviations. Nothing is learned. GPBoost has its Vecchia approximation, with
its default numbers of neighbours. Each run is a process of its own, whose peak of memory is thereby its own; it holds
the rows, too. A run of more than --cap seconds is stopped, and the method has no larger ones.

    pip install gpboost==1.8.0
    python benchmarks/sizes.py [--rows 10000 100000 1000000 10000000] [--methods NAME ...] [--cap 120]
    python benchmarks/sizes.py --redraw       # the figure alone, from the results

Writes benchmarks/results/sizes.json and docs/sizes.png.
"""

import argparse
import json
import resource
import subprocess
import sys

import numpy as np
from clustering import cities
from common import FIGURES, RESULTS, timed, write
from matplotlib.figure import Figure

N_NEW, N_WAVES = 100_000, 50
VARIANCE, NOISE = 1.0, 0.1


def table(n_rows):
    """Return training rows and rows to predict, and a function of the prior's frequencies with noise."""
    X, rng = cities(n_rows + N_NEW), np.random.default_rng(1)
    X = X[np.random.default_rng(2).permutation(len(X))]
    y = NOISE**0.5 * rng.standard_normal(len(X))
    for frequency, phase in zip(rng.standard_normal((N_WAVES, 2)), rng.uniform(0, 2 * np.pi, N_WAVES), strict=True):
        y += (2.0 * VARIANCE / N_WAVES) ** 0.5 * np.cos(X @ frequency + phase)
    return X[:n_rows], y[:n_rows], X[n_rows:]


def ours(make):
    def run(X, y, new):
        from lmgp import GaussianKernel

        model = make().set_params(kernel=GaussianKernel(1.0, VARIANCE), noise_variance=NOISE)
        fit_s, _ = timed(lambda: model.fit(X, y))
        predict_s, _ = timed(lambda: model.predict(new, return_std=True, include_noise=True))
        error = getattr(model, "error_", None)
        return fit_s, predict_s, {} if error is None else {"stated": error.divergence, **vars(error)}

    return run


def spectral():
    from lmgp import SpectralGPRegressor

    return SpectralGPRegressor()


def nearest():
    from lmgp import NearestNeighborsGPRegressor

    return NearestNeighborsGPRegressor(64)


def exact():
    from lmgp import ExactGPRegressor

    return ExactGPRegressor(solver="cholesky", max_memory_gib=20.0)


def gpboost_vecchia(X, y, new):
    import gpboost

    def predict():
        # The range of its Gaussian kernel is the lengthscale times the root of two.
        model = gpboost.GPModel(gp_coords=X, cov_function="gaussian", gp_approx="vecchia")
        parameters = np.array([NOISE, VARIANCE, 2.0**0.5])
        return model.predict(y=y, gp_coords_pred=new, cov_pars=parameters, predict_var=True, predict_response=False)

    seconds, _ = timed(predict)
    return 0.0, seconds, {"version": gpboost.__version__}


METHODS = {
    "exact": (ours(exact), "exact GP", "#000000", "s"),
    "nearest": (ours(nearest), "nearest 64 rows", "#d55e00", "^"),
    "gpboost": (gpboost_vecchia, "GPBoost, Vecchia", "#009e73", "D"),
    "spectral": (ours(spectral), "SpectralGPRegressor", "#0072b2", "o"),
}


def measure(method, n_rows):
    X, y, new = table(n_rows)
    fit_s, predict_s, stated = METHODS[method][0](X, y, new)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    result = {"method": method, "rows": n_rows, "fit_s": fit_s, "predict_s": predict_s, "peak_gib": peak, **stated}
    print(json.dumps(result))


def measured(args):
    results = []
    for method in args.methods:
        for n_rows in sorted(args.rows):
            command = [sys.executable, __file__, "--measure", method, "--rows", str(n_rows)]
            try:
                # Making the rows is not what is measured.
                run = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=args.cap + n_rows / 1e5 + 60)
            except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
                print(f"{method}, {n_rows:,} rows: {type(error).__name__}", flush=True)
                break
            results.append(json.loads(run.stdout))
            seconds = results[-1]["fit_s"] + results[-1]["predict_s"]
            print(f"{method}, {n_rows:,} rows: {seconds:.3g} s, {results[-1]}", flush=True)
            if seconds > args.cap:
                break
    return results


def draw(results):
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    seconds, memory = figure.subplots(1, 2)
    for method, (_, label, colour, marker) in METHODS.items():
        runs = [run for run in results if run["method"] == method]
        if runs:
            n = [run["rows"] for run in runs]
            style = {"color": colour, "marker": marker, "label": label}
            seconds.plot(n, [run["fit_s"] + run["predict_s"] for run in runs], **style)
            memory.plot(n, [run["peak_gib"] for run in runs], **style)
    for axes, title in ((seconds, "seconds to fit and predict 100,000 rows"), (memory, "peak of memory, GiB")):
        axes.set(xscale="log", yscale="log", xlabel="training rows", title=title)
        axes.grid(alpha=0.25)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("{x:g}")
    seconds.legend(frameon=False)
    figure.savefig(FIGURES / "sizes.png", dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000, 10_000_000])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--cap", type=float, default=120.0, help="seconds")
    parser.add_argument("--redraw", action="store_true")
    parser.add_argument("--measure", choices=METHODS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure, args.rows[0])
        return
    path = RESULTS / "sizes.json"
    kept = json.loads(path.read_text())["runs"] if path.exists() else []
    if not args.redraw:
        kept = [run for run in kept if run["method"] not in args.methods] + measured(args)
        write("sizes", {"runs": kept})
    draw(kept)


if __name__ == "__main__":
    main()
