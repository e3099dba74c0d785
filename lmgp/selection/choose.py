"""The choice of a recipe for some rows: the exact GP or a global solve at once, or what trials on probes ask for."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from time import perf_counter

import numpy as np
from sklearn.base import clone

from lmgp.data import Floats, Noise, Predicted, column_scales, drawing_of, sampling
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import ObservationNoise
from lmgp.errors import InputError, MemoryLimitError, NumericalError
from lmgp.features.fourier import FourierMap
from lmgp.features.nystroem import NystroemFeatures
from lmgp.kernels.base import unsupported
from lmgp.learning.heldout import N_NEIGHBORS, Validation, mean_and_error
from lmgp.metrics import kl_divergence
from lmgp.neighbours.duplicates import steady_order, steady_sample
from lmgp.neighbours.placement import cover, negligible_share
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import max_rows_within
from lmgp.posteriors.local import PRUNE
from lmgp.posteriors.modes import ModeSolve, check_modes, choose_modes
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.recipes import Exact, Local, Nearest, Recipe, Residual, Spectral, Weights
from lmgp.selection.candidates import AFFORDABLE, NEIGHBOURS, Candidate, Problem, candidates, max_centroids
from lmgp.selection.methods import EXACT, RESIDUAL, SPECTRAL
from lmgp.selection.probes import Probes
from lmgp.selection.record import RecipeTrial, Selection
from lmgp.utils.progress import silent, stage, tried_model

# Of the mean, in noise standard deviations: smaller errors take few iterations more.
MEAN_ERROR = 1e-2
# All trials together take at most this number of nominal seconds.
TRIALS = 3.0
# Each row is predicted from the 256 nearest rows, but from this number where these predict rows left out better than
# 128 do, which tell as much in a quarter of the time, by more than the second number of standard errors.
FEW, ERRORS = 8, 2.0
# Models are compared by rows left out on at most this number of rows.
MOST_ROWS = 20_000
# The columns of these maps are shared by all rows.
GLOBAL = (FourierMap, NystroemFeatures)


def choose(problem: Problem, rng: np.random.Generator) -> tuple[Recipe, Selection, np.random.Generator]:
    """Choose the cheapest recipe that is near enough to the exact process.

    Parameters
    ----------
    problem : Problem
        Whose kernel has a metric, where the exact process is not taken at once.
    rng : numpy.random.Generator
        Draws the maps.

    Returns
    -------
    recipe : Recipe
    selection : Selection
    drawing : numpy.random.Generator
        From which the posterior of the recipe is to be drawn: as that of its trial was.
    """
    seed, n, n_predict = int(rng.integers(2**31)), problem.n_rows, problem.n_predict
    if problem.needs_no_search and not problem.by_rows_left_out:
        candidate = problem.candidate(EXACT, n, Exact(problem.max_memory_gib))
        selection = at_once(problem, candidate)
    elif not problem.kernel.can("metric"):
        raise unsupported(problem.kernel, "metric", f"GPRegressor for {n:,} rows and {n_predict:,} predictions")
    elif by_modes := _by_modes(problem):
        candidate, selection = by_modes
    else:
        stage("choosing", "choosing a model for %s rows and %s predictions", f"{n:,}", f"{n_predict:,}")
        candidate, selection = _by_trials(problem, seed)
    recipe = candidate.recipe
    if problem.n_streamed is not None:
        selection = replace(selection, sample_rows=len(problem.rows))
        recipe = replace(recipe, solver="primal") if isinstance(recipe, Local) else recipe
    return recipe, replace(selection, seed=seed), drawing_of(seed)  # what was tried is what is chosen


def _by_trials(problem: Problem, seed: int) -> tuple[Candidate, Selection]:
    """Try candidates on probes: posteriors of their recipes, of the rows that these are predicted from."""
    rows, kernel, noise = problem.rows, problem.kernel, Noise(problem.noise_variance)
    probes = Probes.of(rows, kernel, noise, sampling(), problem.max_memory_gib)
    most = max_centroids(problem.n_rows, problem.n_inputs)
    covers = cache(lambda threshold: cover(rows, kernel, threshold, most))

    def build(candidate: Candidate) -> Posterior:
        recipe = candidate.recipe
        if isinstance(recipe, Nearest):
            recipe = replace(recipe, share=False)
        elif isinstance(recipe, Local):
            # By the map, also where it has more columns than there are rows here: all rows may be more.
            recipe = replace(recipe, centroids=covers(recipe.threshold), solver="primal")
        elif isinstance(recipe, Residual | Weights) and isinstance(recipe.features, GLOBAL):
            # As many columns for each row as all rows will have: some places take fewer than all between them.
            size = max(2, round(probes.share * candidate.trial.n_features))
            recipe = replace(recipe, features=clone(recipe.features).set_params(n_features=size))
        return recipe.posterior(kernel, problem.noise_variance, probes.rest, drawing_of(seed))

    reach, n_near = negligible_share(rows, kernel, noise, PRUNE), probes.most_neighbours
    problem = replace(problem, max_neighbours=n_near, reach=reach)
    if not problem.by_rows_left_out:
        return select(problem, probes, candidates(problem, covers), build)
    number = number_of_rows(problem, max_rows_within(problem.max_memory_gib))
    preferred = problem.of_nearest_rows(number)
    before: tuple[RecipeTrial, ...] = ()
    if number > FEW:  # where few rows predict better, what is nearer to the exact process predicts worse
        # Residuals of near rows take by far the longest to predict.
        listed = [candidate for candidate in candidates(problem, covers) if candidate.trial.method != RESIDUAL]
        candidate, selection = select(problem, probes, listed, build)
        if candidate.recipe != preferred.recipe:
            gain = gain_over_nearest(problem, candidate.recipe, number, drawing_of(seed))
            if gain > -problem.tolerance:
                return candidate, selection
        before = tuple(trial._replace(chosen=False) for trial in selection if trial.n_neighbors != number)
    candidate, selection = select(problem, probes, [preferred], build)
    return candidate, replace(selection, trials=(*before, *selection), by_rows_left_out=True)


def _by_modes(problem: Problem) -> tuple[Candidate, Selection] | None:
    """Choose the global solve if it serves the kernel, for no more work than the exact GP takes or `AFFORDABLE` allows.

    It states its own error, and so needs no trial: modes and iterations may each add half the square of that of the
    mean to the divergence. Of a stream it may take what any model may.
    """
    kernel, n, gib = problem.kernel, problem.n_rows, problem.max_memory_gib
    if SPECTRAL not in problem.methods or not kernel.can("spectral_density"):
        return None
    error, streamed = min(MEAN_ERROR, math.sqrt(0.5 * problem.tolerance)), problem.n_streamed is not None
    try:
        modes = choose_modes(kernel, problem.rows.X, problem.noise_of_row, error)
        check_modes(modes, kernel, error, problem.n_targets, gib)
    except (InputError, MemoryLimitError):
        return None
    # At the rate by which the exact GP is taken at once within a second.
    by_exact = problem.exact_seconds if problem.takes_exact else math.inf
    limit = problem.affordable if streamed else min(AFFORDABLE, max(1.0, by_exact))
    seconds = ModeSolve.of(modes, kernel, problem.noise_of_row, n, error, not streamed).cost.seconds
    if seconds > limit:
        return None
    candidate = problem.candidate(SPECTRAL, modes.n_modes, Spectral(error, max_memory_gib=gib))
    candidate = replace(candidate, trial=candidate.trial._replace(kl=error**2, seconds=seconds))
    return candidate, at_once(problem, candidate)


def at_once(problem: Problem, candidate: Candidate) -> Selection:
    """Return the selection of a candidate that needs no search."""
    return Selection((candidate.trial._replace(chosen=True),), problem.tolerance, problem.n_predict, 0, 0.0)


def select(
    problem: Problem, probes: Probes, candidates: Sequence[Candidate], build: Callable[[Candidate], Posterior]
) -> tuple[Candidate, Selection]:
    """Take the cheapest candidate whose divergence from the exact predictions is within the tolerance.

    Two standard errors are added to each divergence. Candidates are tried in the order of their nominal seconds, as far
    as the trials together are affordable; the exact GP needs none. If no candidate is near enough, the cheapest is
    taken whose divergence is within one standard error of the least.

    Parameters
    ----------
    problem : Problem
    probes : Probes
    candidates : sequence of Candidate
    build : callable
        Makes the posterior of a candidate, of `probes.rest`.

    Returns
    -------
    Candidate
    Selection

    References
    ----------
    L. Breiman, J. H. Friedman, R. A. Olshen and C. J. Stone, *Classification and Regression Trees*, 1984, section
    3.4.3: the rule of one standard error.
    """
    trials: dict[Candidate, RecipeTrial] = {}
    spent, tolerance = 0.0, problem.tolerance
    for candidate in sorted(candidates, key=lambda candidate: candidate.trial.seconds):
        seconds = candidate.seconds(len(probes.rest), len(probes.X))
        if candidate.trial.method == EXACT:
            trials[candidate] = candidate.trial
        elif not trials or spent + seconds <= TRIALS:
            spent += seconds
            trials[candidate] = tried(problem, probes, candidate, build)
        if candidate in trials and trials[candidate].within(tolerance):
            chosen = candidate
            break
    else:
        nearest = min(trials.values(), key=lambda trial: trial.kl)
        chosen = next(candidate for candidate, trial in trials.items() if trial.kl <= nearest.kl + nearest.spread)
    table = tuple(trial._replace(chosen=candidate is chosen) for candidate, trial in trials.items())
    return chosen, Selection(table, tolerance, problem.n_predict, len(probes.rest), probes.seconds)


def tried(
    problem: Problem, probes: Probes, candidate: Candidate, build: Callable[[Candidate], Posterior]
) -> RecipeTrial:
    """Compare a candidate with the exact predictions."""
    start, noise = perf_counter(), problem.noise_of_row
    try:
        with silent():  # what is to be warned about, the model that is chosen says
            means, variance = build(candidate).distribution(probes.X)
        divergences = kl_divergence(means[:, 0], variance + noise, probes.mean, probes.variance + noise)
        kl, spread = probes.mean_and_error(divergences)
    except NumericalError:  # its noise is too small for float64: others may do
        kl, spread = math.inf, 0.0
    seconds = perf_counter() - start
    return tried_model(candidate.trial._replace(kl=kl, spread=spread, n_probes=len(probes.X), trial_seconds=seconds))


def number_of_rows(problem: Problem, most: int = NEIGHBOURS) -> int:
    """Return from how many nearest rows each row is to be predicted: 256, or 8 where these predict better.

    The exact process is that of its kernel and normal noise. Where neither is that of the rows, more of them may
    predict worse: an outlier spoils the predictions of all rows of which it is a neighbour. Rows are left out by
    themselves and in whole neighbourhoods, which count alike, and predicted from 8 and from 128 rows.

    Parameters
    ----------
    problem : Problem
    most : int, default=256
        The largest number that memory allows.
    """
    rows, noise = problem.rows.take(steady_order(problem.rows)), Noise(problem.noise_variance)
    validation = Validation.of(rows, column_scales(rows), sampling(0, 2))
    few, many = (min(number, most) for number in (FEW, N_NEIGHBORS))
    nearest = NearestPosterior(problem.kernel, rows, noise, many, share=False, precision="float32")
    by_few, by_many = (validation.densities_by(nearest.with_neighbors(k), densities) for k in (few, many))
    gain, error = mean_and_error([few - other for few, other in zip(by_few, by_many, strict=True)])
    return few if gain > ERRORS * error else min(NEIGHBOURS, most)


def gain_over_nearest(problem: Problem, recipe: Recipe, number: int, rng: np.random.Generator) -> float:
    """Return by how much a recipe predicts rows left out better than a number of nearest rows does, in nats a row.

    Parameters
    ----------
    problem : Problem
        Of whose rows a sample stands for more than 20,000.
    recipe : Recipe
    number : int
    rng : numpy.random.Generator
        Draws the map of the recipe.
    """
    rows, noise = problem.rows.take(steady_sample(problem.rows, MOST_ROWS)), Noise(problem.noise_variance)
    validation = Validation.of(rows, column_scales(rows), sampling(0, 2), near=False)

    posterior = recipe.posterior(problem.kernel, problem.noise_variance, rows, rng)
    nearest = NearestPosterior(problem.kernel, rows, noise, number, share=False, precision="float32")
    (here, _), (there, _) = (validation.densities_by(process, densities) for process in (posterior, nearest))
    return float(np.mean(here - there))


def densities(predicted: Sequence[Predicted]) -> list[Floats]:
    """Return log densities of rows of one target that were left out, under the t that they tell."""
    of_all = ObservationNoise.fitted("student", LeftOut.of(predicted))[1]
    return np.split(of_all, np.cumsum([len(rows) for rows, *_ in predicted])[:-1])
