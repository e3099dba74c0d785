"""What a solve on Fourier modes may take, in memory and seconds, estimated before it begins."""

import math
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

import numpy as np

from lmgp.errors import TimeLimitError
from lmgp.kernels.base import Kernel
from lmgp.memory import check_memory
from lmgp.spectral.modes import Modes, half_shape
from lmgp.spectral.preconditioning import block_modes, iterations_before
from lmgp.spectral.solve import Toeplitz
from lmgp.spectral.transforms import sums_over_rows

# Iterations grow with the root of the number of rows over the relative noise: at most about this multiple of it, and
# some more; and beyond this multiple of the number of modes, none is left to solve.
ITERATIONS, MORE_ITERATIONS, PER_MODE = 0.5, 40.0, 3.0

# With a block of the modes that matter most, at most about this number.
WITH_BLOCK = 100.0

# A product with more modes, and a transform of more rows, would take as long as what their measurement is to save.
MEASURED_MODES, MEASURED_ROWS = 100_000, 10_000

# An iteration takes this multiple of a product with the matrix, for what is done beside it.
BESIDE = 1.5


def check_modes(
    modes: Modes, kernel: Kernel, tolerance: float, n_targets: int, max_memory_gib: float | None = None
) -> None:
    """Refuse modes whose solution takes more memory than there is, or than the user allows.

    Raises
    ------
    MemoryLimitError
    """
    sizes = " × ".join(f"{2 * int(m) + 1:,}" for m in modes.counts)
    sums = 48.0 * float(np.prod(np.array(half_shape(2 * modes.counts), dtype=np.float64))) * (1 + n_targets)
    room = f" and room={modes.room:g}" if modes.room > 1.0 else ""
    check_memory(
        Toeplitz.n_bytes(modes.counts, n_targets) + sums,
        f"The {sizes} Fourier modes of {kernel!r} for a tolerance of {tolerance:g}{room}",
        "Lengthscales are short beside the extent of the rows, or the kernel is rough: give a larger tolerance"
        f"{' or less room' if room else ''}, or use NearestNeighborsGPRegressor.",
        max_memory_gib,
    )


def expected_iterations(modes: Modes, kernel: Kernel, noise_variance: float, n_rows: int) -> float:
    """Return about how many iterations a solve takes at most.

    Parameters
    ----------
    modes : Modes
    kernel : Kernel
    noise_variance : float
    n_rows : int
    """
    by_noise = MORE_ITERATIONS + ITERATIONS * math.sqrt(n_rows * kernel.prior_variance() / noise_variance)
    without = min(by_noise, PER_MODE * modes.n_modes)
    kept = block_modes(modes.weights(kernel), n_rows, noise_variance)
    # Making the block takes as long as the iterations without it, or less.
    return without if kept is None else min(without, 2 * iterations_before(kept) + WITH_BLOCK)


def iteration_seconds(modes: Modes, n_targets: int = 1) -> float:
    """Return the seconds of an iteration, measured on at most `MEASURED_MODES` modes.

    Parameters
    ----------
    modes : Modes
    n_targets : int, default=1
        y, and the columns of a trend.
    """
    fewer = _fewer(modes, MEASURED_MODES)
    toeplitz = Toeplitz(np.ones(fewer.doubled.shape, dtype=np.complex128), fewer.counts)
    vector = np.ones((1, *fewer.shape), dtype=np.complex128)
    start = perf_counter()
    toeplitz(vector)
    return BESIDE * n_targets * (perf_counter() - start) * modes.n_modes / fewer.n_modes


def transform_seconds(modes: Modes, n_rows: int, n_targets: int, tolerance: float) -> float:
    """Return the seconds of the sums over all rows, measured on at most `MEASURED_ROWS` rows and few modes.

    Parameters
    ----------
    modes : Modes
    n_rows : int
    n_targets : int
    tolerance : float
        Of the transform.
    """
    fewer, some = _fewer(modes, MEASURED_ROWS), min(n_rows, MEASURED_ROWS)
    angles = [np.linspace(-3.0, 3.0, some)] * len(modes.counts)
    # For the matrix, and for each target.
    strengths = np.ones((1 + n_targets, some))
    start = perf_counter()
    sums_over_rows(angles, strengths, fewer.doubled.counts, tolerance)
    return (perf_counter() - start) * n_rows / some


class Work(NamedTuple):
    """What a fit has to do.

    Attributes
    ----------
    n_rows : int
    n_targets : int
        y, and the columns of a trend.
    max_iterations : int
    tolerance : float
        Of the transform.
    """

    n_rows: int
    n_targets: int
    max_iterations: int
    tolerance: float


def check_seconds(modes: Modes, kernel: Kernel, noise_variance: float, work: Work, max_seconds: float) -> None:
    """Refuse modes whose sums and iterations may take longer than the user allows.

    Parameters
    ----------
    modes : Modes
    kernel : Kernel
    noise_variance : float
    work : Work
    max_seconds : float

    Raises
    ------
    TimeLimitError
        It says how long it would take, and what would make it shorter.
    """
    n_rows, n_targets, most, tolerance = work
    iterations = min(expected_iterations(modes, kernel, noise_variance, n_rows), most)
    sums = transform_seconds(modes, n_rows, n_targets, tolerance)
    solve = iterations * iteration_seconds(modes, n_targets)
    if sums + solve > max_seconds:
        raise TimeLimitError(
            f"The sums of {n_rows:,} rows for {modes.n_modes:,} Fourier modes may take about {sums:.2g} s, and up to "
            f"{iterations:,.0f} iterations {solve:.2g} s, above max_seconds={max_seconds:g}. Raise it, give a larger "
            "tolerance, or fewer max_iterations. A larger noise variance takes fewer iterations, longer lengthscales "
            "fewer modes."
        )


def _fewer(modes: Modes, most: int) -> Modes:
    share = min(1.0, most / modes.n_modes)
    counts = np.maximum(1, modes.counts * share ** (1.0 / len(modes.counts))).astype(np.intp)
    return replace(modes, counts=counts)
