"""Figures of models and of predictions, on Matplotlib axes.

Each function draws on the axes it is given, or on those of a new figure, and returns them. They read in grey, with any
colour vision, and on a narrow screen.
"""

from lmgp.plots.fields import band, centroids, map
from lmgp.plots.learned import allocation, kl_over_size, relevance
from lmgp.plots.scores import calibration, prediction

__all__ = ["allocation", "band", "calibration", "centroids", "kl_over_size", "map", "prediction", "relevance"]
