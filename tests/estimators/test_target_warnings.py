"""Targets of classes and counts: one warning, and none of targets that are measured."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lmgp import GaussianKernel, GPRegressor, TransformedTargetGPRegressor
from lmgp.cli import main
from lmgp.errors import TargetWarning

RNG = np.random.default_rng(0)
N = 120
X = RNG.uniform(-1.0, 1.0, (N, 2))
GIVEN = {"kernel": GaussianKernel(1.0), "noise_variance": 0.5, "noise": "normal"}


def told(y: object) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        GPRegressor(**GIVEN).fit(X, y)
    return [one for one in record if issubclass(one.category, TargetWarning)]


@pytest.mark.parametrize("y", [X[:, 0] > 0.0, np.where(X[:, 1] > 0.5, 7.5, -1.0)], ids=["boolean", "two numbers"])
def test_two_values_are_classes(y: np.ndarray) -> None:
    (warning,) = told(y)
    values = (0, 1) if y.dtype == bool else (-1, 7.5)
    assert f"y takes two values, {values[0]} and {values[1]}, as classes do" in str(warning.message)
    assert "use a classifier" in str(warning.message)
    assert warning.filename == __file__  # the line that calls fit


@pytest.mark.parametrize("mean", [0.5, 2.0, 5.0])
def test_small_whole_numbers_are_counts(mean: float) -> None:
    y = np.random.default_rng(1).poisson(mean, N)
    (warning,) = told(y)
    assert f"y takes {len(np.unique(y))} whole numbers from 0 to {y.max()}, as counts" in str(warning.message)
    assert "TransformedTargetGPRegressor(transformer='log1p')" in str(warning.message)


@pytest.mark.parametrize(
    ("y", "end"), [(np.maximum(X[:, 0], 0.0), "0, its smallest"), (np.minimum(X[:, 0], 0.5), "0.5, its largest")]
)
def test_many_rows_at_an_end_are_a_point_mass(y: np.ndarray, end: str) -> None:
    (warning,) = told(y)
    at_end = np.count_nonzero(y == float(end.split(",")[0]))
    assert f"y is {end} value, in {at_end} of 120 rows" in str(warning.message)
    assert "with a classifier, and the amount with a model of the other rows" in str(warning.message)


MEASURED = {
    "few zeros": np.where(np.arange(N) % 6, X[:, 0] + 2.0, 0.0),
    "often a value between others": np.where(np.arange(N) % 3, X[:, 0], 0.0),
    "numbers": X[:, 0],
    "prices": np.random.default_rng(2).integers(0, 60, N),
    "few prices": np.random.default_rng(2).integers(1, 15, N) * 1000,
    "years": np.random.default_rng(2).integers(2010, 2020, N),
    "differences": np.random.default_rng(2).integers(-5, 6, N),
    "tenths": np.round(np.random.default_rng(2).uniform(0.0, 1.0, N), 1),
    "each once": np.arange(N) % 30,
}


@pytest.mark.parametrize("name", MEASURED)
def test_measured_targets_are_left_alone(name: str) -> None:
    assert told(MEASURED[name]) == []


def test_few_rows_and_one_value_are_left_alone() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPRegressor(**GIVEN).fit(X[:9], np.arange(9) % 2)
        GPRegressor(**GIVEN).fit(X, np.ones(N))


def test_targets_are_named() -> None:
    y = pd.DataFrame({"price": X[:, 0], "sold": (X[:, 1] > 0.0).astype(int)})
    (warning,) = told(y)
    assert str(warning.message).startswith("Target 'sold' takes two values, 0 and 1")


def test_what_it_says_of_counts_is_a_cure() -> None:
    y = np.random.default_rng(1).poisson(2.0, N)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TargetWarning)
        model = TransformedTargetGPRegressor(GPRegressor(**GIVEN), transformer="log1p").fit(X, y)
    assert np.all(model.predict_interval(X)[0] > -1.0)


@pytest.mark.slow
def test_it_is_said_once_where_all_is_learned_and_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    y = np.random.default_rng(1).poisson(np.exp(1.0 + X[:, 0]))
    with pytest.warns(TargetWarning) as record:
        GPRegressor(random_state=0).fit(X, y)
    assert sum(issubclass(one.category, TargetWarning) for one in record) == 1
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "seen": y}).to_csv("birds.csv", index=False)
    fit = ["fit", "birds.csv", "--target", "seen", "--out", "model.lmgp", "--kernel", "gaussian"]
    assert main(fit) == 0
    assert capsys.readouterr().err.count("as counts and grades do") == 1
    assert main([*fit, "--target-transform", "log1p"]) == 0
    assert "as counts and grades do" not in capsys.readouterr().err
