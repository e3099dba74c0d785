"""The search for a kernel: its rounds."""

from math import log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lmgp import GaussianKernel, MaternKernel
from lmgp.data import Rows
from lmgp.learning import plan
from lmgp.learning.forms import forms, make_form
from lmgp.learning.plan import Round
from lmgp.learning.search import Found, Search
from lmgp.learning.space import Units
from tests.learning.conftest import Draw

Floats = NDArray[np.float64]
SMOOTH = GaussianKernel([0.7, 2.0], 1.0)

pytestmark = pytest.mark.usefixtures("small")


def search(X: Floats, y: Floats, log_noise: float | None = None, seeds: tuple[int, ...] = (0, 1, 2)) -> Search:
    rows = Rows(X, y - y.mean())
    return Search(rows, Units.of(rows, True), log_noise, None, seeds)


def kernel_of(found: Found) -> Floats:
    return np.append(found.space.kernel(found.free).theta, found.space.noise_variance(found.free))


class TestRounds:
    def test_all_forms_run_once_and_the_best_go_on(self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plan, "BEHIND", 1e6)
        trying = search(*draw_from(SMOOTH, 150))
        best = trying.best_forms(forms("auto", "auto", 2))
        lines = [one.trial for one in trying.trials]
        first = [line for line in lines if line.n_rows == plan.FIRST.n_positions]
        second = [line for line in lines if line.n_rows == plan.SECOND.n_positions]
        assert len(first) == len({(line.kernel, line.ard) for line in first}) == 20
        # The best single kernels, the best sums, and the parts that sums start from.
        assert len(second) == len({(line.kernel, line.ard) for line in second})
        sums = [line for line in second if "+" in line.kernel]
        assert len(second) - len(sums) >= plan.FIRST.n_kept
        ranked = trying.first_round(forms("auto", "auto", 2))
        for plain, went_on in ((True, set(second) - set(sums)), (False, set(sums))):
            best_of_kind = [(one.trial.kernel, one.trial.ard) for one in ranked if one.plain is plain][:3]
            assert set(best_of_kind) <= {(line.kernel, line.ard) for line in went_on}
        assert len(sums) == plan.FIRST.n_kept == 3
        assert all((part, line.ard) in {(one.kernel, one.ard) for one in second}
                   for line in sums for part in line.kernel.split("+"))  # fmt: skip
        assert 1 <= len(best) <= plan.SECOND.n_kept
        assert best[0].trial.log_likelihood == pytest.approx(
            max(second, key=lambda line: best[0]._replace(trial=line).worth).log_likelihood
        )
        assert any(one.plain for one in best)  # one kernel is always among them
        for line in lines:
            assert np.isfinite(line.log_likelihood)
            assert line.n_free == make_form(line.kernel, line.ard, 2).n_free + 1

    def test_sums_have_the_lengthscales_that_single_kernels_need(
        self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(plan, "BEHIND", 1.0)
        # Of a function of one column alone, one lengthscale for both is far behind.
        X, y = draw_from(GaussianKernel([0.7, 100.0]), 200)
        trying = search(X, y)
        trying.best_forms(forms(["matern32", "gaussian", "matern32+gaussian"], "auto", 2))
        tried = {(one.trial.kernel, one.trial.ard) for one in trying.trials}
        singles = {(name, ard) for name in ("matern32", "gaussian") for ard in (False, True)}
        assert tried == singles | {("matern32+gaussian", True)}

    def test_few_forms_have_one_round(self, draw_from: Draw) -> None:
        trying = search(*draw_from(SMOOTH, 150))
        best = trying.best_forms(forms(["gaussian", "matern12"], False, 2))
        assert [one.trial.kernel for one in best] == ["gaussian", "matern12"]
        assert len(trying.trials) == 2

    def test_is_deterministic_for_its_seeds(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 300)
        tried = forms(["gaussian"], True, 2)
        first, again, other = (
            kernel_of(search(X, y, seeds=seeds).best_forms(tried)[0]) for seeds in ((0, 1, 2), (0, 1, 2), (3, 4, 5))
        )
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_last_round_takes_all_rows_and_more_neighbours_where_that_pays(self, draw_from: Draw) -> None:
        # A smooth function with little noise: every further neighbour tells more.
        (found,) = search(*draw_from(GaussianKernel(1.0), 250, noise=1e-5)).best_forms(forms(["gaussian"], False, 2))
        trying = search(*draw_from(GaussianKernel(1.0), 250, noise=1e-5))
        optima = trying.by_all_rows(found)
        assert [each.trial.n_neighbors for each in optima] == [15, 30]
        rough = search(*draw_from(MaternKernel(1.0, smoothness=0.5), 250, noise=0.3))
        (found,) = rough.best_forms(forms(["matern12"], False, 2))
        (last,) = (each.trial for each in rough.by_all_rows(found))
        assert (last.n_neighbors, last.n_rows) == (15, 200)
        assert last.standard_error > 0.0

    def test_exact_likelihood_is_that_of_dense_algebra(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 100)
        trying = search(X, y)
        (found,) = trying.best_forms(forms(["gaussian"], True, 2))
        (best,) = trying.by_exact_likelihood([found[:2]], trying.rows, plan.EXACT)
        kernel, noise = best.hyperparameters
        expected = multivariate_normal(np.zeros(100), kernel(X) + noise * np.eye(100)).logpdf(y - y.mean())
        assert best.trial.log_likelihood == pytest.approx(expected / 100, rel=1e-8)
        assert (best.trial.likelihood, best.trial.n_rows, best.trial.n_neighbors) == ("exact", 100, 0)

    def test_of_several_forms_the_best_go_on_and_the_others_took_the_first_steps(self, draw_from: Draw) -> None:
        trying = search(*draw_from(SMOOTH, 150))
        found = trying.first_round(forms(["gaussian", "matern12", "matern32", "matern52"], True, 2))
        rounds = Round(100, 12, 1, 2, 1e-6), Round(100, 12, 10, 1, 1e-6)

        def climbed(rounds: tuple[Round, ...], several: list[Found]) -> list[Found]:
            return trying.by_exact_likelihood([one[:2] for one in several], trying.rows, rounds)

        started, alone = ([climbed(some, [one])[0] for one in found] for some in (rounds[:1], rounds))
        together = climbed(rounds, found)
        best = sorted(range(4), key=lambda i: -started[i].worth)[:2]
        for i, one in enumerate(together):
            assert one.space.form is found[i].space.form
            assert one.trial.log_likelihood == (alone if i in best else started)[i].trial.log_likelihood
            assert alone[i].trial.log_likelihood > started[i].trial.log_likelihood

    def test_half_the_rows_rule_out_what_is_far_behind(self, draw_from: Draw) -> None:
        X, y = draw_from(SMOOTH, 201)
        trying = search(X, y)
        (best,) = trying.best_forms([make_form("gaussian", True, 2)])

        def with_noise(factor: float) -> Found:
            free = best.free.copy()
            free[-1] += np.log(factor)
            return best._replace(free=free)

        given = [best, with_noise(100.0), with_noise(1.1)]
        assert trying.not_far_behind(given[:1], trying.rows) == [True]
        n_lines = len(trying.trials)
        assert trying.not_far_behind(given, trying.rows) == [True, False, True]
        values = [one.trial for one in trying.trials[n_lines:]]
        assert [(one.likelihood, one.n_rows) for one in values] == [("exact", 101)] * 3
        # By dense algebra, of the same half.
        half = np.sort(np.random.default_rng(trying.seeds[2]).permutation(201)[:101])
        for one, line in zip(given, values, strict=True):
            kernel, noise = one.hyperparameters
            density = multivariate_normal(np.zeros(101), kernel(X[half]) + noise * np.eye(101))
            assert line.log_likelihood * 101 == pytest.approx(density.logpdf((y - y.mean())[half]))
        lead = (values[0].log_likelihood - values[1].log_likelihood) * 101
        assert lead > plan.CLOSE > abs(values[0].log_likelihood - values[2].log_likelihood) * 101

    def test_a_given_noise_stays(self, draw_from: Draw) -> None:
        trying = search(*draw_from(SMOOTH, 100), log_noise=log(0.3))
        for found in trying.best_forms(forms(["matern32", "matern12+gaussian"], False, 2)):
            assert found.space.noise_variance(found.free) == pytest.approx(0.3)

    def test_the_worth_of_a_value_counts_what_it_gains_by_chance(self, draw_from: Draw) -> None:
        trying = search(*draw_from(SMOOTH, 201))
        (vecchia,) = trying.best_forms([make_form("gaussian", True, 2)])
        (sample,) = trying.by_exact_likelihood([vecchia[:2]], trying.rows.take(slice(40)), (plan.SAMPLE,))
        few, k = trying.rows.take(slice(50)), len(vecchia.space.bounds)
        # 50 rows, of which a random share is among those that the first learned from, and all 40 of the second.
        for found, rows, n in ((vecchia, few, 201), (vecchia, trying.rows, 201), (sample, few, 50)):
            value = trying.exact_value(found, rows)
            assert value.trial.n_rows == len(rows)
            assert value.worth == pytest.approx(value.trial.log_likelihood - k / (n - k - 1))

    def test_the_worth_is_akaikes_criterion_for_few_rows(self, draw_from: Draw) -> None:
        (found,) = search(*draw_from(SMOOTH, 100)).best_forms(forms(["gaussian"], False, 2))
        trial = found.trial._replace(log_likelihood=-1.0, n_free=3, n_rows=20)
        # −AICc/(2n) with AICc = 2k − 2 log L + 2k(k + 1)/(n − k − 1).
        expected = -(2 * 3 + 2 * 20 + 2 * 3 * 4 / 16) / 40
        assert found._replace(trial=trial).worth == pytest.approx(expected)
        assert found._replace(trial=trial._replace(n_rows=4)).worth == -np.inf
