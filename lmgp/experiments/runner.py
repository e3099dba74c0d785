"""Run a comparison: split, measure every cell against the exact reference, and keep what was measured."""

import hashlib
import json
import logging
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from lmgp import ExactGPRegressor
from lmgp.datasets import Dataset, split
from lmgp.errors import InputError
from lmgp.experiments.bench import Bench, share
from lmgp.experiments.budget import check_features
from lmgp.experiments.own import mark_of
from lmgp.experiments.progress import Progress
from lmgp.experiments.protocol import Cell, Settings
from lmgp.experiments.reference import MEAN_ERROR, LearnedFile, Prepared, iterates
from lmgp.experiments.results import ResultsFile, Row

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
    left_out : tuple of str
        Which of the default methods cannot serve the data, and why.
    """

    dataset: Dataset
    settings: Settings
    rows: list[Row]
    failures: dict[Cell, str]
    left_out: tuple[str, ...] = field(default=())


def _parts(dataset: Dataset, settings: Settings, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    published = settings.protocol.published_for(dataset)
    return split(
        dataset,
        seed,
        n_train=published.n_train if published else None,
        published=settings.protocol.published_splits,
    )


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
    if settings.standardises(dataset):
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
        "standardised": settings.standardises(dataset),
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


def learned_path(dataset: Dataset, out: Path) -> Path:
    """Say where the learned hyper-parameters of a data set are kept."""
    return out / dataset.name / "learned.json"


def check(dataset: Dataset, settings: Settings, out: Path) -> None:
    """Find out all that would stop `compare` and can be known beforehand; nothing is left behind.

    Raises
    ------
    InputError, MemoryLimitError
        As `compare`, and where the matrices of a size do not fit.
    """
    ResultsFile(results_path(dataset, out))
    settings, left_out = settings.served(dataset)
    n_train = 0
    for seed in range(settings.seeds):
        n_train = len(prepare(dataset, settings, seed).y_train)
        limit = ExactGPRegressor().max_memory_gib
        check_features(dataset.name, settings.methods or (), settings.n_features, n_train, limit)
    for reason in left_out:
        _LOG.info("%s: left out: %s", dataset.name, reason)
    if iterates(n_train):
        _LOG.info(
            "%s: %s training rows are too many for a Cholesky factor: the mean of the exact GP is solved for by "
            "iteration, to %g predictive standard deviations, and its variance is approximate (--max-train-rows)",
            dataset.name,
            f"{n_train:,}",
            MEAN_ERROR,
        )
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

    Each cell is written to ``<out>/<name>/results.csv`` as soon as it is measured, and learned hyper-parameters to
    ``learned.json`` beside it as soon as they are learned. What is found there with the same settings is read back
    instead; what was measured under other settings is left alone.

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
        If the data cannot be split or modelled, a method that was named cannot serve them, or the results cannot be
        written.
    """
    settings, left_out = settings.served(dataset)
    run = _Run(dataset, settings, out)
    missing = [cell for cell in run.cells if cell not in run.done]
    if n_done := len(run.cells) - len(missing):
        _LOG.info("%s: %d of %d cells are read back from %s", dataset.name, n_done, len(run.cells), run.file.path)
    try:
        with Progress(dataset.name, None if together else len(missing), quiet=quiet or not missing) as progress:
            run.measure(missing, together, progress)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(run.kept()) from None
    rows = [run.done[cell] for cell in run.cells if cell in run.done]
    return Comparison(dataset, settings, rows, run.failures, left_out)


class _Run:
    """The state of one comparison: what is done, and where it is kept."""

    def __init__(self, dataset: Dataset, settings: Settings, out: Path) -> None:
        self.dataset, self.settings = dataset, settings
        self.file = ResultsFile(results_path(dataset, out))
        self.learned = LearnedFile(learned_path(dataset, out))
        self.mark = fingerprint(dataset, settings)
        self.cells = [cell for seed in range(settings.seeds) for cell in settings.cells(seed)]
        self.done = {row.cell: row for row in self.file.rows if row.settings == mark_of(self.mark, row.method)}
        self.failures: dict[Cell, str] = {}

    def measure(self, missing: list[Cell], together: bool, progress: Progress) -> None:
        """Measure the cells that are missing, seed by seed."""
        units = share(missing, self.settings.protocol) if together else [[cell] for cell in missing]
        left = list(units)
        bench: Bench | None = None
        for seed, of_seed in groupby(units, key=lambda unit: unit[0].seed):
            rows = prepare(self.dataset, self.settings, seed)
            if bench is None or not rows.same(bench.rows):
                bench = Bench(
                    self.dataset, self.settings, self.mark, rows, seed=seed, file=self.learned, doing=progress.doing
                )
                if together:  # what is left is estimated anew from the clusters of this seed
                    progress.estimate(sum(map(bench.work, left)))
            for unit in of_seed:
                left.remove(unit)
                progress.say(str(unit[-1]))
                for cell, outcome in bench.measure(unit):
                    self._note(cell, outcome)
                progress.advance(bench.work(unit) if together else 1)

    def _note(self, cell: Cell, outcome: Row | str) -> None:
        if isinstance(outcome, Row):
            self.file.append(outcome)
            self.done[cell] = outcome
        else:
            self.failures[cell] = outcome
            _LOG.warning("%s: %s cannot be made: %s", self.dataset.name, cell, outcome)

    def kept(self) -> str:
        """Say what an interrupted run leaves on disk."""
        kept = []
        if n_done := sum(cell in self.done for cell in self.cells):
            kept.append(f"{n_done} of {len(self.cells)} cells in {self.file.path}")
        if n_learned := len(self.learned.seeds(self.mark)):
            kept.append(f"the hyper-parameters of {n_learned} seed(s) in {self.learned.path}")
        if not kept:
            return f"{self.dataset.name}: nothing was finished, and the same command begins anew"
        return f"{self.dataset.name}: kept are {' and '.join(kept)}; the same command resumes"
