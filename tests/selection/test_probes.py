"""Probes: which rows are held out, and that their predictions are those of the exact GP of all others."""

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel
from lmgp.inference.function_space import ExactPosterior
from lmgp.metrics import kl_divergence
from lmgp.selection import probes as module
from lmgp.selection.probes import Probes
from lmgp.validation import Rows

KERNEL = GaussianKernel([0.7, 1.9], 2.0)
NOISE = 0.1
UNGROUPED = {"ALL_ROWS": 10**9}


def draw(n: int, seed: int = 0, extent: float = 10.0) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, extent, (n, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    return Rows(X, y - y.mean())


def hold_out(rows: Rows, tolerance: float = 1e-3, seed: int = 0) -> Probes:
    return Probes.of(rows, KERNEL, NOISE, tolerance, np.random.default_rng(seed))


def small(monkeypatch: pytest.MonkeyPatch, **constants: float) -> None:
    """Take groups and neighbourhoods of few rows."""
    defaults = {
        "ALL_ROWS": 300, "N_PROBES": 32, "N_GROUPS": 4, "FIRST_NEIGHBOURS": 16, "LAST_NEIGHBOURS": 128,
    }  # fmt: skip
    for name, value in (defaults | constants).items():
        monkeypatch.setattr(module, name, value)


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
        assert len(probes.rest.y) == n - len(probes.X)

    @pytest.mark.parametrize("grouped", [False, True])
    def test_probes_and_the_rest_are_all_rows(self, grouped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        small(monkeypatch, **({} if grouped else UNGROUPED))
        rows = draw(500)
        probes = hold_out(rows)
        held, rest = positions(rows, probes.X), positions(rows, probes.rest.X)
        assert len(held) == 32
        np.testing.assert_array_equal(np.sort(np.concatenate((held, rest))), np.arange(500))
        # The rest stay in order, with all that belongs to them.
        np.testing.assert_array_equal(rest, np.sort(rest))
        np.testing.assert_array_equal(probes.rest.y, rows.y[rest])

    @pytest.mark.parametrize("grouped", [False, True])
    def test_weights_and_noise_go_with_their_rows(self, grouped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        small(monkeypatch, **({} if grouped else UNGROUPED))
        bare, rng = draw(500), np.random.default_rng(1)
        rows = Rows(bare.X, bare.y, rng.uniform(0.5, 3.0, 500), rng.uniform(0.01, 1.0, 500))
        rest = hold_out(rows).rest
        at = positions(rows, rest.X)
        np.testing.assert_array_equal(rest.weights, rows.weights[at])
        np.testing.assert_array_equal(rest.noise_variances, rows.noise_variances[at])
        assert hold_out(bare).rest.weights is None
        assert hold_out(bare).rest.noise_variances is None

    def test_the_first_of_all_groups_come_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        small(monkeypatch, N_GROUPS=4, N_PROBES=32)
        rng = np.random.default_rng(3)
        # Four heaps far from each other: of a group all are in one heap.
        heaps = 1000.0 * rng.integers(0, 4, 400)
        X = np.column_stack((heaps, rng.uniform(0, 1, 400)))
        probes = hold_out(Rows(X, rng.normal(size=400)), seed=5)
        heap_of = probes.X[:, 0].reshape(8, 4)
        assert np.all(heap_of == heap_of[0])

    def test_around_the_centre_of_a_group_most_rows_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Or the probes would be predicted from farther rows than test rows will be."""
        small(monkeypatch, N_GROUPS=4, N_PROBES=32)
        rows = draw(1000)
        probes = hold_out(rows)
        scaled, rest = KERNEL.scale(probes.X), KERNEL.scale(probes.rest.X)
        for group in scaled.reshape(8, 4, 2).swapaxes(0, 1):
            centre = group.mean(axis=0)
            radius = np.linalg.norm(group - centre, axis=1).max()
            near = np.linalg.norm(rest - centre, axis=1) <= radius
            within = np.linalg.norm(scaled - centre, axis=1) <= radius
            assert near.sum() >= 2 * within.sum()

    def test_groups_of_the_same_place_share_no_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        small(monkeypatch, N_GROUPS=8, N_PROBES=64, ALL_ROWS=100, LAST_NEIGHBOURS=64)
        rows = draw(140)
        probes = hold_out(rows)
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
        rows = Rows(bare.X, bare.y, rng.uniform(0.5, 3.0, n), rng.uniform(0.01, 1.0, n)) if own else bare
        probes = hold_out(rows)
        rest = probes.rest
        covariance = KERNEL(rest.X) + np.diag(
            rest.noise_variances / rest.weights if own else np.full(len(rest.y), NOISE)
        )
        cross = KERNEL(rest.X, probes.X)
        np.testing.assert_allclose(probes.mean, cross.T @ np.linalg.solve(covariance, rest.y), rtol=0, atol=1e-10)
        explained = np.sum(cross * np.linalg.solve(covariance, cross), axis=0)
        np.testing.assert_allclose(probes.variance, 2.0 - explained, rtol=0, atol=1e-10)
        assert probes.n_used == len(rest.y)
        assert probes.change == 0.0
        assert probes.seconds > 0.0

    def test_agrees_with_the_estimator(self) -> None:
        rows = draw(400)
        probes = hold_out(rows)
        y = np.append(probes.rest.y, -probes.rest.y.sum())  # of mean zero, by one row far from all
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
            posterior = ExactPosterior(KERNEL, probes.rest.take(nearest), NOISE)
            mean[group::4], variance[group::4] = posterior.predict(members)
        return mean, variance

    def test_the_last_one_is_what_is_returned_with_its_change(self, monkeypatch: pytest.MonkeyPatch) -> None:
        small(monkeypatch)
        probes = hold_out(draw(1500), tolerance=1e-300)
        assert probes.n_used == 128
        last, before = self.of_sizes(probes, 128), self.of_sizes(probes, 64)
        np.testing.assert_allclose((probes.mean, probes.variance), last, rtol=0, atol=1e-10)
        change = kl_divergence(before[0], before[1] + NOISE, last[0], last[1] + NOISE).mean()
        assert probes.change == pytest.approx(change, rel=1e-6)
        assert probes.change > 0.0

    def test_grow_until_a_tenth_of_the_tolerance(self, monkeypatch: pytest.MonkeyPatch) -> None:
        small(monkeypatch, LAST_NEIGHBOURS=1024)
        rows = draw(1500)
        sizes = {}
        for tolerance in (10.0, 1e-1, 1e-2, 1e-3):
            probes = hold_out(rows, tolerance)
            k = sizes[tolerance] = probes.n_used
            assert probes.change <= 0.1 * tolerance
            if k > 32:  # one step earlier was not enough
                pairs = [self.of_sizes(probes, size) for size in (k // 4, k // 2)]
                change = kl_divergence(*(v for m, s in pairs for v in (m, s + NOISE))).mean()
                assert change > 0.1 * tolerance
        assert sizes[10.0] == 32
        assert len(set(sizes.values())) >= 3
        assert list(sizes.values()) == sorted(sizes.values())

    def test_are_near_the_exact_prediction_from_all_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        small(monkeypatch, LAST_NEIGHBOURS=512)
        probes = hold_out(draw(1500), tolerance=1e-3)
        assert probes.n_used < len(probes.rest.y)
        mean, variance = ExactPosterior(KERNEL, probes.rest, NOISE).predict(probes.X)
        divergence = kl_divergence(probes.mean, probes.variance + NOISE, mean, variance + NOISE).mean()
        assert divergence < 1e-4

    def test_use_each_rows_own_noise_and_weight(self, monkeypatch: pytest.MonkeyPatch) -> None:
        small(monkeypatch)
        bare, rng = draw(1500), np.random.default_rng(1)
        rows = Rows(bare.X, bare.y, rng.uniform(0.5, 3.0, 1500), rng.uniform(0.01, 1.0, 1500))
        probes = hold_out(rows, tolerance=1e-300)
        np.testing.assert_allclose((probes.mean, probes.variance), self.of_sizes(probes, 128), rtol=0, atol=1e-10)
        assert not np.allclose(probes.mean, hold_out(bare, tolerance=1e-300).mean, atol=1e-3)


class TestStandardError:
    @staticmethod
    def grouped(group: np.ndarray) -> Probes:
        m = len(group)
        return Probes(
            np.zeros((m, 1)), np.zeros(m), np.ones(m), group, Rows(np.zeros((2, 1)), np.zeros(2)), 2, 0.0, 0.0
        )

    def test_of_single_probes_it_is_the_usual_one(self) -> None:
        values = np.random.default_rng(0).exponential(size=50)
        mean, error = self.grouped(np.arange(60)).mean_and_error(values)
        assert (mean, error) == pytest.approx((values.mean(), values.std() / 50**0.5))

    def test_probes_of_a_group_count_as_one(self) -> None:
        values = np.random.default_rng(0).exponential(size=10)
        mean, error = self.grouped(np.tile(np.arange(10), 6)).mean_and_error(np.tile(values, 6))
        assert (mean, error) == pytest.approx((values.mean(), values.std() / 10**0.5))

    @pytest.mark.parametrize("grouped", [False, True])
    def test_groups_are_told_apart(self, grouped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        small(monkeypatch, **({} if grouped else UNGROUPED))
        group = hold_out(draw(500)).group
        np.testing.assert_array_equal(group, np.tile(np.arange(4), 8) if grouped else np.arange(32))

    def test_of_many_equal_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where groups find no row that others have not taken."""
        small(monkeypatch, N_GROUPS=16, N_PROBES=32)
        probes = hold_out(Rows(np.ones((400, 2)), np.ones(400)))
        assert 0 < len(probes.X) == len(probes.group) <= 32
        assert np.all(np.isfinite(probes.mean) & np.isfinite(probes.variance))
