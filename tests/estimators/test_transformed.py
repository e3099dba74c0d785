"""Gaussian processes of log y: in the units of y, against the model of log y and Monte Carlo."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import lognorm
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, StandardScaler

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LinearKernel,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.errors import InputError
from lmgp.metrics import crps_scorer, nlpd_scorer
from tests.conftest import GIVEN, draw

X, Z, T = draw(60)
Z = 0.3 * Z
Y = np.exp(Z)
EXACT = ExactGPRegressor(**GIVEN)


def model(transformer: Any = "log", y: np.ndarray = Y) -> TransformedTargetGPRegressor:
    return TransformedTargetGPRegressor(EXACT, transformer).fit(X, y)


def of_z(**options: Any) -> Any:
    return ExactGPRegressor(**GIVEN).fit(X, Z).predict(T, return_std=True, **options)


def test_predictions_are_those_of_a_log_normal_distribution() -> None:
    mean, std = of_z(include_noise=True)
    textbook = lognorm(std, scale=np.exp(mean))
    found = model().predict(T, return_std=True, include_noise=True)
    np.testing.assert_allclose(found, (textbook.mean(), textbook.std()), rtol=1e-10)
    np.testing.assert_array_equal(model().predict(T), found[0])
    np.testing.assert_allclose(model().predict_quantile(T, 0.5), np.exp(mean), rtol=1e-12)
    np.testing.assert_allclose(model().predict_quantile(T, [0.1, 0.7]), textbook.ppf([[0.1], [0.7]]).T, rtol=1e-10)
    np.testing.assert_allclose(model().predict_interval(T, 0.8), textbook.interval(0.8), rtol=1e-10)
    y = np.linspace(0.5, 3.0, len(T))
    distribution = model().predict_distribution(T)
    np.testing.assert_allclose(distribution.logpdf(y), textbook.logpdf(y), rtol=1e-10)
    np.testing.assert_allclose((distribution.mean(), distribution.std()), found, rtol=1e-10)


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.4, 1.0, 2.5])
def test_exceedance_of_a_log_normal_distribution(threshold: float) -> None:
    mean, std = of_z(include_noise=True)
    expected = lognorm(std, scale=np.exp(mean)).sf(threshold)
    np.testing.assert_allclose(model().predict_exceedance(T, threshold), expected, rtol=1e-9)


@pytest.mark.parametrize("include_noise", [True, False])
def test_a_threshold_is_one_number_or_one_a_row(include_noise: bool) -> None:
    limits = np.linspace(-0.5, 2.5, len(T))
    found = model().predict_exceedance(T, limits, include_noise)
    for row, limit, of_row in zip(T, limits, found, strict=True):
        expected = model().predict_exceedance([row], np.array(limit), include_noise)
        np.testing.assert_allclose(of_row, expected, rtol=1e-9)


@pytest.mark.parametrize("transformer", ["log", PowerTransformer("box-cox")])
@pytest.mark.parametrize("falling", [False, True])
def test_rows_of_weight_zero_are_absent(transformer: Any, falling: bool) -> None:
    weights = np.where(np.arange(60) % 3, 1.0, 0.0)
    y, kept = np.where(weights, 1.0 / Y if falling else Y, -1.0), weights > 0.0
    regressor = ExactGPRegressor(**GIVEN, noise="student")
    found = TransformedTargetGPRegressor(regressor, transformer).fit(X, y, weights).calibrate(X, y, weights)
    alone = TransformedTargetGPRegressor(regressor, transformer).fit(X[kept], y[kept]).calibrate(X[kept], y[kept])
    np.testing.assert_allclose(found.predict_interval(T), alone.predict_interval(T), rtol=1e-9)
    with pytest.raises(InputError, match=r"At least 2 rows of positive weight are needed"):
        TransformedTargetGPRegressor(EXACT).fit(X, Y, np.zeros(60))


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.4, 1.0, 2.5])
def test_exceedance_of_the_expectation_is_that_of_a_log_normal_one(threshold: float) -> None:
    (mean, whole), (_, latent) = of_z(include_noise=True), of_z()
    expected = lognorm(latent, scale=np.exp(mean + 0.5 * (whole**2 - latent**2))).sf(threshold)
    np.testing.assert_allclose(model().predict_exceedance(T, threshold, include_noise=False), expected, rtol=1e-9)
    # The same by quadrature and bisection, of a transformer whose mean has no closed form.
    by_rule = model(FunctionTransformer(np.log, inverse_func=np.exp))
    found = by_rule.predict_exceedance(T, threshold, include_noise=False)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("include_noise", [False, True])
@pytest.mark.parametrize(
    "transformer", ["log", FunctionTransformer(np.log, inverse_func=np.exp)], ids=["log", "by quadrature"]
)
def test_draws_have_the_moments_of_predictions_and_the_covariance_of_a_log_normal_process(
    transformer: Any, include_noise: bool
) -> None:
    found = model(transformer)
    draws = found.sample_y(T, 40_000, include_noise=include_noise)
    mean, std = found.predict(T, return_std=True, include_noise=include_noise)
    np.testing.assert_allclose(draws.mean(axis=1), mean, rtol=0.05)
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.2)
    of_logs = ExactGPRegressor(**GIVEN).fit(X, Z).predict(T, return_cov=True, include_noise=include_noise)[1]
    deviations = std / mean
    expected = np.expm1(of_logs) / np.outer(deviations, deviations)
    np.testing.assert_allclose(np.corrcoef(draws), expected, rtol=0.0, atol=0.05)


def test_draws_of_a_pipeline_are_of_its_rows() -> None:
    found = TransformedTargetGPRegressor(make_pipeline(StandardScaler(), EXACT)).fit(X, Y)
    scaler, end = found.regressor_
    np.testing.assert_array_equal(
        found.sample_y(T, 3, 1, include_noise=True), np.exp(end.sample_y(scaler.transform(T), 3, 1, include_noise=True))
    )


def test_a_covariance_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"return_cov=True is for Gaussian .*got it for a transformed target.*sample_y\(X"
    ):
        model().predict(T, return_cov=True)


def minus_log(y: np.ndarray) -> np.ndarray:
    return -np.log(y)


def exp_minus(z: np.ndarray) -> np.ndarray:
    return np.exp(-z)


@pytest.mark.parametrize("falling", [False, True])
def test_the_expectation_exceeds_its_quantile_with_the_probability_of_the_rest(falling: bool) -> None:
    found = model(FunctionTransformer(minus_log, inverse_func=exp_minus) if falling else "log1p")
    for q in (0.1, 0.5, 0.8):
        value = float(found.predict_quantile(T[:1], q, include_noise=False)[0])
        np.testing.assert_allclose(found.predict_exceedance(T[:1], value, include_noise=False), 1.0 - q, rtol=1e-6)


def test_exceedance_of_a_falling_function_is_above_a_quantile() -> None:
    found = model(FunctionTransformer(np.reciprocal, inverse_func=np.reciprocal), np.exp(0.1 * Z))
    median = float(found.predict_quantile(T[:1], 0.5)[0])
    np.testing.assert_allclose(found.predict_exceedance(T[:1], median), 0.5, rtol=1e-9)
    upper = float(found.predict_quantile(T[:1], 0.9)[0])
    np.testing.assert_allclose(found.predict_exceedance(T[:1], upper), 0.1, rtol=1e-9)


def test_without_noise_it_is_the_expectation_that_is_uncertain() -> None:
    rng = np.random.default_rng(0)
    mean, std = of_z()
    noise = np.sqrt(GIVEN["noise_variance"])
    functions = mean[:, None] + std[:, None] * rng.normal(size=(len(T), 200_000))
    expectations = np.exp(functions + noise**2 / 2)  # E[y | f]
    found = model().predict(T, return_std=True)
    np.testing.assert_allclose(found[0], expectations.mean(axis=1), rtol=0.02)
    np.testing.assert_allclose(found[1], expectations.std(axis=1), rtol=0.03)
    np.testing.assert_array_equal(found[0], model().predict(T, return_std=True, include_noise=True)[0])
    quantiles = model().predict_quantile(T, [0.1, 0.8], include_noise=False)
    np.testing.assert_allclose(quantiles, np.quantile(expectations, [0.1, 0.8], axis=1).T, rtol=0.02)
    np.testing.assert_array_equal(
        model().predict_interval(T, 0.6, include_noise=False), model().predict_quantile(T, [0.2, 0.8], False).T
    )


def test_the_distribution_without_noise_is_that_of_the_expectation() -> None:
    (mean, latent), y = of_z(), np.linspace(0.5, 3.0, len(T))
    textbook = lognorm(latent, scale=np.exp(mean + GIVEN["noise_variance"] / 2))
    found = model().predict_distribution(T, include_noise=False)
    for name, values in (
        ("mean", ()),
        ("std", ()),
        ("var", ()),
        ("logpdf", (y,)),
        ("cdf", (y,)),
        ("sf", (y,)),
        ("interval", (0.8,)),
    ):
        np.testing.assert_allclose(getattr(found, name)(*values), getattr(textbook, name)(*values), rtol=1e-9)
    np.testing.assert_allclose((found.mean(), found.std()), model().predict(T, return_std=True), rtol=1e-12)


@pytest.mark.parametrize("transformer", ["log", FunctionTransformer(np.log, inverse_func=np.exp)])
def test_an_expectation_that_is_known_is_a_point(transformer: Any) -> None:
    rows = np.linspace(-1.0, 1.0, 20)[:, None]  # a linear function has the value 0 at 0
    inner = ExactGPRegressor(LinearKernel(), noise_variance=0.1)
    found = TransformedTargetGPRegressor(inner, transformer).fit(rows, np.exp(rows[:, 0]))
    at = np.exp(np.log(np.exp(rows[:, 0])).mean() + 0.1 / 2)
    np.testing.assert_allclose(found.predict_interval([[0.0]], include_noise=False), at, rtol=1e-9)
    exceeded = [found.predict_exceedance([[0.0]], factor * at, include_noise=False)[0] for factor in (0.999, 1.001)]
    assert exceeded == [1.0, 0.0]


def test_calibrating_it_is_calibrating_the_model_of_logarithms_at_rows_of_its_pipeline() -> None:
    rng = np.random.default_rng(1)
    rows = rng.uniform(X.min(), X.max(), (400, X.shape[1]))
    logs = EXACT.fit(X, Z).predict(rows) + 0.5 * rng.standard_t(3, 400)  # wider than the noise of the fit
    weights = rng.choice([1.0, 2.0], 400)
    of_logs = ExactGPRegressor(**GIVEN, noise="student")
    found = TransformedTargetGPRegressor(make_pipeline(StandardScaler(with_std=False), of_logs)).fit(X, Y)
    before, (_, upper) = found.predict_quantile(T), found.predict_interval(T)
    assert found.calibrate(rows, np.exp(logs), weights) is found
    same = of_logs.fit(X, Z).calibrate(rows, logs, weights)
    assert same.noise_.degrees < 10.0
    for method in ("distribution", "conformal"):
        expected = np.exp(same.predict_interval(T, 0.8, method=method))
        np.testing.assert_allclose(found.predict_interval(T, 0.8, method=method), expected, rtol=1e-6)
    np.testing.assert_array_equal(found.predict_quantile(T), before)
    (mean, latent), (_, std) = (same.predict(T, return_std=True, include_noise=which) for which in (False, True))
    normal = same.noise_variance_
    variance = latent**2 + normal * std**2 / (latent**2 + normal)
    np.testing.assert_allclose(found.predict(T), np.exp(mean + variance / 2), rtol=1e-6)
    assert np.all(found.predict_interval(T)[1] > upper)
    with pytest.raises(InputError, match=r"needs targets that are positive; got -1 in row 3"):
        found.calibrate(rows, np.where(np.arange(400) == 3, -1.0, np.exp(logs)))
    with pytest.raises(InputError, match="calibrate needs 30 rows at least; got 3"):
        found.calibrate(rows[:3], np.exp(logs[:3]))
    with pytest.raises(NotFittedError):
        TransformedTargetGPRegressor().calibrate(rows, np.exp(logs))


@pytest.mark.parametrize("noise", ["student", "varying"])
def test_moments_are_by_the_noise_that_was_fitted(noise: Any) -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.0, 6.0, (600, 1))
    errors = (0.05 + 0.2 * rows[:, 0]) * rng.normal(size=600)
    inner = ExactGPRegressor(GaussianKernel(1.5), noise_variance=0.27, noise=noise)
    found = TransformedTargetGPRegressor(inner).fit(rows, np.exp(np.sin(rows[:, 0]) + errors))
    at = np.array([[0.5], [5.5]])
    (mean, latent), (_, with_noise) = (
        found.regressor_.predict(at, return_std=True, include_noise=which) for which in (False, True)
    )
    # What the fit makes of normal noise is made of the noise alone, not of the uncertainty of the function.
    times = with_noise / np.hypot(latent, np.sqrt(0.27))
    textbook = lognorm(np.hypot(latent, times * np.sqrt(0.27)), scale=np.exp(mean))
    observed = found.predict(at, return_std=True, include_noise=True)
    np.testing.assert_allclose(observed, (textbook.mean(), textbook.std()), rtol=1e-9)
    distribution = found.predict_distribution(at)
    np.testing.assert_allclose((distribution.mean(), distribution.std()), observed, rtol=1e-9)
    if noise == "varying":
        np.testing.assert_allclose(observed[0], np.exp(np.sin(at[:, 0]) + (0.05 + 0.2 * at[:, 0]) ** 2 / 2), rtol=0.15)
        lower, upper = found.predict_interval(at, 0.6827)
        assert np.all((observed[1] < 1.5 * (upper - lower)) & (observed[1] > (upper - lower) / 6.0))
    # The expectation has the same mean, by quadrature too, of any number of rows.
    by_rule = TransformedTargetGPRegressor(inner, FunctionTransformer(np.log, inverse_func=np.exp))
    by_rule.fit(rows, np.exp(np.sin(rows[:, 0]) + errors))
    many = np.linspace(0.0, 6.0, 4500)[:, None]
    expectation = found.predict_distribution(many, include_noise=False)
    np.testing.assert_allclose(expectation.mean(), found.predict(many), rtol=1e-9)
    np.testing.assert_allclose(by_rule.predict_distribution(many, include_noise=False).std(), expectation.std(), 1e-5)
    np.testing.assert_allclose(found.sample_y(at, 4000).mean(axis=1), observed[0], rtol=0.02)


def test_another_transformer_of_the_same_function_gives_the_same() -> None:
    other = model(FunctionTransformer(np.log, inverse_func=np.exp))
    for options in ({"include_noise": True}, {}):
        expected = model().predict(T, return_std=True, **options)
        np.testing.assert_allclose(other.predict(T, return_std=True, **options), expected, rtol=1e-6)
    densities = [one.predict_distribution(X).logpdf(Y) for one in (other, model())]
    np.testing.assert_allclose(*densities, rtol=1e-6)


def test_it_tells_which_columns_matter_for_z() -> None:
    fitted, of_z = model(), ExactGPRegressor(**GIVEN).fit(X, Z)
    np.testing.assert_allclose(fitted.importance_, of_z.importance_, rtol=1e-9)
    np.testing.assert_allclose(fitted.importance_error_, of_z.importance_error_, rtol=1e-9)
    with pytest.raises(AttributeError, match="not fitted"):
        _ = TransformedTargetGPRegressor(EXACT).importance_


def test_counts_that_may_be_zero() -> None:
    counts = np.floor(Y) - 1.0
    assert counts.min() == 0.0
    with pytest.raises(InputError, match="positive; got 0"):
        model(y=counts)
    found = model("log1p", counts)
    assert np.all(found.predict_interval(T)[0] > -1.0)
    expected = ExactGPRegressor(**GIVEN).fit(X, np.log1p(counts)).predict(T)
    np.testing.assert_allclose(found.predict_quantile(T, 0.5), np.expm1(expected), rtol=1e-12)


def test_scorers_see_the_distribution_of_y() -> None:
    fitted = model()
    mean, std = fitted.regressor_.predict(X, return_std=True, include_noise=True)
    assert nlpd_scorer(fitted, X, Y) == pytest.approx(lognorm.logpdf(Y, std, scale=np.exp(mean)).mean())
    samples = np.exp(mean + std * np.random.default_rng(0).normal(size=(4000, len(mean))))
    energy = np.abs(samples - Y).mean(axis=0) - np.abs(samples[::2] - samples[1::2]).mean(axis=0) / 2
    assert crps_scorer(fitted, X, Y) == pytest.approx(-energy.mean(), rel=0.03)
    weights = np.arange(len(Y))
    assert nlpd_scorer(fitted, X, Y, weights) == pytest.approx(
        np.average(fitted.predict_distribution(X).logpdf(Y), weights=weights)
    )


def test_searches_pipelines_and_frames() -> None:
    pipeline = make_pipeline(StandardScaler(), ExactGPRegressor(**GIVEN))
    search = GridSearchCV(
        TransformedTargetGPRegressor(pipeline),
        {"transformer": ["log", "log1p"], "regressor__exactgpregressor__kernel__lengthscale": [0.01, 1.0]},
        scoring=nlpd_scorer,
        cv=3,
    ).fit(X, Y)
    assert search.best_params_["regressor__exactgpregressor__kernel__lengthscale"] == 1.0
    frame = pd.DataFrame(X, columns=["a", "b"])
    fitted = TransformedTargetGPRegressor(EXACT).fit(frame, pd.Series(Y))
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(fitted.predict(frame), model().predict(X))
    inner = TransformedTargetGPRegressor(GridSearchCV(EXACT, {"noise_variance": [GIVEN["noise_variance"]]})).fit(X, Y)
    np.testing.assert_array_equal(inner.predict(X), model().predict(X))


def test_what_is_saved_predicts_the_same(tmp_path: Path) -> None:
    inner = FeaturizedGPRegressor(TaylorFeatures(20), **GIVEN)
    fitted = TransformedTargetGPRegressor(inner, "log1p").fit(X, Y)
    fitted.save(tmp_path / "model.lmgp")
    again = lmgp.load(tmp_path / "model.lmgp")
    for one, other in zip(
        fitted.predict(T, return_std=True, return_error=True),
        again.predict(T, return_std=True, return_error=True),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(fitted.predict_interval(T), again.predict_interval(T))
    own = model(FunctionTransformer(np.log, inverse_func=np.exp))
    with pytest.raises(InputError, match=r"its transformer\.func is the function log"):
        own.save(tmp_path / "other.lmgp")


def test_weights_and_noises_go_to_the_regressor() -> None:
    counts, noises = np.arange(1.0, 61.0), np.linspace(0.05, 0.3, 60)
    found = TransformedTargetGPRegressor(EXACT).fit(X, Y, counts, noises)
    expected = ExactGPRegressor(**GIVEN).fit(X, Z, counts, noises)
    np.testing.assert_allclose(found.predict_quantile(T, 0.5), np.exp(expected.predict(T)), rtol=1e-10)


def test_they_go_to_the_last_step_of_pipelines(capsys: pytest.CaptureFixture[str]) -> None:
    counts, noises = np.arange(1.0, 61.0), np.linspace(0.05, 0.3, 60)
    learned = ExactGPRegressor(GIVEN["kernel"], noise_variance=None)
    piped = make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), learned))
    found = TransformedTargetGPRegressor(piped).fit(X, Y, counts, noises, verbose=True)
    assert "a fit to 60 rows" in capsys.readouterr().err
    scaler = StandardScaler().fit(X)
    expected = learned.fit(scaler.transform(X), Z, counts, noises).predict(scaler.transform(T))
    np.testing.assert_allclose(found.predict_quantile(T, 0.5), np.exp(expected), rtol=1e-9)


def test_by_default_it_chooses_a_model() -> None:
    fitted = TransformedTargetGPRegressor(GPRegressor(kernel="gaussian", random_state=0)).fit(X, Y)
    assert fitted.score(X, Y) > 0.5
    assert type(TransformedTargetGPRegressor().regressor) is type(None)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: model("sqrt"), "'transformer' parameter of TransformedTargetGPRegressor must be"),
        (lambda: model(y=-Y), "needs targets that are positive; got"),
        (lambda: model(y=np.column_stack((Y, Y))), "y should be a 1d array"),
        (lambda: TransformedTargetGPRegressor(EXACT).fit(X, None), "requires y to be passed"),
        (lambda: model(y=Y.astype(object).astype(str).astype(object) + "x"), "y is not numeric"),
        (lambda: model().predict_interval(T, 95), "level must be a number strictly between 0 and 1; got 95"),
        (lambda: model().predict_quantile(T, 1.0), r"quantile must be a number strictly between 0 and 1, .* got 1\.0"),
        (lambda: model().predict_quantile(T, []), "quantile must be"),
        (lambda: model().predict_exceedance(T, np.nan), "threshold must be a finite number, .* got nan"),
        (lambda: model().predict_exceedance(T, "half"), "threshold must be a finite number, .* got 'half'"),
        (lambda: model().predict_exceedance(T, [1.0]), r"one number, or one a row, .* got shape \(1,\)"),
        (lambda: model().predict_quantile(T, "half"), "got 'half'"),
        (lambda: nlpd_scorer(model(), X, Y[:-1]), r"the shapes y \(59,\), the mean of the distribution \(60,\)"),
        (lambda: nlpd_scorer(model(), X, -Y), "needs targets that are positive"),
        (lambda: crps_scorer(model(), X, -Y), "needs targets that are positive"),
        (lambda: model().predict_interval(T, 0.9, False, "conformal"), "with include_noise=True, 'conformal'; got"),
        (lambda: TransformedTargetGPRegressor().predict(T), "not fitted yet"),
        (
            lambda: TransformedTargetGPRegressor().set_params(regressor__kernel=1),
            "None stands for GPRegressor",
        ),
    ],
)
def test_what_cannot_be_used_is_refused(call: Any, told: str) -> None:
    with pytest.raises((ValueError, NotFittedError), match=told):
        call()


@pytest.mark.parametrize("transformer", ["log", StandardScaler()])
def test_distributions_take_numbers_and_lists(transformer: Any) -> None:
    X = np.random.default_rng(0).uniform(0.0, 5.0, (60, 1))
    model = TransformedTargetGPRegressor(ExactGPRegressor(**GIVEN), transformer).fit(X, np.exp(np.sin(X[:, 0])))
    found = model.predict_distribution(X[:3])
    for method in ("sf", "cdf", "pdf", "logpdf", "crps"):
        expected = getattr(found, method)(np.full(3, 1.7))
        np.testing.assert_allclose(getattr(found, method)(1.7), expected)
        np.testing.assert_allclose(getattr(found, method)([1.7] * 3), expected)
    if transformer == "log":
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(found.cdf(0.0), np.zeros(3))
        with pytest.raises(InputError, match="needs targets that are positive; got -1 in row 0"):
            found.logpdf(-1.0)
