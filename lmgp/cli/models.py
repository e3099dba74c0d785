"""``lmgp fit``, ``lmgp predict``, ``lmgp score`` and ``lmgp info``: models of tables, in files."""

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from lmgp.cli.parsing import Parser, add_dialect, add_drop, add_of_model, dialect_of, number
from lmgp.errors import DatasetError, InputError, nearest_names

if TYPE_CHECKING:
    from lmgp.cli.grids import Floats
    from lmgp.models.base import GaussianProcess
    from lmgp.tables import Dialect

_LOG = logging.getLogger(__name__)

STANDARD = "-"
TABLE = "a CSV file (compressed, if its name ends in .gz), a Parquet file (.parquet), or - for CSV on standard input"


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
    """Add the commands to a parser."""
    _add_fit(commands, quiet)
    _add_predict(commands, quiet)
    _add_score(commands, quiet)
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
    argument("table", metavar="TABLE", help=TABLE)
    argument("--target", required=True, metavar="COLUMN", help="the column to predict")
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
    add_drop(fit, "leave out rows with missing values")
    argument(
        "--duplicates",
        choices=("keep", "average", "drop"),
        default="keep",
        help="of rows with equal inputs: keep all, average them, or drop copies with an equal target (default: keep)",
    )
    add_dialect(fit)
    fit.set_defaults(run=_fit)


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


def _add_score(commands: Any, quiet: Parser) -> None:
    score = commands.add_parser(
        "score",
        parents=[quiet],
        help="compare the predictions of a model file with a table that has the target",
        description="Show the root mean square error, the mean negative log predictive density (NLPD) and the mean "
        "continuous ranked probability score (CRPS), lower ones being better, and the share of rows within intervals.",
    )
    argument = score.add_argument
    argument("model", type=Path, metavar="MODEL", help="a file that 'lmgp fit' or model.save(path) wrote")
    argument("table", metavar="TABLE", help=TABLE)
    argument("--target", metavar="COLUMN", help="the column that was predicted (default: that of 'lmgp fit')")
    add_of_model(score)
    add_drop(score, "leave out rows with missing values")
    argument("--report", metavar="FILE", help="write a page with the scores and figures too, such as report.html")
    add_dialect(score)
    score.set_defaults(run=_score)


def _fit(arguments: argparse.Namespace) -> None:
    from lmgp.saving.output import check_place

    if arguments.out == STANDARD:
        raise InputError("A model is written to a file; give its name, such as --out model.lmgp.")
    check_place(arguments.out)  # before the work
    from lmgp.tables import read_columns

    (table, complete), inputs, target = read_columns(
        _source(arguments.table), arguments.target, arguments.columns, _dialect(arguments), incomplete=arguments.drop
    )
    if not complete.all():
        _LOG.info("%d of %d rows have missing values and are left out", (~complete).sum(), len(complete))
    table = table[complete]

    from lmgp.cli.info import described
    from lmgp.columns import NamedColumns
    from lmgp.models.chosen import GPRegressor
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
    if arguments.target_transform is not None:
        model = TransformedTargetGPRegressor(model, arguments.target_transform)
    rows = NamedColumns.of(table[:, :-1].copy(), inputs)
    model.fit(rows, table[:, -1].copy(), duplicates=arguments.duplicates)
    of = "standard input" if arguments.table == STANDARD else Path(arguments.table).name
    ranges = list(zip(table[:, :-1].min(axis=0).tolist(), table[:, :-1].max(axis=0).tolist(), strict=True))
    notes: dict[str, Any] = {"target": target, "rows": len(table), "table": of, "ranges": ranges}
    save_with_notes(model, arguments.out, notes)
    sys.stdout.write(described(model, notes))
    _LOG.info("wrote %s", arguments.out)


def _predict(arguments: argparse.Namespace) -> None:
    from lmgp.saving.output import check_place

    if (arguments.table is None) == (arguments.grid is None):
        raise InputError("Give a table or a --grid to predict, and not both (see lmgp predict --help).")
    if arguments.out != STANDARD:
        check_place(arguments.out)  # before the work
    from lmgp.cli.grids import NETCDF, axes_of, check_format, write_netcdf, write_table

    check_format(arguments.out, arguments.grid is not None)
    model, notes = _loaded(arguments)
    dialect, with_noise = _dialect(arguments), not arguments.latent
    if arguments.grid is not None:
        from lmgp.grids import column_names, predict_grid

        axes = axes_of(arguments.grid, column_names(model))
        if Path(arguments.out).suffix == NETCDF:
            grid = predict_grid(model, axes, include_noise=with_noise, level=arguments.level)
            write_netcdf(arguments.out, grid, notes.get("target"))
            _LOG.info("wrote a grid of %s to %s", " × ".join(map(str, grid.shape)), arguments.out)
            return
        tables = _parts_of_grid(model, axes, with_noise, arguments.level)
    else:
        from lmgp.tables import read_table

        choose = _chooser(model, arguments.columns, None)
        X, complete = read_table(_source(arguments.table), choose, dialect, incomplete=arguments.drop, least=1)
        tables = iter([_predictions(model, X, complete, arguments.level, with_noise)])
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
        yield dict(zip(names, X.T.copy(), strict=True)) | _predictions(model, X, None, level, include_noise)


def _score(arguments: argparse.Namespace) -> None:
    if arguments.report is not None:
        from lmgp.cli.plotting import check_report

        check_report(arguments.report, arguments.model, arguments.table)  # before the work
    model, notes = _loaded(arguments)
    scored = score(model, notes, arguments)
    if arguments.report is not None:
        from lmgp.cli.plotting import write_report

        write_report(arguments.report, arguments.model, model, notes, scored, arguments.level)
        _LOG.info("wrote %s", arguments.report)
    width = max(map(len, scored.lines))
    sys.stdout.write("".join(f"{name:<{width}}  {value}\n" for name, value in scored.lines.items()))


def score(model: "GaussianProcess", notes: "dict[str, Any]", arguments: argparse.Namespace) -> Scored:
    """Compare predictions with a table, as the arguments of ``lmgp score`` say."""
    from lmgp import metrics
    from lmgp.tables import read_table

    target = arguments.target or notes.get("target")
    if target is None:
        raise InputError(f"{arguments.model} does not say which column it predicts; name it (--target).")
    choose = _chooser(model, arguments.columns, target)
    table, complete = read_table(
        _source(arguments.table), choose, _dialect(arguments), incomplete=arguments.drop, least=1
    )
    if not complete.all():
        _LOG.info("%d of %d rows have missing values and are left out", (~complete).sum(), len(complete))
    X, y = table[complete, :-1], table[complete, -1]
    mean, std, lower, upper = _predictions(model, X, None, arguments.level, include_noise=True).values()
    named = _named(model, X)
    of_model = hasattr(model, "nlpd_rows")  # y is not Gaussian, and the model has its density
    scores = {
        "RMSE": metrics.rmse(y, mean),
        "NLPD": model.nlpd_rows(named, y).mean() if of_model else metrics.nlpd(y, mean, std**2),
        "CRPS": model.crps_rows(named, y).mean() if of_model else metrics.crps(y, mean, std**2),
        f"coverage of {100 * arguments.level:g}% intervals": ((lower <= y) & (y <= upper)).mean(),
    }
    lines = {"rows": f"{len(y)}", **{name: f"{value:.6g}" for name, value in scores.items()}}
    return Scored(target, X, y, mean, std, lines)


def _info(arguments: argparse.Namespace) -> None:
    from lmgp.cli.info import described, of_file
    from lmgp.saving.files import load_with_header

    model, header = load_with_header(arguments.model)
    arguments.header = header
    sys.stdout.write(described(model, header.get("notes", {})) + of_file(arguments.model, model, header))


def _loaded(arguments: argparse.Namespace) -> "tuple[Any, dict[str, Any]]":
    """Read a regressor, and what is noted of its data; what the file says beside it becomes `arguments.header`."""
    from lmgp.models.base import GaussianProcess
    from lmgp.models.transformed import TransformedTargetGPRegressor
    from lmgp.saving.files import load_with_header

    path = arguments.model
    model, header = load_with_header(path)
    arguments.header = header
    if not isinstance(model, GaussianProcess | TransformedTargetGPRegressor):
        raise InputError(
            f"{path} has a {type(model).__name__}, which predicts no mean and standard deviation; use it in Python: "
            f"lmgp.load({str(path)!r})."
        )
    return model, header.get("notes", {})


def _source(table: str) -> Path | BinaryIO:
    return sys.stdin.buffer if table == STANDARD else Path(table).expanduser()


def _dialect(arguments: argparse.Namespace) -> "Dialect":
    from lmgp.tables import Dialect

    return Dialect(**dialect_of(arguments))


def _seed(seed: int) -> int:
    if seed < 0:
        raise InputError(f"--seed must not be negative; got {seed}.")
    return seed


def _names(model: "GaussianProcess") -> tuple[str, ...] | None:
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def _chooser(
    model: "GaussianProcess", columns: Sequence[str] | None, target: str | None
) -> Callable[[str, tuple[str, ...]], Sequence[str]]:
    """Return what finds the columns of a model in a table, and then the target."""
    known, n_inputs = _names(model), model.n_features_in_
    if known is not None and columns is not None:
        raise InputError(f"The model takes its columns by their names, {', '.join(known)}; leave out --columns.")

    def choose(where: str, names: tuple[str, ...]) -> Sequence[str]:
        wanted = known or tuple(columns or (name for name in names if name != target))
        missing = [name for name in (*wanted, *([] if target is None else [target])) if name not in names]
        if missing:
            told = "; ".join(f"no column is named {name!r}, {nearest_names(name, names)}" for name in missing)
            raise DatasetError(f"{where} lacks {len(missing)} of the columns that are needed: {told}.")
        if len(wanted) != n_inputs:
            raise DatasetError(
                f"{where} has {len(wanted)} inputs, {', '.join(wanted)}; the model was fitted to {n_inputs} columns "
                "without names. Choose the inputs (--columns)."
            )
        return wanted if target is None else (*wanted, target)

    return choose


def _predictions(model: Any, X: "Floats", complete: Any, level: float, include_noise: bool) -> "dict[str, Floats]":
    """Return means, standard deviations and intervals of rows; NaN of those that are not complete."""
    import numpy as np

    from lmgp.grids import predicted

    rows, shown = X if complete is None else X[complete], _LOG.isEnabledFor(logging.INFO)
    found = np.full((4, len(X)), np.nan)
    if len(rows):
        place = slice(None) if complete is None else complete
        found[:, place] = predicted(
            model, rows, True, include_noise, level, verbose=shown
        )  # a bar, where it takes long
    return dict(zip(("mean", "std", "lower", "upper"), found, strict=True))


def _named(model: Any, rows: "Floats") -> "Floats":
    """Return rows with the names that the model knows."""
    import numpy as np

    from lmgp.columns import NamedColumns

    names = _names(model)
    return rows if names is None else NamedColumns.of(np.ascontiguousarray(rows), names)
