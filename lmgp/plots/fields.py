"""Predictions over one and two input columns, and where the centroids of a localized model are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.metrics.gaussian import checked_level, checked_values
from lmgp.plots import canvas


def band(
    model: Any,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    level: float = 0.95,
    include_noise: bool = False,
    n_points: int = 400,
    ax: Axes | None = None,
) -> Axes:
    """Draw the predictive mean over one input column, with a band that holds the function with some probability.

    Parameters
    ----------
    model : fitted regressor
        One of this package, or a pipeline that ends in one.
    X : array-like of shape (n, 1)
        Rows, numbers or dates, whose extent is drawn, and 5% more on both sides.
    y : array-like of shape (n,), optional
        Their targets, which are drawn as points.
    level : float, default=0.95
        The probability of the band, strictly between 0 and 1.
    include_noise : bool, default=False
        Whether the band is of new observations, with their noise, instead of the function. Off by default: the curve is
        the function.
    n_points : int, default=400
        Where the curve is computed.
    ax : matplotlib.axes.Axes, optional
        Those of a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        If the model or X have another number of columns than one, or there are no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, GaussianKernel, plots
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = ExactGPRegressor(GaussianKernel(1.0), noise_variance=0.01).fit(X, np.sin(X[:, 0]))
    >>> plots.band(model, X, np.sin(X[:, 0])).get_xlabel()
    'x'
    """
    rows = canvas.checked_rows(model, X, 1, "A band")
    X, dates = canvas.as_numbers(model, X)
    checked_level(level)
    targets = None if y is None else checked_values({"y": y})[0]
    if targets is not None and targets.shape != (len(rows),):
        raise InputError(f"y must have one value for each of the {len(rows)} rows of X; got shape {targets.shape}.")
    places = np.linspace(*canvas.extent(rows[:, 0], 0.05), _count(n_points))
    mean, _, lower, upper = canvas.predict(model, places[:, None], X, dates, include_noise, level)
    ax = canvas.axes_for(ax)
    of = "new observations" if include_noise else "the function"
    ax.fill_between(places, lower, upper, color=canvas.FILL, alpha=0.45, linewidth=0, label=f"{100 * level:g}% of {of}")
    ax.plot(places, mean, color=canvas.LINE, label="mean")
    if targets is not None:
        drawn = canvas.sample(len(rows))
        some = "" if len(drawn) == len(rows) else f", {len(drawn):,} of {len(rows):,}"
        ax.plot(rows[drawn, 0], targets[drawn], ".", color="black", markersize=4, label=f"rows{some}", zorder=1)
    ax.set(xlabel=canvas.column_names(model, X, 1)[0], ylabel=canvas.target_name(y), xlim=(places[0], places[-1]))
    canvas.show_dates(ax.xaxis) if dates else ax.xaxis.set_major_locator(MaxNLocator(canvas.TICKS))
    ax.legend(fontsize="small")
    return ax


def map(
    model: Any,
    X: ArrayLike,
    *,
    include_noise: bool = False,
    show_rows: bool = True,
    n_points: int = 100,
    ax: Sequence[Axes] | canvas.AxesArray | None = None,
) -> canvas.AxesArray:
    """Draw maps of the predictive mean and of its standard deviation over two input columns.

    Parameters
    ----------
    model : fitted regressor
        One of this package, or a pipeline that ends in one.
    X : array-like of shape (n, 2), or GeoDataFrame or GeoSeries of points
        Rows, whose extent is drawn; two opposite corners will do. The first column goes to the right.
    include_noise : bool, default=False
        Whether the standard deviation is of new observations, with their noise, instead of the function. Off by
        default: a map shows the function.
    show_rows : bool, default=True
        Whether the rows are dots on the map of the standard deviation; of more than 1,000, a random sample.
    n_points : int, default=100
        Places along each column: the map has n_points² of them.
    ax : sequence of 2 matplotlib.axes.Axes, optional
        Those of a new figure if not given.

    Returns
    -------
    ndarray of shape (2,)
        The axes of the mean and of the standard deviation.

    Raises
    ------
    InputError
        If the model or X have another number of columns than two, or there are no rows.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, GaussianKernel, plots
    >>> X = np.random.default_rng(0).uniform(size=(50, 2))
    >>> model = ExactGPRegressor(GaussianKernel(0.3), noise_variance=0.01).fit(X, np.sin(6 * X[:, 0]))
    >>> [ax.get_title() for ax in plots.map(model, X, n_points=20)]
    ['mean', 's.d. of the function']
    """
    rows = canvas.checked_rows(model, X, 2, "A map")
    X, dates = canvas.as_numbers(model, X)
    right, up = (np.linspace(*canvas.extent(column, 0.0), _count(n_points)) for column in rows.T)
    grid = np.stack(np.meshgrid(right, up), axis=-1).reshape(-1, 2)
    mean, std = canvas.predict(model, grid, X, dates, include_noise)
    axes = canvas.two_axes_for(ax)
    names = canvas.column_names(model, X, 2)
    titles = "mean", f"s.d. of {'new observations' if include_noise else 'the function'}"
    for panel, values, title, colours in zip(axes, (mean, std), titles, (canvas.MEAN_MAP, canvas.STD_MAP), strict=True):
        drawn = panel.pcolormesh(right, up, values.reshape(len(up), len(right)), cmap=colours, rasterized=True)
        panel.figure.colorbar(drawn, ax=panel)
        panel.set(title=title, xlabel=names[0], ylabel=names[1])
        panel.xaxis.set_major_locator(MaxNLocator(canvas.TICKS))
        for j in dates:
            canvas.show_dates((panel.xaxis, panel.yaxis)[j])
    if show_rows:
        shown = rows[canvas.sample(len(rows))]
        axes[1].plot(shown[:, 0], shown[:, 1], ".", color=canvas.MARK, markersize=2.5, label="rows")
    return axes


def centroids(model: Any, X: ArrayLike | None = None, *, n_reaches: int = 3, ax: Axes | None = None) -> Axes:
    """Draw the centroids of a localized model over one or two input columns, and how far the rows of some reach.

    Parameters
    ----------
    model : fitted LocalizedGPRegressor, or a GPRegressor that chose one
    X : array-like of shape (n, d), optional
        Rows, which are drawn as dots; of more than 1,000, a random sample.
    n_reaches : int, default=3
        The number of centroids, the first ones, whose reach is drawn: an ellipse, or a line in one column. Training
        rows beyond it are left out of the model around the centroid. The first farthest-point centroids lie far apart.
        A reach that lies beyond the figure, which has the extent of what is drawn three times over, is said to.
    ax : matplotlib.axes.Axes, optional
        Those of a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        If the model has no centroids, or more than two columns.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import GaussianKernel, LocalizedGPRegressor, TaylorFeatures, plots
    >>> X = np.random.default_rng(0).uniform(0, 9, size=(100, 2))
    >>> model = LocalizedGPRegressor(TaylorFeatures(28), kernel=GaussianKernel(1.0), noise_variance=0.01)
    >>> len(plots.centroids(model.fit(X, np.sin(X[:, 0])), X).patches)
    3
    """
    places, radii = _reaches(model)
    n_columns = places.shape[1]
    rows = None if X is None else canvas.checked_rows(model, X, n_columns, "This figure of centroids")
    if n_reaches < 0:
        raise InputError(f"n_reaches must not be negative; got {n_reaches}.")
    ax = canvas.axes_for(ax, 1.15 * canvas.HEIGHT)
    if rows is not None:
        ax.plot(
            *_on_figure(rows[canvas.sample(len(rows))]), ".", color=canvas.PALE, markersize=3, label="rows", zorder=1
        )
    ax.plot(
        *_on_figure(places), "o", color=canvas.LINE, markersize=4.5, label=f"{len(places):,} centroids", zorder=2,
        markeredgecolor="white", markeredgewidth=0.5,
    )  # fmt: skip
    for number, center in enumerate(places[:n_reaches]):
        dashes = canvas.DASHES[number % len(canvas.DASHES)]
        if n_columns == 2:
            ax.add_patch(
                Ellipse(
                    center, 2.0 * radii[0], 2.0 * radii[1], fill=False, edgecolor=canvas.MARK, linestyle=dashes,
                    linewidth=1.5, zorder=3,
                )
            )  # fmt: skip
        else:
            ends = center[0] - radii[0], center[0] + radii[0]
            ax.plot(ends, [number + 1] * 2, color=canvas.MARK, linestyle=dashes, marker="|")
    names = canvas.column_names(model, X, n_columns)
    ax.set_xlabel(names[0])
    ax.xaxis.set_major_locator(MaxNLocator(canvas.TICKS))
    if n_columns == 2:
        ax.set_ylabel(names[1])
        _limit(ax, places if rows is None else np.concatenate((places, rows)))
    else:
        ax.set_yticks([])
    handles, labels = ax.get_legend_handles_labels()
    if n_reaches:
        some = "of each" if n_reaches >= len(places) else "of one" if n_reaches == 1 else f"of {n_reaches}"
        seen = "" if n_columns == 1 or any(_seen(ax, center, radii) for center in places[:n_reaches]) else ", beyond"
        handles, labels = [*handles, Line2D([], [], color=canvas.MARK)], [*labels, f"reach {some}{seen}"]
    canvas.legend_below(ax, handles, labels)
    return ax


def _on_figure(rows: Floats) -> tuple[Floats, Floats]:
    """Return where rows are drawn: those of one column at a height of zero."""
    return rows[:, 0], rows[:, 1] if rows.shape[1] == 2 else np.zeros(len(rows))


def _limit(ax: Axes, places: Floats) -> None:
    """Show all places, and of ellipses around them as much as lies within their extent on each side."""
    ax.autoscale_view()
    (left, right), (low, high) = (canvas.extent(column, 1.0) for column in places.T)
    ax.set_xlim(max(ax.get_xlim()[0], left), min(ax.get_xlim()[1], right))
    ax.set_ylim(max(ax.get_ylim()[0], low), min(ax.get_ylim()[1], high))


def _seen(ax: Axes, center: Floats, radii: Floats) -> bool:
    """Say whether a part of an ellipse is within the limits."""
    angles = np.linspace(0.0, 2.0 * np.pi, 361)
    x, y = center[0] + radii[0] * np.cos(angles), center[1] + radii[1] * np.sin(angles)
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    return bool(np.any((x >= left) & (x <= right) & (y >= low) & (y <= high)))


def _reaches(model: Any) -> tuple[Floats, Floats]:
    """Return the centroids, shape (n_centroids, d), and their reach along each column, in its units, shape (d,)."""
    last = canvas.final_step(model)
    fitted = getattr(last, "model_", last)
    places = getattr(fitted, "centroids_", None)
    if places is None or not len(places) or not np.isfinite(fitted.reach_):
        why = "every test row is its own, or nearest rows predict" if places is not None else type(fitted).__name__
        raise InputError(f"The model has no centroids ({why}). Draw a LocalizedGPRegressor, which places them.")
    if last is not model or not last._table.is_plain:
        raise InputError(
            "The centroids are in the coordinates of the kernel, which are not the columns of X: the model has "
            f"{'steps before it' if last is not model else 'columns of other kinds'}. Draw its last step, or model_."
        )
    if places.shape[1] > 2:
        raise InputError(f"Centroids are drawn over one or two input columns; the model has {places.shape[1]}.")
    radii: Floats = fitted.reach_ * fitted.kernel_.metric(places.shape[1])
    return places, radii


def _count(n_points: int) -> int:
    if n_points < 2:
        raise InputError(f"n_points must be at least 2; got {n_points}.")
    return n_points
