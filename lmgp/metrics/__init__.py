"""Divergences and scores of univariate Gaussian predictions, scorers, and proved bounds on kernel approximations."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
