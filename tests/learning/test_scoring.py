"""Fisher scoring, against scipy's optimiser on the same objective."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from lmgp import GaussianKernel, MaternKernel
from lmgp.data import Rows, sampling
from lmgp.kernels.base import Kernel
from lmgp.learning import scoring
from lmgp.learning.forms import declared_free
from lmgp.learning.scoring import Climb, ExactObjective, Point, VecchiaObjective
from lmgp.learning.space import LEAST_NOISE, LEAST_SCALE, Space, Units
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.student import Student
from tests.learning.conftest import form_of

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
    return Climb(objective, start).go_on(steps, tolerance / objective.n_rows)


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
    space = Space(form_of(name, "+" not in name, 2), Units.of(rows, True))
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
    space = Space(form_of(name, False, 2), Units.of(rows, True))
    sample = VecchiaObjective(VecchiaLikelihood(rows, 40, 39, np.random.default_rng(0)), space)
    first = climb(sample, space.median, steps=40, tolerance=1e-3)
    second = climb(exact(rows, space), space.median, steps=40, tolerance=1e-3)
    assert first.converged
    assert first.value == pytest.approx(second.value, abs=0.02)
    assert first.at.terms.sum() == pytest.approx(first.value)
    assert first.at.value == pytest.approx(first.value + space.log_prior(first.free)[0])


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
    space = Space(form_of("gaussian", False, 2), Units.of(rows, True))
    found = climb(exact(rows, space), space.median, steps=60, tolerance=0.05)
    assert np.isfinite(found.value)
    assert np.isfinite(found.free).all()
    noise = space.noise_variance(found.free)
    assert LEAST_NOISE * rows.Y[:, 0].var() * (1 - 1e-9) <= noise < 1e-4 * rows.Y[:, 0].var()


@pytest.mark.parametrize("tails", [False, True])
def test_under_a_t_the_least_noise_is_larger(tails: bool) -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (120, 2))
    y = np.sin(X[:, 0]) * X[:, 1] + (rng.uniform(size=120) < 0.1) * rng.normal(size=120)
    rows = Rows(X, y - y.mean())
    space = Space(form_of("gaussian", False, 2), Units.of(rows, True))
    objective = VecchiaObjective(VecchiaLikelihood(rows, 120, 30, np.random.default_rng(0)), space, tails)
    begun = Climb(objective, space.median)
    assert np.isfinite(objective.degrees) == tails
    least = LEAST_SCALE if tails else LEAST_NOISE
    np.testing.assert_allclose(objective.bounds[space.kinds == "noise", 0], np.log(least))
    np.testing.assert_array_equal(objective.bounds[space.kinds != "noise"], space.bounds[space.kinds != "noise"])
    np.testing.assert_array_equal(begun.free, space.median)


def test_errors_are_normal_unless_tails_are_asked_for() -> None:
    rows = drawn(TRUTHS["gaussian"])
    outliers = rows.with_targets(rows.Y + 5.0 * (np.arange(len(rows)) % 10 == 0)[:, None])
    space = Space(form_of("gaussian", True, 2), Units.of(outliers, True))
    for tails in ((), (False,), (True,)):
        likelihood = VecchiaLikelihood(outliers, len(rows), 20, np.random.default_rng(0))
        objective = VecchiaObjective(likelihood, space, *tails)
        Climb(objective, space.median)
        assert np.isfinite(objective.degrees) == (tails == (True,))


def test_below_the_least_noise_of_a_t_errors_have_none() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-2.0, 2.0, (120, 2))
    rows = Rows(X, rng.standard_t(2.0, 120))
    space = Space(form_of("gaussian", False, 2), Units.of(rows, True))
    objective = VecchiaObjective(VecchiaLikelihood(rows, 120, 30, np.random.default_rng(0)), space, True)
    for noise, finite in ((2.0 * LEAST_SCALE, True), (0.5 * LEAST_SCALE, False)):
        small = (space.kinds == "noise") | (space.kinds == "variance")
        objective.start_at(np.where(small, np.log(noise), space.median))
        assert np.isfinite(objective.degrees) == finite
        objective.likelihood.student = Student()


def test_steps_are_counted_and_said() -> None:
    rows = drawn(TRUTHS["gaussian"])
    space = Space(form_of("gaussian", True, 2), Units.of(rows, True))
    cut_off = climb(exact(rows, space), space.median - 2.0, steps=1, tolerance=1e-3)
    assert not cut_off.converged
    far = climb(exact(rows, space), space.median - 2.0, steps=60, tolerance=1e-3)
    assert far.converged
    assert far.value > cut_off.value


def test_some_steps_at_a_time_are_the_same_steps() -> None:
    rows = drawn(TRUTHS["matern12+gaussian"])
    space = Space(form_of("matern12+gaussian", True, 2), Units.of(rows, True))
    whole = climb(exact(rows, space), space.median, steps=6, tolerance=1e-3)
    parts = Climb(exact(rows, space), space.median)
    values = []
    for steps in (1, 0, 2, 3):
        parts.go_on(steps, 1e-3 / 90)
        values.append(parts.value)
    np.testing.assert_array_equal(parts.free, whole.free)
    assert parts.value == whole.value > values[0] == values[1]


def test_at_an_optimum_it_stays_and_has_converged() -> None:
    rows = drawn(TRUTHS["gaussian"])
    space = Space(form_of("gaussian", True, 2), Units.of(rows, True))
    best = climb(exact(rows, space), space.median, steps=60, tolerance=1e-4)
    again = Climb(exact(rows, space), best.free)
    assert again.go_on(5, 0.01 / 90) is again
    assert again.converged
    np.testing.assert_array_equal(again.free, best.free)
    far = Climb(exact(rows, space), best.free + 1.0).go_on(1, 0.01 / 90)
    assert not far.converged


def test_only_where_a_step_starts_is_the_information_asked_for() -> None:
    rows = drawn(TRUTHS["matern12+gaussian"], 60, noise=1e-4)
    space = Space(form_of("matern12+gaussian", True, 2), Units.of(rows, True))
    objective, values, asked = exact(rows, space), [], []

    class Counted:
        space, bounds, start_at, n_rows = objective.space, objective.bounds, objective.start_at, objective.n_rows

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
    space = Space(form_of("matern52", True, 2), Units.of(rows, True))
    objective = exact(rows, space)
    for seed in range(5):
        start = np.clip(space.median + np.random.default_rng(seed).normal(scale=3.0, size=4), *space.bounds.T)
        objective.start_at(start)
        before = objective(start).value
        found = climb(objective, start, steps=3, tolerance=1e-3)
        assert objective(found.free).value >= before


def test_a_step_that_gains_little_because_it_is_too_long_is_no_end() -> None:
    class Parabola:
        """−x², with an information that is too small: a step from −0.4 ends just short of 0.4."""

        space, bounds = None, np.array([[-10.0, 10.0]])
        n_rows = 1

        def start_at(self, _: Floats) -> None:
            pass

        def __call__(self, free: Floats) -> Point:
            value = -float(free @ free)
            return Point(value, -2.0 * free, np.array([value]), lambda: np.array([[0.1981]]))

    found = Climb(Parabola(), np.array([-0.4])).go_on(1, 1e-2)
    assert 0.39 < found.free[0] < 0.4
    assert not found.converged
    found.go_on(20, 1e-2)
    assert found.converged
    assert abs(found.free[0]) < 0.1


class Scripted:
    """An objective whose values are given one after the other, with the slope 1 and the information 1 in one number."""

    space, bounds = None, np.array([[-100.0, 100.0]])
    n_rows = 1

    def __init__(self, *values: float) -> None:
        self.values, self.starts, self.calls, self.slope = list(values), 0, 0, 1.0

    def start_at(self, _: Floats) -> None:
        self.starts += 1

    def __call__(self, free: Floats) -> Point:
        self.calls += 1
        value = self.values.pop(0) if self.values else self.last + 1.0
        self.last = value
        return Point(value, np.full(1, self.slope), np.array([value]), lambda: np.eye(1))


class Quadratic:
    """g'x - x'Hx/2, with an information of which H is another one."""

    n_rows = 1

    def __init__(self, slope: Floats, curvature: Floats, information: Floats | None = None, bound: float = 50.0):
        self.slope, self.curvature, self.calls = slope, curvature, 0
        self.told = curvature if information is None else information
        self.space, self.bounds = None, np.tile([-bound, bound], (len(slope), 1))

    def start_at(self, _: Floats) -> None:
        pass

    def __call__(self, free: Floats) -> Point:
        self.calls += 1
        value = float(self.slope @ free - 0.5 * free @ self.curvature @ free)
        return Point(value, self.slope - self.curvature @ free, np.array([value]), lambda: self.told)


def first_step(at: Point, free: Floats, damping: float, bound: float = 50.0) -> tuple[Floats, float]:
    """The first step of a climb, and what it promises."""
    climb = Climb(Quadratic(at.gradient, at.information, bound=bound), free)
    climb.at, climb._damping = at, damping
    return climb._step(at.information + np.diag(np.abs(at.gradient)))


class TestSecants:
    """Of a climb: what its steps show of the curvature."""

    def test_the_last_one_holds_and_the_model_stays_positive_definite(self) -> None:
        rng = np.random.default_rng(0)
        root, other = rng.normal(size=(2, 4, 4))
        model, truth = root @ root.T + np.eye(4), other @ other.T + np.eye(4)
        steps = rng.normal(size=(6, 4))
        found = scoring.corrected(model, [(step, truth @ step) for step in steps])
        np.testing.assert_allclose(found @ steps[-1], truth @ steps[-1])
        np.testing.assert_allclose(found, found.T)
        assert np.linalg.eigvalsh(found).min() > 0.0
        assert np.linalg.norm(found - truth) < np.linalg.norm(model - truth)
        np.testing.assert_array_equal(scoring.corrected(model, []), model)

    @pytest.mark.parametrize("factor", [-1.0, 0.0, 0.19])
    def test_along_a_step_a_fifth_of_the_curvature_is_left(self, factor: float) -> None:
        model, step = np.diag([2.0, 1.0, 0.5]), np.array([1.0, -1.0, 2.0])
        found = scoring.corrected(model, [(step, factor * model @ step)])
        assert step @ found @ step == pytest.approx(0.2 * step @ model @ step)
        assert np.linalg.eigvalsh(found).min() > 0.0
        enough = scoring.corrected(model, [(step, 0.21 * model @ step)])
        np.testing.assert_allclose(enough @ step, 0.21 * model @ step)

    def test_lead_to_the_top_where_the_information_misleads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        curvature, slope = np.diag([4.0, 1.0, 0.2]), np.array([1.0, -1.0, 0.5])
        best = np.linalg.solve(curvature, slope)

        def climbed() -> tuple[Floats, int]:
            objective = Quadratic(slope, curvature, np.diag([0.4, 1.0, 5.0]))
            return Climb(objective, np.zeros(3)).go_on(20, 1e-5).free, objective.calls

        free, calls = climbed()
        np.testing.assert_allclose(free, best, atol=0.02)
        monkeypatch.setattr(scoring, "corrected", lambda model, _: model)
        without, of_without = climbed()
        assert np.abs(without - best).max() > 0.1 or of_without > 1.5 * calls

    def test_are_trusted_while_they_tell_the_gain_better(self) -> None:
        slope = np.array([1.0, -0.5])
        right = Climb(Quadratic(slope, np.diag([3.0, 1.0])), np.full(2, 0.1)).go_on(3, 1e-12)
        assert len(right._secants) == 3
        wrong = Climb(Quadratic(slope, np.diag([3.0, 1.0]), np.diag([30.0, 0.1])), np.full(2, 0.1)).go_on(3, 1e-12)
        assert wrong._trusted == 1
        step, fall = wrong._secants[0]
        np.testing.assert_allclose(fall, np.array([3.0, 1.0]) * step)

    @pytest.mark.parametrize(
        ("first", "second", "trusted"), [(1.0, 2.0, 0), (2.0, 1.0, 1), (1.5, 1.5, 0), (0.9, 1.2, 0)]
    )
    def test_the_model_that_told_the_gain_of_a_step_better_leads(
        self, first: float, second: float, trusted: int
    ) -> None:
        slope, curvature = np.array([1.0, -0.5]), np.diag([3.0, 1.0])
        climb = Climb(Quadratic(slope, curvature), np.zeros(2))
        climb._take(np.array([0.3, -0.2]), (first * curvature, second * curvature), 0.0)
        assert climb._trusted == trusted


class TestSteps:
    """Of a climb, with the rules that its docstring and the constants state."""

    def test_are_damped_and_shortened_where_they_gain_least(self) -> None:
        free = np.zeros(3)
        matrix, slope = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 0.5]]), np.array([0.7, -0.4, 0.2])
        at = Point(0.0, slope, np.zeros(1), lambda: matrix)
        step, promised = first_step(at, free, 0.5)
        expected = np.linalg.solve(matrix + np.diag(0.5 * np.diag(matrix) + 1.5 * np.abs(slope)), slope)
        np.testing.assert_allclose(step, expected)
        assert promised == pytest.approx(0.5 * slope @ expected)
        # A number that the likelihood hardly depends on is held back, and others are not.
        slope, curvatures = np.array([300.0, 30.0, 5.0]), np.array([4e3, 0.5, 10.0])
        flat = Point(0.0, slope, np.zeros(1), lambda: np.diag(curvatures - np.abs(slope)))
        far, of_far = first_step(flat, free, 0.0)
        ridge = next(2.0**power for power in range(9) if 30.0 / (0.5 + 2.0**power) <= 2.0)
        np.testing.assert_allclose(far, slope / (curvatures + ridge))
        assert of_far == pytest.approx(0.5 * float(slope**2 @ (1.0 / curvatures)))

    @pytest.mark.parametrize("side", [-1.0, 1.0])
    def test_leave_numbers_at_a_bound_that_is_pressed_against(self, side: float) -> None:
        free = np.array([side, 0.0])
        matrix, slope = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([0.6 * side, 0.1])
        step, promised = first_step(Point(0.0, slope, np.zeros(1), lambda: matrix), free, 0.0, 1.0)
        np.testing.assert_allclose(step, [0.0, 0.1 / 1.1])
        assert promised == pytest.approx(0.5 * 0.01 / 1.1)
        inward, _ = first_step(Point(0.0, -slope, np.zeros(1), lambda: matrix), free, 0.0, 1.0)
        assert inward[0] * side < 0.0
        steep = Point(0.0, np.array([0.0, 2.0]), np.zeros(1), lambda: matrix)
        cut, _ = first_step(steep, np.zeros(2), 0.0, 0.1)
        assert cut[1] == pytest.approx(0.1)

    def test_that_do_not_gain_are_not_taken_and_damp_the_next_one(self) -> None:
        for value in (0.0, -1.0, np.nan):
            found = Climb(Scripted(0.0, value), np.zeros(1)).go_on(1, 1e-9)
            assert found.free[0] == 0.0
            assert found._damping == pytest.approx(0.08)

    def test_that_gain_are_taken_and_raise_no_damping(self) -> None:
        found = Climb(Scripted(0.0, 0.3), np.zeros(1)).go_on(1, 1e-9)
        assert found.free[0] == pytest.approx(1.0 / 2.02)
        assert found._damping == pytest.approx(0.002)
        assert found.go_on(3, 1e-9)._damping == scoring.LEAST
        short = Climb(Scripted(0.0, 0.1), np.zeros(1)).go_on(1, 1e-9)  # less than half of what was expected
        assert short.free[0] > 0.0
        assert short._damping == pytest.approx(0.01)

    def test_that_gain_little_are_the_end_unless_they_were_damped(self) -> None:
        # Promised are .248 and .231 nats, and gained .2.
        assert Climb(Scripted(0.0, 0.2), np.zeros(1)).go_on(1, 0.22).converged
        damped = Climb(Scripted(0.0, -1.0, 0.2), np.zeros(1)).go_on(2, 0.22)
        assert damped.free[0] > 0.0
        assert not damped.converged
        assert not Climb(Scripted(0.0, 0.2), np.zeros(1)).go_on(1, 0.2).converged
        assert Climb(Scripted(0.0, 0.2), np.zeros(1)).go_on(1, 0.25).free[0] == 0.0  # so little is not tried

    def test_are_thirty_of_one_start(self) -> None:
        objective = Scripted(0.0)
        found = Climb(objective, np.zeros(1)).go_on()
        assert not found.converged
        assert (objective.starts, objective.calls) == (1, 1 + 30)
        # A gain of 2e-4 nats a row is the end, if no other is stated.
        for gain, ends in ((1.9e-4, True), (2.1e-4, False)):
            flat = Scripted(0.0, gain)
            flat.slope = 0.0242  # which promises 2.8e-4 nats
            assert Climb(flat, np.zeros(1)).go_on(1).converged is ends


def test_an_exact_line_has_no_neighbours() -> None:
    rows = drawn(TRUTHS["gaussian"], 30)
    objective = ExactObjective(rows, Space(form_of("gaussian", False, 2), Units.of(rows, True)))
    assert (objective.name, objective.n_neighbors, objective.n_rows) == ("exact", 0, 30)
    assert objective.standard_error(np.zeros(30)) == 0.0
    objective.start_at(np.zeros(3))
    assert objective.degrees == np.inf


def test_the_value_without_derivatives_is_the_same() -> None:
    rows = drawn(TRUTHS["gaussian"], 30)
    objective = ExactObjective(rows, Space(form_of("gaussian", True, 2), Units.of(rows, True)))
    free = np.array([0.3, -0.2, 0.1, -1.0])
    assert objective.value(free) == pytest.approx(objective(free).value, rel=1e-12)


def test_information_without_neighbours_is_that_of_dense_algebra() -> None:
    rows = drawn(TRUTHS["gaussian"], 40)
    two = Rows(rows.X, np.column_stack((rows.Y, rows.Y[::-1])))
    for of, n_targets in ((rows, 1), (two, 2)):
        space = Space(form_of("gaussian", False, 2), Units.of(of, True))
        free, step = space.median + 0.2, 1e-5

        def covariance(free: Floats, space: Space = space, of: Rows = of) -> Floats:
            return space.kernel(free)(of.X) + space.noise_variance(free) * np.eye(40)

        inverse = np.linalg.inv(covariance(free))
        changes = [
            inverse @ (covariance(free + unit) - covariance(free - unit)) / (2.0 * step) for unit in step * np.eye(3)
        ]
        traces = np.array([[np.trace(left @ right) for right in changes] for left in changes])
        expected = 0.5 * n_targets * traces + space.prior_information
        np.testing.assert_allclose(ExactObjective(of, space)(free).information, expected, rtol=1e-5)


def test_information_without_neighbours_is_that_of_some_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = drawn(TRUTHS["gaussian"], 40)
    space = Space(form_of("linear", True, 2), Units.of(rows, True))
    some = rows.take(np.sort(sampling().permutation(40)[:20]))
    expected = ExactObjective(some, space)(space.median).information
    monkeypatch.setattr(scoring, "MOST_ROWS", 20)
    np.testing.assert_allclose(ExactObjective(rows, space)(space.median).information, expected, rtol=1e-12)


def test_where_float64_has_no_factor_the_value_is_none_and_the_climb_goes_around() -> None:
    X = np.zeros((6, 1))
    X[:3] = 1.0
    rows = Rows(X, np.arange(6.0) - 2.5)
    space = Space(form_of("gaussian", False, 1), Units.of(rows, True), 1e-300)
    objective = ExactObjective(rows, space)
    at = objective(space.median)
    assert np.isnan(at.value)
    assert objective.value(space.median) == -np.inf
    np.testing.assert_allclose(at.gradient, space.log_prior(space.median)[1])


@pytest.mark.parametrize(("own_deviation", "copies"), [(1.0, 1.0), (0.25, 1.0), (3.0, 1.0), (1.0, 7.5), (0.25, 2.0)])
def test_the_evidence_of_a_quadratic_likelihood_is_its_integral_over_the_prior(
    own_deviation: float, copies: float
) -> None:
    # At the optimum of one prior, for that prior and for others; of rows that count several times, a power of it.
    rows = drawn(TRUTHS["gaussian"])
    spaces = [
        Space(form_of("matern12+matern52", True, 2), Units.of(rows, True), own_deviation=own)
        for own in (1.0, own_deviation)
    ]
    rng, k = np.random.default_rng(0), len(spaces[0].bounds)
    root = rng.normal(size=(k, k))
    centre, precision = spaces[0].median + 0.3 * rng.normal(size=k), root @ root.T + 0.1 * np.eye(k)

    class Quadratic(ExactObjective):
        def start_at(self, free: Floats) -> None:
            pass

        def __call__(self, free: Floats) -> Point:
            prior, slope = self.space.log_prior(free)
            value = float(multivariate_normal(centre, np.linalg.inv(precision)).logpdf(free))
            gradient = precision @ (centre - free) + slope
            return Point(value + prior, gradient, np.array([value]), lambda: precision + self.space.prior_information)

    by_prior = spaces[0].prior_information
    optimum = np.linalg.solve(precision + by_prior, precision @ centre + by_prior @ spaces[0].median)
    spread = np.linalg.inv(copies * precision) + np.linalg.inv(spaces[1].prior_information)
    expected = float(multivariate_normal(centre, spread).logpdf(spaces[1].median))
    # A power of a normal density is one of a smaller covariance, but for a factor.
    log_norm = float(np.linalg.slogdet(precision / (2.0 * np.pi))[1])
    expected += 0.5 * (copies - 1.0) * log_norm - 0.5 * k * np.log(copies)
    evidence = Climb(Quadratic(rows, spaces[0]), optimum).log_evidence(spaces[1], copies)
    assert evidence == pytest.approx(expected, rel=1e-9)
