"""``lmgp plot``, and the page that ``lmgp score --report`` writes."""

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmgp.cli.loaded import STANDARD, TABLE, loaded_model, target_names
from lmgp.cli.parsing import Parser, add_dialect, add_drop, add_of_model
from lmgp.cli.scores import Scored, score
from lmgp.errors import InputError, OutputError

if TYPE_CHECKING:
    from lmgp.cli.grids import Floats
    from lmgp.models.base import GaussianProcess

_LOG = logging.getLogger(__name__)


def add(commands: Any, quiet: Parser) -> None:
    """Add the command to a parser."""
    plot = commands.add_parser(
        "plot",
        parents=[quiet],
        help="draw a model file, and how well it predicts a table, on one page",
        description="Write one HTML page: the scores, figures of the model and of its predictions, and what was tried "
        "to make it. Without a table it has what the file says of the model alone.",
    )
    argument = plot.add_argument
    argument("model", type=Path, metavar="MODEL", help="a file that 'lmgp fit' or model.save(path) wrote")
    argument("table", nargs="?", metavar="TABLE", help=f"with the target, to be predicted: {TABLE}")
    argument(
        "--out", metavar="FILE", help="the page to write (default: the name of the model, with .html, in this folder)"
    )
    argument("--target", metavar="COLUMN", help="the column that was predicted (default: that of 'lmgp fit')")
    add_of_model(plot)
    add_drop(plot, "leave out rows with missing values")
    add_dialect(plot)
    plot.set_defaults(run=_plot)


def _plot(arguments: argparse.Namespace) -> None:
    out = arguments.out if arguments.out is not None else arguments.model.with_suffix(".html").name
    check_report(out, arguments.model, arguments.table)  # before the work
    if arguments.table is None and (arguments.columns or arguments.target):
        raise InputError("--target and --columns are about a table, and none is given (see lmgp plot --help).")
    model, notes = loaded_model(arguments)
    if target_names(model) is not None:
        raise InputError(
            f"A page is of one target; {arguments.model} predicts {', '.join(model.target_names_)}. Use lmgp score for "
            "the scores of all, or fit a model to one."
        )
    scored = None if arguments.table is None else score(model, notes, arguments)
    write_report(out, arguments.model, model, notes, scored, arguments.level)
    sys.stdout.write(f"{out}\n")


def check_report(out: str, *read: Path | str | None) -> None:
    """Check that a page can be written, and would not replace a file that is read.

    Raises
    ------
    InputError, OutputError
        If it cannot or would.
    """
    from lmgp.saving.output import check_place

    if out == STANDARD:
        raise InputError("A report is written to a file; give its name, such as report.html.")
    for one in read:
        if one not in (None, STANDARD) and Path(out).expanduser().resolve() == Path(str(one)).expanduser().resolve():
            raise OutputError(f"{out} would be replaced by the report; name another file for it.")
    check_place(out)


def write_report(
    out: str, path: Path, model: "GaussianProcess", notes: dict[str, Any], scored: Scored | None, level: float
) -> None:
    """Write the page about a model: whole, or not at all.

    Parameters
    ----------
    out : str
        The file.
    path : Path
        That of the model.
    model : fitted regressor
    notes : dict
        What `lmgp fit` says of the data.
    scored : Scored or None
        What was predicted of a table.
    level : float
        The probability of intervals.
    """
    from lmgp.cli.info import facts, tables
    from lmgp.plots.report import About, Predicted, page
    from lmgp.saving.output import whole_file

    about = About(
        model=model,
        title=path.name,
        target=str(notes.get("target", "y") if scored is None else scored.target),
        facts=facts(model, notes),
        scores={} if scored is None else scored.lines,
        predicted=None if scored is None else Predicted(scored.X, scored.y, scored.mean, scored.std),
        ranges=_ranges(notes, model.n_features_in_),
        tables=tables(model),
        level=level,
    )
    content = page(about)
    with whole_file(out) as stream:
        stream.write(content)


def _ranges(notes: dict[str, Any], n_columns: int) -> "Floats | None":
    """Return the least and the greatest value of each column of the training rows, if the file says them."""
    import numpy as np

    try:
        ranges = np.asarray(notes["ranges"], dtype=np.float64).T
    except (KeyError, TypeError, ValueError):
        return None
    return ranges if ranges.shape == (2, n_columns) and np.isfinite(ranges).all() else None
