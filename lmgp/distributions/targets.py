"""The distributions of several targets, each of its own kind."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lmgp.data import Floats, generator
from lmgp.metrics.gaussian import crps_rows


@dataclass(frozen=True, eq=False)
class TargetDistributions:
    """Distributions of shape (n, t), with methods of scipy.stats' frozen distributions.

    Values that methods take are of shape (n, t), or any that broadcasts to it.

    Attributes
    ----------
    of_targets : tuple of distribution
        That of each target, of shape (n,), such as a frozen distribution of scipy.stats or a `WarpedDistribution`.
    """

    of_targets: tuple[Any, ...]

    def mean(self) -> Floats:
        """Return the mean."""
        return self._each("mean")

    def std(self) -> Floats:
        """Return the standard deviation."""
        return self._each("std")

    def var(self) -> Floats:
        """Return the variance."""
        return np.square(self.std())

    def median(self) -> Floats:
        """Return the median."""
        return self._each("median")

    def logpdf(self, y: ArrayLike) -> Floats:
        """Return log p(y)."""
        return self._each("logpdf", y)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density of y."""
        return self._each("pdf", y)

    def cdf(self, y: ArrayLike) -> Floats:
        """Return the probability of no larger value."""
        return self._each("cdf", y)

    def sf(self, y: ArrayLike) -> Floats:
        """Return the probability of a larger value."""
        return self._each("sf", y)

    def logcdf(self, y: ArrayLike) -> Floats:
        """Return the logarithm of the probability of no larger value."""
        return self._each("logcdf", y)

    def logsf(self, y: ArrayLike) -> Floats:
        """Return the logarithm of the probability of a larger value."""
        return self._each("logsf", y)

    def ppf(self, q: ArrayLike) -> Floats:
        """Return the quantile."""
        return self._each("ppf", q)

    def isf(self, q: ArrayLike) -> Floats:
        """Return the value that is exceeded with a probability."""
        return self._each("isf", q)

    def interval(self, confidence: float) -> tuple[Floats, Floats]:
        """Return the ends of the central interval."""
        return self.ppf(0.5 - 0.5 * confidence), self.isf(0.5 - 0.5 * confidence)

    def rvs(self, size: Any = None, random_state: Any = None) -> Floats:
        """Draw values, of the shape `size`, whose last axes are those of the rows and the targets."""
        shape = np.broadcast_shapes(self.median().shape, () if size is None else size)
        return self.ppf(generator(random_state).uniform(size=shape))

    def crps(self, y: ArrayLike) -> Floats:
        """Return the continuous ranked probability score."""
        columns = np.broadcast_to(y, self.median().shape).T
        return np.column_stack([crps_rows(*pair) for pair in zip(columns, self.of_targets, strict=True)])

    def _each(self, method: str, *values: ArrayLike) -> Floats:
        """Return what a method gives of each target, side by side."""
        t = len(self.of_targets)
        columns = [np.moveaxis(np.asarray(value) * np.ones(t), -1, 0) for value in values]
        return np.stack(
            [getattr(one, method)(*(column[j] for column in columns)) for j, one in enumerate(self.of_targets)], axis=-1
        )
