"""The optimum of a form: the maximum of its likelihood of all rows, with the prior."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import NamedTuple

import numpy as np

from lmgp.data import Floats, Rows
from lmgp.errors import NumericalError
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import Form
from lmgp.learning.periods import with_periods
from lmgp.learning.record import Trial
from lmgp.learning.scoring import Climb, ExactObjective, VecchiaObjective
from lmgp.learning.space import Space, Units
from lmgp.posteriors.average import WeightedKernel
from lmgp.posteriors.likelihood import log_likelihood
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.progress import tried_kernel

# A climb starts at the best of these points, by the exact likelihood of this number of rows: a lengthscale for all
# columns and parts, in √d standard deviations, and a noise variance, in variances of y.
FIRST_ROWS = 500
LENGTHSCALES, NOISES = (0.03, 0.1, 0.3, 1.0, 3.0), (0.02, 0.3)


class Size(NamedTuple):
    """The size of a Vecchia likelihood."""

    n_positions: int
    n_neighbors: int


# The Vecchia likelihood whose information steers a climb of the exact one, and the one that is climbed first.
INFORMATION, NEAR = Size(500, 30), Size(2000, 30)
# The last likelihood has the second size where the additional neighbours raise it by more than `GAIN` nats a row.
ALL, CLOSER, GAIN = Size(20_000, 30), Size(10_000, 60), 0.02


class Optimum(NamedTuple):
    """A form at the maximum of its likelihood.

    Attributes
    ----------
    space : Space
    free : ndarray of shape (n_free,)
        In the coordinates of the space.
    trial : Trial
        The line that says how it was found.
    converged : bool
    objective : VecchiaObjective or ExactObjective
        What was maximised.
    """

    space: Space
    free: Floats
    trial: Trial
    converged: bool
    objective: VecchiaObjective | ExactObjective

    @property
    def hyperparameters(self) -> tuple[Kernel, float]:
        """The kernel and the noise variance."""
        return self.space.kernel(self.free), self.space.noise_variance(self.free)

    @property
    def information(self) -> Floats:
        """The information of the rows of the likelihood, with the prior, shape (n_free, n_free)."""
        return self.objective.information(self.free, self.objective.n_rows)

    def weighted(self, weight: float) -> WeightedKernel:
        """Return them with a weight in an average."""
        return WeightedKernel(*self.hyperparameters, weight)


@dataclass(frozen=True)
class Search:
    """Learns the parameters of forms.

    Parameters
    ----------
    rows : Rows
        With y centred.
    units : Units
    noise_variance : float or None
        One that is given.
    exact : bool
        Whether the likelihood of the rows is the exact one, or Vecchia's.
    seed : int
        Of the order of the rows.
    """

    rows: Rows
    units: Units
    noise_variance: float | None
    exact: bool
    seed: int

    def optimum(self, form: Form) -> Optimum:
        """Maximise the likelihood, from the best of some starting points."""
        start, space = perf_counter(), Space(form, self.units, self.noise_variance)
        climb = self._climbed(space)
        free, objective, value = climb.free, climb.objective, climb.value / climb.objective.n_rows
        trial = Trial(
            form.name, form.ard, len(free), objective.name, objective.n_rows, objective.n_neighbors, value,
            objective.standard_error(climb.at.terms), seconds=perf_counter() - start,
        )  # fmt: skip
        return Optimum(space, free, tried_kernel(trial), climb.converged, objective)

    def _climbed(self, space: Space) -> Climb:
        starts = list(with_periods(self._starts(space), space, self.rows))
        some = self.rows.take(np.random.default_rng(self.seed).permutation(len(self.rows))[:FIRST_ROWS])
        start = max(starts, key=lambda free: _value(some, space, free))
        if not space.form.kernel.can("metric"):
            return Climb(ExactObjective(self.rows, space), start).go_on()
        if self.exact:
            return self._by_exact_likelihood(self.rows, space, start)
        # 500 rows do not tell how alike near rows are: a second start is the best one by the likelihood of more.
        first = self._by_exact_likelihood(some, space, start).free
        second = max(starts, key=lambda free: self._near_value(space, free))
        climbs = [self._by_vecchia_likelihood(NEAR, space, free) for free in (first, second)]
        free = max(climbs, key=lambda climb: climb.at.value).free
        return self._by_vecchia_likelihood(self._enough(space, free), space, free)

    def _starts(self, space: Space) -> Iterator[Floats]:
        if not space.form.named:
            yield space.median
            return
        for lengthscale, noise in product(LENGTHSCALES, NOISES):
            moved = space.median + np.where(space.kinds == "lengthscale", np.log(lengthscale), 0.0)
            yield np.where(space.kinds == "noise", np.log(noise), moved)

    def _likelihood(self, rows: Rows, size: Size) -> VecchiaLikelihood:
        return VecchiaLikelihood(rows, *size, np.random.default_rng(self.seed))

    def _by_exact_likelihood(self, rows: Rows, space: Space, start: Floats) -> Climb:
        return Climb(ExactObjective(rows, space, self._likelihood(rows, INFORMATION)), start).go_on()

    def _by_vecchia_likelihood(self, size: Size, space: Space, start: Floats) -> Climb:
        return Climb(VecchiaObjective(self._likelihood(self.rows, size), space), start).go_on()

    def _enough(self, space: Space, free: Floats) -> Size:
        """Return the size of the last likelihood: of more neighbours, where these gain, or else of more positions."""
        few, more = (
            self._terms(Size(CLOSER.n_positions, k), space, free) for k in (ALL.n_neighbors, CLOSER.n_neighbors)
        )
        return CLOSER if np.mean(more - few) > GAIN else ALL

    def _near_value(self, space: Space, free: Floats) -> float:
        value = float(self._terms(NEAR, space, free).sum()) + space.log_prior(free)[0]
        return value if np.isfinite(value) else -np.inf

    def _terms(self, size: Size, space: Space, free: Floats) -> Floats:
        likelihood = self._likelihood(self.rows, size)
        likelihood.look_for_neighbours(space.kernel(free))
        return likelihood.terms(space.form.kernel, space.logarithms(free))


def _value(rows: Rows, space: Space, free: Floats) -> float:
    """Return the exact log likelihood of rows with the prior, −∞ where float64 does not allow it."""
    try:
        value = log_likelihood(rows, space.kernel(free), space.noise_variance(free))
    except NumericalError:
        return -np.inf
    return value + space.log_prior(free)[0]
