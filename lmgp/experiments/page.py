"""The report of a reproduction: one HTML page that needs no network, with its figures and tables as files beside it."""

import tomllib
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from lmgp.plots import html
from lmgp.plots.canvas import render
from lmgp.saving.output import write_whole

LARGEST = 2_000  # rows of a table on the page; a larger one is a file only

WORDS: dict[str, Any] = tomllib.loads((files(__package__) / "texts.toml").read_text(encoding="utf-8"))
"""What the report says: titles and paragraphs by section, captions and columns by table."""


@dataclass(frozen=True, eq=False)
class ReportTable:
    """A table of the report, which is also written as a CSV file.

    Attributes
    ----------
    name : str
        The stem of the CSV file, such as ``figure-2-sinc``.
    caption : str
        What the rows are; units.
    frame : DataFrame
        NaN, None or an empty text where there is no value.
    marked : frozenset of int
        The numbers of the rows that are out of tolerance.
    folded : bool
        Whether the report shows it only when asked to: for long tables.
    """

    name: str
    caption: str
    frame: pd.DataFrame
    marked: frozenset[int] = frozenset()
    folded: bool = False


@dataclass(frozen=True, eq=False)
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
    tables : tuple of ReportTable
    """

    name: str
    title: str
    text: tuple[str, ...]
    figure: Figure | None
    tables: tuple[ReportTable, ...]


def section(
    name: str,
    values: Mapping[str, Any],
    tables: Iterable[ReportTable] = (),
    figure: Figure | None = None,
    more: Iterable[str] = (),
) -> Section:
    """Make a section with the title and the paragraphs that `WORDS` has for its name.

    Parameters
    ----------
    name : str
    values : mapping of str to object
        What the paragraphs name.
    tables : iterable of ReportTable
    figure : Figure, optional
    more : iterable of str
        Paragraphs below those.

    Returns
    -------
    Section
    """
    text = (*(paragraph.format_map(values) for paragraph in WORDS[name]["text"]), *more)
    return Section(name, WORDS[name]["title"], text, figure, tuple(tables))


def table(name: str, frame: pd.DataFrame, values: Mapping[str, Any], **options: Any) -> ReportTable:
    """Make a table with the caption, and of the columns if any are listed, that `WORDS` has for its name.

    Parameters
    ----------
    name : str
    frame : DataFrame
    values : mapping of str to object
        What the caption names.
    **options
        Of `ReportTable`: ``marked`` and ``folded``.

    Returns
    -------
    ReportTable
    """
    if columns := WORDS["columns"].get(name):
        frame = frame[list(columns.values())].set_axis(list(columns), axis="columns")
    return ReportTable(name, WORDS["captions"][name].format_map(values), frame, **options)


def save(
    sections: Sequence[Section],
    heading: str,
    introduction: Sequence[str],
    out: Path,
    drawn: MutableMapping[Figure, bytes] | None = None,
    *,
    first: Section | None = None,
) -> Path:
    """Write the figures, the tables and the report.

    Parameters
    ----------
    sections : sequence of Section
    heading : str
    introduction : sequence of str
        Paragraphs above the first figure, on how it was made.
    out : Path
        An existing folder.
    drawn : dict of Figure to bytes, optional
        The figures that are in the folder already, with their PNG; those drawn now are added. A report that is written
        again and again, as more is measured, draws each figure once.
    first : Section, optional
        What stands above the introduction: the verdict.

    Returns
    -------
    Path
        That of the report.
    """
    drawn = {} if drawn is None else drawn
    content = html.page(
        "reproduction.html",
        title=heading,
        introduction=introduction,
        verdict=None if first is None else _written(first, out, drawn),
        sections=[_written(section, out, drawn) for section in sections],
    )
    write_whole(out / "report.html", content)
    return out / "report.html"


def _written(section: Section, out: Path, drawn: MutableMapping[Figure, bytes]) -> dict[str, Any]:
    """Write the figure and the tables of a section, and return what the page shows of it."""
    figure = section.figure
    if figure is not None and figure not in drawn:
        # Without the time of day, so that the same figure gives the same file.
        write_whole(out / f"{section.name}.pdf", render(figure, "pdf", dpi=130, metadata={"CreationDate": None}))
        drawn[figure] = render(figure, "png", dpi=130)
        write_whole(out / f"{section.name}.png", drawn[figure])
    for table in section.tables:
        write_whole(out / f"{table.name}.csv", table.frame.to_csv(index=False, lineterminator="\n").encode())
    tables = [_shown(table) for table in section.tables]
    return vars(section) | {"png": None if figure is None else drawn[figure], "tables": tables}


def _shown(table: ReportTable) -> dict[str, Any]:
    """Return what the page shows of a table, without the columns that are empty."""
    empty = table.frame.isna() | (table.frame == "")
    frame = table.frame.loc[:, ~empty.all() | table.frame.empty]
    return vars(table) | {
        "columns": list(frame),
        "rows": frame.map(_show).to_numpy().tolist(),
        "text": list(frame.map(lambda value: pd.isna(value) or isinstance(value, str)).all()),
        "too_long": len(frame) > LARGEST,
    }


def _show(value: object) -> str:
    if pd.isna(value) or value == "":
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
