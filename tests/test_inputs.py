"""The scales of input columns."""

import warnings

import numpy as np
import pytest

from lmgp.data import Rows, column_scales, warn_of_scales
from lmgp.errors import ScaleWarning

rng = np.random.default_rng(0)


def scales(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    return column_scales(Rows(X, np.zeros(len(X)), weights))


def test_they_are_standard_deviations() -> None:
    X = rng.normal(size=(50, 3)) * [1e-3, 1.0, 1e6] + [5.0, 0.0, -1e7]
    X[:, 1] = X[:, 1] > 0.0  # binary
    np.testing.assert_allclose(scales(X), X.std(axis=0), rtol=1e-9)


def test_a_weight_counts_as_repetitions() -> None:
    X, weights = rng.normal(size=(20, 2)), rng.integers(1, 4, size=20)
    np.testing.assert_allclose(scales(X, weights.astype(float)), np.repeat(X, weights, axis=0).std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 7.0, -1e300, 1e-300])
def test_of_a_constant_column_it_is_one(value: float) -> None:
    np.testing.assert_array_equal(scales(np.full((10, 1), value)), [1.0])


def test_of_a_column_that_differs_by_rounding_it_is_one() -> None:
    np.testing.assert_array_equal(scales(np.array([[0.1 + 0.2], [0.3], [0.3]])), [1.0])


@pytest.mark.parametrize("magnitude", [1e-300, 1e-160, 1e160, 1e300])
def test_magnitudes_whose_squares_float64_does_not_hold(magnitude: float) -> None:
    X = rng.normal(size=(30, 1))
    np.testing.assert_allclose(scales(X * magnitude), X.std(axis=0) * magnitude, rtol=1e-12)


def test_a_column_of_one_value_but_for_one_row() -> None:
    X = np.zeros((10_000, 1))
    X[17] = 1.0
    np.testing.assert_allclose(scales(X), [np.sqrt(1e-4 * (1 - 1e-4))], rtol=1e-12)


def test_whole_numbers_beyond_the_digits_of_float64_keep_their_differences() -> None:
    times = 1.7e18 + 3.6e12 * rng.uniform(size=(100, 1))  # nanoseconds within an hour
    np.testing.assert_allclose(scales(times), (times - times[0]).std(axis=0), rtol=1e-9)


def test_columns_of_a_group_have_one_scale() -> None:
    X = rng.normal(size=(40, 4)) * [3.0, 4.0, 1.0, 7.0]
    deviations = X.std(axis=0)
    found = column_scales(Rows(X, np.zeros(40)), np.array([0, 0, 1, 2]))
    np.testing.assert_allclose(found[:2], np.sqrt(np.mean(deviations[:2] ** 2)), rtol=1e-12)
    np.testing.assert_allclose(found[2:], deviations[2:], rtol=1e-12)
    constant = column_scales(Rows(np.full((3, 3), 5.0), np.zeros(3)), np.array([0, 0, 1]))
    np.testing.assert_array_equal(constant, [1.0, 1.0, 1.0])


def test_columns_that_differ_a_thousandfold_are_named() -> None:
    X = rng.normal(size=(100, 4)) * [1.0, 2000.0, 1.0, 0.0] + [0.0, 0.0, 0.0, 1e9]
    X /= [X[:, 0].std(), X[:, 1].std() / 2000.0, 1.0, 1.0]
    rows = Rows(X, np.zeros(100))
    with pytest.warns(ScaleWarning, match=r"^The standard deviation of column 1 of X is 2e\+03, that of column"):
        warn_of_scales(rows, None, "")
    with pytest.warns(ScaleWarning, match=r"^The standard deviation of column 'b' of X.*hardly count. Mend them."):
        warn_of_scales(rows, ["a", "b", "c", "d"], "Mend them.")
    with pytest.warns(ScaleWarning):
        warn_of_scales(Rows(np.array([[1e-300, 1e300], [2e-300, 2e300]]), np.zeros(2)), None, "")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_scales(Rows(X / [1.0, 3.0, 1.0, 1.0], rows.Y), None, "")
        warn_of_scales(Rows(np.ones((5, 2)), np.zeros(5)), None, "")
