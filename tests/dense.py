"""Rows, maps, and dense algebra by numpy's general solver, for tests of posteriors and sums."""

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaincc

from lmgp import (
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TaylorFeatures,
)
from lmgp.data import Rows
from lmgp.features.base import KernelMap
from lmgp.kernels.base import Kernel
from lmgp.posteriors.exact import ExactLikelihood

APPROXIMATIONS = ("sor", "dtc", "fitc")

# Maps of about 30 columns: those of a truncated series, and those that represent the variance of every row.
TRUNCATED: dict[str, KernelMap] = {
    "gaussian": OptimizedMaclaurinFeatures(30, sketch="gaussian"),
    "tensor_srht": OptimizedMaclaurinFeatures(30, sketch="tensor_srht"),
    "taylor": TaylorFeatures(30),
}
UNTRUNCATED: dict[str, KernelMap] = {
    "rff": RandomFourierFeatures(30),
    "orf": OrthogonalFourierFeatures(30),
    "kar_karnick": RandomMaclaurinFeatures(30),
}
MAPS = {**TRUNCATED, **UNTRUNCATED}


def draw(
    n: int = 80, low: Sequence[float] = (8.0, -3.0), high: Sequence[float] = (14.0, -1.0), *, n_new: int = 15,
    noise: float = 0.2, seed: int = 0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Draw n rows in a box, two targets of each, and new rows: in the box, and two near and two far from it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (n, len(low)))
    Y = np.column_stack((np.sin(2 * X[:, 0]) + 0.5 * np.cos(X[:, -1]), np.cos(X[:, 0]))) + noise * rng.normal(
        size=(n, 2)
    )
    T = rng.uniform(low, high, (n_new, len(low)))
    return X, Y - Y.mean(axis=0), np.concatenate((T, X[:2] + 2.0, X[:2] + 30.0))


def weighted(X: np.ndarray, Y: np.ndarray, seed: int = 4) -> Rows:
    """Make rows with weights and noise variances of their own."""
    rng = np.random.default_rng(seed)
    return Rows(X, Y, rng.integers(1, 4, len(X)).astype(float), rng.uniform(0.01, 0.5, len(X)))


def noise_of(rows: Rows, noise_variance: float) -> np.ndarray:
    """Return the noise variance of each row over its weight."""
    noise = np.full(len(rows), noise_variance) if rows.noise_variances is None else rows.noise_variances
    return noise if rows.weights is None else noise / rows.weights


def dense(
    covariance: np.ndarray, cross: np.ndarray, prior: np.ndarray, Y: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Predict from the covariance of n rows, theirs with m new rows, and the prior variance of these."""
    solved = np.linalg.solve(covariance + np.diag(noise), np.column_stack((Y, cross)))
    t = Y.shape[1]
    return cross.T @ solved[:, :t], prior - np.sum(cross * solved[:, t:], axis=0)


def distances(X: np.ndarray, Z: np.ndarray, lengthscale: object) -> np.ndarray:
    """The distances between rows, in lengthscales, by differences."""
    return cdist(X / np.asarray(lengthscale), Z / np.asarray(lengthscale))


def gaussian(X: np.ndarray, Z: np.ndarray, lengthscale: object, variance: float) -> np.ndarray:
    """The Gaussian kernel, written out."""
    return variance * np.exp(-0.5 * distances(X, Z, lengthscale) ** 2)


def left_out(degree: int, squares: np.ndarray, variance: float) -> np.ndarray:
    """The prior variance that a Maclaurin map up to a degree leaves out at squared distances from its centre."""
    return variance * (1.0 - gammaincc(degree + 1, squares))


def log_likelihood_and_gradient(rows: Rows, kernel: Kernel, noise_variance: float) -> tuple[float, np.ndarray]:
    """Return the exact log likelihood, and its gradient by the logarithms of the free parameters and of the noise."""
    return ExactLikelihood(rows)(kernel, np.append(kernel.theta, np.log(noise_variance)))
