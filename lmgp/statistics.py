"""The additive sufficient statistics of a featurized GP.

Everything that a posterior needs is a sum over rows, so statistics of disjoint rows add: over chunks (bounded memory),
over calls and over machines.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

import torch

# Bytes of one chunk's feature matrix. Larger ones gain nothing in the matrix products, and above 32 MiB the C library
# hands every buffer back to the system, which then costs as much as the features themselves.
CHUNK_BYTES = 8 * 2**20

# Columns of one block of the Gram matrix.
BLOCK = 256


def chunks(n: int, n_columns: int, n_bytes: int | None = None) -> Iterable[slice]:
    """Cut n rows into slices whose float64 matrices of `n_columns` columns stay within `n_bytes` (`CHUNK_BYTES`)."""
    size = max(1, (n_bytes or CHUNK_BYTES) // (8 * n_columns))
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


@dataclass
class Statistics:
    """Weighted sums over rows with features φ (D columns) and centred target y.

    Each row counts with its precision relative to the model's noise variance, ρ = w·noise_variance/σᵢ²: its weight w
    where all rows share one noise variance. Statistics of one kernel, feature map, centre of y and noise variance add
    and subtract.

    Attributes
    ----------
    gram : Tensor of shape (D, D)
        Σ ρ φφᵀ; of the symmetric matrix only the lower triangle is kept.
    cross : Tensor of shape (D,)
        Σ ρ φy.
    squares : float
        Σ ρ y².
    n : float
        Σ w.
    log_precision : float
        Σ w log(ρ/w), the rows' own part of the log likelihood; 0 where all rows share one noise variance.
    """

    gram: torch.Tensor
    cross: torch.Tensor
    squares: float = 0.0
    n: float = 0.0
    log_precision: float = 0.0

    @classmethod
    def zeros(cls, n_features: int) -> Self:
        """Make the statistics of no rows, for D = `n_features` columns."""
        return cls(
            torch.zeros((n_features, n_features), dtype=torch.float64), torch.zeros(n_features, dtype=torch.float64)
        )

    def add_rows(
        self,
        features: torch.Tensor,
        y: torch.Tensor,
        weights: torch.Tensor | None = None,
        relative_precision: torch.Tensor | None = None,
    ) -> None:
        """Add the sums over the rows of one chunk, in place.

        Parameters
        ----------
        features : Tensor of shape (n, D)
        y : Tensor of shape (n,)
        weights : Tensor of shape (n,), optional
            How many rows each row stands for; 1 if not given.
        relative_precision : Tensor of shape (n,), optional
            noise_variance/σᵢ² of each row; 1 if not given.
        """
        precision = self.add_targets(y, weights, relative_precision)
        if weights is not None or relative_precision is not None:
            root = torch.sqrt(precision)
            features, y = features * root[:, None], y * root
        # Only the blocks on and below the diagonal: little more than half the work of the whole product. By numpy: its
        # BLAS is the faster one on some processors.
        gram, columns = self.gram.numpy(), features.numpy()
        for start in range(0, columns.shape[1], BLOCK):
            stop = start + BLOCK
            gram[start:stop, :stop] += columns[:, start:stop].T @ columns[:, :stop]
        self.cross.addmv_(features.T, y)

    def add_targets(
        self, y: torch.Tensor, weights: torch.Tensor | None = None, relative_precision: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Add only the sums that do not involve the features; return ρ of each row, shape (n,).

        Parameters
        ----------
        y, weights, relative_precision
            See `add_rows`.
        """
        precision = torch.ones_like(y) if weights is None else weights
        self.n += float(precision.sum())
        if relative_precision is not None:
            self.log_precision += float(precision @ torch.log(relative_precision))
            precision = precision * relative_precision
        self.squares += float(precision @ y.square())
        return precision

    def of_columns(self, columns: torch.Tensor, factor: float = 1.0) -> "Statistics":
        """Return what these statistics would be for a map with only some of the columns, times a factor.

        Parameters
        ----------
        columns : Tensor of shape (m,)
            Indices, ascending.
        factor : float

        Returns
        -------
        Statistics
        """
        return replace(self, gram=self.gram[columns[:, None], columns] * factor**2, cross=self.cross[columns] * factor)

    def __add__(self, other: "Statistics") -> "Statistics":
        return self._combine(other, 1.0)

    def __sub__(self, other: "Statistics") -> "Statistics":
        return self._combine(other, -1.0)

    def _combine(self, other: "Statistics", sign: float) -> "Statistics":
        return Statistics(
            torch.add(self.gram, other.gram, alpha=sign),
            torch.add(self.cross, other.cross, alpha=sign),
            self.squares + sign * other.squares,
            self.n + sign * other.n,
            self.log_precision + sign * other.log_precision,
        )
