"""Small data sets of the tests' own, protocols that need no learning on them, and made rows of results."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import lmgp.experiments.datasets
from lmgp.errors import DatasetError
from lmgp.experiments import figure_4, reproduce
from lmgp.experiments.compare import PAPER, PROTOCOLS, ComparisonSettings, PublishedSettings
from lmgp.experiments.datasets import CATALOGUE, Dataset, DatasetEntry

PUBLISHED = PublishedSettings(lengthscale=0.8, variance=1.5, noise_variance=0.02, n_train=40)
ROWS = {"yacht": 60, "kin8nm": 90, "uk_flats": 80, "uk_flats_2020-12": 80}


def make_dataset(n: int = 60, d: int = 1, *, spatial: bool = False, name: str = "made") -> Dataset:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 3.0, (n, d))
    y = 5.0 + np.sin(2.0 * X).sum(axis=1) + 0.1 * rng.standard_normal(n)
    inputs = tuple(f"x{j}" for j in range(d))
    entry = DatasetEntry(
        name=name,
        description="",
        n_rows=n,
        columns=(*inputs, "y"),
        inputs=inputs,
        licence="",
        citation="",
        kind="generated",
        spatial=spatial,
    )
    return Dataset(name, X, y, inputs, "y", entry)


@pytest.fixture
def make() -> Callable[..., Dataset]:
    return make_dataset


@pytest.fixture
def dataset() -> Dataset:
    return make_dataset()


@pytest.fixture
def fixed() -> ComparisonSettings:
    """Two seeds of three quick methods with given hyperparameters."""
    return ComparisonSettings(
        replace(PAPER, published={"made": PUBLISHED}),
        methods=("rff", "global_taylor", "local_taylor"),
        n_features=(8, 16),
        thresholds=(1.0,),
        seeds=2,
        max_test_rows=None,
    )


def made_row(method: str, n_features: float = np.nan, threshold: float = np.nan, **fields: Any) -> dict[str, Any]:
    """A row of results with made numbers."""
    values: dict[str, Any] = {
        "settings": "mark", "dataset": "made", "protocol": "paper", "n_train": 40, "n_test": 20, "n_inputs": 2,
        "seed": 0, "method": method, "n_features": n_features, "threshold": threshold, "rmse": 0.5, "nlpd": 0.75,
        "coverage": 0.9, "crps": 0.25, "n_features_out": n_features, "n_centroids": 3 if threshold > 0 else np.nan,
        "reverse_kl": 0.75,
    }  # fmt: skip
    if method == "exact":
        values |= {"lengthscale": "0.8", "variance": 1.5, "noise_variance": 0.02, "fit_seconds": 1.0}
        values |= {"predict_seconds": 2.0}
    if "kl" in fields:
        fields["kl_sum"] = values["n_test"] * fields["kl"]
    return values | fields


def known_cell(method: str, n_features: int, threshold: float = np.nan, **fields: float) -> dict[str, Any]:
    """A published cell with made numbers; the divergence is a row's."""
    values = {"n_centroids": 4.5, "runs": 10, "n_test": 64, "kl": 1.0, "kl_sd": 0.0, "rmse": 0.4} | fields
    values["kl_sum"] = values["kl"] * values["n_test"]
    return {"method": method, "n_features": n_features, "threshold": threshold, **values}


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The published cells, of whatever data set; to be filled."""
    cells: list[dict[str, Any]] = []
    columns = list(known_cell("rff", 8))
    monkeypatch.setattr(figure_4, "published", lambda name: pd.DataFrame(cells, columns=columns))
    return cells


def without_data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder, without a data folder, downloads, and time spent on drawing."""

    def refused(entry: Any, *arguments: Any, **options: Any) -> None:
        raise DatasetError(f"{entry.name!r} could not be downloaded")

    monkeypatch.chdir(folder)
    monkeypatch.delenv("LMGP_DATA_DIR", raising=False)
    monkeypatch.setattr(lmgp.experiments.datasets, "fetch", refused)
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(b"drawn" * 8))
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, no data folder, no downloads, and no time spent on drawing."""
    return without_data(tmp_path, monkeypatch)


def made_of_paper(name: str) -> Dataset:
    """Small made data in the place of a set of the paper."""
    entry, rows = CATALOGUE[name], make_dataset(ROWS[name], len(CATALOGUE[name].inputs))
    X = rows.X + (np.array([-2.0, 52.5]) if entry.spatial else 0.0)
    return Dataset(name, X, rows.y, entry.inputs, entry.target, entry)


def with_made_data(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let small made data be found in the place of the paper's sets of the names that are returned, with small maps."""
    names = ["uk_flats_2020-12", "yacht"]

    def load(name: str, *arguments: Any, **options: Any) -> Dataset:
        if name not in names:
            raise DatasetError(f"{name} is missing")
        return made_of_paper(name)

    uk_map_section = reproduce.uk_map_section

    def small_map(dataset: Dataset, protocol: Any, grid: int, *arguments: Any, **options: Any) -> Any:
        assert grid == 30
        return uk_map_section(dataset, protocol, 6, *arguments, **options)

    monkeypatch.setattr(reproduce, "load_dataset", load)
    monkeypatch.setattr(reproduce, "uk_map_section", small_map)
    monkeypatch.setitem(
        PROTOCOLS, "paper", replace(PAPER, published=dict.fromkeys(ROWS, PUBLISHED._replace(n_train=45)))
    )
    return names


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data sets of the paper that a test finds, and may change; splits and map are smaller than in the paper."""
    return with_made_data(monkeypatch)
