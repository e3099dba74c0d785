"""Squared distances: by products of matrices where that is quicker, and as accurate as by differences."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lmgp.kernels.derivatives import COLUMNS, squared_distances

Floats = NDArray[np.float64]

# Fewer columns than products take, and more.
widths = pytest.mark.parametrize("d", [1, COLUMNS - 1, COLUMNS, 2 * COLUMNS])


def by_differences(X: Floats, Z: Floats) -> Floats:
    """In extended precision."""
    wide = X.astype(np.longdouble)[..., :, None, :] - Z.astype(np.longdouble)[..., None, :, :]
    return np.square(wide).sum(axis=-1).astype(np.float64)


def distances(X: Floats, Z: Floats | None = None) -> Floats:
    left = torch.from_numpy(X)
    return squared_distances(left, left if Z is None else torch.from_numpy(Z)).numpy()


@widths
class TestBatches:
    def test_are_those_of_extended_precision(self, d: int) -> None:
        rng = np.random.default_rng(d)
        X, Z = rng.normal(size=(3, 7, d)), rng.normal(size=(3, 5, d))
        np.testing.assert_allclose(distances(X, Z), by_differences(X, Z), rtol=1e-13)
        np.testing.assert_allclose(distances(X), by_differences(X, X), rtol=1e-13)
        np.testing.assert_allclose(distances(X[0], Z[0]), by_differences(X, Z)[0], rtol=1e-13)

    @pytest.mark.parametrize("apart", [1e-1, 1e-3, 1e-6, 1e-12, 0.0])
    @pytest.mark.parametrize("away", [0.0, 1e6])
    def test_close_rows_keep_their_digits(self, d: int, apart: float, away: float) -> None:
        rng = np.random.default_rng(d)
        X = rng.normal(size=(2, 6, d)) + away
        X[:, 3:] = X[:, :3] + apart * rng.normal(size=(2, 3, d))
        for Z in (None, X.copy()):
            found, expected = distances(X, Z), by_differences(X, X)
            # Products lose digits where a square is small beside those of the rows: at most nine of them.
            np.testing.assert_allclose(found, expected, rtol=1e-8)
            assert np.all(found[expected == 0.0] == 0.0)

    def test_one_row_far_from_the_others_takes_no_digits_from_these(self, d: int) -> None:
        X = np.random.default_rng(d).normal(size=(2, 6, d))
        X[0, 0] += 1e8
        np.testing.assert_allclose(distances(X), by_differences(X, X), rtol=1e-8)

    def test_rows_beyond_float64_are_infinitely_far(self, d: int) -> None:
        X, Z = np.zeros((2, 3, d)), np.zeros((2, 4, d))
        X[0, 1, 0] = 1e300
        X[1, 2, 0] = np.inf
        found = distances(X, Z)
        assert np.isposinf(found[0, 1]).all()
        assert np.isposinf(found[1, 2]).all()
        assert (np.delete(found[0], 1, axis=0) == 0.0).all()

    def test_one_set_of_rows_serves_all(self, d: int) -> None:
        rng = np.random.default_rng(d)
        X, Z = rng.normal(size=(3, 7, d)), rng.normal(size=(5, d))
        Z[1] = X[2, 4]  # one pair without a distance
        np.testing.assert_allclose(distances(X, Z), by_differences(X, Z[None]), rtol=1e-13)
