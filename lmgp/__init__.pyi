from . import bounds, catalogue, datasets, errors, gpytorch, io, metrics, plots
from .datasets import load_dataset
from .features.composition import (
    LinearFeatures,
    ModulatedFeatures,
    ProductFeatures,
    ScaledFeatures,
    SumFeatures,
    exact_features,
)
from .features.craft import CraftFeatures
from .features.fourier import (
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    StructuredOrthogonalFourierFeatures,
)
from .features.maclaurin import OptimizedMaclaurinFeatures, RandomMaclaurinFeatures
from .features.nystroem import NystroemFeatures
from .features.polynomial import PolynomialMaclaurinFeatures
from .features.spherical import SphericalFourierFeatures
from .features.taylor import TaylorFeatures
from .grids import predict_grid
from .kernels.composite import ProductKernel, ScaledKernel, SumKernel
from .kernels.dot_product import ExponentialKernel, LinearKernel, ModulatedKernel
from .kernels.rational_quadratic import RationalQuadraticKernel
from .kernels.stationary import GaussianKernel, MaternKernel
from .learning.learn import learn
from .locality.clustering import farthest_point_clustering
from .models.chosen import GPRegressor
from .models.exact import ExactGPRegressor
from .models.featurized import FeaturizedGPRegressor
from .models.localized import LocalizedGPRegressor
from .models.nearest import NearestNeighborsGPRegressor
from .models.residual import ResidualGPRegressor
from .models.several import MultiTargetGPRegressor
from .models.spectral import SpectralGPRegressor
from .models.transformed import TransformedTargetGPRegressor
from .rbf.estimators import rbf_expansion
from .rbf.libsvm import read_libsvm
from .rbf.quadratic import QuadraticRBF
from .rbf.taylor import TaylorRBF
from .rbf.validity import gamma_max
from .saving.files import load
from .sgd.models import KernelSGDClassifier, KernelSGDRegressor
from .spectral.learning import learn_from_sums
from .sphere import SphericalCoordinates

__version__: str

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
    "MultiTargetGPRegressor",
    "NearestNeighborsGPRegressor",
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
    "ResidualGPRegressor",
    "ScaledFeatures",
    "ScaledKernel",
    "SpectralGPRegressor",
    "SphericalCoordinates",
    "SphericalFourierFeatures",
    "StructuredOrthogonalFourierFeatures",
    "SumFeatures",
    "SumKernel",
    "TaylorFeatures",
    "TaylorRBF",
    "TransformedTargetGPRegressor",
    "__version__",
    "bounds",
    "catalogue",
    "datasets",
    "errors",
    "exact_features",
    "farthest_point_clustering",
    "gamma_max",
    "gpytorch",
    "io",
    "learn",
    "learn_from_sums",
    "load",
    "load_dataset",
    "metrics",
    "plots",
    "predict_grid",
    "rbf_expansion",
    "read_libsvm",
]
