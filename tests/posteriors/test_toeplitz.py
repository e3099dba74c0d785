"""The Toeplitz product, and conjugate gradients with their bound, against dense algebra."""

from types import SimpleNamespace

import numpy as np
import pytest

from lmgp.posteriors.toeplitz import Toeplitz, conjugate_gradients, half_shape
from lmgp.posteriors.toeplitz import mode_products as products
from tests.fourier import every_mode, halved, mirrored

COUNTS = {1: np.array([9]), 2: np.array([4, 3]), 3: np.array([2, 1, 2])}
every_dimension = pytest.mark.parametrize("d", COUNTS)


class System:
    """The matrix D^½ΦᴴΦD^½ + σ²I of rows, whose eigenvalues fall off with the modes, and real right sides."""

    def __init__(self, d: int, n: int = 60, n_sides: int = 3, noise: float = 0.05) -> None:
        rng, self.counts, self.noise = np.random.default_rng(d), COUNTS[d], noise
        modes = every_mode(self.counts)
        angles = rng.uniform(-2.0, 2.0, (n, d))
        phi = np.exp(1j * angles @ modes.T)
        differences = every_mode(2 * self.counts)
        self.gram = phi.conj().T @ phi
        self.generator = halved(np.exp(-1j * angles @ differences.T).sum(axis=0)[None], 2 * self.counts)[0]
        roots = np.exp(-0.2 * np.sum(modes**2, axis=1))
        self.dense = roots[:, None] * self.gram * roots + noise * np.eye(len(modes))
        self.sides = (rng.normal(size=(n_sides, n)) @ phi.conj()) * roots
        self.half = halved(self.sides, self.counts)
        self.roots = halved(roots[None].astype(complex), self.counts)[0].real

    def multiply(self, vectors: np.ndarray) -> np.ndarray:
        return self.roots * Toeplitz(self.generator, self.counts)(self.roots * vectors) + self.noise * vectors

    def solve(self, enough: object = 0.0, max_iterations: int = 500, sides: slice = slice(None)):
        half = self.half[sides]
        return self.solve_from(half, np.broadcast_to(enough, (len(half),)), max_iterations)

    def solve_from(self, right: np.ndarray, enough: np.ndarray, max_iterations: int, start: object = None):
        found = conjugate_gradients(self.multiply, right, self.noise, enough, max_iterations, start)
        converged = bool(np.all(found.remaining <= enough))
        return SimpleNamespace(
            vectors=found.vectors, left=found.remaining, n_iterations=found.n_iterations, converged=converged
        )

    def squared_errors(self, vectors: np.ndarray) -> np.ndarray:
        """The squared energy norm of what is left, eᴴAe."""
        exact = np.linalg.solve(self.dense, self.sides.T).T
        error = mirrored(vectors, self.counts) - exact[: len(vectors)]
        return np.einsum("bi,ij,bj->b", error.conj(), self.dense, error).real


@every_dimension
def test_toeplitz_is_the_gram_matrix(d: int) -> None:
    system = System(d)
    found = Toeplitz(system.generator, system.counts)(system.half)
    assert found.shape == (3, *half_shape(system.counts))
    np.testing.assert_allclose(mirrored(found, system.counts), system.sides @ system.gram.T, rtol=0, atol=1e-9)


@every_dimension
def test_products_are_of_all_modes(d: int) -> None:
    system = System(d)
    other = system.half[::-1]
    expected = np.sum(system.sides.conj() * system.sides[::-1], axis=1)
    np.testing.assert_allclose(expected.imag, 0.0, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(products(system.half, other), expected.real, rtol=1e-12)


def test_memory_grows_with_modes_and_vectors() -> None:
    small = Toeplitz.n_bytes(np.array([10, 10]), 1)
    # No less than the arrays that a product of one vector holds: the multiplier, the spectrum and its transform.
    assert small >= 3 * 8 * 41**2
    # Those and the vectors of the iterations, and hardly more.
    assert small <= 1.4 * (8 * 41**2 * (1 + 3) + 16 * 21 * 11 * (6 + 2))
    assert Toeplitz.n_bytes(np.array([20, 20]), 1) == pytest.approx(4 * small, rel=0.1)
    assert 1.5 * small < Toeplitz.n_bytes(np.array([10, 10]), 2) < 2 * small


@every_dimension
class TestSolve:
    def test_the_solution_is_that_of_the_dense_system(self, d: int) -> None:
        system = System(d)
        found = system.solve(1e-18)
        expected = np.linalg.solve(system.dense, system.sides.T).T
        np.testing.assert_allclose(mirrored(found.vectors, system.counts), expected, rtol=0, atol=1e-8)
        assert found.converged

    def test_several_right_sides_are_as_each_by_itself(self, d: int) -> None:
        system = System(d)
        found = system.solve(max_iterations=6)
        for i in range(3):
            alone = system.solve(max_iterations=6, sides=slice(i, i + 1))
            np.testing.assert_allclose(found.vectors[i], alone.vectors[0], rtol=0, atol=1e-10)
            assert found.left[i] == pytest.approx(alone.left[0], rel=1e-6)

    @pytest.mark.slow
    def test_what_is_left_is_bounded_after_every_number_of_iterations(self, d: int) -> None:
        system = System(d)
        scale = system.squared_errors(np.zeros_like(system.half))
        ratios = []
        for k in range(150):
            found = system.solve(1e-12 * scale, k)
            errors = system.squared_errors(found.vectors)
            assert np.all(found.left >= errors * (1.0 - 1e-6) - 1e-13 * scale)
            ratios.append(found.left / np.maximum(errors, 1e-12 * scale))
            if found.converged:
                break
        # The bound knows no more of the spectrum than its least eigenvalue.
        assert np.median(ratios) < 10.0
        assert found.converged

    def test_it_stops_where_enough_is_reached(self, d: int) -> None:
        system = System(d)
        scale = system.squared_errors(np.zeros_like(system.half))
        for share in (1e-2, 1e-4, 1e-8):
            found = system.solve(share * scale)
            assert found.converged
            assert np.all(found.left <= share * scale)
            assert np.all(system.squared_errors(found.vectors) <= share * scale)
            before = system.solve(share * scale, found.n_iterations - 1)
            assert not before.converged
            assert np.any(before.left > share * scale)
            assert before.n_iterations == found.n_iterations - 1

    def test_it_goes_on_from_a_start(self, d: int) -> None:
        system = System(d)
        scale = system.squared_errors(np.zeros_like(system.half))
        near = system.solve(1e-4 * scale)
        for enough in (1e-6 * scale, 1e-12 * scale):
            whole = system.solve(enough)
            found = system.solve_from(system.half, enough, 500, near.vectors)
            assert found.converged
            assert np.all(system.squared_errors(found.vectors) <= found.left * (1.0 + 1e-6) + 1e-13 * scale)
            assert found.n_iterations < whole.n_iterations
        again = system.solve_from(system.half, 1e-10 * scale, 500, found.vectors)
        assert again.n_iterations <= 3

    def test_each_right_side_has_its_own_enough(self, d: int) -> None:
        system = System(d)
        scale = system.squared_errors(np.zeros_like(system.half))
        enough = scale * np.array([1e-1, 1e-6, 1e-3])
        found = system.solve(enough)
        assert found.n_iterations == system.solve(enough[1], sides=slice(1, 2)).n_iterations
        assert np.all(system.squared_errors(found.vectors) <= enough)

    def test_a_right_side_of_zeros_is_solved_and_disturbs_no_other(self, d: int) -> None:
        system = System(d)
        expected = system.solve(1e-18)
        system.half[1] = 0.0
        found = system.solve(1e-18)
        np.testing.assert_array_equal(found.vectors[1], 0.0)
        assert found.left[1] == 0.0
        np.testing.assert_allclose(found.vectors[[0, 2]], expected.vectors[[0, 2]], rtol=0, atol=1e-7)
        system.half[:] = 0.0
        assert system.solve(1e-12).n_iterations == 0
        assert system.solve(1e-12).converged

    def test_more_iterations_than_digits_do_no_harm(self, d: int) -> None:
        system = System(d)
        scale = system.squared_errors(np.zeros_like(system.half))
        found = system.solve(0.0, 300)
        assert np.all(np.isfinite(found.left))
        assert np.all(system.squared_errors(found.vectors) <= 1e-18 * scale)
