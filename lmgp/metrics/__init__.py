"""Divergences and scores of univariate Gaussian predictions, and scorers of predictive distributions."""

from lmgp.metrics.gaussian import coverage, crps, kl_divergence, nlpd, rmse
from lmgp.metrics.scorers import DensityScorer, crps_scorer, nlpd_scorer

__all__ = ["DensityScorer", "coverage", "crps", "crps_scorer", "kl_divergence", "nlpd", "nlpd_scorer", "rmse"]
