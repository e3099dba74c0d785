"""Measure cells: one at a time, or together with what they have in common."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.datasets import Dataset
from lmgp.errors import ImplausibleMeanWarning, LmgpError, ToleranceWarning
from lmgp.experiments import sweep
from lmgp.experiments.budget import is_out_of_memory
from lmgp.experiments.own import mark_of
from lmgp.experiments.protocol import Cell, Protocol, Settings
from lmgp.experiments.reference import Doing, LearnedFile, Prepared, fit_exact
from lmgp.experiments.results import Row
from lmgp.features.adapter import make_feature_map
from lmgp.inference.local import PRUNE
from lmgp.locality.placement import cover
from lmgp.methods import BUILT_IN, EXACT, METHODS, NEAREST_ROWS, SPECTRAL
from lmgp.metrics import coverage, crps, kl_divergence, nlpd, rmse
from lmgp.noise import Noise
from lmgp.validation import Rows

Floats = NDArray[np.float64]

_LOG = logging.getLogger(__name__)


def share(cells: Sequence[Cell], protocol: Protocol) -> list[list[Cell]]:
    """Group cells that have something in common: the thresholds of one map, and the sizes of one that is nested.

    Parameters
    ----------
    cells : sequence of Cell
    protocol : Protocol

    Returns
    -------
    list of list of Cell
        Seed by seed, in the order in which the cells came.
    """
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        nested = cell.method != EXACT and METHODS[cell.method].nested
        follows = cell.method != EXACT and METHODS[cell.method].follows
        one_map = nested or (protocol.allocation == "mean" and not follows)
        key = cell.seed, cell.method, None if nested else cell.n_features, None if one_map else cell.threshold
        groups.setdefault(key, []).append(cell)
    return list(groups.values())


class Bench:
    """The rows of a split with the exact GP fitted to them: what every cell is measured on.

    Parameters
    ----------
    dataset : Dataset
    settings : Settings
    mark : str
        The fingerprint that the rows of results get.
    rows : Prepared
    seed : int, default=0
        Of the split.
    file : LearnedFile, optional
        Keeps the hyper-parameters that the exact GP learns.
    doing : callable, optional
        Shows a text for as long as its context lasts: what is being done.
    """

    def __init__(
        self,
        dataset: Dataset,
        settings: Settings,
        mark: str,
        rows: Prepared,
        *,
        seed: int = 0,
        file: LearnedFile | None = None,
        doing: Doing = nullcontext,
    ) -> None:
        self.protocol = settings.protocol
        self.rows = rows
        self._centroids: dict[float, Floats] = {}
        self.learned = self.protocol.published_for(dataset) is None
        self.exact, found = fit_exact(dataset, settings, rows, seed, mark=mark, file=file, doing=doing)
        self.converged = found.converged
        text = f"seed {seed}: exact prediction of {len(rows.y_test):,} rows from {len(rows.y_train):,}"
        with doing(text):
            self.mean, self.variance, seconds = self._predict(self.exact)
        if self.exact.iterations_ is not None:
            level = logging.INFO if self.exact.iterations_.converged else logging.WARNING
            _LOG.log(level, "seed %d: the mean of the exact GP: %s", seed, self.exact.iterations_)
        self.seconds: dict[str, Any] = {"fit_seconds": found.seconds, "predict_seconds": seconds}
        self.described: dict[str, Any] = {
            "settings": mark,
            "dataset": dataset.name,
            "protocol": self.protocol.name,
            "n_train": len(self.rows.y_train),
            "n_test": len(self.rows.y_test),
            "n_inputs": dataset.X.shape[1],
        }

    def measure(self, unit: Sequence[Cell]) -> Iterator[tuple[Cell, Row | str]]:
        """Measure cells of one unit.

        Parameters
        ----------
        unit : sequence of Cell
            One cell, or several of one group that `share` made.

        Yields
        ------
        Cell
        Row or str
            What was measured; or why it could not be.
        """
        if len(unit) > 1:
            try:
                yield from list(self._measure_together(unit))
                return
            except (LmgpError, MemoryError, RuntimeError) as error:
                _refuse_others(error)  # one of them cannot be made: each by itself says which
        for cell in unit:
            try:
                outcome: Row | str = self._measure_exact(cell) if cell.method == EXACT else self._measure_alone(cell)
            except Exception as error:
                outcome = _told(error, own=cell.method not in BUILT_IN)
            yield cell, outcome

    def work(self, unit: Sequence[Cell]) -> float:
        """Estimate the multiplications that a unit of one group takes."""
        if unit[0].method == EXACT:
            return 0.0
        n_features = max(cell.n_features or 0 for cell in unit)
        if unit[0].method == NEAREST_ROWS:
            return len(self.rows.y_test) * min(n_features, len(self.rows.y_train)) ** 3 / 3.0
        thresholds = [cell.threshold for cell in unit if cell.threshold is not None]
        n_models = min(len(self.centroids(min(thresholds))), len(self.rows.y_test)) if thresholds else 1
        return n_models * n_features**2 * (len(self.rows.y_train) + n_features / 3.0)

    def centroids(self, threshold: float) -> Floats:
        """Return the centroids of a threshold, shape (n_centroids, d); found once."""
        if threshold not in self._centroids:
            rows = Rows(self.rows.X_train, self.rows.y_train)
            self._centroids[threshold] = cover(rows, self.exact.kernel_, threshold)
        return self._centroids[threshold]

    def _predict(self, model: Any) -> tuple[Floats, Floats, float]:
        """Return the mean and the variance, with noise, of each test row, and the seconds that it took."""
        start = perf_counter()
        mean, std = model.predict(self.rows.X_test, return_std=True, include_noise=True)
        return mean, std**2, perf_counter() - start

    def _scores(self, mean: Floats, variance: Floats) -> dict[str, Any]:
        y = self.rows.y_test
        return {
            "rmse": rmse(y, mean),
            "nlpd": nlpd(y, mean, variance),
            "coverage": coverage(y, mean, variance),
            "crps": crps(y, mean, variance),
        }

    def _compared(self, mean: Floats, variance: Floats) -> dict[str, Any]:
        kl = kl_divergence(mean, variance, self.mean, self.variance)
        return {
            "kl": float(np.mean(kl)),
            "kl_sum": float(np.sum(kl)),
            "reverse_kl": float(np.mean(kl_divergence(self.mean, self.variance, mean, variance))),
            **self._scores(mean, variance),
        }

    def _measure_exact(self, cell: Cell) -> Row:
        kernel = self.exact.kernel_
        return Row(
            **self.described,
            **cell._asdict(),
            **self._scores(self.mean, self.variance),
            **self.seconds,
            lengthscale=tuple(map(float, np.atleast_1d(kernel.lengthscale))),
            variance=float(kernel.variance),
            noise_variance=float(self.exact.noise_variance_),
            converged=self.converged if self.learned else None,
        )

    def _measure_alone(self, cell: Cell) -> Row:
        method = METHODS[cell.method]
        model = method.regressor(
            cell.n_features,
            cell.threshold,
            allocation=self.protocol.allocation,
            random_state=cell.seed,
            kernel=self.exact.kernel_,
            noise_variance=self.exact.noise_variance_,
            approximation=self.protocol.approximation,
        )
        with _named_warnings(cell):
            start = perf_counter()
            model.fit(self.rows.X_train, self.rows.y_train)
            fitted = perf_counter()
            mean, variance, seconds = self._predict(model)
        selection = model.selection_ if method.chooses else None
        used = model.model_ if method.chooses else model
        localized = method.localized or (selection is not None and selection.chosen.threshold is not None)
        return Row(
            **{**self.described, "settings": mark_of(self.described["settings"], cell.method)},
            **cell._asdict(),
            n_features_out=self._size_of(cell, used),
            n_centroids=len(used.centroids_) if localized else None,
            selection="" if selection is None else selection.to_json(),
            **self._compared(mean, variance),
            fit_seconds=fitted - start,
            predict_seconds=seconds,
        )

    def _size_of(self, cell: Cell, model: Any) -> int | None:
        """Count the columns of a fitted model; or the rows that a prediction is from, or the modes."""
        if cell.method == NEAREST_ROWS:
            return min(model.n_neighbors, len(self.rows.y_train))
        if cell.method == SPECTRAL:
            return int(model.error_.n_modes)
        features = getattr(model, "features_", None)  # rows may be chosen in place of features
        return None if features is None else int(features.transform(self.rows.X_train[:1]).shape[1])

    def _measure_together(self, unit: Sequence[Cell]) -> Iterator[tuple[Cell, Row]]:
        """Measure the cells of one group, of whose maps there is one a size."""
        X, kernel, noise_variance = self.rows.X_train, self.exact.kernel_, self.exact.noise_variance_
        localized = METHODS[unit[0].method].localized
        maps: dict[int | None, Any] = {}
        placements = []
        for cell in unit:
            if cell.n_features not in maps:
                assert cell.n_features is not None
                made = METHODS[cell.method].make(cell.n_features, self.protocol.allocation, cell.seed)
                maps[cell.n_features] = make_feature_map(made, kernel, np.random.default_rng(cell.seed))
                around = self.centroids(cell.threshold) if cell.threshold else maps[cell.n_features].centre_of(X, None)
                maps[cell.n_features].fit_around(X, np.atleast_2d(around))
            features = maps[cell.n_features]
            centroids = self.centroids(cell.threshold) if cell.threshold else features.centre_of(X, None)[None, :]
            placements.append(sweep.Placement(features, centroids, PRUNE if localized else 0.0))
        centre = self.rows.y_train.mean()
        rows = Rows(X, self.rows.y_train - centre)
        noise = Noise(noise_variance, self.protocol.approximation)
        predictions = sweep.predict(placements, rows, self.rows.X_test, kernel, noise)
        for cell, placement, (mean, variance) in zip(unit, placements, predictions, strict=True):
            yield (
                cell,
                Row(
                    **self.described,
                    **cell._asdict(),
                    n_features_out=placement.features.n_features_out_,
                    n_centroids=len(placement.centroids) if localized else None,
                    **self._compared(mean + centre, variance + noise_variance),
                ),
            )


def _told(error: Exception, own: bool) -> str:
    """Say why a cell cannot be made; of a method that is not the package's, anything may be wrong."""
    if isinstance(error, LmgpError):
        return str(error)
    if own and not is_out_of_memory(error):
        return f"{type(error).__name__}: {error}"
    _refuse_others(error)
    return "out of memory"


def _refuse_others(error: BaseException) -> None:
    """Raise what is neither ours nor an allocator's."""
    if not (isinstance(error, LmgpError) or is_out_of_memory(error)):
        raise error


@contextmanager
def _named_warnings(cell: Cell) -> Iterator[None]:
    """Log of which cell the means are impossible; how far a chosen model is off, the table says."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", ToleranceWarning)
        warnings.simplefilter("always", ImplausibleMeanWarning)
        yield
    for one in caught:
        if issubclass(one.category, ImplausibleMeanWarning):
            _LOG.warning("%s: %s", cell, one.message)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
