"""The exact Gaussian process given rows: one set of them, or a batch of sets."""

import math
from collections.abc import Sequence
from copy import copy
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.inference.trend import Trend, TrendFit
from lmgp.kernels.base import Kernel
from lmgp.linalg import cholesky, solve_lower, solve_upper
from lmgp.memory import check_memory, chunks
from lmgp.noise import Noise
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]

# Bytes of the right-hand sides of one solve: each solve reads the whole n × n factor.
SOLVE_BYTES = 128 * 2**20

# The rows from which a trend is estimated where no posterior has all rows: about a second of factorisation.
TREND_ROWS = 4000

# Of memory: more than any machine has.
MOST_GIB = 1e12


def factorise(covariance: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Factorise K + Σ, with a correction of its diagonal where that is needed, see `lmgp.linalg.cholesky`.

    Parameters
    ----------
    covariance : Tensor of shape (..., n, n)
        K; the noise is added to it in place.
    noise : Tensor of shape (..., n)

    Returns
    -------
    Tensor of shape (..., n, n)
        Lower triangular.
    """
    covariance.diagonal(dim1=-2, dim2=-1).add_(noise)
    least = noise.amin(dim=-1) if noise.shape[-1] else noise.new_zeros(noise.shape[:-1])
    if least.ndim == 0:
        return cholesky(covariance, float(least))
    factors, failed = torch.linalg.cholesky_ex(covariance)
    for index in failed.nonzero().ravel().tolist():
        factors[index] = cholesky(covariance[index], float(least[index]))
    return factors


class Conditional:
    """A Gaussian process conditioned on rows: one set of rows, or a batch of sets.

    With L = chol(K + Σ): the mean is k*ᵀα with α = L⁻ᵀL⁻¹y, the variance k(x*, x*) − ‖L⁻¹k*‖².

    Parameters
    ----------
    kernel : Kernel
    X : Tensor of shape (..., n, d)
    y : Tensor of shape (..., n)
    noise : Tensor of shape (..., n)
        The noise variance of each row.
    columns : Tensor of shape (..., n, p), optional
        Further targets, which share the factorisation: the columns H of a trend.

    Attributes
    ----------
    whitened : Tensor of shape (..., n)
        L⁻¹y.
    whitened_columns : Tensor of shape (..., n, p) or None
        L⁻¹H.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 1.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: torch.Tensor,
        y: torch.Tensor,
        noise: torch.Tensor,
        columns: torch.Tensor | None = None,
    ) -> None:
        self.kernel, self.X = kernel, X
        self.factor = factorise(kernel.evaluate(X, X), noise)
        self.whitened = solve_lower(self.factor, y[..., None])[..., 0]
        self.whitened_columns = None if columns is None else solve_lower(self.factor, columns)

    def coefficients(self) -> torch.Tensor:
        """Return α = (K + Σ)⁻¹y, shape (..., n)."""
        return solve_upper(self.factor.mT, self.whitened[..., None])[..., 0]

    def predict(self, X: torch.Tensor, prior: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Predict rows.

        Parameters
        ----------
        X : Tensor of shape (..., m, d)
        prior : Tensor of shape (..., m)
            k(x, x).

        Returns
        -------
        mean, variance : Tensor of shape (..., m)
        of_columns : Tensor of shape (..., m, p) or None
            The means from the further targets.
        """
        solved = solve_lower(self.factor, self.kernel.evaluate(self.X, X))
        mean = (self.whitened[..., None, :] @ solved)[..., 0, :]
        of_columns = None if self.whitened_columns is None else solved.mT @ self.whitened_columns
        # A difference, unlike the featurized models' sum of squares: rounding can take it below zero.
        return mean, (prior - solved.square().sum(dim=-2)).clamp(min=0.0), of_columns


def max_rows_within(max_memory_gib: float) -> int:
    """Return the largest number of rows whose two n × n matrices fit into memory, in GiB."""
    return math.isqrt(int(min(max_memory_gib, MOST_GIB) * 2**30 / 16.0))


def check_exact(n_rows: int, max_memory_gib: float | None = None) -> None:
    """Refuse an exact prediction whose two n × n matrices do not fit.

    Parameters
    ----------
    n_rows : int
        n.
    max_memory_gib : float, optional
        The machine's memory if not given.

    Raises
    ------
    MemoryLimitError
        If they take more.
    """
    check_memory(
        16.0 * n_rows**2,
        f"The two matrices of an exact prediction from {n_rows:,} rows",
        lambda limit: (
            f"At most {max_rows_within(limit / 2**30):,} rows fit. Use ExactGPRegressor with solver='iterative', "
            "LocalizedGPRegressor or FeaturizedGPRegressor, or a higher max_memory_gib."
        ),
        max_memory_gib,
    )


class RowPosterior:
    """The exact Gaussian process given some rows; of none, the prior.

    Parameters
    ----------
    kernel : Kernel
    rows : Rows
        With y centred.
    noise : Noise
    max_memory_gib : float, optional
        For the two n × n matrices, in GiB; the machine's memory if not given.
    trend : Trend, optional
        Of which y are the residuals. It is estimated from these rows, unless it is a `TrendFit`. Means are less the
        trend; variances have its uncertainty.

    Attributes
    ----------
    trend : TrendFit or None

    Raises
    ------
    MemoryLimitError
        If the matrices take more.
    """

    def __init__(
        self, kernel: Kernel, rows: Rows, noise: Noise, max_memory_gib: float | None = None, trend: Trend | None = None
    ) -> None:
        n = len(rows.y)
        check_exact(n, max_memory_gib)
        self.kernel, self.X = kernel, rows.X
        columns = None if trend is None else torch.from_numpy(trend.columns(rows.X))
        self._conditional = (
            Conditional(kernel, as_tensor(rows.X), as_tensor(rows.y), noise.of_weighted_rows(rows), columns)
            if n
            else None
        )
        self.trend = None if trend is None else self._take_out(trend)
        self._coefficients: torch.Tensor | None = None

    def _take_out(self, trend: Trend) -> TrendFit:
        """Return the estimated trend, after it was taken out of the targets."""
        H = None if self._conditional is None else self._conditional.whitened_columns
        if self._conditional is None or H is None:
            return trend.estimated(np.zeros((trend.n_columns, trend.n_columns)), np.zeros(trend.n_columns))
        fit = trend.estimated((H.T @ H).numpy(), (H.T @ self._conditional.whitened).numpy())
        self._conditional.whitened -= H @ torch.from_numpy(fit.change)
        return fit

    @property
    def n_bytes(self) -> int:
        """The memory that this posterior holds, in bytes."""
        n, d = self.X.shape
        return 8 * (n * n + 2 * n + n * d + (0 if self.trend is None else n * self.trend.n_columns))

    @property
    def surprise(self) -> float:
        """yᵀ(K + Σ)⁻¹y/n of the n targets: 1 ± √(2/n) where they are as the model expects; 0 of no rows."""
        return 0.0 if self._conditional is None else float(self._conditional.whitened.square().mean())

    @property
    def coefficients(self) -> Floats:
        """α = (K + Σ)⁻¹y, shape (n,): the mean at x is Σ αᵢ k(xᵢ, x)."""
        if self._conditional is None:
            return np.empty(0)
        if self._coefficients is None:
            self._coefficients = self._conditional.coefficients()
        return self._coefficients.numpy()

    @property
    def factor(self) -> torch.Tensor:
        """The Cholesky factor of K + Σ, shape (n, n)."""
        return torch.empty((0, 0), dtype=torch.float64) if self._conditional is None else self._conditional.factor

    @property
    def log_density(self) -> float:
        """Log N(y | 0, K + Σ) of the targets, less the estimated trend, in nats."""
        n, log_determinant = len(self.X), 2.0 * float(self.factor.diagonal().log().sum())
        return -0.5 * (n * self.surprise + log_determinant + n * math.log(2.0 * math.pi))

    def whiten(self, X: Floats) -> torch.Tensor:
        """Return L⁻¹k of each row, as columns of shape (n, m)."""
        if self._conditional is None:
            return torch.empty((0, len(X)), dtype=torch.float64)
        tests, of = as_tensor(X), self._conditional
        return solve_lower(of.factor, self.kernel.evaluate(of.X, tests))

    def columns_left(self, X: Floats, whitened: torch.Tensor) -> Floats | None:
        """Return what the process leaves of the columns of the trend, shape (m, p); None of no trend."""
        if self.trend is None:
            return None
        H = None if self._conditional is None else self._conditional.whitened_columns
        return self.trend.columns(X) - (0.0 if H is None else (whitened.T @ H).numpy())

    def solve(self, targets: Floats) -> Floats:
        """Return (K + Σ)⁻¹ times targets of shape (n, t)."""
        if self._conditional is None:
            return targets
        factor = self._conditional.factor
        return solve_upper(factor.mT, solve_lower(factor, as_tensor(targets))).numpy()

    def with_target(self, y: Floats, trend: Trend | None = None) -> Self:
        """Return this posterior with another target, shape (n,), for the same rows; the factor is the same.

        Of a posterior with a trend, `trend` has the same columns, and y are its residuals.
        """
        assert self._conditional is not None
        other = copy(self)
        other._conditional = copy(self._conditional)
        other._conditional.whitened = solve_lower(self.factor, as_tensor(y)[:, None])[:, 0]
        other.trend = None if trend is None else other._take_out(trend)
        other._coefficients = None
        return other

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict the latent function.

        Parameters
        ----------
        X : ndarray of shape (m, d)
        variance : bool, default=True
            Whether to compute variances: O(n²) a row. The mean alone takes O(n).

        Returns
        -------
        mean : ndarray of shape (m,)
        variance : ndarray of shape (m,) or None
        """
        mean = np.zeros(len(X))
        prior = self.kernel.diagonal(X) if variance and len(X) else np.zeros(len(X))
        if self._conditional is None:
            if variance and self.trend is not None:
                prior = prior + self.trend.variance(X)
            return mean, prior if variance else None
        found = np.empty(len(X)) if variance else None
        section = None if variance else self.kernel.sections(self.X)
        for part in chunks(len(X), len(self.X), SOLVE_BYTES):
            if section is not None:
                mean[part] = section(X[part]) @ self.coefficients
            elif found is not None:
                own, left, of_columns = self._conditional.predict(as_tensor(X[part]), as_tensor(prior[part]))
                mean[part], found[part] = own.numpy(), left.numpy()
                if self.trend is not None and of_columns is not None:
                    found[part] += self.trend.variance(X[part], of_columns.numpy())
        return mean, found


def estimate_trend(
    trend: Trend,
    kernel: Kernel,
    rows: Rows,
    noise: Noise,
    rng: np.random.Generator,
    max_memory_gib: float | None = None,
) -> TrendFit:
    """Estimate a trend for models that have no posterior of all rows: by the exact one of some.

    The estimate is the generalised least-squares one of at most `TREND_ROWS` rows, with their own covariance: it
    is unbiased, and its uncertainty is right. More rows of the same extent say little more about a trend, because what
    the process adds to it is much the same for all of them.

    Parameters
    ----------
    trend : Trend
        Of which y are the residuals.
    kernel : Kernel
    rows : Rows
    noise : Noise
    rng : numpy.random.Generator
        Draws the rows, where there are more.
    max_memory_gib : float, optional
        For two matrices of these rows, in GiB; fewer rows are taken where it asks for that.

    Returns
    -------
    TrendFit

    Raises
    ------
    MemoryLimitError
        If the matrices of one row more than there are coefficients take more.
    """
    one = Rows(rows.X, rows.y[:, None], rows.weights, rows.noise_variances)
    return estimate_trends((trend,), kernel, one, noise, rng, max_memory_gib)[0]


def estimate_trends(
    trends: Sequence[Trend],
    kernel: Kernel,
    rows: Rows,
    noise: Noise,
    rng: np.random.Generator,
    max_memory_gib: float | None = None,
) -> tuple[TrendFit, ...]:
    """Estimate trends of several targets with the same columns, as `estimate_trend` does, by one factorisation.

    Parameters
    ----------
    trends : sequence of Trend
        One for each target.
    kernel : Kernel
    rows : Rows
        With their residuals, shape (n, t).
    noise : Noise
    rng : numpy.random.Generator
    max_memory_gib : float, optional

    Returns
    -------
    tuple of TrendFit
    """
    n, most, (first, *others) = len(rows.X), TREND_ROWS, trends
    if max_memory_gib is not None:
        # Never fewer than determine it: that they do not fit is said then.
        most = max(min(most, max_rows_within(max_memory_gib)), first.n_columns + 1)
    sample = rows if n <= most else rows.take(rng.choice(n, most, replace=False))
    alone = Rows(sample.X, sample.y[:, 0].copy(), sample.weights, sample.noise_variances)
    posterior = RowPosterior(kernel, alone, noise, max_memory_gib, first)
    found = [posterior.trend]
    found += [posterior.with_target(y, trend).trend for y, trend in zip(sample.y.T[1:], others, strict=True)]
    return tuple(one for one in found if one is not None)  # for the type checker: each has one
