"""How well predictions agree with what was observed: calibration, and prediction against truth."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import binom, norm

from lmgp.errors import InputError
from lmgp.metrics import pit
from lmgp.metrics.gaussian import checked_values
from lmgp.plots import canvas
from lmgp.utils.parameters import checked_count

# The probability of the ranges that chance leaves to a calibrated prediction.
CHANCE = 0.95


def calibration(
    y: ArrayLike,
    mean: Any,
    std: ArrayLike | None = None,
    *,
    levels: ArrayLike | None = None,
    bins: int = 10,
    ax: Sequence[Axes] | canvas.AxesArray | None = None,
) -> canvas.AxesArray:
    """Draw the coverage of central intervals over their level, and the histogram of the PIT.

    The PIT, the probability integral transform, of a row is F(y), which is Φ((y − mean)/std) of a normal distribution.
    Of calibrated predictions it is uniform: a histogram like a hill means distributions too wide, one like a bowl too
    narrow, a slope a biased mean.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    mean : array-like of shape (n,), or distribution
        Predictive means, in the units of y; or the predicted distributions, such as `predict_distribution` returns.
    std : array-like of shape (n,), optional
        Predictive standard deviations of normal distributions, with noise, in the units of y; none of distributions.
    levels : array-like of shape (m,), optional
        Probabilities of intervals, strictly between 0 and 1; if not given, 1% to 99%.
    bins : int, default=10
        Of the histogram.
    ax : sequence of 2 matplotlib.axes.Axes, optional
        Those of a new figure if not given.

    Returns
    -------
    ndarray of shape (2,)
        The axes of the coverage and of the histogram. Shaded is where calibrated predictions of independent rows are
        with a probability of 95%, at each level and in each bin; what was learned from few rows adds to that chance.

    Raises
    ------
    InputError
        If the lengths differ, there are no rows, a value is not finite, a standard deviation is not positive, a
        level is out of its range, or `bins` is no positive integer.

    References
    ----------
    T. Gneiting, F. Balabdaoui and A. E. Raftery, "Probabilistic forecasts, calibration and sharpness", *Journal of the
    Royal Statistical Society B* 69(2), 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import plots
    >>> y = np.random.default_rng(0).normal(size=200)
    >>> coverage, pit = plots.calibration(y, np.zeros(200), np.ones(200))
    >>> len(pit.patches)
    10
    """
    if std is not None:
        y, mean, std = checked_values({"y": y, "mean": mean, "std": std})
    transform = pit(y, mean if std is None else norm(mean, std))
    if transform.ndim > 1:
        raise InputError(f"Calibration is of one target, y of shape (n,); got y of shape {transform.shape}.")
    wanted = np.linspace(0.01, 0.99, 99) if levels is None else np.unique(np.asarray(levels, dtype=np.float64))
    if not len(wanted) or wanted.ndim != 1 or not np.all((wanted > 0.0) & (wanted < 1.0)):
        raise InputError(f"levels must be numbers strictly between 0 and 1; got {levels!r}.")
    bins = checked_count(bins, "bins must be a positive integer")
    axes = canvas.two_axes_for(ax)
    n = len(transform)

    # The level at which an interval's end reaches the target.
    reached = np.sort(np.abs(2.0 * transform - 1.0))
    low, high = binom.interval(CHANCE, n, wanted)
    axes[0].fill_between(wanted, low / n, high / n, color=canvas.FILL, alpha=0.45, linewidth=0, label="by chance, 95%")
    axes[0].plot([0, 1], [0, 1], "--", color=canvas.GREY, linewidth=1.0, label="calibrated")
    axes[0].plot(wanted, np.searchsorted(reached, wanted, side="right") / n, color=canvas.LINE, label=f"{n:,} rows")
    axes[0].set(xlabel="level of the interval", ylabel="share of rows within it", xlim=(0, 1), ylim=(0, 1))
    axes[0].legend(fontsize="small", loc="upper left")

    counts, edges = np.histogram(transform, bins=bins, range=(0.0, 1.0))
    low, high = (float(end) * bins / n for end in binom.interval(CHANCE, n, 1.0 / bins))
    axes[1].bar(
        edges[:-1], counts * bins / n, np.diff(edges), align="edge", color=canvas.FILL, edgecolor="white", label="rows"
    )
    axes[1].fill_between([0, 1], low, high, color="black", alpha=0.15, linewidth=0, zorder=2, label="by chance, 95%")
    axes[1].axhline(1.0, color="black", linestyle="--", linewidth=1.0, zorder=3)
    axes[1].set(xlabel="PIT, F(y)", ylabel="rows, over a uniform count", xlim=(0, 1))
    axes[1].legend(fontsize="small", loc="lower center", ncols=2)
    return axes


def prediction(y: ArrayLike, mean: Any, std: ArrayLike | None = None, *, ax: Axes | None = None) -> Axes:
    """Draw predictive means against what was observed, with bars of one standard deviation.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    mean : array-like of shape (n,), or distribution
        Predictive means, in the units of y; or the predicted distributions, such as `predict_distribution` returns.
    std : array-like of shape (n,), optional
        Predictive standard deviations, in the units of y; none of distributions. Of calibrated predictions with normal
        noise, 68% of the bars cross the diagonal.
    ax : matplotlib.axes.Axes, optional
        Those of a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        With the observed values to the right. Of more than 300 rows, a random sample of this size is drawn.

    Raises
    ------
    InputError
        If the lengths differ, there are no rows, a value is not finite, or a standard deviation is not positive.

    Examples
    --------
    >>> from lmgp import plots
    >>> plots.prediction([1.0, 2.0, 3.0], [1.1, 1.8, 3.0], [0.2, 0.2, 0.2]).get_ylabel()
    'predicted y'
    """
    name = canvas.target_name(y)
    if std is None:
        pit(y, mean)  # which refuses what is no distribution, and other rows than those of y
        mean, std = mean.mean(), mean.std()
    y, mean, std = checked_values({"y": y, "mean": mean, "std": std})
    ax = canvas.axes_for(ax)
    drawn = canvas.sample(len(y), canvas.MOST_BARS)
    ax.errorbar(
        y[drawn], mean[drawn], std[drawn], fmt="o", color=canvas.LINE, ecolor=canvas.FILL, markersize=2.5,
        elinewidth=0.8, label="rows, ± 1 s.d.",
    )  # fmt: skip
    ends = [min(y.min(), mean.min()), max(y.max(), mean.max())]
    ax.plot(ends, ends, "--", color="black", linewidth=1.0, zorder=3, label="predicted = observed")
    ax.set(xlabel=f"observed {name}", ylabel=f"predicted {name}")
    if len(drawn) < len(y):
        ax.set_title(f"{len(drawn):,} of {len(y):,} rows", fontsize="small")
    ax.legend(fontsize="small", loc="upper left")
    return ax
