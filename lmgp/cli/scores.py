"""``lmgp score``: predictions of a model file beside what was observed."""

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lmgp.cli.loaded import (
    TABLE,
    column_chooser,
    loaded_model,
    predictions_of,
    table_dialect,
    table_source,
    target_names,
    with_names,
)
from lmgp.cli.parsing import Parser, add_dialect, add_drop, add_of_model
from lmgp.errors import InputError

if TYPE_CHECKING:
    from lmgp.cli.grids import Floats

_LOG = logging.getLogger(__name__)


class Scored(NamedTuple):
    """What a model predicts of a table that has the target.

    Attributes
    ----------
    target : str
    X : ndarray of shape (n, d)
    y, mean, std : ndarray of shape (n,)
        Noise included.
    lines : dict of str to str
        The scores, by name.
    """

    target: str
    X: "Floats"
    y: "Floats"
    mean: "Floats"
    std: "Floats"
    lines: dict[str, str]


def add(commands: Any, quiet: Parser) -> None:
    """Add the command to a parser."""
    score = commands.add_parser(
        "score",
        parents=[quiet],
        help="compare the predictions of a model file with a table that has the target",
        description="Show the root mean square error, the mean negative log predictive density (NLPD) and the mean "
        "continuous ranked probability score (CRPS), lower ones being better, and the share of rows within intervals.",
    )
    argument = score.add_argument
    argument("model", type=Path, metavar="MODEL", help="a file that 'lmgp fit' or model.save(path) wrote")
    argument("table", nargs="?", metavar="TABLE", help=TABLE)
    argument(
        "--leave-one-out",
        action="store_true",
        help="in place of a table: of each training row, predicted from all others, if the model keeps them",
    )
    argument(
        "--target",
        action="append",
        metavar="COLUMN",
        help="the column that was predicted (default: that of 'lmgp fit'); of several targets, once for each in order",
    )
    add_of_model(score)
    add_drop(score, "leave out rows with missing values")
    argument("--report", metavar="FILE", help="write a page with the scores and figures too, such as report.html")
    add_dialect(score)
    score.set_defaults(run=_score)


def _score(arguments: argparse.Namespace) -> None:
    if (arguments.table is None) == (not arguments.leave_one_out):
        raise InputError("Give a table to score, or --leave-one-out, and not both (see lmgp score --help).")
    if arguments.leave_one_out:
        _score_left_out(arguments)
        return
    if arguments.report is not None:
        from lmgp.cli.plotting import check_report

        check_report(arguments.report, arguments.model, arguments.table)  # before the work
    model, notes = loaded_model(arguments)
    if target_names(model) is not None:
        if arguments.report is not None:
            raise InputError(f"A report is of one target; {arguments.model} predicts {', '.join(model.target_names_)}.")
        _score_targets(model, notes, arguments)
        return
    scored = score(model, notes, arguments)
    if arguments.report is not None:
        from lmgp.cli.plotting import write_report

        write_report(arguments.report, arguments.model, model, notes, scored, arguments.level)
        _LOG.info("wrote %s", arguments.report)
    _write_lines(scored.lines)


def score(model: Any, notes: dict[str, Any], arguments: argparse.Namespace) -> Scored:
    """Compare predictions of one target with a table, as the arguments of ``lmgp score`` say."""
    from lmgp import metrics

    given = [arguments.target] if isinstance(arguments.target, str) else arguments.target
    targets = given or [one for one in (notes.get("target"),) if one is not None]
    if not targets:
        raise InputError(f"{arguments.model} does not say which column it predicts; name it (--target).")
    if len(targets) > 1:
        raise InputError(f"{arguments.model} predicts one target; got --target {', '.join(targets)}.")
    X, y = _read(model, arguments, targets)
    y = y[:, 0]
    mean, std, lower, upper = predictions_of(model, X, None, arguments.level, include_noise=True).values()
    named = with_names(model, X)
    of_model = hasattr(model, "nlpd_rows")  # y is not Gaussian, and the model has its density
    scores = {
        "RMSE": metrics.rmse(y, mean),
        "NLPD": model.nlpd_rows(named, y).mean() if of_model else metrics.nlpd(y, mean, std**2),
        "CRPS": model.crps_rows(named, y).mean() if of_model else metrics.crps(y, mean, std**2),
        _coverage(arguments.level): ((lower <= y) & (y <= upper)).mean(),
    }
    lines = {"rows": f"{len(y)}", **{name: f"{value:.6g}" for name, value in scores.items()}}
    return Scored(targets[0], X, y, mean, std, lines)


def _score_targets(model: Any, notes: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Show a table of the scores of several targets."""
    import numpy as np

    names = target_names(model) or ()
    targets = arguments.target or notes.get("targets") or list(names)
    if len(targets) != len(names):
        raise InputError(
            f"{arguments.model} predicts {len(names)} targets, {', '.join(names)}; name the column of each, in this "
            f"order, with --target; got {', '.join(targets)}."
        )
    X, y = _read(model, arguments, targets)
    named, found = with_names(model, X), predictions_of(model, X, None, arguments.level, include_noise=True)
    mean, _, lower, upper = np.stack(list(found.values())).reshape(len(names), 4, -1).transpose(1, 2, 0)
    scores = {
        "RMSE": np.sqrt(np.mean((y - mean) ** 2, axis=0)),
        "NLPD": model.nlpd_rows(named, y).mean(axis=0),
        "CRPS": model.crps_rows(named, y).mean(axis=0),
        _coverage(arguments.level): ((lower <= y) & (y <= upper)).mean(axis=0),
    }
    _write_table(targets, len(y), scores)


def _score_left_out(arguments: argparse.Namespace) -> None:
    """Show the scores of each training row, predicted from all others."""
    told = [f"--{name}" for name in ("report", "target", "columns", "drop") if getattr(arguments, name)]
    if told:
        raise InputError(f"{', '.join(told)} and --leave-one-out do not go together: it is of the training rows.")
    model, notes = loaded_model(arguments)
    try:
        found = model.loo_
    except InputError as error:
        raise InputError(
            f"{arguments.model} keeps no training rows, and leave-one-out predictions need them. Score it on a table "
            "that it was not fitted to, lmgp score MODEL TABLE, or use model.loo_ in Python before it is saved."
        ) from error
    names = target_names(model)
    if names is not None:
        each = [_of_left_out(one, arguments.level) for one in found]
        every = {name: [scores[name] for scores in each] for name in each[0]}
        _write_table(list(notes.get("targets", names)), len(found[0].y), every)
        return
    scores = _of_left_out(found, arguments.level)
    _write_lines({"rows": f"{len(found.y)}, each left out", **{name: f"{one:.6g}" for name, one in scores.items()}})


def _of_left_out(found: Any, level: float) -> dict[str, float]:
    return {"RMSE": found.rmse, "NLPD": found.nlpd, "CRPS": found.crps, _coverage(level): found.coverage(level)}


def _coverage(level: float) -> str:
    return f"coverage of {100 * level:g}% intervals"


def _read(model: Any, arguments: argparse.Namespace, targets: list[str]) -> "tuple[Floats, Floats]":
    """Return the inputs of a table, shape (n, d), and the targets, shape (n, t)."""
    from lmgp.tables import read_table

    choose = column_chooser(model, arguments.columns, targets)
    table, complete = read_table(
        table_source(arguments.table), choose, table_dialect(arguments), incomplete=arguments.drop, least=1
    )
    if not complete.all():
        _LOG.info("%d of %d rows have missing values and are left out", (~complete).sum(), len(complete))
    table = table[complete]
    return table[:, : -len(targets)], table[:, -len(targets) :]


def _write_lines(lines: dict[str, str]) -> None:
    width = max(map(len, lines))
    sys.stdout.write("".join(f"{name:<{width}}  {value}\n" for name, value in lines.items()))


def _write_table(targets: list[str], n_rows: int, scores: Any) -> None:
    """Write one line for each target, and one column for each score."""
    columns = [["target", *targets]]
    columns += [[name, *(f"{value:.6g}" for value in values)] for name, values in scores.items()]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for name, *cells in zip(*columns, strict=True):
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([name.ljust(widths[0]), *numbers]))
    sys.stdout.write(f"{n_rows} rows\n" + "".join(f"{line}\n" for line in lines))
