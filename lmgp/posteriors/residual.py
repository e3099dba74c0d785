"""A global map for the long part of a kernel, and what it leaves out from the rows near to each other."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from lmgp.data import Floats, Indices, Noise, Rows, as_tensor
from lmgp.errors import InputError
from lmgp.features.base import KernelMap
from lmgp.kernels.base import Kernel, require
from lmgp.neighbours.forest import Forest
from lmgp.neighbours.trees import tree_points
from lmgp.posteriors.base import Posterior, made_for_one_kernel, normal_log_density, repetitions
from lmgp.posteriors.blocks import BlockCovariance, BlockForest, BlockPlan, solve_few
from lmgp.posteriors.weights import fitted_global_map
from lmgp.utils.lazy import Tensor, no_grad, torch
from lmgp.utils.linalg import cholesky, factorise, solve_lower, solve_upper
from lmgp.utils.memory import chunks
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
    forest : BlockForest
        Rows with centred targets, in blocks.
    n_neighbors : int
        k; of fewer rows, all.
    combination : ndarray of shape (s, t), optional
        What makes the targets of those of the rows; these are the targets if not given.

    References
    ----------
    E. Snelson and Z. Ghahramani, *Local and Global Sparse Gaussian Process Approximations*, AISTATS 2007: PIC.
    H. Sang and J. Z. Huang, *A Full Scale Approximation of Covariance Functions for Large Spatial Data Sets*, JRSS B
    74, 2012.
    """

    def __init__(self, forest: BlockForest, n_neighbors: int, combination: Floats | None = None) -> None:
        plan, size = forest.plan, forest.plan.features.n_features_out_
        self.kernel, self.noise, self.n_rows = plan.kernel, plan.noise, len(forest)
        self.n_neighbors, self._forest = min(n_neighbors, self.n_rows), forest
        self._combination = np.eye(forest.none.n_targets) if combination is None else combination
        products = sum((part.products for part in forest.parts[1:]), forest.parts[0].products)
        precision = products[:size, :size].clone()
        precision.diagonal().add_(1.0)
        self._factor = cholesky(precision, plan.noise.variance, diagonal_share=1.0)
        # Of the targets V: ŵ = A⁻¹ΦᵀB⁻¹V, and VᵀC⁻¹V = VᵀB⁻¹V − VᵀB⁻¹Φŵ.
        to_targets = as_tensor(self._combination)
        seen = products[:size, size:] @ to_targets
        self._weights = solve_few(self._factor, seen)
        self._products = (to_targets.T @ products[size:, size:] @ to_targets - seen.T @ self._weights).numpy()

    @property
    def features(self) -> KernelMap:
        """The map φ."""
        return self._forest.plan.features

    @cached_property
    def covariance_of_rows(self) -> BlockCovariance:
        """The covariance of the training rows, from which the weights are."""
        return BlockCovariance(self._forest, self._factor)

    @cached_property
    def _systems(self) -> Any:
        from lmgp.posteriors.rowsystems import MOST, RowSystems  # here, for it loads a compiler

        none = self._forest.none
        return None if self.n_neighbors > MOST else RowSystems.of(self.kernel, None, none.X, none.Y, np.empty(0))

    def __getstate__(self) -> dict[str, Any]:
        cached = "covariance_of_rows", "_systems"
        return {name: value for name, value in vars(self).items() if name not in cached}

    @property
    def rows(self) -> Rows:
        """The training rows, in the order in which they came."""
        rows = self._forest.rows
        return rows.with_targets(rows.Y @ self._combination)

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        return self._changed(
            _combination=self._combination @ combination,
            _weights=self._weights @ as_tensor(combination),
            _products=combination.T @ self._products @ combination,
        )

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:  # noqa: D102
        means, variances = np.empty((len(X), self._combination.shape[1])), np.empty(len(X)) if variance else None
        points = tree_points(self.kernel, X)

        def solve(part: slice) -> None:
            near = self._forest.query(points[part], self.n_neighbors)[1]
            mean, latent, _ = self._given(near, X[part], variance)
            means[part] = mean.numpy()
            if variances is not None:
                variances[part] = latent.numpy()

        parallel_map(solve, list(chunks(len(X), (self.n_neighbors + 1) * len(self._factor), BATCH_BYTES)))
        return means, variances

    def surprise(self, X: Floats) -> Floats:  # noqa: D102
        return np.tile(self._products.diagonal() / self.n_rows, (len(X), 1))

    def log_density(self, kernel: Kernel | None = None, noise_variance: float | None = None) -> Floats:  # noqa: D102
        if kernel is not None or noise_variance is not None:
            raise made_for_one_kernel("ResidualGPRegressor", "its map and blocks")
        log_determinant = self.covariance_of_rows.log_determinant + repetitions(self.rows, self.noise)
        return normal_log_density(self._products.diagonal(), log_determinant, self.n_rows)

    def leave_one_out(self, index: Indices | None = None) -> tuple[Floats, Floats]:
        """Predict training rows from all others: the nearest rows of each, and weights that do not know it.

        The blocks and the map stay as they are.
        """
        forest, k = self._forest, min(self.n_neighbors, self.n_rows - 1)
        places = forest.places if index is None else forest.places[index]
        targets = torch.cat([part.targets for part in forest.parts]) @ as_tensor(self._combination)
        alpha = self.covariance_of_rows.solve(targets)
        means, variances = np.empty(targets.shape), np.empty(len(targets))

        def solve(block: Indices, diagonal: Tensor, pulls: Tensor) -> None:
            # Without row i, the weights are w − gᵢαᵢ/[C⁻¹]ᵢᵢ, and have the variance gᵢgᵢᵀ/[C⁻¹]ᵢᵢ more; g = ΦᵀC⁻¹.
            change = alpha[torch.from_numpy(block)] / diagonal[:, None]
            for part in chunks(len(block), (k + 1) * len(self._factor), BATCH_BYTES):
                some = block[part]
                mean, latent, remaining = self._given(forest.others(some, k), forest.take(some).X)
                pulled = (remaining * pulls.T[part]).sum(dim=1)
                means[some] = (mean - pulled[:, None] * change[part]).numpy()
                variances[some] = (latent + pulled.square() / diagonal[part]).numpy()

        self.covariance_of_rows.of_rows(places, solve)
        return means[places], variances[places]

    @no_grad
    def _given(self, near: Indices, X: Floats, variance: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Predict rows, each from the residuals of some training rows.

        Parameters
        ----------
        near : ndarray of int of shape (m, n)
            Their places.
        X : ndarray of shape (m, d)
        variance : bool, default=True
            Whether to compute variances: O(D²) a row.

        Returns
        -------
        means : Tensor of shape (m, t)
        variance : Tensor of shape (m,)
            Of no rows where it is not asked for.
        remaining : Tensor of shape (m, D)
            ψ.
        """
        features = self._forest.plan.mapped(X)
        mapped, targets = (self._forest.gathered(name, near) for name in ("mapped", "targets"))
        shared = torch.cat((mapped @ mapped.mT, mapped @ features[:, :, None]), dim=-1)
        weights, reduction = self._weigh(near, X, shared)
        remaining, of_targets = features - _sums(weights, mapped), _sums(weights, targets)
        means = remaining @ self._weights + of_targets @ as_tensor(self._combination)
        if not variance:
            return means, torch.empty(0), remaining
        prior = as_tensor(self.kernel.evaluate_diagonal(X))
        left_out = (prior - features.square().sum(dim=-1)).clamp_min(0.0)
        latent = solve_lower(self._factor, remaining.T).square().sum(dim=0) + (left_out - reduction).clamp_min(0.0)
        return means, torch.minimum(latent, prior), remaining

    def _weigh(self, near: Indices, X: Floats, shared: Tensor) -> tuple[Tensor, Tensor]:
        """Return b = R⁻¹r(N, x), shape (m, n), and bᵀr(N, x), of φᵀφ within N and with x, shape (m, n, n + 1)."""
        rows, noise = (self._forest.gathered(name, near) for name in ("inputs", "noise"))
        weights, reduction = (torch.full(shape, torch.nan, dtype=torch.float64) for shape in (near.shape, (len(X),)))
        if self._systems is not None:
            flat, places = rows.flatten(0, 1).numpy(), np.arange(near.size).reshape(near.shape)
            of_near = self._systems.over(flat, np.empty((len(flat), 0)), noise.flatten().numpy())
            weights, reduction = map(torch.from_numpy, of_near.weights(places, X, shared.numpy()))
        if (unsolved := reduction.isnan()).any():  # which torch corrects, or refuses
            some, tests, n = rows[unsolved], as_tensor(X)[unsolved, None], near.shape[1]
            # One evaluation for both: with few rows, what surrounds an operation takes as long as the operation.
            joint = self.kernel.evaluate(some, torch.cat((some, tests), dim=-2)) - shared[unsolved]
            factor = factorise(joint[..., :n].contiguous(), noise[unsolved])
            solved = solve_lower(factor, joint[..., n:])
            reduction[unsolved] = solved.square().sum(dim=(-2, -1))
            weights[unsolved] = solve_upper(factor.mT, solved)[..., 0]
        return weights, reduction


def _sums(weights: Tensor, values: Tensor) -> Tensor:
    """Return Σⱼ wᵢⱼvᵢⱼ, of weights of shape (m, n) and values of shape (m, n, k)."""
    return torch.matmul(weights[:, None], values)[:, 0]


@dataclass(frozen=True)
class ResidualPlan:
    """How a posterior of a map and of residuals is made of rows in blocks; see `lmgp.sums.kept.NearestSums`."""

    blocks: BlockPlan
    n_neighbors: int

    # What models have in common that merge.
    merged: ClassVar[str] = "one map, one size of blocks, one number of nearest rows, and of one noise variance,"

    @classmethod
    def fitted(
        cls, kernel: Kernel, rows: Rows, noise: Noise, features: Any, rng: np.random.Generator, n_neighbors: int,
        block_size: int, max_memory_gib: float | None = None,
    ) -> Self:  # fmt: skip
        """Fit the map to rows.

        Parameters
        ----------
        kernel : Kernel
            With a metric.
        rows : Rows
        noise : Noise
        features : FeatureMap or scikit-learn transformer
            See `lmgp.posteriors.weights.fitted_global_map`.
        rng : numpy.random.Generator
            Draws the map.
        n_neighbors : int
        block_size : int
            The most rows in a block.
        max_memory_gib : float, optional
            The machine's memory if not given.

        Raises
        ------
        InputError
            If the kernel has no metric, or the map leaves no covariance.
        MemoryLimitError
            If the map takes more.
        """
        fitted, centre = fitted_global_map(features, kernel, rows, rng, max_memory_gib)
        require(kernel, "metric", "A model of residuals of near rows")
        if not fitted.leaves_covariance:
            raise InputError(
                f"What {type(fitted).__name__} leaves out of the kernel is no covariance: its products exceed "
                "the kernel between some rows. Use NystroemFeatures or TaylorFeatures."
            )
        return cls(BlockPlan(kernel, noise, fitted, centre, block_size, max_memory_gib), n_neighbors)

    @property
    def name(self) -> tuple[Any, ...]:
        """What plans share whose sums add."""
        of_map = self.blocks.features.identity[1], self.blocks.centre.tolist()
        return *of_map, self.blocks.size, self.n_neighbors, self.blocks.noise

    def forest(self, rows: Rows) -> Forest:
        """Return rows in blocks."""
        kernel, variance = self.blocks.kernel, self.blocks.noise.variance
        return BlockForest(kernel, variance, rows.take(slice(0)), (), self.blocks).of_rows(rows)

    def __call__(self, rows: Forest, combination: Floats) -> ResidualPosterior:
        """Return the posterior of rows, with a combination of their targets.

        Raises
        ------
        MemoryLimitError
            If the features of all rows and the covariances within their blocks take more than the plan allows.
        """
        assert isinstance(rows, BlockForest)  # of this plan
        self.blocks.check_memory(len(rows))  # before the sums over new blocks are made
        return ResidualPosterior(rows, self.n_neighbors, combination)
