"""Trends and their estimates, against dense algebra."""

import numpy as np
import pytest

import lmgp.inference.function_space as function_space
from lmgp import GaussianKernel, NystroemFeatures
from lmgp.errors import InputError, MemoryLimitError
from lmgp.inference.function_space import RowPosterior, estimate_trend
from lmgp.inference.local import LocalPosterior
from lmgp.inference.nearest import NearestPosterior
from lmgp.inference.trend import chosen_columns, without_trend
from lmgp.inference.weight_space import WeightPosterior, accumulate, accumulate_columns, evaluate
from lmgp.noise import Noise
from lmgp.validation import Rows
from tests.conftest import KERNELS, NOISE, counts_and_noises, distances, draw, universal_kriging, with_ones

KERNEL, FORMULA = KERNELS["matern32"]


def tilted(arguments: str = "plain") -> tuple[Rows, np.ndarray, np.ndarray]:
    """Rows on a slope, new rows, and the noise that weights and noise variances amount to."""
    X, y, T = draw()
    counts, noises = counts_and_noises(len(y))
    weights = None if arguments == "plain" else counts + 1.0
    own = None if arguments == "plain" else noises
    noise = np.full(len(y), NOISE) if own is None or weights is None else own / weights
    return Rows(X, y + X @ [2.0, -5.0], weights, own), T, noise


# --------------------------------------------------------------------------------------------------- by least squares


@pytest.mark.parametrize("arguments", ["plain", "weights and noises"])
def test_the_least_squares_fit(arguments: str) -> None:
    rows, T, noise = tilted(arguments)
    trend, residuals = without_trend(rows, "linear", None)
    root = 1 / np.sqrt(noise)
    expected, *_ = np.linalg.lstsq(with_ones(rows.X) * root[:, None], rows.y * root, rcond=None)
    np.testing.assert_allclose(trend.least_squares(T), with_ones(T) @ expected, rtol=1e-10)
    np.testing.assert_allclose(residuals.y, rows.y - with_ones(rows.X) @ expected, rtol=0, atol=1e-10)
    # The columns are uncorrelated and of variance 1, over rows that count by their precision.
    h = trend.columns(rows.X)
    np.testing.assert_allclose(h.T @ (h / noise[:, None]) / np.sum(1 / noise), np.eye(3), rtol=0, atol=1e-12)


def test_columns_that_say_the_same_share_their_slope() -> None:
    rows, T, _ = tilted()
    single, _ = without_trend(rows, "linear", None)
    # x0, x1, x0 in other units, a constant, and x0 + x1.
    more = [np.column_stack((X, 1000 * X[:, 0] - 7, np.full(len(X), 3.3), X.sum(axis=1))) for X in (rows.X, T)]
    trend, residuals = without_trend(Rows(more[0], rows.y), "linear", None)
    assert trend.n_columns == single.n_columns == 3
    np.testing.assert_allclose(trend.least_squares(more[1]), single.least_squares(T), rtol=1e-8)
    estimate = trend.estimated(np.eye(3), np.zeros(3)).estimate(0.0)
    assert estimate.coef[3] == 0.0
    assert estimate.coef_error[3] == 0.0
    # The smallest slopes, in standard deviations: those of a pseudo-inverse.
    standard = (more[0] - more[0].mean(axis=0)) / np.where(np.ptp(more[0], axis=0) > 0, more[0].std(axis=0), 1.0)
    np.testing.assert_allclose(
        estimate.coef * more[0].std(axis=0), np.linalg.pinv(standard, rcond=1e-9) @ rows.y, rtol=0, atol=1e-8
    )
    assert np.mean(residuals.y) == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("values", [np.full(80, 1e9 / 3), np.zeros(80), np.repeat([0.0, 1e200], [79, 1])])
def test_odd_columns(values: np.ndarray) -> None:
    rows, _, _ = tilted()
    trend, residuals = without_trend(Rows(values[:, None], rows.y), "linear", None)
    assert np.all(np.isfinite(trend.columns(values[:, None])))
    assert trend.n_columns == (1 if np.ptp(values) == 0 else 2)
    expected = rows.y - rows.y.mean() if np.ptp(values) == 0 else np.append(rows.y[:-1] - rows.y[:-1].mean(), 0.0)
    np.testing.assert_allclose(residuals.y, expected, rtol=0, atol=1e-10)


def test_of_no_columns_the_trend_is_a_constant() -> None:
    rows, T, _ = tilted()
    trend, residuals = without_trend(rows, [], None)
    np.testing.assert_allclose(residuals.y, rows.y - rows.y.mean(), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(trend.columns(T), np.ones((len(T), 1)))


def test_more_coefficients_than_rows_are_refused() -> None:
    rows = Rows(np.random.default_rng(0).normal(size=(4, 3)), np.arange(4.0))
    with pytest.raises(InputError, match=r"A trend of 3 columns has 4 coefficients, and needs more rows.*got 4"):
        without_trend(rows, "linear", None)


# ------------------------------------------------------------------------------------------------------- which columns

NAMES = ["north", "east", "height"]


def test_chosen_columns() -> None:
    assert chosen_columns("constant", NAMES, 3) is None
    for trend, expected in (
        ("linear", [0, 1, 2]),
        (["height", "north"], [2, 0]),
        ((1,), [1]),
        (np.array([2, 0]), [2, 0]),
        (["east", 0], [1, 0]),
        ([], []),
    ):
        np.testing.assert_array_equal(chosen_columns(trend, NAMES, 3), expected)


@pytest.mark.parametrize(
    ("trend", "names", "message"),
    [
        (["hight"], NAMES, "X has no column 'hight', did you mean 'height'"),
        (["a"], NAMES, "X has no column 'a', known: north, east, height"),
        (["north"], None, "X has no names of columns: give a data frame, or indices from 0 to 2"),
        ([3], NAMES, "X has columns 0 to 2; got 3"),
        ([-1], NAMES, "X has columns 0 to 2; got -1"),
        ([0, 0], NAMES, "list each column once"),
        (["north", 0], NAMES, "list each column once"),
        ([True, False, True], NAMES, "by index or name; got True"),
        ([1.5], NAMES, "by index or name; got 1.5"),
        ([[0, 1]], NAMES, r"a list of columns; got \[\[0, 1\]\]"),
    ],
)
def test_columns_that_are_refused(trend: object, names: list[str] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        chosen_columns(trend, names, 3)


# ----------------------------------------------------------------------------------- by generalised least squares


@pytest.mark.parametrize("arguments", ["plain", "weights and noises"])
@pytest.mark.parametrize("name", KERNELS)
def test_of_all_rows(name: str, arguments: str) -> None:
    kernel, formula = KERNELS[name]
    rows, T, noise = tilted(arguments)
    trend, residuals = without_trend(rows, "linear", ["a", "b"])
    posterior = RowPosterior(kernel, residuals, Noise(NOISE), trend=trend)
    mean, variance = posterior.predict(T)
    fit = posterior.trend
    expected = universal_kriging(
        formula(rows.X, rows.X),
        formula(rows.X, T),
        np.diag(formula(T, T)),
        rows.y,
        noise,
        with_ones(rows.X),
        with_ones(T),
    )
    np.testing.assert_allclose(mean + fit.values(T), expected[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(variance, expected[1], rtol=1e-8)
    np.testing.assert_allclose(posterior.predict(T, variance=False)[0], mean, rtol=0, atol=1e-8)
    estimate = fit.estimate(0.0)
    np.testing.assert_allclose([estimate.intercept, *estimate.coef], expected[2], rtol=1e-8)
    np.testing.assert_allclose(estimate.covariance, expected[3], rtol=1e-6)
    np.testing.assert_allclose([estimate.intercept_error, *estimate.coef_error], np.sqrt(np.diag(expected[3])))
    left = rows.y - with_ones(rows.X) @ expected[2]
    squares = left @ np.linalg.solve(formula(rows.X, rows.X) + np.diag(noise), left)
    assert posterior.surprise == pytest.approx(squares / 80)


def test_an_estimate_prints_as_a_table() -> None:
    rows, _, _ = tilted()
    trend, _ = without_trend(rows, "linear", ["north", "east"])
    header, intercept, north, east = str(trend.estimated(np.eye(3), np.zeros(3)).estimate(1.5)).splitlines()
    assert header.split() == ["coefficient", "std.", "error"]
    assert [line.split()[0] for line in (intercept, north, east)] == ["intercept", "north", "east"]
    assert float(north.split()[1]) == pytest.approx(2.0, abs=0.5)
    assert float(east.split()[1]) == pytest.approx(-5.0, abs=0.5)


@pytest.mark.parametrize("arguments", ["plain", "weights and noises"])
@pytest.mark.parametrize("approximation", ["sor", "dtc", "fitc"])
def test_of_features(approximation, arguments: str) -> None:
    rows, T, noise = tilted(arguments)
    trend, residuals = without_trend(rows, "linear", None)
    features = NystroemFeatures(20, kernel=KERNEL, random_state=0).fit(rows.X)
    centre = np.zeros(2)
    sums = accumulate_columns(features, residuals, centre, Noise(NOISE, approximation), trend)
    statistics = accumulate(features, residuals, centre, Noise(NOISE, approximation), origin=0.0)
    posterior = WeightPosterior(statistics, 0.0, sums)
    mean, variance = evaluate(posterior, features, T, centre, Noise(NOISE, approximation))
    phi, new = features.transform(rows.X), features.transform(T)
    missing, left_out = (np.diag(FORMULA(Z, Z)) - np.sum(f**2, axis=1) for Z, f in ((rows.X, phi), (T, new)))
    if approximation == "fitc":
        noise = noise + missing / (1.0 if rows.weights is None else rows.weights)
    expected = universal_kriging(
        phi @ phi.T, phi @ new.T, np.sum(new**2, axis=1), rows.y, noise, with_ones(rows.X), with_ones(T)
    )
    if approximation != "sor":
        expected = (expected[0], expected[1] + left_out, *expected[2:])
    np.testing.assert_allclose(mean + posterior.trend.values(T), expected[0], rtol=0, atol=1e-7)
    np.testing.assert_allclose(variance, expected[1], rtol=1e-7)
    np.testing.assert_allclose(posterior.trend.estimate(0.0).covariance, expected[3], rtol=1e-6)
    only_mean, none = evaluate(posterior, features, T, centre, Noise(NOISE, approximation), variance=False)
    assert none is None
    np.testing.assert_allclose(only_mean, mean, rtol=0, atol=1e-8)


# --------------------------------------------------------------------------- estimated elsewhere, used around a point


@pytest.mark.parametrize("k", [5, 30, 80])
def test_of_the_nearest_rows(k: int) -> None:
    rows, T, noise = tilted()
    trend, residuals = without_trend(rows, "linear", None)
    fit = estimate_trend(trend, KERNEL, residuals, Noise(NOISE), np.random.default_rng(0))
    mean, variance = NearestPosterior(KERNEL, residuals, Noise(NOISE), k, trend=fit).predict(T)
    _, _, beta, spread = universal_kriging(
        FORMULA(rows.X, rows.X),
        FORMULA(rows.X, T),
        np.zeros(len(T)),
        rows.y,
        noise,
        with_ones(rows.X),
        with_ones(T),
    )
    nearest = np.argsort(distances(T, rows.X, KERNEL.metric(2)), axis=1, kind="stable")[:, :k]
    for row, near, *found in zip(T, nearest, mean + fit.values(T), variance, strict=True):
        Z, H = rows.X[near], with_ones(rows.X[near])
        weights = np.linalg.solve(FORMULA(Z, Z) + NOISE * np.eye(k), FORMULA(Z, row[None])[:, 0])
        r = np.append(1.0, row) - H.T @ weights
        own = FORMULA(row[None], row[None])[0, 0] - FORMULA(Z, row[None])[:, 0] @ weights
        np.testing.assert_allclose(found, (r @ beta + weights @ rows.y[near], own + r @ spread @ r), rtol=1e-7)


@pytest.mark.parametrize("solver", ["primal", "dual", "auto"])
def test_around_centroids(solver) -> None:
    """With a map that represents the kernel of these rows, every centroid's model is the exact one."""
    rows, T, _ = tilted()
    trend, residuals = without_trend(rows, "linear", None)
    exact = RowPosterior(KERNEL, residuals, Noise(NOISE), trend=trend)
    features = NystroemFeatures(80, kernel=KERNEL).fit(rows.X)
    origin = np.zeros((1, 2))
    local = LocalPosterior(
        KERNEL, residuals, Noise(NOISE, "fitc"), origin, features=features, solver=solver, trend=exact.trend
    )
    np.testing.assert_allclose(local.predict(T), exact.predict(T), rtol=0, atol=1e-6)
    np.testing.assert_allclose(local.expectations(T)[1], exact.surprise, rtol=1e-6)


def test_where_no_rows_are_near_the_prior_and_the_trend_predict() -> None:
    rows, T, _ = tilted()
    trend, residuals = without_trend(rows, "linear", None)
    fit = estimate_trend(trend, KERNEL, residuals, Noise(NOISE), np.random.default_rng(0))
    none = residuals.take(np.arange(0))
    mean, variance = RowPosterior(KERNEL, none, Noise(NOISE), trend=fit).predict(T)
    np.testing.assert_array_equal(mean, 0.0)
    spread, h = fit.estimate(0.0).covariance, with_ones(T)
    np.testing.assert_allclose(variance, KERNEL.diagonal(T) + np.einsum("ij,jk,ik->i", h, spread, h), rtol=1e-8)


def test_the_estimate_of_some_rows_is_unbiased_and_says_how_uncertain_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over draws from the prior with a slope of 3: by Monte Carlo."""
    monkeypatch.setattr(function_space, "TREND_ROWS", 40)
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (120, 1))
    kernel = GaussianKernel(1.0, 2.0)
    root = np.linalg.cholesky(kernel(X) + 0.1 * np.eye(120))
    off = []
    for _ in range(400):
        rows = Rows(X, 3.0 * X[:, 0] + root @ rng.normal(size=120))
        trend, residuals = without_trend(rows, "linear", None)
        estimate = estimate_trend(trend, kernel, residuals, Noise(0.1), rng).estimate(0.0)
        off.append(((estimate.coef[0] - 3.0) / estimate.coef_error[0], estimate.intercept / estimate.intercept_error))
    assert np.all(np.abs(np.mean(off, axis=0)) < 4 / 20)  # four standard errors of 400 draws
    assert np.all(np.abs(np.mean(np.square(off), axis=0) - 1) < 4 * np.sqrt(2 / 400))


def test_the_rows_that_estimate_a_trend_fit_into_memory() -> None:
    rows, _, _ = tilted()
    trend, residuals = without_trend(rows, "linear", None)
    few = 16.0 * 30**2 / 2**30
    fits = [
        estimate_trend(trend, KERNEL, residuals, Noise(NOISE), np.random.default_rng(0), most).covariance.trace()
        for most in (few, 1.0)
    ]
    assert fits[0] > 1.05 * fits[1]
    with pytest.raises(MemoryLimitError, match="exact prediction from 4 rows"):
        estimate_trend(trend, KERNEL, residuals, Noise(NOISE), np.random.default_rng(0), 16.0 * 3**2 / 2**30)


def test_targets_that_a_trend_explains_to_the_last_digits_are_refused() -> None:
    X = np.random.default_rng(0).uniform(1.0, 5.0, (30, 2))
    exact, of_exact = without_trend(Rows(X, X @ [2.0, -3.0] + 1.0), "linear", None)
    with pytest.raises(InputError, match="y is a linear function of x0, x1, to the last digits"):
        exact.check_residuals(of_exact)
    bent = X @ [2.0, -3.0] + 1e-6 * np.sin(X[:, 0])
    trend, residuals = without_trend(Rows(X, bent), "linear", None)
    trend.check_residuals(residuals)


def test_rows_beside_what_the_training_rows_span_are_known() -> None:
    rng = np.random.default_rng(0)
    one = rng.uniform(1.0, 5.0, 30)
    X = np.column_stack((one, 2.0 * one + 1.0, np.full(30, 7.0)))  # a line, in a plane
    trend, _ = without_trend(Rows(X, rng.normal(size=30)), "linear", None)
    new = np.array([[3.0, 7.0, 7.0], [90.0, 181.0, 7.0], [3.0, 8.0, 7.0], [3.0, 7.0, 7.5], [3.0, 7.0, 7.0 + 1e-14]])
    np.testing.assert_array_equal(trend.missing(new), [False, False, True, True, False])


def test_more_columns_than_rows_have_their_names() -> None:
    X = np.random.default_rng(0).normal(size=(5, 10))
    trend, _ = without_trend(Rows(X, X[:, 9]), (9,), None)
    assert trend.names == ("x9",)
