"""Compact random features: a larger map followed by a random projection."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from lmgp.errors import InputError
from lmgp.features.adapter import TransformerFeatures, seeded_clone
from lmgp.features.base import FeatureMap, MapFit
from lmgp.features.names import indexed
from lmgp.features.sketches import padded_size
from lmgp.fitted import OfFit
from lmgp.validation import RandomState, as_tensor

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


@dataclass(frozen=True, eq=False)
class GaussianProjection:
    """Independent normal entries.

    Attributes
    ----------
    matrix : ndarray of shape (D', D)
    """

    matrix: Floats

    @classmethod
    def draw(cls, n_larger: int, n_features: int, rng: np.random.Generator) -> "GaussianProjection":
        """Draw a projection of D' columns to D."""
        return cls(rng.standard_normal((n_larger, n_features)) / n_features**0.5)

    def __call__(self, columns: Floats) -> Floats:
        """Project rows of D' columns."""
        return columns @ self.matrix


@dataclass(frozen=True, eq=False)
class HadamardProjection:
    """A randomised Hadamard transform, of which D columns are kept.

    Attributes
    ----------
    order : int
        A power of two, at least D'.
    signs : ndarray of shape (D',)
        Of the columns, with the scale of the projection.
    kept : ndarray of shape (D,)
    """

    order: int
    signs: Floats
    kept: NDArray[np.int64]

    @classmethod
    def draw(cls, n_larger: int, n_features: int, rng: np.random.Generator) -> "HadamardProjection":
        """Draw a projection of D' columns to D."""
        order = padded_size(n_larger)
        signs = rng.choice([-1.0, 1.0], size=n_larger) / n_features**0.5
        return cls(order, signs, rng.permutation(order)[:n_features])

    def __call__(self, columns: Floats) -> Floats:
        """Project rows of D' columns."""
        padded = np.zeros((len(columns), self.order))
        padded[:, : columns.shape[1]] = columns * self.signs
        return walsh_hadamard(padded)[:, self.kept]


PROJECTIONS: dict[str, type[GaussianProjection] | type[HadamardProjection]] = {
    "gaussian": GaussianProjection,
    "srht": HadamardProjection,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class CraftFit(MapFit):
    """What `CraftFeatures` learns.

    Attributes
    ----------
    larger : TransformerFeatures
        The larger map, with checks of what it makes.
    projection : GaussianProjection or HadamardProjection
    """

    larger: TransformerFeatures
    projection: GaussianProjection | HadamardProjection

    @property
    def features(self) -> Any:
        """The fitted transformer itself."""
        return self.larger.transformer_


class CraftFeatures(FeatureMap):
    """A feature map with many columns, projected at random to few: unbiased for the map's own kernel.

    The columns of Maclaurin maps and of TensorSketch are redundant. A projection of such a map with many columns
    approximates the kernel better than the same map with the final number of columns.

    Parameters
    ----------
    features : scikit-learn transformer
        The larger map, which makes at least `n_features` columns.
    n_features : int, default=512
        The number of columns, D.
    projection : {"gaussian", "srht"}, default="gaussian"
        Independent normal entries; or a subsampled randomised Hadamard transform, which has a lower variance and takes
        O(D' log D') operations a row, for D' columns of the larger map.
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
        "projection": [StrOptions(set(PROJECTIONS))],
        "random_state": ["random_state", np.random.Generator],
    }

    features_ = OfFit[Any]()

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

    def draw(self, X: Floats, rng: np.random.Generator) -> CraftFit:  # noqa: D102
        # At unit variance the columns of the adapter are the transformer's own.
        larger = TransformerFeatures(seeded_clone(self.features, rng)).fit(X)
        n_larger = larger.n_features_out_
        if n_larger < self.n_features:
            raise InputError(
                f"CraftFeatures projects to fewer columns: n_features is {self.n_features}, but {self.features!r} "
                f"makes only {n_larger}. Give it more columns."
            )
        projection = PROJECTIONS[self.projection].draw(n_larger, self.n_features, rng)
        return CraftFit(n_features_out=self.n_features, larger=larger, projection=projection)

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return indexed("craft", self.n_features_out_)

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        fit: CraftFit = self._fitted
        return as_tensor(fit.projection(fit.larger.evaluate(X).numpy()))
