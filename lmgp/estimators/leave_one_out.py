"""Predictions of training rows without themselves, and their scores."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lmgp.data import Floats
from lmgp.metrics.gaussian import checked_level, crps_rows, nlpd_rows

# The levels of intervals whose shares of rows are told.
LEVELS = 0.5, 0.8, 0.95, 0.99


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Predictions of each training row from all others, and their scores. Printed, it is a table.

    The distribution of the noise knows all rows, as the hyperparameters do. Of noise that varies, densities are too
    good by a few hundredths of a nat a row: ``noise_.chosen.alone`` is that under scales that do not know the row.

    Attributes
    ----------
    y : ndarray of shape (n,)
        The targets. Rows of weight zero are no training rows, and left out.
    distribution : frozen distribution of scipy.stats
        Of each row, with its noise, in units of y.
    normal : frozen distribution of scipy.stats
        That of the process and its noise before anything else was taken for it; see `ObservationNoise`.
    noise_std : ndarray of shape (n,)
        The standard deviation of the noise in `normal`, in units of y; of a transformed target, in those of z = g(y).
    weights : ndarray of shape (n,) or None
        How many equal rows each one stands for, in the scores too.
    """

    y: Floats
    distribution: Any
    normal: Any
    noise_std: Floats
    weights: Floats | None = None

    @property
    def mean(self) -> Floats:
        """The mean of each row, in units of y, shape (n,)."""
        return self.distribution.mean()

    @property
    def std(self) -> Floats:
        """The standard deviation of each row, with its noise, in units of y, shape (n,)."""
        return self.distribution.std()

    @cached_property
    def rmse(self) -> float:
        """The root mean squared error, in units of y."""
        return float(np.sqrt(np.average(np.square(self.y - self.mean), weights=self.weights)))

    @cached_property
    def nlpd(self) -> float:
        """The mean negative log predictive density, in nats."""
        return float(np.average(nlpd_rows(self.y, self.distribution), weights=self.weights))

    @cached_property
    def crps(self) -> float:
        """The mean continuous ranked probability score, in units of y."""
        return float(np.average(crps_rows(self.y, self.distribution), weights=self.weights))

    @cached_property
    def pit(self) -> Floats:
        """The probability integral transform F(y) of each row, shape (n,): uniform where predictions are calibrated."""
        return self.distribution.cdf(self.y)

    def coverage(self, level: float = 0.95) -> float:
        """Return the share of targets within central intervals of a level."""
        within = np.abs(2.0 * self.pit - 1.0) <= checked_level(level)
        return float(np.average(within, weights=self.weights))

    def __str__(self) -> str:
        scores = {"rmse": self.rmse, "nlpd": self.nlpd, "crps": self.crps}
        scores |= {f"coverage of {100 * level:g}%": self.coverage(level) for level in LEVELS}
        lines = [f"{name:<15}  {value:>10.4g}" for name, value in scores.items()]
        return "\n".join([f"{len(self.y):,} rows, each left out", *lines])
