"""Run a comparison: split, fit the exact reference, fit every cell against it, and keep what was measured."""

import hashlib
import json
import logging
import sys
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from lmgp import ExactGPRegressor, GaussianKernel
from lmgp.datasets import Dataset, split
from lmgp.errors import InputError, LmgpError, MemoryLimitError
from lmgp.experiments.protocol import EXACT, METHODS, Cell, MapRequest, Settings
from lmgp.experiments.results import ResultsFile, Row
from lmgp.metrics import coverage, crps, kl_divergence, nlpd, rmse
from lmgp.models.exact import check_memory

_LOG = logging.getLogger(__name__)
_NUMERICAL = ("lmgp", "numpy", "scipy", "scikit-learn", "torch", "gpytorch")  # whose version can change a digit
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prepared:
    """The rows of one seed, as the models get them: X of shape (n, d), y of shape (n,)."""

    X_train: Floats
    y_train: Floats
    X_test: Floats
    y_test: Floats

    def same(self, other: "Prepared") -> bool:
        """Compare the rows: a data set with one published split has the same for every seed."""
        return all(map(np.array_equal, vars(self).values(), vars(other).values()))


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
        "protocol": [protocol.name, protocol.missing_variance, protocol.allocation, protocol.published_splits],
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
            check_memory(len(rows.y_train), ExactGPRegressor().max_memory_gib)
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


def compare(dataset: Dataset, settings: Settings, out: Path, *, quiet: bool = False) -> Comparison:
    """Compare the methods with the exact GP on one data set.

    Each cell is written to ``<out>/<name>/results.csv`` as soon as it is measured. Cells found there with the same
    settings are read back instead; what was measured under other settings is left alone.

    Parameters
    ----------
    dataset : Dataset
    settings : Settings
    out : Path
        The folder of the results; made with the first row written.
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
    watched = sys.stderr.isatty()  # else this is a log, where few lines are better
    interval = 0.1 if watched else 10.0
    with tqdm(missing, dataset.name, unit="cell", mininterval=interval, disable=quiet or not missing) as bar:
        bench: _Bench | None = None
        for seed, of_seed in groupby(bar, key=lambda cell: cell.seed):
            bar.set_postfix_str(str(Cell(seed, EXACT)), refresh=watched)
            rows = prepare(dataset, settings, seed)
            if bench is None or not rows.same(bench.rows):
                bench = _Bench(dataset, settings, mark, rows)
            for cell in of_seed:
                bar.set_postfix_str(str(cell), refresh=watched)
                try:
                    done[cell] = bench.measure(cell)
                except LmgpError as error:
                    if cell.method == EXACT:
                        raise
                    failures[cell] = str(error)
                    _LOG.warning("%s: %s cannot be made: %s", dataset.name, cell, error)
                else:
                    file.append(done[cell])
    return Comparison(dataset, settings, [done[cell] for cell in cells if cell in done], failures)


class _Bench:
    """The rows of a split with the exact GP fitted to them: what every cell is measured on."""

    def __init__(self, dataset: Dataset, settings: Settings, mark: str, rows: Prepared) -> None:
        self.protocol = settings.protocol
        self.rows = rows
        published = self.protocol.published_for(dataset)
        self.learned = published is None
        if published:
            kernel = GaussianKernel(published.lengthscale, published.variance)
            self.exact = ExactGPRegressor(kernel, published.noise_variance, random_state=0)
        else:
            self.exact = ExactGPRegressor(ard=settings.ard, random_state=0)
        self.mean, self.variance, self.seconds = self._fit_and_predict(self.exact)
        self.described: dict[str, Any] = {
            "settings": mark,
            "dataset": dataset.name,
            "protocol": self.protocol.name,
            "n_train": len(self.rows.y_train),
            "n_test": len(self.rows.y_test),
            "n_inputs": dataset.X.shape[1],
        }

    def _fit_and_predict(self, model: Any) -> tuple[Floats, Floats, dict[str, Any]]:
        """Return the mean and the variance, with noise, of each test row, and what it took."""
        start = perf_counter()
        model.fit(self.rows.X_train, self.rows.y_train)
        fitted = perf_counter()
        mean, std = model.predict(self.rows.X_test, return_std=True, include_noise=True)
        return mean, std**2, {"fit_seconds": fitted - start, "predict_seconds": perf_counter() - fitted}

    def _scores(self, mean: Floats, variance: Floats) -> dict[str, Any]:
        y = self.rows.y_test
        return {
            "rmse": rmse(y, mean),
            "nlpd": nlpd(y, mean, variance),
            "coverage": coverage(y, mean, variance),
            "crps": crps(y, mean, variance),
        }

    def measure(self, cell: Cell) -> Row:
        """Measure one cell; for the reference itself, which is fitted already, put together its row."""
        kernel, noise_variance = self.exact.kernel_, self.exact.noise_variance_
        if cell.method == EXACT:
            return Row(
                **self.described,
                **cell._asdict(),
                **self._scores(self.mean, self.variance),
                **self.seconds,
                lengthscale=tuple(map(float, np.atleast_1d(kernel.lengthscale))),
                variance=float(kernel.variance),
                noise_variance=float(noise_variance),
                converged=self.exact.converged_ if self.learned else None,
            )
        assert cell.n_features is not None
        request = MapRequest(cell.n_features, kernel, self.protocol, cell.seed, len(self.rows.y_train))
        model = METHODS[cell.method].regressor(request, cell.threshold, noise_variance)
        mean, variance, seconds = self._fit_and_predict(model)
        kl = kl_divergence(mean, variance, self.mean, self.variance)
        return Row(
            **self.described,
            **cell._asdict(),
            n_features_out=model.features_.transform(self.rows.X_train[:1]).shape[1],
            n_centroids=len(model.centroids_) if METHODS[cell.method].localized else None,
            kl=float(np.mean(kl)),
            kl_sum=float(np.sum(kl)),
            reverse_kl=float(np.mean(kl_divergence(self.mean, self.variance, mean, variance))),
            **self._scores(mean, variance),
            **seconds,
        )
