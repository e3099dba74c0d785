"""What the tests share: rows and targets, kernels with their textbook formulas, and dense algebra."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammaincc
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    RationalQuadraticKernel,
    ResidualGPRegressor,
    SpectralGPRegressor,
    StructuredOrthogonalFourierFeatures,
    TaylorFeatures,
)
from lmgp.data import Approximation, Noise, Rows
from lmgp.estimators.base import GaussianProcess
from lmgp.features.base import KernelMap
from lmgp.kernels.base import Kernel
from lmgp.neighbours.placement import cover
from lmgp.posteriors.local import LocalPosterior, fitted_map

Floats = NDArray[np.float64]

APPROXIMATIONS = ("sor", "dtc", "fitc")


def draw(
    n: int = 80,
    low: Sequence[float] = (8.0, -3.0),
    high: Sequence[float] = (14.0, -1.0),
    *,
    n_new: int = 15,
    outside: bool = True,
    noise: float = 0.2,
    seed: int = 0,
) -> tuple[Floats, Floats, Floats]:
    """Draw n rows in a box, their y, and new rows: `n_new` in the box, and two near and two far from it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, high, (n, len(low)))
    y = 3.0 + np.sin(2 * X[:, 0]) + 0.5 * np.cos(X[:, -1]) + noise * rng.normal(size=n)
    T = rng.uniform(low, high, (n_new, len(low)))
    return X, y, np.concatenate((T, X[:2] + 2.0, X[:2] + 30.0)) if outside else T


def draw_normal(n: int = 40, d: int = 3, seed: int = 0) -> tuple[Floats, Floats]:
    """Draw n rows around the origin, and their y."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, 2.0 + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


def counts_and_noises(n: int, seed: int = 4) -> tuple[NDArray[np.int64], Floats]:
    """Draw how often each row counts, zero included, and a noise variance for each."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, n), rng.uniform(0.01, 0.5, n)


def dense_gp(
    covariance: Floats, cross: Floats, prior: Floats, y: Floats, noise: Floats, center: float | None = None
) -> tuple[Floats, Floats, float]:
    """Predict with a Gaussian process by numpy's general solver.

    Parameters are the prior covariance of n training rows, shape (n, n), theirs with m new rows, shape (n, m), the
    prior variance of these, shape (m,), the targets and their noise variances, shape (n,). Returns the mean and the
    latent variance of the new rows, and the log marginal likelihood of the centred targets, by scipy.
    """
    center = float(np.mean(y)) if center is None else center
    noisy = covariance + np.diag(noise)
    solved = np.linalg.solve(noisy, np.column_stack((y - center, cross)))
    likelihood = multivariate_normal(np.zeros(len(y)), noisy).logpdf(y - center) if len(y) else 0.0
    variance = prior - np.sum(cross * solved[:, 1:], axis=0)
    return center + cross.T @ solved[:, 0], variance, float(likelihood)


def gaussian(X: Floats, Z: Floats, lengthscale: object, variance: float) -> Floats:
    """The Gaussian kernel, written out."""
    return variance * np.exp(-0.5 * distances(X, Z, lengthscale) ** 2)


def distances(X: Floats, Z: Floats, lengthscale: object) -> Floats:
    """The distances between rows, in lengthscales, by differences."""
    return cdist(X / np.asarray(lengthscale), Z / np.asarray(lengthscale))


def left_out(degree: int, squares: Floats, variance: float) -> Floats:
    """The prior variance that a Maclaurin map up to a degree leaves out at squared distances from its centre."""
    return variance * (1.0 - gammaincc(degree + 1, squares))


# A kernel of two columns, and its formula as in the textbook, for dense algebra.
SHORT, LONG = [0.9, 1.6], [2.1, 0.8]
KERNELS: dict[str, tuple[Kernel, Callable[[Floats, Floats], Floats]]] = {
    "matern12": (
        MaternKernel(SHORT, 1.3, smoothness=0.5),
        lambda X, Z: 1.3 * np.exp(-distances(X, Z, SHORT)),
    ),
    "matern32": (
        MaternKernel(LONG, 0.7, smoothness=1.5),
        lambda X, Z: 0.7 * (1 + 3**0.5 * distances(X, Z, LONG)) * np.exp(-(3**0.5) * distances(X, Z, LONG)),
    ),
    "matern52": (
        MaternKernel(SHORT, 1.1, smoothness=2.5),
        lambda X, Z: (
            1.1
            * (1 + 5**0.5 * distances(X, Z, SHORT) + 5 / 3 * distances(X, Z, SHORT) ** 2)
            * np.exp(-(5**0.5) * distances(X, Z, SHORT))
        ),
    ),
    "rational_quadratic": (
        RationalQuadraticKernel(LONG, 1.2, alpha=0.8),
        lambda X, Z: 1.2 * (1 + distances(X, Z, LONG) ** 2 / 1.6) ** -0.8,
    ),
    "gaussian_plus_matern": (
        GaussianKernel(LONG, 0.9) + MaternKernel(SHORT, 0.4, smoothness=1.5),
        lambda X, Z: (
            gaussian(X, Z, LONG, 0.9)
            + 0.4 * (1 + 3**0.5 * distances(X, Z, SHORT)) * np.exp(-(3**0.5) * distances(X, Z, SHORT))
        ),
    ),
}

# Maps of about 30 columns: those of a truncated series, and those that represent the variance of every row.
TRUNCATED: dict[str, KernelMap] = {
    "gaussian": OptimizedMaclaurinFeatures(30, sketch="gaussian"),
    "rademacher": OptimizedMaclaurinFeatures(30, sketch="rademacher"),
    "tensor_srht": OptimizedMaclaurinFeatures(30, sketch="tensor_srht"),
    "taylor": TaylorFeatures(30),
}
FOURIER: dict[str, KernelMap] = {
    "rff": RandomFourierFeatures(30),
    "orf": OrthogonalFourierFeatures(30),
    "sorf": StructuredOrthogonalFourierFeatures(30),
}
UNTRUNCATED: dict[str, KernelMap] = {**FOURIER, "kar_karnick": RandomMaclaurinFeatures(30)}
MAPS = {**TRUNCATED, **UNTRUNCATED}

NOISE = 0.05


def centred(X: Floats, y: Floats, weights: Floats | None = None, noise_variances: Floats | None = None) -> Rows:
    """Make rows whose y is centred by its weighted mean."""
    return Rows(X, y - np.average(y, weights=weights), weights, noise_variances)


def around(
    features: Any,
    rows: Rows,
    approximation: Approximation = "dtc",
    centroids: Floats | None = None,
    *,
    kernel: Kernel,
    noise: Noise | None = None,
    prune: float = 0.0,
    **parameters: Any,
) -> LocalPosterior:
    """Make the posteriors around farthest-point centroids, or given ones; of no rows, each new row is its own."""
    centroids = cover(rows, kernel, 1.0) if centroids is None else centroids
    made = None
    if features is not None:
        made = fitted_map(features, kernel, rows, centroids, np.random.default_rng(0))
    noise = Noise(NOISE, approximation) if noise is None else noise
    return LocalPosterior(kernel, rows, noise, centroids, features=made, prune=prune, **parameters)


ARGUMENTS = ["plain", "weights", "noises", "both"]


def rows_and_noises(X: np.ndarray, y: np.ndarray, arguments: str) -> tuple[Rows, np.ndarray]:
    """Rows with positive weights and noise variances of their own, or not, and the noise that they amount to."""
    counts, noises = counts_and_noises(len(y))
    weights = counts + 1.0 if arguments in ("weights", "both") else None
    own = noises if arguments in ("noises", "both") else None
    return centred(X, y, weights, own), (NOISE if own is None else own) / (
        np.ones(len(y)) if weights is None else weights
    )


# The contract of the regressors: each with its parameters given, so that nothing is learned.
GIVEN = {"kernel": GaussianKernel(1.2, 1.5), "noise_variance": 0.1}
REGRESSORS: dict[str, GaussianProcess] = {
    "exact": ExactGPRegressor(**GIVEN),
    "featurized": FeaturizedGPRegressor(**GIVEN, random_state=0),
    "featurized_taylor": FeaturizedGPRegressor(TaylorFeatures(40), **GIVEN),
    "featurized_maclaurin": FeaturizedGPRegressor(OptimizedMaclaurinFeatures(40), **GIVEN, random_state=0),
    "featurized_nystroem": FeaturizedGPRegressor(NystroemFeatures(20), **GIVEN, random_state=0),
    "featurized_sklearn_nystroem": FeaturizedGPRegressor(Nystroem(gamma=0.3, n_components=20), **GIVEN, random_state=0),
    "localized": LocalizedGPRegressor(threshold=4.0, **GIVEN, random_state=0),
    "localized_taylor": LocalizedGPRegressor(TaylorFeatures(40), **GIVEN),
    "localized_maclaurin": LocalizedGPRegressor(OptimizedMaclaurinFeatures(40), **GIVEN, random_state=0),
    "localized_nystroem": LocalizedGPRegressor(NystroemFeatures(20), **GIVEN, random_state=0),
    "localized_dual": LocalizedGPRegressor(TaylorFeatures(40), solver="dual", **GIVEN),
    "localized_test_rows": LocalizedGPRegressor(TaylorFeatures(40), centroids="test_rows", **GIVEN),
    "nearest_rows": NearestNeighborsGPRegressor(20, **GIVEN),
    "spectral": SpectralGPRegressor(**GIVEN),
    "residual_nystroem": ResidualGPRegressor(NystroemFeatures(20), 20, block_size=16, **GIVEN, random_state=0),
    "residual_taylor": ResidualGPRegressor(TaylorFeatures(20), 20, block_size=16, **GIVEN),
}
# Those whose map is drawn from the rows themselves: repeated rows make another map.
OF_ROWS = [name for name in REGRESSORS if "maclaurin" in name or "nystroem" in name]
CLASSES = [
    ExactGPRegressor,
    FeaturizedGPRegressor,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    ResidualGPRegressor,
    SpectralGPRegressor,
]

every_regressor = pytest.mark.parametrize("name", REGRESSORS)
every_class = pytest.mark.parametrize("regressor", CLASSES)


def make(name: str, **parameters: Any) -> Any:
    """Make a regressor of the contract, with other parameters where they are given."""
    return clone(REGRESSORS[name]).set_params(**parameters)


def near(name: str, rtol: float, atol: float = 0.0) -> dict[str, float]:
    """Say how near predictions of equal models are: to rounding, or to the tolerance of a model that has one."""
    return {"rtol": max(rtol, 1e-3), "atol": max(atol, 1e-3)} if name == "spectral" else {"rtol": rtol, "atol": atol}


def predictions(model: Any, T: Floats) -> Floats:
    """Predict means and standard deviations, shape (2, n)."""
    return np.array(model.predict(T, return_std=True))


def changed(values: Floats, value: float) -> Floats:
    """Change one number, of row 4 if the values are one a row."""
    values = values.copy()
    values.flat[4] = value
    return values


def universal_kriging(
    covariance: Floats, cross: Floats, prior: Floats, y: Floats, noise: Floats, H: Floats, h: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Predict with a trend Hβ under a flat prior, by numpy's general solver: the textbook's formulas.

    Parameters are those of `dense_gp` with y as it is, and the columns of the trend of training and new rows, shape
    (n, p) and (m, p). Returns the mean and the latent variance of the new rows, β and its covariance.
    """
    solved = np.linalg.solve(covariance + np.diag(noise), np.column_stack((y, H, cross)))
    of_y, of_columns, of_cross = np.split(solved, [1, 1 + H.shape[1]], axis=1)
    spread = np.linalg.inv(H.T @ of_columns)
    beta = spread @ (H.T @ of_y[:, 0])
    r = h - cross.T @ of_columns
    variance = prior - np.sum(cross * of_cross, axis=0) + np.einsum("ij,jk,ik->i", r, spread, r)
    return r @ beta + cross.T @ of_y[:, 0], variance, beta, spread


def with_ones(X: Floats) -> Floats:
    """The columns of a linear trend: 1, and those of X."""
    return np.column_stack((np.ones(len(X)), X))
