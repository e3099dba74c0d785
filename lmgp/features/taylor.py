"""Taylor features: the explicit monomials of the Maclaurin series of exp(xᵀz)."""

from collections.abc import Iterable
from itertools import combinations_with_replacement
from math import comb

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.features.base import FeatureMap, TruncatedMap, relative_precision, same_kernel, vanishing
from lmgp.features.moments import LARGEST_SQUARE, MomentPlan, monomials, plan
from lmgp.statistics import Statistics
from lmgp.validation import Rows, as_tensor


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
        self._steps = plan(self.exponents_)
        self._moments = MomentPlan(self.exponents_) if MomentPlan.pays(self.exponents_, len(X)) else None

    def columns_in(self, larger: FeatureMap) -> tuple[NDArray[np.intp], float] | None:  # noqa: D102
        n_columns = self.n_features_out_
        if not (isinstance(larger, TaylorFeatures) and same_kernel(self, larger)):
            return None
        nested = np.array_equal(larger.exponents_[:n_columns], self.exponents_)
        return (np.arange(n_columns), 1.0) if nested else None

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        scaled = self._scale(X)
        kept = (~vanishing(scaled.square().sum(dim=1), self.degree_)).to(torch.float64)
        return monomials(scaled, self._steps, 0.5).mul_(kept * self.kernel_.variance**0.5).T

    @property
    def row_size(self) -> int:  # noqa: D102
        return super().row_size if self._moments is None else self._moments.n_values

    def summed(self, chunks: Iterable[Rows], noise_variance: float, *, missing_is_noise: bool = False) -> Statistics:
        """Sum the statistics of rows: by way of their moments, where that is less work."""
        if self._moments is None:
            return super().summed(chunks, noise_variance, missing_is_noise=missing_is_noise)
        total = Statistics.zeros(self.n_features_out_)
        moments = self._moments.sums()
        far = []
        for chunk in chunks:
            scaled = self._scale(as_tensor(chunk.X))
            if scaled.square().sum(dim=1).max() >= LARGEST_SQUARE:
                far.append(chunk)
                continue
            y = as_tensor(chunk.y)
            missing = self.missing_variance(as_tensor(chunk.X)) if missing_is_noise else None
            weights = None if chunk.weights is None else as_tensor(chunk.weights)
            precision = total.add_targets(y, weights, relative_precision(chunk, missing, noise_variance))
            self._moments.add_rows(moments, scaled, y, precision)
        total.gram, total.cross = self._moments.expand(moments, float(self.kernel_.variance))
        return total + super().summed(far, noise_variance, missing_is_noise=missing_is_noise) if far else total


def _total_degree(n_inputs: int, degree: int) -> NDArray[np.int64]:
    """All multi-indices up to a total degree, in order of their degree."""
    exponents = [
        np.bincount(np.asarray(factors, dtype=np.int64), minlength=n_inputs)
        for total in range(degree + 1)
        for factors in combinations_with_replacement(range(n_inputs), total)
    ]
    return np.array(exponents)
