"""What a part of the reproduction hands to its report: a figure, the tables under it, and words."""

from dataclasses import dataclass

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Distinct in colour and, through their lightness, in grey; for people with any colour vision.
BLACK, BLUE, ORANGE, GREEN, PINK, SKY = "#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9"

Value = str | float | int | None


@dataclass(frozen=True)
class Table:
    """A table of the report, which is also written as a CSV file.

    Attributes
    ----------
    name : str
        The stem of the CSV file, such as ``figure-2-sinc``.
    caption : str
        What the rows are; units.
    columns : tuple of str
    rows : tuple of tuple
        One value a column; None where there is none.
    marked : frozenset of int
        The numbers of the rows that are out of tolerance.
    folded : bool
        Whether the report shows it only when asked to: for long tables.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    marked: frozenset[int] = frozenset()
    folded: bool = False


@dataclass(frozen=True)
class Section:
    """One figure of the paper, reproduced; or, without a figure, tables that belong to several.

    Attributes
    ----------
    name : str
        The stem of the figure's files, such as ``figure-2-sinc``.
    title : str
    text : tuple of str
        Paragraphs: what is shown, how it was made, and how it compares.
    figure : Figure or None
    tables : tuple of Table
    """

    name: str
    title: str
    text: tuple[str, ...]
    figure: Figure | None
    tables: tuple[Table, ...]


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure, in inches, with a canvas of its own: no global state of matplotlib is touched."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
