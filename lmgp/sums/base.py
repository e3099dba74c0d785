"""What every kind of sums over rows answers: they add, rows can be taken out, and they make a posterior."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats, Noise, Rows, Summary, TargetSums, not_there
from lmgp.errors import InputError
from lmgp.posteriors.base import Posterior

# Rows of a sample: all of a smaller stream, in their order.
SAMPLE_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class Sums(ABC):
    """Sums over rows, of one kernel, noise and map: those of disjoint rows add, and make one posterior.

    Targets are the columns of y, less anything that is the same for all rows to come, and behind them columns h of a
    trend, of which the first is 1: what y is less of in the end is a combination of these.

    Attributes
    ----------
    targets : TargetSums
    summary : Summary or None
        None of no rows.
    waiting : Rows or None
        Rows that are summed together with the next ones: some sums take as long for few rows as for many.
    """

    targets: TargetSums
    summary: Summary | None
    waiting: Rows | None

    # Rows of chunks wait until there are as many.
    least_rows: ClassVar[int] = 1

    # Whether a posterior of nearly the same rows saves time without a change of the result.
    uses_start: ClassVar[bool] = False

    # Whether a posterior is made at once, whatever the number of rows: a trend that 4,000 rows told then stays.
    are_quick: ClassVar[bool] = False

    @property
    def keeps_rows(self) -> bool:
        """Whether the rows themselves are kept beside, or in place of, sums over them."""
        return False

    @abstractmethod
    def of(self, rows: Rows) -> Self:
        """Return the sums over some rows alone, of the same kernel, noise and map."""

    @abstractmethod
    def combine(self, other: Self, sign: float) -> Self:
        """Return these sums plus `sign` times others; nothing is waiting in either.

        Raises
        ------
        InputError
            If the others are of another kernel, noise or map, or more is taken out than there is.
        """

    @abstractmethod
    def posterior(self, combination: Floats, start: Posterior | None = None) -> Posterior:
        """Solve for the targets Y @ combination.

        Parameters
        ----------
        combination : ndarray of shape (t, s)
        start : Posterior, optional
            From which iterations may start: of nearly the same rows.
        """

    def latest(self, n: int) -> Self:
        """Return the sums over the n rows that came last, of these sums with no row waiting.

        Raises
        ------
        InputError
            If the rows are not kept.
        """
        raise InputError(
            "This model has sums over its rows, and does not know which of them came first: forget(keep=) takes a "
            "model that keeps its rows. Give forget the rows that are to go."
        )

    def empty(self) -> Self:
        """Return the sums over no rows: what it takes to sum rows elsewhere."""
        none = TargetSums.zeros(len(self.targets.totals))
        return replace(self, targets=none, summary=None, waiting=None)

    def check(self, rows: Rows) -> None:  # noqa: B027 - most serve all rows
        """Refuse rows that these sums cannot serve.

        Raises
        ------
        InputError
        """

    @property
    def covers(self) -> bool:
        """Whether a pass is needed that says where all rows are, before they are summed: by `places` and `covering`."""
        return False

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return (0 if self.summary is None else self.summary.n_rows) + (0 if self.waiting is None else len(self.waiting))

    def added(self, rows: Rows) -> Self:
        """Return the sums with more rows, which may wait."""
        rows = rows if self.waiting is None else self.waiting.joined(rows, self.noise_variance)
        sums = replace(self, waiting=rows)
        return sums if len(rows) < self.least_rows else sums.settled

    @property
    def noise_variance(self) -> float:
        """The noise variance of rows without one of their own: that of `noise`, where sums have one."""
        noise: Noise = self.noise  # type: ignore[attr-defined]
        return noise.variance

    @property
    def settled(self) -> Self:
        """These sums, with no row waiting."""
        if self.waiting is None:
            return self
        without_waiting = replace(self, waiting=None)
        return without_waiting + without_waiting.of(self.waiting)

    def __add__(self, other: Self) -> Self:
        return self.settled.combine(other.settled, 1.0)

    def __sub__(self, other: Self) -> Self:
        remaining = self.settled.combine(other.settled, -1.0)
        if remaining.n_rows <= 0 or remaining.targets.n <= 0.0:
            raise InputError("No row would be left. A model needs at least one: fit another one instead.")
        return remaining


def combined(first: Any, second: Any, sign: float = 1.0) -> Any:
    """Add the sums over two sets of rows, or take the second from the first with sign −1; None stands for no rows.

    Raises
    ------
    InputError
        If more is taken out than there is.
    """
    if second is None:
        return first
    if first is None and sign < 0.0:
        raise not_there("no row is near one of them")
    return second if first is None else first.combine(second, sign)


@dataclass(eq=False)
class Sample:
    """A random sample of rows, each as likely as any other, and the summary of all of them.

    Attributes
    ----------
    rng : numpy.random.Generator
    size : int
    rows : Rows or None
        With y as it is.
    keys : ndarray of shape (n,)
        A random number for each row: those with the smallest ones stay.
    summary : Summary or None
    targets : TargetSums or None
        Of all rows, as the summary.
    whole : bool
        Whether all rows of the stream have been seen.
    target_names : ndarray of shape (t,) or None
        Of the first rows; None of a y of shape (n,).
    """

    rng: np.random.Generator
    size: int = SAMPLE_ROWS
    rows: Rows | None = None
    keys: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    summary: Summary | None = None
    targets: TargetSums | None = None
    whole: bool = False
    target_names: NDArray[Any] | None = None

    def add(self, rows: Rows, noise_variance: float | None = None) -> None:
        """Add rows; `noise_variance` is that of rows without one, among others that have one.

        Raises
        ------
        InputError
            If it is needed and not given.
        """
        if self.rows is not None and rows.n_targets != self.rows.n_targets:
            raise InputError(f"it has {rows.n_targets} targets, chunks before it have {self.rows.n_targets}.")
        lacks = rows.noise_variances is None
        if self.rows is not None and lacks != (self.rows.noise_variances is None) and noise_variance is None:
            raise InputError(
                f"it has {'no ' if lacks else ''}noise variances, chunks before it have {'some' if lacks else 'none'}. "
                "Give noise_variance, that of rows without one, or noise variances in all chunks."
            )
        targets, _ = TargetSums.of(rows)
        self._take(rows, self.rng.uniform(size=len(rows)), Summary.of(rows), targets, noise_variance or 1.0)

    def merge(self, other: Self) -> Self:
        """Return the sample of the rows of both, those of the other one behind; of the same size."""
        both = replace(self)
        if other.rows is not None:
            both._take(other.rows, other.keys, other.summary, other.targets, 1.0)
        return both

    def _take(
        self, rows: Rows, keys: NDArray[np.float64], summary: Summary | None, targets: TargetSums | None,
        noise_variance: float,
    ) -> None:  # fmt: skip
        self.summary, self.targets = combined(self.summary, summary), combined(self.targets, targets)
        if len(self.keys) == self.size:  # of most chunks, few rows stay
            (near,) = np.nonzero(keys < self.keys.max())
            keys, rows = keys[near], rows.take(near)
        keys = np.concatenate((self.keys, keys))
        joined = rows if self.rows is None else self.rows.joined(rows, noise_variance)
        if len(keys) > self.size:
            kept = np.sort(np.argpartition(keys, self.size - 1)[: self.size])
            keys, joined = keys[kept], joined.take(kept)
        self.keys, self.rows = keys, joined
