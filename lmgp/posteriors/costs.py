"""What models cost: operations and bytes, counted from sizes alone, and the same on every machine.

A nominal time makes one number of them, by the rates of a machine that stand here (`REFERENCE`). So a choice by these
times depends on the rows and the seed alone.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lmgp.data import Indices
from lmgp.features.base import Work
from lmgp.features.nystroem import LEAST_ROWS, ROWS_PER_LANDMARK
from lmgp.kernels.base import Kernel
from lmgp.neighbours.cells import points_per_cell, rows_per_cell, sharing_pays

if TYPE_CHECKING:
    from lmgp.posteriors.modes import Modes


@dataclass(frozen=True)
class Cost:
    """What a computation takes, or how much of it a machine does in a second.

    Attributes
    ----------
    operations : float
        Of a product of matrices.
    bytes : float
        That operations on each number by itself read and write.
    calls : float
        Of what surrounds operations, however few numbers these are on.
    """

    operations: float = 0.0
    bytes: float = 0.0
    calls: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        """Return what two computations take together."""
        return Cost(self.operations + other.operations, self.bytes + other.bytes, self.calls + other.calls)

    def __rmul__(self, times: float) -> "Cost":
        """Return what a number of such computations take."""
        return Cost(times * self.operations, times * self.bytes, times * self.calls)

    @property
    def seconds(self) -> float:
        """The nominal time: that on the machine of `REFERENCE`."""
        of = REFERENCE
        return self.operations / of.operations + self.bytes / of.bytes + self.calls / of.calls


# A second of two cores of an AMD EPYC with AVX-512, in double precision: measured by benchmarks/costs.py.
REFERENCE = Cost(operations=8e10, bytes=2e10, calls=8e4)

# An operation of a triangular system or a factorisation takes as long as this number of those of a product.
TRIANGULAR = 3.0
# A number that is a column of a map, or an entry of a covariance, is made, copied and read by this number of passes.
PASSES = 16.0
# A model is made by this number of calls; so are the predictions of a cell.
CALLS_OF_MODEL, CALLS_OF_CELL = 20.0, 12.0
# Systems of nearest rows are solved in compiled loops, which take this share of what single operations do.
COMPILED = 0.25
# A k-d tree is searched by looking at this number of rows for each one that is found.
LOOKED_AT = 600.0
# The passes over a moment, and the bytes of a Fourier transform for each number of its grid and halving of it. What
# conjugate gradients do beside a product of theirs takes half as long.
MOMENT_PASSES, TRANSFORM_BYTES, BESIDE = 4.0, 16.0, 1.5


def _numbers(n: float) -> Cost:
    """Return what making and reading n numbers takes."""
    return Cost(bytes=8.0 * PASSES * n)


def _entries(n: float, d: int, kernel: Kernel) -> Cost:
    """Return what n entries of a covariance matrix take: those of each part of a sum or a product."""
    n_parts = max(1, sum(parameter.name.endswith("variance") for parameter in kernel.parameters))
    return n_parts * (_numbers(n) + Cost(2.0 * d * n))


def _factor(n: float) -> Cost:
    """Return what a Cholesky factor of order n takes."""
    return Cost(TRIANGULAR * n**3 / 3.0)


def _solve(n: float) -> Cost:
    """Return what a triangular system of order n with one right side takes."""
    return Cost(TRIANGULAR * n**2)


def of_exact(n: int, d: int, n_predict: int, kernel: Kernel) -> Cost:
    """Count the exact GP of n rows, and predictions of means and variances from it."""
    return _factor(n) + _entries(n**2, d, kernel) + n_predict * (_solve(n) + _entries(n, d, kernel))


def of_nearest(n_neighbours: int, n: int, d: int, n_predict: int, kernel: Kernel, share: bool = True) -> Cost:
    """Count predictions from the nearest rows of each; of shared ones, where that pays.

    A cell is factorised for all points in it.
    """
    k = n_neighbours
    if not (share and sharing_pays(d, k)):
        search = Cost(bytes=8.0 * d * LOOKED_AT * k)
        return n_predict * (search + COMPILED * (_entries(k**2, d, kernel) + _factor(k) + _solve(k)))
    n_cells = n_predict / max(1.0, points_per_cell(d, k) * n_predict / n)
    around = rows_per_cell(d, k)
    cell = COMPILED * _entries(around**2, d, kernel) + _factor(around) + Cost(calls=CALLS_OF_CELL)
    return n_cells * cell + n_predict * (COMPILED * _entries(around, d, kernel) + _solve(around))


def of_map(
    work: Work, n: int, d: int, n_predict: int, kernel: Kernel, n_centroids: int = 1, share: float = 1.0
) -> Cost:
    """Count a model with a map for all rows, or one around each centroid.

    Parameters
    ----------
    work : Work
        What the map says of itself.
    n, d, n_predict : int
    kernel : Kernel
    n_centroids : int, default=1
    share : float, default=1.0
        Of the rows, in a model around a centroid.
    """
    columns, drawing = _numbers(work.columns), Cost()
    if work.solved:
        m = work.solved
        columns += _solve(m) + _entries(m, d, kernel)
        # For each landmark, k-means++ weighs 2 + ln m rows by the distances of all rows that it looks at.
        n_seen = min(n, max(LEAST_ROWS, ROWS_PER_LANDMARK * m))
        weighed = Cost(bytes=8.0 * (d + 1) * n_seen * m * (2.0 + math.log(m)))
        drawing = weighed + _entries(m**2, d, kernel) + _factor(m)
    row = columns + Cost(work.columns**2)  # half of a product that is symmetric
    if work.moments is not None:
        row = min(row, Cost(bytes=8.0 * MOMENT_PASSES * work.moments), key=lambda cost: cost.seconds)
    model = Cost(calls=CALLS_OF_MODEL) + _factor(work.columns) + _numbers(work.columns**2) + share * n * row
    # Models from which no row is predicted are not solved.
    return drawing + min(n_centroids, n_predict) * model + n_predict * (columns + _solve(work.columns))


def of_residual(work: Work, n_neighbours: int, block_size: int, n: int, d: int, n_predict: int, kernel: Kernel) -> Cost:
    """Count a global map whose residuals are predicted from the nearest rows.

    Beside both models, it takes the products of each row's columns with those of its block, and of the columns of its
    neighbours with each other.
    """
    block = n * (Cost(2.0 * block_size * work.columns) + _entries(block_size, d, kernel))
    products = n_predict * Cost(2.0 * n_neighbours**2 * work.columns)
    nearest = of_nearest(n_neighbours, n, d, n_predict, kernel, share=False)
    return of_map(work, n, d, n_predict, kernel) + block + products + nearest


def of_iterations(n_iterations: int, n_preconditioner: int, n: int, d: int, n_predict: int, kernel: Kernel) -> Cost:
    """Count conjugate gradients over n rows, and means of their solution.

    An iteration makes the covariances of all pairs of rows, of which memory may spare a part, multiplies by them, and
    solves with a preconditioner of as many columns as landmarks and rows of a block.
    """
    iteration = _entries(n**2, d, kernel) + Cost(2.0 * n**2 + 4.0 * n * n_preconditioner)
    return n_iterations * iteration + n_predict * (_entries(n, d, kernel) + Cost(2.0 * n))


def of_transform(n_modes: Indices, n: int, tolerance: float, upsampling: float) -> Cost:
    """Count a transform of n rows to modes, or back: each row is spread over a grid, and the grid is transformed.

    Parameters
    ----------
    n_modes : ndarray of int of shape (d,)
        Of each column.
    n : int
    tolerance, upsampling : float
        Of the transform.

    References
    ----------
    A. H. Barnett, J. Magland and L. af Klinteberg, *A Parallel Nonuniform Fast Fourier Transform Library Based on an
    "Exponential of Semicircle" Kernel*, SIAM Journal on Scientific Computing 41, 2019.
    """
    width = math.floor(1.0 - math.log(tolerance) / (math.pi * math.sqrt(1.0 - 1.0 / upsampling)))
    grid = float(np.prod(upsampling * n_modes))
    return Cost(bytes=TRANSFORM_BYTES * (n * width ** len(n_modes) + grid * math.log2(grid)))


def of_modes(modes: "Modes", n_iterations: float) -> Cost:
    """Count the iterations of a global solve on Fourier modes: two transforms for each."""
    grid = float(np.prod(4.0 * modes.counts + 1.0))
    return BESIDE * n_iterations * Cost(bytes=TRANSFORM_BYTES * grid * math.log2(grid))


def of_rows(
    modes: "Modes", n_iterations: float, n_neighbours: int, n: int, kernel: Kernel, tolerance: float, upsampling: float
) -> Cost:
    """Count the same solve over the rows: a preconditioner of near rows, and two transforms for each iteration."""
    preconditioner = of_nearest(n_neighbours, n, len(modes.counts), n, kernel, share=False)
    transforms = 2.0 * of_transform(2 * modes.counts + 1, n, tolerance, upsampling)
    return preconditioner + n_iterations * (transforms + _numbers(2.0 * n * n_neighbours))
