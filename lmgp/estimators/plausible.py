"""Means that contradict the model that predicts them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


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


def implausible(mean: Floats, farthest: float, expectations: Callable[[Indices], tuple[Floats, Floats]]) -> str | None:
    """Say which means are impossible under the model itself, see `Plausible`; None if none is.

    Parameters
    ----------
    mean : ndarray of shape (n,)
        Less the mean of y, and less the trend.
    farthest : float
        The largest distance of a target from there.
    expectations : callable
        Takes the indices of means; returns the prior variance of each, and yᵀC⁻¹y/n of the training rows of the
        posterior that predicts it.

    Returns
    -------
    str or None
    """
    deviation = np.abs(mean)
    (far,) = np.nonzero(deviation > PLAUSIBLE.target_ranges * farthest)
    if not len(far):
        return None
    prior, surprise = expectations(far)
    found = (deviation[far] > PLAUSIBLE.prior_deviations * np.sqrt(prior)) | (surprise > PLAUSIBLE.surprise)
    if not found.any():
        return None
    at = int(np.argmax(np.where(found, deviation[far], 0.0)))
    return (
        f"{np.count_nonzero(found):,} of {len(mean):,} predicted means are impossible under the model itself. The mean "
        f"of row {far[at]} is {deviation[far[at]]:.3g} from the mean of y, where the farthest target is {farthest:.3g} "
        f"and the prior's standard deviation {prior[at] ** 0.5:.3g}. (yᵀC⁻¹y/n is {surprise[at]:.3g}, where 1 is "
        "expected.)"
    )
