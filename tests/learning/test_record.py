"""What learning says that it tried."""

import math

import numpy as np
import pandas as pd
import pytest

from lmgp import ExactGPRegressor, GaussianKernel
from lmgp.learning.record import Learning, Trial

MISSING = math.nan
TRIALS = (
    Trial("gaussian", False, 3, "vecchia", 500, 16, -0.7654, 0.0321, MISSING, MISSING, MISSING, 0.123),
    Trial("matern12+gaussian", True, 7, "vecchia", 4000, 30, -0.1234, 0.0, 0.5678, MISSING, 0.02, 4.5),
    Trial("matern32", True, 4, "exact", 2000, 0, -0.2222, 0.0, 0.9876, 0.4321, 0.02, 12.3, chosen=True),
)


def test_is_a_sequence() -> None:
    learning = Learning(TRIALS, 12_345, 0, 17.0)
    assert len(learning) == 3
    assert learning[0] is TRIALS[0]
    assert learning[1:] == TRIALS[1:]
    assert list(learning) == list(TRIALS)
    assert learning.chosen is TRIALS[2]


def test_prints_as_a_table() -> None:
    lines = str(Learning(TRIALS, 12_345, 0, 17.0)).splitlines()
    assert len(lines) == 5
    heading, *rows, last = lines
    # A star, and columns of one width each: every heading ends or starts where its cells do.
    assert len({len(line) for line in (heading, *rows)}) == 1
    assert [line.startswith("*") for line in rows] == [False, False, True]
    for word in ("kernel", "lengthscales", "likelihood", "rows", "neighbours", "nats/row", "s.e."):
        assert word in heading
    assert rows[0].split()[:6] == ["gaussian", "one", "vecchia", "500", "16", "-0.7654"]
    assert "one a column" in rows[1]
    assert "4,000" in rows[1]
    assert rows[2].split()[-6:] == ["-0.2222", "-", "0.9876", "0.4321", "0.02", "12"]
    assert last == "*: taken, for 12,345 rows. 17 s in all."


def test_copies_are_said() -> None:
    assert "12,345 rows, of which 1,234 are exact copies of others" in str(Learning(TRIALS, 12_345, 1234, 17.0))


def test_is_a_data_frame() -> None:
    frame = pd.DataFrame(Learning(TRIALS))
    assert list(frame.columns) == list(Trial._fields)
    assert list(frame.kernel) == ["gaussian", "matern12+gaussian", "matern32"]


def test_of_given_hyperparameters_it_is_empty() -> None:
    X, y = np.arange(10.0).reshape(5, 2), np.arange(5.0)
    learning = ExactGPRegressor(GaussianKernel(), 0.1).fit(X, y).learning_
    assert len(learning) == 0
    assert "given" in str(learning)
    with pytest.raises(AttributeError, match="nothing was chosen"):
        _ = learning.chosen


def test_of_the_noise_it_is_one_line() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    model = ExactGPRegressor(GaussianKernel(3.0)).fit(X, X[:, 0] + 0.1 * rng.normal(size=30))
    (trial,) = model.learning_
    assert trial is model.learning_.chosen
    assert (trial.likelihood, trial.n_rows) == ("exact", 30)
    assert trial.n_free == 1
    assert trial.log_likelihood == pytest.approx(model.log_marginal_likelihood_ / 30)
