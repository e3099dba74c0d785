"""The candidates that are listed for made rows."""

from dataclasses import replace

import numpy as np

from lmgp import (
    GaussianKernel,
)
from lmgp.data import Rows
from lmgp.features.base import KernelMap
from lmgp.kernels.base import Kernel
from lmgp.neighbours.placement import cover
from lmgp.selection.candidates import TRIED, Candidate, Problem, candidates, max_centroids
from lmgp.selection.methods import SPECTRAL

KERNEL = GaussianKernel(1.0, 1.0)
LOCAL = ("local_taylor", "local_taylor_energy", "local_maclaurin_tensor_srht")
ROWS_ONLY = ("nearest_rows", "exact")
SHARE = 1e-6
N_PROBES = 50


def draw(n: int = 400, d: int = 2, extent: float = 8.0) -> Rows:
    rng = np.random.default_rng(0)
    return Rows(rng.uniform(0.0, extent, (n, d)), rng.normal(size=n))


# What is allowed, for any rows.
OPEN = Problem(draw(1), KERNEL, 0.1, 1e-3, 1000, methods=(*TRIED, *LOCAL), max_features=256)
# The global solve is taken at once, or not at all: see tests/estimators/test_chosen_modes.py.
SEARCHED = tuple(name for name in OPEN.methods if name != SPECTRAL)
FEATURES = tuple(name for name in SEARCHED if name not in (*ROWS_ONLY, "residual"))
FEATURES_ONLY = replace(OPEN, methods=FEATURES)


def listed(
    rows: Rows, allowed: Problem = OPEN, n_predict: int = 1000, share: float = SHARE, kernel: Kernel = KERNEL
) -> list[Candidate]:
    limit = max_centroids(*rows.X.shape)
    problem = replace(allowed, rows=rows, kernel=kernel, n_predict=n_predict, reach=share)
    return candidates(problem, lambda threshold: cover(rows, kernel, threshold, limit))


def threshold_of(candidate: Candidate) -> float | None:
    return getattr(candidate.recipe, "threshold", None)


def features_of(candidate: Candidate) -> KernelMap | None:
    return getattr(candidate.recipe, "features", None)


def seconds(found: list[Candidate], method: str, threshold: float | None = None) -> dict[int, float]:
    return {
        candidate.trial.n_features: candidate.trial.seconds
        for candidate in found
        if (candidate.trial.method, threshold_of(candidate)) == (method, threshold)
    }
