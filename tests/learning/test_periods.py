"""Where the search for a period starts, and that it finds the period."""

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp import GPRegressor, learn
from lmgp.data import Rows
from lmgp.learning import periods
from lmgp.learning.periods import CANDIDATES, likely_periods
from lmgp.learning.search import LENGTHSCALES, NOISES, starting_points
from lmgp.learning.space import Space, Units
from tests.learning.conftest import form_of

Floats = NDArray[np.float64]


def months(n: int = 120, seed: int = 0, noise: float = 0.3) -> tuple[Floats, Floats]:
    """A season of 12 months, a slow trend and noise, from a year on."""
    t = np.arange(float(n))
    season = np.sin(2.0 * np.pi * t / 12.0) + 0.5 * np.cos(4.0 * np.pi * t / 12.0 + 1.0)
    return t, season + 1e-3 * t + np.sin(t / 60.0) + noise * np.random.default_rng(seed).normal(size=n)


def centred(X: Floats, y: Floats) -> Rows:
    return Rows(X, y - y.mean())


def test_numbers_are_those_that_are_stated() -> None:
    """Of four peaks, eight frequencies a cycle, up to 4,000 cycles, of 2,000 rows."""
    assert (CANDIDATES, periods.OVERSAMPLED, periods.MOST_CYCLES, periods.MOST_ROWS) == (4, 8, 4000, 2000)


class TestLikelyPeriods:
    @pytest.mark.parametrize("seed", range(3))
    def test_has_the_season_of_a_series(self, seed: int) -> None:
        t, y = months(seed=seed)
        found = likely_periods(centred(t[:, None], y))
        assert found.shape == (CANDIDATES, 1)
        # Within half of what tells two frequencies apart, one cycle in the extent.
        assert np.abs(119.0 / found - 119.0 / 12.0).min() < 0.5

    @pytest.mark.parametrize("start", [0.0, 1e6])
    def test_of_a_small_season_beside_a_steep_trend_wherever_times_begin(self, start: float) -> None:
        t, y = months()
        found = likely_periods(centred(start + t[:, None], y + 0.02 * (t - 30.0) ** 2))
        assert found[0, 0] == pytest.approx(12.0, rel=0.02)

    @pytest.mark.slow
    def test_of_rows_at_any_times_in_any_unit_and_order(self) -> None:
        rng = np.random.default_rng(1)
        t = np.sort(rng.uniform(0.0, 1e4, 3000))
        y = np.cos(2.0 * np.pi * t / 24.0) + rng.normal(size=3000)
        mixed = rng.permutation(3000)
        first = likely_periods(centred(t[:, None], y))
        assert first[0, 0] == pytest.approx(24.0, rel=1e-3)
        other = likely_periods(centred(5e6 + 3600.0 * t[mixed, None], y[mixed]))
        assert other[0, 0] == pytest.approx(86400.0, rel=1e-3)

    def test_each_column_has_its_own_and_a_constant_one_some(self) -> None:
        rng = np.random.default_rng(2)
        X = np.column_stack((rng.uniform(0.0, 50.0, 400), np.full(400, 3.0), rng.uniform(0.0, 8.0, 400)))
        y = np.sin(2.0 * np.pi * X[:, 0] / 7.0) + np.sin(2.0 * np.pi * X[:, 2]) + 0.1 * rng.normal(size=400)
        found = likely_periods(centred(X, y))
        assert found[0, 0] == pytest.approx(7.0, rel=0.05)
        assert found[0, 2] == pytest.approx(1.0, rel=0.05)
        assert np.all(np.isfinite(found) & (found > 0.0))

    def test_are_two_cycles_apart_and_no_shorter_than_two_rows(self) -> None:
        # Two seasons, of 20 and of 22.5 cycles, of four periods of the series.
        t = np.linspace(-0.5, 0.5, 4 * 200, endpoint=False)
        y = np.cos(2.0 * np.pi * 20.0 * t) + 0.9 * np.sin(2.0 * np.pi * 22.5 * t)
        cycles = np.ptp(t) / likely_periods(centred(t[:, None], y))[:, 0]
        for expected in (20.0, 22.5):
            assert np.abs(cycles - expected).min() < 0.3
        rng = np.random.default_rng(0)
        for seed in range(20):
            noise = np.random.default_rng(seed).normal(size=40)
            cycles = 39.0 / likely_periods(centred(np.arange(40.0)[:, None], noise))[:, 0]
            assert np.min(np.abs(cycles[:, None] - cycles) + 9.0 * np.eye(CANDIDATES)) >= 2.0
            assert cycles.max() <= 20.0
            jittered = np.sort(rng.uniform(0.0, 39.0, 40))
            cycles = np.ptp(jittered) / likely_periods(centred(jittered[:, None], noise))[:, 0]
            assert cycles.max() <= 20.0

    @pytest.mark.parametrize("n", [2, 3, 5, 8])
    def test_few_rows_have_candidates_too(self, n: int) -> None:
        found = likely_periods(centred(np.arange(float(n))[:, None], np.random.default_rng(n).normal(size=n)))
        assert found.shape == (CANDIDATES, 1)
        assert np.all((found > 0.0) & (found <= 0.5 * (n - 1)))

    def test_without_peaks_halves_of_the_extent_stand_in(self) -> None:
        found = likely_periods(Rows(np.array([[3.0], [11.0], [5.0]]), np.zeros(3)))
        np.testing.assert_allclose(found[:, 0], [4.0, 2.0, 1.0, 0.5])

    def test_of_several_targets_each_has_its_seasons(self) -> None:
        t, season = months()
        Y = np.column_stack((np.random.default_rng(5).normal(size=len(t)), 2.0 * season))
        of_both = likely_periods(Rows(t[:, None], Y - Y.mean(axis=0)))[:, 0]
        assert np.abs(119.0 / of_both - 119.0 / 12.0).min() < 0.5


class TestStarts:
    def test_have_each_candidate_and_of_two_parts_two(self) -> None:
        t, y = months()
        rows = centred(t[:, None], y)
        for name, n_times in (("gaussian", 1), ("gaussian*periodic", CANDIDATES), ("periodic+periodic", 12)):
            space = Space(form_of(name, False, 1), Units.of(rows, True))
            starts = list(starting_points(space, rows))
            assert len(starts) == len(LENGTHSCALES) * len(NOISES) * n_times
            at = np.flatnonzero(space.kinds == "period")
            periods = [np.exp(start[at] + space.log_units[at]) for start in starts]
            for found in periods:
                assert set(found.round(6)) <= set(likely_periods(rows)[:, 0].round(6))
                assert len(set(found)) == len(found)
            # Nothing else moves.
            others = np.array(starts)[:, space.kinds != "period"].reshape(-1, n_times, np.sum(space.kinds != "period"))
            np.testing.assert_array_equal(np.ptp(others, axis=1), 0.0)


class TestLearned:
    @pytest.mark.parametrize("name", ["periodic", "linear+matern32*periodic", "matern52+matern32*periodic"])
    def test_finds_the_season(self, name: str) -> None:
        t, y = months()
        learned = learn(1990.0 + t[:, None] / 12.0, y, kernel=name, random_state=0)
        periods = [float(one.value) for one in learned.kernel.parameters if one.kind == "period"]
        assert periods == pytest.approx([1.0], rel=0.02)

    @pytest.mark.slow
    def test_finds_it_by_the_vecchia_likelihood(self) -> None:
        t, y = months(800)
        learned = learn(t[:, None], y, kernel="gaussian*periodic", likelihood="vecchia", random_state=0)
        assert float(learned.kernel.right.period) == pytest.approx(12.0, rel=0.01)
        assert learned.learning.chosen.likelihood == "vecchia"

    def test_of_kernels_without_a_metric_and_with_one_the_likelihood_is_exact(self) -> None:
        t, y = months(150)
        learned = learn(t[:, None], y, kernel=["gaussian", "periodic"], max_learning_rows=100, random_state=0)
        assert {trial.likelihood for trial in learned.learning} == {"exact"}

    @pytest.mark.slow
    def test_two_seasons_are_two_periods(self) -> None:
        rng = np.random.default_rng(3)
        t = np.arange(300.0)
        y = np.sin(2.0 * np.pi * t / 7.0) + np.sin(2.0 * np.pi * t / 30.0) + 0.2 * rng.normal(size=300)
        learned = learn(t[:, None], y, kernel="periodic+periodic", random_state=0)
        periods = sorted(float(one.value) for one in learned.kernel.parameters if one.kind == "period")
        assert periods == pytest.approx([7.0, 30.0], rel=0.02)

    @pytest.mark.slow
    def test_extrapolates_as_the_true_kernel_does(self) -> None:
        t, y = months(160)
        model = GPRegressor(kernel="linear+matern32*periodic", noise="normal", random_state=0)
        model.fit(t[:120, None], y[:120])
        smooth = GPRegressor(kernel="matern52", noise="normal", random_state=0).fit(t[:120, None], y[:120])
        errors = [np.sqrt(np.mean(np.square(one.predict(t[120:, None]) - y[120:]))) for one in (model, smooth)]
        assert errors[0] < 0.7 < errors[1]


def test_more_periodic_terms_than_candidates_are_refused() -> None:
    t, y = months(40)
    with pytest.raises(ValueError, match="up to 4 periodic terms; got 5"):
        learn(t[:, None], y, kernel="+".join(["periodic"] * 5))
