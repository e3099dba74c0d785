"""How large errors are, from place to place: the logarithm of their scale is a second Gaussian process."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist

from lmgp.data import Floats
from lmgp.utils.memory import chunks
from lmgp.utils.parallel import parallel_map
from lmgp.utils.student import Student

# Errors say little about their scale one by one, so that the process is smooth beside its noise: this number of
# landmarks has all of it, or one for this number of rows, and one lengthscale serves all inputs. What is added to the
# variance of each, 1, lets those that are close be factorised.
LANDMARKS, ROWS_OF_EACH, ADDED = 512, 8, 1e-9
# Of inputs in standard deviations. Those that differ in further digits are one place to landmarks: copies of a row have
# predictions that differ by rounding.
DIGITS = 6
# Lengthscales that are tried, in √d standard deviations of the inputs, and the least and the largest prior variance.
LENGTHSCALES, VARIANCES = (0.6, 2.4), (1e-3, 1e2)
# Fisher scoring ends where a step gains less than this many nats a row, or after this number of steps.
LEAST_GAIN, MOST_STEPS = 1e-5, 20


@dataclass(frozen=True, eq=False)
class ScaleField:
    """h(x) = exp(½ g(z)), with the mean g of a Gaussian process over the inputs z of a prediction.

    The inputs are the columns of X, the predicted mean, and the logarithm of the predicted standard deviation, each in
    the standard deviation of the rows that it was fitted to: errors may grow with the size of y, and with the distance
    to the data. The mean is in the larger of its own standard deviation and the root mean square of the predicted ones.
    The kernel is Matérn's of smoothness 3/2, through landmarks.

    Attributes
    ----------
    landmarks : ndarray of shape (m, d + 2)
        Some inputs, less `centre` and divided by `unit`.
    coefficients : ndarray of shape (m,)
        g is `level` and the sum of these times the kernel, of variance 1, between an input and the landmarks.
    lengthscale, variance : float
        Of g: its prior variance is in the coefficients.
    centre, unit : ndarray of shape (d + 2,)
        What the inputs are less, and divided by.
    level : float
        Where g returns to far from all rows.
    """

    landmarks: Floats
    coefficients: Floats
    lengthscale: float
    variance: float
    centre: Floats
    unit: Floats
    level: float

    @classmethod
    def fitted(
        cls, X: Floats, mean: Floats, std: Floats, errors: Floats, weights: Floats | None
    ) -> tuple[Self, Student, Floats] | None:
        """Find the mode of g under errors that are a t with this scale, by Fisher scoring.

        With r = e² exp(−g), the score of a row is s = (ν + 1) r/(ν + r) − 1 and its information I = ν/(2 (ν + 3)). A
        step is a regression on g + s/(2 I) with the known noise variance 1/I; after it, ν is fitted again, under scales
        that do not know the row. The prior variance of g is that of the largest likelihood in each step, and its
        lengthscale that of the largest likelihood at the mode, by Laplace's approximation. No random numbers are drawn.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        mean, std, errors : ndarray of shape (n,)
            What was predicted of rows that had no part in it, and (y − mean)/std.
        weights : ndarray of shape (n,) or None

        Returns
        -------
        field : ScaleField
        student : Student
            Of errors over h.
        log_scales : ndarray of shape (n,)
            log h of each row, from the other rows.

        None takes their place where all errors are equally large, or all inputs equal.
        """
        from lmgp.features.nystroem import NystroemFeatures  # here, for predictions do without torch
        from lmgp.kernels.stationary import MaternKernel
        from lmgp.neighbours.placement import column_order

        inputs = _inputs(X, mean, std)
        centre, unit = inputs.mean(axis=0), inputs.std(axis=0)
        if not unit.any() or np.ptp(np.abs(errors)) == 0.0:
            return None
        unit = np.where(unit > 0.0, unit, 1.0)
        # Of a nearly constant function, a mean predicted without a row varies by that row's error alone.
        unit[-2] = max(unit[-2], math.sqrt(np.mean(np.square(std))))
        scaled = (inputs - centre) / unit
        n_landmarks = min(LANDMARKS, -(-len(errors) // ROWS_OF_EACH))
        counts = np.ones(len(errors)) if weights is None else weights
        places = np.round(scaled, DIGITS) + 0.0  # without the sign of zeros
        order = column_order(places.T)  # in which columns of any order have the same landmarks
        map_of_places = NystroemFeatures(n_landmarks, kernel=MaternKernel(1.0), random_state=0).fit(places[:, order])
        landmarks, student = map_of_places.landmarks_[:, np.argsort(order)], Student.fitted(errors, weights)
        lengthscales = [math.sqrt(scaled.shape[1]) * multiple for multiple in LENGTHSCALES]
        modes = parallel_map(
            lambda lengthscale: _Basis.of(scaled, counts, landmarks, lengthscale).mode(errors, student), lengthscales
        )
        best, lengthscale = max(zip(modes, lengthscales, strict=True), key=lambda pair: pair[0].evidence)
        field = cls(landmarks, best.coefficients, lengthscale, best.variance, centre, unit, best.level)
        return field, best.student, best.log_scales

    def log_scale(self, X: Floats, mean: Floats, std: Floats) -> Floats:
        """Return log h of predictions, shape (m,)."""
        scaled = (_inputs(X, mean, std) - self.centre) / self.unit
        log_scales = np.empty(len(scaled))

        def evaluate(part: slice) -> None:
            covariance = _covariance(scaled[part], self.landmarks, self.lengthscale)
            log_scales[part] = 0.5 * (self.level + covariance @ self.coefficients)

        parallel_map(evaluate, list(chunks(len(scaled), len(self.landmarks))))
        return log_scales


class _Mode(NamedTuple):
    """The mode of g for one lengthscale, and the likelihood of the errors there."""

    coefficients: Floats
    variance: float
    level: float
    student: Student
    log_scales: Floats
    evidence: float


@dataclass(frozen=True, eq=False)
class _Basis:
    """Nyström features of the rows for one lengthscale, turned so that their Gram matrix is diagonal.

    Attributes
    ----------
    vectors : ndarray of shape (m, m)
        What makes the columns of covariances with the landmarks.
    columns : ndarray of shape (n, m)
    eigenvalues : ndarray of shape (m,)
        Of the Gram matrix of weighted rows.
    counts : ndarray of shape (n,)
        The weights.
    """

    vectors: Floats
    columns: Floats
    eigenvalues: Floats
    counts: Floats

    @classmethod
    def of(cls, scaled: Floats, counts: Floats, landmarks: Floats, lengthscale: float) -> Self:
        """Map the rows."""
        with_landmarks = _covariance(scaled, landmarks, lengthscale)
        between = _covariance(landmarks, landmarks, lengthscale) + ADDED * np.eye(len(landmarks))
        eigenvalues, vectors = eigh(with_landmarks.T @ (counts[:, None] * with_landmarks), between)
        return cls(vectors, with_landmarks @ vectors, np.maximum(eigenvalues, 0.0), counts)

    def mode(self, errors: Floats, student: Student) -> _Mode:
        """Climb to the mode, from one scale for all errors."""
        level, counts = 2.0 * math.log(student.scale), self.counts
        g, best, squares = np.full(len(errors), level), None, np.square(self.columns)
        for _ in range(MOST_STEPS):
            ratio, degrees = np.square(errors * np.exp(-0.5 * g)), student.degrees
            score, noise = (degrees + 1.0) * ratio / (degrees + ratio) - 1.0, 2.0 * (degrees + 3.0) / degrees
            targets = g + 0.5 * noise * score - level
            cross = self.columns.T @ (counts * targets)
            variance = self._likeliest(cross, noise)
            shrunk = variance / (noise + variance * self.eigenvalues)
            coefficients, leverages = shrunk * cross, counts * (squares @ shrunk)
            mean = self.columns @ coefficients
            log_scales = 0.5 * (level + (mean - leverages * targets) / (1.0 - leverages))
            student = Student.fitted(errors * np.exp(-log_scales), counts)
            g = level + mean
            at_mode = Student(student.degrees).log_density(errors * np.exp(-0.5 * g)) - 0.5 * g
            evidence = float(counts @ at_mode) + self._log_prior(coefficients, noise, variance)
            if best is not None and evidence < best.evidence + LEAST_GAIN * len(errors):
                break
            best = _Mode(self.vectors @ coefficients, variance, level, student, log_scales, evidence)
        assert best is not None  # of one step at least
        return best

    def _likeliest(self, cross: Floats, noise: float) -> float:
        """Return the prior variance under which the targets of a regression are likeliest."""

        def loss(logarithm: float) -> float:
            ratio = math.exp(logarithm) / noise
            shrunk = ratio / (1.0 + ratio * self.eigenvalues)
            return float(np.log1p(ratio * self.eigenvalues).sum() - (np.square(cross) * shrunk).sum() / noise)

        return math.exp(minimize_scalar(loss, bounds=np.log(VARIANCES), method="bounded").x)

    def _log_prior(self, coefficients: Floats, noise: float, variance: float) -> float:
        """Return what Laplace's approximation adds to the log likelihood at the mode, but for a constant."""
        log_determinant = float(np.log1p(variance / noise * self.eigenvalues).sum())
        return -0.5 * (log_determinant + float(np.square(coefficients).sum()) / variance)


def _covariance(left: Floats, right: Floats, lengthscale: float) -> Floats:
    """Return Matérn's kernel of smoothness 3/2 and variance 1, shape (n, m)."""
    r = np.minimum(cdist(left, right) * (math.sqrt(3.0) / lengthscale), 1e3)  # where it is zero
    return (1.0 + r) * np.exp(-r)


def _inputs(X: Floats, mean: Floats, std: Floats) -> Floats:
    """Return what the scale depends on, shape (n, d + 2)."""
    return np.column_stack((X, mean, np.log(std)))
