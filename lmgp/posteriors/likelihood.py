"""The exact log marginal likelihood of a Gaussian process, and its gradient."""

import math

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Noise, Rows, as_tensor
from lmgp.errors import NumericalError
from lmgp.kernels.base import Kernel
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.linalg import cholesky, solve_lower

Floats = NDArray[np.float64]


def log_likelihood(rows: Rows, kernel: Kernel, noise_variance: float) -> float:
    """Compute the log marginal likelihood of rows with centred targets.

    Parameters
    ----------
    rows : Rows
    kernel : Kernel
    noise_variance : float
        Of the rows without a noise variance of their own, in squared units of the targets.

    Returns
    -------
    float
        In nats, summed over the targets.

    Raises
    ------
    NumericalError
        If the noise is too small for a Cholesky factor in float64.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 2.30.
    """
    X = as_tensor(rows.X)
    covariance = kernel.evaluate(X, X)
    noise, weights = noise_and_weights(rows, noise_variance)
    covariance.diagonal().add_(noise / weights)
    factor = cholesky(covariance, noise_variance=float((noise / weights).min()))
    whitened = solve_lower(factor, as_tensor(rows.Y))
    log_determinant = 2.0 * factor.diagonal().log().sum()
    of_each = log_determinant + len(rows) * math.log(2.0 * math.pi) + repetitions(noise, weights)
    return float(-0.5 * (whitened.square().sum() + rows.n_targets * of_each))


def log_likelihood_and_gradient(rows: Rows, kernel: Kernel, noise_variance: float) -> tuple[float, Floats]:
    """Compute the log marginal likelihood of rows with centred y, and its gradient.

    Parameters
    ----------
    rows : Rows
    kernel : Kernel
    noise_variance : float
        Of the rows without a noise variance of their own, in squared units of y.

    Returns
    -------
    value : float
        In nats.
    gradient : ndarray of shape (n_free + 1,)
        By the logarithms of the kernel's free parameters (`kernel.theta`), and by that of the noise variance last: 0
        where each row has its own.

    Raises
    ------
    InputError
        If the kernel does not fit the rows.
    NumericalError
        If the covariance with the noise has no Cholesky factor in float64.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 5.9.
    """
    kernel.checked(rows.X.shape[1])
    return ExactLikelihood(rows)(kernel, np.append(kernel.theta, math.log(noise_variance)))


class ExactLikelihood:
    """The log marginal likelihood of some rows, as a function of a kernel's free parameters and of the noise.

    Parameters
    ----------
    rows : Rows
        With centred targets, whose likelihoods are added: independent processes of one kernel and one noise.
    """

    def __init__(self, rows: Rows) -> None:
        self.X, self._rows = as_tensor(rows.X), rows
        _, self.weights = noise_and_weights(rows, 1.0)
        self._learns_noise = rows.noise_variances is None

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
        gradient : ndarray of shape (n_free + 1,)

        Raises
        ------
        NotPositiveDefiniteError
            If float64 does not allow a Cholesky factorisation.
        """
        logarithms = torch.from_numpy(np.array(free, dtype=np.float64))
        n_targets, by_noise = self._rows.n_targets, 0.0
        noise, _ = noise_and_weights(self._rows, math.exp(free[-1]))
        with torch.no_grad():
            covariance, gradient = kernel.with_pullback(self.X, logarithms[:-1])
            value, by_covariance = log_density(covariance, noise / self.weights, as_tensor(self._rows.Y))
            if self._learns_noise:
                by_noise = float(by_covariance.diagonal() @ (noise / self.weights))
                by_noise -= 0.5 * n_targets * float((self.weights - 1.0).sum())
            slopes = np.append(gradient.of_matrix(by_covariance).numpy(), by_noise)
        return float(value - 0.5 * n_targets * repetitions(noise, self.weights)), slopes

    @staticmethod
    def n_bytes(n: int, kernel: Kernel) -> int:
        """Return the memory that a call takes, in bytes: 4 matrices for the density, 5 for each part of the kernel."""
        n_parts = sum(one.name.endswith("variance") for one in kernel.parameters)
        return 8 * n * n * (4 + 5 * max(1, n_parts))


class NoiseLikelihood:
    """The log marginal likelihood of a given kernel as a function of the noise variance alone.

    One eigendecomposition of the covariance, in O(n³); each value then takes O(n).

    Parameters
    ----------
    rows : Rows
        With centred targets, and no noise variances of their own.
    kernel : Kernel
    """

    def __init__(self, rows: Rows, kernel: Kernel) -> None:
        # With W the weights and λᵢ, qᵢ of W^½KW^½: K + σ²W⁻¹ has the determinant Π(λᵢ + σ²)/Πwᵢ.
        roots = np.sqrt(np.ones(len(rows)) if rows.weights is None else rows.weights)
        X = as_tensor(rows.X)
        covariance = roots[:, None] * kernel.evaluate(X, X).numpy() * roots
        eigenvalues, vectors = torch.linalg.eigh(as_tensor(covariance))
        self.eigenvalues = eigenvalues.clamp(min=0.0).numpy()
        whitened = vectors.T.numpy() @ (roots[:, None] * rows.Y)
        self.squares, self.n_targets = np.square(whitened).sum(axis=1), whitened.shape[1]
        self.total_weight = float(np.square(roots).sum())

    def __call__(self, noise_variance: float) -> float:
        """Return log p(y) in nats."""
        noisy = self.eigenvalues + noise_variance
        n, repeated = len(noisy), self.total_weight - len(noisy)
        of_each = float(np.sum(np.log(noisy))) + n * math.log(2.0 * math.pi)
        # The weights' logarithms cancel: of the determinant, and of what equal rows add.
        of_each += repeated * math.log(2.0 * math.pi * noise_variance)
        return -0.5 * (float(np.sum(self.squares / noisy)) + self.n_targets * of_each)


def noise_and_weights(rows: Rows, noise_variance: float) -> tuple[Tensor, Tensor]:
    """Return each row's noise variance σ² and weight w, each of shape (n,).

    A row of weight w is w equal rows, which say as much about f as one with the noise σ²/w.
    """
    ones = torch.ones(len(rows), dtype=torch.float64)
    return Noise(noise_variance).of_rows(rows), ones if rows.weights is None else as_tensor(rows.weights)


def repetitions(noise: Tensor, weights: Tensor) -> Tensor:
    """Return −2 times what w equal rows add to the log likelihood of one row with the noise σ²/w, summed over rows."""
    return (weights - 1.0) @ torch.log(2.0 * math.pi * noise) + torch.log(weights).sum()


class NotPositiveDefiniteError(NumericalError):
    """A covariance has no Cholesky factor in float64. Nothing is added to its diagonal here: a search turns back."""


def log_density(covariance: Tensor, noise: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return log N(y | 0, C) for C = K + diag(noise), and its derivative by C.

    The value takes one Cholesky factorisation, the derivative ½(ααᵀ − C⁻¹) with α = C⁻¹y one inverse from that factor.

    Parameters
    ----------
    covariance : Tensor of shape (n, n)
        K, symmetric; left as it is.
    noise : Tensor of shape (n,)
    y : Tensor of shape (n,) or (n, t)
        Several targets share the factorisation.

    Returns
    -------
    value : Tensor of shape ()
        In nats, summed over the targets.
    by_covariance : Tensor of shape (n, n)

    Raises
    ------
    NotPositiveDefiniteError
        If float64 does not allow a Cholesky factorisation.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 5.9.
    """
    noisy = covariance.clone()
    noisy.diagonal().add_(noise)
    factor, info = torch.linalg.cholesky_ex(noisy)
    if info != 0 or not torch.isfinite(factor.diagonal()).all():
        raise NotPositiveDefiniteError("The covariance has no Cholesky factor in float64.")
    targets = y.reshape(len(y), -1)
    coefficients, n_targets = torch.cholesky_solve(targets, factor), targets.shape[1]
    log_determinant = 2.0 * factor.diagonal().log().sum()
    value = -0.5 * ((targets * coefficients).sum() + n_targets * (log_determinant + len(y) * math.log(2.0 * math.pi)))
    by_covariance = torch.cholesky_inverse(factor)
    by_covariance.addmm_(coefficients, coefficients.T, beta=-float(n_targets)).mul_(0.5)
    return value, by_covariance
