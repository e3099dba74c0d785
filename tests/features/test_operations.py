"""Operations that features take, the degree for a budget of them, and the bound of the error."""

from math import factorial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from lmgp import (
    GaussianKernel,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    TaylorFeatures,
)
from tests.features.conftest import sparse_rows

Floats = NDArray[np.float64]


@pytest.mark.parametrize("as_rows", [sp.csr_array, lambda X: X.toarray()])
def test_operations_of_taylor_features_are_the_features_that_are_not_zero(as_rows: Any) -> None:
    X = sparse_rows(40, 9, 0.4)
    fitted = TaylorFeatures(degree=3).fit(X)
    np.testing.assert_array_equal(fitted.operation_count(as_rows(X)), np.diff(fitted.transform(X).indptr))


def test_operations_of_an_energy_set_are_its_features_that_are_not_zero() -> None:
    X = sparse_rows(40, 5, 0.5).toarray() * [1.0, 0.5, 0.2, 0.1, 2.0]
    fitted = TaylorFeatures(50, index_set="energy").fit(X)
    np.testing.assert_array_equal(fitted.operation_count(X), np.count_nonzero(fitted.transform(X), axis=1))


@pytest.mark.parametrize("cls", [RandomFourierFeatures, OrthogonalFourierFeatures])
def test_operations_of_fourier_features_are_s_each(cls: Any) -> None:
    X = sparse_rows(40, 9, 0.4)
    fitted = cls(33, random_state=0).fit(X.toarray())
    expected = [32.0 * s for s in np.count_nonzero(X.toarray(), axis=1)]
    np.testing.assert_array_equal(fitted.operation_count(X), expected)
    np.testing.assert_array_equal(fitted.operation_count(X.toarray()), expected)


@pytest.mark.parametrize("budget", [1, 8, 100.5, 5000])
def test_the_degree_for_a_budget_is_the_highest_within_it(budget: float) -> None:
    X = sparse_rows(50, 20, 0.3)
    degree = TaylorFeatures.degree_for_budget(X, budget)
    assert degree == TaylorFeatures.degree_for_budget(X.toarray(), budget)
    assert TaylorFeatures(degree=degree).fit(X).operation_count(X).mean() <= budget
    assert TaylorFeatures(degree=degree + 1).fit(X).operation_count(X).mean() > budget


@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_the_error_is_within_its_bound(degree: int) -> None:
    X, Z = sparse_rows(40, 4, 0.7), sparse_rows(30, 4, 0.7, seed=1)
    kernel = GaussianKernel([1.0, 3.0, 2.0, 4.0], 2.0)
    fitted = TaylorFeatures(degree=degree, kernel=kernel).fit(X)
    error = np.abs(kernel(X.toarray(), Z.toarray()) - (fitted.transform(X) @ fitted.transform(Z).T).toarray())
    bound = fitted.error_bound(X, Z)
    assert bound.shape == (40, 30)
    assert np.all(error <= bound + 1e-14)
    norms = [np.sqrt(np.square(kernel.scale(rows_.toarray())).sum(axis=1)) for rows_ in (X, Z)]
    expected = 2.0 * np.outer(*norms) ** (degree + 1) / factorial(degree + 1)
    np.testing.assert_allclose(bound, expected, rtol=1e-12)
    np.testing.assert_allclose(fitted.error_bound(X), fitted.error_bound(X.toarray(), X), rtol=1e-12)
    assert fitted.error_bound(np.zeros((1, 4)), np.full((1, 4), 1e300)).item() == 0.0


def test_the_bound_is_tight_near_the_centre() -> None:
    X = 0.01 * np.ones((1, 1))
    fitted = TaylorFeatures(degree=1).fit(X)
    error = 1.0 - float(np.square(fitted.transform(X)).sum())
    assert error / fitted.error_bound(X).item() == pytest.approx(1.0, abs=1e-3)
