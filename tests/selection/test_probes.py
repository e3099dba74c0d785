"""Probes: which rows are held out, and that their predictions are those of the exact GP of all others."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, MaternKernel
from lmgp.data import Noise, Rows
from lmgp.kernels.base import Kernel
from lmgp.metrics import kl_divergence
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.residual import ResidualPosterior
from lmgp.selection import probes as module
from lmgp.selection.probes import Probes, predicted_from_all

KERNEL = GaussianKernel([0.7, 1.9], 2.0)
NOISE = 0.1
# Groups and neighbourhoods of few rows.
SMALL = {"ALL_ROWS": 300, "N_PROBES": 32, "N_GROUPS": 4, "NEIGHBOURS": 128, "LANDMARKS": 0}
UNGROUPED = SMALL | {"ALL_ROWS": 10**9}


def draw(n: int, seed: int = 0, extent: float = 10.0) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, extent, (n, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    return Rows(X, y - y.mean())


def hold_out(
    rows: Rows, plan: Mapping[str, float] | None = None, tolerance: float = 1e-3, seed: int = 0, kernel: Kernel = KERNEL
) -> Probes:
    """Hold out rows, by other numbers than those of the module where the plan has some."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (plan or {}).items():
            patch.setattr(module, name, value)
        return Probes.of(rows, kernel, Noise(NOISE), tolerance, np.random.default_rng(seed), 4.0)


def positions(rows: Rows, X: np.ndarray) -> np.ndarray:
    """Where rows of X are among the rows."""
    found = [np.flatnonzero((x == rows.X).all(axis=1)) for x in X]
    assert all(len(at) == 1 for at in found)
    return np.concatenate(found)


class TestWhichRows:
    @pytest.mark.parametrize("n", [2, 3, 9, 10, 77, 2000])
    def test_of_few_rows_one_in_five_at_most(self, n: int) -> None:
        rows = draw(n)
        probes = hold_out(rows)
        assert len(probes.X) == max(1, min(256, n // 5))
        assert len(probes.rest) == n - len(probes.X)

    @pytest.mark.parametrize("grouped", [False, True])
    def test_probes_and_the_rest_are_all_rows(self, grouped: bool) -> None:
        plan = SMALL if grouped else UNGROUPED
        rows = draw(500)
        probes = hold_out(rows, plan)
        held, rest = positions(rows, probes.X), positions(rows, probes.rest.X)
        assert len(held) == 32
        known = np.concatenate((held, rest))
        assert len(np.unique(known)) == len(known)
        # Around every fourth group, all rows are left out: that many at most.
        left_out = int(module.GAP_SHARE * 500) if grouped else 0
        assert 500 - left_out <= len(known) <= 500
        assert grouped == (len(known) < 500)
        # The rest stay in order, with all that belongs to them.
        np.testing.assert_array_equal(rest, np.sort(rest))
        np.testing.assert_array_equal(probes.rest.Y[:, 0], rows.Y[:, 0][rest])

    @pytest.mark.parametrize("grouped", [False, True])
    def test_weights_and_noise_go_with_their_rows(self, grouped: bool) -> None:
        plan = SMALL if grouped else UNGROUPED
        bare, rng = draw(500), np.random.default_rng(1)
        rows = Rows(bare.X, bare.Y[:, 0], rng.uniform(0.5, 3.0, 500), rng.uniform(0.01, 1.0, 500))
        rest = hold_out(rows, plan).rest
        at = positions(rows, rest.X)
        np.testing.assert_array_equal(rest.weights, rows.weights[at])
        np.testing.assert_array_equal(rest.noise_variances, rows.noise_variances[at])
        assert hold_out(bare).rest.weights is None
        assert hold_out(bare).rest.noise_variances is None

    def test_the_first_of_all_groups_come_first(self) -> None:
        plan = SMALL | {"N_GROUPS": 4, "N_PROBES": 32}
        rng = np.random.default_rng(3)
        # Four heaps far from each other: of a group all are in one heap.
        heaps = 1000.0 * rng.integers(0, 4, 400)
        X = np.column_stack((heaps, rng.uniform(0, 1, 400)))
        probes = hold_out(Rows(X, rng.normal(size=400)), plan, seed=5)
        heap_of = probes.X[:, 0].reshape(8, 4)
        assert np.all(heap_of == heap_of[0])

    def test_around_the_centre_of_a_group_most_rows_stay(self) -> None:
        """Or the probes would be predicted from farther rows than test rows will be."""
        plan = SMALL | {"N_GROUPS": 4, "N_PROBES": 32, "GAP_SHARE": 0.0}
        rows = draw(1000)
        probes = hold_out(rows, plan)
        scaled, rest = KERNEL.scale(probes.X), KERNEL.scale(probes.rest.X)
        for group in scaled.reshape(8, 4, 2).swapaxes(0, 1):
            centre = group.mean(axis=0)
            radius = np.linalg.norm(group - centre, axis=1).max()
            near = np.linalg.norm(rest - centre, axis=1) <= radius
            within = np.linalg.norm(scaled - centre, axis=1) <= radius
            assert near.sum() >= 2 * within.sum()

    def test_around_every_fourth_group_no_row_stays(self) -> None:
        plan = SMALL | {"N_GROUPS": 8, "N_PROBES": 32}
        rows = draw(2000)
        probes = hold_out(rows, plan)
        scaled, rest = KERNEL.scale(probes.X), KERNEL.scale(probes.rest.X)
        assert len(rest) < 2000 - len(scaled)
        between = []
        for group in scaled.reshape(4, 8, 2).swapaxes(0, 1):
            centre = group.mean(axis=0)
            radius = np.linalg.norm(group - centre, axis=1).min()
            between.append(int((np.linalg.norm(rest - centre, axis=1) <= radius).sum()))
        assert between[0] == between[4] == 0
        assert sum(between) > 0

    def test_groups_of_the_same_place_share_no_row(self) -> None:
        plan = SMALL | {"N_GROUPS": 8, "N_PROBES": 64, "ALL_ROWS": 100, "NEIGHBOURS": 64}
        rows = draw(140)
        probes = hold_out(rows, plan)
        assert len(np.unique(positions(rows, probes.X))) == len(probes.X)

    def test_depends_on_the_generator_alone(self) -> None:
        rows = draw(300)
        first, again, other = hold_out(rows, seed=1), hold_out(rows, seed=1), hold_out(rows, seed=2)
        np.testing.assert_array_equal(first.X, again.X)
        np.testing.assert_array_equal(first.mean, again.mean)
        assert not np.array_equal(first.X, other.X)


class TestPrediction:
    @pytest.mark.parametrize("own", [False, True])
    @pytest.mark.parametrize("n", [2, 11, 400])
    def test_is_that_of_the_exact_regressor_of_the_rest(self, n: int, own: bool) -> None:
        """With one centre of y for all."""
        bare, rng = draw(n), np.random.default_rng(1)
        rows = Rows(bare.X, bare.Y[:, 0], rng.uniform(0.5, 3.0, n), rng.uniform(0.01, 1.0, n)) if own else bare
        probes = hold_out(rows)
        rest = probes.rest
        covariance = KERNEL(rest.X) + np.diag(rest.noise_variances / rest.weights if own else np.full(len(rest), NOISE))
        cross = KERNEL(rest.X, probes.X)
        np.testing.assert_allclose(probes.mean, cross.T @ np.linalg.solve(covariance, rest.Y[:, 0]), rtol=0, atol=1e-10)
        explained = np.sum(cross * np.linalg.solve(covariance, cross), axis=0)
        np.testing.assert_allclose(probes.variance, 2.0 - explained, rtol=0, atol=1e-10)
        assert probes.n_used == len(rest)
        assert probes.change == 0.0
        assert probes.seconds > 0.0

    def test_of_another_kernel(self) -> None:
        rows, kernel = draw(200), MaternKernel([0.7, 1.9], 2.0, smoothness=1.5)
        probes = hold_out(rows, kernel=kernel)
        covariance = kernel(probes.rest.X) + NOISE * np.eye(len(probes.rest))
        expected = kernel(probes.X, probes.rest.X) @ np.linalg.solve(covariance, probes.rest.Y[:, 0])
        np.testing.assert_allclose(probes.mean, expected, rtol=0, atol=1e-10)

    def test_agrees_with_the_estimator(self) -> None:
        rows = draw(400)
        probes = hold_out(rows)
        y = np.append(probes.rest.Y[:, 0], -probes.rest.Y[:, 0].sum())  # of mean zero, by one row far from all
        exact = ExactGPRegressor(KERNEL, NOISE).fit(np.vstack((probes.rest.X, [[1e6, 1e6]])), y)
        mean, std = exact.predict(probes.X, return_std=True)
        np.testing.assert_allclose(probes.mean, mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(probes.variance, std**2, rtol=0, atol=1e-10)


class TestNeighbourhoods:
    def of_sizes(self, probes: Probes, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Predict four groups from the k rows nearest to the middle of each."""
        mean, variance = np.empty(32), np.empty(32)
        for group in range(4):
            members = probes.X[group::4]
            middle = KERNEL.scale(members.mean(axis=0)[None, :])
            nearest = np.argsort(np.linalg.norm(KERNEL.scale(probes.rest.X) - middle, axis=1))[:k]
            posterior = ExactPosterior(KERNEL, probes.rest.take(nearest), Noise(NOISE))
            means, variance[group::4] = posterior.predict(members)
            mean[group::4] = means[:, 0]
        return mean, variance

    def test_the_last_one_is_what_is_returned_with_its_change(self) -> None:
        probes = hold_out(draw(1500), SMALL, tolerance=1e-300)
        assert probes.n_used == 128
        last, before = self.of_sizes(probes, 128), self.of_sizes(probes, 64)
        np.testing.assert_allclose((probes.mean, probes.variance), last, rtol=0, atol=1e-10)
        change = kl_divergence(before[0], before[1] + NOISE, last[0], last[1] + NOISE).mean()
        assert probes.change == pytest.approx(change, rel=1e-6)
        assert probes.change > 0.0

    def test_half_of_them_say_how_sure_they_are(self) -> None:
        """Where they are enough, no map is asked for."""
        rows = draw(1500)
        sure, unsure = (hold_out(rows, SMALL | {"LANDMARKS": 40}, tolerance) for tolerance in (1e3, 1e-9))
        np.testing.assert_array_equal(sure.mean, hold_out(rows, SMALL).mean)
        assert 0.0 < unsure.change < sure.change
        assert not np.array_equal(sure.mean, unsure.mean)

    @pytest.mark.parametrize(("lengthscale", "least"), [(1.0, 3e-3), (4.0, 1e-6), (30.0, 1e-9)])
    def test_with_a_map_are_near_the_exact_prediction_from_all_rows(self, lengthscale: float, least: float) -> None:
        """Of smooth functions, too, where rows beyond any neighbourhood matter."""
        kernel, plan = GaussianKernel(lengthscale, 2.0), SMALL | {"NEIGHBOURS": 256, "LANDMARKS": 128}
        probes = hold_out(draw(1500), plan, 1e-4, kernel=kernel)
        means, variance = ExactPosterior(kernel, probes.rest, Noise(NOISE)).predict(probes.X)
        mean = means[:, 0]
        divergence = kl_divergence(probes.mean, probes.variance + NOISE, mean, variance + NOISE).mean()
        assert divergence <= max(6.0 * probes.change, 1e-9)
        assert divergence < least

    def test_landmarks_are_fewer_where_rows_are_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = []

        def noted(kernel: Any, rows: Rows, noise: Noise, features: Any, *more: Any) -> ResidualPosterior:
            made.append(features.n_features)
            return ResidualPosterior(kernel, rows, noise, features, *more)

        monkeypatch.setattr(module, "ResidualPosterior", noted)
        rows = draw(1500)
        n_rest = len(hold_out(rows, SMALL).rest)
        for entries in (2**26, 32 * n_rest):
            hold_out(rows, SMALL | {"LANDMARKS": 64, "ENTRIES": entries}, tolerance=1e-9)
        assert made == [32, 64, 16, 32]

    def test_what_is_near_the_probes_holds_the_rows_nearest_to_each(self) -> None:
        probes = hold_out(draw(1500), SMALL)
        assert len(probes.near) < len(probes.rest)
        k = probes.most_neighbours
        scaled, near, rest = (KERNEL.scale(X) for X in (probes.X, probes.near.X, probes.rest.X))
        for one in scaled:
            to_near, to_rest = (np.sort(np.linalg.norm(X - one, axis=1)) for X in (near, rest))
            np.testing.assert_array_equal(to_near[:k], to_rest[:k])
        few = hold_out(draw(100))
        assert few.near is few.rest

    def test_no_model_of_more_than_half_of_them_can_be_told(self) -> None:
        assert hold_out(draw(1500), SMALL).most_neighbours == 64
        assert hold_out(draw(100)).most_neighbours == 80

    def test_use_each_rows_own_noise_and_weight(self) -> None:
        bare, rng = draw(1500), np.random.default_rng(1)
        rows = Rows(bare.X, bare.Y[:, 0], rng.uniform(0.5, 3.0, 1500), rng.uniform(0.01, 1.0, 1500))
        probes = hold_out(rows, SMALL, tolerance=1e-300)
        np.testing.assert_allclose((probes.mean, probes.variance), self.of_sizes(probes, 128), rtol=0, atol=1e-10)
        assert not np.allclose(probes.mean, hold_out(bare, SMALL, tolerance=1e-300).mean, atol=1e-3)


class TestStandardError:
    @staticmethod
    def grouped(group: np.ndarray) -> Probes:
        m, rows = len(group), Rows(np.zeros((2, 1)), np.zeros(2))
        return Probes(np.zeros((m, 1)), np.zeros(m), np.ones(m), group, rows, rows, 2, 0.0, 0.0)

    def test_of_single_probes_it_is_the_usual_one(self) -> None:
        values = np.random.default_rng(0).exponential(size=50)
        mean, error = self.grouped(np.arange(60)).mean_and_error(values)
        assert (mean, error) == pytest.approx((values.mean(), values.std() / 50**0.5))

    def test_probes_of_a_group_count_as_one(self) -> None:
        values = np.random.default_rng(0).exponential(size=10)
        mean, error = self.grouped(np.tile(np.arange(10), 6)).mean_and_error(np.tile(values, 6))
        assert (mean, error) == pytest.approx((values.mean(), values.std() / 10**0.5))

    @pytest.mark.parametrize("grouped", [False, True])
    def test_groups_are_told_apart(self, grouped: bool) -> None:
        plan = SMALL if grouped else UNGROUPED
        group = hold_out(draw(500), plan).group
        np.testing.assert_array_equal(group, np.tile(np.arange(4), 8) if grouped else np.arange(32))

    def test_of_many_equal_rows(self) -> None:
        """Where groups find no row that others have not taken."""
        plan = SMALL | {"N_GROUPS": 16, "N_PROBES": 32}
        probes = hold_out(Rows(np.ones((400, 2)), np.ones(400)), plan)
        assert 0 < len(probes.X) == len(probes.group) <= 32
        assert np.all(np.isfinite(probes.mean) & np.isfinite(probes.variance))


class TestMemory:
    @pytest.mark.parametrize(("gib", "expected"), [(1000.0, 4096), (1 / 16, 2048), (0.001, 1024)])
    def test_all_rows_predict_only_where_they_fit(self, gib: float, expected: int) -> None:
        """Two matrices of n rows take 16 n² bytes; neighbourhoods of 1,024 rows are always used."""
        assert predicted_from_all(gib) == expected
