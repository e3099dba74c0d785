"""Maps of points: GPRegressor beside the kriging of PyKrige and GSTools, on the same points.

same     At one exponential covariance, the same for all: by how much means and variances differ.
compare  Each fitted as its documentation shows, on random training rows of
         uk_flats   uk_flats_2020-12: the logarithm of the price by longitude and latitude; other flats are predicted
         modis      modis_lst: land surface temperature; cells of the published test set are predicted, in clouds
         RMSE, NLPD, CRPS and the coverage of 95% intervals, of new observations, and the seconds of fit and prediction:
         those that pass, and the processor's, which count where others use the machine, too.

Ordinary kriging with an exponential variogram: of PyKrige with 6 lags, its default, and with 20 weighted ones, over the
extent of the points; of GSTools with its default bins, and with 20 bins up to 100 km. The nugget is noise in both, and
both solve for all training rows; PyKrige for the means of each place, and for all rows as well.

    pip install pykrige==1.7.3 gstools==1.7.0
    python benchmarks/kriging.py [--only same compare] [--repeats 3] [--data-dir DIR] [--shared] [--quick]
    python benchmarks/kriging.py --redraw  # the table alone, from the results

Writes benchmarks/results/kriging.json, every run and the environment, and the table in docs/kriging_measured.md.
"""

import argparse
import json
import warnings
from copy import copy
from time import process_time

import numpy as np
import pandas as pd
import torch
from common import RESULTS, timed, write, write_table
from sklearn.pipeline import make_pipeline

from lmgp import ExactGPRegressor, GPRegressor, MaternKernel, SphericalCoordinates, load_dataset
from lmgp.kernels.sphere import EARTH_RADIUS
from lmgp.learning.engine import remembered
from lmgp.metrics import coverage, crps, nlpd, rmse

SETS = {"uk_flats": "uk_flats_2020-12", "modis": "modis_lst"}
POINTS = {"uk_flats": "flats", "modis": "temperatures"}
NAMES = {
    "GPRegressor": "`GPRegressor`",
    "GPRegressor, linear trend": "`GPRegressor`, linear trend",
    "PyKrige, 6 lags, all rows": "PyKrige, 6 lags, rows kept",
}
SIZES = (1_000, 2_000)
N_NEW = 1_000
SHARED = "other work ran on the machine at the same time: seconds are upper bounds"


class Problem:
    """Points with their targets, and new ones."""

    def __init__(self, name, n_rows, seed, data_dir):
        data = load_dataset(SETS[name], data_dir)
        X, rng = data.X[:, :2], np.random.default_rng(seed)
        order = rng.permutation(len(X))
        test = np.zeros(len(X), dtype=bool) if not len(data.splits) else data.splits[0]
        if not len(data.splits):
            test[order[-N_NEW:]] = True
        new, rows = order[test[order]][:N_NEW], order[~test[order]][:n_rows]
        self.name, self.X, self.y = name, X[rows], data.y[rows]
        self.new, self.truth = X[new], data.y[new]


def averaged(problem):
    """Return the problem with one row a place, and the mean of its targets."""
    one = copy(problem)
    one.X, place = np.unique(problem.X, axis=0, return_inverse=True)
    one.y = np.bincount(place.ravel(), weights=problem.y) / np.bincount(place.ravel())
    return one


def ours(problem, **options):
    remembered.cache_clear()  # of another line, which has learned from the same rows
    settings = {"metric": "sphere", "noise": "normal", "n_predict": N_NEW, "random_state": 0}
    model = GPRegressor(**settings, **options).fit(problem.X, problem.y)
    mean, std = model.predict(problem.new, return_std=True, include_noise=True)
    return mean, std**2, f"{type(model.model_).__name__}, {model.kernel_!r}, noise {model.noise_variance_:.3g}"


def pykrige_of(problem, **options):
    """Ordinary kriging whose nugget is noise: new points may lie on given ones, and two rows at one place."""
    X, y = problem.X, problem.y
    from pykrige.ok import OrdinaryKriging

    shared = {"variogram_model": "exponential", "coordinates_type": "geographic", "exact_values": False}
    return OrdinaryKriging(X[:, 0] % 360, X[:, 1], y, **shared, **options)


def gstools_of(problem, model):
    import gstools

    places = problem.X[:, 1], problem.X[:, 0]
    return gstools.krige.Ordinary(model, places, problem.y, exact=False, cond_err="nugget", pseudo_inv=False)


def of_pykrige(problem, **options):
    kriging = pykrige_of(problem, **options)
    mean, variance = kriging.execute("points", problem.new[:, 0] % 360, problem.new[:, 1])
    sill, reach, nugget = kriging.variogram_model_parameters
    length = np.radians(reach) / 3 * EARTH_RADIUS
    return np.asarray(mean), np.asarray(variance), f"variance {sill:.3g}, length {length:.3g} km, nugget {nugget:.3g}"


def of_gstools(problem, edges=None):
    import gstools

    places = problem.X[:, 1], problem.X[:, 0]
    model = gstools.Exponential(latlon=True, geo_scale=EARTH_RADIUS)
    centres, gamma = gstools.vario_estimate(places, problem.y, edges, latlon=True, geo_scale=EARTH_RADIUS)
    model.fit_variogram(centres, gamma)
    mean, variance = gstools_of(problem, model)((problem.new[:, 1], problem.new[:, 0]))
    return mean, variance, f"variance {model.var:.3g}, length {model.len_scale:.3g} km, nugget {model.nugget:.3g}"


METHODS = {
    "GPRegressor": ours,
    "GPRegressor, linear trend": lambda problem: ours(problem, trend="linear"),
    "PyKrige, 6 lags, all rows": of_pykrige,
    "PyKrige, 6 lags": lambda problem: of_pykrige(averaged(problem)),
    "PyKrige, 20 weighted lags": lambda problem: of_pykrige(averaged(problem), nlags=20, weight=True),
    "GSTools, its bins": of_gstools,
    "GSTools, bins up to 100 km": lambda problem: of_gstools(problem, np.linspace(0.0, 100.0, 21)),
}


def scored(method, problem, seed):
    """Return what a method makes of a problem."""
    start = process_time()
    seconds, (mean, variance, fitted) = timed(lambda: METHODS[method](problem))
    of_processor = process_time() - start
    variance = np.maximum(variance, 1e-12)
    result = {
        "set": problem.name,
        "n_rows": len(problem.y),
        "n_new": len(problem.truth),
        "seed": seed,
        "method": method,
        "rmse": float(rmse(problem.truth, mean)),
        "nlpd": float(nlpd(problem.truth, mean, variance)),
        "crps": float(crps(problem.truth, mean, variance)),
        "coverage": float(coverage(problem.truth, mean, variance)),
        "seconds": seconds,
        "processor_seconds": of_processor,
        "fitted": " ".join(fitted.split()),
    }
    print(
        ", ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in result.values()), flush=True
    )
    return result


def same(args):
    """Differences from the exact process with an intercept that is estimated, at its learned hyperparameters."""
    import gstools

    for name in SETS:
        problem = Problem(name, 1_000, 0, args.data_dir)
        model = make_pipeline(
            SphericalCoordinates(), ExactGPRegressor("matern12", trend=[], ard=False, random_state=0)
        ).fit(problem.X, problem.y)
        mean, std = model.predict(problem.new, return_std=True, include_noise=True)
        kernel, noise = model[-1].kernel_, model[-1].noise_variance_
        assert isinstance(kernel, MaternKernel)
        length, sill = float(kernel.lengthscale), float(kernel.variance)
        theirs = gstools.Exponential(latlon=True, var=sill, len_scale=length, nugget=noise, geo_scale=EARTH_RADIUS)
        found = {"GSTools": gstools_of(problem, theirs)((problem.new[:, 1], problem.new[:, 0]))}
        parameters = {"psill": sill, "range": 3 * np.degrees(length / EARTH_RADIUS), "nugget": noise}
        kriging = pykrige_of(problem, variogram_parameters=parameters)
        found["PyKrige"] = kriging.execute("points", problem.new[:, 0] % 360, problem.new[:, 1])
        for package, (their_mean, their_variance) in found.items():
            result = {
                "set": name,
                "package": package,
                "n_rows": len(problem.y),
                "lengthscale_km": length,
                "mean_difference_in_std": float(np.max(np.abs(their_mean - mean) / std)),
                "relative_difference_of_std": float(np.max(np.abs(np.sqrt(their_variance) / std - 1.0))),
            }
            print(result, flush=True)
            yield result


def compare(args):
    for seed in range(args.repeats):
        for name in SETS:
            for n_rows in (300,) if args.quick else SIZES:
                problem = Problem(name, n_rows, seed, args.data_dir)
                for method in METHODS:
                    yield scored(method, problem, seed)


PARTS = {"same": same, "compare": compare}


def write_page():
    """Put the table into the page, between its marks: means over the splits."""
    runs = pd.DataFrame(json.loads((RESULTS / "kriging.json").read_text())["compare"])
    scores = ["rmse", "nlpd", "crps", "coverage", "processor_seconds"]
    means = runs.groupby(["set", "n_rows", "method"], sort=False)[scores].mean()
    lines = [
        "| points | training rows | method | RMSE | NLPD | CRPS | coverage of 95% | processor seconds |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for (points, n_rows), methods in means.groupby(level=["set", "n_rows"], sort=False):
        place = f"{POINTS[points]} | {n_rows:,}"
        for (_, _, method), mean in methods.iterrows():
            density = f"{mean.nlpd:.2f}" if mean.nlpd < 1e8 else "> 10⁸"
            lines.append(
                f"| {place} | {NAMES.get(method, method)} | {mean.rmse:.3f} | {density} | {mean.crps:.3f} | "
                f"{mean.coverage:.0%} | {mean.processor_seconds:.1f} |"
            )
            place = " | "
    write_table("kriging_measured.md", "kriging", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data-dir", help="default: the environment variable LMGP_DATA_DIR")
    parser.add_argument("--shared", action="store_true", help="keep with the results that other work ran, too")
    parser.add_argument("--quick", action="store_true", help="few rows, once, to see that it works; keeps nothing")
    parser.add_argument("--redraw", action="store_true", help="only write the table of what is in the results")
    args = parser.parse_args()
    if args.redraw:
        write_page()
        return
    import gstools

    args.repeats = 1 if args.quick else args.repeats
    warnings.filterwarnings("ignore", category=FutureWarning)
    more = {"threads": torch.get_num_threads(), "gstools": gstools.__version__} | (
        {"machine": SHARED} if args.shared else {}
    )
    for part in args.only:
        results = []
        for result in PARTS[part](args):
            results.append(result)
            if not args.quick:  # at once: what is there when a run is stopped is kept
                write("kriging", {part: results}, **more)
    if not args.quick:
        write_page()


if __name__ == "__main__":
    main()
