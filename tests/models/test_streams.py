"""Models of streams: fits to chunks, rows that come later, rows that are taken out, and what stops half way."""

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
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
    NystroemFeatures,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.errors import InputError, ModelFileError, OutputError, StreamError
from lmgp.io.checkpoint import Checkpoint
from lmgp.spectral.variance import Plan
from tests.conftest import counts_and_noises

ROOT = Path(__file__).parents[2]
GIVEN = {"kernel": GaussianKernel([1.2, 1.0], 1.5), "noise_variance": 0.05}
MODELS: dict[str, Any] = {
    "featurized": FeaturizedGPRegressor(TaylorFeatures(40), **GIVEN),
    "featurized_nystroem": FeaturizedGPRegressor(NystroemFeatures(30), **GIVEN, random_state=0),
    "featurized_trend": FeaturizedGPRegressor(TaylorFeatures(40), **GIVEN, trend="linear"),
    "localized": LocalizedGPRegressor(TaylorFeatures(28), threshold=2.0, **GIVEN),
    # So small that two solutions agree to 1e-8.
    "spectral": SpectralGPRegressor(1e-9, **GIVEN, box=[[0.0, 0.0], [6.0, 5.0]]),
    "spectral_trend": SpectralGPRegressor(1e-9, **GIVEN, trend="linear", box=[[0.0, 0.0], [6.0, 5.0]]),
}
every_model = pytest.mark.parametrize("name", MODELS)
# Without any: all other tests.
ARGUMENTS = [("sample_weight",), ("sample_weight", "noise_variances")]


def drawn(n: int = 240) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows from left to right, targets around 7, and new rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, [6.0, 5.0], (n, 2))
    X = X[np.argsort(X[:, 0] + rng.uniform(0.0, 3.0, n))]
    return (
        X,
        7.0 + np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n),
        rng.uniform(0, [6.0, 5.0], (30, 2)),
    )


def chunks(X: np.ndarray, y: np.ndarray, size: int = 40, **more: np.ndarray) -> list[tuple[Any, ...]]:
    return [
        (X[i : i + size], y[i : i + size], *(one[i : i + size] for one in more.values()))
        for i in range(0, len(X), size)
    ]


def both(model: Any, T: np.ndarray) -> np.ndarray:
    return np.array(model.predict(T, return_std=True))


@cache
def of_chunks(name: str) -> np.ndarray:
    """The predictions of a model of all chunks."""
    X, y, T = drawn()
    return both(clone(MODELS[name]).fit(chunks(X, y)), T)


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
            np.testing.assert_allclose(model.relevance_, expected.relevance_, rtol=1e-10)
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

    def test_a_spectral_model_waits_until_it_is_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T = drawn()
        model = clone(MODELS["spectral"]).partial_fit(X[:80], y[:80])
        expected = model.with_rows(X, y)
        with monkeypatch.context() as patch:
            patch.setattr("lmgp.spectral.posterior.solve", None)
            model.partial_fit(X[80:100], y[80:100]).partial_fit(X[100:], y[100:])
        np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-8)
        assert model.sums_.n == 240.0


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
        for module in ("spectral.variance", "models.spectral_fit"):
            monkeypatch.setattr(f"lmgp.{module}.PLAN", Plan(few=50))
        given = {"kernel": kernel, "noise_variance": 0.05}
        stream = SpectralGPRegressor(1e-3, **given).fit(chunks(X, y, 100))
        assert stream._fitted.rows.weights.sum() == pytest.approx(600.0)
        exact = ExactGPRegressor(**given).fit(X, y)
        np.testing.assert_allclose(both(stream, T)[1], both(exact, T)[1], rtol=0.05)

    def test_the_bar_says_how_fast_it_is(self, capsys: pytest.CaptureFixture[str]) -> None:
        X, y, _ = drawn()
        clone(MODELS["featurized"]).fit(X, y, chunk_rows=40, verbose=True)
        told = capsys.readouterr().err
        assert "FeaturizedGPRegressor" in told
        assert "rows/s" in told
        assert "240/240" in told
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


class StopError(Exception):
    pass


class Stopping(lmgp.io.sources.Source):
    """The chunks of a list, until one cannot be read."""

    def __init__(self, made: list[Any], last: int) -> None:
        self.made, self.left = made, last

    def chunks(self, start: int = 0) -> Iterator[Any]:
        for chunk in self.made[start:]:
            self.left -= 1
            if self.left < 0:
                raise StopError
            yield lmgp.io.sources.Chunk(*chunk)


KILLED = """
import os, sys
import numpy as np
sys.path.insert(0, {root!r})
from tests.models.test_streams import MODELS, chunks, clone, drawn
X, y, T = drawn()

def some():
    for number, chunk in enumerate(chunks(X, y)):
        if number == {last} and os.path.exists({path!r}):
            os.kill(os.getpid(), 9)
        yield chunk

clone(MODELS[{name!r}]).fit(some(), checkpoint={path!r})
"""


class TestCheckpoints:
    @pytest.mark.parametrize("last", [1, 5, 9])
    @every_model
    def test_a_stopped_fit_goes_on_to_the_same_model(self, name: str, last: int, tmp_path: Path) -> None:
        X, y, T = drawn()
        made, path = chunks(X, y), tmp_path / "state"
        try:
            clone(MODELS[name]).fit(Stopping(made, last), checkpoint=path)
        except StopError:
            assert path.exists()
        model = clone(MODELS[name]).fit(made, checkpoint=path)
        np.testing.assert_array_equal(both(model, T), of_chunks(name))
        assert not path.exists()

    def test_a_killed_process_goes_on_to_the_same_model(self, tmp_path: Path) -> None:
        X, y, T = drawn()
        path = str(tmp_path / "state")
        code = KILLED.format(root=str(ROOT), path=path, name="localized", last=4)
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == -9
        model = clone(MODELS["localized"]).fit(iter(chunks(X, y)), checkpoint=path)
        expected = clone(MODELS["localized"]).fit(iter(chunks(X, y)))
        np.testing.assert_array_equal(both(model, T), both(expected, T))

    def stopped(self, path: Path, name: str = "localized") -> tuple[Any, list[Any]]:
        X, y, _ = drawn()
        with pytest.raises(StopError):
            clone(MODELS[name]).fit(Stopping(chunks(X, y), 4), checkpoint=path)
        return MODELS[name], chunks(X, y)

    def test_what_is_no_checkpoint_of_this_fit_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "state"
        model, made = self.stopped(path)
        before = path.read_bytes()
        with pytest.raises(ModelFileError, match=r"a checkpoint of a LocalizedGPRegressor with other parameters"):
            clone(model).set_params(noise_variance=0.06).fit(made, checkpoint=path)
        with pytest.raises(ModelFileError, match=r"a checkpoint of LocalizedGPRegressor, not of Featurized"):
            clone(MODELS["featurized"]).fit(made, checkpoint=path)
        with pytest.raises(ModelFileError, match=r"ends with chunk 3 .* has other rows in it"):
            clone(model).fit(made[1:], checkpoint=path)
        with pytest.raises(ModelFileError, match=r"ends with chunk 3 .* has no such chunk"):
            clone(model).fit(made[:2], checkpoint=path)
        with pytest.raises(ModelFileError, match=r"is a checkpoint of a fit to a stream that has not ended"):
            lmgp.load(path)
        with monkeypatch.context() as patch:
            patch.setattr("lmgp.io.checkpoint.version", lambda _: "99.0")
            with pytest.raises(ModelFileError, match=r"written by lmgp [\d.]+, and this is lmgp 99.0"):
                clone(model).fit(made, checkpoint=path)
        assert path.read_bytes() == before
        path.write_bytes(before[:-200])
        with pytest.raises(ModelFileError, match=r"damaged or incomplete"):
            clone(model).fit(made, checkpoint=path)
        clone(MODELS["featurized"]).fit(made).save(path)
        with pytest.raises(ModelFileError, match=r"is a model of FeaturizedGPRegressor, and no checkpoint"):
            clone(model).fit(made, checkpoint=path)

    def test_a_place_that_cannot_be_written_is_refused_before_rows_are_read(self, tmp_path: Path) -> None:
        def made() -> Iterator[Any]:
            raise AssertionError
            yield

        with pytest.raises(OutputError, match="there is no folder"):
            clone(MODELS["featurized"]).fit(made, checkpoint=tmp_path / "no" / "state")

    def test_a_full_disk_leaves_the_last_checkpoint(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T = drawn()
        path, written = tmp_path / "state", Checkpoint.write
        counted = iter(range(100))

        def full(self: Checkpoint, path: Any) -> None:
            if next(counted) == 4:
                raise OutputError(f"{path} cannot be written: No space left on device.")
            written(self, path)

        model = clone(MODELS["localized"])
        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "write", full)
            with pytest.raises(OutputError, match="No space left"):
                model.fit(iter(chunks(X, y)), checkpoint=path)
        assert model.predict(T).shape == (30,)
        expected = clone(MODELS["localized"]).fit(iter(chunks(X, y)))
        again = clone(MODELS["localized"]).fit(iter(chunks(X, y)), checkpoint=path)
        np.testing.assert_array_equal(both(again, T), both(expected, T))


class TestBadChunks:
    def broken(self, at: int, chunk: Any) -> list[Any]:
        X, y, _ = drawn()
        made: list[Any] = chunks(X, y)
        made[at] = chunk(*made[at])
        return made

    @every_model
    def test_one_with_a_nan_is_named_and_the_others_stay(self, name: str, tmp_path: Path) -> None:
        X, y, T = drawn()

        def bad(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            X = X.copy()
            X[7, 1] = np.nan
            return X, y

        made, model = self.broken(4, bad), clone(MODELS[name])
        with pytest.raises(StreamError, match=r"Chunk 4, row 7 of it, row 167 of the stream .*contains NaN") as caught:
            model.fit(iter(made))
        assert (caught.value.chunk, caught.value.row) == (4, 7)
        assert "The 160 rows of the 4 chunks before it are in the model" in str(caught.value)
        model.partial_fit(chunks(X, y)[4:])
        expected = clone(MODELS[name]).fit(iter(chunks(X, y)))
        np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-8)
        path = tmp_path / "state"
        with pytest.raises(StreamError, match=r"fit again with this checkpoint"):
            clone(MODELS[name]).fit(made, checkpoint=path)
        again = clone(MODELS[name]).fit(chunks(X, y), checkpoint=path)
        np.testing.assert_array_equal(both(again, T), of_chunks(name))

    @pytest.mark.parametrize(
        ("chunk", "told"),
        [
            (lambda X, y: (X[:, :1], y), r"Chunk 2 .*X has 1 features, but .* is expecting 2 features"),
            (lambda X, y: (X[:0], y[:0]), r"Chunk 2 .*it has no rows. Leave empty chunks out"),
            (lambda X, y: (X, y[:-1]), r"Chunk 2 .*inconsistent numbers of samples"),
            (lambda X, y: (X,), r"Chunk 2 .*is no pair of X and y: got 1 parts"),
            (lambda X, y: (X[:, 0], y), r"Chunk 2 .*X must have rows and columns"),
            (lambda X, y: (X, y, -np.ones(len(y))), r"Chunk 2 .*sample_weight must not be negative"),
            (lambda X, y: (X, np.full(len(y), "a")), r"Chunk 2 .*not numeric"),
        ],
    )
    @pytest.mark.parametrize("name", ["featurized", "localized", "spectral"])
    def test_others_are_named_too(self, name: str, chunk: Any, told: str) -> None:
        made = self.broken(2, chunk)
        with pytest.raises(StreamError, match=told):
            clone(MODELS[name]).fit(iter(made))
        fitted = clone(MODELS[name]).fit(made[:2])
        with pytest.raises(StreamError, match=told.replace("Chunk 2", "Chunk 0")):
            fitted.partial_fit(iter(made[2:]))

    def test_rows_that_were_never_there_are_noticed(self) -> None:
        X, y, T = drawn()
        for name in MODELS:
            kept = clone(MODELS[name]).partial_fit(X, y)
            summed = clone(MODELS[name]).fit(chunks(X, y))
            keeps = name.startswith(("localized", "spectral"))
            for model, rows in (
                (kept, (X[:1] + 1e-6, y[:1])),
                (kept, (X[:1], y[:1] + 0.1)),
                (summed, (X[:1], 1e6 + y[:1])),
            ):
                if model is kept and not keeps:
                    continue
                before = both(model, T)
                with pytest.raises(InputError, match=r"cannot be taken out, because not all of them are in the model"):
                    model.forget(*rows)
                np.testing.assert_array_equal(both(model, T), before)
            with pytest.raises(InputError, match=r"cannot be taken out|No row would be left"):
                summed.forget(np.concatenate((X, X)), np.concatenate((y, y)))
            with pytest.raises(InputError, match=r"No row would be left|falls below zero"):
                summed.forget(X, y)

    def test_a_fit_that_fails_at_once_leaves_the_model(self) -> None:
        X, y, T = drawn()
        model = clone(MODELS["featurized"]).fit(X, y)
        before = both(model, T)
        with pytest.raises(StreamError):
            model.fit([(X[:0], y[:0]), (X, y)])
        np.testing.assert_array_equal(both(model, T), before)
        with pytest.raises(InputError, match="y belongs into the chunks"):
            model.fit(iter(chunks(X, y)), y)
        with pytest.raises(InputError, match="chunk_rows must be a positive integer"):
            model.fit(X, y, chunk_rows=0)
        with pytest.raises(InputError, match=r"At least 2 rows|no rows"):
            model.fit(iter([]))

    def test_models_that_do_not_go_together(self) -> None:
        X, y, _ = drawn()
        one = clone(MODELS["localized"]).fit(X, y)
        with pytest.raises(InputError, match=r"A LocalizedGPRegressor merges with another one; got Featurized"):
            one.merge(clone(MODELS["featurized"]).fit(X, y))
        with pytest.raises(InputError, match=r"Models of one kernel merge"):
            one.merge(clone(one).set_params(kernel=GaussianKernel(2.0)).fit(X, y))
        with pytest.raises(InputError, match=r"Models of one map merge"):
            one.merge(clone(one).set_params(features=TaylorFeatures(66)).fit(X, y))
        with pytest.raises(InputError, match=r"model that keeps its rows gets no sums"):
            one.merge(clone(one).fit(chunks(X, y)))
        with pytest.raises(InputError, match=r"of a stream needs solver='primal'"):
            clone(one).set_params(solver="dual").fit(chunks(X, y))
