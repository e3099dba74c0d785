"""The distribution of new observations: noise that is normal, heavy-tailed, or of a size that varies."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
