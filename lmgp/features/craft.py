"""Compact random features: a larger map followed by a random projection."""

from numbers import Integral
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from lmgp.errors import InputError
from lmgp.features.adapter import TransformerFeatures, seeded_clone
from lmgp.features.base import Composable
from lmgp.features.sketches import padded_size
from lmgp.validation import RandomState, generator

Floats = NDArray[np.float64]


def walsh_hadamard(X: ArrayLike) -> Floats:
    """Multiply rows with the unnormalised Walsh-Hadamard matrix in O(m log m) operations each.

    Parameters
    ----------
    X : array-like of shape (n, m)
        With m a power of two.

    Returns
    -------
    ndarray of shape (n, m)

    Examples
    --------
    >>> walsh_hadamard([[1.0, 2.0, 0.0, 0.0]])
    array([[ 3., -1.,  3., -1.]])
    """
    transformed = np.array(X, dtype=np.float64, order="C")  # a copy, whose reshapes are views
    n_rows, order = transformed.shape
    half = 1
    while half < order:
        pairs = transformed.reshape(n_rows, -1, 2, half)
        difference = pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0] += pairs[:, :, 1]
        pairs[:, :, 1] = difference
        half *= 2
    return transformed


class CraftFeatures(Composable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A feature map with many columns, projected at random to few: unbiased for the map's own kernel.

    Where the columns of a map are redundant, as those of Maclaurin maps and of TensorSketch, the projection of a larger
    one is nearer to the kernel than a map of the final size.

    Parameters
    ----------
    features : scikit-learn transformer
        The larger map, which makes at least `n_features` columns.
    n_features : int, default=512
        The number of columns, D.
    projection : {"gaussian", "srht"}, default="gaussian"
        Independent normal entries; or a subsampled randomised Hadamard transform, of lower variance and in
        O(D' log D') operations a row for D' columns of the larger map.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seeds the projection, and each ``random_state`` of `features` that is None.

    Attributes
    ----------
    features_ : scikit-learn transformer
        The fitted larger map.
    n_features_out_ : int
        The number of columns made.
    n_features_in_ : int
        The number of input columns, d.

    References
    ----------
    R. Hamid, Y. Xiao, A. Gittens and D. DeCoste, *Compact Random Feature Maps*, ICML 2014, section 4.

    Examples
    --------
    >>> from lmgp.features.craft import CraftFeatures
    >>> from lmgp.features.polynomial import PolynomialMaclaurinFeatures
    >>> features = CraftFeatures(PolynomialMaclaurinFeatures(256), n_features=64, projection="srht", random_state=0)
    >>> features.fit_transform([[0.0, 0.5], [1.0, 0.5]]).shape
    (2, 64)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "features": [HasMethods(["fit", "transform"])],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "projection": [StrOptions({"gaussian", "srht"})],
        "random_state": ["random_state", np.random.Generator],
    }

    n_features_in_: int
    _matrix: Floats | None

    def __init__(
        self,
        features: Any,
        n_features: int = 512,
        *,
        projection: Literal["gaussian", "srht"] = "gaussian",
        random_state: RandomState = None,
    ) -> None:
        self.features = features
        self.n_features = n_features
        self.projection = projection
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Fit the larger map, and draw the projection of its columns.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : ignored

        Raises
        ------
        InputError
            If the larger map makes fewer columns than `n_features`, or is no map to finite columns.
        """
        self._validate_params()
        rows: Floats = validate_data(self, X, dtype=np.float64)
        rng = generator(self.random_state)
        # For its checks of what a transformer makes; at unit variance the columns are the transformer's own.
        larger = TransformerFeatures(seeded_clone(self.features, rng)).fit(rows)
        n_larger = larger.n_features_out_
        if n_larger < self.n_features:
            raise InputError(
                f"CraftFeatures projects to fewer columns: n_features is {self.n_features}, but {self.features!r} "
                f"makes only {n_larger}. Give it more columns."
            )
        self._matrix = None
        if self.projection == "gaussian":
            self._matrix = rng.standard_normal((n_larger, self.n_features)) / self.n_features**0.5
        else:
            self._order = padded_size(n_larger)
            self._signs = rng.choice([-1.0, 1.0], size=n_larger) / self.n_features**0.5
            self._kept = rng.permutation(self._order)[: self.n_features]
        self.n_features_out_ = self.n_features
        self._larger, self.features_ = larger, larger.transformer_
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Map rows to features.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_features)
        """
        check_is_fitted(self, "features_")
        columns = self._larger.transform(validate_data(self, X, dtype=np.float64, reset=False))
        if self._matrix is not None:
            return columns @ self._matrix
        padded = np.zeros((len(columns), self._order))
        padded[:, : columns.shape[1]] = columns * self._signs
        return walsh_hadamard(padded)[:, self._kept]

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_
