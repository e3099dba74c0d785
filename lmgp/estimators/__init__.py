"""Regressors behind scikit-learn's interface: parameters, and the recipe that they make."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
