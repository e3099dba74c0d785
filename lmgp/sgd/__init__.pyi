from .models import KernelSGDClassifier, KernelSGDRegressor

__all__ = [
    "KernelSGDClassifier",
    "KernelSGDRegressor",
]
