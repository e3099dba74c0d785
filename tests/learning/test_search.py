"""The search for the optimum of a form."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lmgp import ExactGPRegressor, GaussianKernel, LinearKernel, MaternKernel
from lmgp.data import Rows
from lmgp.kernels.base import Kernel
from lmgp.learning import scoring
from lmgp.learning import search as searching
from lmgp.learning.forms import Form, declared_free
from lmgp.learning.scoring import Climb, ExactObjective, VecchiaObjective
from lmgp.learning.search import LENGTHSCALES, NOISES, STRONG_EVIDENCE, Search
from lmgp.learning.space import CLOSE_DEVIATION, LEAST_NOISE, LEAST_SCALE, MEDIAN_NOISE, OWN_DEVIATION, Space, Units
from lmgp.posteriors.exact import ExactLikelihood
from tests.learning.conftest import Draw, form_of

Floats = NDArray[np.float64]
SMOOTH = GaussianKernel([0.7, 2.0], 1.0)


def search(X: Floats, y: Floats, *, exact: bool = False, noise: float | None = None, seed: int = 0) -> Search:
    rows = Rows(X, y - y.mean())
    return Search(rows, Units.of(rows, True), noise, exact, seed)


def values(optimum: Climb) -> Floats:
    kernel, noise, _ = optimum.space.weighted(optimum.free)
    return np.append(kernel.theta, np.log(noise))


def log_posterior(X: Floats, y: Floats, optimum: Climb, free: Floats) -> float:
    """The exact log likelihood with the prior, by dense algebra."""
    space = optimum.space
    covariance = space.kernel(free)(X) + space.noise_variance(free) * np.eye(len(X))
    density = multivariate_normal(np.zeros(len(X)), covariance).logpdf(y - y.mean())
    return float(density + space.log_prior(free)[0])


class TestExactLikelihood:
    @pytest.mark.parametrize("name", ["gaussian", "matern12+matern52"])
    def test_the_optimum_is_the_best_of_many_points_around_it(self, name: str, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 120)
        found = search(X, y, exact=True).optimum(form_of(name, True, 2))
        assert found.converged
        best, rng = log_posterior(X, y, found, found.free), np.random.default_rng(0)
        for scale in (0.03, 0.3, 1.0):
            others = np.clip(found.free + scale * rng.normal(size=(40, len(found.free))), *found.space.bounds.T)
            assert max(log_posterior(X, y, found, other) for other in others) < best + 0.1

    def test_its_line_has_the_seconds_of_the_search(self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
        trying, times = search(*draw_from(SMOOTH, 30), exact=True), iter((10.0, 12.5))
        monkeypatch.setattr(searching, "perf_counter", lambda: next(times))
        assert trying.optimum(form_of("gaussian", True, 2)).trial.seconds == 2.5

    def test_its_line_has_the_likelihood_of_dense_algebra(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 100)
        found = search(X, y, exact=True).optimum(form_of("gaussian", True, 2))
        kernel, noise, _ = found.space.weighted(found.free)
        expected = multivariate_normal(np.zeros(100), kernel(X) + noise * np.eye(100)).logpdf(y - y.mean())
        trial = found.trial
        assert trial.log_likelihood == pytest.approx(expected / 100, rel=1e-8)
        assert (trial.likelihood, trial.n_rows, trial.n_neighbors, trial.standard_error) == ("exact", 100, 0, 0.0)
        assert (trial.kernel, trial.ard, trial.n_free, trial.n_own) == ("gaussian", True, 4, 0)
        assert 0.0 < trial.seconds < 60.0

    def test_a_short_and_a_long_lengthscale_are_found_from_the_starting_points(self, draw_from: Draw) -> None:
        for lengthscale in (0.08, 6.0):
            X, y = draw_from(MaternKernel(lengthscale, 2.0), 150, noise=0.01)
            found = search(X, y, exact=True).optimum(form_of("matern32", False, 2))
            truth = multivariate_normal(np.zeros(150), MaternKernel(lengthscale, 2.0)(X) + 0.01 * np.eye(150)).logpdf(
                y - y.mean()
            )
            assert found.trial.log_likelihood * 150 > truth - 1.0

    def test_the_information_is_near_that_of_dense_algebra(
        self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Of all positions given all rows before them it is an estimate: slopes of means are those of the data.
        monkeypatch.setattr(searching, "INFORMATION", (100, 100))
        X, y = draw_from(MaternKernel([0.7, 2.0]), 80)
        found = search(X, y, exact=True).optimum(form_of("matern32", True, 2))
        space, step = found.space, 1e-5

        def covariance(free: Floats) -> Floats:
            return space.kernel(free)(X) + space.noise_variance(free) * np.eye(80)

        inverse = np.linalg.inv(covariance(found.free))
        changes = [
            inverse @ (covariance(found.free + unit) - covariance(found.free - unit)) / (2.0 * step)
            for unit in step * np.eye(4)
        ]
        expected = 0.5 * np.array([[np.sum(a * b.T) for b in changes] for a in changes]) + space.prior_information
        root = np.linalg.cholesky(np.linalg.inv(expected))
        relative = np.linalg.eigvalsh(root.T @ found.at.information @ root)
        assert 0.6 < relative.min() <= relative.max() < 1.6


class TestPrior:
    """Whether lengthscales are taken to be close to each other, by the evidence of few rows."""

    FORM = form_of("matern12+matern52", True, 20)

    @pytest.mark.parametrize("n", [300, pytest.param(600, marks=pytest.mark.slow)])
    def test_lengthscales_of_noise_are_close_to_each_other(self, n: int) -> None:
        rng = np.random.default_rng(0)
        plain = search(rng.normal(size=(n, 20)), rng.normal(size=n), exact=True)
        apart, close = plain.optimum(self.FORM), replace(plain, close=True).optimum(self.FORM)
        assert (apart.space.own_deviation, close.space.own_deviation) == (OWN_DEVIATION, CLOSE_DEVIATION)
        spreads = [np.ptp(np.log(one.space.kernel(one.free).metric(20))) for one in (close, apart)]
        assert spreads[0] < 0.5 < 1.0 < spreads[1]
        gain = np.subtract(*(Climb(one.objective, one.free).log_evidence(one.space) for one in (close, apart)))
        assert gain > STRONG_EVIDENCE

    @pytest.mark.parametrize("n", [300, pytest.param(600, marks=pytest.mark.slow)])
    def test_those_of_a_function_of_two_columns_are_not(self, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """And no second climb is made to say so, but where that is never taken to be hopeless."""
        rng, deviations, go_on = np.random.default_rng(0), list[float](), Climb.go_on

        def spy(climb: Climb, *arguments: float, **named: float) -> Climb:
            deviations.append(climb.space.own_deviation)
            return go_on(climb, *arguments, **named)

        monkeypatch.setattr(Climb, "go_on", spy)
        X = rng.normal(size=(n, 20))
        plain = search(X, np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n), exact=True)
        lower, optima = plain.optimum(self.FORM), []
        for hopeless, second in ((searching.HOPELESS, False), (math.inf, True)):
            monkeypatch.setattr(searching, "HOPELESS", hopeless)
            deviations.clear()
            optima.append(replace(plain, close=True).optimum(self.FORM))
            assert (CLOSE_DEVIATION in deviations) == second
            assert optima[-1].space.own_deviation == OWN_DEVIATION
        np.testing.assert_array_equal(*(one.free for one in optima))
        assert optima[0].log_evidence(lower.space) >= lower.log_evidence(lower.space)

    def test_weak_evidence_for_it_does_not_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(0)
        closer = replace(search(rng.normal(size=(300, 20)), rng.normal(size=300), exact=True), close=True)
        monkeypatch.setattr(searching, "STRONG_EVIDENCE", 50.0)
        assert closer.optimum(self.FORM).space.own_deviation == OWN_DEVIATION


def friedman(noise: float, n: int = 200) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    X = 2.0 * rng.uniform(size=(n, 5))
    y = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3] + 5.0 * X[:, 4]
    return X, y + noise * y.std() * rng.normal(size=n)


class TestLittleNoise:
    @pytest.mark.slow
    def test_a_smooth_function_is_not_left_to_a_rough_part(self) -> None:
        # Each part alone is a case of the sum, but for the least variance of the others.
        trying = search(*friedman(0.0), exact=True)
        alone = [trying.optimum(form_of(name, True, 5)).trial.log_likelihood for name in ("matern52", "gaussian")]
        optimum = trying.optimum(form_of("matern12+matern52+gaussian", True, 5))
        assert optimum.trial.log_likelihood > max(alone) + 0.5
        kernel, noise, _ = optimum.space.weighted(optimum.free)
        assert noise < 1e-6 * trying.units.variance
        rough, *_ = kernel.terms
        assert rough[0].prior_variance() < 1e-3 * kernel.prior_variance()

    @pytest.mark.parametrize(
        ("noise", "form", "exact"),
        [
            (0.1, "matern12+gaussian", True),  # enough noise
            (0.0, "gaussian", True),  # one part
            (0.0, "matern12+gaussian", False),  # by Vecchia's likelihood
        ],
    )
    def test_else_parts_that_share_lengthscales_are_not_climbed(
        self, noise: float, form: str, exact: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(searching, "end_with_shared_lengthscales", None)
        search(*friedman(noise), exact=exact).optimum(form_of(form, True, 5))

    @pytest.mark.parametrize(("lower", "n_climbs"), [(False, 2), (True, 1)])
    def test_only_what_is_higher_with_shared_lengthscales_is_climbed_from(
        self, lower: bool, n_climbs: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        starts: list[Floats] = []
        climbed = Search._climbed

        def counted(trying: Search, space: Space, samples: Sequence[Rows], start: Floats) -> Climb:
            starts.append(start)
            return climbed(trying, space, samples, start)

        monkeypatch.setattr(Search, "_climbed", counted)
        monkeypatch.setattr(Search, "_race_winner", lambda trying, space, rows, ranked: ranked[0])
        if lower:
            monkeypatch.setattr(searching, "end_with_shared_lengthscales", lambda rows, space, start: start)
        search(*friedman(0.0), exact=True).optimum(form_of("matern12+matern52+gaussian", True, 5))
        assert len(starts) == n_climbs


@pytest.mark.usefixtures("small")
class TestVecchiaLikelihood:
    def test_is_of_all_rows(self, draw_from: Draw) -> None:
        found = search(*draw_from(SMOOTH, 150)).optimum(form_of("gaussian", True, 2))
        assert (found.trial.likelihood, found.trial.n_rows) == ("vecchia", 150)
        assert found.trial.standard_error == 0.0
        some = search(*draw_from(SMOOTH, 300)).optimum(form_of("matern12", True, 2))
        assert some.trial.n_rows == searching.MOST_POSITIONS == 200
        assert some.trial.standard_error > 0.0

    @pytest.mark.parametrize(("n", "n_neighbors"), [(100, 22), (200, 16), (300, 16)])
    def test_fewer_rows_have_more_neighbours(self, n: int, n_neighbors: int, draw_from: Draw) -> None:
        trial = search(*draw_from(SMOOTH, n)).optimum(form_of("gaussian", False, 2)).trial
        assert (trial.n_rows, trial.n_neighbors) == (min(n, 200), n_neighbors)

    def test_ends_where_a_step_gains_little_a_position(self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y = draw_from(SMOOTH, 200)
        form = form_of("matern12+gaussian", True, 2)
        found = search(X, y).optimum(form)
        # Within a few times 2e-4 · 200 nats of where a climb ends that goes on from there, by the same neighbours.
        with monkeypatch.context() as same:
            same.setattr(VecchiaObjective, "start_at", lambda *_: None)
            onward = Climb(found.objective, found.free)
        value = onward.at.value
        assert found.converged
        assert onward.go_on(60, 1e-8).at.value - value < 0.1
        monkeypatch.setattr(Climb.go_on, "__defaults__", (scoring.STEPS, 1.0))
        early = search(X, y).optimum(form)
        assert early.converged
        assert early.trial.log_likelihood * 200 + early.space.log_prior(early.free)[0] < value - 0.1

    def test_samples_have_the_least_noise_of_a_t(self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
        least = set()

        class Noted(Climb):
            def __init__(self, objective: VecchiaObjective | ExactObjective, start: Floats) -> None:
                least.add((type(objective), float(objective.space.bounds[-1, 0])))
                super().__init__(objective, start)

        monkeypatch.setattr(searching, "Climb", Noted)
        search(*draw_from(SMOOTH, 300)).optimum(form_of("gaussian", True, 2))
        assert least == {(ExactObjective, np.log(LEAST_SCALE)), (VecchiaObjective, np.log(LEAST_NOISE))}

    def test_comes_near_the_exact_optimum(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 200)
        form = form_of("matern52", True, 2)
        near, exact = (search(X, y, exact=exact).optimum(form) for exact in (False, True))
        assert log_posterior(X, y, exact, near.free) > log_posterior(X, y, exact, exact.free) - 2.0

    def test_starts_from_the_mean_of_the_kernels_of_four_samples(
        self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(searching, "FIRST_ROWS", 30)
        X, y = draw_from(MaternKernel([0.3, 2.0]), 200)
        ends, started, samples, go_on = list[Floats](), list[Climb](), list[Floats](), Climb.go_on

        def spy(climb: Climb, *arguments: float, **named: float) -> Climb:
            if climb.objective.name == "vecchia":
                started.append(Climb(climb.objective, climb.free))
            found = go_on(climb, *arguments, **named)
            if climb.objective.name == "exact" and not arguments:  # no race, of a number of steps
                ends.append(found.free)
                samples.append(climb.objective.rows.X)
                assert climb.objective.n_rows == 30
            return found

        monkeypatch.setattr(Climb, "go_on", spy)
        search(X, y).optimum(form_of("matern32", True, 2))
        assert len(np.unique(np.concatenate(samples), axis=0)) == 4 * 30  # no row is in two of them
        first, second = started
        assert first.objective.n_neighbors == second.objective.n_neighbors // 2
        assert len({tuple(end) for end in ends}) == searching.N_SAMPLES == 4
        np.testing.assert_allclose(first.free, np.mean(ends, axis=0), rtol=1e-12)

    def test_the_exact_likelihood_is_climbed_from_where_that_of_half_of_the_neighbours_ends(
        self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        X, y = draw_from(MaternKernel([0.3, 2.0]), 200)
        form, climbs, go_on = form_of("matern32", True, 2), list[tuple[str, int, Floats, Floats]](), Climb.go_on

        def spy(climb: Climb, *arguments: float, **named: float) -> Climb:
            start, found = climb.free, go_on(climb, *arguments, **named)
            if not arguments:  # no race, of a number of steps
                climbs.append((climb.objective.name, climb.objective.n_neighbors, start, found.free))
            return found

        monkeypatch.setattr(Climb, "go_on", spy)
        for first_rows in (250, 200):
            monkeypatch.setattr(searching, "FIRST_ROWS", first_rows)
            whole = search(X, y, exact=True).optimum(form)
            assert [name for name, *_ in climbs] == ["exact"]
            climbs.clear()
        monkeypatch.setattr(searching, "FIRST_ROWS", 100)
        found = search(X, y, exact=True).optimum(form)
        (first, n_neighbors, _, end), (second, _, start, _) = climbs
        assert (first, second) == ("vecchia", "exact")
        assert n_neighbors == min(searching.MOST_NEIGHBORS, math.isqrt(searching.MOST_SQUARES // 200)) // 2
        np.testing.assert_array_equal(start, end)
        assert found.trial.likelihood == "exact"
        assert found.trial.log_likelihood == pytest.approx(whole.trial.log_likelihood, abs=1e-3)
        assert found.objective.value(found.free) == pytest.approx(log_posterior(X, y, found, found.free), rel=1e-9)

    @pytest.mark.parametrize("tails", [False, True])
    @pytest.mark.parametrize("share", [0.0, 0.1])
    def test_the_exact_likelihood_gives_way_to_a_t_where_that_pays(
        self, draw_from: Draw, tails: bool, share: float
    ) -> None:
        X, y = draw_from(SMOOTH, 200)
        rng = np.random.default_rng(0)
        y += np.where(rng.uniform(size=200) < share, 3.0, 0.0) * rng.normal(size=200)
        found = replace(search(X, y, exact=True), tails=tails).optimum(form_of("gaussian", True, 2))
        assert found.trial.likelihood == ("vecchia, t" if tails and share else "exact")
        assert np.isfinite(found.objective.degrees) == (tails and share > 0.0)

    @pytest.mark.parametrize("larger", [False, True])
    def test_the_exact_likelihood_stays_where_it_is_larger(
        self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch, larger: bool
    ) -> None:
        X, y = draw_from(SMOOTH, 200)
        rng = np.random.default_rng(0)
        y += np.where(rng.uniform(size=200) < 0.1, 3.0, 0.0) * rng.normal(size=200)
        form, trying = form_of("gaussian", True, 2), replace(search(X, y, exact=True), tails=True)
        found, plain = trying.optimum(form), ExactObjective.value
        of_all = found.objective.value(found.free) + (1.0 if larger else -1.0)

        def value(objective: ExactObjective, free: Floats) -> float:
            return plain(objective, free) if objective.near is None else of_all

        monkeypatch.setattr(ExactObjective, "value", value)
        assert trying.optimum(form).trial.likelihood == ("exact" if larger else "vecchia, t")

    def test_under_a_t_the_noise_is_that_of_most_rows(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 200)
        rng = np.random.default_rng(0)
        y += np.where(rng.uniform(size=200) < 0.1, 3.0, 0.0) * rng.normal(size=200)
        normal = search(X, y)
        optima = [one.optimum(form_of("gaussian", True, 2)) for one in (normal, replace(normal, tails=True))]
        assert [one.trial.likelihood for one in optima] == ["vecchia", "vecchia, t"]
        assert [one.objective.degrees for one in optima] == [np.inf, pytest.approx(2.5, abs=0.4)]
        noises = [one.space.noise_variance(one.free) for one in optima]
        assert noises[1] < 0.15 < 0.3 < noises[0]
        # It is a maximum: of the t whose degrees of freedom are those where the last climb starts.
        best = optima[1]
        value = best.objective(best.free).value
        for unit in 0.3 * np.eye(len(best.free)):
            assert max(best.objective(best.free + way * unit).value for way in (-1, 1)) < value + 0.5

    def test_is_deterministic_for_its_seed(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 300)
        form = form_of("gaussian", True, 2)
        first, again, other = (values(search(X, y, seed=seed).optimum(form)) for seed in (0, 0, 3))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)


def test_sizes_are_those_that_learn_states() -> None:
    """Ten starting points, by 500 rows; 44 neighbours of 20,000 rows, and up to 64 of fewer; 0.2 nats of 1,000 rows."""
    assert len(LENGTHSCALES) * len(NOISES) == 10
    assert LENGTHSCALES[0] * 100 == LENGTHSCALES[-1] == 3.0
    np.testing.assert_allclose(np.diff(np.log10(LENGTHSCALES)), 0.5, atol=0.03)
    assert NOISES[0] < MEDIAN_NOISE < NOISES[1] < 1.0
    assert (searching.FIRST_ROWS, searching.MOST_POSITIONS) == (500, 20_000)
    assert math.isqrt(searching.MOST_SQUARES // 20_000) == 44
    assert (searching.MOST_NEIGHBORS, searching.MOST_SQUARES, searching.INFORMATION) == (64, 40_000_000, (500, 30))
    assert (scoring.STEPS, 1000 * scoring.TOLERANCE) == (30, 0.2)


class TestStarts:
    def test_are_lengthscales_in_standard_deviations_and_noises_in_variances(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 50)
        trying = search(X, y)
        space = searching.Space(form_of("matern12+matern52", True, 2), trying.units)
        starts = [
            (space.kernel(free), space.noise_variance(free)) for free in searching.starting_points(space, trying.rows)
        ]
        assert len(starts) == len(LENGTHSCALES) * len(NOISES)
        for kernel, noise in starts:
            assert np.isclose(noise / y.var(), NOISES).any()
            factors = np.concatenate([part.lengthscale / X.std(axis=0) for part in kernel.parts]) / np.sqrt(2.0)
            assert np.ptp(factors) < 1e-12 * factors[0]
            assert np.isclose(factors[0], LENGTHSCALES).any()
            assert [part.variance for part in kernel.parts] == pytest.approx([y.var()] * 2)

    def test_are_compared_by_the_likelihood_with_the_prior(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 60)
        trying = search(X, y)
        form = form_of("matern32", True, 2)
        found = search(X, y, exact=True).optimum(form)
        for free in (found.free, found.space.median + 0.5):
            expected = log_posterior(X, y, found, free)
            assert ExactObjective(trying.rows, found.space).value(free) == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize(("exact", "n_samples"), [(True, 1), (False, 4)])
    def test_are_compared_on_four_samples_of_many_rows(
        self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch, exact: bool, n_samples: int
    ) -> None:
        monkeypatch.setattr(searching, "FIRST_ROWS", 30)
        seen, plain, screened = list[int](), Search._best_starts, searching.screened
        starts, taken = list[Floats](), list[Floats]()

        def spy(trying: Search, space: searching.Space, samples: Sequence[Rows]) -> list[Floats]:
            seen.extend(len(some) for some in samples)
            starts.extend(plain(trying, space, samples))
            return starts

        def screened_from(*given: Any) -> Any:
            taken.append(given[2])
            return screened(*given)

        monkeypatch.setattr(Search, "_best_starts", spy)
        monkeypatch.setattr(searching, "screened", screened_from)
        trying = search(*draw_from(SMOOTH, 130), exact=exact)
        climb = trying.optimum(form_of("gaussian", False, 2))
        assert seen == n_samples * [30]
        np.testing.assert_array_equal(taken, starts[:1])
        best, other = (ExactObjective(trying.rows, climb.space).value(start) for start in starts)
        assert best > other
        assert np.any((starts[0] != starts[1])[climb.space.kinds != "noise"])

    def test_of_few_rows_two_are_climbed_and_the_higher_summit_is_taken(self) -> None:
        """With noise variances of a third of the noise, the best start lies below the lower summit of a short scale."""
        rng = np.random.default_rng(0)
        X = rng.uniform(-1.0, 1.0, size=(120, 2))
        y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=120)
        variances = np.full(120, 0.011 / 3.0)
        learned = ExactGPRegressor(random_state=0).fit(X, y, noise_variances=variances)
        given = ExactGPRegressor(GaussianKernel(0.742, 1.44), 0.011 / 3.0).fit(X, y, noise_variances=variances)
        assert learned.log_marginal_likelihood_ > given.log_marginal_likelihood_ - 0.1

    @pytest.mark.parametrize(("gain", "taken"), [(STRONG_EVIDENCE - 0.5, 0), (STRONG_EVIDENCE + 0.5, 1)])
    def test_the_second_summit_needs_strong_evidence(
        self, gain: float, taken: int, draw_from: Draw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ends: list[Climb] = []
        climbed, evidence = Search._climbed, Climb.log_evidence

        def spy(*arguments: Any) -> Climb:
            ends.append(climbed(*arguments))
            return ends[-1]

        def scripted(climb: Climb, *arguments: Any) -> float:
            return 10.0 + gain * ends.index(climb) if climb in ends else evidence(climb, *arguments)

        monkeypatch.setattr(Search, "_climbed", spy)
        monkeypatch.setattr(Climb, "log_evidence", scripted)
        monkeypatch.setattr(searching, "parallel_map", lambda function, tasks: [function(task) for task in tasks])
        trying = replace(search(*draw_from(SMOOTH, 40), exact=True), close=True)
        assert trying.optimum(form_of("gaussian", True, 2)) is ends[taken]
        assert len(ends) == 2

    def test_a_given_kernel_starts_from_its_own_values(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 50)
        kernel = GaussianKernel([0.3, 3.0], 2.0, lengthscale_bounds=(0.1, 10.0))
        trying = search(X, y)
        space = searching.Space(declared_free(kernel), trying.units)
        starts = list(searching.starting_points(space, trying.rows))
        assert len(starts) == len(searching.NOISES)
        for start in starts:
            np.testing.assert_allclose(space.kernel(start).lengthscale, [0.3, 3.0])

    @pytest.mark.parametrize(
        ("form", "race"),
        [
            (declared_free(GaussianKernel([0.3, 3.0], lengthscale_bounds=(0.1, 10.0))), True),
            (declared_free(LinearKernel(variance=[1.0, 1.0], variance_bounds=(0.1, 10.0))), True),
            (form_of("linear", True, 2), True),
            (form_of("gaussian", True, 2), False),
            (form_of("gaussian", True, 21), True),
        ],
        ids=["given", "given, without a metric", "without a metric", "not asked for", "many columns"],
    )
    def test_do_not_race(self, form: Form, race: bool) -> None:
        X = np.random.default_rng(0).normal(size=(40, 21))[:, : 21 if len(form.ties) > 20 else 2]
        trying = replace(search(X, X[:, 0], exact=True), race=race)
        ranked = [object(), object()]
        assert trying._race_winner(Space(form, trying.units), trying.rows, ranked) is ranked[0]  # type: ignore[arg-type]

    def test_the_noise_is_what_factors_of_near_rows_need(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of a function without noise, the noise variance is that of the rounding of as many rows."""
        monkeypatch.setattr(searching, "ROUNDING", 1e-8)
        X = np.random.default_rng(0).uniform(0.0, 3.0, (600, 1))
        trying = search(X, np.sin(X[:, 0]))
        climb = trying.optimum(form_of("gaussian", False, 1))
        kernel = climb.space.kernel(climb.free)
        expected = 600 * 1e-8 * kernel.evaluate_diagonal(trying.rows.X).max()
        assert climb.space.noise_variance(climb.free) == pytest.approx(expected, rel=1e-6)

    def test_points_without_a_cholesky_factor_are_passed_over(
        self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        plain = ExactLikelihood.value

        def refuse_long(likelihood: ExactLikelihood, kernel: Kernel, free: np.ndarray) -> float:
            if kernel.with_theta(free[:-1]).lengthscale.min() > 1.0:
                return np.nan
            return plain(likelihood, kernel, free)

        monkeypatch.setattr(ExactLikelihood, "value", refuse_long)
        trying, form = search(*draw_from(SMOOTH, 80), exact=True), form_of("gaussian", True, 2)
        space = searching.Space(form, trying.units)
        assert space.kernel(trying._best_starts(space, [trying.rows])[0]).lengthscale.min() <= 1.0
        assert np.isfinite(trying.optimum(form).trial.log_likelihood)


def test_a_short_lengthscale_is_found_between_long_ones() -> None:
    """From one lengthscale for all columns, climbs end where the function is noise."""
    rng = np.random.default_rng(1)
    X = np.column_stack((rng.uniform(0.0, 100.0, (300, 2)), rng.normal(size=300)))
    y = np.sin(X[:, 0] / 3.0) + np.sin(X[:, 1] / 40.0) + 0.5 * X[:, 2] + 0.1 * rng.normal(size=300)
    found = search(X, y, exact=True).optimum(form_of("matern32", True, 3))
    lengthscales = found.space.kernel(found.free).lengthscale
    assert 5.0 * lengthscales[0] < lengthscales[1]
    assert found.space.noise_variance(found.free) < 0.05


def test_random_points_are_those_of_columns_in_any_order_and_spread_as_lengthscales_are_thought_to() -> None:
    rng = np.random.default_rng(0)
    X, order = rng.normal(size=(50, 3)), [2, 0, 1]
    spaces, points = [], []
    for columns in (X, X[:, order] * 10.0 + 3.0):
        trying = search(columns, X[:, 0])
        spaces.append(Space(form_of("matern12+gaussian", True, 3), trying.units))
        points.append(searching.random_points(spaces[-1], trying.rows, spaces[-1].median))
    scales, parts, columns = spaces[0].lengthscales
    there = [
        int(np.flatnonzero((parts == p) & (columns == order.index(c)))[0]) for p, c in zip(parts, columns, strict=True)
    ]
    np.testing.assert_allclose(points[1][:, scales[there]], points[0][:, scales])
    offsets = points[0] - spaces[0].median
    assert offsets[:, spaces[0].kinds == "noise"].std() == pytest.approx(3.0, rel=0.3)
    assert offsets[:, scales].std() == pytest.approx(2.0, rel=0.3)  # a sum of four terms
    of_columns = np.corrcoef(offsets[:, scales].T)
    assert of_columns.min() > 0.0  # what all have in common


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rough_and_smooth_columns_have_parts_of_their_own(seed: int) -> None:
    """From one lengthscale for all columns and parts, climbs end 50 nats and more below the highest summit."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (150, 2))
    function = np.sin(40.0 * X[:, 0]) + X[:, 1]
    found = search(X, function + 0.1 * rng.normal(size=150), exact=True).optimum(
        form_of("matern12+matern52+gaussian", True, 2)
    )
    assert found.space.noise_variance(found.free) < 0.05


def test_a_start_of_another_noise_is_taken_where_its_summit_is_higher() -> None:
    rng = np.random.default_rng([0, 7])
    X = rng.uniform(-1.0, 1.0, (750, 4))[:250]
    y = np.sin(10.0 * X[:, 0]) + np.sin(10.0 * X[:, 1]) + X[:, 2] + X[:, 3] + 0.1 * rng.normal(size=250)
    found = search(X, y, exact=True).optimum(form_of("gaussian", True, 4))
    assert found.space.noise_variance(found.free) < 0.1


@pytest.mark.parametrize("exact", [True, False])
def test_a_given_noise_stays_to_the_last_bit(exact: bool, draw_from: Draw) -> None:
    found = search(*draw_from(SMOOTH, 100), exact=exact, noise=0.3).optimum(form_of("matern12+gaussian", False, 2))
    assert found.space.noise_variance(found.free) == 0.3
    assert found.trial.n_free == len(found.free) == 4
