"""Roots of covariances that rounding, or worse, made indefinite."""

import numpy as np
import pytest

from lmgp.errors import InputError
from lmgp.posteriors.joint import root_of


def test_the_root_of_a_covariance_is_its_root() -> None:
    half = np.random.default_rng(0).normal(size=(6, 9))
    root = root_of(half @ half.T)
    np.testing.assert_allclose(root @ root.T, half @ half.T, rtol=1e-9)
    assert root_of(np.empty((0, 0))).shape == (0, 0)


def test_of_an_indefinite_matrix_the_nearest_covariance_is_taken() -> None:
    root = root_of(np.array([[1.0, 2.0], [2.0, 1.0]]))  # eigenvalues 3 and −1
    np.testing.assert_allclose(root @ root.T, np.full((2, 2), 1.5), rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    matrix = np.eye(3)
    matrix[1, 1] = bad
    with pytest.raises(InputError, match="The covariance to draw from is not finite"):
        root_of(matrix)
