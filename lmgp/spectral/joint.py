"""Covariances of rows on Fourier modes, and draws."""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.linalg import cholesky, solve_lower
from lmgp.memory import check_memory
from lmgp.spectral.modes import Modes
from lmgp.spectral.posterior import SpectralPosterior
from lmgp.spectral.real import RealSums
from lmgp.spectral.transforms import sums_over_rows, white
from lmgp.validation import Rows

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
    matrix = roots[:, None] * real.products() * roots
    matrix[np.diag_indices_from(matrix)] += variance
    angles = np.stack(posterior.modes.angles(X), axis=1) @ real.index.T
    columns = np.concatenate((np.cos(angles), np.sin(angles[:, 1:])), axis=1)
    columns[:, 1:] *= math.sqrt(2.0)
    columns *= roots
    whitened = solve_lower(cholesky(torch.from_numpy(matrix), variance), torch.from_numpy(columns.T))
    found: Floats = variance * (whitened.T @ whitened).numpy()
    found[np.diag_indices_from(found)] += posterior.left_out
    return found


def joint_samples(
    posterior: SpectralPosterior, X: Floats, rows: Rows, n_samples: int, rng: np.random.Generator
) -> Floats:
    """Draw functions from the posterior: from the prior's modes, updated by the rows (Matheron's rule).

    Parameters
    ----------
    posterior : SpectralPosterior
    X : ndarray of shape (m, d)
    rows : Rows
        The training rows, with y less the origin of the sums.
    n_samples : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (n_samples, m)
        Of f, and of what is not known of the trend, less the trend of least squares.

    Raises
    ------
    InputError
        If a row is so far from the box of the training rows that the modes do not draw it.

    References
    ----------
    J. T. Wilson, V. Borovitskiy, A. Terenin, P. Mostowsky and M. P. Deisenroth, *Efficiently Sampling Functions
    from Gaussian Process Posteriors*, ICML 2020, eq. 10.
    """
    _check_drawn(posterior.modes, X)
    modes, variance = posterior.modes, posterior.noise.variance
    noise, prior = (
        posterior.noise_of(rows),
        np.sqrt(modes.weights(posterior.kernel)) * white((n_samples, *modes.shape), rng),
    )
    errors = np.sqrt(noise) * rng.standard_normal((n_samples, len(noise)))
    targets = rows.y - posterior._evaluate(prior, rows.X) - errors
    weighted = variance / noise * targets
    cross = sums_over_rows(modes.angles(rows.X), weighted, modes.counts, posterior._transform_tolerance)
    coefficients, found = posterior._of_cross(cross, posterior._enough(np.sum(weighted * targets, axis=1), 0))
    drawn = posterior._evaluate(prior + coefficients, X)
    if posterior.trend is not None:
        explained = posterior._explained(cross, coefficients, found.vectors)[1:].T
        changes = (weighted @ posterior.trend.columns(rows.X) - explained) / variance @ posterior.trend.covariance
        drawn += changes @ posterior.columns_left(X).T
    return drawn


def _check_drawn(modes: Modes, X: Floats) -> None:
    (outside,) = np.nonzero(~modes.served(X, 0.5))
    if len(outside):
        low, high = modes.low - 0.5 * modes.reach, modes.high + 0.5 * modes.reach
        box = " × ".join(f"[{a:.6g}, {b:.6g}]" for a, b in zip(low, high, strict=True))
        raise InputError(
            f"Draws are of rows within {box}, where the modes are those of the process; {len(outside):,} rows are "
            f"not, the first of them row {outside[0]}. Leave them out, or add training rows near them."
        )
