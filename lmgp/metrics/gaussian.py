"""Divergences and scores of univariate Gaussian predictions.

All functions are pure: they take arrays with one value a row, or one a row and target, compute in float64 and change
none of their arguments. The score of several targets is the mean of theirs, scikit-learn's ``"uniform_average"``.

All scores take targets and predicted distributions, as `predict_distribution` returns them. In place of distributions
they take means with ``std=``, as `predict` returns both, or with ``variance=``. A standard deviation or a variance is
that of the distribution that is compared or scored: to score targets that were observed with noise, pass one that
includes the noise.
"""

from functools import cache
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.stats import t
from sklearn.utils.validation import check_array

from lmgp.errors import InputError

# A t of 1e8 degrees of freedom has the score of a normal distribution, to eight digits.
MANY_DEGREES = 1e8
# Points of the Gauss-Legendre rule over quantiles.
N_QUANTILES = 400

# 1/3, 1/5, …, 1/33: the series of atanh in _log1p_excess. At |s| = 1/3 the first omitted term is below 1e-17.
_ATANH_COEFFICIENTS = 1.0 / np.arange(3.0, 34.0, 2.0)


def kl_divergence(
    mean_p: ArrayLike, variance_p: ArrayLike, mean_q: ArrayLike, variance_q: ArrayLike
) -> NDArray[np.float64]:
    """Compute the Kullback-Leibler divergence KL(p ‖ q) between two Gaussians, row by row.

    With u = (v_p − v_q)/v_q, the divergence of a row is ½ [u − log(1 + u) + (m_p − m_q)²/v_q]. To compare an
    approximate prediction with an exact one, the paper below takes the approximate one as p and the exact one as q.

    Parameters
    ----------
    mean_p, mean_q : array-like of shape (n,) or float
        Means, in the units of the target. A float stands for all rows.
    variance_p, variance_q : array-like of shape (n,) or float
        Variances, in squared units of the target. A float stands for all rows.

    Returns
    -------
    ndarray of shape (n,)
        The divergences in nats; n = 1 where all arguments are floats. Never negative, and zero for equal Gaussians.

    Raises
    ------
    InputError
        If the shapes differ, there are no rows, a value is not finite, or a variance is not positive.

    Notes
    -----
    For small u, u − log(1 + u) is about u²/2. Evaluated directly, even by log1p, it would lose half of its digits at
    u = 1e-8 and all of them at 1e-16. A series without cancellation is used where the variances are within a factor of
    2 of each other. The relative error is then a few units of rounding for any two Gaussians; a divergence too large
    for float64 is ``inf``.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. A.23.

    J. Wacker and M. Filippone, "Local Random Feature Approximations of the Gaussian Kernel", 2022, section 4.

    Examples
    --------
    >>> from lmgp.metrics import kl_divergence
    >>> kl_divergence([0.0, 1.0, 0.0], [1.0, 1.0, 2.0], 0.0, 1.0).round(4)
    array([0.    , 0.5   , 0.1534])

    A relative difference of 1e-9 between the variances is not lost to rounding:

    >>> float(kl_divergence(0.0, 1.0 + 2.0**-30, 0.0, 1.0)[0] * 2.0**62)
    0.999...
    """
    mean_p, variance_p, mean_q, variance_q = checked_values(
        {"mean_p": mean_p, "variance_p": variance_p, "mean_q": mean_q, "variance_q": variance_q}, scalars=True
    )
    # A divergence that float64 cannot hold is correctly inf or 0: no reason to warn.
    with np.errstate(over="ignore", under="ignore"):
        # Divided before it is squared, so that neither very small nor very large units lose the term.
        standardized = (mean_p - mean_q) / np.sqrt(variance_q)
        return np.atleast_1d(0.5 * (_log1p_excess(variance_p, variance_q) + standardized**2))


def rmse(y: ArrayLike, mean: Any) -> float:
    """Compute the root mean squared error of predictive means.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, t)
        Targets.
    mean : array-like of shape (n,) or (n, t), or frozen distribution of scipy.stats
        Predictive means, in the units of y; or the predicted distributions, which have them.

    Returns
    -------
    float
        In the units of y; of several targets, the mean of theirs.

    Raises
    ------
    InputError
        If the shapes differ, there are no rows, or a value is not finite.

    Examples
    --------
    >>> from lmgp.metrics import rmse
    >>> rmse([0.0, 0.0, 0.0, 0.0], [1.0, -1.0, 5.0, 3.0])
    3.0
    """
    means = mean.mean() if hasattr(mean, "cdf") else mean
    y, mean = checked_values({"y": y, "mean": means}, targets=True)
    return float(np.sqrt(np.mean((y - mean) ** 2, axis=0)).mean())


def nlpd(y: ArrayLike, mean: Any, variance: ArrayLike | None = None, *, std: ArrayLike | None = None) -> float:
    """Compute the mean negative log predictive density of predictions.

    The mean over the rows of ½ [log(2πv) + (y − m)²/v]. It is the density of y in its units: multiplying y by c adds
    log c.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, t)
        Targets.
    mean : array-like of shape (n,) or (n, t), or frozen distribution of scipy.stats
        Predictive means, in the units of y; or the predicted distributions, such as `predict_distribution` returns.
    variance : array-like of shape (n,) or (n, t), optional
        Predictive variances with noise, in squared units of y; none of distributions.
    std : array-like of shape (n,) or (n, t), optional
        Predictive standard deviations with noise, in units of y, in place of variances.

    Returns
    -------
    float
        In nats a row; lower is better.

    Raises
    ------
    InputError
        If the shapes differ, there are no rows, a value is not finite, or a variance or a standard deviation is not
        positive.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 2.34.

    Examples
    --------
    >>> from lmgp.metrics import nlpd
    >>> round(nlpd([0.0, 2.0], [0.0, 0.0], variance=[1.0, 4.0]), 4)
    1.5155
    >>> round(nlpd([0.0, 2.0], [0.0, 0.0], std=[1.0, 2.0]), 4)
    1.5155
    """
    return float(np.mean(nlpd_rows(y, mean, _variance(mean, variance, std))))


def crps(y: ArrayLike, mean: Any, variance: ArrayLike | None = None, *, std: ArrayLike | None = None) -> float:
    """Compute the mean continuous ranked probability score of predictions.

    For one row, with z = (y − m)/√v: √v [z (2Φ(z) − 1) + 2φ(z) − 1/√π], which is ∫ (F(t) − 1{t ≥ y})² dt for the
    predictive distribution function F. As v falls to zero it becomes the absolute error |y − m|.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, t)
        Targets.
    mean : array-like of shape (n,) or (n, t), or frozen distribution of scipy.stats
        Predictive means, in the units of y; or the predicted distributions, such as `predict_distribution` returns.
    variance : array-like of shape (n,) or (n, t), optional
        Predictive variances with noise, in squared units of y; none of distributions.
    std : array-like of shape (n,) or (n, t), optional
        Predictive standard deviations with noise, in units of y, in place of variances.

    Returns
    -------
    float
        In the units of y; lower is better (the paper's score is its negative, where higher is better).

    Raises
    ------
    InputError
        If the shapes differ, there are no rows, a value is not finite, or a variance or a standard deviation is not
        positive.

    References
    ----------
    T. Gneiting and A. E. Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", *Journal of the American
    Statistical Association* 102(477), 2007, eq. 21.

    Examples
    --------
    >>> from lmgp.metrics import crps
    >>> round(crps([0.0, 3.0], [0.0, 3.0], variance=[1.0, 4.0]), 4)
    0.3505
    """
    return float(np.mean(crps_rows(y, mean, _variance(mean, variance, std))))


def coverage(
    y: ArrayLike, mean: Any, variance: ArrayLike | None = None, level: float = 0.95, *, std: ArrayLike | None = None
) -> float:
    """Compute the share of targets inside the central predictive interval.

    The interval of a row is m ± √2 erf⁻¹(level) √v, its ends included. A calibrated prediction covers a share of
    `level`, up to the chance of the finite sample: a standard deviation of √(level (1 − level)/n).

    Parameters
    ----------
    y : array-like of shape (n,) or (n, t)
        Targets.
    mean : array-like of shape (n,) or (n, t), or frozen distribution of scipy.stats
        Predictive means, in the units of y; or the predicted distributions, such as `predict_distribution` returns.
    variance : array-like of shape (n,) or (n, t), optional
        Predictive variances with noise, in squared units of y; none of distributions.
    level : float, default=0.95
        The probability of the interval, strictly between 0 and 1.
    std : array-like of shape (n,) or (n, t), optional
        Predictive standard deviations with noise, in units of y, in place of variances.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    InputError
        If the shapes differ, there are no rows, a value is not finite, a variance or a standard deviation is not
        positive, or `level` is not strictly between 0 and 1.

    Examples
    --------
    >>> from lmgp.metrics import coverage
    >>> coverage([0.0, 1.9, 2.0, -3.0], [0.0] * 4, std=[1.0] * 4)
    0.5
    """
    half_width, variance = np.sqrt(2.0) * special.erfinv(checked_level(level)), _variance(mean, variance, std)
    if variance is None:
        return float(np.mean(np.abs(2.0 * pit(y, mean) - 1.0) <= level))
    y, mean, variance = checked_values({"y": y, "mean": mean, "variance": variance}, targets=True)
    return float(np.mean(np.abs(y - mean) <= half_width * np.sqrt(variance)))


def checked_level(level: float) -> float:
    """Return the probability of an interval, and refuse what is none."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0.0 < level < 1.0:
        raise InputError(
            f"level must be a number strictly between 0 and 1; got {level!r}. For 95% intervals give level=0.95."
        )
    return float(level)


def pit(y: ArrayLike, distribution: Any) -> NDArray[np.float64]:
    """Compute the probability integral transform F(y) of each row: uniform where predictions are calibrated.

    Parameters
    ----------
    y : array-like of shape (n,) or (n, t)
        Targets.
    distribution : frozen distribution of scipy.stats
        Of the shape of y.

    Returns
    -------
    ndarray of shape (n,) or (n, t)
        Between 0 and 1.

    Raises
    ------
    InputError
        If the shapes differ, there are no rows, or a value is not finite.

    Examples
    --------
    >>> from lmgp.metrics import pit
    >>> from scipy import stats
    >>> pit([0.0, 2.0], stats.t(3.0, loc=[0.0, 0.0])).round(3)
    array([0.5 , 0.93])
    """
    observed = _observed(y, distribution)
    return np.asarray(distribution.cdf(observed))


def nlpd_rows(y: ArrayLike, mean: Any, variance: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return −log p(y) of each value, see `nlpd`."""
    if variance is None:
        observed = _observed(y, mean)
        return np.asarray(-mean.logpdf(observed))
    y, mean, variance = checked_values({"y": y, "mean": mean, "variance": variance}, targets=True)
    standardized = (y - mean) / np.sqrt(variance)
    # The logarithms apart: 2π·variance can overflow where its logarithm does not.
    return np.asarray(0.5 * (np.log(2.0 * np.pi) + np.log(variance) + standardized**2))


def crps_rows(y: ArrayLike, mean: Any, variance: ArrayLike | None = None) -> NDArray[np.float64]:
    """Return the score of each value, see `crps`."""
    if variance is None:
        return _crps_of(mean, _observed(y, mean))
    y, mean, variance = checked_values({"y": y, "mean": mean, "variance": variance}, targets=True)
    error = y - mean
    deviation = np.sqrt(variance)
    # z and its square may overflow for a tiny variance: the density is then correctly zero.
    with np.errstate(over="ignore", under="ignore"):
        z = error / deviation
        density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    # 2Φ(z) − 1 = erf(z/√2); √v·z is the error itself, which stays finite where z does not.
    return np.asarray(error * special.erf(z / np.sqrt(2.0)) + deviation * (2.0 * density - 1.0 / np.sqrt(np.pi)))


def _variance(mean: Any, variance: ArrayLike | None, std: ArrayLike | None) -> ArrayLike | None:
    """Return variances, given as such or as standard deviations; none of distributions."""
    if hasattr(mean, "cdf") and not (variance is None and std is None):
        raise InputError(
            "A distribution has its own variance: give no variance or std beside it. The level is coverage(y, "
            "distribution, level=0.9)."
        )
    if std is None:
        return variance
    if variance is not None:
        raise InputError("Give variance= or std=, and not both.")
    return np.square(checked_values({"std": std}, targets=True)[0])


def _observed(y: ArrayLike, distribution: Any) -> NDArray[np.float64]:
    """Return targets that have the shape of a distribution, and are finite."""
    if not hasattr(distribution, "cdf"):
        raise InputError(
            "Give a distribution, as predict_distribution returns it, with the methods of scipy.stats' frozen ones, or "
            f"means with std= or variance=, which must have one value a row; got {type(distribution).__name__} alone."
        )
    if np.ndim(median := distribution.median()) == 0:
        raise InputError("A distribution must have one entry a row, as norm(mean, std) of arrays; got one for all.")
    (y, _) = checked_values({"y": y, "the mean of the distribution": median}, targets=True)
    return y


def _crps_of(distribution: Any, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the score of a distribution at each target.

    Of a t with ν degrees of freedom and scale s, with z = (y − m)/s, it is
    s [z (2F(z) − 1) + 2f(z) (ν + z²)/(ν − 1) − 2√ν B(1/2, ν − 1/2)/((ν − 1) B(1/2, ν/2)²)]. Of others without a method
    `crps` it is twice the integral of the quantile loss.

    References
    ----------
    A. Jordan, F. Krüger and S. Lerch, "Evaluating Probabilistic Forecasts with scoringRules", *Journal of Statistical
    Software* 90(12), 2019, appendix A.
    """
    family = getattr(getattr(distribution, "dist", None), "name", "")
    if family == "norm":
        return crps_rows(y, distribution.mean(), distribution.var())
    if hasattr(distribution, "crps"):
        return np.asarray(distribution.crps(y))
    if family != "t":
        quantile = distribution.ppf if hasattr(distribution, "ppf") else distribution.icdf  # of scipy.stats.Normal
        errors = ((p, share, y - quantile(p)) for p, share in zip(*quantile_rule(), strict=True))
        return np.asarray(2.0 * sum(share * np.maximum(p * error, (p - 1.0) * error) for p, share, error in errors))
    (degrees,), mean, scale = distribution.dist._parse_args(*distribution.args, **distribution.kwds)
    finite = np.where(degrees == 1.0, 1.0 + 1e-6, np.minimum(degrees, MANY_DEGREES))  # at 1 a limit, 0/0
    z, standard = (y - mean) / scale, t(finite)
    betas = np.exp(special.betaln(0.5, finite - 0.5) - 2.0 * special.betaln(0.5, 0.5 * finite))
    of_density = standard.pdf(z) * (finite + np.square(z)) - np.sqrt(finite) * betas
    return np.asarray(scale * (z * (2.0 * standard.cdf(z) - 1.0) + 2.0 * of_density / (finite - 1.0)))


@cache
def quantile_rule() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return probabilities, and the share of each in the integral of a function of them from 0 to 1."""
    points, shares = np.polynomial.legendre.leggauss(N_QUANTILES)
    # p = t²(3 − 2t): points are dense where quantiles are steep.
    unit = 0.5 * (points + 1.0)
    return unit**2 * (3.0 - 2.0 * unit), 0.5 * shares * 6.0 * unit * (1.0 - unit)


def _log1p_excess(variance_p: NDArray[np.float64], variance_q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute u − log(1 + u) for u = (v_p − v_q)/v_q without cancellation.

    With s = u/(2 + u), log(1 + u) = 2 atanh(s) and u = 2s/(1 − s), so that
    u − log(1 + u) = s u − 2 s³ (1/3 + s²/5 + s⁴/7 + …). The series is used for ratios v_p/v_q from ½ to 2, where
    |s| ≤ 1/3: there v_p − v_q is exact (Sterbenz) and 16 terms suffice. Elsewhere u − log(1 + u) is at least 0.19 and
    is computed directly.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        u = (variance_p - variance_q) / variance_q
        s = u / (2.0 + u)
        near = s * u - 2.0 * s**3 * np.polynomial.polynomial.polyval(s**2, _ATANH_COEFFICIENTS)
        # Not log1p(u): u rounds to −1 for v_p ≪ v_q. The roots keep the ratio within range for all positive variances.
        far = u - 2.0 * np.log(np.sqrt(variance_p) / np.sqrt(variance_q))
    return np.where(np.abs(s) <= 1.0 / 3.0, near, far)


def checked_values(
    arguments: dict[str, ArrayLike], *, scalars: bool = False, targets: bool = False
) -> list[NDArray[np.float64]]:
    """Convert the arguments to float64 arrays of one shape, and check them.

    The shape is (n,), or () where `scalars` are allowed, or (n, t) where several `targets` are. Arguments whose name
    starts with "variance" or "std" must be positive.
    """
    arrays = {name: as_float64(name, values) for name, values in arguments.items()}
    shapes = {array.shape for array in arrays.values()} - ({()} if scalars else set())
    if len(shapes) > 1 or any(len(shape) not in ((1, 2) if targets else (1,)) for shape in shapes):
        got = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        several = ", or (n, t) of several targets" if targets else ""
        raise InputError(
            f"{', '.join(arrays)} must have one value a row, all in the same shape (n,){several}; got the shapes "
            f"{got}. Use ravel() for a single column."
        )
    if any(0 in shape for shape in shapes):
        raise InputError(f"{', '.join(arrays)} must have at least one row; got shape {shapes.pop()}.")
    for name, array in arrays.items():
        _check_values(array, np.isfinite(array), f"{name} must be finite", "Leave out such rows, or mend them.")
        if name.startswith(("variance", "std")):
            remedy = "One that includes the noise is positive: predict(..., include_noise=True)."
            _check_values(array, array > 0.0, f"{name} must be positive", remedy)
    return list(arrays.values())


def as_float64(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return real numbers as an array of float64, of any shape."""
    if np.ma.is_masked(values):
        raise InputError(f"{name} is a masked array with masked values; leave these rows out.")
    if hasattr(values, "cdf"):
        raise InputError(f"{name} is a distribution, which has its own standard deviation: give none beside it.")
    try:
        # Finiteness, emptiness and shape are checked by the caller, which can name the row and all the shapes.
        array: NDArray[np.float64] = check_array(
            values, dtype=np.float64, ensure_all_finite=False, ensure_2d=False, allow_nd=True, ensure_min_samples=0
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of real numbers, one a row: {error}") from error
    return array


def _check_values(array: NDArray[np.float64], valid: NDArray[np.bool_], demand: str, remedy: str) -> None:
    if not np.all(valid):
        bad = np.argwhere(~valid)
        first = tuple(bad[0])
        where = f"row {first[0] if first else 0}" + (f", target {first[1]}" if len(first) == 2 else "")
        many = f"{len(bad)} such {'rows' if array.ndim < 2 else 'values'} of {array.size}"
        raise InputError(f"{demand}; got {array[first]:g} in {where} ({many}). {remedy}")
