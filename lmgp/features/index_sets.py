"""Which monomials a Taylor map has: sets of multi-indices that contain, with each, all that divide it."""

import heapq
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import NDArray

from lmgp.features.moments import HIGHEST_DEGREE, scaled_powers
from lmgp.utils.lazy import torch

Exponents = NDArray[np.int64]


def highest_total_degree(n_inputs: int, n_features: int) -> int:
    """Return the largest p with C(n_inputs + p, p) ≤ n_features, the number of monomials up to that total degree."""
    degree = 0
    while comb(n_inputs + degree + 1, n_inputs) <= n_features:
        degree += 1
    return degree


def total_degree(n_inputs: int, degree: int) -> Exponents:
    """List all multi-indices up to a total degree, in order of their degree, shape (C(d + p, p), d)."""
    exponents = [
        np.bincount(np.asarray(factors, dtype=np.int64), minlength=n_inputs)
        for total in range(degree + 1)
        for factors in combinations_with_replacement(range(n_inputs), total)
    ]
    return np.array(exponents)


def most_energetic(sample: NDArray[np.float64], n_features: int) -> Exponents:
    """Grow a set greedily by the mean energy of its monomials, E[e^{−‖x‖²} x^{2a}/a!].

    Parameters
    ----------
    sample : ndarray of shape (m, d)
        Differences to the centre of the map, in lengthscales.
    n_features : int

    Returns
    -------
    ndarray of shape (n_features, d)
        In the order in which they were taken, so that a smaller set is the start of a larger one. A multi-index can be
        taken after all that are one lower in one input; of equal energies, the one of lower degree goes first.
    """
    n_inputs = sample.shape[1]
    highest = min(n_features, HIGHEST_DEGREE)
    energies = [
        scaled_powers(torch.from_numpy(np.ascontiguousarray(column)), highest, 0.5).numpy() ** 2 for column in sample.T
    ]

    def entry(index: tuple[int, ...]) -> tuple[float, int, tuple[int, ...]]:
        energy = energies[0][index[0]]
        for of_input, power in zip(energies[1:], index[1:], strict=True):
            energy = energy * of_input[power]
        # The largest first; of equal ones that of lower degree, then the powers of the first inputs.
        return -float(energy.mean()), sum(index), tuple(-power for power in index)

    heap = [entry((0,) * n_inputs)]
    taken: dict[tuple[int, ...], None] = {}
    while heap and len(taken) < n_features:
        index = tuple(-power for power in heapq.heappop(heap)[2])
        taken[index] = None
        for j, power in enumerate(index):
            child = (*index[:j], power + 1, *index[j + 1 :])
            parents = ((*child[:i], child[i] - 1, *child[i + 1 :]) for i in range(n_inputs) if child[i])
            # The last parent to be taken lets a child in: it enters once.
            if power < highest and all(parent in taken for parent in parents):
                heapq.heappush(heap, entry(child))
    return np.array(list(taken))
