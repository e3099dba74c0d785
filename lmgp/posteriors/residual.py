"""A global map for the long part of a kernel, and what it leaves out from the rows near to each other."""

from functools import cached_property
from typing import Any, Self

import numpy as np

from lmgp.data import Floats, Indices, Noise, Rows, as_tensor
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel, require
from lmgp.neighbours.trees import blocks_of, others, tree_of_rows, tree_points
from lmgp.posteriors.base import Posterior, combine, made_for_one_kernel, normal_log_density, repetitions
from lmgp.posteriors.blocks import BlockCovariance
from lmgp.posteriors.weights import fitted_global_map
from lmgp.utils.lazy import Tensor, no_grad, torch
from lmgp.utils.linalg import factorise, solve_lower, solve_upper
from lmgp.utils.memory import check_memory, chunks
from lmgp.utils.parallel import parallel_map

# Bytes of the features of the nearest rows that are gathered at a time.
BATCH_BYTES = 32 * 2**20


class ResidualPosterior(Posterior):
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
        With centred targets.
    noise : Noise
    features : FeatureMap or scikit-learn transformer
        See `lmgp.posteriors.weights.fitted_global_map`.
    rng : numpy.random.Generator
        Draws the map.
    n_neighbors : int
        k; of fewer rows, all.
    block_size : int
        The most rows in a block.
    max_memory_gib : float, optional
        The machine's memory if not given.

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

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        noise: Noise,
        features: Any,
        rng: np.random.Generator,
        n_neighbors: int,
        block_size: int,
        max_memory_gib: float | None = None,
    ) -> None:
        self.features, self._centre = fitted_global_map(features, kernel, rows, rng, max_memory_gib)
        require(kernel, "metric", "A model of residuals of near rows")
        if not self.features.leaves_covariance:
            raise InputError(
                f"What {type(self.features).__name__} leaves out of the kernel is no covariance: its products exceed "
                "the kernel between some rows. Use NystroemFeatures or TaylorFeatures."
            )
        n, size = len(rows), self.features.n_features_out_
        check_memory(
            8.0 * n * (size + min(block_size, n)),
            f"The {size:,} features of {n:,} rows, and the covariances within their blocks,",
            "Use fewer features, smaller blocks, or a higher max_memory_gib.",
            max_memory_gib,
        )
        self.kernel, self.noise, self._rows, self.n_rows, self.n_neighbors = kernel, noise, rows, n, min(n_neighbors, n)
        self._block_size = block_size
        self._values = kernel.checked(rows.X.shape[1]).values(None, torch.device("cpu"))
        self._X, self._noise_of_rows, targets = as_tensor(rows.X), noise.of_weighted_rows(rows), as_tensor(rows.Y)
        self._tree = tree_of_rows(kernel, rows.X)
        self._factor = self.covariance_of_rows.factor
        self._weights = self.covariance_of_rows.weights(targets)
        self._products = (targets.T @ self.covariance_of_rows.solve(targets)).numpy()

    @cached_property
    def _mapped(self) -> Tensor:
        """The features of the rows, shape (n, D)."""
        X, size = self._X.numpy(), self.features.n_features_out_
        mapped = torch.empty((len(X), size), dtype=torch.float64)
        for part in chunks(len(X), size):
            mapped[part] = self.features.evaluate(as_tensor(X[part] - self._centre))
        return mapped

    @cached_property
    def covariance_of_rows(self) -> BlockCovariance:
        """The covariance of the training rows, from which the weights are."""
        blocks = blocks_of(self.kernel.points(self._rows.X), self._block_size)
        return BlockCovariance(self.kernel, self._X, self._mapped, self._noise_of_rows, self.noise.variance, blocks)

    def __getstate__(self) -> dict[str, Any]:
        # Without what is n × D: it is made again where it is needed.
        return {name: value for name, value in vars(self).items() if name not in ("_mapped", "covariance_of_rows")}

    def with_neighbours(self, n_neighbors: int) -> Self:
        """Return this posterior with predictions from another number of nearest rows."""
        return self._changed(n_neighbors=min(n_neighbors, self.n_rows))

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        other = super().combined(combination)
        other._weights = combine(self._weights, combination)
        other._products = combination.T @ self._products @ combination
        return other

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:  # noqa: D102
        means, variances = np.empty((len(X), self._rows.n_targets)), np.empty(len(X)) if variance else None
        points = tree_points(self.kernel, X)
        k = np.arange(1, self.n_neighbors + 1)

        def solve(part: slice) -> None:
            near = torch.from_numpy(self._tree.query(points[part], k=k)[1])
            mean, latent, _ = self._given(near, X[part, None], variance)
            means[part] = mean[:, 0].numpy()
            if variances is not None:
                variances[part] = latent[:, 0].numpy()

        parallel_map(solve, list(chunks(len(X), (self.n_neighbors + 1) * self._mapped.shape[1], BATCH_BYTES)))
        return means, variances

    def surprise(self, X: Floats) -> Floats:  # noqa: D102
        squares = self._products.diagonal() / self.n_rows
        return np.broadcast_to(squares, (len(X), len(squares)))

    def log_density(self, kernel: Kernel | None = None, noise_variance: float | None = None) -> Floats:  # noqa: D102
        if kernel is not None or noise_variance is not None:
            raise made_for_one_kernel("ResidualGPRegressor", "its map and blocks")
        log_determinant = self.covariance_of_rows.log_determinant + repetitions(self._rows, self.noise)
        return normal_log_density(self._products.diagonal(), log_determinant, self.n_rows)

    def leave_one_out(self, index: Indices | None = None) -> tuple[Floats, Floats]:
        """Predict training rows from all others: the nearest rows of each, and weights that do not know it.

        The blocks and the map stay as they are.
        """
        n, k, X = self.n_rows, min(self.n_neighbors, self.n_rows - 1), self._rows.X
        index = np.arange(n) if index is None else index
        means, variances = np.empty(self._rows.Y.shape), np.empty(n)
        alpha = self.covariance_of_rows.solve(as_tensor(self._rows.Y))

        def solve(block: Indices, diagonal: Tensor, pulls: Tensor) -> None:
            # Without row i, the weights are w − gᵢαᵢ/[C⁻¹]ᵢᵢ, and have the variance gᵢgᵢᵀ/[C⁻¹]ᵢᵢ more; g = ΦᵀC⁻¹.
            change = alpha[torch.from_numpy(block)] / diagonal[:, None]
            for part in chunks(len(block), (k + 1) * self._mapped.shape[1], BATCH_BYTES):
                some = block[part]
                near = torch.from_numpy(others(self._tree, tree_points(self.kernel, X[some]), some, k))
                mean, latent, remaining = self._given(near, X[some, None])
                pulled = (remaining[:, 0] * pulls.T[part]).sum(dim=1)
                means[some] = (mean[:, 0] - pulled[:, None] * change[part]).numpy()
                variances[some] = (latent[:, 0] + pulled.square() / diagonal[part]).numpy()

        self.covariance_of_rows.of_rows(index, solve)
        return means[index], variances[index]

    def predict_given(self, near: Indices, X: Floats) -> tuple[Floats, Floats]:
        """Predict rows from the residuals of the same training rows.

        Parameters
        ----------
        near : ndarray of int of shape (n,)
            Of the training rows.
        X : ndarray of shape (m, d)

        Returns
        -------
        means : ndarray of shape (m, t)
        variances : ndarray of shape (m,)
        """
        means, variances, _ = self._given(torch.from_numpy(near), X)
        return means.numpy(), variances.numpy()

    @no_grad
    def _given(self, near: Tensor, X: Floats, variance: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Predict from the residuals of training rows: of one set of rows, or of a batch of sets.

        Parameters
        ----------
        near : Tensor of int of shape (..., n)
        X : ndarray of shape (..., m, d)
        variance : bool, default=True
            Whether to compute variances: O(D²) a row.

        Returns
        -------
        means : Tensor of shape (..., m, t)
        variance : Tensor of shape (..., m)
            Of no rows where it is not asked for.
        remaining : Tensor of shape (..., m, D)
            ψ.
        """
        shape, flat = X.shape[:-1], X.reshape(-1, X.shape[-1])
        own = self.features.evaluate(as_tensor(flat - self._centre)).reshape(*shape, -1)
        mapped, rows, tests = self._mapped[near], self._X[near], as_tensor(X)
        n = rows.shape[-2]
        # One evaluation for both: with few rows, what surrounds an operation takes as long as the operation.
        joint = self.kernel.evaluate_at(torch.cat((rows, tests), dim=-2), rows, self._values)
        joint -= torch.cat((mapped, own), dim=-2) @ mapped.mT
        factor = factorise(joint[..., :n, :].contiguous(), self._noise_of_rows[near])
        solved = solve_lower(factor, joint[..., n:, :].mT)
        weights = solve_upper(factor.mT, solved)
        remaining = own - weights.mT @ mapped
        means = remaining @ self._weights + weights.mT @ as_tensor(self._rows.Y)[near]
        if not variance:
            return means, torch.empty(0), remaining
        prior = as_tensor(self.kernel.evaluate_diagonal(flat)).reshape(shape)
        left_out = (prior - own.square().sum(dim=-1)).clamp_min(0.0)
        whitened = solve_lower(self._factor, remaining.reshape(len(flat), -1).T).square().sum(dim=0)
        latent = whitened.reshape(shape) + (left_out - solved.square().sum(dim=-2)).clamp_min(0.0)
        return means, torch.minimum(latent, prior), remaining
