"""The scales of input columns: what one standard deviation is in each, and columns that differ too much in it."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmgp.errors import InputError, ScaleWarning
from lmgp.validation import Rows

Floats = NDArray[np.float64]

# A standard deviation below this, relative to the column's largest value, is rounding: the column is constant.
ROUNDING = 1e-15

# Columns whose standard deviations differ by this factor are no match for one lengthscale.
FAR_APART = 1e3


def column_scales(rows: Rows, groups: NDArray[np.intp] | None = None) -> Floats:
    """Measure the standard deviation of each column of X, weighted like the rows.

    Values up to the limits of float64 do not overflow. A column that is constant up to rounding has the scale 1.

    Parameters
    ----------
    rows : Rows
    groups : ndarray of int of shape (d,), optional
        Columns with equal numbers get one scale, the root of the mean square of theirs; see
        `lmgp.sphere.lengthscale_groups`.

    Returns
    -------
    ndarray of shape (d,)
        Positive and finite, in the units of each column.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp.validation import Rows
    >>> X = np.array([[1.0, 1e200, 5.0], [3.0, 3e200, 5.0]])
    >>> column_scales(Rows(X, np.zeros(2)))
    array([1.e+000, 1.e+200, 1.e+000])
    """
    deviations = column_deviations(rows)
    for group in () if groups is None else np.unique(groups):
        of_group = groups == group
        largest = deviations[of_group].max() or 1.0
        deviations[of_group] = largest * np.sqrt(np.mean(np.square(deviations[of_group] / largest)))
    return np.where(deviations > 0.0, deviations, 1.0)


def column_deviations(rows: Rows) -> Floats:
    """Measure as `column_scales`, but with 0 for a column that is constant up to rounding."""
    return np.array([_deviation(column, rows.weights) for column in rows.X.T])


def _deviation(column: Floats, weights: Floats | None) -> float:
    largest = float(np.abs(column).max())
    if largest == 0.0:
        return 0.0
    # Between −1 and 1 no square overflows; less the first value, a mean far from zero takes no digits.
    relative = column / largest
    relative -= relative[0]
    centered = relative - np.average(relative, weights=weights)
    deviation = float(np.sqrt(np.average(np.square(centered), weights=weights)))
    return max(deviation * largest, np.finfo(np.float64).tiny) if deviation > ROUNDING else 0.0


def far_apart(rows: Rows, names: Sequence[str] | None) -> str | None:
    """Say which columns differ most in scale, if they differ a thousandfold; constant columns do not count.

    Parameters
    ----------
    rows : Rows
    names : sequence of str or None
        Of the columns; None means by their numbers.

    Returns
    -------
    str or None
        The start of a sentence.
    """
    deviations = column_deviations(rows)
    if not deviations.any():
        return None
    large, small = int(np.argmax(deviations)), int(np.argmin(np.where(deviations > 0.0, deviations, np.inf)))
    if deviations[large] / FAR_APART < deviations[small]:
        return None
    labels = [f"column {names[j]!r}" if names is not None else f"column {j}" for j in (large, small)]
    return (
        f"The standard deviation of {labels[0]} of X is {deviations[large]:.3g}, that of {labels[1]} is "
        f"{deviations[small]:.3g}"
    )


def warn_of_scales(rows: Rows, names: Sequence[str] | None, cure: str, stacklevel: int) -> None:
    """Warn where one lengthscale serves columns that differ a thousandfold in scale.

    Parameters
    ----------
    rows : Rows
    names : sequence of str or None
        Of the columns.
    cure : str
        What to do, one sentence.
    stacklevel : int
        The line that the warning is about, as seen from the caller: 1 is the line of the call.

    Warns
    -----
    ScaleWarning
    """
    told = far_apart(rows, names)
    if told is not None:
        warnings.warn(
            f"{told}. One lengthscale serves all columns: the second one will hardly count. {cure}",
            ScaleWarning,
            stacklevel=stacklevel + 1,
        )


def checked_scales(scales: ArrayLike) -> Floats:
    """Return the scales of columns as an array of shape (d,).

    Raises
    ------
    InputError
        If they are not positive and finite.
    """
    checked = np.asarray(scales, dtype=np.float64)
    if checked.ndim != 1 or not len(checked) or not np.all((checked > 0) & np.isfinite(checked)):
        raise InputError(f"scales must be positive and finite, one a column, shape (d,); got {scales!r}.")
    return checked
