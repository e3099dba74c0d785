"""Exact copies of rows: counted, and named where a learned noise collapses because of them."""

import warnings

import numpy as np
import pytest

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    NystroemFeatures,
    TaylorFeatures,
    learn,
)
from lmgp.data import Rows
from lmgp.errors import DuplicateRowsWarning, InputError
from lmgp.learning.engine import Settings, _warn_of_copies
from lmgp.learning.record import Learned, Learning, Trial
from lmgp.neighbours.duplicates import averaged, count_copies, dropped, merged_copies


def rows(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def copies(given: Rows) -> int:
    return count_copies(merged_copies(given))


def test_copies_are_rows_with_equal_inputs_and_targets() -> None:
    X = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [2.0, 1.0]])
    y = np.array([1.0, 5.0, 1.0, 1.0])
    distinct = merged_copies(Rows(X, y))
    assert count_copies(distinct) == 1
    assert sorted(zip(*distinct.X.T, distinct.Y[:, 0], strict=True)) == [
        (0.0, 1.0, 1.0),
        (0.0, 1.0, 5.0),
        (2.0, 1.0, 1.0),
    ]


def test_whole_weights_count_copies_and_others_count_none() -> None:
    X, y = rows(4)
    assert copies(Rows(X, y, np.array([3.0, 1.0, 1.0, 2.0]))) == 3
    assert copies(Rows(X, y, np.array([3.0, 0.5, 1.0, 2.0]))) == 0
    assert copies(Rows(X[[0, 0, 1]], y[[0, 0, 1]], np.array([3.0, 0.5, 1.0]))) == 1


def test_merged_copies_have_the_sum_of_their_weights_in_an_order_of_their_own() -> None:
    X, y = rows(30)
    y[1] = y[0]  # equal targets alone make no copies
    X[3] = X[2]  # nor do equal inputs
    counts = np.random.default_rng(1).integers(1, 5, 30)
    weighted = merged_copies(Rows(X, y, counts.astype(float)))
    order = np.random.default_rng(2).permutation(counts.sum())
    repeated = merged_copies(Rows(np.repeat(X, counts, axis=0)[order], np.repeat(y, counts)[order]))
    for name in ("X", "Y", "weights"):
        np.testing.assert_array_equal(getattr(weighted, name), getattr(repeated, name))
    found = np.column_stack((repeated.X, repeated.Y[:, 0], repeated.weights))
    expected = np.column_stack((X, y, counts))
    np.testing.assert_array_equal(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])


def test_rows_with_noise_variances_of_their_own_are_copies_if_these_are_equal_too() -> None:
    X, y = np.zeros((3, 1)), np.ones(3)
    merged = merged_copies(Rows(X, y, None, np.array([1.0, 2.0, 1.0])))
    assert merged.noise_variances.tolist() == [1.0, 2.0]
    assert merged.weights.tolist() == [2.0, 1.0]


def test_rows_with_equal_y_have_an_order_that_the_order_of_columns_leaves_alike() -> None:
    X, y = rows(40)[0] ** 2, np.zeros(40)
    columns = np.arange(X.shape[1])[::-1]
    merged, other = merged_copies(Rows(X, y)), merged_copies(Rows(X[:, columns], y))
    np.testing.assert_array_equal(other.X, merged.X[:, columns])
    assert X.shape[1] > 1


def test_rows_without_copies_have_an_order_of_their_own() -> None:
    X, y = rows(10)
    merged, other = merged_copies(Rows(X, y, np.ones(10))), merged_copies(Rows(X[::-1] + 3.0, 2.0 * y[::-1]))
    assert merged.weights is None
    np.testing.assert_allclose(other.X - 3.0, merged.X, atol=1e-12)
    np.testing.assert_array_equal(other.Y, 2.0 * merged.Y)
    np.testing.assert_array_equal(np.sort(merged.Y[:, 0]), np.sort(y))


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
    assert model.noise_variance_ < 1e-4 * y.var()


def test_collapsed_noise_is_said_of_kernels_that_are_named() -> None:
    X, y = rows(60)
    X, y = np.repeat(X, 5, axis=0), np.repeat(y, 5)
    with pytest.warns(DuplicateRowsWarning, match=r"240 of 300 rows are exact copies") as record:
        model = ExactGPRegressor("matern52", random_state=0).fit(X, y)
    assert sum(issubclass(one.category, DuplicateRowsWarning) for one in record) == 1
    assert model.noise_variance_ < 1e-4 * y.var()
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


@pytest.mark.parametrize("share", [1e-6, 8e-5])
def test_a_learned_noise_has_collapsed_where_it_is_small_beside_that_of_rows_without_copies(share: float) -> None:
    """One that was learned under a t may not have, where that of a sample under normal errors has."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (120, 1))
    y = np.sin(3.0 * X[:, 0]) + 0.016 * rng.normal(size=120)  # of 5e-4 of its variance
    several = Rows(np.repeat(X, 3, axis=0), np.repeat(y - y.mean(), 3))
    trial = Trial("matern12", False, 3, "vecchia, t", 360, 30, 0.0, chosen=True)
    learned = Learned(GaussianKernel(), share * y.var(), 0.0, True, Learning((trial,), 360, 240))
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        _warn_of_copies(several, learned, Settings())
    assert len(record) == (share < 5e-5)


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
    found = copies(Rows(X, y))
    assert found == repeats(np.column_stack((X, y)))


def test_zeros_of_either_sign_are_equal() -> None:
    assert copies(Rows(np.array([[0.0], [-0.0]]), np.array([1.0, 1.0]))) == 1


def test_exchanged_columns_are_no_copies() -> None:
    X = np.random.default_rng(0).normal(size=(500, 2))
    assert copies(Rows(np.vstack((X, X[:, ::-1])), np.zeros(1000))) == 0


def test_rows_that_differ_in_their_noise_alone_are_copies() -> None:
    X, y = np.array([[0.0], [0.0], [1.0]]), np.array([1.0, 1.0, 1.0])
    assert copies(Rows(X, y, None, np.array([0.1, 0.2, 0.1]))) == 1


# -------------------------------------------------------------------------------------------- rows of one place


GIVEN = {"kernel": GaussianKernel(0.4, 1.5), "noise_variance": 0.02}


def repeated(n: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows at 30 places, one to four of each in a random order, a weight of each row, and rows to predict."""
    rng = np.random.default_rng(3)
    X = np.repeat(rows(n)[0], rng.integers(1, 5, n), axis=0)
    X = X[rng.permutation(len(X))]
    return X, 2.0 + np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=len(X)), rng.uniform(0.5, 2.0, len(X))


NEW = np.random.default_rng(4).uniform(-1.5, 1.5, (20, 2))


@pytest.mark.parametrize("trend", ["constant", "linear"])
@pytest.mark.parametrize(
    "model",
    [
        ExactGPRegressor(**GIVEN),
        FeaturizedGPRegressor(NystroemFeatures(12, random_state=0), **GIVEN),
        LocalizedGPRegressor(TaylorFeatures(28), centroids=rows(5)[0], **GIVEN),
        GPRegressor(**GIVEN),
    ],
    ids=lambda model: type(model).__name__,
)
def test_averages_predict_as_all_rows_do(model: ExactGPRegressor, trend: str) -> None:
    X, y, weights = repeated()
    model.set_params(trend=trend)
    if isinstance(model, FeaturizedGPRegressor):  # the same landmarks of both
        model.set_params(features__landmarks=X[:12])
    for options in ({}, {"sample_weight": weights}, {"noise_variances": np.where(X[:, 0] > 0, 0.01, 0.03)}):
        kept = model.fit(X, y, **options).predict(NEW, return_std=True)
        found = model.fit(X, y, **options, duplicates="average").predict(NEW, return_std=True)
        np.testing.assert_allclose(found, kept, rtol=1e-6)


def test_averages_are_the_dense_process_of_means_with_the_noise_of_means() -> None:
    X, y, _ = repeated()
    places, place = np.unique(X, axis=0, return_inverse=True)
    counts = np.bincount(place.ravel())
    means = np.array([y[place.ravel() == i].mean() for i in range(len(places))])
    kernel, noise = GIVEN["kernel"], GIVEN["noise_variance"]
    covariance = kernel(places)
    solve = np.linalg.solve(
        covariance + np.diag(noise / counts), np.column_stack((means - y.mean(), kernel(places, NEW)))
    )
    mean = y.mean() + kernel(NEW, places) @ solve[:, 0]
    variance = 1.5 - np.einsum("ij,ij->j", kernel(places, NEW), solve[:, 1:])
    found = ExactGPRegressor(**GIVEN).fit(X, y, duplicates="average").predict(NEW, return_std=True)
    np.testing.assert_allclose(found, (mean, np.sqrt(variance)), rtol=1e-8)


def test_averages_are_in_the_order_of_the_first_rows_and_keep_the_mean() -> None:
    X = np.array([[1.0], [-0.0], [1.0], [0.0], [7.0]])
    found = averaged(Rows(X, np.arange(5.0), np.array([1.0, 2.0, 3.0, 0.5, 1.0])))
    np.testing.assert_array_equal(found.X[:, 0], [1.0, 0.0, 7.0])
    np.testing.assert_allclose(found.Y[:, 0], [1.5, (2.0 + 1.5) / 2.5, 4.0])
    np.testing.assert_allclose(found.weights, [4.0, 2.5, 1.0])


def test_rows_of_one_place_alone() -> None:
    X, y = np.ones((4, 2)), np.arange(4.0)
    for model in (ExactGPRegressor(**GIVEN), GPRegressor(**GIVEN)):
        kept = model.fit(X, y).predict(NEW, return_std=True)
        np.testing.assert_allclose(model.fit(X, y, duplicates="average").predict(NEW, return_std=True), kept)


def test_hyper_parameters_of_averages_are_those_of_all_rows() -> None:
    X, y, _ = repeated()
    kept = ExactGPRegressor(random_state=0).fit(X, y)
    found = ExactGPRegressor(random_state=0).fit(X, y, duplicates="average")
    assert found.noise_variance_ == kept.noise_variance_
    assert repr(found.kernel_) == repr(kept.kernel_)
    np.testing.assert_allclose(found.predict(NEW), kept.predict(NEW), rtol=1e-6)


def test_dropped_copies_are_as_if_they_had_not_been_there() -> None:
    X, y = rows(60)
    once = ExactGPRegressor(random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ExactGPRegressor(random_state=0).fit(np.tile(X, (3, 1)), np.tile(y, 3), duplicates="drop")
    assert found.noise_variance_ == once.noise_variance_
    np.testing.assert_array_equal(found.predict(NEW), once.predict(NEW))
    X, y, _ = repeated()  # with other y at one place: nothing is dropped
    assert len(dropped(Rows(X, y)).Y) == len(y)
    assert dropped(Rows(X[:3], y[:3], np.array([2.0, 3.0, 1.0]))).weights is None
    assert dropped(Rows(X[:3], y[:3], np.array([0.5, 3.0, 1.0]))).weights.tolist() == [0.5, 3.0, 1.0]


def test_ways_to_treat_duplicates_that_are_refused() -> None:
    X, y = rows(10)
    with pytest.raises(InputError, match=r"duplicates must be 'keep', 'average', 'drop'; got 'mean'"):
        ExactGPRegressor(**GIVEN).fit(X, y, duplicates="mean")
    with pytest.raises(InputError, match=r"All 4 rows have the same X and y"):
        ExactGPRegressor(**GIVEN).fit(X[[0] * 4], y[[0] * 4], duplicates="drop")
