"""What the target says of columns before the kernel is learned: scales, a direction, and effects of categories."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.optimize import minimize_scalar

from lmgp.columns.dates import Dates
from lmgp.columns.effects import with_effects
from lmgp.columns.numbers import AsinhScale
from lmgp.columns.places import OnTurnedAxes
from lmgp.columns.table import Columns
from lmgp.data import Floats, Indices, Rows, sampling
from lmgp.errors import InputError
from lmgp.learning.engine import Settings, learn_rows
from lmgp.learning.periods import APART, likely_periods
from lmgp.learning.record import Learned
from lmgp.learning.trends import EVIDENCE
from lmgp.neighbours.duplicates import steady_order
from lmgp.utils.parallel import parallel_map
from lmgp.utils.progress import silent, stage

# Columns are compared by the exact likelihood of the first number of rows for scales, which may be many, and of the
# second number for all else.
ROWS_OF_SCALES, ROWS_OF_OTHERS = 500, 1000
# A scale is tried where this share of the rows makes this share of the sum of squared deviations from the mean, of at
# least this number of rows.
FEW, MOST, FEWEST = 0.05, 0.5, 20
# A period of the calendar explains this number of its harmonics.
HARMONICS = range(1, 5)
# Directions are compared in steps of 15 degrees, and then to a tenth of a degree.
ANGLES, PRECISION = np.arange(0.0, 90.0, 15.0), 0.1


def adapted(
    columns: Columns, rows: Rows, settings: Settings, with_scales: bool, straight: Iterable[int]
) -> tuple[Columns, Rows]:
    """Return columns as the target needs them, and training rows with their coordinates.

    Parameters
    ----------
    columns : Columns
    rows : Rows
        Training rows with the coordinates of these columns, and y as it is.
    settings : Settings
        For these coordinates.
    with_scales : bool
        Whether columns of numbers may get a scale, gaps no mark, and dates a period of their own.
    straight : iterable of int
        Columns that get none, because they have a slope in a trend.

    Returns
    -------
    columns : Columns
    rows : Rows
    """
    before, values = columns, columns.values(rows.X)
    scaled = (rows.Y.std(axis=0) > 0.0) & (rows.noise_variances is None)  # noise variances are in squared units of y
    deviations = np.where(scaled, rows.Y.std(axis=0), 1.0)
    trials = ColumnTrials(values, rows.with_targets((rows.Y - rows.means) / deviations), settings)
    if with_scales and len(rows) >= FEWEST:
        columns = with_likely_scales(columns, trials, set(straight))
        columns = with_likely_periods(with_likely_marks(columns, trials), trials)
    if OnTurnedAxes() in columns.kinds:
        columns = with_likely_angle(columns, trials)
    if columns is not before:
        rows = replace(rows, X=columns.coordinates(values))
        settings = replace(settings, groups=columns.groups.tolist(), categories=columns.categories.tolist())
    return with_effects(columns, rows, settings)


class ColumnTrials:
    """The likelihoods of the same rows with columns that became one thing or another.

    Parameters
    ----------
    values : ndarray of shape (n, d)
    rows : Rows
        With centred targets.
    settings : Settings
    """

    def __init__(self, values: Floats, rows: Rows, settings: Settings) -> None:
        self.values, self.rows, self._settings = values, rows, settings.of_trials()

    def learned(self, columns: Columns, n_rows: int, index: Sequence[int] = (), race: bool = False) -> Learned | None:
        """Learn a kernel for some columns from some rows, with those of `index`; None where nothing can be learned."""
        drawn = self.order[sampling().permutation(len(self.rows))[:n_rows]]
        some = np.union1d(drawn, index).astype(np.intp)
        rows = replace(self.rows.take(some), X=columns.coordinates(self.values[some]))
        settings = replace(self._settings, max_learning_rows=len(some), groups=columns.groups.tolist(), race=race)
        try:
            with silent():  # what is to be warned about, all rows say
                return learn_rows(rows, settings)
        except InputError:
            return None

    def log_likelihoods(self, candidates: Sequence[Columns], n_rows: int, index: Sequence[int] = ()) -> list[float]:
        """Return the likelihood of each candidate in nats; minus infinity where nothing can be learned.

        The first candidate is to be beaten: of that one alone, starting points race.
        """
        tasks = [(columns, n_rows, index, i == 0) for i, columns in enumerate(candidates)]
        learned = parallel_map(lambda task: self.learned(*task), tasks)
        return [-math.inf if trial is None else trial.log_marginal_likelihood for trial in learned]

    @cached_property
    def order(self) -> Indices:
        """The rows in `steady_order`."""
        return steady_order(self.rows)


def with_likely_scales(columns: Columns, trials: ColumnTrials, straight: set[int]) -> Columns:
    """Return columns with a scale for each of those of which the likelihood gains the evidence that a trend needs.

    Of several scales, the gain is to be larger by the logarithm of their number.

    Parameters
    ----------
    columns : Columns
    trials : ColumnTrials
    straight : set of int
        Columns that get no scale.
    """
    values = trials.values
    heavy = [j for j in columns.as_they_are if j not in straight and has_heavy_tails(values[:, j])]
    if not heavy:
        return columns
    # What makes a tail may be one row, or one of several that are alike.
    order = trials.order
    extremes = [order[np.nanargmax(np.abs(values[order, j] - np.nanmedian(values[:, j])))] for j in heavy]
    tried = [(j, scale) for j in heavy for scale in _scales(values[:, j])]
    stage("columns", "trying scales for %d columns with heavy tails", len(heavy))
    candidates = [columns, *(columns.on_scale(values, {j: scale}) for j, scale in tried)]
    before, *after = trials.log_likelihoods(candidates, ROWS_OF_SCALES, extremes)
    least, best = before + EVIDENCE + math.log(len(tried)), dict[int, tuple[float, AsinhScale]]()
    for (j, scale), value in zip(tried, after, strict=True):
        if value > max(least, best.get(j, (least, scale))[0]):
            best[j] = value, scale
    return columns.on_scale(values, {j: scale for j, (_, scale) in best.items()})


def has_heavy_tails(values: Floats) -> bool:
    """Say whether a twentieth of the rows makes half of the variance, and the middle half is not one value.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(0).normal(size=1000)
    >>> has_heavy_tails(draws), has_heavy_tails(np.exp(2.0 * draws))
    (False, True)
    """
    known = values[np.isfinite(values)]
    relative = known / (np.abs(known).max(initial=0.0) or 1.0)  # of which no square overflows
    squares = np.sort(np.square(relative - relative.mean()))
    low, high = np.quantile(relative, (0.25, 0.75))
    return bool(low < high and squares[-math.ceil(FEW * len(squares)) :].sum() > MOST * squares.sum())


def _scales(values: Floats) -> list[AsinhScale]:
    """Return the scales that a column may have."""
    known = values[np.isfinite(values)]
    return [AsinhScale.of(name, known) for name in (("log", "asinh") if known.min() >= 0.0 else ("asinh",))]


def with_likely_marks(columns: Columns, trials: ColumnTrials) -> Columns:
    """Return columns whose filled gaps are marked, or not, whichever is likelier."""
    unmarked = columns.unmarked()
    if unmarked is columns:
        return columns
    stage("columns", "comparing marked gaps with others")
    marked, without = trials.log_likelihoods([columns, unmarked], ROWS_OF_OTHERS)
    return unmarked if without > marked else columns


def with_likely_periods(columns: Columns, trials: ColumnTrials) -> Columns:
    """Return columns of dates with a period that is none of the calendar, where the target has one."""
    for place, (dates, (j, *_)) in enumerate(zip(columns.kinds, columns.index, strict=True)):
        if not isinstance(dates, Dates):
            continue
        days = trials.values[:, [j]]
        extent = float(np.ptp(days))
        # The harmonics of a period are functions of it.
        known = [extent / period * harmonic for period in dates.days_of_periods for harmonic in HARMONICS]
        likely: list[float] = likely_periods(replace(trials.rows, X=days))[:, 0].tolist() if extent > 0.0 else []
        tried = [period for period in likely if all(abs(extent / period - cycles) >= APART for cycles in known)]
        candidates = [replace(dates, others=(period,)) for period in tried]
        if not candidates:
            continue
        stage("columns", "trying %d periods that are none of the calendar", len(tried))
        others = [columns.with_kind(place, candidate) for candidate in candidates]
        before, *after = trials.log_likelihoods([columns, *others], ROWS_OF_OTHERS)
        best = int(np.argmax(after))
        if after[best] > before + EVIDENCE + math.log(len(tried)):
            columns = others[best]
    return columns


def with_likely_angle(columns: Columns, trials: ColumnTrials) -> Columns:
    """Return columns whose turned axes are along and across the direction in which the target changes least."""
    place = next(number for number, kind in enumerate(columns.kinds) if isinstance(kind, OnTurnedAxes))

    def at(angle: float) -> Columns:
        return columns.with_kind(place, OnTurnedAxes(angle % 180.0))

    def cost(angle: float) -> float:
        learned = trials.learned(at(angle), ROWS_OF_OTHERS)
        return math.inf if learned is None else -learned.log_marginal_likelihood

    stage("columns", "looking for the direction of the longer lengthscale")
    first, step = float(ANGLES[np.argmin(parallel_map(cost, ANGLES.tolist()))]), float(ANGLES[1])
    bounds = first - step, first + step
    best = minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": PRECISION})
    learned = trials.learned(at(best.x), ROWS_OF_OTHERS)
    if learned is None:
        return columns
    along, across = learned.kernel.metric(len(columns.groups))[:2]  # a place comes first
    return at(best.x if along >= across else best.x + 90.0)
