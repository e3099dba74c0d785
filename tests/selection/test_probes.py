"""Probes: which rows are held out, and that their predictions are those of the exact GP of the rows around."""

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, MaternKernel, NearestNeighborsGPRegressor
from lmgp.data import Noise, Rows
from lmgp.errors import MemoryLimitError, ToleranceWarning
from lmgp.kernels.base import Kernel
from lmgp.metrics import kl_divergence
from lmgp.selection import probes as module
from lmgp.selection.probes import N_PLACES, N_PROBES, Probes

KERNEL = GaussianKernel([0.7, 1.9], 2.0)
NOISE = 0.1
SIZE = N_PROBES // N_PLACES


def draw(n: int, seed: int = 0, extent: float = 10.0) -> Rows:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, extent, (n, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=n)
    return Rows(X, y - y.mean())


def hold_out(rows: Rows, seed: int = 0, kernel: Kernel = KERNEL, gib: float = 4.0) -> Probes:
    return Probes.of(rows, kernel, Noise(NOISE), np.random.default_rng(seed), gib)


def positions(rows: Rows, X: np.ndarray) -> np.ndarray:
    """Where rows of X are among the rows."""
    found = [np.flatnonzero((x == rows.X).all(axis=1)) for x in X]
    assert all(len(at) == 1 for at in found)
    return np.concatenate(found)


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take more rows than 800 for many: 100 around each place."""
    monkeypatch.setattr(module, "MOST_ROWS", 800)


class TestFewRows:
    @pytest.mark.parametrize("n", [2, 3, 9, 10, 77, 2000])
    def test_one_in_five_is_held_out_at_most(self, n: int) -> None:
        rows = draw(n)
        probes = hold_out(rows)
        assert len(probes.X) == max(1, min(N_PROBES, n // 5))
        known = np.concatenate((positions(rows, probes.X), positions(rows, probes.rest.X)))
        np.testing.assert_array_equal(np.sort(known), np.arange(n))
        assert probes.share == 1.0
        assert probes.most_neighbours == len(probes.rest)

    @pytest.mark.parametrize("own", [False, True])
    @pytest.mark.parametrize("n", [2, 11, 400])
    def test_predictions_are_those_of_dense_algebra(self, n: int, own: bool) -> None:
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
        assert probes.seconds > 0.0

    def test_agree_with_the_estimator(self) -> None:
        probes = hold_out(draw(400))
        y = np.append(probes.rest.Y[:, 0], -probes.rest.Y[:, 0].sum())  # of mean zero, by one row far from all
        exact = ExactGPRegressor(KERNEL, NOISE).fit(np.vstack((probes.rest.X, [[1e6, 1e6]])), y)
        mean, std = exact.predict(probes.X, return_std=True)
        np.testing.assert_allclose(probes.mean, mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(probes.variance, std**2, rtol=0, atol=1e-10)

    @pytest.mark.parametrize(("n", "few"), [(4096, True), (4097, False)])
    def test_are_4096_rows_at_most(self, n: int, few: bool) -> None:
        probes = hold_out(draw(n))
        assert (probes.share == 1.0) == few
        assert (probes.most_neighbours == len(probes.rest)) == few
        assert len(probes.X) == N_PROBES if few else len(probes.X) <= N_PROBES

    def test_depend_on_the_generator_alone(self) -> None:
        rows = draw(300)
        first, again, other = hold_out(rows, seed=1), hold_out(rows, seed=1), hold_out(rows, seed=2)
        np.testing.assert_array_equal(first.X, again.X)
        np.testing.assert_array_equal(first.mean, again.mean)
        assert not np.array_equal(first.X, other.X)


@pytest.mark.usefixtures("places")
class TestManyRows:
    def test_rows_around_some_places_stand_for_all(self) -> None:
        rows = draw(5000)
        probes = hold_out(rows)
        held, rest = positions(rows, probes.X), positions(rows, probes.rest.X)
        assert len(held) == len(np.unique(held))
        assert not set(held) & set(rest)
        assert len(rest) <= 800
        assert np.all(np.diff(probes.rest.Y[:, 0]) >= 0.0)
        np.testing.assert_array_equal(probes.rest.Y[:, 0], rows.Y[:, 0][rest])
        assert probes.share == len(rest) / (5000 - len(held))
        assert probes.most_neighbours == 50
        assert len(np.unique(probes.place)) == N_PLACES
        assert np.bincount(probes.place).max() <= SIZE

    def test_do_not_depend_on_the_order_of_rows(self) -> None:
        rows = draw(5000)
        first, other = hold_out(rows), hold_out(rows.take(np.random.default_rng(3).permutation(5000)))
        np.testing.assert_array_equal(first.X, other.X)
        np.testing.assert_allclose(first.mean, other.mean, rtol=1e-9, atol=1e-12)

    def test_each_probe_is_near_its_place_and_has_its_neighbours_but_in_gaps(self) -> None:
        rows = draw(5000)
        probes = hold_out(rows)
        scaled, held = KERNEL.scale(rows.X), positions(rows, probes.X)
        rest = set(positions(rows, probes.rest.X))
        found = []
        for place in range(N_PLACES):
            members = held[probes.place == place]
            assert np.ptp(scaled[members], axis=0).max() < 2.0
            nearest = np.argsort(np.linalg.norm(scaled - scaled[members].mean(axis=0), axis=1))[:20]
            found.append(np.mean([row in rest for row in nearest if row not in held]))
        gaps = np.array(found) < 0.3
        np.testing.assert_array_equal(np.flatnonzero(gaps), np.arange(0, N_PLACES, module.GAP_EVERY))
        assert np.median(np.array(found)[~gaps]) > 0.8

    def test_a_quarter_of_the_rows_around_every_fourth_place_is_left_out(self) -> None:
        scaled = np.random.default_rng(0).uniform(0.0, 40.0, (20_000, 2))
        held, place, around = module._around_places(scaled, 100, np.random.default_rng(1))
        centres = np.random.default_rng(1).choice(20_000, N_PLACES, replace=False)
        assert len(set(centres.tolist())) == N_PLACES
        nearest = np.argsort(np.linalg.norm(scaled[centres][:, None] - scaled, axis=2), axis=1)[:, :100]
        expected = np.setdiff1d(nearest.ravel(), nearest[[0, 4], :25].ravel())
        np.testing.assert_array_equal(around, expected)
        for number in range(N_PLACES):
            of_place = held[place == number]
            assert len(of_place) == SIZE
            assert set(of_place.tolist()) <= set(nearest[number, : 5 * SIZE].tolist())

    def test_places_are_different_rows(self) -> None:
        scaled = 100.0 * np.repeat(np.arange(2.0 * N_PLACES), 2)[:, None] + [[0.0, 0.0]]
        for seed in range(5):
            centres = np.random.default_rng(seed).choice(len(scaled), N_PLACES, replace=False)
            _, place, around = module._around_places(scaled, 2, np.random.default_rng(seed))
            assert set(np.unique(place)) <= set(range(N_PLACES))
            assert set(around.tolist()) == {2 * (row // 2) + one for row in centres.tolist() for one in (0, 1)}

    def test_predictions_are_those_of_the_rows_around(self) -> None:
        kernel = MaternKernel([0.7, 1.9], 2.0, smoothness=1.5)
        probes = hold_out(draw(3000), kernel=kernel)
        covariance = kernel(probes.rest.X) + NOISE * np.eye(len(probes.rest))
        expected = kernel(probes.X, probes.rest.X) @ np.linalg.solve(covariance, probes.rest.Y[:, 0])
        np.testing.assert_allclose(probes.mean, expected, rtol=0, atol=1e-10)

    def test_are_near_those_of_all_rows_between_gaps(self) -> None:
        rows = draw(3000)
        probes = hold_out(rows)
        kept = np.setdiff1d(np.arange(3000), positions(rows, probes.X))
        covariance = KERNEL(rows.X[kept]) + NOISE * np.eye(len(kept))
        expected = KERNEL(probes.X, rows.X[kept]) @ np.linalg.solve(covariance, rows.Y[kept, 0])
        between = probes.place % module.GAP_EVERY > 0
        np.testing.assert_allclose(probes.mean[between], expected[between], atol=0.25)
        assert np.sqrt(np.mean((probes.mean - expected)[between] ** 2)) < 0.1

    def test_weights_and_noise_go_with_their_rows(self) -> None:
        bare, rng = draw(2000), np.random.default_rng(1)
        rows = Rows(bare.X, bare.Y[:, 0], rng.uniform(0.5, 3.0, 2000), rng.uniform(0.01, 1.0, 2000))
        rest = hold_out(rows).rest
        at = positions(rows, rest.X)
        np.testing.assert_array_equal(rest.weights, rows.weights[at])
        np.testing.assert_array_equal(rest.noise_variances, rows.noise_variances[at])

    def test_of_many_equal_rows(self) -> None:
        X = np.repeat(np.random.default_rng(0).uniform(0.0, 10.0, (4, 2)), 500, axis=0)
        probes = hold_out(Rows(X, np.random.default_rng(1).normal(size=2000)))
        assert 0 < len(probes.X) <= N_PROBES
        assert np.isfinite(probes.mean).all()


@pytest.mark.parametrize(("gib", "few"), [(4.0, True), (1e-3, False)])
def test_all_rows_predict_only_where_they_fit(gib: float, few: bool) -> None:
    probes = hold_out(draw(1000), gib=gib)
    assert (probes.share == 1.0) == few


class TestErrors:
    def of(self, place: list[int]) -> Probes:
        m = len(place)
        rest = Rows(np.zeros((1, 1)), np.zeros(1))
        return Probes(np.zeros((m, 1)), np.zeros(m), np.ones(m), np.array(place), rest, 1.0, 1, 0.0)

    def test_of_single_probes_it_is_the_usual_one(self) -> None:
        values = np.random.default_rng(0).normal(size=50)
        mean, error = self.of(list(range(50))).mean_and_error(values)
        assert (mean, error) == (pytest.approx(values.mean()), pytest.approx(values.std() / np.sqrt(50)))

    def test_probes_of_a_place_count_as_one(self) -> None:
        values = np.random.default_rng(0).normal(size=10)
        mean, error = self.of(np.repeat(np.arange(10), 6).tolist()).mean_and_error(np.repeat(values, 6))
        assert (mean, error) == (pytest.approx(values.mean()), pytest.approx(values.std() / np.sqrt(10)))


@pytest.mark.slow
def test_a_map_of_all_rows_is_not_judged_by_the_few_places_that_probes_have() -> None:
    """In 30 × 30 lengthscales 512 Fourier features are far too few, and enough for eight places."""
    rng = np.random.default_rng(0)
    X, X_new = rng.uniform(0.0, 30.0, (60_000, 2)), rng.uniform(0.0, 30.0, (300, 2))
    waves, phases = rng.normal(size=(2, 64)), rng.uniform(0.0, 2.0 * np.pi, 64)
    y = np.cos(X @ waves + phases).sum(axis=1) / np.sqrt(32.0) + 0.5 * rng.normal(size=len(X))
    given = {"kernel": MaternKernel(1.0, 0.1, smoothness=0.5) + GaussianKernel(1.0), "noise_variance": 0.25}
    with pytest.warns(ToleranceWarning):
        model = GPRegressor(methods=["orf"], max_features=512, random_state=0, **given).fit(X, y)
    found, near = (
        one.predict(X_new, return_std=True, include_noise=True)
        for one in (model, NearestNeighborsGPRegressor(64, **given).fit(X, y))
    )
    true = kl_divergence(found[0], found[1] ** 2, near[0], near[1] ** 2).mean()
    assert true > 0.1
    assert model.selection_.chosen.kl > 0.5 * true


@pytest.mark.parametrize(("gib", "fits"), [(1e-4, True), (9e-5, False), (1e-7, False)])
def test_memory_for_fewer_rows_than_probes_need_is_refused(gib: float, fits: bool) -> None:
    rows = draw(400)
    model = GPRegressor(kernel=KERNEL, noise_variance=NOISE, max_memory_gib=gib, n_predict=10**6)
    if fits:
        model.fit(rows.X, rows.Y[:, 0])
        assert len(model.selection_) > 0
        return
    with pytest.raises(MemoryLimitError, match=r"choose a model take 0\.0977 MiB, above .* Raise max_memory_gib"):
        model.fit(rows.X, rows.Y[:, 0])
