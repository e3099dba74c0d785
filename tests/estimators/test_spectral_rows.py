"""Rows that come later: updates and merges of the regressor on Fourier modes against one fit, and the exact process."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, MaternKernel, SpectralGPRegressor
from lmgp.errors import InputError, ToleranceWarning
from lmgp.posteriors import toeplitz, variance
from tests.conftest import counts_and_noises

GIVEN = {"kernel": GaussianKernel([0.7, 0.6], 1.5), "noise_variance": 0.05}
# So small that two solutions agree to 1e-8.
TIGHT = 1e-9
FIELDS = ("generator", "cross", "products", "totals")


def drawn(n: int = 240) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of which the first four span the box, targets around 7, and new rows in and beyond it."""
    rng = np.random.default_rng(0)
    X = np.concatenate(([[0.0, 0.0], [5.0, 0.0], [0.0, 4.0], [5.0, 4.0]], rng.uniform(0.0, [5.0, 4.0], (n - 4, 2))))
    y = 7.0 + np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)
    return X, y, rng.uniform(-0.5, [5.5, 4.5], (30, 2))


def assert_same(found: Any, expected: Any, T: np.ndarray, atol: float = 1e-8) -> None:
    for one, other in zip(found.predict(T, True), expected.predict(T, True), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=atol)
    assert found.center_ == pytest.approx(expected.center_, rel=1e-12)
    if expected.trend_ is not None:
        np.testing.assert_allclose(found.trend_.coef, expected.trend_.coef, rtol=0, atol=1e-6)
        np.testing.assert_allclose(found.trend_.covariance, expected.trend_.covariance, rtol=1e-5, atol=1e-8)


class TestUpdate:
    @pytest.mark.slow
    @pytest.mark.parametrize("arguments", [(), ("sample_weight",), ("sample_weight", "noise_variances")])
    @pytest.mark.parametrize("trend", ["constant", "linear"])
    def test_it_is_one_fit_to_all_rows(self, trend: str, arguments: Any) -> None:
        X, y, T = drawn()
        counts, noises = counts_and_noises(len(y))
        values = {"sample_weight": counts + 0.5, "noise_variances": noises}
        given = {**GIVEN, "trend": trend}

        def part(of: slice) -> dict[str, Any]:
            return {"X": X[of], "y": y[of], **{name: values[name][of] for name in arguments}}

        model = SpectralGPRegressor(TIGHT, **given).fit(**part(slice(0, 100)))
        expected = SpectralGPRegressor(TIGHT, **given).fit(**part(slice(None)))
        for of in (slice(100, 101), slice(101, 200), slice(200, None)):
            assert model.update(**part(of)) is model
        assert model.variance_by_ != "exact, from all modes"
        assert_same(model, expected, T)
        assert_same(model, ExactGPRegressor(**given).fit(**part(slice(None))), T)
        assert model.error_.iterations <= TIGHT**2
        np.testing.assert_allclose(model.inverse_lengthscales_, expected.inverse_lengthscales_, rtol=1e-12)

    @pytest.mark.parametrize("trend", ["constant", "linear"])
    def test_of_few_modes_the_variance_is_theirs(self, trend: str) -> None:
        X, y, T = (one[..., :1] if one.ndim == 2 else one for one in drawn())
        given = {"kernel": GaussianKernel(0.7, 1.5), "noise_variance": 0.05, "trend": trend}
        model = SpectralGPRegressor(TIGHT, **given).fit(X[:100], y[:100]).update(X[100:], y[100:])
        assert model.variance_by_ == "exact, from all modes"
        assert_same(model, ExactGPRegressor(**given).fit(X, y), T)

    def test_in_any_order(self) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(TIGHT, **GIVEN).fit(X[:50], y[:50])
        other = pickle.loads(pickle.dumps(model))
        for start in range(50, 240, 38):
            model.update(X[start : start + 38], y[start : start + 38])
        other.update(X[:49:-1], y[:49:-1])
        assert_same(model, other, T)

    @pytest.mark.parametrize("most", [2048, 400, 0])
    def test_in_any_order_at_any_tolerance(self, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", most)
        X, y, T = drawn(400)
        model = SpectralGPRegressor(1e-2, **GIVEN).fit(X[:50], y[:50])
        assert model.error_.n_modes > 400
        parts = [slice(50, 51), slice(51, 200), slice(200, 400)]
        found = [pickle.loads(pickle.dumps(model)) for _ in range(3)]
        for one, order in zip(found, ([0, 1, 2], [2, 1, 0], [1, 0, 2]), strict=True):
            for i in order:
                one.partial_fit(X[parts[i]], y[parts[i]])
                one.predict(T[:1])
        found.append(model.with_rows(X[::-1], y[::-1]))
        found.append(model.with_rows(X[200:], y[200:]).merge(model.with_rows(X[:200], y[:200])))
        found.append(model.with_rows(np.concatenate((X, X[:30] + 0.1)), np.append(y, y[:30])))
        found[-1].forget(X[:30] + 0.1, y[:30])
        assert all(one.error_.converged for one in found)
        for one in found[1:]:
            assert_same(one, found[0], T)

    def test_rows_with_noise_variances_after_rows_without(self) -> None:
        X, y, T = drawn()
        noises = counts_and_noises(140)[1]
        model = SpectralGPRegressor(TIGHT, **GIVEN).fit(X[:100], y[:100]).update(X[100:], y[100:], None, noises)
        exact = ExactGPRegressor(**GIVEN).fit(X, y, noise_variances=np.append(np.full(100, 0.05), noises))
        assert_same(model, exact, T)

    def test_a_new_mean_far_from_the_old_one(self) -> None:
        X, y, T = drawn()
        y[100:] += 1e4
        given = {"kernel": GaussianKernel([0.7, 0.6], 1e7), "noise_variance": 1e6}
        model = SpectralGPRegressor(TIGHT, **given).fit(X[:100], y[:100]).update(X[100:], y[100:])
        assert_same(model, ExactGPRegressor(**given).fit(X, y), T, atol=1e-5)

    def test_iterations_start_from_the_solution(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", 0)
        X, y, T = drawn(2000)
        model = SpectralGPRegressor(1e-3, **GIVEN).fit(X[:1995], y[:1995])
        first = model.error_.n_iterations
        model.update(X[1995:], y[1995:])
        assert model.error_.n_iterations < 0.6 * first
        exact = ExactGPRegressor(**GIVEN).fit(X, y)
        assert np.sqrt(np.mean((model.predict(T) - exact.predict(T)) ** 2) / 0.05) < 5e-3

    @pytest.mark.parametrize("kernel", [GaussianKernel(0.4), MaternKernel(4.0, smoothness=2.5)])
    def test_the_local_variance_gets_the_rows(self, kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T = drawn(500)
        monkeypatch.setattr(variance, "FEW", 100)
        given = {"kernel": kernel, "noise_variance": 0.05}
        hole = np.linalg.norm(X - [2.0, 2.0], axis=1) < 1.0
        model = SpectralGPRegressor(1e-3, **given).fit(X[~hole], y[~hole])
        before = model.predict([[2.0, 2.0]], return_std=True)[1]
        model.update(X[hole], y[hole])
        exact = ExactGPRegressor(**given).fit(X, y)
        np.testing.assert_allclose(model.predict(T, True)[1], exact.predict(T, True)[1], rtol=0.03)
        assert model.predict([[2.0, 2.0]], return_std=True)[1] < 0.8 * before

    def test_a_time_series_goes_on_within_the_box(self) -> None:
        time = np.linspace(0.0, 30.0, 300)[:, None]
        y = np.sin(time[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=300)
        given = {"kernel": GaussianKernel(1.2), "noise_variance": 0.05}
        model = SpectralGPRegressor(TIGHT, **given, box=[[0.0], [30.0]]).fit(time[:50], y[:50])
        for start in range(50, 300, 50):
            model.update(time[start : start + 50], y[start : start + 50])
        assert_same(model, ExactGPRegressor(**given).fit(time, y), np.linspace(-2.0, 32.0, 60)[:, None])
        with pytest.raises(InputError, match=r"within \[-.*\], .*2 rows are not.* box that holds those to come"):
            model.update([[31.0], [35.0]], [0.0, 0.0])

    def test_it_says_where_iterations_end_too_early(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", 0)
        X, y, _ = drawn()
        model = SpectralGPRegressor(1e-3, max_iterations=60, **{**GIVEN, "noise_variance": 1e-3})
        model.fit(X[:4], y[:4])
        with pytest.warns(ToleranceWarning, match="60 iterations leave an error"):
            model.update(X[4:], y[4:])
        assert not model.error_.converged


class TestForgotten:
    @pytest.mark.parametrize("large", [1e8, 1e12])
    @pytest.mark.parametrize("targets", [np.ones(50), np.random.default_rng(1).normal(size=50)], ids=["equal", "drawn"])
    @pytest.mark.parametrize("trend", ["constant", "linear"])
    def test_the_stated_error_has_what_large_targets_leave(self, trend: str, targets: Any, large: float) -> None:
        X, y, _ = drawn()
        given = {**GIVEN, "trend": trend, "box": [[0.0, 0.0], [5.0, 4.0]]}
        gone = X[10:60] + 0.01, large * targets
        # The first rows: the model holds all others less what these have as their trend.
        model = SpectralGPRegressor(**given).fit([gone]).partial_fit(X, y).forget(*gone)
        off = model.predict(X) - SpectralGPRegressor(TIGHT, **given).fit(X, y).predict(X)
        assert 0.5 * np.mean(off**2) / 0.05 <= model.error_.divergence
        if large == 1e8:
            np.testing.assert_allclose(off, 0.0, rtol=0.0, atol=1e-3)


class TestOutgrown:
    def test_many_more_rows_than_the_modes_were_chosen_for(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 20.0, (20_000, 1))
        y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=20_000)
        given = {"kernel": MaternKernel(1.5), "noise_variance": 0.09}
        model = SpectralGPRegressor(1e-2, **given, box=[[0.0], [20.0]]).fit(X[:200], y[:200])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.update(X[200:400], y[200:400])
        with pytest.warns(
            ToleranceWarning, match=r"chosen for fewer rows .*for 20,000 rows, .* off by up to about 0\.1"
        ):
            model.update(X[400:], y[400:])
        whole = SpectralGPRegressor(1e-4, **given).fit(X, y)
        off = np.sqrt(np.mean((model.predict(X[:500]) - whole.predict(X[:500])) ** 2) / 0.09)
        assert 0.01 < off < 0.1

    def test_a_much_smaller_learned_noise(self) -> None:
        X = np.random.default_rng(0).uniform(0.0, 20.0, (300, 1))
        y = np.sin(X[:, 0]) + 0.01 * np.random.default_rng(1).normal(size=300)
        model = SpectralGPRegressor(1e-2, kernel=MaternKernel(1.5), noise_variance=0.1).fit(X, y)
        with pytest.warns(ToleranceWarning, match=r"or another kernel: .*Fit again"):
            model.relearn()
        assert model.noise_variance_ < 0.01

    def test_several_targets_have_units_of_their_own(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 20.0, (300, 1))
        y = np.sin(X) + 0.1 * rng.normal(size=(300, 2))
        models = [
            SpectralGPRegressor(1e-3, kernel="matern52", ard=False, room=1.5).fit(X, y * units).relearn()
            for units in (1.0, [20.0, 30.0])
        ]
        (mean, std), (of_units, std_of_units) = (model.predict(X[:50], return_std=True) for model in models)
        np.testing.assert_allclose(of_units, mean * [20.0, 30.0], rtol=0.01, atol=0.1)
        np.testing.assert_allclose(std_of_units, std * [20.0, 30.0], rtol=0.02)
        assert models[1].noise_variances_ == pytest.approx([4.0, 9.0], rel=0.3)

    def test_weights_count_rows_as_if_all_came_at_once(self) -> None:
        rng = np.random.default_rng(0)
        X, w = rng.uniform(0.0, 12.0, (200, 1)), np.append(rng.integers(2, 20, 100), rng.uniform(2.0, 20.0, 100))
        y = np.sin(X[:, 0]) + np.sqrt(0.5 / w) * rng.normal(size=200)
        parts = [(X[of], y[of], w[of]) for of in (slice(0, 100), slice(100, 200))]
        model = SpectralGPRegressor(1e-6, kernel=GaussianKernel(2.0), noise_variance=0.4, room=1.5, box=[[0.0], [12.0]])
        noises = [
            clone(model).fit([one]).partial_fit([other]).relearn().noise_variance_
            for one, other in (parts, parts[::-1])
        ]
        assert noises == pytest.approx([clone(model).fit(X, y, w).relearn().noise_variance_] * 2, rel=1e-5)

    def test_large_targets_that_are_all_there_are_learned_from(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 30.0, (1000, 1))
        y = 2e5 + 1e5 * (np.sin(X[:, 0]) + 0.3 * rng.normal(size=1000))
        model = SpectralGPRegressor(1e-4, room=1.5, kernel=GaussianKernel(1.0), noise_variance=1e-6).fit([(X, y)])
        assert model.relearn().noise_variance_ == pytest.approx(9e8, rel=0.15)

    def test_the_rounding_of_rows_that_are_gone_is_not_learned(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 12.0, (200, 1))
        y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
        model = SpectralGPRegressor(1e-4, kernel=GaussianKernel(2.0), noise_variance=0.01, room=1.5)
        noise = clone(model).fit([(X, y)]).relearn().noise_variance_
        model.fit([(X, y)])
        for large in (1e6, 1e9):
            gone = X[:5] + 0.01, large + y[:5]
            model.partial_fit(*gone).forget(*gone)
            if large == 1e6:
                assert model.relearn().noise_variance_ == pytest.approx(noise, rel=1e-3)
        with pytest.raises(InputError, match=r"were in these sums that their rounding hides .*Fit again to the rows"):
            model.relearn()

    @pytest.mark.parametrize("chunk_rows", [None, 500])
    def test_the_noise_is_that_of_the_new_parameters(self, chunk_rows: int | None) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 20.0, (1200, 1))
        y = np.sin(X[:, 0]) + 0.1 * rng.standard_t(4, 1200)
        model = SpectralGPRegressor(1e-3, kernel=MaternKernel(1.5), noise_variance=0.5, noise="student", room=1.5)
        model.fit(X, y, chunk_rows=chunk_rows)
        assert model.noise_.student.scale < 0.5
        assert model.relearn().noise_variance_ < 0.05
        low, high = model.predict_interval(X)
        assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.95, abs=0.02)
        assert model.noise_.name == ("student" if chunk_rows is None else "normal")
        assert "calibrate" in str(model.noise_) or chunk_rows is None

    @pytest.mark.slow
    def test_the_noise_of_a_calibrated_model_is_what_predicts_best(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 20.0, (800, 1))
        y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=800)
        model = SpectralGPRegressor(1e-3, kernel=MaternKernel(1.5), noise_variance=0.01, room=1.5)
        assert model.fit(X[:400], y[:400]).calibrate(X[400:], y[400:]).noise_.name == "normal"
        assert model.relearn().noise_.name == "normal"
        assert len(model.noise_.trials) == 3

    def test_a_chosen_model_without_sums_says_so(self) -> None:
        X = np.random.default_rng(0).uniform(0.0, 20.0, (1500, 1))
        chosen = GPRegressor(kernel=MaternKernel(1.5), noise_variance=0.1, methods=["spectral"])
        model = chosen.fit(X, np.sin(X[:, 0])).model_
        for call in (lambda: model.sums_, model.relearn, lambda: model.update(X[:5], X[:5, 0])):
            with pytest.raises(InputError, match=r"has no sums.*Fit a regressor by itself, such as Spectral"):
                call()


class TestMerge:
    @pytest.mark.parametrize("trend", ["constant", "linear"])
    def test_models_of_parts_are_one_of_all(self, trend: str) -> None:
        X, y, T = drawn()
        given = {**GIVEN, "trend": trend}
        model = SpectralGPRegressor(TIGHT, **given).fit(X[:100], y[:100])
        parts = [model.with_rows(X[part], y[part]) for part in (slice(100, 110), slice(110, 240))]
        before = parts[1].predict(T)
        assert_same(parts[1], ExactGPRegressor(**given).fit(X[110:], y[110:]), T)
        assert_same(model, ExactGPRegressor(**given).fit(X[:100], y[:100]), T)
        merged = pickle.loads(pickle.dumps(parts[0])).merge(parts[1])
        assert_same(model.merge(merged), ExactGPRegressor(**given).fit(X, y), T)
        np.testing.assert_array_equal(parts[1].predict(T), before)


class TestRefused:
    @pytest.mark.parametrize("method", ["update", "with_rows"])
    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            (np.zeros((3, 3)), np.zeros(3), "X has 3 features, but SpectralGPRegressor is expecting 2"),
            (np.full((3, 2), np.nan), np.zeros(3), "NaN"),
            (np.ones((3, 2)), np.array([1.0, np.inf, 1.0]), "infinity"),
            (np.ones((3, 2)), np.ones(2), "inconsistent numbers of samples"),
            (np.empty((0, 2)), np.empty(0), "0 sample"),
            ([["a", "b"]], [1.0], "X"),
            (
                np.array([[1.0, 1.0], [1.0, 90.0]]),
                np.ones(2),
                r"within \[-.* × \[.*1 rows are not, .* row 1, \[1.0, 90.0\]\. Leave them out, or fit again",
            ),
        ],
    )
    def test_bad_rows(self, method: str, X: Any, y: Any, message: str) -> None:
        rows, targets, T = drawn()
        model = SpectralGPRegressor(**GIVEN).fit(rows, targets)
        expected, attributes = model.predict(T), vars(model).copy()
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(X, y)
        assert vars(model) == attributes
        np.testing.assert_array_equal(model.predict(T), expected)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"sample_weight": [0.0, 0.0]}, "At least 1 row of positive weight is needed"),
            ({"sample_weight": [1.0, -1.0]}, "sample_weight must not be negative"),
            ({"noise_variances": [1.0, 0.0]}, "noise_variances must be positive"),
        ],
    )
    def test_bad_weights(self, arguments: Any, message: str) -> None:
        X, y, _ = drawn()
        model = SpectralGPRegressor(**GIVEN).fit(X, y)
        with pytest.raises(InputError, match=message):
            model.update(X[:2], y[:2], **arguments)

    @pytest.mark.parametrize("method", ["update", "with_rows"])
    def test_before_the_fit(self, method: str) -> None:
        X, y, _ = drawn()
        with pytest.raises(NotFittedError):
            getattr(SpectralGPRegressor(**GIVEN), method)(X, y)

    @pytest.mark.parametrize("direction", [[0.0, 1.0], [1.0, 1.0]])
    def test_a_direction_without_a_slope(self, direction: list[float]) -> None:
        X, y, T = drawn()
        line = 2.0 + np.outer(X[:, 0] - 2.5, [1.0, 0.0] if direction[0] == 0.0 else [0.5, -0.25])
        model = SpectralGPRegressor(**GIVEN, trend="linear").fit(line, y)
        expected = model.update(line[:3], y[:3]).predict(T)
        beside = line[:3] + np.outer([0.0, 0.01, 0.02], direction)
        with pytest.raises(InputError, match=r"trend of x0, x1 has no slope .*; 2 rows do, .* row 1\. Fit again"):
            model.update(beside, y[:3])
        np.testing.assert_array_equal(model.predict(T), expected)


@pytest.mark.parametrize("box", [[0.0, 1.0], [[1.0, 1.0], [0.0, 2.0]], [[0.0, np.nan], [1.0, 1.0]], [[0.0], [1.0]]])
def test_a_box_that_is_none(box: Any) -> None:
    X, y, _ = drawn()
    with pytest.raises(ValueError, match=r"box must have .*shape \(2, 2\); got|box contains NaN"):
        SpectralGPRegressor(**GIVEN, box=box).fit(X, y)
