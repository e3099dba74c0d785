"""Places of rows: each once, in an order that neither the rows' own order nor copies, shifts and units change."""

import numpy as np
import pytest

from lmgp import LinearKernel, MaternKernel
from lmgp.data import Noise, Rows
from lmgp.neighbours.placement import column_order, distinct_places, negligible_share, place_keys


def test_each_place_comes_once_with_the_weights_of_its_rows() -> None:
    X = np.random.default_rng(0).integers(0, 3, (50, 2)).astype(float)  # nine places
    weights = np.random.default_rng(1).uniform(size=50)
    places, totals = distinct_places(X, weights)
    expected = {tuple(place): weights[np.all(place == X, axis=1)].sum() for place in X}
    assert len(places) == len(expected) == 9
    assert totals == pytest.approx([expected[tuple(place)] for place in places], rel=1e-14)
    np.testing.assert_array_equal(distinct_places(X)[1], distinct_places(X, np.ones(50))[1])


@pytest.mark.parametrize("d", [1, 2, 7])
def test_the_order_of_places_is_that_of_any_order_shift_and_units(d: int) -> None:
    rng = np.random.default_rng(d)
    X = rng.normal(size=(60, d)) * np.geomspace(1e-3, 1e3, d)
    places, _ = distinct_places(X)
    again = X[rng.permutation(np.repeat(np.arange(60), rng.integers(1, 4, 60)))]
    np.testing.assert_array_equal(distinct_places(again)[0], places)
    units, shift = 10.0 ** rng.uniform(-5, 5, d), 100.0 * np.ptp(X, axis=0)
    np.testing.assert_allclose(distinct_places(units * (again + shift))[0] / units - shift, places, atol=1e-9)


def test_columns_come_by_their_means_in_any_order_and_units() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(60, 4)) ** np.array([1.0, 2.0, 3.0, 0.5])
    columns, units, shift = rng.permutation(4), 10.0 ** rng.uniform(-5, 5, 4), rng.normal(size=4)
    assert column_order(X.T).tolist() == [2, 1, 0, 3]
    assert columns[column_order((units * (X[rng.permutation(60)] + shift))[:, columns].T)].tolist() == [2, 1, 0, 3]
    assert column_order([np.array([0.0, 0.3, 0.6]), np.array([0.0, 3.0, 6.0]), np.zeros(3)]).tolist() == [2, 0, 1]


def test_constant_columns_and_values_at_the_end_of_the_range() -> None:
    np.testing.assert_array_equal(place_keys(np.full((3, 2), 7.0)), 0.0)
    keys = place_keys(np.array([[-1.7e308, 1.0], [1.7e308, 1.0], [0.0, 1.0]]))
    assert np.all(np.isfinite(keys))
    assert np.argsort(keys).tolist() == [0, 2, 1]


def test_what_is_negligible_is_so_beside_the_largest_prior_variance() -> None:
    rows = Rows(np.array([[0.0], [3.0], [-1.0]]), np.array([1.0, 2.0, -3.0]))
    kernels = MaternKernel(1.0) * LinearKernel(), MaternKernel(1.0, 9.0)
    shares = [negligible_share(rows, kernel, Noise(0.1), 1e-3) for kernel in kernels]
    assert shares[0] == pytest.approx(shares[1], rel=1e-12)
