"""The page about a fitted model: its scores first, then its figures, then what was tried to make it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.plots import html
from lmgp.plots.canvas import HEIGHT, WIDTH, final_step, new_figure, render
from lmgp.plots.fields import band, centroids, map
from lmgp.plots.learned import allocation, importance, kl_height, kl_over_size, short
from lmgp.plots.scores import calibration, prediction
from lmgp.utils.facts import Facts

# Dots an inch of the images, about twice those of a narrow screen.
DPI = 160

Predictions = tuple[Floats, Floats, Any]
Draw = Callable[..., None]


def page(
    model: Any,
    *,
    title: str,
    target: str,
    level: float,
    facts: Facts,
    scores: Sequence[Sequence[str]],
    tables: Mapping[str, str],
    predictions: Predictions | None,
    ranges: Floats | None,
) -> bytes:
    """Make the page.

    Parameters
    ----------
    model : fitted regressor
    title : str
        Such as the name of its file.
    target : str
        What it predicts.
    level : float
        The probability of the band.
    facts : Facts
        What the model is.
    scores : sequence of sequence of str
        Lines of a table, a heading first: scores of the model, and beside it of baselines; none without rows.
    tables : dict of str to str
        By title, as plain text.
    predictions : tuple or None
        What the model predicts of a table: X of shape (n, d), y of shape (n,), and its predicted distribution.
    ranges : ndarray of shape (2, d) or None
        The least and the greatest value of each input column, where they are known.

    Returns
    -------
    bytes
        HTML in UTF-8, with its images. What cannot be drawn is said, with the reason.
    """
    drawn: list[tuple[str, Mapping[str, Any], bytes]] = []
    refused: dict[str, str] = {}

    def draw(name: str, on_axes: Callable[[Any], Any], panels: int = 1, height: float = 1.0, **values: Any) -> None:
        """Draw panels, one below the other, where there is such a thing of this model; ``model.html`` has the words."""
        figure = new_figure(WIDTH, HEIGHT * height * panels * (0.9 if panels > 1 else 1.0))
        try:
            on_axes(figure.subplots(panels, 1))
            drawn.append((name, values, render(figure, "png", dpi=DPI)))
        except InputError as error:
            refused[name] = str(error)

    rows = ranges if predictions is None else predictions[0]  # with the extent of what is drawn
    if predictions is not None:
        _draw_predictions(draw, target, *predictions[1:])
    if rows is not None:
        _draw_fields(draw, model, target, level, rows, predictions)
    draw("importance", lambda ax: importance(model, ax=ax))
    with suppress(InputError):  # nothing with a size was measured
        draw("kl", lambda ax: kl_over_size(model, ax=ax), height=kl_height(model))
    draw("allocation", lambda ax: allocation(model, ax=ax))
    left_out = list(_left_out(model, has_table=predictions is not None, has_extent=rows is not None))
    left_out += [f"The {name}: {refused[name]}" for name in ("band", "map") if name in refused]
    return html.page(
        "model.html", title=title, described=facts, scores=scores, tables=tables, drawn=drawn, left_out=left_out,
        n=0 if predictions is None else len(predictions[1]),
    )  # fmt: skip


def _draw_predictions(draw: Draw, target: str, y: Floats, distribution: Any) -> None:
    mean, std = distribution.mean(), distribution.std()

    def with_target(ax: Axes) -> None:
        prediction(y, distribution, ax=ax)
        for set_label, get_label in ((ax.set_xlabel, ax.get_xlabel), (ax.set_ylabel, ax.get_ylabel)):
            set_label(get_label().replace(" y", f" {short(target)}", 1))

    within = np.mean(np.abs(y - mean) <= std)
    should = np.mean(distribution.cdf(mean + std) - distribution.cdf(mean - std))
    draw("prediction", with_target, target=target, n=len(y), within=within, should=should)
    draw("calibration", lambda axes: calibration(y, distribution, ax=axes), panels=2)


def _draw_fields(
    draw: Draw, model: Any, target: str, level: float, rows: Floats, predictions: Predictions | None
) -> None:
    """Draw what is over one or two input columns, in the extent of some rows."""

    def with_rows(ax: Axes) -> None:
        band(model, rows, level=level, ax=ax)
        if predictions is not None:
            X, y, *_ = predictions
            ax.plot(np.asarray(X)[:, 0], y, ".", color="black", markersize=3, zorder=1, label="rows of the table")
            ax.legend(fontsize="small")
        ax.set_ylabel(short(target))

    shown = predictions is not None
    if rows.shape[1] == 1:
        draw("band", with_rows, level=100 * level)
    if rows.shape[1] == 2:
        dots = " Dots are rows of the table." if shown else ""
        draw("map", lambda axes: map(model, rows, show_rows=shown, ax=axes), 2, target=target, shown=dots)
    if rows.shape[1] <= 2:
        draw("centroids", lambda ax: centroids(model, rows if shown else None, ax=ax), height=1.15)


def _left_out(model: Any, *, has_table: bool, has_extent: bool) -> Iterator[str]:
    """Say which figures that every model could have are not drawn, and what to do."""
    n_columns = model.n_features_in_
    if not has_table:
        yield "Prediction against truth, and calibration: these need a table that has the target."
    if n_columns > 2:
        yield f"A band or a map: these are of one and of two input columns; the model has {n_columns}."
    elif not has_extent:
        what = "The band" if n_columns == 1 else "The map"
        yield f"{what}: the file does not say where the training rows are. Give a table, whose extent is drawn."
    if not hasattr(final_step(model), "importance_"):
        yield "The importance of columns: the model has neither it nor the training rows it takes. Fit it again."
