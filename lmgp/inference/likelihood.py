"""The exact log marginal likelihood of a Gaussian process, and its gradient."""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.inference.density import log_density
from lmgp.kernels.base import Kernel
from lmgp.linalg import cholesky, solve_lower
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
    likelihood = ExactLikelihood(rows)
    return likelihood(kernel, torch.from_numpy(kernel.theta), math.log(noise_variance))


class ExactLikelihood:
    """The log marginal likelihood of some rows, as a function of a kernel's free parameters and of the noise.

    Another likelihood that `lmgp.inference.learning.maximize_likelihood` may maximise is a class with the same
    constructor and the same call.

    Parameters
    ----------
    rows : Rows
        With y centred.
    input_shift : ndarray of shape (d,), default=0
        Subtracted from the rows of X. The values of a stationary kernel do not change, but keep their digits.
    target_unit : float, default=1
        y, its noise and the kernel's values are divided by it, or by its square.
    """

    # Matrices of n × n float64 that are held at once by a call: of the kernel with its derivatives, and of the density.
    N_MATRICES = 9

    def __init__(self, rows: Rows, input_shift: float | Floats = 0.0, target_unit: float = 1.0) -> None:
        self.X = as_tensor(rows.X - input_shift)
        self.y = as_tensor(rows.y / target_unit)
        noise, self.weights = noise_and_weights(rows, 1.0)
        self.row_noise = None if rows.noise_variances is None else noise / target_unit / target_unit
        self.target_unit = target_unit

    def __call__(self, kernel: Kernel, theta: torch.Tensor, log_noise: float) -> tuple[float, Floats]:
        """Return the value in nats, and the gradient of shape (n_free + 1,) by `theta` and by the logarithm of noise.

        Parameters
        ----------
        kernel : Kernel
            In the caller's units.
        theta : Tensor of shape (n_free,)
            Logarithms of the kernel's free parameters.
        log_noise : float
            Of the noise variance in squared target units.

        Raises
        ------
        NotPositiveDefiniteError
            If float64 does not allow a Cholesky factorisation.
        """
        free = torch.cat((theta, torch.tensor([log_noise], dtype=torch.float64))).requires_grad_()
        noise = torch.exp(free[-1]).expand_as(self.y) if self.row_noise is None else self.row_noise
        covariance = kernel.evaluate(self.X, self.X, free[:-1]) / self.target_unit / self.target_unit
        value = log_density(covariance, noise / self.weights, self.y) - 0.5 * repetitions(noise, self.weights)
        (gradient,) = torch.autograd.grad(value, free)
        return value.item(), gradient.numpy()


def noise_and_weights(rows: Rows, noise_variance: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row's noise variance σ² and weight w, each of shape (n,).

    A row of weight w is w equal rows, which say as much about f as one with the noise σ²/w.
    """
    ones = torch.ones(len(rows.y), dtype=torch.float64)
    noise = noise_variance * ones if rows.noise_variances is None else as_tensor(rows.noise_variances)
    return noise, ones if rows.weights is None else as_tensor(rows.weights)


def repetitions(noise: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return −2 times what w equal rows add to the log likelihood of one row with the noise σ²/w, summed over rows."""
    return (weights - 1.0) @ torch.log(2.0 * math.pi * noise) + torch.log(weights).sum()
