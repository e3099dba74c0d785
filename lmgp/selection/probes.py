"""Probes: rows that are held out of a part of the problem on which the exact GP is known."""

from dataclasses import dataclass
from time import perf_counter
from typing import Self

import numpy as np
from scipy.spatial import KDTree

from lmgp.data import Floats, Indices, Noise, Rows
from lmgp.kernels.base import Kernel
from lmgp.neighbours.duplicates import steady_order
from lmgp.posteriors.exact import ExactPosterior, max_rows_within
from lmgp.utils.memory import check_memory

# Up to this number of rows, probes are drawn at random from all. Of more, they are drawn around some places, and the
# rows nearest to these stand for all.
MOST_ROWS = 4096
# The number of probes, of places, and of rows of which one is held out, at most: predictions from far fewer rows would
# be another problem.
N_PROBES, N_PLACES, HELD_OUT = 64, 8, 5
# There has to be memory for exact predictions from this number of rows: two around each place beside those held out.
LEAST_ROWS = N_PROBES + 2 * N_PLACES
# Around one in this number of places, this share of the rows around is left out as well: rows to come may lie in gaps,
# where more neighbours matter.
GAP_EVERY, GAP = 4, 0.25


@dataclass(frozen=True, eq=False)
class Probes:
    """Rows that were held out, and what the exact GP of the others predicts for them.

    Attributes
    ----------
    X : ndarray of shape (m, d)
    mean, variance : ndarray of shape (m,)
        Of the latent function, for y centred.
    place : ndarray of int of shape (m,)
        The place of each; of few rows, each is a place of its own.
    rest : Rows
        The rows that the predictions are from.
    share : float
        Of all rows that are not held out, those that are in `rest`.
    most_neighbours : int
        The number of nearest rows above which a model of them cannot be told from the exact GP of `rest`.
    seconds : float
        The time that this took.
    """

    X: Floats
    mean: Floats
    variance: Floats
    place: Indices
    rest: Rows
    share: float
    most_neighbours: int
    seconds: float

    @classmethod
    def of(cls, rows: Rows, kernel: Kernel, noise: Noise, rng: np.random.Generator, max_memory_gib: float) -> Self:
        """Hold out some rows, and predict them from all others, or from those around.

        Parameters
        ----------
        rows : Rows
            With one centred target.
        kernel : Kernel
            With a metric.
        noise : Noise
        rng : numpy.random.Generator
        max_memory_gib : float
            For the exact GP.

        Raises
        ------
        MemoryLimitError
            If the exact GP of `LEAST_ROWS` takes more.
        """
        start, n, rows = perf_counter(), len(rows), rows.take(steady_order(rows))
        most = min(MOST_ROWS, max_rows_within(max_memory_gib))
        few = n <= most
        if few:
            held = rng.permutation(n)[: max(1, min(N_PROBES, n // HELD_OUT))]
            place, around = np.arange(len(held)), np.arange(n)
        else:
            advice = "Raise max_memory_gib (lmgp fit: --max-memory)."
            check_memory(16.0 * LEAST_ROWS**2, "The exact predictions that choose a model", advice, max_memory_gib)
            held, place, around = _around_places(kernel.in_lengthscales(rows.X), most // N_PLACES, rng)
        rest = rows.take(np.setdiff1d(around, held))
        means, variance = ExactPosterior(kernel, rest, noise).distribution(rows.X[held])
        share, seconds = len(rest) / (n - len(held)), perf_counter() - start
        neighbours = len(rest) if few else most // (2 * N_PLACES)
        return cls(rows.X[held], means[:, 0], variance, place, rest, share, neighbours, seconds)

    def mean_and_error(self, values: Floats) -> tuple[float, float]:
        """Return the mean of the values of the probes, shape (m,), and its standard error over places."""
        # Those of a place are alike. Places differ in size, so that the mean is the ratio of two sums over them.
        sums, counts = np.bincount(self.place, values), np.bincount(self.place)
        deviations = (sums - values.mean() * counts)[counts > 0]
        return float(values.mean()), float(np.sqrt(np.square(deviations).sum()) / len(values))


def _around_places(scaled: Floats, n_near: int, rng: np.random.Generator) -> tuple[Indices, Indices, Indices]:
    """Draw places among rows; return the rows that are held out near each, the place of each, and the rows around."""
    size = N_PROBES // N_PLACES
    centres = rng.choice(len(scaled), N_PLACES, replace=False)
    around = KDTree(scaled, balanced_tree=False).query(scaled[centres], k=n_near)[1]
    drawn = np.array([rng.permutation(near[: HELD_OUT * size])[:size] for near in around])
    held, first = np.unique(drawn, return_index=True)  # where many rows are equal, places may share them
    return held, first // size, np.setdiff1d(around, around[::GAP_EVERY, : int(GAP * n_near)])
