"""How many columns each degree of a random Maclaurin map gets.

References
----------
J. Wacker, M. Kanagawa and M. Filippone, *Improved Random Features for Dot Product Kernels*, 2022, section 5.3 and
Algorithm 3.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist
from scipy.special import gammainc, gammainccinv, gammaln

from lmgp.data import Floats
from lmgp.features.sketches import Sketch, padded_size, variance_terms, within_blocks
from lmgp.neighbours.clustering import nearest_centroids

# Rows around one of several centroids; a row is within reach of a centroid if a map of the highest degree keeps more
# than this share of its variance.
GROUP_ROWS, NEGLIGIBLE = 25, 1e-6


def sample_groups(
    scaled: Floats, centroids: Floats, n_rows: int, max_degree: int, rng: np.random.Generator
) -> list[Floats]:
    """Sample rows within reach of the same centroid, as differences to the centroid.

    Parameters
    ----------
    scaled : ndarray of shape (n, d)
        Rows, in lengthscales, each place once (`lmgp.neighbours.placement.distinct_places`).
    centroids : ndarray of shape (n_centroids, d)
        In the same coordinates.
    n_rows : int
        The number of rows to take in all.
    max_degree : int
        The highest degree, which sets the reach.
    rng : numpy.random.Generator

    Returns
    -------
    list of ndarray of shape (any, d)
        Groups: pairs of rows are taken within each. If no two rows are within reach of a common centroid, one group of
        rows at any distance from one centroid.
    """
    radius = gammainccinv(max_degree + 1, NEGLIGIBLE)
    # A centroid near many rows serves many predictions: each random row votes for the centroid next to it.
    n_groups = max(1, min(len(centroids), n_rows // GROUP_ROWS))
    voters = scaled[rng.permutation(len(scaled))[:n_rows]]
    nearest = nearest_centroids(voters, centroids)
    chosen = list(dict.fromkeys(nearest.tolist()))[:n_groups]
    groups = []
    for index in chosen:
        differences = scaled - centroids[index]
        near = np.flatnonzero((differences**2).sum(axis=1) < radius)
        groups.append(differences[rng.permutation(near)[: n_rows // len(chosen)]])
    groups = [group for group in groups if len(group) > 1]
    return groups or [voters - centroids[chosen[0]]]


@dataclass(frozen=True)
class ErrorTerms:
    """The mean squared kernel error of a random Maclaurin map, split by degree, over variance².

    Attributes
    ----------
    variance, covariance : ndarray of shape (max_degree + 1,)
        V_n and C_n: degree n with m columns adds V_n/m + C_n · c(m, d̄)/m².
    truncation : ndarray of shape (max_degree + 1,)
        B_p: what cutting the series after degree p adds.
    n_inputs : int

    Notes
    -----
    As published, V and C are means over pairs of different rows. B_p is a mean over all pairs, with the pairs of a row
    and itself: k(x, x) is the prior variance at x. Without these the degree p comes out too low.
    """

    variance: Floats
    covariance: Floats
    truncation: Floats
    n_inputs: int

    @classmethod
    def of_groups(cls, groups: list[Floats], sketch: Sketch, max_degree: int) -> "ErrorTerms":
        """Average over the pairs of rows within each group."""
        n_inputs = groups[0].shape[1]
        own_squares = np.concatenate([np.square(group).sum(axis=1) for group in groups])
        inner, norms, overlap, squares, kernel = (
            np.concatenate(parts) for parts in zip(*(_pairs(group) for group in groups), strict=True)
        )
        terms = np.zeros((3, max_degree + 1))
        remainder = kernel - np.exp(-squares / 2.0)

        def truncated(degree: int) -> float:
            # ‖φ(x)‖² has a closed form. Two different rows are two of the ordered pairs.
            tails = gammainc(degree + 1, own_squares)
            return float((2.0 * (remainder @ remainder) + tails @ tails) / (2 * len(remainder) + len(tails)))

        terms[2, 0] = truncated(0)
        for degree in range(1, max_degree + 1):
            # e^(−(r² + s²)/2)/n! is put inside the n-th power, so that nothing overflows far from the centre.
            factor = np.exp(-squares / (2 * degree) - gammaln(degree + 1) / degree)
            variance, covariance = variance_terms(
                sketch, degree, n_inputs, inner * factor, norms * factor**2, overlap * factor**2
            )
            remainder = remainder - (inner * factor) ** degree
            terms[:, degree] = variance.mean(), covariance.mean(), truncated(degree)
        return cls(terms[0], terms[1], terms[2], n_inputs)

    def of_columns(self, degree: int, n_columns: NDArray[np.int64]) -> Floats:
        """Return the error that the sketch of one degree adds with each number of columns, of any shape."""
        variance, covariance = self.variance[degree], self.covariance[degree]
        if covariance > 0.0:
            # The bound c(m, d̄) ≤ (d̄ − 1)m: convex, where the true term jumps with each new block.
            return np.asarray((variance + (padded_size(self.n_inputs) - 1) * covariance) / n_columns)
        return (variance + covariance * within_blocks(n_columns, self.n_inputs) / n_columns) / n_columns


def _pairs(group: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """xᵀz, ‖x‖²‖z‖², Σxᵢ²zᵢ², ‖x‖² + ‖z‖² and exp(−‖x − z‖²/2) for all pairs of rows of one group."""
    left, right = np.triu_indices(len(group), k=1)
    squares = np.square(group).sum(axis=1)
    overlap = np.square(group) @ np.square(group).T
    return (
        (group @ group.T)[left, right],
        squares[left] * squares[right],
        overlap[left, right],
        squares[left] + squares[right],
        np.exp(-0.5 * pdist(group, "sqeuclidean")),
    )


def allocate(terms: ErrorTerms, n_features: int, max_degree: int) -> list[int]:
    """Distribute columns over degrees so that the mean squared kernel error becomes least.

    Parameters
    ----------
    terms : ErrorTerms
        For degrees up to `max_degree` at least.
    n_features : int
        The number of columns, at least 2: one is the constant's, the others are distributed, at least one a degree.
    max_degree : int
        The highest degree allowed.

    Returns
    -------
    list of int
        The number of columns of each degree 0, …, p; p is 2 at least, where that is allowed.

    Notes
    -----
    The published algorithm gives column after column to the degree whose error falls most. That is optimal only for
    terms that are convex in the number of columns, and those of TensorSRHT are not. Dynamic programming over the
    degrees is optimal for any terms, for all p at once, in O(p n_features²).
    """
    budget = n_features - 1
    highest = min(max_degree, budget)
    columns = np.arange(1, budget + 1)
    errors = np.array([terms.of_columns(n, columns) for n in range(1, highest + 1)])
    # least[b]: the least error of the degrees so far with b columns in all; taken[n][b]: how many the last one takes.
    least = np.concatenate(([np.inf], errors[0]))
    taken = [np.arange(budget + 1)]
    totals = [least[budget]]
    for error in errors[1:]:
        shorter, chosen = least, np.zeros(budget + 1, dtype=np.int64)
        least = np.full(budget + 1, np.inf)
        for b in range(2, budget + 1):
            choices = shorter[b - 1 : 0 : -1] + error[: b - 1]
            chosen[b] = choices.argmin() + 1
            least[b] = choices[chosen[b] - 1]
        taken.append(chosen)
        totals.append(least[budget])
    lowest = min(2, highest)
    degree = lowest + int(np.argmin(np.array(totals)[lowest - 1 :] + terms.truncation[lowest : highest + 1]))
    counts = []
    for chosen in reversed(taken[:degree]):
        counts.append(int(chosen[budget]))
        budget -= counts[-1]
    return [1, *reversed(counts)]
