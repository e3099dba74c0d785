"""A bridge to GPyTorch: feature maps as its kernels, and exact models from there and back."""

from contextlib import suppress
from functools import reduce
from math import log
from operator import add, mul
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from linear_operator.operators import (
    LinearOperator,
    LowRankRootLinearOperator,
    MatmulLinearOperator,
    RootLinearOperator,
)
from linear_operator.utils.cholesky import psd_safe_cholesky
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch.linalg import solve_triangular

from lmgp import kernels
from lmgp.columns.numbers import Numbers
from lmgp.columns.places import OnSphere
from lmgp.data import as_tensor
from lmgp.errors import InputError
from lmgp.estimators.base import GaussianProcess
from lmgp.estimators.chosen import GPRegressor
from lmgp.estimators.exact import ExactGPRegressor
from lmgp.features.base import FeatureMap, KernelMap
from lmgp.features.composition import ProductFeatures, ScaledFeatures, SumFeatures
from lmgp.features.fourier import FourierMap
from lmgp.features.maclaurin import MaclaurinMap
from lmgp.features.nystroem import NystroemFeatures
from lmgp.features.series import vanishing
from lmgp.features.taylor import TaylorFeatures
from lmgp.kernels.base import Kernel
from lmgp.kernels.composite import LinearKernel, ScaledKernel, checked_factor
from lmgp.kernels.periodic import PeriodicKernel
from lmgp.kernels.stationary import GaussianKernel, MaternKernel, RationalQuadraticKernel, StationaryKernel

__all__ = ["FeatureKernel", "from_gpytorch", "to_gpytorch"]

SERVED = (
    "the Fourier maps, TaylorFeatures, the Maclaurin maps, NystroemFeatures, LinearFeatures, and sums, products and "
    "multiples of these"
)


class FeatureKernel(gpytorch.kernels.Kernel):
    """A kernel of GPyTorch whose covariances are products of features, with a lengthscale that can be learned.

    k(x, z) = φ(x ℓ₀/ℓ)ᵀφ(z ℓ₀/ℓ). Where the map is that of one stationary kernel, ℓ₀ is its lengthscale, and so ℓ, the
    kernel's lengthscale, starts there: k then is exactly what `feature_map.transform` makes. Of other maps ℓ₀ = 1, and
    the rows are divided by ℓ.

    Parameters
    ----------
    feature_map : feature map
        Fitted, or not: then a clone is fitted to the rows of the first call, which for an exact model are the training
        rows.
    center : array-like of shape (d,), optional
        What is taken off the rows first: Taylor and Maclaurin maps are near their kernel around the origin alone. If
        not given, the mean of the rows of the first call for a map that was not fitted, and zero for one that was.
    ard_num_dims : int, optional
        d, for one lengthscale a column. If not given, as many as the map's kernel has.
    **kwargs
        Those of `gpytorch.kernels.Kernel`, such as `lengthscale_prior` and `lengthscale_constraint`.

    Attributes
    ----------
    feature_map : feature map
        The fitted one, from the first call on.

    Notes
    -----
    Covariances of n rows are an n × D root, with D columns: for D < n, GPyTorch solves in O(n D²). The variance is that
    of the map; `gpytorch.kernels.ScaleKernel` around it makes a factor that is learned. The prior variance that a
    truncated map leaves out is missing, as with ``FeaturizedGPRegressor(approximation="sor")``. A map of a learned
    lengthscale keeps what it has drawn or chosen: frequencies and landmarks move with the lengthscale, the degrees and
    columns of Taylor and Maclaurin maps stay.

    Features are computed in float64 on the CPU, and come out in the dtype of the rows.

    Examples
    --------
    >>> import torch
    >>> from lmgp import GaussianKernel, RandomFourierFeatures
    >>> from lmgp.gpytorch import FeatureKernel
    >>> X = torch.linspace(0.0, 1.0, 50, dtype=torch.float64)[:, None]
    >>> features = RandomFourierFeatures(20, kernel=GaussianKernel(0.3), random_state=0).fit(X)
    >>> kernel = FeatureKernel(features)
    >>> round(kernel.lengthscale.item(), 12)
    0.3
    >>> kernel(X).evaluate_kernel().root.shape
    torch.Size([50, 20])
    """

    has_lengthscale = True
    is_stationary = False  # GPyTorch takes the diagonal of a stationary kernel to be constant
    center: torch.Tensor | None

    def __init__(
        self, feature_map: Any, *, center: ArrayLike | None = None, ard_num_dims: int | None = None, **kwargs: Any
    ) -> None:
        if not isinstance(feature_map, FeatureMap) or isinstance(feature_map, type):
            raise InputError(
                f"A FeatureKernel takes a feature map of this package, such as RandomFourierFeatures(256); got "
                f"{feature_map!r}. Maps: {SERVED}."
            )
        if kwargs.get("active_dims") is not None:
            raise InputError("A FeatureKernel takes all columns; leave out active_dims and choose columns before it.")
        start = _lengthscale(feature_map)
        if ard_num_dims is None and np.ndim(start):
            ard_num_dims = np.size(start)
        super().__init__(ard_num_dims=ard_num_dims, **kwargs)
        self.double()
        self.feature_map = feature_map
        given = None if center is None else torch.from_numpy(np.array(center, dtype=np.float64).ravel())
        self.register_buffer("center", given)
        shape = (1, ard_num_dims or 1)
        if np.ndim(start) and ard_num_dims != np.size(start):
            raise InputError(
                f"ard_num_dims must be {np.size(start)}, the number of lengthscales of the map's kernel; got "
                f"{ard_num_dims}."
            )
        unit = torch.from_numpy(np.broadcast_to(np.asarray(start, dtype=np.float64), shape).copy())
        self.register_buffer("unit", unit)
        self.initialize(lengthscale=unit.expand(*self.batch_shape, *shape))

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """Evaluate the features of rows at the present lengthscale, differentiably.

        Parameters
        ----------
        x : Tensor of shape (..., n, d)

        Returns
        -------
        Tensor of shape (..., n, D)

        Raises
        ------
        InputError
            If the map is not evaluated by torch, or was fitted to another number of columns.
        """
        if x.device.type != "cpu":
            raise InputError(f"Features are computed on the CPU; got rows on {x.device}. Use x.cpu() and model.cpu().")
        if not _is_fitted(self.feature_map):
            self._fit(x.detach().to(torch.float64).flatten(end_dim=-2))
        known = getattr(self.feature_map, "n_features_in_", x.shape[-1])
        if x.shape[-1] != known:
            raise InputError(f"The map was fitted to {known} columns; got rows of {x.shape[-1]}.")
        rows = x.to(torch.float64)
        rows = rows if self.center is None else rows - self.center
        return columns_at(self.feature_map, rows, self.unit / self.lengthscale.to(torch.float64)).to(x.dtype)

    def forward(
        self, x1: torch.Tensor, x2: torch.Tensor, diag: bool = False, last_dim_is_batch: bool = False, **params: Any
    ) -> torch.Tensor | LinearOperator:
        """Return the covariances of rows: a root of low rank, or the product of two; see GPyTorch's `Kernel`."""
        if last_dim_is_batch:
            raise InputError("A FeatureKernel is of all columns: last_dim_is_batch is not supported.")
        left = self.features(x1)
        same = x1 is x2 or torch.equal(x1, x2)
        right = left if same else self.features(x2)
        if diag:
            return (left * right).sum(dim=-1)
        if not same:
            return MatmulLinearOperator(left, right.mT)
        low = left.shape[-1] < left.shape[-2]
        return LowRankRootLinearOperator(left) if low else RootLinearOperator(left)

    def _fit(self, rows: torch.Tensor) -> None:
        X = rows.numpy()
        features = clone(self.feature_map)
        if self.center is None and isinstance(features, KernelMap):
            self.center = torch.from_numpy(np.array(features.centre_of(X, None)))
        self.feature_map = features.fit(X if self.center is None else X - self.center.numpy())


def columns_at(features: Any, X: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Evaluate a fitted map at rows times a factor, in batches, and differentiably in both.

    Parameters
    ----------
    features : fitted map
    X : Tensor of shape (..., n, d)
        Of float64.
    factor : Tensor of shape (..., 1, 1) or (..., 1, d)
        What the rows are multiplied with. A Nyström map's landmarks are multiplied likewise: it is that of the
        kernel with lengthscales over the factor.

    Returns
    -------
    Tensor of shape (..., n, n_features_out_)

    Raises
    ------
    InputError
        If the map is not evaluated by torch.
    """
    match features:
        case FourierMap():
            angles = (X * factor) @ as_tensor(features.frequencies_).T
            scale = (features.kernel_.prior_variance() / len(features.frequencies_)) ** 0.5
            return scale * torch.cat((torch.cos(angles), torch.sin(angles)), dim=-1)
        case SumFeatures():
            return torch.cat([columns_at(part, X, factor) for part in (features.left_, features.right_)], dim=-1)
        case ProductFeatures():
            left, right = (columns_at(part, X, factor) for part in (features.left_, features.right_))
            return (left[..., :, None] * right[..., None, :]).flatten(start_dim=-2)
        case ScaledFeatures():
            return features.root_ * columns_at(features.features_, X, factor)
        case NystroemFeatures():
            kernel, landmarks = features.kernel_, as_tensor(features.landmarks_) * factor
            # Where this adds to the diagonal, it says so.
            root = psd_safe_cholesky(kernel.evaluate(landmarks, landmarks))
            return solve_triangular(root, kernel.evaluate(landmarks, X * factor), upper=False).mT
        case TaylorFeatures():
            return torch.cat([_taylor(part, X * factor) for part in features.parts], dim=-1)
        case MaclaurinMap():
            return torch.cat([_maclaurin(part, X * factor) for part in features.parts], dim=-1)
        case FeatureMap():  # of somebody's own, which may be differentiable as it is
            rows = X * factor
            with suppress(RuntimeError):
                values = features.evaluate(rows.flatten(end_dim=-2))
                if values.requires_grad or not rows.requires_grad:
                    return values.unflatten(0, rows.shape[:-1])
    raise InputError(
        f"{type(features).__name__} is not evaluated by torch, so that no lengthscale can be learned through it. Maps "
        f"that are: {SERVED}; and maps of your own whose evaluate() uses differentiable operations of torch alone."
    )


def _taylor(features: Any, X: torch.Tensor) -> torch.Tensor:
    """Multiply the powers of each column that make a monomial."""
    if not hasattr(features, "exponents_"):
        raise InputError("TaylorFeatures fitted to sparse rows is not evaluated by torch: fit it to an array.")
    scaled, rate = features.in_lengthscales(X), 0.5 if features.coef0_ is None else 0.0
    columns: torch.Tensor | None = None
    for column, (parents, exponents) in zip(scaled.unbind(dim=-1), features.steps_, strict=True):
        powers = [torch.exp(-rate * column.square())]
        for k in range(1, int(exponents.max()) + 1):
            powers.append(powers[-1] * column * k**-0.5)
        chosen = torch.stack(powers, dim=-1)[..., as_tensor(exponents)]
        columns = chosen if columns is None else columns[..., as_tensor(parents)] * chosen
    assert columns is not None  # rows have a column
    if features.coef0_ is not None:
        return columns * as_tensor(features.degree_factors()[features.exponents_.sum(axis=1)])
    far = vanishing(scaled.detach().square().sum(dim=-1, keepdim=True), features.degree_)
    return columns * ((~far).to(columns.dtype) * float(features.component_.variance) ** 0.5)


def _maclaurin(features: Any, X: torch.Tensor) -> torch.Tensor:
    """Multiply the projections of each degree, with the exponential and the coefficient inside the product."""
    scaled = features.in_lengthscales(X)
    squares = scaled.square().sum(dim=-1, keepdim=True)
    squares = torch.where(vanishing(squares.detach(), len(features.weights_) - 1), torch.inf, squares)
    blocks = []
    for degree, weights in enumerate(features.weights_):
        log_factor = features._log_coefficient(degree) + 0.5 * log(float(features.component_.variance))
        if degree == 0:
            blocks.append(torch.exp(log_factor - squares / 2.0).expand(*X.shape[:-1], weights.shape[1]))
            continue
        damped = scaled * torch.exp((log_factor - squares / 2.0) / degree)
        blocks.append(torch.stack([damped @ as_tensor(factor).T for factor in weights]).prod(dim=0))
    return torch.cat(blocks, dim=-1)


def from_gpytorch(model: Any, regressor: GaussianProcess | None = None) -> Any:
    """Make a fitted regressor of an exact model of GPyTorch, or a kernel of a kernel.

    Parameters
    ----------
    model : gpytorch.models.ExactGP or gpytorch.kernels.Kernel
        A model with a ZeroMean or a ConstantMean, a GaussianLikelihood or a FixedNoiseGaussianLikelihood, and a kernel
        of RBFKernel, MaternKernel, RQKernel, PeriodicKernel, LinearKernel, ScaleKernel, and their sums and products.
    regressor : unfitted regressor of this package, optional
        What is fitted to the model's training rows with its kernel, normal noise and mean, such as ``GPRegressor()``; a
        clone of it. ``ExactGPRegressor()`` if not given.

    Returns
    -------
    fitted regressor, or Kernel
        Its predictions are those of the model. Later changes of the model do not reach it.

    Raises
    ------
    InputError
        If a part has no counterpart, the message names it, and what is supported; or if the model's `forward` does more
        than its mean and kernel do, such as transform the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, GaussianKernel
    >>> from lmgp.gpytorch import from_gpytorch, to_gpytorch
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> model = ExactGPRegressor(GaussianKernel(0.8), 0.01).fit(X, np.sin(X[:, 0]))
    >>> again = from_gpytorch(to_gpytorch(model))
    >>> bool(np.allclose(again.predict(X), model.predict(X)))
    True
    """
    if isinstance(model, gpytorch.kernels.Kernel):
        return _own_kernel(model)
    if not isinstance(model, gpytorch.models.ExactGP):
        raise InputError(
            f"Exact models, gpytorch.models.ExactGP, and kernels convert; got {type(model).__name__}. Of an "
            "approximate model, convert its kernel: from_gpytorch(model.covar_module)."
        )
    mean, kernel = _part(model, "mean_module"), _own_kernel(_part(model, "covar_module"))
    if model.train_inputs is None or model.train_targets is None:
        raise InputError("The model has no training rows: make it with train_inputs and train_targets.")
    inputs, targets = model.train_inputs, model.train_targets
    if len(inputs) != 1 or inputs[0].ndim > 2 or targets.ndim != 1:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (*inputs, targets))
        raise InputError(f"One tensor of rows (n, d) and targets (n,) convert, not batches or tasks; got {shapes}.")
    X, y, center = _array(inputs[0]).reshape(len(targets), -1), _array(targets), _constant(mean)
    _check_forward(model, inputs[0][:: -(-len(y) // 20)], center, kernel)
    options: dict[str, Any] = {"center": center}
    noise = None
    match model.likelihood:
        case FixedNoiseGaussianLikelihood():
            options["noise_variances"] = np.broadcast_to(_array(model.likelihood.noise), y.shape).copy()
            noise = float(options["noise_variances"].mean())  # given, as all else
        case GaussianLikelihood() if model.likelihood.noise.numel() == 1:
            noise = model.likelihood.noise.item()
        case other:
            raise InputError(
                f"{type(other).__name__} has no counterpart here. Likelihoods that have: GaussianLikelihood and "
                "FixedNoiseGaussianLikelihood."
            )
    process = ExactGPRegressor() if regressor is None else clone(regressor)
    if not isinstance(process, GaussianProcess):
        raise InputError(f"regressor must be an unfitted regressor of this package, or None; got {regressor!r}.")
    return process.set_params(kernel=kernel, noise_variance=noise, noise="normal").fit(X, y, **options)


def _check_forward(model: Any, some: torch.Tensor, center: float, kernel: Kernel) -> None:
    """Refuse a model whose prior of some rows is not that of its mean and kernel, as where it transforms them."""
    with torch.no_grad():
        prior = model.forward(some)
    means, covariances = _array(prior.mean), _array(prior.covariance_matrix)
    expected = kernel(_array(some).reshape(len(some), -1))
    scale = np.abs(expected).max()
    near = np.allclose(covariances, expected, rtol=1e-3, atol=1e-3 * scale)
    if not near or not np.allclose(means, center, rtol=1e-3, atol=1e-3 * scale**0.5):
        raise InputError(
            "The forward of the model does more than its mean_module and covar_module do of the rows: it may transform "
            "them first, as deep kernels do. Such models have no counterpart here."
        )


class ExactModel(gpytorch.models.ExactGP):
    """The exact model of GPyTorch that `to_gpytorch` makes: a constant mean, and a kernel."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor, likelihood: Any, mean: float, kernel: Kernel) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean().double()
        self.mean_module.initialize(constant=torch.tensor(mean, dtype=torch.float64))
        self.covar_module = _library_kernel(kernel)

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Return the prior of rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def to_gpytorch(regressor: Any) -> Any:
    """Make an exact model of GPyTorch of a fitted exact regressor, or a kernel of a kernel.

    Parameters
    ----------
    regressor : ExactGPRegressor, GPRegressor or Kernel
        Fitted, with a constant mean; a `GPRegressor` that chose the exact model. Of ``metric="sphere"``, the rows of
        the model are those of `SphericalCoordinates`.

    Returns
    -------
    gpytorch.models.ExactGP or gpytorch.kernels.Kernel
        A model in evaluation mode, of float64, with its `likelihood`: a GaussianLikelihood, or a
        FixedNoiseGaussianLikelihood where rows have weights or noise variances of their own. Its observations are
        normal, whatever `noise_` says. ``model.train()`` goes on learning. A kernel of float64 has the same values of
        the parameters; those that are fixed are not learned.

    Raises
    ------
    InputError
        If the regressor is none of these, has a trend, averages kernels, its kernel has no counterpart, or the kernel
        sees columns on another scale, on turned axes or as other coordinates.
    """
    if isinstance(regressor, Kernel):
        return _library_kernel(regressor)
    fitted = isinstance(regressor, GPRegressor) and hasattr(regressor, "recipe_")
    exact = regressor.model_ if fitted else regressor
    if not isinstance(exact, ExactGPRegressor):
        raise InputError(
            f"ExactGPRegressor converts, and a GPRegressor that chose it; got {type(exact).__name__}. For a model of "
            "features, use FeatureKernel; its kernel alone converts by to_gpytorch(model.kernel_)."
        )
    check_is_fitted(regressor)
    fit, rows = exact._state(), exact._posterior().rows
    if fit.trend.estimated:
        raise InputError("A trend, whose coefficients have a flat prior, has no counterpart in GPyTorch: fit without.")
    if rows.n_targets > 1:
        raise InputError(f"A model of one target converts; this one has {rows.n_targets}. Fit one for each.")
    if len(fit.kernels) > 1:
        raise InputError(
            f"A model of one kernel converts; this one averages {len(fit.kernels)}: fit with average=False."
        )
    kinds = regressor._table.kinds
    if not all(one == OnSphere() or (isinstance(one, Numbers) and one.is_numeric and not one.scale) for one in kinds):
        raise InputError(
            "Columns that the kernel sees on another scale, on turned axes or as other coordinates have no "
            "counterpart in GPyTorch: fit to numbers, without columns, missing and rotate."
        )
    center = float(fit.centers[0])
    X, y = torch.from_numpy(rows.X.copy()), torch.from_numpy(rows.Y[:, 0] + center)
    if rows.weights is None and rows.noise_variances is None:
        constraint = gpytorch.constraints.GreaterThan(min(1e-4, fit.noise_variance / 10.0))
        likelihood = GaussianLikelihood(noise_constraint=constraint).double()
        likelihood.initialize(noise=torch.tensor([fit.noise_variance], dtype=torch.float64))
    else:
        noises = np.full(len(y), fit.noise_variance) if rows.noise_variances is None else rows.noise_variances
        each = noises if rows.weights is None else noises / rows.weights
        likelihood = FixedNoiseGaussianLikelihood(torch.from_numpy(np.array(each)))
    return ExactModel(X, y, likelihood, center, exact.kernel_).eval()


def _library_kernel(kernel: Any) -> Any:
    """Return GPyTorch's kernel with the values of a kernel of this package; a subclass may be another function."""
    match type(kernel):
        case kernels.GaussianKernel:
            return _stationary(gpytorch.kernels.RBFKernel, kernel)
        case kernels.MaternKernel:
            return _stationary(gpytorch.kernels.MaternKernel, kernel, nu=float(kernel.smoothness))
        case kernels.RationalQuadraticKernel:
            return _stationary(gpytorch.kernels.RQKernel, kernel)
        case kernels.PeriodicKernel:
            return _periodic(kernel)
        case kernels.LinearKernel if kernel.matrix is None and not np.any(kernel.center):
            shape = np.shape(kernel.variance)
            linear = gpytorch.kernels.LinearKernel(ard_num_dims=shape[0] if shape else None).double()
            linear.initialize(variance=torch.from_numpy(np.array(kernel.variance, dtype=np.float64)))
            linear.raw_variance.requires_grad_(not kernel.parameters[0].fixed)
            return linear
        case kernels.ColumnsKernel if any(isinstance(column, str) for column in kernel.listed):
            raise InputError(f"Kernels of GPyTorch have columns by index, and none by name; got {kernel.listed}.")
        case kernels.ColumnsKernel:
            inner, listed = _library_kernel(kernel.kernel), torch.tensor(kernel.listed)
            inner.active_dims = listed if inner.active_dims is None else listed[inner.active_dims]
            return inner
        case kernels.SumKernel:
            # A sum of the operator + would lose the columns of a sum within it.
            return gpytorch.kernels.AdditiveKernel(_library_kernel(kernel.left), _library_kernel(kernel.right))
        case kernels.ProductKernel:
            return gpytorch.kernels.ProductKernel(_library_kernel(kernel.left), _library_kernel(kernel.right))
        case kernels.ScaledKernel:
            return _scaled(_library_kernel(kernel.kernel), checked_factor(kernel.factor), learned=False)
    raise InputError(
        f"{' '.join(repr(kernel).split())} has no counterpart in GPyTorch. Kernels that have: GaussianKernel, "
        "MaternKernel, RationalQuadraticKernel, PeriodicKernel, LinearKernel without a matrix and a center, and their "
        "sums, products and multiples, of all or some columns."
    )


def _stationary(cls: Any, kernel: StationaryKernel, **options: Any) -> Any:
    """Return a kernel of GPyTorch of a class, times the variance."""
    shape = np.shape(kernel.lengthscale)
    twin = cls(ard_num_dims=shape[0] if shape else None, **options).double()
    learned = {}
    for parameter in kernel.parameters:
        learned[parameter.name] = not parameter.fixed
        if parameter.name != "variance":
            twin.initialize(**{parameter.name: torch.from_numpy(np.array(parameter.value))})
            getattr(twin, f"raw_{parameter.name}").requires_grad_(learned[parameter.name])
    return _scaled(twin, float(kernel.variance), learned=learned["variance"])


def _periodic(kernel: PeriodicKernel) -> Any:
    """Return a periodic kernel of GPyTorch, whose lengthscale is the square of ours, times the variance."""
    period, square = np.broadcast_arrays(kernel.period, np.square(kernel.lengthscale))
    periodic = gpytorch.kernels.PeriodicKernel(**({"ard_num_dims": len(period)} if period.ndim else {})).double()
    periodic.initialize(period_length=torch.tensor(period.tolist(), dtype=torch.float64))
    periodic.initialize(lengthscale=torch.tensor(square.tolist(), dtype=torch.float64))
    by_period, by_lengthscale, by_variance = (not parameter.fixed for parameter in kernel.parameters)
    periodic.raw_period_length.requires_grad_(by_period)
    periodic.raw_lengthscale.requires_grad_(by_lengthscale)
    return _scaled(periodic, float(kernel.variance), learned=by_variance)


def _scaled(kernel: Any, factor: float, *, learned: bool) -> Any:
    """Multiply a kernel of GPyTorch by a factor, which is a parameter that can be learned, or not."""
    scaled = gpytorch.kernels.ScaleKernel(kernel).double()
    scaled.initialize(outputscale=torch.tensor(factor, dtype=torch.float64))
    scaled.raw_outputscale.requires_grad_(learned)
    return scaled


def _own_kernel(kernel: Any) -> Kernel:
    """Return the kernel of this package with the values of one of GPyTorch."""
    if kernel.batch_shape:
        raise InputError(f"{type(kernel).__name__} is batched: only single kernels convert.")
    counterpart = _own_kernel_of_columns(kernel)
    # A multiple of a kernel of some columns has its active_dims, too, and takes them once.
    return counterpart if kernel.active_dims is None else counterpart.on(kernel.active_dims.tolist())


def _own_kernel_of_columns(kernel: Any) -> Kernel:
    match type(kernel):  # a subclass may be another function
        case gpytorch.kernels.ScaleKernel:
            inner, factor = _own_kernel_of_columns(kernel.base_kernel), kernel.outputscale.item()
            if isinstance(inner, StationaryKernel | PeriodicKernel):
                return inner.set_params(variance=float(inner.variance) * factor)
            return ScaledKernel(inner, factor)
        case gpytorch.kernels.RBFKernel:
            return GaussianKernel(_numbers(kernel, kernel.lengthscale))
        case gpytorch.kernels.MaternKernel:
            return MaternKernel(_numbers(kernel, kernel.lengthscale), smoothness=float(kernel.nu))
        case gpytorch.kernels.RQKernel:
            return RationalQuadraticKernel(_numbers(kernel, kernel.lengthscale), alpha=kernel.alpha.item())
        case gpytorch.kernels.PeriodicKernel:
            period, square = (_numbers(kernel, parameter) for parameter in (kernel.period_length, kernel.lengthscale))
            return PeriodicKernel(period, np.sqrt(square) if np.ndim(square) else square**0.5)
        case gpytorch.kernels.LinearKernel:
            return LinearKernel(variance=_numbers(kernel, kernel.variance))
        case gpytorch.kernels.AdditiveKernel:
            return reduce(add, map(_own_kernel, kernel.kernels))
        case gpytorch.kernels.ProductKernel:
            return reduce(mul, map(_own_kernel, kernel.kernels))
    raise InputError(
        f"{type(kernel).__name__} of GPyTorch has no counterpart here. Kernels that have: RBFKernel, MaternKernel, "
        "RQKernel, PeriodicKernel, LinearKernel, AdditiveKernel, ProductKernel and ScaleKernel."
    )


def _numbers(kernel: Any, parameter: torch.Tensor) -> Any:
    """Return a parameter of a kernel of GPyTorch: one number, or one a column."""
    values = _array(parameter).ravel()
    return values if kernel.ard_num_dims else float(values[0])


def _part(model: Any, name: str) -> Any:
    value = getattr(model, name, None)
    if value is None:
        raise InputError(
            f"The model has no {name}, by which models of GPyTorch name their mean and kernel; got a "
            f"{type(model).__name__} with {', '.join(name for name, _ in model.named_children())}."
        )
    return value


def _constant(mean: Any) -> float:
    """Return the value of a mean function that is constant."""
    if isinstance(mean, gpytorch.means.ConstantMean) and mean.constant.numel() == 1:
        return float(mean.constant.item())
    if type(mean) is gpytorch.means.ZeroMean:
        return 0.0
    raise InputError(
        f"{type(mean).__name__} has no counterpart here. Means that have: ConstantMean and ZeroMean; for a linear mean "
        "fit ExactGPRegressor(trend='linear') to the same rows."
    )


def _array(values: torch.Tensor) -> Any:
    return values.detach().cpu().numpy().astype(np.float64)


def _lengthscale(feature_map: Any) -> Any:
    """Return the lengthscale of the one stationary kernel of a map, or of that it will have; 1 of others."""
    kernel = getattr(feature_map, "kernel_" if _is_fitted(feature_map) else "kernel", None)
    return kernel.lengthscale if isinstance(kernel, StationaryKernel) else 1.0


def _is_fitted(feature_map: Any) -> bool:
    return hasattr(feature_map, "n_features_out_")
