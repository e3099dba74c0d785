"""Points that are equally far from another, as on a grid, told apart by their places."""

import numpy as np

from lmgp.data import Floats
from lmgp.neighbours.placement import column_order

# Points are moved by this number of lengthscales, as a wave that turns by the second number of radians a lengthscale.
MOVE, WAVE = 1e-9, 1e4


def told_apart(points: Floats) -> Floats:
    """Move each point by up to 1e-9, as its place says.

    Of rows that are equally far from another, the same ones are then nearer in all units and in any order of the
    columns, where rounding would choose others.

    Parameters
    ----------
    points : ndarray of shape (n, c)
        In lengthscales.
    """
    columns = np.argsort(column_order(points.T))
    # No two columns have the same part of this way.
    way = (np.clip(points, -1e100, 1e100) @ np.sqrt(1.0 + columns))[:, None]
    return points + MOVE * np.sin(WAVE * way + columns)
