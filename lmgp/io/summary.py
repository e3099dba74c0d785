"""What a model keeps of all rows beside its sums: where they are, their scales, and the range of their targets."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lmgp.validation import Rows

Floats = NDArray[np.float64]

# A standard deviation below this, relative to the column's largest value, is rounding: the column is constant.
ROUNDING = 1e-15


@dataclass(frozen=True, eq=False)
class Summary:
    """Moments and ranges of rows. Those of disjoint rows add; ranges do not shrink where rows are taken out.

    Attributes
    ----------
    n_rows : int
    n, weighted : float
        Σ w, and Σ w y.
    mean, squares : ndarray of shape (d,)
        The weighted mean of each column, and Σ w (x − mean)².
    low, high : ndarray of shape (d,)
        The box of the rows.
    least, most : float
        The range of the targets.
    """

    n_rows: int
    n: float
    weighted: float
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats
    least: float
    most: float

    @classmethod
    def of(cls, rows: Rows, targets: Floats | None = None) -> "Summary":
        """Summarise rows.

        Parameters
        ----------
        rows : Rows
            At least one, of which y is summed.
        targets : ndarray of shape (n,), optional
            Whose range is taken; y if not given.
        """
        targets = rows.y if targets is None else targets
        weights = np.ones(len(rows.y)) if rows.weights is None else rows.weights
        n = float(weights.sum())
        # A copy by columns, of which numpy takes sums and ranges several times as fast.
        columns = np.array(rows.X.T, order="C", copy=True)
        mean = columns @ weights / n
        box = columns.min(axis=1), columns.max(axis=1)
        columns -= mean[:, None]
        squares = np.square(columns, out=columns) @ weights
        return cls(
            len(rows.y), n, float(weights @ rows.y), mean, squares, *box, float(targets.min()), float(targets.max())
        )

    def combine(self, other: "Summary", sign: float = 1.0) -> "Summary":
        """Return the summary of the rows of both; with ``sign=-1.0``, without the rows of the other."""
        n, m = self.n, sign * other.n
        if n + m <= 0.0:
            return replace(self, n_rows=self.n_rows + int(sign) * other.n_rows, n=n + m, weighted=0.0)
        apart = other.mean - self.mean
        grown = sign > 0.0
        return Summary(
            self.n_rows + int(sign) * other.n_rows,
            n + m,
            self.weighted + sign * other.weighted,
            self.mean + m / (n + m) * apart,
            np.maximum(self.squares + sign * other.squares + n * m / (n + m) * np.square(apart), 0.0),
            np.minimum(self.low, other.low) if grown else self.low,
            np.maximum(self.high, other.high) if grown else self.high,
            min(self.least, other.least) if grown else self.least,
            max(self.most, other.most) if grown else self.most,
        )

    @property
    def scales(self) -> Floats:
        """The standard deviation of each column; 1 of a constant one."""
        deviations = np.sqrt(self.squares / self.n)
        spread = deviations > ROUNDING * np.maximum(np.abs(self.low), np.abs(self.high))
        return np.where(spread, deviations, 1.0)

    def farthest(self, center: float) -> float:
        """Return the largest |y − center|."""
        return max(self.most - center, center - self.least, 0.0)
