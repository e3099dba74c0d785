"""The posterior on Fourier modes against dense algebra, with the kernel that the modes make and with the kernel."""

import math
import pickle
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, MaternKernel, SpectralGPRegressor
from lmgp.data import Noise, Rows
from lmgp.errors import InputError, MemoryLimitError, TimeLimitError, ToleranceWarning
from lmgp.kernels.base import Kernel
from lmgp.metrics import kl_divergence
from lmgp.posteriors import modes, spectral, toeplitz, variance
from lmgp.posteriors.costs import of_transform
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.modes import (
    LEAST_TRANSFORM,
    TRANSFORM,
    ModePlan,
    check_modes,
    choose_modes,
    expected_iterations,
)
from lmgp.posteriors.spectral import SpectralPosterior
from lmgp.posteriors.toeplitz import Toeplitz, half_shape
from lmgp.sums.modes import ModeSums
from tests.dense import noise_of
from tests.fourier import approximated, between

NOISE = 0.05
# In noise standard deviations.
COARSE, FINE = 0.1, 1e-4
CASES: dict[str, tuple[int, Kernel]] = {
    "1 column": (1, GaussianKernel(0.9, 1.4)),
    "2 columns": (2, MaternKernel([5.0, 4.0], 0.8, smoothness=2.5)),
    "3 columns": (3, GaussianKernel([3.0, 2.0, 2.5], 1.4)),
}
every_case = pytest.mark.parametrize(("d", "kernel"), CASES.values(), ids=CASES)
KERNEL = GaussianKernel(0.9, 1.4)


def drawn(d: int = 1, arguments: str = "plain", n: int = 90) -> tuple[Rows, np.ndarray]:
    """Rows with two targets, and new rows."""
    rng = np.random.default_rng(d)
    X = rng.uniform(1.0, 5.0, (n, d))
    Y = np.column_stack((np.sin(X[:, 0]) + 0.3 * X[:, -1], np.cos(X[:, 0]))) + 0.2 * rng.normal(size=(n, 2))
    weights = rng.integers(1, 4, n) * 1.0 if arguments in ("weights", "both") else None
    noises = rng.uniform(0.02, 0.2, n) if arguments in ("noises", "both") else None
    return Rows(X, Y - Y.mean(axis=0), weights, noises), rng.uniform(0.0, 6.0, (20, d))


def solved(kernel: Kernel, rows: Rows, tolerance: float, approximation: str = "fitc", **options) -> SpectralPosterior:
    plan = ModePlan.choose(kernel, Noise(NOISE, approximation), rows, tolerance, **options)
    return ModeSums.for_plan(plan, rows.n_targets).of(rows).posterior(np.eye(rows.n_targets))


def covariance(posterior: SpectralPosterior, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return approximated(posterior.plan.modes, posterior.kernel, between(X, Z)).reshape(len(X), len(Z))


@pytest.fixture(params=[2048, 0], ids=["block", "iterations"])
def _most(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the block of all modes, and without one."""
    monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", request.param)


@pytest.mark.usefixtures("_most")
class TestMeans:
    @pytest.mark.slow
    @every_case
    @pytest.mark.parametrize("arguments", ["plain", "both"])
    @pytest.mark.parametrize("approximation", ["dtc", "fitc"])
    def test_they_are_those_of_the_kernel_of_the_modes(
        self, d: int, kernel: Kernel, arguments: str, approximation: str
    ) -> None:
        """However coarse the modes: the iterations alone are left, and they are within their bound."""
        rows, T = drawn(d, arguments)
        posterior = solved(kernel, rows, COARSE, approximation)
        prior = covariance(posterior, rows.X, rows.X)
        assert posterior.plan.left_out == pytest.approx(max(kernel.prior_variance() - prior[0, 0], 0.0), abs=1e-9)
        weights, n = np.ones(len(rows)) if rows.weights is None else rows.weights, len(rows)
        # What the modes leave out is noise of each repetition.
        noises = noise_of(rows, NOISE) + (posterior.plan.left_out / weights if approximation == "fitc" else 0.0)
        coefficients = np.linalg.solve(prior + np.diag(noises), rows.Y)
        off = posterior.predict(rows.X, False)[0] - prior @ coefficients
        # To the tolerance of the transforms.
        bound = 1.05 * posterior.accuracy.iterations + 1e-6
        assert 0.5 * np.max(np.sum(off**2 / noises[:, None], axis=0)) / n <= bound
        new = posterior.predict(T, False)[0] - covariance(posterior, T, rows.X) @ coefficients
        assert np.sqrt(np.mean(new**2) / NOISE) < 10.0 * COARSE
        np.testing.assert_allclose(posterior.surprise(T)[3], np.sum(rows.Y * coefficients, axis=0) / n, rtol=0.02)
        # With a small tolerance, the kernel itself.
        close, exact = solved(kernel, rows, FINE, approximation), ExactPosterior(kernel, rows, Noise(NOISE))
        np.testing.assert_allclose(
            close.predict(T, False)[0], exact.predict(T, False)[0], rtol=0, atol=5e-3 * np.sqrt(NOISE)
        )
        np.testing.assert_allclose(close.products(), exact.products(), rtol=1e-4, atol=1e-2)

    @every_case
    def test_columns_of_a_trend_are_known_where_the_mean_is_coarse(self, d: int, kernel: Kernel) -> None:
        rows, _ = drawn(d, "both")
        z = (rows.X - rows.X.mean(axis=0)) / rows.X.std(axis=0)
        whole = rows.with_targets(np.column_stack((rows.Y, np.ones(len(rows)), z)))
        found = solved(kernel, whole, COARSE, n_trend=1 + d)
        # The kernel of the modes, whose iterations alone are left.
        noises = noise_of(rows, NOISE) + found.plan.left_out / rows.weights
        C, H = covariance(found, rows.X, rows.X) + np.diag(noises), whole.Y[:, 2:]
        expected = H.T @ np.linalg.solve(C, H)
        np.testing.assert_allclose(found.products()[2:, 2:], expected, rtol=0, atol=0.004 * np.abs(expected).max())
        # What the columns may be off by is in units of their own.
        iterations = found._solution.remaining[:2].max() / (2.0 * len(rows) * NOISE)
        assert found.accuracy.iterations == pytest.approx(iterations)
        change = np.eye(3 + d)
        change[2, 0] = -0.5
        assert found.combined(change)._n_trend == 1 + d
        assert found.combined(change[:, :2])._n_trend == 0

    @every_case
    @pytest.mark.parametrize("tolerance", [0.3, 0.01])
    def test_no_iteration_is_more_than_the_tolerance_asks_for(
        self, d: int, kernel: Kernel, tolerance: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(modes, "OVER_ROWS", math.inf)
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", 0)
        rows, _ = drawn(d, "both")
        rows, enough = rows.with_targets(rows.Y[:, :1]), 0.5 * tolerance**2
        error = solved(kernel, rows, tolerance).accuracy
        assert error.converged
        assert error.iterations <= enough
        with pytest.warns(ToleranceWarning, match=f"{error.n_iterations - 1} iterations leave") as told:
            less = solved(kernel, rows, tolerance, max_iterations=error.n_iterations - 1).accuracy
        assert less.iterations > enough
        assert "not converged" in str(less)
        # What it says is what is left, in noise standard deviations.
        stated = float(str(told[0].message).partition(" up to ")[2].split()[0])
        assert stated == pytest.approx(np.sqrt(2.0 * less.iterations), rel=0.1)


@pytest.mark.parametrize("kernel", [GaussianKernel(0.8, 1.4), MaternKernel(1.0, 1.4, smoothness=2.5)])
def test_heavy_rows_are_as_close_to_the_exact_mean_as_others(kernel: Kernel) -> None:
    rows, _ = drawn(2, n=300)
    T = np.random.default_rng(5).uniform(1.0, 5.0, (100, 2))
    for weight in (1.0, 100.0):
        heavy = replace(rows, weights=np.full(300, weight))
        off = solved(kernel, heavy, 0.01).predict(T, False)[0]
        off -= ExactPosterior(kernel, heavy, Noise(NOISE)).predict(T, False)[0]
        assert np.sqrt(np.mean(off**2) / NOISE) < 3.0 * 0.01


def test_the_unit_of_weights_changes_no_prediction() -> None:
    rng, T = np.random.default_rng(0), np.linspace(0.0, 20.0, 41)[:, None]
    X, weights = rng.uniform(0.0, 20.0, (4000, 1)), 1e6 * rng.uniform(0.5, 1.5, 4000)
    y = 3e-4 * np.sin(X[:, 0]) + rng.normal(size=4000) / np.sqrt(weights)
    kernel = GaussianKernel(1.0, 1e-7)
    predicted = []
    for unit in (1.0, 1e-6):
        model = SpectralGPRegressor(kernel=kernel, noise_variance=unit).fit(X, y, sample_weight=unit * weights)
        assert model.error_.n_iterations > 0
        assert model.error_.converged
        predicted.append(model.predict(T, return_std=True))
    exact = ExactGPRegressor(kernel=kernel, noise_variance=1.0).fit(X, y, sample_weight=weights)
    for found in predicted:
        np.testing.assert_allclose(found, exact.predict(T, return_std=True), rtol=0, atol=1e-6)
    np.testing.assert_allclose(*predicted, rtol=0, atol=1e-8)


def test_the_way_of_a_solve_is_that_of_the_mean_precision_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, solve, seen = drawn()[0], ModePlan.solve, []
    rows = replace(rows, weights=np.linspace(0.001, 0.003, len(rows)))
    monkeypatch.setattr(ModePlan, "solve", lambda self, precision: seen.append(precision) or solve(self, precision))
    solved(KERNEL, rows, FINE)
    assert seen == pytest.approx([0.002], rel=1e-3)


class TestContract:
    @pytest.mark.parametrize("arguments", ["plain", "both"])
    def test_few_modes_answer_as_the_exact_process(self, arguments: str) -> None:
        rows, T = drawn(1, arguments)
        found, exact = solved(KERNEL, rows, FINE), ExactPosterior(KERNEL, rows, Noise(NOISE))
        assert found.variance_by == "exact, from all modes"
        for one, other in zip(found.predict(T), exact.predict(T), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-3)
        for one, other in zip(found.leave_one_out(), exact.leave_one_out(), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-3)
        np.testing.assert_allclose(found.covariance(T), exact.covariance(T), rtol=0, atol=1e-4)
        np.testing.assert_allclose(found.log_density(), exact.log_density(), rtol=0, atol=0.02)
        own = None if arguments == "both" else 0.07
        other = GaussianKernel(1.0, 1.1)
        np.testing.assert_allclose(found.log_density(other, own), exact.log_density(other, own), rtol=0, atol=0.02)

    @pytest.mark.parametrize("variance", [NOISE, 0.3])
    def test_rows_keep_noise_variances_of_their_own_at_another_noise(self, variance: float) -> None:
        rows, _ = drawn(1, "noises")
        found, exact = solved(KERNEL, rows, FINE), ExactPosterior(KERNEL, rows, Noise(NOISE))
        np.testing.assert_allclose(found.log_density(None, variance), exact.log_density(), rtol=0, atol=0.02)
        at = found.at(KERNEL, variance)
        assert at is not None
        np.testing.assert_allclose(at.products(), exact.products(), rtol=1e-4, atol=1e-2)

    def test_combined_targets_are_solved_for_already(self) -> None:
        rows, T = drawn(1, "both")
        found, combination = solved(KERNEL, rows, FINE), np.array([[1.0, 0.5, 0.0], [0.0, -2.0, 1.0]])
        combined = found.combined(combination)
        expected = found.predict(T, False)[0] @ combination
        np.testing.assert_allclose(combined.predict(T, False)[0], expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(combined.rows.Y, rows.Y @ combination, rtol=1e-12)
        np.testing.assert_allclose(combined.products(), combination.T @ found.products() @ combination, rtol=1e-10)
        again = solved(KERNEL, rows.with_targets(rows.Y @ combination), FINE)
        np.testing.assert_allclose(combined.predict(T, False)[0], again.predict(T, False)[0], rtol=0, atol=1e-4)
        assert combined.error(T).shape == (20, 3)

    def test_what_follows_from_the_rest_is_made_again(self) -> None:
        rows, T = drawn(2)
        for few in (2048, 0):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(spectral, "FEW_MODES", few)
                found = solved(GaussianKernel(2.0, 1.4), rows, 1e-2)
                found.prepare_variance()
                again = pickle.loads(pickle.dumps(found))
                assert not {"_system", "_local_variance", "_variance_series"} & set(vars(again))
                for one, other in zip(again.predict(T), found.predict(T), strict=True):
                    np.testing.assert_array_equal(one, other)

    def test_rows_out_of_reach_have_the_prior(self) -> None:
        rows, T = drawn()
        T[:2] += 100.0
        found = solved(KERNEL, rows, FINE)
        means, variances = found.predict(T)
        assert variances is not None
        np.testing.assert_array_equal(means[:2], 0.0)
        np.testing.assert_array_equal(variances[:2], 1.4)
        joint = found.covariance(T)
        np.testing.assert_allclose(joint[:2, :2], KERNEL(T[:2]), rtol=1e-12)
        np.testing.assert_array_equal(joint[:2, 2:], 0.0)

    def test_rows_at_opposite_ends_of_the_reach_and_beyond_are_no_neighbours(self) -> None:
        rows, _ = drawn()
        found, exact = solved(KERNEL, rows, FINE), ExactPosterior(KERNEL, rows, Noise(NOISE))
        low, high, reach = rows.X.min(), rows.X.max(), found.plan.modes.reach[0]
        T = np.array([low - 1.02 * reach, low - 0.98 * reach, low - 0.5, 3.0, high + 0.98 * reach])[:, None]
        np.testing.assert_allclose(found.covariance(T), exact.covariance(T), rtol=0, atol=1e-4)


class TestDraws:
    def test_their_mean_and_covariance_are_those_of_the_process(self) -> None:
        rows, T = drawn(1, "both", 40)
        T, n = T[:6], 4000
        found = solved(KERNEL, rows, FINE).sample(T, n, np.random.default_rng(3))
        assert found.shape == (6, n)
        expected = ExactPosterior(KERNEL, rows, Noise(NOISE)).covariance(T)
        deviations = np.sqrt(expected.diagonal())
        np.testing.assert_array_less(np.abs(found.mean(axis=1)), 5.0 * deviations / np.sqrt(n) + 1e-3)
        assert np.abs(np.cov(found) - expected).max() <= 6.0 * np.sqrt(2.0 / n) * deviations.max() ** 2

    def test_rows_that_the_modes_do_not_draw_are_refused(self) -> None:
        rows, _ = drawn()
        posterior, rng = solved(KERNEL, rows, FINE), np.random.default_rng(0)
        far = np.array([[3.0], [90.0], [-90.0]])
        with pytest.raises(InputError, match=r"2 rows are not, the first of them row 1") as refused:
            posterior.sample(far, 2, rng)
        low, high = map(float, re.findall(r"within \[(.+), (.+)\], where", str(refused.value))[0])
        assert low < rows.X.min() < rows.X.max() < high
        posterior.sample(np.array([[low + 1e-4], [high - 1e-4]]), 2, rng)
        for outside in (low - 1e-4, high + 1e-4):
            with pytest.raises(InputError, match="1 rows are not"):
                posterior.sample(np.array([[outside]]), 2, rng)


class TestVariance:
    @staticmethod
    def fitted(kernel: Kernel, n: int, extent: float) -> SpectralPosterior:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, extent, (n, 2))
        rows = Rows(X, np.sin(X).sum(axis=1) + 0.3 * rng.normal(size=n))
        plan = ModePlan.choose(kernel, Noise(0.1), rows, 1e-2)
        return ModeSums.for_plan(plan, 1).of(rows).posterior(np.eye(1))

    def test_of_few_rows_it_is_exact(self) -> None:
        assert self.fitted(GaussianKernel(0.5), 800, 20.0).variance_by == "exact, from all rows"

    @pytest.mark.parametrize("kernel", [GaussianKernel(0.5), MaternKernel(1.0)])
    def test_of_many_it_is_near_the_exact_one(self, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
        posterior = self.fitted(kernel, 2500, 20.0)
        T = np.random.default_rng(1).uniform(-1.0, 21.0, (200, 2))
        expected = ExactPosterior(kernel, posterior.rows, Noise(0.1)).variances(T)
        assert kl_divergence(0.0, posterior.variances(T) + 0.1, 0.0, expected + 0.1).mean() < 3e-4
        if isinstance(kernel, MaternKernel):
            assert re.fullmatch(
                r"from the nearest \d+ (of [\d,]+ corners of .*|rows), to about .*%", posterior.variance_by
            )
            return
        assert re.fullmatch(r"from \d+ Taylor features around \d+ centroids", posterior.variance_by)
        # Of a Gaussian, by the nearest rows too.
        monkeypatch.setattr(variance, "is_gaussian", lambda kernel: False)
        nearest = self.fitted(kernel, 2500, 20.0)
        assert nearest.variance_by.startswith("from the nearest")
        assert kl_divergence(0.0, nearest.variances(T) + 0.1, 0.0, expected + 0.1).mean() < 3e-4

    @pytest.mark.parametrize("unit", [1e-4, 1e4])
    def test_the_unit_of_weights_changes_no_number_of_modes(self, unit: float) -> None:
        rng, kernel = np.random.default_rng(0), MaternKernel(1.5, smoothness=2.5)
        X, weights = rng.uniform(0.0, 10.0, (300, 1)), rng.uniform(0.5, 2.0, 300)
        once, other = (
            ModePlan.choose(kernel, Noise(0.01 * each), Rows(X, np.zeros(300), w, None, w), 1e-3).modes.n_modes
            for each, w in ((1.0, weights), (unit, unit * weights))
        )
        assert once == other

    def test_the_unit_of_weights_changes_no_variance(self) -> None:
        rng, kernel = np.random.default_rng(0), GaussianKernel(1.0)
        X, weights, T = rng.uniform(0.0, 16.0, (2500, 2)), rng.uniform(0.5, 2.0, 2500), rng.uniform(0.0, 16.0, (50, 2))
        once, other = (
            variance.LocalVariance(kernel, Rows(X, np.zeros(2500), w, None, w), Noise(0.01 * unit), 1e-6, rng)(T)
            for unit, w in ((1.0, weights), (1e4, 1e4 * weights))
        )
        np.testing.assert_allclose(other, once, rtol=1e-9)

    @pytest.mark.slow
    @pytest.mark.parametrize("n_inputs", [1, 2])
    @pytest.mark.parametrize(("smoothness", "noise_variance"), [(1.5, 1.0), (2.5, 0.1), (0.5, 0.1)])
    def test_what_is_stated_is_the_error_of_the_standard_deviation(
        self, smoothness: float, noise_variance: float, n_inputs: int
    ) -> None:
        rng, kernel, noise = np.random.default_rng(0), MaternKernel(1.0, 1.0, smoothness), Noise(noise_variance)
        rows = Rows(rng.uniform(0.0, 5.0, (3000, n_inputs)), np.zeros(3000), rng.uniform(0.5, 2.0, 3000))
        found = variance.LocalVariance(kernel, rows, noise, 1e-6, rng)
        T = rng.uniform(0.0, 5.0, (300, n_inputs))
        ratios = found(T) / ExactPosterior(kernel, rows, noise).variances(T)
        off = 0.5 * np.sqrt(np.mean(np.square(ratios - 1.0)))
        (stated,) = re.findall(r"([\d.e-]+)%$", str(found))
        assert off < min(0.015, 0.02 * float(stated) + 1e-4)
        assert found._near.n_rows < 3000 or smoothness == 0.5


class TestPlan:
    def test_transforms_are_as_exact_as_the_tolerance_asks_for(self) -> None:
        rows, _ = drawn()

        def asked(tolerance: float, **options: float) -> float:
            return ModePlan.choose(KERNEL, Noise(NOISE), rows, tolerance, **options).transform_tolerance

        assert asked(0.01) == pytest.approx(TRANSFORM * 0.01 * NOISE / 1.4)
        assert asked(0.01, room=2.0) == pytest.approx(asked(0.01) / 4.0)
        assert asked(1e-13) == LEAST_TRANSFORM

    @pytest.mark.parametrize("room", [1.0, 2.0])
    def test_modes_that_take_more_memory_are_refused_with_their_number(self, room: float) -> None:
        X, kernel = np.random.default_rng(0).uniform(0.0, 9.0, (50, 2)), GaussianKernel(1.0)
        modes = choose_modes(kernel, X, 0.1, 1e-2, room)
        vectors = Toeplitz.n_bytes(modes.counts, 2) / 2**30
        sums = 16.0 * np.prod(half_shape(2 * modes.counts)) * 3 / 2**30
        check_modes(modes, kernel, 1e-2, 2, vectors + 4.0 * sums)
        first, second = (2 * int(m) + 1 for m in modes.counts)
        with pytest.raises(MemoryLimitError) as refused:
            check_modes(modes, kernel, 1e-2, 2, vectors + sums)
        told = str(refused.value)
        assert told.startswith(f"The {first:,} × {second:,} Fourier modes of ")
        assert (" and room=2" in told) == ("or less room" in told) == (room > 1.0)

    @pytest.mark.parametrize("noise_variance", [1e-2, 0.1, 1.0])
    @pytest.mark.parametrize("kernel", [GaussianKernel(0.3), GaussianKernel(0.05), MaternKernel(0.2, smoothness=1.5)])
    @pytest.mark.parametrize("d", [1, 2])
    def test_iterations_are_no_more_than_expected(self, d: int, kernel: Kernel, noise_variance: float) -> None:
        rng = np.random.default_rng(d)
        X = rng.uniform(size=(1000, d))
        rows = Rows(X, np.sin(6.0 * X).sum(axis=1) + 0.1 * rng.normal(size=1000))
        plan = ModePlan.choose(kernel, Noise(noise_variance), rows, 1e-2)
        error = ModeSums.for_plan(plan, 1).of(rows).posterior(np.eye(1)).accuracy
        assert 1 <= error.n_iterations <= expected_iterations(plan.modes, kernel, noise_variance, 1000)

    def test_more_rows_and_less_noise_are_expected_to_take_more_iterations(self) -> None:
        kernel, X = GaussianKernel(0.01), np.random.default_rng(0).uniform(size=(500, 2))
        modes = choose_modes(kernel, X, 0.1, 1e-3)
        some, more, quieter = (
            expected_iterations(modes, kernel, noise, n) for noise, n in [(0.1, 10_000), (0.1, 40_000), (0.025, 10_000)]
        )
        assert more == pytest.approx(quieter)
        assert more - 40.0 == pytest.approx(2.0 * (some - 40.0))
        # Of few modes, no more are left to solve for than there are.
        few = choose_modes(GaussianKernel(1.0), X[:, :1], 0.1, 1e-3)
        assert expected_iterations(few, GaussianKernel(1.0), 1e-9, 10**9) == 3 * few.n_modes

    def test_a_solve_that_may_take_longer_is_refused_by_its_count(self) -> None:
        rows, kernel = drawn(2, n=2000)[0], GaussianKernel(0.2)
        with pytest.raises(TimeLimitError, match=r"The sums of 2,000 rows .* iterations .* above max_seconds=1e-09"):
            ModePlan.choose(kernel, Noise(1e-4), rows, 1e-3, max_seconds=1e-9)
        plan = ModePlan.choose(kernel, Noise(1e-4), rows, 1e-3, max_seconds=1e6)
        sizes = 4 * plan.modes.counts + 1
        counted = of_transform(sizes, 2000, plan.transform_tolerance, plan.upsampling).seconds
        with pytest.raises(TimeLimitError):
            ModePlan.choose(kernel, Noise(1e-4), rows, 1e-3, max_seconds=counted)
        # At most as many iterations as are allowed.
        solve = plan.solve(1.0)
        one = counted + solve.cost.seconds / solve.n_iterations
        ModePlan.choose(kernel, Noise(1e-4), rows, 1e-3, max_seconds=1.01 * one, max_iterations=1)

    def test_grids_are_finer_where_that_takes_fewer_operations(self) -> None:
        plan = ModePlan.choose(GaussianKernel(2.0), Noise(0.1), drawn(3)[0], 1e-2)
        assert replace(plan, n_chosen=100, transform_tolerance=1e-5).upsampling == 1.25
        assert replace(plan, n_chosen=10**7, transform_tolerance=1e-7).upsampling == 2.0
        # The coarse grid is not accurate enough.
        assert replace(plan, n_chosen=100, transform_tolerance=1e-9).upsampling == 2.0


def test_a_kernel_that_the_modes_serve_badly_is_told() -> None:
    rows, _ = drawn()
    plan = ModePlan.choose(KERNEL, Noise(NOISE), rows, FINE)
    sums, rough = ModeSums.for_plan(plan, 2).of(rows), GaussianKernel(0.1, 1.4)
    with pytest.warns(ToleranceWarning, match="chosen for fewer rows or another kernel"):
        found = sums.with_kernel(rough, Noise(NOISE)).posterior(np.eye(2))
    assert found.accuracy.modes == pytest.approx(0.5 * plan.modes.n_near * (found.plan.left_out / NOISE) ** 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sums.posterior(np.eye(2))
