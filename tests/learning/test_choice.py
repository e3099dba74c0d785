"""The choice between optima by rows that had no part in their prediction."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

from lmgp import GaussianKernel, MaternKernel, ModulatedKernel
from lmgp.data import Rows
from lmgp.kernels.base import Kernel
from lmgp.learning import heldout
from lmgp.learning.choice import compared
from lmgp.learning.forms import declared_free
from lmgp.learning.heldout import Validation
from lmgp.learning.scoring import Climb
from lmgp.learning.search import Search
from lmgp.learning.space import Units
from tests.learning.conftest import Draw, form_of

Floats = NDArray[np.float64]

pytestmark = pytest.mark.usefixtures("small")


def optima(rows: Rows, names: tuple[str, ...] = ("gaussian", "matern12")) -> list[Climb]:
    search = Search(rows, Units.of(rows, True), None, True, 0)
    return [search.optimum(form_of(name, False, rows.X.shape[1])) for name in names]


def rough(draw_from: Draw, n: int = 300) -> Rows:
    X, y = draw_from(MaternKernel(2.0, smoothness=0.5), n, noise=0.01)
    return Rows(X, y - y.mean())


def leave_one_out(rows: Rows, optimum: Climb) -> Floats:
    """The log density of each row given all others, by dense algebra."""
    kernel, noise, _ = optimum.space.weighted(optimum.free)
    found = []
    for i in range(len(rows)):
        others = np.delete(np.arange(len(rows)), i)
        X, x = rows.X[others], rows.X[i : i + 1]
        weights = np.linalg.solve(kernel(X) + noise * np.eye(len(X)), kernel(X, x))[:, 0]
        variance = kernel(x)[0, 0] + noise - weights @ kernel(X, x)[:, 0]
        found.append(norm(weights @ rows.Y[others, 0], np.sqrt(variance)).logpdf(rows.Y[i, 0]))
    return np.array(found)


def test_what_predicts_best_is_taken(draw_from: Draw) -> None:
    rows = rough(draw_from)
    given = optima(rows)
    trials, ends = [one.trial for one in given], [one.free for one in given]
    weights = compared(rows, np.ones(2), given, False, np.random.default_rng(0))
    np.testing.assert_array_equal(weights, [0.0, 1.0])
    gaussian, matern = (one.trial for one in given)
    assert matern.alone > gaussian.alone
    for one, trial, end in zip(given, trials, ends, strict=True):
        assert one.trial[:8] == trial[:8]
        np.testing.assert_array_equal(one.free, end)


@pytest.mark.slow
def test_lines_have_the_densities_of_rows_and_of_neighbourhoods(
    draw_from: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heldout, "N_NEIGHBORS", 500)
    rows = rough(draw_from, 150)
    given = optima(rows)
    compared(rows, np.ones(2), given, False, np.random.default_rng(0))
    validation = Validation.of(rows, np.ones(2), np.random.default_rng(0))
    for one in given:
        alone, (_, regions) = leave_one_out(rows, one), validation.densities(*one.space.weighted(one.free)[:2])
        assert one.trial.alone == pytest.approx(alone.mean(), rel=1e-6)
        assert one.trial.regions == pytest.approx(regions.mean(), rel=1e-6)
        error = np.hypot(np.std(alone) / len(alone) ** 0.5, np.std(regions) / len(regions) ** 0.5) / 2.0
        assert one.trial.density_error == pytest.approx(error, rel=1e-6)


def test_neighbourhoods_count_as_much_as_rows(draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rough(draw_from)
    given = optima(rows)
    # The second predicts every row better by a nat, and the first every neighbourhood by more.
    for by, taken in ((0.9, 1), (1.1, 0)):

        def densities(self: Validation, _: Kernel, noise: float, __: float, by: float = by) -> list[Floats]:
            return [np.full(len(self.alone), noise), np.full(3, -by * noise)]

        monkeypatch.setattr(Validation, "densities", densities)
        for one, noise in zip(given, (0.0, 1.0), strict=True):
            monkeypatch.setattr(one.space, "noise_variance", lambda _, noise=noise: noise)
        weights = compared(rows, np.ones(2), given, False, np.random.default_rng(0))
        assert weights[taken] == 1.0


def test_an_average_has_the_weights_that_predict_best(draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heldout, "N_NEIGHBORS", 500)
    X, y = draw_from(MaternKernel(1.0, 0.5, smoothness=0.5) + GaussianKernel(1.0), 90, noise=0.01, seed=2)
    rows = Rows(X, y - y.mean())
    given = optima(rows)
    weights = compared(rows, np.ones(2), given, True, np.random.default_rng(0))
    validation = Validation.of(rows, np.ones(2), np.random.default_rng(0))
    kinds = [
        np.array([of(one) for one in given])
        for of in (
            lambda one: leave_one_out(rows, one),
            lambda one: validation.densities(*one.space.weighted(one.free)[:2])[1],
        )
    ]

    def loss(share: float) -> float:
        logarithms = np.log([[share], [1.0 - share]])
        return -sum(float(logsumexp(kind + logarithms, axis=0).mean()) for kind in kinds if kind.size)

    best = minimize_scalar(loss, bounds=(1e-9, 1.0 - 1e-9), method="bounded").x
    best = 0.0 if best < 0.05 else 1.0 if best > 0.95 else best
    assert weights.sum() == pytest.approx(1.0)
    assert weights[0] == pytest.approx(best, abs=0.02)


@pytest.mark.slow
def test_a_thousand_rows_are_left_out_and_24_neighbourhoods(draw_from: Draw) -> None:
    rows = rough(draw_from, 1100)
    validation = Validation.of(rows, np.ones(2), np.random.default_rng(0))
    kernel = MaternKernel(1.0, smoothness=0.5)
    assert [len(part) for part in validation.densities(kernel, 0.1)] == [1000, 24]  # three of them at a time


def test_weights_of_rows_count(draw_from: Draw) -> None:
    X, y = draw_from(MaternKernel(2.0, smoothness=0.5), 100, noise=0.1)
    counts = np.random.default_rng(1).integers(1, 6, 100).astype(float)
    rows = Rows(X, y - y.mean(), counts)
    given = optima(rows)
    weights = compared(rows, np.ones(2), given, True, np.random.default_rng(0))
    assert weights.sum() == pytest.approx(1.0)
    assert np.isfinite([one.trial.alone for one in given]).all()


def _first(X: Floats) -> Floats:
    return 1.0 + X[:, 0] ** 2


def test_kernels_without_lengthscales_are_compared_by_all_rows(draw_from: Draw) -> None:
    X, y = draw_from(GaussianKernel(0.7), 150)  # of which neighbourhoods could be left out
    rows = Rows(X, y - y.mean())
    form = declared_free(ModulatedKernel(GaussianKernel(1.5, variance_bounds=(1e-3, 1e3)), _first))
    assert form is not None
    one = Search(rows, Units.of(rows, True), None, True, 0).optimum(form)
    weights = compared(rows, np.ones(2), [one], False, np.random.default_rng(0))
    assert one.trial.alone == pytest.approx(leave_one_out(rows, one).mean(), rel=1e-6)
    assert np.isnan(one.trial.regions)
    np.testing.assert_array_equal(weights, [1.0])
