"""How large errors are, from place to place: the logarithm of their scale is a second Gaussian process."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from lmgp.data import Floats, Rows
from lmgp.distributions.student import Student
from lmgp.features.nystroem import NystroemFeatures
from lmgp.learning.engine import Settings, learn_rows
from lmgp.posteriors.base import Posterior
from lmgp.recipes import Weights

# Errors say little about their scale one by one, so that the process is smooth beside its noise: a map of few columns
# has all of it, and one lengthscale serves all inputs. Of more rows than these, the Vecchia likelihood is maximised.
LANDMARKS, LEARNING_ROWS = 512, 500
# Fisher scoring ends where a step gains less than this many nats a row, or after this number of steps.
LEAST_GAIN, MOST_STEPS = 1e-3, 10


@dataclass(frozen=True, eq=False)
class ScaleField:
    """h(x) = exp(½ g(z)), with the mean g of a Gaussian process over the inputs z of a prediction.

    The inputs are the columns of X, the predicted mean, and the logarithm of the predicted standard deviation, each in
    the standard deviation of the rows that it was fitted to: errors may grow with the size of y, and with the distance
    to the data.

    Attributes
    ----------
    posterior : Posterior
        Of log h² less `level`.
    centre, unit : ndarray of shape (d + 2,)
        What the inputs are less, and divided by.
    level : float
        Where g returns to far from all rows.
    """

    posterior: Posterior
    centre: Floats
    unit: Floats
    level: float

    @classmethod
    def fitted(
        cls, X: Floats, mean: Floats, std: Floats, errors: Floats, weights: Floats | None, rng: np.random.Generator
    ) -> tuple[Self, Student, Floats] | None:
        """Maximise the likelihood of errors under a t with a scale that varies, by Fisher scoring.

        With r = e² exp(−g), the score of a row is s = (ν + 1) r/(ν + r) − 1 and its information I = ν/(2 (ν + 3)). A
        step is a regression on g + s/(2 I) with the known noise variance 1/I, which is Laplace's approximation; after
        it, ν is fitted again, under scales that do not know the row.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        mean, std, errors : ndarray of shape (n,)
            What was predicted of rows that had no part in it, and (y − mean)/std.
        weights : ndarray of shape (n,) or None
        rng : numpy.random.Generator
            Draws the rows that the kernel is learned from, and the landmarks.

        Returns
        -------
        field : ScaleField
        student : Student
            Of errors over h.
        log_scales : ndarray of shape (n,)
            log h of each row, from the other rows.

        None takes their place where all errors are equally large, or all inputs equal.
        """
        inputs = _inputs(X, mean, std)
        centre, unit = inputs.mean(axis=0), inputs.std(axis=0)
        if not unit.any() or np.ptp(np.abs(errors)) == 0.0:
            return None
        unit = np.where(unit > 0.0, unit, 1.0)
        scaled = (inputs - centre) / unit
        student = Student.fitted(errors, weights)
        level, kernel, best = 2.0 * np.log(student.scale), None, None
        g = np.full(len(errors), level)
        for _ in range(MOST_STEPS):
            ratio, degrees = np.square(errors * np.exp(-0.5 * g)), student.degrees
            score, information = (degrees + 1.0) * ratio / (degrees + ratio) - 1.0, degrees / (2.0 * (degrees + 3.0))
            noise = 1.0 / information
            rows = Rows(scaled, g + 0.5 * noise * score - level, weights, np.full(len(errors), noise))
            if kernel is None:
                kernel = learn_rows(rows, _settings(noise), rng).kernel
            recipe = Weights(NystroemFeatures(min(LANDMARKS, len(errors)), random_state=0))
            posterior = recipe.posterior(kernel, noise, rows, rng)
            log_scales = 0.5 * (level + posterior.leave_one_out()[0][:, 0])
            student = Student.fitted(errors * np.exp(-log_scales), weights)
            density = np.average(student.log_density(errors * np.exp(-log_scales)) - log_scales, weights=weights)
            if best is not None and density < best[0] + LEAST_GAIN:
                break
            best = density, cls(posterior, centre, unit, level), student, log_scales
            g = level + posterior.predict(scaled, False)[0][:, 0]
        assert best is not None  # of one step at least
        return best[1:]

    def log_scale(self, X: Floats, mean: Floats, std: Floats) -> Floats:
        """Return log h of predictions, shape (m,)."""
        scaled = (_inputs(X, mean, std) - self.centre) / self.unit
        g: Floats = self.level + self.posterior.predict(scaled, False)[0][:, 0]
        return 0.5 * g


def _inputs(X: Floats, mean: Floats, std: Floats) -> Floats:
    """Return what the scale depends on, shape (n, d + 2)."""
    return np.column_stack((X, mean, np.log(std)))


def _settings(noise_variance: float) -> Settings:
    return Settings(
        kernel="matern32",
        ard=False,
        noise_variance=noise_variance,
        standardize=False,
        max_learning_rows=LEARNING_ROWS,
    )
