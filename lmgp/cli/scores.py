"""``lmgp score`` and ``lmgp plot``: predictions of a model file beside what was observed."""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmgp.cli.loaded import complete_rows, loaded_model, read_for_model, target_names
from lmgp.cli.parsing import STANDARD
from lmgp.errors import InputError, OutputError
from lmgp.saving.output import check_place, whole_file

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
    model, notes = loaded_model(arguments)
    names = target_names(model)
    if names is not None and arguments.report is not None:
        raise InputError(f"A report is of one target; {arguments.model} predicts {', '.join(names)}.")
    if arguments.leave_one_out:
        targets, n_rows, scores = _left_out(model, notes, arguments)
        heading = f"{n_rows}, each left out"
    else:
        targets, predicted, scores = _scored(model, notes, arguments)
        n_rows = len(predicted[0])
        heading = str(n_rows)
        if arguments.report is not None:
            _write_report(arguments.report, model, notes, arguments, targets[0], predicted, _lines(n_rows, scores))
            _LOG.info("wrote %s", arguments.report)
    if names is None:
        lines = _lines(heading, scores)
        width = max(map(len, lines))
        sys.stdout.write("".join(f"{name:<{width}}  {value}\n" for name, value in lines.items()))
    else:
        sys.stdout.write(f"{n_rows} rows\n{_table(targets, scores)}")


def plot(arguments: argparse.Namespace) -> None:
    """Write the page about a model file."""
    out = arguments.out if arguments.out is not None else arguments.model.with_suffix(".html").name
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
        _write_report(out, model, notes, arguments, str(notes.get("target", "y")), None, {})
    else:
        (target,), predicted, scores = _scored(model, notes, arguments)
        _write_report(out, model, notes, arguments, target, predicted, _lines(len(predicted[0]), scores))
    sys.stdout.write(f"{out}\n")


def _scored(
    model: Any, notes: dict[str, Any], arguments: argparse.Namespace
) -> "tuple[list[str], tuple[Floats, Floats, Floats, Floats], Scores]":
    """Return the targets of a table, its X, y and their predicted means and deviations, and the scores of each."""
    import numpy as np

    from lmgp.grids import predicted, with_names

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
    table = complete_rows(*read_for_model(model, arguments, targets))
    X, y = table[:, : -len(targets)], table[:, -len(targets) :]
    y = y[:, 0] if names is None else y
    mean, std, lower, upper = predicted(model, X, include_noise=True, level=arguments.level).values()
    nlpd, crps = _losses(model, with_names(model, X), y, mean, std)
    scores = {
        "RMSE": np.sqrt(np.mean((y - mean) ** 2, axis=0)),
        "NLPD": nlpd.mean(axis=0),
        "CRPS": crps.mean(axis=0),
        _coverage(arguments.level): ((lower <= y) & (y <= upper)).mean(axis=0),
    }
    return targets, (X, y, mean, std), {name: np.atleast_1d(values) for name, values in scores.items()}


def _losses(model: Any, X: Any, y: "Floats", mean: "Floats", std: "Floats") -> "tuple[Floats, Floats]":
    """Return the NLPD and the CRPS of each row, by the density of the model where y is not Gaussian."""
    import numpy as np

    from lmgp.metrics.gaussian import crps_rows, nlpd_rows

    if hasattr(model, "nlpd_rows"):
        return model.nlpd_rows(X, y), model.crps_rows(X, y)
    if hasattr(model, "estimators_"):
        columns = zip(model.estimators_, y.T, mean.T, std.T, strict=True)
        nlpd, crps = zip(*(_losses(estimator, X, *column) for estimator, *column in columns), strict=True)
        return np.column_stack(nlpd), np.column_stack(crps)
    return nlpd_rows(y, mean, std**2), crps_rows(y, mean, std**2)


def _left_out(model: Any, notes: dict[str, Any], arguments: argparse.Namespace) -> "tuple[list[str], int, Scores]":
    """Return the targets, the number of training rows, and the scores of each row predicted from all others."""
    try:
        results = model.loo_
    except InputError as error:
        raise InputError(
            f"{arguments.model} keeps no training rows, and leave-one-out predictions need them. Score it on a table "
            "that it was not fitted to, lmgp score MODEL TABLE, or use model.loo_ in Python before it is saved."
        ) from error
    names = target_names(model)
    of_targets = [results] if names is None else results
    scores = {name: [getattr(one, name.lower()) for one in of_targets] for name in ("RMSE", "NLPD", "CRPS")}
    scores[_coverage(arguments.level)] = [one.coverage(arguments.level) for one in of_targets]
    return list(notes.get("targets", names or ())), len(of_targets[0].y), scores


def _coverage(level: float) -> str:
    return f"coverage of {100 * level:g}% intervals"


def _lines(rows: int | str, scores: "Scores") -> dict[str, str]:
    """Return the scores of one target as text, by name."""
    return {"rows": str(rows), **{name: f"{values[0]:.6g}" for name, values in scores.items()}}


def _table(targets: Sequence[str], scores: "Scores") -> str:
    """Return a line for each target, with a column for each score."""
    import pandas as pd

    frame = pd.DataFrame(dict(scores), index=list(targets)).rename_axis(columns="target")
    return frame.to_string(float_format=" {:.6g}".format) + "\n"


def _check_report(out: str, arguments: argparse.Namespace) -> None:
    """Check that a page can be written, and would not replace a file that is read."""
    if out == STANDARD:
        raise InputError("A report is written to a file; give its name, such as report.html.")
    for read in (arguments.model, arguments.table):
        if read not in (None, STANDARD) and Path(out).expanduser().resolve() == Path(read).expanduser().resolve():
            raise OutputError(f"{out} would be replaced by the report; name another file for it.")
    check_place(out)


def _write_report(
    out: str,
    model: Any,
    notes: dict[str, Any],
    arguments: argparse.Namespace,
    target: str,
    predictions: "tuple[Floats, Floats, Floats, Floats] | None",
    scores: dict[str, str],
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
        ranges=_ranges(notes, model.n_features_in_),
    )
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
