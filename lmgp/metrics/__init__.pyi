from .bounds import hoeffding_bound, spherical_fit_bound, svm_objective_gap
from .gaussian import coverage, crps, kl_divergence, nlpd, pit, rmse
from .scorers import DensityScorer, crps_scorer, nlpd_scorer

__all__ = [
    "DensityScorer",
    "coverage",
    "crps",
    "crps_scorer",
    "hoeffding_bound",
    "kl_divergence",
    "nlpd",
    "nlpd_scorer",
    "pit",
    "rmse",
    "spherical_fit_bound",
    "svm_objective_gap",
]
