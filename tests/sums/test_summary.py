"""Summaries of rows against numpy's, and rows that stay as they are."""

import numpy as np
import pytest

from lmgp.data import Rows, Summary
from lmgp.errors import InputError


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("d", [1, 3])
def test_a_summary_is_that_of_numpy_and_changes_no_row(order: str, d: int) -> None:
    rng = np.random.default_rng(0)
    X, y, w = np.array(rng.normal(size=(50, d)), order=order), rng.normal(size=50), rng.uniform(0.5, 2.0, 50)
    before = X.copy()
    summary = Summary.of(Rows(X, y, w))
    np.testing.assert_array_equal(X, before)
    mean = np.average(before, axis=0, weights=w)
    np.testing.assert_allclose(summary.mean, mean, rtol=0, atol=1e-14)
    np.testing.assert_allclose(summary.squares, w @ np.square(before - mean), rtol=1e-13)
    np.testing.assert_array_equal((summary.low, summary.high), (before.min(axis=0), before.max(axis=0)))
    assert (summary.least, summary.most) == (y.min(), y.max())


def test_rows_outside_the_range_cannot_be_taken_out() -> None:
    X, y = np.random.default_rng(0).normal(size=(50, 2)), np.zeros(50)
    summary, some = Summary.of(Rows(X, y)), Summary.of(Rows(X[:20], y[:20]))
    np.testing.assert_allclose(summary.combine(some, -1.0).mean, X[20:].mean(axis=0), atol=1e-14)
    for shift in (20.0, -20.0):
        with pytest.raises(InputError, match="not all of them are in the model: one of them lies outside the range"):
            summary.combine(Summary.of(Rows(X[:20] + np.array([0.0, shift]), y[:20])), -1.0)
    rounded = X[:20] * (1.0 + 4e-16)  # as of rows that were projected in another batch
    assert np.any(rounded.min(axis=0) < X.min(axis=0)) or np.any(rounded.max(axis=0) > X.max(axis=0))
    assert summary.combine(Summary.of(Rows(rounded, y[:20])), -1.0).n_rows == 30
