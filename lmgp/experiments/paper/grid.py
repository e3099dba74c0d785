"""Figure 4: divergence over the number of clusters, and error over the number of features, on three data sets."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator
from scipy.spatial.distance import pdist
from sklearn.preprocessing import StandardScaler

from lmgp.experiments import runner
from lmgp.experiments.drawing import BLACK, BLUE, GREEN, ORANGE, SKY, new_figure
from lmgp.experiments.paper.cells import (
    FEATURES_THRESHOLD,
    PAPER_METHODS,
    Line,
    lines_of,
    lines_over_clusters,
    lines_over_features,
    n_features_of_clusters,
    over_clusters,
    over_features,
)
from lmgp.experiments.paper.published import MEDIAN_DISTANCES
from lmgp.experiments.paper.section import Section, Table
from lmgp.experiments.report import mean
from lmgp.experiments.runner import Comparison
from lmgp.methods import EXACT, METHODS

MEDIAN_ROWS = 3_000


class _Style(NamedTuple):
    colour: str
    marker: str
    dashes: str
    width: float = 1.6


_STYLES = {
    "rff": _Style(BLACK, "o", ":"),
    "sorf": _Style(SKY, "v", ":"),
    # Of one map, the global and the local model have one colour, and other markers and dashes.
    "global_maclaurin_rademacher": _Style(ORANGE, "X", "--"),
    "global_maclaurin_tensor_srht": _Style(BLUE, "<", "--"),
    "local_maclaurin_rademacher": _Style(ORANGE, "s", "-"),
    "local_maclaurin_tensor_srht": _Style(BLUE, "D", "-"),
    # Beyond the paper: thinner.
    "orf": _Style("#7f7f7f", "^", ":", 0.9),
    "global_taylor": _Style(GREEN, "P", "--", 0.9),
    "local_taylor": _Style(GREEN, "h", "-", 0.9),
}


def _draw(axes: Axes, method: str, x: Sequence[float], y: Sequence[float], label: str | None) -> None:
    style = _STYLES[method]
    axes.plot(
        x, y, color=style.colour, marker=style.marker, linestyle=style.dashes, linewidth=style.width,
        markersize=5 if style.width > 1 else 4, label=label, zorder=3 if style.width > 1 else 2,
    )  # fmt: skip


def _draw_published(axes: Axes, method: str, points: Sequence[tuple[float, float]]) -> None:
    """Draw hollow markers."""
    style = _STYLES[method]
    axes.plot(
        *np.array(points).reshape(-1, 2).T, color=style.colour, marker=style.marker, linestyle="none", markersize=9,
        markerfacecolor="none", markeredgewidth=0.9, alpha=0.7, zorder=1,
    )  # fmt: skip


def _ticks(axes: Axes, values: Sequence[float]) -> None:
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log" and high < 10.0 * low:  # within a decade powers of ten say little
        axes.yaxis.set_major_formatter("{x:.3g}")
        axes.yaxis.set_minor_formatter("{x:.3g}")
    axes.set_xticks(sorted(set(values)), [f"{value:.4g}" for value in sorted(set(values))])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(axis="x", labelsize="small")
    axes.grid(axis="y", which="major", alpha=0.25)


def _legend(figure: Figure, panels: Sequence[Axes], comparisons: Sequence[Comparison], exact: bool) -> None:
    handles, labels = panels[0].get_legend_handles_labels()
    if any(line.published for comparison in comparisons for line in lines_of(comparison)):
        handles.append(panels[0].plot([], [], "o", color="#555555", markersize=9, markerfacecolor="none")[0])
        labels.append("as published (hollow)")
    if exact:
        handles.append(panels[0].plot([], [], color=BLACK, linewidth=3, alpha=0.3)[0])
        labels.append("exact GP")
    # Handles long enough to tell dashed from solid.
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small", handlelength=5.0)


def _panel_title(comparison: Comparison) -> str:
    row = comparison.rows[0]
    return f"{comparison.dataset.name}: n = {row.n_train:,}, d = {row.n_inputs}, {comparison.settings.seeds} seed(s)"


def _panels(comparisons: Sequence[Comparison]) -> tuple[Figure, Sequence[Axes]]:
    """Make a figure with one titled panel a data set, side by side."""
    figure = new_figure(4.6 * len(comparisons), 4.9)
    panels = figure.subplots(1, len(comparisons), squeeze=False)[0]
    for axes, comparison in zip(panels, comparisons, strict=True):
        axes.set_title(_panel_title(comparison))
    return figure, panels


def clusters_section(comparisons: Sequence[Comparison]) -> Section:
    """Draw the divergence over the number of clusters.

    Parameters
    ----------
    comparisons : sequence of Comparison
        One a data set, of several thresholds.

    Returns
    -------
    Section
    """
    figure, panels = _panels(comparisons)
    notes = []
    for axes, comparison in zip(panels, comparisons, strict=True):
        size = n_features_of_clusters(comparison.settings.n_features)
        lines = lines_over_clusters(comparison)
        local = {line.threshold: line.mean("n_centroids") for line in lines if line.threshold is not None}
        counts = list(local.values()) or [1.0]
        for method in _STYLES:
            of_method = sorted((line for line in lines if line.method == method), key=lambda line: line.threshold or 0)
            if not of_method:  # could not be made
                continue
            if METHODS[method].localized:
                x = [line.mean("n_centroids") for line in of_method]
                known = [line.published for line in of_method if line.published]
                _draw_published(axes, method, [(cell.n_centroids or 1.0, cell.kl) for cell in known])
                _draw(axes, method, x, [line.mean("kl") for line in of_method], METHODS[method].label)
            else:
                value = of_method[0].mean("kl")
                _draw(axes, method, [min(counts), max(counts)], [value, value], METHODS[method].label)
        axes.set(xscale="log", yscale="log", xlabel=f"clusters, at {size} features")
        _ticks(axes, [round(count, 1) for count in counts])
        axes.tick_params(axis="x", rotation=45 if len(counts) > 5 else 0)
        notes.append(_compared(comparison.dataset.name, lines))
    panels[0].set_ylabel("KL(approximation ‖ exact), nats per row")
    _legend(figure, panels, comparisons, exact=False)
    return Section(
        "figure-4-clusters",
        "Figure 4, top: divergence over the number of clusters",
        (
            "Clusters come from farthest-point clustering of the training rows at thresholds of 2⁻³ to 2⁴ lengthscales "
            "(those that were run); a global model is the same at every threshold. Thin lines are beyond the paper.",
            *notes,
        ),
        figure,
        (_medians(comparisons), over_clusters(comparisons)),
    )


def _compared(name: str, lines: Sequence[Line]) -> str:
    """Say which of the paper's models is nearest to the exact GP, and what more clusters do."""
    of_paper = [line for line in lines if line.method in PAPER_METHODS]
    best = min(of_paper, key=lambda line: line.mean("kl"))
    placed = "" if best.n_centroids is None else f", {best.n_centroids:.4g} cluster(s)"
    text = (
        f"{name}: at {best.n_features} features the nearest to the exact GP of the paper's models is "
        f"{METHODS[best.method].label}{placed}, KL {best.mean('kl'):.3g} nats per row."
    )
    local = [line for line in of_paper if line.method == "local_maclaurin_tensor_srht"]
    if len(local) > 1:
        ends = sorted(local, key=lambda line: line.n_centroids or 0.0)
        few, many = ends[0], ends[-1]
        text += (
            f" From {few.n_centroids:.4g} to {many.n_centroids:.4g} cluster(s) the KL of {METHODS[few.method].label} "
            f"goes from {few.mean('kl'):.3g} to {many.mean('kl'):.3g}."
        )
    return text


def _medians(comparisons: Sequence[Comparison]) -> Table:
    """Set the lengthscales beside the median heuristic that the paper quotes."""
    rows = []
    for comparison in comparisons:
        X = runner.prepare(comparison.dataset, comparison.settings, 0).X_train[:MEDIAN_ROWS]
        lengthscale = float(np.mean([row.lengthscale[0] for row in comparison.rows if row.method == EXACT]))
        ours, known = float(np.median(pdist(StandardScaler().fit_transform(X)))), comparison.dataset.name
        quoted = MEDIAN_DISTANCES.get(known)
        rows.append((known, lengthscale, float(np.median(pdist(X))), ours, quoted, ours / quoted if quoted else None))
    columns = (
        "data set", "lengthscale", "median distance, inputs as used", "median distance, standardised",
        "published median distance", "ratio",
    )  # fmt: skip
    caption = (
        f"Median pairwise distance of the training inputs (of at most {MEDIAN_ROWS:,} rows, seed 0), the usual guess "
        "at a lengthscale. The published ones are those of standardised inputs, also for yacht, whose published "
        "numbers of clusters are reached only with inputs that are not."
    )
    return Table("figure-4-lengthscales", caption, columns, tuple(rows))


def features_section(comparisons: Sequence[Comparison]) -> Section:
    """Draw the root mean squared error over the number of features, at a fixed number of clusters.

    Parameters
    ----------
    comparisons : sequence of Comparison
        One a data set, with a threshold of 2.

    Returns
    -------
    Section
    """
    figure, panels = _panels(comparisons)
    notes = []
    for axes, comparison in zip(panels, comparisons, strict=True):
        lines = lines_over_features(comparison)
        for method in _STYLES:
            of_method = sorted((line for line in lines if line.method == method), key=lambda line: line.n_features)
            known = [(float(line.n_features), line.published.rmse) for line in of_method if line.published]
            _draw_published(axes, method, known)
            x, y = [line.n_features for line in of_method], [line.mean("rmse") for line in of_method]
            _draw(axes, method, x, y, METHODS[method].label)
        exact = mean((row for row in comparison.rows if row.method == EXACT), "rmse")
        axes.axhline(exact, color=BLACK, linewidth=3, alpha=0.3, zorder=0)
        counts = [line.mean("n_centroids") for line in lines if line.threshold is not None]
        axes.set(
            xscale="log",
            xlabel=f"features D, with {np.mean(counts):.4g} cluster(s)",
            ylabel=f"RMSE, {comparison.dataset.target_name}",
        )
        top = max(line.mean("rmse") for line in lines)
        if top > 4.0 * exact:
            axes.set_yscale("log")
        _ticks(axes, comparison.settings.n_features)
        notes.append(f"{comparison.dataset.name}: RMSE of the exact GP {exact:.4g}.")
    _legend(figure, panels, comparisons, exact=True)
    return Section(
        "figure-4-features",
        "Figure 4, bottom: error over the number of features",
        (
            f"Root mean squared error on the test rows, localized models at a threshold of {FEATURES_THRESHOLD:g} "
            "lengthscales. Thin lines are beyond the paper.",
            *notes,
        ),
        figure,
        (over_features(comparisons),),
    )
