"""The figure of a comparison: how near the exact GP each method comes over n_features, and how well it predicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from lmgp.experiments.drawing import BLACK, BLUE, GREEN, ORANGE, PINK, new_figure, plain, render
from lmgp.experiments.report import by_line, mean
from lmgp.experiments.results import Row, replace
from lmgp.experiments.runner import Comparison
from lmgp.methods import EXACT, METHODS


@dataclass(frozen=True)
class Look:
    """How lines look: a method has a colour and a marker, a threshold a dash pattern.

    Attributes
    ----------
    colours, markers : tuple of str
        In the order of the methods of a panel: lines differ without their colours too.
    dashes : tuple
        In the order of the thresholds.
    others : str
        The colour of the lines of other panels.
    least : float
        Divergences below it, zero among them, are drawn there: the axis is logarithmic.
    label_gap : float
        The least distance of two labels, as a share of a panel's height.
    """

    colours: tuple[str, ...] = (BLUE, ORANGE, GREEN, BLACK, PINK)
    markers: tuple[str, ...] = ("o", "s", "^", "D", "v")
    dashes: tuple[str, ...] = ("-", "--", ":", "-.")
    others: str = "#dddddd"
    least: float = 1e-12
    label_gap: float = 0.085


LOOK = Look()


class Line(NamedTuple):
    """One method at one threshold: its rows size by size, and how it is drawn.

    Of a method without a size, the same rows are drawn at every size.
    """

    method: str
    threshold: float | None
    at: tuple[int, ...]
    sizes: tuple[list[Row], ...]
    colour: str
    marker: str
    dashes: str

    @property
    def label(self) -> str:
        """What the line is called."""
        return METHODS[self.method].label + ("" if self.threshold is None else f", T = {self.threshold:g}")

    @property
    def short_label(self) -> str:
        """What the line is called in the panel of its family."""
        return self.label.removeprefix("global Maclaurin, ").removeprefix("local Maclaurin, ")

    @property
    def filled(self) -> str:
        """The colour within its markers: hollow are those of a method without a size."""
        return self.colour if METHODS[self.method].sized else "white"

    def values(self, name: str, least: float) -> list[list[float]]:
        """Return one field of all seeds, size by size."""
        return [[max(getattr(row, name), least) for row in rows] for rows in self.sizes]


def figure(comparison: Comparison) -> Figure:
    """Draw the KL divergence per row over n_features, one panel a family, and the RMSE at the largest n_features.

    The lines of the other families are grey in each panel. Bars span the least and the greatest value over the seeds.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    matplotlib.figure.Figure
        With an Agg canvas: no global state of matplotlib is touched.
    """
    panels = _panels(comparison)
    n_rows = 1 if len(panels) < 3 else 2
    n_columns = max(1, -(-len(panels) // n_rows))
    fig = new_figure(4.4 * n_columns + 5.0, 3.6 * n_rows + 1.0)
    grid = fig.add_gridspec(n_rows, n_columns + 1, width_ratios=[1.0] * n_columns + [0.95])
    first: Axes | None = None
    every = [line for lines in panels.values() for line in lines]
    for number, (title, lines) in enumerate(panels.items()):
        axes = fig.add_subplot(grid[divmod(number, n_columns)], sharex=first, sharey=first)
        _draw_family(axes, title, lines, every, comparison.settings.n_features)
        if number % n_columns == 0:
            axes.set_ylabel("KL(approximation ‖ exact)\nnats per row")
        first = first or axes
    if first is not None:  # after all lines are drawn, which set the limits of the shared axes
        for axes, lines in zip(fig.axes, panels.values(), strict=True):
            _label_ends(axes, lines)
    _draw_errors(fig.add_subplot(grid[:, n_columns]), comparison, every)
    fig.suptitle(_title(comparison, every))
    return fig


def save(comparison: Comparison, path: Path) -> None:
    """Draw the figure and write it as a PNG, whole or not at all.

    Parameters
    ----------
    comparison : Comparison
    path : Path
        In a folder that exists.
    """
    replace(path, render(figure(comparison), "png", dpi=130))


def _title(comparison: Comparison, lines: Sequence[Line]) -> str:
    settings = comparison.settings
    title = f"{plain(comparison.dataset.name)}: protocol {settings.protocol.name}"
    title += f", mean and range over {settings.seeds} seeds" if settings.seeds > 1 else ", one seed"
    if any(line.threshold is not None for line in lines):
        title += ". T: threshold, in lengthscales"
    if not all(METHODS[line.method].sized for line in lines):
        title += ". Hollow: without n_features"
    if any(row.kl is not None and row.kl < LOOK.least for row in comparison.rows):
        title += f". {LOOK.least:g}: or less"
    return title


def _panels(comparison: Comparison) -> dict[str, list[Line]]:
    """Group the lines by family, in the order of the registry."""
    sizes: dict[tuple[str, float | None], dict[int, list[Row]]] = {}
    for (size, method, threshold), rows in sorted(by_line(comparison.rows).items(), key=lambda item: item[0][0] or 0):
        every = sorted(set(comparison.settings.n_features)) if size is None else [size]
        sizes.setdefault((method, threshold), {}).update(dict.fromkeys(every, rows))
    thresholds = sorted({threshold for _, threshold in sizes if threshold is not None})
    titles: dict[str, list[str]] = {title: [] for title in _FAMILIES}
    for method in METHODS:
        if any(method == one for one, _ in sizes):
            titles[_family(method)].append(method)
    panels: dict[str, list[Line]] = {}
    for title, methods in titles.items():
        for number, method in enumerate(methods):
            for at in sorted((t for one, t in sizes if one == method), key=lambda t: t or 0.0):
                look = LOOK.colours[number % len(LOOK.colours)], LOOK.markers[number % len(LOOK.markers)]
                dashes = LOOK.dashes[0 if at is None else thresholds.index(at) % len(LOOK.dashes)]
                of_line = sizes[method, at]
                panels.setdefault(title, []).append(
                    Line(method, at, tuple(of_line), tuple(of_line.values()), *look, dashes)
                )
    return panels


_FAMILIES = ("Fourier", "Maclaurin, global", "Maclaurin, local", "Taylor", "training rows", "others")


def _family(name: str) -> str:
    """Return the title of a method's panel."""
    method = METHODS[name]
    if method.family == "Maclaurin":
        return "Maclaurin, local" if method.localized else "Maclaurin, global"
    if method.family == "rows":
        return "training rows"
    return method.family if method.family in _FAMILIES else "others"


def _draw_family(axes: Axes, title: str, lines: Sequence[Line], every: Sequence[Line], ticks: Sequence[int]) -> None:
    for line in every:
        x, (middle, bars) = line.at, _middle(line.values("kl", LOOK.least))
        if line not in lines:
            axes.plot(x, middle, color=LOOK.others, linewidth=1.0, zorder=1)
            continue
        axes.errorbar(
            x, middle, bars, color=line.colour, marker=line.marker, linestyle=line.dashes, markersize=5, linewidth=1.5,
            elinewidth=0.8, capsize=2, zorder=3, label=line.label, markerfacecolor=line.filled,
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", title=title, xlabel="n_features")
    axes.set_xticks(sorted(set(ticks)), map(str, sorted(set(ticks))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", alpha=0.25)


def _label_ends(axes: Axes, lines: Sequence[Line]) -> None:
    """Write each line's name beside its last point, moved up or down where two would overlap."""
    axes.autoscale_view()  # brings the limits up to date, which the transformation needs
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = []
    for line in lines:
        middle, _ = _middle(line.values("kl", LOOK.least))
        height = float(to_axes.transform((line.at[-1], middle[-1]))[1])
        ends.append((height if np.isfinite(height) else 1.0, line))
    ends.sort(key=lambda end: end[0])
    at = spread([height for height, _ in ends], LOOK.label_gap)
    for (height, line), place in zip(ends, at, strict=True):
        axes.annotate(
            line.short_label, (1.0, height), (1.06, place), xycoords="axes fraction", textcoords="axes fraction",
            color=line.colour, fontsize="small", va="center",
            arrowprops={
                "arrowstyle": "-", "color": line.colour, "linewidth": 0.6, "relpos": (0, 0.5), "shrinkA": 0,
                "shrinkB": 0,
            },
        )  # fmt: skip


def spread(places: Sequence[float], gap: float) -> list[float]:
    """Move ascending places apart to a least distance, with the least sum of squared moves.

    Parameters
    ----------
    places : sequence of float
        Ascending.
    gap : float

    Returns
    -------
    list of float
    """
    # With the gaps taken out the answer ascends: pool neighbours that do not (isotonic regression).
    blocks: list[tuple[float, int]] = []
    for number, place in enumerate(places):
        blocks.append((place - number * gap, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (mean_b, n_b), (mean_a, n_a) = blocks.pop(), blocks.pop()
            blocks.append(((mean_a * n_a + mean_b * n_b) / (n_a + n_b), n_a + n_b))
    ascending = [value for value, count in blocks for _ in range(count)]
    return [value + number * gap for number, value in enumerate(ascending)]


def _draw_errors(axes: Axes, comparison: Comparison, every: Sequence[Line]) -> None:
    """Draw the RMSE at the largest size as dots, the least on top."""
    largest = max(comparison.settings.n_features)
    found = []
    for line in every:
        of_size = dict(zip(line.at, line.sizes, strict=True)).get(largest)
        if of_size:
            found.append(([row.rmse for row in of_size], line))
    found.sort(key=lambda one: float(np.mean(one[0])), reverse=True)
    for height, (errors, line) in enumerate(found):
        (middle,), bars = _middle([errors])
        axes.errorbar(
            middle, height, xerr=bars, color=BLACK, marker="o", markersize=5, elinewidth=1.0, capsize=2,
            linestyle="none", markerfacecolor=BLACK if METHODS[line.method].sized else "white",
        )  # fmt: skip
    exact = mean((row for row in comparison.rows if row.method == EXACT), "rmse")
    axes.axvline(exact, color=BLACK, linewidth=2.5, alpha=0.4, zorder=1)
    axes.annotate("exact GP", (exact, 1.0), (0, 3), xycoords=("data", "axes fraction"), textcoords="offset points",
                  ha="center", va="bottom", fontsize="small")  # fmt: skip
    middles = [float(np.mean(errors)) for errors, _ in found]
    if middles and max(middles) > 10.0 * min(middles) > 0.0:
        axes.set_xscale("log")
    axes.set_yticks(range(len(found)), [line.label for _, line in found], fontsize="small")
    axes.set_ylim(-0.6, max(len(found), 1) - 0.4)
    axes.set_title(f"RMSE at n_features = {largest}", pad=18, loc="right")
    axes.set_xlabel(f"units of {plain(comparison.dataset.target_name)}")
    axes.grid(axis="both", alpha=0.25)


def _middle(values: Sequence[Sequence[float]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of each group, and the distances to its least and greatest value, shape (2, n)."""
    middle = np.array([np.mean(group) for group in values])
    bars = np.abs([[min(group) for group in values] - middle, [max(group) for group in values] - middle])
    return middle, bars
