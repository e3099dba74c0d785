"""`learn`: the kernel and the noise variance that the data need, from all rows."""

import math
import threading
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, compress
from numbers import Integral, Real
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

from lmgp.data import RandomState, Rows, check_rows, generator, validated_pair
from lmgp.errors import DuplicateRowsWarning, InputError
from lmgp.kernels.base import Kernel, require
from lmgp.learning import plan
from lmgp.learning.choice import average_of, best_of, leave_one_out_densities, scored_by_held_out_rows
from lmgp.learning.forms import Ard, Form, declared_free, forms
from lmgp.learning.heldout import HeldOut
from lmgp.learning.record import Learned, Learning, Trial
from lmgp.learning.search import Found, Likelihood, Search
from lmgp.learning.space import RANGES, Units, deviation
from lmgp.neighbours.duplicates import count_copies, merged_copies
from lmgp.posteriors.average import WeightedKernel
from lmgp.posteriors.likelihood import ExactLikelihood, log_likelihood, noise_likelihood
from lmgp.utils.fitted import digest
from lmgp.utils.memory import check_memory
from lmgp.utils.parallel import parallel_map
from lmgp.utils.progress import STAGES, shown, tried_kernel

Wanted = Kernel | str | Iterable[str] | None
Average = bool | Literal["auto"]

# Matrices of all rows that a value of the exact likelihood takes at a time.
MATRICES = 4

# The noise beside a given kernel is the best of a grid of this number of points, refined between its neighbours.
N_NOISES = 100

# A learned noise below this share of the variance of y is suspicious where rows are exact copies; it has collapsed
# because of them if the rows without copies give one that is this multiple of it.
COLLAPSED_NOISE, COLLAPSE = 1e-3, 10.0

# What was learned last, by the digest of the rows and the settings, the one asked for last at the end: a grid search
# over sizes or thresholds learns once a fold.
REMEMBERED: dict[str, Learned] = {}
MOST_REMEMBERED = 16
_LOCK = threading.Lock()

CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [Kernel, str, "array-like", None],
    "ard": ["boolean", StrOptions({"auto"})],
    "noise_variance": [Interval(Real, 0, None, closed="neither"), None],
    "standardize": ["boolean"],
    "max_learning_rows": [Interval(Integral, 2, None, closed="left")],
    "max_memory_gib": [Interval(Real, 0, None, closed="neither")],
    "random_state": ["random_state", np.random.Generator],
}


@dataclass(frozen=True)
class Settings:
    """What is to be learned, and how; see `learn`."""

    kernel: Wanted = "auto"
    ard: Ard = "auto"
    noise_variance: float | None = None
    likelihood: Likelihood = "auto"
    standardize: bool = True
    groups: Sequence[int] | None = None
    max_learning_rows: int = 2000
    max_memory_gib: float = 4.0
    average: Average = False


def learn(
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None = None,
    noise_variances: ArrayLike | None = None,
    *,
    kernel: Wanted = "auto",
    ard: Ard = "auto",
    noise_variance: float | None = None,
    likelihood: Likelihood = "auto",
    standardize: bool = True,
    max_learning_rows: int = 2000,
    max_memory_gib: float = 4.0,
    random_state: RandomState = None,
    verbose: bool | int = False,
) -> Learned:
    """Learn the kernel and the noise variance from all rows.

    All models do this in `fit`. To fit several models to the same rows, learn once and pass the result on.

    Parameters
    ----------
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
    sample_weight, noise_variances : array-like of shape (n,), optional
        As in `ExactGPRegressor.fit`.
    kernel : str, list of str, Kernel or None, default="auto"
        Which kernels are tried: "matern12", "matern32", "matern52", "gaussian", "rational_quadratic", sums of these
        such as "matern12+gaussian", a list of names, or "auto" for the four first ones and the sums of two of them. Of
        a kernel object, those parameters are learned that have a pair of bounds, such as
        ``MaternKernel(2.0, variance_bounds=(0.1, 10.0))``. None is "gaussian".
    ard : bool or "auto", default="auto"
        Whether each column has a lengthscale of its own; "auto" tries both, or one for all columns alone where
        6 (d + 1) > n: then rows are too few for the two lengthscales a column of a sum.
    noise_variance : float, optional
        In squared units of y; learned if not given.
    likelihood : {"auto", "exact", "vecchia"}, default="auto"
        The exact likelihood of at most `max_learning_rows` rows, the Vecchia likelihood of all rows, or what is best:
        see the notes.
    standardize : bool, default=True
        Whether columns that share a lengthscale share it in their standard deviations. The kernel comes out in the
        units of X in any case.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised.
    max_memory_gib : float, default=4.0
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
    verbose : bool or int, default=False
        Whether each kernel that is tried is shown on standard error: the rows, the likelihood and the seconds.

    Returns
    -------
    Learned
        With `kernel`, `noise_variance` and `learning`, the table of what was tried.

    Raises
    ------
    InputError
        If a name is unknown, or X or y has no spread.
    MemoryLimitError
        If the exact likelihood needs more than `max_memory_gib`.

    Notes
    -----
    The forms go through rounds of the subsampled Vecchia likelihood, on more and more positions, and only the
    best of each round go on (`lmgp.learning.plan`). What is maximised has weak Gaussian priors on the logarithms
    of all parameters (`lmgp.learning.space`), and forms are compared by Akaike's criterion.

    Up to `max_learning_rows` rows, the exact likelihood of the best forms decides; up to 1,000 rows, it does so after
    the first round, between six. Above, the candidates are the optima of the Vecchia likelihood of all rows, and of the
    exact likelihood of a sample. Up to four times `max_learning_rows`, the exact likelihood of all rows decides between
    those of them that are not 20 nats behind by that of half the rows. Of more rows, a tenth is left out at random and
    a tenth in whole neighbourhoods. The candidates, learned from the others, predict them from the nearest rows, and
    the highest density wins; between those that are level (`lmgp.learning.choice`), the exact likelihood of twice
    `max_learning_rows` rows decides in the same way.

    A kernel object without a lengthscale, for which there are no near rows, is learned by the exact likelihood of at
    most `max_learning_rows` rows, with the same priors. Beside a kernel of which nothing is free, the noise variance is
    the maximum of the exact likelihood of these, without a prior.

    What was learned from the same rows with the same settings and the same `random_state` is remembered, 16 times in
    a process.

    References
    ----------
    M. Katzfuss, J. Guinness and E. Lawrence, *Scaled Vecchia Approximation for Fast Computer-Model Emulation*, SIAM/ASA
    Journal on Uncertainty Quantification, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, learn
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> learned = learn(X, y, kernel=["matern32", "gaussian"], random_state=0)
    >>> learned.learning.chosen.kernel
    'gaussian'
    >>> model = ExactGPRegressor(learned.kernel, learned.noise_variance).fit(X, y)
    """
    settings = Settings(kernel, ard, noise_variance, likelihood, standardize, None, max_learning_rows, max_memory_gib)
    given = vars(settings) | {"random_state": random_state}
    validate_parameter_constraints(CONSTRAINTS, given, caller_name="learn")
    inputs, target = validated_pair(_Checker(), X, y, ensure_min_samples=2)
    rows = check_rows(inputs, target, sample_weight, noise_variances)
    rows = Rows(rows.X, rows.Y - rows.means, rows.weights, rows.noise_variances)
    with shown(verbose):
        return learn_rows(rows, settings, generator(random_state))


def learn_rows(rows: Rows, settings: Settings, rng: np.random.Generator) -> Learned:
    """Learn from checked rows with centred y; see `learn`. The likelihoods of several targets are added."""
    n_rows, rows = len(rows), merged_copies(rows)
    data = rows.X, rows.Y, rows.weights, rows.noise_variances
    key = digest((data, settings, str(rng.bit_generator.state)))
    with _LOCK:
        known = REMEMBERED.pop(key, None)
        if known is not None:
            REMEMBERED[key] = known  # the one that was asked for last
            STAGES.info("the kernel was learned from these rows before")
            return known
    start, tried, learns_noise = perf_counter(), _forms(rows, settings), settings.noise_variance is None
    if learns_noise and rows.noise_variances is not None:
        # Every row brings its own: what is reported stands for the noise of a new row.
        noise = float(np.average(rows.noise_variances, axis=0, weights=rows.weights))
        learns_noise, settings = False, replace(settings, noise_variance=noise)
    if tried or learns_noise:
        STAGES.info("learning the kernel from %s rows of %d columns", f"{n_rows:,}", rows.X.shape[1])
    learned = _learned(rows, tried, settings, rng)
    n_copies = count_copies(rows)
    suspicious = learns_noise and n_copies and learned.noise_variance < COLLAPSED_NOISE * float(np.var(rows.Y))
    if suspicious:
        _warn_of_copies(rows, n_copies, learned, tried, settings, rng)
    learned = replace(learned, learning=Learning(learned.learning.trials, n_rows, n_copies, perf_counter() - start))
    # What may have been warned about is learned again, and said again.
    if not suspicious:
        with _LOCK:
            REMEMBERED[key] = learned
            while len(REMEMBERED) > MOST_REMEMBERED:
                del REMEMBERED[next(iter(REMEMBERED))]
    return learned


def _forms(rows: Rows, settings: Settings) -> tuple[Form, ...]:
    """Return the forms that are tried: none for a kernel of which nothing is free."""
    n_inputs, kernel, ard, groups = rows.X.shape[1], settings.kernel, settings.ard, settings.groups
    if isinstance(kernel, Kernel):
        form = declared_free(kernel.checked(n_inputs))
        return () if form is None else (form,)
    if ard == "auto":
        # Both, if the rows are enough for a sum of two kernels with all lengthscales.
        n_lengthscales = n_inputs if groups is None else len(set(groups))
        few = len(rows) < plan.ROWS_PER_PARAMETER * (2 * n_lengthscales + 2)
        ard = False if few else "auto"
    return forms("gaussian" if kernel is None else kernel, ard, n_inputs, groups)


def _learned(rows: Rows, tried: Sequence[Form], settings: Settings, rng: np.random.Generator) -> Learned:
    """Learn, with the trials alone in the record."""
    return _by_search(rows, tried, settings, rng) if tried else _beside(rows, settings, rng)


def _warn_of_copies(
    rows: Rows, n_copies: int, learned: Learned, tried: Sequence[Form], settings: Settings, rng: np.random.Generator
) -> None:
    """Warn where the rows without their exact copies give a much larger noise, with the same form of the kernel."""
    if len(rows) < 2:
        return
    distinct = replace(rows, weights=None if rows.weights is None else np.minimum(rows.weights, 1.0))
    chosen = learned.learning.chosen
    same = [form for form in tried if (form.name, form.ard) == (chosen.kernel, chosen.ard)]
    noise = _learned(distinct, same, settings, rng).noise_variance
    if noise >= COLLAPSE * learned.noise_variance:
        warnings.warn(
            f"The learned noise variance collapsed to {learned.noise_variance:.2g}, because {n_copies:,} of "
            f"{len(distinct) + n_copies:,} rows are exact copies of others (equal X and equal y; a sample_weight "
            f"above 1 counts as copies): equal measurements look free of noise. Without copies it is {noise:.2g}. Keep "
            "one row of each, or give noise_variance or, for weights that mean precision, noise_variances.",
            DuplicateRowsWarning,
            stacklevel=4,
        )


def _beside(rows: Rows, settings: Settings, rng: np.random.Generator) -> Learned:
    """Learn the noise beside a kernel that is given, from a sample: one decomposition serves all its values."""
    start, noise, kernel = perf_counter(), settings.noise_variance, clone(settings.kernel)
    sample = _sample(rows, settings.max_learning_rows, rng)
    if noise is not None:
        return Learned(kernel, noise, log_likelihood(sample, kernel, noise), True)
    _check_memory(len(sample), kernel, settings)
    likelihood = noise_likelihood(sample, kernel)
    unit = deviation(sample.Y, "y") ** 2 or 1.0
    low, high = RANGES["noise"]
    grid = np.log(unit) + np.linspace(math.log(low), math.log(high), N_NOISES)
    at = int(np.argmax([likelihood(math.exp(point)) for point in grid]))
    between = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    best = minimize_scalar(
        lambda point: -likelihood(math.exp(point)), bounds=between, method="bounded", options={"xatol": 1e-9}
    )
    noise, n = math.exp(best.x), len(sample)
    value = log_likelihood(sample, kernel, noise)
    trial = Trial(
        type(kernel).__name__, False, 1, "exact", n, 0, value / n, seconds=perf_counter() - start, chosen=True
    )
    return Learned(kernel, noise, value, True, Learning((tried_kernel(trial),)))


def _check_memory(n_rows: int, kernel: Kernel, settings: Settings) -> None:
    check_memory(
        ExactLikelihood.n_bytes(n_rows, kernel),
        f"The matrices to learn hyper-parameters from {n_rows:,} rows",
        "Lower max_learning_rows, or allow more memory (max_memory_gib; lmgp fit: --max-memory).",
        settings.max_memory_gib,
    )


def _by_search(rows: Rows, tried: Sequence[Form], settings: Settings, rng: np.random.Generator) -> Learned:
    """Search among forms, and decide by the exact likelihood of all rows, or by rows that are left out."""
    if settings.likelihood not in ("auto", "exact", "vecchia"):
        raise InputError(f"likelihood must be 'auto', 'exact' or 'vecchia'; got {settings.likelihood!r}.")
    has_metric = tried[0].kernel.can("metric")
    if settings.likelihood == "vecchia":
        require(tried[0].kernel, "metric", "The Vecchia likelihood")
    else:
        _check_memory(min(len(rows), settings.max_learning_rows), tried[-1].kernel, settings)
    units = Units.of(rows, settings.standardize, settings.groups)
    log_noise = None if settings.noise_variance is None else math.log(settings.noise_variance)
    seeds = [int(seed) for seed in rng.integers(2**31, size=3)]
    if not has_metric:
        rows = _sample(rows, settings.max_learning_rows, np.random.default_rng(seeds[2]))
    all_fit = len(rows) <= max(settings.max_learning_rows, plan.FEWEST_TO_LEAVE_OUT)
    automatic = settings.likelihood == "auto"
    several = rows.n_targets == 1 and len({form.name for form in tried}) > 1
    averages = several and (settings.average is True or (all_fit and settings.average == "auto"))
    held, scored = None, []
    if not (all_fit or (automatic and not averages and len(rows) <= _most_rows(settings, plan.DECIDED))):
        held = HeldOut.several(rows, units.columns, np.random.default_rng(seeds[2]))
    search = Search(rows if held is None else held[0].rest, units, log_noise, settings.groups, seeds)
    if held is not None:
        candidates = _candidates(search, search.best_forms(tried), settings, False)
        most = _most_rows(settings, plan.SAMPLED)
        sample = _sample(search.rows, most, np.random.default_rng(seeds[2])) if automatic else None
        scored = scored_by_held_out_rows(search, held, candidates)
        chosen = best_of(search, scored, sample)
    else:
        if not has_metric:
            space = search.space(tried[0])
            found = search.by_exact_likelihood([(space, space.median)], rows, (plan.WITHOUT_NEIGHBORS,))
        elif all_fit:
            found = _by_likelihood(search, tried, settings)
        else:
            candidates = _candidates(search, search.best_forms(tried), settings, True)
            kept = compress(candidates, search.not_far_behind(candidates, rows))
            found = [search.exact_value(one, rows) for one in kept]
        search.trials += found
        chosen = max(found, key=lambda one: one.worth)
        if averages:
            scored = [(one, leave_one_out_densities(rows, one)) for one in found if np.isfinite(one.worth)]
    average = average_of(scored, rows.weights if held is None else None) if averages and scored else [(chosen, 1.0)]
    kernels = tuple(
        WeightedKernel(one.hyperparameters[0], settings.noise_variance or one.hyperparameters[1], weight)
        for one, weight in average
    )
    chosen, (kernel, noise, _) = average[0][0], kernels[0]
    by_exact = all_fit and settings.likelihood != "vecchia"
    value = log_likelihood(rows, kernel, noise) if by_exact else chosen.trial.log_likelihood * len(rows)
    trials = tuple(one.trial._replace(chosen=one.trial is chosen.trial) for one in search.trials)
    return Learned(kernel, noise, value, chosen.converged, Learning(trials), kernels)


def _most_rows(settings: Settings, multiple: int) -> int:
    """Return the number of rows, at most, whose exact likelihood decides between optima."""
    affordable = math.isqrt(int(settings.max_memory_gib * 2**30) // (8 * MATRICES))
    return min(multiple * settings.max_learning_rows, affordable)


def _sample(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    """Return a random sample of at most this number of rows, in their order."""
    return rows.take(np.sort(rng.permutation(len(rows))[:most]))


def _by_likelihood(search: Search, tried: Sequence[Form], settings: Settings) -> list[Found]:
    """Return the best forms by the likelihood of all rows."""
    n_rows = len(search.rows)
    if settings.likelihood == "vecchia":
        return [optima[-1] for optima in parallel_map(search.by_all_rows, search.best_forms(tried))]
    if n_rows <= plan.BESIDE:
        close = search.first_round(tried)[: plan.N_EXACT]
    else:
        best = search.best_forms(tried)
        close = [one for one in best if (best[0].worth - one.worth) * n_rows <= plan.CLOSE] or best[:1]
    return search.by_exact_likelihood([one[:2] for one in close], search.rows, plan.EXACT)


def _candidates(search: Search, best: Sequence[Found], settings: Settings, by_value: bool) -> list[Found]:
    """Return optima of the Vecchia likelihood of all rows and of the exact likelihood of some."""
    candidates: list[Found] = []
    if settings.likelihood != "exact":
        climb = partial(search.by_all_rows, closer=not by_value)
        candidates = list(chain.from_iterable(parallel_map(climb, best)))
    if settings.likelihood != "vecchia":
        alone = by_value or not candidates
        most = settings.max_learning_rows if alone else min(settings.max_learning_rows, plan.BESIDE)
        some = _sample(search.rows, most, np.random.default_rng(search.seeds[2]))
        starts = [max(candidates, key=lambda one: one.worth)] if candidates else best
        candidates += [each for one in starts for each in search.by_exact_likelihood([one[:2]], some, (plan.SAMPLE,))]
    search.trials += candidates
    return candidates


class _Checker(RegressorMixin, BaseEstimator):
    """What scikit-learn's checks of X and y ask for: an estimator."""
