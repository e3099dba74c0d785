"""Streams that stop half way, and chunks that cannot be used: what is kept, and how it goes on."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    RandomFourierFeatures,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.errors import EmptyChunkWarning, InputError, ModelFileError, OutputError, StreamError
from lmgp.sums import stream
from tests.estimators.streams import MODELS, both, chunks, drawn, every_model, of_chunks

ROOT = Path(__file__).parents[2]
# Of four columns, whose centroids take a pass of their own.
FOUR: dict[str, Any] = {"kernel": GaussianKernel(1.0), "noise_variance": 0.05}


class StopError(Exception):
    pass


class Stopping(lmgp.io.sources.RowSource):
    """The chunks of a list, until one cannot be read."""

    def __init__(self, made: list[Any], last: int) -> None:
        self.made, self.left = made, last

    def chunks(self) -> Iterator[Any]:
        for chunk in self.made:
            self.left -= 1
            if self.left < 0:
                raise StopError
            yield lmgp.io.sources.Chunk(*chunk)


KILLED = """
import os, sys
import numpy as np
sys.path.insert(0, {root!r})
from sklearn.base import clone
from tests.estimators.streams import MODELS, chunks, drawn
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

    @pytest.mark.slow
    def test_a_killed_process_goes_on_to_the_same_model(self, tmp_path: Path) -> None:
        X, y, T = drawn()
        path = str(tmp_path / "state")
        code = KILLED.format(root=str(ROOT), path=path, name="localized", last=4)
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == -9
        model = clone(MODELS["localized"]).fit(iter(chunks(X, y)), checkpoint=path)
        expected = clone(MODELS["localized"]).fit(iter(chunks(X, y)))
        np.testing.assert_array_equal(both(model, T), both(expected, T))

    @pytest.mark.parametrize("last", [1, 3, 6])
    @pytest.mark.parametrize("name", ["featurized", "featurized_nystroem", "spectral_trend"])
    def test_an_iterator_goes_on_as_one_that_was_not_stopped_or_as_what_is_read_again(
        self, name: str, last: int, tmp_path: Path
    ) -> None:
        X, y, T = drawn()
        path = tmp_path / "state"
        with pytest.raises(StopError):
            clone(MODELS[name]).fit(Stopping(chunks(X, y), last), checkpoint=path)
        model = clone(MODELS[name]).fit(iter(chunks(X, y)), checkpoint=path)
        expected = of_chunks(name) if last == 6 else both(clone(MODELS[name]).fit(iter(chunks(X, y))), T)
        np.testing.assert_array_equal(both(model, T), expected)

    def test_an_iterator_does_not_go_on_with_a_pass_over_places(self, tmp_path: Path) -> None:
        X, y = np.tile(np.random.default_rng(0).uniform(0.0, 2.0, (40, 4)), (6, 1)), drawn()[1]
        given, path = LocalizedGPRegressor(TaylorFeatures(15), random_state=0, **FOUR), tmp_path / "state"
        with pytest.raises(StopError):
            clone(given).fit(Stopping(chunks(X, y), 4), checkpoint=path)  # in the first of two passes
        model = clone(given).fit(iter(chunks(X, y)), checkpoint=path)
        assert model.center_ == pytest.approx(y.mean(), rel=1e-12)
        np.testing.assert_array_equal(both(model, X[:9]), both(clone(given).fit(iter(chunks(X, y))), X[:9]))

    def stopped(self, path: Path, name: str = "localized") -> tuple[Any, list[Any]]:
        X, y, _ = drawn()
        with pytest.raises(StopError):
            clone(MODELS[name]).fit(Stopping(chunks(X, y), 4), checkpoint=path)
        return MODELS[name], chunks(X, y)

    @pytest.mark.slow
    @pytest.mark.parametrize("at", [0, 1, 3])
    @pytest.mark.parametrize("part", [0, 1])
    @pytest.mark.parametrize("name", ["featurized_nystroem", "localized", "spectral"])
    def test_a_change_of_any_chunk_before_is_refused(self, name: str, part: int, at: int, tmp_path: Path) -> None:
        model, made = self.stopped(tmp_path / "state", name)
        before = (tmp_path / "state").read_bytes()
        changed = [tuple(one.copy() for one in chunk) for chunk in made]
        changed[at][part][-1] += 1e-12
        swapped = [made[1], made[0], *made[2:]]
        for others in (changed, swapped, made[:3]):
            with pytest.raises(ModelFileError, match="checkpoint of another stream: the first 4 chunks of this one"):
                clone(model).fit(others, checkpoint=tmp_path / "state")
            assert (tmp_path / "state").read_bytes() == before
        changed = [*made[:4], (made[4][0] + 0.01, made[4][1]), made[5]]
        model = clone(model).fit(changed, checkpoint=tmp_path / "state")
        np.testing.assert_array_equal(model.predict(made[0][0]), clone(model).fit(changed).predict(made[0][0]))

    def test_chunks_without_rows_are_no_change(self, tmp_path: Path) -> None:
        X, y, T = drawn()
        made, none = chunks(X, y), (X[:0], y[:0])
        with pytest.raises(StopError), pytest.warns(EmptyChunkWarning):
            clone(MODELS["localized"]).fit(Stopping([made[0], none, *made[1:]], 4), checkpoint=tmp_path / "state")
        with pytest.warns(EmptyChunkWarning):
            model = clone(MODELS["localized"]).fit([made[0], none, *made[1:], none], checkpoint=tmp_path / "state")
        np.testing.assert_array_equal(both(model, T), of_chunks("localized"))

    def test_checkpoints_of_others_are_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "state"
        model, made = self.stopped(path)
        before = path.read_bytes()
        for other, told in (
            (clone(model).set_params(threshold=1.5), "a checkpoint of a LocalizedGPRegressor with other parameters"),
            (MODELS["featurized"], "a checkpoint of LocalizedGPRegressor, not of FeaturizedGPRegressor"),
        ):
            with pytest.raises(ModelFileError, match=f"{told}.*remove the file"):
                clone(other).fit(made, checkpoint=path)
            assert path.read_bytes() == before
        clone(model).fit(made).save(path)
        with pytest.raises(ModelFileError, match="is a model of LocalizedGPRegressor, and no checkpoint"):
            clone(model).fit(made, checkpoint=path)
        path.write_bytes(before[:-9])
        with pytest.raises(ModelFileError):
            clone(model).fit(made, checkpoint=path)

    def test_a_place_that_cannot_be_written_is_refused_before_rows_are_read(self, tmp_path: Path) -> None:
        def made() -> Iterator[Any]:
            raise AssertionError
            yield

        with pytest.raises(OutputError, match="there is no folder"):
            clone(MODELS["featurized"]).fit(made, checkpoint=tmp_path / "no" / "state")

    def test_a_full_disk_leaves_the_last_checkpoint(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T = drawn()
        path, written = tmp_path / "state", stream.write_file
        counted = iter(range(100))

        def full(path: Any, *content: Any) -> None:
            if next(counted) == 4:
                raise OutputError(f"{path} cannot be written: No space left on device.")
            written(path, *content)

        model = clone(MODELS["localized"])
        with monkeypatch.context() as patch:
            patch.setattr(stream, "write_file", full)
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
    def test_one_with_a_nan_is_named_and_the_others_stay(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stream, "FIRST_ROWS", 40)  # those of the first chunk: the models are then of one map
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

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("chunk", "told"),
        [
            (lambda X, y: (X[:, :1], y), r"Chunk 2 .*X has 1 features, but .* is expecting 2 features"),
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
        kept = (
            rf"(?s){told}.*\. The {len(made[0][0]) + len(made[1][0])} rows of the 2 chunks before it are in the model"
        )
        with pytest.raises(StreamError, match=kept):
            clone(MODELS[name]).fit(iter(made))
        fitted = clone(MODELS[name]).fit(made[:2])
        with pytest.raises(StreamError, match=told.replace("Chunk 2", "Chunk 0")):
            fitted.partial_fit(iter(made[2:]))

    def test_a_chunk_without_rows_is_skipped_and_told_once(self) -> None:
        X, y, T = drawn()
        made = chunks(X, y)
        model = clone(MODELS["featurized"])
        with pytest.warns(UserWarning, match=r"Chunk 2 \(counted from 0\) has no rows") as told:
            model.fit([*made[:2], (X[:0], y[:0]), *made[2:], (X[:0], y[:0])])
        assert len(told) == 1
        np.testing.assert_array_equal(both(model, T), of_chunks("featurized"))

    def test_rows_that_were_never_there_are_noticed(self) -> None:
        X, y, T = drawn()
        for name in MODELS:
            kept = clone(MODELS[name]).partial_fit(X, y)
            summed = clone(MODELS[name]).fit(chunks(X, y))
            keeps = name.startswith(("localized", "spectral", "nearest"))
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

    def test_a_gram_matrix_that_no_rows_have_is_noticed(self) -> None:
        X, y, T = drawn()
        features = RandomFourierFeatures(2 * len(X), random_state=0)
        model = FeaturizedGPRegressor(features, kernel=GaussianKernel(1.0), noise_variance=0.05).fit(X, y)
        before = both(model, T)
        with pytest.raises(InputError, match=r"not all of them are in the model: no rows have the Gram matrix"):
            model.forget(np.column_stack((X.min(axis=0)[:1], X.max(axis=0)[1:])), y[:1])  # a corner without rows
        np.testing.assert_array_equal(both(model, T), before)

    @pytest.mark.parametrize("kind", [list, iter, lambda made: lambda: iter(made), lmgp.io.sources.RowSource])
    @pytest.mark.parametrize(
        "regressor", [ExactGPRegressor, lmgp.estimators.MultiTargetGPRegressor, TransformedTargetGPRegressor]
    )
    def test_who_needs_all_rows_takes_no_chunks(self, regressor: Any, kind: Any) -> None:
        X, y, _ = drawn()
        told = rf"{regressor.__name__} takes rows in memory; got a \w+ of chunks\. Fit GPRegressor, .* to a sample\."
        with pytest.raises(InputError, match=told):
            regressor().fit(kind(chunks(X, y)))

    def test_a_fit_that_fails_at_once_leaves_the_model(self) -> None:
        X, y, T = drawn()
        model = clone(MODELS["featurized"]).fit(X, y)
        before = both(model, T)
        with pytest.raises(StreamError):
            model.fit([(np.nan * X, y), (X, y)])
        np.testing.assert_array_equal(both(model, T), before)
        with pytest.raises(InputError, match="y belongs into the chunks"):
            model.fit(iter(chunks(X, y)), y)
        with pytest.raises(InputError, match="chunk_rows must be a positive integer"):
            model.fit(X, y, chunk_rows=0)
        with pytest.raises(InputError, match=r"At least 2 rows|no rows"):
            model.fit(iter([]))
