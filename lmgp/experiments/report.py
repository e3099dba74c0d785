"""The report of a comparison: a table as plain text, and a figure over the number of features."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from sklearn.isotonic import isotonic_regression

from lmgp.experiments.compare import MEAN_ERROR, TEXT, Comparison, iterates, prepare
from lmgp.metrics import nlpd
from lmgp.plots.canvas import BLACK, COLOURS, DASHES, MARKERS, new_figure, plain, render
from lmgp.plots.learned import LEAST, line_label
from lmgp.posteriors.iterative import LANDMARKS, NEIGHBORS
from lmgp.saving.output import write_whole
from lmgp.selection.methods import EXACT, METHODS
from lmgp.utils.trials import aligned

LEGEND = (
    "KL in nats, approximation to exact GP, noise included. Means over seeds; s.d. of KL/row over seeds.\n"
    "D: columns made; of nearest_rows the rows that predict, of spectral the modes. threshold: in lengthscales.\n"
    "*: nearest to the exact GP at this n_features."
)
# The columns of the table: their heading, the field, and how its mean is shown.
_COLUMNS = (
    ("threshold", "threshold", ".3g"), ("D", "n_features_out", ".9g"), ("centroids", "n_centroids", ".9g"),
    ("KL/row", "kl", ".3g"), ("s.d.", "spread", ".1g"), ("KL sum", "kl_sum", ".3g"),
    ("reverse KL", "reverse_kl", ".3g"), ("RMSE", "rmse", ".4g"), ("NLPD", "nlpd", ".4g"),
    ("95% cover", "coverage", ".1%"), ("CRPS", "crps", ".4g"), ("fit s", "fit_seconds", ".3f"),
    ("predict s", "predict_seconds", ".3f"),
)  # fmt: skip


def averages(rows: pd.DataFrame) -> pd.DataFrame:
    """Average the rows of each method over the seeds.

    Parameters
    ----------
    rows : DataFrame
        Of a `Comparison`.

    Returns
    -------
    DataFrame
        One row for each method, ``n_features`` and ``threshold``, in the order of `rows`: the means, NaN where a value
        is NaN for any seed; ``spread``, the standard deviation of ``kl``; and ``seeds``, the number of seeds that there
        are rows of, which failures make fewer. Without the reference.
    """
    keys = ["method", "n_features", "threshold"]
    groups = rows[rows.method != EXACT].groupby(keys, dropna=False, sort=False)
    numbers = [name for name in rows.columns if name not in (*keys, *TEXT)]
    frame = groups[numbers].agg(lambda values: values.to_numpy().mean())
    with np.errstate(invalid="ignore"):  # of infinite divergences
        frame["spread"] = groups.kl.std()
    frame["seeds"] = groups.size()
    return frame.reset_index()


# ---------------------------------------------------------------------------------------------------------- the table


def table(comparison: Comparison) -> str:
    """Make the block of text for one data set.

    A heading describes the data and the exact GP. Then, for each n_features, the methods follow from the nearest to the
    exact GP to the furthest, those that failed for a seed behind the others; those without a size come last.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
        Lines of text, the last one ended.
    """
    ranked = averages(comparison.rows).sort_values(["n_features", "seeds", "kl"], ascending=[True, False, True])
    n_seeds = comparison.settings.seeds
    headings = [heading for heading, *_ in _COLUMNS]
    cells, breaks, nearest = [["method", *headings]], {}, []
    for size, group in ranked.groupby("n_features", dropna=False):
        breaks[len(cells)] = "without n_features" if math.isnan(size) else f"n_features = {size:g}"
        if not math.isnan(size) or len(group) == len(ranked):
            nearest.append(group.iloc[0])
        for number, (_, line) in enumerate(group.iterrows()):
            partial = "" if line.seeds == n_seeds else f" ({line.seeds} of {n_seeds} seeds)"
            best = number == 0 and not math.isnan(size) and not partial
            cells.append([f"{'*' if best else ' '} {line.method}{partial}", *_shown(line)])
    body = []
    for number, line in enumerate(aligned(cells, 1)):
        body += [breaks[number], line] if number in breaks else [line]
    exact = comparison.rows[comparison.rows.method == EXACT]
    template = Environment(
        loader=PackageLoader("lmgp.experiments"),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    ).get_template("comparison.txt")
    return template.render(
        vars(comparison),
        exact=exact,
        mean=exact.mean(numeric_only=True),
        lengthscales=_lengthscales(comparison, exact),
        standardised=comparison.settings.standardises(comparison.dataset),
        iterated=iterates(exact.n_train.max()),
        mean_error=MEAN_ERROR,
        n_neighbors=NEIGHBORS,
        n_landmarks=LANDMARKS,
        body="\n".join(body),
        nearest=nearest,
        trivial=_trivial_nlpd(comparison),
        span=span,
    )


def _shown(line: "pd.Series[float]") -> Iterator[str]:
    for _, name, form in _COLUMNS:
        value = round(line[name], 1) if form == ".9g" else line[name]
        yield "-" if math.isnan(value) else format(value, form)


def selections(comparison: Comparison) -> str:
    """Make the block of text that says what the method "auto" tried and chose.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
        For each n_features a table of the first seed, and a line for each other one; empty without that method.
    """
    from lmgp.selection.record import Selection

    lines = []
    chosen = comparison.rows[comparison.rows.selection != ""].sort_values(["n_features", "seed"])
    for row in chosen.itertuples():
        selection, cell = Selection.from_json(row.selection), f"seed {row.seed:g}, {row.method}, D = {row.n_features:g}"
        if row.seed == 0:
            lines += ["", f"{cell}: what was tried, up to max_features = {row.n_features:g}", str(selection)]
        else:
            trial = selection.chosen
            size = f"size {trial.n_features}" + (f", threshold {trial.threshold:g}" if trial.threshold else "")
            lines.append(f"{cell}: {trial.method}, {size}; KL/row {trial.kl:.2g} on the probes")
    return "".join(f"{line}\n" for line in lines)


def _trivial_nlpd(comparison: Comparison) -> float:
    """Score the prediction of every test row by the mean and the s.d. of the training targets; the mean over seeds."""
    scores = []
    for seed in comparison.rows.seed.unique():
        rows = prepare(comparison.dataset, comparison.settings, int(seed))
        shape = rows.y_test.shape
        scores.append(nlpd(rows.y_test, np.full(shape, rows.y_train.mean()), np.full(shape, rows.y_train.var())))
    return float(np.mean(scores))


def _lengthscales(comparison: Comparison, exact: pd.DataFrame) -> str:
    """Show the lengthscales with the names and the units of their columns."""
    standardised = comparison.settings.standardises(comparison.dataset)
    names = comparison.dataset.feature_names
    of_seeds = [list(map(float, text.split())) for text in exact.lengthscale]
    if len(names) > 1 and all(len(lengthscales) == 1 for lengthscales in of_seeds):
        unit = "in s.d. of each column" if standardised else "in units of the columns"
        return f"lengthscale {span(value for (value,) in of_seeds)} ({unit})"
    unit = "s.d." if standardised else "units"
    of_columns = zip(names, zip(*of_seeds, strict=True), strict=True)
    return "lengthscale " + ", ".join(f"{span(values)} {unit} of {name}" for name, values in of_columns)


def span(values: Iterable[float], digits: int = 4) -> str:
    """Show one number where all agree to the digits shown, else the least and the greatest."""
    ordered = sorted(values)
    return " to ".join(dict.fromkeys(f"{value:.{digits}g}" for value in (ordered[0], ordered[-1])))


# --------------------------------------------------------------------------------------------------------- the figure

_PANELS = ("Fourier", "Maclaurin, global", "Maclaurin, local", "Taylor", "training rows", "others")
_KEYS = ["method", "threshold"]  # of a line
_GAP = 0.085  # the least distance of two labels, as a share of a panel's height


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
    rows = _drawn_rows(comparison)
    lines = [line for _, line in rows.groupby(_KEYS, sort=False, dropna=False)]
    panels = [panel for panel in _PANELS if panel in set(rows.panel)]
    n_rows = 1 if len(panels) < 3 else 2
    n_columns = max(1, -(-len(panels) // n_rows))
    fig = new_figure(4.4 * n_columns + 5.0, 3.6 * n_rows + 1.0)
    grid = fig.add_gridspec(n_rows, n_columns + 1, width_ratios=[1.0] * n_columns + [0.95])
    first: Axes | None = None
    for number, panel in enumerate(panels):
        axes = fig.add_subplot(grid[divmod(number, n_columns)], sharex=first, sharey=first)
        _draw_panel(axes, panel, lines, comparison.settings.n_features)
        if number % n_columns == 0:
            axes.set_ylabel("KL(approximation ‖ exact)\nnats per row")
        first = first or axes
    for axes, panel in zip(fig.axes, panels, strict=True):  # after all lines, which set the limits of the shared axes
        _label_ends(axes, [line for line in lines if line.panel.iloc[0] == panel])
    _draw_errors(fig.add_subplot(grid[:, n_columns]), comparison, rows)
    fig.suptitle(_title(comparison, rows))
    return fig


def save(comparison: Comparison, path: Path) -> None:
    """Draw the figure and write it as a PNG, whole or not at all.

    Parameters
    ----------
    comparison : Comparison
    path : Path
        In a folder that exists.
    """
    write_whole(path, render(figure(comparison), "png", dpi=130))


def _title(comparison: Comparison, rows: pd.DataFrame) -> str:
    settings = comparison.settings
    title = f"{plain(comparison.dataset.name)}: protocol {settings.protocol.name}"
    title += f", mean and range over {settings.seeds} seeds" if settings.seeds > 1 else ", one seed"
    if rows.threshold.notna().any():
        title += ". T: threshold, in lengthscales"
    if not rows.sized.all():
        title += ". Hollow: without n_features"
    if (comparison.rows.kl < LEAST).any():
        title += f". {LEAST:g}: or less"
    return title


def _drawn_rows(comparison: Comparison) -> pd.DataFrame:
    """Return the rows line by line, in the order of the registry, each with the look of its line.

    Those of a method without a size are there once for every size.
    """
    rows = comparison.rows[comparison.rows.method != EXACT]
    sized = rows.method.map(lambda method: METHODS[method].sized).astype(bool)
    rows = rows.assign(kl=rows.kl.clip(lower=LEAST), sized=sized)
    sizes = pd.Series(sorted(set(comparison.settings.n_features)), name="n_features", dtype=float)
    everywhere = rows[~sized].drop(columns="n_features").merge(sizes, how="cross")
    rows = pd.concat([rows[sized], everywhere])
    order = {name: number for number, name in enumerate(METHODS)}
    rows = rows.sort_values(_KEYS, kind="stable", key=lambda keys: keys.map(order) if keys.name == "method" else keys)
    rows["panel"] = rows.method.map(_panel)
    of_panel = rows.groupby("panel").method.transform(lambda methods: pd.factorize(methods)[0])
    of_threshold = pd.factorize(rows.threshold, sort=True)[0].clip(min=0)
    return rows.assign(
        label=list(map(line_label, rows.method, rows.threshold)),
        colour=[COLOURS[number % len(COLOURS)] for number in of_panel],
        marker=[MARKERS[number % len(MARKERS)] for number in of_panel],
        dashes=[DASHES[number % len(DASHES)] for number in of_threshold],
    )


def _panel(name: str) -> str:
    method = METHODS[name]
    where = {"Maclaurin": "Maclaurin, local" if method.localized else "Maclaurin, global", "rows": "training rows"}
    panel = where.get(method.family, method.family)
    return panel if panel in _PANELS else "others"


def _draw_panel(axes: Axes, panel: str, lines: Sequence[pd.DataFrame], n_features: Sequence[int]) -> None:
    for line in lines:
        look, middle = line.iloc[0], line.groupby("n_features").kl.mean()
        if look.panel != panel:
            axes.plot(middle, color="#dddddd", linewidth=1.0, zorder=1)
            continue
        axes.errorbar(
            middle.index, middle.to_numpy(), _bars(line.groupby("n_features").kl), color=look.colour,
            marker=look.marker, linestyle=look.dashes, markersize=5, linewidth=1.5, elinewidth=0.8, capsize=2, zorder=3,
            label=look.label, markerfacecolor=look.colour if look.sized else "white",
        )  # fmt: skip
    ticks = sorted(set(n_features))
    axes.set(xscale="log", yscale="log", title=panel, xlabel="n_features")
    axes.set_xticks(ticks, map(str, ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", alpha=0.25)


def _label_ends(axes: Axes, lines: Sequence[pd.DataFrame]) -> None:
    """Write each line's name beside its last point, moved up or down where two would overlap."""
    axes.autoscale_view()  # brings the limits up to date, which the transformation needs
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = []
    for line in lines:
        last = line[line.n_features == line.n_features.max()]
        height = float(to_axes.transform((last.n_features.iloc[0], last.kl.mean()))[1])
        ends.append((height if np.isfinite(height) else 1.0, line.iloc[0]))
    ends.sort(key=lambda end: end[0])
    for (height, look), place in zip(ends, spread([height for height, _ in ends], _GAP), strict=True):
        axes.annotate(
            look.label.removeprefix("global Maclaurin, ").removeprefix("local Maclaurin, "), (1.0, height),
            (1.06, place), xycoords="axes fraction", textcoords="axes fraction", color=look.colour, fontsize="small",
            va="center", arrowprops={
                "arrowstyle": "-", "color": look.colour, "linewidth": 0.6, "relpos": (0, 0.5), "shrinkA": 0,
                "shrinkB": 0,
            },
        )  # fmt: skip


def spread(places: Sequence[float], gap: float) -> np.ndarray:
    """Move ascending places apart to a least distance, with the least sum of squared moves."""
    gaps = gap * np.arange(len(places))
    return isotonic_regression(np.asarray(places) - gaps) + gaps if len(places) else gaps


def _draw_errors(axes: Axes, comparison: Comparison, rows: pd.DataFrame) -> None:
    """Draw the RMSE at the largest size as dots, the least on top."""
    largest = max(comparison.settings.n_features)
    lines = [line for _, line in rows[rows.n_features == largest].groupby(_KEYS, sort=False, dropna=False)]
    lines.sort(key=lambda line: float(line.rmse.mean()), reverse=True)
    for height, line in enumerate(lines):
        axes.errorbar(
            line.rmse.mean(), height, xerr=_bars(line.groupby("n_features").rmse), color=BLACK, marker="o",
            markersize=5, elinewidth=1.0, capsize=2, linestyle="none",
            markerfacecolor=BLACK if line.sized.iloc[0] else "white",
        )  # fmt: skip
    exact = comparison.rows[comparison.rows.method == EXACT].rmse.mean()
    axes.axvline(exact, color=BLACK, linewidth=2.5, alpha=0.4, zorder=1)
    axes.annotate("exact GP", (exact, 1.0), (0, 3), xycoords=("data", "axes fraction"), textcoords="offset points",
                  ha="center", va="bottom", fontsize="small")  # fmt: skip
    if lines and lines[0].rmse.mean() > 10.0 * lines[-1].rmse.mean() > 0.0:
        axes.set_xscale("log")
    axes.set_yticks(range(len(lines)), [line.label.iloc[0] for line in lines], fontsize="small")
    axes.set_ylim(-0.6, max(len(lines), 1) - 0.4)
    axes.set_title(f"RMSE at n_features = {largest}", pad=18, loc="right")
    axes.set_xlabel(f"units of {plain(comparison.dataset.target_name)}")
    axes.grid(axis="both", alpha=0.25)


def _bars(groups: Any) -> np.ndarray:
    """Return the distances from the mean of each group to its least and greatest value, shape (2, n)."""
    at = groups.agg(["mean", "min", "max"])
    return np.abs(at[["min", "max"]].sub(at["mean"], axis=0)).to_numpy().T
