"""Fits under a noise of heavy tails: against dense algebra, and on rows of which some are outliers."""

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    PeriodicKernel,
)
from lmgp.data import Rows, sampling
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import ObservationNoise
from lmgp.errors import InputError, MemoryLimitError
from lmgp.estimators import base, robust
from lmgp.estimators.robust import N_FOLDS, ROUNDS, STEPS
from lmgp.learning.space import LEAST_SCALE
from lmgp.neighbours.duplicates import steady_order
from lmgp.posteriors import rowsystems
from lmgp.utils.student import Student, mean_gain, pays

KERNEL = GaussianKernel(1.0, 2.0)
X_NEW = np.linspace(0.5, 9.5, 200)[:, None]


def truth(X: np.ndarray) -> np.ndarray:
    return 5.0 + 2.0 * np.sin(X[:, 0])


def draw(n: int = 80, share: float = 0.1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with little noise, and a share of them far off, on one side."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (n, 1))
    return X, truth(X) + 0.1 * rng.normal(size=n) + (rng.uniform(size=n) < share) * rng.uniform(2.0, 6.0, n)


def covariance(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return 2.0 * np.exp(-0.5 * cdist(A, B, "sqeuclidean"))


def dense(X: np.ndarray, y: np.ndarray, noise: np.ndarray, center: float, T: np.ndarray) -> tuple[Any, Any]:
    """The exact process with a noise variance of each row: means and variances."""
    inverse, cross = np.linalg.inv(covariance(X, X) + np.diag(noise)), covariance(T, X)
    return center + cross @ inverse @ (y - center), 2.0 - np.einsum("ij,jk,ik->i", cross, inverse, cross)


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


@pytest.mark.parametrize("noise", ["student", "auto", "robust"])
def test_few_rows_learn_under_a_t_where_their_errors_have_one(noise: Any) -> None:
    X, y = draw(120)
    model = ExactGPRegressor("matern32", noise=noise, random_state=0)
    assert model.fit(X, y).learning_.chosen.likelihood == "vecchia, t"
    X, y = draw(120, share=0.0)
    assert model.fit(X, y).learning_.chosen.likelihood == "exact"


@pytest.mark.slow
def test_draws_of_parameters_have_the_noise_of_weighted_rows() -> None:
    X, y = draw(150)
    models = [
        GPRegressor(kernel="gaussian", trend="constant", noise=noise, random_state=0).fit(X, y)
        for noise in ("student", "auto")
    ]
    plain, weighted = ([drawn.noise_variance for drawn in model.kernels_] for model in models)
    assert models[1].noise_.chosen.noise.startswith("robust ")
    assert len(weighted) == len(plain) > 10
    shares = np.array(weighted) / np.array(plain)
    np.testing.assert_allclose(shares, shares[0], rtol=1e-9)
    shares = [drawn.weight for drawn in models[1].kernels_]
    assert models[1].noise_variance_ == pytest.approx(np.average(weighted, weights=shares))
    errors = [np.sqrt(np.mean((model.predict(X_NEW) - truth(X_NEW)) ** 2)) for model in models]
    assert errors[1] < 0.1 < errors[0]


def test_kernels_without_near_rows_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    (X, y), errors = draw(100), []
    kernel = PeriodicKernel(2.0 * np.pi, variance=2.0)
    assert not kernel.can("metric")
    for noise in ("normal", "robust"):
        model = ExactGPRegressor(kernel, noise=noise).fit(X, y)
        errors.append(np.sqrt(np.mean((model.predict(X_NEW) - truth(X_NEW)) ** 2)))
    assert model.noise_.chosen.noise.startswith("robust ")
    assert errors[1] < 0.35 * errors[0]
    # Their process is exact, and none is made that memory has no room for.
    monkeypatch.setattr(base, "robust_rows", lambda *_: pytest.fail("too many rows are weighted"))
    with pytest.raises(MemoryLimitError, match="max_memory_gib"):
        ExactGPRegressor(kernel, noise="robust", max_learning_rows=20, max_memory_gib=1e-4).fit(X, y)
    given = {"kernel": kernel, "noise_variance": 0.01, "max_memory_gib": 1e-4}
    by_map = FeaturizedGPRegressor(NystroemFeatures(20, random_state=0), **given)
    not_weighted, chosen = (clone(by_map).set_params(noise=noise).fit(X, y) for noise in ("robust", "auto"))
    assert str(not_weighted.noise_) == str(chosen.noise_)


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
    return pull


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("most", [60, 2000])
def test_rows_are_weighted_as_dense_algebra_does(
    monkeypatch: pytest.MonkeyPatch, weighted: bool, learns: bool, most: int
) -> None:
    X, y = draw(200)
    y = y - y.mean()
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 200) if weighted else None
    counts = np.ones(200) if weights is None else weights
    for name in ("NEIGHBORS", "N_NEIGHBORS"):
        monkeypatch.setattr(robust, name, 200)
    monkeypatch.setattr(robust, "LEFT_OUT", most)
    at_a_time = 30 if most == 60 else 4000
    monkeypatch.setattr(robust, "MOST_AT_A_TIME", at_a_time)
    monkeypatch.setattr(rowsystems, "LARGE", 1000)  # in double precision
    found = robust.robust_rows(Rows(X, y, weights, measurements=weights), KERNEL, 0.02, learns, wanted=True)
    assert found is not None

    order = steady_order(Rows(X, y))[sampling(0, 3).permutation(200)]
    size = min(at_a_time, 200 // N_FOLDS)
    folds = [order[first : first + size] for first in range(0, min(200, most), size)]
    assert len(folds) == (2 if most == 60 else N_FOLDS)

    def of_fold(held: np.ndarray, precision: np.ndarray, noise: float) -> LeftOut:
        kept = np.setdiff1d(np.arange(200), held)
        means, variances = dense(X[kept], y[kept], noise / (counts * precision)[kept], 0.0, X[held])
        std, alone = np.sqrt(variances + noise / counts[held]), np.ones(len(held), dtype=bool)
        return LeftOut(X[held], y[held], means, std, alone, None)

    def joined(parts: list[LeftOut]) -> LeftOut:
        return LeftOut(
            *(
                None if getattr(parts[0], name) is None else np.concatenate([getattr(part, name) for part in parts])
                for name in ("X", "y", "mean", "std", "alone", "weights")
            )
        )

    alike = joined([of_fold(held, np.ones(200), 0.02) for held in folds])
    degrees = Student.fitted(alike.errors, alike.weights).degrees

    def rounds(held: np.ndarray, precision: np.ndarray, noise: float, number: int) -> tuple[np.ndarray, float, LeftOut]:
        precision, kept = precision.copy(), np.setdiff1d(np.arange(200), held)
        for _ in range(number):
            own = noise / (counts * precision)[kept]
            inverse = np.linalg.inv(covariance(X[kept], X[kept]) + np.diag(own))
            means, variances = left_out(inverse, y[kept], own)
            own = noise / counts[kept]
            precision[kept] = settled(y[kept] - means, variances, own, precision[kept], degrees, own)
        after = of_fold(held, precision, noise)
        own = noise / counts[held]
        precision[held] = settled(y[held] - after.mean, after.std**2 - own, own, precision[held], degrees, own)
        return precision, noise, after

    def densities(parts: list[LeftOut]) -> np.ndarray:
        return ObservationNoise.fitted("student", joined(parts))[1]

    of_folds = [rounds(held, np.ones(200), 0.02, ROUNDS) for held in folds]
    best, moves = densities([after for *_, after in of_folds]), []
    for factor in (4.0, 0.25) if learns else ():
        for _ in range(2 if factor > 1.0 or not moves else 0):
            moved = [rounds(held, one[0], factor * one[1], 1) for held, one in zip(folds, of_folds, strict=True)]
            other = densities([after for *_, after in moved])
            if not pays(*mean_gain(best, other, alike.weights), len(other)):
                break
            of_folds, best, moves = moved, other, [*moves, factor]
    assert len(moves) < 2  # so that no more had to be tried
    precision, noise, _ = of_folds[0]
    np.testing.assert_allclose(found.rows.weights / counts, precision, rtol=1e-4)
    assert found.noise_variance == pytest.approx(noise, rel=1e-5)
    gains = best - densities([alike])
    assert found.gain.gain == pytest.approx(np.average(gains, weights=alike.weights), rel=1e-4)
    if not weighted:
        assert found.gain.standard_error == pytest.approx(gains.std() / np.sqrt(len(gains)), rel=1e-4)


@pytest.mark.slow
def test_another_noise_is_taken_as_long_as_that_pays() -> None:
    """Where the noise begins far below that of the rows, rounds leave it there, and others are tried."""
    X, y = many(0.05)
    noises = [0.01 / 4.0**power for power in (0, 4)]
    found = [robust.robust_rows(Rows(X, y), KERNEL, noise, True, True) for noise in noises]
    stays = robust.robust_rows(Rows(X, y), KERNEL, noises[1], False, True)
    assert None not in (*found, stays)
    assert found[1].gain.gain > stays.gain.gain + 3.0 * found[1].gain.standard_error
    assert 0.3 < found[1].noise_variance / found[0].noise_variance < 3.0


def many(share: float, n: int = 2500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """More rows than are left out to tell whether weights pay."""
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
    assert found.noise_variance == pytest.approx(LEAST_SCALE * y.var(), rel=0.05)


def test_noise_variances_of_many_rows_stay() -> None:
    X, y = many(0.05)
    variances = np.random.default_rng(1).uniform(0.005, 0.02, len(X))
    found = robust.robust_rows(Rows(X, y, None, variances), KERNEL, 0.01, False, True)
    assert found is not None
    assert found.noise_variance == 0.01
    np.testing.assert_array_equal(found.rows.noise_variances, variances)


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 2500])
def test_weights_are_taken_where_their_gain_is_clear_and_large(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    assert robust.LEAST_GAIN == 0.03
    rows = Rows(*many(0.05, n))
    found = robust.robust_rows(rows, KERNEL, 0.01, False, False)
    assert found is not None
    gain, error, asked = found.gain.gain, found.gain.standard_error, []
    monkeypatch.setattr(robust, "pays", lambda *of: asked.append(of) or True)
    for least, taken in ((gain - 1e-9, True), (gain + 1e-9, False)):
        monkeypatch.setattr(robust, "LEAST_GAIN", least)
        assert (robust.robust_rows(rows, KERNEL, 0.01, False, False) is not None) == taken
        assert asked[-1][:2] == pytest.approx((gain, error))
        assert robust.robust_rows(rows, KERNEL, 0.01, False, True) is not None
    monkeypatch.setattr(robust, "LEAST_GAIN", 0.0)
    monkeypatch.setattr(robust, "pays", lambda *_: False)
    assert robust.robust_rows(rows, KERNEL, 0.01, False, False) is None
    assert robust.robust_rows(rows, KERNEL, 0.01, False, True) is not None


@pytest.mark.slow
@pytest.mark.parametrize("model", [FeaturizedGPRegressor(kernel="gaussian"), GPRegressor(kernel="gaussian")])
def test_rows_of_a_stream_are_not_weighted(model: Any) -> None:
    """Only a sample of them is there to be weighted: the process is that of a noise that is told afterwards."""
    X, y = many(0.05)
    chunks = [(X[:1500], y[:1500]), (X[1500:], y[1500:])]
    models = [clone(model).set_params(noise=noise, random_state=0).fit(chunks) for noise in ("auto", "student")]
    assert models[0].noise_variance_ == models[1].noise_variance_
    np.testing.assert_array_equal(*(each.predict(X[:50] + 0.01) for each in models))
    assert models[0]._fitted.robust is None
