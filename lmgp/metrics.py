"""Divergences and scores of univariate Gaussian predictions.

All functions are pure: they take arrays with one value a row, compute in float64 and change none of their arguments.
Variances are those of the distribution that is compared or scored: to score targets that were observed with noise, pass
predictive variances that include the noise.
"""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import check_array

from lmgp.errors import InputError

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
    mean_p, variance_p, mean_q, variance_q = _checked_rows(
        {"mean_p": mean_p, "variance_p": variance_p, "mean_q": mean_q, "variance_q": variance_q}, scalars=True
    )
    # A divergence that float64 cannot hold is correctly inf or 0: no reason to warn.
    with np.errstate(over="ignore", under="ignore"):
        # Divided before it is squared, so that neither very small nor very large units lose the term.
        standardized = (mean_p - mean_q) / np.sqrt(variance_q)
        return np.atleast_1d(0.5 * (_log1p_excess(variance_p, variance_q) + standardized**2))


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Compute the root mean squared error of predictive means.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    mean : array-like of shape (n,)
        Predictive means, in the units of y.

    Returns
    -------
    float
        In the units of y.

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
    y, mean = _checked_rows({"y": y, "mean": mean})
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def nlpd(y: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> float:
    """Compute the mean negative log predictive density of Gaussian predictions.

    The mean over the rows of ½ [log(2πv) + (y − m)²/v]. It is the density of y in its units: multiplying y by c adds
    log c.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    mean : array-like of shape (n,)
        Predictive means, in the units of y.
    variance : array-like of shape (n,)
        Predictive variances with noise, in squared units of y.

    Returns
    -------
    float
        In nats a row; lower is better.

    Raises
    ------
    InputError
        If the shapes differ, there are no rows, a value is not finite, or a variance is not positive.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 2.34.

    Examples
    --------
    >>> from lmgp.metrics import nlpd
    >>> round(nlpd([0.0, 2.0], [0.0, 0.0], [1.0, 4.0]), 4)
    1.5155
    """
    return float(np.mean(_nlpd_rows(y, mean, variance)))


def crps(y: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> float:
    """Compute the mean continuous ranked probability score of Gaussian predictions.

    For one row, with z = (y − m)/√v: √v [z (2Φ(z) − 1) + 2φ(z) − 1/√π], which is ∫ (F(t) − 1{t ≥ y})² dt for the
    predictive distribution function F. As v falls to zero it becomes the absolute error |y − m|.

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    mean : array-like of shape (n,)
        Predictive means, in the units of y.
    variance : array-like of shape (n,)
        Predictive variances with noise, in squared units of y.

    Returns
    -------
    float
        In the units of y; lower is better (the paper's score is its negative, where higher is better).

    Raises
    ------
    InputError
        If the shapes differ, there are no rows, a value is not finite, or a variance is not positive.

    References
    ----------
    T. Gneiting and A. E. Raftery, "Strictly Proper Scoring Rules, Prediction, and Estimation", *Journal of the American
    Statistical Association* 102(477), 2007, eq. 21.

    Examples
    --------
    >>> from lmgp.metrics import crps
    >>> round(crps([0.0, 3.0], [0.0, 3.0], [1.0, 4.0]), 4)
    0.3505
    """
    return float(np.mean(_crps_rows(y, mean, variance)))


def coverage(y: ArrayLike, mean: ArrayLike, variance: ArrayLike, level: float = 0.95) -> float:
    """Compute the share of targets inside the central predictive interval.

    The interval of a row is m ± √2 erf⁻¹(level) √v, its ends included. A calibrated prediction covers a share of
    `level`, up to the chance of the finite sample: a standard deviation of √(level (1 − level)/n).

    Parameters
    ----------
    y : array-like of shape (n,)
        Targets.
    mean : array-like of shape (n,)
        Predictive means, in the units of y.
    variance : array-like of shape (n,)
        Predictive variances with noise, in squared units of y.
    level : float, default=0.95
        The probability of the interval, strictly between 0 and 1.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    InputError
        If the shapes differ, there are no rows, a value is not finite, a variance is not positive, or `level` is not
        strictly between 0 and 1.

    Examples
    --------
    >>> from lmgp.metrics import coverage
    >>> coverage([0.0, 1.9, 2.0, -3.0], [0.0] * 4, [1.0] * 4)
    0.5
    """
    if isinstance(level, bool) or not isinstance(level, Real) or not 0.0 < level < 1.0:
        raise InputError(
            f"level must be a number strictly between 0 and 1; got {level!r}. For 95% intervals give level=0.95."
        )
    y, mean, variance = _checked_rows({"y": y, "mean": mean, "variance": variance})
    half_width = np.sqrt(2.0) * special.erfinv(float(level)) * np.sqrt(variance)
    return float(np.mean(np.abs(y - mean) <= half_width))


@dataclass(frozen=True)
class DensityScorer:
    """A scorer of predictive distributions, for `scoring` of scikit-learn's searches and cross-validations.

    It asks a model for means and standard deviations with noise, `predict(X, return_std=True, include_noise=True)`, as
    all regressors of this package, pipelines and searches of them have it.

    Attributes
    ----------
    name : str
    loss : callable
        Takes targets, means and variances, shape (n,), and gives one loss a row; lower is better.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, GaussianKernel
    >>> from lmgp.metrics import nlpd_scorer
    >>> from sklearn.model_selection import GridSearchCV
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = ExactGPRegressor(GaussianKernel(), noise_variance=0.01)
    >>> search = GridSearchCV(model, {"kernel__lengthscale": [0.01, 1.0]}, scoring=nlpd_scorer)
    >>> search.fit(X, np.sin(X[:, 0])).best_params_
    {'kernel__lengthscale': 1.0}
    """

    name: str
    loss: Callable[[ArrayLike, ArrayLike, ArrayLike], NDArray[np.float64]]
    _requested: bool | str | None = None

    def __call__(self, estimator: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean loss of a fitted model on test rows, with its sign turned: higher is better.

        Parameters
        ----------
        estimator : regressor
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float

        Raises
        ------
        InputError
            If the estimator predicts no standard deviations with noise.
        """
        weights = None if sample_weight is None else _as_float64("sample_weight", sample_weight)
        if own := getattr(estimator, self.name.replace("scorer", "rows"), None):  # of a y that is not Gaussian
            return -float(np.average(own(X, y), weights=weights))
        try:
            mean, std = estimator.predict(X, return_std=True, include_noise=True)
        except TypeError as error:
            if "return_std" not in str(error) and "include_noise" not in str(error):
                raise
            raise InputError(
                f"{self.name} needs predict(X, return_std=True, include_noise=True), as the Gaussian-process "
                f"regressors of lmgp have it; {type(estimator).__name__} has not: {error}"
            ) from error
        return -float(np.average(self.loss(y, mean, np.square(std)), weights=weights))

    def set_score_request(self, *, sample_weight: bool | str | None = None) -> Self:
        """Return a copy that requests weights, for scikit-learn's metadata routing.

        Parameters
        ----------
        sample_weight : bool, str or None
            Whether weights are wanted, or the name under which they are passed.
        """
        other = copy(self)
        object.__setattr__(other, "_requested", sample_weight)
        return other

    def get_metadata_routing(self) -> MetadataRequest:
        """Return what the scorer requests, for scikit-learn's metadata routing."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self._requested)
        return request

    def __repr__(self) -> str:
        return self.name


def _nlpd_rows(y: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> NDArray[np.float64]:
    y, mean, variance = _checked_rows({"y": y, "mean": mean, "variance": variance})
    standardized = (y - mean) / np.sqrt(variance)
    # The logarithms apart: 2π·variance can overflow where its logarithm does not.
    return np.asarray(0.5 * (np.log(2.0 * np.pi) + np.log(variance) + standardized**2))


def _crps_rows(y: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> NDArray[np.float64]:
    y, mean, variance = _checked_rows({"y": y, "mean": mean, "variance": variance})
    error = y - mean
    deviation = np.sqrt(variance)
    # z and its square may overflow for a tiny variance: the density is then correctly zero.
    with np.errstate(over="ignore", under="ignore"):
        z = error / deviation
        density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    # 2Φ(z) − 1 = erf(z/√2); √v·z is the error itself, which stays finite where z does not.
    return np.asarray(error * special.erf(z / np.sqrt(2.0)) + deviation * (2.0 * density - 1.0 / np.sqrt(np.pi)))


nlpd_scorer = DensityScorer("nlpd_scorer", _nlpd_rows)
crps_scorer = DensityScorer("crps_scorer", _crps_rows)


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


def _checked_rows(arguments: dict[str, ArrayLike], *, scalars: bool = False) -> list[NDArray[np.float64]]:
    """Convert the arguments to float64 arrays of one shape (n,), or () where `scalars` are allowed, and check them.

    Arguments whose name starts with "variance" must be positive.
    """
    arrays = {name: _as_float64(name, values) for name, values in arguments.items()}
    shapes = {array.shape for array in arrays.values()} - ({()} if scalars else set())
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        got = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InputError(
            f"{', '.join(arrays)} must have one value a row, all in the same shape (n,); got the shapes {got}. "
            "Use ravel() for a single column."
        )
    if (0,) in shapes:
        raise InputError(f"{', '.join(arrays)} must have at least one row; got shape (0,).")
    for name, array in arrays.items():
        _check_values(array, np.isfinite(array), f"{name} must be finite", "Leave out such rows, or mend them.")
        if name.startswith("variance"):
            remedy = "A variance that includes the noise variance is positive."
            _check_values(array, array > 0.0, f"{name} must be positive", remedy)
    return list(arrays.values())


def _as_float64(name: str, values: ArrayLike) -> NDArray[np.float64]:
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
        bad = np.flatnonzero(~valid)
        raise InputError(
            f"{demand}; got {array.ravel()[bad[0]]:g} in row {bad[0]} ({len(bad)} such rows of {array.size}). {remedy}"
        )
