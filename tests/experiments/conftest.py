"""A small data set of the tests' own, and protocols that need no learning on it."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lmgp.catalogue import DatasetEntry
from lmgp.datasets import Dataset
from lmgp.experiments.protocol import PROTOCOLS, PublishedSettings, Settings


def make_dataset(n: int = 60, d: int = 1, *, spatial: bool = False) -> Dataset:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 3.0, (n, d))
    y = 5.0 + np.sin(2.0 * X).sum(axis=1) + 0.1 * rng.standard_normal(n)
    inputs = tuple(f"x{j}" for j in range(d))
    entry = DatasetEntry(
        name="made",
        description="",
        n_rows=n,
        columns=(*inputs, "y"),
        inputs=inputs,
        licence="",
        citation="",
        kind="generated",
        spatial=spatial,
    )
    return Dataset("made", X, y, inputs, "y", entry)


@pytest.fixture
def make() -> Callable[..., Dataset]:
    return make_dataset


@pytest.fixture
def dataset() -> Dataset:
    return make_dataset()


@pytest.fixture
def fixed() -> Settings:
    """Two seeds of three quick methods with given hyper-parameters."""
    published = {"made": PublishedSettings(lengthscale=0.8, variance=1.5, noise_variance=0.02, n_train=40)}
    return Settings(
        replace(PROTOCOLS["paper"], published=published),
        methods=("rff", "global_taylor", "local_taylor"),
        n_features=(8, 16),
        thresholds=(1.0,),
        seeds=2,
        max_test_rows=None,
    )
