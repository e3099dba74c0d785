"""The likelihood of several targets: the sum of those of each, and what is learned from it."""

import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from lmgp.data import Rows
from lmgp.kernels.base import Kernel
from lmgp.kernels.stationary import GaussianKernel, MaternKernel
from lmgp.learning.engine import Settings, learn_rows
from lmgp.learning.heldout import Validation
from lmgp.neighbours.duplicates import count_copies, merged_copies
from lmgp.posteriors.exact import ExactLikelihood, log_likelihood
from lmgp.posteriors.vecchia import VecchiaLikelihood

N, T = 40, 3
KERNEL = MaternKernel([0.7, 1.5], smoothness=1.5, variance=0.8)
FREE = np.append(KERNEL.theta, math.log(0.05))


def problem(n: int = N, weights: bool = False, noise: tuple[int, ...] | None = None) -> Rows:
    """Rows with T centred targets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 3.0, (n, 2))
    y = np.linalg.cholesky(KERNEL(X) + 0.05 * np.eye(n)) @ rng.standard_normal((n, T))
    own = None if noise is None else rng.uniform(0.02, 0.2, noise)
    return Rows(X, y - y.mean(axis=0), rng.uniform(0.5, 2.0, n) if weights else None, own)


def one(rows: Rows, j: int) -> Rows:
    """The rows with target j alone."""
    return Rows(rows.X, rows.Y[:, j], rows.weights, rows.noise_variances)


def dense(rows: Rows, kernel: Kernel, noise: float) -> float:
    """Σⱼ log N(yⱼ | 0, C) of rows of weight 1."""
    total = 0.0
    for j in range(rows.Y.shape[1]):
        own = one(rows, j)
        C = kernel(own.X) + np.diag(np.full(len(own), noise) if own.noise_variances is None else own.noise_variances)
        total -= 0.5 * (own.Y[:, 0] @ np.linalg.solve(C, own.Y[:, 0]) + np.linalg.slogdet(2.0 * np.pi * C)[1])
    return float(total)


CASES = pytest.mark.parametrize("noise", [None, (N,)], ids=["learned", "a_row"])


@CASES
def test_the_exact_likelihood_is_that_of_dense_algebra_summed_over_targets(noise: tuple[int, ...] | None) -> None:
    rows = problem(noise=noise)
    value, gradient = ExactLikelihood(rows)(KERNEL, FREE)
    assert value == pytest.approx(dense(rows, KERNEL, 0.05), rel=1e-12)
    assert log_likelihood(rows, KERNEL, 0.05) == pytest.approx(value, rel=1e-12)

    def of(free: np.ndarray) -> float:
        return dense(rows, KERNEL.with_theta(free[:-1]), math.exp(free[-1]))

    np.testing.assert_allclose(gradient, approx_fprime(FREE, of, 1e-6), rtol=1e-4, atol=1e-4)


@CASES
def test_with_weights_it_is_the_sum_of_those_of_each_target(noise: tuple[int, ...] | None) -> None:
    rows = problem(weights=True, noise=noise)
    value, gradient = ExactLikelihood(rows)(KERNEL, FREE)
    each = [ExactLikelihood(one(rows, j))(KERNEL, FREE) for j in range(T)]
    assert value == pytest.approx(sum(own for own, _ in each), rel=1e-12)
    np.testing.assert_allclose(gradient, sum(own for _, own in each), rtol=1e-9)
    assert log_likelihood(rows, KERNEL, 0.05) == pytest.approx(value, rel=1e-12)


@CASES
@pytest.mark.parametrize("weights", [False, True])
def test_the_vecchia_likelihood_is_the_sum_of_those_of_each_target(
    noise: tuple[int, ...] | None, weights: bool
) -> None:
    def of(rows: Rows) -> VecchiaLikelihood:
        likelihood = VecchiaLikelihood(rows, 30, 12, np.random.default_rng(1))
        likelihood.look_for_neighbours(KERNEL)
        return likelihood

    rows = problem(weights=weights, noise=noise)
    found, each = of(rows)(KERNEL, FREE), [of(one(rows, j))(KERNEL, FREE) for j in range(T)]
    np.testing.assert_allclose(found[0], sum(value[0] for value in each), rtol=1e-10)
    np.testing.assert_allclose(of(rows).terms(KERNEL, FREE), found[0], rtol=1e-12)
    np.testing.assert_allclose(found[1], sum(value[1] for value in each), rtol=1e-9, atol=1e-9)


def test_the_information_is_that_of_each_target_on_average() -> None:
    def information(rows: Rows) -> np.ndarray:
        likelihood = VecchiaLikelihood(rows, 600, 12, np.random.default_rng(1))
        likelihood.look_for_neighbours(KERNEL)
        return likelihood(KERNEL, FREE)[2]

    rows = problem(600)
    exact = sum(information(one(rows, j)) for j in range(T))
    spread = np.sqrt(np.outer(exact.diagonal(), exact.diagonal()))
    assert np.max(np.abs(information(rows) - exact) / spread) < 0.1  # 600 positions: 1/√600 is 0.04


def test_squares_are_those_of_dense_algebra_where_all_rows_are_neighbours() -> None:
    rows = problem()
    likelihood = VecchiaLikelihood(rows, N, N - 1, np.random.default_rng(1))
    likelihood.look_for_neighbours(KERNEL)
    C = KERNEL(rows.X) + 0.05 * np.eye(N)
    expected = np.einsum("ij,ij->j", rows.Y, np.linalg.solve(C, rows.Y)) / N
    np.testing.assert_allclose(likelihood.squares(KERNEL, FREE), expected, rtol=1e-9)


@pytest.mark.slow
def test_what_is_learned_is_the_optimum_of_the_dense_sum() -> None:
    rows = problem()
    found = learn_rows(rows, Settings(kernel="gaussian", ard=False, standardize=False))

    def negative(free: np.ndarray) -> float:
        kernel = GaussianKernel(math.exp(free[0]), math.exp(free[1]))
        return -dense(rows, kernel, math.exp(free[2]))

    starts = [np.log([lengthscale, 1.0, 0.1]) for lengthscale in (0.3, 1.0, 3.0)]
    options = {"xatol": 1e-7, "fatol": 1e-9, "maxiter": 2000}
    best = min((minimize(negative, at, method="Nelder-Mead", options=options) for at in starts), key=lambda b: b.fun)
    # But for the weak priors, and what a step has to gain.
    assert -best.fun - 0.5 < found.log_marginal_likelihood <= -best.fun + 1e-5


@pytest.mark.parametrize("noise", [None, (N,)], ids=["learned", "a_row"])
def test_names_are_learned_from_all_targets(noise: tuple[int, ...] | None) -> None:
    rows = problem(noise=noise)
    learned = learn_rows(rows, Settings(kernel="matern32", ard=True))
    expected = dense(rows, learned.kernel, learned.noise_variance)
    assert learned.log_marginal_likelihood == pytest.approx(expected, rel=1e-9)
    alone = learn_rows(one(rows, 0), Settings(kernel="matern32", ard=True))
    # Not even the kernel of one target, by far, explains all of them as well.
    assert expected > dense(rows, alone.kernel, alone.noise_variance) + 0.1


@pytest.mark.parametrize("noise", [None, (300,)], ids=["learned", "a_row"])
def test_held_out_densities_are_those_of_each_target_summed(noise: tuple[int, ...] | None) -> None:
    rows = problem(300, noise=noise)

    def densities(of: Rows) -> np.ndarray:
        validation = Validation.of(of, np.ones(2), np.random.default_rng(0))
        return np.concatenate(validation.densities(KERNEL, 0.05))

    np.testing.assert_allclose(densities(rows), sum(densities(one(rows, j)) for j in range(T)), rtol=1e-9)


def test_a_copy_is_equal_in_all_targets() -> None:
    rows = Rows(np.array([[0.0], [0.0], [0.0]]), np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]]))
    merged = merged_copies(rows)
    assert count_copies(merged) == 1
    assert merged.weights is not None
    assert sorted(merged.weights) == [1.0, 2.0]
    assert merged.Y[merged.weights == 2.0].tolist() == [[1.0, 2.0]]
