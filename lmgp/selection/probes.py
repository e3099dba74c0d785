"""Probes: training rows that are held out, and their exact prediction."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Self

import numpy as np
from scipy.spatial import KDTree

from lmgp.data import Floats, Indices, Noise, Rows
from lmgp.features.nystroem import NystroemFeatures
from lmgp.kernels.base import Kernel
from lmgp.metrics import kl_divergence
from lmgp.posteriors.exact import ExactPosterior, max_rows_within
from lmgp.posteriors.residual import ResidualPosterior
from lmgp.utils.lazy import torch
from lmgp.utils.parallel import parallel_map

# Up to this number of rows, the probes are drawn at random and predicted from all other rows: that takes about a
# second. Of more rows, the probes come in groups of neighbours, and one neighbourhood serves a group.
ALL_ROWS = 4096
# The number of rows to hold out, and of groups.
N_PROBES, N_GROUPS = 256, 16
# Hold out at most one row in 5, and one in 10 around the centre of a group: predictions from far fewer rows would be
# another problem.
HELD_OUT = 5
# Around every fourth group all rows are left out, at most this share of all rows in all: rows to come may lie in gaps,
# where more rows matter.
GAP_SHARE = 0.1
# The size of a neighbourhood.
NEIGHBOURS = 1024
# Where half the neighbourhood changes the predictions by more than the tolerance, a Nyström map stands for the rows
# beyond: with at most this number of landmarks, and this number of entries in its columns.
LANDMARKS, ENTRIES, BLOCK_SIZE = 512, 2**26, 256


def predicted_from_all(max_memory_gib: float) -> int:
    """Return the number of rows up to which probes are predicted from all others: those that fit into memory."""
    return max(NEIGHBOURS, min(ALL_ROWS, max_rows_within(max_memory_gib)))


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
    near : Rows
        Those of them that are among the `most_neighbours` nearest to a probe: models of the nearest rows are tried on
        these, whose number does not grow with n. Where each prediction is from all rows, these are all.
    n_used : int
        The number of rows that each prediction is from; rows beyond, through a map, are not counted.
    change : float
        By how much half that number changes the predictions, in nats of KL a row with noise; 0 where they are from all
        rows.
    seconds : float
        The time that this took.
    """

    X: Floats
    mean: Floats
    variance: Floats
    group: Indices
    rest: Rows
    near: Rows
    n_used: int
    change: float
    seconds: float

    @property
    def most_neighbours(self) -> int:
        """The number of nearest rows above which a model of them cannot be told from the reference."""
        return self.n_used // 2 if self.change else self.n_used

    @classmethod
    def of(
        cls,
        rows: Rows,
        kernel: Kernel,
        noise: Noise,
        tolerance: float,
        rng: np.random.Generator,
        max_memory_gib: float,
    ) -> Self:
        """Hold out some rows, and predict them from all others, or from those that matter.

        Parameters
        ----------
        rows : Rows
            With one centred target.
        kernel : Kernel
            With a metric.
        noise : Noise
        tolerance : float
            KL per row, in nats, to which approximate models will be compared.
        rng : numpy.random.Generator
        max_memory_gib : float
            See `predicted_from_all`.
        """
        start, n = perf_counter(), len(rows)
        scaled = kernel.in_lengthscales(rows.X)
        if n <= predicted_from_all(max_memory_gib):
            held = rng.permutation(n)[: max(1, min(N_PROBES, n // HELD_OUT))]
            rest = rows.take(np.setdiff1d(np.arange(n), held))
            means, variance = ExactPosterior(kernel, rest, noise).distribution(rows.X[held])
            mean = means[:, 0]
            order = labels = np.arange(len(held))
            near, n_used, change = rest, len(rest), 0.0
        else:
            tree = KDTree(scaled, balanced_tree=False)  # one tree for all: it takes the most time of many rows
            groups, gaps = _hold_out(scaled, tree, rng)
            held = np.concatenate(groups)
            gone = np.union1d(held, gaps)
            kept = np.setdiff1d(np.arange(n), gone)
            rest = rows.take(kept)
            around = _neighbourhoods(scaled, tree, groups, gone)
            inputs = [rows.X[group] for group in groups]
            # Where the rows around are among those that are not left out.
            places = np.searchsorted(kept, around)
            mean, variance, change = _reference(kernel, noise, rest, inputs, places, tolerance, rng)
            near, n_used = rows.take(_nearest(scaled, tree, held, gone, around.shape[1] // 2)), around.shape[1]
            order = np.argsort(np.concatenate([np.arange(len(group)) for group in groups]), kind="stable")
            labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])[order]
            labels = labels if len(groups) > 1 else np.arange(len(held))
        seconds = perf_counter() - start
        return cls(rows.X[held[order]], mean[order], variance[order], labels, rest, near, n_used, change, seconds)

    def mean_and_error(self, values: Floats) -> tuple[float, float]:
        """Return the mean of the values of the first probes, shape (m',) with m' ≤ m, and its standard error."""
        # The probes of a group are alike: what is random is which groups there are.
        group = self.group[: len(values)]
        sums, counts = np.bincount(group, values), np.bincount(group)
        # Groups differ in size, so the mean is the ratio of two sums over groups.
        deviations = (sums - values.mean() * counts)[counts > 0]
        return float(values.mean()), float(np.sqrt(np.square(deviations).sum()) / len(values))


def _hold_out(scaled: Floats, tree: KDTree, rng: np.random.Generator) -> tuple[list[Indices], Indices]:
    """Choose the rows to hold out, in groups of neighbours, and those around every fourth group."""
    size = N_PROBES // N_GROUPS
    centres = rng.choice(len(scaled), N_GROUPS, replace=False)
    _, around = tree.query(scaled[centres], k=2 * HELD_OUT * size)
    taken: set[int] = set()
    groups = []
    for candidates in around:
        group = [int(row) for row in rng.permutation(candidates) if int(row) not in taken][:size]
        taken.update(group)
        if group:  # where many rows are equal, other groups may have taken them all
            groups.append(np.array(group, dtype=np.intp))
    n_left_out = int(GAP_SHARE * len(scaled) / (N_GROUPS / 4))
    return groups, np.unique(around[::4, :n_left_out])


def _neighbourhoods(scaled: Floats, tree: KDTree, groups: list[Indices], gone: Indices) -> Indices:
    """Return the rows nearest to the middle of each group that are not left out, the nearest first."""
    k = min(NEIGHBOURS, len(scaled) - len(gone))
    middles = np.stack([scaled[group].mean(axis=0) for group in groups])
    _, around = tree.query(middles, k=k + len(gone), workers=torch.get_num_threads())
    return np.stack([nearest[~np.isin(nearest, gone)][:k] for nearest in around])


def _nearest(scaled: Floats, tree: KDTree, held: Indices, gone: Indices, k: int) -> Indices:
    """Return the rows that are among the k nearest to a held-out one, and are not left out themselves; ascending."""
    _, found = tree.query(scaled[held], k=k + len(gone), workers=torch.get_num_threads())
    return np.setdiff1d(found, gone)


def _reference(
    kernel: Kernel, noise: Noise, rest: Rows, groups: list[Floats], around: Indices, enough: float,
    rng: np.random.Generator,
) -> tuple[Floats, Floats, float]:  # fmt: skip
    """Return means and variances of groups, from the rows around each, and by how much half of these change them."""

    def predicted(make: Callable[[Indices, Floats], tuple[Floats, Floats]], n: int) -> tuple[Floats, Floats]:
        tasks = list(zip(around[:, :n], groups, strict=True))
        parts = parallel_map(lambda task: make(*task), tasks)
        means, variances = (np.concatenate(part) for part in zip(*parts, strict=True))
        return means[:, 0], variances

    def of_rows(near: Indices, X: Floats) -> tuple[Floats, Floats]:
        return ExactPosterior(kernel, rest.take(near), noise).distribution(X)

    def residuals(n_landmarks: int) -> ResidualPosterior:
        return ResidualPosterior(kernel, rest, noise, NystroemFeatures(n_landmarks), rng, 1, BLOCK_SIZE)

    def change(before: tuple[Floats, Floats], after: tuple[Floats, Floats]) -> float:
        (m, v), (mean, variance) = before, after
        return float(kl_divergence(m, v + noise.variance, mean, variance + noise.variance).mean())

    k = around.shape[1]
    fewer, more = predicted(of_rows, k // 2), predicted(of_rows, k)
    n_landmarks = min(LANDMARKS, ENTRIES // len(rest), len(rest))
    if change(fewer, more) > enough and n_landmarks >= 2:
        fewer = predicted(residuals(n_landmarks // 2).predict_given, k // 2)
        more = predicted(residuals(n_landmarks).predict_given, k)
    return *more, change(fewer, more)
