"""Probes: training rows that are held out, and their exact prediction."""

from dataclasses import dataclass
from time import perf_counter
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.inference.function_space import ExactPosterior
from lmgp.kernels.stationary import GaussianKernel
from lmgp.metrics import kl_divergence
from lmgp.parallel import parallel_map
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# So many rows predict the probes all together. Of more, probes come in groups: one neighbourhood serves a group.
ALL_ROWS = 10_000
N_PROBES = 256
N_GROUPS = 16

# At most one row in so many is held out; around the centre of a group, one in twice as many.
HELD_OUT = 5

# Neighbourhoods grow from and to so many rows, or until predictions change by less than this share of the tolerance.
FIRST_NEIGHBOURS, LAST_NEIGHBOURS = 512, 4096
SHARE_OF_TOLERANCE = 0.1


@dataclass(frozen=True)
class Probes:
    """Rows that were held out, and what the exact GP of the others predicts for them.

    Attributes
    ----------
    X : ndarray of shape (m, d)
        The first ones of all groups come first.
    mean, variance : ndarray of shape (m,)
        Of the latent function; the mean of the centred y.
    group : ndarray of shape (m,)
        The number of the group that each belongs to; of few rows, each is its own.
    rest : Rows
        The rows that were not held out.
    n_used : int
        From how many rows each prediction is.
    change : float
        By how much the predictions changed, in nats of KL a row with noise, when that number was last doubled; 0 where
        they are from all rows.
    seconds : float
        What this took.
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
        cls, rows: Rows, kernel: GaussianKernel, noise_variance: float, tolerance: float, rng: np.random.Generator
    ) -> Self:
        """Hold out a few rows, and predict them from growing neighbourhoods until that changes no more.

        Parameters
        ----------
        rows : Rows
            With y centred.
        kernel : GaussianKernel
        noise_variance : float
        tolerance : float
            KL per row, in nats, to which approximate models will be compared.
        rng : numpy.random.Generator
        """
        start = perf_counter()
        groups = _hold_out(kernel.scale(rows.X), rng)
        held = np.concatenate(groups)
        rest = rows.take(np.setdiff1d(np.arange(len(rows.y)), held))
        mean, variance, n_used, change = _predict(
            kernel, rest, noise_variance, [rows.X[group] for group in groups], SHARE_OF_TOLERANCE * tolerance
        )
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
        """Return the mean of values of the first probes, and its standard error."""
        # Probes of a group have much in common: the chance is which groups there are.
        group = self.group[: len(values)]
        sums, counts = np.bincount(group, values), np.bincount(group)
        # Of unequal groups, the mean is a ratio of two sums over them.
        deviations = (sums - values.mean() * counts)[counts > 0]
        return float(values.mean()), float(np.sqrt(np.square(deviations).sum()) / len(values))


def _hold_out(scaled: Floats, rng: np.random.Generator) -> list[Indices]:
    """Choose the rows to hold out, in groups of neighbours where there are many rows."""
    n = len(scaled)
    if n <= ALL_ROWS:
        return [rng.permutation(n)[: max(1, min(N_PROBES, n // HELD_OUT))]]
    size = N_PROBES // N_GROUPS
    centres = rng.choice(n, N_GROUPS, replace=False)
    _, around = KDTree(scaled).query(scaled[centres], k=2 * HELD_OUT * size)
    taken: set[int] = set()
    groups = []
    for candidates in around:
        group = [int(row) for row in rng.permutation(candidates) if int(row) not in taken][:size]
        taken.update(group)
        if group:  # others may have taken all of many equal rows
            groups.append(np.array(group, dtype=np.intp))
    return groups


def _predict(
    kernel: GaussianKernel, rows: Rows, noise_variance: float, groups: list[Floats], small_change: float
) -> tuple[Floats, Floats, int, float]:
    """Predict groups of rows exactly; return means, variances, from how many rows, and the last change."""
    n = len(rows.y)
    if len(groups) == 1:
        mean, variance = ExactPosterior(kernel, rows, noise_variance).predict(groups[0])
        return mean, variance, n, 0.0
    tree = KDTree(kernel.scale(rows.X))
    centres = kernel.scale(np.stack([group.mean(axis=0) for group in groups]))
    previous: tuple[Floats, Floats] | None = None
    k, change = FIRST_NEIGHBOURS, np.inf
    while True:
        neighbourhoods = tree.query(centres, k=k)[1]

        def predict(task: tuple[Floats, Indices]) -> tuple[Floats, Floats]:
            group, nearest = task
            return ExactPosterior(kernel, rows.take(nearest), noise_variance).predict(group)

        parts = parallel_map(predict, list(zip(groups, neighbourhoods, strict=True)))
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        if previous is not None:
            change = float(
                kl_divergence(previous[0], previous[1] + noise_variance, mean, variance + noise_variance).mean()
            )
        if change <= small_change or 2 * k > LAST_NEIGHBOURS:
            return mean, variance, k, change
        previous, k = (mean, variance), 2 * k
