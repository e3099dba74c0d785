"""What all sums do alike: rows wait, are added and taken out, and no row at all is no model."""

from typing import ClassVar

import numpy as np
import pytest

from lmgp import FeaturizedGPRegressor, GaussianKernel, RandomFourierFeatures
from lmgp.data import Rows, Summary
from lmgp.errors import InputError
from lmgp.sums.base import combined
from lmgp.sums.gram import WeightSums

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(0.0, 3.0, (40, 2)), RNG.normal(size=40)
ROWS = Rows(X, np.column_stack((Y, np.ones(40))))
COMBINATION = np.array([[1.0], [0.0]])


class WaitingSums(WeightSums):
    """Sums whose rows wait for nine others."""

    least_rows: ClassVar[int] = 10


@pytest.fixture
def sums() -> WaitingSums:
    features = RandomFourierFeatures(6, random_state=0)
    model = FeaturizedGPRegressor(features, kernel=GaussianKernel(1.0), noise_variance=0.1).fit(X, Y)
    return WaitingSums(**vars(model._fitted.sums.empty()))


def rows(first: int, last: int) -> Rows:
    return ROWS.take(slice(first, last))


def gram(sums: WeightSums) -> np.ndarray:
    return sums.sums.expand().gram


def test_rows_wait_until_there_are_enough_of_them(sums: WaitingSums) -> None:
    few = sums.added(rows(0, 9))
    assert (few.n_rows, len(few.waiting), few.summary) == (9, 9, None)
    for last in (10, 12):
        enough = few.added(rows(9, last))
        assert (enough.n_rows, enough.waiting, enough.summary.n_rows) == (last, None, last)
        np.testing.assert_allclose(gram(enough), gram(sums.of(rows(0, last))), rtol=0, atol=1e-12)
    more = enough.added(rows(12, 15))
    assert (more.n_rows, len(more.waiting), more.summary.n_rows) == (15, 3, 12)
    np.testing.assert_allclose(gram(more.settled), gram(sums.of(rows(0, 15))), rtol=0, atol=1e-12)
    assert enough.settled is enough


def test_rows_that_wait_are_added_and_taken_out_like_others(sums: WaitingSums) -> None:
    whole, few = sums.of(rows(0, 20)), sums.added(rows(20, 24))
    both = whole + few
    assert both.n_rows == 24
    np.testing.assert_allclose(gram(both), gram(sums.of(rows(0, 24))), rtol=0, atol=1e-12)
    less = both - few
    np.testing.assert_allclose(gram(less), gram(whole), rtol=0, atol=1e-12)
    new = RNG.uniform(0.0, 3.0, (5, 2))
    means, variances = less.posterior(COMBINATION).predict(new)
    expected_means, expected_variances = whole.posterior(COMBINATION).predict(new)
    np.testing.assert_allclose(means, expected_means, rtol=0, atol=1e-9)
    np.testing.assert_allclose(variances, expected_variances, rtol=0, atol=1e-9)


def test_one_row_may_be_left_and_none_may_not(sums: WaitingSums) -> None:
    few = sums.of(rows(0, 3))
    assert (few - sums.of(rows(0, 2))).n_rows == 1
    with pytest.raises(InputError, match="No row would be left"):
        few - sums.of(rows(0, 3))
    assert few.empty().n_rows == 0
    assert not gram(few.empty()).any()


def test_what_is_summed_is_no_place_and_keeps_no_row(sums: WaitingSums) -> None:
    assert (sums.covers, sums.keeps_rows, sums.uses_start) == (False, False, False)
    assert WeightSums.least_rows == 1


def test_no_rows_combine_with_any() -> None:
    summary = Summary.of(ROWS)
    assert combined(summary, None) is summary
    assert combined(None, summary) is summary
    with pytest.raises(InputError, match="cannot be taken out"):
        combined(None, summary, -1.0)
