"""Hyper-parameters from sums alone: the likelihood of the modes, at a cost that no number of rows changes."""

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lmgp.errors import InputError
from lmgp.inference.learning import SEARCH, Hyperparameters
from lmgp.inference.scales import RANGES, Units, scales_of
from lmgp.kernels.base import Kernel
from lmgp.memory import check_memory
from lmgp.spectral.modes import Modes
from lmgp.spectral.real import RealSums
from lmgp.spectral.sums import SpectralSums

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What learning from sums may take.

    Attributes
    ----------
    most : int
        Modes: the likelihood takes a Cholesky factor of that size.
    step : float
        Of the difference quotients of spectral densities, in logarithms of the parameters.
    at_end : float
        A logarithm that is nearer to a bound than this has reached it.
    """

    most: int = 6000
    step: float = 1e-5
    at_end: float = 1e-3


PLAN = Plan()


def learn_from_sums(
    sums: SpectralSums, kernel: Kernel, noise_variance: float | None = None, *, max_memory_gib: float | None = None
) -> Hyperparameters:
    """Maximise the log marginal likelihood of the rows that were summed; they may be gone.

    Only the prior variances of the modes depend on the kernel. One value takes O(M³) of M modes, whatever the number of
    rows. The search starts from what is given, and finds the nearest optimum.

    Parameters
    ----------
    sums : SpectralSums
        Such as `sums_` of a fitted `SpectralGPRegressor`.
    kernel : Kernel
        Of the form for which the modes were chosen. Its parameters are learned, but for fixed ones, and those without a
        unit, such as alpha; lengthscales within what the modes have room for.
    noise_variance : float, optional
        In squared units of y. If it is not given, it is learned where all rows have the same. Rows with noise
        variances of their own keep them.
    max_memory_gib : float, optional
        For the matrices of the modes, in GiB; the machine's memory if not given.

    Returns
    -------
    Hyperparameters

    Raises
    ------
    InputError
        If there are more modes than 6,000, the kernel is of another form, or y is constant.
    MemoryLimitError
        If the matrices take more memory.

    Warns
    -----
    ConvergenceWarning
        If the optimiser stopped for another reason than convergence, or where the modes have no more room.

    References
    ----------
    P. Greengard, M. Rachh and A. Barnett, *Equispaced Fourier Representations for Efficient Gaussian Process Regression
    from a Billion Data Points*, 2022: the sums do not depend on the kernel.
    """
    if not isinstance(sums, SpectralSums):
        raise InputError(
            f"sums must be what a fitted SpectralGPRegressor has as sums_; got {type(sums).__name__}. For rows use "
            "lmgp.learn."
        )
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel must be a kernel, such as the model's kernel_; got {kernel!r}.")
    modes, shared = sums.modes, sums.shared_noise
    _check(sums, max_memory_gib)
    learns_noise = noise_variance is None and shared is not None
    given = sums.source.noise.variance if noise_variance is None else float(noise_variance)
    if shared is not None:
        # Relative to their own noise, precisions are weights.
        sums = sums.with_noise(replace(sums.source.noise, variance=shared), shared)
    elif given != sums.source.noise.variance:
        raise InputError(
            f"The rows have noise variances of their own, relative to {sums.source.noise.variance:g}: no other noise "
            f"variance can be given; got {given:g}. Leave out noise_variance."
        )
    variance = float(sums.products[0, 0] / sums.products[1, 1])
    likelihood = SpectralLikelihood(sums)
    bounds = _bounds(modes, kernel, variance)
    start = kernel.theta
    if learns_noise:
        bounds = np.vstack((bounds, math.log(variance) + np.log(RANGES.noise)))
        start = np.append(start, math.log(given))

    def objective(free: Floats) -> tuple[float, Floats]:
        theta, noise = free[: len(kernel.theta)], math.exp(free[-1]) if learns_noise else given
        value, gradient = likelihood(kernel, theta, noise)
        if not math.isfinite(value):
            # Far above any value, so that the line search turns back.
            return 1e10, np.zeros_like(free)
        return -value / sums.n, -gradient[: len(free)] / sums.n

    options = {"maxiter": SEARCH.n_iterations, "ftol": SEARCH.tolerance, "gtol": SEARCH.gradient}
    best = minimize(objective, np.clip(start, *bounds.T), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    slope = np.abs(np.clip(best.x - best.jac, *bounds.T) - best.x)
    converged = bool(best.success) or float(slope.max(initial=0.0)) < SEARCH.rounding_gradient
    if not converged:
        warnings.warn(
            f"The marginal likelihood of the modes was not maximised to convergence: {best.message}. Where the noise "
            "is small, give a smaller tolerance to fit.",
            ConvergenceWarning,
            stacklevel=2,
        )
    learned = kernel.with_theta(best.x[: len(kernel.theta)])
    _warn_of_ends(modes, learned, bounds)
    return Hyperparameters(learned, math.exp(best.x[-1]) if learns_noise else given, -best.fun * sums.n, converged)


class SpectralLikelihood:
    """The log marginal likelihood of sums, as a function of a kernel's free parameters and of the noise.

    Parameters
    ----------
    sums : SpectralSums
        With ρ = w where all rows have one noise variance.
    """

    def __init__(self, sums: SpectralSums) -> None:
        self._real, self._modes, self._noise = RealSums(sums), sums.modes, sums.source.noise
        self._products = self._real.products()
        self._shared = sums.shared_noise is not None

    def __call__(self, kernel: Kernel, theta: Floats, noise_variance: float) -> tuple[float, Floats]:
        """Return the value in nats and its gradient.

        Parameters
        ----------
        kernel : Kernel
        theta : ndarray of shape (n_free,)
            Logarithms of the kernel's free parameters.
        noise_variance : float

        Returns
        -------
        value : float
            Not a number where float64 does not allow a Cholesky factorisation.
        gradient : ndarray of shape (n_free + 1,)
            By `theta`, and by the logarithm of the noise variance last.
        """
        weights, left_out = self._prior(kernel, theta)
        # What the modes leave out of the prior variance is noise of the rows.
        noise = noise_variance + left_out
        value, by_weights, by_noise = self._of_weights(weights, noise)
        slopes = []
        for one in np.eye(len(theta)) * PLAN.step:
            (more, more_out), (less, less_out) = (self._prior(kernel, theta + step) for step in (one, -one))
            slopes.append((by_weights @ (more - less) + by_noise * (more_out - less_out)) / (2.0 * PLAN.step))
        return value, np.append(slopes, by_noise * noise_variance)

    def _prior(self, kernel: Kernel, theta: Floats) -> tuple[Floats, float]:
        """Return the prior variance of the constant, cosines and sines, and what they leave out for the rows."""
        kernel = kernel.with_theta(theta)
        weights = self._real.of_modes(self._modes.weights(kernel))
        counted = self._shared and self._noise.counts_missing
        return weights, max(0.0, kernel.prior_variance() - float(weights.sum())) if counted else 0.0

    def _of_weights(self, weights: Floats, noise: float) -> tuple[float, Floats, float]:
        """Return the value, its gradient by the prior variances of the modes, and its derivative by the noise.

        With A = W^{1/2}FᵀPFW^{1/2} + σ²I and α = A⁻¹W^{1/2}FᵀPy: 2 ∂/∂log wⱼ = αⱼ² − (1 − σ²(A⁻¹)ⱼⱼ).
        """
        real, roots = self._real, np.sqrt(weights)
        matrix = torch.from_numpy(roots[:, None] * self._products * roots)
        matrix.diagonal().add_(noise)
        factor, info = torch.linalg.cholesky_ex(matrix)
        if info != 0:
            return math.nan, np.zeros_like(weights), 0.0
        right = torch.from_numpy(roots * real.cross)
        alpha = torch.cholesky_solve(right[:, None], factor)[:, 0]
        inverse = torch.cholesky_inverse(factor).diagonal().numpy()
        fit = real.square - float(right @ alpha)
        value = real.log_likelihood(fit, 2.0 * float(factor.diagonal().log().sum()), noise)
        squares = alpha.square().numpy()
        # A mode without a prior variance has nothing to lose: its share of the gradient is 0.
        shares = np.divide(squares - (1.0 - noise * inverse), weights, out=np.zeros_like(weights), where=weights > 0.0)
        beyond = (real.n - len(weights) - fit / noise) / noise
        return value, 0.5 * shares, -0.5 * float(beyond + squares.sum() / noise + inverse.sum())


def _check(sums: SpectralSums, max_memory_gib: float | None) -> None:
    n_modes = sums.modes.n_modes
    if n_modes > PLAN.most:
        raise InputError(
            f"Learning from sums takes a Cholesky factor of the modes, and up to {PLAN.most:,} of them; these are sums "
            f"of {n_modes:,}. Fit with a larger tolerance or less room, or learn from rows: lmgp.learn."
        )
    check_memory(
        32.0 * n_modes**2, f"The matrices of {n_modes:,} modes", "Fit with a larger tolerance.", max_memory_gib
    )
    if not float(sums.products[0, 0]) > 0.0:
        raise InputError("y is constant: no hyper-parameters can be learned from its sums.")


def _bounds(modes: Modes, kernel: Kernel, variance: float) -> Floats:
    """Return the logarithms of the bounds of a kernel's free parameters."""
    free = [one for one in kernel.checked(len(modes.low)).parameters if not one.fixed]
    own = _of_same_form(kernel, modes)
    middle = np.log(np.concatenate([np.empty(0), *(own[one.name].ravel() for one in free)]))
    scales = scales_of(kernel, Units(1.0, np.ones(len(modes.low)), variance))
    room = math.log(modes.room)
    reach = [
        (center - room, center + room) if scale.kind == "lengthscale"
        else tuple(math.log(scale.unit) + np.log(scale.bounds)) if scale.kind == "variance"
        else (theta, theta)
        for center, theta, scale in zip(middle, kernel.theta, scales, strict=True)
    ]  # fmt: skip
    low, high = np.array(reach).reshape(-1, 2).T
    bounds = np.stack((np.maximum(low, kernel.bounds[:, 0]), np.minimum(high, kernel.bounds[:, 1])), axis=1)
    if np.any(bounds[:, 0] > bounds[:, 1]):
        raise InputError(
            f"The bounds of {kernel!r} leave nothing of what the modes serve: lengthscales up to {modes.room:g} times "
            f"shorter or longer than those of {modes.kernel!r}. Fit with more room."
        )
    return bounds


def _of_same_form(kernel: Kernel, modes: Modes) -> dict[str, Floats]:
    """Return the parameters of the kernel for which the modes were chosen, after checking that the other is like it."""
    own = {one.name: one.value for one in modes.kernel.parameters}
    same = {one.name: one.value.shape for one in kernel.parameters} == {name: one.shape for name, one in own.items()}
    if same:
        values = {name: float(one) if one.ndim == 0 else one for name, one in own.items()}
        densities = [
            one.spectral_density(modes.frequencies) if one.can("spectral_density") else np.zeros(1)
            for one in (clone(kernel).set_params(**values), modes.kernel)
        ]
        found, expected = densities
        same = found.shape == expected.shape and np.allclose(found, expected, rtol=1e-9, atol=0.0)
    if not same:
        raise InputError(
            f"The sums are on modes for {modes.kernel!r}, and serve kernels of that form; got {kernel!r}. Fit a model "
            "with that kernel."
        )
    return own


def _warn_of_ends(modes: Modes, kernel: Kernel, bounds: Floats) -> None:
    """Warn where a lengthscale has come to an end of the modes' room."""
    names = [one.name for one in kernel.parameters if not one.fixed for _ in range(one.value.size)]
    at_end = np.any(np.abs(kernel.theta[:, None] - bounds[: len(names)]) < PLAN.at_end, axis=1)
    ended = sorted({name for name, end in zip(names, at_end, strict=True) if end and name.endswith("lengthscale")})
    if ended and modes.room > 1.0:
        warnings.warn(
            f"Learning has reached an end of the room of the modes or of the bounds: {', '.join(ended)} of {kernel!r}. "
            "Fit again, with this kernel or more room.",
            ConvergenceWarning,
            stacklevel=3,
        )
