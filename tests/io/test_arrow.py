"""Data sets of Parquet and Arrow files: their chunks, and what is refused before a row is read."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import lmgp
from lmgp import FeaturizedGPRegressor, GaussianKernel, TaylorFeatures
from lmgp.errors import DatasetError, StreamError

GIVEN = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1}


@pytest.fixture
def arrow() -> Any:
    return pyarrow


def table(arrow: Any, n: int = 100, start: int = 0, **changes: Any) -> Any:
    rng = np.random.default_rng(start)
    columns = {"a": rng.normal(size=n), "b": rng.integers(0, 9, n), "y": start + np.arange(n, dtype=np.float64)}
    return arrow.table({name: one for name, one in {**columns, **changes}.items() if one is not None})


def write(arrow: Any, path: Path, of: Any) -> None:
    if path.suffix == ".parquet":
        arrow.parquet.write_table(of, path, row_group_size=30)
        return
    with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_file(file, of.schema) as writer:
        writer.write_table(of, max_chunksize=30)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_chunks_are_the_rows_in_order(arrow: Any, suffix: str, tmp_path: Path) -> None:
    tables = [table(arrow), table(arrow, 77, 100)]
    for name, one in zip(("1", "2"), tables, strict=True):
        write(arrow, tmp_path / f"part{name}.{suffix}", one)
    whole = np.concatenate([np.column_stack([one[name].to_numpy() for name in ("a", "b", "y")]) for one in tables])
    source = lmgp.io.open_dataset(tmp_path, target="y", chunk_rows=40)
    assert source.n_rows == 177
    assert source.names == ("a", "b")
    for _ in range(2):
        made = list(source.chunks())
        assert [len(one.y) for one in made] == [40, 40, 40, 40, 17]
        np.testing.assert_array_equal(np.concatenate([np.asarray(one.X) for one in made]), whole[:, :2])
        np.testing.assert_array_equal(np.concatenate([one.y for one in made]), whole[:, 2])


def test_a_model_knows_the_columns_and_the_weights(arrow: Any, tmp_path: Path) -> None:
    of = table(arrow, w=np.arange(100) % 3, v=np.full(100, 0.2))
    write(arrow, tmp_path / "rows.parquet", of)
    source = lmgp.io.open_dataset(
        tmp_path / "rows.parquet", "y", columns=["b", "a"], sample_weight="w", noise_variances="v", chunk_rows=30
    )
    model = FeaturizedGPRegressor(TaylorFeatures(20), **GIVEN)
    stream = model.fit(source)
    assert stream.feature_names_in_.tolist() == ["b", "a"]
    X, y, w, v = (np.column_stack([of[one].to_numpy() for one in names]) for names in (("b", "a"), "y", "w", "v"))
    found = stream.predict(X[:9], return_std=True)
    whole = model.fit(X, y[:, 0], w[:, 0], v[:, 0])
    np.testing.assert_allclose(found, whole.predict(X[:9], return_std=True), rtol=0, atol=1e-9)


def test_endings_may_have_capitals(arrow: Any, tmp_path: Path) -> None:
    write(arrow, tmp_path / "rows.parquet", table(arrow))
    (tmp_path / "rows.parquet").rename(tmp_path / "ROWS.PARQUET")
    for path in (tmp_path, tmp_path / "ROWS.PARQUET"):
        assert lmgp.io.open_dataset(path, target="y").n_rows == 100


def test_hidden_folders_are_left_out_and_partitions_refused(arrow: Any, tmp_path: Path) -> None:
    for folder in ("", "_temporary/0", "sub/.old"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        write(arrow, tmp_path / folder / "rows.parquet", table(arrow))
    assert lmgp.io.open_dataset(tmp_path, target="y").n_rows == 100
    (tmp_path / "k=1" / "l=2").mkdir(parents=True)
    write(arrow, tmp_path / "k=1" / "l=2" / "rows.parquet", table(arrow))
    with pytest.raises(DatasetError, match="is partitioned by k, l, and columns that folders name are not read"):
        lmgp.io.open_dataset(tmp_path, target="y")
    assert lmgp.io.open_dataset([*tmp_path.rglob("*.parquet")][:2], target="y").n_rows == 200


def test_a_null_is_named_by_chunk_and_row(arrow: Any, tmp_path: Path) -> None:
    values = [None if i == 65 else float(i) for i in range(100)]
    write(arrow, tmp_path / "rows.parquet", table(arrow, a=values))
    with pytest.raises(StreamError, match=r"Chunk 2, row 5 of it, row 65 of the stream .*NaN .*in column 'a'|column 0"):
        FeaturizedGPRegressor(**GIVEN).fit(lmgp.io.open_dataset(tmp_path, "y", chunk_rows=30))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"b": None}, r"2\.parquet has no column 'b', which .*1\.parquet has"),
        ({"b": ["x"] * 100}, r"2\.parquet: column 'b' has the type string, in .*1\.parquet it has int64"),
        (
            {"b": [1.5] * 100},
            r"2\.parquet: column 'b' has the type double, in .*it has int64. Write both with one type",
        ),
    ],
)
def test_a_file_that_differs_is_refused_before_rows_are_read(
    arrow: Any, changes: Any, told: str, tmp_path: Path
) -> None:
    write(arrow, tmp_path / "1.parquet", table(arrow))
    write(arrow, tmp_path / "2.parquet", table(arrow, **changes))
    with pytest.raises(DatasetError, match=told):
        lmgp.io.open_dataset(tmp_path, "y")


def test_what_is_no_data_set_is_refused(arrow: Any, tmp_path: Path) -> None:
    for path, told in ((tmp_path, "has no file that ends in"), (tmp_path / "no.parquet", "does not exist")):
        with pytest.raises(DatasetError, match=told):
            lmgp.io.open_dataset(path, "y")
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n")
    with pytest.raises(DatasetError, match="no Parquet or Arrow file by its name"):
        lmgp.io.open_dataset(tmp_path / "rows.csv", "y")
    (tmp_path / "bad.parquet").write_text("a,y\n1,2\n")
    with pytest.raises(DatasetError, match="could not be read as Parquet"):
        lmgp.io.open_dataset(tmp_path / "bad.parquet", "y")
    path = tmp_path / "rows.parquet"
    write(arrow, path, table(arrow, day=np.array(["2020-01-01"] * 100, dtype="datetime64[D]")))
    with pytest.raises(DatasetError, match=r"no column is named 'z'"):
        lmgp.io.open_dataset(path, "z")
    with pytest.raises(DatasetError, match=r"column 'day' has the type date32\[day\], which is not numeric"):
        lmgp.io.open_dataset(path, "y")
    with pytest.raises(DatasetError, match="no input column is left"):
        lmgp.io.open_dataset(path, "y", columns=[])
    with pytest.raises(DatasetError, match="must be a list of names"):
        lmgp.io.open_dataset(path, "y", columns="a")
