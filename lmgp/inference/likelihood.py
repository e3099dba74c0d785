"""The exact log marginal likelihood of a Gaussian process, and its gradient."""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.inference.density import log_density
from lmgp.kernels.base import Kernel
from lmgp.kernels.derivatives import with_gradient
from lmgp.linalg import cholesky, solve_lower
from lmgp.noise import Noise
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]


def log_likelihood(rows: Rows, kernel: Kernel, noise_variance: float) -> float:
    """Compute the log marginal likelihood of rows with centred y.

    Parameters
    ----------
    rows : Rows
    kernel : Kernel
    noise_variance : float
        Of the rows without a noise variance of their own, in squared units of y.

    Returns
    -------
    float
        In nats.

    Raises
    ------
    NumericalError
        If the noise is too small for a Cholesky factor in float64.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 2.30.
    """
    covariance = as_tensor(kernel(rows.X))
    noise, weights = noise_and_weights(rows, noise_variance)
    covariance.diagonal().add_(noise / weights)
    factor = cholesky(covariance, noise_variance=float((noise / weights).min()))
    whitened = solve_lower(factor, as_tensor(rows.y)[:, None])
    log_determinant = 2.0 * factor.diagonal().log().sum()
    constant = len(rows.y) * math.log(2.0 * math.pi)
    return float(-0.5 * (whitened.square().sum() + log_determinant + constant + repetitions(noise, weights)))


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

    `lmgp.inference.learning.maximize_likelihood` maximises any class with this constructor, this call and `n_bytes`.

    Parameters
    ----------
    rows : Rows
        With y centred.
    """

    def __init__(self, rows: Rows) -> None:
        self.X, self.y = as_tensor(rows.X), as_tensor(rows.y)
        noise, self.weights = noise_and_weights(rows, 1.0)
        self.row_noise = None if rows.noise_variances is None else noise

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
        noise = torch.exp(logarithms[-1]).expand_as(self.y) if self.row_noise is None else self.row_noise
        with torch.no_grad():
            covariance, gradient = with_gradient(kernel, self.X, logarithms[:-1])
            value, weights = log_density(covariance, noise / self.weights, self.y)
            by_noise = 0.0
            if self.row_noise is None:
                by_noise = float(weights.diagonal() @ (noise / self.weights)) - 0.5 * float((self.weights - 1.0).sum())
            slopes = np.append(gradient(weights).numpy(), by_noise)
        return float(value - 0.5 * repetitions(noise, self.weights)), slopes

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
        With y centred, and no noise variances of their own.
    kernel : Kernel
    """

    def __init__(self, rows: Rows, kernel: Kernel) -> None:
        # With W the weights and λᵢ, qᵢ of W^½KW^½: K + σ²W⁻¹ has the determinant Π(λᵢ + σ²)/Πwᵢ.
        roots = np.sqrt(np.ones(len(rows.y)) if rows.weights is None else rows.weights)
        covariance = roots[:, None] * kernel(rows.X) * roots
        eigenvalues, vectors = torch.linalg.eigh(as_tensor(covariance))
        self.eigenvalues = eigenvalues.clamp(min=0.0).numpy()
        self.squares = np.square(vectors.T.numpy() @ (roots * rows.y))
        self.total_weight = float(np.square(roots).sum())

    def __call__(self, noise_variance: float) -> float:
        """Return log p(y) in nats."""
        noisy = self.eigenvalues + noise_variance
        n, repeated = len(noisy), self.total_weight - len(noisy)
        fit = float(np.sum(self.squares / noisy) + np.sum(np.log(noisy)))
        # The weights' logarithms cancel: of the determinant, and of what equal rows add.
        return -0.5 * (fit + n * math.log(2.0 * math.pi) + repeated * math.log(2.0 * math.pi * noise_variance))


def noise_and_weights(rows: Rows, noise_variance: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row's noise variance σ² and weight w, each of shape (n,).

    A row of weight w is w equal rows, which say as much about f as one with the noise σ²/w.
    """
    ones = torch.ones(len(rows.y), dtype=torch.float64)
    return Noise(noise_variance).of_rows(rows), ones if rows.weights is None else as_tensor(rows.weights)


def repetitions(noise: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return −2 times what w equal rows add to the log likelihood of one row with the noise σ²/w, summed over rows."""
    return (weights - 1.0) @ torch.log(2.0 * math.pi * noise) + torch.log(weights).sum()
