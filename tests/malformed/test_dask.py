"""Malformed dask collections: what `fit` and `predict` say, and that the model stays as it was."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import lmgp
from lmgp import FeaturizedGPRegressor, LocalizedGPRegressor, SpectralGPRegressor, TaylorFeatures
from lmgp.errors import InputError, StreamError
from tests.malformed.conftest import GIVEN, RNG

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

X = RNG.uniform(0.0, 6.0, (100, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=100)
ROWS, TARGETS = da.from_array(X, chunks=(25, 2)), da.from_array(Y, chunks=25)
FRAME = dd.from_pandas(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y}), npartitions=4)
INPUTS = FRAME[["a", "b"]]
MODEL = FeaturizedGPRegressor(TaylorFeatures(40), **GIVEN)
Fit = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _synchronous() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def unknown(array: Any) -> Any:
    """The same array with blocks of unknown lengths."""
    chunks = ((np.nan,) * array.numblocks[0], *array.chunks[1:])
    return da.Array(array.dask, array.name, chunks, dtype=array.dtype, meta=array._meta)


def spoiled(array: np.ndarray, value: float) -> Any:
    """Rows with one value that cannot be used, in row 10 of partition 2."""
    array = array.copy()
    array.reshape(len(array), -1)[60, -1] = value
    return da.from_array(array, chunks=(25, *array.shape[1:]))


def nothing(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[:0]


# Before anything is computed.
AT_ONCE: dict[str, tuple[Fit, str]] = {
    "y in memory": (
        lambda m: m.fit(ROWS, Y),
        r"y must be a dask array .*like X; got ndarray\..*from_array\(y, chunks=X",
    ),
    "X in memory": (lambda m: m.fit(X, TARGETS), r"X must be a dask array.*; got ndarray, beside other dask"),
    "no y": (lambda m: m.fit(INPUTS), r"y must be a dask array of shape \(n,\), or a dask series.*got None"),
    "weights in memory": (lambda m: m.fit(ROWS, TARGETS, np.ones(100)), r"sample_weight must be a dask array.*ndarray"),
    "short": (lambda m: m.fit(ROWS, TARGETS[:-1]), r"X has 100 rows; y must have one value for each, got 99"),
    "few weights": (lambda m: m.fit(ROWS, TARGETS, TARGETS[:50]), r"sample_weight must have one value .*got 50"),
    "other partitions": (
        lambda m: m.fit(INPUTS, FRAME["y"].repartition(npartitions=2)),
        r"X has 4 partitions, y has 2:",
    ),
    "other divisions": (
        lambda m: m.fit(INPUTS, FRAME["y"].repartition(divisions=[0, 10, 20, 30, 99])),
        r"as many partitions, but of other rows.*Use y\.repartition\(divisions=X\.divisions\)",
    ),
    "unknown partitions": (
        lambda m: m.fit(unknown(ROWS), TARGETS.rechunk(20)),
        r"X has 4 partitions, y has 5: .*compute_chunk_sizes\(\)",
    ),
    "flat": (lambda m: m.fit(ROWS[:, 0], TARGETS), r"X must have rows and columns.*got a dask array of shape \(100,\)"),
    "two targets": (lambda m: m.fit(ROWS, ROWS), r"y should be a 1d array.*got shape \(100, 2\)"),
    "two columns": (lambda m: m.fit(INPUTS, INPUTS), r"y should be a 1d array.*got 2 columns"),
    "a series": (lambda m: m.fit(FRAME["a"], FRAME["y"]), r"X must be .*a dask data frame; got a dask Series"),
    "delayed": (lambda m: m.fit(dask.delayed(X), TARGETS), r"got a dask Delayed"),
    "a checkpoint": (
        lambda m: m.fit(ROWS, TARGETS, checkpoint="x"),
        r"checkpoint is for chunks .*got 'x'.*Leave it out",
    ),
    "chunk_rows": (lambda m: m.fit(ROWS, TARGETS, chunk_rows=5), r"chunk_rows is for chunks .*got 5 with a dask"),
    "duplicates": (lambda m: m.fit(ROWS, TARGETS, duplicates="drop"), r"duplicates='drop' compares all rows"),
    "columns": (lambda m: m.partial_fit(ROWS[:, :1], TARGETS), r"X has 1 features, but .* is expecting 2"),
    "columns to predict": (lambda m: m.predict(da.ones((9, 3))), r"X has 3 features, but .* is expecting 2"),
    "covariance": (
        lambda m: m.predict(ROWS, return_cov=True),
        r"return_cov=True gives the covariance of each row with",
    ),
    "batches": (lambda m: m.predict(ROWS, batch_size=0), r"batch_size must be a positive number of rows"),
    "quantiles": (lambda m: m.predict_quantile(ROWS), r"got a dask Array\. .*give rows in memory, X\.compute\(\)"),
    "draws": (lambda m: m.sample_y(ROWS), r"got a dask Array\. .*give rows in memory, X\.compute\(\)"),
    "the exact model": (
        lambda _: lmgp.ExactGPRegressor(**GIVEN).fit(ROWS, TARGETS),
        r"got a dask Array\. .*taken by fit",
    ),
    "its targets": (lambda _: lmgp.ExactGPRegressor(**GIVEN).fit(X, TARGETS), r"y must be numbers.*got a dask Array"),
    "other names": (
        lambda m: clone(m).fit(INPUTS, FRAME["y"]).predict(FRAME[["b", "a"]]),
        r"must be in the same order as they were in fit",
    ),
    "kept rows": (
        lambda _: SpectralGPRegressor(**GIVEN).fit(X, Y).partial_fit(ROWS, TARGETS),
        r"fitted to rows in memory and keeps them: it takes no sums",
    ),
    "kept rows around centroids": (
        lambda _: LocalizedGPRegressor(TaylorFeatures(28), **GIVEN).fit(X, Y).with_rows(ROWS, TARGETS),
        r"fitted to rows in memory and keeps them: it takes no sums",
    ),
}
# Of no partition.
OF_ALL: dict[str, tuple[Fit, str]] = {
    "no rows": (lambda m: m.fit(ROWS[:0], TARGETS[:0]), r"There are no rows of positive weight in any partition"),
    "one row": (lambda m: m.fit(ROWS[:1], TARGETS[:1]), r"1 sample\(s\)"),
    "empty partitions": (
        lambda m: m.partial_fit(INPUTS.map_partitions(nothing), FRAME.map_partitions(nothing)["y"]),
        r"There are no rows of positive weight in any partition; give at least one",
    ),
    "weights of zero": (lambda m: m.fit(ROWS, TARGETS, 0.0 * TARGETS), r"There are no rows of positive weight"),
    "a constant y": (lambda _: FeaturizedGPRegressor().fit(ROWS, 0.0 * TARGETS), r"y is constant"),
    "never there": (lambda m: clone(m).fit(ROWS[:50], TARGETS[:50]).forget(ROWS, TARGETS), r"cannot be taken out"),
}
# Where it is computed: what is said, the partition, and its row.
IN_PARTITIONS: dict[str, tuple[Fit, str, int | None, int | None]] = {
    "nan": (
        lambda m: m.fit(spoiled(X, np.nan), TARGETS),
        r"Partition 2, row 10 of it, row 60 of all .*contains NaN .*The model is as it was",
        2,
        10,
    ),
    "infinite targets": (
        lambda m: m.fit(ROWS, spoiled(Y, np.inf)),
        r"Partition 2, row 10 .*y contains infinity",
        2,
        10,
    ),
    "nan, of unknown lengths": (
        lambda m: m.fit(unknown(spoiled(X, np.nan)), unknown(TARGETS)),
        r"Partition 2, row 10 of it \(counted",
        2,
        10,
    ),
    "nan to predict": (lambda m: m.predict(spoiled(X, np.nan)).compute(), r"Partition 2, row 10 .*NaN", 2, 10),
    "lengths": (
        lambda m: m.fit(unknown(ROWS), TARGETS.rechunk(((25, 26, 24, 25),))),
        r"Partition [12] .*X has 25 rows, y has 2[46]\.",
        None,
        None,
    ),
    "other rows": (lambda m: m.fit(INPUTS, FRAME["y"][FRAME["y"] > 0.0]), r"X has 25 rows, y has \d+\.", None, None),
    "weights below zero": (
        lambda m: m.fit(ROWS, TARGETS, spoiled(Y * 0, -1.0)),
        r"negative; got -1 for row 10",
        2,
        None,
    ),
    "text": (lambda m: m.fit(INPUTS.assign(a="x"), FRAME["y"]), r"Column 'a' of X is not numeric.*'x'", None, None),
    "dates": (lambda m: m.fit(INPUTS.assign(a=pd.Timestamp(0)), FRAME["y"]), r"Column 'a' of X has dates", None, None),
    "columns that differ": (
        lambda m: m.fit(
            INPUTS.map_partitions(
                lambda part: part.rename(columns={"b": "c"}) if 30 in part.index else part,
                meta=INPUTS._meta,
                enforce_metadata=False,
            ),
            FRAME["y"],
        ),
        r"Partition 1 .*Feature names unseen at fit time:\n- c",
        1,
        None,
    ),
    "out of the box": (
        lambda _: SpectralGPRegressor(**GIVEN).fit(ROWS, TARGETS).partial_fit(ROWS + 100.0, TARGETS),
        r"Partition \d .*25 rows are not, the first of them row 0",
        None,
        None,
    ),
}


@pytest.fixture(scope="module")
def model() -> Any:
    return clone(MODEL).fit([(X, Y)])


def stays(model: Any, call: Fit) -> pytest.ExceptionInfo[ValueError]:
    """What a call says, which leaves the model as it was."""
    before, attributes = model.predict(X[:9], return_std=True), vars(model).copy()
    with pytest.raises(ValueError, match=r".") as told:
        call(model)
    assert vars(model) == attributes
    np.testing.assert_array_equal(model.predict(X[:9], return_std=True), before)
    return told


@pytest.mark.parametrize("case", AT_ONCE)
def test_what_is_said_at_once(case: str, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    call, told = AT_ONCE[case]
    if case != "other names":  # of a fit before
        monkeypatch.setattr("lmgp.sums.partitions._summed", None)
    assert re.search(told, str(stays(model, call).value), re.DOTALL), case


@pytest.mark.parametrize("case", OF_ALL)
def test_what_is_said_of_all(case: str, model: Any) -> None:
    call, told = OF_ALL[case]
    assert re.search(told, str(stays(model, call).value), re.DOTALL), case


@pytest.mark.parametrize("case", IN_PARTITIONS)
@pytest.mark.filterwarnings("ignore")
def test_what_is_said_of_a_partition(case: str, model: Any) -> None:
    call, told, partition, row = IN_PARTITIONS[case]
    error = stays(model, call).value
    assert isinstance(error, StreamError), case
    assert isinstance(error, InputError)
    assert re.search(told, str(error), re.DOTALL), error
    if partition is not None:
        assert error.chunk == partition
    if row is not None:
        assert error.row == row
