"""Properties of every model, of problems that hypothesis draws: what changes nothing, and what no variance can be."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import FunctionTransformer

from lmgp import (
    ExactGPRegressor,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.errors import MemoryLimitError
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.estimators.base import GaussianProcess
from lmgp.features.base import FeatureMap
from tests.properties.conftest import (
    APART,
    CASES,
    TOLERANCES,
    WARNED,
    WITHOUT,
    Case,
    Floats,
    Problem,
    public,
    public_regressors,
)

FEW = settings(max_examples=6, deadline=None, derandomize=True, database=None)
SEEDS = st.integers(0, 2**32 - 1)
SPOILT = ("", "copies", "constant")


def every(kind: str = "") -> Any:
    """Every case of which a property is said, by its attribute."""
    names = [name for name, case in CASES.items() if not kind or getattr(case, kind)]
    return pytest.mark.parametrize("name", names)


def assert_same(
    case: Case, problem: Problem, other: Problem, of_y: float = 1.0, start: float = 0.0, **parameters: Any
) -> None:
    """Check that two problems have the same predictions, those of the other in units of y `of_y` times smaller."""
    (mean, variance), (found, found_variance) = case.predict(problem, **parameters), case.predict(other, **parameters)
    # Columns of some maps vanish far from their centre, and the prior with them.
    prior, tolerance = np.maximum(case.prior(problem), problem.variance), TOLERANCES[case.near]
    assert np.all(np.abs((found - start) / of_y - mean) <= tolerance * np.sqrt(prior))
    assert np.all(np.abs(found_variance / of_y**2 - variance) <= tolerance * prior)


# --- every model has its properties ---


def test_every_regressor_has_properties() -> None:
    assert {type(case.model) for case in CASES.values()} | {*APART, *WITHOUT} == public_regressors()
    # Gaussian processes are tested, whatever they are made of.
    assert not any(issubclass(cls, GaussianProcess) for cls in (*APART, *WITHOUT))


def test_every_kind_of_map_has_properties() -> None:
    tested = {type(features) for case in CASES.values() if (features := getattr(case.model, "features", None))}
    assert set(public(FeatureMap)) <= tested


# --- what changes nothing ---


@pytest.mark.slow
@every()
@FEW
@given(n=st.integers(20, 120), d=st.integers(1, 5), seed=SEEDS)
def test_the_order_of_rows_changes_nothing(name: str, n: int, d: int, seed: int) -> None:
    case = CASES[name]
    problem = Problem.draw(n, min(d, case.most_columns), seed)
    weights = np.random.default_rng(seed).uniform(0.5, 2.0, n) if seed % 2 else None
    problem = replace(problem, weights=weights)
    assert_same(case, problem, problem.rows(np.random.default_rng(seed).permutation(n)))


@pytest.mark.slow
@every("invariant")
@FEW
@given(
    n=st.integers(20, 120),
    d=st.integers(1, 5),
    seed=SEEDS,
    extents=st.floats(-100.0, 100.0),
    units=st.floats(-6.0, 6.0),
    of_y=st.floats(-6.0, 6.0),
    start=st.floats(-100.0, 100.0),
)
def test_shifts_and_units_change_nothing(
    name: str, n: int, d: int, seed: int, extents: float, units: float, of_y: float, start: float
) -> None:
    case = CASES[name]
    problem = Problem.draw(n, min(d, case.most_columns), seed)
    shift = extents * np.ptp(problem.X, axis=0)
    other = problem.moved(shift, 10.0**units, 10.0**of_y, start * 10.0**of_y)
    assert_same(case, problem, other, 10.0**of_y, start * 10.0**of_y)


@pytest.mark.slow
@every()
@FEW
@given(n=st.integers(20, 45), d=st.integers(1, 5), seed=SEEDS)
def test_rows_that_repeat_are_rows_of_weight_two(name: str, n: int, d: int, seed: int) -> None:
    case = CASES[name]
    problem = Problem.draw(n, min(d, case.most_columns), seed)
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 3, n)
    repeated = problem.rows(rng.permutation(np.repeat(np.arange(n), counts)))
    assert_same(case, replace(problem, weights=counts.astype(float)), repeated, **case.of_all)


# --- what no variance can be ---


# Powers of ten of the lengthscale, in extents, and of the noise variance, in prior variances.
REACHES, NOISES = st.floats(-3.0, 3.0), st.floats(-8.0, 2.0)


def at_all_corners(test: Any) -> Any:
    """Try the ends of both ranges, beside what is drawn between them."""
    for number, (reach, noise) in enumerate(product((-3.0, 3.0), (-8.0, 2.0))):
        test = example(n=40, d=2, seed=number, reach=reach, noise=noise, spoilt=SPOILT[number % 3])(test)
    return test


@pytest.mark.slow
@every()
@at_all_corners
@FEW
@given(
    n=st.integers(20, 100),
    d=st.integers(1, 5),
    seed=SEEDS,
    reach=REACHES,
    noise=NOISES,
    spoilt=st.sampled_from(SPOILT),
)
def test_a_variance_is_between_zero_and_the_prior(
    name: str, n: int, d: int, seed: int, reach: float, noise: float, spoilt: str
) -> None:
    case = CASES[name]
    problem = spoil(Problem.draw(n, min(d, case.most_columns), seed, 10.0**reach, 10.0**noise), spoilt)
    try:
        mean, variance = case.predict(problem)
    except MemoryLimitError:
        assert case.near == "modes"  # the modes of short lengthscales
        return
    assert np.all(np.isfinite(mean))
    assert np.all(variance >= 0.0)
    assert np.all(variance <= case.prior(problem) * (1.0 + TOLERANCES[case.near]))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("name", ["exact", "taylor", "localized", "nearest", "residual"])
@at_all_corners
@FEW
@given(
    n=st.integers(20, 60),
    d=st.integers(1, 5),
    seed=SEEDS,
    reach=REACHES,
    noise=NOISES,
    spoilt=st.sampled_from(SPOILT),
)
def test_a_variance_of_each_target_is_between_zero_and_the_prior(
    name: str, shared: bool, n: int, d: int, seed: int, reach: float, noise: float, spoilt: str
) -> None:
    problem = spoil(Problem.draw(n, d, seed, 10.0**reach, 10.0**noise), spoilt)
    model = CASES[name].make(problem)
    model = model if shared else MultiTargetGPRegressor(model)
    with warnings.catch_warnings():
        for one in WARNED:
            warnings.simplefilter("ignore", one)
        mean, std = model.fit(problem.X, np.column_stack((problem.y, problem.y**2))).predict(problem.T, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all((std >= 0.0) & (std**2 <= problem.variance * (1.0 + TOLERANCES["direct"])))


@pytest.mark.parametrize("transformer", ["log", "log1p"])
@at_all_corners
@FEW
@given(
    n=st.integers(20, 60),
    d=st.integers(1, 5),
    seed=SEEDS,
    reach=REACHES,
    noise=NOISES,
    spoilt=st.sampled_from(SPOILT),
)
def test_the_spread_of_a_function_of_y_is_that_of_a_variance_below_the_prior(
    transformer: str, n: int, d: int, seed: int, reach: float, noise: float, spoilt: str
) -> None:
    problem = spoil(Problem.draw(n, d, seed, 10.0**reach, 10.0**noise), spoilt)
    model = TransformedTargetGPRegressor(CASES["exact"].make(problem), transformer)
    with warnings.catch_warnings():
        for one in WARNED:
            warnings.simplefilter("ignore", one)
        model.fit(problem.X, np.exp(problem.y))
        _, std = model.predict(problem.T, return_std=True)
        lower, upper = model.predict_interval(problem.T, level=0.5, include_noise=False)
    assert np.all((std >= 0.0) & np.isfinite(std))
    # An interval of one half is at most 1.35 standard deviations of the logarithm wide.
    start = 1.0 if transformer == "log1p" else 0.0
    assert np.all(upper >= lower)
    kept = (lower + start > 1e-6) & np.isfinite(upper)  # logarithms that have not lost their digits
    width = np.log(upper[kept] + start) - np.log(lower[kept] + start)
    assert np.all(width <= 1.35 * np.sqrt(problem.variance))


def spoil(problem: Problem, how: str) -> Problem:
    """Repeat five rows with other targets, or make a column constant."""
    if how == "copies":
        X, y = np.concatenate((problem.X, problem.X[:5])), np.append(problem.y, 1.0 - problem.y[:5])
        return replace(problem, X=X, y=y)
    if how == "constant" and problem.X.shape[1] > 1:
        X, T = problem.X.copy(), problem.T.copy()
        X[:, 0] = T[:6, 0] = X[0, 0]
        return replace(problem, X=X, T=T)
    return problem


WITH_A_TREND = ["exact", "orthogonal", "taylor", "nystroem", "localized", "nearest", "residual", "spectral", "chosen"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_A_TREND)
@FEW
@given(n=st.integers(20, 100), d=st.integers(1, 3), seed=SEEDS, reach=REACHES, noise=NOISES)
def test_a_trend_adds_to_the_variance(name: str, n: int, d: int, seed: int, reach: float, noise: float) -> None:
    case = CASES[name]
    problem = Problem.draw(n, min(d, case.most_columns), seed, 10.0**reach, 10.0**noise)
    try:
        _, without = case.predict(problem)
        _, variance = case.predict(problem, trend="linear")
    except MemoryLimitError:
        assert case.near == "modes"
        return
    assert np.all(variance >= 0.0)
    # What is not known of the slopes adds to what is not known of the process.
    assert np.all(variance >= without - TOLERANCES[case.near] * problem.variance)


# --- targets on another scale ---


@pytest.mark.parametrize("transformer", ["log", "log1p", FunctionTransformer(np.sqrt, inverse_func=np.square)])
@FEW
@given(n=st.integers(20, 60), d=st.integers(1, 5), seed=SEEDS, extents=st.floats(-100.0, 100.0), of_y=st.floats(-6, 6))
def test_a_model_of_a_function_of_y(transformer: Any, n: int, d: int, seed: int, extents: float, of_y: float) -> None:
    problem = Problem.draw(n, d, seed)
    problem = replace(problem, y=np.exp(0.2 * problem.y))

    def predicted(one: Problem) -> Floats:
        regressor = ExactGPRegressor(one.kernel(matern=False), one.noise, solver="cholesky")
        model = TransformedTargetGPRegressor(regressor, transformer).fit(one.X, one.y, sample_weight=one.weights)
        return np.stack((*model.predict(one.T, return_std=True), *model.predict_interval(one.T)))

    rng = np.random.default_rng(seed)
    _, std, lower, upper = expected = predicted(problem)
    assert np.all(std >= 0.0)
    assert np.all(lower <= upper)
    moved = problem.rows(rng.permutation(n)).moved(extents * np.ptp(problem.X, axis=0), 3.0, 1.0, 0.0)
    np.testing.assert_allclose(predicted(moved), expected, rtol=TOLERANCES["direct"])
    if transformer == "log":  # y in other units adds a constant to its logarithm
        units = replace(problem, y=10.0**of_y * problem.y)
        np.testing.assert_allclose(predicted(units) / 10.0**of_y, expected, rtol=TOLERANCES["direct"])
    counts = rng.integers(1, 3, n)
    repeated = predicted(problem.rows(np.repeat(np.arange(n), counts)))
    weighted = predicted(replace(problem, weights=counts.astype(float)))
    np.testing.assert_allclose(repeated, weighted, rtol=TOLERANCES["direct"])


# --- several targets ---


@FEW
@given(n=st.integers(20, 60), d=st.integers(1, 5), seed=SEEDS, extents=st.floats(-100.0, 100.0))
def test_a_model_of_several_targets(n: int, d: int, seed: int, extents: float) -> None:
    problem, rng = Problem.draw(n, d, seed), np.random.default_rng(seed)
    Y = np.column_stack((problem.y, rng.normal(size=n), problem.y**2))

    def predicted(one: Problem, targets: Floats) -> Floats:
        regressor = ExactGPRegressor(one.kernel(matern=False), one.noise, solver="cholesky")
        model = MultiTargetGPRegressor(regressor).fit(one.X, targets, sample_weight=one.weights)
        return np.stack(model.predict(one.T, return_std=True))

    expected, rtol = predicted(problem, Y), TOLERANCES["direct"]
    std, prior = expected[1], np.sqrt(problem.variance)
    assert np.all((std >= 0.0) & (std <= prior * (1.0 + rtol)))
    order = rng.permutation(n)
    moved = problem.rows(order).moved(extents * np.ptp(problem.X, axis=0), 3.0, 1.0, 0.0)
    np.testing.assert_allclose(predicted(moved, Y[order]), expected, rtol=rtol, atol=rtol * prior)
    swapped = predicted(problem, Y[:, [2, 0, 1]])
    np.testing.assert_allclose(swapped, expected[..., [2, 0, 1]], rtol=rtol, atol=rtol * prior)
    counts = rng.integers(1, 3, n)
    copies = np.repeat(np.arange(n), counts)
    weighted = predicted(replace(problem, weights=counts.astype(float)), Y)
    np.testing.assert_allclose(predicted(problem.rows(copies), Y[copies]), weighted, rtol=rtol, atol=rtol * prior)


# --- learned hyperparameters ---

LEARNED: dict[str, Callable[[], Any]] = {
    "exact": lambda: ExactGPRegressor(random_state=0),
    "localized": lambda: LocalizedGPRegressor(TaylorFeatures(30), random_state=0),
    "nearest": lambda: NearestNeighborsGPRegressor(15, kernel="matern32", random_state=0),
    "spectral": lambda: SpectralGPRegressor(random_state=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
@settings(FEW, max_examples=3)
@given(n=st.integers(40, 60), seed=SEEDS, extents=st.floats(-10.0, 10.0), units=st.integers(-6, 6))
def test_order_shifts_and_units_change_nothing_that_is_learned(
    name: str, n: int, seed: int, extents: float, units: int
) -> None:
    problem = Problem.draw(n, 1, seed)
    rows = problem.rows(np.random.default_rng(seed).permutation(n))
    moved = rows.moved(extents * np.ptp(problem.X, axis=0), 10.0**units, 10.0**-units, 3.0)

    def learned(one: Problem) -> tuple[Floats, Floats, Floats]:
        model = LEARNED[name]().fit(one.X, one.y)
        mean, std = model.predict(one.T, return_std=True)
        return mean, std, np.array(model.kernel_.lengthscale)

    (mean, std, lengthscale), (found, found_std, found_lengthscale) = learned(problem), learned(moved)
    tolerance = TOLERANCES["learned"]
    near = tolerance * std.max()
    np.testing.assert_allclose((found - 3.0) * 10.0**units, mean, rtol=0.0, atol=near)
    np.testing.assert_allclose(found_std * 10.0**units, std, rtol=0.0, atol=near)
    np.testing.assert_allclose(found_lengthscale / 10.0**units, lengthscale, rtol=tolerance)
