"""Rows that had no part in their prediction."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats
from lmgp.utils.student import standardised


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Predictions of rows that had no part in them, of one target.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y, mean, std : ndarray of shape (n,)
        In units of y, the standard deviation with noise.
    alone : ndarray of bool of shape (n,)
        Whether a row was left out by itself, between others; otherwise with the whole neighbourhood around it.
    weights : ndarray of shape (n,) or None
    """

    X: Floats
    y: Floats
    mean: Floats
    std: Floats
    alone: NDArray[np.bool_]
    weights: Floats | None = None

    @property
    def errors(self) -> Floats:
        """(y − mean)/std, shape (n,); see `lmgp.utils.student.standardised`."""
        return standardised(self.y, self.mean, self.std)
