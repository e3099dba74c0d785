"""Taylor features of sparse rows: the same columns as of dense rows, and only those that are not zero."""

import pickle
from itertools import combinations_with_replacement
from math import comb, factorial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVC, LinearSVC

from lmgp import (
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TaylorFeatures,
)
from lmgp.errors import InputError, MemoryLimitError
from lmgp.features.sparse import _column_terms, _columns, non_zeros
from lmgp.sgd import KernelSGDClassifier
from tests.features.conftest import sparse_rows

Floats = NDArray[np.float64]
SHAPES = [(5, 4, 0.5), (3, 10, 0.6), (1, 3, 0.7), (30, 3, 0.1), (8, 1, 0.4), (7, 0, 0.4), (4, 2, 0.0)]


# ---------------------------------------------------------------------------------------------------------- the columns


@pytest.mark.parametrize(("d", "degree", "density"), SHAPES)
@pytest.mark.parametrize("weights", ["gaussian", "polynomial"])
def test_sparse_and_dense_rows_have_the_same_features(d: int, degree: int, density: float, weights: Any) -> None:
    X = sparse_rows(40, d, density)
    kernel = GaussianKernel(np.random.default_rng(1).uniform(0.5, 2.0, size=d), 2.5)
    features = TaylorFeatures(degree=degree, weights=weights, coef0=0.7, kernel=kernel)
    dense = clone(features).fit(X.toarray())
    sparse = clone(features).fit(X)
    expected = dense.transform(X.toarray())
    tolerance = 1e-14 * np.abs(expected).max()
    for fitted in (dense, sparse):
        found = fitted.transform(X)
        assert fitted.n_features_out_ == found.shape[1] == comb(d + degree, degree)
        np.testing.assert_allclose(found.toarray(), expected, rtol=1e-13, atol=tolerance)
        np.testing.assert_allclose(fitted.transform(X.toarray()), expected, rtol=1e-13, atol=tolerance)
    assert not hasattr(sparse, "exponents_")
    assert sparse.degree_ == dense.degree_ == degree


@pytest.mark.parametrize("degree", [2, 3])
def test_the_pattern_is_that_of_all_monomials(degree: int) -> None:
    X = sparse_rows(60, 20, 0.2)
    ours = TaylorFeatures(degree=degree).fit_transform(X)
    theirs = PolynomialFeatures(degree).fit_transform(X)
    assert ((ours != 0) != (theirs != 0)).nnz == 0
    # The same monomials: each column of theirs times e^{−‖x‖²/2} and a constant for the column.
    damped = theirs.toarray() * np.exp(-X.multiply(X).sum(axis=1) / 2)[:, None]
    constants = [
        1 / np.sqrt(np.prod([factorial(chosen.count(j)) for j in set(chosen)]))
        for k in range(degree + 1)
        for chosen in combinations_with_replacement(range(20), k)
    ]
    np.testing.assert_allclose(ours.toarray(), damped * constants, rtol=1e-12, atol=1e-300)


def test_columns_are_numbered_exactly_where_there_are_many() -> None:
    d, degree = 2_000_000, 3
    found = _columns(np.array([[0, 1, 2]]), *_column_terms(d, degree, np.array([0, 5, 1_999_999])))[0]

    def place(chosen: tuple[int, ...]) -> int:
        """Count what comes before, in whole numbers: lower degrees, then smaller first inputs, and so on."""
        k = len(chosen)
        before, start = comb(d + k - 1, k - 1) if k else 0, 0
        for i, j in enumerate(chosen):
            left = k - i - 1
            before += comb(d - start + left, left + 1) - comb(d - j + left, left + 1)
            start = j
        return before

    inputs = (0, 5, 1_999_999)
    assert found.tolist() == [place(c) for k in range(4) for c in combinations_with_replacement(inputs, k)]
    assert found[-1] == comb(d + 3, 3) - 1


def test_rows_are_sorted_without_stored_zeros() -> None:
    X = sparse_rows(50, 12, 0.3)
    features = TaylorFeatures(degree=3).fit_transform(X)
    fresh = sp.csr_array((features.data, features.indices, features.indptr), shape=features.shape)
    assert fresh.has_canonical_format  # computed from the indices
    assert np.all(features.data != 0)
    assert features.indices.dtype == np.int32


def test_stored_zeros_and_repeated_entries_change_nothing() -> None:
    clean = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 0.5, 0.0]]))
    untidy = sp.csr_array(
        (np.array([1.5, 0.0, 0.5, 0.5, 0.5]), np.array([2, 1, 2, 0, 0]), np.array([0, 5, 5])), shape=(2, 3)
    )
    untidy = sp.vstack([untidy[:1], clean[1:]], format="csr")
    before = untidy.data.copy(), untidy.indices.copy(), untidy.indptr.copy()
    fitted = TaylorFeatures(degree=3).fit(clean)
    np.testing.assert_array_equal(fitted.transform(untidy).toarray(), fitted.transform(clean).toarray())
    assert fitted.transform(untidy).nnz == fitted.transform(clean).nnz
    for after, earlier in zip((untidy.data, untidy.indices, untidy.indptr), before, strict=True):
        np.testing.assert_array_equal(after, earlier)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_matrix, sp.coo_array])
def test_the_kind_of_sparse_rows_is_kept(kind: Any) -> None:
    X = sparse_rows(10, 6, 0.5)
    features = TaylorFeatures(degree=2).fit_transform(kind(X))
    assert isinstance(features, sp.csr_matrix if issubclass(kind, sp.spmatrix) else sp.csr_array)
    np.testing.assert_allclose(features.toarray(), TaylorFeatures(degree=2).fit_transform(X.toarray()), rtol=1e-13)


def test_nothing_is_made_dense() -> None:
    X = sparse_rows(300, 50_000, 2e-4)
    features = TaylorFeatures(degree=3).fit_transform(X)
    assert features.shape == (300, comb(50_003, 3))  # 2e13 columns
    assert features.indices.dtype == np.int64
    assert features.nnz == sum(comb(int(s) + 3, 3) for s in non_zeros(X))
    # The columns that occur, renumbered: a product would need a pointer for each of all.
    used, place = np.unique(features.indices, return_inverse=True)
    compact = sp.csr_array((features.data, place, features.indptr), shape=(300, len(used)))
    np.testing.assert_allclose(
        (compact @ compact.T).toarray(),
        np.exp(-0.5 * (X.multiply(X).sum(axis=1)[:, None] + X.multiply(X).sum(axis=1)))
        * sum((X @ X.T).toarray() ** k / factorial(k) for k in range(4)),
        rtol=1e-11,
        atol=1e-300,
    )


def test_rows_far_out_have_no_features() -> None:
    X = sp.csr_array(np.array([[0.5, 0.0], [60.0, 0.0], [0.0, 0.0]]))
    features = TaylorFeatures(degree=3).fit_transform(X)
    assert np.diff(features.indptr).tolist() == [4, 0, 1]
    np.testing.assert_allclose(features.toarray(), TaylorFeatures(degree=3).fit_transform(X.toarray()), rtol=1e-14)


def test_high_powers_do_not_underflow() -> None:
    X = sp.csr_array(np.array([[0.0, 39.0]]))
    fitted = TaylorFeatures(degree=1800).fit(sp.csr_array(np.array([[39.0]])))
    found = fitted.transform(sp.csr_array(np.array([[39.0]])))
    assert found.multiply(found).sum() == pytest.approx(1.0, rel=1e-11)
    assert TaylorFeatures(degree=2).fit(X).transform(X).nnz == 0


# -------------------------------------------------------------------------------------------------------------- kernels


def test_the_polynomial_kernel_is_met_exactly() -> None:
    X = sparse_rows(30, 8, 0.5)
    for coef0 in (0.0, 0.3, 1.0):
        features = TaylorFeatures(degree=3, weights="polynomial", coef0=coef0).fit_transform(X)
        expected = polynomial_kernel(X, degree=3, gamma=1.0, coef0=coef0)
        np.testing.assert_allclose((features @ features.T).toarray(), expected, rtol=1e-12, atol=1e-10)


def test_the_polynomial_kernel_of_high_degree_does_not_overflow() -> None:
    x = np.array([[0.6], [0.8]])
    features = TaylorFeatures(degree=300, weights="polynomial").fit_transform(x)
    np.testing.assert_allclose(features @ features.T, (x @ x.T + 1) ** 300, rtol=1e-10)


def test_a_linear_svm_on_the_features_is_the_kernel_svm() -> None:
    X = sparse_rows(150, 6, 0.5) / 4
    y = np.where(X.toarray()[:, 0] + np.square(X.toarray()[:, 1]) > 0.2, 1, -1)
    kernels = {"polynomial": lambda A, B: (A @ B.T + 1.0) ** 3, "gaussian": lambda A, B: rbf_kernel(A, B, gamma=0.5)}
    for weights, kernel in kernels.items():
        features = TaylorFeatures(degree=3 if weights == "polynomial" else 10, weights=weights)
        ours = make_pipeline(features, SVC(kernel="linear", C=0.5)).fit(X, y)
        exact = SVC(kernel=kernel, C=0.5).fit(X.toarray(), y)
        found, expected = ours.decision_function(X), exact.decision_function(X.toarray())
        np.testing.assert_allclose(found, expected, atol=0.01)
        assert np.std(expected) > 0.1


def test_sparse_features_go_into_linear_models() -> None:
    X = sparse_rows(100, 15, 0.2)
    y = np.where(X.toarray()[:, 0] > 0, 1, -1)
    model = make_pipeline(TaylorFeatures(degree=3, kernel=GaussianKernel(3.0)), LinearSVC()).fit(X, y)
    assert model.score(X, y) > 0.9
    Ridge().fit(TaylorFeatures(degree=2).fit_transform(X), y)


# ------------------------------------------------------------------------------------------------------------ bad input

BAD_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "negative degree": ({"degree": -1}, "The 'degree' parameter of TaylorFeatures must be an int"),
    "fractional degree": ({"degree": 2.5}, "The 'degree' parameter of TaylorFeatures"),
    "negative coef0": ({"coef0": -0.1}, "The 'coef0' parameter of TaylorFeatures"),
    "unknown weights": ({"weights": "sigmoid"}, "The 'weights' parameter of TaylorFeatures"),
    "degree of an energy set": ({"degree": 2, "index_set": "energy"}, "degree must be None"),
    "weights of an energy set": ({"weights": "polynomial", "index_set": "energy"}, "weights must be 'gaussian'"),
}


@pytest.mark.parametrize("bad", BAD_PARAMETERS)
def test_bad_parameters_are_refused(bad: str) -> None:
    parameters, message = BAD_PARAMETERS[bad]
    with pytest.raises(ValueError, match=message):
        TaylorFeatures(**parameters).fit(np.ones((3, 2)))


def test_energy_sets_need_dense_rows() -> None:
    X = sparse_rows(10, 4, 0.5)
    with pytest.raises(InputError, match="needs dense rows"):
        TaylorFeatures(index_set="energy").fit(X)
    fitted = TaylorFeatures(index_set="energy").fit(X.toarray())
    with pytest.raises(InputError, match="needs dense rows"):
        fitted.transform(X)


@pytest.mark.parametrize(
    "cls", [RandomFourierFeatures, RandomMaclaurinFeatures, OptimizedMaclaurinFeatures, NystroemFeatures]
)
def test_other_maps_ask_for_dense_rows(cls: Any) -> None:
    X = sparse_rows(10, 4, 0.5)
    with pytest.raises(TypeError, match=r"dense data is required.*toarray"):
        cls(random_state=0).fit(X)
    with pytest.raises(TypeError, match=r"dense data is required.*toarray"):
        cls(random_state=0).fit(X.toarray()).transform(X)


def test_values_that_are_not_finite_are_refused() -> None:
    X = sparse_rows(10, 4, 0.5)
    X.data[3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        TaylorFeatures(degree=2).fit(X)
    with pytest.raises(ValueError, match="NaN"):
        TaylorFeatures(degree=2).fit(sparse_rows(10, 4, 0.5)).transform(X)


def test_another_number_of_columns_is_refused() -> None:
    fitted = TaylorFeatures(degree=2).fit(sparse_rows(10, 4, 0.5))
    for method in (fitted.transform, fitted.operation_count, fitted.error_bound):
        with pytest.raises(ValueError, match="X has 5 features, but TaylorFeatures is expecting 4"):
            method(sparse_rows(10, 5, 0.5))


def test_more_than_the_machine_holds_is_refused() -> None:
    X = sp.csr_array(np.ones((1000, 1000)))
    with pytest.raises(
        MemoryLimitError, match=r"non-zero monomials up to degree 4 .* take .* GiB, above .* lower degree"
    ):
        TaylorFeatures(degree=4).fit(X).transform(X)
    with pytest.raises(MemoryLimitError, match="CSR"):
        TaylorFeatures(degree=6).fit(np.ones((2, 1000)))
    with pytest.raises(InputError, match="more columns than 64-bit"):
        TaylorFeatures(degree=8).fit(sparse_rows(5, 10_000, 0.001)).transform(sparse_rows(5, 10_000, 0.001))


@pytest.mark.parametrize("budget", [0.5, 0, -3, np.nan, np.inf])
def test_a_budget_below_one_operation_is_refused(budget: float) -> None:
    with pytest.raises(InputError, match="at least 1"):
        TaylorFeatures.degree_for_budget(sparse_rows(5, 4, 0.5), budget)


def test_a_budget_for_rows_of_zeros_is_refused() -> None:
    with pytest.raises(InputError, match="All rows are zero"):
        TaylorFeatures.degree_for_budget(np.zeros((3, 2)), 10)


def test_the_bound_is_refused_for_other_maps() -> None:
    X = np.ones((3, 2))
    for features in (TaylorFeatures(index_set="energy"), TaylorFeatures(weights="polynomial")):
        with pytest.raises(InputError, match="error_bound is for all monomials"):
            features.fit(X).error_bound(X)


@pytest.mark.parametrize("regressor", [FeaturizedGPRegressor, LocalizedGPRegressor])
def test_gaussian_processes_refuse_the_polynomial_kernel(regressor: Any) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = regressor(TaylorFeatures(weights="polynomial"), kernel=GaussianKernel(1.0), noise_variance=0.1)
    with pytest.raises(InputError, match="polynomial kernel, for linear models"):
        model.fit(X, X[:, 0])


def test_sparse_rows_after_dense_ones_leave_nothing_behind() -> None:
    X = sparse_rows(10, 4, 0.5)
    refitted = TaylorFeatures(degree=2).fit(X.toarray()).fit(X)
    assert not hasattr(refitted, "exponents_")
    copy = pickle.loads(pickle.dumps(refitted))
    np.testing.assert_array_equal(copy.transform(X).toarray(), refitted.transform(X).toarray())


@pytest.mark.parametrize("strategy", ["approximate", "approximate_cached"])
def test_models_fitted_to_sparse_rows_predict_at_dense_ones(strategy: Any) -> None:
    X = sparse_rows(60, 8, 0.4)
    y = np.where(X.toarray()[:, 0] > 0, 1, -1)
    model = KernelSGDClassifier(features=TaylorFeatures(degree=2), strategy=strategy, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X.toarray()), model.decision_function(X), rtol=1e-12)


def test_counts_are_those_of_the_matrix_whatever_is_stored() -> None:
    untidy = sp.csr_array(
        (np.array([1.0, 2.0, 3.0, -3.0, 0.0]), np.array([1, 1, 2, 2, 3]), np.array([0, 2, 5])), shape=(2, 4)
    )
    fitted = TaylorFeatures(degree=2).fit(untidy)
    assert fitted.operation_count(untidy).tolist() == fitted.operation_count(untidy.toarray()).tolist() == [3.0, 1.0]
    assert TaylorFeatures.degree_for_budget(untidy, 5) == TaylorFeatures.degree_for_budget(untidy.toarray(), 5)
    fourier = RandomFourierFeatures(10, random_state=0).fit(untidy.toarray())
    assert fourier.operation_count(untidy).tolist() == [10.0, 0.0]


def test_large_budgets_and_long_rows_are_no_trouble() -> None:
    assert TaylorFeatures.degree_for_budget(np.ones((3, 1)), 1e12) == 10**12 - 1
    X = np.ones((2, 150))
    degree = TaylorFeatures.degree_for_budget(X, 1e200)
    assert comb(150 + degree, 150) <= 1e200 < comb(151 + degree, 150)


@pytest.mark.parametrize("as_rows", [sp.csr_array, np.asarray])
def test_polynomial_features_of_large_rows_are_finite(as_rows: Any) -> None:
    X = np.array([[1e160, 1.0], [0.0, 0.0]])
    features = TaylorFeatures(degree=1, weights="polynomial").fit_transform(as_rows(X))
    dense = features.toarray() if sp.issparse(features) else features
    np.testing.assert_array_equal(dense, [[1.0, 1e160, 1.0], [1.0, 0.0, 0.0]])


def test_without_a_constant_lower_degrees_are_not_stored() -> None:
    X = sparse_rows(20, 6, 0.5)
    features = TaylorFeatures(degree=2, weights="polynomial", coef0=0.0).fit_transform(X)
    assert np.all(features.data != 0)
    assert features.nnz == sum(comb(int(s) + 1, 2) for s in non_zeros(X))


def test_degrees_beyond_all_numbers_are_refused_as_others_are() -> None:
    with pytest.raises(MemoryLimitError, match="exponents of inf monomials up to degree 2000"):
        TaylorFeatures(degree=2000).fit(np.ones((2, 2000)))
    X = sp.csr_array(np.ones((2, 2000)))
    with pytest.raises(InputError, match="inf monomials up to degree 2000, more columns than 64-bit"):
        TaylorFeatures(degree=2000).fit(X).transform(X)
