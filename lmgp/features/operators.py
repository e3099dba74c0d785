"""The operators of feature maps."""

from numbers import Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lmgp.features.composition import ProductFeatures, ScaledFeatures, SumFeatures


class Composable:
    """Gives a feature map the operators of its kernel: ``map1 + map2``, ``map1 * map2``, ``3.0 * map1``.

    The other map may be any scikit-learn transformer.
    """

    __array_ufunc__ = None

    # Composed maps are feature maps themselves: their module can only be imported after this one.
    def __add__(self, other: Any) -> "SumFeatures":
        from lmgp.features.composition import SumFeatures

        return SumFeatures(self, other) if hasattr(other, "transform") else NotImplemented

    def __radd__(self, other: Any) -> "SumFeatures":
        from lmgp.features.composition import SumFeatures

        return SumFeatures(other, self) if hasattr(other, "transform") else NotImplemented

    def __mul__(self, other: Any) -> "ProductFeatures | ScaledFeatures":
        from lmgp.features.composition import ProductFeatures, ScaledFeatures

        if isinstance(other, Real):
            return ScaledFeatures(self, float(other))
        return ProductFeatures(self, other) if hasattr(other, "transform") else NotImplemented

    def __rmul__(self, other: Any) -> "ProductFeatures | ScaledFeatures":
        from lmgp.features.composition import ProductFeatures, ScaledFeatures

        if isinstance(other, Real):
            return ScaledFeatures(self, float(other))
        return ProductFeatures(other, self) if hasattr(other, "transform") else NotImplemented
