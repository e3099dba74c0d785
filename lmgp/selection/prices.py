"""The seconds that a candidate is expected to take on this machine."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammainccinv

from lmgp.features.base import Work
from lmgp.kernels.base import Kernel
from lmgp.selection.costs import Costs
from lmgp.validation import Rows

Floats = NDArray[np.float64]

# The share of rows within reach of a centroid is estimated from the distances between this many rows and centroids.
SAMPLE_ROWS, SAMPLE_CENTROIDS = 4096, 64

# Above this number of rows, the exact GP is priced by the row: by the seconds that this number of rows takes.
MAX_EXACT_ROWS = 16_384


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

    Attributes
    ----------
    n_tried, n_rows, n_inputs : int
        The number of rows that candidates are tried on, of rows in all, and of their columns.
    """

    def __init__(self, rows: Rows, n_rows: int, kernel: Kernel, share: float, n_predict: int, costs: Costs) -> None:
        self.n_rows = n_rows
        self.n_tried, self.n_inputs = rows.X.shape
        self._kernel, self._share, self._n_predict, self._costs = kernel, share, n_predict, costs
        sample = np.random.default_rng(0).permutation(self.n_tried)[:SAMPLE_ROWS]
        self._sample = kernel.scale(rows.X[sample])

    def distances(self, centroids: Floats) -> Floats:
        """Return distances between centroids and rows, a sample of each, in lengthscales."""
        picked = np.random.default_rng(0).permutation(len(centroids))[:SAMPLE_CENTROIDS]
        return cdist(self._kernel.scale(centroids[picked]), self._sample)

    def of_map(self, work: Work, n_centroids: int = 1, distances: Floats | None = None) -> float:
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
        row = costs.product_row(work.columns)
        if work.solved:
            row += costs.predict_row(work.solved)
        if work.moments is not None:
            row = min(row, costs.moment_row(work.moments))
        if work.degree is not None and distances is not None:
            n_rows *= float(np.mean(distances <= work.stretch * np.sqrt(gammainccinv(work.degree + 1, self._share))))
        per_model = costs.model + costs.factorise(work.columns) + n_rows * row
        # Models from which no row is predicted are not solved.
        return min(n_centroids, self._n_predict) * per_model + self._n_predict * costs.predict_row(work.columns)

    def of_neighbours(self, k: int) -> float:
        """Return the seconds of predictions from the k nearest rows."""
        return self._n_predict * self._costs.neighbours_row(k)

    def of_exact(self) -> float:
        """Return the seconds of the exact GP of all rows."""
        if self.n_rows > MAX_EXACT_ROWS:
            return self._costs.exact(MAX_EXACT_ROWS) * self.n_rows / MAX_EXACT_ROWS
        return self._costs.exact(self.n_rows) + self._n_predict * self._costs.exact_row(self.n_rows)
