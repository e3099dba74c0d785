from .fields import band, centroids, map
from .learned import allocation, kl_over_size, relevance
from .scores import calibration, prediction

__all__ = [
    "allocation",
    "band",
    "calibration",
    "centroids",
    "kl_over_size",
    "map",
    "prediction",
    "relevance",
]
