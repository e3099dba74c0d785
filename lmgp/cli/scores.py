"""``lmgp score`` and ``lmgp plot``: predictions of a model file beside what was observed."""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmgp.cli.loaded import complete_rows, loaded_model, read_for_model, target_names
from lmgp.cli.parsing import STANDARD
from lmgp.errors import InputError
from lmgp.saving.output import check_place, write_whole

if TYPE_CHECKING:
    from lmgp.data import Floats

    Scores = Mapping[str, Any]

_LOG = logging.getLogger(__name__)


def score(arguments: argparse.Namespace) -> None:
    """Show how well a model file predicts a table, or its training rows each left out."""
    if (arguments.table is None) == (not arguments.leave_one_out):
        raise InputError("Give a table to score, or --leave-one-out, and not both (see lmgp score --help).")
    told = [f"--{name}" for name in ("report", "target", "columns", "drop") if getattr(arguments, name)]
    if arguments.leave_one_out and told:
        raise InputError(f"{', '.join(told)} and --leave-one-out do not go together: it is of the training rows.")
    if arguments.report is not None:
        _check_report(arguments.report, arguments)  # before the work
    from lmgp.utils.trials import aligned

    model, notes = loaded_model(arguments)
    names = target_names(model)
    if names is not None and arguments.report is not None:
        raise InputError(f"A report is of one target; {arguments.model} predicts {', '.join(names)}.")
    rows: tuple[Any, ...] = ()  # of the table
    if arguments.leave_one_out:
        targets, n_rows, scores = _left_out(model, notes, arguments)
        heading = f"{n_rows}, each left out"
        if n_rows != notes.get("rows"):  # of means of rows, where baselines are of single rows
            notes = {**notes, "baselines": {}}
    else:
        targets, predicted, scores = _scored(model, notes, arguments)
        rows, n_rows = predicted[:2], len(predicted[0])
        heading = str(n_rows)
    if names is None:
        lines = _lines(scores, notes, *rows)
        if arguments.report is not None:
            _write_report(arguments.report, model, notes, arguments, targets[0], predicted, lines)
            _LOG.info("wrote %s", arguments.report)
        aligned_lines = "".join(f"{line.rstrip()}\n" for line in aligned(lines, 1))
        sys.stdout.write(f"rows  {heading}\n{aligned_lines}")
    else:
        sys.stdout.write(f"{n_rows} rows\n{_table(targets, scores)}")


def plot(arguments: argparse.Namespace) -> None:
    """Write the page about a model file."""
    out = arguments.out if arguments.out is not None else f"{arguments.model.stem}.html"
    _check_report(out, arguments)  # before the work
    if arguments.table is None and (arguments.columns or arguments.target):
        raise InputError("--target and --columns are about a table, and none is given (see lmgp plot --help).")
    model, notes = loaded_model(arguments)
    if (names := target_names(model)) is not None:
        raise InputError(
            f"A page is of one target; {arguments.model} predicts {', '.join(names)}. Use lmgp score for the scores of "
            "all, or fit a model to one."
        )
    if arguments.table is None:
        _write_report(out, model, notes, arguments, str(notes.get("target", "y")), None, [])
    else:
        (target,), predicted, scores = _scored(model, notes, arguments)
        _write_report(out, model, notes, arguments, target, predicted, _lines(scores, notes, *predicted[:2]))
    sys.stdout.write(f"{out}\n")


def _scored(
    model: Any, notes: dict[str, Any], arguments: argparse.Namespace
) -> "tuple[list[str], tuple[Floats, Floats, Any], Scores]":
    """Return the targets of a table, its X and y and the predicted distribution, and the scores of each target."""
    from lmgp.metrics.scorers import predicted_distribution

    names = target_names(model)
    known = notes.get("targets") or [notes["target"]] if notes else names
    targets = list(arguments.target or known or ())
    if not targets:
        raise InputError(f"{arguments.model} does not say which column it predicts; name it (--target).")
    if names is None and len(targets) > 1:
        raise InputError(f"{arguments.model} predicts one target; got --target {', '.join(targets)}.")
    if names is not None and len(targets) != len(names):
        raise InputError(
            f"{arguments.model} predicts {len(names)} targets, {', '.join(names)}; name the column of each, in this "
            f"order, with --target; got {', '.join(targets)}."
        )
    if names is not None and {*targets} == {*names}:
        targets = list(names)
    rows, y, complete = read_for_model(model, arguments, targets)
    rows, y = complete_rows(rows, complete), y[complete, 0] if names is None else y[complete]
    distribution = predicted_distribution(model, rows)
    return targets, (rows, y, distribution), _scores(y, distribution, arguments.level)


def _scores(y: "Floats", distribution: Any, level: float, weights: "Floats | None" = None) -> "Scores":
    """Return the scores of each target, by name, of rows that count as often as their weights."""
    import numpy as np

    from lmgp.estimators.leave_one_out import LEVELS
    from lmgp.metrics import pit
    from lmgp.metrics.gaussian import crps_rows, nlpd_rows

    transform = pit(y, distribution)
    shares = {
        f"coverage of {100 * covered:g}% intervals": np.abs(2.0 * transform - 1.0) <= covered
        for covered in sorted({*LEVELS, level})
    }
    shares |= {"below the 5% quantile": transform < 0.05, "above the 95% quantile": transform > 0.95}
    scores = {
        "squares": np.square(y - distribution.mean()),
        "NLPD": nlpd_rows(y, distribution),
        "CRPS": crps_rows(y, distribution),
        **shares,
    }
    means = {name: np.atleast_1d(np.average(of_rows, 0, weights)) for name, of_rows in scores.items()}
    return {"RMSE": np.sqrt(means.pop("squares")), **means}


def _left_out(model: Any, notes: dict[str, Any], arguments: argparse.Namespace) -> "tuple[list[str], int, Scores]":
    """Return the targets, the number of training rows, and the scores of each row predicted from all others."""
    import numpy as np

    try:
        results = model.loo_
    except InputError as error:
        raise InputError(
            f"{arguments.model} keeps no training rows, and leave-one-out predictions need them. Score it on a table "
            "that it was not fitted to, lmgp score MODEL TABLE, or use model.loo_ in Python before it is saved."
        ) from error
    names = target_names(model)
    of_targets = [results] if names is None else results
    each = [_scores(left_out.y, left_out.distribution, arguments.level, left_out.weights) for left_out in of_targets]
    scores = {name: np.concatenate([part[name] for part in each]) for name in each[0]}
    return list(notes.get("targets", names or ())), max(len(left_out.y) for left_out in of_targets), scores


def _lines(scores: "Scores", notes: dict[str, Any], *rows: "Floats") -> list[tuple[str, ...]]:
    """Return a heading, and a line for each score of one target, with the model and each baseline side by side."""
    from lmgp.metrics.baselines import baseline_scores

    known = {name: numbers for name, numbers in notes.get("baselines", {}).items() if numbers}
    columns = {"model": {name: values[0] for name, values in scores.items()}}
    columns |= {name: baseline_scores(numbers, *rows) for name, numbers in known.items()}
    lines = [(name, *(f"{of[name]:.6g}" if name in of else "" for of in columns.values())) for name in scores]
    return [("", *columns), *lines]


def _table(targets: Sequence[str], scores: "Scores") -> str:
    """Return a line for each target, with a column for each score."""
    import pandas as pd

    frame = pd.DataFrame(dict(scores), index=list(targets)).rename_axis(columns="target")
    return frame.to_string(float_format=" {:.6g}".format) + "\n"


def _check_report(out: str, arguments: argparse.Namespace) -> None:
    """Check that a page can be written, and would not replace a file that is read."""
    if out != STANDARD:
        check_place(out, arguments.model, arguments.table)
    if out == STANDARD or Path(out).suffix.lower() not in ("", ".html", ".htm"):
        raise InputError(f"A report is an HTML file; give its name, such as report.html. Got {out!r}.")


def _write_report(
    out: str,
    model: Any,
    notes: dict[str, Any],
    arguments: argparse.Namespace,
    target: str,
    predictions: "tuple[Floats, Floats, Any] | None",
    scores: Sequence[tuple[str, ...]],
) -> None:
    """Write the page about a model: whole, or not at all."""
    from lmgp.cli.info import facts, tables
    from lmgp.plots.report import page

    content = page(
        model,
        title=arguments.model.name,
        target=target,
        level=arguments.level,
        facts=facts(model, notes),
        scores=scores,
        tables=tables(model),
        predictions=predictions,
        ranges=_ranges(notes, model),
    )
    write_whole(out, content)


def _ranges(notes: dict[str, Any], model: Any) -> Any:
    """Return the least and the greatest value of each column of the training rows, if the file says them."""
    import numpy as np

    from lmgp.columns.dates import Dates
    from lmgp.columns.table import columns_of
    from lmgp.io.kinds import Kinds

    try:
        ranges = np.asarray(notes["ranges"], dtype=np.float64).T
    except (KeyError, TypeError, ValueError):
        return None
    if ranges.shape != (2, model.n_features_in_) or not np.isfinite(ranges).all():
        return None
    columns = columns_of(model)
    if columns is None:
        return ranges
    kinds = Kinds()
    for name in columns.names_of(Dates):
        kinds.note(name, "dates")
    return kinds.frame(ranges, columns.names)
