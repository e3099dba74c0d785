"""The posterior of all rows at once, from one solution over Fourier modes."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from lmgp.data import Complexes, Floats, Noise, Rows, TargetSums
from lmgp.errors import InputError, ToleranceWarning, warn
from lmgp.kernels.base import Kernel
from lmgp.posteriors.base import Posterior, rows_are_gone, without_itself
from lmgp.posteriors.joint import ADVICE, normal_draws, with_variance
from lmgp.posteriors.modes import ModePlan, white
from lmgp.posteriors.over_rows import solve_over_rows
from lmgp.posteriors.toeplitz import ModeSystem, RealModes, Solution, Toeplitz, half_shape, mode_gram, mode_places
from lmgp.posteriors.variance import LocalVariance
from lmgp.utils.lazy import torch
from lmgp.utils.linalg import solve_lower
from lmgp.utils.memory import check_memory, chunks, memory_limit

# Up to this number of modes, variances are from their dense factor.
FEW_MODES = 2048
# More rows, or another kernel, may make the error of the modes up to this multiple of the tolerance.
OUTGROWN = 4.0
# Of what the rows say about the coefficients of a trend, HᵀC⁻¹H: the share that iterations may add.
TREND = 1e-3
# Where rows came later, iterations leave this root mean square error of the mean, in noise standard deviations, or the
# tolerance if that is smaller: results do not depend on the order of rows.
SETTLED = 1e-9
# Of the difference quotients of spectral densities, in logarithms of the parameters.
STEP = 1e-5
# Precisions are equal where the standard deviation of their logarithms is below this.
EQUAL = 1e-5


@dataclass(frozen=True, eq=False)
class ModeStatistics:
    """Sums over rows for Fourier modes, with the precision ρ = w σ²/σᵢ² of each row. They know no kernel.

    Attributes
    ----------
    plan : ModePlan
    generator : ndarray of shape half_shape(2 m)
        Σ ρ e^{−2πi h∘k·(x − center)} of all differences k of two modes: the Gram matrix is Toeplitz.
    cross : ndarray of shape (t, *half_shape(m))
        Σ ρ y e^{−2πi h∘j·(x − center)} of each target.
    precision : float
        Σ ρ.
    targets : TargetSums
    """

    plan: ModePlan
    generator: Complexes
    cross: Complexes
    precision: float
    targets: TargetSums

    @classmethod
    def zeros(cls, plan: ModePlan, n_targets: int) -> Self:
        """Make the sums over no rows."""
        shapes = half_shape(2 * plan.modes.counts), (n_targets, *plan.modes.shape)
        generator, cross = (np.zeros(shape, dtype=np.complex128) for shape in shapes)
        return cls(plan, generator, cross, 0.0, TargetSums.zeros(n_targets))

    @classmethod
    def of(cls, plan: ModePlan, rows: Rows) -> Self:
        """Sum over rows."""
        Y, counts = rows.Y, plan.modes.counts
        targets, _ = TargetSums.of(rows, plan.noise, plan.missing(len(rows)))
        precision = plan.noise.variance / plan.noise_of(rows)
        weighted = precision * Y.T
        # With the matrix go the first target, and the columns of a trend, which are behind a constant; of further
        # targets, half of the numbers of modes are enough.
        constant = np.all(Y[:1] == Y, axis=0)
        with_matrix = np.arange(rows.n_targets) > (np.flatnonzero(constant)[-1] if constant.any() else rows.n_targets)
        with_matrix[0] = True
        with_matrix &= ~constant
        every = plan.rows_to_modes(rows.X, np.vstack((precision, weighted[with_matrix])), 2 * counts)
        inner = every[mode_places(counts, every.shape[1:])]
        cross = np.empty((rows.n_targets, *plan.modes.shape), dtype=np.complex128)
        cross[with_matrix] = inner[1:]
        cross[constant] = np.multiply.outer(Y[0, constant], inner[0])
        others = ~with_matrix & ~constant
        if others.any():
            cross[others] = plan.rows_to_modes(rows.X, weighted[others])
        return cls(plan, every[0].copy(), cross, float(precision.sum()), targets)

    def combine(self, other: Self, sign: float) -> Self:
        """Return these sums plus `sign` times others, of the same modes and noise.

        Raises
        ------
        InputError
            If the others are of other modes or another noise.
        """
        self.plan.source.check(other.plan.source)
        generator, cross = self.generator + sign * other.generator, self.cross + sign * other.cross
        precision, targets = self.precision + sign * other.precision, self.targets.combine(other.targets, sign)
        return replace(self, generator=generator, cross=cross, precision=precision, targets=targets)

    def combined(self, combination: Floats) -> Self:
        """Return the sums of the targets Y @ combination, for a combination of shape (t, s)."""
        cross = np.tensordot(combination.T, self.cross, axes=1)
        return replace(self, cross=cross, targets=self.targets.combined(combination))

    def centred(self) -> Self:
        """Return the sums of the targets less their means, or less the least-squares fits of a trend.

        Behind the targets are the columns of the trend, or of a constant alone.
        """
        p = max(1, self.plan.n_trend)
        products, totals, t = self.targets.products, self.targets.totals, len(self.cross) - p
        change = totals[None, :t] / totals[t]
        if self.plan.n_trend:
            change = np.linalg.lstsq(products[t:, t:], products[t:, :t], rcond=None)[0]
        return self.combined(np.concatenate((np.eye(t), -change)))

    @property
    def shared_noise(self) -> float | None:
        """The noise variance of all rows; None where they differ."""
        precision = self.precision / self.targets.n
        # By Jensen's inequality, the mean of the logarithms of precisions that differ is below that of the mean.
        equal = math.log(precision) - self.targets.log_precision / self.targets.n <= 0.5 * EQUAL**2
        return self.plan.noise.variance / precision if equal else None

    def with_noise(self, noise: Noise, variance: float) -> Self:
        """Return the sums where all rows have another noise variance, relative to that of `noise`."""
        plan, targets, relative = replace(self.plan, noise=noise), self.targets, noise.variance / variance
        factor, log_precision = relative * targets.n / self.precision, targets.n * math.log(relative)
        products, peaks = factor * targets.products, factor * targets.peaks
        targets = replace(targets, products=products, peaks=peaks, log_precision=log_precision)
        generator, cross, precision = factor * self.generator, factor * self.cross, factor * self.precision
        return replace(self, plan=plan, generator=generator, cross=cross, precision=precision, targets=targets)

    def with_kernel(self, kernel: Kernel, noise: Noise) -> Self:
        """Return the same sums for another kernel. Another noise variance is that of all rows: they must share one."""
        plan = replace(self.plan, kernel=kernel, noise=noise)
        missing = plan.left_out if noise.counts_missing else 0.0
        same = noise == self.plan.noise
        return replace(self if same else self.with_noise(noise, noise.variance + missing), plan=plan)

    def system(self) -> ModeSystem:
        """Return the linear system of the coefficients."""
        plan, limit = self.plan, memory_limit(self.plan.max_memory_gib)
        return ModeSystem(self.generator, plan.modes.counts, plan.weights, plan.noise.variance, limit)


def mode_log_density(
    fits: Floats, log_determinant: float, targets: TargetSums, n_modes: int, noise_variance: float
) -> Floats:
    """Return log p(y), of yᵀPy less what the modes explain, and log det(W^{1/2}FᵀPFW^{1/2} + σ²I)."""
    beyond = (targets.n - n_modes) * math.log(noise_variance) - targets.log_precision
    return -0.5 * (fits / noise_variance + log_determinant + beyond + targets.n * math.log(2.0 * math.pi))


class ModeLikelihood:
    """The log marginal likelihood of sums, as a function of a kernel's free parameters and of the noise.

    Parameters
    ----------
    statistics : ModeStatistics
        Of centred targets, whose likelihoods are added; with ρ = w where all rows have one noise variance.
    """

    def __init__(self, statistics: ModeStatistics) -> None:
        plan, targets = statistics.plan, statistics.targets
        self._modes, self._targets = plan.modes, replace(targets, n=targets.n_densities)
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


@dataclass(frozen=True)
class SpectralError:
    """What a solution over Fourier modes may be off by.

    Attributes
    ----------
    iterations : float
        A bound of KL(mean ‖ exact mean of these modes), averaged over the training rows, in nats.
    modes : float
        An estimate of the KL of the mean by the frequencies that are left out, in nats a row.
    n_modes, n_iterations : int
    converged : bool
        Whether the iterations reached what the tolerance asks for.
    rounding : float
        An estimate of the KL of the mean by the rounding of the sums, in nats a row. It is that of the largest sums
        that ever were: taking out rows of large targets does not take out their rounding.
    """

    iterations: float
    modes: float
    n_modes: int
    n_iterations: int
    converged: bool
    rounding: float = 0.0

    @property
    def divergence(self) -> float:
        """The expected KL of the mean from the exact one, in nats a row."""
        return self.iterations + self.modes + self.rounding

    def __str__(self) -> str:
        return (
            f"{self.n_modes:,} modes, {self.n_iterations} iterations{'' if self.converged else ', not converged'}\n"
            f"KL of the mean by frequencies left out: about {self.modes:.1g} nats a row\n"
            f"KL of the mean by iterations: at most {self.iterations:.1g} nats a row, over the training rows\n"
            f"KL of the mean by rounding of the sums: about {self.rounding:.1g} nats a row"
        )


class SpectralPosterior(Posterior):
    """The posterior mean of f, k ≈ Σⱼ wⱼ e^{2πi h∘j·(x − z)}, given all rows; the variance is local.

    With Φ the modes at the n rows, W the diagonal matrix of their prior variances and P that of the rows' precisions ρ,
    the mean is φᴴW^{1/2}α with (W^{1/2}ΦᴴPΦW^{1/2} + σ²I) α = W^{1/2}ΦᴴPy. ΦᴴPΦ is Toeplitz: conjugate gradients take
    two fast Fourier transforms an iteration, whatever n. The modes that matter most are solved for at once where they
    are few. Targets share the iterations.

    The variance is exact from few modes, and from `LocalVariance` of more.

    Parameters
    ----------
    statistics : ModeStatistics
        With the sums of the targets; the columns of a trend, if there are any, last.
    rows : Rows
        The training rows, with these targets; of rows that are not kept, what stands for them in variances.
    n_rows : int
        The number of training rows.
    start : SpectralPosterior, optional
        From whose solution the iterations start: of nearly the same rows.
    settled : bool, default=False
        Whether the iterations go on to `SETTLED`: the result then depends on the sums alone, in whatever order rows
        were added.

    Attributes
    ----------
    plan : ModePlan
    statistics : ModeStatistics

    Warns
    -----
    ToleranceWarning
        If the iterations end before the tolerance is reached, or the modes serve these rows too badly.

    References
    ----------
    P. Greengard, M. Rachh and A. Barnett, *Equispaced Fourier Representations for Efficient Gaussian Process Regression
    from a Billion Data Points*, 2022.
    """

    _solution: Solution

    def __init__(
        self,
        statistics: ModeStatistics,
        rows: Rows,
        n_rows: int,
        *,
        start: "SpectralPosterior | None" = None,
        settled: bool = False,
    ) -> None:
        self.plan, self.statistics, self._rows, self.n_rows = statistics.plan, statistics, rows, n_rows
        self.kernel, self.noise, self.targets = self.plan.kernel, self.plan.noise, statistics.targets
        self._n_trend = self.plan.n_trend if len(statistics.cross) > self.plan.n_trend else 0
        squares = statistics.targets.products.diagonal()
        enough = self._enough(squares, self._n_trend)
        closely = self._enough(squares, self._n_trend, SETTLED) if settled else enough
        warm = start is not None and start._solution.vectors.shape == statistics.cross.shape
        first = start._solution.vectors if start and warm else None
        targets = None if warm or settled else rows.Y.T
        self._solution = self._solve(statistics.cross, closely, first, targets)
        self._products = self._precise_products()
        self._converged = bool(np.all(self._solution.remaining <= enough))
        self._warn()

    @cached_property
    def _system(self) -> ModeSystem:
        return self.statistics.system()

    @cached_property
    def _coefficients(self) -> Complexes:
        """The coefficients of the means, shape (t, *half_shape(counts))."""
        return np.sqrt(self.plan.weights) * self._solution.vectors

    def __getstate__(self) -> dict[str, Any]:
        # Without what follows from the rest in little time: half of the numbers.
        derived = ("_system", "_coefficients", "_variance_series", "_local_variance")
        return {name: value for name, value in vars(self).items() if name not in derived}

    def _enough(self, squares: Floats, n_trend: int, tolerance: float = math.inf) -> Floats:
        """Return the squared energy errors that are small enough for targets, and the columns of a trend behind them.

        `squares` are yᵀPy of each. Errors are weighted already: the unit of weights must not matter beside them.
        """
        n, variance, tolerance = self.n_rows, self.noise.variance, min(tolerance, self.plan.tolerance)
        enough = np.full(len(squares), tolerance**2 * n * variance)
        # Of HᵀC⁻¹y, the error is that of both: their geometric mean.
        share = TREND / max(1.0, tolerance**2 * n)
        first = len(squares) - n_trend
        # As closely as the targets, in proportion to their size, and as their coefficients ask for.
        of_mean = enough[0] / max(float(squares[:first].max()), 1e-300)
        enough[first:] = np.minimum(of_mean, share * variance / self._most) * squares[first:]
        return np.maximum(enough, 1e-300)

    @property
    def _most(self) -> float:
        """A bound of C: HᵀC⁻¹H, of which all but a small part cancels, is at least HᵀPH over this."""
        rows = float(self.statistics.generator.flat[0].real)
        return self.kernel.prior_variance() * rows + self.noise.variance

    def _solve(
        self, cross: Complexes, enough: Floats, start: Complexes | None = None, targets: Floats | None = None
    ) -> Solution:
        """Return the solutions of right sides, those of targets of shape (b, n) over the rows where that is cheaper."""
        plan = self.plan
        if targets is not None and plan.solve(self.statistics.precision / self.n_rows).over_rows:
            return solve_over_rows(plan, self._rows, targets, enough)
        bytes_of_one = Toeplitz.n_bytes(plan.modes.counts, 1)
        size = max(1 + plan.n_trend, int(min(memory_limit(plan.max_memory_gib) / bytes_of_one, len(cross))))
        parts = [slice(first, first + size) for first in range(0, len(cross), size)]
        solutions = [
            self._system.solve(cross[p], enough[p], plan.max_iterations, None if start is None else start[p])
            for p in parts
        ]
        vectors, remaining, n_iterations = zip(*solutions, strict=True)
        return Solution(np.concatenate(vectors), np.concatenate(remaining), max(n_iterations))

    def _precise_products(self) -> Floats:
        """Return YᵀC⁻¹Y, by C⁻¹ = (P − PΦW^{1/2}A⁻¹W^{1/2}ΦᴴP)/σ², with an error that is the product of two errors."""
        cross, coefficients, variance = self.statistics.cross, self._coefficients, self.noise.variance
        # bᴴx' + xᴴb' − xᴴAx' = bᴴA⁻¹b' − eᴴAe'.
        image = np.concatenate([self._system.toeplitz(vector[None]) for vector in coefficients])
        explained = mode_gram(cross, coefficients) + mode_gram(coefficients, cross - image)
        explained -= variance * mode_gram(self._solution.vectors, self._solution.vectors)
        return (self.statistics.targets.products - 0.5 * (explained + explained.T)) / variance

    def _warn(self) -> None:
        """Warn of iterations that ended too early, and of modes that were chosen for fewer rows or another kernel."""
        plan, variance, n, error = self.plan, self.noise.variance, self.statistics.targets.n, self.accuracy
        if not self._converged:
            warn(
                f"{error.n_iterations:,} iterations leave an error of the mean of up to "
                f"{math.sqrt(2.0 * error.iterations):.2g} noise standard deviations, root mean square over the "
                f"training rows; tolerance={plan.tolerance:g} asks for less. The noise variance, {variance:.3g}, is "
                f"small for {n:,.0f} rows: raise max_iterations or tolerance.",
                ToleranceWarning,
            )
        reach = plan.modes.reach
        copies = float(np.abs(self.kernel(np.zeros((1, len(reach))), np.diag(reach))).sum())
        off = math.sqrt(2.0 * error.modes + n * (copies / variance) ** 2)
        if off > OUTGROWN * plan.tolerance:
            warn(
                f"The modes were chosen for fewer rows or another kernel: for {n:,.0f} rows, {self.kernel!r} and the "
                f"noise variance {variance:.3g} the mean may be off by up to about {off:.2g} noise standard "
                f"deviations, where tolerance={plan.tolerance:g} asks for less. Fit again to all rows, or start from a "
                "smaller tolerance.",
                ToleranceWarning,
            )

    @property
    def _off(self) -> tuple[Floats, float, Floats]:
        """The KL by the iterations of each target, by the modes, and by the rounding of the sums of each target."""
        plan, variance, targets = self.plan, self.noise.variance, self.statistics.targets
        scale = self.n_rows * variance
        # The rounding of a sum is that of its largest value, whatever was taken out since. It is a perturbation of the
        # targets, which smoothing contracts.
        rounding = 0.5 * plan.rounding**2 * targets.peaks / scale
        if self._n_trend:  # it changes coefficients by more, in proportion to HᵀPH over HᵀC⁻¹H
            rounding *= self._most / variance
        # See `choose_modes`.
        n_near = max(1.0, plan.modes.n_near * self.statistics.precision / plan.n_chosen)
        modes = 0.5 * n_near * (plan.left_out / variance) ** 2
        return 0.5 * self._solution.remaining / scale, modes, rounding

    @property
    def accuracy(self) -> SpectralError:
        """What the means may be off by, of the worst target; the columns of a trend are none."""
        iterations, modes, rounding = self._off
        worst = slice(len(iterations) - self._n_trend)
        return SpectralError(
            float(iterations[worst].max()), modes, self.plan.modes.n_modes, self._solution.n_iterations,
            self._converged, float(rounding[worst].max()),
        )  # fmt: skip

    def error(self, X: Floats) -> Floats:  # noqa: D102
        iterations, modes, rounding = self._off
        return np.tile(iterations + modes + rounding, (len(X), 1))

    @property
    def rows(self) -> Rows:  # noqa: D102
        if not self.plan.keeps_rows:
            raise rows_are_gone()
        return self._rows

    def _places(self) -> Rows:
        return self._rows

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        other, p, (t, s) = type(self).__new__(type(self)), self._n_trend, combination.shape
        trend_stays = p and s > p and np.array_equal(combination[:, s - p :], np.eye(t)[:, t - p :])
        vectors = np.tensordot(combination.T, self._solution.vectors, axes=1)
        remaining = np.square(np.abs(combination).T @ np.sqrt(self._solution.remaining))
        vars(other).update(
            {name: value for name, value in vars(self).items() if name != "_coefficients"},
            statistics=self.statistics.combined(combination),
            targets=self.statistics.targets.combined(combination),
            _rows=self._rows.with_targets(self._rows.Y @ combination),
            _n_trend=p if trend_stays else 0,
            _solution=Solution(vectors, remaining, self._solution.n_iterations),
            _products=combination.T @ self._products @ combination,
        )
        return other

    def products(self) -> Floats:  # noqa: D102
        return self._products

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict rows; those that are out of the reach of all training rows have the prior's prediction."""
        return self._evaluate(self._coefficients, X).T, self.variances(X) if variance else None

    def variances(self, X: Floats) -> Floats:  # noqa: D102
        variances, served = self.kernel.evaluate_diagonal(X), self.plan.modes.served(X)
        if not served.any():
            return variances
        if self._is_dense:
            plan = self.plan
            by_modes = plan.modes_to_rows(X[served], self._variance_series[None], 2 * plan.modes.counts)[0]
            variances[served] = np.maximum(by_modes, 0.0) + plan.left_out
        else:
            variances[served] = self._local_variance(X[served])
        return variances

    @property
    def variance_by(self) -> str:
        """What the variance is from."""
        return "exact, from all modes" if self._is_dense else str(self._local_variance)

    @property
    def _is_dense(self) -> bool:
        return self.plan.modes.n_modes <= FEW_MODES

    @cached_property
    def _variance_series(self) -> Complexes:
        block = self._system.whole
        covariance = block.noise_variance * block.roots[:, None] * block.inverse * block.roots
        return block.real.series(covariance, 2 * self.plan.modes.counts)

    @cached_property
    def _local_variance(self) -> LocalVariance:
        plan, rng = self.plan, np.random.default_rng(self.plan.seed)
        return LocalVariance(self.kernel, self._rows, self.noise, plan.tolerance**2, rng, plan.max_memory_gib)

    def prepare_variance(self) -> None:
        """Make what variances are from, so that it says at once if it takes too much memory."""
        _ = self._variance_series if self._is_dense else self._local_variance

    def _evaluate(self, coefficients: Complexes, X: Floats) -> Floats:
        """Return functions with these coefficients, shape (b, m); 0 where no training row is in reach."""
        served, values = self.plan.modes.served(X), np.zeros((len(coefficients), len(X)))
        if served.any():
            values[:, served] = self.plan.modes_to_rows(X[served], coefficients)
        return values

    def without_each(self, rows: Rows) -> tuple[Floats, Floats]:  # noqa: D102
        means, variances = self._evaluate(self._coefficients, rows.X).T, self.variances(rows.X)
        # What the modes leave out of the prior variance is noise of the rows; the variance of local models has it.
        missing = self.missing(rows.X)
        noise = self.plan.noise.of_weighted_rows(rows, missing)
        means, variances = without_itself(rows.Y, means, np.maximum(variances - missing, 0.0), noise)
        return means, variances + missing

    def missing(self, X: Floats) -> Floats:  # noqa: D102
        return np.full(len(X), self.plan.left_out if self._is_dense else 0.0)

    def _statistics_of(self, kernel: Kernel, noise_variance: float) -> ModeStatistics:
        # Where rows have noise variances of their own, they keep them: that of the model is then of new rows alone.
        kept = noise_variance == self.noise.variance or self.statistics.shared_noise is None
        noise = self.noise if kept else Noise(noise_variance)
        same = kernel == self.kernel and noise == self.noise
        return self.statistics if same else self.statistics.with_kernel(kernel, noise)

    def at(self, kernel: Kernel, noise_variance: float) -> "SpectralPosterior | None":  # noqa: D102
        if not self._is_dense:
            return None
        return SpectralPosterior(self._statistics_of(kernel, noise_variance), self._rows, self.n_rows)

    def log_density(self, kernel: Kernel | None = None, noise_variance: float | None = None) -> Floats:
        """Return the log density of each target: of few modes from their dense factor, else Vecchia's approximation."""
        if not self._is_dense:
            return super().log_density(kernel, noise_variance)
        variance = self.noise.variance if noise_variance is None else noise_variance
        statistics = self._statistics_of(kernel or self.kernel, variance)
        system, targets = self._system if statistics is self.statistics else statistics.system(), statistics.targets
        block = system.whole
        right = block.roots * block.real.of_vectors(statistics.cross)
        fits = targets.products.diagonal() - np.einsum("ti,ij,tj->t", right, block.inverse, right, optimize=True)
        return mode_log_density(fits, block.log_determinant, targets, len(block.roots), block.noise_variance)

    @property
    def n_observations(self) -> float:
        """Of sums, those of the weights: a density of sums is that of each row to the power of its weight."""
        return self.statistics.targets.n if self._is_dense else super().n_observations

    def covariance(self, X: Floats) -> Floats:  # noqa: D102
        if not self._is_dense:
            return super().covariance(X)
        served, block, m = self.plan.modes.served(X), self._system.whole, len(X)
        check_memory(8.0 * (4.0 * m**2 + 3.0 * m * len(block.roots)), f"The covariance of {m:,} rows", ADVICE)
        angles = np.stack(self.plan.modes.angles(X[served]), axis=1) @ block.real.index.T
        columns = np.concatenate((np.cos(angles), np.sin(angles[:, 1:])), axis=1)
        columns[:, 1:] *= math.sqrt(2.0)
        columns *= block.roots
        whitened = solve_lower(block.factor, torch.from_numpy(columns.T))
        # The modes give what the training rows change: two rows out of the box may be near to copies of each other.
        covariance = self.kernel(X)
        change = block.noise_variance * (whitened.T @ whitened).numpy() - columns @ columns.T
        covariance[np.ix_(served, served)] += change
        return with_variance(covariance, self.variances(X))

    def sample(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw errors: draws of the prior less what they predict from noisy draws at the rows (Matheron's rule).

        Raises
        ------
        InputError
            If a row is so far from the box of the training rows that the modes do not draw it.

        References
        ----------
        J. T. Wilson, V. Borovitskiy, A. Terenin, P. Mostowsky and M. P. Deisenroth, *Efficiently Sampling Functions
        from Gaussian Process Posteriors*, ICML 2020, eq. 10.
        """
        if not self.plan.keeps_rows:
            if self._is_dense:
                return normal_draws(self.covariance(X), n_samples, rng)
            return super().sample(X, n_samples, rng)
        modes = self.plan.modes
        (outside,) = np.nonzero(~modes.served(X, 0.5))
        if len(outside):
            raise InputError(
                f"Draws are of rows within {modes.box(0.5 * modes.reach)}, where the modes are those of the process; "
                f"{len(outside):,} rows are not, the first of them row {outside[0]}. Leave them out, or add training "
                "rows near them."
            )
        numbers_of_a_draw = 16 * modes.n_modes + 8 * (self.n_rows + len(X))
        drawn = np.empty((len(X), n_samples))
        for part in chunks(n_samples, numbers_of_a_draw, 2**28):
            drawn[:, part] = self._errors(X, drawn[:, part].shape[1], rng).T
        return drawn

    def _errors(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw errors, shape (n_samples, m)."""
        plan, rows, variance = self.plan, self._rows, self.noise.variance
        noise = plan.noise_of(rows)
        prior = np.sqrt(plan.weights) * white((n_samples, *plan.modes.shape), rng)
        errors = np.sqrt(noise) * rng.standard_normal((n_samples, len(noise)))
        targets = -self._evaluate(prior, rows.X) - errors
        weighted = variance / noise * targets
        enough = self._enough(np.sum(weighted * targets, axis=1), 0)
        solution = self._solve(plan.rows_to_modes(rows.X, weighted), enough, targets=targets)
        return self._evaluate(prior + np.sqrt(plan.weights) * solution.vectors, X)
