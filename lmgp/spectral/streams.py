"""What is kept of rows that a model on Fourier modes does not keep: their sums, and how many are where."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lmgp.inference.additive import check_sums, not_there
from lmgp.io.summary import Summary
from lmgp.kernels.base import Kernel
from lmgp.noise import Noise
from lmgp.spectral.modes import Modes
from lmgp.spectral.sums import SpectralSums
from lmgp.spectral.variance import cell_side
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Keys = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cells:
    """The rows of each cell of a grid as one: for variances, see `lmgp.locality.gathering`.

    Attributes
    ----------
    low : ndarray of shape (d,)
        The corner of the grid.
    side : ndarray of shape (d,)
        Of a cell, in the units of X.
    shape : ndarray of int of shape (d,)
    keys : ndarray of int of shape (m,)
        The cells that have rows, ascending.
    sums : ndarray of shape (m, 1 + d)
        Σ ρ, and Σ ρ (x − corner of the cell).
    """

    low: Floats
    side: Floats
    shape: Keys
    keys: Keys
    sums: Floats

    @classmethod
    def over(cls, modes: Modes, kernel: Kernel, noise: Noise, tolerance: float) -> "Cells":
        """Make the grid over the box of modes, without rows, for a KL a row in nats."""
        d = len(modes.low)
        metric = np.broadcast_to(np.asarray(kernel.metric(d), dtype=np.float64), (d,))
        side = cell_side(kernel, noise, d, tolerance) * metric
        if not (kernel.can("gaussian_components") and len(kernel.gaussian_components()) == 1):
            # A quarter of the shortest wave: a rough kernel changes within a cell of the smooth one.
            side = np.minimum(side, 0.25 / (modes.spacing * modes.counts))
        low = modes.low - modes.margin
        shape = np.floor((modes.high + modes.margin - low) / side) + 1.0
        coarser = max(1.0, (float(np.prod(shape)) / 2.0**61) ** (1.0 / d))
        shape, side = np.ceil(shape / coarser), side * coarser
        return cls(low, side, shape.astype(np.int64), np.empty(0, dtype=np.int64), np.empty((0, 1 + d)))

    def without_rows(self) -> "Cells":
        """Return the grid alone."""
        return replace(self, keys=self.keys[:0], sums=self.sums[:0])

    def of(self, rows: Rows, noise: Noise) -> "Cells":
        """Return the cells of rows."""
        precision = noise.variance / noise.of_weighted_rows(rows).numpy()
        flat, offsets = np.zeros(len(rows.y), dtype=np.int64), []
        for x, low, side, size in zip(rows.X.T, self.low, self.side, self.shape.tolist(), strict=True):
            offset = x - low
            place = (offset / side).astype(np.int64)
            np.clip(place, 0, size - 1, out=place)
            offset -= place * side
            offsets.append(offset)
            flat *= size
            flat += place
        n_cells = int(np.prod(self.shape.astype(object)))
        few = n_cells <= len(flat) + 2**16
        keys, cell = (None, flat) if few else np.unique(flat, return_inverse=True)
        totals = [np.bincount(cell, precision), *(np.bincount(cell, precision * column) for column in offsets)]
        sums = np.stack(totals, axis=1)
        if keys is None:  # without sorting: precisions are positive
            (keys,) = np.nonzero(sums[:, 0])
            sums = sums[keys]
        return replace(self, keys=keys.astype(np.int64), sums=sums)

    def merge(self, other: "Cells", sign: float) -> "Cells":
        """Return the cells of the rows of both; with ``sign=-1.0``, without the rows of the other."""
        if sign > 0.0 and np.array_equal(self.keys, other.keys):
            return replace(self, sums=self.sums + other.sums)
        place = np.searchsorted(self.keys, other.keys)
        new = np.append(self.keys, -1)[place] != other.keys
        if sign < 0.0 and new.any():
            raise not_there("there is no row near one of them")
        keys, sums = self.keys, self.sums.copy()
        if new.any():
            keys = np.insert(keys, place[new], other.keys[new])
            sums = np.insert(sums, place[new], 0.0, axis=0)
            place = np.searchsorted(keys, other.keys)
        before = sums[:, 0].copy()
        sums[place] += sign * other.sums
        if sign < 0.0:
            if np.any(sums[:, 0] < -1e-9 * before):
                raise not_there("near one of them there are fewer")
            stay = sums[:, 0] > 1e-9 * before
            keys, sums = keys[stay], sums[stay]
        return replace(self, keys=keys, sums=sums)

    def scaled(self, n: float) -> "Cells":
        """Return the cells with a sum of precisions of n."""
        return replace(self, sums=self.sums * (n / self.sums[:, 0].sum()))

    @property
    def rows(self) -> Rows:
        """One row for each cell, with the weight of all of its rows, and without a target."""
        corners = np.stack(np.unravel_index(self.keys, tuple(self.shape.tolist())), axis=1) * self.side
        X = self.low + corners + self.sums[:, 1:] / self.sums[:, :1]
        return Rows(X, np.zeros(len(X)), self.sums[:, 0].copy())


@dataclass(frozen=True, eq=False)
class SpectralParts:
    """All that is kept of rows.

    Attributes
    ----------
    sums : SpectralSums
    cells : Cells or None
        None where the modes are few: the variance is from them.
    summary : Summary
        With y less the first origin of the sums.
    """

    sums: SpectralSums
    cells: Cells | None
    summary: Summary

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.summary.n_rows

    def merge(self, other: "SpectralParts", sign: float = 1.0) -> "SpectralParts":
        """Return the sums over the rows of both; with ``sign=-1.0``, without the rows of the other.

        Raises
        ------
        InputError
            If the other's modes, trend or noise are not the same, or more is taken out than there is.
        """
        sums = self.sums.merge(other.sums, sign)
        if sign < 0.0:
            before = self.sums.products[0, 0]
            check_sums(self.sums.n, sums.n, float(before), float(sums.products[0, 0]))
        cells = self.cells
        if cells is not None and other.cells is not None:
            cells = cells.merge(other.cells, sign)
        return SpectralParts(sums, cells, self.summary.combine(other.summary, sign))
