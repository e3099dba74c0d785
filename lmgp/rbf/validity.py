"""How far from its centre a Taylor expansion of a Gaussian kernel is accurate."""

import math
from functools import lru_cache
from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammainc, gammaln, hyp1f1
from sklearn.utils.validation import check_array

from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.utils.columns import checked_table

# The relative error of 1 + t + t²/2 at t = −1/2, 3.05%: what the bound of the paper allows (eq. A.2).
PAPER_TOLERANCE = 0.625 * math.exp(0.5) - 1.0
# Powers of a higher degree do not stay within float64.
HIGHEST_DEGREE = 400


def check_degree(degree: int) -> int:
    """Return a degree that can be expanded to.

    Raises
    ------
    InputError
        If it is not a whole number from 0 to 400.
    """
    if isinstance(degree, bool) or not isinstance(degree, Integral) or not 0 <= degree <= HIGHEST_DEGREE:
        raise InputError(f"degree must be a whole number from 0 to {HIGHEST_DEGREE}; got {degree!r}.")
    return int(degree)


@lru_cache(maxsize=None, typed=True)  # 2.0 is no degree, although it equals 2
def largest_exponent(degree: int, tolerance: float = PAPER_TOLERANCE) -> float:
    """Return the largest t for which the truncated series of eˣ has at most a given relative error for |x| ≤ t.

    By the integral form of the remainder, the relative error of Σ_{k≤p} xᵏ/k! is ∫₀ᵗ wᵖeʷ/p! dw at x = −t, and the same
    with e⁻ʷ at x = t. Both grow with t. The first is the larger one and decides: tᵖ⁺¹/(p+1)! ₁F₁(p+1; p+2; t).

    Parameters
    ----------
    degree : int
        p, at least 0.
    tolerance : float, default=PAPER_TOLERANCE
        The largest relative error, below 1.

    Returns
    -------
    float
        For degree 2 and the default, 1/2.

    References
    ----------
    M. Claesen, F. De Smet, J. A. K. Suykens and B. De Moor, *Fast Prediction with SVM Models Containing RBF Kernels*,
    2014, eq. 3.9 and A.2: degree 2.

    Examples
    --------
    >>> [round(largest_exponent(degree), 3) for degree in (0, 1, 2, 4, 8)]
    [0.03, 0.229, 0.5, 1.08, 2.243]
    """
    order = check_degree(degree) + 1

    def excess(log_t: float) -> float:
        t = math.exp(log_t)
        return float(order * log_t - gammaln(order + 1) + np.log(hyp1f1(order, order + 1, t)) - math.log(tolerance))

    # At t = p + 1 the integral is above 1. The first term of the series of 1F1 is at most e^t.
    lowest = (math.log(tolerance) + float(gammaln(order + 1)) - order) / order
    return math.exp(brentq(excess, lowest, math.log(order), xtol=1e-15, rtol=1e-14))


@lru_cache(maxsize=None, typed=True)  # 2.0 is no degree, although it equals 2
def largest_distance(degree: int, tolerance: float = PAPER_TOLERANCE) -> float:
    """Return how far from the centre a row may be for all its kernel values to be accurate, for any other row.

    In lengthscales, k(x, z) = e^{−(r² + s²)/2} Σₖ (xᵀz)ᵏ/k! with r = ‖x‖ and s = ‖z‖. As |xᵀz| ≤ rs, the terms above
    degree p are together at most e^{−(r² + s²)/2} Σ_{k>p} (rs)ᵏ/k! = e^{−(r − s)²/2} P(p + 1, rs), with the regularised
    lower incomplete gamma function P. With r = s + u this grows with s at every u, so its maximum over r does as well:
    the result is where that maximum is the tolerance. The maximum has 0 < u ≤ √(p + 1), as the derivative of
    log P(a, x) is positive and at most a/x. There is no other one, P being log-concave.

    Parameters
    ----------
    degree : int
        p, at least 0.
    tolerance : float, default=PAPER_TOLERANCE
        The largest error of a kernel value, where k(x, x) = 1. Below 1.

    Returns
    -------
    float
        In lengthscales 1/√(2γ).

    Examples
    --------
    >>> [round(largest_distance(degree), 3) for degree in (0, 2, 4, 10)]
    [0.049, 0.52, 0.963, 1.988]
    """
    order = check_degree(degree) + 1

    def excess(s: float) -> float:
        worst = minimize_scalar(
            lambda u: -math.exp(-u * u / 2.0) * gammainc(order, s * (s + u)),
            bounds=(0.0, math.sqrt(order)),
            method="bounded",
            options={"xatol": 1e-10},
        )
        return -worst.fun - tolerance

    highest = 1.0
    while excess(highest) < 0:
        highest *= 2.0
    return brentq(excess, 0.0, highest, xtol=1e-12)


def resolve_center(center: str | ArrayLike, X: Floats) -> Floats:
    """Return the point to expand around.

    Parameters
    ----------
    center : {"origin", "mean"} or array-like of shape (d,)
    X : ndarray of shape (n, d)
        The rows whose mean "mean" stands for.

    Returns
    -------
    ndarray of shape (d,)

    Raises
    ------
    InputError
        If it is not one finite number for each column of X.
    """
    if isinstance(center, str):
        if center not in ("origin", "mean"):
            raise InputError(f"center must be 'origin', 'mean' or a point; got {center!r}.")
        return np.zeros(X.shape[1]) if center == "origin" else X.mean(axis=0)
    try:
        point: Floats = check_array(center, dtype=np.float64, ensure_2d=False, input_name="center")
    except (TypeError, ValueError) as error:
        raise InputError(f"center must be 'origin', 'mean' or a point: {error}") from error
    if point.shape != (X.shape[1],):
        raise InputError(f"center must have one value a column, shape ({X.shape[1]},); got shape {point.shape}.")
    return point


def gamma_max(X: ArrayLike, *, center: str | ArrayLike = "origin", degree: int = 2) -> float:
    """Return the largest gamma for which an approximation around one centre is valid at all given rows.

    It is known before training, because it holds whichever rows become support vectors.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The rows to train on and to predict at.
    center : {"origin", "mean"} or array-like of shape (d,), default="origin"
        The point of expansion. "mean" is the mean of X, because the support vectors are not known yet. Give the
        approximation the same point, ``center=X.mean(axis=0)``, or the rows may be invalid.
    degree : int, default=2
        Of the approximation: 2 for `QuadraticRBF`.

    Returns
    -------
    float
        t/(2 max‖x − center‖²), in one over squared units of X, where t is `largest_exponent` of the degree: 1/2 for
        degree 2.

    Raises
    ------
    ValueError
        If X is not finite and numeric. `InputError`, which is one, if the center does not fit it, the degree is no
        whole number, or no positive, finite gamma is the largest one: all rows are at the centre, or too far from it.

    References
    ----------
    M. Claesen, F. De Smet, J. A. K. Suykens and B. De Moor, *Fast Prediction with SVM Models Containing RBF Kernels*,
    2014, eq. 3.11.

    Examples
    --------
    >>> from lmgp.rbf import gamma_max
    >>> X = [[1.0, 1.0], [3.0, 1.0]]
    >>> round(gamma_max(X), 6), round(gamma_max(X, center="mean"), 6), round(gamma_max(X, degree=4), 6)
    (0.025, 0.25, 0.054001)
    """
    rows = checked_table(X)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        # Not by squares, which overflow or vanish.
        distance = np.hypot.reduce(np.abs(rows - resolve_center(center, rows)), axis=1).max()
        gamma = float(0.5 * largest_exponent(degree) / distance / distance)
    if not 0.0 < gamma < math.inf:
        raise InputError(
            f"No largest gamma can be given: the row farthest from center={center!r} is at a distance of {distance:g}"
            f"{', so that any gamma is valid' if not distance else ''}. Check X and center."
        )
    return gamma
