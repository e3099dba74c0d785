"""The bounds, against the kernel itself."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR

from lmgp.errors import InputError, MemoryLimitError, ValidityWarning
from lmgp.rbf import TaylorRBF
from lmgp.rbf.validity import PAPER_TOLERANCE, gamma_max, largest_distance, largest_exponent

Floats = NDArray[np.float64]
DEGREES = range(11)


def series(x: Floats, degree: int) -> Floats:
    return sum(x**k / math.factorial(k) for k in range(degree + 1)) + np.zeros_like(x)


def test_the_tolerance_of_the_paper_is_what_it_says() -> None:
    assert round(PAPER_TOLERANCE, 4) == 0.0305
    assert largest_exponent(2) == pytest.approx(0.5, abs=1e-13)


@pytest.mark.parametrize("degree", DEGREES)
def test_no_exponent_within_the_bound_errs_more_than_the_tolerance(degree: int) -> None:
    largest = largest_exponent(degree)
    x = np.linspace(-largest, largest, 20_001)
    errors = np.abs(series(x, degree) / np.exp(x) - 1.0)
    assert errors.max() <= PAPER_TOLERANCE * (1 + 1e-9)
    assert errors.argmax() == 0  # at −t, and there it is reached
    assert errors[0] == pytest.approx(PAPER_TOLERANCE, rel=1e-9)


@pytest.mark.parametrize(("degree", "tolerance"), [(3, 1e-6), (30, 0.0305), (150, 1e-3), (400, 0.9)])
def test_the_bound_of_any_degree_is_where_the_remainder_is_the_tolerance(degree: int, tolerance: float) -> None:
    largest = largest_exponent(degree, tolerance)
    log_scale = math.lgamma(degree + 1) + math.log(tolerance)
    remainder, _ = quad(lambda w: math.exp(degree * math.log(w) + w - log_scale), 1e-300, largest, epsabs=0, limit=200)
    assert remainder == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("degree", DEGREES)
def test_within_the_distance_no_kernel_value_errs_more_wherever_the_other_row_is(degree: int) -> None:
    s = largest_distance(degree) * np.linspace(0, 1, 41)[:, None, None]
    r = np.linspace(0, 15, 1501)[:, None]
    cosine = np.array([-1.0, -0.7, 0.0, 0.4, 1.0])
    inner = r * s * cosine
    error = np.abs(np.exp(-(r**2 + s**2) / 2) * (np.exp(inner) - series(inner, degree)))
    assert error.max() <= PAPER_TOLERANCE * (1 + 1e-9)
    worst = np.unravel_index(error.argmax(), error.shape)
    assert worst[0] == 40  # at the distance itself
    assert cosine[worst[2]] == 1.0
    assert error.max() == pytest.approx(PAPER_TOLERANCE, rel=1e-3)  # r is on a grid


def test_a_higher_degree_or_tolerance_reaches_farther() -> None:
    for bound in (largest_exponent, largest_distance):
        assert np.all(np.diff([bound(degree) for degree in (*DEGREES, 40, 200)]) > 0)
        assert np.all(np.diff([bound(5, tolerance) for tolerance in (1e-9, 1e-3, 0.03, 0.9)]) > 0)


@pytest.mark.parametrize("degree", [-1, 2.0, "2", None, True, 401])
def test_a_degree_that_cannot_be_is_refused(degree: Any) -> None:
    for bound in (largest_exponent, largest_distance):
        assert bound(2, PAPER_TOLERANCE) > bound(1, PAPER_TOLERANCE)  # both are cached now, and equal 2.0 and True
        with pytest.raises(InputError, match="degree must be a whole number from 0 to 400"):
            bound(degree, PAPER_TOLERANCE)


def test_gamma_max_makes_the_worst_pair_of_rows_just_valid() -> None:
    X = 3.0 + np.random.default_rng(0).standard_normal((50, 4))
    for center in ("origin", "mean", [3.0, 2.0, 3.0, 1.0]):
        point = {"origin": np.zeros(4), "mean": X.mean(axis=0)}.get(str(center), center)
        shifted = X - np.asarray(point)
        worst = np.max([np.linalg.norm(x) * np.linalg.norm(z) for x in shifted for z in shifted])
        assert 2 * gamma_max(X, center=center) * worst == pytest.approx(0.5, rel=1e-12)
    assert gamma_max(X, center="mean") > gamma_max(X)


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e120])
def test_gamma_max_is_right_in_any_unit(unit: float) -> None:
    if unit > 1.0:
        assert gamma_max([[3.0 * unit, 4.0 * unit]]) == pytest.approx(0.25 / 25.0 / unit**2, rel=1e-12)
    else:
        assert gamma_max([[1.5e-154, 2e-154]]) == pytest.approx(0.25 / 2.5**2 * 1e308, rel=1e-12)


@pytest.mark.parametrize(
    ("X", "message"),
    [([[2.0, 1.0]] * 3, "any gamma is valid"), ([[2.0 + 1e200, 1.0]], "distance of 1e\\+200"), ([[1e-320]], "e-321")],
)
def test_gamma_max_is_refused_where_there_is_none(X: Any, message: str) -> None:
    with pytest.raises(InputError, match=f"No largest gamma.*{message}"):
        gamma_max(X, center=[2.0, 1.0] if len(X[0]) == 2 else "origin")


@pytest.mark.parametrize(
    ("X", "center", "message"),
    [
        ([[1.0, 2.0]], "middle", "center must be 'origin', 'mean' or a point; got 'middle'"),
        ([[1.0, 2.0]], [1.0], r"shape \(2,\); got shape \(1,\)"),
        ([[1.0, 2.0]], [1.0, np.nan], "NaN"),
        ([[1.0, 2.0]], None, "center must be"),
        ([[1.0, np.inf]], "origin", "infinity"),
        ([1.0, 2.0], "origin", "Expected 2D array"),
    ],
)
def test_rows_and_centres_that_cannot_be_used_are_refused(X: Any, center: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gamma_max(X, center=center)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("around", ["origin", "a point"])
def test_all_rows_are_valid_at_the_largest_gamma(degree: int, around: str) -> None:
    X = np.random.default_rng(0).normal(size=(80, 2)) + 1.0
    center = "origin" if around == "origin" else X.mean(axis=0)
    gamma = gamma_max(X, center=center, degree=degree)
    for factor, share in ((1.0, 1.0), (1.1, 0.999)):
        model = KernelRidge(kernel="rbf", gamma=factor * gamma).fit(X, X[:, 0])
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            valid = TaylorRBF.from_estimator(model, degree, center=center).predict(X, return_valid=True)[1]
        assert valid.mean() == 1.0 if share == 1.0 else valid.mean() < share


def test_a_localized_model_advises_on_its_threshold() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    fast = TaylorRBF.from_estimator(SVR(gamma=1.0).fit(X, X[:, 0]), 2, threshold=1.0)
    with pytest.warns(ValidityWarning, match="Use a smaller threshold or a higher degree"):
        fast.predict(X + 9.0)


def test_weights_beyond_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(60, 5))
    model = KernelRidge(kernel="rbf", gamma=1.0).fit(X, X)
    monkeypatch.setattr("os.sysconf", lambda _: 500)  # 500 pages of 500 bytes
    with pytest.raises(MemoryLimitError, match=r"126 monomials at 61 centroids for 5 output.* take .* MiB, above"):
        TaylorRBF.from_estimator(model, 4, threshold=1e-3)
    assert TaylorRBF.from_estimator(model, 4, threshold=3.0).sizes.approximate < 1e5
