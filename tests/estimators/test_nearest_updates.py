"""Models of nearest rows whose rows come later, and go: against models of the same rows at once."""

import sys
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GPRegressor,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.errors import InputError
from lmgp.saving.files import load_with_header
from tests.conftest import counts_and_noises
from tests.estimators.streams import MODELS, both, chunks, drawn

GIVEN: dict[str, Any] = {"kernel": MaternKernel(2.0, 1.5), "noise_variance": 0.05}


def rows(n: int = 1500, d: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, targets around 7, and new rows of which most share their nearest rows."""
    rng = np.random.default_rng(0)
    X, T = rng.uniform(0.0, 30.0, (n, d)), rng.uniform(0.0, 30.0, (25, d))
    return X, 7.0 + np.sin(X).sum(axis=1) + 0.2 * rng.normal(size=n), T


def grown(model: Any, X: np.ndarray, y: np.ndarray, first: int, **more: np.ndarray) -> Any:
    """A model of the first rows, to which the others come in chunks of many sizes."""
    ends = [0, first, *np.cumsum(np.random.default_rng(1).integers(1, 30, len(X))) + first]
    for start, end in pairwise(ends):
        part = slice(start, end)
        if start < len(X):
            model.partial_fit(X[part], y[part], **{name: one[part] for name, one in more.items()})
    return model


def trees(model: Any) -> int:
    return len(model._fitted.sums.forest.parts)


class TestOfAllRows:
    @pytest.mark.parametrize("d", [1, 2, 5])
    @pytest.mark.parametrize("k", [40, 100])
    def test_it_is_the_model_that_is_fitted_to_them_at_once(self, d: int, k: int) -> None:
        X, y, T = rows(d=d)
        model = grown(NearestNeighborsGPRegressor(k, **GIVEN), X, y, 1200)
        assert trees(model) > 1
        whole = NearestNeighborsGPRegressor(k, **GIVEN).fit(X, y)
        np.testing.assert_allclose(both(model, T), both(whole, T), rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.predict(T), whole.predict(T), rtol=0, atol=1e-9)
        assert model.center_ == pytest.approx(whole.center_, rel=1e-12)
        gone = np.random.default_rng(2).permutation(1500)[:250]
        model.forget(X[gone[:100]], y[gone[:100]]).forget(X[gone[100:]], y[gone[100:]])
        rest = NearestNeighborsGPRegressor(k, **GIVEN).fit(np.delete(X, gone, axis=0), np.delete(y, gone))
        np.testing.assert_allclose(both(model, T), both(rest, T), rtol=0, atol=1e-9)
        model.forget(keep=700)
        young = NearestNeighborsGPRegressor(k, **GIVEN).fit(
            np.delete(X, gone, axis=0)[-700:], np.delete(y, gone)[-700:]
        )
        np.testing.assert_allclose(both(model, T), both(young, T), rtol=0, atol=1e-9)

    def test_with_weights_and_noise_variances(self) -> None:
        X, y, T = rows()
        counts, noises = counts_and_noises(len(y))
        given = {"sample_weight": counts + 0.5, "noise_variances": noises}
        model = grown(NearestNeighborsGPRegressor(40, **GIVEN), X, y, 1200, **given)
        model.forget(X[:50], y[:50], *(one[:50] for one in given.values()))
        rest = {name: one[50:] for name, one in given.items()}
        expected = NearestNeighborsGPRegressor(40, **GIVEN).fit(X[50:], y[50:], **rest)
        np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-9)

    def test_what_takes_the_rows_is_that_of_one_fit(self) -> None:
        X, y, T = rows(600)
        model = grown(NearestNeighborsGPRegressor(40, **GIVEN), X, y, 500).forget(keep=550)
        whole = NearestNeighborsGPRegressor(40, **GIVEN).fit(X[50:], y[50:])
        np.testing.assert_allclose(model.loo_.mean, whole.loo_.mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.loo_.std, whole.loo_.std, rtol=0, atol=1e-9)
        assert model.log_marginal_likelihood() == pytest.approx(whole.log_marginal_likelihood(), rel=1e-9)
        expected = whole.predict(T, return_cov=True)[1]
        np.testing.assert_allclose(model.predict(T, return_cov=True)[1], expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(model.sample_y(T), whole.sample_y(T), rtol=0, atol=1e-6)

    def test_of_several_targets(self) -> None:
        X, y, T = rows()
        Y = np.column_stack((y, X[:, 0] - y))
        model = grown(NearestNeighborsGPRegressor(40, **GIVEN), X, Y, 1200)
        expected = NearestNeighborsGPRegressor(40, **GIVEN).fit(X, Y)
        np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-9)

    def test_a_known_center_stays(self) -> None:
        X, y, T = rows()
        model = NearestNeighborsGPRegressor(40, **GIVEN).fit(X[:1000], y[:1000], center=3.0)
        model.partial_fit(X[1000:], y[1000:])
        expected = NearestNeighborsGPRegressor(40, **GIVEN).fit(X, y, center=3.0)
        np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-9)

    def test_a_localized_model_of_nearest_rows(self) -> None:
        X, y, T = rows()
        model = grown(LocalizedGPRegressor(**GIVEN), X, y, 1200).forget(X[:20], y[:20])
        expected = LocalizedGPRegressor(**GIVEN).fit(X[20:], y[20:])
        np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-9)


def test_a_trend_that_few_rows_told_is_estimated_anew() -> None:
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 100.0, (600, 1)), axis=0)
    kernel = MaternKernel(1.0, 0.25)
    y = 0.5 * X[:, 0] + rng.multivariate_normal(np.zeros(600), kernel(X)) + 0.3 * rng.normal(size=600)
    given: dict[str, Any] = {"kernel": kernel, "noise_variance": 0.09, "trend": "linear"}
    model = NearestNeighborsGPRegressor(40, **given).fit(X[:20], y[:20])
    before = model.trend_.coef_error[0]
    whole = NearestNeighborsGPRegressor(40, **given).fit(X, y)
    model.partial_fit(X[20:400], y[20:400]).partial_fit(X[400:], y[400:])
    assert before > 50.0 * whole.trend_.coef_error[0]
    assert model.trend_.coef[0] == pytest.approx(whole.trend_.coef[0], rel=1e-8)
    np.testing.assert_allclose(both(model, X[::9] + 0.05), both(whole, X[::9] + 0.05), rtol=0, atol=1e-8)
    other = model.with_rows(X[:30], y[:30])
    assert other.merge(model.with_rows(X[30:], y[30:])).trend_.coef[0] == pytest.approx(whole.trend_.coef[0], rel=1e-8)


def test_a_trend_that_many_rows_told_stays_as_it_was_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmgp.posteriors.trend, "TREND_ROWS", 200)
    X, y, T = rows(300)
    y = y + 2.0 * X[:, 0]
    model = NearestNeighborsGPRegressor(300, **GIVEN, trend="linear").fit(X[:200], y[:200])
    before = model.trend_
    model.partial_fit(X[200:], y[200:]).forget(keep=250)
    np.testing.assert_allclose(model.trend_.coef, before.coef, rtol=1e-12)
    np.testing.assert_allclose(model.trend_.covariance, before.covariance, rtol=1e-12)
    trend, trend_of_new = (before.intercept + some @ before.coef for some in (X, T))
    exact = ExactGPRegressor(**GIVEN).fit(X[50:], (y - trend)[50:], center=0.0)
    mean, std = both(model, T)
    np.testing.assert_allclose(mean, trend_of_new + exact.predict(T), rtol=0, atol=1e-8)
    # Not knowing the trend adds rᵀSr, with what the process does not know of its columns.
    columns, of_new = (np.column_stack((np.ones(len(some)), some)) for some in (X[50:], T))
    known = np.column_stack([ExactGPRegressor(**GIVEN).fit(X[50:], one, center=0.0).predict(T) for one in columns.T])
    added = np.einsum("ij,jk,ik->i", of_new - known, before.covariance, of_new - known)
    np.testing.assert_allclose(std**2, both(exact, T)[1] ** 2 + added, rtol=1e-7)


class TestSaved:
    def test_a_file_has_the_updates_and_goes_on(self, tmp_path: Path) -> None:
        X, y, T = rows()
        model = grown(NearestNeighborsGPRegressor(40, **GIVEN), X, y, 1200).forget(X[:20], y[:20])
        model.save(tmp_path / "model")
        loaded = lmgp.load(tmp_path / "model")
        np.testing.assert_allclose(both(loaded, T), both(model, T), rtol=0, atol=1e-12)
        assert load_with_header(tmp_path / "model")[1]["rows_kept"] == 1480
        loaded.partial_fit(X[:20], y[:20]).forget(keep=800)
        expected = NearestNeighborsGPRegressor(40, **GIVEN).fit(
            np.concatenate((X[720:], X[:20])), np.concatenate((y[720:], y[:20]))
        )
        np.testing.assert_allclose(both(loaded, T), both(expected, T), rtol=0, atol=1e-9)

    def test_what_is_forgotten_is_in_no_file(self, tmp_path: Path) -> None:
        X, y, _ = rows()
        model = NearestNeighborsGPRegressor(40, **GIVEN).fit(X, y).forget(X[10:11], y[10:11])
        model.save(tmp_path / "model")
        written = (tmp_path / "model").read_bytes()
        assert X[10, 0].tobytes() not in written
        assert X[11, 0].tobytes() in written


@pytest.mark.parametrize("name", ["nearest", "localized", "spectral"])
def test_models_that_keep_their_rows_forget_by_age(name: str) -> None:
    X, y, T = drawn()
    model = clone(MODELS[name]).fit(X[:200], y[:200])
    model.partial_fit(X[200:], y[200:])
    expected = model.with_rows(X[90:], y[90:])
    assert model.forget(keep=150) is model
    np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-8)
    before = both(model, T)
    np.testing.assert_allclose(both(model.forget(keep=10**9), T), before, rtol=0, atol=1e-8)


class TestRefused:
    @pytest.mark.parametrize("name", ["featurized", "streamed"])
    def test_age_where_rows_are_not_kept(self, name: str) -> None:
        X, y, T = drawn()
        given = {**GIVEN, "kernel": lmgp.GaussianKernel(1.0)}
        model: Any = FeaturizedGPRegressor(TaylorFeatures(30), **given).fit(X, y)
        if name == "streamed":
            model = SpectralGPRegressor(**given).fit([(X, y)])
        before = both(model, T)
        with pytest.raises(InputError, match=r"does not know which of them came first.*Give forget the rows"):
            model.forget(keep=100)
        np.testing.assert_array_equal(both(model, T), before)

    @pytest.mark.parametrize("keep", [0, -1, 2.5, True, "9"])
    def test_a_number_that_is_none(self, keep: Any) -> None:
        X, y, _ = drawn()
        model = clone(MODELS["nearest"]).fit(X, y)
        with pytest.raises(InputError, match=rf"keep, the positive number of rows that stay; got keep={keep!r}"):
            model.forget(keep=keep)

    def test_rows_beside_a_number(self) -> None:
        X, y, _ = drawn()
        with pytest.raises(InputError, match="got keep=5 and rows"):
            clone(MODELS["nearest"]).fit(X, y).forget(X, y, keep=5)

    def test_rows_that_are_not_as_those_of_the_fit(self) -> None:
        X, y, _ = drawn()
        frame = pd.DataFrame(X, columns=["a", "b"])
        model = clone(MODELS["nearest"]).fit(frame, y)
        before, bad = both(model, frame[:9]), X.copy()
        bad[3, 1] = np.nan
        for some, told in (
            (frame[["a"]], "feature names"),
            (pd.DataFrame(bad, columns=["a", "b"]), "NaN"),
            (frame.rename(columns={"a": "c"}), "feature names"),
            (frame * 1e200, "squared distances overflow"),
        ):
            with pytest.raises(ValueError, match=told), np.errstate(all="ignore"):
                model.partial_fit(some, y)
        with pytest.raises(InputError, match="1 targets; got y with 2"):
            model.partial_fit(frame, np.column_stack((y, y)))
        with pytest.raises(InputError, match=r"row 1, .* is not, or not as often, with this y"):
            model.forget(frame[:2], y[:2] + np.array([0.0, 1e-3]))
        with pytest.raises(InputError, match="No row would be left"):
            model.forget(frame, y)
        np.testing.assert_array_equal(both(model, frame[:9]), before)


@pytest.mark.slow
def test_a_prediction_sees_a_model_before_an_update_or_after_it() -> None:
    """The mean of y jumps by 1,000 with each update, and the rows near the new one with it: none is seen alone."""
    X, y, T = drawn()
    far, of_far = np.full((len(X), 2), 100.0) + X, np.full(len(X), 2000.0)
    model = clone(MODELS["nearest"]).fit(X, y)
    states = [both(model, T), both(model.partial_fit(far, of_far), T)]
    assert abs(model.center_) > 900.0
    interval, stopped, found = sys.getswitchinterval(), threading.Event(), list[np.ndarray]()

    def read() -> None:
        while not stopped.is_set():
            found.append(both(model, T))

    readers = [threading.Thread(target=read) for _ in range(3)]
    sys.setswitchinterval(1e-6)
    try:
        for reader in readers:
            reader.start()
        for _ in range(40):
            model.forget(far, of_far)
            model.partial_fit(far, of_far)
    finally:
        stopped.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(interval)
    nearest = [min(np.abs(one - state).max() for state in states) for one in found]
    assert max(nearest) < 1e-6
    assert {int(np.argmin([np.abs(one - state).max() for state in states])) for one in found} == {0, 1}


class TestChosen:
    """`GPRegressor`, where it chose nearest rows."""

    def fitted(self, first: int = 500) -> tuple[Any, pd.DataFrame, np.ndarray]:
        X, y, _ = rows(600)
        frame = pd.DataFrame({"east": X[:, 0], "north": X[:, 1], "kind": np.where(X[:, 0] < 9.0, "low", "high")})
        model = GPRegressor(methods=["nearest_rows"], max_features=32, n_predict=10**7, noise="normal", **GIVEN)
        return model.fit(frame[:first], y[:first]), frame, y

    def test_rows_come_and_go_as_the_columns_were_read(self, tmp_path: Path) -> None:
        model, frame, y = self.fitted()
        k = model.recipe_.n_neighbors
        assert model.partial_fit(frame[500:], y[500:]).forget(frame[:10], y[:10]) is model
        model.forget(keep=580)
        seen = model._coordinates(model._read(frame))
        expected = NearestNeighborsGPRegressor(k, **GIVEN).fit(seen[20:], y[20:])
        np.testing.assert_allclose(both(model, frame), both(expected, seen), rtol=0, atol=1e-9)
        model.save(tmp_path / "model")
        loaded = lmgp.load(tmp_path / "model").partial_fit(frame[:20], y[:20])
        np.testing.assert_allclose(
            both(loaded, frame), both(model.partial_fit(frame[:20], y[:20]), frame), rtol=0, atol=1e-12
        )

    def test_rows_that_have_effects_of_their_own_are_not_found_and_go_by_age(self) -> None:
        _, frame, y = self.fitted()
        frame, y = frame.assign(kind=[f"k{number % 40}" for number in range(600)]), y + np.arange(600) % 40
        model = GPRegressor(methods=["nearest_rows"], max_features=32, n_predict=10**7, noise="normal", **GIVEN)
        model.fit(frame[:500], y[:500]).partial_fit(frame[500:], y[500:]).forget(frame[500:510], y[500:510])
        with pytest.raises(InputError, match=r"is not, or not .* Of kind, with more than 32 .*: forget\(keep=\) takes"):
            model.forget(frame[:5], y[:5])
        assert len(model.forget(keep=100).loo_.y) == 100

    @pytest.mark.parametrize("n_kinds", [2, 40])
    def test_categories_that_no_row_of_fit_had_are_refused(self, n_kinds: int) -> None:
        _, frame, y = self.fitted()
        frame = frame.assign(kind=[f"k{number % n_kinds}" for number in range(600)])
        model = GPRegressor(methods=["nearest_rows"], max_features=32, n_predict=10**7, noise="normal", **GIVEN)
        model.fit(frame[:500], y[:500])
        before = both(model, frame)
        later = frame[500:].assign(kind=["k1"] * 9 + ["new"] * 91)
        for call in (model.partial_fit, model.with_rows):
            with pytest.raises(InputError, match=r"'kind' has a category, or lacks one, in row 9 as no row"):
                call(later, y[500:])
        np.testing.assert_array_equal(both(model, frame), before)

    def test_models_merge_whose_columns_were_read_alike(self) -> None:
        _, frame, y = self.fitted()
        model = GPRegressor(methods=["nearest_rows"], max_features=32, n_predict=10**7, noise="normal", **GIVEN)

        def merged(one: pd.DataFrame, other: pd.DataFrame) -> Any:
            return clone(model).fit(one, y, center=7.0).merge(clone(model).fit(other, y, center=7.0))

        of_days = frame.assign(kind=pd.date_range("2020-01-01", periods=600))
        for one in (frame, of_days):
            assert len(merged(one, one).loo_.y) == 1200
        with pytest.raises(InputError, match=r"same columns merge; these have \('east', .* and \('north', 'east'"):
            merged(frame, frame[["north", "east", "kind"]])
        for one, other in (
            (frame, frame.replace({"low": "middle"})),
            (of_days, of_days.assign(kind=of_days["kind"] + pd.Timedelta(days=90))),
        ):
            with pytest.raises(InputError, match=r"has read its columns by other categories, dates"):
                merged(one, other)

    def test_the_model_in_it_takes_rows(self) -> None:
        X, y, T = rows(600)
        model = GPRegressor(methods=["nearest_rows"], max_features=32, n_predict=10**7, noise="normal", **GIVEN).fit(
            X[:500], y[:500]
        )
        before = both(model, T)
        expected = NearestNeighborsGPRegressor(model.recipe_.n_neighbors, **GIVEN).fit(X, y)
        of_all = both(model.model_.partial_fit(X[500:], y[500:]), T)
        np.testing.assert_allclose(of_all, both(expected, T), rtol=0, atol=1e-9)
        np.testing.assert_array_equal(both(model, T), before)

    def test_of_a_stream_sums_take_rows(self) -> None:
        X, y, T = drawn()
        given = {"kernel": lmgp.GaussianKernel(1.2), "noise_variance": 0.05, "random_state": 0}
        model = GPRegressor(methods=["nystroem"], noise="normal", **given).fit(chunks(X[:200], y[:200]))
        expected = model.model_.partial_fit(X[200:], y[200:]).forget(X[:5], y[:5])
        model.partial_fit(X[200:], y[200:]).forget(X[:5], y[:5])
        np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-10)
        assert model.center_ == pytest.approx(y[5:].mean(), rel=1e-12)

    def test_other_models_take_none(self) -> None:
        X, y, _ = drawn()
        model = GPRegressor(**GIVEN)
        assert not hasattr(model, "partial_fit")
        model.fit(X, y)
        assert type(model.recipe_).__name__ == "Exact"
        for name in ("partial_fit", "forget", "with_rows", "merge"):
            assert not hasattr(model, name)
