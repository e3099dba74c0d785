"""Which recipes are tried."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count, product, takewhile

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammainccinv

from lmgp.data import Approximation, Floats, Noise, Rows
from lmgp.errors import InputError, nearest_names
from lmgp.features.base import KernelMap
from lmgp.features.nystroem import NystroemFeatures
from lmgp.kernels.base import Kernel
from lmgp.posteriors.exact import max_rows_within
from lmgp.posteriors.weights import bytes_of_model
from lmgp.recipes import Exact, Local, Nearest, Recipe, Residual, Weights
from lmgp.selection.methods import EXACT, METHODS, NEAREST_ROWS, RESIDUAL, SPECTRAL, Method
from lmgp.utils.memory import memory_limit

# What becomes of the prior variance that a map leaves out: right at every row, which the divergences rest on.
APPROXIMATION: Approximation = "fitc"
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


def checked_methods(methods: Iterable[str] | None) -> tuple[str, ...]:
    """Check the names of methods, and return them; those that are tried by default if None.

    Raises
    ------
    InputError
        If a name is unknown, or there is none.
    """
    if methods is None:
        return TRIED
    names = tuple(methods)
    for name in names:
        if name not in NAMES:
            known = nearest_names(str(name), NAMES)
            raise InputError(f"methods has the name {name!r}, which is no method that can be chosen; {known}")
    if not names:
        raise InputError(
            f"methods is empty: nothing can be chosen. Leave it out, or name one or more of {', '.join(NAMES)}."
        )
    return names


def summed_methods(methods: Iterable[str] | None) -> tuple[str, ...]:
    """Check the names of methods, and return those whose models are made of sums over rows, as a stream needs them.

    Raises
    ------
    InputError
        If there is none.
    """
    names = checked_methods(methods)
    summed = tuple(name for name in names if name == SPECTRAL or (name in METHODS and METHODS[name].mapped))
    if not summed:
        raise InputError(
            f"methods={list(names)} keep the rows, and a fit to chunks keeps none. Leave methods out, name some that "
            "are sums over rows, such as 'spectral' or 'nystroem', or fit to rows in memory."
        )
    return summed


@dataclass(frozen=True, eq=False)
class Candidate:
    """A recipe, and its nominal time; see `lmgp.posteriors.costs`.

    Attributes
    ----------
    method : str
        The name of its method.
    size : int
        The number of columns asked for; of a model without a map, the number of rows.
    recipe : Recipe
    seconds : float
        Of conditioning it on all rows, and predicting as many as the user will.
    trial_seconds : float
        Of conditioning it on all rows but the probes, and predicting these.
    """

    method: str
    size: int
    recipe: Recipe
    seconds: float
    trial_seconds: float = 0.0


@dataclass(frozen=True)
class Allowed:
    """What the user allows.

    Attributes
    ----------
    methods : sequence of str
        Names of methods.
    max_features : int
        The largest number of columns, and of nearest rows.
    max_memory_gib : float
        Models whose matrices need more are left out.
    max_neighbours : int
        The largest number of nearest rows.
    """

    methods: Sequence[str] = TRIED
    max_features: int = 2048
    max_memory_gib: float = 4.0
    max_neighbours: int = 2048

    def takes_exact(self, n_rows: int) -> bool:
        """Say whether the exact GP of n rows is a candidate."""
        return EXACT in self.methods and n_rows <= max_rows_within(self.max_memory_gib)

    def needs_no_search(self, n_rows: int, n_predict: int) -> bool:
        """Say whether the exact GP is to be taken at once."""
        return self.takes_exact(n_rows) and (exact_seconds(n_rows, n_predict) <= 1.0 or set(self.methods) == {EXACT})


def exact_seconds(n_rows: int, n_predict: int) -> float:
    """Return the nominal seconds that the exact GP of n rows takes, by its multiplications."""
    return n_rows**2 * (n_rows / 3.0 + n_predict) / QUICK


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
    """What a model is chosen for.

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
    n_tried, n_probes : int
        The number of rows that candidates are tried on, and of those that they predict.
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
    n_tried: int = 0
    n_probes: int = 0
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
    def noise(self) -> Noise:
        """The noise, with what a map leaves out of the variance."""
        return Noise(self.noise_variance, APPROXIMATION)

    @property
    def affordable(self) -> float:
        """The nominal seconds that a model may take."""
        by_rows = Nearest(NEIGHBOURS).cost(self.n_rows, self.n_inputs, self.n_predict, self.kernel)
        return max(AFFORDABLE, by_rows.seconds)

    def candidate(self, method: str, size: int, recipe: Recipe, **more: float) -> Candidate:
        """Return a candidate, with what else its cost depends on."""
        seconds = (
            recipe.cost(n_rows, self.n_inputs, n_predict, self.kernel, **more).seconds
            for n_rows, n_predict in ((self.n_rows, self.n_predict), (self.n_tried, self.n_probes))
        )
        return Candidate(method, size, recipe, *seconds)

    def of_nearest_rows(self, number: int, max_memory_gib: float) -> Candidate:
        """Return the candidate of a number of nearest rows."""
        return self.candidate(NEAREST_ROWS, number, Nearest(number, max_memory_gib, precision="float32"))

    def distances(self, centroids: Floats) -> Floats:
        """Return distances between centroids and rows, a sample of each, in lengthscales."""
        picked = np.random.default_rng(0).permutation(len(centroids))[:SAMPLE_CENTROIDS]
        sample = np.random.default_rng(0).permutation(len(self.rows))[:SAMPLE_ROWS]
        return cdist(self.kernel.in_lengthscales(centroids[picked]), self.kernel.in_lengthscales(self.rows.X[sample]))


def candidates(allowed: Allowed, problem: Problem, cover: Callable[[float], Floats]) -> list[Candidate]:
    """List the candidates, with the nominal time of each.

    Parameters
    ----------
    allowed : Allowed
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
    known = (METHODS[name] for name in dict.fromkeys(allowed.methods) if name in METHODS)
    maps = [method for method in known if method.mapped and _map(method).serves(problem.kernel)]
    everywhere, around = ([method for method in maps if method.localized == local] for local in (False, True))
    found = _of_maps(allowed, everywhere, problem)
    for threshold in THRESHOLDS if around else ():
        centroids = cover(threshold)
        if len(centroids) >= max_centroids(problem.n_rows, problem.n_inputs):
            break  # smaller thresholds take more
        if len(centroids) > 1 or not everywhere:  # around one centroid, a model is a global one
            found += _of_maps(allowed, around, problem, (threshold, centroids))
    found += _of_residuals(allowed, problem)
    found += _of_rows(allowed, problem)
    if not found:
        raise InputError(
            f"None of methods={list(allowed.methods)} can serve {problem.kernel!r} for {problem.n_rows:,} rows of "
            f"{problem.n_inputs} columns, with max_features={allowed.max_features} and "
            f"max_memory_gib={allowed.max_memory_gib:g}. Allow more of these."
        )
    limit = max(problem.affordable, min(one.seconds for one in found))
    return [one for one in found if one.seconds <= limit]


def _map(method: Method, size: int = SMALLEST_SIZE) -> KernelMap:
    """Make the unfitted map of a method."""
    return method.make(size, "local", None)


def _fits(features: KernelMap, problem: Problem, allowed: Allowed) -> bool:
    """Say whether the matrices of a model with a map fit into memory."""
    return bytes_of_model(features, problem.n_rows, problem.n_inputs)[0] <= memory_limit(allowed.max_memory_gib)


def _of_maps(
    allowed: Allowed, methods: Sequence[Method], problem: Problem, around: tuple[float, Floats] | None = None
) -> list[Candidate]:
    """List the maps for all rows, or around the centroids of a threshold."""
    gib, each, found = allowed.max_memory_gib, sizes(allowed.max_features), []
    distances = None if around is None else problem.distances(around[1])
    for method, size in product(methods, each):
        features = _map(method, size)
        work = features.work(problem.n_inputs)
        if (work.solved and size > max(problem.n_rows, each[0])) or not _fits(features, problem, allowed):
            continue
        if around is None:
            found.append(problem.candidate(method.name, size, Weights(features, max_memory_gib=gib)))
            continue
        threshold, centroids = around
        # A localized model takes the rows within the reach of its degree.
        share = 1.0
        if work.degree is not None:
            reach = work.stretch * np.sqrt(gammainccinv(work.degree + 1, problem.reach))
            share = float(np.mean(distances <= reach))
        recipe = Local(features, threshold, solver="auto", max_memory_gib=gib)
        found.append(problem.candidate(method.name, size, recipe, n_centroids=len(centroids), share=share))
    return found


def _of_residuals(allowed: Allowed, problem: Problem) -> list[Candidate]:
    """List a global Nyström map whose residuals the nearest rows predict, for some numbers of these."""
    size, gib = min(RESIDUAL_LANDMARKS, allowed.max_features, problem.n_rows), allowed.max_memory_gib
    features = NystroemFeatures(size)
    fits = 8.0 * problem.n_rows * (size + RESIDUAL_BLOCK) <= gib * 2**30
    if RESIDUAL not in allowed.methods or not fits or not _fits(features, problem, allowed):
        return []
    most = min(allowed.max_features, allowed.max_neighbours, problem.n_rows)
    recipes = [Residual(features, k, RESIDUAL_BLOCK, gib) for k in sorted({min(k, most) for k in RESIDUAL_NEIGHBOURS})]
    return [problem.candidate(RESIDUAL, size, recipe) for recipe in recipes]


def _of_rows(allowed: Allowed, problem: Problem) -> list[Candidate]:
    """List the exact GP of the nearest rows, and that of all rows."""
    n, gib, found = problem.n_rows, allowed.max_memory_gib, []
    if NEAREST_ROWS in allowed.methods:
        most = min(allowed.max_features, allowed.max_neighbours, max_rows_within(gib))
        fewer = [k for k in sizes(most) if 0 < k < n]
        if not fewer and EXACT not in allowed.methods:
            fewer = [n]
        found += [problem.of_nearest_rows(k, gib) for k in fewer]
    if allowed.takes_exact(n):
        found.append(problem.candidate(EXACT, n, Exact(gib)))
    return found
