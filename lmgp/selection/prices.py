"""The seconds that a candidate is expected to take on this machine."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammainccinv

from lmgp.features.base import Work
from lmgp.features.nystroem import CHOICE as LANDMARKS
from lmgp.kernels.base import Kernel
from lmgp.locality.cells import points_per_cell
from lmgp.selection.costs import Costs, KernelCosts, weighed
from lmgp.validation import Rows

Floats = NDArray[np.float64]

# The share of rows within reach of a centroid is estimated from the distances between this many rows and centroids.
SAMPLE_ROWS, SAMPLE_CENTROIDS = 4096, 64


class Price(NamedTuple):
    """Seconds.

    Attributes
    ----------
    model : float
        Of fitting a model to all rows, and predicting as many as the user will.
    trial : float
        Of fitting it and predicting the probes.
    """

    model: float
    trial: float


class Prices:
    """The seconds of fitting a model to all rows and predicting from it.

    Parameters
    ----------
    rows : Rows
        Those that candidates are tried on.
    n_rows : int
        The number of those that the chosen one is fitted to.
    kernel : Kernel
    share : float
        The share of its prior variance below which a row is left out of a model, see
        `lmgp.locality.placement.negligible_share`.
    n_predict : int
        The number of rows to predict.
    costs : Costs
        The rates of this machine.
    of_kernel : KernelCosts
        Those of the kernel on these rows.
    n_probes : int
        The number of rows on which candidates are tried.

    Attributes
    ----------
    n_tried, n_rows, n_inputs : int
        The number of rows that candidates are tried on, of rows in all, and of their columns.
    """

    def __init__(
        self,
        rows: Rows,
        n_rows: int,
        kernel: Kernel,
        share: float,
        n_predict: int,
        costs: Costs,
        of_kernel: KernelCosts,
        n_probes: int,
    ) -> None:
        self.n_rows = n_rows
        self.n_tried, self.n_inputs = rows.X.shape
        self._kernel, self._share, self._n_predict, self._n_probes = kernel, share, n_predict, n_probes
        self._costs, self._of_kernel = costs, of_kernel
        sample = np.random.default_rng(0).permutation(self.n_tried)[:SAMPLE_ROWS]
        self._sample = kernel.scale(rows.X[sample])

    def distances(self, centroids: Floats) -> Floats:
        """Return distances between centroids and rows, a sample of each, in lengthscales."""
        picked = np.random.default_rng(0).permutation(len(centroids))[:SAMPLE_CENTROIDS]
        return cdist(self._kernel.scale(centroids[picked]), self._sample)

    def of_map(self, work: Work, n_centroids: int = 1, distances: Floats | None = None) -> Price:
        """Return the seconds of a map.

        Parameters
        ----------
        work : Work
            What the map says of itself.
        n_centroids : int, default=1
        distances : ndarray of shape (n_centroids, n_sample), optional
            What `distances` returned: a localized model takes the rows within the reach of its degree. If not given,
            it takes all rows.
        """
        costs, n_rows = self._costs, float(self.n_rows)
        row, predict, drawing = costs.product_row(work.columns), costs.predict_row(work.columns), 0.0
        if work.solved:
            solve = costs.predict_row(work.solved) + work.solved * self._of_kernel.entry
            row, predict, drawing = row + solve, predict + solve, self._of_landmarks(work.solved)
        if work.moments is not None:
            row = min(row, costs.moment_row(work.moments))
        if work.degree is not None and distances is not None:
            n_rows *= float(np.mean(distances <= work.stretch * np.sqrt(gammainccinv(work.degree + 1, self._share))))
        per_model = costs.model + costs.factorise(work.columns) + n_rows * row

        def of(n_predict: int) -> float:
            # Models from which no row is predicted are not solved.
            return drawing + min(n_centroids, n_predict) * per_model + n_predict * predict

        return Price(of(self._n_predict), of(self._n_probes))

    def _of_landmarks(self, n_landmarks: int) -> float:
        """Return the seconds of drawing landmarks and factorising their covariance."""
        n_seen = min(self.n_tried, max(LANDMARKS.least_rows, LANDMARKS.rows_per_landmark * n_landmarks))
        drawn = n_seen * weighed(n_landmarks) * self._costs.landmark_row
        return drawn + n_landmarks**2 * self._of_kernel.entry + self._costs.exact(n_landmarks)

    def of_neighbours(self, k: int) -> Price:
        """Return the seconds of predictions from the k nearest rows."""
        return Price(*(n * self._of_nearest(k, n) for n in (self._n_predict, self._n_probes)))

    def _of_nearest(self, k: int, n_predict: int) -> float:
        """Return the seconds of one of `n_predict` predictions from the k nearest rows.

        Some are of a cell, and some of each row in it: the seconds of a row are linear in 1 / (rows in its cell).
        """
        dense = max(1.0, points_per_cell(self.n_inputs, k))
        of, sparseness = self._of_kernel, self.n_rows / (dense * max(n_predict, 1))
        return float(np.interp(sparseness, (1.0 / dense, 1.0), (of.shared_row(k), of.cell_row(k))))

    def of_residual(self, work: Work, k: int, block_size: int) -> Price:
        """Return the seconds of a global map whose residuals are predicted from the k nearest rows.

        The products of each row's features with those of its block, and of its neighbours among each other, take what
        the sums of as many products of columns take.
        """
        whole, size = self.of_map(work), work.columns
        fit = self.n_rows * (
            self._costs.product_row(math.sqrt(2.0 * block_size * size)) + block_size * self._of_kernel.entry
        )
        row = self._of_kernel.neighbours_row(k) + self._costs.product_row(k * math.sqrt(size))
        return Price(whole.model + fit + self._n_predict * row, whole.trial + fit + self._n_probes * row)

    def of_exact(self) -> Price:
        """Return the seconds of the exact GP of all rows, whose divergence needs no trial."""
        n, entry = self.n_rows, self._of_kernel.entry
        fit = self._costs.exact(n) + n * n * entry
        return Price(fit + self._n_predict * (self._costs.exact_row(n) + n * entry), 0.0)
