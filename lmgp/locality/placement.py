"""Where centroids are, and how far the model around each of them has to look."""

import numpy as np
from numpy.typing import NDArray

from lmgp.kernels.base import Kernel
from lmgp.locality.clustering import farthest_point_clustering, nearest_centroids
from lmgp.locality.places import distinct_places
from lmgp.noise import Noise
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


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
    centroids = farthest_point_clustering(
        kernel.scale(places), threshold, start=mean / lengthscale, max_centroids=max_centroids
    )
    centroids *= lengthscale
    # Not through the lengthscale and back: with one centroid this is the global model, to the last digit.
    centroids[0] = mean
    return centroids


def negligible_share(rows: Rows, kernel: Kernel, noise: Noise, tolerance: float) -> float:
    """Return the share ε of its prior variance below which a row may be left out.

    Parameters
    ----------
    rows : Rows
        With y centred.
    kernel : Kernel
        Stationary.
    noise : Noise
    tolerance : float
        τ, see the notes of `lmgp.inference.local.LocalPosterior`.

    Returns
    -------
    float
    """
    n = float(len(rows.y) if rows.weights is None else rows.weights.sum())
    least_noise = noise.variance if rows.noise_variances is None else float(rows.noise_variances.min())
    variance = float(kernel.diagonal(rows.X[:1])[0])
    share = tolerance * least_noise / (2.0 * n * variance)
    mean_square = float(np.average(rows.y**2, weights=rows.weights))
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
    labels = nearest_centroids(kernel.scale(X), kernel.scale(centroids))
    if len(centroids) <= np.iinfo(np.uint16).max:
        labels = labels.astype(np.uint16)  # numpy sorts these by their digits
    order, counts = np.argsort(labels, kind="stable"), np.bincount(labels, minlength=len(centroids))
    (used,) = np.nonzero(counts)
    return list(zip(used.tolist(), np.split(order, np.cumsum(counts[used])[:-1]), strict=True))
