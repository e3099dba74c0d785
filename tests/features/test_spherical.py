"""Spherical random Fourier features."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from lmgp.errors import InputError
from lmgp.features.spherical import SphericalFourierFeatures, fit_radial

Floats = NDArray[np.float64]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LMGP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def rows(n: int = 12, d: int = 3, seed: int = 0) -> Floats:
    return normalize(np.random.default_rng(seed).standard_normal((n, d)))


def make(n_features: Any = 40, **parameters: Any) -> SphericalFourierFeatures:
    return SphericalFourierFeatures(n_features, **{"n_gaussians": 4, "random_state": 0, **parameters})


# -------------------------------------------------------------------------------------------------------------- kernels


@pytest.mark.parametrize("a", [2.0, 4.0])
def test_the_exact_kernel_is_that_of_the_distance(a: float) -> None:
    X, Z = rows(), rows(5, seed=1)
    fitted = make(degree=7, a=a).fit(X)
    distances = np.linalg.norm(X[:, None] - Z[None], axis=2)
    np.testing.assert_allclose(fitted.exact_kernel(X, Z), (1 - distances**2 / a**2) ** 7, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(fitted.exact_kernel(X), fitted.exact_kernel(X, X), rtol=1e-12)
    scaled = make(degree=7, a=a, normalize=True).fit(X)
    np.testing.assert_allclose(scaled.exact_kernel(3 * X, 0.2 * Z), fitted.exact_kernel(X, Z), rtol=1e-10, atol=1e-15)


@pytest.mark.slow
@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_expected_product_is_the_radial_kernel(d: int, orthogonal: bool) -> None:
    X = rows(6, d=d, seed=2)
    draws = []
    for seed in range(250):
        fitted = make(2 * d + 6, degree=5, a=2.0, orthogonal=orthogonal, random_state=seed).fit(X)
        features = fitted.transform(X)
        draws.append(features @ features.T)
    target = fitted.radial_.kernel(np.linalg.norm(X[:, None] - X[None], axis=2))
    standard_error = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    assert standard_error.max() < 0.05, "too few draws to see anything"
    # 1e-4: the grid of the radii.
    np.testing.assert_array_less(np.abs(np.mean(draws, axis=0) - target), 5 * standard_error + 1e-4)


def test_orthogonal_directions_lower_the_variance() -> None:
    X = rows(20, d=16, seed=100)
    errors = {}
    for orthogonal in (False, True):
        squared = []
        for seed in range(60):
            fitted = make(32, degree=10, orthogonal=orthogonal, random_state=seed).fit(X)
            features = fitted.transform(X)
            squared.append(np.mean((features @ features.T - fitted.exact_kernel(X)) ** 2))
        errors[orthogonal] = np.mean(squared)
    assert errors[True] < 0.8 * errors[False]


def test_orthogonal_directions_are_orthogonal_in_blocks() -> None:
    frequencies = make(26, orthogonal=True).fit(rows(d=5)).frequencies_
    assert frequencies.shape == (13, 5)
    directions = normalize(frequencies)
    for block in (directions[:5], directions[5:10], directions[10:]):
        np.testing.assert_allclose(block @ block.T, np.eye(len(block)), atol=1e-12)


def test_every_row_has_the_value_of_the_kernel_at_zero() -> None:
    X = rows(50, d=8)
    fitted = make(64, a=2.0).fit(X)
    np.testing.assert_allclose(np.sum(fitted.transform(X) ** 2, axis=1), fitted.radial_.value, rtol=1e-12)
    assert abs(fitted.radial_.value - 1.0) > 1e-3


def test_the_error_falls_with_the_number_of_columns_to_that_of_the_fit() -> None:
    X = rows(60, d=8)
    errors = []
    for n_features in (64, 1024, 2**15):
        fitted = make(n_features, degree=3, a=2.0).fit(X)
        features = fitted.transform(X)
        errors.append(np.mean((features @ features.T - fitted.exact_kernel(X)) ** 2))
    z = np.linspace(0.0, 2.0, 201)
    errors_of_fit = (fitted.radial_.kernel(z) - fitted.radial_.target(z)) ** 2
    bias = np.interp(np.linalg.norm(X[:, None] - X[None], axis=2), z, errors_of_fit).mean()
    assert errors[0] > 5 * errors[1] > 10 * errors[2]
    np.testing.assert_allclose(errors[2], bias, rtol=0.5)


def test_the_digits_kernel_is_met_closely() -> None:
    X = normalize(load_digits().data[:400])
    fitted = make(4096, degree=10, n_gaussians=10).fit(X)
    features = fitted.transform(X)
    assert np.abs(features @ features.T - fitted.exact_kernel(X)).mean() < 0.01
    distances = np.linalg.norm(X[1:] - X[:1], axis=1)
    assert np.abs(fitted.radial_.kernel(distances) - fitted.exact_kernel(X[:1], X[1:])).max() < 0.008


# ------------------------------------------------------------------------------------------------------ the transformer


def test_normalised_rows_give_the_same_columns_at_any_length() -> None:
    X = rows()
    expected = make().fit_transform(X)
    for length in (1e-300, 0.3, 1e300):
        np.testing.assert_allclose(make(normalize=True).fit_transform(length * X), expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------------------------------ bad input


def test_rows_of_another_norm_are_refused() -> None:
    X = rows()
    fitted = make().fit(X)
    bad = X.copy()
    bad[4] *= 1.00001
    bad[7] *= 2
    message = r"unit norm; row 4 of [XZ] has norm 1.00001. Use sklearn.preprocessing.normalize, or normalize=True"
    for call in (make().fit, fitted.transform, fitted.exact_kernel, lambda Z: fitted.exact_kernel(X, Z)):
        with pytest.raises(InputError, match=message):
            call(bad)
    bad = X * (1 + 1e-7)
    np.testing.assert_allclose(fitted.transform(bad), fitted.transform(X), atol=1e-5)


def test_a_zero_row_cannot_be_normalised() -> None:
    X = rows()
    X[5] = 0.0
    with pytest.raises(InputError, match="Row 5 of X is zero"):
        make(normalize=True).fit(X)
    with pytest.raises(InputError, match="row 5 of X has norm 0"):
        make().fit(X)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("n_features", 1),
        ("degree", 0),
        ("degree", -2),
        ("degree", 2.5),
        ("a", 1.99),
        ("a", np.nan),
        ("a", np.inf),
        ("n_gaussians", 0),
        ("orthogonal", "yes"),
        ("normalize", None),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=parameter):
        make(**{parameter: value}).fit(rows())


def test_the_fit_is_the_one_of_the_columns_and_parameters() -> None:
    fitted = make(degree=5, a=3.0, n_gaussians=3).fit(rows(d=4))
    np.testing.assert_array_equal(fitted.radial_.c, fit_radial(5, 3.0, 4, 3).c)


def test_operations_are_s_for_each_column() -> None:
    X = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0]])
    assert make(n_features=41).fit(X).operation_count(X).tolist() == [40.0, 80.0]


@pytest.mark.parametrize("normalize_rows", [False, True])
def test_a_row_of_the_second_argument_is_named_as_such(normalize_rows: bool) -> None:
    X = rows()
    Z = X.copy()
    Z[3] = 0.0
    fitted = make(normalize=normalize_rows).fit(X)
    with pytest.raises(InputError, match=r"(?i)row 3 of Z"):
        fitted.exact_kernel(X, Z)
    with pytest.raises(InputError, match=r"(?i)row 3 of X"):
        fitted.exact_kernel(Z, X)
