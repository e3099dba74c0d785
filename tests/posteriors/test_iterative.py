"""Products, the preconditioner and conjugate gradients, against dense algebra."""

import numpy as np
import pytest
import torch

from lmgp import GaussianKernel, MaternKernel, NystroemFeatures
from lmgp.data import Noise, Rows
from lmgp.errors import NumericalError
from lmgp.posteriors import products
from lmgp.posteriors.blocks import BlockCovariance
from lmgp.posteriors.iterative import _sizes, left_out_error
from lmgp.posteriors.products import KernelProducts, single_is_enough
from lmgp.posteriors.residual import ResidualPlan
from lmgp.utils.linalg import conjugate_gradients

KERNEL = GaussianKernel([0.8, 1.3], 1.5) + MaternKernel(2.0, variance=0.4)


def rows(n: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(0, 4, (n, 2)))


def noises(n: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).uniform(0.05, 0.2, n))


def partial(n: int, size: int, n_blocks: int) -> tuple[BlockCovariance, torch.Tensor]:
    """A preconditioner, and the dense matrix that it inverts."""
    X, noise = rows(n), noises(n)
    of_rows = Rows(X.numpy(), np.zeros(n), noise_variances=noise.numpy())
    features = NystroemFeatures(landmarks=X[:size].numpy())
    plan = ResidualPlan.fitted(KERNEL, of_rows, Noise(0.1), features, np.random.default_rng(2), 1, -(-n // n_blocks))
    forest = plan.forest(of_rows)
    (part,) = forest.parts
    expected, covariance = part.mapped @ part.mapped.T, KERNEL.evaluate(X, X)
    for block in part.blocks:
        expected[np.ix_(block, block)] = covariance[np.ix_(block, block)]
    return plan(forest, np.eye(1)).covariance_of_rows, expected + torch.diag(noise)


class TestProducts:
    @pytest.mark.parametrize("kept", [True, False])
    @pytest.mark.parametrize(("single", "tolerance"), [(False, 1e-12), (True, 1e-5)])
    @pytest.mark.parametrize("n", [1, 49, 50, 173])
    def test_are_those_of_the_dense_matrix(
        self, n: int, single: bool, tolerance: float, kept: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(products, "ROWS", 50)
        X, noise, V = rows(n), noises(n), torch.from_numpy(np.random.default_rng(3).normal(size=(n, 2)))
        multiply = KernelProducts(KERNEL, X, noise, single=single, max_bytes=1e9 if kept else 0.0)
        assert multiply.kept == kept
        expected = KERNEL.evaluate(X, X) @ V + noise[:, None] * V
        assert multiply(V).dtype == torch.float64
        np.testing.assert_allclose(multiply(V), expected, rtol=tolerance, atol=tolerance * float(expected.abs().max()))

    def test_blocks_take_the_memory_that_is_stated(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(products, "ROWS", 50)
        multiply = KernelProducts(KERNEL, rows(200), noises(200), single=True, max_bytes=1e9)
        assert multiply._blocks is not None
        assert sum(block.nbytes for block in multiply._blocks) == KernelProducts.n_bytes(200, single=True)

    @pytest.mark.parametrize("variance", [1.0, 50.0])
    def test_single_precision_is_taken_where_the_mean_is_within_the_tolerance(self, variance: float) -> None:
        n, noise, rng = 400, 1e-4, np.random.default_rng(4)
        X, kernel = rows(n), GaussianKernel(1.0, variance)
        covariance = kernel.evaluate(X, X).numpy()
        y = np.linalg.cholesky(covariance + 1e-8 * variance * np.eye(n)) @ rng.normal(size=n)
        y += noise**0.5 * rng.normal(size=n)
        rounded = covariance.astype(np.float32).astype(np.float64)
        means = [K @ np.linalg.solve(K + noise * np.eye(n), y) for K in (covariance, rounded)]
        error = float(np.sqrt(np.mean((means[0] - means[1]) ** 2) / noise))
        assert not single_is_enough(kernel, X, noise, 0.3 * error)
        assert single_is_enough(kernel, X, noise, 30.0 * error)


class TestPreconditioner:
    @pytest.mark.parametrize("n_blocks", [1, 4, 120])
    def test_solves_what_it_says(self, n_blocks: int) -> None:
        covariance, expected = partial(120, 15, n_blocks)
        V = torch.from_numpy(np.random.default_rng(3).normal(size=(120, 3)))
        np.testing.assert_allclose(covariance.solve(V), np.linalg.solve(expected, V), rtol=1e-7, atol=1e-8)

    def test_moves_to_a_device(self) -> None:
        covariance, _ = partial(60, 10, 3)
        V = torch.ones((60, 1), dtype=torch.float64)
        moved = covariance.to(torch.device("cpu"))
        np.testing.assert_array_equal(moved.solve(V), covariance.solve(V))

    def test_is_smaller_where_memory_is_short(self) -> None:
        n, gib = 100_000, 2.0**30
        n_landmarks, block_size = _sizes(n, 4 * gib)
        assert (n_landmarks, block_size) == (2048, 512)
        n_landmarks, block_size = _sizes(n, 1 * gib)
        assert 0.45 * gib < 8.0 * n * (n_landmarks + block_size) <= 0.5 * gib
        assert _sizes(40, 4 * gib)[0] == 10
        assert min(_sizes(2, 1e-9)) == 1


class TestIterations:
    def test_solve_all_right_sides(self) -> None:
        n = 150
        X, noise = rows(n), noises(n)
        A = KERNEL.evaluate(X, X) + torch.diag(noise)
        covariance, _ = partial(n, 20, 5)
        V = torch.from_numpy(np.random.default_rng(3).normal(size=(n, 3)))
        V[:, 1] = 0.0  # solved to the last digit from the start
        seen: list[int] = []
        found = conjugate_gradients(
            lambda W: A @ W, covariance.solve, V, lambda number, *_: seen.append(number) or False, 60
        )
        assert seen == list(range(61))
        np.testing.assert_allclose(found, np.linalg.solve(A, V), rtol=1e-7, atol=1e-9)

    def test_end_when_they_are_told_to(self) -> None:
        covariance, expected = partial(60, 10, 3)
        V = torch.ones((60, 1), dtype=torch.float64)
        found = conjugate_gradients(lambda W: expected @ W, covariance.solve, V, lambda *_: True, 60)
        np.testing.assert_array_equal(found, covariance.solve(V))

    def test_a_matrix_that_is_not_positive_definite_is_refused(self) -> None:
        A = torch.diag(torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64))
        with pytest.raises(NumericalError, match="larger noise variance"):
            conjugate_gradients(
                lambda W: A @ W, torch.clone, torch.ones((3, 1), dtype=torch.float64), lambda *_: False, 9
            )


class TestLeftOut:
    def test_errors_are_those_of_leave_one_out_predictions(self) -> None:
        """With an exact preconditioner, and weights whose error falls by a half an iteration."""
        n, q = 80, 0.5
        covariance, dense = partial(n, 10, 1)
        inverse = np.linalg.inv(dense.numpy())
        rng = np.random.default_rng(6)
        y, wrong = rng.normal(size=n), rng.normal(size=n)
        weights = inverse @ y
        error_of = left_out_error(covariance, n, rng)
        for number in range(12):
            estimate = error_of(torch.from_numpy(weights + q**number * wrong)[:, None])
        # Each row's prediction from all others, with these weights and with the exact ones.
        scale = np.diagonal(inverse)
        change = ((y - (weights + q**11 * wrong) / scale) - (y - weights / scale)) * np.sqrt(scale)
        assert estimate == pytest.approx(float(np.sqrt(np.mean(change**2))), rel=1e-6)

    def test_nothing_is_known_of_the_first_iterations(self) -> None:
        covariance, _ = partial(40, 5, 2)
        error_of = left_out_error(covariance, 40, np.random.default_rng(0))
        errors = [error_of(torch.full((40, 1), 0.9**number, dtype=torch.float64)) for number in range(12)]
        assert np.isinf(errors[:8]).all()
        assert np.isfinite(errors[8:]).all()
