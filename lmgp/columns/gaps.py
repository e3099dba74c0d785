"""Numbers that are missing: what the other numbers of a row say of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from lmgp.data import Floats, Indices

# The distribution is estimated from this number of rows, in this number of rounds of expectation and maximisation at
# most, which end where no correlation changes by more than this.
MOST_ROWS, ROUNDS, CHANGE = 2000, 20, 1e-3
# In variances of a column, what no other column says of it.
LEAST = 1e-6


@dataclass(frozen=True, eq=False)
class Gaps:
    """A normal distribution of the numbers of a row, by which missing ones are filled.

    Attributes
    ----------
    mean, scale : ndarray of shape (d,)
        Of each column.
    correlation : ndarray of shape (d, d)
    """

    mean: Floats
    scale: Floats
    correlation: Floats

    @classmethod
    def of(cls, values: Floats) -> Self:
        """Estimate the distribution of values with gaps, shape (n, d), by expectation and maximisation.

        Covariances are those of the rows and of d more rows without correlations: few rows of many columns would know
        each other's numbers to the last digit.

        References
        ----------
        R. J. A. Little and D. B. Rubin, *Statistical Analysis with Missing Data*, Wiley, 2002, section 11.2.
        """
        some = values[np.unique(np.linspace(0, len(values) - 1, MOST_ROWS).astype(np.intp))]
        mean, scale = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        distribution = cls(mean, np.where(scale > 0.0, scale, 1.0), np.eye(values.shape[1]))
        for _ in range(ROUNDS):
            filled, left = distribution._conditional(some)
            centre = filled.mean(axis=0)
            z = (filled - centre) / distribution.scale
            moments, (n, d) = z.T @ z / len(z) + left, z.shape
            moments = (n * moments + d * np.diag(moments.diagonal())) / (n + d)
            before, distribution = distribution, cls(centre, distribution.scale, moments + LEAST * np.eye(d))
            if np.abs(distribution.correlation - before.correlation).max() < CHANGE:
                break
        return distribution

    def filled(self, values: Floats) -> tuple[Floats, Floats]:
        """Return values with the expectations of missing ones, and the standard deviations of these, 0 elsewhere."""
        filled, deviations = values.copy(), np.zeros_like(values)
        for rows, gone, expected, covariance in self._patterns(values):
            filled[np.ix_(rows, gone)] = expected
            deviations[np.ix_(rows, gone)] = np.sqrt(covariance.diagonal()) * self.scale[gone]
        return filled, deviations

    def _conditional(self, values: Floats) -> tuple[Floats, Floats]:
        """Return values with the expectations of missing ones, and the mean covariance of these, in scales."""
        filled, left = values.copy(), np.zeros_like(self.correlation)
        for rows, gone, expected, covariance in self._patterns(values):
            filled[np.ix_(rows, gone)] = expected
            left[np.ix_(gone, gone)] += len(rows) / len(values) * covariance
        return filled, left

    def _patterns(self, values: Floats) -> Iterator[tuple[Indices, Indices, Floats, Floats]]:
        """Go through the sets of columns that rows lack: the rows, the columns, and what is expected of them."""
        missing, precision = np.isnan(values), np.linalg.inv(self.correlation)
        (lacking,) = np.nonzero(missing.any(axis=1))
        patterns, which, counts = np.unique(missing[lacking], axis=0, return_inverse=True, return_counts=True)
        of_patterns = np.split(lacking[np.argsort(which.ravel(), kind="stable")], np.cumsum(counts)[:-1])
        for pattern, rows in zip(patterns, of_patterns, strict=False):  # without patterns, there is one empty part
            gone, known = np.flatnonzero(pattern), np.flatnonzero(~pattern)
            z = (values[np.ix_(rows, known)] - self.mean[known]) / self.scale[known]
            covariance = np.linalg.inv(precision[np.ix_(gone, gone)])
            weights = -precision[np.ix_(known, gone)] @ covariance
            # A product of matrices rounds one row in another way than many, among which it is found again.
            filled = np.einsum("ij,jk->ik", z, weights)
            yield rows, gone, self.mean[gone] + self.scale[gone] * filled, covariance
