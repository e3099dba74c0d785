from .fields import band, centroids, map
from .learned import allocation, importance, kl_over_size
from .scores import calibration, prediction
from .variogram import variogram

__all__ = [
    "allocation",
    "band",
    "calibration",
    "centroids",
    "importance",
    "kl_over_size",
    "map",
    "prediction",
    "variogram",
]
