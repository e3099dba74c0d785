"""Fits under a noise of heavy tails: against dense algebra, and on rows of which some are outliers."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist
from sklearn.base import clone

from lmgp import ExactGPRegressor, FeaturizedGPRegressor, GaussianKernel, GPRegressor, NearestNeighborsGPRegressor
from lmgp.data import Rows, sampling
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import ObservationNoise
from lmgp.errors import InputError
from lmgp.estimators import base, robust
from lmgp.estimators.robust import ROUNDS, ROWS_OF_EACH, STEPS, robust_fit
from lmgp.learning.space import LEAST_NOISE
from lmgp.neighbours.duplicates import steady_order
from lmgp.utils.student import Student

KERNEL = GaussianKernel(1.0, 2.0)
X_NEW = np.linspace(0.5, 9.5, 200)[:, None]


def truth(X: np.ndarray) -> np.ndarray:
    return 5.0 + 2.0 * np.sin(X[:, 0])


def draw(n: int = 80, share: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with little noise, and a share of them far off, on one side."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (n, 1))
    return X, truth(X) + 0.1 * rng.normal(size=n) + (rng.uniform(size=n) < share) * rng.uniform(2.0, 6.0, n)


def arguments(X: np.ndarray, y: np.ndarray, **more: Any) -> dict[str, Any]:
    nothing = {"sample_weight": None, "noise_variances": None, "duplicates": "keep", "center": None}
    return {"X": X, "y": y, **nothing, **more}


def covariance(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return 2.0 * np.exp(-0.5 * cdist(A, B, "sqeuclidean"))


def dense(X: np.ndarray, y: np.ndarray, noise: np.ndarray, center: float, T: np.ndarray) -> tuple[Any, Any]:
    """The exact process with a noise variance of each row: means and variances."""
    inverse, cross = np.linalg.inv(covariance(X, X) + np.diag(noise)), covariance(T, X)
    return center + cross @ inverse @ (y - center), 2.0 - np.einsum("ij,jk,ik->i", cross, inverse, cross)


def likeliest(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """The noise variance of the largest likelihood, of rows with a share of it each."""
    residuals = y - np.average(y, weights=weights)

    def loss(log_noise: float) -> float:
        matrix = covariance(X, X) + np.diag(np.exp(log_noise) / weights)
        return float(residuals @ np.linalg.solve(matrix, residuals) + np.linalg.slogdet(matrix)[1])

    return float(np.exp(minimize_scalar(loss, bounds=(-10.0, 0.0), method="bounded", options={"xatol": 1e-9}).x))


@pytest.mark.parametrize("given", ["nothing", "noise_variance", "noise_variances", "sample_weight"])
def test_the_rounds_are_those_of_dense_algebra(given: str) -> None:
    X, y = draw()
    rng, degrees = np.random.default_rng(1), 3.5
    more = {"noise_variances": rng.uniform(0.005, 0.05, 80), "sample_weight": rng.integers(0, 4, 80).astype(float)}
    more = {given: more[given]} if given in more else {}
    model = ExactGPRegressor(KERNEL, 0.02 if given == "noise_variance" else None).fit(X, y, **more)
    found = robust_fit(model, arguments(X, y, **more), degrees)

    weights = more.get("sample_weight", np.ones(80))
    kept, own = weights > 0.0, "noise" in given
    variance, pull = model.noise_variance_, np.ones(80)
    for turn in range(2 * ROUNDS + 1):
        variances = more.get("noise_variances", np.full(80, variance))
        center = np.average(y, weights=weights * pull)
        of_kept = X[kept], y[kept], variances[kept] / (weights * pull)[kept], center
        if turn == 2 * ROUNDS:
            break
        mean, latent = dense(*of_kept, X)
        squares = (y - mean) ** 2 + latent
        pull = (degrees + 1.0) / (degrees + squares / variances)
        if not own:
            variance = np.average(pull * squares, weights=weights)
        if not own and turn == ROUNDS:
            variance = likeliest(X[kept], y[kept], (weights * pull)[kept])
    mean, latent = dense(*of_kept, X_NEW)
    np.testing.assert_allclose(found.predict(X_NEW, return_std=True), (mean, np.sqrt(latent)), rtol=1e-5)
    if given != "noise_variances":
        assert found.noise_variance_ == pytest.approx(variance, rel=1e-5)


def test_weights_are_repetitions_beside_a_given_noise() -> None:
    X, y = draw(40)
    counts = np.random.default_rng(1).integers(1, 4, 40)
    repeated = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    means = []
    for of in (arguments(X, y, sample_weight=counts), arguments(*repeated)):
        model = ExactGPRegressor(KERNEL, 0.05).fit(**of)
        means.append(robust_fit(model, of, 4.0).predict(X_NEW))
    np.testing.assert_allclose(*means, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        ExactGPRegressor(),
        GPRegressor(kernel="gaussian", ard=False, trend="linear"),
        FeaturizedGPRegressor(),
        NearestNeighborsGPRegressor(n_neighbors=40),
        ExactGPRegressor(KERNEL, 0.01),
    ],
    ids=lambda model: repr(model).replace(" ", ""),
)
def test_outliers_bend_a_normal_fit_and_not_this(model: Any) -> None:
    X, y = draw(200)
    errors = []
    for noise in ("normal", "robust"):
        model.set_params(noise=noise, random_state=0).fit(X, y)
        errors.append(np.sqrt(np.mean((model.predict(X_NEW) - truth(X_NEW)) ** 2)))
    assert errors[1] < 0.35 * errors[0]
    assert errors[1] < 0.12
    assert model.noise_.chosen.noise.startswith("robust ")


def test_named_kernels_begin_as_they_are_learned_under_a_t(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = draw(120)
    model, learned = ExactGPRegressor("matern32", random_state=0).fit(X, y), list[str]()
    learn = base.learn_warned

    def spy(*arguments: Any) -> Any:
        found = learn(*arguments)
        learned.append(found.learning.chosen.likelihood)
        return found

    monkeypatch.setattr(base, "learn_warned", spy)
    robust_fit(model, arguments(X, y), 3.0)
    assert learned == ["vecchia, t", "exact"]


def test_rows_left_out_decide() -> None:
    X, y = draw(200)
    model = ExactGPRegressor(noise="auto", random_state=0).fit(X, y)
    assert model.noise_.chosen.noise.startswith("robust ")
    assert model.noise_.chosen.gain > model.noise_.chosen.standard_error
    assert np.sqrt(np.mean((model.predict(X_NEW) - truth(X_NEW)) ** 2)) < 0.12
    assert sum(trial.chosen for trial in model.noise_) == 1
    X, y = draw(200, share=0.0)
    model = ExactGPRegressor(noise="auto", random_state=0).fit(X, y)
    assert not model.noise_.chosen.noise.startswith("robust ")
    np.testing.assert_array_equal(model.predict(X_NEW), ExactGPRegressor(random_state=0).fit(X, y).predict(X_NEW))


@pytest.mark.slow
def test_new_observations_have_the_distribution_that_made_the_rows() -> None:
    rng = np.random.default_rng(0)
    X, new = rng.uniform(0.0, 10.0, (500, 1)), rng.uniform(0.0, 10.0, (20_000, 1))
    noise = stats.t(3.0, scale=0.2)
    y = truth(X) + noise.rvs(500, random_state=1)
    of_new = noise.rvs(20_000, random_state=2)
    model = ExactGPRegressor(noise="robust", random_state=0).fit(X, y)
    predicted = model.predict_distribution(new)
    for level in (0.5, 0.8, 0.95, 0.99):
        low, high = predicted.interval(level)
        inside = (low < truth(new) + of_new) & (truth(new) + of_new < high)
        assert inside.mean() == pytest.approx(level, abs=0.03)
    assert predicted.logpdf(truth(new) + of_new).mean() > noise.logpdf(of_new).mean() - 0.03


def test_without_folds_an_outlier_counts_as_any_row() -> None:
    X, y = draw(200)
    model = ExactGPRegressor(KERNEL, 0.01, noise="robust", random_state=0).fit(X, y)
    assert model.noise_.n_rows == 200
    assert model.loo_.normal.std().max() < 0.3  # of outliers, too, whose noise in the fit is larger
    assert np.sum(model.noise_.distances > 5.0) > 10


def test_several_targets_are_refused_by_name_and_left_as_they_are_by_auto() -> None:
    X, y = draw(100)
    two = np.column_stack((y, y))
    with pytest.raises(InputError, match="noise='robust' weights the rows of one target; got 2"):
        ExactGPRegressor(noise="robust").fit(X, two)
    assert not any(one.chosen.noise.startswith("robust") for one in ExactGPRegressor(noise="auto").fit(X, two).noise_)
    column = ExactGPRegressor(noise="robust", random_state=0).fit(X, y[:, None])
    np.testing.assert_allclose(
        column.predict(X_NEW)[:, 0], ExactGPRegressor(noise="robust", random_state=0).fit(X, y).predict(X_NEW)
    )


def test_few_rows_are_fitted_as_ever() -> None:
    X, y = draw(20)
    model = ExactGPRegressor(KERNEL, noise="robust").fit(X, y)
    assert model.noise_.name == "normal"
    np.testing.assert_array_equal(model.predict(X_NEW), ExactGPRegressor(KERNEL).fit(X, y).predict(X_NEW))


@pytest.mark.slow
@pytest.mark.parametrize("duplicates", ["keep", "average", "drop"])
@pytest.mark.parametrize("noise", ["auto", "robust"])
def test_copies_may_be_averaged_or_dropped(noise: str, duplicates: str) -> None:
    X, y = draw(100)
    rows = np.concatenate((X, X[:40])), np.concatenate((y, y[:40]))
    model = ExactGPRegressor("gaussian", noise=noise, random_state=0).fit(*rows, duplicates=duplicates)
    assert model.noise_.trials
    assert np.all(np.isfinite(model.predict_distribution(X_NEW).std()))
    if noise == "robust":
        assert model.noise_.chosen.noise.startswith("robust ")


# ------------------------------------------------------------------------------------------------------------ many rows


def left_out(inverse: np.ndarray, y: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row from all others: means, and variances of the function."""
    return y - (inverse @ y) / np.diag(inverse), 1.0 / np.diag(inverse) - noise


def settled(
    error: np.ndarray, variance: np.ndarray, noise: np.ndarray, pull: np.ndarray, degrees: float, scale: float
) -> np.ndarray:
    """Weights of rows beside what others predict of them, by the posterior of the function at each."""
    for _ in range(STEPS):
        precision = 1.0 / variance + pull / noise
        mean = error * (pull / noise) / precision
        squares = (error - mean) ** 2 + 1.0 / precision
        pull = (degrees + 1.0) / (degrees + squares / scale)
    return np.array((pull, squares))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("learns", [False, True])
def test_many_rows_are_weighted_as_dense_algebra_does(
    monkeypatch: pytest.MonkeyPatch, weighted: bool, learns: bool
) -> None:
    X, y = draw(200)
    y = y - y.mean()
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 200) if weighted else None
    counts = np.ones(200) if weights is None else weights
    for name in ("NEIGHBORS", "N_NEIGHBORS"):
        monkeypatch.setattr(robust, name, 200)
    found = robust.robust_rows(Rows(X, y, weights), KERNEL, 0.02, learns, wanted=True)
    assert found is not None

    precisions = found.rows.weights / counts
    held = steady_order(Rows(X, y))[sampling(0, 3).permutation(200)[: 200 // ROWS_OF_EACH]]
    kept = np.setdiff1d(np.arange(200), held)
    rest = X[kept], y[kept]

    def of_held(precision: np.ndarray, noise: float) -> LeftOut:
        means, variances = dense(*rest, noise / (counts[kept] * precision), 0.0, X[held])
        alone = np.ones(len(held), dtype=bool)
        return LeftOut(X[held], y[held], means, np.sqrt(variances + noise), alone, weights[held] if weighted else None)

    noise, precision = 0.02, np.ones(len(kept))
    alike = of_held(precision, noise)
    degrees = Student.fitted(alike.errors, alike.weights).degrees
    for _ in range(ROUNDS):
        own = noise / (counts[kept] * precision)
        means, variances = left_out(np.linalg.inv(covariance(rest[0], rest[0]) + np.diag(own)), rest[1], own)
        precision, squares = settled(rest[1] - means, variances, noise / counts[kept], precision, degrees, noise)
        noise = np.average(precision * squares, weights=counts[kept]) if learns else noise
    np.testing.assert_allclose(precisions[kept], precision, rtol=1e-4)
    assert found.noise_variance == pytest.approx(noise, rel=1e-5)
    after = of_held(precision, noise)
    errors, variances = y[held] - after.mean, after.std**2 - noise
    precision, _ = settled(errors, variances, noise / counts[held], np.ones(len(held)), degrees, noise)
    np.testing.assert_allclose(precisions[held], precision, rtol=1e-4)
    densities = [ObservationNoise.fitted("auto", rows)[1] for rows in (alike, after)]
    assert found.gain.gain == pytest.approx(np.average(densities[1] - densities[0], weights=alike.weights), rel=1e-4)


def many(share: float, n: int = 2500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """More rows than robust fits are repeated for."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (n, 2))
    f = 2.0 * np.sin(X).sum(axis=1)
    return X, f + 0.1 * rng.normal(size=n) + (rng.uniform(size=n) < share) * rng.uniform(2.0, 6.0, n)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [NearestNeighborsGPRegressor(64, kernel="matern52"), GPRegressor(kernel="gaussian", trend="constant")],
    ids=["nearest", "chosen"],
)
def test_outliers_among_many_rows_bend_predictions_less(model: Any) -> None:
    (X, y), new = many(0.05), np.random.default_rng(1).uniform(0.0, 10.0, (500, 2))
    f, errors = 2.0 * np.sin(new).sum(axis=1), []
    for noise in ("student", "auto", "robust"):
        model.set_params(noise=noise, random_state=0).fit(X, y)
        errors.append(np.sqrt(np.mean((model.predict(new) - f) ** 2)))
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] == errors[2]
    chosen = model.noise_.chosen
    assert chosen.noise.startswith("robust ")
    assert sum(trial.chosen for trial in model.noise_) == 1
    assert model.noise_.trials[-2].gain > 3.0 * model.noise_.trials[-2].standard_error
    other, targets = many(0.05, 4000, seed=3)
    inside = model.predict_interval(other, level=0.9, method="conformal")
    assert np.mean((inside[0] < targets) & (targets < inside[1])) == pytest.approx(0.9, abs=0.03)


@pytest.mark.slow
def test_many_rows_without_outliers_are_fitted_as_if_nothing_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = many(0.0)
    models = [NearestNeighborsGPRegressor(64, kernel="matern52", noise="auto", random_state=0).fit(X, y)]
    monkeypatch.setattr(base, "robust_rows", lambda *_: None)
    models.append(NearestNeighborsGPRegressor(64, kernel="matern52", noise="auto", random_state=0).fit(X, y))
    assert not models[0].noise_.chosen.noise.startswith("robust ")
    np.testing.assert_array_equal(models[0].predict(X[:50] + 0.01), models[1].predict(X[:50] + 0.01))


def test_weights_of_many_rows_do_not_depend_on_their_order() -> None:
    X, y = many(0.05)
    order = np.random.default_rng(0).permutation(len(X))
    found, again = (robust.robust_rows(Rows(X[of], y[of]), KERNEL, 0.01, True, False) for of in (slice(None), order))
    assert found is not None
    assert again is not None
    np.testing.assert_allclose(again.rows.weights, found.rows.weights[order], rtol=1e-6)
    outliers = y - 2.0 * np.sin(X).sum(axis=1) > 1.0
    assert found.rows.weights[outliers].max() < 0.2 < found.rows.weights[~outliers].min()


def test_the_noise_of_many_rows_that_have_none_stays_above_zero() -> None:
    X, y = many(0.05)
    f = 2.0 * np.sin(X).sum(axis=1)
    y = np.where(y - f > 1.0, y, f)
    found = robust.robust_rows(Rows(X, y), KERNEL, 1e-8, True, True)
    assert found is not None
    assert found.noise_variance == pytest.approx(LEAST_NOISE * y.var(), rel=0.05)


def test_noise_variances_of_many_rows_stay() -> None:
    X, y = many(0.05)
    variances = np.random.default_rng(1).uniform(0.005, 0.02, len(X))
    found = robust.robust_rows(Rows(X, y, None, variances), KERNEL, 0.01, False, True)
    assert found is not None
    assert found.noise_variance == 0.01
    np.testing.assert_array_equal(found.rows.noise_variances, variances)


def test_weights_are_taken_where_their_gain_is_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows(*many(0.05))
    found = robust.robust_rows(rows, KERNEL, 0.01, True, False)
    assert found is not None
    clear = found.gain.gain / found.gain.standard_error
    assert clear > 3.0
    for share, taken in ((0.99, True), (1.01, False)):
        monkeypatch.setattr(robust, "SIGNIFICANT", share * clear)
        assert (robust.robust_rows(rows, KERNEL, 0.01, True, False) is not None) == taken
    assert robust.robust_rows(rows, KERNEL, 0.01, True, True) is not None


@pytest.mark.parametrize("model", [FeaturizedGPRegressor(kernel="gaussian"), GPRegressor(kernel="gaussian")])
def test_rows_of_a_stream_are_not_weighted(model: Any) -> None:
    """Only a sample of them is there to be weighted: the process is that of a noise that is told afterwards."""
    X, y = many(0.05)
    chunks = [(X[:1500], y[:1500]), (X[1500:], y[1500:])]
    models = [clone(model).set_params(noise=noise, random_state=0).fit(chunks) for noise in ("auto", "student")]
    assert models[0].noise_variance_ == models[1].noise_variance_
    np.testing.assert_array_equal(*(each.predict(X[:50] + 0.01) for each in models))
    assert models[0]._fitted.robust is None
