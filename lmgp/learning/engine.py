"""`learn`: the kernel and the noise variance that the data need, from all rows."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral, Real
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

from lmgp.data import RandomState, Rows, check_rows, generator, sampling, validated_pair
from lmgp.errors import SILENT, DuplicateRowsWarning, InputError, warn
from lmgp.kernels.base import Kernel, unsupported
from lmgp.learning.choice import compared, plausible_kernels
from lmgp.learning.forms import Ard, Form, declared_free, make_form, names_of
from lmgp.learning.record import Learned, Learning
from lmgp.learning.search import FIRST_ROWS, Search
from lmgp.learning.space import Units
from lmgp.neighbours.duplicates import count_copies, dropped, merged_copies, steady_sample
from lmgp.posteriors.exact import ExactLikelihood, log_likelihood
from lmgp.posteriors.vecchia import MANY_COLUMNS
from lmgp.utils.fitted import digest
from lmgp.utils.lazy import torch
from lmgp.utils.memory import check_memory
from lmgp.utils.parallel import parallel_map
from lmgp.utils.progress import shown, silent, stage

Wanted = Kernel | str | Iterable[str] | None
Average = bool | Literal["auto"]
Likelihood = Literal["auto", "exact", "vecchia"]

# Up to this number of rows, what is learned is uncertain enough to be averaged over.
FEW_ROWS = 500

# Of more rows of many columns, a random sample of this number is learned from: ten times the rows are hardly nearer to
# each other there, and to find neighbours among all of them takes most of the time.
MOST_LEARNED = 2**20

# A learned noise below this share of the variance of y is suspicious where rows are exact copies; it has collapsed
# because of them if a sample of the rows without their copies gives this multiple of it, and of what these give with
# copies.
COLLAPSED_NOISE, COLLAPSE = 1e-4, 10.0

# By this kernel columns are compared before another is learned. Of one part, climbs from the best starting point seldom
# end on a lower summit.
KERNEL_OF_TRIALS = "matern32"

# How many results of learning are remembered: a grid search over sizes or thresholds learns once a fold.
MOST_REMEMBERED = 16

# Of the parameters that `learn` and the models share.
CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [Kernel, str, "array-like", None],
    "ard": ["boolean", StrOptions({"auto"})],
    "noise_variance": [Interval(Real, 0, None, closed="neither"), None],
    "max_learning_rows": [Interval(Integral, 2, None, closed="left")],
    "max_memory_gib": [Interval(Real, 0, None, closed="neither")],
    "random_state": ["random_state", np.random.Generator],
}


@dataclass(frozen=True)
class Settings:
    """What is to be learned, and how; see `learn`, and `Search` for `draw`, `tails` and `race`."""

    kernel: Wanted = "auto"
    ard: Ard = "auto"
    noise_variance: float | None = None
    likelihood: Likelihood = "auto"
    standardize: bool = True
    groups: Sequence[int] | None = None
    categories: Sequence[int] = ()
    max_learning_rows: int = 2000
    max_memory_gib: float = 4.0
    average: Average = False
    draw: int = 0
    tails: bool = False
    race: bool = True

    def of_trials(self) -> "Settings":
        """Return settings for quick trials of columns: a Matérn kernel, by the exact likelihood."""
        return replace(
            self, kernel=KERNEL_OF_TRIALS, ard=True, noise_variance=None, likelihood="exact", average=False,
            categories=(), race=False,
        )  # fmt: skip


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
    random_state: RandomState = 0,
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
        Which kernels are tried: "matern12", "matern32", "matern52", "gaussian", "rational_quadratic", "periodic",
        "linear", sums and products of these such as "matern12+gaussian" and "linear+matern32*periodic", a list of
        names, or "auto" for "matern12+matern52+gaussian", of one column also with "+matern32*periodic". Of a kernel
        object, those parameters are learned that have a pair of bounds, such as
        ``MaternKernel(2.0, variance_bounds=(0.1, 10.0))``. None is "gaussian".
    ard : bool or "auto", default="auto"
        Whether columns have lengthscales of their own; "auto" is True. Where rows are few, the prior draws the
        lengthscales together; of more than 20 columns, at most 20 have their own.
    noise_variance : float, optional
        In squared units of y; learned if not given.
    likelihood : {"auto", "exact", "vecchia"}, default="auto"
        The exact likelihood of a sample of at most `max_learning_rows` rows, the Vecchia likelihood of all rows, or
        "auto": the exact one of up to `max_learning_rows` rows, and of more rows the Vecchia likelihood.
    standardize : bool, default=True
        Whether columns that share a lengthscale share it in their standard deviations. The kernel comes out in the
        units of X in any case.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised.
    max_memory_gib : float, default=4.0
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=0
        Draws the rows whose likelihood is taken where they are many, those from which the search begins, and those that
        are left out. All models learn as with 0.
    verbose : bool or int, default=False
        1: show on standard error that the kernel is learned. 2: show also each kernel that is tried: the rows, the
        likelihood and the seconds.

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
    Each kernel is learned by itself: its parameters are the maximum of the likelihood of all rows times a weak prior,
    which Fisher scoring finds from the best of ten starting points, each with the likely periods of the rows where the
    kernel has one, or from one of another noise, or a random one, if ten steps from there lead far higher;
    up to 500 rows also from the best one of other lengthscales, whose end is taken where the evidence for it is strong.
    Of more than 20 columns, 0, 1, 2, 5, 10 or 20 have lengthscales of their own, and all others share one: as many as
    have the largest evidence of up to 500 rows, less the logarithm of the number of choices of as many columns. Of more
    than `max_learning_rows` rows, the likelihood is Vecchia's, of at most 20,000 rows, each given the 44 nearest rows
    before it in a random order, and up to 64 of them where there are fewer rows. It is climbed from the mean of four
    kernels, each learned from 500 rows, with half of these neighbours first, and then with all. Of eight and more
    columns, a random sample of 1,048,576 rows stands for more of them. Where a noise variance below a thousandth of the
    variance of y was learned, the exact likelihood of a sum is climbed again from where its parts share their
    lengthscales, if that is likelier.

    The logarithms of all parameters have Gaussian priors with a standard deviation of 3, around values that follow from
    the spread of the columns and of y. Those of lengthscales share a prior: the logarithm of each is the sum of what
    all have in common, with a standard deviation of 3, and of what its part of a sum, its column, and it alone have,
    each with a standard deviation of 1. With ``likelihood="auto"`` and up to `max_learning_rows` rows, these three
    standard deviations are ¼ where the evidence for that is more than three nats, by Laplace's approximation: then the
    lengthscales of columns that say little do not differ by chance.

    Of several kernels, the one is taken that predicts best what is left out: 1,000 rows, each predicted from the
    nearest others, and whole neighbourhoods.

    A kernel object without a lengthscale, for which there are no near rows, is learned by the exact likelihood of at
    most `max_learning_rows` rows, with the same priors. Beside a kernel of which nothing is free, the noise variance is
    learned in the same way as the parameters of others.

    What was learned from the same rows with the same settings and the same `random_state` is remembered, 16 times in
    a process.

    References
    ----------
    M. Katzfuss, J. Guinness and E. Lawrence, *Scaled Vecchia Approximation for Fast Computer-Model Emulation*, SIAM/ASA
    Journal on Uncertainty Quantification, 2022.

    J. Guinness, *Gaussian Process Learning via Fisher Scoring of Vecchia's Approximation*, Statistics and Computing,
    2021.

    R. E. Kass and A. E. Raftery, *Bayes Factors*, Journal of the American Statistical Association 90, 1995.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, learn
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> learned = learn(X, y, kernel=["matern12", "gaussian"], random_state=0)
    >>> learned.learning.chosen.kernel
    'gaussian'
    >>> model = ExactGPRegressor(learned.kernel, learned.noise_variance).fit(X, y)
    """
    settings = Settings(
        kernel, ard, noise_variance, likelihood, standardize,
        max_learning_rows=max_learning_rows, max_memory_gib=max_memory_gib,
    )  # fmt: skip
    given = vars(settings) | {"random_state": random_state}
    constraints = {"likelihood": [StrOptions({"auto", "exact", "vecchia"})], "standardize": ["boolean"]}
    validate_parameter_constraints(CONSTRAINTS | constraints, given, caller_name="learn")
    checker = _Checker()
    inputs, target = validated_pair(checker, X, y, ensure_min_samples=2)
    rows = check_rows(inputs, target, sample_weight, noise_variances)
    rows = rows.with_targets(rows.Y - rows.means)
    if isinstance(kernel, Kernel):
        kernel = kernel.with_indices(getattr(checker, "feature_names_in_", None), inputs.shape[1])
    draw = int(random_state if isinstance(random_state, Integral) else generator(random_state).integers(2**31))
    with shown(verbose):
        return learn_warned(rows, replace(settings, kernel=kernel, draw=draw))


def learn_warned(rows: Rows, settings: Settings) -> Learned:
    """Learn from the rows of a user, and warn of a noise that has collapsed because of exact copies."""
    learned = learn_rows(rows, settings)
    _warn_of_copies(rows, learned, settings)
    return learned


def learn_rows(rows: Rows, settings: Settings) -> Learned:
    """Learn from checked rows with centred y; see `learn`. The likelihoods of several targets are added."""
    torch.get_num_threads()  # loads torch, before there are threads that use it
    n_rows, rows = len(rows), merged_copies(most_of(rows))
    key = digest((rows, settings)) if _is_of_lmgp(settings.kernel) else ""
    known = remembered(key) if key else []
    if known:
        stage("learning", "the kernel was learned from these rows before")
        return deepcopy(known[0])
    start, tried = perf_counter(), forms_of(rows, settings)
    if settings.noise_variance is None and rows.noise_variances is not None:
        # Every row brings its own: what is reported stands for the noise of a new row.
        noise = float(np.average(rows.noise_variances, axis=0, weights=rows.weights))
        settings = replace(settings, noise_variance=noise)
    if settings.noise_variance is None or any(form.n_free for form in tried):
        stage("learning", "learning the kernel from %s rows of %d columns", f"{n_rows:,}", rows.X.shape[1])
        learned = _by_search(rows, tried, settings)
    else:
        kernel, noise = clone(settings.kernel), settings.noise_variance
        learned = Learned(kernel, noise, log_likelihood(_sample(rows, settings), kernel, noise), True)
    learning = Learning(learned.learning.trials, n_rows, count_copies(rows), perf_counter() - start)
    known.append(replace(learned, learning=learning))
    return deepcopy(known[-1])  # whose kernel the caller may change


@lru_cache(MOST_REMEMBERED)
def remembered(key: str) -> list[Learned]:
    """Return what was learned, from rows and settings with a digest: nothing at first."""
    return []


def _is_of_lmgp(kernel: Wanted) -> bool:
    """Say whether a kernel has no code of the caller, which another fit may find changed under the same name."""
    parts = (kernel, *kernel.get_params().values()) if isinstance(kernel, Kernel) else ()
    code = (type(part) if isinstance(part, Kernel) else part for part in parts if callable(part))
    return all(each.__module__.startswith("lmgp.") for each in code)


def most_of(rows: Rows) -> Rows:
    """Return all rows, or of very many, of many columns, a random sample, which does not depend on their order."""
    many = len(rows) > MOST_LEARNED and rows.X.shape[1] >= MANY_COLUMNS
    return rows.take(steady_sample(rows, MOST_LEARNED)) if many else rows


def forms_of(rows: Rows, settings: Settings) -> tuple[Form, ...]:
    """Return the forms that are tried: of a kernel that is given, one of what is free in it."""
    n_inputs, kernel, ard = rows.X.shape[1], settings.kernel, bool(settings.ard)
    if isinstance(kernel, Kernel):
        return (declared_free(kernel.checked(n_inputs)),)
    names = names_of("gaussian" if kernel is None else kernel, n_inputs, len(settings.categories) > 0)
    return tuple(make_form(name, ard, rows, settings.groups, settings.categories) for name in names)


def _warn_of_copies(rows: Rows, learned: Learned, settings: Settings) -> None:
    """Warn where the rows without their exact copies give a much larger noise, with the same form of the kernel."""
    n_copies, given = learned.learning.n_copies, settings.noise_variance is not None or rows.noise_variances is not None
    if SILENT.get() or given or not n_copies:
        return
    rows = merged_copies(most_of(rows))
    if len(rows) < 2 or learned.noise_variance >= COLLAPSED_NOISE * rows.mean_weight * float(np.var(rows.Y)):
        return
    n_rows, chosen = round(rows.n_observations), learned.learning.chosen
    kernel = settings.kernel if isinstance(settings.kernel, Kernel) else chosen.kernel
    # Copies whose weights are not whole numbers are rows of their own: all of a place are taken.
    place = np.unique(np.column_stack((rows.X, rows.Y)), axis=0, return_inverse=True)[1].ravel()
    rows = rows.take(np.isin(place, sampling().permutation(place.max() + 1)[:FIRST_ROWS]).nonzero()[0])
    settings = replace(settings, kernel=kernel, ard=chosen.ard, average=False)
    try:
        with silent():
            of_samples = parallel_map(lambda some: learn_rows(some, settings), (rows, dropped(rows)))
    except InputError:  # all rows of these places have one target
        return
    collapsed, noise = (learned.noise_variance for learned in of_samples)
    if noise >= COLLAPSE * max(collapsed, learned.noise_variance):
        warn(
            f"The learned noise variance collapsed to {learned.noise_variance:.2g}, because {n_copies:,} of "
            f"{n_rows:,} rows are exact copies of others (equal X and equal y; a sample_weight "
            f"of whole numbers counts copies): equal measurements look free of noise. Without them it is {noise:.2g}. "
            "Keep one row of each, or give noise_variance or, for whole weights that mean precision, noise_variances.",
            DuplicateRowsWarning,
        )


def _by_search(rows: Rows, tried: Sequence[Form], settings: Settings) -> Learned:
    """Maximise the likelihood of each form; of several, take what predicts rows left out best."""
    without = [form.kernel for form in tried if not form.kernel.can("metric")]
    if settings.likelihood == "vecchia" and without:
        raise unsupported(without[0], "metric", "The Vecchia likelihood")
    # What compares likelihoods asks for the exact one, with one prior.
    close = settings.likelihood == "auto"
    exact = settings.likelihood == "exact" or bool(without) or (close and len(rows) <= settings.max_learning_rows)
    if exact:
        rows = _sample(rows, settings)
        check_memory(
            max(ExactLikelihood.n_bytes(len(rows), form.kernel) for form in tried),
            f"The matrices to learn hyperparameters from {len(rows):,} rows",
            "Lower max_learning_rows, or allow more memory (max_memory_gib; lmgp fit: --max-memory).",
            settings.max_memory_gib,
        )
    units = Units.of(rows, settings.standardize, settings.groups)
    free = settings.likelihood != "exact" and settings.noise_variance is None and rows.n_targets == 1
    tails, race = settings.tails and free, settings.race
    search = Search(rows, units, settings.noise_variance, exact, settings.draw, tails, close, race)
    optima = parallel_map(search.optimum, tried)
    draws, may_average = sampling(settings.draw, 1), rows.n_targets == 1 and tried[0].n_free > 0
    average = may_average and (settings.average is True or (settings.average == "auto" and exact))
    if average and exact and len(rows) <= FEW_ROWS:
        chosen, kernels = plausible_kernels(optima, draws)
    else:
        weights = compared(rows, units.columns, optima, average, draws) if len(optima) > 1 else np.ones(1)
        pairs = sorted(zip(optima, weights.tolist(), strict=True), key=lambda pair: -pair[1])
        chosen = pairs[0][0]
        kernels = tuple(optimum.space.weighted(optimum.free, weight) for optimum, weight in pairs if weight > 0.0)
    value = chosen.trial.log_likelihood * len(rows)
    trials = tuple(optimum.trial._replace(chosen=optimum.trial is chosen.trial) for optimum in optima)
    if not tried[0].n_free:  # with the bounds that it was given
        kernels = (kernels[0]._replace(kernel=clone(settings.kernel)),)
    kernel, noise, _ = kernels[0]
    return Learned(kernel, noise, value, chosen.converged, Learning(trials), kernels, chosen.objective.degrees)


def _sample(rows: Rows, settings: Settings) -> Rows:
    """Return a random sample of as many rows as the exact likelihood may have, in their order."""
    return rows.take(np.sort(sampling(settings.draw).permutation(len(rows))[: settings.max_learning_rows]))


class _Checker(RegressorMixin, BaseEstimator):
    """What scikit-learn's checks of X and y ask for: an estimator."""
