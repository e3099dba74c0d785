from .base import Kernel
from .composite import ExponentialKernel, LinearKernel, ModulatedKernel, ProductKernel, ScaledKernel, SumKernel
from .sphere import SphericalCoordinates
from .stationary import GaussianKernel, MaternKernel, RationalQuadraticKernel, StationaryKernel

__all__ = [
    "ExponentialKernel",
    "GaussianKernel",
    "Kernel",
    "LinearKernel",
    "MaternKernel",
    "ModulatedKernel",
    "ProductKernel",
    "RationalQuadraticKernel",
    "ScaledKernel",
    "SphericalCoordinates",
    "StationaryKernel",
    "SumKernel",
]
