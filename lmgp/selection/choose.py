"""The choice of a recipe for some rows: the exact GP or a global solve at once, or what trials on probes ask for."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
from sklearn.base import clone

from lmgp.data import Noise, Rows, drawing_of, sampling
from lmgp.errors import InputError, MemoryLimitError
from lmgp.features.fourier import FourierMap
from lmgp.features.nystroem import NystroemFeatures
from lmgp.kernels.base import Kernel, unsupported
from lmgp.neighbours.placement import cover, negligible_share
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.local import PRUNE
from lmgp.posteriors.modes import ModeSolve, check_modes, choose_modes
from lmgp.recipes import Exact, Local, Nearest, Recipe, Residual, Spectral, Weights
from lmgp.selection.candidates import (
    AFFORDABLE,
    QUICK,
    Allowed,
    Candidate,
    Problem,
    affordable,
    candidates,
    exact_work,
    max_centroids,
)
from lmgp.selection.methods import EXACT, SPECTRAL
from lmgp.selection.probes import Probes
from lmgp.selection.search import APPROXIMATION, Selection, at_once, select
from lmgp.utils.progress import stage

# Of the mean, in noise standard deviations: smaller errors take few iterations more.
MEAN_ERROR = 1e-2
# The columns of these maps are shared by all rows.
GLOBAL = (FourierMap, NystroemFeatures)


def choose(
    allowed: Allowed,
    rows: Rows,
    kernel: Kernel,
    noise_variance: float,
    tolerance: float,
    n_predict: int,
    rng: np.random.Generator,
    n_targets: int = 1,
    n_streamed: int | None = None,
) -> tuple[Recipe, Selection, np.random.Generator]:
    """Choose the cheapest recipe that is near enough to the exact process.

    Parameters
    ----------
    allowed : Allowed
    rows : Rows
        With one centred target.
    kernel : Kernel
        With a metric, where the exact process is not taken at once.
    noise_variance : float
    tolerance : float
        KL per row, in nats.
    n_predict : int
    rng : numpy.random.Generator
        Draws the maps.
    n_targets : int, default=1
        y, and the columns of a trend.
    n_streamed : int, optional
        The number of rows of a stream, of which `rows` are a sample; `allowed` has methods of sums alone then.

    Returns
    -------
    recipe : Recipe
    selection : Selection
    drawing : numpy.random.Generator
        From which the posterior of the recipe is to be drawn: as that of its trial was.
    """
    seed, n = int(rng.integers(2**31)), n_streamed or len(rows)
    if allowed.needs_no_search(n, n_predict):
        candidate = Candidate(EXACT, n, Exact(allowed.max_memory_gib), 0.0)
        selection = at_once(candidate, 0.0, tolerance, n_predict)
    elif not kernel.can("metric"):
        raise unsupported(kernel, "metric", f"GPRegressor for {n:,} rows and {n_predict:,} predictions")
    elif by_modes := _by_modes(allowed, rows, kernel, noise_variance, tolerance, n_predict, n_targets, n_streamed):
        candidate, selection = by_modes
    else:
        stage("choosing", "choosing a model for %s rows and %s predictions", f"{n:,}", f"{n_predict:,}")
        noise = Noise(noise_variance, APPROXIMATION)
        probes = Probes.of(rows, kernel, noise, sampling(), allowed.max_memory_gib)
        candidate, selection = _by_trials(probes, allowed, rows, n_predict, kernel, noise, tolerance, seed, n_streamed)
    recipe = candidate.recipe
    if n_streamed is not None:
        selection = replace(selection, sample_rows=len(rows))
        recipe = replace(recipe, solver="primal") if isinstance(recipe, Local) else recipe
    return recipe, replace(selection, seed=seed), drawing_of(seed)  # what was tried is what is chosen


def _by_trials(
    probes: Probes, allowed: Allowed, rows: Rows, n_predict: int, kernel: Kernel, noise: Noise, tolerance: float,
    seed: int, n_streamed: int | None,
) -> tuple[Candidate, Selection]:  # fmt: skip
    """Try candidates on probes: posteriors of their recipes, of the rows that these are predicted from."""
    most = max_centroids(n_streamed or len(rows), rows.X.shape[1])
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
            size = max(2, round(probes.share * candidate.size))
            recipe = replace(recipe, features=clone(recipe.features).set_params(n_features=size))
        return recipe.posterior(kernel, noise.variance, probes.rest, drawing_of(seed))

    reach = negligible_share(rows, kernel, noise, PRUNE)
    problem = Problem(rows, kernel, reach, n_predict, len(probes.rest), len(probes.X), n_streamed)
    listed = candidates(replace(allowed, max_neighbours=probes.most_neighbours), problem, covers)
    return select(probes, listed, build, noise.variance, tolerance, n_predict)


def _by_modes(
    allowed: Allowed, rows: Rows, kernel: Kernel, noise_variance: float, tolerance: float, n_predict: int,
    n_targets: int, n_streamed: int | None,
) -> tuple[Candidate, Selection] | None:  # fmt: skip
    """Choose the global solve if it serves the kernel, for no more work than the exact GP takes or `AFFORDABLE` allows.

    It states its own error, and so needs no trial: modes and iterations may each add half the square of that of the
    mean to the divergence. Of a stream it may take what any model may.
    """
    if SPECTRAL not in allowed.methods or not kernel.can("spectral_density"):
        return None
    error = min(MEAN_ERROR, math.sqrt(0.5 * tolerance))
    try:
        modes = choose_modes(kernel, rows.X, noise_variance, error)
        check_modes(modes, kernel, error, n_targets, allowed.max_memory_gib)
    except (InputError, MemoryLimitError):
        return None
    n = n_streamed or len(rows)
    # At the rate by which the exact GP is taken at once within a second.
    by_exact = exact_work(n, n_predict) / QUICK if allowed.takes_exact(n) else math.inf
    limit = min(AFFORDABLE, max(1.0, by_exact))
    if n_streamed is not None:
        limit = affordable(n, rows.X.shape[1], n_predict, kernel)
    seconds = ModeSolve.of(modes, kernel, noise_variance, n, error, n_streamed is None).cost.seconds
    if seconds > limit:
        return None
    recipe = Spectral(error, max_memory_gib=allowed.max_memory_gib)
    candidate = Candidate(SPECTRAL, modes.n_modes, recipe, seconds)
    return candidate, at_once(candidate, error**2, tolerance, n_predict)
