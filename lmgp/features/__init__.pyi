from .base import FeatureMap, KernelMap, Work
from .composition import (
    CraftFeatures,
    LinearFeatures,
    ModulatedFeatures,
    ProductFeatures,
    ScaledFeatures,
    SumFeatures,
    exact_features,
)
from .fourier import OrthogonalFourierFeatures, RandomFourierFeatures, StructuredOrthogonalFourierFeatures
from .maclaurin import OptimizedMaclaurinFeatures, PolynomialMaclaurinFeatures, RandomMaclaurinFeatures
from .nystroem import NystroemFeatures
from .spherical import SphericalFourierFeatures
from .taylor import TaylorFeatures

__all__ = [
    "CraftFeatures",
    "FeatureMap",
    "KernelMap",
    "LinearFeatures",
    "ModulatedFeatures",
    "NystroemFeatures",
    "OptimizedMaclaurinFeatures",
    "OrthogonalFourierFeatures",
    "PolynomialMaclaurinFeatures",
    "ProductFeatures",
    "RandomFourierFeatures",
    "RandomMaclaurinFeatures",
    "ScaledFeatures",
    "SphericalFourierFeatures",
    "StructuredOrthogonalFourierFeatures",
    "SumFeatures",
    "TaylorFeatures",
    "Work",
    "exact_features",
]
