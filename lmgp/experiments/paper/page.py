"""The report: one HTML page that needs no network, with the figures as PNG and PDF and the tables as CSV beside it."""

import csv
import io
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from html import escape
from itertools import compress
from pathlib import Path

from matplotlib.figure import Figure

from lmgp.experiments import html
from lmgp.experiments.drawing import render
from lmgp.experiments.paper.section import Section, Table, Value
from lmgp.experiments.results import replace as replace_file

LARGEST = 2_000  # rows of a table on the page; a larger one is a file only


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
    parts = [f"<h1>{escape(heading)}</h1>"]
    if first is not None:
        parts += [*_section(first, out, drawn), '<h2 id="how">How this was made</h2>']
    parts += html.paragraphs(introduction)
    for section in sections:
        parts += _section(section, out, drawn)
    replace_file(out / "report.html", html.page(heading, parts))
    return out / "report.html"


def _section(section: Section, out: Path, drawn: MutableMapping[Figure, bytes]) -> list[str]:
    """Write the figure and the tables of a section, and return its part of the page."""
    parts = [f'<h2 id="{section.name}">{escape(section.title)}</h2>']
    if section.figure is not None:
        if section.figure not in drawn:
            drawn[section.figure] = _save_figure(section.figure, out / section.name)
        files = [f"{section.name}.{form}" for form in ("png", "pdf")]
        parts.append(html.figure(f"{section.name}-figure", section.title, drawn[section.figure], files))
    parts.extend(html.paragraphs(section.text))
    for table in section.tables:
        replace_file(out / f"{table.name}.csv", _csv(table))
        parts.append(_html(table))
    return parts


def _save_figure(figure: Figure, stem: Path) -> bytes:
    """Write a figure as PDF and PNG, and return the PNG."""
    for form in ("pdf", "png"):
        # Without the time of day, so that the same figure gives the same file.
        drawn = render(figure, form, dpi=130, metadata={"CreationDate": None} if form == "pdf" else {})
        replace_file(stem.with_name(f"{stem.name}.{form}"), drawn)
    return drawn


def _csv(table: Table) -> bytes:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    # repr, so that a float reads back as the same float.
    writer.writerows([repr(float(value)) if isinstance(value, float) else value for value in row] for row in table.rows)
    return buffer.getvalue().encode()


def _html(table: Table) -> str:
    if len(table.rows) > LARGEST:
        return f"<p>{len(table.rows):,} rows in <code>{table.name}.csv</code>: {escape(table.caption)}</p>"
    # A column of dashes says nothing: that of published numbers, where there are none.
    used = [not table.rows or any(row[i] not in (None, "") for row in table.rows) for i in range(len(table.columns))]
    table = replace(
        table,
        columns=tuple(compress(table.columns, used)),
        rows=tuple(tuple(compress(row, used)) for row in table.rows),
    )
    text = [all(isinstance(row[i], str | None) for row in table.rows) for i in range(len(table.columns))]
    kinds = [' class="text"' if is_text else "" for is_text in text]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, table.columns, strict=True))
    body = [
        ('<tr class="marked">' if number in table.marked else "<tr>")
        + "".join(f"<td{kind}>{_show(value)}</td>" for kind, value in zip(kinds, row, strict=True))
        + "</tr>"
        for number, row in enumerate(table.rows)
    ]
    marks = " Marked rows (✗) are out of tolerance." if table.marked else ""
    caption = f"{escape(table.caption + marks)} Full precision: <code>{table.name}.csv</code>."
    made = (
        f'<div class="scroll"><table><caption><span>{caption}</span></caption><thead><tr>{head}</tr></thead>\n<tbody>'
        + "\n".join(body)
        + "</tbody></table></div>"
    )
    if not table.folded:
        return made
    return f"<details><summary>{len(table.rows):,} rows: {escape(table.caption)}</summary>{made}</details>"


def _show(value: Value) -> str:
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return escape(str(value))
