"""Choosing among candidates: which are tried, on how many probes, and which is taken."""

from collections.abc import Callable

import numpy as np
import pytest

from lmgp import GaussianKernel, GPRegressor
from lmgp.metrics import kl_divergence
from lmgp.selection import choose
from lmgp.selection import search as module
from lmgp.selection.candidates import TRIED, Candidate, Family
from lmgp.selection.methods import EXACT, NEAREST_ROWS, SPECTRAL
from lmgp.selection.probes import Probes
from lmgp.selection.search import MOST_SECONDS, Selection, select
from tests.selection.bench import N_PROBES, TOLERANCE, VARIANCE, Bench


class TestWithinTheTolerance:
    def test_the_cheapest_is_taken_even_if_a_later_one_is_nearer(self) -> None:
        bench = Bench()
        families = [
            bench.family("near", {32: (4.0, 1e-9), 64: (5.0, 1e-12)}),
            bench.family("cheap", {32: (1.0, 1e-1), 64: (3.0, 9e-4), 128: (9.0, 1e-9)}),
            bench.family("bad", {32: (2.0, 1e-2)}),
        ]
        choice, selection = bench.select(families)
        assert (choice.method, choice.size) == ("cheap", 64)
        assert bench.built == [("cheap", 32), ("bad", 32), ("cheap", 64)]
        assert [trial.chosen for trial in selection] == [False, False, True]
        assert selection.chosen.kl == pytest.approx(9e-4, rel=1e-9)

    def test_the_tolerance_decides(self) -> None:
        for tolerance, size in ((0.126, 32), (0.124, 64)):
            bench = Bench()
            families = [bench.family("a", {32: (1.0, 0.125), 64: (2.0, 0.0)})]
            assert bench.select(families, tolerance)[0].size == size

    def test_all_probes_count(self) -> None:
        """The first ones are near, the others are not."""
        bench = Bench()
        late = {32: (1.0, lambda X: np.where(X < 32, 0.0, 1.0)), 64: (2.0, 1e-6)}
        choice, selection = bench.select([bench.family("late", late)])
        assert choice.size == 64
        assert selection[0].kl == pytest.approx(0.68, rel=1e-9)
        assert selection[0].n_probes == N_PROBES

    def test_a_family_that_cannot_be_near_enough_is_tried_once(self) -> None:
        """1.0 at 32 columns is no less than 1/16 at 128, where it falls by size^(−2)."""
        bench = Bench()
        table = {32: (1.0, 1.0), 64: (2.0, 1.0), 128: (3.0, 0.0)}
        families = [bench.family("slow", table, power=2.0), bench.family("other", {32: (4.0, 0.0)})]
        assert bench.select(families, 0.0624)[0].method == "other"
        assert bench.built == [("slow", 32), ("other", 32)]
        bench = Bench()
        families = [bench.family("slow", table, power=2.0), bench.family("other", {32: (4.0, 0.0)})]
        # At 64 columns it is 1.0 still: of that, a quarter is left at 128.
        assert bench.select(families, 0.0626)[0].method == "other"
        assert bench.built == [("slow", 32), ("slow", 64), ("other", 32)]
        bench = Bench()
        assert bench.select([bench.family("slow", table, power=2.0)], 0.26)[0].size == 128


class TestUncertainty:
    @staticmethod
    def uneven(X: np.ndarray) -> np.ndarray:
        """Of mean 0.5 and standard deviation 0.5: of 100 probes, with a standard error of 0.05."""
        return X % 2

    @pytest.mark.parametrize(("tolerance", "size"), [(0.59, 64), (0.61, 32)])
    def test_two_standard_errors_are_added(self, tolerance: float, size: int) -> None:
        bench = Bench()
        choice, selection = bench.select([bench.family("a", {32: (1.0, self.uneven), 64: (2.0, 0.0)})], tolerance)
        assert choice.size == size
        assert (selection[0].kl, selection[0].spread) == pytest.approx((0.5, 0.05))

    def test_an_unsure_reference_makes_no_candidate_near_enough(self) -> None:
        bench = Bench(change=0.2)
        choice, _ = bench.select([bench.family("a", {32: (1.0, 0.25), 64: (2.0, 0.0)})], 0.1)
        assert choice.size == 64


class TestModelsWithoutAMap:
    def test_come_first_and_a_map_is_to_save_seconds(self) -> None:
        """With the seconds of its trial, and of the trials before."""
        for trial, expected in ((0.5, "map"), (1.5, NEAREST_ROWS)):
            bench = Bench()
            families = [
                bench.family("map", {32: (1.0, 1e-9), 64: (1.8, 1e-9)}, trial=trial),
                bench.family(NEAREST_ROWS, {32: (1.5, 1e-1), 64: (2.0, 1e-9), 128: (9.0, 0.0)}),
            ]
            assert bench.select(families)[0].method == expected
            assert bench.built[:2] == [(NEAREST_ROWS, 32), (NEAREST_ROWS, 64)]
            assert len(bench.built) == (3 if expected == "map" else 2)

    def test_the_exact_process_needs_no_trial(self) -> None:
        bench = Bench()
        families = [
            bench.family(NEAREST_ROWS, {32: (1.0, 1e-1), 64: (4.0, 1e-9)}),
            bench.family(EXACT, {700: (3.0, 1e9)}),
        ]
        choice, selection = bench.select(families)
        assert (choice.method, choice.size) == (EXACT, 700)
        assert bench.built == [(NEAREST_ROWS, 32)]
        assert selection.chosen[4:9] == (0.0, 0.0, 0, 3.0, 0.0)
        assert str(selection).splitlines()[2].split()[:6] == ["*", EXACT, "700", "-", "fitc", "-"]
        assert selection.shortfall(128) is None

    def test_the_largest_affordable_one_is_tried_on_all_probes_where_none_is_near_enough(self) -> None:
        bench = Bench()
        nearest = bench.family(NEAREST_ROWS, {32: (1.0, 0.9), 64: (2.0, 0.5), 128: (3.0, 0.1)}, power=1.0)
        choice, selection = bench.select([nearest])
        assert (choice.size, selection.chosen.n_probes) == (128, N_PROBES)
        assert (NEAREST_ROWS, 64) not in bench.built


class TestSecondsOfTheSearch:
    @pytest.mark.parametrize(("trial", "n_tried"), [(0.01, 7), (1.0, 3), (2.0, 1), (100.0, 1)])
    def test_trials_of_maps_end(self, trial: float, n_tried: int) -> None:
        bench = Bench()
        sizes = [32 * 2**i for i in range(7)]
        bench.select([bench.family("a", {size: (float(size), 0.004) for size in sizes}, trial=trial)])
        assert len(dict.fromkeys(bench.built)) == n_tried

    def test_one_that_is_expected_to_take_longer_is_not_begun(self) -> None:
        bench = Bench()
        families = [
            bench.family("slow", {32: (1.0, 0.0)}, trial=MOST_SECONDS + 1.0),
            bench.family("fast", {32: (2.0, 0.1)}, trial=1.0),
        ]
        assert bench.select(families)[0].method == "fast"
        assert {method for method, _ in bench.built} == {"fast"}

    def test_the_cheapest_is_begun_where_all_take_longer(self) -> None:
        bench = Bench()
        table = {32: (1.0, 0.1), 64: (2.0, 0.0)}
        choice, selection = bench.select([bench.family("slow", table, trial=1e3)])
        assert (choice.size, selection.chosen.n_probes) == (32, N_PROBES)

    def test_take_as_long_as_the_model_without_a_map_that_is_near_enough(self) -> None:
        """But two seconds at least."""
        for seconds, tried in ((3.0, True), (1.0, False), (10.0, True)):
            bench = Bench()
            families = [
                bench.family(NEAREST_ROWS, {32: (seconds, 0.0)}),
                bench.family("map", {32: (0.1, 0.0)}, trial=min(2.5, 0.5 * seconds) if tried else 1.0),
            ]
            bench.select(families)
            assert (("map", 32) in bench.built) is tried


class TestLooks:
    def test_one_that_is_far_off_is_looked_at_with_the_first_probes_only(self) -> None:
        bench = Bench()
        table = {32: (1.0, 6e-3), 64: (2.0, 4e-3), 128: (3.0, 1e-4)}
        _, selection = bench.select([bench.family("a", table)])
        assert bench.predicted == [("a", 32, 32), ("a", 64, 32), ("a", 64, 100), ("a", 128, 32), ("a", 128, 100)]
        assert [trial.n_probes for trial in selection] == [32, 100, 100]
        assert [trial.kl for trial in selection] == pytest.approx([6e-3, 4e-3, 1e-4])

    def test_few_probes_are_looked_at_once(self) -> None:
        bench = Bench(7)
        _, selection = bench.select([bench.family("a", {32: (1.0, 1e-4)})])
        assert bench.predicted == [("a", 32, 7)]
        assert selection.chosen.n_probes == 7

    def test_variance_left_out_rules_one_out_before_it_predicts(self) -> None:
        bench = Bench()
        families = [bench.family("cut", {32: (1.0, 0.0)}), bench.family("whole", {32: (2.0, 0.0)})]
        bench.missing["cut", 32] = 4.0
        choice, selection = bench.select(families)
        assert choice.method == "whole"
        assert [method for method, *_ in bench.predicted] == ["whole", "whole"]
        # KL(N(0, 4 + noise) ‖ N(0, 1.5 + noise))
        assert selection[0].kl == pytest.approx(kl_divergence(0.0, 4.5, 0.0, 2.0)[0], rel=1e-12)
        assert selection[0].n_probes == 0

    def test_variance_left_out_below_the_exact_one_says_nothing(self) -> None:
        bench = Bench()
        family = bench.family("a", {32: (1.0, 0.0)})
        bench.missing["a", 32] = 0.9 * VARIANCE
        assert bench.select([family])[1].chosen.kl == 0.0


class TestRivals:
    @staticmethod
    def pair(bench: Bench, left: dict[int, tuple[float, object]], right: dict[int, tuple[float, object]]) -> list:
        families = [bench.family("left", left), bench.family("right", right)]
        families[0].rival, families[1].rival = families[1], families[0]
        return families

    def test_the_one_behind_is_given_up(self) -> None:
        bench = Bench()
        families = self.pair(
            bench,
            {32: (1.0, 0.30), 64: (3.0, 1e-9)},
            {32: (2.0, 0.20), 64: (4.0, 0.01), 128: (5.0, 1e-9)},
        )
        assert bench.select(families)[0].method == "right"
        assert bench.built == [("left", 32), ("right", 32), ("right", 64), ("right", 128)]

    def test_the_last_size_of_both_says_which(self) -> None:
        bench = Bench()
        families = self.pair(
            bench,
            {32: (1.0, 0.2), 64: (3.0, 0.05), 128: (6.0, 1e-9)},
            {32: (2.0, 0.2), 64: (4.0, 0.06), 128: (5.0, 1e-9)},
        )
        choice, _ = bench.select(families)
        assert (choice.method, choice.size) == ("left", 128)
        assert ("right", 128) not in bench.built

    def test_nothing_in_common_says_nothing(self) -> None:
        bench = Bench()
        families = self.pair(bench, {32: (1.0, 0.9), 64: (2.0, 1e-9)}, {128: (1.5, 0.1)})
        assert bench.select(families)[0].method == "left"


class TestNoneWithinTheTolerance:
    @pytest.mark.parametrize(("cheaper", "size"), [(0.124, 32), (0.126, 64)])
    def test_a_cheaper_one_that_is_about_as_near_is_taken(self, cheaper: float, size: int) -> None:
        bench = Bench()
        assert bench.select([bench.family("a", {32: (1.0, cheaper), 64: (2.0, 0.1)})], 0.03)[0].size == size

    @pytest.mark.parametrize(("cheaper", "size"), [(0.139, 32), (0.141, 64)])
    def test_what_the_reference_does_not_tell_apart_is_about_as_near(self, cheaper: float, size: int) -> None:
        bench = Bench(change=0.01)  # 6 times that counts as a part of both: 1.25 (0.1 + 0.06) - 0.06 = 0.14
        assert bench.select([bench.family("a", {32: (1.0, cheaper), 64: (2.0, 0.1)})], 0.03)[0].size == size

    @pytest.mark.parametrize(("cheaper", "method"), [(0.174, "b"), (0.176, "a")])
    def test_a_poor_reference_makes_nothing_near_that_is_far_from_it(self, cheaper: float, method: str) -> None:
        bench = Bench(change=1.0)  # 20 times the tolerance counts: 1.25 (0.1 + 0.2) - 0.2 = 0.175

        def unlike(X: np.ndarray) -> np.ndarray:
            """Less on the first 32 of 100 probes, so that all are looked at."""
            return np.where(X < 32, 0.09, (cheaper - 0.32 * 0.09) / 0.68)

        families = [bench.family("a", {32: (9.0, 0.1)}), bench.family("b", {32: (1.0, unlike)})]
        choice, selection = bench.select(families, 0.01)
        assert choice.method == method
        assert [(trial.method, trial.n_probes) for trial in selection] == [("b", N_PROBES), ("a", N_PROBES)]

    def test_the_nearest_of_the_largest_is_taken(self) -> None:
        bench = Bench()
        families = [
            bench.family("a", {32: (1.0, 0.5), 64: (2.0, 0.3)}),
            # Given up early, and the nearest in the end.
            bench.family("b", {32: (1.5, 0.4), 64: (9.0, 0.2), 128: (10.0, 0.1)}, power=1.0),
            bench.family("c", {32: (1.2, 0.9), 64: (3.0, 0.7)}),
        ]
        choice, selection = bench.select(families)
        assert (choice.method, choice.size) == ("b", 128)
        assert selection.chosen.kl == pytest.approx(0.1)
        assert selection.chosen.n_probes == N_PROBES
        assert sum(trial.chosen for trial in selection) == 1
        assert ("b", 64) not in bench.built

    def test_what_cannot_be_the_nearest_is_left_alone(self) -> None:
        bench = Bench()
        families = [
            bench.family("a", {32: (1.0, 0.5), 64: (2.0, 0.01)}),
            bench.family("b", {32: (1.5, 0.4), 64: (9.0, 0.1)}, power=1.0),
        ]
        assert bench.select(families)[0].method == "a"
        assert ("b", 64) not in bench.built

    def test_a_first_look_is_not_enough_to_be_taken(self) -> None:
        """On the first probes the one is nearer, on all the other."""
        bench = Bench()
        families = [
            bench.family("a", {32: (1.0, lambda X: np.where(X < 32, 0.10, 0.9))}),
            bench.family("b", {32: (2.0, 0.2)}),
        ]
        choice, selection = bench.select(families)
        assert choice.method == "b"
        assert selection.chosen.n_probes == N_PROBES

    def test_each_candidate_has_one_line_with_all_that_it_took(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = iter(float(tick) for tick in range(10**6))
        monkeypatch.setattr(module, "perf_counter", lambda: next(clock))
        bench = Bench()
        _, selection = bench.select([bench.family("a", {32: (1.0, 0.5)})])
        assert bench.built == [("a", 32), ("a", 32)]
        assert [trial.trial_seconds for trial in selection] == [2.0]

    def test_a_lower_bound_is_not_taken_for_a_divergence(self) -> None:
        """It leaves out more variance than the other, and is farther off still than that says."""
        bench = Bench()
        families = [bench.family("cut", {32: (1.0, 0.9)}), bench.family("whole", {32: (2.0, 0.3)})]
        bench.missing["cut", 32] = 2.0
        choice, selection = bench.select(families)
        assert choice.method == "whole"
        assert selection.chosen.kl == pytest.approx(0.3)


class TestRecord:
    def test_says_what_was_asked_for(self) -> None:
        bench = Bench(change=0.25)
        _, selection = bench.select([bench.family("a", {32: (1.25, 0.0)})])
        assert (selection.tolerance, selection.n_predict) == (TOLERANCE, 77)
        assert (selection.reference_rows, selection.reference_change, selection.reference_seconds) == (5, 0.25, 3.0)
        trial = selection.chosen
        assert (trial.method, trial.n_features, trial.threshold, trial.approximation) == ("a", 32, 1.0, "fitc")
        assert trial.seconds == 1.25
        assert 0.0 <= trial.trial_seconds < 5.0


@pytest.mark.filterwarnings("ignore::lmgp.errors.ToleranceWarning")
@pytest.mark.parametrize(("lengthscale", "noise", "max_features"), [(1.0, 0.05, 256), (0.4, 0.5, 64), (3.0, 1e-3, 64)])
def test_of_real_models_what_is_written_is_true(
    lengthscale: float, noise: float, max_features: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every divergence, and every lower bound of one, by predicting all probes with every model that was tried."""
    selections = []

    def checked(
        probes: Probes, families: list[Family], build: Callable, *arguments: float
    ) -> tuple[Candidate, Selection]:
        """Within the fit, so that random maps are drawn as they were."""
        choice, selection = select(probes, families, build, *arguments)
        candidates = [candidate for family in families for candidate in family.candidates]
        tried = {(one.method, one.size, getattr(one.recipe, "threshold", None)): one for one in candidates}
        for trial in selection:
            candidate = tried[trial.method, trial.n_features, trial.threshold]
            assert trial.seconds == candidate.seconds
            if trial.method == EXACT:
                continue
            mean, variance = build(candidate).predict(probes.X)
            divergence = kl_divergence(mean[:, 0], variance + noise, probes.mean, probes.variance + noise)
            if trial.n_probes:
                assert trial.kl == pytest.approx(divergence[: trial.n_probes].mean(), rel=1e-6, abs=1e-12)
            else:
                assert TOLERANCE < trial.kl <= divergence.mean()
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
    assert any(trial.n_probes == 0 for trial in selection)
