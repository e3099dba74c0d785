"""The fitted state of a model on Fourier modes, and what becomes of it with more rows, or another kernel."""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Self

import numpy as np

from lmgp.inputs import column_scales
from lmgp.learning.record import Learning, Trial
from lmgp.models.base import GPFit
from lmgp.noise import Noise
from lmgp.spectral.dense import DenseFactor
from lmgp.spectral.learning import learn_from_sums
from lmgp.spectral.posterior import SpectralPosterior
from lmgp.spectral.sums import SpectralSums
from lmgp.spectral.variance import PLAN, LocalVariance
from lmgp.validation import Rows


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


@dataclass(frozen=True, eq=False)
class SpectralFit(GPFit):
    """The fitted state of a spectral model.

    Attributes
    ----------
    posterior : SpectralPosterior
    rows : Rows
        With y less the origin of the posterior's sums.
    later : Later
    variance : DenseFactor or LocalVariance
    """

    posterior: SpectralPosterior
    rows: Rows
    later: Later
    variance: DenseFactor | LocalVariance

    def joined(self, sums: SpectralSums, more: Rows) -> Self:
        """Return the state of other sums: those of its rows and of more, which have y as it is."""
        posterior = self.posterior.with_sums(sums)
        origin, before = posterior.sums.origin, self.posterior.sums.origin
        rows = posterior.shifted(self.rows, origin - before)
        rows = rows.joined(posterior.shifted(more, origin), self.noise_variance)
        return replace(
            self,
            center=sums.mean,
            farthest_target=float(np.abs(rows.y).max()),
            trend=posterior.trend,
            column_scales=column_scales(rows),
            posterior=posterior,
            rows=rows,
            variance=self.later.variance(posterior, rows),
        )

    def relearned(self, max_memory_gib: float) -> Self:
        """Return the state with the hyper-parameters that are learned from the sums."""
        start, sums, n = perf_counter(), self.posterior.sums, len(self.rows.y)
        given = None if self.rows.noise_variances is None else self.noise_variance
        found = learn_from_sums(sums, self.kernel, given, max_memory_gib=max_memory_gib)
        posterior = self.posterior.with_kernel(found.kernel, Noise(found.noise_variance))
        several = any(one.value.ndim for one in found.kernel.parameters if one.name.endswith("lengthscale"))
        n_free, missing = len(found.kernel.theta) + (given is None), float("nan")
        trial = Trial(
            type(found.kernel).__name__, several, n_free, "modes", n, 0, found.log_marginal_likelihood / sums.n,
            0.0, missing, missing, missing, perf_counter() - start, chosen=True,
        )  # fmt: skip
        return replace(
            self,
            kernel=found.kernel,
            noise_variance=found.noise_variance,
            learning=Learning((trial,), n, 0, trial.seconds),
            trend=posterior.trend,
            posterior=posterior,
            variance=self.later.variance(posterior, self.rows, at_once=True),
        )
