"""Choosing among candidates: which are tried, and which is taken."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lmgp import GaussianKernel, GPRegressor
from lmgp.errors import NumericalError
from lmgp.metrics import kl_divergence
from lmgp.recipes import Spectral
from lmgp.selection import choose
from lmgp.selection.candidates import TRIED, Candidate, Problem
from lmgp.selection.choose import TRIALS, select
from lmgp.selection.methods import EXACT, NEAREST_ROWS, SPECTRAL
from lmgp.selection.probes import Probes
from lmgp.selection.record import Selection
from tests.selection.bench import N_PROBES, TOLERANCE, Bench
from tests.selection.machine import KERNEL, draw


class TestWithinTheTolerance:
    def test_the_cheapest_is_taken_even_if_a_later_one_is_nearer(self) -> None:
        bench = Bench()
        given = [
            bench.candidate("near", 32, 4.0, 1e-9),
            bench.candidate("bad", 32, 2.0, 1e-2),
            bench.candidate("cheap", 64, 3.0, 9e-4),
            bench.candidate("cheap", 32, 1.0, 1e-1),
        ]
        choice, selection = bench.select(given)
        assert (choice.trial.method, choice.trial.n_features) == ("cheap", 64)
        assert bench.built == [("cheap", 32), ("bad", 32), ("cheap", 64)]
        assert [trial.chosen for trial in selection] == [False, False, True]
        assert selection.chosen.kl == pytest.approx(9e-4, rel=1e-9)

    @pytest.mark.parametrize(("tolerance", "size"), [(0.126, 32), (0.124, 64)])
    def test_the_tolerance_decides(self, tolerance: float, size: int) -> None:
        bench = Bench()
        given = [bench.candidate("a", 32, 1.0, 0.125), bench.candidate("a", 64, 2.0, 0.0)]
        assert bench.select(given, tolerance)[0].trial.n_features == size

    @pytest.mark.parametrize(("tolerance", "size"), [(0.59, 64), (0.61, 32)])
    def test_two_standard_errors_are_added(self, tolerance: float, size: int) -> None:
        bench = Bench()
        # Of mean 0.5 and standard deviation 0.5: of 100 probes, with a standard error of 0.05.
        given = [bench.candidate("a", 32, 1.0, lambda X: X % 2), bench.candidate("a", 64, 2.0, 0.0)]
        choice, selection = bench.select(given, tolerance)
        assert choice.trial.n_features == size
        assert (selection[0].kl, selection[0].spread) == pytest.approx((0.5, 0.05))

    def test_the_exact_process_needs_no_trial(self) -> None:
        bench = Bench()
        given = [
            bench.candidate(NEAREST_ROWS, 32, 1.0, 1e-1),
            bench.candidate(NEAREST_ROWS, 64, 4.0, 1e-9),
            bench.candidate(EXACT, 700, 3.0, 1e9),
        ]
        choice, selection = bench.select(given)
        assert (choice.trial.method, choice.trial.n_features) == (EXACT, 700)
        assert bench.built == [(NEAREST_ROWS, 32)]
        assert selection.chosen[4:9] == (0.0, 0.0, 0, 3.0, 0.0)
        assert str(selection).splitlines()[2].split()[:6] == ["*", EXACT, "700", "-", "fitc", "-"]
        assert selection.shortfall is None


class TestSecondsOfTheTrials:
    @pytest.mark.parametrize(("trial", "n_tried"), [(0.01, 5), (0.5 * TRIALS, 2), (0.6 * TRIALS, 1), (100.0, 1)])
    def test_trials_end_when_together_they_take_too_long(self, trial: float, n_tried: int) -> None:
        assert TRIALS == 3.0  # as `GPRegressor` states
        bench = Bench()
        bench.select([bench.candidate("a", 2**i, float(i), 0.5, trial) for i in range(5)])
        assert len(bench.built) == n_tried

    def test_one_that_takes_too_long_is_passed_over(self) -> None:
        bench = Bench()
        given = [
            bench.candidate("cheap", 32, 1.0, 0.5, trial=0.1),
            bench.candidate("long", 32, 2.0, 0.0, trial=2.0 * TRIALS),
            bench.candidate(NEAREST_ROWS, 32, 3.0, 0.0, trial=0.1),
        ]
        assert bench.select(given)[0].trial.method == NEAREST_ROWS
        assert ("long", 32) not in bench.built


class TestNoneWithinTheTolerance:
    @pytest.mark.parametrize(("cheaper", "size"), [(0.549, 32), (0.551, 64)])
    def test_a_cheaper_one_that_is_as_near_but_for_a_standard_error_is_taken(self, cheaper: float, size: int) -> None:
        bench = Bench()
        # The nearest has a divergence of 0.5 with a standard error of 0.05.
        given = [bench.candidate("a", 32, 1.0, cheaper), bench.candidate("a", 64, 2.0, lambda X: X % 2)]
        choice, selection = bench.select(given, 0.03)
        assert choice.trial.n_features == size
        assert [trial.n_probes for trial in selection] == [N_PROBES] * 2

    def test_the_nearest_is_taken(self) -> None:
        bench = Bench()
        given = [bench.candidate(name, 32, seconds, kl) for name, seconds, kl in
                 (("a", 1.0, 0.5), ("b", 2.0, 0.1), ("c", 3.0, 0.7))]  # fmt: skip
        choice, selection = bench.select(given)
        assert choice.trial.method == "b"
        assert selection.chosen.kl == pytest.approx(0.1)
        assert sum(trial.chosen for trial in selection) == 1


def test_a_candidate_without_a_factor_in_float64_is_not_taken() -> None:
    def refused(_: np.ndarray) -> np.ndarray:
        raise NumericalError("The noise variance is too small.")

    bench = Bench()
    given = [bench.candidate("a", 32, 1.0, refused), bench.candidate("b", 32, 2.0, 0.5)]
    choice, selection = bench.select(given)
    assert choice.trial.method == "b"
    assert [trial.kl for trial in selection] == [math.inf, pytest.approx(0.5)]
    assert selection[0].spread == 0.0
    assert Selection.from_json(selection.to_json()) == selection


@pytest.mark.parametrize(("tolerance", "divergence"), [(1e-5, 5e-6), (1e-3, 1e-4)])
def test_the_global_solve_states_half_the_tolerance_at_most(tolerance: float, divergence: float) -> None:
    # The other half is for the iterations; and an error of the mean below .01 standard deviations of the noise is free.
    recipe, selection, _ = choose.choose(Problem(draw(300), KERNEL, 0.1, tolerance, 10**6), np.random.default_rng(0))
    assert isinstance(recipe, Spectral)
    assert [(trial.method, trial.kl) for trial in selection] == [(SPECTRAL, pytest.approx(divergence))]
    assert recipe.tolerance**2 == pytest.approx(divergence)


@pytest.mark.parametrize(("n_streamed", "seconds", "taken"), [(None, 0.9, True), (None, 5.0, False), (300, 5.0, True)])
def test_the_global_solve_of_a_stream_may_take_what_any_model_may(
    n_streamed: int | None, seconds: float, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that of rows in memory, of which the exact process takes no second, a second."""
    keeps_rows: list[bool] = []

    class Solve:
        @staticmethod
        def of(*arguments: Any) -> Any:
            keeps_rows.append(arguments[-1])
            return SimpleNamespace(cost=SimpleNamespace(seconds=seconds))

    monkeypatch.setattr(choose, "ModeSolve", Solve)
    problem = Problem(draw(300), KERNEL, 0.1, 1e-3, 10, n_streamed=n_streamed)
    assert (choose._by_modes(problem) is not None) == taken
    assert keeps_rows == [n_streamed is None]


def test_the_record_says_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, times = Bench(), iter((10.0, 12.5))
    monkeypatch.setattr(choose, "perf_counter", lambda: next(times))
    _, selection = bench.select([bench.candidate("a", 32, 1.25, 0.0)])
    assert (selection.tolerance, selection.n_predict) == (TOLERANCE, 77)
    assert (selection.reference_rows, selection.reference_seconds) == (5, 3.0)
    trial = selection.chosen
    assert (trial.method, trial.n_features, trial.threshold, trial.approximation) == ("a", 32, 1.0, "fitc")
    assert trial.seconds == 1.25
    assert trial.trial_seconds == 2.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::lmgp.errors.ToleranceWarning")
@pytest.mark.parametrize(("lengthscale", "noise", "max_features"), [(1.0, 0.05, 256), (0.4, 0.5, 64), (3.0, 1e-3, 64)])
def test_of_real_models_what_is_written_is_true(
    lengthscale: float, noise: float, max_features: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every divergence, by predicting all probes with every model that was tried."""
    selections = []

    def checked(
        problem: Problem, probes: Probes, listed: list[Candidate], build: Callable
    ) -> tuple[Candidate, Selection]:
        """Within the fit, so that random maps are drawn as they were."""
        choice, selection = select(problem, probes, listed, build)
        names = "threshold", "n_neighbors"
        tried = {(*one.trial[:2], *(getattr(one.recipe, name, None) for name in names)): one for one in listed}
        for trial in selection:
            candidate = tried[trial.method, trial.n_features, trial.threshold, trial.n_neighbors]
            assert trial.seconds == candidate.trial.seconds
            if trial.method == EXACT:
                continue
            mean, variance = build(candidate).predict(probes.X)
            divergence = kl_divergence(mean[:, 0], variance + noise, probes.mean, probes.variance + noise)
            assert trial.n_probes == len(probes.X)
            assert trial.kl == pytest.approx(divergence.mean(), rel=1e-6, abs=1e-12)
        selections.append(selection)
        return choice, selection

    monkeypatch.setattr(choose, "select", checked)
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 8, (350, 2))
    y = np.sin(2 * X[:, 0]) + noise**0.5 * rng.normal(size=350)
    kernel = GaussianKernel(lengthscale, 1.0)
    # Many predictions: or the exact GP would be taken without a search.
    methods = [name for name in TRIED if name != SPECTRAL]
    parameters = {"max_features": max_features, "n_predict": 10**7, "methods": methods, "random_state": 0}
    GPRegressor(kernel=kernel, noise_variance=noise, **parameters).fit(X, y)
    (selection,) = selections
    assert len(selection) >= 3
