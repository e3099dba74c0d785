"""Learning from rows that are hard to learn from: a finite result or a clear error."""

import math
import time
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp import ExactGPRegressor, GPRegressor, learn
from lmgp.data import Rows
from lmgp.errors import DuplicateRowsWarning, InputError
from lmgp.learning import engine
from lmgp.learning.record import Learned
from lmgp.learning.space import LEAST_NOISE
from lmgp.utils.linalg import ROUNDING

Floats = NDArray[np.float64]


def plane(n: int = 60, d: int = 2, noise: float = 0.1, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] + noise * rng.normal(size=n)


def assert_usable(found: Learned, y: Floats) -> None:
    assert np.isfinite(found.kernel.theta).all()
    assert math.isfinite(found.log_marginal_likelihood)
    assert 0.0 < found.noise_variance < 10.0 * np.var(y)
    for trial in found.learning:
        assert math.isfinite(trial.log_likelihood)


LIKELY = {"kernel": ["matern12", "gaussian", "matern12+gaussian"], "ard": "auto", "random_state": 0}


@pytest.mark.usefixtures("small")
class TestColumns:
    def test_a_constant_column_changes_nothing(self) -> None:
        X, y = plane()
        first = learn(X, y, kernel="gaussian", ard=False, random_state=0)
        for constant in (0.0, 4.0, -1.7e18):
            found = learn(np.column_stack((X, np.full(60, constant))), y, kernel="gaussian", ard=False, random_state=0)
            assert_usable(found, y)
            # But for the prior's median, √d standard deviations.
            assert found.log_marginal_likelihood == pytest.approx(first.log_marginal_likelihood, abs=0.2)
        assert_usable(learn(np.column_stack((X, np.full(60, 4.0))), y, **LIKELY), y)

    def test_copied_columns(self) -> None:
        X, y = plane()
        assert_usable(learn(np.column_stack((X, X, X[:, :1])), y, **LIKELY), y)

    @pytest.mark.slow
    def test_a_column_of_one_value_but_in_one_row(self) -> None:
        X, y = plane()
        rare = np.zeros(60)
        rare[7] = 1.0
        assert_usable(learn(np.column_stack((X, rare)), y, **LIKELY), y)
        assert_usable(learn(rare[:, None], y, **LIKELY), y)

    def test_columns_with_heavy_tails(self) -> None:
        rng = np.random.default_rng(0)
        X, y = rng.standard_cauchy((80, 2)), rng.normal(size=80)
        X[3, 0] = 1e9
        assert_usable(learn(X, y, **LIKELY), y)

    def test_whole_numbers(self) -> None:
        X, y = plane(100)
        assert_usable(learn(np.round(X), np.round(y), **LIKELY), y)

    @pytest.mark.parametrize("scale", [1e99, 1e-90])
    def test_large_and_small_numbers(self, scale: float) -> None:
        X, y = plane()
        first, found = (learn(rows, y, kernel="gaussian", ard=True, random_state=0) for rows in (X, scale * X))
        np.testing.assert_allclose(found.kernel.lengthscale, scale * np.asarray(first.kernel.lengthscale), rtol=1e-4)

    @pytest.mark.parametrize("scales", [(1e150, 1.0), (1e-150, 1.0), (1.0, 1e150), (1.0, 1e-150)])
    def test_squares_out_of_float64_are_told(self, scales: tuple[float, float]) -> None:
        X, y = plane()
        with pytest.raises(InputError, match=r"(overflow|underflow).*(Divide|Multiply)"):
            learn(scales[0] * X, scales[1] * y, random_state=0)

    def test_a_model_of_raw_columns_takes_them(self) -> None:
        X, y = plane()
        raw = np.column_stack((X * [1e6, 1e-6], np.full(60, 3.0), X[:, 0]))
        model = GPRegressor(kernel="matern32", random_state=0).fit(raw, y)
        assert np.isfinite(model.predict(raw)).all()
        assert np.isfinite(model.inverse_lengthscales_).all()


@pytest.mark.usefixtures("small")
class TestRows:
    @pytest.mark.parametrize("n", [2, 3, 5, 12, 30])
    def test_auto_on_few_rows(self, n: int) -> None:
        X, y = plane(n)
        assert_usable(learn(X, y, random_state=0), y)

    def test_few_rows_of_many_columns(self) -> None:
        X, y = plane(30, d=200)
        start = time.perf_counter()
        found = learn(X, y, random_state=0)
        assert_usable(found, y)
        assert time.perf_counter() - start < 30.0

    @pytest.mark.parametrize("max_learning_rows", [100, 2000])
    def test_copies_by_the_thousand(self, max_learning_rows: int) -> None:
        X, y = plane(20)
        many, targets = np.repeat(X, 60, axis=0), np.repeat(y, 60)
        with pytest.warns(DuplicateRowsWarning, match="1,180 of 1,200 rows are exact copies"):
            found = learn(
                many, targets, kernel="matern32", max_learning_rows=min(max_learning_rows, 300), random_state=0
            )
        assert_usable(found, y)
        assert found.learning.n_copies == 1180
        assert "1,180 are exact copies" in str(found.learning)

    def test_copies_of_other_weights_are_told_by_whole_places(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A sample of single rows hardly holds two of a place."""
        X, y = plane(150)
        weights = np.random.default_rng(0).uniform(0.5, 1.5, 300)
        monkeypatch.setattr(engine, "FIRST_ROWS", 30)
        with pytest.warns(DuplicateRowsWarning, match="150 of 300 rows are exact copies"):
            learn(np.repeat(X, 2, axis=0), np.repeat(y, 2), weights, kernel="matern32", random_state=0)

    def test_only_for_a_user_they_are_learned_from_again_without_copies(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y = plane(20)
        rows, sizes, search = Rows(np.repeat(X, 6, axis=0), np.repeat(y - y.mean(), 6)), list[int](), engine._by_search

        def spy(rows: Rows, *arguments: Any) -> Learned:
            sizes.append(len(rows) if rows.weights is None else round(float(rows.weights.sum())))
            return search(rows, *arguments)

        monkeypatch.setattr(engine, "_by_search", spy)
        engine.remembered.cache_clear()
        engine.learn_rows(rows, engine.Settings("matern32"))
        assert sizes == [120]
        with pytest.warns(DuplicateRowsWarning, match="100 of 120 rows"):
            engine.learn_warned(rows, engine.Settings("matern32"))
        assert sorted(sizes) == [20, 120, 120]  # with and without copies, of as many places

    def test_equal_rows_with_other_targets_say_what_the_noise_is(self) -> None:
        rng = np.random.default_rng(0)
        X, y = plane(20, noise=0.0)
        many, targets = np.repeat(X, 15, axis=0), np.repeat(y, 15) + 0.1 * rng.normal(size=300)
        found = learn(many, targets, kernel="gaussian", max_learning_rows=100, random_state=0)
        assert found.noise_variance == pytest.approx(0.01, rel=0.3)

    def test_near_copies_do_not_drive_the_noise_to_zero(self) -> None:
        X, y = plane(60)
        rng = np.random.default_rng(1)
        many = np.repeat(X, 4, axis=0) + 1e-9 * rng.normal(size=(240, 2))
        found = learn(many, np.repeat(y, 4), kernel="matern32", random_state=0)
        assert found.noise_variance >= LEAST_NOISE * np.var(y) * (1 - 1e-9)
        assert_usable(found, y)

    def test_rows_that_are_all_the_same(self) -> None:
        with pytest.raises(InputError, match="All rows of X are the same"):
            learn(np.ones((20, 2)), np.arange(20.0), random_state=0)


@pytest.mark.usefixtures("small")
class TestTargets:
    @pytest.mark.slow
    @pytest.mark.parametrize("max_learning_rows", [100, 2000])
    def test_with_heavy_tails(self, max_learning_rows: int) -> None:
        X, y = plane(250)
        y = y + 0.1 * np.random.default_rng(1).standard_cauchy(250)
        y[5] = 1e6
        assert_usable(learn(X, y, max_learning_rows=max_learning_rows, **LIKELY), y)

    @pytest.mark.parametrize("max_learning_rows", [100, 2000])
    def test_without_noise(self, max_learning_rows: int) -> None:
        X, y = plane(250, noise=0.0)
        found = learn(X, y, max_learning_rows=max_learning_rows, **LIKELY)
        assert_usable(found, y)
        assert found.noise_variance < 1e-3 * y.var()

    def test_of_noise_alone(self) -> None:
        X, _ = plane(150)
        y = np.random.default_rng(1).normal(size=150)
        found = learn(X, y, **LIKELY)
        assert_usable(found, y)
        # The density is that of independent numbers, but for what free parameters gain.
        independent = -0.5 * 150 * (np.log(2.0 * np.pi * y.var()) + 1.0)
        assert independent - 1.0 < found.log_marginal_likelihood < independent + 6.0

    @pytest.mark.slow
    def test_of_two_values_and_of_one_that_is_rare(self) -> None:
        X, y = plane(100)
        assert_usable(learn(X, (y > 0.0).astype(float), **LIKELY), y)
        rare = np.zeros(100)
        rare[3] = 1.0
        assert_usable(learn(X, rare, **LIKELY), rare)

    @pytest.mark.parametrize("kernel", [None, "auto", "gaussian"])
    def test_that_are_all_equal(self, kernel: str | None) -> None:
        X, _ = plane()
        with pytest.raises(InputError, match="y is constant"):
            learn(X, np.full(60, 0.1), kernel=kernel)
        with pytest.raises(InputError, match="y is constant"):
            ExactGPRegressor(kernel).fit(X, np.full(60, 0.1))

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_that_are_not_finite(self, bad: float) -> None:
        X, y = plane()
        y[3] = bad
        with pytest.raises(ValueError, match="y contains"):
            learn(X, y)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "nlpd"), [(800, -11.0), (2500, -9.0)])
def test_a_smooth_function_without_noise(n: int, nlpd: float) -> None:
    X = 2.0 * np.random.default_rng(0).uniform(size=(n + 500, 3))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GPRegressor().fit(X[:n], y[:n])
        predicted = model.predict_distribution(X[n:])
    assert -predicted.logpdf(y[n:]).mean() - np.log(y.std()) < nlpd
    assert model.noise_variance_ >= LEAST_NOISE * np.var(y[:n]) * (1.0 - 1e-9)


@pytest.mark.slow
def test_learned_noise_is_above_the_rounding_of_its_kernel() -> None:
    X = np.random.default_rng(0).uniform(size=(600, 2))
    y = (X[:, 1] - X[:, 0] ** 2) ** 2 + X[:, 0]
    found = learn(X, y, likelihood="vecchia")
    assert found.noise_variance >= ROUNDING * 600 * found.kernel.diagonal(X).max() * (1.0 - 1e-9)
    ExactGPRegressor(found.kernel, found.noise_variance).fit(X[::-1], y[::-1])
