"""Where rows are: their places, the centroids that cover them, and rows of small cells gathered in one."""

from collections.abc import Iterable

import numpy as np

from lmgp.data import Floats, Indices, Noise, Rows
from lmgp.kernels.base import Kernel
from lmgp.neighbours.clustering import farthest_points, nearest_centroids
from lmgp.neighbours.lattice import ordered

# Rows whose numbers differ by less are at one place: shifts by a thousand extents round the thirteenth digit.
ROUNDING = 1e-12

# Cells are gathered where they are at most this share of the rows, and where a 64-bit number can count those along all
# columns together.
WORTH, MOST_CELLS = 0.7, 2.0**62


def place_keys(X: Floats) -> Floats:
    """Return a number for each row that depends on its place among the rows alone.

    It is the row's coordinate along an oblique line through the box of all rows. Copies of a row have the same number,
    and shifts and other units of the columns leave the order of the numbers as it is.

    Parameters
    ----------
    X : ndarray of shape (n, d)

    Returns
    -------
    ndarray of shape (n,)
    """
    keys = np.zeros(len(X))
    shares = np.random.default_rng(0).uniform(0.5, 1.5, (X.shape[1], 1))
    for column, share in zip(X.T, shares, strict=True):
        keys += share * _in_extent(column)
    return keys


def column_order(columns: Iterable[Floats]) -> Indices:
    """Return the order of columns by the means of what is in them, which their own order, shifts and units leave alike.

    Columns whose means are equal but for rounding stay as they come.

    Parameters
    ----------
    columns : iterable of ndarray of shape (n,)
    """
    return np.argsort([np.round(_in_extent(column).mean(), 9) for column in columns], kind="stable")


def _in_extent(column: Floats) -> Floats:
    """Return where each value is between the least, 0, and the largest, 1; 0 where all are equal."""
    half = 0.5 * column  # so that no difference overflows
    half -= half.min()
    extent = half.max()
    return half / extent if extent > 0.0 else half


def distinct_places(X: Floats, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Return each place of rows once, in an order that depends on the places alone.

    What is chosen from these, at random or not, is the same for rows in another order and for repeated rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    weights : ndarray of shape (n,), optional
        Of the rows; 1 if not given.

    Returns
    -------
    places : ndarray of shape (n_places, d)
    totals : ndarray of shape (n_places,)
        The sum of the weights of the rows at each place.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 1.0], [0.0, 0.0], [2.0, 1.0]])
    >>> places, totals = distinct_places(X)
    >>> places.tolist(), totals.tolist()
    ([[0.0, 0.0], [2.0, 1.0]], [1.0, 2.0])
    """
    keys = place_keys(X)
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1.0) > ROUNDING)
    return X[order[starts]], np.add.reduceat(np.ones(len(X)) if weights is None else weights[order], starts)


def cover(rows: Rows, kernel: Kernel, threshold: float, max_centroids: int | None = None) -> Floats:
    """Cover rows by farthest-point centroids, from their mean on.

    Parameters
    ----------
    rows : Rows
    kernel : Kernel
    threshold : float
        In lengthscales.
    max_centroids : int, optional
        Where more are needed, the first ones are returned.

    Returns
    -------
    ndarray of shape (n_centroids, d)
        In the units of X. Those of a larger threshold are the first ones of a smaller threshold.
    """
    # Of several farthest rows the first one is taken: in an order of their places, it is the same in any order of rows.
    places, totals = distinct_places(rows.X, rows.weights)
    mean = np.average(places, axis=0, weights=totals)
    lengthscale = kernel.metric(places.shape[1])
    centroids = farthest_points(kernel.in_lengthscales(places), mean / lengthscale, threshold, max_centroids)
    seen = np.isfinite(lengthscale)  # in columns that the kernel does not see, centroids are at the mean
    centroids = np.where(seen, centroids * np.where(seen, lengthscale, 1.0), mean)
    # Not through the lengthscale and back: with one centroid this is the global model, to the last digit.
    centroids[0] = mean
    return centroids


def negligible_share(rows: Rows, kernel: Kernel, noise: Noise, tolerance: float) -> float:
    """Return the share ε of the largest prior variance of rows below which its covariance with others may be left out.

    Parameters
    ----------
    rows : Rows
        With y centred.
    kernel : Kernel
    noise : Noise
    tolerance : float
        τ, see the notes of `lmgp.posteriors.local.LocalPosterior`.

    Returns
    -------
    float
    """
    n = float(len(rows) if rows.weights is None else rows.weights.sum())
    least_noise = noise.variance if rows.noise_variances is None else float(rows.noise_variances.min())
    variance = float(kernel.evaluate_diagonal(rows.X).max())
    share = tolerance * least_noise / (2.0 * n * variance)
    mean_square = float(np.average(rows.Y**2, axis=0, weights=rows.weights).max())
    return min(share**2 * variance / mean_square, share) if mean_square > 0.0 else share


def by_centroid(kernel: Kernel, X: Floats, centroids: Floats) -> list[tuple[int, Indices]]:
    """Group rows by their nearest centroid, whatever the order of the rows.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    X : ndarray of shape (n, d)
    centroids : ndarray of shape (n_centroids, d)

    Returns
    -------
    list of (int, ndarray of int)
        A centroid that is nearest to some row, and these rows, ascending.
    """
    if not len(centroids) or not len(X):
        return []
    labels = nearest_centroids(kernel.in_lengthscales(X), kernel.in_lengthscales(centroids))
    order, counts = ordered(labels, len(centroids)), np.bincount(labels, minlength=len(centroids))
    (used,) = np.nonzero(counts)
    return list(zip(used.tolist(), np.split(order, np.cumsum(counts[used])[:-1]), strict=True))


def cell_keys(points: Floats, side: float) -> Indices | None:
    """Return a number for each point that those of the same cube of this side share; None where there are too many."""
    cells = np.floor(points / side)
    cells -= cells.min(axis=0)
    shape = cells.max(axis=0) + 1.0
    if float(np.prod(shape)) >= MOST_CELLS:
        return None
    return np.ravel_multi_index(tuple(cells.astype(np.int64).T), tuple(shape.astype(np.int64)))


def numbered(keys: Indices) -> tuple[Indices, Indices]:
    """Return the number of each key among the distinct ones, ascending, and how often each of these comes.

    Parameters
    ----------
    keys : ndarray of int of shape (n,)
        Not negative.
    """
    if keys.max(initial=0) > 4 * len(keys) + 2**16:
        _, numbers, counts = np.unique(keys, return_inverse=True, return_counts=True)
        return numbers, counts
    # Few possible keys: without sorting.
    counts = np.bincount(keys)
    held = counts > 0
    return (np.cumsum(held) - 1)[keys], counts[held]


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
    as_they_are = rows.with_targets(np.zeros(len(rows)))
    keys = cell_keys(kernel.in_lengthscales(rows.X), side)
    if keys is None:
        return as_they_are
    cell, counts = numbered(keys)
    if len(counts) > WORTH * len(keys):
        return as_they_are
    precision = noise.variance / noise.of_weighted_rows(rows)
    sums: Floats = np.bincount(cell, precision).astype(np.float64)
    # About the mean, so that no digits are lost far from the origin.
    centre = rows.X.mean(axis=0)
    means = np.stack([np.bincount(cell, precision * column) / sums for column in (rows.X - centre).T], axis=1)
    return Rows(means + centre, np.zeros(len(sums)), sums)
