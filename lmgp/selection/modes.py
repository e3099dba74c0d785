"""The global solve on Fourier modes as a candidate: it states its own error, and so needs no trial."""

import math

from lmgp.errors import InputError, MemoryLimitError
from lmgp.kernels.base import Kernel
from lmgp.methods import SPECTRAL
from lmgp.noise import Noise
from lmgp.selection.candidates import LIMITS, Allowed
from lmgp.selection.families import Choice
from lmgp.selection.search import Selection, Trial
from lmgp.spectral.effort import check_modes, expected_iterations, iteration_seconds
from lmgp.spectral.modes import choose_modes
from lmgp.validation import Rows

# Of the mean, in noise standard deviations: smaller errors take few iterations more.
MEAN_ERROR = 1e-2


def mean_error(tolerance: float) -> float:
    """Return the error of the mean that a divergence allows: modes and iterations may each add half its square."""
    return min(MEAN_ERROR, math.sqrt(0.5 * tolerance))


def by_modes(
    allowed: Allowed,
    rows: Rows,
    kernel: Kernel,
    noise: Noise,
    tolerance: float,
    n_predict: int,
    n_targets: int = 1,
) -> tuple[Choice, Selection] | None:
    """Choose the global solve where it serves the kernel and is quick.

    Parameters
    ----------
    allowed : Allowed
    rows : Rows
    kernel : Kernel
    noise : Noise
    tolerance : float
        KL per row, in nats.
    n_predict : int
    n_targets : int, default=1
        y, and the columns of a trend.

    Returns
    -------
    (Choice, Selection) or None
        None where it cannot serve the rows, or takes longer than the exact GP of them, or than is affordable.
    """
    if SPECTRAL not in allowed.methods or not kernel.can("spectral_density"):
        return None
    error = mean_error(tolerance)
    try:
        modes = choose_modes(kernel, rows.X, noise.variance, error)
        check_modes(modes, kernel, error, n_targets, allowed.max_memory_gib)
    except (InputError, MemoryLimitError):
        return None
    n = len(rows.y)
    exact_work = n**2 * (n / 3.0 + n_predict) if allowed.takes_exact(n) else math.inf
    # At the rate by which the exact GP is taken at once within a second.
    limit = min(LIMITS.affordable, max(1.0, exact_work / LIMITS.quick))
    seconds = expected_iterations(modes, kernel, noise.variance, n) * iteration_seconds(modes)
    if seconds > limit:
        return None
    choice = Choice(SPECTRAL, modes.n_modes, None, None, allowed.approximation)
    trial = Trial(choice.method, choice.size, None, choice.approximation, error**2, 0.0, 0, seconds, 0.0, chosen=True)
    return choice, Selection((trial,), tolerance, n_predict, 0, 0.0, 0.0)
