from .base import Kernel
from .columns import ColumnsKernel
from .composite import ExponentialKernel, LinearKernel, ModulatedKernel, ProductKernel, ScaledKernel, SumKernel
from .periodic import PeriodicKernel
from .sphere import SphericalCoordinates
from .stationary import GaussianKernel, MaternKernel, RationalQuadraticKernel, StationaryKernel

__all__ = [
    "ColumnsKernel",
    "ExponentialKernel",
    "GaussianKernel",
    "Kernel",
    "LinearKernel",
    "MaternKernel",
    "ModulatedKernel",
    "PeriodicKernel",
    "ProductKernel",
    "RationalQuadraticKernel",
    "ScaledKernel",
    "SphericalCoordinates",
    "StationaryKernel",
    "SumKernel",
]
