"""GPRegressor of chunks, files and dask collections: the choice, the predictions and the statements."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import lmgp
from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, MaternKernel, SpectralGPRegressor
from lmgp.errors import InputError, StreamError, ToleranceWarning
from lmgp.metrics import kl_divergence
from lmgp.recipes import Exact, Local, Spectral, Weights
from lmgp.sums import stream
from lmgp.sums.base import Sample
from tests.estimators.streams import both, chunks
from tests.estimators.test_streams_noise import Stopping

N = 3000
GIVEN: Any = {"kernel": MaternKernel([1.2, 1.0], smoothness=2.5), "noise_variance": 0.1, "random_state": 0}
MODEL = GPRegressor(**GIVEN)


def drawn(n: int = N, d: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 8.0, (n, d))
    y = 7.0 + np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.3 * rng.normal(size=n)
    return X, y, rng.uniform(0.5, 7.5, (200, d))


def divergence(model: Any, exact: Any, T: np.ndarray) -> float:
    """KL a row with noise, of one model from another."""
    (mean, std), (right, of_right) = both(model, T), both(exact, T)
    noise = exact.noise_variance_
    return float(np.mean(kl_divergence(mean, std**2 + noise, right, of_right**2 + noise)))


@pytest.mark.slow
def test_what_is_learned_and_chosen_is_that_of_the_same_rows_in_memory() -> None:
    X, y, T = drawn()
    model = GPRegressor(random_state=0).fit(chunks(X, y, 700))
    whole = GPRegressor(kernel="matern52+gaussian", random_state=0).fit(X, y)
    np.testing.assert_allclose(model.kernel_.theta, whole.kernel_.theta, rtol=1e-5)
    assert model.noise_variance_ == pytest.approx(whole.noise_variance_, rel=1e-5)
    assert model.recipe_ == whole.recipe_
    assert isinstance(model.recipe_, Spectral)
    assert divergence(model, whole, T) < 1e-3
    assert isinstance(model.model_, SpectralGPRegressor)
    assert str(model.selection_).count("spectral") == 1
    assert model.selection_.chosen.kl < 1e-3
    assert model.noise_.n_rows == N
    assert np.all(model.importance_ > 0.0)
    assert "3,000 rows" in str(model)


@pytest.mark.slow
@pytest.mark.parametrize("chunk_rows", [1, 700])
def test_predictions_are_near_the_exact_process_of_all_rows(chunk_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "Sample", partial(Sample, size=400))
    X, y, T = drawn()
    X, y = (one[: 900 * chunk_rows] for one in (X, y))
    model = clone(MODEL).fit(X, y, chunk_rows=chunk_rows)
    exact = ExactGPRegressor(GIVEN["kernel"], GIVEN["noise_variance"]).fit(X, y)
    assert model.selection_.sample_rows == 400
    assert model.selection_.n_predict == len(X)
    assert model.noise_.n_rows == len(X)
    assert divergence(model, exact, T) < model.tolerance


@pytest.mark.slow
@pytest.mark.parametrize("metric", [None, "sphere"])
def test_a_map_is_that_of_rows_in_memory(metric: Any) -> None:
    X, y, T = drawn(N, 4)
    kernel = GaussianKernel([1.5, 1.5, 3.0, 3.0] if metric is None else [300.0, 300.0, 300.0, 3.0, 3.0])
    model = GPRegressor(
        kernel=kernel, noise_variance=0.1, methods=["nystroem", "nearest_rows"], max_features=256, metric=metric,
        noise="normal", random_state=0,
    )  # fmt: skip
    with pytest.warns(ToleranceWarning, match="Fit to rows in memory"):
        model.fit(chunks(X, y, 700))
    whole = clone(model).set_params(methods=["nystroem"])
    with pytest.warns(ToleranceWarning):
        whole.fit(X, y)
    assert isinstance(model.recipe_, Weights)
    assert [one.n_features for one in model.selection_] == [one.n_features for one in whole.selection_]
    assert model.selection_.chosen.kl == pytest.approx(whole.selection_.chosen.kl)
    assert "divergences may be larger" in str(model.selection_)
    assert "divergences may be larger" not in str(whole.selection_)
    np.testing.assert_allclose(both(model, T), both(whole, T), rtol=1e-6)


@pytest.mark.slow
def test_a_localized_model_is_near_the_exact_process() -> None:
    X, y, T = drawn()
    model = GPRegressor(
        kernel=GaussianKernel(1.0), noise_variance=0.1, methods=["local_taylor"], noise="normal", random_state=0
    ).fit(chunks(X, y, 700))
    assert isinstance(model.recipe_, Local)
    exact = ExactGPRegressor(GaussianKernel(1.0), 0.1).fit(X, y)
    assert divergence(model, exact, T) < 3e-3


@pytest.mark.slow
def test_a_trend_leaves_models_around_centroids_out() -> None:
    X, y, T = drawn()
    model = GPRegressor(
        kernel=GaussianKernel(1.5), noise_variance=0.1, methods=["local_taylor", "global_taylor", "spectral"],
        trend="linear", random_state=0,
    )  # fmt: skip
    model.fit(chunks(X, y, 700))
    exact = ExactGPRegressor(GaussianKernel(1.5), 0.1, trend="linear").fit(X, y)
    assert divergence(model, exact, T) < 1e-3


@pytest.mark.slow
def test_a_rough_kernel_says_how_far_off_its_model_is() -> None:
    X, y, _ = drawn(800)
    model = GPRegressor(kernel=MaternKernel(1.0, smoothness=0.5), noise_variance=0.01, max_features=64, random_state=0)
    with pytest.warns(ToleranceWarning, match=r"nats a row from the exact GP, above tolerance=0\.001") as told:
        model.fit(chunks(X, y, 300))
    assert {one.filename for one in told} == {__file__}  # the line that calls fit
    assert model.selection_.chosen.kl > 1e-3


@pytest.mark.slow
def test_files_dask_and_iterators(tmp_path: Path) -> None:
    X, y, T = drawn()
    of_chunks = clone(MODEL).fit(chunks(X, y, 700))
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    names = pd.DataFrame(T, columns=["a", "b"])
    table.to_parquet(tmp_path / "rows.parquet")
    of_file = clone(MODEL).fit(lmgp.io.open_dataset(tmp_path / "rows.parquet", target="y", chunk_rows=700))
    np.testing.assert_array_equal(both(of_file, names), both(of_chunks, T))
    # An iterator is read once: its first chunks, of 2,000 rows or more, are what the choice looks at.
    once = clone(MODEL).fit(iter(chunks(X, y, 700)))
    assert once.selection_.sample_rows == 2100
    assert once.selection_.n_predict == 10**6
    assert divergence(once, of_chunks, T) < 1e-3
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(table, npartitions=5)
    of_dask = clone(MODEL).fit(frame[["a", "b"]], frame["y"])
    assert of_dask.recipe_ == of_chunks.recipe_
    assert divergence(of_dask, of_chunks, T) < 1e-5
    assert list(of_dask.feature_names_in_) == ["a", "b"]


@pytest.mark.slow
def test_a_memory_map_is_rows_in_memory_unless_chunks_are_asked_for(tmp_path: Path) -> None:
    X = np.memmap(tmp_path / "X", np.float64, "w+", shape=(1100, 512))
    X[:] = np.random.default_rng(0).normal(size=X.shape)
    y = X[:, 0] + np.random.default_rng(1).normal(size=1100)
    model = GPRegressor(kernel=GaussianKernel(30.0), noise_variance=1.0, noise="normal").fit(X, y)
    assert isinstance(model.recipe_, Exact)
    assert isinstance(clone(model).set_params(methods=["nystroem"]).fit(X, y, chunk_rows=500).recipe_, Weights)


@pytest.mark.slow
def test_it_is_saved_and_goes_on_as_the_chosen_model(tmp_path: Path) -> None:
    X, y, T = drawn()
    model = clone(MODEL).fit(chunks(X, y, 700))
    found = both(model, T)
    np.testing.assert_array_equal(both(pickle.loads(pickle.dumps(model)), T), found)
    model.save(tmp_path / "model.lmgp")
    loaded = lmgp.load(tmp_path / "model.lmgp")
    np.testing.assert_array_equal(both(loaded, T), found)
    assert str(loaded.selection_) == str(model.selection_)
    more = loaded.model_.partial_fit(X[:1000], y[:1000]).forget(X[:1000], y[:1000])
    np.testing.assert_allclose(both(more, T), found, atol=1e-2)


@pytest.mark.slow
def test_a_stopped_fit_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    X, y, T = drawn()
    made, path = chunks(X, y, 500), tmp_path / "state"
    model = clone(MODEL)
    with pytest.raises(KeyboardInterrupt):
        model.fit(Stopping(made, 9), checkpoint=path)
    model.fit(made, checkpoint=path)
    np.testing.assert_array_equal(both(model, T), both(clone(MODEL).fit(made), T))
    assert not path.exists()


@pytest.mark.slow
def test_a_fit_to_a_stream_follows_one_to_a_table_with_text() -> None:
    X, y, T = drawn()
    words = pd.DataFrame({"a": X[:300, 0], "kind": np.where(X[:300, 1] > 4.0, "low", "high")})
    model = GPRegressor(random_state=0, noise="normal", average=False).fit(words, y[:300])
    assert model.columns_ is not None
    broken = chunks(X, y, 700)
    broken[0][0][5, 1] = np.nan
    with pytest.raises(StreamError):
        model.fit(broken)
    assert model.columns_ is not None
    assert np.isfinite(model.predict(words)).all()
    model.set_params(**GIVEN).fit(chunks(*drawn()[:2], 700))
    assert model.columns_ is None
    np.testing.assert_array_equal(model.predict(T), clone(model).fit(chunks(*drawn()[:2], 700)).predict(T))


@pytest.mark.slow
def test_bad_chunks_are_refused_by_their_number() -> None:
    X, y, T = drawn()
    model = clone(MODEL).fit(chunks(X, y, 700))
    before = model.predict(T)
    for broken, told in (
        ([(X[:700], y[:700]), (np.where(np.arange(600)[:, None] == 3, np.nan, X[:600]), y[:600])], "Chunk 1, row 3"),
        ([(X[:700], y[:700]), (X[:600, :1], y[:600])], "Chunk 1 .*1 features.*expecting 2"),
        ([(X[:700], y[:700]), (np.full((600, 2), "x"), y[:600])], "Chunk 1 .*'x'"),
        ([(X[:700], y[:700]), (X[:600], y[:5])], "Chunk 1 .*inconsistent numbers"),
    ):
        with pytest.raises(StreamError, match=told):
            model.fit(broken)
        np.testing.assert_array_equal(model.predict(T), before)
    # Of an iterator, which is read once, the model of the first chunk stays; there is no partial_fit to go on with.
    broken = [(X[:700], y[:700]), (X[:5] * np.nan, y[:5])]
    with pytest.raises(StreamError, match=r"The 700 rows .* are in the model\. Mend the chunk, and fit again"):
        clone(MODEL).fit(iter(broken))
    for few in ([], [(X[:1], y[:1])]):
        with pytest.raises(InputError, match="At least 2 rows"):
            model.fit(iter(few))
        np.testing.assert_array_equal(model.predict(T), before)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"methods": ["nearest_rows", "exact"]}, r"\['nearest_rows', 'exact'\] leaves.*sums over rows.*spectral"),
        ({"columns": {0: "log"}}, "columns=.* takes all rows in memory"),
        ({"rotate": True}, "rotate=True takes all rows in memory"),
        ({"average": True}, "average=True takes all rows in memory"),
        ({"noise": "robust"}, "noise='robust' fits all rows several times"),
    ],
)
def test_what_takes_all_rows_is_refused_before_a_row_is_read(given: dict[str, Any], told: str) -> None:
    def read() -> Any:
        raise AssertionError

    with pytest.raises(InputError, match=told):
        clone(MODEL).set_params(**given).fit(read)


def test_chunks_of_a_frame_have_its_names() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"lat": rng.uniform(50.0, 55.0, 400), "lon": rng.uniform(-6.0, 2.0, 400)})
    model = SpectralGPRegressor(kernel=GaussianKernel(0.7), noise_variance=0.01, trend=["lat"])
    whole, chunked = (clone(model).fit(table, table["lat"] ** 2, **how) for how in ({}, {"chunk_rows": 100}))
    assert chunked.feature_names_in_.tolist() == ["lat", "lon"]
    np.testing.assert_allclose(chunked.predict(table[:5]), whole.predict(table[:5]), rtol=1e-4)
    with pytest.raises((InputError, ValueError), match="feature names"):
        chunked.predict(table[["lon", "lat"]])
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(table)
    again = clone(model).fit(arrow, table["lat"] ** 2, chunk_rows=100)
    np.testing.assert_array_equal(again.predict(table[:5]), chunked.predict(table[:5]))


def test_models_of_other_sums_do_not_merge() -> None:
    X, y, _ = drawn(400)
    given = {**GIVEN, "kernel": GaussianKernel(1.0), "noise": "normal"}
    modes, features, around = (
        GPRegressor(**given, tolerance=0.1).set_params(methods=[name]).fit(chunks(X, y, 200), center=0.0)
        for name in ("spectral", "orf", "local_taylor")
    )
    rows = GPRegressor(**given, methods=["nearest_rows"]).fit(X, y, center=0.0)
    for one, other in ((modes, features), (features, modes), (modes, rows), (rows, modes)):
        with pytest.raises(InputError, match="Models with the same first rows merge"):
            one.merge(other)
    assert around.merge(rows).recipe_.__class__ is Local
