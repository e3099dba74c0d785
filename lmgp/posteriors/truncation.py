"""What cutting the series of a Taylor map has cost, estimated from the columns that it has."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from lmgp.data import Floats
from lmgp.errors import NoEstimateError
from lmgp.features.taylor import TaylorFeatures
from lmgp.metrics import kl_divergence
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.memory import chunks

if TYPE_CHECKING:
    from lmgp.posteriors.weights import WeightPosterior


# The number of leading blocks of columns, from one half on, whose predictions are compared with that of all.
N_BLOCKS = 8


def expected_divergence(posterior: "WeightPosterior", X: Floats, beyond: Floats) -> Floats:
    """Estimate the divergence of a prediction from the exact one.

    The leading block of chol(A) is the factor for the leading columns of the map: the predictions of smaller maps are
    partial sums of that of the whole one. The mean divergence of eight of them, of D/2 to 15 D/16 columns, from the
    whole is the first part. It is blind where the map has ended: there, data explain about a share
    κ = exp(−max(0, δ)²) of the variance m that the map leaves out, at a distance of δ lengthscales from where they are;
    so that the exact prediction has a mean about √(κ m) away, and only (1 − κ) m more variance than the map's. The
    divergence from that is the second part.

    Parameters
    ----------
    posterior : WeightPosterior
        With fitted `TaylorFeatures`.
    X : ndarray of shape (m, d)
    beyond : ndarray of shape (m,)
        How far each row is from where training rows are, in lengthscales; negative among them.

    Returns
    -------
    ndarray of shape (m, t)
        KL(this prediction ‖ exact prediction), with noise, in nats.

    Raises
    ------
    InputError
        If the columns of the map are not the terms of a series.

    Notes
    -----
    An expectation: the true divergence of a row depends on the sign and size of one error of the mean. It does not see
    rows that were pruned. How near it comes, measured on five data sets: ``docs/error_estimate.md``.
    """
    features, noise = posterior.features, posterior.noise
    if not isinstance(features, TaylorFeatures) or len(features.parts) > 1:
        of = f" of a sum of {len(features.parts)} Gaussians" if isinstance(features, TaylorFeatures) else ""
        raise NoEstimateError(
            "return_error needs TaylorFeatures of one Gaussian, whose first columns are a smaller map; got "
            f"{type(features).__name__}{of}. Compare with ExactGPRegressor on some rows instead."
        )
    n_columns = features.n_features_out_
    half = n_columns // 2
    ends = sorted({half + (n_columns - half) * i // N_BLOCKS for i in range(N_BLOCKS)})
    sizes = [stop - start for start, stop in pairwise([0, *ends, n_columns])]
    result = np.empty((len(X), posterior.coefficients.shape[1]))
    for part in chunks(len(X), n_columns):
        columns, left_out = posterior.evaluate(X[part])
        missing = 0.0 if left_out is None else left_out
        whitened = posterior.whiten(columns)
        variances = _partial_sums(whitened.square(), sizes)
        represented = _partial_sums(columns.T.square(), sizes)
        noisy = variances + (represented[-1] - represented) + missing + noise.variance
        explained = np.exp(-np.square(np.maximum(beyond[part], 0.0)))
        predicted = noisy[-1] if noise.predicts_missing else noisy[-1] - missing
        expected = noisy[-1] - explained * missing
        of_end = kl_divergence(np.sqrt(explained * missing), predicted, 0.0, expected)
        for j, coefficients in enumerate(posterior.coefficients.T):
            means = _partial_sums(coefficients[:, None] * whitened, sizes)
            changes = [kl_divergence(*pair, means[-1], noisy[-1]) for pair in zip(means[:-1], noisy[:-1], strict=True)]
            result[part, j] = np.mean(changes, axis=0) + of_end
    return result


def _partial_sums(values: Tensor, sizes: list[int]) -> Floats:
    """Sum the rows of `values` block by block, and these sums up to each block; shape (n_blocks, n)."""
    return torch.stack([block.sum(dim=0) for block in values.split(sizes)]).cumsum(dim=0).numpy()
