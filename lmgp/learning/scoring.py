"""The maximum of a likelihood with a prior: Fisher scoring with a damped step."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from lmgp.data import Rows, as_tensor
from lmgp.learning.space import Space
from lmgp.posteriors.likelihood import ExactLikelihood, NotPositiveDefiniteError, noise_and_weights
from lmgp.posteriors.vecchia import VecchiaLikelihood

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Damping:
    """How far a step goes.

    Attributes
    ----------
    first, least, most : float
        Multiples of the information's diagonal that are added to it.
    lowered, raised : float
        The multiple is divided by this after a step that gained what was expected, and multiplied after one that did
        not gain.
    expected : float
        The share of the expected gain that is enough.
    longest : float
        No logarithm changes by more in a step.
    renewals : int
        How many times the neighbours are renewed on the way.
    """

    first: float = 1e-2
    least: float = 1e-6
    most: float = 1e6
    lowered: float = 5.0
    raised: float = 8.0
    expected: float = 0.5
    longest: float = 2.0
    renewals: int = 3


DAMPING = Damping()

# Of the differences in place of derivatives, in logarithms.
STEP = 1e-4


class Optimum(NamedTuple):
    """Where a climb ended.

    Attributes
    ----------
    free : ndarray of shape (n_free,)
        In the coordinates of the `Space`.
    value : float
        The log likelihood of the sample, without the prior, in nats.
    terms : ndarray of shape (n_positions,)
        Its terms; of an exact likelihood, the value alone.
    converged : bool
        Whether another step would gain less than the tolerance.
    """

    free: Floats
    value: float
    terms: Floats
    converged: bool


class Objective(Protocol):
    """A log likelihood with the prior, as a function of the free numbers of a space."""

    def moved_to(self, free: Floats) -> bool:
        """Say that the search is there; return whether the objective has changed by that."""
        ...

    def __call__(self, free: Floats) -> "Point":
        """Return the value and its derivatives."""
        ...


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
    """

    def __init__(self, likelihood: VecchiaLikelihood, space: Space) -> None:
        self.likelihood, self.space = likelihood, space

    def moved_to(self, free: Floats) -> bool:
        """Look for the neighbours again, where the ratios of the lengthscales have changed."""
        return self.likelihood.look_for_neighbours(self.space.kernel(free).metric(len(self.space.units.columns)))

    def __call__(self, free: Floats) -> Point:
        """Return the value and its derivatives."""
        value = self.likelihood(self.space.form.kernel, self.space.logarithms(free))
        prior, slope = self.space.log_prior(free)
        information = self.space.information(value.information) - self.space.log_prior_curvature
        return Point(value.total + prior, self.space.gradient(value.gradient) + slope, value.terms, lambda: information)


class ExactObjective:
    """The exact likelihood of some rows, with the prior.

    Parameters
    ----------
    rows : Rows
    space : Space
    sample : VecchiaLikelihood, optional
        Of these rows: its information stands for that of the exact likelihood. If not given, as for kernels without a
        metric, the information is that of all rows, at 2n³ operations for each free number.
    """

    def __init__(self, rows: Rows, space: Space, sample: VecchiaLikelihood | None = None) -> None:
        self.likelihood, self.rows, self.space = ExactLikelihood(rows), rows, space
        self.near = None if sample is None else VecchiaObjective(sample, space)

    def moved_to(self, free: Floats) -> bool:
        """Look for neighbours; the likelihood is the same."""
        if self.near is not None:
            self.near.moved_to(free)
        return False

    def __call__(self, free: Floats) -> Point:
        """Return the value and its derivatives."""
        try:
            value, gradient = self.likelihood(self.space.form.kernel, self.space.logarithms(free))
        except NotPositiveDefiniteError:
            value, gradient = np.nan, np.zeros(len(self.space.index) + 1)
        prior, slope = self.space.log_prior(free)
        return Point(
            value + prior, self.space.gradient(gradient) + slope, np.array([value]), lambda: self._information(free)
        )

    def _information(self, free: Floats) -> Floats:
        if self.near is not None:
            return self.near(free).information * (len(self.rows) / self.near.likelihood.n_positions)
        # ½ tr C⁻¹ ∂ᵢC C⁻¹ ∂ⱼC for each target: differences are near enough for the length of a step.
        factor = cho_factor(self._covariance(free), lower=True)
        changes = [
            cho_solve(factor, self._covariance(free + step) - self._covariance(free - step)) / (2.0 * STEP)
            for step in STEP * np.eye(len(free))
        ]
        traces = np.array([[np.vdot(left, right.T) for right in changes] for left in changes])
        n_targets = self.rows.n_targets
        return 0.5 * n_targets * traces - self.space.log_prior_curvature

    def _covariance(self, free: Floats) -> Floats:
        """Return the covariance of the targets, noise included."""
        noise, weights = noise_and_weights(self.rows, self.space.noise_variance(free))
        X = as_tensor(self.rows.X)
        return self.space.kernel(free).evaluate(X, X).numpy() + np.diag((noise / weights).numpy())


class Climb:
    """Fisher scoring: the way to a maximum of a log likelihood with the prior, some steps at a time.

    Parameters
    ----------
    objective : Objective
    space : Space
    start : ndarray of shape (n_free,)

    Attributes
    ----------
    space : Space
    seconds : float
        That it took.

    References
    ----------
    J. Guinness, *Gaussian Process Learning via Fisher Scoring of Vecchia's Approximation*, Statistics and Computing,
    2021.
    """

    def __init__(self, objective: Objective, space: Space, start: Floats) -> None:
        self.space, self.seconds = space, 0.0
        self._objective, self._free = objective, np.clip(start, *space.bounds.T)
        self._damping, self._renewals, self._converged = DAMPING.first, DAMPING.renewals, False

    @cached_property
    def _at(self) -> Point:
        self._objective.moved_to(self._free)
        return self._objective(self._free)

    @property
    def optimum(self) -> Optimum:
        """Where it is."""
        return Optimum(self._free, float(self._at.terms.sum()), self._at.terms, self._converged)

    def go_on(self, steps: int, tolerance: float) -> None:
        """Take some steps more.

        Parameters
        ----------
        steps : int
            At most.
        tolerance : float
            The search stops where a step is expected to gain less, in nats. One standard error off the optimum, 1/2 nat
            is lost: a gain of much less cannot be shown by these rows.
        """
        start, (low, high) = perf_counter(), self.space.bounds.T
        for _ in range(steps):
            if self._converged or self._damping > DAMPING.most:
                break
            step, promised = _step(self._at, self._damping, self._free, low, high)
            self._converged = promised < tolerance
            if not self._converged:
                self._take(step)
        self.seconds += perf_counter() - start

    def _take(self, step: Floats) -> None:
        """Take a step if it gains, and damp the next one if it does not."""
        at, proposed = self._at, self._objective(self._free + step)
        gain = proposed.value - at.value
        if not gain > 0.0:  # or not a number
            self._damping *= DAMPING.raised
            return
        if gain > DAMPING.expected * float(at.gradient @ step - 0.5 * step @ at.information @ step):
            self._damping = max(self._damping / DAMPING.lowered, DAMPING.least)
        self._free, self._at = self._free + step, proposed
        if self._renewals and self._objective.moved_to(self._free):
            self._renewals -= 1
            self._at = self._objective(self._free)


def climb(objective: Objective, space: Space, start: Floats, *, steps: int, tolerance: float) -> Optimum:
    """Maximise a log likelihood with the prior: see `Climb`."""
    found = Climb(objective, space, start)
    found.go_on(steps, tolerance)
    return found.optimum


def _step(at: Point, damping: float, free: Floats, low: Floats, high: Floats) -> tuple[Floats, float]:
    """Return the damped step within the bounds, and what it would gain without bounds and limits.

    Numbers at a bound that the gradient presses against stay there.
    """
    inside = ~(((free <= low) & (at.gradient < 0.0)) | ((free >= high) & (at.gradient > 0.0)))
    step = np.zeros_like(free)
    if not inside.any():
        return step, 0.0
    matrix, slope = at.information[np.ix_(inside, inside)], at.gradient[inside]
    # In logarithms, curvature has the slope itself as a part: it counts where a parameter is so small that it says
    # nothing, as a noise variance near zero.
    step[inside] = np.linalg.solve(matrix + np.diag(damping * np.diag(matrix) + np.abs(slope)), slope)
    promised = 0.5 * float(slope @ step[inside])
    # Shorter as a whole: what is left of a step whose parts are cut one by one may lead down.
    step *= min(1.0, DAMPING.longest / float(np.abs(step).max()))
    return np.clip(free + step, low, high) - free, promised
