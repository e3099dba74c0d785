"""What the tests of the command line share: tables of places and prices, and a model of them."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import lmgp
from lmgp.cli import main
from tests.conftest import draw

FIT = ["--kernel", "matern32", "--noise", "normal", "--target", "price", "--quiet"]


def frame(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Places, and a price at each."""
    X, y, _ = draw(n, (-6.0, 50.0), (2.0, 55.0), seed=seed)
    return pd.DataFrame({"lon": X[:, 0], "lat": X[:, 1], "price": y})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with tables of training and of test rows."""
    monkeypatch.chdir(tmp_path)
    frame().to_csv("train.csv", index=False)
    frame(20, seed=1).to_csv("test.csv", index=False)
    return tmp_path


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What `lmgp fit train.csv` writes."""
    place = tmp_path_factory.mktemp("model")
    frame().to_csv(place / "train.csv", index=False)
    assert main(["fit", str(place / "train.csv"), "--out", str(place / "model.lmgp"), *FIT]) == 0
    return (place / "model.lmgp").read_bytes()


@pytest.fixture
def model(folder: Path, model_file: bytes) -> Any:
    """The model, in the folder as model.lmgp."""
    (folder / "model.lmgp").write_bytes(model_file)
    return lmgp.load("model.lmgp")


def read(source: Any, sep: str = ",", decimal: str = ".") -> pd.DataFrame:
    """Read a table, each number with all its digits."""
    return pd.read_csv(source, sep=sep, dtype=str).map(lambda one: float(str(one).replace(decimal, ".")))


def predicted(*arguments: str, **written: str) -> pd.DataFrame:
    """Run ``lmgp predict model.lmgp`` with a file as its output, and read that."""
    assert main(["predict", "model.lmgp", *arguments, "--out", "out.csv", "--quiet"]) == 0
    return read("out.csv", **written)


def scores(printed: str) -> pd.DataFrame:
    """The scores of one target: a row for each, and a column for the model and for each baseline."""
    first, *lines = (re.split("  +", line.strip()) for line in printed.splitlines())
    assert first[0] == "rows"
    columns, *rows = lines
    return pd.DataFrame([row[1:] for row in rows], [row[0] for row in rows], columns).astype(float)


def mean(model: Any, rows: Any) -> Any:
    """The mean as it is beside standard deviations: alone it is rounded otherwise."""
    return model.predict(rows, return_std=True)[0]
