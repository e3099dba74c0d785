"""Hyper-parameters by maximum marginal likelihood."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize, minimize_scalar
from sklearn.exceptions import ConvergenceWarning

from lmgp.errors import DuplicateRowsWarning
from lmgp.inference.density import NotPositiveDefiniteError
from lmgp.inference.duplicates import without_copies
from lmgp.inference.likelihood import ExactLikelihood, NoiseLikelihood, log_likelihood
from lmgp.inference.scales import RANGES, Scale, Units, scales_of, units_of
from lmgp.kernels.base import Kernel
from lmgp.kernels.stationary import GaussianKernel
from lmgp.memory import check_memory
from lmgp.parallel import parallel_map
from lmgp.validation import Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Hyperparameters:
    """What `maximize_likelihood` found.

    Attributes
    ----------
    kernel : Kernel
    noise_variance : float
        In squared units of y.
    log_marginal_likelihood : float
        Of the rows that were used, in nats and in the caller's units of y.
    converged : bool
        Whether the optimiser reached an optimum; True where nothing was to be optimised.
    """

    kernel: Kernel
    noise_variance: float
    log_marginal_likelihood: float
    converged: bool


@dataclass(frozen=True)
class Round:
    """One round of the search: each start runs for some iterations on some rows, and the best go on."""

    n_rows: int
    n_iterations: int
    n_kept: int


@dataclass(frozen=True)
class Search:
    """How the likelihood is maximised: by successive halving of the starts, then L-BFGS-B on all rows.

    Attributes
    ----------
    rounds : tuple of Round
        Before the last one, which takes all rows and the best start.
    n_iterations : int
        Of the last round, at most.
    round_tolerance, tolerance : float
        A run stops where a step raises the likelihood by less than this, relative to it: in a round enough to tell
        optima apart, in the end as far as rounding lets it rise.
    gradient : float
        Where the gradient per row is below this, the likelihood is at its maximum.
    rounding_gradient : float
        The same where rounding stops the line search first: no step along it changes the likelihood by more than that.
    same_start : float
        Two results of a round whose logarithms differ by less are one.
    n_noises : int
        Points of the grid over noise variances where the kernel is given.
    collapsed_noise, collapse : float
        A learned noise below `collapsed_noise` variances of y is suspicious where rows are exact copies; it has
        collapsed because of them if the rows without copies give one that is `collapse` times as large.
    """

    rounds: tuple[Round, ...] = (Round(250, 15, 3), Round(800, 150, 1))
    n_iterations: int = 500
    round_tolerance: float = 1e-8
    tolerance: float = 1e-11
    gradient: float = 1e-6
    rounding_gradient: float = 1e-4
    same_start: float = 0.05
    n_noises: int = 100
    collapsed_noise: float = 1e-3
    collapse: float = 10.0


SEARCH = Search()


class Likelihood(Protocol):
    """A log likelihood of rows and its gradient; see `ExactLikelihood`."""

    def __call__(self, kernel: Kernel, free: Floats) -> tuple[float, Floats]: ...  # noqa: D102


def maximize_likelihood(
    rows: Rows,
    *,
    form: Kernel | None = None,
    kernel: Kernel | None = None,
    noise_variance: float | None = None,
    ard: bool = False,
    max_learning_rows: int = 2000,
    max_memory_gib: float = 4.0,
    rng: np.random.Generator,
    likelihood: Callable[[Rows], Likelihood] = ExactLikelihood,
) -> Hyperparameters:
    """Learn those hyper-parameters that are not given, by maximum marginal likelihood.

    The search has several starts (`lmgp.inference.scales.RANGES`). All run for a few iterations on few rows, the best
    go on with more rows, and the best of these on `max_learning_rows` to convergence (`SEARCH`).

    Parameters
    ----------
    rows : Rows
        With y centred. Rows with a noise variance of their own keep it.
    form : Kernel, optional
        The kernel whose free parameters are learned. Parameters without a unit start from its values, all others from
        the scales of the data. A `GaussianKernel` if not given.
    kernel : Kernel, optional
        A kernel that is given: nothing of it is learned.
    noise_variance : float, optional
        In squared units of y.
    ard : bool, default=False
        Whether the default form has one lengthscale a column.
    max_learning_rows : int, default=2000
        Of more rows, a random sample of this size is used.
    max_memory_gib : float, default=4.0
        The memory that learning may take, in GiB.
    rng : numpy.random.Generator
        Draws the sample.
    likelihood : callable, default=ExactLikelihood
        Makes the likelihood of rows.

    Returns
    -------
    Hyperparameters

    Raises
    ------
    InputError
        If a kernel is to be learned from X or y without spread, or of a magnitude whose square float64 does not hold.
    MemoryLimitError
        If learning needs more than `max_memory_gib`.

    Warns
    -----
    ConvergenceWarning
        If the optimiser stopped for another reason than convergence.
    DuplicateRowsWarning
        If the learned noise collapsed because rows are exact copies of others: it is below 1e-3 variances of y, and
        the rows without copies give one that is at least ten times as large.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, section 5.4.1.

    K. Jamieson and A. Talwalkar, *Non-stochastic Best Arm Identification and Hyperparameter Optimization*, AISTATS
    2016 (successive halving).
    """
    learns_noise = noise_variance is None and rows.noise_variances is None
    if noise_variance is None and rows.noise_variances is not None:
        # Every row brings its own: what is reported stands for the noise of a new row.
        noise_variance = float(np.average(rows.noise_variances, weights=rows.weights))
    n_inputs = rows.X.shape[1]
    if form is None:
        form = GaussianKernel(np.ones(n_inputs) if ard else 1.0)
    fixed = kernel if kernel is not None else None if form.theta.size else form
    order = rng.permutation(len(rows.y))
    samples = [
        rows.take(np.sort(order[:size]))
        for size in (*(min(one.n_rows, max_learning_rows) for one in SEARCH.rounds), max_learning_rows)
    ]
    used = samples[-1]
    if fixed is not None and noise_variance is not None:
        return Hyperparameters(fixed, noise_variance, log_likelihood(used, fixed, noise_variance), converged=True)
    check_memory(
        ExactLikelihood.n_bytes(len(used.y), form),
        f"The matrices to learn hyper-parameters from {len(used.y):,} rows",
        "Lower max_learning_rows, or allow more memory (max_memory_gib; lmgp fit: --max-memory).",
        max_memory_gib,
    )
    units = units_of(samples[-2], learns_kernel=fixed is None)
    if fixed is not None:
        found = _learn_noise(used, fixed.checked(n_inputs), units)
    else:
        found = _learn(samples, form.checked(n_inputs), units, noise_variance, likelihood)
    if learns_noise and found.noise_variance < SEARCH.collapsed_noise * units.variance:
        warn_of_copies(used, found, lambda distinct: maximize_likelihood(distinct, form=form, kernel=kernel, rng=rng))
    return found


class _Objective:
    """The negative log likelihood per row, as a function of the logarithms of what is free, in the data's units."""

    def __init__(
        self,
        rows: Rows,
        form: Kernel,
        scales: list[Scale],
        noise_unit: float,
        noise_variance: float | None,
        likelihood: Callable[[Rows], Likelihood],
    ) -> None:
        self.form, self.log_noise = form, None if noise_variance is None else math.log(noise_variance)
        self.log_units = np.log([scale.unit for scale in scales] + [noise_unit] * (noise_variance is None))
        # About the mean, differences of rows keep their digits far from the origin. What has a frequency is stationary.
        centre = rows.X.mean(axis=0) if form.can("frequencies") else 0.0
        self.likelihood = likelihood(Rows(rows.X - centre, rows.y, rows.weights, rows.noise_variances))
        self.n = float(len(rows.y) if rows.weights is None else rows.weights.sum())
        self.offset = 0.5 * math.log(noise_unit)  # per row: of a density of y in its standard deviations

    def logarithms(self, free: Floats) -> Floats:
        """Return those of the kernel's parameters and of the noise variance, in the caller's units."""
        logarithms: Floats = free + self.log_units
        return logarithms if self.log_noise is None else np.append(logarithms, self.log_noise)

    def __call__(self, free: Floats) -> tuple[float, Floats]:
        try:
            value, gradient = self.likelihood(self.form, self.logarithms(free))
        except NotPositiveDefiniteError:
            value = math.nan
        if not math.isfinite(value):
            # Far above any value, so that the line search turns back.
            return 1e10, np.zeros_like(free)
        return -value / self.n - self.offset, -gradient[: len(free)] / self.n


def _learn(
    samples: list[Rows],
    form: Kernel,
    units: Units,
    noise_variance: float | None,
    likelihood: Callable[[Rows], Likelihood],
) -> Hyperparameters:
    """Learn the free parameters of a form, and the noise where it is not given."""
    scales = scales_of(form, units)
    bounds = _bounds(form, scales, learns_noise=noise_variance is None)
    starts = _starts(scales, bounds, learns_noise=noise_variance is None)
    objectives = [_Objective(rows, form, scales, units.variance, noise_variance, likelihood) for rows in samples]
    for one, objective in zip(SEARCH.rounds, objectives[:-1], strict=True):
        results = parallel_map(
            lambda start, one=one, objective=objective: _optimize(  # type: ignore[misc]
                objective, start, bounds, one.n_iterations, SEARCH.round_tolerance
            ),
            starts,
        )
        starts = _best(results, one.n_kept)
    objective, n = objectives[-1], len(samples[-1].y)
    best = _optimize(objective, starts[0], bounds, SEARCH.n_iterations, SEARCH.tolerance)
    # The gradient that does not point out of the bounds.
    slope = float(np.max(np.abs(np.clip(best.x - best.jac, *bounds.T) - best.x)))
    converged = bool(best.success) or slope < SEARCH.rounding_gradient
    if not converged:
        warnings.warn(
            f"The marginal likelihood was not maximised to convergence: {best.message} after {best.nit} iterations on "
            f"{n} rows. Targets without any noise and extreme values in X or y make it ill-conditioned: check for "
            "them, or give noise_variance.",
            ConvergenceWarning,
            stacklevel=4,
        )
    logarithms = objective.logarithms(best.x)
    kernel = form.with_theta(logarithms[:-1])
    noise = math.exp(logarithms[-1]) if noise_variance is None else noise_variance
    return Hyperparameters(kernel, noise, log_likelihood(samples[-1], kernel, noise), converged)


def _starts(scales: list[Scale], bounds: Floats, learns_noise: bool) -> list[Floats]:
    """Return the logarithms of the starting points, within the bounds."""
    lengthscales = RANGES.start_lengthscales if any(scale.kind == "lengthscale" for scale in scales) else (1.0,)
    starts = []
    for lengthscale, noise in product(lengthscales, RANGES.start_noises if learns_noise else (0.1,)):
        shares = {"lengthscale": lengthscale, "variance": 1.0 - noise, "other": 1.0}
        values = [scale.start * shares[scale.kind] for scale in scales]
        starts.append(np.clip(np.log(values + [noise] * learns_noise), *bounds.T))
    return starts


def _bounds(form: Kernel, scales: list[Scale], learns_noise: bool) -> Floats:
    """Return the logarithms of the bounds in the data's units: the kernel's where it has some."""
    log_units = np.log([scale.unit for scale in scales])
    given = form.bounds - log_units[:, None]
    default = np.log([scale.bounds for scale in scales])
    bounds = np.where(np.isfinite(given), given, default)
    return np.vstack((bounds, np.log([RANGES.noise] * learns_noise).reshape(-1, 2)))


def _best(results: list[OptimizeResult], n_kept: int) -> list[Floats]:
    """Return the arguments of the best results, without near repetitions."""
    kept: list[Floats] = []
    for result in sorted(results, key=lambda result: float(result.fun)):
        if len(kept) < n_kept and all(np.max(np.abs(result.x - other)) > SEARCH.same_start for other in kept):
            kept.append(result.x)
    return kept


def _optimize(
    objective: _Objective, start: Floats, bounds: Floats, n_iterations: int, tolerance: float
) -> OptimizeResult:
    options = {"maxiter": n_iterations, "ftol": tolerance, "gtol": SEARCH.gradient}
    return minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)


def _learn_noise(rows: Rows, kernel: Kernel, units: Units) -> Hyperparameters:
    """Learn the noise beside a given kernel: the best of a grid, refined between its neighbours."""
    likelihood = NoiseLikelihood(rows, kernel)
    grid = np.log(units.variance) + np.linspace(math.log(RANGES.noise[0]), math.log(RANGES.noise[1]), SEARCH.n_noises)
    values = [likelihood(math.exp(point)) for point in grid]
    at = int(np.argmax(values))
    between = (grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)])
    best = minimize_scalar(
        lambda point: -likelihood(math.exp(point)), bounds=between, method="bounded", options={"xatol": 1e-9}
    )
    noise = math.exp(best.x)
    return Hyperparameters(kernel, noise, log_likelihood(rows, kernel, noise), converged=True)


def warn_of_copies(rows: Rows, found: Hyperparameters, learn: Callable[[Rows], Hyperparameters]) -> None:
    """Warn where the rows without their exact copies give a much larger noise.

    Parameters
    ----------
    rows : Rows
        With y centred.
    found : Hyperparameters
        What was learned from them.
    learn : callable
        Learns from the rows without copies.

    Warns
    -----
    DuplicateRowsWarning
    """
    distinct, n_copies = without_copies(rows)
    if n_copies == 0 or len(distinct.y) < 2:
        return
    noise = learn(distinct).noise_variance
    if noise >= SEARCH.collapse * found.noise_variance:
        warnings.warn(
            f"The learned noise variance collapsed to {found.noise_variance:.2g}, because {n_copies:,} of "
            f"{len(distinct.y) + n_copies:,} rows are exact copies of others (equal X and equal y; a sample_weight "
            f"above 1 counts as copies): equal measurements look free of noise. Without copies it is {noise:.2g}. Keep "
            "one row of each, or give noise_variance or, for weights that mean precision, noise_variances.",
            DuplicateRowsWarning,
            stacklevel=4,
        )
