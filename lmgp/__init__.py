"""Gaussian-process regression with localized Maclaurin features.

Keeps the exact Gaussian process's predictive mean and variance at a small part of its cost, and measures by how much.
Around that core: kernels and feature maps that compose, linear models on them, and fast prediction with fitted RBF
models.

The stub ``__init__.pyi`` lists the public names, and those of subpackages the stubs there. Each is imported on first
use, and torch, GPyTorch and matplotlib with it (PEP 562): ``import lmgp`` loads none of them.
"""

import pkgutil

import lazy_loader

__version__ = "0.4.0"

__getattr__, __dir__, _public = lazy_loader.attach_stub(__name__, __file__)
# Subpackages, such as `io`, are attributes, and none of what `from lmgp import *` takes.
__all__ = sorted({*_public, "__version__"} - {module.name for module in pkgutil.iter_modules(__path__)})
