"""The sparse processes that Nyström features make, and how near they come to the exact one."""

import gpytorch
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LinearKernel,
    LocalizedGPRegressor,
    NystroemFeatures,
    RandomFourierFeatures,
)
from lmgp.metrics import kl_divergence
from lmgp.neighbours.clustering import nearest_centroids
from lmgp.posteriors.weights import BLOCK, WeightPosterior
from tests.features.conftest import KERNEL, NOISE, box_rows, projected, wave

Floats = NDArray[np.float64]
STRATEGIES = ["kmeans++", "farthest_point"]
MISSING = ["dtc", "sor", "fitc"]


def dense(Z: Floats, X: Floats, y: Floats, T: Floats, approximation: str) -> tuple[Floats, Floats]:
    """The sparse process in its n × n form, y centred by the caller: latent mean and variance."""
    Q = projected(KERNEL, Z, X, X)
    noise = NOISE + (KERNEL.variance - np.diag(Q) if approximation == "fitc" else np.zeros(len(X)))
    cross = projected(KERNEL, Z, T, X)
    solved = np.linalg.solve(Q + np.diag(noise), np.column_stack((y, cross.T)))
    prior = np.diag(projected(KERNEL, Z, T, T)) if approximation == "sor" else KERNEL.variance
    return cross @ solved[:, 0], prior - np.sum(cross.T * solved[:, 1:], axis=0)


@pytest.mark.parametrize("approximation", MISSING)
def test_the_models_are_the_textbook_sparse_processes(approximation: str) -> None:
    # Quiñonero-Candela and Rasmussen (2005): SoR, DTC and FITC.
    X, T = box_rows(), np.vstack((box_rows(30, seed=1), [[50.0, -50.0]]))
    y = wave(X)
    model = FeaturizedGPRegressor(
        NystroemFeatures(15), kernel=KERNEL, noise_variance=NOISE, approximation=approximation, random_state=0
    ).fit(X, y)
    mean, std = model.predict(T, return_std=True)
    expected = dense(model.features_.landmarks_, X, y - y.mean(), T, approximation)
    np.testing.assert_allclose(mean - y.mean(), expected[0], atol=1e-8)
    np.testing.assert_allclose(std**2, expected[1], atol=1e-8)
    assert std[-1] == (0.0 if approximation == "sor" else np.sqrt(1.7))


@pytest.mark.parametrize("approximation", MISSING)
@pytest.mark.parametrize("landmarks", STRATEGIES)
def test_with_all_rows_as_landmarks_the_model_is_exact(landmarks: str, approximation: str) -> None:
    X, T = box_rows(80, extent=12.0), box_rows(40, seed=1, extent=14.0)
    y = wave(X)
    exact = ExactGPRegressor(KERNEL, NOISE).fit(X, y).predict(T, return_std=True)
    for features in (NystroemFeatures(80, landmarks), NystroemFeatures(landmarks=X)):
        model = FeaturizedGPRegressor(
            features, kernel=KERNEL, noise_variance=NOISE, approximation=approximation, random_state=0
        ).fit(X, y)
        assert model.features_.n_features_out_ == 80
        mean, std = model.predict(T, return_std=True)
        np.testing.assert_allclose(mean, exact[0], rtol=0, atol=1e-8)
        if approximation != "sor":
            np.testing.assert_allclose(std**2, exact[1] ** 2, rtol=0, atol=1e-8)
        else:
            # Between the landmarks the subset of regressors knows of no variance.
            assert np.all(std**2 < exact[1] ** 2 + 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("approximation", "correction"), [("fitc", True), ("sor", False)])
def test_equals_gpytorchs_inducing_points(approximation: str, correction: bool) -> None:
    # When it predicts, GPyTorch adds k − Q to the diagonal, of training and test rows alike: FITC. With its diagonal
    # correction off it is the subset of regressors.
    X, T = box_rows(), box_rows(30, seed=1, extent=6.0)
    y = wave(X)
    model = FeaturizedGPRegressor(
        NystroemFeatures(15), kernel=KERNEL, noise_variance=NOISE, approximation=approximation, random_state=0
    ).fit(X, y)
    mean, std = model.predict(T, return_std=True)

    class Sparse(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
            super().__init__(torch.from_numpy(X), torch.from_numpy(y - y.mean()), likelihood)
            # As tensors: numbers would become float32 first.
            likelihood.noise = torch.tensor(NOISE, dtype=torch.float64)
            self.mean_module = gpytorch.means.ZeroMean()
            base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2)).double()
            base.outputscale = torch.tensor(KERNEL.variance, dtype=torch.float64)
            base.base_kernel.lengthscale = torch.tensor(KERNEL.lengthscale, dtype=torch.float64)
            inducing = torch.from_numpy(model.features_.landmarks_.copy())
            self.covariance = gpytorch.kernels.InducingPointKernel(base, inducing, likelihood)

        def forward(self, rows: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covariance(rows))

    with (
        torch.no_grad(),
        gpytorch.settings.sgpr_diagonal_correction(correction),
        gpytorch.settings.cholesky_jitter(double_value=1e-15),
    ):
        theirs = Sparse().eval()(torch.from_numpy(T))
        np.testing.assert_allclose(mean - y.mean(), theirs.mean, rtol=0, atol=1e-11)
        np.testing.assert_allclose(std**2, theirs.variance, rtol=0, atol=1e-11)


@pytest.mark.parametrize("approximation", MISSING)
@pytest.mark.parametrize("landmarks", [*STRATEGIES, box_rows(12, seed=3, extent=2.0) - 1.0], ids=[*STRATEGIES, "given"])
def test_in_a_localized_model_landmarks_are_differences_to_centroids(
    landmarks: str | Floats, approximation: str
) -> None:
    X, T = box_rows(extent=12.0), np.vstack((box_rows(40, seed=1, extent=12.0), [[900.0, -900.0]]))
    y = wave(X)
    model = LocalizedGPRegressor(
        NystroemFeatures(12, landmarks),
        threshold=3.0,
        kernel=KERNEL,
        noise_variance=NOISE,
        approximation=approximation,
        random_state=0,
    ).fit(X, y)
    mean, std = model.predict(T, return_std=True)
    centroids = model.centroids_
    assert 3 < len(centroids) < 20
    labels = nearest_centroids(KERNEL.scale(T), KERNEL.scale(centroids))
    Z = model.features_.landmarks_
    assert np.all(np.linalg.norm(KERNEL.scale(Z), axis=1) < 3.0)
    for label in np.unique(labels):
        here = labels == label
        expected = dense(Z + centroids[label], X, y - y.mean(), T[here], approximation)
        np.testing.assert_allclose(mean[here] - y.mean(), expected[0], atol=1e-8)
        np.testing.assert_allclose(std[here] ** 2, expected[1], atol=1e-8)
    # Far from all data, the prior.
    assert mean[-1] == pytest.approx(y.mean(), rel=1e-12)
    assert std[-1] == (0.0 if approximation == "sor" else np.sqrt(1.7))


def test_draws_take_no_matrix_of_all_rows_by_a_kernel_without_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    left_out, sizes, X = WeightPosterior._left_out, [], box_rows(3 * BLOCK)
    monkeypatch.setattr(WeightPosterior, "_left_out", lambda *of: sizes.append(len(of[1])) or left_out(*of))
    model = FeaturizedGPRegressor(NystroemFeatures(), kernel=LinearKernel(), noise_variance=NOISE)
    drawn = model.fit(X[:50], X[:50, 0], center=0.0).sample_y(X, 5)
    assert (sum(sizes), max(sizes) <= BLOCK) == (len(X), True)
    np.testing.assert_allclose(drawn, X @ np.linalg.lstsq(X, drawn, rcond=None)[0], rtol=0, atol=1e-5)


def test_a_localized_model_needs_fewer_landmarks() -> None:
    X, T = box_rows(600, extent=15.0), box_rows(100, seed=1, extent=15.0)
    y = wave(X)
    exact = ExactGPRegressor(KERNEL, NOISE).fit(X, y).predict(T, return_std=True)
    given = {"kernel": KERNEL, "noise_variance": NOISE, "approximation": "fitc", "random_state": 0}
    divergences = []
    for model in (
        FeaturizedGPRegressor(NystroemFeatures(60), **given),
        LocalizedGPRegressor(NystroemFeatures(60), threshold=2.0, **given),
    ):
        mean, std = model.fit(X, y).predict(T, return_std=True)
        divergences.append(kl_divergence(mean, std**2 + NOISE, exact[0], exact[1] ** 2 + NOISE).mean())
    assert divergences[1] < 0.05 * divergences[0]


def test_each_test_row_can_be_a_centroid() -> None:
    X, T = box_rows(100), box_rows(10, seed=1)
    y = wave(X)
    model = LocalizedGPRegressor(
        NystroemFeatures(40), centroids="test_rows", kernel=KERNEL, noise_variance=NOISE, random_state=0
    ).fit(X, y)
    mean, std = model.predict(T, return_std=True)
    assert np.isfinite(mean).all()
    assert np.all((std > 0.0) & (std <= np.sqrt(1.7)))


# --------------------------------------------------------------------------------------------------------- the accuracy


@pytest.mark.parametrize("landmarks", STRATEGIES)
def test_the_divergence_falls_with_the_landmarks_and_is_far_below_that_of_random_features(landmarks: str) -> None:
    X, T = box_rows(1000, 3, extent=3.0), box_rows(200, 3, seed=1, extent=3.0)
    y = wave(X)
    kernel = GaussianKernel([2.0, 3.0, 4.0], 1.3)
    exact = ExactGPRegressor(kernel, NOISE).fit(X, y).predict(T, return_std=True)

    def divergence(features: object, approximation: str) -> float:
        model = FeaturizedGPRegressor(
            features, kernel=kernel, noise_variance=NOISE, approximation=approximation, random_state=0
        )
        mean, std = model.fit(X, y).predict(T, return_std=True)
        return float(kl_divergence(mean, std**2 + NOISE, exact[0], exact[1] ** 2 + NOISE).mean())

    for approximation in ("dtc", "fitc"):
        divergences = [divergence(NystroemFeatures(m, landmarks), approximation) for m in (32, 64, 128)]
        fourier = [divergence(RandomFourierFeatures(m), approximation) for m in (32, 64, 128)]
        assert np.all(np.diff(np.log(divergences)) < np.log(0.01))
        assert np.all(np.array(divergences) < 0.1 * np.array(fourier))
