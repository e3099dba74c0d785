"""Sums over rows for Fourier modes, and what is kept of the rows beside them."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from lmgp.data import ROUNDING, Floats, Noise, Rows, Summary, TargetSums, not_there
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel
from lmgp.neighbours.lattice import Keys
from lmgp.neighbours.placement import numbered
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.modes import ModePlan
from lmgp.posteriors.spectral import FEW_MODES, ModeStatistics, SpectralPosterior
from lmgp.posteriors.variance import cell_side, is_gaussian
from lmgp.sums.base import Sums, combined
from lmgp.sums.kept import combined_rows, rows_that_stay

# More cells than this have no number of 64 bits.
MOST_CELLS = 2.0**61


@dataclass(frozen=True, eq=False)
class CellSums:
    """The rows of each cell of a grid as one: for variances, see `lmgp.neighbours.placement.gathered`.

    Attributes
    ----------
    noise : Noise
    low : ndarray of shape (d,)
        The corner of the grid.
    side : ndarray of shape (d,)
        Of a cell, in the units of X.
    shape : ndarray of int of shape (d,)
    keys : ndarray of int of shape (m,)
        The cells that have rows, ascending.
    sums : ndarray of shape (m, 1 + d)
        Σ ρ, and Σ ρ (x − corner of the cell).
    n_targets : int
    """

    noise: Noise
    low: Floats
    side: Floats
    shape: Keys
    keys: Keys
    sums: Floats

    @classmethod
    def over(cls, plan: ModePlan) -> Self:
        """Make the grid over the box of modes, without rows."""
        modes, kernel, d = plan.modes, plan.kernel, len(plan.modes.low)
        metric = np.broadcast_to(np.asarray(kernel.metric(d), dtype=np.float64), (d,))
        side = cell_side(kernel, plan.noise, d, plan.tolerance**2) * metric
        if not is_gaussian(kernel):
            # A quarter of the shortest wave: a rough kernel changes within a cell of the smooth one.
            side = np.minimum(side, 0.25 / (modes.spacing * modes.counts))
        low = modes.low - modes.margin
        shape = np.floor((modes.high + modes.margin - low) / side) + 1.0
        coarser = max(1.0, (float(np.prod(shape)) / MOST_CELLS) ** (1.0 / d))
        shape, side, none = np.ceil(shape / coarser), side * coarser, np.empty((0, 1 + d))
        return cls(plan.noise, low, side, shape.astype(np.int64), np.empty(0, dtype=np.int64), none)

    def of(self, rows: Rows) -> Self:
        """Return the cells of rows."""
        precision = self.noise.variance / self.noise.of_weighted_rows(rows)
        side, shape = self.side[:, None], self.shape[:, None]
        offsets = np.subtract(rows.X.T, self.low[:, None], order="C")
        places = np.clip((offsets / side).astype(np.int64), 0, shape - 1)
        offsets -= places * side
        flat = np.ravel_multi_index(tuple(places), tuple(self.shape.tolist()))
        cell, counts = numbered(flat)
        keys = np.empty(len(counts), dtype=np.int64)
        keys[cell] = flat
        totals = [np.bincount(cell, precision), *(np.bincount(cell, precision * column) for column in offsets)]
        return replace(self, keys=keys, sums=np.stack(totals, axis=1))

    def combine(self, other: Self, sign: float) -> Self:
        """Return the cells of the rows of both; with ``sign=-1.0``, without the rows of the other."""
        place = np.searchsorted(self.keys, other.keys)
        new = np.append(self.keys, -1)[place] != other.keys
        if sign < 0.0 and new.any():
            raise not_there("there is no row near one of them")
        keys = np.insert(self.keys, place[new], other.keys[new])
        sums = np.insert(self.sums, place[new], 0.0, axis=0)
        sums[np.searchsorted(keys, other.keys)] += sign * other.sums
        if sign < 0.0:
            rounding = ROUNDING * self.sums[:, 0]
            if np.any(sums[:, 0] < -rounding):
                raise not_there("near one of them there are fewer")
            stay = sums[:, 0] > rounding
            keys, sums = keys[stay], sums[stay]
        return replace(self, keys=keys, sums=sums)

    def scaled(self, noise: Noise, precision: float) -> Self:
        """Return the cells relative to another noise, with this sum of precisions."""
        return replace(self, noise=noise, sums=self.sums * (precision / self.sums[:, 0].sum()))

    def rows(self, n_targets: int) -> Rows:
        """Return one row for each cell, with the weight of all of its rows, and targets of 0."""
        corners = np.stack(np.unravel_index(self.keys, tuple(self.shape.tolist())), axis=1) * self.side
        X = self.low + corners + self.sums[:, 1:] / self.sums[:, :1]
        return Rows(X, np.zeros((len(X), n_targets)), self.sums[:, 0].copy())


@dataclass(frozen=True, eq=False)
class ModeSums(Sums):
    """Sums over rows for Fourier modes.

    Attributes
    ----------
    targets, summary, waiting
        See `Sums`.
    statistics : ModeStatistics
    rows : Rows or None
        All rows, where they are kept.
    cells : CellSums or None
        Of rows that are not kept: how many are where. None where variances are from few modes.
    has_grown : bool
        Whether rows were added to others, or taken out: iterations then go on until the order does not matter.
    """

    targets: TargetSums = field(init=False)
    statistics: ModeStatistics
    rows: Rows | None
    cells: CellSums | None
    has_grown: bool = False

    # A transform takes its time whatever the number of rows.
    least_rows: ClassVar[int] = 2**17

    @property
    def keeps_rows(self) -> bool:  # noqa: D102
        return self.plan.keeps_rows

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", self.statistics.targets)

    @classmethod
    def for_plan(cls, plan: ModePlan, n_targets: int) -> Self:
        """Make the sums over no rows, of this number of targets and columns of a trend."""
        has_cells = not plan.keeps_rows and plan.modes.n_modes > FEW_MODES
        rows = _no_rows(plan, n_targets) if plan.keeps_rows else None
        cells = CellSums.over(plan) if has_cells else None
        return cls(None, None, ModeStatistics.zeros(plan, n_targets), rows, cells)

    @property
    def plan(self) -> ModePlan:
        """The modes, and how means and variances are solved on them."""
        return self.statistics.plan

    @property
    def noise_variance(self) -> float:  # noqa: D102
        return self.plan.noise.variance

    def empty(self) -> Self:  # noqa: D102
        return self.for_plan(self.plan, len(self.targets.totals))

    def check(self, rows: Rows) -> None:
        """Refuse rows that are outside the box of the modes.

        Raises
        ------
        InputError
            It names the first of them, and says what to do.
        """
        modes = self.plan.modes
        (outside,) = np.nonzero(~modes.admits(rows.X))
        if len(outside):
            raise InputError(
                f"Rows are added within {modes.box(modes.margin)}, which the Fourier modes serve; {len(outside):,} "
                f"rows are not, the first of them row {outside[0]}, {rows.X[outside[0]].tolist()}. Leave them out, or "
                "fit again to all rows, or with a box that holds those to come."
            )

    def of(self, rows: Rows) -> Self:  # noqa: D102
        return replace(
            self,
            summary=Summary.of(rows),
            waiting=None,
            statistics=ModeStatistics.of(self.plan, rows),
            rows=None if self.rows is None else rows,
            cells=None if self.cells is None else self.cells.of(rows),
            has_grown=self.has_grown or self.targets.n > 0.0,
        )

    def latest(self, n: int) -> Self:  # noqa: D102
        if self.rows is None:
            return super().latest(n)
        gone = self.rows.take(slice(0, max(0, len(self.rows) - n)))
        return self - self.of(gone) if len(gone) else self

    def combine(self, other: Self, sign: float) -> Self:  # noqa: D102
        rows, cells = self.rows, self.cells
        if sign < 0.0 and rows is not None and other.rows is not None and rows.reweighted:
            other = self.of(rows.take(~rows_that_stay(rows, other.rows, self.noise_variance)))
        statistics = self.statistics.combine(other.statistics, sign)
        if sign < 0.0:
            statistics.targets.check_remaining(self.targets)
        if rows is not None:
            rows = combined_rows(rows, other.rows, sign, self.noise_variance)
        if cells is not None:
            theirs = cells.of(other.rows) if other.rows is not None else other.cells
            assert theirs is not None  # of the same modes
            cells = cells.combine(theirs, sign)
        return replace(
            self,
            summary=combined(self.summary, other.summary, sign),
            statistics=statistics,
            rows=rows,
            cells=cells,
            has_grown=self.has_grown or (self.targets.n > 0.0 and other.targets.n > 0.0),
        )

    def posterior(self, combination: Floats, start: Posterior | None = None) -> SpectralPosterior:
        """Solve for the targets Y @ combination, of which the last `plan.n_trend` are columns of a trend.

        Where rows were added, and the iterations start anew, they go on until the order of the rows does not matter.
        """
        if self.waiting is not None:
            return self.settled.posterior(combination, start)
        rows = self.rows if self.cells is None else self.cells.rows(len(combination))
        rows = _no_rows(self.plan, len(combination)) if rows is None else rows
        return SpectralPosterior(
            self.statistics.combined(combination),
            rows.with_targets(rows.Y @ combination),
            self.n_rows,
            start=start if isinstance(start, SpectralPosterior) else None,
            settled=self.has_grown and start is None,
        )

    def with_kernel(self, kernel: Kernel, noise: Noise) -> Self:
        """Return the same sums for another kernel. Another noise variance is that of all rows: they must share one."""
        mine = self.settled
        statistics, cells = mine.statistics.with_kernel(kernel, noise), mine.cells
        if cells is not None and noise != mine.plan.noise:
            cells = cells.scaled(noise, statistics.precision)
        return replace(mine, statistics=statistics, cells=cells)


def _no_rows(plan: ModePlan, n_targets: int) -> Rows:
    return Rows(np.empty((0, len(plan.modes.low))), np.empty((0, n_targets)))
