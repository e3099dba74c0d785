"""Taylor features: the explicit monomials of the Maclaurin series of exp(xᵀz)."""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from lmgp.features.allocation import sample_groups
from lmgp.features.base import FeatureMap, TruncatedMap, relative_precision, same_kernel, vanishing
from lmgp.features.index_sets import highest_total_degree, most_energetic, total_degree
from lmgp.features.moments import LARGEST_SQUARE, MomentPlan, monomials, plan
from lmgp.kernel import GaussianKernel
from lmgp.statistics import Statistics
from lmgp.validation import RandomState, Rows, as_tensor

# Rows whose differences to a centroid an index set is grown on, and the degree that sets how far from it they are.
SAMPLE = 500
REACH_DEGREE = 15


class TaylorFeatures(TruncatedMap):
    """Explicit monomials: terms of the series of the Gaussian kernel, exactly.

    φ_a(x) = σ e^{−‖x̃‖²/2} x̃ᵃ/√(a!) for a set of multi-indices a. With all |a| ≤ p these are D = C(d + p, p) columns in
    order of their degree, and the error at two rows is at most σ²(‖x̃‖‖z̃‖)^{p+1}/(p + 1)!. Not random.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns.
    index_set : {"total_degree", "energy"}, default="total_degree"
        Which monomials: all up to the largest total degree that fits into `n_features`; or `n_features` of them, grown
        one by one by their mean square on a sample of the rows within reach of a centre. The latter is better where the
        columns of X have different extents in lengthscales, and has any number of columns.
    kernel
        See `lmgp.features.base.FeatureMap`.
    random_state : ignored
        Nothing is drawn; present so that all maps are made alike.

    Attributes
    ----------
    degree_ : int
        The highest total degree.
    exponents_ : ndarray of shape (n_features_out_, d)
        The multi-index a of each column.

    Notes
    -----
    In low dimension, localized, this map is nearer to the exact GP than any random map of the same size. For many
    input columns the total degree that fits is low: with fewer than d + 1 columns only the constant is left.

    The statistics of a model are sums of moments instead of products of features, where that is less work
    (`lmgp.features.moments`).

    References
    ----------
    A. Cotter, J. Keshet and N. Srebro, *Explicit Approximations of the Gaussian Kernel*, 2011, eq. 11.

    Examples
    --------
    >>> from lmgp import TaylorFeatures
    >>> features = TaylorFeatures(n_features=130).fit([[0.0, 0.0], [1.0, 0.5]])
    >>> features.degree_, features.n_features_out_
    (14, 120)
    >>> features.set_params(index_set="energy").fit([[3.0, 0.0], [-2.0, 0.1]]).exponents_.max(axis=0).tolist()
    [40, 5]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **TruncatedMap._parameter_constraints,
        "index_set": [StrOptions({"total_degree", "energy"})],
    }

    exponents_: NDArray[np.int64]

    def __init__(
        self,
        n_features: int = 512,
        *,
        index_set: Literal["total_degree", "energy"] = "total_degree",
        kernel: GaussianKernel | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(n_features, kernel=kernel, random_state=random_state)
        self.index_set = index_set

    def _draw(
        self, X: NDArray[np.float64], rng: np.random.Generator, centroids: NDArray[np.float64] | None = None
    ) -> None:
        degree = highest_total_degree(X.shape[1], self.n_features)
        if self.index_set == "energy":
            scaled = self.kernel_.scale(X)
            centres = np.zeros((1, X.shape[1])) if centroids is None else self.kernel_.scale(centroids)
            groups = sample_groups(scaled, centres, SAMPLE, max(degree, REACH_DEGREE), np.random.default_rng(0))
            self.exponents_ = most_energetic(np.concatenate(groups), self.n_features)
        else:
            self.exponents_ = total_degree(X.shape[1], degree)
        self.degree_ = int(self.exponents_.sum(axis=1).max())
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

    def missing_variance(self, X: torch.Tensor, features: torch.Tensor | None = None) -> torch.Tensor:  # noqa: D102
        if self.index_set == "total_degree":
            return super().missing_variance(X)
        features = self.evaluate(X) if features is None else features
        # Rounding alone can make the difference negative, near the centre.
        return (self.kernel_.variance - features.square().sum(dim=1)).clamp(min=0.0)

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
