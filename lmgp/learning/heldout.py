"""Rows and whole neighbourhoods that are left out, to tell kernels and trends apart by how well they are predicted."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from lmgp.data import Floats, Indices, Noise, Predicted, Rows
from lmgp.kernels.base import Kernel
from lmgp.neighbours.ties import told_apart
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.utils.parallel import parallel_map
from lmgp.utils.student import Student

# The number of rows that are left out by themselves.
N_ALONE = 1000
# The share of the rows that is left out in neighbourhoods, at most.
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
    taken : ndarray of bool of shape (n,)
        Which rows are left out.
    index : ndarray of int
        Those to predict.
    region : ndarray of int
        The neighbourhood of each of them.
    """

    taken: NDArray[np.bool_]
    index: Indices
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
        n, sizes = len(rows), sizes_of_regions(len(rows))
        X = told_apart(rows.X / scales)
        centres = rng.permutation(n)[: len(sizes)]
        taken = np.zeros(n, dtype=bool)
        predicted = [np.empty(0, dtype=np.intp)]
        for near in parallel_map(lambda of: _nearest(X, *of), list(zip(centres, sizes, strict=True))):
            predicted.append(rng.permutation(near[~taken[near]])[:N_IN_REGION])
            taken[near] = True
        labels = np.repeat(np.arange(len(predicted)), [len(some) for some in predicted])
        return cls(taken, np.concatenate(predicted), labels)

    def means(self, densities: Floats) -> Floats:
        """Return the mean of each neighbourhood of a number of each row."""
        counts = np.bincount(self.region)
        return np.bincount(self.region, densities)[counts > 0] / counts[counts > 0]


@dataclass(frozen=True, eq=False)
class Validation:
    """Rows that are left out by themselves, and whole neighbourhoods.

    Attributes
    ----------
    rows : Rows
        All, with centred targets; the columns of a trend may stand behind these.
    alone : ndarray of int
    neighbourhoods : sequence of HeldOut
    near : bool
        Whether the nearest rows predict each, or all other rows, where no neighbourhoods are left out.

    trended : callable
        Adds a trend to a posterior of `rows`; none by default.
    """

    rows: Rows
    alone: Indices
    neighbourhoods: Sequence[HeldOut]
    near: bool = True

    trended: Callable[[Any], Posterior] = lambda posterior: posterior

    @classmethod
    def of(cls, rows: Rows, scales: Floats, rng: np.random.Generator, near: bool = True) -> Self:
        """Draw 1,000 rows, and neighbourhoods several times, see `HeldOut`; none of these if not `near`."""
        alone = np.sort(rng.permutation(len(rows))[:N_ALONE])
        at_a_time = len(sizes_of_regions(len(rows))) if near else 0
        times = max(N_TIMES, -(-N_REGIONS // at_a_time)) if at_a_time else 0
        neighbourhoods = [HeldOut.of(rows, scales, rng) for _ in range(times)]
        return cls(rows, alone, neighbourhoods, near)

    def densities(self, kernel: Kernel, noise_variance: float, degrees: float = math.inf) -> list[Floats]:
        """Predict each row from the nearest others, and each neighbourhood from the rows around it.

        Parameters
        ----------
        kernel : Kernel
            With a metric, if the nearest rows predict.
        noise_variance : float
            Of rows without one of their own.
        degrees : float, default=inf
            Those of freedom of the errors.

        Returns
        -------
        list of ndarray
            log p(y) of each row that is left out by itself, and its mean over each neighbourhood, in nats a row, summed
            over targets.
        """
        given = kernel, self.rows, Noise(noise_variance)
        process = NearestPosterior(*given, N_NEIGHBORS, share=False) if self.near else ExactPosterior(*given)

        def density(predicted: Sequence[Predicted]) -> list[Floats]:
            return [
                (Student(degrees).log_density((y - means) / std) - np.log(std)).sum(axis=1)
                for _, y, means, std, _ in predicted
            ]

        return self.densities_by(process, density)

    def densities_by(self, process: Any, density: Callable[[Sequence[Predicted]], Sequence[Floats]]) -> list[Floats]:
        """Return what `densities` does, of predictions by any process of `rows`.

        Parameters
        ----------
        process : NearestPosterior, or any posterior where no neighbourhoods are left out
        density : callable
            Takes what is predicted: the rows that are left out by themselves, and then those of each set of
            neighbourhoods. Returns the log densities of each of these.
        """
        whole, noise = self.trended(process), process.noise
        predicted = [noise.observed(whole.rows.take(self.alone), *whole.leave_one_out(self.alone), True)]
        for held in self.neighbourhoods:
            around, rows = self.trended(process.without(held.taken)), whole.rows.take(held.index)
            predicted.append(noise.observed(rows, *around.distribution(rows.X), False))
        alone, *of_regions = density(predicted)
        means = [held.means(part) for held, part in zip(self.neighbourhoods, of_regions, strict=True)]
        return [alone, np.concatenate([np.empty(0), *means])]


def mean_and_error(parts: Sequence[Floats]) -> tuple[float, float]:
    """Return the mean over rows and neighbourhoods, of which both kinds count alike, and its standard error."""
    parts = [part for part in parts if len(part)]
    error = math.sqrt(sum(part.var() / len(part) for part in parts)) / len(parts)
    return float(np.mean([part.mean() for part in parts])), error


def _nearest(X: Floats, centre: int, size: int) -> Indices:
    """Return the rows nearest to one of them, the nearest first."""
    squares = cdist(X[[centre]], X, "sqeuclidean")[0]
    near = np.argpartition(squares, size - 1)[:size]
    return near[np.argsort(squares[near])]


def sizes_of_regions(n: int) -> Indices:
    """Return how many of n rows each neighbourhood has that is left out."""
    least = np.sqrt(n)
    sizes = np.geomspace(least, max(least, LARGEST * n), N_REGIONS)
    # Every other one, from the largest down, and then those between them, until the share is used up.
    sizes = np.concatenate((sizes[::-2], sizes[-2::-2])).astype(np.intp)
    return sizes[np.cumsum(sizes) <= SHARE * n]
