"""``lmgp fit``, ``lmgp predict``, ``lmgp score`` and ``lmgp info``: models of tables, in files."""

import argparse
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmgp.cli import scores
from lmgp.cli.loaded import (
    STANDARD,
    TABLE,
    column_chooser,
    loaded_model,
    predictions_of,
    table_dialect,
    table_source,
    target_names,
)
from lmgp.cli.parsing import Parser, add_dialect, add_drop, add_of_model, number
from lmgp.errors import InputError

if TYPE_CHECKING:
    from lmgp.cli.grids import Floats

_LOG = logging.getLogger(__name__)


def add(commands: Any, quiet: Parser) -> None:
    """Add the commands to a parser."""
    _add_fit(commands, quiet)
    _add_predict(commands, quiet)
    scores.add(commands, quiet)
    info = commands.add_parser("info", help="show what a model file has")
    info.add_argument("model", type=Path, metavar="MODEL", help="a file that 'lmgp fit' or model.save(path) wrote")
    info.set_defaults(run=_info)


def _add_fit(commands: Any, quiet: Parser) -> None:
    fit = commands.add_parser(
        "fit",
        parents=[quiet],
        help="fit a model to a table, and write it to a file",
        description="Learn the kernel from all rows, choose a model (GPRegressor), fit it, and write it to a file.",
    )
    argument = fit.add_argument
    argument("table", nargs="?", metavar="TABLE", help=TABLE)
    argument("--target", nargs="+", required=True, metavar="COLUMN", help="the column to predict, or several")
    argument("--columns", nargs="+", metavar="COLUMN", help="the input columns (default: all others)")
    argument("--out", required=True, metavar="FILE", help="the model file to write, such as model.lmgp")
    argument(
        "--kernel",
        nargs="+",
        default=["auto"],
        metavar="NAME",
        help="such as gaussian, matern32 or matern12+gaussian, or several of these (default: auto, which tries ten)",
    )
    argument(
        "--trend",
        nargs="+",
        default=["constant"],
        metavar="WHAT",
        help="linear for a slope along each column, or the columns that have one (default: constant)",
    )
    argument("--metric", choices=("sphere",), help="columns named lon and lat, in degrees, are places on the earth")
    argument("--ard", choices=("auto", "yes", "no"), default="auto", help="one lengthscale a column (default: auto)")
    argument(
        "--noise-variance", type=number(0.0), metavar="V", help="in squared units of the target (default: learned)"
    )
    argument(
        "--target-transform",
        choices=("log", "log1p"),
        help="model the logarithm of the target, or of the target + 1; predictions stay in its units",
    )
    argument("--log", action="store_const", const="log", dest="target_transform", help="--target-transform log")
    argument("--tolerance", type=number(0.0), default=1e-3, metavar="KL", help="nats a row from the exact GP (1e-3)")
    argument("--max-memory", type=number(0.0), default=4.0, metavar="GIB", help="for matrices of a model (default: 4)")
    argument("--seed", type=int, default=0, metavar="N", help="of all that is drawn (default: 0)")
    argument(
        "--verbose",
        action="store_const",
        dest="silent",
        const=(),
        default=("lmgp.tried",),
        help="show each kernel and each model that is tried",
    )
    _add_rows(fit)
    add_dialect(fit)
    fit.set_defaults(run=_fit)


def _add_rows(fit: Parser) -> None:
    """Add the options of what becomes of the rows and targets of a table."""
    argument = fit.add_argument
    argument(
        "--hyperparameters",
        choices=("shared", "each"),
        default="shared",
        help="of several targets: one kernel for all of them, or one for each (default: shared)",
    )
    add_drop(fit, "leave out rows with missing values")
    argument(
        "--duplicates",
        choices=("keep", "average", "drop"),
        default="keep",
        help="of rows with equal inputs: keep all, average them, or drop copies with an equal target (default: keep)",
    )


def _add_predict(commands: Any, quiet: Parser) -> None:
    predict = commands.add_parser(
        "predict",
        parents=[quiet],
        help="predict with a model file",
        description="Write the mean and the standard deviation of a new observation in each row, and an interval that "
        "has it with a given probability. Columns are taken by name, in any order; others are ignored.",
    )
    argument = predict.add_argument
    argument("model", type=Path, metavar="MODEL", help="a file that 'lmgp fit' or model.save(path) wrote")
    argument("table", nargs="?", metavar="TABLE", help=TABLE)
    argument(
        "--grid",
        nargs="+",
        metavar="COLUMN=FROM:TO:N",
        help="in place of a table: N values of each column, such as lon=-6:2:200 lat=50:55:200; COLUMN=VALUE for one",
    )
    argument(
        "--out",
        default=STANDARD,
        metavar="FILE",
        help="what to write: a name in .csv, .csv.gz, .parquet or, of a grid, .nc (default: -, CSV on standard output)",
    )
    argument("--latent", action="store_true", help="of the function itself, without the noise of an observation")
    add_of_model(predict)
    add_drop(predict, "leave the prediction of rows with missing values empty")
    add_dialect(predict)
    predict.set_defaults(run=_predict)


def _fit(arguments: argparse.Namespace) -> None:
    from lmgp.saving.output import check_place

    if arguments.out == STANDARD:
        raise InputError("A model is written to a file; give its name, such as --out model.lmgp.")
    check_place(arguments.out)  # before the work
    _check_targets(arguments)
    from lmgp.tables import read_targets

    targets = arguments.target
    (table, complete), inputs = read_targets(
        table_source(arguments.table), targets, arguments.columns, table_dialect(arguments), incomplete=arguments.drop
    )
    if not complete.all():
        _LOG.info("%d of %d rows have missing values and are left out", (~complete).sum(), len(complete))
    table = table[complete]

    import numpy as np

    from lmgp.cli.info import described
    from lmgp.columns import NamedColumns
    from lmgp.models.chosen import GPRegressor
    from lmgp.models.several import MultiTargetGPRegressor
    from lmgp.models.transformed import TransformedTargetGPRegressor
    from lmgp.saving.files import save_with_notes

    model: Any = GPRegressor(
        arguments.tolerance,
        kernel=arguments.kernel[0] if len(arguments.kernel) == 1 else arguments.kernel,
        noise_variance=arguments.noise_variance,
        trend=arguments.trend[0] if arguments.trend in (["constant"], ["linear"]) else arguments.trend,
        metric=arguments.metric,
        ard="auto" if arguments.ard == "auto" else arguments.ard == "yes",
        max_memory_gib=arguments.max_memory,
        random_state=_seed(arguments.seed),
    )
    X, y = (np.ascontiguousarray(part) for part in np.split(table, [-len(targets)], axis=1))
    if arguments.target_transform is not None:
        model = TransformedTargetGPRegressor(model, arguments.target_transform)
    options = {"duplicates": arguments.duplicates}
    if len(targets) > 1:
        model, options = MultiTargetGPRegressor(model, arguments.hyperparameters), {}
    model.fit(NamedColumns.of(X, inputs), NamedColumns.of(y, targets) if len(targets) > 1 else y[:, 0], **options)
    of = "standard input" if arguments.table == STANDARD else Path(arguments.table).name
    ranges = list(zip(X.min(axis=0).tolist(), X.max(axis=0).tolist(), strict=True))
    named: dict[str, Any] = {"target": targets[0]} if len(targets) == 1 else {"targets": list(targets)}
    notes = named | {"rows": len(table), "table": of, "ranges": ranges}
    save_with_notes(model, arguments.out, notes)
    sys.stdout.write(described(model, notes))
    _LOG.info("wrote %s", arguments.out)


def _check_targets(arguments: argparse.Namespace) -> None:
    """Tell the table from the targets before it, and refuse what several targets do not go together with."""
    if arguments.table is None and len(arguments.target) > 1:
        arguments.table = arguments.target.pop()
    if arguments.table is None:
        raise InputError("Give the table to fit to, lmgp fit TABLE --target COLUMN (see lmgp fit --help).")
    if len(arguments.target) == 1:
        return
    told = ", ".join(arguments.target)
    if len(set(arguments.target)) < len(arguments.target):
        raise InputError(f"Name each target once; got --target {told}.")
    if arguments.duplicates != "keep":
        raise InputError(f"--duplicates {arguments.duplicates} is for one target; got --target {told}.")
    if arguments.target_transform is not None and arguments.hyperparameters == "shared":
        raise InputError(
            f"Logarithms of several targets, {told}, have a kernel each: add --hyperparameters each, or leave out "
            "--target-transform."
        )


def _predict(arguments: argparse.Namespace) -> None:
    from lmgp.saving.output import check_place

    if (arguments.table is None) == (arguments.grid is None):
        raise InputError("Give a table or a --grid to predict, and not both (see lmgp predict --help).")
    if arguments.out != STANDARD:
        check_place(arguments.out)  # before the work
    from lmgp.cli.grids import NETCDF, axes_of, check_format, write_netcdf, write_table

    check_format(arguments.out, arguments.grid is not None)
    model, notes = loaded_model(arguments)
    dialect, with_noise = table_dialect(arguments), not arguments.latent
    if arguments.grid is not None:
        from lmgp.grids import column_names, predict_grid

        axes = axes_of(arguments.grid, column_names(model))
        if Path(arguments.out).suffix == NETCDF and target_names(model) is not None:
            raise InputError(f"{arguments.out}: a netCDF file has one target, and the model several; name a CSV file.")
        if Path(arguments.out).suffix == NETCDF:
            grid = predict_grid(model, axes, include_noise=with_noise, level=arguments.level)
            write_netcdf(arguments.out, grid, notes.get("target"))
            _LOG.info("wrote a grid of %s to %s", " × ".join(map(str, grid.shape)), arguments.out)
            return
        tables = _parts_of_grid(model, axes, with_noise, arguments.level)
    else:
        from lmgp.tables import read_table

        choose = column_chooser(model, arguments.columns)
        X, complete = read_table(table_source(arguments.table), choose, dialect, incomplete=arguments.drop, least=1)
        tables = iter([predictions_of(model, X, complete, arguments.level, with_noise)])
    n_rows = write_table(arguments.out, tables, dialect)
    if arguments.out != STANDARD:
        _LOG.info("wrote %d rows to %s", n_rows, arguments.out)


def _parts_of_grid(
    model: Any, axes: "dict[str, Floats]", include_noise: bool, level: float
) -> "Iterator[dict[str, Floats]]":
    """Predict a grid, part by part: the columns of the model, then the predictions."""
    from lmgp.grids import column_names, grid_rows

    names = column_names(model)
    for X in grid_rows(axes, names):
        yield dict(zip(names, X.T.copy(), strict=True)) | predictions_of(model, X, None, level, include_noise)


def _info(arguments: argparse.Namespace) -> None:
    from lmgp.cli.info import described, of_file
    from lmgp.saving.files import load_with_header

    model, header = load_with_header(arguments.model)
    arguments.header = header
    sys.stdout.write(described(model, header.get("notes", {})) + of_file(arguments.model, model, header))


def _seed(seed: int) -> int:
    if seed < 0:
        raise InputError(f"--seed must not be negative; got {seed}.")
    return seed
