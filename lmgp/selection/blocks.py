"""Predictions from a block of near rows exactly, and from all other rows through a Nyström map."""

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.features.nystroem import NystroemFeatures
from lmgp.inference.weight_space import WeightPosterior, accumulate
from lmgp.kernels.base import Kernel
from lmgp.linalg import cholesky, solve_lower
from lmgp.noise import Noise
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]


class BlockPosterior:
    """The partially independent conditional (PIC): exact within a block of rows, a Nyström map between it and the rest.

    Write f = φᵀw + g, with g of covariance r(x, z) = k(x, z) − φ(x)ᵀφ(z). Within a block g is kept as it is; of all
    other rows its variance is noise, as in FITC. Where the map leaves nothing out, and where the block holds all rows
    that matter, this is the exact Gaussian process.

    With A = I + Σ φφᵀ/(σ² + r) and b = Σ φy/(σ² + r) over the rows out of the block, the weights given these rows are
    N(A⁻¹b, A⁻¹). With this prior in place of N(0, I), the rows of the block are conditioned on exactly.

    Parameters
    ----------
    kernel : Kernel
    rows : Rows
        All of them, with y centred.
    noise : Noise
    n_landmarks : int
    rng : numpy.random.Generator
        Draws the landmarks.

    References
    ----------
    E. Snelson and Z. Ghahramani, *Local and Global Sparse Gaussian Process Approximations*, AISTATS 2007.
    """

    def __init__(self, kernel: Kernel, rows: Rows, noise: Noise, n_landmarks: int, rng: np.random.Generator) -> None:
        self.kernel, self.noise = kernel, Noise(noise.variance, "fitc")
        self.features = NystroemFeatures(n_landmarks, kernel=kernel, random_state=int(rng.integers(2**31))).fit(rows.X)
        centre = np.zeros(rows.X.shape[1])
        all_rows = WeightPosterior(accumulate(self.features, rows, centre, self.noise, origin=0.0), center=0.0)
        self._precision = all_rows.factor @ all_rows.factor.T
        self._cross = all_rows.factor @ all_rows.coefficients

    def predict(self, block: Rows, X: Floats) -> tuple[Floats, Floats]:
        """Predict rows from a block of the rows and all others.

        Parameters
        ----------
        block : Rows
        X : ndarray of shape (m, d)

        Returns
        -------
        mean, variance : ndarray of shape (m,)
            Of the latent function, for y centred.
        """
        near, tests, y = as_tensor(block.X), as_tensor(X), as_tensor(block.y)
        columns, of_tests = self.features.evaluate(near), self.features.evaluate(tests)
        seen = self.noise.of_weighted_rows(block, self.features.missing_variance(near, columns))
        scaled = columns / seen[:, None]
        factor = cholesky(self._precision - scaled.T @ columns, 1.0)
        center = solve_lower(factor, (self._cross - scaled.T @ y)[:, None])
        known, of_known = solve_lower(factor, columns.T), solve_lower(factor, of_tests.T)
        covariance = self.kernel.evaluate(near, near) - columns @ columns.T + known.T @ known
        cross = self.kernel.evaluate(near, tests) - columns @ of_tests.T + known.T @ of_known
        prior = as_tensor(self.kernel.diagonal(X)) - of_tests.square().sum(dim=1) + of_known.square().sum(dim=0)
        own = self.noise.of_weighted_rows(block)
        covariance.diagonal().add_(own)
        lower = cholesky(covariance, float(own.min()))
        right = torch.cat((cross, y[:, None] - known.T @ center), dim=1)
        solved = solve_lower(lower, right)
        mean = (of_known.T @ center)[:, 0] + solved[:, :-1].T @ solved[:, -1]
        variance = (prior - solved[:, :-1].square().sum(dim=0)).clamp(min=0.0)
        return mean.numpy(), variance.numpy()
