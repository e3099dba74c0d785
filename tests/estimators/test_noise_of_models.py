"""The distribution of new observations in models: what is predicted with it, and which rows tell it."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    ResidualGPRegressor,
    SpectralGPRegressor,
    TransformedTargetGPRegressor,
)
from lmgp.data import Rows
from lmgp.errors import InputError
from lmgp.estimators.rows_left_out import left_out
from lmgp.learning.engine import Settings, learn_rows

N = 400
GIVEN: dict[str, Any] = {"kernel": MaternKernel(2.0, smoothness=2.5), "noise_variance": 0.02, "random_state": 0}


def made(n: int, seed: int = 0, degrees: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and targets whose errors are a t of a scale that varies."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (n, 2))
    return X, np.sin(X).sum(axis=1) + 0.1 * np.exp(np.sin(X[:, 0])) * rng.standard_t(degrees, n)


X, Y = made(N)
NEW, NEW_Y = made(4000, 1)
MODELS: dict[str, Any] = {
    "exact": ExactGPRegressor(**GIVEN),
    "chosen": GPRegressor(**GIVEN),
    "nearest": NearestNeighborsGPRegressor(40, **GIVEN),
    "residual": ResidualGPRegressor(NystroemFeatures(30), 40, **GIVEN),
    "nystroem": FeaturizedGPRegressor(NystroemFeatures(60), **GIVEN),
    "spectral": SpectralGPRegressor(1e-3, **GIVEN),
    "trend": ExactGPRegressor(trend="linear", **GIVEN),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_what_is_predicted_is_of_one_distribution(name: str) -> None:
    model = clone(MODELS[name]).set_params(noise="varying").fit(X, Y)
    plain = clone(MODELS[name]).set_params(noise="normal").fit(X, Y)
    T, y = NEW[:300], NEW_Y[:300]
    mean, latent = plain.predict(T, return_std=True)
    observed = model.predict_distribution(T)
    scale = model.noise_.scale(T, mean, np.hypot(latent, np.sqrt(plain.noise_variance_)))
    expected = stats.t(model.noise_.degrees, mean, scale)
    for method, arguments in (("logpdf", y), ("cdf", y), ("ppf", 0.9)):
        np.testing.assert_allclose(
            getattr(observed, method)(arguments), getattr(expected, method)(arguments), rtol=1e-9
        )
    found = model.predict(T, return_std=True, include_noise=True)
    np.testing.assert_allclose(found, (expected.mean(), expected.std()), rtol=1e-9)
    np.testing.assert_allclose(model.predict(T, return_std=True), (mean, latent), rtol=1e-12)
    np.testing.assert_allclose(model.predict_interval(T, 0.8), expected.interval(0.8), rtol=1e-9)
    np.testing.assert_allclose(model.predict_quantile(T, [0.1, 0.7]).T, expected.ppf([[0.1], [0.7]]), rtol=1e-9)
    np.testing.assert_allclose(model.predict_exceedance(T, y), expected.sf(y), rtol=1e-9)
    function = model.predict_distribution(T, include_noise=False)
    np.testing.assert_allclose(function.ppf(0.3), stats.norm.ppf(0.3, mean, latent), rtol=1e-9)
    _, std, covariance = model.predict(T[:5], return_std=True, include_noise=True, return_cov=True)
    np.testing.assert_allclose(std, expected.std()[:5], rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(covariance.diagonal()), std, rtol=1e-9)
    apart = ~np.eye(5, dtype=bool)
    _, of_function = model.predict(T[:5], return_cov=True)
    # Correlations are those of the process with normal noise.
    shares = std / np.sqrt(of_function.diagonal() + plain.noise_variances_)
    np.testing.assert_allclose(covariance[apart], (of_function * np.outer(shares, shares))[apart], rtol=1e-9)


def test_it_predicts_better_and_is_calibrated_at_all_levels() -> None:
    model, plain = (clone(MODELS["exact"]).set_params(noise=noise).fit(X, Y) for noise in ("auto", "normal"))
    assert model.noise_.name == "varying"
    observed, normal = (one.predict_distribution(NEW) for one in (model, plain))
    assert observed.logpdf(NEW_Y).mean() > normal.logpdf(NEW_Y).mean() + 0.1
    pit = observed.cdf(NEW_Y)
    for level in (0.5, 0.8, 0.95):
        assert abs(np.mean(np.abs(2.0 * pit - 1.0) <= level) - level) < 0.04
    lower, upper = model.predict_interval(NEW, 0.8, method="conformal")
    assert abs(np.mean((lower <= NEW_Y) & (upper >= NEW_Y)) - 0.8) < 0.05
    assert abs(model.loo_.coverage(0.8) - 0.8) < 0.05
    assert model.loo_.nlpd < plain.loo_.nlpd
    np.testing.assert_allclose(model.loo_.mean, plain.loo_.mean)


@pytest.mark.slow
def test_the_truth_is_found_from_5000_rows() -> None:
    rows, y = made(5000, 2)
    model = NearestNeighborsGPRegressor(60, noise="auto", **GIVEN).fit(rows, y)
    assert model.noise_.degrees == pytest.approx(4.0, rel=0.2)
    scale = model.predict_distribution(NEW).kwds.get("scale", model.predict_distribution(NEW).args[-1])
    assert np.corrcoef(np.log(scale), np.sin(NEW[:, 0]))[0, 1] > 0.9


def test_draws_have_the_distribution_of_each_row_and_the_correlations_of_the_process() -> None:
    model = clone(MODELS["exact"]).set_params(noise="varying").fit(X, Y)
    T = np.array([[1.0, 1.0], [1.1, 1.0], [4.0, 5.0]])
    drawn = model.sample_y(T, 20_000, include_noise=True)
    observed = model.predict_distribution(T)
    for q in (0.05, 0.5, 0.9):
        np.testing.assert_allclose(np.mean(drawn <= observed.ppf(q)[:, None], axis=1), q, atol=0.012)
    normal = clone(model).set_params(noise="normal").fit(X, Y).sample_y(T, 20_000, include_noise=True)
    found, expected = (stats.spearmanr(draws.T).statistic for draws in (drawn, normal))
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.slow
def test_draws_of_an_average_have_the_distribution_of_each_row() -> None:
    """Standardised as a whole, draws of one of its parts may lie ten deviations out, where a t has no end."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(0.0, 3.0, (40, 1))
    y = np.sin(2.0 * rows[:, 0]) + 0.2 * rng.standard_t(2.2, 40)
    model = GPRegressor(random_state=0, noise="student", trend="constant").fit(rows, y)
    T = np.array([[1.5], [3.5], [5.0]])
    drawn, observed = model.sample_y(T, 20_000, include_noise=True), model.predict_distribution(T)
    for q in (0.25, 0.005, 0.0005):
        found = np.mean(drawn <= observed.ppf(q)[:, None], axis=1)
        np.testing.assert_allclose(found, q, atol=3.0 * np.sqrt(q / 20_000) + 1e-4)


def test_the_covariance_of_observations_has_the_correlations_of_the_process() -> None:
    rng = np.random.default_rng(0)
    rows = np.linspace(0.0, 6.0, 300)[:, None]
    y = np.sin(rows[:, 0]) + np.where(rows[:, 0] < 3.0, 0.02, 1.0) * rng.normal(size=300)
    model = ExactGPRegressor(GaussianKernel(1.0), 0.5, noise="varying").fit(rows, y)
    T = rows[:100:5]
    _, std, covariance = model.predict(T, return_std=True, return_cov=True, include_noise=True)
    np.testing.assert_allclose(np.diag(covariance), std**2)
    latent = model.predict(T, return_cov=True)[1]
    normal = np.sqrt(np.diag(latent) + model.noise_variance_)
    expected = latent / np.outer(normal, normal)
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(covariance / np.outer(std, std), expected, rtol=1e-8)


def test_rows_left_out_are_those_of_closed_forms() -> None:
    model = clone(MODELS["exact"]).fit(X, Y)
    ((rows, y, means, std, alone),) = left_out(model._fitted)
    assert alone
    assert len(rows) == N
    order = np.argsort(Y)  # whatever the order is in which rows come
    np.testing.assert_allclose(rows.X, X[order])
    np.testing.assert_allclose(y[:, 0], Y[order], rtol=1e-12)
    others = np.arange(N) != order[7]
    kernel, noise = model.kernel_, model.noise_variance_
    one = ExactGPRegressor(kernel, noise).fit(X[others], Y[others], center=Y.mean())
    expected = one.predict(X[order[7:8]], return_std=True, include_noise=True)
    np.testing.assert_allclose((means[7, 0], std[7, 0]), np.ravel(expected), rtol=1e-8)


def test_neighbourhoods_are_predicted_from_around_them() -> None:
    rows, y = made(2500, 3)
    model = NearestNeighborsGPRegressor(40, **GIVEN).fit(rows, y)
    alone, *regions = left_out(model._fitted)
    assert [part[-1] for part in (alone, *regions)] == [True] + 6 * [False]
    assert np.mean(regions[0][3]) > 1.02 * np.mean(alone[3])  # farther from the rows that predict them
    _, *fewer = left_out(NearestNeighborsGPRegressor(5, **GIVEN).fit(rows, y)._fitted)
    for of_forty, of_five in zip(regions, fewer, strict=True):  # some of the same rows predict each
        np.testing.assert_array_equal(of_five[0].X, of_forty[0].X)
        assert np.all(of_five[3] >= of_forty[3] * (1.0 - 1e-9))
        assert np.mean(of_five[3]) > 1.001 * np.mean(of_forty[3])


@pytest.mark.parametrize(
    ("arguments", "likelihood"),
    [
        ({"noise": "auto"}, "vecchia, t"),
        ({"noise": "student"}, "vecchia, t"),
        ({"noise": "normal"}, "vecchia"),
        ({"noise": "auto", "noise_variance": 0.02}, "vecchia"),
        ({"noise": "auto", "max_learning_rows": N}, "vecchia, t"),
        ({"noise": "normal", "max_learning_rows": N}, "exact"),
        ({"noise": "auto", "noise_variance": 0.02, "max_learning_rows": N}, "exact"),
    ],
)
def test_kernels_are_learned_under_a_t_where_the_noise_may_have_one(arguments: Any, likelihood: str) -> None:
    fixed = NearestNeighborsGPRegressor(40, kernel="matern52", max_learning_rows=100, random_state=0)
    assert clone(fixed).set_params(**arguments).fit(X, Y).learning_.chosen.likelihood == likelihood


@pytest.mark.parametrize("likelihood", ["auto", "exact"])
def test_comparisons_by_the_exact_likelihood_take_normal_errors(likelihood: Any) -> None:
    rows = Rows(X, Y - Y.mean())
    learned = learn_rows(rows, Settings("matern52", likelihood=likelihood, tails=True))
    assert learned.learning.chosen.likelihood == ("exact" if likelihood == "exact" else "vecchia, t")
    assert np.isfinite(learned.degrees) == (likelihood == "auto")


@pytest.mark.parametrize("learned", [False, True])
def test_each_of_several_targets_has_its_own(learned: bool) -> None:
    targets = np.column_stack((Y, 50.0 * np.cos(X[:, 0]) + np.random.default_rng(0).normal(size=N)))
    given = {"kernel": "matern52", "random_state": 0} if learned else GIVEN
    rows = slice(0, 80 if learned else N)
    model = ExactGPRegressor(noise="student", **given).fit(X[rows], targets[rows])
    first, second = model.noise_
    assert first.degrees < second.degrees
    mean, std = model.predict(NEW[:9], return_std=True, include_noise=True)
    observed = model.predict_distribution(NEW[:9])
    np.testing.assert_allclose(observed.std(), std)
    assert observed.logpdf(mean).shape == (9, 2)
    lower, upper = model.predict_interval(NEW[:9], 0.9, method="conformal")
    assert np.all(lower < mean)
    assert np.all(mean < upper)
    if not learned:
        one = ExactGPRegressor(noise="student", **given).fit(X, targets[:, 0])
        assert one.noise_.degrees == pytest.approx(first.degrees, rel=1e-6)


def test_weights_count() -> None:
    weights = np.where(X[:, 0] < 3.0, 1.0, 0.0)
    kept = weights > 0.0
    model, other = (
        ExactGPRegressor("matern52", noise="student", random_state=0).fit(*arguments)
        for arguments in ((X[:200], Y[:200], weights[:200]), (X[:200][kept[:200]], Y[:200][kept[:200]]))
    )
    assert model.noise_.n_rows == other.noise_.n_rows == np.count_nonzero(kept[:200])
    assert model.noise_.degrees == pytest.approx(other.noise_.degrees, rel=1e-3)


@pytest.mark.slow
def test_rows_that_were_kept_back_tell_it_too() -> None:
    model = FeaturizedGPRegressor(NystroemFeatures(60), **GIVEN).fit(X, Y)
    before = model.predict(NEW[:9], return_std=True)
    assert model.noise_.name == "normal"
    assert model.calibrate(NEW[:2000], NEW_Y[:2000]) is model
    np.testing.assert_array_equal(model.predict(NEW[:9], return_std=True), before)
    assert model.noise_.name == "varying"
    assert model.noise_.n_rows == 2000
    pit = model.predict_distribution(NEW[2000:]).cdf(NEW_Y[2000:])
    assert abs(np.mean(np.abs(2.0 * pit - 1.0) <= 0.5) - 0.5) < 0.04
    model.partial_fit(NEW[:5], NEW_Y[:5])
    assert model.noise_.name == "varying"
    with pytest.raises(InputError, match="calibrate needs 30 rows at least; got 3"):
        model.calibrate(X[:3], Y[:3])


def test_few_rows_and_unknown_names() -> None:
    model = GPRegressor(**GIVEN).fit(X[:29], Y[:29])
    assert str(model.noise_) == "normal: 29 rows are too few to tell; 30 are needed."
    with pytest.raises(InputError, match=r"noise must be one of .*got 'studnet': did you mean 'student'\?"):
        GPRegressor(noise="studnet", **GIVEN).fit(X, Y)
    with pytest.raises(InputError, match="method must be 'distribution' or, with include_noise=True, 'conformal'"):
        model.predict_interval(X[:3], method="ranks")
    with pytest.raises(InputError, match=r"this model has 0\. Fit with noise='auto'"):
        model.predict_interval(X[:3], method="conformal")


def test_a_function_without_noise_has_a_sensible_one() -> None:
    y = np.sin(X[:, 0])
    for noise in ("student", "auto"):
        model = ExactGPRegressor(GaussianKernel(1.5), 1e-6, noise=noise).fit(X, y)
        std = model.predict(NEW[:50], return_std=True, include_noise=True)[1]
        assert np.all(np.isfinite(std))
        assert np.all(std > 0.0)
        assert np.all(std < 1e-2)


def test_a_logarithm_has_the_density_of_a_warped_t() -> None:
    price = np.exp(Y)
    model = TransformedTargetGPRegressor(ExactGPRegressor(noise="varying", **GIVEN)).fit(X, price)
    of_z, y = model.regressor_.predict_distribution(NEW[:50]), np.exp(NEW_Y[:50])
    observed = model.predict_distribution(NEW[:50])
    np.testing.assert_allclose(observed.logpdf(y), of_z.logpdf(np.log(y)) - np.log(y), rtol=1e-12)
    np.testing.assert_allclose(model.predict_quantile(NEW[:50], 0.8), np.exp(of_z.ppf(0.8)), rtol=1e-12)
    np.testing.assert_allclose(model.predict_interval(NEW[:50], 0.9), observed.interval(0.9), rtol=1e-12)
    np.testing.assert_allclose(model.predict_exceedance(NEW[:50], 1.3), of_z.sf(np.log(1.3)), rtol=1e-12)
    np.testing.assert_allclose(observed.cdf(observed.ppf(0.3)), 0.3, rtol=1e-9)
    np.testing.assert_allclose(observed.isf(0.7), observed.ppf(0.3), rtol=1e-9)
    np.testing.assert_allclose(observed.sf(y) + observed.cdf(y), 1.0)
    # Means are those of the normal distribution of z: a log t has none.
    (mean, latent), (_, std) = (
        model.regressor_.predict(NEW[:50], return_std=True, include_noise=which) for which in (False, True)
    )
    noise = 0.02 * std**2 / (latent**2 + 0.02)
    np.testing.assert_allclose(model.predict(NEW[:50]), np.exp(mean + 0.5 * (latent**2 + noise)), rtol=1e-9)
    assert model.loo_.coverage(0.8) == pytest.approx(model.regressor_.loo_.coverage(0.8))


def test_folds_of_rows_with_equal_targets_are_the_same_in_any_order() -> None:
    X, y = made(150)
    y, order = np.round(y, 1), np.random.default_rng(2).permutation(150)
    assert len(np.unique(y)) < 60
    model = GPRegressor(**GIVEN, noise="robust")
    found = [clone(model).fit(X[some], y[some]).predict_distribution(NEW[:50]) for some in (np.arange(150), order)]
    np.testing.assert_allclose(found[0].std(), found[1].std(), rtol=1e-6)
    np.testing.assert_allclose(found[0].mean(), found[1].mean(), rtol=1e-6)
