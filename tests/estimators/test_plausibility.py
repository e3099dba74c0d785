"""No mean that the model itself shows to be impossible comes without a warning, and none on ordinary data with one."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LinearKernel,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    SpectralGPRegressor,
    StructuredOrthogonalFourierFeatures,
    TaylorFeatures,
)
from lmgp.errors import ImplausibleMeanWarning
from lmgp.features import SphericalFourierFeatures
from tests.conftest import APPROXIMATIONS

MAPS: dict[str, Any] = {
    "taylor_15": TaylorFeatures(15),
    "taylor_512": TaylorFeatures(512),
    **{sketch: OptimizedMaclaurinFeatures(40, sketch=sketch) for sketch in ("gaussian", "rademacher", "tensor_srht")},
    "kar_karnick": RandomMaclaurinFeatures(40),
    "nystroem": NystroemFeatures(40),
    "nystroem_all": NystroemFeatures(120),
    "rff": RandomFourierFeatures(40),
    "orf": OrthogonalFourierFeatures(200),
    "sorf": StructuredOrthogonalFourierFeatures(40),
}
MODELS: dict[str, Any] = {
    "featurized": FeaturizedGPRegressor,
    "localized": lambda *arguments, **parameters: LocalizedGPRegressor(*arguments, threshold=2.0, **parameters),
}
# Those that can represent the kernel on these rows.
NEAR = [("featurized", "nystroem_all"), ("localized", "taylor_512")]


def data(noise: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """120 rows over ten lengthscales, their targets within ±1.3, and rows among them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (120, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1] / 2) + noise * rng.normal(size=120)
    return X, y, np.concatenate((rng.uniform(0, 10, (60, 2)), X[:20]))


def predicted(model: Any, X, y, T, weights=None) -> tuple[np.ndarray, list[str]]:
    """Means, and the warnings of implausible ones."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mean = model.fit(X, y, sample_weight=weights).predict(T)
    return mean, [str(one.message) for one in caught if issubclass(one.category, ImplausibleMeanWarning)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("share", [1e-9, 1e-5, 1.0])
def test_no_nonsense_without_a_warning(share: float, name: str, kind: str) -> None:
    X, y, T = data(min(0.1, (0.5 * share) ** 0.5))
    given = {"kernel": GaussianKernel(1.0, 0.5), "noise_variance": 0.5 * share}
    # Repeated, as rows and as weights; "dtc" predicts the means of "sor".
    repeated = {"fitc": (np.repeat(X, 3, axis=0), np.repeat(y, 3), T), "sor": (X, y, T, np.full(120, 3.0))}
    for approximation, rows in repeated.items():
        model = MODELS[kind](MAPS[name], approximation=approximation, random_state=0, **given)
        mean, told = predicted(model, *rows)
        nonsense = np.max(np.abs(mean - y.mean())) > 2 * np.ptp(y)
        assert told or not nonsense
        if approximation == "fitc" and (kind, name) in NEAR:
            exact = ExactGPRegressor(**given).fit(X, y, sample_weight=np.full(120, 3.0)).predict(T)
            assert not told
            assert not nonsense
            assert np.sqrt(np.mean((mean - exact) ** 2)) < 0.2 * np.std(y)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("approximation", ["dtc", "sor"])
def test_the_case_of_a_careless_join(kind: str, approximation: str) -> None:
    """The failure itself: far beyond all targets; and its cure."""
    X, y, T = data(1e-3)
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    given = {"kernel": GaussianKernel(1.0, 0.5), "noise_variance": 1e-6, "random_state": 0}
    features = TaylorFeatures(200)
    mean, told = predicted(MODELS[kind](features, approximation=approximation, **given), X, y, T)
    assert np.max(np.abs(mean)) > 5 * np.ptp(y)
    (message,) = told
    for part in (
        "impossible under the model",
        "farthest target is",
        f"approximation='{approximation}'",
        "use appro",
    ):
        assert part in message
    mean, told = predicted(MODELS[kind](features, **given), X, y, T)
    assert not told
    assert np.max(np.abs(mean)) < 2 * np.ptp(y)


def test_the_cure_of_a_map_that_takes_no_zero_row() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(1.0, 2.0, (60, 2)) - 0.5  # on the unit sphere an arc, which the other side is far from
    features = SphericalFourierFeatures(20, n_gaussians=2, normalize=True)
    model = FeaturizedGPRegressor(features, kernel=GaussianKernel(1.0, 0.5), noise_variance=1e-9, random_state=0)
    mean, told = predicted(model, X, rng.normal(size=60), -10.0 - X)
    assert np.isfinite(mean).all()
    (message,) = told
    assert "20 columns cannot follow the targets" in message


def test_of_maps_that_leave_nothing_out_the_cure_is_another() -> None:
    X, y, T = data()
    given = {"kernel": GaussianKernel(1.0, 0.5), "noise_variance": 5e-10, "random_state": 0}
    model = FeaturizedGPRegressor(OrthogonalFourierFeatures(256), **given)
    (message,) = predicted(model, X, y, T)[1]
    assert "256 columns cannot follow the targets as closely as noise_variance=5e-10 asks: use more features" in message


def test_targets_that_the_noise_contradicts() -> None:
    """Two rows a hair apart, and far apart in y: the exact process overshoots by the model's own account."""
    X = np.array([[0.0], [1e-3], [5.0]])
    model = ExactGPRegressor(GaussianKernel(1.0, 1.0), 1e-10)
    mean, (message,) = predicted(model, X, np.array([-1.0, 1.0, 0.0]), np.array([[-1.0], [1.0]]))
    assert np.max(np.abs(mean)) > 100
    assert "give a larger noise_variance" in message


ORDINARY = {
    "exact": ExactGPRegressor(),
    "featurized": FeaturizedGPRegressor(random_state=0),
    "taylor": FeaturizedGPRegressor(TaylorFeatures(60)),
    "localized": LocalizedGPRegressor(TaylorFeatures(60)),
    "nystroem": FeaturizedGPRegressor(NystroemFeatures(60), random_state=0),
    "neighbours": NearestNeighborsGPRegressor(20),
    "spectral": SpectralGPRegressor(),
}


@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("share", [1e-3, 1e-1])
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_none_on_data_from_the_prior(name: str, share: float, approximation: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (150, 2))
    kernel = GaussianKernel(1.5, 2.0)
    root = np.linalg.cholesky(kernel(X) + 1e-9 * np.eye(150))
    T = np.concatenate((rng.uniform(-1, 7, (50, 2)), X[:20] + 30.0))
    model = ORDINARY[name].set_params(kernel=kernel, noise_variance=2.0 * share)
    if "approximation" in model.get_params():
        model.set_params(approximation=approximation)
    for _ in range(3):
        y = 100.0 + root @ rng.normal(size=150) + (2.0 * share) ** 0.5 * rng.normal(size=150)
        assert not predicted(model, X, y, T)[1]


def test_none_where_a_trend_leads_beyond_the_targets() -> None:
    X = np.linspace(-0.5, 0.5, 60)[:, None]
    y = 3.0 * X[:, 0] + 0.05 * np.random.default_rng(0).normal(size=60)
    T = np.array([[6.0], [-5.0]])
    for model in (
        ExactGPRegressor(GaussianKernel(30.0, 5000.0), 0.0025),
        ExactGPRegressor(LinearKernel(), 0.0025),
        FeaturizedGPRegressor(PolynomialFeatures(1), kernel=GaussianKernel(1.0, 10.0), noise_variance=0.0025),
        FeaturizedGPRegressor(TaylorFeatures(20), kernel=GaussianKernel(30.0, 5000.0), noise_variance=0.0025),
        LocalizedGPRegressor(
            PolynomialFeatures(1), kernel=GaussianKernel(1.0, 10.0), noise_variance=0.0025, centroids=[[0.0]]
        ),
    ):
        mean, told = predicted(model, X, y, T)
        assert abs(mean[0] - y.mean()) > 2.5 * np.max(np.abs(y - y.mean()))
        assert not told


def test_none_of_a_constant_target_with_given_parameters() -> None:
    X, _, T = data()
    model = ExactGPRegressor(GaussianKernel(1.0), 0.1)
    assert not predicted(model, X, np.full(120, 0.1), T)[1]
