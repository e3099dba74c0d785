"""What learning tried, and what it found."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from lmgp.kernels.base import Kernel
from lmgp.posteriors.average import WeightedKernel
from lmgp.utils.trials import Trials


class Trial(NamedTuple):
    """One line of a `Learning`: the parameters of one kernel, by one likelihood.

    Attributes
    ----------
    kernel : str
        The name of the form.
    ard : bool
        Whether columns have lengthscales of their own.
    n_free : int
        The number of free parameters, with the noise.
    likelihood : str
        "vecchia", "vecchia, t" with a t in place of the normal distribution of errors, "exact", or "modes" for that of
        sums over rows on Fourier modes.
    n_rows : int
        The number of positions of the Vecchia likelihood, or of rows of the exact one.
    n_neighbors : int
        Of each position; 0 for the exact likelihood.
    log_likelihood : float
        Per row, in nats; of several targets the sum, of each over its standard deviation.
    standard_error : float
        Of `log_likelihood`, over the choice of positions: 0 where all rows are positions.
    alone, regions : float
        The mean log predictive density of rows that were left out at random, and of neighbourhoods that were left out
        as a whole, in nats per row; not a number where that was not looked at.
    density_error : float
        The standard error of the mean of both.
    seconds : float
    chosen : bool
    n_own : int
        Of many columns, the number of those that have lengthscales of their own, while all others share one; 0 where
        all are treated alike.
    """

    kernel: str
    ard: bool
    n_free: int
    likelihood: str
    n_rows: int
    n_neighbors: int
    log_likelihood: float
    standard_error: float = 0.0
    alone: float = math.nan
    regions: float = math.nan
    density_error: float = math.nan
    seconds: float = 0.0
    chosen: bool = False
    n_own: int = 0

    @property
    def lengthscales(self) -> str:
        """How many there are, to be printed."""
        return f"of {self.n_own} columns" if self.n_own else "one a column" if self.ard else "one"


@dataclass(frozen=True)
class Learning(Trials[Trial]):
    """What learning tried, in this order: a sequence of `Trial`.

    ``print(learning)`` shows a table, and ``pandas.DataFrame(learning)`` makes one.

    Attributes
    ----------
    trials : tuple of Trial
        Of a kernel and a noise variance that were given, none.
    n_rows : int
        The number of training rows.
    n_copies : int
        The number of rows that are exact copies of others, with equal X and equal y, among the rows of which the
        likelihood was taken: of very many rows of many columns, a sample.
    seconds : float
        Of all of it.
    """

    trials: tuple[Trial, ...] = ()
    n_rows: int = 0
    n_copies: int = 0
    seconds: float = 0.0

    columns = (
        ("kernel", lambda trial: trial.kernel, ""),
        ("lengthscales", lambda trial: trial.lengthscales, ""),
        ("likelihood", lambda trial: trial.likelihood, ""),
        ("rows", lambda trial: trial.n_rows, ","),
        ("neighbours", lambda trial: trial.n_neighbors or "all", ""),
        ("nats/row", lambda trial: trial.log_likelihood, ".4f"),
        ("s.e.", lambda trial: trial.standard_error or None, ".1g"),
        ("rows left out", lambda trial: trial.alone, ".4f"),
        ("regions", lambda trial: trial.regions, ".4f"),
        ("s.e.", lambda trial: trial.density_error, ".1g"),
        ("s", lambda trial: trial.seconds, ".2g"),
    )

    def __str__(self) -> str:
        if not self.trials:
            return "Nothing was learned: the kernel and the noise variance were given."
        copies = f", of which {self.n_copies:,} are exact copies of others" if self.n_copies else ""
        note = f"*: taken, for {self.n_rows:,} rows{copies}. {self.seconds:.2g} s in all."
        return "\n".join((*self.table(4), note))


@dataclass(frozen=True)
class Learned:
    """What `lmgp.learn` found.

    Attributes
    ----------
    kernel : Kernel
    noise_variance : float
        In squared units of y.
    log_marginal_likelihood : float
        In nats and in the caller's units of y: of all rows, exact where there are at most `max_learning_rows`,
        otherwise the Vecchia estimate. Where kernel and noise were given, or the kernel has no lengthscale, the exact
        one of the sample of at most `max_learning_rows` rows.
    converged : bool
        Whether the search came to an optimum; True where nothing was searched for.
    learning : Learning
        What was tried.
    average : tuple of WeightedKernel
        What a search found: one kernel, or those of an average, the likeliest first.
    degrees : float
        The degrees of freedom of the t of errors; infinity where they were taken to be normal.
    """

    kernel: Kernel
    noise_variance: float
    log_marginal_likelihood: float
    converged: bool
    learning: Learning = field(default_factory=Learning, compare=False)
    average: tuple[WeightedKernel, ...] = ()
    degrees: float = math.inf
