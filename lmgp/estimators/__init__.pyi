from .base import GaussianProcess
from .chosen import GPRegressor
from .exact import ExactGPRegressor
from .featurized import FeaturizedGPRegressor
from .localized import LocalizedGPRegressor
from .nearest import NearestNeighborsGPRegressor
from .residual import ResidualGPRegressor
from .several import MultiTargetGPRegressor
from .spectral import SpectralGPRegressor
from .transformed import TransformedTargetGPRegressor

__all__ = [
    "ExactGPRegressor",
    "FeaturizedGPRegressor",
    "GPRegressor",
    "GaussianProcess",
    "LocalizedGPRegressor",
    "MultiTargetGPRegressor",
    "NearestNeighborsGPRegressor",
    "ResidualGPRegressor",
    "SpectralGPRegressor",
    "TransformedTargetGPRegressor",
]
