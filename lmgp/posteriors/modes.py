"""Equispaced Fourier modes: which ones a kernel needs, transforms between rows and modes, and what solving may take."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self

import finufft
import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid
from sklearn.base import clone
from threadpoolctl import ThreadpoolController

from lmgp.data import Complexes, Floats, Indices, Noise, Rows, Source
from lmgp.errors import InputError, TimeLimitError
from lmgp.kernels.base import Kernel, require
from lmgp.posteriors.costs import Cost, of_modes, of_rows, of_transform
from lmgp.posteriors.toeplitz import (
    MOST_AT_ONCE,
    Toeplitz,
    block_modes,
    half_shape,
    iterations_before,
    opposite,
)
from lmgp.utils.fitted import digest
from lmgp.utils.memory import check_memory
from lmgp.utils.parallel import n_threads

# The most columns: the number of modes grows with the power of their number.
MOST_COLUMNS = 3
# Of one column: more modes fit into no memory, and must not overflow an integer.
MOST_COUNTS = 2.0**40

# Where a kernel and its density are evaluated to find how far they reach: in lengthscales, and in cycles a lengthscale.
GRID = np.geomspace(1e-4, 1e9, 4000)
# No smaller share of the prior variance is left out: float64 does not tell it.
LEAST_SHARE = 1e-14
# Rows are counted around this number of rows, among that number.
PROBES, COUNTED_ROWS = 128, 4096

# Of the transforms: the share of what the modes may be off by at one row; no transform of float64 is more accurate.
TRANSFORM, LEAST_TRANSFORM = 0.1, 1e-13

# Iterations grow with the root of the number of rows over the relative noise: at most about this multiple of it, and
# some more; and beyond this multiple of the number of modes, none is left to solve.
ITERATIONS, MORE_ITERATIONS, PER_MODE = 0.5, 40.0, 3.0
# With a block of the modes that matter most, at most about this number.
WITH_BLOCK = 100.0
# Of grids over the modes' own number that transforms take: the finer one takes fewer operations a row, and is taken
# where it saves this factor. Rows of a stream are summed in chunks of at least this number.
COARSE, FINE, WORTH_FINE, CHUNK = 1.25, 2.0, 1.5, 2**17
# A solve over the rows is expected to take this number of iterations; where rows are clustered, it takes more. Its
# preconditioner gives each corner this number of those before it.
OVER_ROWS, N_NEIGHBORS = 25.0, 40


@dataclass(frozen=True, eq=False)
class Modes:
    """The modes e^{2πi h∘j·(x − center)} with j from −m to m in each column.

    Arrays over modes hold j = 0, …, m, −m, …, −1 along all columns but the last, and 0, …, m along the last: what
    belongs to −j is the conjugate, because all functions are real.

    Attributes
    ----------
    low, high : ndarray of shape (d,)
        The box of the training rows, and of those to come.
    spacing : ndarray of shape (d,)
        h, in cycles a unit of the column. What is made of the modes repeats itself with the period 1/h.
    counts : ndarray of int of shape (d,)
        m.
    reach : ndarray of shape (d,)
        How far beyond the box rows are served. The kernel between rows that are farther apart is negligible.
    margin : ndarray of shape (d,)
        How far beyond the box training rows may be added: the copy of one such row is negligible, that of all n rows
        would not be.
    n_near : float
        The number of rows within the shortest period 1/(hm) of a row: the kernel of the frequencies that are left out
        does not reach farther.
    kernel : Kernel
        They are chosen for this kernel, with lengthscales
    room : float
        up to this factor shorter or longer.
    """

    low: Floats
    high: Floats
    spacing: Floats
    counts: Indices
    reach: Floats
    margin: Floats
    n_near: float
    kernel: Kernel
    room: float

    @property
    def center(self) -> Floats:
        """The middle of the box."""
        return 0.5 * (self.low + self.high)

    @property
    def n_modes(self) -> int:
        """The number of modes, Π(2m + 1)."""
        return math.prod(2 * int(m) + 1 for m in self.counts)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of arrays over modes."""
        return half_shape(self.counts)

    @property
    def sizes(self) -> str:
        """The numbers of modes of the columns, to be printed."""
        return " × ".join(f"{2 * int(m) + 1:,}" for m in self.counts)

    @property
    def name(self) -> str:
        """The number of modes, and a digest of where they are: modes of one name are the same."""
        return f"{self.sizes} Fourier modes ({digest((self.center, self.spacing, self.counts))[:8]})"

    def angles(self, X: Floats) -> list[Floats]:
        """Return 2πh(x − center) of each column, each of shape (n,)."""
        scales = 2.0 * np.pi * np.broadcast_to(self.spacing, (X.shape[1],))
        return [scale * (x - middle) for scale, x, middle in zip(scales, X.T, self.center, strict=True)]

    def box(self, beyond: Floats) -> str:
        """Return the box and what lies beyond it, to be printed."""
        edges = zip(self.low - beyond, self.high + beyond, strict=True)
        return " × ".join(f"[{low:.6g}, {high:.6g}]" for low, high in edges)

    def served(self, X: Floats, share: float = 1.0) -> NDArray[np.bool_]:
        """Say which rows are within a share of the reach of the box, shape (n,).

        Beyond the reach they have the prior's prediction. Beyond half of it, two rows may be nearer to copies of each
        other than the reach.
        """
        return self._within(X, share * self.reach)

    def admits(self, X: Floats) -> NDArray[np.bool_]:
        """Say which rows may be training rows, shape (n,)."""
        return self._within(X, self.margin)

    def _within(self, X: Floats, beyond: Floats) -> NDArray[np.bool_]:
        low, high = self.low - beyond, self.high + beyond
        columns = zip(X.T, low, high, strict=True)
        return np.all([(low <= x) & (x <= high) for x, low, high in columns], axis=0)

    def weights(self, kernel: Kernel) -> Floats:
        """Return the prior variance of each mode, over the shape of the modes: k ≈ Σⱼ weightⱼ e^{2πi h∘j·(x − z)}."""
        density = kernel.spectral_density(self.frequencies)
        return np.prod(self.spacing) * density.reshape(self.shape)

    @cached_property
    def frequencies(self) -> Floats:
        """h∘j of all modes that are kept, shape (prod(shape), d)."""
        sides = [np.concatenate((np.arange(m + 1), np.arange(-m, 0))) for m in self.counts[:-1]]
        sides.append(np.arange(self.counts[-1] + 1))
        grid = np.meshgrid(*(side * h for side, h in zip(sides, self.spacing, strict=True)), indexing="ij")
        return np.stack([axis.ravel() for axis in grid], axis=1).astype(np.float64)


def choose_modes(
    kernel: Kernel,
    X: Floats,
    noise_variance: float,
    tolerance: float,
    room: float = 1.0,
    box: tuple[Floats, Floats] | None = None,
    n_rows: int | None = None,
) -> Modes:
    """Choose modes that give the posterior mean to a tolerance.

    With an error δ(x, xᵢ) of the kernel, the mean changes by Σᵢ δ(x, xᵢ) aᵢ, a = C⁻¹y. Of targets as the model expects
    them, a is nearly white with variance 1/σ², and the root mean square of that is √N δ/σ, of N rows in the reach of δ.
    The kernel's copies, a period apart, reach all n rows; the frequencies that are left out reach the rows within one
    of their periods. Each column has its own period and its own largest frequency: the box is no cube, and
    lengthscales differ.

    Parameters
    ----------
    kernel : Kernel
        Stationary.
    X : ndarray of shape (n, d)
    noise_variance : float
        σ², in squared units of y.
    tolerance : float
        The root mean square error of the mean, in σ.
    room : float, default=1.0
        The modes serve lengthscales up to this factor shorter or longer than the kernel's.
    box : pair of ndarray of shape (d,), optional
        The lowest and the highest values of rows to come; those of X if not given.
    n_rows : int, optional
        The number of rows of which X is a sample.

    Returns
    -------
    Modes

    Raises
    ------
    InputError
        If there are more than three columns, or the kernel has no spectral density, one that does not fall off, or
        one that is infinite at 0.

    References
    ----------
    P. Greengard, M. Rachh and A. Barnett, *Equispaced Fourier Representations for Efficient Gaussian Process Regression
    from a Billion Data Points*, 2022, section 3: the modes for an error of the kernel.
    """
    n, d = X.shape if n_rows is None else (n_rows, X.shape[1])
    if d > MOST_COLUMNS:
        raise InputError(
            f"Fourier modes serve at most {MOST_COLUMNS} columns; X has {d}. Use GPRegressor or "
            "NearestNeighborsGPRegressor."
        )
    require(kernel, "spectral_density", "A solution by Fourier modes")
    if not np.isfinite(kernel.spectral_density(np.zeros((1, d)))[0]):
        raise InputError(
            f"The kernel {kernel!r} falls off so slowly that its spectral density is infinite at 0: its prediction has "
            "no Fourier modes. Use NearestNeighborsGPRegressor."
        )
    # An error of the kernel, in prior variances, that is small enough where it reaches one row alone.
    small = tolerance * noise_variance / kernel.prior_variance()
    share = max(0.5 * small / (d * math.sqrt(n)), LEAST_SHARE)
    longest = [_along(_stretched(kernel, room, d), column, d) for column in range(d)]
    reach, reach_of_one = (np.array([_reach(k, least) for k in longest]) for least in (share, max(share, small)))
    tails = [_tail(_along(_stretched(kernel, 1.0 / room, d), column, d)) for column in range(d)]
    n_around = rows_around(X, n)

    def left_out(level: float) -> tuple[Floats, float]:
        """Return the frequencies beyond which a share of e^level lies in each column, and how many rows they reach."""
        highest = np.exp([np.interp(level, *tail) for tail in tails])
        return highest, n_around(1.0 / highest)

    def error(level: float) -> float:
        return level + math.log(d) + 0.5 * math.log(left_out(level)[1]) - math.log(small)

    least, most = math.log(LEAST_SHARE), math.log(0.1)
    level = most if error(most) <= 0.0 else least if error(least) >= 0.0 else _bisect(error, least, most)
    highest, n_near = left_out(level)
    columns = np.ascontiguousarray(X.T)  # of which numpy takes ranges several times as fast
    low, high = columns.min(axis=1), columns.max(axis=1)
    if box is not None:
        low, high = np.minimum(low, box[0]), np.maximum(high, box[1])
    period = high - low + 2.0 * reach
    counts = np.ceil(np.minimum(highest * period, MOST_COUNTS)).astype(np.intp)
    return Modes(low, high, 1.0 / period, counts, reach, reach - reach_of_one, n_near, clone(kernel), room)


def _bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where an increasing function crosses zero, from below, to 0.1."""
    while high - low > 0.1:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) <= 0.0 else (low, middle)
    return low


def rows_around(X: Floats, n_rows: int) -> Callable[[Floats], float]:
    """Return a function of distances: the mean number of rows within them, along each column, of a row; with itself.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    n_rows : int
        The number of rows of which X is a sample.
    """
    some = X[np.random.default_rng(0).permutation(len(X))[:COUNTED_ROWS]]
    apart = [np.abs(x[:PROBES, None] - x) for x in some.T]

    def count(distances: Floats) -> float:
        near = np.all([gaps <= distance for gaps, distance in zip(apart, distances, strict=True)], axis=0)
        others = np.count_nonzero(near) / len(near) - 1.0
        return 1.0 + others * (n_rows - 1) / max(1, len(some) - 1)

    return count


def _stretched(kernel: Kernel, factor: float, n_inputs: int) -> Kernel:
    return kernel if factor == 1.0 else kernel.rescaled(np.full(n_inputs, factor))


def _along(kernel: Kernel, column: int, n_inputs: int) -> Kernel:
    """Return the kernel of rows that differ in one column alone."""
    lengthscales = {
        parameter.name: float(np.broadcast_to(parameter.value, (n_inputs,))[column])
        for parameter in kernel.parameters
        if parameter.name.endswith("lengthscale")
    }
    return clone(kernel).set_params(**lengthscales)


def _reach(kernel: Kernel, share: float) -> float:
    """Return the distance beyond which the kernel of one column is below a share of its variance."""
    distances = float(kernel.metric(1)[0]) * GRID
    values = np.abs(kernel(np.zeros((1, 1)), distances[:, None])[0])
    (above,) = np.nonzero(values > share * kernel.prior_variance())
    last = int(above[-1]) if len(above) else 0
    if last + 1 >= len(distances):
        raise InputError(
            f"The kernel {kernel!r} does not fall below {share:.1g} of its variance: its prediction has no Fourier "
            "modes. Use NearestNeighborsGPRegressor."
        )
    return float(distances[last + 1])


def _tail(kernel: Kernel) -> tuple[Floats, Floats]:
    """Return logarithms of the share of the variance of one column beyond frequencies, ascending, and of these."""
    frequencies = 1.0 / float(kernel.metric(1)[0]) * GRID
    density = kernel.spectral_density(frequencies[:, None])
    # In logarithms of the frequency, from the highest down; both signs of a frequency together.
    steps = -np.log(frequencies[::-1])
    beyond = 2.0 * cumulative_trapezoid((density * frequencies)[::-1], steps, initial=0.0) / kernel.prior_variance()
    told = beyond > 0.5 * LEAST_SHARE
    return np.log(beyond[told]), np.log(frequencies[::-1][told])


@dataclass(frozen=True, eq=False)
class ModePlan:
    """Modes for a kernel and a noise, and how the mean and the variance are solved on them.

    Attributes
    ----------
    modes : Modes
    kernel : Kernel
        That of the process: of the form of `modes.kernel`, with lengthscales within the room.
    noise : Noise
    tolerance : float
        The root mean square error of the mean, in noise standard deviations, of the modes and of the iterations.
    transform_tolerance : float
        Of the transforms, relative.
    n_chosen : int
        The number of rows for which the modes were chosen.
    n_trend : int
        How many of the last targets that are solved for are columns of a trend.
    keeps_rows : bool
        Whether rows are kept, for variances and leave-one-out predictions, or only how many are where.
    max_iterations : int
    max_memory_gib : float or None
    seed : int
        Of the model of the variance.
    """

    modes: Modes
    kernel: Kernel
    noise: Noise
    tolerance: float
    transform_tolerance: float
    n_chosen: int
    n_trend: int
    keeps_rows: bool
    max_iterations: int
    max_memory_gib: float | None
    seed: int

    @classmethod
    def choose(
        cls,
        kernel: Kernel,
        noise: Noise,
        rows: Rows,
        tolerance: float,
        *,
        n_trend: int = 0,
        keeps_rows: bool = True,
        room: float = 1.0,
        box: tuple[Floats, Floats] | None = None,
        n_rows: int | None = None,
        max_iterations: int = 2000,
        max_memory_gib: float | None = None,
        max_seconds: float | None = None,
        seed: int = 0,
    ) -> Self:
        """Choose modes for rows, or for those of which they are a sample.

        Parameters
        ----------
        kernel : Kernel
            With a spectral density.
        noise : Noise
            What the modes leave out of the prior variance is noise of the rows where its approximation says so.
        rows : Rows
            In up to three columns.
        tolerance : float
            See `choose_modes`.
        n_trend, keeps_rows, max_iterations, max_memory_gib, seed
            See the attributes.
        room, box, n_rows
            See `choose_modes`.
        max_seconds : float, optional
            Of the sums and the iterations, counted in operations at a nominal rate.

        Raises
        ------
        InputError
            See `choose_modes`.
        MemoryLimitError
            If the modes take more memory; before it is taken.
        TimeLimitError
            If the sums and iterations may take longer; before they begin.
        """
        kernel = kernel.checked(rows.X.shape[1])
        # A row of precision ρ counts as ρ rows at its place: in √N/σ, N rows in reach are ρN. Where the unit of weights
        # is any, σ is that of a row: it is smaller as well.
        precision = noise.mean_precision(rows)
        variance = noise.variance / (max(1.0, precision) ** 0.5 if rows.measurements is None else precision)
        modes = choose_modes(kernel, rows.X, variance, tolerance, room, box, n_rows)
        check_modes(modes, kernel, tolerance, 1 + n_trend, max_memory_gib)
        transform = transform_tolerance(tolerance, variance, kernel, room)
        n_chosen = n_rows or len(rows)
        plan = cls(
            modes, kernel, noise, tolerance, transform, n_chosen, n_trend, keeps_rows, max_iterations, max_memory_gib,
            seed,
        )  # fmt: skip
        if max_seconds is not None:
            plan.check_seconds(max_seconds, plan.solve(precision))
        return plan

    def check_seconds(self, max_seconds: float, solve: "ModeSolve") -> None:
        """Refuse sums and iterations that may take longer than the user allows, at a nominal rate.

        Raises
        ------
        TimeLimitError
            It says how long it would take, and what would make it shorter.
        """
        modes, n, n_targets = self.modes, self.n_chosen, 1 + self.n_trend
        # The sums of the matrix and of each target, two real ones in each complex transform.
        of_sums = of_transform(4 * modes.counts + 1, n, self.transform_tolerance, self.upsampling).seconds
        n_iterations = min(solve.n_iterations, self.max_iterations)
        sums = math.ceil((1 + n_targets) / 2) * of_sums
        iterations = n_targets * solve.cost.seconds * n_iterations / solve.n_iterations
        if sums + iterations > max_seconds:
            raise TimeLimitError(
                f"The sums of {n:,} rows for {modes.n_modes:,} Fourier modes may take about {sums:.2g} s, and up to "
                f"{n_iterations:,.0f} iterations {iterations:.2g} s, above max_seconds={max_seconds:g}. Raise "
                "it, give a larger tolerance, or fewer max_iterations. A larger noise variance takes fewer iterations, "
                "longer lengthscales fewer modes."
            )

    def solve(self, precision: float) -> "ModeSolve":
        """Return how the mean is solved for; a precision of 1 is that of rows with the noise variance."""
        variance = self.noise.variance / precision
        return ModeSolve.of(self.modes, self.kernel, variance, self.n_chosen, self.tolerance, self.keeps_rows)

    @property
    def source(self) -> Source:
        """What sums on these modes are of: no kernel, which only weighs them."""
        return Source(self.noise, features=self.modes.name, centre=self.modes.center)

    @cached_property
    def weights(self) -> Floats:
        """The prior variances of the modes, over their shape."""
        return self.modes.weights(self.kernel)

    @cached_property
    def left_out(self) -> float:
        """The prior variance that the modes leave out."""
        # Modes −j, which are not kept, weigh as much as j.
        of_modes = 2.0 * float(self.weights.sum()) - float(self.weights[..., 0].sum())
        return max(0.0, self.kernel.prior_variance() - of_modes)

    @cached_property
    def upsampling(self) -> float:
        """Of the grids of the sums over rows, that which takes fewer operations.

        It is chosen once, so that what rows add is the same whatever rows they come with, and is taken out to the last
        digit.
        """
        n_rows, tolerance = self.n_chosen if self.keeps_rows else min(self.n_chosen, CHUNK), self.transform_tolerance
        sizes = 4 * self.modes.counts + 1
        coarse, fine = (of_transform(sizes, n_rows, tolerance, factor).seconds for factor in (COARSE, FINE))
        return FINE if tolerance <= 1e-9 or coarse > WORTH_FINE * fine else COARSE

    @property
    def rounding(self) -> float:
        """The relative rounding of the sums over rows: it grows with the number of modes of a column."""
        return float(np.finfo(np.float64).eps) * (4.0 * float(self.modes.counts.max()) + 1.0)

    def missing(self, n: int) -> Floats:
        """Return the prior variance that the modes leave out of each of n rows."""
        return np.full(n, self.left_out)

    def noise_of(self, rows: Rows) -> Floats:
        """Return σᵢ²/w of each row, with the prior variance that the modes leave out."""
        return self.noise.of_weighted_rows(rows, self.missing(len(rows)))

    def rows_to_modes(self, X: Floats, strengths: Floats, counts: Indices | None = None) -> Complexes:
        """Return the sums over rows of strengths of shape (b, n), see `sums_over_rows`."""
        counts = self.modes.counts if counts is None else counts
        return sums_over_rows(self.modes.angles(X), strengths, counts, self.transform_tolerance, self.upsampling)

    def modes_to_rows(self, X: Floats, coefficients: Complexes, counts: Indices | None = None) -> Floats:
        """Return the functions with these coefficients at rows, shape (b, n), see `sums_over_modes`."""
        counts = self.modes.counts if counts is None else counts
        return sums_over_modes(self.modes.angles(X), coefficients, counts, self.transform_tolerance)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("weights", "left_out", "upsampling")}


def check_modes(
    modes: Modes, kernel: Kernel, tolerance: float, n_targets: int, max_memory_gib: float | None = None
) -> None:
    """Refuse modes whose solution takes more memory than there is, or than the user allows.

    Raises
    ------
    MemoryLimitError
    """
    sums = 48.0 * float(np.prod(np.array(half_shape(2 * modes.counts), dtype=np.float64))) * (1 + n_targets)
    room = f" and room={modes.room:g}" if modes.room > 1.0 else ""
    check_memory(
        Toeplitz.n_bytes(modes.counts, n_targets) + sums,
        f"The {modes.sizes} Fourier modes of {kernel!r} for a tolerance of {tolerance:g}{room}",
        "Lengthscales are short beside the extent of the rows, or the kernel is rough: give a larger tolerance"
        f"{' or less room' if room else ''}, or use NearestNeighborsGPRegressor.",
        max_memory_gib,
    )


def expected_iterations(modes: Modes, kernel: Kernel, noise_variance: float, n_rows: int) -> float:
    """Return about how many iterations a solve takes at most."""
    by_noise = MORE_ITERATIONS + ITERATIONS * math.sqrt(n_rows * kernel.prior_variance() / noise_variance)
    without = min(by_noise, PER_MODE * modes.n_modes)
    kept = block_modes(modes.weights(kernel), n_rows, noise_variance)
    # Making the block takes as long as the iterations without it, or less.
    return without if kept is None else min(without, 2 * iterations_before(kept) + WITH_BLOCK)


@dataclass(frozen=True)
class ModeSolve:
    """How the coefficients of modes are solved for, and what it is expected to take at most.

    Attributes
    ----------
    over_rows : bool
        Whether the iterations are over the rows, see `lmgp.posteriors.over_rows`, or over the modes.
    n_iterations : float
    cost : Cost
        Of one target.
    """

    over_rows: bool
    n_iterations: float
    cost: Cost

    @classmethod
    def of(
        cls, modes: Modes, kernel: Kernel, noise_variance: float, n_rows: int, tolerance: float, keeps_rows: bool = True
    ) -> Self:
        """Take the cheaper way; that over the rows takes a radial kernel, and pays where its iterations are fewer."""
        n_iterations = expected_iterations(modes, kernel, noise_variance, n_rows)
        ways = [cls(False, n_iterations, of_modes(modes, n_iterations))]
        parts = kernel.radial_parts() if keeps_rows else None
        if parts is not None and n_iterations > OVER_ROWS and modes.n_modes > MOST_AT_ONCE:
            small = transform_tolerance(tolerance, noise_variance, kernel)
            cost = of_rows(modes, OVER_ROWS, N_NEIGHBORS, n_rows, kernel, small, COARSE)
            ways.append(cls(True, OVER_ROWS, cost))
        return min(ways, key=lambda way: way.cost.seconds)


def transform_tolerance(tolerance: float, noise_variance: float, kernel: Kernel, room: float = 1.0) -> float:
    """Return the relative tolerance of transforms that a tolerance of the mean asks for."""
    small = tolerance * noise_variance / (kernel.prior_variance() * room**2)
    return min(max(TRANSFORM * small, LEAST_TRANSFORM), 1e-3)


class RowProducts:
    """Products of the covariance of fixed rows by a radial kernel with vectors, for iterations.

    Copies of the kernel are out of reach of the rows in the box: no others are served, which takes fewer modes. Vectors
    go in pairs, as the two parts of a complex one: of a real and even spectrum, parts do not mix.
    """

    def __init__(self, plan: ModePlan, X: Floats) -> None:
        modes = plan.modes
        spacing = 1.0 / (modes.high - modes.low + modes.reach)
        counts = np.ceil(modes.counts * modes.spacing / spacing).astype(np.intp)
        close = replace(modes, spacing=spacing, counts=counts)
        half = close.weights(plan.kernel)
        self._weights = np.concatenate((half, half[..., :0:-1]), axis=-1)
        places, shape = close.angles(X), tuple(2 * int(m) + 1 for m in counts)
        self._to_modes, self._to_rows = (
            finufft.Plan(kind, shape, eps=plan.transform_tolerance, isign=sign, modeord=1, nthreads=_threads())
            for kind, sign in ((1, -1), (2, 1))
        )
        self._to_modes.setpts(*places)
        self._to_rows.setpts(*places)

    def __call__(self, vectors: Floats) -> Floats:
        """Return the products with vectors of shape (n, b)."""
        sizes = np.maximum(np.sqrt(np.einsum("nb,nb->b", vectors, vectors)), np.finfo(np.float64).tiny)
        products = np.empty_like(vectors)
        for first in range(0, vectors.shape[1], 2):
            some = slice(first, first + 2)
            pair = np.zeros((len(vectors), 2))
            pair[:, : vectors[:, some].shape[1]] = vectors[:, some] / sizes[some]
            of_modes = self._to_modes.execute(pair.view(np.complex128)[:, 0])
            of_rows = self._to_rows.execute(self._weights * of_modes).view(np.float64).reshape(-1, 2)
            products[:, some] = of_rows[:, : vectors[:, some].shape[1]] * sizes[some]
        return products


def sums_over_rows(
    angles: Sequence[Floats], strengths: Floats, counts: Indices, tolerance: float, upsampling: float = 0.0
) -> Complexes:
    """Return Σₙ cₙ e^{−i j·angleₙ} for all modes j.

    Parameters
    ----------
    angles : sequence of ndarray of shape (n,)
        One a column.
    strengths : ndarray of shape (b, n)
        Real.
    counts : ndarray of int of shape (d,)
        The modes go from −m to m.
    tolerance : float
        Of the transform, relative.
    upsampling : float, default=0
        Of its grid; 0 leaves the choice to the library, by the number of rows and threads.

    Returns
    -------
    ndarray of shape (b, *half_shape(counts))
    """
    # Two real sums are the two parts of one complex sum: F(a + ib) has F(a) and F(b) as its symmetric parts. Errors of
    # a transform are relative to its larger part, so that both get about the size of 1: powers of 2 round nothing.
    largest = np.maximum(np.abs(strengths.sum(axis=1)), np.sqrt(np.einsum("bn,bn->b", strengths, strengths)))
    sizes = np.ldexp(1.0, np.frexp(largest)[1])[:, None]
    paired = np.zeros((len(strengths[::2]), strengths.shape[1]), dtype=np.complex128)
    paired.real = strengths[::2] / sizes[::2]
    paired.imag[: len(strengths) // 2] = strengths[1::2] / sizes[1::2]
    shape = tuple(2 * int(m) + 1 for m in counts)
    # A transform of one component has that as its number.
    both = _transform(1, angles, paired, tolerance, upsampling, shape if len(angles) > 1 else shape[0])
    both = both.reshape(-1, *shape)
    mirrored = np.conj(opposite(both))
    last = int(counts[-1]) + 1
    result = np.empty((len(strengths), *half_shape(counts)), dtype=np.complex128)
    result[::2] = 0.5 * (both + mirrored)[..., :last]
    result[1::2] = -0.5j * (both - mirrored)[: len(strengths) // 2, ..., :last]
    result *= sizes.reshape(-1, *[1] * len(counts))
    return result


def sums_over_modes(angles: Sequence[Floats], coefficients: Complexes, counts: Indices, tolerance: float) -> Floats:
    """Return Σⱼ cⱼ e^{i j·angleₙ} for all rows n, of coefficients whose sums are real.

    Parameters
    ----------
    angles : sequence of ndarray of shape (n,)
    coefficients : ndarray of shape (b, *half_shape(counts))
    counts : ndarray of int of shape (d,)
    tolerance : float

    Returns
    -------
    ndarray of shape (b, n)
    """
    mirrored = np.conj(np.flip(coefficients[..., 1:], -1))
    if len(counts) > 1:
        mirrored = opposite(mirrored, coefficients.ndim - 1)
    whole = np.concatenate((coefficients, mirrored), axis=-1)
    paired = whole[::2].copy()
    paired[: len(whole) // 2] += 1j * whole[1::2]
    both = _transform(2, angles, paired, tolerance, 0.0).reshape(len(paired), -1)
    result = np.empty((len(whole), len(angles[0])))
    result[::2], result[1::2] = both.real, both.imag[: len(whole) // 2]
    return result


def white(shape: tuple[int, ...], rng: np.random.Generator) -> Complexes:
    """Draw the modes of real white noise, each of variance 1; shape (b, *half_shape(counts))."""
    drawn = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) * np.sqrt(0.5)
    # Where the last column is 0, −j is kept beside j.
    plane = drawn[..., 0]
    drawn[..., 0] = np.sqrt(0.5) * (plane + np.conj(opposite(plane) if plane.ndim > 1 else plane))
    return drawn


def _threads() -> int:
    """Return the number of threads: that of all work, as far as finufft's OpenMP has as many."""
    return min([n_threads(), *(library.num_threads for library in _openmp())])


@cache
def _openmp() -> list[Any]:
    controllers: list[Any] = ThreadpoolController().select(user_api="openmp").lib_controllers
    return [library for library in controllers if "finufft" in library.filepath]


def _transform(
    kind: int, angles: Sequence[Floats], values: Complexes, tolerance: float, upsampling: float, *size: Any
) -> Complexes:
    transform: Any = getattr(finufft, f"nufft{len(angles)}d{kind}")
    options = {"eps": tolerance, "modeord": 1, "nthreads": _threads(), "upsampfac": upsampling}
    return np.asarray(transform(*angles, np.ascontiguousarray(values), *size, isign=-1 if kind == 1 else 1, **options))
