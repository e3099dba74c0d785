"""The verdict of a reproduction: how our divergences compare with the published ones, model by model."""

from collections.abc import Sequence

import numpy as np

from lmgp.experiments.paper.cells import PAPER_METHODS, TOLERANCES, Line, lines_of
from lmgp.experiments.paper.published import PUBLISHED_NAMES
from lmgp.experiments.paper.section import Section, Table, Value
from lmgp.experiments.runner import Comparison
from lmgp.methods import METHODS

ALL_BUT_ONE = "all but structured orthogonal Fourier"


def verdict_section(comparisons: Sequence[Comparison]) -> Section | None:
    """Say whether the paper is reproduced; None where nothing published compares.

    Parameters
    ----------
    comparisons : sequence of Comparison

    Returns
    -------
    Section or None
    """
    table = summary(comparisons)
    if not table.rows:
        return None
    text = tuple(_verdict(comparison, table) for comparison in comparisons)
    return Section("verdict", "Verdict", text, None, (table,))


def _verdict(comparison: Comparison, table: Table) -> str:
    """Sum up one data set."""
    name = comparison.dataset.name
    rows = [(number, row) for number, row in enumerate(table.rows) if row[0] == name]
    if not rows:
        return f"{name}: nothing published compares."
    n_cells, median, share = next(
        (row[2], row[3], row[5]) for _, row in reversed(rows) if row[1] == ALL_BUT_ONE or len(rows) == 1
    )
    found = f"the median ratio of our KL per row to the published one is {median:.2f} over {n_cells} cells"
    if comparison.settings.seeds == 1:
        return f"{name}: one seed is not enough to tell; {found}."
    out = [str(row[1]) for number, row in rows if number in table.marked]
    told = f"out of tolerance: {', '.join(out)}" if out else "every model is within the tolerance"
    return f"{name}: {told}; {found}, and {share:.0%} of them pass."


def summary(comparisons: Sequence[Comparison]) -> Table:
    """Tabulate the ratios to the published divergences, model by model.

    Parameters
    ----------
    comparisons : sequence of Comparison

    Returns
    -------
    Table
        A row that is marked misses the tolerance for the median or for the share of cells. With one seed none is.
    """
    rows: list[tuple[Value, ...]] = []
    marked = set()
    for comparison in comparisons:
        lines = [line for line in lines_of(comparison) if line.ratio is not None]
        groups = {METHODS[method].label: [line for line in lines if line.method == method] for method in PAPER_METHODS}
        groups[ALL_BUT_ONE] = [line for line in lines if line.method != "sorf"]
        for label, group in groups.items():
            if not group:
                continue
            row, is_out = _summary_row(comparison.dataset.name, label, group)
            if is_out and comparison.settings.seeds > 1:
                marked.add(len(rows))
            rows.append(row)
    columns = (
        "data set", "model", "cells", "median ratio", "at most", f"share within {TOLERANCES.cell:g}", "least", "most",
    )  # fmt: skip
    caption = (
        "Our KL per row over the published one. A cell is a size and a threshold, averaged over its seeds. "
        f"Of a set of another month, the share is of ratios within {TOLERANCES.other_month:g}."
    )
    if any(comparison.settings.seeds == 1 for comparison in comparisons):
        caption += " One seed is not enough to tell: nothing of it is marked."
    return Table("figure-4-summary", caption, columns, tuple(rows), frozenset(marked))


def _summary_row(name: str, label: str, group: Sequence[Line]) -> tuple[tuple[Value, ...], bool]:
    """Return the row of one model, and whether it is out of tolerance."""
    ratios = np.array([line.ratio for line in group], dtype=float)
    other_month = name in PUBLISHED_NAMES
    allowed = TOLERANCES.other_month if other_month else TOLERANCES.median
    within = float(np.mean(ratios <= (TOLERANCES.other_month if other_month else TOLERANCES.cell)))
    median = float(np.median(ratios))
    row = (name, label, len(ratios), median, allowed, within, float(ratios.min()), float(ratios.max()))
    return row, median > allowed or within < TOLERANCES.share
