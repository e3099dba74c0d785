"""Exact predictions from given rows: the dual, n × n, form of a Gaussian process, for one set of rows or for many."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.inference.likelihood import noise_and_weights
from lmgp.kernels.stationary import GaussianKernel
from lmgp.linalg import cholesky, solve_lower
from lmgp.memory import chunks
from lmgp.parallel import parallel_map
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]

# Bytes of the right-hand sides of one solve: each reads the whole n × n factor, so they are worth collecting.
SOLVE_BYTES = 128 * 2**20

# Bytes of the covariances of the neighbours that are factorised in one go: few enough to stay in a processor's cache.
BATCH_BYTES = 4 * 2**20


class ExactPosterior:
    """The exact Gaussian process given some rows: mean k*ᵀα and variance σ² − ‖L⁻¹k*‖², L = chol(K + Σ).

    Parameters
    ----------
    kernel : GaussianKernel
    rows : Rows
        With y centred; of none, the posterior is the prior.
    noise_variance : float
        Of rows without their own.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 1.
    """

    def __init__(self, kernel: GaussianKernel, rows: Rows, noise_variance: float) -> None:
        self.kernel = kernel
        self.X = rows.X
        covariance = as_tensor(kernel(rows.X)) if len(rows.y) else torch.empty((0, 0), dtype=torch.float64)
        noise, weights = noise_and_weights(rows, noise_variance)
        covariance.diagonal().add_(noise / weights)
        self.factor = cholesky(covariance) if len(rows.y) else covariance
        self.coefficients = solve_lower(self.factor, as_tensor(rows.y)[:, None])[:, 0]

    @property
    def n_bytes(self) -> int:
        """The memory that this posterior holds, in bytes."""
        return self.factor.nbytes + self.coefficients.nbytes + self.X.nbytes

    def predict(self, X: Floats) -> tuple[Floats, Floats]:
        """Return the latent mean and variance at rows X of shape (n, d), each of shape (n,)."""
        mean, variance = np.zeros(len(X)), np.full(len(X), float(self.kernel.variance))
        if not len(self.X):
            return mean, variance
        for part in chunks(len(X), len(self.factor), SOLVE_BYTES):
            whitened = solve_lower(self.factor, as_tensor(self.kernel(self.X, X[part])))
            mean[part] = (self.coefficients @ whitened).numpy()
            # A difference, unlike the featurized models' sum of squares: rounding can take it below zero.
            variance[part] = (self.kernel.variance - whitened.square().sum(dim=0)).clamp(min=0.0).numpy()
        return mean, variance


def predict_from_neighbours(
    kernel: GaussianKernel, rows: Rows, noise_variance: float, tree: KDTree, X: Floats, n_neighbors: int
) -> tuple[Floats, Floats]:
    """Predict each row from the training rows nearest to it: the nearest-neighbour Gaussian process.

    Parameters
    ----------
    kernel : GaussianKernel
    rows : Rows
        With y centred.
    noise_variance : float
        Of rows without their own.
    tree : KDTree
        Of the training rows in lengthscales.
    X : ndarray of shape (m, d)
    n_neighbors : int
        At most the number of training rows.

    Returns
    -------
    mean, variance : ndarray of shape (m,)
        Of the latent function.
    """
    scaled, scaled_X = np.asarray(tree.data), kernel.scale(X)
    _, nearest = tree.query(scaled_X, k=np.arange(1, n_neighbors + 1), workers=torch.get_num_threads())
    noise, weights = (part.numpy() for part in noise_and_weights(rows, noise_variance))
    own_noise, prior = noise / weights, float(kernel.variance)
    mean, variance = np.empty(len(X)), np.empty(len(X))

    def predict_batch(part: slice) -> None:
        neighbours = nearest[part]
        near = scaled[neighbours]  # (b, k, d)
        covariance = _gaussian(near[:, :, None, :], near[:, None, :, :], prior)
        covariance.diagonal(dim1=1, dim2=2).add_(torch.from_numpy(own_noise[neighbours]))
        factor, failed = torch.linalg.cholesky_ex(covariance)
        for index in failed.nonzero().ravel().tolist():
            factor[index] = cholesky(covariance[index])
        cross = _gaussian(near, scaled_X[part][:, None, :], prior)
        right = torch.stack((cross, torch.from_numpy(rows.y[neighbours])), dim=2)
        whitened, targets = solve_lower(factor, right).unbind(dim=2)
        mean[part] = (whitened * targets).sum(dim=1).numpy()
        variance[part] = (prior - whitened.square().sum(dim=1)).clamp(min=0.0).numpy()

    parallel_map(predict_batch, list(chunks(len(X), n_neighbors**2, BATCH_BYTES)))
    return mean, variance


def _gaussian(left: Floats, right: Floats, variance: float) -> torch.Tensor:
    """σ² exp(−‖x − z‖²/2) over the last axis, the others broadcast; column by column, to hold no differences of all."""
    squares = np.square(left[..., 0] - right[..., 0])
    for j in range(1, left.shape[-1]):
        squares += np.square(left[..., j] - right[..., j])
    return torch.from_numpy(variance * np.exp(-0.5 * squares))
