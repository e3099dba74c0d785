"""The posterior over the weights of a featurized GP: D × D, whatever the number of rows."""

import math

import torch

from lmgp.linalg import cholesky, solve_lower
from lmgp.statistics import Statistics


class WeightPosterior:
    """The Gaussian posterior over the weights w of f(x) = φ(x)ᵀw, with prior w ~ N(0, I).

    With A = ΦᵀΦ/σ²_noise + I = LLᵀ and β = L⁻¹Φᵀy/σ²_noise, the latent mean at a row is vᵀβ and its variance ‖v‖²,
    v = L⁻¹φ: a sum of squares, which cannot be negative.

    Parameters
    ----------
    statistics : Statistics
        Sums over the training rows.
    noise_variance : float
        In squared units of y; what the precisions in `statistics` are relative to.

    Attributes
    ----------
    factor : Tensor of shape (D, D)
        L, lower triangular.
    coefficients : Tensor of shape (D,)
        β.
    log_marginal_likelihood : float
        log p(y) under the featurized model, in nats.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 2.
    """

    def __init__(self, statistics: Statistics, noise_variance: float) -> None:
        precision = statistics.gram / noise_variance
        precision.diagonal().add_(1.0)
        self.factor = cholesky(precision)
        self.coefficients = solve_lower(self.factor, statistics.cross[:, None] / noise_variance)[:, 0]
        log_determinant = 2.0 * float(self.factor.diagonal().log().sum())
        self.log_marginal_likelihood = -0.5 * (
            statistics.n * math.log(2.0 * math.pi * noise_variance)
            - statistics.log_precision
            + log_determinant
            + statistics.squares / noise_variance
            - float(self.coefficients @ self.coefficients)
        )

    @property
    def n_bytes(self) -> int:
        """The memory that this posterior holds, in bytes."""
        return self.factor.nbytes + self.coefficients.nbytes

    def whiten(self, features: torch.Tensor) -> torch.Tensor:
        """Return v = L⁻¹φ of each row, as columns of shape (D, n), for features of shape (n, D)."""
        return solve_lower(self.factor, features.T)

    def predict(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the latent mean and variance, each of shape (n,), for features of shape (n, D)."""
        whitened = self.whiten(features)
        return self.coefficients @ whitened, whitened.square().sum(dim=0)
