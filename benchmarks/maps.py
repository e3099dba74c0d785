"""Maps of rough kernels: seconds, the divergence from the 1,000 nearest rows, and seams between cells.

100,000 training rows evenly spread in a square of 10 by 10 lengthscales, and a map of 1000 by 1000 points, means and
standard deviations, by two threads. Targets are drawn from the prior: a Matérn kernel of smoothness ½, and its sum with
one of smoothness 5/2, each with the variance 1; noise variances are 0.01 and 0.1. The models are given both. The fit of
GPRegressor is the choice of a model for a million predictions that is within 1e-4 nats of the exact GP; "nominal_s" is
the price that this choice rests on. Beside the seconds that pass are the processor's seconds of both threads: they
count where others use the machine, too.

KL is at 1,000 random points of the map, from the 1,000 nearest rows of each. A step is the difference of two
neighbouring points of the map. "seam" is the root mean square step between points in two cells of training rows, over
that between points in one: 1 is no seam. "off" is, at 300 pairs of points in two cells, how far the step is from that
by the 1,000 nearest rows, root mean square, over this one.

    python benchmarks/maps.py [--quick]

Writes benchmarks/results/maps.json: every run, and the environment.
"""

import argparse
from itertools import product
from time import process_time

import numpy as np
import torch
from common import timed, write
from nearest_rows import drawn

from lmgp import GPRegressor, MaternKernel, NearestNeighborsGPRegressor, predict_grid
from lmgp.data import Noise, Rows
from lmgp.metrics import kl_divergence
from lmgp.neighbours.cells import Cells
from lmgp.neighbours.forest import Forest
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.recipes import Nearest

N_NEIGHBORS, REFERENCE = 100, 1000
# Rows, points along a side of the map, points and pairs of points whose reference is computed.
SIZES, QUICK = (100_000, 1_000, 1_000, 300), (4_000, 200, 50, 20)
ROUGH, SMOOTH = MaternKernel(0.1, 1.0, 0.5), MaternKernel(0.1, 1.0, 2.5)
KERNELS = {"Matérn-1/2": (ROUGH,), "Matérn-1/2 + Matérn-5/2": (ROUGH, SMOOTH)}


def cell_of(kernel, X, points, k):
    """Return a number for the cell of each point."""
    cells, alone = Cells(Forest.of(kernel, Rows(X, np.zeros(len(X))), 0.1), k).group(kernel.points(points))
    numbers = np.empty(len(points), dtype=int)
    for number, cell in enumerate(cells):
        numbers[cell.members] = number
    numbers[alone] = len(cells) + np.arange(len(alone))
    return numbers


def size_of(values):
    """Return the root mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


class Problem:
    """Training rows, the points of a map, and what is expected at some of them."""

    def __init__(self, name, parts, noise_variance, n, side, n_sample, n_pairs):
        rng = np.random.default_rng(1)
        self.name, self.noise_variance, self.side = name, noise_variance, side
        self.sample, self.pairs = slice(n_sample), (slice(n_sample, -n_pairs), slice(-n_pairs, None))
        self.kernel, self.X = sum(parts[1:], start=parts[0]), rng.uniform(size=(n, 2))
        f = sum(drawn(self.X, part, 0.0, seed) for seed, part in enumerate(parts))
        self.y = f + np.sqrt(noise_variance) * rng.standard_normal(n)
        self.axis = (np.arange(side) + 0.5) / side
        points = np.stack(np.meshgrid(self.axis, self.axis), axis=-1).reshape(-1, 2)
        numbers = cell_of(self.kernel, self.X, points, N_NEIGHBORS).reshape(side, side)
        self.border = np.diff(numbers, axis=1) != 0
        left = rng.choice(np.flatnonzero(np.pad(self.border, ((0, 0), (0, 1)))), n_pairs)
        self.picked = np.concatenate((rng.choice(side**2, n_sample, replace=False), left, left + 1))
        rows = Rows(self.X, self.y - self.y.mean())
        by_many = NearestPosterior(self.kernel, rows, Noise(noise_variance), REFERENCE, share=False)
        means, variances = by_many.predict(points[self.picked])
        self.expected = means[:, 0] + self.y.mean(), np.sqrt(variances)

    def measured(self, model):
        """Fit a model, make the map, and return the result."""
        start = process_time()
        fit_s, _ = timed(lambda: model.fit(self.X, self.y))
        fit_processor_s, start = process_time() - start, process_time()
        map_s, found = timed(lambda: predict_grid(model, {"x0": self.axis, "x1": self.axis}))
        map_processor_s = process_time() - start
        maps = [found[name].values[::-1] for name in ("mean", "std")]  # from south to north
        at = [of_map.ravel()[self.picked] for of_map in maps]
        (mean, std), (right_mean, right_std) = ([one[self.sample] for one in both] for both in (at, self.expected))
        variance, right_variance = (one**2 + self.noise_variance for one in (std, right_std))
        result = {
            "kernel": self.name,
            "noise_variance": self.noise_variance,
            "n_rows": len(self.X),
            "n_points": self.side**2,
            "model": type(model).__name__,
            "fit_s": fit_s,
            "fit_processor_s": fit_processor_s,
            "map_s": map_s,
            "map_processor_s": map_processor_s,
            "kl": float(kl_divergence(mean, variance, right_mean, right_variance).mean()),
        }
        if isinstance(model, GPRegressor):
            chosen = model.selection_.chosen
            return result | {"chosen": chosen.method, "size": chosen.n_features, "nominal_s": chosen.seconds}
        nominal = Nearest(N_NEIGHBORS).cost(len(self.X), 2, self.side**2, self.kernel).seconds
        result |= {"size": N_NEIGHBORS, "nominal_s": nominal, "seam": {}, "off": {}}
        for name, of_map, some, right in zip(("mean", "std"), maps, at, self.expected, strict=True):
            steps = np.diff(of_map, axis=1)
            result["seam"][name] = size_of(steps[self.border]) / size_of(steps[~self.border])
            left, after = self.pairs
            step, expected = (values[after] - values[left] for values in (some, right))
            result["off"][name] = size_of(step - expected) / size_of(expected)
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows and points, to see that it works; keeps nothing")
    args = parser.parse_args()
    torch.set_num_threads(2)
    results = []
    for (name, parts), noise_variance in product(KERNELS.items(), (0.01, 0.1)):
        problem = Problem(name, parts, noise_variance, *(QUICK if args.quick else SIZES))
        given = {"kernel": problem.kernel, "noise_variance": noise_variance}
        choosing = {"trend": "constant", "noise": "normal", "tolerance": 1e-4, "n_predict": problem.side**2}
        for model in (
            NearestNeighborsGPRegressor(N_NEIGHBORS, **given),
            GPRegressor(**given, **choosing, random_state=0),
        ):
            results.append(problem.measured(model))
            print(results[-1], flush=True)
    if not args.quick:
        write("maps", {"maps": results})


if __name__ == "__main__":
    main()
