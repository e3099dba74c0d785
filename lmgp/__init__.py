"""Gaussian-process regression with localized Maclaurin features.

Keeps the exact Gaussian process's predictive mean and variance at a small part of its cost, and measures by how much.
Around that core: kernels and feature maps that compose, linear models on them, and fast prediction with fitted RBF
models.
"""

from lmgp.datasets import load_dataset
from lmgp.features.composition import (
    LinearFeatures,
    ModulatedFeatures,
    ProductFeatures,
    ScaledFeatures,
    SumFeatures,
    exact_features,
)
from lmgp.features.craft import CraftFeatures
from lmgp.features.fourier import (
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    StructuredOrthogonalFourierFeatures,
)
from lmgp.features.maclaurin import OptimizedMaclaurinFeatures, RandomMaclaurinFeatures
from lmgp.features.nystroem import NystroemFeatures
from lmgp.features.polynomial import PolynomialMaclaurinFeatures
from lmgp.features.spherical import SphericalFourierFeatures
from lmgp.features.taylor import TaylorFeatures
from lmgp.kernels.composite import ProductKernel, ScaledKernel, SumKernel
from lmgp.kernels.dot_product import ExponentialKernel, LinearKernel, ModulatedKernel
from lmgp.kernels.stationary import GaussianKernel, MaternKernel, RationalQuadraticKernel
from lmgp.locality.clustering import farthest_point_clustering
from lmgp.models.chosen import GPRegressor
from lmgp.models.exact import ExactGPRegressor
from lmgp.models.featurized import FeaturizedGPRegressor
from lmgp.models.localized import LocalizedGPRegressor
from lmgp.rbf.estimators import rbf_expansion
from lmgp.rbf.libsvm import read_libsvm
from lmgp.rbf.quadratic import QuadraticRBF
from lmgp.rbf.taylor import TaylorRBF
from lmgp.rbf.validity import gamma_max
from lmgp.sgd.models import KernelSGDClassifier, KernelSGDRegressor

__version__ = "0.2.0"

__all__ = [
    "CraftFeatures",
    "ExactGPRegressor",
    "ExponentialKernel",
    "FeaturizedGPRegressor",
    "GPRegressor",
    "GaussianKernel",
    "KernelSGDClassifier",
    "KernelSGDRegressor",
    "LinearFeatures",
    "LinearKernel",
    "LocalizedGPRegressor",
    "MaternKernel",
    "ModulatedFeatures",
    "ModulatedKernel",
    "NystroemFeatures",
    "OptimizedMaclaurinFeatures",
    "OrthogonalFourierFeatures",
    "PolynomialMaclaurinFeatures",
    "ProductFeatures",
    "ProductKernel",
    "QuadraticRBF",
    "RandomFourierFeatures",
    "RandomMaclaurinFeatures",
    "RationalQuadraticKernel",
    "ScaledFeatures",
    "ScaledKernel",
    "SphericalFourierFeatures",
    "StructuredOrthogonalFourierFeatures",
    "SumFeatures",
    "SumKernel",
    "TaylorFeatures",
    "TaylorRBF",
    "__version__",
    "exact_features",
    "farthest_point_clustering",
    "gamma_max",
    "load_dataset",
    "rbf_expansion",
    "read_libsvm",
]
