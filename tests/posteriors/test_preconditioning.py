"""Blocks of modes, their bounds and the solutions with them, against dense algebra over all modes."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh

from lmgp import GaussianKernel, MaternKernel
from lmgp.data import Noise, Rows
from lmgp.kernels.base import Kernel
from lmgp.posteriors import toeplitz
from lmgp.posteriors.modes import ModePlan
from lmgp.posteriors.spectral import ModeStatistics
from lmgp.posteriors.toeplitz import Block, ModeSystem, Operator, Toeplitz, block_modes, iterations_before, n_kept
from tests.fourier import every_mode, halved, mirrored, waves

NOISE = 0.05
KERNELS: dict[int, Kernel] = {
    1: MaternKernel(0.8, 1.4, smoothness=2.5),
    2: GaussianKernel([1.5, 1.2], 1.4),
    3: GaussianKernel([9.0, 8.0, 7.0], 1.4),
}
every_dimension = pytest.mark.parametrize("d", KERNELS)
every_layout = pytest.mark.parametrize("layout", ["even", "clusters"])


class Problem:
    """Sums over rows; and A and the right side, in an orthonormal basis of arrays with v₋ⱼ = conj(vⱼ)."""

    def __init__(self, d: int, layout: str = "even", n: int = 150) -> None:
        rng = np.random.default_rng(d)
        X = rng.uniform(1.0, 5.0, (n, d))
        if layout == "clusters":
            X[10:] = 2.0 + 0.01 * rng.normal(size=(n - 10, d))
        if layout == "wide":
            X = 20.0 * X
        rho = rng.uniform(0.5, 2.0, n)
        rows = Rows(X, np.sin(X[:, 0]) + 0.2 * rng.normal(size=n), rho)
        plan = ModePlan.choose(KERNELS[d], Noise(NOISE, "dtc"), rows, 0.1)
        modes = replace(plan.modes, counts=np.array([3, 2, 3])) if d == 3 else plan.modes
        plan = replace(plan, modes=modes, transform_tolerance=1e-13)
        self.sums, self.counts, self.weights = ModeStatistics.of(plan, rows), modes.counts, plan.weights
        self.generator, self.n = self.sums.generator, float(rho.sum())
        self.toeplitz = Toeplitz(self.generator, self.counts)
        size = len(every_mode(self.counts))
        self.basis = np.zeros((size, size), dtype=complex)
        self.basis[size // 2, size // 2] = 1.0  # the constant; mode −j stands where the j-th from the end does
        for j in range(size // 2):
            self.basis[[j, size - 1 - j], j] = np.sqrt(0.5)
            self.basis[[j, size - 1 - j], size - 1 - j] = 1j * np.sqrt(0.5), -1j * np.sqrt(0.5)
        phi, roots = waves(modes, X), mirrored(np.sqrt(self.weights)[None].astype(complex), self.counts)[0]
        dense = roots[:, None] * (phi.conj().T @ (rho[:, None] * phi)) * roots + NOISE * np.eye(size)
        self.dense = (self.basis.conj().T @ dense @ self.basis).real
        self.right = (self.basis.conj().T @ (roots * (phi.conj().T @ (rho * rows.Y[:, 0])))).real

    def system(self) -> ModeSystem:
        return ModeSystem(self.generator, self.counts, self.weights, NOISE)

    def heavy(self, share: float) -> np.ndarray:
        """The modes whose weight is above a share of the largest."""
        kept: np.ndarray = self.weights > share * self.weights.max()
        return kept

    def block(self, kept: np.ndarray) -> Block:
        return Block(self.generator, self.weights, NOISE, kept, self.toeplitz.largest_eigenvalue)

    def matrix(self, inverse: Operator) -> np.ndarray:
        """The matrix of a preconditioner."""
        images = mirrored(inverse(halved(self.basis.T, self.counts)), self.counts)
        return (self.basis.conj().T @ images.T).real

    def in_basis(self, vectors: np.ndarray) -> np.ndarray:
        return (mirrored(vectors, self.counts) @ self.basis.conj()).real


@every_dimension
def test_the_block_of_all_modes_is_the_inverse(d: int) -> None:
    problem = Problem(d)
    block = problem.block(np.ones_like(problem.weights, dtype=bool))
    np.testing.assert_allclose(problem.matrix(block) @ problem.dense, np.eye(len(problem.dense)), rtol=0, atol=1e-8)
    assert block.log_determinant == pytest.approx(np.linalg.slogdet(problem.dense)[1], rel=1e-10)
    assert block.least_eigenvalue == 1.0


@every_layout
@every_dimension
@pytest.mark.parametrize("share", [0.5, 1e-2, 1e-5])
def test_a_block_of_some_is_that_of_the_dense_matrix(d: int, layout: str, share: float) -> None:
    problem = Problem(d, layout)
    kept = problem.heavy(share)
    block = problem.block(kept)
    found = problem.matrix(block)
    inside = mirrored(kept[None].astype(complex), problem.counts)[0].real > 0.5
    assert 1 < inside.sum() == n_kept(kept)
    expected = np.eye(len(found)) / NOISE
    expected[np.ix_(inside, inside)] = np.linalg.inv(problem.dense[np.ix_(inside, inside)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    # No eigenvalue is below the bound, which tends to 1 with what is left beside the block.
    least = eigh(problem.dense, np.linalg.inv(found), eigvals_only=True)[0]
    assert block.least_eigenvalue <= least * (1.0 + 1e-9)
    beside = np.max(problem.weights, where=~kept, initial=0.0) * problem.toeplitz.largest_eigenvalue
    assert block.least_eigenvalue >= 1.0 / (2.0 + beside / NOISE)


def test_the_diagonal_is_that_of_even_rows() -> None:
    problem = Problem(1, "wide", 2000)
    found = problem.system().diagonal()
    assert found is not None
    matrix = problem.matrix(found[0])
    np.testing.assert_allclose(matrix, np.diag(1.0 / np.diag(problem.dense)), rtol=0, atol=0.4 * matrix.max())
    assert 0.0 < found[1] <= eigh(problem.dense, np.linalg.inv(matrix), eigvals_only=True)[0]
    clusters = Problem(2, "clusters")
    assert clusters.system().diagonal() is None
    assert ModeSystem(0.0 * clusters.generator, clusters.counts, clusters.weights, NOISE).diagonal() is None


class TestPlan:
    def test_all_of_few_modes_and_of_more_those_that_matter_most(self, monkeypatch: pytest.MonkeyPatch) -> None:
        problem = Problem(2)
        kept = block_modes(problem.weights, problem.n, NOISE)
        assert kept is not None
        assert kept.all()
        assert iterations_before(kept) == 0
        heavy = problem.n * problem.weights > NOISE
        size, n_modes = n_kept(heavy), n_kept(np.ones_like(heavy))
        assert size < n_modes
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", size)
        monkeypatch.setattr(toeplitz, "PATIENCE", 7)
        kept = block_modes(problem.weights, problem.n, NOISE)
        np.testing.assert_array_equal(kept, heavy)
        assert iterations_before(kept) == max(7, int(np.ceil(size**3 / (2000.0 * n_modes))))
        assert block_modes(problem.weights, problem.n, NOISE, Block.n_bytes(size - 1)) is None
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", size - 1)
        assert block_modes(problem.weights, problem.n, NOISE) is None
        # Without rows it is the constant.
        assert n_kept(block_modes(problem.weights, 0.0, NOISE)) == 1

    def test_as_many_modes_as_are_few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        problem = Problem(2)
        n_modes = problem.sums.plan.modes.n_modes
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", n_modes)
        assert block_modes(problem.weights, 0.0, NOISE).all()
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", n_modes - 1)
        assert not block_modes(problem.weights, 0.0, NOISE).all()
        # The matrix, its factor, its inverse and the covariance of the weights, of eight bytes a number.
        assert Block.n_bytes(10) == 4 * 8 * 100


@every_layout
@every_dimension
class TestSystem:
    @pytest.mark.parametrize("most", [2048, 0], ids=["all", "none"])
    def test_the_solution_is_that_of_the_dense_matrix(
        self, d: int, layout: str, most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", most)
        problem = Problem(d, layout)
        self._check(problem)
        system = problem.system()
        assert len(system.whole.roots) == problem.sums.plan.modes.n_modes
        if most == 0:
            assert system.block is None
            assert system.solve(problem.sums.cross, np.array([1e-300]), 7).n_iterations == 7
        else:
            assert system.whole is system.block
            # By itself the block is the solution.
            fresh = problem.system()
            for _ in range(2):
                assert fresh.solve(problem.sums.cross, np.array([1e-9]), 2000).n_iterations == 1

    def test_a_block_after_some_iterations(self, d: int, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
        problem = Problem(d, layout)
        most = n_kept(problem.n * problem.weights > NOISE)
        assert most < problem.sums.plan.modes.n_modes
        for name, value in (("MOST_AT_ONCE", most), ("PATIENCE", 3), ("PAYS", np.inf)):
            monkeypatch.setattr(toeplitz, name, value)
        self._check(problem)
        system, cross, enough = problem.system(), problem.sums.cross, np.array([1e-18])
        # It may end before there is a block; and what is solved next has it from the start.
        assert system.solve(cross, enough, 2).n_iterations == 2
        assert "block" not in vars(system)
        # With a block as without one, no iteration is more than allowed.
        assert problem.system().solve(cross, np.array([1e-300]), 5).n_iterations == 5
        first = system.solve(cross, enough, 2000)
        assert np.all(first.remaining <= enough)
        assert isinstance(system.block, Block)
        again = system.solve(cross, enough, 2000)
        assert again.n_iterations <= first.n_iterations
        np.testing.assert_allclose(again.vectors, first.vectors, rtol=0, atol=1e-8)
        assert system.solve(cross, enough, 2000, first.vectors).n_iterations <= 1
        assert n_kept(np.ones_like(problem.weights, dtype=bool)) == len(system.whole.roots)

    @staticmethod
    def _check(problem: Problem) -> None:
        exact = np.linalg.solve(problem.dense, problem.right)
        scale = problem.right @ exact
        found = problem.system().solve(problem.sums.cross, np.array([1e-6 * scale]), 2000)
        off = problem.in_basis(found.vectors)[0] - exact
        assert off @ problem.dense @ off <= found.remaining[0] + 1e-12 * scale
        assert found.remaining[0] <= 1e-6 * scale
