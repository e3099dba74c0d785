"""Rows that learning leaves out, and how well others predict them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp.data import Rows
from lmgp.kernels.base import Kernel
from lmgp.learning import heldout
from lmgp.learning.heldout import HeldOut, Validation, mean_and_error, sizes_of_regions
from tests.conftest import KERNELS, NOISE, counts_and_noises

Floats = NDArray[np.float64]


def rows(n: int, *, weights: bool = False, noises: bool = False) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    y = np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + 0.2 * rng.normal(size=n)
    counts, own = counts_and_noises(n)
    return Rows(X, y - y.mean(), counts + 1.0 if weights else None, own if noises else None)


def left_out(n: int, seed: int = 0, **given: bool) -> HeldOut:
    return HeldOut.of(rows(n, **given), np.ones(2), np.random.default_rng(seed))


def rest_of(given: Rows, held: HeldOut) -> Rows:
    """The rows that were not left out."""
    return given.take(~held.taken)


def densities(given: Rows, held: HeldOut, kernel: Kernel) -> Floats:
    """Return the density of each neighbourhood."""
    return Validation(given, np.arange(1), [held]).densities(kernel, NOISE)[1]


def numbers(given: Rows, of: Rows) -> NDArray[np.intp]:
    """Find rows again by their y, which are all different."""
    order = np.argsort(of.Y[:, 0])
    return order[np.searchsorted(of.Y[:, 0][order], given.Y[:, 0])]


class TestRows:
    @pytest.mark.parametrize("n", [120, 1000, 5000])
    def test_no_row_is_on_both_sides(self, n: int) -> None:
        held, all_rows = left_out(n), rows(n)
        rest, regions = (set(numbers(one, all_rows)) for one in (rest_of(all_rows, held), all_rows.take(held.index)))
        assert len(rest) == len(rest_of(all_rows, held))
        assert not rest & regions
        assert n - len(rest) <= heldout.SHARE * n
        assert len(held.region) == len(held.index) > 0

    def test_neighbourhoods_of_several_sizes_are_left_out_as_a_whole(self) -> None:
        given, held = rows(5000), left_out(5000)
        rest = rest_of(given, held).X
        gaps = []
        for region in np.unique(held.region):
            X = given.X[held.index[held.region == region]]
            assert len(X) <= heldout.N_IN_REGION
            gaps.append(np.median(np.linalg.norm(X[:, None] - rest, axis=2).min(axis=1)))
        alone = np.median(np.partition(np.linalg.norm(rest[:200, None] - rest, axis=2), 1, axis=1)[:, 1])
        assert np.bincount(held.region).max() == heldout.N_IN_REGION == 32
        assert len(gaps) >= 4
        assert min(gaps) > alone
        assert max(gaps) > 3.0 * alone

    @pytest.mark.parametrize(("n", "sizes"), [(63, []), (80, [8]), (100, [10]), (150, [12]), (400, [20, 20])])
    def test_few_rows_leave_out_neighbourhoods_of_their_root(self, n: int, sizes: list[int]) -> None:
        assert sizes_of_regions(n).tolist() == sizes
        if len(sizes) == 1:
            assert n - len(rest_of(rows(n), left_out(n))) == sizes[0]

    def test_a_neighbourhood_is_the_rows_nearest_to_one_of_them(self) -> None:
        given, held = rows(150), left_out(150)
        (taken,) = np.nonzero(held.taken)
        distances = np.linalg.norm(given.X[taken, None] - given.X, axis=2)
        nearest = np.sort(np.argsort(distances, axis=1)[:, : len(taken)], axis=1)
        assert np.any(np.all(nearest == taken, axis=1))

    def test_many_rows_leave_out_neighbourhoods_of_all_sizes_up_to_a_fiftieth(self) -> None:
        sizes = sizes_of_regions(60_000)
        assert sizes[0] == 1200
        assert sizes.sum() <= 6000
        # Twelve of 24 sizes have a constant ratio, from the largest down: the share allows for the first few of these.
        ratio = (60_000**0.5 / 1200.0) ** (2.0 / 23.0)
        np.testing.assert_allclose(sizes, 1200.0 * ratio ** np.arange(len(sizes)), atol=1.0)
        assert sizes.sum() + sizes[-1] * ratio > 6000
        most = sizes_of_regions(10**8)
        grid = np.geomspace(1e4, 2e6, 24)[::-1]
        np.testing.assert_allclose(most, [*grid[::2], *grid[1::2]][: len(most)], atol=1.0)
        assert len(most) == np.count_nonzero(np.cumsum([*grid[::2], *grid[1::2]]) <= 1e7)
        several = sizes_of_regions(4000)
        assert 5 <= len(several) < 24
        assert np.all(np.diff(several) <= 0)

    def test_neighbourhoods_are_measured_in_units_of_the_columns(self) -> None:
        given = rows(2000)
        scales = np.array([1e3, 1e-3])
        one = left_out(2000)
        other = HeldOut.of(Rows(given.X * scales, given.Y[:, 0]), scales, np.random.default_rng(0))
        np.testing.assert_array_equal(one.index, other.index)
        np.testing.assert_array_equal(one.taken, other.taken)

    def test_the_mean_of_each_is_over_its_rows(self) -> None:
        held = replace(left_out(120), index=np.arange(4), region=np.array([1, 1, 3, 4]))
        np.testing.assert_array_equal(held.means(np.array([1.0, 2.0, -1.0, 5.0])), [1.5, -1.0, 5.0])

    def test_is_drawn_by_the_generator(self) -> None:
        first, again, other = left_out(500), left_out(500), left_out(500, seed=1)
        np.testing.assert_array_equal(first.taken, again.taken)
        assert not np.array_equal(first.taken, other.taken)

    def test_copies_by_the_thousand_are_no_trouble(self) -> None:
        given = rows(40)
        copies = given.take(np.repeat(np.arange(40), 50))
        held = HeldOut.of(copies, np.ones(2), np.random.default_rng(0))
        assert np.isfinite(densities(copies, held, KERNELS["matern32"][0])).all()


@pytest.mark.parametrize("given", [{}, {"weights": True}, {"noises": True}, {"weights": True, "noises": True}])
@pytest.mark.parametrize("name", KERNELS)
def test_densities_are_those_of_dense_algebra(
    name: str, given: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    # From all other rows: of 150, one neighbourhood of 12 is left out.
    monkeypatch.setattr(heldout, "N_NEIGHBORS", 200)
    kernel, formula = KERNELS[name]
    all_rows, held = rows(150, **given), left_out(150, **given)
    rest = rest_of(all_rows, held)
    weights = np.ones(len(rest)) if rest.weights is None else rest.weights
    own = np.full(len(rest), NOISE) if rest.noise_variances is None else rest.noise_variances

    def expected(new: Rows) -> Floats:
        cross = formula(rest.X, new.X)
        solved = np.linalg.solve(
            formula(rest.X, rest.X) + np.diag(own / weights), np.column_stack((rest.Y[:, 0], cross))
        )
        variance = np.diag(formula(new.X, new.X)) - np.sum(cross * solved[:, 1:], axis=0)
        variance = variance + (NOISE if new.noise_variances is None else new.noise_variances)
        mean = cross.T @ solved[:, 0]
        return -0.5 * (np.log(2.0 * np.pi * variance) + (new.Y[:, 0] - mean) ** 2 / variance)

    means = [expected(all_rows.take(held.index[held.region == one])).mean() for one in np.unique(held.region)]
    np.testing.assert_allclose(densities(all_rows, held, kernel), means, rtol=1e-6)


def test_a_thousand_rows_are_left_out_by_themselves() -> None:
    validation = Validation.of(rows(1100), np.ones(2), np.random.default_rng(0))
    assert len(validation.alone) == 1000
    assert np.all(np.diff(validation.alone) > 0)
    assert len(validation.neighbourhoods) == 8  # three each time
    assert len(Validation.of(rows(1100), np.ones(2), np.random.default_rng(0), near=False).neighbourhoods) == 0


def test_each_row_is_predicted_from_its_own_nearest_rows() -> None:
    """Not from rows that it shares with its neighbours, as predictions are."""
    given, kernel = rows(3000), KERNELS["matern32"][0]
    validation = Validation(given, np.arange(50), ())
    (of_rows, _) = validation.densities(kernel, NOISE)
    for i in range(50):
        others = np.delete(np.arange(3000), i)
        near = others[np.argsort(np.square(kernel.in_lengthscales(given.X[others] - given.X[i])).sum(axis=1))[:128]]
        K, k = kernel(given.X[near]) + NOISE * np.eye(128), kernel(given.X[near], given.X[[i]])[:, 0]
        mean, variance = k @ np.linalg.solve(K, given.Y[near, 0]), kernel.prior_variance() + NOISE
        variance -= k @ np.linalg.solve(K, k)
        expected = -0.5 * (np.log(2.0 * np.pi * variance) + (given.Y[i, 0] - mean) ** 2 / variance)
        assert of_rows[i] == pytest.approx(expected, rel=1e-7)


def test_rows_and_neighbourhoods_count_alike() -> None:
    of_rows, of_regions = np.array([1.0, 2.0, 3.0, 6.0]), np.array([-1.0, 3.0])
    mean, error = mean_and_error([of_rows, of_regions])
    assert mean == pytest.approx((3.0 + 1.0) / 2.0)
    assert error == pytest.approx(np.hypot(of_rows.std() / 2.0, of_regions.std() / np.sqrt(2.0)) / 2.0)
    mean, error = mean_and_error([of_rows, np.empty(0)])
    assert (mean, error) == pytest.approx((3.0, of_rows.std() / 2.0))


def test_few_rows_leave_no_neighbourhood_out() -> None:
    given, held = rows(40), left_out(40)
    assert len(rest_of(given, held)) == 40
    assert len(densities(given, held, KERNELS["matern12"][0])) == 0
