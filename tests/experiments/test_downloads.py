"""Downloads of data sets, against a local server.

The comparison with the prepared files reads the folder in LMGP_DATA_DIR, and is reported as skipped without it.
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

from lmgp.errors import DatasetError
from lmgp.experiments.datasets import CATALOGUE, DatasetEntry, available, fetch, load_dataset

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
def test_load_dataset_downloads_what_is_missing(
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
    # published splits in the folder belong to the downloaded rows too
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
