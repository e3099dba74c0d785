"""Single rows that make most of a column's standard deviation."""

from collections.abc import Iterable, Sequence

import numpy as np

from lmgp.data import Floats
from lmgp.errors import OutlierWarning, warn

# Of fewer rows, one has half of the sum of squares by chance.
FEWEST = 20


def warn_of_outlying_rows(X: Floats, names: Sequence[str] | None, columns: Iterable[int]) -> None:
    """Warn of columns in which one row has more than half of the sum of the squared deviations from the mean.

    Columns in which the middle half of the values is one value are left alone: a rare flag is no outlier.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        NaN where a value is missing.
    names : sequence of str or None
        Of the columns; None means by their numbers.
    columns : iterable of int
        Those to look at.

    Warns
    -----
    OutlierWarning
        For each such column.
    """
    if len(X) < FEWEST:
        return
    for j in columns:
        known = np.flatnonzero(np.isfinite(X[:, j]))
        column = X[known, j]
        relative = column / (np.abs(column).max() or 1.0)  # of which no square overflows
        squares = np.square(relative - relative.mean())
        row, (low, high) = int(np.argmax(squares)), np.quantile(relative, (0.25, 0.75))
        which = f"column {j}" if names is None else f"column {str(names[j])!r}"
        if squares[row] <= 0.5 * squares.sum() or low == high:
            continue
        warn(
            f"Row {known[row]} has {column[row]:.6g} in {which} of X, and {np.delete(column, row).std():.3g} is the "
            "standard deviation of the others: it makes "
            f"{100.0 * squares[row] / squares.sum():.3g}% of the variance of the column, in whose standard deviation "
            "lengthscales are learned. If it is an error, mend or leave out the row; if not, give a scale with heavy "
            "tails, GPRegressor(columns={...: 'asinh'}).",
            OutlierWarning,
        )
