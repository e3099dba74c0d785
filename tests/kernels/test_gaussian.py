"""The Gaussian kernel: values, scales, and what it refuses."""

import math
import pickle
import re
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

from lmgp import GaussianKernel
from lmgp.errors import InputError, LmgpError

X = np.array([[0.0, 1.0, 2.0], [0.5, 1.0, -1.0], [3.0, 0.0, 0.0], [0.0, 1.0, 2.0]])
Z = np.array([[0.0, 1.0, 2.0], [-2.0, 0.3, 0.1]])


def direct(x: Any, z: Any, lengthscale: Any, variance: float) -> float:
    lengths = np.broadcast_to(lengthscale, len(x))
    return variance * math.exp(-0.5 * math.fsum(((a - b) / s) ** 2 for a, b, s in zip(x, z, lengths, strict=True)))


# --------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("lengthscale", [1.0, 0.4, 3, [0.5, 2.0, 8.0], (1, 2, 3), np.array([0.5, 2.0, 8.0])], ids=str)
@pytest.mark.parametrize("variance", [1.0, 2.5, 3])
def test_values_are_those_of_the_formula(lengthscale: Any, variance: float) -> None:
    kernel = GaussianKernel(lengthscale, variance)
    expected = [[direct(x, z, lengthscale, variance) for z in Z] for x in X]
    np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-14)
    np.testing.assert_allclose(kernel(X), [[direct(x, z, lengthscale, variance) for z in X] for x in X], rtol=1e-14)
    assert kernel(X, Z).dtype == np.float64
    np.testing.assert_array_equal(kernel.diagonal(X), np.full(4, float(variance)))
    np.testing.assert_allclose(np.diag(kernel(X)), kernel.diagonal(X), rtol=0, atol=0)


def test_values_agree_with_scikit_learn() -> None:
    lengthscale = [0.5, 2.0, 8.0]
    np.testing.assert_allclose(GaussianKernel(lengthscale, 2.5)(X, Z), 2.5 * RBF(lengthscale)(X, Z), rtol=1e-13)


def test_a_long_lengthscale_switches_a_column_off() -> None:
    np.testing.assert_allclose(GaussianKernel([1.0, 1.0, 1e12])(X, Z), GaussianKernel()(X[:, :2], Z[:, :2]), rtol=1e-12)


def test_the_matrix_is_symmetric_and_positive() -> None:
    rows = np.random.default_rng(0).standard_normal((30, 2))
    K = GaussianKernel(0.3, 2.0)(rows)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_scaling_divides_each_column() -> None:
    kernel = GaussianKernel([0.5, 2.0, 8.0], 3.0)
    scaled = kernel.scale(X)
    np.testing.assert_array_equal(scaled, X / [0.5, 2.0, 8.0])
    np.testing.assert_allclose(3.0 * GaussianKernel()(scaled), kernel(X), rtol=1e-14)
    # A new array, also where there is nothing to do.
    unit = GaussianKernel().scale(X)
    unit[:] = 0.0
    assert X[0, 2] == 2.0


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e8])
def test_close_rows_far_from_the_origin_keep_their_distances(offset: float) -> None:
    # As coordinates in metres have it. Through inner products the squared distances would be lost to rounding.
    rng = np.random.default_rng(0)
    rows = offset + rng.uniform(-1.0, 1.0, (20, 2))
    lengthscale = 0.7
    with localcontext() as context:
        context.prec = 50
        exact = [[Decimal(float(value)) for value in row] for row in rows]
        expected = [
            [
                float((-sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) / (2 * Decimal(lengthscale) ** 2)).exp())
                for z in exact
            ]
            for x in exact
        ]
    # What division by the lengthscale rounds away: half a unit in the last place of each coordinate.
    lost = 8 * np.spacing(offset / lengthscale)
    np.testing.assert_allclose(GaussianKernel(lengthscale)(rows), expected, rtol=lost + 1e-14)


@pytest.mark.parametrize("distance", [40.0, 1e3, 1e100])
def test_far_rows_have_no_covariance(distance: float) -> None:
    np.testing.assert_array_equal(GaussianKernel(1.0, 5.0)([[0.0]], [[distance]]), [[0.0]])


@pytest.mark.parametrize("make", [np.asfortranarray, np.ndarray.tolist, lambda a: a.astype(">f8")])
def test_the_layout_of_the_rows_does_not_matter(make: Any) -> None:
    np.testing.assert_array_equal(GaussianKernel(0.7)(make(X), make(Z)), GaussianKernel(0.7)(X, Z))


def test_rows_and_parameters_are_not_written_to() -> None:
    rows, lengthscale = X.copy(), np.array([0.5, 2.0, 8.0])
    for array in (rows, lengthscale):
        array.flags.writeable = False
    kernel = GaussianKernel(lengthscale)
    for result in (kernel(rows), kernel(rows, rows), kernel.scale(rows), kernel.diagonal(rows)):
        result[:] = 1.0
    np.testing.assert_array_equal(rows, X)


# ----------------------------------------------------------------------------------------------------------- parameters


def test_the_constructor_only_stores() -> None:
    lengthscale, variance = object(), object()
    kernel = GaussianKernel(lengthscale, variance)
    assert kernel.lengthscale is lengthscale
    assert kernel.variance is variance
    bounds = {"lengthscale_bounds": None, "variance_bounds": None}
    assert vars(GaussianKernel()) == {"lengthscale": 1.0, "variance": 1.0, **bounds}


def test_parameters_are_got_and_set() -> None:
    kernel = GaussianKernel(2.0, 3.0)
    bounds = {"lengthscale_bounds": None, "variance_bounds": None}
    assert kernel.get_params() == {"lengthscale": 2.0, "variance": 3.0, **bounds}
    assert kernel.set_params(lengthscale=[1.0, 2.0]) is kernel
    assert kernel.lengthscale == [1.0, 2.0]
    told = "Invalid parameter 'length' for GaussianKernel(lengthscale=[1.0, 2.0], variance=3.0); did you mean"
    with pytest.raises(ValueError, match=re.escape(told)):
        kernel.set_params(length=1.0)


def test_a_clone_shares_nothing() -> None:
    kernel = GaussianKernel(np.array([1.0, 2.0, 3.0]), 4.0)
    copied = clone(kernel)
    copied.lengthscale[0] = 9.0
    assert kernel.lengthscale[0] == 1.0
    np.testing.assert_array_equal(clone(kernel)(X), kernel(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kernel))(X), kernel(X))


def test_it_prints_what_was_given() -> None:
    assert repr(GaussianKernel(2.0)) == "GaussianKernel(lengthscale=2.0)"
    assert repr(GaussianKernel()) == "GaussianKernel()"


def test_using_a_kernel_changes_nothing() -> None:
    kernel = GaussianKernel([1, 2, 3], 4)
    before = dict(vars(kernel))
    kernel(X, Z)
    kernel.diagonal(X)
    assert kernel.checked(3) is kernel
    assert vars(kernel) == before


# -------------------------------------------------------------------------------------------------------------- refused


BAD = [
    (GaussianKernel(0.0), "lengthscale must be positive and finite; got 0.0"),
    (GaussianKernel(-2.0), "lengthscale must be positive and finite; got -2.0"),
    (GaussianKernel(np.nan), "lengthscale must be positive and finite; got nan"),
    (GaussianKernel(np.inf), "lengthscale must be positive and finite; got inf"),
    (GaussianKernel([1.0, -1.0, 1.0]), r"lengthscale must be positive and finite; got \[1.0, -1.0, 1.0\]"),
    (GaussianKernel([1.0, 2.0]), r"one a column, shape \(3,\) for these rows; got shape \(2,\)"),
    (GaussianKernel([1.0]), r"one a column, shape \(3,\) for these rows; got shape \(1,\)"),
    (GaussianKernel([]), r"one a column, shape \(3,\) for these rows; got shape \(0,\)"),
    (GaussianKernel(np.ones((3, 1))), r"one a column, shape \(3,\) for these rows; got shape \(3, 1\)"),
    (GaussianKernel("long"), "needs numbers for lengthscale and variance"),
    (GaussianKernel(None), "lengthscale"),
    (GaussianKernel([[1.0, 2.0], 3.0]), "needs numbers for lengthscale and variance"),
    (GaussianKernel(1.0, 0.0), "variance must be positive and finite; got 0.0"),
    (GaussianKernel(1.0, -1.0), "variance must be positive and finite; got -1.0"),
    (GaussianKernel(1.0, np.nan), "variance must be positive and finite; got nan"),
    (GaussianKernel(1.0, np.inf), "variance must be positive and finite; got inf"),
    (GaussianKernel(1.0, None), "needs numbers for lengthscale and variance"),
    (GaussianKernel(1.0, "large"), "needs numbers for lengthscale and variance"),
    (GaussianKernel(1.0, [1.0, 2.0]), "needs numbers for lengthscale and variance"),
    # Text is no number, even where float() would take it.
    (GaussianKernel(1.0, "2.0"), "variance"),
]


@pytest.mark.parametrize(("kernel", "message"), BAD, ids=lambda value: str(value)[:40])
def test_values_that_cannot_be_used_are_refused_at_use(kernel: GaussianKernel, message: str) -> None:
    for use in (kernel, kernel.diagonal, kernel.scale, lambda rows: kernel.checked(rows.shape[1])):
        with pytest.raises(InputError, match=message) as caught:
            use(X)
        assert isinstance(caught.value, LmgpError)
        assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([1.0, 2.0], "Expected 2D array"),
        ([[np.nan]], "NaN"),
        ([[np.inf]], "infinity"),
        ([["a"]], "could not convert string to float"),
        (np.ones((0, 2)), "0 sample"),
    ],
    ids=["1-D", "nan", "infinity", "text", "empty"],
)
def test_rows_that_cannot_be_used_are_refused(rows: Any, message: str) -> None:
    for use in (GaussianKernel(), GaussianKernel().diagonal, GaussianKernel().scale):
        with pytest.raises(ValueError, match=message):
            use(rows)


def test_rows_of_different_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="same number of columns"):
        GaussianKernel()(X, Z[:, :2])
    with pytest.raises(InputError, match=r"shape \(2,\) for these rows; got shape \(3,\)"):
        GaussianKernel([1.0, 2.0, 3.0])(X, Z[:, :2])
