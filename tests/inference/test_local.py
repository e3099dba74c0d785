"""Posteriors around centroids against their n × n formulation around each centroid, and what is kept of them."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import numpy as np
import pytest
import torch
from sklearn.kernel_approximation import Nystroem

import tests.conftest
from lmgp import GaussianKernel, LinearKernel, MaternKernel, TaylorFeatures
from lmgp.errors import InputError, MemoryLimitError
from lmgp.inference.function_space import RowPosterior
from lmgp.inference.local import LocalPosterior
from lmgp.inference.weight_space import WeightPosterior
from lmgp.noise import Noise
from tests.conftest import (
    APPROXIMATIONS,
    MAPS,
    NOISE,
    TRUNCATED,
    UNTRUNCATED,
    centred,
    counts_and_noises,
    dense_gp,
    distances,
    draw,
    left_out,
)

# No powers of two: rows must survive the way into lengthscales and back.
LENGTHSCALE = np.array([1.1, 0.6])
VARIANCE = 2.0
KERNEL = GaussianKernel(LENGTHSCALE, VARIANCE)
around = partial(tests.conftest.around, kernel=KERNEL)

GIVEN = np.array([[9.0, -2.0], [13.0, -2.0], [11.0, -2.5], [500.0, 500.0]])


def expected_of(posterior: LocalPosterior, X, y, T, noise, centroids) -> tuple[np.ndarray, np.ndarray]:
    """Predict each row by the n × n model of its nearest centroid, with the columns of the fitted map."""
    features, approximation = posterior.features, posterior.noise.approximation
    degree = getattr(features, "degree_", None)

    def missing(rows: np.ndarray) -> np.ndarray:
        if degree is None:
            return np.zeros(len(rows))
        kernel = posterior.kernel
        return left_out(degree, np.sum((rows / kernel.lengthscale) ** 2, axis=1), kernel.variance)

    lengthscale = posterior.kernel.lengthscale
    nearest = np.argmin(distances(T, centroids, lengthscale), axis=1)
    mean, variance = np.empty(len(T)), np.empty(len(T))
    for index in np.unique(nearest):
        rows, new = X - centroids[index], T[nearest == index] - centroids[index]
        phi, psi = features.transform(rows), features.transform(new)
        prior = np.sum(psi**2, axis=1) + (0.0 if approximation == "sor" else missing(new))
        noisy = noise + (missing(rows) if approximation == "fitc" else 0.0)
        mean[nearest == index], variance[nearest == index], _ = dense_gp(phi @ phi.T, phi @ psi.T, prior, y, noisy)
    return mean - y.mean(), variance


def assert_predicts(posterior: LocalPosterior, T, expected, tolerance: float = 1e-9) -> None:
    mean, variance = posterior.predict(T)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=tolerance)
    np.testing.assert_allclose(variance, expected[1], rtol=tolerance, atol=1e-2 * tolerance)
    alone, nothing = posterior.predict(T, variance=False)
    assert nothing is None
    np.testing.assert_allclose(alone, mean, rtol=0, atol=1e-10)


class TestAgainstTheDenseFormulation:
    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    def test_mean_and_variance(self, name: str, approximation: str) -> None:
        X, y, T = draw()
        posterior = around(MAPS[name], centred(X, y), approximation)
        assert len(posterior.centroids) > 5
        assert_predicts(posterior, T, expected_of(posterior, X, y, T, np.full(len(y), NOISE), posterior.centroids))

    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    def test_weights_and_noise_variances(self, name: str, approximation: str) -> None:
        X, y, T = draw()
        counts, noise = counts_and_noises(len(y))
        present = counts > 0
        rows = centred(X[present], y[present], counts[present].astype(float), noise[present])
        posterior = around(MAPS[name], rows, approximation)
        repeated = np.repeat(X, counts, axis=0), np.repeat(y, counts), T, np.repeat(noise, counts)
        assert_predicts(posterior, T, expected_of(posterior, *repeated, posterior.centroids))

    @pytest.mark.parametrize("name", MAPS)
    def test_given_centroids(self, name: str) -> None:
        X, y, T = draw()
        posterior = around(MAPS[name], centred(X, y), centroids=GIVEN)
        assert_predicts(posterior, T, expected_of(posterior, X, y, T, np.full(len(y), NOISE), GIVEN))

    @pytest.mark.parametrize("name", MAPS)
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    def test_every_new_row_its_own_centroid(self, name: str, approximation: str) -> None:
        X, y, T = draw()
        T = np.concatenate((T, T[:4]))
        posterior = around(MAPS[name], centred(X, y), approximation, np.empty((0, 2)))
        assert_predicts(posterior, T, expected_of(posterior, X, y, T, np.full(len(y), NOISE), T))

    def test_a_scikit_learn_transformer_sees_differences_to_the_centroid(self) -> None:
        X, y, T = draw()
        posterior = around(
            Nystroem(gamma=0.5, n_components=15, random_state=0),
            centred(X, y),
            "sor",
            prune=1e-3,
            kernel=GaussianKernel(),
        )
        assert posterior.reach == np.inf
        expected = expected_of(posterior, X, y, T, np.full(len(y), NOISE), posterior.centroids)
        assert_predicts(posterior, T, expected, tolerance=1e-8)

    def test_duplicate_centroids_and_rows(self) -> None:
        X, y, T = draw()
        once, twice = (around(MAPS["taylor"], centred(X, y), centroids=GIVEN[index]) for index in ([0, 1], [0, 1, 0]))
        np.testing.assert_allclose(twice.predict(T), once.predict(T), rtol=0, atol=1e-12)
        double = np.concatenate((X, X)), np.concatenate((y, y))
        posterior = around(MAPS["taylor"], centred(*double))
        assert_predicts(posterior, T, expected_of(posterior, *double, T, np.full(160, NOISE), posterior.centroids))

    @pytest.mark.parametrize("features", [None, MAPS["taylor"], MAPS["rff"]])
    def test_no_rows_to_predict(self, features) -> None:
        posterior = around(features, centred(*draw()[:2]))
        for variance in (False, True):
            mean, found = posterior.predict(np.empty((0, 2)), variance)
            assert mean.shape == (0,)
            assert (found.shape == (0,)) if variance else (found is None)


class TestReach:
    @pytest.mark.parametrize("name", UNTRUNCATED)
    def test_of_maps_without_a_degree_is_everything(self, name: str) -> None:
        assert around(MAPS[name], centred(*draw()[:2]), prune=1.0).reach == np.inf

    @pytest.mark.parametrize("prune", [1e-3, 0.0])
    def test_of_no_map_is_everything(self, prune: float) -> None:
        assert around(None, centred(*draw()[:2]), prune=prune, kernel=MaternKernel(2.0)).reach == np.inf

    @pytest.mark.parametrize("name", TRUNCATED)
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    @pytest.mark.parametrize("prune", [0.0, 1e-3])
    @pytest.mark.parametrize("placed", ["test_rows", "farthest_point"])
    def test_beyond_it_is_the_prior(self, name: str, approximation: str, prune: float, placed: str) -> None:
        X, y, _ = draw()
        own = placed == "test_rows"
        posterior = around(MAPS[name], centred(X, y), approximation, np.empty((0, 2)) if own else None, prune=prune)
        far = X[:4] + np.array([20.0, 1e3, 1e8, 1e100])[:, None]
        mean, variance = posterior.predict(far)
        np.testing.assert_allclose(mean, 0.0, atol=1e-12)
        # Around a row itself the map has all of its variance; far from a centroid, none, and "sor" adds none.
        expected = 0.0 if approximation == "sor" and not own else VARIANCE
        np.testing.assert_allclose(variance, expected, rtol=1e-12, atol=1e-12)

    def test_beyond_all_measure(self) -> None:
        # Squared distances overflow; the exact process still answers with the prior.
        X, y, _ = draw()
        far = np.array([[1e200, 0.0], [0.0, -1e200]])
        for centroids in (None, np.empty((0, 2)), GIVEN):
            mean, variance = around(MAPS["taylor"], centred(X, y), centroids=centroids, prune=1e-3).predict(far)
            np.testing.assert_array_equal(mean, 0.0)
            np.testing.assert_allclose(variance, VARIANCE, rtol=1e-12)

    @pytest.mark.parametrize("prune", [0.0, 1e-3])
    def test_order_of_the_training_rows_does_not_matter(self, prune: float) -> None:
        X, y, T = draw()
        order = np.random.default_rng(1).permutation(len(y))
        ours, theirs = (
            around(MAPS["taylor"], centred(X[index], y[index]), prune=prune) for index in (slice(None), order)
        )
        np.testing.assert_allclose(theirs.predict(T), ours.predict(T), rtol=1e-10, atol=1e-11)


class TestEnoughMonomials:
    """Of one column of rows, 200 monomials are all that counts."""

    rng = np.random.default_rng(0)
    X = rng.uniform(0, 12, (150, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=150)
    T = rng.uniform(0, 12, (40, 1))
    kernel = GaussianKernel(1.0, VARIANCE)

    def predicted(self, prune: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        rows = centred(self.X, self.y)
        posterior = around(TaylorFeatures(200), rows, kernel=self.kernel, prune=prune, noise=Noise(0.01))
        return *posterior.predict(self.T), *RowPosterior(self.kernel, rows, Noise(0.01)).predict(self.T)

    def test_make_the_exact_process_at_every_centroid(self) -> None:
        mean, variance, exact_mean, exact_variance = self.predicted(0.0)
        np.testing.assert_allclose(mean, exact_mean, rtol=0, atol=1e-7)
        np.testing.assert_allclose(variance**0.5, exact_variance**0.5, rtol=0, atol=1e-7)

    def test_what_is_pruned_is_known_to_the_tolerance(self) -> None:
        mean, variance, exact_mean, exact_variance = self.predicted(1e-3)
        assert np.max(np.abs(mean - exact_mean) / exact_variance**0.5) < 1e-3
        assert np.max(np.abs((variance / exact_variance) ** 0.5 - 1)) < 1e-3


def counted(monkeypatch: pytest.MonkeyPatch, posterior: type) -> list[object]:
    """Count the posteriors that are made from now on."""
    made: list[object] = []
    original = posterior.__init__

    def counting(self, *args, **kwargs) -> None:
        made.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(posterior, "__init__", counting)
    return made


# Map, parameters, what is solved, and the bytes of three or so of them.
SOLVED = {
    "primal": (MAPS["taylor"], {}, WeightPosterior, 25_000),
    "dual": (MAPS["taylor"], {"solver": "dual", "prune": 0.5}, RowPosterior, 16 * 150**2),
    "dual, all rows": (None, {}, RowPosterior, 16 * 201**2),
}


class TestWhatIsKept:
    @staticmethod
    def wide() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return draw(200, high=(38.0, -1.0), n_new=60)

    def n_expected(self, case: str, posterior: LocalPosterior, T: np.ndarray) -> int:
        """One for each centroid that is the nearest one of some row; only one where all rows make it."""
        nearest = np.argmin(distances(T, posterior.centroids, LENGTHSCALE), axis=1)
        return 1 if case == "dual, all rows" else len(np.unique(nearest))

    @pytest.mark.parametrize("case", SOLVED)
    def test_eight_threads_solve_each_posterior_once(self, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
        features, parameters, made_of, _ = SOLVED[case]
        X, y, T = self.wide()
        expected = around(features, centred(X, y), **parameters).predict(T)
        made = counted(monkeypatch, made_of)
        posterior = around(features, centred(X, y), **parameters)
        barrier = Barrier(8)

        def predict(_: int) -> tuple[np.ndarray, np.ndarray]:
            barrier.wait()
            return posterior.predict(T)

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(predict, range(8)))
        for each in found:
            np.testing.assert_array_equal(each, expected)
        assert len(made) == self.n_expected(case, posterior, T)

    @pytest.mark.parametrize("case", SOLVED)
    def test_a_second_prediction_solves_nothing(self, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
        features, parameters, made_of, _ = SOLVED[case]
        X, y, T = self.wide()
        posterior = around(features, centred(X, y), **parameters)
        first = posterior.predict(T)
        made = counted(monkeypatch, made_of)
        np.testing.assert_array_equal(posterior.predict(T), first)
        assert not made

    @pytest.mark.parametrize("case", SOLVED)
    def test_beyond_a_limit_they_are_solved_again(self, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
        features, parameters, made_of, n_bytes = SOLVED[case]
        X, y, T = self.wide()
        rows = centred(X, y)
        expected = around(features, rows, **parameters).predict(T)
        posterior = around(features, rows, **parameters, max_memory_gib=n_bytes / 2**30)
        n_solved = self.n_expected(case, posterior, T)
        made = counted(monkeypatch, made_of)
        np.testing.assert_array_equal(posterior.predict(T), expected)
        assert len(made) == n_solved
        made.clear()
        np.testing.assert_array_equal(posterior.predict(T), expected)
        assert len(made) == 0 if case == "dual, all rows" else 0 < len(made) < n_solved

    def test_copies_and_pickles_start_with_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T = draw()
        posterior = around(MAPS["taylor"], centred(X, y))
        state = pickle.dumps(posterior)
        expected = posterior.predict(T)
        assert pickle.dumps(posterior) == state
        made = counted(monkeypatch, WeightPosterior)
        for twin in (copy.deepcopy(posterior), pickle.loads(state)):
            made.clear()
            np.testing.assert_array_equal(twin.predict(T), expected)
            assert made


class TestRefused:
    def test_a_kernel_without_a_metric(self) -> None:
        with pytest.raises(InputError, match=r"(?s)around centroids needs a lengthscale.*LinearKernel.*MaternKernel"):
            LocalPosterior(LinearKernel(), centred(*draw()[:2]), Noise(NOISE), GIVEN)

    def test_rows_that_do_not_fit_into_memory(self) -> None:
        posterior = around(None, centred(*draw()[:2]), max_memory_gib=1e-5)
        with pytest.raises(MemoryLimitError, match="from 80 rows"):
            posterior.predict(GIVEN)

    def test_statistics_of_no_map(self) -> None:
        with pytest.raises(InputError, match="no statistics of features"):
            around(None, centred(*draw()[:2])).statistics(GIVEN[0])


def test_statistics_around_a_centroid_make_its_posterior() -> None:
    X, y, _ = draw()
    posterior = around(MAPS["taylor"], centred(X, y), "fitc", GIVEN, prune=1e-3)
    new = np.array([[9.2, -2.1], [8.8, -1.5]])
    weights = WeightPosterior(posterior.statistics(GIVEN[0]), center=0.0)
    mean, _ = weights.predict(posterior.features.evaluate(torch.from_numpy(new - GIVEN[0])))
    np.testing.assert_allclose(mean.numpy(), posterior.predict(new)[0], rtol=1e-12)


def test_missing_variance_is_that_of_the_nearest_centroids_map() -> None:
    X, y, T = draw()
    posterior = around(MAPS["taylor"], centred(X, y), "fitc")
    offset = T - posterior.centroids[np.argmin(distances(T, posterior.centroids, LENGTHSCALE), axis=1)]
    expected = left_out(posterior.features.degree_, np.sum((offset / LENGTHSCALE) ** 2, axis=1), VARIANCE)
    np.testing.assert_allclose(posterior.missing(T), expected, rtol=1e-9, atol=1e-15)
    assert not around(MAPS["taylor"], centred(X, y), "sor").missing(T).any()
    assert not around(MAPS["taylor"], centred(X, y), "fitc", solver="dual").missing(T).any()
