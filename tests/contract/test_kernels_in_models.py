"""The contract over kernel × map × model: each agrees with dense algebra, or says by name what it cannot serve."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    ExponentialKernel,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LinearKernel,
    LocalizedGPRegressor,
    MaternKernel,
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
from lmgp.errors import InputError, KernelWarning
from lmgp.estimators.base import GaussianProcess
from lmgp.features import CraftFeatures, PolynomialMaclaurinFeatures
from lmgp.kernels.base import Kernel
from tests.conftest import APPROXIMATIONS, KERNELS, NOISE, counts_and_noises, dense_gp, draw

N = 80
EXACT: dict[str, GaussianProcess] = {
    "exact": ExactGPRegressor(),
    "nearest rows": NearestNeighborsGPRegressor(N),
    "nearest rows, by default": LocalizedGPRegressor(),
    "all rows around centroids": LocalizedGPRegressor(solver="dual"),
    **{
        f"nystroem, {approximation}": FeaturizedGPRegressor(
            NystroemFeatures(N), approximation=approximation, random_state=0
        )
        for approximation in APPROXIMATIONS
    },
    "localized nystroem": LocalizedGPRegressor(NystroemFeatures(N), threshold=100.0, random_state=0),
}


ARGUMENTS = [(), ("sample_weight",), ("noise_variances",), ("sample_weight", "noise_variances")]


def expected_of(name: str, X, y, T, noise, **center: float) -> tuple[np.ndarray, np.ndarray, float]:
    formula = KERNELS[name][1]
    return dense_gp(formula(X, X), formula(X, T), np.diag(formula(T, T)), y, noise, **center)


@pytest.mark.parametrize("name", KERNELS)
class TestAgainstDenseAlgebra:
    @pytest.mark.parametrize("which", EXACT)
    @pytest.mark.parametrize(
        "arguments", [(), ("sample_weight",), ("noise_variances",), ("sample_weight", "noise_variances")]
    )
    def test_mean_and_variance(self, which: str, name: str, arguments: tuple[str, ...]) -> None:
        X, y, T = draw(N)
        counts, noises = counts_and_noises(N)
        given: dict[str, Any] = {"sample_weight": counts + 1, "noise_variances": noises}
        model = make(which, name).fit(X, y, **{argument: given[argument] for argument in arguments})
        repeats = counts + 1 if "sample_weight" in arguments else np.ones(N, dtype=int)
        noise = noises if "noise_variances" in arguments else np.full(N, NOISE)
        Z, targets = np.repeat(X, repeats, axis=0), np.repeat(y, repeats)
        rows_noise = np.repeat(noise, repeats)
        # Of rows far from the landmarks, the subset of regressors knows nothing: it is told apart below.
        T = T if which != "nystroem, sor" else X
        mean, variance, _ = expected_of(name, Z, targets, T, rows_noise)
        found, std = model.predict(T, return_std=True)
        np.testing.assert_allclose(found, mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(std**2, variance, rtol=0, atol=1e-8)
        np.testing.assert_allclose(model.predict(T), found, rtol=0, atol=1e-10)

    @pytest.mark.parametrize("which", ["exact", "nystroem, fitc"])
    def test_log_marginal_likelihood(self, which: str, name: str) -> None:
        X, y, T = draw(N)
        counts, noises = counts_and_noises(N)
        model = make(which, name)
        plain = model.fit(X, y).log_marginal_likelihood_
        assert plain == pytest.approx(expected_of(name, X, y, T, np.full(N, NOISE))[2], rel=1e-8)
        weighted = model.fit(X, y, sample_weight=counts, noise_variances=noises).log_marginal_likelihood_
        repeated = np.repeat(X, counts, axis=0), np.repeat(y, counts), T, np.repeat(noises, counts)
        assert weighted == pytest.approx(expected_of(name, *repeated)[2], rel=1e-8)

    def test_nystroem_without_its_missing_variance_is_sure_far_away(self, name: str) -> None:
        X, y, T = draw(N)
        std = make("nystroem, sor", name).fit(X, y).predict(T[-2:], return_std=True)[1]
        exact = make("exact", name).fit(X, y).predict(T[-2:], return_std=True)[1]
        assert np.all(std < 0.2 * exact)

    @pytest.mark.slow
    def test_more_frequencies_come_nearer(self, name: str) -> None:
        X, y, T = draw(N, outside=False)
        mean, std = make("exact", name).fit(X, y).predict(T, return_std=True)

        def error(n_features: int) -> float:
            model = FeaturizedGPRegressor(
                OrthogonalFourierFeatures(n_features), kernel=KERNELS[name][0], noise_variance=NOISE
            )
            found = [model.set_params(random_state=seed).fit(X, y).predict(T, return_std=True) for seed in range(8)]
            return float(np.mean([np.mean((m - mean) ** 2 + (s - std) ** 2) for m, s in found]))

        # The mean squared error falls as 1/D: by a factor 16, of which a quarter is asked for.
        assert error(1024) < error(64) / 4

    def test_around_centroids_landmarks_at_every_difference_are_near(self, name: str) -> None:
        X, y, T = draw(N, outside=False)
        exact = make("exact", name).fit(X, y)
        local = LocalizedGPRegressor(
            NystroemFeatures(400), threshold=2.0, kernel=KERNELS[name][0], noise_variance=NOISE, random_state=0
        ).fit(X, y)
        mean, std = exact.predict(T, return_std=True)
        found, found_std = local.predict(T, return_std=True)
        assert np.max(np.abs(found - mean) / std) < 1.0
        assert np.all(found_std > 0.5 * std)

    def test_the_default_map_serves_it(self, name: str) -> None:
        X, y, T = draw(N)
        model = FeaturizedGPRegressor(kernel=KERNELS[name][0], noise_variance=NOISE, random_state=0).fit(X, y)
        assert isinstance(model.features_, OrthogonalFourierFeatures)
        exact = make("exact", name).fit(X, y).predict(T[:15])
        assert np.sqrt(np.mean((model.predict(T[:15]) - exact) ** 2)) < 0.5 * np.std(exact)


def make(which: str, name: str) -> Any:
    return clone(EXACT[which]).set_params(kernel=KERNELS[name][0], noise_variance=NOISE)


# --- what a map or model needs, and which kernels have it ---

MATERN = MaternKernel([1.0, 2.0], 1.5)
SUM = GaussianKernel(1.0) + MATERN
LINEAR = LinearKernel()
SERIES, SPECTRUM, METRIC = "Gaussian components", "a draw of frequencies", "a lengthscale"

REFUSED: list[tuple[GaussianProcess, Kernel, str, str]] = [
    *(
        (regressor(features(10)), kernel, needs, features.__name__)
        for regressor in (FeaturizedGPRegressor, LocalizedGPRegressor)
        for features in (TaylorFeatures, OptimizedMaclaurinFeatures, RandomMaclaurinFeatures)
        for kernel, needs in ((MATERN, SERIES), (SUM, SERIES), (GaussianKernel(1.0) * MATERN, SERIES))
    ),
    *(
        (FeaturizedGPRegressor(features(10)), LINEAR, SPECTRUM, features.__name__)
        for features in (RandomFourierFeatures, OrthogonalFourierFeatures, StructuredOrthogonalFourierFeatures)
    ),
    (FeaturizedGPRegressor(TaylorFeatures(10)), LINEAR, SERIES, "TaylorFeatures"),
    (LocalizedGPRegressor(), LINEAR, METRIC, "LocalizedGPRegressor"),
    (LocalizedGPRegressor(NystroemFeatures(10)), ExponentialKernel(LINEAR), METRIC, "LocalizedGPRegressor"),
    (NearestNeighborsGPRegressor(5), LINEAR, METRIC, "NearestNeighborsGPRegressor"),
    (SpectralGPRegressor(), LINEAR, "a spectral density", "A solution by Fourier modes"),
    (GPRegressor(n_predict=10**9), LINEAR, METRIC, "GPRegressor for 20 rows and 1,000,000,000 predictions"),
]


@pytest.mark.parametrize(("model", "kernel", "needs", "who"), REFUSED)
def test_what_a_kernel_cannot_serve_is_refused_by_name(
    model: GaussianProcess, kernel: Kernel, needs: str, who: str
) -> None:
    X, y, _ = draw(20)
    got = type(kernel).__name__
    with pytest.raises(InputError, match=rf"(?s){who} needs {needs}.* of the kernel; {got}.* can: GaussianKernel"):
        model.set_params(kernel=kernel, noise_variance=NOISE).fit(X, y)


@pytest.mark.parametrize("kernel", [LINEAR, ExponentialKernel(0.01 * LINEAR), GaussianKernel(1.0) + 0.1 * LINEAR])
def test_kernels_without_frequencies_are_served_by_rows_and_landmarks(kernel: Kernel) -> None:
    X, y, T = draw(N)
    X, T = X - 10.0, T[:15] - 10.0
    exact = ExactGPRegressor(kernel, NOISE).fit(X, y).predict(T, return_std=True)
    expected = dense_gp(kernel(X), kernel(X, T), kernel.diagonal(T), y, np.full(N, NOISE))
    np.testing.assert_allclose(exact[0], expected[0], rtol=0, atol=1e-7)
    default = FeaturizedGPRegressor(kernel=kernel, noise_variance=NOISE, random_state=0).fit(X, y)
    assert isinstance(default.features_, NystroemFeatures)
    np.testing.assert_allclose(default.predict(T, return_std=True), exact, rtol=0, atol=1e-5)


@pytest.mark.parametrize("regressor", [ExactGPRegressor, FeaturizedGPRegressor, LocalizedGPRegressor])
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (MaternKernel(1.0, smoothness=2.0), r"smoothness must be 0\.5, 1\.5 or 2\.5; got 2\.0"),
        (MaternKernel([1.0, 2.0, 3.0]), r"one a column, shape \(2,\).*got shape \(3,\)"),
        (GaussianKernel(1.0) + MaternKernel(0.0), r"lengthscale must be positive and finite; got 0\.0"),
        (
            GaussianKernel(1.0) + MaternKernel([1.0, -1.0]),
            r"lengthscale must be positive and finite; got \[1\.0, -1\.0\]",
        ),
        (0.5 * (GaussianKernel([1.0]) + MaternKernel([1.0, 2.0, 3.0])), r"shape \(2,\).*got shape"),
        (-1.0 * MaternKernel(1.0), r"factor must be a non-negative finite number; got -1\.0"),
    ],
)
def test_kernels_that_do_not_fit_the_rows(regressor: type, kernel: Kernel, message: str) -> None:
    X, y, _ = draw(20)
    with pytest.raises(InputError, match=message):
        regressor(kernel=kernel, noise_variance=NOISE).fit(X, y)
    with pytest.raises(InputError, match=message):  # and before anything is learned
        regressor(kernel=kernel).fit(X, y)


@pytest.mark.parametrize("regressor", [FeaturizedGPRegressor, LocalizedGPRegressor])
def test_parts_of_composed_maps_follow_the_models_kernel_or_say_that_they_do_not(regressor: type) -> None:
    X, y, T = draw(N)
    kernel = GaussianKernel([0.7, 1.3], 2.0)
    given = {"kernel": kernel, "noise_variance": NOISE, "random_state": 0}
    followed = regressor(RandomFourierFeatures(20) + TaylorFeatures(15), **given).fit(X, y)
    named = RandomFourierFeatures(20, kernel=GaussianKernel([0.7, 1.3])) + TaylorFeatures(
        15, kernel=GaussianKernel([0.7, 1.3])
    )
    np.testing.assert_array_equal(followed.predict(T[:15]), regressor(named, **given).fit(X, y).predict(T[:15]))
    with pytest.warns(KernelWarning, match=r"keeps its own kernel, GaussianKernel\(lengthscale=9"):
        regressor(RandomFourierFeatures(20, kernel=GaussianKernel(9.0)) + TaylorFeatures(15), **given).fit(X, y)


def test_maps_of_other_kernels_are_the_models_prior() -> None:
    X, y, T = draw(40)
    X, T = (X - 10.0) / 5.0, (T[:15] - 10.0) / 5.0
    features = CraftFeatures(PolynomialMaclaurinFeatures(64, degree=2, random_state=0), 20, random_state=0)
    model = FeaturizedGPRegressor(features, kernel=GaussianKernel(1.0, 1.7), noise_variance=NOISE).fit(X, y)
    phi, psi = (model.features_.transform(rows) for rows in (X, T))
    mean, variance, _ = dense_gp(phi @ phi.T, phi @ psi.T, np.sum(psi**2, axis=1), y, np.full(40, NOISE))
    found, std = model.predict(T, return_std=True)
    np.testing.assert_allclose(found, mean, rtol=0, atol=1e-7)
    np.testing.assert_allclose(std**2, variance, rtol=1e-6)
