"""Predictions of training rows without themselves, and their scores."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lmgp.metrics import coverage, crps, nlpd, rmse

Floats = NDArray[np.float64]


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
