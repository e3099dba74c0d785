"""Points that are equally far from another, as on a grid, told apart by their places."""

import numpy as np

from lmgp.data import Floats

# Points are moved by this number of lengthscales, as a wave that turns by the second number of radians a lengthscale.
MOVE, WAVE = 1e-9, 1e4


def told_apart(points: Floats) -> Floats:
    """Move each point by up to 1e-9, as its place says.

    Of rows that are equally far from another, the same ones are then nearer in all units of the columns, where rounding
    would choose others.

    Parameters
    ----------
    points : ndarray of shape (n, c)
        In lengthscales.
    """
    columns = np.arange(points.shape[1])
    # No two columns have the same part of this way. It is summed row by row, for BLAS rounds one row otherwise.
    way = (np.clip(points, -1e100, 1e100) * np.sqrt(1.0 + columns)).sum(axis=1, keepdims=True)
    moved: Floats = points + MOVE * np.sin(WAVE * way + columns)
    return moved
