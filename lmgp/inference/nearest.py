"""Predictions from the training rows that are nearest to each row."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.inference.function_space import Conditional
from lmgp.inference.trend import TrendFit
from lmgp.kernels.base import Kernel, require
from lmgp.memory import check_memory, chunks
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]

# Bytes of the covariances that are factorised at a time: few enough to stay in a processor's cache.
BATCH_BYTES = 4 * 2**20


class NearestPosterior:
    """The nearest-neighbour Gaussian process: each row is predicted from the training rows nearest to it.

    "Near" is measured in the kernel's metric, so that a column counts by its relevance. A prediction is the exact
    Gaussian process given these rows.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows
        With y centred.
    noise : Noise
    n_neighbors : int
        Of fewer training rows, all.
    max_memory_gib : float, optional
        For the matrices of one prediction, in GiB; the machine's memory if not given.
    trend : TrendFit, optional
        Of which y are the residuals. Means are less the trend; variances have its uncertainty.

    Attributes
    ----------
    kernel, noise, trend
        As given.
    n_neighbors : int
        At most the number of training rows.

    Raises
    ------
    InputError
        If the kernel has no metric.
    MemoryLimitError
        If the matrices of one prediction take more.

    References
    ----------
    A. V. Vecchia, *Estimation and Model Identification for Continuous Spatial Processes*, JRSS B 50, 1988.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        noise: Noise,
        n_neighbors: int,
        max_memory_gib: float | None = None,
        trend: TrendFit | None = None,
    ) -> None:
        require(kernel, "metric", "A prediction from the nearest rows")
        self.kernel, self.noise, self.n_neighbors = kernel, noise, min(n_neighbors, len(rows.y))
        check_memory(
            16.0 * self.n_neighbors**2,
            f"The two matrices of a prediction from {self.n_neighbors:,} rows",
            "Use a smaller n_neighbors, or a higher max_memory_gib.",
            max_memory_gib,
        )
        self.trend = trend
        self._X, self._y = as_tensor(rows.X), as_tensor(rows.y if trend is None else rows.y - trend.changes(rows.X))
        self._columns = None if trend is None else as_tensor(trend.columns(rows.X))
        self._noise = noise.of_weighted_rows(rows)
        self._tree = KDTree(kernel.scale(rows.X))

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict the latent function.

        Parameters
        ----------
        X : ndarray of shape (m, d)
        variance : bool, default=True
            Whether to return variances. They take a small part of the time.

        Returns
        -------
        mean : ndarray of shape (m,)
        variance : ndarray of shape (m,) or None
        """
        mean, found, _ = self._solve(X)
        return mean, found if variance else None

    def missing(self, X: Floats) -> Floats:
        """Return the prior variance that is left out of each row's prediction and added again: none; shape (m,)."""
        return np.zeros(len(X))

    def expectations(self, X: Floats) -> tuple[Floats, Floats]:
        """Return what the posterior that predicts a row expected of it, and of its training rows.

        Parameters
        ----------
        X : ndarray of shape (m, d)

        Returns
        -------
        prior : ndarray of shape (m,)
            The prior variance.
        surprise : ndarray of shape (m,)
            yᵀC⁻¹y/k of the k nearest rows with covariance C: 1 ± √(2/k) where they are as expected.
        """
        return self.kernel.diagonal(X), self._solve(X)[2]

    def _solve(self, X: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the mean, the variance, and the surprise of the nearest rows, each of shape (m,)."""
        solved = np.empty((3, len(X)))
        if not len(X):
            return solved[0], solved[1], solved[2]
        k = np.arange(1, self.n_neighbors + 1)
        _, nearest = self._tree.query(self.kernel.scale(X), k=k, workers=torch.get_num_threads())
        tests, prior = as_tensor(X)[:, None, :], as_tensor(self.kernel.diagonal(X))[:, None]

        def solve_batch(part: slice) -> None:
            near = torch.from_numpy(nearest[part])
            with torch.no_grad():
                columns = None if self._columns is None else self._columns[near]
                conditional = Conditional(self.kernel, self._X[near], self._y[near], self._noise[near], columns)
                mean, variance, of_columns = conditional.predict(tests[part], prior[part])
            solved[:2, part] = mean[:, 0].numpy(), variance[:, 0].numpy()
            if self.trend is not None and of_columns is not None:
                solved[1, part] += self.trend.variance(X[part], of_columns[:, 0].numpy())
            solved[2, part] = conditional.whitened.square().mean(dim=-1).numpy()

        parallel_map(solve_batch, list(chunks(len(X), self.n_neighbors**2, BATCH_BYTES)))
        return solved[0], solved[1], solved[2]
