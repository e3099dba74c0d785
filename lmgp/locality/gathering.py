"""Rows of small cells gathered in one row each: a covariance that changes little within a cell cannot tell."""

import numpy as np
from numpy.typing import NDArray

from lmgp.kernels.base import Kernel
from lmgp.noise import Noise
from lmgp.validation import Rows

Floats = NDArray[np.float64]

# Cells are gathered where they are at most this share of the rows.
WORTH = 0.7

# Cells along all columns together that a 64-bit number can count.
MOST_CELLS = 2.0**62


def gathered(kernel: Kernel, rows: Rows, noise: Noise, side: float) -> Rows:
    """Gather the rows of each cell in their weighted mean, with the sum of their precisions.

    For variances: the targets become 0. The mean of the rows of a cell leaves nothing of the first order in their
    distances. With ρ rows in a square of one lengthscale, the precision is off by about side²/12, and the variance,
    about 2σₙ²/ρ where cells hold several rows, so that ρ · side² ≥ 2, by less than side⁴/12 noise variances. At the
    edge of the rows, where variances are larger, it changes by more.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows
    noise : Noise
    side : float
        Of a cell, in lengthscales.

    Returns
    -------
    Rows
        With weights relative to the noise variance; the rows as they are, without targets, where few share a cell.
    """
    as_they_are = Rows(rows.X, np.zeros(len(rows.y)), rows.weights, rows.noise_variances)
    cells = np.floor(kernel.scale(rows.X) / side)
    cells -= cells.min(axis=0)
    shape = cells.max(axis=0) + 1.0
    if float(np.prod(shape)) >= MOST_CELLS:
        return as_they_are
    keys = np.ravel_multi_index(tuple(cells.astype(np.int64).T), tuple(shape.astype(np.int64)))
    kept, cell = np.unique(keys, return_inverse=True)
    if len(kept) > WORTH * len(keys):
        return as_they_are
    precision = noise.variance / noise.of_weighted_rows(rows).numpy()
    sums: Floats = np.bincount(cell, precision).astype(np.float64)
    # About the mean, so that no digits are lost far from the origin.
    centre = rows.X.mean(axis=0)
    means = np.stack([np.bincount(cell, precision * column) / sums for column in (rows.X - centre).T], axis=1)
    return Rows(means + centre, np.zeros(len(sums)), sums)
