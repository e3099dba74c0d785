"""Gaussian-process regression with localized Maclaurin features.

Keeps the exact Gaussian process's predictive mean and variance at a small part of its cost, and measures by how much.
"""

from lmgp.clustering import farthest_point_clustering
from lmgp.datasets import load_dataset
from lmgp.features.fourier import (
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    StructuredOrthogonalFourierFeatures,
)
from lmgp.features.maclaurin import OptimizedMaclaurinFeatures, RandomMaclaurinFeatures
from lmgp.features.nystroem import NystroemFeatures
from lmgp.features.taylor import TaylorFeatures
from lmgp.kernel import GaussianKernel
from lmgp.models.exact import ExactGPRegressor
from lmgp.models.featurized import FeaturizedGPRegressor
from lmgp.models.localized import LocalizedGPRegressor

__version__ = "0.2.0"

__all__ = [
    "ExactGPRegressor",
    "FeaturizedGPRegressor",
    "GaussianKernel",
    "LocalizedGPRegressor",
    "NystroemFeatures",
    "OptimizedMaclaurinFeatures",
    "OrthogonalFourierFeatures",
    "RandomFourierFeatures",
    "RandomMaclaurinFeatures",
    "StructuredOrthogonalFourierFeatures",
    "TaylorFeatures",
    "__version__",
    "farthest_point_clustering",
    "load_dataset",
]
