"""The posterior over the weights of a featurized GP: D × D, whatever the number of rows."""

import math
from bisect import bisect_right
from copy import copy
from dataclasses import dataclass
from typing import Self, overload

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from lmgp.arithmetic import ACCELERATOR_BYTES, USUAL, Arithmetic
from lmgp.features.adapter import TransformerFeatures
from lmgp.features.base import KernelMap
from lmgp.features.projection import Projection
from lmgp.features.sparse import as_float
from lmgp.inference.trend import Trend, TrendFit
from lmgp.kernels.base import Kernel
from lmgp.linalg import cholesky, solve_lower, solve_upper
from lmgp.memory import check_memory, chunks
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.statistics import Statistics
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]

# D × D matrices that a model holds at a time: the Gram matrix, A and its factor.
MATRICES = 3


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over rows that involve the columns h of a trend, with the precision ρ of each row relative to the noise.

    Attributes
    ----------
    trend : Trend
        Of which the targets y are the residuals.
    features : Tensor of shape (D, p)
        Σ ρφhᵀ.
    gram : Tensor of shape (p, p)
        Σ ρhhᵀ.
    cross : Tensor of shape (p,)
        Σ ρhy.
    """

    trend: Trend
    features: torch.Tensor
    gram: torch.Tensor
    cross: torch.Tensor


class WeightPosterior:
    """The Gaussian posterior over the weights w of f(x) = φ(x)ᵀw, with prior w ~ N(0, I).

    With A = Σ ρφφᵀ/σ² + I = LLᵀ and β = L⁻¹ Σ ρφ(y − center)/σ², the latent mean at a row is center + vᵀβ and its
    variance ‖v‖², v = L⁻¹φ: a sum of squares, which cannot be negative. Predictions are less the center.

    Parameters
    ----------
    statistics : Statistics
        Sums over the training rows. They are not changed.
    center : float, optional
        What is subtracted from y; the weighted mean of y in the statistics if not given.
    columns : ColumnSums, optional
        Of a trend, with y less the center. The trend is estimated from these rows, unless it is a `TrendFit`.
        Predictions are less the trend.

    Attributes
    ----------
    center : float
    trend : TrendFit or None
    factor : Tensor of shape (D, D)
        L, lower triangular.
    coefficients : Tensor of shape (D,)
        β.
    weights : Tensor of shape (D,)
        The posterior mean of w, L⁻ᵀβ.
    log_marginal_likelihood : float
        log p(y − center) under the featurized model, in nats; of the residuals of the estimated trend.
    surprise : float
        yᵀ(ΦΦᵀ + Σ)⁻¹y/n of the n centred targets: 1 ± √(2/n) where they are as the model expects. Of a trend, its
        residuals.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 2.
    """

    def __init__(self, statistics: Statistics, center: float | None = None, columns: ColumnSums | None = None) -> None:
        noise_variance = statistics.source.noise.variance
        self.center = statistics.mean if center is None else center
        targets = statistics.targets.about(self.center)
        sums = statistics.sums.shifted(statistics.targets.origin - self.center).expand()
        precision = sums.gram / noise_variance
        precision.diagonal().add_(1.0)
        self.factor = cholesky(precision, noise_variance, diagonal_share=1.0)
        self.coefficients = solve_lower(self.factor, sums.cross[:, :1] / noise_variance)[:, 0]
        squares = targets.squares / noise_variance - float(self.coefficients @ self.coefficients)
        self.trend: TrendFit | None = None
        self._of_columns: torch.Tensor | None = None
        if columns is not None:
            squares += self._take_out(columns, noise_variance)
        self.weights = solve_upper(self.factor.T, self.coefficients[:, None])[:, 0]
        log_determinant = 2.0 * float(self.factor.diagonal().log().sum())
        self.surprise = squares / targets.n if targets.n else 0.0
        self.log_marginal_likelihood = -0.5 * (
            targets.n * math.log(2.0 * math.pi * noise_variance) - targets.log_precision + log_determinant + squares
        )

    def _take_out(self, columns: ColumnSums, noise_variance: float) -> float:
        """Estimate a trend and take it out of the targets; return by how much yᵀC⁻¹y changes."""
        whitened = solve_lower(self.factor, columns.features / noise_variance)
        # C⁻¹ = (I − Φ A⁻¹ Φᵀ/σ²)/σ²
        normal = (columns.gram / noise_variance - whitened.T @ whitened).numpy()
        cross = (columns.cross / noise_variance - whitened.T @ self.coefficients).numpy()
        self.trend = fit = columns.trend.estimated(normal, cross)
        self.coefficients -= whitened @ torch.from_numpy(fit.change)
        self._of_columns = solve_upper(self.factor.T, whitened)
        return float(fit.change @ (normal @ fit.change - 2.0 * cross))

    def solve(self, right: torch.Tensor) -> torch.Tensor:
        """Return A⁻¹ times right sides of shape (D, t)."""
        return solve_upper(self.factor.T, solve_lower(self.factor, right))

    def with_sums(
        self, cross: torch.Tensor, squares: float, noise_variance: float, n: float, trend: TrendFit | None = None
    ) -> Self:
        """Return the posterior of another target of the same rows; the factor is the same.

        Parameters
        ----------
        cross : Tensor of shape (D, 1)
            Σ ρφy.
        squares : float
            Σ ρy².
        noise_variance : float
        n : float
            The number of rows, each times its weight.
        trend : TrendFit, optional
            Of which y are the residuals; its columns are those of this posterior's.

        Returns
        -------
        WeightPosterior
            With the center of this one.
        """
        other = copy(self)
        other.trend = trend
        whitened = solve_lower(self.factor, cross / noise_variance)
        other.coefficients = whitened[:, 0]
        other.weights = solve_upper(self.factor.T, whitened)[:, 0]
        explained = squares / noise_variance - float(other.coefficients @ other.coefficients)
        other.log_marginal_likelihood += 0.5 * (n * self.surprise - explained)
        other.surprise = explained / n
        return other

    @property
    def n_bytes(self) -> int:
        """The memory that this posterior holds, in bytes."""
        own = self.factor.nbytes + 2 * self.coefficients.nbytes
        return own if self._of_columns is None else own + self._of_columns.nbytes

    def whiten(self, features: torch.Tensor) -> torch.Tensor:
        """Return v = L⁻¹φ of each row, as columns of shape (D, n), for features of shape (n, D)."""
        return solve_lower(self.factor, features.T)

    def predict(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the latent mean and variance, each of shape (n,), for features of shape (n, D)."""
        whitened = self.whiten(features)
        return self.coefficients @ whitened, whitened.square().sum(dim=0)

    def predict_mean(self, features: torch.Tensor) -> torch.Tensor:
        """Return the latent mean alone, shape (n,): O(D) a row in place of O(D²)."""
        return features @ self.weights

    def trend_variance(self, X: Floats, features: torch.Tensor) -> Floats | float:
        """Return what the uncertainty of the trend adds to the variance of rows with these features, shape (n,)."""
        if self.trend is None or self._of_columns is None:
            return 0.0
        return self.trend.variance(X, (features @ self._of_columns).numpy())

    def columns_left(self, X: Floats, features: torch.Tensor) -> Floats | None:
        """Return what the process leaves of the columns of the trend, shape (n, p); None of no trend."""
        if self.trend is None or self._of_columns is None:
            return None
        return self.trend.columns(X) - (features @ self._of_columns).numpy()


def prior_variance(features: KernelMap | None, kernel: Kernel, X: Floats, centre: Floats) -> Floats:
    """Return the prior variance of each row: the kernel's, or ‖φ‖² for a transformer that is no map of the kernel.

    Parameters
    ----------
    features : KernelMap or None
        Fitted.
    kernel : Kernel
    X : ndarray of shape (n, d)
    centre : ndarray of shape (d,)
        Of the map.

    Returns
    -------
    ndarray of shape (n,)
    """
    if isinstance(features, TransformerFeatures):
        return features.evaluate(as_tensor(X - centre)).square().sum(dim=1).numpy()
    return kernel.diagonal(X)


def check_model(features: KernelMap, n_rows: int, n_inputs: int, max_memory_gib: float | None = None) -> None:
    """Refuse a featurized model whose matrices do not fit, before its map is made.

    Parameters
    ----------
    features : KernelMap
        Not fitted.
    n_rows, n_inputs : int
        n and d.
    max_memory_gib : float, optional
        The machine's memory if not given.

    Raises
    ------
    MemoryLimitError
        If three D × D matrices and the parameters of the map take more.
    """
    needed, n_columns = _needed(features, n_rows, n_inputs)

    def advice(limit: float) -> str:
        most = 0
        if "n_features" in features.get_params(deep=False):
            sizes = range(1, min(features.n_features, 10**12))
            smaller = clone(features)
            most = bisect_right(
                sizes, limit, key=lambda size: _needed(smaller.set_params(n_features=size), n_rows, n_inputs)[0]
            )
        return f"Use at most {most or math.isqrt(int(limit / (8 * MATRICES))):,} features, or a higher limit."

    check_memory(needed, f"The matrices of a model with {n_columns:,} columns", advice, max_memory_gib)


def fitted_global_map(features: KernelMap, rows: Rows, max_memory_gib: float | None = None) -> tuple[KernelMap, Floats]:
    """Fit a map of a global model; return it and its centre, shape (d,).

    Raises
    ------
    MemoryLimitError
        If the matrices of its columns take more; the map has not been made then.
    """
    check_model(features, len(rows.y), rows.X.shape[1], max_memory_gib)
    centre = features.centre_of(rows.X, rows.weights)
    features.fit_around(rows.X, centre[None, :])
    return features, centre


def _needed(features: KernelMap, n_rows: int, n_inputs: int) -> tuple[float, int]:
    """Return the bytes of a model, and its number of columns."""
    work = features.work(n_inputs)
    # Of n rows, no more than n can be landmarks.
    n_columns = min(work.columns, n_rows) if work.solved else work.columns
    return 8.0 * MATRICES * as_float(n_columns**2) + features.n_bytes(n_rows, n_inputs), n_columns


def accumulate(
    features: KernelMap, rows: Rows, centre: Floats, noise: Noise, origin: float | None = None,
    arithmetic: Arithmetic = USUAL,
) -> Statistics:  # fmt: skip
    """Sum the statistics of X − centre over the rows, chunk by chunk.

    Parameters
    ----------
    features : KernelMap
        Fitted.
    rows : Rows
        With y as it is.
    centre : ndarray of shape (d,)
        Of the map.
    noise : Noise
    origin : float, optional
        Of y in the sums: any number near its mean, which is taken if not given. It changes nothing but the rounding.
    arithmetic : Arithmetic

    Returns
    -------
    Statistics
    """
    source = features.source(noise, centre)
    origin = (rows.mean if len(rows.y) else 0.0) if origin is None else origin
    parts = list(chunks(len(rows.y), features.row_size, ACCELERATOR_BYTES if arithmetic.accelerated else None))
    # One sum a thread, over every n_sums-th chunk: added in a fixed order, so that the result is always the same.
    n_sums = 1 if arithmetic.accelerated else max(1, min(len(parts), torch.get_num_threads()))

    def sum_chunks(first: int) -> Statistics:
        taken = (rows.take(part) for part in parts[first::n_sums])
        centred = (Rows(chunk.X - centre, chunk.y, chunk.weights, chunk.noise_variances) for chunk in taken)
        return features.summed(centred, source, origin, arithmetic)

    statistics, *others = parallel_map(sum_chunks, range(n_sums))
    for other in others:
        statistics.update(other)
    return statistics


def accumulate_columns(features: KernelMap, rows: Rows, centre: Floats, noise: Noise, trend: Trend) -> ColumnSums:
    """Sum what a trend adds to the statistics of X − centre, chunk by chunk.

    Parameters
    ----------
    features : KernelMap
        Fitted.
    rows : Rows
        With the residuals of the trend for y.
    centre : ndarray of shape (d,)
        Of the map.
    noise : Noise
    trend : Trend

    Returns
    -------
    ColumnSums
    """
    shapes = (features.n_features_out_, trend.n_columns), (trend.n_columns, trend.n_columns), (trend.n_columns,)
    totals = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]

    def sum_chunk(part: slice) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        chunk = rows.take(part)
        X, h, y = as_tensor(chunk.X - centre), torch.from_numpy(trend.columns(chunk.X)), as_tensor(chunk.y)
        mapped = features.evaluate(X)
        missing = features.missing_variance(X, mapped) if noise.counts_missing else None
        weighted = h * (noise.variance / noise.of_weighted_rows(chunk, missing))[:, None]
        return mapped.T @ weighted, h.T @ weighted, weighted.T @ y

    for sums in parallel_map(sum_chunk, list(chunks(len(rows.y), features.n_features_out_))):
        for total, one in zip(totals, sums, strict=True):
            total += one
    return ColumnSums(trend, *totals)


@overload
def evaluate(
    posterior: WeightPosterior, features: KernelMap, X: Floats, centre: Floats, noise: Noise
) -> tuple[Floats, Floats]: ...
@overload
def evaluate(
    posterior: WeightPosterior, features: KernelMap, X: Floats, centre: Floats, noise: Noise, variance: bool,
    projection: Projection | None = None, weights: torch.Tensor | None = None,
) -> tuple[Floats, Floats | None]: ...  # fmt: skip
def evaluate(
    posterior: WeightPosterior, features: KernelMap, X: Floats, centre: Floats, noise: Noise, variance: bool = True,
    projection: Projection | None = None, weights: torch.Tensor | None = None,
) -> tuple[Floats, Floats | None]:  # fmt: skip
    """Predict the latent function at rows with one model around a centre.

    Parameters
    ----------
    posterior : WeightPosterior
    features : KernelMap
        Fitted.
    X : ndarray of shape (n, d)
    centre : ndarray of shape (d,)
        Of the map.
    noise : Noise
        Says whether the variance that the map leaves out is part of the prediction's.
    variance : bool, default=True
        Whether to compute the variance as well: O(D²) a row, where the mean takes O(D).
    projection : Projection, optional
        Of the map, where it is made already.
    weights : Tensor of shape (D, t), optional
        Of several targets, in place of those of the posterior.

    Returns
    -------
    mean : ndarray of shape (n,) or (n, t)
        Less the center of y.
    variance : ndarray of shape (n,) or None
    """
    if not variance and weights is None:
        project = Projection(features) if projection is None else projection
        return project(as_tensor(X - centre), posterior.weights).numpy(), None
    means, variances = np.empty((len(X), *(() if weights is None else weights.shape[1:]))), np.empty(len(X))
    for part in chunks(len(X), features.n_features_out_):
        rows = as_tensor(X[part] - centre)
        columns = features.evaluate(rows)
        if not variance and weights is not None:
            means[part] = (columns @ weights).numpy()
            continue
        mean, own = posterior.predict(columns)
        mean = mean if weights is None else columns @ weights
        missing = features.missing_variance(rows, columns) if noise.predicts_missing else None
        means[part], variances[part] = mean.numpy(), noise.predicted(own, missing).numpy()
        if posterior.trend is not None:
            variances[part] += posterior.trend_variance(X[part], columns)
    return means, variances if variance else None
