"""Which recipes are tried."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, product, takewhile

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammainccinv

from lmgp.data import Floats, Rows
from lmgp.errors import InputError, nearest_names
from lmgp.features.base import KernelMap
from lmgp.features.nystroem import NystroemFeatures
from lmgp.kernels.base import Kernel
from lmgp.posteriors.exact import max_rows_within
from lmgp.posteriors.weights import bytes_of_model
from lmgp.recipes import Exact, Local, Nearest, Recipe, Residual, Weights
from lmgp.selection.methods import EXACT, METHODS, NEAREST_ROWS, RESIDUAL, Method
from lmgp.selection.record import RecipeTrial
from lmgp.utils.memory import memory_limit

# Thresholds of localized models, in lengthscales, in descending order.
THRESHOLDS = (4.0, 2.0, 1.0, 0.5, 0.25)
# Sizes are tried from the largest down, each this fraction of the one before.
SMALLEST_SIZE, FRACTION = 32, 4
# A threshold is tried if it takes fewer centroids than the first number, or than one in the second number of rows.
FEW_CENTROIDS, ROWS_PER_CENTROID = 256, 8
# With more than 3 input columns, clustering looks at n · d coordinates for each centroid. A threshold above
# `FEW_CENTROIDS` is tried only if it takes fewer than this number in all.
MAX_COORDINATES = 1e9
# In multiplications: where the exact GP of n rows takes fewer, n²(n/3 + n_predict), no search can save much.
QUICK = 2e10
# In nominal seconds, as all others below: what any model may take.
AFFORDABLE = 20.0
# A model may also take as long as predictions from this number of nearest rows, from which most rows are predicted.
NEIGHBOURS = 256
# Of models of a map and residuals.
RESIDUAL_LANDMARKS, RESIDUAL_NEIGHBOURS, RESIDUAL_BLOCK = 1024, (64, 128), 256

# The share of rows within reach of a centroid is estimated from the distances between this many rows and centroids.
SAMPLE_ROWS, SAMPLE_CENTROIDS = 4096, 64

# All methods that can be named, and those that are tried if none are.
NAMES = (*(name for name, method in METHODS.items() if not method.chooses), EXACT)
TRIED = (*(name for name, method in METHODS.items() if method.tried), EXACT)
# The models of all others are made of sums over rows.
KEEPING_ROWS = (NEAREST_ROWS, RESIDUAL, EXACT)


def checked_methods(methods: Iterable[str] | None, summed: bool = False) -> tuple[str, ...]:
    """Check the names of methods, and return them; those that are tried by default if None.

    Of chunks (`summed`), those are returned whose models are made of sums over rows.

    Raises
    ------
    InputError
        If a name is unknown, or none is left.
    """
    given = TRIED if methods is None else tuple(methods)
    allowed = tuple(name for name in NAMES if not (summed and name in KEEPING_ROWS))
    for name in given:
        if name not in NAMES:
            known = nearest_names(str(name), NAMES)
            raise InputError(f"methods has the name {name!r}, which is no method that can be chosen; {known}")
    names = tuple(name for name in given if name in allowed)
    if not names:
        why = ": a fit to chunks keeps no rows, and takes models that are made of sums over rows" if summed else ""
        raise InputError(
            f"methods={list(given)} leaves nothing to choose from{why}. Leave it out, or name one or more of "
            f"{', '.join(allowed)}."
        )
    return names


@dataclass(frozen=True, eq=False)
class Candidate:
    """A recipe, and its line of the table.

    Attributes
    ----------
    recipe : Recipe
    trial : RecipeTrial
        With an infinite divergence, but that of the exact GP.
    seconds : callable
        The nominal seconds of conditioning it on a number of rows, and predicting a number.
    """

    recipe: Recipe
    trial: RecipeTrial
    seconds: Callable[[int, int], float]


def sizes(max_features: int) -> list[int]:
    """Return the sizes that are tried: from the largest down by quarters."""
    quarters = takewhile(lambda size: size >= SMALLEST_SIZE, (max_features // FRACTION**power for power in count()))
    return sorted(quarters) or [max_features]


def max_centroids(n_rows: int, n_inputs: int) -> int:
    """Return the number of centroids at which a threshold is too small to be tried."""
    limit = max(FEW_CENTROIDS, n_rows // ROWS_PER_CENTROID)
    if n_inputs <= 3:
        return limit
    return int(min(limit, max(FEW_CENTROIDS, MAX_COORDINATES / (n_rows * n_inputs))))


@dataclass(frozen=True, eq=False)
class Problem:
    """What a model is chosen for, and what the user allows.

    Attributes
    ----------
    rows : Rows
        Those that the chosen one is fitted to, with one centred target.
    kernel : Kernel
    noise_variance : float
    tolerance : float
        KL per row, in nats.
    n_predict : int
        The number of rows to predict.
    n_targets : int, default=1
        The columns of y, and of a trend.
    n_streamed : int, optional
        The number of rows of a stream that the chosen one is fitted to, of which `rows` are a sample.
    methods : sequence of str
        Names of methods; of a stream, of those whose models are sums over rows.
    max_features : int, default=2048
        The largest number of columns, and of nearest rows.
    max_memory_gib : float, default=4.0
        Models whose matrices need more are left out.
    max_neighbours : int, default=2048
        The largest number of nearest rows.
    reach : float
        The share of its prior variance below which a row is left out of a model, see
        `lmgp.neighbours.placement.negligible_share`.
    by_rows_left_out : bool, default=False
        Whether rows left out say how many nearest rows predict, where no other model is within the tolerance, or where
        few predict best.
    """

    rows: Rows
    kernel: Kernel
    noise_variance: float
    tolerance: float
    n_predict: int
    n_targets: int = 1
    n_streamed: int | None = None
    methods: Sequence[str] = TRIED
    max_features: int = 2048
    max_memory_gib: float = 4.0
    max_neighbours: int = 2048
    reach: float = 0.0
    by_rows_left_out: bool = False

    @property
    def n_rows(self) -> int:
        """The number of rows that the chosen one is fitted to."""
        return self.n_streamed or len(self.rows)

    @property
    def n_inputs(self) -> int:
        """The number of their columns, d."""
        return self.rows.X.shape[1]

    @property
    def noise_of_row(self) -> float:
        """The noise variance of a typical row: σ² is that of weight 1."""
        return self.noise_variance / self.rows.mean_weight

    @property
    def exact_seconds(self) -> float:
        """The nominal seconds that the exact GP takes, by its multiplications."""
        return self.n_rows**2 * (self.n_rows / 3.0 + self.n_predict) / QUICK

    @property
    def takes_exact(self) -> bool:
        """Whether the exact GP is a candidate."""
        return EXACT in self.methods and self.n_rows <= max_rows_within(self.max_memory_gib)

    @property
    def needs_no_search(self) -> bool:
        """Whether the exact GP is to be taken at once, unless rows left out may choose."""
        return self.takes_exact and (self.exact_seconds <= 1.0 or set(self.methods) == {EXACT})

    @property
    def affordable(self) -> float:
        """The nominal seconds that a model may take."""
        by_rows = Nearest(NEIGHBOURS).cost(self.n_rows, self.n_inputs, self.n_predict, self.kernel)
        return max(AFFORDABLE, by_rows.seconds)

    def candidate(self, method: str, size: int, recipe: Recipe, **more: float) -> Candidate:
        """Return a candidate, with what else its cost depends on."""

        def seconds(n_rows: int, n_predict: int) -> float:
            return recipe.cost(n_rows, self.n_inputs, n_predict, self.kernel, **more).seconds

        all_rows = seconds(self.n_rows, self.n_predict)
        kl, approximation = 0.0 if method == EXACT else math.inf, getattr(recipe, "approximation", "fitc")
        threshold, n_neighbors = (getattr(recipe, name, None) for name in ("threshold", "n_neighbors"))
        trial = RecipeTrial(method, size, threshold, approximation, kl, 0.0, 0, all_rows, 0.0, n_neighbors=n_neighbors)
        return Candidate(recipe, trial, seconds)

    def of_nearest_rows(self, number: int) -> Candidate:
        """Return the candidate of a number of nearest rows."""
        return self.candidate(NEAREST_ROWS, number, Nearest(number, self.max_memory_gib, precision="float32"))


def candidates(problem: Problem, cover: Callable[[float], Floats]) -> list[Candidate]:
    """List the candidates, with the nominal time of each.

    Parameters
    ----------
    problem : Problem
        Methods whose map cannot serve its kernel are left out.
    cover : callable
        Returns the centroids of a threshold; of these, no more than `max_centroids` are needed.

    Returns
    -------
    list of Candidate

    Raises
    ------
    InputError
        If there is no candidate.
    """
    known = (METHODS[name] for name in dict.fromkeys(problem.methods) if name in METHODS)
    maps = [method for method in known if method.mapped and _map(method).serves(problem.kernel)]
    everywhere, around = ([method for method in maps if method.localized == local] for local in (False, True))
    listed = list(_of_maps(everywhere, problem))
    for threshold in THRESHOLDS if around else ():
        centroids = cover(threshold)
        if len(centroids) >= max_centroids(problem.n_rows, problem.n_inputs):
            break  # smaller thresholds take more
        if len(centroids) > 1 or not everywhere:  # around one centroid, a model is a global one
            listed += _of_maps(around, problem, (threshold, centroids))
    listed += [*_of_residuals(problem), *_of_rows(problem)]
    if not listed:
        raise InputError(
            f"None of methods={list(problem.methods)} can serve {problem.kernel!r} for {problem.n_rows:,} rows of "
            f"{problem.n_inputs} columns, with max_features={problem.max_features} and "
            f"max_memory_gib={problem.max_memory_gib:g}. Allow more of these."
        )
    limit = max(problem.affordable, min(candidate.trial.seconds for candidate in listed))
    return [candidate for candidate in listed if candidate.trial.seconds <= limit]


def _map(method: Method, size: int = SMALLEST_SIZE) -> KernelMap:
    """Make the unfitted map of a method."""
    return method.make(size, "local", None)


def _fits(features: KernelMap, problem: Problem) -> bool:
    """Say whether the matrices of a model with a map fit into memory."""
    return bytes_of_model(features, problem.n_rows, problem.n_inputs)[0] <= memory_limit(problem.max_memory_gib)


def _of_maps(
    methods: Sequence[Method], problem: Problem, around: tuple[float, Floats] | None = None
) -> Iterator[Candidate]:
    """Go through the maps for all rows, or around the centroids of a threshold."""
    gib, each = problem.max_memory_gib, sizes(problem.max_features)
    if around is not None:
        threshold, centroids = around
        samples = ((centroids, SAMPLE_CENTROIDS), (problem.rows.X, SAMPLE_ROWS))
        drawn = (X[np.random.default_rng(0).permutation(len(X))[:number]] for X, number in samples)
        distances = cdist(*map(problem.kernel.in_lengthscales, drawn))
    for method, size in product(methods, each):
        features = _map(method, size)
        work = features.work(problem.n_inputs)
        if (work.solved and size > max(problem.n_rows, each[0])) or not _fits(features, problem):
            continue
        if around is None:
            yield problem.candidate(method.name, size, Weights(features, max_memory_gib=gib))
            continue
        # A localized model takes the rows within the reach of its degree.
        reach = math.inf if work.degree is None else gammainccinv(work.degree + 1, problem.reach)
        share = float(np.mean(distances <= work.stretch * np.sqrt(reach)))
        recipe = Local(features, threshold, solver="auto", max_memory_gib=gib)
        yield problem.candidate(method.name, size, recipe, n_centroids=len(centroids), share=share)


def _of_residuals(problem: Problem) -> Iterator[Candidate]:
    """Go through a global Nyström map whose residuals the nearest rows predict, for some numbers of these."""
    size, gib = min(RESIDUAL_LANDMARKS, problem.max_features, problem.n_rows), problem.max_memory_gib
    features = NystroemFeatures(size)
    fits = 8.0 * problem.n_rows * (size + RESIDUAL_BLOCK) <= gib * 2**30
    if RESIDUAL in problem.methods and fits and _fits(features, problem):
        most = min(problem.max_features, problem.max_neighbours, problem.n_rows)
        for k in sorted({min(k, most) for k in RESIDUAL_NEIGHBOURS}):
            yield problem.candidate(RESIDUAL, size, Residual(features, k, RESIDUAL_BLOCK, gib))


def _of_rows(problem: Problem) -> Iterator[Candidate]:
    """Go through the exact GP of the nearest rows, and that of all rows."""
    n, gib = problem.n_rows, problem.max_memory_gib
    most = min(problem.max_features, problem.max_neighbours, max_rows_within(gib))
    if NEAREST_ROWS in problem.methods:
        fewer = [k for k in sizes(most) if 0 < k < n]
        yield from map(problem.of_nearest_rows, fewer if fewer or EXACT in problem.methods else [n])
    if problem.takes_exact:
        yield problem.candidate(EXACT, n, Exact(gib))
