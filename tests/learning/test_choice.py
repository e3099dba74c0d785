"""The choice between kernels by rows that were left out."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lmgp import MaternKernel
from lmgp.data import Rows
from lmgp.kernels.base import Kernel
from lmgp.learning import choice
from lmgp.learning.choice import best_of, scored_by_held_out_rows
from lmgp.learning.forms import forms
from lmgp.learning.heldout import HeldOut
from lmgp.learning.search import Found, Search
from lmgp.learning.space import Units
from tests.learning.conftest import Draw

Floats = NDArray[np.float64]

pytestmark = pytest.mark.usefixtures("small")


def taken_of(trying: Search, held: list[HeldOut], sample: Rows | None, found: list[Found]) -> Found:
    return best_of(trying, scored_by_held_out_rows(trying, held, found), sample)


class TestDecision:
    def candidates(self, draw_from: Draw, names: list[str]) -> tuple[Search, list[Found], HeldOut]:
        X, y = draw_from(MaternKernel(2.0, smoothness=0.5), 600, noise=0.01)
        rows = Rows(X, y - y.mean())
        units = Units.of(rows, True)
        held = HeldOut.of(rows, units.columns, np.random.default_rng(0))
        trying = Search(held.rest, units, None, None, (0, 1, 2))
        return trying, trying.best_forms(forms(names, False, 2)), held

    def test_the_kernel_that_predicts_best_is_taken(self, draw_from: Draw) -> None:
        trying, found, held = self.candidates(draw_from, ["gaussian", "matern12"])
        assert taken_of(trying, [held], None, found).trial.kernel == "matern12"
        # Both have their densities in their lines.
        lines = {one.trial.kernel: one.trial for one in trying.trials}
        for one in found:
            given = one.hyperparameters
            alone, regions = held.alone_densities(*given), held.region_densities(*given)
            line = lines[one.trial.kernel]
            assert (line.alone, line.regions) == (pytest.approx(alone.mean()), pytest.approx(regions.mean()))
            error = np.hypot(np.std(alone) / len(alone) ** 0.5, np.std(regions) / len(regions) ** 0.5) / 2.0
            assert line.density_error == pytest.approx(error)
        assert lines["matern12"].alone > lines["gaussian"].alone

    def test_of_those_that_predict_equally_well_the_likeliest_is_taken(
        self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trying, found, held = self.candidates(draw_from, ["gaussian", "matern12"])
        gaussian, matern = (next(one for one in found if one.trial.kernel == name) for name in ("gaussian", "matern12"))
        kernel, noise = gaussian.hyperparameters
        # Rows that are drawn from the one, while the rows left out are predicted best by the other.
        X = held.rest.X[:200]
        covariance = kernel(X) + noise * np.eye(200)
        sample = Rows(X, multivariate_normal(np.zeros(200), covariance).rvs(random_state=0))
        assert taken_of(trying, [held], sample, found).trial.kernel == "matern12"  # by far the best
        for name, value in (("STANDARD_ERRORS", 1e9), ("BEHIND", np.inf), ("DOUBLINGS", 0)):
            monkeypatch.setattr(choice, name, value)
        taken = taken_of(trying, [held], sample, found)
        assert taken.free is gaussian.free
        assert taken.trial.log_likelihood == gaussian.trial.log_likelihood
        # Half of them first, which do not tell these apart.
        exact = [one.trial for one in trying.trials if (one.trial.likelihood, one.trial.n_rows) == ("exact", 200)]
        assert [one.kernel for one in exact] == [one.trial.kernel for one in found]
        (line,) = (one for one in exact if one.kernel == "gaussian")
        density = multivariate_normal(np.zeros(200), covariance).logpdf(sample.Y[:, 0])
        assert (line.n_rows, line.log_likelihood) == (200, pytest.approx(density / 200))
        assert line.alone == taken.trial.alone == pytest.approx(held.alone_densities(kernel, noise).mean())
        # Without a sample, or out of reach of the best, rows that are left out have the last word.
        assert taken_of(trying, [held], None, found).free is matern.free
        monkeypatch.setattr(choice, "DOUBLINGS", 6)
        for standard_errors, behind in ((0.0, np.inf), (1e9, 0.0)):
            monkeypatch.setattr(choice, "STANDARD_ERRORS", standard_errors)
            monkeypatch.setattr(choice, "BEHIND", behind)
            assert taken_of(trying, [held], sample, found).trial.kernel == "matern12"


class TestDoubledNoise:
    # Of the 60 rows that are left out at random: the 10 worst, and every third of the others.
    N_WORST, EVERY = 10, 3
    LOOK = 27

    def chosen(
        self, draw_from: Draw, factor: float, monkeypatch: pytest.MonkeyPatch
    ) -> tuple[Found, Found, Search, HeldOut, list[int]]:
        """Choose between one candidate, whose noise is a multiple of the learned one, and itself.

        Return it before and after, the search, the rows left out, and the numbers of these that were predicted.
        """
        X, y = draw_from(MaternKernel(2.0, smoothness=0.5), 600, noise=0.3)
        rows = Rows(X, y - y.mean())
        units = Units.of(rows, True)
        held = HeldOut.of(rows, units.columns, np.random.default_rng(0))
        trying = Search(held.rest, units, None, None, (0, 1, 2))
        (learned,) = trying.best_forms(forms("matern12", False, 2))
        free = learned.free.copy()
        free[-1] += np.log(factor)
        given = learned._replace(free=free)
        counts: list[int] = []
        predicted = HeldOut.alone_densities

        def counted(self: HeldOut, *arguments: Any) -> Floats:
            densities = predicted(self, *arguments)
            counts.append(len(densities))
            return densities

        monkeypatch.setattr(HeldOut, "alone_densities", counted)
        monkeypatch.setattr(choice, "N_WORST", self.N_WORST)
        monkeypatch.setattr(choice, "EVERY", self.EVERY)
        return given, taken_of(trying, [held], None, [given]), trying, held, counts

    def test_where_it_does_not_pay_a_first_look_tells(self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
        given, taken, trying, held, counts = self.chosen(draw_from, 4.0, monkeypatch)
        assert taken.free is given.free
        assert counts == [len(held.alone), self.LOOK]
        assert not any("more noise" in one.trial.likelihood for one in trying.trials)

    def test_noise_far_too_small_is_doubled_as_long_as_rows_left_out_gain(
        self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given, taken, trying, held, counts = self.chosen(draw_from, 1.0 / 16.0, monkeypatch)
        kernel, noise = given.hyperparameters
        doublings = np.log2(taken.hyperparameters[1] / noise)
        assert doublings == pytest.approx(round(doublings))
        assert 2 <= doublings <= 6
        assert counts[:3] == [len(held.alone), self.LOOK, len(held.alone)]

        def mean(factor: float) -> float:
            of = kernel, factor * noise
            return float((held.alone_densities(*of).mean() + held.region_densities(*of).mean()) / 2.0)

        before, best, after = (mean(2.0**power) for power in (doublings - 1.0, doublings, doublings + 1.0))
        assert best - before >= choice.WORTH_DOUBLING
        assert after - best < choice.WORTH_DOUBLING
        assert trying.trials[-1].trial.likelihood == "vecchia, more noise"

    def test_what_few_outliers_gain_is_not_overlooked(self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of 60 rows, the three that are predicted worst gain 4 nats each, and all others lose a little."""
        noises: list[float] = []

        def made(self: HeldOut, kernel: Kernel, noise: float, index: NDArray[np.intp] | None = None) -> Floats:
            noises.append(noise)
            densities = np.where(np.arange(60) % 20 == 7, -9.0, -1.0 - 0.001 * np.arange(60))
            if noise > 1.5 * noises[0]:
                densities += np.where(np.arange(60) % 20 == 7, 4.0, -0.01)
            if noise > 3.0 * noises[0]:
                densities -= 1.0
            return densities if index is None else densities[index]

        monkeypatch.setattr(HeldOut, "alone_densities", made)
        monkeypatch.setattr(HeldOut, "region_densities", lambda *_: np.empty(0))
        given, taken, *_ = self.chosen(draw_from, 1.0, monkeypatch)
        assert taken.hyperparameters[1] == pytest.approx(2.0 * given.hyperparameters[1])
