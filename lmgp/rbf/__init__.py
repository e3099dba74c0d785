"""Fast prediction with fitted models that are sums of Gaussian kernels at support vectors."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
