"""Derivatives of weighted sums of a kernel matrix, against finite differences, alone and in batches."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lmgp import (
    ExponentialKernel,
    GaussianKernel,
    LinearKernel,
    MaternKernel,
    ModulatedKernel,
    PeriodicKernel,
    RationalQuadraticKernel,
    learn,
)
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel

Floats = NDArray[np.float64]

SCALES = [0.7, 2.0, 1.1]


def _first(X: Floats) -> Floats:
    return 1.0 + X[:, 0] ** 2


KERNELS: dict[str, Kernel] = {
    "gaussian": GaussianKernel(SCALES, 1.7),
    "gaussian_isotropic": GaussianKernel(0.8, 1.7),
    "matern12": MaternKernel(SCALES, 1.3, smoothness=0.5),
    "matern12_isotropic": MaternKernel(0.9, 1.3, smoothness=0.5),
    "matern32": MaternKernel(SCALES, 1.3),
    "matern52": MaternKernel(SCALES, 0.4, smoothness=2.5),
    "rational_quadratic": RationalQuadraticKernel(SCALES, 1.2, alpha=0.8),
    "sum": GaussianKernel(SCALES, 0.5) + MaternKernel([1.5, 0.6, 0.9], 0.8, smoothness=0.5),
    "product": GaussianKernel(SCALES, 0.5) * RationalQuadraticKernel(1.5, 0.8),
    "scaled": 2.5 * MaternKernel(SCALES, 0.7),
    "nested": 0.5 * (GaussianKernel(0.8) * MaternKernel(2.0) + RationalQuadraticKernel(SCALES)),
    "periodic": PeriodicKernel([2.5, 1.8, 4.0], SCALES, 1.2),
    "periodic_isotropic": PeriodicKernel(2.5, 1.3, 0.7),
    "locally_periodic": MaternKernel(SCALES, 1.3) * PeriodicKernel(2.0, 0.9, variance_bounds="fixed"),
    "columns": GaussianKernel([0.8, 1.2], 0.5).on([2, 0]) + MaternKernel(0.7).on(1),
    "columns_of_a_product": (MaternKernel(0.9).on([0, 2]) * PeriodicKernel(2.5, period_bounds="fixed").on(1)),
    "linear": 0.4 * LinearKernel(),
    "linear_ard": LinearKernel(variance=[0.5, 2.0, 1.2], center=[0.1, 0.0, -0.4]),
    "linear_matrix": LinearKernel([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]], [0.5, 2.0, 1.2]),
    "gaussian_plus_linear": GaussianKernel(SCALES, 0.5) + LinearKernel(),
    "exponential": ExponentialKernel(0.1 * LinearKernel()),
    "modulated": ModulatedKernel(MaternKernel(SCALES, 0.7), _first),
    "partly_fixed": GaussianKernel(SCALES, lengthscale_bounds="fixed") + MaternKernel(2.0, variance_bounds="fixed"),
}

every_kernel = pytest.mark.parametrize("name", KERNELS)


def rows(kind: str, seed: int = 0) -> Floats:
    """Nine rows: apart, with equal ones, or with copies that differ in the ninth digit; near the origin or far."""
    X = np.random.default_rng(seed).normal(size=(9, 3))
    if kind == "equal":
        X[5:] = X[:4]
    elif kind == "near_copies":
        X[5:] = X[:4] + 1e-9
    return X


def symmetric(seed: int = 1) -> Floats:
    G = np.random.default_rng(seed).normal(size=(9, 9))
    return G + G.T


def differences(kernel: Kernel, X: Floats, weights: Floats) -> Floats:
    """The derivatives of Σ G ∘ k(X, X) by theta, by central differences."""
    step = 1e-5
    values = [
        [float((weights * kernel.with_theta(kernel.theta + sign * step * unit)(X)).sum()) for sign in (1.0, -1.0)]
        for unit in np.eye(len(kernel.theta))
    ]
    return np.array([(high - low) / (2.0 * step) for high, low in values])


@every_kernel
@pytest.mark.parametrize("kind", ["apart", "equal", "near_copies"])
class TestWithPullback:
    def test_is_that_of_finite_differences(self, name: str, kind: str) -> None:
        kernel, X = KERNELS[name], rows(kind)
        covariance, gradient = kernel.with_pullback(torch.from_numpy(X), torch.from_numpy(kernel.theta))
        np.testing.assert_allclose(covariance.numpy(), kernel(X), rtol=1e-12, atol=1e-14)
        for seed in (1, 2):  # several weights for one matrix
            weights = symmetric(seed)
            expected = differences(kernel, X, weights)
            np.testing.assert_allclose(
                gradient.of_matrix(torch.from_numpy(weights)).numpy(), expected, rtol=1e-6, atol=1e-7
            )

    @pytest.mark.slow
    def test_in_batches_each_set_has_its_own(self, name: str, kind: str) -> None:
        kernel = KERNELS[name]
        if name == "modulated":
            return  # its function takes one matrix of rows
        sets = [rows(kind, seed) for seed in range(4)]
        weights = [symmetric(seed) for seed in range(4)]
        thetas = [kernel.theta + 0.1 * seed for seed in range(4)]
        covariance, gradient = kernel.with_pullback(
            torch.from_numpy(np.array(sets)), torch.from_numpy(np.array(thetas))
        )
        found = gradient.of_matrix(torch.from_numpy(np.array(weights))).numpy()
        assert found.shape == (4, len(kernel.theta))
        for i, (X, G, theta) in enumerate(zip(sets, weights, thetas, strict=True)):
            own = kernel.with_theta(theta)
            np.testing.assert_allclose(covariance[i].numpy(), own(X), rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(found[i], differences(own, X, G), rtol=1e-6, atol=1e-7)


@every_kernel
@pytest.mark.parametrize("kind", ["apart", "equal", "near_copies"])
class TestProducts:
    def test_are_those_of_the_matrix_of_products(self, name: str, kind: str) -> None:
        kernel, X, rng = KERNELS[name], torch.from_numpy(rows(kind)), np.random.default_rng(2)
        u, V = torch.from_numpy(rng.normal(size=9)), torch.from_numpy(rng.normal(size=(3, 9)))
        _, gradient = kernel.with_pullback(X, torch.from_numpy(kernel.theta))
        found = gradient.of_products(u, V)
        assert found.shape == (3, len(kernel.theta))
        for v, slopes in zip(V, found, strict=True):
            product = u[:, None] * v
            expected = differences(kernel, X.numpy(), (0.5 * (product + product.T)).numpy())
            np.testing.assert_allclose(slopes.numpy(), expected, rtol=1e-6, atol=1e-7)

    @pytest.mark.slow
    def test_in_batches_each_set_has_its_own(self, name: str, kind: str) -> None:
        kernel, rng = KERNELS[name], np.random.default_rng(3)
        if name == "modulated":
            return  # its function takes one matrix of rows
        X = torch.from_numpy(np.array([rows(kind, seed) for seed in range(4)]))
        theta = torch.from_numpy(np.array([kernel.theta + 0.1 * seed for seed in range(4)]))
        u, V = torch.from_numpy(rng.normal(size=(4, 9))), torch.from_numpy(rng.normal(size=(2, 4, 9)))
        found = kernel.with_pullback(X, theta)[1].of_products(u, V)
        assert found.shape == (2, 4, len(kernel.theta))
        for i in range(4):
            alone = kernel.with_pullback(X[i], theta[i])[1].of_products(u[i], V[:, i])
            torch.testing.assert_close(found[:, i], alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["gaussian", "matern12", "sum", "rational_quadratic"])
def test_far_from_the_origin_it_keeps_its_digits(name: str) -> None:
    # As seconds since 1970: the differences of rows keep 9 digits, and so do the derivatives.
    kernel, X, weights = KERNELS[name], np.round(rows("apart") * 2**20) / 2**20, symmetric()
    near, far = (
        kernel.with_pullback(torch.from_numpy(X + shift), torch.from_numpy(kernel.theta))[1]
        .of_matrix(torch.from_numpy(weights))
        .numpy()
        for shift in (0.0, 2.0**30)
    )
    np.testing.assert_allclose(far, near, rtol=1e-6, atol=1e-6)


def test_vast_distances_in_lengthscales_have_no_gradient() -> None:
    X = torch.tensor([[0.0], [1e5]], dtype=torch.float64)
    for kernel in (MaternKernel(1e-2, smoothness=0.5), MaternKernel(1e-2), GaussianKernel(1e-2)):
        _, gradient = kernel.with_pullback(X, torch.from_numpy(kernel.theta))
        np.testing.assert_allclose(
            gradient.of_matrix(torch.ones(2, 2, dtype=torch.float64)).numpy(), [0.0, 2.0], atol=1e-12
        )


class Halved(GaussianKernel):
    """The Gaussian kernel of a lengthscale √2 times as long."""

    def correlation(self, squares: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return torch.exp(-0.25 * squares)


def test_a_subclass_with_another_correlation_is_learned_by_it() -> None:
    X = np.random.default_rng(0).uniform(0.0, 10.0, (60, 1))
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=60)
    halved, gaussian = (
        learn(X, y, kernel=kernel(lengthscale_bounds=(1e-2, 1e2))) for kernel in (Halved, GaussianKernel)
    )
    assert isinstance(halved.kernel, Halved)
    assert np.sqrt(2.0) * halved.kernel.lengthscale == pytest.approx(gaussian.kernel.lengthscale, rel=1e-2)


def test_a_subclass_with_another_correlation_has_no_closed_form_of_its_parent() -> None:
    for capability in ("spectral_density", "frequencies", "gaussian_components"):
        assert GaussianKernel().can(capability)
        assert not Halved().can(capability)
    with pytest.raises(InputError, match="spectral density"):
        Halved().spectral_density([[1.0]])


class Warped(GaussianKernel):
    """The Gaussian kernel of logarithms."""

    def covariance(self, X: torch.Tensor, Z: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return super().covariance(torch.log(X), torch.log(Z), values)


def test_a_subclass_with_another_covariance_is_learned_by_it() -> None:
    X = np.exp(np.random.default_rng(0).uniform(-3.0, 3.0, (60, 1)))
    y = np.sin(3.0 * np.log(X[:, 0])) + 0.1 * np.random.default_rng(1).normal(size=60)
    warped = learn(X, y, kernel=Warped(lengthscale_bounds=(1e-2, 1e2))).kernel
    expected = learn(np.log(X), y, kernel=GaussianKernel(lengthscale_bounds=(1e-2, 1e2))).kernel
    assert warped.lengthscale == pytest.approx(expected.lengthscale, rel=1e-2)
    assert not any(warped.can(one) for one in ("spectral_density", "frequencies", "gaussian_components"))


@pytest.mark.parametrize("parent", [GaussianKernel, PeriodicKernel])
def test_a_subclass_with_another_covariance_has_the_variances_of_its_own(parent: type[Kernel]) -> None:
    class Growing(parent):
        def covariance(self, X: torch.Tensor, Z: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
            return (1.0 + X) * super().covariance(X, Z, values) * (1.0 + Z.mT)

    z = [[2.5], [20.0]]
    np.testing.assert_allclose(Growing(1.0).diagonal(z), [3.5**2, 21.0**2])
    np.testing.assert_allclose(Growing(1.0).diagonal(z), np.diag(Growing(1.0)(z)))
