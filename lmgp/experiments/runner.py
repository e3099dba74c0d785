"""Run a comparison: split, measure every cell against the exact reference, and keep what was measured."""

import hashlib
import json
import logging
import sys
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from lmgp import ExactGPRegressor
from lmgp.datasets import Dataset, split
from lmgp.errors import InputError, MemoryLimitError
from lmgp.experiments.bench import Bench, Prepared, share
from lmgp.experiments.protocol import EXACT, Cell, Settings
from lmgp.experiments.results import ResultsFile, Row
from lmgp.inference.function_space import check_exact

_LOG = logging.getLogger(__name__)
_NUMERICAL = ("lmgp", "numpy", "scipy", "scikit-learn", "torch", "gpytorch")  # whose version can change a digit


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison.

    Attributes
    ----------
    dataset : Dataset
    settings : Settings
    rows : list of Row
        One for each cell that could be made, in the order of the settings.
    failures : dict of Cell to str
        Why the others could not.
    """

    dataset: Dataset
    settings: Settings
    rows: list[Row]
    failures: dict[Cell, str]


def _parts(dataset: Dataset, settings: Settings, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    published = settings.protocol.published_for(dataset)
    return split(
        dataset,
        seed,
        n_train=published.n_train if published else None,
        published=settings.protocol.published_splits,
    )


def _standardises(dataset: Dataset, settings: Settings) -> bool:
    published = settings.protocol.published_for(dataset)
    if published:
        return published.standardise
    # Coordinates keep their scale; what is known of them holds for the catalogue's choice of columns.
    return not (dataset.entry and dataset.entry.spatial and dataset.feature_names == dataset.entry.inputs)


def prepare(dataset: Dataset, settings: Settings, seed: int) -> Prepared:
    """Split a data set as the settings say, cap both parts, and standardise the inputs where the protocol does.

    Parameters
    ----------
    dataset : Dataset
    settings : Settings
    seed : int
        Sets the split, where it is random, and the rows that stay below a cap.

    Returns
    -------
    Prepared

    Raises
    ------
    InputError
        If there are fewer than 2 training rows or no test row, or if the targets or all
        inputs of the training rows are constant.
    """
    rng = np.random.default_rng((seed, 1))  # a stream apart from the split's
    train, test = (
        np.sort(rng.choice(part, cap, replace=False)) if cap is not None and len(part) > cap else part
        for part, cap in zip(
            _parts(dataset, settings, seed), (settings.max_train_rows, settings.max_test_rows), strict=True
        )
    )
    if len(train) < 2 or len(test) < 1:
        raise InputError(
            f"{dataset.name} has {len(dataset.y)} rows, which split into {len(train)} for training and {len(test)} "
            "for testing; at least 2 and 1 are needed."
        )
    if np.ptp(dataset.y[train]) == 0:
        raise InputError(
            f"The target {dataset.target_name!r} of {dataset.name} is constant on the training rows of seed {seed}: "
            "there is nothing to learn."
        )
    if not np.ptp(dataset.X[train], axis=0).any():
        raise InputError(
            f"All input columns of {dataset.name} ({', '.join(dataset.feature_names)}) are constant on the training "
            f"rows of seed {seed}: there is nothing to learn from."
        )
    X_train, X_test = dataset.X[train], dataset.X[test]
    if _standardises(dataset, settings):
        scaler = StandardScaler().fit(X_train)
        X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    return Prepared(X_train, dataset.y[train], X_test, dataset.y[test])


def fingerprint(dataset: Dataset, settings: Settings) -> str:
    """Hash all that changes the numbers of a cell and is not part of its key.

    Returns
    -------
    str
        12 hexadecimal digits.
    """
    protocol = settings.protocol
    described = {
        "versions": {name: version(name) for name in _NUMERICAL},
        "protocol": [protocol.name, protocol.approximation, protocol.allocation, protocol.published_splits],
        "published": protocol.published_for(dataset),
        "standardised": _standardises(dataset, settings),
        "columns": [*dataset.feature_names, dataset.target_name],
        "caps": [settings.max_train_rows, settings.max_test_rows],
        "ard": settings.ard,
    }
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for array in (dataset.X, dataset.y, *dataset.splits):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]


def results_path(dataset: Dataset, out: Path) -> Path:
    """Say where the results of a data set are kept."""
    return out / dataset.name / "results.csv"


def check(dataset: Dataset, settings: Settings, out: Path) -> None:
    """Find out all that would stop `compare` and can be known beforehand; nothing is written.

    Raises
    ------
    InputError, MemoryLimitError
        As `compare`.
    """
    ResultsFile(results_path(dataset, out))
    for seed in range(settings.seeds):
        rows = prepare(dataset, settings, seed)
        try:
            check_exact(len(rows.y_train), ExactGPRegressor().max_memory_gib)
        except MemoryLimitError as error:
            raise MemoryLimitError(f"{dataset.name}: lower --max-train-rows. {error}") from None
    for name, part, cap in zip(
        ("train", "test"),
        _parts(dataset, settings, 0),
        (settings.max_train_rows, settings.max_test_rows),
        strict=True,
    ):
        if cap is not None and len(part) > cap:
            _LOG.info(
                "%s: a random %d of the %d %s rows are used (--max-%s-rows)", dataset.name, cap, len(part), name, name
            )


def compare(
    dataset: Dataset, settings: Settings, out: Path, *, together: bool = False, quiet: bool = False
) -> Comparison:
    """Compare the methods with the exact GP on one data set.

    Each cell is written to ``<out>/<name>/results.csv`` as soon as it is measured. Cells found there with the same
    settings are read back instead; what was measured under other settings is left alone.

    Parameters
    ----------
    dataset : Dataset
    settings : Settings
    out : Path
        The folder of the results; made with the first row written.
    together : bool, default=False
        Whether cells share what they have in common, see `lmgp.experiments.sweep`: many times faster, with the same
        predictions (to the tolerance of pruning), but without a time of its own for each cell.
    quiet : bool, default=False
        Whether to show no progress bar.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If the data cannot be split or modelled, or the results cannot be written.
    MemoryLimitError
        If there are too many rows for the exact reference.
    """
    file = ResultsFile(results_path(dataset, out))
    mark = fingerprint(dataset, settings)
    done = {row.cell: row for row in file.rows if row.settings == mark}
    cells = [cell for seed in range(settings.seeds) for cell in settings.cells(seed)]
    missing = [cell for cell in cells if cell not in done]
    failures: dict[Cell, str] = {}
    if n_done := len(cells) - len(missing):
        _LOG.info("%s: %d of %d cells are read back from %s", dataset.name, n_done, len(cells), file.path)
    units = share(missing, settings.protocol) if together else [[cell] for cell in missing]
    watched = sys.stderr.isatty()  # else this is a log, where few lines are better
    bench: Bench | None = None
    left = list(units)
    with _progress(dataset.name, together, quiet or not missing, watched) as bar:
        for seed, of_seed in groupby(units, key=lambda unit: unit[0].seed):
            bar.set_postfix_str(str(Cell(seed, EXACT)), refresh=watched)
            rows = prepare(dataset, settings, seed)
            if bench is None or not rows.same(bench.rows):
                bench = Bench(dataset, settings, mark, rows)
                # What is left is estimated anew from the clusters of this seed.
                bar.total = bar.n + (sum(map(bench.work, left)) if together else len(left))
            for unit in of_seed:
                left.remove(unit)
                bar.set_postfix_str(str(unit[-1]), refresh=watched)
                for cell, outcome in bench.measure(unit):
                    if isinstance(outcome, Row):
                        file.append(outcome)
                        done[cell] = outcome
                    else:
                        failures[cell] = outcome
                        _LOG.warning("%s: %s cannot be made: %s", dataset.name, cell, outcome)
                bar.update(bench.work(unit) if together else 1)
    return Comparison(dataset, settings, [done[cell] for cell in cells if cell in done], failures)


def _progress(name: str, together: bool, disable: bool, watched: bool) -> "tqdm[Any]":
    """Make a bar of cells, or of estimated work, with the time left; its total is set when it is known."""
    count = "" if together else "{n_fmt}/{total_fmt} cells "
    form = "{desc}: {percentage:3.0f}%|{bar}| " + count + "[{elapsed}<{remaining}{postfix}]"
    interval = 0.1 if watched else 10.0
    return tqdm(desc=name, mininterval=interval, bar_format=form, smoothing=0.05, disable=disable)
