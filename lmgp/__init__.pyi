from . import (
    errors as errors,
)
from . import (
    estimators as estimators,
)
from . import (
    experiments as experiments,
)
from . import (
    features as features,
)
from . import (
    gpytorch as gpytorch,
)
from . import (
    io as io,
)
from . import (
    kernels as kernels,
)
from . import (
    learning as learning,
)
from . import (
    metrics as metrics,
)
from . import (
    plots as plots,
)
from . import (
    rbf as rbf,
)
from . import (
    sgd as sgd,
)
from .areas import predict_areas
from .estimators.chosen import GPRegressor
from .estimators.exact import ExactGPRegressor
from .estimators.featurized import FeaturizedGPRegressor
from .estimators.localized import LocalizedGPRegressor
from .estimators.nearest import NearestNeighborsGPRegressor
from .estimators.residual import ResidualGPRegressor
from .estimators.spectral import SpectralGPRegressor
from .estimators.transformed import TransformedTargetGPRegressor
from .experiments.datasets import load_dataset
from .features.fourier import OrthogonalFourierFeatures, RandomFourierFeatures, StructuredOrthogonalFourierFeatures
from .features.maclaurin import OptimizedMaclaurinFeatures, RandomMaclaurinFeatures
from .features.nystroem import NystroemFeatures
from .features.taylor import TaylorFeatures
from .grids import predict_grid
from .kernels.columns import ColumnsKernel
from .kernels.composite import ExponentialKernel, LinearKernel, ModulatedKernel, ProductKernel, ScaledKernel, SumKernel
from .kernels.periodic import PeriodicKernel
from .kernels.sphere import SphericalCoordinates
from .kernels.stationary import GaussianKernel, MaternKernel, RationalQuadraticKernel
from .learning.engine import learn
from .neighbours.clustering import farthest_point_clustering
from .saving.files import load, save

__version__: str

__all__ = [
    "ColumnsKernel",
    "ExactGPRegressor",
    "ExponentialKernel",
    "FeaturizedGPRegressor",
    "GPRegressor",
    "GaussianKernel",
    "LinearKernel",
    "LocalizedGPRegressor",
    "MaternKernel",
    "ModulatedKernel",
    "NearestNeighborsGPRegressor",
    "NystroemFeatures",
    "OptimizedMaclaurinFeatures",
    "OrthogonalFourierFeatures",
    "PeriodicKernel",
    "ProductKernel",
    "RandomFourierFeatures",
    "RandomMaclaurinFeatures",
    "RationalQuadraticKernel",
    "ResidualGPRegressor",
    "ScaledKernel",
    "SpectralGPRegressor",
    "SphericalCoordinates",
    "StructuredOrthogonalFourierFeatures",
    "SumKernel",
    "TaylorFeatures",
    "TransformedTargetGPRegressor",
    "__version__",
    "farthest_point_clustering",
    "learn",
    "load",
    "load_dataset",
    "predict_areas",
    "predict_grid",
    "save",
]
