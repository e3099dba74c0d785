"""Figures of models and of predictions, on Matplotlib axes.

Each function draws on the axes it is given, or on those of a new figure, and returns them. They read in grey, with any
colour vision, and on a narrow screen.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
