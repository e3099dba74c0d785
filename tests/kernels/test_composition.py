"""Kernels made from kernels: values, positive semi-definiteness, diagonals, parameters, and what is refused."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

from lmgp import (
    ExponentialKernel,
    GaussianKernel,
    LinearKernel,
    ModulatedKernel,
    ProductKernel,
    ScaledKernel,
    SumKernel,
)
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel

Floats = NDArray[np.float64]

rng = np.random.default_rng(0)
X = 0.7 * rng.standard_normal((9, 3))
Z = 0.7 * rng.standard_normal((5, 3))
A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.7]])
SINGULAR = np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])


def decay(rows: Floats) -> Floats:
    return np.exp(-0.5 * np.square(rows).sum(axis=1))


def direct(x: Floats, z: Floats) -> dict[str, float]:
    """Each kernel of KERNELS at one pair of rows, by its formula."""
    linear, weighted = float(x @ z), float(x @ A @ z)
    gaussian = 1.5 * float(np.exp(-0.5 * np.sum((x - z) ** 2) / 0.8**2))
    f = float(np.exp(-0.5 * x @ x) * np.exp(-0.5 * z @ z))
    return {
        "linear": linear,
        "weighted": weighted,
        "singular": float(x @ SINGULAR @ z),
        "sum": linear + gaussian,
        "product": weighted * gaussian,
        "scaled": 2.5 * gaussian,
        "zero": 0.0,
        "modulated": f * weighted,
        "exponential": float(np.exp(weighted)),
        "nested": 0.5 * (linear + f * gaussian) * (weighted + linear * linear),
    }


GAUSSIAN = GaussianKernel(0.8, 1.5)
KERNELS: dict[str, Kernel] = {
    "linear": LinearKernel(),
    "weighted": LinearKernel(A),
    "singular": LinearKernel(SINGULAR),
    "sum": LinearKernel() + GAUSSIAN,
    "product": LinearKernel(A) * GAUSSIAN,
    "scaled": 2.5 * GAUSSIAN,
    "zero": GAUSSIAN * 0,
    "modulated": ModulatedKernel(LinearKernel(A), decay),
    "exponential": ExponentialKernel(LinearKernel(A)),
    "nested": 0.5
    * (LinearKernel() + ModulatedKernel(GAUSSIAN, decay))
    * (LinearKernel(A) + LinearKernel() * LinearKernel()),
}
EVERY = pytest.mark.parametrize("name", KERNELS)


@EVERY
def test_values_are_those_of_the_formula(name: str) -> None:
    kernel = KERNELS[name]
    expected = [[direct(x, z)[name] for z in Z] for x in X]
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(kernel(X), [[direct(x, z)[name] for z in X] for x in X], rtol=1e-13, atol=1e-14)
    assert kernel(X, Z).dtype == np.float64


@EVERY
def test_the_diagonal_is_that_of_the_matrix(name: str) -> None:
    kernel = KERNELS[name]
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(kernel(X)), rtol=1e-13, atol=1e-15)
    assert kernel.diagonal(X).shape == (9,)


@EVERY
def test_matrices_are_symmetric_and_positive_semi_definite(name: str) -> None:
    values = KERNELS[name](X)
    np.testing.assert_allclose(values, values.T, rtol=1e-13, atol=1e-15)
    eigenvalues = np.linalg.eigvalsh(values)
    assert eigenvalues[0] >= -1e-12 * max(eigenvalues[-1], 1e-300)


@EVERY
def test_sections_are_columns_of_the_matrix(name: str) -> None:
    section = KERNELS[name].sections(Z)
    np.testing.assert_allclose(section(X[2:3]), KERNELS[name](X, Z)[2:3], rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("lengthscale", [1.0, [0.5, 1.0, 2.0]], ids=str)
def test_the_gaussian_kernel_is_a_modulated_exponential(lengthscale: Any) -> None:
    precision = np.diag(1.0 / np.broadcast_to(lengthscale, 3) ** 2)

    def f(rows: Floats) -> Floats:
        return np.exp(-0.5 * np.einsum("ij,jk,ik->i", rows, precision, rows))

    composed = 2.0 * ModulatedKernel(ExponentialKernel(LinearKernel(precision)), f)
    np.testing.assert_allclose(composed(X, Z), GaussianKernel(lengthscale, 2.0)(X, Z), rtol=1e-13)


# ----------------------------------------------------------------------------------------------------------- parameters


def test_operators_make_what_they_say() -> None:
    first, second = GaussianKernel(2.0), LinearKernel()
    for made, cls in ((first + second, SumKernel), (first * second, ProductKernel)):
        assert isinstance(made, cls)
        assert (made.left, made.right) == (first, second)
    for factor in (3, 0.5, np.float64(2.0), np.int64(2)):
        for made in (factor * first, first * factor):
            assert isinstance(made, ScaledKernel)
            assert (made.kernel, made.factor) == (first, factor)


@pytest.mark.parametrize(
    "operation",
    [
        lambda k: k + 1.0,
        lambda k: 1.0 + k,
        lambda k: k * "2",
        lambda k: np.ones(3) * k,
        lambda k: k * np.ones(3),
        lambda k: k + np.add,
    ],
)
def test_operators_refuse_what_is_no_kernel(operation: Callable[[Kernel], Any]) -> None:
    with pytest.raises(TypeError, match=r"unsupported operand|can't multiply|does not support ufuncs"):
        operation(LinearKernel())


@EVERY
def test_kernels_clone_and_pickle(name: str) -> None:
    for copy in (clone(KERNELS[name]), pickle.loads(pickle.dumps(KERNELS[name]))):
        assert copy is not KERNELS[name]
        np.testing.assert_array_equal(copy(X, Z), KERNELS[name](X, Z))


def test_parameters_reach_nested_kernels() -> None:
    kernel = 2.0 * (GaussianKernel() + LinearKernel())
    changed = clone(kernel).set_params(factor=3.0, kernel__left__lengthscale=0.5)
    np.testing.assert_allclose(changed(X, Z), 3.0 * (GaussianKernel(0.5)(X, Z) + X @ Z.T), rtol=1e-14)
    assert kernel.get_params()["kernel__left__lengthscale"] == 1.0


# ---------------------------------------------------------------------------------------------------------------- input


def one_too_many(rows: Floats) -> Floats:
    return np.ones(len(rows) + 1)


def not_a_number(rows: Floats) -> Floats:
    return np.where(np.arange(len(rows)) == 2, np.nan, 1.0)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (LinearKernel([[1.0, 0.0], [0.0, 1.0]]), r"shape \(3, 3\) for these rows; got \(2, 2\)"),
        (LinearKernel(np.ones((3, 2))), r"shape \(3, 3\) for these rows; got \(3, 2\)"),
        (LinearKernel(np.triu(np.ones((3, 3)))), "matrix must be symmetric"),
        (LinearKernel(np.diag([1.0, -0.5, 1.0])), "positive semi-definite; got one with the eigenvalue -0.5"),
        (LinearKernel(np.full((3, 3), np.nan)), "matrix contains NaN"),
        (-1.0 * LinearKernel(), "factor must be a non-negative finite number; got -1.0"),
        (float("inf") * LinearKernel(), "non-negative finite number; got inf"),
        (float("nan") * LinearKernel(), "non-negative finite number; got nan"),
        (ScaledKernel(LinearKernel(), "2"), "non-negative finite number; got '2'"),
        (SumKernel(LinearKernel(), "rbf"), "part of a composed kernel must be a kernel .*; got 'rbf'"),
        (ProductKernel(LinearKernel, LinearKernel()), "part of a composed kernel must be a kernel"),
        (ExponentialKernel(None), "part of a composed kernel must be a kernel .*; got None"),
        (ModulatedKernel(LinearKernel(), one_too_many), r"shape \(9,\) for these rows; got shape \(10,\)"),
        (ModulatedKernel(LinearKernel(), not_a_number), "finite numbers; row 2 has another"),
        (ModulatedKernel(LinearKernel(), lambda rows: rows[:, 0] * 1j), "shape .* of complex128"),
        (ModulatedKernel(LinearKernel(), 2.0), "function must be callable"),
        (LinearKernel() + GaussianKernel(-1.0), "lengthscale must be positive"),
    ],
)
def test_what_cannot_be_used_is_refused(kernel: Kernel, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernel(X)
    with pytest.raises(ValueError, match=message):
        kernel.diagonal(X)


@EVERY
def test_rows_that_cannot_be_used_are_refused(name: str) -> None:
    for bad, message in ((X * np.nan, "NaN"), (X[0], "Expected 2D array"), ([["a"]], "could not convert")):
        with pytest.raises(ValueError, match=message):
            KERNELS[name](bad)


def test_rows_of_different_width_are_refused() -> None:
    with pytest.raises(InputError, match="same number of columns; got 3 and 2"):
        LinearKernel()(X, Z[:, :2])


def test_a_matrix_that_is_only_rounded_to_indefinite_is_taken() -> None:
    # Of rank one: its computed eigenvalues are zero only up to rounding, some of them negative.
    vector = np.random.default_rng(1).standard_normal((30, 1))
    gram = vector @ vector.T
    assert np.linalg.eigvalsh(gram)[0] < 0.0
    rows = np.eye(30)
    np.testing.assert_array_equal(LinearKernel(gram)(rows), gram)


def test_the_spectral_density_of_nothing_is_zero_at_each_frequency() -> None:
    assert ((0.0 * GAUSSIAN) * GAUSSIAN).spectral_density(X).tolist() == [0.0] * 9
