"""The coefficients of modes from the rows' side, for rough kernels and little noise: many modes matter there."""

import numpy as np

from lmgp.data import Complexes, Floats, Rows
from lmgp.posteriors.modes import N_NEIGHBORS, ModePlan
from lmgp.posteriors.toeplitz import Solution
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.linalg import conjugate_gradients

# Of the error that is small enough, the share to which the iterations go on: they do not see their own rounding.
SAFE = 0.5


def solve_over_rows(plan: ModePlan, rows: Rows, targets: Floats, enough: Floats) -> Solution:
    """Solve (ΦWΦᴴ + N) α = y for the weights of rows, and return W^{1/2}Φᴴα.

    N = σ²P⁻¹ are the noise variances. With B = P^{1/2}ΦW^{1/2} and the residual r of α, the coefficients leave Bᴴs of
    (BᴴB + σ²I) v = BᴴP^{1/2}y, s = P^{1/2}r: the squared energy norm of their error, sᵀB(BᴴB + σ²I)⁻¹Bᴴs, is at most
    ‖s‖². The preconditioner is Vecchia's approximation of the inverse of the covariance, in a random order of the rows.

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
    n, noise = len(rows), plan.noise_of(rows)
    given = Rows(rows.X, np.zeros((n, 1)), None, noise)
    vecchia = VecchiaLikelihood(given, n, N_NEIGHBORS, np.random.default_rng(0))
    vecchia.look_for_neighbours(plan.kernel)
    whitening = vecchia.whitening(plan.kernel, np.append(plan.kernel.theta, 0.0))
    assert whitening is not None  # see `ModeSolve`
    precisions, n_iterations = plan.noise.variance / noise, 0

    def to_modes(vectors: Tensor) -> Complexes:
        return plan.rows_to_modes(rows.X, vectors.numpy().T)

    def multiply(vectors: Tensor) -> Tensor:
        means = plan.modes_to_rows(rows.X, plan.weights * to_modes(vectors))
        return torch.from_numpy(means.T + noise[:, None] * vectors.numpy())

    def precondition(vectors: Tensor) -> Tensor:
        return torch.from_numpy(whitening.T @ (whitening @ vectors.numpy()))

    def error(residual: Tensor) -> Floats:
        squares: Floats = precisions @ np.square(residual.numpy())
        return squares

    def settled(number: int, _: Tensor, residual: Tensor) -> bool:
        nonlocal n_iterations
        n_iterations = number
        return bool(np.all(error(residual) <= SAFE * enough))

    right = torch.from_numpy(np.ascontiguousarray(targets.T))
    weights = conjugate_gradients(multiply, precondition, right, settled, plan.max_iterations)
    # Iterations update the residual: what is stated is that of the weights.
    return Solution(np.sqrt(plan.weights) * to_modes(weights), error(right - multiply(weights)), n_iterations)
