"""What a part of the reproduction hands to its report: a figure, the tables under it, and words."""

from dataclasses import dataclass

from matplotlib.figure import Figure

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
