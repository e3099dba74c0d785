"""Hyperparameters from sums alone: the likelihood of the modes, at a cost that no number of rows changes."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lmgp.data import Floats, floats
from lmgp.errors import InputError, warn
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import parameter_units
from lmgp.learning.record import Learned
from lmgp.learning.space import RANGES
from lmgp.posteriors.modes import Modes
from lmgp.posteriors.spectral import ModeLikelihood
from lmgp.sums.modes import ModeSums
from lmgp.utils.memory import check_memory

# The most modes: the likelihood takes a Cholesky factor of that size.
MOST_MODES = 6000
# A logarithm that is nearer to a bound than this has reached it.
AT_END = 1e-3
# The optimiser stops where a step raises the likelihood by less than the tolerance, relative to it, or where no slope
# per row is above `gtol`; where rounding stops the line search first, slopes below `ROUNDING_SLOPE` are its maximum.
OPTIONS = {"maxiter": 500, "ftol": 1e-11, "gtol": 1e-6}
ROUNDING_SLOPE = 1e-4
# Below this share of the sums of squares, what centring leaves of them is rounding.
CONSTANT = 1e-14
# The most of the noise variance that may be rounding of the largest sums that ever were, in float64.
MOST_ROUNDING, EPSILON = 0.1, float(np.finfo(np.float64).eps)


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
        If there are more modes than 6,000, the kernel is of another form, y is constant, or rows of so large a y were
        taken out of the sums that their rounding is more than the noise.
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
    if not (isinstance(sums, ModeSums) and isinstance(kernel, Kernel)):
        raise InputError(
            f"sums must be what a fitted SpectralGPRegressor has as sums_; got {type(sums).__name__}. And kernel must "
            f"be a kernel, such as the model's kernel_; got {kernel!r}. For rows use lmgp.learn."
        )
    value = floats(noise_variance)
    if noise_variance is not None and not (value.shape == () and 0.0 < value < math.inf):
        raise InputError(f"noise_variance must be a positive number, or None to learn it; got {noise_variance!r}.")
    raw = sums.settled.statistics
    statistics = raw.centred()
    targets, noise, modes = statistics.targets, statistics.plan.noise, statistics.plan.modes
    variance = float(targets.products.trace()) / statistics.precision / len(targets.totals)
    n_modes = modes.n_modes
    if n_modes > MOST_MODES:
        raise InputError(
            f"Learning from sums takes a Cholesky factor of the modes, and up to {MOST_MODES:,} of them; these are "
            f"sums of {n_modes:,}. Fit with a larger tolerance or less room, or learn from rows: lmgp.learn."
        )
    check_memory(
        32.0 * n_modes**2, f"The matrices of {n_modes:,} modes", "Fit with a larger tolerance.", max_memory_gib
    )
    are_gone = np.any(raw.targets.peaks > 2.0 * raw.targets.products.diagonal())
    if are_gone and EPSILON * targets.peaks.max() > MOST_ROUNDING * targets.n * noise.variance:
        raise InputError(
            "Rows of so large a y were in these sums that their rounding hides a noise variance of "
            f"{noise.variance:.3g}: nothing can be learned. Fit again to the rows that are left."
        )
    if variance * statistics.precision <= CONSTANT * float(raw.targets.products.trace()):
        raise InputError("y is constant: no hyperparameters can be learned from its sums.")
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
    (bounds, kinds), start, n_free = _bounds(modes, kernel, variance), kernel.theta, len(kernel.theta)
    n = targets.n_densities
    if learns_noise:
        unit = variance * targets.n / n  # σ² is the noise variance of weight 1
        bounds = np.vstack((bounds, math.log(unit) + np.log(RANGES["noise"])))
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
    at_end = np.any(np.abs(learned.theta[:, None] - bounds[:n_free]) < AT_END, axis=1)
    if modes.room > 1.0 and np.any(at_end & (kinds == "lengthscale")):
        warn(
            f"Learning has reached an end of the room of the modes or of the bounds: lengthscale of {learned!r}. "
            "Fit again, with this kernel or more room.",
            ConvergenceWarning,
        )
    return Learned(learned, math.exp(best.x[-1]) if learns_noise else given, -best.fun * n, converged)


def _bounds(modes: Modes, kernel: Kernel, variance: float) -> tuple[Floats, NDArray[np.str_]]:
    """Return the logarithms of the bounds of a kernel's free parameters, and what each is."""
    lengthscales = _as_chosen(kernel.checked(len(modes.low)), modes).theta
    units, kinds, _ = parameter_units(kernel, np.ones(len(modes.low)), variance)
    around = {"lengthscale": (1.0 / modes.room, modes.room), "variance": RANGES["variance"]}
    places = {"lengthscale": lengthscales, "variance": np.log(units)}
    middle = [places.get(kind, kernel.theta)[i] for i, kind in enumerate(kinds)]
    low, high = np.log([around.get(kind, (1.0, 1.0)) for kind in kinds]).reshape(-1, 2).T + middle
    bounds = np.stack((np.maximum(low, kernel.bounds[:, 0]), np.minimum(high, kernel.bounds[:, 1])), axis=1)
    if np.any(bounds[:, 0] > bounds[:, 1]):
        raise InputError(
            f"The bounds of {kernel!r} leave nothing of what the modes serve: lengthscales up to {modes.room:g} times "
            f"shorter or longer than those of {modes.kernel!r}. Fit with more room."
        )
    return bounds, np.array(kinds)


def _as_chosen(kernel: Kernel, modes: Modes) -> Kernel:
    """Return a kernel with the parameters for which the modes were chosen, after checking that it is of their form."""
    shapes = [[(p.name, p.value.shape) for p in form.parameters] for form in (kernel, modes.kernel)]
    if shapes[0] == shapes[1] and kernel.can("spectral_density"):
        values = {p.name: p.value if p.value.ndim else float(p.value) for p in modes.kernel.parameters}
        chosen: Kernel = clone(kernel).set_params(**values)
        density, expected = (form.spectral_density(modes.frequencies) for form in (chosen, modes.kernel))
        if np.allclose(density, expected, rtol=1e-9, atol=0.0):
            return chosen
    raise InputError(
        f"The sums are on modes for {modes.kernel!r}, and serve kernels of that form; got {kernel!r}. Fit a model with "
        "that kernel."
    )
