"""Rows that are kept: what is added, taken out and merged, and the posterior of what is left."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lmgp import GaussianKernel, TaylorFeatures
from lmgp.data import Noise, Rows
from lmgp.errors import InputError
from lmgp.neighbours.placement import cover
from lmgp.posteriors.local import LocalPlan, fitted_map, reach_of
from lmgp.sums.kept import RowSums
from tests.dense import draw, weighted

KERNEL, NOISE = GaussianKernel([1.1, 0.6], 2.0), Noise(0.05)
X, Y, T = draw(120, high=(20.0, 3.0))
ROWS = weighted(X, np.column_stack((Y + 3.0, np.ones(120))))
CENTRED = np.array([[1.0, 0.0], [0.0, 1.0], [-3.0, -3.0]])


def planned(rows: Rows = ROWS, features: Any = TaylorFeatures(28)) -> LocalPlan:  # noqa: B008 - not changed
    centroids = cover(rows, KERNEL, 1.0)
    fitted = fitted_map(features, KERNEL, rows, centroids, np.random.default_rng(0))
    return LocalPlan(KERNEL, NOISE, fitted, centroids, 1.0, reach=reach_of(fitted, KERNEL, NOISE, rows))


def predicted(sums: RowSums, start: Any = None) -> np.ndarray:
    means, variances = sums.posterior(CENTRED, start).predict(T)
    return np.column_stack((means, variances))


def test_the_posterior_is_that_of_the_rows_in_any_order_of_arrival() -> None:
    plan = planned()
    whole = RowSums.over(NOISE, plan, ROWS)
    expected = plan.posterior(ROWS.with_targets(Y)).predict(T)
    np.testing.assert_allclose(predicted(whole), np.column_stack(expected), rtol=0, atol=1e-12)
    first, start = RowSums.over(NOISE, plan, ROWS.take(slice(0, 60))), None
    for part in (slice(60, 61), slice(61, 100)):
        first = first.added(ROWS.take(part))
        start = first.posterior(CENTRED, start)
    last = first + whole.of(ROWS.take(slice(100, 120)))
    np.testing.assert_allclose(predicted(last, start), predicted(whole), rtol=0, atol=1e-12)
    assert (last.n_rows, last.summary.n) == (120, pytest.approx(ROWS.weights.sum()))
    np.testing.assert_allclose(last.targets.products, whole.targets.products)
    np.testing.assert_array_equal(last.rows.X, X)


def test_rows_that_are_taken_out_were_there() -> None:
    plan = planned()
    whole = RowSums.over(NOISE, plan, ROWS)
    twice = whole.added(ROWS.take(slice(0, 3)))
    less = twice - whole.of(ROWS.take(np.array([2, 50, 0, 1])))
    assert less.n_rows == 119
    alone = RowSums.over(NOISE, plan, ROWS.take(np.arange(120) != 50))
    np.testing.assert_allclose(predicted(less), predicted(alone), rtol=0, atol=1e-11)
    np.testing.assert_allclose(less.targets.totals, alone.targets.totals, rtol=1e-12)
    np.testing.assert_array_equal(less.summary.high, alone.summary.high)
    moved = replace(ROWS.take(slice(0, 2)), X=X[:2] + np.array([[0.0, 0.0], [1e-9, 0.0]]))
    heavier = replace(ROWS.take(slice(0, 1)), weights=np.array([9.0]))
    other = ROWS.take(slice(0, 1)).with_targets(ROWS.Y[:1] + 1e-6)
    for rows, row in ((moved, 1), (heavier, 0), (other, 0), (ROWS.take(np.array([4, 4])), 1)):
        with pytest.raises(InputError, match=rf"row {row}, .*is not, or not as often, with this y"):
            _ = whole - whole.of(rows)
    with pytest.raises(InputError, match="No row would be left"):
        _ = whole - whole


def test_of_rows_with_equal_places_the_one_with_this_y_goes() -> None:
    rows = Rows(np.zeros((3, 2)), np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]]))
    sums = RowSums.over(NOISE, planned(), rows)
    np.testing.assert_array_equal((sums - sums.of(rows.take(slice(1, 2)))).rows.Y[:, 0], [1.0, 3.0])


def test_nothing_is_of_no_rows() -> None:
    whole = RowSums.over(NOISE, planned(), ROWS)
    none = whole.empty()
    assert (none.n_rows, none.noise_variance, none.keeps_rows) == (0, 0.05, True)
    assert (none + whole).n_rows == (whole + none).n_rows == 120


def test_rows_of_other_maps_and_noises_do_not_merge() -> None:
    plan = planned()
    whole = RowSums.over(NOISE, plan, ROWS)
    assert (whole + RowSums.over(NOISE, planned(ROWS.take(slice(0, 90))), ROWS)).n_rows == 240
    with pytest.raises(InputError, match=r"Models of one map merge.*same first rows"):
        _ = whole + RowSums.over(NOISE, planned(features=TaylorFeatures(45)), ROWS)
    with pytest.raises(InputError, match=r"Models of one noise variance merge"):
        _ = whole + RowSums.over(Noise(0.1), plan, ROWS)
