"""The figure of a comparison: how near the exact GP each method comes, and how well it predicts, over n_features."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from lmgp.experiments.protocol import EXACT, METHODS
from lmgp.experiments.report import by_line, mean
from lmgp.experiments.results import Row, replace
from lmgp.experiments.runner import Comparison

# A method has a colour and a marker of its own, a threshold a dash pattern: lines differ without their colours too.
_COLOURS = (
    "#0072b2", "#56b4e9", "#5e4fa2", "#8c8c8c", "#d55e00", "#8c510a", "#e69f00",
    "#b2182b", "#000000", "#009e73", "#66a61e", "#cc79a7", "#1b7837", "#c51b7d", "#e31a1c",
)  # fmt: skip
_MARKERS = "os^vDpP*X<>hdH8"
_DASHES = ("-", "--", ":", "-.")
_SPREAD = 1.3  # from the first to the last line at one n_features
_LEAST = {"kl": 1e-12, "rmse": 0.0}  # what is less, zero among it, is drawn there: the axes are logarithmic


def figure(comparison: Comparison) -> Figure:
    """Draw the mean KL divergence per row and the RMSE over n_features, one line a method and threshold.

    Bars span the least and the greatest value over the seeds.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    matplotlib.figure.Figure
        With an Agg canvas: no global state of matplotlib is touched.
    """
    fig = Figure(figsize=(13, 5), layout="constrained")
    FigureCanvasAgg(fig)
    panels = dict(zip(("kl", "rmse"), fig.subplots(1, 2), strict=True))
    sizes: dict[tuple[str, float | None], list[list[Row]]] = {}
    for (_, method, threshold), rows in sorted(by_line(comparison.rows).items(), key=lambda item: item[0][0]):
        sizes.setdefault((method, threshold), []).append(rows)
    order = list(METHODS)
    thresholds = sorted({threshold for _, threshold in sizes if threshold is not None})
    lines = sorted(sizes, key=lambda line: (order.index(line[0]), line[1] or 0.0))
    for position, (method, threshold) in enumerate(lines):
        number = order.index(method)
        style = {
            "color": _COLOURS[number],
            "marker": _MARKERS[number],
            "linestyle": _DASHES[0 if threshold is None else thresholds.index(threshold) % len(_DASHES)],
            "label": METHODS[method].label + ("" if threshold is None else f", threshold {threshold:g}"),
        }
        # Lines are set apart a little, so that equal values and their bars stay visible.
        shift = _SPREAD ** ((position + 0.5) / len(lines) - 0.5)
        for name, axes in panels.items():
            _draw(axes, name, sizes[method, threshold], shift, style)
    exact = mean((row for row in comparison.rows if row.method == EXACT), "rmse")
    panels["rmse"].axhline(exact, color="black", linewidth=2.5, alpha=0.4, label="exact GP", zorder=1)
    for axes in panels.values():
        axes.set(xscale="log", yscale="log", xlabel="n_features")
        ticks = sorted(set(comparison.settings.n_features))
        axes.set_xticks(ticks, map(str, ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        low, high = axes.get_ylim()
        if high < 10.0 * low:  # within a decade powers of ten say little
            axes.yaxis.set_major_formatter("{x:.4g}")
            axes.yaxis.set_minor_formatter("{x:.4g}")
        axes.grid(axis="y", which="both", alpha=0.2)
    cut = any(row.kl is not None and row.kl < _LEAST["kl"] for row in comparison.rows)
    panels["kl"].set(
        ylabel="KL(approximation ‖ exact), nats per row",
        title="Distance from the exact GP" + (f" ({_LEAST['kl']:g}: or less)" if cut else ""),
    )
    panels["rmse"].set(ylabel=f"RMSE, units of {comparison.dataset.target_name}", title="Error on the test rows")
    settings = comparison.settings
    fig.suptitle(
        f"{comparison.dataset.name}: protocol {settings.protocol.name}, mean and range over {settings.seeds} seed(s)"
    )
    handles, labels = panels["rmse"].get_legend_handles_labels()
    fig.legend(handles[1:] + handles[:1], labels[1:] + labels[:1], loc="outside right center", fontsize="small")
    return fig


def _draw(axes: Axes, name: str, sizes: list[list[Row]], shift: float, style: dict[str, Any]) -> None:
    x = [(rows[0].n_features or 0) * shift for rows in sizes]
    values = [[max(getattr(row, name), _LEAST[name]) for row in rows] for rows in sizes]
    middle = np.array([np.mean(of_size) for of_size in values])
    bars = np.abs([[min(of_size) for of_size in values] - middle, [max(of_size) for of_size in values] - middle])
    axes.errorbar(x, middle, bars, markersize=4.5, linewidth=1.2, elinewidth=0.8, capsize=2, **style)


def save(comparison: Comparison, path: Path) -> None:
    """Draw the figure and write it as a PNG, whole or not at all.

    Parameters
    ----------
    comparison : Comparison
    path : Path
        In a folder that exists.
    """
    buffer = io.BytesIO()
    figure(comparison).savefig(buffer, format="png", dpi=150)
    replace(path, buffer.getvalue())
