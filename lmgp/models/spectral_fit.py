"""The fitted state of a model on Fourier modes, and what becomes of it with more rows, or another kernel."""

from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from lmgp.errors import InputError
from lmgp.inference.additive import keeps_rows
from lmgp.inference.local_rows import without
from lmgp.inputs import column_scales
from lmgp.io.summary import Summary
from lmgp.kernels.base import Kernel
from lmgp.learning.record import Learning, Trial
from lmgp.models.base import GPFit
from lmgp.noise import Noise
from lmgp.spectral.dense import DenseFactor
from lmgp.spectral.learning import learn_from_sums
from lmgp.spectral.posterior import SpectralPosterior
from lmgp.spectral.streams import Cells, SpectralParts
from lmgp.spectral.sums import SpectralSums
from lmgp.spectral.variance import PLAN, LocalVariance
from lmgp.validation import Rows

Floats = NDArray[np.float64]

NO_ROW = "No row would be left. A model needs at least one: fit another one instead."


@dataclass(frozen=True)
class Later:
    """How the model of the variance is made again.

    Attributes
    ----------
    tolerance : float
        KL a row, in nats.
    seed : int
    max_memory_gib : float
    """

    tolerance: float
    seed: int
    max_memory_gib: float

    def variance(self, posterior: SpectralPosterior, rows: Rows, at_once: bool = False) -> DenseFactor | LocalVariance:
        """Return the model of the variance: of few modes the exact one, otherwise one that is made when it is needed.

        Made at once, it says at once if it takes too much memory.
        """
        if posterior.modes.n_modes <= PLAN.few:
            return posterior.dense()
        local = LocalVariance(posterior.kernel, rows, posterior.noise, self.tolerance, self.seed, self.max_memory_gib)
        if at_once:
            _ = local.model
        return local

    def cells(self, posterior: SpectralPosterior, cells: Cells) -> Cells | None:
        """Return cells of rows where the variance is not from the modes."""
        return None if posterior.modes.n_modes <= PLAN.few else cells


@dataclass(frozen=True, eq=False)
class SpectralFit(GPFit):
    """The fitted state of a spectral model.

    Attributes
    ----------
    posterior : SpectralPosterior
    rows : Rows
        With y less the origin of the posterior's sums. Of rows that are not kept, one for each cell, without targets.
    later : Later
    variance : DenseFactor or LocalVariance
    parts : SpectralParts or None
        Of rows that are not kept.
    """

    posterior: SpectralPosterior
    rows: Rows
    later: Later
    variance: DenseFactor | LocalVariance
    parts: SpectralParts | None = None

    # Rows of chunks are summed when there are as many: a transform takes its time whatever their number.
    least_rows: ClassVar[int] = 2**17
    covers: ClassVar[bool] = False

    @property
    def noise(self) -> Noise:
        """The noise."""
        return self.posterior.noise

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.rows.y) if self.parts is None else self.parts.n_rows

    def sums_of(self, rows: Rows) -> SpectralParts:
        """Return what is kept of rows, with y as it is, if they are not kept."""
        posterior = self.posterior
        none = None if self.parts is None else self.parts.cells
        return SpectralParts(
            posterior.sums_of(rows), None if none is None else none.of(rows, self.noise), Summary.of(rows)
        )

    def with_sums(self, parts: SpectralParts, warm: bool = False) -> Self:
        """Return the state of rows that are not kept."""
        if parts.sums.n <= 0.0:
            raise InputError(NO_ROW)
        center = self.center if self.center_given else parts.sums.mean
        posterior, summary = self.posterior.with_sums(parts.sums, warm, center), parts.summary
        rows = self.rows.take(slice(0)) if parts.cells is None else parts.cells.rows
        return replace(
            self, center=center, farthest_target=summary.farthest(center), trend=posterior.trend,
            column_scales=summary.scales, posterior=posterior, rows=rows, variance=self.later.variance(posterior, rows),
            parts=parts,
        )  # fmt: skip

    def summing(self) -> Self:
        """Return what it takes to sum rows.

        Raises
        ------
        InputError
            If the model keeps its rows.
        """
        if self.parts is None:
            raise keeps_rows()
        cells, none = self.parts.cells, Rows(self.rows.X[:0], self.rows.y[:0])
        parts = replace(self.parts, cells=None if cells is None else cells.without_rows())
        variance: Any = None
        return replace(self, rows=none, parts=parts, variance=variance)

    def added(self, parts: SpectralParts, sign: float, warm: bool = False) -> Self:
        """Return the state with more sums, or without some. The iterations may start from this solution."""
        assert self.parts is not None  # of rows that are not kept
        return self.with_sums(self.parts.merge(parts, sign), warm)

    def joined(self, rows: Rows, sign: float, warm: bool = False) -> Self:
        """Return the state with more rows, or without some; y as it is. The iterations may start from this solution."""
        if self.parts is not None:
            return self.added(self.sums_of(rows), sign, warm)
        sums = self.posterior.sums.merge(self.posterior.sums_of(rows), sign)
        if sign > 0.0:
            return self._with(sums, rows, warm)
        gone = self.posterior.shifted(rows, self.posterior.sums.origin)
        stay = without(self.rows, gone, self.noise_variance)
        if not stay.any():
            raise InputError(NO_ROW)
        return replace(self, rows=self.rows.take(stay))._with(sums, rows.take(slice(0)))

    def of_rows(self, rows: Rows) -> Self:
        """Return the state of these rows alone."""
        if self.parts is not None:
            return self.with_sums(self.sums_of(rows))
        return replace(self, rows=self.rows.take(slice(0)))._with(self.posterior.sums_of(rows), rows)

    def merged(self, other: "SpectralFit | PendingFit") -> Self:
        """Return the state of the rows of both."""
        theirs = resolved(other)
        if theirs.parts is None:
            rows = theirs.posterior.shifted(theirs.rows, -theirs.posterior.sums.origin)
            if self.parts is None:
                return self._with(self.posterior.sums.merge(theirs.posterior.sums), rows)
            self.posterior.sums.source.check(theirs.posterior.sums.source)
            return self.joined(rows, 1.0)
        if self.parts is None:
            raise InputError(
                "A model that keeps its rows gets no sums of rows that are not kept. Merge the other way round: the "
                "model of the stream takes the rows of this one."
            )
        return self.with_sums(self.parts.merge(theirs.parts))

    def _with(self, sums: SpectralSums, more: Rows, warm: bool = False) -> Self:
        """Return the state of other sums: those of its rows and of more, which have y as it is."""
        center = self.center if self.center_given else sums.mean
        posterior = self.posterior.with_sums(sums, warm, center)
        origin, before = posterior.sums.origin, self.posterior.sums.origin
        rows = posterior.shifted(self.rows, origin - before)
        rows = rows.joined(posterior.shifted(more, origin), self.noise_variance)
        return replace(
            self,
            center=center,
            farthest_target=float(np.abs(rows.y).max()),
            trend=posterior.trend,
            column_scales=column_scales(rows),
            posterior=posterior,
            rows=rows,
            variance=self.later.variance(posterior, rows),
        )

    def relearned(self, max_memory_gib: float) -> Self:
        """Return the state with the hyper-parameters that are learned from the sums."""
        start, sums, n = perf_counter(), self.posterior.sums, self.n_rows
        own = self.rows.noise_variances is not None if self.parts is None else sums.shared_noise is None
        given = self.noise_variance if own else None
        found = learn_from_sums(sums, self.kernel, given, max_memory_gib=max_memory_gib)
        posterior = self.posterior.with_kernel(found.kernel, Noise(found.noise_variance))
        several = any(one.value.ndim for one in found.kernel.parameters if one.name.endswith("lengthscale"))
        n_free, missing = len(found.kernel.theta) + (given is None), float("nan")
        trial = Trial(
            type(found.kernel).__name__, several, n_free, "modes", n, 0, found.log_marginal_likelihood / sums.n,
            0.0, missing, missing, missing, perf_counter() - start, chosen=True,
        )  # fmt: skip
        parts, rows = self.parts, self.rows
        if parts is not None:
            cells = parts.cells if own or parts.cells is None else parts.cells.scaled(posterior.sums.n)
            parts, rows = replace(parts, sums=posterior.sums, cells=cells), rows if cells is None else cells.rows
        return replace(
            self,
            kernel=found.kernel,
            noise_variance=found.noise_variance,
            learning=Learning((trial,), n, 0, trial.seconds),
            trend=posterior.trend,
            posterior=posterior,
            rows=rows,
            parts=parts,
            variance=self.later.variance(posterior, rows, at_once=True),
        )

    def log_likelihood_at(self, kernel: Kernel, noise_variance: float) -> float | None:
        """Return the log likelihood of the modes, of few of them; None of more."""
        variance, posterior = self.variance, self.posterior
        if not isinstance(variance, DenseFactor):
            return None
        if (kernel, noise_variance) != (self.kernel, self.noise_variance):
            noise = self.noise if noise_variance == self.noise_variance else Noise(noise_variance)
            posterior = posterior.with_kernel(kernel, noise)
            variance = posterior.dense()
        return variance.log_marginal_likelihood + 0.5 * posterior.explained_by_trend


class PendingFit:
    """A fitted state and rows that are added when it is next looked at: several updates are solved once.

    Parameters
    ----------
    fit : SpectralFit
    waiting : Rows
        With y as it is.
    """

    def __init__(self, fit: SpectralFit, waiting: Rows) -> None:
        self.fit, self.waiting = fit, waiting

    @cached_property
    def resolved(self) -> SpectralFit:
        """The state with these rows."""
        return self.fit.joined(self.waiting, 1.0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("fit", "waiting"):
            raise AttributeError(name)
        return getattr(self.resolved, name)


def resolved(fit: SpectralFit | PendingFit) -> SpectralFit:
    """Return a fitted state with all of its rows."""
    return fit.resolved if isinstance(fit, PendingFit) else fit


def without_rows(posterior: SpectralPosterior, common: GPFit, later: Later, summary: Summary) -> SpectralFit:
    """Return the state of rows that are not kept, before there are any.

    Parameters
    ----------
    posterior : SpectralPosterior
        Of no rows.
    common : GPFit
    later : Later
    summary : Summary
        Of rows to come.
    """
    kernel, noise, d = common.kernel, posterior.noise, len(summary.low)
    nothing = Rows(np.empty((0, d)), np.empty(0))
    cells = later.cells(posterior, Cells.over(posterior.modes, kernel, noise, later.tolerance))
    parts = SpectralParts(posterior.sums, cells, summary)
    local = LocalVariance(kernel, nothing, noise, later.tolerance, later.seed)
    return SpectralFit(**vars(common), posterior=posterior, rows=nothing, later=later, variance=local, parts=parts)


def checked_box(given: ArrayLike | None, n_inputs: int) -> tuple[Floats, Floats] | None:
    """Return the lowest and the highest values of the columns, each of shape (d,), if they are given.

    Raises
    ------
    InputError
        If they are not of this number of columns, or not in this order.
    """
    if given is None:
        return None
    box: Floats = check_array(given, dtype=np.float64, input_name="box", ensure_2d=False)
    if box.shape != (2, n_inputs) or np.any(box[0] > box[1]):
        raise InputError(
            f"box must have the lowest values of the {n_inputs} columns, and the highest, shape (2, {n_inputs}); "
            f"got {given!r}."
        )
    return box[0], box[1]
