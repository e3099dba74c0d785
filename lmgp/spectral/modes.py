"""Equispaced Fourier modes: how many, and how far apart, for a kernel, a box and a tolerance."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid
from sklearn.base import clone

from lmgp.errors import InputError
from lmgp.fitted import digest
from lmgp.kernels.base import Kernel, require

Floats = NDArray[np.float64]

# Of one column: more fit into no memory, and must not overflow an integer.
MOST_COUNTS = 2.0**40
Complexes = NDArray[np.complex128]
Indices = NDArray[np.intp]

# The most columns: the number of modes grows with the power of their number.
MOST_COLUMNS = 3


@dataclass(frozen=True)
class Sampling:
    """Where a kernel and its density are evaluated to find how far they reach.

    Attributes
    ----------
    n_points : int
    nearest, farthest : float
        In lengthscales, and in cycles a lengthscale.
    least_share : float
        No smaller share of the prior variance is left out: float64 does not tell it.
    n_probes, n_rows : int
        Rows are counted around this number of rows, among that number.
    """

    n_points: int = 4000
    nearest: float = 1e-4
    farthest: float = 1e9
    least_share: float = 1e-14
    n_probes: int = 128
    n_rows: int = 4096


SAMPLING = Sampling()


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
    def doubled(self) -> "Modes":
        """The modes of twice the numbers: those of the products of two modes."""
        return replace(self, counts=2 * self.counts)

    def angles(self, X: Floats) -> list[Floats]:
        """Return 2πh(x − center) of each column, each of shape (n,)."""
        scales = 2.0 * np.pi * np.broadcast_to(self.spacing, (X.shape[1],))
        return [scale * (x - middle) for scale, x, middle in zip(scales, X.T, self.center, strict=True)]

    def served(self, X: Floats, share: float = 1.0) -> NDArray[np.bool_]:
        """Say which rows are within a share of the reach of the box, shape (n,).

        Beyond the reach they have the prior's prediction. Beyond half of it, two rows may be nearer to copies of each
        other than the reach.
        """
        beyond = share * self.reach
        inside: NDArray[np.bool_] = np.all((self.low - beyond <= X) & (self.high + beyond >= X), axis=1)
        return inside

    def admits(self, X: Floats) -> NDArray[np.bool_]:
        """Say which rows may be training rows, shape (n,)."""
        low, high, inside = self.low - self.margin, self.high + self.margin, np.ones(len(X), dtype=bool)
        for x, least, most in zip(X.T, low, high, strict=True):
            inside &= (x >= least) & (x <= most)
        return inside

    @property
    def name(self) -> str:
        """The number of modes, and a digest of where they are: modes of one name are the same."""
        sizes = " × ".join(f"{2 * int(m) + 1:,}" for m in self.counts)
        return f"{sizes} Fourier modes ({digest((self.center, self.spacing, self.counts))[:8]})"

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


def half_shape(counts: Indices) -> tuple[int, ...]:
    """Return the shape of arrays over the modes from −m to m, of which the last column keeps 0 to m."""
    return (*(2 * int(m) + 1 for m in counts[:-1]), int(counts[-1]) + 1)


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
    share = max(0.5 * small / (d * math.sqrt(n)), SAMPLING.least_share)
    longest = [_along(_stretched(kernel, room, d), column, d) for column in range(d)]
    reach, reach_of_one = (np.array([_reach(one, least) for one in longest]) for least in (share, max(share, small)))
    tails = [_tail(_along(_stretched(kernel, 1.0 / room, d), column, d)) for column in range(d)]
    around = _Around(X, n)

    def left_out(level: float) -> tuple[Floats, float]:
        """Return the frequencies beyond which a share of e^level lies in each column, and how many rows they reach."""
        highest = np.array([_highest(tail, math.exp(level)) for tail in tails])
        return highest, around.count(1.0 / highest)

    def error(level: float) -> float:
        return level + math.log(d) + 0.5 * math.log(left_out(level)[1]) - math.log(small)

    least, most = math.log(SAMPLING.least_share), math.log(0.1)
    level = most if error(most) <= 0.0 else least if error(least) >= 0.0 else _bisect(error, least, most)
    highest, n_near = left_out(level)
    low, high = X.min(axis=0), X.max(axis=0)
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


class _Around:
    """Counts the rows around a row."""

    def __init__(self, X: Floats, n_rows: int | None = None) -> None:
        order = np.random.default_rng(0).permutation(len(X))
        some = X[order[: SAMPLING.n_rows]]
        self._apart = [np.abs(x[: SAMPLING.n_probes, None] - x) for x in some.T]
        self._others = max(1, len(some) - 1)
        self._n = len(X) if n_rows is None else n_rows

    def count(self, distances: Floats) -> float:
        """Return the mean number of rows within these distances of a row, along each column; itself included."""
        near = np.ones(self._apart[0].shape, dtype=bool)
        for apart, distance in zip(self._apart, distances, strict=True):
            near &= apart <= distance
        others = np.count_nonzero(near) / len(near) - 1.0
        return 1.0 + others * (self._n - 1) / self._others


def _stretched(kernel: Kernel, factor: float, n_inputs: int) -> Kernel:
    return kernel if factor == 1.0 else kernel.rescaled(np.full(n_inputs, factor))


def _along(kernel: Kernel, column: int, n_inputs: int) -> Kernel:
    """Return the kernel of rows that differ in one column alone."""
    lengthscales = {
        one.name: float(np.broadcast_to(one.value, (n_inputs,))[column])
        for one in kernel.parameters
        if one.name.endswith("lengthscale")
    }
    return clone(kernel).set_params(**lengthscales)


def _grid(scale: float) -> Floats:
    return scale * np.geomspace(SAMPLING.nearest, SAMPLING.farthest, SAMPLING.n_points)


def _reach(kernel: Kernel, share: float) -> float:
    """Return the distance beyond which the kernel of one column is below a share of its variance."""
    distances = _grid(float(kernel.metric(1)[0]))
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
    frequencies = _grid(1.0 / float(kernel.metric(1)[0]))
    density = kernel.spectral_density(frequencies[:, None])
    # In logarithms of the frequency, from the highest down; both signs of a frequency together.
    steps = -np.log(frequencies[::-1])
    beyond = 2.0 * cumulative_trapezoid((density * frequencies)[::-1], steps, initial=0.0) / kernel.prior_variance()
    found = beyond > 0.5 * SAMPLING.least_share
    return np.log(beyond[found]), np.log(frequencies[::-1][found])


def _highest(tail: tuple[Floats, Floats], share: float) -> float:
    """Return the frequency beyond which lies a share of the variance."""
    return float(np.exp(np.interp(math.log(share), *tail)))
