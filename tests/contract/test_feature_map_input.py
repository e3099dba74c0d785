"""What every public feature map takes for rows, kernels and parameters, and what it refuses."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError

from lmgp import (
    GaussianKernel,
    OptimizedMaclaurinFeatures,
)
from lmgp.errors import InputError
from tests.contract.conftest import ALL, Case, rows

Floats = NDArray[np.float64]


def layouts(X: Floats) -> Iterator[tuple[str, Any]]:
    read_only = X.copy()
    read_only.flags.writeable = False
    spread = np.zeros((2 * len(X), X.shape[1] + 1))
    spread[::2, 1:] = X
    yield "read-only", read_only
    yield "read-only Fortran", np.asfortranarray(read_only)
    yield "Fortran", np.asfortranarray(X)
    yield "strided", spread[::2, 1:]
    yield "backwards", X[::-1].copy()[::-1]
    yield "other byte order", X.astype(">f8")
    yield "list", X.tolist()
    yield "objects", X.astype(object)


@ALL
def test_the_layout_of_the_input_does_not_matter(case: Case) -> None:
    X = rows()
    expected = case.make(random_state=0, kernel=GaussianKernel([1.0, 0.5, 2.0])).fit_transform(X)
    for name, given in layouts(X):
        found = case.make(random_state=0, kernel=GaussianKernel([1.0, 0.5, 2.0])).fit(given).transform(given)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15, err_msg=name)


@ALL
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_other_numbers_are_taken_as_float64(case: Case, dtype: type) -> None:
    X = (np.abs(rows(scale=2.0))).astype(dtype)
    found = case.make(random_state=0, kernel=GaussianKernel(2.0)).fit(X).transform(X)
    assert found.dtype == np.float64
    exact = X.astype(np.float64)
    expected = case.make(random_state=0, kernel=GaussianKernel(2.0)).fit(exact).transform(exact)
    np.testing.assert_array_equal(found, expected)


@ALL
def test_pandas_is_not_needed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # an import of it now fails
    fitted = case.make(random_state=0).fit(rows())
    assert np.isfinite(fitted.transform(rows())).all()


@ALL
@pytest.mark.parametrize("n_rows", [1, 2])
def test_few_rows_and_rows_alike_are_enough(case: Case, n_rows: int) -> None:
    for X in (rows(n_rows), np.zeros((n_rows, 3)), np.ones((n_rows, 3))):
        fitted = case.make(21, random_state=0).fit(X)
        assert np.isfinite(fitted.transform(rows())).all()


BAD_ROWS: dict[str, tuple[Any, str]] = {
    "nan": (np.array([[0.0, np.nan, 1.0], [1.0, 2.0, 3.0]]), "NaN"),
    "infinity": (np.array([[0.0, np.inf, 1.0], [1.0, 2.0, 3.0]]), "infinity"),
    "one dimension": (np.array([1.0, 2.0, 3.0]), "Expected 2D array"),
    "three dimensions": (np.ones((2, 3, 1)), "dim 3"),
    "no rows": (np.ones((0, 3)), "0 sample"),
    "no columns": (np.ones((3, 0)), "0 feature"),
    "text": ([["a", "b", "c"]], "could not convert string to float"),
    "complex": (np.full((2, 3), 1j), "Complex data"),
}


@ALL
@pytest.mark.parametrize("bad", BAD_ROWS)
def test_rows_that_cannot_be_used_are_refused(case: Case, bad: str) -> None:
    given, message = BAD_ROWS[bad]
    with pytest.raises(ValueError, match=message):
        case.make(random_state=0).fit(given)
    fitted = case.make(random_state=0).fit(rows())
    with pytest.raises(ValueError, match=message):
        fitted.transform(given)


@ALL
@pytest.mark.parametrize("d", [2, 4])
def test_rows_with_another_number_of_columns_are_refused(case: Case, d: int) -> None:
    fitted = case.make(random_state=0).fit(rows())
    with pytest.raises(ValueError, match=f"X has {d} features, but {case.cls.__name__} is expecting 3 features"):
        fitted.transform(rows(d=d))


@ALL
def test_an_unfitted_map_says_so(case: Case) -> None:
    feature_map = case.make()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        feature_map.transform(rows())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        feature_map.get_feature_names_out()


@ALL
@pytest.mark.parametrize("n_features", [0, -3, 2.5, "many", None, [8]])
def test_an_impossible_number_of_columns_is_refused(case: Case, n_features: Any) -> None:
    with pytest.raises(ValueError, match="n_features"):
        case.make(n_features).fit(rows())


@ALL
def test_too_few_columns_for_the_map_are_refused(case: Case) -> None:
    if case.smallest == 1:
        assert case.make(1, random_state=0).fit(rows()).n_features_out_ == 1
        return
    with pytest.raises(InputError, match=rf"{case.cls.__name__}.* n_features must be at least 2; got 1"):
        case.make(1).fit(rows())
    assert case.make(2, random_state=0).fit(rows()).n_features_out_ == 2


@ALL
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (GaussianKernel(0.0), "lengthscale must be positive and finite; got 0.0"),
        (GaussianKernel(-1.0), "lengthscale must be positive and finite; got -1.0"),
        (GaussianKernel(np.nan), "lengthscale must be positive and finite; got nan"),
        (GaussianKernel(np.inf), "lengthscale must be positive and finite; got inf"),
        (GaussianKernel([1.0, 0.0, 1.0]), "lengthscale must be positive and finite"),
        (GaussianKernel([1.0, 2.0]), r"shape \(3,\) for these rows; got shape \(2,\)"),
        (GaussianKernel([[1.0, 2.0, 3.0]]), r"shape \(3,\) for these rows; got shape \(1, 3\)"),
        (GaussianKernel("long"), "numbers for lengthscale"),
        (GaussianKernel(1.0, 0.0), "variance must be positive and finite; got 0.0"),
        (GaussianKernel(1.0, -2.0), "variance must be positive and finite; got -2.0"),
        (GaussianKernel(1.0, np.nan), "variance must be positive and finite; got nan"),
    ],
    ids=str,
)
def test_a_kernel_that_cannot_be_used_is_refused(case: Case, kernel: GaussianKernel, message: str) -> None:
    with pytest.raises(InputError, match=message):
        case.make(kernel=kernel).fit(rows())


@ALL
@pytest.mark.parametrize(
    ("parameter", "value"), [("kernel", "rbf"), ("kernel", GaussianKernel), ("random_state", "zero")], ids=str
)
def test_parameters_of_the_wrong_kind_are_refused(case: Case, parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"The '{parameter}' parameter of {case.cls.__name__}"):
        case.make(**{parameter: value}).fit(rows())


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("sketch", "srht"),
        ("sketch", None),
        ("max_degree", 0),
        ("max_degree", 2.5),
        ("n_allocation_rows", 1),
        ("allocation", "global"),
    ],
)
def test_parameters_of_the_optimised_map_are_checked(parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"The '{parameter}' parameter of OptimizedMaclaurinFeatures"):
        OptimizedMaclaurinFeatures(**{parameter: value}).fit(rows())
