"""What a pass over all rows finds before they are summed: a sample of them, and where they are."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Rows, Summary, TargetSums
from lmgp.errors import InputError
from lmgp.sums.base import combined

# Rows that are kept: all of a smaller stream, in their order.
SAMPLE_ROWS = 20_000


@dataclass(eq=False)
class Sample:
    """A random sample of rows, each as likely as any other, and the summary of all of them.

    Attributes
    ----------
    rng : numpy.random.Generator
    size : int
    rows : Rows or None
        With y as it is.
    keys : ndarray of shape (n,)
        A random number for each row: those with the smallest ones stay.
    summary : Summary or None
    targets : TargetSums or None
        Of all rows, as the summary.
    whole : bool
        Whether all rows of the stream have been seen.
    target_names : ndarray of shape (t,) or None
        Of the first rows; None of a y of shape (n,).
    """

    rng: np.random.Generator
    size: int = SAMPLE_ROWS
    rows: Rows | None = None
    keys: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    summary: Summary | None = None
    targets: TargetSums | None = None
    whole: bool = False
    target_names: NDArray[Any] | None = None

    def add(self, rows: Rows, noise_variance: float | None = None) -> None:
        """Add rows; `noise_variance` is that of rows without one, among others that have one.

        Raises
        ------
        InputError
            If it is needed and not given.
        """
        if self.rows is not None and rows.n_targets != self.rows.n_targets:
            raise InputError(f"it has {rows.n_targets} targets, chunks before it have {self.rows.n_targets}.")
        own = rows.noise_variances is None
        if self.rows is not None and own != (self.rows.noise_variances is None) and noise_variance is None:
            raise InputError(
                f"it has {'no ' if own else ''}noise variances, chunks before it have {'some' if own else 'none'}. "
                "Give noise_variance, that of rows without one, or noise variances in all chunks."
            )
        targets, _ = TargetSums.of(rows)
        self._take(rows, self.rng.uniform(size=len(rows)), Summary.of(rows), targets, noise_variance or 1.0)

    def merge(self, other: Self) -> Self:
        """Return the sample of the rows of both, those of the other one behind; of the same size."""
        both = replace(self)
        if other.rows is not None:
            both._take(other.rows, other.keys, other.summary, other.targets, 1.0)
        return both

    def _take(
        self, rows: Rows, keys: NDArray[np.float64], summary: Summary | None, targets: TargetSums | None,
        noise_variance: float,
    ) -> None:  # fmt: skip
        self.summary, self.targets = combined(self.summary, summary), combined(self.targets, targets)
        if len(self.keys) == self.size:  # of most chunks, few rows stay
            (near,) = np.nonzero(keys < self.keys.max())
            keys, rows = keys[near], rows.take(near)
        keys = np.concatenate((self.keys, keys))
        joined = rows if self.rows is None else self.rows.joined(rows, noise_variance)
        if len(keys) > self.size:
            kept = np.sort(np.argpartition(keys, self.size - 1)[: self.size])
            keys, joined = keys[kept], joined.take(kept)
        self.keys, self.rows = keys, joined
