"""Predicted distributions that scipy does not have, with the methods that `lmgp.metrics` asks for."""

import numpy as np
from scipy import special, stats


class Quantiles:
    """A distribution that is known by some of its quantiles.

    Parameters
    ----------
    levels : ndarray of shape (q,)
        Probabilities in increasing order, with 1 − p for every p.
    values : ndarray of shape (n, q)
        Sorted here, since quantiles that were estimated one by one can cross.
    """

    def __init__(self, levels, values):
        self.levels = levels
        self.values = np.sort(values, axis=1)

    def median(self):
        """Return the median of each row."""
        return np.array([np.interp(0.5, self.levels, row) for row in self.values])

    def cdf(self, y):
        """Interpolate between the quantiles; it is 0 below all and 1 above all of them."""
        pairs = zip(y, self.values, strict=True)
        return np.array([np.interp(value, row, self.levels, left=0.0, right=1.0) for value, row in pairs])

    def crps(self, y):
        """Integrate twice the pinball loss over the probabilities: it is zero at 0 and at 1."""
        error = y[:, None] - self.values
        loss = np.maximum(self.levels * error, (self.levels - 1.0) * error)
        ends = [(0, 0), (1, 1)]
        return 2.0 * np.trapezoid(np.pad(loss, ends), np.r_[0.0, self.levels, 1.0])


class NormalMixture:
    """A mixture of normal distributions that have the same mean.

    Parameters
    ----------
    mean : ndarray of shape (n,)
    variances : ndarray of shape (k, n)
    weights : ndarray of shape (k,)
        Their sum is 1.
    """

    def __init__(self, mean, variances, weights):
        self.means = mean
        self.variances = variances
        self.weights = weights
        self.parts = stats.norm(mean, np.sqrt(variances))

    @classmethod
    def of_normal_and_student(cls, mean, variance, degrees, scale, n_nodes=80):
        """Return the distribution of the sum of a normal variable and a t.

        The t is a normal variable whose precision follows a gamma distribution: the trapezoidal rule over the logarithm
        of the precision.
        """
        precision = stats.gamma(0.5 * degrees, scale=2.0 / degrees)
        nodes = np.exp(np.linspace(*np.log(precision.ppf([1e-9, 1.0 - 1e-12])), n_nodes))
        weights = precision.pdf(nodes) * nodes
        return cls(mean, variance + (scale**2 / nodes)[:, None], weights / weights.sum())

    def mean(self):
        """Return the mean of each row."""
        return self.means

    def median(self):
        """Return the median of each row."""
        return self.means

    def cdf(self, y):
        """Return the probability of a value below."""
        return self.weights @ self.parts.cdf(y)

    def logpdf(self, y):
        """Return the log density."""
        return special.logsumexp(self.parts.logpdf(y), axis=0, b=self.weights[:, None])

    def crps(self, y):
        """Return E|Y − y| − ½ E|Y − Y'| for Y and Y' from the mixture."""
        error = y - self.means
        distance = error * special.erf(error / np.sqrt(2.0 * self.variances)) + 2.0 * self.variances * self.parts.pdf(y)
        apart = sum(
            weight * (self.weights @ np.sqrt(self.variances + variance))
            for weight, variance in zip(self.weights, self.variances, strict=True)
        )
        return self.weights @ distance - apart / np.sqrt(2.0 * np.pi)
