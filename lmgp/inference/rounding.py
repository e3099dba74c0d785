"""What features in single precision have cost, estimated from some of the rows."""

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.arithmetic import Arithmetic
from lmgp.features.base import KernelMap
from lmgp.inference.weight_space import WeightPosterior, accumulate
from lmgp.linalg import solve_upper
from lmgp.noise import Noise
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]

# Blocks of rows whose rounding errors are found, their rows, and the rows of which the predictions are compared.
N_BLOCKS, BLOCK_ROWS, TESTS = 4, 1024, 64


def some_rows(rows: Rows) -> Rows:
    """Return as many rows as the estimate takes, equally spaced."""
    n = min(len(rows.y), N_BLOCKS * BLOCK_ROWS)
    return rows.take(np.linspace(0, len(rows.y) - 1, n).astype(np.intp))


def rounding_divergence(
    posterior: WeightPosterior,
    features: KernelMap,
    rows: Rows,
    n_rows: int,
    centre: Floats,
    noise: Noise,
    arithmetic: Arithmetic,
) -> float:
    """Estimate the divergence of predictions from those of features in double precision.

    The sums of blocks of rows in both precisions differ by rounding errors. To first order these change predictions by
    φᵀA⁻¹(δb − δG w)/σ². The changes of all rows follow from the mean and the variance of those of the blocks: errors of
    one sign add as the number of rows, those of either sign as its root.

    Parameters
    ----------
    posterior : WeightPosterior
    features : KernelMap
        Fitted.
    rows : Rows
        Some of the training rows, with y less what the posterior is less of.
    n_rows : int
        The number of all.
    centre : ndarray of shape (d,)
        Of the map.
    noise : Noise
    arithmetic : Arithmetic
        Of the sums of the posterior.

    Returns
    -------
    float
        KL(this prediction ‖ that of double precision), with noise, in nats: the mean of some training rows.
    """
    tests = features.evaluate(as_tensor(rows.X[:: max(1, len(rows.y) // TESTS)] - centre))
    whitened = posterior.whiten(tests)
    solved = solve_upper(posterior.factor.T, whitened)
    blocks = np.array_split(np.random.default_rng(0).permutation(len(rows.y)), -(-len(rows.y) // BLOCK_ROWS))
    changes = np.array(
        [_changes(posterior, features, rows.take(one), centre, noise, arithmetic, solved) for one in blocks]
    )
    n = n_rows / (len(rows.y) / len(blocks))
    mean, spread = changes.mean(axis=0), changes.var(axis=0, ddof=1) if len(blocks) > 1 else np.zeros_like(changes[0])
    total = whitened.square().sum(dim=0).numpy() + noise.variance
    factors = np.stack((0.5 / total, 0.25 / np.square(total)))
    # Without the spread of few blocks in the square of their mean; of all rows at once, which leaves less chance.
    common = max(0.0, float((factors * (np.square(mean) - spread / len(blocks))).mean(axis=1).sum()))
    return n * float((factors * spread).mean(axis=1).sum()) + n**2 * common


def _changes(
    posterior: WeightPosterior, features: KernelMap, rows: Rows, centre: Floats, noise: Noise, arithmetic: Arithmetic,
    solved: torch.Tensor,
) -> Floats:  # fmt: skip
    """Return what the rounding of a block of rows changes in means and variances of some rows, shape (2, n)."""
    sums = [accumulate(features, rows, centre, noise, 0.0, one).sums.expand() for one in (arithmetic, Arithmetic())]
    lower = torch.tril(sums[0].gram - sums[1].gram)
    change = lower + torch.tril(lower, -1).T
    cross = (sums[0].cross - sums[1].cross)[:, 0] - change @ posterior.weights
    moved = solved.T @ cross, -((change @ solved) * solved).sum(dim=0)
    return torch.stack(moved).numpy() / noise.variance
