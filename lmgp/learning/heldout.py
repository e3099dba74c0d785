"""Rows that learning leaves out, to tell kernels apart by how well they predict."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.spatial import KDTree

from lmgp.data import Floats, Indices, Noise, Rows
from lmgp.kernels.base import Kernel
from lmgp.posteriors.nearest import NearestPosterior

# The share of the rows that is left out, at most, in each of the two ways.
SHARE = 0.1
# The number of rows drawn at random.
N_ALONE = 1000
# The number of whole neighbourhoods, at most: of √n rows, and of more, up to this share of the rows. What interpolates
# best may extrapolate worst, and only a large gap shows it.
N_REGIONS, LARGEST = 24, 0.02
# The number of rows of a neighbourhood that are predicted, and of those from which each row is predicted.
N_IN_REGION, N_NEIGHBORS = 32, 128
# Few regions tell little: neighbourhoods are left out again this number of times, of at most this number of rows.
N_MORE, MOST_ROWS = 3, 250_000


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Rows left out at random, and whole neighbourhoods left out: between others, and away from others.

    Attributes
    ----------
    rest : Rows
        The rows that were not left out.
    alone, regions : Rows
        Those to predict.
    region : ndarray of int
        The neighbourhood of each row of `regions`.
    """

    rest: Rows
    alone: Rows
    regions: Rows
    region: Indices

    @classmethod
    def several(cls, rows: Rows, scales: Floats, rng: np.random.Generator) -> list[Self]:
        """Leave out rows, and then further neighbourhoods in place of those; see `HeldOut.of`."""
        n_more = N_MORE if len(rows) <= MOST_ROWS else 0
        return [cls.of(rows, scales, rng), *(cls.of(rows, scales, rng, n_alone=0) for _ in range(n_more))]

    @classmethod
    def of(cls, rows: Rows, scales: Floats, rng: np.random.Generator, n_alone: int = N_ALONE) -> Self:
        """Leave out rows.

        Parameters
        ----------
        rows : Rows
        scales : ndarray of shape (d,)
            The unit of each column, in which a neighbourhood is measured.
        rng : numpy.random.Generator
        n_alone : int
            The number of rows drawn at random, at most.
        """
        n = len(rows)
        order = rng.permutation(n)
        n_alone = min(n_alone, int(SHARE * n))
        least = np.sqrt(n)
        sizes = np.geomspace(least, max(least, LARGEST * n), N_REGIONS)
        # Every other one until the share is used up, so that all sizes come.
        sizes = np.concatenate((sizes[::-2], sizes[-2::-2])).astype(int)
        sizes = sizes[np.cumsum(sizes) <= SHARE * n]
        alone, centres = order[:n_alone], order[n_alone : n_alone + len(sizes)]
        scaled = rows.X / scales
        tree = KDTree(scaled, balanced_tree=False, compact_nodes=False)
        taken = np.zeros(n, dtype=bool)
        taken[alone] = True
        predicted = [np.empty(0, dtype=np.intp)]
        for centre, size in zip(centres, sizes, strict=True):
            near = tree.query(scaled[centre], k=np.arange(1, size + 1))[1]
            predicted.append(rng.permutation(near[~taken[near]])[:N_IN_REGION])
            taken[near] = True
        labels = np.repeat(np.arange(len(predicted)), [len(some) for some in predicted])
        return cls(rows.take(~taken), rows.take(alone), rows.take(np.concatenate(predicted)), labels)

    def alone_densities(self, kernel: Kernel, noise_variance: float, index: Indices | None = None) -> Floats:
        """Predict the rows that were left out at random from the nearest of the others.

        Parameters
        ----------
        kernel : Kernel
            With a metric.
        noise_variance : float
            Of rows without one of their own.
        index : ndarray of int, optional
            Of these rows alone.

        Returns
        -------
        ndarray
            log p(y) of each, in nats, summed over targets.
        """
        return self._density(kernel, noise_variance, self.alone if index is None else self.alone.take(index))

    def region_densities(self, kernel: Kernel, noise_variance: float) -> Floats:
        """Predict the neighbourhoods that were left out in the same way: the mean log p(y) of each.

        See `alone_densities`.
        """
        each = self._density(kernel, noise_variance, self.regions) if len(self.region) else np.empty(0)
        counts = np.bincount(self.region)
        return np.bincount(self.region, each)[counts > 0] / counts[counts > 0]

    def _density(self, kernel: Kernel, noise_variance: float, rows: Rows) -> Floats:
        nearest = NearestPosterior(kernel, self.rest, Noise(noise_variance), N_NEIGHBORS, share=False)
        means, variances = nearest.distribution(rows.X)
        variances = variances + (noise_variance if rows.noise_variances is None else rows.noise_variances)
        squares = np.square(rows.Y - means) / variances[:, None]
        density: Floats = -0.5 * (np.log(2.0 * np.pi * variances)[:, None] + squares).sum(axis=1)
        return density
