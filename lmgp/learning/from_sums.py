"""Hyper-parameters from sums alone: the likelihood of the modes, at a cost that no number of rows changes."""

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lmgp.data import Floats
from lmgp.errors import InputError, warn
from lmgp.kernels.base import Kernel
from lmgp.learning.record import Learned
from lmgp.learning.space import RANGES, parameter_units
from lmgp.posteriors.modes import Modes
from lmgp.posteriors.spectral import ModeStatistics, mode_log_density
from lmgp.posteriors.toeplitz import RealModes
from lmgp.sums.modes import ModeSums
from lmgp.utils.lazy import torch
from lmgp.utils.memory import check_memory

# The most modes: the likelihood takes a Cholesky factor of that size.
MOST_MODES = 6000
# Of the difference quotients of spectral densities, in logarithms of the parameters.
STEP = 1e-5
# A logarithm that is nearer to a bound than this has reached it.
AT_END = 1e-3
# The optimiser stops where a step raises the likelihood by less than the tolerance, relative to it, or where no slope
# per row is above `gtol`; where rounding stops the line search first, slopes below `ROUNDING_SLOPE` are its maximum.
OPTIONS = {"maxiter": 500, "ftol": 1e-11, "gtol": 1e-6}
ROUNDING_SLOPE = 1e-4
# Below this share of the sums of squares, what centring leaves of them is rounding.
CONSTANT = 1e-14


def learn_from_sums(
    sums: ModeSums, kernel: Kernel, noise_variance: float | None = None, *, max_memory_gib: float | None = None
) -> Learned:
    """Maximise the log marginal likelihood of the rows that were summed; they may be gone.

    Only the prior variances of the modes depend on the kernel. One value takes O(M³) of M modes, whatever the number of
    rows. The search starts from what is given, and finds the nearest optimum.

    Parameters
    ----------
    sums : ModeSums
        Such as `sums_` of a fitted `SpectralGPRegressor`. The likelihoods of several targets are added.
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
    Learned

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
    if not isinstance(sums, ModeSums):
        raise InputError(
            f"sums must be what a fitted SpectralGPRegressor has as sums_; got {type(sums).__name__}. For rows use "
            "lmgp.learn."
        )
    if not isinstance(kernel, Kernel):
        raise InputError(f"kernel must be a kernel, such as the model's kernel_; got {kernel!r}.")
    raw = sums.settled.statistics
    statistics = raw.centred()
    targets, noise, modes = statistics.targets, statistics.plan.noise, statistics.plan.modes
    variance = float(targets.products.trace()) / statistics.precision / len(targets.totals)
    _check(modes, max_memory_gib)
    if variance * statistics.precision <= CONSTANT * float(raw.targets.products.trace()):
        raise InputError("y is constant: no hyper-parameters can be learned from its sums.")
    shared = statistics.shared_noise
    learns_noise = noise_variance is None and shared is not None
    given = noise.variance if noise_variance is None else float(noise_variance)
    if shared is not None:
        # Relative to their own noise, precisions are weights.
        statistics = statistics.with_noise(replace(noise, variance=shared), shared)
    elif given != noise.variance:
        raise InputError(
            f"The rows have noise variances of their own, relative to {noise.variance:g}: no other noise variance can "
            f"be given; got {given:g}. Leave out noise_variance."
        )
    likelihood = ModeLikelihood(statistics)
    bounds, start, n_free, n = _bounds(modes, kernel, variance), kernel.theta, len(kernel.theta), targets.n
    if learns_noise:
        bounds = np.vstack((bounds, math.log(variance) + np.log(RANGES["noise"])))
        start = np.append(start, math.log(given))

    def objective(free: Floats) -> tuple[float, Floats]:
        value, gradient = likelihood(kernel, free[:n_free], math.exp(free[-1]) if learns_noise else given)
        if not math.isfinite(value):
            # Far above any value, so that the line search turns back.
            return 1e10, np.zeros_like(free)
        return -value / n, -gradient[: len(free)] / n

    best = minimize(objective, np.clip(start, *bounds.T), jac=True, method="L-BFGS-B", bounds=bounds, options=OPTIONS)
    slope = np.abs(np.clip(best.x - best.jac, *bounds.T) - best.x)
    converged = bool(best.success) or float(slope.max(initial=0.0)) < ROUNDING_SLOPE
    if not converged:
        warn(
            f"The marginal likelihood of the modes was not maximised to convergence: {best.message}. Where the noise "
            "is small, give a smaller tolerance to fit.",
            ConvergenceWarning,
        )
    learned = kernel.with_theta(best.x[:n_free])
    _warn_of_ends(modes, learned, bounds)
    return Learned(learned, math.exp(best.x[-1]) if learns_noise else given, -best.fun * n, converged)


class ModeLikelihood:
    """The log marginal likelihood of sums, as a function of a kernel's free parameters and of the noise.

    Parameters
    ----------
    statistics : ModeStatistics
        Of centred targets, whose likelihoods are added; with ρ = w where all rows have one noise variance.
    """

    def __init__(self, statistics: ModeStatistics) -> None:
        plan = statistics.plan
        self._modes, self._targets = plan.modes, statistics.targets
        self._real = RealModes(np.ones(plan.modes.shape, dtype=np.bool_))
        self._gram, self._cross = self._real.gram(statistics.generator), self._real.of_vectors(statistics.cross)
        self._counts_missing = statistics.shared_noise is not None and plan.noise.counts_missing

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
        value, by_weights, by_noise = self._of_weights(weights, noise_variance + left_out)
        slopes = []
        for step in np.eye(len(theta)) * STEP:
            (more, more_out), (less, less_out) = (self._prior(kernel, theta + change) for change in (step, -step))
            slopes.append((by_weights @ (more - less) + by_noise * (more_out - less_out)) / (2.0 * STEP))
        return value, np.append(slopes, by_noise * noise_variance)

    def _prior(self, kernel: Kernel, theta: Floats) -> tuple[Floats, float]:
        """Return the prior variance of the constant, cosines and sines, and what they leave out for the rows."""
        kernel = kernel.with_theta(theta)
        weights = self._real.of_modes(self._modes.weights(kernel))
        left_out = max(0.0, kernel.prior_variance() - float(weights.sum()))
        return weights, left_out if self._counts_missing else 0.0

    def _of_weights(self, weights: Floats, noise: float) -> tuple[float, Floats, float]:
        """Return the value, its gradient by the prior variances of the modes, and its derivative by the noise.

        With A = W^{1/2}FᵀPFW^{1/2} + σ²I and α = A⁻¹W^{1/2}FᵀPy: 2 ∂/∂log wⱼ = αⱼ² − (1 − σ²(A⁻¹)ⱼⱼ).
        """
        targets, roots, (t, n_modes) = self._targets, np.sqrt(weights), self._cross.shape
        matrix = torch.from_numpy(roots[:, None] * self._gram * roots)
        matrix.diagonal().add_(noise)
        factor, info = torch.linalg.cholesky_ex(matrix)
        if info != 0:
            return math.nan, np.zeros_like(weights), 0.0
        right = torch.from_numpy(roots * self._cross)
        alpha = torch.cholesky_solve(right.T, factor).T
        inverse = torch.cholesky_inverse(factor).diagonal().numpy()
        fits = targets.products.diagonal() - (right * alpha).sum(dim=1).numpy()
        log_determinant = 2.0 * float(factor.diagonal().log().sum())
        value = float(mode_log_density(fits, log_determinant, targets, n_modes, noise).sum())
        squares = alpha.square().sum(dim=0).numpy()
        # A mode without a prior variance has nothing to lose: its share of the gradient is 0.
        changes = squares - t * (1.0 - noise * inverse)
        shares = np.divide(changes, weights, out=np.zeros_like(weights), where=weights > 0.0)
        beyond = (t * (targets.n - n_modes) - fits.sum() / noise) / noise
        return value, 0.5 * shares, -0.5 * float(beyond + squares.sum() / noise + t * inverse.sum())


def _check(modes: Modes, max_memory_gib: float | None) -> None:
    n_modes = modes.n_modes
    if n_modes > MOST_MODES:
        raise InputError(
            f"Learning from sums takes a Cholesky factor of the modes, and up to {MOST_MODES:,} of them; these are "
            f"sums of {n_modes:,}. Fit with a larger tolerance or less room, or learn from rows: lmgp.learn."
        )
    check_memory(
        32.0 * n_modes**2, f"The matrices of {n_modes:,} modes", "Fit with a larger tolerance.", max_memory_gib
    )


def _bounds(modes: Modes, kernel: Kernel, variance: float) -> Floats:
    """Return the logarithms of the bounds of a kernel's free parameters."""
    middle = _as_chosen(kernel.checked(len(modes.low)), modes).theta
    units, kinds = parameter_units(kernel, np.ones(len(modes.low)), variance)
    room = math.log(modes.room)
    low, high = kernel.theta.copy(), kernel.theta.copy()
    for i, kind in enumerate(kinds):
        if kind == "lengthscale":
            low[i], high[i] = middle[i] - room, middle[i] + room
        elif kind == "variance":
            low[i], high[i] = math.log(units[i]) + np.log(RANGES[kind])
    bounds = np.stack((np.maximum(low, kernel.bounds[:, 0]), np.minimum(high, kernel.bounds[:, 1])), axis=1)
    if np.any(bounds[:, 0] > bounds[:, 1]):
        raise InputError(
            f"The bounds of {kernel!r} leave nothing of what the modes serve: lengthscales up to {modes.room:g} times "
            f"shorter or longer than those of {modes.kernel!r}. Fit with more room."
        )
    return bounds


def _as_chosen(kernel: Kernel, modes: Modes) -> Kernel:
    """Return a kernel with the parameters for which the modes were chosen, after checking that it is of their form."""
    chosen: Kernel = clone(kernel)
    values = {parameter.name: parameter.value for parameter in modes.kernel.parameters}
    shapes = {parameter.name: parameter.value.shape for parameter in kernel.parameters}
    same = shapes == {name: value.shape for name, value in values.items()}
    if same:
        chosen.set_params(**{name: value if value.ndim else float(value) for name, value in values.items()})
        density, expected = (
            k.spectral_density(modes.frequencies) if k.can("spectral_density") else np.zeros(1)
            for k in (chosen, modes.kernel)
        )
        same = density.shape == expected.shape and np.allclose(density, expected, rtol=1e-9, atol=0.0)
    if not same:
        raise InputError(
            f"The sums are on modes for {modes.kernel!r}, and serve kernels of that form; got {kernel!r}. Fit a model "
            "with that kernel."
        )
    return chosen


def _warn_of_ends(modes: Modes, kernel: Kernel, bounds: Floats) -> None:
    """Warn where a lengthscale has come to an end of the modes' room."""
    free = [parameter for parameter in kernel.parameters if not parameter.fixed]
    names = np.repeat([parameter.name for parameter in free], [parameter.value.size for parameter in free])
    at_end = np.any(np.abs(kernel.theta[:, None] - bounds[: len(names)]) < AT_END, axis=1)
    ended = sorted({str(name) for name in names[at_end] if name.endswith("lengthscale")})
    if ended and modes.room > 1.0:
        warn(
            f"Learning has reached an end of the room of the modes or of the bounds: {', '.join(ended)} of {kernel!r}. "
            "Fit again, with this kernel or more room.",
            ConvergenceWarning,
        )
