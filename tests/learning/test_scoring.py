"""Fisher scoring, against scipy's optimiser on the same objective."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from lmgp import GaussianKernel, MaternKernel
from lmgp.data import Rows
from lmgp.kernels.base import Kernel
from lmgp.learning import scoring
from lmgp.learning.forms import declared_free, make_form
from lmgp.learning.scoring import Climb, ExactObjective, Point, VecchiaObjective
from lmgp.learning.space import Space, Units
from lmgp.posteriors.vecchia import VecchiaLikelihood

Floats = NDArray[np.float64]

TRUTHS: dict[str, Kernel] = {
    "gaussian": GaussianKernel([0.5, 2.0], 2.0),
    "matern12": MaternKernel([1.0, 3.0], 1.0, smoothness=0.5),
    "matern32": MaternKernel([0.6, 0.6], 1.0),
    "matern12+gaussian": MaternKernel(0.3, 0.3, smoothness=0.5) + GaussianKernel([1.0, 4.0], 2.0),
}


def drawn(kernel: Kernel, n: int = 90, noise: float = 0.05, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    y = multivariate_normal(np.zeros(n), kernel(X) + noise * np.eye(n)).rvs(random_state=rng)
    return Rows(X, y - y.mean())


def climb(objective: VecchiaObjective | ExactObjective, start: Floats, *, steps: int, tolerance: float) -> Climb:
    found = Climb(objective, start)
    found.go_on(steps, tolerance)
    return found


def exact(rows: Rows, space: Space) -> ExactObjective:
    return ExactObjective(rows, space, VecchiaLikelihood(rows, len(rows), 20, np.random.default_rng(0)))


def best_by_scipy(rows: Rows, space: Space, starts: list[Floats]) -> float:
    """The largest log posterior that L-BFGS finds from dense algebra alone, with differences for its gradient."""

    def negative(free: Floats) -> float:
        covariance = space.kernel(free)(rows.X) + space.noise_variance(free) * np.eye(len(rows))
        sign, log_determinant = np.linalg.slogdet(covariance)
        value = -0.5 * (rows.Y[:, 0] @ np.linalg.solve(covariance, rows.Y[:, 0]) + log_determinant)
        value -= 0.5 * len(rows) * np.log(2.0 * np.pi)
        return -float(value + space.log_prior(free)[0]) if sign > 0 else 1e10

    results = [minimize(negative, start, method="L-BFGS-B", bounds=space.bounds) for start in starts]
    return -min(float(result.fun) for result in results)


@pytest.mark.parametrize("name", TRUTHS)
def test_finds_the_optimum_of_the_exact_likelihood(name: str) -> None:
    rows = drawn(TRUTHS[name])
    space = Space(make_form(name, "+" not in name, 2), Units.of(rows, True))
    objective = exact(rows, space)
    start = space.median + np.linspace(-0.5, 0.5, len(space.median))
    found = climb(objective, start, steps=40, tolerance=0.01)
    assert found.converged
    value = objective(found.free)
    assert value.value >= best_by_scipy(rows, space, [start, found.free]) - 0.05
    # The value without the prior is the density of the rows.
    noisy = space.kernel(found.free)(rows.X) + space.noise_variance(found.free) * np.eye(90)
    assert found.value == pytest.approx(multivariate_normal(np.zeros(90), noisy).logpdf(rows.Y[:, 0]), rel=1e-8)
    assert value.value == pytest.approx(found.value + space.log_prior(found.free)[0], rel=1e-8)


@pytest.mark.parametrize("name", TRUTHS)
def test_of_all_positions_and_neighbours_it_is_the_same_optimum(name: str) -> None:
    rows = drawn(TRUTHS[name], 40)
    space = Space(make_form(name, False, 2), Units.of(rows, True))
    sample = VecchiaObjective(VecchiaLikelihood(rows, 40, 39, np.random.default_rng(0)), space)
    first = climb(sample, space.median, steps=40, tolerance=1e-3)
    second = climb(exact(rows, space), space.median, steps=40, tolerance=1e-3)
    assert first.converged
    assert first.value == pytest.approx(second.value, abs=0.02)
    assert first.at.terms.sum() == pytest.approx(first.value)


@pytest.mark.parametrize("start", [-4.0, 0.0, 4.0])
def test_bounds_hold_and_pressed_numbers_stay_there(start: float) -> None:
    rows = drawn(GaussianKernel([0.5, 2.0], 2.0))
    kernel = GaussianKernel(1.0, 1.0, lengthscale_bounds=(3.0, 9.0), variance_bounds=(0.01, 0.2))
    form = declared_free(kernel)
    assert form is not None
    space = Space(form, Units.of(rows, True))
    found = climb(exact(rows, space), space.median + start, steps=40, tolerance=0.01)
    assert found.converged
    assert space.kernel(found.free).lengthscale == pytest.approx(3.0)  # the data ask for less
    assert 0.01 <= space.kernel(found.free).variance <= 0.2 + 1e-12
    # What is inside of its bounds is at an optimum.
    assert found.value + space.log_prior(found.free)[0] >= best_by_scipy(rows, space, [found.free]) - 0.05


def test_targets_without_noise_end_at_the_floor() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (60, 2))
    y = np.sin(X[:, 0]) * X[:, 1]
    rows = Rows(X, y - y.mean())
    space = Space(make_form("gaussian", False, 2), Units.of(rows, True))
    found = climb(exact(rows, space), space.median, steps=60, tolerance=0.05)
    assert np.isfinite(found.value)
    assert np.isfinite(found.free).all()
    noise = space.noise_variance(found.free)
    assert 1e-6 * rows.Y[:, 0].var() * (1 - 1e-9) <= noise < 1e-4 * rows.Y[:, 0].var()


def test_steps_are_counted_and_said() -> None:
    rows = drawn(TRUTHS["gaussian"])
    space = Space(make_form("gaussian", True, 2), Units.of(rows, True))
    cut_off = climb(exact(rows, space), space.median - 2.0, steps=1, tolerance=1e-3)
    assert not cut_off.converged
    far = climb(exact(rows, space), space.median - 2.0, steps=60, tolerance=1e-3)
    assert far.converged
    assert far.value > cut_off.value


def test_a_climb_that_may_be_long_says_how_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rows = drawn(TRUTHS["gaussian"])
    space = Space(make_form("gaussian", True, 2), Units.of(rows, True))
    with caplog.at_level("INFO", logger="lmgp.stages"):
        climb(exact(rows, space), space.median - 2.0, steps=4, tolerance=1e-3)
        assert not caplog.messages
        monkeypatch.setattr(scoring, "LONG", 0.0)
        long = climb(exact(rows, space), space.median - 2.0, steps=4, tolerance=1e-3)
    assert len(caplog.messages) == 4
    last = re.fullmatch(r"learning, step 4 of at most 4: (.*) nats a row, at most 0 s more", caplog.messages[-1])
    assert last is not None
    assert float(last[1]) == pytest.approx(long.value / 90, abs=1e-4)


def test_some_steps_at_a_time_are_the_same_steps() -> None:
    rows = drawn(TRUTHS["matern12+gaussian"])
    space = Space(make_form("matern12+gaussian", True, 2), Units.of(rows, True))
    whole = climb(exact(rows, space), space.median, steps=6, tolerance=1e-3)
    parts = Climb(exact(rows, space), space.median)
    values = []
    for steps in (1, 0, 2, 3):
        parts.go_on(steps, 1e-3)
        values.append(parts.value)
    np.testing.assert_array_equal(parts.free, whole.free)
    assert parts.value == whole.value > values[0] == values[1]


def test_at_an_optimum_it_stays_and_has_converged() -> None:
    rows = drawn(TRUTHS["gaussian"])
    space = Space(make_form("gaussian", True, 2), Units.of(rows, True))
    best = climb(exact(rows, space), space.median, steps=60, tolerance=1e-4)
    again = Climb(exact(rows, space), best.free)
    assert again.go_on(5, 0.01) is again
    assert again.converged
    np.testing.assert_array_equal(again.free, best.free)
    far = Climb(exact(rows, space), best.free + 1.0).go_on(1, 0.01)
    assert not far.converged


def test_only_where_a_step_starts_is_the_information_asked_for() -> None:
    rows = drawn(TRUTHS["matern12+gaussian"], 60, noise=1e-4)
    space = Space(make_form("matern12+gaussian", True, 2), Units.of(rows, True))
    objective, values, asked = exact(rows, space), [], []

    class Counted:
        space, moved_to, n_rows = objective.space, objective.moved_to, objective.n_rows

        def __call__(self, free: Floats) -> Point:
            at = objective(free)
            values.append(at.value)

            def information() -> Floats:
                asked.append(at.value)
                return at.information

            return Point(at.value, at.gradient, at.terms, information)

    climb(Counted(), space.median + 3.0, steps=25, tolerance=1e-6)
    best = np.maximum.accumulate(values)
    refused = [value for value, before in zip(values[1:], best, strict=False) if value <= before]
    assert refused
    assert set(asked).isdisjoint(refused)
    assert len(asked) == len(set(asked))


def test_never_ends_below_its_start() -> None:
    rows = drawn(TRUTHS["matern12"])
    space = Space(make_form("matern52", True, 2), Units.of(rows, True))
    objective = exact(rows, space)
    for seed in range(5):
        start = np.clip(space.median + np.random.default_rng(seed).normal(scale=3.0, size=4), *space.bounds.T)
        objective.moved_to(start)
        before = objective(start).value
        found = climb(objective, start, steps=3, tolerance=1e-3)
        assert objective(found.free).value >= before


def test_a_step_that_gains_little_because_it_is_too_long_is_no_end() -> None:
    class Parabola:
        """−x², with an information that is too small: a step from −0.4 ends just short of 0.4."""

        space = SimpleNamespace(bounds=np.array([[-10.0, 10.0]]))
        n_rows = 1

        def moved_to(self, _: Floats) -> bool:
            return False

        def __call__(self, free: Floats) -> Point:
            value = -float(free @ free)
            return Point(value, -2.0 * free, np.array([value]), lambda: np.array([[0.1981]]))

    found = Climb(Parabola(), np.array([-0.4])).go_on(1, 1e-2)
    assert 0.39 < found.free[0] < 0.4
    assert not found.converged
    found.go_on(20, 1e-2)
    assert found.converged
    assert abs(found.free[0]) < 0.1
