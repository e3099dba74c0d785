"""Catalogue, downloads against a local server, a user's CSV files, and splits.

Tests on real data read the folder in LMGP_DATA_DIR, and are reported as skipped without it.
"""

import gzip
import hashlib
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pooch
import pytest

from lmgp.catalogue import CATALOGUE, DatasetEntry
from lmgp.cli import main
from lmgp.datasets import Dataset, available, fetch, load_csv, load_dataset, make_sinc, split
from lmgp.errors import DatasetError, InputError

DATA_DIR = os.environ.get("LMGP_DATA_DIR", "")
RAW_DIR = Path(DATA_DIR, "raw")
RAW_FOLDERS = {
    "yacht": "yacht/data.txt",
    "kin8nm": "kin8nm/data.txt",
    "concrete": "concrete/data.txt",
    "protein": "protein/data.txt",
    "kin40k": "kin40k/data.csv.gz",
    "elevators": "elevators/data.csv.gz",
    "keggdirected": "keggdirected/data.csv.gz",
}
needs_data = pytest.mark.skipif(not DATA_DIR, reason="LMGP_DATA_DIR names no folder with the prepared data files")
needs_raw = pytest.mark.skipif(not RAW_DIR.is_dir() or not DATA_DIR, reason="LMGP_DATA_DIR has no folder raw")

TINY = b"1 2 3\n4 5 6\n7 8 9.5\n"


class Server(ThreadingHTTPServer):
    """Serves what is put into `files`; a body under /cut/ is announced as 100 bytes longer than it is."""

    files: dict[str, bytes]
    requests: list[str]

    def entry(self, path: str, body: bytes, **changes: Any) -> DatasetEntry:
        """Make the catalogue entry of a file of this server."""
        self.files[path] = body
        url = f"http://127.0.0.1:{self.server_port}{path}"
        tiny: dict[str, Any] = {
            "n_rows": 3,
            "columns": ("a", "b", "c"),
            "inputs": ("a", "b"),
            "n_splits": 0,
            "mask_sha256": None,
        }
        fields = tiny | {"url": url, "url_sha256": hashlib.sha256(body).hexdigest()} | changes
        return replace(CATALOGUE["yacht"], **fields)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + 100 * self.path.startswith("/cut/")))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(autouse=True)
def _isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the developer's data folder, cache nor proxy takes part, unless a test says so."""
    monkeypatch.delenv("LMGP_DATA_DIR", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)


@pytest.fixture
def server() -> Iterator[Server]:
    httpd = Server(("127.0.0.1", 0), Handler)
    httpd.files, httpd.requests = {}, []
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield httpd
    httpd.shutdown()
    httpd.server_close()
    thread.join()


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


# The catalogue


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


# Sets that need no file


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


# Local files


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


# Downloads


def test_fetch_downloads_once_and_quietly(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = server.entry("/data.txt", TINY)
    logger = pooch.get_logger()
    # The handler pooch brings along writes to the standard error of the moment of import, which capfd does not see.
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler()])
    level = logger.level
    path = fetch(entry, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "yacht.data.txt"
    assert path.read_bytes() == TINY
    assert fetch(entry, tmp_path / "new" / "folder") == path
    assert server.requests == ["/data.txt"]
    server.shutdown()  # the cache answers without a server, too
    assert fetch(entry, tmp_path / "new" / "folder") == path
    assert capfd.readouterr() == ("", "")
    assert logger.level == level


def test_fetch_shows_progress_when_asked(server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fetch(server.entry("/data.txt", TINY), tmp_path, progressbar=True)
    assert "100%" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("hash", r"expected sha256:{expected} but got {got}"),
        ("404", r"HTTP status 404"),
        ("cut", r"incomplete|IncompleteRead"),
        ("refused", r"refused"),
    ],
)
def test_failed_download_says_why_and_leaves_nothing(server: Server, tmp_path: Path, case: str, message: str) -> None:
    path = "/cut/data.txt" if case == "cut" else "/data.txt"
    expected = hashlib.sha256(b"another body").hexdigest() if case == "hash" else hashlib.sha256(TINY).hexdigest()
    entry = server.entry(path, TINY, url_sha256=expected)
    if case == "404":
        server.files.clear()
    if case == "refused":
        server.shutdown()
        server.server_close()
    message = message.format(expected=expected, got=hashlib.sha256(TINY).hexdigest())
    with pytest.raises(DatasetError, match=message) as caught:
        fetch(entry, tmp_path)
    assert str(entry.url) in str(caught.value)
    for advice in ("try again", "yacht.data.txt", "--data-dir", "LMGP_DATA_DIR"):
        assert advice in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_damaged_file_in_the_cache_is_replaced_or_removed(server: Server, tmp_path: Path) -> None:
    entry = server.entry("/data.txt", TINY)
    cached = write(tmp_path / "yacht.data.txt", TINY[:5])
    assert fetch(entry, tmp_path).read_bytes() == TINY
    write(cached, TINY[:5])
    server.files.clear()
    with pytest.raises(DatasetError, match="404"):
        fetch(entry, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_cache_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    not_a_folder = write(tmp_path / "file", "x")
    with pytest.raises(DatasetError, match="could not be downloaded"):
        fetch(server.entry("/data.txt", TINY), not_a_folder)


@pytest.mark.parametrize("path", ["/data.txt", "/data.csv.gz"])
def test_load_dataset_downloads_what_is_not_at_hand(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    body = gzip.compress(TINY.replace(b" ", b",")) if path.endswith(".gz") else TINY
    mask = write(tmp_path / "yacht_raw.test_mask.csv.gz", "split0\n0\n0\n1\n")
    monkeypatch.setitem(
        CATALOGUE, "yacht", server.entry(path, body, n_splits=1, mask_sha256=pooch.file_hash(str(mask)))
    )
    for _ in range(2):
        data = load_dataset("yacht")
        np.testing.assert_array_equal(data.X, [[1, 2], [4, 5], [7, 8]])
        np.testing.assert_array_equal(data.y, [3, 6, 9.5])
        assert data.splits == ()
    assert server.requests == [path]
    # published splits at hand belong to the downloaded rows too
    assert [m.tolist() for m in load_dataset("yacht", tmp_path).splits] == [[False, False, True]]
    # and an original file that was put into the data folder is found there, as the advice says
    server.files.clear()
    name = CATALOGUE["yacht"].download_name
    assert name is not None
    (tmp_path / "cache" / "lmgp" / name).rename(tmp_path / name)
    np.testing.assert_array_equal(load_dataset("yacht", tmp_path).y, [3, 6, 9.5])
    assert server.requests == [path]


def test_download_of_another_shape(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, "yacht", server.entry("/data.txt", TINY, n_rows=308))
    with pytest.raises(DatasetError, match=r"\(3, 3\).*\(308, 3\)"):
        load_dataset("yacht")


def test_available_says_where_each_set_comes_from(tmp_path: Path) -> None:
    def where(data_dir: Path | None = None) -> dict[str, str]:
        return {entry.name: text for entry, text in available(data_dir)}

    assert list(where()) == list(CATALOGUE)
    assert where()["sinc"] == "generated"
    assert where()["diabetes"] == "shipped with scikit-learn"
    assert where()["yacht"] == "download on first use"
    assert where()["hflights"] == "needs a file"
    (tmp_path / "cache" / "lmgp").mkdir(parents=True)
    cached = write(tmp_path / "cache" / "lmgp" / "yacht.data.txt", TINY)
    assert where()["yacht"] == f"cached: {cached}"
    here = write(tmp_path / "yacht_raw.csv.gz", TINY)
    assert where(tmp_path)["yacht"] == f"here: {here}"
    assert where(tmp_path)["hflights"] == "needs a file"


# Real data

# Mean and standard deviation of the target, stated by whoever prepared the files.
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


@needs_raw
@pytest.mark.parametrize("name", RAW_FOLDERS)
def test_download_equals_the_prepared_file(server: Server, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    entry = CATALOGUE[name]
    assert entry.url is not None
    path = "/" + entry.url.rpartition("/")[2]
    server.files[path] = (RAW_DIR / RAW_FOLDERS[name]).read_bytes()
    local = load_dataset(name, DATA_DIR)
    monkeypatch.setitem(CATALOGUE, name, replace(entry, url=f"http://127.0.0.1:{server.server_port}{path}"))
    downloaded = load_dataset(name)
    assert server.requests == [path]
    np.testing.assert_array_equal(downloaded.X, local.X)
    np.testing.assert_array_equal(downloaded.y, local.y)


# A user's own file


def test_csv_takes_all_other_columns_as_inputs(tmp_path: Path) -> None:
    path = write(tmp_path / "my.data.csv", 'a,"b, quoted",c\n1, 2.5,3e2\n\n-4,"5",.6\n')
    data = load_csv(path, "b, quoted")
    np.testing.assert_array_equal(data.X, [[1, 300], [-4, 0.6]])
    np.testing.assert_array_equal(data.y, [2.5, 5])
    assert (data.name, data.feature_names, data.target_name) == ("my.data", ("a", "c"), "b, quoted")
    assert data.entry is None
    assert data.splits == ()
    assert data.X.dtype == np.float64


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_csv_with_byte_order_mark_and_dos_lines(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"bom{ending}", b"\xef\xbb\xbfa,y\r\n1,2\r\n3,4\r\n")
    data = load_csv(str(path), "y")
    np.testing.assert_array_equal(data.X, [[1], [3]])
    assert (data.name, data.feature_names) == ("bom", ("a",))


def test_csv_columns_leave_the_others_unread(tmp_path: Path) -> None:
    path = write(tmp_path / "d.csv", "city,a,b,y\nParis,1,,3\nRome,4,5,6\n")
    data = load_csv(path, "y", columns=["a"])
    np.testing.assert_array_equal(data.X, [[1], [4]])


BAD_FILES = {
    "empty": ("", "y", None, "is empty"),
    "blank": ("\n\n", "y", None, "is empty"),
    "no header": ("1,2\n3,4\n5,6\n", "y", None, "no header: line 1 is all numbers"),
    "repeated name": ("a,b,a,y\n1,2,3,4\n", "y", None, r"header has a more than once"),
    "unnamed column": (",a,y\n0,1,2\n1,3,4\n", "y", None, r"column 1 has no name"),
    "semicolons": ("a;b;y\n1;2;3\n", "y", None, "not separated by commas"),
    "no target": ("a,b,y\n1,2,3\n", None, None, r"target is needed \(--target\); columns are a, b, y"),
    "unknown target": ("alpha,price\n1,2\n", "prise", None, "no column is named 'prise', did you mean 'price'"),
    "unknown columns": (
        "alpha,beta,y\n1,2,3\n",
        "y",
        ["alhpa", "bta"],
        "'alhpa', did you mean 'alpha'.*'bta', did you mean 'beta'",
    ),
    "target as input": ("a,y\n1,2\n3,4\n", "y", ["a", "y"], "not the target 'y' among them"),
    "no input": ("y\n1\n2\n", "y", None, "no input column is left"),
    "no input chosen": ("a,y\n1,2\n3,4\n", "y", [], "no input column is left"),
    "text": (
        "city,a,kind,y\nParis,1,2,3\nRome,1,x y,3\n",
        "y",
        None,
        r"not numeric: 'city' \(line 2: 'Paris'\), 'kind' \(line 3: 'x y'\); encode.*--columns",
    ),
    "code with underscore": ("a,y\n12_3,1\n4,2\n", "y", None, r"not numeric: 'a' \(line 2: '12_3'\)"),
    "text target": ("a,y\n1,low\n2,high\n", "y", None, r"not numeric: 'y' \(line 2: 'low'\)"),
    "missing": (
        "a,b,y\n1,2,3\n,2,nan\n\nNA,2,3\n",
        "y",
        None,
        r"missing or infinite values in 'a' \(2 rows, first line 3\), 'y' \(1 rows, first line 3\)",
    ),
    "infinite": ("a,y\n1,2\n3,4\n5,-inf\n", "y", None, r"infinite values in 'y' \(1 rows, first line 4\)"),
    "overflow": ("a,y\n1,2\n1e999,4\n", "y", None, r"infinite values in 'a' \(1 rows, first line 3\)"),
    "short row": ("a,b,y\n1,2,3\n4,5\n", "y", None, "line 3 has 2 fields, the header has 3"),
    "long row": ("a,b,y\n1,2,3\n4,5,6,7\n", "y", ["a"], "line 3 has 4 fields, the header has 3"),
    "header only": ("a,y\n", "y", None, "has 0 rows of data"),
    "one row": ("a,y\n1,2\n", "y", None, "has 1 rows of data below its header; at least 2"),
    "open quotation mark": ("a,y\n1,2\n3," + '"' + "4\n" * 100_000, "y", None, "field limit.*quotation marks closed"),
    "not UTF-8": (b"a,y\n1,2\n3,\xe94\n", "y", None, "could not be read.*0xe9.*expected text in UTF-8"),
    "UTF-16": ("a,y\n1,2\n3,4\n".encode("utf-16"), "y", None, "could not be read.*expected text in UTF-8"),
    "gzip by another name": (gzip.compress(b"a,y\n1,2\n"), "y", None, "could not be read.*ends in .gz"),
}


@pytest.mark.parametrize(("content", "target", "columns", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_csv(
    tmp_path: Path, content: str | bytes, target: str | None, columns: list[str] | None, message: str
) -> None:
    path = write(tmp_path / "bad.csv", content)
    with pytest.raises(DatasetError, match=message) as caught:
        load_csv(path, target, columns=columns)
    assert str(path) in str(caught.value)


def test_csv_that_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"missing\.csv does not exist; give the path"):
        load_csv(tmp_path / "missing.csv", "y")
    with pytest.raises(DatasetError, match="is a folder; give the path"):
        load_csv(tmp_path, "y")


def test_csv_that_is_not_an_intact_gzip_file(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv.gz"
    path.write_text("a,y\n1,2\n3,4\n")
    with pytest.raises(DatasetError, match=r"plain\.csv\.gz could not be read.*[Nn]ot a gzipped file"):
        load_csv(path, "y")
    rows = "".join(f"{i},{i * i % 7919}\n" for i in range(5000))
    whole = gzip.compress(f"a,y\n{rows}".encode())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DatasetError, match=r"plain\.csv\.gz could not be read after line \d+.*ended"):
        load_csv(path, "y")
    path.write_bytes(whole[:500] + b"\xff" * 50 + whole[550:])
    with pytest.raises(DatasetError, match=r"plain\.csv\.gz could not be read"):
        load_csv(path, "y")


# Splits


def rows(n: int, *masks: list[int]) -> Dataset:
    splits = tuple(np.array(mask, dtype=bool) for mask in masks)
    return Dataset("rows", np.zeros((n, 1)), np.arange(n, dtype=float), ("x",), "y", splits=splits)


@pytest.mark.parametrize(
    ("arguments", "n_train"),
    [
        ({}, 90),
        ({"test_fraction": 0.25}, 75),
        ({"test_fraction": 1e-9}, 99),
        ({"test_fraction": 0.999}, 2),
        ({"n_train": 2}, 2),
        ({"n_train": 99}, 99),
    ],
)
def test_random_split(arguments: dict[str, Any], n_train: int) -> None:
    data = rows(100)
    train, test = split(data, 5, **arguments)
    assert len(train) == n_train
    assert sorted([*train, *test]) == list(range(100))
    again = split(data, 5, **arguments)
    np.testing.assert_array_equal(train, again[0])
    np.testing.assert_array_equal(test, again[1])
    assert not np.array_equal(test, split(data, 6, **arguments)[1])


def test_random_split_is_the_permutation_of_the_seed() -> None:
    order = np.random.default_rng(11).permutation(20)
    train, test = split(rows(20), 11, n_train=8)
    np.testing.assert_array_equal(train, order[:8])
    np.testing.assert_array_equal(test, order[8:])


def test_published_splits_come_first() -> None:
    data = rows(5, [0, 1, 0, 0, 1], [1, 0, 0, 0, 0])
    train, test = split(data, 1, n_train=2)
    assert (train.tolist(), test.tolist()) == ([1, 2, 3, 4], [0])
    assert split(data, 0)[1].tolist() == [1, 4]
    assert len(split(data, 2, n_train=2)[0]) == 2  # there is no third published split
    assert len(split(data, 0, n_train=2, published=False)[0]) == 2


def test_single_published_split_serves_every_seed() -> None:
    data = rows(5, [0, 1, 0, 0, 1])
    assert split(data, 0)[1].tolist() == split(data, 9)[1].tolist() == [1, 4]
    assert len(split(data, 9, n_train=2, published=False)[0]) == 2


@pytest.mark.parametrize(
    ("n", "seed", "arguments", "message"),
    [
        (10, 0, {"n_train": 10}, "of its 10 rows 10 would be for training.*at least 1 be left for testing"),
        (10, 0, {"n_train": 11}, "at least 1 be left"),
        (10, 0, {"n_train": 1}, "at least 2 must be"),
        (2, 0, {}, "of its 2 rows"),
        (10, 0, {"test_fraction": 0.0}, "test_fraction"),
        (10, 0, {"test_fraction": 1.0}, "test_fraction"),
        (10, -1, {}, "seed must not be negative"),
    ],
)
def test_split_refuses(n: int, seed: int, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        split(rows(n), seed, **arguments)
