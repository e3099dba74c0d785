"""What may be chosen, and what it would cost."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammainccinv
from sklearn.base import TransformerMixin

from lmgp.features.adapter import work_of
from lmgp.features.base import Work
from lmgp.features.fourier import OrthogonalFourierFeatures
from lmgp.features.maclaurin import OptimizedMaclaurinFeatures
from lmgp.features.nystroem import NystroemFeatures
from lmgp.features.taylor import TaylorFeatures
from lmgp.kernels.stationary import GaussianKernel
from lmgp.noise import Approximation
from lmgp.selection.costs import measured_costs
from lmgp.selection.search import Candidate, Choice, Family, Solver
from lmgp.validation import Rows

Floats = NDArray[np.float64]

THRESHOLDS = (4.0, 2.0, 1.0, 0.5, 0.25)
SMALLEST = 32

# The error in the kernel is of order size^(−1/2) for random maps, and the divergence at most quadratic in that
# squared. Explicit maps converge faster than any power, where they do.
RANDOM, NEAREST, EXPLICIT = 2.0, 4.0, 10.0

# The most centroids that are looked for, unless they are few compared to the rows; more would cost more than all else.
MAX_PASSES = 4e9  # coordinates to look at, above three columns
FEW_CENTROIDS = 256
ROWS_PER_CENTROID = 8

# Distances between so many rows and centroids say how many rows are within reach.
SAMPLE_ROWS, SAMPLE_CENTROIDS = 4096, 64

MAX_EXACT_ROWS = 16_384
LONG = 2.0  # seconds
PATIENCE = 10.0  # so many times longer, where the exact GP is not allowed


def max_centroids(n_rows: int, n_inputs: int) -> int:
    """Return the number of centroids above which a threshold is too small to be a candidate."""
    limit = max(FEW_CENTROIDS, n_rows // ROWS_PER_CENTROID)
    return limit if n_inputs <= 3 else int(min(limit, max(FEW_CENTROIDS, MAX_PASSES / (n_rows * n_inputs))))


@dataclass(frozen=True)
class Allowed:
    """What the parameters of `LocalizedGPRegressor` say; None where they leave it open."""

    features: TransformerMixin | None
    threshold: float | None
    solver: Solver | None
    approximation: Approximation
    max_features: int


def families(
    rows: Rows,
    n_rows: int,
    kernel: GaussianKernel,
    allowed: Allowed,
    cover: Callable[[float], Floats],
    share: float,
    n_predict: int,
) -> list[Family]:
    """List the candidates, with the seconds expected of each.

    Parameters
    ----------
    rows : Rows
        Those that candidates are tried on.
    n_rows : int
        The number of those that the chosen one is fitted to.
    kernel : GaussianKernel
    allowed : Allowed
    cover : callable
        Returns the centroids of a threshold, at most `max_centroids`.
    share : float
        The share of its variance below which a row is left out of a model.
    n_predict : int

    Returns
    -------
    list of Family
    """
    prices = _Prices(rows, n_rows, kernel, share, n_predict)
    found: list[Family] = []
    if allowed.solver != "dual":
        thresholds: Iterable[float | None] = (None, *THRESHOLDS) if allowed.threshold is None else [allowed.threshold]
        for threshold in thresholds:
            if threshold is not None:
                centroids = cover(threshold)
                if allowed.threshold is None and len(centroids) >= max_centroids(*rows.X.shape):
                    break  # smaller thresholds have more
                if allowed.threshold is None and len(centroids) == 1:
                    continue  # a global model
                prices.localize(centroids)
            found += _of_maps(allowed, threshold, prices)
    if allowed.solver != "primal" and allowed.features is None and allowed.threshold is None:
        found += _of_rows(allowed, prices)
    # What takes long, and longer than the exact GP, is no candidate.
    limit = max(LONG, prices.of_exact() * (PATIENCE if allowed.solver == "primal" else 1.0))
    for family in found:
        family.candidates[:] = [one for one in family.candidates if one.seconds <= limit]
    return [family for family in found if family.candidates]


def sizes(max_features: int) -> list[int]:
    """Return the sizes that are tried: from the largest down by halves."""
    halves = takewhile(lambda size: size >= SMALLEST, (max_features // 2**power for power in count()))
    return sorted(halves) or [max_features]


def _of_maps(allowed: Allowed, threshold: float | None, prices: "_Prices") -> Iterator[Family]:
    """List the maps around the centroids of a threshold; or, of None, around one centre."""
    localized = threshold is not None
    solver: Solver = "primal" if allowed.solver is None and not localized else (allowed.solver or "auto")
    centroids: Literal["farthest_point", "mean"] = "farthest_point" if localized else "mean"
    missing = allowed.approximation
    if localized and missing == "dtc":
        # Rows at the edge of a map's reach would distort the fit around each centroid.
        missing = "fitc"

    def family(method: str, power: float, make: Callable[[int], TransformerMixin], of_sizes: Iterable[int]) -> Family:
        return Family(
            [
                Candidate(
                    Choice(method, size, make(size), threshold, centroids, solver, missing),
                    prices.of_map(work_of(make(size), prices.d), localized),
                )
                for size in of_sizes
            ],
            power,
        )

    if allowed.features is not None:
        size = work_of(allowed.features, prices.d).columns
        yield family("features", EXPLICIT, lambda _: allowed.features, [size])
        return
    prefix = "local" if localized else "global"
    every = sizes(allowed.max_features)
    if not localized:
        yield family("orf", RANDOM, OrthogonalFourierFeatures, every)
        # As many landmarks as rows are exact: here, but not for the more rows that the chosen one is fitted to.
        landmarks = [size for size in every if size < prices.n_tried] + [size for size in every if size >= prices.n][:1]
        yield family("nystroem", EXPLICIT, NystroemFeatures, landmarks)
    if localized:
        yield family("local_maclaurin_tensor_srht", RANDOM, _sketch, every)
    taylor = family(f"{prefix}_taylor", EXPLICIT, TaylorFeatures, every)
    yield taylor
    if prices.d > 1:
        energy = family(f"{prefix}_taylor_energy", EXPLICIT, _energy, every)
        taylor.rival, energy.rival = energy, taylor
        yield energy


def _sketch(size: int) -> OptimizedMaclaurinFeatures:
    return OptimizedMaclaurinFeatures(size, sketch="tensor_srht")


def _energy(size: int) -> TaylorFeatures:
    return TaylorFeatures(size, index_set="energy")


def _of_rows(allowed: Allowed, prices: "_Prices") -> Iterator[Family]:
    """List the exact GP of the nearest rows, and that of all."""
    missing = allowed.approximation
    neighbours = [
        Candidate(Choice("nearest_rows", k, None, None, "test_rows", "dual", missing, k), prices.of_neighbours(k))
        for k in sizes(allowed.max_features)
        if k < prices.n
    ]
    yield Family(neighbours, NEAREST)
    if prices.n <= allowed.max_features:
        yield Family(
            [Candidate(Choice("exact", prices.n, None, None, "mean", "dual", missing), prices.of_exact())],
            EXPLICIT,
        )


class _Prices:
    """The seconds that candidates take, by the rates of this machine and what they have to do."""

    def __init__(self, rows: Rows, n_rows: int, kernel: GaussianKernel, share: float, n_predict: int) -> None:
        self.n, self.n_tried, self.d = n_rows, *rows.X.shape
        self._n_predict = n_predict
        self._share = share
        self._costs = measured_costs()
        self._kernel = kernel
        rng = np.random.default_rng(0)
        self._sample = kernel.scale(rows.X[rng.permutation(len(rows.X))[:SAMPLE_ROWS]])
        self._n_models = 1
        self._distances = np.zeros((1, 1))

    def localize(self, centroids: Floats) -> None:
        """Set the centroids that what follows is around."""
        picked = centroids[np.random.default_rng(0).permutation(len(centroids))[:SAMPLE_CENTROIDS]]
        self._distances = cdist(self._kernel.scale(picked), self._sample)
        # Those from which no row is predicted are not solved.
        self._n_models = min(len(centroids), self._n_predict)

    def of_map(self, work: Work, localized: bool) -> float:
        costs = self._costs
        n_models, n_rows = self._n_models if localized else 1, float(self.n)
        product = costs.product_row(work.columns)
        if work.solved:
            product += costs.predict_row(work.solved)
        if work.degree is not None and localized:
            n_rows *= float(np.mean(self._distances <= np.sqrt(gammainccinv(work.degree + 1, self._share))))
        if work.moments is not None:
            product = min(product, costs.moment_row(work.moments))
        per_model = costs.model + costs.factorise(work.columns) + n_rows * product
        return n_models * per_model + self._n_predict * costs.predict_row(work.columns)

    def of_neighbours(self, k: int) -> float:
        return self._n_predict * self._costs.neighbours_row(k)

    def of_exact(self) -> float:
        if self.n > MAX_EXACT_ROWS:
            # Of more rows than it can take, the seconds that these many take, for each of them.
            return self._costs.exact(MAX_EXACT_ROWS) * self.n / MAX_EXACT_ROWS
        return self._costs.exact(self.n) + self._n_predict * self._costs.exact_row(self.n)
