"""The bridge to GPyTorch: feature maps as its kernels, and exact models from there and back."""

import copy
import warnings
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch
from linear_operator.operators import LowRankRootLinearOperator
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    MaternKernel,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    RationalQuadraticKernel,
    TaylorFeatures,
)
from lmgp.errors import InputError
from lmgp.features import LinearFeatures, ModulatedFeatures, PolynomialMaclaurinFeatures
from lmgp.features.base import FeatureMap
from lmgp.gpytorch import FeatureKernel, columns_at, from_gpytorch, to_gpytorch
from tests.conftest import dense_gp, draw_normal

GAUSSIAN = GaussianKernel([0.9, 1.3, 1.1], 1.4)
MAPS: dict[str, FeatureMap] = {
    "Fourier": RandomFourierFeatures(20, kernel=MaternKernel(1.2, 1.4), random_state=0),
    "orthogonal Fourier, a sum": OrthogonalFourierFeatures(20, kernel=GAUSSIAN + MaternKernel(2.0), random_state=0),
    "Nyström": NystroemFeatures(12, kernel=MaternKernel([1.0, 2.0, 1.5], 0.7, 1.5), random_state=0),
    "Nyström, a product": NystroemFeatures(12, kernel=GAUSSIAN * MaternKernel(3.0), random_state=0),
    "Taylor": TaylorFeatures(35, kernel=GAUSSIAN),
    "Taylor, a sum": TaylorFeatures(40, kernel=GAUSSIAN + GaussianKernel(2.0)),
    "Taylor by energy": TaylorFeatures(35, index_set="energy", kernel=GAUSSIAN),
    "polynomial": TaylorFeatures(degree=3, weights="polynomial", kernel=GAUSSIAN),
    "Maclaurin": RandomMaclaurinFeatures(40, kernel=GAUSSIAN, random_state=0),
    "optimised Maclaurin": OptimizedMaclaurinFeatures(40, kernel=GAUSSIAN, random_state=0),
    "linear": LinearFeatures([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]]),
    "sum": 2.0 * RandomFourierFeatures(10, random_state=0) + LinearFeatures(),
    "product": RandomFourierFeatures(10, random_state=0) * LinearFeatures(),
}
each_map = pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)


def rows(n: int = 40) -> tuple[np.ndarray, np.ndarray, torch.Tensor, torch.Tensor]:
    X, y = draw_normal(n)
    return X, y, torch.from_numpy(X), torch.from_numpy(y)


# ------------------------------------------------------------------------------------------- maps that torch evaluates


@each_map
def test_torch_evaluates_what_the_map_does(features: FeatureMap) -> None:
    X, _, rows_, _ = rows()
    X[0] *= 60.0  # far from all others, where truncated maps vanish
    fitted = features.fit(X)
    one = torch.ones(1, 3, dtype=torch.float64)
    found = columns_at(fitted, rows_, one)
    np.testing.assert_allclose(found.numpy(), fitted.transform(X), rtol=1e-8, atol=1e-9)
    pairs = columns_at(fitted, rows_.reshape(2, 20, 3), one)
    np.testing.assert_allclose(pairs.reshape(40, -1).numpy(), found.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@each_map
def test_slopes_are_those_of_finite_differences(features: FeatureMap) -> None:
    X, _, _, _ = rows()
    fitted = features.fit(X)
    far = torch.tensor([[60.0, -50.0, 40.0]], dtype=torch.float64)
    some = torch.cat((torch.from_numpy(X[:2]) + 0.05, far)).requires_grad_()
    factor = torch.tensor([[0.9, 1.2, 1.0]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda rows, scale: columns_at(fitted, rows, scale), (some, factor), atol=1e-5, fast_mode=True
    )


def test_a_nystroem_map_of_another_lengthscale_is_that_of_its_kernel() -> None:
    X, _, rows_, _ = rows()
    landmarks = X[:10]
    one = NystroemFeatures(landmarks=landmarks, kernel=MaternKernel([1.0, 2.0, 1.5])).fit(X)
    other = NystroemFeatures(landmarks=landmarks, kernel=MaternKernel([0.5, 1.0, 0.75])).fit(X)
    found = columns_at(one, rows_, torch.full((1, 1), 2.0, dtype=torch.float64))
    np.testing.assert_allclose(found @ found.T, other.transform(X) @ other.transform(X).T, rtol=1e-9)


class Bumps(FeatureMap):
    """A map of somebody's own."""

    def __init__(self, by_numpy: bool = False) -> None:
        self.by_numpy = by_numpy

    def draw(self, X: Any, rng: Any) -> None:
        self.n_features_out_ = 1

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:
        square = np.square(X.numpy()) if self.by_numpy else X.square()
        return torch.exp(-torch.as_tensor(square).sum(dim=1, keepdim=True))


def test_a_map_of_ones_own_is_taken_where_it_is_differentiable() -> None:
    X, _, rows_, _ = rows()
    kernel = FeatureKernel(Bumps().fit(X))
    kernel(rows_).to_dense().sum().backward()
    assert kernel.raw_lengthscale.grad.abs() > 0.0
    with pytest.raises(InputError, match=r"Bumps is not evaluated by torch, .* Maps that are: the Fourier maps"):
        FeatureKernel(Bumps(by_numpy=True).fit(X))(rows_).to_dense()
    for features in (PolynomialMaclaurinFeatures(20), ModulatedFeatures(LinearFeatures(), lambda X: X[:, 0])):
        with pytest.raises(InputError, match=f"{type(features).__name__} is not evaluated by torch"):
            FeatureKernel(features.fit(X))(rows_).to_dense()


# --------------------------------------------------------------------------------------------- kernels of feature maps


class Model(gpytorch.models.ExactGP):
    """An exact model as GPyTorch's tutorials write it."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor, kernel: Any, noise: float = 0.05) -> None:
        likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
        super().__init__(X, y, likelihood)
        likelihood.noise = noise
        self.mean_module = gpytorch.means.ConstantMean().double()
        self.mean_module.initialize(constant=y.mean())
        self.covar_module = kernel

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def predictions(model: Any, X: np.ndarray, *, noise: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the standard deviation of a model of GPyTorch, solved for exactly."""
    model.eval()
    with torch.no_grad(), gpytorch.settings.max_cholesky_size(10_000):
        found = model(torch.from_numpy(X))
        found = model.likelihood(found) if noise else found
        return found.mean.numpy(), found.variance.sqrt().numpy()


def log_likelihood(model: Any, y: torch.Tensor) -> torch.Tensor:
    model.train()
    with gpytorch.settings.max_cholesky_size(10_000):
        return gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(model(*model.train_inputs), y)


@each_map
def test_a_kernel_starts_as_what_its_map_makes(features: FeatureMap) -> None:
    X, _, rows_, _ = rows(50)
    columns = features.fit(X).transform(X)
    kernel = FeatureKernel(features)
    np.testing.assert_allclose(kernel(rows_).to_dense().detach(), columns @ columns.T, rtol=1e-8, atol=1e-9)
    cross = kernel(rows_[:7], rows_[5:]).to_dense().detach()
    np.testing.assert_allclose(cross, columns[:7] @ columns[5:].T, rtol=1e-8, atol=1e-9)
    diagonal = kernel(rows_, diag=True).detach()
    np.testing.assert_allclose(diagonal, np.square(columns).sum(axis=1), rtol=1e-8, atol=1e-9)
    low = columns.shape[1] < 50
    assert isinstance(kernel(rows_).evaluate_kernel(), LowRankRootLinearOperator) == low


@pytest.mark.parametrize("n_features", [16, 60])
@pytest.mark.parametrize("factor", [1.0, 2.5])
def test_predictions_are_those_of_the_featurized_regressor(n_features: int, factor: float) -> None:
    X, y, rows_, targets = rows()
    new = np.random.default_rng(7).normal(size=(15, 3))
    features = RandomFourierFeatures(n_features, kernel=MaternKernel(1.0), random_state=0).fit(X)
    kernel = gpytorch.kernels.ScaleKernel(FeatureKernel(features)).double()
    kernel.outputscale, kernel.base_kernel.lengthscale = factor, 1.7
    found = predictions(Model(rows_, targets, kernel), new)
    same = RandomFourierFeatures(n_features, kernel=MaternKernel(1.7, factor), random_state=0)
    expected = FeaturizedGPRegressor(same, kernel=MaternKernel(1.7, factor), noise_variance=0.05).fit(X, y)
    np.testing.assert_allclose(found, expected.predict(new, return_std=True), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("ard", [None, 3])
def test_likelihood_and_slopes_are_dense_ones(ard: int | None) -> None:
    X, y, rows_, targets = rows()
    features = TaylorFeatures(35, kernel=GaussianKernel(1.5))
    kernel = FeatureKernel(features.fit(X), ard_num_dims=ard)
    model = Model(rows_, targets, kernel)
    value = log_likelihood(model, targets)
    value.backward()

    def dense(lengthscale: np.ndarray) -> float:
        columns = features.transform(X * 1.5 / lengthscale)
        return multivariate_normal(np.full(40, y.mean()), columns @ columns.T + 0.05 * np.eye(40)).logpdf(y) / 40

    start = np.full(ard or 1, 1.5)
    assert value.item() == pytest.approx(dense(start), rel=1e-8)
    steps = 1e-5 * np.eye(ard or 1)
    slopes = np.array([(dense(start + step) - dense(start - step)) / 2e-5 for step in steps])
    # softplus(raw) = lengthscale
    by_raw = slopes * (1.0 - np.exp(-start))
    np.testing.assert_allclose(kernel.raw_lengthscale.grad.numpy().ravel(), by_raw, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("features", "kernel"),
    [(NystroemFeatures(25), MaternKernel), (TaylorFeatures(60), GaussianKernel)],
    ids=lambda one: type(one).__name__ if isinstance(one, FeatureMap) else "",
)
def test_the_learned_lengthscale_is_that_of_the_exact_kernel(features: Any, kernel: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 4.0, size=(25, 1))
    y = np.linalg.cholesky(kernel(0.9)(X) + 1e-6 * np.eye(25)) @ rng.normal(size=25) + 0.1 * rng.normal(size=25)
    model = Model(*map(torch.from_numpy, (X, y)), FeatureKernel(features.set_params(kernel=kernel(0.5))), 0.01)
    optimizer = torch.optim.LBFGS(model.covar_module.parameters(), max_iter=12, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = -log_likelihood(model, torch.from_numpy(y))
        loss.backward()
        return loss

    optimizer.step(closure)

    def dense(lengthscale: float) -> float:
        return -multivariate_normal(np.full(25, y.mean()), kernel(lengthscale)(X) + 0.01 * np.eye(25)).logpdf(y)

    expected = minimize_scalar(dense, bounds=(0.1, 5.0), method="bounded", options={"xatol": 1e-8}).x
    assert model.covar_module.lengthscale.item() == pytest.approx(expected, rel=1e-3)
    assert abs(expected / 0.5 - 1.0) > 0.4  # far from the start


def test_a_map_that_is_not_fitted_is_fitted_to_the_first_rows() -> None:
    X, _, rows_, _ = rows()
    X += 5.0
    kernel = FeatureKernel(TaylorFeatures(35, kernel=GAUSSIAN))
    found = kernel(rows_).to_dense().detach()
    np.testing.assert_allclose(kernel.center, X.mean(axis=0))
    columns = TaylorFeatures(35, kernel=GAUSSIAN).fit_transform(X - X.mean(axis=0))
    np.testing.assert_allclose(found, columns @ columns.T, rtol=1e-8)
    assert kernel.lengthscale.shape == (1, 3)  # as the kernel of the map
    again = copy.deepcopy(kernel)
    np.testing.assert_allclose(again(rows_[:5]).to_dense().detach(), found[:5, :5], rtol=1e-10)
    given = FeatureKernel(TaylorFeatures(35, kernel=GAUSSIAN), center=np.full(3, 5.0))
    columns = TaylorFeatures(35, kernel=GAUSSIAN).fit_transform(X - 5.0)
    np.testing.assert_allclose(given(rows_).to_dense().detach(), columns @ columns.T, rtol=1e-8)


def test_rows_of_single_precision_give_covariances_of_it() -> None:
    X, _, rows_, _ = rows()
    kernel = FeatureKernel(RandomFourierFeatures(8, random_state=0).fit(X))
    found = kernel(rows_.float()).to_dense()
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.detach(), kernel(rows_).to_dense().detach(), atol=1e-5)


def test_what_a_feature_kernel_refuses() -> None:
    X, _, rows_, _ = rows()
    with pytest.raises(InputError, match=r"takes a feature map of this package, .* got 'rff'"):
        FeatureKernel("rff")
    with pytest.raises(InputError, match="leave out active_dims"):
        FeatureKernel(RandomFourierFeatures(8), active_dims=(0,))
    with pytest.raises(InputError, match=r"ard_num_dims must be 3, .* got 2"):
        FeatureKernel(TaylorFeatures(kernel=GAUSSIAN), ard_num_dims=2)
    fitted = RandomFourierFeatures(8).fit(X)
    with pytest.raises(InputError, match="fitted to 3 columns; got rows of 2"):
        FeatureKernel(fitted)(rows_[:, :2]).to_dense()
    with pytest.raises(InputError, match="last_dim_is_batch is not supported"):
        FeatureKernel(fitted).forward(rows_, rows_, last_dim_is_batch=True)


# ------------------------------------------------------------------------------------------------ exact models and back


def scaled(kernel: Any, factor: float) -> Any:
    made = gpytorch.kernels.ScaleKernel(kernel)
    made.outputscale = factor
    return made.double()


def with_values(kernel: Any, **values: Any) -> Any:
    return kernel.double().initialize(**{name: torch.as_tensor(value).double() for name, value in values.items()})


THEIRS = {
    "RBF": lambda: scaled(with_values(gpytorch.kernels.RBFKernel(ard_num_dims=3), lengthscale=[[0.8, 1.2, 2.0]]), 1.7),
    "Matérn": lambda: scaled(with_values(gpytorch.kernels.MaternKernel(nu=1.5), lengthscale=1.3), 0.6),
    "RQ": lambda: scaled(with_values(gpytorch.kernels.RQKernel(), lengthscale=1.3, alpha=0.7), 0.6),
    "sum": lambda: THEIRS["RBF"]() + THEIRS["Matérn"](),
    "product": lambda: THEIRS["RBF"]() * with_values(gpytorch.kernels.LinearKernel(), variance=0.4),
}


@pytest.mark.parametrize("kernel", THEIRS.values(), ids=THEIRS)
@pytest.mark.parametrize("mean", ["constant", "zero"])
def test_an_exact_model_predicts_the_same_here(kernel: Any, mean: str) -> None:
    _, _, rows_, targets = rows()
    new = np.random.default_rng(7).normal(size=(15, 3))
    model = Model(rows_, targets, kernel(), noise=0.03)
    model.mean_module.initialize(constant=torch.tensor(9.0))
    if mean == "zero":
        model.mean_module = gpytorch.means.ZeroMean()
    found = from_gpytorch(model)
    assert isinstance(found, ExactGPRegressor)
    np.testing.assert_allclose(found.predict(new, return_std=True), predictions(model, new), rtol=1e-6)
    with_noise = found.predict(new, return_std=True, include_noise=True)
    np.testing.assert_allclose(with_noise, predictions(model, new, noise=True), rtol=1e-6)


def test_any_regressor_takes_over_an_exact_model() -> None:
    X, _, rows_, targets = rows()
    model = Model(rows_, targets, THEIRS["RBF"](), noise=0.03)
    model.mean_module.initialize(constant=torch.tensor(9.0))
    expected = predictions(model, X[:9])
    for regressor in (GPRegressor(), FeaturizedGPRegressor(NystroemFeatures(100))):
        found = from_gpytorch(model, regressor)
        assert found.noise == "normal"  # as that of the likelihood
        assert type(found) is type(regressor)
        assert found is not regressor
        np.testing.assert_allclose(found.predict(X[:9], return_std=True), expected, rtol=1e-5)


def test_a_trained_model_of_single_precision() -> None:
    X, _, rows_, targets = rows()
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    model = Model(rows_.float(), targets.float(), kernel).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        (-log_likelihood(model, targets.float())).backward()
        optimizer.step()
    found = from_gpytorch(model)
    assert float(found.kernel_.lengthscale) == pytest.approx(kernel.base_kernel.lengthscale.item(), rel=1e-6)
    with torch.no_grad():
        mean = model.eval()(rows_.float() + 0.1).mean
    np.testing.assert_allclose(found.predict(X + 0.1), mean, atol=1e-3)


@pytest.mark.parametrize("given", [{}, {"sample_weight": True}, {"noise_variances": True}])
def test_exact_regressors_predict_the_same_there(given: dict[str, Any]) -> None:
    X, y, _, _ = rows()
    new = np.random.default_rng(7).normal(size=(15, 3))
    values = np.random.default_rng(8).uniform(0.5, 2.0, size=40)
    kernel = GaussianKernel([0.9, 1.5, 2.0], 1.3) + MaternKernel(1.1) * RationalQuadraticKernel(2.0, alpha=0.8)
    regressor = ExactGPRegressor(kernel, 2e-5).fit(X, y, **{name: values * 0.05 for name in given})
    model = to_gpytorch(regressor)
    expected = regressor.predict(new, return_std=True)
    np.testing.assert_allclose(predictions(model, new), expected, rtol=1e-6)
    np.testing.assert_allclose(from_gpytorch(model).predict(new, return_std=True), expected, rtol=1e-6)


def test_a_regressor_that_chose_the_exact_model() -> None:
    X, y, _, _ = rows()
    chosen = GPRegressor(kernel=GaussianKernel(1.1), noise_variance=0.1).fit(X, y)
    new = X[:9] + 0.1
    np.testing.assert_allclose(predictions(to_gpytorch(chosen), new), chosen.predict(new, return_std=True), rtol=1e-6)
    model = to_gpytorch(chosen).train()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = dense_gp(GaussianKernel(1.1)(X), np.empty((40, 0)), np.empty(0), y, np.full(40, 0.1))[2]
        assert 40 * log_likelihood(model, model.train_targets).item() == pytest.approx(expected, rel=1e-8)


class Halved(GaussianKernel):
    """A kernel of somebody's own."""

    def correlation(self, squares: torch.Tensor, values: Any) -> torch.Tensor:
        return torch.exp(-0.25 * squares)


def deep(model: Any) -> None:
    """Let a model transform its rows, as deep kernels do."""
    forward = model.forward
    model.forward = lambda x: forward(torch.tanh(x))


def refused(change: Any, **options: Any) -> Any:
    """What converts a model after a change of it."""

    def act() -> None:
        _, _, rows_, targets = rows()
        model = Model(rows_, targets, THEIRS["RBF"]())
        from_gpytorch(change(model) or model, **options)

    return act


def seen(**options: Any) -> GPRegressor:
    """An exact model of two columns that it sees in a way that is given."""
    X, y, _, _ = rows()
    return GPRegressor(kernel=GaussianKernel(1.1), noise_variance=0.1, **options).fit(np.exp(X[:, :2]), y)


REFUSED = {
    "a linear mean": (
        refused(lambda model: setattr(model, "mean_module", gpytorch.means.LinearMean(3))),
        r"LinearMean has no counterpart here. Means that have: ConstantMean and ZeroMean",
    ),
    "tasks": (
        refused(
            lambda model: setattr(model, "likelihood", gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=2))
        ),
        r"MultitaskGaussianLikelihood has no counterpart here. Likelihoods that have: GaussianLikelihood",
    ),
    "another kernel": (
        refused(lambda model: setattr(model, "covar_module", gpytorch.kernels.CosineKernel())),
        r"CosineKernel of GPyTorch has no counterpart here",
    ),
    "a subclass of another kernel": (
        lambda: from_gpytorch(gpytorch.kernels.RBFKernelGrad()),
        r"RBFKernelGrad of GPyTorch has no counterpart here",
    ),
    "a kernel of one's own": (lambda: to_gpytorch(2.0 * Halved()), r"Halved\(\) has no counterpart in GPyTorch"),
    "a transformation of the rows": (refused(deep), "forward of the model does more than its mean_module"),
    "a mean of one's own": (
        refused(lambda model: setattr(model, "forward", lambda x, own=model.forward: own(x) + 1.0)),
        "forward of the model does more than its mean_module",
    ),
    "no kernel": (refused(lambda model: delattr(model, "covar_module")), "The model has no covar_module"),
    "no rows": (refused(lambda model: setattr(model, "train_inputs", None)), "has no training rows"),
    "another model": (refused(lambda _: torch.nn.Linear(1, 1)), "Exact models, .* convert; got Linear"),
    "another regressor": (refused(lambda _: None, regressor=LinearFeatures()), "regressor must be an unfitted"),
    "a column by name": (lambda: to_gpytorch(GAUSSIAN.on("lon")), r"by index, and none by name; got \['lon'"),
    "a trend": (lambda: to_gpytorch(ExactGPRegressor(GAUSSIAN, 0.1, trend="linear").fit(*rows()[:2])), "A trend"),
    "a column on a log scale": (lambda: to_gpytorch(seen(columns={1: "log"})), "sees on another scale"),
    "turned axes": (lambda: to_gpytorch(seen(rotate=True)), "turned axes"),
    "an approximate regressor": (
        lambda: to_gpytorch(LocalizedGPRegressor(kernel=GAUSSIAN, noise_variance=0.1).fit(*rows()[:2])),
        "ExactGPRegressor converts, .* got LocalizedGPRegressor",
    ),
}


@pytest.mark.parametrize(("act", "told"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_counterpart_is_refused_by_name(act: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        act()


def test_the_bridge_is_public() -> None:
    assert lmgp.gpytorch.FeatureKernel is FeatureKernel
    assert isinstance(from_gpytorch(gpytorch.kernels.RBFKernel()), GaussianKernel)


@pytest.mark.parametrize(
    "kernel",
    [
        (GaussianKernel(0.5) + MaternKernel(2.0)).on(0) + GaussianKernel(1.0).on(1),
        (MaternKernel(3.0) * GaussianKernel(1.0)).on(0) * GaussianKernel(1.0).on(1),
    ],
)
def test_sums_and_products_within_others_keep_their_columns(kernel: Any) -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    found = to_gpytorch(kernel)(torch.from_numpy(X)).to_dense().detach().numpy()
    np.testing.assert_allclose(found, kernel(X), rtol=1e-10)


def test_a_model_of_noise_variances_is_taken_over_with_all_that_is_given() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 9.0, (300, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=300)
    y[::20] += 20.0
    noise = np.full(300, 0.01)
    exact = ExactGPRegressor(GaussianKernel(1.0), 0.01).fit(X, y, noise_variances=noise)
    taken = from_gpytorch(to_gpytorch(exact), GPRegressor())
    np.testing.assert_allclose(taken.predict(X[:20]), exact.predict(X[:20]), rtol=1e-6, atol=1e-8)
