"""The variogram: how unlike rows are at a distance, in the data and by the model."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from lmgp.columns.places import OnSphere
from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.metrics.scorers import last_step
from lmgp.plots.canvas import LINE, axes_for, sample
from lmgp.utils.parameters import checked_count

# Pairs are those of this number of rows at most, up to this share of the largest distance: of larger ones, there are
# few, and all of them have a row at the border.
MOST_ROWS, REACH = 2000, 0.5
# A point that fewer pairs make says little.
FEWEST_PAIRS = 30
# Of more columns, distances are in lengthscales.
MOST_COLUMNS = 3


def variogram(model: Any, X: ArrayLike, y: ArrayLike, *, n_bins: int = 15, ax: Axes | None = None) -> Axes:
    """Draw half of the mean squared difference of pairs of rows over their distance, beside what the model expects.

    Parameters
    ----------
    model : fitted regressor
        A Gaussian process of this package and of one target, or a pipeline that ends in one.
    X : array-like of shape (n, d)
        Rows, such as those of training; of more than 2,000, a random sample.
    y : array-like of shape (n,)
        Their targets.
    n_bins : int, default=15
        The number of distances.
    ax : matplotlib.axes.Axes, optional
        Those of a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Points are the empirical variogram of y less the trend. The line is the mean over the same pairs of what the
        kernel and the variance of the noise make of it, so that it holds whatever the kernel is. Where the process
        describes the rows, points scatter around the line, most of all at short distances.

    Raises
    ------
    InputError
        If the model is no such process, `n_bins` is no positive integer, or there are fewer than 30 pairs of rows.

    Notes
    -----
    Distances are in km where columns are places on the sphere, in the unit of X of up to three columns, and in
    lengthscales of more.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, GaussianKernel, plots
    >>> X = np.random.default_rng(0).uniform(0, 9, (200, 2))
    >>> model = ExactGPRegressor(GaussianKernel(1.0), 0.01).fit(X, np.sin(X[:, 0]))
    >>> plots.variogram(model, X, np.sin(X[:, 0])).get_xlabel()
    'distance'
    """
    last, rows = last_step(model, X)
    if not hasattr(last, "kernel_") or not hasattr(last, "_fitted"):
        raise InputError(
            f"A variogram is drawn of a Gaussian process of lmgp; got a {type(last).__name__}. Of a transformed target "
            "give its regressor_, and y on its scale."
        )
    n_bins = checked_count(n_bins, "n_bins must be a positive integer")
    inputs, targets = last._read_pair(rows, y, reset=False)
    fit = last._state()
    if targets.ndim > 1 or len(fit.scales) > 1:
        raise InputError("A variogram is drawn of one target, y of shape (n,); got y of shape (n, t).")
    drawn = sample(len(inputs), MOST_ROWS)
    places, left = last._coordinates(inputs[drawn]), targets[drawn]
    left = left - (fit.trend.columns(places) @ fit.level)[:, 0]
    distance, label = _distances(last, inputs[drawn], places)
    observed = 0.5 * np.square(pdist(left[:, None]))
    edges = np.linspace(0.0, REACH * float(distance.max(initial=0.0)), n_bins + 1)
    bins = np.digitize(distance, edges[1:-1])
    bins[distance > edges[-1]] = n_bins
    counts = np.bincount(bins, minlength=n_bins + 1)[:n_bins]
    kept = counts >= FEWEST_PAIRS
    if not kept.any():
        raise InputError(f"A variogram needs {FEWEST_PAIRS} pairs of rows at a distance; got {len(left)} rows.")

    def means(values: Floats) -> Floats:
        return (np.bincount(bins, values, minlength=n_bins + 1)[:n_bins][kept] / counts[kept]).astype(np.float64)

    ax, at, noise = axes_for(ax), means(distance), fit.scales[0] ** 2 * fit.variance_of_noise
    ax.plot(at, means(observed), "o", color="black", markersize=4, label="rows")
    ax.plot(at, means(noise + fit.scales[0] ** 2 * _expected(fit.kernel, places)), color=LINE, label="model")
    ax.axhline(noise, color=LINE, linewidth=1, linestyle=":", label="noise variance")
    ax.set(xlabel=label, ylabel="half of the mean squared difference", xlim=(0.0, None), ylim=(0.0, None))
    ax.legend(fontsize="small")
    return ax


def _distances(model: Any, inputs: Floats, places: Floats) -> tuple[Floats, str]:
    """Return the distances of all pairs of rows, and the label of their axis."""
    if OnSphere() in model._table.kinds:
        return pdist(places[:, :3]), "distance in km"
    few = inputs.shape[1] <= MOST_COLUMNS and model._table.is_plain  # in one unit, none missing
    if few or not model.kernel_.can("metric"):
        return pdist(inputs), "distance"
    return pdist(model.kernel_.in_lengthscales(places)), "distance in lengthscales"


def _expected(kernel: Any, places: Floats) -> Floats:
    """Return (k(x, x) + k(x′, x′))/2 − k(x, x′) of all pairs of rows."""
    covariance = np.asarray(kernel(places, places))
    diagonal, pairs = covariance.diagonal(), np.triu_indices(len(places), 1)
    return np.asarray(0.5 * (diagonal[pairs[0]] + diagonal[pairs[1]]) - covariance[pairs])
