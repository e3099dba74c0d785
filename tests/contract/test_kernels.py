"""What every kernel has to keep: values, gradients, spectra, parameters, and its counterpart in GPyTorch."""

import math
import pickle
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import multivariate_normal
from sklearn.base import clone

from lmgp import (
    ColumnsKernel,
    ExponentialKernel,
    GaussianKernel,
    LinearKernel,
    MaternKernel,
    ModulatedKernel,
    PeriodicKernel,
    RationalQuadraticKernel,
)
from lmgp.data import Rows
from lmgp.errors import InputError
from lmgp.gpytorch import from_gpytorch, to_gpytorch
from lmgp.kernels.base import CAPABILITIES, Kernel, require
from lmgp.kernels.stationary import StationaryKernel
from tests.dense import log_likelihood_and_gradient

SCALES = [0.7, 2.0, 1.1]


def _first(X: np.ndarray) -> np.ndarray:
    return 1.0 + X[:, 0] ** 2


STATIONARY: dict[str, Kernel] = {
    "gaussian": GaussianKernel(0.8, 1.7),
    "gaussian_ard": GaussianKernel(SCALES, 0.6),
    "matern12": MaternKernel(SCALES, 1.3, smoothness=0.5),
    "matern32": MaternKernel(0.9, 1.3),
    "matern52": MaternKernel(SCALES, 0.4, smoothness=2.5),
    "rational_quadratic": RationalQuadraticKernel(SCALES, 1.2, alpha=0.8),
    "sum": GaussianKernel(SCALES, 0.5) + MaternKernel([1.5, 0.6, 0.9], 0.8, smoothness=0.5),
    "sum_of_gaussians": GaussianKernel(SCALES, 0.5) + 2.0 * GaussianKernel(3.0, 0.2),
    "product": GaussianKernel(SCALES, 0.5) * MaternKernel(1.5, 0.8, smoothness=2.5),
    "product_of_gaussians": GaussianKernel(SCALES, 0.5) * GaussianKernel(1.5, 0.8),
    "multiple": 2.5 * RationalQuadraticKernel(1.1, 0.7, alpha=2.0),
    "nested": 0.5 * (GaussianKernel(0.8) * MaternKernel(2.0) + RationalQuadraticKernel(SCALES)),
    "periodic": PeriodicKernel(2.5, 1.3, 0.7),
    "periodic_ard": PeriodicKernel([2.5, 1.8, 4.0], SCALES, 1.2),
    "locally_periodic": MaternKernel(SCALES, 1.3) * PeriodicKernel([3.0, 2.0, 4.0], [2.0, 3.0, 1.5]),
    "columns": MaternKernel([1.1, 0.8], 0.6).on([2, 0]),
    "of_other_columns": MaternKernel(0.9, 1.3).on([0, 2]) * PeriodicKernel(2.5, 1.2).on(1),
    "sum_of_columns": GaussianKernel(0.8, 1.7).on(1) + 0.3 * (GaussianKernel([1.0, 2.0]).on([1, 0])).on([2, 0, 1]),
}
OTHERS: dict[str, Kernel] = {
    "linear": LinearKernel(),
    "linear_ard": LinearKernel(variance=[0.5, 2.0, 1.2]),
    "linear_center": LinearKernel(variance=0.7, center=[0.3, -1.0, 0.2]),
    "linear_matrix": LinearKernel([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]]),
    "exponential": ExponentialKernel(0.1 * LinearKernel()),
    "modulated": ModulatedKernel(GaussianKernel(SCALES), _first),
    "gaussian_plus_linear": GaussianKernel(SCALES, 0.5) + LinearKernel(),
}
KERNELS = STATIONARY | OTHERS
# Those without a counterpart in GPyTorch.
ALONE = ("linear_center", "linear_matrix", "exponential", "modulated")


def formula(kernel: Kernel, x: np.ndarray, z: np.ndarray) -> float:
    """Evaluate a kernel of two rows by the formulas of the textbooks, in Python's floats."""
    match kernel:
        case LinearKernel():
            A, root = np.eye(len(x)) if kernel.matrix is None else np.asarray(kernel.matrix), np.sqrt(kernel.variance)
            return float((root * (x - kernel.center)) @ A @ (root * (z - kernel.center)))
        case ColumnsKernel():
            index = np.atleast_1d(kernel.columns)
            return formula(kernel.kernel, x[index], z[index])
        case PeriodicKernel():
            waves = np.sin(np.pi * (x - z) / kernel.period) / kernel.lengthscale
            return float(kernel.variance) * math.exp(-2.0 * sum(waves**2))
        case ExponentialKernel():
            return math.exp(formula(kernel.kernel, x, z))
        case ModulatedKernel():
            return float((1 + x[0] ** 2) * formula(kernel.kernel, x, z) * (1 + z[0] ** 2))
    name = type(kernel).__name__
    if name == "SumKernel":
        return formula(kernel.left, x, z) + formula(kernel.right, x, z)
    if name == "ProductKernel":
        return formula(kernel.left, x, z) * formula(kernel.right, x, z)
    if name == "ScaledKernel":
        return float(kernel.factor) * formula(kernel.kernel, x, z)
    r = math.sqrt(
        sum(((a - b) / s) ** 2 for a, b, s in zip(x, z, np.broadcast_to(kernel.lengthscale, len(x)), strict=True))
    )
    if name == "GaussianKernel":
        return float(kernel.variance) * math.exp(-r * r / 2)
    if name == "RationalQuadraticKernel":
        return float(kernel.variance) * (1 + r * r / (2 * kernel.alpha)) ** -kernel.alpha
    by_smoothness = {
        0.5: math.exp(-r),
        1.5: (1 + math.sqrt(3) * r) * math.exp(-math.sqrt(3) * r),
        2.5: (1 + math.sqrt(5) * r + 5 * r * r / 3) * math.exp(-math.sqrt(5) * r),
    }
    return float(kernel.variance) * by_smoothness[kernel.smoothness]


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return KERNELS[request.param]


@pytest.fixture(params=STATIONARY)
def stationary(request: pytest.FixtureRequest) -> Kernel:
    return STATIONARY[request.param]


@pytest.fixture
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    Z[0] = X[0]
    return X, Z


class TestValues:
    def test_are_those_of_the_formula(self, kernel: Kernel, rows: Any) -> None:
        X, Z = rows
        expected = np.array([[formula(kernel, x, z) for z in Z] for x in X])
        np.testing.assert_allclose(kernel(X, Z), expected, rtol=1e-12)
        np.testing.assert_allclose(kernel.sections(Z)(X), expected, rtol=1e-12)
        np.testing.assert_allclose(kernel.evaluate(*map(torch.from_numpy, rows)).numpy(), expected, rtol=1e-12)

    def test_the_diagonal(self, kernel: Kernel, rows: Any) -> None:
        X, _ = rows
        np.testing.assert_allclose(kernel.diagonal(X), np.diag(kernel(X)), rtol=1e-14)

    def test_one_prior_variance_is_the_diagonal_of_every_row(self, stationary: Kernel, rows: Any) -> None:
        np.testing.assert_allclose(stationary.diagonal(rows[0]), stationary.prior_variance(), rtol=1e-14)

    def test_batches_are_those_of_their_matrices(self, kernel: Kernel) -> None:
        rng = np.random.default_rng(1)
        X, Z = rng.normal(size=(4, 2, 6, 3)), rng.normal(size=(4, 2, 5, 3))
        batched = kernel.evaluate(torch.from_numpy(X), torch.from_numpy(Z)).numpy()
        assert batched.shape == (4, 2, 6, 5)
        for index in np.ndindex(4, 2):
            np.testing.assert_allclose(batched[index], kernel(X[index], Z[index]), rtol=1e-12)

    def test_many_rows_in_blocks_and_threads(self, stationary: Kernel) -> None:
        rng = np.random.default_rng(2)
        X, Z = rng.normal(size=(3000, 3)), rng.normal(size=(700, 3))
        whole = stationary(X, Z)
        np.testing.assert_allclose(whole[::500], stationary(X[::500], Z), rtol=1e-13)

    def test_is_positive_semi_definite(self, kernel: Kernel) -> None:
        X = np.random.default_rng(3).normal(size=(40, 3))
        K = kernel(X)
        np.testing.assert_allclose(K, K.T, rtol=1e-13, atol=1e-15)
        assert np.linalg.eigvalsh(K)[0] > -1e-12 * np.trace(K)

    @pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
    def test_close_rows_far_from_the_origin_keep_their_distances(self, smoothness: float) -> None:
        X = 1e6 + np.array([[0.0], [2.0**-10], [2.0**-20]])
        near = MaternKernel(0.5, smoothness=smoothness)
        np.testing.assert_allclose(near(X), near(X - 1e6), rtol=1e-14)


class TestParameters:
    def test_gradients_are_those_of_finite_differences(self, kernel: Kernel, rows: Any) -> None:
        X, Z = map(torch.from_numpy, rows)
        theta = torch.tensor(kernel.theta, requires_grad=True)
        if len(theta) == 0:
            assert not kernel.parameters or all(one.fixed for one in kernel.parameters) or kernel.theta.size == 0
            return
        weights = torch.from_numpy(np.random.default_rng(4).normal(size=(7, 5)))
        (gradient,) = torch.autograd.grad((weights * kernel.evaluate(X, Z, theta)).sum(), theta)
        for i, value in enumerate(kernel.theta):
            step = np.zeros(len(theta))
            step[i] = 1e-6
            high, low = (kernel.with_theta(kernel.theta + sign * step)(*rows) for sign in (1, -1))
            expected = float((weights.numpy() * (high - low)).sum() / 2e-6)
            assert gradient[i].item() == pytest.approx(expected, rel=1e-6, abs=1e-8), (i, value)

    def test_of_equal_rows_the_gradient_is_finite(self, stationary: Kernel) -> None:
        X = torch.zeros((3, 3), dtype=torch.float64)
        theta = torch.tensor(stationary.theta, requires_grad=True)
        (gradient,) = torch.autograd.grad(stationary.evaluate(X, X, theta).sum(), theta)
        assert torch.isfinite(gradient).all()

    def test_theta_is_the_logarithms_of_the_free_parameters(self, kernel: Kernel) -> None:
        free = [one for one in kernel.parameters if not one.fixed]
        expected = np.log(np.concatenate([np.empty(0), *(np.ravel(one.value) for one in free)]))
        np.testing.assert_allclose(kernel.theta, expected, rtol=1e-15)
        assert kernel.bounds.shape == (len(expected), 2)
        for one in kernel.parameters:
            np.testing.assert_array_equal(kernel.get_params()[one.name], one.value)

    def test_with_theta_copies(self, kernel: Kernel, rows: Any) -> None:
        before = kernel(*rows)
        other = kernel.with_theta(kernel.theta + 0.1)
        np.testing.assert_allclose(other.theta, kernel.theta + 0.1, rtol=1e-12, atol=1e-14)
        np.testing.assert_array_equal(kernel(*rows), before)

    def test_fixed_parameters_stay(self) -> None:
        kernel = GaussianKernel([1.0, 2.0], 3.0, lengthscale_bounds="fixed", variance_bounds=(0.1, 10.0))
        assert [one.fixed for one in kernel.parameters] == [True, False]
        np.testing.assert_allclose(kernel.bounds, np.log([[0.1, 10.0]]))
        learned = kernel.with_theta([np.log(5.0)])
        assert learned.variance == pytest.approx(5.0)
        np.testing.assert_array_equal(learned.lengthscale, [1.0, 2.0])

    def test_clones_and_pickles(self, kernel: Kernel, rows: Any) -> None:
        for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
            np.testing.assert_array_equal(copy(*rows), kernel(*rows))

    def test_theta_of_another_length_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"theta must have shape \(2,\)"):
            GaussianKernel().with_theta([0.0])


class TestMetric:
    @pytest.mark.parametrize("name", [name for name, one in STATIONARY.items() if one.can("metric")])
    def test_near_rows_have_the_larger_covariance(self, name: str) -> None:
        # Along each column: the metric divides by a lengthscale of the kernel, so that one unit is neither 0 nor all.
        stationary = STATIONARY[name]
        for column in np.flatnonzero(np.isfinite(stationary.metric(3))):
            one = np.zeros((1, 3))
            one[0, column] = stationary.metric(3)[column]
            share = stationary(np.zeros((1, 3)), one)[0, 0] / stationary.diagonal(one)[0]
            assert 0.2 < share < 0.97

    def test_of_a_sum_it_is_the_mean_of_inverse_squares_by_variance(self) -> None:
        kernel = GaussianKernel([1.0, 5.0], 3.0) + MaternKernel([2.0, 3.0]) + LinearKernel()
        expected = (0.75 * np.array([1.0, 5.0]) ** -2 + 0.25 * np.array([2.0, 3.0]) ** -2) ** -0.5
        # The variance of a linear kernel is not the same everywhere, and it has no lengthscale.
        np.testing.assert_allclose(kernel.metric(2), expected, rtol=1e-14)
        np.testing.assert_allclose(kernel.scale([[2.0, 3.0]]), [[2.0, 3.0] / expected], rtol=1e-14)

    def test_a_column_that_the_kernel_does_not_see_does_not_count(self) -> None:
        kernel = GaussianKernel(2.0, 3.0).on(2) + MaternKernel([1.0, 4.0]).on([0, 2])
        expected = [(0.25 / 1.0) ** -0.5, np.inf, (0.75 / 4.0 + 0.25 / 16.0) ** -0.5]
        np.testing.assert_allclose(kernel.metric(3), expected, rtol=1e-14)
        np.testing.assert_array_equal(kernel.scale([[1.0, 5.0, 2.0]])[:, 1], [0.0])
        np.testing.assert_allclose((kernel * kernel).metric(3), np.array(expected) / np.sqrt(2.0), rtol=1e-14)

    def test_a_periodic_part_has_points_on_circles(self) -> None:
        # ‖p(x) − p(z)‖² is the squared distance in the metric, and of a periodic part 4 sin²(π(x − z)/p)/ℓ².
        rng = np.random.default_rng(9)
        X = rng.normal(size=(6, 2))
        kernel = GaussianKernel(2.0, 3.0) + 0.5 * (MaternKernel(1.5, 2.0) * PeriodicKernel([1.0, 3.0], 0.7)).on([1, 0])
        kernel = kernel + PeriodicKernel(2.0, 1.1, 8.0)
        near = 3.0 / 4.0 + 1.0 / 1.5**2  # of two terms with a metric, times the variances 3 and 1
        difference = X[:, None] - X
        waves = [
            4.0 * np.square(np.sin(np.pi * difference / period) / scale).sum(axis=2)
            for period, scale in (([3.0, 1.0], 0.7), (2.0, 1.1))
        ]
        expected = (near * np.square(difference).sum(axis=2) + waves[0] + 8.0 * waves[1]) / 4.0
        points = kernel.points(X)
        np.testing.assert_allclose(np.square(points[:, None] - points).sum(axis=2), expected, rtol=1e-10, atol=1e-14)
        np.testing.assert_array_equal(GaussianKernel(2.0).points(X), X / 2.0)

    def test_of_a_product_of_gaussians_it_is_that_of_the_gaussian(self) -> None:
        kernel = GaussianKernel([3.0, 1.0]) * GaussianKernel(4.0)
        np.testing.assert_allclose(kernel.metric(2), kernel.gaussian_components()[0].metric(2), rtol=1e-14)


class TestSpectrum:
    @pytest.mark.parametrize("name", [name for name, one in STATIONARY.items() if one.can("spectral_density")])
    def test_the_density_is_the_transform_of_the_kernel(self, name: str) -> None:
        # In one dimension, by quadrature: ∫ k̂(ξ) cos(2πξr) dξ = k(r), which at r = 0 is the variance.
        kernel = clone(STATIONARY[name])
        params = {one.name: 0.7 for one in kernel.parameters if one.name.endswith("lengthscale")}
        kernel.set_params(**params)

        def density(frequency: float) -> float:
            return float(kernel.spectral_density([[frequency]])[0])

        total = 2.0 * sum(quad(density, a, b, limit=400)[0] for a, b in [(0, 1e-3), (1e-3, 1), (1, 30), (30, np.inf)])
        assert total == pytest.approx(float(kernel.diagonal([[0.0]])[0]), rel=2e-6)
        value = 2.0 * quad(density, 0, np.inf, weight="cos", wvar=2 * np.pi * 0.9, limit=400)[0]
        assert value == pytest.approx(float(kernel([[0.0]], [[0.9]])[0, 0]), rel=1e-5)

    @pytest.mark.parametrize("name", [name for name, one in STATIONARY.items() if one.can("spectral_density")])
    def test_in_three_dimensions_it_integrates_to_the_variance(self, name: str) -> None:
        kernel = clone(STATIONARY[name])
        scale = 0.7
        kernel.set_params(**{one.name: scale for one in kernel.parameters if one.name.endswith("lengthscale")})

        def shell(radius: float) -> float:
            return float(4 * np.pi * radius**2 * kernel.spectral_density([[radius, 0.0, 0.0]])[0])

        total = sum(quad(shell, a, b, limit=400)[0] for a, b in [(0, 1e-2), (1e-2, 1), (1, 30), (30, np.inf)])
        assert total == pytest.approx(float(kernel.diagonal([[0.0] * 3])[0]), rel=1e-5)

    @pytest.mark.parametrize("name", [name for name, one in STATIONARY.items() if one.can("spectral_density")])
    def test_the_density_falls_however_far(self, name: str) -> None:
        frequencies = np.geomspace(0.1, 1e12, 200)[:, None] * np.ones((1, 3))
        density = STATIONARY[name].spectral_density(frequencies)
        assert np.all(np.diff(density) <= 0.0)
        assert density[-1] < 1e-30

    @pytest.mark.parametrize("alpha", [60.0, 180.0, 1000.0])
    def test_of_a_large_alpha_it_is_the_transform_of_the_kernel(self, alpha: float) -> None:
        kernel, r = RationalQuadraticKernel(0.7, 1.2, alpha=alpha), np.linspace(-20.0, 20.0, 4001)
        frequencies = np.array([0.0, 1e-7, 1e-3, 0.1, 0.3, 0.8])
        transform = 0.01 * np.cos(2.0 * np.pi * np.outer(frequencies, r)) @ kernel(r[:, None], [[0.0]])[:, 0]
        np.testing.assert_allclose(kernel.spectral_density(frequencies[:, None]), transform, rtol=1e-7)

    def test_lengthscales_a_column_scale_the_density(self) -> None:
        frequencies = np.random.default_rng(5).normal(size=(6, 3))
        for one in (GaussianKernel, MaternKernel, RationalQuadraticKernel):
            ours, unit = one(SCALES, 2.0), one(1.0, 2.0)
            expected = np.prod(SCALES) * unit.spectral_density(frequencies * SCALES)
            np.testing.assert_allclose(ours.spectral_density(frequencies), expected, rtol=1e-12)

    def test_cosines_of_the_draws_are_unbiased(self, stationary: Kernel) -> None:
        rng = np.random.default_rng(6)
        size = 200_000
        frequencies = stationary.sample_frequencies(rng.standard_normal((size, 3)), rng)
        differences = rng.normal(size=(6, 3)) * 0.7
        cosines = np.cos(differences @ frequencies.T)
        expected = stationary(differences, np.zeros((1, 3)))[:, 0] / stationary.diagonal(np.zeros((1, 3)))[0]
        errors = (cosines.mean(axis=1) - expected) / (cosines.std(axis=1) / np.sqrt(size))
        assert np.abs(errors).max() < 4.5


class TestComponents:
    @pytest.mark.parametrize("name", [name for name, one in STATIONARY.items() if one.can("gaussian_components")])
    def test_add_up_to_the_kernel(self, name: str, rows: Any) -> None:
        components = STATIONARY[name].gaussian_components()
        assert all(isinstance(one, GaussianKernel) for one in components)
        np.testing.assert_allclose(sum(one(*rows) for one in components), STATIONARY[name](*rows), rtol=1e-12)

    @pytest.mark.parametrize("capability", CAPABILITIES)
    def test_what_a_kernel_cannot_do_is_refused_by_name(self, kernel: Kernel, capability: str) -> None:
        if kernel.can(capability):
            require(kernel, capability, "A map")
            return
        with pytest.raises(InputError, match=r"A map needs .* of the kernel; .*Kernels that can: GaussianKernel"):
            require(kernel, capability, "A map")
        rng = np.random.default_rng(0)
        use = {
            "metric": lambda: kernel.metric(3),
            "prior_variance": kernel.prior_variance,
            "spectral_density": lambda: kernel.spectral_density(np.ones((2, 3))),
            "frequencies": lambda: kernel.sample_frequencies(np.ones((2, 3)), rng),
            "gaussian_components": kernel.gaussian_components,
        }
        with pytest.raises(InputError, match="Kernels that can"):
            use[capability]()


class TestGPyTorch:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", [name for name in KERNELS if name not in ALONE])
    def test_values_likelihood_and_gradients_agree(self, name: str) -> None:
        kernel = KERNELS[name]
        rng = np.random.default_rng(7)
        X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
        inputs, target = torch.from_numpy(X), torch.from_numpy(y)
        library = to_gpytorch(kernel)
        np.testing.assert_allclose(library(inputs).to_dense().detach().numpy(), kernel(X), atol=1e-8)

        def density(covariance: torch.Tensor) -> torch.Tensor:
            noisy = covariance + 0.3 * torch.eye(60, dtype=torch.float64)
            return gpytorch.distributions.MultivariateNormal(torch.zeros_like(target), noisy).log_prob(target)

        theta = torch.tensor(kernel.theta, requires_grad=True)
        ours, theirs = density(kernel.evaluate(inputs, inputs, theta)), density(library(inputs).to_dense())
        # GPyTorch takes distances through inner products, which at r = 0 are 1e-8 off for Matérn-½.
        assert ours.item() == pytest.approx(theirs.item(), rel=1e-9, abs=1e-8)
        learned = [one for one in library.parameters() if one.requires_grad]
        assert sum(one.numel() for one in learned) == len(theta)
        if not len(theta):
            return
        (gradient,) = torch.autograd.grad(ours, theta)
        raw = torch.autograd.grad(theirs, learned)
        # GPyTorch learns raw parameters, the inverse softplus of the values: d log(value)/d raw = σ(raw)/value.
        # Its lengthscale of a periodic kernel is the square of ours.
        squares = [one for one in library.modules() if isinstance(one, gpytorch.kernels.PeriodicKernel)]
        doubled = {id(one.raw_lengthscale) for one in squares}
        by_log = torch.cat(
            [
                ((1 + (id(one) in doubled)) * slope * torch.nn.functional.softplus(one) / torch.sigmoid(one)).ravel()
                for slope, one in zip(raw, learned, strict=True)
            ]
        )
        # The same inner products are 1e-8 off in GPyTorch's gradient; dense algebra holds ours to 1e-8 below.
        tolerance = 1e-6 if name in ("matern12", "sum") else 1e-8
        np.testing.assert_allclose(np.sort(by_log.detach()), np.sort(gradient), rtol=tolerance, atol=1e-8)

    @pytest.mark.parametrize("name", STATIONARY)
    def test_gradients_of_the_likelihood_are_those_of_dense_algebra(self, name: str) -> None:
        # ½ tr((αα⊤ − C⁻¹) ∂K/∂θ), with the derivative of each matrix by differences of sixth order.
        kernel = STATIONARY[name]
        rng = np.random.default_rng(8)
        X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
        rows = Rows(X, y)
        value, gradient = log_likelihood_and_gradient(rows, kernel, 0.3)
        C = kernel(X) + 0.3 * np.eye(40)
        expected = multivariate_normal(np.zeros(40), C).logpdf(y)
        assert value == pytest.approx(expected, rel=1e-10)
        inverse = np.linalg.inv(C)
        outer = np.outer(inverse @ y, inverse @ y) - inverse
        steps = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
        for i in range(len(kernel.theta)):
            h = 2e-3 * np.eye(len(kernel.theta))[i]
            slope = (
                sum(
                    weight * (kernel.with_theta(kernel.theta + m * h)(X) - kernel.with_theta(kernel.theta - m * h)(X))
                    for m, weight in steps.items()
                )
                / 2e-3
            )
            assert gradient[i] == pytest.approx(0.5 * np.sum(outer * slope), rel=1e-8, abs=1e-8)

    @pytest.mark.parametrize("name", STATIONARY)
    def test_and_back(self, name: str, rows: Any) -> None:
        back = from_gpytorch(to_gpytorch(STATIONARY[name]))
        np.testing.assert_allclose(back(*rows), STATIONARY[name](*rows), rtol=1e-12)

    @pytest.mark.parametrize("name", ALONE)
    def test_a_kernel_without_a_counterpart_is_refused_by_name(self, name: str) -> None:
        with pytest.raises(InputError, match=r"Kernel\(.*has no counterpart in GPyTorch. Kernels that have: GaussianK"):
            to_gpytorch(2.0 * KERNELS[name])

    def test_another_kernel_is_refused_by_name(self) -> None:
        with pytest.raises(InputError, match="CosineKernel of GPyTorch has no counterpart"):
            from_gpytorch(gpytorch.kernels.CosineKernel())
        with pytest.raises(InputError, match="batched"):
            from_gpytorch(gpytorch.kernels.RBFKernel(batch_shape=torch.Size([2])))

    def test_active_dims_are_columns(self, rows: Any) -> None:
        theirs = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(active_dims=(2, 0))).double()
        expected = theirs(*map(torch.from_numpy, rows)).to_dense().detach().numpy()
        np.testing.assert_allclose(from_gpytorch(theirs)(*rows), expected, rtol=1e-7)


class TestBadInput:
    @pytest.mark.parametrize("smoothness", [1.0, 0, "1.5", None, 3.5])
    def test_smoothness(self, smoothness: Any) -> None:
        with pytest.raises(InputError, match=r"smoothness must be 0\.5, 1\.5 or 2\.5; got "):
            MaternKernel(smoothness=smoothness).checked(1)

    @pytest.mark.parametrize(
        ("part", "message"),
        [
            (MaternKernel(0.0), "positive and finite; got 0.0 in MaternKernel"),
            (MaternKernel(-1.0), "positive and finite"),
            (MaternKernel([1.0, 2.0]), r"shape \(3,\) for these rows; got shape \(2,\)"),
            (RationalQuadraticKernel(alpha=0.0), "alpha must be positive and finite"),
            (GaussianKernel(variance=-1.0), "variance must be positive and finite"),
            (GaussianKernel(lengthscale_bounds=(2.0, 1.0)), "lengthscale_bounds must be two positive numbers"),
            (PeriodicKernel(-1.0), "period must be positive and finite; got -1.0 in PeriodicKernel"),
            (PeriodicKernel([1.0, 2.0]), r"period must be one number or one a column, shape \(3,\)"),
            (PeriodicKernel("month"), "PeriodicKernel needs numbers for period and lengthscale and variance"),
            (PeriodicKernel(period_bounds=(0.0, 1.0)), "period_bounds must be two positive numbers"),
            (LinearKernel(variance=[1.0, 0.0, 1.0]), "variance must be positive and finite"),
            (LinearKernel(center=[1.0, 2.0]), r"center must be one finite number or one a column, shape \(3,\)"),
            (GaussianKernel().on(3), "columns of a kernel: X has columns 0 to 2; got 3"),
            (GaussianKernel().on([0, 0]), "columns of a kernel must list each column once"),
            (GaussianKernel().on("month"), "names the column 'month', but X has no names of columns"),
            (GaussianKernel([1.0, 2.0]).on(0), r"kernel part of ColumnsKernel: .*shape \(1,\) for these rows"),
        ],
    )
    def test_inside_a_sum_the_part_is_named(self, part: StationaryKernel, message: str, rows: Any) -> None:
        with pytest.raises(InputError, match=f"In the right part of SumKernel: .*{message}"):
            (GaussianKernel() + part).checked(3)
        with pytest.raises(InputError, match=message):
            (GaussianKernel() + part)(*rows)

    def test_other_columns(self) -> None:
        with pytest.raises(InputError, match="same number of columns; got 2 and 3"):
            MaternKernel()([[0.0, 1.0]], [[0.0, 1.0, 2.0]])
