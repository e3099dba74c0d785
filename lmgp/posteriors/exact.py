"""The exact Gaussian process given all rows, by one Cholesky factor; its likelihood, and the gradient of it."""

import math
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.spatial import KDTree

from lmgp.data import Floats, Indices, Noise, Rows, as_tensor
from lmgp.kernels.base import Kernel
from lmgp.kernels.derivatives import Pullback
from lmgp.posteriors.base import LEAST, Posterior, normal_log_density, repetitions
from lmgp.posteriors.joint import ADVICE, BATCH_BYTES, is_dense, normal_draws, prior_draw, with_variance
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.linalg import ROUNDING, factorise, solve_lower, solve_upper
from lmgp.utils.memory import check_memory, chunks

# Bytes of the right-hand sides of one solve: each solve reads the whole n × n factor.
SOLVE_BYTES = 128 * 2**20

# Of memory: more than any machine has.
MOST_GIB = 1e12


def max_rows_within(max_memory_gib: float) -> int:
    """Return the largest number of rows whose two n × n matrices fit into memory, in GiB."""
    return math.isqrt(int(min(max_memory_gib, MOST_GIB) * 2**30 / 16.0))


def check_exact(n_rows: int, max_memory_gib: float | None = None) -> None:
    """Refuse an exact posterior whose two n × n matrices do not fit.

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


class ExactPosterior(Posterior):
    """The exact Gaussian process given some rows; of no rows, the prior.

    With L = chol(K + Σ): the means are k*ᵀα with α = L⁻ᵀL⁻¹Y, the variance k(x*, x*) − ‖L⁻¹k*‖². A copy or a pickle
    goes without the factor, and makes it again when it is first needed.

    Parameters
    ----------
    kernel : Kernel
    rows : Rows
        With centred targets.
    noise : Noise
    max_memory_gib : float, optional
        For the two n × n matrices, in GiB; the machine's memory if not given.

    Raises
    ------
    MemoryLimitError
        If the matrices take more.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 1.
    """

    def __init__(self, kernel: Kernel, rows: Rows, noise: Noise, max_memory_gib: float | None = None) -> None:
        check_exact(len(rows), max_memory_gib)
        self.kernel, self.noise, self._rows, self.n_rows = kernel, noise, rows, len(rows)
        self._max_memory_gib = max_memory_gib
        X = as_tensor(rows.X)  # at once, so that no prediction has to
        self.factor = factorise(kernel.evaluate(X, X), as_tensor(noise.of_weighted_rows(rows)))

    @cached_property
    def factor(self) -> Tensor:
        """The Cholesky factor L of K + Σ, shape (n, n)."""
        return ExactPosterior(self.kernel, self._rows, self.noise, self._max_memory_gib).factor  # of a copy

    @cached_property
    def _whitened(self) -> Tensor:
        """L⁻¹Y, shape (n, t)."""
        return solve_lower(self.factor, as_tensor(self._rows.Y))

    @cached_property
    def coefficients(self) -> Floats:
        """α = (K + Σ)⁻¹Y, shape (n, t): the means at x are Σ αᵢ k(xᵢ, x)."""
        return solve_upper(self.factor.mT, self._whitened).numpy()

    def __getstate__(self) -> dict[str, Any]:
        # With L⁻¹Y, which is rounded otherwise if it is made of targets that were combined.
        state = {**vars(self), "_whitened": self._whitened}
        return {name: value for name, value in state.items() if name not in ("factor", "coefficients")}

    @property
    def n_bytes(self) -> int:
        """The memory that this posterior holds, in bytes."""
        (n, d), t = self._rows.X.shape, self._rows.n_targets
        return 8 * (n * n + 3 * n * t + n * d)

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        other = super().combined(combination)
        other._whitened = self._whitened @ as_tensor(combination)
        vars(other).pop("coefficients", None)
        return other

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:  # noqa: D102
        means, variances = np.empty((len(X), self._rows.n_targets)), np.empty(len(X)) if variance else None
        for part in chunks(len(X), max(1, self.n_rows), SOLVE_BYTES):
            if variances is None:
                section = self.kernel.evaluate(as_tensor(X[part]), as_tensor(self._rows.X))
                means[part] = section.numpy() @ self.coefficients
                continue
            solved = self.whiten(X[part])
            means[part] = (solved.mT @ self._whitened).numpy()
            # A difference, unlike the featurized models' sum of squares: rounding can take it below zero.
            reduction = solved.square().sum(dim=0).numpy()
            variances[part] = np.maximum(self.kernel.evaluate_diagonal(X[part]) - reduction, 0.0)
        return means, variances

    def whiten(self, X: Floats) -> Tensor:
        """Return L⁻¹k of each row, as columns of shape (n, m)."""
        return solve_lower(self.factor, self.kernel.evaluate(as_tensor(self._rows.X), as_tensor(X)))

    def products(self) -> Floats:  # noqa: D102
        return (self._whitened.mT @ self._whitened).numpy()

    def covariance(self, X: Floats) -> Floats:
        """Return the covariance of rows given all training rows, shape (m, m)."""
        m, n = len(X), self.n_rows
        check_memory(
            8.0 * (3.0 * m**2 + 2.0 * m * n), f"The covariance of {m:,} rows, and what it is made from,", ADVICE
        )
        covariance, solved = self.kernel.evaluate(as_tensor(X), as_tensor(X)).numpy(), self.whiten(X)
        covariance -= (solved.T @ solved).numpy()
        return with_variance(covariance, np.maximum(covariance.diagonal(), 0.0))

    def sample(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw errors of the exact process, shape (m, n_samples): by the covariance of few rows, or Matheron's rule."""
        if is_dense(self.kernel, X):
            return normal_draws(self.covariance(X), n_samples, rng)
        rows = self._rows
        deviations = np.sqrt(self.noise.of_weighted_rows(rows))
        targets, errors = np.empty((len(rows), n_samples)), np.empty((len(X), n_samples))
        for index in range(n_samples):
            targets[:, index], errors[:, index] = prior_draw(self.kernel, (rows.X, X), rng)
        targets += deviations[:, None] * rng.standard_normal(targets.shape)
        weights = solve_upper(self.factor.mT, solve_lower(self.factor, as_tensor(targets))).numpy()
        for part in chunks(len(X), len(rows), BATCH_BYTES):
            errors[part] -= self.kernel.evaluate(as_tensor(X[part]), as_tensor(rows.X)).numpy() @ weights
        return errors

    def leave_one_out(self, index: Indices | None = None) -> tuple[Floats, Floats]:
        """Predict training rows, each from all others, from the diagonal of (K + Σ)⁻¹.

        References
        ----------
        O. Dubrule, *Cross Validation of Kriging in a Unique Neighborhood*, Mathematical Geology 15, 1983.
        """
        index = np.arange(self.n_rows) if index is None else index
        noise, diagonal = self.noise.of_weighted_rows(self._rows)[index], np.empty(len(index))
        for part in chunks(len(index), self.n_rows):
            some = as_tensor(index[part])
            unit = torch.zeros((self.n_rows, len(some)), dtype=torch.float64)
            unit[some, torch.arange(len(some))] = 1.0
            diagonal[part] = solve_lower(self.factor, unit).square().sum(dim=0).numpy()
        diagonal = np.maximum(diagonal, LEAST / noise)
        means = self._rows.Y[index] - self.coefficients[index] / diagonal[:, None]
        return means, np.maximum(1.0 / diagonal - noise, 0.0)

    def without_each(self, rows: Rows) -> tuple[Floats, Floats]:  # noqa: D102
        mine, wanted = (np.column_stack((r.X, r.Y, self.noise.of_weighted_rows(r))) for r in (self._rows, rows))
        return self.leave_one_out(KDTree(mine).query(wanted)[1])

    def with_weights(self, weights: Floats, noise: Noise) -> Self:
        """Return the posterior of the same rows with other weights and another noise."""
        return type(self)(self.kernel, replace(self._rows, weights=weights), noise, self._max_memory_gib)

    def at(self, kernel: Kernel, noise_variance: float) -> "ExactPosterior":  # noqa: D102
        return ExactPosterior(kernel, self._rows, Noise(noise_variance), self._max_memory_gib)

    def log_density(self, kernel: Kernel | None = None, noise_variance: float | None = None) -> Floats:  # noqa: D102
        if (kernel or self.kernel, noise_variance or self.noise.variance) != (self.kernel, self.noise.variance):
            return self.at(kernel or self.kernel, noise_variance or self.noise.variance).log_density()
        squares = self._whitened.square().sum(dim=0).numpy()
        log_determinant = 2.0 * float(self.factor.diagonal().log().sum())
        return normal_log_density(squares, log_determinant + repetitions(self._rows, self.noise), self.n_rows)

    def error(self, X: Floats, beyond: Floats | None = None) -> Floats:
        """Return zeros: this is the exact process."""
        return np.zeros((len(X), self._rows.n_targets))


def log_likelihood(rows: Rows, kernel: Kernel, noise_variance: float) -> float:
    """Compute the log marginal likelihood of rows with centred targets, in nats, summed over the targets.

    Parameters
    ----------
    rows : Rows
    kernel : Kernel
    noise_variance : float
        Of the rows without a noise variance of their own, in squared units of the targets.

    Raises
    ------
    NumericalError
        If the noise is too small for a Cholesky factor in float64.
    """
    return float(ExactPosterior(kernel, rows, Noise(noise_variance)).log_density().sum())


class ExactLikelihood:
    """The log marginal likelihood of some rows, as a function of a kernel's free parameters and of the noise.

    Parameters
    ----------
    rows : Rows
        With centred targets, whose likelihoods are added: independent processes of one kernel and one noise.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 5.9.
    """

    def __init__(self, rows: Rows) -> None:
        self.X, self._rows = as_tensor(rows.X), rows

    def __call__(self, kernel: Kernel, free: Floats) -> tuple[float, Floats]:
        """Return the value in nats and its gradient.

        Parameters
        ----------
        kernel : Kernel
        free : ndarray of shape (n_free + 1,)
            Logarithms of the kernel's free parameters and of the noise variance, where the gradient is taken.

        Returns
        -------
        value : float
            Not a number where float64 does not allow a Cholesky factorisation.
        gradient : ndarray of shape (n_free + 1,)
            Zero there.
        """
        rows, n_targets, by_noise = self._rows, self._rows.n_targets, 0.0
        noise = Noise(math.exp(free[-1]))
        added = as_tensor(noise.of_weighted_rows(rows))
        with torch.no_grad():
            covariance, gradient = self._with_pullback(kernel, free[:-1])
            factor, coefficients, value = _factorised(covariance, added, as_tensor(rows.Y))
            if value.isnan():
                return math.nan, np.zeros_like(free)
            by_covariance = torch.cholesky_inverse(factor)
            del factor  # an n × n matrix less beside the derivatives
            # ½(ααᵀ − C⁻¹) with α = C⁻¹y.
            by_covariance.addmm_(coefficients, coefficients.T, beta=-float(n_targets)).mul_(0.5)
            if rows.noise_variances is None:
                by_noise = float(by_covariance.diagonal() @ added)
                by_noise -= 0.5 * n_targets * (rows.n_observations - len(rows))
            slopes = np.append(gradient.of_matrix(by_covariance).numpy(), by_noise)
        return float(value) - 0.5 * n_targets * repetitions(rows, noise), slopes

    def value(self, kernel: Kernel, free: Floats) -> float:
        """Return the value alone, see `__call__`."""
        rows, noise = self._rows, Noise(math.exp(free[-1]))
        with torch.no_grad():
            covariance, _ = self._with_pullback(kernel, free[:-1])
            *_, value = _factorised(covariance, as_tensor(noise.of_weighted_rows(rows)), as_tensor(rows.Y))
        return float(value) - 0.5 * rows.n_targets * repetitions(rows, noise)

    def _with_pullback(self, kernel: Kernel, free: Floats) -> tuple[Tensor, Pullback]:
        """Return the lower triangle of the covariance and its derivatives, by compiled loops where there are any."""
        from lmgp.posteriors.rowsystems import PairPullback, RowSystems  # here, for it loads a compiler

        rows = self._rows
        systems = RowSystems.of(kernel, free, rows.X, rows.Y, np.zeros(len(rows)))
        if systems is None:
            return kernel.with_pullback(self.X, torch.from_numpy(np.array(free, dtype=np.float64)))
        gradient = PairPullback(systems)
        return gradient.covariance, gradient

    @staticmethod
    def n_bytes(n: int, kernel: Kernel) -> int:
        """Return the memory that a call takes, in bytes: 6 matrices for the density, 5 for each part of the kernel."""
        n_parts = sum(parameter.name.endswith("variance") for parameter in kernel.parameters)
        return 8 * n * n * (6 + 5 * max(1, n_parts))


def _factorised(covariance: Tensor, noise: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the Cholesky factor of C = K + diag(noise), C⁻¹Y, and log N(Y | 0, C), summed over targets, (n, t).

    The last one is not a number where there is no factor in float64: a search turns back.
    """
    noisy = covariance.clone()
    noisy.diagonal().add_(noise)
    factor, info = torch.linalg.cholesky_ex(noisy)
    least = ROUNDING * len(targets) * noisy.diagonal().max()  # of the squares of pivots, in any order of the rows
    known = (info == 0) & (factor.diagonal().square() > least).all()
    coefficients = torch.cholesky_solve(targets, factor)
    of_each = 2.0 * factor.diagonal().log().sum() + len(targets) * math.log(2.0 * math.pi)
    value = -0.5 * ((targets * coefficients).sum() + targets.shape[1] * of_each)
    return factor, coefficients, torch.where(known, value, torch.nan)
