"""Scorers of predictive distributions, and metadata on their way through scikit-learn's searches."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import lognorm, norm, t
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lmgp import ExactGPRegressor, FeaturizedGPRegressor, GaussianKernel, NystroemFeatures, TransformedTargetGPRegressor
from lmgp.errors import InputError
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.metrics import DensityScorer, crps, crps_scorer, nlpd, nlpd_scorer
from tests.conftest import draw_normal

GIVEN: dict[str, Any] = {"kernel": GaussianKernel(1.2, 1.5), "noise_variance": 0.1}
X, Y = draw_normal(45, 2)
WEIGHTS = np.random.default_rng(1).integers(0, 3, 45)
EACH = pytest.mark.parametrize("scorer", [nlpd_scorer, crps_scorer], ids=str)


def by_quadrature(y: float, mean: float, std: float) -> float:
    below = quad(lambda t: norm.cdf(t, mean, std) ** 2, mean - 12 * std, y)[0]
    return below + quad(lambda t: norm.sf(t, mean, std) ** 2, y, mean + 12 * std)[0]


def test_they_score_the_predictive_distribution_with_noise() -> None:
    model = ExactGPRegressor(**GIVEN).fit(X[:30], Y[:30])
    mean, std = model.predict(X[30:], return_std=True)
    std = np.sqrt(std**2 + 0.1)
    assert nlpd_scorer(model, X[30:], Y[30:]) == pytest.approx(norm.logpdf(Y[30:], mean, std).mean(), rel=1e-12)
    expected = np.mean([by_quadrature(*row) for row in zip(Y[30:], mean, std, strict=True)])
    assert crps_scorer(model, X[30:], Y[30:]) == pytest.approx(-expected, rel=1e-7)


@EACH
def test_weights_are_repetitions(scorer: DensityScorer) -> None:
    model = ExactGPRegressor(**GIVEN).fit(X, Y)
    repeated = scorer(model, np.repeat(X, WEIGHTS, axis=0), np.repeat(Y, WEIGHTS))
    assert scorer(model, X, Y, WEIGHTS) == pytest.approx(repeated, rel=1e-12)
    assert scorer(model, X, Y) != pytest.approx(repeated, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("scorer", "score"), [(nlpd_scorer, nlpd), (crps_scorer, crps)], ids=["nlpd", "crps"])
def test_they_serve_in_cross_validations_of_pipelines(scorer: DensityScorer, score: Callable[..., float]) -> None:
    folds, pipeline = KFold(3), make_pipeline(StandardScaler(), ExactGPRegressor(**GIVEN))
    found = cross_val_score(pipeline, X, Y, scoring=scorer, cv=folds)
    for value, (train, test) in zip(found, folds.split(X), strict=True):
        mean, std = pipeline.fit(X[train], Y[train]).predict(X[test], return_std=True, include_noise=True)
        assert value == pytest.approx(-score(Y[test], mean, std**2), rel=1e-12)
    both = cross_validate(pipeline, X, Y, scoring={"one": scorer, "r2": "r2"}, cv=folds, n_jobs=2)
    np.testing.assert_allclose(both["test_one"], found, rtol=1e-10)
    assert str(pickle.loads(pickle.dumps(scorer))) == str(scorer)


@EACH
def test_a_search_by_them_weighs_the_noise_which_r2_does_not_see(scorer: DensityScorer) -> None:
    noisy = Y + np.random.default_rng(2).normal(size=45)
    model = FeaturizedGPRegressor(NystroemFeatures(20, random_state=0), **GIVEN)
    # Both have the same mean: the kernel's variance and the noise in proportion.
    grid = [{"noise_variance": [v], "kernel__variance": [v]} for v in (0.01, 1.0, 100.0)]
    search = GridSearchCV(model, grid, scoring=scorer, cv=3, error_score="raise").fit(X, noisy)
    assert search.best_params_ == {"noise_variance": 1.0, "kernel__variance": 1.0}
    by_mean = GridSearchCV(model, grid, cv=3).fit(X, noisy).cv_results_["mean_test_score"]
    np.testing.assert_allclose(by_mean, by_mean[0], rtol=1e-6)


@EACH
def test_a_model_is_asked_for_its_distribution(scorer: DensityScorer) -> None:
    model = ExactGPRegressor(**GIVEN, noise="student").fit(X, Y)
    distribution = model.predict_distribution(X)
    assert model.noise_.name == "student"
    losses = -distribution.logpdf(Y) if scorer is nlpd_scorer else np.array([by_integral(*row) for row in of_t(model)])
    assert scorer(model, X, Y) == pytest.approx(-losses.mean(), rel=1e-6)
    assert scorer(model, X, Y, WEIGHTS) == pytest.approx(-(WEIGHTS @ losses) / WEIGHTS.sum(), rel=1e-6)
    search = GridSearchCV(make_pipeline("passthrough", model), {}, cv=3).fit(X, Y)
    assert scorer(search, X, Y) == pytest.approx(-losses.mean(), rel=1e-6)


@EACH
def test_of_another_model_distributions_are_normal(scorer: DensityScorer) -> None:
    class Other:
        def predict(self, X: Any, return_std: bool = False, include_noise: bool = False) -> Any:
            assert return_std
            assert include_noise
            return X[:, 0], np.full(len(X), 2.0)

    score = nlpd if scorer is nlpd_scorer else crps
    assert scorer(Other(), X, Y) == pytest.approx(-score(Y, X[:, 0], np.full(45, 4.0)), rel=1e-12)


def of_t(model: Any) -> Any:
    """Each target, and the degrees, the location and the scale of its distribution."""
    mean, std = model.predict(X, return_std=True)
    scale = model.noise_.student.scale * np.sqrt(std**2 + model.noise_variance_)
    return zip(Y, [model.noise_.degrees] * len(Y), mean, scale, strict=True)


def by_integral(y: float, degrees: float, mean: float, scale: float) -> float:
    below = quad(lambda one: t.cdf(one, degrees, mean, scale) ** 2, -np.inf, y)[0]
    return below + quad(lambda one: t.sf(one, degrees, mean, scale) ** 2, y, np.inf)[0]


@EACH
def test_a_failure_of_a_model_that_has_one_is_its_own(scorer: DensityScorer) -> None:
    class Failing:
        def predict(self, X: Any, return_std: bool = False, include_noise: bool = False) -> Any:
            raise TypeError("unsupported operand")

    with pytest.raises(TypeError, match="unsupported operand"):
        scorer(Failing(), X, Y)


@EACH
def test_models_without_a_standard_deviation_are_refused(scorer: DensityScorer) -> None:
    with pytest.raises(
        InputError,
        match=r"need predict_distribution\(X\), or predict\(X, return_std=True, include_noise=True\).*LinearRegression",
    ):
        scorer(LinearRegression().fit(X, Y), X, Y)


def test_models_of_transformed_targets_of_scikit_learn_are_refused_with_the_cure() -> None:
    with pytest.raises(InputError, match=r"use lmgp\.TransformedTargetGPRegressor"):
        nlpd_scorer(TransformedTargetRegressor(ExactGPRegressor(**GIVEN)).fit(X, Y), X, Y)


def test_weights_and_noises_are_routed_to_the_model_and_the_scorer() -> None:
    noises = np.random.default_rng(3).uniform(0.05, 1.0, 45)
    folds = KFold(3)
    with config_context(enable_metadata_routing=True):
        model = ExactGPRegressor(**GIVEN).set_fit_request(sample_weight=True, noise_variances=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        found = cross_validate(
            make_pipeline(scaler, model),
            X,
            Y,
            cv=folds,
            scoring=nlpd_scorer.set_score_request(sample_weight=True),
            params={"sample_weight": WEIGHTS, "noise_variances": noises},
        )["test_score"]
    for value, (train, test) in zip(found, folds.split(X), strict=True):
        scaler = StandardScaler().fit(X[train])
        model = ExactGPRegressor(**GIVEN)
        model.fit(scaler.transform(X[train]), Y[train], WEIGHTS[train], noises[train])
        assert value == pytest.approx(nlpd_scorer(model, scaler.transform(X[test]), Y[test], WEIGHTS[test]), rel=1e-12)


def test_a_request_is_of_a_copy_and_can_have_another_name() -> None:
    asked = nlpd_scorer.set_score_request(sample_weight="counts")
    assert asked.get_metadata_routing().score.requests == {"sample_weight": "counts"}
    assert nlpd_scorer.get_metadata_routing().score.requests == {"sample_weight": None}


def test_weights_that_nobody_asked_for_are_refused_by_a_search() -> None:
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(ExactGPRegressor(**GIVEN), {"noise_variance": [0.1]}, cv=3)
        with pytest.raises(ValueError, match=r"sample_weight.*not explicitly set as requested"):
            search.fit(X, Y, sample_weight=WEIGHTS)


LOGS: dict[str, Any] = {
    "model": TransformedTargetGPRegressor(ExactGPRegressor(**GIVEN)),
    "pipeline": make_pipeline(StandardScaler(), TransformedTargetGPRegressor(ExactGPRegressor(**GIVEN))),
    "pipelines": make_pipeline(
        "passthrough", make_pipeline(StandardScaler(), TransformedTargetGPRegressor(ExactGPRegressor(**GIVEN)))
    ),
}


@EACH
def test_targets_of_one_column_are_those_of_one_axis(scorer: DensityScorer) -> None:
    model, column = clone(LOGS["model"]), np.exp(Y)[:, None]
    assert scorer(model.fit(X, column), X, column) == scorer(model.fit(X, column[:, 0]), X, column[:, 0])
    exact = ExactGPRegressor(**GIVEN)
    assert scorer(exact.fit(X, column), X, column) == scorer(exact.fit(X, column[:, 0]), X, column)


@pytest.mark.parametrize("name", LOGS)
def test_a_model_of_logarithms_is_scored_by_its_own_density(name: str) -> None:
    model = LOGS[name].fit(X[:30], np.exp(Y[:30]))
    scaled = X if name == "model" else StandardScaler().fit(X[:30]).transform(X)
    mean, std = ExactGPRegressor(**GIVEN).fit(scaled[:30], Y[:30]).predict(scaled[30:], return_std=True)
    law = lognorm(s=np.sqrt(std**2 + 0.1), scale=np.exp(mean))
    assert nlpd_scorer(model, X[30:], np.exp(Y[30:])) == pytest.approx(law.logpdf(np.exp(Y[30:])).mean(), rel=1e-8)
    search = GridSearchCV(model, {}, scoring=nlpd_scorer, cv=3).fit(X[:30], np.exp(Y[:30]))
    found = cross_val_score(model, X[:30], np.exp(Y[:30]), scoring=nlpd_scorer, cv=3)
    assert search.best_score_ == pytest.approx(found.mean(), rel=1e-12)
    assert nlpd_scorer(search, X[30:], np.exp(Y[30:])) == pytest.approx(
        nlpd_scorer(search.best_estimator_, X[30:], np.exp(Y[30:])), rel=1e-12
    )


def test_a_search_is_scored_as_its_best_model() -> None:
    search = GridSearchCV(ExactGPRegressor(**GIVEN), {"noise_variance": [0.1]}, cv=3).fit(X, Y)
    assert crps_scorer(search, X, Y) == crps_scorer(search.best_estimator_, X, Y)


@pytest.mark.parametrize(("scorer", "score"), [(nlpd_scorer, nlpd), (crps_scorer, crps)], ids=["nlpd", "crps"])
def test_of_several_targets_they_are_the_mean_of_theirs(scorer: DensityScorer, score: Callable[..., float]) -> None:
    targets = np.column_stack((Y, 100.0 * Y[::-1]))
    model = MultiTargetGPRegressor(ExactGPRegressor(**GIVEN)).fit(X[:30], targets[:30])
    mean, std = model.predict(X[30:], return_std=True, include_noise=True)
    each = [score(targets[30:, j], mean[:, j], std[:, j] ** 2) for j in range(2)]
    assert scorer(model, X[30:], targets[30:]) == pytest.approx(-np.mean(each), rel=1e-12)
    repeated = scorer(model, np.repeat(X, WEIGHTS, axis=0), np.repeat(targets, WEIGHTS, axis=0))
    assert scorer(model, X, targets, WEIGHTS) == pytest.approx(repeated, rel=1e-12)
    folds = cross_val_score(make_pipeline(StandardScaler(), model), X, targets, scoring=scorer, cv=3)
    assert np.all(np.isfinite(folds))
    with pytest.raises(InputError, match=r"the shapes y \(45, 3\), the mean of the distribution \(45, 2\)"):
        scorer(model, X, np.column_stack((targets, Y)))


def test_each_of_several_targets_has_its_own_density() -> None:
    targets = np.exp(np.column_stack((Y, Y[::-1])))
    each = MultiTargetGPRegressor(LOGS["pipeline"]).fit(X, targets)
    found = [nlpd_scorer(clone(LOGS["pipeline"]).fit(X, column), X, column) for column in targets.T]
    assert nlpd_scorer(each, X, targets) == pytest.approx(np.mean(found), rel=1e-12)


def test_weights_of_other_rows_are_refused() -> None:
    model = ExactGPRegressor(**GIVEN).fit(X, Y)
    with pytest.raises(InputError, match=r"sample_weight must be one number a row, \(45,\); got shape \(5,\)"):
        nlpd_scorer(model, X, Y, sample_weight=WEIGHTS[:5])
