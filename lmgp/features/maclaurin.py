"""Random Maclaurin features: sketches of the terms of the series of exp(xᵀz)."""

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaln
from sklearn.utils._param_validation import Interval, StrOptions

from lmgp.errors import InputError
from lmgp.features.allocation import ErrorTerms, allocate, sample_groups
from lmgp.features.base import KernelMap, Work
from lmgp.features.names import by_degree
from lmgp.features.sketches import SKETCHES, Sketch, draw_sketch
from lmgp.features.truncated import ComponentMap, GaussianFit, TruncatedFit, TruncatedMap, vanishing
from lmgp.fitted import OfFit
from lmgp.kernels.base import Kernel
from lmgp.kernels.stationary import GaussianKernel
from lmgp.locality.places import distinct_places
from lmgp.validation import RandomState, as_tensor, spawn

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class SketchedFit(GaussianFit):
    """What a random Maclaurin map draws.

    Attributes
    ----------
    degree_counts : ndarray of shape (highest degree + 1,)
        The number of columns of each degree.
    weights : list of ndarray of shape (n, number of columns, d)
        The projections of the sketch of each degree n.
    """

    degree_counts: NDArray[np.int64]
    weights: list[Floats]


@dataclass(frozen=True, eq=False, kw_only=True)
class AllocatedFit(SketchedFit, TruncatedFit):
    """What an optimised Maclaurin map draws: sketches up to the degree of a truncated series."""


class _MaclaurinMap(ComponentMap):
    """φ(x) = σ e^{−‖x̃‖²/2} (c₀, c₁φ₁(x̃), c₂φ₂(x̃), …) with a sketch φₙ of degree n."""

    degree_counts_ = OfFit[NDArray[np.int64]]()
    weights_ = OfFit[list[Floats]]()

    @abstractmethod
    def _log_coefficient(self, fit: Any, degree: int) -> float:
        """Return the logarithm of the factor of a product of `degree` projections, without σ and the exponential."""

    def _names_one(self, fit: SketchedFit) -> list[str]:
        return by_degree("maclaurin", fit.degree_counts.tolist())

    @staticmethod
    def _draw_weights(counts: list[int], sketch: Sketch, n_inputs: int, rng: np.random.Generator) -> list[Floats]:
        # With one input column there is nothing to sketch: (xz)ⁿ is the product of xⁿ and zⁿ.
        return [
            np.ones((degree, count, 1)) if n_inputs == 1 else draw_sketch(sketch, degree, count, n_inputs, rng)
            for degree, count in enumerate(counts)
        ]

    def _evaluate(self, fit: Any, X: torch.Tensor) -> torch.Tensor:
        scaled = fit.scale(X)
        features = torch.empty((len(scaled), fit.n_features_out), dtype=torch.float64)
        squares = scaled.square().sum(dim=1, keepdim=True)
        squares[vanishing(squares, len(fit.weights) - 1)] = torch.inf
        stop = 0
        for degree, weights in enumerate(fit.weights):
            start, stop = stop, stop + weights.shape[1]
            columns = features[:, start:stop]
            log_factor = self._log_coefficient(fit, degree) + 0.5 * np.log(fit.component.variance)
            if degree == 0:
                columns[:] = torch.exp(log_factor - squares / 2.0)
                continue
            # The exponential and the coefficient go inside the product, so that no power overflows.
            damped = scaled * torch.exp((log_factor - squares / 2.0) / degree)
            torch.matmul(damped, as_tensor(weights[0]).T, out=columns)
            for factor in weights[1:]:
                columns.mul_(damped @ as_tensor(factor).T)
        return features


class RandomMaclaurinFeatures(_MaclaurinMap):
    """Random Maclaurin features with random degrees: the unoptimised baseline.

    Each column draws its degree n with probability 2^−(n+1) and is a product of n random projections. Unbiased for the
    whole series, with a large variance. `OptimizedMaclaurinFeatures` allocates its columns by the error of each degree.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns.
    kernel, random_state
        See `lmgp.features.base.KernelMap`.

    Attributes
    ----------
    degree_counts_ : ndarray of shape (highest degree + 1,)
        The number of columns of each degree.

    References
    ----------
    P. Kar and H. Karnick, *Random Feature Maps for Dot Product Kernels*, AISTATS 2012, Algorithm 1.

    Examples
    --------
    >>> from lmgp import RandomMaclaurinFeatures
    >>> features = RandomMaclaurinFeatures(n_features=32, random_state=0).fit([[0.0, 0.0], [1.0, 0.5]])
    >>> int(features.degree_counts_.sum())
    32
    """

    def _draw_one(
        self, X: Floats, rng: np.random.Generator, kernel: GaussianKernel, centroids: Floats | None
    ) -> SketchedFit:
        counts = np.bincount(rng.geometric(0.5, size=self.n_features) - 1)
        weights = self._draw_weights(counts.tolist(), "rademacher", X.shape[1], rng)
        return SketchedFit(
            n_features_out=self.n_features, kernel=kernel, component=kernel, degree_counts=counts, weights=weights
        )

    def _log_coefficient(self, fit: Any, degree: int) -> float:
        return 0.5 * float((degree + 1) * np.log(2.0) - gammaln(degree + 1) - np.log(fit.n_features_out))


class OptimizedMaclaurinFeatures(_MaclaurinMap, TruncatedMap):
    """Random Maclaurin features whose columns are allocated to degrees so that the kernel error is least.

    k(x, z) = σ² e^{−(‖x̃‖²+‖z̃‖²)/2} Σₙ (x̃ᵀz̃)ⁿ/n!; the constant term is exact, and degree n gets a polynomial sketch with
    D_n columns. The allocation and the degree p of the truncated series minimise the mean squared error over pairs of
    rows, from the closed form of the sketches' variances.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns, at least 2.
    sketch : {"rademacher", "gaussian", "tensor_srht"}, default="tensor_srht"
        See `lmgp.features.sketches`.
    max_degree : int, default=15
        The highest degree allowed.
    n_allocation_rows : int, default=500
        The number of rows from which the pairs are made. Rows at one place are one.
    allocation : {"local", "mean"}, default="local"
        "local" makes pairs of rows within reach of a common centroid, as differences to it; of the origin, if `fit` is
        given no centroids. "mean" makes pairs of any rows, as differences to the origin, as published.
    kernel, random_state
        See `lmgp.features.base.KernelMap`.

    Attributes
    ----------
    degree_counts_ : ndarray of shape (degree_ + 1,)
        The number of columns of each degree. With one input column each degree has its one exact column, and there
        are at most ``max_degree + 1`` columns.
    degree_ : int
        The degree of the truncated series.

    Notes
    -----
    The map is centred at the origin. Its prior variance falls as σ² Q(p + 1, ‖x̃‖²) with the distance from there, so a
    single map cannot serve data that extend over many lengthscales: localize it.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, section 2.3, eq. 5.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import OptimizedMaclaurinFeatures
    >>> X = np.random.default_rng(0).normal(size=(100, 4)) / 2
    >>> features = OptimizedMaclaurinFeatures(n_features=64, random_state=0).fit(X)
    >>> int(features.degree_counts_.sum()), int(features.degree_counts_[0])
    (64, 1)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelMap._parameter_constraints,
        "sketch": [StrOptions(set(SKETCHES))],
        "max_degree": [Interval(Integral, 1, None, closed="left")],
        "n_allocation_rows": [Interval(Integral, 2, None, closed="left")],
        "allocation": [StrOptions({"local", "mean"})],
    }

    def __init__(
        self,
        n_features: int = 512,
        *,
        sketch: Sketch = "tensor_srht",
        max_degree: int = 15,
        n_allocation_rows: int = 500,
        allocation: Literal["local", "mean"] = "local",
        kernel: Kernel | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(n_features, kernel=kernel, random_state=random_state)
        self.sketch = sketch
        self.max_degree = max_degree
        self.n_allocation_rows = n_allocation_rows
        self.allocation = allocation

    def _work_one(self, n_features: int, n_inputs: int) -> Work:
        highest = min(self.max_degree, max(1, n_features - 1))
        return Work(highest + 1 if n_inputs == 1 else n_features, None, highest)

    def _draw_one(
        self, X: Floats, rng: np.random.Generator, kernel: GaussianKernel, centroids: Floats | None
    ) -> AllocatedFit:
        if self.n_features < 2:
            raise InputError(
                f"OptimizedMaclaurinFeatures needs a column for the constant and one for a degree: n_features must be "
                f"at least 2; got {self.n_features}."
            )
        scaled = kernel.scale(distinct_places(X)[0])
        n_inputs = scaled.shape[1]
        highest = min(self.max_degree, self.n_features - 1)
        # Two streams: what is drawn for given counts does not depend on the number of rows that were sampled.
        sampling, drawing = spawn(rng, 2)
        if n_inputs == 1:
            counts = [1] * (highest + 1)
        elif len(scaled) == 1:
            # One row makes no pair: as for a row at the centre, only the constant has any weight.
            counts = [1] * min(2, highest) + [self.n_features - min(2, highest)]
        else:
            if self.allocation == "mean":
                groups = [scaled[sampling.permutation(len(scaled))[: self.n_allocation_rows]]]
            else:
                centres = np.zeros((1, n_inputs)) if centroids is None else kernel.scale(centroids)
                groups = sample_groups(scaled, centres, self.n_allocation_rows, self.max_degree, sampling)
            counts = allocate(ErrorTerms.of_groups(groups, self.sketch, highest), self.n_features, highest)
        return AllocatedFit(
            n_features_out=sum(counts),
            kernel=kernel,
            component=kernel,
            degree=len(counts) - 1,
            degree_counts=np.asarray(counts),
            weights=self._draw_weights(counts, self.sketch, n_inputs, drawing),
        )

    def _log_coefficient(self, fit: Any, degree: int) -> float:
        return -0.5 * float(gammaln(degree + 1) + np.log(fit.degree_counts[degree]))
