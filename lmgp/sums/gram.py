"""Sums over rows for one feature map: products of its columns, whatever the number of rows."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from lmgp.data import ROUNDING, Floats, Noise, Rows, Source, Summary, TargetSums, not_there
from lmgp.errors import InputError, NumericalError
from lmgp.features.base import KernelMap
from lmgp.features.statistics import FeatureSums, GramSums, Statistics
from lmgp.kernels.base import Kernel
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.weights import WeightPosterior, accumulate, rounding_divergence
from lmgp.sums.base import Sums, combined
from lmgp.utils.arithmetic import Arithmetic


@dataclass(frozen=True, eq=False)
class WeightSums(Sums):
    """Sums of products of the columns of one map.

    Attributes
    ----------
    features : KernelMap
        Fitted.
    centre : ndarray of shape (d,)
        Of the map.
    kernel : Kernel
    noise : Noise
    arithmetic : Arithmetic
    sums : FeatureSums
    probe : Rows or None
        Some rows, of features in single precision: from them follows what that costs.
    reweighted : bool
        Whether a robust fit has given rows weights, which nobody knows of a row that is to go.
    """

    features: KernelMap
    centre: Floats
    kernel: Kernel
    noise: Noise
    arithmetic: Arithmetic
    sums: FeatureSums
    probe: Rows | None
    reweighted: bool = False

    @classmethod
    def over(
        cls, features: KernelMap, centre: Floats, kernel: Kernel, noise: Noise, n_targets: int,
        arithmetic: Arithmetic, probe: Rows | None = None,
    ) -> Self:  # fmt: skip
        """Make the sums over no rows."""
        none = GramSums.zeros(features.n_features_out_, n_targets)
        empty = TargetSums.zeros(n_targets), None, None
        return cls(*empty, features, centre, kernel, noise, arithmetic, none, probe)

    @property
    def source(self) -> Source:
        """What these sums are of."""
        return self.features.source(self.noise, self.centre)

    def empty(self) -> Self:  # noqa: D102
        none = GramSums.zeros(self.features.n_features_out_, len(self.targets.totals))
        return replace(super().empty(), sums=none, reweighted=False)

    def of(self, rows: Rows) -> Self:  # noqa: D102
        statistics = accumulate(self.features, rows, self.centre, self.noise, self.arithmetic)
        return replace(
            self, targets=statistics.targets, summary=Summary.of(rows), waiting=None, sums=statistics.sums,
            reweighted=rows.reweighted,
        )  # fmt: skip

    def combine(self, other: Self, sign: float) -> Self:  # noqa: D102
        self.source.check(other.source)
        if sign < 0.0 and self.reweighted:
            raise InputError(
                "Rows cannot be taken out of this model, because its robust fit gave them weights and kept sums in "
                "place of the rows: fit it with noise='student', or a model that keeps its rows, such as "
                "SpectralGPRegressor or NearestNeighborsGPRegressor."
            )
        sums, targets = self.sums.combine(other.sums, sign), self.targets.combine(other.targets, sign)
        if sign < 0.0:
            targets.check_remaining(self.targets)
            largest, least = self.sums.expand().gram.diagonal().max(), sums.expand().gram.diagonal().min()
            if least < -ROUNDING * largest:
                raise not_there("a sum of squared features falls below zero")
        summary, reweighted = combined(self.summary, other.summary, sign), self.reweighted or other.reweighted
        return replace(self, targets=targets, summary=summary, sums=sums, reweighted=reweighted)

    def __sub__(self, other: Self) -> Self:
        remaining = super().__sub__(other)
        try:
            remaining.posterior(np.eye(len(self.targets.totals)))
        except NumericalError as error:
            raise not_there("no rows have the Gram matrix that would be left") from error
        return remaining

    def posterior(self, combination: Floats, start: Posterior | None = None) -> WeightPosterior:  # noqa: D102
        sums, summary = self.settled, self.settled.summary
        statistics = Statistics(self.source, sums.sums, sums.targets)
        box = None if summary is None else (summary.low, summary.high)
        arguments = self.features, self.centre, self.kernel, statistics, combination
        posterior = WeightPosterior(*arguments, box=box, precision=self.arithmetic.precision)
        posterior.n_rows = sums.n_rows
        if self.probe is not None:
            rows = self.probe.with_targets(self.probe.Y @ combination)
            posterior.rounding_divergence = rounding_divergence(posterior, rows, sums.n_rows, self.arithmetic)
        return posterior
