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
        rows, y, mean, std, alone = zip(*parts, strict=True)
        weights = [one.weights for one in rows if one.weights is not None]
        return cls(
            X=np.concatenate([one.X for one in rows]),
            y=np.concatenate(y)[:, target],
            mean=np.concatenate(mean)[:, target],
            std=np.concatenate(std)[:, target],
            alone=np.repeat(alone, [len(one) for one in rows]),
            weights=np.concatenate(weights) if weights else None,
        )

    @property
    def errors(self) -> Floats:
        """(y − mean)/std, shape (n,); see `lmgp.utils.student.standardised`."""
        return standardised(self.y, self.mean, self.std)
