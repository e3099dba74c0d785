"""Exact copies of rows: counted, and named where a learned noise collapses because of them."""

import warnings

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, learn
from lmgp.errors import DuplicateRowsWarning
from lmgp.inference.duplicates import count_copies, merged_copies, without_copies
from lmgp.validation import Rows


def rows(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def test_copies_are_rows_with_equal_inputs_and_targets() -> None:
    X = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [2.0, 1.0]])
    y = np.array([1.0, 5.0, 1.0, 1.0])
    distinct, n_copies = without_copies(Rows(X, y))
    assert n_copies == 1
    assert sorted(zip(*distinct.X.T, distinct.y, strict=True)) == [(0.0, 1.0, 1.0), (0.0, 1.0, 5.0), (2.0, 1.0, 1.0)]


def test_a_weight_above_one_counts_as_copies_and_one_below_does_not() -> None:
    X, y = rows(4)
    distinct, n_copies = without_copies(Rows(X, y, np.array([3.0, 0.5, 1.0, 2.0])))
    assert n_copies == 3
    assert sorted(distinct.weights) == [0.5, 1.0, 1.0, 1.0]


def test_merged_copies_have_the_sum_of_their_weights_in_an_order_of_their_own() -> None:
    X, y = rows(30)
    y[1] = y[0]  # equal targets alone make no copies
    X[3] = X[2]  # nor do equal inputs
    counts = np.random.default_rng(1).integers(1, 5, 30)
    weighted = merged_copies(Rows(X, y, counts.astype(float)))
    order = np.random.default_rng(2).permutation(counts.sum())
    repeated = merged_copies(Rows(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order]))
    for name in ("X", "y", "weights"):
        np.testing.assert_array_equal(getattr(weighted, name), getattr(repeated, name))
    found = np.column_stack((repeated.X, repeated.y, repeated.weights))
    expected = np.column_stack((X, y, counts))
    np.testing.assert_array_equal(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])


def test_rows_with_noise_variances_of_their_own_are_copies_if_these_are_equal_too() -> None:
    X, y = np.zeros((3, 1)), np.ones(3)
    merged = merged_copies(Rows(X, y, None, np.array([1.0, 2.0, 1.0])))
    assert merged.noise_variances.tolist() == [1.0, 2.0]
    assert merged.weights.tolist() == [2.0, 1.0]


def test_rows_without_copies_stay_as_they_are() -> None:
    given = Rows(*rows(10), np.ones(10))
    assert merged_copies(given) is given


@pytest.mark.parametrize("kernel", [None, "matern32"])
def test_repeated_and_weighted_rows_teach_the_same(kernel: str | None) -> None:
    X, y = rows(25)
    counts = np.random.default_rng(1).integers(0, 4, 25)
    order = np.random.default_rng(2).permutation(counts.sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DuplicateRowsWarning)
        weighted = learn(X, y, counts, kernel=kernel, ard=False, random_state=0)
        repeated = learn(
            np.repeat(X, counts, axis=0)[order],
            np.repeat(y, counts)[order],
            kernel=kernel,
            ard=False,
            random_state=0,
        )
    np.testing.assert_allclose(weighted.kernel.theta, repeated.kernel.theta, rtol=0, atol=1e-6)
    assert weighted.noise_variance == pytest.approx(repeated.noise_variance, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_collapsed_noise_is_said_with_the_number_of_copies_and_the_cure(weighted: bool) -> None:
    X, y = rows()
    weights = np.full(120, 3.0) if weighted else None
    with pytest.warns(
        DuplicateRowsWarning, match=r"240 of 360 rows are exact copies.*one row of each.*noise_variances"
    ) as record:
        model = ExactGPRegressor(random_state=0).fit(
            *((X, y) if weighted else (np.repeat(X, 3, axis=0), np.repeat(y, 3))), sample_weight=weights
        )
    assert sum(issubclass(one.category, DuplicateRowsWarning) for one in record) == 1
    assert model.noise_variance_ < 1e-3 * y.var()


def test_collapsed_noise_is_said_of_kernels_that_are_named() -> None:
    X, y = rows(60)
    X, y = np.repeat(X, 5, axis=0), np.repeat(y, 5)
    with pytest.warns(DuplicateRowsWarning, match=r"240 of 300 rows are exact copies") as record:
        model = ExactGPRegressor("matern52", random_state=0).fit(X, y)
    assert sum(issubclass(one.category, DuplicateRowsWarning) for one in record) == 1
    assert model.noise_variance_ < 1e-3 * y.var()
    assert model.learning_.n_copies == 240


def noise_free() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 1))
    return np.repeat(X, 2, axis=0), np.sin(3 * np.repeat(X, 2))


def few_copies() -> tuple[np.ndarray, np.ndarray]:
    X, y = rows()
    return np.vstack((X, X[:2])), np.append(y, y[:2])


def repeated_measurements() -> tuple[np.ndarray, np.ndarray]:
    X, _ = rows(60)
    X = np.repeat(X, 3, axis=0)
    return X, np.sin(3 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=180)


@pytest.mark.parametrize("make", [rows, noise_free, few_copies, repeated_measurements])
def test_other_data_are_left_alone(make) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DuplicateRowsWarning)
        ExactGPRegressor(random_state=0).fit(*make())
        ExactGPRegressor("gaussian", random_state=0).fit(*make())


def test_a_given_noise_is_left_alone() -> None:
    X, y = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("error", DuplicateRowsWarning)
        ExactGPRegressor(GaussianKernel(0.5, 1.0), 1e-6).fit(np.repeat(X, 3, axis=0), np.repeat(y, 3))


def repeats(values: np.ndarray) -> int:
    return len(values) - len({tuple(row) for row in values})


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("n_values", [2, 10, 1000])
def test_copies_are_counted_as_by_a_set(d: int, n_values: int) -> None:
    rng = np.random.default_rng(n_values)
    X = rng.integers(-n_values, n_values, (3000, d)) / 7.0
    y = rng.integers(0, 3, 3000) * 1.0
    found = count_copies(Rows(X, y))
    assert found.equal_inputs == repeats(X)
    assert found.exact == repeats(np.column_stack((X, y)))


def test_zeros_of_either_sign_are_equal() -> None:
    assert count_copies(Rows(np.array([[0.0], [-0.0]]), np.array([1.0, 1.0]))) == (1, 1)


def test_exchanged_columns_are_no_copies() -> None:
    X = np.random.default_rng(0).normal(size=(500, 2))
    assert count_copies(Rows(np.vstack((X, X[:, ::-1])), np.zeros(1000))) == (0, 0)


def test_a_weight_counts_as_copies_of_its_row() -> None:
    X, y = rows(4)
    assert count_copies(Rows(X, y, np.array([3.0, 0.5, 1.0, 1.5]))) == (3, 3)
    assert without_copies(Rows(X, y, np.array([3.0, 0.5, 1.0, 1.5])))[1] == 3
