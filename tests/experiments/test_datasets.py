"""The catalogue, and data sets from the local folder.

Tests on real data read the folder in LMGP_DATA_DIR, and are reported as skipped without it.
"""

import gzip
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest

from lmgp.cli import main
from lmgp.errors import DatasetError, InputError
from lmgp.experiments.datasets import (
    CATALOGUE,
    DatasetEntry,
    available,
    fetch,
    load_csv,
    load_dataset,
    make_sinc,
    split,
)

DATA_DIR = os.environ.get("LMGP_DATA_DIR", "")

needs_data = pytest.mark.skipif(not DATA_DIR, reason="LMGP_DATA_DIR names no folder with the prepared data files")


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the developer's data folder, cache nor proxy takes part, unless a test says so."""
    monkeypatch.delenv("LMGP_DATA_DIR", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


def write(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


TABLE = "a,b,c\n1,0,3\n4,1,6\n7,0,9\n"


def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> DatasetEntry:
    """Write a tiny prepared file, and make it that of a set without an address."""
    path = write(folder / "tiny.csv.gz", TABLE)
    fields: dict[str, Any] = {
        "n_rows": 3,
        "columns": ("a", "b", "c"),
        "inputs": ("a", "b"),
        "file_name": path.name,
    } | changes
    entry = replace(CATALOGUE["hflights"], file_sha256=pooch.file_hash(str(path)), **fields)
    monkeypatch.setitem(CATALOGUE, "hflights", entry)
    return entry


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=CATALOGUE)
def test_catalogue_entry_is_complete(entry: DatasetEntry) -> None:
    assert CATALOGUE[entry.name] is entry
    assert len(set(entry.columns)) == len(entry.columns)
    assert set(entry.inputs) < set(entry.columns)
    assert entry.target not in entry.inputs
    assert entry.description
    assert entry.licence
    assert entry.citation
    assert (entry.url is not None) == (entry.url_sha256 is not None) == (entry.kind == "download")
    assert (entry.file_name is not None) == (entry.kind in ("download", "file"))
    assert (entry.file_sha256 is not None) == (entry.file_name is not None and entry.prepare is None)
    assert entry.prepare is None or entry.kind == "file"
    assert (entry.n_splits > 0) == (
        entry.mask_sha256 is not None or entry.split_column is not None or entry.kind == "generated"
    )
    for checksum in filter(None, (entry.url_sha256, entry.file_sha256, entry.mask_sha256)):
        assert len(bytes.fromhex(checksum)) == 32


def test_catalogue_names() -> None:
    assert list(CATALOGUE) == [
        "sinc", "diabetes", "yacht", "kin8nm", "concrete", "protein", "kin40k", "elevators", "keggdirected",
        "uk_flats", "uk_flats_2020-12", "uk_houses_2020-12", "modis_lst", "hflights",
    ]  # fmt: skip
    assert {name for name, entry in CATALOGUE.items() if entry.spatial} == {
        "uk_flats",
        "uk_flats_2020-12",
        "uk_houses_2020-12",
        "modis_lst",
    }


def test_sinc_is_the_normalised_sinc_with_the_stated_noise() -> None:
    X, y = make_sinc(20_000, noise_variance=0.01, random_state=3)
    assert X.shape == (20_000, 1)
    assert X.min() >= -1.5
    assert X.max() <= 1.5
    assert np.ptp(X) > 2.99
    t = np.pi * 5 * X[:, 0]
    residual = y - np.sin(t) / t
    assert abs(residual.mean()) < 0.003
    assert residual.var() == pytest.approx(0.01, rel=0.04)
    again = make_sinc(20_000, noise_variance=0.01, random_state=3)
    np.testing.assert_array_equal(again[1], y)
    assert not np.array_equal(make_sinc(50, random_state=1)[1], make_sinc(50, random_state=2)[1])


@pytest.mark.parametrize(("n", "noise_variance"), [(0, 0.01), (5, -1.0), (5, float("nan"))])
def test_sinc_refuses(n: int, noise_variance: float) -> None:
    with pytest.raises(InputError, match="got"):
        make_sinc(n, noise_variance)


def test_sinc_dataset_trains_on_the_50_rows_of_make_sinc() -> None:
    data = load_dataset("sinc")
    assert len(data.y) == CATALOGUE["sinc"].n_rows
    X, y = make_sinc()
    for seed in (0, 7):
        train, test = split(data, seed)
        np.testing.assert_array_equal(data.X[train], X)
        np.testing.assert_array_equal(data.y[train], y)
        assert len(test) == 200
        assert not np.isin(data.X[test], X).any()


def test_diabetes_has_original_units() -> None:
    data = load_dataset("diabetes")
    assert data.X.shape == (442, 10)
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.feature_names[:3] == ("age", "sex", "bmi")
    assert set(data.X[:, 1]) == {1.0, 2.0}
    assert (data.y.min(), data.y.max()) == (25, 346)
    assert data.target_name == "disease_progression"
    assert data.splits == ()


def test_columns_choose_inputs_in_the_order_given() -> None:
    full = load_dataset("diabetes")
    chosen = load_dataset("diabetes", columns=["bp", "age"])
    np.testing.assert_array_equal(chosen.X, full.X[:, [3, 0]])
    assert chosen.feature_names == ("bp", "age")
    assert load_dataset("diabetes", columns="bmi").feature_names == ("bmi",)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["bmj"], "no column is named 'bmj', did you mean 'bmi'"),
        ([], "no input column is left"),
        (["age", "age"], "name each input once"),
        (["age", "disease_progression"], "not the target 'disease_progression'"),
    ],
)
def test_columns_that_cannot_be_inputs(columns: list[str], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        load_dataset("diabetes", columns=columns)


def test_unknown_name() -> None:
    with pytest.raises(DatasetError, match="did you mean 'yacht'"):
        load_dataset("yatch")


def test_data_folder_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "nowhere"
    with pytest.raises(DatasetError, match=r"--data-dir.*nowhere.*not a folder"):
        load_dataset("yacht", missing)
    with pytest.raises(DatasetError, match=r"--data-dir.*nowhere.*not a folder"):
        available(missing)
    monkeypatch.setenv("LMGP_DATA_DIR", str(missing))
    with pytest.raises(DatasetError, match=r"LMGP_DATA_DIR.*nowhere.*not a folder"):
        load_dataset("yacht")


def test_set_without_address_says_which_file_and_where(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"hflights\.csv\.gz.*no data folder.*--data-dir.*LMGP_DATA_DIR"):
        load_dataset("hflights")
    with pytest.raises(DatasetError, match=r"hflights\.csv\.gz.*does not have it.*--data-dir.*LMGP_DATA_DIR"):
        load_dataset("hflights", tmp_path)
    with pytest.raises(DatasetError, match="no address"):
        fetch(CATALOGUE["hflights"])


def test_prepared_file_from_argument_or_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = prepared(tmp_path, monkeypatch)
    data = load_dataset("hflights", tmp_path)
    np.testing.assert_array_equal(data.X, [[1, 0], [4, 1], [7, 0]])
    np.testing.assert_array_equal(data.y, [3, 6, 9])
    assert data.entry is entry
    monkeypatch.setenv("LMGP_DATA_DIR", str(tmp_path))
    np.testing.assert_array_equal(load_dataset("hflights", columns=["b"]).X, [[0], [1], [0]])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(DatasetError, match="empty does not have it"):  # the argument rules over the environment
        load_dataset("hflights", empty)


def test_prepared_file_with_another_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = prepared(tmp_path, monkeypatch)
    write(tmp_path / "tiny.csv.gz", TABLE.replace("9", "10"))
    with pytest.raises(DatasetError, match=rf"tiny\.csv\.gz is not the file.*expected sha256 {entry.file_sha256}, got"):
        load_dataset("hflights", tmp_path)


def test_prepared_file_with_another_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(tmp_path, monkeypatch, n_rows=4)
    with pytest.raises(DatasetError, match=r"has \(3, 3\) rows and columns; the catalogue says \(4, 3\)"):
        load_dataset("hflights", tmp_path)


def test_set_that_each_prepares_has_any_rows_and_no_checksum(tmp_path: Path) -> None:
    for where, folder in (("no data folder", None), ("does not have it", tmp_path)):
        with pytest.raises(DatasetError, match=rf"{where}.*'python datasets/prepare_uk_flats\.py .*LMGP_DATA_DIR"):
            load_dataset("uk_flats", folder)
    for n in (2, 5):
        lines = [f"-{i}.5,5{i},1{i}.25\n" for i in range(n)]
        path = write(tmp_path / "uk_flats.csv.gz", "lon,lat,log_price\n" + "".join(lines))
        data = load_dataset("uk_flats", tmp_path)
        np.testing.assert_array_equal(data.X, [[-i - 0.5, 50 + i] for i in range(n)])
        np.testing.assert_array_equal(data.y, [10.25 + i for i in range(n)])
        assert (data.entry, data.splits) == (CATALOGUE["uk_flats"], ())
    assert f"here: {path}" in [where for entry, where in available(tmp_path) if entry.name == "uk_flats"]
    assert load_dataset("uk_flats", tmp_path, columns=["lat"]).X.tolist() == [[50], [51], [52], [53], [54]]


def test_list_states_no_rows_for_a_set_that_each_prepares(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["datasets"]) == 0
    assert "uk_flats: rows depend on the file, 2 inputs, target log_price [needs a file]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lon,lat,price\n0,51,9\n1,52,9\n", "no column is named 'log_price'"),
        ("lon,lat,log_price\n0,51,9\n1,52,\n", "missing or infinite values in 'log_price'"),
    ],
)
def test_damaged_file_without_a_checksum_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "uk_flats.csv.gz", text)
    with pytest.raises(DatasetError, match=message) as caught:
        load_dataset("uk_flats", tmp_path)
    assert str(path) in str(caught.value)


def test_split_column_is_the_published_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(tmp_path, monkeypatch, inputs=("a",), n_splits=1, split_column="b")
    data = load_dataset("hflights", tmp_path)
    assert [mask.tolist() for mask in data.splits] == [[False, True, False]]
    assert data.feature_names == ("a",)


def test_mask_file_gives_the_published_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mask = write(tmp_path / "tiny.test_mask.csv.gz", "split0,split1\n0,1\n1,0\n0,0\n")
    prepared(tmp_path, monkeypatch, n_splits=2, mask_sha256=pooch.file_hash(str(mask)))
    assert [m.tolist() for m in load_dataset("hflights", tmp_path).splits] == [[0, 1, 0], [1, 0, 0]]
    write(mask, "split0,split1\n0,1\n1,0\n0,1\n")
    with pytest.raises(DatasetError, match=r"tiny\.test_mask\.csv\.gz is not the file"):
        load_dataset("hflights", tmp_path)
    mask.unlink()
    assert load_dataset("hflights", tmp_path).splits == ()


TARGETS = {
    "yacht": (10.495, 15.136),
    "kin8nm": (0.71428, 0.26359),
    "concrete": (35.818, 16.698),
    "protein": (7.7485, 6.1182),
    "kin40k": (8.3788e-08, 0.99696),
    "elevators": (-1.2524e-07, 0.25257),
    "keggdirected": (-1.9528e-06, 1.3756),
    "uk_flats_2020-12": (12.293, 0.75033),
    "uk_houses_2020-12": (12.464, 0.85619),
    "modis_lst": (45.125, 4.0693),
    "hflights": (7.0943, 30.708),
}


@needs_data
@pytest.mark.parametrize("name", TARGETS)
def test_real_set(name: str) -> None:
    data = load_dataset(name, DATA_DIR)
    entry = CATALOGUE[name]
    assert data.X.shape == (entry.n_rows, len(entry.inputs))
    assert data.X.flags.c_contiguous
    assert np.isfinite(data.X).all()
    mean, deviation = TARGETS[name]
    assert data.y.mean() == pytest.approx(mean, rel=1e-4, abs=1e-9)
    assert data.y.std() == pytest.approx(deviation, rel=1e-4)
    assert len(data.splits) == entry.n_splits
    assert all(mask.shape == data.y.shape and 0 < mask.sum() < len(mask) / 2 for mask in data.splits)
    with gzip.open(Path(DATA_DIR, str(entry.file_name)), "rt") as stream:
        assert tuple(stream.readline().strip().split(",")) == entry.columns


@needs_data
def test_modis_has_the_published_split() -> None:
    train, test = split(load_dataset("modis_lst", DATA_DIR), seed=4)
    assert (len(train), len(test)) == (105_569, 42_740)


@needs_data
def test_load_csv_agrees_with_the_catalogue() -> None:
    data = load_dataset("uk_flats_2020-12", DATA_DIR)
    own = load_csv(Path(DATA_DIR, "uk_flats_2020-12.csv.gz"), "log_price", columns=["lon", "lat"])
    np.testing.assert_array_equal(own.X, data.X)
    np.testing.assert_array_equal(own.y, data.y)
