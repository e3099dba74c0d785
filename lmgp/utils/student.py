"""Student's t of standardised errors, by maximum likelihood, and whether it pays."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import digamma, gammaln
from scipy.stats import t

Floats = NDArray[np.float64]

# The variance is ν/(ν − 2) times the square of the scale: below 2 there is none.
LEAST_DEGREES = 2.2
# A t has two parameters more than a normal distribution, and a scale that varies two more than a t. By Akaike's
# criterion, each gains one nat of all rows by chance.
PARAMETERS = 2
# The logarithm of the scale is at least that of the median error less this, and at most that of the largest error and
# this.
LONGEST = 20.0


@dataclass(frozen=True)
class Student:
    """A t of ν degrees of freedom times a scale c.

    Attributes
    ----------
    degrees : float
        ν; infinity makes a normal distribution.
    scale : float
        c.
    """

    degrees: float = math.inf
    scale: float = 1.0

    @classmethod
    def fitted(cls, errors: Floats, weights: Floats | None = None) -> "Student":
        """Maximise the likelihood of errors around zero, with at most √n degrees of freedom.

        n normal errors cost less than one nat together under the best t with √n degrees of freedom: they do not tell it
        from a normal distribution. An error that is far from all others costs orders of magnitude less under it.

        Parameters
        ----------
        errors : ndarray of shape (n,)
            Not all of them zero.
        weights : ndarray of shape (n,), optional
        """
        sizes = np.abs(errors)
        typical = float(np.median(sizes[sizes > 0.0]))  # no mean square, of which one error may be all
        squares, shares = np.square(errors / typical), np.ones(len(errors)) if weights is None else weights
        shares, largest = shares / shares.sum(), math.log(float(sizes.max()) / typical)

        def loss(point: Floats) -> tuple[float, Floats]:
            degrees, log_scale = 1.0 / point[0], point[1]
            ratio = squares * (math.exp(-2.0 * log_scale) / degrees)
            tails, pull = float(shares @ np.log1p(ratio)), (degrees + 1.0) * float(shares @ (ratio / (1.0 + ratio)))
            halves = 0.5 * np.array([degrees + 1.0, degrees])
            constant = float(np.subtract(*gammaln(halves))) - 0.5 * math.log(math.pi * degrees)
            by_degrees = float(np.subtract(*digamma(halves))) - tails + (pull - 1.0) / degrees
            value = constant - log_scale - 0.5 * (degrees + 1.0) * tails
            return -value, np.array([0.5 * degrees**2 * by_degrees, 1.0 - pull])

        most = max(math.sqrt(len(errors)), LEAST_DEGREES)
        bounds = (1.0 / most, 1.0 / LEAST_DEGREES), (-LONGEST, largest + LONGEST)
        best = minimize(loss, (0.25, 0.0), jac=True, method="L-BFGS-B", bounds=bounds)
        return cls(1.0 / float(best.x[0]), typical * math.exp(best.x[1]))

    def log_density(self, errors: Floats) -> Floats:
        """Return the log density at each error, in nats."""
        return t.logpdf(errors, self.degrees, scale=self.scale)

    @property
    def deviation(self) -> float:
        """The standard deviation of a t of scale 1, √(ν/(ν − 2))."""
        return 1.0 if math.isinf(self.degrees) else math.sqrt(self.degrees / (self.degrees - 2.0))


def mean_gain(before: Floats, after: Floats, weights: Floats | None = None) -> tuple[float, float]:
    """Return the mean difference of densities, and its standard error."""
    difference = after - before
    gain = float(np.average(difference, weights=weights))
    variance = float(np.average(np.square(difference - gain), weights=weights))
    return gain, math.sqrt(variance / len(difference))


def pays(gain: float, error: float, n_rows: int, n_steps: int = 1) -> bool:
    """Say whether rows gain more than a standard error and what some steps' parameters gain by chance."""
    return gain > error + PARAMETERS * n_steps / n_rows


def standardised(y: Floats, mean: Floats, std: Floats) -> Floats:
    """Return (y − mean)/std, and no error smaller than what y is rounded to, shape (n,).

    Targets that are whole numbers, or repeat each other, are met exactly by chance: without this, a scale of zero would
    be likeliest. Where every error is smaller than half a step between targets, none is met by chance.

    Parameters
    ----------
    y, mean, std : ndarray of shape (n,)
    """
    gaps, sizes = np.diff(np.unique(y)), np.abs(y - mean)
    step = gaps.min() if len(gaps) and sizes.max() >= 0.5 * gaps.min() else 0.0
    least = max(step, np.spacing(np.abs(y).max())) / np.sqrt(12.0)
    return np.copysign(np.maximum(sizes, max(least, np.finfo(np.float64).tiny)), y - mean) / std
