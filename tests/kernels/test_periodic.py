"""Rows that are near by their phase, in predictions from the nearest rows and in Vecchia likelihoods."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    GPRegressor,
    LinearKernel,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    PeriodicKernel,
    RandomFourierFeatures,
    ResidualGPRegressor,
)
from lmgp.data import Rows
from lmgp.errors import ColumnWarning, InputError
from lmgp.kernels.base import Kernel
from lmgp.posteriors.vecchia import VecchiaLikelihood
from tests.dense import log_likelihood_and_gradient

NOISE = 0.09
KERNELS: dict[str, Kernel] = {
    "locally_periodic": MaternKernel(20.0, 1.3) * PeriodicKernel(2.5, 0.9, variance_bounds="fixed"),
    "trend_and_season": GaussianKernel(15.0, 0.5)
    + LinearKernel(variance=0.01, center=5.0)
    + 0.5 * (MaternKernel(9.0) * PeriodicKernel(2.5)),
    "plus_periodic": MaternKernel(3.0, 0.4, smoothness=2.5) + PeriodicKernel(2.5, 1.2, 0.8),
}


def series(n: int, extent: float = 10.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0.0, extent, n))
    return t[:, None], np.sin(2.0 * np.pi * t / 2.5) + t / extent + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("name", KERNELS)
class TestVecchia:
    def test_of_all_neighbours_is_the_exact_likelihood_and_its_gradient(self, name: str) -> None:
        kernel, (X, y) = KERNELS[name], series(40)
        rows = Rows(X, y - y.mean())
        likelihood = VecchiaLikelihood(rows, 40, 39, np.random.default_rng(0))
        likelihood.look_for_neighbours(kernel)
        free = np.append(kernel.theta, np.log(NOISE))
        terms, gradient, _ = likelihood(kernel, free)
        value, expected = log_likelihood_and_gradient(rows, kernel, NOISE)
        assert terms.sum() == pytest.approx(value, rel=1e-9)
        assert likelihood.terms(kernel, free).sum() == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose(gradient, expected, rtol=1e-7, atol=1e-8)

    def test_neighbours_are_the_nearest_points(self, name: str) -> None:
        kernel, (X, y) = KERNELS[name], series(60)
        likelihood = VecchiaLikelihood(Rows(X, y), 60, 5, np.random.default_rng(0))
        likelihood.look_for_neighbours(kernel)
        points = kernel.points(X)[likelihood.order]
        for position in range(5, 60):
            nearest = np.argsort(np.square(points[:position] - points[position]).sum(axis=1))[:5]
            assert set(likelihood._near[position]) == set(nearest)

    def test_nearest_rows_predict_years_ahead(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        if name == "plus_periodic":
            return  # its rows are as near within one period as in all
        X, y = series(2000)
        T = np.linspace(12.0, 14.5, 40)[:, None]
        exact, deviation = ExactGPRegressor(KERNELS[name], NOISE).fit(X, y).predict(T, return_std=True)
        model = NearestNeighborsGPRegressor(64, kernel=KERNELS[name], noise_variance=NOISE)

        def error() -> float:
            return float(np.sqrt(np.mean(np.square((model.fit(X, y).predict(T) - exact) / deviation))))

        by_phase = error()
        monkeypatch.setattr(Kernel, "points", Kernel.in_lengthscales)
        assert by_phase < 0.5 * error()


MODELS: dict[str, Any] = {
    "nearest rows": NearestNeighborsGPRegressor(70),
    "residual": ResidualGPRegressor(NystroemFeatures(20), n_neighbors=70, block_size=70, random_state=0),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("name", MODELS)
def test_all_rows_as_neighbours_are_the_exact_process(name: str, kernel: Kernel) -> None:
    X, y = series(70)
    T = np.linspace(-2.0, 14.0, 20)[:, None]
    exact = ExactGPRegressor(kernel, NOISE).fit(X, y).predict(T, return_std=True)
    model = MODELS[name].set_params(kernel=kernel, noise_variance=NOISE).fit(X, y)
    np.testing.assert_allclose(model.predict(T, return_std=True), exact, atol=1e-7)


def test_by_itself_it_has_no_metric() -> None:
    X, y = series(20)
    with pytest.raises(InputError, match="NearestNeighborsGPRegressor needs a lengthscale of the kernel"):
        NearestNeighborsGPRegressor(5, kernel=PeriodicKernel(2.5), noise_variance=NOISE).fit(X, y)


@pytest.mark.parametrize("lengthscale", [0.02, 0.3, 1.0, 50.0])
def test_harmonics_are_those_of_the_fourier_series(lengthscale: float) -> None:
    # The share of the j-th harmonic, (1/p) ∫ k(t) cos(2πjt/p) dt, by quadrature of a periodic function.
    kernel, size = PeriodicKernel(3.0, lengthscale), 200_000
    rng = np.random.default_rng(1)
    drawn = kernel.sample_frequencies(rng.standard_normal((size, 1)), rng)[:, 0] * 3.0 / (2.0 * np.pi)
    np.testing.assert_allclose(drawn, np.round(drawn), atol=1e-9)
    t = np.arange(4096) * 3.0 / 4096
    shares = np.fft.fft(kernel([[0.0]], t[:, None])[0]).real / 4096
    for j in (0, 1, 2, 5):
        expected = shares[j]
        deviation = np.sqrt(max(expected * (1.0 - expected), 1e-12) / size)
        assert abs(np.mean(np.round(drawn) == j) - expected) < 5.0 * deviation + 1e-6


def test_fourier_features_of_it_repeat_themselves() -> None:
    X = np.random.default_rng(2).uniform(0.0, 20.0, (30, 1))
    features = RandomFourierFeatures(4000, kernel=PeriodicKernel(2.5, 0.8, 1.5), random_state=0).fit(X)
    phi = features.transform(X)
    np.testing.assert_allclose(features.transform(X + 5.0), phi, atol=1e-9)
    np.testing.assert_allclose(phi @ phi.T, PeriodicKernel(2.5, 0.8, 1.5)(X), atol=0.15)


@pytest.mark.parametrize("model", [GPRegressor(noise="auto"), ExactGPRegressor()])
def test_a_period_longer_than_the_record_is_said_once(model: Any) -> None:
    days = pd.DataFrame({"day": np.linspace(0.0, 100.0, 60)})
    y = np.sin(days["day"] / 10.0)
    kernel = MaternKernel(30.0, smoothness=1.5) * PeriodicKernel(365.25)
    message = r"The kernel has the period 365.25 in column 'day' of X, and rows are within 100"
    with pytest.warns(ColumnWarning, match=message) as record:
        clone(model).set_params(kernel=kernel, noise_variance=0.1).fit(days, y)
    told = [one for one in record if issubclass(one.category, ColumnWarning)]
    assert len(told) == 1
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", ColumnWarning)
        clone(model).set_params(kernel=MaternKernel(30.0) * PeriodicKernel(50.0), noise_variance=0.1).fit(days, y)
