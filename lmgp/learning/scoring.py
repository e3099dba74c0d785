"""The maximum of a likelihood with a prior: Fisher scoring with a damped step."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lmgp.inference.density import NotPositiveDefiniteError
from lmgp.inference.likelihood import ExactLikelihood
from lmgp.inference.vecchia import VecchiaLikelihood
from lmgp.learning.space import Space
from lmgp.validation import Rows

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


class Point(NamedTuple):
    """An objective at one point: with the prior, its gradient and information; and the likelihood's terms alone."""

    value: float
    gradient: Floats
    information: Floats
    terms: Floats


class Sample:
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
        return Point(
            value.total + prior,
            self.space.gradient(value.gradient) + slope,
            self.space.information(value.information) - self.space.log_prior_curvature,
            value.terms,
        )


class Exact:
    """The exact likelihood of some rows, with the prior; its information is that of a Vecchia likelihood.

    Parameters
    ----------
    rows : Rows
    space : Space
    sample : VecchiaLikelihood
        Of these rows.
    """

    def __init__(self, rows: Rows, space: Space, sample: VecchiaLikelihood) -> None:
        self.likelihood, self.space, self.near = ExactLikelihood(rows), space, Sample(sample, space)
        self.scale = len(rows.y) / sample.n_positions

    def moved_to(self, free: Floats) -> bool:
        """Look for neighbours; the likelihood is the same."""
        self.near.moved_to(free)
        return False

    def __call__(self, free: Floats) -> Point:
        """Return the value and its derivatives."""
        try:
            value, gradient = self.likelihood(self.space.form.kernel, self.space.logarithms(free))
        except NotPositiveDefiniteError:
            value, gradient = np.nan, np.zeros(len(self.space.index) + 1)
        prior, slope = self.space.log_prior(free)
        information = self.near(free).information * self.scale
        return Point(value + prior, self.space.gradient(gradient) + slope, information, np.array([value]))


def climb(objective: Objective, space: Space, start: Floats, *, steps: int, tolerance: float) -> Optimum:
    """Maximise a log likelihood with the prior by Fisher scoring.

    Parameters
    ----------
    objective : Objective
    space : Space
    start : ndarray of shape (n_free,)
    steps : int
        At most.
    tolerance : float
        The search stops where a step is expected to gain less, in nats. One standard error off the optimum, 1/2 nat is
        lost: a gain of much less cannot be shown by these rows.

    Returns
    -------
    Optimum

    References
    ----------
    J. Guinness, *Gaussian Process Learning via Fisher Scoring of Vecchia's Approximation*, Statistics and Computing,
    2021.
    """
    low, high = space.bounds.T
    free = np.clip(start, low, high)
    objective.moved_to(free)
    at = objective(free)
    damping, renewals, converged = DAMPING.first, DAMPING.renewals, False
    for _ in range(steps):
        step, promised = _step(at, damping, free, low, high)
        if promised < tolerance:
            converged = True
            break
        expected = float(at.gradient @ step - 0.5 * step @ at.information @ step)
        proposed = objective(free + step)
        gain = proposed.value - at.value
        if not gain > 0.0:  # or not a number
            damping *= DAMPING.raised
            if damping > DAMPING.most:
                break
            continue
        free, at = free + step, proposed
        if gain > DAMPING.expected * expected:
            damping = max(damping / DAMPING.lowered, DAMPING.least)
        if renewals and objective.moved_to(free):
            renewals -= 1
            at = objective(free)
    return Optimum(free, float(at.terms.sum()), at.terms, converged)


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
