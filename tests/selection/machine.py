"""A machine with known rates, and the candidates that are listed for it."""

from dataclasses import replace

import numpy as np

from lmgp import (
    GaussianKernel,
)
from lmgp.kernels.base import Kernel
from lmgp.locality.placement import cover
from lmgp.methods import METHODS, SPECTRAL
from lmgp.selection import candidates
from lmgp.selection.candidates import TRIED, Allowed, families
from lmgp.selection.costs import Costs, KernelCosts, Rate
from lmgp.selection.families import Choice, Family
from lmgp.selection.prices import Prices
from lmgp.validation import Rows

KERNEL = GaussianKernel(1.0, 1.0)
OPEN = Allowed(max_features=256)
ROWS_ONLY = ("nearest_rows", "exact")
# The global solve is taken at once, or not at all: see tests/models/test_chosen_modes.py.
SEARCHED = tuple(name for name in TRIED if name != SPECTRAL)
FEATURES = tuple(name for name in SEARCHED if name not in (*ROWS_ONLY, "residual"))
LOCAL = tuple(name for name in FEATURES if METHODS[name].localized)
FEATURES_ONLY = replace(OPEN, methods=FEATURES)
SHARE = 1e-6


def power_law(unit: float, power: float) -> Rate:
    return Rate((1.0, 2.0), (unit, unit * 2.0**power))


# A machine of ten operations a nanosecond.
MACHINE = Costs(
    model=1e-5,
    factorise=power_law(1e-10, 3),
    product_row=power_law(1e-10, 2),
    moment_row=power_law(1e-10, 1),
    predict_row=power_law(1e-10, 2),
    landmark_row=1e-12,
    exact=power_law(1e-12, 3),
    exact_row=power_law(1e-9, 2),
)


def of_nearest(rate: Rate) -> KernelCosts:
    """Make the costs of a kernel whose nearest rows are not shared."""
    return KernelCosts(entry=1e-11, neighbours_row=rate, cell_row=rate, shared_row=rate)


OF_KERNEL = of_nearest(power_law(1e-10, 3))
N_PROBES = 50


def draw(n: int = 400, d: int = 2, extent: float = 8.0) -> Rows:
    rng = np.random.default_rng(0)
    return Rows(rng.uniform(0.0, extent, (n, d)), rng.normal(size=n))


def listed(
    rows: Rows,
    allowed: Allowed = OPEN,
    n_predict: int = 1000,
    share: float = SHARE,
    kernel: Kernel = KERNEL,
    machine: Costs = MACHINE,
    of_kernel: KernelCosts = OF_KERNEL,
) -> list[Family]:
    limit = candidates.LIMITS.max_centroids(*rows.X.shape)
    prices = Prices(rows, len(rows.y), kernel, share, n_predict, machine, of_kernel, N_PROBES)
    return families(allowed, kernel, prices, lambda threshold: cover(rows, kernel, threshold, limit))


def choices(found: list[Family]) -> list[Choice]:
    return [candidate.choice for family in found for candidate in family.candidates]


def seconds(found: list[Family], method: str, threshold: float | None = None) -> dict[int, float]:
    return {
        candidate.choice.size: candidate.seconds
        for family in found
        for candidate in family.candidates
        if (candidate.choice.method, candidate.choice.threshold) == (method, threshold)
    }
