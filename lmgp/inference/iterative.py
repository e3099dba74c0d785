"""The exact mean of more rows than can be factorised: by iteration, with a variance from a map and the nearest rows."""

import math
import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from lmgp.arithmetic import place_of
from lmgp.errors import ToleranceWarning
from lmgp.features.adapter import make_feature_map
from lmgp.features.nystroem import NystroemFeatures
from lmgp.inference.partial import BlockCovariance
from lmgp.inference.products import KernelProducts, cross_product, single_is_enough
from lmgp.inference.residual import ResidualPosterior
from lmgp.inference.trend import Trend, TrendFit
from lmgp.inference.weight_space import fitted_global_map
from lmgp.kernels.base import Kernel
from lmgp.linalg import conjugate_gradients
from lmgp.memory import memory_limit
from lmgp.noise import Noise
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """How the preconditioner is made, and the iterations end.

    Attributes
    ----------
    landmarks, block_size : int
        Of the preconditioner, at most. Where memory is short, both are smaller in proportion.
    share_of_memory : float
        That the preconditioner may take.
    rows_per_landmark : int
        At least.
    n_neighbors : int
        The nearest rows that a variance is from, beside the landmarks.
    probes, probe_entries : int
        The rows whose leave-one-out predictions are watched: at most the first number, and no more than have columns
        of the inverse with the second number of entries.
    window : int
        Iterations over which the change of predictions is measured.
    slowest : float
        The error is not taken to fall more slowly than by this factor within a window.
    """

    landmarks: int = 2048
    block_size: int = 512
    share_of_memory: float = 0.5
    rows_per_landmark: int = 4
    n_neighbors: int = 256
    probes: int = 256
    probe_entries: int = 2**24
    window: int = 4
    slowest: float = 0.9


PLAN = Plan()


@dataclass(frozen=True)
class Iterations:
    """What an iterative solve has come to. Printed, it is a line.

    Attributes
    ----------
    number : int
        Of iterations.
    error : float
        An estimate of the root mean square error of means that the iterations leave, in predictive standard deviations.
    tolerance : float
        The error that was asked for.
    """

    number: int
    error: float
    tolerance: float

    @property
    def converged(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.error <= self.tolerance

    @property
    def divergence(self) -> float:
        """The KL divergence from the exact mean, in nats a row."""
        return 0.5 * self.error**2

    def __str__(self) -> str:
        state = "" if self.converged else f", above the tolerance of {self.tolerance:g}"
        return f"{self.number} iterations, means settled to {self.error:.2g} predictive standard deviations{state}"


class _LeftOut:
    """Leave-one-out predictions of some rows, and how far they are from settled: those of the worst target.

    Without row i, the mean at it is y − αᵢ/[C⁻¹]ᵢᵢ and the variance, with noise, 1/[C⁻¹]ᵢᵢ: so an error of αᵢ is one of
    the mean of 1/√[C⁻¹]ᵢᵢ as many predictive standard deviations. The diagonal of C⁻¹ is that of the preconditioner.
    """

    def __init__(self, covariance: BlockCovariance, n: int, rng: np.random.Generator) -> None:
        size = min(n, max(1, min(PLAN.probes, PLAN.probe_entries // n)))
        self._rows = torch.from_numpy(np.sort(rng.choice(n, size, replace=False)))
        columns = torch.zeros((n, size), dtype=torch.float64)
        places = torch.arange(size)
        columns[self._rows, places] = 1.0
        self._sd = covariance.solve(columns)[self._rows, places].rsqrt()[:, None]
        self._seen: list[torch.Tensor] = []
        self._changes: list[float] = []

    def error(self, weights: torch.Tensor) -> float:
        """Return an estimate of the error of the means from the weights of all rows, (n,) or (n, t)."""
        self._seen.append(weights.reshape(len(weights), -1)[self._rows] * self._sd)
        if len(self._seen) <= PLAN.window:
            return math.inf
        change = float((self._seen[-1] - self._seen.pop(0)).square().mean(dim=0).max().sqrt())
        self._changes.append(change)
        if change == 0.0:
            return 0.0
        if len(self._changes) <= PLAN.window:
            return math.inf
        # Errors that fall by q in each window add up to the change of the last one times q + q² + …
        fall = min(change / self._changes[-1 - PLAN.window], PLAN.slowest)
        return change * fall / (1.0 - fall)


class IterativePosterior:
    """The exact mean given all rows, by preconditioned conjugate gradients, and a variance of near rows and a map.

    The preconditioner is the covariance of a Nyström map and of blocks of near rows (`BlockCovariance`). The variance
    is that of `ResidualPosterior` with the same map.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows
        With y centred.
    noise : Noise
    rng : numpy.random.Generator
        Draws landmarks and probes.
    tolerance : float
        The root mean square error of the mean, in predictive standard deviations, at which the iterations end.
    max_iterations : int
    max_memory_gib : float, optional
        The machine's memory if not given. Covariances that do not fit are made again in each iteration.
    trend : Trend, optional
        Of which y are the residuals. It is estimated from all rows, unless it is a `TrendFit`. Means are less the
        trend; variances have its uncertainty.
    device : str
        Where the iterations run, as torch names it.
    verbose : bool
        Whether to show a progress bar.
    others : ndarray of shape (n, t - 1), optional
        Further targets, of a trend the residuals of their least-squares fits: all are solved for at once. Those who ask
        for one target get y.

    Attributes
    ----------
    iterations : Iterations
    trend : TrendFit or None
    coefficients : ndarray of shape (n,)
        α: the mean at x is Σ αᵢ k(xᵢ, x).
    changes : ndarray of shape (p, t)
        What is added to the least-squares coefficients of the trend of each target.
    surprise : float
        yᵀα/n.

    Raises
    ------
    InputError
        If the kernel has no metric.
    MemoryLimitError
        If the preconditioner takes more than there is.

    Warns
    -----
    ToleranceWarning
        If the iterations end before the mean is settled.

    References
    ----------
    K. A. Wang et al., *Exact Gaussian Processes on a Million Data Points*, NeurIPS 2019.
    """

    # Iterations take too long to be made again by a copy.
    lasting: ClassVar[bool] = True

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        noise: Noise,
        rng: np.random.Generator,
        *,
        tolerance: float,
        max_iterations: int,
        max_memory_gib: float | None = None,
        trend: Trend | None = None,
        device: str = "cpu",
        verbose: bool = False,
        others: Floats | None = None,
    ) -> None:
        n, limit = len(rows.y), memory_limit(max_memory_gib)
        self.kernel, self.X, self._device = kernel, rows.X, torch.device(device)
        size, block_size = _sizes(n, limit)
        made = make_feature_map(NystroemFeatures(size), kernel, rng)
        features, centre = fitted_global_map(made, rows, max_memory_gib)
        self._local = ResidualPosterior(
            kernel, rows, noise, features, centre, PLAN.n_neighbors, block_size, max_memory_gib
        )
        variances = noise.of_weighted_rows(rows)
        products = KernelProducts(
            kernel,
            as_tensor(rows.X).to(self._device),
            variances.to(self._device),
            single=single_is_enough(kernel, as_tensor(rows.X), float(variances.min()), 0.5 * tolerance),
            max_bytes=limit - 8.0 * n * (size + block_size),
        )
        # The columns of a trend are further targets.
        targets = [rows.y, *([] if others is None else [others]), *([] if trend is None else [trend.columns(rows.X)])]
        self._targets, self._trend = torch.from_numpy(np.column_stack(targets)), trend
        self._n_targets = 1 if others is None else 1 + others.shape[1]
        probes = _LeftOut(self._local.covariance, n, rng)
        covariance = self._local.covariance.to(self._device)
        with tqdm(total=max_iterations, desc="Conjugate gradients", unit="it", disable=not verbose) as bar:

            def settled(number: int, solved: torch.Tensor) -> bool:
                error = probes.error(self._weights(solved.cpu())[0])
                self.iterations = Iterations(number, error, tolerance)
                bar.update()
                if math.isfinite(error):
                    bar.set_postfix_str(f"means settled to {error:.2g} s.d.")
                return self.iterations.converged

            solved = conjugate_gradients(
                products, covariance.solve, self._targets.to(self._device), settled, max_iterations
            )
        self._solved = solved.cpu()
        self._all, self.changes, self.trend = self._weights(self._solved)
        self._take(0)
        if not self.iterations.converged:
            warnings.warn(
                f"{self.iterations}. The noise variance, {noise.variance:.3g}, is small for {n:,} rows: raise "
                "max_iterations or tolerance.",
                ToleranceWarning,
                stacklevel=2,
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_device": str(self._device)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "_all" not in state:  # of an earlier version: one target
            self._n_targets, self._all = 1, torch.from_numpy(self.coefficients)[:, None]
            self.changes = np.zeros((0, 1)) if self.trend is None else self.trend.change[:, None]
        self._device = place_of(state["_device"])  # it may be solved elsewhere

    def _weights(self, solved: torch.Tensor) -> tuple[torch.Tensor, Floats, TrendFit | None]:
        """Return (K + Σ)⁻¹(y − trend) of all targets, and the trend, from the solutions for y and the columns H."""
        t = self._n_targets
        if self._trend is None:
            return solved, np.zeros((0, t)), None
        products = (self._targets[:, t:].T @ solved).numpy()
        normal = products[:, t:]
        fit = self._trend.estimated(0.5 * (normal + normal.T), products[:, 0])
        changes = fit.covariance @ products[:, :t]
        changes[:, 0] = fit.change
        return solved[:, :t] - solved[:, t:] @ torch.from_numpy(changes), changes, fit

    def _take(self, j: int) -> None:
        """Make a target the one that is asked for."""
        self.coefficients: Floats = np.ascontiguousarray(self._all[:, j].numpy())
        left = self._targets[:, j] - self._targets[:, self._n_targets :] @ torch.from_numpy(self.changes[:, j])
        self.surprise = float(left.numpy() @ self.coefficients) / len(left)

    def of_target(self, j: int, trend: TrendFit | None) -> Self:
        """Return the posterior of one of the targets, with its trend."""
        other = copy(self)
        other._take(j)
        other.trend = trend
        return other

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict the latent function.

        Parameters
        ----------
        X : ndarray of shape (m, d)
        variance : bool, default=True

        Returns
        -------
        mean : ndarray of shape (m,)
        variance : ndarray of shape (m,) or None
        """
        means, found = self._predict(X, torch.from_numpy(self.coefficients)[:, None], variance)
        return means[:, 0], found

    def predict_targets(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict the latent functions of all targets, see `predict`.

        Returns
        -------
        means : ndarray of shape (m, t)
        variance : ndarray of shape (m,) or None
            The same for all.
        """
        return self._predict(X, self._all, variance)

    def _predict(self, X: Floats, weights: torch.Tensor, variance: bool) -> tuple[Floats, Floats | None]:
        every = weights
        if variance:  # which asks for the columns of a trend
            every = torch.column_stack((weights, self._solved[:, self._n_targets :]))
        tests, rows = as_tensor(X).to(self._device), as_tensor(self.X).to(self._device)
        means = cross_product(self.kernel, tests, rows, every.to(self._device)).cpu().numpy()
        if not variance:
            return means, None
        _, found = self._local.predict(X)
        assert found is not None  # for the type checker
        if self.trend is not None:
            found += self.trend.variance(X, means[:, weights.shape[1] :])
        return means[:, : weights.shape[1]], found

    def leave_one_out(self, rows: Rows, noise: Noise) -> tuple[Floats, Floats]:
        """Predict each training row without itself: with the variance of the nearest rows and the map without it.

        Parameters
        ----------
        rows : Rows
            These, with y less the trend.
        noise : Noise

        Returns
        -------
        mean, variance : ndarray of shape (n,)
        """
        _, variance = self._local.leave_one_out()
        # Without row i, the mean at it is y − αᵢ/[C⁻¹]ᵢᵢ and the variance, with noise, 1/[C⁻¹]ᵢᵢ.
        return rows.y - self.coefficients * (variance + noise.of_weighted_rows(rows).numpy()), variance

    @property
    def n_bytes(self) -> int:
        """The memory that this posterior holds, in bytes."""
        return self._local.n_bytes + self._solved.nbytes + self._targets.nbytes + 2 * self._all.nbytes


def _sizes(n: int, limit: float) -> tuple[int, int]:
    """Return the numbers of landmarks and of rows in a block, whose matrices take a share of the memory."""
    fits = min(1.0, PLAN.share_of_memory * limit / (8.0 * n * (PLAN.landmarks + PLAN.block_size)))
    n_landmarks = min(int(fits * PLAN.landmarks), n // PLAN.rows_per_landmark)
    return max(1, n_landmarks), max(1, int(fits * PLAN.block_size))
