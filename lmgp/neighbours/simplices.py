"""Rows of small cells as the corners of simplices: few that stand for many, where functions are nearly linear."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy import sparse
from scipy.optimize import brentq

from lmgp.data import Floats, Indices
from lmgp.kernels.base import Kernel
from lmgp.neighbours.placement import cell_keys, numbered

# Sides of cells, in lengthscales, among which one is looked for; and at this number of places along each column of a
# cell it is seen how far functions are from linear.
LEAST_SIDE, MOST_SIDE, PLACES = 1e-4, 0.5, 5
# The side depends on how many rows share a cell, and that on the side: this number of steps finds both. Of more rows, a
# random sample of this number is counted.
STEPS, COUNTED = 4, 2**20
# A column of a cell whose variance is below this share of the largest one has none.
FLAT = 1e-12


@dataclass(frozen=True, eq=False)
class Simplices:
    """Rows as means of corners: f(rows) ≈ A f(corners), to the last digit of functions that are linear in each cell.

    With the precisions P of rows and D of corners, AᵀPA acts on such functions as D does: the d + 1 corners of a cell
    have the total precision, the mean and the covariance of its rows. Cells of at most d + 1 rows keep these.

    Attributes
    ----------
    X : ndarray of shape (m, d)
        The corners.
    precisions : ndarray of shape (m,)
    shares_of_rows : callable
        Returns `shares`: who needs the corners alone does not wait for it.
    """

    X: Floats
    precisions: Floats
    shares_of_rows: Callable[[], sparse.csr_array]

    @cached_property
    def shares(self) -> sparse.csr_array:
        """A, of shape (n, m); each of its rows has a sum of 1."""
        return self.shares_of_rows()

    @classmethod
    def of(cls, kernel: Kernel, X: Floats, precisions: Floats, side: float) -> "Simplices":
        """Gather rows in cells.

        Parameters
        ----------
        kernel : Kernel
            With a metric.
        X : ndarray of shape (n, d)
        precisions : ndarray of shape (n,)
            One over the noise variance of each row.
        side : float
            Of a cell, in lengthscales.
        """
        n, d = X.shape
        metric = np.where(np.isfinite(kernel.metric(d)), kernel.metric(d), 0.0)
        keys = cell_keys(kernel.in_lengthscales(X), side)
        if keys is None:
            return cls(X, precisions, partial(sparse.eye_array, n, format="csr"))
        cell, counts = numbered(keys)
        shared = counts > d + 1
        number = np.cumsum(shared) - 1
        (gathered,), (alone,) = np.nonzero(shared[cell]), np.nonzero(~shared[cell])
        cell, weights = number[cell[gathered]], precisions[gathered]
        totals: Floats = np.bincount(cell, weights, np.count_nonzero(shared)).astype(np.float64)
        average = partial(_average, cell, weights, totals)
        centre = X[gathered].mean(axis=0) if len(gathered) else np.zeros(d)
        offsets = X[gathered] - centre
        means = np.stack([average(column) for column in offsets.T], axis=1)
        offsets = np.divide(offsets - means[cell], metric, out=np.zeros_like(offsets), where=metric > 0.0)
        covariances = np.stack([[average(left * right) for right in offsets.T] for left in offsets.T])
        values, axes = np.linalg.eigh(np.moveaxis(covariances, 2, 0))
        points = values[:, -1:] <= FLAT * side**2  # of copies alone, which are one corner
        values = np.where((values > FLAT * values[:, -1:]) & ~points, values, 0.0)
        kept = ~points | (np.arange(d + 1) == 0)
        place, n_corners = np.cumsum(kept).reshape(kept.shape) - 1, kept.sum(axis=1)
        roots = np.sqrt(values)[:, None] * axes
        inverse = np.divide(axes, np.sqrt(values)[:, None], out=np.zeros_like(axes), where=values[:, None] > 0.0)
        vertices = _vertices(d)
        corners = (means + centre)[:, None] + metric * np.einsum("cij,kj->cki", roots, vertices)

        def shares_of_rows() -> sparse.csr_array:
            slopes = np.einsum("cij,kj->cki", inverse, vertices)
            shares, columns = np.zeros((n, d + 1)), np.zeros((n, d + 1), dtype=np.intp)
            shares[gathered] = (1.0 + np.einsum("nki,ni->nk", slopes[cell], offsets)) / (d + 1)
            columns[gathered] = place[cell]
            shares[alone, 0], columns[alone] = 1.0, (kept.sum() + np.arange(len(alone)))[:, None]
            return sparse.csr_array(
                (shares.ravel(), columns.ravel(), np.arange(n + 1) * (d + 1)),
                shape=(n, kept.sum() + len(alone)),
            )

        return cls(
            np.concatenate((corners[kept], X[alone])),
            np.concatenate((np.repeat(totals / n_corners, n_corners), precisions[alone])),
            shares_of_rows,
        )


def side_for(kernel: Kernel, X: Floats, precisions: Floats, share: float) -> float:
    """Return the side of cells, in lengthscales, whose corners leave out a share of what their noise leaves open.

    What functions of the prior are off from linear has a variance in a cell. Times the precision of all rows in it, the
    mean over rows, it is the share.
    """
    (n, d), side, mean_precision = X.shape, MOST_SIDE, float(precisions.mean())
    some = X if n <= COUNTED else X[np.random.default_rng(0).choice(n, COUNTED, replace=False)]
    scaled = kernel.in_lengthscales(some)
    # Of two rows of a cell, both are in the sample as often as this says.
    each = (n - 1) / max(1, len(some) - 1)

    def excess(log_side: float, density: float) -> float:
        tried = float(np.exp(log_side))
        return float(np.log(density * tried**d * _curved(kernel, d, tried) / share))

    for _ in range(STEPS):
        keys = cell_keys(scaled, side)
        if keys is None:
            break
        counts = numbered(keys)[1]
        in_cell = 1.0 + each * float((counts * (counts - 1.0)).sum()) / len(some)
        density = mean_precision * in_cell / side**d
        ends = np.log((LEAST_SIDE, MOST_SIDE))
        if excess(ends[1], density) <= 0.0:
            return MOST_SIDE
        if excess(ends[0], density) >= 0.0:
            return LEAST_SIDE
        side = float(np.exp(brentq(excess, *ends, args=(density,), xtol=1e-3)))
    return side


def _average(cell: Indices, weights: Floats, totals: Floats, values: Floats) -> Floats:
    return np.bincount(cell, weights * values, len(totals)) / totals


def _vertices(d: int) -> Floats:
    """Return the d + 1 corners of a regular simplex whose mean is 0, and whose covariance is the unit matrix."""
    left = np.linalg.svd(np.eye(d + 1) - 1.0 / (d + 1))[0]
    return left[:, :d] * np.sqrt(d + 1.0)


def _curved(kernel: Kernel, d: int, side: float) -> float:
    """Return the variance of functions less their means of corners, the average over a cell."""
    metric = np.where(np.isfinite(kernel.metric(d)), kernel.metric(d), 0.0)
    places = (np.arange(PLACES) + 0.5) / PLACES
    cell = np.stack(np.meshgrid(*[places] * d, indexing="ij"), axis=-1).reshape(-1, d) * side * metric
    simplex = Simplices.of(kernel, cell, np.ones(len(cell)), 2.0 * side)
    shares = simplex.shares.toarray()
    crossed = np.einsum("nm,nm->n", shares, kernel(cell, simplex.X))
    between = np.einsum("nm,mk,nk->n", shares, kernel(simplex.X), shares)
    return max(1e-300, float(np.mean(kernel.evaluate_diagonal(cell) - 2.0 * crossed + between)))
