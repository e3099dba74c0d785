"""The estimate of the divergence from the exact GP: against smaller maps fitted anew, and against the true one."""

from math import comb

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import tests.conftest
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    TaylorFeatures,
)
from lmgp.errors import NoEstimateError
from lmgp.metrics import kl_divergence
from tests.conftest import APPROXIMATIONS, NOISE

MISSING = APPROXIMATIONS


def draw(d: int = 2, n: int = 200, extent: float = 6.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, high = [3.0] * d, [3.0 + extent] * d
    return tests.conftest.draw(n, low, high, n_new=60, outside=False, noise=NOISE**0.5)


def kernel(lengthscale: float = 1.0) -> GaussianKernel:
    return GaussianKernel(lengthscale, 1.3)


def world(features: object, approximation: str = "dtc", **parameters: object) -> FeaturizedGPRegressor:
    defaults = {"kernel": kernel(), "noise_variance": NOISE, "random_state": 0}
    return FeaturizedGPRegressor(features, approximation=approximation, **{**defaults, **parameters})


def around(features: object, **parameters: object) -> LocalizedGPRegressor:
    defaults = {"kernel": kernel(), "noise_variance": NOISE, "random_state": 0}
    return LocalizedGPRegressor(features, **{**defaults, **parameters})


def true_divergence(model, X: np.ndarray, y: np.ndarray, T: np.ndarray) -> np.ndarray:
    mean, std = model.predict(T, return_std=True, include_noise=True)
    exact = ExactGPRegressor(model.kernel_, model.noise_variance_).fit(X, y)
    expected, expected_std = exact.predict(T, return_std=True, include_noise=True)
    return kl_divergence(mean, std**2, expected, expected_std**2)


class TestSmallerMaps:
    """Prediction by the leading columns of a factorised map."""

    @pytest.mark.parametrize(("d", "degree", "less"), [(1, 12, 7), (2, 6, 4), (3, 4, 3), (2, 5, 0)])
    def test_the_leading_block_of_the_factor_is_the_smaller_map(self, d: int, degree: int, less: int) -> None:
        X, y, T = draw(d)
        centre = X.mean(axis=0)
        large, small = (world(TaylorFeatures(size)).fit(X, y) for size in (comb(d + degree, d), comb(d + less, d)))
        posterior = large._posterior()
        n_small = small.features_.n_features_out_
        columns = large.features_.evaluate(torch.from_numpy(T - centre))
        whitened = posterior.whiten(columns)[:n_small]
        mean, std = small.predict(T, return_std=True)
        np.testing.assert_allclose(y.mean() + posterior.coefficients[:n_small, 0] @ whitened, mean, rtol=0, atol=1e-8)
        left_out = 1.3 - columns[:, :n_small].square().sum(dim=1)
        np.testing.assert_allclose(whitened.square().sum(dim=0) + left_out, std**2, rtol=0, atol=1e-8)

    @pytest.mark.parametrize("approximation", ["dtc", "sor"])
    @pytest.mark.parametrize(
        ("d", "index_set", "size"), [(1, "total_degree", 24), (1, "total_degree", 7), (2, "energy", 40)]
    )
    def test_the_estimate_is_that_of_maps_fitted_anew(
        self, d: int, index_set: str, size: int, approximation: str
    ) -> None:
        """From one half to 15/16 of the columns; and what they leave out, which the data explain among the rows."""
        X, y, T = draw(d)
        T = np.concatenate((T[:20], X.max(axis=0) + np.linspace(0.1, 3.0, 6)[:, None]))
        maps = {n: TaylorFeatures(n, index_set=index_set) for n in range(1, size + 1)}
        model = world(maps[size], approximation).fit(X, y)
        error = model.predict(T, return_error=True)[1]
        assert model.features_.n_features_out_ == size
        mean, std = world(maps[size]).fit(X, y).predict(T, return_std=True, include_noise=True)
        parts = []
        for n in sorted({size // 2 + (size - size // 2) * i // 8 for i in range(8)}):
            smaller = world(maps[n]).fit(X, y).predict(T, return_std=True, include_noise=True)
            parts.append(kl_divergence(smaller[0], smaller[1] ** 2, mean, std**2))
        left_out = 1.3 - np.sum(model.features_.transform(T - X.mean(axis=0)) ** 2, axis=1)
        outside = np.linalg.norm(np.maximum(T - X.max(axis=0), 0.0) + np.minimum(T - X.min(axis=0), 0.0), axis=1)
        explained = np.exp(-(outside**2))
        predicted = std**2 - left_out if approximation == "sor" else std**2
        rest = kl_divergence(
            np.sqrt(np.maximum(explained * left_out, 0)), predicted, 0.0, std**2 - explained * left_out
        )
        np.testing.assert_allclose(error, np.mean(parts, axis=0) + rest, rtol=1e-5, atol=1e-8)


class TestValues:
    @pytest.mark.slow
    @pytest.mark.parametrize("approximation", MISSING)
    @pytest.mark.parametrize("index_set", ["total_degree", "energy"])
    @pytest.mark.parametrize("size", [1, 2, 3, 20])
    def test_finite_and_not_negative(self, size: int, index_set: str, approximation: str) -> None:
        X, y, T = draw(n=60, extent=3.0)
        T = np.concatenate((T[:8], X[:3], T[:1] + 1e3, T[:1] - 1e150))
        features = TaylorFeatures(size, index_set=index_set)
        for model in (
            world(features, approximation),
            around(features, approximation=approximation),
            around(features, approximation=approximation, centroids=X[:2]),
            around(features, approximation=approximation, centroids="test_rows"),
        ):
            error = model.fit(X, y).predict(T, return_error=True)[1]
            assert error.shape == (len(T),)
            assert np.all(np.isfinite(error))
            assert np.all(error >= 0.0)

    @pytest.mark.parametrize("approximation", ["dtc", "fitc"])
    def test_far_away_the_prediction_is_the_prior_and_right(self, approximation: str) -> None:
        X, y, T = draw()
        for model in (world(TaylorFeatures(36), approximation), around(TaylorFeatures(36), approximation="dtc")):
            model.fit(X, y)
            far = T[:5] + 40.0
            assert np.all(true_divergence(model, X, y, far) < 1e-10)
            assert np.all(model.predict(far, return_error=True)[1] < 1e-10)

    @pytest.mark.parametrize(
        "model", [world(TaylorFeatures(36), "sor"), around(TaylorFeatures(36), approximation="sor")]
    )
    def test_far_away_without_the_missing_variance_it_is_what_that_would_change(self, model) -> None:
        X, y, T = draw()
        error = model.fit(X, y).predict(T[:5] + 40.0, return_error=True)[1]
        # From none to σ², the features being zero.
        np.testing.assert_allclose(error, kl_divergence(0.0, NOISE, 0.0, 1.3 + NOISE)[0], rtol=1e-6)
        np.testing.assert_allclose(true_divergence(model, X, y, T[:5] + 40.0), error, rtol=1e-6)

    def test_at_the_edge_of_a_map_that_is_too_small_it_is_not_blind(self) -> None:
        """The change over the last columns is, among data which the map does not reach."""
        X, y, _ = draw(1, extent=40.0)
        at_the_edge = np.array([[3.5], [42.5]])
        model = world(TaylorFeatures(12)).fit(X, y)
        assert np.all(true_divergence(model, X, y, at_the_edge) > 0.5)
        assert np.all(model.predict(at_the_edge, return_error=True)[1] > 0.5)

    def test_more_columns_have_less_of_it(self) -> None:
        X, y, T = draw()
        means = [
            around(TaylorFeatures(size), threshold=1.5).fit(X, y).predict(T, return_error=True)[1].mean()
            for size in (6, 28, 66, 150)
        ]
        assert means == sorted(means, reverse=True)
        assert means[-1] < 1e-2 * means[0]


class TestAgainstTheTruth:
    @pytest.mark.parametrize(
        ("d", "extent", "lengthscale", "size", "threshold"),
        [(2, 8.0, 1.0, 28, 1.5), (3, 4.0, 1.5, 56, 1.0), (2, 8.0, 2.0, 45, 4.0)],
    )
    def test_the_mean_is_of_the_order_of_the_true_one(
        self, d: int, extent: float, lengthscale: float, size: int, threshold: float
    ) -> None:
        X, y, T = draw(d, 400, extent)
        model = around(TaylorFeatures(size), threshold=threshold, kernel=kernel(lengthscale), approximation="fitc").fit(
            X, y
        )
        estimate = model.predict(T, return_error=True)[1].mean()
        truth = true_divergence(model, X, y, T).mean()
        assert truth > 1e-8
        assert 0.1 * truth < estimate < 10.0 * truth

    @pytest.mark.parametrize("approximation", ["dtc", "fitc"])
    def test_orders_configurations(self, approximation: str) -> None:
        X, y, T = draw(2, 250, 6.0)
        estimates, truths = [], []
        for size in (6, 21, 55):
            for threshold in (0.8, 1.6, 3.2):
                model = around(TaylorFeatures(size), threshold=threshold, approximation=approximation).fit(X, y)
                estimates.append(model.predict(T, return_error=True)[1].mean())
                truths.append(true_divergence(model, X, y, T).mean())
        assert max(truths) > 100 * min(truths)
        assert spearmanr(estimates, truths).statistic > 0.7

    def test_finds_the_bad_rows_of_one_model(self) -> None:
        """Those far from their centroid."""
        X, y, T = draw(2, 400, 8.0)
        model = around(TaylorFeatures(28), threshold=2.5, approximation="fitc").fit(X, y)
        estimate, truth = model.predict(T, return_error=True)[1], true_divergence(model, X, y, T)
        assert spearmanr(estimate, truth).statistic > 0.4


class TestWhatIsReturned:
    @pytest.mark.parametrize(
        "model", [world(TaylorFeatures(15)), around(TaylorFeatures(15)), ExactGPRegressor(kernel(), NOISE)]
    )
    def test_mean_then_std_then_error(self, model) -> None:
        X, y, T = draw()
        model.fit(X, y)
        mean, std = model.predict(T, return_std=True)
        pair, triple = model.predict(T, return_error=True), model.predict(T, return_std=True, return_error=True)
        assert (type(pair), len(pair), type(triple), len(triple)) == (tuple, 2, tuple, 3)
        np.testing.assert_allclose(pair[0], mean, rtol=1e-10)
        np.testing.assert_array_equal(triple[:2], (mean, std))
        np.testing.assert_array_equal(triple[2], pair[1])
        noisy = model.predict(T, return_std=True, return_error=True, include_noise=True)
        np.testing.assert_array_equal(noisy[2], pair[1])
        np.testing.assert_allclose(noisy[1] ** 2, std**2 + NOISE, rtol=1e-10)
        assert isinstance(model.predict(T), np.ndarray)

    @pytest.mark.parametrize(
        "model",
        [
            world(TaylorFeatures(21)),
            around(TaylorFeatures(21)),
            around(TaylorFeatures(21), solver="auto"),
            around(TaylorFeatures(21), centroids="test_rows"),
        ],
    )
    def test_each_rows_own_whatever_the_others_are(self, model) -> None:
        X, y, T = draw(n=100, extent=4.0)
        model.fit(X, y)
        T = np.concatenate((T[:8], T[:2], T[:1] + 30.0))
        error = model.predict(T, return_error=True)[1]
        assert error.max() > 0.0
        alone = [model.predict(row[None, :], return_error=True)[1][0] for row in T]
        np.testing.assert_allclose(alone, error, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(model.predict(T[::-1], return_error=True)[1][::-1], error, rtol=1e-6, atol=1e-12)

    def test_nothing_for_exact_predictions(self) -> None:
        X, y, T = draw()
        for model in (ExactGPRegressor(kernel(), NOISE), around(TaylorFeatures(15), solver="dual")):
            np.testing.assert_array_equal(model.fit(X, y).predict(T, return_error=True)[1], np.zeros(len(T)))

    def test_nothing_where_the_smaller_form_is_that_of_the_rows(self) -> None:
        X, y, T = draw(n=60, extent=12.0)
        model = around(TaylorFeatures(21), solver="auto").fit(X, y)
        error = model.predict(T, return_error=True)[1]
        assert 0 < np.count_nonzero(error == 0.0) < len(T)

    @pytest.mark.parametrize(
        "features", [OrthogonalFourierFeatures(20), OptimizedMaclaurinFeatures(20), NystroemFeatures(20)]
    )
    @pytest.mark.parametrize("make", [world, around])
    def test_maps_that_are_no_series_are_an_error(self, features: object, make) -> None:
        X, y, T = draw()
        model = make(features).fit(X, y)
        with pytest.raises(
            NoEstimateError, match=rf"(?s)needs TaylorFeatures.*{type(features).__name__}.*ExactGPRegressor"
        ):
            model.predict(T, return_error=True)
        assert model.predict(T).shape == (60,)

    def test_the_nearest_rows_are_an_error(self) -> None:
        X, y, T = draw()
        model = NearestNeighborsGPRegressor(9, kernel=GaussianKernel(1.0), noise_variance=NOISE).fit(X, y)
        with pytest.raises(NoEstimateError, match="beyond the nearest 9 would change"):
            model.predict(T, return_error=True)
