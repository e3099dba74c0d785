"""One row that makes most of a column's standard deviation is said; all else is not."""

import warnings

import numpy as np
import pandas as pd
import pytest

from lmgp import ExactGPRegressor, FeaturizedGPRegressor, GaussianKernel, GPRegressor
from lmgp.errors import OutlierWarning
from lmgp.estimators.warned import warn_of_outlying_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, 0])


def spoilt(value: float = 1e6) -> pd.DataFrame:
    table = pd.DataFrame(X, columns=["age", "height"])
    table.loc[17, "height"] = value
    return table


@pytest.mark.parametrize("model", [GPRegressor, ExactGPRegressor, FeaturizedGPRegressor])
@pytest.mark.filterwarnings("ignore::lmgp.errors.ScaleWarning")
def test_the_row_and_the_column_are_named_once(model: type) -> None:
    fitted = model(kernel="gaussian", noise="normal", random_state=0)
    with pytest.warns(
        OutlierWarning, match=r"Row 17 has 1e\+06 in column 'height' of X.*98.3% of the variance"
    ) as record:
        fitted.fit(spoilt(), Y)
    told = [one for one in record if issubclass(one.category, OutlierWarning)]
    assert len(told) == 1
    assert told[0].filename == __file__  # the line that calls fit


@pytest.mark.parametrize("value", [7.0, -9.0, 1e200])
def test_more_than_half_of_the_sum_of_squares_is_most(value: float) -> None:
    column = spoilt(value)["height"].to_numpy()
    squares = np.square(column / 1e100 - np.mean(column / 1e100))
    most = squares[17] > 0.5 * squares.sum()
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        warn_of_outlying_rows(column[:, None], None, [0])
    assert [str(one.message).startswith("Row 17 has") for one in record] == [True] * int(most)


OTHERS = {
    "normal": X,
    "heavy tails": np.random.default_rng(1).standard_t(3, (200, 3)),
    "a rare flag": np.eye(60)[:, :2],
    "constant": np.ones((60, 2)),
    "few rows": np.vstack((X[:18], [[1e6, 0.0]])),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_columns_are_left_alone(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_outlying_rows(OTHERS[name], None, range(OTHERS[name].shape[1]))


def test_a_given_kernel_needs_no_standard_deviation() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ExactGPRegressor(GaussianKernel(1.0), 0.1).fit(spoilt(), Y)
