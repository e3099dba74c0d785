"""The covariance of all rows, as a map sees it between blocks and as it is within them: its inverse times vectors."""

from collections.abc import Callable
from copy import copy
from typing import Self

from lmgp.data import Indices
from lmgp.kernels.base import Kernel
from lmgp.utils.lazy import Tensor, no_grad, torch
from lmgp.utils.linalg import cholesky, factorise, solve_lower, solve_upper
from lmgp.utils.parallel import parallel_map, single_threaded


class BlockCovariance:
    """C = ΦΦᵀ + B: the covariance of rows as a map sees it, and, within blocks, what the map leaves out, and the noise.

    With B = diag over blocks of K − ΦΦᵀ + Σ, C is the covariance of the partially independent conditional (PIC), and
    C⁻¹ = B⁻¹ − B⁻¹Φ A⁻¹ ΦᵀB⁻¹ with A = I + ΦᵀB⁻¹Φ.

    Parameters
    ----------
    kernel : Kernel
    X : Tensor of shape (n, d)
    mapped : Tensor of shape (n, D)
        Φ. It is kept, not copied.
    noise : Tensor of shape (n,)
    noise_variance : float
        Of most rows.
    blocks : list of ndarray of int
        Each row is in one block.

    Attributes
    ----------
    factor : Tensor of shape (D, D)
        The Cholesky factor of A.

    References
    ----------
    E. Snelson and Z. Ghahramani, *Local and Global Sparse Gaussian Process Approximations*, AISTATS 2007.
    """

    @no_grad
    def __init__(
        self,
        kernel: Kernel,
        X: Tensor,
        mapped: Tensor,
        noise: Tensor,
        noise_variance: float,
        blocks: list[Indices],
    ) -> None:
        self._mapped, size = mapped, mapped.shape[1]
        values = kernel.values(None, X.device)

        @no_grad
        def sums(some: list[Indices]) -> tuple[Tensor, list[Tensor]]:
            gram, factors = torch.zeros((size, size), dtype=torch.float64), []
            for block in some:
                rows, columns = X[block], mapped[block]
                left_out = kernel.evaluate_at(rows, rows, values).addmm_(columns, columns.T, alpha=-1.0)
                factors.append(factorise(left_out, noise[block]))
                whitened = solve_lower(factors[-1], columns)
                gram.addmm_(whitened.T, whitened)
            return gram, factors

        n_sums = max(1, min(len(blocks), torch.get_num_threads()))
        # In the order of the factors.
        self._blocks = [torch.from_numpy(block) for i in range(n_sums) for block in blocks[i::n_sums]]
        parts = parallel_map(sums, [blocks[i::n_sums] for i in range(n_sums)])
        self._factors = [factor for _, factors in parts for factor in factors]
        precision = sum((gram for gram, _ in parts[1:]), parts[0][0])
        precision.diagonal().add_(1.0)
        self.factor = cholesky(precision, noise_variance, diagonal_share=1.0)

    def weights(self, V: Tensor) -> Tensor:
        """Return ΦᵀC⁻¹V = A⁻¹ΦᵀB⁻¹V, shape (D, t): the weights of columns that the targets V give."""
        seen = self._mapped.T @ self._within_blocks(V)
        with single_threaded():  # for a few columns, threads would wait for each other longer than one takes
            return _solve(self.factor, seen)

    def solve(self, V: Tensor) -> Tensor:
        """Return C⁻¹V, for V of shape (n, t)."""
        return self._within_blocks(V - self._mapped @ self.weights(V))

    @property
    def log_determinant(self) -> float:
        """Log det C."""
        halves = [float(factor.diagonal().log().sum()) for factor in (self.factor, *self._factors)]
        return 2.0 * sum(halves)

    def of_rows(self, index: Indices, take: Callable[[Indices, Tensor, Tensor], None]) -> None:
        """Give a function, for each block, those of its rows that are wanted, their diagonal of C⁻¹, and their ΦᵀC⁻¹.

        Parameters
        ----------
        index : ndarray of int
            The rows that are wanted.
        take : callable
            Takes the wanted rows of a block, shape (m,), their diagonal, (m,), and columns of shape (D, m): of several
            blocks at a time.
        """
        wanted = torch.zeros(len(self._mapped), dtype=torch.bool)
        wanted[torch.from_numpy(index)] = True

        @no_grad
        def of_block(number: int) -> None:
            block, factor = self._blocks[number], self._factors[number]
            some = wanted[block]
            inverse = _solve(factor, torch.eye(len(block), dtype=torch.float64)[:, some])
            seen = self._mapped[block].T @ inverse
            pulls = _solve(self.factor, seen)
            take(block[some].numpy(), inverse[some].diagonal() - (seen * pulls).sum(dim=0), pulls)

        parallel_map(of_block, [number for number, block in enumerate(self._blocks) if wanted[block].any()])

    def _within_blocks(self, V: Tensor) -> Tensor:
        """Return B⁻¹V."""
        solved = torch.empty_like(V)

        @no_grad
        def solve(index: int) -> None:
            block = self._blocks[index]
            solved[block] = _solve(self._factors[index], V[block])

        parallel_map(solve, range(len(self._blocks)))
        return solved

    def to(self, device: "torch.device") -> Self:
        """Return this covariance with its matrices on a device."""
        moved = copy(self)
        moved._mapped, moved.factor = self._mapped.to(device), self.factor.to(device)
        moved._factors = [factor.to(device) for factor in self._factors]
        return moved


def _solve(factor: Tensor, V: Tensor) -> Tensor:
    """Return (L Lᵀ)⁻¹V."""
    return solve_upper(factor.mT, solve_lower(factor, V))
