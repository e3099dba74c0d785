"""Kernels in other units of the columns."""

import numpy as np
import pytest

from lmgp import (
    ExponentialKernel,
    GaussianKernel,
    LinearKernel,
    MaternKernel,
    ModulatedKernel,
    PeriodicKernel,
    RationalQuadraticKernel,
)
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel

rng = np.random.default_rng(0)
SCALES = np.array([1e-3, 1.0, 2e5])
X, Z = SCALES * rng.normal(size=(7, 3)), SCALES * rng.normal(size=(5, 3))
LENGTHSCALES = [0.5, 1.0, 2.0]

KERNELS: dict[str, Kernel] = {
    "gaussian": GaussianKernel(0.8, 1.5),
    "gaussian_ard": GaussianKernel(LENGTHSCALES, 1.5),
    "matern12": MaternKernel(0.8, 1.5, smoothness=0.5),
    "matern32_ard": MaternKernel(LENGTHSCALES),
    "matern52": MaternKernel(2.0, smoothness=2.5),
    "rational_quadratic": RationalQuadraticKernel(1.3, 2.0, alpha=0.7),
    "sum": MaternKernel(0.8, smoothness=0.5) + GaussianKernel(LENGTHSCALES),
    "product": GaussianKernel(3.0) * MaternKernel(LENGTHSCALES),
    "multiple": 2.5 * GaussianKernel(1.0),
    "nested": 0.5 * (GaussianKernel(2.0) * MaternKernel(1.0) + RationalQuadraticKernel(LENGTHSCALES)),
    "periodic": PeriodicKernel(2.0, 0.8, 1.5),
    "periodic_ard": PeriodicKernel(LENGTHSCALES, LENGTHSCALES),
    "columns": MaternKernel(0.8).on([2, 0]) * PeriodicKernel(2.0).on(1),
    "linear": LinearKernel(),
    "linear_center": LinearKernel(variance=[1.0, 0.3, 2.0], center=0.7),
    "linear_matrix": LinearKernel([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]]),
    "exponential": ExponentialKernel(0.1 * LinearKernel()),
    "gaussian_plus_linear": GaussianKernel() + LinearKernel(),
}
every = pytest.mark.parametrize("name", KERNELS)


@every
def test_it_is_the_kernel_of_the_scaled_columns(name: str) -> None:
    kernel = KERNELS[name]
    before = repr(kernel)
    rescaled = kernel.rescaled(SCALES)
    np.testing.assert_allclose(rescaled(X, Z), kernel(X / SCALES, Z / SCALES), rtol=1e-12)
    assert type(rescaled) is type(kernel)
    assert repr(kernel) == before


@every
def test_there_and_back(name: str) -> None:
    back = KERNELS[name].rescaled(SCALES).rescaled(1.0 / SCALES)
    np.testing.assert_allclose(back(X / SCALES), KERNELS[name](X / SCALES), rtol=1e-12)


def test_one_lengthscale_stays_one_where_the_scales_are_equal() -> None:
    assert GaussianKernel(2.0).rescaled([3.0, 3.0]).lengthscale == 6.0
    np.testing.assert_array_equal(GaussianKernel(2.0).rescaled([3.0, 4.0]).lengthscale, [6.0, 8.0])
    np.testing.assert_array_equal(GaussianKernel([2.0, 2.0]).rescaled([3.0, 3.0]).lengthscale, [6.0, 6.0])


def test_bounds_grow_with_the_scales_and_fixed_stays_fixed() -> None:
    kernel = MaternKernel(2.0, 5.0, lengthscale_bounds=(0.1, 10.0), variance_bounds=(1.0, 9.0))
    same, differing = kernel.rescaled([3.0, 3.0]), kernel.rescaled([3.0, 400.0])
    np.testing.assert_allclose(np.exp(same.bounds), [(0.3, 30.0), (1.0, 9.0)])
    np.testing.assert_allclose(np.exp(differing.bounds), [(0.3, 4000.0)] * 2 + [(1.0, 9.0)])
    given = MaternKernel(2.0, lengthscale_bounds=np.array([0.1, 10.0]))  # an array is a pair, too
    np.testing.assert_allclose(np.exp([given.bounds[0], given.rescaled([3.0, 3.0]).bounds[0]]), [(0.1, 10), (0.3, 30)])
    fixed = GaussianKernel(2.0, lengthscale_bounds="fixed").rescaled([3.0, 400.0])
    assert [one.fixed for one in fixed.parameters] == [True, False]


def test_a_kernel_with_a_function_of_the_row_is_refused_by_name() -> None:
    modulated = ModulatedKernel(GaussianKernel(), lambda rows: np.ones(len(rows)))
    with pytest.raises(InputError, match="ModulatedKernel cannot be given in other units"):
        (GaussianKernel() + modulated).rescaled(SCALES)


@pytest.mark.parametrize("scales", [[1.0, 0.0], [1.0, -1.0], [np.nan, 1.0], [np.inf, 1.0], [], 2.0])
def test_scales_that_are_not_positive_are_refused(scales: object) -> None:
    with pytest.raises(InputError, match="scales must be positive and finite"):
        GaussianKernel().rescaled(scales)


def test_a_kernel_that_does_not_fit_the_columns_is_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(3,\) for these rows"):
        GaussianKernel([1.0, 2.0]).rescaled(SCALES)
