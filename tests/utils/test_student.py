"""Student's t by maximum likelihood."""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from lmgp.utils.student import LEAST_DEGREES, Student


@pytest.mark.parametrize("degrees", [3.0, 6.0])
def test_the_fit_is_that_of_scipy(degrees: float) -> None:
    errors = stats.t.rvs(degrees, scale=0.7, size=4000, random_state=0)
    found = Student.fitted(errors)
    expected = stats.t.fit(errors, floc=0.0)
    assert found.degrees == pytest.approx(expected[0], rel=1e-2)
    assert found.scale == pytest.approx(expected[2], rel=1e-3)
    assert found.degrees == pytest.approx(degrees, rel=0.2)


def test_a_weight_stands_for_so_many_rows() -> None:
    errors = stats.t.rvs(4.0, size=300, random_state=1)
    weights = np.tile([1.0, 3.0, 2.0], 100)
    found, expected = Student.fitted(errors, weights), Student.fitted(np.repeat(errors, weights.astype(int)))
    assert found.degrees == pytest.approx(expected.degrees, rel=1e-2)
    assert found.scale == pytest.approx(expected.scale, rel=1e-3)


def test_other_units_are_another_scale() -> None:
    errors = stats.t.rvs(4.0, size=300, random_state=1)
    found, expected = Student.fitted(1e-9 * errors), Student.fitted(errors)
    assert found.degrees == pytest.approx(expected.degrees, rel=1e-6)
    assert found.scale == pytest.approx(1e-9 * expected.scale, rel=1e-6)


def test_normal_errors_have_many_degrees_and_heavier_ones_than_any_t_the_fewest() -> None:
    assert Student.fitted(np.random.default_rng(0).normal(size=4000)).degrees > 30
    assert Student.fitted(stats.cauchy.rvs(size=4000, random_state=0)).degrees == pytest.approx(LEAST_DEGREES)


def test_the_variance_is_that_of_scipy() -> None:
    student = Student(5.0, 2.0)
    assert student.scale * student.deviation == pytest.approx(stats.t.std(5.0, scale=2.0))
    assert Student().deviation == 1.0
    np.testing.assert_allclose(Student().log_density(np.array([0.3])), stats.norm.logpdf(0.3))
    np.testing.assert_allclose(student.log_density(np.array([0.3])), stats.t.logpdf(0.3, 5.0, scale=2.0))


def test_no_other_point_is_likelier() -> None:
    errors = stats.t.rvs(4.0, size=500, random_state=2)
    found = Student.fitted(errors)
    other = minimize(
        lambda point: -stats.t.logpdf(errors, np.exp(point[0]), scale=np.exp(point[1])).sum(), (1.0, 0.0), tol=1e-10
    )
    assert -other.fun - found.log_density(errors).sum() < 1e-4 * len(errors)


@pytest.mark.parametrize("n_rows", [100, 400, 2500])
def test_as_many_degrees_as_the_errors_tell_from_normal_ones(n_rows: int) -> None:
    errors = stats.norm.ppf((np.arange(n_rows) + 0.5) / n_rows)  # with lighter tails than a sample
    found = Student.fitted(errors)
    assert found.degrees == pytest.approx(np.sqrt(n_rows))
    normal = Student(scale=float(np.sqrt(np.square(errors).mean())))
    assert 0.0 < (normal.log_density(errors) - found.log_density(errors)).sum() < 1.0
    assert found.log_density(np.array([100.0]))[0] > -400.0 > -4000.0 > normal.log_density(np.array([100.0]))[0]


@pytest.mark.parametrize(("seed", "n_far", "far"), [(0, 1, 1e5), (1, 5, 1e4), (2, 2, 1e5), (2, 2, 1e8)])
def test_is_the_likeliest_where_a_few_errors_are_far_off(seed: int, n_far: int, far: float) -> None:
    errors = np.exp(np.random.default_rng(seed).normal(size=3000)) * stats.norm.rvs(size=3000, random_state=2)
    errors[:n_far] *= far
    grid = (Student(degrees, scale) for degrees in (2.2, 2.5, 3.0, 5.0, 50.0) for scale in np.geomspace(0.05, 50.0, 60))
    best = max(one.log_density(errors).mean() for one in grid)
    assert Student.fitted(errors).log_density(errors).mean() > best - 1e-6
