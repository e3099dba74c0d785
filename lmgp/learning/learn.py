"""`learn`: the kernel and the noise variance that the data need, from all rows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from numbers import Integral, Real
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions, validate_parameter_constraints

from lmgp.errors import InputError
from lmgp.fitted import digest
from lmgp.inference import learning as exact
from lmgp.inference.duplicates import count_copies, merged_copies
from lmgp.inference.learning import Hyperparameters, maximize_likelihood, warn_of_copies
from lmgp.inference.likelihood import ExactLikelihood, log_likelihood
from lmgp.kernels.base import Kernel, require
from lmgp.learning import choice, heldout, scoring, space
from lmgp.learning.choice import Choice
from lmgp.learning.forms import Ard, Form, declared_free, forms
from lmgp.learning.heldout import HeldOut
from lmgp.learning.plan import PLAN
from lmgp.learning.record import Learned, Learning, Trial
from lmgp.learning.remembered import REMEMBERED
from lmgp.learning.search import Found, Likelihood, Search
from lmgp.learning.space import Units
from lmgp.memory import check_memory
from lmgp.parallel import parallel_map
from lmgp.progress import STAGES, shown, tried_kernel
from lmgp.validation import RandomState, Rows, check_rows, generator, validated_pair

Floats = NDArray[np.float64]
Wanted = Kernel | str | Iterable[str] | None

# Matrices of all rows that a value of the exact likelihood takes at a time.
MATRICES = 4

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
        ``MaternKernel(2.0, variance_bounds=(0.1, 10.0))``. None is a Gaussian by the exact likelihood of at most
        `max_learning_rows` rows, without a prior.
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
        For the exact likelihood.
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
    best of each round go on (`lmgp.learning.plan.PLAN`). What is maximised has weak Gaussian priors on the logarithms
    of all parameters (`lmgp.learning.space.PRIORS`), and forms are compared by Akaike's criterion.

    Up to `max_learning_rows` rows, the exact likelihood of the best forms decides; up to 1,000 rows, it does so after
    the first round, between six. Above, the candidates are the optima of the Vecchia likelihood of all rows, and of the
    exact likelihood of a sample. Up to four times `max_learning_rows`, the exact likelihood of all rows decides between
    those of them that are not 20 nats behind by that of half the rows. Of more rows, a tenth is left out at random and
    a tenth in whole neighbourhoods. The candidates, learned from the others, predict them from the nearest rows, and
    the highest density wins; between those that are level (`lmgp.learning.choice.RULE`), the exact likelihood of twice
    `max_learning_rows` rows decides in the same way.

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
    given = {
        "kernel": kernel, "ard": ard, "noise_variance": noise_variance,
        "standardize": standardize, "max_learning_rows": max_learning_rows, "max_memory_gib": max_memory_gib,
        "random_state": random_state,
    }  # fmt: skip
    validate_parameter_constraints(CONSTRAINTS, given, caller_name="learn")
    inputs, target = validated_pair(_Checker(), X, y, ensure_min_samples=2)
    rows = check_rows(inputs, target, sample_weight, noise_variances)
    rows = Rows(rows.X, rows.y - rows.mean, rows.weights, rows.noise_variances)
    settings = Settings(
        kernel, ard, noise_variance, likelihood, standardize, None, int(max_learning_rows), float(max_memory_gib)
    )
    with shown(verbose):
        return learn_rows(rows, settings, generator(random_state))


def learn_rows(rows: Rows, settings: Settings, rng: np.random.Generator) -> Learned:
    """Learn from checked rows with centred y; see `learn`. The likelihoods of several targets are added."""
    n_rows, rows = len(rows.y), merged_copies(rows)
    rules = exact.SEARCH, PLAN, space.PRIORS, scoring.DAMPING, heldout.LEAVING, choice.RULE
    data = rows.X, rows.y, rows.weights, rows.noise_variances
    key = digest((data, settings, rules, str(rng.bit_generator.state)))
    known = REMEMBERED.get(key)
    if known is not None:
        STAGES.info("the kernel was learned from these rows before")
        return known
    start, wanted = perf_counter(), settings.kernel
    form = declared_free(wanted) if isinstance(wanted, Kernel) else None
    tried: Sequence[Form] = ()
    if not (wanted is None or isinstance(wanted, Kernel)):
        tried = forms(wanted, _affordable(rows, settings), rows.X.shape[1], settings.groups)
    named = bool(tried)
    if form is not None or settings.noise_variance is None or not isinstance(wanted, Kernel):
        STAGES.info("learning the kernel from %s rows of %d columns", f"{n_rows:,}", rows.X.shape[1])
    if wanted is None or isinstance(wanted, Kernel):
        found = _by_form(rows, form, settings, rng) if form is not None else _by_exact_rows(rows, settings, rng)
    else:
        found = _by_search(rows, tried, settings, rng)
    hyperparameters, trials = found
    n_copies = count_copies(rows).exact
    collapsed = hyperparameters.noise_variance < exact.SEARCH.collapsed_noise * float(np.var(rows.y))
    if n_copies and collapsed and named:
        _check_copies(rows, hyperparameters, settings, rng)
    learning = Learning(trials, n_rows, n_copies, perf_counter() - start)
    learned = Learned(**vars(hyperparameters), learning=learning)
    # What may have been warned about is learned again, and said again.
    if (learned.converged or named) and not (n_copies and collapsed):
        REMEMBERED.put(key, learned)
    return learned


def _affordable(rows: Rows, settings: Settings) -> Ard:
    """Return `ard`, where "auto" means both if the rows are enough for a sum of two kernels with all lengthscales."""
    n_lengthscales = rows.X.shape[1] if settings.groups is None else len(set(settings.groups))
    n_free = 2 * n_lengthscales + 2
    few = len(rows.y) < PLAN.rows_per_parameter * n_free
    return False if settings.ard == "auto" and few else settings.ard


def _check_copies(rows: Rows, found: Hyperparameters, settings: Settings, rng: np.random.Generator) -> None:
    """Warn where a learned noise has collapsed because of exact copies: without them it is much larger."""
    if settings.noise_variance is None and rows.noise_variances is None:
        again = partial(
            maximize_likelihood,
            form=found.kernel,
            max_learning_rows=settings.max_learning_rows,
            max_memory_gib=settings.max_memory_gib,
            rng=rng,
        )
        warn_of_copies(rows, found, again)


def _by_exact_rows(
    rows: Rows, settings: Settings, rng: np.random.Generator
) -> tuple[Hyperparameters, tuple[Trial, ...]]:
    """Maximise the likelihood of a sample without a prior: a Gaussian, or the noise beside a kernel."""
    start, kernel = perf_counter(), settings.kernel
    assert kernel is None or isinstance(kernel, Kernel)
    found = maximize_likelihood(
        rows,
        kernel=None if kernel is None else clone(kernel),
        noise_variance=settings.noise_variance,
        ard=settings.ard is True,
        max_learning_rows=settings.max_learning_rows,
        max_memory_gib=settings.max_memory_gib,
        rng=rng,
    )
    learns_noise = settings.noise_variance is None and rows.noise_variances is None
    if kernel is not None and not learns_noise:
        return found, ()
    ard, n = settings.ard is True and kernel is None, min(len(rows.y), settings.max_learning_rows)
    n_free = (0 if kernel is not None else 1 + (rows.X.shape[1] if ard else 1)) + learns_noise
    name = "gaussian" if kernel is None else type(kernel).__name__
    return found, (tried_kernel(_only_trial(found, name, ard, n_free, n, perf_counter() - start)),)


def _only_trial(found: Hyperparameters, name: str, ard: bool, n_free: int, n_rows: int, seconds: float) -> Trial:
    """Return the one line of a maximum of the exact likelihood."""
    value, missing = found.log_marginal_likelihood / n_rows, math.nan
    return Trial(name, ard, n_free, "exact", n_rows, 0, value, 0.0, missing, missing, missing, seconds, chosen=True)


def _by_form(
    rows: Rows, form: Form, settings: Settings, rng: np.random.Generator
) -> tuple[Hyperparameters, tuple[Trial, ...]]:
    """Learn the parameters of a kernel that were declared free."""
    form.kernel.checked(rows.X.shape[1])
    if not form.kernel.can("metric"):
        start, n_rows = perf_counter(), min(len(rows.y), settings.max_learning_rows)
        found = maximize_likelihood(
            rows, form=form.kernel, noise_variance=settings.noise_variance, rng=rng,
            max_learning_rows=settings.max_learning_rows, max_memory_gib=settings.max_memory_gib,
        )  # fmt: skip
        n_free = form.n_free + (settings.noise_variance is None and rows.noise_variances is None)
        return found, (tried_kernel(_only_trial(found, form.name, False, n_free, n_rows, perf_counter() - start)),)
    return _by_search(rows, (form,), settings, rng)


def _by_search(
    rows: Rows, tried: Sequence[Form], settings: Settings, rng: np.random.Generator
) -> tuple[Hyperparameters, tuple[Trial, ...]]:
    """Search among forms, and decide by the exact likelihood of all rows, or by rows that are left out."""
    for form in tried:
        require(form.kernel, "metric", "Learning from all rows")
    if settings.likelihood not in ("auto", "exact", "vecchia"):
        raise InputError(f"likelihood must be 'auto', 'exact' or 'vecchia'; got {settings.likelihood!r}.")
    if settings.likelihood != "vecchia":
        n_learning = min(len(rows.y), settings.max_learning_rows)
        check_memory(
            ExactLikelihood.n_bytes(n_learning, tried[-1].kernel),
            f"The matrices to learn hyper-parameters from {n_learning:,} rows",
            "Lower max_learning_rows, or allow more memory (max_memory_gib; lmgp fit: --max-memory).",
            settings.max_memory_gib,
        )
    units = Units.of(rows, settings.standardize, settings.groups)
    log_noise = None if settings.noise_variance is None else math.log(settings.noise_variance)
    if log_noise is None and rows.noise_variances is not None:
        # Every row brings its own: what is reported stands for the noise of a new row.
        log_noise = math.log(float(np.average(rows.noise_variances, axis=0, weights=rows.weights).mean()))
    seeds = [int(seed) for seed in rng.integers(2**31, size=3)]
    all_fit = len(rows.y) <= max(settings.max_learning_rows, PLAN.fewest_to_leave_out)
    automatic = settings.likelihood == "auto"
    by_value = automatic and not all_fit and len(rows.y) <= _most_rows(settings, PLAN.decided)
    held = None
    if not (all_fit or by_value):
        held = HeldOut.several(rows, units.columns, np.random.default_rng(seeds[2]))
    trying = Search(rows if held is None else held[0].rest, units, log_noise, settings.groups, seeds)
    if all_fit:
        chosen = _by_likelihood(trying, tried, settings)
    else:
        candidates = _candidates(trying, trying.best_forms(tried), settings, seeds[2], by_value)
        if held is None:
            chosen = _best_by_value(trying, candidates)
        else:
            sample = _sample(trying.rows, _most_rows(settings, PLAN.sampled), seeds[2]) if automatic else None
            chosen = Choice(trying, held, sample).best(candidates)
    free = chosen.optimum.free
    kernel, noise = chosen.space.kernel(free), chosen.space.noise_variance(free)
    by_exact = all_fit and settings.likelihood != "vecchia"
    value = log_likelihood(rows, kernel, noise) if by_exact else chosen.trial.log_likelihood * len(rows.y)
    trials = tuple(one.trial._replace(chosen=one.trial is chosen.trial) for one in trying.trials)
    return Hyperparameters(kernel, noise, value, chosen.optimum.converged), trials


def _most_rows(settings: Settings, multiple: int) -> int:
    """Return the number of rows, at most, whose exact likelihood decides between optima."""
    affordable = math.isqrt(int(settings.max_memory_gib * 2**30) // (8 * MATRICES))
    return min(multiple * settings.max_learning_rows, affordable)


def _sample(rows: Rows, most: int, seed: int) -> Rows:
    """Return a random sample of at most this number of rows, in their order."""
    return rows.take(np.sort(np.random.default_rng(seed).permutation(len(rows.y))[:most]))


def _best_by_value(search: Search, candidates: Sequence[Found]) -> Found:
    """Return the candidate with the best exact likelihood of all rows."""
    found = [search.exact_value(one, search.rows) for one in search.not_far_behind(candidates, search.rows)]
    search.trials += found
    return max(found, key=lambda one: one.worth)


def _by_likelihood(search: Search, tried: Sequence[Form], settings: Settings) -> Found:
    """Decide between the best forms by the likelihood of all rows."""
    n_rows = len(search.rows.y)
    if settings.likelihood == "vecchia":
        found = [optima[-1] for optima in parallel_map(search.by_all_rows, search.best_forms(tried))]
    else:
        if n_rows <= PLAN.beside:
            close = search.first_round(tried)[: PLAN.n_exact]
        else:
            best = search.best_forms(tried)
            close = [one for one in best if (best[0].worth - one.worth) * n_rows <= PLAN.close] or best[:1]
        found = search.by_exact_likelihood(close, search.rows)
    search.trials += found
    return max(found, key=lambda one: one.worth)


def _candidates(search: Search, best: Sequence[Found], settings: Settings, seed: int, by_value: bool) -> list[Found]:
    """Return optima of the Vecchia likelihood of all rows and of the exact likelihood of some."""
    candidates: list[Found] = []
    if settings.likelihood != "exact":
        climb = partial(search.by_all_rows, closer=not by_value)
        candidates = list(chain.from_iterable(parallel_map(climb, best)))
    if settings.likelihood != "vecchia":
        alone = by_value or not candidates
        most = settings.max_learning_rows if alone else min(settings.max_learning_rows, PLAN.beside)
        some = _sample(search.rows, most, seed)
        starts = [max(candidates, key=lambda one: one.worth)] if candidates else list(best)
        candidates += [each for one in starts for each in search.by_exact_likelihood([one], some, sample=True)]
    search.trials += candidates
    return candidates


class _Checker(RegressorMixin, BaseEstimator):
    """What scikit-learn's checks of X and y ask for: an estimator."""
