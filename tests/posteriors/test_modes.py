"""The chosen modes: how near the kernel they make is to the kernel itself, and what they cannot serve."""

import re

import numpy as np
import pytest

from lmgp import GaussianKernel, LinearKernel, MaternKernel, RationalQuadraticKernel
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel
from lmgp.posteriors.modes import PROBES, Modes, choose_modes, rows_around
from lmgp.posteriors.toeplitz import half_shape
from lmgp.posteriors.toeplitz import mode_products as products
from tests.fourier import approximated, between, every_mode, mirrored

LENGTHSCALES = {1: 0.8, 2: [1.5, 0.7], 3: [2.0, 4.0, 1.5]}
NOISE = 0.3


def kernels(d: int) -> dict[str, Kernel]:
    lengthscale = LENGTHSCALES[d]
    return {
        "gaussian": GaussianKernel(lengthscale, 1.7),
        "matern32": MaternKernel(lengthscale, 0.6),
        "matern52": MaternKernel(lengthscale, 2.0, smoothness=2.5),
        "rational_quadratic": RationalQuadraticKernel(lengthscale, 1.2, alpha=3.0),
        "sum": GaussianKernel(lengthscale, 0.9) + MaternKernel(3.0, 0.5, smoothness=2.5),
    }


CASES = [
    (d, name, tolerance) for d in (1, 2, 3) for name in kernels(1) for tolerance in ((0.3, 0.03) if d < 3 else (0.3,))
]


def box(d: int, n: int = 200) -> np.ndarray:
    return np.random.default_rng(d).uniform(-1.0, [4.0, 3.0, 2.0][:d], (n, d))


def off(modes: Modes, kernel: Kernel, lags: np.ndarray) -> np.ndarray:
    return np.abs(approximated(modes, kernel, lags) - kernel(lags, np.zeros((1, lags.shape[1])))[:, 0])


@pytest.mark.parametrize(("d", "name", "tolerance"), CASES)
class TestTheKernelOfTheModes:
    def test_is_near_the_kernel_within_the_box(self, d: int, name: str, tolerance: float) -> None:
        """But for what is left out along the columns, which reaches n_near rows, and copies, which reach all."""
        X, kernel = box(d), kernels(d)[name]
        modes = choose_modes(kernel, X, NOISE, tolerance)
        lags = np.random.default_rng(0).uniform(-1.0, 1.0, (200, d)) * (modes.high - modes.low)
        lags = np.concatenate((lags, [modes.high - modes.low, np.zeros(d)]))
        frequencies, copies = tolerance * NOISE / np.sqrt(modes.n_near), tolerance * NOISE / np.sqrt(len(X))
        # The share is found to 10%, by quadrature to 1%.
        assert np.max(off(modes, kernel, lags)) < 1.12 * frequencies + copies

    def test_the_error_of_all_rows_together_is_within_the_tolerance(self, d: int, name: str, tolerance: float) -> None:
        """Of white coefficients of variance 1/σ², in σ."""
        X, kernel = box(d), kernels(d)[name]
        modes = choose_modes(kernel, X, NOISE, tolerance)
        errors = off(modes, kernel, between(X[:3], X)).reshape(3, -1)
        assert np.sqrt(np.mean(np.sum(errors**2, axis=1))) / NOISE < 1.5 * tolerance

    def test_is_near_it_out_to_the_reach(self, d: int, name: str, tolerance: float) -> None:
        """A row outside the box, but within reach, sees a copy of a row no nearer than the reach."""
        X, kernel = box(d), kernels(d)[name]
        modes = choose_modes(kernel, X, NOISE, tolerance)
        outside = np.random.default_rng(1).uniform(modes.low - modes.reach, modes.high + modes.reach, (40, d))
        lags = between(np.concatenate((outside, [modes.low - modes.reach, modes.high + modes.reach])), X[:5])
        frequencies, copies = tolerance * NOISE / np.sqrt(modes.n_near), tolerance * NOISE / np.sqrt(len(X))
        assert np.max(off(modes, kernel, lags)) < 1.12 * frequencies + 2.0 * copies

    def test_beyond_the_reach_the_kernel_is_negligible(self, d: int, name: str, tolerance: float) -> None:
        X, kernel = box(d), kernels(d)[name]
        modes = choose_modes(kernel, X, NOISE, tolerance)
        for column in range(d):
            beyond = np.zeros((1, d))
            beyond[0, column] = modes.reach[column]
            assert kernel(np.zeros((1, d)), beyond)[0, 0] <= tolerance * NOISE / np.sqrt(len(X))

    def test_weights_and_what_is_left_out_are_the_variance(self, d: int, name: str, tolerance: float) -> None:
        X, kernel = box(d), kernels(d)[name]
        modes = choose_modes(kernel, X, NOISE, tolerance)
        weights = modes.weights(kernel)
        assert weights.shape == modes.shape == half_shape(modes.counts)
        assert np.all(weights > 0.0)
        every = mirrored(weights[None].astype(complex), modes.counts)[0].real
        expected = kernel.spectral_density(every_mode(modes.counts) * modes.spacing) * np.prod(modes.spacing)
        np.testing.assert_allclose(every, expected, rtol=1e-12)
        assert modes.n_modes == len(every)
        root = np.sqrt(weights)[None].astype(complex)
        assert products(root, root)[0] == pytest.approx(every.sum(), rel=1e-12)
        # Left out is what lies beyond the last mode of any column: no more than the shares of the columns together.
        left_out = kernel.prior_variance() - every.sum()
        assert -tolerance * NOISE / np.sqrt(len(X)) < left_out < 1.12 * tolerance * NOISE / np.sqrt(modes.n_near)


class TestTheBox:
    def test_each_column_has_its_own_extent_and_counts(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 1.0, (300, 2)) * [40.0, 4.0]
        modes = choose_modes(GaussianKernel(1.0), X, 0.1, 1e-2)
        np.testing.assert_allclose(1.0 / modes.spacing, np.ptp(X, axis=0) + 2.0 * modes.reach, rtol=1e-12)
        assert modes.counts[0] > 2 * modes.counts[1]
        # In units of the lengthscales it is the same problem.
        scaled = choose_modes(GaussianKernel([1.0, 10.0]), X * [1.0, 10.0], 0.1, 1e-2)
        np.testing.assert_array_equal(scaled.counts, modes.counts)
        np.testing.assert_allclose(scaled.reach, modes.reach * [1.0, 10.0], rtol=1e-3)
        np.testing.assert_allclose(scaled.spacing, modes.spacing / [1.0, 10.0], rtol=1e-3)

    def test_more_modes_for_a_smaller_tolerance_and_a_shorter_lengthscale(self) -> None:
        X = box(2)
        sizes = [choose_modes(MaternKernel(1.0), X, 0.1, tolerance).n_modes for tolerance in (1e-1, 1e-2, 1e-3)]
        assert sizes[0] < sizes[1] < sizes[2]
        assert choose_modes(MaternKernel(0.5), X, 0.1, 1e-2).n_modes > sizes[1]

    def test_rows_are_served_as_far_as_the_reach(self) -> None:
        modes = choose_modes(GaussianKernel([1.0, 3.0]), box(2), 0.1, 1e-2)
        middle, step = 0.5 * (modes.low + modes.high), 0.5 * (modes.high - modes.low) + modes.reach
        rows = np.array(
            [middle, middle + [0.999, 0.999] * step, middle + [1.001, 0.0] * step, middle - [0, 1.001] * step]
        )
        np.testing.assert_array_equal(modes.served(rows), [True, True, False, False])

    @pytest.mark.parametrize("name", kernels(1))
    def test_room_is_for_shorter_and_longer_lengthscales(self, name: str) -> None:
        X, kernel = box(1), kernels(1)[name]
        modes, lags = choose_modes(kernel, X, NOISE, 0.03, 2.0), between(X[:10], X)
        for factor in (0.5, 1.0, 2.0):
            other = kernel.rescaled([factor])
            alone = choose_modes(other, X, NOISE, 0.03)
            assert np.max(off(modes, other, lags)) <= 2.0 * 0.03 * NOISE / np.sqrt(modes.n_near)
            assert modes.n_modes >= alone.n_modes
        assert np.max(off(choose_modes(kernel, X, NOISE, 0.03), kernel.rescaled([0.5]), lags)) > 5e-3
        assert (modes.kernel.theta == kernel.theta).all()
        assert modes.room == 2.0

    def test_training_rows_may_be_added_as_far_as_their_copies_are_negligible(self) -> None:
        X, kernel = box(2, 1000), GaussianKernel([1.0, 3.0], 1.7)
        modes = choose_modes(kernel, X, NOISE, 1e-2)
        row = modes.high + modes.margin
        np.testing.assert_array_equal(modes.admits(np.stack((row, row * [1.01, 1.0], X[0]))), [True, False, True])
        # The farthest row that is served has the copy of that one beside it.
        for column, lengthscale in enumerate((1.0, 3.0)):
            copy = 1.0 / modes.spacing[column] - (row - modes.low + modes.reach)[column]
            influence = 1.7 * np.exp(-0.5 * (copy / lengthscale) ** 2)
            assert 0.9 <= influence / (1e-2 * NOISE) <= 1.01

    def test_a_column_without_extent(self) -> None:
        X = box(2)
        X[:, 1] = 7.0
        modes = choose_modes(GaussianKernel(1.0), X, 0.1, 1e-2)
        np.testing.assert_allclose(1.0 / modes.spacing[1], 2.0 * modes.reach[1])
        assert np.max(off(modes, GaussianKernel(1.0), between(X[:10], X))) < 1e-3


class TestAround:
    @pytest.mark.parametrize("distances", [[0.3, 0.3], [2.0, 0.1], [100.0, 100.0], [1e-9, 1.0]])
    def test_of_few_rows_it_is_the_count(self, distances: list[float]) -> None:
        X = box(2, PROBES)
        near = np.all(np.abs(X[:, None] - X[None]) <= distances, axis=2)
        assert rows_around(X, len(X))(np.array(distances)) == pytest.approx(near.sum(axis=1).mean(), rel=1e-12)

    def test_of_many_it_is_near_the_count(self) -> None:
        X, distances = box(2, 6000), np.array([0.5, 0.4])
        near = np.mean([np.sum(np.all(np.abs(X - x) <= distances, axis=1)) for x in X[:500]])
        assert rows_around(X, len(X))(distances) == pytest.approx(near, rel=0.05)
        assert rows_around(X, len(X))(np.array([1e-12, 1e-12])) == 1.0
        assert rows_around(X, len(X))(np.array([9.0, 9.0])) == pytest.approx(6000)

    def test_repeated_rows_are_around_each_other(self) -> None:
        X = np.repeat(box(1, 20), 5, axis=0)
        assert rows_around(X, len(X))(np.array([1e-9])) == pytest.approx(5.0)

    def test_of_two_equal_rows(self) -> None:
        assert rows_around(np.zeros((2, 1)), 2)(np.array([1.0])) == 2.0


class TestRefused:
    def test_four_columns(self) -> None:
        X = np.zeros((9, 4))
        with pytest.raises(
            InputError, match=r"at most 3 columns; X has 4. Use GPRegressor or NearestNeighborsGPRegressor"
        ):
            choose_modes(GaussianKernel(1.0), X, 0.1, 1e-2)

    @pytest.mark.parametrize("kernel", [LinearKernel(), GaussianKernel(1.0) + LinearKernel()])
    def test_a_kernel_without_a_density(self, kernel: Kernel) -> None:
        with pytest.raises(InputError, match=r"Fourier modes needs .*spectral density.* of the kernel; .*Linear"):
            choose_modes(kernel, box(2), 0.1, 1e-2)

    @pytest.mark.parametrize(("d", "alpha"), [(1, 0.4), (2, 0.8), (2, 1.0), (3, 1.5)])
    def test_a_density_that_is_infinite_at_zero(self, d: int, alpha: float) -> None:
        kernel = RationalQuadraticKernel(1.0, alpha=alpha)
        message = re.escape(repr(kernel)) + ".*infinite at 0: .*Use NearestNeighborsGPRegressor"
        with pytest.raises(InputError, match=message):
            choose_modes(kernel, box(d), 0.1, 0.3)

    def test_a_kernel_that_does_not_fall_off(self) -> None:
        kernel = RationalQuadraticKernel(1.0, alpha=0.501)
        with pytest.raises(InputError, match=r"does not fall below .*Use NearestNeighborsGPRegressor"):
            choose_modes(kernel, box(1), 1e-6, 1e-6)
