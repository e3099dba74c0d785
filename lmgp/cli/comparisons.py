"""``lmgp compare``, ``lmgp reproduce`` and ``lmgp datasets``."""

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmgp.cli.parsing import Parser, add_dialect, dialect_of
from lmgp.errors import InputError, ToleranceWarning

if TYPE_CHECKING:
    from lmgp.experiments.datasets import Dataset

_LOG = logging.getLogger(__name__)


def add(commands: Any, quiet: Parser) -> None:
    """Add the commands to a parser."""
    data_dir = Parser(add_help=False)
    data_dir.add_argument("--data-dir", metavar="DIR", help="folder with data files (default: $LMGP_DATA_DIR)")
    _add_compare(commands, [data_dir, quiet])
    _add_reproduce(commands, [data_dir, quiet])
    datasets = commands.add_parser("datasets", parents=[data_dir], help="list the data sets and what is here")
    datasets.set_defaults(run=_datasets)


def _add_compare(commands: Any, parents: list[Parser]) -> None:
    from lmgp.selection.methods import METHODS

    compare = commands.add_parser(
        "compare",
        parents=parents,
        help="compare approximate GPs with the exact one on data sets",
        description="Fit the exact GP and every method on each data set; print a table, and write results.csv and "
        "comparison.png to OUT/NAME. Finished cells are read back, so that an interrupted command resumes.",
        epilog=f"methods: {', '.join(METHODS)}",
    )
    add = compare.add_argument
    add("datasets", nargs="+", metavar="DATASET", help="a name that 'lmgp datasets' lists, or a file: CSV or Parquet")
    add(
        "--protocol",
        choices=("converged", "paper"),
        default="converged",
        help="learned hyper-parameters (default), or the published ones and splits like the paper's",
    )
    add("--methods", nargs="+", metavar="METHOD", help="below (default: what serves the data, but Gaussian sketches)")
    add(
        "--method",
        action="append",
        metavar="MODULE:OBJECT",
        help="a method of your own beside the others: a class of feature maps or regressors, or a function that makes "
        "one; may be given more than once",
    )
    add("--n-features", nargs="+", type=int, metavar="D", help="default: 32 128 512; paper: and 1024")
    add(
        "--thresholds",
        nargs="+",
        type=float,
        metavar="T",
        help="radius around a centroid, in lengthscales, for the local methods (default: 0.5 2)",
    )
    add("--seeds", type=int, metavar="N", help="number of repetitions (default: 3)")
    add("--out", type=Path, default=Path("results"), metavar="DIR", help="default: results")
    add("--target", metavar="COLUMN", help="the column of a CSV file to predict")
    add("--columns", nargs="+", metavar="COLUMN", help="input columns (default: all; the catalogue's)")
    add("--ard", action="store_true", help="learn one lengthscale a column")
    add(
        "--standardise",
        choices=("yes", "no"),
        help="bring each input column to mean 0 and s.d. 1 on the training rows (default: yes, but for the coordinates "
        "of the catalogue's spatial sets; the coordinates of a CSV file keep their scale with 'no')",
    )
    add("--max-train-rows", type=int, metavar="N", help="training rows used at most (default: 10000)")
    add("--max-test-rows", type=int, metavar="N", help="test rows used at most (default: 2000; paper: all)")
    add_dialect(compare)
    # The table says so.
    compare.set_defaults(run=_compare, passed_over=(ToleranceWarning,))


def _add_reproduce(commands: Any, parents: list[Parser]) -> None:
    reproduce = commands.add_parser(
        "reproduce",
        parents=parents,
        help="reproduce the paper: its figures and numbers, beside what was published",
        description="Reproduce the figures and numbers of Wacker and Filippone (2022), and write report.html with "
        "each figure, its table, the published number, ours and their ratio. What was measured is kept in OUT/cells: "
        "an interrupted command resumes.",
        epilog="By default: yacht with all thresholds and 10 seeds; kin8nm and the UK flats with thresholds from 1 on "
        "and 2 seeds.",
    )
    effort = reproduce.add_mutually_exclusive_group()
    effort.add_argument("--quick", action="store_true", help="few sizes and thresholds, one seed: a few minutes")
    effort.add_argument("--full", action="store_true", help="all thresholds and 10 seeds of every data set: hours")
    add = reproduce.add_argument
    add(
        "--only",
        nargs="+",
        action="extend",
        metavar="PART",
        help="from: kernel (Figure 1), sinc (2), uk-map (3), clusters and features (4, top and bottom), models",
    )
    add(
        "--datasets",
        nargs="+",
        action="extend",
        metavar="DATASET",
        help="from: yacht, kin8nm, uk_flats_2020-12, uk_flats (default: those that are found)",
    )
    add(
        "--protocol",
        choices=("paper", "converged"),
        default="paper",
        help="the published hyper-parameters (default), or learned ones: what a practitioner would see",
    )
    add("--seeds", type=int, metavar="N", help="number of repetitions, in place of the defaults")
    add("--out", type=Path, metavar="DIR", help="default: results/reproduction, with -converged for that protocol")
    reproduce.set_defaults(run=_reproduce)


def _compare(arguments: argparse.Namespace) -> None:
    from lmgp.experiments import report
    from lmgp.experiments.compare import PROTOCOLS, ComparisonSettings, check, check_writable, compare
    from lmgp.experiments.user_methods import register_user_methods

    protocol = PROTOCOLS[arguments.protocol]
    options: dict[str, Any] = {"n_features": protocol.n_features, "max_test_rows": protocol.max_test_rows}
    for name in ("methods", "n_features", "thresholds", "seeds", "max_train_rows", "max_test_rows"):
        if (value := getattr(arguments, name)) is not None:
            options[name] = tuple(value) if isinstance(value, list) else value
    options["further"] = tuple(arguments.method or ())
    register_user_methods((*options.get("methods", ()), *options["further"]))
    if arguments.standardise is not None:
        options["standardise"] = arguments.standardise == "yes"
    settings = ComparisonSettings(protocol, ard=arguments.ard, **options)
    if arguments.target is not None and not any(map(_is_file, arguments.datasets)):
        raise InputError(
            "--target is for files, and none is given: name one that exists. Data sets of the catalogue have theirs."
        )

    # All is checked before the first cell is written: bad input leaves nothing behind.
    datasets = [_load(name, arguments) for name in arguments.datasets]
    names = [dataset.name.casefold() for dataset in datasets]
    for dataset in datasets:
        if names.count(dataset.name.casefold()) > 1:
            raise InputError(f"More than one data set would write its results to {arguments.out / dataset.name}.")
        check(dataset, settings, arguments.out)
        check_writable(_figure_path(dataset, arguments))

    for dataset in datasets:
        comparison = compare(dataset, settings, arguments.out, quiet=arguments.quiet)
        sys.stdout.write(report.table(comparison) + report.selections(comparison) + "\n")
        report.save(comparison, _figure_path(dataset, arguments))
        _LOG.info("%s: wrote results.csv and comparison.png to %s", dataset.name, arguments.out / dataset.name)
    sys.stdout.write(report.LEGEND + "\n")


def _reproduce(arguments: argparse.Namespace) -> None:
    from lmgp.experiments.compare import PROTOCOLS
    from lmgp.experiments.reproduce import PARTS, Request, reproduce

    request = Request(
        PROTOCOLS[arguments.protocol],
        "quick" if arguments.quick else "full" if arguments.full else "default",
        PARTS if arguments.only is None else tuple(dict.fromkeys(arguments.only)),
        None if arguments.datasets is None else tuple(arguments.datasets),
        arguments.seeds,
        arguments.data_dir,
    )
    name = "reproduction" if arguments.protocol == "paper" else f"reproduction-{arguments.protocol}"
    report = reproduce(request, arguments.out or Path("results", name), quiet=arguments.quiet)
    sys.stdout.write(f"{report}\n")


def _figure_path(dataset: "Dataset", arguments: argparse.Namespace) -> Path:
    return Path(arguments.out, dataset.name, "comparison.png")


def _is_file(name: str) -> bool:
    from lmgp.experiments.datasets import CATALOGUE

    # No name of the catalogue has an ending.
    return name not in CATALOGUE and (bool(Path(name).suffix) or "/" in name or os.sep in name or Path(name).exists())


def _load(name: str, arguments: argparse.Namespace) -> "Dataset":
    from lmgp.experiments.datasets import load_csv, load_dataset

    if _is_file(name):
        return load_csv(name, arguments.target, columns=arguments.columns, **vars(dialect_of(arguments)))
    return load_dataset(name, arguments.data_dir, columns=arguments.columns, progressbar=not arguments.quiet)


def _datasets(arguments: argparse.Namespace) -> None:
    from lmgp.experiments.datasets import available

    for entry, where in available(arguments.data_dir):
        rows = f"{entry.n_rows} rows" if entry.prepare is None else "rows depend on the file"
        sys.stdout.write(
            f"{entry.name}: {rows}, {len(entry.inputs)} inputs, target {entry.target} [{where}]\n"
            f"    {entry.description}\n    licence: {entry.licence}\n"
        )
