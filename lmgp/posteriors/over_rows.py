"""The coefficients of modes from the rows' side, for rough kernels and little noise: many modes matter there."""

import numpy as np

from lmgp.data import Floats, Rows
from lmgp.neighbours.simplices import Simplices, side_for
from lmgp.posteriors.modes import N_NEIGHBORS, ModePlan, RowProducts
from lmgp.posteriors.toeplitz import Solution
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.linalg import conjugate_gradients

# Of the error that is small enough, the share to which the iterations go on: they do not see their own rounding.
SAFE = 0.5
# What the corners that stand for rows in the preconditioner leave out, see `side_for`: of more, iterations take longer,
# and of less the neighbours do not reach far enough.
LEFT_OUT = 0.15


def solve_over_rows(plan: ModePlan, rows: Rows, targets: Floats, enough: Floats) -> Solution:
    """Solve (ΦWΦᴴ + N) α = y for the weights of rows, and return W^{1/2}Φᴴα.

    N = σ²P⁻¹ are the noise variances. With B = P^{1/2}ΦW^{1/2} and the residual r of α, the coefficients leave Bᴴs of
    (BᴴB + σ²I) v = BᴴP^{1/2}y, s = P^{1/2}r: the squared energy norm of their error, sᵀB(BᴴB + σ²I)⁻¹Bᴴs, is at most
    ‖s‖².

    The preconditioner takes the rows of small cells as means of a few corners, f(rows) = A f(Z): with the precisions D
    of corners, AᵀN⁻¹A acts as D, and the inverse of AK(Z, Z)Aᵀ + N is N⁻¹ + B ((K(Z, Z) + D⁻¹)⁻¹ − D) Bᵀ with
    B = N⁻¹AD⁻¹. Vecchia's approximation, in a random order of the corners, stands for the inverse within. Corners are
    as many as the posterior has degrees of freedom, about, and their noise is as much smaller: so their near ones
    screen those behind, as many noisy rows would not.

    Parameters
    ----------
    plan : ModePlan
        Of a radial kernel.
    rows : Rows
    targets : ndarray of shape (b, n)
    enough : ndarray of shape (b,)
        See `lmgp.posteriors.toeplitz.conjugate_gradients`.

    Returns
    -------
    Solution

    References
    ----------
    F. Schäfer, M. Katzfuss and H. Owhadi, *Sparse Cholesky Factorization by Kullback–Leibler Minimization*, SIAM
    Journal on Scientific Computing 43, 2021.
    """
    noise = plan.noise_of(rows)
    corners = Simplices.of(plan.kernel, rows.X, 1.0 / noise, side_for(plan.kernel, rows.X, 1.0 / noise, LEFT_OUT))
    n_corners, precise = len(corners.X), corners.precisions[:, None]
    given = Rows(corners.X, np.zeros((n_corners, 1)), None, 1.0 / corners.precisions)
    vecchia = VecchiaLikelihood(given, n_corners, N_NEIGHBORS, np.random.default_rng(0))
    vecchia.look_for_neighbours(plan.kernel)
    whitening = vecchia.whitening(plan.kernel, np.append(plan.kernel.theta, 0.0))
    assert whitening is not None  # see `ModeSolve`
    precisions, n_iterations, n_before = plan.noise.variance / noise, 0, 0
    products = RowProducts(plan, rows.X)

    def multiply(vectors: Tensor) -> Tensor:
        return torch.from_numpy(products(vectors.numpy()) + noise[:, None] * vectors.numpy())

    def precondition(vectors: Tensor) -> Tensor:
        scaled = vectors.numpy() / noise[:, None]
        of_corners = (corners.shares.T @ scaled) / precise
        change = whitening.T @ (whitening @ of_corners) - precise * of_corners
        return torch.from_numpy(scaled + corners.shares @ (change / precise) / noise[:, None])

    def error(residual: Tensor) -> Floats:
        return precisions @ np.square(residual.numpy())

    def settled(number: int, _: Tensor, residual: Tensor) -> bool:
        nonlocal n_iterations
        n_iterations = n_before + number
        return bool(np.all(error(residual) <= SAFE * enough))

    right = torch.from_numpy(np.ascontiguousarray(targets.T))
    weights, residual, remaining = torch.zeros_like(right), right, np.full(len(enough), np.inf)
    while True:
        n_before, before = n_iterations, remaining
        left = plan.max_iterations - n_before
        weights = weights + conjugate_gradients(multiply, precondition, residual, settled, left)
        of_modes = plan.rows_to_modes(rows.X, weights.numpy().T)
        means = plan.modes_to_rows(rows.X, plan.weights * of_modes)
        residual = right - torch.from_numpy(means.T + noise[:, None] * weights.numpy())
        remaining = error(residual)
        # Where the products round too much for the residual, they are of a smaller one now.
        if np.all(remaining <= enough) or n_iterations >= plan.max_iterations or not np.all(remaining < 0.5 * before):
            return Solution(np.sqrt(plan.weights) * of_modes, remaining, n_iterations)
