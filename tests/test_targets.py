"""Distributions of targets on another scale, against scipy and adaptive quadrature."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import lognorm, norm
from sklearn.preprocessing import FunctionTransformer, PowerTransformer

from lmgp.errors import InputError, NumericalError
from lmgp.estimators.warping import LogScale, Scale, TransformerScale, WarpedDistribution
from lmgp.metrics import pit

Y = np.random.default_rng(0).lognormal(0.5, 0.6, size=80)
MEAN, STD = np.array([0.4, -1.0, 1.2]), np.array([0.3, 0.8, 0.05])
TRANSFORMERS: dict[str, Any] = {
    "log": FunctionTransformer(np.log, inverse_func=np.exp),
    "falling": FunctionTransformer(lambda y: -np.log(y), inverse_func=lambda z: np.exp(-z)),
    "arcsinh": FunctionTransformer(np.arcsinh, inverse_func=np.sinh),
    "yeo_johnson": PowerTransformer(),
    "box_cox": PowerTransformer("box-cox"),
    "sqrt": FunctionTransformer(np.sqrt, inverse_func=lambda z: np.square(np.maximum(z, 0.0))),
    "minus_sqrt": FunctionTransformer(lambda y: -np.sqrt(y), inverse_func=lambda z: np.square(np.minimum(z, 0.0))),
}


def scale_of(name: str) -> Scale:
    shifts = {"closed_log": 0.0, "closed_log1p": 1.0}
    if name in shifts:
        return LogScale(shifts[name])
    return TransformerScale.of(TRANSFORMERS[name].fit(Y[:, None]), Y)


def warped(scale: Scale, mean: np.ndarray, std: np.ndarray) -> WarpedDistribution:
    return WarpedDistribution(norm(mean, std), norm(mean, std), scale)


def expected(function: Any, mean: float, std: float) -> float:
    """E[function(z)] by adaptive quadrature."""
    found, _ = quad(lambda t: function(mean + std * t) * norm.pdf(t), -9, 9, epsabs=1e-12, epsrel=1e-10, limit=200)
    return float(found)


@pytest.mark.parametrize("name", ["closed_log", "closed_log1p", "log", "falling", "arcsinh", "yeo_johnson"])
def test_moments_are_integrals(name: str) -> None:
    scale = scale_of(name)

    def inverse(z: float) -> float:
        return float(scale.inverse(np.array([z]))[0])

    for i, (mean, std) in enumerate(zip(MEAN, 0.7 * STD, strict=True)):
        first = expected(inverse, mean, std)
        second = expected(lambda z, first=first: (inverse(z) - first) ** 2, mean, std)
        assert scale.mean(MEAN, 0.7 * STD)[i] == pytest.approx(first, rel=1e-8)
        assert scale.std(MEAN, 0.7 * STD)[i] == pytest.approx(np.sqrt(second), rel=1e-6)


def test_the_closed_form_and_the_quadrature_agree() -> None:
    closed, by_nodes = scale_of("closed_log"), scale_of("log")
    y = np.array([0.5, 1.5, 3.0])
    for name, arguments in (
        ("mean", (MEAN, STD)),
        ("std", (MEAN, STD)),
    ):
        np.testing.assert_allclose(getattr(by_nodes, name)(*arguments), getattr(closed, name)(*arguments), rtol=1e-6)
    for name, values in (("mean", ()), ("std", ()), ("logpdf", (y,)), ("ppf", (0.2,)), ("cdf", (y,)), ("crps", (y,))):
        found, wanted = (getattr(scale.of_expectation(MEAN, STD, 0.4), name)(*values) for scale in (by_nodes, closed))
        np.testing.assert_allclose(found, wanted, rtol=1e-4 if name == "crps" else 1e-6)
    for name, argument in (("logpdf", y), ("ppf", 0.2), ("cdf", y)):
        found, wanted = (getattr(warped(scale, MEAN, STD), name)(argument) for scale in (by_nodes, closed))
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(by_nodes.crps(y, MEAN, STD), closed.crps(y, MEAN, STD), rtol=1e-4)


@pytest.mark.parametrize("name", ["closed_log", "log"])
def test_a_function_without_spread_is_a_point(name: str) -> None:
    found = scale_of(name).of_expectation(np.array([0.4]), np.zeros(1), 0.5)
    at = np.exp(0.4 + 0.5**2 / 2)  # E[exp(z)]
    np.testing.assert_allclose([found.mean(), found.ppf(0.1), found.ppf(0.9)], at, rtol=1e-9)
    assert [float(found.sf(factor * np.array([at]))[0]) for factor in (0.999, 1.001)] == [1.0, 0.0]


@pytest.mark.parametrize("name", ["closed_log", "falling"])
def test_densities_and_quantiles_are_those_of_scipy(name: str) -> None:
    scale, y = scale_of(name), np.array([0.5, 1.5, 3.0])
    mean = -MEAN if name == "falling" else MEAN
    textbook = lognorm(STD, scale=np.exp(MEAN))
    distribution = warped(scale, mean, STD)
    for method in ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf"):
        np.testing.assert_allclose(getattr(distribution, method)(y), getattr(textbook, method)(y), rtol=1e-7)
    for q in (0.025, 0.5, 0.9):
        np.testing.assert_allclose(distribution.ppf(q), textbook.ppf(q), rtol=1e-12)
        np.testing.assert_allclose(distribution.isf(q), textbook.isf(q), rtol=1e-12)
    np.testing.assert_allclose(distribution.median(), textbook.median(), rtol=1e-12)
    np.testing.assert_allclose(distribution.interval(0.8), textbook.interval(0.8), rtol=1e-12)
    np.testing.assert_allclose(distribution.mean(), textbook.mean(), rtol=1e-8)
    draws = distribution.rvs((20_000, 3), random_state=0)
    np.testing.assert_allclose(np.quantile(draws, 0.3, axis=0), textbook.ppf(0.3), rtol=0.05)


@pytest.mark.parametrize(("name", "ends"), [("log", (0.0, np.inf)), ("falling", (0.0, np.inf)), ("yeo_johnson", None)])
def test_the_quantiles_0_and_1_are_the_ends(name: str, ends: tuple[float, float] | None) -> None:
    low, high = warped(scale_of(name), MEAN, STD).interval(1.0)
    np.testing.assert_array_equal((low[0], high[0]), ends or (-np.inf, np.inf))


def test_the_score_is_the_integral_of_squared_differences() -> None:
    mean, std, y = 0.3, 0.6, 2.0
    cdf = lognorm(std, scale=np.exp(mean)).cdf
    truth = quad(lambda t: cdf(t) ** 2, 0, y)[0] + quad(lambda t: (1 - cdf(t)) ** 2, y, np.inf)[0]
    found = LogScale(0.0).crps(np.array([y]), np.array([mean]), np.array([std]))
    assert found[0] == pytest.approx(truth, rel=1e-7)
    # Of a target that the distribution cannot have, too.
    below = LogScale(0.0).crps(np.array([0.0]), np.array([mean]), np.array([std]))
    assert below[0] == pytest.approx(quad(lambda t: (1 - cdf(t)) ** 2, 0, np.inf)[0], rel=1e-7)


def test_densities_integrate_to_one() -> None:
    scale = scale_of("yeo_johnson")
    y = np.linspace(-0.9, 60.0, 20_001)
    mean, std = np.full(len(y), MEAN[0]), np.full(len(y), STD[0])
    total = np.trapezoid(warped(scale, mean, std).pdf(y), y)
    assert total == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(
    ("transformer", "told"),
    [
        (FunctionTransformer(np.square, inverse_func=np.sqrt), "FunctionTransformer is not strictly monotone"),
        (FunctionTransformer(np.round, inverse_func=np.round), "not strictly monotone on the targets: 80 different"),
        (FunctionTransformer(np.exp), r"inverse_transform of FunctionTransformer makes .* inverse_func=lambda z"),
        (FunctionTransformer(np.sqrt, inverse_func=np.square), "makes nan of the target"),
    ],
)
def test_transformers_that_do_not_serve_are_refused(transformer: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        TransformerScale.of(transformer, Y - 1.0)


def test_targets_without_a_logarithm_are_refused() -> None:
    y = np.array([1.0, 2.0, 0.0])
    with pytest.raises(InputError, match=r"'log' needs targets that are positive; got 0 in row 2\. Give .*\"log1p\""):
        LogScale(0.0).check(y)
    LogScale(1.0).check(y)
    with pytest.raises(InputError, match=r"'log1p' needs targets that are greater than -1; got -4 in row 2\. Leave"):
        LogScale(1.0).check(y - 4.0)
    scale = scale_of("log")
    with pytest.raises(InputError, match="makes no finite number of the target 0 in row 2"):
        scale.check(y)


@pytest.mark.parametrize("name", ["closed_log", "log", "falling", "box_cox", "sqrt", "minus_sqrt"])
def test_beyond_all_targets_the_probability_is_0_or_1(name: str) -> None:
    scale = scale_of(name)
    mean = scale.forward(np.full(3, 1.5))
    distribution, y = warped(scale, mean, STD), np.array([-1.0, 1.5, np.nan])
    np.testing.assert_array_equal(distribution.cdf(-1.0), np.zeros(3))
    np.testing.assert_array_equal(pit(y[[0, 0, 1]], distribution), [0.0, 0.0, distribution.cdf(1.5)[2]])
    np.testing.assert_allclose(distribution.cdf(y), [0.0, 0.5, np.nan], rtol=1e-9)
    np.testing.assert_allclose(distribution.sf(y), [1.0, 0.5, np.nan], rtol=1e-9)
    np.testing.assert_array_equal(scale.of_expectation(mean, STD, 0.1).sf(-1.0), np.ones(3))
    with pytest.raises(InputError, match=r"needs targets that are positive|makes no finite number of the target -1 in"):
        distribution.logpdf(-1.0)


def test_the_density_next_to_an_end_is_that_of_one_side() -> None:
    scale, y = scale_of("box_cox"), 1e-7 * Y.std()
    lambda_, of_z = scale.transformer.lambdas_[0], scale.transformer._scaler  # type: ignore[attr-defined]
    slope = (lambda_ - 1.0) * np.log(y) - np.log(of_z.scale_[0])
    np.testing.assert_allclose(scale.log_slope(np.array([y])), slope, rtol=1e-5)


@pytest.mark.parametrize("name", ["sqrt", "box_cox", "yeo_johnson"])
def test_targets_that_differ_by_rounding_are_one(name: str) -> None:
    y = np.append(Y, [0.3, 0.1 + 0.2])
    assert len(np.unique(y)) == len(Y) + 2
    assert TransformerScale.of(TRANSFORMERS[name].fit(y[:, None]), y).increasing


def test_what_hardly_happens_needs_no_inverse() -> None:
    scale = TransformerScale.of(
        FunctionTransformer(np.log, inverse_func=lambda z: np.exp(np.sqrt(z + 1.0) ** 2 - 1.0)), Y + 1.0
    )
    closed, std = LogScale(0.0), np.array([0.2])
    for moment in ("mean", "std"):
        found = [getattr(one, moment)(np.zeros(1), std) for one in (scale, closed)]
        np.testing.assert_allclose(*found, rtol=1e-4)  # z is below −1 with a probability of 3e-7
    crps = [one.crps(np.ones(1), np.zeros(1), std) for one in (scale, closed)]
    np.testing.assert_allclose(*crps, rtol=1e-4)
    of_function = [one.of_expectation(np.zeros(1), std / 2.0, 0.18).std() for one in (scale, closed)]
    np.testing.assert_allclose(*of_function, rtol=1e-3)
    with pytest.raises(NumericalError, match=r"has no inverse at .* above 1e-05"):
        scale.mean(np.zeros(1), 1.2 * std)  # with a probability of 2e-5


def test_an_inverse_that_ends_is_told() -> None:
    scale = TransformerScale.of(FunctionTransformer(lambda y: -1.0 / y, inverse_func=lambda z: -1.0 / z), Y)
    far = np.array([0.0]), np.array([1.0])
    assert warped(scale, *far).ppf(0.1)[0] > 0.0
    ends = TransformerScale.of(FunctionTransformer(np.tanh, inverse_func=np.arctanh), 0.2 * Y)
    with pytest.raises(NumericalError, match=r"has no inverse at .* Use predict_quantile"):
        ends.mean(*far)


@pytest.mark.parametrize("end", [0.0, 1e-9])
def test_the_slope_at_an_end_is_that_of_one_side(end: float) -> None:
    root = FunctionTransformer(np.sqrt, inverse_func=lambda z: np.square(np.maximum(z, 0.0)))
    y = np.append(Y, end)
    scale = TransformerScale.of(root, y)
    assert np.all(np.isfinite(warped(scale, np.ones(len(y)), np.ones(len(y))).logpdf(y)))
    near = Y if end == 0.0 else y
    np.testing.assert_allclose(scale.log_slope(near), -np.log(2.0 * np.sqrt(near)), atol=1e-8)
