"""Whole neighbourhoods that are left out, to tell kernels apart by how well they predict away from rows."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats, Indices, Noise, Rows
from lmgp.kernels.base import Kernel
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.utils.parallel import parallel_map

# The share of the rows that is left out, at most.
SHARE = 0.1
# The number of neighbourhoods that are left out at a time, at most: of √n rows, and of more, up to this share of the
# rows. What interpolates best may extrapolate worst, and only a large gap shows it.
N_REGIONS, LARGEST = 24, 0.02
# Neighbourhoods are left out at least this number of times, and so often that there are `N_REGIONS` together.
N_TIMES = 4
# The number of rows of a neighbourhood that are predicted, and of those from which each row is predicted.
N_IN_REGION, N_NEIGHBORS = 32, 128


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Whole neighbourhoods that are left out.

    Attributes
    ----------
    rows : Rows
        All.
    taken : ndarray of bool of shape (n,)
        Which of them are left out.
    regions : Rows
        Those to predict.
    region : ndarray of int
        The neighbourhood of each row of `regions`.
    """

    rows: Rows
    taken: NDArray[np.bool_]
    regions: Rows
    region: Indices

    @classmethod
    def of(cls, rows: Rows, scales: Floats, rng: np.random.Generator) -> Self:
        """Leave out neighbourhoods: none where a tenth of the rows are fewer than √n.

        Parameters
        ----------
        rows : Rows
        scales : ndarray of shape (d,)
            The unit of each column, in which a neighbourhood is measured.
        rng : numpy.random.Generator
        """
        n, sizes, columns = len(rows), sizes_of_regions(len(rows)), np.ascontiguousarray((rows.X / scales).T)
        centres = rng.permutation(n)[: len(sizes)]
        taken = np.zeros(n, dtype=bool)
        predicted = [np.empty(0, dtype=np.intp)]
        for near in parallel_map(lambda of: _nearest(columns, *of), list(zip(centres, sizes, strict=True))):
            predicted.append(rng.permutation(near[~taken[near]])[:N_IN_REGION])
            taken[near] = True
        labels = np.repeat(np.arange(len(predicted)), [len(some) for some in predicted])
        return cls(rows, taken, rows.take(np.concatenate(predicted)), labels)

    @classmethod
    def several(cls, rows: Rows, scales: Floats, rng: np.random.Generator) -> list[Self]:
        """Leave out neighbourhoods several times, see `of`."""
        at_a_time = len(sizes_of_regions(len(rows)))
        times = max(N_TIMES, -(-N_REGIONS // at_a_time)) if at_a_time else 0
        return [cls.of(rows, scales, rng) for _ in range(times)]

    @property
    def rest(self) -> Rows:
        """The rows that were not left out."""
        return self.rows.take(~self.taken)

    def densities(self, kernel: Kernel, noise_variance: float) -> Floats:
        """Predict each row of a neighbourhood from the nearest rows outside.

        Parameters
        ----------
        kernel : Kernel
            With a metric.
        noise_variance : float
            Of rows without one of their own.

        Returns
        -------
        ndarray
            The mean log p(y) of each neighbourhood, in nats a row, summed over targets.
        """
        if not len(self.region):
            return np.empty(0)
        nearest = NearestPosterior(kernel, self.rest, Noise(noise_variance), N_NEIGHBORS, share=False)
        means, variances = nearest.distribution(self.regions.X)
        return self.means(log_density(self.regions, means, variances, noise_variance))

    def means(self, densities: Floats) -> Floats:
        """Return the mean of each neighbourhood of a number of each row."""
        counts = np.bincount(self.region)
        return np.bincount(self.region, densities)[counts > 0] / counts[counts > 0]


def _nearest(columns: Floats, centre: int, size: int) -> Indices:
    """Return the rows nearest to one of them, the nearest first."""
    squares = np.zeros(columns.shape[1])
    for column in columns:
        squares += np.square(column - column[centre])
    near = np.argpartition(squares, size - 1)[:size]
    order: Indices = near[np.argsort(squares[near])]
    return order


def sizes_of_regions(n: int) -> Indices:
    """Return how many of n rows each neighbourhood has that is left out."""
    least = np.sqrt(n)
    sizes = np.geomspace(least, max(least, LARGEST * n), N_REGIONS)
    # Every other one, from the largest down, and then those between them, until the share is used up.
    sizes = np.concatenate((sizes[::-2], sizes[-2::-2])).astype(np.intp)
    return sizes[np.cumsum(sizes) <= SHARE * n]


def log_density(rows: Rows, means: Floats, variances: Floats, noise_variance: float) -> Floats:
    """Return the log density of new observations of rows, in nats, summed over their targets.

    Parameters
    ----------
    rows : Rows
    means : ndarray of shape (n, t)
    variances : ndarray of shape (n,)
        Of the latent function.
    noise_variance : float
        Of rows without one of their own.
    """
    variances = variances + (noise_variance if rows.noise_variances is None else rows.noise_variances)
    squares = np.square(rows.Y - means) / variances[:, None]
    density: Floats = -0.5 * (np.log(2.0 * np.pi * variances)[:, None] + squares).sum(axis=1)
    return density
