"""Leave-one-out predictions of targets on another scale, and what is asked of their distribution."""

import numbers
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.inference.leave_one_out import LeaveOneOut
from lmgp.targets import Scale

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TransformedLeaveOneOut(LeaveOneOut):
    """Predictions of each training row from all others, of y = g⁻¹(z); the scores are those of its distribution.

    Attributes
    ----------
    z : LeaveOneOut
        On the scale of the model.
    scale : Scale
        g.
    """

    z: LeaveOneOut
    scale: Scale

    @classmethod
    def of(cls, z: LeaveOneOut, scale: Scale) -> "TransformedLeaveOneOut":
        """Return the predictions of y from those of z."""
        return cls(scale.inverse(z.y), scale.mean(z.mean, z.std), scale.std(z.mean, z.std), z, scale)

    @cached_property
    def nlpd(self) -> float:
        """The mean negative log predictive density of y, in nats."""
        return -float(self.scale.log_density(self.y, self.z.mean, self.z.std).mean())

    @cached_property
    def crps(self) -> float:
        """The mean continuous ranked probability score, in units of y."""
        return float(self.scale.crps(self.y, self.z.mean, self.z.std).mean())

    def coverage(self, level: float = 0.95) -> float:
        """Return the share of targets within central intervals of a level: that of z within those of z."""
        return self.z.coverage(level)


def checked_level(level: object) -> float:
    """Return the probability of an interval."""
    if isinstance(level, bool) or not isinstance(level, numbers.Real) or not 0.0 < float(level) < 1.0:
        raise InputError(
            f"level must be a number strictly between 0 and 1; got {level!r}. For 95% intervals give level=0.95."
        )
    return float(level)


def checked_probabilities(quantile: Any) -> Floats:
    """Return the probabilities of quantiles."""
    try:
        values = np.asarray(quantile, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if values.ndim > 1 or not values.size or not np.all((values > 0.0) & (values < 1.0)):
        raise InputError(
            f"quantile must be a number strictly between 0 and 1, or several; got {quantile!r}. The median is 0.5."
        )
    return values
