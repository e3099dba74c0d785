"""When a predicted mean contradicts the model that predicts it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plausible:
    """When a mean contradicts the model that predicts it.

    A mean farther from the mean of y than `target_ranges` times the farthest target is asked for by no target. An
    extrapolated trend may lead there. It cannot where the mean is more than `prior_deviations` prior standard
    deviations off, which has a probability of 2e-9; nor where the model does not explain the training rows: where
    yᵀC⁻¹y/n, 1 ± √(2/n) if their covariance is C, is above `surprise`. Where the model has a trend of its own, all of
    this is about what the process adds to it, and y are the residuals.
    """

    target_ranges: float = 2.0
    prior_deviations: float = 6.0
    surprise: float = 4.0


PLAUSIBLE = Plausible()
