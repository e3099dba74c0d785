"""The spectral model beside local ones: where the divergence from the exact GP is, and what the iterations depend on.

where       10,000 training rows of uk_flats_2020-12, all other rows predicted: KL from the exact GP, the part of it by
            the variances, the part by the means, and what the spectral model states of the latter. The published
            Gaussian kernel, one of a third of its lengthscale, and Matérn kernels.
iterations  Rows of `million.py`, in an extent of 100 × 100 lengthscales: iterations and seconds of the fit over the
            noise variance and the number of rows. The targets have the noise that the model is given.
rough       Random rows of the unit square, a Matérn-3/2 kernel of lengthscale 0.1 and variance 1 and the noise
            variance 0.01: seconds and iterations over the rows, and, of up to 10,000 of them, over the modes.
rows        Rows that come later: seconds of an update by 1,000 rows of the model of `iterations`, of a noise of 0.1,
            beside those of a fit to all rows; and, of 2,000 to 1,000,000 rows of a longer lengthscale, seconds of
            learning from their sums.
columns     Three columns: 10,000 rows evenly spread in a box of 17 × 6 × 4 lengthscales, and on the tracks of a
            satellite, in longitude, latitude and time, over 20 × 10 × 8 lengthscales. KL as in `where`.

    python benchmarks/spectral.py [--only where iterations rough rows columns] [--repeats 3] [--rows N ...] [--shared]
                                  [--data-dir DIR] [--quick]
    python benchmarks/spectral.py --redraw  # the tables of `where` and `iterations` alone, from the results

Seconds are those of the fit, and of means and standard deviations of all rows to predict; nothing is learned. Beside
them the processor's seconds of all threads: they count where others use the machine, too. Writes
benchmarks/results/spectral.json: medians, and the environment; and two tables in docs/spectral_measured.md.
"""

import argparse
import json
import os
import warnings
from itertools import product
from statistics import median
from time import process_time
from unittest.mock import patch

import numpy as np
from clustering import cities
from common import RESULTS, timed, write, write_table
from finufft import nufft2d3
from localized import GIVEN, Problem, load, made_problem
from million import waves
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.errors import ToleranceWarning
from lmgp.learning import learn_from_sums
from lmgp.metrics import kl_divergence
from lmgp.posteriors import modes

FLATS = "uk_flats_2020-12"
MATERN = {
    "Matérn-3/2": (MaternKernel(0.15, 0.5, 1.5), 0.2, (1e-2, 4e-3)),
    "Matérn-5/2": (MaternKernel(0.12, 0.5, 2.5), 0.2, (1e-2, 1e-3)),
}
TOLERANCES = (1e-2, 1e-3, 1e-4)
SECONDS = ("fit_s", "predict_s", "processor_s")
ENOUGH_S = 10.0  # no run is repeated after these seconds of one model
SHARED = "other work ran on the machine at the same time: seconds are upper bounds"


def spectral(tolerances):
    return [(f"spectral, tolerance {tolerance:g}", SpectralGPRegressor(tolerance)) for tolerance in tolerances]


def nearest(sizes):
    return [(f"nearest {k}", NearestNeighborsGPRegressor(k)) for k in sizes]


def localized(sizes, threshold):
    return [
        (f"localized {size}, threshold {threshold:g}", LocalizedGPRegressor(TaylorFeatures(size), threshold))
        for size in sizes
    ]


def fitted_and_predicted(model, problem, new):
    """Return the fitted model, mean and variance with noise, the seconds of both steps, and the processor's in all."""
    model = clone(model).set_params(kernel=problem.kernel, noise_variance=problem.noise_variance)
    start = process_time()
    fit_s, _ = timed(lambda: model.fit(problem.X, problem.y))
    predict_s, (mean, std) = timed(lambda: model.predict(new, return_std=True, include_noise=True))
    return model, (mean, std**2), (fit_s, predict_s, process_time() - start)


def compared(name, problem, new, models, repeats):
    """Yield a result of each model: seconds, the parts of the KL from the exact GP, and what the model states."""
    _, exact, seconds = fitted_and_predicted(ExactGPRegressor(), problem, new)
    shared = {"problem": name, "n_rows": len(problem.y), "n_new": len(new)}
    yield {**shared, "model": "exact", **dict(zip(SECONDS, seconds, strict=True))}
    for title, model in models:
        runs = []
        while len(runs) < repeats and sum(run[2][0] + run[2][1] for run in runs) < ENOUGH_S:
            runs.append(fitted_and_predicted(model, problem, new))
        fitted, (mean, variance), _ = runs[0]
        kl = float(kl_divergence(mean, variance, *exact).mean())
        of_variance = float(kl_divergence(exact[0], variance, *exact).mean())
        medians = (median(run[2][i] for run in runs) for i in range(len(SECONDS)))
        result = {**shared, "model": title, **dict(zip(SECONDS, medians, strict=True))}
        of_mean = float(np.mean(0.5 * (mean - exact[0]) ** 2 / exact[1]))
        result |= {"kl": kl, "kl_of_variances": of_variance, "kl_of_means": of_mean}
        # What the means of a process of fewer rows would cost.
        result["half_excess"] = float(0.5 * np.mean(variance / exact[1] - 1.0))
        if isinstance(fitted, SpectralGPRegressor):
            result |= {"stated": fitted.error_.divergence, **vars(fitted.error_)}
        told = {key: f"{value:.2e}" for key, value in result.items() if key.startswith(("kl", "stated"))}
        print(f"{name}, {title}: {result['fit_s']:.2f} + {result['predict_s']:.2f} s, {told}", flush=True)
        yield result


def where(args):
    X, y, new = load(FLATS, 1_000 if args.quick else 10_000, args.data_dir)
    new = new[:500] if args.quick else new
    for name, (kernel, noise_variance) in GIVEN[FLATS].items():
        models = localized((66, 120, 253), 2.0) + nearest((32, 64, 128)) + spectral(TOLERANCES)
        yield from compared(f"flats, {name}", Problem(X, y, kernel, noise_variance), new, models, args.repeats)
    for name, (kernel, noise_variance, tolerances) in MATERN.items():
        models = nearest((32, 64, 128)) + spectral(tolerances)
        yield from compared(f"flats, {name}", Problem(X, y, kernel, noise_variance), new, models, args.repeats)


def iterations(args):
    for n_rows in (1_000, 2_000) if args.quick else (10_000, 100_000, 1_000_000):
        X, rng = cities(n_rows), np.random.default_rng(1)
        function, errors = waves(X, rng), rng.standard_normal(n_rows)
        for noise_variance in (1.0, 1e-1, 1e-2, 1e-3, 1e-4)[: 3 if n_rows > 100_000 else None]:
            y = function + noise_variance**0.5 * errors
            model = SpectralGPRegressor(args.tolerance, kernel=GaussianKernel(1.0), noise_variance=noise_variance)
            start = process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ToleranceWarning)  # `converged` says it
                fit_s, _ = timed(lambda model=model, X=X, y=y: model.fit(X, y))
            result = {"n_rows": n_rows, "noise_variance": noise_variance, "tolerance": args.tolerance, "fit_s": fit_s}
            result |= {"processor_s": process_time() - start, **vars(model.error_)}
            print(", ".join(f"{key} {value:.4g}" for key, value in result.items()), flush=True)
            yield result


def rough(args):
    ways = {"over rows": modes.OVER_ROWS, "over modes": np.inf}
    for n_rows, (way, iterations_over_rows) in product((2_000,) if args.quick else args.rows, ways.items()):
        if way == "over modes" and n_rows > 10_000:
            continue
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(n_rows, 2))
        frequencies = rng.normal(size=(2, 2000)) / (0.1 * np.sqrt(rng.chisquare(3.0, 2000) / 3.0))  # of Matérn-3/2
        phases = rng.uniform(0.0, 2.0 * np.pi, 2000)
        function = nufft2d3(*frequencies, np.exp(1j * phases), *X.T.copy(), eps=1e-9).real / 1000.0**0.5
        problem = Problem(X, function + 0.1 * rng.standard_normal(n_rows), MaternKernel(0.1, 1.0, 1.5), 0.01)
        with patch.object(modes, "OVER_ROWS", iterations_over_rows), warnings.catch_warnings():
            warnings.simplefilter("ignore", ToleranceWarning)  # `converged` says it
            model, (mean, variance), seconds = fitted_and_predicted(
                SpectralGPRegressor(args.tolerance), problem, X[:10_000]
            )
        result = {"n_rows": n_rows, "way": way, "tolerance": args.tolerance}
        result |= {**dict(zip(SECONDS, seconds, strict=True)), **vars(model.error_)}
        squares = np.square(mean - function[:10_000])
        result |= {"rmse": float(np.sqrt(squares.mean())), "std": float(np.sqrt(np.mean(variance - 0.01)))}
        result |= {"variance_by": model.variance_by_}
        print(", ".join(f"{key} {value}" for key, value in result.items()), flush=True)
        yield result


def rows(args):
    for n_rows in (2_000,) if args.quick else (10_000, 100_000, 1_000_000):
        X, rng = cities(n_rows + 1_000), np.random.default_rng(1)
        y = waves(X, rng) + 0.1**0.5 * rng.standard_normal(len(X))
        edge = np.zeros(len(X), dtype=bool)
        edge[np.concatenate((X.argmin(axis=0), X.argmax(axis=0)))] = True
        first = np.argsort(~edge, kind="stable")[:n_rows]
        later = np.setdiff1d(np.arange(len(X)), first)
        given = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1}
        model = SpectralGPRegressor(args.tolerance, **given)
        fit_s, _ = timed(lambda model=model, X=X, y=y, first=first: model.fit(X[first], y[first]))
        result = {"n_rows": n_rows, "fit_s": fit_s, "fit_iterations": model.error_.n_iterations}
        update_s, _ = timed(lambda model=model, X=X, y=y, later=later: model.update(X[later], y[later]))
        result |= {"n_modes": model.error_.n_modes, "update_s": update_s}
        result |= {"update_iterations": model.error_.n_iterations}
        smooth = SpectralGPRegressor(1e-2, kernel=GaussianKernel(12.0), noise_variance=0.1, room=1.5)
        sums = smooth.fit(X, waves(X / 14.0, rng) + 0.3 * rng.standard_normal(len(X))).sums_
        learn_s, found = timed(lambda sums=sums, smooth=smooth: learn_from_sums(sums, smooth.kernel_))
        result |= {"learn_modes": sums.plan.modes.n_modes, "learn_s": learn_s}
        result |= {"lengthscale": float(found.kernel.lengthscale), "learned_noise": found.noise_variance}
        print(", ".join(f"{key} {value:.4g}" for key, value in result.items()), flush=True)
        yield result


def drawn(name, X, n_rows):
    """Return a problem of the first rows, whose function comes from the prior, and all other rows."""
    rng = np.random.default_rng(1)
    y = waves(X, rng) + 0.06**0.5 * rng.standard_normal(len(X))
    return name, Problem(X[:n_rows], y[:n_rows], GaussianKernel(1.0), 0.06), X[n_rows:]


def tracks(n_rows, extent):
    """Return rows at random times along 120 orbits, each further east by the golden ratio of the extent."""
    rng = np.random.default_rng(0)
    time = rng.uniform(size=n_rows)
    orbits = 120.0 * time
    longitude, latitude = (0.618034 * orbits) % 1.0, 0.5 - 0.5 * np.cos(2.0 * np.pi * orbits)
    return np.stack((longitude, latitude, time), axis=1) * extent


def columns(args):
    n_rows, n_new, rng = 1_000 if args.quick else 10_000, 500 if args.quick else 2_000, np.random.default_rng(0)
    box = rng.uniform(size=(n_rows + n_new, 3)) * [17.0, 6.0, 4.0]
    extent = np.array([20.0, 10.0, 8.0])
    on = tracks(n_rows + n_new, extent)
    between = np.vstack((on[:n_rows], rng.uniform(size=(n_new, 3)) * extent))
    models = localized((120, 286), 1.0) + nearest((64, 128)) + spectral(TOLERANCES)
    for name, X in (("box", box), ("on tracks", on), ("between tracks", between)):
        yield from compared(*drawn(name, X, n_rows), models, args.repeats)


KERNELS = {
    "flats, paper": "Gaussian, lengthscale 0.248°",
    "flats, short": "Gaussian, 0.082°",
    "flats, Matérn-3/2": "Matérn-3/2, 0.15°",
    "flats, Matérn-5/2": "Matérn-5/2, 0.12°",
}


def tables():
    """Write the tables of two parts."""
    kept = json.loads((RESULTS / "spectral.json").read_text())
    both, rule = ("seconds", "processor seconds"), "|---|---|---:|---:|---:|---:|---:|"

    def row(cells):
        return f"| {' | '.join(cells)} |"

    def short(number):
        return f"{number:.1e}".replace("e-0", "e-") if number else "–"

    def once(names):
        """Leave a name out where it is that of the line before."""
        return ["" if name == before else name for before, name in zip(["", *names], names, strict=False)]

    heads = "kernel", "model", "KL of the means", "KL of the variances", "stated of the means", *both
    lines = [row(heads), rule]
    runs = [run for run in kept["where"] if "kl" in run]
    for name, run in zip(once([KERNELS[run["problem"]] for run in runs]), runs, strict=True):
        numbers = map(short, (run["kl_of_means"], run["kl_of_variances"], run.get("stated")))
        seconds = f"{run['fit_s'] + run['predict_s']:.1f}", f"{run['processor_s']:.1f}"
        lines.append(row((name, run["model"], *numbers, *seconds)))
    write_table("spectral_measured.md", "where", lines)

    heads = "rows", "noise variance", "modes", "iterations", "KL left by them, at most", *both
    lines = [row(heads), rule]
    for rows, run in zip(once([f"{run['n_rows']:,}" for run in kept["iterations"]]), kept["iterations"], strict=True):
        number = f"{run['n_iterations']:,}{'' if run['converged'] else ', not converged'}"
        numbers = f"{run['noise_variance']:g}", f"{run['n_modes']:,}", number, short(run["iterations"])
        lines.append(row((rows, *numbers, f"{run['fit_s']:.1f}", f"{run['processor_s']:.1f}")))
    write_table("spectral_measured.md", "iterations", lines)


PARTS = {"where": where, "iterations": iterations, "rough": rough, "rows": rows, "columns": columns}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of the parts `iterations` and `rough`")
    parser.add_argument("--data-dir", help="default: the environment variable LMGP_DATA_DIR")
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000, 1_000_000], help="of the part `rough`")
    parser.add_argument("--shared", action="store_true", help="keep with the results that other work ran, too")
    parser.add_argument("--quick", action="store_true", help="few rows, once, to see that it works; keeps nothing")
    parser.add_argument("--redraw", action="store_true", help="only write the tables of what is in the results")
    args = parser.parse_args()
    if args.redraw:
        return tables()
    args.repeats = 1 if args.quick else args.repeats
    warm_up = made_problem(1000, 2)
    for _, model in (*localized((66,), 2.0), *nearest((32,)), *spectral((1e-3,))):
        fitted_and_predicted(model, warm_up, warm_up.X[:20] + 0.1)
    for part in args.only:
        load_before = os.getloadavg()
        results = list(PARTS[part](args))
        if not args.quick:
            more = {"load average": [load_before, os.getloadavg()]} | ({"machine": SHARED} if args.shared else {})
            write("spectral", {part: results}, **more)
            tables()
    return None


if __name__ == "__main__":
    main()
