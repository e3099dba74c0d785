"""What models cost on this machine: a few measured rates."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from lmgp.features.base import KernelMap
from lmgp.features.fourier import RandomFourierFeatures
from lmgp.features.taylor import TaylorFeatures
from lmgp.inference.function_space import RowPosterior
from lmgp.inference.nearest import NearestPosterior
from lmgp.inference.weight_space import WeightPosterior, accumulate, evaluate
from lmgp.kernels.stationary import GaussianKernel
from lmgp.noise import Noise
from lmgp.validation import Rows


@dataclass(frozen=True)
class Sampling:
    """The sizes at which rates are measured.

    Attributes
    ----------
    columns : tuple of int
        Of Fourier maps.
    degrees : tuple of int
        Of Taylor maps of two inputs.
    neighbours, rows : tuple of int
        Of exact predictions from the nearest rows, and from all rows.
    repeats : int
        The shortest of this number of measurements counts.
    """

    columns: tuple[int, ...] = (32, 128, 512)
    degrees: tuple[int, ...] = (2, 8, 24)
    neighbours: tuple[int, ...] = (16, 64, 192)
    rows: tuple[int, ...] = (64, 256, 768)
    repeats: int = 3


SAMPLING = Sampling()

# The rates of this process, by the number of threads.
MEASURED: dict[int, "Costs"] = {}


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
        The least that a model takes, however few its rows and columns.
    factorise : Rate
        The posterior of D columns.
    product_row, moment_row : Rate
        Adding a training row to the sums of a model: to the products of D columns, or to m moments.
    predict_row : Rate
        Predicting a row from D columns.
    exact, exact_row : Rate
        The exact posterior of n rows, and predicting a row from it.
    neighbours_row : Rate
        Predicting a row from its k nearest rows.
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
    """Return the rates; they are measured once a process for each number of threads."""
    n_threads = torch.get_num_threads()
    if n_threads not in MEASURED:
        MEASURED[n_threads] = measure(n_threads)
    return MEASURED[n_threads]


def measure(n_threads: int) -> Costs:
    """Measure the rates in one thread, and divide them by the number of threads.

    Models consist of independent tasks, each in one thread.
    """
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with threadpool_limits(1, user_api="blas"):
            return _Stopwatch(n_threads).costs()
    finally:
        torch.set_num_threads(before)


class _Stopwatch:
    """Made rows, and the seconds of what is done with them."""

    def __init__(self, n_threads: int) -> None:
        rng = np.random.default_rng(0)
        self.X, self.y = 2.0 * rng.standard_normal((2048, 8)), rng.standard_normal(2048)
        self.kernel, self.noise = GaussianKernel(), Noise(1.0, "fitc")
        self.n_threads = n_threads

    def seconds(self, action: Callable[[], object]) -> float:
        times = []
        for _ in range(SAMPLING.repeats):
            start = perf_counter()
            action()
            times.append(perf_counter() - start)
        return min(times) / self.n_threads

    def rate(self, sizes: Sequence[float], actions: Sequence[Callable[[], object]], n_rows: int = 1) -> Rate:
        """Measure one action for each size, and divide by the number of rows that it is for."""
        return Rate(tuple(sizes), tuple(self.seconds(action) / n_rows for action in actions))

    def rows(self, n_rows: int, n_inputs: int = 8) -> Rows:
        return Rows(self.X[:n_rows, :n_inputs], self.y[:n_rows])

    def summing(self, features: KernelMap, n_rows: int) -> Callable[[], object]:
        rows = self.rows(n_rows, features.n_features_in_)
        return lambda: accumulate(features, rows, rows.X[0], self.noise, origin=0.0)

    def costs(self) -> Costs:
        fourier = [RandomFourierFeatures(size, random_state=0).fit(self.X) for size in SAMPLING.columns]
        taylor = [TaylorFeatures(math.comb(degree + 2, 2)).fit(self.X[:, :2]) for degree in SAMPLING.degrees]
        sums = [accumulate(features, self.rows(2048), self.X[0], self.noise, origin=0.0) for features in fourier]
        factorise = [partial(WeightPosterior, one, center=0.0) for one in sums]
        predict = [
            partial(evaluate, posterior(), features, self.X[:256], self.X[0], self.noise)
            for posterior, features in zip(factorise, fourier, strict=True)
        ]
        exact = [partial(RowPosterior, self.kernel, self.rows(size), self.noise) for size in SAMPLING.rows]
        predict_exact = [partial(posterior().predict, self.X[:256]) for posterior in exact]
        near = self.rows(2048, 2)
        neighbours = [
            partial(NearestPosterior(self.kernel, near, self.noise, k).predict, near.X[:32])
            for k in SAMPLING.neighbours
        ]
        moments = [(2 * degree + 1) ** 2 for degree in SAMPLING.degrees]
        return Costs(
            model=self.seconds(self.summing(taylor[0], 2)) + self.seconds(factorise[0]),
            factorise=self.rate(SAMPLING.columns, factorise),
            product_row=self.rate(SAMPLING.columns, [self.summing(features, 1024) for features in fourier], 1024),
            moment_row=self.rate(moments, [self.summing(features, 2048) for features in taylor], 2048),
            predict_row=self.rate(SAMPLING.columns, predict, 256),
            exact=self.rate(SAMPLING.rows, exact),
            exact_row=self.rate(SAMPLING.rows, predict_exact, 256),
            neighbours_row=self.rate(SAMPLING.neighbours, neighbours, 32),
        )
