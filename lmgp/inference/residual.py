"""A global map for the long part of a kernel, and what it leaves out from the rows near to each other."""

import math
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.features.base import KernelMap
from lmgp.inference.function_space import factorise
from lmgp.inference.nearest import FARTHEST, others, rows_of, tree_of_rows
from lmgp.inference.partial import BlockCovariance
from lmgp.inference.trend import TrendFit
from lmgp.kernels.base import Kernel, require
from lmgp.linalg import solve_lower, solve_upper
from lmgp.memory import check_memory, chunks
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Bytes of the features of the nearest rows that are gathered at a time.
BATCH_BYTES = 32 * 2**20


class ResidualPosterior:
    """f = φᵀw + g: a map φ of the kernel, and a residual g with the covariance r = k − φᵀφ that the map leaves out.

    The weights are those of the partially independent conditional (PIC): the residuals of rows in one block are
    correlated, those of two blocks are not. A row x is predicted from the residuals of its k nearest rows N. With
    R = r(N, N) + noise, b = R⁻¹r(N, x) and ψ = φ(x) − Φ_Nᵀb, the mean is ψᵀŵ + bᵀy_N, and the variance
    ψᵀΣψ + r(x, x) − bᵀr(N, x): with one block, and as many neighbours as rows, those of the exact process.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows
        With y centred.
    noise : Noise
    features : KernelMap
        Fitted.
    centre : ndarray of shape (d,)
        Of the map.
    n_neighbors : int
        k; of fewer rows, all.
    block_size : int
        The most rows in a block.
    max_memory_gib : float, optional
        The machine's memory if not given.
    trend : TrendFit, optional
        Of which y are the residuals. Means are less the trend; variances have its uncertainty.

    Attributes
    ----------
    surprise : float
        yᵀC⁻¹y/n under the model of the blocks.

    Raises
    ------
    InputError
        If the kernel has no metric, or the map leaves no covariance.
    MemoryLimitError
        If the features of all rows take more.

    References
    ----------
    E. Snelson and Z. Ghahramani, *Local and Global Sparse Gaussian Process Approximations*, AISTATS 2007: PIC.
    H. Sang and J. Z. Huang, *A Full Scale Approximation of Covariance Functions for Large Spatial Data Sets*, JRSS B
    74, 2012.
    """

    _n_targets = 1  # before the columns of a trend

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        noise: Noise,
        features: KernelMap,
        centre: Floats,
        n_neighbors: int,
        block_size: int,
        max_memory_gib: float | None = None,
        trend: TrendFit | None = None,
    ) -> None:
        require(kernel, "metric", "A model of residuals of near rows")
        if not features.leaves_covariance:
            raise InputError(
                f"What {type(features).__name__} leaves out of the kernel is no covariance: its products exceed the "
                "kernel between some rows. Use NystroemFeatures or TaylorFeatures."
            )
        n, size = len(rows.y), features.n_features_out_
        check_memory(
            8.0 * n * (size + min(block_size, n)),
            f"The {size:,} features of {n:,} rows, and the covariances within their blocks,",
            "Use fewer features, smaller blocks, or a higher max_memory_gib.",
            max_memory_gib,
        )
        self.kernel, self.noise, self.trend, self.n_neighbors = kernel, noise, trend, min(n_neighbors, n)
        self._features, self._centre, self._block_size = features, centre, block_size
        self._values = {one.name: as_tensor(np.array(one.value)) for one in kernel.checked(rows.X.shape[1]).parameters}
        self._X, self._noise = as_tensor(rows.X), noise.of_weighted_rows(rows)
        self._row_weights = rows.weights
        y = rows.y if trend is None else rows.y - trend.changes(rows.X)
        # The columns of a trend are further targets, which share all factorisations.
        targets = [y[:, None]] if trend is None else [y[:, None], trend.columns(rows.X)]
        self._targets = torch.from_numpy(np.concatenate(targets, axis=1))
        self._tree = tree_of_rows(kernel, rows.X)
        self._factor = self.covariance.factor
        self._solve_for_weights()

    def _solve_for_weights(self) -> None:
        self._weights = self.covariance.weights(self._targets)
        squares = self._targets[:, 0] @ self.covariance.solve(self._targets[:, :1])
        self.surprise = float(squares) / len(self._targets)

    @cached_property
    def _mapped(self) -> torch.Tensor:
        """The features of the rows, shape (n, D)."""
        X, size = self._X.numpy(), self._features.n_features_out_
        mapped = torch.empty((len(X), size), dtype=torch.float64)
        for part in chunks(len(X), size):
            mapped[part] = self._features.evaluate(as_tensor(X[part] - self._centre))
        return mapped

    @cached_property
    def covariance(self) -> BlockCovariance:
        """The covariance of the training rows, from which the weights are."""
        blocks = blocks_of(np.asarray(self._tree.data), self._block_size)
        return BlockCovariance(self.kernel, self._X, self._mapped, self._noise, self.noise.variance, blocks)

    def __getstate__(self) -> dict[str, Any]:
        # Without what is n × D: it is made again where it is needed.
        return {name: value for name, value in vars(self).items() if name not in ("_mapped", "covariance")}

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        vars(other).update(vars(self))
        return other

    def with_neighbours(self, n_neighbors: int) -> Self:
        """Return this posterior with predictions from another number of nearest rows."""
        other = copy(self)
        other.n_neighbors = min(n_neighbors, len(self._X))
        return other

    def with_targets(self, targets: Floats) -> Self:
        """Return this posterior with other targets, shape (n, t), for the same rows; the factors are the same.

        Those who ask for one target get the first. Of a posterior with a trend, targets are less their own trends.
        """
        self.covariance  # noqa: B018 - made once, for this posterior and the other
        other, columns = copy(self), self._targets[:, self._n_targets :]
        other._targets = torch.cat((as_tensor(np.ascontiguousarray(targets)), columns), dim=1)
        other._n_targets = targets.shape[1]
        other._solve_for_weights()
        return other

    @property
    def n_bytes(self) -> int:
        """The memory that this posterior holds, in bytes."""
        return self.covariance.n_bytes + self._mapped.nbytes + self._X.nbytes + self._targets.nbytes

    def missing(self, X: Floats) -> Floats:
        """Return the prior variance that is left out of each row's prediction and added again: none; shape (m,)."""
        return np.zeros(len(X))

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict the latent function.

        Parameters
        ----------
        X : ndarray of shape (m, d)
        variance : bool, default=True

        Returns
        -------
        mean : ndarray of shape (m,)
        variance : ndarray of shape (m,) or None
        """
        means, found = self.predict_targets(X, variance)
        return means[:, 0], found

    def predict_targets(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict the latent functions of all targets: one factorisation serves them; see `predict`.

        Returns
        -------
        means : ndarray of shape (m, t)
        variance : ndarray of shape (m,) or None
            The same for all.
        """
        means, variances = np.empty((len(X), self._targets.shape[1])), np.empty(len(X))
        points = np.clip(self.kernel.scale(X), -FARTHEST, FARTHEST)
        k = np.arange(1, self.n_neighbors + 1)

        def solve(part: slice) -> None:
            near = torch.from_numpy(self._tree.query(points[part], k=k)[1])
            mean, found, _ = self._given(near, X[part, None], variance)
            means[part] = mean[:, 0].numpy()
            if variance:
                variances[part] = found[:, 0].numpy()

        parallel_map(solve, list(chunks(len(X), (self.n_neighbors + 1) * self._mapped.shape[1], BATCH_BYTES)))
        if not variance:
            return means[:, : self._n_targets], None
        if self.trend is not None:
            variances += self.trend.variance(X, means[:, self._n_targets :])
        return means[:, : self._n_targets], variances

    @property
    def rows(self) -> Rows:
        """The training rows, with y less the trend."""
        return rows_of(self._X, self._targets, self._noise, self._row_weights)

    @property
    def log_density(self) -> float:
        """Log N(y | 0, C) under the model of the blocks, in nats."""
        n = len(self._X)
        return -0.5 * (n * self.surprise + self.covariance.log_determinant + n * math.log(2.0 * math.pi))

    def leave_one_out(self) -> tuple[Floats, Floats]:
        """Predict each training row from all others: its nearest rows, and weights that do not know it.

        The blocks and the map stay as they are.

        Returns
        -------
        mean, variance : ndarray of shape (n,)
            Of the latent function.
        """
        n, k = len(self._X), min(self.n_neighbors, len(self._X) - 1)
        mean, variance = np.empty(n), np.empty(n)
        alpha = self.covariance.solve(self._targets[:, :1])[:, 0]

        def solve(task: tuple[Indices, torch.Tensor, torch.Tensor]) -> None:
            block, diagonal, pulls = task
            # Without row i, the weights are w − gᵢαᵢ/[C⁻¹]ᵢᵢ, and have the variance gᵢgᵢᵀ/[C⁻¹]ᵢᵢ more; g = ΦᵀC⁻¹.
            change = (alpha[torch.from_numpy(block)] / diagonal).numpy()
            for part in chunks(len(block), (k + 1) * self._mapped.shape[1], BATCH_BYTES):
                some = block[part]
                near = torch.from_numpy(others(self._tree, some, k))
                means, found, left = self._given(near, self._X.numpy()[some, None])
                pulled = (left[:, 0] * pulls.T[part]).sum(dim=1)
                mean[some] = (means[:, 0, 0] - pulled * torch.from_numpy(change[part])).numpy()
                variance[some] = (found[:, 0] + pulled.square() / diagonal[part]).numpy()
                if self.trend is not None:
                    variance[some] += self.trend.variance(self._X.numpy()[some], means[:, 0, self._n_targets :].numpy())

        for task in self.covariance.of_each_row():
            solve(task)
        return mean, variance

    @property
    def rows_kept(self) -> int:
        """The number of training rows."""
        return len(self._X)

    def predict_given(self, near: Indices, X: Floats) -> tuple[Floats, Floats]:
        """Predict rows from the residuals of the same training rows; without what is added for a trend.

        Parameters
        ----------
        near : ndarray of int of shape (n,)
            Of the training rows.
        X : ndarray of shape (m, d)

        Returns
        -------
        mean, variance : ndarray of shape (m,)
        """
        means, variance, _ = self._given(torch.from_numpy(near), X)
        return means[:, 0].numpy(), variance.numpy()

    @torch.no_grad()
    def _given(
        self, near: torch.Tensor, X: Floats, variance: bool = True
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Predict from the residuals of training rows: of one set of rows, or of a batch of sets.

        Parameters
        ----------
        near : Tensor of int of shape (..., n)
        X : ndarray of shape (..., m, d)
        variance : bool, default=True
            Whether to compute variances: O(D²) a row.

        Returns
        -------
        means : Tensor of shape (..., m, 1 + p)
            From y, and from the p columns of the trend.
        variance : Tensor of shape (..., m)
            Of no rows where it is not asked for.
        remaining : Tensor of shape (..., m, D)
            ψ.
        """
        shape, flat = X.shape[:-1], X.reshape(-1, X.shape[-1])
        own = self._features.evaluate(as_tensor(flat - self._centre)).reshape(*shape, -1)
        mapped, rows, tests = self._mapped[near], self._X[near], as_tensor(X)
        n = rows.shape[-2]
        # One evaluation for both: with few rows, what surrounds an operation takes as long as the operation.
        joint = self.kernel.evaluate_at(torch.cat((rows, tests), dim=-2), rows, self._values)
        joint -= torch.cat((mapped, own), dim=-2) @ mapped.mT
        factor = factorise(joint[..., :n, :].contiguous(), self._noise[near])
        solved = solve_lower(factor, joint[..., n:, :].mT)
        weights = solve_upper(factor.mT, solved)
        remaining = own - weights.mT @ mapped
        means = remaining @ self._weights + weights.mT @ self._targets[near]
        if not variance:
            return means, torch.empty(0), remaining
        prior = as_tensor(self.kernel.diagonal(flat)).reshape(shape)
        left_out = (prior - own.square().sum(dim=-1)).clamp_min(0.0)
        whitened = solve_lower(self._factor, remaining.reshape(len(flat), -1).T).square().sum(dim=0)
        found = whitened.reshape(shape) + (left_out - solved.square().sum(dim=-2)).clamp_min(0.0)
        return means, torch.minimum(found, prior), remaining


def blocks_of(scaled: Floats, size: int) -> list[Indices]:
    """Part rows into blocks of near rows: by halves, along the widest column."""
    blocks, open_ = [], [np.arange(len(scaled))]
    while open_:
        block = open_.pop()
        if len(block) <= size:
            blocks.append(block)
            continue
        values = scaled[block, np.ptp(scaled[block], axis=0).argmax()]
        order, half = np.argpartition(values, len(block) // 2), len(block) // 2
        open_ += [block[order[:half]], block[order[half:]]]
    return blocks
