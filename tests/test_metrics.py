"""The metrics against closed forms, quadrature, simulation and 60-digit arithmetic."""

import math
import warnings
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from sklearn.metrics import root_mean_squared_error

from lmgp.errors import InputError
from lmgp.metrics import coverage, crps, kl_divergence, nlpd, rmse

# mean_p, variance_p, mean_q, variance_q
PAIRS = [
    (0.0, 1.0, 0.0, 2.0),
    (0.3, 0.5, -0.4, 0.8),
    (-2.0, 3.0, 1.0, 1.2),
    (10.0, 0.01, 10.05, 0.02),
    (0.0, 4.0, 1.0, 4.001),
    (1.0, 9.0, 1.0, 0.25),
]
# y, mean, variance
SCORED = [(0.0, 0.0, 1.0), (1.3, 0.2, 0.5), (-4.0, 1.0, 2.0), (2.0, 2.1, 1e-4), (100.0, 90.0, 400.0)]


def precise_kl(mean_p: float, variance_p: float, mean_q: float, variance_q: float) -> float:
    """KL(p ‖ q) in 60 more digits than any cancellation here costs; Decimal(float) is exact."""
    with localcontext() as context:
        context.prec = 120
        mp, vp, mq, vq = (Decimal(float(value)) for value in (mean_p, variance_p, mean_q, variance_q))
        return float((vp / vq - 1 - (vp / vq).ln() + (mp - mq) ** 2 / vq) / 2)


# ------------------------------------------------------------------------------------------------------------------- KL


def test_kl_is_half_the_squared_distance_at_unit_variances() -> None:
    means = np.array([-2.0, 0.0, 0.5, 3.0])
    np.testing.assert_allclose(kl_divergence(means, np.ones(4), np.zeros(4), np.ones(4)), means**2 / 2, rtol=1e-15)


@pytest.mark.parametrize("pair", PAIRS)
def test_kl_is_the_integral_of_its_definition(pair: tuple[float, float, float, float]) -> None:
    mean_p, variance_p, mean_q, variance_q = pair
    p = stats.norm(mean_p, math.sqrt(variance_p))
    q = stats.norm(mean_q, math.sqrt(variance_q))
    reach = 12 * math.sqrt(variance_p)
    integral, _ = quad(
        lambda t: p.pdf(t) * (p.logpdf(t) - q.logpdf(t)), mean_p - reach, mean_p + reach, epsabs=1e-13, epsrel=1e-11
    )
    np.testing.assert_allclose(kl_divergence(*pair), [integral], rtol=1e-8, atol=1e-12)


def test_kl_has_the_direction_of_its_name() -> None:
    wide_against_narrow = kl_divergence(0.0, 4.0, 0.0, 1.0)[0]
    narrow_against_wide = kl_divergence(0.0, 1.0, 0.0, 4.0)[0]
    assert wide_against_narrow == pytest.approx((4 - 1 - math.log(4)) / 2, rel=1e-14)
    assert narrow_against_wide == pytest.approx((0.25 - 1 + math.log(4)) / 2, rel=1e-14)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("exponent", range(-16, 1))
def test_kl_of_tiny_differences_keeps_its_relative_accuracy(exponent: int, sign: float) -> None:
    rng = np.random.default_rng(exponent + 100)
    variance_q = rng.uniform(0.1, 10.0, 200)
    variance_p = variance_q * (1.0 + sign * 10.0**exponent * rng.uniform(0.2, 0.99, 200))
    mean = rng.normal(size=200)
    expected = [precise_kl(0.0, vp, 0.0, vq) for vp, vq in zip(variance_p, variance_q, strict=True)]
    np.testing.assert_allclose(kl_divergence(mean, variance_p, mean, variance_q), expected, rtol=2e-15, atol=0)


def test_kl_is_accurate_on_both_sides_of_the_cut_over() -> None:
    # The series ends at ratios 1/2 and 2: rounding neighbours of both, and a fine grid around them.
    ratios = np.concatenate([np.linspace(0.4, 0.6, 201), np.linspace(1.9, 2.1, 201), np.nextafter([0.5, 2.0], 0)])
    expected = [precise_kl(0.0, ratio, 0.0, 1.0) for ratio in ratios]
    np.testing.assert_allclose(kl_divergence(0.0, ratios, 0.0, 1.0), expected, rtol=4e-15, atol=0)


def test_kl_over_the_whole_range_of_variances() -> None:
    rng = np.random.default_rng(0)
    variance_p, variance_q = 10.0 ** rng.uniform(-140, 140, (2, 500))
    mean_p, mean_q = rng.normal(size=(2, 500)) * np.sqrt(variance_q) * 10.0 ** rng.uniform(-6, 6, (2, 500))
    expected = [precise_kl(*row) for row in zip(mean_p, variance_p, mean_q, variance_q, strict=True)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        computed = kl_divergence(mean_p, variance_p, mean_q, variance_q)
    np.testing.assert_allclose(computed, expected, rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    ("variance_p", "variance_q"), [(5e-324, 1.0), (5e-324, 1.7e308), (1e-20, 1.0), (3.0, 1e-300), (1e300, 1e-300)]
)
def test_kl_of_extreme_variances_is_exact_or_infinite(variance_p: float, variance_q: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        computed = kl_divergence(0.0, variance_p, 0.0, variance_q)
    # At the smallest subnormal the root of the ratio itself has only half of the digits.
    np.testing.assert_allclose(computed, [precise_kl(0.0, variance_p, 0.0, variance_q)], rtol=1e-10)


def test_kl_does_not_depend_on_the_units() -> None:
    expected = kl_divergence(1.0, 2.0, 3.0, 5.0)
    np.testing.assert_allclose(kl_divergence(1e-150, 2e-300, 3e-150, 5e-300), expected, rtol=1e-14)
    np.testing.assert_allclose(kl_divergence(1e150, 2e300, 3e150, 5e300), expected, rtol=1e-14)


def test_kl_is_zero_for_equal_and_never_negative_for_close_gaussians() -> None:
    rng = np.random.default_rng(1)
    mean, variance = rng.normal(size=10_000), rng.gamma(1.0, size=10_000)
    assert np.all(kl_divergence(mean, variance, mean, variance) == 0.0)
    assert np.all(kl_divergence(mean, np.nextafter(variance, np.inf), mean, variance) > 0.0)
    assert np.all(kl_divergence(mean, np.nextafter(variance, 0.0), mean, variance) > 0.0)


def test_kl_takes_floats_for_all_rows() -> None:
    means = np.array([0.5, 1.5, -3.0])
    np.testing.assert_array_equal(
        kl_divergence(means, 2.0, 0.0, np.float64(3.0)),
        kl_divergence(means, np.full(3, 2.0), np.zeros(3), np.full(3, 3.0)),
    )
    assert kl_divergence(0.0, 1.0, 1.0, 1.0).shape == (1,)
    assert kl_divergence([0], [1], [1], [2]).dtype == np.float64


# --------------------------------------------------------------------------------------------------------------- scores


def test_rmse() -> None:
    rng = np.random.default_rng(2)
    y, mean = rng.normal(size=(2, 50))
    assert rmse(y, mean) == pytest.approx(
        math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(y, mean, strict=True)) / 50), rel=1e-14
    )
    assert rmse(y, y) == 0.0
    assert type(rmse(y, mean)) is float


def test_nlpd_is_the_mean_of_scipy_densities() -> None:
    y, mean, variance = np.array(SCORED).T
    expected = -np.mean(stats.norm(mean, np.sqrt(variance)).logpdf(y))
    assert nlpd(y, mean, variance) == pytest.approx(expected, rel=1e-13)
    assert type(nlpd(y, mean, variance)) is float


@pytest.mark.parametrize(("m", "v"), [(0.3, 0.5), (-2.0, 4.0)])
def test_nlpd_is_the_logarithm_of_a_density_that_integrates_to_one(m: float, v: float) -> None:
    reach = 12 * math.sqrt(v)
    integral, _ = quad(lambda t: math.exp(-nlpd([t], [m], [v])), m - reach, m + reach, epsabs=1e-13)
    assert integral == pytest.approx(1.0, abs=1e-11)


def test_nlpd_in_other_units_gains_their_logarithm() -> None:
    y, mean, variance = np.array(SCORED).T
    gain = nlpd(1e3 * y, 1e3 * mean, 1e6 * variance) - nlpd(y, mean, variance)
    assert gain == pytest.approx(math.log(1e3), rel=1e-12)
    assert nlpd([0.0], [0.0], [1e308]) == pytest.approx(0.5 * (math.log(2 * math.pi) + 308 * math.log(10)), rel=1e-14)


@pytest.mark.parametrize("row", SCORED)
def test_crps_is_the_integral_of_its_definition(row: tuple[float, float, float]) -> None:
    y, mean, variance = row
    predictive = stats.norm(mean, math.sqrt(variance))
    reach = 12 * math.sqrt(variance) + abs(y - mean)
    nodes = [mean + k * math.sqrt(variance) for k in (-3, 0, 3)]
    below, _ = quad(lambda t: predictive.cdf(t) ** 2, mean - reach, y, points=nodes, epsabs=1e-13, limit=200)
    above, _ = quad(lambda t: predictive.sf(t) ** 2, y, mean + reach, points=nodes, epsabs=1e-13, limit=200)
    assert crps([y], [mean], [variance]) == pytest.approx(below + above, rel=1e-9)


def test_crps_is_the_mean_over_the_rows_and_scales_with_the_units() -> None:
    y, mean, variance = np.array(SCORED).T
    by_row = [crps([a], [b], [c]) for a, b, c in SCORED]
    assert crps(y, mean, variance) == pytest.approx(np.mean(by_row), rel=1e-14)
    assert crps(1e3 * y, 1e3 * mean, 1e6 * variance) == pytest.approx(1e3 * crps(y, mean, variance), rel=1e-13)
    assert type(crps(y, mean, variance)) is float


def test_crps_of_a_sharp_prediction_is_the_absolute_error() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert crps([3.0, -1.0], [1.0, 3.0], [1e-300, 5e-324]) == pytest.approx(3.0, rel=1e-15)
        assert crps([1e20], [0.0], [5e-324]) == 1e20


@pytest.mark.parametrize("level", [0.01, 0.5, 0.8, 0.95, 0.999])
def test_coverage_of_a_calibrated_prediction_is_its_level(level: float) -> None:
    n = 200_000
    rng = np.random.default_rng(3)
    mean, variance = rng.normal(size=n), rng.gamma(2.0, size=n)
    y = rng.normal(mean, np.sqrt(variance))
    tolerance = 4 * math.sqrt(level * (1 - level) / n)
    assert coverage(y, mean, variance, level) == pytest.approx(level, abs=tolerance)
    # The same data against half the variance: the test has the power to see a wrong width.
    expected = 2 * stats.norm.cdf(stats.norm.ppf((1 + level) / 2) * math.sqrt(0.5)) - 1
    assert coverage(y, mean, variance / 2, level) == pytest.approx(expected, abs=4 * math.sqrt(0.25 / n))


def test_coverage_counts_both_sides_and_defaults_to_95_percent() -> None:
    y = [1.9599, -1.9599, 1.9600, -1.9600, 5.0]
    assert coverage(y, [0.0] * 5, [1.0] * 5) == 0.4
    assert coverage([y_ * 3 + 7 for y_ in y], [7.0] * 5, [9.0] * 5) == 0.4
    assert coverage([0.0], [0.0], [1.0], level=1e-9) == 1.0


# --------------------------------------------------------------------------------------------------------------- inputs

CALLS = {
    kl_divergence: {"mean_p": [0.0, 1.0], "variance_p": [1.0, 2.0], "mean_q": [1.0, 1.0], "variance_q": [3.0, 1.0]},
    rmse: {"y": [0.0, 1.0], "mean": [1.0, 1.0]},
    nlpd: {"y": [0.0, 1.0], "mean": [1.0, 1.0], "variance": [3.0, 1.0]},
    crps: {"y": [0.0, 1.0], "mean": [1.0, 1.0], "variance": [3.0, 1.0]},
    coverage: {"y": [0.0, 1.0], "mean": [1.0, 1.0], "variance": [3.0, 1.0]},
}
ARGUMENTS = [(metric, name) for metric, arguments in CALLS.items() for name in arguments]
VARIANCES = [(metric, name) for metric, name in ARGUMENTS if name.startswith("variance")]


@pytest.mark.parametrize("metric", CALLS)
def test_arguments_are_not_changed(metric) -> None:
    arguments = {name: np.array(values) for name, values in CALLS[metric].items()}
    copies = {name: array.copy() for name, array in arguments.items()}
    for array in arguments.values():
        array.flags.writeable = False  # a change in place raises
    metric(**arguments)
    for name, array in arguments.items():
        np.testing.assert_array_equal(array, copies[name])


@pytest.mark.parametrize("metric", CALLS)
def test_lists_integers_and_float32_are_accepted(metric) -> None:
    arguments = CALLS[metric]
    expected = metric(**arguments)
    for dtype in (np.float32, np.int64):
        converted = {name: np.array(values, dtype=dtype) for name, values in arguments.items()}
        np.testing.assert_array_equal(metric(**converted), expected)


@pytest.mark.parametrize(("metric", "name"), ARGUMENTS)
@pytest.mark.parametrize("bad", [[0.5, 0.5, 0.5], [0.5], [[0.5], [0.5]], [[0.5, 0.5]]])
def test_other_shapes_are_refused_and_named(metric, name: str, bad: list) -> None:
    with pytest.raises(InputError) as caught:
        metric(**{**CALLS[metric], name: bad})
    assert f"{name} {np.shape(bad)}" in str(caught.value)


@pytest.mark.parametrize("metric", CALLS)
def test_columns_that_agree_are_one_target(metric) -> None:
    columns = {name: np.reshape(values, (2, 1)) for name, values in CALLS[metric].items()}
    if metric is kl_divergence:
        with pytest.raises(InputError, match="ravel"):
            metric(**columns)
    else:
        assert metric(**columns) == metric(**CALLS[metric])
    with pytest.raises(InputError, match="ravel"):
        metric(**{name: np.reshape(values, (2, 1, 1)) for name, values in CALLS[metric].items()})


@pytest.mark.parametrize(("metric", "name"), [(m, name) for m, name in ARGUMENTS if m is not kl_divergence])
def test_scalars_are_refused_where_rows_are_scored(metric, name: str) -> None:
    with pytest.raises(InputError, match="same shape"):
        metric(**{**CALLS[metric], name: 0.5})


@pytest.mark.parametrize("metric", CALLS)
def test_no_rows_are_refused(metric) -> None:
    with pytest.raises(InputError, match="at least one row"):
        metric(**{name: [] for name in CALLS[metric]})


@pytest.mark.parametrize(("metric", "name"), ARGUMENTS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_refused(metric, name: str, bad: float) -> None:
    with pytest.raises(InputError, match=f"^{name} must be finite; got .* in row 1 "):
        metric(**{**CALLS[metric], name: [1.0, bad]})


@pytest.mark.parametrize(("metric", "name"), VARIANCES)
@pytest.mark.parametrize("bad", [0.0, -0.0, -1e-12])
def test_variances_that_are_not_positive_are_refused(metric, name: str, bad: float) -> None:
    with pytest.raises(InputError, match=f"^{name} must be positive; got .* in row 1 "):
        metric(**{**CALLS[metric], name: [1.0, bad]})


@pytest.mark.parametrize("name", ["variance_p", "variance_q", "mean_p"])
def test_bad_scalars_of_the_divergence_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=name):
        kl_divergence(**{**CALLS[kl_divergence], name: math.nan})
    if name != "mean_p":
        with pytest.raises(InputError, match=f"{name} must be positive"):
            kl_divergence(**{**CALLS[kl_divergence], name: 0.0})


@pytest.mark.parametrize(("metric", "name"), ARGUMENTS)
@pytest.mark.parametrize("bad", [["a", "b"], [1j, 2j], np.array([1j, 2j]), [None, {}], [[1.0], [1.0, 2.0]]])
def test_what_is_no_real_number_is_refused(metric, name: str, bad) -> None:
    with pytest.raises(InputError, match=f"^{name} must"):
        metric(**{**CALLS[metric], name: bad})


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.5, 95, math.nan, math.inf, True, "0.95", None])
def test_levels_outside_the_open_unit_interval_are_refused(level) -> None:
    with pytest.raises(InputError, match="level must be"):
        coverage([0.0], [0.0], [1.0], level=level)


# ------------------------------------------------------------------------------------------------------ several targets


def test_of_several_targets_the_score_is_the_mean_of_theirs() -> None:
    rng = np.random.default_rng(0)
    y, mean, variance = rng.normal(size=(20, 3)), rng.normal(size=(20, 3)), rng.uniform(0.5, 2.0, (20, 3))
    y *= [1.0, 10.0, 100.0]
    for score in (nlpd, crps, coverage):
        each = [score(y[:, j], mean[:, j], variance[:, j]) for j in range(3)]
        assert score(y, mean, variance) == pytest.approx(np.mean(each), rel=1e-12)
    by_scikit_learn = root_mean_squared_error(y, mean, multioutput="uniform_average")
    assert rmse(y, mean) == pytest.approx(by_scikit_learn, rel=1e-12)
    with pytest.raises(InputError, match=r"variance must be positive; got -1 in row 1, target 2 \(1 such values of 60"):
        nlpd(y, mean, np.where(np.arange(60).reshape(20, 3) == 5, -1.0, 1.0))
    with pytest.raises(
        InputError, match=r"\(n,\), or \(n, t\) of several targets; got the shapes y \(20, 3\), mean \(20,\)"
    ):
        rmse(y, mean[:, 0])
    with pytest.raises(InputError, match=r"same shape \(n,\); got"):
        kl_divergence(mean, variance, mean, variance)


@pytest.mark.parametrize("metric", [nlpd, crps, coverage])
def test_standard_deviations_stand_for_their_squares(metric) -> None:
    y, mean, variance = (np.array(values) for values in zip(*SCORED, strict=True))
    assert metric(y, mean, std=np.sqrt(variance)) == pytest.approx(metric(y, mean, variance), rel=1e-12)


@pytest.mark.parametrize("given", [{"variance": 0.9}, {"std": [1.0, 1.0]}])
@pytest.mark.parametrize("metric", [nlpd, crps, coverage])
def test_a_distribution_takes_no_variance_beside_it(metric, given: dict) -> None:
    with pytest.raises(InputError, match=r"has its own variance: .* The level is coverage\(y, distribution, level=0.9"):
        metric([0.0, 1.0], stats.norm([0.0, 0.0], 1.0), **given)


def test_the_error_of_a_distribution_is_that_of_its_means() -> None:
    y, mean, variance = (np.array(values) for values in zip(*SCORED, strict=True))
    assert rmse(y, stats.norm(mean, np.sqrt(variance))) == rmse(y, mean)


@pytest.mark.parametrize("shape", [(3,), (3, 2)])
def test_the_crps_of_other_distributions_is_the_integral_of_its_definition(shape: tuple[int, ...]) -> None:
    y, of_each = np.array([0.5, 2.0, 9.0]), stats.gamma(2.0)
    expected = [
        quad(lambda z: of_each.cdf(z) ** 2, 0.0, one)[0] + quad(lambda z: of_each.sf(z) ** 2, one, np.inf)[0]
        for one in y
    ]
    of_all = stats.gamma(np.full(shape, 2.0))
    found = crps(np.broadcast_to(y, shape[::-1]).T, of_all)
    assert found == pytest.approx(np.mean(expected), rel=1e-4)


def test_the_crps_of_a_cauchy_distribution_is_that_of_a_t_with_one_degree() -> None:
    y = np.array([1.0, -3.0])
    assert crps(y, stats.t(1.0, np.zeros(2), 2.0)) == pytest.approx(crps(y, stats.cauchy(np.zeros(2), 2.0)), rel=1e-4)


def test_distributions_of_scipy_with_inverses_of_another_name_are_scored() -> None:
    y, mean, std = np.array([0.3, -1.2, 2.0]), np.array([0.0, 1.0, -1.0]), np.array([0.5, 1.0, 2.0])
    found = crps(y, stats.Normal(mu=mean, sigma=std))
    assert found == pytest.approx(crps(y, mean, std=std), rel=1e-4)


@pytest.mark.parametrize("metric", [nlpd, crps, coverage])
def test_one_distribution_for_all_rows_is_refused(metric) -> None:
    with pytest.raises(InputError, match="A distribution must have one entry a row"):
        metric([0.3, -1.2], stats.norm(0.0, 1.0))
