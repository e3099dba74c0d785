"""What models cost on this machine: a few measured rates."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter

import numpy as np
import torch
from scipy.spatial import KDTree
from threadpoolctl import threadpool_limits

from lmgp.features.base import KernelMap
from lmgp.features.fourier import RandomFourierFeatures
from lmgp.features.taylor import TaylorFeatures
from lmgp.inference.function_space import ExactPosterior, predict_from_neighbours
from lmgp.inference.weight_space import WeightPosterior, accumulate, evaluate
from lmgp.kernels.stationary import GaussianKernel
from lmgp.noise import Noise
from lmgp.validation import Rows

# Sizes at which rates are measured.
COLUMNS = (32, 128, 512)
DEGREES = (2, 8, 24)  # of Taylor maps of two inputs
NEIGHBOURS = (16, 64, 192)
ROWS = (64, 256, 768)
REPEATS = 3


@dataclass(frozen=True)
class Rate:
    """Seconds as a function of a size: a power law between the sizes that were measured, and beyond the largest."""

    sizes: tuple[float, ...]
    seconds: tuple[float, ...]

    def __call__(self, size: float) -> float:
        """Return the seconds for a size; below the smallest that was measured, those of the smallest."""
        x, y = np.log(self.sizes), np.log(self.seconds)
        at = math.log(max(size, 1.0))
        slope = max(0.0, (y[-1] - y[-2]) / (x[-1] - x[-2]))
        return math.exp(float(np.interp(at, x, y)) + slope * max(0.0, at - x[-1]))


@dataclass(frozen=True)
class Costs:
    """Seconds with all of torch's threads at work.

    Attributes
    ----------
    model : float
        What any model of few rows and columns takes.
    factorise : Rate
        The posterior of D columns.
    product_row, moment_row : Rate
        A training row in the sums of a model: of products of D columns; or of so many moments.
    predict_row : Rate
        A row predicted from D columns.
    exact, exact_row : Rate
        The exact posterior of n rows, and a row predicted from it.
    neighbours_row : Rate
        A row predicted from its k nearest rows.
    """

    model: float
    factorise: Rate
    product_row: Rate
    moment_row: Rate
    predict_row: Rate
    exact: Rate
    exact_row: Rate
    neighbours_row: Rate


def measured_costs() -> Costs:
    """Measure the rates, once for each number of threads; they stay the same for the rest of the process."""
    return _measure(torch.get_num_threads())


@lru_cache
def _measure(n_threads: int) -> Costs:
    rng = np.random.default_rng(0)
    noise = Noise(1.0, "dtc")
    kernel = GaussianKernel()
    X, y = 2.0 * rng.standard_normal((2048, 8)), rng.standard_normal(2048)

    def seconds(action: Callable[[], object]) -> float:
        times = []
        for _ in range(REPEATS):
            start = perf_counter()
            action()
            times.append(perf_counter() - start)
        # Independent tasks, each in one thread, are what models consist of.
        return min(times) / n_threads

    def rate(sizes: Sequence[float], measure: Callable[[int], float]) -> Rate:
        return Rate(tuple(sizes), tuple(measure(index) for index in range(len(sizes))))

    def summing(features: KernelMap, n_rows: int) -> float:
        rows = Rows(X[:n_rows, : features.n_features_in_], y[:n_rows])
        return seconds(lambda: accumulate(features, rows, rows.X[0], Noise(1.0, "fitc")))

    try:
        torch.set_num_threads(1)
        with threadpool_limits(1, user_api="blas"):
            fourier = [RandomFourierFeatures(size, random_state=0).fit(X) for size in COLUMNS]
            taylor = [TaylorFeatures(math.comb(degree + 2, 2)).fit(X[:, :2]) for degree in DEGREES]
            sums = [accumulate(features, Rows(X, y), X[0], noise) for features in fourier]
            posteriors = [WeightPosterior(statistics) for statistics in sums]
            exact = [ExactPosterior(kernel, Rows(X[:size], y[:size]), 1.0) for size in ROWS]
            tree = KDTree(X[:, :2])
            return Costs(
                model=summing(taylor[0], 2) + seconds(lambda: WeightPosterior(sums[0])),
                factorise=rate(COLUMNS, lambda i: seconds(lambda: WeightPosterior(sums[i]))),
                product_row=rate(COLUMNS, lambda i: summing(fourier[i], 1024) / 1024),
                moment_row=rate(
                    [(2 * degree + 1) ** 2 for degree in DEGREES], lambda i: summing(taylor[i], 2048) / 2048
                ),
                predict_row=rate(
                    COLUMNS,
                    lambda i: (
                        seconds(lambda: evaluate(posteriors[i], fourier[i], X[:256], X[0], Noise(1.0, "dtc"))) / 256
                    ),
                ),
                exact=rate(
                    ROWS, lambda i: seconds(lambda: ExactPosterior(kernel, Rows(X[: ROWS[i]], y[: ROWS[i]]), 1.0))
                ),
                exact_row=rate(ROWS, lambda i: seconds(lambda: exact[i].predict(X[:256])) / 256),
                neighbours_row=rate(
                    NEIGHBOURS,
                    lambda i: (
                        seconds(
                            lambda: predict_from_neighbours(
                                kernel, Rows(X[:, :2], y), 1.0, tree, X[:32, :2], NEIGHBOURS[i]
                            )
                        )
                        / 32
                    ),
                ),
            )
    finally:
        torch.set_num_threads(n_threads)
