"""`learn`: against the exact likelihood, and what it does with bounds, weights and repetition."""

import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    GPRegressor,
    MaternKernel,
    ModulatedKernel,
    RationalQuadraticKernel,
    learn,
)
from lmgp.data import Rows
from lmgp.errors import InputError, MemoryLimitError
from lmgp.kernels.base import Kernel
from lmgp.kernels.stationary import StationaryKernel
from lmgp.learning import engine
from lmgp.learning.forms import AUTO, SEASONAL
from lmgp.learning.record import Learned, Learning, Trial
from lmgp.learning.search import Search
from tests.learning.conftest import Draw

Floats = NDArray[np.float64]

SMOOTH = GaussianKernel([0.7, 2.0], 1.0)
ROUGH = MaternKernel([1.0, 2.0], 1.0, smoothness=0.5)


def _first(X: Floats) -> Floats:
    return 1.0 + X[:, 0] ** 2


def density(X: Floats, y: Floats, kernel: Kernel, noise: float | Floats) -> float:
    covariance = kernel(X) + np.diag(np.broadcast_to(noise, len(y)))
    return float(multivariate_normal(np.zeros(len(y)), covariance).logpdf(y - y.mean()))


def logarithms(learned: Learned) -> Floats:
    return np.append(learned.kernel.theta, np.log(learned.noise_variance))


def fisher(X: Floats, learned: Learned) -> Floats:
    """The Fisher information of the exact likelihood, by dense algebra and differences."""
    at, step = logarithms(learned), 1e-5

    def covariance(values: Floats) -> Floats:
        return learned.kernel.with_theta(values[:-1])(X) + np.exp(values[-1]) * np.eye(len(X))

    inverse = np.linalg.inv(covariance(at))
    changes = [
        inverse @ (covariance(at + unit) - covariance(at - unit)) / (2.0 * step) for unit in step * np.eye(len(at))
    ]
    return 0.5 * np.array([[np.sum(a * b.T) for b in changes] for a in changes])


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Make every further search an error."""

    def fail(*_: object) -> None:
        raise AssertionError("it learns again")

    return lambda: monkeypatch.setattr(Search, "optimum", fail)


class TestParameters:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "truth"),
        [("gaussian", SMOOTH), ("matern12", ROUGH), ("matern32", MaternKernel([0.7, 2.0], 2.0))],
    )
    def test_of_all_rows_are_within_two_standard_errors_of_the_exact_optimum(
        self, name: str, truth: Kernel, draw_from: Draw
    ) -> None:
        off, options = [], {"kernel": name, "ard": True, "random_state": 0}
        for seed in range(3):
            X, y = draw_from(truth, 200, seed=seed)
            exact, found = (learn(X, y, likelihood=likelihood, **options) for likelihood in ("exact", "vecchia"))
            value = density(X, y, exact.kernel, exact.noise_variance)
            assert exact.log_marginal_likelihood == pytest.approx(value)
            # What the likelihood loses is not what these rows can show.
            assert density(X, y, found.kernel, found.noise_variance) > value - 3.0
            errors = np.sqrt(np.diag(np.linalg.inv(fisher(X, exact))))
            off.append(np.abs(logarithms(found) - logarithms(exact)) / errors)
        assert np.mean(np.array(off) < 2.0) >= 0.9
        assert np.max(off) < 3.0

    @pytest.mark.parametrize("name", ["gaussian", "matern32"])
    def test_weak_priors_cost_less_than_a_nat(self, name: str, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 120)
        found = learn(X, y, kernel=name, ard=True, random_state=0)
        free = {"lengthscale_bounds": (1e-2, 1e2), "variance_bounds": (1e-2, 1e2)}
        form: Kernel = (GaussianKernel if name == "gaussian" else MaternKernel)([1.0, 1.0], **free)
        other = learn(X, y, kernel=form, random_state=0)
        assert found.log_marginal_likelihood == pytest.approx(other.log_marginal_likelihood, abs=0.5)

    @pytest.mark.slow
    @pytest.mark.parametrize("truth", [SMOOTH, ROUGH])
    def test_the_kernel_of_the_rows_is_taken_where_likelihoods_tell(self, truth: Kernel, draw_from: Draw) -> None:
        X, y = draw_from(truth, 150, noise=0.01)
        alone = {
            name: learn(X, y, kernel=name, ard=True, random_state=0).log_marginal_likelihood
            for name in ("gaussian", "matern12")
        }
        best = max(alone, key=alone.get)  # type: ignore[arg-type]
        assert abs(alone["gaussian"] - alone["matern12"]) > 5.0
        assert best == ("gaussian" if truth is SMOOTH else "matern12")
        found = learn(X, y, kernel=["gaussian", "matern12"], ard=True, random_state=0)
        assert found.learning.chosen.kernel == best

    @pytest.mark.usefixtures("small")
    @pytest.mark.parametrize("n", [90, 400])
    def test_each_form_is_learned_once_and_what_is_left_out_decides(self, n: int, draw_from: Draw) -> None:
        X, y = draw_from(ROUGH, n, noise=0.01)
        given = {"max_learning_rows": 100, "random_state": 0}
        found = learn(X, y, kernel=["gaussian", "matern12"], **given)
        assert [one.kernel for one in found.learning] == ["gaussian", "matern12"]
        assert {one.likelihood for one in found.learning} == {"exact" if n <= 100 else "vecchia"}
        score = [np.nanmean([one.alone, one.regions]) for one in found.learning]
        assert found.learning.chosen is found.learning[int(np.argmax(score))]
        assert found.learning.chosen.kernel == "matern12"
        assert found.learning.n_rows == n
        # Nothing but its own likelihood decides about the parameters of a kernel.
        alone = learn(X, y, kernel="matern12", **given)
        np.testing.assert_array_equal(alone.kernel.theta, found.kernel.theta)
        assert alone.noise_variance == found.noise_variance
        assert np.isnan(alone.learning.chosen.alone)

    def test_auto_is_one_sum_with_one_lengthscale_a_column(self, draw_from: Draw) -> None:
        found = learn(*draw_from(SMOOTH, 60), random_state=0)
        assert [(one.kernel, one.ard) for one in found.learning] == [(AUTO, True)]

    @pytest.mark.slow
    @pytest.mark.parametrize(("amplitude", "seasonal"), [(1.0, True), (0.0, False)])
    def test_auto_finds_a_season_where_there_is_one(self, amplitude: float, seasonal: bool) -> None:
        rng, x = np.random.default_rng(0), np.arange(150.0)
        # A season of 7.3 rows that is no cosine, and a slow trend.
        y = amplitude * np.sign(np.cos(2.0 * np.pi * x / 7.3)) + np.sin(x / 40.0) + 0.2 * rng.normal(size=150)
        model = GPRegressor(noise="normal", random_state=0).fit(x[:110, None], y[:110])
        assert (model.learning_.chosen.kernel == SEASONAL) == seasonal
        if seasonal:
            (period,) = (one.value for one in model.kernel_.parameters if one.kind == "period")
            assert period == pytest.approx(7.3, rel=0.02)
        predicted = model.predict_distribution(x[110:, None])
        assert np.mean(np.abs(predicted.cdf(y[110:]) - 0.5) <= 0.475) >= 0.85
        assert np.sqrt(np.mean(np.square(predicted.mean() - y[110:]))) < 0.65

    @pytest.mark.usefixtures("small")
    @pytest.mark.parametrize("likelihood", ["exact", "vecchia"])
    def test_one_likelihood_alone(self, likelihood: str, draw_from: Draw) -> None:
        X, y = draw_from(ROUGH, 300)
        found = learn(X, y, kernel="matern12", likelihood=likelihood, max_learning_rows=100, random_state=0)
        assert [one.likelihood for one in found.learning] == [likelihood]
        assert found.learning.chosen.n_rows == (100 if likelihood == "exact" else 200)

    def test_an_irrelevant_column_has_a_long_but_finite_lengthscale(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 150)
        X = np.column_stack((X, np.random.default_rng(5).normal(size=150)))
        model = ExactGPRegressor("gaussian", ard=True, random_state=0).fit(X, y)
        inverse = model.inverse_lengthscales_
        np.testing.assert_allclose(inverse, X.std(axis=0) / model.kernel_.lengthscale)
        assert 0.0 < inverse[2] < 0.1 * inverse[:2].min()
        assert model.kernel_.lengthscale[2] < 1e4


class TestGiven:
    def test_only_parameters_with_bounds_change_and_within_them(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 120)
        kernel = MaternKernel([0.7, 2.0], 3.0, variance_bounds=(0.5, 0.6)) + RationalQuadraticKernel(
            1.0, 0.2, alpha=1.5, lengthscale_bounds=(0.2, 5.0)
        )
        found = learn(X, y, kernel=kernel, random_state=0).kernel
        before, after = kernel.get_params(), found.get_params()
        changed = {one.name for one in found.parameters if not np.array_equal(before[one.name], after[one.name])}
        assert changed == {"left__variance", "right__lengthscale"}
        assert 0.5 - 1e-9 <= after["left__variance"] <= 0.6 + 1e-9
        assert 0.2 <= after["right__lengthscale"] <= 5.0
        assert kernel.left.variance == 3.0

    def test_a_kernel_without_a_metric_is_learned_by_the_exact_likelihood(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 2))
        y = (1.0 + X[:, 0] ** 2) * np.sin(X[:, 1]) + 0.1 * rng.normal(size=60)
        kernel = ModulatedKernel(GaussianKernel(1.5, variance_bounds=(1e-3, 1e3)), _first)
        assert not kernel.can("metric")
        found = learn(X, y, kernel=kernel, random_state=0)
        best = density(X, y, found.kernel, found.noise_variance)
        assert found.log_marginal_likelihood == pytest.approx(best)
        assert found.learning.chosen.n_free == 2
        assert "ModulatedKernel" in str(found.learning)
        free = found.kernel.kernel.variance
        for factor in (0.9, 1.1):
            other = ModulatedKernel(GaussianKernel(1.5, factor * free), _first)
            assert density(X, y, other, found.noise_variance) < best

    def test_a_given_noise_is_kept(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 100)
        found = learn(X, y, kernel="gaussian", noise_variance=0.3, random_state=0)
        assert found.noise_variance == 0.3
        assert found.learning.chosen.n_free == 2 * (1 + found.learning.chosen.ard) - found.learning.chosen.ard

    def test_noise_variances_of_rows_are_kept(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 100)
        own = np.random.default_rng(1).uniform(0.02, 0.3, 100)
        found = learn(X, y, noise_variances=own, kernel="gaussian", ard=True, random_state=0)
        assert found.noise_variance == pytest.approx(own.mean())
        assert found.log_marginal_likelihood == pytest.approx(density(X, y, found.kernel, own))
        for i in range(3):
            for sign in (1.0, -1.0):
                other = found.kernel.with_theta(found.kernel.theta + 0.3 * sign * np.eye(3)[i])
                assert density(X, y, other, own) < found.log_marginal_likelihood + 0.1

    def test_weights_are_repetitions(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 70)
        counts = np.random.default_rng(1).integers(1, 4, 70)
        given = {"kernel": "gaussian", "noise_variance": 0.05, "ard": True, "random_state": 0}
        weighted = learn(X, y, sample_weight=counts, **given)
        many, targets = np.repeat(X, counts, axis=0), np.repeat(y, counts)
        repeated = learn(many, targets, **given)
        assert weighted.log_marginal_likelihood == pytest.approx(density(many, targets, weighted.kernel, 0.05))
        assert weighted.log_marginal_likelihood == pytest.approx(repeated.log_marginal_likelihood, abs=0.1)
        # And not as if every row were one.
        single = learn(X, y, **given)
        assert density(many, targets, single.kernel, 0.05) < weighted.log_marginal_likelihood - 0.1
        assert repeated.learning.n_copies == weighted.learning.n_copies == counts.sum() - 70

    def test_a_linear_trend_is_taken_out_before(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 120)
        plain = ExactGPRegressor("gaussian", trend="linear", random_state=0).fit(X, y)
        tilted = ExactGPRegressor("gaussian", trend="linear", random_state=0).fit(X, y + X @ [30.0, -50.0])
        np.testing.assert_allclose(tilted.kernel_.theta, plain.kernel_.theta, rtol=1e-3, atol=1e-3)

    def test_units_of_columns_do_not_matter(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 100)
        first = learn(X, y, kernel=["gaussian", "matern32"], random_state=0)
        second = learn(X * [1e3, 1e-3] + 5.0, 7.0 * y - 4.0, kernel=["gaussian", "matern32"], random_state=0)
        assert second.learning.chosen.kernel == first.learning.chosen.kernel
        lengthscale = np.broadcast_to(first.kernel.lengthscale, 2)
        np.testing.assert_allclose(second.kernel.lengthscale, lengthscale * [1e3, 1e-3], rtol=1e-3)
        assert second.noise_variance == pytest.approx(49.0 * first.noise_variance, rel=1e-3)


@pytest.mark.usefixtures("small")
class TestRepetition:
    def test_is_deterministic(self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y = draw_from(SMOOTH, 300)
        given = {"kernel": "gaussian", "max_learning_rows": 100, "max_memory_gib": 4.0}
        first = learn(X, y, random_state=3, **given)
        # The memory is of settings, too: another limit is learned anew, with the same result.
        again = learn(X, y, random_state=3, **{**given, "max_memory_gib": 3.9})
        assert again is not first
        np.testing.assert_array_equal(logarithms(first), logarithms(again))
        assert not np.array_equal(logarithms(first), logarithms(learn(X, y, random_state=4, **given)))

    def test_the_same_rows_and_settings_are_learned_once(self, draw_from: Draw, never: Callable[[], None]) -> None:
        X, y = draw_from(SMOOTH, 120, seed=11)
        first = learn(X, y, kernel=["gaussian", "matern12"], random_state=0)
        never()
        again = learn(X.copy(), list(y), kernel=["gaussian", "matern12"], random_state=0)
        assert again.learning.seconds == first.learning.seconds
        changed = y.copy()
        changed[0] += 1e-9
        for other in (
            {"y": changed}, {"random_state": 1}, {"kernel": "gaussian"}, {"ard": True}, {"noise_variance": 0.1},
            {"sample_weight": np.full(120, 2.0)},
        ):  # fmt: skip
            with pytest.raises(AssertionError, match="learns again"):
                learn(**{"X": X, "y": y, "kernel": ["gaussian", "matern12"], "random_state": 0, **other})

    def test_models_of_other_sizes_share_what_was_learned(self, draw_from: Draw, never: Callable[[], None]) -> None:
        X, y = draw_from(SMOOTH, 120, seed=12)
        first = GPRegressor(kernel="matern32", random_state=0).fit(X, y)
        never()
        second = GPRegressor(1e-2, kernel="matern32", random_state=0).fit(X, y)
        np.testing.assert_array_equal(second.kernel_.theta, first.kernel_.theta)

    def test_smooth_targets_almost_without_noise_are_remembered(
        self, draw_from: Draw, never: Callable[[], None]
    ) -> None:
        X, _ = draw_from(SMOOTH, 100, seed=13)
        y = np.sin(X[:, 0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            first = learn(X, y, kernel="gaussian", random_state=0)
        assert first.noise_variance < 1e-4 * y.var()
        never()
        assert learn(X, y, kernel="gaussian", random_state=0).learning.seconds == first.learning.seconds

    def test_what_was_learned_is_passed_on(self, draw_from: Draw, never: Callable[[], None]) -> None:
        X, y = draw_from(SMOOTH, 100, seed=14)
        learned = learn(X, y, kernel="matern52", random_state=0)
        never()
        model = ExactGPRegressor(learned.kernel, learned.noise_variance).fit(X, y)
        assert model.log_marginal_likelihood_ == pytest.approx(learned.log_marginal_likelihood)
        assert "matern52" in str(learned.learning)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": "matern"}, "no kernel that can be named"),
        ({"kernel": MaternKernel([1.0, 2.0, 3.0], variance_bounds=(1.0, 2.0))}, r"shape \(2,\)"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, object], message: str, draw_from: Draw) -> None:
    X, y = draw_from(SMOOTH, 30)
    with pytest.raises(InputError, match=message):
        learn(X, y, **given)


def test_memory_is_checked_before_anything_is_allocated() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30_000, 2)), rng.normal(size=30_000)
    with pytest.raises(MemoryLimitError, match="Lower max_learning_rows"):
        learn(X, y, max_learning_rows=30_000, max_memory_gib=1.0)


def test_of_very_many_rows_of_many_columns_a_sample_is_learned_from_in_whatever_order_they_come(
    monkeypatch: pytest.MonkeyPatch, small: None, draw_from: Draw
) -> None:
    assert engine.MOST_LEARNED == 1_048_576  # as `learn` states
    monkeypatch.setattr(engine, "MOST_LEARNED", 250)
    X, y = draw_from(SMOOTH, 400)
    assert len(engine.most_of(Rows(X, y))) == 400  # there, ten times the rows are far nearer
    monkeypatch.setattr(engine, "MANY_COLUMNS", 2)
    order = np.random.default_rng(1).permutation(400)
    options: Any = {"kernel": "gaussian", "ard": True, "likelihood": "vecchia", "random_state": 0}
    found, other = (learn(X[index], y[index], **options) for index in (slice(None), order))
    np.testing.assert_allclose(found.kernel.theta, other.kernel.theta, rtol=1e-9)
    assert found.learning.n_rows == 400
    assert "for 400 rows" in str(found.learning)
    drawn = engine.most_of(Rows(X, y))
    assert len(np.unique(drawn.X, axis=0)) == 250
    assert np.isin(drawn.X, X).all()
    few = Rows(X[:250], y[:250])
    assert engine.most_of(few) is few
    # Parameters are as uncertain as those of a sample are, and no more.
    errors = np.sqrt(np.diag(np.linalg.inv(fisher(drawn.X, found))))
    assert np.all(np.abs(logarithms(found) - np.log([0.7, 2.0, 1.0, 0.05])) < 4.0 * errors)


@pytest.mark.slow
def test_of_rows_on_a_grid_the_units_make_no_difference() -> None:
    """Many are equally far from each other: rounding does not choose the neighbours of the Vecchia likelihood."""
    rng, units = np.random.default_rng(0), np.array([1e-3, 7.0, 0.3])
    X = rng.integers(0, 12, (900, 3)).astype(float)
    y = np.sin(0.5 * X[:, 0]) + 0.3 * np.cos(X[:, 1]) + 0.1 * X[:, 2] + 0.2 * rng.normal(size=900)
    options: Any = {"kernel": "matern32", "ard": True, "likelihood": "vecchia"}
    found, other = learn(X, y, **options), learn(units * X, 7.0 * y, **options)
    np.testing.assert_allclose(other.kernel.lengthscale / units, found.kernel.lengthscale, rtol=1e-8)
    np.testing.assert_allclose(other.noise_variance, 49.0 * found.noise_variance, rtol=1e-8)


def test_the_last_sixteen_are_remembered() -> None:
    engine.remembered.cache_clear()
    given = engine.Settings(GaussianKernel(1.0), noise_variance=0.1)
    rows = [Rows(np.arange(5.0)[:, None], factor * (np.arange(5.0) - 2.0)) for factor in range(1, 21)]
    learned = [engine.learn_rows(one, given) for one in rows]
    assert engine.remembered.cache_info().currsize == 16
    again = {i: engine.learn_rows(rows[i], given).learning.seconds for i in (-1, 4, 3)}
    assert {i for i, seconds in again.items() if seconds == learned[i].learning.seconds} == {-1, 4}


def test_seconds_are_those_of_the_call(draw_from: Draw) -> None:
    X, y = draw_from(SMOOTH, 60)
    start = perf_counter()
    seconds = learn(X, y, kernel="gaussian").learning.seconds
    assert 0.0 < seconds <= perf_counter() - start


def test_two_rows_are_enough_to_learn_from(draw_from: Draw) -> None:
    X, y = draw_from(SMOOTH, 60)
    found = learn(X, y, kernel="gaussian", ard=False, likelihood="exact", max_learning_rows=2)
    assert found.learning.chosen.n_rows == 2


@pytest.mark.parametrize(("bounds", "several"), [((1e-3, 1e3), True), ("fixed", False)])
def test_draws_of_one_free_parameter_are_averaged_and_of_none_there_are_no_draws(
    bounds: Any, several: bool, draw_from: Draw
) -> None:
    X, y = draw_from(GaussianKernel(0.7), 40)
    kernel = GaussianKernel(0.7, lengthscale_bounds=bounds)
    settings = engine.Settings(kernel, noise_variance=0.05, average=True)
    assert (len(engine.learn_rows(Rows(X, y - y.mean()), settings).average) > 1) == several


def test_of_several_targets_there_are_no_draws_and_no_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, tails = np.random.default_rng(0), list[bool]()

    class Spy(engine.Search):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            tails.append(self.tails)

    monkeypatch.setattr(engine, "Search", Spy)
    X, Y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    for n_targets in (1, 2):
        rows = Rows(X, Y[:, :n_targets] - Y[:, :n_targets].mean(axis=0))
        found = engine.learn_rows(rows, engine.Settings("gaussian", average=True, tails=True))
        assert (len(found.average) > 1) == (n_targets == 1)
    assert tails == [True, False]


@pytest.mark.parametrize(
    ("n_places", "n_copies", "noise_variance", "again"),
    [(1, 5, None, 0), (2, 5, None, 2), (30, 5, None, 2), (30, 0, None, 0), (30, 5, 1e-9, 0), (30, 0, 1e-9, 0)],
)
def test_rows_are_learned_from_again_where_copies_may_matter(
    n_places: int, n_copies: int, noise_variance: float | None, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Rows] = []

    def counted(rows: Rows, _: object) -> Learned:
        calls.append(rows)
        return learned

    monkeypatch.setattr(engine, "learn_rows", counted)
    X = np.arange(float(n_places))[np.arange(n_places + n_copies) % n_places, None]
    trial = Trial("gaussian", True, 3, "exact", n_places, 0, 0.0, chosen=True)
    rows, learning = Rows(X, np.sin(X[:, 0])), Learning((trial,), n_copies=n_copies)
    learned = Learned(GaussianKernel(), 1e-12, 0.0, True, learning)
    engine._warn_of_copies(rows, learned, engine.Settings(SMOOTH, noise_variance=noise_variance))
    assert len(calls) == again


@pytest.mark.parametrize(("n_inputs", "n_left"), [(7, 60), (8, 50), (9, 50)])
def test_of_many_rows_of_eight_and_more_columns_some_are_learned_from(
    n_inputs: int, n_left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MOST_LEARNED", 50)
    X = np.random.default_rng(0).normal(size=(60, n_inputs))
    assert len(engine.most_of(Rows(X, X[:, 0]))) == n_left


@pytest.mark.parametrize(
    ("random_state", "draw"), [(7, 7), (np.random.default_rng(3), int(np.random.default_rng(3).integers(2**31)))]
)
def test_a_seed_is_the_draw_and_a_generator_draws_one(
    random_state: Any, draw: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws: list[int] = []
    monkeypatch.setattr(engine, "learn_warned", lambda _, settings: draws.append(settings.draw))
    learn(np.arange(5.0)[:, None], np.arange(5.0), random_state=random_state)
    assert draws == [draw]


def test_a_single_row_is_refused() -> None:
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        learn([[1.0]], [2.0])


@pytest.mark.parametrize(("n", "several"), [(500, True), (501, False)])
def test_up_to_500_rows_draws_of_the_parameters_are_averaged(n: int, several: bool, draw_from: Draw) -> None:
    X, y = draw_from(SMOOTH, n)
    found = engine.learn_rows(Rows(X, y - y.mean()), engine.Settings("gaussian", False, average="auto"))
    assert (len(found.average) > 1) == several


def test_what_is_remembered_does_not_change_with_what_was_returned() -> None:
    X = np.linspace(0.0, 6.0, 40)[:, None]
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    first = learn(X, y, kernel="gaussian")
    lengthscale = first.kernel.lengthscale
    first.kernel.set_params(lengthscale=99.0)
    again = learn(X, y, kernel="gaussian")
    assert again.kernel.lengthscale == lengthscale
    assert again.average[0].kernel is again.kernel


def test_kernels_with_code_of_the_caller_are_learned_each_time() -> None:
    X = np.linspace(0.0, 5.0, 40)[:, None]
    y = np.sin(3.0 * X[:, 0])

    def kernel_class(power: float) -> type[StationaryKernel]:
        class Mine(StationaryKernel):
            def correlation(self, squares: Any, values: Any) -> Any:
                return torch.exp(-power * squares)

        return Mine

    for power in (0.5, 5.0):
        kernel = kernel_class(power)(1.0, lengthscale_bounds=(0.01, 100.0))
        assert type(learn(X, y, kernel=kernel).kernel) is type(kernel)
    engine.remembered.cache_clear()
    for factor in (1.0, 2.0):
        learn(X, y, kernel=ModulatedKernel(GaussianKernel(), lambda x, factor=factor: factor + x[:, 0]))
    assert engine.remembered.cache_info().currsize == 0
