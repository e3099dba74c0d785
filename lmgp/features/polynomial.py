"""Random Maclaurin features of the polynomial kernel."""

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, logsumexp, xlogy
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from lmgp.errors import InputError
from lmgp.features.base import Composable
from lmgp.features.sketches import draw_sketch
from lmgp.validation import RandomState, generator

Floats = NDArray[np.float64]


class PolynomialMaclaurinFeatures(Composable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Random Maclaurin features for the polynomial kernel (gamma xᵀz + coef0)ᵖ = Σₙ aₙ (xᵀz)ⁿ.

    A column of degree n is √(aₙ/(D πₙ)) times a product of n random projections by signs; its degree is drawn with
    the probability πₙ, in proportion to 2^−(n+1). Unbiased for any rows, with a large variance at high degrees.

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
    weights_ : list of ndarray of shape (n, number of columns, d)
        For each degree n, the signs of the n projections.
    n_features_in_ : int
        The number of input columns, d.

    Notes
    -----
    Degrees are drawn from those with aₙ > 0 alone: all up to `degree`, or only `degree` itself where `coef0` is zero.
    The published algorithm draws from all integers, and the columns of the others are zero.

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

    degree_counts_: NDArray[np.int64]
    weights_: list[Floats]
    n_features_in_: int

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

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the columns for rows of this length.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : ignored

        Raises
        ------
        InputError
            If `gamma` is not positive, or `coef0` is negative: a coefficient of the kernel would be negative.
        """
        self._validate_params()
        if not 0 < self.gamma < np.inf:
            raise InputError(f"gamma must be positive and finite; got {self.gamma!r}.")
        if not 0 <= self.coef0 < np.inf:
            raise InputError(
                f"coef0 must be finite and not negative, for the kernel to be positive definite; got {self.coef0!r}."
            )
        n_inputs = validate_data(self, X, dtype=np.float64).shape[1]
        rng = generator(self.random_state)
        n = np.arange(self.degree + 1)
        log_coefficients = (
            gammaln(self.degree + 1) - gammaln(n + 1) - gammaln(self.degree - n + 1)
            + n * np.log(self.gamma) + xlogy(self.degree - n, self.coef0)
        )  # fmt: skip
        log_probabilities = np.where(np.isfinite(log_coefficients), -n * np.log(2.0), -np.inf)
        log_probabilities -= logsumexp(log_probabilities)
        degrees = rng.choice(n, size=self.n_features, p=np.exp(log_probabilities))
        self.degree_counts_ = np.bincount(degrees, minlength=len(n))
        self.weights_ = [
            draw_sketch("rademacher", degree, count, n_inputs, rng) for degree, count in enumerate(self.degree_counts_)
        ]
        drawn = np.flatnonzero(self.degree_counts_)
        squares = np.full(len(n), -np.inf)
        squares[drawn] = log_coefficients[drawn] - log_probabilities[drawn] - np.log(self.n_features)
        self._log_factors = squares / 2
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Map rows to features, in order of their degrees.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_features)
        """
        check_is_fitted(self, "weights_")
        rows: Floats = validate_data(self, X, dtype=np.float64, reset=False)
        blocks = []
        for degree in np.flatnonzero(self.degree_counts_):
            # The factor goes inside the product, so that no power overflows.
            scale = np.exp(self._log_factors[degree] / max(degree, 1))
            scaled = scale * rows
            block = np.full((len(rows), self.degree_counts_[degree]), 1.0 if degree else scale)
            for signs in self.weights_[degree]:
                block *= scaled @ signs.T
            blocks.append(block)
        return np.concatenate(blocks, axis=1)

    @property
    def _n_features_out(self) -> int:
        return int(self.degree_counts_.sum())
