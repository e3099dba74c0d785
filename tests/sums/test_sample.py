"""Samples of a stream's rows."""

import numpy as np
import pytest

from lmgp.data import Rows
from lmgp.sums.base import Sample


@pytest.mark.parametrize("chunk", [30, 400])
def test_the_rows_with_the_smallest_keys_stay_in_their_order(chunk: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 2)), rng.normal(size=1000)
    sample, keys = Sample(np.random.default_rng(5), size=50), np.random.default_rng(5)
    every = []
    for start in range(0, 1000, chunk):
        part = Rows(X[start : start + chunk], y[start : start + chunk])
        sample.add(part)
        every.append(keys.uniform(size=len(part)))
    kept = np.sort(np.argsort(np.concatenate(every))[:50])
    assert sample.rows is not None
    assert sample.summary is not None
    np.testing.assert_array_equal(sample.rows.X, X[kept])
    np.testing.assert_array_equal(sample.rows.Y[:, 0], y[kept])
    assert sample.summary.n_rows == 1000
    np.testing.assert_array_equal(sample.summary.low, X.min(axis=0))
