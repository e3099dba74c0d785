"""Posteriors around centroids against dense algebra around each of them, and what is kept of them."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem

from lmgp import GaussianKernel, LinearKernel, MaternKernel, NystroemFeatures, TaylorFeatures
from lmgp.data import Noise, Rows
from lmgp.errors import InputError, MemoryLimitError, NoEstimateError
from lmgp.neighbours.lattice import Lattice
from lmgp.neighbours.placement import cover
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.local import PRUNE, LocalPlan, RowsAround, fitted_map, reach_of
from lmgp.posteriors.weights import WeightPosterior
from tests.dense import (
    APPROXIMATIONS,
    MAPS,
    TRUNCATED,
    UNTRUNCATED,
    dense,
    distances,
    draw,
    gaussian,
    left_out,
    noise_of,
    weighted,
)

# No powers of two: rows must survive the way into lengthscales and back.
LENGTHSCALE = np.array([1.1, 0.6])
VARIANCE, NOISE = 2.0, 0.05
KERNEL = GaussianKernel(LENGTHSCALE, VARIANCE)
OWN = np.empty((0, 2))
GIVEN = np.array([[9.0, -2.0], [13.0, -2.0], [11.0, -2.5], [500.0, 500.0]])
SOLVERS = ("primal", "dual", "auto")


def around(
    features: Any, rows: Rows, approximation: Any = "dtc", centroids: Any = None, *, kernel: Any = KERNEL,
    prune: float = 0.0, noise: float = NOISE, **options: Any,
) -> RowsAround:  # fmt: skip
    threshold = 1.0 if centroids is None else None
    centroids = cover(rows, kernel, 1.0) if centroids is None else centroids
    fitted = None if features is None else fitted_map(features, kernel, rows, centroids, np.random.default_rng(0))
    reach = reach_of(fitted, kernel, Noise(noise, approximation), rows, prune)
    plan = LocalPlan(kernel, Noise(noise, approximation), fitted, centroids, threshold, reach=reach, **options)
    return plan.posterior(rows)


def nearest_centroids(posterior: RowsAround, T: np.ndarray) -> np.ndarray:
    if not len(posterior.centroids):
        return T
    return posterior.centroids[distances(T, posterior.centroids, LENGTHSCALE).argmin(axis=1)]


def expected_of(posterior: RowsAround, rows: Rows, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predict each row by the n × n model of its nearest centroid, with the columns of the fitted map."""
    features, approximation = posterior.features, posterior.noise.approximation
    degree = getattr(features, "degree_", None)

    def missing(X: np.ndarray) -> np.ndarray:
        squares = np.sum((X / posterior.kernel.lengthscale) ** 2, axis=1)
        return np.zeros(len(X)) if degree is None else left_out(degree, squares, posterior.kernel.variance)

    means, variances = np.empty((len(T), rows.n_targets)), np.empty(len(T))
    for i, (centroid, new) in enumerate(zip(nearest_centroids(posterior, T), T[:, None], strict=True)):
        phi, psi = features.transform(rows.X - centroid), features.transform(new - centroid)
        prior = np.sum(psi**2, axis=1) + (0.0 if approximation == "sor" else missing(new - centroid))
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        noise = noise_of(rows, NOISE) + (missing(rows.X - centroid) / weights if approximation == "fitc" else 0.0)
        means[i], variances[i] = (part[0] for part in dense(phi @ phi.T, phi @ psi.T, prior, rows.Y, noise))
    return means, variances


def counted(monkeypatch: pytest.MonkeyPatch, posterior: type) -> list[Any]:
    """Count the posteriors that are made from now on."""
    made: list[Any] = []
    original = posterior.__init__  # type: ignore[misc]

    def counting(self: Any, *args: Any, **options: Any) -> None:
        made.append(self)
        original(self, *args, **options)

    monkeypatch.setattr(posterior, "__init__", counting)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("centroids", [None, GIVEN, OWN], ids=["cover", "given", "own"])
def test_predictions_are_those_of_dense_algebra(name: str, approximation: str, centroids: Any) -> None:
    X, Y, T = draw(n_new=6)
    T = np.concatenate((T, T[:2]))
    for rows in (Rows(X, Y), weighted(X, Y)) if name == "taylor" else (weighted(X, Y),):
        posterior = around(MAPS[name], rows, approximation, centroids)
        expected = expected_of(posterior, rows, T)
        means, variances = posterior.predict(T)
        np.testing.assert_allclose(means, expected[0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(variances, expected[1], rtol=1e-9, atol=1e-11)
        for of in (posterior, posterior.combined(np.eye(2)[:, 1:])):
            alone, nothing = of.predict(T, variance=False)
            assert nothing is None
            np.testing.assert_allclose(alone, means[:, -alone.shape[1] :], rtol=0, atol=1e-10)


def test_a_scikit_learn_transformer_sees_differences_to_the_centroid() -> None:
    X, Y, T = draw()
    features, kernel = Nystroem(gamma=0.5, n_components=15, random_state=0), GaussianKernel()
    posterior = around(features, Rows(X, Y), "sor", GIVEN, prune=1e-3, kernel=kernel)
    assert posterior.reach == np.inf
    near = GIVEN[distances(T, GIVEN, 1.0).argmin(axis=1)]
    psi = posterior.features.transform(T - near)
    np.testing.assert_allclose(posterior.prior_variance(T), (psi**2).sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("features", [None, MAPS["taylor"], MAPS["rff"]])
def test_of_no_rows_it_predicts_none(features: Any, solver: Any) -> None:
    X, Y, _ = draw()
    posterior = around(features, Rows(X, Y), solver=solver)
    for variance in (False, True):
        means, variances = posterior.predict(np.empty((0, 2)), variance)
        assert means.shape == (0, 2)
        assert (variances is not None) == variance


@pytest.mark.parametrize("centroids", [None, OWN], ids=["cover", "own"])
@pytest.mark.parametrize("solver", ["dual", "auto"])
def test_by_rows_it_is_the_exact_process_of_those_within_reach(centroids: Any, solver: Any) -> None:
    X, Y, T = draw(150, low=(0.0, 0.0), high=(30.0, 8.0), n_new=25)
    rows = weighted(X, Y)
    posterior = around(TaylorFeatures(28), rows, "fitc", centroids, solver=solver, prune=0.5)
    primal = around(TaylorFeatures(28), rows, "fitc", centroids, prune=0.5)
    sizes = []
    for z, centroid in zip(T[:, None], nearest_centroids(posterior, T), strict=True):
        near = rows.take(distances(X, centroid[None], LENGTHSCALE)[:, 0] <= posterior.reach)
        sizes.append(len(near))
        covariances = (gaussian(near.X, Z, LENGTHSCALE, VARIANCE) for Z in (near.X, z))
        expected = dense(*covariances, np.array([VARIANCE]), near.Y, noise_of(near, NOISE))
        if solver == "auto" and len(near) >= 28:
            expected = primal.predict(z)
        for values, of_dense in zip(posterior.predict(z), expected, strict=True):
            np.testing.assert_allclose(values, of_dense, rtol=0, atol=1e-9)
    assert min(sizes) < 28 <= max(sizes) < 150


def test_by_rows_each_is_left_out_as_in_the_exact_process_at_little_noise() -> None:
    """Of rows at one place, too, and where rows have no part in their prediction."""
    X, Y, _ = draw(100)
    X[1], rough = X[0], MaternKernel(LENGTHSCALE, VARIANCE, 0.5)
    of_all = around(None, Rows(X, Y), kernel=rough, noise=1e-9, solver="dual")
    exact = ExactPosterior(rough, Rows(X, Y), Noise(1e-9))
    for found, expected in zip(of_all.leave_one_out(), exact.leave_one_out(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    of_none = around(MAPS["taylor"], Rows(X, Y), centroids=GIVEN[3:], prune=1e-3, solver="dual")
    means, variances = of_none.leave_one_out()
    np.testing.assert_array_equal(means, 0.0)
    np.testing.assert_allclose(variances, VARIANCE)


def test_all_rows_make_the_exact_process_of_any_kernel() -> None:
    X, Y, T = draw()
    rows, kernel = weighted(X, Y), MaternKernel([2.1, 0.8], 0.7, smoothness=1.5)
    exact = ExactPosterior(kernel, rows, Noise(NOISE))
    for centroids in (None, OWN):
        posterior = around(None, rows, centroids=centroids, kernel=kernel)
        for values, expected in zip(posterior.predict(T), exact.predict(T), strict=True):
            np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(posterior.surprise(T), exact.surprise(T), rtol=1e-12)
        np.testing.assert_allclose(posterior.leave_one_out()[0], exact.leave_one_out()[0], rtol=0, atol=1e-9)
        assert not posterior.error(T).any()
        assert "too small for the rows" in posterior.cure(T)


class TestReach:
    @pytest.mark.parametrize("name", UNTRUNCATED)
    def test_of_maps_without_a_degree_is_everything(self, name: str) -> None:
        X, Y, _ = draw()
        assert around(MAPS[name], Rows(X, Y), prune=1.0).reach == np.inf
        assert around(None, Rows(X, Y), prune=1e-3, kernel=MaternKernel(2.0)).reach == np.inf

    @pytest.mark.parametrize("name", TRUNCATED)
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    @pytest.mark.parametrize("own", [True, False])
    def test_beyond_it_is_the_prior(self, name: str, approximation: str, own: bool) -> None:
        X, Y, _ = draw()
        far = X[:5] + np.array([20.0, 1e3, 1e8, 1e100, 1e200])[:, None]
        for prune in (0.0, 1e-3):
            posterior = around(MAPS[name], Rows(X, Y), approximation, OWN if own else None, prune=prune)
            means, variances = posterior.predict(far)
            np.testing.assert_allclose(means, 0.0, atol=1e-12)
            # Around a row itself the map has all of its variance; far from a centroid, none, and "sor" adds none.
            expected = 0.0 if approximation == "sor" and not own else VARIANCE
            np.testing.assert_allclose(variances, expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", TRUNCATED)
    @pytest.mark.parametrize("prune", [1e-6, PRUNE, 0.5])
    @pytest.mark.parametrize(("d", "noise"), [(1, 1.0), (2, 1e-3), (3, 1e-6)])
    def test_what_is_left_out_is_known_to_the_tolerance(self, name: str, prune: float, d: int, noise: float) -> None:
        extent, rng = np.concatenate(([60.0], np.full(d - 1, 3.0))), np.random.default_rng(d)
        X, kernel = rng.uniform(0, extent, (250, d)), GaussianKernel(1.0, 1.0)
        y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=250)
        T = np.concatenate((rng.uniform(0, extent, (30, d)), rng.uniform(-3, extent + 3, (10, d))))
        rows = weighted(X, y - y.mean())
        centroids = cover(rows, kernel, 2.0)
        pruned, whole = (
            around(TRUNCATED[name], rows, centroids=centroids, kernel=kernel, prune=p, noise=noise)
            for p in (prune, 0.0)
        )
        assert np.mean(distances(X, centroids, 1.0) > pruned.reach) > 0.3
        self.assert_within(pruned, whole, T, prune)

    @pytest.mark.parametrize("ratio", [1.0, 1e3, 1e6])
    def test_rows_crowded_just_out_of_reach(self, ratio: float) -> None:
        # What is left out is as much as the bound allows: many rows with one and the same large y, right beyond it.
        rng, kernel = np.random.default_rng(0), GaussianKernel(1.0, 1.0)
        near = 0.3 * rng.normal(size=(15, 2))
        y = np.concatenate((0.1 * rng.normal(size=15), np.full(60, 1.0), np.full(60, -1.0)))
        crowd = 7.0
        for _ in range(2):
            beyond = np.column_stack((np.repeat([crowd, 30.0], 60), np.zeros(120)))
            rows = Rows(np.concatenate((near, beyond)), y)
            pruned, whole = (
                around(TaylorFeatures(28), rows, "sor", np.zeros((1, 2)), kernel=kernel, prune=p, noise=1 / ratio)
                for p in (PRUNE, 0.0)
            )
            crowd = pruned.reach * (1 + 1e-4)
        assert crowd < 30.0
        self.assert_within(pruned, whole, np.concatenate((near, 2 * rng.normal(size=(20, 2)))), PRUNE)

    @staticmethod
    def assert_within(pruned: RowsAround, whole: RowsAround, T: np.ndarray, tolerance: float) -> None:
        (mean, variance), (expected, of_whole) = pruned.predict(T), whole.predict(T)
        assert np.max(np.abs(mean - expected)[:, 0] / of_whole**0.5) <= tolerance
        assert np.max(np.abs((variance / of_whole) ** 0.5 - 1.0)) <= tolerance

    def test_weights_are_repetitions_and_targets_may_be_zero(self) -> None:
        X, Y, _ = draw()
        counts = np.random.default_rng(4).integers(1, 4, len(Y))
        repeated = Rows(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
        rows = (Rows(X, Y, counts.astype(float)), repeated)
        reaches = [around(TaylorFeatures(28), some, centroids=GIVEN, prune=PRUNE).reach for some in rows]
        assert reaches[0] == pytest.approx(reaches[1], rel=1e-12)
        constant = around(TaylorFeatures(28), Rows(X, 0.0 * Y), prune=PRUNE)
        assert np.isfinite(constant.reach)
        assert not constant.predict(X)[0].any()


def test_with_enough_monomials_it_is_the_exact_process() -> None:
    rng, kernel = np.random.default_rng(0), GaussianKernel(1.0, VARIANCE)
    X, T = rng.uniform(0, 12, (150, 1)), rng.uniform(0, 12, (40, 1))
    rows = Rows(X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=150))
    expected = ExactPosterior(kernel, rows, Noise(0.01)).predict(T)
    values = around(TaylorFeatures(200), rows, kernel=kernel, noise=0.01).predict(T)
    np.testing.assert_allclose(values[0], expected[0], rtol=0, atol=1e-7)
    np.testing.assert_allclose(values[1] ** 0.5, expected[1] ** 0.5, rtol=0, atol=1e-7)


class TestEachRow:
    """What a posterior around centroids says of each row is what that around its centroid says."""

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_it_is_that_of_the_nearest_centroid(self, solver: Any) -> None:
        X, Y, T = draw()
        posterior = around(MAPS["taylor"], weighted(X, Y), "fitc", prune=0.5, solver=solver)
        beyond = distances(T, posterior.centroids, LENGTHSCALE).min(axis=1) - 1.0
        of_rows = posterior.surprise(T), posterior.error(T), posterior.prior_variance(T)
        for i, centroid in enumerate(nearest_centroids(posterior, T)):
            own = posterior._around(None, centroid)
            expected = own.surprise(T[[i]]), own.error(T[[i]], beyond[[i]]), own.prior_variance(T[[i]])
            for values, of_own in zip(of_rows, expected, strict=True):
                np.testing.assert_allclose(values[[i]], of_own, rtol=1e-12, atol=1e-15)

    def test_other_maps_state_no_error_and_say_what_cures(self) -> None:
        X, Y, T = draw()
        with pytest.raises(NoEstimateError, match="needs TaylorFeatures"):
            around(MAPS["rff"], Rows(X, Y)).error(T)
        assert "use more features" in around(MAPS["rff"], Rows(X, Y)).cure(T)
        assert "approximation='fitc'" in around(MAPS["taylor"], Rows(X, Y), "sor").cure(T)

    @pytest.mark.parametrize("solver", ["primal", "dual"])
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    def test_a_row_that_is_left_out_is_predicted_by_the_others(self, approximation: str, solver: Any) -> None:
        X, Y, _ = draw(40)
        rows = weighted(X, Y)
        posterior = around(MAPS["taylor"], rows, approximation, GIVEN[:3], solver=solver)
        means, variances = posterior.leave_one_out()
        for i in (0, 7, 31):
            others = RowsAround(posterior.plan, rows.take(np.arange(40) != i), GIVEN[:3])
            expected = others.predict(X[[i]])
            np.testing.assert_allclose(means[[i]], expected[0], rtol=0, atol=1e-8)
            np.testing.assert_allclose(variances[[i]], expected[1], rtol=1e-8)

    def test_a_row_out_of_reach_of_its_centroid_is_none_of_its_rows(self) -> None:
        X, Y, _ = draw(40)
        posterior = around(MAPS["taylor"], Rows(X, Y), centroids=GIVEN[3:], prune=1e-3, solver="dual")
        means, variances = posterior.leave_one_out()
        assert not means.any()
        np.testing.assert_allclose(variances, VARIANCE)


@pytest.mark.parametrize("solver", SOLVERS)
def test_combined_targets_share_the_factors(solver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, T = draw()
    posterior = around(MAPS["taylor"], Rows(X, Y), prune=0.5, solver=solver)
    means, variances = posterior.predict(T)
    combination = np.array([[1.0, 0.0, 2.0], [0.5, 1.0, -1.0]])
    made = [counted(monkeypatch, each) for each in (WeightPosterior, ExactPosterior)]
    combined = posterior.combined(combination)
    values = combined.predict(T)
    np.testing.assert_allclose(values[0], means @ combination, rtol=0, atol=1e-11)
    np.testing.assert_array_equal(values[1], variances)
    last = combined.combined(np.array([[0.0], [1.0], [1.0]]))
    np.testing.assert_allclose(last.predict(T, False)[0][:, 0], means @ combination[:, 1:].sum(axis=1), atol=1e-11)
    np.testing.assert_allclose(last.rows.Y[:, 0], Y @ combination[:, 1:].sum(axis=1), atol=1e-12)
    assert not any(made)


# Map, options, what is solved, and the bytes of three or so of them.
SOLVED: dict[str, Any] = {
    "primal": (MAPS["taylor"], {}, WeightPosterior, 25_000),
    "dual": (MAPS["taylor"], {"solver": "dual", "prune": 0.5}, ExactPosterior, 16 * 150**2),
    "dual, all rows": (None, {}, ExactPosterior, 16 * 201**2),
}


@pytest.mark.parametrize("case", SOLVED)
class TestWhatIsKept:
    @staticmethod
    def wide() -> tuple[Rows, np.ndarray]:
        X, Y, T = draw(200, high=(38.0, -1.0), n_new=60)
        return Rows(X, Y), T

    def n_expected(self, case: str, posterior: RowsAround, T: np.ndarray) -> int:
        """One for each centroid that is the nearest one of some row; only one where all rows make it."""
        return 1 if case == "dual, all rows" else len(np.unique(nearest_centroids(posterior, T), axis=0))

    def test_eight_threads_solve_each_posterior_once(self, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
        features, options, kind, _ = SOLVED[case]
        rows, T = self.wide()
        expected = around(features, rows, **options).predict(T)
        posterior, made, barrier = around(features, rows, **options), counted(monkeypatch, kind), Barrier(8)

        def predict(_: int) -> Any:
            barrier.wait()
            return posterior.predict(T)

        with ThreadPoolExecutor(8) as pool:
            for means, variances in pool.map(predict, range(8)):
                np.testing.assert_array_equal(means, expected[0])
                np.testing.assert_array_equal(variances, expected[1])
        assert len(made) == self.n_expected(case, posterior, T)
        assert posterior._solved.n_bytes >= sum(each.n_bytes for each in made)

    def test_beyond_a_limit_they_are_solved_again(self, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
        features, options, kind, n_bytes = SOLVED[case]
        rows, T = self.wide()
        expected = around(features, rows, **options).predict(T)
        posterior = around(features, rows, **options, max_memory_gib=n_bytes / 2**30)
        n_solved, made = self.n_expected(case, posterior, T), counted(monkeypatch, kind)
        np.testing.assert_array_equal(posterior.predict(T)[0], expected[0])
        assert len(made) == n_solved
        made.clear()
        np.testing.assert_array_equal(posterior.predict(T)[1], expected[1])
        assert len(made) == 0 if case == "dual, all rows" else 0 < len(made) < n_solved

    def test_copies_and_pickles_start_with_none(self, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
        features, options, kind, _ = SOLVED[case]
        rows, T = self.wide()
        posterior = around(features, rows, **options)
        state = pickle.dumps(posterior)
        means, _ = posterior.predict(T)
        assert pickle.dumps(posterior) == state
        made = counted(monkeypatch, kind)
        for twin in (copy.deepcopy(posterior), pickle.loads(state)):
            made.clear()
            np.testing.assert_array_equal(twin.predict(T)[0], means)
            assert made


def test_what_cannot_be_is_refused() -> None:
    X, Y, _ = draw()
    with pytest.raises(InputError, match=r"(?s)around centroids needs a lengthscale.*LinearKernel.*MaternKernel"):
        LocalPlan(LinearKernel(), Noise(NOISE), None, GIVEN)
    for solver in ("primal", "auto"):
        with pytest.raises(InputError, match="map around centroids needs one prior variance for all rows"):
            around(NystroemFeatures(5), Rows(X, Y), kernel=KERNEL + LinearKernel(), solver=solver)
    posterior = around(None, Rows(X, Y), max_memory_gib=1e-5)
    for _ in range(2):
        with pytest.raises(MemoryLimitError, match="from 80 rows"):
            posterior.predict(GIVEN)


@pytest.mark.parametrize("kernel", [KERNEL + LinearKernel(), GaussianKernel(1.1).on(0)], ids=["linear", "one column"])
def test_rows_that_come_far_away_are_part_of_the_process_of_any_kernel(kernel: Any) -> None:
    X, Y, T = draw()
    first = around(NystroemFeatures(5), Rows(X[:-1], Y[:-1]), kernel=kernel, solver="dual")
    X[-1] += 20.0
    found, exact = first.plan(Rows(X, Y), first), ExactPosterior(kernel, Rows(X, Y), Noise(NOISE))
    assert len(found.centroids) == len(first.centroids) + 1
    for one, other in zip(found.predict(T), exact.predict(T), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_the_posterior_around_a_centroid_is_that_of_the_rows_within_reach() -> None:
    X, Y, _ = draw(150, high=(40.0, -1.0))
    posterior = around(MAPS["taylor"], Rows(X, Y), "fitc", GIVEN, prune=1e-3)
    own = posterior._around(None, GIVEN[0])
    assert own.targets.n == np.sum(distances(X, GIVEN[:1], LENGTHSCALE) <= posterior.reach) < 150
    near = GIVEN[:1] + np.array([[0.2, 0.1], [-0.3, 0.4]])
    np.testing.assert_array_equal(own.predict(near)[0], posterior.predict(near)[0])


class TestLaterRows:
    X, Y, T = draw(20_000, high=(80.0, 40.0), n_new=20)

    def first(self, n: int) -> tuple[LocalPlan, RowsAround]:
        posterior = around(TaylorFeatures(28), Rows(self.X[:n], self.Y[:n]), prune=1e-3)
        return posterior.plan, posterior

    def test_they_are_found_beside_the_first_ones(self) -> None:
        plan, posterior = self.first(18_500)
        rows = Rows(self.X, self.Y)
        again = plan(rows)
        for n in (19_000, 20_000):
            posterior = plan(rows.take(slice(0, n)), posterior)
        assert posterior._n_first == 18_500
        assert again._n_first == 20_000
        np.testing.assert_array_equal(posterior.centroids, again.centroids)
        for values, expected in zip(posterior.predict(self.T), again.predict(self.T), strict=True):
            np.testing.assert_array_equal(values, expected)

    def test_rows_beyond_the_threshold_get_centroids_of_a_lattice(self) -> None:
        plan, posterior = self.first(1000)
        far = np.array([[200.0, 200.0], [200.1, 200.0], [-50.0, 3.0]])
        rows = Rows(np.concatenate((self.X[:1000], far)), np.zeros((1003, 1)))
        grown, n = plan(rows, posterior), len(plan.centroids)
        np.testing.assert_array_equal(grown.centroids[:n], plan.centroids)
        lattice = Lattice(KERNEL.metric(2), 1.0)
        np.testing.assert_allclose(grown.centroids[n:], lattice.centres(np.unique(lattice.cells(far), axis=0)))
        assert distances(rows.X, grown.centroids, LENGTHSCALE).min(axis=1).max() < 1.0
        shuffled = plan(rows.take(np.random.default_rng(0).permutation(1003)), posterior)
        np.testing.assert_array_equal(shuffled.centroids, grown.centroids)
        assert len(plan(rows.take(slice(0, 1000)), grown).centroids) == n
