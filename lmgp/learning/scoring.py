"""The maximum of a likelihood with a prior: Fisher scoring with a damped step, corrected by secants."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from lmgp.data import Floats, Noise, Rows, as_tensor, sampling
from lmgp.learning.record import Trial
from lmgp.learning.space import LEAST_SCALE, Space
from lmgp.posteriors.exact import ExactLikelihood
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.parallel import single_threaded

# Multiples of the information's diagonal that are added to it: of the first step, at least and at most.
FIRST, LEAST, MOST = 1e-2, 1e-3, 1e6
# The multiple is divided by the first of these after a step that gained a share `EXPECTED` of what was expected, and
# multiplied by the second after one that did not gain.
LOWERED, RAISED, EXPECTED = 5.0, 8.0, 0.5
# No logarithm changes by more in a step: what is added to all of the information's diagonal, in nats, is doubled until
# it is so, which shortens the others least.
LONGEST = 2.0
# A climb takes at most this number of steps, and ends where one gains, or is to gain, less than this many nats a row.
STEPS, TOLERANCE = 30, 2e-4
# The curvature along a step is at least this share of what the model has without it.
LEAST_CURVATURE = 0.2
# Without a metric, steps are by the information of at most this number of rows: more say little more of a slope. Up to
# this number, evidence and averages take it for that of all rows.
MOST_ROWS = 500
# Of the differences in place of derivatives, in logarithms.
STEP = 1e-4


@dataclass(frozen=True)
class Point:
    """An objective at one point.

    Attributes
    ----------
    value : float
        With the prior.
    gradient : ndarray of shape (n_free,)
        Of the same.
    terms : ndarray of shape (n_positions,)
        Of the likelihood alone; of an exact one, the value.
    of_information : callable
        Returns the information, shape (n_free, n_free): where no step starts, it is not needed.
    """

    value: float
    gradient: Floats
    terms: Floats
    of_information: Callable[[], Floats]

    @cached_property
    def information(self) -> Floats:
        """The information, with the prior."""
        return self.of_information()


class VecchiaObjective:
    """The Vecchia likelihood of a sample of positions, with the prior.

    Parameters
    ----------
    likelihood : VecchiaLikelihood
    space : Space
    tails : bool, default=False
        Whether errors may have a t in place of a normal distribution: where that pays at the start of a climb, with the
        degrees of freedom that are likeliest there. Below the least noise of a t, errors are what neighbours miss.
    """

    def __init__(self, likelihood: VecchiaLikelihood, space: Space, tails: bool = False) -> None:
        self.likelihood, self.space, self.bounds, self._tails = likelihood, space, space.bounds, tails
        self.n_rows, self.n_neighbors = likelihood.n_positions, likelihood.n_neighbors
        self.standard_error = likelihood.standard_error

    @property
    def name(self) -> str:
        """What the likelihood is called in a `Learning`."""
        return "vecchia" if math.isinf(self.degrees) else "vecchia, t"

    @property
    def degrees(self) -> float:
        """The degrees of freedom of the errors."""
        return self.likelihood.student.degrees

    def value(self, free: Floats) -> float:
        """Return the log likelihood with the prior, −∞ where float64 does not allow it."""
        value = self(free).value
        return value if math.isfinite(value) else -math.inf

    def start_at(self, free: Floats) -> None:
        """Look for the neighbours, and take the tails that errors have, where a climb starts."""
        self.likelihood.look_for_neighbours(self.space.kernel(free))
        if self._tails and self.space.noise_variance(free) > LEAST_SCALE * self.space.units.noise:
            self.likelihood.take_tails(self.space.form.kernel, self.space.logarithms(free))
        if math.isfinite(self.degrees):  # under a t, the least noise is larger
            self.bounds = replace(self.space, least_noise=LEAST_SCALE).bounds

    def __call__(self, free: Floats) -> Point:
        """Return the value and its derivatives."""
        form, n = self.space.form, len(free)  # by the noise variance, too, only where it is free
        terms, gradient, of_sample = self.likelihood(form.kernel, self.space.logarithms(free), form.ties)
        prior, slope = self.space.log_prior(free)
        information = of_sample[:n, :n] + self.space.prior_information
        return Point(float(terms.sum()) + prior, gradient[:n] + slope, terms, lambda: information)


class ExactObjective:
    """The exact likelihood of some rows, with the prior.

    Parameters
    ----------
    rows : Rows
    space : Space
    sample : VecchiaLikelihood, optional
        Of these rows: its information stands for that of the exact likelihood. If not given, as for kernels without a
        metric, that of at most 500 rows does.
    """

    name, n_neighbors, degrees = "exact", 0, math.inf

    def __init__(self, rows: Rows, space: Space, sample: VecchiaLikelihood | None = None) -> None:
        self.likelihood, self.rows, self.n_rows = ExactLikelihood(rows), rows, len(rows)
        self.space, self.bounds = space, space.bounds
        self.near = None if sample is None else VecchiaObjective(sample, space)
        self._some = rows.take(np.sort(sampling().permutation(len(rows))[:MOST_ROWS]))

    def standard_error(self, _: Floats) -> float:
        """Return 0: all rows are positions."""
        return 0.0

    def value(self, free: Floats) -> float:
        """Return the log likelihood with the prior, −∞ where float64 does not allow it."""
        with single_threaded():
            value = self.likelihood.value(self.space.form.kernel, self.space.logarithms(free))
        return value + self.space.log_prior(free)[0] if math.isfinite(value) else -math.inf

    def start_at(self, free: Floats) -> None:
        """Look for the neighbours of the information, where a climb starts."""
        if self.near is not None:
            self.near.start_at(free)

    def __call__(self, free: Floats) -> Point:
        """Return the value and its derivatives."""
        # Forms are learned beside each other, and threads that wait for others cost most on a busy machine.
        with single_threaded():
            value, gradient = self.likelihood(self.space.form.kernel, self.space.logarithms(free))
        prior, slope = self.space.log_prior(free)
        gradient = self.space.gradient(gradient) + slope
        return Point(value + prior, gradient, np.array([value]), lambda: self._information(free))

    def _information(self, free: Floats) -> Floats:
        """Return the information of all rows, or without a metric of some of them, with the prior."""
        prior = self.space.prior_information
        if self.near is not None:
            return (self.near(free).information - prior) * (self.n_rows / self.near.n_rows) + prior
        # ½ tr C⁻¹ ∂ᵢC C⁻¹ ∂ⱼC for each target: differences and some rows are near enough for the length of a step.
        factor, steps = cho_factor(self._covariance(free), lower=True), STEP * np.eye(len(free))
        changes = [cho_solve(factor, self._covariance(free + step) - self._covariance(free - step)) for step in steps]
        traces = np.einsum("aij,bji->ab", changes, changes) / (2.0 * STEP) ** 2
        return 0.5 * self.rows.n_targets * traces + prior

    def _covariance(self, free: Floats) -> Floats:
        """Return the covariance of the targets of some rows, noise included."""
        X, noise = as_tensor(self._some.X), Noise(self.space.noise_variance(free))
        return self.space.kernel(free).evaluate(X, X).numpy() + np.diag(noise.of_weighted_rows(self._some))


class Climb:
    """Fisher scoring: the way to a maximum of a log likelihood with the prior, some steps at a time.

    The information is the expected curvature. From it and the changes of the gradient over all steps, the formula
    of Broyden, Fletcher, Goldfarb and Shanno makes a second model of the curvature. A step is taken by the model that
    has told the gain of the last one better.

    Parameters
    ----------
    objective : VecchiaObjective or ExactObjective
    start : ndarray of shape (n_free,)

    Attributes
    ----------
    space : Space
    free : ndarray of shape (n_free,)
        Where it is, in the coordinates of the `Space`.
    converged : bool
        Whether another step would gain less than the tolerance, or the last one did.
    trial : Trial
        Of a `Search`, the line that says how it was found.

    References
    ----------
    J. Guinness, *Gaussian Process Learning via Fisher Scoring of Vecchia's Approximation*, Statistics and Computing,
    2021.

    J. E. Dennis, D. M. Gay and R. E. Welsch, *An Adaptive Nonlinear Least-Squares Algorithm*, ACM Transactions on
    Mathematical Software 7, 1981: two models of the curvature, of which the last step decides.
    """

    trial: Trial

    def __init__(self, objective: VecchiaObjective | ExactObjective, start: Floats) -> None:
        self.space, self.converged = objective.space, False
        self.objective, self._damping = objective, FIRST
        self._secants: list[tuple[Floats, Floats]] = []  # steps, and by how much the gradient fell
        self._trusted = 0  # which of the two models
        objective.start_at(np.clip(start, *objective.bounds.T))
        self.free = np.clip(start, *objective.bounds.T)  # which the tails that were taken there may have moved

    @cached_property
    def at(self) -> Point:
        """The objective where it is."""
        return self.objective(self.free)

    @property
    def value(self) -> float:
        """The log likelihood of the sample, without the prior, in nats."""
        return float(self.at.terms.sum())

    def log_evidence(self, space: Space, copies: float = 1.0) -> float:
        """Return the logarithm of the integral of likelihood times prior, by Laplace's approximation at the end.

        Parameters
        ----------
        space : Space
            That of the climb; or one with another prior, beside which the likelihood is taken to be quadratic.
        copies : float, default=1.0
            How often each row counts, where some stand for more rows.
        """
        (before, from_slope), (prior, slope) = self.space.log_prior(self.free), space.log_prior(self.free)
        curvature = copies * (self.at.information - self.space.prior_information) + space.prior_information
        rise = slope - copies * from_slope
        value = copies * (self.at.value - before) + prior + 0.5 * float(rise @ np.linalg.solve(curvature, rise))
        return value - 0.5 * float(np.linalg.slogdet(curvature / (2.0 * math.pi))[1])

    def go_on(self, steps: int = STEPS, tolerance: float = TOLERANCE) -> Self:
        """Take some steps more.

        Parameters
        ----------
        steps : int
            At most.
        tolerance : float
            In nats a row, see `TOLERANCE`.
        """
        least = tolerance * self.objective.n_rows
        for _ in range(steps):
            if self.converged or self._damping > MOST:
                break
            # In logarithms, curvature has the slope itself as a part: it counts where a parameter is so small that it
            # says nothing, as a noise variance near zero.
            model = self.at.information + np.diag(np.abs(self.at.gradient))
            models = model, corrected(model, self._secants)
            step, promised = self._step(models[self._trusted])
            self.converged = promised < least or self._take(step, models, least)
        return self

    def _step(self, model: Floats) -> tuple[Floats, float]:
        """Return the damped step within the bounds, and what it would gain without bounds and limits.

        Numbers at a bound that the gradient presses against stay there.
        """
        free, gradient, (low, high) = self.free, self.at.gradient, self.objective.bounds.T
        inside = ~(((free <= low) & (gradient < 0.0)) | ((free >= high) & (gradient > 0.0)))
        step = np.zeros_like(free)
        matrix, slope = model[np.ix_(inside, inside)], gradient[inside]
        matrix, ridge = matrix + np.diag(self._damping * np.diag(matrix)), 1.0
        step[inside] = np.linalg.solve(matrix, slope)
        promised = 0.5 * float(slope @ step[inside])
        while np.abs(step).max() > LONGEST:  # by numbers that the likelihood hardly depends on
            step[inside] = np.linalg.solve(matrix + ridge * np.eye(len(matrix)), slope)
            ridge *= 2.0
        return np.clip(free + step, low, high) - free, promised

    def _take(self, step: Floats, models: Sequence[Floats], least: float) -> bool:
        """Take a step if it gains, and damp the next one if not; say whether it gained less than is worth a step."""
        at, proposed = self.at, self.objective(self.free + step)
        gain = proposed.value - at.value
        expected = [float(at.gradient @ step - 0.5 * step @ model @ step) for model in models]
        as_expected = gain > EXPECTED * expected[self._trusted]
        if np.isfinite(gain):
            self._trusted = int(abs(expected[1] - gain) < abs(expected[0] - gain))
            self._secants.append((step, at.gradient - proposed.gradient))
        if not gain > 0.0:  # or not a number
            self._damping *= RAISED
            return False
        if as_expected:
            self._damping = max(self._damping / LOWERED, LEAST)
        self.free, self.at = self.free + step, proposed
        return as_expected and gain < least and self._damping <= FIRST  # others may gain little anywhere


def corrected(curvature: Floats, secants: Iterable[tuple[Floats, Floats]]) -> Floats:
    """Correct a model of the curvature by steps and the changes of the gradient over them.

    Parameters
    ----------
    curvature : ndarray of shape (k, k)
        Positive definite.
    secants : iterable of pairs of ndarray of shape (k,)
        Each a step, and by how much the gradient fell over it; those that are to hold exactly last.

    Returns
    -------
    ndarray of shape (k, k)
        Positive definite.

    References
    ----------
    J. Nocedal and S. J. Wright, *Numerical Optimization*, 2nd edition, 2006, equation 6.19 and procedure 18.2.
    """
    for step, fall in secants:
        along = curvature @ step
        known, shown = float(step @ along), float(step @ fall)
        if shown < LEAST_CURVATURE * known:
            share = (1.0 - LEAST_CURVATURE) * known / (known - shown)
            fall, shown = share * fall + (1.0 - share) * along, LEAST_CURVATURE * known
        curvature = curvature + np.outer(fall, fall) / shown - np.outer(along, along) / known
    return curvature
