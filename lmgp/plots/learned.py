"""What was learned and chosen: the importance of columns, divergences over size, and columns of a map by degree."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike, NDArray

from lmgp.errors import InputError
from lmgp.plots import canvas
from lmgp.selection.methods import METHODS
from lmgp.selection.record import RecipeTrial, Selection

# Divergences below it, zero among them, are drawn there: the axis is logarithmic.
LEAST = 1e-12
# What is known of each divergence.
COLUMNS = ["label", "size", "kl"]
# Names of columns are cut after these characters.
LONGEST = 24


def importance(model: Any, *, most: int = 20, ax: Axes | None = None) -> Axes:
    """Draw how much each column matters, `importance_`, with its standard error, the largest on top.

    Parameters
    ----------
    model : fitted regressor
        One of this package and of one target, or a pipeline that ends in one.
    most : int, default=20
        The number of columns that are drawn, the most important ones.
    ax : matplotlib.axes.Axes, optional
        Those of a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        If the model has no `importance_`, or several targets.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, GaussianKernel, plots
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> model = ExactGPRegressor(GaussianKernel(2.0), noise_variance=0.01).fit(X, 3.0 * X[:, 0] + X[:, 2])
    >>> [label.get_text() for label in plots.importance(model).get_yticklabels()]
    ['column 1', 'column 2', 'column 0']
    """
    last = canvas.final_step(model)
    try:
        values, errors = last.importance_, last.importance_error_
    except AttributeError as error:
        raise InputError(
            f"Importance is drawn of a regressor of lmgp that knows its training rows, such as GPRegressor. {error}"
        ) from error
    if values.ndim > 1:
        raise InputError("Importance is drawn of one target, y of shape (n,): importance_ has that of each target.")
    if most < 1:
        raise InputError(f"most must be at least 1; got {most}.")
    known = getattr(last, "feature_names_in_", None)
    names = [f"column {j}" for j in range(len(values))] if known is None else [short(str(name)) for name in known]
    order = np.argsort(-values, kind="stable")[:most][::-1]
    ax = canvas.axes_for(ax)
    ax.barh(np.arange(len(order)), values[order], xerr=errors[order], color=canvas.LINE, ecolor="black", capsize=2.0)
    ax.set_yticks(np.arange(len(order)), [names[j] for j in order])
    middle, half = 0.5 * (len(order) - 1), max(0.5 * len(order), 2.0)
    ax.set_ylim(middle - half, middle + half)
    if len(order) > 10:
        ax.tick_params(axis="y", labelsize="small")
    ax.set_xlabel("importance: fall of R² where the column is shuffled", loc="right")
    if len(order) < len(values):
        ax.set_title(f"{len(order)} of {len(values)} columns", fontsize="small")
    return ax


def allocation(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw how many columns a Taylor or Maclaurin map gives to each degree of the kernel's series.

    Parameters
    ----------
    model : fitted map, or fitted model with such a map
        `TaylorFeatures`, `OptimizedMaclaurinFeatures` or `RandomMaclaurinFeatures`, or a model whose ``features_`` they
        are.
    ax : matplotlib.axes.Axes, optional
        Those of a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        With one bar a degree; of a kernel that is a sum, the bars of its components stand on each other.

    Raises
    ------
    InputError
        If there is no such map.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import TaylorFeatures, plots
    >>> features = TaylorFeatures(n_features=10).fit(np.zeros((5, 2)))
    >>> [int(bar.get_height()) for bar in plots.allocation(features).patches]
    [1, 2, 3, 4]
    """
    counts = _degree_counts(model)
    ax = canvas.axes_for(ax)
    highest = max(map(len, counts))
    below = np.zeros(highest)
    for number, of_component in enumerate(counts):
        heights = np.pad(of_component, (0, highest - len(of_component)))
        ax.bar(
            np.arange(highest), heights, bottom=below, color=canvas.COLOURS[number % len(canvas.COLOURS)],
            edgecolor="white", hatch=("", "///", "...", "\\\\\\")[number % 4],
            label=f"component {number + 1}" if len(counts) > 1 else None,
        )  # fmt: skip
        below += heights
    for degree, height in enumerate(below):
        ax.annotate(
            f"{int(height):,}", (degree, height), (0, 2), textcoords="offset points", ha="center", fontsize="small"
        )
    ax.margins(y=0.12)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="degree", ylabel="columns", title=f"{int(below.sum()):,} columns")
    if len(counts) > 1:
        canvas.legend_below(ax, *ax.get_legend_handles_labels())
    return ax


def _degree_counts(model: Any) -> list[NDArray[np.intp]]:
    """Return the columns of each degree, for each component of the kernel."""
    last = canvas.final_step(model)
    last = getattr(last, "model_", last)
    features = last if hasattr(last, "parts") else getattr(last, "features_", None)
    counts_of_degrees = []
    for part in getattr(features, "parts", ()):
        if (counts := getattr(part, "degree_counts_", None)) is not None:
            counts_of_degrees.append(np.asarray(counts))
        elif (exponents := getattr(part, "exponents_", None)) is not None:
            counts_of_degrees.append(np.bincount(np.asarray(exponents).sum(axis=1)))
    if not counts_of_degrees:
        got = type(last).__name__ + ("" if features is None or features is last else f" on {type(features).__name__}")
        raise InputError(
            "An allocation is drawn of a fitted Taylor or Maclaurin map, or of a model that has one as features_; got "
            f"{got}."
        )
    return counts_of_degrees


def kl_over_size(results: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the divergence from the exact GP over size, one line a method and threshold.

    Parameters
    ----------
    results : fitted GPRegressor, Selection, path or dict
        What `GPRegressor` tried to choose a model, its ``selection_``, with the tolerance as a line and the choice as a
        ring; or the ``results.csv`` that `lmgp compare` wrote; or ``{label: (sizes, divergences)}`` with sizes of shape
        (m,), and KL per row of shape (m,), or (m, n_seeds) for means with their range.
    ax : matplotlib.axes.Axes, optional
        Those of a new figure if not given.

    Returns
    -------
    matplotlib.axes.Axes
        Values below 1e-12, zero among them, are drawn there.

    Raises
    ------
    InputError
        If there is nothing to draw, or a size or divergence is not a number of its range.

    Examples
    --------
    >>> from lmgp import plots
    >>> ax = plots.kl_over_size({"random Fourier": ([32, 128, 512], [0.5, 0.2, 0.04])})
    >>> ax.get_xscale(), ax.get_yscale()
    ('log', 'log')
    """
    measured, selection = _measured(results)
    ax = canvas.axes_for(ax, canvas.HEIGHT * kl_height(results))
    for number, (label, line) in enumerate(measured.groupby("label", sort=False)):
        at = line.groupby("size").agg(kl=("kl", "mean"), low=("kl", "min"), high=("kl", "max"))
        ax.errorbar(
            at.index, at.kl, [at.kl - at.low, at.high - at.kl] if (at.low < at.high).any() else None, label=label,
            color=canvas.COLOURS[number % len(canvas.COLOURS)], marker=canvas.MARKERS[number % len(canvas.MARKERS)],
            markersize=5, linestyle=canvas.DASHES[number % len(canvas.DASHES)], linewidth=1.5,
            elinewidth=0.8, capsize=2, zorder=3,
        )  # fmt: skip
    if selection is not None:
        ax.axhline(selection.tolerance, color="black", linewidth=1.0, zorder=1, label="tolerance")
        chosen = selection.chosen
        if _drawn(chosen):
            ax.plot(
                chosen.n_features, max(chosen.kl, LEAST), "o", markersize=13, markerfacecolor="none", zorder=4,
                markeredgecolor="black", label="chosen", linestyle="none",
            )  # fmt: skip
    sizes = np.unique(measured["size"])
    ax.set(xscale="log", yscale="log", xlabel="size: columns of the map, or nearest rows")
    ax.set_ylabel("KL from the exact GP\nnats a row")
    if len(sizes) <= 8:
        ax.set_xticks(sizes, [f"{size:g}" for size in sizes])
        ax.set_xticks([], minor=True)
    ax.grid(axis="y", alpha=0.25)
    handles, labels = ax.get_legend_handles_labels()
    canvas.legend_below(ax, handles, labels)
    return ax


def kl_height(results: Any) -> float:
    """Return the height that `kl_over_size` needs with its legend, as a multiple of the usual one."""
    measured, selection = _measured(results)
    labels = [*measured.label.unique(), *["other"] * (1 if selection is None else 3)]
    return 0.95 + 0.06 * -(-len(labels) // canvas.legend_columns(labels))


def _measured(results: Any) -> tuple[pd.DataFrame, Selection | None]:
    """Return a table of divergences, with the label of each one's line, and the selection that they are of."""
    chooser = getattr(results, "regressor_", results)  # of a model of a transformed target
    selection = results if isinstance(results, Selection) else getattr(chooser, "selection_", None)
    if isinstance(results, Mapping):
        lines = [_given(str(label), *pair) for label, pair in results.items()]
        measured = pd.concat(lines) if lines else pd.DataFrame()
    elif isinstance(results, str | os.PathLike):
        measured = _of_file(Path(results))
    elif selection is not None:
        trials = filter(_drawn, selection.trials)
        lines = [(line_label(trial.method, trial.threshold), trial.n_features, trial.kl) for trial in trials]
        measured = pd.DataFrame(lines, columns=COLUMNS)
    else:
        raise InputError(
            "Divergences over size are those of a fitted GPRegressor, its selection_, a results.csv of lmgp compare, "
            f"or {{label: (sizes, divergences)}}; got {type(results).__name__}."
        )
    if measured.empty:
        raise InputError("There are no divergences over size: nothing with a size was measured. So few rows need none.")
    return measured.assign(label=measured.label.map(canvas.plain), kl=measured.kl.clip(lower=LEAST)), selection


def _given(label: str, sizes: ArrayLike, values: ArrayLike) -> pd.DataFrame:
    """Check the sizes and divergences of one line."""
    x, kl = np.asarray(sizes, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or kl.ndim not in (1, 2) or len(x) != len(kl) or not kl.size:
        raise InputError(
            f"{label!r} needs sizes of shape (m,) and divergences of shape (m,) or (m, n_seeds); got {x.shape} and "
            f"{kl.shape}."
        )
    if not (np.all(x > 0.0) and np.all(kl >= 0.0) and np.isfinite(x).all() and np.isfinite(kl).all()):
        raise InputError(f"{label!r} needs positive sizes and finite divergences that are not negative.")
    sizes = np.repeat(x, kl.size // len(x))
    return pd.DataFrame({"label": label, "size": sizes, "kl": kl.ravel()})


def _of_file(path: Path) -> pd.DataFrame:
    """Read the lines of a results file; of several settings, those that were measured last."""
    if not path.is_file():
        raise InputError(f"There is no file {path}; give the results.csv that lmgp compare wrote.")
    try:
        rows = pd.read_csv(path)[["settings", "method", "n_features", "threshold", "kl"]]
    except (ValueError, KeyError) as error:
        raise InputError(f"{path} is not a results.csv of lmgp compare: {error}") from error
    rows = rows[rows.settings == rows.settings.iloc[-1]] if len(rows) else rows
    rows = rows[rows.n_features.notna() & np.isfinite(rows.kl)]
    labels = [line_label(method, threshold) for method, threshold in zip(rows.method, rows.threshold, strict=True)]
    return rows.assign(label=labels, size=rows.n_features)


def _drawn(trial: RecipeTrial) -> bool:
    """Say whether a trial has a size and a divergence; the exact GP is its own reference."""
    return trial.method != "exact" and trial.n_features > 0 and bool(np.isfinite(trial.kl))


def line_label(method: str, threshold: float | None) -> str:
    """Return the name of the line of a method at a threshold, if it has one."""
    name = METHODS[method].label if method in METHODS else method
    return name + ("" if threshold is None or np.isnan(threshold) else f", T = {threshold:g}")


def short(name: str) -> str:
    """Return the name of a column for a label, cut where it is long."""
    return canvas.plain(name if len(name) <= LONGEST else name[: LONGEST - 1] + "…")
