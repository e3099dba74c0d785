"""The regressor on Fourier modes against the exact process, at given hyperparameters."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    LinearKernel,
    MaternKernel,
    RationalQuadraticKernel,
    SpectralGPRegressor,
)
from lmgp.errors import InputError, MemoryLimitError, ToleranceWarning
from lmgp.kernels.base import Kernel
from lmgp.posteriors import toeplitz
from tests.conftest import changed, counts_and_noises

NOISE = 0.05
CASES: dict[str, tuple[int, Kernel]] = {
    "gaussian, 1 column": (1, GaussianKernel(0.7, 1.5)),
    "gaussian, 2 columns": (2, GaussianKernel([1.2, 0.8], 1.5)),
    "gaussian, 3 columns": (3, GaussianKernel([2.0, 1.5, 3.0], 1.5)),
    "matern32, 1 column": (1, MaternKernel(1.5)),
    "matern32, 2 columns": (2, MaternKernel([6.0, 4.0], 2.0)),
    "matern52, 2 columns": (2, MaternKernel([3.0, 2.0], 0.7, smoothness=2.5)),
    "matern52, 3 columns": (3, MaternKernel(12.0, 2.0, smoothness=2.5)),
    "rational quadratic, 1 column": (1, RationalQuadraticKernel(1.0, alpha=2.0)),
    "rational quadratic, 2 columns": (2, RationalQuadraticKernel([2.0, 3.0], 1.3, alpha=4.0)),
    "sum, 2 columns": (2, GaussianKernel([1.2, 2.0], 0.8) + MaternKernel(5.0, 0.5, smoothness=2.5)),
}
SMOOTH = {"kernel": GaussianKernel([1.2, 0.8], 1.5), "noise_variance": NOISE}


def drawn(d: int = 2, kernel: Kernel | None = None, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows in a box and targets of a model, around 7; and rows within the box."""
    kernel = (SMOOTH["kernel"] if kernel is None else kernel).checked(d)
    rng = np.random.default_rng(d)
    X, T = rng.uniform(2.0, 7.0, (n, d)), rng.uniform(2.0, 7.0, (60, d))
    root = np.linalg.cholesky(kernel(X) + NOISE * np.eye(n))
    return X, 7.0 + root @ rng.normal(size=n), T


def divergence(found: np.ndarray, expected: np.ndarray, noise: float = NOISE) -> float:
    """The mean KL divergence of predictions with these means and the variance of the noise, in nats."""
    return float(0.5 * np.mean((found - expected) ** 2) / noise)


def both(X: np.ndarray, y: np.ndarray, tolerance: float = 1e-3, given: Any = SMOOTH, **fit: Any) -> tuple[Any, Any]:
    exact = ExactGPRegressor(**given).fit(X, y, **fit)
    return SpectralGPRegressor(tolerance, **given).fit(X, y, **fit), exact


class TestMean:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", CASES)
    def test_it_is_as_near_to_the_exact_one_as_its_error_says(self, name: str) -> None:
        d, kernel = CASES[name]
        X, y, T = drawn(d, kernel)
        exact = ExactGPRegressor(kernel, NOISE).fit(X, y)
        expected, expected_new = exact.predict(X), exact.predict(T)
        before = np.inf
        for tolerance in (0.1, 0.01, 0.001) if d < 3 else (0.2, 0.05):
            model = SpectralGPRegressor(tolerance, kernel=kernel, noise_variance=NOISE).fit(X, y)
            error = model.error_
            # Half the squared tolerance for the modes, and for the iterations.
            assert error.converged
            assert error.iterations <= 0.5 * tolerance**2
            assert error.modes <= 1.5 * 0.5 * tolerance**2
            found = divergence(model.predict(X), expected)
            assert found <= 2.0 * error.divergence
            assert found <= max(
                before / 4.0, error.divergence
            )  # by chance, the one before may be far nearer than stated
            assert divergence(model.predict(T), expected_new) <= 20.0 * error.divergence
            before = found

    @pytest.mark.parametrize(
        "arguments", [("sample_weight",), ("noise_variances",), ("sample_weight", "noise_variances")]
    )
    def test_rows_with_weights_and_noises(self, arguments: tuple[str, ...]) -> None:
        X, y, T = drawn()
        counts, noises = counts_and_noises(len(y))
        given = {name: {"sample_weight": counts + 1.0, "noise_variances": noises}[name] for name in arguments}
        model, exact = both(X, y, **given)
        assert divergence(model.predict(T), exact.predict(T)) < 2e-5
        plain = SpectralGPRegressor(**SMOOTH).fit(X, y)
        assert divergence(plain.predict(T), exact.predict(T)) > 1e-3

    def test_integer_weights_are_repetitions(self) -> None:
        X, y, T = drawn()
        counts, _ = counts_and_noises(len(y))
        weighted = SpectralGPRegressor(1e-6, **SMOOTH).fit(X, y, sample_weight=counts)
        repeated = SpectralGPRegressor(1e-6, **SMOOTH).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        np.testing.assert_allclose(weighted.predict(T, True), repeated.predict(T, True), rtol=1e-5)

    def test_near_the_box_and_far_from_it(self) -> None:
        X, y, _ = drawn()
        model, exact = both(X, y)
        near = np.concatenate((X[:30] + np.array([2.0, 0.0]), X[:30] - [0.0, 2.0], [[0.5, 8.5], [8.0, 1.0]]))
        np.testing.assert_allclose(model.predict(near), exact.predict(near), rtol=0, atol=0.02 * np.sqrt(NOISE))
        rng = np.random.default_rng(0)
        # Each a little farther: through where the modes end, and onto where they repeat themselves.
        away = 4.5 + np.geomspace(2.0, 1e6, 400)[:, None] * rng.choice([-1.0, 0.0, 1.0], (400, 2))
        np.testing.assert_allclose(model.predict(away), exact.predict(away), rtol=0, atol=0.02 * np.sqrt(NOISE))
        far = X[:5] + 1000.0
        mean, std = model.predict(far, return_std=True)
        np.testing.assert_array_equal(mean, y.mean())
        np.testing.assert_allclose(std, np.sqrt(1.5), rtol=1e-12)

    def test_a_row_far_from_all_others(self) -> None:
        X, y, T = drawn()
        X[0], y[0] = [60.0, -40.0], 12.0
        model, exact = both(X, y, 1e-2)
        T = np.concatenate((T, X[:1], X[:1] + 0.3))
        assert divergence(model.predict(T), exact.predict(T)) < 1e-3
        assert model.predict(X[:1])[0] == pytest.approx(exact.predict(X[:1])[0], abs=0.05 * np.sqrt(NOISE))

    def test_constant_columns_and_repeated_rows(self) -> None:
        X, y, T = drawn()
        X, y = np.concatenate((X, X[:100])), np.concatenate((y, y[:100] + 0.1))
        X[:, 1], T[:, 1] = 5.0, 5.0
        model, exact = both(X, y)
        assert divergence(model.predict(T), exact.predict(T)) < 1e-5
        beside = T + np.array([0.0, 0.5])
        assert divergence(model.predict(beside), exact.predict(beside)) < 1e-5
        whole, exact = both(np.full((9, 2), 3.0), np.arange(9.0))
        assert whole.predict([[3.0, 3.0]])[0] == pytest.approx(exact.predict([[3.0, 3.0]])[0], abs=1e-3)

    def test_a_row_by_itself_is_predicted_as_among_others(self) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(1e-4, **SMOOTH).fit(X, y)
        together = model.predict(T, return_std=True)
        alone = np.array([model.predict(T[i : i + 1], return_std=True) for i in range(5)])[..., 0]
        # To the tolerance of the transforms.
        np.testing.assert_allclose(alone[:, 0], together[0][:5], rtol=0, atol=1e-4 * np.sqrt(NOISE))
        np.testing.assert_allclose(alone[:, 1], together[1][:5], rtol=1e-9)

    def test_targets_without_spread(self) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(**SMOOTH).fit(X, np.full(len(y), 4.0))
        np.testing.assert_allclose(model.predict(T), 4.0, rtol=1e-14)
        assert model.error_.n_iterations == 0

    @pytest.mark.parametrize("trend", ["constant", "linear"])
    def test_units_of_the_targets_and_columns(self, trend: Any) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(**SMOOTH, trend=trend).fit(X, y)
        for unit in (1e-6, 1e6):
            kernel = GaussianKernel([1.2e5, 0.8e-4], 1.5 * unit**2)
            scaled = SpectralGPRegressor(kernel=kernel, noise_variance=NOISE * unit**2, trend=trend)
            units = np.array([1e5, 1e-4])
            found = scaled.fit(X * units, unit * y).predict(T * units) / unit
            assert scaled.error_.n_iterations == pytest.approx(model.error_.n_iterations, abs=4)
            np.testing.assert_allclose(found, model.predict(T), rtol=0, atol=3e-3 * NOISE**0.5)


class TestVariance:
    @pytest.mark.parametrize(
        "name", ["gaussian, 1 column", "gaussian, 2 columns", "matern32, 2 columns", "sum, 2 columns"]
    )
    def test_it_is_near_the_exact_one(self, name: str) -> None:
        d, kernel = CASES[name]
        X, y, T = drawn(d, kernel)
        found = SpectralGPRegressor(kernel=kernel, noise_variance=NOISE).fit(X, y).predict(T, True, True)[1]
        expected = ExactGPRegressor(kernel, NOISE).fit(X, y).predict(T, True, True)[1]
        # Of a Gaussian, 66 local features.
        np.testing.assert_allclose(found, expected, rtol=0.03)


class TestTrend:
    @pytest.mark.parametrize("arguments", [(), ("sample_weight",), ("noise_variances",)])
    @pytest.mark.parametrize(("trend", "slopes"), [("linear", [2.0, -5.0]), ([1], [0.0, -5.0]), ([], [0.0, 0.0])])
    def test_it_is_that_of_the_exact_process(self, trend: Any, slopes: list[float], arguments: tuple[str, ...]) -> None:
        X, y, T = drawn()
        y = y + X @ slopes
        counts, noises = counts_and_noises(len(y))
        fit = {name: {"sample_weight": counts + 1.0, "noise_variances": noises}[name] for name in arguments}
        model, exact = both(X, y, given={**SMOOTH, "trend": trend}, **fit)
        (found, expected) = (np.append(one.trend_.coef, one.trend_.intercept) for one in (model, exact))
        errors = np.append(exact.trend_.coef_error, exact.trend_.intercept_error)
        assert np.all(np.abs(found - expected) <= 2e-3 * errors)
        off = np.abs(model.trend_.covariance - exact.trend_.covariance)
        assert np.all(off <= 1e-3 * np.outer(np.roll(errors, 1), np.roll(errors, 1)))
        # Beyond the box as well, where the trend leads on.
        T = np.concatenate((T, T[:20] + 2.0, T[:20] - 50.0))
        (mean, std), (expected, expected_std) = (one.predict(T, True, True) for one in (model, exact))
        assert divergence(mean[:60], expected[:60]) < 1e-5
        assert np.max(np.abs(mean - expected) / expected_std) < 0.01
        np.testing.assert_allclose(std, expected_std, rtol=0.03)

    @pytest.mark.parametrize("tolerance", [1e-2, 1e-3])
    def test_its_coefficients_are_as_near_however_many_the_rows(self, tolerance: float) -> None:
        """All but a ten-thousandth of what the rows say about them cancels."""
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 5.0, (30_000, 2))
        y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1]) + X @ [2.0, -1.0] + 0.3 * rng.normal(size=len(X))
        given = {"kernel": SMOOTH["kernel"], "noise_variance": 0.09, "trend": "linear"}
        found = SpectralGPRegressor(tolerance, **given).fit(X, y).trend_
        expected = SpectralGPRegressor(1e-6, **given).fit(X, y).trend_
        assert np.all(np.abs(found.coef - expected.coef) < 0.1 * expected.coef_error)
        np.testing.assert_allclose(found.coef_error, expected.coef_error, rtol=0.02)

    def test_all_columns_alike_are_one(self) -> None:
        X, y, T = drawn()
        X[:, 1], T[:, 1] = X[:, 0], T[:, 0]
        model, exact = both(X, y + 3.0 * X[:, 0], given={**SMOOTH, "trend": "linear"})
        np.testing.assert_allclose(
            model.trend_.coef, exact.trend_.coef, rtol=0, atol=0.01 * exact.trend_.coef_error.max()
        )
        assert divergence(model.predict(T), exact.predict(T)) < 1e-5


class TestLearned:
    @pytest.mark.parametrize(
        "given",
        [{}, {"kernel": ["gaussian", "matern52"]}, {"kernel": GaussianKernel(1.0, 1.5, lengthscale_bounds=(0.1, 9.0))}],
    )
    def test_what_is_learned_is_learned_as_for_the_exact_process(self, given: dict[str, Any]) -> None:
        X, y, T = drawn(n=120)
        exact = ExactGPRegressor(random_state=0, **given).fit(X, y)
        model = SpectralGPRegressor(0.01, random_state=0, **given).fit(X, y)
        np.testing.assert_array_equal(model.kernel_.theta, exact.kernel_.theta)
        assert model.noise_variance_ == exact.noise_variance_
        assert divergence(model.predict(T), exact.predict(T), model.noise_variance_) < 5e-4


class TestError:
    def test_it_is_said_where_iterations_end_too_early(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", 0)
        X, y, _ = drawn()
        given = {**SMOOTH, "noise_variance": 1e-6}
        with pytest.warns(ToleranceWarning, match=r"3 iterations leave .* up to .*raise max_iterations or tolerance"):
            model = SpectralGPRegressor(max_iterations=3, **given).fit(X, y)
        error = model.error_
        assert not error.converged
        assert error.n_iterations == 3
        assert "not converged" in str(error)
        exact = ExactGPRegressor(**given).fit(X, y)
        assert divergence(model.predict(X), exact.predict(X), 1e-6) <= error.iterations

    def test_it_is_a_table(self) -> None:
        X, y, _ = drawn()
        error = SpectralGPRegressor(**SMOOTH).fit(X, y).error_
        assert str(error).startswith(f"{error.n_modes:,} modes, {error.n_iterations} iterations\n")
        assert error.divergence == error.iterations + error.modes

    def test_it_is_that_of_every_prediction(self) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(**SMOOTH).fit(X, y)
        mean, error = model.predict(T, return_error=True)
        np.testing.assert_array_equal(error, model.error_.divergence)
        np.testing.assert_array_equal(mean, model.predict(T))

    def test_none_before_the_fit(self) -> None:
        with pytest.raises(AttributeError, match="SpectralGPRegressor has no error_: it is not fitted"):
            _ = SpectralGPRegressor().error_


class TestSamples:
    @pytest.mark.parametrize("trend", ["constant", "linear"])
    @pytest.mark.parametrize("fit", ["plain", "noises"])
    def test_they_have_the_exact_mean_and_covariance(self, trend: str, fit: str) -> None:
        X, y, _ = drawn(n=60)
        T = np.array([[3.0, 3.0], [3.3, 3.1], [6.5, 2.2], [5.0, 7.5], [1.2, 6.0]])
        noises = counts_and_noises(len(y))[1] if fit == "noises" else np.full(60, NOISE)
        kernel, n = SMOOTH["kernel"], 600
        model = SpectralGPRegressor(**SMOOTH, trend=trend).fit(X, y, noise_variances=noises)
        draws = model.sample_y(T, n, random_state=1)
        assert draws.shape == (5, n)
        covariance, cross = kernel(X) + np.diag(noises), kernel(X, T)
        expected = kernel(T) - cross.T @ np.linalg.solve(covariance, cross)
        if trend == "linear":
            H, h = (np.column_stack((np.ones(len(Z)), Z)) for Z in (X, T))
            solved = np.linalg.solve(covariance, H)
            r = h - cross.T @ solved
            expected += r @ np.linalg.solve(H.T @ solved, r.T)
        exact = ExactGPRegressor(**SMOOTH, trend=trend).fit(X, y, noise_variances=noises)
        std = np.sqrt(np.diag(expected))
        assert np.max(np.abs(draws.mean(axis=1) - exact.predict(T)) / std) < 4.0 / np.sqrt(n)
        # Var(ab) = 1 + ρ² of two unit normals.
        found = np.cov(draws) / np.outer(std, std)
        assert np.max(np.abs(found - expected / np.outer(std, std))) < 4.0 * np.sqrt(2.0 / n)
        assert np.max(np.abs(np.diag(expected) - np.diag(np.cov(draws)))) < 0.3 * np.max(std**2)

    @pytest.mark.parametrize("d", [1, 2, 3])
    def test_without_knowledge_they_are_of_the_prior(self, d: int) -> None:
        """The noise drowns the targets."""
        kernel, n = GaussianKernel(2.0, 1.3), 500
        X = np.random.default_rng(d).uniform(2.0, 7.0, (40, d))
        model = SpectralGPRegressor(3e-6, kernel=kernel, noise_variance=1e4).fit(X, X[:, 0])
        T = np.random.default_rng(7).uniform(2.0, 7.0, (5, d))
        draws = model.sample_y(T, n, random_state=3) - X[:, 0].mean()
        assert np.max(np.abs(draws @ draws.T / n - kernel(T))) < 5.0 * 1.3 * np.sqrt(2.0 / n)

    @pytest.mark.parametrize("n_samples", [0, -1, 1.5, True])
    def test_their_number_is_a_positive_integer(self, n_samples: Any) -> None:
        X = np.random.default_rng(0).uniform(2.0, 7.0, (40, 2))
        model = SpectralGPRegressor(**SMOOTH).fit(X, X[:, 0])
        with pytest.raises(InputError, match="n_samples must be a positive integer; got"):
            model.sample_y(X, n_samples)

    def test_a_draw_is_one_function(self) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(1e-4, **SMOOTH).fit(X, y)
        whole = model.sample_y(T, 3, random_state=5)
        np.testing.assert_array_equal(model.sample_y(T, 3, random_state=5), whole)
        np.testing.assert_allclose(model.sample_y(T[[7, 3]], 3, random_state=5), whole[[7, 3]], rtol=0, atol=1e-4)
        assert np.max(np.abs(model.sample_y(T, 3, random_state=6) - whole)) > 0.05
        assert model.sample_y(T[:1]).shape == (1, 1)

    def test_rows_on_either_side_of_the_box_are_drawn_apart(self) -> None:
        """Their copies, a period apart, are no nearer than the reach."""
        X, y, _ = drawn()
        model = SpectralGPRegressor(**SMOOTH).fit(X, y)
        with pytest.raises(InputError, match=r"Draws are of rows within \[.*\] × \[.*; 2 rows are not, .* row 1\."):
            model.sample_y(np.concatenate((X[:1], X[:2] + 1000.0)))
        modes = model._posterior().plan.modes
        sides = np.array([modes.low - 0.499 * modes.reach, modes.high + 0.499 * modes.reach])
        mean, std = model.predict(sides, return_std=True)
        (low, high) = (model.sample_y(sides, 600, random_state=2) - mean[:, None]) / std[:, None]
        assert abs(np.mean(low * high)) < 4.0 / np.sqrt(600)
        np.testing.assert_allclose([np.std(low), np.std(high)], 1.0, atol=4.0 / np.sqrt(1200))


class TestRefused:
    @pytest.mark.parametrize(
        "kernel", [MaternKernel(1.0, smoothness=0.5), GaussianKernel(1e-4), GaussianKernel([1.0, 1e-9])]
    )
    def test_more_modes_than_memory(self, kernel: Kernel) -> None:
        X, y, _ = drawn()
        model = SpectralGPRegressor(kernel=kernel, noise_variance=NOISE, max_memory_gib=0.05)
        with pytest.raises(
            MemoryLimitError, match=r"Fourier modes of .*max_memory_gib=0.05.*use NearestNeighborsGPRegressor"
        ):
            model.fit(X, y)
        assert not hasattr(model, "kernel_")

    @pytest.mark.parametrize("tolerance", [0, -1e-3, np.nan, "small"])
    def test_a_tolerance_that_is_none(self, tolerance: Any) -> None:
        X, y, _ = drawn()
        with pytest.raises(
            ValueError, match=r"'tolerance' parameter of SpectralGPRegressor must be a float in the range \(0"
        ):
            SpectralGPRegressor(tolerance, **SMOOTH).fit(X, y)

    def test_four_columns(self) -> None:
        X = np.random.default_rng(0).normal(size=(30, 4))
        with pytest.raises(InputError, match=r"at most 3 columns; X has 4. Use GPRegressor or NearestN"):
            SpectralGPRegressor(kernel=GaussianKernel(), noise_variance=NOISE).fit(X, X[:, 0])

    def test_a_kernel_without_a_density(self) -> None:
        X, y, _ = drawn()
        with pytest.raises(InputError, match=r"Fourier modes needs .*LinearKernel.* can: GaussianKernel"):
            SpectralGPRegressor(kernel=LinearKernel(), noise_variance=NOISE).fit(X, y)

    def test_a_refused_refit_leaves_the_model_as_it_was(self) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(**SMOOTH).fit(X, y)
        expected = model.predict(T)
        with pytest.raises(MemoryLimitError):
            model.set_params(kernel=GaussianKernel(1e-6)).fit(X, y)
        np.testing.assert_array_equal(model.predict(T), expected)


class TestBehaviour:
    def test_it_is_deterministic_and_clones(self) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(**SMOOTH, trend="linear").fit(X, y)
        again = clone(model).fit(X, y)
        np.testing.assert_array_equal(again.predict(T, True), model.predict(T, True))
        assert again.error_ == model.error_

    @pytest.mark.parametrize("predicted", [False, True])
    def test_it_pickles(self, predicted: bool) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(**SMOOTH, trend="linear").fit(X, y)
        if predicted:
            model.predict(T, return_std=True)
        twin = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(twin.predict(T, True), model.predict(T, True))
        np.testing.assert_array_equal(twin.sample_y(T, 2), model.sample_y(T, 2))
        assert twin.error_ == model.error_

    def test_the_caller_may_change_the_rows_afterwards(self) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(**SMOOTH).fit(X, y)
        expected, draws = SpectralGPRegressor(**SMOOTH).fit(X.copy(), y.copy()).predict(T, True), model.sample_y(T)
        X[:], y[:] = 0.0, 0.0
        np.testing.assert_array_equal(model.predict(T, True), expected)
        np.testing.assert_array_equal(model.sample_y(T), draws)

    def test_no_warning_on_ordinary_rows(self) -> None:
        X, y, T = drawn()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            SpectralGPRegressor(**SMOOTH, trend="linear").fit(X, y).predict(T, return_std=True)

    def test_one_target_changes_the_predictions_around_it(self) -> None:
        X, y, _ = drawn()
        model, other = (SpectralGPRegressor(**SMOOTH).fit(X, one) for one in (y, changed(y, y[4] + 1.0)))
        far = np.linalg.norm(X - X[4], axis=1) > 4.5
        off = np.abs(model.predict(X) - other.predict(X))
        assert off[4] > 0.01
        assert np.max(off[far]) < 0.1 * off[4]


@pytest.mark.parametrize("lengthscale", [0.5, 1.0])
def test_of_little_noise_each_row_is_left_out_as_from_the_exact_process(lengthscale: float) -> None:
    """What the modes leave out of the prior variance is no part of the variance of local models."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 8.0, (60, 2))
    y = np.sin(X).sum(axis=1) + 0.07 * rng.normal(size=60)
    given = {"kernel": MaternKernel(lengthscale), "noise_variance": 0.005}
    exact = ExactGPRegressor(**given).fit(X, y).loo_
    found = SpectralGPRegressor(**given).fit(X, y).loo_
    np.testing.assert_allclose(found.std, exact.std, rtol=1e-3)
    assert np.abs((found.mean - exact.mean) / exact.std).max() < 0.02
