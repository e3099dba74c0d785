"""Gaussian-process regression with localized Maclaurin features.

Keeps the exact Gaussian process's predictive mean and variance at a small part of its cost, and measures by how much.
Around that core: kernels and feature maps that compose, linear models on them, and fast prediction with fitted RBF
models.

The stub ``__init__.pyi`` lists the public names. Each is imported on first use, and torch, GPyTorch and matplotlib with
it (PEP 562): ``import lmgp`` loads none of them.
"""

import lazy_loader

__version__ = "0.3.0"

__getattr__, __dir__, _public = lazy_loader.attach_stub(__name__, __file__)
__all__ = [*_public, "__version__"]
