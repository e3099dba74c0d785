"""Means that contradict the model that predicts them.

A mean farther from the mean of y than `TARGET_RANGES` times the farthest target is asked for by no target. An
extrapolated trend may lead there. It cannot where the mean is more than `PRIOR_DEVIATIONS` prior standard deviations
off, which has a probability of 2e-9; nor where the model does not explain the training rows: where yᵀC⁻¹y/n,
1 ± √(2/n) if their covariance is C, is above `SURPRISE`. Where the model has a trend of its own, all of this is about
what the process adds to it, and y are the residuals.
"""

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats

TARGET_RANGES, PRIOR_DEVIATIONS, SURPRISE = 2.0, 6.0, 4.0


def implausible(mean: Floats, far: NDArray[np.intp], farthest: float, prior: Floats, surprise: Floats) -> str | None:
    """Say which means are impossible under the model itself; None if none is.

    Parameters
    ----------
    mean : ndarray of shape (n,)
        Less the mean of y, and less the trend.
    far : ndarray of shape (m,)
        Where it is more than `TARGET_RANGES` times the farthest target off.
    farthest : float
        The largest distance of a target from there.
    prior, surprise : ndarray of shape (m,)
        The prior variance there, and yᵀC⁻¹y/n of the training rows of the posterior that predicts it.

    Returns
    -------
    str or None
    """
    deviation = np.abs(mean[far])
    found = (deviation > PRIOR_DEVIATIONS * np.sqrt(prior)) | (surprise > SURPRISE)
    if not found.any():
        return None
    at = int(np.argmax(np.where(found, deviation, 0.0)))
    return (
        f"{np.count_nonzero(found):,} of {len(mean):,} predicted means are impossible under the model itself. The mean "
        f"of row {far[at]} is {deviation[at]:.3g} from the mean of y, where the farthest target is {farthest:.3g} "
        f"and the prior's standard deviation {prior[at] ** 0.5:.3g}. (yᵀC⁻¹y/n is {surprise[at]:.3g}, where 1 is "
        "expected.)"
    )
