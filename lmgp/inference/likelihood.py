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
        Of several targets, see `sharing`.
    kernel : Kernel
    noise_variance : float
        Of the rows without a noise variance of their own, in squared units of y.

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
    return float(sum(_log_likelihood(part, kernel, noise_variance) for part in sharing(rows)))


def _log_likelihood(rows: Rows, kernel: Kernel, noise_variance: float) -> float:
    """Return the sum over targets that share the covariance with the noise."""
    covariance = as_tensor(kernel(rows.X))
    noise, weights = noise_and_weights(rows, noise_variance)
    covariance.diagonal().add_(noise / weights)
    factor = cholesky(covariance, noise_variance=float((noise / weights).min()))
    whitened = solve_lower(factor, as_tensor(rows.y.reshape(len(rows.y), -1)))
    log_determinant = 2.0 * factor.diagonal().log().sum()
    constant = len(rows.y) * math.log(2.0 * math.pi)
    of_each = log_determinant + constant + repetitions(noise, weights)
    return float(-0.5 * (whitened.square().sum() + whitened.shape[1] * of_each))


def sharing(rows: Rows) -> list[Rows]:
    """Part the targets of rows into those that share one noise variance a row, and so one factorisation.

    Parameters
    ----------
    rows : Rows
        With one target, shape (n,), or several, shape (n, t), whose log likelihoods are added: independent processes
        with one kernel and one noise variance. Noise variances of shape (n, t) are one for each row and target.

    Returns
    -------
    list of Rows
        With noise variances of shape (n,), or none.
    """
    own = rows.noise_variances
    if own is None or own.ndim == 1:
        return [rows]
    return [Rows(rows.X, y, rows.weights, noise) for y, noise in zip(rows.y.T, own.T, strict=True)]


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
        With y centred. The likelihoods of several targets are added, see `sharing`.
    """

    def __init__(self, rows: Rows) -> None:
        self.X, self._parts = as_tensor(rows.X), sharing(rows)
        _, self.weights = noise_and_weights(self._parts[0], 1.0)
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
        total, by_covariance, by_noise = 0.0, None, 0.0
        with torch.no_grad():
            covariance, gradient = with_gradient(kernel, self.X, logarithms[:-1])
            for rows in self._parts:
                noise, _ = noise_and_weights(rows, math.exp(free[-1]))
                value, weights = log_density(covariance, noise / self.weights, as_tensor(rows.y))
                n_targets = rows.y.size // len(rows.y)
                total += float(value - 0.5 * n_targets * repetitions(noise, self.weights))
                if self._learns_noise:
                    by_noise = float(weights.diagonal() @ (noise / self.weights))
                    by_noise -= 0.5 * n_targets * float((self.weights - 1.0).sum())
                by_covariance = weights if by_covariance is None else by_covariance.add_(weights)
            assert by_covariance is not None  # for the type checker: there is a part
            slopes = np.append(gradient.of_matrix(by_covariance).numpy(), by_noise)
        return total, slopes

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
        With y centred, of shape (n,) or (n, t), and no noise variances of their own.
    kernel : Kernel
    """

    def __init__(self, rows: Rows, kernel: Kernel) -> None:
        # With W the weights and λᵢ, qᵢ of W^½KW^½: K + σ²W⁻¹ has the determinant Π(λᵢ + σ²)/Πwᵢ.
        roots = np.sqrt(np.ones(len(rows.y)) if rows.weights is None else rows.weights)
        covariance = roots[:, None] * kernel(rows.X) * roots
        eigenvalues, vectors = torch.linalg.eigh(as_tensor(covariance))
        self.eigenvalues = eigenvalues.clamp(min=0.0).numpy()
        whitened = vectors.T.numpy() @ (roots[:, None] * rows.y.reshape(len(rows.y), -1))
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


def noise_and_weights(rows: Rows, noise_variance: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return each row's noise variance σ² and weight w, each of shape (n,).

    A row of weight w is w equal rows, which say as much about f as one with the noise σ²/w.
    """
    ones = torch.ones(len(rows.y), dtype=torch.float64)
    return Noise(noise_variance).of_rows(rows), ones if rows.weights is None else as_tensor(rows.weights)


def repetitions(noise: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return −2 times what w equal rows add to the log likelihood of one row with the noise σ²/w, summed over rows."""
    return (weights - 1.0) @ torch.log(2.0 * math.pi * noise) + torch.log(weights).sum()
