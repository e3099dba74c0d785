"""Linear trends that earn their place."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, t

from lmgp import GPRegressor, MaternKernel
from lmgp.data import Rows
from lmgp.learning import trends
from lmgp.learning.engine import Settings
from lmgp.learning.heldout import Validation
from lmgp.learning.record import Learned
from lmgp.learning.trends import likely_trend, trend_pays
from lmgp.posteriors.trend import Trend

Floats = NDArray[np.float64]
KERNEL, NOISE = MaternKernel([1.0, 1.0, 3.0], 0.8), 0.2
LEARNED = Learned(KERNEL, NOISE, 0.0, True)
EACH = [np.array([j]) for j in range(3)]


def rows_of(n: int, slope: float = 3.0, seed: int = 0) -> Rows:
    """Two coordinates and a column whose slope is given; centred targets."""
    rng = np.random.default_rng(seed)
    X = np.column_stack((rng.uniform(0.0, 6.0, (n, 2)), rng.normal(size=n)))
    y = np.sin(X[:, 0]) + np.cos(X[:, 1]) + slope * X[:, 2] + 0.3 * rng.normal(size=n)
    return Rows(X, y - y.mean())


def dense(rows: Rows, others: NDArray[np.intp], index: list[int]) -> tuple[Floats, Floats, Floats]:
    """Slopes by generalised least squares, their covariance, and the covariance of the targets."""
    X = rows.X[others]
    covariance = KERNEL(X) + NOISE * np.eye(len(X))
    H = np.column_stack((np.ones(len(X)), X[:, index]))
    of_slopes = np.linalg.inv(H.T @ np.linalg.solve(covariance, H))
    return of_slopes @ H.T @ np.linalg.solve(covariance, rows.Y[others, 0]), of_slopes, covariance


def test_numbers_are_those_that_are_stated() -> None:
    """By 300 rows, five for each slope, a hundred at least; five nats; 1,000 rows, .01 nats."""
    assert (trends.SAMPLE, trends.ROWS_OF_EACH, trends.FEWEST) == (300, 5, 100)
    assert (trends.EVIDENCE, trends.MOST_ROWS, trends.LEAST_GAIN) == (5.0, 1000, 0.01)


def densities_of(learned: Learned, rows: Rows, validation: Validation) -> list[Floats]:
    beside = trends._with_trend(validation, trends._exact(learned, Trend.of(rows, [2], None), rows))
    return beside.densities(learned.kernel, learned.noise_variance, learned.degrees)


@pytest.mark.parametrize(("slope", "races"), [(3.0, [False, False, True, True]), (0.0, [False, False])])
def test_starting_points_race_where_the_best_ones_lead_to_a_trend(
    slope: float, races: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    raced, learn_rows = list[bool](), trends.learn_rows

    def spy(rows: Rows, settings: Settings) -> Learned:
        raced.append(settings.race)
        return learn_rows(rows, settings)

    monkeypatch.setattr(trends, "learn_rows", spy)
    likely_trend(rows_of(120, slope), EACH, Settings("matern52"))
    assert raced == races


class TestProcess:
    def test_has_the_slopes_and_the_likelihood_of_dense_algebra(self) -> None:
        rows = rows_of(80)
        trend = Trend.of(rows, np.arange(3), None)
        posterior = trends._exact(LEARNED, trend, rows)
        found = trend.estimate(posterior.coefficients[:, 0], posterior.coefficients_covariance)
        slopes, covariance, of_targets = dense(rows, np.arange(80), [0, 1, 2])
        expected = slopes[1:] / np.sqrt(covariance.diagonal()[1:])
        np.testing.assert_allclose(found.coef / found.coef_error, expected, rtol=1e-7)
        H = np.column_stack((np.ones(80), rows.X))
        density = multivariate_normal(H @ slopes, of_targets).logpdf(rows.Y[:, 0])
        assert posterior.log_density()[0] == pytest.approx(density, rel=1e-9)

    @pytest.mark.parametrize("degrees", [np.inf, 3.0])
    def test_predicts_each_row_from_the_others_with_slopes_that_do_not_know_it(self, degrees: float) -> None:
        rows, learned = rows_of(60), replace(LEARNED, degrees=degrees)
        index = np.random.default_rng(3).permutation(60)
        alone, regions = densities_of(learned, rows, Validation(rows, index, ()))
        assert len(alone) == 60
        assert not len(regions)
        row = int(index[0])
        others = np.setdiff1d(np.arange(60), [row])
        slopes, covariance, of_targets = dense(rows, others, [2])
        weights = np.linalg.solve(of_targets, KERNEL(rows.X[others], rows.X[[row]]))[:, 0]
        h, H = np.array([1.0, rows.X[row, 2]]), np.column_stack((np.ones(59), rows.X[others, 2]))
        mean = h @ slopes + weights @ (rows.Y[others, 0] - H @ slopes)
        left = h - weights @ H
        variance = KERNEL.variance + NOISE - weights @ KERNEL(rows.X[others], rows.X[[row]])[:, 0]
        expected = t(degrees, mean, np.sqrt(variance + left @ covariance @ left)).logpdf(rows.Y[row, 0])
        assert alone[0] == pytest.approx(expected, rel=1e-6)

    def test_predicts_neighbourhoods(self) -> None:
        rows = rows_of(600)
        validation = Validation.of(rows, np.ones(3), np.random.default_rng(3))
        _, regions = densities_of(LEARNED, rows, validation)
        assert 4 <= len(regions) <= 40
        assert np.all(np.abs(regions) < 5.0)


class TestLikelyTrend:
    @pytest.mark.parametrize("n", [120, 1500])
    def test_has_the_column_with_a_slope(self, n: int) -> None:
        found = likely_trend(rows_of(n), EACH, Settings("matern52"))
        assert found is not None
        np.testing.assert_array_equal(found, [2])

    def test_does_not_depend_on_the_order_of_rows(self) -> None:
        rows = rows_of(400, slope=0.6)
        other = rows.take(np.random.default_rng(1).permutation(400))
        first, second = (likely_trend(each, EACH, Settings("matern52")) for each in (rows, other))
        assert first is not None
        assert second is not None
        np.testing.assert_array_equal(first, second)

    @pytest.mark.parametrize(
        ("rows", "places"),
        [
            (rows_of(200, slope=0.0), EACH),
            (rows_of(trends.FEWEST - 1), EACH),
            (rows_of(100), [np.arange(3)] * 8),  # five times as many rows as slopes, at least
            (Rows(rows_of(100).X, rows_of(100).X[:, 2] - rows_of(100).X[:, 2].mean()), EACH),
        ],
        ids=["no slope", "few rows", "many columns", "nothing else"],
    )
    def test_is_none(self, rows: Rows, places: list[NDArray[np.intp]]) -> None:
        assert likely_trend(rows, places, Settings("matern52")) is None

    def test_takes_five_nats_more_than_the_slopes_gain_by_chance(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """By dense algebra: the likelihood with the likeliest slope, less that without, ½ log n, and log 3 columns."""
        rows, given = rows_of(120, slope=0.6), Settings(KERNEL, noise_variance=NOISE)
        slopes, _, covariance = dense(rows, np.arange(120), [2])
        means = np.zeros(120), np.column_stack((np.ones(120), rows.X[:, 2])) @ slopes
        before, after = (multivariate_normal(mean, covariance).logpdf(rows.Y[:, 0]) for mean in means)
        gain = after - before - 0.5 * np.log(120.0) - np.log(3.0)
        assert gain > 0.0
        for evidence, likely in ((gain - 1e-6, True), (gain + 1e-6, False)):
            monkeypatch.setattr(trends, "EVIDENCE", evidence)
            assert (likely_trend(rows, EACH, given) is not None) == likely

    @pytest.mark.parametrize(("n_sloping", "weakest"), [(1, 1.0), (3, 1.0), (20, 1.0), (20, 0.0)])
    def test_takes_as_many_columns_as_the_criterion_is_largest_with(self, n_sloping: int, weakest: float) -> None:
        """By regressions on each number of columns, beside noise alone; with most of the columns, all may pay."""
        rng = np.random.default_rng(n_sloping)
        X = rng.normal(size=(300, 20))
        slopes = np.where(np.arange(20) < n_sloping, 1.0, 0.0)
        slopes[-1] *= weakest
        rows = Rows(X, X @ slopes + rng.normal(size=300))
        rows = Rows(X, rows.Y - rows.means)
        given = Settings(MaternKernel(np.full(20, 1e3), 1e-8), noise_variance=1.0)
        places = [np.array([j]) for j in range(20)]
        found = likely_trend(rows, places, given)
        assert found is not None
        H = np.column_stack((np.ones(300), X))
        beside = np.linalg.lstsq(H, rows.Y[:, 0], rcond=None)[0][1:] / np.sqrt(np.linalg.inv(H.T @ H).diagonal()[1:])
        order = np.argsort(-np.abs(beside))
        criteria = [
            0.5 * np.square(beside[order[:k]]).sum() - 0.5 * k * np.log(300.0) - np.log(math.comb(20, k))
            for k in range(21)
        ]
        np.testing.assert_array_equal(found, np.sort(order[: np.argmax(criteria)]))
        assert set(range(n_sloping - 1)) <= set(found.tolist())

    def test_takes_a_hundred_rows(self) -> None:
        assert likely_trend(rows_of(99), EACH, Settings("matern52")) is None
        assert likely_trend(rows_of(100), EACH, Settings("matern52")) is not None

    def test_takes_five_rows_for_each_slope_and_the_constant(self) -> None:
        places, kernel = [np.array([j]) for j in range(24)], MaternKernel([1.0, 1.0, 3.0, *21 * [1e3]], 0.8)
        for n, enough in ((124, False), (125, True)):
            rows, others = rows_of(n), np.random.default_rng(1).normal(size=(n, 21))
            rows = Rows(np.hstack((rows.X, others)), rows.Y)
            assert (likely_trend(rows, places, Settings(kernel, noise_variance=NOISE)) is not None) == enough

    def test_takes_all_columns_of_a_place(self) -> None:
        """As the coordinates of a sphere."""
        found = likely_trend(rows_of(200), [np.array([0]), np.array([1, 2])], Settings("matern52"))
        assert found is not None
        np.testing.assert_array_equal(found, [1, 2])


def test_a_trend_pays_where_rows_left_out_say_so() -> None:
    rows = rows_of(400)
    columns = np.array([2])
    short = Learned(MaternKernel([1.0, 1.0, 0.3], 9.0), NOISE, 0.0, True)
    assert trend_pays(rows, columns, short, LEARNED, np.ones(3))
    assert not trend_pays(rows, columns, LEARNED, short, np.ones(3))
    # A kernel that is better without a trend is no reason for one.
    level = Rows(rows.X, rows.Y - 3.0 * rows.X[:, [2]])
    assert trend_pays(rows, columns, LEARNED, LEARNED, np.ones(3))
    assert not trend_pays(level, columns, replace(LEARNED, noise_variance=20.0), LEARNED, np.ones(3))


@pytest.mark.parametrize(
    ("of_rows", "of_regions", "pays"),
    [
        ([0.3, 0.4, 0.5], [0.1, 0.2], True),
        ([0.3, 0.4, 0.5], [-0.2, -0.3], True),  # by the mean of both
        ([0.3, 0.4, 0.5], [-0.6, -0.7], False),
        ([0.1, -0.9, 0.9], [3.0, 3.1], False),  # within the error of the mean over rows
        ([0.3, 0.4, 0.5], [4.0, -4.2], False),  # within the error of the mean of both
        ([0.0, 0.0, 0.0], [0.0, 0.0], False),
        ([0.0101, 0.0101, 0.0101], [0.1, 0.1], True),
        ([0.0099, 0.0099, 0.0099], [4.0, 4.0], False),
        ([0.3, 0.4, 0.5], [], True),
    ],
)
def test_a_trend_gains_a_hundredth_and_more_than_its_standard_error(
    of_rows: list[float], of_regions: list[float], pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def densities(validation: Validation, *_: object) -> list[Floats]:
        sign = float(validation.rows.n_targets > 1)  # the columns of a trend stand behind the target
        return [sign * np.array(of_rows), sign * np.array(of_regions)]

    monkeypatch.setattr(Validation, "densities", densities)
    rows = rows_of(100)
    assert trend_pays(rows, np.array([2]), LEARNED, LEARNED, np.ones(3)) == pays


class TestGPRegressor:
    @pytest.mark.slow
    def test_finds_the_column_and_predicts_beyond_it(self) -> None:
        rows = rows_of(300)
        far = rows_of(200, seed=1)
        far.X[:, 2] += 6.0
        truth = np.sin(far.X[:, 0]) + np.cos(far.X[:, 1]) + 3.0 * far.X[:, 2]
        auto, constant = (
            GPRegressor(kernel="matern52", trend=trend, noise="normal", random_state=0).fit(rows.X, rows.Y[:, 0])
            for trend in ("auto", "constant")
        )
        assert auto.trend_ is not None
        assert auto.trend_.names == ("x2",)
        assert auto.model_.trend == [2]
        np.testing.assert_allclose(auto.model_.predict(far.X), auto.predict(far.X))
        assert constant.trend_ is None
        errors = [np.std(model.predict(far.X) - truth) for model in (auto, constant)]
        assert errors[0] < 0.7 * errors[1]

    @pytest.mark.parametrize("more", [{"kernel": KERNEL}, {"average": True}, {"two": True}, {"slope": 0.0}])
    def test_is_that_of_a_constant_elsewhere(self, more: dict[str, object]) -> None:
        more = dict(more)
        rows = rows_of(150, slope=more.pop("slope", 3.0))
        y = np.column_stack((rows.Y, rows.Y[::-1])) if more.pop("two", False) else rows.Y[:, 0]
        given = {"kernel": "matern52", "noise": "normal", "random_state": 0} | more
        auto, constant = (GPRegressor(trend=trend, **given).fit(rows.X, y) for trend in ("auto", "constant"))
        assert auto.trend_ is None
        assert auto.model_.trend == "constant"
        np.testing.assert_array_equal(auto.predict(rows.X), constant.predict(rows.X))

    @pytest.mark.slow
    def test_kernels_with_and_without_a_lengthscale_are_compared(self) -> None:
        """Of what a trend leaves, a pure season, a periodic kernel is the likelier one."""
        x = np.arange(200.0)[:, None]
        y = 0.05 * x[:, 0] + np.sin(np.pi * x[:, 0] / 6.0) + 0.1 * np.random.default_rng(0).normal(size=200)
        model = GPRegressor(kernel=["gaussian", "periodic"], noise="normal", random_state=0).fit(x, y)
        assert model.learning_.chosen.kernel == "periodic"

    @pytest.mark.slow
    def test_has_the_trend_of_a_robust_fit(self) -> None:
        rows = rows_of(300)
        y = rows.Y[:, 0] + np.where(np.random.default_rng(3).uniform(size=300) < 0.05, 3.0, 0.0)
        model = GPRegressor(kernel="matern52", noise="robust", random_state=0).fit(rows.X, y)
        assert model.trend_ is not None
        assert model.trend_.names == ("x2",)
        assert abs(model.trend_.coef[0] - 3.0) < 5.0 * model.trend_.coef_error[0]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::lmgp.errors.DuplicateRowsWarning")
def test_whole_weights_are_copies() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 4.0, (130, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.35 * X[:, 1] + 0.5 * rng.normal(size=130)
    counts = rng.integers(1, 4, 130)
    copies, given = np.repeat(np.arange(130), counts), {"kernel": "matern32", "noise": "normal", "ard": False}
    weighted = GPRegressor(**given).fit(X, y, sample_weight=counts)
    repeated = GPRegressor(**given).fit(X[copies], y[copies])
    assert weighted.trend_ is not None
    assert repeated.trend_ is not None
    assert weighted.trend_.names == repeated.trend_.names
