"""Rows that are added to posteriors around centroids which keep their rows, and rows that are taken out of them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.inference.additive import not_there
from lmgp.inference.local_sums import Lattice
from lmgp.kernels.base import Kernel
from lmgp.locality.blocks import Neighbourhoods
from lmgp.validation import Rows

Floats = NDArray[np.float64]

# Rows that were added are searched one by one, up to this share of those that are in blocks.
SHARE = 0.1

# Two targets are the same one up to this share of the largest one: they were less of another mean.
ROUNDING = 1e-9


class JoinedNeighbourhoods:
    """Finds the rows around any point, among rows in blocks and some more behind them.

    Parameters
    ----------
    first : Neighbourhoods
    n_first : int
        The number of its rows.
    more : ndarray of shape (n, d)
        The rows behind them.
    """

    def __init__(self, first: Neighbourhoods, n_first: int, more: Floats) -> None:
        self.first, self.n_first, self.more = first, n_first, more
        self._rest = Neighbourhoods(more)

    def within(self, radius: float, point: Floats) -> NDArray[np.intp] | slice:
        """Find the rows at a distance of at most `radius` from a point of shape (d,), ascending."""
        near, beyond = self.first.within(radius, point), self._rest.within(radius, point)
        if isinstance(near, slice) or isinstance(beyond, slice):
            return slice(None)
        return np.concatenate((near, self.n_first + beyond))


def joined_neighbourhoods(
    before: Neighbourhoods | JoinedNeighbourhoods | None, n_before: int, X: Floats, scale: Callable[[Floats], Floats]
) -> Neighbourhoods | JoinedNeighbourhoods:
    """Return the neighbourhoods of rows of which the first `n_before` have neighbourhoods already.

    Parameters
    ----------
    before : Neighbourhoods, JoinedNeighbourhoods or None
    n_before : int
    X : ndarray of shape (n, d)
        All rows.
    scale : callable
        Brings rows into lengthscales.
    """
    first = before
    if isinstance(before, JoinedNeighbourhoods):
        first, n_before = before.first, before.n_first
    if not isinstance(first, Neighbourhoods) or len(X) - n_before > SHARE * n_before:
        return Neighbourhoods(scale(X))
    return JoinedNeighbourhoods(first, n_before, scale(X[n_before:]))


def opened(kernel: Kernel, X: Floats, first: Floats, threshold: float) -> Floats:
    """Return the centroids of rows that are not closer than the threshold to one of the first centroids.

    They are centres of cubes of a lattice: whatever the order of the rows, they are the same.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
    first : ndarray of shape (n_centroids, d)
    threshold : float
        In lengthscales.

    Returns
    -------
    ndarray of shape (n_opened, d)
    """
    distance, _ = KDTree(kernel.scale(first)).query(kernel.scale(X))
    lattice = Lattice.of(kernel, X.shape[1], threshold)
    outside = X[distance >= threshold]
    return lattice.centres(np.unique(lattice.cells(outside), axis=0)) if len(outside) else outside


def without(rows: Rows, gone: Rows, noise_variance: float) -> NDArray[np.bool_]:
    """Say which rows stay when others are taken out, each once, shape (n,).

    Parameters
    ----------
    rows, gone : Rows
        With y less of the same.
    noise_variance : float
        Of rows without one of their own.

    Raises
    ------
    InputError
        If one of the others is not among the rows. It names the first one.
    """
    keys, wanted = (_keys(one, noise_variance) for one in (rows, gone))
    (candidates,) = np.nonzero(np.isin(keys, wanted))
    places: dict[bytes, list[int]] = {}
    for i in candidates.tolist():
        places.setdefault(keys[i].tobytes(), []).append(i)
    stay = np.ones(len(rows.y), dtype=np.bool_)
    tolerance = ROUNDING * max(float(np.abs(rows.y).max(initial=0.0)), float(np.abs(gone.y).max(initial=0.0)))
    for number, (key, y) in enumerate(zip(wanted, gone.y, strict=True)):
        held = places.get(key.tobytes(), [])
        nearest = min(held, key=lambda i: abs(rows.y[i] - y), default=None)
        if nearest is None or abs(rows.y[nearest] - y) > tolerance:
            raise not_there(f"row {number}, {gone.X[number].tolist()}, is not, or not as often, with this y")
        held.remove(nearest)
        stay[nearest] = False
    return stay


def _keys(rows: Rows, noise_variance: float) -> NDArray[np.void]:
    """Return the bytes of each row but for its target."""
    n = len(rows.y)
    weights = np.ones(n) if rows.weights is None else rows.weights
    noises = np.full(n, noise_variance) if rows.noise_variances is None else rows.noise_variances
    whole = np.ascontiguousarray(np.column_stack((rows.X, weights, noises)) + 0.0)  # no negative zeros
    return whole.view(np.dtype((np.void, whole.itemsize * whole.shape[1]))).ravel()


def shifted(rows: Rows, change: float) -> Rows:
    """Return rows with y less `change`."""
    return rows if change == 0.0 else replace(rows, y=rows.y - change)
