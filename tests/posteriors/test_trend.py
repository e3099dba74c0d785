"""The columns of a trend, their least-squares fit, what is refused, and the exact posterior by dense algebra.

See test_contract.py for those of all others.
"""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from lmgp import FeaturizedGPRegressor, GaussianKernel, TaylorFeatures
from lmgp.data import Noise, Rows
from lmgp.errors import InputError, MemoryLimitError
from lmgp.posteriors import trend as trends
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.posteriors.trend import CONSTANT_TREND, Trend, Trended, TrendEstimate, chosen_columns, trended
from tests.conftest import NOISE, counts_and_noises, draw, universal_kriging, with_ones


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


@pytest.mark.parametrize("n", [2, 4])
def test_more_coefficients_than_rows_are_refused(n: int) -> None:
    rows = Rows(np.random.default_rng(0).normal(size=(5, 3)), np.arange(5.0))
    with pytest.raises(InputError, match=rf"A trend of 3 columns has 4 coefficients, and needs more rows.*got {n}"):
        Trend.of(rows.take(slice(n)), "linear", None)
    assert Trend.of(rows, "linear", None).n_columns == 4


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
    with pytest.raises(InputError, match="2 rows do, the first of them row 1"):
        trend.check(np.array([[3.0, 7.0, 7.0], [3.0, 8.0, 7.0], [90.0, 181.0, 7.0], [3.0, 7.0, 7.5]]))


@pytest.mark.parametrize("slope", [1.0, 1e-8])
def test_targets_that_the_trend_explains_to_the_last_digits_are_refused(slope: float) -> None:
    X = tilted()[0].X
    trend = Trend.of(Rows(X, X[:, :1]), "linear", None)
    coefficients = trend.least_squares(Rows(X, slope * X))
    explained, some = np.array([[1e-11, 1.0]]), np.array([[1e-9, 1.0]])
    with pytest.raises(InputError, match="y is a linear function of x0, x1, to the last digits"):
        trend.check_residuals(Rows(X, slope * X[:, :1] * explained), coefficients)
    trend.check_residuals(Rows(X, slope * X[:, :1] * some), coefficients)
    constant = Trend.of(Rows(X, X[:, :1]), "constant", None)
    constant.check_residuals(Rows(X, np.zeros((80, 1))), np.ones((1, 1)))


def test_trends_of_one_name_have_the_same_columns() -> None:
    rows, T, _ = tilted()
    trend, same, other = (
        Trend.of(one, "linear", None) for one in (rows, rows.with_targets(T[:1]), rows.take(slice(70)))
    )
    assert trend.name == same.name != other.name
    assert trend.name.startswith("a trend of x0, x1 (")
    assert Trend.of(rows, [], None).name.startswith("a trend of a constant (")


def test_a_unit_multiplies_the_columns_and_changes_no_estimate() -> None:
    rows, T, _ = tilted()
    trend = Trend.of(rows, "linear", None)
    large = replace(trend, unit=50.0)
    np.testing.assert_allclose(large.columns(T), 50.0 * trend.columns(T), rtol=1e-12)
    estimates = [one.estimate(one.least_squares(rows)[:, 0], np.eye(3) / one.unit**2) for one in (trend, large)]
    np.testing.assert_allclose(estimates[1].coef, estimates[0].coef, rtol=1e-9)
    np.testing.assert_allclose(estimates[1].intercept, estimates[0].intercept, rtol=1e-9)
    np.testing.assert_allclose(estimates[1].covariance, estimates[0].covariance, rtol=1e-9)


def test_an_estimate_prints_as_a_table() -> None:
    estimate = TrendEstimate(("north", "x"), 1.5, np.array([-2.0, 30000.0]), np.diag([0.25, 4.0, 9.0]))
    header, *lines = str(estimate).splitlines()
    assert header.split() == ["coefficient", "std.", "error"]
    assert [line.split() for line in lines] == [["intercept", "1.5", "0.5"], ["north", "-2", "2"], ["x", "30000", "3"]]
    assert len({len(line) for line in (header, *lines)}) == 1


# ---------------------------------------------------------------------------------- the exact process, by dense algebra

KERNEL, OTHER = GaussianKernel([1.5, 0.8], 1.2), GaussianKernel(0.7, 2.0)


def of_exact(arguments: str) -> tuple[Trended, Trend, Rows, np.ndarray, np.ndarray]:
    """The exact process with a trend, its rows with two targets, new rows, and the noise that rows amount to."""
    rows, T, noise = tilted(arguments)
    rows = rows.with_targets(np.column_stack((rows.Y, np.cos(rows.X[:, 0]))))
    trend = Trend.of(rows, "linear", None)
    whole = rows.with_targets(np.column_stack((rows.Y, trend.columns(rows.X))))
    posterior = trended(ExactPosterior(KERNEL, whole, Noise(NOISE)), trend)
    assert isinstance(posterior, Trended)
    return posterior, trend, rows, T[:15], noise


both = pytest.mark.parametrize("arguments", ["plain", "weights and noises"])


@both
def test_the_covariance_has_that_of_the_trend(arguments: str) -> None:
    """Which is the limit of a wide prior: the covariance of k + 10⁷ hᵀh'."""
    posterior, trend, rows, T, noise = of_exact(arguments)
    h, of_new = trend.columns(rows.X), trend.columns(T)
    wide = KERNEL(rows.X) + 1e7 * h @ h.T + np.diag(noise)
    cross = KERNEL(rows.X, T) + 1e7 * h @ of_new.T
    expected = KERNEL(T) + 1e7 * of_new @ of_new.T - cross.T @ np.linalg.solve(wide, cross)
    covariance = posterior.covariance(T)
    np.testing.assert_allclose(covariance, expected, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(covariance, covariance.T)
    np.testing.assert_allclose(np.diag(covariance), posterior.variances(T), rtol=1e-9)
    np.testing.assert_array_equal(posterior.prior_variance(T), KERNEL.diagonal(T))
    far = T[:3] + np.array([[0.0, 0.0], [3.0, 2.0], [0.0, 9.0]])  # where the trend is most of it
    drawn = posterior.sample(far, 4000, np.random.default_rng(0))
    spread = np.sqrt(posterior.variances(far))
    np.testing.assert_allclose(drawn.mean(axis=1) / spread, 0.0, atol=4 / 4000**0.5)
    of_far = posterior.covariance(far) / np.outer(spread, spread)
    np.testing.assert_allclose(np.cov(drawn) / np.outer(spread, spread), of_far, atol=4 * (2 / 4000) ** 0.5)


@both
def test_each_row_is_left_out_of_the_trend_as_well(arguments: str) -> None:
    posterior, trend, rows, _, noise = of_exact(arguments)
    added = trend.columns(rows.X) @ posterior.coefficients
    means, variances = posterior.leave_one_out()
    for i in (0, 33, 79):
        others = np.arange(80) != i
        Z, own = rows.X[others], rows.X[i : i + 1]
        of_others = KERNEL(Z), KERNEL(Z, own), KERNEL.diagonal(own)
        for j, y in enumerate(rows.Y.T):
            mean, variance, *_ = universal_kriging(*of_others, y[others], noise[others], with_ones(Z), with_ones(own))
            assert means[i, j] + added[i, j] == pytest.approx(mean[0], rel=1e-8)
            assert variances[i] == pytest.approx(variance[0], rel=1e-8)
    some = posterior.rows.take(np.array([33, 79]))
    for found, expected in zip(posterior.without_each(some), (means, variances), strict=True):
        np.testing.assert_allclose(found, expected[[33, 79]], rtol=1e-8)


def test_a_column_that_the_kernel_does_not_see_takes_no_digits_from_others() -> None:
    """What rows tell of it is 10⁹ times what they tell of the others."""
    X = np.random.default_rng(7).uniform(0.0, 1.0, (400, 2))
    rows, kernel = Rows(X, 50.0 * X[:, 0] + 3.0 * X[:, 1] + np.sin(3.0 * X[:, 0])), GaussianKernel(1.0, 1e3).on([0])
    trend = Trend.of(rows, "linear", None)
    whole = rows.with_targets(np.column_stack((rows.Y, trend.columns(X))))
    posterior = trended(ExactPosterior(kernel, whole, Noise(1e-5)), trend)
    assert isinstance(posterior, Trended)
    found = trend.estimate(posterior.coefficients[:, 0], posterior.coefficients_covariance)
    white = np.linalg.solve(np.linalg.cholesky(kernel(X) + 1e-5 * np.eye(400)), np.column_stack((with_ones(X), rows.Y)))
    upper = np.linalg.qr(white, mode="r")
    root = np.linalg.inv(upper[:3, :3])
    np.testing.assert_allclose(np.append(found.intercept, found.coef), root @ upper[:3, 3], rtol=1e-4)
    np.testing.assert_allclose(np.sqrt(found.covariance.diagonal()), np.linalg.norm(root, axis=1), rtol=1e-4)


def residuals(kernel: GaussianKernel, rows: Rows, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What generalised least squares leave of the targets, and the covariance of these."""
    covariance, H = kernel(rows.X) + np.diag(noise), with_ones(rows.X)
    solved = np.linalg.solve(covariance, H)
    return rows.Y - H @ np.linalg.solve(H.T @ solved, solved.T @ rows.Y), covariance


@both
def test_rows_and_products_are_those_of_the_residuals(arguments: str) -> None:
    posterior, _, rows, T, noise = of_exact(arguments)
    left, covariance = residuals(KERNEL, rows, noise)
    products = left.T @ np.linalg.solve(covariance, left)
    np.testing.assert_allclose(posterior.products(), products, rtol=1e-7)
    np.testing.assert_allclose(posterior.surprise(T), np.tile(products.diagonal() / 80, (15, 1)), rtol=1e-7)
    np.testing.assert_allclose(posterior.rows.Y, left, rtol=0, atol=1e-8)


def test_without_rows_the_number_of_densities_is_known() -> None:
    """Of two targets that are learned, each of which has its trend in the sums."""
    X, y, _ = draw()
    model = FeaturizedGPRegressor(TaylorFeatures(20), kernel=KERNEL, noise_variance=NOISE, trend="linear")
    model.fit(X, np.column_stack((y, X[:, 0] + y**2)))
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(loaded.log_marginal_likelihood_, model.log_marginal_likelihood_)
    assert loaded._fitted.posterior.n_observations == len(y)


@pytest.mark.parametrize(("kernel", "noise_variance"), [(None, None), (OTHER, 0.3), (OTHER, None)])
def test_densities_are_those_of_the_residuals(kernel: GaussianKernel | None, noise_variance: float | None) -> None:
    """Of a trend that other hyperparameters estimate, where both are given."""
    posterior, _, rows, _, _ = of_exact("plain")
    used = KERNEL if kernel is None else kernel
    noise = np.full(80, NOISE if noise_variance is None else noise_variance)
    left, covariance = residuals(used, rows, noise)
    if kernel is not None and noise_variance is None:
        left = posterior.rows.Y
    expected = multivariate_normal(np.zeros(80), covariance).logpdf(left.T)
    np.testing.assert_allclose(posterior.log_density(kernel, noise_variance), expected, rtol=1e-8)


def test_a_trend_that_is_not_estimated_is_left_out() -> None:
    posterior = ExactPosterior(KERNEL, tilted()[0], Noise(NOISE))
    assert trended(posterior, CONSTANT_TREND) is posterior


def test_more_columns_than_rows_have_their_names() -> None:
    X = np.random.default_rng(0).normal(size=(5, 10))
    assert Trend.of(Rows(X, X[:, 9]), (9,), None).names == ("x9",)


def test_the_rows_that_estimate_a_trend_are_the_same_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trends, "TREND_ROWS", 40)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    rows = Rows(X, X[:, 0] + rng.normal(size=200))
    mixed = rows.take(rng.permutation(200))
    of = [of_some_rows(GaussianKernel(1.0), some, 0.1)[1].coefficients for some in (rows, mixed)]
    np.testing.assert_allclose(*np.abs(of), atol=1e-8)  # whose columns have either sign
