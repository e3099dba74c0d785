"""The choice between kernels by rows that were left out."""

import numpy as np
import pytest

import lmgp.learning.choice
from lmgp import MaternKernel
from lmgp.learning.choice import Choice, Rule
from lmgp.learning.forms import forms
from lmgp.learning.heldout import HeldOut
from lmgp.learning.search import Found, Search
from lmgp.learning.space import Units
from lmgp.validation import Rows
from tests.learning.conftest import Draw

pytestmark = pytest.mark.usefixtures("small")


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
        assert Choice(trying, [held]).best(found).trial.kernel == "matern12"
        # Both have their densities in their lines.
        lines = {one.trial.kernel: one.trial for one in trying.trials}
        for one in found:
            space, free = one.space, one.optimum.free
            given = space.kernel(free), space.noise_variance(free)
            alone, regions = held.alone_densities(*given), held.region_densities(*given)
            line = lines[one.trial.kernel]
            assert (line.alone, line.regions) == (pytest.approx(alone.mean()), pytest.approx(regions.mean()))
            error = np.hypot(np.std(alone) / len(alone) ** 0.5, np.std(regions) / len(regions) ** 0.5) / 2.0
            assert line.density_error == pytest.approx(error)
        assert lines["matern12"].alone > lines["gaussian"].alone

    def test_of_equals_the_simplest_is_taken(self, draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
        trying, found, held = self.candidates(draw_from, ["matern12+gaussian", "matern12", "matern12+matern52"])
        assert Choice(trying, [held]).best(found).trial.kernel == "matern12"
        # With every difference within the error, the fewest parameters decide, whatever they predict.
        monkeypatch.setattr(lmgp.learning.choice, "RULE", Rule(standard_errors=1e6))
        trying, found, held = self.candidates(draw_from, ["gaussian", "matern12+gaussian"])
        assert Choice(trying, [held]).best(found).trial.kernel == "gaussian"
