"""Linear trends that earn their place: by how well rows and whole neighbourhoods left out are predicted."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lmgp.data import Floats, Indices, Noise, Rows, sampling
from lmgp.errors import InputError
from lmgp.learning.engine import Settings, learn_rows, most_of
from lmgp.learning.heldout import Validation, mean_and_error
from lmgp.learning.record import Learned
from lmgp.neighbours.duplicates import merged_copies, steady_sample
from lmgp.posteriors.exact import ExactPosterior, log_likelihood
from lmgp.posteriors.trend import Trend, Trended
from lmgp.utils.parallel import parallel_map
from lmgp.utils.progress import TRIED, silent, stage

# By the likelihood of this number of rows, of which there are at least five for each slope, a trend is tried. Of fewer
# rows than the last number, an average over hyperparameters is worth more, which no trend has.
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
    rows = merged_copies(rows)
    some = rows.take(steady_sample(rows, SAMPLE))
    if len(some) < max(FEWEST, ROWS_OF_EACH * (sum(map(len, places)) + 1)):
        return None
    stage("trend", "looking for a linear trend in %s rows", f"{len(some):,}")
    settings = replace(settings, likelihood="exact", average=False)
    # Most rows have no trend, and climbs from the best starting point say so in a third of the time.
    if _likely_columns(some, places, replace(settings, race=False)) is None:
        return None
    return _likely_columns(some, places, settings)


def _likely_columns(some: Rows, places: Sequence[Indices], settings: Settings) -> Indices | None:
    """Return the columns that `likely_trend` finds in these rows."""
    columns = np.concatenate(list(places))
    try:
        trend = Trend.of(some, columns, None)
        coefficients = trend.least_squares(some)
        residuals = some.with_targets(some.Y - trend.columns(some.X) @ coefficients)
        trend.check_residuals(residuals, coefficients)
        with silent():  # what is to be warned about, all rows say
            without, beside = parallel_map(lambda each: learn_rows(each, settings), (some, residuals))
    except InputError:  # y is linear to the last digits
        return None
    posterior = _exact(beside, trend, some)
    slopes = trend.estimate(posterior.coefficients[:, 0], posterior.coefficients_covariance)
    of_slopes = 0.5 * np.square(slopes.coef / np.maximum(slopes.coef_error, np.finfo(np.float64).tiny))
    gains = np.array([of_slopes[np.isin(columns, of)].sum() for of in places])
    order, n_places = np.argsort(-gains, kind="stable"), len(places)
    n_slopes = np.cumsum([0, *(len(places[i]) for i in order)])
    of_choices = [math.log(math.comb(n_places, k)) for k in range(n_places + 1)]
    by_chance = 0.5 * n_slopes * math.log(len(some)) + of_choices
    n_kept = int(np.argmax(np.append(0.0, np.cumsum(gains[order])) - by_chance))
    if n_kept == 0 or not without.kernel.can("metric"):
        return None
    kept = np.concatenate([places[i] for i in np.sort(order[:n_kept])])
    before = log_likelihood(some, without.kernel, without.noise_variance)
    after = float(_exact(beside, Trend.of(some, kept, None), some).log_density()[0])
    return kept if after - before - by_chance[n_kept] > EVIDENCE else None


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
    rows = merged_copies(most_of(rows))
    some = rows.take(np.sort(sampling().permutation(len(rows))[:MOST_ROWS]))
    near = all(learned.kernel.can("metric") for learned in (without, beside))
    validation = Validation.of(rows, scales, sampling(0, 1), near)
    with_trend = _with_trend(validation, _exact(beside, Trend.of(rows, columns, None), some))
    after = with_trend.densities(beside.kernel, beside.noise_variance, beside.degrees)
    for learned in (without, beside):
        before = validation.densities(learned.kernel, learned.noise_variance, learned.degrees)
        gains = [new - old for old, new in zip(before, after, strict=True)]
        (of_rows, error_of_rows), (gain, error) = mean_and_error(gains[:1]), mean_and_error(gains)
        TRIED.info("a linear trend gains %.3g nats a row left out, with a standard error of %.1g", gain, error)
        if not (of_rows > max(error_of_rows, LEAST_GAIN) and gain > error):
            return False
    return True


def _exact(learned: Learned, trend: Trend, rows: Rows) -> Trended:
    """Return the exact process of some rows, with a trend."""
    whole = rows.with_targets(np.column_stack((rows.Y, trend.columns(rows.X))))
    exact = ExactPosterior(learned.kernel, whole, Noise(learned.noise_variance))
    return Trended(exact, trend, exact.products())


def _with_trend(validation: Validation, posterior: Trended) -> Validation:
    """Return a validation of predictions with the trend of a posterior."""
    H = posterior.trend.columns(validation.rows.X)
    whole = validation.rows.with_targets(np.column_stack((validation.rows.Y - H @ posterior.coefficients, H)))
    return replace(validation, rows=whole, trended=posterior.around)
