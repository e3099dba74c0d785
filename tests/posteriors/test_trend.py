"""The columns of a trend, their least-squares fit, and what is refused; see test_contract.py for its posterior."""

import numpy as np
import pytest

from lmgp import GaussianKernel
from lmgp.data import Noise, Rows
from lmgp.errors import InputError, MemoryLimitError
from lmgp.posteriors import trend as trends
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.posteriors.trend import Trend, Trended, chosen_columns, trended
from tests.conftest import NOISE, counts_and_noises, draw, with_ones


def tilted(arguments: str = "plain") -> tuple[Rows, np.ndarray, np.ndarray]:
    """Rows on a slope, new rows, and the noise that weights and noise variances amount to."""
    X, y, T = draw()
    counts, noises = counts_and_noises(len(y))
    y = y + X @ [2.0, -5.0]
    if arguments == "plain":
        return Rows(X, y), T, np.full(len(y), NOISE)
    return Rows(X, y, counts + 1.0, noises), T, noises / (counts + 1.0)


def without_trend(rows: Rows, columns: object) -> tuple[Trend, np.ndarray, np.ndarray]:
    """The trend, its least-squares coefficients, and what these leave of y."""
    trend = Trend.of(rows, columns, None)
    coefficients = trend.least_squares(rows)[:, 0]
    return trend, coefficients, rows.Y[:, 0] - trend.columns(rows.X) @ coefficients


@pytest.mark.parametrize("arguments", ["plain", "weights and noises"])
def test_the_least_squares_fit(arguments: str) -> None:
    rows, T, noise = tilted(arguments)
    trend, coefficients, residuals = without_trend(rows, "linear")
    root = 1 / np.sqrt(noise)
    expected, *_ = np.linalg.lstsq(with_ones(rows.X) * root[:, None], rows.Y[:, 0] * root, rcond=None)
    np.testing.assert_allclose(trend.columns(T) @ coefficients, with_ones(T) @ expected, rtol=1e-10)
    np.testing.assert_allclose(residuals, rows.Y[:, 0] - with_ones(rows.X) @ expected, rtol=0, atol=1e-10)
    # The columns are uncorrelated and of variance 1, over rows that count by their precision.
    h = trend.columns(rows.X)
    np.testing.assert_allclose(h.T @ (h / noise[:, None]) / np.sum(1 / noise), np.eye(3), rtol=0, atol=1e-12)


def test_columns_that_say_the_same_share_their_slope() -> None:
    rows, T, _ = tilted()
    single, of_single, _ = without_trend(rows, "linear")
    # x0, x1, x0 in other units, a constant, and x0 + x1.
    more = [np.column_stack((X, 1000 * X[:, 0] - 7, np.full(len(X), 3.3), X.sum(axis=1))) for X in (rows.X, T)]
    trend, coefficients, residuals = without_trend(Rows(more[0], rows.Y), "linear")
    assert trend.n_columns == single.n_columns == 3
    np.testing.assert_allclose(trend.columns(more[1]) @ coefficients, single.columns(T) @ of_single, rtol=1e-8)
    estimate = trend.estimate(coefficients, np.eye(3))
    assert estimate.coef[3] == 0.0
    assert estimate.coef_error[3] == 0.0
    # The smallest slopes, in standard deviations: those of a pseudo-inverse.
    standard = (more[0] - more[0].mean(axis=0)) / np.where(np.ptp(more[0], axis=0) > 0, more[0].std(axis=0), 1.0)
    expected = np.linalg.pinv(standard, rcond=1e-9) @ rows.Y[:, 0]
    np.testing.assert_allclose(estimate.coef * more[0].std(axis=0), expected, rtol=0, atol=1e-8)
    assert np.mean(residuals) == pytest.approx(0.0, abs=1e-10)


@pytest.mark.parametrize("values", [np.full(80, 1e9 / 3), np.zeros(80), np.repeat([0.0, 1e200], [79, 1])])
def test_odd_columns(values: np.ndarray) -> None:
    rows, _, _ = tilted()
    trend, _, residuals = without_trend(Rows(values[:, None], rows.Y), "linear")
    y = rows.Y[:, 0]
    assert np.all(np.isfinite(trend.columns(values[:, None])))
    assert trend.n_columns == (1 if np.ptp(values) == 0 else 2)
    expected = y - y.mean() if np.ptp(values) == 0 else np.append(y[:-1] - y[:-1].mean(), 0.0)
    np.testing.assert_allclose(residuals, expected, rtol=0, atol=1e-10)


def test_of_no_columns_the_trend_is_a_constant() -> None:
    rows, T, _ = tilted()
    trend, _, residuals = without_trend(rows, [])
    np.testing.assert_allclose(residuals, rows.Y[:, 0] - rows.Y.mean(), rtol=0, atol=1e-10)
    np.testing.assert_array_equal(trend.columns(T), np.ones((len(T), 1)))


def test_more_coefficients_than_rows_are_refused() -> None:
    rows = Rows(np.random.default_rng(0).normal(size=(4, 3)), np.arange(4.0))
    with pytest.raises(InputError, match=r"A trend of 3 columns has 4 coefficients, and needs more rows.*got 4"):
        Trend.of(rows, "linear", None)


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


def of_some_rows(kernel: GaussianKernel, rows: Rows, noise: float, gib: float | None = None) -> tuple[Trend, Trended]:
    """The trend of a posterior without products, which some of the rows estimate."""
    trend = Trend.of(rows, "linear", None)
    whole = rows.with_targets(np.column_stack((rows.Y, trend.columns(rows.X))))
    posterior = trended(NearestPosterior(kernel, whole, Noise(noise), 20), trend, whole, gib)
    assert isinstance(posterior, Trended)
    return trend, posterior


def test_the_estimate_of_some_rows_is_unbiased_and_says_how_uncertain_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over draws from the prior with a slope of 3: by Monte Carlo."""
    monkeypatch.setattr(trends, "TREND_ROWS", 40)
    rng = np.random.default_rng(0)
    X, kernel = rng.uniform(0, 10, (120, 1)), GaussianKernel(1.0, 2.0)
    root = np.linalg.cholesky(kernel(X) + 0.1 * np.eye(120))
    targets = 3.0 * X + root @ rng.normal(size=(120, 400))
    trend, posterior = of_some_rows(kernel, Rows(X, targets), 0.1)
    estimates = [trend.estimate(one, posterior.coefficients_covariance) for one in posterior.coefficients.T]
    off = [((one.coef[0] - 3.0) / one.coef_error[0], one.intercept / one.intercept_error) for one in estimates]
    assert np.all(np.abs(np.mean(off, axis=0)) < 4 / 20)  # four standard errors of 400 draws
    assert np.all(np.abs(np.mean(np.square(off), axis=0) - 1) < 4 * np.sqrt(2 / 400))


def test_the_rows_that_estimate_a_trend_fit_into_memory() -> None:
    rows, few, kernel = tilted()[0], 16.0 * 30**2 / 2**30, GaussianKernel(1.5)
    traces = [of_some_rows(kernel, rows, NOISE, gib)[1].coefficients_covariance.trace() for gib in (few, 1.0)]
    assert traces[0] > 1.05 * traces[1]
    with pytest.raises(MemoryLimitError, match="exact prediction from 4 rows"):
        of_some_rows(kernel, rows, NOISE, 16.0 * 3**2 / 2**30)


def test_rows_beside_what_the_training_rows_span_are_known() -> None:
    rng = np.random.default_rng(0)
    one = rng.uniform(1.0, 5.0, 30)
    X = np.column_stack((one, 2.0 * one + 1.0, np.full(30, 7.0)))  # a line, in a plane
    trend = Trend.of(Rows(X, rng.normal(size=30)), "linear", None)
    trend.check(np.array([[3.0, 7.0, 7.0], [90.0, 181.0, 7.0], [3.0, 7.0, 7.0 + 1e-14]]))
    for beside in ([3.0, 8.0, 7.0], [3.0, 7.0, 7.5]):
        with pytest.raises(InputError, match="no slope in a direction in which no training row differed"):
            trend.check(np.array([beside]))


def test_more_columns_than_rows_have_their_names() -> None:
    X = np.random.default_rng(0).normal(size=(5, 10))
    assert Trend.of(Rows(X, X[:, 9]), (9,), None).names == ("x9",)
