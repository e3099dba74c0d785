"""Probes: training rows that are held out, and their exact prediction."""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.data import Noise, Rows
from lmgp.features.adapter import make_feature_map
from lmgp.features.nystroem import NystroemFeatures
from lmgp.kernels.base import Kernel
from lmgp.metrics import kl_divergence
from lmgp.posteriors.exact import ExactPosterior, max_rows_within
from lmgp.posteriors.residual import ResidualPosterior
from lmgp.posteriors.weights import fitted_global_map
from lmgp.utils.lazy import torch
from lmgp.utils.parallel import parallel_map

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class ProbePlan:
    """Which rows are held out, and from how many others they are predicted.

    Attributes
    ----------
    all_rows : int
        Up to this number of rows, the probes are drawn at random and predicted from all other rows: that takes about a
        second. Of more rows, the probes come in groups of neighbours, and one neighbourhood serves a group.
    n_probes, n_groups : int
        The number of rows to hold out, and of groups.
    held_out : int
        Hold out at most one row in 5, and one in 10 around the centre of a group: predictions from far fewer rows
        would be another problem.
    gap_share : float
        Around every fourth group all rows are left out, at most this share of all rows in all: rows to come may lie in
        gaps, where more rows matter.
    neighbours : int
        The size of a neighbourhood.
    landmarks, entries, block_size : int
        Where half the neighbourhood changes the predictions by more than the tolerance, a Nyström map stands for the
        rows beyond: with at most the first number of landmarks, and the second number of entries in its columns.
    """

    all_rows: int = 4096
    n_probes: int = 256
    n_groups: int = 16
    held_out: int = 5
    gap_share: float = 0.1
    neighbours: int = 1024
    landmarks: int = 512
    entries: int = 2**26
    block_size: int = 256

    def within(self, max_memory_gib: float) -> Self:
        """Return the plan that predicts from all rows only where these fit into memory, in GiB."""
        return replace(self, all_rows=max(self.neighbours, min(self.all_rows, max_rows_within(max_memory_gib))))


PLAN = ProbePlan()


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
        plan: ProbePlan = PLAN,
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
        plan : ProbePlan
        """
        start = perf_counter()
        scaled = kernel.in_lengthscales(rows.X)
        if len(scaled) <= plan.all_rows:
            held = rng.permutation(len(scaled))[: max(1, min(plan.n_probes, len(scaled) // plan.held_out))]
            groups, rest = [held], rows.take(np.setdiff1d(np.arange(len(scaled)), held))
            mean, variance = _both(ExactPosterior(kernel, rest, noise), rows.X[held])
            near, n_used, change = rest, len(rest), 0.0
        else:
            tree = KDTree(scaled, balanced_tree=False)  # one tree for all: it takes the most time of many rows
            groups, gaps = _hold_out(scaled, tree, rng, plan)
            held = np.concatenate(groups)
            gone = np.union1d(held, gaps)
            kept = np.setdiff1d(np.arange(len(scaled)), gone)
            rest = rows.take(kept)
            around = _neighbourhoods(scaled, tree, groups, gone, plan)
            inputs = [rows.X[group] for group in groups]
            task = _Reference(kernel, rows, noise, inputs, around, kept)
            mean, variance, change = task.settled(rest, tolerance, rng, plan)
            near, n_used = rows.take(_nearest(scaled, tree, held, gone, around.shape[1] // 2)), around.shape[1]
        order = np.argsort(np.concatenate([np.arange(len(group)) for group in groups]), kind="stable")
        labels = np.repeat(np.arange(len(groups)), [len(group) for group in groups])[order]
        return cls(
            rows.X[held[order]],
            mean[order],
            variance[order],
            labels if len(groups) > 1 else np.arange(len(held)),
            rest,
            near,
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


def _hold_out(scaled: Floats, tree: KDTree, rng: np.random.Generator, plan: ProbePlan) -> tuple[list[Indices], Indices]:
    """Choose the rows to hold out, in groups of neighbours, and those around every fourth group."""
    size = plan.n_probes // plan.n_groups
    centres = rng.choice(len(scaled), plan.n_groups, replace=False)
    _, around = tree.query(scaled[centres], k=2 * plan.held_out * size)
    taken: set[int] = set()
    groups = []
    for candidates in around:
        group = [int(row) for row in rng.permutation(candidates) if int(row) not in taken][:size]
        taken.update(group)
        if group:  # where many rows are equal, other groups may have taken them all
            groups.append(np.array(group, dtype=np.intp))
    n_left_out = int(plan.gap_share * len(scaled) / (plan.n_groups / 4))
    return groups, np.unique(around[::4, :n_left_out])


def _neighbourhoods(scaled: Floats, tree: KDTree, groups: list[Indices], gone: Indices, plan: ProbePlan) -> Indices:
    """Return the rows nearest to the middle of each group that are not left out, the nearest first."""
    k = min(plan.neighbours, len(scaled) - len(gone))
    middles = np.stack([scaled[group].mean(axis=0) for group in groups])
    _, around = tree.query(middles, k=k + len(gone), workers=torch.get_num_threads())
    return np.stack([nearest[~np.isin(nearest, gone)][:k] for nearest in around])


def _nearest(scaled: Floats, tree: KDTree, held: Indices, gone: Indices, k: int) -> Indices:
    """Return the rows that are among the k nearest to a held-out one, and are not left out themselves; ascending."""
    _, found = tree.query(scaled[held], k=k + len(gone), workers=torch.get_num_threads())
    return np.setdiff1d(found, gone)


def _both(posterior: ExactPosterior, X: Floats) -> tuple[Floats, Floats]:
    means, variances = posterior.predict(X)
    assert variances is not None  # they were asked for
    return means[:, 0], variances


class _Reference:
    """Groups of rows, and the neighbourhoods that they are predicted from."""

    def __init__(
        self, kernel: Kernel, rows: Rows, noise: Noise, groups: list[Floats], around: Indices, kept: Indices
    ) -> None:
        self.kernel, self.rows, self.noise = kernel, rows, noise
        self.groups, self.around, self.kept = groups, around, kept

    def settled(
        self, rest: Rows, enough: float, rng: np.random.Generator, plan: ProbePlan
    ) -> tuple[Floats, Floats, float]:
        """Return means, variances, and by how much half the neighbourhoods change them."""
        half = self.around.shape[1] // 2
        alone = self._compared(self._by_neighbours(self.around[:, :half]), self._by_neighbours(self.around))
        n_landmarks = min(plan.landmarks, plan.entries // len(rest), len(rest))
        if alone[2] <= enough or n_landmarks < 2:
            return alone
        # Where the rows around are among those that are not left out.
        near = np.searchsorted(self.kept, self.around)
        fewer, more = (
            self._by_residuals(rest, n_landmarks // part, near[:, : self.around.shape[1] // part], rng, plan.block_size)
            for part in (2, 1)
        )
        return self._compared(fewer, more)

    def _by_neighbours(self, around: Indices) -> tuple[Floats, Floats]:
        def predict(task: tuple[Floats, Indices]) -> tuple[Floats, Floats]:
            return _both(ExactPosterior(self.kernel, self.rows.take(task[1]), self.noise), task[0])

        parts = parallel_map(predict, list(zip(self.groups, around, strict=True)))
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean, variance

    def _by_residuals(
        self, rest: Rows, n_landmarks: int, near: Indices, rng: np.random.Generator, block_size: int
    ) -> tuple[Floats, Floats]:
        features, centre = fitted_global_map(make_feature_map(NystroemFeatures(n_landmarks), self.kernel, rng), rest)
        posterior = ResidualPosterior(self.kernel, rest, self.noise, features, centre, 1, block_size)
        tasks = list(zip(near, self.groups, strict=True))
        parts = parallel_map(lambda task: posterior.predict_given(*task), tasks)
        means, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return means[:, 0], variance

    def _compared(self, before: tuple[Floats, Floats], after: tuple[Floats, Floats]) -> tuple[Floats, Floats, float]:
        (m, v), (mean, variance), noise = before, after, self.noise.variance
        return mean, variance, float(kl_divergence(m, v + noise, mean, variance + noise).mean())
