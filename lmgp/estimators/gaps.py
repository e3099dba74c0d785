"""Numbers that are missing: what the other numbers of a row say of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from lmgp.data import Floats, Indices

# The distribution is estimated from this number of rows, in this number of rounds of expectation and maximisation.
MOST_ROWS, ROUNDS = 2000, 20
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
        """Estimate the likeliest distribution of values with gaps, shape (n, d), by expectation and maximisation.

        References
        ----------
        R. J. A. Little and D. B. Rubin, *Statistical Analysis with Missing Data*, Wiley, 2002, section 11.2.
        """
        some = values[np.unique(np.linspace(0, len(values) - 1, MOST_ROWS).astype(np.intp))]
        mean, scale = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        found = cls(mean, np.where(scale > 0.0, scale, 1.0), np.eye(values.shape[1]))
        for _ in range(ROUNDS if np.isnan(some).any() else 1):
            filled, left = found._conditional(some)
            centre = filled.mean(axis=0)
            z = (filled - centre) / found.scale
            moments = z.T @ z / len(z) + left
            found = cls(centre, found.scale, moments + LEAST * np.eye(len(centre)))
        return found

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
        missing = np.isnan(values)
        (lacking,) = np.nonzero(missing.any(axis=1))
        patterns, which = np.unique(missing[lacking], axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            rows = lacking[which.ravel() == number]
            gone, known = np.flatnonzero(pattern), np.flatnonzero(~pattern)
            z = (values[np.ix_(rows, known)] - self.mean[known]) / self.scale[known]
            across = self.correlation[np.ix_(known, gone)]
            weights = np.linalg.solve(self.correlation[np.ix_(known, known)], across)
            covariance = self.correlation[np.ix_(gone, gone)] - across.T @ weights
            covariance[np.diag_indices(len(gone))] = np.maximum(covariance.diagonal(), LEAST)
            yield rows, gone, self.mean[gone] + self.scale[gone] * (z @ weights), covariance
