"""Rows that had no part in their prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats, Predicted
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
        How many equal rows each one stands for.
    """

    X: Floats
    y: Floats
    mean: Floats
    std: Floats
    alone: NDArray[np.bool_]
    weights: Floats | None = None

    @classmethod
    def of(cls, parts: Sequence[Predicted], target: int = 0) -> Self:
        """Join the predictions of one target."""
        rows, *columns, alone = zip(*parts, strict=True)
        y, mean, std = (np.concatenate(each)[:, target] for each in columns)
        counts = [part.counts for part in rows if part.counts is not None]
        X, were_alone = np.concatenate([part.X for part in rows]), np.repeat(alone, [len(part) for part in rows])
        return cls(X, y, mean, std, were_alone, np.concatenate(counts) if counts else None)

    @property
    def errors(self) -> Floats:
        """(y − mean)/std, shape (n,); see `lmgp.utils.student.standardised`."""
        return standardised(self.y, self.mean, self.std)
