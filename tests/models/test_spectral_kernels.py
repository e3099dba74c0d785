"""Where Fourier modes are hard to choose: slow kernels, and rows far from the training rows."""

import numpy as np
import pytest

from lmgp import GaussianKernel, RationalQuadraticKernel, SpectralGPRegressor
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
    with pytest.raises(InputError, match="infinite at frequency 0"):
        model.fit(X, X[:, 0])


def test_draws_spread_as_predicted_up_to_the_reach_and_are_refused_beyond() -> None:
    X, y, _ = draw(n=120, outside=False)
    model = SpectralGPRegressor(1e-2, kernel=GaussianKernel(1.0), noise_variance=0.1).fit(X, y)
    T = X.max(axis=0) + np.array([[0.0, 0.0], [1.0, 0.0], [3.0, 3.0], [4.0, 4.0]])
    spread = model.sample_y(T, 600).std(axis=1)
    np.testing.assert_allclose(spread, model.predict(T, return_std=True)[1], rtol=0.15)
    with pytest.raises(InputError, match="1 of 5 rows lie farther"):
        model.sample_y(np.vstack((T, T[:1] + 30.0)))
