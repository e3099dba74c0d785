"""Taylor features: the explicit monomials of the Maclaurin series of exp(xᵀz)."""

from itertools import combinations_with_replacement
from math import comb

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaln

from lmgp.features.base import FeatureMap, TruncatedMap, same_kernel, vanishing
from lmgp.validation import as_tensor


class TaylorFeatures(TruncatedMap):
    """All monomials up to a total degree: the truncated series of the Gaussian kernel, exactly.

    φ_a(x) = σ e^{−‖x̃‖²/2} x̃ᵃ/√(a!) for all multi-indices a with |a| ≤ p, D = C(d + p, p) columns in order of their
    degree. Not random. The error at two rows is at most σ²(‖x̃‖‖z̃‖)^{p+1}/(p + 1)!.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns; the largest degree that fits is taken.
    kernel
        See `lmgp.features.base.FeatureMap`.
    random_state : ignored
        Nothing is drawn; present so that all maps are made alike.

    Attributes
    ----------
    degree_ : int
        p, the total degree.
    exponents_ : ndarray of shape (n_features_out_, d)
        The multi-index a of each column.

    Notes
    -----
    In low dimension, localized, this map is nearer to the exact GP than any random map of the same size. For many
    input columns the degree that fits is low: with fewer than d + 1 columns only the constant is left.

    References
    ----------
    A. Cotter, J. Keshet and N. Srebro, *Explicit Approximations of the Gaussian Kernel*, 2011, eq. 11.

    Examples
    --------
    >>> from lmgp import TaylorFeatures
    >>> features = TaylorFeatures(n_features=130).fit([[0.0, 0.0], [1.0, 0.5]])
    >>> features.degree_, features.n_features_out_
    (14, 120)
    """

    exponents_: NDArray[np.int64]

    def _draw(self, X: NDArray[np.float64], rng: np.random.Generator) -> None:
        n_inputs = X.shape[1]
        degree = 0
        while comb(n_inputs + degree + 1, n_inputs) <= self.n_features:
            degree += 1
        self.degree_ = degree
        self.exponents_ = _total_degree(n_inputs, degree)
        self.n_features_out_ = len(self.exponents_)
        self._plan = _plan(self.exponents_)

    def columns_in(self, larger: FeatureMap) -> tuple[NDArray[np.intp], float] | None:  # noqa: D102
        n_columns = self.n_features_out_
        if not (isinstance(larger, TaylorFeatures) and same_kernel(self, larger)):
            return None
        nested = np.array_equal(larger.exponents_[:n_columns], self.exponents_)
        return (np.arange(n_columns), 1.0) if nested else None

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        scaled = self._scale(X)
        vanished = vanishing(scaled.square().sum(dim=1), self.degree_)
        # Features are rows here, so that picking some of them copies contiguous memory.
        features = (~vanished).to(torch.float64)[None, :] * self.kernel_.variance**0.5
        for j, (parents, exponents) in enumerate(self._plan):
            powers = _scaled_powers(scaled[:, j], int(exponents.max()))
            features = features[parents].mul_(powers[exponents])
        return features.T


def _plan(exponents: NDArray[np.int64]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Say how the monomials of the first j + 1 inputs follow from those of the first j: which one times which power."""
    steps = []
    parent = np.zeros(len(exponents), dtype=np.int64)
    for j in range(exponents.shape[1]):
        _, first, inverse = np.unique(exponents[:, : j + 1], axis=0, return_index=True, return_inverse=True)
        if j == exponents.shape[1] - 1:  # the last step gives the columns in their order
            first, inverse = np.arange(len(exponents)), np.arange(len(exponents))
        steps.append((parent[first], exponents[first, j]))
        parent = inverse.ravel()
    return steps


def _scaled_powers(x: torch.Tensor, degree: int) -> torch.Tensor:
    """e^{−x²/2} xᵏ/√(k!) for k = 0, …, degree, shape (degree + 1, n)."""
    # In logarithms: the exponential alone underflows where the power brings the product back into range.
    k = torch.arange(degree + 1, dtype=torch.float64)[:, None]
    logarithm = torch.xlogy(k, x.abs()) - as_tensor(gammaln(k.numpy() + 1.0)) / 2.0 - x.square() / 2.0
    magnitude = torch.exp(logarithm)
    return torch.where((k % 2 == 1) & (x < 0), -magnitude, magnitude)


def _total_degree(n_inputs: int, degree: int) -> NDArray[np.int64]:
    """All multi-indices up to a total degree, in order of their degree."""
    exponents = [
        np.bincount(np.asarray(factors, dtype=np.int64), minlength=n_inputs)
        for total in range(degree + 1)
        for factors in combinations_with_replacement(range(n_inputs), total)
    ]
    return np.array(exponents)
