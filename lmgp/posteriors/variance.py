"""The variance beside a global mean, from posteriors of rows near by. No targets pass through it."""

import math
from itertools import count

import numpy as np
from scipy.spatial import KDTree
from scipy.special import gammainc

from lmgp.data import Floats, Noise, Rows
from lmgp.features.taylor import TaylorFeatures
from lmgp.kernels.base import Kernel
from lmgp.neighbours.placement import cover, gathered
from lmgp.neighbours.simplices import COUNTED, Simplices, side_for
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.local import LocalPlan, fitted_map, reach_of
from lmgp.posteriors.nearest import NearestPosterior

# Up to this number of rows the variance is exact.
FEW = 2048
# The radius around centroids of localized Taylor features, in lengthscales, for one, two and three columns.
THRESHOLDS = (2.0, 2.0, 1.0)
# Taylor features may leave out this multiple of the root of the tolerance: not all of it is error.
TAYLOR = 3.0
# The number of nearest rows for what is far from all centroids.
BEYOND = 256
# Of the nearest rows, the first of these numbers is enough whose standard deviations are right to this multiple of the
# root of the tolerance, and to this share at most, root mean square and relative to each: at 1e-6 nats, to 1%. Twice as
# many rows tell.
NEIGHBORS, RELATIVE, MOST_OFF = (64, 96, 128, 192, 256, 384, 512), 10.0, 0.02
# What the corners that stand for rows leave out, see `side_for`, as a multiple of this share: they cause about 0.6 of
# it. Corners of cells of this volume tell.
LEFT_OUT, FINER = 3.0, 0.5
# The number of points at which these are compared, and how far some of them lie beyond rows at the edge, in distances
# from the middle of all.
PROBES, OUTWARD = 64, 0.2
# Rows are gathered in cells of this side, for one, two and three columns, times ⁴√(tolerance · noise variance/prior
# variance), and of `MOST_SIDE` at most, in lengthscales: that changes the variance by about the tolerance at most.
SIDES, MOST_SIDE = (10.0, 8.0, 6.0), 0.5


class LocalVariance:
    """The variance by the model that is right for a kernel, and quick.

    Of few rows it is the exact one. Of a Gaussian kernel it is from localized Taylor features, and far from all of
    their centroids from the nearest rows. Of other kernels it is from the nearest corners that stand for the rows of
    small cells, as many as are enough, and the error is stated.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows
        In up to three columns; their targets do not matter.
    noise : Noise
    tolerance : float
        KL a row, in nats. By Taylor features, the smaller the noise is, the farther it may be missed.
    rng : numpy.random.Generator
    max_memory_gib : float, optional
    """

    def __init__(
        self, kernel: Kernel, rows: Rows, noise: Noise, tolerance: float, rng: np.random.Generator,
        max_memory_gib: float | None = None,
    ) -> None:  # fmt: skip
        # Sizes follow from the noise variance of a typical row.
        rows, noise = rows.with_targets(np.zeros(len(rows))).at_mean_weight(noise)
        self._kernel, self._far, self._radius = kernel, None, math.inf
        self._near: Posterior
        if len(rows) <= FEW:
            self._near, self._name = ExactPosterior(kernel, rows, noise), "exact, from all rows"
        elif is_gaussian(kernel):
            d, ratio = rows.X.shape[1], kernel.prior_variance() / noise.variance
            self._radius = THRESHOLDS[d - 1]
            rows = gathered(kernel, rows, noise, cell_side(kernel, noise, d, tolerance))
            centroids = cover(rows, kernel, self._radius)
            size = _n_features(d, self._radius, ratio, TAYLOR * math.sqrt(tolerance))
            features = fitted_map(TaylorFeatures(size), kernel, rows, centroids, rng, max_memory_gib)
            reach = reach_of(features, kernel, noise, rows)
            plan = LocalPlan(kernel, noise, features, centroids, reach=reach, max_memory_gib=max_memory_gib)
            self._near = plan.posterior(rows)
            self._tree = KDTree(kernel.in_lengthscales(centroids))
            self._far = NearestPosterior(kernel, rows, noise, BEYOND, max_memory_gib, share=False)
            self._name = f"from {features.n_features_out_} Taylor features around {len(centroids):,} centroids"
        else:
            share = min(RELATIVE * math.sqrt(tolerance), MOST_OFF)
            self._near, error = _of_near(kernel, rows, noise, share, rng, max_memory_gib)
            k, few = self._near.n_neighbors, self._near.n_rows < len(rows)
            of = f" of {self._near.n_rows:,} corners of cells of rows" if few else " rows"
            self._name = f"from the nearest {k}{of}, to about {100.0 * error:.2g}%"

    def __str__(self) -> str:
        return self._name

    def __call__(self, X: Floats) -> Floats:
        """Return the variance of the latent function at each row, shape (m,)."""
        if self._far is None:
            return self._near.variances(X)
        far = self._tree.query(self._kernel.in_lengthscales(X))[0] > self._radius
        variances = np.empty(len(X))
        variances[~far], variances[far] = self._near.variances(X[~far]), self._far.variances(X[far])
        return variances


def is_gaussian(kernel: Kernel) -> bool:
    """Say whether a kernel is one Gaussian: smooth, and served by Taylor features."""
    return kernel.can("gaussian_components") and len(kernel.gaussian_components()) == 1


def cell_side(kernel: Kernel, noise: Noise, n_inputs: int, tolerance: float) -> float:
    """Return the side of the cells in which rows are gathered, in lengthscales; see `SIDES`."""
    ratio = kernel.prior_variance() / noise.variance
    return float(min(MOST_SIDE, SIDES[n_inputs - 1] * (tolerance / ratio) ** 0.25))


def _of_near(
    kernel: Kernel, rows: Rows, noise: Noise, share: float, rng: np.random.Generator, max_memory_gib: float | None
) -> tuple[NearestPosterior, float]:
    """Return the posterior of nearest corners whose standard deviations are right to `share`, and their relative error.

    The number of corners is the first of `NEIGHBORS` that is enough. Each prediction has neighbours of its own: new
    rows are sparse beside the training rows.
    """
    precisions, d = 1.0 / noise.of_weighted_rows(rows), rows.X.shape[1]
    side = side_for(kernel, rows.X, precisions, LEFT_OUT * share)
    points = _where_rows_may_come(kernel, rows, rng)

    def corners(side: float) -> Rows:
        simplices = Simplices.of(kernel, rows.X, precisions, side)
        return Rows(simplices.X, np.zeros(len(simplices.X)), None, 1.0 / simplices.precisions)

    def near(corners: Rows, k: float) -> NearestPosterior:
        return NearestPosterior(kernel, corners, noise, round(k), max_memory_gib, share=False)

    def differ(some: NearestPosterior, others: NearestPosterior) -> float:
        return 0.5 * float(np.sqrt(np.mean(np.square(some.variances(points) / others.variances(points) - 1.0))))

    few, more, k = corners(side), corners(FINER ** (1.0 / d) * side), NEIGHBORS[0]
    by_corners = differ(near(few, k), near(more, k * len(more) / len(few)))
    for k in NEIGHBORS:
        by_neighbours = differ(near(few, k), near(few, 2 * k))
        error = math.hypot(by_corners, by_neighbours)
        if error <= share or by_neighbours <= 0.5 * by_corners:  # more would change little
            break
    return near(few, k), error


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
    some = rows.X[rng.permutation(len(rows))[:PROBES]]
    low, high = rows.X.min(axis=0), rows.X.max(axis=0)
    outward = some - 0.5 * (low + high)
    by_edge = np.argsort(np.max(np.abs(outward) / np.maximum(high - low, 1e-300), axis=1))
    inner, outer = np.split(by_edge, [3 * len(some) // 4])
    others = rows.X if len(rows) <= COUNTED else rows.X[rng.choice(len(rows), COUNTED, replace=False)]
    _, near = KDTree(kernel.in_lengthscales(others)).query(kernel.in_lengthscales(some[inner]), k=[min(5, len(rows))])
    return np.concatenate((0.5 * (some[inner] + others[near[:, 0]]), some[outer] + OUTWARD * outward[outer]))
