"""Independent errors from dependent rows: a trend is estimated from more rows than a matrix of them fits."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.inference.function_space import BATCH_BYTES, Conditional
from lmgp.inference.trend import Trend, TrendFit
from lmgp.kernels.base import Kernel, require
from lmgp.memory import chunks
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """How many rows estimate a trend.

    Attributes
    ----------
    together : int
        The first rows, whose covariance is factorised as a whole.
    neighbors : int
        Each later row is conditioned on the nearest of the rows before it.
    rows : int
        The largest number in all. More rows of the same extent say little more about a trend: what the process adds to
        it is the same for all of them.
    """

    together: int = 1000
    neighbors: int = 30
    rows: int = 20_000


SIZES = Sizes()


def estimate_trend(
    trend: Trend, kernel: Kernel, rows: Rows, noise: Noise, rng: np.random.Generator, sizes: Sizes = SIZES
) -> TrendFit:
    """Estimate a trend by generalised least squares, with the kernel itself.

    Up to `sizes.together` rows give the exact estimate. Of more rows, a random sample of at most `sizes.rows` in random
    order: the first `sizes.together` exactly, and each one after them given its nearest rows among the first half of
    those before it or more, so that errors are nearly independent of each other.

    Parameters
    ----------
    trend : Trend
        Of which y are the residuals.
    kernel : Kernel
        With a metric, where there are more than `sizes.together` rows.
    rows : Rows
    noise : Noise
    rng : numpy.random.Generator
        Draws the order, and the sample.
    sizes : Sizes, optional

    Returns
    -------
    TrendFit

    References
    ----------
    A. V. Vecchia, *Estimation and Model Identification for Continuous Spatial Processes*, JRSS B 50, 1988.
    M. Katzfuss and J. Guinness, *A General Framework for Vecchia Approximations of Gaussian Processes*, Statistical
    Science 36, 2021, section 3.2 (the order).
    """
    if isinstance(trend, TrendFit):
        return trend
    taken = rows.take(rng.permutation(len(rows.y))[: sizes.rows])
    errors = whiten(kernel, taken, noise, np.column_stack((taken.y, trend.columns(taken.X))), sizes)
    normal = errors.T @ errors
    return trend.estimated(normal[1:, 1:], normal[1:, 0])


def whiten(kernel: Kernel, rows: Rows, noise: Noise, targets: Floats, sizes: Sizes = SIZES) -> Floats:
    """Make targets of rows independent and of variance 1, in the order of the rows.

    Parameters
    ----------
    kernel : Kernel
    rows : Rows
        In an order without a meaning. Their y are not used.
    noise : Noise
    targets : ndarray of shape (n, k)
        Columns that are each whitened in the same way.
    sizes : Sizes, optional

    Returns
    -------
    ndarray of shape (n, k)
        About L⁻¹ targets, of the covariance LLᵀ of the rows, noise included; exactly up to `sizes.together` rows.
    """
    n, first = len(rows.y), min(len(rows.y), sizes.together)
    X, values, own_noise = as_tensor(rows.X), as_tensor(targets), noise.of_weighted_rows(rows)
    errors = np.empty(targets.shape)
    exact = Conditional(kernel, X[:first], values[:first, 0], own_noise[:first], values[:first])
    if exact.whitened_columns is not None:
        errors[:first] = exact.whitened_columns.numpy()
    if first == n:
        return errors
    require(kernel, "metric", "A trend that is estimated from the nearest rows")
    scaled, prior = kernel.scale(rows.X), as_tensor(kernel.diagonal(rows.X))

    def whiten_batch(part: slice) -> None:
        near = torch.from_numpy(nearest[part.start - start : part.stop - start])
        given = Conditional(kernel, X[near], values[near, 0], own_noise[near], values[near])
        _, variance, means = given.predict(X[part][:, None], prior[part][:, None])
        left = values[part] if means is None else values[part] - means[:, 0]
        errors[part] = (left / (variance + own_noise[part][:, None]).sqrt()).numpy()

    start = first
    k = np.arange(1, min(sizes.neighbors, first) + 1)
    while start < n:
        stop = min(2 * start, n)
        _, nearest = KDTree(scaled[:start]).query(scaled[start:stop], k=k, workers=torch.get_num_threads())
        parts = chunks(stop - start, sizes.neighbors**2, BATCH_BYTES)
        parallel_map(whiten_batch, [slice(start + part.start, start + part.stop) for part in parts])
        start = stop
    return errors
