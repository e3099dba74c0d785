"""Probes: training rows that are held out, and their exact prediction."""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.inference.function_space import RowPosterior, max_rows_within
from lmgp.kernels.base import Kernel
from lmgp.metrics import kl_divergence
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Plan:
    """Which rows are held out, and from how many others they are predicted.

    Attributes
    ----------
    all_rows : int
        Up to this number of rows, the probes are drawn at random and predicted from all other rows. Of more rows, the
        probes come in groups of neighbours, and one neighbourhood serves a group.
    n_probes, n_groups : int
        The number of rows to hold out, and of groups.
    held_out : int
        Hold out at most one row in 5, and one in 10 around the centre of a group: predictions from far fewer rows
        would be another problem.
    first_neighbours, last_neighbours : int
        The size of the first neighbourhood, and of the largest; each is twice the one before.
    share_of_tolerance : float
        Neighbourhoods are large enough when doubling them changes the predictions by less than this share of the
        tolerance.
    """

    all_rows: int = 10_000
    n_probes: int = 256
    n_groups: int = 16
    held_out: int = 5
    first_neighbours: int = 512
    last_neighbours: int = 4096
    share_of_tolerance: float = 0.1

    def within(self, max_memory_gib: float) -> Self:
        """Return the plan that predicts from all rows only where these fit into memory, in GiB."""
        return replace(self, all_rows=max(self.last_neighbours, min(self.all_rows, max_rows_within(max_memory_gib))))


PLAN = Plan()


@dataclass(frozen=True, eq=False)
class Probes:
    """Rows that were held out, and what the exact GP of the others predicts for them.

    Attributes
    ----------
    X : ndarray of shape (m, d)
        The groups take turns: the first row of each group, then the second of each, and so on.
    mean, variance : ndarray of shape (m,)
        Of the latent function, for y centred.
    group : ndarray of shape (m,)
        The index of each row's group; of few rows, each is a group of its own.
    rest : Rows
        The rows that were not held out.
    n_used : int
        The number of rows that each prediction is from.
    change : float
        By how much the predictions changed when that number was last doubled, in nats of KL a row with noise; 0 where
        they are from all rows.
    seconds : float
        The time that this took.
    """

    X: Floats
    mean: Floats
    variance: Floats
    group: Indices
    rest: Rows
    n_used: int
    change: float
    seconds: float

    @classmethod
    def of(
        cls, rows: Rows, kernel: Kernel, noise: Noise, tolerance: float, rng: np.random.Generator, plan: Plan = PLAN
    ) -> Self:
        """Hold out some rows, and predict them from growing neighbourhoods until the predictions settle.

        Parameters
        ----------
        rows : Rows
            With y centred.
        kernel : Kernel
            With a metric.
        noise : Noise
        tolerance : float
            KL per row, in nats, to which approximate models will be compared.
        rng : numpy.random.Generator
        plan : Plan
        """
        start = perf_counter()
        groups = _hold_out(kernel.scale(rows.X), rng, plan)
        held = np.concatenate(groups)
        rest = rows.take(np.setdiff1d(np.arange(len(rows.y)), held))
        inputs = [rows.X[group] for group in groups]
        if len(groups) == 1:
            mean, variance = _both(RowPosterior(kernel, rest, noise), inputs[0])
            n_used, change = len(rest.y), 0.0
        else:
            mean, variance, n_used, change = _from_neighbourhoods(kernel, rest, noise, inputs, tolerance, plan)
        order = np.argsort(np.concatenate([np.arange(len(group)) for group in groups]), kind="stable")
        labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])[order]
        return cls(
            rows.X[held[order]],
            mean[order],
            variance[order],
            labels if len(groups) > 1 else np.arange(len(held)),
            rest,
            n_used,
            change,
            perf_counter() - start,
        )

    def mean_and_error(self, values: Floats) -> tuple[float, float]:
        """Return the mean of the values of the first probes, shape (m',) with m' ≤ m, and its standard error."""
        # The probes of a group are alike: what is random is which groups there are.
        group = self.group[: len(values)]
        sums, counts = np.bincount(group, values), np.bincount(group)
        # Groups differ in size, so the mean is the ratio of two sums over groups.
        deviations = (sums - values.mean() * counts)[counts > 0]
        return float(values.mean()), float(np.sqrt(np.square(deviations).sum()) / len(values))


def _hold_out(scaled: Floats, rng: np.random.Generator, plan: Plan) -> list[Indices]:
    """Choose the rows to hold out, in groups of neighbours where there are many rows."""
    n = len(scaled)
    if n <= plan.all_rows:
        return [rng.permutation(n)[: max(1, min(plan.n_probes, n // plan.held_out))]]
    size = plan.n_probes // plan.n_groups
    centres = rng.choice(n, plan.n_groups, replace=False)
    _, around = KDTree(scaled).query(scaled[centres], k=2 * plan.held_out * size)
    taken: set[int] = set()
    groups = []
    for candidates in around:
        group = [int(row) for row in rng.permutation(candidates) if int(row) not in taken][:size]
        taken.update(group)
        if group:  # where many rows are equal, other groups may have taken them all
            groups.append(np.array(group, dtype=np.intp))
    return groups


def _both(posterior: RowPosterior, X: Floats) -> tuple[Floats, Floats]:
    mean, variance = posterior.predict(X)
    assert variance is not None  # for the type checker
    return mean, variance


def _from_neighbourhoods(
    kernel: Kernel, rows: Rows, noise: Noise, groups: list[Floats], tolerance: float, plan: Plan
) -> tuple[Floats, Floats, int, float]:
    """Predict groups of rows exactly; return means, variances, the number of rows used, and the last change."""
    tree = KDTree(kernel.scale(rows.X))
    centres = kernel.scale(np.stack([group.mean(axis=0) for group in groups]))
    previous: tuple[Floats, Floats] | None = None
    k, change = plan.first_neighbours, np.inf
    while True:
        neighbourhoods = tree.query(centres, k=k)[1]

        def predict(task: tuple[Floats, Indices]) -> tuple[Floats, Floats]:
            group, nearest = task
            return _both(RowPosterior(kernel, rows.take(nearest), noise), group)

        parts = parallel_map(predict, list(zip(groups, neighbourhoods, strict=True)))
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        if previous is not None:
            before = previous[0], previous[1] + noise.variance
            change = float(kl_divergence(*before, mean, variance + noise.variance).mean())
        if change <= plan.share_of_tolerance * tolerance or 2 * k > plan.last_neighbours:
            return mean, variance, k, change
        previous, k = (mean, variance), 2 * k
