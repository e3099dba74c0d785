"""Joint predictions of several rows: their covariance, and draws of functions."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import KDTree

from lmgp.data import Noise, Rows, as_tensor
from lmgp.errors import InputError
from lmgp.features.base import KernelMap
from lmgp.features.fourier import RandomFourierFeatures
from lmgp.kernels.base import Kernel
from lmgp.posteriors.exact import ExactPosterior, factorise
from lmgp.posteriors.nearest import FARTHEST, blocks_of
from lmgp.utils.lazy import Tensor, no_grad, torch
from lmgp.utils.linalg import solve_lower, solve_upper
from lmgp.utils.memory import check_memory, chunks
from lmgp.utils.parallel import parallel_map

if TYPE_CHECKING:
    from lmgp.posteriors.weights import WeightPosterior

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

# The nearest rows whose errors of prediction say how predictions are correlated.
NEIGHBORS = 128
# Up to this number of rows, draws are by a root of the covariance; of more, by Fourier features of the prior.
DENSE = 2048
# The columns of these; every draw has its own.
COLUMNS = 2048
# The most rows of a block within which what a map leaves out is drawn with its correlations.
BLOCK = 1024
# Bytes of covariances that are held at a time.
BATCH_BYTES = 16 * 2**20
# What may be added to the diagonal of a covariance for a Cholesky factor, in multiples of its largest entry.
JITTERS = (0.0, 1e-13, 1e-12, 1e-11, 1e-10)


class NearErrors:
    """Errors of predictions from the nearest rows: one Gaussian process, whichever rows predict each row.

    A row x is predicted by Sₓy, from the k training rows that are nearest to it. The errors f(x) − Sₓy are jointly
    Gaussian under the prior. So their covariance is positive semi-definite; its diagonal is the variance of the
    nearest-neighbour Gaussian process, and with as many neighbours as rows it is that of the exact one.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows
        The training rows; targets do not matter.
    noise : Noise
    n_neighbors : int, default=128

    References
    ----------
    J. T. Wilson, V. Borovitskiy, A. Terenin, P. Mostowsky and M. P. Deisenroth, *Efficiently Sampling Functions from
    Gaussian Process Posteriors*, ICML 2020, eq. 10.
    """

    def __init__(self, kernel: Kernel, rows: Rows, noise: Noise, n_neighbors: int = NEIGHBORS) -> None:
        self._kernel, self._n_neighbors = kernel, min(n_neighbors, len(rows))
        self._X, self._noise = rows.X, noise.of_weighted_rows(rows).numpy()
        self._tree = KDTree(kernel.in_lengthscales(rows.X))

    def covariance(self, X: Floats, variance: Floats) -> Floats:
        """Return the covariance of predictions with these variances and the correlations of the errors, (m, m)."""
        m = len(X)
        check_memory(4.0 * 8.0 * m**2, f"The covariance of {m:,} rows, and what it is made from,", ADVICE)
        weights, used, _ = self._weights(X)
        rows = as_tensor(self._X[used])
        found = self._kernel.evaluate(as_tensor(X), as_tensor(X)).numpy()
        for part in chunks(len(used), len(used) + m, BATCH_BYTES):
            some, own = rows[part], weights[:, part]
            crossed = own @ self._kernel.evaluate(some, as_tensor(X)).numpy()
            found -= crossed + crossed.T
            found += (weights @ self._kernel.evaluate(rows, some).numpy()) @ own.T.toarray()
        found += ((weights * self._noise[used]) @ weights.T).toarray()
        return with_variance(found, variance)

    def samples(self, X: Floats, variance: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw errors with these variances and the correlations of the errors, shape (m, n_samples).

        Up to `DENSE` rows by way of their covariance. Of more, each draw has a prior of its own from Fourier features.
        """
        if len(X) <= DENSE or not self._kernel.can("frequencies"):
            root = root_of(self.covariance(X, variance))
            return root @ rng.standard_normal((len(root), n_samples))
        weights, used, own = self._weights(X)
        found = np.empty((len(X), n_samples))
        deviations = np.sqrt(self._noise[used])
        for column in found.T:
            (there, here) = prior_draw(self._kernel, (self._X[used], X), rng)
            column[:] = here - weights @ (there + deviations * rng.standard_normal(len(used)))
        found *= np.sqrt(variance / np.maximum(own, 1e-300))[:, None]
        return found

    def _weights(self, X: Floats) -> tuple[csr_array, Indices, Floats]:
        """Return S over the training rows that are used, which these are, and the variance of each error."""
        k, m = self._n_neighbors, len(X)
        near, values, variance = np.empty((m, k), dtype=np.intp), np.empty((m, k)), np.empty(m)
        points, prior = np.clip(self._kernel.in_lengthscales(X), -FARTHEST, FARTHEST), self._kernel.evaluate_diagonal(X)

        @no_grad
        def solve(part: slice) -> None:
            near[part] = self._tree.query(points[part], k=np.arange(1, k + 1))[1]
            rows, tests = as_tensor(self._X[near[part]]), as_tensor(X[part])[:, None]
            factor = factorise(self._kernel.evaluate(rows, rows), torch.from_numpy(self._noise[near[part]]))
            solved = solve_lower(factor, self._kernel.evaluate(rows, tests))
            values[part] = solve_upper(factor.mT, solved)[..., 0].numpy()
            variance[part] = prior[part] - solved[..., 0].square().sum(dim=-1).numpy()

        parallel_map(solve, list(chunks(m, k * k, BATCH_BYTES // 4)))
        used, place = np.unique(near, return_inverse=True)
        starts = np.arange(0, m * k + 1, k)
        weights = csr_array((values.ravel(), place.ravel(), starts), shape=(m, len(used)))
        return weights, used, np.maximum(variance, 0.0)


ADVICE = "Ask for fewer rows at a time."


def with_variance(covariance: Floats, variance: Floats) -> Floats:
    """Scale a covariance to other variances, in place, with the correlations that it has."""
    own = np.maximum(covariance.diagonal(), 0.0)
    scale = np.sqrt(np.divide(variance, own, out=np.zeros_like(own), where=own > 0.0))
    covariance *= scale
    covariance *= scale[:, None]
    covariance += covariance.T
    covariance *= 0.5
    np.fill_diagonal(covariance, variance)
    return covariance


def row_covariance(posterior: ExactPosterior, X: Floats) -> Floats:
    """Return the covariance of rows given all training rows, shape (m, m)."""
    m, n = len(X), posterior.n_rows
    check_memory(8.0 * (3.0 * m**2 + 2.0 * m * n), f"The covariance of {m:,} rows, and what it is made from,", ADVICE)
    found, solved = posterior.kernel.evaluate(as_tensor(X), as_tensor(X)).numpy(), posterior.whiten(X)
    found -= (solved.T @ solved).numpy()
    return with_variance(found, np.maximum(found.diagonal(), 0.0))


def row_samples(posterior: ExactPosterior, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
    """Draw errors of the exact process, shape (m, n_samples): by the covariance of few rows, or Matheron's rule."""
    if len(X) <= DENSE or not posterior.kernel.can("frequencies"):
        return normal_draws(row_covariance(posterior, X), n_samples, rng)
    rows = posterior.rows
    deviations = np.sqrt(posterior.noise.of_weighted_rows(rows).numpy())
    targets, found = np.empty((len(rows), n_samples)), np.empty((len(X), n_samples))
    for index in range(n_samples):
        targets[:, index], found[:, index] = prior_draw(posterior.kernel, (rows.X, X), rng)
    targets += deviations[:, None] * rng.standard_normal(targets.shape)
    weights = posterior.solve(targets)
    for part in chunks(len(X), len(rows), BATCH_BYTES):
        found[part] -= posterior.kernel.evaluate(as_tensor(X[part]), as_tensor(rows.X)).numpy() @ weights
    return found


def weight_covariance(posterior: "WeightPosterior", X: Floats) -> Floats:
    """Return the covariance of rows by one map, with what it leaves out of the kernel, shape (m, m).

    That is the covariance k − φᵀφ where it is one, as of Nyström and Taylor maps; of other maps, each row's own.
    """
    m, n_features = len(X), posterior.features.n_features_out_
    check_memory(8.0 * (4.0 * m**2 + 3.0 * m * n_features), f"The covariance of {m:,} rows", ADVICE)
    columns, missing = posterior.evaluate(X)
    whitened = posterior.whiten(columns)
    found = (whitened.T @ whitened).numpy()
    if missing is not None and posterior.noise.predicts_missing:
        found += _left_out(posterior.features, posterior.kernel, X, columns, missing.numpy())
    return with_variance(found, found.diagonal().copy())


def weight_samples(posterior: "WeightPosterior", X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
    """Draw errors by drawing weights, shape (m, n_samples); what a map leaves out, within blocks of near rows."""
    features, kernel = posterior.features, posterior.kernel
    weights = solve_upper(posterior.factor.T, torch.from_numpy(rng.standard_normal((len(posterior.factor), n_samples))))
    found = np.empty((len(X), n_samples))
    whole = features.leaves_covariance and kernel.can("metric")
    parts = blocks_of(kernel.in_lengthscales(X), BLOCK) if whole else chunks(len(X), features.n_features_out_)
    for part in parts:
        columns, missing = posterior.evaluate(X[part])
        drawn = (columns @ weights).numpy()
        if missing is not None and posterior.noise.predicts_missing:
            white = rng.standard_normal(drawn.shape)
            if features.leaves_covariance:
                drawn += root_of(_left_out(features, kernel, X[part], columns, missing.numpy())) @ white
            else:
                drawn += missing.sqrt().numpy()[:, None] * white
        found[part] = drawn
    return found


def _left_out(features: KernelMap, kernel: Kernel, X: Floats, columns: Tensor, missing: Floats) -> Floats:
    """Return the prior covariance that a map leaves out."""
    if not features.leaves_covariance:
        return np.diag(missing)
    found: Floats = kernel.evaluate(as_tensor(X), as_tensor(X)).numpy() - (columns @ columns.T).numpy()
    np.fill_diagonal(found, missing)
    return found


def prior_draw(kernel: Kernel, sets: tuple[Floats, ...], rng: np.random.Generator) -> tuple[Floats, ...]:
    """Draw one function of the prior at several sets of rows, by Fourier features: its covariance is the kernel's."""
    features = RandomFourierFeatures(COLUMNS, kernel=kernel, random_state=int(rng.integers(2**31)))
    features.fit_checked(sets[-1][:1])
    weights = torch.from_numpy(rng.standard_normal(features.n_features_out_))
    drawn = tuple(np.empty(len(X)) for X in sets)
    for X, values in zip(sets, drawn, strict=True):

        def draw(part: slice, X: Floats = X, values: Floats = values) -> None:
            values[part] = (features.evaluate(as_tensor(X[part])) @ weights).numpy()

        parallel_map(draw, list(chunks(len(X), COLUMNS)))
    return drawn


def root_of(covariance: Floats) -> Floats:
    """Return a root R of a positive semi-definite matrix, R Rᵀ, but for rounding."""
    matrix = as_tensor(covariance)
    if not torch.isfinite(matrix).all():
        raise InputError("The covariance to draw from is not finite: check the hyper-parameters.")
    largest = float(matrix.diagonal().max()) if len(matrix) else 0.0
    for jitter in JITTERS:
        noisy = matrix.clone()
        noisy.diagonal().add_(jitter * largest)
        factor, failed = torch.linalg.cholesky_ex(noisy)
        if failed == 0:
            return factor.numpy()
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * values.clamp_min(0.0).sqrt()).numpy()


def normal_draws(covariance: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
    """Draw from a normal distribution of mean 0, shape (m, n_samples)."""
    return root_of(covariance) @ rng.standard_normal((len(covariance), n_samples))
