"""Random bad files and calls: never a traceback, never a file half-written, never an endless wait.

``LMGP_LONG=1`` tries some thousands. What fails is named by its number: ``LMGP_FUZZ=NUMBER`` tries that one alone.
"""

import contextlib
import csv
import gzip
import io
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import lmgp
import lmgp.rbf
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    ResidualGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.cli import main
from lmgp.errors import InputError, LmgpError
from lmgp.experiments.datasets import load_csv
from lmgp.saving.files import save_with_notes
from tests.fuzz import calls, files

LONG = os.environ.get("LMGP_LONG") == "1"
CASES = 6000 if LONG else 400
# Calls of one test.
BATCH = 50
SECONDS = 60


class TooLong(BaseException):
    """A call did not return."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise `TooLong` after some seconds."""

    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Model files of the columns a and b."""
    rng = np.random.default_rng(0)
    X, path = rng.uniform(-1.0, 1.0, (20, 2)), tmp_path_factory.mktemp("models") / "model.lmgp"
    y = 3.0 + np.sin(X[:, 0]) + 0.1 * rng.normal(size=20)
    given: dict[str, Any] = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1}
    made = [
        ExactGPRegressor(**given, trend="linear"),
        ExactGPRegressor(random_state=0),
        FeaturizedGPRegressor(TaylorFeatures(10), **given),
        FeaturizedGPRegressor(**given, random_state=0),
        LocalizedGPRegressor(TaylorFeatures(10), **given),
        NearestNeighborsGPRegressor(5, **given),
        ResidualGPRegressor(**given, random_state=0),
        SpectralGPRegressor(**given, random_state=0),
        GPRegressor(**given, random_state=0),
        TransformedTargetGPRegressor(ExactGPRegressor(**given)),
    ]
    content = []
    for one in made:
        one.fit(pd.DataFrame(X, columns=["a", "b"]), y)
        save_with_notes(one, path, {"target": "y", "rows": 20, "table": "rows.csv"})
        content.append(path.read_bytes())
    TaylorFeatures(10).fit(X).save(path)
    return [*content, path.read_bytes()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the files of a case, with quick figures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LMGP_DATA_DIR", raising=False)
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(b"drawn"))
    made = tmp_path / "folder"
    made.mkdir()
    return made


def prepared(number: int, models: list[bytes], folder: Path) -> tuple[list[str], bytes]:
    """Write the files of a case; return its arguments, and what is on standard input."""
    rng = np.random.default_rng([7, number])
    shutil.rmtree(folder)
    folder.mkdir()
    os.chdir(folder)
    kind = rng.choice(("table", "model", "call"), p=(0.35, 0.25, 0.4))
    model, table = models[int(rng.integers(len(models)))], files.good_table(rng).encode()
    name, n_options = "rows.csv", int(rng.random() < 0.3)
    if kind == "table":
        ending, table = files.bad_table(rng)
        name = "rows" + ending
        among = calls.OF_TABLES
    elif kind == "model":
        model, among = files.bad_model(models, rng), calls.OF_MODELS
    else:
        among, n_options = list(calls.COMMANDS), int(rng.integers(0, 4))
    command = str(rng.choice(among))
    if command == "compare" and rng.random() < 0.7:  # reads tables as fit does, and takes longer
        command = "fit"
    Path("model.lmgp").write_bytes(model)
    Path(name).write_bytes(table)
    if rng.random() < 0.1:
        name = "-"
    return calls.call(command, rng, model="model.lmgp", table=name, n_options=n_options), table


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def is_whole(path: Path) -> bool:
    """Say whether a file that was written can be read to its end."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if content[8:23] == b'{"__metadata__"':
        lmgp.load(path)
        return True
    if path.suffix == ".csv" or path.name.endswith(".csv.gz"):
        lines = list(csv.reader(io.StringIO(content.decode())))
        return len(lines) > 1
    return len(content) > 0


def problem_of(number: int, models: list[bytes], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Run a case; return what is wrong, if anything is."""
    arguments, given = prepared(number, models, folder)
    before = contents(folder)
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
    wrong = None
    try:
        with limited(SECONDS), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status: Any = main(arguments)
            except SystemExit as left:  # --help
                status = left.code
    except TooLong:
        status, wrong = None, f"no end after {SECONDS} seconds"
    except BaseException:
        status, wrong = None, traceback.format_exc()
    after = contents(folder)
    made = {name for name in after if after[name] != before.get(name)}
    told = err.getvalue()
    if wrong is None and (status not in (0, 2) or "Traceback" in told):
        wrong = f"status {status}"
    elif status == 2:
        last = told.rstrip("\n").rpartition("\n")[2]
        if after != before:
            wrong = f"an error that leaves {made or 'fewer files'}"
        elif out.getvalue():
            wrong = f"an error after output {out.getvalue()[:200]!r}"
        elif not any(line.startswith("lmgp: error: ") for line in told.splitlines()):
            wrong = f"an error that is not told: {last!r}"
    elif status == 0 and (torn := [name for name in made if name.endswith(".part") or not is_whole(folder / name)]):
        wrong = f"{torn} not whole"
    return None if wrong is None else f"LMGP_FUZZ={number}: lmgp {arguments}: {wrong}\n{told[-500:]}"


def numbers() -> list[range]:
    """The numbers of the cases of each test."""
    if one := os.environ.get("LMGP_FUZZ"):
        return [range(int(one), int(one) + 1)]
    return [range(start, start + BATCH) for start in range(0, CASES, BATCH)]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no alarm on this system")
@pytest.mark.parametrize("cases", numbers(), ids=lambda cases: f"from {cases.start}")
def test_bad_files_and_calls_end_in_words(
    cases: range, models: list[bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [told for number in cases if (told := problem_of(number, models, folder, monkeypatch))]
    assert not found, "\n\n".join(found)


LIBSVM = (
    "svm_type c_svc\nkernel_type rbf\ngamma 0.5\nnr_class 2\ntotal_sv 3\nrho 0.25\nlabel 1 -1\nnr_sv 2 1\nSV\n"
    "0.5 1:0.25 2:-1 \n1 1:1.5 \n-1.5 2:0.125 3:2 \n"
)


def test_bad_libsvm_files_are_refused_in_words(tmp_path: Path) -> None:
    path, refused = tmp_path / "a.model", 0
    for number in range(CASES):
        rng = np.random.default_rng([8, number])
        content = files.bad_libsvm(LIBSVM, rng)
        path.write_bytes(content)
        try:
            expansion = lmgp.rbf.read_libsvm(path)
        except InputError as error:
            told, refused = str(error), refused + 1
        else:
            told = str(path)
            expansion.predict(np.ones((1, expansion.vectors.shape[1])))
        assert str(path) in told, f"case {number}: {content!r}"
    assert 0.3 * CASES < refused < CASES


def test_bad_parquet_files_are_refused_in_words(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, refused = tmp_path / "rows.parquet", 0
    others = (pyarrow.array([None] * 20), pyarrow.array([["x"]] * 20), pyarrow.array(["1"] * 20))
    for number in range(CASES // 2):
        rng = np.random.default_rng([9, number])
        columns = {name: pyarrow.array(rng.normal(size=20)) for name in files.NAMES}
        if rng.random() < 0.3:
            columns["a"] = others[int(rng.integers(len(others)))]
        parquet.write_table(pyarrow.table(columns), path)
        if rng.random() < 0.7:
            path.write_bytes(files.OF_BYTES[int(rng.integers(len(files.OF_BYTES)))](path.read_bytes(), rng))
        told = str(path)
        try:
            load_csv(path, "y")
        except LmgpError as error:
            told, refused = str(error), refused + 1
        assert str(path) in told, f"case {number}: {told}"
    assert 0.3 * CASES // 2 < refused < CASES // 2


def test_some_of_the_cases_succeed(
    models: list[bytes], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Cases that are all refused at their first argument would show nothing.
    status, told = [], set()
    for number in range(100):
        arguments, given = prepared(number, models, folder)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with contextlib.suppress(SystemExit):
            status.append(main(arguments))
        told |= {words[:30] for line in capsys.readouterr().err.splitlines() if (words := line.partition("error: ")[2])}
    assert status.count(0) >= 15, told
    assert len(told) >= 20
