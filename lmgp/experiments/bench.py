"""Measure cells: one at a time, or together with what they have in common."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp import ExactGPRegressor, GaussianKernel
from lmgp.datasets import Dataset
from lmgp.errors import LmgpError, ToleranceWarning
from lmgp.experiments import sweep
from lmgp.experiments.protocol import EXACT, METHODS, Cell, MapRequest, Protocol, Settings
from lmgp.experiments.results import Row
from lmgp.features.adapter import make_feature_map
from lmgp.inference.local import PRUNE
from lmgp.locality.placement import cover
from lmgp.metrics import coverage, crps, kl_divergence, nlpd, rmse
from lmgp.noise import Noise
from lmgp.validation import Rows

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
    """

    def __init__(self, dataset: Dataset, settings: Settings, mark: str, rows: Prepared) -> None:
        self.protocol = settings.protocol
        self.rows = rows
        self._centroids: dict[float, Floats] = {}
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
            except LmgpError:
                pass  # one of them cannot be made: each by itself says which
        for cell in unit:
            try:
                outcome: Row | str = self._measure_exact(cell) if cell.method == EXACT else self._measure_alone(cell)
            except LmgpError as error:
                outcome = str(error)
            yield cell, outcome

    def work(self, unit: Sequence[Cell]) -> float:
        """Estimate the multiplications that a unit of one group takes."""
        if unit[0].method == EXACT:
            return 0.0
        n_features = max(cell.n_features or 0 for cell in unit)
        thresholds = [cell.threshold for cell in unit if cell.threshold is not None]
        n_models = min(len(self.centroids(min(thresholds))), len(self.rows.y_test)) if thresholds else 1
        return n_models * n_features**2 * (len(self.rows.y_train) + n_features / 3.0)

    def centroids(self, threshold: float) -> Floats:
        """Return the centroids of a threshold, shape (n_centroids, d); found once."""
        if threshold not in self._centroids:
            rows = Rows(self.rows.X_train, self.rows.y_train)
            self._centroids[threshold] = cover(rows, self.exact.kernel_, threshold)
        return self._centroids[threshold]

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
            converged=self.exact.converged_ if self.learned else None,
        )

    def _request(self, cell: Cell) -> MapRequest:
        assert cell.n_features is not None
        return MapRequest(cell.n_features, self.exact.kernel_, self.protocol, cell.seed)

    def _measure_alone(self, cell: Cell) -> Row:
        method = METHODS[cell.method]
        model = method.regressor(self._request(cell), cell.threshold, self.exact.noise_variance_)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ToleranceWarning)  # the table says so
            mean, variance, seconds = self._fit_and_predict(model)
        selection = model.selection_ if method.chooses else None
        columns = None if model.features_ is None else model.features_.transform(self.rows.X_train[:1]).shape[1]
        localized = method.localized or (selection is not None and selection.chosen.threshold is not None)
        return Row(
            **self.described,
            **cell._asdict(),
            n_features_out=columns,
            n_centroids=len(model.centroids_) if localized else None,
            selection="" if selection is None else selection.to_json(),
            **self._compared(mean, variance),
            **seconds,
        )

    def _measure_together(self, unit: Sequence[Cell]) -> Iterator[tuple[Cell, Row]]:
        """Measure the cells of one group, of whose maps there is one a size."""
        X, kernel, noise_variance = self.rows.X_train, self.exact.kernel_, self.exact.noise_variance_
        localized = METHODS[unit[0].method].localized
        maps: dict[int | None, Any] = {}
        placements = []
        for cell in unit:
            if cell.n_features not in maps:
                request = self._request(cell)
                made = METHODS[cell.method].factory(request)
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
