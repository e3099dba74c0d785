"""Random Maclaurin features: sketches of the terms of the series of a Gaussian, and of a polynomial, kernel."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, xlogy
from sklearn.utils._param_validation import Interval, StrOptions

from lmgp.data import Floats, RandomState, as_tensor, spawn
from lmgp.errors import InputError
from lmgp.features.allocation import ErrorTerms, allocate, sample_groups
from lmgp.features.base import FeatureMap, KernelMap, Work, by_degree
from lmgp.features.series import SeriesMap, vanishing
from lmgp.features.sketches import SKETCHES, Sketch, draw_sketch
from lmgp.neighbours.placement import distinct_places
from lmgp.utils.lazy import Tensor, torch


class MaclaurinMap(SeriesMap):
    """φ(x) = σ e^{−‖x̃‖²/2} (c₀, c₁φ₁(x̃), c₂φ₂(x̃), …) with a sketch φₙ of degree n."""

    degree_counts_: NDArray[np.int64]
    # The projections of the sketch of each degree n, of shape (n, number of columns, d).
    weights_: list[Floats]

    @abstractmethod
    def _log_coefficient(self, degree: int) -> float:
        """Return the logarithm of the factor of a product of `degree` projections, without σ and the exponential."""

    def _names_one(self) -> list[str]:
        return by_degree("maclaurin", self.degree_counts_.tolist())

    @staticmethod
    def _draw_weights(counts: list[int], sketch: Sketch, n_inputs: int, rng: np.random.Generator) -> list[Floats]:
        # With one input column there is nothing to sketch: (xz)ⁿ is the product of xⁿ and zⁿ.
        return [
            np.ones((degree, count, 1)) if n_inputs == 1 else draw_sketch(sketch, degree, count, n_inputs, rng)
            for degree, count in enumerate(counts)
        ]

    def _evaluate_one(self, X: Tensor) -> Tensor:
        scaled = self.in_lengthscales(X)
        squares = scaled.square().sum(dim=1, keepdim=True)
        squares[vanishing(squares, len(self.weights_) - 1)] = torch.inf
        factors = [self._log_coefficient(n) + 0.5 * np.log(self.component_.variance) for n in range(len(self.weights_))]
        return products_of_projections(scaled, self.weights_, [factor - squares / 2.0 for factor in factors])


def products_of_projections(X: Tensor, weights: Sequence[Floats], log_factors: Sequence[Tensor]) -> Tensor:
    """Evaluate the sketches of several degrees, each times a factor of the degree and of the row.

    Parameters
    ----------
    X : Tensor of shape (n, d)
    weights : sequence of ndarray of shape (degree, number of columns, d)
        For the degrees 0, 1, ….
    log_factors : sequence of Tensor of shape (n, 1) or (1, 1)
        The logarithm of each degree's factor.

    Returns
    -------
    Tensor of shape (n, n_features_out)
        In order of the degrees.
    """
    sizes = [each.shape[1] for each in weights]
    features = torch.empty((len(X), sum(sizes)), dtype=torch.float64)
    for degree, (columns, each, log_factor) in enumerate(
        zip(features.split(sizes, dim=1), weights, log_factors, strict=True)
    ):
        if degree == 0:
            columns[:] = torch.exp(log_factor)
            continue
        # The factor goes inside the product, so that no power overflows.
        damped = X * torch.exp(log_factor / degree)
        torch.matmul(damped, as_tensor(each[0]).T, out=columns)
        for projection in each[1:]:
            columns.mul_(damped @ as_tensor(projection).T)
    return features


class RandomMaclaurinFeatures(MaclaurinMap):
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
        The number of columns of each degree. Of a sum of Gaussians, each of `parts` has its own.

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

    def _draw_one(self, X: Floats, rng: np.random.Generator, centroids: Floats | None) -> None:
        self.n_features_out_ = self.n_features
        self.degree_counts_ = np.bincount(rng.geometric(0.5, size=self.n_features) - 1)
        self.weights_ = self._draw_weights(self.degree_counts_.tolist(), "rademacher", X.shape[1], rng)

    def _log_coefficient(self, degree: int) -> float:
        return 0.5 * float((degree + 1) * np.log(2.0) - gammaln(degree + 1) - np.log(self.n_features_out_))


@dataclass(eq=False, repr=False)
class OptimizedMaclaurinFeatures(MaclaurinMap):
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
        are at most ``max_degree + 1`` columns. Of a sum of Gaussians, each of `parts` has its own.
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

    _: KW_ONLY
    sketch: Sketch = "tensor_srht"
    max_degree: int = 15
    n_allocation_rows: int = 500
    allocation: Literal["local", "mean"] = "local"

    def _work_one(self, n_features: int, n_inputs: int) -> Work:
        highest = min(self.max_degree, max(1, n_features - 1))
        return Work(highest + 1 if n_inputs == 1 else n_features, None, highest)

    def _draw_one(self, X: Floats, rng: np.random.Generator, centroids: Floats | None) -> None:
        if self.n_features < 2:
            raise InputError(
                f"OptimizedMaclaurinFeatures needs a column for the constant and one for a degree: n_features must be "
                f"at least 2; got {self.n_features}."
            )
        scaled = self.component_.in_lengthscales(distinct_places(X)[0])
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
                centres = np.zeros((1, n_inputs)) if centroids is None else self.component_.in_lengthscales(centroids)
                groups = sample_groups(scaled, centres, self.n_allocation_rows, self.max_degree, sampling)
            counts = allocate(ErrorTerms.of_groups(groups, self.sketch, highest), self.n_features, highest)
        self.n_features_out_, self.degree_ = sum(counts), len(counts) - 1
        self.degree_counts_ = np.asarray(counts)
        self.weights_ = self._draw_weights(counts, self.sketch, n_inputs, drawing)

    def _log_coefficient(self, degree: int) -> float:
        return -0.5 * float(gammaln(degree + 1) + np.log(self.degree_counts_[degree]))


@dataclass(eq=False, repr=False)
class PolynomialMaclaurinFeatures(FeatureMap):
    """Random Maclaurin features for the polynomial kernel (gamma xᵀz + coef0)ᵖ = Σₙ aₙ (xᵀz)ⁿ.

    A column of degree n is √(aₙ/(D πₙ)) times a product of n projections of the row on random signs. Its degree is
    drawn with probability πₙ ∝ 2^−(n+1). The map is unbiased; its variance is large at high degrees.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns, D.
    degree : int, default=3
        p, at least 1.
    gamma : float, default=1.0
        Positive.
    coef0 : float, default=1.0
        Not negative.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of what is drawn.

    Attributes
    ----------
    degree_counts_ : ndarray of shape (degree + 1,)
        The number of columns of each degree.
    weights_ : tuple of ndarray of shape (n, number of columns, d)
        For each degree n, the signs of the n projections.
    n_features_in_ : int
        The number of input columns, d.

    Notes
    -----
    Only degrees with aₙ > 0 are drawn: all up to `degree`, or only `degree` itself where `coef0` is zero. The published
    algorithm draws from all integers, so that some of its columns are zero.

    References
    ----------
    P. Kar and H. Karnick, *Random Feature Maps for Dot Product Kernels*, AISTATS 2012, Algorithm 1.

    Examples
    --------
    >>> from lmgp.features.maclaurin import PolynomialMaclaurinFeatures
    >>> features = PolynomialMaclaurinFeatures(n_features=32, degree=2, random_state=0)
    >>> features.fit_transform([[0.0, 0.5], [1.0, 0.5]]).shape
    (2, 32)
    >>> int(features.degree_counts_.sum())
    32
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FeatureMap._parameter_constraints,
        "degree": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Real],
        "coef0": [Real],
    }

    n_features: int = 512
    degree: int = 3
    gamma: float = 1.0
    coef0: float = 1.0
    _: KW_ONLY
    random_state: RandomState = None
    degree_counts_: NDArray[np.int64] = field(init=False)
    weights_: tuple[Floats, ...] = field(init=False)
    log_factors_: Floats = field(init=False)  # log √(aₙ/(D πₙ)) of each degree n

    def draw(self, X: Floats, rng: np.random.Generator) -> None:  # noqa: D102
        if not 0 < self.gamma < np.inf:
            raise InputError(f"gamma must be positive and finite; got {self.gamma!r}.")
        if not 0 <= self.coef0 < np.inf:
            raise InputError(
                f"coef0 must be finite and not negative, for the kernel to be positive definite; got {self.coef0!r}."
            )
        n = np.arange(self.degree + 1)
        log_coefficients = (
            gammaln(self.degree + 1) - gammaln(n + 1) - gammaln(self.degree - n + 1)
            + n * np.log(self.gamma) + xlogy(self.degree - n, self.coef0)
        )  # fmt: skip
        log_probabilities = np.where(np.isfinite(log_coefficients), -n * np.log(2.0), -np.inf)
        log_probabilities -= logsumexp(log_probabilities)
        degrees = rng.choice(n, size=self.n_features, p=np.exp(log_probabilities))
        counts = np.bincount(degrees, minlength=len(n))
        self.degree_counts_, self.n_features_out_ = counts, self.n_features
        self.weights_ = tuple(
            draw_sketch("rademacher", degree, count, X.shape[1], rng) for degree, count in enumerate(counts)
        )
        squares = np.full(len(n), -np.inf)
        drawn = np.flatnonzero(counts)
        squares[drawn] = log_coefficients[drawn] - log_probabilities[drawn] - np.log(self.n_features)
        self.log_factors_ = squares / 2

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return by_degree("maclaurin", self.degree_counts_.tolist())

    def evaluate(self, X: Tensor) -> Tensor:
        """Map a checked tensor of shape (n, d) to features, in order of their degrees.

        Raises
        ------
        InputError
            If a product of projections overflows.
        """
        features = products_of_projections(X, self.weights_, list(as_tensor(self.log_factors_)[:, None, None]))
        finite = torch.isfinite(features).all(dim=1)
        if not finite.all():
            at = int(finite.int().argmin())
            largest = float(X[at].abs().max())
            raise InputError(
                f"The features of row {at} overflow: they are products of up to {len(self.weights_) - 1} sums of its "
                f"entries, of which the largest is {largest:g}. Divide the columns of X by their scale."
            )
        return features
