"""The variance beside a global mean: of the rows or of local models. No targets pass through it."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.special import gammainc

from lmgp.features.taylor import TaylorFeatures
from lmgp.inference.cache import Cache
from lmgp.inference.function_space import RowPosterior
from lmgp.inference.local import LocalPosterior, fitted_map
from lmgp.inference.nearest import NearestPosterior
from lmgp.kernels.base import Kernel
from lmgp.locality.gathering import gathered
from lmgp.locality.placement import cover
from lmgp.metrics import kl_divergence
from lmgp.noise import Noise
from lmgp.validation import Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """Which model predicts the variance.

    Attributes
    ----------
    few : int
        Up to this number of rows, or of modes, the variance is exact.
    thresholds : tuple of float
        The radius around centroids of localized Taylor features, in lengthscales, for one, two and three columns.
    neighbors : tuple of int
        Of the nearest rows, the first of these numbers whose variances the next one leaves as they are.
    taylor : float
        Taylor features may leave out this multiple of the root of the tolerance: not all of it is error.
    sides, most : tuple of float, and float
        Rows are gathered in cells of the first number, for one, two and three columns, times ⁴√(tolerance · noise
        variance/prior variance), of the second at most, in lengthscales: that changes the variance by about the
        tolerance at most.
    settled : float
        Numbers of rows are enough where the next one changes variances by less than this share of the tolerance.
    beyond : int
        The number of nearest rows for what is far from all centroids.
    n_probes : int
        The number of points at which these are compared.
    outward : float
        How far some of them lie beyond rows at the edge, in distances from the middle of all.
    """

    few: int = 2048
    thresholds: tuple[float, ...] = (2.0, 2.0, 1.0)
    neighbors: tuple[int, ...] = (64, 128, 256, 512)
    taylor: float = 3.0
    sides: tuple[float, ...] = (10.0, 8.0, 6.0)
    most: float = 0.5
    settled: float = 0.3
    beyond: int = 256
    n_probes: int = 64
    outward: float = 0.2


PLAN = Plan()


class RowVariance:
    """The exact variance, by the factor of all rows. It is made for the first prediction, and for that of a copy.

    Parameters
    ----------
    kernel : Kernel
    rows : Rows
    noise : Noise
    """

    def __init__(self, kernel: Kernel, rows: Rows, noise: Noise) -> None:
        self._of = kernel, rows, noise
        self._solved: Cache[RowPosterior] = Cache(np.inf)

    def __str__(self) -> str:
        return "exact, from all rows"

    def variance(self, X: Floats) -> Floats:
        """Return the variance of each row, shape (m,)."""
        return _variance(self._solved.get("rows", lambda: RowPosterior(*self._of)), X)


class NearestVariance:
    """The variance given the nearest rows: as many as are enough.

    Parameters
    ----------
    kernel : Kernel
    rows : Rows
    noise : Noise
    tolerance : float
        KL a row, in nats.
    rng : numpy.random.Generator
        Draws the points at which they are compared.
    max_memory_gib : float, optional

    Attributes
    ----------
    n_neighbors : int
    """

    def __init__(
        self, kernel: Kernel, rows: Rows, noise: Noise, tolerance: float, rng: np.random.Generator,
        max_memory_gib: float | None = None,
    ) -> None:  # fmt: skip
        def posterior(k: int, share: bool) -> NearestPosterior:
            return NearestPosterior(kernel, rows, noise, k, max_memory_gib, share=share)

        points = _where_rows_may_come(kernel, rows, rng)
        mean, self.n_neighbors = np.zeros(len(points)), PLAN.neighbors[-1]
        variances = ((k, _variance(posterior(k, False), points) + noise.variance) for k in PLAN.neighbors)
        for (k, fewer), (_, more) in pairwise(variances):
            if float(kl_divergence(mean, fewer, mean, more).mean()) <= PLAN.settled * tolerance:
                self.n_neighbors = k
                break
        self._posterior = posterior(self.n_neighbors, True)

    def __str__(self) -> str:
        return f"from the nearest {self.n_neighbors} rows"

    def variance(self, X: Floats) -> Floats:
        """Return the variance of each row, shape (m,)."""
        return _variance(self._posterior, X)


class TaylorVariance:
    """The variance of a Gaussian kernel by localized Taylor features; far from their centroids, by the nearest rows.

    Parameters
    ----------
    kernel : Kernel
        A Gaussian one.
    rows : Rows
    noise : Noise
    tolerance : float
        KL a row, in nats.
    rng : numpy.random.Generator
    max_memory_gib : float, optional
    """

    def __init__(
        self, kernel: Kernel, rows: Rows, noise: Noise, tolerance: float, rng: np.random.Generator,
        max_memory_gib: float | None = None,
    ) -> None:  # fmt: skip
        d, ratio = rows.X.shape[1], kernel.prior_variance() / noise.variance
        self._kernel, self._threshold = kernel, PLAN.thresholds[d - 1]
        rows = gathered(kernel, rows, noise, cell_side(kernel, noise, d, tolerance))
        centroids = cover(rows, kernel, self._threshold)
        size = _n_features(d, self._threshold, ratio, PLAN.taylor * math.sqrt(tolerance))
        made = fitted_map(TaylorFeatures(size), kernel, rows, centroids, rng, max_memory_gib)
        self._around = LocalPosterior(kernel, rows, noise, centroids, features=made, max_memory_gib=max_memory_gib)
        self._tree = KDTree(kernel.scale(centroids))
        self._beyond = NearestPosterior(kernel, rows, noise, PLAN.beyond, max_memory_gib, share=False)

    def __str__(self) -> str:
        features = self._around.features
        n_features = 0 if features is None else features.n_features_out_
        return f"from {n_features} Taylor features around {len(self._around.centroids):,} centroids"

    def variance(self, X: Floats) -> Floats:
        """Return the variance of each row, shape (m,)."""
        far = self._tree.query(self._kernel.scale(X))[0] > self._threshold
        found = np.empty(len(X))
        found[~far] = _variance(self._around, X[~far])
        found[far] = _variance(self._beyond, X[far])
        return found


def cell_side(kernel: Kernel, noise: Noise, n_inputs: int, tolerance: float) -> float:
    """Return the side of the cells in which rows are gathered, in lengthscales; see `Plan`."""
    ratio = kernel.prior_variance() / noise.variance
    return float(min(PLAN.most, PLAN.sides[n_inputs - 1] * (tolerance / ratio) ** 0.25))


def local_variance(
    kernel: Kernel, rows: Rows, noise: Noise, tolerance: float, rng: np.random.Generator,
    max_memory_gib: float | None = None,
) -> RowVariance | NearestVariance | TaylorVariance:  # fmt: skip
    """Make the model of the variance that is right for a kernel, and quick.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows
        In up to three columns.
    noise : Noise
    tolerance : float
        KL a row, in nats.
    rng : numpy.random.Generator
    max_memory_gib : float, optional
    """
    if len(rows.y) <= PLAN.few:
        return RowVariance(kernel, rows, noise)
    if kernel.can("gaussian_components") and len(kernel.gaussian_components()) == 1:
        return TaylorVariance(kernel, rows, noise, tolerance, rng, max_memory_gib)
    return NearestVariance(kernel, rows, noise, tolerance, rng, max_memory_gib)


class LocalVariance:
    """The variance by `local_variance`, whose model is made when it is first asked for.

    Parameters
    ----------
    kernel : Kernel
    rows : Rows
    noise : Noise
    tolerance : float
    seed : int
    max_memory_gib : float, optional
    """

    def __init__(
        self, kernel: Kernel, rows: Rows, noise: Noise, tolerance: float, seed: int,
        max_memory_gib: float | None = None,
    ) -> None:  # fmt: skip
        self._arguments = kernel, rows, noise, tolerance
        self._seed, self._max_memory_gib = seed, max_memory_gib

    @cached_property
    def model(self) -> RowVariance | NearestVariance | TaylorVariance:
        """The model."""
        return local_variance(*self._arguments, np.random.default_rng(self._seed), self._max_memory_gib)

    def __str__(self) -> str:
        return str(self.model)

    def variance(self, X: Floats) -> Floats:
        """Return the variance of each row, shape (m,)."""
        return self.model.variance(X)


def _n_features(n_inputs: int, threshold: float, ratio: float, share: float) -> int:
    """Return the number of Taylor features that leave out less than a share of the noise variance.

    Root mean square over a ball around the centroid: at distance r, degrees above p have the share P(p + 1, r²) of the
    prior variance, a regularised incomplete gamma function. `ratio` is the prior variance over that of the noise.
    """
    squares = threshold**2 * np.linspace(0.0, 1.0, 65)[1:] ** (2.0 / n_inputs)
    degrees = (p for p in count() if ratio * np.sqrt(np.mean(gammainc(p + 1, squares) ** 2)) <= share)
    return math.comb(next(degrees) + n_inputs, n_inputs)


def _where_rows_may_come(kernel: Kernel, rows: Rows, rng: np.random.Generator) -> Floats:
    """Return points between a row and one near to it, and, of a quarter, beyond the rows at the edge."""
    some = rows.X[rng.permutation(len(rows.y))[: PLAN.n_probes]]
    low, high = rows.X.min(axis=0), rows.X.max(axis=0)
    outward = some - 0.5 * (low + high)
    by_edge = np.argsort(np.max(np.abs(outward) / np.maximum(high - low, 1e-300), axis=1))
    inner, outer = np.split(by_edge, [3 * len(some) // 4])
    _, near = KDTree(kernel.scale(rows.X)).query(kernel.scale(some[inner]), k=[min(5, len(rows.y))])
    return np.concatenate((0.5 * (some[inner] + rows.X[near[:, 0]]), some[outer] + PLAN.outward * outward[outer]))


def _variance(posterior: RowPosterior | NearestPosterior | LocalPosterior, X: Floats) -> Floats:
    variance = posterior.predict(X)[1]
    assert variance is not None  # for the type checker
    return variance
