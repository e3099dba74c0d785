"""Rational quadratic kernels on Fourier modes: their densities peak at 0, and reach far."""

import numpy as np
import pytest

from lmgp import RationalQuadraticKernel, SpectralGPRegressor
from lmgp.errors import InputError
from tests.conftest import dense_gp, distances, draw


@pytest.mark.parametrize("alpha", [2.0, 5.0])
def test_of_a_rational_quadratic_kernel_it_is_the_dense_one(alpha: float) -> None:
    X, y, T = draw(n=120, outside=False)

    def covariance(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return (1.0 + distances(A, B, 2.0) ** 2 / (2.0 * alpha)) ** -alpha

    model = SpectralGPRegressor(1e-3, kernel=RationalQuadraticKernel(2.0, alpha=alpha), noise_variance=0.1).fit(X, y)
    expected, *_ = dense_gp(covariance(X, X), covariance(X, T), np.ones(len(T)), y, np.full(len(y), 0.1))
    # Both parts of the error within the tolerance, root mean square, and no row beyond ten times that.
    assert np.abs(model.predict(T) - expected).max() < 10 * 2e-3 * np.sqrt(0.1)


@pytest.mark.parametrize(("d", "alpha"), [(1, 0.5), (2, 1.0), (2, 0.7)])
def test_a_density_that_is_infinite_at_zero_is_refused(d: int, alpha: float) -> None:
    X = np.random.default_rng(0).uniform(0.0, 10.0, (50, d))
    model = SpectralGPRegressor(1e-1, kernel=RationalQuadraticKernel(3.0, alpha=alpha), noise_variance=0.1)
    with pytest.raises(InputError, match="infinite at 0"):
        model.fit(X, X[:, 0])
