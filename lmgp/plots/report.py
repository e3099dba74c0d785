"""The page about a fitted model: its scores first, then its figures, then what was tried to make it."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from lmgp.errors import InputError
from lmgp.grids import predicted
from lmgp.plots import html
from lmgp.plots.canvas import LOOK, Floats, final_step, new_figure, render
from lmgp.plots.fields import band, centroids, map
from lmgp.plots.learned import allocation, kl_height, kl_over_size, relevance, short
from lmgp.plots.scores import calibration, prediction

# Dots an inch of the images, about twice those of a narrow screen.
DPI = 160


class Predicted(NamedTuple):
    """What a model predicts of a table.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y, mean, std : ndarray of shape (n,)
        What was observed, and what is predicted of it, noise included.
    """

    X: Floats
    y: Floats
    mean: Floats
    std: Floats


class About(NamedTuple):
    """What there is to say of a model.

    Attributes
    ----------
    model : fitted regressor
    title : str
        Such as the name of its file.
    target : str
        What it predicts.
    facts : dict of str to str
        Of the model, by name.
    scores : dict of str to str
        By name; none without a table.
    predicted : Predicted or None
    ranges : ndarray of shape (2, d) or None
        The least and the greatest value of each input column, where they are known.
    tables : dict of str to str
        By title, as plain text.
    level : float
        The probability of the band.
    """

    model: Any
    title: str
    target: str
    facts: Mapping[str, str]
    scores: Mapping[str, str]
    predicted: Predicted | None
    ranges: Floats | None
    tables: Mapping[str, str]
    level: float


class Card(NamedTuple):
    """A figure of the page, whose words are in ``model.html``.

    Attributes
    ----------
    name : str
    draw : callable
        Takes the axes, an array of them where there are several panels.
    panels : int
        One below the other.
    height : float
        Of a panel, as a multiple of the usual one.
    values : dict of str to object
        What the words name.
    """

    name: str
    draw: Callable[[Any], Any]
    panels: int = 1
    height: float = 1.0
    values: Mapping[str, Any] = MappingProxyType({})


def page(about: About) -> bytes:
    """Make the page.

    Parameters
    ----------
    about : About

    Returns
    -------
    bytes
        HTML in UTF-8, with its images. What cannot be drawn is said, with the reason.
    """
    return html.page(
        "model.html", title=about.title, about=about, drawn=list(_drawn(about)), left_out=list(_left_out(about))
    )


def _drawn(about: About) -> Iterator[tuple[Card, bytes]]:
    for card in _cards(about):
        height = LOOK.height * card.height * card.panels * (0.9 if card.panels > 1 else 1.0)
        figure = new_figure(LOOK.width, height)
        try:
            card.draw(figure.subplots(card.panels, 1))
        except InputError:  # of this model there is no such thing
            continue
        yield card, render(figure, "png", dpi=DPI)


def _cards(about: About) -> Iterator[Card]:
    model, found = about.model, about.predicted
    if found is not None:
        yield from _cards_of_predictions(found, about.target, _as_gaussian(model, found))
    if (rows := _extent(about)) is not None:
        yield from _cards_of_fields(about, rows)
    yield Card("relevance", lambda ax: relevance(model, ax=ax))
    try:
        height = kl_height(model)
    except InputError:  # nothing with a size was measured
        height = 1.0
    yield Card("kl", lambda ax: kl_over_size(model, ax=ax), height=height)
    yield Card("allocation", lambda ax: allocation(model, ax=ax))


def _as_gaussian(model: Any, found: Predicted) -> Predicted:
    """Return predictions where they are Gaussian: of a model of log y, those of log y. Calibration is the same."""
    if not hasattr(model, "scale_"):
        return found
    mean, std = predicted(model.regressor_, found.X, include_noise=True).values()
    return Predicted(found.X, model.scale_.forward(found.y), mean, std)


def _cards_of_predictions(found: Predicted, target: str, gaussian: Predicted) -> Iterator[Card]:
    def draw(ax: Axes) -> None:
        prediction(found.y, found.mean, found.std, ax=ax)
        for set_label, get_label in ((ax.set_xlabel, ax.get_xlabel), (ax.set_ylabel, ax.get_ylabel)):
            set_label(get_label().replace(" y", f" {short(target)}", 1))

    values = {
        "target": target,
        "n": len(found.y),
        "within": np.mean(np.abs(found.y - found.mean) <= found.std),
        "should": "; 68% should" if gaussian is found else "",
    }
    yield Card("prediction", draw, values=values)
    yield Card("calibration", lambda axes: calibration(gaussian.y, gaussian.mean, gaussian.std, ax=axes), panels=2)


def _cards_of_fields(about: About, rows: Floats) -> Iterator[Card]:
    model, found = about.model, about.predicted
    if rows.shape[1] == 1:

        def draw(ax: Axes) -> None:
            band(model, rows, level=about.level, ax=ax)
            if found is not None:
                ax.plot(found.X[:, 0], found.y, ".", color="black", markersize=3, zorder=1, label="rows of the table")
                ax.legend(fontsize="small")
            ax.set_ylabel(short(about.target))

        yield Card("band", draw, values={"level": 100 * about.level})
    if rows.shape[1] == 2:
        values = {"target": about.target, "shown": "" if found is None else " Dots are rows of the table."}
        yield Card("map", lambda axes: map(model, rows, show_rows=found is not None, ax=axes), 2, values=values)
    if rows.shape[1] <= 2:
        X = None if found is None else found.X
        yield Card("centroids", lambda ax: centroids(model, X, ax=ax), height=1.15)


def _extent(about: About) -> Floats | None:
    """Return rows that have the extent of what is drawn: those of the table, or the range of the training rows."""
    if about.predicted is not None:
        return about.predicted.X
    return about.ranges


def _left_out(about: About) -> Iterator[str]:
    """Say which figures that every model could have are not drawn, and what to do."""
    n_columns, kernel = about.model.n_features_in_, final_step(about.model).kernel_
    if about.predicted is None:
        yield "Prediction against truth, and calibration: these need a table that has the target."
    if n_columns > 2:
        yield f"A band or a map: these are of one and of two input columns; the model has {n_columns}."
    elif _extent(about) is None:
        what = "The band" if n_columns == 1 else "The map"
        yield f"{what}: the file does not say where the training rows are. Give a table, whose extent is drawn."
    if not kernel.can("metric"):
        yield "The relevance of columns: the kernel has no lengthscale."
