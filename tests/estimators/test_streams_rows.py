"""What models of streams, and models after updates, say that takes their rows: right, or refused."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.errors import InputError, ModelFileError, StreamError
from lmgp.posteriors import spectral, variance

GIVEN = {"kernel": GaussianKernel([1.2, 1.0], 1.5), "noise_variance": 0.05}
RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, [6.0, 5.0], (160, 2))
Y = 7.0 + np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * RNG.normal(size=160)
T = RNG.uniform(0.5, [5.5, 4.5], (8, 2))
BOX = [[0.0, 0.0], [6.0, 5.0]]
MODELS: dict[str, Any] = {
    "featurized": FeaturizedGPRegressor(TaylorFeatures(40), **GIVEN),
    "featurized_trend": FeaturizedGPRegressor(TaylorFeatures(40), **GIVEN, trend="linear"),
    "localized": LocalizedGPRegressor(TaylorFeatures(28), centroids=X[:9], **GIVEN),
    "spectral": SpectralGPRegressor(1e-5, **GIVEN, box=BOX),
    "spectral_trend": SpectralGPRegressor(1e-5, **GIVEN, trend="linear", box=BOX),
}
KEPT = ["localized", "spectral", "spectral_trend"]
SUMMED = ["featurized", "featurized_trend", "spectral", "spectral_trend"]
GONE = r"has sums over its training rows, and not the rows themselves.*Fit it to all rows at once"
every_model = pytest.mark.parametrize("name", MODELS)


def chunks() -> list[tuple[np.ndarray, np.ndarray]]:
    return [(X[i : i + 40], Y[i : i + 40]) for i in range(0, 160, 40)]


def made(name: str) -> Any:
    return clone(MODELS[name])


@pytest.fixture
def in_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few modes are many: variances of spectral models are from the rows, or from cells of them."""
    monkeypatch.setattr(spectral, "FEW_MODES", 50)
    monkeypatch.setattr("lmgp.sums.modes.FEW_MODES", 50)
    monkeypatch.setattr(variance, "FEW", 50)


@pytest.mark.parametrize("name", KEPT)
def test_rows_that_are_kept_are_those_of_all_updates(name: str) -> None:
    model, expected = made(name).fit(X[:60], Y[:60]), made(name).fit(X, Y)
    assert len(model.loo_.y) == 60
    other = model.with_rows(X[130:], Y[130:])
    assert len(other.loo_.y) == 30
    model.partial_fit(X[60:130], Y[60:130]).partial_fit(X[:5] + 0.1, Y[:5])
    assert len(model.loo_.y) == 135
    model.forget(X[:5] + 0.1, Y[:5]).merge(other)
    np.testing.assert_allclose(np.sort(model.loo_.y), np.sort(Y), rtol=1e-12)
    np.testing.assert_allclose(model.loo_.mean, expected.loo_.mean, rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.loo_.std, expected.loo_.std, rtol=1e-4)
    likelihoods = [one.log_marginal_likelihood() for one in (model, expected)]
    assert likelihoods[0] == pytest.approx(likelihoods[1], rel=1e-4)
    covariances = [one.predict(T, return_cov=True)[1] for one in (model, expected)]
    np.testing.assert_allclose(covariances[0], covariances[1], rtol=0, atol=1e-5)
    drawn = [one.sample_y(T, 3, random_state=1) for one in (model, model.with_rows(X, Y))]
    np.testing.assert_allclose(drawn[0], drawn[1], rtol=0, atol=1e-3)


@pytest.mark.parametrize("change", ["partial_fit", "forget", "merge", "with_rows"])
def test_a_featurized_model_has_no_rows_of_before(change: str) -> None:
    model = made("featurized").partial_fit(X[:80], Y[:80])
    assert len(model.loo_.y) == 80
    if change == "merge":
        model.merge(model.with_rows(X[80:], Y[80:]))
    elif change == "with_rows":
        model = model.with_rows(X[80:], Y[80:])
    else:
        getattr(model, change)(X[40:80], Y[40:80])
    with pytest.raises(InputError, match=GONE):
        _ = model.loo_


@pytest.mark.parametrize("name", SUMMED)
def test_sums_have_the_likelihood_and_the_covariance(name: str) -> None:
    stream, whole = made(name).fit(chunks()), made(name).fit(X, Y)
    assert stream.log_marginal_likelihood() == pytest.approx(whole.log_marginal_likelihood(), rel=1e-7)
    mean, std, cov = stream.predict(T, return_std=True, return_cov=True)
    np.testing.assert_allclose(cov, whole.predict(T, return_cov=True)[1], rtol=0, atol=1e-7)
    np.testing.assert_allclose(mean, whole.predict(T), rtol=0, atol=1e-6)
    np.testing.assert_allclose(np.diag(cov), std**2, rtol=1e-9)
    # After an update, those of the rows that are left.
    stream.forget(X[:40], Y[:40])
    left = stream.with_rows(X[40:], Y[40:])
    assert stream.log_marginal_likelihood() == pytest.approx(left.log_marginal_likelihood(), rel=1e-7)


def test_the_likelihood_of_a_stream_is_that_of_dense_algebra() -> None:
    stream = FeaturizedGPRegressor(TaylorFeatures(120), kernel=GaussianKernel(4.0), noise_variance=0.05).fit(chunks())
    exact = ExactGPRegressor(kernel=GaussianKernel(4.0), noise_variance=0.05).fit(X, Y)
    assert stream.log_marginal_likelihood() == pytest.approx(exact.log_marginal_likelihood(), rel=1e-4)


@pytest.mark.parametrize("name", SUMMED)
def test_draws_of_a_stream_have_its_mean_and_covariance(name: str) -> None:
    check_draws(made(name).fit(chunks()), made(name).fit(X, Y))


def check_draws(stream: Any, expected: Any, n: int = 3000) -> None:
    """Compare draws with predictions of another model, in standard errors."""
    drawn = stream.sample_y(T, n, random_state=3)
    mean, std, cov = expected.predict(T, return_std=True, return_cov=True)
    spread = np.sqrt((np.outer(std**2, std**2) + cov**2) / n)
    assert np.abs((drawn.mean(axis=1) - mean) / std * n**0.5).max() < 4.5
    assert np.abs((np.cov(drawn) - cov) / spread).max() < 5.0


@every_model
def test_a_stream_has_no_rows_to_leave_out(name: str) -> None:
    model = made(name).fit(chunks())
    with pytest.raises(InputError, match=GONE):
        _ = model.loo_


def test_a_localized_stream_says_what_it_lacks() -> None:
    model = made("localized").fit(chunks())
    assert model.predict_interval(T)[0].shape == (8,)
    asked = (
        model.log_marginal_likelihood,
        lambda: model.sample_y(T),
        lambda: model.predict(T, return_cov=True),
    )
    for ask in asked:
        with pytest.raises(InputError, match=GONE):
            ask()


@every_model
def test_a_known_center_stays(name: str) -> None:
    expected = made(name).fit(X, Y, center=5.0)
    before = made(name).fit(X[:100], Y[:100], center=5.0)
    models = [made(name).fit(chunks(), center=5.0), before.with_rows(X, Y)]
    models.append(before.partial_fit(X[100:], Y[100:]))
    for number, model in enumerate(models):
        assert model.center_ == 5.0
        if number == 0 or not name.startswith("featurized"):  # the map of which is around the first rows
            np.testing.assert_allclose(model.predict(T), expected.predict(T), rtol=0, atol=1e-6)
    np.testing.assert_allclose(models[2].predict(T), models[1].predict(T), rtol=0, atol=1e-6)
    assert expected.forget(X[:20], Y[:20]).center_ == 5.0
    if "trend" not in name:
        assert np.abs(expected.predict(T) - made(name).fit(X[20:], Y[20:]).predict(T)).max() > 1e-5


def test_options_of_fit_with_chunks(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    model = made("featurized")
    for option in ("average", "drop"):
        with pytest.raises(InputError, match=f"duplicates='{option}' compares all rows, and a fit to chunks keeps"):
            model.fit(chunks(), duplicates=option)
    with pytest.raises(InputError, match="duplicates must be"):
        model.fit(chunks(), duplicates="first")
    with pytest.raises(InputError, match="center must be a finite number"):
        model.fit(chunks(), center=np.nan)
    twice = np.concatenate((X, X[:30])), np.concatenate((Y, Y[:30] + 0.1))
    averaged = made("featurized").fit(*twice, duplicates="average")
    stream = made("featurized").fit([twice])
    np.testing.assert_allclose(averaged.predict(T), stream.predict(T), rtol=0, atol=1e-8)

    learned = FeaturizedGPRegressor(TaylorFeatures(20), random_state=0).fit(chunks(), verbose=2)
    told = capsys.readouterr().err
    assert "FeaturizedGPRegressor, first pass" in told
    assert "gaussian with one lengthscale" in told
    assert learned.fit(chunks()) is learned
    assert capsys.readouterr().err == ""

    path, broken = tmp_path / "state", [*chunks()[:2], (X[:3], Y[:2])]
    with pytest.raises(StreamError):
        model.fit(broken, center=5.0, checkpoint=path)
    with pytest.raises(ModelFileError, match="with other parameters"):
        model.fit(chunks(), checkpoint=path)
    np.testing.assert_array_equal(
        model.fit(chunks(), center=5.0, checkpoint=path).predict(T), model.fit(chunks(), center=5.0).predict(T)
    )


@pytest.mark.parametrize("name", ["featurized_trend", "spectral_trend"])
def test_rows_that_would_not_determine_the_trend_are_no_model(name: str) -> None:
    model = made(name).fit(chunks())
    before = model.predict(T)
    with pytest.raises(InputError, match=r"of 2 columns has 3 coefficients, and needs more rows than that; got 3"):
        model.forget(X[3:], Y[3:])
    np.testing.assert_array_equal(model.predict(T), before)
    assert model.forget(X[4:], Y[4:]).trend_.coef.shape == (2,)


@pytest.mark.parametrize("size", [1, 40])
def test_a_trend_is_that_of_all_chunks_where_these_are_sorted(size: int) -> None:
    order = np.argsort(X[:, 0])
    rows, y = np.column_stack((np.repeat(np.arange(4.0), 40), X[order, 1])), Y[order]
    model = FeaturizedGPRegressor(**GIVEN, trend="linear", random_state=0)
    stream = model.fit([(rows[i : i + size], y[i : i + size]) for i in range(0, 160, size)])
    np.testing.assert_allclose(stream.trend_.coef, clone(model).fit(rows, y).trend_.coef, rtol=1e-6)
