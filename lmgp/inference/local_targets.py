"""Several targets around centroids: one factor around each serves all of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.features.base import KernelMap
from lmgp.inference.cache import Cache
from lmgp.inference.function_space import RowPosterior
from lmgp.inference.local import ALL, LocalPosterior, Posterior
from lmgp.inference.trend import TrendFit
from lmgp.inference.weight_space import WeightPosterior, evaluate
from lmgp.memory import chunks
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# Of products of rows and weights, at a time.
BATCH_BYTES = 32 * 2**20


@dataclass(frozen=True, eq=False)
class TargetSums:
    """Sums over rows of a map and targets, with the precision ρ of each row relative to the noise.

    Attributes
    ----------
    cross : Tensor of shape (D, t)
        Σ ρφy.
    products : Tensor of shape (t, t)
        Σ ρyyᵀ.
    n : float
        The number of rows, each times its weight.
    """

    cross: torch.Tensor
    products: torch.Tensor
    n: float


def target_sums(features: KernelMap, rows: Rows, centre: Floats, noise: Noise) -> TargetSums:
    """Sum over rows with y of shape (n, t), chunk by chunk.

    Parameters
    ----------
    features : KernelMap
        Fitted.
    rows : Rows
    centre : ndarray of shape (d,)
        Of the map.
    noise : Noise
    """

    def of_chunk(part: slice) -> tuple[torch.Tensor, torch.Tensor]:
        chunk = rows.take(part)
        X, y = as_tensor(chunk.X - centre), as_tensor(chunk.y)
        mapped = features.evaluate(X)
        missing = features.missing_variance(X, mapped) if noise.counts_missing else None
        weighted = y * (noise.variance / noise.of_weighted_rows(chunk, missing))[:, None]
        return mapped.T @ weighted, y.T @ weighted

    t, size = rows.y.shape[1], features.n_features_out_
    cross, products = torch.zeros((size, t), dtype=torch.float64), torch.zeros((t, t), dtype=torch.float64)
    for one, other in parallel_map(of_chunk, list(chunks(len(rows.X), size))):
        cross += one
        products += other
    return TargetSums(cross, products, float(len(rows.X) if rows.weights is None else rows.weights.sum()))


@dataclass(frozen=True, eq=False)
class Solved:
    """What the targets have around one centroid.

    Attributes
    ----------
    weights : Tensor of shape (D, t) or (n, t)
        Of the features, or of the rows within reach.
    sums : TargetSums or None
        None of rows in place of features.
    """

    weights: torch.Tensor
    sums: TargetSums | None

    @property
    def n_bytes(self) -> int:
        """The memory that is held, in bytes."""
        return self.weights.nbytes + (0 if self.sums is None else self.sums.cross.nbytes + self.sums.products.nbytes)


class LocalTargets:
    """Predictions of several targets by posteriors around centroids.

    Parameters
    ----------
    posterior : LocalPosterior
        Of any target at these rows: its factors serve all.
    targets : ndarray of shape (n, t)
        Of a trend, less that of each.
    """

    def __init__(self, posterior: LocalPosterior, targets: Floats) -> None:
        self.posterior, self._targets = posterior, targets
        self._solved: Cache[Solved] = Cache(posterior.limit)

    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Predict the latent functions of all targets, see `LocalPosterior.predict`.

        Returns
        -------
        means : ndarray of shape (m, t)
        variance : ndarray of shape (m,) or None
            The same for all.
        """
        of, means, found = self.posterior, np.empty((len(X), self._targets.shape[1])), np.empty(len(X))

        def predict(posterior: Posterior, index: int | None, centroid: Floats, part: Indices) -> None:
            solved, rows = self.solved(posterior, index, centroid), X.take(part, axis=0)
            if isinstance(posterior, WeightPosterior):
                assert of.features is not None  # for the type checker: there are no weights without a map
                weights = solved.weights
                means[part], own = evaluate(posterior, of.features, rows, centroid, of.noise, variance, weights=weights)
            else:
                means[part] = _of_rows(posterior, rows, solved.weights.numpy())
                own = posterior.predict(rows)[1] if variance else None
            if own is not None:
                found[part] = own

        of.use_centroids(X, predict)
        return means, found if variance else None

    def solved(self, posterior: Posterior, index: int | None, centroid: Floats) -> Solved:
        """Return what the targets have around a centroid, solved once where the centroid has a number."""

        def solve() -> Solved:
            rows = self.posterior.rows_around(centroid, self._targets)
            if isinstance(posterior, RowPosterior):
                return Solved(torch.from_numpy(posterior.solve(rows.y)), None)
            noise, features = self.posterior.noise, self.posterior.features
            assert features is not None  # for the type checker: there are no weights without a map
            sums = target_sums(features, rows, centroid, noise)
            return Solved(posterior.solve(sums.cross / noise.variance), sums)

        if index is None:
            return solve()
        whole = isinstance(posterior, RowPosterior) and len(posterior.X) == len(self._targets)
        return self._solved.get(ALL if whole else index, solve)

    def of_one(self, j: int, y: Floats, trend: TrendFit | None) -> LocalPosterior:
        """Return the posteriors of one target, with the same factors.

        Parameters
        ----------
        j : int
        y : ndarray of shape (n,)
            Of a trend, the residuals of its least-squares fit.
        trend : TrendFit or None
        """
        return OneTarget(self, j, y, trend)


class OneTarget(LocalPosterior):
    """The posteriors of one of several targets.

    Parameters
    ----------
    of : LocalTargets
    j : int
        Which it is.
    y : ndarray of shape (n,)
    trend : TrendFit or None
    """

    def __init__(self, of: LocalTargets, j: int, y: Floats, trend: TrendFit | None) -> None:
        state: dict[str, Any] = vars(of.posterior)
        vars(self).update(state)
        given = of.posterior.given
        self._of, self._number, self.trend = of, j, trend
        self._rows = Rows(given.X, y, given.weights, given.noise_variances)
        self._solved = Cache(of.posterior.limit)

    def _posterior(self, index: int) -> Posterior:
        def make() -> Posterior:
            posterior = self._of.posterior._posterior(index)
            return self._own(posterior, index, self.centroids[index])

        return self._solved.get(index, make)

    def _solve(self, centroid: Floats) -> Posterior:
        return self._own(self._of.posterior._solve(centroid), None, centroid)

    def _own(self, posterior: Posterior, index: int | None, centroid: Floats) -> Posterior:
        """Return the posterior of this target from that of another one."""
        if isinstance(posterior, RowPosterior):
            if not len(posterior.X):  # out of reach of all rows: the prior
                return posterior
            return posterior.with_target(self.rows_around(centroid, self._rows.y[:, None]).y[:, 0], self.trend)
        sums, j = self._of.solved(posterior, index, centroid).sums, self._number
        assert sums is not None  # for the type checker: there are features
        squares = float(sums.products[j, j])
        return posterior.with_sums(sums.cross[:, [j]].contiguous(), squares, self.noise.variance, sums.n, self.trend)


def _of_rows(posterior: RowPosterior, X: Floats, weights: Floats) -> Floats:
    """Return the means of rows from the weights of the training rows, shape (m, t)."""
    means, section = np.empty((len(X), weights.shape[1])), posterior.kernel.sections(posterior.X)
    for part in chunks(len(X), max(1, len(weights)), BATCH_BYTES):
        means[part] = section(X[part]) @ weights if len(weights) else 0.0
    return means
