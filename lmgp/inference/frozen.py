"""What a localized model of a stream freezes before it knows how many rows come."""

from dataclasses import replace

import numpy as np

from lmgp.errors import InputError
from lmgp.features.base import KernelMap
from lmgp.features.moments import RANGE, MomentPlan
from lmgp.features.series import TaylorFit
from lmgp.inference.cube_sums import Nodes
from lmgp.inference.local_sums import Lattice
from lmgp.kernels.base import Kernel
from lmgp.noise import Noise

# The reach is that of as many rows: it stays as it is, however many come.
ROWS_TO_COME = 1e7


def frozen_reach(features: KernelMap, kernel: Kernel, noise: Noise, n_inputs: int, tolerance: float) -> float:
    """Return the reach of a map for as many rows as may come.

    Parameters
    ----------
    features : KernelMap
        Fitted.
    kernel : Kernel
    noise : Noise
    n_inputs : int
    tolerance : float
        See `lmgp.locality.placement.negligible_share`.

    Raises
    ------
    InputError
        If the map reaches every row.
    """
    variance = float(kernel.diagonal(np.zeros((1, n_inputs)))[0])
    share = tolerance * noise.variance / (2.0 * ROWS_TO_COME * variance)
    reach = features.reach(min(share**2 * variance / (variance + noise.variance), share))
    if not np.isfinite(reach):
        raise InputError(
            f"{type(features).__name__} reaches every row, however far: a localized model of a stream needs a map with "
            "a reach, such as TaylorFeatures. Or use FeaturizedGPRegressor, or fit to rows in memory."
        )
    return reach


def nodes_of(features: KernelMap, noise: Noise, lattice: Lattice, reach: float) -> Nodes | None:
    """Return the nodes by which rows are summed in their own cubes; None where each is summed for all within reach."""
    fit = features._fitted
    if not isinstance(fit, TaylorFit) or fit.moments is None or (reach + 2.0 * lattice.side) ** 2 >= RANGE.square:
        return None
    return Nodes.serving(features, noise, lattice.metric, 0.5 * lattice.side, reach)


def with_moments(features: KernelMap, n_rows: float = ROWS_TO_COME) -> KernelMap:
    """Let a Taylor map sum moments where that pays for as many rows."""
    fit = features._fitted
    if isinstance(fit, TaylorFit) and fit.moments is None and MomentPlan.pays(fit.exponents, int(n_rows)):
        features._fitted = replace(fit, moments=MomentPlan(fit.exponents))
    return features
