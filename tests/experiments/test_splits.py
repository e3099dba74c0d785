"""Splits of a data set into training and test rows."""

from typing import Any

import numpy as np
import pytest

from lmgp.errors import InputError
from lmgp.experiments.datasets import Dataset, split


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
