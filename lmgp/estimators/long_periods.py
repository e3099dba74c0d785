"""Periods that are longer than the record of the rows."""

from collections.abc import Sequence

import numpy as np

from lmgp.data import Floats
from lmgp.errors import ColumnWarning, warn
from lmgp.kernels.base import Kernel


def warn_of_long_periods(kernel: Kernel, X: Floats, names: Sequence[str] | None) -> None:
    """Warn of a period of a kernel that is given, if no row comes a period after another one.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
        With the columns that the kernel sees.
    names : sequence of str or None
        Of these columns; None means by their numbers.

    Warns
    -----
    ColumnWarning
        For each such column.
    """
    extents = np.ptp(X, axis=0)
    for parameter in kernel.parameters:
        if parameter.kind != "period":
            continue
        columns = range(X.shape[1]) if parameter.columns is None else parameter.columns
        for j, period in zip(columns, np.broadcast_to(parameter.value, len(columns)), strict=True):
            if 0.0 < extents[j] < period:
                which = f"column {j}" if names is None else f"column {str(names[j])!r}"
                warn(
                    f"The kernel has the period {period:g} in {which} of X, and rows are within {extents[j]:g}: none "
                    "comes a period after another, so that predictions beyond are those of the prior. Give a period "
                    "that the rows show, in the unit of the column, or a kernel without one.",
                    ColumnWarning,
                )
