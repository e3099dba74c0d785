"""Fits and predictions of dask collections, in this process: against the same rows in memory."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from threadpoolctl import threadpool_info

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    NystroemFeatures,
    OrthogonalFourierFeatures,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.data import Rows
from lmgp.sums import partitions
from lmgp.sums.base import Sample
from lmgp.sums.partitions import Partitions
from tests.conftest import counts_and_noises
from tests.estimators.streams import ARGUMENTS, GIVEN, MODELS, both, chunks, drawn, every_model

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")


def blocks(array: np.ndarray, size: int = 37) -> Any:
    """An array with the last block shorter than the others."""
    return da.from_array(array, chunks=(size, *array.shape[1:]))


def frame(n_partitions: int = 5) -> tuple[pd.DataFrame, Any]:
    X, y, _ = drawn()
    rows = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y, "w": np.arange(len(y)) % 3.0})
    return rows, dd.from_pandas(rows, npartitions=n_partitions, sort=False)


@pytest.fixture(autouse=True)
def _threads() -> Any:
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


class TestFit:
    @pytest.mark.slow
    @pytest.mark.parametrize("arguments", [(), ARGUMENTS[-1]])
    @pytest.mark.parametrize("name", ["featurized_trend", "localized", "spectral"])
    def test_the_frozen_model_is_that_of_rows_in_memory(self, name: str, arguments: tuple[str, ...]) -> None:
        X, y, T = drawn()
        counts, noises = counts_and_noises(len(y))
        values = {"sample_weight": counts, "noise_variances": noises}
        given = {one: values[one] for one in arguments}
        frozen = clone(MODELS[name]).fit(chunks(X[:80], y[:80], **{one: given[one][:80] for one in arguments}))
        expected = frozen.with_rows(X, y, **given)
        # y and the others in other blocks than X.
        lazy = {one: blocks(given[one], 50) for one in arguments}
        model = frozen.with_rows(blocks(X), blocks(y, 61), **lazy)
        np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-8)
        frozen.partial_fit(blocks(X[80:]), blocks(y[80:]), **{one: blocks(given[one][80:]) for one in arguments})
        np.testing.assert_allclose(both(frozen, T), both(expected, T), rtol=0, atol=1e-8)
        assert model.center_ == pytest.approx(expected.center_, rel=1e-12)

    @pytest.mark.slow
    @every_model
    def test_a_fit_is_that_of_a_stream(self, name: str) -> None:
        X, y, T = drawn()
        stream = clone(MODELS[name]).fit(chunks(X, y, 37))
        model = clone(MODELS[name]).fit(blocks(X), blocks(y))
        np.testing.assert_allclose(both(model, T), both(stream, T), rtol=0, atol=1e-8)
        other = clone(MODELS[name]).fit(blocks(X), blocks(y))
        np.testing.assert_array_equal(both(other, T), both(model, T))
        # It goes on with rows in memory, too.
        left = model.with_rows(X[60:], y[60:])
        np.testing.assert_allclose(both(model.forget(X[:60], y[:60]), T), both(left, T), rtol=0, atol=1e-8)
        model.merge(left.with_rows(blocks(X[:60]), blocks(y[:60])))
        np.testing.assert_allclose(both(model, T), both(stream, T), rtol=0, atol=1e-8)
        model.forget(blocks(X[:60]), blocks(y[:60]))
        np.testing.assert_allclose(both(model, T), both(left, T), rtol=0, atol=1e-8)

    def test_what_is_learned_is_learned_from_the_rows(self) -> None:
        X, y, T = drawn()
        model = SpectralGPRegressor(random_state=0).fit(blocks(X), blocks(y))
        whole = SpectralGPRegressor(random_state=0).fit(X, y)
        assert model.kernel_.lengthscale == pytest.approx(whole.kernel_.lengthscale, rel=1e-9)
        assert model.noise_variance_ == pytest.approx(whole.noise_variance_, rel=1e-9)
        np.testing.assert_allclose(model.predict(T), whole.predict(T), rtol=0, atol=1e-3)

    def test_of_five_columns_centroids_cover_all_partitions(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 2.0, (120, 5))
        y = X.sum(axis=1) + 0.1 * rng.normal(size=120)
        model = LocalizedGPRegressor(TaylorFeatures(56), kernel=GaussianKernel(2.0), noise_variance=0.05)
        whole = clone(model).fit(chunks(X, y))
        found = clone(model).fit(da.from_array(X, chunks=(17, 2)), blocks(y))  # columns in blocks of their own
        np.testing.assert_array_equal(np.sort(found.centroids_, axis=0), np.sort(whole.centroids_, axis=0))
        np.testing.assert_allclose(both(found, X[:20]), both(whole, X[:20]), rtol=0, atol=1e-8)

    @pytest.mark.slow
    def test_data_frames_of_unknown_lengths_with_empty_partitions(self) -> None:
        rows, lazy = frame()
        lazy = lazy[(lazy["a"] < 2.0) | (lazy["a"] > 4.0)]
        kept = rows[(rows["a"] < 2.0) | (rows["a"] > 4.0)]
        lazy = dd.concat([lazy.partitions[:2], lazy.partitions[2:3].query("a > 99"), lazy.partitions[3:]])
        kept = kept.drop(index=kept.index[(kept.index >= 96) & (kept.index < 144)])
        model = clone(MODELS["localized"]).fit(lazy[["a", "b"]], lazy["y"], lazy["w"], 0.05)
        expected = clone(MODELS["localized"]).fit([(kept[["a", "b"]], kept["y"], kept["w"], np.full(len(kept), 0.05))])
        T = kept[["a", "b"]].iloc[:9]
        np.testing.assert_allclose(both(model, T), both(expected, T), rtol=0, atol=1e-8)
        assert model.feature_names_in_.tolist() == ["a", "b"]
        # The same as arrays of unknown lengths, beside a frame of one column.
        arrays = clone(MODELS["localized"]).fit(lazy[["a", "b"]].values, lazy[["y"]], lazy["w"].values, 0.05)
        np.testing.assert_array_equal(both(arrays, T.to_numpy()), both(model, T))

    def test_a_partition_is_made_once_a_pass(self) -> None:
        X, y, _ = drawn()
        made = []

        def block(block_id: tuple[int, ...] = (0, 0)) -> np.ndarray:
            made.append(block_id[0])
            part = slice(60 * block_id[0], 60 * block_id[0] + 60)
            return np.column_stack((X[part], y[part]))

        rows = da.map_blocks(block, dtype=float, chunks=((60,) * 4, (3,)), meta=np.empty((0, 3)))
        LocalizedGPRegressor(TaylorFeatures(28), **GIVEN).fit(rows[:, :2], rows[:, 2])
        assert sorted(made) == [0, 0, 1, 2, 3]  # of the first one, where y is around
        made.clear()
        clone(MODELS["featurized"]).fit(rows[:, :2], rows[:, 2])
        assert sorted(made) == sorted([0, 1, 2, 3] * 2)


class TestReduction:
    def test_what_is_gathered_does_not_grow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sizes: list[int] = []
        compute = partitions.computed

        def counted(total: Any, client: Any = None) -> Any:
            found = compute(total, client)
            sizes.append(len(pickle.dumps(found)))
            return found

        monkeypatch.setattr(partitions, "computed", counted)
        model = FeaturizedGPRegressor(OrthogonalFourierFeatures(32, random_state=0), **GIVEN)
        for n in (2_000, 20_000):
            X, y, _ = drawn(n)
            clone(model).fit(blocks(X, 500), blocks(y, 500))
        # Of each fit: the first partition, and the sums.
        assert len(sizes) == 4
        assert abs(sizes[0] - sizes[2]) < 64
        assert abs(sizes[1] - sizes[3]) < 64

    def test_the_sample_is_that_of_the_seed(self) -> None:
        X, y, T = drawn(24_000)  # more than are kept
        model = FeaturizedGPRegressor(NystroemFeatures(12), **GIVEN)
        found = []
        for scheduler, seed in (("threads", 0), ("synchronous", 0), ("threads", 1)):
            with dask.config.set(scheduler=scheduler):
                one = clone(model).set_params(random_state=seed).fit(blocks(X, 5_000), blocks(y, 5_000))
            found.append(one.predict(T))
        np.testing.assert_array_equal(found[0], found[1])
        assert np.abs(found[0] - found[2]).max() > 1e-6

    def test_the_bar_counts_partitions(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("lmgp.utils.progress.shows_bars", lambda: True)
        X, y, _ = drawn()
        clone(MODELS["featurized"]).fit(blocks(X), blocks(y), verbose=True)
        told = capsys.readouterr().err
        assert "FeaturizedGPRegressor, first pass" in told
        assert "7/7" in told
        clone(MODELS["featurized"]).fit(blocks(X), blocks(y))
        assert capsys.readouterr().err == ""

    def test_samples_merge_to_that_of_all_rows(self) -> None:
        X = np.arange(300.0)[:, None]
        parts = []
        for k, part in enumerate(np.split(np.arange(300), 3)):
            parts.append(Sample(np.random.default_rng((1, k)), 50))
            parts[-1].add(Rows(X[part], X[part, 0]))
        before = [one.rows.X.copy() for one in parts if one.rows is not None]
        first = parts[0].merge(parts[1].merge(parts[2]))
        other = parts[0].merge(parts[1]).merge(parts[2])
        keys = np.concatenate([np.random.default_rng((1, k)).uniform(size=100) for k in range(3)])
        expected = np.sort(np.argsort(keys)[:50])
        for sample in (first, other):
            assert sample.rows is not None
            assert sample.summary is not None
            np.testing.assert_array_equal(sample.rows.X[:, 0], expected)
            assert sample.summary.n_rows == 300
            assert sample.summary.mean[0] == pytest.approx(149.5)
        for one, was in zip(parts, before, strict=True):
            assert one.rows is not None
            np.testing.assert_array_equal(one.rows.X, was)

    def test_a_task_has_one_thread(self) -> None:
        n_before = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            source = Partitions(blocks(np.zeros((90, 2))), blocks(np.zeros(90)))
            found = source.reduced(_Threads(), lambda one, other: one + other)
            assert found == [{1}] * 3
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(n_before)


class _Threads:
    """The numbers of threads that a task sees."""

    def __call__(self, number: int, first: int | None, chunk: Any) -> Any:
        return [{torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())}]


class TestPredictions:
    @every_model
    def test_they_are_those_of_rows_in_memory(self, name: str) -> None:
        X, y, T = drawn()
        model = clone(MODELS[name]).fit(chunks(X, y))
        lazy = blocks(T, 8)
        mean, std = model.predict(lazy, return_std=True, include_noise=True)
        expected = model.predict(T, return_std=True, include_noise=True)
        for found, wanted in zip((mean, std), expected, strict=True):
            assert isinstance(found, da.Array)
            assert (found.dtype, found.shape, found.chunks) == (np.float64, (30,), ((8, 8, 8, 6),))
            assert isinstance(found._meta, np.ndarray)
            np.testing.assert_allclose(found.compute(), wanted, rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.predict(lazy).compute(), model.predict(T), rtol=0, atol=1e-12)

    def test_they_wait(self) -> None:
        X, y, T = drawn()
        model = clone(MODELS["featurized"]).fit(X, y)
        expected = model.predict(T)

        def never(block: np.ndarray) -> np.ndarray:
            raise AssertionError

        mean, _ = model.predict(blocks(T).map_blocks(never, dtype=float, meta=np.empty((0, 2))), return_std=True)
        with pytest.raises(AssertionError):
            mean.compute()
        # And are those of the model at the time of the call.
        mean = model.predict(blocks(T))
        model.fit(X, -y)
        np.testing.assert_array_equal(mean.compute(), expected)

    def test_of_data_frames_they_are_series(self) -> None:
        rows, lazy = frame()
        model = clone(MODELS["spectral"]).fit(lazy[["a", "b"]], lazy["y"])
        mean, std, error = model.predict(lazy[["a", "b"]], return_std=True, return_error=True)
        expected = model.predict(rows[["a", "b"]], return_std=True, return_error=True)
        for found, wanted in zip((mean, std, error), expected, strict=True):
            assert (found.dtype, found.divisions) == (np.float64, lazy.divisions)
            pd.testing.assert_index_equal(found.compute().index, rows.index)
            np.testing.assert_allclose(found.compute(), wanted, rtol=0, atol=1e-9)
        assert (mean.name, std.name, error.name) == ("mean", "std", "error")
        table = lazy.assign(mean=mean).query("a > 99")
        assert table.compute().columns.tolist() == ["a", "b", "y", "w", "mean"]
        assert len(model.predict(table[["a", "b"]]).compute()) == 0
        lower, upper = model.predict_interval(lazy[["a", "b"]])
        np.testing.assert_allclose(upper.compute() - lower.compute(), 2 * 1.959964 * np.hypot(expected[1], 0.05**0.5))

    def test_of_every_model(self) -> None:
        X, y, T = drawn()
        model = ExactGPRegressor(**GIVEN).fit(X, y)
        np.testing.assert_allclose(model.predict(blocks(T)), model.predict(T), rtol=0, atol=1e-12)

    @pytest.mark.filterwarnings("ignore:X does not have valid feature names")
    def test_names_say_what_the_columns_are(self) -> None:
        rng = np.random.default_rng(0)
        places = pd.DataFrame({"latitude": rng.uniform(-80.0, 80.0, 60), "longitude": rng.uniform(-180.0, 180.0, 60)})
        y = np.sin(np.radians(places["latitude"]))
        model = GPRegressor(kernel=GaussianKernel(0.5), noise_variance=0.01, metric="sphere").fit(places, y)
        expected = model.predict(places)
        np.testing.assert_allclose(model.predict(dd.from_pandas(places, npartitions=3)), expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.predict(blocks(places.to_numpy())), expected, rtol=0, atol=1e-12)

    def test_the_model_is_sent_once(self) -> None:
        X, y, _ = drawn()
        model = clone(MODELS["featurized"]).fit(X, y)
        mean, std = dask.optimize(*model.predict(blocks(X, 10), return_std=True))
        graph = {**dict(mean.__dask_graph__()), **dict(std.__dask_graph__())}
        holding = [key for key, node in graph.items() if b"WeightPosterior" in pickle.dumps(node)]
        assert len(graph) > 24
        assert len(holding) == 1


def test_a_first_partition_of_one_row_is_not_enough_to_begin_with() -> None:
    X, y, T = drawn()
    model = FeaturizedGPRegressor(OrthogonalFourierFeatures(64), **GIVEN, random_state=0)
    uneven = (1, len(X) - 1)
    found = clone(model).fit(da.from_array(X, chunks=(uneven, 2)), da.from_array(y, chunks=(uneven,)))
    np.testing.assert_allclose(found.predict(T), clone(model).fit(X, y).predict(T), rtol=0, atol=1e-8)


def test_predictions_of_one_target_with_an_axis_of_its_own() -> None:
    X, y, T = drawn()
    model = ExactGPRegressor(GaussianKernel(1.0), 0.1).fit(X, y[:, None])
    mean, std = model.predict(blocks(T), return_std=True)
    expected = np.column_stack(model.predict(T, return_std=True))
    np.testing.assert_allclose(np.column_stack((mean.compute(), std.compute())), expected)
