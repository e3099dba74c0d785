"""The reproduction on small made data in the place of the paper's sets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import lmgp.datasets
from lmgp.catalogue import CATALOGUE
from lmgp.datasets import Dataset
from lmgp.errors import DatasetError
from lmgp.experiments.paper import reproduce
from lmgp.experiments.protocol import PROTOCOLS, PublishedSettings

ROWS = {"yacht": 60, "kin8nm": 90, "uk_flats": 80, "uk_flats_2020-12": 80}


def made(name: str) -> Dataset:
    rng = np.random.default_rng(0)
    entry, n = CATALOGUE[name], ROWS[name]
    X = rng.uniform(-2.0, 2.0, (n, len(entry.inputs)))
    y = 5.0 + np.sin(2.0 * X).sum(axis=1) + 0.1 * rng.standard_normal(n)
    return Dataset(name, X + (np.array([-2.0, 52.5]) if entry.spatial else 0.0), y, entry.inputs, entry.target, entry)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, no data folder, no downloads, and no time spent on drawing."""

    def refused(entry: Any, *arguments: Any, **options: Any) -> None:
        raise DatasetError(f"{entry.name!r} could not be downloaded")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LMGP_DATA_DIR", raising=False)
    monkeypatch.setattr(lmgp.datasets, "fetch", refused)
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(b"drawn"))
    return tmp_path


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The generated data sets that a test finds, and may change; splits and map are smaller than in the paper."""
    names = ["uk_flats_2020-12", "yacht"]

    def load(name: str, *arguments: Any, **options: Any) -> Dataset:
        if name not in names:
            raise DatasetError(f"{name} is missing")
        return made(name)

    uk_map_section = reproduce.uk_map_section

    def small_map(dataset: Dataset, protocol: Any, grid: int, *arguments: Any, **options: Any) -> Any:
        assert grid == 30
        return uk_map_section(dataset, protocol, 6, *arguments, **options)

    known = dict.fromkeys(ROWS, PublishedSettings(lengthscale=0.8, variance=1.5, noise_variance=0.02, n_train=45))
    monkeypatch.setattr(reproduce, "load_dataset", load)
    monkeypatch.setattr(reproduce, "uk_map_section", small_map)
    monkeypatch.setitem(PROTOCOLS, "paper", replace(PROTOCOLS["paper"], published=known))
    return names
