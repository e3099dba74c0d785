"""Models of streams: fits to chunks, rows that come later, and rows that are taken out."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial import KDTree
from sklearn.base import clone

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    MaternKernel,
    RandomFourierFeatures,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.errors import InputError
from lmgp.posteriors import spectral, variance
from tests.conftest import counts_and_noises
from tests.estimators.streams import ARGUMENTS, GIVEN, MODELS, both, chunks, drawn, every_model, of_chunks


class TestUpdates:
    @pytest.mark.parametrize("arguments", ARGUMENTS)
    @every_model
    def test_they_are_one_fit_of_the_frozen_model_in_any_order(self, name: str, arguments: tuple[str, ...]) -> None:
        X, y, T = drawn()
        counts, noises = counts_and_noises(len(y))
        values = {"sample_weight": counts + 0.5, "noise_variances": noises}

        def part(of: Any) -> dict[str, Any]:
            return {"X": X[of], "y": y[of], **{one: values[one][of] for one in arguments}}

        first = clone(MODELS[name]).partial_fit(**part(slice(0, 80)))
        expected = first.with_rows(**part(slice(None)))
        backwards = clone(MODELS[name]).partial_fit(**part(slice(0, 80)))
        for start in range(80, 240, 40):
            assert first.partial_fit(**part(slice(start, start + 40))) is first
        rest = np.arange(239, 79, -1)
        for some in np.array_split(rest, 3):
            backwards.partial_fit(**part(some))
        for model in (first, backwards):
            np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-8)
            weights = values["sample_weight"] if "sample_weight" in arguments else None
            assert model.center_ == pytest.approx(np.average(y, weights=weights), rel=1e-12)
            np.testing.assert_allclose(model.inverse_lengthscales_, expected.inverse_lengthscales_, rtol=1e-10)
        if "trend" in name:
            np.testing.assert_allclose(first.trend_.coef, expected.trend_.coef, rtol=0, atol=1e-7)
            np.testing.assert_allclose(first.trend_.intercept, expected.trend_.intercept, rtol=0, atol=1e-6)

    @every_model
    def test_the_rows_of_fit_count(self, name: str) -> None:
        X, y, T = drawn()
        one = clone(MODELS[name]).fit(X[:80], y[:80]).partial_fit(X[80:], y[80:])
        other = clone(MODELS[name]).partial_fit(X[:80], y[:80])
        np.testing.assert_allclose(both(one, T), both(other.with_rows(X, y), T), rtol=0, atol=1e-8)

    @every_model
    def test_what_is_forgotten_never_was(self, name: str) -> None:
        X, y, T = drawn()
        first = clone(MODELS[name]).partial_fit(X[:80], y[:80])
        expected = first.with_rows(np.delete(X, np.s_[50:150], axis=0), np.delete(y, np.s_[50:150]))
        first.partial_fit(X[80:], y[80:]).forget(X[149:49:-1], y[149:49:-1])
        np.testing.assert_allclose(both(first, T), both(expected, T), rtol=0, atol=1e-8)

    @every_model
    def test_merged_models_are_one_model(self, name: str) -> None:
        X, y, T = drawn()
        first = clone(MODELS[name]).partial_fit(X[:80], y[:80])
        expected, other = first.with_rows(X, y), first.with_rows(X[80:], y[80:])
        before = both(other, T)
        assert first.merge(other) is first
        np.testing.assert_allclose(both(first, T), both(expected, T), rtol=0, atol=1e-8)
        np.testing.assert_array_equal(both(other, T), before)

    @every_model
    def test_models_of_other_targets_do_not_merge(self, name: str) -> None:
        X, y, _ = drawn()
        model = clone(MODELS[name]).fit(X, y)
        with pytest.raises(InputError, match="Models of the same targets merge; these have 1 and 2 targets"):
            model.merge(clone(MODELS[name]).fit(X, np.column_stack((y, y))))

    def test_rows_outside_of_all_centroids_get_some(self) -> None:
        X, y, _ = drawn()
        left = X[:, 0] < 2.5
        model = clone(MODELS["localized"]).partial_fit(X[left], y[left])
        n_first = len(model.centroids_)
        model.partial_fit(X[~left], y[~left])
        scaled = [GIVEN["kernel"].scale(one) for one in (model.centroids_, X)]  # type: ignore[attr-defined]
        assert KDTree(scaled[0]).query(scaled[1])[0].max() < 2.0
        assert len(model.centroids_) > n_first
        exact = ExactGPRegressor(**GIVEN).fit(X, y)
        finer = clone(model).set_params(features=TaylorFeatures(231)).partial_fit(X[left], y[left])
        finer.partial_fit(X[~left], y[~left])
        np.testing.assert_allclose(finer.predict(X), exact.predict(X), rtol=0, atol=0.05)

    def test_given_centroids_stay(self) -> None:
        X, y, T = drawn()
        given = LocalizedGPRegressor(TaylorFeatures(40), centroids=X[:9], **GIVEN)
        model = clone(given).partial_fit(X[:80], y[:80]).partial_fit(X[80:], y[80:])
        np.testing.assert_array_equal(model.centroids_, X[:9])
        np.testing.assert_allclose(both(model, T), both(clone(given).fit(X, y), T), rtol=0, atol=1e-8)


class TestStreams:
    @pytest.mark.parametrize("arguments", ARGUMENTS)
    @every_model
    def test_chunks_are_their_rows(self, name: str, arguments: tuple[str, ...]) -> None:
        X, y, T = drawn()
        counts, noises = counts_and_noises(len(y))
        values = {"sample_weight": counts + 0.5, "noise_variances": noises}
        given = {one: values[one] for one in arguments}
        stream = clone(MODELS[name]).fit(chunks(X, y, **given))
        model = clone(MODELS[name])
        if name == "localized":
            model.set_params(centroids=stream.centroids_)
        whole = model.fit(X, y, **given)
        # The reach, and the variance from cells, are not those of the fit to rows in memory.
        np.testing.assert_allclose(stream.predict(T), whole.predict(T), rtol=0, atol=1e-7)
        np.testing.assert_allclose(both(stream, T)[1], both(whole, T)[1], rtol=1e-3)
        assert stream.center_ == pytest.approx(whole.center_, rel=1e-12)

    @every_model
    def test_a_stream_takes_later_rows(self, name: str) -> None:
        X, y, T = drawn()
        stream = clone(MODELS[name]).fit(chunks(X[:160], y[:160]))
        expected = stream.with_rows(X, y)
        other = stream.with_rows(X[200:], y[200:])
        stream.partial_fit(X[160:200], y[160:200]).merge(other)
        np.testing.assert_allclose(both(stream, T), both(expected, T), rtol=0, atol=1e-8)
        left = stream.with_rows(X[60:], y[60:])
        stream.forget(X[:60], y[:60])
        np.testing.assert_allclose(both(stream, T), both(left, T), rtol=0, atol=1e-8)

    def test_new_cubes_have_the_sums_of_earlier_rows(self) -> None:
        X, y, T = drawn()
        order = np.argsort(X[:, 0])
        stream = clone(MODELS["localized"]).fit(iter(chunks(X[order][:80], y[order][:80], 10)))
        n_first = len(stream.centroids_)
        stream.partial_fit(iter(chunks(X[order][80:], y[order][80:], 10)))
        whole = LocalizedGPRegressor(TaylorFeatures(28), centroids=stream.centroids_, **GIVEN).fit(X, y)
        assert len(stream.centroids_) > n_first
        np.testing.assert_allclose(both(stream, T), both(whole, T), rtol=0, atol=1e-7)

    def test_what_is_learned_from_a_whole_stream_is_learned_from_its_rows(self) -> None:
        X, y, T = drawn()
        stream = SpectralGPRegressor(random_state=0).fit(chunks(X, y))
        whole = SpectralGPRegressor(random_state=0).fit(X, y)
        assert stream.kernel_.lengthscale == pytest.approx(whole.kernel_.lengthscale, rel=1e-9)
        assert stream.noise_variance_ == pytest.approx(whole.noise_variance_, rel=1e-9)
        np.testing.assert_allclose(stream.predict(T), whole.predict(T), rtol=0, atol=1e-3)

    @pytest.mark.slow
    def test_what_an_iterator_tells_does_not_depend_on_its_chunks(self) -> None:
        rng = np.random.default_rng(1)
        X = rng.uniform(0.0, 30.0, (3000, 1))
        y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=3000)
        model = FeaturizedGPRegressor(RandomFourierFeatures(100), random_state=0)
        small, whole = (clone(model).fit(iter(chunks(X, y, size))) for size in (2, 3000))
        assert small.noise_variance_ == pytest.approx(whole.noise_variance_, rel=0.2)

    def test_a_list_of_lists_is_one_of_chunks(self) -> None:
        X, y, T = drawn()
        model = clone(MODELS["featurized"]).fit([list(chunk) for chunk in chunks(X, y)])
        np.testing.assert_array_equal(both(model, T), of_chunks("featurized"))
        for call in (model.forget, model.with_rows):
            with pytest.raises(InputError, match="take X and y, no chunks of them: give one chunk after the other"):
                call([(X[:10], y[:10])], None)

    def test_a_function_and_a_memory_map_are_sources(self, tmp_path: Path) -> None:
        X, y, T = drawn()
        expected = clone(MODELS["featurized"]).fit(chunks(X, y))
        mapped = np.memmap(tmp_path / "X", dtype=np.float64, mode="w+", shape=X.shape)
        mapped[:] = X
        for model in (
            clone(MODELS["featurized"]).fit(lambda: iter(chunks(X, y))),
            clone(MODELS["featurized"]).fit(mapped, y, chunk_rows=40),
        ):
            np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-12)

    def test_of_five_columns_centroids_are_where_rows_are(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 2.0, (120, 5))
        y = X.sum(axis=1) + 0.1 * rng.normal(size=120)
        model = LocalizedGPRegressor(TaylorFeatures(56), kernel=GaussianKernel(2.0), noise_variance=0.05)
        stream = clone(model).fit(chunks(X, y))
        whole = clone(model).set_params(centroids=stream.centroids_).fit(X, y)
        np.testing.assert_allclose(both(stream, X[:20]), both(whole, X[:20]), rtol=0, atol=1e-7)
        with pytest.raises(InputError, match=r"1 rows are farther from all centroids .*more than 3 columns"):
            stream.partial_fit(X[:1] + 10.0, y[:1])

    @pytest.mark.parametrize("kernel", [GaussianKernel(0.6), MaternKernel(6.0, smoothness=2.5)])
    def test_the_variance_is_that_of_the_rows(self, kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T = drawn(600)
        monkeypatch.setattr(spectral, "FEW_MODES", 50)
        monkeypatch.setattr("lmgp.sums.modes.FEW_MODES", 50)
        monkeypatch.setattr(variance, "FEW", 50)
        given = {"kernel": kernel, "noise_variance": 0.05}
        stream = SpectralGPRegressor(1e-3, **given).fit(chunks(X, y, 100))
        exact = ExactGPRegressor(**given).fit(X, y)
        np.testing.assert_allclose(both(stream, T)[1], both(exact, T)[1], rtol=0.05)

    def test_the_bar_says_how_fast_it_is(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("lmgp.utils.progress.shows_bars", lambda: True)
        X, y, _ = drawn()
        clone(MODELS["featurized"]).fit(X, y, chunk_rows=40, verbose=True)
        told = capsys.readouterr().err
        assert "FeaturizedGPRegressor" in told
        assert "rows/s" in told
        assert "240/240" in told
        monkeypatch.undo()
        clone(MODELS["featurized"]).fit(X, y, chunk_rows=40, verbose=True)
        titles = re.findall(r"FeaturizedGPRegressor.*", capsys.readouterr().err)
        assert titles == ["FeaturizedGPRegressor, first pass, 240 rows", "FeaturizedGPRegressor, 240 rows"]
        clone(MODELS["featurized"]).fit(X, y, chunk_rows=40)
        assert capsys.readouterr().err == ""


class TestSaved:
    @every_model
    def test_a_loaded_model_goes_on(self, name: str, tmp_path: Path) -> None:
        X, y, T = drawn()
        for model in (
            clone(MODELS[name]).fit(chunks(X[:160], y[:160])),
            clone(MODELS[name]).partial_fit(X[:160], y[:160]).partial_fit(X[:1], y[:1]),
        ):
            model.save(tmp_path / "model")
            loaded = lmgp.load(tmp_path / "model")
            np.testing.assert_array_equal(both(loaded, T), both(model, T))
            expected = both(model.partial_fit(X[160:], y[160:]), T)
            np.testing.assert_allclose(both(loaded.partial_fit(X[160:], y[160:]), T), expected, rtol=0, atol=1e-9)
