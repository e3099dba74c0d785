"""What features in single precision have cost, estimated from some of the rows."""

import numpy as np

from lmgp.data import Floats, Rows
from lmgp.posteriors.weights import WeightPosterior, accumulate
from lmgp.utils.arithmetic import Arithmetic
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.linalg import solve_upper

# Blocks of rows whose rounding errors are found, their rows, and the rows of which the predictions are compared.
N_BLOCKS, BLOCK_ROWS, TESTS = 4, 1024, 64


def some_rows(rows: Rows) -> Rows:
    """Return as many rows as the estimate takes, equally spaced."""
    n = min(len(rows), N_BLOCKS * BLOCK_ROWS)
    return rows.take(np.linspace(0, len(rows) - 1, n).astype(np.intp))


def rounding_divergence(posterior: WeightPosterior, rows: Rows, n_rows: int, arithmetic: Arithmetic) -> float:
    """Estimate the divergence of predictions from those of features in double precision.

    The sums of blocks of rows in both precisions differ by rounding errors. To first order these change predictions by
    φᵀA⁻¹(δb − δG w)/σ². The changes of all rows follow from the mean and the variance of those of the blocks: errors of
    one sign add as the number of rows, those of either sign as its root.

    Parameters
    ----------
    posterior : WeightPosterior
    rows : Rows
        Some of the training rows, with the first target of the posterior.
    n_rows : int
        The number of all.
    arithmetic : Arithmetic
        Of the sums of the posterior.

    Returns
    -------
    float
        KL(this prediction ‖ that of double precision), with noise, in nats: the mean of some training rows.
    """
    tests, _ = posterior.evaluate(rows.X[:: max(1, len(rows) // TESTS)])
    whitened = posterior.whiten(tests)
    solved = solve_upper(posterior.factor.T, whitened)
    blocks = np.array_split(np.random.default_rng(0).permutation(len(rows)), -(-len(rows) // BLOCK_ROWS))
    changes = np.array([_changes(posterior, rows.take(block), arithmetic, solved) for block in blocks])
    n = n_rows / (len(rows) / len(blocks))
    mean, spread = changes.mean(axis=0), changes.var(axis=0, ddof=1) if len(blocks) > 1 else np.zeros_like(changes[0])
    total = whitened.square().sum(dim=0).numpy() + posterior.noise.variance
    factors = np.stack((0.5 / total, 0.25 / np.square(total)))
    # Without the spread of few blocks in the square of their mean; of all rows at once, which leaves less chance.
    common = max(0.0, float((factors * (np.square(mean) - spread / len(blocks))).mean(axis=1).sum()))
    return n * float((factors * spread).mean(axis=1).sum()) + n**2 * common


def _changes(posterior: WeightPosterior, rows: Rows, arithmetic: Arithmetic, solved: Tensor) -> Floats:
    """Return what the rounding of a block of rows changes in means and variances of some rows, shape (2, n)."""
    of = posterior.features, rows, posterior.centre, posterior.noise
    rounded, exact = (accumulate(*of, by).sums.expand() for by in (arithmetic, Arithmetic()))
    lower = torch.tril(rounded.gram - exact.gram)
    change = lower + torch.tril(lower, -1).T
    cross = (rounded.cross - exact.cross)[:, 0] - change @ posterior.weights[:, 0]
    moved = solved.T @ cross, -((change @ solved) * solved).sum(dim=0)
    return torch.stack(moved).numpy() / posterior.noise.variance
