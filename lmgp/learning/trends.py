"""Linear trends that earn their place: by how well rows and whole neighbourhoods left out are predicted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lmgp.data import Floats, Indices, Noise, Rows, sampling
from lmgp.errors import InputError
from lmgp.learning.engine import Settings, learn_rows, most_of
from lmgp.learning.heldout import Validation, mean_and_error
from lmgp.learning.record import Learned
from lmgp.neighbours.duplicates import steady_order, steady_sample
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.trend import CONSTANT_TREND, Trend, Trended
from lmgp.utils.parallel import parallel_map
from lmgp.utils.progress import TRIED, silent, stage

# By the likelihood of this number of rows, of which there are at least five for each slope, a trend is tried. Of fewer
# rows than the last number, an average over hyper-parameters is worth more, which no trend has.
SAMPLE, ROWS_OF_EACH, FEWEST = 300, 5, 100
# A trend is tried if it gains this number of nats, which is very strong evidence by Kass and Raftery (1995).
EVIDENCE = 5.0
# Slopes are those of at most this number of rows, by the exact process.
MOST_ROWS = 1000
# Single rows gain at least this many nats each: a trend that they do not tell matters in large gaps alone, and there it
# is extrapolated.
LEAST_GAIN = 0.01


def likely_trend(rows: Rows, places: Sequence[Indices], settings: Settings) -> Indices | None:
    """Say in which columns a linear trend is likely, by 300 rows.

    A kernel is learned from these rows, and another one from what a linear function of all columns leaves of them. The
    columns of the trend, those whose slopes are most significant by generalised least squares beside the second kernel,
    are as many as gain most by the extended Bayesian information criterion: beside what slopes gain by chance, the
    logarithm of the number of choices of as many columns is taken off. The trend is likely where it gains five nats.

    Parameters
    ----------
    rows : Rows
        With one centred target.
    places : sequence of ndarray of int
        Which columns of `rows` each column has become that may have a slope.
    settings : Settings

    Returns
    -------
    ndarray of int or None
        Columns of `rows`; None means that no trend is likely.

    References
    ----------
    J. Chen and Z. Chen, *Extended Bayesian Information Criteria for Model Selection with Large Model Spaces*,
    Biometrika 95, 2008.
    """
    columns = np.concatenate(list(places))
    some = rows.take(steady_sample(rows, SAMPLE))
    if len(some) < max(FEWEST, ROWS_OF_EACH * (len(columns) + 1)):
        return None
    stage("trend", "looking for a linear trend in %s rows", f"{len(some):,}")
    settings = replace(settings, likelihood="exact", average=False)
    try:
        trend = Trend.of(some, columns, None)
        coefficients = trend.least_squares(some)
        residuals = some.with_targets(some.Y - trend.columns(some.X) @ coefficients)
        trend.check_residuals(residuals, coefficients)
        with silent():  # what is to be warned about, all rows say
            without, beside = parallel_map(lambda each: learn_rows(each, settings), (some, residuals))
    except InputError:  # y is linear to the last digits
        return None
    of_slopes = 0.5 * np.square(Process(beside, trend, some).significance)
    gains = np.array([of_slopes[np.isin(columns, of)].sum() for of in places])
    order, n_places = np.argsort(-gains, kind="stable"), len(places)
    n_slopes = np.cumsum([0, *(len(places[i]) for i in order)])
    of_choices = [math.log(math.comb(n_places, k)) for k in range(n_places + 1)]
    by_chance = 0.5 * n_slopes * math.log(len(some)) + of_choices
    n_kept = int(np.argmax(np.append(0.0, np.cumsum(gains[order])) - by_chance))
    if n_kept == 0 or not without.kernel.can("metric"):
        return None
    kept = np.concatenate([places[i] for i in np.sort(order[:n_kept])])
    before, after = Process(without, CONSTANT_TREND, some), Process(beside, Trend.of(some, kept, None), some)
    return kept if after.log_likelihood - before.log_likelihood - by_chance[n_kept] > EVIDENCE else None


def trend_pays(rows: Rows, columns: Indices, without: Learned, beside: Learned, scales: Floats) -> bool:
    """Say whether rows left out, each predicted from the nearest others, are predicted better with a trend.

    The mean log density must be larger by more than its standard error, and by more than .01 nats, among rows that are
    left out by themselves; and the mean over these and whole neighbourhoods, by more than its standard error. It must
    be larger than with either kernel and no trend: that of the residuals may be the better one without a trend, too.

    Parameters
    ----------
    rows : Rows
        With one centred target.
    columns : ndarray of int
        Those of the trend.
    without, beside : Learned
        From these rows, and from what a linear function of these columns leaves of them.
    scales : ndarray of shape (d,)
        The unit of each column, in which neighbourhoods are measured.
    """
    rows = most_of(rows)
    rows = rows.take(steady_order(rows))
    some = rows.take(np.sort(sampling().permutation(len(rows))[:MOST_ROWS]))
    validation = Validation.of(rows, scales, sampling(0, 1))
    after = Process(beside, Trend.of(rows, columns, None), some).densities(validation)
    for learned in (without, beside):
        before = Process(learned, CONSTANT_TREND, some).densities(validation)
        gains = [new - old for old, new in zip(before, after, strict=True)]
        (of_rows, error_of_rows), (gain, error) = mean_and_error(gains[:1]), mean_and_error(gains)
        TRIED.info("a linear trend gains %.3g nats a row left out, with a standard error of %.1g", gain, error)
        if not (of_rows > max(error_of_rows, LEAST_GAIN) and gain > error):
            return False
    return True


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process as it was learned, with a trend whose slopes are those of some rows."""

    learned: Learned
    trend: Trend
    some: Rows

    @property
    def significance(self) -> Floats:
        """The slope of each column over its standard error."""
        posterior = Trended(self._exact, self.trend, self._exact.products())
        slopes = self.trend.estimate(posterior.coefficients[:, 0], posterior.coefficients_covariance)
        return np.abs(slopes.coef) / np.maximum(slopes.coef_error, np.finfo(np.float64).tiny)

    @property
    def log_likelihood(self) -> float:
        """That of the rows of the slopes, with the likeliest slopes, in nats."""
        return float(self._trended(self._exact).log_density()[0])

    def densities(self, validation: Validation) -> list[Floats]:
        """Return the log densities of rows and neighbourhoods, each without itself; see `Validation.densities`."""
        validation = replace(validation, rows=self._with_columns(validation.rows), trended=self._trended)
        return validation.densities(self.learned.kernel, self.learned.noise_variance, self.learned.degrees)

    def _trended(self, posterior: Posterior) -> Posterior:
        return Trended(posterior, self.trend, self._exact.products()) if self.trend.estimated else posterior

    @cached_property
    def _exact(self) -> ExactPosterior:
        return ExactPosterior(self.learned.kernel, self._with_columns(self.some), Noise(self.learned.noise_variance))

    def _with_columns(self, rows: Rows) -> Rows:
        H = self.trend.columns(rows.X)
        return rows.with_targets(np.column_stack((rows.Y, H))) if self.trend.estimated else rows
