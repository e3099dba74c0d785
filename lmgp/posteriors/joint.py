"""Joint predictions of several rows: their covariance, and draws of functions."""

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from lmgp.data import Floats, Noise, Rows, as_tensor
from lmgp.errors import InputError
from lmgp.features.fourier import RandomFourierFeatures
from lmgp.kernels.base import Kernel
from lmgp.neighbours.duplicates import steady_order
from lmgp.neighbours.trees import tree_of_rows, tree_points
from lmgp.utils.lazy import no_grad, torch
from lmgp.utils.linalg import factorise, solve_lower, solve_upper
from lmgp.utils.memory import check_memory, chunks
from lmgp.utils.parallel import parallel_map

if TYPE_CHECKING:
    from lmgp.posteriors.exact import ExactPosterior

# Up to this number of rows, draws are by a root of the covariance; of more, by Fourier features of the prior. Up to
# this number of training rows, correlations are those of the exact process.
DENSE = 2048
# Of more, the nearest rows whose errors of prediction say how predictions are correlated.
NEIGHBORS = 128
# The columns of these; every draw has its own.
COLUMNS = 2048
# Bytes of covariances that are held at a time.
BATCH_BYTES = 16 * 2**20
# What may be added to the diagonal of a covariance for a Cholesky factor, in multiples of its largest entry.
JITTERS = (0.0, 1e-13, 1e-12, 1e-11, 1e-10)

# What a refusal of a covariance that takes too much memory says.
ADVICE = "Ask for fewer rows at a time."


def near_covariance(kernel: Kernel, rows: Rows, noise: Noise, X: Floats, variance: Floats) -> Floats:
    """Return the covariance of rows with these variances, correlated as predictions from the nearest rows are, (m, m).

    A row x is predicted by Sₓy, from the k training rows that are nearest to it. The errors f(x) − Sₓy are jointly
    Gaussian under the prior. So their covariance is positive semi-definite; its diagonal is the variance of the
    nearest-neighbour Gaussian process, and with as many neighbours as rows it is that of the exact one. Of few training
    rows, all are neighbours.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows
        The training rows; targets do not matter.
    noise : Noise
    X : ndarray of shape (m, d)
    variance : ndarray of shape (m,)
    """
    if len(rows) <= DENSE:
        return with_variance(_exact(kernel, rows, noise).covariance(X), variance)
    m = len(X)
    check_memory(4.0 * 8.0 * m**2, f"The covariance of {m:,} rows, and what it is made from,", ADVICE)
    weights, used, _ = _near_weights(kernel, rows, noise, X)
    near = as_tensor(used.X)
    covariance = kernel.evaluate(as_tensor(X), as_tensor(X)).numpy()
    for part in chunks(len(used), len(used) + m, BATCH_BYTES):
        some, block = near[part], weights[:, part]
        crossed = block @ kernel.evaluate(some, as_tensor(X)).numpy()
        covariance -= crossed + crossed.T
        covariance += (weights @ kernel.evaluate(near, some).numpy()) @ block.T.toarray()
    covariance += ((weights * noise.of_weighted_rows(used)) @ weights.T).toarray()
    return with_variance(covariance, variance)


def near_samples(
    kernel: Kernel, rows: Rows, noise: Noise, X: Floats, variance: Floats, n_samples: int, rng: np.random.Generator
) -> Floats:
    """Draw errors with these variances, and the correlations of `near_covariance`, shape (m, n_samples).

    Up to `DENSE` rows by way of their covariance. Of more, each draw has a prior of its own from Fourier features.

    References
    ----------
    J. T. Wilson, V. Borovitskiy, A. Terenin, P. Mostowsky and M. P. Deisenroth, *Efficiently Sampling Functions from
    Gaussian Process Posteriors*, ICML 2020, eq. 10.
    """
    if is_dense(kernel, X):
        return normal_draws(near_covariance(kernel, rows, noise, X, variance), n_samples, rng)
    if len(rows) <= DENSE:
        exact = _exact(kernel, rows, noise)
        errors, drawn_variance = exact.sample(X, n_samples, rng), exact.variances(X)
    else:
        weights, used, drawn_variance = _near_weights(kernel, rows, noise, X)
        errors, deviations = np.empty((len(X), n_samples)), np.sqrt(noise.of_weighted_rows(used))
        for column in errors.T:
            (there, here) = prior_draw(kernel, (used.X, X), rng)
            column[:] = here - weights @ (there + deviations * rng.standard_normal(len(used)))
    errors *= np.sqrt(variance / np.maximum(drawn_variance, 1e-300))[:, None]
    return errors


def _exact(kernel: Kernel, rows: Rows, noise: Noise) -> "ExactPosterior":
    from lmgp.posteriors.exact import ExactPosterior  # here, for it imports this module

    return ExactPosterior(kernel, rows, noise)


def _near_weights(kernel: Kernel, rows: Rows, noise: Noise, X: Floats) -> tuple[csr_array, Rows, Floats]:
    """Return S over the training rows that are used, these rows, and the variance of each error."""
    k, m = min(NEIGHBORS, len(rows)), len(X)
    near, values, variance = np.empty((m, k), dtype=np.intp), np.empty((m, k)), np.empty(m)
    tree, noises = tree_of_rows(kernel, rows.X, steady_order(rows)), as_tensor(noise.of_weighted_rows(rows))
    points, prior = tree_points(kernel, X), kernel.evaluate_diagonal(X)

    @no_grad
    def solve(part: slice) -> None:
        near[part] = tree.query(points[part], k=np.arange(1, k + 1))[1]
        around, tests = as_tensor(rows.X[near[part]]), as_tensor(X[part])[:, None]
        factor = factorise(kernel.evaluate(around, around), noises[near[part]])
        solved = solve_lower(factor, kernel.evaluate(around, tests))
        values[part] = solve_upper(factor.mT, solved)[..., 0].numpy()
        variance[part] = prior[part] - solved[..., 0].square().sum(dim=-1).numpy()

    parallel_map(solve, list(chunks(m, k * k, BATCH_BYTES // 4)))
    used, place = np.unique(near, return_inverse=True)
    starts = np.arange(0, m * k + 1, k)
    weights = csr_array((values.ravel(), place.ravel(), starts), shape=(m, len(used)))
    return weights, rows.take(used), np.maximum(variance, 0.0)


def is_dense(kernel: Kernel, X: Floats) -> bool:
    """Say whether rows are drawn by a root of their covariance: few, or of a kernel without Fourier features."""
    return len(X) <= DENSE or not kernel.can("frequencies")


def with_variance(covariance: Floats, variance: Floats) -> Floats:
    """Scale a covariance to other variances, in place, with the correlations that it has."""
    diagonal = np.maximum(covariance.diagonal(), 0.0)
    scale = np.sqrt(np.divide(variance, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0.0))
    covariance *= scale
    covariance *= scale[:, None]
    covariance += covariance.T
    covariance *= 0.5
    np.fill_diagonal(covariance, variance)
    return covariance


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
        raise InputError("The covariance to draw from is not finite: check the hyperparameters.")
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
