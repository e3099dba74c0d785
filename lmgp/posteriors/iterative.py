"""The exact mean of more rows than can be factorised: by iteration, with a variance from a map and the nearest rows."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from lmgp.data import Floats, Indices, Noise, Rows, as_tensor
from lmgp.errors import ToleranceWarning, warn
from lmgp.features.nystroem import NystroemFeatures
from lmgp.kernels.base import Kernel
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.blocks import BlockCovariance
from lmgp.posteriors.exact import SOLVE_BYTES
from lmgp.posteriors.products import KernelProducts, single_is_enough
from lmgp.posteriors.residual import ResidualPlan
from lmgp.utils.arithmetic import place_of
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.linalg import conjugate_gradients
from lmgp.utils.memory import chunks, memory_limit
from lmgp.utils.progress import counted

# The landmarks and the rows in a block of the preconditioner, at most. Where memory is short, both are smaller in
# proportion, so that it takes this share.
LANDMARKS, BLOCK_SIZE, SHARE_OF_MEMORY = 2048, 512, 0.5
# Rows for each landmark, at least.
ROWS_PER_LANDMARK = 4
# The nearest rows that a variance is from, beside the landmarks.
NEIGHBORS = 256
# The rows whose leave-one-out predictions are watched: at most the first number, and no more than have columns of the
# inverse with the second number of entries.
PROBES, PROBE_ENTRIES = 256, 2**24
# Iterations over which the change of predictions is measured; the error is not taken to fall more slowly than by this
# factor within so many.
WINDOW, SLOWEST = 4, 0.9


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


def left_out_error(covariance: BlockCovariance, n: int, rng: np.random.Generator) -> Callable[[Tensor], float]:
    """Return a function that estimates how far leave-one-out predictions of some rows are from settled.

    It takes the weights of all rows, shape (n, t), after each iteration; the error is that of the worst target.

    Without row i, the mean at it is y − αᵢ/[C⁻¹]ᵢᵢ and the variance, with noise, 1/[C⁻¹]ᵢᵢ: so an error of αᵢ is one of
    the mean of 1/√[C⁻¹]ᵢᵢ as many predictive standard deviations. The diagonal of C⁻¹ is that of the preconditioner.
    """
    size = min(n, max(1, min(PROBES, PROBE_ENTRIES // n)))
    rows = torch.from_numpy(np.sort(rng.choice(n, size, replace=False)))
    columns, places = torch.zeros((n, size), dtype=torch.float64), torch.arange(size)
    columns[rows, places] = 1.0
    sd = covariance.solve(columns)[rows, places].rsqrt()[:, None]
    seen: list[Tensor] = []
    changes: list[float] = []

    def error(weights: Tensor) -> float:
        seen.append(weights[rows] * sd)
        if len(seen) <= WINDOW:
            return math.inf
        changes.append(float((seen[-1] - seen.pop(0)).square().mean(dim=0).max().sqrt()))
        if changes[-1] == 0.0:
            return 0.0
        if len(changes) <= WINDOW:
            return math.inf
        # Errors that fall by q in each window add up to the change of the last one times q + q² + …
        fall = min(changes[-1] / changes[-1 - WINDOW], SLOWEST)
        return changes[-1] * fall / (1.0 - fall)

    return error


class IterativePosterior(Posterior):
    """The exact means given all rows, by preconditioned conjugate gradients, and a variance of near rows and a map.

    The preconditioner is the covariance of a Nyström map and of blocks of near rows (`BlockCovariance`). The variance
    is that of `ResidualPosterior` with the same map.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows
        With centred targets, which are solved for at once.
    noise : Noise
    rng : numpy.random.Generator
        Draws landmarks and probes.
    tolerance : float
        The root mean square error of the means, in predictive standard deviations, at which the iterations end.
    max_iterations : int
    max_memory_gib : float, optional
        The machine's memory if not given. Covariances that do not fit are made again in each iteration.
    device : str
        Where the iterations run, as torch names it.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    iterations : Iterations
    coefficients : Tensor of shape (n, t)
        α: the means at x are Σ αᵢ k(xᵢ, x).

    Raises
    ------
    InputError
        If the kernel has no metric.
    MemoryLimitError
        If the preconditioner takes more than there is.

    Warns
    -----
    ToleranceWarning
        If the iterations end before the means are settled.

    References
    ----------
    K. A. Wang et al., *Exact Gaussian Processes on a Million Data Points*, NeurIPS 2019.
    """

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
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        n, limit = len(rows), memory_limit(max_memory_gib)
        self.kernel, self.noise, self._rows, self.n_rows = kernel, noise, rows, n
        self._device = torch.device(device)
        size, block_size = _sizes(n, limit)
        sizes = NEIGHBORS, block_size, max_memory_gib
        plan = ResidualPlan.fitted(kernel, rows, noise, NystroemFeatures(size), rng, *sizes)
        self._near = plan(plan.forest(rows), np.eye(rows.n_targets))
        variances, X = as_tensor(noise.of_weighted_rows(rows)), as_tensor(rows.X)
        single = single_is_enough(kernel, X, float(variances.min()), 0.5 * tolerance)
        moved, rest = (X.to(self._device), variances.to(self._device)), limit - 8.0 * n * (size + block_size)
        products = KernelProducts(kernel, *moved, single=single, max_bytes=rest)
        error_of = left_out_error(self._near.covariance_of_rows, n, rng)
        covariance = self._near.covariance_of_rows.to(self._device)
        with counted(max_iterations, "Conjugate gradients", "iterations", verbose) as bar:

            def settled(number: int, solved: Tensor, _: Tensor) -> bool:
                error = error_of(solved.cpu())
                self.iterations = Iterations(number, error, tolerance)
                bar.update()
                if math.isfinite(error):
                    bar.set_postfix_str(f"means settled to {error:.2g} s.d.")
                return self.iterations.converged

            targets = as_tensor(rows.Y).to(self._device)
            solved = conjugate_gradients(products, covariance.solve, targets, settled, max_iterations)
        self.coefficients = solved.cpu()
        if not self.iterations.converged:
            warn(
                f"{self.iterations}. The noise variance, {noise.variance:.3g}, is small for {n:,} rows: raise "
                "max_iterations or tolerance.",
                ToleranceWarning,
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_device": str(self._device)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _device=place_of(state["_device"]))  # it may be solved elsewhere

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        other = super().combined(combination)
        other.coefficients = self.coefficients @ as_tensor(combination)
        return other

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:  # noqa: D102
        rows, coefficients = (array.to(self._device) for array in (as_tensor(self._rows.X), self.coefficients))
        means = np.empty((len(X), coefficients.shape[1]))
        for part in chunks(len(X), self.n_rows, SOLVE_BYTES):
            section = self.kernel.evaluate(as_tensor(X[part]).to(self._device), rows)
            means[part] = (section @ coefficients).cpu().numpy()
        return means, self._near.variances(X) if variance else None

    def products(self) -> Floats:  # noqa: D102
        return self._rows.Y.T @ self.coefficients.numpy()

    def leave_one_out(self, index: Indices | None = None) -> tuple[Floats, Floats]:
        """Predict training rows from all others: with the variance of the nearest rows and the map without each."""
        index = np.arange(self.n_rows) if index is None else index
        _, variances = self._near.leave_one_out(index)
        noise = self.noise.of_weighted_rows(self._rows)[index]
        # Without row i, the mean at it is y − αᵢ/[C⁻¹]ᵢᵢ and the variance, with noise, 1/[C⁻¹]ᵢᵢ.
        return self._rows.Y[index] - self.coefficients.numpy()[index] * (variances + noise)[:, None], variances

    def error(self, X: Floats) -> Floats:
        """Return what the iterations leave of the divergence from the exact means."""
        return np.full((len(X), self.coefficients.shape[1]), self.iterations.divergence)


def _sizes(n: int, limit: float) -> tuple[int, int]:
    """Return the numbers of landmarks and of rows in a block, whose matrices take a share of the memory."""
    fits = min(1.0, SHARE_OF_MEMORY * limit / (8.0 * n * (LANDMARKS + BLOCK_SIZE)))
    return max(1, min(int(fits * LANDMARKS), n // ROWS_PER_LANDMARK)), max(1, int(fits * BLOCK_SIZE))
