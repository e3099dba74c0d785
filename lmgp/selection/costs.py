"""What models cost on this machine: a few measured rates."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import kmeans_plusplus
from threadpoolctl import threadpool_limits

from lmgp.features.base import KernelMap
from lmgp.features.fourier import RandomFourierFeatures
from lmgp.features.taylor import TaylorFeatures
from lmgp.inference.nearest import NearestPosterior
from lmgp.inference.weight_space import WeightPosterior, accumulate, evaluate
from lmgp.kernels.base import Kernel
from lmgp.kernels.stationary import GaussianKernel
from lmgp.linalg import cholesky, solve_lower
from lmgp.locality.cells import sharing_pays
from lmgp.noise import Noise
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sampling:
    """The sizes at which rates are measured.

    Attributes
    ----------
    columns : tuple of int
        Of Fourier maps, and of the systems that rows solve.
    degrees : tuple of int
        Of Taylor maps of two inputs.
    neighbours : tuple of int
        Of predictions from the nearest rows.
    alone, together : int
        The number of rows that are predicted, far from each other and as dense as the training rows.
    rows : tuple of int
        Of exact models.
    entries : int
        A kernel is evaluated between this number of rows.
    drawn, landmarks : int
        This number of landmarks is drawn from this number of rows.
    repeats : int
        The shortest of this number of measurements counts.
    """

    columns: tuple[int, ...] = (32, 128, 512)
    degrees: tuple[int, ...] = (2, 8, 24)
    neighbours: tuple[int, ...] = (32, 128, 256)
    alone: int = 16
    together: int = 256
    rows: tuple[int, ...] = (64, 256, 1024)
    entries: int = 512
    drawn: int = 10_000
    landmarks: int = 32
    repeats: int = 2


SAMPLING = Sampling()

# The rates of this process, by the number of threads; those of a kernel also by its form and the number of columns.
MEASURED: dict[Any, Any] = {}


@dataclass(frozen=True)
class Rate:
    """Seconds as a function of a size: a power law between the sizes that were measured, and beyond the largest.

    Attributes
    ----------
    sizes, seconds : tuple of float
    power : float, default=0
        Beyond the largest size, the seconds grow with this power at least: small sizes grow more slowly.
    """

    sizes: tuple[float, ...]
    seconds: tuple[float, ...]
    power: float = 0.0

    def __call__(self, size: float) -> float:
        """Return the seconds for a size; below the smallest that was measured, those of the smallest."""
        x, y = np.log(self.sizes), np.log(self.seconds)
        at = math.log(max(size, 1.0))
        slope = max(self.power, (y[-1] - y[-2]) / (x[-1] - x[-2]))
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
    landmark_row : float
        The distance between a row and a row that may become a landmark.
    exact, exact_row : Rate
        Factorising the covariance of n rows, and solving for one more.
    """

    model: float
    factorise: Rate
    product_row: Rate
    moment_row: Rate
    predict_row: Rate
    landmark_row: float
    exact: Rate
    exact_row: Rate


@dataclass(frozen=True)
class KernelCosts:
    """Seconds of one kernel on rows of d columns, with all of torch's threads at work.

    Attributes
    ----------
    entry : float
        One entry of a covariance matrix.
    neighbours_row : Rate
        Predicting a row from its k nearest rows.
    cell_row, shared_row : Rate
        The same where the rows of a cell share the rows around it: of one that is alone in its cell, and of rows as
        dense as the training rows. See `lmgp.locality.cells.sharing_pays`; where it does not, `neighbours_row`.
    """

    entry: float
    neighbours_row: Rate
    cell_row: Rate
    shared_row: Rate


def weighed(n_landmarks: float) -> float:
    """Return the number of rows that k-means++ weighs for a number of landmarks: 2 + ln m for each."""
    return n_landmarks * (2.0 + math.log(n_landmarks))


def measured_costs() -> Costs:
    """Return the rates; they are measured once a process for each number of threads."""
    n_threads = torch.get_num_threads()
    if n_threads not in MEASURED:
        MEASURED[n_threads] = measure(n_threads)
    costs: Costs = MEASURED[n_threads]
    return costs


def measured_kernel_costs(kernel: Kernel, n_inputs: int) -> KernelCosts:
    """Return the rates of a kernel; they are measured once a process for each form, and number of columns and threads.

    Parameters
    ----------
    kernel : Kernel
        With a metric. Kernels of one form differ in the values of their parameters only.
    n_inputs : int
        d.
    """
    parts = sorted(kernel.get_params(deep=True).items())
    form = tuple((name, type(value).__name__, np.size(value)) for name, value in parts)
    key = torch.get_num_threads(), type(kernel).__name__, form, n_inputs
    if key not in MEASURED:
        MEASURED[key] = measure_kernel(kernel, n_inputs, key[0])
    costs: KernelCosts = MEASURED[key]
    return costs


def measure(n_threads: int) -> Costs:
    """Measure the rates in one thread, and divide them by the number of threads.

    Models consist of independent tasks, each in one thread.
    """
    return _in_one_thread(lambda: _Stopwatch(n_threads).costs())


def measure_kernel(kernel: Kernel, n_inputs: int, n_threads: int) -> KernelCosts:
    """Measure the rates of a kernel likewise."""
    return _in_one_thread(lambda: _Stopwatch(n_threads).kernel_costs(kernel, n_inputs))


def _in_one_thread(action: Callable[[], Any]) -> Any:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        with threadpool_limits(1, user_api="blas"):
            return action()
    finally:
        torch.set_num_threads(before)


class _Stopwatch:
    """Made rows, and the seconds of what is done with them."""

    def __init__(self, n_threads: int) -> None:
        self.rng = np.random.default_rng(0)
        self.X, self.y = 2.0 * self.rng.standard_normal((2048, 8)), self.rng.standard_normal(2048)
        self.noise = Noise(1.0, "fitc")
        self.n_threads = n_threads

    def seconds(self, action: Callable[[], object]) -> float:
        times = []
        for _ in range(SAMPLING.repeats):
            start = process_time()  # of this process: other programs do not count
            action()
            times.append(process_time() - start)
        return min(times) / self.n_threads

    def rate(
        self, sizes: Sequence[float], actions: Sequence[Callable[[], object]], n_rows: int = 1, power: float = 0.0
    ) -> Rate:
        """Measure one action for each size, and divide by the number of rows that it is for."""
        return Rate(tuple(sizes), tuple(self.seconds(action) / n_rows for action in actions), power)

    def rows(self, n_rows: int, n_inputs: int = 8) -> Rows:
        return Rows(self.X[:n_rows, :n_inputs], self.y[:n_rows])

    def summing(self, features: KernelMap, n_rows: int) -> Callable[[], object]:
        rows = self.rows(n_rows, features.n_features_in_)
        return lambda: accumulate(features, rows, rows.X[0], self.noise, origin=0.0)

    def drawing(self) -> Callable[[], object]:
        rows = self.rng.standard_normal((SAMPLING.drawn, 8))
        return lambda: kmeans_plusplus(rows, SAMPLING.landmarks, random_state=0)

    def costs(self) -> Costs:
        fourier = [RandomFourierFeatures(size, random_state=0).fit(self.X) for size in SAMPLING.columns]
        taylor = [TaylorFeatures(math.comb(degree + 2, 2)).fit(self.X[:, :2]) for degree in SAMPLING.degrees]
        sums = [accumulate(features, self.rows(2048), self.X[0], self.noise, origin=0.0) for features in fourier]
        factorise = [partial(WeightPosterior, one, center=0.0) for one in sums]
        predict = [
            partial(evaluate, posterior(), features, self.X[:256], self.X[0], self.noise)
            for posterior, features in zip(factorise, fourier, strict=True)
        ]
        covariances = [GaussianKernel()(self.X[:size]) + np.eye(size) for size in SAMPLING.rows]
        exact = [partial(cholesky, as_tensor(covariance), 1.0) for covariance in covariances]
        right = as_tensor(self.rng.standard_normal((SAMPLING.rows[-1], SAMPLING.columns[0])))
        solve = [
            partial(solve_lower, factor(), right[:size]) for size, factor in zip(SAMPLING.rows, exact, strict=True)
        ]
        moments = [(2 * degree + 1) ** 2 for degree in SAMPLING.degrees]
        return Costs(
            model=self.seconds(self.summing(taylor[0], 2)) + self.seconds(factorise[0]),
            factorise=self.rate(SAMPLING.columns, factorise, power=3.0),
            product_row=self.rate(SAMPLING.columns, [self.summing(one, 1024) for one in fourier], 1024, 2.0),
            moment_row=self.rate(moments, [self.summing(features, 2048) for features in taylor], 2048),
            predict_row=self.rate(SAMPLING.columns, predict, 256, 2.0),
            landmark_row=self.seconds(self.drawing()) * self.n_threads / (SAMPLING.drawn * weighed(SAMPLING.landmarks)),
            exact=self.rate(SAMPLING.rows, exact, power=3.0),
            exact_row=self.rate(SAMPLING.rows, solve, right.shape[1], 2.0),
        )

    def kernel_costs(self, kernel: Kernel, n_inputs: int) -> KernelCosts:
        # In lengthscales, these rows lie as those of the other measurements do.
        scaled = 2.0 * self.rng.standard_normal((2048, n_inputs))
        rows = Rows(scaled * kernel.metric(n_inputs), self.y)
        noise = Noise(float(np.mean(kernel.diagonal(rows.X[:1]))))
        some = as_tensor(rows.X[: SAMPLING.entries])
        central = rows.X[np.argsort(np.square(scaled).sum(axis=1))[: SAMPLING.together]]
        shares = sharing_pays(n_inputs, SAMPLING.neighbours[-1])

        def near(X: Floats, share: bool) -> Rate:
            predict = [
                partial(NearestPosterior(kernel, rows, noise, k, share=share).predict, X) for k in SAMPLING.neighbours
            ]
            return self.rate(SAMPLING.neighbours, predict, len(X), 2.0)

        few = rows.X[: SAMPLING.alone]
        apart = near(few, False)
        return KernelCosts(
            entry=self.seconds(lambda: kernel.evaluate(some, some)) / SAMPLING.entries**2,
            neighbours_row=apart,
            cell_row=near(few, True) if shares else apart,
            shared_row=near(central, True) if shares else apart,
        )
