"""Random Maclaurin features of the polynomial kernel."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, xlogy
from sklearn.utils._param_validation import Interval

from lmgp.errors import InputError
from lmgp.features.base import FeatureMap, MapFit
from lmgp.features.names import by_degree
from lmgp.features.sketches import draw_sketch
from lmgp.fitted import OfFit
from lmgp.validation import RandomState, as_tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class PolynomialFit(MapFit):
    """What `PolynomialMaclaurinFeatures` learns.

    Attributes
    ----------
    degree_counts : ndarray of shape (degree + 1,)
    weights : tuple of ndarray of shape (n, number of columns, d)
    log_factors : ndarray of shape (degree + 1,)
        log √(aₙ/(D πₙ)).
    """

    degree_counts: NDArray[np.int64]
    weights: tuple[Floats, ...]
    log_factors: Floats


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
    >>> from lmgp.features.polynomial import PolynomialMaclaurinFeatures
    >>> features = PolynomialMaclaurinFeatures(n_features=32, degree=2, random_state=0)
    >>> features.fit_transform([[0.0, 0.5], [1.0, 0.5]]).shape
    (2, 32)
    >>> int(features.degree_counts_.sum())
    32
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Real],
        "coef0": [Real],
        "random_state": ["random_state", np.random.Generator],
    }

    degree_counts_ = OfFit[NDArray[np.int64]]()
    weights_ = OfFit[tuple[Floats, ...]]()

    def __init__(
        self,
        n_features: int = 512,
        degree: int = 3,
        gamma: float = 1.0,
        coef0: float = 1.0,
        *,
        random_state: RandomState = None,
    ) -> None:
        self.n_features = n_features
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.random_state = random_state

    def draw(self, X: Floats, rng: np.random.Generator) -> PolynomialFit:  # noqa: D102
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
        weights = tuple(
            draw_sketch("rademacher", degree, count, X.shape[1], rng) for degree, count in enumerate(counts)
        )
        squares = np.full(len(n), -np.inf)
        drawn = np.flatnonzero(counts)
        squares[drawn] = log_coefficients[drawn] - log_probabilities[drawn] - np.log(self.n_features)
        return PolynomialFit(
            n_features_out=self.n_features, degree_counts=counts, weights=weights, log_factors=squares / 2
        )

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return by_degree("maclaurin", self.degree_counts_.tolist())

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:
        """Map a checked tensor of shape (n, d) to features, in order of their degrees.

        Raises
        ------
        InputError
            If a product of projections overflows.
        """
        fit: PolynomialFit = self._fitted
        rows, blocks = X.numpy(), []
        with np.errstate(over="ignore", invalid="ignore"):
            for degree in np.flatnonzero(fit.degree_counts):
                # The factor goes inside the product, so that no power of it overflows.
                scale = np.exp(fit.log_factors[degree] / max(degree, 1))
                scaled = scale * rows
                block = np.full((len(rows), fit.degree_counts[degree]), 1.0 if degree else scale)
                for signs in fit.weights[degree]:
                    block *= scaled @ signs.T
                blocks.append(block)
        features = np.concatenate(blocks, axis=1)
        finite = np.isfinite(features).all(axis=1)
        if not finite.all():
            at = int(np.argmin(finite))
            raise InputError(
                f"The features of row {at} overflow: they are products of up to {len(fit.weights) - 1} sums of its "
                f"entries, of which the largest is {np.abs(rows[at]).max():g}. Divide the columns of X by their scale."
            )
        return as_tensor(features)
