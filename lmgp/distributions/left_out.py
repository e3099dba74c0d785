"""Rows that had no part in their prediction."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats


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
        """(y − mean)/std, and no error smaller than what y is rounded to, shape (n,).

        Targets that are whole numbers, or repeat each other, are met exactly by chance: without this, a scale of zero
        would be likeliest.
        """
        values = np.unique(self.y)
        steps = np.diff(values)
        rounding = float(steps.min()) / np.sqrt(12.0) if len(steps) else 0.0
        least = max(rounding, np.finfo(np.float64).eps * float(np.abs(self.y).max()), np.finfo(np.float64).tiny)
        errors = self.y - self.mean
        enlarged: Floats = np.copysign(np.maximum(np.abs(errors), least), errors) / self.std
        return enlarged
