"""Predictions of training rows without themselves, in closed form."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.features.base import KernelMap
from lmgp.inference.function_space import RowPosterior
from lmgp.inference.local import LocalPosterior, Posterior
from lmgp.inference.weight_space import WeightPosterior
from lmgp.linalg import solve_lower
from lmgp.memory import chunks
from lmgp.metrics import coverage, crps, nlpd, rmse
from lmgp.noise import Noise
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Pair = tuple[Floats, Floats]

# The least share of a residual that a row does not explain itself: below, float64 cannot tell it from none.
LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Predictions of each training row from all others, and their scores. Printed, it is a table.

    Attributes
    ----------
    y : ndarray of shape (n,)
        The targets. Rows of weight zero are no training rows, and left out.
    mean : ndarray of shape (n,)
        In units of y.
    std : ndarray of shape (n,)
        With the noise of the row, in units of y.
    """

    y: Floats
    mean: Floats
    std: Floats

    @cached_property
    def rmse(self) -> float:
        """The root mean squared error, in units of y."""
        return rmse(self.y, self.mean)

    @cached_property
    def nlpd(self) -> float:
        """The mean negative log predictive density, in nats."""
        return nlpd(self.y, self.mean, np.square(self.std))

    @cached_property
    def crps(self) -> float:
        """The mean continuous ranked probability score, in units of y."""
        return crps(self.y, self.mean, np.square(self.std))

    def coverage(self, level: float = 0.95) -> float:
        """Return the share of targets within central intervals of a level."""
        return coverage(self.y, self.mean, np.square(self.std), level)

    def __str__(self) -> str:
        scores = {
            "rmse": self.rmse,
            "nlpd": self.nlpd,
            "crps": self.crps,
            "coverage of 50%": self.coverage(0.5),
            "coverage of 95%": self.coverage(),
        }
        lines = [f"{name:<15}  {value:>10.4g}" for name, value in scores.items()]
        return "\n".join([f"{len(self.y):,} rows, each left out", *lines])


def from_all(y: Floats, mean: Floats, variance: Floats, noise: Floats) -> Pair:
    """Return the means and latent variances without each row, from those with it.

    With the posterior variance v of a row from all rows, and its noise s, h = v/s is the row's leverage on its own
    mean m: without it, the mean is y − (y − m)/(1 − h) and the variance v/(1 − h).

    Parameters
    ----------
    y, mean, variance, noise : ndarray of shape (n,)
        The noise variance is that of the row over its weight.

    Returns
    -------
    mean, variance : ndarray of shape (n,)

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, 2006, eq. 5.12.
    """
    left = np.maximum(1.0 - variance / noise, LEAST)
    return y - (y - mean) / left, variance / left


def of_rows(posterior: RowPosterior, rows: Rows, noise: Noise) -> Pair:
    """Return the means and latent variances of the exact process without each row.

    With an estimated trend, that is estimated again without the row.

    Parameters
    ----------
    posterior : RowPosterior
        Of the rows.
    rows : Rows
        With y less the trend.
    noise : Noise

    References
    ----------
    O. Dubrule, *Cross Validation of Kriging in a Unique Neighborhood*, Mathematical Geology 15, 1983.
    """
    own, alpha, n = noise.of_weighted_rows(rows).numpy(), posterior.coefficients, len(rows.y)
    diagonal = np.empty(n)
    for part in chunks(n, n):
        unit = torch.zeros((n, part.stop - part.start), dtype=torch.float64)
        unit[torch.arange(part.start, part.stop), torch.arange(unit.shape[1])] = 1.0
        diagonal[part] = solve_lower(posterior.factor, unit).square().sum(dim=0).numpy()
    if posterior.trend is not None:
        of_columns = posterior.solve(posterior.trend.columns(rows.X))
        diagonal -= np.einsum("ij,jk,ik->i", of_columns, posterior.trend.covariance, of_columns)
    diagonal = np.maximum(diagonal, LEAST / own)
    return rows.y - alpha / diagonal, np.maximum(1.0 / diagonal - own, 0.0)


def of_weights(posterior: WeightPosterior, features: KernelMap, rows: Rows, centre: Floats, noise: Noise) -> Pair:
    """Return the means and latent variances of a featurized model without each row; the map stays as it is.

    Parameters
    ----------
    posterior : WeightPosterior
        Of these rows, or of these and others.
    features : KernelMap
        Fitted.
    rows : Rows
        With y less the estimated trend.
    centre : ndarray of shape (d,)
        Of the map.
    noise : Noise
    """
    means, variances = np.empty(len(rows.y)), np.empty(len(rows.y))
    for part in chunks(len(rows.y), features.n_features_out_):
        chunk = rows.take(part)
        X = as_tensor(chunk.X - centre)
        columns = features.evaluate(X)
        mean, own = posterior.predict(columns)
        missing = features.missing_variance(X, columns)
        variance = own.numpy() + posterior.trend_variance(chunk.X, columns)
        means[part], found = from_all(chunk.y, mean.numpy(), variance, noise.of_weighted_rows(chunk, missing).numpy())
        variances[part] = noise.predicted(torch.from_numpy(found), missing).numpy()
    return means, variances


def around_centroids(posterior: LocalPosterior, rows: Rows) -> Pair:
    """Return the means and latent variances of models around centroids without each row.

    The centroids, the map and the trend stay as they are.

    Parameters
    ----------
    posterior : LocalPosterior
    rows : Rows
        Those of the posterior, with y less the trend.
    """
    means, variances = np.empty(len(rows.y)), np.empty(len(rows.y))
    noise, metric = posterior.noise, posterior.kernel

    def predict(solved: Posterior, centroid: Floats, part: Indices) -> None:
        members = rows.take(part)
        if isinstance(solved, WeightPosterior):
            assert posterior.features is not None  # for the type checker: there are no weights without a map
            means[part], variances[part] = of_weights(solved, posterior.features, members, centroid, noise)
            return
        mean, variance = solved.predict(members.X)
        assert variance is not None  # for the type checker
        # A row out of reach of its centroid makes no part of the prediction.
        distance = np.sqrt(np.square(metric.scale(members.X - centroid)).sum(axis=1))
        left = from_all(members.y, mean, variance, noise.of_weighted_rows(members).numpy())
        inside = distance <= posterior.reach
        means[part], variances[part] = np.where(inside, left[0], mean), np.where(inside, left[1], variance)

    posterior.use_posteriors(rows.X, predict)
    return means, variances
