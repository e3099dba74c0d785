"""The choice of a recipe for some rows: the exact GP or a global solve at once, or what trials on probes ask for."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
from sklearn.base import clone

from lmgp.data import Noise, drawing_of, sampling
from lmgp.errors import InputError, MemoryLimitError
from lmgp.features.fourier import FourierMap
from lmgp.features.nystroem import NystroemFeatures
from lmgp.kernels.base import unsupported
from lmgp.neighbours.placement import cover, negligible_share
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import max_rows_within
from lmgp.posteriors.local import PRUNE
from lmgp.posteriors.modes import ModeSolve, check_modes, choose_modes
from lmgp.recipes import Exact, Local, Nearest, Recipe, Residual, Spectral, Weights
from lmgp.selection.candidates import AFFORDABLE, Candidate, Problem, candidates, max_centroids
from lmgp.selection.methods import EXACT, RESIDUAL, SPECTRAL
from lmgp.selection.nearest import FEW, gain_over_nearest, number_of_rows
from lmgp.selection.probes import Probes
from lmgp.selection.search import RecipeTrial, Selection, at_once, select
from lmgp.utils.progress import stage

# Of the mean, in noise standard deviations: smaller errors take few iterations more.
MEAN_ERROR = 1e-2
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
    problem = replace(problem, max_neighbours=n_near, n_tried=len(probes.rest), n_probes=len(probes.X), reach=reach)
    if not problem.by_rows_left_out:
        return select(problem, probes, candidates(problem, covers), build)
    number = number_of_rows(problem, max_rows_within(problem.max_memory_gib))
    preferred = problem.of_nearest_rows(number)
    tried: tuple[RecipeTrial, ...] = ()
    if number > FEW:  # where few rows predict better, what is nearer to the exact process predicts worse
        # Residuals of near rows take by far the longest to predict.
        listed = [one for one in candidates(problem, covers) if one.trial.method != RESIDUAL]
        candidate, selection = select(problem, probes, listed, build)
        if candidate.recipe != preferred.recipe:
            gain = gain_over_nearest(problem, candidate.recipe, number, drawing_of(seed))
            if gain > -problem.tolerance:
                return candidate, selection
        tried = tuple(one._replace(chosen=False) for one in selection if one.n_neighbors != number)
    candidate, selection = select(problem, probes, [preferred], build)
    return candidate, replace(selection, trials=(*tried, *selection), by_rows_left_out=True)


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
        modes = choose_modes(kernel, problem.rows.X, problem.noise_variance, error)
        check_modes(modes, kernel, error, problem.n_targets, gib)
    except (InputError, MemoryLimitError):
        return None
    # At the rate by which the exact GP is taken at once within a second.
    by_exact = problem.exact_seconds if problem.takes_exact else math.inf
    limit = problem.affordable if streamed else min(AFFORDABLE, max(1.0, by_exact))
    seconds = ModeSolve.of(modes, kernel, problem.noise_variance, n, error, not streamed).cost.seconds
    if seconds > limit:
        return None
    candidate = problem.candidate(SPECTRAL, modes.n_modes, Spectral(error, max_memory_gib=gib))
    candidate = replace(candidate, trial=candidate.trial._replace(kl=error**2, seconds=seconds))
    return candidate, at_once(problem, candidate)
