"""A global map with local residuals: against dense algebra, and against the exact process where it is that."""

import numpy as np
import pytest

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LinearKernel,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OrthogonalFourierFeatures,
    ResidualGPRegressor,
    TaylorFeatures,
)
from lmgp.errors import InputError, MemoryLimitError
from lmgp.metrics import kl_divergence
from lmgp.neighbours.trees import blocks_of
from tests.conftest import counts_and_noises, draw

NOISE = 0.05
GIVEN = {"kernel": GaussianKernel([1.1, 0.8], 2.0), "noise_variance": NOISE, "random_state": 0}


def dense(model: ResidualGPRegressor, X, y, T) -> tuple[np.ndarray, np.ndarray]:
    """The formulas of the class, row by row, with numpy's general solver."""
    kernel, phi = model.kernel_, model.features_.transform
    center = model.features_.centre_of(X, None)
    mapped, own, y = phi(X - center), phi(T - center), y - y.mean()
    residual = kernel(X) - mapped @ mapped.T
    blocks = np.zeros_like(residual)
    for block in blocks_of(kernel.scale(X), model.block_size):
        blocks[np.ix_(block, block)] = residual[np.ix_(block, block)]
    within = np.linalg.inv(blocks + NOISE * np.eye(len(y)))
    covariance = np.linalg.inv(np.eye(mapped.shape[1]) + mapped.T @ within @ mapped)
    weights = covariance @ (mapped.T @ (within @ y))
    distances = np.linalg.norm(kernel.scale(T)[:, None] - kernel.scale(X)[None], axis=2)
    mean, variance = np.empty(len(T)), np.empty(len(T))
    for i, near in enumerate(np.argsort(distances, axis=1)[:, : model.n_neighbors]):
        section = kernel(T[i : i + 1], X[near])[0] - mapped[near] @ own[i]
        b = np.linalg.solve(residual[np.ix_(near, near)] + NOISE * np.eye(len(near)), section)
        psi = own[i] - mapped[near].T @ b
        mean[i] = psi @ weights + b @ y[near]
        variance[i] = psi @ covariance @ psi + kernel.variance - own[i] @ own[i] - b @ section
    return mean, variance


@pytest.mark.parametrize("features", [NystroemFeatures(15), TaylorFeatures(21)])
@pytest.mark.parametrize(("n_neighbors", "block_size"), [(1, 1), (12, 40), (30, 7)])
def test_is_what_dense_algebra_says(features, n_neighbors: int, block_size: int) -> None:
    X, y, T = draw(150)
    model = ResidualGPRegressor(features, n_neighbors, block_size=block_size, **GIVEN).fit(X, y)
    mean, variance = dense(model, X, y, T)
    found = model.predict(T, return_std=True)
    np.testing.assert_allclose(found[0], mean + y.mean(), atol=1e-7)
    np.testing.assert_allclose(found[1] ** 2, variance, atol=1e-7)
    np.testing.assert_allclose(model.predict(T), found[0], rtol=1e-12)


@pytest.mark.parametrize("trend", ["constant", "linear"])
@pytest.mark.parametrize("arguments", [(), ("sample_weight",), ("noise_variances",)])
def test_with_one_block_and_all_neighbours_it_is_the_exact_process(trend: str, arguments: tuple[str, ...]) -> None:
    X, y, T = draw(120)
    counts, noises = counts_and_noises(len(y))
    given = {name: {"sample_weight": counts + 1.0, "noise_variances": noises}[name] for name in arguments}
    model = ResidualGPRegressor(NystroemFeatures(10), 120, block_size=120, trend=trend, **GIVEN).fit(X, y, **given)
    exact = ExactGPRegressor(trend=trend, **GIVEN).fit(X, y, **given)
    np.testing.assert_allclose(model.predict(T, return_std=True), exact.predict(T, return_std=True), atol=1e-6)


@pytest.mark.parametrize("kernel", [GaussianKernel(2.0), MaternKernel(3.0), GaussianKernel(3.0) + MaternKernel(1.0)])
def test_it_is_nearer_to_the_exact_process_than_either_part(kernel) -> None:
    rng = np.random.default_rng(0)
    X, T = rng.uniform(-2, 2, (800, 5)), rng.uniform(-2, 2, (100, 5))
    y = np.sin(X).sum(axis=1) + NOISE**0.5 * rng.normal(size=800)
    given = {"kernel": kernel, "noise_variance": NOISE, "random_state": 0}
    expected = ExactGPRegressor(**given).fit(X, y).predict(T, return_std=True, include_noise=True)

    def divergence(model) -> float:
        mean, std = model.fit(X, y).predict(T, return_std=True, include_noise=True)
        return float(kl_divergence(mean, std**2, expected[0], expected[1] ** 2).mean())

    both = divergence(ResidualGPRegressor(NystroemFeatures(100), 32, **given))
    assert both < 0.7 * divergence(NearestNeighborsGPRegressor(32, **given))
    assert both < 0.7 * divergence(FeaturizedGPRegressor(NystroemFeatures(100), **given))


@pytest.mark.parametrize("noise", [1e-6, 1e-2, 10.0])
def test_variances_lie_between_zero_and_the_prior(noise: float) -> None:
    X, y, T = draw(200)
    T = np.vstack((T, X[:20], [[1e3, -1e3]]))
    model = ResidualGPRegressor(NystroemFeatures(30), 16, kernel=GaussianKernel(1.0, 2.0), noise_variance=noise)
    std = model.set_params(random_state=0).fit(X, y).predict(T, return_std=True)[1]
    assert np.all((std >= 0.0) & (std**2 <= 2.0 * (1 + 1e-12)))
    assert std[-1] ** 2 == pytest.approx(2.0)


def test_blocks_part_the_rows_into_near_ones() -> None:
    X = np.random.default_rng(0).uniform(size=(1000, 3))
    blocks = blocks_of(X, 64)
    np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(1000))
    assert max(map(len, blocks)) <= 64
    assert np.mean([np.ptp(X[block], axis=0).max() for block in blocks]) < 0.6
    assert len(blocks_of(np.zeros((10, 2)), 3)) >= 4  # rows that are all equal can be parted, too


class TestRefused:
    def test_a_map_that_leaves_no_covariance(self) -> None:
        X, y, _ = draw(50)
        with pytest.raises(InputError, match=r"OrthogonalFourierFeatures leaves out .* Use NystroemFeatures"):
            ResidualGPRegressor(OrthogonalFourierFeatures(16), **GIVEN).fit(X, y)

    def test_a_kernel_without_a_metric(self) -> None:
        X, y, _ = draw(50)
        with pytest.raises(InputError, match=r"needs a lengthscale.*LinearKernel"):
            ResidualGPRegressor(kernel=LinearKernel(), noise_variance=NOISE).fit(X, y)

    def test_more_memory_than_allowed(self) -> None:
        X, y, _ = draw(150)
        with pytest.raises(
            MemoryLimitError, match=r"The 20 features of 150 rows, and the covariances within their blocks, take"
        ):
            ResidualGPRegressor(NystroemFeatures(20), max_memory_gib=2e-5, **GIVEN).fit(X, y)

    def test_an_estimate_of_the_error(self) -> None:
        X, y, T = draw(50)
        with pytest.raises(InputError, match="Compare with ExactGPRegressor"):
            ResidualGPRegressor(NystroemFeatures(10), **GIVEN).fit(X, y).predict(T, return_error=True)
