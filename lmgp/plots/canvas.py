"""What all figures share: their look and fonts, the axes they are on, and the rows and predictions they show."""

import io
import logging
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text
from matplotlib.transforms import ScaledTranslation
from numpy.typing import ArrayLike, NDArray
from pandas import DataFrame
from sklearn.utils.validation import check_array

from lmgp.columns.dates import Dates
from lmgp.columns.table import columns_of
from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.grids import check_model, predicted, with_names
from lmgp.io.geometry import has_geometry, without_geometry
from lmgp.metrics.scorers import end_of
from lmgp.utils.columns import label, pandas_frame
from lmgp.utils.dates import EPOCH, days_since, in_utc

AxesArray = NDArray[Any]  # of Axes

_LOG = logging.getLogger(__name__)

# Distinct in colour and, through their lightness, in grey; for people with any colour vision.
BLACK, BLUE, ORANGE, GREEN, PINK, SKY = "#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9"

# The font that matplotlib brings, and fonts for characters that it lacks: those of Chinese, Japanese and Korean that
# are common on Linux, Windows and macOS, and then any other script.
FONTS = (
    "DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei", "Droid Sans Fallback", "Microsoft YaHei", "SimHei", "MS Gothic", "Yu Gothic",
    "Malgun Gothic", "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Noto Sans", "Arial Unicode MS",
)  # fmt: skip


# Of one panel, in inches. Text of the default size is then read at a width of 390 pixels.
WIDTH, HEIGHT = 4.4, 3.4

# A curve, a range around it, and what stands out; what is beside the point, and rows behind what stands out.
LINE, FILL, MARK = BLUE, SKY, ORANGE
GREY, PALE = "#767676", "#a8a8a8"

# Of several lines, in their order; they differ in all three.
COLOURS = (BLUE, ORANGE, BLACK, GREEN, PINK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", ":", "-.")

# Colour maps whose lightness rises or falls throughout.
MEAN_MAP, STD_MAP = "cividis", "Purples"

# Intervals between ticks to the right, at most: numbers of six digits have room.
TICKS = 5

# Of more rows than this, a random sample of this size is drawn: as points, and as points with bars.
MOST_POINTS, MOST_BARS = 1000, 300


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure, in inches, with a canvas of its own: no global state of matplotlib is touched."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain(text: str) -> str:
    """Escape what matplotlib would read as mathematics: for the names of a user's columns and files."""
    return text.replace("$", r"\$")


def render(figure: Figure, form: str, **options: Any) -> bytes:
    """Draw a figure, with fonts that have the characters of its text as far as such fonts are installed.

    Parameters
    ----------
    figure : Figure
    form : {"png", "pdf"}
    **options
        Of `Figure.savefig`, such as ``dpi``.

    Returns
    -------
    bytes
        The content of the file. Characters that no installed font has are drawn as boxes, and named in the log.
    """
    content, missing = _saved(figure, form, options)
    if missing:
        installed = set(fontManager.get_font_names())
        for text in figure.findobj(Text):
            text.set_fontfamily([name for name in FONTS if name in installed])
        content, missing = _saved(figure, form, options)
    if missing:
        _LOG.warning(
            "no installed font has the characters %s, which are drawn as boxes; install one that has, such as Noto "
            "Sans CJK",
            missing if len(missing) <= 20 else f"{missing[:20]} and {len(missing) - 20} more",
        )
    return content


def _saved(figure: Figure, form: str, options: dict[str, Any]) -> tuple[bytes, str]:
    """Draw a figure, and return the characters that its fonts lack."""
    buffer = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", message="Glyph .* missing from font")
        figure.savefig(buffer, format=form, **options)
    glyphs = set()
    for warning in caught:
        if match := re.match(r"Glyph (\d+) .*missing", str(warning.message)):
            glyphs.add(int(match[1]))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return buffer.getvalue(), "".join(map(chr, sorted(glyphs)))


def axes_for(ax: Axes | None, height: float = HEIGHT) -> Axes:
    """Return the axes given, or those of a new figure of pyplot, which a notebook then shows."""
    if ax is None:
        _, ax = pyplot.subplots(figsize=(WIDTH, height), layout="constrained")
    elif not isinstance(ax, Axes):
        raise InputError(f"ax must be Matplotlib axes, such as those of plt.subplots(); got {type(ax).__name__}.")
    return ax


def two_axes_for(ax: Sequence[Axes] | AxesArray | None) -> AxesArray:
    """Return the two axes given, or those of a new figure, one below the other; shape (2,)."""
    if ax is None:
        _, axes = pyplot.subplots(2, 1, figsize=(WIDTH, 1.8 * HEIGHT), layout="constrained")
        return np.asarray(axes)
    pair = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    if len(pair) != 2 or not all(isinstance(axes, Axes) for axes in pair):
        got = "one" if isinstance(ax, Axes) else f"{len(pair)} objects"
        raise InputError(f"ax must be two Matplotlib axes, such as those of plt.subplots(1, 2)[1]; got {got}.")
    return pair


def final_step(model: Any) -> Any:
    """Return the model at the end of pipelines and searches; of one of a transformed target, that of the target."""
    check_model(model)
    last = end_of(model)
    return end_of(getattr(last, "regressor_", last))


def as_numbers(model: Any, X: Any) -> tuple[Any, list[int]]:
    """Return a table of numbers: points are two columns, and dates of the model's days since 1970-01-01, as in figures.

    Returns
    -------
    table : array-like of shape (n, d)
    dates : list of int
        The columns of dates.
    """
    columns, X = columns_of(model), pandas_frame(X)
    if columns is None:
        return without_geometry(X)[0] if has_geometry(X) else X, []
    table = columns.table(X)
    dates = {j: kind for (j, *_), kind, _ in columns.parts if isinstance(kind, Dates)}
    if dates:
        table = table.copy() if hasattr(table, "iloc") else DataFrame(table, columns=columns.names)
        for j, kind in dates.items():
            days = kind.read(table.iloc[:, j], label(table, "X", j))
            table.isetitem(j, days_since(EPOCH, np.datetime64(kind.first)) + days)
    return table, list(dates)


def show_dates(axis: Axis) -> None:
    """Label an axis of days since 1970-01-01 with dates."""
    locator = AutoDateLocator(minticks=3, maxticks=TICKS)
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator))


def checked_rows(model: Any, X: ArrayLike | None, n_columns: int, what: str) -> Floats:
    """Return the rows that a figure of one or two input columns shows, shape (n, n_columns), some perhaps with gaps.

    Parameters
    ----------
    model : fitted model
    X : array-like of shape (n, n_columns) or None
    n_columns : int
        The columns that such a figure has.
    what : str
        The figure, for messages.

    Raises
    ------
    InputError
        If the model or X have another number of columns, there are no rows, or the model takes no gaps and X has one.
    """
    check_model(model)
    columns = "one input column" if n_columns == 1 else f"{n_columns} input columns"
    got = getattr(model, "n_features_in_", n_columns)
    if got != n_columns:
        instead = "plots.map" if got == 2 else "plots.band" if got == 1 else "plots.importance or plots.prediction"
        raise InputError(f"{what} is of {columns}; the model has {got}. Use {instead}.")
    if X is None:
        raise InputError(f"{what} needs rows X of shape (n, {n_columns}), whose extent it shows; got none.")
    finite = columns_of(model) is None or "allow-nan"
    try:
        rows: Floats = check_array(as_numbers(model, X)[0], dtype=np.float64, ensure_all_finite=finite, input_name="X")
        if np.isnan(rows).any(axis=1).all():
            raise ValueError("No row of X has all coordinates.")
    except ValueError as error:
        raise InputError(f"{what} needs rows X of shape (n, {n_columns}), whose extent it shows. {error}") from error
    if rows.shape[1] != n_columns:
        raise InputError(f"{what} is of {columns}; X has shape {rows.shape}.")
    table: Any = pandas_frame(X)
    if np.ndim(model.predict(with_names(model, table[:1]))) > 1:
        raise InputError(
            f"{what} is of one target; the model has several, or a column of one. Fit a model to the target that it is "
            "to show, y[:, j]."
        )
    return rows


def column_names(model: Any, X: Any, n_columns: int) -> list[str]:
    """Return the names of input columns: those of a data frame, or of the model, or x, or x0 and x1."""
    names = getattr(X, "columns", None)
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = ["x"] if n_columns == 1 else [f"x{j}" for j in range(n_columns)]
    return [plain(str(name)) for name in names]


def target_name(y: Any) -> str:
    """Return the name of a column of targets, or y."""
    name = getattr(y, "name", None)
    return "y" if name is None else plain(str(name))


def predict(
    model: Any, rows: Floats, X: Any, dates: Sequence[int], include_noise: bool, level: float | None = None
) -> tuple[Floats, ...]:
    """Predict means, standard deviations, and the ends of intervals of a level, at rows that are named as those of X.

    Raises
    ------
    InputError
        If the model has no such predictions.
    """
    given: Any = type(X)(rows, columns=X.columns) if hasattr(X, "iloc") else rows
    for j in dates:
        given.isetitem(j, in_utc(rows[:, j]))
    try:
        return tuple(predicted(model, given, True, include_noise, level).values())
    except TypeError as error:
        if "return_std" not in str(error) and "include_noise" not in str(error):
            raise
        raise InputError(
            "A band or a map needs predict(X, return_std=True, include_noise=...), as the Gaussian-process regressors "
            f"of lmgp have it; {type(model).__name__} has not: {error}"
        ) from error


def extent(values: Floats, margin: float) -> tuple[float, float]:
    """Return the range of known values with a margin, a share of it, on both sides; one of one where it has none."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    width = (high - low) * margin if high > low else 0.5
    return low - width, high + width


def sample(n: int, most: int = MOST_POINTS) -> NDArray[np.intp]:
    """Return the rows that are drawn: all, or a random sample, always the same, in ascending order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def legend_below(ax: Axes, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Draw a legend under the axes and their label, where it hides nothing."""
    below = ax.transAxes + ScaledTranslation(0.0, -0.55, ax.figure.dpi_scale_trans)
    ax.legend(
        handles, labels, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, 0.0), bbox_transform=below,
        ncols=legend_columns(labels), borderaxespad=0.0, handlelength=2.5, columnspacing=1.2,
    )  # fmt: skip


def legend_columns(labels: Sequence[str]) -> int:
    """Return how many columns a legend of these labels has room for."""
    return 2 if max(map(len, labels), default=0) <= 22 else 1
