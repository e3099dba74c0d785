"""``lmgp compare``, ``lmgp reproduce`` and ``lmgp datasets``."""

import argparse
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmgp.cli.parsing import dialect_of
from lmgp.errors import InputError, ToleranceWarning

if TYPE_CHECKING:
    from lmgp.experiments.datasets import Dataset

_LOG = logging.getLogger(__name__)


def compare(arguments: argparse.Namespace) -> None:
    """Compare the methods with the exact GP on data sets."""
    from lmgp.experiments import report
    from lmgp.experiments.compare import PROTOCOLS, ComparisonSettings, check, check_writable
    from lmgp.experiments.compare import compare as compared
    from lmgp.experiments.user_methods import user_method

    protocol = PROTOCOLS[arguments.protocol]
    options: dict[str, Any] = {"n_features": protocol.n_features, "max_test_rows": protocol.max_test_rows}
    for name in ("methods", "n_features", "thresholds", "seeds", "max_train_rows", "max_test_rows"):
        if (value := getattr(arguments, name)) is not None:
            options[name] = tuple(value) if isinstance(value, list) else value
    options["further"] = tuple(arguments.method or ())
    for name in dict.fromkeys((*options.get("methods", ()), *options["further"])):
        if ":" in name:
            user_method(name)
    if arguments.standardise is not None:
        options["standardise"] = arguments.standardise == "yes"
    settings = ComparisonSettings(protocol, ard=arguments.ard, **options)
    if arguments.target is not None and not any(map(_is_file, arguments.datasets)):
        raise InputError(
            "--target is for files, and none is given: name one that exists. Data sets of the catalogue have theirs."
        )

    warnings.simplefilter("ignore", ToleranceWarning)  # the table says so
    # All is checked before the first cell is written: bad input leaves nothing behind.
    datasets = [_load(name, arguments) for name in arguments.datasets]
    names = [dataset.name.casefold() for dataset in datasets]
    for dataset in datasets:
        if names.count(dataset.name.casefold()) > 1:
            raise InputError(f"More than one data set would write its results to {arguments.out / dataset.name}.")
        check(dataset, settings, arguments.out)
        check_writable(_figure_path(dataset, arguments))

    for dataset in datasets:
        comparison = compared(dataset, settings, arguments.out, quiet=arguments.quiet)
        sys.stdout.write(report.table(comparison) + report.selections(comparison) + "\n")
        report.save(comparison, _figure_path(dataset, arguments))
        _LOG.info("%s: wrote results.csv and comparison.png to %s", dataset.name, arguments.out / dataset.name)
    sys.stdout.write(report.LEGEND + "\n")


def reproduce(arguments: argparse.Namespace) -> None:
    """Reproduce the paper, and write the report."""
    from lmgp.experiments.compare import PROTOCOLS
    from lmgp.experiments.reproduce import reproduce as reproduced

    name = "reproduction" if arguments.protocol == "paper" else f"reproduction-{arguments.protocol}"
    report = reproduced(
        arguments.out or Path("results", name),
        PROTOCOLS[arguments.protocol],
        arguments.effort,
        arguments.only,
        arguments.datasets,
        seeds=arguments.seeds,
        data_dir=arguments.data_dir,
        quiet=arguments.quiet,
    )
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


def datasets(arguments: argparse.Namespace) -> None:
    """List the data sets, and where each would come from."""
    from lmgp.experiments.datasets import available

    for entry, where in available(arguments.data_dir):
        rows = f"{entry.n_rows} rows" if entry.prepare is None else "rows depend on the file"
        sys.stdout.write(
            f"{entry.name}: {rows}, {len(entry.inputs)} inputs, target {entry.target} [{where}]\n"
            f"    {entry.description}\n    licence: {entry.licence}\n"
        )
