"""Predictions from the training rows that are nearest to each row."""

from collections.abc import Callable
from copy import copy
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.arithmetic import ACCELERATOR_BYTES, Arithmetic
from lmgp.errors import InputError
from lmgp.inference.function_space import factorise, max_rows_within
from lmgp.inference.trend import TrendFit
from lmgp.kernels.base import Kernel, require
from lmgp.linalg import solve_lower, solve_upper
from lmgp.locality.cells import SHARING, Cell, Cells, sharing_pays
from lmgp.memory import check_memory, chunks
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Bytes of the covariances that are factorised at a time: few enough to stay in a processor's cache.
BATCH_BYTES = 4 * 2**20

# Coordinates beyond this, in lengthscales, have squares that overflow: all rows are equally far from there.
FARTHEST = 1e100


class NearestPosterior:
    """The nearest-neighbour Gaussian process: each row is predicted from the training rows nearest to it.

    "Near" is measured in the kernel's metric, so that a column counts by its relevance. A prediction is the exact
    Gaussian process given the rows that make it.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows
        With y centred.
    noise : Noise
    n_neighbors : int
        k, the least number of rows that make a prediction; of fewer training rows, all.
    max_memory_gib : float, optional
        For the matrices of one prediction, in GiB; the machine's memory if not given.
    trend : TrendFit, optional
        Of which y are the residuals. Means are less the trend; variances have its uncertainty.
    share : bool, default=True
        Whether rows that are near to each other share the rows around them where that pays, see the notes. Without,
        every prediction is made from its k nearest rows: quicker for rows that are sparse beside the training rows.
    device : str, default="cpu"
        Where batches of matrices are factorised, as torch names it. An accelerator gets large batches, and rows share
        none.

    Attributes
    ----------
    kernel, noise, trend
        As given.
    n_neighbors : int
        At most the number of training rows.

    Raises
    ------
    InputError
        If the kernel has no metric.
    MemoryLimitError
        If the matrices of one prediction take more.

    Notes
    -----
    With few columns, space is parted into cubes, `lmgp.locality.cells.Cells`. The rows in one are predicted from all
    training rows around it, about twice k, by one factorisation. A row is predicted from its k nearest rows by
    themselves where its cube has too many rows around it for that to pay, or for the memory, and where one of the k may
    be missing there.

    Either way a prediction is made from at least the k nearest rows, and which rows these are depends on the training
    rows and the row itself alone: beside whichever rows it is predicted, it is the same but for rounding.

    References
    ----------
    A. V. Vecchia, *Estimation and Model Identification for Continuous Spatial Processes*, JRSS B 50, 1988.
    """

    _n_targets = 1  # before the columns of a trend
    _arithmetic = Arithmetic("cpu")  # of files of earlier versions

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        noise: Noise,
        n_neighbors: int,
        max_memory_gib: float | None = None,
        trend: TrendFit | None = None,
        *,
        share: bool = True,
        device: str = "cpu",
    ) -> None:
        require(kernel, "metric", "A prediction from the nearest rows")
        self.kernel, self.noise, self.n_neighbors = kernel, noise, min(n_neighbors, len(rows.y))
        check_memory(
            16.0 * self.n_neighbors**2,
            f"The two matrices of a prediction from {self.n_neighbors:,} rows",
            "Use a smaller n_neighbors, or a higher max_memory_gib.",
            max_memory_gib,
        )
        self.trend = trend
        self._X, y = as_tensor(rows.X), rows.y if trend is None else rows.y - trend.changes(rows.X)
        # The columns of a trend are further targets, which share the factorisation.
        targets = [y[:, None]] if trend is None else [y[:, None], trend.columns(rows.X)]
        self._targets = torch.from_numpy(np.concatenate(targets, axis=1))
        self._noise, self._weights = noise.of_weighted_rows(rows), rows.weights
        self._values = {one.name: as_tensor(np.array(one.value)) for one in kernel.checked(rows.X.shape[1]).parameters}
        self._tree, self._arithmetic = tree_of_rows(kernel, rows.X), Arithmetic(device)
        share = share and not self._arithmetic.accelerated
        roomy = max_memory_gib is None or max_rows_within(max_memory_gib) >= SHARING.most * self.n_neighbors
        shared = share and roomy and sharing_pays(rows.X.shape[1], self.n_neighbors)
        self._cells = Cells(self._tree, self.n_neighbors) if shared else None

    @property
    def rows_kept(self) -> int:
        """The number of training rows."""
        return len(self._X)

    @property
    def rows(self) -> Rows:
        """The training rows, with y less the trend."""
        return rows_of(self._X, self._targets, self._noise, self._weights)

    def leave_one_out(self) -> tuple[Floats, Floats]:
        """Predict each training row from the rows nearest to it without itself: each has its own.

        Returns
        -------
        mean, variance : ndarray of shape (n,)
            Of the latent function.
        """
        n = len(self._X)
        mean, variance = np.empty(n), self.kernel.diagonal(self._X.numpy())

        def solve(part: slice) -> None:
            near = others(self._tree, np.arange(part.start, part.stop), self.n_neighbors)
            means, reduction, _ = self._of_rows(torch.from_numpy(near), self._X[part, None])
            mean[part], variance[part] = means[:, 0], np.maximum(variance[part] - reduction, 0.0)
            if self.trend is not None:
                variance[part] += self.trend.variance(self._X[part].numpy(), means[:, self._n_targets :])

        self._in_batches(solve, n)
        return mean, variance

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict the latent function.

        Parameters
        ----------
        X : ndarray of shape (m, d)
        variance : bool, default=True
            Whether to compute variances: O(k²) a row.

        Returns
        -------
        mean : ndarray of shape (m,)
        variance : ndarray of shape (m,) or None
        """
        means, found, _ = self._solve(X, variance)
        return means[:, 0], found if variance else None

    def with_targets(self, targets: Floats) -> Self:
        """Return this posterior with other targets, shape (n, t), for the same rows; the tree is the same.

        Those who ask for one target get the first. Of a posterior with a trend, targets are less their own trends.
        """
        other, columns = copy(self), self._targets[:, self._n_targets :]
        other._targets = torch.cat((as_tensor(np.ascontiguousarray(targets)), columns), dim=1)
        other._n_targets = targets.shape[1]
        return other

    def predict_targets(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict the latent functions of all targets: one factorisation serves them; see `predict`.

        Returns
        -------
        means : ndarray of shape (m, t)
        variance : ndarray of shape (m,) or None
            The same for all.
        """
        means, found, _ = self._solve(X, variance)
        return means, found if variance else None

    def missing(self, X: Floats) -> Floats:
        """Return the prior variance that is left out of each row's prediction and added again: none; shape (m,)."""
        return np.zeros(len(X))

    def expectations(self, X: Floats) -> tuple[Floats, Floats]:
        """Return what the posterior that predicts a row expected of it, and of its training rows.

        Parameters
        ----------
        X : ndarray of shape (m, d)

        Returns
        -------
        prior : ndarray of shape (m,)
            The prior variance.
        surprise : ndarray of shape (m,)
            yᵀC⁻¹y/n of the n rows that make a prediction, with covariance C: 1 ± √(2/n) where they are as expected.
        """
        return self.kernel.diagonal(X), self._solve(X, False)[2]

    def _solve(self, X: Floats, variance: bool) -> tuple[Floats, Floats, Floats]:
        """Return the means, shape (m, t), the variance, and the surprise of the rows that make it, shape (m,)."""
        found, solved = np.empty((len(X), self._n_targets)), np.empty((2, len(X)))
        if not len(X):
            return found, solved[0], solved[1]
        points = np.clip(self.kernel.scale(X), -FARTHEST, FARTHEST)
        prior = self.kernel.diagonal(X) if variance else np.zeros(len(X))
        cells, alone = ([], np.arange(len(X))) if self._cells is None else self._cells.group(points)

        def solve(sets: Indices, members: Indices) -> None:
            """Predict `members` from one set of rows, shape (n,), or each from its own, shape (n_members, n)."""
            tests = as_tensor(X[members])
            means, reduction, surprise = self._of_rows(
                torch.from_numpy(sets), tests if sets.ndim == 1 else tests[:, None], variance
            )
            found[members] = means[:, : self._n_targets]
            solved[:, members] = np.maximum(prior[members] - reduction, 0.0), surprise
            if self.trend is not None and variance:
                solved[0, members] += self.trend.variance(X[members], means[:, self._n_targets :])

        def solve_cell(cell: Cell) -> Indices:
            """Predict the points of a cell; return those that its rows do not serve."""
            assert self._cells is not None  # for the type checker: there are no cells without
            rows, left = self._cells.rows_around(cell), []
            for part in chunks(len(cell.members), len(rows), BATCH_BYTES):
                members = cell.members[part]
                served = self._cells.serves(cell, points[members], rows)
                if served.any():
                    solve(rows, members[served])
                left.append(members[~served])
            return np.concatenate(left)

        def solve_alone(part: slice) -> None:
            k = np.arange(1, self.n_neighbors + 1)
            solve(self._tree.query(points[alone[part]], k=k)[1], alone[part])

        alone = np.concatenate((alone, *parallel_map(solve_cell, cells)))
        self._in_batches(solve_alone, len(alone))
        return found, solved[0], solved[1]

    def _in_batches(self, solve: Callable[[slice], None], n: int) -> None:
        """Predict n rows, each from rows of its own."""
        if not self._arithmetic.accelerated:
            parallel_map(solve, list(chunks(n, self.n_neighbors**2, BATCH_BYTES)))
            return
        for part in chunks(n, self.n_neighbors**2, ACCELERATOR_BYTES):
            solve(part)

    @torch.no_grad()
    def _of_rows(self, near: torch.Tensor, tests: torch.Tensor, variance: bool = True) -> tuple[Floats, Floats, Floats]:
        """Predict tests of shape (..., m, d) from rows of shape (..., n).

        Returns
        -------
        means : ndarray of shape (number of tests, t + p)
            From the t targets, and from the p columns of the trend.
        reduction : ndarray of shape (number of tests,)
            By how much the rows reduce the variance; 0 where it is not asked for.
        surprise : ndarray of shape (number of tests,)
        """
        place, n = self._arithmetic.place, near.shape[-1]
        X, noise, given = (one[near].to(place) for one in (self._X, self._noise, self._targets))
        values = {name: value.to(place) for name, value in self._values.items()}
        # One evaluation for both: with few rows, what surrounds an operation takes as long as the operation.
        joint = self.kernel.evaluate_at(torch.cat((X, tests.to(place)), dim=-2), X, values)
        factor = factorise(joint[..., :n, :], noise)
        if not variance:
            whitened = solve_lower(factor, given)
            means = joint[..., n:, :] @ solve_upper(factor.mT, whitened)
            surprise = whitened[..., :1].square().mean(dim=-2).expand(means.shape[:-1])
            return means.flatten(0, -2).cpu().numpy(), np.zeros(surprise.numel()), surprise.flatten().cpu().numpy()
        solved = solve_lower(factor, torch.cat((given, joint[..., n:, :].mT), dim=-1))
        targets, columns = solved[..., : self._targets.shape[1]], solved[..., self._targets.shape[1] :]
        means, reduction = columns.mT @ targets, columns.square().sum(dim=-2)
        surprise = targets[..., :1].square().mean(dim=-2).expand_as(reduction)
        found = means.flatten(0, -2), reduction.flatten(), surprise.flatten()
        return found[0].cpu().numpy(), found[1].cpu().numpy(), found[2].cpu().numpy()


def tree_of_rows(kernel: Kernel, X: Floats) -> KDTree:
    """Make the search tree of training rows, in the metric of the kernel.

    Raises
    ------
    InputError
        If squared distances overflow.
    """
    scaled = kernel.scale(X)
    with np.errstate(over="ignore"):
        overflows = not np.all(np.isfinite(np.square(2.0 * scaled).sum(axis=1)))
    if overflows:
        raise InputError(
            "The values of X are so large that squared distances overflow float64; got a largest absolute value of "
            f"{np.abs(X).max():g}. Divide X and the lengthscales by a common scale."
        )
    return KDTree(scaled)


def rows_of(X: torch.Tensor, targets: torch.Tensor, noise: torch.Tensor, weights: Floats | None) -> Rows:
    """Return rows with a noise variance each, from the noise over the weight of each, and the first target."""
    own = noise.numpy() if weights is None else noise.numpy() * weights
    return Rows(X.numpy(), targets[:, 0].numpy(), weights, own)


def others(tree: KDTree, rows: Indices, n_neighbors: int) -> Indices:
    """Return the rows of a tree nearest to some of its rows, without themselves, shape (m, k).

    k is `n_neighbors`, or one less than the number of rows, if that is less.
    """
    k = min(n_neighbors, tree.n - 1)
    found = np.asarray(tree.query(tree.data[rows], k=np.arange(1, k + 2))[1])
    own = found == rows[:, None]
    own[~own.any(axis=1), -1] = True  # among more copies of itself than these
    return found[~own].reshape(len(found), k)
