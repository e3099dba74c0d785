"""Hyper-parameters by maximum marginal likelihood of the exact Gaussian process."""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product

import gpytorch
import numpy as np
import torch
from linear_operator.utils.errors import NanError, NotPSDError
from linear_operator.utils.warnings import NumericalWarning as JitterWarning
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from scipy.spatial.distance import pdist
from sklearn.exceptions import ConvergenceWarning

from lmgp.errors import InputError
from lmgp.kernels.stationary import GaussianKernel
from lmgp.linalg import cholesky, solve_lower
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]

# The likelihood has several optima: short lengthscale and large noise against long lengthscale and small noise.
START_LENGTHSCALES = (0.1, 0.3, 1.0)  # in median pairwise distances
START_NOISES = (0.01, 0.1, 0.5)  # in variances of y
START_ROWS = 800

# In the internal units: far outside of what data can tell apart, and well inside of what float64 can factorise.
LENGTHSCALE_BOUNDS = (1e-4, 1e4)
VARIANCE_BOUNDS = (1e-6, 1e6)
NOISE_BOUNDS = (1e-8, 1e3)

# Relative to the negative log likelihood per row: enough to tell optima apart, and as far as rounding lets it fall.
START_TOLERANCE = 1e-7
TOLERANCE = 1e-13

# Of the gradient of the negative log likelihood per row. Where rounding stops the line search first, a gradient below
# the second one still counts as converged: no step along it changes the likelihood by more than its rounding.
GRADIENT_TOLERANCE = 1e-6
ROUNDING_GRADIENT = 1e-4

# Stands for the value where there is none; far above any, so that the line search turns back.
FAILED = 1e10


@dataclass(frozen=True)
class Hyperparameters:
    """What `maximize_likelihood` found.

    Attributes
    ----------
    kernel : GaussianKernel
    noise_variance : float
    log_marginal_likelihood : float
        Of the rows that were used, in nats and in the caller's units of y.
    converged : bool
        Whether the optimiser reached an optimum; True where nothing was to be optimised.
    """

    kernel: GaussianKernel
    noise_variance: float
    log_marginal_likelihood: float
    converged: bool


def maximize_likelihood(
    rows: Rows,
    *,
    kernel: GaussianKernel | None = None,
    noise_variance: float | None = None,
    ard: bool = False,
    max_rows: int = 2000,
    rng: np.random.Generator,
) -> Hyperparameters:
    """Learn those hyper-parameters that are not given.

    From nine starts on at most 800 rows; the best is refined on at most `max_rows`, both to convergence. The work is
    done in internal units: y divided by its standard deviation, X by its median pairwise distance.

    Parameters
    ----------
    rows : Rows
        With y centred. Rows with a noise variance of their own keep it.
    kernel : GaussianKernel, optional
    noise_variance : float, optional
        In squared units of y.
    ard : bool, default=False
        Learn one lengthscale a column instead of one for all.
    max_rows : int, default=2000
    rng : numpy.random.Generator
        Draws the rows where there are more.

    Returns
    -------
    Hyperparameters

    Raises
    ------
    InputError
        If a kernel is to be learned from rows of X that are all the same.

    Warns
    -----
    ConvergenceWarning
        If the optimiser stopped for another reason than convergence.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, section 5.4.1.
    """
    if noise_variance is None and rows.noise_variances is not None:
        # Every row brings its own: what is reported stands for the noise of a new row.
        noise_variance = float(np.average(rows.noise_variances, weights=rows.weights))
    order = rng.permutation(len(rows.y))
    used, few = (rows.take(np.sort(order[:size])) for size in (max_rows, min(max_rows, START_ROWS)))
    if kernel is not None and noise_variance is not None:
        return Hyperparameters(kernel, noise_variance, log_likelihood(used, kernel, noise_variance), converged=True)
    # The units are those of the smaller sample for both, so that the refinement starts where the best start ended.
    units = _units(few, learns_kernel=kernel is None)
    coarse, fine = (_Objective(sample, units, kernel, noise_variance, ard) for sample in (few, used))
    starts = [
        coarse.start(lengthscale, noise)
        for lengthscale, noise in product(
            START_LENGTHSCALES if kernel is None else (1.0,), START_NOISES if noise_variance is None else (0.1,)
        )
    ]
    with _exact_factorisations():
        results = parallel_map(lambda start: _optimize(coarse, start, START_TOLERANCE), starts)
        best = _optimize(fine, min(results, key=lambda result: float(result.fun)).x, TOLERANCE)
    converged = bool(best.success) or fine.largest_slope(best) < ROUNDING_GRADIENT
    if not converged:
        warnings.warn(
            f"The marginal likelihood was not maximised to convergence: {best.message} after {best.nit} iterations on "
            f"{len(used.y)} rows. Targets without any noise and extreme values in X or y make it ill-conditioned: "
            "check for them, or give noise_variance.",
            ConvergenceWarning,
            stacklevel=3,
        )
    learned, learned_noise = fine.hyperparameters(best.x)
    return Hyperparameters(learned, learned_noise, log_likelihood(used, learned, learned_noise), converged)


def log_likelihood(rows: Rows, kernel: GaussianKernel, noise_variance: float) -> float:
    """Compute the log marginal likelihood of rows with centred y, in nats.

    Parameters
    ----------
    rows : Rows
    kernel : GaussianKernel
    noise_variance : float
        Of the rows without a noise variance of their own.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 2.30.
    """
    covariance = as_tensor(kernel(rows.X))
    noise, weights = noise_and_weights(rows, noise_variance)
    covariance.diagonal().add_(noise / weights)
    factor = cholesky(covariance)
    whitened = solve_lower(factor, as_tensor(rows.y)[:, None])
    log_determinant = 2.0 * factor.diagonal().log().sum()
    constant = len(rows.y) * math.log(2.0 * math.pi)
    return float(-0.5 * (whitened.square().sum() + log_determinant + constant + _repetitions(noise, weights)))


def noise_and_weights(rows: Rows, noise_variance: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row's noise variance σ² and weight w, each of shape (n,).

    A row of weight w is w equal rows, which say as much about f as one with the noise σ²/w.
    """
    ones = torch.ones(len(rows.y), dtype=torch.float64)
    return Noise(noise_variance).of_rows(rows), ones if rows.weights is None else as_tensor(rows.weights)


def _repetitions(noise: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """−2 times what w equal rows add to the log likelihood of one row with the noise σ²/w, summed over rows."""
    return (weights - 1.0) @ torch.log(2.0 * math.pi * noise) + torch.log(weights).sum()


@contextmanager
def _exact_factorisations() -> Iterator[None]:
    """Let GPyTorch use Cholesky factors, and fail where float64 does not allow one.

    What needs jitter is a step too far, not a value. The settings are the whole process's: made once, for all threads.
    """
    with warnings.catch_warnings(), gpytorch.settings.fast_computations(False, False, False):
        warnings.simplefilter("error", JitterWarning)
        yield


def _optimize(objective: "_Objective", start: Floats, tolerance: float) -> OptimizeResult:
    return minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=objective.bounds,
        options={"maxiter": 500, "ftol": tolerance, "gtol": GRADIENT_TOLERANCE},
    )


class _Objective:
    """The negative log marginal likelihood per row, as a function of the logarithms of what is free.

    The vector holds, as far as they are free, the lengthscale (one, or one a column), the variance and the noise
    variance, in internal units.
    """

    def __init__(
        self,
        rows: Rows,
        units: tuple[float, float],
        kernel: GaussianKernel | None,
        noise_variance: float | None,
        ard: bool,
    ) -> None:
        self.fixed_kernel, self.fixed_noise = kernel, noise_variance
        self.input_unit, self.target_unit = units
        n_lengthscales = rows.X.shape[1] if ard else 1
        self.sizes = [n_lengthscales * (kernel is None), int(kernel is None), int(noise_variance is None)]
        self.bounds = [
            (math.log(low), math.log(high))
            for size, (low, high) in zip(self.sizes, (LENGTHSCALE_BOUNDS, VARIANCE_BOUNDS, NOISE_BOUNDS), strict=True)
            for _ in range(size)
        ]
        # Centred: GPyTorch's distances go through inner products, which lose their digits far from the origin.
        self.X = as_tensor((rows.X - rows.X.mean(axis=0)) / self.input_unit)
        self.y = as_tensor(rows.y / self.target_unit)
        noise, self.weights = noise_and_weights(rows, 1.0)
        self.row_noise = None if rows.noise_variances is None else noise / self.target_unit**2
        self.n = float(self.weights.sum())

    def start(self, lengthscale: float, noise: float) -> Floats:
        """The logarithms of a starting point: a lengthscale for all columns and the noise's share of var(y)."""
        values = [[lengthscale] * self.sizes[0], [1.0 - noise] * self.sizes[1], [noise] * self.sizes[2]]
        return np.log(np.concatenate(values))

    def __call__(self, free: Floats) -> tuple[float, Floats]:
        parameters = torch.from_numpy(np.array(free)).requires_grad_()
        try:
            value = -self._log_likelihood(parameters) / self.n
        except (JitterWarning, NotPSDError, NanError):
            return FAILED, np.zeros_like(free)
        (gradient,) = torch.autograd.grad(value, parameters)
        return value.item(), gradient.numpy()

    def _unpack(self, free: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Lengthscale, variance and noise variance in internal units, from the free parameters or as given."""
        lengthscale, variance, noise = torch.split(torch.exp(free), self.sizes)
        if self.fixed_kernel is not None:
            lengthscale = torch.atleast_1d(torch.as_tensor(self.fixed_kernel.lengthscale, dtype=torch.float64))
            lengthscale = lengthscale / self.input_unit
            variance = torch.tensor([self.fixed_kernel.variance / self.target_unit**2], dtype=torch.float64)
        if self.fixed_noise is not None:
            noise = torch.tensor([self.fixed_noise / self.target_unit**2], dtype=torch.float64)
        return lengthscale, variance, noise

    def _log_likelihood(self, free: torch.Tensor) -> torch.Tensor:
        """Return log p(y) of y in its internal unit, as GPyTorch computes it."""
        lengthscale, variance, noise = self._unpack(free)
        kernel = gpytorch.kernels.RBFKernel().double().initialize(lengthscale=1.0)
        noise = noise.expand_as(self.y) if self.row_noise is None else self.row_noise
        covariance = (kernel(self.X / lengthscale) * variance).add_diagonal(noise / self.weights)
        density = gpytorch.distributions.MultivariateNormal(torch.zeros_like(self.y), covariance)
        return density.log_prob(self.y) - 0.5 * _repetitions(noise, self.weights)

    def largest_slope(self, result: OptimizeResult) -> float:
        """The largest component of the gradient that does not point out of the bounds."""
        low, high = np.transpose(self.bounds)
        return float(np.max(np.abs(np.clip(result.x - result.jac, low, high) - result.x)))

    def hyperparameters(self, free: Floats) -> tuple[GaussianKernel, float]:
        """Convert to the caller's units."""
        lengthscale, variance, noise = (part.numpy() for part in self._unpack(torch.from_numpy(np.array(free))))
        learned = lengthscale * self.input_unit
        kernel = self.fixed_kernel or GaussianKernel(
            learned if len(learned) > 1 else float(learned[0]), float(variance[0]) * self.target_unit**2
        )
        return kernel, self.fixed_noise or float(noise[0]) * self.target_unit**2


def _units(rows: Rows, learns_kernel: bool) -> tuple[float, float]:
    """The median pairwise distance of the rows and the standard deviation of y.

    Where the kernel is given, data without spread are fine, and any unit serves.
    """
    distances = pdist(rows.X)
    positive = distances[distances > 0]
    spread = float(rows.y.std())
    if learns_kernel and len(positive) == 0:
        raise InputError(
            "All rows of X are the same: no lengthscale can be learned from them. Give kernel=GaussianKernel(...), or "
            "check the input columns."
        )
    if learns_kernel and spread == 0:
        raise InputError(
            f"y is constant in the random sample of {len(rows.y)} rows from which hyper-parameters are learned. Raise "
            "max_rows, or give kernel and noise_variance."
        )
    # With many repeated rows the median can be zero.
    median = float(np.median(distances))
    return (median or float(positive.mean())) if len(positive) else 1.0, spread or 1.0
