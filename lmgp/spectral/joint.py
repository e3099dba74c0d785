"""The covariance of rows on few Fourier modes."""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.linalg import cholesky, solve_lower
from lmgp.memory import check_memory
from lmgp.spectral.dense import RealSums
from lmgp.spectral.posterior import SpectralPosterior

Floats = NDArray[np.float64]


def mode_covariance(posterior: SpectralPosterior, X: Floats) -> Floats:
    """Return the posterior covariance of rows within reach, shape (m, m), without what the trend adds.

    Takes one factorisation of a matrix of the modes.
    """
    sums, variance = posterior.sums, posterior.noise.variance
    real = RealSums(sums)
    n_modes, m = len(real.cross), len(X)
    check_memory(
        8.0 * (3.0 * m**2 + 3.0 * m * n_modes), f"The covariance of {m:,} rows", "Ask for fewer rows at a time."
    )
    roots = np.sqrt(real.of_modes(posterior.modes.weights(posterior.kernel)))
    matrix = roots[:, None] * real.products * roots
    matrix[np.diag_indices_from(matrix)] += variance
    angles = np.stack(posterior.modes.angles(X), axis=1) @ real.index.T
    columns = np.concatenate((np.cos(angles), np.sin(angles[:, 1:])), axis=1)
    columns[:, 1:] *= math.sqrt(2.0)
    columns *= roots
    whitened = solve_lower(cholesky(torch.from_numpy(matrix), variance), torch.from_numpy(columns.T))
    found: Floats = variance * (whitened.T @ whitened).numpy()
    found[np.diag_indices_from(found)] += posterior.left_out
    return found
