"""The exact likelihood and its gradient, against dense algebra, finite differences and GPyTorch."""

import gpytorch
import numpy as np
import pytest
import torch

from lmgp import GaussianKernel, MaternKernel, PeriodicKernel, RationalQuadraticKernel
from lmgp.data import Rows
from lmgp.errors import NumericalError
from lmgp.gpytorch import to_gpytorch
from lmgp.kernels.base import Kernel
from lmgp.kernels.composite import ProductKernel
from lmgp.posteriors.exact import ExactLikelihood, log_likelihood
from lmgp.utils.linalg import ROUNDING
from tests.dense import log_likelihood_and_gradient

L = np.array([0.7, 1.3, 2.0])
KERNELS = {
    "gaussian": GaussianKernel(L, 1.7),
    "matern 1/2": MaternKernel(L, 1.7, smoothness=0.5),
    "matern 3/2": MaternKernel(L, 1.7, smoothness=1.5),
    "matern 5/2": MaternKernel(L, 1.7, smoothness=2.5),
    "rational quadratic": RationalQuadraticKernel(L, 1.7, alpha=0.8),
    "sum": GaussianKernel(L, 0.9) + MaternKernel(L[::-1].copy(), 0.8, smoothness=1.5),
    "season": GaussianKernel(L, 0.9) + MaternKernel(L, 0.8, smoothness=0.5) * PeriodicKernel(1.3, L, 0.7),
}
each_kernel = pytest.mark.parametrize("name", KERNELS)
NOISE = 0.05


def formula(r: np.ndarray, kernel: Kernel) -> np.ndarray:
    """The correlation at the distance r, written out."""
    if isinstance(kernel, GaussianKernel):
        return np.exp(-(r**2) / 2)
    if isinstance(kernel, RationalQuadraticKernel):
        return (1 + r**2 / (2 * kernel.alpha)) ** -kernel.alpha
    s = np.sqrt(2 * kernel.smoothness) * r
    return {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s**2 / 3}[kernel.smoothness] * np.exp(-s)


def gram(X: np.ndarray, kernel: Kernel) -> np.ndarray:
    if not hasattr(kernel, "lengthscale"):
        combined = np.multiply if isinstance(kernel, ProductKernel) else np.add
        return combined(gram(X, kernel.left), gram(X, kernel.right))
    if isinstance(kernel, PeriodicKernel):
        sines = np.sin(np.pi * (X[:, None, :] - X[None, :, :]) / kernel.period) / np.asarray(kernel.lengthscale)
        return kernel.variance * np.exp(-2.0 * np.sum(sines**2, axis=2))
    differences = (X[:, None, :] - X[None, :, :]) / np.asarray(kernel.lengthscale)
    return kernel.variance * formula(np.sqrt(np.sum(differences**2, axis=2)), kernel)


def dense(rows: Rows, kernel: Kernel, noise: float) -> float:
    """log p(y) through eigenvalues, of repeated rows where they have weights."""
    counts = np.ones(len(rows.Y[:, 0]), int) if rows.weights is None else rows.weights.astype(int)
    X, y = np.repeat(rows.X, counts, axis=0), np.repeat(rows.Y[:, 0], counts)
    own = np.full(len(y), noise) if rows.noise_variances is None else np.repeat(rows.noise_variances, counts)
    covariance = gram(X, kernel) + np.diag(own)
    _, log_determinant = np.linalg.slogdet(covariance)
    return -0.5 * (y @ np.linalg.solve(covariance, y) + log_determinant + len(y) * np.log(2 * np.pi))


def rows(close: bool = False, weights: bool = False, noise: bool = False) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    if close:
        X[20:] = X[:20] + 1e-9 * rng.normal(size=(20, 3))
    return Rows(
        X,
        np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=40),
        rng.integers(1, 4, 40).astype(float) if weights else None,
        rng.uniform(0.02, 0.3, 40) if noise else None,
    )


@each_kernel
@pytest.mark.parametrize(
    "case", [{}, {"close": True}, {"weights": True}, {"noise": True}, {"weights": True, "noise": True}]
)
def test_value_and_gradient_equal_dense_algebra_and_finite_differences(name: str, case: dict[str, bool]) -> None:
    data, kernel = rows(**case), KERNELS[name]
    value, gradient = log_likelihood_and_gradient(data, kernel, NOISE)
    expected = dense(data, kernel, NOISE)
    assert value == pytest.approx(expected, rel=1e-8, abs=1e-8)
    assert log_likelihood(data, kernel, NOISE) == pytest.approx(expected, rel=1e-8, abs=1e-8)
    free = np.append(kernel.theta, np.log(NOISE))
    assert ExactLikelihood(data).value(kernel, free) == pytest.approx(expected, rel=1e-8, abs=1e-8)

    def at(free: np.ndarray) -> float:
        return dense(data, kernel.with_theta(free[:-1]), float(np.exp(free[-1])))

    assert gradient.shape == free.shape
    for i, unit in enumerate(np.eye(len(free))):
        # Richardson's extrapolation of central differences: of order h⁴.
        slopes = [(at(free + h * unit) - at(free - h * unit)) / (2 * h) for h in (2e-3, 1e-3)]
        assert gradient[i] == pytest.approx((4 * slopes[1] - slopes[0]) / 3, rel=1e-6, abs=1e-6)
    if case.get("noise"):
        assert gradient[-1] == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"season"}))  # whose lengthscales have another meaning there
def test_equals_gpytorch(name: str) -> None:
    class Exact(gpytorch.models.ExactGP):
        def __init__(self, X: torch.Tensor, y: torch.Tensor, kernel: Kernel) -> None:
            likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
            likelihood.noise = torch.tensor(NOISE, dtype=torch.float64)
            super().__init__(X, y, likelihood)
            self.mean_module, self.covar_module = gpytorch.means.ZeroMean(), to_gpytorch(kernel)

        def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    data, kernel = rows(), KERNELS[name]
    X, y = torch.from_numpy(data.X), torch.from_numpy(data.Y[:, 0])
    theirs = Exact(X, y, kernel)
    theirs.train()
    with gpytorch.settings.fast_computations(False, False, False):
        covariance = theirs.covar_module(X).to_dense().detach().numpy()
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(theirs.likelihood, theirs)(theirs(X), y)
        objective.backward()
    np.testing.assert_allclose(kernel(data.X), covariance, rtol=0, atol=1e-8)
    value, gradient = log_likelihood_and_gradient(data, kernel, NOISE)
    assert value == pytest.approx(objective.item() * len(y), rel=1e-8)
    # Theirs is by the argument of a softplus: x = log(1 + e^raw), dx/draw = 1 − e^−x.
    slopes = []
    for parameter, constraint in ((p, c) for _, p, c in theirs.named_parameters_and_constraints() if p.requires_grad):
        x = constraint.transform(parameter).detach()
        lower = float(getattr(constraint, "lower_bound", 0.0))
        slopes += (parameter.grad * len(y) * x / (1.0 - torch.exp(-(x - lower)))).ravel().tolist()
    np.testing.assert_allclose(sorted(gradient), sorted(slopes), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("n", [3, 400])
def test_a_covariance_that_has_no_factor_but_by_chance_has_no_value_and_nothing_is_added(n: int) -> None:
    # At one place: a covariance of ones.
    data, kernel = Rows(np.zeros((n, 1)), np.random.default_rng(0).normal(size=n)), GaussianKernel(1.0)
    likelihood, rounding = ExactLikelihood(data), n * ROUNDING

    def at(noise: float) -> list[float]:
        free = np.append(kernel.theta, np.log(noise))
        return [likelihood(kernel, free)[0], likelihood.value(kernel, free)]

    assert np.isfinite(at(4.0 * rounding)).all()
    for noise in (0.25 * rounding, 1e-30):
        assert np.isnan(at(noise)).all()


def test_noise_that_a_correction_would_drown_is_an_error_that_names_what_works() -> None:
    X = np.linspace(0.0, 1.0, 60)[:, None]
    data, kernel = Rows(X, np.sin(X[:, 0])), GaussianKernel(1.0, 1e6)
    with pytest.raises(
        NumericalError, match=r"noise variance is too small.*noise_variance=1e-18.*smallest noise_variance that works"
    ) as caught:
        log_likelihood(data, kernel, 1e-18)
    works = float(str(caught.value).split()[-1].rstrip("."))
    assert np.isfinite(log_likelihood(data, kernel, works))
