"""The Cholesky factorisation that says what it added, and triangular solves."""

import math
import re
import warnings

import numpy as np
import pytest
import torch

from lmgp.errors import LmgpError, NumericalError, NumericalWarning
from lmgp.utils import linalg
from lmgp.utils.linalg import cholesky, solve_lower


def positive_definite(n: int, seed: int = 0) -> np.ndarray:
    root = np.random.default_rng(seed).normal(size=(n, n))
    return root @ root.T + n * np.eye(n)


def almost_singular(n: int, negative: float, seed: int = 0) -> np.ndarray:
    """A symmetric matrix of mean diagonal 1, with one eigenvalue of −`negative` and all others positive."""
    orthogonal, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))
    eigenvalues = np.full(n, (n + negative) / (n - 1))
    eigenvalues[0] = -negative
    matrix = (orthogonal * eigenvalues) @ orthogonal.T
    return (matrix + matrix.T) / 2


@pytest.mark.parametrize("n", [1, 2, 17])
def test_factor_is_lower_triangular_and_reproduces_the_matrix(n: int) -> None:
    matrix = positive_definite(n)
    factor = cholesky(torch.from_numpy(matrix)).numpy()
    np.testing.assert_array_equal(factor, np.tril(factor))
    assert np.all(np.diagonal(factor) > 0)
    np.testing.assert_allclose(factor @ factor.T, matrix, rtol=1e-13, atol=1e-13 * n)


@pytest.mark.parametrize("n", [9, 12, 14])
def test_blocks_are_factorised_as_the_whole_is(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = torch.from_numpy(positive_definite(n))
    expected = cholesky(matrix)
    monkeypatch.setattr(linalg, "BLOCK", 2)
    disturbed = matrix.tril() + torch.full_like(matrix, math.nan).triu(1)
    factor = cholesky(disturbed)
    torch.testing.assert_close(factor, expected, rtol=1e-13, atol=1e-13)
    assert torch.equal(factor, factor.tril())
    assert torch.equal(disturbed.tril(), matrix.tril())  # it is not changed


def test_blocks_say_that_there_is_no_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linalg, "BLOCK", 2)
    with pytest.raises(NumericalError, match="not positive definite"):
        cholesky(torch.from_numpy(almost_singular(14, 0.5)))
    with pytest.warns(NumericalWarning):
        cholesky(torch.from_numpy(almost_singular(14, 1e-9)))


def test_a_positive_definite_matrix_is_factorised_without_a_warning_and_without_a_correction() -> None:
    # Conditioned as badly as float64 allows, but positive definite: nothing may be added.
    matrix = np.diag(10.0 ** -np.arange(0, 15))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        factor = cholesky(torch.from_numpy(matrix)).numpy()
    np.testing.assert_allclose(np.diagonal(factor), 10.0 ** (-np.arange(0, 15) / 2), rtol=1e-14)


@pytest.mark.parametrize("disturbance", [np.nan, np.inf, 1e300, -7.0])
def test_only_the_lower_triangle_is_read(disturbance: float) -> None:
    matrix = positive_definite(6)
    disturbed = matrix.copy()
    disturbed[np.triu_indices(6, k=1)] = disturbance
    np.testing.assert_array_equal(cholesky(torch.from_numpy(disturbed)), cholesky(torch.from_numpy(matrix)))


def test_only_the_lower_triangle_is_read_where_a_correction_is_needed() -> None:
    matrix = almost_singular(6, 1e-9)
    disturbed = matrix.copy()
    disturbed[np.triu_indices(6, k=1)] = np.nan
    with pytest.warns(NumericalWarning):
        factor = cholesky(torch.from_numpy(disturbed))
    with pytest.warns(NumericalWarning):
        expected = cholesky(torch.from_numpy(matrix))
    np.testing.assert_array_equal(factor, expected)


@pytest.mark.parametrize("make", [lambda: positive_definite(5), lambda: almost_singular(5, 1e-8)])
@pytest.mark.filterwarnings("ignore::lmgp.errors.NumericalWarning")
def test_the_matrix_is_not_changed(make) -> None:
    matrix = torch.from_numpy(make())
    before = matrix.clone()
    cholesky(matrix)
    assert torch.equal(matrix, before)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e8])
@pytest.mark.parametrize(("negative", "exponent"), [(3e-13, -12), (3e-11, -10), (3e-9, -8), (3e-7, -6)])
def test_the_smallest_sufficient_jitter_is_added_and_its_amount_is_said(
    negative: float, exponent: int, scale: float
) -> None:
    # An eigenvalue of −3e-9 takes the first power of ten above it.
    matrix = scale * almost_singular(8, negative)
    with pytest.warns(NumericalWarning) as record:
        factor = cholesky(torch.from_numpy(matrix)).numpy()
    assert len(record) == 1
    added = np.diagonal(factor @ factor.T - matrix)
    expected = scale * 10.0**exponent
    np.testing.assert_allclose(added, expected, rtol=1e-4, atol=1e-14 * scale)
    message = str(record[0].message)
    (amount,) = re.findall(r"(\S+) was added to its diagonal", message)
    assert math.isclose(float(amount), expected, rel_tol=0.06)  # two digits are printed
    assert f"1e{exponent} of its mean" in message
    assert "noise variance" in message


@pytest.mark.parametrize(
    "matrix",
    [np.diag([1.0, -1.0]), -np.eye(3), almost_singular(6, 1e-4), np.array([[1.0, 2.0], [2.0, 1.0]]), np.zeros((3, 3))],
)
def test_an_indefinite_matrix_is_an_error_that_says_what_to_do(matrix: np.ndarray) -> None:
    with pytest.raises(NumericalError, match=r"not positive definite.*noise variance.*increase") as caught:
        cholesky(torch.from_numpy(matrix))
    assert isinstance(caught.value, LmgpError)
    assert isinstance(caught.value, ArithmeticError)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_matrix_that_is_not_finite_on_its_diagonal_is_an_error(value: float) -> None:
    matrix = positive_definite(4)
    matrix[2, 2] = value
    with pytest.raises(NumericalError, match="not finite"):
        cholesky(torch.from_numpy(matrix))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_off_its_diagonal_is_an_error(value: float) -> None:
    matrix = positive_definite(4)
    matrix[3, 1] = value
    with pytest.raises(NumericalError):
        cholesky(torch.from_numpy(matrix))


def test_solve_lower() -> None:
    factor = np.tril(np.random.default_rng(1).normal(size=(7, 7))) + 5 * np.eye(7)
    right = np.random.default_rng(2).normal(size=(7, 3))
    solution = solve_lower(torch.from_numpy(factor), torch.from_numpy(right)).numpy()
    assert solution.shape == (7, 3)
    np.testing.assert_allclose(solution, np.linalg.solve(factor, right), rtol=1e-12, atol=1e-14)


def test_solve_lower_reads_only_the_lower_triangle() -> None:
    factor = np.tril(np.random.default_rng(1).normal(size=(5, 5))) + 5 * np.eye(5)
    right = torch.from_numpy(np.random.default_rng(2).normal(size=(5, 2)))
    disturbed = factor.copy()
    disturbed[np.triu_indices(5, k=1)] = 1e10
    assert torch.equal(solve_lower(torch.from_numpy(disturbed), right), solve_lower(torch.from_numpy(factor), right))
